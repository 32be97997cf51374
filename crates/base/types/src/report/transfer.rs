//! How long messages and collectives took, without the time in which one side waited for the other.
//!
//! Next: `trimtab-window` computes these; `trimtab-loggp` fits links to them.

use serde::{Deserialize, Serialize};

/// Messages of one size from one rank to another, of calls of which both ends were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageTimes {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Payload of each, bytes. Of a link with many sizes neighbours are put together; then it is their mean.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Those among them that came before their receive was called: how long they took was not seen.
    pub hidden: u64,
    /// Time of the others, from when both ends were in their calls to when the receive had returned, summed; `None`: all were
    /// hidden.
    pub transfer_s: Option<f64>,
    /// Time before that in which the end that was in its call waited for the other one, summed; `None`: as `transfer_s`.
    pub wait_s: Option<f64>,
    /// Messages whose receive was called before they were sent. Only of these the time is that of the whole way.
    pub ready: u64,
    /// Lower quartile of their times, seconds; `None`: there are none.
    pub transfer_s_low: Option<f64>,
    /// The median.
    pub transfer_s_median: Option<f64>,
    /// The upper quartile.
    pub transfer_s_high: Option<f64>,
    /// Median time inside of the calls that sent them; `None`: as before.
    pub send_s_median: Option<f64>,
    /// Median time inside of the receives of hidden messages, which had nothing to wait for; `None`: none was hidden.
    pub receive_s_median: Option<f64>,
    /// A time may be this much more or less, because the clocks of two ranks differ. The other direction is off by as much the
    /// other way.
    pub error_s: f64,
}

/// Collectives of one function and size, of all ranks, of which every rank's call was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectiveTimes {
    /// The function.
    pub function: String,
    /// Ranks that took part.
    pub ranks: u32,
    /// Largest payload of a rank, as `functions[].bytes` counts it.
    pub bytes: u64,
    /// Collectives.
    pub calls: u64,
    /// Lower quartile of their times, seconds: from when the last rank had called to when the last had returned.
    pub time_s_low: f64,
    /// The median.
    pub time_s_median: f64,
    /// The upper quartile.
    pub time_s_high: f64,
    /// A time may be this much more or less, because the clocks of ranks differ.
    pub error_s: f64,
}
