//! Jobs that have ended, by what they share with one that is submitted.
//!
//! Next: `experts` for what is said from them.

use crate::accuracy::Weighed;
use crate::job::{Ask, Job};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use trimtab_weather::Ordered;

/// Jobs alike that are remembered, and how much each counts less than the one that ended after it.
const KEPT: usize = 64;
const KEEP: f64 = 0.97;
/// Run times in parts of the request that are remembered.
const PARTS_KEPT: usize = 1000;
/// From so many on they say if the request is a limit here.
const PARTS_KNOWN_FROM: usize = 50;
/// A request is a limit where this share of the jobs ran no longer than that part of it.
const LIMIT_SHARE: f64 = 0.95;
const LIMIT_PART: f64 = 1.05;
/// No run time is expected beyond this quantile of the parts.
const MOST_SHARE: f64 = 0.995;

/// Facts that a job is to share with another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kin {
    user: bool,
    account: bool,
    name: bool,
    ranks: bool,
    request: bool,
    queue: bool,
}

const ANY: Kin = Kin { user: false, account: false, name: false, ranks: false, request: false, queue: false };
const USER: Kin = Kin { user: true, ..ANY };

/// All kinds of jobs alike, the nearest first.
pub(crate) const KINS: [Kin; 10] = [
    Kin { name: true, ranks: true, request: true, ..USER },
    SAME_ASK,
    Kin { name: true, ..USER },
    SAME_REQUEST,
    Kin { ranks: true, ..USER },
    USER,
    Kin { account: true, ranks: true, request: true, ..ANY },
    Kin { queue: true, ranks: true, request: true, ..ANY },
    Kin { request: true, ..ANY },
    ANY,
];
const SAME_ASK: Kin = Kin { ranks: true, request: true, ..USER };
const SAME_REQUEST: Kin = Kin { request: true, ..USER };
/// Places in [`KINS`].
const AT_SAME_ASK: usize = 1;
const AT_SAME_REQUEST: usize = 3;
const AT_USER: usize = 5;

/// The nearest jobs that a forecast rests on, of those that had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Jobs of the same user with the same ranks and request.
    SameUserRanksRequest,
    /// Jobs of the same user with the same request, and others.
    SameUserRequest,
    /// Jobs of the same user, and others.
    SameUser,
    /// Jobs of other users.
    OtherUsers,
    /// No job had ended: the requested time.
    Request,
}

/// A job that ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    ran_s: f64,
    requested_s: Option<u64>,
}

/// All that is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// By place in [`KINS`] and what is shared, the latest first.
    ended: HashMap<(usize, Ask), VecDeque<Ended>>,
    /// Run times in parts of the request.
    parts: Ordered,
}

/// Times of jobs alike, the latest first.
pub(crate) struct Times {
    /// As they are, or in parts of the request where others than the user's count.
    pub(crate) plain: Vec<Weighed>,
    /// In parts of the request; empty where that says nothing more.
    pub(crate) scaled: Vec<Weighed>,
}

impl Kin {
    fn of(self, ask: &Ask) -> Ask {
        Ask {
            user: ask.user.filter(|_| self.user),
            account: ask.account.filter(|_| self.account),
            name: ask.name.filter(|_| self.name),
            ranks: ask.ranks.filter(|_| self.ranks),
            requested_s: ask.requested_s.filter(|_| self.request),
            queue: ask.queue.filter(|_| self.queue),
        }
    }
}

impl Past {
    pub(crate) fn new() -> Self {
        Past { ended: HashMap::new(), parts: Ordered::new(PARTS_KEPT) }
    }

    pub(crate) fn learn(&mut self, job: &Job) {
        let ended = Ended { ran_s: job.ran_s, requested_s: job.ask.requested_s };
        for (at, kin) in KINS.iter().enumerate() {
            let alike = self.ended.entry((at, kin.of(&job.ask))).or_default();
            alike.push_front(ended);
            alike.truncate(KEPT);
        }
        if let Some(requested) = job.ask.requested_s.filter(|requested| *requested > 0) {
            self.parts.push(job.ran_s / requested as f64);
        }
    }

    /// Times of those that share with `ask` what the kind at this place says; `None` if there are none.
    pub(crate) fn times(&self, at: usize, ask: &Ask) -> Option<Times> {
        let alike = self.ended.get(&(at, KINS[at].of(ask)))?;
        let (user, request) = (KINS[at].user, KINS[at].request);
        let limit_s = ask.requested_s.filter(|_| self.is_request_a_limit()).map_or(f64::INFINITY, |s| s as f64);
        let mut times = Times { plain: Vec::with_capacity(alike.len()), scaled: Vec::new() };
        let mut weight = 1.0;
        for ended in alike {
            let scaled = ended.in_parts_of(ask).filter(|_| !request);
            let plain = scaled.filter(|_| !user).unwrap_or(ended.ran_s);
            times.plain.push(Weighed { s: plain.min(limit_s), weight });
            times.scaled.extend(scaled.filter(|_| user).map(|s| Weighed { s: s.min(limit_s), weight }));
            weight *= KEEP;
        }
        Some(times)
    }

    pub(crate) fn basis(&self, ask: &Ask) -> Basis {
        let has = |at: usize| self.ended.contains_key(&(at, KINS[at].of(ask)));
        match () {
            () if has(AT_SAME_ASK) => Basis::SameUserRanksRequest,
            () if has(AT_SAME_REQUEST) => Basis::SameUserRequest,
            () if has(AT_USER) => Basis::SameUser,
            () if self.ended.is_empty() => Basis::Request,
            () => Basis::OtherUsers,
        }
    }

    /// The longest that a job with this request may be expected to run: the request, and more where jobs run on beyond theirs.
    /// `None`: nothing says so.
    pub(crate) fn most_s(&self, ask: &Ask) -> Option<f64> {
        let part = self.parts.quantile_outward(MOST_SHARE).filter(|_| self.parts.count() >= PARTS_KNOWN_FROM)?;
        ask.requested_s.map(|requested| requested as f64 * part.max(1.0))
    }

    /// True unless many jobs ran longer than they had requested.
    fn is_request_a_limit(&self) -> bool {
        let part = self.parts.quantile_outward(LIMIT_SHARE).filter(|_| self.parts.count() >= PARTS_KNOWN_FROM);
        part.is_none_or(|part| part <= LIMIT_PART)
    }
}

impl Ended {
    /// Its run time as if it had been requested as `ask` was.
    fn in_parts_of(&self, ask: &Ask) -> Option<f64> {
        let requested = self.requested_s.filter(|requested| *requested > 0)?;
        Some(self.ran_s / requested as f64 * ask.requested_s? as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(user: u32, ranks: u64, requested_s: u64, ran_s: f64) -> Job {
        let ask = Ask { user: Some(user), ranks: Some(ranks), requested_s: Some(requested_s), ..Ask::default() };
        Job { ask, ran_s, ended_s: ran_s, ..Job::default() }
    }

    #[test]
    fn the_basis_is_the_nearest_kind_that_has_a_job() {
        let mut past = Past::new();
        assert_eq!(past.basis(&job(1, 4, 100, 0.0).ask), Basis::Request);
        past.learn(&job(1, 4, 100, 50.0));
        for (user, ranks, request, basis) in [
            (1, 4, 100, Basis::SameUserRanksRequest),
            (1, 8, 100, Basis::SameUserRequest),
            (1, 8, 200, Basis::SameUser),
            (2, 4, 100, Basis::OtherUsers),
        ] {
            assert_eq!(past.basis(&job(user, ranks, request, 0.0).ask), basis);
        }
    }

    #[test]
    fn others_count_in_parts_of_the_request_and_the_users_own_both_ways() {
        let mut past = Past::new();
        past.learn(&job(1, 4, 100, 50.0));
        let ask = job(1, 8, 300, 0.0).ask;
        let own = past.times(AT_USER, &ask).expect("one job");
        assert_eq!((own.plain[0].s, own.scaled[0].s), (50.0, 150.0));
        let any = past.times(KINS.len() - 1, &ask).expect("one job");
        assert_eq!((any.plain[0].s, any.scaled.len()), (150.0, 0));
        assert!(past.times(AT_SAME_ASK, &ask).is_none());
    }

    #[test]
    fn a_request_is_a_limit_until_jobs_run_longer() {
        let mut past = Past::new();
        let ask = job(1, 1, 100, 0.0).ask;
        (0..60).for_each(|_| past.learn(&job(1, 1, 1000, 900.0)));
        let shortest = |past: &Past| past.times(AT_USER, &ask).expect("jobs").plain[0].s;
        assert_eq!((shortest(&past), past.most_s(&ask)), (100.0, Some(100.0)));
        (0..60).for_each(|_| past.learn(&job(1, 1, 1000, 3000.0)));
        assert_eq!((shortest(&past), past.most_s(&ask)), (3000.0, Some(300.0)));
    }
}
