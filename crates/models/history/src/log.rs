//! A log of jobs that has been read, and why one can't be.
//!
//! Next: `read`, which reads it.

use crate::job::{Job, Open};
use serde::Serialize;
use std::collections::HashMap;
use thiserror::Error;

/// Lines that are read; more is no log that somebody looks at.
pub(crate) const LINES_MAX: usize = 20_000_000;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The Standard Workload Format of the Parallel Workloads Archive.
    Swf,
    /// The output of `sacct --parsable2`.
    Sacct,
    /// A line of names and lines of values, with commas between.
    Csv,
}

/// Lines that are no job that ran and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Jobs that never ran: cancelled before they began, or failed to begin.
    pub never_ran: usize,
    /// Jobs that wait or run.
    pub not_ended: usize,
    /// Parts of jobs: steps, and stretches of one that was interrupted.
    pub parts: usize,
    /// Jobs whose submission or run time is not known.
    pub unknown: usize,
    /// Lines that are damaged or that cannot be, where such are left out.
    pub wrong: usize,
}

/// Fate of a line that is damaged or that cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing is read.
    #[default]
    Refused,
    /// It is left out and counted.
    LeftOut,
}

/// A log that can't be read, with the line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// It has none of the formats.
    #[error(
        "line {line}: `{text}` is neither a line of the Standard Workload Format, nor names of columns with `|` or commas between"
    )]
    Format {
        /// The line, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A column that is needed is missing.
    #[error("line {line}: there is no column with {what}")]
    Column {
        /// The line of names, from 1.
        line: usize,
        /// Its content, and names that it may have.
        what: &'static str,
    },
    /// A line with fewer or more columns than there are.
    #[error("line {line}: it has {has} columns, not {wants}")]
    Columns {
        /// The line, from 1.
        line: usize,
        /// How many it has.
        has: usize,
        /// How many it should have.
        wants: usize,
    },
    /// A value that can't be.
    #[error("line {line}: {what} `{text}` is {why}")]
    Value {
        /// The line, from 1.
        line: usize,
        /// The column.
        what: &'static str,
        /// The value as it stands there.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// A job that began before it was submitted, or ended before it began.
    #[error("line {line}: the job {what} {seconds} s before {before}")]
    Backwards {
        /// The line, from 1.
        line: usize,
        /// Its deed.
        what: &'static str,
        /// How long before.
        seconds: u64,
        /// Before what.
        before: &'static str,
    },
    /// No job ran, and none waits.
    #[error("the log has no job that ran or waits")]
    Empty,
    /// Too many lines.
    #[error("the log has more than {LINES_MAX} lines")]
    Long,
}

/// Jobs in order of submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// How it was written.
    pub format: Format,
    /// Jobs that ran and ended.
    pub jobs: Vec<Job>,
    /// Lines that are none.
    pub left_out: LeftOut,
    /// Jobs that wait or run, in order of submission, as far as their submission is known.
    pub open: Vec<Open>,
    /// Jobs that stood behind one that was submitted later.
    pub out_of_order: usize,
    /// Numbers of names.
    pub(crate) names: HashMap<String, u32>,
    /// The column that says how large jobs are.
    pub sizes: Option<Sizes>,
}

/// Units in which a log says how large jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// Processors, cores or ranks.
    Processors,
    /// Nodes.
    Nodes,
}
