//! Calls for a window: who may wait for them, whom they reach, and who may call.

use super::{Site, status};
use trimtab_site::jobs::{Awaited, Awaiting, Heard, Trigger, Triggered};

fn awaiting(owner: u32) -> Awaiting {
    Awaiting { names: vec!["4711".into()], owner: Some(owner), ..Awaiting::default() }
}

#[test]
fn a_call_of_the_owner_or_an_administrator_reaches_whoever_waits() {
    let site = Site::start();
    let (ann, bob, root) = (site.client("user:7"), site.client("user:8"), site.client("administrator:0"));
    let call = |name: &str| Trigger { name: name.to_owned() };
    assert_eq!(status(ann.post::<Triggered>("/v1/jobs/4711/trigger", &call(""))), 404, "nobody waits");
    assert_eq!(status(ann.post::<Awaited>("/v1/waits", &awaiting(8))), 403, "another user's job");
    assert_eq!(status(site.client("node:n1").post::<Awaited>("/v1/waits", &awaiting(7))), 403);
    let Awaited { id } = ann.post("/v1/waits", &awaiting(7)).expect("she waits");
    let path = format!("/v1/waits/{id}");

    // The answer is held until somebody calls; others' calls don't come.
    let held = {
        let (ann, path) = (ann.clone(), path.clone());
        std::thread::spawn(move || {
            loop {
                if let Some(call) = ann.get::<Heard>(&path).expect("she may ask").call {
                    return call;
                }
            }
        })
    };
    assert_eq!(status(bob.post::<Triggered>("/v1/jobs/4711/trigger", &call("his"))), 404, "not his job");
    assert_eq!(status(site.client("node:n1").post::<Triggered>("/v1/jobs/4711/trigger", &call("its"))), 403);
    let Triggered { reached } = ann.post("/v1/jobs/4711/trigger", &call("before\nrestart")).expect("she may");
    let heard = held.join().expect("no panic");
    assert_eq!((reached, heard.name.as_str(), heard.by.as_str()), (1, "beforerestart", "user 7"));

    let Triggered { reached } = root.post("/v1/jobs/4711/trigger", &call("site")).expect("an administrator may");
    assert_eq!(status(root.post::<Triggered>("/v1/jobs/4711/trigger", &call("site"))), 503, "she has one already");
    let heard: Heard = ann.get(&path).expect("she may ask");
    assert_eq!((reached, heard.call.map(|call| call.by)), (1, Some("administrator 0".to_owned())));
    assert_eq!((status(bob.get::<Heard>(&path)), status(bob.delete(&path))), (404, 404), "it is hers");
    assert_eq!(status(ann.delete(&path)), 200);
    assert_eq!(status(ann.get::<Heard>(&path)), 404);
    assert_eq!(status(ann.post::<Triggered>("/v1/jobs/4711/trigger", &call(""))), 404, "nobody waits any more");
}
