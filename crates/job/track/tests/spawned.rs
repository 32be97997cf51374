//! A program that starts another with `MPI_Comm_spawn`: two jobs that know of each other, under one launcher.
//!
//! Next: `job/tests.rs` for the same as recordings, Hydra's too.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_specimens::skip;
use trimtab_track::{Job, find_job};
use trimtab_types::Pid;

/// Rank 0 alone spawns two of itself; all wait until a file appears, and end well.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    MPI_Comm parent, other = MPI_COMM_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *arguments[] = {argv[1], NULL};
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int failed = MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
        if (failed) { write(1, "can not spawn\n", 14); MPI_Abort(MPI_COMM_WORLD, 3); }
    } else other = parent;
    while (access(argv[1], F_OK)) { usleep(2000); MPI_Barrier(MPI_COMM_WORLD); }
    MPI_Comm_disconnect(&other);
    return MPI_Finalize();
}
"#;
/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Mpi {
    compiler: &'static str,
    launch: &'static [&'static str],
    package: &'static str,
}

const MPIS: [Mpi; 2] = [
    Mpi { compiler: "mpicc.mpich", launch: &["mpiexec.mpich"], package: "mpich libmpich-dev" },
    Mpi {
        compiler: "mpicc.openmpi",
        launch: &["mpirun.openmpi", "--oversubscribe"],
        package: "openmpi-bin libopenmpi-dev",
    },
];

/// A launcher at work; dropped, it is ended, and its ranks with it.
struct Started {
    child: Child,
    said: PathBuf,
    end: PathBuf,
}

impl Started {
    fn start(mpi: &Mpi, folder: &Path) -> Started {
        let (source, program) = (folder.join("spawns.c"), folder.join("spawns"));
        std::fs::write(&source, PROGRAM).expect("write the source");
        let status = Command::new(mpi.compiler).arg(&source).arg("-o").arg(&program).status().expect("compile");
        assert!(status.success(), "{} failed", mpi.compiler);
        let (said, end) = (folder.join("said"), folder.join("end"));
        let output = std::fs::File::create(&said).expect("a file");
        let mut command = Command::new(mpi.launch[0]);
        command.args(&mpi.launch[1..]).args(["-n", "1"]).arg(&program).arg(&end);
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command.stdin(Stdio::null()).stderr(output.try_clone().expect("a file")).stdout(output);
        Started { child: command.spawn().expect("it starts"), said, end }
    }

    fn launcher(&self) -> Pid {
        Pid(i32::try_from(self.child.id()).expect("a pid"))
    }

    /// The program and what it spawned, once both are there; `None` if this library's launcher can't spawn.
    fn jobs(&mut self) -> Option<(Job, Job)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(parent) = find_job(self.launcher())
                && let Some(spawned) = parent.other_worlds.first().and_then(|pid| find_job(*pid).ok())
                && spawned.is_complete()
                // The parent may have been looked at before all of those came.
                && parent.other_worlds.len() == spawned.ranks.len()
            {
                return Some((parent, spawned));
            }
            let said = std::fs::read_to_string(&self.said).unwrap_or_default();
            if self.child.try_wait().expect("ours").is_some() {
                assert!(said.contains("can not spawn"), "{said}");
                return None;
            }
            assert!(Instant::now() < deadline, "no spawned job: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(mut self) {
        std::fs::write(&self.end, "").expect("a file");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("ours") {
                Some(status) => return assert!(status.success(), "{status}"),
                None => assert!(Instant::now() < deadline, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Launchers end their ranks when they are asked to end.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _asked = Command::new("kill").arg(self.child.id().to_string()).status();
        }
        let _reaped = self.child.wait();
    }
}

fn pids(job: &Job) -> Vec<Pid> {
    job.ranks.iter().map(|rank| rank.pid).collect()
}

#[test]
fn a_spawned_program_is_a_job_of_its_own() {
    for mpi in MPIS {
        let name = format!("a_spawned_program_is_a_job_of_its_own[{}]", mpi.compiler);
        if [mpi.compiler, mpi.launch[0]].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
            skip(&name, &format!("{} is not installed; apt-get install {}", mpi.compiler, mpi.package));
            continue;
        }
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{}", mpi.compiler, std::process::id()));
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        let mut started = Started::start(&mpi, &folder);
        match started.jobs() {
            None => skip(&name, "its MPI_Comm_spawn fails here; the package mpich of PyPI can spawn"),
            Some((parent, spawned)) => {
                assert_eq!((pids(&parent).len(), pids(&spawned).len()), (1, 2), "{name}");
                assert_eq!((parent.other_worlds.clone(), parent.spawned), (pids(&spawned), false), "{name}");
                assert_eq!((spawned.spawned, &spawned.parent), (true, &pids(&parent)), "{name}");
                assert_ne!(parent.key, spawned.key, "{name}");
                assert_eq!((parent.launcher, spawned.launcher), (Some(started.launcher()), parent.launcher), "{name}");
                started.end();
            }
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}
