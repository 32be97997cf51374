//! A real Slurm on the nodes: its controller on the head, a daemon on each node, munge for all.
//!
//! Next: `node` for what it runs on.

use crate::node::{Lack, Testbed, is_installed};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: [&str; 4] = ["munged", "slurmctld", "slurmd", "srun"];
const PACKAGES: &str = "munge slurmctld slurmd slurm-client";
/// Longest time until all nodes are idle, or all daemons have gone.
const SECONDS_MAX: u64 = 60;

/// The settings that a Slurm may have of its own.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines for `plugstack.conf`.
    pub plugins: String,
    /// A requeued job waits for seconds, not for two minutes; credentials then expire as soon, which a loaded machine may
    /// not keep up with.
    pub requeues_soon: bool,
}

/// A batch system that lives as long as this.
#[derive(Debug)]
pub struct Slurm<'a> {
    testbed: &'a Testbed,
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl<'a> Slurm<'a> {
    /// The tools this machine lacks, with the next step; `None`: nothing.
    pub fn lack() -> Option<Lack> {
        let missing = TOOLS.iter().find(|tool| !is_installed(tool));
        missing.map(|tool| Lack(format!("there is no {tool}; apt-get install {PACKAGES}"))).or_else(Testbed::lack)
    }

    /// Starts it on all nodes, each with so many processors, and waits until they are idle.
    ///
    /// # Errors
    /// A daemon that does not start; nodes that do not become idle, with the controller's last words.
    pub fn start(testbed: &'a Testbed, processors: u32) -> Result<Self> {
        Self::start_with(testbed, processors, &Settings::default())
    }

    /// The same with settings of one's own.
    ///
    /// # Errors
    /// As [`Slurm::start`].
    pub fn start_with(testbed: &'a Testbed, processors: u32, settings: &Settings) -> Result<Self> {
        let folder = testbed.folder().join("slurm");
        for name in ["state", "spool", "log"] {
            fs::create_dir_all(folder.join(name)).context("cannot create Slurm's folders")?;
        }
        let mut slurm = Slurm { testbed, folder, daemons: vec![] };
        for node in 1..=testbed.count() {
            fs::create_dir_all(slurm.folder.join("spool").join(testbed.name(node)))?;
        }
        let key: Vec<u8> = (0..1024u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(slurm.folder.join("munge.key"), key)?;
        fs::set_permissions(slurm.folder.join("munge.key"), fs::Permissions::from_mode(0o600))?;
        fs::write(slurm.folder.join("plugstack.conf"), &settings.plugins)?;
        fs::write(slurm.folder.join("slurm.conf"), slurm.configuration(processors, settings))?;
        slurm.begin()?;
        Ok(slurm)
    }

    /// A command of Slurm's on the head.
    pub fn command(&self, name: &str) -> Command {
        self.command_on(0, name)
    }

    /// Any command on a node that finds this Slurm.
    pub fn command_on(&self, node: usize, name: &str) -> Command {
        let mut command = self.testbed.on(node, name);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    /// The names of these nodes in Slurm's notation, such as `x[1-4]`.
    fn node_list(&self) -> String {
        format!("{}n[1-{}]", self.testbed.prefix(), self.testbed.count())
    }

    fn begin(&mut self) -> Result<()> {
        let socket = self.folder.join("munge.sock");
        let mut munged = self.testbed.on(0, "munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.sock"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "log/munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.arg(format!("{option}={}", self.folder.join(name).display()));
        }
        self.daemon(munged)?;
        wait_until("munged listens", || Ok(socket.exists()))?;
        let mut controller = self.command("slurmctld");
        controller.args(["-D", "-c"]);
        self.daemon(controller)?;
        for node in 1..=self.testbed.count() {
            let mut daemon = self.command_on(node, "slurmd");
            daemon.args(["-D", "-N", self.testbed.name(node)]);
            self.daemon(daemon)?;
        }
        let idle = || {
            let said = self.command("sinfo").args(["--noheader", "--Node", "--format=%t"]).output()?;
            let states = String::from_utf8_lossy(&said.stdout).into_owned();
            let idle = states.lines().filter(|state| state.trim() == "idle").count();
            Ok(idle == self.testbed.count())
        };
        wait_until("all nodes are idle", idle).with_context(|| {
            let log = fs::read_to_string(self.folder.join("log/ctld.log")).unwrap_or_default();
            log.lines().rev().take(5).collect::<Vec<_>>().join(" | ")
        })
    }

    fn daemon(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().context("cannot start a daemon of Slurm")?);
        Ok(())
    }

    fn configuration(&self, processors: u32, settings: &Settings) -> String {
        let (head, folder, nodes) = (self.testbed.name(0), self.folder.display(), self.node_list());
        let settings = [
            format!("ClusterName={}", self.testbed.prefix()),
            format!("SlurmctldHost={head}({})", self.testbed.address(0)),
            "SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nCredType=cred/munge".to_owned(),
            format!(
                "AuthInfo=socket={folder}/munge.sock{}",
                if settings.requeues_soon { ",cred_expire=5" } else { "" }
            ),
            format!("StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n"),
            format!("SlurmctldPidFile={folder}/ctld.pid\nSlurmdPidFile={folder}/slurmd.%n.pid"),
            format!("SlurmctldLogFile={folder}/log/ctld.log\nSlurmdLogFile={folder}/log/slurmd.%n.log"),
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres".to_owned(),
            "SelectTypeParameters=CR_CPU\nSchedulerParameters=sched_interval=1,sched_min_interval=0".to_owned(),
            "ReturnToService=2\nSlurmctldTimeout=30\nSlurmdTimeout=300\nInactiveLimit=0\nKillWait=5".to_owned(),
            "Waittime=0\nMpiDefault=none\nSlurmdParameters=config_overrides".to_owned(),
            format!("PlugStackConfig={folder}/plugstack.conf"),
            format!("NodeName={nodes} CPUs={processors} RealMemory=1000 State=UNKNOWN"),
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n".to_owned(),
        ];
        settings.join("\n")
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        let _ = self.command("scancel").args(["--full", "--user=root"]).output();
        let _ = self.command("scontrol").arg("shutdown").output();
        let all_ended =
            |daemons: &mut Vec<Child>| daemons.iter_mut().skip(1).all(|one| !matches!(one.try_wait(), Ok(None)));
        let deadline = Instant::now() + Duration::from_secs(SECONDS_MAX / 4);
        while !all_ended(&mut self.daemons) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(SECONDS_MAX);
    while !is_so()? {
        if Instant::now() > deadline {
            bail!("waited {SECONDS_MAX} s until {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
