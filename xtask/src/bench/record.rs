//! A benchmark's file: results, date, commit and the machine they hold for.
//!
//! A figure without its machine cannot be compared with anything, so the two are written together.
//!
//! Next: `benches/results`, where the files are kept.

use super::row::{Row, Verdict};
use super::runner::Measured;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The shape of the file; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;
const SECONDS_PER_DAY: u64 = 86_400;

/// One run of one benchmark.
pub struct Record {
    /// The benchmark's name, such as `window`.
    pub name: String,
    /// The day in UTC, as `2025-01-31`.
    pub date: String,
    /// The commit measured, with `-dirty` if the tree differs from it; `unknown` without git.
    pub commit: String,
    /// Where it ran.
    pub machine: Machine,
    /// The results, in order.
    pub results: Vec<Measured>,
    /// The table: figures, bars and verdicts.
    pub rows: Vec<Row>,
}

/// The machine a figure holds for.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The processor as the kernel names it.
    pub cpu: String,
    /// Processors this process may run on.
    pub core_count: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Programs that ran or wanted to run in the last minute, before the benchmark began.
    pub load: f64,
}

/// Above this load somebody else's work is in the figures.
const LOAD_QUIET: f64 = 1.0;

impl Record {
    /// An empty record of today on this machine.
    pub fn begin(name: &str, root: &Path) -> Result<Record> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let mut git = Command::new("git");
        git.args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(root);
        let commit = shell::read(&mut git).map_or("unknown".to_string(), |text| text.trim().to_string());
        Ok(Record {
            name: name.to_string(),
            date: date_of_day(now.as_secs() / SECONDS_PER_DAY),
            commit,
            machine: Machine::read()?,
            results: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// One line that says where and when.
    pub fn machine_line(&self) -> String {
        let Machine { cpu, core_count, kernel, load } = &self.machine;
        let place = format!("{cpu}, {core_count} cores, Linux {kernel}, {}, commit {}", self.date, self.commit);
        if *load <= LOAD_QUIET {
            return place;
        }
        format!(
            "{place}\nWARNING: the load was {load:.2} before this began: other programs are in every figure below, and \
             above all in pauses and shares. Next: run it again on a quiet machine"
        )
    }

    /// Prints a comparison and keeps it.
    pub fn show(&mut self, measured: Measured) {
        println!("\n{measured}");
        self.results.push(measured);
    }

    /// Prints rows and keeps them.
    pub fn judge(&mut self, rows: Vec<Row>) {
        println!();
        rows.iter().for_each(|row| println!("{row}"));
        self.rows.extend(rows);
    }

    /// How many bars hold.
    pub fn summary(&self) -> String {
        let count = |verdict: Verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let [met, median, missed, skipped] =
            [Verdict::Met, Verdict::MedianMet, Verdict::Missed, Verdict::Skipped].map(count);
        format!("{met} bars met, {median} met by the median only, {missed} missed, {skipped} not measured")
    }

    /// The file's name under `benches/results`.
    pub fn file_name(&self) -> String {
        format!("{}-{}.json", self.date, self.name)
    }

    /// Writes the record as JSON, creating the folder if needed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(&self.to_json())? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes what another program found into the JSON file `found`, under `key`, with machine, commit and date.
    ///
    /// # Errors
    /// When there is nothing, or it cannot be written.
    pub fn write_found(&self, key: &str, found: &Path, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(found).with_context(|| format!("the {key} wrote no result"))?;
        let outcome: Value = serde_json::from_str(&text).with_context(|| format!("the {key}'s result is no JSON"))?;
        let mut kept = self.to_json();
        kept[key] = outcome;
        for unused in ["rows", "results"] {
            kept.as_object_mut().and_then(|fields| fields.remove(unused));
        }
        let text = serde_json::to_string_pretty(&kept)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The record as JSON.
    pub fn to_json(&self) -> Value {
        let Machine { cpu, core_count, kernel, load } = &self.machine;
        json!({
            "schema": SCHEMA,
            "name": self.name,
            "date": self.date,
            "commit": self.commit,
            "machine": { "cpu": cpu, "cores": core_count, "kernel": kernel, "load_before": load },
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "results": self.results.iter().map(Measured::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Machine {
    fn read() -> Result<Machine> {
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
        let kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
        let core_count = std::thread::available_parallelism().context("cannot count processors")?.get();
        let load = std::fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
        let load = load.split(' ').next().and_then(|minute| minute.parse().ok()).context("/proc/loadavg is odd")?;
        Ok(Machine { cpu: cpu_model(&cpu_info), core_count, kernel: kernel.trim().to_string(), load })
    }
}

fn cpu_model(cpu_info: &str) -> String {
    let line = cpu_info.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|rest| rest.split_once(':'))
        .map_or("unknown processor".to_string(), |(_, name)| name.trim().to_string())
}

/// The Gregorian date of a day counted from 1970-01-01, as ISO 8601 writes it.
fn date_of_day(day: u64) -> String {
    let is_leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let (mut year, mut left) = (1970, day);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for len in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < len {
            break;
        }
        left -= len;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::runner::Comparison;

    #[test]
    fn days_become_dates() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (19_783, "2024-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date_of_day(day), expected, "{day}");
        }
    }

    #[test]
    fn the_processor_is_named() {
        for (name, text, expected) in [
            ("x86", "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nflags: x\n", "A CPU @ 2 GHz"),
            ("none", "processor: 0\n", "unknown processor"),
        ] {
            assert_eq!(cpu_model(text), expected, "{name}");
        }
    }

    #[test]
    fn a_record_is_written_with_its_machine() {
        let folder = std::env::temp_dir().join(format!("trimtab-record-{}", std::process::id()));
        let mut record =
            Record::begin("window", &shell::root().expect("cargo names the manifest")).expect("this is Linux");
        let result = Comparison::new("x", "s", 1).sampled("a", || Ok(1.0)).run().expect("a number");
        record.show(result);
        record.judge(vec![Row::at_most("pause", "ms", &[1.0], 2.0), Row::skipped("peer", "not there")]);
        let path = folder.join("deep").join(record.file_name());
        record.write(&path).expect("temp is writable");
        let json: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("written")).expect("JSON");
        record.write_found("other", &path, &folder.join("other.json")).expect("JSON is there");
        let text = std::fs::read_to_string(folder.join("other.json")).expect("written");
        let other: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&other["other"], &other["commit"], other.get("rows")), (&json, &json["commit"], None));
        assert!(record.write_found("other", &folder.join("missing.json"), &path).is_err());
        std::fs::remove_dir_all(&folder).expect("ours to remove");
        assert_eq!(json["machine"]["cores"], record.machine.core_count);
        assert_eq!((&json["rows"][0]["verdict"], &json["rows"][1]["verdict"]), (&json!("met"), &json!("SKIPPED")));
        assert_eq!(record.summary(), "1 bars met, 0 met by the median only, 0 missed, 1 not measured");
        assert_eq!(json["results"][0]["series"][0]["samples"][0], 1.0);
        record.machine.load = 0.0;
        assert!(!record.machine_line().contains("WARNING"));
        record.machine.load = 2.0;
        assert!(record.machine_line().contains("the load was 2.00"));
        assert!(record.file_name().ends_with("-window.json") && record.machine_line().contains(&record.machine.kernel));
    }
}
