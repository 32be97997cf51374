//! A line through points, which a few stray ones don't bend.
//!
//! Next: `fit`, which asks for lines between breaks.

use crate::sample::Point;

/// Deviations beyond so many times their usual size count linearly (P. Huber, "Robust estimation of a location parameter", 1964).
const HUBER: f64 = 1.345;
/// Turns of the reweighted least squares.
const TURNS: usize = 8;
/// Relative deviations below this are none.
const FLAT: f64 = 1e-4;
/// Messages of a point beyond which it weighs no more.
const MESSAGES_MAX: f64 = 100.0;

/// Time of a message of one byte, and of each further one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub latency_s: f64,
    pub gap_s: f64,
}

impl Line {
    pub(crate) fn at(&self, bytes: f64) -> f64 {
        self.latency_s + self.gap_s * (bytes - 1.0).max(0.0)
    }

    /// How far the point lies from it, as a share of the longer of both times.
    pub(crate) fn off(&self, point: &Point) -> f64 {
        (point.time_s - self.at(point.bytes)) / self.scale_s(point)
    }

    /// The longer time, of the point and of the line there; differences below what clocks tell are none.
    fn scale_s(&self, point: &Point) -> f64 {
        point.time_s.max(self.at(point.bytes)).max(point.floor_s)
    }
}

/// A line near to most points, neither number of which is negative: of those through two points, through one and the origin, and
/// level ones, the one whose absolute relative deviations sum up to least; refined by Huber's measure around it.
pub(crate) fn line(points: &[Point]) -> Line {
    let through = |one: &Point, other: &Point| {
        let gap_s = (other.time_s - one.time_s) / (other.bytes - one.bytes);
        Line { latency_s: one.time_s - gap_s * (one.bytes - 1.0).max(0.0), gap_s }
    };
    let can_be = |line: &Line| line.gap_s.is_finite() && line.gap_s >= 0.0 && line.latency_s >= 0.0;
    let misfit = |line: &Line| points.iter().map(|point| weight(point) * line.off(point).abs()).sum::<f64>();
    let pairs = points.iter().enumerate().flat_map(|(at, one)| points[at + 1..].iter().map(move |other| (one, other)));
    let of_pairs = pairs.map(|(one, other)| through(one, other));
    let of_points = points.iter().flat_map(|point| {
        let from_origin = Line { latency_s: 0.0, gap_s: point.time_s / (point.bytes - 1.0).max(1.0) };
        [from_origin, Line { latency_s: point.time_s, gap_s: 0.0 }]
    });
    let candidates = of_pairs.chain(of_points).filter(can_be).map(|line| (misfit(&line), line));
    let found = candidates.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(Line::default(), |best| best.1);
    refined(points, found)
}

/// The same by least squares that are reweighted by Huber's measure, in units of deviations from the line of before.
fn refined(points: &[Point], from: Line) -> Line {
    let mut off: Vec<f64> = points.iter().map(|point| from.off(point).abs()).collect();
    off.sort_by(f64::total_cmp);
    let usual = off.get(off.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
    let bound = HUBER * (1.4826 * usual).max(FLAT);
    let mut found = from;
    for _ in 0..TURNS {
        let weights: Vec<f64> = points.iter().map(|point| (bound / found.off(point).abs()).min(1.0)).collect();
        found = least_squares(points, &weights, &from);
    }
    found
}

fn weight(point: &Point) -> f64 {
    (point.messages as f64).min(MESSAGES_MAX).sqrt()
}

/// Least squares of deviations relative to times of the points or of the line of before.
fn least_squares(points: &[Point], weights: &[f64], before: &Line) -> Line {
    let (mut one, mut x, mut xx, mut t, mut xt) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (point, share) in points.iter().zip(weights) {
        let weight = share * weight(point) / before.scale_s(point).powi(2);
        let bytes = (point.bytes - 1.0).max(0.0);
        one += weight;
        x += weight * bytes;
        xx += weight * bytes * bytes;
        t += weight * point.time_s;
        xt += weight * bytes * point.time_s;
    }
    let determinant = one * xx - x * x;
    let free = Line { latency_s: (xx * t - x * xt) / determinant, gap_s: (one * xt - x * t) / determinant };
    if !(free.gap_s.is_finite() && free.latency_s.is_finite()) || free.gap_s < 0.0 {
        return Line { latency_s: t / one, gap_s: 0.0 };
    }
    if free.latency_s < 0.0 { Line { latency_s: 0.0, gap_s: xt / xx } } else { free }
}

/// Huber's measure of a relative deviation, in units of the usual one, squared near zero.
pub(crate) fn measure(off: f64, usual: f64) -> f64 {
    let off = (off / usual).abs();
    if off <= HUBER { off * off } else { HUBER * (2.0 * off - HUBER) }
}
