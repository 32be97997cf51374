//! The pace of each job beside those who are there: seconds of one of its iterations.
//!
//! Next: `outlook`, which varies what is uncertain here; `processors` for the prediction.

use crate::between::Between;
use crate::job::{Job, Met, RankUse};
use crate::processors::{Sharing, slowdowns};
use crate::profile::{Place, Profile, Resource, by_another};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Jobs of one forecast.
pub(crate) const JOBS_MAX: usize = 16;
/// The loss of programs that take turns was between these parts of the one that is told in 51 of 72 measured slowdowns
/// (`benches/results/2026-11-28-forecast-pairs.json` and `-2.json`): the scheduler's turns are not of one length. With formula 2's
/// slowdown in the interval, 61 of 72 were in it.
const IN_TURNS: (f64, f64) = (0.4, 3.0);
/// A prediction of less than this says nothing of how a slowdown is made up.
const SLOWDOWN_MIN: f64 = 1.01;

/// How a slowdown was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From windows measured together and alone.
    Together,
    /// From what each uses of processors alone.
    Processors,
    /// From that, and from the answers to pressure that some or all of them have given.
    Profiles,
    /// From windows of when they met before.
    Met,
}

impl Method {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Method::Together => "measured together",
            Method::Processors => "predicted from processors",
            Method::Profiles => "predicted from profiles",
            Method::Met => "measured when they met before",
        }
    }
}

/// One choice of all that is uncertain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Seconds of an iteration alone, by job; `None`: not known.
    pub alone_s: Vec<Option<f64>>,
    /// The same together with all.
    pub together_s: Vec<Option<f64>>,
    /// How processors are shared.
    pub sharing: Sharing,
    /// The end of the interval of what profiles and earlier meetings say.
    pub end: End,
    /// The part of the slowdown beside all that remains beside some of them; `None`: as processors tell it.
    pub part: Option<f64>,
}

/// A value, or an end of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Value,
    Lower,
    Upper,
}

impl End {
    fn of(self, found: Between) -> f64 {
        let (lower, upper) = found.ends.unwrap_or((found.value, found.value));
        match self {
            End::Value => found.value,
            End::Lower => lower,
            End::Upper => upper,
        }
    }
}

/// Jobs that are there, and how they share.
type Question = (Vec<bool>, Sharing);

/// Computes paces, and keeps what processors say of those who were there.
pub(crate) struct Paces<'a> {
    method: Method,
    ranks: Option<Vec<&'a [RankUse]>>,
    profiles: Vec<Option<&'a Profile>>,
    /// How each got on beside each other one before.
    met: Vec<Vec<Option<&'a Met>>>,
    /// The slowdowns that formula 2 says of each beside the probes by which it was profiled.
    expected: Vec<Vec<f64>>,
    known: RefCell<BTreeMap<Question, Vec<f64>>>,
}

impl<'a> Paces<'a> {
    pub fn new(jobs: &'a [Job], method: Method) -> Paces<'a> {
        let ranks = jobs.iter().map(|job| job.ranks.as_deref().ok()).collect();
        let profiles = jobs.iter().map(|job| job.profile.as_ref().filter(|_| method == Method::Profiles)).collect();
        let expected = jobs.iter().map(|job| expected(job).unwrap_or_default()).collect();
        let met = jobs
            .iter()
            .map(|job| jobs.iter().map(|other| job.met.iter().find(|met| met.other == other.name)).collect());
        Paces { method, ranks, profiles, met: met.collect(), expected, known: RefCell::default() }
    }

    /// How a job got on beside the only one there that shares a node with it, when they met before; `None`: they did not, or several
    /// are there.
    pub fn met(&self, job: usize, there: &[bool]) -> Option<&'a Met> {
        let others = (0..there.len()).filter(|other| *other != job && there[*other]);
        let mut near = others.filter(|other| self.ranks.is_none() || self.place(job, *other).is_some());
        let other = near.next()?;
        self.met[job][other].filter(|_| near.next().is_none())
    }

    /// How many times as long a job takes beside those who are there: as measured before, else by processors and by what profiles
    /// say; `None`: the use of processors of some is not known.
    pub fn predicted(&self, job: usize, there: &[bool], sharing: Sharing) -> Option<Between> {
        if let Some(met) = self.met(job, there) {
            return Some(met.slowdown);
        }
        let own = self.profiles[job];
        let shared = own.and_then(|own| {
            let by_formula = self.by_processors(job, there, Sharing::Turns)?;
            own.sharing_at(by_formula, &self.expected[job])
        });
        let by_processors = Between::exactly(self.by_processors(job, there, sharing)?);
        match (shared, self.pressed(job, there)) {
            (None, None) => Some(by_processors),
            (shared, pressed) => {
                let found = match (shared, self.held_by(job, there)) {
                    (None, _) => by_processors,
                    // The answer to the probe, which never gives a processor away, is how far it may go.
                    (Some(shared), None) => by_processors.reaching(shared),
                    // The kernel may also give each job processors of its own, and change that while they run.
                    (Some(shared), Some(held)) => in_turns(shared, held).reaching(by_processors),
                };
                Some(by_another(pressed.map_or(found, |pressed| found.and(pressed))))
            }
        }
    }

    /// How long those who are there keep a processor once they have it, over how long a probe does that computes all the time, mean;
    /// `None`: of one of them that is not known.
    fn held_by(&self, job: usize, there: &[bool]) -> Option<f64> {
        let others = (0..there.len()).filter(|other| *other != job && there[*other]);
        let met = others.filter(|other| self.place(job, *other) == Some(Place::Upon));
        let held = |other: usize| self.profiles[other]?.keeps(&self.expected[other]);
        let all = met.map(held).collect::<Option<Vec<f64>>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The slowdown by others' use of cache and memory; `None`: not known.
    fn pressed(&self, job: usize, there: &[bool]) -> Option<Between> {
        self.profiles[job]?.beside(&self.partners(job, there)?)
    }

    /// The profiles of those who are there with a job, if all of them have one that was made as they meet.
    fn partners(&self, job: usize, there: &[bool]) -> Option<Vec<&'a Profile>> {
        let own = self.profiles[job]?;
        let others = (0..there.len()).filter(|other| *other != job && there[*other]);
        let met = others.filter_map(|other| Some((other, self.place(job, other)?)));
        let all: Option<Vec<&Profile>> = met
            .map(|(other, place)| self.profiles[other].filter(|other| other.place == place && own.place == place))
            .collect();
        all.filter(|all| !all.is_empty())
    }

    /// The parts of a job's slowdown beside all that profiles tell: its sharing of processors, cache, memory.
    pub fn known_by_profile(&self, job: usize) -> (bool, bool, bool) {
        let all = vec![true; self.profiles.len()];
        let Some(own) = self.profiles[job] else { return (false, false, false) };
        let by_formula = self.by_processors(job, &all, Sharing::Turns);
        let shared = by_formula.and_then(|factor| own.sharing_at(factor, &self.expected[job])).is_some();
        let partners = self.partners(job, &all).unwrap_or_default();
        let is_known = |resource: Resource| {
            let of_all = partners.iter().all(|other| other.felt(resource).is_some());
            !partners.is_empty() && own.felt(resource).is_some() && of_all
        };
        (shared, is_known(Resource::Cache), is_known(Resource::Memory))
    }

    /// How two jobs meet; `None`: on no node.
    fn place(&self, job: usize, other: usize) -> Option<Place> {
        let ranks = self.ranks.as_ref()?;
        let pairs = || ranks[job].iter().flat_map(|own| ranks[other].iter().map(move |other| (own, other)));
        if !pairs().any(|(own, other)| own.host == other.host) {
            return None;
        }
        let shares = |(own, other): (&RankUse, &RankUse)| {
            own.host == other.host && own.processors.iter().any(|one| other.processors.contains(one))
        };
        Some(if pairs().any(shares) { Place::Upon } else { Place::Beside })
    }

    /// How many times as long a job takes by the use of processors; `None`: that of some is not known.
    pub fn by_processors(&self, job: usize, there: &[bool], sharing: Sharing) -> Option<f64> {
        let ranks = self.ranks.as_ref()?;
        let mut known = self.known.borrow_mut();
        let all = known.entry((there.to_vec(), sharing)).or_insert_with(|| slowdowns(ranks, there, sharing));
        Some(all[job])
    }

    /// Seconds of an iteration of `job`; of one whose time alone is not known that beside all. `None`: neither is.
    pub fn pace(&self, setting: &Setting, job: usize, there: &[bool]) -> Option<f64> {
        let (alone, together) = (setting.alone_s[job], setting.together_s[job]);
        let count = there.iter().filter(|is_there| **is_there).count();
        match self.method {
            _ if count <= 1 => alone.or(together),
            Method::Processors | Method::Profiles | Method::Met => {
                Some(alone? * setting.end.of(self.predicted(job, there, setting.sharing)?))
            }
            Method::Together if count == there.len() => together,
            Method::Together => {
                let (Some(alone), Some(together)) = (alone, together) else { return together };
                let part = setting.part.unwrap_or_else(|| self.part(job, there, setting.sharing));
                Some(alone + (together - alone) * part)
            }
        }
    }

    /// The part of the slowdown beside all that is expected beside some: as processors tell it, else by their number.
    fn part(&self, job: usize, there: &[bool], sharing: Sharing) -> f64 {
        let beside = |there: &[bool]| self.by_processors(job, there, sharing);
        match (beside(there), beside(&vec![true; there.len()])) {
            (Some(some), Some(all)) if all > SLOWDOWN_MIN => ((some - 1.0) / (all - 1.0)).clamp(0.0, 1.0),
            _ => {
                let others = there.iter().filter(|is_there| **is_there).count() - 1;
                others as f64 / (there.len() - 1) as f64
            }
        }
    }
}

/// The slowdown beside others who keep a processor for this part of the time for which a probe does, where beside the probe it is
/// `shared`. A program whose ranks give their processor away while they wait for each other loses it once for each wait, and
/// for as long as the others compute between two waits of their own.
fn in_turns(shared: Between, held: f64) -> Between {
    let more = |end: f64| (end - 1.0).max(0.0) * held;
    let (lower, upper) = shared.ends.unwrap_or((shared.value, shared.value));
    Between {
        value: 1.0 + more(shared.value),
        ends: Some((1.0 + more(lower) * IN_TURNS.0, 1.0 + more(upper) * IN_TURNS.1)),
    }
}

/// The slowdowns that formula 2 says of a job beside probes that compute on its processors, at each point of its profile.
fn expected(job: &Job) -> Option<Vec<f64>> {
    let (profile, ranks) = (job.profile.as_ref()?, job.ranks.as_ref().ok()?);
    let host = &ranks.first()?.host;
    let probe = |level: f64| {
        let on = |processor: &u32| RankUse {
            host: host.clone(),
            processors: vec![*processor],
            wanted: level,
            computing: Some(level),
        };
        profile.processors.iter().map(on).collect::<Vec<RankUse>>()
    };
    let beside = |level: f64| slowdowns(&[ranks, &probe(level)], &[true, true], Sharing::Turns)[0];
    Some(profile.sharing.as_ref()?.points.iter().map(|point| beside(point.level)).collect())
}
