//! Questions about what comes, each with the one answer that a command prints and the controller sends.
//!
//! When a job ends ([`JobMade`]), how jobs slow each other ([`corun`]), how long a routine takes and how much memory it needs
//! ([`SizeMade`]), how long data and routines take on hosts and links ([`GridAsked`]), and a collective ([`CollectiveMade`]), when
//! Slurm would start a job ([`QueueMade`]). Each takes windows, runs, models and logs as a store or a caller
//! has them, asks the models, and has an answer whose fields docs/forecasts.md describes. Nothing here measures, prints or
//! listens: a command measures a window before it asks, the controller asks with those of its store.
//!
//! Next: `questions` for what may be asked over HTTP; `job`, `jobs_together`, `sizes` and `queue` for the answers.
#![forbid(unsafe_code)]

mod collective;
mod corun_jobs;
mod error;
mod grid_answer;
mod grid_asked;
mod grid_models;
mod grid_stored;
mod job;
mod jobs_together;
mod judged;
mod link_times;
mod looks;
mod models;
mod pairs;
mod profiles;
mod quantity;
mod questions;
mod queue;
mod sizes;

pub use collective::{
    CollectiveMade, CollectiveQuestion, interval_words, newest_windows, newest_windows_of, seconds_words, three_digits,
};
pub use corun_jobs::{CorunError, CorunSide, company, comparable, corun_cautions, corun_jobs};
pub use error::Error;
pub use grid_answer::{FactsFrom, GridAnswer};
pub use grid_asked::{CommAsked, GridAsked, GridKind, PlaceAsked, PlanAsked, TotalAsked};
pub use grid_models::{GridModels, Here};
pub use grid_stored::{add_stored, stored_link};
pub use job::{EndAnswer, JobAnswer, JobMade, LikelyAnswer, Whose};
pub use jobs_together::{
    Corun, CorunAnswer, CorunMade, CorunQuestion, CorunRanked, JobTogether, PartnerAnswer, alone_stored, corun,
    letter_of, not_modelled, note_meetings, profile_line,
};
pub use judged::{end_of, outcome};
pub use link_times::{CollectiveAnswer, CollectiveAsked, HostLoad, HostPair, LinkError, Links, Method, Way};
pub use looks::{LOOKS_OF_JOB_MAX, looks};
pub use models::{Content, MODEL_VERSION, Named, all_models, models_of, named_model, stray_words, time_words};
pub use pairs::{Beside, Pair, PairTable, pair_table};
pub use profiles::{PROFILE_VERSION, ProfileKept, ProfileNamed, pressured, profile_kept};
pub use quantity::Quantity;
pub use questions::{CorunAsked, Given, GivenAlone, JobAsked, ModelNamed, QueueAsked, SizeAsked};
pub use queue::{NoWait, Past, QueueAnswer, QueueMade, QueueQuestion};
pub use sizes::{Asked, Host, SizeAnswer, SizeMade, known_host};
pub use trimtab_corun::Unknown;
pub use trimtab_grid as grid;
pub use trimtab_loggp as loggp;
pub use trimtab_progress::{ByMethod, Outcome, by_method};
