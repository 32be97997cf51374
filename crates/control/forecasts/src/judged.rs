//! Forecasts of jobs' ends beside what came.
//!
//! Next: `trimtab_progress` for errors by method.

use trimtab_progress::Outcome;
use trimtab_store::ForecastOfRun;

/// A forecast is judged if the end of its run is known to within this share of the run.
const END_KNOWN: f64 = 0.02;

/// The length of the run of a forecast, and its end, if that is known well enough.
pub fn end_of(one: &ForecastOfRun) -> Option<(f64, f64)> {
    let begun = one.forecast.made_unix_s - one.forecast.elapsed_s;
    let ended = one.run.ended?;
    let end = ended.within(END_KNOWN, ended.after_unix_s - begun)?;
    (end > begun).then_some((end - begun, end))
}

/// How a forecast came out; `None`: the end is not known well enough.
pub fn outcome(one: &ForecastOfRun) -> Option<Outcome> {
    let (run_s, end) = end_of(one)?;
    let forecast = &one.forecast;
    Some(Outcome {
        method: forecast.method.clone(),
        error: forecast.end_unix_s.map(|said| (said - end) / run_s),
        held: (forecast.lower_unix_s..=forecast.upper_unix_s).contains(&end),
        held_late: end <= forecast.late_unix_s,
    })
}
