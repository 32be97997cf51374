//! Jobs that a launcher spread over hosts by ssh, with no batch system: measured whole from where the launcher runs.
//!
//! The hosts are nodes of the testbed with a real sshd each; launcher and `trimtab` run on the first one, and see nothing
//! of what runs on the second.
//!
//! Next: `cluster.rs` for jobs of Slurm.

mod common_cluster;

use common_cluster::{LIMIT, agents, on_nodes, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use trimtab_specimens::{ENDLESS, Mpi, TextSnapshot, Variant, build, has_text, has_worked, skip, threads_running};
use trimtab_testbed::{Ssh, Testbed};
use trimtab_types::report::{EventKind, Report};

/// A rank on each.
const HOSTS: usize = 2;
/// Where launchers and `trimtab` run.
const FIRST: usize = 1;

/// Hosts that are reached by ssh.
struct Hosts<'a> {
    testbed: &'a Testbed,
    ssh: &'a Ssh<'a>,
}

/// A job on both of them.
struct Job {
    launcher: Child,
    /// The launcher's process on its own host.
    pid: String,
    ranks: Vec<(i32, TextSnapshot)>,
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test on hosts of its own, or says why it can't.
fn on_hosts(test: &str, body: impl Fn(&Hosts<'_>)) {
    let _alone = alone();
    if let Some(lack) = Ssh::lack() {
        return skip(test, &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), HOSTS).expect("nodes come up");
    let (state, cache) = (testbed.folder().join("state"), cache());
    let variables = [("XDG_STATE_HOME", &*state), ("XDG_CACHE_HOME", &*cache)];
    let ssh = Ssh::start(&testbed, &variables).expect("hosts answer");
    body(&Hosts { testbed: &testbed, ssh: &ssh });
}

fn cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

#[test]
fn mpirun_over_ssh() {
    on_hosts("mpirun_over_ssh", |hosts| {
        let mut job = hosts.start(Mpi::OpenMpi, &program(Mpi::OpenMpi));
        let report = hosts.whole_window(&["attach", &job.pid], &job);
        let again = hosts.whole_window(&["measure", &report.job.id], &job);
        assert_eq!((&again.job.id, again.window.number), (&report.job.id, 1), "another window of the same job");
        let first = report.ranks.iter().find(|rank| rank.host == hosts.testbed.name(FIRST)).expect("one is here");
        let by_rank = hosts.whole_window(&["attach", &first.pid.to_string()], &job);
        assert_eq!(by_rank.job.id, report.job.id, "by a rank beside the launcher");
        scripts_run_on_both(hosts, &job);
        what_is_left_is_taken_out(hosts, &job);
        from_elsewhere_the_way_is_told(hosts, &report);
        a_host_that_is_not_reached_is_named(hosts, &job);
        job.end();
    });
}

/// The same program twice on the same hosts: each launcher leads to its own ranks.
#[test]
fn mpiexec_over_ssh_twice() {
    on_hosts("mpiexec_over_ssh_twice", |hosts| {
        let program = program(Mpi::Mpich);
        let mut jobs = [hosts.start(Mpi::Mpich, &program), hosts.start(Mpi::Mpich, &program)];
        let reports = jobs.each_ref().map(|job| hosts.whole_window(&["attach", &job.pid], job));
        let ranks = |report: &Report| -> BTreeSet<(String, i32)> {
            report.ranks.iter().map(|rank| (rank.host.clone(), rank.pid)).collect()
        };
        assert!(ranks(&reports[0]).is_disjoint(&ranks(&reports[1])), "{reports:?}");
        assert_ne!(reports[0].job.id, reports[1].job.id);
        let again = hosts.whole_window(&["attach", &jobs[0].pid], &jobs[0]);
        assert_eq!((ranks(&again), &again.job.id), (ranks(&reports[0]), &reports[0].job.id));
        jobs.iter_mut().for_each(Job::end);
    });
}

/// Launched and measured, from the first iterations on; what the program says and how it ends are its own.
#[test]
fn a_launch_over_ssh_is_measured() {
    on_hosts("a_launch_over_ssh_is_measured", |hosts| {
        let program = build("steady", Some(Mpi::OpenMpi), &Variant::default()).expect("it builds");
        let words = hosts.launch(Mpi::OpenMpi, &program.canonicalize().expect("it is there"));
        let (file, end) = (hosts.testbed.folder().join("run.json"), hosts.testbed.folder().join("end"));
        let mut run = hosts.trimtab(&["run", "--iterations", "10", "--json"]);
        run.arg(&file).arg("--").args(&words).arg("--until").arg(&end).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().expect("it runs");
        wait_for("a report", || has_text(&file) || run.try_wait().expect("its state").is_some());
        fs::write(&end, "").expect("it is ours");
        let Output { status, stdout, stderr } = run.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{status:?} {said}");
        assert!(String::from_utf8_lossy(&stdout).contains("checksum"), "{stdout:?}");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {said}"));
        let report: Report = serde_json::from_str(&text).expect("a report");
        check(hosts, &report);
        wait_for("agents have gone", || agents().is_empty());
    });
}

/// Load, pace, and other jobs: agents stay on the hosts and see them.
#[test]
fn windows_wait_for_what_happens_on_all_hosts() {
    on_hosts("windows_wait_for_what_happens_on_all_hosts", |hosts| {
        let mut job = hosts.start(Mpi::Mpich, &program(Mpi::Mpich));
        let loaded = hosts.whole_window(&["attach", "--when", "load>0.001", &job.pid], &job);
        let event = loaded.window.event.expect("it was waited for");
        let is_named = (1..=HOSTS).any(|node| event.value.ends_with(&format!(" on {}", hosts.testbed.name(node))));
        assert!(event.kind.word() == "load" && is_named, "{event:?}");
        let slow = hosts.whole_window(&["attach", "--when", "rate<1000000", &job.pid], &job);
        let event = slow.window.event.expect("it was waited for");
        assert!(event.kind.word() == "rate" && event.value.contains("iterations per second"), "{event:?}");
        a_job_on_the_other_host_comes_and_goes(hosts, &job);
        job.check_untouched();
        wait_for("agents have gone", || agents().is_empty());
        job.end();
    });
}

fn a_job_on_the_other_host_comes_and_goes(hosts: &Hosts<'_>, job: &Job) {
    let file = hosts.testbed.folder().join("windows.json");
    let mut words = vec!["attach", "--when", "job-start,job-end", "--windows", "2", "--iterations", "10"];
    let path = file.display().to_string();
    words.extend(["--json", &path, &job.pid]);
    let mut waiting = hosts.trimtab(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(waiting.stderr.take().expect("it was asked for")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("waiting for job-start")), "it waits");
    // Those that look are lost, and others come.
    let lost = agents();
    assert_eq!(lost.len(), HOSTS);
    lost.iter().copied().for_each(common_cluster::kill);
    wait_for("agents are there again", || agents().iter().filter(|agent| !lost.contains(agent)).count() == HOSTS);
    let program = build("steady", Some(Mpi::Mpich), &Variant::default()).expect("it builds");
    let program = program.canonicalize().expect("it is there");
    let mut other = hosts.testbed.on(2, "mpiexec.mpich");
    other.args(["-n", "1"]).arg(&program).args(["--iterations", "100000000"]).envs(NETWORK).stdout(Stdio::null());
    let mut other = other.stdin(Stdio::null()).spawn().expect("it starts");
    let windows = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    wait_for("a window because a job came", || windows() == 1);
    common_cluster::children_of(other.id()).into_iter().for_each(common_cluster::kill);
    let _ended = other.wait();
    wait_for("a window because it went", || windows() == 2);
    let rest: Vec<String> = said.collect();
    assert!(waiting.wait().expect("it ends").success(), "{rest:?}");
    let text = fs::read_to_string(&file).expect("windows");
    let reports = text.lines().map(|line| serde_json::from_str::<Report>(line).expect("a report"));
    for (report, kind) in reports.zip([EventKind::JobStart, EventKind::JobEnd]) {
        check(hosts, &report);
        let event = report.window.event.expect("it was waited for");
        let is_there = event.value.contains(&format!(" on {} (", hosts.testbed.name(2)));
        assert!(event.kind == kind && is_there, "{event:?}");
    }
}

fn scripts_run_on_both(hosts: &Hosts<'_>, job: &Job) {
    let script = "entry MPI_Send { calls++ }";
    let said = hosts.trimtab(&["probe", script, &job.pid, "--for", "1", "--json", "-"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let found: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {said:?}"));
    let sum = found["variables"][0]["value"]["sum"]["value"].as_u64();
    assert_eq!((said.status.code(), found["cost"]["points"].as_u64()), (Some(0), Some(HOSTS as u64)), "{text}");
    assert!(sum.is_some_and(|sum| sum > 0), "{text}");
    job.check_untouched();
}

/// A trimtab and its agents are killed in the middle of a window.
fn what_is_left_is_taken_out(hosts: &Hosts<'_>, job: &Job) {
    let mut window = hosts.trimtab(&["attach", "--iterations", "1000000", "--max-seconds", "60", &job.pid]);
    let mut window = window.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for("probes are in", || job.ranks.iter().all(|(_, text)| text.difference_now().expect("it runs").is_some()));
    let trimtabs = || on_nodes(Path::new(env!("CARGO_BIN_EXE_trimtab")));
    trimtabs().into_iter().for_each(common_cluster::kill);
    let _ended = window.wait();
    assert!(job.ranks.iter().all(|(_, text)| text.difference_now().expect("it runs").is_some()), "they stay in");
    let undone = hosts.trimtab(&["undo", &job.pid]).output().expect("it runs");
    let text = String::from_utf8_lossy(&undone.stdout).into_owned();
    assert!(undone.status.success() && text.contains(&format!("places restored in {HOSTS} ranks")), "{undone:?}");
    job.check_untouched();
    let nothing = hosts.trimtab(&["undo", &job.pid]).output().expect("it runs");
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
}

/// On the other host nothing leads to the launcher.
fn from_elsewhere_the_way_is_told(hosts: &Hosts<'_>, report: &Report) {
    let other = report.ranks.iter().find(|rank| rank.host == hosts.testbed.name(2)).expect("one is there");
    let said = hosts.trimtab_on(2, &["attach", &other.pid.to_string()]).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(2) && text.contains("give the PID of mpirun where that runs"), "{text}");
}

fn a_host_that_is_not_reached_is_named(hosts: &Hosts<'_>, job: &Job) {
    let way = hosts.script("no-way", "echo \"no way to $1\" >&2; exit 1");
    let mut command = hosts.trimtab(&["attach", "--json", "-", &job.pid]);
    let said = command.env("TRIMTAB_RSH", &way).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let report: Report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let other = hosts.testbed.name(2);
    let named = format!("no agent came on {other}: its ranks were not measured (no way to {other})");
    assert!(report.warnings.contains(&named), "{:?}", report.warnings);
    assert_eq!((said.status.code(), report.window.valid), (Some(1), false));
    job.check_untouched();
}

/// A valid window of both ranks.
fn check(hosts: &Hosts<'_>, report: &Report) {
    assert!(report.window.valid && report.window.iterations >= Some(10), "{:?} {:?}", report.window, report.warnings);
    let found: Vec<(u32, &str)> = report.ranks.iter().map(|rank| (rank.rank, &*rank.host)).collect();
    let expected: Vec<(u32, &str)> =
        (0..HOSTS as u32).map(|rank| (rank, hosts.testbed.name(rank as usize + 1))).collect();
    assert_eq!(found, expected);
    assert!(report.ranks.iter().all(|rank| rank.iterations == report.window.iterations), "{:?}", report.ranks);
}

fn program(mpi: Mpi) -> PathBuf {
    build("particle", Some(mpi), &Variant::default()).expect("it builds").canonicalize().expect("it is there")
}

impl Hosts<'_> {
    fn trimtab(&self, words: &[&str]) -> Command {
        self.trimtab_on(FIRST, words)
    }

    fn trimtab_on(&self, node: usize, words: &[&str]) -> Command {
        let mut command = self.testbed.on(node, env!("CARGO_BIN_EXE_trimtab"));
        let folder = |name: &str| self.testbed.folder().join(name);
        command.args(words).env("XDG_DATA_HOME", folder("data")).env("XDG_STATE_HOME", folder("state"));
        command.env("XDG_CACHE_HOME", cache()).envs(ROOT);
        command
    }

    /// The command that starts a program with a rank on each host.
    fn launch(&self, mpi: Mpi, program: &Path) -> Vec<String> {
        let names: Vec<&str> = (1..=HOSTS).map(|node| self.testbed.name(node)).collect();
        let (names, program) = (names.join(","), program.display().to_string());
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut words = match mpi {
            Mpi::OpenMpi => {
                let way = self.ssh.words();
                let network = "10.77.0.0/24";
                [
                    own(&["mpirun.openmpi", "--mca", "plm_rsh_agent", &way, "--mca", "pml", "ob1"]),
                    own(&["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network]),
                    own(&[
                        "--mca",
                        "oob_tcp_if_include",
                        network,
                        "--mca",
                        "mpi_yield_when_idle",
                        "1",
                        "--host",
                        &names,
                    ]),
                ]
                .concat()
            }
            Mpi::Mpich => {
                // Its option takes a program, not a command.
                let way = self.script("rsh", &format!("exec {} \"$@\"", self.ssh.words()));
                own(&["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", &way, "-hosts", &names, "-ppn", "1"])
            }
        };
        words.push(program);
        words
    }

    /// A command that all hosts see.
    fn script(&self, name: &str, text: &str) -> String {
        let file = self.testbed.folder().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("it can be written");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&file, everybody).expect("it is ours");
        file.display().to_string()
    }

    /// A job whose ranks are at work.
    fn start(&self, mpi: Mpi, program: &Path) -> Job {
        let words = self.launch(mpi, program);
        let before = on_nodes(program);
        let mut command = self.testbed.on(FIRST, &words[0]);
        command.args(&words[1..]).args(ENDLESS).envs(ROOT).envs(NETWORK);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let mut launcher = command.spawn().expect("it starts");
        let new = || on_nodes(program).into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<i32>>();
        wait_for("both ranks are at work", || {
            assert!(matches!(launcher.try_wait(), Ok(None)), "the launcher has ended");
            let pids = new();
            pids.len() == HOSTS && pids.iter().all(|pid| has_worked(*pid))
        });
        // The process that we started enters the host; the launcher is its child.
        let inner = common_cluster::children_of(launcher.id());
        let pid = inner.first().and_then(|pid| Testbed::inside(*pid)).expect("the launcher runs").to_string();
        let ranks = new().into_iter().map(|pid| (pid, TextSnapshot::of(pid).expect("a rank's text"))).collect();
        Job { launcher, pid, ranks }
    }

    /// One window of all ranks, which must be valid, as soon as the program is in its main loop.
    fn whole_window(&self, words: &[&str], job: &Job) -> Report {
        let begun = Instant::now();
        loop {
            let said = self.trimtab(words).args(["--json", "-", "--iterations", "10"]).output().expect("it runs");
            let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
            match serde_json::from_str::<Report>(&out) {
                Ok(report) => {
                    check(self, &report);
                    job.check_untouched();
                    wait_for("agents have gone", || agents().is_empty());
                    return report;
                }
                Err(error) => assert!(begun.elapsed() < LIMIT, "{error}: {:?} {out} {err}", said.status),
            }
        }
    }
}

/// Open MPI asks for these of administrators.
const ROOT: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
/// How MPICH's ranks find each other.
const NETWORK: [(&str, &str); 2] = [("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")];

impl Job {
    fn check_untouched(&self) {
        for (pid, text) in &self.ranks {
            assert_eq!(text.difference_now().expect("it runs"), None, "restored");
            threads_running(*pid).expect("no thread is stopped");
        }
    }

    fn end(&mut self) {
        for pid in common_cluster::children_of(self.launcher.id()) {
            common_cluster::kill(pid);
        }
        let _ended = self.launcher.wait();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The hosts end what runs on them; this ends what waits for it here.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}
