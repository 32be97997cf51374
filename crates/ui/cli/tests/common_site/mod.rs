//! Shared by tests of a site: its authority, a controller on the head, and a standing agent on each node.
//!
//! A test has `common_cluster` beside it, as a module of its own.
//!
//! Next: `site.rs` for what keeps it together, `site_whole.rs` for whole runs.
#![allow(dead_code, reason = "each test file uses its own part")]

use crate::common_cluster::{Cluster, Job, children_of, kill, make_user, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The rights of a standing agent.
const RIGHTS: &str = "-all,+setuid,+setgid,+sys_ptrace,+dac_read_search";

/// An authority, a controller on the head and an agent on each node.
pub struct Site<'a> {
    pub cluster: &'a Cluster<'a>,
    pub controller: Child,
    pub agents: Vec<Child>,
}

impl<'a> Site<'a> {
    pub fn start(cluster: &'a Cluster<'a>) -> Self {
        let folder = cluster.folder("authority");
        let run = |words: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_trimtab")).args(words).output().expect("it runs");
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let shown = folder.display().to_string();
        run(&["site", "init", &shown]);
        let nodes: Vec<String> =
            (1..=cluster.testbed.count()).map(|node| format!("node:{}", cluster.testbed.name(node))).collect();
        let people = ["user:0", "user:4242", "user:4243", "administrator:0", "scheduler:990", "node:n1"];
        let roles: Vec<&str> = nodes.iter().map(String::as_str).chain(people).collect();
        run(&[&["site", "issue", &shown], &roles[..]].concat());
        make_user(cluster.testbed);
        let controller = Site::controller_on(cluster);
        let mut site = Site { cluster, controller, agents: Vec::new() };
        for node in 1..=cluster.testbed.count() {
            site.start_agent(node);
            // One after the other, so that their places are known.
            wait_for("an agent is in the tree", || member(&site.tree(), node - 1)["connected"] == true);
        }
        site
    }

    pub fn identity(&self, role: &str) -> PathBuf {
        self.cluster.folder("authority").join(format!("{}.pem", role.replace(':', "-")))
    }

    pub fn spawn_controller(&self) -> Child {
        Site::controller_on(self.cluster)
    }

    fn controller_on(cluster: &Cluster<'_>) -> Child {
        let mut command = cluster.slurm.command_on(0, env!("CARGO_BIN_EXE_trimtab"));
        command.args(["controller", "--fan-out", "1", "--identity"]);
        command.env("TRIMTAB_AUDIT", cluster.folder("controller-audit.jsonl"));
        command.arg(cluster.folder("authority/controller.pem"));
        command.arg("--store").arg(cluster.folder("site.db")).arg("--revoked").arg(cluster.folder("revoked.pem"));
        let child = logged(&mut command, &cluster.folder("controller.log"));
        wait_for("the controller listens", || {
            fs::read_to_string(cluster.folder("controller.log")).is_ok_and(|log| log.contains("is asked at"))
        });
        child
    }

    pub fn start_agent(&mut self, node: usize) {
        let testbed = self.cluster.testbed;
        // With no more rights than packaging/trimtab-agent.service gives it.
        let mut command = self.cluster.slurm.command_on(node, "setpriv");
        command.args(["--bounding-set", RIGHTS, "--no-new-privs", env!("CARGO_BIN_EXE_trimtab")]);
        command.args(["agent", "--controller", &testbed.address(0), "--identity"]);
        command.arg(self.identity(&format!("node:{}", testbed.name(node))));
        // There is no such file: they get the controller's list.
        command.arg("--revoked").arg(self.cluster.folder("no-list.pem"));
        command.env("TRIMTAB_AUDIT", self.cluster.folder("site-audit.jsonl"));
        let child = logged(&mut command, &self.cluster.folder(&format!("agent{node}.log")));
        match self.agents.get_mut(node - 1) {
            Some(earlier) => *earlier = child,
            None => self.agents.push(child),
        }
    }

    pub fn kill_agent(&mut self, node: usize) {
        let child = &mut self.agents[node - 1];
        children_of(child.id()).into_iter().for_each(kill);
        child.wait().expect("it ended");
    }

    /// `trimtab` on the head, as whoever a certificate says.
    pub fn trimtab(&self, words: &[&str], role: &str) -> Command {
        let mut command = self.cluster.trimtab(words);
        command.env("TRIMTAB_CONTROLLER", self.cluster.testbed.address(0)).env("TRIMTAB_IDENTITY", self.identity(role));
        command
    }

    pub fn attach(&self, job: &Job, role: &str, words: &[&str]) -> Output {
        let words = [&["attach", "--slurm", &job.id, "--json", "-"], words].concat();
        self.trimtab(&words, role).output().expect("it runs")
    }

    /// A question to the site's store, and to whoever waits at the site, in place of the own.
    pub fn ask(&self, words: &[&str], role: &str) -> Output {
        let mut command = self.trimtab(words, role);
        command.arg("--controller").arg(self.cluster.testbed.address(0)).output().expect("it runs")
    }

    /// A question to the API, as curl puts it: the status, and the answer.
    pub fn http(&self, method: &str, path: &str, body: Option<&str>, role: &str) -> (u16, serde_json::Value) {
        let identity = self.identity(role);
        let authority = self.cluster.folder("authority/authority.pem");
        let mut curl = self.cluster.testbed.on(0, "curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "240",
            "--write-out",
            "\n%{http_code}",
            "--request",
            method,
        ]);
        curl.arg("--cacert").arg(authority).arg("--cert").arg(&identity).arg("--key").arg(&identity);
        let to = format!("controller.trimtab.internal:7557:{}:7557", self.cluster.testbed.address(0));
        curl.args(["--connect-to", &to, &format!("https://controller.trimtab.internal:7557{path}")]);
        if let Some(body) = body {
            curl.args(["--json", body]);
        }
        let output = curl.output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (answer, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{path}: {output:?}"));
        let status = status.parse().unwrap_or_else(|error| panic!("{path}: {error}: {output:?}"));
        (status, serde_json::from_str(answer).unwrap_or_default())
    }

    /// True if some part's log has these words.
    pub fn has_said(&self, log: &str, words: &str) -> bool {
        fs::read_to_string(self.cluster.folder(log)).is_ok_and(|text| text.contains(words))
    }

    pub fn tree(&self) -> serde_json::Value {
        let output = self.trimtab(&["tree", "--json"], "user:0").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Waits until all agents answer and something else is so too. It looks seldom: each look is a command to all, and a
    /// node goes home only to one that has every command it may lack.
    pub fn wait_for_all(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        wait_for(what, || {
            std::thread::sleep(Duration::from_secs(1));
            let tree = self.tree();
            (0..self.cluster.testbed.count()).all(|index| !member(&tree, index)["health"].is_null()) && is_so(&tree)
        });
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        // The nodes end what runs on them; this ends what waits for it here.
        for child in self.agents.iter_mut().chain([&mut self.controller]) {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

pub fn logged(command: &mut Command, log: &Path) -> Child {
    let log = fs::File::create(log).expect("a log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts")
}

pub fn member(tree: &serde_json::Value, index: usize) -> serde_json::Value {
    tree["agents"].get(index).cloned().unwrap_or_default()
}

pub fn parent(tree: &serde_json::Value, index: usize) -> Option<u64> {
    member(tree, index)["health"]["parent"].as_u64()
}
