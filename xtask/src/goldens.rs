//! `cargo xtask goldens`: accepts today's output as the expected one, and shows what changed so that it can be read.
//!
//! Expected outputs are insta snapshots, `.snap` files beside the tests. Accepting is easy; the list printed at the end
//! is there so that the difference is reviewed before it is committed.
//!
//! Next: docs/testing.md on when to accept.

use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask goldens [FILTER...]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    if let Some(option) = arguments.iter().find(|argument| argument.starts_with('-')) {
        bail!("goldens takes only filters, got `{option}`");
    }
    let root = shell::root()?;
    let mut cargo = shell::cargo(&root, &["test", "--no-fail-fast"]);
    for package in packages(&root)? {
        cargo.args(["--package", &package]);
    }
    cargo.arg("--").args(arguments).env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1");
    shell::run(&mut cargo)?;
    let changed = shell::read(Command::new("git").args(["status", "--short", "--", "*.snap"]).current_dir(&root))?;
    match changed.is_empty() {
        true => println!("no expected output changed"),
        false => println!("changed, read before you commit (git diff -- '*.snap'):\n{changed}"),
    }
    Ok(Outcome::Done)
}

/// The packages that have expected outputs: tests of the others, some of which attach to programs, need not run.
fn packages(root: &Path) -> Result<BTreeSet<String>> {
    let kept = shell::read(Command::new("git").args(["ls-files", "--", "*.snap"]).current_dir(root))?;
    let folder = |snapshot: &str| Some(root.join(snapshot.split_once("/tests/").or(snapshot.split_once("/src/"))?.0));
    let folders: BTreeSet<PathBuf> = kept.lines().filter_map(folder).collect();
    folders.iter().map(|folder| package(&folder.join("Cargo.toml"))).collect()
}

/// The name in a manifest.
fn package(manifest: &Path) -> Result<String> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_owned).with_context(|| format!("{} has no name", manifest.display()))
}
