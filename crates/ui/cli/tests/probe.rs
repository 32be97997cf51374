//! `trimtab probe`: scripts run in a real job, what they count is true, and the job is as before.
//!
//! Next: `docs/probe-language.md` for the language; `trace.rs` for what "as before" means.

mod common_trace;

use common_trace::{Home, alone, json, probes_mapped, steady, until};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use trimtab_specimens::{Mpi, TextSnapshot, has_worked, threads_running};

/// The value that a script left in a variable of a kind.
#[track_caller]
fn variable<'a>(result: &'a Value, name: &str, kind: &str) -> &'a Value {
    let variables = result["variables"].as_array().expect("variables");
    let found = variables.iter().find(|one| one["name"] == name);
    &found.unwrap_or_else(|| panic!("no variable {name} in {result}"))["value"][kind]
}

#[track_caller]
fn sum(result: &Value, name: &str) -> i64 {
    let value = &variable(result, name, "sum")["value"];
    value.as_i64().unwrap_or_else(|| panic!("{name}: no integer in {value}: {result}"))
}

/// Each iteration calls MPI_Sendrecv of one long and MPI_Allreduce of two.
#[test]
fn arguments_are_summed_over_ranks() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let (home, job) = (Home::new(), steady(mpi, ""));
        let script = "entry MPI_Allreduce { n++; bytes += $count * sizeof($datatype) } \
                      entry MPI_Sendrecv { entered++; ints = max($sendcount) } \
                      exit MPI_Sendrecv { left++; failed += $ret != 0; time = hist(elapsed) } \
                      stop after 400 hits of MPI_Allreduce;";
        let outcome = home.run(&["probe", script, &job.launcher(), "--json", "-"]);
        assert_eq!(outcome.code(), 0, "{name}: {outcome:?}");
        let result = json(&outcome.stdout);
        let n = sum(&result, "n");
        assert!(n >= 400, "{name}: {n} calls");
        assert_eq!(sum(&result, "bytes"), 16 * n, "{name}: two longs each");
        // A rank may be between the two when the probes come or go.
        let (entered, left) = (sum(&result, "entered"), sum(&result, "left"));
        assert!((entered - n).abs() <= 4 && (entered - left).abs() <= 4, "{name}: {entered} in, {left} out, {n}");
        assert_eq!(sum(&result, "failed"), 0, "{name}");
        assert_eq!(result["ended_by"], "stop", "{name}");
        let times = variable(&result, "time", "histogram")["count"].as_i64().expect("a count");
        assert!((times - left).abs() <= 4, "{name}: {times} times of {left} calls");
        job.goes_on(name);
        job.ends_well(name);
    }
}

/// Messages by probes and by the clock, a choice of ranks, and a condition.
#[test]
fn messages_come_from_the_chosen_rank() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::OpenMpi, ""));
    let script = "entry MPI_Allreduce when (rank == 1) { n++; if (n == 5) { send(\"five\", rank, ranks, $count) } } \
                  every 20ms { send(\"clock\", n) } for 1 s;";
    let outcome = home.run(&["probe", script, &job.rank(1), "--ranks", "all except 0", "--json", "-"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let result = json(&outcome.stdout);
    let messages = result["messages"].as_array().expect("messages");
    assert!(messages.iter().all(|message| message["rank"] == 1), "{messages:?}");
    let of = |tag: &str| messages.iter().filter(|message| message["tag"] == tag).collect::<Vec<_>>();
    assert_eq!(of("five").len(), 1, "{messages:?}");
    assert_eq!(of("five")[0]["values"], serde_json::json!([1, 2, 2]), "{messages:?}");
    let seen: Vec<i64> = of("clock").iter().map(|message| message["values"][0].as_i64().expect("an integer")).collect();
    assert!(seen.len() > 3 && seen.is_sorted(), "the clock sees sums grow: {seen:?}");
    assert_eq!(result["ended_by"], "time");
    job.ends_well("messages");
}

/// Killed while probes are in: the job runs on, and `undo` makes it as before.
#[test]
fn a_killed_script_is_undone() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let script = "entry MPI_* { n++ } exit MPI_* { time = hist(elapsed) }";
    let probe = home.start(&["probe", script, &job.launcher()]);
    let ranks = [job.rank(0), job.rank(1)];
    until("both ranks hold probes", || ranks.iter().all(|pid| probes_mapped(pid.parse().expect("a pid")) > 0));
    probe.signal(Signal::KILL);
    probe.wait();
    for pid in &ranks {
        let outcome = home.run(&["undo", pid]);
        assert!(outcome.code() <= 1, "{outcome:?}");
    }
    job.goes_on("killed");
    job.ends_well("killed");
}

/// The fault of a script is said with its place, and nothing is touched.
#[test]
fn wrong_scripts_are_refused() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    for (name, script, expected) in [
        ("a name that is near", "entry MPI_Alreduce { n++ }", &["MPI_Allreduce", "^^^^^^"][..]),
        ("syntax", "entry MPI_Send { n++ ", &["1:", "expected"]),
        ("no bound", "entry MPI_Send { while (1) { n++ } }", &["limit"]),
        ("not allowed", "entry MPI_Send { $count = 0 }", &["--allow-write"]),
        ("no code", "at 0x10 { n++ }", &["no code is known at 0x10"]),
        ("no such loop", "loop iteration_is_right:9 { n++ }", &["iteration_is_right"]),
    ] {
        let outcome = home.run(&["probe", script, &job.launcher(), "--for", "1"]);
        assert_eq!(outcome.code(), 2, "{name}: {outcome:?}");
        for fragment in expected {
            assert!(outcome.stderr.contains(fragment), "{name}: no {fragment:?} in {}", outcome.stderr);
        }
    }
    let outcome = home.run(&["explain", "entry MPI_Allreduce { n++ }", &job.rank(0)]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.stdout.contains("entry of MPI_Allreduce") && outcome.stdout.contains(" -> e9 "), "{outcome:?}");
    job.goes_on("refused");
    job.ends_well("refused");
}

/// A function that is only left by exceptions, and what else a script asks beside it.
const THROWER: &str = "#include <unistd.h>
    extern \"C\" __attribute__((noinline)) void thrower(int i) { throw i; }
    extern \"C\" __attribute__((noinline)) int step(int i) { try { thrower(i); } catch (int n) { return n + 1; } return 0; }
    int main() { for (int i = 0; ; i = step(i) & 1023) usleep(500); }";

/// Exits that can't be seen count nothing: no 0 stands for them, in text or JSON, nor for what is made of them.
#[test]
fn what_was_refused_is_null_with_its_reason() {
    let _alone = alone();
    let home = Home::new();
    let (source, program) = (home.path("thrower.cc"), home.path("thrower"));
    std::fs::write(&source, THROWER).expect("writes the source");
    let built = Command::new("g++").arg("-O2").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("g++ runs").success());
    let mut child = Command::new(&program).spawn().expect("starts");
    let pid = child.id() as i32;
    until("it works", || has_worked(pid));
    let before = TextSnapshot::of(pid).expect("its text");
    let script = "entry thrower { e++ } exit thrower { b++; h = hist(elapsed) } entry step, exit thrower { both++ } \
                  entry step { x = last($0) } every 20ms { copy = b; y = x; ticks++; if (ticks > 9) stop() }";
    let outcome = home.run(&["probe", script, &pid.to_string(), "--json", "-"]);
    let text = home.run(&["probe", script, &pid.to_string()]);
    // Nothing runs in what job control has stopped: a 0 is true then, and says nothing of the program.
    common_trace::signal_to(pid, Signal::STOP);
    let held = home.run(&["probe", "entry step { n++ }", &pid.to_string(), "--for", "0.3"]);
    common_trace::signal_to(pid, Signal::CONT);
    assert!(held.code() == 1 && held.stdout.contains("is stopped by job control (SIGSTOP)"), "{held:?}");
    assert_eq!(before.difference_now().expect("its text"), None);
    threads_running(pid).expect("no thread is stopped");
    child.kill().expect("it ran");
    child.wait().expect("it ends");
    assert_eq!((outcome.code(), text.code()), (1, 1), "{outcome:?} {text:?}");
    let result = json(&outcome.stdout);
    let all = result["variables"].as_array().expect("variables");
    let of = |name: &str| all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {result}"));
    for name in ["b", "h", "copy"] {
        assert_eq!(of(name)["value"], Value::Null, "{name}: {result}");
        assert_eq!(of(name)["missing"], serde_json::json!(["exit thrower: it never returns"]), "{name}: {result}");
    }
    assert!(sum(&result, "e") > 0 && sum(&result, "both") > 0 && sum(&result, "ticks") == 10, "{result}");
    assert_eq!((&of("both")["at_least"], &of("e")["missing"]), (&Value::Bool(true), &Value::Null), "{result}");
    // The clock sets `y`, the program's thread `x`: each is there once, where it was set.
    for name in ["x", "y"] {
        assert_eq!(variable(&result, name, "each")["values"].as_array().map(Vec::len), Some(1), "{result}");
    }
    for line in ["b      not measured: exit thrower: it never returns", "both   at least "] {
        assert!(text.stdout.lines().any(|said| said.starts_with(line)), "{text:?}");
    }
}

/// A function that nobody calls, so that nobody runs what is written over it.
const UNCALLED: &str = "#include <unistd.h>
    volatile int is_wanted, sum;
    __attribute__((noipa)) int uncalled(int n) { for (int i = 0; i < n; i++) sum += i * n; return sum; }
    int main() { for (;;) { for (int i = 0; i < 100000; i++) sum += i; usleep(100); if (is_wanted) uncalled(3); } }";

/// Code that somebody else writes to while a script is in is left as it is, and that is said.
#[test]
fn places_that_were_changed_meanwhile_are_told() {
    use std::os::unix::fs::FileExt;
    let _alone = alone();
    let home = Home::new();
    let (source, program) = (home.path("uncalled.c"), home.path("uncalled"));
    std::fs::write(&source, UNCALLED).expect("writes the source");
    let built = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("cc runs").success());
    let mut child = Command::new(&program).spawn().expect("starts");
    let pid = child.id() as i32;
    until("it works", || has_worked(pid));
    let points = home.run(&["points", "uncalled", &pid.to_string(), "--json"]);
    let listed = json(&points.stdout);
    let address = listed["functions"][0]["address"].as_str().unwrap_or_else(|| panic!("no address in {listed}"));
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("a number");
    let memory = std::fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("its memory");
    let first_byte = || {
        let mut byte = [0];
        memory.read_exact_at(&mut byte, address).expect("its code");
        byte[0]
    };
    let original = first_byte();
    let probe = home.start(&["probe", "entry uncalled { n++ }", &pid.to_string(), "--for", "3"]);
    until("the probe is in", || first_byte() != original);
    const TRAP: u8 = 0xcc;
    memory.write_all_at(&[TRAP], address).expect("writes code");
    let outcome = probe.wait();
    let threads = threads_running(pid);
    let left = first_byte();
    child.kill().expect("it ran");
    child.wait().expect("it ends");
    threads.expect("no thread is stopped");
    assert_eq!((outcome.code(), left), (1, TRAP), "{outcome:?}");
    let said = format!("process {pid}: code at 1 place was changed meanwhile, not by trimtab, and was left as it is");
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains(&said), "{outcome:?}");
}
