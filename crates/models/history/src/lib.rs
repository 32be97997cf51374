//! Run times and waits of jobs, forecast as they are submitted, from the jobs that have ended or begun by then.
//!
//! Jobs alike are many things: those of the same user with the same request, with the same name, of everybody. Simple experts
//! forecast from each of these ([`Past`](past)), and each has a record of how it did, by user and by how much is known. The
//! forecast is the time that is expected to be nearest to the truth among all that experts say. An interval around it comes
//! from the jobs alike, moved until it held of late what it is to hold.
//!
//! Nothing here reads a file or a clock. [`read_log`] reads a text, [`RunTimes`] learns and forecasts, [`backtest`] does so for
//! all jobs of a log in order of submission and judges them beside simple rules.
//!
//! Next: `job` for what is known of one, `run_times` for the forecast, `backtest` for judging.

mod accuracy;
mod backtest;
mod backtest_waits;
mod bounds;
mod experts;
mod job;
mod log;
mod past;
mod queue;
mod read;
mod record;
mod replay;
mod rules;
mod run_times;
mod waits;

pub use accuracy::accuracy;
pub use backtest::{Backtest, ByBasis, Interval, Judged, Limit, backtest};
pub use backtest_waits::WaitsJudged;
pub use job::{Ask, Job, Open};
pub use log::{Format, LeftOut, Log, LogError, Sizes, Wrong};
pub use past::Basis;
pub use queue::{OfQueue, Queue};
pub use read::{clock_s, read_log};
pub use run_times::{Forecast, RunTimes};
pub use trimtab_weather::From;
pub use waits::AlikeWaits;
