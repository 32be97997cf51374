//! Ratios, imbalance and shared-processor formulas of the measuring window, each a function of plain numbers.
//!
//! Times may be in any unit as long as it is the same for all arguments of one call. A formula whose denominator is
//! not positive has no value and returns `None`: an unmeasured quantity is never shown as zero.
//!
//! Next: `statistics` for intervals, `assemble` for where the numbers come from.

/// Iterations bounded by `marks` calls of the marker: one fewer than marks; `None` without two marks.
pub fn iterations(marks: u64) -> Option<u64> {
    marks.checked_sub(1).filter(|iterations| *iterations > 0)
}

/// Mean time of one iteration: (t2 - t1) / (marks - 1), with t1 and t2 the entries of the first and last mark.
pub fn time_per_iteration(duration: f64, marks: u64) -> Option<f64> {
    iterations(marks).map(|iterations| duration / iterations as f64)
}

/// Communication over computation time: r = Tc / (t2 - t1 - Tc).
pub fn communication_to_computation(communication: f64, duration: f64) -> Option<f64> {
    ratio(communication, duration - communication)
}

/// Share of the window spent in communication: Tc / (t2 - t1) = r / (1 + r), 0 to 1.
pub fn communication_fraction(communication: f64, duration: f64) -> Option<f64> {
    ratio(communication, duration)
}

/// Imbalance of the computation times p of all ranks: max p / mean p - 1; 0 is balanced.
pub fn imbalance(computation: &[f64]) -> Option<f64> {
    let mean = computation.iter().sum::<f64>() / computation.len() as f64;
    let max = computation.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    ratio(max, mean).map(|over_mean| over_mean - 1.0)
}

/// Speed of each rank relative to the slowest, v = max p / p, assuming equal work; the slowest has 1.
pub fn relative_speeds(computation: &[f64]) -> Option<Vec<f64>> {
    let slowest = computation.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    computation.iter().map(|time| ratio(slowest, *time)).collect()
}

/// Work of each rank relative to the least, w = p / min p, assuming equal processors; the least has 1.
pub fn relative_work(computation: &[f64]) -> Option<Vec<f64>> {
    let least = computation.iter().copied().fold(f64::INFINITY, f64::min);
    computation.iter().map(|time| ratio(*time, least)).collect()
}

/// Growth of run time of two programs that take turns on one processor: (busy - idle) / (busy + idle) if they are
/// busier than idle, else 0. Both are sums over the two programs; the model is time sharing, not sibling threads.
pub fn slowdown_growth(busy: f64, idle: f64) -> Option<f64> {
    ratio(busy - idle, busy + idle).map(|growth| growth.max(0.0))
}

/// Slowdown S: time per iteration beside another job over that of the job alone.
pub fn slowdown(time_per_iteration_beside: f64, time_per_iteration_alone: f64) -> Option<f64> {
    ratio(time_per_iteration_beside, time_per_iteration_alone)
}

/// Run time of a job A that is slowed down by `slowdown_a` only until job B ends after `until_b_ends`:
/// Ta = Ta1 + Tb - Tb / Sa. `None` if A would end before B (Tb > Ta1 * Sa), where the formula does not hold.
pub fn run_time_beside(alone: f64, slowdown_a: f64, until_b_ends: f64) -> Option<f64> {
    let is_valid = slowdown_a > 0.0 && until_b_ends <= alone * slowdown_a;
    is_valid.then(|| alone + until_b_ends - until_b_ends / slowdown_a)
}

/// Run time of a job slowed down by `slowdown_a` to its end: Ta1 * Sa (printed as a quotient in the source).
pub fn run_time_all_beside(alone: f64, slowdown_a: f64) -> f64 {
    alone * slowdown_a
}

/// Time on a link by counts and volumes: n (overhead + latency) + (bytes - n) * time per byte.
pub fn link_time(messages: u64, bytes: u64, overhead: f64, latency: f64, time_per_byte: f64) -> f64 {
    messages as f64 * (overhead + latency) + bytes.saturating_sub(messages) as f64 * time_per_byte
}

/// Middle value, mean of the two middle ones for an even number; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut values = values.to_vec();
    let count = values.len();
    let (below, upper, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    let upper = *upper;
    let lower = if count.is_multiple_of(2) { below.iter().copied().max_by(f64::total_cmp) } else { None };
    Some(lower.map_or(upper, |lower| (lower + upper) / 2.0))
}

/// Standard deviation over mean; 0 for fewer than two values, infinite for a mean of zero with spread.
pub fn coefficient_of_variation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (values.len() - 1) as f64).sqrt();
    if deviation == 0.0 { 0.0 } else { deviation / mean.abs() }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part.is_finite()).then(|| part / whole)
}
