//! Slowdowns, ends and their intervals.
//!
//! Each quantity that was measured is moved to both ends of its interval by itself; the squares of what that changes add up. A
//! job's end grows with every one of them, so that this is the propagation of errors by differences.
//!
//! Next: `course` for ends, `pace` for what is moved.

use crate::between::Between;
use crate::course::{Course, Task, course};
use crate::error::{Error, check};
use crate::job::{Job, Remaining};
use crate::pace::{End, Method, Paces, Setting};
use crate::processors::Sharing;
use crate::unknown::Unknown;

/// The outlook of one job. A quantity that is missing is the reason why.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutlook {
    /// Time of an iteration with all the others over that alone.
    pub slowdown: Result<Between, Unknown>,
    /// The parts of a predicted slowdown that come from profiles.
    pub from_profile: FromProfile,
    /// Windows of when they met before, from which the slowdown is; `None`: it is not from such.
    pub met_windows: Option<usize>,
    /// Iterations to come from now on, at most.
    pub left: Option<f64>,
    /// Its loop may be left before.
    pub is_at_most: bool,
    /// Its end if it were alone, seconds from now.
    pub alone_end_s: Result<Between, Unknown>,
    /// Its end with the others, who come and leave: formula 6. Below zero: by its pace it ended so long ago.
    pub end_s: Result<Between, Unknown>,
    /// Its end if no other one left: formula 7.
    pub stay_end_s: Result<f64, Unknown>,
    /// Its place in the order of ends, from 1; `None`: some end is not known.
    pub place: Option<usize>,
    /// The share of its work to come that is done as the first one ends: formula 3 with the work as a whole.
    pub done_at_first_end: Option<f64>,
}

/// The parts of a slowdown that answers to pressure tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromProfile {
    /// How it takes turns with others on its processors.
    pub sharing: bool,
    /// The last cache.
    pub cache: bool,
    /// Bandwidth to memory.
    pub memory: bool,
}

/// All that is said.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// How slowdowns were derived.
    pub method: Method,
    /// By job, in the order in which they were given.
    pub jobs: Vec<JobOutlook>,
    /// No two intervals of ends overlap; `None`: some end or interval is not known.
    pub is_order_sure: Option<bool>,
    /// The share of ends inside of the intervals; `None`: they are from ways of sharing, and nobody knows how often these hold.
    pub share_inside: Option<f64>,
}

/// The outlook of jobs that are together, or are to be.
///
/// # Errors
/// [`Error`]: a number that can't be, jobs that don't fit together, or a prediction without a basis.
pub fn forecast(jobs: &[Job]) -> Result<Outlook, Error> {
    check(jobs)?;
    let method = method_of(jobs);
    if !matches!(method, Method::Together | Method::Met) {
        for job in jobs.iter().filter(|_| jobs.len() > 1) {
            if let Err(why) = &job.ranks {
                return Err(Error::NoProfile { job: job.name.clone(), why: why.clone() });
            }
        }
    }
    Ok(View { jobs, method, paces: Paces::new(jobs, method) }.outlook())
}

/// How slowdowns of jobs are derived.
pub(crate) fn method_of(jobs: &[Job]) -> Method {
    match jobs.first().is_some_and(|job| job.together_s.is_some()) {
        true => Method::Together,
        false if has_met(jobs) => Method::Met,
        false if jobs.len() > 1 && jobs.iter().any(|job| job.profile.is_some()) => Method::Profiles,
        false => Method::Processors,
    }
}

/// Two jobs met before, and both were measured then.
fn has_met(jobs: &[Job]) -> bool {
    let knows = |one: &Job, other: &Job| one.met.iter().any(|met| met.other == other.name);
    matches!(jobs, [one, other] if knows(one, other) && knows(other, one))
}

/// Jobs, and how they are looked at.
struct View<'a> {
    jobs: &'a [Job],
    method: Method,
    paces: Paces<'a>,
}

impl View<'_> {
    fn outlook(&self) -> Outlook {
        let ends = self.ends();
        let places = places(&ends);
        let first = self.course(&self.middle(), false);
        let jobs = self.jobs.iter().enumerate().map(|(at, job)| {
            let left = self.left(at, &self.middle());
            let done =
                |course: &Course| Some(1.0 - course.left_at_first_end.get(at)? / left.filter(|left| *left > 0.0)?);
            JobOutlook {
                slowdown: self.slowdown(at),
                from_profile: self.told_by_profile(at),
                met_windows: self.met_windows(at),
                left,
                is_at_most: matches!(job.remaining, Remaining::AtMost(_)),
                alone_end_s: self.alone_end(at),
                end_s: ends[at].clone(),
                stay_end_s: self.stay_end(at),
                place: places.as_ref().map(|places| places[at]),
                done_at_first_end: first.as_ref().ok().filter(|_| places.is_some()).and_then(done),
            }
        });
        let is_together = self.method == Method::Together || self.jobs.len() == 1;
        Outlook {
            method: self.method,
            jobs: jobs.collect(),
            is_order_sure: is_order_sure(&ends),
            share_inside: is_together.then_some(crate::SHARE),
        }
    }

    /// The expected value of everything.
    fn middle(&self) -> Setting {
        Setting {
            alone_s: self.jobs.iter().map(|job| job.alone_s.as_ref().ok().map(|alone| alone.value)).collect(),
            together_s: self.jobs.iter().map(|job| job.together_s.map(|together| together.value)).collect(),
            sharing: Sharing::Turns,
            end: End::Value,
            part: None,
        }
    }

    fn met_windows(&self, at: usize) -> Option<usize> {
        let all = vec![true; self.jobs.len()];
        self.paces.met(at, &all).filter(|_| self.method != Method::Together).map(|met| met.windows)
    }

    fn told_by_profile(&self, at: usize) -> FromProfile {
        if self.method != Method::Profiles || self.met_windows(at).is_some() {
            return FromProfile::default();
        }
        let (sharing, cache, memory) = self.paces.known_by_profile(at);
        FromProfile { sharing, cache, memory }
    }

    fn slowdown(&self, at: usize) -> Result<Between, Unknown> {
        let job = &self.jobs[at];
        if self.jobs.len() == 1 {
            return Ok(Between::exactly(1.0));
        }
        if let (Method::Together, Some(other)) = (self.method, job.left_alone_by.clone()) {
            return Err(Unknown::LeftAlone { other });
        }
        match (self.method, job.together_s) {
            (Method::Together, Some(together)) => Ok(together.over(job.alone_s.clone()?)),
            _ => {
                let all = vec![true; self.jobs.len()];
                let ways = [Sharing::Turns, Sharing::Even, Sharing::Computing];
                let unknown = Between::exactly(f64::NAN);
                let found = ways.map(|sharing| self.paces.predicted(at, &all, sharing).unwrap_or(unknown));
                let ends = found.map(|one| one.ends.unwrap_or((one.value, one.value)));
                let lowest = ends.iter().map(|ends| ends.0).fold(f64::MAX, f64::min);
                let highest = ends.iter().map(|ends| ends.1).fold(0.0, f64::max);
                Ok(Between { value: found[0].value, ends: Some((lowest, highest)) })
            }
        }
    }

    /// Iterations to come from now on: those at the window's end, less what was done since.
    fn left(&self, at: usize, setting: &Setting) -> Option<f64> {
        let job = &self.jobs[at];
        let count = job.remaining.count()? as f64;
        let pace = match job.together_s {
            Some(_) => setting.together_s[at],
            None => setting.alone_s[at],
        };
        Some(if job.since_s > 0.0 { (count - job.since_s / pace?).max(0.0) } else { count })
    }

    fn alone_end(&self, at: usize) -> Result<Between, Unknown> {
        let job = &self.jobs[at];
        let alone = job.alone_s.clone()?;
        let left = self.left(at, &self.middle()).ok_or_else(|| unknown_work(job))?;
        if self.ended(at).is_some() {
            return Err(has_ended(job));
        }
        Ok(if left > 0.0 { alone.times(left) } else { Between::exactly(0.0) }.after(job.begins_s))
    }

    /// The end of a job whose iterations, at its pace, have all been done since its window, seconds from now and not above zero.
    fn ended(&self, at: usize) -> Option<Between> {
        let job = &self.jobs[at];
        let pace = job.together_s.or_else(|| job.alone_s.clone().ok())?;
        let end = pace.times(job.remaining.count()? as f64).after(-job.since_s);
        (job.since_s > 0.0 && end.value <= 0.0).then_some(end)
    }

    fn stay_end(&self, at: usize) -> Result<f64, Unknown> {
        let job = &self.jobs[at];
        let left = self.left(at, &self.middle()).ok_or_else(|| unknown_work(job))?;
        if self.ended(at).is_some() {
            return Err(has_ended(job));
        }
        // Alone among those who come: others' work does not matter where nobody leaves.
        let course = self.course_of(&self.middle(), true, |other| if other == at { Some(left) } else { Some(0.0) });
        Ok(course?.ends_s[at])
    }

    fn course(&self, setting: &Setting, stay: bool) -> Result<Course, Unknown> {
        self.course_of(setting, stay, |at| self.left(at, setting))
    }

    fn course_of(&self, setting: &Setting, stay: bool, left: impl Fn(usize) -> Option<f64>) -> Result<Course, Unknown> {
        let task = |at: usize| {
            let job = &self.jobs[at];
            let left = left(at).ok_or_else(|| unknown_work(job))?;
            if setting.alone_s[at].is_none() && setting.together_s[at].is_none() && left > 0.0 {
                return Err(job.alone_s.clone().err().unwrap_or_else(|| unknown_work(job)));
            }
            Ok(Task { left, begins_s: job.begins_s })
        };
        let tasks = (0..self.jobs.len()).map(task).collect::<Result<Vec<Task>, Unknown>>()?;
        Ok(course(&tasks, stay, |job, there| self.paces.pace(setting, job, there).unwrap_or(0.0)))
    }

    fn ends(&self) -> Vec<Result<Between, Unknown>> {
        let middle = match self.course(&self.middle(), false) {
            Ok(course) => course,
            Err(why) => return vec![Err(why); self.jobs.len()],
        };
        let unsure = self.unsure(&middle);
        let spread = self.spread(&middle);
        let end = |at: usize| {
            if let Some(ended) = self.ended(at) {
                return Ok(ended);
            }
            let value = middle.ends_s[at];
            if let Some((from_s, why)) = &unsure
                && value > *from_s
            {
                return Err(why.clone());
            }
            let ends = spread.as_ref().map(|spread| {
                let (down, up) = spread[at];
                ((value - down.sqrt()).max(0.0), value + up.sqrt())
            });
            Ok(Between { value, ends })
        };
        (0..self.jobs.len()).map(end).collect()
    }

    /// From when on the pace of a job is not known that has no window alone, and why.
    fn unsure(&self, course: &Course) -> Option<(f64, Unknown)> {
        let is_partial = |there: &[bool], at: usize| there[at] && there.contains(&false);
        let found = course.changes.iter().find_map(|(from_s, there)| {
            let mut unknown = self.jobs.iter().enumerate().filter(|(_, job)| job.alone_s.is_err());
            let (_, job) = unknown.find(|(at, _)| is_partial(there, *at))?;
            Some((*from_s, job))
        });
        let (from_s, job) = found?;
        let why = job.alone_s.as_ref().err()?;
        Some((from_s, Unknown::Apart { job: job.name.clone(), why: Box::new(why.clone()) }))
    }

    /// The squares by which each end may come earlier and later; `None`: a window has no interval.
    fn spread(&self, middle: &Course) -> Option<Vec<(f64, f64)>> {
        let mut squares = vec![(0.0, 0.0); self.jobs.len()];
        for setting in self.moved()? {
            let moved = self.course(&setting, false).ok()?;
            for (sum, (end, usual)) in squares.iter_mut().zip(moved.ends_s.iter().zip(&middle.ends_s)) {
                let change = (end - usual).powi(2);
                if end < usual { sum.0 += change } else { sum.1 += change }
            }
        }
        Some(squares)
    }

    /// Each uncertain quantity by itself at both ends.
    fn moved(&self) -> Option<Vec<Setting>> {
        let mut all = Vec::new();
        for (at, job) in self.jobs.iter().enumerate() {
            if let Ok(alone) = &job.alone_s {
                let (lower, upper) = alone.ends?;
                all.extend([lower, upper].map(|end| self.with(|setting| setting.alone_s[at] = Some(end))));
            }
            if let Some(together) = &job.together_s {
                let (lower, upper) = together.ends?;
                all.extend([lower, upper].map(|end| self.with(|setting| setting.together_s[at] = Some(end))));
            }
        }
        match self.method {
            Method::Together if self.jobs.len() > 2 => {
                all.extend([0.0, 1.0].map(|part| self.with(|setting| setting.part = Some(part))));
            }
            Method::Together => {}
            Method::Processors | Method::Profiles | Method::Met => {
                let others = [Sharing::Even, Sharing::Computing];
                all.extend(others.map(|sharing| self.with(|setting| setting.sharing = sharing)));
                let ends = [End::Lower, End::Upper];
                all.extend(ends.map(|end| self.with(|setting| setting.end = end)));
            }
        }
        Some(all)
    }

    fn with(&self, change: impl Fn(&mut Setting)) -> Setting {
        let mut setting = self.middle();
        change(&mut setting);
        setting
    }
}

fn unknown_work(job: &Job) -> Unknown {
    let name = job.name.clone();
    match &job.remaining {
        Remaining::Unknown(why) => Unknown::Iterations { job: name, why: Box::new(why.clone()) },
        _ => Unknown::Pace { job: name },
    }
}

fn has_ended(job: &Job) -> Unknown {
    Unknown::Over { job: job.name.clone() }
}

/// The place of each end, from 1; equal ends have the same.
fn places(ends: &[Result<Between, Unknown>]) -> Option<Vec<usize>> {
    let values: Vec<f64> = ends.iter().map(|end| end.as_ref().ok().map(|end| end.value)).collect::<Option<_>>()?;
    Some(values.iter().map(|own| 1 + values.iter().filter(|other| *other < own).count()).collect())
}

fn is_order_sure(ends: &[Result<Between, Unknown>]) -> Option<bool> {
    let mut intervals: Vec<(f64, f64)> =
        ends.iter().map(|end| end.as_ref().ok().and_then(|end| end.ends)).collect::<Option<_>>()?;
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(intervals.windows(2).all(|pair| pair[0].1 < pair[1].0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Met, RankUse};

    fn job(name: &str, remaining: u64, alone_s: f64, together_s: Option<f64>) -> Job {
        Job {
            name: name.to_owned(),
            begins_s: 0.0,
            since_s: 0.0,
            remaining: Remaining::Exactly(remaining),
            alone_s: Ok(Between::of_mean(alone_s, Some(0.01 * alone_s))),
            together_s: together_s.map(|mean| Between::of_mean(mean, Some(0.01 * mean))),
            left_alone_by: None,
            ranks: Err(Unknown::NoPlace { rank: 0 }),
            profile: None,
            met: Vec::new(),
        }
    }

    fn on_one(wanted: f64) -> Result<Vec<RankUse>, Unknown> {
        Ok(vec![RankUse { host: "n1".to_owned(), processors: vec![0], wanted, computing: Some(wanted) }])
    }

    #[test]
    fn two_measured_jobs_have_slowdowns_ends_and_intervals() {
        let found = forecast(&[job("a", 100, 1.0, Some(1.5)), job("b", 40, 1.0, Some(1.25))]).unwrap();
        let (a, b) = (&found.jobs[0], &found.jobs[1]);
        let slowdown = a.slowdown.clone().unwrap();
        let (lower, upper) = slowdown.ends.unwrap();
        assert!((slowdown.value - 1.5).abs() < 1e-12 && lower < 1.49 && upper > 1.51, "{slowdown:?}");
        let end = a.end_s.clone().unwrap();
        assert!((end.value - (100.0 + 50.0 - 50.0 / 1.5)).abs() < 1e-9, "{end:?}");
        assert!(end.ends.is_some_and(|(lower, upper)| lower < 116.3 && upper > 117.0 && upper < 118.5), "{end:?}");
        assert_eq!((a.place, b.place, found.is_order_sure), (Some(2), Some(1), Some(true)));
        assert_eq!((a.stay_end_s.clone(), b.done_at_first_end), (Ok(150.0), Some(1.0)));
        assert!(a.done_at_first_end.is_some_and(|done| (done - 50.0 / 150.0).abs() < 1e-12), "formula 3: {a:?}");
        assert_eq!(found.share_inside, Some(0.9));
    }

    #[test]
    fn without_a_window_alone_an_end_is_known_only_while_all_are_there() {
        let unknown = |mut job: Job| {
            job.alone_s = Err(Unknown::NoneGiven);
            job
        };
        let [a, b] = [job("a", 100, 1.0, Some(1.5)), job("b", 40, 1.0, Some(1.25))];
        let found = forecast(&[a.clone(), unknown(b.clone())]).unwrap();
        assert!(found.jobs[0].end_s.as_ref().is_ok_and(|end| (end.value - 116.666).abs() < 0.01), "{found:?}");
        assert!(found.jobs[1].slowdown.is_err() && found.jobs[1].end_s.is_ok(), "{found:?}");
        let found = forecast(&[unknown(a), b]).unwrap();
        assert!(
            found.jobs[0].end_s.as_ref().is_err_and(|why| why.to_string().contains("how fast a goes on")),
            "{found:?}"
        );
        assert_eq!((found.jobs[0].stay_end_s.clone(), found.jobs[0].place), (Ok(150.0), None));
        assert!(found.jobs[1].end_s.is_ok());
    }

    #[test]
    fn without_the_iterations_to_come_there_is_no_end() {
        let mut endless = job("b", 40, 1.0, Some(1.25));
        endless.remaining = Remaining::Unknown(Unknown::NoLoop);
        let found = forecast(&[job("a", 100, 1.0, Some(1.5)), endless]).unwrap();
        assert!(found.jobs.iter().all(|job| job.end_s.is_err()), "{found:?}");
        assert!(found.jobs[0].stay_end_s == Ok(150.0) && found.jobs[0].alone_end_s.is_ok(), "{found:?}");
        assert!(found.jobs[1].slowdown.is_ok());
    }

    #[test]
    fn time_since_a_window_is_work_done() {
        let mut late = job("a", 100, 1.0, Some(2.0));
        late.since_s = 20.0;
        let found = forecast(&[late, job("b", 1000, 1.0, Some(2.0))]).unwrap();
        assert_eq!(found.jobs[0].left, Some(90.0));
        assert!(found.jobs[0].end_s.as_ref().is_ok_and(|end| (end.value - 180.0).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn a_job_that_has_ended_meanwhile_ended_then() {
        let mut over = job("a", 10, 1.0, Some(2.0));
        over.since_s = 25.0;
        let left_alone = Job { left_alone_by: Some("a".to_owned()), ..job("b", 40, 1.0, Some(2.0)) };
        let found = forecast(&[over.clone(), left_alone]).unwrap();
        let slowdown = found.jobs[1].slowdown.clone().unwrap_err();
        assert_eq!(slowdown.to_string(), "a ended, by its pace, before the window of this one was over");
        let found = forecast(&[over, job("b", 40, 1.0, Some(2.0))]).unwrap();
        let (a, b) = (&found.jobs[0], &found.jobs[1]);
        let end = a.end_s.clone().unwrap();
        assert!((end.value + 5.0).abs() < 1e-9 && end.ends.is_some_and(|(lower, upper)| lower < -5.0 && upper > -5.0));
        assert!(a.alone_end_s.is_err() && a.stay_end_s.is_err() && a.slowdown.is_ok(), "{a:?}");
        assert_eq!((a.place, b.place, a.left, a.done_at_first_end), (Some(1), Some(2), Some(0.0), None));
        assert!(b.end_s.clone().is_ok_and(|end| (end.value - 40.0).abs() < 1e-9), "it goes on alone: {b:?}");
    }

    #[test]
    fn before_they_meet_processors_say_it() {
        let with = |name: &str, wanted: f64, begins_s: f64| Job {
            ranks: on_one(wanted),
            begins_s,
            ..job(name, 100, 1.0, None)
        };
        let found = forecast(&[with("a", 0.8, 0.0), with("b", 0.5, 50.0)]).unwrap();
        let slowdown = found.jobs[0].slowdown.clone().unwrap();
        assert!((slowdown.value - 1.3).abs() < 1e-9, "{slowdown:?}");
        // 50 alone, 65 together, and B does the rest alone.
        let ends: Vec<f64> = found.jobs.iter().map(|job| job.end_s.clone().unwrap().value).collect();
        assert!((ends[0] - 115.0).abs() < 1e-6 && (ends[1] - 165.0).abs() < 1e-6, "{ends:?}");
        assert_eq!((found.method, found.share_inside), (Method::Processors, None));
        let none = forecast(&[job("a", 1, 1.0, None), with("b", 0.5, 0.0)]);
        assert!(matches!(none, Err(Error::NoProfile { .. })), "{none:?}");
    }

    #[test]
    fn those_who_met_before_are_as_slow_as_then() {
        let met = |other: &str, factor: f64| {
            let slowdown = Between { value: factor, ends: Some((0.9 * factor, 1.2 * factor)) };
            vec![Met { other: other.to_owned(), slowdown, windows: 3 }]
        };
        let a = Job { met: met("b", 4.0), ..job("a", 100, 1.0, None) };
        let b = Job { met: met("a", 1.25), ..job("b", 400, 1.0, None) };
        // Their use of processors need not be known.
        let found = forecast(&[a.clone(), b.clone()]).unwrap();
        assert_eq!((found.method, found.share_inside), (Method::Met, None));
        let own = &found.jobs[0];
        assert!(own.slowdown.clone().is_ok_and(|it| it.value == 4.0 && it.ends == Some((3.6, 4.8))), "{found:?}");
        let end = own.end_s.clone().unwrap();
        assert!(
            (end.value - 400.0).abs() < 1e-6 && end.ends.is_some_and(|(lower, upper)| lower <= 360.0 && upper >= 480.0)
        );
        // The rest of b is done alone: 400 s hold 320 of its iterations.
        assert!(found.jobs[1].end_s.clone().is_ok_and(|end| (end.value - 480.0).abs() < 1e-6), "{found:?}");
        // A third one is there that nobody has met: processors say it, for all of them.
        let with = |job: Job| Job { ranks: on_one(0.8), ..job };
        let third = forecast(&[with(a.clone()), with(b), with(job("c", 100, 1.0, None))]).unwrap();
        assert!(third.method == Method::Processors && third.jobs[0].met_windows.is_none(), "{third:?}");
        // One who was not measured then is predicted, the other one is not.
        let half = forecast(&[with(a), with(job("b", 400, 1.0, None))]).unwrap();
        assert_eq!(
            (half.method, half.jobs[0].met_windows, half.jobs[1].met_windows),
            (Method::Processors, Some(3), None)
        );
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let good = || job("a", 100, 1.0, Some(1.5));
        let no_number = |change: &dyn Fn(&mut Job)| {
            let mut wrong = good();
            change(&mut wrong);
            assert!(matches!(forecast(&[good(), wrong.clone()]), Err(Error::NoNumber { .. })), "{wrong:?}");
        };
        no_number(&|job| job.together_s = Some(Between::exactly(-1.0)));
        no_number(&|job| job.alone_s = Ok(Between::of_mean(f64::NAN, None)));
        no_number(&|job| job.alone_s = Ok(Between::exactly(0.0)));
        no_number(&|job| job.begins_s = f64::INFINITY);
        no_number(&|job| job.since_s = -1.0);
        no_number(&|job| job.ranks = on_one(-0.5));
        assert_eq!(forecast(&[]), Err(Error::NoJob));
        let mixed = forecast(&[good(), job("b", 1, 1.0, None)]);
        assert!(matches!(mixed, Err(Error::Mixed { .. })), "{mixed:?}");
        assert_eq!(forecast(&vec![good(); 17]), Err(Error::TooMany { count: 17 }));
    }
}
