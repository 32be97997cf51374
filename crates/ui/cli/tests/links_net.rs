//! Links of known bandwidth between nodes that are namespaces: what windows of an MPI program say of them, and that a sender made
//! late changes waiting only.
//!
//! Next: docs/links.md; `links.rs` for the commands on one node.

mod common_cluster;

use common_cluster::{agents, on_nodes, wait_for};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_specimens::{Mpi, Variant, build, has_worked, skip};
use trimtab_testbed::{Ssh, Testbed};

/// A rank on each.
const NODES: usize = 2;
/// Bytes of a frame over those of them that a message has: headers of Ethernet, IP and TCP.
const FRAME: f64 = 1514.0 / 1448.0;
/// Times lie this near to the limit's.
const NEAR: f64 = 0.1;
/// Windows until one is not disturbed by others on this machine.
const TRIES: usize = 4;
/// A sender is made late by this.
const LATE_US: u64 = 30_000;

/// A limit: bits in a second, the word for tc, the bucket that goes through at once, the sizes of messages.
struct Limit {
    bits_per_s: f64,
    rate: &'static str,
    burst: &'static str,
    sizes: &'static str,
    largest: u64,
}

const LIMITS: [Limit; 2] = [
    Limit { bits_per_s: 1e7, rate: "10mbit", burst: "5kb", sizes: "2048,32768,65536,98304,131072", largest: 131_072 },
    Limit {
        bits_per_s: 1e8,
        rate: "100mbit",
        burst: "16kb",
        sizes: "2048,131072,262144,524288,786432",
        largest: 786_432,
    },
];

/// Open MPI asks for these of administrators.
const ROOT: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
/// How MPICH's ranks find each other.
const NETWORK: [(&str, &str); 2] = [("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")];

struct Nodes<'a> {
    testbed: &'a Testbed,
    ssh: &'a Ssh<'a>,
}

/// A job with a rank on each node, which is ended with it.
struct Job {
    launcher: Child,
    pid: String,
    ranks: Vec<i32>,
}

impl Drop for Job {
    fn drop(&mut self) {
        // Ranks that outlive their launcher fill the link on which the next job starts.
        let all = self.ranks.iter().copied().chain(common_cluster::children_of(self.launcher.id()));
        let _some_have_ended =
            Command::new("kill").arg("-KILL").args(all.map(|pid| pid.to_string())).stderr(Stdio::null()).status();
        let _gone = self.launcher.kill();
        let _ended = self.launcher.wait();
    }
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

fn on_limited_links(test: &str, mpi: Mpi) {
    let _alone = alone();
    if let Some(lack) = Ssh::lack() {
        return skip(test, &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let (state, cache) = (testbed.folder().join("state"), cache());
    let variables = [("XDG_STATE_HOME", &*state), ("XDG_CACHE_HOME", &*cache)];
    let ssh = Ssh::start(&testbed, &variables).expect("nodes answer");
    let nodes = Nodes { testbed: &testbed, ssh: &ssh };
    nodes.limit(Some(&LIMITS[0]));
    let (_, on_time) = nodes.transfers_take_what_the_limit_says(mpi, &LIMITS[0]);
    nodes.a_late_sender_changes_waiting_only(mpi, &LIMITS[0], on_time);
    nodes.limit(Some(&LIMITS[1]));
    let (limited_gap_s, _) = nodes.transfers_take_what_the_limit_says(mpi, &LIMITS[1]);
    nodes.limit(None);
    let job = nodes.start(mpi, &["--sizes", LIMITS[1].sizes]);
    // A line through times that do not grow with the size is no fit, and none is claimed: others may have used the processors.
    let gap_s = (0..TRIES).find_map(|_| {
        let links = nodes.links(&nodes.window(&job));
        last_segment(&links)?["gap_s_per_byte"]["value"].as_f64()
    });
    let gap_s = gap_s.expect("a window from which the gap is known");
    println!("{mpi:?} without a limit: {:.1} Mbit/s", 8e-6 / gap_s);
    assert!(gap_s < 0.5 * limited_gap_s, "{gap_s} {limited_gap_s}");
}

#[test]
fn limited_links_are_fitted_with_open_mpi() {
    on_limited_links("limited_links_are_fitted_with_open_mpi", Mpi::OpenMpi);
}

#[test]
fn limited_links_are_fitted_with_mpich() {
    on_limited_links("limited_links_are_fitted_with_mpich", Mpi::Mpich);
}

/// The fit of the one pair of nodes.
fn network(links: &Value) -> &Value {
    let pairs = links["pairs"].as_array().expect("pairs");
    pairs.iter().find(|pair| pair["way"] == "network").unwrap_or_else(|| panic!("no pair of nodes: {links}"))
}

/// `None`: no fit is claimed, for others used the processors, or the window saw too few sizes.
fn last_segment(links: &Value) -> Option<&Value> {
    let network = network(links);
    assert!(network["fit"].is_object() || network["no_fit"].is_string(), "the reason is said: {links}");
    network["fit"]["segments"].as_array()?.last()
}

/// Median time of messages of one size from rank 0 to rank 1, and how long each was waited for.
#[derive(Clone, Copy, Debug)]
struct FromFirst {
    transfer_s: f64,
    wait_s: f64,
}

fn from_first(report: &Path, bytes: u64) -> FromFirst {
    let report: Value = serde_json::from_slice(&fs::read(report).expect("a report")).expect("JSON");
    let rows = report["messages"].as_array().expect("messages").iter();
    let mut rows = rows.filter(|row| row["from"] == 0 && row["bytes"] == bytes);
    let row = rows.next().unwrap_or_else(|| panic!("no message of {bytes} bytes: {}", report["messages"]));
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{row}"));
    let seen = number("messages") - number("hidden");
    FromFirst { transfer_s: number("transfer_s_median"), wait_s: number("wait_s") / seen }
}

impl Nodes<'_> {
    fn limit(&self, limit: Option<&Limit>) {
        for node in 1..=NODES {
            // Without the limit before goes what waits there, too.
            let tc = |words: &str| {
                let output = self.testbed.on(node, "tc").args(words.split(' ')).output().expect("tc runs");
                output.status.success().then_some(()).ok_or(output)
            };
            let _there_was_none = tc("qdisc del dev eth0 root");
            if let Some(Limit { rate, burst, .. }) = limit {
                let words = format!("qdisc add dev eth0 root tbf latency 400ms rate {rate} burst {burst}");
                tc(&words).unwrap_or_else(|output| panic!("{output:?}"));
            }
        }
    }

    /// The time of the largest message by the fit is that of its frames at the limit. Returns the fit's time of a byte, and
    /// what the same window says of the largest messages.
    fn transfers_take_what_the_limit_says(&self, mpi: Mpi, limit: &Limit) -> (f64, FromFirst) {
        let job = self.start(mpi, &["--sizes", limit.sizes]);
        let mut tries = Vec::new();
        for _ in 0..TRIES {
            let report = self.window(&job);
            let links = self.links(&report);
            let Some(segment) = last_segment(&links) else {
                println!("{mpi:?} at {}: no fit: {links}", limit.rate);
                continue;
            };
            let number = |key: &str| segment[key]["value"].as_f64().unwrap_or_else(|| panic!("{links}"));
            let gap_s = number("gap_s_per_byte");
            let fitted_s = number("latency_s") + gap_s * (limit.largest - 1) as f64;
            let expected_s = 8.0 * FRAME * limit.largest as f64 / limit.bits_per_s;
            println!(
                "{mpi:?} at {}: {:.2} Mbit/s; {} bytes: {fitted_s:.4} s fitted, {expected_s:.4} s by the limit",
                limit.rate,
                8e-6 / gap_s,
                limit.largest
            );
            tries.push(fitted_s / expected_s);
            if (1.0 - NEAR..=1.0 + NEAR).contains(&(fitted_s / expected_s)) {
                return (gap_s, from_first(&report, limit.largest));
            }
        }
        panic!("{mpi:?} at {}: {tries:?}", limit.rate);
    }

    fn a_late_sender_changes_waiting_only(&self, mpi: Mpi, limit: &Limit, on_time: FromFirst) {
        let job = self.start(mpi, &["--sizes", limit.sizes, "--late-us", &LATE_US.to_string()]);
        let mut tries = Vec::new();
        for _ in 0..TRIES {
            let late = from_first(&self.window(&job), limit.largest);
            println!("{mpi:?}: {on_time:?}; sent late: {late:?}");
            assert!(late.wait_s - on_time.wait_s > 0.8e-6 * LATE_US as f64, "{on_time:?} {late:?}");
            tries.push(late.transfer_s / on_time.transfer_s);
            if (1.0 - NEAR..=1.0 + NEAR).contains(&(late.transfer_s / on_time.transfer_s)) {
                return;
            }
        }
        panic!("{mpi:?}: {tries:?}");
    }

    fn trimtab(&self, words: &[&str]) -> Command {
        let mut command = self.testbed.on(1, env!("CARGO_BIN_EXE_trimtab"));
        let folder = |name: &str| self.testbed.folder().join(name);
        command.args(words).env("XDG_DATA_HOME", folder("data")).env("XDG_STATE_HOME", folder("state"));
        command.env("XDG_CACHE_HOME", cache()).envs(ROOT);
        command
    }

    /// The report of some iterations of both ranks.
    fn window(&self, job: &Job) -> PathBuf {
        let file = self.testbed.folder().join("window.json");
        let path = file.display().to_string();
        let words = ["attach", "--iterations", "8", "--max-seconds", "60", "--json", &path, &job.pid];
        let said = self.trimtab(&words).output().expect("it runs");
        assert!(said.status.success(), "{said:?}");
        wait_for("agents have gone", || agents().is_empty());
        file
    }

    fn links(&self, report: &Path) -> Value {
        let path = report.display().to_string();
        let said = self.trimtab(&["model", "links", "--json", "-", &path]).output().expect("it runs");
        serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    fn start(&self, mpi: Mpi, words: &[&str]) -> Job {
        let program = build("pong", Some(mpi), &Variant::default()).expect("it builds");
        let program = program.canonicalize().expect("it is there");
        let before = on_nodes(&program);
        let launch = self.launch(mpi);
        let mut command = self.testbed.on(1, &launch[0]);
        command.args(&launch[1..]).arg(&program).args(["--iterations", "100000000"]).args(words);
        command.envs(ROOT).envs(NETWORK).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let mut launcher = command.spawn().expect("it starts");
        let new = || on_nodes(&program).into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<i32>>();
        let mut ranks = Vec::new();
        wait_for("both ranks are at work", || {
            assert!(matches!(launcher.try_wait(), Ok(None)), "the launcher has ended");
            ranks = new();
            ranks.len() == NODES && ranks.iter().all(|pid| has_worked(*pid))
        });
        let inner = common_cluster::children_of(launcher.id());
        let pid = inner.first().and_then(|pid| Testbed::inside(*pid)).expect("the launcher runs").to_string();
        Job { launcher, pid, ranks }
    }

    fn launch(&self, mpi: Mpi) -> Vec<String> {
        let names: Vec<&str> = (1..=NODES).map(|node| self.testbed.name(node)).collect();
        let (names, way) = (names.join(","), self.ssh.words());
        match mpi {
            Mpi::OpenMpi => {
                let words = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include \
                             10.77.0.0/24 --mca mpi_yield_when_idle 1 --host";
                let own = ["mpirun.openmpi", "--mca", "plm_rsh_agent", &way].map(str::to_owned);
                own.into_iter().chain(words.split_whitespace().map(str::to_owned)).chain([names]).collect()
            }
            Mpi::Mpich => {
                let file = self.testbed.folder().join("rsh");
                fs::write(&file, format!("#!/bin/sh\nexec {way} \"$@\"\n")).expect("it can be written");
                let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs::set_permissions(&file, everybody).expect("it is ours");
                let words = ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec"].map(str::to_owned);
                let rest = [file.display().to_string(), "-hosts".to_owned(), names, "-ppn".to_owned(), "1".to_owned()];
                words.into_iter().chain(rest).collect()
            }
        }
    }
}
