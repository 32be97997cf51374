//! The reasons why a window that the controller had measured has no report.
//!
//! Next: `leads`, where they occur.

use trimtab_site::api::REPORT_BYTES_MAX;

/// The reason why a window that was led has no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotLed {
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
    #[error("the lead can't be heard: {0}")]
    Unheard(std::io::Error),
    #[error("the lead hears nothing any more: {0}")]
    Deaf(std::io::Error),
    #[error("the lead can't be told: {0}")]
    Unwritten(serde_json::Error),
    #[error("the lead can't be understood: {0}")]
    Malformed(serde_json::Error),
    #[error("the lead ended without a word; the controller's log may say why")]
    Gone,
    #[error("the report is longer than {} MiB: ask for fewer ranks", REPORT_BYTES_MAX >> 20)]
    TooLong,
    #[error("no window has begun")]
    NotBegun,
    /// The lead's own words.
    #[error("{0}")]
    Failed(String),
    /// The report is not taken.
    #[error("{0}")]
    Refused(String),
    #[error("the lead was ended after {limit_s} s: {why}")]
    Late { limit_s: u64, why: Box<NotLed> },
}
