//! Series of measurements of hosts, with retention.
//!
//! Next: `history` for the questions, `kept_series` and `memory` for who answers them.

use crate::Error;

/// Values kept of one series, at most: a day of one every ten seconds.
pub const SERIES_VALUES_MAX: u32 = 8640;
/// Values older than this, compared with the newest of their series, go: a month.
pub const SERIES_AGE_MAX_S: f64 = 30.0 * 86_400.0;

/// The name of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesName {
    /// The host that it is of.
    pub host: String,
    /// The other one, of what is between two.
    pub peer: Option<String>,
    /// The figure, with its unit.
    pub figure: String,
}

/// One value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesValue {
    /// Seconds since 1970.
    pub at_unix_s: f64,
    /// The value.
    pub value: f64,
}

/// Refuses what no series may hold, before anything is stored.
pub(crate) fn check(name: &SeriesName, newest: Option<SeriesValue>, value: SeriesValue) -> Result<(), Error> {
    let of = || format!("{} of {}", name.figure, name.host);
    if !value.value.is_finite() || !value.at_unix_s.is_finite() {
        return Err(Error::NoNumber { series: of() });
    }
    match newest.map(|newest| newest.at_unix_s - value.at_unix_s).filter(|back_s| *back_s > 0.0) {
        Some(back_s) => Err(Error::ClockBack { series: of(), back_s: back_s.ceil() as u64 }),
        None => Ok(()),
    }
}
