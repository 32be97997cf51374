//! Runs and forecasts: the store's file and its twin in memory answer alike, windows update runs, old stores get the tables.

mod common;

use common::{job, report};
use std::path::Path;
use trimtab_store::{
    Companion, Error, Forecast, History, MemoryHistory, Room, Run, RunEnd, SERIES_AGE_MAX_S, SERIES_VALUES_MAX,
    SeriesName, SeriesValue, Store, site_key,
};
use trimtab_store::{KeptPressure, KnownHost, Pressured, RoutineModel, SizeForecast};
use trimtab_types::report::{LoopProgress, Neighbour, NeighbourKind, NodeShare, Report};

/// Every question, asked of a history that is empty.
type Question = fn(&mut dyn History);

const QUESTIONS: [(&str, Question); 10] = [
    ("runs come back whole", runs_come_back_whole),
    ("a later sighting adds", a_later_sighting_adds),
    ("alike", alike_runs_are_found),
    ("open", open_runs_end),
    ("forecasts", forecasts_meet_their_outcome),
    ("unknown", unknown_runs_are_errors),
    ("models", models_hosts_and_what_they_forecast_come_back),
    ("pressures", answers_to_pressure_are_of_a_program_and_a_host),
    ("series", series_are_kept_apart_and_in_order),
    ("retention", old_values_go),
];

#[test]
fn the_file_answers_all_questions() {
    for (name, question) in QUESTIONS {
        println!("{name}");
        let folder = tempfile::tempdir().unwrap();
        question(&mut Store::open(Some(&folder.path().join("trimtab.db"))).unwrap());
    }
}

#[test]
fn memory_answers_all_questions() {
    for (name, question) in QUESTIONS {
        println!("{name}");
        question(&mut MemoryHistory::default());
    }
}

fn companion(name: &str) -> Companion {
    Companion { kind: NeighbourKind::Slurm, name: name.into(), program: "lmp \"x\"".into() }
}

fn run(key: &str) -> Run {
    Run {
        key: key.into(),
        job: "particle-1".into(),
        owner: None,
        program: "/opt/particle".into(),
        build: Some("0123abcd".into()),
        arguments_hash: "ff".repeat(32),
        ranks: 2,
        hosts: vec!["node1".into(), "node2".into()],
        companions: vec![companion("12.0")],
        iterations_done: Some(u64::MAX),
        iterations_total: None,
        iterations_at_most: Some(4000),
        started_unix_s: Some(1000.0),
        seen_unix_s: Some(1010.5),
        ended: None,
    }
}

fn forecast(made_unix_s: f64) -> Forecast {
    Forecast {
        made_unix_s,
        method: "iterations".into(),
        elapsed_s: 10.5,
        iterations_done: Some(40),
        iterations_remaining: Some(360),
        end_unix_s: Some(1100.0),
        lower_unix_s: 1095.0,
        upper_unix_s: 1110.0,
        late_unix_s: 1115.0,
        because: vec!["360 iterations to come, \"0.25 s\" each".into()],
    }
}

fn answers_to_pressure_are_of_a_program_and_a_host(history: &mut dyn History) {
    let of = |build: &str, ranks: u32| Pressured { build: build.into(), arguments_hash: "ff".repeat(32), ranks };
    let kept = |host: &str, of: Pressured, made_unix_s: f64| KeptPressure {
        host: host.into(),
        of,
        program: "/opt/app".into(),
        made_unix_s,
        content: format!("{{\"made\":{made_unix_s}}}"),
    };
    assert_eq!(history.pressure("n1", &of("ab", 2)).unwrap(), None);
    let all = [kept("n1", of("ab", 2), 1.0), kept("n2", of("ab", 2), 2.0), kept("n1", Pressured::default(), 3.0)];
    for one in &all {
        history.note_pressure(one).unwrap();
    }
    history.note_pressure(&kept("n1", of("ab", 2), 4.0)).unwrap();
    assert_eq!(history.pressure("n1", &of("ab", 2)).unwrap(), Some(kept("n1", of("ab", 2), 4.0)));
    assert_eq!(history.pressure("n2", &of("ab", 2)).unwrap().as_ref(), Some(&all[1]));
    assert_eq!(history.pressure("n1", &Pressured::default()).unwrap().as_ref(), Some(&all[2]));
    assert_eq!(history.pressure("n1", &of("ab", 4)).unwrap(), None);
}

fn models_hosts_and_what_they_forecast_come_back(history: &mut dyn History) {
    let model = |name: &str, host_kind: &str, made_unix_s: f64| RoutineModel {
        name: name.into(),
        host_kind: host_kind.into(),
        command: vec!["sort".into(), "-o \"{n}\"".into()],
        made_unix_s,
        content: format!("{{\"made\":{made_unix_s}}}"),
    };
    for one in [model("sort", "a", 1.0), model("dgemm", "a", 2.0), model("sort", "b", 3.0), model("sort", "a", 4.0)] {
        history.note_model(&one).unwrap();
    }
    let wanted = [model("dgemm", "a", 2.0), model("sort", "a", 4.0), model("sort", "b", 3.0)];
    assert_eq!(history.models().unwrap(), wanted, "a later model takes the place of the earlier one");
    let host = |name: &str, kind: &str| KnownHost {
        name: name.into(),
        kind: kind.into(),
        speed: "{\"compute\":1.5}".into(),
        seen_unix_s: 5.0,
    };
    for one in [host("n2", "a"), host("n1", "a"), host("n2", "b")] {
        history.note_host(&one).unwrap();
    }
    assert_eq!(history.hosts().unwrap(), [host("n1", "a"), host("n2", "b")]);
    let forecast = |came: Option<f64>| SizeForecast {
        model: "sort".into(),
        host: "n1".into(),
        unit: "seconds".into(),
        sizes: vec!["n=4096".into(), "m=2".into()],
        made_unix_s: 6.5,
        value: 1.5,
        lower: 1.25,
        upper: 2.0,
        outside: came.is_some(),
        came,
    };
    for came in [None, Some(1.75)] {
        history.note_size_forecast(&forecast(came)).unwrap();
    }
    assert_eq!(history.size_forecasts().unwrap(), [forecast(None), forecast(Some(1.75))]);
}

fn runs_come_back_whole(history: &mut dyn History) {
    let without = Run {
        build: None,
        iterations_done: None,
        iterations_at_most: None,
        started_unix_s: None,
        seen_unix_s: None,
        ..run("other")
    };
    history.note_run(&run("k")).unwrap();
    history.note_run(&without).unwrap();
    assert_eq!(history.run("k").unwrap(), Some(run("k")));
    assert_eq!(history.run("other").unwrap(), Some(without));
    assert_eq!(history.run("K").unwrap(), None);
    history.note_seen("other", 7.5).unwrap();
    assert_eq!(history.run("other").unwrap().unwrap().seen_unix_s, Some(7.5));
}

fn a_later_sighting_adds(history: &mut dyn History) {
    history.note_run(&run("k")).unwrap();
    history.note_end("k", RunEnd { after_unix_s: 1010.5, before_unix_s: 1020.0 }).unwrap();
    let later = Run {
        companions: vec![companion("13.0"), companion("12.0")],
        hosts: vec!["node1".into()],
        iterations_total: Some(400),
        started_unix_s: None,
        seen_unix_s: Some(1050.0),
        ..run("k")
    };
    history.note_run(&later).unwrap();
    let known = history.run("k").unwrap().unwrap();
    assert_eq!(known.companions, [companion("12.0"), companion("13.0")]);
    assert_eq!((known.hosts.len(), known.iterations_total, known.started_unix_s), (1, Some(400), Some(1000.0)));
    assert_eq!((known.seen_unix_s, known.ended), (Some(1050.0), None), "it runs again, so it had not ended");
    // A window that was stored late does not turn time back.
    history.note_run(&Run { seen_unix_s: Some(5.0), ..later }).unwrap();
    assert_eq!(history.run("k").unwrap().unwrap().seen_unix_s, Some(1050.0));
}

fn alike_runs_are_found(history: &mut dyn History) {
    let others = [
        Run { build: Some("99".into()), ..run("build") },
        Run { arguments_hash: "00".repeat(32), ..run("arguments") },
        Run { ranks: 3, ..run("ranks") },
        Run { owner: Some(7), ..run("owner") },
        Run { build: None, ..run("no build") },
    ];
    for one in [run("a"), run("b"), run("c")].iter().chain(&others) {
        history.note_run(one).unwrap();
    }
    let likeness = run("x").likeness().unwrap();
    let keys = |count| -> Vec<String> {
        history.runs_alike(&likeness, count).unwrap().into_iter().map(|run| run.key).collect()
    };
    assert_eq!((keys(10), keys(2)), (vec!["c".into(), "b".into(), "a".into()], vec!["c".into(), "b".into()]));
    let all: Vec<String> = history.runs_alike_of_all(&likeness, 10).unwrap().into_iter().map(|run| run.key).collect();
    assert_eq!(all, ["owner", "c", "b", "a"], "whoever's they are");
    assert_eq!(others[4].likeness(), None, "without a build id nothing is known to be alike");
}

fn open_runs_end(history: &mut dyn History) {
    for key in ["a", "b"] {
        history.note_run(&run(key)).unwrap();
    }
    history.note_seen("a", 1090.0).unwrap();
    history.note_seen("a", 1080.0).unwrap();
    let keys: Vec<(String, Option<f64>)> =
        history.open_runs().unwrap().into_iter().map(|run| (run.key, run.seen_unix_s)).collect();
    assert_eq!(keys, [("b".to_owned(), Some(1010.5)), ("a".to_owned(), Some(1090.0))]);
    history.note_end("a", RunEnd { after_unix_s: 1090.0, before_unix_s: 1094.0 }).unwrap();
    assert_eq!(history.open_runs().unwrap().len(), 1);
    let ended = history.run("a").unwrap().unwrap();
    assert_eq!((ended.lasted_s(0.05), ended.lasted_s(0.01)), (Some(92.0), None));
    assert_eq!(run("b").lasted_s(1.0), None);
}

fn forecasts_meet_their_outcome(history: &mut dyn History) {
    for key in ["a", "b"] {
        history.note_run(&run(key)).unwrap();
    }
    let latest_only = Forecast { end_unix_s: None, iterations_done: None, ..forecast(1030.0) };
    assert_eq!(history.note_forecast("a", &forecast(1010.0)).unwrap(), 1);
    assert_eq!(history.note_forecast("b", &latest_only).unwrap(), 2);
    assert_eq!(history.note_forecast("a", &forecast(1020.0)).unwrap(), 3);
    let end = RunEnd { after_unix_s: 1101.0, before_unix_s: 1101.0 };
    history.note_end("a", end).unwrap();
    let all = history.forecasts().unwrap();
    let shown: Vec<(u64, &str, Option<RunEnd>)> =
        all.iter().map(|one| (one.number, one.run.key.as_str(), one.run.ended)).collect();
    assert_eq!(shown, [(1, "a", Some(end)), (2, "b", None), (3, "a", Some(end))]);
    assert_eq!((&all[0].forecast, &all[1].forecast), (&forecast(1010.0), &latest_only));
}

fn unknown_runs_are_errors(history: &mut dyn History) {
    let end = RunEnd { after_unix_s: 1.0, before_unix_s: 1.0 };
    let errors =
        [history.note_seen("x", 1.0), history.note_end("x", end), history.note_forecast("x", &forecast(1.0)).map(drop)];
    for error in errors {
        assert!(matches!(&error, Err(Error::NoRun { key }) if key == "x"), "{error:?}");
    }
    assert_eq!((history.forecasts().unwrap().len(), history.open_runs().unwrap().len()), (0, 0));
}

fn named(host: &str, peer: Option<&str>) -> SeriesName {
    SeriesName { host: host.into(), peer: peer.map(Into::into), figure: "share of a processor".into() }
}

fn value(at_unix_s: f64, value: f64) -> SeriesValue {
    SeriesValue { at_unix_s, value }
}

fn series_are_kept_apart_and_in_order(history: &mut dyn History) {
    let (one, other) = (named("n1", None), named("n1", Some("n2")));
    for (series, at, what) in [(&one, 10.0, 0.5), (&other, 11.0, 7.0), (&one, 20.0, 0.25), (&one, 20.0, 0.75)] {
        history.note_values(&[(series.clone(), value(at, what))]).unwrap();
    }
    assert_eq!(
        history.values(&one, 10).unwrap(),
        [value(10.0, 0.5), value(20.0, 0.75)],
        "the later one at a time counts"
    );
    assert_eq!(history.values(&one, 1).unwrap(), [value(20.0, 0.75)]);
    assert_eq!(
        (history.values(&other, 10).unwrap().len(), history.values(&named("n9", None), 10).unwrap().len()),
        (1, 0)
    );
    assert_eq!(history.series().unwrap(), [one.clone(), other]);
    let back = history.note_values(&[(one.clone(), value(30.0, 0.1)), (one.clone(), value(29.0, 0.1))]);
    assert!(matches!(&back, Err(Error::ClockBack { back_s: 1, .. })), "{back:?}");
    for bad in [value(30.0, f64::NAN), value(f64::INFINITY, 1.0)] {
        assert!(matches!(history.note_values(&[(one.clone(), bad)]), Err(Error::NoNumber { .. })), "{bad:?}");
    }
    assert_eq!(history.values(&one, 10).unwrap().len(), 2, "nothing of it was stored");
}

fn old_values_go(history: &mut dyn History) {
    let series = named("n1", None);
    history
        .note_values(&[(series.clone(), value(0.0, 1.0)), (series.clone(), value(SERIES_AGE_MAX_S + 1.0, 2.0))])
        .unwrap();
    assert_eq!(history.values(&series, 10).unwrap(), [value(SERIES_AGE_MAX_S + 1.0, 2.0)], "too old");
    let crowded = named("n2", None);
    let many: Vec<_> = (0..SERIES_VALUES_MAX + 5).map(|at| (crowded.clone(), value(f64::from(at), 1.0))).collect();
    history.note_values(&many).unwrap();
    let kept = history.values(&crowded, u32::MAX).unwrap();
    assert_eq!((kept.len() as u32, kept[0].at_unix_s), (SERIES_VALUES_MAX, 5.0), "too many");
}

fn measured(number: u32, done: u64) -> Report {
    let mut report = report(number, 10);
    report.window.progress =
        Some(LoopProgress { done: Some(done), total: Some(900), total_at_most: Some(900), ..LoopProgress::default() });
    let neighbour =
        Neighbour { kind: NeighbourKind::Mpi, name: format!("{done}"), program: "lmp".into(), ..Neighbour::default() };
    report.nodes = vec![NodeShare { neighbours: vec![neighbour], ..NodeShare::default() }];
    report
}

#[test]
fn every_window_brings_its_run_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&folder.path().join("trimtab.db"))).unwrap();
    let id = store.upsert_job(&job("/opt/particle"), "k").unwrap();
    assert_eq!(store.run("k").unwrap(), None, "no window yet");
    for (number, done) in [(0, 120), (1, 300)] {
        store.insert_window(&id, &measured(number, done)).unwrap();
    }
    let run = store.run("k").unwrap().unwrap();
    let counts = (run.iterations_done, run.iterations_total, run.iterations_at_most);
    assert_eq!(counts, (Some(300), Some(900), Some(900)));
    assert_eq!((run.job.as_str(), run.build.as_deref(), run.ranks), ("particle-1", Some("0123abcd"), 2));
    assert_eq!(run.companions.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["120", "300"]);
    assert_eq!((run.started_unix_s, run.seen_unix_s), (Some(1_795_234_000.25), Some(1_795_234_101.5 + 0.0316)));
    assert!(!run.arguments_hash.contains("mesh"), "arguments are not to be read in it");
    store.note_forecast("k", &forecast(1.0)).unwrap();
    store.delete_job(&id).unwrap();
    assert_eq!((store.run("k").unwrap(), store.forecasts().unwrap().len()), (None, 0), "a deleted job leaves nothing");
}

#[test]
fn a_run_outlives_the_windows_that_made_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&folder.path().join("site.db"))).unwrap();
    let one = Room { window_count_max: 1, byte_count_max: 1 << 30 };
    for key in ["old", "new"] {
        store.file(7, key, &measured(0, 5), one).unwrap();
    }
    assert_eq!(store.list_jobs_of(Some(7), 10).unwrap().len(), 1);
    let run = store.run(&site_key(7, "old")).unwrap().unwrap();
    assert_eq!((run.owner, run.iterations_done), (Some(7), Some(5)));
    assert_eq!(store.runs_alike(&run.likeness().unwrap(), 10).unwrap().len(), 2);
}

/// A store as earlier versions left it: their own SQL, and a job with a window.
fn old_store(path: &Path, migrations: &[&str]) {
    let connection = rusqlite::Connection::open(path).unwrap();
    migrations.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
    let report = serde_json::to_string(&measured(0, 40)).unwrap();
    connection
        .execute_batch(
            "INSERT INTO jobs (id, key, program, arguments, ranks, mpi, hosts, builds, started_unix_s) \
             VALUES ('particle-1', 'k', '/opt/particle', '[\"-n\"]', 2, 'MPICH 4.0.2', '[\"node1\"]', '[]', 7.5); \
             INSERT INTO processes VALUES (1, 0, 11, 'node1', 17);",
        )
        .unwrap();
    let window = "INSERT INTO windows (job, batch, triggered_by, started_unix_s, valid, ended_by, iterations, report) \
                  VALUES (1, 0, 'attach', 9.5, 1, 'iterations', 10, ?1)";
    connection.execute(window, [report]).unwrap();
    // The fourth version did away with them.
    if migrations.len() < 4 {
        connection.execute_batch("INSERT INTO markers VALUES (1, 'MPI_Send', NULL, NULL, 'detected')").unwrap();
    }
    connection.pragma_update(None, "application_id", 0x7472_696d).unwrap();
    connection.pragma_update(None, "user_version", migrations.len() as i64).unwrap();
}

#[test]
fn stores_of_earlier_versions_are_brought_up_to_date() {
    let all = [
        include_str!("../migrations/0001_jobs_and_windows.sql"),
        include_str!("../migrations/0002_events.sql"),
        include_str!("../migrations/0003_owners.sql"),
        include_str!("../migrations/0004_runs_and_forecasts.sql"),
        include_str!("../migrations/0005_models.sql"),
    ];
    for version in 1..=all.len() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trimtab.db");
        old_store(&path, &all[..version]);
        assert!(matches!(Store::open_to_read(Some(&path)), Err(Error::Older { .. })), "version {version}");
        let mut store = Store::open_to_show(Some(&path)).unwrap();
        let id = store.find("particle").unwrap().job.id;
        let mut expected = measured(0, 40);
        assert_eq!(store.window(&id, 0).unwrap(), expected, "version {version}");
        assert_eq!((store.processes(&id).unwrap().len(), store.forecasts().unwrap().len()), (1, 0));
        store.note_values(&[(named("n1", None), value(1.0, 0.5))]).unwrap();
        assert_eq!(store.series().unwrap(), [named("n1", None)]);
        // The next window of a job that runs on makes its run.
        expected.window.number = 1;
        store.insert_window(&id, &expected).unwrap();
        assert_eq!(store.run("k").unwrap().unwrap().iterations_done, Some(40));
        drop(store);
        let markers = "SELECT count(*) FROM sqlite_schema WHERE name = 'markers'";
        let raw = rusqlite::Connection::open(&path).unwrap();
        assert_eq!(raw.query_row(markers, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}

#[test]
fn a_time_that_is_no_number_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&folder.path().join("trimtab.db"))).unwrap();
    store.note_run(&run("k")).unwrap();
    let bad = Forecast { upper_unix_s: f64::NAN, ..forecast(1.0) };
    assert!(store.note_forecast("k", &bad).is_err());
    let backwards = RunEnd { after_unix_s: 9.0, before_unix_s: 8.0 };
    assert!(store.note_end("k", backwards).is_err());
    assert_eq!((store.forecasts().unwrap().len(), store.open_runs().unwrap().len()), (0, 1));
}
