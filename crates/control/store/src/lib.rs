//! The memory of trimtab: jobs and their measured windows, in one SQLite file in the user's data directory.
//!
//! A [`Store`] answers these questions: which jobs were measured ([`Store::list_jobs`]), what a window said
//! ([`Store::window`]), which processes a job has ([`Store::processes`]), and what is known of runs that are over, of
//! forecasts of their ends, and of hosts over time ([`History`]). Every write is one transaction, so a crash loses at most the window being
//! written, and several trimtab processes may use one store at once. Every failure is an [`Error`] that names the file and
//! the next step.
//!
//! A site's controller has a store of its own with the jobs of many users, each with its owner ([`Store::file`]), and the
//! schedulers that these accepted ([`Store::accept`]).
//!
//! Next: `migrations/` for the tables, `schema.rs` for how an older store becomes a newer one, `find.rs` for what
//! people type instead of ids, `trimtab_types::report` for the report itself.
#![forbid(unsafe_code)]

mod accepted;
mod error;
mod find;
mod hidden;
mod history;
mod kept;
mod kept_series;
mod location;
mod memory;
mod obstacle;
mod owned;
mod pressures;
mod private;
mod routines;
mod rows;
mod runs;
mod schema;
mod series;
mod store;

pub use accepted::AcceptedScheduler;
pub use error::Error;
pub use find::Selection;
pub use history::{Companion, Forecast, ForecastOfRun, History, Likeness, Run, RunEnd};
pub use location::{default_path, default_site_path};
pub use memory::MemoryHistory;
pub use owned::{Room, site_key};
pub use pressures::{KeptPressure, Pressured};
pub use routines::{KnownHost, RoutineModel, SizeForecast};
pub use rows::{JobId, JobSummary, Process, WindowEvent, WindowSummary};
pub use schema::SCHEMA_VERSION;
pub use series::{SERIES_AGE_MAX_S, SERIES_VALUES_MAX, SeriesName, SeriesValue};
pub use store::Store;
