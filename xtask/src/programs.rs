//! The test programs of the workspace: built at once, so that no crate is compiled twice for two sets of features.
//!
//! `cargo test` of some packages chooses other features for their dependencies than that of all, and compiles them
//! again. Here cargo builds every test of the workspace and says where; `suite` runs them, alone or side by side.
//!
//! Next: `suite`.

use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One program with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProgram {
    /// Name of its package.
    pub package: String,
    /// Folder of its package: tests run there.
    pub folder: PathBuf,
    /// Its source, from there.
    pub source: PathBuf,
    /// An integration test, not the tests inside of a library or a program.
    pub is_integration: bool,
    /// The program to run.
    pub executable: PathBuf,
}

impl TestProgram {
    /// The line that cargo would print before it runs it.
    pub fn heading(&self, root: &Path) -> String {
        format!(
            "     Running {} of {} ({})",
            self.source.display(),
            self.package,
            shell::relative(root, &self.executable)
        )
    }

    /// Runs all of its tests, in its package's folder as cargo does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Builds all tests of the workspace; their programs in the order cargo finished them.
///
/// # Errors
/// Tests that did not build; the compiler's errors stand on stderr.
pub fn build(root: &Path) -> Result<Vec<TestProgram>> {
    let mut cargo =
        shell::cargo(root, &["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let line = shell::display(&cargo);
    println!("$ {line}");
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}: see above for what did not build", output.status);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = said.lines().filter_map(program).collect();
    programs.sort_by(|a, b| (&a.package, a.is_integration, &a.source).cmp(&(&b.package, b.is_integration, &b.source)));
    Ok(programs)
}

/// The test program that one of cargo's messages tells of.
fn program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_path_buf();
    let source = PathBuf::from(message["target"]["src_path"].as_str()?);
    let kinds = message["target"]["kind"].as_array()?;
    Some(TestProgram {
        package: package_name(message["package_id"].as_str()?),
        source: source.strip_prefix(&folder).unwrap_or(&source).to_path_buf(),
        is_integration: kinds.iter().any(|kind| kind == "test"),
        executable: PathBuf::from(message["executable"].as_str()?),
        folder,
    })
}

/// `path+file:///folder/os#trimtab-os@0.1.0` or, where folder and package have one name, `path+file:///folder/xtask#0.1.0`.
fn package_name(id: &str) -> String {
    let (place, version) = id.rsplit_once('#').unwrap_or((id, ""));
    let folder = place.rsplit('/').next().unwrap_or(place);
    version.split_once('@').map_or(folder, |(name, _)| name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages_name_programs() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/os#trimtab-os@0.1.0",
                "manifest_path":"/w/crates/os/Cargo.toml","target":{{"kind":["{kind}"],"name":"inject",
                "src_path":"/w/crates/os/tests/inject.rs"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = program(&message("test", true, r#""/w/target/inject-1""#)).expect("a test program");
        let expected = TestProgram {
            package: "trimtab-os".into(),
            folder: "/w/crates/os".into(),
            source: "tests/inject.rs".into(),
            is_integration: true,
            executable: "/w/target/inject-1".into(),
        };
        assert_eq!(found, expected);
        assert_eq!(shell::display(&found.command()), "CARGO_MANIFEST_DIR='' inject-1");
        assert!(!program(&message("lib", true, r#""/w/x""#)).expect("a library's tests").is_integration);
        for (name, message) in [
            ("a library itself", message("lib", false, "null")),
            ("a program itself", message("bin", false, r#""/w/target/trimtab""#)),
            ("another message", r#"{"reason":"build-finished","success":true}"#.to_string()),
            ("noise", "noise".to_string()),
        ] {
            assert_eq!(program(&message), None, "{name}");
        }
        assert_eq!(package_name("path+file:///w/xtask#0.1.0"), "xtask");
    }
}
