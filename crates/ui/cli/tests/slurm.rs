//! Jobs of a real Slurm on one node: `trimtab attach` by the process id of `srun`, and by Slurm's job id; and a step that
//! the plug-in measures on several nodes.
//!
//! The tasks are no children of `srun` but of Slurm's daemon, so they are found by what Slurm tells them. Everything runs on
//! nodes of the testbed, so that nothing outlives the test, however it ends; `trimtab` and `srun` run on the node itself.
//!
//! Next: `cluster.rs` for jobs of several nodes.

mod common_cluster;

use common_cluster::{GROUP, LIMIT, USER, VARIABLES, children_of, make_user, plug_in_lack, plugstack_line, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_specimens::{ENDLESS, Mpi, TextSnapshot, Variant, build, skip, threads_running};
use trimtab_testbed::{Settings, Slurm, Testbed};
use trimtab_types::report::Report;

/// Ranks of a job: MPICH polls, so no more than the processors of a small machine.
const RANKS: u32 = 2;
/// Processors of the node, as Slurm is told: for two jobs, and an array's tasks.
const CPUS: u32 = 4;
/// The one node.
const NODE: usize = 1;

/// Held for a whole test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test on so many nodes with a Slurm of these settings, or says why it can't.
fn on_nodes(test: &str, count: usize, settings: &dyn Fn(&Testbed) -> Settings, body: impl Fn(&Site<'_>)) {
    let _alone = alone();
    if let Some(lack) = Slurm::lack() {
        return skip(test, &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), count).expect("nodes come up");
    let slurm = Slurm::start_with(&testbed, CPUS, &settings(&testbed)).expect("Slurm starts");
    body(&Site { testbed: &testbed, slurm: &slurm });
}

#[test]
fn a_job_is_found_from_srun() {
    on_nodes("a_job_is_found_from_srun", 1, &|_| Settings::default(), |site| {
        for (mpi, plugin) in [(Mpi::Mpich, "pmi2"), (Mpi::OpenMpi, "pmix")] {
            let mut job = site.start_job(plugin, RANKS, &particle(mpi));
            let report = site.window(&mut job, plugin, RANKS);
            let pids: Vec<i32> = report.ranks.iter().map(|rank| rank.pid).collect();
            let outside: Vec<i32> = pids.iter().map(|pid| site.outside(*pid)).collect();
            let before = outside.iter().map(|pid| TextSnapshot::of(*pid).expect("a rank's text")).collect::<Vec<_>>();
            let again = site.window(&mut job, plugin, RANKS);
            assert_eq!(again.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>(), pids, "{plugin}: the same ranks");
            assert_eq!(again.job.id, report.job.id, "{plugin}: the same job");
            for (pid, text) in outside.iter().zip(before) {
                assert_eq!(text.difference_now().expect("it runs"), None, "{plugin}: restored");
                threads_running(*pid).expect("no thread is stopped");
            }
            by_id(site, &report);
            end(&mut job);
            wait_for(plugin, || outside.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
        }
    });
}

/// Two jobs at the same time: each `srun` leads to its own ranks.
#[test]
fn two_jobs_of_one_program_are_told_apart() {
    on_nodes("two_jobs_of_one_program_are_told_apart", 1, &|_| Settings::default(), |site| {
        let program = particle(Mpi::Mpich);
        let mut jobs = [site.start_job("pmi2", 1, &program), site.start_job("pmi2", 1, &program)];
        let reports = jobs.each_mut().map(|job| site.window(job, "pmi2", 1));
        assert_ne!(reports[0].ranks[0].pid, reports[1].ranks[0].pid);
        assert_ne!(reports[0].job.id, reports[1].job.id);
        let again = site.window(&mut jobs[0], "pmi2", 1);
        assert_eq!(again.ranks[0].pid, reports[0].ranks[0].pid);
        jobs.iter_mut().for_each(end);
    });
}

/// Tasks of an array are jobs of their own, and a job that was requeued is another run under the same id.
#[test]
fn tasks_of_arrays_and_requeued_jobs_are_told_apart() {
    let settings = |_: &Testbed| Settings { requeues_soon: true, ..Settings::default() };
    on_nodes("tasks_of_arrays_and_requeued_jobs_are_told_apart", 1, &settings, |site| {
        let script = format!("srun --mpi=pmi2 '{}' {}", particle(Mpi::Mpich).display(), ENDLESS.join(" "));
        let words = ["--parsable", "--requeue", "--ntasks=1", "--array=1-2", "--output=/dev/null", "--wrap", &script];
        let id = site.said("sbatch", &words);
        let tasks = [format!("{id}_1"), format!("{id}_2")];
        let reports = tasks.each_ref().map(|task| site.window_by_id(task, &|_| true));
        assert_ne!(reports[0].ranks[0].pid, reports[1].ranks[0].pid);
        assert_ne!(reports[0].job.id, reports[1].job.id);
        let both = site.trimtab(&["attach", "--slurm", &id]);
        assert!(both.code == 2 && both.stderr.contains("has 2 parts that run"), "{both:?}");
        requeued(site, &tasks[0], &reports[0]);
        site.said("scancel", &[&id]);
    });
}

/// One task of an array runs again: it is another run.
fn requeued(site: &Site<'_>, task: &str, before: &Report) {
    site.said("scontrol", &["requeue", task]);
    let state = || site.said("squeue", &["--noheader", "--format=%t", &format!("--jobs={task}")]);
    wait_for("it waits", || state() == "PD");
    let waits = site.trimtab(&["attach", "--slurm", task]);
    assert!(waits.code == 2 && waits.stderr.contains("is not running yet"), "{waits:?}");
    // Slurm lets a requeued job wait until the credential of its first run has expired: a run that is told to start sooner is
    // refused by the node, and has failed.
    let begun = Instant::now();
    loop {
        match &*state() {
            "R" => break,
            "PD" | "CF" => {}
            other => panic!("it did not run again: {other}"),
        }
        if begun.elapsed() > LIMIT {
            let reason = "Slurm kept a requeued job waiting. Next: look at `scontrol show job` for its reason";
            return skip("tasks_of_arrays_and_requeued_jobs_are_told_apart[requeued]", reason);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    let again = site.window_by_id(task, &|report| report.ranks[0].pid != before.ranks[0].pid);
    assert_ne!(again.job.id, before.job.id, "another run");
}

/// The plug-in in C: a step that `srun --trimtab=window` began is measured by itself, on all of its nodes.
#[test]
fn a_step_is_measured_by_the_plug_in() {
    const TEST: &str = "a_step_is_measured_by_the_plug_in";
    const NODES: usize = 3;
    if let Some(lack) = plug_in_lack() {
        return skip(TEST, &lack);
    }
    let settings = |testbed: &Testbed| Settings { plugins: plugstack_line(testbed), ..Settings::default() };
    on_nodes(TEST, NODES, &settings, |site| {
        let refused = site.slurm.command("srun").args(["--trimtab=always", "true"]).output().expect("srun runs");
        assert!(!refused.status.success(), "{refused:?}");
        step_by_plug_in(site, &[], &site.path(""));
        let home = make_user(site.testbed);
        let words = [format!("--uid={USER}"), format!("--gid={GROUP}"), format!("--chdir={}", home.display())];
        step_by_plug_in(site, &words, &home);
        whole_step_by_plug_in(site, &words, &home);
        tasks_do_not_wait_for_ever(site);
    });
}

/// A helper that never looks, and one that ends at once: the task begins ten seconds later, and without waiting.
fn tasks_do_not_wait_for_ever(site: &Site<'_>) {
    let binary = site.path("trimtab");
    fs::remove_file(&binary).expect("a link");
    for (name, text, least_s) in [("late", "exec sleep 30", 10.0), ("ended", "exit 1", 0.0)] {
        let script = site.path(&format!("{name}.sh"));
        fs::write(&script, format!("#!/bin/sh\n{text}\n")).expect("is written");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, everybody).expect("it is ours");
        let _earlier = fs::remove_file(&binary);
        std::os::unix::fs::symlink(&script, &binary).expect("a link");
        site.wait_for_free_nodes();
        let begun = Instant::now();
        let mut srun = site.slurm.command_on(NODE, "srun");
        srun.args(["-N1", "-n2", "--trimtab=window:--follow", "true"]).env("PWD", site.path(""));
        let status = srun.status().expect("srun runs");
        let seconds = begun.elapsed().as_secs_f64();
        assert!(status.success() && (least_s..least_s + 8.0).contains(&seconds), "{name}: {status} after {seconds} s");
    }
}

/// Every task waits where it comes out of `MPI_Init` until the window has begun on all nodes, so no call is missed.
fn whole_step_by_plug_in(site: &Site<'_>, words: &[String], folder: &Path) {
    let nodes = site.testbed.count();
    let (report, source, program) = (folder.join("whole.json"), site.path("early.c"), site.path("early"));
    fs::write(&source, include_str!("programs/early.c")).expect("is written");
    let built = Command::new("mpicc.openmpi").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("the compiler is there").success());
    let option = format!("--trimtab=window:--follow --json {}", report.display());
    let count = format!("-N{nodes}");
    let words: Vec<&str> = words.iter().map(String::as_str).chain([&*option, &*count]).collect();
    let mut srun = site.srun(&words, "pmix", nodes as u32, &program);
    srun.envs(VARIABLES).env("PWD", folder).env("HOME", folder);
    srun.env("XDG_DATA_HOME", folder.join("data")).env("XDG_STATE_HOME", folder.join("state"));
    let all: Vec<u32> = (0..nodes as u32).collect();
    let read = || serde_json::from_str::<Report>(&fs::read_to_string(&report).ok()?).ok();
    site.wait_for_free_nodes();
    assert!(srun.status().expect("srun runs").success(), "the program ends well");
    wait_for("a report", || read().is_some());
    let report = read().expect("waited for");
    // Tasks begin once each is looked at, so nobody comes too late to be held.
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    assert_eq!((from.ranks.as_slice(), from.missed.len()), (&all[..], 0), "{from:?}");
    let calls: Vec<(&str, u64)> = report.functions.iter().map(|row| (row.name.as_str(), row.calls_counted())).collect();
    let ranks = nodes as u64;
    for wanted in [("MPI_Allreduce", 300 * ranks), ("MPI_Barrier", 20 * ranks)] {
        assert!(calls.contains(&wanted), "{calls:?}");
    }
    assert!(calls.len() == 2 && report.window.valid, "{calls:?} {:?}", report.warnings);
}

/// All that trimtab said in a folder.
fn said_in(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trimtab-")));
    own.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Root's step or, with these words for `srun`, a user's, in a folder of theirs.
fn step_by_plug_in(site: &Site<'_>, words: &[String], folder: &Path) {
    let nodes = site.testbed.count();
    let report = folder.join("report.json");
    let option = format!("--trimtab=window:--iterations 5 --json {}", report.display());
    let count = format!("-N{nodes}");
    // A rank of Open MPI may fault while it connects to the others; those would wait for it, and so would we.
    let kill = "--kill-on-bad-exit=1";
    let words: Vec<&str> = words.iter().map(String::as_str).chain([&*option, &*count, kill]).collect();
    let mut srun = site.srun(&words, "pmix", nodes as u32, &particle(Mpi::OpenMpi));
    srun.envs(VARIABLES).env("PWD", folder).env("HOME", folder);
    srun.env("XDG_DATA_HOME", folder.join("data")).env("XDG_STATE_HOME", folder.join("state"));
    let read = || serde_json::from_str::<Report>(&fs::read_to_string(&report).ok()?).ok();
    let mut starts = 3;
    let mut job = loop {
        site.wait_for_free_nodes();
        let mut job = srun.spawn().expect("srun starts");
        wait_for("a report", || read().is_some() || job.try_wait().expect("ours").is_some());
        if read().is_some() {
            break job;
        }
        starts -= 1;
        let ended = job.wait().expect("ours");
        let has_faulted = ended.code() > Some(128) && said_in(folder).is_empty();
        assert!(has_faulted && starts > 0, "no report, {ended:?}: {}", said_in(folder));
        println!("started again, a rank faulted: {ended:?}");
    };
    let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).expect("it is there"));
    assert_eq!(owner(&report), owner(folder), "it is the user's own");
    let report = read().expect("waited for");
    assert!(report.window.valid && report.ranks.len() == nodes, "{:?} {:?}", report.window, report.warnings);
    for node in 1..=nodes {
        let name = site.testbed.name(node);
        let rank = report.ranks.iter().find(|rank| rank.host == name).expect("each node has a rank");
        let pid = site.testbed.outside(node, rank.pid).expect("it runs");
        threads_running(pid).expect("no thread is stopped");
        assert_eq!(owner(Path::new(&format!("/proc/{pid}"))), owner(folder), "whose step it is");
    }
    assert!(job.try_wait().expect("ours").is_none(), "the step runs on");
    let id = site.said("squeue", &["--noheader", "--states=R", "--format=%A"]);
    let said = fs::read_to_string(folder.join(format!("trimtab-{id}.0.txt"))).expect("what trimtab said");
    assert!(said.contains("all ranks recorded the same iterations"), "{said}");
    end(&mut job);
    wait_for("the step has ended", || site.said("squeue", &["--noheader", "--format=%A"]).is_empty());
}

/// The same ranks and the same job, asked for by Slurm's ids; and what is said of ids that do not run.
fn by_id(site: &Site<'_>, expected: &Report) {
    let id = site.said("squeue", &["--noheader", "--states=R", "--format=%A"]);
    for id in [id.clone(), format!("{id}.0")] {
        let report = site.window_by_id(&id, &|_| true);
        let pids = |report: &Report| report.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>();
        assert_eq!((pids(&report), &report.job.id), (pids(expected), &expected.job.id), "{id}");
    }
    for (id, reason) in [("4711", "Slurm knows no job 4711"), (&format!("{id}.9"), "has no running step 9")] {
        let said = site.trimtab(&["attach", "--slurm", id]);
        assert!(said.code == 2 && said.stderr.contains(reason), "{id}: {said:?}");
    }
}

fn particle(mpi: Mpi) -> PathBuf {
    let program = build("particle", Some(mpi), &Variant::default()).expect("it builds");
    program.canonicalize().expect("it is there")
}

/// The output of one command.
#[derive(Debug)]
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Nodes with a Slurm; commands run on the first.
struct Site<'a> {
    testbed: &'a Testbed,
    slurm: &'a Slurm<'a>,
}

impl Site<'_> {
    /// A file that all nodes see.
    fn path(&self, name: &str) -> PathBuf {
        self.testbed.folder().join(name)
    }

    /// A process of the first node, as this test sees it.
    fn outside(&self, pid: i32) -> i32 {
        self.testbed.outside(NODE, pid).expect("it runs on the node")
    }

    /// Slurm answers an srun that has to wait for its nodes to the user alone, and root runs this one.
    fn wait_for_free_nodes(&self) {
        wait_for("the nodes are free", || self.said("sinfo", &["--noheader", "--format=%T"]) == "idle");
    }

    /// `trimtab WORDS` on the first node.
    fn trimtab(&self, words: &[&str]) -> Said {
        let mut command = self.slurm.command_on(NODE, env!("CARGO_BIN_EXE_trimtab"));
        command.args(words).env("XDG_DATA_HOME", self.path("data")).env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CACHE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        // The test looks at the job until it ends.
        command.env("TRIMTAB_WATCHED_MS", "100");
        let output = command.output().expect("trimtab runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().expect("trimtab is not killed");
        Said { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The output of a command of Slurm's.
    fn said(&self, name: &str, words: &[&str]) -> String {
        let output = self.slurm.command(name).args(words).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn start_job(&self, plugin: &str, ranks: u32, program: &Path) -> Child {
        self.srun(&[], plugin, ranks, program).spawn().expect("srun starts")
    }

    fn srun(&self, options: &[&str], plugin: &str, ranks: u32, program: &Path) -> Command {
        let mut srun = self.slurm.command_on(NODE, "srun");
        srun.args(options).env("OMPI_MCA_mpi_yield_when_idle", "1");
        srun.arg("-n").arg(ranks.to_string()).arg(format!("--mpi={plugin}")).arg(program);
        srun.args(ENDLESS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        srun
    }

    /// A valid window of all ranks of the job that `srun` runs, as soon as they are in their main loop.
    fn window(&self, job: &mut Child, plugin: &str, ranks: u32) -> Report {
        let deadline = Instant::now() + LIMIT;
        loop {
            // The process that we started enters the node; srun is its child.
            let srun = children_of(job.id()).first().and_then(|pid| Testbed::inside(*pid)).unwrap_or(0).to_string();
            let said = self.trimtab(&["attach", "--json", "-", "--iterations", "10", &srun]);
            match serde_json::from_str::<Report>(&said.stdout) {
                Ok(report) if said.code == 0 && report.ranks.len() == ranks as usize => {
                    let window = &report.window;
                    assert!(window.valid && window.iterations == Some(10), "{plugin}: {window:?}");
                    return report;
                }
                // Slurm starts the tasks after a moment, one after another.
                _ => assert!(Instant::now() < deadline, "{plugin}: {said:?}"),
            }
            assert!(job.try_wait().expect("waits").is_none(), "{plugin}: srun has ended");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A valid window of a job by Slurm's id, as soon as one is had that is `wanted`.
    fn window_by_id(&self, id: &str, wanted: &dyn Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = self.trimtab(&["attach", "--json", "-", "--iterations", "5", "--slurm", id]);
            match serde_json::from_str(&said.stdout) {
                Ok(report) if said.code == 0 && wanted(&report) => return report,
                _ => assert!(Instant::now() < deadline, "{id}: {said:?}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Ends what we started on a node as a person would, and if it does not listen, without asking.
fn end(child: &mut Child) {
    for pid in children_of(child.id()) {
        let _ = Command::new("kill").arg(pid.to_string()).status();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
