//! A site's standing parts on several nodes: found by `trimtab tree`, kept together through failures, and asked for a
//! job's agents in place of Slurm.
//!
//! Next: `access.rs` of `trimtab-controller` for who may ask what.

mod common_cluster;
mod common_site;

use common_cluster::{Cluster, GROUP, Job, Rank, USER, agents, children_of, kill, signal, wait_for};
use common_site::{Site, logged, member, parent};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};
use trimtab_controller::Authority;
use trimtab_specimens::{ENDLESS, skip};
use trimtab_testbed::{Slurm, Testbed};

const NODES: usize = 4;
/// A window of the site's agents has begun by then on a machine that is not loaded; later on another one, which still ends early.
const EARLY_END: Duration = Duration::from_secs(5);

/// How long an agent that hears nothing of its lead leaves probes in, as docs/cluster.md says.
const LEASE: Duration = Duration::from_secs(3);

#[test]
fn standing_agents_keep_together_and_measure() {
    if let Some(lack) = Slurm::lack() {
        return skip("standing_agents_keep_together_and_measure", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let mut site = Site::start(&cluster);
    agents_are_found_in_a_chain(&site);
    an_agent_that_is_killed_is_survived(&mut site);
    who_comes_back_has_its_old_place(&mut site);
    a_controller_that_comes_back_finds_its_agents(&mut site);
    let words = [format!("--uid={USER}"), format!("--gid={GROUP}"), "--chdir=/".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let job = cluster.start_as(&words, "particle", &ENDLESS);
    a_job_is_measured_through_the_site_s_agents(&site, &job);
    what_was_measured_is_kept_for_its_owner(&site);
    a_controller_that_dies_during_a_window_takes_nothing_with_it(&mut site, &job);
    a_killed_agent_leaves_its_rank_free(&site, &job);
    a_stopped_agent_that_goes_on_leaves_within_its_lease(&site, &job);
    a_call_through_the_api_is_measured(&site, &job);
    windows_are_measured_for_who_may_ask(&site, &job);
    another_user_s_job_is_refused_by_every_agent(&site, &job);
    a_node_is_examined(&site);
    agents_tell_the_weather_of_their_hosts(&site);
    why_the_site_is_of_no_help_is_looked_up(&site, &job);
    nodes_without_a_standing_agent_are_named(&mut site, &job);
    one_identity_on_two_hosts_is_refused(&site);
    a_revoked_controller_is_refused_by_commands(&site);
    who_is_revoked_is_refused(&site);
}

fn agents_tell_the_weather_of_their_hosts(site: &Site<'_>) {
    let user = format!("user:{USER}");
    let (one, two) = (site.cluster.testbed.name(1).to_owned(), site.cluster.testbed.name(2).to_owned());
    let ask = |words: &[&str]| {
        let words = [&["weather", "--json", "-"], words].concat();
        let output = site.trimtab(&words, &user).output().expect("it runs");
        let found = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default();
        (output.status.code(), found, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    wait_for("an agent has looked twice", || ask(&["--host", &one]).0 == Some(0));
    let (_, found, said) = ask(&["--host", &one, "--nice", "19", "--to", &two]);
    let value = |key: &str| found["figures"][key]["value"].as_f64();
    assert!(value("cpu_share").is_some_and(|share| (0.0..=1.0).contains(&share)), "{found} {said}");
    assert!(value("memory_free_bytes").is_some_and(|bytes| bytes > 1e6), "{found}");
    assert!(value("latency_s").is_some_and(|latency_s| latency_s > 0.0), "{found} {said}");
    assert!(value("bandwidth_bytes_per_s").is_some_and(|bandwidth| bandwidth > 0.0), "{found}");
    assert_eq!((found["host"].as_str(), found["to"].as_str()), (Some(one.as_str()), Some(two.as_str())));
    let forecast = |host: &str| {
        let data = format!("A=bytes:1MB@{one}");
        let words = ["forecast", "comm", "--data", &data, "--to", host, "--json", "-"];
        site.trimtab(&words, &user).output().expect("it runs")
    };
    let output = forecast(&two);
    let said = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default();
    let is_answer = said["facts_from"] == "site" && said["value"].as_f64().is_some_and(|seconds| seconds > 0.0);
    assert!(is_answer && said["lower"].as_f64() < said["value"].as_f64(), "{output:?}");
    let output = forecast("nowhere");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("unknown host \"nowhere\""), "{said}");
    let asked = serde_json::json!({ "data": { "A": format!("bytes:1MB@{one}") }, "to": two }).to_string();
    let (status, answer) = site.http("POST", "/v1/forecasts/comm", Some(&asked), &user);
    let is_answer = answer["facts_from"] == "site" && answer["value"].as_f64().is_some_and(|seconds| seconds > 0.0);
    assert!(status == 200 && is_answer && answer["lower"].as_f64() < answer["value"].as_f64(), "{status} {answer}");
    assert!(answer["alternatives"][0]["oldest_age_s"].as_f64().is_some_and(|age_s| age_s >= 0.0), "{answer}");
    println!("sensing costs {} of a processor", found["cost"]["agent_share"]);
    for (words, expected) in [
        (&["--host", "nowhere"][..], "unknown host: nowhere"),
        (&["--host", &one, "--to", "nowhere"], "unknown host: nowhere"),
        (&["--host", &one, "--to", &one], "to itself is no network"),
        (&["--host", "../tree"], "../tree"),
    ] {
        let (code, _, said) = ask(words);
        assert!(code == Some(2) && said.contains(expected), "{words:?}: {code:?} {said}");
    }
}

#[test]
fn identities_are_issued_and_revoked() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("authority").display().to_string();
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_trimtab")).arg("site").args(words).output().expect("it runs");
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    assert_eq!(run(&["init", &authority]).0, Some(0));
    let (_, said) = run(&["issue", &authority, "user:7"]);
    let serial = said.trim().rsplit(' ').next().expect("a number").to_owned();
    let file = folder.path().join("authority/user-7.pem");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let first = fs::read_to_string(&file).expect("an identity");
    let renewed = folder.path().join("other").display().to_string();
    assert_eq!(run(&["init", &renewed]).0, Some(0));
    run(&["issue", &renewed, "user:7"]);
    let (code, said) = run(&["issue", &renewed, "user:7", "--days", "7"]);
    assert!(code == Some(0) && said.contains("stays valid until it ends or is revoked"), "renewed: {said}");
    assert_ne!(fs::read_to_string(folder.path().join("other/user-7.pem")).expect("an identity"), first);
    let list = folder.path().join("list.pem").display().to_string();
    let (code, said) = run(&["revoke", &authority, "user:7", "--output", &list]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("user 7 with serial {serial} is revoked")) && said.contains(&list), "{said}");
    assert!(fs::read_to_string(&list).expect("the list").starts_with("-----BEGIN X509 CRL-----"));
    let (code, said) = run(&["revoke", &authority, &serial]);
    assert!(code == Some(0) && said.contains("was revoked before"), "{said}");
    let (code, said) = run(&["revoke", &authority, "user:8"]);
    assert!(code == Some(2) && said.contains("nothing valid was issued as user:8"), "{said}");
}

/// With a fan-out of one each agent calls the one before it; all answer, and the way to each is known.
fn agents_are_found_in_a_chain(site: &Site<'_>) {
    site.wait_for_all("all agents are there", |tree| {
        let chain = (1..NODES).all(|index| parent(tree, index) == Some(index as u64 - 1));
        chain && parent(tree, 0).is_none()
    });
    let tree = site.tree();
    assert_eq!((tree["schema"].as_u64(), tree["failures_survived"].as_u64()), (Some(1), Some(0)), "{tree}");
    for index in 0..NODES {
        let agent = member(&tree, index);
        assert_eq!(agent["host"].as_str(), Some(site.cluster.testbed.name(index + 1)), "in the order of their start");
        assert!(agent["round_trip_us"].as_u64().is_some_and(|us| us > 0), "{agent}");
        assert_eq!(agent["health"]["queue"].as_u64(), Some(0), "{agent}");
    }
    let shown = site.trimtab(&["tree"], "user:0").output().expect("it runs");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!("{NODES} of {NODES} agents answered; failures survived: 0")), "{text}");
}

/// The one below it calls the one above it.
fn an_agent_that_is_killed_is_survived(site: &mut Site<'_>) {
    site.kill_agent(2);
    wait_for("the orphan has another parent", || {
        let tree = site.tree();
        member(&tree, 1)["connected"] == false && parent(&tree, 2) == Some(0) && parent(&tree, 3) == Some(2)
    });
    let tree = site.tree();
    println!("the orphan was alone for {} us", member(&tree, 2)["health"]["alone_us_max"]);
    assert_eq!(tree["failures_survived"].as_u64(), Some(1), "{tree}");
    assert_eq!(member(&tree, 2)["health"]["failures_survived"].as_u64(), Some(1), "{tree}");
    assert!(member(&tree, 1)["health"].is_null() && member(&tree, 1)["round_trip_us"].is_null(), "{tree}");
    let shown = site.trimtab(&["tree"], "user:0").output().expect("it runs");
    assert_eq!(shown.status.code(), Some(1), "somebody is missing");
}

fn who_comes_back_has_its_old_place(site: &mut Site<'_>) {
    site.start_agent(2);
    site.wait_for_all("the agent is back, and its child too", |tree| parent(tree, 2) == Some(1));
    assert_eq!(site.tree()["agents"].as_array().map(Vec::len), Some(NODES));
}

fn a_controller_that_comes_back_finds_its_agents(site: &mut Site<'_>) {
    let before = site.tree()["failures_survived"].as_u64().expect("a number");
    children_of(site.controller.id()).into_iter().for_each(kill);
    site.controller.wait().expect("it ended");
    let refused = site.trimtab(&["tree"], "user:0").output().expect("it runs");
    assert!(refused.status.code() == Some(2) && said(&refused).contains("can't be reached"), "{refused:?}");
    for words in [&["list"][..], &["report", "app-1"]] {
        let refused = site.ask(words, "user:0");
        let has = |text: &str| said(&refused).contains(text);
        assert!(has("without --controller your own store is asked") && has("can't be reached"), "{refused:?}");
    }
    site.controller = site.spawn_controller();
    site.wait_for_all("all agents are back", |_| true);
    let after = site.tree()["failures_survived"].as_u64().expect("a number");
    assert!(after >= before + NODES as u64, "each agent has survived it: {before}, {after}");
}

/// The report is that of agents which Slurm started; nothing of it runs as a step of the job.
fn a_job_is_measured_through_the_site_s_agents(site: &Site<'_>, job: &Job) {
    assert!(job.ranks.iter().all(|rank| uid_of(rank.pid) == USER), "a user's job");
    for role in ["user:4242", "administrator:0"] {
        let output = site.attach(job, role, &[]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let report: trimtab_types::report::Report =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{role}: {error}: {out} {err}"));
        assert!(
            report.window.valid && report.ranks.len() == NODES,
            "{role}: {:?} {:?}",
            report.window,
            report.warnings
        );
        assert!(
            report.window.iterations >= Some(10)
                && report.ranks.iter().all(|rank| rank.iterations == report.window.iterations),
            "{role}: {:?}",
            report.ranks
        );
        assert_eq!(output.status.code(), Some(0), "{role}: {err}");
        job.check_untouched();
        wait_for("no window's agent left", || agents().is_empty());
    }
    let tree = site.tree();
    let started = |index| member(&tree, index)["health"]["windows_started"].as_u64();
    assert!((0..NODES).all(|index| started(index) == Some(2)), "{tree}");
    let log = fs::read_to_string(site.cluster.folder("site-audit.jsonl")).expect("the site's audit log");
    let lines = |word: &str| log.lines().filter(|line| line.contains("delegated") && line.contains(word)).count();
    assert_eq!((lines("\"uid\":0,"), lines("\"uid\":4242,")), (NODES, NODES), "who asked stands there: {log}");
    // The users' agents ran as the user, also for the administrator: what they did stands in the user's own log.
    let log = fs::read_to_string(site.cluster.folder("home").join(".local/state/trimtab/audit.jsonl")).expect("a log");
    let count = |word: &str| log.lines().filter(|line| line.contains(word) && line.contains("\"uid\":4242,")).count();
    assert_eq!((count("\"event\":\"begin\""), count("\"event\":\"restored\"")), (2 * NODES, 2 * NODES), "{log}");
}

/// Both windows are the user's, also the one that the administrator measured; nobody else sees them.
fn what_was_measured_is_kept_for_its_owner(site: &Site<'_>) {
    let jobs = |role: &str| -> serde_json::Value {
        let output = site.ask(&["list", "--json"], role);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{role}: {error}: {}", said(&output)))
    };
    for (role, count) in [("user:4242", 1), ("administrator:0", 1), ("user:4243", 0)] {
        let found = jobs(role);
        assert_eq!(found["jobs"].as_array().map(Vec::len), Some(count), "{role}: {found}");
    }
    let job = &jobs("user:4242")["jobs"][0];
    assert_eq!((job["owner"].as_u64(), job["windows"].as_u64()), (Some(u64::from(USER)), Some(2)), "{job}");
    let name = job["id"].as_str().expect("a name");
    let newest = site.ask(&["report", name, "--json"], "user:4242");
    let report: trimtab_types::report::Report = serde_json::from_slice(&newest.stdout).expect("a report");
    assert_eq!((report.job.id.as_str(), report.window.number, report.ranks.len()), (name, 1, NODES));
    let shown = site.ask(&["report", &format!("{name}/0")], "administrator:0");
    let has_window = String::from_utf8_lossy(&shown.stdout).contains(" as trimtab counts)");
    assert!(shown.status.success() && has_window, "{shown:?}");
    let refused = site.ask(&["report", &format!("{name}/0")], "user:4243");
    assert!(refused.status.code() == Some(2) && said(&refused).contains("no such job for you"), "{refused:?}");
}

/// The window ends as if nothing had happened, and the user's own store has it.
fn a_controller_that_dies_during_a_window_takes_nothing_with_it(site: &mut Site<'_>, job: &Job) {
    let words = ["attach", "--slurm", &job.id, "--json", "-", "--iterations", "1000000", "--max-seconds", "4"];
    let mut command = site.trimtab(&words, "user:4242");
    let window = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_for("probes are in", || job.ranks.iter().all(|rank| !rank.is_untouched()));
    children_of(site.controller.id()).into_iter().for_each(kill);
    site.controller.wait().expect("it ended");
    let output = window.wait_with_output().expect("it ends");
    let err = said(&output);
    let report: trimtab_types::report::Report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    // It ends by its time, with or without a loop.
    let is_whole = report.window.valid || report.window.ended_by.word() == "max-seconds";
    assert!(is_whole && report.ranks.len() == NODES, "{:?} {:?}", report.window, report.warnings);
    assert!(err.contains("the site does not keep this window, your own store does"), "{err}");
    job.check_untouched();
    wait_for("no window's agent left", || agents().is_empty());
    site.controller = site.spawn_controller();
    site.wait_for_all("all agents are back", |_| true);
}

/// The standing agent asks for its dead child at once, so nobody takes that for one that runs: the guard restores the rank
/// while the others are still being measured.
fn a_killed_agent_leaves_its_rank_free(site: &Site<'_>, job: &Job) {
    let mut window = LongWindow::begin(site, job);
    let killed = agents()[0];
    let node_of = |pid: i32| (1..=NODES).find(|node| site.cluster.testbed.processes(*node).contains(&pid));
    let node = node_of(killed);
    // Those of other nodes may be without probes for a moment: a loop that is passed too often leaves the window.
    let rank = job.ranks.iter().find(|rank| node_of(rank.pid) == node).expect("its rank");
    kill(killed);
    wait_for("the rank restored by the guard", || {
        window.check_runs();
        rank.is_untouched()
    });
    let state = fs::read_to_string(format!("/proc/{killed}/stat")).ok();
    assert!(state.is_none(), "its number is free: {state:?}");
    window.end_early();
    job.check_untouched();
    let node = (1..=NODES).map(|node| site.cluster.folder(&format!("agent{node}.log")));
    let told = node.filter(|log| fs::read_to_string(log).is_ok_and(|log| log.contains("was ended by signal 9")));
    assert_eq!(told.count(), 1, "its standing agent says so");
}

/// The lead's words that it hears when it goes on were said while its lease ended.
fn a_stopped_agent_that_goes_on_leaves_within_its_lease(site: &Site<'_>, job: &Job) {
    let mut window = LongWindow::begin(site, job);
    let stopped = agents()[0];
    signal(stopped, "STOP");
    let since = Instant::now();
    wait_for("its lease is over", || since.elapsed() > LEASE + Duration::from_millis(500));
    let refused = job.ranks.iter().filter(|rank| {
        let testbed = site.cluster.testbed;
        let node = (1..=NODES).find(|node| testbed.processes(*node).contains(&rank.pid)).expect("it is on a node");
        let inside = Testbed::inside(rank.pid).expect("it runs").to_string();
        let undo = site.cluster.trimtab_on(node, &["undo", "--process", &inside]).output().expect("it runs");
        said(&undo).contains("that one is stopped: let it go on (`kill -CONT")
    });
    assert_eq!(refused.count(), 1, "why nobody can take its probes out");
    signal(stopped, "CONT");
    wait_for("its rank restored by itself", || {
        window.check_runs();
        job.ranks.iter().any(Rank::is_untouched)
    });
    window.end_early();
    job.check_untouched();
}

/// A window that lasts until it is interrupted.
struct LongWindow {
    lead: Child,
    /// The file in which its messages are.
    log: PathBuf,
}

impl LongWindow {
    fn begin(site: &Site<'_>, job: &Job) -> LongWindow {
        let words = ["attach", "--slurm", &job.id, "--iterations", "100000000", "--max-seconds", "80"];
        let mut command = site.trimtab(&words, "user:4242");
        let log = site.cluster.folder("long-window.log");
        let file = fs::File::create(&log).expect("a log");
        let lead = command.stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        wait_for("probes in all ranks", || job.ranks.iter().all(|rank| !rank.is_untouched()));
        LongWindow { lead, log }
    }

    fn check_runs(&mut self) {
        assert!(matches!(self.lead.try_wait(), Ok(None)), "the window is over");
    }

    fn end_early(mut self) {
        // The Child is nsenter's, whose one child is the lead.
        children_of(self.lead.id()).into_iter().for_each(|lead| signal(lead, "INT"));
        let code = self.lead.wait().expect("it ended").code();
        let said = fs::read_to_string(&self.log).expect("a log");
        // Its ranks may have come to no iteration yet.
        let is_too_early = code == Some(2) && said.contains("before anything was recorded");
        assert!(code == Some(1) || is_too_early, "one rank is missing: {code:?} {said}");
        wait_for("no window's agent left", || agents().is_empty());
    }
}

/// Nothing is in the job until its owner calls; the report says who did.
fn a_call_through_the_api_is_measured(site: &Site<'_>, job: &Job) {
    let file = site.cluster.folder("called.json");
    let log = site.cluster.folder("called.log");
    let shown = file.display().to_string();
    let mut waiting = site.trimtab(&["attach", "--slurm", &job.id, "--when", "api:go", "--json", &shown], "user:4242");
    let mut waiting = logged(&mut waiting, &log);
    let heard = || fs::read_to_string(&log).unwrap_or_default();
    wait_for("it waits", || {
        assert!(matches!(waiting.try_wait(), Ok(None)), "{}", heard());
        heard().contains("the site calls this job")
    });
    job.check_untouched();
    for (role, name) in [("user:4243", "go"), ("user:4242", "stop")] {
        let output = site.ask(&["trigger", &job.id, name], role);
        assert!(output.status.code() == Some(2) && said(&output).contains("nobody waits"), "{role}: {output:?}");
    }
    let output = site.ask(&["trigger", &job.id, "go"], "user:4242");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(waiting.wait().expect("it ends").code(), Some(0), "{}", heard());
    let text = fs::read_to_string(&file).expect("a report");
    let report: trimtab_types::report::Report = serde_json::from_str(&text).expect("a report");
    let event = report.window.event.expect("it waited for one");
    assert_eq!((event.kind.word(), &*event.condition, &*event.value), ("api", "api:go", "go, called by user 4242"));
    job.check_untouched();
    wait_for("no window's agent left", || agents().is_empty());
}

/// The controller has a window of a real job measured for its owner, an administrator and a scheduler that the owner accepted,
/// and for nobody else; agents run as the owner, the program is as before, and the logs name who asked.
fn windows_are_measured_for_who_may_ask(site: &Site<'_>, job: &Job) {
    let path = format!("/v1/jobs/{}/windows", job.id);
    let ask = |body: &str, role: &str| site.http("POST", &path, Some(body), role);
    let plainly = |words: &[&str], role: &str| {
        let output = site.ask(&[&["site"], words].concat(), role);
        let heard = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
        (output.status.code(), heard)
    };
    let (another, scheduler) = (ask("{}", "user:4243"), ask("{}", "scheduler:990"));
    assert_eq!((another.0, scheduler.0), (404, 403), "{} {}", another.1, scheduler.1);
    let own_log = site.cluster.folder("home").join(".local/state/trimtab/audit.jsonl");
    let begun = || fs::read_to_string(&own_log).expect("a log").matches("\"event\":\"begin\"").count();
    let before = begun();
    assert!(agents().is_empty() && plainly(&["accepted"], "user:4242").0 == Some(1), "nothing was started");
    let (code, heard) = plainly(&["accept", "scheduler:990"], "user:4242");
    assert!(code == Some(0) && heard.contains("scheduler 990 may have your jobs measured"), "{heard}");
    let (code, heard) = plainly(&["accepted"], "administrator:0");
    assert!(code == Some(0) && heard.contains("scheduler 990 by user 4242"), "{heard}");
    for (role, body, ranks) in [
        ("user:4242", r#"{"iterations": 20, "blocking": true}"#, NODES),
        ("administrator:0", r#"{"seconds": 0.3, "ranks": "0-1", "blocking": true}"#, 2),
        ("scheduler:990", r#"{"iterations": 12}"#, NODES),
    ] {
        is_measured_for(site, job, role, body, ranks);
    }
    is_ended_early(site, job);
    let (code, heard) = plainly(&["arguments"], "user:4242");
    assert!(code == Some(0) && heard.contains("arguments as hashes"), "{heard}");
    assert!(plainly(&["arguments", "keep"], "user:4242").1.contains("as they are;"));
    assert!(plainly(&["arguments", "hash"], "user:4242").1.contains("arguments as hashes"));
    assert_eq!(begun() - before, 3 * NODES + 2, "the agents ran as the owner, in whose log it stands");
    assert_eq!(plainly(&["withdraw", "scheduler:990"], "user:4242").0, Some(0));
    let (code, why) = ask("{}", "scheduler:990");
    assert!(code == 403 && why["error"].as_str().is_some_and(|why| why.contains("site accept scheduler:990")), "{why}");
    let over = site.http("POST", "/v1/jobs/999999/windows", Some("{}"), "administrator:0");
    assert!(over.0 == 404 && over.1["error"].as_str().is_some_and(|why| why.contains("knows no job")), "{over:?}");
    job.check_untouched();
}

/// A long window that its asker ends: what was recorded is kept.
fn is_ended_early(site: &Site<'_>, job: &Job) {
    let path = format!("/v1/jobs/{}/windows", job.id);
    let (code, begun) = site.http("POST", &path, Some(r#"{"seconds": 100, "seconds_max": 120}"#), "user:4242");
    assert_eq!(code, 200, "{begun}");
    let path = format!("/v1/measurements/{}", begun["id"]);
    wait_for("its agents are there", || agents().len() == NODES);
    std::thread::sleep(EARLY_END);
    assert_eq!(site.http("DELETE", &path, None, "user:4242").0, 200);
    let mut found = begun;
    wait_for("the window is over", || {
        found = site.http("GET", &path, None, "user:4242").1;
        found["state"] != "measuring"
    });
    assert_eq!(found["state"], "measured", "{found}");
    let kept =
        format!("/v1/jobs/{}/windows/{}", found["kept"]["job"].as_str().expect("a name"), found["kept"]["window"]);
    let (code, report) = site.http("GET", &kept, None, "user:4242");
    assert!(code == 200 && report["window"]["valid"] == true, "{report}");
    assert!(report["window"]["iterations"].as_u64().is_some_and(|count| count > 0), "{report}");
    assert_eq!(site.http("DELETE", &path, None, "user:4242").0, 409);
    wait_for("no window's agent left", || agents().is_empty());
}

/// One window that the controller has measured for somebody; the program is as before, and every log says for whom.
fn is_measured_for(site: &Site<'_>, job: &Job, role: &str, body: &str, ranks: usize) {
    let (code, mut found) = site.http("POST", &format!("/v1/jobs/{}/windows", job.id), Some(body), role);
    assert_eq!(code, 200, "{role}: {found}");
    wait_for("the window is over", || {
        found = site.http("GET", &format!("/v1/measurements/{}", found["id"]), None, role).1;
        found["state"] != "measuring"
    });
    assert_eq!(
        (&found["state"], found["owner"].as_u64()),
        (&"measured".into(), Some(u64::from(USER))),
        "{role}: {found}"
    );
    let (name, number) = (found["kept"]["job"].as_str().expect("a name"), found["kept"]["window"].as_u64());
    let kept = format!("/v1/jobs/{name}/windows/{}", number.expect("a number"));
    let (code, report) = site.http("GET", &kept, None, role);
    assert_eq!(code, 200, "{role}: {report}");
    let report: trimtab_types::report::Report = serde_json::from_value(report).expect("a report");
    let by = role.replace(':', " ");
    assert!(report.window.valid && report.ranks.len() == ranks, "{role}: {:?} {:?}", report.window, report.warnings);
    assert!(role == "administrator:0" || report.window.iterations == Some(if role == "user:4242" { 20 } else { 12 }));
    assert_eq!(report.window.event.map(|event| event.value), Some(format!("asked for by {by}")));
    assert_eq!(site.http("GET", &kept, None, "user:4243").0, 404);
    job.check_untouched();
    wait_for("no window's agent left", || agents().is_empty());
    let log = fs::read_to_string(site.cluster.folder("controller-audit.jsonl")).expect("the controller's log");
    let event = |name: &str| {
        let has =
            |line: &&str| line.contains(&format!("\"by\":\"{by}\"")) && line.contains(&format!("\"event\":\"{name}\""));
        log.lines()
            .filter(has)
            .filter(|line| line.contains(&format!("\"job\":\"{}\",\"owner\":{USER}", job.id)))
            .count()
    };
    assert_eq!((event("asked"), event("measured")), (1, 1), "{role}: {log}");
    let log = fs::read_to_string(site.cluster.folder("site-audit.jsonl")).expect("the site's audit log");
    let named = |line: &&str| line.contains("delegated") && line.contains(&format!("\"uid\":{USER},\"user\":\"{by}\""));
    assert_eq!(log.lines().filter(named).count(), NODES, "{role}: {log}");
}

/// A second agent with the identity of the first node's, on the last node: the first one stays, and both logs say why. So it is on
/// the first one's own node, and with two that nobody can call.
fn one_identity_on_two_hosts_is_refused(site: &Site<'_>) {
    let testbed = site.cluster.testbed;
    let survived = || site.tree()["failures_survived"].as_u64().expect("a number");
    let first = format!("node:{}", testbed.name(1));
    let start = |node: usize, role: &str, log: &str| {
        let mut command = testbed.on(node, env!("CARGO_BIN_EXE_trimtab"));
        command.args(["agent", "--port", "0", "--controller", &testbed.address(0), "--identity"]);
        command.arg(site.identity(role)).arg("--revoked").arg(site.cluster.folder("no-list.pem"));
        logged(&mut command, &site.cluster.folder(log))
    };
    let is_refused = |node: usize, role: &str, log: &str, why: &str| {
        let before = survived();
        let mut child = start(node, role, log);
        wait_for(why, || site.has_said(log, why) && site.has_said("controller.log", why));
        children_of(child.id()).into_iter().for_each(kill);
        child.wait().expect("it ended");
        assert_eq!(survived(), before, "{role} on node {node}: nobody was pushed out");
    };
    is_refused(NODES, &first, "copied.log", "has one identity been copied to two hosts");
    assert!(site.has_said("copied.log", "it was copied from another host"), "it knows its own name");
    is_refused(1, &first, "twin.log", &format!("another agent of {} runs on", testbed.name(1)));
    let mut hidden = start(1, "node:n1", "hidden.log");
    wait_for("it is in the tree", || site.has_said("hidden.log", "is in the tree"));
    is_refused(1, "node:n1", "hidden-twin.log", "another agent of n1 runs on");
    children_of(hidden.id()).into_iter().for_each(kill);
    hidden.wait().expect("it ended");
    let mut again = start(1, "node:n1", "hidden-again.log");
    wait_for("its place is free", || site.has_said("hidden-again.log", "is in the tree"));
    children_of(again.id()).into_iter().for_each(kill);
    again.wait().expect("it ended");
}

/// A user and an agent. The agent's connection is to another agent, which gets the list from the controller.
fn who_is_revoked_is_refused(site: &Site<'_>) {
    let (authority, list) = (site.cluster.folder("authority"), site.cluster.folder("revoked.pem"));
    let node = format!("node:{}", site.cluster.testbed.name(NODES));
    let mut revoke = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    revoke.args(["site", "revoke"]).arg(authority).args(["user:4243", &node, "--output"]).arg(list);
    assert!(revoke.status().expect("it runs").success());
    wait_for("the user is refused", || site.ask(&["list"], "user:4243").status.code() == Some(2));
    // Places were given anew when the controller came back.
    let is_theirs = |agent: &serde_json::Value| agent["host"].as_str() == Some(site.cluster.testbed.name(NODES));
    wait_for("all but that agent are in the tree", || {
        let tree = site.tree();
        let all = || (0..NODES).map(|index| member(&tree, index));
        all().all(|agent| if is_theirs(&agent) { agent["connected"] == false } else { !agent["health"].is_null() })
    });
    // Whoever it may have called meanwhile has the list, too, and refuses it.
    wait_for("every agent has the list", || {
        (1..NODES).all(|node| {
            let log = site.cluster.folder(&format!("agent{node}.log"));
            fs::read_to_string(log).is_ok_and(|log| log.contains("the list of revoked certificates has changed"))
        })
    });
}

/// Commands read the list that their host has: whoever took the controller's key can't have them speak to it.
fn a_revoked_controller_is_refused_by_commands(site: &Site<'_>) {
    let (authority, other, list) =
        (site.cluster.folder("authority"), site.cluster.folder("other"), site.cluster.folder("other.pem"));
    // The site's own authority goes on: what it revokes stays revoked.
    let copied = Command::new("cp").arg("-r").args([&authority, &other]).status().expect("cp runs");
    let mut revoke = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    revoke.args(["site", "revoke"]).arg(&other).args(["controller", "--output"]).arg(&list);
    assert!(copied.success() && revoke.status().expect("it runs").success());
    let address = site.cluster.testbed.address(0).to_string();
    for words in [["tree"].as_slice(), &["list", "--controller", &address]] {
        let asked = |list: &Path| site.trimtab(words, "user:0").env("TRIMTAB_REVOKED", list).output().expect("it runs");
        let (refused, heard) = (asked(&list), asked(Path::new("/nowhere/revoked.pem")));
        assert!(refused.status.code() == Some(2) && said(&refused).contains("Revoked"), "{}", said(&refused));
        assert!(heard.status.code() != Some(2), "{}", said(&heard));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The certificate says another user than the kernel; each agent compares the two by itself.
fn another_user_s_job_is_refused_by_every_agent(site: &Site<'_>, job: &Job) {
    // Also if root runs the command: the certificate counts.
    let output = site.attach(job, "user:4243", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("belongs to user 4242, and user 4243 asks"), "{said}");
    for node in 1..=NODES {
        assert!(said.contains(site.cluster.testbed.name(node)), "{said}");
    }
    let output = site.attach(job, "node:n1", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("is the identity of the agent of n1"), "{said}");
    assert!(agents().is_empty(), "nothing was started");
    job.check_untouched();
}

fn a_node_is_examined(site: &Site<'_>) {
    let output = site.trimtab(&["doctor", "--json"], "user:0").output().expect("it runs");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let check = |name: &str| {
        let checks = found["checks"].as_array().expect("a list");
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {found}")).clone()
    };
    assert_eq!(check("controller")["state"], "ok", "{found}");
    let identity = check("identity")["found"].as_str().expect("text").to_owned();
    assert!(identity.contains("user 0, valid for 364 days") || identity.contains("valid for 365 days"), "{identity}");
    assert_eq!(check("Slurm")["state"], "ok", "{found}");
}

/// An identity whose time is over or has not come, nobody where the controller should be, something else there: each command says
/// which it is, and `attach` that it works without.
fn why_the_site_is_of_no_help_is_looked_up(site: &Site<'_>, job: &Job) {
    let day = Duration::from_secs(24 * 3600);
    let (now, role) = (SystemTime::now(), "user:0".parse().expect("a role"));
    let authority = Authority::open(&site.cluster.folder("authority")).expect("an authority");
    for (name, from, until) in [("user:late", now - 3 * day, now - 2 * day), ("user:early", now + day, now + 2 * day)] {
        authority.issue_between(&role, from, until, &site.identity(name)).expect("an identity");
    }
    let address = site.cluster.testbed.address(0);
    let (away, tree_port) = (format!("{address}:9"), format!("{address}:7558"));
    let without = "without --controller and TRIMTAB_CONTROLLER `srun` starts agents inside of the job";
    for (name, role, controller, why) in [
        ("expired", "user:late", &address, "does not take this identity: it expired 2 days ago"),
        ("early", "user:early", &address, "does not take this identity: it becomes valid in"),
        ("away", "user:0", &away, "can't be reached"),
        ("the tree's port", "user:0", &tree_port, &*tree_port),
    ] {
        for (words, also) in [(&["attach", "--slurm", &job.id][..], without), (&["tree"], why), (&["doctor"], why)] {
            let output = site.trimtab(words, role).env("TRIMTAB_CONTROLLER", controller).output().expect("it runs");
            let heard = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
            assert!(heard.contains(why) && heard.contains(also), "{name}: {words:?}: {heard}");
            let asks_if_it_runs = heard.contains("and the way to its port open?");
            assert!(words != ["doctor"] || asks_if_it_runs == (name == "away"), "{name}: {heard}");
        }
    }
    job.check_untouched();
}

/// One node's: the others are measured. All: nobody is, and the other way is told.
fn nodes_without_a_standing_agent_are_named(site: &mut Site<'_>, job: &Job) {
    let named = |nodes: &[usize]| {
        let names: Vec<&str> = nodes.iter().map(|node| site.cluster.testbed.name(*node)).collect();
        format!("none is on {}: start it there", names.join(", "))
    };
    let (one, all) = (named(&[2]), named(&(1..=NODES).collect::<Vec<_>>()));
    site.kill_agent(2);
    // Places were given anew when the controller came back.
    wait_for("it is missed", || {
        let tree = site.tree();
        let on_node = |agent: &serde_json::Value| agent["host"].as_str() == Some(site.cluster.testbed.name(2));
        (0..NODES).map(|index| member(&tree, index)).any(|agent| on_node(&agent) && agent["connected"] == false)
    });
    let output = site.attach(job, "user:4242", &[]);
    let report: trimtab_types::report::Report = serde_json::from_slice(&output.stdout).expect("a report");
    let warned = |words: &str| report.warnings.iter().any(|warning| warning.contains(words));
    let looked = format!("no agent looked for them on {}", site.cluster.testbed.name(2));
    assert!(output.status.code() == Some(1) && warned(&one) && warned(&looked), "{:?}", report.warnings);
    assert_eq!(report.ranks.len(), NODES - 1);
    let name = report.job.id.as_str();
    let page = String::from_utf8_lossy(&site.ask(&["report", name], "user:4242").stdout).into_owned();
    assert!(page.contains("INVALID: 3 of 4 ranks were measured"), "{page}");
    for node in [1, 3, 4] {
        site.kill_agent(node);
    }
    wait_for("all are missed", || (0..NODES).all(|index| member(&site.tree(), index)["connected"] == false));
    let output = site.attach(job, "user:4242", &[]);
    let heard = said(&output);
    assert!(output.status.code() == Some(2) && heard.contains("no agent was started: "), "{heard}");
    assert!(heard.contains(&all) && heard.contains("`srun` starts agents") && !heard.contains("within"), "{heard}");
    for node in 1..=NODES {
        site.start_agent(node);
    }
    site.wait_for_all("all agents are back", |_| true);
    job.check_untouched();
}

fn uid_of(pid: i32) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{pid}")).expect("it runs"))
}
