//! Measurements as they are accepted: checked, grouped by sizes, with the spread of their repetitions.
//!
//! Next: `search`, which takes them.

use crate::error::Error;
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use trimtab_weather::median_of;

/// Sizes of each parameter that a model needs: a constant, two terms, and two sizes to judge them by.
pub(crate) const SIZES_MIN: usize = 5;
/// The same where there are several parameters, which are judged together.
pub(crate) const SIZES_MIN_EACH: usize = 3;
/// The largest size over the smallest, at least.
const RANGE_MIN: f64 = 2.0;
/// An error that matters little, as a share of the value: where repetitions spread by less, all values count alike.
const TOLERANCE: f64 = 0.02;
/// The mean deviation of a normal variable, as its standard deviation has it.
const DEVIATION_OF_MEDIAN: f64 = 1.4826;

/// Values that were measured at one place: the same sizes, several repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The size of each parameter.
    pub at: Vec<f64>,
    /// The value of each repetition.
    pub values: Vec<f64>,
    /// Their unit.
    pub unit: Unit,
}

/// A place after its repetitions were summed up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub at: Vec<f64>,
    /// Median of the repetitions.
    pub value: f64,
    /// An error of this size counts as one.
    pub scale: f64,
}

/// All places, in the order of their sizes.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub places: Vec<Place>,
    /// How far a repetition is from the median of its place, typically, as a share.
    pub noise: f64,
    pub unit: Unit,
}

/// Checks measurements, and sums up repetitions.
pub(crate) fn checked(parameters: &[String], measurements: &[Measurement]) -> Result<Measured, Error> {
    check_names(parameters)?;
    let mut places: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let unit = measurements.first().map_or(Unit::Seconds, |first| first.unit);
    for measurement in measurements {
        check_one(parameters, measurement, unit)?;
        match places.iter_mut().find(|(at, _)| *at == measurement.at) {
            Some((_, values)) => values.extend(&measurement.values),
            None => places.push((measurement.at.clone(), measurement.values.clone())),
        }
    }
    places.sort_by(|one, other| {
        one.0.iter().zip(&other.0).fold(std::cmp::Ordering::Equal, |so_far, (a, b)| so_far.then(a.total_cmp(b)))
    });
    check_ranges(parameters, &places)?;
    Ok(summed(places, unit))
}

fn check_names(parameters: &[String]) -> Result<(), Error> {
    if parameters.is_empty() {
        return Err(Error::NoParameter);
    }
    let twice = parameters.iter().enumerate().find(|(place, name)| parameters[..*place].contains(name));
    twice.map_or(Ok(()), |(_, name)| Err(Error::SameName(name.clone())))
}

fn check_one(parameters: &[String], measurement: &Measurement, unit: Unit) -> Result<(), Error> {
    check_sizes(parameters, &measurement.at)?;
    if measurement.unit != unit {
        return Err(Error::Units { one: unit, other: measurement.unit });
    }
    let at = || words_of(parameters, &measurement.at);
    if measurement.values.is_empty() {
        return Err(Error::NoValue { at: at() });
    }
    let wrong = measurement.values.iter().find(|value| !(value.is_finite() && **value > 0.0));
    wrong.map_or(Ok(()), |value| Err(Error::WrongValue { value: *value, unit, at: at() }))
}

/// Checks that there is one size for each parameter, and that each can be a size.
pub(crate) fn check_sizes(parameters: &[String], at: &[f64]) -> Result<(), Error> {
    if at.len() != parameters.len() {
        return Err(Error::WrongCount { found: at.len(), expected: parameters.len() });
    }
    let wrong = parameters.iter().zip(at).find(|(_, size)| !(size.is_finite() && **size > 0.0));
    wrong.map_or(Ok(()), |(name, size)| Err(Error::WrongSize { parameter: name.clone(), size: *size }))
}

fn words_of(parameters: &[String], at: &[f64]) -> String {
    let words: Vec<String> = parameters.iter().zip(at).map(|(name, size)| format!("{name}={size}")).collect();
    words.join(", ")
}

fn check_ranges(parameters: &[String], places: &[(Vec<f64>, Vec<f64>)]) -> Result<(), Error> {
    let needed = if parameters.len() == 1 { SIZES_MIN } else { SIZES_MIN_EACH };
    for (index, parameter) in parameters.iter().enumerate() {
        let sizes = sizes_of(places.iter().map(|(at, _)| at[index]));
        let parameter = parameter.clone();
        match sizes[..] {
            [size] => return Err(Error::OneSize { parameter, size, needed }),
            _ if sizes.len() < needed => return Err(Error::FewSizes { parameter, found: sizes.len(), needed }),
            [least, .., most] if most < RANGE_MIN * least => {
                return Err(Error::NarrowRange { parameter, least, most, needed: RANGE_MIN });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Different sizes, ascending.
pub(crate) fn sizes_of(sizes: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sizes: Vec<f64> = sizes.collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

fn summed(places: Vec<(Vec<f64>, Vec<f64>)>, unit: Unit) -> Measured {
    let spreads: Vec<(f64, f64)> = places.iter().filter_map(|(_, values)| spread_of(values)).collect();
    let noise = median_of(spreads.iter().map(|(middle, spread)| spread / middle)).unwrap_or(0.0);
    // Starting a program takes a time that varies by itself, whatever the size: seen where values are small.
    let smallest = places.len().div_ceil(3);
    let mut by_value = spreads;
    by_value.sort_by(|one, other| one.0.total_cmp(&other.0));
    let floor = median_of(by_value.iter().take(smallest).map(|(_, spread)| *spread)).unwrap_or(0.0);
    let place = |(at, values): (Vec<f64>, Vec<f64>)| {
        let repetitions = (values.len() as f64).sqrt();
        let value = median_of(values.iter().copied()).unwrap_or(0.0);
        let error = floor.max(noise * value) / repetitions;
        Place { at, value, scale: (error / TOLERANCE).hypot(value) }
    };
    Measured { places: places.into_iter().map(place).collect(), noise, unit }
}

/// Median of repetitions, and how far one is from it, typically; `None`: there is one only.
pub(crate) fn spread_of(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median_of(values.iter().copied()).filter(|_| values.len() > 1)?;
    let deviation = median_of(values.iter().map(|value| (value - middle).abs()))?;
    // The middle one of few has no deviation at all, which says nothing.
    let count = values.len() as f64;
    Some((middle, DEVIATION_OF_MEDIAN * deviation * count / (count - 0.8)))
}
