//! Where a program was when it crashed, from its core file.
//!
//! Next: `campaign` adds it to the failure.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders below the program's own in which cores are looked for.
const DEPTH_MAX: usize = 2;
/// Lines of the debugger's answer that are kept.
const LINES_MAX: usize = 60;

/// The backtrace by gdb of the first core file under `folder`; empty without one.
pub(crate) fn backtrace(folder: &Path) -> String {
    let Some(core) = find(folder, DEPTH_MAX) else { return String::new() };
    let mappings = gdb(&core, None, &["info proc mappings"]);
    let executable = mappings.lines().find_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let commands = ["p $_siginfo.si_signo", "p $_siginfo._sifields._sigfault", "info registers", "x/8i $rip", "bt 16"];
    let said = gdb(&core, executable, &commands);
    said.lines().filter(|line| !line.contains("[New LWP")).take(LINES_MAX).collect::<Vec<_>>().join("\n")
}

fn find(folder: &Path, depth: usize) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_core = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_file() && (name == "core" || name.starts_with("core."))
    };
    let below = || entries.iter().filter(|path| path.is_dir()).find_map(|path| find(path, depth - 1));
    entries.iter().find(is_core).cloned().or_else(|| if depth == 0 { None } else { below() })
}

fn gdb(core: &Path, executable: Option<&str>, commands: &[&str]) -> String {
    let mut gdb = Command::new("timeout");
    gdb.args(["60", "gdb", "-nx", "-batch", "-q"]);
    commands.iter().for_each(|command| {
        gdb.args(["-ex", command]);
    });
    gdb.args(executable).arg("-c").arg(core);
    gdb.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
