//! Whole runs through a site's standing agents: ranks on several nodes are held where they come out of `MPI_Init`, so that
//! calls and bytes are those that a profiler in the program sees. A rank that can't be held is named, and nobody is held by an agent
//! that is gone.
//!
//! The batch script of each job waits for a word; the agents look before it comes.
//!
//! Next: `first_call.rs` for jobs on one machine, `site.rs` for what else a site does.

mod common_cluster;
mod common_site;
mod common_truth;

use common_cluster::{
    Cluster, GROUP, USER, VARIABLES, agents, guards, kill, on_nodes, plug_in_lack, plugstack_line, wait_for,
};
use common_site::{Site, logged};
use common_truth::{check_functions, check_links};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use trimtab_specimens::{ENDLESS, Mpi, TextSnapshot, Variant, build, groundtruth, skip, threads_running, truths_of};
use trimtab_testbed::{Settings, Slurm, Testbed};
use trimtab_types::report::{FromFirstCall, Report};

const NODES: usize = 3;
/// Said of a rank on a node that was too busy to look at it in time.
const SEEN_LATE: &str = "it had left MPI_Init before it was seen";
/// How often a whole run is tried on nodes that are so busy.
const TRIES: usize = 3;
/// How MPICH's ranks find each other on the nodes.
const NETWORK: [(&str, &str); 2] = [("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")];

#[test]
fn standing_agents_hold_ranks_from_their_first_call_on() {
    if let Some(lack) = Slurm::lack() {
        return skip("standing_agents_hold_ranks_from_their_first_call_on", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let settings = match plug_in_lack() {
        None => Settings { plugins: plugstack_line(&testbed), ..Settings::default() },
        Some(lack) => {
            skip("standing_agents_hold_ranks_from_their_first_call_on[plug-in]", &lack);
            Settings::default()
        }
    };
    let slurm = Slurm::start_with(&testbed, 2, &settings).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let site = Site::start(&cluster);
    // No more ranks of MPICH, which polls, than processors.
    for (mpi, count, program, words) in [
        (Mpi::OpenMpi, NODES, "kinds", "--iterations 40"),
        (Mpi::Mpich, 2, "kinds", "--iterations 40"),
        (Mpi::OpenMpi, 2, "heat", "--iterations 200"),
    ] {
        let is_whole = (0..TRIES).any(|_| every_call_is_seen(&site, &Batch::new(&site, mpi, count, (program, words))));
        assert!(is_whole, "{} {program}: a rank was seen too late, {TRIES} times", mpi.name());
    }
    who_is_late_is_named(&site);
    who_is_behind_already_is_named(&site);
    another_user_holds_nobody(&site);
    killed_agents_hold_nobody(&site);
    if !settings.plugins.is_empty() {
        the_plug_in_holds_for_standing_agents(&site);
    }
    wait_for("no agent and no guard is left", || agents().is_empty() && guards().is_empty());
}

/// Calls, bytes and links equal the wrapper's. False if a rank was seen too late, and the report says so.
fn every_call_is_seen(site: &Site<'_>, batch: &Batch<'_>) -> bool {
    let name = format!("{} {}", batch.mpi.name(), batch.program.display());
    // A rank that polls for another on a busy processor calls MPI_Test without end, which would be taken out.
    let mut window = Window::begin(site, batch, &["--follow", "--hold", "10", "--max-cost", "100"]);
    window.wait_until_it_looks();
    batch.go();
    let report = window.report();
    let from = from(&report);
    if from.missed.iter().any(|missed| missed.reason == SEEN_LATE) {
        assert!(report.window.begins_late.is_some(), "{name}: {:?}", report.warnings);
        println!("{name}: once more: {from:?}");
        batch.wait_for_end();
        return false;
    }
    let all: Vec<u32> = (0..batch.count as u32).collect();
    assert_eq!((&from.ranks, from.missed.len()), (&all, 0), "{name}: {from:?} {}", window.said());
    assert!(report.window.valid && report.window.begins_late.is_none(), "{name}: {:?}", report.warnings);
    let truths = truths_of(&batch.truth(), batch.count as u32).expect("the wrapper wrote");
    check_functions(&report, &truths, &name);
    check_links(&report, &truths, &name);
    let hosts: std::collections::BTreeSet<&str> = report.ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert_eq!(hosts.len(), batch.count, "{name}: a rank on each node");
    batch.wait_for_end();
    lines_are_closed(site);
    true
}

/// Each change that was begun stands as restored in the user's log; in the site's stands for whom agents were started.
fn lines_are_closed(site: &Site<'_>) {
    let log = fs::read_to_string(site.cluster.folder("home").join(".local/state/trimtab/audit.jsonl")).expect("a log");
    let count = |event: &str| log.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    assert!(count("begin") > 0 && count("begin") == count("restored") + count("failed"), "{log}");
    let log = fs::read_to_string(site.cluster.folder("site-audit.jsonl")).expect("the site's log");
    let ahead = |line: &&str| line.contains("delegated") && line.contains("of Slurm, before its ranks");
    assert!(log.lines().filter(ahead).all(|line| line.contains(&format!("\"process_uid\":{USER},"))), "{log}");
    assert!(log.lines().any(|line| ahead(&line)), "{log}");
}

/// One rank comes out of `MPI_Init` later than the others may wait: all go on, and each is named with the reason.
fn who_is_late_is_named(site: &Site<'_>) {
    let batch = Batch::new(site, Mpi::OpenMpi, 2, ("particle", "--iterations 20000")).late("1:5");
    let mut window = Window::begin(site, &batch, &["--follow", "--hold", "2"]);
    window.wait_until_it_looks();
    batch.go();
    let report = window.report();
    let from = from(&report);
    let reasons: Vec<(u32, &str)> = from.missed.iter().map(|missed| (missed.rank, missed.reason.as_str())).collect();
    assert!(from.ranks.is_empty() && reasons.len() == 2, "{from:?}");
    let is_told = |reason: &&str| {
        reason.contains("rank 1 was still in MPI_Init 1.2 s after others had left it")
            || reason.contains("it waited as long as it might, and went on")
            // A busy node looks for the ranks when they have gone on already.
            || reason.contains(SEEN_LATE)
    };
    assert!(reasons.iter().all(|(_, reason)| is_told(reason)), "{reasons:?} {:?} {}", report.warnings, window.said());
    assert!(report.window.begins_late.is_some(), "{:?}", report.warnings);
    batch.wait_for_end();
}

/// A program that was there before the agents: each rank is named.
fn who_is_behind_already_is_named(site: &Site<'_>) {
    let batch = Batch::new(site, Mpi::OpenMpi, 2, ("particle", &ENDLESS.join(" ")));
    batch.go();
    wait_for("ranks are at work", || {
        let pids = on_nodes(&batch.program);
        pids.len() == 2 && pids.iter().all(|pid| trimtab_specimens::has_worked(*pid))
    });
    let texts: Vec<TextSnapshot> =
        on_nodes(&batch.program).into_iter().map(|pid| TextSnapshot::of(pid).expect("its text")).collect();
    let mut window = Window::begin(site, &batch, &["--hold", "5", "--iterations", "20"]);
    let report = window.report();
    let from = from(&report);
    assert!(from.ranks.is_empty() && from.missed.len() == 2, "{from:?}");
    assert!(from.missed.iter().all(|missed| missed.reason == SEEN_LATE), "{from:?}");
    assert!(report.warnings.iter().any(|warning| warning.contains("it had left MPI_Init")), "{:?}", report.warnings);
    for text in texts {
        assert_eq!(text.difference_now().expect("it runs"), None, "restored");
    }
    for pid in on_nodes(&batch.program) {
        threads_running(pid).expect("no thread is stopped");
    }
    batch.cancel();
}

/// Before there is a rank Slurm says whose the job is; what the asker says counts for nothing.
fn another_user_holds_nobody(site: &Site<'_>) {
    let batch = Batch::new(site, Mpi::OpenMpi, 2, ("particle", "--iterations 10"));
    let mut window = Window::begin_as(site, &batch, &["--follow", "--hold", "5"], "user:4243");
    assert_eq!(window.child.wait().expect("it ends").code(), Some(2), "{}", window.said());
    let said = window.said();
    let denied = format!("job {} of Slurm belongs to user {USER}, and user 4243 asks", batch.id);
    assert!(said.contains(&denied), "{said}");
    assert!(agents().is_empty(), "nothing was started");
    batch.cancel();
}

/// All agents are killed while one rank waits for the other: what stands beside them lets it go, long before its own time
/// is over, and its text is as in its files.
fn killed_agents_hold_nobody(site: &Site<'_>) {
    let batch = Batch::new(site, Mpi::OpenMpi, 2, ("particle", "--iterations 400")).late("1:20");
    let mut window = Window::begin(site, &batch, &["--follow", "--hold", "60"]);
    window.wait_until_it_looks();
    batch.go();
    let is_marked =
        |pid: &i32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().contains("memfd:trimtab");
    wait_for("both are about to wait", || {
        let pids = on_nodes(&batch.program);
        pids.len() == 2 && pids.iter().all(&is_marked)
    });
    agents().into_iter().for_each(kill);
    wait_for("nothing is left in them", || !on_nodes(&batch.program).iter().any(&is_marked));
    let pids = on_nodes(&batch.program);
    assert_eq!(pids.len(), 2, "both run on");
    for pid in pids {
        let text = TextSnapshot::of(pid).expect("it runs");
        assert_eq!(text.difference_from_files().expect("it runs"), None, "text is as in the files");
    }
    let code = window.child.wait().expect("it ends").code();
    assert!(matches!(code, Some(1 | 2)), "its lead has no agents any more: {code:?} {}", window.said());
    batch.wait_for_end();
    let truths = truths_of(&batch.truth(), 2).expect("both came to MPI_Finalize");
    assert!(truths.iter().all(|truth| truth.finalized), "they went on to their end");
}

/// The holds that the plug-in's helpers have put into each task are taken over by agents that the site's standing ones start.
fn the_plug_in_holds_for_standing_agents(site: &Site<'_>) {
    let folder = site.cluster.folder("home");
    let report = folder.join("plugged.json");
    let identity = folder.join("identity.pem");
    fs::copy(site.identity("user:4242"), &identity).expect("a copy");
    std::os::unix::fs::chown(&identity, Some(USER), Some(GROUP)).expect("it is the user's");
    let controller = site.cluster.testbed.address(0);
    let option = format!(
        "--trimtab=window:--follow --controller {controller} --identity {} --json {}",
        identity.display(),
        report.display()
    );
    let started = || -> u64 {
        let agents = site.tree()["agents"].as_array().cloned().unwrap_or_default();
        agents.iter().filter_map(|agent| agent["health"]["windows_started"].as_u64()).sum()
    };
    let before = started();
    let batch = Batch::with_srun(site, (Mpi::OpenMpi, NODES), ("kinds", "--iterations 40"), &option);
    batch.go();
    let read = || serde_json::from_str::<Report>(&fs::read_to_string(&report).ok()?).ok();
    wait_for("a report", || read().is_some());
    let report = read().expect("waited for");
    let said = fs::read_to_string(folder.join(format!("trimtab-{}.0.txt", batch.id))).unwrap_or_default();
    let from = from(&report);
    assert_eq!((from.ranks.len(), from.missed.len()), (NODES, 0), "{from:?} {said}");
    let truths = truths_of(&batch.truth(), NODES as u32).expect("the wrapper wrote");
    check_functions(&report, &truths, "by the plug-in");
    assert_eq!(started(), before + NODES as u64, "by the site's agents: {said}");
    batch.wait_for_end();
}

fn from(report: &Report) -> &FromFirstCall {
    report.window.from_first_call.as_ref().expect("it is asked for")
}

/// A user's job whose script waits for a file before it starts a program with one rank on each node.
struct Batch<'a> {
    site: &'a Site<'a>,
    mpi: Mpi,
    count: usize,
    program: PathBuf,
    id: String,
    number: usize,
}

impl<'a> Batch<'a> {
    fn new(site: &'a Site<'a>, mpi: Mpi, count: usize, program: (&str, &str)) -> Self {
        Batch::with_srun(site, (mpi, count), program, "")
    }

    /// The same program with a rank that comes out of `MPI_Init` later.
    fn late(self, late: &str) -> Self {
        let folder = self.folder();
        fs::write(folder.join("late"), late).expect("it is written");
        self
    }

    fn with_srun(site: &'a Site<'a>, (mpi, count): (Mpi, usize), (program, words): (&str, &str), option: &str) -> Self {
        let program =
            build(program, Some(mpi), &Variant::default()).expect("it builds").canonicalize().expect("a file");
        let home = site.cluster.folder("home");
        let is_free = |number: &usize| !home.join(format!("batch{number}")).exists();
        let number = (0..).find(is_free).expect("a number");
        let folder = home.join(format!("batch{number}"));
        fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::chown(&folder, Some(USER), Some(GROUP)).expect("the user's folder");
        let script = script(mpi, count, &program, words, &folder, option);
        let slurm = site.cluster.slurm;
        let mut sbatch = slurm.command("sbatch");
        sbatch.args(["--parsable", &format!("--nodes={count}"), &format!("--uid={USER}"), &format!("--gid={GROUP}")]);
        sbatch.arg(format!("--chdir={}", home.display())).arg(format!("--output={}/log", folder.display()));
        sbatch.arg("--ntasks-per-node=1").arg("--wrap").arg(script);
        sbatch.envs(VARIABLES).envs(NETWORK).env("HOME", &home).env("PWD", &home);
        sbatch.env("XDG_DATA_HOME", home.join("data")).env("XDG_STATE_HOME", home.join(".local/state"));
        let output = sbatch.output().expect("sbatch runs");
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success() && !id.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let batch = Batch { site, mpi, count, program, id, number };
        wait_for("the script waits", || batch.folder().join("waits").exists());
        batch
    }

    fn folder(&self) -> PathBuf {
        self.site.cluster.folder("home").join(format!("batch{}", self.number))
    }

    fn truth(&self) -> PathBuf {
        self.folder().join("truth")
    }

    fn go(&self) {
        fs::write(self.folder().join("go"), "").expect("it is written");
    }

    fn is_over(&self) -> bool {
        let mut squeue = self.site.cluster.slurm.command("squeue");
        let said = squeue.args(["--noheader", "--format=%A"]).output().expect("squeue runs");
        said.stdout.is_empty() && on_nodes(&self.program).is_empty()
    }

    fn wait_for_end(&self) {
        wait_for("the job has ended", || self.is_over());
    }

    fn cancel(&self) {
        let ended = self.site.cluster.slurm.command("scancel").args(["--full", &self.id]).status();
        assert!(ended.expect("scancel runs").success());
        self.wait_for_end();
    }
}

fn script(mpi: Mpi, count: usize, program: &Path, words: &str, folder: &Path, option: &str) -> String {
    let plugin = if mpi == Mpi::Mpich { "pmi2" } else { "pmix" };
    let wrapper = groundtruth(mpi).expect("the wrapper is built");
    let name = |path: Option<&std::ffi::OsStr>| path.expect("a path").to_string_lossy().into_owned();
    let preload = format!(
        "LD_PRELOAD={} LD_LIBRARY_PATH='{}'",
        name(wrapper.file_name()),
        name(wrapper.parent().map(Path::as_os_str))
    );
    let folder = folder.display();
    // MPICH may hang in MPI_Finalize across nodes.
    format!(
        "touch '{folder}/waits'; while ! test -e '{folder}/go'; do sleep 0.05; done; \
         test -e '{folder}/late' && export GT_LATE=$(cat '{folder}/late'); \
         exec timeout -k 1 80 srun -N{count} -n{count} --mpi={plugin} '{option}' \
         env {preload} GT_OUT='{folder}/truth' '{}' {words}",
        program.display()
    )
    .replace("'' ", "")
}

/// A command that measures a batch.
struct Window {
    child: Child,
    log: PathBuf,
    file: PathBuf,
}

impl Window {
    fn begin(site: &Site<'_>, batch: &Batch<'_>, words: &[&str]) -> Window {
        Window::begin_as(site, batch, words, "user:4242")
    }

    fn begin_as(site: &Site<'_>, batch: &Batch<'_>, words: &[&str], role: &str) -> Window {
        let [log, file] = ["log", "json"].map(|end| site.cluster.folder(&format!("whole{}.{end}", batch.number)));
        let shown = file.display().to_string();
        let all = [&["attach", "--slurm", &batch.id, "--wait", "60", "--json", &shown], words].concat();
        let mut command: Command = site.trimtab(&all, role);
        Window { child: logged(&mut command, &log), log, file }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_until_it_looks(&mut self) {
        wait_for("all nodes are looked at", || {
            assert!(matches!(self.child.try_wait(), Ok(None)), "{}", self.said());
            self.said().contains("nodes are looked at")
        });
    }

    fn report(&mut self) -> Report {
        let code = self.child.wait().expect("it ends").code();
        let text = fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("{error}: {code:?} {}", self.said()));
        serde_json::from_str(&text).expect("a report")
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
