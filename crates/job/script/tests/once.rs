//! Bodies that run once, functions that are called, and what neither may spoil: `errno`, floats on their way, flags
//! that are an answer.
//!
//! Next: `programs/once.c`, which counts what went wrong.

mod common;

use common::{Program, build_of, options, words};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trimtab_script::{Message, MessageValue, Permissions, Running, ScriptOptions, Target};
use trimtab_specimens::{TextSnapshot, threads_running};

const ALL: Permissions = Permissions { write: true, call: true };

fn program(case: &str, flags: &[&str]) -> Program {
    Program::start(&build_of(case, "cc", &["once.c"], &[&["-mno-red-zone"], flags].concat()))
}

fn start(program: &Program, script: &str, permissions: Permissions) -> Running {
    let target = Target { pid: program.pid(), rank: None, ranks: None };
    let options = ScriptOptions { permissions, ..options(script) };
    Running::start(&[target], &options, &program.cache).unwrap_or_else(|error| panic!("{script}: {}", words(error)))
}

/// Runs a script that ends by itself; the program is then as before, and runs.
fn until_it_stops(program: &Program, script: &str, permissions: Permissions) -> (Vec<Message>, String) {
    let before = TextSnapshot::of(program.pid().0).expect("its text");
    let mut running = start(program, script, permissions);
    let (since, mut messages) = (Instant::now(), Vec::new());
    loop {
        let poll = running.poll();
        messages.extend(poll.messages);
        assert!(poll.alive == 1 && since.elapsed() < common::PATIENCE, "{script}");
        if poll.stopped {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (last, values, summary) = running.finish();
    messages.extend(last);
    assert_eq!(summary.warnings, Vec::<String>::new(), "{script}");
    assert_eq!(before.difference_now().expect("its text"), None, "{script}");
    threads_running(program.pid().0).expect("no thread is stopped");
    (messages, format!("{values:?} {:?}", summary.loss))
}

/// Values of the program, read by a script that runs once.
fn globals(program: &Program, names: &[&str]) -> Vec<i64> {
    let script = format!("once {{ send(\"globals\", {}) }}", names.join(", "));
    let (messages, _) = until_it_stops(program, &script, Permissions::default());
    let [message] = &messages[..] else { panic!("{messages:?}") };
    let value = |value: &MessageValue| match value {
        MessageValue::Int(value) => *value,
        other => panic!("{other:?}"),
    };
    message.values.iter().map(value).collect()
}

#[test]
fn what_runs_once_sees_the_program_and_may_change_it() {
    let program = program("once", &["-O1", "-g"]);
    let script = "process int seen; once { n++; seen = settings[599] * 6; send(\"seen\", seen, n) }
                  once when (seen != 42) { send(\"wrong\") }";
    let (messages, values) = until_it_stops(&program, script, Permissions::default());
    let told: Vec<String> = messages.iter().map(|message| format!("{} {:?}", message.tag, message.values)).collect();
    assert_eq!(told, ["seen [Int(42), Int(1)]"], "{values}");
    assert!(values.contains("value: Int(42)"), "what it assigned is kept: {values}");
    let (_, values) = until_it_stops(&program, "once { settings[598] = settings[599] + 1; n++ }", ALL);
    assert_eq!(globals(&program, &["settings[598]", "settings[599]"]), [8, 7], "{values}");
    // Code can be read and not written.
    let (_, values) = until_it_stops(&program, "once { *(int *)0x1 = 5; x = *(int *)0x1 }", ALL);
    assert!(values.contains("unreadable_loads: 2"), "{values}");
}

/// Beside other probes it does not end the script, and where recording begins later it runs later.
#[test]
fn what_runs_once_waits_for_the_start() {
    let program = program("once_started", &["-O1", "-g"]);
    let script = "start after 50 hits of work; stop after 100 hits of work;
                  once { early += works; n++; total_then = total } entry work { works++ }";
    let (_, values) = until_it_stops(&program, script, Permissions::default());
    assert!(values.contains("name: \"n\", value: Some(Sum { value: Int(1) })"), "{values}");
    let refused = program.refusal("once { x = $rdi }");
    assert!(refused.contains("there is no `$rdi` here"), "{refused}");
    let mut running = start(&program, "entry work { n++ }", Permissions::default());
    running.poll();
    let options = ScriptOptions { permissions: ALL, ..options("every 1s { call note(1) }") };
    let target = Target { pid: program.pid(), rank: None, ranks: None };
    let refused = Running::start(&[target], &options, &program.cache).map(drop);
    let refused = words(refused.expect_err("nothing can be called from outside"));
    assert!(refused.contains("can't call its functions"), "{refused}");
}

/// The function's own effect is there, and nothing else.
#[test]
fn a_called_function_spoils_nothing() {
    for (case, flags) in [("called", &["-O2"][..]), ("called_static", &["-O1", "-static"])] {
        let program = program(case, flags);
        let script = "process int done; stop after 300 hits of work;
                      entry work { if (done < 2) { done++; call note(21) } } exit work when (done == 2) { call note(-10); done = 3 }";
        let (_, values) = until_it_stops(&program, script, ALL);
        assert_eq!(globals(&program, &["noted", "wrong"]), [64, 0], "{case}: {values}");
    }
}

/// Carry is what the caller asks for: it is as the function left it, whatever runs at its exit.
#[test]
fn flags_that_are_an_answer_are_kept() {
    let program = program("flags", &["-O2"]);
    let script =
        "entry below { n++ } exit below { out++; time = hist(elapsed); most = max($ret) } entry work { rounds++ }
                  at below+0x7 { inside++ }";
    let script = if program_has_room(&program, script) { script } else { &script[..script.find("at below").unwrap()] };
    let counts = program.counts(script, |counts| counts.get("rounds").is_some_and(|rounds| *rounds > 200));
    assert!(counts["out"] >= 4 * 200, "{counts:?}");
    assert_eq!(globals(&program, &["wrong"]), [0]);
}

fn program_has_room(program: &Program, script: &str) -> bool {
    program.run(script).is_ok_and(|running| running.refusals().1.is_empty())
}

/// Every way in and every way out, where several lead to the same place or around the loop.
#[test]
fn loops_are_entered_and_left() {
    for level in ["-O0", "-O1", "-O2"] {
        let program = program(&format!("ways{level}"), &[level]);
        let script = "loop entry search:1 { came++ } loop exit search:1 { went++ } entry search { calls++ }
                      entry work { rounds++ }";
        let enough = |counts: &BTreeMap<String, i64>| counts.get("rounds").is_some_and(|rounds| *rounds > 100);
        let counts = program.counts(script, enough);
        let script = "loop seldom:1 { passes++ } loop entry seldom:1 { begins++ } loop exit seldom:1 { ends++ }
                      entry work { rounds++ }";
        let joined = program.counts(script, enough);
        // The last one leaves it.
        for (name, times) in [("passes", 21), ("begins", 1), ("ends", 1)] {
            let expected = times * joined["rounds"];
            assert!((joined[name] - expected).abs() <= 2 * times, "{level}: {name} of {expected}: {joined:?}");
        }
        for (name, times) in [("calls", 3), ("came", 2), ("went", 2)] {
            let expected = times * counts["rounds"];
            assert!((counts[name] - expected).abs() <= 2 * times, "{level}: {name} of {expected}: {counts:?}");
        }
        assert_eq!(globals(&program, &["wrong"]), [0], "{level}");
    }
}
