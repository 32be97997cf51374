//! Reports: who may file one, who sees it, and that it is still there when the controller is not.

use super::{Site, status, wanted};
use serde_json::json;
use trimtab_site::api::{BODY_BYTES_MAX, Begun, Order, Outcome, REPORT_BYTES_MAX};
use trimtab_site::jobs::{Filed, Filing, JobWindows, Jobs};
use trimtab_site::{Client, SiteError};
use trimtab_store::Store;
use trimtab_types::report::Report;

/// A report of a window at home, where it has other names than at the site.
pub(super) fn report(program: &str) -> Report {
    let job = json!({
        "id": "home-9", "program": program, "arguments": ["--size", "64"], "ranks": 1, "mpi": "MPICH 4.0.2",
        "hosts": ["n1"], "builds": [], "started_unix_s": 1_795_234_000.25,
    });
    let window = json!({
        "batch": 5, "trigger": "attach", "event": null, "marker": null, "marker_source": "time", "start": null,
        "iterations": 10, "valid": true, "ended_by": "iterations", "duration_s": 0.5,
        "started_unix_s": 1_795_234_100.5, "groups": ["comm"], "loop_description": null,
    });
    let cost = json!({
        "pause_us_max": 800.5, "pause_us_total": 1500.0, "probe_ns": null, "probes": 1, "points": 1, "fraction": null,
        "first_record_s": null,
    });
    let report = json!({
        "schema": "trimtab.report/1", "job": job, "window": window, "time_per_iteration_s": null,
        "iterations_per_s": 316.5, "communication_fraction": null, "communication_to_computation": null,
        "imbalance": null, "functions": [], "links": [], "ranks": [], "cost": cost, "warnings": ["a warning"],
    });
    serde_json::from_value(report).expect("a report")
}

pub(super) fn filing(program: &str) -> Filing {
    Filing { key: format!("slurm {program}"), report: report(program) }
}

pub(super) fn file(client: &Client, window: u64, filing: &Filing) -> Result<Filed, SiteError> {
    client.file(&format!("/v1/windows/{window}/report"), filing)
}

impl Site {
    /// A window whose agent on n1 found ranks of this user and started something.
    pub(super) fn window_of(&self, client: &Client, owner: u32) -> u64 {
        let begun: Begun = client.post("/v1/windows", &wanted()).expect("it begins");
        let (path, agent) = (format!("/v1/windows/{}", begun.id), self.client("node:n1"));
        let _order: Order = agent.get(&format!("{path}/order")).expect("its order");
        let outcome = Outcome { refused: None, owner: Some(owner) };
        agent.post::<()>(&format!("{path}/outcome"), &outcome).expect("it is told");
        begun.id
    }
}

/// As long as that of thousands of ranks: longer than anything else that is asked or answered.
#[test]
fn a_long_report_is_kept_and_shown() {
    let site = Site::start();
    let (ann, _agent) = (site.client("user:7"), site.agent("n1"));
    let long = |byte_count: usize| {
        let mut filing = filing("app");
        filing.report.warnings = vec!["w".repeat(1 << 10); byte_count >> 10];
        filing
    };
    let window = site.window_of(&ann, 7);
    let too_long = file(&ann, window, &long(REPORT_BYTES_MAX)).expect_err("the rest makes it longer");
    assert!(matches!(too_long, SiteError::TooLong { .. }), "{too_long}");
    let filing = long(BODY_BYTES_MAX * 2);
    let filed = file(&ann, window, &filing).expect("it is kept");
    let shown: Report = ann.get(&format!("/v1/jobs/{}/windows/{}", filed.job, filed.window)).expect("it is shown");
    assert_eq!(shown.warnings, filing.report.warnings);
}

#[test]
fn a_report_is_filed_once_by_whom_its_window_was_given_to() {
    let site = Site::start();
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let nothing: Begun = ann.post("/v1/windows", &wanted()).expect("it begins");
    assert_eq!(status(file(&ann, nothing.id, &filing("app"))), 409, "no agent was started for it");
    let _agent = site.agent("n1");
    let window = site.window_of(&ann, 7);
    assert_eq!(status(file(&bob, window, &filing("app"))), 404, "another user's");
    assert_eq!(status(file(&site.client("administrator:7"), window, &filing("app"))), 404, "another role's");
    assert_eq!(status(file(&site.client("node:n1"), window, &filing("app"))), 403);
    let mut strange = filing("app");
    strange.report.schema = "trimtab.report/99".to_owned();
    assert_eq!(status(file(&ann, window, &strange)), 400);
    assert_eq!(status(file(&ann, window, &Filing { key: "k".repeat(2000), ..filing("app") })), 400);
    assert_eq!(status(ann.post::<Filed>(&format!("/v1/windows/{window}/report"), &"no report")), 400);
    // A filing that failed may be tried again.
    let filed = file(&ann, window, &filing("app")).expect("it is kept");
    assert_eq!((filed.job.as_str(), filed.window), ("app-1", 0));
    assert_eq!(status(file(&ann, window, &filing("app"))), 409, "once");
    // Her window, but an agent says that the processes there are somebody else's.
    assert_eq!(status(file(&ann, site.window_of(&ann, 8), &filing("app"))), 409);
    let again = file(&ann, site.window_of(&ann, 7), &filing("app")).expect("it is kept");
    assert_eq!((again.job.as_str(), again.window), ("app-1", 1), "of the same job");
    let kept = Store::open_to_read(Some(&site.folder.path().join("site.db"))).expect("the store");
    assert_eq!(kept.list_jobs_of(Some(7), 10).expect("jobs").len(), 1, "a controller that is started again has it");
}

#[test]
fn a_job_is_seen_by_its_owner_and_administrators_only() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let (ann, bob, root) = (site.client("user:7"), site.client("user:8"), site.client("administrator:0"));
    file(&ann, site.window_of(&ann, 7), &filing("hers")).expect("it is kept");
    // Whoever measured: it is the owner's.
    file(&root, site.window_of(&root, 8), &filing("his")).expect("it is kept");
    let ids = |client: &Client| -> Vec<(String, u32)> {
        let jobs: Jobs = client.get("/v1/jobs").expect("jobs");
        assert_eq!((jobs.schema, jobs.has_more), (1, false));
        jobs.jobs.into_iter().map(|job| (job.id, job.owner)).collect()
    };
    assert_eq!(ids(&ann), [("hers-1".to_owned(), 7)]);
    assert_eq!(ids(&bob), [("his-2".to_owned(), 8)]);
    assert_eq!(ids(&root), [("his-2".to_owned(), 8), ("hers-1".to_owned(), 7)]);
    assert_eq!(status(site.client("node:n1").get::<Jobs>("/v1/jobs")), 403);

    for (name, path, ann_s, bob_s) in [
        ("her job", "/v1/jobs/hers-1", 200, 404),
        ("her window", "/v1/jobs/hers-1/windows/0", 200, 404),
        ("none of hers", "/v1/jobs/hers-1/windows/1", 404, 404),
        ("no number", "/v1/jobs/hers-1/windows/x", 400, 400),
        ("his job", "/v1/jobs/his-2", 404, 200),
        ("nobody's", "/v1/jobs/hers-3", 404, 404),
        ("a beginning", "/v1/jobs/hers", 404, 404),
    ] {
        assert_eq!(status(ann.get::<serde_json::Value>(path)), ann_s, "{name}");
        assert_eq!(status(bob.get::<serde_json::Value>(path)), bob_s, "{name}");
    }
    let job: JobWindows = ann.get("/v1/jobs/hers-1").expect("her job");
    assert_eq!((job.job.windows, job.windows.len(), job.job.arguments.len()), (1, 1, 1));
    assert_eq!(job.job.newest.as_ref(), job.windows.first());
    assert_eq!((job.windows[0].iterations, job.windows[0].valid), (Some(10), true));
    let mut expected = report("hers");
    (expected.job.id, expected.window.number) = ("hers-1".to_owned(), 0);
    expected.job.arguments.clone_from(&job.job.arguments);
    assert_eq!(root.get::<Report>("/v1/jobs/hers-1/windows/0").expect("a report"), expected, "all but its names");
}
