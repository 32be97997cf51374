//! The answer: when each alternative ends, with its interval, its critical path, and which one is best.
//!
//! Each figure is moved to both ends of its interval by itself, and all steps are run again on the same ways; the squares of
//! what that changes add up, later and earlier apart. That holds for figures whose errors have nothing to do with each other.
//!
//! Next: `run` for one course of events.

use crate::build::{Builder, LoadOf, Stop, Whole};
use crate::error::Error;
use crate::facts::Facts;
use crate::ledger::Ledger;
use crate::plan::{Plan, Transfers};
use crate::quantity::{Quantity, SHARE_INSIDE};
use crate::routines::{Impossible, Routines};
use crate::run::{Ran, run};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// A transfer that takes so many times as long as alone has shared its way.
const SHARED: f64 = 1.001;
/// So many figures without an interval are named.
const NAMED_MAX: usize = 3;
/// A difference below this share of an end is none.
const ROUNDING: f64 = 1e-9;

/// All that is said.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// The share of ends that intervals are to hold.
    pub share_inside: f64,
    /// Alternatives in the order in which they were given.
    pub alternatives: Vec<Outlook>,
    /// Their places, the best first: those with a time, those that can only be ranked, those without a claim, the impossible.
    pub order: Vec<usize>,
    /// The place of the one that ends first; `None`: none has a time.
    pub chosen: Option<usize>,
    /// True if it ends before all others by more than their interval; `None`: there is no other, or some interval is not known.
    pub is_choice_sure: Option<bool>,
}

/// An alternative.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outlook {
    /// Its name.
    pub name: String,
    /// Its end, seconds from the start; `None`: see the next three.
    pub end_s: Option<Quantity>,
    /// Why it can't be done.
    pub impossible: Option<Impossible>,
    /// Why no time is said.
    pub no_claim: Option<String>,
    /// Without a time, the usual time of its routine by which it is ranked, seconds.
    pub usual_s: Option<f64>,
    /// Its steps, with the transfers that they need.
    pub steps: Vec<StepOutlook>,
    /// Places of steps, each of which waited for the one before it, up to the end.
    pub critical_path: Vec<usize>,
    /// The age of the oldest figure that was used, seconds; `None`: none has an age.
    pub oldest_age_s: Option<f64>,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A routine runs.
    Run,
    /// Data are sent.
    Send,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepOutlook {
    /// Its kind.
    pub kind: StepKind,
    /// The routine, or the data.
    pub what: String,
    /// The host of a routine, or the hosts of the way of data.
    pub hosts: Vec<String>,
    /// Bytes that are sent; `None`: of a routine.
    pub bytes: Option<f64>,
    /// Its beginning, seconds from the start.
    pub begins_s: f64,
    /// Its end, seconds from the start.
    pub ends_s: Quantity,
    /// Its time.
    pub takes_s: Quantity,
    /// A transfer's time if it shared its way with nobody; a routine's with a processor for itself. Seconds.
    pub alone_s: f64,
    /// True on the critical path.
    pub is_critical: bool,
}

/// Compares the alternatives of a plan.
///
/// # Errors
/// [`Error`]: a question that means nothing, an unknown host, figures that are wrong, missing or stale.
pub fn compare(plan: &Plan, facts: &Facts, routines: &dyn Routines) -> Result<Answer, Error> {
    plan.check()?;
    facts.check()?;
    if !facts.is_of_a_time() {
        return at_once(plan, facts, routines);
    }
    let now = at_once(plan, &facts.during(0.0), routines)?;
    let lasts_s = now.chosen.and_then(|chosen| Some(now.alternatives[chosen].end_s?.value));
    lasts_s.map_or(Ok(now), |lasts_s| at_once(plan, &facts.during(lasts_s), routines))
}

/// The same with figures that are of one time.
fn at_once(plan: &Plan, facts: &Facts, routines: &dyn Routines) -> Result<Answer, Error> {
    let mut ledger = Ledger::default();
    let mut all = Vec::new();
    for one in &plan.alternatives {
        let built = Builder::new(plan, facts, routines, &mut ledger).build(&one.steps);
        all.push(match built {
            Err(Stop::Wrong(error)) if !plan.is_lenient || !is_of_facts(&error) => return Err(error),
            built => built,
        });
    }
    let compared = Compared { in_turn: plan.transfers == Transfers::InTurn, settings: settings(&ledger), ledger, all };
    Ok(compared.answer(plan))
}

/// True if only this alternative's figures are at fault.
fn is_of_facts(error: &Error) -> bool {
    matches!(error, Error::Stale { .. } | Error::NoFigure { .. } | Error::Routine(_))
}

/// The expected values first, then those with one figure at the lower and at the upper end of its interval.
fn settings(ledger: &Ledger) -> Vec<Vec<f64>> {
    let middle = ledger.middle();
    let moved = |place: usize| {
        let ends = ledger.at(place).quantity.ends();
        let set = |value: f64| {
            let mut values = middle.clone();
            values[place] = value;
            values
        };
        ends.into_iter().flat_map(move |(lower, upper)| [lower, upper]).map(set).collect::<Vec<_>>()
    };
    let moved: Vec<Vec<f64>> = (0..ledger.len()).flat_map(moved).collect();
    std::iter::once(middle).chain(moved).collect()
}

struct Compared {
    in_turn: bool,
    settings: Vec<Vec<f64>>,
    ledger: Ledger,
    all: Vec<Result<Whole, Stop>>,
}

impl Compared {
    fn answer(&self, plan: &Plan) -> Answer {
        let runs: Vec<Option<Vec<Vec<Ran>>>> = self.all.iter().map(|one| Some(self.runs(one.as_ref().ok()?))).collect();
        let both = plan.alternatives.iter().zip(self.all.iter().zip(&runs));
        let alternatives: Vec<Outlook> = both
            .map(|(one, (built, runs))| match (built, runs) {
                (Ok(whole), Some(runs)) => self.timed(&one.name, whole, runs),
                (Err(stop), _) => stopped(&one.name, stop),
                (Ok(_), None) => unreachable!("all that was built was run"),
            })
            .collect();
        let order = order(&alternatives);
        let chosen = order.first().copied().filter(|at| alternatives[*at].end_s.is_some());
        let is_choice_sure = chosen.and_then(|chosen| self.is_sure(chosen, &order[1..], &runs));
        Answer { share_inside: SHARE_INSIDE, alternatives, order, chosen, is_choice_sure }
    }

    /// The course of events in all settings; where no figure of it moves, that of the first.
    fn runs(&self, whole: &Whole) -> Vec<Vec<Ran>> {
        let middle = &self.settings[0];
        let course = |values: &Vec<f64>| run(&whole.tasks(values), &whole.capacities(values), self.in_turn);
        let usual = course(middle);
        let is_moved = |values: &Vec<f64>| whole.used.iter().any(|at| values[*at] != middle[*at]);
        self.settings.iter().map(|values| if is_moved(values) { course(values) } else { usual.clone() }).collect()
    }

    fn has_interval(&self, whole: &Whole) -> bool {
        whole.used.iter().all(|at| self.ledger.at(*at).quantity.ends().is_some())
    }

    fn timed(&self, name: &str, whole: &Whole, runs: &[Vec<Ran>]) -> Outlook {
        let has_interval = self.has_interval(whole);
        let of = |value: &dyn Fn(&[Ran]) -> f64| {
            let spread = has_interval.then(|| spread(runs, value));
            let middle = value(&runs[0]);
            Quantity::with(middle, spread.map(|(down, up)| ((middle - down).max(0.0), middle + up)))
        };
        let critical_path = critical(&runs[0]);
        let values = &self.settings[0];
        let step = |at: usize| {
            let task = &whole.tasks[at];
            let (kind, alone_s) = match &task.load {
                LoadOf::Compute { alone, .. } => (StepKind::Run, values[*alone]),
                LoadOf::Transfer { .. } => (StepKind::Send, alone_s(whole, at, values)),
            };
            StepOutlook {
                kind,
                what: task.what.clone(),
                hosts: task.way.clone(),
                bytes: task.bytes,
                begins_s: runs[0][at].begins_s,
                ends_s: of(&|ran| ran[at].ends_s),
                takes_s: of(&|ran| ran[at].ends_s - ran[at].begins_s),
                alone_s,
                is_critical: critical_path.contains(&at),
            }
        };
        let steps: Vec<StepOutlook> = (0..whole.tasks.len()).map(step).collect();
        Outlook {
            name: name.to_owned(),
            end_s: Some(of(&end)),
            impossible: None,
            no_claim: None,
            usual_s: None,
            because: self.because(whole, &steps),
            steps,
            critical_path,
            oldest_age_s: whole.oldest_s,
        }
    }

    fn because(&self, whole: &Whole, steps: &[StepOutlook]) -> Vec<String> {
        let mut said = whole.because.clone();
        let times = |step: &&StepOutlook| step.takes_s.value / step.alone_s;
        let is_shared = |step: &&StepOutlook| step.kind == StepKind::Send && times(step) > SHARED;
        let shared: Vec<&StepOutlook> = steps.iter().filter(is_shared).collect();
        if !shared.is_empty() {
            let most = shared.iter().map(times).fold(0.0, f64::max);
            let names: BTreeSet<&str> = shared.iter().map(|step| step.what.as_str()).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            said.push(format!("transfers share their ways: {names} take up to {most:.2} times as long as alone"));
        }
        let notes = || whole.used.iter().map(|at| self.ledger.at(*at));
        let mut cautions: Vec<String> = notes().filter_map(|note| note.caution.clone()).collect();
        cautions.dedup();
        said.extend(cautions);
        let without: Vec<&str> =
            notes().filter(|note| note.quantity.ends().is_none()).map(|note| note.words.as_str()).collect();
        if !without.is_empty() {
            let more = match without.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(", and of {more} other figures"),
            };
            let named = without[..without.len().min(NAMED_MAX)].join(", of ");
            said.push(format!("there is no interval, because there is none of {named}{more}"));
        }
        said
    }

    /// True if all others end later by more than the interval of the difference.
    fn is_sure(&self, chosen: usize, others: &[usize], runs: &[Option<Vec<Vec<Ran>>>]) -> Option<bool> {
        let has_interval = |at: &usize| self.all[*at].as_ref().is_ok_and(|whole| self.has_interval(whole));
        let timed: Vec<usize> = others.iter().copied().filter(|at| runs[*at].is_some()).collect();
        if timed.is_empty() || !has_interval(&chosen) || !timed.iter().all(has_interval) {
            return None;
        }
        let best = runs[chosen].as_ref()?;
        let is_later = |other: &usize| {
            let other = runs[*other].as_ref()?;
            let differences: Vec<f64> = other.iter().zip(best).map(|(other, best)| end(other) - end(best)).collect();
            let down: f64 = differences.iter().map(|one| (one - differences[0]).min(0.0).powi(2)).sum();
            Some(differences[0] - down.sqrt() > ROUNDING * end(&other[0]))
        };
        timed.iter().map(is_later).try_fold(true, |all, one| Some(all && one?))
    }
}

fn stopped(name: &str, stop: &Stop) -> Outlook {
    let (impossible, no_claim, usual_s) = match stop {
        Stop::Impossible(why) => (Some(why.clone()), None, None),
        Stop::NoTime { why, usual_s } => (None, Some(why.clone()), *usual_s),
        Stop::Wrong(error) => (None, Some(error.to_string()), None),
    };
    Outlook {
        name: name.to_owned(),
        end_s: None,
        impossible,
        no_claim,
        usual_s,
        steps: Vec::new(),
        critical_path: Vec::new(),
        oldest_age_s: None,
        because: Vec::new(),
    }
}

/// The best first.
fn order(alternatives: &[Outlook]) -> Vec<usize> {
    let key = |at: &usize| {
        let one = &alternatives[*at];
        match (&one.end_s, one.usual_s, &one.impossible) {
            (Some(end), ..) => (0, end.value),
            (None, Some(usual_s), None) => (1, usual_s),
            (None, None, None) => (2, 0.0),
            (None, _, Some(_)) => (3, 0.0),
        }
    };
    let mut order: Vec<usize> = (0..alternatives.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (key(one), key(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    order
}

/// The end of all steps.
fn end(ran: &[Ran]) -> f64 {
    ran.iter().map(|task| task.ends_s).fold(0.0, f64::max)
}

/// How much earlier and later a value may be, over all settings.
fn spread(runs: &[Vec<Ran>], value: &dyn Fn(&[Ran]) -> f64) -> (f64, f64) {
    let middle = value(&runs[0]);
    let changes = runs[1..].iter().map(|ran| value(ran) - middle);
    let (down, up) = changes.fold((0.0, 0.0), |(down, up), change| match change < 0.0 {
        true => (down + change * change, up),
        false => (down, up + change * change),
    });
    (down.sqrt(), up.sqrt())
}

/// Each task waited for the one before it.
fn critical(ran: &[Ran]) -> Vec<usize> {
    let last = (0..ran.len()).max_by(|one, other| ran[*one].ends_s.total_cmp(&ran[*other].ends_s));
    let mut path: Vec<usize> = std::iter::successors(last, |at| ran[*at].cause).collect();
    path.reverse();
    path
}

/// The time of a transfer with nobody beside it.
fn alone_s(whole: &Whole, at: usize, values: &[f64]) -> f64 {
    let mut task = whole.tasks(values).swap_remove(at);
    task.after.clear();
    end(&run(&[task], &whole.capacities(values), false))
}
