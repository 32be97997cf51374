//! A job of a real Slurm on several nodes: measured from the head through agents, and left as it was.
//!
//! Next: `slurm.rs` for jobs on one machine, `trimtab-testbed` for the nodes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use trimtab_specimens::{Mpi, TextSnapshot, Variant, build, skip, threads_running};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::Report;

/// Longer than anything here takes on a loaded machine; no test measures against it.
const LIMIT: Duration = Duration::from_secs(90);
const NODES: usize = 4;

#[test]
fn jobs_of_several_nodes() {
    if let Some(lack) = Slurm::lack() {
        return skip("jobs_of_several_nodes", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let job = cluster.start("particle", &["--iterations", "100000000"]);
    a_window_is_of_all_ranks(&cluster, &job);
    a_killed_lead_leaves_no_probes(&cluster, &job);
    a_killed_agent_is_named_and_the_next_undoes_what_it_left(&cluster, &job);
    a_node_that_is_cut_off_restores_its_ranks(&cluster, &job);
    what_can_not_be_measured_is_said(&cluster, &job);
}

/// One window after another, of the same ranks; then as `trimtab measure` from what is stored.
fn a_window_is_of_all_ranks(cluster: &Cluster<'_>, job: &Job) {
    let report = cluster.window(&["attach", "--slurm", &job.id]);
    assert!(report.window.valid && report.window.iterations == Some(10), "{:?} {:?}", report.window, report.warnings);
    assert_eq!(report.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), (0..NODES as u32).collect::<Vec<_>>());
    let hosts: BTreeSet<&str> = report.ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert_eq!(hosts.len(), NODES, "one rank on each node: {hosts:?}");
    assert!(report.ranks.iter().all(|rank| rank.iterations == Some(10)), "{:?}", report.ranks);
    // Each rank of the 2-D mesh has neighbours, and what one sends another is what it gets of it.
    assert!(report.links.iter().any(|link| link.messages > 0), "{:?}", report.links);
    assert!(report.communication_fraction.is_some_and(|share| share.mean > 0.0 && share.mean < 1.0));
    job.check_untouched();
    let again = cluster.window(&["measure", &report.job.id]);
    assert_eq!((again.job.id, again.window.batch), (report.job.id, 1), "another window of the same job");
    job.check_untouched();
    let audit = fs::read_to_string(cluster.folder("state").join("trimtab/audit.jsonl")).expect("the audit log");
    let count = |word: &str| audit.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count("\"event\":\"begin\""), count("\"event\":\"restored\"")), (2 * NODES, 2 * NODES), "{audit}");
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

/// The window goes on without that agent's rank, and says so; the next one finds what the killed agent left.
fn a_killed_agent_is_named_and_the_next_undoes_what_it_left(cluster: &Cluster<'_>, job: &Job) {
    let window =
        cluster.begin_window(&["attach", "--slurm", &job.id, "--iterations", "100000000", "--max-seconds", "12"]);
    wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
    let victim = agents()[0];
    kill(victim);
    let (code, report) = window.end();
    assert_eq!((code, report.window.valid, report.ranks.len()), (Some(1), false, NODES - 1), "{:?}", report.warnings);
    let named = report.warnings.iter().any(|warning| warning.contains("did not answer when asked to"));
    assert!(named, "{:?}", report.warnings);
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
    let window =
        cluster.begin_window(&["attach", "--slurm", &job.id, "--iterations", "100000000", "--max-seconds", "12"]);
    wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
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

/// Nodes with a Slurm.
struct Cluster<'a> {
    testbed: &'a Testbed,
    slurm: &'a Slurm<'a>,
}

/// A window whose report is not there yet.
struct Window {
    lead: Child,
    file: PathBuf,
}

impl Window {
    /// Exit code and report.
    fn end(mut self) -> (Option<i32>, Report) {
        let code = self.lead.wait().expect("it ends").code();
        let text = fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("no report ({error}), code {code:?}"));
        (code, serde_json::from_str(&text).expect("a report"))
    }
}

/// A job that runs.
struct Job {
    id: String,
    srun: Child,
    ranks: Vec<Rank>,
}

/// One of its processes, as this namespace sees it.
struct Rank {
    pid: i32,
    text: TextSnapshot,
}

impl Cluster<'_> {
    fn folder(&self, name: &str) -> PathBuf {
        self.testbed.folder().join(name)
    }

    /// `trimtab` on the head.
    fn trimtab(&self, words: &[&str]) -> Command {
        let mut command = self.slurm.command(env!("CARGO_BIN_EXE_trimtab"));
        command.args(words).env("XDG_DATA_HOME", self.folder("data")).env("XDG_STATE_HOME", self.folder("state"));
        command.env("XDG_CACHE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command
    }

    /// One window, which must have a report.
    fn window(&self, words: &[&str]) -> Report {
        let output: Output = self.trimtab(words).args(["--json", "-"]).output().expect("it runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {:?} {out} {err}", output.status))
    }

    /// A window that takes a while.
    fn begin_window(&self, words: &[&str]) -> Window {
        let file = self.folder("window.json");
        let mut command = self.trimtab(words);
        command.arg("--json").arg(&file).stdout(Stdio::null()).stderr(Stdio::inherit());
        let _earlier = fs::remove_file(&file);
        Window { lead: command.spawn().expect("it starts"), file }
    }

    /// A specimen with one rank on each node, at work.
    fn start(&self, name: &str, options: &[&str]) -> Job {
        let program = build(name, Some(Mpi::OpenMpi), &Variant::default()).expect("it builds");
        let program = program.canonicalize().expect("it is there");
        let mut srun = self.slurm.command("srun");
        srun.arg(format!("-N{NODES}")).args(["--mpi=pmix"]).arg(&program).args(options);
        for (variable, value) in [
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "tcp,self"),
            ("OMPI_MCA_btl_tcp_if_include", "10.77.0.0/24"),
            ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ] {
            srun.env(variable, value);
        }
        let log = fs::File::create(self.folder("srun.log")).expect("a log");
        let srun = srun.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log).spawn();
        let mut srun = srun.expect("srun starts");
        wait_for("all ranks are at work", || {
            let said = || fs::read_to_string(self.folder("srun.log")).unwrap_or_default();
            assert!(matches!(srun.try_wait(), Ok(None)), "srun has ended: {}", said());
            let pids = running(&program);
            pids.len() == NODES && pids.iter().all(|pid| has_worked(*pid))
        });
        let rank = |pid: i32| Rank { pid, text: TextSnapshot::of(pid).expect("a rank's text") };
        let said = self.slurm.command("squeue").args(["--noheader", "--format=%i"]).output().expect("squeue runs");
        let id = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        Job { id, srun, ranks: running(&program).into_iter().map(rank).collect() }
    }
}

impl Rank {
    fn is_untouched(&self) -> bool {
        self.text.difference_now().expect("it runs").is_none()
    }
}

impl Job {
    fn check_untouched(&self) {
        for rank in &self.ranks {
            assert_eq!(rank.text.difference_now().expect("it runs"), None, "restored");
            threads_running(rank.pid).expect("no thread is stopped");
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The nodes end what runs on them; this ends what waits for it here.
        let _ = self.srun.kill();
        let _ = self.srun.wait();
    }
}

/// Processes of a program, on any node.
fn running(program: &Path) -> Vec<i32> {
    let is_it = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    processes().into_iter().filter(is_it).collect()
}

/// Agents of ours, on any node.
fn agents() -> Vec<i32> {
    let own = Path::new(env!("CARGO_BIN_EXE_trimtab"));
    let serves = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.windows(8).any(|part| part == b"\0agent\0-"))
    };
    running(own).into_iter().filter(serves).collect()
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill runs").success());
}

fn children_of(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process has computed for a tenth of a second.
fn has_worked(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split(' ').collect();
    fields.get(11).and_then(|ticks| ticks.parse::<u64>().ok()).is_some_and(|ticks| ticks >= 10)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
