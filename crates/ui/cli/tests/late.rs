//! Scripts wait for libraries: places in one that is loaded later are probed as soon as it is there, the rest from the
//! start, and all of it goes again, whoever takes it out.
//!
//! Next: `testing/specimens/hazards/processes.cpp` for the program, whose library comes and goes when it is told.

mod common_hazards;
mod common_trace;

use common_hazards::{Hazard, changed_code};
use common_trace::{Home, Started, alone, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use trimtab_specimens::HazardVariant;

const SCRIPT: &str = "entry *late_plugin*@hazards { here++ } \
                      entry plugin_work@libplugin.so { works++; longest = max($0); path = max(*(char *)::plugin_path) } \
                      exit plugin_*@libplugin.so { left++; time = hist(elapsed) } \
                      every 20ms { send(\"works\", works) }";

fn hazard() -> Hazard {
    Hazard::start(HazardVariant::Optimised, "late")
}

fn lines_of(pid: i32, words: &[&str]) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// How many insertions a process holds: each has one piece of memory that shows the beginning of its file.
fn insertions(pid: i32) -> usize {
    lines_of(pid, &["/memfd:trimtab", " 00000000 "])
}

fn has_library(pid: i32) -> bool {
    lines_of(pid, &["libplugin.so"]) > 0
}

/// Starts a script before the library is there, and waits until its probes are in both.
fn in_both(home: &Home, hazard: &Hazard, script: &str) -> Started {
    let pid = hazard.pid();
    let mut probe = home.start(&["probe", script, &pid.to_string(), "--json", "-"]);
    until("the first insertion", || insertions(pid) == 1 || probe.has_ended());
    assert!(!probe.has_ended(), "{:?}", probe.wait());
    assert!(!has_library(pid), "it came too early");
    hazard.tell("go");
    until("the second insertion", || insertions(pid) == 2 || probe.has_ended());
    until("a changed library", || changed_code_of(pid, "libplugin.so"));
    probe
}

/// True if code of this file is patched.
fn changed_code_of(pid: i32, file: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let line = maps.lines().find(|line| line.contains(file) && line.contains(" r-xp "));
    // A path may have blanks.
    let Some((range, path)) = line.and_then(|line| Some((line.split(' ').next()?, &line[line.find('/')?..]))) else {
        return false;
    };
    let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let (start, end) = range.split_once('-').expect("a range");
    let offset: u64 = number(line.expect("a line").split(' ').nth(2).expect("an offset"));
    use std::os::unix::fs::FileExt;
    let length = (number(end) - number(start)) as usize;
    let (mut now, mut want) = (vec![0; length], vec![0; length]);
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    if memory.read_exact_at(&mut now, number(start)).is_err() {
        return false;
    }
    let read = fs::File::open(path).expect("the library").read_at(&mut want, offset).expect("reads");
    now[..read] != want[..read]
}

#[track_caller]
fn result(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn variable<'a>(result: &'a Value, name: &str) -> &'a Value {
    let variables = result["variables"].as_array().expect("variables");
    &variables.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {result}"))["value"]
}

#[track_caller]
fn sum(result: &Value, name: &str) -> i64 {
    variable(result, name)["sum"]["value"].as_i64().unwrap_or_else(|| panic!("{name} in {result}"))
}

/// Both places are counted from when they are there; the clock sees sums of both; the result says what was late.
#[test]
fn a_library_is_probed_when_it_comes() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = hazard();
    let probe = in_both(&home, &hazard, SCRIPT);
    // Every repetition writes nothing; so many looks of the clock are time enough for several.
    std::thread::sleep(std::time::Duration::from_millis(300));
    probe.signal(Signal::INT);
    let outcome = probe.wait();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.stderr.contains("plugin_work@libplugin.so waits until its library is loaded"), "{outcome:?}");
    let result = result(&outcome.stdout);
    let (works, left) = (sum(&result, "works"), sum(&result, "left"));
    assert!(sum(&result, "here") > 0 && works > 0, "{result}");
    // `plugin_inner` is called 20 times by each call, unless the compiler has put its code there instead.
    assert!(left >= works - 1, "{result}");
    assert_eq!(variable(&result, "longest")["max"]["value"], 20, "{result}");
    // The program's own variable, and the main thread's stack, where it points to.
    assert_eq!(variable(&result, "path")["max"]["value"], i64::from(b'/'), "{result}");
    let late = &result["cost"]["late"];
    assert_eq!(late.as_array().map(Vec::len), Some(1), "{result}");
    assert_eq!(late[0]["library"], "libplugin.so", "{result}");
    assert!(late[0]["points"].as_u64() > Some(1) && late[0]["after_s"].as_f64() > Some(0.0), "{result}");
    let seen = result["messages"].as_array().expect("messages").iter();
    let seen: Vec<i64> = seen.map(|message| message["values"][0].as_i64().expect("an integer")).collect();
    assert!(seen.is_sorted() && seen.last() > Some(&0), "the clock sees what the library's part counts: {seen:?}");
    hazard.is_as_its_files("taken out");
    hazard.ends_well();
}

/// Nothing but the library is probed.
#[test]
fn a_script_may_have_nothing_but_places_to_come() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = hazard();
    let probe = in_both(
        &home,
        &hazard,
        "entry plugin_work@libplugin.so { n++ } stop after 100 hits of plugin_work@libplugin.so;",
    );
    let outcome = probe.wait();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let result = result(&outcome.stdout);
    assert_eq!(result["ended_by"], "stop", "{result}");
    assert!(sum(&result, "n") >= 99, "{result}");
    hazard.is_as_its_files("taken out");
    hazard.ends_well();
}

/// Loops, calls, blocks, source lines, offsets and addresses of a library wait for it as its entries do; what it lacks is said.
#[test]
fn points_inside_functions_wait_too() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = hazard();
    let script = "block plugin_work@libplugin.so:1 { works++ } loop plugin_work@libplugin.so:1 { passes++ } \
                  at plugin.c:6@libplugin.so { inner++; most = max($rdi) } \
                  loop plugin_work@libplugin.so:7 { never++ }";
    let probe = in_both(&home, &hazard, script);
    std::thread::sleep(std::time::Duration::from_millis(300));
    probe.signal(Signal::INT);
    let outcome = probe.wait();
    let result = result(&outcome.stdout);
    let [works, passes, inner] = ["works", "passes", "inner"].map(|name| sum(&result, name));
    // It goes round 20 times in each call, and calls the other function each time.
    assert!(works > 0 && (passes - 20 * works).abs() <= 40 && (inner - passes).abs() <= 40, "{result}");
    assert_eq!(variable(&result, "most")["max"]["value"], 19, "{result}");
    assert_eq!(sum(&result, "never"), 0, "{result}");
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("plugin_work has no loop 7"), "{outcome:?}");
    hazard.is_as_its_files("taken out");
    hazard.ends_well();
}

/// Both insertions are undone, also when the library has gone, or went with the maker still there.
#[test]
fn what_is_left_of_both_is_undone() {
    let (_alone, home) = (alone(), Home::new());
    for (is_closed, is_killed) in [(false, true), (true, true), (true, false)] {
        let name = format!("closed: {is_closed}, killed: {is_killed}");
        let mut hazard = hazard();
        let probe = in_both(&home, &hazard, SCRIPT);
        let pid = hazard.pid();
        if is_closed {
            hazard.tell("close");
            hazard.says("closed");
            assert!(!has_library(pid), "{name}");
        }
        probe.signal(if is_killed { Signal::KILL } else { Signal::INT });
        let outcome = probe.wait();
        if is_killed {
            assert_eq!(insertions(pid), 2, "{name}");
            let undo = home.run(&["undo", &pid.to_string()]);
            undo.reports("undo", 0, &["places restored, 0 bytes left"]);
        } else {
            assert_eq!(outcome.code(), 0, "{name}: {outcome:?}");
            assert!(sum(&result(&outcome.stdout), "works") >= 0, "{name}");
        }
        assert_eq!(insertions(pid), 0, "{name}");
        assert_eq!(changed_code(pid), None, "{name}");
        hazard.is_as_its_files(&name);
        hazard.ends_well();
    }
}

/// Killed at any moment while the library comes: one undo is enough.
#[test]
fn killed_while_the_library_comes() {
    let (_alone, home) = (alone(), Home::new());
    for round in 0..8 {
        let mut hazard = hazard();
        let pid = hazard.pid();
        let mut probe = home.start(&["probe", SCRIPT, &pid.to_string(), "--json", "-"]);
        until("the first insertion", || insertions(pid) == 1 || probe.has_ended());
        hazard.tell("go");
        until("the library", || has_library(pid));
        std::thread::sleep(std::time::Duration::from_millis(20 + 5 * round));
        probe.signal(Signal::KILL);
        probe.wait();
        let undo = home.run(&["undo", &pid.to_string()]);
        undo.reports("undo", 0, &["places restored, 0 bytes left"]);
        hazard.is_as_its_files("undone");
        hazard.ends_well();
    }
}

/// A wish that can't be met in a library to come is said, and one that does not come, or lacks the function, is too.
#[test]
fn what_can_not_wait_is_refused() {
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = hazard();
    for (script, code, fragments) in [
        ("entry f@libnever.so { n += $count } for 100 ms;", 2, &["$count"][..]),
        ("entry f@libnever.so { n++ } start after 3 hits of usleep; for 100 ms;", 2, &["not loaded yet", "`start`"]),
        (
            "loop f@libnever.so:1 { n++ } for 100 ms;",
            1,
            &["the library of loop pass", "f@libnever.so:1", "was never loaded"],
        ),
        ("call f@libnever.so:g { n += $count } for 100 ms;", 2, &["$count"]),
        (
            "at never.c:7@libnever.so { n++ } for 100 ms;",
            1,
            &["the library of at", "never.c:7@libnever.so", "was never loaded"],
        ),
        ("entry f@libnever.so { n++ } for 100 ms;", 1, &["the library of f@libnever.so was never loaded"]),
        ("entry no_such@hazards { n++ } for 100 ms;", 2, &["no function matches"]),
        ("entry no_such { n++ } for 100 ms;", 2, &["no function matches"]),
    ] {
        let outcome = hazard.probe(&home, script);
        assert_eq!(outcome.code(), code, "{script}: {outcome:?}");
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        for fragment in fragments {
            assert!(said.contains(fragment), "{script}: no {fragment:?} in {outcome:?}");
        }
        hazard.is_as_its_files(script);
    }
    let pid = hazard.pid().to_string();
    let probe = home.start(&["probe", "entry no_such@libplugin.so { n++ } for 5 s;", &pid]);
    until("the first insertion", || insertions(hazard.pid()) == 1);
    hazard.tell("go");
    let outcome = probe.wait();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(outcome.stdout.contains("no function matches no_such@libplugin.so"), "{outcome:?}");
    hazard.is_as_its_files("no such function");
    hazard.ends_well();
}
