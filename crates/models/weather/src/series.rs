//! A recorded series: times and values, read from lines of `timestamp,value`.
//!
//! Times are seconds since 1970 or dates, as `2014-02-14 14:30:00` with a blank or a T between, and in UTC. They may be apart
//! by more or less than usual, and two may be equal, as clocks do that are set back by an hour; one that is earlier than the one
//! before is refused, because nobody knows then which value came first.
//!
//! Next: `backtest`, which goes through one.

use thiserror::Error;
use trimtab_types::calendar::seconds_since_1970;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// Values are no larger than this on either side of 0: their squares, which forecasters add up, still are numbers.
pub(crate) const LARGEST: f64 = 1e100;
/// Lines that are read; more is no series that somebody looks at.
const LINES_MAX: usize = 20_000_000;

/// A series that can't be read, with the line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SeriesError {
    /// There is no value.
    #[error("the series has no value")]
    Empty,
    /// A line that is not a time and a value.
    #[error("line {line}: `{text}` is not `timestamp,value`")]
    Line {
        /// The line, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A time that can't be read.
    #[error("line {line}: `{text}` is no time; write seconds since 1970 or e.g. 2014-02-14 14:30:00")]
    Time {
        /// The line, from 1.
        line: usize,
        /// The time as it stands there.
        text: String,
    },
    /// A value that is none, or beyond [`LARGEST`].
    #[error("line {line}: `{text}` is no finite number, or one beyond 1e100")]
    Value {
        /// The line, from 1.
        line: usize,
        /// The value as it stands there.
        text: String,
    },
    /// A clock that went back.
    #[error("line {line}: its time is {seconds} s before that of the line before; the order of values is not known")]
    Backwards {
        /// The line, from 1.
        line: usize,
        /// How far.
        seconds: u64,
    },
    /// Too many lines.
    #[error("the series has more than {LINES_MAX} lines")]
    Long,
}

/// Values in the order of their times.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// When each was, seconds since 1970.
    pub times_s: Vec<f64>,
    /// The values.
    pub values: Vec<f64>,
}

impl Series {
    /// Reads lines of `timestamp,value`. A first line of names is passed over, and so are empty lines.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn read(text: &str) -> Result<Self, SeriesError> {
        let mut series = Series { times_s: Vec::new(), values: Vec::new() };
        let is_filled = |(_, line): &(usize, &str)| !line.trim().is_empty();
        for (at, line) in text.lines().enumerate().filter(is_filled) {
            match read_line(at + 1, line) {
                Ok(point) => series.push(at + 1, point)?,
                // Names of columns have no number anywhere.
                Err(_) if series.values.is_empty() && !line.contains(|c: char| c.is_ascii_digit()) => {}
                Err(error) => return Err(error),
            }
        }
        if series.values.is_empty() { Err(SeriesError::Empty) } else { Ok(series) }
    }

    fn push(&mut self, line: usize, (time_s, value): (f64, f64)) -> Result<(), SeriesError> {
        if let Some(before) = self.times_s.last().filter(|before| **before > time_s) {
            return Err(SeriesError::Backwards { line, seconds: (before - time_s).ceil() as u64 });
        }
        if self.values.len() >= LINES_MAX {
            return Err(SeriesError::Long);
        }
        self.times_s.push(time_s);
        self.values.push(value);
        Ok(())
    }

    /// The usual time between two values, the median; `None` if there is one value only.
    pub fn step_s(&self) -> Option<f64> {
        let mut steps: Vec<f64> = self.times_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_by(f64::total_cmp);
        steps.get(steps.len() / 2).copied()
    }

    /// Values of a day, if the step divides it and the series has two days or more.
    pub fn day(&self) -> Option<usize> {
        let step_s = self.step_s().filter(|step_s| *step_s > 0.0)?;
        let day = DAY_S / step_s;
        let is_whole = (day - day.round()).abs() < 1e-6;
        (is_whole && day >= 2.0 && self.values.len() as f64 >= 2.0 * day).then_some(day.round() as usize)
    }

    /// Places where the time to the next value is more than one and a half steps.
    pub fn gaps(&self) -> usize {
        let step_s = self.step_s().unwrap_or(0.0);
        self.times_s.windows(2).filter(|pair| pair[1] - pair[0] > 1.5 * step_s).count()
    }
}

fn read_line(line: usize, text: &str) -> Result<(f64, f64), SeriesError> {
    let beginning = || text.chars().take(60).collect::<String>();
    let Some((time, value)) = text.split_once(',').filter(|(_, value)| !value.contains(',')) else {
        return Err(SeriesError::Line { line, text: beginning() });
    };
    let (time, value) = (time.trim(), value.trim());
    let time_s =
        seconds_since_1970(time).ok_or_else(|| SeriesError::Time { line, text: time.chars().take(60).collect() })?;
    match value.parse::<f64>() {
        Ok(value) if value.abs() <= LARGEST => Ok((time_s, value)),
        _ => Err(SeriesError::Value { line, text: value.chars().take(60).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_line_is_named() {
        let read = |lines: &str| Series::read(lines).map(|series| series.values);
        let text = |text: &str| text.to_owned();
        assert_eq!(read("timestamp,value\n1,2\n\n2,-3.5\n"), Ok(vec![2.0, -3.5]));
        for (lines, error) in [
            ("", SeriesError::Empty),
            ("timestamp,value\n", SeriesError::Empty),
            ("1,2\n2;3\n", SeriesError::Line { line: 2, text: text("2;3") }),
            ("1,2\n2,3,4\n", SeriesError::Line { line: 2, text: text("2,3,4") }),
            ("1,2\nyesterday,3\n", SeriesError::Time { line: 2, text: text("yesterday") }),
            ("1,NaN\n", SeriesError::Value { line: 1, text: text("NaN") }),
            ("1,2\n2,inf\n", SeriesError::Value { line: 2, text: text("inf") }),
            ("1,2\n2,-1e101\n", SeriesError::Value { line: 2, text: text("-1e101") }),
            ("1,2\n2,\n", SeriesError::Value { line: 2, text: text("") }),
            ("1,2\n9,3\n5.5,3\n", SeriesError::Backwards { line: 3, seconds: 4 }),
        ] {
            assert_eq!(read(lines), Err(error), "{lines}");
        }
    }

    #[test]
    fn a_day_is_known_where_the_step_divides_it() {
        let of = |step_s: u32, count: u32| Series {
            times_s: (0..count).map(|at| f64::from(at * step_s)).collect(),
            values: vec![0.0; count as usize],
        };
        assert_eq!(
            (of(300, 576).day(), of(300, 575).day(), of(7, 99_999).day(), of(300, 1).day()),
            (Some(288), None, None, None)
        );
        let mut late = of(300, 10);
        late.times_s[9] += 3600.0;
        assert_eq!((late.gaps(), of(300, 10).gaps()), (1, 0));
    }
}
