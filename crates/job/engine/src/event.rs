//! Events while something goes on, for whoever shows them.
//!
//! Next: `window` and `script`, which tell most of them.

use crate::nodes::Nodes;
use crate::spread::Spread;
use std::sync::{Mutex, PoisonError};
use trimtab_measure::{Progress, RankShare, RecordedSoFar};
use trimtab_script::Message;

/// Something that goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A stage was reached or goes on.
    Stage(Stage),
    /// Values so far.
    Partial(Partial),
    /// A message of a script.
    Message(Message),
    /// A sentence about something that is not as it should be, and hinders nobody from going on.
    Warning(String),
    /// Nothing is in any process any more, and nothing more is told.
    Done,
}

/// A stage of the work.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Agents are brought to the nodes of a job.
    Gathering {
        /// The job, in a sentence.
        job: String,
        /// How many nodes.
        nodes: usize,
        /// A site's standing agents are asked for them.
        by_site: bool,
    },
    /// Agents are there, and hold ranks that begin MPI from now on.
    Holding {
        /// Nodes with an agent.
        nodes: usize,
        /// All nodes of the job.
        of: usize,
    },
    /// A routine is run at several sizes.
    Running {
        /// Runs that are over.
        done: usize,
        /// All runs.
        of: usize,
        /// The sizes, as a user reads them.
        at: String,
    },
    /// Probes press on a resource.
    Pressing {
        /// Which one, in a word.
        what: String,
        /// At this level, from 0 to 1.
        level: f64,
    },
    /// Nothing is in the program, and events are waited for.
    Waiting {
        /// Which, as they were typed.
        events: String,
    },
    /// Symbols are read.
    Reading,
    /// Stacks are looked at, to find loops.
    Looking {
        /// Which look this is, from 1.
        look: u32,
        /// How many there are to be.
        of: u32,
    },
    /// Passes of loops are counted.
    Counting {
        /// Seconds so far.
        seconds: f64,
    },
    /// Starts of a program are watched for.
    Watching {
        /// Its name, as it was asked for.
        name: String,
        /// By what they are seen.
        source: String,
    },
    /// A window is measured.
    Window(trimtab_measure::WindowStage),
}

impl Stage {
    /// Agents are brought to the nodes of a job, by this way.
    pub fn gathering(nodes: &dyn Nodes, spread: &Spread) -> Self {
        Stage::Gathering { job: spread.name(), nodes: spread.nodes().len(), by_site: nodes.stand_by_for(spread) }
    }
}

/// Values of something that is not over yet, as whoever leads it has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Partial {
    /// A window that records.
    Window(WindowSoFar),
    /// A script that is in.
    Script(ScriptSoFar),
}

/// A script that is in.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSoFar {
    /// Seconds since it is in.
    pub seconds: f64,
    /// Functions of the script.
    pub functions: usize,
    /// Processes that still run the program.
    pub processes: usize,
}

/// A window that records.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSoFar {
    /// Seconds since recording was agreed on.
    pub seconds: f64,
    /// Iterations that every rank has recorded; `None`: none are counted.
    pub iterations: Option<u64>,
    /// Iterations that were asked for; `None`: no fixed number.
    pub wanted: Option<u64>,
    /// Iterations per second between the first look that saw some and the latest one; `None` before there are two.
    pub iterations_per_s: Option<f64>,
    /// Communication's share of the time since each rank began to record, the mean over ranks, 0 to 1; `None`: it is not
    /// measured, or no rank has begun. The report's share is that between two iterations.
    pub comm_share: Option<f64>,
    /// The rank that communicates least: the slowest one, where others wait for it.
    pub least_comm: Option<RankShare>,
}

/// Hears of events, from any thread, and may end what goes on.
pub trait Listener: Sync {
    /// Something goes on.
    fn hear(&self, event: &Event);

    /// True if it is to end as soon as it can.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Listener for Nobody {
    fn hear(&self, _event: &Event) {}
}

/// The stages of a measurement, told as events.
pub(crate) struct Told<'a> {
    listener: &'a dyn Listener,
    /// Iterations and seconds at the first look that saw some.
    first: Mutex<Option<(u64, f64)>>,
}

impl<'a> Told<'a> {
    pub(crate) fn to(listener: &'a dyn Listener) -> Self {
        Told { listener, first: Mutex::new(None) }
    }

    fn so_far(&self, recorded: RecordedSoFar) -> WindowSoFar {
        let RecordedSoFar { done, wanted, seconds, comm } = recorded;
        let wanted = Some(wanted).filter(|wanted| *wanted > 0);
        let iterations = Some(done).filter(|done| *done > 0 || wanted.is_some());
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        // Fewer than before are those of another loop.
        if done > 0 && first.is_none_or(|(first_done, _)| done < first_done) {
            *first = Some((done, seconds));
        }
        let since_first = |(first_done, first_s): (u64, f64)| (done.saturating_sub(first_done), seconds - first_s);
        let grown = first.map(since_first).filter(|(more, more_s)| *more > 0 && *more_s > 0.0);
        WindowSoFar {
            seconds,
            iterations,
            wanted,
            iterations_per_s: grown.map(|(more, more_s)| more as f64 / more_s),
            comm_share: comm.mean(),
            least_comm: comm.least(),
        }
    }
}

impl Progress for Told<'_> {
    fn stage(&self, stage: &trimtab_measure::WindowStage) {
        self.listener.hear(&Event::Stage(Stage::Window(stage.clone())));
    }

    fn recorded(&self, recorded: RecordedSoFar) {
        self.listener.hear(&Event::Partial(Partial::Window(self.so_far(recorded))));
    }

    fn is_interrupted(&self) -> bool {
        self.listener.is_interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_measure::CommSoFar;

    #[test]
    fn a_rate_needs_two_looks_that_saw_iterations() {
        let told = Told::to(&Nobody);
        for (name, done, seconds, iterations, rate) in [
            ("nothing yet", 0, 0.5, Some(0), None),
            ("the first ones", 10, 1.0, Some(10), None),
            ("no more", 10, 1.5, Some(10), None),
            ("twenty in two seconds", 30, 3.0, Some(30), Some(10.0)),
            ("another loop", 4, 0.5, Some(4), None),
            ("of which it counts again", 8, 1.0, Some(8), Some(8.0)),
        ] {
            let so_far = told.so_far(RecordedSoFar { done, wanted: 100, seconds, comm: CommSoFar::default() });
            assert_eq!((so_far.iterations, so_far.iterations_per_s), (iterations, rate), "{name}");
        }
    }

    #[test]
    fn iterations_that_nobody_counts_are_not_none_of_them() {
        let nothing = RecordedSoFar { done: 0, wanted: 0, seconds: 2.0, comm: CommSoFar::default() };
        let expected = WindowSoFar {
            seconds: 2.0,
            iterations: None,
            wanted: None,
            iterations_per_s: None,
            comm_share: None,
            least_comm: None,
        };
        assert_eq!(Told::to(&Nobody).so_far(nothing), expected);
    }
}
