//! A real ssh on the nodes: what reaches them where no batch system does.
//!
//! Next: `node` for what it runs on.

use crate::node::{Lack, Testbed, is_installed};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: [(&str, &str); 3] =
    [("sshd", "openssh-server"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")];
/// Where the server insists to have an empty folder.
const SERVER_FOLDER: &str = "/run/sshd";
/// Longest time until all nodes answer.
const SECONDS_MAX: u64 = 30;

/// Servers that live as long as this.
#[derive(Debug)]
pub struct Ssh<'a> {
    testbed: &'a Testbed,
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl<'a> Ssh<'a> {
    /// The tools this machine lacks, with the next step; `None`: nothing.
    pub fn lack() -> Option<Lack> {
        let missing = TOOLS.iter().find(|(tool, _)| !is_installed(tool));
        let said = |(tool, package): &(&str, &str)| Lack(format!("there is no {tool}; apt-get install {package}"));
        missing.map(said).or_else(Testbed::lack)
    }

    /// Starts a server on every node but the head, and waits until all answer. A program that is started
    /// through them has `variables` in its environment.
    ///
    /// # Errors
    /// Keys that can't be made; a server that does not answer.
    pub fn start(testbed: &'a Testbed, variables: &[(&str, &Path)]) -> Result<Self> {
        let folder = testbed.folder().join("ssh");
        fs::create_dir_all(&folder).context("cannot create the folder of ssh")?;
        fs::create_dir_all(SERVER_FOLDER).context("cannot create the folder of sshd")?;
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            ensure!(make.status().context("cannot start ssh-keygen")?.success(), "ssh-keygen made no key");
        }
        let mut ssh = Ssh { testbed, folder, daemons: vec![] };
        fs::write(ssh.folder.join("sshd.conf"), ssh.of_server(variables))?;
        fs::write(ssh.client_file(), ssh.of_client())?;
        for node in 1..=testbed.count() {
            let mut daemon = testbed.on(node, "/usr/sbin/sshd");
            daemon.args(["-D", "-e", "-f"]).arg(ssh.folder.join("sshd.conf"));
            let log = fs::File::create(ssh.folder.join(format!("{node}.log"))).context("cannot create a log")?;
            daemon.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            ssh.daemons.push(daemon.spawn().context("cannot start sshd")?);
        }
        (1..=testbed.count()).try_for_each(|node| ssh.wait_for(node))?;
        Ok(ssh)
    }

    /// The words of a command that reaches the node whose name comes behind them.
    pub fn words(&self) -> String {
        format!("/usr/bin/ssh -F {}", self.client_file().display())
    }

    fn client_file(&self) -> PathBuf {
        self.folder.join("ssh.conf")
    }

    fn of_server(&self, variables: &[(&str, &Path)]) -> String {
        let folder = self.folder.display();
        let mut set: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}=\"{}\"", value.display())).collect();
        if !set.is_empty() {
            set.insert(0, "SetEnv".to_owned());
        }
        format!(
            "Port 22\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 200\n{}\n",
            set.join(" ")
        )
    }

    fn of_client(&self) -> String {
        format!(
            "IdentityFile {}/user\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n\
             LogLevel ERROR\n",
            self.folder.display()
        )
    }

    fn wait_for(&self, node: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(SECONDS_MAX);
        loop {
            let mut try_it = self.testbed.on(node, "ssh");
            try_it.arg("-F").arg(self.client_file()).args([self.testbed.name(node), "true"]);
            let tried = try_it.stdin(Stdio::null()).output().context("cannot start ssh")?;
            if tried.status.success() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.folder.join(format!("{node}.log"))).unwrap_or_default();
                bail!("sshd of node {node}: {} {}", String::from_utf8_lossy(&tried.stderr).trim(), log.trim());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Ssh<'_> {
    fn drop(&mut self) {
        // The nodes end what runs on them; these wait for it.
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
