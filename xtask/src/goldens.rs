//! `cargo xtask goldens`: accepts today's output as the expected one, and shows what changed so that it can be read.
//!
//! Expected outputs are insta snapshots, `.snap` files beside the tests. Accepting is easy; the list printed at the end
//! is there so that the difference is reviewed before it is committed.
//!
//! Next: docs/testing.md on when to accept.

use crate::{Outcome, shell};
use anyhow::{Result, bail};
use std::process::Command;

/// `cargo xtask goldens [FILTER...]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    if let Some(option) = arguments.iter().find(|argument| argument.starts_with('-')) {
        bail!("goldens takes only filters, got `{option}`");
    }
    let root = shell::root()?;
    let mut cargo = shell::cargo(&root, &["test", "--workspace", "--no-fail-fast", "--"]);
    cargo.args(arguments).env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1");
    shell::run(&mut cargo)?;
    let changed = shell::read(Command::new("git").args(["status", "--short", "--", "*.snap"]).current_dir(&root))?;
    match changed.is_empty() {
        true => println!("no expected output changed"),
        false => println!("changed, read before you commit (git diff -- '*.snap'):\n{changed}"),
    }
    Ok(Outcome::Done)
}
