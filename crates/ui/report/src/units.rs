//! Numbers for people: times, sizes, counts, shares and dates with units, always of a few characters.
//!
//! Next: `words.rs` and the pages, which print nothing but through these.

/// Stands where nothing was measured.
pub(crate) const NOT_MEASURED: &str = "not measured";

/// Units of time below a minute and their length in seconds, smallest first.
const TIME_UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// Units of size above the byte.
const SIZE_UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A duration with three significant digits: "3.16 ms", "2 min 5 s".
pub(crate) fn time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NOT_MEASURED.to_string();
    }
    if seconds == 0.0 {
        return "0 s".to_string();
    }
    if seconds.abs() >= 59.95 {
        return long_time(seconds);
    }
    let (unit, length) = time_unit(seconds);
    format!("{} {unit}", significant(seconds / length, 3))
}

/// A mean and its half width in one unit: "3.160 ± 0.051 ms"; where that would go below 0: "3.2 ms (0 to 7.5 ms)".
pub(crate) fn time_with_half_width(mean: f64, half_width: f64) -> String {
    if half_width > mean {
        return format!("{} (0 to {})", time(mean), time(mean + half_width));
    }
    let (unit, length) = time_unit(mean);
    let (mean, half_width) = (mean / length, half_width / length);
    let digits = decimals(mean, 3).max(decimals(half_width, 2).min(decimals(mean, 5)));
    format!("{mean:.digits$} ± {half_width:.digits$} {unit}")
}

/// A share and its half width: "38.62 ± 0.37%"; where that would leave 0 to 100%: "1.1% (0 to 3.0%)".
pub(crate) fn percent_with_half_width(mean: f64, half_width: f64) -> String {
    let (low, high) = ((mean - half_width).max(0.0), (mean + half_width).min(1.0));
    if low > mean - half_width || high < mean + half_width {
        return format!("{} ({} to {})", percent(mean), percent(low).trim_end_matches('%'), percent(high));
    }
    let (mean, half_width) = (mean * 100.0, half_width * 100.0);
    let digits = decimals(half_width, 2).clamp(1, 3);
    format!("{mean:.digits$} ± {half_width:.digits$}%")
}

/// A size with three significant digits: "512 B", "80 KiB", "1.25 MiB".
pub(crate) fn bytes(bytes: f64) -> String {
    if !bytes.is_finite() {
        return NOT_MEASURED.to_string();
    }
    match size_unit(bytes, 1023.5) {
        None => format!("{} B", trim_zeros(&significant(bytes, 3))),
        Some((scaled, unit)) => format!("{} {}", trim_zeros(&significant(scaled, 3)), SIZE_UNITS[unit]),
    }
}

/// A size in at most four characters, for the cells of a matrix: "512", "80K", "1.2M".
pub(crate) fn bytes_short(bytes: u64) -> String {
    match size_unit(bytes as f64, 999.5) {
        None => bytes.to_string(),
        Some((scaled, unit)) => {
            let digits = usize::from(scaled < 9.95);
            let number = format!("{scaled:.digits$}");
            format!("{}{}", trim_zeros(&number), &SIZE_UNITS[unit][..1])
        }
    }
}

/// A count with a comma between thousands.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: "1 rank", "4 ranks".
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ch") || noun.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(number))
}

/// A share as per cent: "38.6%", "0.04%"; so small that it would show as zero: "<0.001%".
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        _ if !value.is_finite() => NOT_MEASURED.to_string(),
        0.0 => "0%".to_string(),
        size if size < 0.001 => "<0.001%".to_string(),
        size if size < 0.95 => format!("{}%", trim_zeros(&significant(value, 2))),
        size if size < 1e6 => format!("{value:.1}%"),
        _ => format!("{value:.1e}%"),
    }
}

/// A plain number with so many significant digits, without an exponent where that can be read.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value != 0.0 && !(1e-4..1e15).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    format!("{value:.*}", decimals(value, digits))
}

/// A moment as "2026-11-21 04:06:02 UTC".
pub(crate) fn date(unix_s: f64) -> String {
    // Years 1 to 9999; anything else is no start time of a process.
    if !(-62_135_596_800.0..253_402_300_800.0).contains(&unix_s) {
        return NOT_MEASURED.to_string();
    }
    let seconds = unix_s.floor() as i64;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// The same, or that it is not known.
pub(crate) fn date_if_known(unix_s: Option<f64>) -> String {
    unix_s.map_or_else(|| NOT_MEASURED.to_string(), date)
}

/// How long ago something was, roughly: "now", "5 min ago", "3 h ago", "12 days ago".
pub(crate) fn age(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => NOT_MEASURED.to_string(),
        s if s < 60.0 => "now".to_string(),
        s if s < 3600.0 => format!("{:.0} min ago", (s / 60.0).floor()),
        s if s < 172_800.0 => format!("{:.0} h ago", (s / 3600.0).floor()),
        s => format!("{:.0} days ago", (s / 86_400.0).floor()),
    }
}

/// Digits after the point that show so many significant digits.
fn decimals(value: f64, digits: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let magnitude = value.abs().log10().floor() as i32;
    // 9.996 with three digits becomes 10.0: one place less.
    let scale = 10f64.powi(digits - 1 - magnitude);
    let rounded_up = (value.abs() * scale).round() >= 10f64.powi(digits);
    (digits - 1 - magnitude - i32::from(rounded_up)).clamp(0, 12) as usize
}

fn time_unit(seconds: f64) -> (&'static str, f64) {
    // Rounded to three digits first, so that 999.9 us becomes 1.00 ms.
    let fits = |(_, length): &&(&str, f64)| seconds.abs() < 999.5 * length;
    *TIME_UNITS.iter().find(fits).unwrap_or(&TIME_UNITS[3])
}

fn long_time(seconds: f64) -> String {
    let whole = seconds.abs().round() as u64;
    let sign = if seconds < 0.0 { "-" } else { "" };
    match whole {
        w if w < 3600 => format!("{sign}{} min {} s", w / 60, w % 60),
        w if w < 86_400 => format!("{sign}{} h {} min", w / 3600, w / 60 % 60),
        w => format!("{sign}{} d {} h", w / 86_400, w / 3600 % 24),
    }
}

/// The size in its unit's multiples, below `limit` where a larger unit is left, and the unit's place in [`SIZE_UNITS`];
/// `None`: bytes.
fn size_unit(bytes: f64, limit: f64) -> Option<(f64, usize)> {
    if bytes < limit {
        return None;
    }
    let mut scaled = bytes / 1024.0;
    let mut unit = 0;
    while scaled >= limit && unit + 1 < SIZE_UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    Some((scaled, unit))
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar: months are counted from March, so that
/// the leap day is a year's last, and 400 years repeat exactly.
fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    const DAYS_FROM_YEAR_0_MARCH: i64 = 719_468;
    let days = days_since_1970 + DAYS_FROM_YEAR_0_MARCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_IN_400_YEARS), days.rem_euclid(DAYS_IN_400_YEARS));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let rows = [
            (0.0, "0 s"),
            (1.65e-8, "16.5 ns"),
            (9.994e-7, "999 ns"),
            (9.996e-7, "1.00 us"),
            (3.16e-3, "3.16 ms"),
            (9.996e-3, "10.0 ms"),
            (0.25, "250 ms"),
            (59.94, "59.9 s"),
            (59.96, "1 min 0 s"),
            (125.0, "2 min 5 s"),
            (3.0 * 3600.0 + 59.0, "3 h 0 min"),
            (200_000.0, "2 d 7 h"),
            (-0.5, "-500 ms"),
            (1e-15, "1.00e-6 ns"),
            (f64::NAN, NOT_MEASURED),
        ];
        for (seconds, expected) in rows {
            assert_eq!(time(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn means_and_half_widths_share_a_unit() {
        let rows = [
            (3.16e-3, 5.1e-5, "3.160 ± 0.051 ms"),
            (3.16e-3, 0.0, "3.16 ± 0.00 ms"),
            (0.25, 0.1, "250 ± 100 ms"),
            (2.0, 1e-9, "2.0000 ± 0.0000 s"),
            (12.5e-3, 6.9e-6, "12.500 ± 0.007 ms"),
            (3.2e-3, 4.3e-3, "3.20 ms (0 to 7.50 ms)"),
        ];
        for (mean, half_width, expected) in rows {
            assert_eq!(time_with_half_width(mean, half_width), expected);
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        let rows = [
            (0.0, "0 B", "0"),
            (512.0, "512 B", "512"),
            (1000.0, "1000 B", "1K"),
            (1_031_168.0, "1007 KiB", "1M"),
            (8192.0, "8 KiB", "8K"),
            (81_920.0, "80 KiB", "80K"),
            (1_310_720.0, "1.25 MiB", "1.2M"),
            (1.5e9, "1.4 GiB", "1.4G"),
            (1.8e19, "15.6 EiB", "16E"),
        ];
        for (size, long, short) in rows {
            assert_eq!((bytes(size).as_str(), bytes_short(size as u64).as_str()), (long, short), "{size}");
        }
        assert_eq!(bytes(12.345), "12.3 B");
    }

    #[test]
    fn shares_and_counts_are_short() {
        let shares = [
            (0.386, "38.6%"),
            (0.0004, "0.04%"),
            (0.00367, "0.37%"),
            (0.000312, "0.031%"),
            (0.0, "0%"),
            (1e-7, "<0.001%"),
            (1.0, "100.0%"),
            (0.02, "2.0%"),
        ];
        for (share, expected) in shares {
            assert_eq!(percent(share), expected);
        }
        assert_eq!(percent_with_half_width(0.38624, 0.00367), "38.62 ± 0.37%");
        assert_eq!(percent_with_half_width(0.5, 0.0), "50.0 ± 0.0%");
        assert_eq!(percent_with_half_width(0.011, 0.019), "1.1% (0 to 3.0%)", "section 4g: never below 0");
        assert_eq!(percent_with_half_width(0.98, 0.03), "98.0% (95.0 to 100.0%)");
        let counts = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (number, expected) in counts {
            assert_eq!(count(number), expected);
        }
    }

    #[test]
    fn dates_and_ages() {
        let rows = [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_399.9, "2000-02-28 23:59:59 UTC"),
            (951_782_400.0, "2000-02-29 00:00:00 UTC"),
            (1_795_234_000.25, "2026-11-21 04:06:40 UTC"),
            (-1.0, "1969-12-31 23:59:59 UTC"),
            (1e300, NOT_MEASURED),
        ];
        for (unix_s, expected) in rows {
            assert_eq!(date(unix_s), expected);
        }
        let ages = [(5.0, "now"), (119.0, "1 min ago"), (7300.0, "2 h ago"), (1e6, "11 days ago"), (-5.0, "now")];
        for (seconds, expected) in ages {
            assert_eq!(age(seconds), expected);
        }
    }
}
