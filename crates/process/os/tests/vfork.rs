//! A child between `vfork` and `exec` is told from one of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use trimtab_os::parent_sharing_memory;
use trimtab_types::Pid;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int child = argc > 1 ? vfork() : fork();
  if (child == 0) { char line[32]; int n = snprintf(line, sizeof line, "%d\n", getpid()); write(1, line, n); read(0, line, 1); _exit(0); }
  return 0;
}
"#;

fn parent_of_child(arguments: &[&str]) -> (Option<Pid>, Pid) {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vforks");
    let source = program.with_extension("c");
    std::fs::write(&source, PROGRAM).expect("writes the program");
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().expect("cc runs").success());
    let mut command = Command::new(&program);
    let mut parent = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    let found = parent_sharing_memory(Pid(line.trim().parse().expect("a process id")));
    drop(parent.stdin.take());
    parent.wait().expect("ends");
    (found, Pid(parent.id() as i32))
}

#[test]
fn a_vforked_child_is_told_from_a_forked_one() {
    let (found, parent) = parent_of_child(&["vfork"]);
    assert_eq!(found, Some(parent));
    assert_eq!(parent_of_child(&[]).0, None);
}
