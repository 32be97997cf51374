//! Packages: the program is as it was, and one window of it is measured.
//!
//! Next: `trimtab-pack`'s own tests for the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trimtab_specimens::{Mpi, Variant, build, wait_for};

fn pack(program: &Path, folder: &Path, options: &[&str]) -> PathBuf {
    let out = folder.join("app.trim");
    let mut trimtab = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    trimtab.arg("pack").arg(program).arg("-o").arg(&out).arg("--").args(options);
    let output = trimtab.output().expect("trimtab runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// A command in a folder with a cache of its own.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache")).env("XDG_DATA_HOME", folder);
    command.env("XDG_STATE_HOME", folder);
    command
}

#[test]
fn a_package_is_the_program_to_whoever_runs_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = pack(Path::new("/bin/bash"), folder.path(), &[]);
    let run = |script: &str| {
        let mut bash = command(&package, folder.path());
        bash.args(["-c", script, "zero", "a b", ""]).env("SAID", "in the environment").stdin(Stdio::null());
        bash.output().expect("it runs")
    };
    let output = run("printf '%s|' \"$0\" \"$@\" \"$SAID\" \"$TRIMTAB_PACK\"; echo error >&2; exit 37");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "zero|a b||in the environment||");
    assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.code()), ("error\n", Some(37)));
    assert_eq!(run("kill -SEGV $$").status.signal(), Some(11), "a signal is the program's");
    // No child that the program did not start, and no file of ours left open in it.
    let inside = "set -- /proc/$$/fd/*; echo $#; read -r children < /proc/$$/task/$$/children; echo \"[$children]\"";
    let plain = Command::new("/bin/bash").args(["-c", inside]).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&run(inside).stdout), String::from_utf8_lossy(&plain.stdout));
    let mut off = command(&package, folder.path());
    let said = off.args(["-c", "echo \"[$TRIMTAB_PACK]\""]).env("TRIMTAB_PACK", "off").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "[]\n");
}

#[test]
fn without_a_cache_it_runs_from_memory_and_changed_it_does_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = pack(Path::new("/bin/bash"), folder.path(), &[]);
    let mut homeless = Command::new(&package);
    homeless.args(["-c", "exit 9"]).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    assert_eq!(homeless.status().expect("it runs").code(), Some(9));
    let mut bytes = fs::read(&package).expect("it is there");
    let at = bytes.len() - 4000;
    bytes[at] ^= 1;
    let changed = folder.path().join("changed.trim");
    fs::write(&changed, bytes).expect("it is written");
    fs::set_permissions(&changed, fs::Permissions::from_mode(0o755)).expect("ours");
    // Also where the program that was packed lies in the cache, from a start of the package as it was.
    for is_cached in [false, true] {
        if is_cached {
            assert!(command(&package, folder.path()).args(["-c", "true"]).status().expect("it runs").success());
        }
        let output = command(&changed, folder.path()).args(["-c", "echo it ran"]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(126), 0), "cached: {is_cached}: {said}");
        assert!(said.contains("was changed after it was packed"), "cached: {is_cached}: {said}");
    }
}

#[test]
fn wrong_options_are_refused_when_packing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut trimtab = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    trimtab.args(["pack", "/bin/true", "-o"]).arg(folder.path().join("x")).args(["--", "--no-such-option"]);
    let output = trimtab.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no options of `trimtab attach`"));
    assert!(!folder.path().join("x").exists());
}

#[test]
fn a_packed_mpi_program_is_measured_once() {
    for mpi in Mpi::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let program = build("steady", Some(mpi), &Variant::default()).expect("it builds");
        let package = pack(&program, folder.path(), &["--iterations", "10"]);
        let launcher = if mpi == Mpi::Mpich { "mpiexec.mpich" } else { "mpirun.openmpi" };
        let mut job = command(Path::new(launcher), folder.path());
        if mpi == Mpi::OpenMpi {
            job.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
            job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        let end = folder.path().join("end");
        job.args(["-n", "2"]).arg(&package).arg("--until").arg(&end).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut job = job.spawn().expect("the launcher runs");
        let text = || {
            let reports = reports(folder.path());
            assert!(reports.len() <= 1, "{}: one window, not one per rank: {reports:?}", mpi.name());
            reports.first().map(|path| fs::read_to_string(path).expect("it is there")).unwrap_or_default()
        };
        wait_for("a report", || text().contains("communication") || job.try_wait().expect("its state").is_some());
        fs::write(&end, "").expect("it is ours");
        let output = job.wait_with_output().expect("it ends");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.contains("checksum") && out.contains("OK"), "{}: {out}", mpi.name());
        assert!(text().contains("10 iterations"), "{}: {}", mpi.name(), text());
    }
}

fn reports(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder").filter_map(|entry| Some(entry.ok()?.path()));
    entries.filter(|path| path.to_string_lossy().ends_with(".trimtab.txt")).collect()
}
