//! Programs beside each other, as all kept windows saw them: who slows whom by how much, and who fits with whom.
//!
//! A window counts as alone where nobody else kept the job's processors busy, and as beside a program where one other program did.
//! Neighbours are seen from outside, by the short name of their busiest process; which job it was is known where exactly one other
//! job of that name has a window of about that time on the same hosts, and saw this one in it.
//!
//! Next: `corun_jobs` for the company of a window; docs/forecasts.md for the table.

use crate::corun_jobs::company_programs;
use crate::profiles::pressured;
use crate::quantity::Quantity;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_corun::{Between, Met};
use trimtab_types::report::Report;

/// Version of the table's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;
/// Windows that are so far apart, seconds, may be of jobs beside each other.
const ABOUT_S: f64 = 60.0;
/// The kernel keeps so many letters of a process's name.
const COMM_LENGTH_MAX: usize = 15;

/// A program beside another one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Beside {
    /// Path of the program.
    pub program: String,
    /// Its ranks.
    pub ranks: u32,
    /// Short name of the partner.
    pub partner: String,
    /// Its ranks; null: it is known by its name only.
    pub partner_ranks: Option<u32>,
    /// How many times as long as alone an iteration takes; null: no window of it alone is kept.
    pub slowdown: Option<Quantity>,
    /// Windows beside the partner.
    pub windows: usize,
    /// Windows alone.
    pub windows_alone: usize,
    /// When the newest window beside it was measured, seconds since 1970; null: not known.
    pub newest_unix_s: Option<f64>,
}

/// Two programs that were beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// Both as places in `beside`: the one, and the other.
    pub beside: [usize; 2],
    /// Progress of both together: the sum of 1 over slowdown. 1 is as much as in turns.
    pub progress: f64,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PairTable {
    /// Version of this shape.
    pub version: u32,
    /// Windows that were looked at.
    pub windows: usize,
    /// Programs beside others, by name.
    pub beside: Vec<Beside>,
    /// Pairs of which both slowdowns are known, the one that gets on best first.
    pub pairs: Vec<Pair>,
}

/// The program of a window, with all that its time of an iteration depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    program: String,
    ranks: u32,
    /// Build id and arguments; without a build id only windows of one job are alike.
    like: (String, String),
    /// The loop that an iteration is, and its place.
    counted: String,
    /// Its ranks and the processors of each of its nodes: a program that shares more of its nodes is slowed more.
    layout: Vec<(usize, Option<u32>)>,
}

#[derive(Default)]
struct Seen {
    alone: Vec<Between>,
    beside: BTreeMap<Partner, (Vec<Between>, Option<f64>)>,
}

/// Its name, and the job if that is known.
type Partner = (String, Option<Key>);

/// The table of these windows.
pub fn pair_table(reports: &[Report]) -> PairTable {
    let seen = all_seen(reports);
    let all: Vec<(Row, Beside)> = seen.iter().flat_map(|(key, seen)| rows(key, seen)).collect();
    let pairs = pairs(&all);
    PairTable { version: VERSION, windows: reports.len(), pairs, beside: all.into_iter().map(|(_, row)| row).collect() }
}

/// How the program of `one` got on beside that of `other`, which is called `name`, by these windows; `None`: none of them, with
/// the same arguments, ranks and loop, is alone and one beside it, or nobody knows that it was that one.
pub(crate) fn met_before(reports: &[Report], one: &Report, (name, other): (&str, &Report)) -> Option<Met> {
    let seen = all_seen(reports);
    let of = seen.get(&key(one))?;
    let (times, _) = of.beside.get(&(short(&other.job.program), Some(key(other))))?;
    let slowdown = middle(times)?.over(middle(&of.alone)?);
    Some(Met { other: name.to_owned(), slowdown, windows: times.len() })
}

fn all_seen(reports: &[Report]) -> BTreeMap<Key, Seen> {
    let mut seen: BTreeMap<Key, Seen> = BTreeMap::new();
    for report in reports {
        let Some(estimate) = report.time_per_iteration_s.filter(|_| report.window.valid) else { continue };
        let Some(company) = company_programs(report) else { continue };
        let time = Between::of_mean(estimate.mean, estimate.half_width_95);
        let of = seen.entry(key(report)).or_default();
        match company.as_slice() {
            [] => of.alone.push(time),
            [name] => {
                let partner = (name.clone(), partner_of(report, name, reports));
                let (times, newest) = of.beside.entry(partner).or_default();
                times.push(time);
                let ended = report.window.started_unix_s.map(|started| started + report.window.duration_s);
                *newest = latest(*newest, ended);
            }
            // Nobody knows which of several it was.
            _ => {}
        }
    }
    seen
}

/// The one job of this name that has a window of about that time on the same hosts, in which it saw the program of this one.
fn partner_of(report: &Report, name: &str, reports: &[Report]) -> Option<Key> {
    let times = |report: &Report| Some((report.window.started_unix_s?, report.window.duration_s));
    let (started, lasted) = times(report)?;
    let is_near = |other: &&Report| {
        times(other).is_some_and(|(other_started, other_lasted)| {
            other_started <= started + lasted + ABOUT_S && started <= other_started + other_lasted + ABOUT_S
        })
    };
    let is_there = |other: &&Report| other.job.hosts.iter().any(|host| report.job.hosts.contains(host));
    // Runs of the same programs before and after it were beside somebody else, or alone.
    let own_name = short(&report.job.program);
    let saw_it = |other: &&Report| company_programs(other).is_some_and(|names| names == [own_name.as_str()]);
    let others = reports.iter().filter(|other| other.job.id != report.job.id && short(&other.job.program) == name);
    let mut keys: Vec<Key> = others.filter(is_there).filter(is_near).filter(saw_it).map(key).collect();
    keys.sort();
    keys.dedup();
    if keys.len() == 1 { keys.pop() } else { None }
}

fn latest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

fn key(report: &Report) -> Key {
    let like = match pressured(report) {
        Some(of) => (of.build, of.arguments_hash),
        None => (String::new(), report.job.id.clone()),
    };
    let (job, window) = (&report.job, &report.window);
    let counted = format!("{:?} {:?}", window.main_loop, window.marker);
    let mut layout: Vec<(usize, Option<u32>)> =
        report.nodes.iter().map(|node| (node.places.len(), node.processors)).collect();
    layout.sort_unstable();
    Key { program: job.program.clone(), ranks: job.ranks, like, counted, layout }
}

/// The program of a row, and its partner.
type Row = (Key, Partner);

fn rows(key: &Key, seen: &Seen) -> Vec<(Row, Beside)> {
    let alone = middle(&seen.alone);
    let row = |(partner, (times, newest)): (&Partner, &(Vec<Between>, Option<f64>))| {
        let beside = Beside {
            program: key.program.clone(),
            ranks: key.ranks,
            partner: partner.0.clone(),
            partner_ranks: partner.1.as_ref().map(|partner| partner.ranks),
            slowdown: middle(times).zip(alone).map(|(together, alone)| Quantity::from(&together.over(alone))),
            windows: times.len(),
            windows_alone: seen.alone.len(),
            newest_unix_s: *newest,
        };
        ((key.clone(), partner.clone()), beside)
    };
    seen.beside.iter().map(row).collect()
}

/// The middle one of several windows; its interval holds the windows' own and reaches to all of them.
fn middle(times: &[Between]) -> Option<Between> {
    let mut all = times.to_vec();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    let middle = *all.get(all.len() / 2)?;
    Some(all.iter().fold(middle, |sum, one| sum.reaching(*one)))
}

/// The name by which others see a program.
fn short(program: &str) -> String {
    let name = program.strip_suffix(" (deleted)").unwrap_or(program);
    name.rsplit('/').next().unwrap_or(name).chars().take(COMM_LENGTH_MAX).collect()
}

fn pairs(all: &[(Row, Beside)]) -> Vec<Pair> {
    // One that is known by its name only may be any of that name, but not the job itself.
    let meets = |(key, (name, partner)): &Row, other: &Key| match partner {
        Some(partner) => partner == other,
        None => name == &short(&other.program) && key != other,
    };
    let mut found = Vec::new();
    for (at, (row, one)) in all.iter().enumerate() {
        for (other_at, (other_row, other)) in all.iter().enumerate().skip(at) {
            let is_pair = meets(row, &other_row.0) && meets(other_row, &row.0);
            if let (true, Some(own), Some(theirs)) = (is_pair, one.slowdown, other.slowdown) {
                found.push(Pair { beside: [at, other_at], progress: own.value.recip() + theirs.value.recip() });
            }
        }
    }
    found.sort_by(|a, b| b.progress.total_cmp(&a.progress));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A window of a job that the program's name and arguments name, 1 s long.
    fn at(started_unix_s: f64, arguments: &str, report: Report) -> Report {
        let mut made = serde_json::to_value(report).expect("a report");
        made["job"]["id"] = arguments.into();
        made["job"]["arguments"] = json!([arguments]);
        made["window"]["started_unix_s"] = started_unix_s.into();
        serde_json::from_value(made).expect("a report")
    }

    #[test]
    fn a_partner_is_the_job_that_was_there() {
        let all = [
            at(1000.0, "long", window("cg", 1.0, &[])),
            at(1000.0, "short", window("cg", 1.0, &[])),
            at(9000.0, "long", window("cg", 2.0, &["cg"])),
            at(9000.5, "short", window("cg", 1.5, &["cg"])),
        ];
        let table = pair_table(&all);
        let [pair] = table.pairs.as_slice() else { panic!("one pair, neither beside itself: {table:?}") };
        assert!((pair.progress - (0.5 + 1.0 / 1.5)).abs() < 1e-9 && pair.beside == [0, 1], "{table:?}");
        assert_eq!(table.beside[0].partner_ranks, Some(2));
        let lonely = pair_table(&all[..3]);
        assert_eq!((lonely.beside[0].partner_ranks, lonely.pairs.len()), (None, 0), "its partner has no window then");
    }

    fn window(program: &str, seconds: f64, neighbours: &[&str]) -> Report {
        let neighbour = |name: &&str| {
            json!({
                "kind": "mpi", "name": "7", "user": "ann", "program": name, "processes": 2, "ranks": 2,
                "busy_processors": 1.9, "cpus_seen": "0-1", "shares": "core", "with_ranks": [0], "presence": "throughout",
            })
        };
        let report: Value = json!({
            "schema": "trimtab.report/1",
            "job": {
                "id": program, "program": format!("/opt/{program}"), "arguments": [], "ranks": 2, "mpi": "m", "hosts": ["n1"],
                "builds": [format!("/opt/{program} ab12")], "started_unix_s": 1.0,
            },
            "window": {
                "batch": 0, "trigger": "attach", "marker": null, "marker_source": "time", "start": null, "iterations": 10,
                "valid": true, "ended_by": "iterations", "duration_s": 1.0, "started_unix_s": 5.0, "groups": [],
                "loop_description": null,
            },
            "time_per_iteration_s": {
                "mean": seconds, "variance": 0.0, "half_width_95": 0.01 * seconds, "min": seconds, "max": seconds, "samples": 10,
            }, "iterations_per_s": null,
            "communication_fraction": null, "communication_to_computation": null, "imbalance": null, "functions": [],
            "links": [], "ranks": [],
            "cost": {
                "pause_us_max": 0.0, "pause_us_total": 0.0, "probe_ns": null, "probes": 1, "points": 1, "fraction": null,
                "first_record_s": null,
            },
            "warnings": [],
            "nodes": [{
                "host": "n1", "seconds": 1.0, "processors": 2, "busy": null, "steal": null, "load": null, "pressure": null,
                "places": [], "neighbours": neighbours.iter().map(neighbour).collect::<Vec<_>>(), "neighbours_left_out": 0,
                "limits": [],
            }],
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn who_slows_whom_is_told_by_windows_beside_and_alone() {
        let all = [
            window("cg", 1.0, &[]),
            window("cg", 1.1, &[]),
            window("cg", 1.0, &[]),
            window("cg", 1.8, &["fft"]),
            window("cg", 1.3, &["is"]),
            window("cg", 9.0, &["is", "fft"]),
            window("fft", 2.0, &[]),
            window("fft", 4.0, &["cg"]),
            window("is", 3.0, &["cg"]),
        ];
        let table = pair_table(&all);
        let row = |program: &str, partner: &str| {
            table.beside.iter().find(|row| row.program.ends_with(program) && row.partner == partner).expect("a row")
        };
        let slowdown = row("cg", "fft").slowdown.expect("it is known");
        assert!((slowdown.value - 1.8).abs() < 1e-9, "{table:?}");
        // One window alone took 1.1 s.
        assert!(slowdown.lower.expect("an interval") < 1.8 / 1.1 && slowdown.upper.expect("an interval") > 1.8);
        assert_eq!((row("cg", "fft").windows, row("cg", "fft").windows_alone), (1, 3));
        assert_eq!(row("is", "cg").slowdown, None, "it was never seen alone");
        let [pair] = table.pairs.as_slice() else { panic!("one pair: {table:?}") };
        assert!((pair.progress - (1.0 / 1.8 + 0.5)).abs() < 1e-9);
    }

    #[test]
    fn only_the_same_program_in_the_same_place_was_met() {
        let all = [
            at(1000.0, "long", window("cg", 1.0, &[])),
            at(2000.0, "short", window("fft", 1.0, &[])),
            at(9000.0, "long", window("cg", 2.0, &["fft"])),
            at(9000.5, "short", window("fft", 1.5, &["cg"])),
        ];
        let [cg, fft, ..] = &all;
        let met = met_before(&all, cg, ("B", fft)).expect("both were measured then");
        assert!((met.slowdown.value - 2.0).abs() < 1e-9 && met.other == "B" && met.windows == 1, "{met:?}");
        let other_arguments = at(2000.0, "shorter", window("fft", 1.0, &[]));
        assert_eq!(met_before(&all, cg, ("B", &other_arguments)), None);
        let mut larger = fft.clone();
        larger.nodes[0].processors = Some(64);
        assert_eq!(met_before(&all, cg, ("B", &larger)), None, "on another machine");
        assert_eq!(met_before(&all[..3], cg, ("B", fft)), None, "it may have been any fft");
    }

    #[test]
    fn names_are_those_that_neighbours_see() {
        assert_eq!(short("/opt/a_program_with_a_long_name"), "a_program_with_");
        assert_eq!(short("/opt/x (deleted)"), "x");
    }
}
