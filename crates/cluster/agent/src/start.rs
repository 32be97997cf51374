//! How agents come to nodes: by what starts processes there anyway.
//!
//! A batch system starts them inside of the job, as the job's user and under its limits; so nobody needs a right they
//! don't have. The command that starts them stays until they end, in a process group of its own: an interrupt at the
//! terminal is for the lead, which ends the window and then the agents.
//!
//! Next: `lead`, which awaits them.

use crate::error::Error;
use crate::ticket::Ticket;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_engine::Filing;
use trimtab_link::JobSecret;

/// How long what started the agents may take to end after them.
const END_MAX: Duration = Duration::from_secs(10);
/// How long it may take until this program has run once on each node of an allocation, and between two looks at that.
const TRIAL_MAX: Duration = Duration::from_secs(10);
const TRIAL_LOOK: Duration = Duration::from_millis(10);
/// So much of its output is kept.
const SAID_BYTES_MAX: usize = 4096;

/// Whoever starts agents on the places of a ticket.
pub trait Start {
    /// Starts `agent` (the path of this program on the nodes) in every place of the ticket.
    ///
    /// # Errors
    /// [`Error::NoStarter`] if a program that starts some can't be run, or the ticket can't be handed over;
    /// [`Error::Others`] if others were to start them and can't.
    fn start(&self, agent: &Path, ticket: &Ticket, secret: &JobSecret) -> Result<Started, Error>;
}

/// Agents that others start, such as a site: they end by themselves, and nobody here is their parent.
pub trait StartedByOthers: std::fmt::Debug {
    /// True if no agent will come any more, or any that has come will go.
    fn is_in_vain(&mut self) -> bool;

    /// Why agents are missing, in one line.
    fn said(&self) -> String;

    /// Whoever keeps the report, once the agents have gone.
    fn into_filing(self: Box<Self>) -> Option<Box<dyn Filing>>;
}

/// Programs that start agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Slurm's `srun`, in a step of its own that shares the job's processors.
    Srun {
        /// The job's number.
        job: u32,
    },
    /// A command for each place, with the agent's words behind its own: `ssh n1` and the like. Without words the agent
    /// is started right here.
    Each {
        /// The words, in the order of the places.
        commands: Vec<Vec<String>>,
    },
}

/// The program that was started; it is ended with this.
#[derive(Debug, Default)]
pub struct Started {
    children: Vec<Child>,
    /// Each of the children starts the agent of one place, in their order; otherwise one starts all.
    is_one_each: bool,
    said: Arc<Mutex<Vec<u8>>>,
    others: Option<Box<dyn StartedByOthers>>,
}

impl Start for Starter {
    fn start(&self, agent: &Path, ticket: &Ticket, secret: &JobSecret) -> Result<Started, Error> {
        let is_one_each = matches!(self, Starter::Each { .. });
        let mut started = Started { children: Vec::new(), is_one_each, said: Arc::default(), others: None };
        for mut command in self.commands(agent, ticket) {
            let shown = command.get_program().to_string_lossy().into_owned();
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
            let spawned = command.spawn().map_err(|source| Error::NoStarter { command: shown, source });
            let mut child = spawned?;
            let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
            started.children.push(child);
            stderr.map_or(Ok(()), |stderr| started.listen(stderr))?;
            // If nobody reads, what it says tells why.
            let _unread = stdin.map(|mut stdin| ticket.write(secret, &mut stdin));
        }
        Ok(started)
    }
}

impl Starter {
    fn commands(&self, agent: &Path, ticket: &Ticket) -> Vec<Command> {
        let own = || [agent.as_os_str(), "agent".as_ref(), "--ticket".as_ref(), "-".as_ref()];
        match self {
            Starter::Srun { job } => {
                let names: Vec<&str> = ticket.places.iter().map(|place| place.name.as_str()).collect();
                let mut srun = srun_beside(*job, names.len());
                srun.arg(format!("--nodelist={}", names.join(","))).arg("--kill-on-bad-exit=0");
                srun.args(own());
                vec![srun]
            }
            Starter::Each { commands } => {
                let each = commands.iter().enumerate().map(|(index, words)| match words.as_slice() {
                    [] => with_place(agent.as_os_str(), own().into_iter().skip(1), index),
                    [program, more @ ..] => {
                        // A shell is over there.
                        let quoted = [quoted(&agent.to_string_lossy())];
                        let words = more.iter().chain(&quoted).map(OsStr::new).chain(own().into_iter().skip(1));
                        with_place(OsStr::new(program), words, index)
                    }
                });
                each.collect()
            }
        }
    }
}

/// A step with one task on each of so many nodes of a job, beside its other steps.
fn srun_beside(job: u32, nodes: usize) -> Command {
    let mut srun = Command::new("srun");
    for name in own_step(std::env::vars_os().map(|(name, _)| name)) {
        srun.env_remove(name);
    }
    srun.arg(format!("--jobid={job}")).arg(format!("--nodes={nodes}")).arg(format!("--ntasks={nodes}"));
    srun.args(["--ntasks-per-node=1", "--overlap", "--mpi=none", "--quiet", "--job-name=trimtab"]);
    srun
}

/// True if this program has just run on each of the nodes of a job of Slurm's, which are so many, under the path that it
/// has here.
pub fn runs_on_all(job: u32, nodes: usize) -> bool {
    let Ok(own) = own_path() else { return false };
    let mut srun = srun_beside(job, nodes);
    srun.arg("--kill-on-bad-exit=1").arg(own).arg("--version");
    srun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = srun.spawn() else { return false };
    let until = Instant::now() + TRIAL_MAX;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(TRIAL_LOOK),
            ended => return ended.is_ok_and(|status| status.is_some_and(|status| status.success())),
        }
    }
    let _ended = child.kill();
    let _reaped = child.wait();
    false
}

/// A command whose agent is told its place: what a host is called here and what it calls itself may differ.
fn with_place<'a>(program: &OsStr, words: impl Iterator<Item = &'a OsStr>, index: usize) -> Command {
    let mut command = Command::new(program);
    command.args(words).arg("--place").arg(index.to_string());
    command
}

/// A word that a shell leaves as it is.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte);
    if word.bytes().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Variables that say of which job, step and task this process is. `srun` takes them for options: inside of a step it
/// would ask for that step's tasks and nodes once more. Variables that say which Slurm it is stay.
fn own_step(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_own = |name: &OsString| {
        let name = name.to_string_lossy();
        let kept = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"].contains(&&*name);
        ["SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_"].iter().any(|prefix| name.starts_with(prefix)) && !kept
    };
    names.filter(is_own).collect()
}

impl Started {
    /// Its standard error so far, in one line.
    pub fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from_utf8_lossy(&said).into_owned();
        text.extend(self.others.iter().map(|others| others.said()));
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Agents that others start.
    pub fn by_others(others: Box<dyn StartedByOthers>) -> Self {
        Started { children: Vec::new(), is_one_each: false, said: Arc::default(), others: Some(others) }
    }

    /// Whoever keeps the report, if others start the agents; what they know of the window ends with what is returned.
    pub(crate) fn take_filing(&mut self) -> Option<Box<dyn Filing>> {
        self.others.take()?.into_filing()
    }

    /// True if others start them.
    pub(crate) fn is_by_others(&self) -> bool {
        self.others.is_some()
    }

    /// True if commands were to start the agents of these places, and all have ended.
    pub(crate) fn commands_have_ended(&mut self, places: &[usize]) -> bool {
        match self.runs_for(places) {
            Some(runs) => !runs,
            None => self.others.is_none() && !self.children.is_empty() && self.has_ended(),
        }
    }

    /// True if all of what was started has ended, well or not.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.others {
            Some(others) => others.is_in_vain(),
            None => self.children.iter_mut().all(|child| !matches!(child.try_wait(), Ok(None))),
        }
    }

    /// True if what starts the agent of one of these places still runs; `None`: there is no telling them apart.
    pub(crate) fn runs_for(&mut self, places: &[usize]) -> Option<bool> {
        if !self.is_one_each {
            return None;
        }
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        Some(places.iter().any(|place| self.children.get_mut(*place).is_some_and(runs)))
    }

    fn listen(&self, mut from: impl Read + Send + 'static) -> std::io::Result<()> {
        let said = self.said.clone();
        let listen = move || {
            let mut buffer = [0; 512];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                let room = SAID_BYTES_MAX.saturating_sub(said.len());
                said.extend_from_slice(&buffer[..count.min(room)]);
            }
        };
        std::thread::Builder::new().name("listen".to_owned()).spawn(listen).map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let until = Instant::now() + END_MAX;
        // Those that others start end by themselves.
        while self.others.is_none() && !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        for child in &mut self.children {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// This program's own path, which nodes must have as well.
///
/// # Errors
/// When the system does not tell.
pub fn own_path() -> Result<PathBuf, Error> {
    Ok(std::env::current_exe()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{AgentsFor, NodeAddress, own_version};

    fn ticket() -> Ticket {
        let place = |name: &str| NodeAddress { name: name.to_owned(), address: [127, 0, 0, 1].into() };
        Ticket {
            version: own_version(),
            tree: 1,
            lead: "127.0.0.1:1".parse().expect("an address"),
            port: 2,
            fan_out: 32,
            places: vec![place("n1"), place("n2")],
            whose: AgentsFor::Processes(vec![1]),
            command: "attach".to_owned(),
            hold: None,
        }
    }

    fn words(command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn commands_name_job_and_places_and_never_the_secret() {
        let agent = Path::new("/opt/trimtab");
        let commands = Starter::Srun { job: 4711 }.commands(agent, &ticket());
        let line = words(&commands[0]);
        assert_eq!(commands.len(), 1);
        for part in ["--jobid=4711", "--nodes=2", "--nodelist=n1,n2", "--overlap", "/opt/trimtab agent --ticket -"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        let each = Starter::Each { commands: vec![vec!["ssh".into(), "-q".into(), "u@n1".into()], vec![]] };
        assert_eq!(
            each.commands(agent, &ticket()).iter().map(words).collect::<Vec<_>>(),
            ["ssh -q u@n1 /opt/trimtab agent --ticket - --place 0", "/opt/trimtab agent --ticket - --place 1"]
        );
        let odd = Starter::Each { commands: vec![vec!["ssh".into(), "n1".into()]] };
        let line = words(&odd.commands(Path::new("/home/o'neil & co/trimtab"), &ticket())[0]);
        assert_eq!(line, r"ssh n1 '/home/o'\''neil & co/trimtab' agent --ticket - --place 0");
    }

    #[test]
    fn of_the_own_step_nothing_is_passed_on_but_which_slurm_it_is() {
        let names = ["SLURM_CONF", "SLURM_JOB_ID", "SLURM_NTASKS", "PMI_RANK", "PATH", "SLURMD_NODENAME", "MY_SLURM_X"];
        let dropped = own_step(names.iter().map(OsString::from));
        assert_eq!(dropped, ["SLURM_JOB_ID", "SLURM_NTASKS", "PMI_RANK", "SLURMD_NODENAME"]);
    }

    #[test]
    fn ways_that_have_ended_are_told_from_those_that_go_on() {
        let secret = JobSecret::new().expect("a secret");
        let words = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let goes_on = std::env::temp_dir().join(format!("trimtab-goes-on-{}", std::process::id()));
        std::fs::write(&goes_on, "").expect("a file");
        let waits = format!("while test -e {}; do sleep 0.02; done", goes_on.display());
        let each = Starter::Each { commands: vec![words("exit 1"), words(&waits)] };
        let mut started = each.start(Path::new("/nowhere"), &ticket(), &secret).expect("it starts");
        let until = Instant::now() + Duration::from_secs(20);
        while started.runs_for(&[0]) == Some(true) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let runs = [&[0][..], &[1], &[0, 1], &[]].map(|places| started.runs_for(places));
        assert_eq!(runs, [Some(false), Some(true), Some(true), Some(false)]);
        std::fs::remove_file(&goes_on).expect("it was written");
        let mut all = Starter::Srun { job: 1 }.commands(Path::new("/nowhere"), &ticket());
        assert_eq!((all.len(), Started::default().runs_for(&[0, 1])), (1, None), "{:?}", all.pop());
    }

    #[test]
    fn what_a_starter_says_is_kept_and_what_is_not_there_is_named() {
        let secret = JobSecret::new().expect("a secret");
        let each = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Starter::Each { commands: vec![words; 2] }
        };
        let speaker = each(&["/bin/sh", "-c", "echo \"no way to n1\" >&2"]);
        let mut started = speaker.start(Path::new("/nowhere"), &ticket(), &secret).expect("it starts");
        let until = Instant::now() + Duration::from_secs(20);
        while (!started.has_ended() || started.said().is_empty()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(started.said().contains("no way to n"), "{}", started.said());
        let error = each(&["/no/such"]).start(Path::new("/nowhere"), &ticket(), &secret).expect_err("not there");
        assert!(error.to_string().contains("can't run /no/such"), "{error}");
    }
}
