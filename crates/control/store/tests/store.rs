//! Everything that goes in comes out: jobs, windows, processes, short names, two users at once.

mod common;

use common::{job, report};
use std::path::{Path, PathBuf};
use trimtab_store::{Error, JobId, Process, Room, Store, WindowEvent, site_key};
use trimtab_types::report::{EventKind, Report};
use trimtab_types::{Pid, Rank};

struct RankPlace {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> RankPlace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimtab.db");
    RankPlace { _folder: folder, path }
}

fn open(path: &Path) -> Store {
    Store::open(Some(path)).unwrap()
}

#[test]
fn a_job_is_found_again_by_its_key() {
    let place = place();
    let mut store = open(&place.path);
    let first = store.upsert_job(&job("/opt/particle"), "node1:1:7").unwrap();
    let other = store.upsert_job(&job("/opt/particle"), "node1:2:9").unwrap();
    let mut changed = job("/opt/particle");
    changed.hosts.push("node3".into());
    let again = open(&place.path).upsert_job(&changed, "node1:1:7").unwrap();
    let third = store.upsert_job(&job("/opt/lmp"), "node1:3:9").unwrap();
    assert_eq!(
        [&first, &other, &again, &third].map(JobId::as_str),
        ["particle-1", "particle-2", "particle-1", "lmp-3"]
    );
    let expected = trimtab_types::report::Job { id: "particle-1".into(), ..changed };
    assert_eq!(store.job(&first).unwrap().job, expected);
    assert_eq!(store.job(&first).unwrap().key, "node1:1:7");
}

#[test]
fn windows_come_back_whole() {
    let place = place();
    let mut store = open(&place.path);
    let id = store.upsert_job(&job("/opt/particle"), "k").unwrap();
    assert_eq!((store.next_window(&id).unwrap(), store.newest_window(None).unwrap()), (0, None));
    for number in 0..3 {
        assert_eq!(store.next_window(&id).unwrap(), number);
        let mut window = report(number, 10);
        window.window.event = (number == 1).then(came);
        assert_eq!(store.insert_window(&id, &window).unwrap(), number);
    }
    let store = open(&place.path);
    let mut expected = report(1, 10);
    expected.window.event = Some(came());
    expected.job.id = id.to_string();
    assert_eq!(store.window(&id, 1).unwrap(), expected);
    assert_eq!(store.newest_window(Some(&id)).unwrap().unwrap().window.number, 2);
    let lines = store.windows(&id).unwrap();
    assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [0, 1, 2]);
    let line = &lines[1];
    assert_eq!((line.trigger.as_str(), line.valid, line.iterations), ("attach", true, Some(10)));
    assert_eq!((line.communication_fraction, line.time_per_iteration_s), (Some(0.386), Some(3.16e-3)));
    assert_eq!((line.started_unix_s, line.ended_by.word()), (Some(1_795_234_101.5), "iterations"));
    assert_eq!(line.marker.as_deref(), Some("MPI_Sendrecv at particle+0x1234"));
    let event = WindowEvent { kind: EventKind::JobStart, value: "Slurm job 12".into(), at_unix_s: 7.5 };
    assert_eq!((&lines[0].event, &line.event), (&None, &Some(event)));
}

fn came() -> trimtab_types::report::Event {
    trimtab_types::report::Event {
        kind: EventKind::JobStart,
        condition: "job-start".into(),
        value: "Slurm job 12".into(),
        at_unix_s: 7.5,
    }
}

#[test]
fn a_taken_number_gives_the_next() {
    let place = place();
    let mut store = open(&place.path);
    let id = store.upsert_job(&job("/opt/particle"), "k").unwrap();
    assert_eq!(store.insert_window(&id, &report(0, 1)).unwrap(), 0);
    assert_eq!(store.insert_window(&id, &report(0, 2)).unwrap(), 1);
    let second = store.window(&id, 1).unwrap();
    assert_eq!((second.window.number, second.ranks[0].iteration_times_s.len()), (1, 2));
    assert_eq!(store.window(&id, 0).unwrap().ranks[0].iteration_times_s.len(), 1);
}

#[test]
fn a_report_that_json_cannot_hold_is_refused() {
    let place = place();
    let mut store = open(&place.path);
    let id = store.upsert_job(&job("/opt/particle"), "k").unwrap();
    let mut bad = report(0, 1);
    bad.window.duration_s = f64::NAN;
    let error = store.insert_window(&id, &bad).unwrap_err();
    assert!(matches!(error, Error::UnstorableReport { window: 0, .. }), "{error:?}");
    assert_eq!(store.windows(&id).unwrap(), []);
}

#[test]
fn processes_are_remembered() {
    let place = place();
    let mut store = open(&place.path);
    let id = store.upsert_job(&job("/opt/particle"), "k").unwrap();
    assert_eq!(store.processes(&id).unwrap(), vec![]);
    let process = |rank, start_ticks| Process { rank: Rank(rank), pid: Pid(100), host: "node1".into(), start_ticks };
    store.set_processes(&id, &[process(2, 3), process(0, 1), process(1, 2)]).unwrap();
    store.set_processes(&id, &[process(1, u64::MAX), process(0, 1)]).unwrap();
    assert_eq!(store.processes(&id).unwrap(), [process(0, 1), process(1, u64::MAX)]);
}

#[test]
fn short_names_are_understood() {
    let place = place();
    let mut store = open(&place.path);
    for number in 1..=31 {
        let program = if number == 2 { "/opt/lmp" } else { "/opt/particle" };
        store.upsert_job(&job(program), &format!("k{number}")).unwrap();
    }
    let third = store.find("particle-3").unwrap().job.id;
    store.insert_window(&third, &report(0, 1)).unwrap();
    let rows = [
        ("whole id", "particle-31", "particle-31 None"),
        ("whole id that begins others", "particle-3", "particle-3 None"),
        ("number", "31", "particle-31 None"),
        ("beginning", "l", "lmp-2 None"),
        ("capitals", "LMP-2", "lmp-2 None"),
        ("window", "3/0", "particle-3 Some(0)"),
        ("no such window", "3/7", "job particle-3 has no window 7; it has only window 0"),
        (
            "no window at all",
            "2/0",
            "job lmp-2 has no window 0; it has none yet: measure one with `trimtab measure JOB`",
        ),
        ("several", "particle-1", "particle-1 None"),
        (
            "too short",
            "part",
            "\"part\" could be particle-31, particle-30, particle-29, particle-28, particle-27, particle-26, particle-25, \
             particle-24; type one of these",
        ),
        ("none", "hpcc", "no job called \"hpcc\" in the store STORE; `trimtab list` shows the jobs"),
        ("empty", "", "no job called \"\" in the store STORE; `trimtab list` shows the jobs"),
        ("pattern", "%", "no job called \"%\" in the store STORE; `trimtab list` shows the jobs"),
    ];
    for (name, text, expected) in rows {
        let found = match store.find(text) {
            Ok(found) => format!("{} {:?}", found.job.id, found.window),
            Err(error) => error.to_string().replace(place.path.to_str().unwrap(), "STORE"),
        };
        assert_eq!(found, expected, "{name}");
    }
    store.delete_job(&third).unwrap();
    let error = store.find("particle-3").unwrap_err();
    assert!(matches!(error, Error::NoSuchJob { .. }), "a deleted job's id is not the beginning of another: {error:?}");
}

#[test]
fn a_deleted_job_leaves_nothing_and_its_name_is_not_given_again() {
    let place = place();
    let mut store = open(&place.path);
    let kept = store.upsert_job(&job("/opt/particle"), "kept").unwrap();
    let gone = store.upsert_job(&job("/opt/particle"), "gone").unwrap();
    for id in [&kept, &gone] {
        store.insert_window(id, &report(0, 100_000)).unwrap();
    }
    store.vacuum().unwrap();
    let full_size = std::fs::metadata(&place.path).unwrap().len();
    store.delete_job(&gone).unwrap();
    store.vacuum().unwrap();
    let size = std::fs::metadata(&place.path).unwrap().len();
    assert!(size < full_size * 6 / 10, "{size} of {full_size} bytes left");
    assert!(matches!(store.windows(&gone), Err(Error::NoSuchJob { .. })));
    assert!(matches!(store.insert_window(&gone, &report(1, 1)), Err(Error::NoSuchJob { .. })));
    assert_eq!(store.upsert_job(&job("/opt/particle"), "gone").unwrap().as_str(), "particle-3");
    assert_eq!(store.windows(&kept).unwrap().len(), 1);
}

#[test]
fn jobs_are_listed_newest_window_first() {
    let place = place();
    let mut store = open(&place.path);
    let ids: Vec<JobId> =
        (0..4).map(|number| store.upsert_job(&job("/opt/app"), &format!("k{number}")).unwrap()).collect();
    for (place, number) in [(1, 0), (2, 0), (1, 1)] {
        store.insert_window(&ids[place], &report(number, 1)).unwrap();
    }
    let listed: Vec<(String, u32, Option<u32>)> = store
        .list_jobs()
        .unwrap()
        .into_iter()
        .map(|job| (job.id.to_string(), job.windows, job.newest.map(|window| window.number)))
        .collect();
    let expected = [("app-2", 2, Some(1)), ("app-3", 1, Some(0)), ("app-4", 0, None), ("app-1", 0, None)];
    assert_eq!(listed, expected.map(|(id, windows, newest)| (id.to_string(), windows, newest)));
}

#[test]
fn many_users_at_once_lose_nothing() {
    const USERS: usize = 6;
    const WINDOWS: usize = 20;
    let place = place();
    // All open the same file that is not there yet: creation and migration race too.
    let stored: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS)
            .map(|user| {
                let path = &place.path;
                scope.spawn(move || {
                    let mut store = open(path);
                    store.upsert_job(&job("/opt/own"), &format!("own {user}")).unwrap();
                    let shared = store.upsert_job(&job("/opt/shared"), "shared").unwrap();
                    let write = |_| {
                        let number = store.next_window(&shared).unwrap();
                        store.insert_window(&shared, &report(number, 50)).unwrap()
                    };
                    (0..WINDOWS).map(write).collect()
                })
            })
            .collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    });
    let mut batches: Vec<u32> = stored.into_iter().flatten().collect();
    batches.sort_unstable();
    let all: Vec<u32> = (0..(USERS * WINDOWS) as u32).collect();
    assert_eq!(batches, all, "every window got a number of its own");
    let store = open(&place.path);
    let shared = store.find("shared").unwrap().job;
    assert_eq!((shared.windows as usize, store.list_jobs().unwrap().len()), (USERS * WINDOWS, USERS + 1));
    for number in all {
        assert_eq!(store.window(&shared.id, number).unwrap().window.number, number);
    }
}

#[test]
fn the_first_shape_of_the_store_is_still_read() {
    let place = place();
    let fixture = rusqlite::Connection::open(&place.path).unwrap();
    fixture.execute_batch(include_str!("fixtures/v1.sql")).unwrap();
    drop(fixture);
    let store = open(&place.path);
    let jobs = store.list_jobs().unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["particle-1", "hpcc-4"]);
    let particle = &jobs[0];
    assert_eq!(particle.job.arguments, ["--mesh", "256"]);
    let report: Report = store.window(&particle.id, 0).unwrap();
    assert_eq!((report.window.number, report.job.ranks, report.functions[0].calls), (0, 2, Some(40)));
    assert_eq!(store.processes(&particle.id).unwrap()[1].pid, Pid(4712));
}

const PLENTY: Room = Room { window_count_max: 100, byte_count_max: 1 << 30 };

#[test]
fn a_site_s_jobs_are_their_owners() {
    let place = place();
    let mut store = open(&place.path);
    // The same words of two users are two jobs; windows are counted by the site, whatever number they had at home.
    let (first, number) = store.file(7, "slurm 1", &report(5, 1), PLENTY).unwrap();
    let (other, _) = store.file(8, "slurm 1", &report(5, 1), PLENTY).unwrap();
    let (again, next) = store.file(7, "slurm 1", &report(5, 1), PLENTY).unwrap();
    assert_eq!((first.as_str(), other.as_str(), &again), ("particle-1", "particle-2", &first));
    assert_eq!((number, next), (0, 1));
    let ids = |owner| -> Vec<String> {
        store.list_jobs_of(owner, 10).unwrap().iter().map(|job| job.id.to_string()).collect()
    };
    assert_eq!(ids(Some(7)), ["particle-1"]);
    assert_eq!(ids(None), ["particle-1", "particle-2"], "the newest window first");
    assert_eq!((ids(Some(9)).len(), store.list_jobs_of(None, 1).unwrap().len()), (0, 1));
    let found = store.job_called("particle-2").unwrap();
    assert_eq!((found.owner, found.windows, found.key), (Some(8), 1, site_key(8, "slurm 1")));
    assert!(matches!(store.job_called("particle"), Err(Error::NoSuchJob { .. })), "the whole name only");
    assert_eq!(store.window(&first, 1).unwrap().window.number, 1);
}

#[test]
fn an_owner_s_oldest_windows_make_room() {
    let place = place();
    let mut store = open(&place.path);
    let few = Room { window_count_max: 3, ..PLENTY };
    store.file(8, "k", &report(0, 1), few).unwrap();
    let (old, _) = store.file(7, "old", &report(0, 1), few).unwrap();
    for _ in 0..3 {
        store.file(7, "new", &report(0, 1), few).unwrap();
    }
    assert!(matches!(store.job(&old), Err(Error::NoSuchJob { .. })), "a job without windows goes too");
    let kept = |store: &Store, owner| store.list_jobs_of(Some(owner), 10).unwrap()[0].windows;
    assert_eq!((kept(&store, 7), kept(&store, 8)), (3, 1), "nobody makes room for somebody else");
    let small = Room { byte_count_max: 1, ..PLENTY };
    store.file(7, "new", &report(0, 1000), small).unwrap();
    assert_eq!((kept(&store, 7), kept(&store, 8)), (1, 1), "what was filed last always has room");
}
