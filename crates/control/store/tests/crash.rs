//! SIGKILL in the middle of writing: every window that was told to be stored is there, whole.
//!
//! The writer is this test binary again, running [`writer`] alone with the store's path in its environment.

mod common;

use common::{job, report};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use trimtab_store::Store;

const PATH_VARIABLE: &str = "TRIMTAB_TEST_WRITER_STORE";
const ROUNDS: u32 = 8;
/// Samples in a report: about 500 kB of JSON, many pages, so that a kill often falls inside a write.
const SAMPLES: usize = 25_000;

#[test]
fn a_killed_writer_loses_at_most_the_window_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    let mut promised = 0;
    for round in 0..ROUNDS {
        promised = run_and_kill(&path, round);
        let store = Store::open(Some(&path)).unwrap();
        let job = store.find("writer").unwrap().job;
        let stored = job.windows;
        assert!(stored == promised || stored == promised + 1, "round {round}: {promised} promised, {stored} stored");
        for number in 0..stored {
            let window = store.window(&job.id, number).unwrap();
            assert_eq!((window.window.number, window.ranks[0].iteration_times_s.len()), (number, SAMPLES));
        }
        drop(store);
        assert_sound(&path);
    }
    assert!(promised >= ROUNDS * 2);
}

/// Not a test of its own: writes windows until it is killed, and tells each on standard output once it is stored.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(PATH_VARIABLE) else { return };
    let mut store = Store::open(Some(Path::new(&path))).unwrap();
    let id = store.upsert_job(&job("/opt/writer"), "writer").unwrap();
    loop {
        let number = store.next_window(&id).unwrap();
        store.insert_window(&id, &report(number, SAMPLES)).unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "\nstored {}", number + 1).unwrap();
        out.flush().unwrap();
    }
}

/// Lets a writer store two windows or more, kills it at a moment that differs by round, and returns how many windows
/// it said the store has.
fn run_and_kill(path: &Path, round: u32) -> u32 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = |line: &String| line.strip_prefix("stored ").map(|count| count.parse::<u32>().unwrap());
    let before = lines.by_ref().filter_map(|line| told(&line)).take(2).last().unwrap();
    // Where in the write the kill falls; nothing is asserted about time.
    std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 1700));
    kill(&mut child);
    lines.filter_map(|line| told(&line)).last().unwrap_or(before)
}

fn kill(child: &mut Child) {
    use std::os::unix::process::ExitStatusExt;
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

fn assert_sound(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}
