//! `trimtab points`: what it prints and returns, of a file and of a process of a job.
//!
//! The program is a few instructions at fixed addresses, so every line of the output is known. That each listed text is
//! what a script finds is tested where points are found, in `trimtab-script`.
//!
//! Next: `docs/points.md`, which describes this output.

mod common_trace;

use common_trace::{Home, alone, bare_program, json, keys, steady};
use serde_json::Value;
use std::path::PathBuf;
use trimtab_specimens::Mpi;

/// A loop around a call of a function that is too short to be patched.
const PROGRAM: &str = r#"
        .text
        .globl _start, leaf, sum, total
        .type leaf, @function
leaf:   ret
        .size leaf, . - leaf
        .type sum, @function
        .type total, @function
total:
sum:    push %rbx
        xor %ebx, %ebx
1:      call leaf
        add $1, %rbx
        cmp $10, %rbx
        jne 1b
        mov %rbx, %rax
        pop %rbx
        ret
        .size sum, . - sum
        .size total, . - total
        .type _start, @function
_start: call sum
        mov $60, %eax
        xor %edi, %edi
        syscall
        hlt
        .size _start, . - _start
"#;

/// The program in a file of that folder.
fn program(home: &Home) -> PathBuf {
    bare_program(home, PROGRAM)
}

const SHOWN: &str = "\
sum  few  0x401001, 23 bytes, also total
  entry sum              0x401001  carrier
  exit sum               0x401017  jump         ret
  call sum:leaf#1        0x401004  jump         before the call of leaf
  call after sum:leaf#1  0x401009  jump         behind the call of leaf
  loop sum:1             0x401004  jump         blocks 2
  loop entry sum:1       0x401002  carrier      entered
  loop exit sum:1        0x401013  jump         left
  block sum:1            0x401001  carrier      3 bytes, then 2
  block sum:2            0x401004  jump         15 bytes, then 2 or 3
  block sum:3            0x401013  jump         5 bytes, leaves

1 function for sum
        possible      jump springboard   carrier   refused
entry          1         0           0         1         0
exit           1         1           0         0         0
call           2         2           0         0         0
loop           3         2           0         1         0
block          3         2           0         1         0
";

#[test]
fn a_file_is_listed() {
    let home = Home::new();
    let file = program(&home);
    let file = file.to_str().expect("a path of text");
    let outcome = home.run(&["points", "sum", file]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert_eq!(outcome.stdout, SHOWN, "{}", outcome.stdout);
}

#[test]
fn options_choose_what_is_listed() {
    let home = Home::new();
    let file = program(&home);
    let file = file.to_str().expect("a path of text");
    for (name, arguments, code, expected, absent) in [
        ("kinds", &["sum", file, "--kind", "exit,loop"][..], 0, &["exit sum", "loop exit sum:1"][..], "block sum"),
        ("patterns", &["*", file, "--kind", "entry"], 0, &["entry _start", "entry leaf", "3 functions for *"], "exit"),
        ("by address", &["fn_0x401001", file], 0, &["entry sum "], "leaf  few"),
        ("refused", &["*", file, "--refused"], 0, &["entry leaf    0x401000  not: only 1 free byte"], "entry sum"),
        ("limit", &["sum", file, "--limit", "2"], 0, &["exit sum", "8 more points are not shown"], "call sum:leaf#1 "),
        ("summary", &["sum", file, "--summary"], 0, &["1 function for sum", "block          3"], "0x401001"),
        ("nothing", &["nowhere", file], 1, &["0 functions for nowhere"], "0x"),
        (
            "nothing refused",
            &["sum", file, "--refused"],
            0,
            &["nothing is refused: all points of 1 function for sum"],
            "0x",
        ),
        ("refused of nothing", &["nowhere", file, "--refused"], 1, &["0 functions"], "0x"),
    ] {
        let outcome = home.run(&[&["points"][..], arguments].concat());
        outcome.reports(name, code, expected);
        assert!(!outcome.stdout.contains(absent), "{name}: {absent:?} in {}", outcome.stdout);
    }
    for (name, arguments, fragment) in [
        ("no file", &["sum", "./nowhere/few"][..], "there is no file"),
        ("no job", &["sum", "nojob"], "no process id, no file and no job that runs"),
        ("no program", &["sum", "Cargo.toml"], "Cargo.toml"),
        ("no process", &["sum", "999999999"], "999999999"),
    ] {
        let outcome = home.run(&[&["points"][..], arguments].concat());
        assert_eq!(outcome.code(), 2, "{name}: {outcome:?}");
        assert!(outcome.stderr.contains(fragment), "{name}: {outcome:?}");
    }
}

/// A sequence that the kernel knows by its address stays in place, also where nothing but the file is there.
#[test]
fn restartable_sequences_are_left_alone() {
    let home = Home::new();
    let (program, _) = trimtab_specimens::hazards(trimtab_specimens::HazardVariant::Optimised).expect("builds");
    let outcome = home.run(&["points", "asm_adds_*", program.to_str().expect("a path of text")]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let line = |point: &str| {
        let mut lines = outcome.stdout.lines().map(str::trim_start);
        lines.find(|line| line.starts_with(point)).unwrap_or_else(|| panic!("no {point:?} in {}", outcome.stdout))
    };
    let is_refused = |point: &str| line(point).contains("belongs to a restartable sequence (rseq)");
    for point in ["entry asm_adds_here ", "exit asm_adds_here "] {
        assert!(line(point).contains(" jump"), "{}", outcome.stdout);
    }
    for point in ["loop asm_adds_here:1 ", "entry asm_adds_barely ", "exit asm_adds_barely "] {
        assert!(is_refused(point), "{point}: {}", outcome.stdout);
    }
    // The sequence is announced in the second.
    let blocks: Vec<bool> = (1..=4).map(|n| is_refused(&format!("block asm_adds_here:{n} "))).collect();
    assert_eq!(blocks, [false, false, true, true], "{}", outcome.stdout);
}

/// The shape that docs/points.md promises.
#[test]
fn json_is_as_described() {
    let home = Home::new();
    let file = program(&home);
    let file = file.to_str().expect("a path of text");
    let outcome = home.run(&["points", "*", file, "--json"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let found = json(&outcome.stdout);
    assert_eq!(keys(&found), ["file", "functions", "pattern", "summary", "version"]);
    assert_eq!((&found["version"], &found["file"], &found["pattern"]), (&1.into(), &file.into(), &"*".into()));
    assert_eq!(keys(&found["summary"]), ["functions", "kinds", "points_not_shown"]);
    assert_eq!(keys(&found["summary"]["kinds"][0]), ["carrier", "jump", "kind", "refused", "springboard"]);
    let functions = found["functions"].as_array().expect("a list");
    assert_eq!(functions.len(), 3);
    let described = include_str!("../../../../docs/points.md");
    for function in functions {
        let of_point = ["address", "file_address", "how", "kind", "point", "reason", "what"];
        assert!(function["points"].as_array().expect("a list").iter().all(|point| keys(point) == of_point));
        for key in keys(function).into_iter().chain(of_point) {
            assert!(described.contains(&format!("`{key}`")), "{key} is not described");
        }
    }
    let sum = functions.iter().find(|function| function["name"] == "sum").expect("sum");
    assert_eq!(
        (&sum["file_address"], &sum["address"], &sum["source"]),
        (&"0x401001".into(), &Value::Null, &"symtab".into())
    );
    assert_eq!(sum["aliases"], serde_json::json!(["sum", "total"]));
    let leaf = functions.iter().find(|function| function["name"] == "leaf").expect("leaf");
    assert_eq!(leaf["points"][0]["how"], Value::Null);
    assert!(leaf["points"][0]["reason"].as_str().expect("a reason").contains("jump needs 2"), "{leaf}");
}

/// Looking at a job's process changes nothing in it; a job in the store is looked at by its name.
#[test]
fn a_job_is_listed_while_it_runs() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let by_pid = home.run(&["points", "MPI_Allreduce", &job.rank(0), "--kind", "entry,exit", "--json"]);
    assert_eq!(by_pid.code(), 0, "{by_pid:?}");
    let found = json(&by_pid.stdout);
    assert_eq!(found["pid"].to_string(), job.rank(0));
    let function = &found["functions"][0];
    assert_ne!(function["address"], function["file_address"], "a library lies elsewhere than in its file");
    assert_eq!(function["points"][0]["point"], "entry MPI_Allreduce");
    let measured = home.run(&["attach", &job.launcher(), "--iterations", "2", "--json", "-"]);
    let name = json(&measured.stdout)["job"]["id"].as_str().map(str::to_owned);
    let name = name.unwrap_or_else(|| panic!("no job in {measured:?}"));
    let by_job = home.run(&["points", "MPI_Allreduce", &name, "--kind", "entry,exit", "--json"]);
    assert_eq!(json(&by_job.stdout)["functions"][0]["name"], "MPI_Allreduce", "{by_job:?}");
    job.goes_on("points");
    job.ends_well("points");
}
