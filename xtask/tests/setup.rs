//! `cargo xtask setup` as a process, on machines made of three small scripts: what it installs, prints and exits with.
//!
//! `dpkg-query`, `apt-get` and `id` are stood in for through PATH, so that nothing is ever installed by a test.
//!
//! Next: `xtask/src/setup.rs`; docs/testing.md for what a skipped test writes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Everything but MPICH and hpcc.
const INSTALLED: &str = "gcc g++ gfortran libc6-dev make binutils gdb libmpich-dev openmpi-bin libopenmpi-dev lammps \
                         lammps-examples netpipe-mpich2 iproute2 munge slurmctld slurmd slurm-client libslurm-dev \
                         openssh-client openssh-server musl-tools uftrace dwz golang-go python3-mpi4py python3-numpy";

/// A folder with the three scripts; removed at the end.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// `id -u` prints `user`; apt-get logs its arguments and fails if they hold the word `refused`.
    fn new(name: &str, user: &str, installed: &str, refused: &str) -> Machine {
        let folder = std::env::temp_dir().join(format!("trimtab-setup-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("apt.log");
        script(&folder, "id", &format!("echo {user}"));
        script(&folder, "dpkg-query", &format!("for p in {installed}; do echo \"$p installed\"; done; exit 1"));
        script(
            &folder,
            "apt-get",
            &format!(
                "echo \"$DEBIAN_FRONTEND $*\" >> {}; case \" $* \" in *' {refused} '*) exit 100;; esac",
                log.display()
            ),
        );
        Machine { folder }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("setup").args(arguments).env("PATH", &self.folder).output().unwrap()
    }

    /// The requests that apt-get got, without its standing options.
    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.join("apt.log")).unwrap_or_default();
        let words = |line: &str| line.split(' ').filter(|word| !word.starts_with("--")).collect::<Vec<_>>().join(" ");
        log.lines().map(words).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _already_gone = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn setup_installs_asks_or_lists() {
    if !Path::new("/etc/debian_version").exists() {
        return skip("setup_installs_asks_or_lists", "not a Debian or Ubuntu. Next: run it on one");
    }
    let (update, mpich, hpcc) =
        ("noninteractive update", "noninteractive install mpich", "noninteractive install hpcc");
    let complete = format!("{INSTALLED} mpich hpcc");
    for (name, user, installed, refused, arguments, code, asked, said) in [
        ("complete", "0", complete.as_str(), "-", &[][..], 0, &[][..], ""),
        (
            "root",
            "0",
            INSTALLED,
            "-",
            &[][..],
            0,
            &[update, mpich, hpcc][..],
            "installing missing packages: mpich hpcc",
        ),
        ("no-hpcc", "0", INSTALLED, "hpcc", &[][..], 0, &[update, mpich, hpcc][..], "hpcc is not to be had"),
        ("no-mpich", "0", INSTALLED, "mpich", &[][..], 2, &[update, mpich][..], "exit status: 100"),
        ("offline", "0", INSTALLED, "update", &[][..], 2, &[update][..], "cannot fetch the list of packages"),
        (
            "user",
            "1000",
            INSTALLED,
            "-",
            &[][..],
            2,
            &[][..],
            "sudo apt-get install --no-install-recommends mpich hpcc",
        ),
        ("check", "0", INSTALLED, "-", &["--check"][..], 1, &[][..], "missing packages: mpich hpcc"),
        ("check-complete", "1000", complete.as_str(), "-", &["--check"][..], 0, &[][..], ""),
    ] {
        let machine = Machine::new(name, user, installed, refused);
        let output = machine.run(arguments);
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_eq!(output.status.code(), Some(code), "{name}: {text}");
        assert_eq!(machine.asked(), asked, "{name}");
        assert!(text.contains(said), "{name}: {text}");
        assert_eq!(text.is_empty(), said.is_empty(), "{name}: quiet only when nothing is missing: {text}");
    }
}

fn script(folder: &Path, name: &str, body: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        fs::OpenOptions::new().append(true).create(true).open(log).unwrap().write_all(line.as_bytes()).unwrap();
    }
}
