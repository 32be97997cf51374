//! The end of a job, and all jobs of some days, by Slurm's accounting, `sacct`, where a site has it.
//!
//! Next: `ask`, which runs it.

use super::ask::{Scontrol, answer};
use super::error::SlurmError;
use super::id::SlurmId;

/// Answers as `sacct` does, with times as seconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounting;

impl Scontrol for Accounting {
    fn ask(&self, words: &[&str]) -> Result<String, SlurmError> {
        answer("sacct", words, Some("%s"))
    }
}

/// When a job, or a step of it, ended for good, seconds since 1970; `None`: it has not, or the accounting does not say.
pub fn ended_unix_s(sacct: &dyn Scontrol, id: SlurmId) -> Option<f64> {
    let job = format!("--jobs={id}");
    let mut words = vec!["--noheader", "--parsable2", "--format=End", &job];
    if id.step.is_none() {
        words.push("--allocations");
    }
    latest(&sacct.ask(&words).ok()?)
}

/// All jobs of the last days that the user may see, those that wait or run included: names of columns, then a line each, with `|`
/// between.
///
/// # Errors
/// `sacct` can't be run or fails: many sites have no accounting.
pub fn jobs_of_days(sacct: &dyn Scontrol, days: u32) -> Result<String, SlurmError> {
    let since = format!("--starttime=now-{days}days");
    let columns = "--format=JobID,User,Partition,QOS,NNodes,Submit,Start,End,Elapsed,Timelimit,State";
    sacct.ask(&["--allusers", "--allocations", "--parsable2", &since, columns])
}

/// The partition of jobs that name none; `None`: there is none such.
///
/// # Errors
/// `scontrol` can't be run or fails.
pub fn default_partition(scontrol: &dyn Scontrol) -> Result<Option<String>, SlurmError> {
    let said = scontrol.ask(&["--oneliner", "show", "partition"])?;
    let mut defaults = said.lines().filter(|line| line.split_whitespace().any(|word| word == "Default=YES"));
    let name =
        |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("PartitionName=").map(str::to_owned));
    Ok(defaults.find_map(name))
}

/// The latest of all ends; `None` if one has none.
fn latest(text: &str) -> Option<f64> {
    let mut found = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let end: u64 = line.parse().ok().filter(|end| *end > 0)?;
        found = found.max(Some(end));
    }
    found.map(|end| end as f64)
}

#[cfg(test)]
mod tests {
    use super::super::ask::Recording;
    use super::*;

    #[test]
    fn the_latest_end_counts_if_all_have_one() {
        assert_eq!(latest("1795234101\n1795234190\n"), Some(1_795_234_190.0));
        for none in ["", "Unknown\n", "1795234101\nUnknown\n", "None\n", "-5\n", "2026-11-27T17:00:00\n", "0\n"] {
            assert_eq!(latest(none), None, "{none:?}");
        }
    }

    #[test]
    fn all_jobs_and_the_default_partition_are_asked_for() {
        let words = "--allusers --allocations --parsable2 --starttime=now-30days \
                     --format=JobID,User,Partition,QOS,NNodes,Submit,Start,End,Elapsed,Timelimit,State";
        let sacct = Recording::default()
            .answer(words, "JobID|User\n")
            .failure(&words.replace("30", "7"), "Slurm accounting storage is disabled");
        assert_eq!(jobs_of_days(&sacct, 30).expect("it answers"), "JobID|User\n");
        assert!(jobs_of_days(&sacct, 7).expect_err("it fails").to_string().contains("disabled"));
        let partitions =
            "PartitionName=long AllowGroups=ALL Default=NO\nPartitionName=short AllowGroups=ALL Default=YES\n";
        let ask = |said: &str| default_partition(&Recording::default().answer("--oneliner show partition", said));
        assert_eq!(ask(partitions).expect("it answers").as_deref(), Some("short"));
        assert_eq!(ask(&partitions.replace("YES", "NO")).expect("it answers"), None);
    }

    #[test]
    fn whole_jobs_and_steps_are_asked_for() {
        let whole = "--noheader --parsable2 --format=End --jobs=12 --allocations";
        let step = "--noheader --parsable2 --format=End --jobs=12.0";
        let sacct = Recording::default().answer(whole, "1795234101\n").answer(step, "1795234100\n");
        let sacct =
            sacct.failure("--noheader --parsable2 --format=End --jobs=13 --allocations", "accounting is disabled");
        let end = |text: &str| ended_unix_s(&sacct, text.parse().expect("an id"));
        assert_eq!((end("12"), end("12.0"), end("13")), (Some(1_795_234_101.0), Some(1_795_234_100.0), None));
    }
}
