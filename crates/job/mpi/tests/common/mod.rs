//! Installed MPI compilers, for tests that compare our facts with theirs.
//!
//! Next: `tests/headers.rs`, `tests/constants.rs`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An MPI that may be installed here.
#[derive(Clone, Copy, Debug)]
pub struct Installed {
    pub compiler: &'static str,
    #[allow(dead_code)]
    pub family: trimtab_mpi::Family,
}

/// The MPIs that are installed; says loudly which are not.
pub fn installed() -> Vec<Installed> {
    let known = [
        Installed { compiler: "mpicc.mpich", family: trimtab_mpi::Family::Mpich },
        Installed { compiler: "mpicc.openmpi", family: trimtab_mpi::Family::OpenMpi },
    ];
    known.into_iter().filter(|mpi| is_present(mpi.compiler)).collect()
}

fn is_present(compiler: &str) -> bool {
    let present = Command::new(compiler).arg("--version").output().is_ok();
    if !present {
        eprintln!("SKIPPED: {compiler} is not installed; its facts are not checked");
    }
    present
}

/// The preprocessed text of `source`.
#[allow(dead_code)]
pub fn preprocess(compiler: &str, source: &str) -> String {
    let scratch = Scratch::new(compiler);
    let file = scratch.write("prototypes.c", source);
    output(Command::new(compiler).args(["-E", "-P"]).arg(&file))
}

/// Compiles and runs `source` as a single process and returns what it prints.
#[allow(dead_code)]
pub fn run(compiler: &str, source: &str) -> String {
    let scratch = Scratch::new(compiler);
    let file = scratch.write("constants.c", source);
    let program = scratch.0.join("constants");
    output(Command::new(compiler).arg(&file).arg("-o").arg(&program));
    let root = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
    output(Command::new(&program).envs(root))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("start the command");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder of one test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(label: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{label}-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("make a scratch folder");
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).expect("write a file");
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
