//! Questions to `trimtab` that it answers in JSON.
//!
//! Next: `forecast` and `corun`, which ask.

use super::attach::Bench;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The JSON that `trimtab` answers with; 0 and 1 are its codes for an answer.
pub fn answer(bench: &Bench, words: &[String]) -> Result<Value> {
    answer_of(bench, Command::new(bench.binary("trimtab")), words)
}

/// The same by a command that runs `trimtab`, as on a node.
pub fn answer_of(bench: &Bench, mut command: Command, words: &[String]) -> Result<Value> {
    command.env("XDG_DATA_HOME", &bench.folder).env("XDG_CACHE_HOME", &bench.folder).args(words).args(["--json", "-"]);
    let output = command.stdin(Stdio::null()).output().context("cannot run trimtab")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "trimtab {}: {}", words.join(" "), said.trim());
    serde_json::from_slice(&output.stdout).with_context(|| format!("trimtab {} wrote no JSON", words.join(" ")))
}

/// A number of an answer.
pub fn number(answer: &Value, pointer: &str) -> Result<f64> {
    answer.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no number at {pointer} of the answer"))
}
