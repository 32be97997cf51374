//! Logs of jobs: the Standard Workload Format, `sacct --parsable2`, or columns with names.
//!
//! Next: `swf` and `columns` for the formats, `entry` for what is asked of a job.

mod columns;
mod entry;
mod swf;

use crate::log::{Format, LINES_MAX, Log, LogError, Wrong};
pub use columns::clock_s;
use entry::{Collector, beginning, lines};

/// Reads a log, of whichever format it is.
///
/// # Errors
/// The first line that is wrong, unless such are left out; a log without a job.
pub fn read_log(text: &str, wrong: Wrong) -> Result<Log, LogError> {
    if text.lines().nth(LINES_MAX).is_some() {
        return Err(LogError::Long);
    }
    let first = lines(text).next().ok_or(LogError::Empty)?;
    let mut collector = Collector::new(wrong);
    let format = format_of(first)?;
    match format {
        Format::Swf => swf::read(text, &mut collector)?,
        Format::Sacct => columns::read(text, '|', &mut collector)?,
        Format::Csv => columns::read(text, ',', &mut collector)?,
    }
    collector.log(format)
}

fn format_of((line, text): (usize, &str)) -> Result<Format, LogError> {
    let has_letters = text.chars().any(char::is_alphabetic);
    let first = text.split_whitespace().next().unwrap_or_default();
    match () {
        () if text.starts_with(';') || first.parse::<f64>().is_ok() => Ok(Format::Swf),
        () if has_letters && text.contains('|') => Ok(Format::Sacct),
        () if has_letters && text.contains(',') => Ok(Format::Csv),
        () => Err(LogError::Format { line, text: beginning(text) }),
    }
}
