//! Measurements, and questions to a model, that can't be.
//!
//! Next: `measured`, which checks.

use crate::unit::Unit;

/// Why there is no model, or no forecast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No parameter was named.
    #[error("a model needs at least one parameter, e.g. n")]
    NoParameter,
    /// Two parameters have one name.
    #[error("the parameter {0} is named twice")]
    SameName(String),
    /// A size for each parameter was expected.
    #[error("a measurement has {found} sizes, but there are {expected} parameters")]
    WrongCount {
        /// Sizes that it has.
        found: usize,
        /// Parameters.
        expected: usize,
    },
    /// A size that is no finite number above zero.
    #[error("{parameter}={size}: a size is a finite number above zero")]
    WrongSize {
        /// The parameter.
        parameter: String,
        /// Its size.
        size: f64,
    },
    /// A value that was not measured: negative, zero or not finite.
    #[error("{value} {unit} was measured at {at}: a measured value is finite and above zero")]
    WrongValue {
        /// The value.
        value: f64,
        /// Its unit.
        unit: Unit,
        /// The sizes.
        at: String,
    },
    /// No repetition.
    #[error("nothing was measured at {at}")]
    NoValue {
        /// The sizes.
        at: String,
    },
    /// Measurements in different units.
    #[error("some values are {one} and others {other}: one model has one unit")]
    Units {
        /// One.
        one: Unit,
        /// The other.
        other: Unit,
    },
    /// One size only.
    #[error("{parameter} has one size only, {size}: nothing can be said of others; give at least {needed}")]
    OneSize {
        /// The parameter.
        parameter: String,
        /// Its size.
        size: f64,
        /// How many are needed.
        needed: usize,
    },
    /// Too few sizes.
    #[error("{parameter} has {found} sizes: a model needs at least {needed}")]
    FewSizes {
        /// The parameter.
        parameter: String,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Too little between the smallest and the largest size.
    #[error(
        "{parameter} goes from {least} to {most} only: terms can't be told apart; the largest size must be at least {needed} \
         times the smallest"
    )]
    NarrowRange {
        /// The parameter.
        parameter: String,
        /// Its smallest size.
        least: f64,
        /// Its largest size.
        most: f64,
        /// The ratio that is needed.
        needed: f64,
    },
}
