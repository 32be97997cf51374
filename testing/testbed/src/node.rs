//! Nodes as namespaces: made, entered, made slow, removed.
//!
//! Programs and results need no copying: the checkout lies at its own path on every node, also in `/tmp`, which is each
//! node's own otherwise, and below folders that only their owner may enter.
//!
//! All network namespaces exist before the first node starts, because a mount namespace is a snapshot of what is mounted
//! when it is made.
//!
//! Whoever made nodes may be killed, and nobody is left to end them then. So the kernel does: it kills a node's keeper with
//! the thread that started it, the node's first process with the keeper, and with that all others in the node. The names of
//! networks and the files that stay are removed by whoever makes the next nodes.
//!
//! Next: `slurm` for a batch system on them.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::marker::PhantomData;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time for a node to come up.
const UP_SECONDS_MAX: u64 = 20;
/// The tools that make nodes, and which Debian package has each.
const TOOLS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
];
/// Where `ip netns` keeps names.
const NETWORKS: &str = "/run/netns";
/// Where nodes and their services keep files: a path without blanks, which every user can enter, wherever the checkout
/// lies. Slurm's, munge's and ssh's files take no other.
const HOME: &str = "/var/lib/trimtab-testbed";
/// Folders of which each node has its own, with the name of that in the node's files.
const PRIVATE: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var")];

/// Why there can be no nodes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack(pub String);

/// Nodes that live as long as this, and no longer than the thread that made them.
#[derive(Debug)]
pub struct Testbed {
    prefix: String,
    folder: PathBuf,
    nodes: Vec<TestNode>,
    /// In another thread it would outlive its nodes.
    _stays: PhantomData<*const ()>,
}

#[derive(Debug)]
struct TestNode {
    name: String,
    /// `unshare`, which ends the node when it ends.
    keeper: Option<Child>,
    /// The node's first process, as we see it.
    pid: u32,
}

impl Testbed {
    /// The tools this machine lacks for nodes, with the next step; `None`: nothing.
    pub fn lack() -> Option<Lack> {
        if let Some((tool, package)) = TOOLS.iter().find(|(tool, _)| !is_installed(tool)) {
            return Some(Lack(format!("there is no {tool}; apt-get install {package}")));
        }
        let made = Command::new("unshare").args(["--net", "--pid", "--mount", "--uts", "--fork", "true"]).output();
        match made {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Some(Lack(format!("namespaces can't be made here ({why}); run it as root on a machine of its own")))
            }
            Err(error) => Some(Lack(format!("unshare can't be started: {error}"))),
        }
    }

    /// A head and `count` nodes. All of them see `files`, the checkout and the program that asks at their own paths, also
    /// if these lie in `/tmp`, of which a node has its own, or in a folder that other users can't enter.
    ///
    /// # Errors
    /// A tool that fails, with what it said. All that was made until then is removed.
    pub fn up(files: &Path, count: usize) -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        ensure!(count > 0 && count < 254, "{count} nodes: from 1 to 253 fit into the network");
        let home = Path::new(HOME);
        sweep(home);
        let prefix = format!("tt{}x{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let folder = home.join(&prefix);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let node = |number: usize| TestNode { name: format!("{prefix}n{number}"), keeper: None, pid: 0 };
        let nodes = (0..=count).map(node).collect();
        let mut testbed = Testbed { prefix, folder, nodes, _stays: PhantomData };
        testbed.make_networks()?;
        let covers = covers_of(&seen(files)?);
        for number in 0..testbed.nodes.len() {
            testbed.begin(number, &covers)?;
        }
        for number in 0..testbed.nodes.len() {
            testbed.wait_for(number)?;
        }
        Ok(testbed)
    }

    /// How many nodes there are beside the head.
    pub fn count(&self) -> usize {
        self.nodes.len() - 1
    }

    /// All node names begin with this.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Host name of a node; 0 is the head.
    pub fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// Address of a node.
    pub fn address(&self, node: usize) -> String {
        address(node)
    }

    /// A folder that all nodes see.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command on a node, in our working directory. Ending the `Child` does not end what runs on the node.
    pub fn on(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.nodes[node].pid.to_string(), "--net", "--uts", "--ipc", "--pid", "--mount"]);
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        command.arg(format!("--wd={}", directory.display())).arg("--").arg(program);
        command
    }

    /// A command on the head that can enter the other nodes, as a shell command like `rsh` does.
    pub fn login(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.nodes[0].pid.to_string(), "--net", "--uts", "--ipc"]);
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        command.arg(format!("--wd={}", directory.display())).arg("--").arg(program);
        command
    }

    /// The process that is `pid` on a node, as we see it.
    pub fn outside(&self, node: usize, pid: i32) -> Option<i32> {
        let space = pid_space(self.nodes[node].pid as i32)?;
        processes().find(|own| pid_space(*own).as_ref() == Some(&space) && innermost(*own) == Some(pid))
    }

    /// True for a process on a node of any testbed of this program: its network is one of theirs.
    pub fn is_on_nodes(pid: i32) -> bool {
        let own = format!("tt{}x", std::process::id());
        let networks = fs::read_dir(NETWORKS).into_iter().flatten().flatten();
        let of_own = networks.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&own)));
        let numbers = of_own.filter_map(|entry| Some(fs::metadata(entry.path()).ok()?.ino()));
        let network = fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|found| found.ino());
        numbers.into_iter().any(|number| Some(number) == network)
    }

    /// The number of one of our processes on its own node.
    pub fn inside(pid: i32) -> Option<i32> {
        innermost(pid)
    }

    /// All processes of a node, as we see them.
    pub fn processes(&self, node: usize) -> Vec<i32> {
        let space = pid_space(self.nodes[node].pid as i32);
        processes().filter(|pid| space.is_some() && pid_space(*pid) == space).collect()
    }

    /// Takes a node off the network, or puts it on again.
    pub fn cut(&self, node: usize, is_cut: bool) -> Result<()> {
        let state = if is_cut { "down" } else { "up" };
        ip(&["-n", &self.nodes[0].name, "link", "set", &format!("p{node}"), state])
    }

    /// Ends a node and all in it, as a power failure would.
    pub fn fail(&mut self, node: usize) -> Result<()> {
        let Some(mut keeper) = self.nodes[node].keeper.take() else { return Ok(()) };
        keeper.kill().context("cannot end a node")?;
        keeper.wait().context("cannot wait for a node")?;
        Ok(())
    }

    fn make_networks(&self) -> Result<()> {
        let head = &self.nodes[0].name;
        for node in &self.nodes {
            ip(&["netns", "add", &node.name])?;
            ip(&["-n", &node.name, "link", "set", "lo", "up"])?;
        }
        ip(&["-n", head, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", head, "addr", "add", &format!("{}/24", address(0)), "dev", "br0"])?;
        ip(&["-n", head, "link", "set", "br0", "up"])?;
        let mut hosts = format!("127.0.0.1 localhost\n{} {head}\n", address(0));
        for (number, node) in self.nodes.iter().enumerate().skip(1) {
            let port = format!("p{number}");
            let pair =
                ["link", "add", "eth0", "netns", &node.name, "type", "veth", "peer", "name", &port, "netns", head];
            ip(&pair)?;
            ip(&["-n", head, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &node.name, "addr", "add", &format!("{}/24", address(number)), "dev", "eth0"])?;
            ip(&["-n", &node.name, "link", "set", "eth0", "up"])?;
            hosts += &format!("{} {}\n", address(number), node.name);
        }
        fs::write(self.folder.join("hosts"), hosts).context("cannot write the nodes' names")
    }

    /// Starts a node's first process: it names the node, mounts what is its own, and waits.
    fn begin(&mut self, number: usize, covers: &[Cover]) -> Result<()> {
        let name = self.nodes[number].name.clone();
        let private = self.folder.join(&name);
        let mut mounts = Vec::new();
        for cover in covers {
            let own = private.join(&cover.own);
            fs::create_dir_all(&own).context("cannot create a node's folder")?;
            for seen in &cover.seen {
                let inside = own.join(seen.strip_prefix(&cover.folder)?);
                fs::create_dir_all(&inside).context("cannot create a node's folder")?;
                mounts.extend(["--bind".into(), seen.clone(), inside]);
            }
        }
        for cover in covers {
            mounts.extend(["--rbind".into(), private.join(&cover.own), cover.folder.clone()]);
        }
        let (private, hosts) = (private.display(), self.folder.join("hosts").display().to_string());
        let script = format!(
            "hostname {name} && mount --bind {hosts} /etc/hosts && mount -t tmpfs tmpfs /dev/shm || exit 1\n\
             while [ $# -gt 0 ]; do mount \"$1\" \"$2\" \"$3\" || exit 1; shift 3; done\n\
             touch {private}/up\ntrap 'exit 0' TERM\nwhile :; do sleep 3600 & wait $!; done"
        );
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter", &format!("--net={NETWORKS}/{name}"), "unshare"]);
        command.args(["--uts", "--ipc", "--pid", "--mount", "--propagation", "private", "--fork", "--kill-child"]);
        command.args(["--mount-proc", "bash", "-c", &script, "node"]).args(&mounts).current_dir("/");
        let log = fs::File::create(self.folder.join(format!("{name}.log"))).context("cannot create a node's log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.nodes[number].keeper = Some(command.spawn().context("cannot start nsenter")?);
        Ok(())
    }

    fn wait_for(&mut self, number: usize) -> Result<()> {
        let (folder, node) = (self.folder.clone(), &mut self.nodes[number]);
        let keeper = node.keeper.as_mut().context("a node that was not started")?;
        let deadline = Instant::now() + Duration::from_secs(UP_SECONDS_MAX);
        while !folder.join(&node.name).join("up").exists() {
            if keeper.try_wait()?.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(folder.join(format!("{}.log", node.name))).unwrap_or_default();
                bail!("node {} did not come up: {}", node.name, log.trim());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let keeper = keeper.id();
        let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))?;
        node.pid = children.trim().parse().with_context(|| format!("node {} has no first process", node.name))?;
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut keeper) = node.keeper.take() {
                let _ = keeper.kill();
                let _ = keeper.wait();
            }
        }
        for node in &self.nodes {
            let _ = Command::new("ip").args(["netns", "del", &node.name]).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A folder that each node has of its own, but for some folders in it that all nodes see.
#[derive(Debug, PartialEq, Eq)]
struct Cover {
    folder: PathBuf,
    /// Its name in the node's files.
    own: String,
    /// Folders in it.
    seen: Vec<PathBuf>,
}

/// Folders that nodes must see: `files`, the checkout, and the folder of this program.
fn seen(files: &Path) -> Result<Vec<PathBuf>> {
    let checkout = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let program = std::env::current_exe().context("which program this is, is not known")?;
    let mut all = Vec::new();
    // Cargo marks the folder in which it builds, which may lie beside the checkout.
    let built = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    for folder in [Some(checkout), Some(files), built, program.parent()].into_iter().flatten() {
        // A program may run without the checkout that it was built from.
        let Ok(folder) = folder.canonicalize() else { continue };
        if !all.iter().any(|known| folder.starts_with(known)) {
            all.push(folder);
        }
    }
    Ok(all)
}

/// The folders that each node covers by one of its own.
fn covers_of(seen: &[PathBuf]) -> Vec<Cover> {
    let private = PRIVATE.iter().map(|(folder, own)| Cover { folder: folder.into(), own: (*own).into(), seen: vec![] });
    let mut covers: Vec<Cover> = private.collect();
    for folder in seen {
        if let Some(cover) = covers.iter_mut().find(|cover| folder.starts_with(&cover.folder)) {
            cover.seen.push(folder.clone());
        } else if let Some(closed) = closed_above(folder) {
            covers.push(Cover { folder: closed, own: format!("cover{}", covers.len()), seen: vec![folder.clone()] });
        }
    }
    covers
}

/// The outermost folder around this one that other users can't enter.
fn closed_above(folder: &Path) -> Option<PathBuf> {
    let above: Vec<&Path> = folder.ancestors().skip(1).collect();
    let is_closed = |folder: &&&Path| fs::metadata(folder).is_ok_and(|facts| facts.permissions().mode() & 0o001 == 0);
    above.iter().rev().find(is_closed).map(|folder| folder.to_path_buf())
}

/// Removes what nodes left whose maker was killed: their processes have ended with it.
fn sweep(folder: &Path) {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    for name in names(Path::new(NETWORKS)).into_iter().filter(|name| is_orphan(name)) {
        let _ = Command::new("ip").args(["netns", "del", &name]).stderr(Stdio::null()).status();
    }
    for name in names(folder).into_iter().filter(|name| is_orphan(name)) {
        let _ = fs::remove_dir_all(folder.join(name));
    }
}

/// True if a name is one of ours, `tt4711x0` or `tt4711x0n1`, and process 4711 is no more.
fn is_orphan(name: &str) -> bool {
    let maker = name.strip_prefix("tt").and_then(|rest| rest.split_once('x')?.0.parse::<u32>().ok());
    maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists())
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn pid_space(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The number of a process in its own space of numbers.
fn innermost(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// True if a program is where programs are.
pub(crate) fn is_installed(name: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
}

fn address(number: usize) -> String {
    format!("10.77.0.{}", if number == 0 { 254 } else { number })
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output().context("cannot start ip")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}", words.join(" "), said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_seen_wherever_it_lies() {
        let seen = [PathBuf::from("/tmp/trimtab"), "/var/tmp/a b/ü".into(), "/usr/lib/x".into(), "/tmp/files".into()];
        let covers = covers_of(&seen);
        let all: Vec<(&Path, &[PathBuf])> = covers.iter().map(|cover| (&*cover.folder, &*cover.seen)).collect();
        let (tmp, var) = ([seen[0].clone(), seen[3].clone()], [seen[1].clone()]);
        assert_eq!(all, [(Path::new("/tmp"), &tmp[..]), (Path::new("/var/tmp"), &var[..])]);
    }

    #[test]
    fn a_folder_that_others_cannot_enter_is_covered() {
        let folder = tempfile::tempdir().expect("a folder");
        let (closed, checkout) = (folder.path().join("home"), folder.path().join("home/user/trimtab"));
        fs::create_dir_all(&checkout).expect("a checkout");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert_eq!(closed_above(&checkout), None);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o750)).expect("it is ours");
        assert_eq!(closed_above(&checkout), Some(closed));
    }
}
