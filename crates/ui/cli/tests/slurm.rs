//! A job of a real Slurm, all of it on this machine: `trimtab attach` by the process id of `srun`.
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

const TEST: &str = "a_job_is_found_from_srun";
const TOOLS: [&str; 4] = ["munged", "slurmctld", "slurmd", "srun"];
const PACKAGES: &str = "munge slurmctld slurmd slurm-client";

#[test]
fn a_job_is_found_from_srun() {
    let _alone = alone();
    let paths = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(Path::new);
    if let Some(tool) = TOOLS.iter().find(|tool| !paths.iter().any(|path| path.join(tool).exists())) {
        return skip(TEST, &format!("there is no {tool}; apt-get install {PACKAGES}"));
    }
    if fs::read_dir("/root").is_err() {
        return skip(TEST, "Slurm's daemons need root; run it as root");
    }
    let slurm = Slurm::start();
    for (mpi, plugin) in [(Mpi::Mpich, "pmi2"), (Mpi::OpenMpi, "pmix")] {
        let program = build("particle", Some(mpi), &Variant::default()).expect("it builds");
        let desk = Desk::new();
        let mut job = slurm.start_job(plugin, &program);
        let report = window(&desk, &mut job, plugin);
        let pids: Vec<i32> = report.ranks.iter().map(|rank| rank.pid).collect();
        let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("a rank's text")).collect();
        let again = window(&desk, &mut job, plugin);
        assert_eq!(again.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>(), pids, "{plugin}: the same ranks");
        assert_eq!(again.job.id, report.job.id, "{plugin}: the same job");
        for (pid, text) in pids.iter().zip(before) {
            assert_eq!(text.difference_now().expect("it runs"), None, "{plugin}: restored");
            threads_running(*pid).expect("no thread is stopped");
        }
        end(&mut job);
        wait_for(plugin, || pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    }
}

/// A valid window of all ranks, as soon as they are in their main loop.
fn window(desk: &Desk, job: &mut Child, plugin: &str) -> trimtab_types::report::Report {
    let deadline = Instant::now() + LIMIT;
    loop {
        let pid = i32::try_from(job.id()).expect("a process id");
        match desk.attach(pid, "--iterations 10") {
            Ok((0, report)) if report.ranks.len() == RANKS as usize => {
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
             SlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\nCredType=cred/munge\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/ctld.pid\n\
             SlurmdPidFile={folder}/slurmd.pid\nSlurmctldLogFile={folder}/ctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\nReturnToService=2\nKillWait=5\n\
             MpiDefault=none\nPlugStackConfig={folder}/plugstack.conf\nSlurmdParameters=config_overrides\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs={RANKS} RealMemory=100 State=UNKNOWN\n\
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

    fn daemon(&mut self, mut command: Command) {
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().expect("a daemon starts"));
    }

    fn start_job(&self, plugin: &str, program: &Path) -> Child {
        let mut srun = self.command("srun");
        srun.arg("-n").arg(RANKS.to_string()).arg(format!("--mpi={plugin}")).arg(program);
        srun.args(["--iterations", "100000000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        srun.spawn().expect("srun starts")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
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
