//! The user's options, and how progress is told.
//!
//! Next: `drive` acts on these.

use crate::reason::NotYet;
use crate::so_far::CommSoFar;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use trimtab_mpi::Group;
use trimtab_session::{EITHER, each_of};
use trimtab_types::context::Context;
use trimtab_types::report::{Assumption, Event, LoopPlace};

/// The marker that the user asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// `measuremark` if the program has it, else the main loop that is found.
    Auto,
    /// This function of the program.
    Function(String),
    /// This loop of the program.
    Loop(LoopName),
    /// The period of the calls of MPI, whatever loops the program has.
    Calls,
    /// The loop with this number, from 1, of the nest that runs.
    Nest(u32),
}

/// A loop of the program: `solve:2.1` is the first loop in the second of the function `solve`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoopName {
    /// Its function, `NAME` or `NAME@LIB`.
    pub function: String,
    /// Its number there, as `trimtab points` shows it; `None`: the only outermost one.
    pub number: Option<Vec<u32>>,
}

impl FromStr for LoopName {
    type Err = String;

    fn from_str(text: &str) -> Result<LoopName, String> {
        let split =
            text.rsplit_once(':').filter(|(_, number)| number.starts_with(|first: char| first.is_ascii_digit()));
        let (function, number) = split.map_or((text, None), |(function, number)| (function, Some(number)));
        if function.is_empty() {
            return Err("a loop is named by its function: FUNCTION:N, as `trimtab points` shows it".to_owned());
        }
        let number = match number.map(numbered) {
            Some(None) => return Err("a loop's number is like 2 or 2.1, as `trimtab points` shows it".to_owned()),
            number => number.flatten(),
        };
        Ok(LoopName { function: function.to_owned(), number })
    }
}

impl fmt::Display for LoopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        self.number.as_ref().map_or(Ok(()), |number| write!(f, ":{}", dotted(number)))
    }
}

/// A loop's number as people write it: `2.1`, or `2.1+2.2` where passes of both are meant.
pub fn dotted(number: &[u32]) -> String {
    let one = |number: &[u32]| number.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    each_of(number).map(one).collect::<Vec<_>>().join("+")
}

/// The number that [`dotted`] writes so.
pub(crate) fn numbered(text: &str) -> Option<Vec<u32>> {
    let part = |part: &str| part.parse().ok().filter(|part: &u32| (1..EITHER).contains(part));
    let one = |number: &str| number.split('.').map(part).collect::<Option<Vec<u32>>>();
    Some(text.split('+').map(one).collect::<Option<Vec<_>>>()?.join(&EITHER))
}

/// How many iterations a window has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Length {
    /// This many.
    Iterations(u64),
    /// As many as fill this many seconds, chosen once the time of one is known; a few at least.
    AtLeast(f64),
}

/// Fewer iterations say too little of how they vary.
const ITERATIONS_MIN: u64 = 10;

/// More iterations than this are not chosen: each is told of, on every rank.
pub(crate) const ITERATIONS_CHOSEN_MAX: u64 = 1 << 15;

/// A window that fills so much of the seconds asked for fills them, as far as a choice made before can be right.
const FILLED: f64 = 0.9;
/// One that takes so many times the seconds asked for has been chosen too long.
const OVERFILLED: f64 = 2.0;

impl Length {
    /// How many iterations that are, of a loop whose iterations take `iteration_s` seconds (0: not known), where the window
    /// may take `seconds_max`. A number that was asked for is kept whatever it takes.
    pub fn iterations(self, iteration_s: f64, seconds_max: f64) -> u64 {
        match self {
            Length::Iterations(asked) => asked,
            Length::AtLeast(seconds) if iteration_s > 0.0 => {
                // Casts of floats saturate.
                let filling = ((seconds / iteration_s).ceil() as u64).max(ITERATIONS_MIN);
                let fitting = ((seconds_max / iteration_s).floor() as u64).saturating_sub(1).max(2);
                filling.min(fitting).min(ITERATIONS_CHOSEN_MAX)
            }
            Length::AtLeast(_) => ITERATIONS_MIN,
        }
    }

    /// True if a window that has taken so many seconds is much longer than was asked for.
    pub(crate) fn is_overfilled(self, recorded_s: f64) -> bool {
        matches!(self, Length::AtLeast(seconds) if recorded_s > OVERFILLED * seconds)
    }

    /// The seconds asked for, if a window of so many does not fill them; `None`: it does, or a number was asked for.
    pub(crate) fn unfilled(self, recorded_s: f64) -> Option<f64> {
        match self {
            Length::AtLeast(seconds) if recorded_s < FILLED * seconds => Some(seconds),
            Length::AtLeast(_) | Length::Iterations(_) => None,
        }
    }
}

/// Ranks of a job that all bring their details, unless more is asked for.
pub const DETAIL_RANKS_MAX: u32 = 256;

/// A window as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How many iterations to record.
    pub length: Length,
    /// Ranks that are yet to come out of `MPI_Init` wait there until all are measured, at most so many seconds; `None`: nobody.
    pub first_call_s: Option<u64>,
    /// Iterations to let pass first; `None`: just enough for all ranks to be ready.
    pub start: Option<u64>,
    /// The window always ends after this many seconds.
    pub max_seconds: f64,
    /// The marker that counts iterations.
    pub mark: Mark,
    /// The loop of the program that an earlier window of the job took: taken again, if it is passed.
    pub known_loop: Option<Box<LoopPlace>>,
    /// Groups of functions.
    #[serde(with = "group_names")]
    pub groups: Vec<Group>,
    /// Further functions, `NAME` or `NAME@LIB`, with `*` and `?`.
    pub functions: Vec<String>,
    /// Loops whose passes are counted, besides one that marks iterations.
    pub loops: Vec<LoopName>,
    /// Function and index of an argument to sum.
    pub arguments: Vec<(String, u8)>,
    /// Libraries whose functions are no place where calls come from, as those of MPI's bindings are not, by names of files or ends
    /// of paths; and such functions.
    pub wrappers: Vec<String>,
    /// Trace records to keep per function.
    pub detail: u64,
    /// Measure until the program ends.
    pub follow: bool,
    /// End when the half width of the 95% interval of the time per iteration is below this many percent.
    pub until_confident: Option<f64>,
    /// Percent of the window's time that probes may cost: functions above are taken out. `None`: 5, and calls of MPI stay in.
    pub max_cost: Option<f64>,
    /// Calls of a function on one rank after which it is taken out.
    pub max_hits: Option<u64>,
    /// Counters of the processor and the kernel, by name.
    pub counters: Vec<String>,
    /// The user's word about ranks or nodes.
    pub assumed: Option<Assumption>,
    /// The command that asked for the window: "attach", "run", "measure".
    pub trigger: String,
    /// The event that was waited for before.
    pub event: Option<Box<Event>>,
    /// The limit of time counts from the first recorded iteration, however far ahead that lies.
    pub patient: bool,
    /// The ranks that are measured; others are left alone.
    pub ranks: Context,
    /// The job's owner says that its filters of system calls let ours pass, where they can't be read.
    pub seccomp_ok: bool,
    /// A job of more ranks is summed on the way, and only ranks that stand out bring their details: [`DETAIL_RANKS_MAX`], or
    /// no limit, where all ranks' details are asked for.
    pub detail_ranks_max: u32,
    /// Monotonic nanoseconds when the user's command began.
    pub command_ns: u64,
}

/// Groups travel by their names.
mod group_names {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};
    use trimtab_mpi::Group;

    const ALL: [(Group, &str); 6] = [
        (Group::Comm, "comm"),
        (Group::Io, "io"),
        (Group::Memory, "mem"),
        (Group::Sleep, "sleep"),
        (Group::Omp, "omp"),
        (Group::All, "all"),
    ];

    pub fn serialize<S: Serializer>(groups: &[Group], serializer: S) -> Result<S::Ok, S::Error> {
        let name = |group: &Group| ALL.iter().find(|(known, _)| known == group).map(|(_, name)| *name);
        groups.iter().filter_map(name).collect::<Vec<&str>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Group>, D::Error> {
        let names: Vec<String> = Vec::deserialize(deserializer)?;
        let group = |name: &String| Group::from_name(name);
        names.iter().map(|name| group(name).ok_or_else(|| D::Error::custom(format!("no group {name:?}")))).collect()
    }
}

/// Where a measurement stands.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowStage {
    /// Reading symbols and planning patches.
    Planning,
    /// Patching ranks.
    Inserting {
        /// How many ranks.
        ranks: usize,
    },
    /// Looking for the main loop.
    Observing {
        /// Seconds so far.
        seconds: f64,
        /// The part that is still missing.
        why: NotYet,
    },
    /// Waiting for the agreed iteration.
    Armed {
        /// Iteration at which recording begins.
        start: u64,
    },
    /// Restoring the ranks.
    Removing,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedSoFar {
    /// Iterations recorded by the slowest rank.
    pub done: u64,
    /// Iterations asked for; 0: no fixed number.
    pub wanted: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// Communication so far.
    pub comm: CommSoFar,
}

/// Told where the measurement stands; may ask it to end early.
pub trait Progress: Sync {
    /// A stage was reached or goes on.
    fn stage(&self, stage: &WindowStage);

    /// Recording goes on.
    fn recorded(&self, recorded: RecordedSoFar) {
        let _ = recorded;
    }

    /// True if the user wants to end now.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn stage(&self, _stage: &WindowStage) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fills_the_seconds_asked_for_or_does_not() {
        let (asked, number) = (Length::AtLeast(0.2), Length::Iterations(10));
        let told = |length: Length, recorded_s| (length.unfilled(recorded_s), length.is_overfilled(recorded_s));
        assert_eq!(told(asked, 0.00115), (Some(0.2), false), "a burst");
        assert_eq!([0.181, 0.2, 0.399].map(|recorded_s| told(asked, recorded_s)), [(None, false); 3]);
        assert_eq!(told(asked, 0.41), (None, true));
        assert_eq!([0.001, 100.0].map(|recorded_s| told(number, recorded_s)), [(None, false); 2]);
    }

    #[test]
    fn a_loops_name_is_read_as_it_is_written() {
        for text in ["solve", "solve:2.1", "a::b@lib.so:1", "solve:1.1+1.2+3"] {
            assert_eq!(text.parse::<LoopName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        let both = "solve:1.1+2".parse::<LoopName>().expect("two loops of a function");
        assert_eq!(both.number, Some(vec![1, 1, EITHER, 2]));
        for text in ["solve:0", "solve:1..2", "solve:1+", "solve:4294967295", ":1"] {
            assert!(text.parse::<LoopName>().is_err(), "{text}");
        }
    }

    #[test]
    fn as_many_iterations_as_fill_the_time() {
        let chosen = |length: Length, iteration_s| length.iterations(iteration_s, 60.0);
        for (name, length, iteration_s, expected) in [
            ("asked for", Length::Iterations(3), 1e-3, 3),
            ("asked for, although too long", Length::Iterations(1000), 6.0, 1000),
            ("half a millisecond", Length::AtLeast(0.2), 0.5e-3, 400),
            ("no whole number", Length::AtLeast(0.2), 0.3e-3, 667),
            ("ten at least", Length::AtLeast(0.2), 0.5, 10),
            ("more time", Length::AtLeast(2.0), 0.1, 20),
            ("as many as the limit allows", Length::AtLeast(0.2), 8.0, 6),
            ("two at least", Length::AtLeast(0.2), 100.0, 2),
            ("a loop of microseconds", Length::AtLeast(0.2), 1e-6, ITERATIONS_CHOSEN_MAX),
            ("not known", Length::AtLeast(0.2), 0.0, ITERATIONS_MIN),
        ] {
            assert_eq!(chosen(length, iteration_s), expected, "{name}");
        }
    }
}
