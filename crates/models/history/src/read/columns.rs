//! Columns with names: `sacct --parsable2`, or a file of comma-separated values.
//!
//! A column is known by any of its usual names, whatever its case and what stands between its words. Of several that say the
//! same the first in the list counts.
//!
//! Next: `entry` for what is made of a line, `super::swf` for the format without names.

use super::entry::{Collector, Entry, Fate, Fault, lines, positive};
use crate::log::{LogError, Sizes};
use std::borrow::Cow;
use trimtab_types::calendar::seconds_since_1970;

const SUBMIT: &[&str] = &["submit", "submittime", "submitted", "submission", "submissiontime"];
const START: &[&str] = &["start", "starttime", "started", "begin", "begintime"];
const END: &[&str] = &["end", "endtime", "ended", "finish", "finishtime"];
const RUN: &[&str] = &["elapsedraw", "elapsed", "runtime", "duration"];
const REQUEST: &[&str] = &[
    "timelimitraw",
    "timelimit",
    "wallclockreq",
    "requestedtime",
    "timerequested",
    "timereq",
    "reqtime",
    "walltimereq",
    "requestedwalltime",
];
const RANKS: &[&str] = &[
    "processorsreq",
    "reqcpus",
    "processors",
    "ncpus",
    "cpus",
    "alloccpus",
    "cores",
    "ranks",
    "ntasks",
    "nodesreq",
    "reqnodes",
    "nnodes",
    "allocnodes",
    "nodes",
];
const USER: &[&str] = &["user", "username", "userid", "uid"];
const ACCOUNT: &[&str] = &["account", "project", "group", "groupid", "gid"];
const NAME: &[&str] = &["jobname", "name", "executable", "program", "application"];
const PARTITION: &[&str] = &["partition", "queue"];
const QUALITY: &[&str] = &["qos"];
const STATE: &[&str] = &["state", "status"];
const JOB: &[&str] = &["jobid", "id", "job"];
/// Columns in minutes.
const IN_MINUTES: &str = "timelimitraw";
/// Words for a time that is not known or has no bound.
const NO_TIME: [&str; 8] = ["", "unknown", "none", "unlimited", "partition_limit", "invalid", "n/a", "nan"];
/// States of jobs that have not ended.
const NOT_ENDED: [&str; 8] =
    ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "CONFIGURING", "COMPLETING", "RESIZING", "STOPPED"];

pub(super) fn read(text: &str, separator: char, collector: &mut Collector) -> Result<(), LogError> {
    let mut lines = lines(text);
    let (line, names) = lines.next().ok_or(LogError::Empty)?;
    let table = Table::of(line, &split(names, separator))?;
    collector.sizes = table.sizes;
    for (line, text) in lines {
        let fields = split(text, separator);
        collector.add(line, table.entry(&fields))?;
    }
    Ok(())
}

/// Where columns stand.
struct Table {
    count: usize,
    submit: usize,
    start: Option<usize>,
    end: Option<usize>,
    run: Option<usize>,
    request: Option<usize>,
    request_unit_s: f64,
    ranks: Option<usize>,
    sizes: Option<Sizes>,
    user: Option<usize>,
    account: Option<usize>,
    name: Option<usize>,
    partition: Option<usize>,
    quality: Option<usize>,
    state: Option<usize>,
    job: Option<usize>,
}

impl Table {
    fn of(line: usize, names: &[Cow<str>]) -> Result<Self, LogError> {
        let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
        let place = |known: &[&str]| known.iter().find_map(|name| names.iter().position(|other| other == name));
        let missing = |what| LogError::Column { line, what };
        let submit = place(SUBMIT).ok_or_else(|| missing("the submission (`Submit`, `submit_time`)"))?;
        let (start, end, run) = (place(START), place(END), place(RUN));
        if run.is_none() && (start.is_none() || end.is_none()) {
            return Err(missing("the run time (`Elapsed`, `run_time`), nor are there a start and an end"));
        }
        let request = place(REQUEST);
        let is_in_minutes = request.is_some_and(|at| names[at] == IN_MINUTES);
        let ranks = place(RANKS);
        let are_nodes = |at: usize| names[at].contains("nodes");
        Ok(Table {
            count: names.len(),
            submit,
            start,
            end,
            run,
            request,
            request_unit_s: if is_in_minutes { 60.0 } else { 1.0 },
            ranks,
            sizes: ranks.map(|at| if are_nodes(at) { Sizes::Nodes } else { Sizes::Processors }),
            user: place(USER),
            account: place(ACCOUNT),
            name: place(NAME),
            partition: place(PARTITION),
            quality: place(QUALITY),
            state: place(STATE),
            job: place(JOB),
        })
    }

    fn entry<'a>(&self, fields: &'a [Cow<str>]) -> Result<Entry<'a>, Fault> {
        if fields.len() != self.count {
            return Err(Fault::Columns { has: fields.len(), wants: self.count });
        }
        let text = |at: Option<usize>| at.map_or("", |at| fields[at].trim());
        let name = |at| Some(text(at)).filter(|text| !text.is_empty());
        let fate = self.fate(&text);
        if !matches!(fate, Fate::Ended | Fate::NotEnded) {
            return Ok(Entry { fate, ..Entry::default() });
        }
        let begun_s = moment("the start", text(self.start))?;
        // Slurm counts the run time in real seconds; its dates are local and may be set back or forth.
        let ended_s = moment("the end", text(self.end))?;
        let ran_s = span("the run time", text(self.run), 1.0)?;
        let ranks = Some(text(self.ranks)).filter(|text| !text.is_empty());
        Ok(Entry {
            fate: if fate == Fate::Ended && begun_s.is_none() && ran_s == Some(0.0) { Fate::NeverRan } else { fate },
            submitted_s: moment("the submission", text(Some(self.submit)))?,
            begun_s,
            ended_s,
            ran_s,
            requested_s: span("the requested time", text(self.request), self.request_unit_s)?.filter(|s| *s > 0.0),
            ranks: ranks.map(|text| positive("the ranks", text, text.parse().ok())).transpose()?,
            user: name(self.user),
            account: name(self.account),
            name: name(self.name),
            queue: Some(format!("{} {}", text(self.partition), text(self.quality))),
        })
    }

    fn fate<'a>(&self, text: &impl Fn(Option<usize>) -> &'a str) -> Fate {
        // Steps are `17.0` and `17.batch`; elements of an array are `17_3`.
        let is_step = text(self.job).contains('.');
        let state = text(self.state).split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let has_no = |at: Option<usize>| at.is_some() && is_no_time(text(at));
        match () {
            () if is_step => Fate::Part,
            () if NOT_ENDED.contains(&state.as_str()) => Fate::NotEnded,
            () if state.starts_with("CANCELLED") && (has_no(self.start) || has_no(self.end)) => Fate::NeverRan,
            () if has_no(self.start) && has_no(self.end) => Fate::NeverRan,
            () if has_no(self.end) && self.run.is_none() => Fate::NotEnded,
            () => Fate::Ended,
        }
    }
}

fn is_no_time(text: &str) -> bool {
    NO_TIME.contains(&text.to_ascii_lowercase().as_str())
}

/// A moment; `None` if it is not known.
fn moment(what: &'static str, text: &str) -> Result<Option<f64>, Fault> {
    if is_no_time(text) {
        return Ok(None);
    }
    match seconds_since_1970(text) {
        Some(s) if s.abs() < 3.2e13 => Ok(Some(s)),
        _ => Err(Fault::Value { what, text: text.to_owned(), why: "no time" }),
    }
}

/// A span: a number of units, or `[D-]HH:MM:SS`; `None` if it is not known or has no bound.
fn span(what: &'static str, text: &str, unit_s: f64) -> Result<Option<f64>, Fault> {
    if is_no_time(text) {
        return Ok(None);
    }
    let s = match text.parse::<f64>() {
        Ok(number) => Some(number * unit_s),
        Err(_) => clock_s(text),
    };
    positive(what, text, s).map(Some)
}

/// Seconds of a span as Slurm writes it, `[D-]HH:MM:SS` or `MM:SS`; `None`: it is none.
pub fn clock_s(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<f64> =
        clock.split(':').map(|part| part.parse().ok().filter(|s: &f64| *s >= 0.0)).collect::<Option<_>>()?;
    let s = match parts[..] {
        [hours, minutes, seconds] => hours * 3600.0 + minutes * 60.0 + seconds,
        [minutes, seconds] => minutes * 60.0 + seconds,
        _ => return None,
    };
    Some(days.parse::<u32>().ok()? as f64 * 86_400.0 + s)
}

/// A name in small letters without what stands between its words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Values of a line. With commas, a value in quotes may have some, and two quotes for one.
fn split(text: &str, separator: char) -> Vec<Cow<'_, str>> {
    if separator != ',' || !text.contains('"') {
        return text.split(separator).map(Cow::Borrowed).collect();
    }
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(Cow::Owned(std::mem::take(&mut field))),
            c => field.push(c),
        }
    }
    fields.push(Cow::Owned(field));
    fields
}

#[cfg(test)]
mod tests {
    use crate::log::{Format, LeftOut, Log, LogError, Wrong};

    fn read_log(text: &str) -> Result<Log, LogError> {
        crate::read::read_log(text, Wrong::Refused)
    }

    const SACCT: &str = "JobID|User|Account|Partition|JobName|NNodes|Submit|Start|End|Elapsed|Timelimit|State\n";

    fn sacct(lines: &str) -> Result<Log, LogError> {
        read_log(&format!("{SACCT}{lines}"))
    }

    #[test]
    fn what_sacct_prints_is_read_without_steps() {
        let log = sacct(
            "7|anna|phys|long|cg|4|2026-01-02T10:00:00|2026-01-02T10:05:00|2026-01-03T11:05:00|1-01:00:00|2-00:00:00|COMPLETED\n\
             7.batch||phys||batch|1|2026-01-02T10:05:00|2026-01-02T10:05:00|2026-01-03T11:05:00|1-01:00:00||COMPLETED\n\
             7.0||phys||cg|4|2026-01-02T10:05:00|2026-01-02T10:05:00|2026-01-03T11:05:00|1-01:00:00||COMPLETED\n\
             8_1|anna|phys|long|cg|4|2026-01-02T10:00:01|Unknown|Unknown|00:00:00|UNLIMITED|PENDING\n\
             9|anna|phys|long|cg|4|2026-01-02T10:00:02|None|2026-01-02T10:00:09|00:00:00|Partition_Limit|CANCELLED by 123\n\
             10|anna|phys|long|cg|4|2026-01-02T10:00:03|2026-01-02T10:06:00|2026-01-02T10:06:30|00:00:30|Partition_Limit|CANCELLED by 123\n",
        )
        .expect("a log");
        assert_eq!(log.format, Format::Sacct);
        assert_eq!(log.left_out, LeftOut { never_ran: 1, not_ended: 1, parts: 2, ..LeftOut::default() });
        let [long, short] = log.jobs[..] else { panic!("two jobs: {log:?}") };
        assert_eq!((long.ran_s, long.ask.requested_s, long.ask.ranks), (90_000.0, Some(172_800), Some(4)));
        assert_eq!(
            (long.begun_s.map(|s| s - long.submitted_s), long.ended_s - long.submitted_s),
            (Some(300.0), 90_300.0)
        );
        assert_eq!((short.ran_s, short.ask.requested_s, short.ask.user), (30.0, None, long.ask.user));
    }

    #[test]
    fn raw_columns_of_sacct_have_their_units() {
        let log = read_log("Submit|Start|ElapsedRaw|Elapsed|TimelimitRaw\n0|10|90|00:00:80|15\n").expect("a log");
        assert_eq!((log.jobs[0].ran_s, log.jobs[0].ask.requested_s), (90.0, Some(900)));
    }

    #[test]
    fn columns_go_by_many_names() {
        let text = "job_id,User,\"qos\",Wallclock Req,processors_req,submit_time,start_time,end_time,name\n\
                    1,u1,normal,600,36,2019-01-01 08:55:55,2019-01-01 08:56:00,2019-01-01 08:57:00,\"a, b\"\n\
                    2,u1,normal,600,36,2019-01-01 08:55:56,,,waits\n";
        let log = read_log(text).expect("a log");
        assert_eq!((log.format, log.jobs.len(), log.left_out.never_ran), (Format::Csv, 1, 1));
        assert_eq!(
            (log.jobs[0].ran_s, log.jobs[0].ask.ranks, log.jobs[0].ask.requested_s),
            (60.0, Some(36), Some(600))
        );
    }

    #[test]
    fn a_clock_that_is_set_back_by_an_hour_is_no_fault_and_more_is() {
        let job = |start: &str| format!("submit,start,run_time\n2019-01-01 10:00:00,2019-01-01 {start},60\n");
        assert_eq!(
            read_log(&job("09:30:00")).map(|log| log.jobs[0].begun_s == Some(log.jobs[0].submitted_s)),
            Ok(true)
        );
        let error = LogError::Backwards { line: 2, what: "began", seconds: 3601, before: "its submission" };
        assert_eq!(read_log(&job("08:59:59")), Err(error));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let value = |line, what, text: &str, why| LogError::Value { line, what, text: text.to_owned(), why };
        for (text, error) in [
            (
                "submit,run\n1,2\n",
                LogError::Column {
                    line: 1,
                    what: "the run time (`Elapsed`, `run_time`), nor are there a start and an end",
                },
            ),
            ("user,run_time\n1,2\n", LogError::Column { line: 1, what: "the submission (`Submit`, `submit_time`)" }),
            ("submit,run_time\n1,2\n1,2,3\n", LogError::Columns { line: 3, has: 3, wants: 2 }),
            ("submit,run_time\n1,-2\n", value(2, "the run time", "-2", "negative")),
            ("submit,run_time\n1,1e99\n", value(2, "the run time", "1e99", "no number that can be")),
            ("submit,run_time\nsoon,5\n", value(2, "the submission", "soon", "no time")),
            ("submit,run_time\n1,1:2:3:4\n", value(2, "the run time", "1:2:3:4", "no number")),
            ("submit,run_time,ncpus\n1,5,many\n", value(2, "the ranks", "many", "no number")),
            ("submit,run_time\n,5\n", LogError::Empty),
            ("hello\n", LogError::Format { line: 1, text: "hello".to_owned() }),
        ] {
            assert_eq!(read_log(text), Err(error), "{text}");
        }
    }
}
