//! Numbers as they are typed, and what is said where they are none.
//!
//! Next: `range` for those between two others.

use std::str::FromStr;

/// A whole number above zero.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "give a whole number above zero".to_owned())
}

/// A whole number.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "give a whole number, 0 or more".to_owned())
}

/// A number above zero.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("must be above zero".to_string()) }
}
