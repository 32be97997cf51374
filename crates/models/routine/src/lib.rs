//! Time and memory of a routine or program as a function of the sizes of its data, from measurements at some sizes.
//!
//! [`fit`] takes measurements at several sizes, each with its repetitions, and returns a [`Model`]: a sum of terms
//! `c * n^i * log2(n)^j`, and of products of such over several parameters, with coefficients that are never negative. Which
//! terms there are is decided by cross-validation, above all by how well the largest sizes are told from smaller ones, because
//! that is what forecasts are asked for. Where times of the same size differ by far more than noise does, the size does not say
//! the time: there are no terms then, and no time is forecast.
//!
//! Nothing here runs a program or reads a clock.
//!
//! Next: `measured` for what is accepted, `search` for the choice of terms, `pieces` for cliffs, `between` for sizes beside measured
//! ones, `model` for forecasts.
#![forbid(unsafe_code)]

mod between;
mod crossed;
mod error;
mod host;
mod judged;
mod least_squares;
mod measured;
mod model;
mod pieces;
mod search;
mod stray;
mod term;
mod unit;

pub use between::Met;
pub use error::Error;
pub use host::{Basis, HostKind, Ran, Speed};
pub use judged::{Came, SizesJudged, sizes_judged};
pub use measured::Measurement;
pub use model::{Fitted, Forecast, Model, Piece, Scale, check, fit};
pub use stray::Stray;
pub use term::{Factor, Term};
pub use unit::Unit;

#[cfg(test)]
mod planted;
