//! A job's way as stored windows show it.
//!
//! Next: `job`, which forecasts with it.

use trimtab_progress::{Look, Outer, OuterLook, Remaining};
use trimtab_types::report::{LoopProgress, OuterProgress, Report, Window};

/// Windows of one job that are looked at, at most: the newest.
pub const LOOKS_OF_JOB_MAX: usize = 64;
/// Iterations to come that are known but for so many are a place: a look at a loop's tests may be one pass off either way.
const SAME_PLACE: u64 = 2;

/// Windows of one job as looks at its way, from the newest on for as long as they tell of the same loop; and the iterations
/// still to come behind the newest. `reports` are the oldest first; the job began at `begun_unix_s`.
pub fn looks(reports: &[Report], begun_unix_s: f64) -> (Vec<Look>, Remaining) {
    let Some(newest) = reports.last() else { return (Vec::new(), Remaining::Unknown) };
    let mut found: Vec<Look> = Vec::new();
    for report in reports.iter().rev().filter(|report| is_alike(report, newest)) {
        let Some(look) = look(report, newest, begun_unix_s) else { continue };
        // An earlier pass of the same loop is another way.
        let is_before = |later: &Look| {
            look.at_s <= later.at_s - later.duration_s
                && look.place.zip(later.place).is_none_or(|(own, later)| own < later)
        };
        if found.last().is_none_or(is_before) {
            found.push(look);
        }
    }
    found.reverse();
    (found, remaining(newest))
}

/// The loop whose end is the job's, around the counted one or where none counts: the outermost that is not in its last pass, if it is
/// known how far all are that lie around it. `None`: there is none. `reports` and the job's beginning as those of [`looks`].
pub fn outer(reports: &[Report], begun_unix_s: f64) -> Option<Outer> {
    let is_around = |window: &Window| window.main_loop.is_none() || window.is_of_inner_loop();
    let newest = reports.last().filter(|newest| newest.window.valid && is_around(&newest.window))?;
    let one = newest.window.outer_progress.iter().find(|one| one.to_come_at_most != Some(0))?;
    let mut looks = Vec::new();
    for report in reports {
        let same = report.window.outer_progress.iter().find(|other| other.name == one.name);
        let look =
            same.filter(|other| is_same_run(other, one)).and_then(|other| outer_look(report, other, begun_unix_s));
        // A counter that jumps back tells that it ran another time before.
        let goes_on = |before: &OuterLook| look.is_none_or(|look| look.to_come <= before.to_come);
        looks.retain(goes_on);
        looks.extend(look);
    }
    let last = looks.last().copied()?;
    outer_look(newest, one, begun_unix_s).filter(|look| *look == last)?;
    Some(Outer { name: one.name.clone(), looks, may_end_before: one.to_come.is_none(), is_likely: one.is_likely })
}

/// True if both have as many passes in all.
fn is_same_run(own: &OuterProgress, other: &OuterProgress) -> bool {
    let all = |one: &OuterProgress| one.done.zip(one.to_come_at_most).map(|(done, to_come)| done + to_come);
    all(own) == all(other)
}

fn outer_look(report: &Report, one: &OuterProgress, begun_unix_s: f64) -> Option<OuterLook> {
    let window = &report.window;
    let at_s = window.started_unix_s? + window.duration_s - begun_unix_s;
    let each_s = report.time_per_iteration_s.as_ref().map(|estimate| estimate.mean);
    let progress = window.progress.as_ref();
    // A loop that may be left before takes no time for certain.
    let known =
        progress.and_then(|progress| progress.done.zip(progress.remaining)).zip(each_s).filter(|_| window.valid);
    let (inner_done_s, inner_left_s) =
        known.map_or((0.0, 0.0), |((done, left), each_s)| (done as f64 * each_s, left as f64 * each_s));
    Some(OuterLook { at_s, to_come: one.to_come_at_most?, done: one.done, inner_done_s, inner_left_s })
        .filter(|look| look.at_s > 0.0)
}

/// Windows up to the newest valid one, if any is: one that is not says nothing of what comes. `reports` are the oldest first.
pub fn until_valid(mut reports: Vec<Report>) -> Vec<Report> {
    if let Some(place) = reports.iter().rposition(|report| report.window.valid) {
        reports.truncate(place + 1);
    }
    reports
}

fn is_alike(report: &Report, newest: &Report) -> bool {
    let (own, other) = (&report.window, &newest.window);
    let total = |progress: &LoopProgress| (progress.total_at_most, progress.likely.and_then(|likely| likely.total));
    let all = |report: &Report| report.window.progress.as_ref().map_or((None, None), total);
    own.valid && own.main_loop == other.main_loop && own.marker == other.marker && all(report) == all(newest)
}

fn look(report: &Report, newest: &Report, begun_unix_s: f64) -> Option<Look> {
    let window = &report.window;
    let iterations = window.iterations.filter(|count| *count > 0)?;
    let counts_up = way(newest).done.is_some();
    let own = way(report);
    let place = match counts_up {
        true => own.done.and_then(|done| i64::try_from(done).ok()),
        false => own.remaining.and_then(|remaining| i64::try_from(remaining).ok()).map(|remaining| -remaining),
    };
    // A range of iterations to come is no place among those of other windows.
    let place = place.filter(|_| range(report).is_none_or(|(least, most)| most.saturating_sub(least) <= SAME_PLACE));
    let at_s = window.started_unix_s? + window.duration_s - begun_unix_s;
    (at_s >= window.duration_s && window.duration_s > 0.0).then(|| Look {
        at_s,
        done: own.done,
        place,
        iterations,
        duration_s: window.duration_s,
        times_s: times(report),
        half_width_s: report.time_per_iteration_s.and_then(|estimate| estimate.half_width_95),
    })
}

/// The iterations' times, each the mean over ranks.
fn times(report: &Report) -> Vec<f64> {
    let ranks: Vec<&Vec<f64>> = report.ranks.iter().map(|rank| &rank.iteration_times_s).collect();
    let count = ranks.iter().map(|times| times.len()).min().unwrap_or(0);
    (0..count).map(|place| ranks.iter().map(|times| times[place]).sum::<f64>() / ranks.len() as f64).collect()
}

/// How far the loop was; where that is only likely, as it is likely.
fn way(report: &Report) -> LoopProgress {
    let mut progress = report.window.progress.clone().unwrap_or_default();
    let likely = progress.likely.unwrap_or_default();
    progress.done = progress.done.or(likely.done);
    progress.remaining = progress.remaining.or(likely.remaining);
    progress
}

/// The range of iterations to come, where they are told by looks at the loop's tests.
fn range(report: &Report) -> Option<(u64, u64)> {
    let progress = report.window.progress.as_ref().filter(|progress| progress.remaining.is_none())?;
    let likely = progress.likely?;
    likely.remaining_lower.zip(likely.remaining_upper)
}

fn remaining(report: &Report) -> Remaining {
    let progress = way(report);
    let likely_most = progress.likely.and_then(|likely| likely.remaining_at_most);
    let at_most =
        progress.total_at_most.zip(progress.done).and_then(|(all, done)| all.checked_sub(done)).or(likely_most);
    match (progress.remaining, range(report), at_most) {
        _ if !report.window.valid => Remaining::Unknown,
        (Some(expected), Some((least, most)), _) => Remaining::Between { expected, least, most },
        (Some(remaining), None, _) => Remaining::Exactly(remaining),
        (None, _, Some(at_most)) => Remaining::AtMost(at_most),
        (None, _, None) => Remaining::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn window(at_unix_s: f64, is_valid: bool, remaining: Option<u64>) -> Report {
        let progress = json!({
            "done": null, "remaining": remaining, "total": null, "total_at_most": null, "explanation": "by its counter",
        });
        let report: Value = json!({
            "schema": "trimtab.report/1",
            "job": {
                "id": "cg-1", "program": "/opt/cg", "arguments": [], "ranks": 2, "mpi": "m", "hosts": ["n1"],
                "builds": ["/opt/cg ab12"], "started_unix_s": 0.0,
            },
            "window": {
                "batch": 0, "trigger": "forecast", "marker": "loop 1", "marker_source": "detected", "start": null,
                "iterations": 10, "valid": is_valid, "ended_by": "iterations", "duration_s": 1.0,
                "started_unix_s": at_unix_s, "groups": [], "loop_description": null, "progress": progress,
            },
            "time_per_iteration_s": null, "iterations_per_s": 10.0, "communication_fraction": null,
            "communication_to_computation": null, "imbalance": null, "functions": [], "links": [], "ranks": [],
            "cost": {
                "pause_us_max": 0.0, "pause_us_total": 0.0, "probe_ns": null, "probes": 1, "points": 1, "fraction": null,
                "first_record_s": null,
            },
            "warnings": [],
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn a_window_that_is_not_valid_does_not_hide_the_one_before() {
        let all = vec![window(10.0, true, Some(90)), window(20.0, true, Some(50)), window(30.0, false, None)];
        let (found, remaining) = looks(&until_valid(all.clone()), 0.0);
        assert_eq!((found.len(), remaining), (2, Remaining::Exactly(50)));
        let (found, remaining) = looks(&until_valid(all[2..].to_vec()), 0.0);
        assert_eq!((found.len(), remaining), (0, Remaining::Unknown), "there is no other");
        assert!(until_valid(Vec::new()).is_empty());
    }

    #[test]
    fn a_loop_around_is_looked_at_for_as_long_as_it_goes_on() {
        let at = |at_unix_s: f64, done: u64, to_come: u64| {
            let mut report = window(at_unix_s, true, None);
            let (done, to_come) = (Some(done), Some(to_come));
            let name = "loop 1 of main".to_owned();
            let one = OuterProgress { name, done, to_come, to_come_at_most: to_come, is_likely: false, missing: None };
            report.window.loops_around = Some(vec![one.name.clone()]);
            report.window.outer_progress = vec![one];
            report
        };
        let all = [at(5.0, 8, 1), at(10.0, 2, 7), at(20.0, 4, 5)];
        let found = outer(&all, 0.0).expect("it is known");
        let seen: Vec<(f64, u64)> = found.looks.iter().map(|look| (look.at_s, look.to_come)).collect();
        assert_eq!(seen, [(11.0, 7), (21.0, 5)], "the first was another time that it ran");
        assert_eq!(outer(&[at(10.0, 9, 0)], 0.0), None, "it is in its last pass");
        let mut unknown = at(20.0, 4, 5);
        unknown.window.outer_progress.insert(0, OuterProgress::default());
        assert_eq!(outer(&[unknown], 0.0), None, "nothing is known of the one around it");
        let mut uncounted = at(20.0, 4, 5);
        (uncounted.window.loops_around, uncounted.window.main_loop, uncounted.window.iterations) = (None, None, None);
        let found = outer(&[at(10.0, 2, 7), uncounted], 0.0).expect("no loop counts, and one is known");
        assert_eq!(found.looks.len(), 2, "{found:?}");
        let mut invalid = at(20.0, 4, 5);
        invalid.window.valid = false;
        assert_eq!(outer(&[invalid], 0.0), None);
    }
}
