//! When scripts record: `when`, `start`, `stop`, `record while`, `for`.
//!
//! Next: `language` for what they do then.

mod common;

use common::{GLOBALS, Run};
use trimtab_snippet::Origin;
use trimtab_snippet::ir::{Area, process_word};

fn stopped(run: &Run) -> bool {
    run.word(Area::Process, process_word::STOPPED) != 0
}

#[test]
fn a_probe_runs_when_its_condition_holds() {
    let mut run = Run::new("entry solve when ($count > 2) { n++ } exit solve when (elapsed >= 10) { slow++ }");
    for (count, ticks) in [(1, 5), (3, 10), (4, 9), (0, 20)] {
        run.entry("solve", &[count]);
        run.machine.now_ticks += ticks;
        run.exit("solve", 0);
    }
    assert_eq!((run.int("n"), run.int("slow")), (2, 2));
}

#[test]
fn recording_starts_after_so_many_hits() {
    let mut run = Run::new("start after 3 hits of solve; entry solve { n++ } exit solve { m++ }");
    assert!(run.compiled.recording.is_some());
    assert_eq!(run.compiled.origins, [Origin::Start, Origin::Probe, Origin::Probe]);
    for _ in 0..5 {
        run.entry("solve", &[]);
        run.exit("solve", 0);
    }
    assert_eq!((run.int("n"), run.int("m")), (2, 2));
}

#[test]
fn recording_stops_after_so_many_hits() {
    let mut run = Run::new("stop after 3 hits of exit solve, norm; entry solve { n++ }");
    assert_eq!(run.compiled.recording, None);
    run.exit("solve", 0);
    run.entry("norm", &[]);
    run.exit("norm", 0);
    assert!(!stopped(&run), "an entry of norm is not meant");
    run.exit("solve", 0);
    assert!(stopped(&run));
}

#[test]
fn hits_count_only_while_recording() {
    let mut run = Run::new("start after 1 hit of norm; stop after 2 hits of solve; entry solve { n++ }");
    for _ in 0..4 {
        run.entry("solve", &[]);
    }
    assert!(!stopped(&run));
    run.entry("norm", &[]);
    run.entry("norm", &[]);
    run.entry("solve", &[]);
    assert!(!stopped(&run));
    run.entry("solve", &[]);
    assert!(stopped(&run));
    assert_eq!(run.int("n"), 2);
}

#[test]
fn expressions_start_and_stop_recording() {
    let mut run = Run::new(
        "start when (::phase == PHASE_SOLVE); stop when (n >= 3); stop when (rank == 5); entry solve { n++; return; }",
    );
    run.entry("solve", &[]);
    assert_eq!(run.int("n"), 0);
    run.poke(GLOBALS, &2_i32.to_le_bytes());
    run.entry("solve", &[]);
    run.poke(GLOBALS, &9_i32.to_le_bytes());
    run.entry("solve", &[]);
    assert_eq!((run.int("n"), stopped(&run)), (2, false));
    run.entry("solve", &[]);
    assert_eq!((run.int("n"), stopped(&run)), (3, true));
}

#[test]
fn recording_pauses_while_its_condition_fails() {
    let mut run = Run::new("record while (::phase == 1); record while (::phase < 5); entry solve { n++ } once { m++ }");
    for phase in [0, 1, 1, 5] {
        run.poke(GLOBALS, &i32::to_le_bytes(phase));
        run.entry("solve", &[]);
        run.at(trimtab_snippet::BodyPlace::Once);
    }
    assert_eq!((run.int("n"), run.int("m")), (2, 2));
}

#[test]
fn the_shortest_duration_holds() {
    assert_eq!(Run::new("for 10 s; for 1.5ms; once {}").compiled.duration_us, Some(1500));
    assert_eq!(Run::new("once {}").compiled.duration_us, None);
}

#[test]
fn implied_variables_are_no_results() {
    let run = Run::new("start after 1 hit of norm; stop after 2 hits of norm; exit solve { t = hist(elapsed) }");
    assert_eq!(run.compiled.unit.variables.len(), 5);
    assert_eq!(run.results().into_keys().collect::<Vec<_>>(), ["t"]);
}
