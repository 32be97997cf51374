//! The store: windows of one job add up, are shown again in every form, and a kill loses at most the newest.
//!
//! Next: `common_trace` for running the binary; the store's own tests are in its crate.

mod common_trace;

use common_trace::{Home, Job, alone, probes_mapped, steady, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use trimtab_specimens::Mpi;

fn json(home: &Home, arguments: &[&str]) -> Value {
    let outcome = home.run(arguments);
    assert_eq!((outcome.code(), &*outcome.stderr), (0, ""), "{arguments:?}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {outcome:?}"))
}

/// Measures the job until the store holds one more window; its number.
fn attach(home: &Home, job: &Job) -> u64 {
    let shown = json(home, &["attach", "--iterations", "3", "--json", "-", &job.launcher()]);
    shown["window"]["batch"].as_u64().expect("a number")
}

#[test]
fn windows_add_up_and_are_shown_again() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    home.run(&["list"]).says("nothing yet", 2, &["there is no store", "trimtab attach PID"]);
    home.run(&["report"]).says("nothing yet", 2, &["there is no store"]);
    let first = json(&home, &["attach", "--iterations", "3", "--json", "-", &job.launcher()]);
    let name = first["job"]["id"].as_str().expect("an id").to_owned();
    assert_eq!((&first["window"]["batch"], &first["window"]["trigger"]), (&Value::from(0), &Value::from("attach")));
    let path = home.path("second.json");
    home.run(&["measure", "--iterations", "4", "--json", &path.to_string_lossy(), &name]).reports(
        "measure",
        0,
        &[&name],
    );
    let second: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
    assert_eq!((&second["window"]["batch"], &second["window"]["trigger"]), (&Value::from(1), &Value::from("measure")));
    assert_eq!(second["window"]["iterations"], 4);
    assert_eq!(second["job"]["id"], first["job"]["id"], "another window of the same job");

    let listed = json(&home, &["list", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!((&listed[0]["id"], listed[0]["windows"].as_u64()), (&first["job"]["id"], Some(2)));
    home.run(&["list"]).reports("list", 0, &[&name, "steady"]);
    assert_eq!(json(&home, &["report", "--json"]), second, "the newest window");
    assert_eq!(json(&home, &["report", "--json", &format!("{name}/0")]), first, "the first window");
    home.run(&["report", &name]).reports("report", 0, &["4 iterations", "communication"]);
    let page = home.path("page.html");
    home.run(&["report", "--html", &page.to_string_lossy()]).reports("page", 0, &[]);
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.contains("<svg") && !page.contains("src=\"http") && !page.contains("href=\"http"), "self-contained");

    home.run(&["report", &format!("{name}/7")]).says("no such window", 2, &["has no window 7"]);
    home.run(&["report", "other-1"]).says("no such job", 2, &["no job called", "`trimtab list`"]);
    job.ends_well("store");
    home.run(&["measure", &name]).says("job has ended", 2, &["has ended", "trimtab report"]);
}

/// SQLite keeps the version of our schema at this place of its header, highest byte first.
const SCHEMA_VERSION_AT: usize = 60;

#[test]
fn a_newer_store_is_left_alone() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let path = home.path("s.db");
    let store = path.to_string_lossy().into_owned();
    home.run(&["attach", "--iterations", "3", "--store", &store, &job.launcher()]).reports("first", 0, &[]);
    let mut bytes = fs::read(&path).expect("the store");
    bytes[SCHEMA_VERSION_AT..SCHEMA_VERSION_AT + 4].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&path, &bytes).expect("the store");
    for arguments in [&["attach", &*job.launcher()][..], &["list"], &["report"]] {
        let all: Vec<&str> = arguments.iter().copied().chain(["--store", &store]).collect();
        home.run(&all).says("newer", 2, &["has schema version 99", "use the newer trimtab"]);
    }
    assert_eq!(fs::read(&path).expect("the store"), bytes, "not one byte was changed");
    job.ends_well("newer store");
}

/// Kills around the moment of writing: the probes are out, the window is about to be kept.
#[test]
fn a_kill_while_writing_loses_at_most_that_window() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let mut known = attach(&home, &job) + 1;
    let mut lost = 0;
    for kill in 0..12u64 {
        let mut started = home.start(&["attach", "--iterations", "3", &job.launcher()]);
        let mapped = || job.ranks.iter().any(|rank| probes_mapped(*rank) > 0);
        until("patching", || mapped() || started.has_ended());
        until("restoring", || !mapped() || started.has_ended());
        sleep(Duration::from_micros(kill * 700));
        started.signal(Signal::KILL);
        started.wait();
        let listed = json(&home, &["list", "--json"]);
        let now = listed[0]["windows"].as_u64().expect("a number");
        assert!(now == known || now == known + 1, "kill {kill}: {known} windows, then {now}");
        lost += u64::from(now == known);
        known = now;
        for batch in 0..known {
            let name = listed[0]["id"].as_str().expect("an id");
            let report = json(&home, &["report", "--json", &format!("{name}/{batch}")]);
            assert_eq!(report["window"]["batch"], batch, "kill {kill}");
        }
    }
    println!("12 kills lost {lost} windows");
    assert_eq!(attach(&home, &job), known, "the next window has the next number");
    job.ends_well("kills while writing");
}
