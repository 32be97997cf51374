//! Finds real jobs of the installed MPIs, from every process of theirs, and ends them by pid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_mpi::Family;
use trimtab_track::{Error, Job, ProcFs, Processes, find_job, maps};
use trimtab_types::{Pid, Rank};

/// Waits in a barrier for ever; rank 1 also has a child that inherits its environment.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pid_t helper = 0;
    if (rank == 1) {
        helper = fork();
        if (helper == 0) {
            pid_t parent = getppid();
            while (getppid() == parent) usleep(10000);
            _exit(0);
        }
    }
    for (;;) { usleep(1000); MPI_Barrier(MPI_COMM_WORLD); }
}
"#;

/// A pid starts, or a job forms: generous, because other builds share the machine. Failing is the only effect.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
struct Mpi {
    compiler: &'static str,
    launch: &'static [&'static str],
    family: Family,
    /// The library that a preloaded tool brings with it.
    library: &'static str,
}

const MPIS: [Mpi; 2] = [
    Mpi { compiler: "mpicc.mpich", launch: &["mpiexec.mpich"], family: Family::Mpich, library: "libmpich.so.12" },
    Mpi {
        compiler: "mpicc.openmpi",
        launch: &["mpirun.openmpi", "--oversubscribe"],
        family: Family::OpenMpi,
        library: "libmpi.so.40",
    },
];

fn installed() -> Vec<Mpi> {
    let present = |mpi: &Mpi| {
        let found =
            [mpi.compiler, mpi.launch[0]].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
        if !found {
            eprintln!("SKIPPED: {} or {} is not installed; its jobs are not tested", mpi.compiler, mpi.launch[0]);
        }
        found
    };
    MPIS.into_iter().filter(present).collect()
}

/// A process group of one test, ended with it.
struct Started {
    child: Child,
    pids: BTreeSet<i32>,
}

impl Started {
    fn start(command: &mut Command) -> Started {
        let root = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
        let child = command.envs(root).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("start the job");
        Started { child, pids: BTreeSet::new() }
    }

    fn pid(&self) -> Pid {
        Pid(i32::try_from(self.child.id()).expect("a pid"))
    }

    /// The job of `pid`, once all of its ranks are there.
    fn wait_for_job(&mut self, pid: Pid, ranks: usize) -> Job {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = find_job(pid);
            match &found {
                Ok(job) if job.ranks.len() == ranks && has_helper(job) => {
                    self.pids.extend(job.ranks.iter().map(|process| process.pid.0));
                    return job.clone();
                }
                Ok(_) => {}
                Err(error) => assert!(is_starting(error), "{error}"),
            }
            assert!(Instant::now() < deadline, "no job within {PATIENCE:?}: {found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Until the programs have loaded MPI nothing distinguishes the tree from others, and processes come and go.
fn is_starting(error: &Error) -> bool {
    error.is_retryable() || matches!(error, Error::NotMpi { .. } | Error::NoSuchProcess { .. })
}

/// True if rank 1 (if there is one) has made its child, which must not be taken for a rank.
fn has_helper(job: &Job) -> bool {
    let Some(process) = job.ranks.iter().find(|process| process.rank == Rank(1)) else { return true };
    let processes = ProcFs::new();
    let pids = processes.pids().expect("pids");
    pids.into_iter().any(|pid| processes.stat(pid).is_ok_and(|stat| stat.parent == process.pid))
}

impl Drop for Started {
    fn drop(&mut self) {
        let launcher = self.child.id().to_string();
        let mut words = vec!["-KILL".to_owned(), launcher];
        words.extend(self.pids.iter().map(i32::to_string));
        let _ = Command::new("kill").args(words).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

fn build(mpi: Mpi, label: &str) -> PathBuf {
    let directory =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{label}-{}-{}", mpi.compiler, std::process::id()));
    std::fs::create_dir_all(&directory).expect("a scratch folder");
    let (source, program) = (directory.join("waits.c"), directory.join("waits"));
    std::fs::write(&source, PROGRAM).expect("write the source");
    let status = Command::new(mpi.compiler).arg(&source).arg("-o").arg(&program).status().expect("compile");
    assert!(status.success(), "{} failed", mpi.compiler);
    program
}

fn remove(program: &Path) {
    if let Some(directory) = program.parent() {
        let _ = std::fs::remove_dir_all(directory);
    }
}

fn launch(mpi: Mpi, program: &Path) -> Command {
    let mut command = Command::new(mpi.launch[0]);
    command.args(&mpi.launch[1..]).args(["-n", "2"]).arg(program).args(["--name", "two words"]);
    command
}

#[test]
fn a_job_is_found_from_its_launcher_and_from_each_rank() {
    for mpi in installed() {
        let program = build(mpi, "job");
        let mut started = Started::start(&mut launch(mpi, &program));
        let launcher = started.pid();
        let job = started.wait_for_job(launcher, 2);
        check_job(&job, launcher, mpi, &program);
        for process in &job.ranks {
            let again = find_job(process.pid).expect("the job of a rank");
            assert_eq!(pids(&again), pids(&job), "{}: asked for rank {}", mpi.compiler, process.rank);
            assert_eq!((again.launcher, again.key), (job.launcher, job.key.clone()));
            check_maps(process.pid, &program);
        }
        remove(&program);
    }
}

/// The launcher, what it starts on its machine, and `timeout` around each rank have the library in memory too.
#[test]
fn a_launcher_with_an_mpi_library_in_memory_is_not_the_job() {
    for mpi in installed() {
        let program = build(mpi, "preloaded");
        let mut command = Command::new(mpi.launch[0]);
        command.args(&mpi.launch[1..]).args(["-n", "2", "timeout", "600"]).arg(&program);
        let mut started = Started::start(command.env("LD_PRELOAD", mpi.library));
        let launcher = started.pid();
        let deadline = Instant::now() + PATIENCE;
        let job = loop {
            // Before its ranks have called MPI_Init, too, it is none.
            match find_job(launcher) {
                Ok(job) if job.ranks.len() == 2 => break job,
                Ok(job) => assert!(job.ranks.iter().all(|rank| rank.executable == program), "{job:?}"),
                Err(error) => assert!(is_starting(&error), "{error}"),
            }
            assert!(Instant::now() < deadline, "no job within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        };
        started.pids.extend(job.ranks.iter().map(|process| process.pid.0));
        assert!(job.ranks.iter().all(|rank| rank.executable == program), "{job:?}");
        assert_eq!((job.launcher, job.size), (Some(launcher), Some(2)), "{}", mpi.compiler);
        let processes = ProcFs::new();
        let shell = processes.stat(job.ranks[1].pid).expect("a rank").parent;
        assert_eq!(processes.stat(shell).expect("a parent").command, "timeout");
        assert_eq!(pids(&find_job(shell).expect("the job of what is around a rank")), pids(&job));
        let alone = Started::start(Command::new("sleep").arg("600").env("LD_PRELOAD", mpi.library));
        let refused = loop {
            match find_job(alone.pid()) {
                Err(Error::NotMpi { seen, .. }) if seen.contains("has an MPI library in memory") => break true,
                Err(error) => assert!(is_starting(&error), "{error}"),
                Ok(job) => panic!("sleep is no rank: {job:?}"),
            }
            assert!(Instant::now() < deadline, "it has loaded nothing within {PATIENCE:?}");
        };
        assert!(refused);
        remove(&program);
    }
}

fn pids(job: &Job) -> Vec<(Rank, Pid)> {
    job.ranks.iter().map(|process| (process.rank, process.pid)).collect()
}

fn check_job(job: &Job, launcher: Pid, mpi: Mpi, program: &Path) {
    assert_eq!(job.launcher, Some(launcher));
    assert_eq!(job.size, Some(2));
    assert!(job.is_complete() && job.other_worlds.is_empty());
    assert_eq!(job.ranks.iter().map(|process| process.rank.0).collect::<Vec<_>>(), [0, 1]);
    for process in &job.ranks {
        assert_eq!(process.executable, program);
        assert_eq!(process.arguments, [program.to_string_lossy().as_ref(), "--name", "two words"]);
        assert_eq!(process.family, mpi.family);
        assert_eq!(Some(process.directory.as_path()), std::env::current_dir().ok().as_deref());
        assert_eq!(process.local_rank, Some(process.rank.0));
        assert!(process.namespaces_differ.is_empty() && process.threads >= 1 && process.start_time_ticks > 0);
        assert!(!process.cpus_allowed.is_empty());
    }
}

fn check_maps(pid: Pid, program: &Path) {
    let mappings = maps(pid).expect("the map of a rank");
    let code = mappings.iter().find(|mapping| Some(mapping.path.as_str()) == program.to_str() && mapping.executable);
    assert!(code.is_some_and(|mapping| mapping.is_file() && !mapping.deleted));
}

#[test]
fn a_shell_around_the_launcher_leads_to_the_job() {
    for mpi in installed() {
        let program = build(mpi, "shell");
        let line = format!("{} -n 2 '{}' ; true", mpi.launch.join(" "), program.display());
        let mut started = Started::start(Command::new("sh").args(["-c", &line]));
        let job = started.wait_for_job(started.pid(), 2);
        let launcher = job.launcher.expect("a launcher");
        started.pids.insert(launcher.0);
        assert_ne!(launcher, started.pid());
        assert_eq!(pids(&find_job(launcher).expect("the job of the launcher")), pids(&job));
        remove(&program);
    }
}

#[test]
fn shells_that_the_launcher_starts_around_ranks_are_no_ranks() {
    for mpi in installed() {
        let program = build(mpi, "wrapped");
        let mut command = Command::new(mpi.launch[0]);
        let line = format!("'{}' ; true", program.display());
        command.args(&mpi.launch[1..]).args(["-n", "2", "sh", "-c", &line]);
        let mut started = Started::start(&mut command);
        let job = started.wait_for_job(started.pid(), 2);
        let processes = ProcFs::new();
        for process in &job.ranks {
            assert_eq!(process.executable, program);
            let shell = processes.stat(process.pid).expect("a rank").parent;
            assert_eq!(processes.stat(shell).expect("its parent").command, "sh");
            assert_eq!(pids(&find_job(shell).expect("the job of the shell")), pids(&job));
        }
        remove(&program);
    }
}

#[test]
fn a_program_without_launcher_is_a_job_of_one() {
    for mpi in installed() {
        let program = build(mpi, "single");
        let mut started = Started::start(&mut Command::new(&program));
        let job = started.wait_for_job(started.pid(), 1);
        assert_eq!((job.launcher, job.size, job.is_complete()), (None, Some(1), true));
        assert_eq!(job.ranks[0].identity_source, None);
        remove(&program);
    }
}

#[test]
fn other_programs_are_refused_with_what_was_seen() {
    let started = Started::start(Command::new("sleep").arg("600"));
    // Between fork and exec the child is still a copy of this test.
    let deadline = Instant::now() + PATIENCE;
    while ProcFs::new().stat(started.pid()).expect("sleep").command != "sleep" {
        assert!(Instant::now() < deadline, "sleep did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = find_job(started.pid()).expect_err("sleep is no MPI program");
    assert!(matches!(error, Error::NotMpi { .. }), "{error}");
    assert!(error.to_string().contains("(sleep) is not an MPI program"), "{error}");
}

#[test]
fn an_ended_process_is_refused() {
    let mut started = Started::start(&mut Command::new("true"));
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        let error = find_job(started.pid()).expect_err("never an MPI program");
        if matches!(error, Error::Zombie { .. }) || Instant::now() > deadline {
            break error;
        }
    };
    assert!(matches!(error, Error::Zombie { .. }), "{error}");
    started.child.wait().expect("its end");
    assert!(matches!(find_job(started.pid()), Err(Error::NoSuchProcess { .. })));
}

#[test]
fn a_traced_program_names_its_tracer() {
    if Command::new("strace").arg("--version").output().is_err() {
        eprintln!("SKIPPED: strace is not installed; a real tracer is not tested");
        return;
    }
    for mpi in installed().into_iter().take(1) {
        let program = build(mpi, "traced");
        let mut started = Started::start(&mut Command::new(&program));
        let job = started.wait_for_job(started.pid(), 1);
        let tracer = Started::start(Command::new("strace").args([
            "-qq",
            "-e",
            "trace=none",
            "-p",
            &job.ranks[0].pid.to_string(),
        ]));
        let deadline = Instant::now() + PATIENCE;
        while find_job(started.pid()).is_ok() {
            assert!(Instant::now() < deadline, "the tracer did not attach");
        }
        let error = find_job(started.pid()).expect_err("traced");
        assert!(matches!(&error, Error::Traced { tracer: by, .. } if *by == tracer.pid()), "{error}");
        remove(&program);
    }
}

const ASKED_PID: &str = "TRIMTAB_TEST_ASKED_PID";

#[test]
fn another_users_program_is_refused_with_both_users() {
    const NOBODY: u32 = 65534;
    let own = ProcFs::new();
    let is_root = own.status(own.own_pid()).expect("own status").uids == [0; 4];
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("SKIPPED: not root, or setpriv is not installed; another user's view is not tested");
        return;
    }
    for mpi in installed().into_iter().take(1) {
        let program = build(mpi, "user");
        let mut started = Started::start(&mut Command::new(&program));
        started.wait_for_job(started.pid(), 1);
        // The other user may not reach this test's folder, so the test's program goes where all may run it.
        let copy = std::env::temp_dir().join(format!("trimtab-track-test-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().expect("own program"), &copy).expect("copy the test");
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
        let output = Command::new("setpriv")
            .args(user)
            .arg(&copy)
            .args(["--exact", "asks_as_another_user", "--nocapture"])
            .env(ASKED_PID, started.pid().to_string())
            .current_dir(std::env::temp_dir())
            .output()
            .expect("ask as another user");
        let _ = std::fs::remove_file(&copy);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!("it belongs to user 0 and you are user {NOBODY}; run trimtab as user 0 or as root");
        assert!(said.contains(&expected), "{said}");
        remove(&program);
    }
}

/// The half of the test above that runs as another user; asked for nothing, it has nothing to check.
#[test]
fn asks_as_another_user() {
    let Ok(text) = std::env::var(ASKED_PID) else { return };
    let pid = text.parse().expect("a pid to ask for");
    match find_job(Pid(pid)) {
        Ok(job) => println!("found {job:?}"),
        Err(error) => println!("{error}"),
    }
}
