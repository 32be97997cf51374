//! A test that can't run here says so, and is counted as skipped.
//!
//! Next: `docs/testing.md`, which describes the line and the file.

use std::fs::OpenOptions;
use std::io::Write;

/// Says loudly that the test or case `name` can't run here; `reason` ends with what to do about it.
///
/// # Panics
/// If the file that skipped tests are counted by can't be written.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        let file = OpenOptions::new().append(true).create(true).open(log);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skip log");
    }
}
