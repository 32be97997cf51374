//! Time limits of jobs, as users and Slurm write them.
//!
//! Next: `super` for the options that take them.

use trimtab_engine::history::clock_s;

/// Seconds of a minute, an hour, a day.
const UNITS: [(&str, f64); 4] = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
/// No job is asked for longer: a thousand years.
const SECONDS_MAX: f64 = 3.2e10;

/// Seconds of `90m`, `2h`, `1.5d`, `HH:MM:SS` or `D-HH:MM:SS`. A number alone is refused: it is minutes to Slurm, seconds to others.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    // MM:SS alone could be meant as HH:MM.
    let is_whole_clock = text.matches(':').count() == 2;
    let seconds = if is_whole_clock { clock_s(text) } else { of_unit(text) };
    let seconds = seconds.ok_or("give a time with its unit, such as 90m, 2h or 1d, or HH:MM:SS, or D-HH:MM:SS")?;
    if !(1.0..=SECONDS_MAX).contains(&seconds) {
        return Err("give a second at least, and no thousand years".to_owned());
    }
    Ok(seconds.ceil() as u64)
}

fn of_unit(text: &str) -> Option<f64> {
    let (number, scale) = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let number: f64 = number.trim_end().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_clocks() {
        for (text, expected) in [
            ("2h", Some(7200)),
            ("90m", Some(5400)),
            ("1.5d", Some(129_600)),
            ("45 s", Some(45)),
            ("01:30:00", Some(5400)),
            ("2-00:00:10", Some(172_810)),
            ("120", None),
            ("", None),
            ("h", None),
            ("-2h", None),
            ("0s", None),
            ("1e99d", None),
            ("30:00", None),
            ("1:2:3:4", None),
            ("nan h", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
