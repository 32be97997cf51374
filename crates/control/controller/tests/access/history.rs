//! The history of each user: what a site keeps of arguments, line by line, and who is told of them.

use super::{Site, status};
use crate::jobs::{file, filing};
use serde_json::{Value, json};
use trimtab_site::jobs::{ArgumentsKept, JobWindows, Jobs};
use trimtab_store::Store;
use trimtab_types::report::Report;

/// In the arguments of all jobs here.
const SECRET: &str = "--password=hunter2";

impl Site {
    /// Keeps a window of a program with a secret among its arguments, for this user; the job's name.
    fn keeps_secret(&self, uid: u32, program: &str) -> String {
        let client = self.client(&format!("user:{uid}"));
        let mut filing = filing(program);
        filing.report.job.arguments = vec!["--size".to_owned(), SECRET.to_owned()];
        filing.report.job.builds = vec![format!("{program} 0123abcd")];
        file(&client, self.window_of(&client, uid), &filing).expect("it is kept").job
    }

    /// All bytes of the site's store.
    fn stored(&self) -> Vec<u8> {
        let all =
            ["site.db", "site.db-wal"].map(|name| std::fs::read(self.folder.path().join(name)).unwrap_or_default());
        all.concat()
    }

    fn has_secret(&self) -> bool {
        self.stored().windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    }
}

#[test]
fn arguments_are_kept_as_hashes_unless_their_owner_says_otherwise() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let name = site.keeps_secret(7, "app");
    assert!(!site.has_secret(), "no table has them");
    let is_hash = |words: &[String]| words.len() == 1 && words[0].starts_with("sha256:") && words[0].len() == 71;
    let (jobs, job) = (|| ann.jobs().expect("jobs"), || ann.job(&name).expect("hers"));
    let report = |number: u32| ann.report(&name, number).expect("hers");
    assert!(is_hash(&jobs().jobs[0].arguments) && is_hash(&job().job.arguments) && is_hash(&report(0).job.arguments));
    assert_eq!(ann.arguments_kept().expect("hers"), ArgumentsKept { kept: false });
    ann.keep_arguments(true).expect("she may");
    assert_eq!((site.keeps_secret(7, "app"), report(1).job.arguments[1].as_str()), (name.clone(), SECRET));
    assert_eq!(job().job.arguments[1], SECRET);
    assert!(is_hash(&report(0).job.arguments), "what was hidden can't come back");
    // Another user's word is their own.
    site.keeps_secret(8, "other");
    assert!(is_hash(&bob.jobs().expect("his").jobs[0].arguments));
    ann.keep_arguments(false).expect("she may");
    assert!(is_hash(&report(1).job.arguments) && is_hash(&job().job.arguments), "earlier ones too");
    assert_eq!(report(1).job.arguments, report(0).job.arguments, "equal ones are equal");
    assert!(!site.has_secret(), "nor has any unused part of the file");
    for role in ["node:n1", "scheduler:990"] {
        assert_eq!(status(site.client(role).keep_arguments(true)), 403, "{role}");
    }
    assert_eq!(status(ann.post::<Value>("/v1/arguments", &json!({ "keep": true }))), 400);
    let log = std::fs::read_to_string(site.folder.path().join("audit.jsonl")).expect("a log");
    assert!(log.contains("{\"event\":\"arguments\",\"kept\":true}") && log.contains("\"kept\":false}"), "{log}");
    assert!(!log.contains(SECRET));
}

#[test]
fn runs_are_alike_whether_their_arguments_are_hidden_or_not() {
    let site = Site::start();
    let _agent = site.agent("n1");
    site.keeps_secret(7, "app");
    site.client("user:8").keep_arguments(true).expect("he may");
    site.keeps_secret(8, "app");
    let store = Store::open_to_read(Some(&site.folder.path().join("site.db"))).expect("the store");
    let likeness = |owner| {
        let job = store.list_jobs_of(Some(owner), 1).expect("jobs").swap_remove(0);
        trimtab_store::History::run(&store, &job.key).expect("runs").expect("its run").likeness().expect("a build id")
    };
    let (hers, his) = (likeness(7), likeness(8));
    assert_eq!((&hers.arguments_hash, &hers.build), (&his.arguments_hash, &his.build));
}

#[test]
fn what_is_kept_of_others_is_in_no_answer() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let name = site.keeps_secret(7, "hers");
    let bob = site.client("user:8");
    let own = site.keeps_secret(8, "his");
    let all: Jobs = bob.jobs().expect("his");
    assert_eq!(all.jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), [own.as_str()]);
    assert_eq!(status(bob.get::<JobWindows>(&format!("/v1/jobs/{name}"))), 404);
    assert_eq!(status(bob.get::<Report>(&format!("/v1/jobs/{name}/windows/0"))), 404);
    for (path, question) in [
        ("/v1/forecasts/job", json!({ "job": name })),
        ("/v1/forecasts/corun", json!({ "jobs": [{ "window": name }, { "window": own }] })),
    ] {
        assert_eq!(status(bob.post::<Value>(path, &question)), 404, "{path}");
    }
}
