//! What scripts mean: each is compiled against a small program's facts and run by the reference interpreter.
//!
//! Next: `errors` for scripts that are refused.

mod common;

use common::{Run, facts};
use trimtab_snippet::ir::Kind;
use trimtab_snippet::{Permissions, compile};

#[test]
fn first() {
    let mut run = Run::new("entry solve { n++; bytes += $count * 8; big = hist($count) }");
    run.entry("solve", &[3]);
    run.entry("solve", &[5]);
    assert_eq!(run.int("n"), 2);
    assert_eq!(run.int("bytes"), 64);
    assert_eq!(run.kind("big"), Kind::Histogram);
    let compiled = compile("entry solve {}", &facts(), Permissions::default());
    assert!(compiled.is_ok());
}
