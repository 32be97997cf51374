//! No crash: probes in every function of a program come and go while it throws, jumps, forks, loads, runs on strange
//! stacks, is traced, stopped or shut in; its answer is that of an undisturbed run, and its code is that of its files.
//!
//! Next: `testing/specimens/hazards` for what each hazard does; `crates/process/session/tests/hazards.rs` for the probes
//! of windows.

mod common_hazards;
mod common_trace;

use common_hazards::{Hazard, changed_code};
use common_trace::{Home, Outcome, alone, probes_mapped, signal_to, until};
use rustix::process::Signal;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use trimtab_specimens::{HazardVariant, skip};

/// Entries and exits of all functions of the program and of the library that it may load, and calls left without an exit.
const ALL: &str = "entry *@hazards { n++ } exit *@hazards { time = hist(elapsed) } exit *@hazards { left += $unwound } \
                   for 80 ms;";

/// Hazards that are repeated until told to end.
const HAZARDS: [&str; 30] = [
    "throw",
    "longjmp",
    "backtrace",
    "recursion",
    "siglongjmp",
    "altstack",
    "tail",
    "hands_on",
    "table",
    "assembly",
    "vectors",
    "holding",
    "coroutine",
    "threads",
    "cancel",
    "fork",
    "vfork",
    "spawn",
    "exec",
    "plugin",
    "blocked",
    "dozing",
    "sequence",
    "fault_throw",
    "fault_jump",
    "fault_step",
    "fault_bus",
    "samples",
    "cancel_anywhere",
    "sums",
];

/// Hazards beside each other.
const BESIDE: usize = 4;
/// Faults that may come while a removal is not over yet.
const TRIES: usize = 8;

/// Functions whose patches are refused make the exit code 1; a program that executes itself just then, 2.
#[track_caller]
fn rounds(home: &Home, variant: HazardVariant, name: &str, count: usize) {
    let (answer, status) = Hazard::undisturbed(variant, name);
    let mut hazard = Hazard::start(variant, name);
    let mut hits = 0;
    for round in 0..count {
        let outcome = hazard.probe(home, ALL);
        let may_fail = name == "exec";
        assert!(outcome.code() <= 1 || may_fail, "{name}, {variant:?}, round {round}: {outcome:?}");
        hits += outcome.hits();
        if !may_fail {
            assert!(!outcome.stdout.contains("stay mapped"), "{name}, {variant:?}: {outcome:?}");
        }
        hazard.is_as_its_files(&format!("round {round}"));
    }
    assert!(hits > 0 || name == "exec", "{name}, {variant:?}: no probe was hit");
    assert_eq!(hazard.end(), (answer, status), "{name}, {variant:?}");
}

/// Most of a round is spent waiting for what may come a second later, so some hazards are tried beside each other.
#[test]
fn all_hazards_are_survived() {
    let (_alone, home) = (alone(), Home::new());
    let variants = [HazardVariant::Optimised, HazardVariant::Small, HazardVariant::Plain];
    let all: Vec<_> = variants.iter().flat_map(|variant| HAZARDS.map(|name| (*variant, name))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                while let Some((variant, name)) = all.get(next.fetch_add(1, Relaxed)) {
                    rounds(&home, *variant, name, 2);
                }
            });
        }
    });
}

/// The springboard of an exit lies in a hot loop: who is in that loop when probes come or go adds on as before.
#[test]
fn a_loop_that_lends_its_bytes_goes_on() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Small, "sums");
    let mut hits = 0;
    for round in 0..12 {
        let outcome = hazard.probe(&home, "exit asm_sums { n++ } for 20 ms;");
        assert!(outcome.code() == 0, "round {round}: {outcome:?}");
        // On a busy machine it may have no processor for so long.
        hits += outcome.hits();
        hazard.is_as_its_files(&format!("round {round}"));
    }
    assert!(hits > 0, "no probe was hit");
    hazard.ends_well();
}

/// Killed while its probes are in, and while it puts them in: the hazard goes on, and the next one undoes it.
#[test]
fn hazards_survive_a_killed_monitor() {
    let (_alone, home) = (alone(), Home::new());
    for name in [
        "throw",
        "siglongjmp",
        "altstack",
        "coroutine",
        "threads",
        "fork",
        "plugin",
        "dozing",
        "samples",
        "cancel_anywhere",
    ] {
        let mut hazard = Hazard::start(HazardVariant::Optimised, name);
        let pid = hazard.pid().to_string();
        for wait_for_patches in [true, false] {
            let mut probe = home.start(&["probe", ALL, &pid]);
            until("probes", || probes_mapped(hazard.pid()) > 0 || probe.has_ended());
            if wait_for_patches {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            probe.signal(Signal::KILL);
            probe.wait();
            let undo = home.run(&["undo", &pid]);
            assert!(undo.code() <= 1, "{name}: {undo:?}");
            hazard.is_as_its_files("killed");
        }
        hazard.ends_well();
    }
}

/// A function that only jumps to others hands its call over: that it is left is seen, when the call ends is not. An exit
/// that is not seen is refused with the reason, and the entry is probed all the same.
#[test]
fn ends_behind_jumps_are_refused_and_entries_are_not() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Optimised, "tail");
    let count = |outcome: &Outcome, name: &str| {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        line.unwrap_or_else(|| panic!("no {name} in {outcome:?}"))
    };
    let left = hazard.probe(&home, "for 200 ms; entry tail_middle* { a++ } exit tail_middle* { b++ }");
    let (entered, left_by_jump) = (count(&left, "a"), count(&left, "b"));
    assert!(left.code() == 0 && entered > 0 && entered.abs_diff(left_by_jump) <= 1, "{left:?}");
    for ask in ["t = hist(elapsed)", "r = max($ret)"] {
        let asked =
            hazard.probe(&home, &format!("for 200 ms; entry tail_middle* {{ a++ }} exit tail_middle* {{ {ask} }}"));
        let named =
            asked.stderr.contains("not probed: exit _ZL11tail_middle") && asked.stderr.contains("only by jumps");
        assert!(asked.code() == 1 && count(&asked, "a") > 0 && named, "{asked:?}");
        let alone = hazard.probe(&home, &format!("for 200 ms; exit tail_middle* {{ {ask} }}"));
        assert!(alone.code() == 2 && alone.stderr.contains("only by jumps"), "{alone:?}");
        hazard.is_as_its_files(ask);
    }
    // It also returns, where its calls end; what leaves it by a jump comes back, so nobody knows when that began.
    let returns = hazard.probe(&home, "for 200 ms; exit tail_end* { n++; t = hist(elapsed) }");
    assert!(returns.code() == 1 && count(&returns, "n") > 0, "{returns:?}");
    assert!(returns.stderr.contains("are not followed there: calls come back from there by jumps"), "{returns:?}");
    hazard.ends_well();
}

/// As `tails.cpp` has it: how long calls last that go on behind jumps, and one that must not be taken for them.
const SHORT_NS: f64 = 300_000.0;
const LONG_NS: f64 = 6_000_000.0;

/// Bodies that ask for the end of a call run where the function behind its jump returns, for calls that came by that jump.
#[test]
fn bodies_at_exits_follow_calls_behind_jumps() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Optimised, "hands_on");
    let word = |outcome: &Outcome, name: &str| {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        line.and_then(|word| word.parse::<f64>().ok()).unwrap_or_else(|| panic!("no {name} in {outcome:?}"))
    };
    let script = "for 400 ms; exit hand_first(long) { first = min(elapsed); returned = max($ret); entered++ } \
                  exit hand_one(long) { one = min(elapsed) } exit hand_two(long) { two = min(elapsed) } \
                  exit hand_mixed(long) { mixed = min(elapsed) } exit library_on { stub = min(elapsed) } \
                  exit hand_shared(long) { longest = max(elapsed) } entry hand_throw(long) { thrown++ } \
                  exit hand_throw(long) { landed++; lasted = min(elapsed) }";
    let seen = hazard.probe(&home, script);
    assert_eq!((seen.code(), seen.stderr.contains("not probed")), (0, false), "{seen:?}");
    for name in ["first", "one", "two", "mixed", "stub"] {
        assert!((SHORT_NS..LONG_NS / 2.0).contains(&word(&seen, name)), "{name}: {seen:?}");
    }
    assert!(word(&seen, "longest") >= LONG_NS && word(&seen, "returned") == 303.0, "{seen:?}");
    // It throws each time; then the function behind its jump is called at the same place by the same instruction.
    assert!(word(&seen, "thrown") > 3.0 && word(&seen, "landed") == 0.0, "{seen:?}");
    hazard.is_as_its_files("followed");
    hazard.ends_well();
}

fn backtrace_by_gdb(pid: i32) -> Vec<String> {
    let mut command = Command::new("gdb");
    command.args(["-batch", "-nx", "-ex", "thread apply all bt", "-p", &pid.to_string()]);
    let output = command.stdin(Stdio::null()).output().expect("gdb runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with('#') && line.contains(" in ")).map(str::to_owned).collect()
}

/// Threads sleep in probed functions; gdb sees the same callers at the same addresses.
#[test]
fn gdb_sees_the_same_callers() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skip("gdb_sees_the_same_callers", "no gdb; apt-get install gdb");
    }
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Optimised, "blocked");
    let of_blocked = |all: Vec<String>| -> Vec<String> {
        let first = all.iter().position(|line| line.contains("blocked_inside")).unwrap_or(0);
        all.into_iter().skip(first.saturating_sub(1)).take(3).collect()
    };
    let before = of_blocked(backtrace_by_gdb(hazard.pid()));
    assert!(before.len() == 3 && before.iter().any(|line| line.contains("blocked_inside")), "{before:?}");
    let pid = hazard.pid().to_string();
    let script = ALL.replace("for 80 ms;", "");
    let probe = home.start(&["probe", &script, &pid]);
    until("probes", || changed_code(hazard.pid()).is_some());
    assert_eq!(of_blocked(backtrace_by_gdb(hazard.pid())), before);
    // And a tracer that is there is left alone.
    probe.signal(Signal::INT);
    probe.wait();
    hazard.is_as_its_files("after gdb");
    hazard.ends_well();
}

/// A function whose first instructions fault is refused with the reason, in a program that handles faults by itself, by
/// every command; one that it could be taken for, in a program that does not, is probed.
#[test]
fn own_fault_handlers_keep_what_may_fault_in_place() {
    let (_alone, home) = (alone(), Home::new());
    let words = ["may fault", "fault handler of its own", "probe the callers instead"];
    let mut hazard = Hazard::start(HazardVariant::Optimised, "fault_throw");
    let pid = hazard.pid().to_string();
    for script in ["entry fault_sums { n++ }", "exit fault_sums { n++ }", "entry fault_stores { n++ } for 80 ms;"] {
        let outcome = home.run(&["probe", script, &pid]);
        assert_eq!(outcome.code(), 2, "{script}: {outcome:?}");
        words.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{script}: {outcome:?}"));
    }
    for (command, word) in [("points", "fault_sums"), ("functions", "fault_sums")] {
        let arguments = if command == "points" { [command, word, &pid] } else { [command, &pid, word] };
        let outcome = home.run(&arguments);
        assert!(outcome.stdout.contains(words[1]), "{command}: {outcome:?}");
    }
    hazard.is_as_its_files("refused");
    hazard.ends_well();
    let hazard = Hazard::start(HazardVariant::Optimised, "fault_late");
    let outcome = hazard.probe(&home, "entry fault_sums { n++ } exit fault_sums { m++ } for 80 ms;");
    assert_eq!(outcome.code(), 0, "nothing handles its faults yet: {outcome:?}");
    ["go", "fault"].iter().for_each(|what| hazard.tell(what));
    hazard.ends_well();
}

/// Samplers find the way out of probes, and threads that are cancelled in one run all their clean-ups: while probes are in,
/// while they come and go, and behind a trimtab that was killed, whose tables `undo` takes back.
#[test]
fn walked_stacks_are_whole_and_cancelled_threads_clean_up() {
    let (_alone, home) = (alone(), Home::new());
    let script = "entry walk_* { n++ } exit walk_* { time = hist(elapsed) }";
    for variant in [HazardVariant::Optimised, HazardVariant::Small, HazardVariant::Plain] {
        for name in ["samples", "cancel_anywhere"] {
            let mut hazard = Hazard::start(variant, name);
            let outcome = hazard.probe(&home, &format!("{script} for 700 ms;"));
            // In small code not every exit has room for a jump.
            assert!(outcome.code() <= 1 && outcome.hits() > 0, "{name}, {variant:?}: {outcome:?}");
            assert!(!outcome.stdout.contains("miss frames"), "{name}, {variant:?}: {outcome:?}");
            hazard.is_as_its_files("probed");
            let pid = hazard.pid().to_string();
            let probe = home.start(&["probe", script, &pid]);
            until("probes", || changed_code(hazard.pid()).is_some_and(|changed| changed.contains("hazards")));
            probe.signal(Signal::KILL);
            probe.wait();
            std::thread::sleep(std::time::Duration::from_millis(300));
            let undo = home.run(&["undo", &pid]);
            assert_eq!(undo.code(), 0, "{name}, {variant:?}: {undo:?}");
            hazard.is_as_its_files("undone");
            hazard.ends_well();
        }
    }
}

/// Where the unwinder is not there yet, it can't be given tables: that stacks miss frames is said.
#[test]
fn stacks_without_tables_are_said_to_miss_frames() {
    let (_alone, home) = (alone(), Home::new());
    let folder = tempfile::TempDir::new().expect("a folder");
    let (source, program) = (folder.path().join("toil.c"), folder.path().join("toil"));
    fs::write(&source, CANCELS_LATER).expect("writes");
    let built = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("cc runs").success());
    let mut child = Command::new(&program).stdin(Stdio::piped()).spawn().expect("starts");
    let pid = child.id().to_string();
    until("its start", || fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/libc.so")));
    let outcome = home.run(&["probe", "entry adds { n++ } for 100 ms;", &pid]);
    let (mapped, changed) = (probes_mapped(child.id() as i32), changed_code(child.id() as i32));
    // It runs until it is ended, so nothing is asserted before.
    child.kill().expect("it runs on");
    child.wait().expect("ends");
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.stdout.contains("may be cancelled at any instruction"), "{outcome:?}");
    assert!(outcome.stdout.contains("miss frames"), "{outcome:?}");
    assert_eq!((mapped, changed), (0, None));
}

/// A program whose threads may be cancelled anywhere, in which nothing has loaded libgcc's unwinder yet.
const CANCELS_LATER: &str = r#"
#include <pthread.h>
__attribute__((noipa)) long adds(long n) { volatile long sum = 0; for (long k = 0; k < n; k++) sum += k; return sum; }
int main(int argc, char **argv) {
    pthread_setcanceltype(argc > 1 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, 0);
    for (;;) adds(100);
}
"#;

/// A program may begin to handle faults while probes are in: they are taken out before it has set the handler, and it is said.
/// Faults may come at once then, and the script may have probes where handlers are set.
#[test]
fn a_fault_handler_that_comes_later_is_seen() {
    for (at_once, script) in [
        (false, "entry fault_sums { n++ }"),
        (true, "entry fault_sums { n++ }"),
        (true, "entry fault_sums { n++ } entry sigaction { set++ }"),
        (true, "entry fault_sums { n++ } exit sigaction { set++ }"),
    ] {
        a_fault_handler_comes(at_once, script);
    }
}

fn a_fault_handler_comes(at_once: bool, script: &str) {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Optimised, "fault_late");
    let pid = hazard.pid();
    let probe = home.start(&["probe", script, &pid.to_string()]);
    until("probes", || changed_code(pid).is_some());
    std::thread::sleep(std::time::Duration::from_millis(20));
    if at_once {
        hazard.tell("fault");
    }
    hazard.tell("go");
    hazard.says("handles");
    // Not told to end: the handler does it.
    let outcome = probe.wait();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    for part in ["ended by: fault handler", "SIGSEGV in hazards", "run the script again"] {
        assert!(outcome.stdout.contains(part), "{part}: {outcome:?}");
    }
    if !at_once {
        hazard.is_as_its_files("handler");
        hazard.tell("fault");
    }
    hazard.ends_well();
}

/// A probed program ends by a fault, while it is patched or once its code is as before: what trimtab says.
fn fault_ends(home: &Home, limit: &str, once_removed: bool) -> Outcome {
    let hazard = Hazard::start(HazardVariant::Optimised, "fault_end");
    let pid = hazard.pid();
    let mut command = home.command(&["probe", &format!("entry fault_sums {{ n++ }} {limit}"), &pid.to_string()]);
    command.env_remove("TRIMTAB_WATCHED_MS");
    let probe = home.start_command(command);
    until("probes", || changed_code(pid).is_some());
    if once_removed {
        until("removal", || changed_code(pid).is_none());
    }
    hazard.tell("fault");
    probe.wait()
}

/// By a fault that nobody handles, while it is patched or right after: said loudly, with what was patched, and an error.
#[test]
fn an_end_by_a_fault_is_said_and_an_error() {
    let (_alone, home) = (alone(), Home::new());
    for (name, limit, parts) in [
        (
            "patched",
            "",
            ["ended by SIGSEGV while trimtab had patched 1 place of fault_sums", "run it again without trimtab"],
        ),
        ("after", "for 500 ms;", ["ended by SIGSEGV less than a second after trimtab took out its probes", "report"]),
    ] {
        // The code is as before a moment before trimtab has taken out all else: a fault in between comes while it is patched.
        let mut tries = (0..TRIES).map(|_| fault_ends(&home, limit, name == "after"));
        let is_told = |outcome: &Outcome| name == "patched" || !outcome.stderr.contains("while trimtab had patched");
        let outcome = tries.find(is_told).expect("a fault after the removal");
        assert_eq!(outcome.code(), 2, "{name}: {outcome:?}");
        parts.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{name}: {part}: {outcome:?}"));
        assert!(outcome.stdout.contains("ended by: "), "{name}: what was counted is shown all the same: {outcome:?}");
    }
    // As it ends by itself, and by a signal that others send.
    for signal in [None, Some(Signal::TERM)] {
        let hazard = Hazard::start(HazardVariant::Optimised, "fault_end");
        let pid = hazard.pid();
        let probe = home.start(&["probe", "entry fault_sums { n++ }", &pid.to_string()]);
        until("probes", || changed_code(pid).is_some());
        match signal {
            Some(signal) => signal_to(pid, signal),
            None => hazard.ends_well(),
        }
        let outcome = probe.wait();
        assert!(outcome.code() == 0 && outcome.stderr.is_empty(), "{signal:?}: {outcome:?}");
    }
}

fn state_of(pid: i32) -> char {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    state.trim().chars().next().unwrap_or('?')
}

/// Probes go into a program that job control has stopped, and out again, while it stays stopped.
#[test]
fn a_stopped_program_stays_stopped() {
    let (_alone, home) = (alone(), Home::new());
    for name in ["threads", "dozing"] {
        let mut hazard = Hazard::start(HazardVariant::Optimised, name);
        let pid = hazard.pid();
        signal_to(pid, Signal::STOP);
        until("stop", || state_of(pid) == 'T');
        for round in 0..3 {
            let outcome = hazard.probe(&home, ALL);
            assert!(outcome.code() <= 1, "{name}, round {round}: {outcome:?}");
            assert_eq!(state_of(pid), 'T', "{name}, round {round}: who stopped it decides when it goes on");
            hazard.is_as_its_files("stopped");
        }
        // Stopped while the probes are in, continued before and after they are taken out.
        signal_to(pid, Signal::CONT);
        for stays in [true, false] {
            let probe = home.start(&["probe", &ALL.replace("80 ms", "600 ms"), &pid.to_string()]);
            until("probes", || changed_code(pid).is_some());
            signal_to(pid, Signal::STOP);
            until("stop", || state_of(pid) == 'T');
            if !stays {
                signal_to(pid, Signal::CONT);
            }
            let outcome = probe.wait();
            assert!(outcome.code() <= 1, "{name}: {outcome:?}");
            signal_to(pid, Signal::CONT);
            let undo = home.run(&["undo", &pid.to_string()]);
            assert!(undo.code() <= 1, "{name}: {undo:?}");
            hazard.is_as_its_files("continued");
        }
        hazard.ends_well();
    }
}

#[test]
fn a_program_under_gdb_is_left_alone() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skip("a_program_under_gdb_is_left_alone", "no gdb; apt-get install gdb");
    }
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = Hazard::start(HazardVariant::Optimised, "throw");
    let pid = hazard.pid();
    let mut command = Command::new("gdb");
    command.args(["-q", "-nx", "-ex", "set confirm off", "-p", &pid.to_string()]);
    let mut gdb = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("gdb");
    until("gdb", || state_of(pid) == 't');
    let outcome = hazard.probe(&home, ALL);
    assert!(outcome.code() == 2 && outcome.stderr.contains("is traced by process"), "{outcome:?}");
    drop(gdb.stdin.take());
    gdb.wait().expect("ends");
    until("end of tracing", || state_of(pid) != 't');
    hazard.is_as_its_files("gdb has left");
    hazard.ends_well();
}

/// A parent of vfork waits uninterruptibly: it is refused, and nobody holds it when it goes on.
#[test]
fn uninterruptible_sleep_is_not_disturbed() {
    let (_alone, home) = (alone(), Home::new());
    let hazard = Hazard::start(HazardVariant::Optimised, "waiting");
    until("uninterruptible sleep", || state_of(hazard.pid()) == 'D');
    let outcome = hazard.probe(&home, ALL);
    assert!(outcome.code() == 2 && outcome.stderr.contains("did not stop within"), "{outcome:?}");
    assert_eq!(state_of(hazard.pid()), 'D');
    hazard.ends_well();
}

/// One that has ended and whom nobody has asked yet.
#[test]
fn a_zombie_is_no_program() {
    let home = Home::new();
    let mut child = Command::new("true").spawn().expect("starts");
    let pid = child.id() as i32;
    until("its end", || state_of(pid) == 'Z');
    let outcome = home.run(&["probe", ALL, &pid.to_string()]);
    assert!(outcome.code() == 2 && !outcome.stderr.contains("panicked"), "{outcome:?}");
    child.wait().expect("ends");
}

/// The memory that a process has mapped.
fn mapped_bytes(pid: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    pages.split_whitespace().next().and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// Where the kernel gives the program nothing more, it is refused and goes on.
#[test]
fn limits_are_respected() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        return skip("limits_are_respected", "no prlimit; apt-get install util-linux");
    }
    let (_alone, home) = (alone(), Home::new());
    for (kind, fragment) in [("as", "may not map"), ("nofile", "no descriptors left")] {
        let mut hazard = Hazard::start(HazardVariant::Optimised, "recursion");
        let pid = hazard.pid().to_string();
        let value = if kind == "as" { mapped_bytes(hazard.pid()) } else { 3 };
        let limit = &format!("--{kind}={value}:");
        assert!(Command::new("prlimit").args(["--pid", &pid, limit]).status().expect("prlimit").success());
        let outcome = hazard.probe(&home, ALL);
        assert!(outcome.code() == 2 && outcome.stderr.contains(fragment), "{limit}: {outcome:?}");
        hazard.is_as_its_files(limit);
        assert!(Command::new("prlimit").args(["--pid", &pid, "--nofile=100:"]).status().expect("prlimit").success());
        hazard.ends_well();
    }
}

/// A filter that would kill it for mapping memory: before the probes they are refused, behind them all code is restored.
#[test]
fn a_program_that_shuts_itself_in() {
    let (_alone, home) = (alone(), Home::new());
    let hazard = Hazard::start(HazardVariant::Optimised, "shut");
    let pid = hazard.pid();
    let probe = home.start(&["probe", &ALL.replace("80 ms", "900 ms"), &pid.to_string()]);
    until("probes", || changed_code(pid).is_some());
    hazard.tell("go");
    hazard.says("shut");
    let outcome = probe.wait();
    let said = outcome.stdout.contains("seccomp filter") || outcome.stderr.contains("seccomp filter");
    assert!(outcome.code() <= 1 && said, "{outcome:?}");
    assert!(probes_mapped(pid) > 0, "nobody may unmap it");
    let outcome = hazard.probe(&home, ALL);
    assert!(outcome.code() == 2 && outcome.stderr.contains("seccomp"), "{outcome:?}");
    let undo = home.run(&["undo", &pid.to_string()]);
    assert_eq!(undo.code(), 0, "{undo:?}");
    assert_eq!(changed_code(pid), None);
    hazard.ends_well();
}

/// A library is unloaded with its probes: nothing is written where it was, what was counted is kept, and whoever comes
/// later finds nothing to wonder about.
#[test]
fn a_library_is_unloaded_while_it_is_probed() {
    let (_alone, home) = (alone(), Home::new());
    for is_killed in [false, true] {
        let mut hazard = Hazard::start(HazardVariant::Optimised, "late");
        let pid = hazard.pid();
        hazard.tell("go");
        let maps = || fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        until("the library", || maps().contains("libplugin.so"));
        let script = "entry plugin_*@libplugin.so { n++ } exit plugin_*@libplugin.so { time = hist(elapsed) }";
        let probe = home.start(&["probe", script, &pid.to_string()]);
        until("probes", || changed_code(pid).is_some());
        std::thread::sleep(std::time::Duration::from_millis(50));
        hazard.tell("close");
        hazard.says("closed");
        assert!(!maps().contains("libplugin.so"));
        probe.signal(if is_killed { Signal::KILL } else { Signal::INT });
        let outcome = probe.wait();
        if is_killed {
            let undo = home.run(&["undo", &pid.to_string()]);
            undo.reports("undo", 0, &["places restored, 0 bytes left"]);
        } else {
            assert!(outcome.code() <= 1 && outcome.hits() > 20, "{outcome:?}");
            assert!(!outcome.stdout.contains("stay mapped"), "{outcome:?}");
        }
        hazard.is_as_its_files("unloaded");
        hazard.ends_well();
    }
}
