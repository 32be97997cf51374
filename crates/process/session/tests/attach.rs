//! Probes go into a running program with threads, count what it does, and come out again without a trace.
//!
//! The program counts its own calls, so the numbers can be checked; it prints whether its results are right.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use trimtab_os::{MappingTable, Memory, ticks};
use trimtab_session::leftover::{self, Leftover};
use trimtab_session::{FunctionRequest, ImageCache, Inserted, Modules, Prepared, Setup};
use trimtab_stub::layout::{MEMFD_NAME, Probe, flag, state};
use trimtab_types::Pid;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>
volatile long calls_tiny, calls_deep;
volatile int stop;
__attribute__((noinline)) long tiny(long x) { __asm__ volatile("" ::: "memory"); return x + 1; }
__attribute__((noinline)) long deep(long n, jmp_buf *out) {
  if (n == 0) { if (out) longjmp(*out, 1); return 0; }
  long r = deep(n - 1, out);
  __asm__ volatile("" ::: "memory");
  return r + n;
}
__attribute__((noinline)) double many(double a, double b, long c, long d, long e, long f, long g, long h, double i) {
  if (c == 7) return a; if (d == 9) return b + i; return a + b + i + c + d + e + f + g + h;
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void end(int signal) { (void)signal; stop = 1; }
static void *work(void *seconds) {
  double until = now() + *(double *)seconds; long wrong = 0;
  while (!stop && now() < until) {
    for (long k = 0; k < 200; k++) if (tiny(k) != k + 1) wrong++;
    if (deep(10, 0) != 55) wrong++;
    jmp_buf out; if (setjmp(out) == 0) { deep(5, &out); wrong++; }
    if (many(1, 2, 3, 4, 5, 6, 7, 8, 9) != 1 + 2 + 9 + 3 + 4 + 5 + 6 + 7 + 8) wrong++;
    if (many(1, 2, 7, 4, 5, 6, 7, 8, 9) != 1) wrong++;
    if (many(1, 2, 3, 9, 5, 6, 7, 8, 9) != 11) wrong++;
    __sync_fetch_and_add(&calls_tiny, 200);
  }
  return (void *)wrong;
}
int main(int argc, char **argv) {
  double seconds = atof(argv[1]); pthread_t t[4]; long wrong = 0;
  signal(SIGTERM, end);
  puts("ready"); fflush(stdout);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, &seconds);
  wrong += (long)work(&seconds);
  for (int i = 0; i < 3; i++) { void *r; pthread_join(t[i], &r); wrong += (long)r; }
  printf("wrong %ld\n", wrong);
  return wrong != 0;
}
"#;

fn build(name: &str, flags: &[&str]) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = directory.join(format!("{name}.c"));
    std::fs::write(&source, PROGRAM).expect("writes the program");
    let program = directory.join(name);
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(&source).arg("-pthread").status();
    assert!(status.expect("cc runs").success());
    program
}

struct Target {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Target {
    fn start(program: &PathBuf, seconds: &str) -> Self {
        let mut child = Command::new(program).arg(seconds).stdout(Stdio::piped()).spawn().expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("reads");
        assert_eq!(line, "ready\n");
        let target = Target { child, output };
        // Threads map their stacks as they come up.
        let threads = || trimtab_os::thread_ids(target.pid()).map(|tids| tids.len());
        wait_for("four threads", || threads().is_ok_and(|count| count == 4));
        std::thread::sleep(Duration::from_millis(20));
        target
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    /// Tells it to end, so that no machine is too slow for it.
    fn finish(mut self) {
        let ended = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(ended.expect("kill runs").success());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("reads");
        let status = self.child.wait().expect("ends");
        assert_eq!(text, "wrong 0\n", "{status}");
        assert!(status.success());
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Nothing stays of it, also not after a failure; it has ended otherwise.
        let _ = self.child.kill();
    }
}

/// Longest time it runs if nobody tells it to end.
const SECONDS_MAX: &str = "300";

fn text_of(pid: Pid) -> Vec<(String, u64, Vec<u8>)> {
    let memory = Memory::open(pid).expect("memory");
    let maps = MappingTable::of(pid).expect("maps");
    let text = maps.0.iter().filter(|mapping| mapping.executable && mapping.path != "[vsyscall]");
    text.map(|mapping| {
        let bytes = memory.read_vec(mapping.start, (mapping.end - mapping.start) as usize).expect("reads");
        (mapping.path.clone(), mapping.start, bytes)
    })
    .collect()
}

fn timed(function: u32) -> Probe {
    Probe { function, group: 4, flags: flag::TIMED | flag::RING, ..Probe::ABSENT }
}
const NAMES: [&str; 3] = ["tiny", "deep", "many"];

fn prepare(pid: Pid) -> Prepared {
    let cache = ImageCache::in_memory();
    let modules = Modules::read(pid, &cache, &|path| !path.contains("/libc")).expect("modules");
    let requests: Vec<FunctionRequest> = NAMES
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let (_, address) = modules.modules[0].function(name).expect("is there");
            FunctionRequest { name: name.to_string(), address, work: timed(index as u32).into() }
        })
        .collect();
    let prepared = Prepared::new(&modules, &requests).expect("prepares");
    assert_eq!(prepared.refused, [], "all can be patched");
    prepared
}

const SETUP: Setup = Setup { functions: 3, ranks: 1, details: 0 };

fn insert(pid: Pid, prepared: &Prepared) -> Inserted {
    prepared
        .insert(pid, SETUP, &|view| {
            let header = view.header();
            header.marker_probe.store(u32::MAX, Relaxed);
            header.first_ticks.store(ticks(), Relaxed);
            header.state.store(state::RECORD, Relaxed);
        })
        .expect("inserts")
}

fn calls(inserted: &Inserted, function: u64) -> (u64, u64, u64) {
    inserted.view().slots().fold((0, 0, 0), |(calls, nested, ticks), slot| {
        let stat = slot.stat(function);
        (calls + stat.calls.load(Relaxed), nested + stat.nested.load(Relaxed), ticks + stat.ticks.load(Relaxed))
    })
}

/// Waits until `is_so`: how soon threads get a processor is the machine's business.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn cycles(flags: &[&str], name: &str, count: usize) {
    let program = build(name, flags);
    let target = Target::start(&program, SECONDS_MAX);
    let pid = target.pid();
    let before = text_of(pid);
    let maps_before = MappingTable::of(pid).expect("maps").0.len();
    let prepared = prepare(pid);
    let mut sums = [0f64; 3];
    for cycle in 0..count {
        let mut inserted = insert(pid, &prepared);
        assert_ne!(text_of(pid), before, "patched");
        wait_for("calls of every function", || (0..3).all(|function| calls(&inserted, function).2 > 0));
        std::thread::sleep(Duration::from_millis(5));
        let removal = inserted.remove().expect("removes");
        assert_eq!(removal.left_mapped_bytes, 0, "cycle {cycle}");
        assert_eq!(removal.foreign, [0u64; 0]);
        let (tiny, _, tiny_ticks) = calls(&inserted, 0);
        let (_, nested, deep_ticks) = calls(&inserted, 1);
        let (many, _, _) = calls(&inserted, 2);
        assert!(tiny_ticks > 0 && deep_ticks > 0);
        assert!(inserted.view().header().calibrated_ticks.load(Relaxed) > 0, "calibrated on the way");
        sums = [sums[0] + tiny as f64, sums[1] + nested as f64, sums[2] + many as f64];
    }
    // Ten nested calls in one descent and five in the other, per round of 200 tiny calls and 3 of `many`.
    let [tiny, nested, many] = sums;
    assert!((nested / tiny / (15.0 / 200.0) - 1.0).abs() < 0.1, "{nested} nested, {tiny} tiny");
    assert!((many / tiny / (3.0 / 200.0) - 1.0).abs() < 0.1, "{many} many, {tiny} tiny");
    assert_eq!(text_of(pid), before, "every byte is as before");
    let ours = |mapping: &&trimtab_os::Mapping| mapping.path.starts_with(&format!("/memfd:{MEMFD_NAME}"));
    assert_eq!(MappingTable::of(pid).expect("maps").0.iter().find(ours), None, "no mapping is left");
    assert_eq!(MappingTable::of(pid).expect("maps").0.len(), maps_before, "no mapping is left");
    target.finish();
}

#[test]
fn probes_come_and_go_in_an_optimised_program() {
    cycles(&["-O2"], "attach_o2", 40);
}

#[test]
fn probes_come_and_go_in_a_program_at_fixed_addresses() {
    cycles(&["-O2", "-no-pie", "-fcf-protection=full"], "attach_fixed", 20);
}

#[test]
fn probes_come_and_go_in_a_static_program() {
    cycles(&["-O2", "-static"], "attach_static", 20);
}

#[test]
fn what_a_killed_monitor_left_is_undone() {
    let program = build("attach_left", &["-O2"]);
    let target = Target::start(&program, SECONDS_MAX);
    let pid = target.pid();
    let before = text_of(pid);
    assert!(matches!(leftover::find(pid).expect("looks"), Leftover::None));
    let prepared = prepare(pid);
    let inserted = insert(pid, &prepared);
    let found = leftover::find(pid).expect("looks");
    assert!(matches!(&found, Leftover::Complete { monitor_runs: true, .. }), "{found:?}");
    assert!(leftover::undo(pid, &found).is_err(), "a running trimtab is not disturbed");
    // As if we had been killed: nobody removes, and the process id belongs to nobody.
    inserted.view().header().monitor_start.store(1, Relaxed);
    std::mem::forget(inserted);
    let found = leftover::find(pid).expect("looks");
    let removal = leftover::undo(pid, &found).expect("undoes");
    assert_eq!(removal.left_mapped_bytes, 0);
    assert_eq!(text_of(pid), before, "every byte is as before");
    assert!(matches!(leftover::find(pid).expect("looks"), Leftover::None));
    target.finish();
}

/// A program that can't be stopped when probes are to come out, as one that gets no processor, keeps them for a while; but
/// not because the trimtab that gave up runs on.
#[test]
fn what_could_not_be_taken_out_is_undone_by_whoever_looks_next() {
    let program = build("attach_stuck", &["-O2"]);
    let target = Target::start(&program, SECONDS_MAX);
    let pid = target.pid();
    let before = text_of(pid);
    let inserted = insert(pid, &prepare(pid));
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    let (held, is_held) = std::sync::mpsc::channel();
    let holder = std::thread::spawn(move || {
        // A thread that somebody else traces can't be stopped by us.
        let stopped = trimtab_os::Stopped::stop(pid).expect("stops");
        held.send(()).expect("somebody waits");
        let _over = is_over.recv();
        stopped.resume();
    });
    is_held.recv().expect("it is held");
    drop(inserted);
    assert_ne!(text_of(pid), before, "they are still in");
    drop(end);
    holder.join().expect("ends well");
    let found = leftover::find(pid).expect("looks");
    assert!(matches!(&found, Leftover::Complete { monitor_runs: false, .. }), "{found:?}");
    let removal = leftover::undo(pid, &found).expect("undoes");
    assert_eq!(removal.left_mapped_bytes, 0);
    assert_eq!(text_of(pid), before, "every byte is as before");
    assert!(matches!(leftover::find(pid).expect("looks"), Leftover::None));
    target.finish();
}
