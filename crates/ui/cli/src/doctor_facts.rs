//! The facts that `trimtab doctor` looks at on a node. Nothing here judges.
//!
//! Files are read below a root, so that tests can show other nodes.
//!
//! Next: `doctor`, which says what it means.

use crate::arguments::site::SiteOptions;
use crate::output;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_controller::{Client, Identity, SiteError};
use trimtab_engine::{NoCounter, own, what_counts};

/// Programs that are looked for.
const PROGRAMS: [&str; 9] =
    ["mpiexec", "mpirun", "mpiexec.mpich", "mpirun.openmpi", "srun", "scontrol", "getent", "prlimit", "systemctl"];

/// The facts of a node.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// As `uname -r` says.
    pub kernel: String,
    /// The host's name.
    pub host: String,
    /// The user who asks.
    pub uid: u32,
    /// The kernel's clock, where it says.
    pub clock: Option<String>,
    /// True if the time-stamp counter of all processors runs at one rate.
    pub steady_counter: bool,
    /// Yama's value; none: no Yama.
    pub ptrace_scope: Option<u8>,
    /// Bits of the effective capabilities.
    pub capabilities: u64,
    /// Mode of this process's filter of system calls.
    pub seccomp: u8,
    /// The kernel's value.
    pub perf_event_paranoid: Option<i64>,
    /// Counters that can be asked for, with the reason for each that can't be read here.
    pub counters: Vec<(&'static str, Option<NoCounter>)>,
    /// How much memory may be locked, in kB; none: any amount.
    pub locked_kb_max: Option<u64>,
    /// Why the kernel doesn't tell of process events.
    pub no_events: Option<String>,
    /// Programs that are there.
    pub programs: Vec<String>,
    /// MPI's libraries that the loader knows.
    pub mpi_libraries: Vec<String>,
    /// The answer of `srun --version`.
    pub slurm: Option<String>,
    /// Where the audit log is, or why it can't be written.
    pub audit: Option<Result<String, String>>,
    /// One's identity at the site.
    pub identity: Option<IdentityFacts>,
    /// The controller's answer, if one is named.
    pub controller: Option<Result<String, Refusal>>,
}

/// For how long an identity is good, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// From now on; below zero: it has expired.
    pub left_s: i64,
    /// From the beginning of its time to its end.
    pub lifetime_s: u64,
}

/// An identity's file.
#[derive(Clone, Debug)]
pub struct IdentityFacts {
    /// Which.
    pub path: String,
    /// Its holder, and for how long; or its fault.
    pub state: Result<(String, Validity), String>,
}

impl Facts {
    /// Looks at this node.
    pub fn gather(site: &SiteOptions) -> Self {
        let mut facts = Facts::read(Path::new("/"));
        let name = rustix::system::uname();
        facts.kernel = name.release().to_string_lossy().into_owned();
        facts.host = name.nodename().to_string_lossy().into_owned();
        facts.uid = rustix::process::geteuid().as_raw();
        let locked = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        facts.locked_kb_max = locked.map(|bytes| bytes / 1024);
        let counters = what_counts().into_iter();
        facts.counters = counters.map(|(name, tried)| (name, tried.err())).collect();
        facts.no_events = own::why_no_events();
        facts.programs = PROGRAMS.into_iter().filter(|name| is_in_path(name)).map(str::to_owned).collect();
        facts.slurm = said("srun", &["--version"]);
        let libraries = said("/sbin/ldconfig", &["-p"]).unwrap_or_default();
        let mpi = libraries.lines().filter_map(|line| line.split_whitespace().next());
        facts.mpi_libraries = mpi
            .filter(|name| name.starts_with("libmpi.so") || name.starts_with("libmpich.so"))
            .map(str::to_owned)
            .collect();
        facts.audit = Some(audit());
        facts.ask_site(site);
        facts
    }

    /// The settings in files of the kernel's.
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
        let status = text("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let flags = text("proc/cpuinfo").unwrap_or_default();
        let flags = flags.lines().find(|line| line.starts_with("flags")).unwrap_or_default().to_owned();
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        Facts {
            clock: text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            steady_counter: has("constant_tsc") && has("nonstop_tsc"),
            ptrace_scope: text("proc/sys/kernel/yama/ptrace_scope").and_then(|value| value.parse().ok()),
            capabilities: u64::from_str_radix(&field("CapEff"), 16).unwrap_or(0),
            seccomp: field("Seccomp").parse().unwrap_or(0),
            perf_event_paranoid: text("proc/sys/kernel/perf_event_paranoid").and_then(|value| value.parse().ok()),
            ..Facts::default()
        }
    }

    fn ask_site(&mut self, site: &SiteOptions) {
        let controller = site.controller();
        let own = site.identity();
        let of_host = PathBuf::from("/etc/trimtab/identity.pem");
        let path = if site.identity.is_none() && !own.exists() && of_host.exists() { of_host } else { own };
        if controller.is_none() && site.identity.is_none() && !path.exists() {
            return;
        }
        let shown = path.display().to_string();
        let identity = match Identity::load(&path) {
            Ok(identity) => identity,
            Err(error) => {
                self.identity = Some(IdentityFacts { path: shown, state: Err(error.to_string()) });
                return;
            }
        };
        let validity =
            |until_s: u64| Ok(Validity { left_s: until_s as i64 - now_s(), lifetime_s: identity.lifetime_s()? });
        let state = identity.valid_until_s().and_then(validity).map(|validity| (identity.role().to_string(), validity));
        self.identity = Some(IdentityFacts { path: shown, state: state.map_err(|error| chain(error.into())) });
        self.controller = controller.map(|name| asked(&name, &identity));
    }
}

/// Why a controller does not answer.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// In words, with what to do where that is known.
    pub why: String,
    /// The way to it may be closed.
    pub may_be_closed: bool,
}

/// Asks a controller if it knows this identity; agents may not see the tree, but are known.
fn asked(name: &str, identity: &Identity) -> Result<String, Refusal> {
    let client = Client::new(name, identity).map_err(refusal)?;
    match client.tree() {
        Ok(tree) => Ok(format!("{name} answers: {} agents", tree.agents.len())),
        Err(SiteError::Refused { status: 403, .. }) => Ok(format!("{name} answers")),
        Err(error) => Err(refusal(error)),
    }
}

fn refusal(error: SiteError) -> Refusal {
    let may_be_closed = matches!(error, SiteError::Unreachable { .. } | SiteError::Slow { .. });
    Refusal { why: chain(error.into()), may_be_closed }
}

fn chain(error: anyhow::Error) -> String {
    output::chain(&error)
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

fn audit() -> Result<String, String> {
    let path = trimtab_standing::HostLog::file().map_err(|error| chain(error.into()))?;
    Ok(path.display().to_string())
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
