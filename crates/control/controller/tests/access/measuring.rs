//! Windows that the controller has measured itself: who may ask for one of whose job, what they are told, and what stands in the
//! audit log. The lead is one of this program's threads, and Slurm a list.
//!
//! Next: `site.rs` of the command line, where a real job is measured so.

use super::{Site, status, until};
use crate::jobs::filing;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trimtab_controller::{LeadProcess, NoJob, RunningJob};
use trimtab_site::api::{Order, Outcome, Wanted};
use trimtab_site::led::{LeadAsks, LeadHears, LeadOrder};
use trimtab_site::measured::{Acceptances, Measurement, MeasurementState};
use trimtab_site::{Client, SiteError};
use trimtab_types::report::Report;

/// A job of user 7's whose window goes well, one whose lead finds no rank, and one whose lead breaks off.
const WELL: &str = "4711";
const NO_RANK: &str = "4712";
const BREAKS: &str = "4713";

pub(super) fn running_job(id: &str) -> Result<RunningJob, NoJob> {
    match id {
        WELL | NO_RANK | BREAKS => Ok(RunningJob { id: id.to_owned(), owner: 7 }),
        "4714" => Err(NoJob::NotNow("job 4714 is not running yet".to_owned())),
        "4715" => Err(NoJob::Silent("scontrol did not answer in 10 s".to_owned())),
        number if number.parse::<u32>().is_ok() => Err(NoJob::Unknown(format!("Slurm knows no job {number}"))),
        text => Err(NoJob::NotSlurm(text.to_owned())),
    }
}

pub(super) fn lead() -> std::io::Result<LeadProcess> {
    let (own, other) = UnixStream::pair()?;
    let (says, hears, end) = (other.try_clone()?, other.try_clone()?, other);
    let is_interrupted = Arc::<AtomicBool>::default();
    let seen = is_interrupted.clone();
    std::thread::spawn(move || led(&own, &seen));
    let interrupt = move || is_interrupted.store(true, Ordering::Relaxed);
    let end = move || drop(end.shutdown(std::net::Shutdown::Both));
    Ok(LeadProcess { says: Box::new(says), hears: Box::new(hears), interrupt: Box::new(interrupt), end: Box::new(end) })
}

/// Does what a lead does, without a tree of agents.
fn led(controller: &UnixStream, is_interrupted: &AtomicBool) {
    let mut hears = BufReader::new(controller);
    let mut line = || {
        let mut line = String::new();
        hears.read_line(&mut line).expect("it is heard");
        line
    };
    let ask = |asks: LeadAsks| {
        let text = serde_json::to_string(&asks).expect("JSON") + "\n";
        let mut to = controller;
        to.write_all(text.as_bytes()).expect("it is said");
    };
    let order: LeadOrder = serde_json::from_str(&line()).expect("an order");
    assert_eq!(order.owner, 7);
    match order.job.as_str() {
        BREAKS => return,
        NO_RANK => return ask(LeadAsks::Failed("none of the job's ranks runs there".to_owned())),
        _ => {}
    }
    let wanted = || Wanted { nodes: vec!["n1".into()], ticket: order.by.clone(), secret: "0".repeat(64) };
    ask(LeadAsks::Begin(wanted()));
    assert!(matches!(serde_json::from_str(&line()), Ok(LeadHears::Begun(_))));
    ask(LeadAsks::Begin(wanted()));
    assert!(matches!(serde_json::from_str(&line()), Ok(LeadHears::No(_))), "a window begins once");
    loop {
        ask(LeadAsks::State);
        match serde_json::from_str(&line()) {
            Ok(LeadHears::State(state)) if !state.started.is_empty() => break,
            Ok(LeadHears::State(_)) if is_interrupted.load(Ordering::Relaxed) => {
                return ask(LeadAsks::Failed("interrupted before the first iteration".to_owned()));
            }
            Ok(LeadHears::State(_)) => std::thread::sleep(std::time::Duration::from_millis(5)),
            // The controller ends with the test.
            _ => return,
        }
    }
    ask(LeadAsks::File(Box::new(filing("app"))));
    assert!(matches!(serde_json::from_str(&line()), Ok(LeadHears::Filed(_))));
}

fn refused(client: &Client, job: &str, question: &Value) -> (u16, String) {
    match client.post::<Value>(&format!("/v1/jobs/{job}/windows"), question) {
        Err(SiteError::Refused { status, what }) => (status, what),
        other => panic!("{job} {question}: {other:?}"),
    }
}

impl Site {
    /// The agent of n1 does what the window with this number wants, of user 7's job: in whose name and by whom it is.
    fn carry_out(&self, window: u64) -> Order {
        let (path, agent) = (format!("/v1/windows/{window}"), self.client("node:n1"));
        let mut order = None;
        until("the order is there", || {
            order = agent.get::<Order>(&format!("{path}/order")).ok();
            order.is_some()
        });
        agent.post::<()>(&format!("{path}/outcome"), &Outcome { refused: None, owner: Some(7) }).expect("it is told");
        order.expect("it was there")
    }

    fn when_over(&self, role: &str, id: u64) -> Measurement {
        let mut found = None;
        until("it is over", || {
            let now = self.client(role).measurement(id).expect("whoever asked may know");
            found = Some(now.clone()).filter(|now| now.state != MeasurementState::Measuring);
            found.is_some()
        });
        found.expect("it is over")
    }

    /// The lines of the controller's log: by whom, as which role, of whose job, the event.
    fn audited(&self) -> Vec<(String, String, Option<u64>, String)> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).expect("a log");
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a whole line");
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&line["by"]), text(&line["role"]), line["owner"].as_u64(), text(&line["what"]["event"]))
        };
        text.lines().map(line).collect()
    }
}

#[test]
fn a_window_is_for_the_owner_administrators_and_accepted_schedulers() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let (root, slurm) = (site.client("administrator:0"), site.client("scheduler:990"));
    let question = json!({ "iterations": 20 });
    let (status_bob, why) = refused(&bob, WELL, &question);
    assert!(status_bob == 404 && why.contains("of yours runs here"), "{why}");
    assert_eq!(refused(&bob, "9999", &question), (404, why.replace(WELL, "9999")), "as if there were none");
    let (status_slurm, why) = refused(&slurm, WELL, &question);
    assert!(status_slurm == 403 && why.contains("`trimtab site accept scheduler:990"), "{why}");
    assert_eq!(refused(&site.client("node:n1"), WELL, &question).0, 403);
    // Nobody accepts for others, and whoever is accepted is so by one user.
    assert_eq!(status(slurm.accept(990)), 403);
    bob.accept(990).expect("for himself");
    assert_eq!(refused(&slurm, WELL, &question).0, 403, "not by her");
    ann.accept(990).expect("she may");
    for (window, (client, role)) in
        [(&ann, "user:7"), (&root, "administrator:0"), (&slurm, "scheduler:990")].into_iter().enumerate()
    {
        let begun: Measurement = client.post(&format!("/v1/jobs/{WELL}/windows"), &question).expect(role);
        assert_eq!((begun.state, begun.owner, begun.by), (MeasurementState::Measuring, 7, role.replace(':', " ")));
        let (busy, why) = refused(&ann, WELL, &question);
        assert!(busy == 409 && why.contains(&format!("GET /v1/measurements/{}", begun.id)), "{why}");
        assert_eq!(status(bob.measurement(begun.id)), 404);
        let order = site.carry_out(window as u64);
        assert_eq!((order.uid, order.is_administrator, order.asked_by), (7, false, Some(role.replace(':', " "))));
        let over = site.when_over(role, begun.id);
        let kept = over.kept.unwrap_or_else(|| panic!("{role}: {:?}", over.why_not));
        assert_eq!((kept.job.as_str(), kept.window), ("app-1", window as u32), "the owner's job");
        let path = format!("/v1/jobs/{}/windows/{}", kept.job, kept.window);
        for (name, client, expected) in [("ann", &ann, 200), ("bob", &bob, 404), ("slurm", &slurm, 200)] {
            assert_eq!(status(client.get::<Report>(&path)), expected, "{name}");
        }
        assert_eq!(status(site.client("scheduler:991").get::<Report>(&path)), 404, "another scheduler");
    }
    ann.withdraw(990).expect("she may");
    assert_eq!(status(ann.withdraw(990)), 404, "once");
    assert_eq!((refused(&slurm, WELL, &question).0, status(slurm.get::<Value>("/v1/jobs/app-1"))), (403, 404));
    let line =
        |by: &str, role: &str, owner: u64, event: &str| (by.to_owned(), role.to_owned(), Some(owner), event.to_owned());
    let all = site.audited();
    for expected in [
        line("user 8", "nobody", 7, "refused"),
        line("scheduler 990", "nobody", 7, "refused"),
        line("user 7", "owner", 7, "accepted"),
        line("user 7", "owner", 7, "measured"),
        line("administrator 0", "administrator", 7, "asked"),
        line("administrator 0", "administrator", 7, "measured"),
        line("scheduler 990", "scheduler", 7, "asked"),
        line("scheduler 990", "scheduler", 7, "measured"),
        line("user 7", "owner", 7, "withdrawn"),
    ] {
        assert!(all.contains(&expected), "{expected:?}: {all:?}");
    }
    assert_eq!(all.iter().filter(|(.., event)| event == "asked").count(), 3, "{all:?}");
}

#[test]
fn who_blocks_gets_the_outcome_and_every_refusal_says_what_to_do() {
    let site = Site::start();
    let ann = site.client("user:7");
    let root = site.client("administrator:0");
    for (job, words) in [(NO_RANK, "none of the job's ranks"), (BREAKS, "ended without a word")] {
        let over: Measurement =
            ann.post(&format!("/v1/jobs/{job}/windows"), &json!({ "blocking": true })).expect("an outcome");
        assert_eq!((over.state, over.kept), (MeasurementState::Failed, None));
        assert!(over.why_not.as_ref().is_some_and(|why| why.contains(words)), "{:?}", over.why_not);
    }
    for (job, question, expected, words) in [
        (WELL, json!({ "iterations": 1, "seconds": 1 }), 422, "not both"),
        (WELL, json!({ "seconds_max": 1e6 }), 422, "600 at most"),
        (WELL, json!({ "ranks": "0-" }), 422, "expected"),
        (WELL, json!({ "groups": ["all of them"] }), 400, "unknown variant"),
        (WELL, json!({ "rank": 1 }), 400, "unknown field"),
        ("n1:4711", json!({}), 422, "`trimtab attach PID`"),
        ("9999", json!({}), 404, "knows no job"),
        ("4714", json!({}), 409, "not running yet"),
        ("4715", json!({}), 503, "did not answer"),
    ] {
        let (status, why) = refused(&root, job, &question);
        assert!(status == expected && why.contains(words), "{job} {question}: {status} {why}");
    }
    assert_eq!(refused(&ann, "4714", &json!({})).0, 404, "not known to be hers");
    // A log that can't be written: nothing is begun.
    let audit = site.folder.path().join("audit.jsonl");
    std::fs::remove_file(&audit).expect("it is there");
    std::os::unix::fs::symlink("/dev/full", &audit).expect("a link");
    let (status, why) = refused(&ann, WELL, &json!({}));
    assert!(status == 503 && why.contains("audit log"), "{status} {why}");
    assert_eq!(super::status(ann.accept(990)), 503);
}

#[test]
fn accepted_schedulers_are_listed_to_whom_it_concerns() {
    let site = Site::start();
    let list = |role: &str| -> Vec<(u32, u32)> {
        let found: Acceptances = site.client(role).acceptances().expect("a list");
        found.accepted.iter().map(|one| (one.owner, one.scheduler)).collect()
    };
    assert_eq!(list("administrator:0"), []);
    for (role, scheduler) in [("user:7", 990), ("user:8", 990), ("user:8", 991)] {
        site.client(role).accept(scheduler).expect("they may");
    }
    assert_eq!((list("user:7"), list("scheduler:991")), (vec![(7, 990)], vec![(8, 991)]));
    assert_eq!((list("administrator:0").len(), list("user:9").len()), (3, 0));
    assert_eq!(status(site.client("node:n1").acceptances()), 403);
}

#[test]
fn a_window_is_ended_early_by_who_may_know_of_it() {
    let site = Site::start();
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let begun: Value =
        ann.post(&format!("/v1/jobs/{WELL}/windows"), &json!({ "seconds": 60, "seconds_max": 90 })).expect("hers");
    let path = format!("/v1/measurements/{}", begun["id"]);
    for (client, expected) in [(&bob, 404), (&site.client("scheduler:990"), 404), (&site.client("node:n1"), 403)] {
        assert_eq!(status(client.delete(&path)), expected);
    }
    assert_eq!(status(ann.delete("/v1/measurements/99")), 404);
    ann.delete(&path).expect("hers");
    let over = site.when_over("user:7", begun["id"].as_u64().expect("a number"));
    assert_eq!(over.state, MeasurementState::Failed);
    assert!(over.why_not.as_deref().is_some_and(|why| why.contains("interrupted")), "{over:?}");
    assert_eq!(status(ann.delete(&path)), 409, "it is over");
    let events: Vec<String> = site.audited().into_iter().map(|(_, _, _, event)| event).collect();
    assert_eq!(events[..2], ["asked", "interrupted"], "{events:?}");
}
