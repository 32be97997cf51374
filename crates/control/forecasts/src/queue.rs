//! When Slurm would start a job that is submitted now, from the waits of a site's own past.
//!
//! Next: `trimtab-history`, which forecasts.

use crate::error::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_history::{AlikeWaits, Ask, LeftOut, Log, OfQueue, Queue, Sizes, WaitsJudged};

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;
/// Waits before tell nothing of today where no job has begun for so long, seconds.
const STALE_S: f64 = 7.0 * DAY_S;
const DAY_S: f64 = 86_400.0;
/// Queues that an error lists.
const LISTED_MAX: usize = 20;
/// The share of waits in an interval.
const SHARE_INSIDE: f64 = 0.9;

/// Jobs of a site, and the moment at which a job is submitted.
#[derive(Debug)]
pub struct Past {
    /// The jobs.
    pub log: Log,
    /// The moment, seconds as the log's times.
    pub now_s: f64,
    /// From where, for a reader.
    pub source: String,
    /// It is what Slurm knows now.
    pub is_live: bool,
    /// The partition of jobs that name none.
    pub default_partition: Option<String>,
}

/// A job that is to be submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueQuestion {
    /// Nodes, where the log counts those.
    pub nodes: Option<u64>,
    /// Processors, where the log counts those.
    pub processors: Option<u64>,
    /// The job's limit, seconds.
    pub requested_s: u64,
    /// Its partition.
    pub partition: Option<String>,
    /// Its quality of service.
    pub quality: Option<String>,
    /// Its user, who must be in the log.
    pub user: Option<String>,
    /// Its user if none is named; need not be in the log.
    pub own: Option<String>,
}

/// Why no wait is claimed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoWait {
    /// There is no wait to learn from.
    #[error("no job has begun yet")]
    NoneBegun,
    /// The past is long ago.
    #[error("the latest job began {days:.1} days ago: that says nothing of today")]
    Stale {
        /// Since the latest job began.
        days: f64,
    },
    /// Never before waited so many.
    #[error(
        "{begun} job{} have begun, {waiting} wait now: too few have begun that were submitted while so many waited",
        if *begun == 1 { "" } else { "s" }
    )]
    FewAlike {
        /// Jobs that have begun.
        begun: usize,
        /// Jobs that wait.
        waiting: usize,
    },
}

/// A forecast, and what it was made of.
#[derive(Debug)]
pub struct QueueMade<'a> {
    /// The past.
    pub past: &'a Past,
    /// The queue that it would wait in.
    pub queue: OfQueue,
    /// The job as the forecast takes it.
    pub ask: Ask,
    /// `None`: no job had begun.
    pub found: Option<Queue>,
    /// The interval, seconds from now, or why nothing is claimed.
    pub claim: Result<(f64, f64), NoWait>,
}

impl QueueMade<'_> {
    /// The forecast.
    ///
    /// # Errors
    /// [`Error::Unknown`] queues and users; [`Error::Question`] where the log does not say, or the question is not clear.
    pub fn of<'a>(past: &'a Past, question: &QueueQuestion) -> Result<QueueMade<'a>, Error> {
        let queue = queue(past, question)?;
        let ask = ask(past, question, &queue)?;
        let found = past.log.queue(&ask, past.now_s);
        let claim = claim(past, found.as_ref());
        Ok(QueueMade { past, queue, ask, found, claim })
    }

    /// The answer.
    pub fn answer(&self) -> QueueAnswer {
        let QueueMade { past, queue, ask, found, claim } = self;
        let (found, ends) = (found.as_ref(), claim.as_ref().ok());
        QueueAnswer {
            version: VERSION,
            source: past.source.clone(),
            partition: queue.partition.clone(),
            quality: queue.quality.clone(),
            size: ask.ranks,
            sizes: past.log.sizes,
            requested_s: ask.requested_s,
            user_known: ask.user.is_some(),
            now_s: past.now_s,
            wait_s: found.filter(|_| ends.is_some()).map(|found| found.wait_s),
            lower_s: ends.map(|ends| ends.0),
            upper_s: ends.map(|ends| ends.1),
            share_inside: ends.map(|_| SHARE_INSIDE),
            no_claim: claim.as_ref().err().map(ToString::to_string),
            waiting: found.map(|found| found.waiting),
            begun: found.map(|found| found.begun),
            latest_begin_s: found.map(|found| found.latest_begin_s),
            alike: found.map(|found| found.alike),
            judged: found.and_then(|found| found.judged.clone()),
            left_out: past.log.left_out,
        }
    }
}

/// When a job would begin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QueueAnswer {
    /// 1: fields may be added, and nothing else changes.
    pub version: u32,
    /// Where the past comes from.
    pub source: String,
    /// The partition.
    pub partition: String,
    /// The quality of service; may be empty.
    pub quality: String,
    /// How large the job is.
    pub size: Option<u64>,
    /// The unit of `size`: "nodes" or "processors".
    #[schemars(with = "Option<String>")]
    pub sizes: Option<Sizes>,
    /// The job's limit, seconds.
    pub requested_s: Option<u64>,
    /// True if jobs of the user are in the past.
    pub user_known: bool,
    /// The moment for which it is said, seconds as the past's times.
    pub now_s: f64,
    /// The wait, seconds: as many wait longer as shorter; null: see `no_claim`.
    pub wait_s: Option<f64>,
    /// The lower end of the interval; null with `wait_s`.
    pub lower_s: Option<f64>,
    /// The upper end of the interval; null with `wait_s`.
    pub upper_s: Option<f64>,
    /// The share of waits in the interval; null with `wait_s`.
    pub share_inside: Option<f64>,
    /// Why nothing is claimed; null: something is.
    pub no_claim: Option<String>,
    /// Jobs that wait now; null: no job had begun.
    pub waiting: Option<usize>,
    /// Jobs that have begun; null: none.
    pub begun: Option<usize>,
    /// When the latest of these began, seconds as the past's times.
    pub latest_begin_s: Option<f64>,
    /// Waits that it rests on, by how jobs are alike.
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    pub alike: Option<AlikeWaits>,
    /// Such forecasts against waits that are known: `judged`, `error_median_s`, `last_ten_error_median_s`, ...
    #[schemars(with = "Option<BTreeMap<String, Option<f64>>>")]
    pub judged: Option<WaitsJudged>,
    /// Lines of the log that are no job that ran and ended, by why.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub left_out: LeftOut,
}

/// The queue that the job is to wait in.
fn queue(past: &Past, question: &QueueQuestion) -> Result<OfQueue, Error> {
    let queues = past.log.queues();
    let Some(partition) = question.partition.as_ref().or(past.default_partition.as_ref()) else {
        return match queues.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Error::Question("no job has a queue".to_owned())),
            _ => {
                let why = format!(
                    "there are several queues: name the partition (--partition, \"partition\"), one of {}",
                    listed(&queues)
                );
                Err(Error::Question(why))
            }
        };
    };
    let is_meant = |queue: &&OfQueue| {
        &queue.partition == partition && question.quality.as_ref().is_none_or(|quality| &queue.quality == quality)
    };
    // The one with most jobs is first.
    queues.iter().find(is_meant).cloned().ok_or_else(|| {
        let quality =
            question.quality.as_ref().map_or_else(String::new, |quality| format!(" with the quality {quality}"));
        Error::Unknown(format!("no job was in the partition {partition}{quality}; there are {}", listed(&queues)))
    })
}

fn ask(past: &Past, question: &QueueQuestion, queue: &OfQueue) -> Result<Ask, Error> {
    let wrong = |why: &str| Err(Error::Question(format!("{} {why}", past.source)));
    let ranks = match (question.nodes, question.processors, past.log.sizes) {
        (Some(nodes), _, Some(Sizes::Nodes)) => nodes,
        (_, Some(processors), Some(Sizes::Processors)) => processors,
        (_, _, None) => return wrong("does not say how large jobs are"),
        (_, _, Some(Sizes::Processors)) => {
            return wrong("counts processors: say how many (--processors, \"processors\")");
        }
        (_, _, Some(Sizes::Nodes)) => return wrong("counts nodes: say how many (--nodes, \"nodes\")"),
    };
    let known = |name: &String| past.log.user(name);
    let user = match (&question.user, &question.own) {
        (Some(name), _) => Some(known(name).ok_or_else(|| Error::Unknown(format!("no job is {name}'s")))?),
        (None, own) => own.as_ref().and_then(known),
    };
    Ok(Ask {
        requested_s: Some(question.requested_s),
        ranks: Some(ranks),
        user,
        queue: Some(queue.number),
        ..Ask::default()
    })
}

fn listed(queues: &[OfQueue]) -> String {
    let mut names: Vec<String> = Vec::new();
    for queue in queues {
        if !names.contains(&queue.partition) {
            names.push(queue.partition.clone());
        }
    }
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

fn claim(past: &Past, found: Option<&Queue>) -> Result<(f64, f64), NoWait> {
    let found = found.ok_or(NoWait::NoneBegun)?;
    let ago_s = past.now_s - found.latest_begin_s;
    if past.is_live && ago_s > STALE_S {
        return Err(NoWait::Stale { days: ago_s / DAY_S });
    }
    found.interval_s.ok_or(NoWait::FewAlike { begun: found.begun, waiting: found.waiting })
}
