//! Days of the Gregorian calendar, and moments as recordings write them.
//!
//! Next: `trimtab-trigger`'s `date`, `trimtab-weather`'s `series` and `trimtab-history`'s `read`, which read moments.

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Seconds since 1970 of a number, or of a date in UTC as `2014-02-14 14:30:00` with a blank or a T between.
pub fn seconds_since_1970(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    let text = text.trim_end_matches('Z');
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut date = date.splitn(3, '-');
    let year: i64 = whole(date.next()?, 4)?;
    let (month, day) = (whole(date.next()?, 2)?, whole(date.next()?, 2)?);
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (whole(time.next()?, 2)?, whole(time.next()?, 2)?);
    let second: f64 = time.next().map_or(Some(0.0), |second| second.parse().ok())?;
    let days = days_since_1970(year, month, day)?;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..61.0).contains(&second);
    is_time.then(|| days as f64 * DAY_S + (hour * 3600 + minute * 60) as f64 + second)
}

fn whole(text: &str, digits_max: usize) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= digits_max && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 to a date; `None`: there is no such day.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let leaps_before = |year: i64| (year - 1).div_euclid(4) - (year - 1).div_euclid(100) + (year - 1).div_euclid(400);
    let years = (year - 1970) * 365 + leaps_before(year) - leaps_before(1970);
    Some(years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_and_others_refused() {
        for ((year, month, day), days) in [
            ((1970, 1, 1), Some(0)),
            ((1969, 12, 31), Some(-1)),
            ((2000, 2, 29), Some(11_016)),
            ((2014, 2, 14), Some(16_115)),
            ((1900, 2, 29), None),
            ((2014, 2, 31), None),
            ((2014, 13, 1), None),
            ((2014, 4, 0), None),
        ] {
            assert_eq!(days_since_1970(year, month, day), days, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, seconds) in [
            ("0", Some(0.0)),
            ("1392388200.5", Some(1_392_388_200.5)),
            ("2014-02-14 14:30:00", Some(1_392_388_200.0)),
            ("2014-02-14T14:30:00Z", Some(1_392_388_200.0)),
            ("2000-02-29 00:00", Some(951_782_400.0)),
            ("1970-01-01", Some(0.0)),
            ("1969-12-31 23:59:59", Some(-1.0)),
            ("2014-13-01 00:00:00", None),
            ("2014-02-14 24:00:00", None),
            ("2014-02-31 00:00:00", None),
            ("14.02.2014", None),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(seconds_since_1970(text), seconds, "{text}");
        }
    }
}
