//! `once { call f(...) }`: a thread of the program calls a function of the C library once, at a moment at which it is
//! certain that nobody is in the middle of what it uses; where it never is, nothing is called and the reason is given.
//!
//! Next: `programs/once_call.c`, which counts what went wrong; `crates/process/session/src/outside_call.rs`.

mod common;

use common::{PATIENCE, Program, build_of, options, words};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use trimtab_script::{Message, MessageValue, Permissions, Running, ScriptOptions, Target};
use trimtab_specimens::{TextSnapshot, threads_running};

/// Calls one after the other where threads come and go in the C library.
const TIMES: u32 = 10;

fn program(mode: &str, flags: &[&str]) -> Program {
    // Tests run side by side, and none may write the program that another one runs.
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("once-call-{mode}-{}", BUILT.fetch_add(1, Ordering::Relaxed));
    let mode_flag = format!("-DMODE={mode}");
    Program::start(&build_of(&name, "cc", &["once_call.c"], &[&["-O2", "-pthread", &mode_flag], flags].concat()))
}

/// Runs a script that ends by itself: its messages and warnings. The program is then as before, and goes on.
fn run(program: &Program, script: &str) -> (Vec<Message>, Vec<String>) {
    let before = TextSnapshot::of(program.pid().0).expect("its text");
    let target = Target { pid: program.pid(), rank: None, ranks: None };
    let options = ScriptOptions { permissions: Permissions { write: false, call: true }, ..options(script) };
    let running = Running::start(&[target], &options, &program.cache);
    let mut running = running.unwrap_or_else(|error| panic!("{script}: {}", words(error)));
    let (since, mut messages) = (Instant::now(), Vec::new());
    loop {
        let poll = running.poll();
        messages.extend(poll.messages);
        assert!(poll.alive == 1 && since.elapsed() < PATIENCE, "{script}");
        if poll.stopped {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (last, _, summary) = running.finish();
    messages.extend(last);
    assert_eq!(before.difference_now().expect("its text"), None, "{script}");
    threads_running(program.pid().0).expect("no thread is stopped");
    (messages, summary.warnings)
}

/// Globals of the program.
fn globals<const N: usize>(program: &Program, names: [&str; N]) -> [i64; N] {
    let (messages, warnings) = run(program, &format!("once {{ send(\"globals\", {}) }}", names.join(", ")));
    let [message] = &messages[..] else { panic!("{messages:?} {warnings:?}") };
    let values: Vec<i64> = message.values.iter().map(int).collect();
    values.try_into().expect("as many as were asked for")
}

fn int(value: &MessageValue) -> i64 {
    match value {
        MessageValue::Int(value) => *value,
        other => panic!("{other:?}"),
    }
}

/// It computes on, and nothing was spoilt.
fn goes_on(program: &Program, mode: &str) {
    let [before, _] = globals(program, ["rounds", "wrong"]);
    let since = Instant::now();
    loop {
        let [rounds, wrong] = globals(program, ["rounds", "wrong"]);
        assert_eq!(wrong, 0, "{mode}");
        if rounds > before {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{mode}: it computes no more");
    }
}

fn is_harmless(warning: &str) -> bool {
    warning.contains("at no moment of 2 s")
}

#[test]
fn a_function_of_the_c_library_is_called() {
    for (mode, flags) in [("COMPUTES", &["-g"][..]), ("WAITS", &["-g"]), ("COMPUTES", &["-g", "-no-pie", "-fno-pie"])] {
        let program = program(mode, flags);
        assert_eq!(globals(&program, ["written"]), [0], "{mode}");
        // On a busy machine there may be no safe moment for two seconds; then nothing was called, and it may be asked again.
        let warnings = || run(&program, "once { call fflush(0); call malloc_trim(0) }").1;
        let said = (0..TIMES).map(|_| warnings()).find(|said| !said.iter().any(|line| is_harmless(line)));
        assert_eq!(said, Some(Vec::new()), "{mode}");
        let since = Instant::now();
        while globals(&program, ["written"]) != ["waits in its buffer".len() as i64] {
            assert!(since.elapsed() < PATIENCE, "{mode}: nothing was written");
        }
        goes_on(&program, mode);
    }
}

/// Threads are in `malloc` and in `fflush` itself half of the time: the right moment is found, again and again.
#[test]
fn threads_in_the_library_are_let_out_first() {
    for mode in ["ALLOCATES", "FLUSHES"] {
        let program = program(mode, &["-g"]);
        let mut called = 0;
        for time in 0..TIMES {
            let (_, warnings) = run(&program, "once { call fflush(0); call malloc_trim(0) }");
            assert!(warnings.iter().all(|line| is_harmless(line)), "{mode}, time {time}: {warnings:?}");
            called += u32::from(warnings.is_empty());
        }
        assert!(called > 0, "{mode}: there was never a moment");
        goes_on(&program, mode);
    }
}

/// The script's own probes are in the functions that are called, and see the call.
#[test]
fn the_c_library_may_hold_probes() {
    let program = program("COMPUTES", &["-g"]);
    let script = "entry fflush@libc.so.6 { asked++ } exit fflush@libc.so.6 { done++ } entry write@libc.so.6 { n++ } \
                  once { call fflush(0) } every 50ms { k++; send(\"seen\", asked, done, n); if (k > 2) stop() }";
    let mut seen = Vec::new();
    let called = (0..TIMES).any(|_| {
        let (messages, warnings) = run(&program, script);
        assert!(warnings.iter().all(|line| is_harmless(line)), "{warnings:?}");
        seen = messages.last().map(|message| message.values.iter().map(int).collect()).unwrap_or_default();
        warnings.is_empty()
    });
    assert!(called, "there was never a moment");
    assert_eq!(seen[..2], [1, 1], "it came by the probes");
    assert!(seen[2] >= 1, "{seen:?}: what waited in the buffer was written");
    goes_on(&program, "COMPUTES");
}

/// Somebody else has changed a function that nobody calls.
#[test]
fn a_changed_c_library_is_left_alone() {
    let program = program("COMPUTES", &["-g"]);
    let modules = program.modules();
    let library = modules.modules.iter().find(|module| module.file_name() == "libc.so.6").expect("a C library");
    let (_, place) = library.function("wprintf").expect("it has that");
    let memory = File::options().write(true).open(format!("/proc/{}/mem", program.pid())).expect("its memory");
    memory.write_all_at(&[0xcc], place.0).expect("writes");
    let (_, warnings) = run(&program, "once { call fflush(0) }");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("the code of libc.so.6 is not what its file has"), "{warning}");
    assert_eq!(globals(&program, ["written"]), [0]);
}

#[test]
fn what_is_never_safe_is_refused_with_its_reason() {
    let rows = [
        ("WAITS_IN_STREAM", &["-g"][..], "call fflush(0)", "it is in "),
        ("IN_HANDLER", &["-g"], "call fflush(0)", "it is in a signal handler"),
        ("IN_LIBRARY", &["-g"], "call fflush(0)", "it is in qsort"),
        ("IN_PLACE", &["-g"], "call fflush(0)", "writing to a stream in place"),
        ("OWN_MALLOC", &["-g"], "call fflush(0)", "the program itself has "),
        ("COMPUTES", &["-g"], "call compute(1)", "is no function of a shared C library"),
        ("COMPUTES", &["-g", "-static"], "call fflush(0)", "C library"),
    ];
    for (mode, flags, call, fragment) in rows {
        let program = program(mode, flags);
        let (_, warnings) = run(&program, &format!("once {{ {call} }}"));
        let [warning] = &warnings[..] else { panic!("{mode} {flags:?}: {warnings:?}") };
        assert!(
            warning.contains(fragment) && warning.contains("call it where the program comes by"),
            "{mode}: {warning}"
        );
        // Code that writes in place fills the buffer by itself.
        if mode != "IN_PLACE" {
            assert_eq!(globals(&program, ["written"]), [0], "{mode}");
        }
        goes_on(&program, mode);
    }
}
