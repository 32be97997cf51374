//! A job of a real Slurm on several nodes: measured from the head through agents, and left as it was.
//!
//! Next: `jobs.rs` for other commands, `slurm.rs` for jobs on one node, `trimtab-testbed` for the nodes.

mod common_cluster;

use common_cluster::{
    Cluster, Job, Rank, VARIABLES, Window, agents, children_of, guards, kill, on_nodes, specimen, wait_for,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_specimens::{ENDLESS, TextSnapshot, has_worked, skip, threads_running};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::{Estimate, FunctionGroup, FunctionTotal, NeighbourKind, Report};

const NODES: usize = 4;
/// How often a job may be started that gives up before its ranks are at work.
const STARTS_MAX: usize = 3;

#[test]
fn jobs_of_several_nodes() {
    if let Some(lack) = Slurm::lack() {
        return skip("jobs_of_several_nodes", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let job = cluster.start("particle", &ENDLESS);
    a_window_is_of_all_ranks(&cluster, &job);
    a_window_is_of_chosen_ranks(&cluster, &job);
    a_large_jobs_window_is_summed_on_the_way(&cluster, &job);
    a_window_waits_for_the_nodes(&cluster, &job);
    a_window_that_timeout_ends_is_shown(&cluster, &job);
    a_killed_lead_leaves_no_probes(&cluster, &job);
    a_killed_agent_is_named_and_what_it_left_comes_out(&cluster, &job);
    a_killed_agent_and_its_guard_are_cleaned_up_after(&cluster, &job);
    a_node_that_is_cut_off_restores_its_ranks(&cluster, &job);
    what_can_not_be_measured_is_said(&cluster, &job);
    drop(job);
    nodes_whose_ranks_lack_a_function_are_named(&cluster);
}

/// One window after another, of the same ranks; then as `trimtab measure` from what is stored.
fn a_window_is_of_all_ranks(cluster: &Cluster<'_>, job: &Job) {
    let report = cluster.window(&["attach", "--slurm", &job.id]);
    assert!(report.window.valid && report.window.iterations >= Some(10), "{:?} {:?}", report.window, report.warnings);
    assert_eq!(report.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), (0..NODES as u32).collect::<Vec<_>>());
    let hosts: BTreeSet<&str> = report.ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert_eq!(hosts.len(), NODES, "one rank on each node: {hosts:?}");
    assert!(report.ranks.iter().all(|rank| rank.iterations == report.window.iterations), "{:?}", report.ranks);
    // Each node says who shares it: its own rank there, and nobody of the same job as a neighbour.
    let shared: BTreeSet<&str> = report.nodes.iter().map(|node| node.host.as_str()).collect();
    assert_eq!(shared, hosts);
    for node in &report.nodes {
        assert!(node.places.len() == 1 && !node.places[0].cpus_seen.is_empty(), "{node:?}");
        let own = format!("{}.", job.id);
        assert!(
            node.neighbours.iter().all(|one| !(one.kind == NeighbourKind::Slurm && one.name.starts_with(&own))),
            "{node:?}"
        );
    }
    // Each rank of the 2-D mesh has neighbours, and what one sends another is what it gets of it.
    assert!(report.links.iter().any(|link| link.messages > 0), "{:?}", report.links);
    assert!(report.communication_fraction.is_some_and(|share| share.mean > 0.0 && share.mean < 1.0));
    job.check_untouched();
    let again = cluster.window(&["measure", &report.job.id]);
    assert_eq!((again.job.id, again.window.number), (report.job.id, 1), "another window of the same job");
    job.check_untouched();
    let audit = fs::read_to_string(cluster.folder("state").join("trimtab/audit.jsonl")).expect("the audit log");
    let count = |word: &str| audit.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count("\"event\":\"begin\""), count("\"event\":\"restored\"")), (2 * NODES, 2 * NODES), "{audit}");
}

/// Ranks by number, then those of a host: nodes without one take no part, and nothing is changed there.
fn a_window_is_of_chosen_ranks(cluster: &Cluster<'_>, job: &Job) {
    let log = cluster.folder("state").join("trimtab/audit.jsonl");
    let begun = || fs::read_to_string(&log).expect("the audit log").matches("\"event\":\"begin\"").count();
    let ranks = |report: &Report| report.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>();
    let before = begun();
    let some = cluster.window(&["attach", "--slurm", &job.id, "--ranks", "1,3"]);
    assert!(some.window.valid && ranks(&some) == [1, 3], "{:?} {:?}", some.ranks, some.warnings);
    assert_eq!((some.job.ranks, some.window.context.as_deref()), (NODES as u32, Some("1,3")));
    assert!(some.window.main_loop.is_some(), "nodes without a chosen rank do not hide its loop: {:?}", some.window);
    let on_host = format!("host:{}", some.ranks[1].host);
    let of_host = cluster.window(&["attach", "--slurm", &job.id, "--ranks", &on_host]);
    assert!(of_host.window.valid && ranks(&of_host) == [3], "{:?} {:?}", of_host.ranks, of_host.warnings);
    assert_eq!(begun() - before, 3, "ranks that are left alone are not in the log");
    job.check_untouched();
}

/// With the limit lowered the nodes' agents sum their ranks, and the tree the nodes. As many iterations with every rank's
/// details have the same calls, and a share and a pace that agree.
fn a_large_jobs_window_is_summed_on_the_way(cluster: &Cluster<'_>, job: &Job) {
    let window = |options: &[&str]| {
        let words = ["attach", "--slurm", &job.id, "--iterations", "80", "--detail-ranks-max", "3"];
        let report = cluster.window(&[&words, options].concat());
        assert!(
            report.window.valid && report.window.iterations == Some(80),
            "{:?} {:?}",
            report.window,
            report.warnings
        );
        job.check_untouched();
        report
    };
    let (summed, whole) = (window(&[]), window(&["--all-ranks"]));
    assert!(whole.reduced.is_none() && !whole.links.is_empty(), "{whole:?}");
    let reduced = summed.reduced.as_ref().unwrap_or_else(|| panic!("it is not summed: {summed:?}"));
    assert_eq!((reduced.ranks, reduced.nodes.len()), (NODES as u32, NODES), "{reduced:?}");
    assert!(reduced.nodes.iter().all(|node| node.ranks == 1 && node.computation_s > Some(0.0)), "{reduced:?}");
    assert_eq!(reduced.histogram.iter().map(|class| class.ranks).sum::<u32>(), NODES as u32, "{reduced:?}");
    assert!(summed.links.is_empty() && summed.wait_states.is_empty() && !reduced.left_out.is_empty(), "{summed:?}");
    // Which of the loops inside are seen to run is a matter of samples: only the main one is in every window.
    let main_loop = summed.window.main_loop.clone().expect("a loop");
    assert_eq!(whole.window.main_loop.as_ref(), Some(&main_loop));
    let main_loop = format!("loop {} of {}", main_loop.number, main_loop.function);
    let is_inner = |function: &FunctionTotal| function.group == FunctionGroup::Loop && function.name != main_loop;
    let calls = |report: &Report| {
        let outer = report.functions.iter().filter(|function| !is_inner(function));
        let all = outer.map(|function| (function.name.clone(), function.calls_counted(), function.bytes));
        all.collect::<BTreeSet<_>>()
    };
    assert_eq!(calls(&summed), calls(&whole));
    for (name, of) in [
        ("share", (|report| report.communication_fraction) as fn(&Report) -> Option<Estimate>),
        ("pace", |report| report.time_per_iteration_s),
    ] {
        let (one, other) = (of(&summed).expect(name), of(&whole).expect(name));
        assert!(one.half_width_95.is_some() && one.samples == other.samples, "{name}: {one:?} {other:?}");
        // Two windows of a job that shares two processors with whoever else tests; sums of nodes would be four times as much.
        let half = |found: &Estimate| found.half_width_95.unwrap_or_default();
        let is_near = (one.mean / other.mean).ln().abs() < 3.0_f64.ln();
        assert!(is_near || (one.mean - other.mean).abs() < half(&one) + half(&other), "{name}: {one:?} {other:?}");
    }
}

/// Agents that stay on the nodes say how busy they are, and how fast the program is.
fn a_window_waits_for_the_nodes(cluster: &Cluster<'_>, job: &Job) {
    for (when, kind, shown) in [("load>0.001", "load", " on "), ("rate<1000000", "rate", "iterations per second")] {
        let report = cluster.window(&["attach", "--slurm", &job.id, "--when", when]);
        let event = report.window.event.clone().expect("it was waited for");
        assert!(report.window.valid && report.ranks.len() == NODES, "{:?} {:?}", report.window, report.warnings);
        assert!(event.kind.word() == kind && event.value.contains(shown), "{event:?}");
        job.check_untouched();
    }
    wait_for("agents have gone", || agents().is_empty());
}

/// `timeout` sends its signal to the command and then to the command's group: the second one is the same as the first.
fn a_window_that_timeout_ends_is_shown(cluster: &Cluster<'_>, job: &Job) {
    let words = ["attach", "--slurm", &job.id, "--iterations", "100000000", "--json", "-"];
    // However long it takes here until something is recorded.
    for seconds in [2, 4, 8, 16, 32] {
        let output = cluster.trimtab_within(seconds, &words).output().expect("it runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.code() == Some(124) && !err.contains("interrupted twice"), "{:?} {err}", output.status);
        wait_for("agents have gone", || agents().is_empty());
        job.check_untouched();
        if err.contains("interrupted before") {
            continue;
        }
        let report: Report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
        assert!(report.window.valid && report.ranks.len() == NODES, "{:?} {:?}", report.window, report.warnings);
        assert_eq!(report.window.ended_by.word(), "interrupted", "{:?}", report.warnings);
        return;
    }
    panic!("nothing was recorded within the longest limit");
}

/// The lead is killed while the window is open: the agents notice, take everything out, and end.
fn a_killed_lead_leaves_no_probes(cluster: &Cluster<'_>, job: &Job) {
    let mut command = cluster.trimtab(&["attach", "--slurm", &job.id, "--iterations", "100000000"]);
    let mut lead = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
    // The Child is nsenter's, whose one child is the lead.
    children_of(lead.id()).into_iter().for_each(kill);
    lead.wait().expect("it ended");
    wait_for("ranks without probes", || job.ranks.iter().all(Rank::is_untouched));
    wait_for("no agent left", || agents().is_empty());
    job.check_untouched();
}

/// A window that its time ends, with probes in all ranks: one that is interrupted may have recorded nothing yet.
fn long_window(cluster: &Cluster<'_>, job: &Job) -> Window {
    let words = ["attach", "--slurm", &job.id, "--iterations", "100000000", "--max-seconds", "12"];
    let window = cluster.begin_window(&words);
    wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
    window
}

/// The window goes on without that agent's rank, and says so; when the lease is over, the rank is restored.
fn a_killed_agent_is_named_and_what_it_left_comes_out(cluster: &Cluster<'_>, job: &Job) {
    let log = cluster.folder("state").join("trimtab/audit.jsonl");
    let restored = || fs::read_to_string(&log).expect("the audit log").matches("\"event\":\"restored\"").count();
    let window = long_window(cluster, job);
    assert_eq!(guards().len(), NODES, "one beside each agent");
    let before = restored();
    kill(agents()[0]);
    wait_for("a rank restored by the guard", || job.ranks.iter().any(Rank::is_untouched));
    wait_for("the line in the log", || restored() == before + 1);
    let (code, report) = window.end();
    assert_eq!((code, report.window.valid, report.ranks.len()), (Some(1), false, NODES - 1), "{:?}", report.warnings);
    let named = report.warnings.iter().any(|warning| warning.contains("did not answer when asked to"));
    assert!(named, "{:?}", report.warnings);
    wait_for("no agent and no guard left", || agents().is_empty() && guards().is_empty());
    job.check_untouched();
}

/// The next window finds what both left.
fn a_killed_agent_and_its_guard_are_cleaned_up_after(cluster: &Cluster<'_>, job: &Job) {
    let window = long_window(cluster, job);
    let victim = agents()[0];
    children_of(victim as u32).into_iter().for_each(kill);
    kill(victim);
    let (code, report) = window.end();
    assert_eq!((code, report.window.valid, report.ranks.len()), (Some(1), false, NODES - 1), "{:?}", report.warnings);
    let touched = job.ranks.iter().filter(|rank| !rank.is_untouched()).count();
    assert_eq!(touched, 1, "the others were restored");
    let report = cluster.window(&["attach", "--slurm", &job.id]);
    assert!(report.window.valid, "{:?}", report.warnings);
    assert!(
        report.warnings.iter().any(|warning| warning.contains("a killed trimtab had left")),
        "{:?}",
        report.warnings
    );
    job.check_untouched();
}

/// Its agent hears nothing of the lead and takes the probes out by itself; the job goes on when the network is back.
fn a_node_that_is_cut_off_restores_its_ranks(cluster: &Cluster<'_>, job: &Job) {
    let window = long_window(cluster, job);
    cluster.testbed.cut(2, true).expect("the link goes down");
    wait_for("a rank restored without the lead", || job.ranks.iter().any(Rank::is_untouched));
    let (code, report) = window.end();
    cluster.testbed.cut(2, false).expect("the link comes up");
    assert_eq!((code, report.window.valid), (Some(1), false), "{:?}", report.warnings);
    let gone: BTreeSet<&str> = report.ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert!(!gone.contains(cluster.testbed.name(2)), "{gone:?}");
    wait_for("no agent left", || agents().is_empty());
    job.check_untouched();
    let report = cluster.window(&["attach", "--slurm", &job.id]);
    assert!(report.window.valid && report.ranks.len() == NODES, "{:?}", report.warnings);
    job.check_untouched();
}

fn what_can_not_be_measured_is_said(cluster: &Cluster<'_>, job: &Job) {
    for (name, words, expected) in [
        ("no such job", vec!["attach", "--slurm", "999999"], "no job 999999"),
        ("no MPI in that step", vec!["attach", "--slurm", "JOB.77"], "77"),
        ("not here", vec!["attach", "--slurm", &job.id, "--dry-run"], "--dry-run shows the plan of one node"),
        ("no such rank", vec!["attach", "--slurm", &job.id, "--ranks", "99"], "no rank of the job is in `99`"),
        ("a function that is nowhere", vec!["attach", "--slurm", &job.id, "--function", "no_such"], "no_such"),
    ] {
        let step = format!("{}.77", job.id);
        let words: Vec<&str> = words.into_iter().map(|word| if word == "JOB.77" { &step } else { word }).collect();
        let output = cluster.trimtab(&words).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.to_lowercase().contains(&expected.to_lowercase()), "{name}: {said}");
    }
    wait_for("no agent left", || agents().is_empty());
    job.check_untouched();
}

/// The last node runs a copy without symbols: the function is measured on the others, and who lacks it is said.
fn nodes_whose_ranks_lack_a_function_are_named(cluster: &Cluster<'_>) {
    let (program, plan) = (specimen("particle"), cluster.folder("programs"));
    let other = cluster.folder("stripped");
    let stripped = Command::new("strip").arg("-o").args([&other, &program]).status().expect("strip runs");
    assert!(stripped.success());
    let options = ENDLESS.join(" ");
    let lines = format!("0-2 '{}' {options}\n3 '{}' {options}\n", program.display(), other.display());
    fs::write(&plan, lines).expect("a plan");
    let ended = cluster.slurm.command("scancel").args(["--full", "--user=root"]).output().expect("scancel runs");
    assert!(ended.status.success(), "{ended:?}");
    wait_for("no job left", || cluster.job_id().is_empty());
    let log = cluster.folder("srun.log");
    let start = || {
        let mut srun = cluster.slurm.command("srun");
        srun.args(["-N4", "--mpi=pmix", "--kill-on-bad-exit=1", "--multi-prog"])
            .arg(&plan)
            .envs(VARIABLES)
            .stdin(Stdio::null());
        srun.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a log")).spawn().expect("srun starts")
    };
    let mut srun = start();
    let pids = || [on_nodes(&program), on_nodes(&other)].concat();
    let mut left = STARTS_MAX;
    wait_for("all ranks are at work", || {
        // Open MPI's TCP transport dies of a message that comes before a rank is ready for it, in about one of fifty starts.
        if srun.try_wait().expect("a child").is_some() {
            left -= 1;
            assert!(left > 0, "srun: {}", fs::read_to_string(&log).unwrap_or_default());
            srun = start();
        }
        pids().len() == NODES && pids().iter().all(|pid| has_worked(*pid))
    });
    let before: Vec<TextSnapshot> = pids().iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    // It is called so often that it would be taken out before the window begins.
    let words = ["attach", "--slurm", &cluster.job_id(), "--function", "value", "--max-cost", "100"];
    let report = cluster.window(&words);
    assert_eq!(report.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1, 2], "{:?}", report.warnings);
    let host = cluster.testbed.name(NODES);
    let named = format!("rank 3 on {host} (stripped) has no function value");
    assert!(report.warnings.iter().any(|warning| warning.contains(&named)), "{:?}", report.warnings);
    assert!(
        report.functions.iter().any(|row| row.name == "value" && row.calls_counted() > 0),
        "{:?}",
        report.functions
    );
    // Nothing of the last node is known: no rank, no link and no call of it.
    assert!(report.links.iter().all(|link| link.from != 3), "{:?}", report.links);
    scripts_are_put_where_they_have_a_place(cluster, words[2], host);
    wait_for("no agent left", || agents().is_empty());
    for text in &before {
        assert_eq!(text.difference_now().expect("it runs"), None, "restored");
        threads_running(text.pid()).expect("no thread is stopped");
    }
    let _ended = srun.kill();
    srun.wait().expect("it ended");
}

/// Ranks without the function are named, and a script that no rank has a place for is refused as ever.
fn scripts_are_put_where_they_have_a_place(cluster: &Cluster<'_>, job: &str, host: &str) {
    let probe = |script: &str| {
        let words = ["probe", "--for", "1", "--json", "-", script, "--slurm", job];
        let output = cluster.trimtab(&words).output().expect("it runs");
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        (output.status.code(), said.concat())
    };
    let (code, said) = probe("entry value { n++ }");
    assert!(code.is_some_and(|code| code < 2), "{said}");
    assert!(said.contains(&format!("not probed: rank 3 on {host}: ")) && said.contains("value"), "{said}");
    assert!(!said.contains("rank 0 on"), "only rank 3 lacks it: {said}");
    let (code, said) = probe("entry MPI_Send { n++ }");
    assert!(code == Some(0) && !said.contains("not probed"), "all have it: {said}");
    let (code, said) = probe("entry nowhere_at_all { n++ }");
    assert!(code == Some(2) && said.contains("nowhere_at_all"), "{said}");
    wait_for("no agent left", || agents().is_empty());
}
