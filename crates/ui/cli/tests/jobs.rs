//! Every command on a job of several nodes: launched through `srun`, found by a process id, probed, undone.
//!
//! Next: `cluster.rs` for windows and for what fails on the way.

mod common_cluster;

use common_cluster::{Cluster, Job, Rank, VARIABLES, agents, children_of, guards, kill, specimen, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use trimtab_specimens::{ENDLESS, has_text, skip};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::Report;

const NODES: usize = 3;
/// Counts in each process by itself.
const OWN: &str = "process int own; entry MPI_* { own = own + 1 }";

#[test]
fn all_commands_on_jobs_of_several_nodes() {
    if let Some(lack) = Slurm::lack() {
        return skip("all_commands_on_jobs_of_several_nodes", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    a_job_is_launched_and_measured(&cluster);
    a_job_that_ends_in_its_window_is_reported(&cluster);
    a_package_measures_itself_on_all_nodes(&cluster);
    let job = cluster.start("particle", &ENDLESS);
    a_job_is_found_from_srun_and_from_a_rank(&cluster, &job);
    the_end_of_a_job_is_forecast(&cluster, &job);
    what_a_script_counts_is_of_the_whole_job(&cluster, &job);
    messages_come_live_and_stop_ends_it_everywhere(&cluster, &job);
    scripts_that_can_not_run_are_in_no_rank(&cluster, &job);
    a_killed_lead_leaves_no_script(&cluster, &job);
    what_a_killed_agent_left_is_undone_on_all_nodes(&cluster, &job);
}

/// `trimtab run -- srun ...`: all ranks on all nodes, and the program's own end.
fn a_job_is_launched_and_measured(cluster: &Cluster<'_>) {
    let end = cluster.folder("end");
    let (output, report) = launched(cluster, "5", "steady", &["--until", &end.display().to_string()]);
    let (out, err) = texts(&output);
    assert!(report.window.valid && report.window.iterations == Some(5), "{:?} {:?}", report.window, report.warnings);
    assert_eq!(hosts(&report).len(), NODES, "{:?}", report.ranks);
    assert_eq!(output.status.code(), Some(0), "{out} {err}");
    assert!(out.contains("steady: checksum"), "the program's own words and end: {out} {err}");
    assert!(!out.contains("communication") && err.contains("communication"), "its output is its own: {out} {err}");
    wait_for("no agent left", || agents().is_empty());
}

/// Slurm ends the agents together with the job: what they have recorded is told before.
fn a_job_that_ends_in_its_window_is_reported(cluster: &Cluster<'_>) {
    let (output, report) = launched(cluster, "1000000", "particle", &["--iterations", "2000"]);
    let (window, (out, err)) = (&report.window, texts(&output));
    assert!(!window.valid && window.ended_by.word() == "program-ended", "{window:?} {:?}", report.warnings);
    assert!(window.iterations.is_some_and(|count| count > 0), "{window:?}");
    assert_eq!(hosts(&report).len(), NODES, "{:?}", report.ranks);
    assert!(report.ranks.iter().all(|rank| rank.iterations > Some(0)), "{:?}", report.ranks);
    assert_eq!(output.status.code(), Some(1), "partial: {out} {err}");
    assert!(out.contains("particle: checksum"), "{out} {err}");
    wait_for("no agent left", || agents().is_empty());
}

/// By Slurm's number, from windows of all nodes: its loop is that of the window, and how far it is never goes back.
fn the_end_of_a_job_is_forecast(cluster: &Cluster<'_>, job: &Job) {
    let forecast = || {
        let words = ["forecast", "job", "--slurm", &job.id, "--within", "3", "--json", "-"];
        let output = cluster.trimtab(&words).output().expect("it runs");
        let (out, err) = texts(&output);
        let said: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
        assert_eq!(output.status.code(), Some(i32::from(said["end"].is_null())), "{said} {err}");
        assert_eq!(said["ranks"], Value::from(NODES), "{said} {err}");
        assert!(said["iterations_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{said} {err}");
        job.check_untouched();
        said["iterations_done"].as_u64()
    };
    let (first, second) = (forecast(), forecast());
    assert!(first <= second, "{first:?} {second:?}");
}

/// A window of so many iterations of a job, begun with it; and its report. A program that runs until there is a file is
/// given it when the report is there.
fn launched(cluster: &Cluster<'_>, window: &str, program: &str, words: &[&str]) -> (Output, Report) {
    let program = specimen(program);
    let file = cluster.folder("run.json");
    let launch = || {
        // A report of an earlier launch is not taken for this one's.
        let _ = fs::remove_file(&file);
        let _ = fs::remove_file(cluster.folder("end"));
        let mut command = cluster.trimtab(&["run", "--iterations", window, "--json"]);
        command.arg(&file).args(["--", "srun", "--kill-on-bad-exit=1"]);
        command.args(cluster.srun_words(&program, words));
        command.envs(VARIABLES).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().expect("it runs");
        if let ["--until", end] = words {
            wait_for("a report", || has_text(&file) || run.try_wait().expect("its state").is_some());
            fs::write(end, "").expect("it is ours");
        }
        run.wait_with_output().expect("it ends")
    };
    let mut output = launch();
    // Open MPI's TCP transport dies of a message that comes before a rank is ready for it, in about one of fifty starts.
    if texts(&output).1.contains("Segmentation fault") {
        println!("WARNING: a rank of Open MPI died in MPI_Init; it is tried once more: {}", texts(&output).1);
        output = launch();
    }
    let (out, err) = texts(&output);
    let report = fs::read_to_string(&file).unwrap_or_else(|error| panic!("no report ({error}): {out} {err}"));
    let report = serde_json::from_str(&report).unwrap_or_else(|error| panic!("no report ({error}): {out} {err}"));
    (output, report)
}

/// A package in a step of several nodes: the helper of its first task leads agents on all of them.
fn a_package_measures_itself_on_all_nodes(cluster: &Cluster<'_>) {
    let (program, package) = (specimen("particle"), cluster.folder("particle.trim"));
    let mut pack = cluster.trimtab(&["pack"]);
    let output =
        pack.arg(&program).arg("-o").arg(&package).args(["--", "--iterations", "5"]).output().expect("it runs");
    assert!(output.status.success(), "{:?}", texts(&output));
    let mut srun = cluster.srun(&package, &[], &ENDLESS);
    srun.env("SLURM_WORKING_DIR", cluster.testbed.folder());
    for (variable, folder) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")] {
        srun.env(variable, cluster.folder(folder));
    }
    let mut srun = srun.spawn().expect("srun starts");
    let report = || {
        let files = fs::read_dir(cluster.testbed.folder()).expect("the folder");
        let names = files.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let name = names.into_iter().find(|name| name.ends_with(".trimtab.txt"))?;
        fs::read_to_string(cluster.folder(&name)).ok()
    };
    wait_for("a report", || {
        let said = report().unwrap_or_default();
        assert!(matches!(srun.try_wait(), Ok(None)), "srun has ended: {said}");
        let log = fs::read_to_string(cluster.folder("srun.log")).unwrap_or_default();
        assert!(!said.contains("trimtab: "), "{said} {log}");
        said.contains("all ranks recorded the same iterations")
    });
    let said = report().expect("waited for");
    assert!(said.contains(&format!("{NODES} on {NODES} hosts")), "{said}");
    let ended = cluster.slurm.command("scancel").args(["--full", "--user=root"]).output().expect("scancel runs");
    assert!(ended.status.success(), "{:?}", texts(&ended));
    srun.wait().expect("it ended");
    wait_for("no job left", || cluster.job_id().is_empty());
}

/// By the process id of `srun` on the head, and of any rank on its node.
fn a_job_is_found_from_srun_and_from_a_rank(cluster: &Cluster<'_>, job: &Job) {
    let by_id = cluster.window(&["attach", "--slurm", &job.id]);
    let srun = srun_on_head(job);
    let by_srun = cluster.window(&["attach", &srun]);
    let rank = &job.ranks[0];
    let (node, pid) = (node_of(cluster, rank), Testbed::inside(rank.pid).expect("it runs").to_string());
    let by_rank = cluster.window_on(node, &["attach", &pid]);
    for (case, report) in [("by its id", &by_id), ("by srun", &by_srun), ("by a rank", &by_rank)] {
        assert!(
            report.window.valid && report.ranks.len() == NODES,
            "{case}: {:?} {:?}",
            report.window,
            report.warnings
        );
        let pids = |report: &Report| report.ranks.iter().map(|rank| (rank.host.clone(), rank.pid)).collect::<Vec<_>>();
        assert_eq!(pids(report), pids(&by_id), "{case}");
    }
    job.check_untouched();
}

/// Sums are of all ranks, what each process keeps is there rank by rank, and `--ranks` means ranks of the whole job.
fn what_a_script_counts_is_of_the_whole_job(cluster: &Cluster<'_>, job: &Job) {
    let script = "process int own; entry MPI_* { calls++; own = own + 1; sizes = hist(own); least = min(own); \
                  most = max(own); middle = mean(own) }";
    let text = |said: &Value, name: &str| variable(said, name).unwrap_or_else(|| panic!("{name} in {said}"));
    let all = probed(cluster, &[script, "--slurm", &job.id, "--for", "1.5"]);
    let own = text(&all, "own")["each"]["values"].as_array().expect("each process's").clone();
    let ranks: Vec<i64> = own.iter().filter_map(|one| one["rank"].as_i64()).collect();
    assert_eq!(ranks, (0..NODES as i64).collect::<Vec<_>>(), "{all}");
    let calls = text(&all, "calls")["sum"]["value"].as_i64().expect("a sum");
    let sum: i64 = own.iter().filter_map(|one| one["value"].as_i64()).sum();
    assert!(calls > 0 && calls == sum, "the sum over all nodes is that of all processes: {all}");
    assert_eq!(text(&all, "sizes")["histogram"]["count"].as_i64(), Some(calls), "{all}");
    assert_eq!(text(&all, "least")["min"]["value"].as_i64(), Some(1), "{all}");
    let most = own.iter().filter_map(|one| one["value"].as_i64()).max();
    assert_eq!(text(&all, "most")["max"]["value"].as_i64(), most, "{all}");
    assert_eq!(text(&all, "middle")["mean"]["count"].as_i64(), Some(calls), "{all}");
    assert!(all["cost"]["points"].as_u64() >= Some(NODES as u64) && all["ended_by"] == "time", "{all}");
    job.check_untouched();

    let two = probed(cluster, &[OWN, &srun_on_head(job), "--for", "0.5", "--ranks", "0,2"]);
    let ranks = |said: &Value| {
        let own = text(said, "own")["each"]["values"].as_array().expect("each process's").clone();
        own.iter().filter_map(|one| one["rank"].as_i64()).collect::<Vec<_>>()
    };
    assert_eq!(ranks(&two), [0, 2], "{two}");
    let host = format!("host:{}", cluster.testbed.name(2));
    let one = probed(cluster, &[OWN, "--slurm", &job.id, "--for", "0.5", "--ranks", &host]);
    assert_eq!(ranks(&one).len(), 1, "{one}");
    job.check_untouched();
}

/// Lines with rank come while the script runs; `stop()` on one rank takes it out of all.
fn messages_come_live_and_stop_ends_it_everywhere(cluster: &Cluster<'_>, job: &Job) {
    let script = "process int n; entry MPI_* { n = n + 1; if (n == 3) { send(\"third\", n) } \
                  if (n >= 5000 && rank == 1) { stop() } }";
    let output = cluster.trimtab(&["probe", script, "--slurm", &job.id]).output().expect("it runs");
    let (out, err) = texts(&output);
    for rank in 0..NODES {
        assert!(out.contains(&format!("[rank {rank}] third: 3")), "{out} {err}");
    }
    assert!(out.contains("ended by: stop"), "{out} {err}");
    assert_eq!(output.status.code(), Some(0), "{out} {err}");
    job.check_untouched();
}

fn scripts_that_can_not_run_are_in_no_rank(cluster: &Cluster<'_>, job: &Job) {
    for (case, words, expected) in [
        ("no such function", vec!["entry no_such { n++ }"], "no_such"),
        ("a mistake", vec!["entry MPI_Send { n+ }"], "the script was refused"),
        ("no such rank", vec!["entry MPI_* { n++ }", "--ranks", "77"], "no rank of the job is in `77`"),
    ] {
        let mut command = cluster.trimtab(&["probe", "--slurm", &job.id]);
        let output = command.args(&words).output().expect("it runs");
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{case}: {out} {err}");
        assert!(err.contains(expected), "{case}: {err}");
        job.check_untouched();
    }
    wait_for("no agent left", || agents().is_empty());
}

/// The agents hear nothing of it any more, take the script out, and end.
fn a_killed_lead_leaves_no_script(cluster: &Cluster<'_>, job: &Job) {
    let mut lead = begin_probing(cluster, job);
    children_of(lead.id()).into_iter().for_each(kill);
    lead.wait().expect("it ended");
    wait_for("ranks without probes", || job.ranks.iter().all(Rank::is_untouched));
    wait_for("no agent left", || agents().is_empty());
    job.check_untouched();
}

/// Lead, agents and their guards are killed at once: the probes stay in, and `trimtab undo` takes them out everywhere.
fn what_a_killed_agent_left_is_undone_on_all_nodes(cluster: &Cluster<'_>, job: &Job) {
    let mut lead = begin_probing(cluster, job);
    let doomed: Vec<i32> = guards().into_iter().chain(agents()).chain(children_of(lead.id())).collect();
    doomed.into_iter().for_each(kill);
    lead.wait().expect("it ended");
    wait_for("no agent left", || agents().is_empty());
    assert!(job.ranks.iter().all(|rank| !rank.is_untouched()), "nobody was left to take them out");
    let undo = || cluster.trimtab(&["undo", "--slurm", &job.id]).output().expect("it runs");
    let output = undo();
    let ((out, err), code) = (texts(&output), output.status.code());
    assert_eq!(code, Some(0), "{out} {err}");
    assert!(out.contains(&format!("places restored in {NODES} ranks")), "{out} {err}");
    job.check_untouched();
    let output = undo();
    let ((out, err), code) = (texts(&output), output.status.code());
    assert_eq!(code, Some(1), "{out} {err}");
    assert!(out.contains("holds anything of trimtab's"), "{out} {err}");
    let audit = fs::read_to_string(cluster.folder("state").join("trimtab/audit.jsonl")).expect("the audit log");
    let undone =
        audit.lines().filter(|line| line.contains("\"undo\"") && line.contains("\"event\":\"restored\"")).count();
    assert_eq!(undone, NODES, "{audit}");
}

/// A script that stays in until its lead is killed.
fn begin_probing(cluster: &Cluster<'_>, job: &Job) -> std::process::Child {
    let mut command = cluster.trimtab(&["probe", "entry MPI_* { n++ }", "--slurm", &job.id]);
    let lead = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
    lead
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn hosts(report: &Report) -> BTreeSet<&str> {
    report.ranks.iter().map(|rank| rank.host.as_str()).collect()
}

/// The findings of `trimtab probe`, as JSON.
fn probed(cluster: &Cluster<'_>, words: &[&str]) -> Value {
    let mut command: Command = cluster.trimtab(&["probe"]);
    let output = command.args(words).args(["--json", "-"]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out} {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"))
}

fn variable(said: &Value, name: &str) -> Option<Value> {
    let all = said["variables"].as_array()?;
    Some(all.iter().find(|one| one["name"] == name)?["value"].clone())
}

/// The process id of `srun`, as the head sees it; what we started is what enters the head.
fn srun_on_head(job: &Job) -> String {
    let own = children_of(job.srun.id())[0];
    Testbed::inside(own).expect("it runs").to_string()
}

/// The node that a rank runs on.
fn node_of(cluster: &Cluster<'_>, rank: &Rank) -> usize {
    let is_its = |node: &usize| cluster.testbed.processes(*node).contains(&rank.pid);
    (1..=cluster.testbed.count()).find(is_its).expect("it runs on a node")
}
