//! The manual, walked literally: the commands of README.md and docs/, as they stand there.
//!
//! A site is set up on several nodes from nothing to a measured job, its identities are renewed and taken back; the other
//! commands run on one machine. Next: `common_manual` for which command is run where, and which is not and why.

mod common;
mod common_cluster;
mod common_manual;

use common::{Home, alone};
use common_cluster::{Cluster, Job, agents, children_of, signal, specimen, wait_for};
use common_manual::{COMMANDS, ONE_MACHINE, Run, SITE, Walk, commands_of, root};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use trimtab_specimens::{ENDLESS, Launch, Mpi, TextSnapshot, at_work, skip, threads_running};
use trimtab_testbed::{Slurm, Testbed};

#[test]
fn every_command_of_the_manual_is_run_or_has_a_reason() {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let manual = names(&root().join("docs")).into_iter().filter(|name| name.ends_with(".md"));
    for file in manual.map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]) {
        let known = COMMANDS.iter().find(|(of, _)| *of == file).map_or(&[][..], |(_, rows)| rows);
        let (commands, mut rows) = (commands_of(&file), known.iter());
        for command in &commands {
            let row = rows.next().map_or("nothing", |(beginning, _)| beginning);
            let is_long = command.contains('\n') || row.ends_with('{');
            let is_same = command == row || is_long && command.starts_with(row);
            assert!(
                is_same,
                "{file}: `{command}` stands where COMMANDS of common_manual has `{row}`: say how it is run"
            );
        }
        assert_eq!(rows.next(), None, "{file} has no such command any more");
    }
    let folder = root().join("crates/ui/cli/tests");
    let tests = names(&folder).into_iter().filter(|name| name.ends_with(".rs"));
    let tests: String = tests.map(|name| fs::read_to_string(folder.join(name)).expect("a test's text")).collect();
    for (command, run) in COMMANDS.iter().flat_map(|(_, rows)| *rows) {
        match run {
            Run::By(test) | Run::Like(test) => assert!(tests.contains(&format!("fn {test}()")), "{command}: {test}"),
            Run::Not(reason) => assert!(!reason.is_empty(), "{command}"),
        }
    }
}

/// The user of the manual, with the number that it has there.
const USER: &str = "ann";
const UID: u32 = 1001;
const NODES: usize = 2;
const CLUSTER: &str = "docs/cluster.md";
/// The list of all commands.
const LIST: &str = "docs/commands.md";

#[test]
fn a_site_is_set_up_as_the_manual_says() {
    let _alone = alone();
    if let Some(lack) = Slurm::lack() {
        return skip(SITE, &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let homes = Homes::make(&testbed);
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let mut site = Site { cluster: &cluster, homes, walk: Walk::of(SITE), asked: String::new(), standing: Vec::new() };
    let job = site.start_job();
    site.name_things(&job);
    site.jobs_without_a_site(&job);
    site.identities_are_issued_and_brought();
    site.parts_begin();
    site.a_job_is_measured(&job);
    site.the_api_is_asked();
    site.calls_are_heard(&job);
    site.identities_are_renewed();
    site.an_identity_is_taken_back();
    job.check_untouched();
    site.end();
}

/// Where the users of all nodes are at home.
struct Homes {
    root: PathBuf,
    user: PathBuf,
}

impl Homes {
    /// Each node gets an `/etc` of its own that knows ann and has nothing of a site.
    fn make(testbed: &Testbed) -> Homes {
        let homes = Homes { root: testbed.folder().join("root"), user: testbed.folder().join(USER) };
        fs::create_dir(&homes.root).expect("a home");
        fs::create_dir(&homes.user).expect("a home");
        chown(&homes.user, Some(UID), Some(UID)).expect("ann's home");
        for node in 0..=testbed.count() {
            let own = testbed.folder().join(format!("etc{node}"));
            let copied = Command::new("cp").args(["-a", "/etc"]).arg(&own).status().expect("cp runs");
            assert!(copied.success(), "node {node} has an /etc");
            let _of_this_machine = fs::remove_dir_all(own.join("trimtab"));
            fs::copy(testbed.folder().join("hosts"), own.join("hosts")).expect("the nodes' names");
            let add = |file: &str, line: String| {
                let known = fs::read_to_string(own.join(file)).expect("the host's users");
                let others = known.lines().filter(|line| !line.split(':').any(|word| word == USER || word == "1001"));
                let all: Vec<&str> = others.chain([line.as_str()]).collect();
                fs::write(own.join(file), all.join("\n") + "\n").expect("users");
            };
            add("passwd", format!("{USER}:x:{UID}:{UID}::{}:/bin/sh", homes.user.display()));
            add("group", format!("{USER}:x:{UID}:"));
            let mounted = testbed.on(node, "mount").arg("--bind").arg(&own).arg("/etc").status().expect("mount runs");
            assert!(mounted.success(), "node {node} has its own /etc");
            let opened = testbed.on(node, "chmod").args(["1777", "/tmp"]).status().expect("chmod runs");
            assert!(opened.success(), "everybody may use /tmp");
        }
        homes
    }
}

/// The user who types a command.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Root,
    Ann,
}

/// A site that is made by the manual's commands.
struct Site<'a> {
    cluster: &'a Cluster<'a>,
    homes: Homes,
    walk: Walk,
    /// Variables that a user has exported.
    asked: String,
    /// Controller and agents, in the order of the nodes.
    standing: Vec<Child>,
}

impl Site<'_> {
    /// The table of what is put in the place of the manual's names; everything else is as it stands there.
    fn name_things(&mut self, job: &Job) {
        let testbed = self.cluster.testbed;
        let srun = children_of(job.srun.id())[0];
        let srun = Testbed::inside(srun).expect("srun runs").to_string();
        let app = self.homes.user.join("app");
        let program = specimen("particle").display().to_string();
        fs::write(&app, format!("#!/bin/sh\nexec '{program}' --iterations 5000\n")).expect("a program that ends");
        let made = Command::new("chmod").arg("+x").arg(&app).status().expect("chmod runs");
        assert!(made.success());
        let script = "entry MPI_* { n++ } every 0.3s { stop() }";
        for (name, real) in [
            ("n1", testbed.name(1)),
            ("n2", testbed.name(2)),
            ("HOST", &testbed.address(0)),
            ("4711", &job.id),
            ("PID", &srun),
            ("-N4", "-N2"),
            ("SCRIPT", script),
        ] {
            self.walk.name(name, real);
        }
    }

    /// A job of ann's, from her own `srun`.
    fn start_job(&self) -> Job {
        let program = specimen("particle");
        let script = format!("exec srun -N{NODES} '{}' {}", program.display(), ENDLESS.join(" "));
        self.cluster.at_work(&program, || {
            let log = fs::File::create(self.cluster.folder("srun.log")).expect("a log");
            let mut srun = self.shell(0, Who::Ann, &script);
            srun.stdout(log.try_clone().expect("a log")).stderr(log).spawn().expect("srun starts")
        })
    }

    /// A shell of somebody's on a node, in their home.
    fn shell(&self, node: usize, who: Who, script: &str) -> Command {
        let mut command = self.cluster.slurm.command_on(node, "setpriv");
        let (home, id) = match who {
            Who::Root => (&self.homes.root, 0),
            Who::Ann => (&self.homes.user, UID),
        };
        command.args([&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups", "env", "-C"]).arg(home);
        let trimtab = Path::new(env!("CARGO_BIN_EXE_trimtab")).parent().expect("a folder");
        let path = std::env::var("PATH").expect("a path of programs");
        command.arg(format!("HOME={}", home.display())).arg(format!("PATH={}:{path}", trimtab.display()));
        let asked = if who == Who::Ann { &*self.asked } else { "" };
        command.args(["SLURM_MPI_TYPE=pmix", "sh", "-euc", &format!("{asked}\n{script}")]);
        command.envs(common_cluster::VARIABLES).stdin(Stdio::null());
        command
    }

    /// The next command of a file, typed there; what it said.
    fn run(&mut self, node: usize, who: Who, file: &str, beginning: &str) -> String {
        let script = self.walk.next(file, beginning);
        self.said(node, who, &script, Some(code_of(beginning)))
    }

    fn said(&self, node: usize, who: Who, script: &str, code: Option<i32>) -> String {
        let Output { status, stdout, stderr } = self.shell(node, who, script).output().expect("it runs");
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        assert_eq!(status.code(), code, "{script}: {said}");
        said
    }

    /// Windows, scripts and launches through Slurm alone.
    fn jobs_without_a_site(&mut self, job: &Job) {
        for (file, command, expected) in [
            (CLUSTER, "trimtab attach --slurm 4711", "2 on 2 hosts"),
            (CLUSTER, "trimtab run -- srun -N4 ./app", "2 on 2 hosts"),
            (CLUSTER, "trimtab attach PID", "2 on 2 hosts"),
            (CLUSTER, "trimtab probe 'SCRIPT' --slurm 4711", "n  "),
            (CLUSTER, "trimtab undo --slurm 4711", "holds anything of trimtab's"),
            ("docs/slurm.md", "trimtab attach --slurm 4711", "2 on 2 hosts"),
            ("docs/slurm.md", "trimtab attach --slurm 4711 --wait 60", "2 on 2 hosts"),
            ("docs/slurm.md", "trimtab attach PID", "2 on 2 hosts"),
        ] {
            // A launch has the processors to itself.
            let stands = command.starts_with("trimtab run");
            let tell = |word: &str| job.ranks.iter().filter(|_| stands).for_each(|rank| signal(rank.pid, word));
            tell("STOP");
            let said = self.run(0, Who::Ann, file, command);
            tell("CONT");
            assert!(said.contains(expected), "{command}: {said}");
            job.check_untouched();
        }
    }

    fn identities_are_issued_and_brought(&mut self) {
        self.run(0, Who::Root, CLUSTER, "trimtab site init");
        self.run(0, Who::Root, CLUSTER, "trimtab site issue");
        self.run(0, Who::Root, CLUSTER, "trimtab site issue");
        for node in [0, 1, 2, 0, 0] {
            self.run(node, Who::Root, CLUSTER, "install -D -m 600");
        }
        self.run(0, Who::Root, CLUSTER, "chown ann:");
    }

    fn parts_begin(&mut self) {
        let controller = self.walk.next(CLUSTER, "trimtab controller");
        let log = self.begin(0, &controller);
        wait_for("the controller listens", || fs::read_to_string(&log).is_ok_and(|log| log.contains("is asked at")));
        let agent = self.walk.next(CLUSTER, "trimtab agent --controller");
        for node in 1..=NODES {
            self.begin(node, &agent);
        }
        self.asked = self.walk.next(CLUSTER, "export TRIMTAB_CONTROLLER");
        wait_for("both agents are in the tree", || {
            let tree = self.shell(0, Who::Ann, "trimtab tree").output().expect("it runs");
            tree.status.code() == Some(0) && String::from_utf8_lossy(&tree.stdout).contains("2 of 2 agents answered")
        });
    }

    /// A part that stays, as root; where its words are.
    fn begin(&mut self, node: usize, script: &str) -> PathBuf {
        let log = self.cluster.folder(&format!("standing{node}.log"));
        let mut command = self.shell(node, Who::Root, &format!("exec {script}"));
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a log"));
        let child = command.spawn().expect("it starts");
        if node < self.standing.len() {
            self.standing[node] = child;
        } else {
            self.standing.push(child);
        }
        log
    }

    fn a_job_is_measured(&mut self, job: &Job) {
        // Other lacks of this machine are its own: the exit code is not asked for.
        let doctor = self.walk.next(CLUSTER, "trimtab doctor");
        self.identity_is("ok", ["30 days", "29 days"], &doctor);
        let said = self.run(0, Who::Ann, CLUSTER, "trimtab tree");
        assert!(said.contains(self.cluster.testbed.name(2)), "{said}");
        let said = self.run(0, Who::Ann, CLUSTER, "trimtab attach --slurm");
        assert!(said.contains("2 on 2 hosts"), "{said}");
        job.check_untouched();
        let started = fs::read_to_string(self.homes.root.join(".local/state/trimtab/audit.jsonl")).expect("a log");
        let count = started.lines().filter(|line| line.contains("delegated")).count();
        assert_eq!(count, NODES, "it went through the standing agents: {started}");
        let said = self.run(0, Who::Ann, CLUSTER, "trimtab list --controller");
        let jobs =
            said.split_whitespace().find(|word| word.starts_with("particle-")).unwrap_or_else(|| panic!("{said}"));
        self.walk.name("app-12", jobs);
        let said = self.run(0, Who::Ann, CLUSTER, "trimtab report");
        assert!(said.contains("2 on 2 hosts"), "{said}");
    }

    /// curl and Python read the same identity as trimtab.
    fn the_api_is_asked(&mut self) {
        let parts: Vec<String> = ["identity=", "awk ", "curl "].map(|word| self.walk.next("docs/api.md", word)).into();
        let said = self.said(0, Who::Ann, &parts.join("\n"), Some(0));
        let mut values = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
        let tree = values.next().and_then(Result::ok).unwrap_or_else(|| panic!("{said}"));
        assert_eq!(tree["agents"].as_array().map(Vec::len), Some(NODES), "{tree}");
        self.said(0, Who::Ann, "openssl pkey -in .config/trimtab/identity.pem -noout", Some(0));
        let load = "import ssl; c = ssl.create_default_context(cafile=\"authority.pem\"); \
                    c.load_cert_chain(\".config/trimtab/identity.pem\")";
        self.said(0, Who::Ann, &format!("python3 -c '{load}'"), Some(0));
    }

    fn calls_are_heard(&mut self, job: &Job) {
        let events = "docs/events.md";
        let named = self.walk.next(events, "trimtab attach --slurm");
        let any = named.replace(" --when api:checkpoint --windows 0", " --when api");
        let (mut waiting, log) = self.waits(&named);
        let call = self.walk.next(events, "trimtab trigger");
        self.said(0, Who::Ann, &call, Some(0));
        let has_window = || fs::read_to_string(&log).expect("a log").contains("2 on 2 hosts");
        wait_for("a window of that call", has_window);
        children_of(waiting.id()).into_iter().for_each(|pid| signal(pid, "INT"));
        waiting.wait().expect("it ended");
        job.check_untouched();
        let (mut waiting, log) = self.waits(&any);
        let curl = self.walk.next("docs/api.md", "curl ");
        let said = self.said(0, Who::Ann, &format!("identity=~/.config/trimtab/identity.pem\n{curl}"), Some(0));
        assert!(said.contains("\"reached\":1"), "{said}");
        let code = waiting.wait().expect("it ended").code();
        let heard = fs::read_to_string(&log).expect("a log");
        assert!(code == Some(0) && heard.contains("before the restart"), "{heard}");
        job.check_untouched();
        wait_for("no window's agent left", || agents().is_empty());
    }

    /// Starts a command of ann's that waits for a call; and where its words are.
    fn waits(&self, script: &str) -> (Child, PathBuf) {
        let log = self.cluster.folder("waits.log");
        let mut command = self.shell(0, Who::Ann, &format!("exec {script}"));
        let file = fs::File::create(&log).expect("a log");
        let mut child = command.stdout(file.try_clone().expect("a log")).stderr(file).spawn().expect("it starts");
        wait_for("it waits", || {
            let heard = fs::read_to_string(&log).expect("a log");
            assert!(matches!(child.try_wait(), Ok(None)), "{heard}");
            heard.contains("the site calls this job")
        });
        (child, log)
    }

    /// The line of `trimtab doctor` on ann's identity.
    fn identity_is(&self, state: &str, left: [&str; 2], doctor: &str) {
        let output = self.shell(0, Who::Ann, doctor).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find(|line| line.contains(" identity ")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with(state) && left.iter().any(|left| line.contains(left)), "{line}");
    }

    /// Also one of a day lacks nothing while it is new.
    fn identities_are_renewed(&mut self) {
        let said = self.run(0, Who::Root, CLUSTER, "trimtab site issue");
        assert!(said.contains("stays valid until it ends or is revoked"), "{said}");
        self.run(0, Who::Root, CLUSTER, "install -D -m 600 -o ann");
        self.identity_is("ok", ["24 hours", "23 hours"], "trimtab doctor");
        self.run(0, Who::Root, CLUSTER, "trimtab site issue");
        self.run(1, Who::Root, CLUSTER, "install -D -m 600");
        // In the place of `systemctl restart trimtab-agent`.
        children_of(self.standing[1].id()).into_iter().for_each(|pid| signal(pid, "TERM"));
        self.standing[1].wait().expect("it ended");
        let agent = format!("trimtab agent --controller {}", self.cluster.testbed.address(0));
        self.begin(1, &agent);
        wait_for("both agents are in the tree", || {
            let tree = self.shell(0, Who::Ann, "trimtab tree").output().expect("it runs");
            tree.status.code() == Some(0)
        });
    }

    fn an_identity_is_taken_back(&mut self) {
        let said = self.run(0, Who::Root, CLUSTER, "trimtab site revoke");
        assert_eq!(said.matches("is revoked").count(), 2, "the renewed one and the one before: {said}");
        self.run(0, Who::Root, CLUSTER, "install -D -m 644");
        let tree = || self.shell(0, Who::Ann, "trimtab tree").output().expect("it runs");
        wait_for("ann is refused", || tree().status.code() == Some(2));
        let said = String::from_utf8_lossy(&tree().stderr).into_owned();
        assert!(said.contains("revoked"), "the reason: {said}");
        let issue = "trimtab site issue ~/trimtab-site user:1001 && install -m 600 -o ann -g ann \
                     ~/trimtab-site/user-1001.pem ~ann/.config/trimtab/identity.pem";
        self.said(0, Who::Root, issue, Some(0));
        self.said(0, Who::Ann, "trimtab tree", Some(0));
    }

    fn end(mut self) {
        for child in &mut self.standing {
            children_of(child.id()).into_iter().for_each(|pid| signal(pid, "TERM"));
            child.wait().expect("it ended");
        }
        self.walk.end();
    }
}

/// The exit code: 1 says that there is nothing to take out.
fn code_of(command: &str) -> i32 {
    i32::from(command.starts_with("trimtab undo"))
}

/// The subject of the manual's commands: an MPI program whose source is called solver.c.
const APP: &str = r#"
#include <mpi.h>
#include <stdlib.h>
volatile double residual = 1;
__attribute__((noinline)) double norm(double x) { return x * x / (1 + x); }
__attribute__((noinline)) int solve(int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += norm(i);
#line 214 "solver.c"
  residual = residual * 0.5 + sum;
  return residual > 0;
}
int main(int count, char **words) {
  MPI_Init(&count, &words);
  int rank, size, got = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long turns = count > 1 ? atol(words[1]) : 0;
  for (long turn = 0; turn < (turns ? turns : 40000); turn++) {
    solve(20000);
    if (size < 2) continue;
    if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
"#;

/// The rows are in the order of each file; the words that are expected stand behind.
#[test]
fn commands_of_the_manual_on_one_machine() {
    let _alone = alone();
    let home = Home::new();
    let app = build_app(&home);
    let mut machine = Machine { home: &home, walk: Walk::of(ONE_MACHINE) };
    // While nothing else runs.
    machine.run(LIST, "trimtab run -- mpirun", "communication");
    let mut job = Launch::mpi(Mpi::Mpich, 2, &app).args(["100000000"]).start().expect("it starts");
    let pids = at_work(&mut job, 10);
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let is_probed = || before.iter().any(|text| text.difference_now().expect("it runs").is_some());
    machine.name_things(job.pid());
    machine.commands(&is_probed);
    machine.rest();
    machine.walk.end();
    for (pid, text) in pids.iter().zip(&before) {
        assert_eq!(text.difference_now().expect("it runs"), None, "restored");
        threads_running(*pid).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// `app` and `heat`, and a `mpirun` and `trimtab` that a shell finds.
fn build_app(home: &Home) -> PathBuf {
    let (source, app, bin) = (home.path("app.c"), home.path("app"), home.path("bin"));
    fs::write(&source, APP).expect("a source");
    let made = Command::new("mpicc.mpich").args(["-O1", "-g", "-o"]).arg(&app).arg(&source).status();
    assert!(made.expect("mpicc runs").success());
    fs::copy(&app, home.path("heat")).expect("a copy");
    fs::create_dir(&bin).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_trimtab"), bin.join("trimtab")).expect("a link");
    fs::write(bin.join("mpirun"), "#!/bin/sh\nexec mpirun.mpich \"$@\"\n").expect("a launcher");
    let made = Command::new("chmod").arg("+x").arg(bin.join("mpirun")).status();
    assert!(made.expect("chmod runs").success());
    app
}

struct Machine<'a> {
    home: &'a Home,
    walk: Walk,
}

impl Machine<'_> {
    /// The table of what is put in the place of the manual's names.
    fn name_things(&mut self, launcher: i32) {
        let pid = launcher.to_string();
        for (name, real) in [
            ("4711|JOB|FILE", &*pid),
            ("PID|JOB|FILE", &pid),
            ("PID|JOB", &pid),
            ("4711", &pid),
            ("PATTERN", "solve"),
            ("SCRIPT", "entry solve { n++ }"),
            ("[JOB[/WINDOW]]", "JOB/0"),
            ("['MPI_*']", "'MPI_*'"),
            ("[--for S]", "--for 0.3"),
            // As long as is needed here.
            ("--for 10", "--for 1.2"),
            ("-n 64", "-n 2"),
            ("ARGUMENTS", "40000"),
            (" [--file FILE]", ""),
            ("[--limit N]", ""),
            ("[--routines]", "--routines"),
            ("[--json]", "--json"),
            ("[--kind KIND,...]", "--kind entry,exit"),
            ("[--refused]", ""),
            ("[--samples N]", "--samples 12"),
            ("[--max-seconds S]", ""),
            ("[--process]", ""),
            ("[--seccomp-ok]", ""),
            ("[--summary]", "--summary"),
        ] {
            self.walk.name(name, real);
        }
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.home.command(&[]);
        let path = std::env::var("PATH").expect("a path of programs");
        let variables: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).envs(variables).current_dir(self.home.path("")).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", self.home.path("bin").display()));
        command.env_clear();
        shell
    }

    fn run(&mut self, file: &str, beginning: &str, expected: &str) -> String {
        let script = self.walk.next(file, beginning);
        let Output { status, stdout, stderr } = self.shell(&script).output().expect("it runs");
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        assert!(status.code() == Some(code_of(beginning)) && said.contains(expected), "{script}: {status}: {said}");
        said
    }

    fn commands(&mut self, is_probed: &dyn Fn() -> bool) {
        self.run(LIST, "trimtab attach", "communication");
        let listed = self.shell("trimtab list").output().expect("it runs");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let newest =
            listed.split_whitespace().find(|word| word.starts_with("app-")).unwrap_or_else(|| panic!("{listed}"));
        self.walk.name("JOB", newest);
        self.walk.name("[JOB[/WINDOW]]", &format!("{newest}/0"));
        self.walk.name("JOB --compare 2 3", &format!("{newest} --compare 0 1"));
        self.walk.name("particle-3 --compare 2 3", &format!("{newest} --compare 0 1"));
        self.run(LIST, "trimtab measure", "communication");
        self.run(LIST, "trimtab list", newest);
        self.run(LIST, "trimtab report", "communication");
        self.run(LIST, "trimtab report", "time per iteration");
        self.run(LIST, "trimtab functions", "MPI_Send");
        self.run(LIST, "trimtab probe", "n  ");
        self.run(LIST, "trimtab points", "exit solve");
        self.run(LIST, "trimtab loops", "an iteration is a pass of loop 1");
        self.run(LIST, "trimtab explain", "writes");
        self.run(LIST, "trimtab undo", "holds nothing");
        self.run(LIST, "trimtab pack", "app.trim");
        self.run(LIST, "trimtab completions", "complete");
        self.run(LIST, "trimtab probe 'entry MPI_Send", "progress");
        let script = self.walk.next(LIST, "trimtab probe 'loop solve:1");
        let log = self.home.path("probe.log");
        let file = fs::File::create(&log).expect("a log");
        let mut probe = self.shell(&format!("exec {script}"));
        let mut probe = probe.stdout(file.try_clone().expect("a log")).stderr(file).spawn().expect("it starts");
        wait_for("the probes are in", || {
            let said = fs::read_to_string(&log).expect("a log");
            assert!(matches!(probe.try_wait(), Ok(None)), "{said}");
            is_probed()
        });
        signal(probe.id() as i32, "INT");
        let code = probe.wait().expect("it ended").code();
        let said = fs::read_to_string(&log).expect("a log");
        assert!(code == Some(0) && said.contains("passes  ") && said.contains("r  "), "{said}");
        self.run(LIST, "trimtab probe 'exit solve", "failures  1");
        self.run("README.md", "trimtab probe", "sizes");
    }

    fn rest(&mut self) {
        fs::remove_file(self.home.path("app.trim")).expect("the package");
        self.run("docs/cluster.md", "trimtab pack", "app.trim");
        self.run("docs/cluster.md", "mpirun -n", "");
        let files = fs::read_dir(self.home.path("")).expect("the folder");
        let mut names = files.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let report = names.find(|name| name.ends_with(".trimtab.txt")).expect("the package's report");
        let text = fs::read_to_string(self.home.path(&report)).expect("a report");
        assert!(text.contains("communication"), "{text}");
        self.run("docs/events.md", "trimtab report", "time per iteration");
        self.run("docs/explain.md", "trimtab explain 'SCRIPT' PID", "code_bytes");
        self.run("docs/explain.md", "trimtab explain", "nothing was changed");
        self.run("docs/loops.md", "trimtab loops PID", "not_counted_because");
        self.run("docs/loops.md", "trimtab loops 4711", "looks at stacks");
        self.run("docs/points.md", "trimtab points PATTERN", "summary");
        self.run("docs/points.md", "trimtab points solve ./heat", "call after solve:norm#1");
    }
}
