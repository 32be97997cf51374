//! Times of messages as windows saw them, and one point for each size.
//!
//! Next: `fit`, which lays lines through the points.

use crate::error::Error;

/// Half the distance of the quartiles over the standard deviation, of a normal distribution, times 2.
const QUARTILES_OF_DEVIATION: f64 = 1.349;
/// The standard error of a median over that of a mean, of a normal distribution.
const MEDIAN_OF_MEAN: f64 = 1.253;
/// Sizes that a fit looks at; of more, neighbours are put together.
const SIZES_MAX: usize = 32;

/// Messages of one size between two hosts, of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Payload of each.
    pub bytes: u64,
    /// They went from the first host to the second. An error of clocks lengthens one direction as it shortens the other.
    pub is_forward: bool,
    /// Messages.
    pub messages: u64,
    /// Lower quartile of their times, seconds.
    pub low_s: f64,
    /// Median.
    pub median_s: f64,
    /// Upper quartile.
    pub high_s: f64,
    /// Median time inside of the send; `None`: not seen.
    pub send_s: Option<f64>,
    /// Median time inside of receives whose message was there; `None`: not seen.
    pub receive_s: Option<f64>,
    /// Clocks of the two hosts may differ by this much.
    pub error_s: f64,
}

/// All messages of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub bytes: f64,
    pub time_s: f64,
    /// Standard error of the time.
    pub deviation_s: f64,
    /// Clocks add this to it at most, the same way at all sizes.
    pub error_s: f64,
    /// Clocks may differ by this, whatever of it cancels: shorter times are not told apart.
    pub floor_s: f64,
    pub messages: u64,
    pub send_s: Option<f64>,
    pub receive_s: Option<f64>,
}

/// The points of samples, by size.
pub(crate) fn points(samples: &[Sample]) -> Result<Vec<Point>, Error> {
    let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    let of = |sample: &Sample| [sample.low_s, sample.median_s, sample.high_s, sample.error_s];
    if !samples.iter().flat_map(of).all(is_time) {
        return Err(Error::NoNumber { what: "the time of a message" });
    }
    let mut sizes: Vec<u64> = samples.iter().filter(|sample| sample.messages > 0).map(|sample| sample.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let together = sizes.len().div_ceil(SIZES_MAX).max(1);
    let point = |sizes: &[u64]| {
        let range = sizes[0]..=sizes[sizes.len() - 1];
        let some: Vec<&Sample> =
            samples.iter().filter(|sample| sample.messages > 0 && range.contains(&sample.bytes)).collect();
        of_size(&some)
    };
    // A time that is zero has a clock that can't tell it, or is one of two hosts whose clocks differ by more than it.
    Ok(sizes.chunks(together).filter_map(point).filter(|point| point.time_s > 0.0).collect())
}

fn of_size(samples: &[&Sample]) -> Option<Point> {
    let directions = [true, false].map(|forward| {
        let of: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.is_forward == forward).collect();
        one_way(&of)
    });
    let messages = samples.iter().map(|sample| sample.messages).sum::<u64>();
    let bytes =
        samples.iter().map(|sample| sample.bytes as f64 * sample.messages as f64).sum::<f64>() / messages as f64;
    let (time_s, deviation_s, error_s) = match directions {
        [Some(there), Some(back)] => (0.5 * (there.0 + back.0), 0.5 * there.1.hypot(back.1), 0.0),
        [Some(one), None] | [None, Some(one)] => one,
        [None, None] => return None,
    };
    let median = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let mut all: Vec<f64> = samples.iter().filter_map(|sample| of(sample)).collect();
        middle(&mut all)
    };
    Some(Point {
        bytes,
        time_s,
        deviation_s,
        error_s,
        floor_s: samples.iter().map(|sample| sample.error_s).fold(0.0, f64::max),
        messages,
        send_s: median(&|sample| sample.send_s),
        receive_s: median(&|sample| sample.receive_s),
    })
}

/// Time, its standard error, and the error of clocks.
fn one_way(samples: &[&Sample]) -> Option<(f64, f64, f64)> {
    let messages: u64 = samples.iter().map(|sample| sample.messages).sum();
    let mut order: Vec<&&Sample> = samples.iter().collect();
    order.sort_by(|a, b| a.median_s.total_cmp(&b.median_s));
    // The median of medians, each as often as it has messages.
    let mut before = 0;
    let median = order.iter().find(|sample| {
        before += sample.messages;
        2 * before >= messages
    })?;
    let within_s = order.iter().map(|sample| sample.high_s - sample.low_s).fold(0.0, f64::max) / QUARTILES_OF_DEVIATION;
    let mut off: Vec<f64> = order.iter().map(|sample| (sample.median_s - median.median_s).abs()).collect();
    // Windows differ by more than their messages do where load comes and goes.
    let between_s = if samples.len() > 2 { 1.4826 * middle(&mut off)? / (samples.len() as f64).sqrt() } else { 0.0 };
    let deviation_s = MEDIAN_OF_MEAN * within_s / (messages as f64).sqrt();
    let error_s = order.iter().map(|sample| sample.error_s).fold(f64::INFINITY, f64::min);
    Some((median.median_s, deviation_s.max(between_s), error_s))
}

pub(crate) fn middle(all: &mut [f64]) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let last = all.len().checked_sub(1)?;
    Some(0.5 * (all[last / 2] + all[last.div_ceil(2)]))
}
