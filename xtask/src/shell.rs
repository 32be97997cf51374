//! Running other programs: shown as a line one can paste, failing with what was run.
//!
//! Every command here starts without a stdin, because CI has none and a prompt would hang it.
//!
//! Next: `suite` for a command whose output is read while it runs.

use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace's folder, found from the manifest cargo names when it starts us.
pub fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start me through `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("xtask has no parent folder")?;
    Ok(root.to_path_buf())
}

/// `cargo` as it was called, at the workspace's root.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    for (name, _) in std::env::vars_os().filter(|(name, _)| tells_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Variables by which cargo describes our own package. The build of `ring` depends on it: were it handed on, that and all above it would be
/// compiled again whenever a person's own `cargo` and ours take turns.
fn tells_of_a_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start))
}

/// Shows the command, runs it with our output, and fails unless it exits 0.
pub fn run(command: &mut Command) -> Result<()> {
    let line = display(command);
    println!("$ {line}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs the command silently and returns its stdout; fails unless it exits 0, then with its stderr.
pub fn read(command: &mut Command) -> Result<String> {
    let line = display(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as a line for a shell in the folder it runs in, the environment it adds in front.
pub fn display(command: &Command) -> String {
    let folder = command.get_current_dir();
    let strip = |word: &OsStr| folder.and_then(|folder| Path::new(word).strip_prefix(folder).ok()).map(OsString::from);
    let inside = |word: &OsStr| strip(word).unwrap_or(word.to_os_string());
    // A program found through PATH may stand there in full; its name is what a person types.
    let name = || Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_os_string();
    let program = strip(command.get_program()).unwrap_or_else(name);
    let added = command.get_envs().filter_map(|(name, value)| {
        value.map(|value| format!("{}={}", name.to_string_lossy(), quote(&inside(value).to_string_lossy())))
    });
    let words = std::iter::once(program).chain(command.get_args().map(inside));
    added.chain(words.map(|word| quote(&word.to_string_lossy()))).collect::<Vec<_>>().join(" ")
}

/// `path` as seen from the workspace, for output people read.
pub fn relative<'a>(root: &Path, path: &'a Path) -> std::path::Display<'a> {
    path.strip_prefix(root).unwrap_or(path).display()
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        for (name, arguments, expected) in [
            ("plain", &["-n", "2", "a/b.c"][..], "mpirun -n 2 a/b.c"),
            ("space", &["a b"][..], "mpirun 'a b'"),
            ("quote", &["it's"][..], r"mpirun 'it'\''s'"),
            ("empty", &[""][..], "mpirun ''"),
            ("glob", &["MPI_*"][..], "mpirun 'MPI_*'"),
        ] {
            let mut command = Command::new("/usr/bin/mpirun");
            assert_eq!(display(command.args(arguments)), expected, "{name}");
        }
        assert_eq!(display(Command::new("x").env("A", "1 2")), "A='1 2' x");
        let mut command = Command::new("/a/target/x");
        command.args(["/a/b", "/c/d"]).env("LOG", "/a/log").current_dir("/a");
        assert_eq!(display(&command), "LOG=log target/x b /c/d", "as seen from its folder");
    }

    #[test]
    fn what_cargo_tells_of_this_package_is_not_handed_on() {
        let command = cargo(Path::new("/"), &["test"]);
        let removed: Vec<&OsStr> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(removed.contains(&OsStr::new("CARGO_MANIFEST_DIR")) && removed.contains(&OsStr::new("CARGO_PKG_NAME")));
        assert!(!removed.contains(&OsStr::new("CARGO")) && display(&command).ends_with("cargo test"));
    }

    #[test]
    fn a_failing_command_names_itself_and_its_complaint() {
        let error = read(Command::new("sh").args(["-c", "echo lost >&2; exit 3"])).expect_err("exit 3").to_string();
        assert!(error.contains("exit status: 3") && error.contains("lost"), "{error}");
        let error = run(&mut Command::new("no-such-program-here")).expect_err("not there").to_string();
        assert!(error.contains("cannot start `no-such-program-here`"), "{error}");
    }
}
