//! Shared by tests on several nodes: the nodes with a Slurm, a job on them, `trimtab` on the head.
//!
//! Next: `cluster.rs` for windows, `jobs.rs` for all other commands, `site.rs` for standing agents.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
pub use trimtab_specimens::wait_for;
use trimtab_specimens::{Mpi, TextSnapshot, Variant, build, has_worked, running, threads_running};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::Report;

/// Longer than anything here takes on a loaded machine; no test measures against it.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Times that a job is started whose ranks fault before anything is done to them.
const STARTS_MAX: u32 = 3;

/// How Open MPI's ranks find each other on the nodes, and leave the processors to others while they wait.
pub const VARIABLES: [(&str, &str); 4] = [
    ("OMPI_MCA_pml", "ob1"),
    ("OMPI_MCA_btl", "tcp,self"),
    ("OMPI_MCA_btl_tcp_if_include", "10.77.0.0/24"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// A user whose job is measured, in the group `nogroup`.
pub const USER: u32 = 4242;
pub const GROUP: u32 = 65534;

/// Makes that user known on all nodes; the home is a folder of the testbed's.
pub fn make_user(testbed: &Testbed) -> PathBuf {
    let home = testbed.folder().join("home");
    fs::create_dir(&home).expect("a home");
    std::os::unix::fs::chown(&home, Some(USER), Some(GROUP)).expect("the user's home");
    let known = fs::read_to_string("/etc/passwd").expect("the host's users");
    let users = testbed.folder().join("passwd");
    fs::write(&users, format!("{known}tester:x:{USER}:{GROUP}::{}:/bin/sh\n", home.display())).expect("users");
    for node in 0..=testbed.count() {
        let mut mount = testbed.on(node, "mount");
        let mounted = mount.arg("--bind").arg(&users).arg("/etc/passwd").status().expect("mount runs");
        assert!(mounted.success(), "node {node} has its users");
    }
    home
}

/// Why Slurm's plug-in can't be built here; `None`: it can.
pub fn plug_in_lack() -> Option<String> {
    const HEADER: &str = "/usr/include/slurm/spank.h";
    (!Path::new(HEADER).exists()).then(|| format!("there is no {HEADER}; apt-get install libslurm-dev"))
}

/// The plug-in, built, and its line for Slurm, which ends a path at its first blank: so the library and the way to `trimtab`
/// lie with the nodes' files.
pub fn plugstack_line(testbed: &Testbed) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spank/trimtab_spank.c");
    let (library, binary) = (testbed.folder().join("trimtab_spank.so"), testbed.folder().join("trimtab"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("gcc runs").success());
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trimtab"), &binary).expect("a link");
    format!("optional {} binary={}\n", library.display(), binary.display())
}

/// Nodes with a Slurm.
pub struct Cluster<'a> {
    pub testbed: &'a Testbed,
    pub slurm: &'a Slurm<'a>,
}

/// A window whose report is not there yet.
pub struct Window {
    lead: Child,
    file: PathBuf,
}

impl Window {
    /// Exit code and report.
    pub fn end(mut self) -> (Option<i32>, Report) {
        let code = self.lead.wait().expect("it ends").code();
        let text = fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("no report ({error}), code {code:?}"));
        (code, serde_json::from_str(&text).expect("a report"))
    }
}

/// A job that runs.
pub struct Job {
    pub id: String,
    pub srun: Child,
    pub ranks: Vec<Rank>,
}

/// One of its processes, as this namespace sees it.
pub struct Rank {
    pub pid: i32,
    pub text: TextSnapshot,
}

impl Cluster<'_> {
    pub fn folder(&self, name: &str) -> PathBuf {
        self.testbed.folder().join(name)
    }

    /// `trimtab` on the head.
    pub fn trimtab(&self, words: &[&str]) -> Command {
        self.trimtab_on(0, words)
    }

    /// `trimtab` on a node.
    pub fn trimtab_on(&self, node: usize, words: &[&str]) -> Command {
        let mut command = self.command_on(node, env!("CARGO_BIN_EXE_trimtab"));
        command.args(words);
        command
    }

    /// `trimtab` on the head below `timeout`, which ends it after so many seconds.
    pub fn trimtab_within(&self, seconds: u32, words: &[&str]) -> Command {
        let mut command = self.command_on(0, "timeout");
        command.arg(seconds.to_string()).arg(env!("CARGO_BIN_EXE_trimtab")).args(words);
        command
    }

    /// A command with this cluster's Slurm and folders.
    fn command_on(&self, node: usize, program: &str) -> Command {
        let mut command = self.slurm.command_on(node, program);
        command.env("XDG_DATA_HOME", self.folder("data")).env("XDG_STATE_HOME", self.folder("state"));
        command.env("XDG_CACHE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command
    }

    /// One window, which must have a report.
    pub fn window(&self, words: &[&str]) -> Report {
        self.window_on(0, words)
    }

    /// The same from a node.
    pub fn window_on(&self, node: usize, words: &[&str]) -> Report {
        let output: Output = self.trimtab_on(node, words).args(["--json", "-"]).output().expect("it runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {:?} {out} {err}", output.status))
    }

    /// A window that takes a while.
    pub fn begin_window(&self, words: &[&str]) -> Window {
        let file = self.folder("window.json");
        let mut command = self.trimtab(words);
        command.arg("--json").arg(&file).stdout(Stdio::null()).stderr(Stdio::inherit());
        let _earlier = fs::remove_file(&file);
        Window { lead: command.spawn().expect("it starts"), file }
    }

    /// A specimen with one rank on each node, at work.
    pub fn start(&self, name: &str, options: &[&str]) -> Job {
        self.start_as(&[], name, options)
    }

    /// The same with further words for `srun`.
    pub fn start_as(&self, words: &[&str], name: &str, options: &[&str]) -> Job {
        let program = specimen(name);
        self.at_work(&program, || self.srun(&program, words, options).spawn().expect("srun starts"))
    }

    /// `srun` of a program with one rank on each node; it speaks into a file.
    pub fn srun(&self, program: &Path, words: &[&str], options: &[&str]) -> Command {
        let mut srun = self.slurm.command("srun");
        srun.args(words).args(self.srun_words(program, options));
        srun.envs(VARIABLES);
        let log = fs::File::create(self.folder("srun.log")).expect("a log");
        srun.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        srun
    }

    /// The words behind `srun` for that.
    pub fn srun_words(&self, program: &Path, options: &[&str]) -> Vec<String> {
        let own = [format!("-N{}", self.testbed.count()), "--mpi=pmix".to_owned(), program.display().to_string()];
        own.into_iter().chain(options.iter().map(|option| (*option).to_owned())).collect()
    }

    /// A job, once all of its ranks are at work; `start` runs `srun`. Nothing is attached to it yet, and now and then a rank of
    /// Open MPI's faults on a loaded machine while it connects to the others: then it is started again, which is said.
    pub fn at_work(&self, program: &Path, start: impl Fn() -> Child) -> Job {
        for _ in 1..STARTS_MAX {
            match self.try_at_work(start(), program) {
                Ok(job) => return job,
                Err(said) if said.contains("received signal") => println!("started again, a rank faulted: {said}"),
                Err(said) => panic!("{said}"),
            }
            let _id = self.slurm.command("scancel").arg("--full").arg(self.job_id()).status();
            wait_for("the nodes to be free", || on_nodes(program).is_empty() && self.job_id().is_empty());
        }
        self.try_at_work(start(), program).unwrap_or_else(|said| panic!("{said}"))
    }

    fn try_at_work(&self, srun: Child, program: &Path) -> Result<Job, String> {
        let nodes = self.testbed.count();
        let mut job = Job { id: String::new(), srun, ranks: Vec::new() };
        let deadline = Instant::now() + LIMIT;
        loop {
            let (pids, said) = (on_nodes(program), fs::read_to_string(self.folder("srun.log")).unwrap_or_default());
            if !matches!(job.srun.try_wait(), Ok(None)) {
                return Err(format!("srun has ended: {said}"));
            }
            if pids.len() == nodes && pids.iter().all(|pid| has_worked(*pid)) {
                break;
            }
            if said.contains("received signal") || Instant::now() >= deadline {
                return Err(format!("not all of {nodes} ranks are at work: {pids:?}; srun says: {said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let rank = |pid: i32| Rank { pid, text: TextSnapshot::of(pid).expect("a rank's text") };
        job.id = self.job_id();
        job.ranks = on_nodes(program).into_iter().map(rank).collect();
        Ok(job)
    }

    /// The id of the job that runs.
    pub fn job_id(&self) -> String {
        let said = self.slurm.command("squeue").args(["--noheader", "--format=%i"]).output().expect("squeue runs");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }
}

/// A specimen whose ranks talk over the nodes' network.
pub fn specimen(name: &str) -> PathBuf {
    let program = build(name, Some(Mpi::OpenMpi), &Variant::default()).expect("it builds");
    program.canonicalize().expect("it is there")
}

impl Rank {
    pub fn is_untouched(&self) -> bool {
        self.text.difference_now().expect("it runs").is_none()
    }
}

impl Job {
    pub fn check_untouched(&self) {
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

/// Agents of windows, on any node.
pub fn agents() -> Vec<i32> {
    with_words(b"\0agent\0--t")
}

/// The processes that stand beside agents.
pub fn guards() -> Vec<i32> {
    with_words(b"trimtab\0guard\0")
}

/// Processes of a program on nodes of this test: others beside it run the same programs, here and on nodes of their own.
pub fn on_nodes(program: &Path) -> Vec<i32> {
    running(program).into_iter().filter(|pid| Testbed::is_on_nodes(*pid)).collect()
}

fn with_words(wanted: &[u8]) -> Vec<i32> {
    let own = Path::new(env!("CARGO_BIN_EXE_trimtab"));
    let has = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.windows(wanted.len()).any(|part| part == wanted))
    };
    on_nodes(own).into_iter().filter(has).collect()
}

pub fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

pub fn kill(pid: i32) {
    signal(pid, "KILL");
}

pub fn signal(pid: i32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{name} to {pid}");
}

pub fn children_of(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
