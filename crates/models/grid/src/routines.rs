//! The one who knows routines, and why a routine or transfer is impossible.
//!
//! Next: `build`, which asks.

use crate::quantity::Quantity;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The needs of a routine on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// Its time if it had a processor for itself, seconds.
    pub alone_s: Quantity,
    /// The memory of its largest process; `None`: nobody measured it.
    pub memory_bytes: Option<Quantity>,
    /// Sentences about where they come from.
    pub because: Vec<String>,
}

/// Why nobody says what a routine needs.
#[derive(Clone, Debug, PartialEq)]
pub enum NoNeeds {
    /// Sizes of data do not say the time.
    NoTime {
        /// Why.
        why: String,
        /// A usual time there by which hosts can be ranked, seconds; `None`: not known.
        usual_s: Option<f64>,
    },
    /// A question that means nothing.
    Wrong(RoutineFault),
}

/// The reason why a routine can't be asked so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutineFault {
    /// A host of unknown speed.
    #[error(
        "how fast host {host} computes is not known: run `trimtab model fit` on it, with this store, or give the step `seconds`"
    )]
    NoSpeed {
        /// Its name.
        host: String,
    },
    /// A routine that has no model.
    #[error(
        "there is no model {routine:?}: `trimtab model fit {routine} --run CMD --over n=...` makes one, or give the step `seconds`"
    )]
    NoModel {
        /// Its name.
        routine: String,
    },
    /// An argument that its model does not have.
    #[error("the model {routine} has no parameter {parameter}; it has {known}")]
    NoParameter {
        /// Its name.
        routine: String,
        /// The argument.
        parameter: String,
        /// Those that there are.
        known: String,
    },
    /// A size that its model needs.
    #[error("{routine}: the size {parameter} is not among its arguments")]
    NoSize {
        /// Its name.
        routine: String,
        /// The size.
        parameter: String,
    },
    /// Sizes that its model refuses.
    #[error("{routine}: {why}")]
    Model {
        /// Its name.
        routine: String,
        /// The model's own words.
        why: String,
    },
}

/// Knows how long routines take.
pub trait Routines {
    /// The needs of a routine on a host, for arguments by name.
    ///
    /// # Errors
    /// [`NoNeeds`].
    fn needs(&self, routine: &str, host: &str, arguments: &BTreeMap<String, f64>) -> Result<Needs, NoNeeds>;
}

/// Why something can't be done there at all: FAST's -1, as a reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Impossible {
    /// Too little memory is free.
    #[error("{host} has {:.1} MB of free memory, and {:.1} MB are needed", free_bytes / 1e6, needed_bytes / 1e6)]
    Memory {
        /// The host.
        host: String,
        /// Bytes that are needed.
        needed_bytes: f64,
        /// Bytes that are free.
        free_bytes: f64,
    },
    /// The routine is not installed.
    #[error("{routine} is not installed on {host}")]
    Software {
        /// The host.
        host: String,
        /// The routine.
        routine: String,
    },
    /// No sequence of links leads there.
    #[error("no measured link or way of links leads from {from} to {to}: `trimtab weather --to` measures one")]
    NoPath {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
}
