//! Whole numbers of a range, as options take them.
//!
//! Next: `arguments`, which uses them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A whole number of a range.
pub(crate) fn within<T: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<T>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
}
