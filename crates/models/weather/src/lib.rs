//! Series of measurements, and forecasts of their next value with intervals, one step ahead.
//!
//! Many simple forecasters run beside each other ([`Forecasters`]): those of the Network Weather Service, a gradient,
//! autoregressive ones, and those of the day before. A [`Mixture`] weighs them by how they did so far. An [`Interval`] around
//! it holds a share of the values that was asked for, whatever the series is like. The rule that the Network Weather Service
//! published, which takes one of its forecasters, is kept beside it ([`PublishedRule`]).
//!
//! Nothing here reads a file or a clock: a value comes in, a forecast goes out. [`backtest`] does that for a series that was
//! recorded, and says how far each was off.
//!
//! [`soon`] forecasts a series that is measured now, and refuses one that is stale.
//!
//! Next: `forecasters` for the single ones, `mixture` and `interval` for what is made of them, `backtest` for judging.

mod backtest;
mod fitted;
mod forecasters;
mod interval;
mod learner;
mod levinson;
mod mixture;
mod ordered;
mod published;
mod seasonal;
mod series;
mod soon;

pub use backtest::{Backtest, From, Held, Judged, backtest};
pub use forecasters::Forecasters;
pub use interval::Interval;
pub use mixture::Mixture;
pub use ordered::{Ordered, median_of};
pub use published::{Published, PublishedRule};
pub use series::{Series, SeriesError};
pub use soon::{NotSoon, STEPS_MAX, Soon, soon};
