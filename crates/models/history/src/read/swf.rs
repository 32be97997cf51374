//! The Standard Workload Format: 18 numbers a line, -1 where one is not known, comments after `;`.
//!
//! Further columns, which some archives append, are passed over.
//!
//! Next: `entry` for what is made of a line.

use super::entry::{Collector, Entry, Fate, Fault, lines, positive};
use crate::log::{LogError, Sizes};

/// Columns of a line.
const COLUMNS: usize = 18;
/// Places of columns, from 0.
const SUBMIT: usize = 1;
const WAIT: usize = 2;
const RUN: usize = 3;
const PROCESSORS: usize = 4;
const PROCESSORS_REQUESTED: usize = 7;
const TIME_REQUESTED: usize = 8;
const STATUS: usize = 10;
const USER: usize = 11;
const GROUP: usize = 12;
const PROGRAM: usize = 13;
const QUEUE: usize = 14;
const PARTITION: usize = 15;
/// Values of the status: a part of a job that goes on, its last part, and the same that failed.
const PARTS: [f64; 3] = [2.0, 3.0, 4.0];
const CANCELLED: f64 = 5.0;

pub(super) fn read(text: &str, collector: &mut Collector) -> Result<(), LogError> {
    collector.sizes = Some(Sizes::Processors);
    for (line, text) in lines(text).filter(|(_, text)| !text.trim_start().starts_with(';')) {
        let fields: Vec<&str> = text.split_whitespace().take(COLUMNS).collect();
        collector.add(line, entry_of(&fields))?;
    }
    Ok(())
}

fn entry_of<'a>(fields: &[&'a str]) -> Result<Entry<'a>, Fault> {
    if fields.len() < COLUMNS {
        return Err(Fault::Columns { has: fields.len(), wants: COLUMNS });
    }
    let number = |what, at: usize| known(what, fields[at]);
    let name = |at: usize| Some(fields[at]).filter(|text| *text != "-1");
    let submitted_s = number("the submission", SUBMIT)?;
    let wait_s = number("the wait", WAIT)?;
    let ran_s = number("the run time", RUN)?;
    let used = number("the processors", PROCESSORS)?;
    let asked = number("the requested processors", PROCESSORS_REQUESTED)?;
    let begun_s = submitted_s.zip(wait_s).map(|(submitted, wait)| submitted + wait);
    Ok(Entry {
        fate: fate_of(number("the status", STATUS)?, ran_s),
        submitted_s,
        begun_s,
        ran_s,
        requested_s: number("the requested time", TIME_REQUESTED)?.filter(|s| *s > 0.0),
        ranks: asked.filter(|ranks| *ranks > 0.0).or(used),
        user: name(USER),
        account: name(GROUP),
        name: name(PROGRAM),
        queue: Some(format!("{} {}", name(QUEUE).unwrap_or_default(), name(PARTITION).unwrap_or_default())),
        ..Entry::default()
    })
}

fn fate_of(status: Option<f64>, ran_s: Option<f64>) -> Fate {
    match (status, ran_s) {
        (Some(status), _) if PARTS.contains(&status) => Fate::Part,
        (_, None) => Fate::NeverRan,
        (Some(CANCELLED), Some(0.0)) => Fate::NeverRan,
        _ => Fate::Ended,
    }
}

/// A number, or `None` for -1.
fn known(what: &'static str, text: &str) -> Result<Option<f64>, Fault> {
    match text.parse::<f64>().ok() {
        Some(-1.0) => Ok(None),
        value => positive(what, text, value).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use crate::job::Job;
    use crate::log::{Format, LeftOut, Log, LogError, Wrong};

    fn read_log(text: &str) -> Result<Log, LogError> {
        crate::read::read_log(text, Wrong::Refused)
    }

    /// A line with these first columns, status and user.
    fn line(submit: &str, wait: &str, run: &str, requested: &str, status: &str) -> String {
        format!("7 {submit} {wait} {run} 16 -1 -1 32 {requested} -1 {status} 3 4 5 1 -1 -1 -1\n")
    }

    #[test]
    fn a_line_is_a_job_and_what_is_not_known_is_not_made_up() {
        let text = format!(
            "; MaxRecords: 2\n\n{}{}",
            line("100", "20", "50.5", "600", "1"),
            line("50", "-1", "10", "-1", "0")
        );
        let log = read_log(&text).expect("a log");
        assert_eq!((log.format, log.jobs.len(), log.out_of_order), (Format::Swf, 2, 1));
        let [first, second] = log.jobs[..] else { panic!("two jobs") };
        assert_eq!((first.submitted_s, first.begun_s, first.ended_s, first.ask.requested_s), (50.0, None, 60.0, None));
        let Job { begun_s, ended_s, ran_s, ask, .. } = second;
        assert_eq!((begun_s, ended_s, ran_s), (Some(120.0), 170.5, 50.5));
        assert_eq!((ask.requested_s, ask.ranks, ask.user == first.ask.user), (Some(600), Some(32), true));
    }

    #[test]
    fn jobs_that_never_ran_and_parts_of_jobs_are_counted() {
        let lines = [
            line("1", "2", "-1", "5", "5"),
            line("1", "2", "0", "5", "5"),
            line("1", "2", "9", "5", "3"),
            line("-1", "2", "9", "5", "1"),
            line("1", "2", "0", "5", "0"),
        ];
        let log = read_log(&lines.concat()).expect("a log");
        assert_eq!(log.left_out, LeftOut { never_ran: 2, parts: 1, unknown: 1, ..LeftOut::default() });
        assert_eq!(log.jobs.len(), 1, "it ran for less than a second");
    }

    #[test]
    fn further_columns_are_passed_over_and_missing_ones_are_named() {
        let more = line("1", "2", "3", "5", "1").replace('\n', " {12,13} q_2w\n");
        assert_eq!(read_log(&more).expect("a log").jobs.len(), 1);
        let whole = line("1", "2", "3", "5", "1");
        let cut = format!("{whole}8 1 2 3 4");
        assert_eq!(read_log(&cut), Err(LogError::Columns { line: 2, has: 5, wants: 18 }));
    }

    #[test]
    fn values_that_cannot_be_are_named_with_their_line() {
        for (text, what, value, why) in [
            (line("x", "2", "3", "5", "1"), "the submission", "x", "no number"),
            (line("1", "-7", "3", "5", "1"), "the wait", "-7", "negative"),
            (line("1", "2", "NaN", "5", "1"), "the run time", "NaN", "no number that can be"),
            (line("1", "2", "inf", "5", "1"), "the run time", "inf", "no number that can be"),
            (line("1", "2", "3", "-2", "1"), "the requested time", "-2", "negative"),
        ] {
            let error = LogError::Value { line: 2, what, text: value.to_owned(), why };
            assert_eq!(read_log(&format!("; comment\n{text}")), Err(error));
        }
        assert_eq!(read_log("; nothing\n"), Err(LogError::Empty));
    }

    #[test]
    fn wrong_lines_are_left_out_and_counted_where_that_is_wanted() {
        let text = [line("1", "2", "3", "5", "1"), line("1", "2", "-3", "5", "1"), "9 9\n".to_owned()].concat();
        let log = crate::read::read_log(&text, Wrong::LeftOut).expect("a log");
        assert_eq!((log.jobs.len(), log.left_out.wrong), (1, 2));
    }
}
