//! Simple rules that the forecast is judged beside.
//!
//! A rule without a job to go by says the requested time, and without that the median of all that have ended.
//!
//! Next: `backtest`, which judges them.

use crate::job::{Ask, Job};
use std::collections::HashMap;
use trimtab_weather::Ordered;

/// Jobs of a user that the best known rule takes the mean of.
const LAST: usize = 2;

/// How a rule forecasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    LastTwoOfUser,
    Median(Shared),
    Request,
}

/// Facts that jobs of the same user share besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    ranks: bool,
    request: bool,
}

/// All rules, the mean of the last two first.
const RULES: [(&str, How); 6] = [
    (LAST_TWO, How::LastTwoOfUser),
    ("median of same user, ranks, request", How::Median(Shared { ranks: true, request: true })),
    ("median of same user, ranks", How::Median(Shared { ranks: true, request: false })),
    ("median of same user, request", How::Median(Shared { ranks: false, request: true })),
    ("median of same user", How::Median(Shared { ranks: false, request: false })),
    ("requested time", How::Request),
];
/// The name of the rule that history is first compared with.
pub(crate) const LAST_TWO: &str = "mean of last two of same user";
/// The number of rules.
pub(crate) const COUNT: usize = RULES.len();

/// All that rules know.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    last: HashMap<Option<u32>, Vec<f64>>,
    medians: Vec<HashMap<Ask, Ordered>>,
    all: Ordered,
}

impl Rules {
    pub(crate) fn new() -> Self {
        Rules { last: HashMap::new(), medians: vec![HashMap::new(); COUNT], all: Ordered::new(usize::MAX) }
    }

    pub(crate) fn names() -> [&'static str; COUNT] {
        RULES.map(|(name, _)| name)
    }

    /// The time that each says; `None`: there is neither a job that has ended nor a request.
    pub(crate) fn say(&self, ask: &Ask) -> Option<[f64; COUNT]> {
        let without_history = ask.requested_s.map(|s| s as f64).or_else(|| self.all.median())?;
        Some(std::array::from_fn(|at| self.one(at, ask).unwrap_or(without_history)))
    }

    fn one(&self, at: usize, ask: &Ask) -> Option<f64> {
        match RULES[at].1 {
            How::LastTwoOfUser => {
                let last = self.last.get(&ask.user)?;
                Some(last.iter().sum::<f64>() / last.len() as f64)
            }
            How::Median(shared) => self.medians[at].get(&shared.of(ask))?.median(),
            How::Request => None,
        }
    }

    pub(crate) fn learn(&mut self, job: &Job) {
        let last = self.last.entry(job.ask.user).or_default();
        last.push(job.ran_s);
        if last.len() > LAST {
            last.remove(0);
        }
        for (medians, (_, how)) in self.medians.iter_mut().zip(RULES) {
            if let How::Median(shared) = how {
                medians.entry(shared.of(&job.ask)).or_insert_with(|| Ordered::new(usize::MAX)).push(job.ran_s);
            }
        }
        self.all.push(job.ran_s);
    }
}

impl Shared {
    fn of(self, ask: &Ask) -> Ask {
        Ask {
            user: ask.user,
            ranks: ask.ranks.filter(|_| self.ranks),
            requested_s: ask.requested_s.filter(|_| self.request),
            ..Ask::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_goes_by_its_own_jobs_and_else_by_the_request() {
        let ask =
            |user, ranks, requested_s| Ask { user: Some(user), ranks: Some(ranks), requested_s, ..Ask::default() };
        let mut rules = Rules::new();
        assert_eq!(rules.say(&ask(1, 4, None)), None);
        for (asked, ran_s) in [(ask(1, 4, Some(90)), 10.0), (ask(1, 8, Some(90)), 20.0), (ask(1, 4, Some(60)), 60.0)] {
            rules.learn(&Job { ask: asked, ran_s, ..Job::default() });
        }
        assert_eq!(rules.say(&ask(1, 4, Some(90))), Some([40.0, 10.0, 35.0, 15.0, 20.0, 90.0]));
        assert_eq!(rules.say(&ask(2, 4, Some(77))), Some([77.0; COUNT]));
        assert_eq!(rules.say(&ask(2, 4, None)), Some([20.0; COUNT]), "the median of all");
    }
}
