//! A program whose ranks compute in turns, for tests of jobs beside each other.
//!
//! Next: `corun_live/turns.c`; `corun.rs` and `pressure.rs`, which measure it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, compiled into a folder of the test.
pub fn turns(home: &super::common::Home) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corun_live/turns.c");
    let output = home.path("turns");
    let mut compiler = Command::new("mpicc.mpich");
    compiler.args(["-g", "-O1", "-fno-inline-functions-called-once", "-Wl,--build-id", "-o"]).arg(&output).arg(&source);
    let compiled = compiler.current_dir(home.path("")).output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    output
}
