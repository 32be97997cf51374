//! Indirect functions (IFUNC): what `--function memcpy` measures is the code that the loader chose for the process.
//!
//! Next: `crates/job/script/tests/points.rs` for the same in scripts.

mod common;

use common::{Home, alone, mpi_library};
use std::process::Command;
use trimtab_specimens::{Launch, Running, TextSnapshot, threads_running};
use trimtab_types::report::{FunctionTotal, Report};

/// Calls through pointers, so that no compiler puts the code in place. It asks for MPI, so it is a rank that has not begun.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((weak)) int MPI_Init(int *, char ***);
int (*volatile begin)(int *, char ***) = MPI_Init;
volatile long measuremark_calls, measuremark_last, seen;
__attribute__((noinline, noclone)) void measuremark(int iteration) {
    measuremark_last = iteration;
    measuremark_calls = measuremark_calls + 1;
}
int main(void) {
    static char from[512], to[512];
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    void *(*volatile move)(void *, const void *, size_t) = memmove;
    size_t (*volatile length)(const char *) = strlen;
    for (int i = 0; i < 400; i++) from[i] = 'x';
    puts("ready");
    fflush(stdout);
    for (int iteration = 0;; iteration++) {
        measuremark(iteration);
        for (int i = 0; i < 30; i++) copy(to, from, 300);
        for (int i = 0; i < 20; i++) move(to, from, 300);
        for (int i = 0; i < 10; i++) seen += length(from);
        usleep(500);
    }
}
"#;
const ITERATIONS: u64 = 10;

/// The program, as a job of one rank.
fn start(home: &Home) -> Running {
    let (source, program) = (home.path("copies.c"), home.path("copies"));
    std::fs::write(&source, PROGRAM).expect("its source");
    let built =
        Command::new("gcc").args(["-O1", "-Wl,-z,dynamic-undefined-weak", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("gcc runs").success(), "the program is built");
    let mut job = Launch::alone(&program).preload(&mpi_library()).start().expect("it starts");
    job.wait_for_output("ready", common::LIMIT).expect("it is ready");
    job
}

/// The row that a function is counted in.
fn row<'a>(report: &'a Report, name: &str) -> Option<&'a FunctionTotal> {
    report.functions.iter().find(|row| row.name == name || row.other_names.iter().any(|other| other == name))
}

fn window(home: &Home, job: &Running, functions: &str) -> Report {
    let options = format!("{functions} --group comm --iterations {ITERATIONS} --max-seconds 60");
    let (code, report) = home.attach(job.pid(), &options).unwrap_or_else(|said| panic!("{options}: {said:?}"));
    assert!(code == 0 && report.window.valid, "{options}: {:?}", report.warnings);
    assert_eq!(report.window.marker_source.word(), "measuremark", "{options}");
    report
}

#[test]
fn the_code_that_the_loader_chose_is_measured() {
    let _alone = alone();
    let home = Home::new();
    let job = start(&home);
    let before = TextSnapshot::of(job.pid()).expect("its text");

    let report = window(&home, &job, "--function memcpy --function memmove --function strlen");
    let [copy, shift, length] = ["memcpy", "memmove", "strlen"].map(|name| row(&report, name).expect(name));
    // Mostly both are the same code; then their calls can't be told apart, and the row says so.
    let (copies, shifts) = if copy == shift { (50, 50) } else { (30, 20) };
    assert_eq!(copy.name, "memcpy");
    assert_eq!(
        (copy.calls_counted(), shift.calls_counted()),
        (copies * ITERATIONS, shifts * ITERATIONS),
        "{:?}",
        report.functions
    );
    assert_eq!((length.calls_counted(), length.name.as_str()), (10 * ITERATIONS, "strlen"));
    assert!(copy.time_s.is_some_and(|time_s| time_s > 0.0), "{copy:?}");

    let report = window(&home, &job, "--function str*@libc.so");
    assert_eq!(row(&report, "strlen").map(|row| row.calls_counted()), Some(10 * ITERATIONS), "by a pattern");
    assert_eq!(before.difference_now().expect("its text"), None);
    threads_running(job.pid()).expect("no thread is stopped");
}

/// The list says where the code is; what the loader took from the kernel's page can't be told, and is refused.
#[test]
fn indirect_functions_are_listed_with_their_code() {
    let _alone = alone();
    let home = Home::new();
    let job = start(&home);
    let pid = job.pid().to_string();
    for (name, chosen) in [("strlen@libc.so", true), ("measuremark", false)] {
        let said = home.trimtab(&["functions", "--json", &pid, name]);
        let rows: serde_json::Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(rows[0]["measurable"], true, "{rows}");
        assert_eq!(rows[0]["chosen"].is_string(), chosen, "{rows}");
    }
    let said = home.trimtab(&["functions", &pid, "strlen@libc.so"]);
    assert!(said.stdout.contains("measurable (indirect: this process runs the code at 0x"), "{said:?}");
    let refused = home.attach(job.pid(), "--function time@libc.so").expect_err("its code is in the kernel's page");
    assert!(refused.stderr.contains("indirect function"), "{refused:?}");
}
