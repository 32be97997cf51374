//! Why a question has no answer. An answer that claims nothing is none of these.
//!
//! Next: `questions` for what may be asked.

use crate::corun_jobs::CorunError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question contradicts itself, or what is known.
    #[error("{0}")]
    Question(String),
    /// Somebody or something that nobody knows.
    #[error("{0}")]
    Unknown(String),
    /// All that is known is of a time that is over.
    #[error("{0}")]
    Stale(String),
    /// Windows that don't fit together.
    #[error(transparent)]
    Windows(#[from] CorunError),
    /// Jobs that can't be forecast together.
    #[error(transparent)]
    Together(#[from] trimtab_corun::Error),
    /// Sizes that can't be.
    #[error(transparent)]
    Sizes(#[from] trimtab_routine::Error),
    /// Data, hosts or a plan that can't be, or figures that are not known.
    #[error(transparent)]
    Grid(#[from] trimtab_grid::Error),
    /// Links and collectives that no window saw.
    #[error(transparent)]
    Links(#[from] crate::link_times::LinkError),
    /// A model of an earlier or a later trimtab, or a damaged one.
    #[error("the store's model {name:?} can't be read: fit it again")]
    Model {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A log of jobs.
    #[error(transparent)]
    Log(#[from] trimtab_history::LogError),
    /// The store.
    #[error(transparent)]
    Store(#[from] trimtab_store::Error),
}
