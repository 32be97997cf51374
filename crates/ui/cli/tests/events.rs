//! Windows that wait for something, two jobs on one machine, and two windows beside each other.
//!
//! Next: `common_trace` for running the binary; `trimtab-trigger` and `trimtab-neighbours` for what is tested here as a
//! whole.

mod common_trace;

use common_trace::{Home, Job, Outcome, Started, alone, probes_mapped, signal_to, steady, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use trimtab_specimens::Mpi;

fn json(home: &Home, arguments: &[&str]) -> Value {
    let outcome = home.run(arguments);
    assert_eq!(outcome.code(), 0, "{arguments:?}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {outcome:?}"))
}

/// A home whose calls go through a folder of its own.
struct TestPlace {
    home: Home,
}

impl TestPlace {
    fn new() -> TestPlace {
        let home = Home::new();
        fs::create_dir(home.path("run")).expect("a folder");
        TestPlace { home }
    }

    fn start(&self, arguments: &[&str]) -> Started {
        let mut command = self.home.command(arguments);
        command.env("XDG_RUNTIME_DIR", self.home.path("run"));
        self.home.start_command(command)
    }

    /// `trimtab trigger`: exit code and what it said.
    fn trigger(&self, arguments: &[&str]) -> (i32, String) {
        let words: Vec<&str> = ["trigger"].into_iter().chain(arguments.iter().copied()).collect();
        let outcome = self.start(&words).wait();
        (outcome.code(), outcome.stderr)
    }

    /// Starts `trimtab attach` and waits until it waits; in the program there is nothing then.
    fn waiting(&self, job: &Job, arguments: &[&str]) -> Started {
        let launcher = job.launcher();
        let words: Vec<&str> = ["attach", "--iterations", "5"]
            .into_iter()
            .chain(arguments.iter().copied())
            .chain([launcher.as_str()])
            .collect();
        let mut started = self.start(&words);
        until("waiting", || started.stderr().contains("waiting for") || started.has_ended());
        assert!(!started.has_ended(), "{}", started.stderr());
        job.goes_on("while it waits");
        started
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a report")).collect()
}

/// The neighbour of a report that is the MPI job of this launcher. Others may run on the machine, too.
fn neighbour<'a>(report: &'a Value, launcher: &str) -> Option<&'a Value> {
    let nodes = report["nodes"].as_array().expect("machines");
    let mut all = nodes.iter().flat_map(|node| node["neighbours"].as_array().expect("a list"));
    all.find(|one| one["kind"] == "mpi" && one["name"] == launcher)
}

/// The first window whose event is of this kind, and of the MPI job of this launcher.
fn window_of(file: &Path, kind: &str, launcher: &str) -> Option<Value> {
    let job = format!("MPI job of process {launcher} (");
    lines(file).into_iter().find(|report| {
        let event = &report["window"]["event"];
        event["kind"] == kind && event["value"].as_str().is_some_and(|value| value.contains(&job))
    })
}

#[test]
fn another_job_that_comes_and_goes_triggers_windows() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    let file = place.home.path("windows.json");
    let words = ["--when", "job-start,job-end", "--windows", "0", "--json", &file.to_string_lossy()];
    let waiting = place.waiting(&job, &words);
    let other = steady(Mpi::OpenMpi, "");
    let launcher = other.launcher();
    until("a window because a job came", || window_of(&file, "job-start", &launcher).is_some());
    other.ends_well("the other job");
    until("a window because it went", || window_of(&file, "job-end", &launcher).is_some());
    waiting.signal(Signal::INT);
    let outcome = waiting.wait();
    assert!(outcome.code() < 2, "{outcome:?}");
    job.goes_on("both windows");

    let [came, went] =
        ["job-start", "job-end"].map(|kind| window_of(&file, kind, &launcher).expect("it was there before"));
    let there = neighbour(&came, &launcher).unwrap_or_else(|| panic!("{}", came["nodes"]));
    assert_eq!((there["ranks"].as_u64(), &there["program"]), (Some(2), &Value::from("steady")), "{there}");
    assert!(neighbour(&went, &launcher).is_none(), "{}", went["nodes"]);
    let name = came["job"]["id"].as_str().expect("an id");
    let [first, second] = [&came, &went].map(|report| report["window"]["batch"].to_string());
    let shown = place.home.run(&["report", &format!("{name}/{first}")]);
    shown.reports("report", 0, &["waited for", "job-start: ", "shared", "ranks of steady"]);
    let compared = json(&place.home, &["report", name, "--compare", &first, &second, "--json"]);
    assert_eq!(compared["schema"], "trimtab.comparison/1");
    assert!(compared["time_per_iteration_s"]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{compared}");
    let left = compared["left"].as_array().expect("a list");
    assert!(left.iter().any(|guest| guest["kind"] == "mpi" && guest["name"] == launcher.as_str()), "{compared}");
    let page = place.home.run(&["report", name, "--compare", &first, &second]);
    page.reports("compare", 0, &["An iteration takes", "left: ", "waited for job-start"]);
    place.home.run(&["report", name, "--compare", "0", "99"]).says("no such window", 2, &["has no window 99"]);
    job.ends_well("events");
}

#[test]
fn calls_and_signals_trigger_windows() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    assert_eq!(place.trigger(&[&job.launcher()]).0, 2, "nobody waits");
    let file = place.home.path("windows.json");
    let arguments = ["--when", "call", "--windows", "0", "--json", &file.to_string_lossy()];
    let waiting = place.waiting(&job, &arguments);
    let (code, said) = place.trigger(&["1", "x"]);
    assert!(code == 2 && said.contains("nobody waits for job 1"), "{said}");
    assert_eq!(place.trigger(&[&job.rank(1), "before the restart"]), (0, String::new()));
    until("a window because of a call", || lines(&file).len() == 1);
    let id = lines(&file)[0]["job"]["id"].as_str().expect("an id").to_owned();
    // It may still show the window.
    until("a second call", || place.trigger(&[&id]).0 == 0);
    until("a window because of the second", || lines(&file).len() == 2);
    signal_to(waiting.pid(), Signal::USR1);
    until("a window because of a signal", || lines(&file).len() == 3);
    let events: Vec<(Value, Value)> = lines(&file)
        .iter()
        .map(|report| (report["window"]["event"]["kind"].clone(), report["window"]["event"]["value"].clone()))
        .collect();
    let expected = [("call", "before the restart"), ("call", ""), ("signal", "")];
    assert_eq!(events, expected.map(|(kind, value)| (Value::from(kind), Value::from(value))));
    job.ends_well("calls");
    let outcome = waiting.wait();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.stderr.contains("the job has ended; 3 windows were measured"), "{outcome:?}");
    let left = fs::read_dir(place.home.path("run/trimtab")).expect("a folder").count();
    assert_eq!(left, 0, "no socket is left");
}

/// A site on this machine: a controller, and identities of whoever runs the test and of somebody else.
struct Site<'a> {
    place: &'a TestPlace,
    controller: Started,
}

impl Site<'_> {
    fn start(place: &TestPlace) -> Site<'_> {
        let path = |name: &str| place.home.path(name).display().to_string();
        let own = format!("user:{}", rustix::process::geteuid().as_raw());
        for words in [&["init", &path("site")][..], &["issue", &path("site"), &own, "user:4243"]] {
            place.home.run(&[&["site"], words].concat()).reports("site", 0, &[]);
        }
        let (identity, store, list) = (path("site/controller.pem"), path("site.db"), path("revoked.pem"));
        let files = ["controller", "--identity", &identity, "--store", &store, "--revoked", &list];
        let ports = ["--listen", "127.0.0.1:0", "--listen-tree", "127.0.0.1:0"];
        let mut controller = place.start(&[&files[..], &ports].concat());
        until("the controller listens", || controller.stderr().contains("is asked at") || controller.has_ended());
        Site { place, controller }
    }

    /// Options that lead to it as this user.
    fn options(&self, uid: u32) -> [String; 4] {
        let said = self.controller.stderr();
        let address = said.split("is asked at ").nth(1).and_then(|rest| rest.split(';').next());
        let identity = self.place.home.path(&format!("site/user-{uid}.pem")).display().to_string();
        ["--controller".into(), address.expect("an address").into(), "--identity".into(), identity]
    }

    /// `trimtab trigger` as this user: exit code and all that was said.
    fn trigger(&self, uid: u32, job: &str, name: &str) -> (i32, String) {
        let options = self.options(uid);
        let words: Vec<&str> = ["trigger", job, name].into_iter().chain(options.iter().map(String::as_str)).collect();
        let outcome = self.place.start(&words).wait();
        (outcome.code(), outcome.stdout + &outcome.stderr)
    }
}

/// As from another machine: through a controller, with a certificate in place of the kernel's word.
#[test]
fn a_call_through_the_api_triggers_a_window() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    let site = Site::start(&place);
    let (uid, file) = (rustix::process::geteuid().as_raw(), place.home.path("windows.json"));
    let (options, shown) = (site.options(uid), file.to_string_lossy().into_owned());
    let words = ["--when", "api:go,after=1d", "--json", &shown].into_iter().chain(options.iter().map(String::as_str));
    let waiting = place.waiting(&job, &words.collect::<Vec<_>>());
    let name = || waiting.stderr().split("the site calls this job ").nth(1)?.lines().next().map(str::to_owned);
    until("it says what the job is called", || name().is_some());
    let name = name().expect("it was there");
    assert!(name.ends_with(&format!(":{}", job.launcher())), "{name}");
    for (user, call) in [(4243, "go"), (uid, "stop")] {
        let (code, said) = site.trigger(user, &name, call);
        assert!(code == 2 && said.contains("nobody waits for a call for job"), "{user} {call}: {said}");
    }
    job.goes_on("nobody called");
    let (code, said) = site.trigger(uid, &name, "go");
    assert!(code == 0 && said.contains("1 heard the call"), "{said}");
    let outcome = waiting.wait();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
    let event = &report["window"]["event"];
    assert_eq!((&event["kind"], &event["condition"]), (&Value::from("api"), &Value::from("api:go")), "{event}");
    assert_eq!(event["value"].as_str(), Some(&*format!("go, called by user {uid}")), "{event}");
    assert_eq!(site.trigger(uid, &name, "go").0, 2, "nobody waits any more");
    job.ends_well("called through the API");
}

#[test]
fn times_loads_and_paces_trigger_windows() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::OpenMpi, ""));
    for (when, kind) in [
        ("after=1s", "after"),
        ("every=1s", "every"),
        ("at=@1", "at"),
        ("load>0.0001", "load"),
        ("rate<1000000", "rate"),
    ] {
        let launcher = job.launcher();
        let outcome = place.start(&["attach", "--iterations", "5", "--when", when, "--json", "-", &launcher]).wait();
        assert_eq!(outcome.code(), 0, "{when}: {outcome:?}");
        let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        let event = &report["window"]["event"];
        assert_eq!((&event["kind"], &event["condition"]), (&Value::from(kind), &Value::from(when)), "{when}");
        assert!(event["at_unix_s"].as_f64().is_some_and(|at| at > 1e9), "{event}");
        job.goes_on(when);
    }
    job.ends_well("times");
}

/// So many iterations are counted in the program itself, on all ranks alike, however long that takes.
#[test]
fn iterations_are_counted_in_the_program() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    let launcher = job.launcher();
    let words = ["attach", "--when", "iterations>=2000", "--max-seconds", "1", "--json", "-", launcher.as_str()];
    let outcome = place.start(&words).wait();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
    assert!(report["window"]["start"].as_u64().is_some_and(|start| start >= 2000), "{}", report["window"]);
    assert_eq!(report["window"]["event"]["kind"], "iterations");
    assert_eq!(report["window"]["valid"], true);
    // As many as fill 0.2 s, and 10 at least.
    assert!(report["window"]["iterations"].as_u64().is_some_and(|iterations| iterations >= 10), "{}", report["window"]);
    job.goes_on("counted");
    job.ends_well("counted");
}

#[test]
fn what_can_not_be_waited_for_is_said() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    let launcher = job.launcher();
    for (when, expected) in [
        ("load>8,iterations>=5", "wait for it alone"),
        ("jobstart", "is no event"),
        ("api", "come from a site's controller: give --controller HOST"),
        ("at=2026-11-22T04:00:00", "a moment with its zone is missing"),
    ] {
        let outcome = place.start(&["attach", "--when", when, &launcher]).wait();
        assert!(outcome.code() == 2 && outcome.stderr.contains(expected), "{when}: {outcome:?}");
    }
    let outcome = place.start(&["attach", "--when", "call", "--dry-run", &launcher]).wait();
    assert!(outcome.code() == 2 && outcome.stderr.contains("--dry-run shows a plan at once"), "{outcome:?}");
    let waiting = place.waiting(&job, &["--when", "load>100000,every=10d"]);
    waiting.signal(Signal::INT);
    let outcome = waiting.wait();
    assert_eq!(outcome.code(), 1, "nothing was measured: {outcome:?}");
    job.ends_well("not waited for");
}

/// Windows of two jobs are open at the same time; each knows the other as its neighbour.
#[test]
fn windows_of_two_jobs_overlap() {
    let _alone = alone();
    let place = TestPlace::new();
    // The launcher of Open MPI is what a job is called by, on one machine.
    let jobs = [steady(Mpi::OpenMpi, ""), steady(Mpi::OpenMpi, "")];
    // Both are asked to end when both have something to show, however long that takes.
    let reports = [3, 6, 12].into_iter().find_map(|wait_s| overlapping(&place, &jobs, wait_s));
    let reports = reports.expect("both recorded before they were interrupted");
    for (report, other) in reports.iter().zip([jobs[1].launcher(), jobs[0].launcher()]) {
        let other = neighbour(report, &other).unwrap_or_else(|| panic!("{}", report["nodes"]));
        assert_eq!((other["ranks"].as_u64(), &other["presence"]), (Some(2), &Value::from("throughout")), "{other}");
        assert!(other["busy_processors"].as_f64().is_some_and(|busy| busy > 0.0), "{other}");
        let places = report["nodes"][0]["places"].as_array().expect("places");
        assert_eq!(places.len(), 2, "{}", report["nodes"]);
        assert!(places.iter().all(|place| !place["cpus_seen"].as_str().expect("text").is_empty()), "{places:?}");
    }
    for job in jobs {
        job.ends_well("overlapping windows");
    }
}

/// The reports of two windows that were open together for so many seconds; `None` if one had recorded nothing yet.
fn overlapping(place: &TestPlace, jobs: &[Job; 2], wait_s: u64) -> Option<[Value; 2]> {
    let files = ["first.json", "second.json"].map(|name| place.home.path(name).to_string_lossy().into_owned());
    let start = |number: usize| {
        let launcher = jobs[number].launcher();
        // They end when they are interrupted.
        place.start(&["attach", "--iterations", "100000000", "--json", &files[number], &launcher])
    };
    let windows = [start(0), start(1)];
    let is_open = |job: &Job| job.ranks.iter().all(|rank| probes_mapped(*rank) > 0);
    until("both windows are open", || jobs.iter().all(is_open));
    std::thread::sleep(std::time::Duration::from_secs(wait_s));
    windows.iter().for_each(|window| window.signal(Signal::INT));
    let outcomes = windows.map(Started::wait);
    let too_early = |outcome: &Outcome| outcome.code() == 2 && outcome.stderr.contains("before anything was recorded");
    if outcomes.iter().any(too_early) {
        return None;
    }
    assert!(outcomes.iter().all(|outcome| outcome.code() < 2), "{outcomes:?}");
    Some(files.map(|file| serde_json::from_str(&fs::read_to_string(file).expect("a report")).expect("JSON")))
}

/// A second window of a job that is measured just now is refused and does no harm; many at once neither.
#[test]
fn a_second_window_of_the_same_job_is_refused() {
    let _alone = alone();
    let (place, job) = (TestPlace::new(), steady(Mpi::Mpich, ""));
    let launcher = job.launcher();
    let was_recorded = [2, 5, 10].into_iter().any(|wait_s| {
        let first = place.start(&["attach", "--iterations", "100000000", "--max-seconds", "60", &launcher]);
        until("the first is open", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0));
        let outcome = place.home.run(&["attach", "--iterations", "3", &launcher]);
        outcome.says("while it is measured", 2, &["is being measured by trimtab process", &first.pid().to_string()]);
        std::thread::sleep(std::time::Duration::from_secs(wait_s));
        first.signal(Signal::INT);
        let outcome = first.wait();
        job.goes_on("refused");
        let too_early = outcome.code() == 2 && outcome.stderr.contains("before anything was recorded");
        let is_shown = outcome.code() < 2 && outcome.stdout.contains("Window");
        assert!(too_early || is_shown, "the first was not disturbed: {outcome:?}");
        is_shown
    });
    assert!(was_recorded, "the first recorded before it was interrupted");
    for round in 0..4 {
        let all: Vec<Started> = (0..3).map(|_| place.home.start(&["attach", "--iterations", "3", &launcher])).collect();
        let codes: Vec<i32> = all.into_iter().map(|started| started.wait().code()).collect();
        assert!(codes.iter().all(|code| [0, 2].contains(code)), "round {round}: {codes:?}");
        job.goes_on("three at once");
    }
    job.ends_well("three at once");
}
