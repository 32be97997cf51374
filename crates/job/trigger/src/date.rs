//! A moment as people and programs write it: `2026-11-22T04:00:00Z`, with the zone's offset, or seconds since 1970.
//!
//! A moment without a zone is refused: what it means depends on who reads it where.

use trimtab_types::calendar::days_since_1970;

/// Seconds since 1970; `None` for anything else than a moment.
pub(crate) fn unix_s(text: &str) -> Option<f64> {
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    }
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (clock, offset_s) = zone(time)?;
    let parts = numbers(clock, ':')?;
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    if !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((days_since_1970(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second - offset_s) as f64)
}

/// The time of day and the zone's distance from UTC in seconds.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = time.find(['+', '-'])?;
    let [hours, minutes] = numbers(&time[at + 1..], ':')?[..] else { return None };
    let seconds = (hours <= 14 && minutes <= 59).then_some(hours * 3600 + minutes * 60)?;
    Some((&time[..at], if time[at..].starts_with('-') { -seconds } else { seconds }))
}

fn numbers(text: &str, separator: char) -> Option<Vec<i64>> {
    /// A year has most.
    const DIGITS_MAX: usize = 4;
    let number = |word: &str| {
        let fits = !word.is_empty() && word.len() <= DIGITS_MAX && word.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| word.parse().ok())?
    };
    text.split(separator).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2026-11-21T04:06:40Z", Some(1_795_234_000.0)),
            ("2026-11-21 05:06:40+01:00", Some(1_795_234_000.0)),
            ("2026-11-20T23:06:40-05:00", Some(1_795_234_000.0)),
            ("2000-02-29T00:00Z", Some(951_782_400.0)),
            ("@1795234000.5", Some(1_795_234_000.5)),
            ("2026-11-21T04:06:40", None),
            ("2026-02-29T04:06:40Z", None),
            ("2026-13-01T04:06:40Z", None),
            ("2026-11-21T24:00:00Z", None),
            ("2026-11-21", None),
            ("@x", None),
            ("@inf", None),
            ("tomorrow", None),
        ] {
            assert_eq!(unix_s(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,30}") {
            let _ = unix_s(&text);
        }
    }
}
