//! The course of jobs that come and leave: formula 6, generalised.
//!
//! Between two events, a job that begins or one that ends, each has a constant pace, given by who is there.
//!
//! Next: `outlook`, which asks for ends; `pace` for the pace.

/// A job's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Task {
    /// Iterations to come.
    pub left: f64,
    /// Seconds from now.
    pub begins_s: f64,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// When each ends, seconds from now.
    pub ends_s: Vec<f64>,
    /// Those who were there, from when on.
    pub changes: Vec<(f64, Vec<bool>)>,
    /// Iterations that each still had as the first one ended.
    pub left_at_first_end: Vec<f64>,
}

/// Goes through the events. With `stay` nobody leaves: each has to the end whom it meets, which is formula 7. `pace` has seconds
/// of an iteration of a job beside those who are there.
pub(crate) fn course(tasks: &[Task], stay: bool, pace: impl Fn(usize, &[bool]) -> f64) -> Course {
    let count = tasks.len();
    let mut left: Vec<f64> = tasks.iter().map(|task| task.left).collect();
    let mut found = Course { ends_s: vec![f64::INFINITY; count], ..Course::default() };
    let mut now_s = 0.0_f64;
    while found.ends_s.iter().any(|end| end.is_infinite()) {
        let works = |job: usize| tasks[job].begins_s <= now_s && found.ends_s[job].is_infinite();
        let there: Vec<bool> = (0..count).map(|job| tasks[job].begins_s <= now_s && (stay || works(job))).collect();
        let paces: Vec<Option<f64>> = (0..count).map(|job| works(job).then(|| pace(job, &there))).collect();
        let begins = tasks.iter().map(|task| task.begins_s).filter(|begins_s| *begins_s > now_s);
        let ends = (0..count).filter_map(|job| Some(now_s + left[job] * paces[job]?));
        let next_s = begins.chain(ends.clone()).fold(f64::INFINITY, f64::min);
        found.changes.push((now_s, there));
        for job in 0..count {
            let Some(each_s) = paces[job] else { continue };
            let end_s = now_s + left[job] * each_s;
            left[job] = (left[job] - (next_s - now_s) / each_s).max(0.0);
            if end_s <= next_s {
                (left[job], found.ends_s[job]) = (0.0, end_s);
            }
        }
        if found.left_at_first_end.is_empty() && found.ends_s.iter().any(|end| end.is_finite()) {
            found.left_at_first_end.clone_from(&left);
        }
        // A pace that is no number would go on for ever: checked input has none.
        if !next_s.is_finite() {
            break;
        }
        now_s = next_s;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(tasks: &[(f64, f64)], stay: bool, slowdown: f64) -> Vec<f64> {
        let tasks: Vec<Task> = tasks.iter().map(|(left, begins_s)| Task { left: *left, begins_s: *begins_s }).collect();
        let pace = |_: usize, there: &[bool]| {
            let others = there.iter().filter(|is_there| **is_there).count() as i32 - 1;
            slowdown.powi(others)
        };
        course(&tasks, stay, pace).ends_s
    }

    #[test]
    fn two_jobs_end_by_formula_6() {
        let (a, b, slowdown) = (100.0, 40.0, 1.25);
        let found = ends(&[(a, 0.0), (b, 0.0)], false, slowdown);
        let end_b = b * slowdown;
        assert_eq!(found, vec![a + end_b - end_b / slowdown, end_b]);
        assert_eq!(ends(&[(a, 0.0), (b, 0.0)], true, slowdown), vec![a * slowdown, end_b], "formula 7");
    }

    #[test]
    fn jobs_come_and_leave() {
        // Alone for 10, together for 20 at half the pace, alone for the rest.
        assert_eq!(ends(&[(40.0, 0.0), (10.0, 10.0)], false, 2.0), vec![50.0, 30.0]);
        // The first has gone before the second comes.
        assert_eq!(ends(&[(5.0, 0.0), (10.0, 10.0)], false, 2.0), vec![5.0, 20.0]);
        // Three, one after the other.
        assert_eq!(ends(&[(4.0, 0.0), (4.0, 0.0), (4.0, 0.0)], false, 2.0), vec![16.0; 3]);
        assert_eq!(ends(&[(0.0, 3.0)], false, 2.0), vec![3.0], "nothing to do");
    }

    #[test]
    fn work_that_is_left_as_the_first_ends_is_known() {
        let tasks = [Task { left: 100.0, begins_s: 0.0 }, Task { left: 40.0, begins_s: 0.0 }];
        let found = course(&tasks, false, |_, there| if there == [true, true] { 1.25 } else { 1.0 });
        assert_eq!(found.left_at_first_end, vec![60.0, 0.0]);
        assert_eq!(found.changes, vec![(0.0, vec![true, true]), (50.0, vec![true, false])]);
    }
}
