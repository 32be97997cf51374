//! Tests that need the connection itself: a full, a locked and a half-written store.
//!
//! Next: `tests/` beside `src/` for what needs only the public functions.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[path = "../../tests/common/mod.rs"]
mod common;

const STOPPED_WRITER_STORE: &str = "TRIMTAB_TEST_STOPPED_WRITER_STORE";

#[test]
fn a_writer_killed_in_the_middle_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    let mut store = Store::open(Some(&path)).unwrap();
    let id = store.upsert_job(&job(), "key").unwrap();
    store.insert_window(&id, &common::report(0, 1000)).unwrap();
    drop(store);
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::stopped_writer", "--nocapture"])
        .env(STOPPED_WRITER_STORE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "in the middle"), "the writer did not get there");
    writer.kill().unwrap();
    writer.wait().unwrap();
    let store = Store::open(Some(&path)).unwrap();
    let sound: String = store.connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    assert_eq!(store.windows(&id).unwrap().len(), 1);
    assert_eq!(store.window(&id, 0).unwrap().ranks[0].iteration_times_s.len(), 1000);
}

/// Not a test of its own: replaces the window by another, half of it on the disk, says so, and waits to be killed.
#[test]
fn stopped_writer() {
    let Some(path) = std::env::var_os(STOPPED_WRITER_STORE) else { return };
    let mut store = Store::open(Some(Path::new(&path))).unwrap();
    // With a cache of a few pages the window's pages reach the disk before the commit.
    store.connection.pragma_update(None, "cache_size", 4).unwrap();
    let report = common::report(1, 50_000);
    let text = rows::report_text(&report).unwrap();
    let stop = |transaction: &Transaction<'_>| {
        // A window that was only appended would be ignored until its commit anyway: change old pages too.
        transaction.execute("DELETE FROM windows", [])?;
        add_window(transaction, 1, &report, &text)?;
        let mut out = std::io::stdout();
        writeln!(out, "\nin the middle").unwrap();
        out.flush().unwrap();
        loop {
            std::thread::park();
        }
    };
    store.write::<()>("writing half a window", stop).unwrap();
}

fn job() -> Job {
    let (mpi, hosts) = ("MPICH 4.0.2".to_string(), vec!["node1".to_string()]);
    let (arguments, builds) = (vec!["-n".to_string()], Vec::new());
    Job {
        id: String::new(),
        program: "/opt/app".into(),
        arguments,
        ranks: 2,
        mpi,
        hosts,
        builds,
        started_unix_s: Some(1.5),
    }
}

/// Processes enough to fill many pages.
fn many_processes() -> Vec<Process> {
    let process = |rank| Process {
        rank: trimtab_types::Rank(rank),
        pid: trimtab_types::Pid(1),
        host: "h".repeat(200),
        start_ticks: 7,
    };
    (0..4096).map(process).collect()
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.db");
    let mut store = Store::open(Some(&path)).unwrap();
    let id = store.upsert_job(&job(), "key").unwrap();
    store.set_processes(&id, &many_processes()[..3]).unwrap();
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let error = store.set_processes(&id, &many_processes()).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert_eq!(store.processes(&id).unwrap(), many_processes()[..3]);
    drop(store);
    assert_eq!(Store::open(Some(&path)).unwrap().processes(&id).unwrap().len(), 3);
}

#[test]
fn a_locked_store_is_busy_and_retryable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy.db");
    let (mut one, mut other) = (Store::open(Some(&path)).unwrap(), Store::open(Some(&path)).unwrap());
    other.connection.busy_timeout(Duration::from_millis(1)).unwrap();
    let lock = one.connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = other.upsert_job(&job(), "key").unwrap_err();
    assert!(matches!(error, Error::Busy { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(other.list_jobs().unwrap(), [], "readers do not wait for writers");
    drop(lock);
    other.upsert_job(&job(), "key").unwrap();
}

#[test]
fn writes_are_durable_when_they_return() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&folder.path().join("new.db"))).unwrap();
    let synchronous: i64 = store.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(synchronous, 2, "FULL");
}

#[test]
fn odd_paths_survive_in_a_uri() {
    assert_eq!(immutable_address(Path::new("/a b/c?d#é.db")), "file:///a%20b/c%3Fd%23%C3%A9.db?immutable=1");
}
