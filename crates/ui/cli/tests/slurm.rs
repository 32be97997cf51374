//! A job of a real Slurm, all of it on this machine: `trimtab attach` by the process id of `srun`, and by Slurm's job id.
//!
//! The tasks are no children of `srun` but of Slurm's daemon, so they are found by what Slurm tells them.
//!
//! Next: `loops.rs` for windows of the launchers of the MPI libraries.

mod common;

use common::{Desk, LIMIT, RANKS, alone};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trimtab_specimens::{Mpi, TextSnapshot, Variant, build, skip, threads_running};

const TOOLS: [&str; 4] = ["munged", "slurmctld", "slurmd", "srun"];
/// Of the node, as Slurm is told: for two jobs, and an array's tasks.
const CPUS: u32 = 4;
const PACKAGES: &str = "munge slurmctld slurmd slurm-client";

/// Slurm's daemons, or the reason why they can't be had, said.
fn slurm(test: &str) -> Option<Slurm> {
    let paths = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(Path::new);
    let missing = TOOLS.iter().find(|tool| !paths.iter().any(|path| path.join(tool).exists()));
    let reason = match missing {
        Some(tool) => format!("there is no {tool}; apt-get install {PACKAGES}"),
        None if fs::read_dir("/root").is_err() => "Slurm's daemons need root; run it as root".to_owned(),
        None => return Some(Slurm::start()),
    };
    skip(test, &reason);
    None
}

#[test]
fn a_job_is_found_from_srun() {
    let _alone = alone();
    let Some(slurm) = slurm("a_job_is_found_from_srun") else { return };
    for (mpi, plugin) in [(Mpi::Mpich, "pmi2"), (Mpi::OpenMpi, "pmix")] {
        let program = build("particle", Some(mpi), &Variant::default()).expect("it builds");
        let desk = Desk::new();
        let mut job = slurm.start_job(plugin, RANKS, &program);
        let report = window(&desk, &mut job, plugin, RANKS);
        let pids: Vec<i32> = report.ranks.iter().map(|rank| rank.pid).collect();
        let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("a rank's text")).collect();
        let again = window(&desk, &mut job, plugin, RANKS);
        assert_eq!(again.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>(), pids, "{plugin}: the same ranks");
        assert_eq!(again.job.id, report.job.id, "{plugin}: the same job");
        for (pid, text) in pids.iter().zip(before) {
            assert_eq!(text.difference_now().expect("it runs"), None, "{plugin}: restored");
            threads_running(*pid).expect("no thread is stopped");
        }
        by_id(&slurm, &desk, &report);
        end(&mut job);
        wait_for(plugin, || pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    }
}

/// Two jobs at the same time: each `srun` leads to its own ranks.
#[test]
fn two_jobs_of_one_program_are_told_apart() {
    let _alone = alone();
    let Some(slurm) = slurm("two_jobs_of_one_program_are_told_apart") else { return };
    let (desk, program) = (Desk::new(), build("particle", Some(Mpi::Mpich), &Variant::default()).expect("it builds"));
    let mut jobs = [slurm.start_job("pmi2", 1, &program), slurm.start_job("pmi2", 1, &program)];
    let reports = jobs.each_mut().map(|job| window(&desk, job, "pmi2", 1));
    assert_ne!(reports[0].ranks[0].pid, reports[1].ranks[0].pid);
    assert_ne!(reports[0].job.id, reports[1].job.id);
    let again = window(&desk, &mut jobs[0], "pmi2", 1);
    assert_eq!(again.ranks[0].pid, reports[0].ranks[0].pid);
    jobs.iter_mut().for_each(end);
}

/// Tasks of an array are jobs of their own, and a job that was requeued is another run under the same id.
#[test]
fn tasks_of_arrays_and_requeued_jobs_are_told_apart() {
    let _alone = alone();
    let Some(slurm) = slurm("tasks_of_arrays_and_requeued_jobs_are_told_apart") else { return };
    let (desk, program) = (Desk::new(), build("particle", Some(Mpi::Mpich), &Variant::default()).expect("it builds"));
    let script = format!("srun --mpi=pmi2 {} --iterations 100000000", program.display());
    let words = ["--parsable", "--requeue", "--ntasks=1", "--array=1-2", "--output=/dev/null", "--wrap", &script];
    let id = slurm.said("sbatch", &words);
    let tasks = [format!("{id}_1"), format!("{id}_2")];
    let reports = tasks.each_ref().map(|task| window_by_id(&slurm, &desk, task, &|_| true));
    assert_ne!(reports[0].ranks[0].pid, reports[1].ranks[0].pid);
    assert_ne!(reports[0].job.id, reports[1].job.id);
    let both = desk.trimtab_with(&slurm.variable(), &["attach", "--slurm", &id]);
    assert!(both.code == 2 && both.stderr.contains("has 2 parts that run"), "{both:?}");

    slurm.said("scontrol", &["requeue", &tasks[0]]);
    let state = || slurm.said("squeue", &["--noheader", "--format=%t", &format!("--jobs={}", tasks[0])]);
    wait_for("it waits", || state() == "PD");
    let waits = desk.trimtab_with(&slurm.variable(), &["attach", "--slurm", &tasks[0]]);
    assert!(waits.code == 2 && waits.stderr.contains("is not running yet"), "{waits:?}");
    // Slurm lets a requeued job wait for two minutes, so that a broken node is not chosen again: from when its first run
    // has ended entirely. That is undone now and then; if Slurm insists, the two minutes pass.
    let at_once = ["update", &format!("jobid={}", tasks[0]), "StartTime=now"];
    let begun = Instant::now();
    while state() != "R" {
        if begun.elapsed() > LIMIT {
            let reason = "Slurm kept a requeued job waiting. Next: look at `scontrol show job` for its reason";
            return skip("tasks_of_arrays_and_requeued_jobs_are_told_apart[requeued]", reason);
        }
        slurm.command("scontrol").args(at_once).output().expect("scontrol runs");
        std::thread::sleep(Duration::from_secs(3));
    }
    let again = window_by_id(&slurm, &desk, &tasks[0], &|report| report.ranks[0].pid != reports[0].ranks[0].pid);
    assert_ne!(again.job.id, reports[0].job.id, "another run");
    slurm.said("scancel", &[&id]);
    wait_for("they end", || !Path::new(&format!("/proc/{}", again.ranks[0].pid)).exists());
}

/// The plug-in in C: a step that `srun --trimtab=window` began is measured by itself.
#[test]
fn a_step_is_measured_by_the_plug_in() {
    const TEST: &str = "a_step_is_measured_by_the_plug_in";
    const HEADER: &str = "/usr/include/slurm/spank.h";
    let _alone = alone();
    if !Path::new(HEADER).exists() {
        return skip(TEST, &format!("there is no {HEADER}; apt-get install libslurm-dev"));
    }
    let Some(slurm) = slurm(TEST) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spank/trimtab_spank.c");
    let library = slurm.path("trimtab_spank.so");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("gcc runs").success());
    let line = format!("optional {} binary={}\n", library.display(), env!("CARGO_BIN_EXE_trimtab"));
    fs::write(slurm.path("plugstack.conf"), line).expect("writes");
    let refused = slurm.command("srun").args(["--trimtab=always", "true"]).output().expect("srun runs");
    assert!(!refused.status.success(), "{refused:?}");

    let (desk, program) = (Desk::new(), build("particle", Some(Mpi::Mpich), &Variant::default()).expect("it builds"));
    let report = desk.path("report.json");
    let option = format!("--trimtab=window:--iterations 5 --json {}", report.display());
    let mut srun = slurm.srun(&[&option], "pmi2", RANKS, &program);
    srun.current_dir(desk.path("")).env("PWD", desk.path("")).env("XDG_DATA_HOME", desk.path("data"));
    let mut job = srun.spawn().expect("srun starts");
    let read = || serde_json::from_str::<trimtab_types::report::Report>(&fs::read_to_string(&report).ok()?).ok();
    wait_for("a report", || read().is_some());
    let report = read().expect("waited for");
    assert!(report.window.valid && report.ranks.len() == RANKS as usize, "{:?}", report.window);
    for rank in &report.ranks {
        threads_running(rank.pid).expect("no thread is stopped");
    }
    assert!(job.try_wait().expect("ours").is_none(), "the step runs on");
    let id = slurm.said("squeue", &["--noheader", "--states=R", "--format=%A"]);
    let said = fs::read_to_string(desk.path(&format!("trimtab-{id}.0.txt"))).expect("what trimtab said");
    assert!(said.contains("all ranks recorded the same iterations"), "{said}");
    end(&mut job);
}

/// A valid window of a job by Slurm's id, as soon as one is had that is `wanted`.
fn window_by_id(
    slurm: &Slurm,
    desk: &Desk,
    id: &str,
    wanted: &dyn Fn(&trimtab_types::report::Report) -> bool,
) -> trimtab_types::report::Report {
    let deadline = Instant::now() + LIMIT;
    loop {
        let words = ["attach", "--json", "-", "--iterations", "5", "--slurm", id];
        let said = desk.trimtab_with(&slurm.variable(), &words);
        match serde_json::from_str(&said.stdout) {
            Ok(report) if said.code == 0 && wanted(&report) => return report,
            _ => assert!(Instant::now() < deadline, "{id}: {said:?}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The same ranks and the same job, asked for by Slurm's ids; and what is said of ids that do not run.
fn by_id(slurm: &Slurm, desk: &Desk, expected: &trimtab_types::report::Report) {
    let id = slurm.said("squeue", &["--noheader", "--states=R", "--format=%A"]);
    for id in [id.clone(), format!("{id}.0")] {
        let report = window_by_id(slurm, desk, &id, &|_| true);
        let pids =
            |report: &trimtab_types::report::Report| report.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>();
        assert_eq!((pids(&report), &report.job.id), (pids(expected), &expected.job.id), "{id}");
    }
    for (id, reason) in [("4711", "Slurm knows no job 4711"), (&format!("{id}.9"), "has no running step 9")] {
        let said = desk.trimtab_with(&slurm.variable(), &["attach", "--slurm", id]);
        assert!(said.code == 2 && said.stderr.contains(reason), "{id}: {said:?}");
    }
}

/// A valid window of all ranks, as soon as they are in their main loop.
fn window(desk: &Desk, job: &mut Child, plugin: &str, ranks: u32) -> trimtab_types::report::Report {
    let deadline = Instant::now() + LIMIT;
    loop {
        let pid = i32::try_from(job.id()).expect("a process id");
        match desk.attach(pid, "--iterations 10") {
            Ok((0, report)) if report.ranks.len() == ranks as usize => {
                assert!(report.window.valid && report.window.iterations == Some(10), "{plugin}: {:?}", report.window);
                return report;
            }
            // Slurm starts the tasks after a moment, one after another.
            other => assert!(Instant::now() < deadline, "{plugin}: {other:?}"),
        }
        assert!(job.try_wait().expect("waits").is_none(), "{plugin}: srun has ended");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A controller and one node, which this machine is.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start() -> Slurm {
        let folder = tempfile::tempdir().expect("a folder of its own");
        let mut slurm = Slurm { folder, daemons: vec![] };
        for name in ["state", "spool"] {
            fs::create_dir(slurm.path(name)).expect("a folder");
        }
        let key: Vec<u8> = (0..1024u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(slurm.path("munge.key"), key).expect("writes the key");
        fs::write(slurm.path("plugstack.conf"), "").expect("writes");
        fs::write(slurm.path("slurm.conf"), slurm.configuration()).expect("writes the configuration");
        set_mode(&slurm.path("munge.key"), 0o600);
        let munged = slurm.munged();
        slurm.daemon(munged);
        wait_for("munged", || slurm.path("munge.sock").exists());
        let mut controller = Command::new("slurmctld");
        controller.args(["-D", "-c"]);
        slurm.daemon(controller);
        let mut node = Command::new("slurmd");
        node.args(["-D", "-N", &host()]);
        slurm.daemon(node);
        let idle = || {
            let said = slurm.command("sinfo").args(["--noheader", "--format=%t"]).output().expect("sinfo runs");
            String::from_utf8_lossy(&said.stdout).trim() == "idle"
        };
        wait_for("an idle node", idle);
        slurm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn munged(&self) -> Command {
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.sock"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.arg(format!("{option}={}", self.path(name).display()));
        }
        munged
    }

    fn configuration(&self) -> String {
        let (host, folder) = (host(), self.folder.path().display());
        format!(
            "ClusterName=one\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\nSlurmUser=root\n\
             SlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock,cred_expire=5\nCredType=cred/munge\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/ctld.pid\n\
             SlurmdPidFile={folder}/slurmd.pid\nSlurmctldLogFile={folder}/ctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\n\
             SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1\nReturnToService=2\nKillWait=5\n\
             MpiDefault=none\nPlugStackConfig={folder}/plugstack.conf\nSlurmdParameters=config_overrides\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory=100 State=UNKNOWN\n\
             PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            free_port(),
            free_port()
        )
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    fn variable(&self) -> [(&'static str, PathBuf); 1] {
        [("SLURM_CONF", self.path("slurm.conf"))]
    }

    fn said(&self, name: &str, words: &[&str]) -> String {
        let output = self.command(name).args(words).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn daemon(&mut self, mut command: Command) {
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().expect("a daemon starts"));
    }

    fn start_job(&self, plugin: &str, ranks: u32, program: &Path) -> Child {
        self.srun(&[], plugin, ranks, program).spawn().expect("srun starts")
    }

    fn srun(&self, options: &[&str], plugin: &str, ranks: u32, program: &Path) -> Command {
        let mut srun = self.command("srun");
        srun.args(options);
        srun.arg("-n").arg(ranks.to_string()).arg(format!("--mpi={plugin}")).arg(program);
        srun.args(["--iterations", "100000000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        srun
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What runs would outlive the daemons, also when a test fails.
        self.said("scancel", &["--user=root", "--signal=KILL", "--full"]);
        self.said("scancel", &["--user=root"]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.said("squeue", &["--noheader"]).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        // The node first: it ends what is left of a job.
        for daemon in self.daemons.iter_mut().rev() {
            end(daemon);
        }
    }
}

/// Ends a process of ours as a person would, and if it does not listen, without asking.
fn end(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let deadline = Instant::now() + Duration::from_secs(20);
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets the mode");
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
