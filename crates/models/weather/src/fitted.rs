//! Exponential smoothing whose gain and beginning are the likeliest for the latest values, fitted anew for each forecast.
//!
//! Of the models that the crate fits it is the one without a trend: one with a trend, and the choice among all of them, were further
//! off on two recorded series, and cost 14 and 58 times as much.
//!
//! Next: `forecasters`, which has it among others.

use augurs_core::Predict;
use augurs_ets::model::{ErrorComponent, ModelType, SeasonalComponent, TrendComponent, Unfit};

/// It is fitted to so many values, the latest.
pub(crate) const VALUES: usize = 64;
/// Fewer values fit many gains.
const VALUES_MIN: usize = 8;
/// Beyond this their squares are no numbers.
const LARGEST: f64 = 1e100;

/// The next of these values, oldest first; `None`: too few, all equal, or nothing fits.
pub(crate) fn next(latest: &[f64]) -> Option<f64> {
    let (least, most) = latest
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(*value), most.max(*value)));
    if latest.len() < VALUES_MIN || least >= most || most - least > LARGEST {
        return None;
    }
    // Between 0 and 1, whatever their unit.
    let scaled: Vec<f64> = latest.iter().map(|value| (value - least) / (most - least)).collect();
    let kind =
        ModelType { error: ErrorComponent::Additive, trend: TrendComponent::None, season: SeasonalComponent::None };
    let said = Unfit::new(kind).fit(&scaled).ok()?.predict(1, None).ok()?;
    let value = said.point.first().copied().filter(|value| value.is_finite())?;
    // A smoothed value lies among those that it smooths.
    Some((least + value * (most - least)).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_gain_is_that_of_the_series() {
        let walk: Vec<f64> = (0..64).map(|at| f64::from(at / 16)).collect();
        assert!((next(&walk).expect("it fits") - 3.0).abs() < 0.01, "steps are followed at once");
        let noise: Vec<f64> = (0..64).map(|at| if at % 2 == 0 { 1.0 } else { 3.0 }).collect();
        assert!((next(&noise).expect("it fits") - 2.0).abs() < 0.1, "noise is not");
        assert_eq!((next(&[1.0; 64]), next(&walk[..7])), (None, None));
    }

    proptest! {
        #[test]
        fn it_lies_among_the_values(values in prop::collection::vec(-1e99..1e99_f64, 8..64), small in -1e-9..1e-9_f64) {
            let tiny: Vec<f64> = values.iter().map(|value| value / 1e99 * small).collect();
            for values in [values, tiny] {
                let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(*one), most.max(*one)));
                prop_assert!(next(&values).is_none_or(|value| (least..=most).contains(&value)));
            }
        }
    }
}
