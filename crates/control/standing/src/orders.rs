//! Orders to a standing agent for a window: it starts an agent on its host, as the user whose job it is.
//!
//! The order comes from the controller, with the user that a certificate proved. The owner of the job's processes is
//! asked of the kernel, here and now, or of Slurm where ranks are to be held that have not begun; unless they are the
//! user's own, or an administrator asks, nothing is started. The agent that is started runs as their owner and may no
//! more than that user: so a mistake here, or a controller that lies, can't make anybody's agent touch somebody else's
//! process.
//!
//! Next: `standing`, which is notified; `trimtab_agent::serve` for what the started agent does.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_agent::found::find;
use trimtab_agent::start::own_path;
use trimtab_agent::ticket::{AgentsFor, Ticket};
use trimtab_audit::permit::{Denied, Requester};
use trimtab_audit::{AuditedAction, Cause, Entry, Log, Target};
use trimtab_site::Client;
use trimtab_site::api::{Order, Outcome};
use trimtab_track::slurm::{self, SlurmError, SlurmRun};
use trimtab_track::{Job, RankProcess};
use trimtab_types::{Pid, notice, one_line};

/// Users' agents on one host at once.
const RUNNING_COUNT_MAX: usize = 32;
/// How long ranks may take to appear after a window asked for them.
const RANKS_MAX: Duration = Duration::from_secs(20);
/// Time between two looks for them.
const LOOK: Duration = Duration::from_millis(100);

/// The agents that were started on this host.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    running: usize,
    started: u64,
}

/// A user, as this host knows them.
struct User {
    uid: u32,
    gid: u32,
    name: String,
    home: String,
}

/// Why no agent is started, in words for whoever asked for the window.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error("{}", one_line(&**.0))]
    Caused(Box<dyn std::error::Error>),
    #[error("{RUNNING_COUNT_MAX} agents run on {host} already, as many as may")]
    ManyAgents { host: String },
    #[error("an agent of {user} can't be started: {error}; the standing agent needs CAP_SETUID, CAP_SETGID")]
    NotSpawned { user: String, error: std::io::Error },
    #[error("the agent did not take its ticket: {0}")]
    NotHanded(std::io::Error),
    #[error("{0}")]
    NoJob(String),
    #[error("{reason}; before ranks are there only Slurm knows whose they are: {}", one_line(error))]
    NoOwner { reason: Box<NotStarted>, error: SlurmError },
    #[error("{job} belongs to user {owner}, and {by} asks: only its owner or an administrator may measure it")]
    OthersJob { job: String, owner: u32, by: String },
    #[error("none of the job's ranks runs here")]
    NoRank,
    #[error("the job's ranks belong to users {0} and {1}: one user's at a time")]
    SeveralUsers(u32, u32),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("this standing agent runs as user {own} and can't start one as user {owner}: run it as root")]
    OtherUser { own: u32, owner: u32 },
    #[error("can't run getent: {0}")]
    NoGetent(std::io::Error),
    #[error("this host knows no user {0} (`getent passwd {0}`)")]
    UnknownUser(u32),
}

impl NotStarted {
    fn caused(error: impl std::error::Error + 'static) -> Self {
        NotStarted::Caused(Box::new(error))
    }
}

impl Starts {
    /// How many run, and how many were started altogether.
    pub(crate) fn counts(&self) -> (u32, u64) {
        let counts = lock(&self.counts);
        (counts.running as u32, counts.started)
    }

    /// Does what a window wants, and tells the controller what came of it.
    pub(crate) fn carry_out(&self, client: &Client, window: u64, host: &str) {
        let order: Order = match client.get(&format!("/v1/windows/{window}/order")) {
            Ok(order) => order,
            Err(error) => return notice(&format!("window {window}: {}", one_line(&error))),
        };
        let (refused, owner) = match self.start(&order, host) {
            Err(why) => {
                notice(&format!("window {window} of user {} is refused: {why}", order.uid));
                (Some(why.to_string()), None)
            }
            Ok(owner) => {
                notice(&format!("window {window} of user {}: an agent of user {owner} was started", order.uid));
                (None, Some(owner))
            }
        };
        let outcome = Outcome { refused, owner };
        let told: Result<(), _> = client.post(&format!("/v1/windows/{window}/outcome"), &outcome);
        if let Err(error) = told {
            notice(&format!("window {window}: {}", one_line(&error)));
        }
    }

    /// Starts an agent as the user whose processes the job's ranks are here, and says who that is.
    fn start(&self, order: &Order, host: &str) -> Result<u32, NotStarted> {
        let text = format!("{}\n{}", order.secret.trim_end(), order.ticket);
        let (secret, ticket) = Ticket::read(&mut text.as_bytes()).map_err(NotStarted::caused)?;
        let (uid, name) = (order.uid, order.asked_by.clone());
        let requester = Requester { uid, name, is_administrator: order.is_administrator };
        let (owner, targets) = asked_for(&ticket, &requester, host)?;
        let user = User::of(owner)?;
        may_become(owner, rustix::process::geteuid().as_raw())?;
        // Only one thread at a time starts something, so that the bound holds.
        let mut counts = lock(&self.counts);
        if counts.running >= RUNNING_COUNT_MAX {
            return Err(NotStarted::ManyAgents { host: host.to_owned() });
        }
        write_down(&targets, requester, &ticket.command).map_err(NotStarted::caused)?;
        let mut agent = command(&user, host)
            .and_then(|mut command| command.spawn())
            .map_err(|error| NotStarted::NotSpawned { user: user.name.clone(), error })?;
        let stdin = agent.stdin.take();
        counts.running += 1;
        counts.started += 1;
        drop(counts);
        self.await_end(agent, owner);
        let mut bytes = Vec::new();
        ticket.write(&secret, &mut bytes).map_err(NotStarted::caused)?;
        let handed = stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&bytes));
        handed.map(|()| owner).map_err(NotStarted::NotHanded)
    }

    /// Asks for an agent as soon as it ends. Until somebody does, a process that was killed keeps its number, and others
    /// could take it for one that runs.
    fn await_end(&self, mut agent: Child, owner: u32) {
        let counts = self.counts.clone();
        let wait = move || {
            let ended = agent.wait();
            lock(&counts).running -= 1;
            if let Some(signal) = ended.ok().and_then(|status| status.signal()) {
                notice(&format!("the agent of user {owner}, process {}, was ended by signal {signal}", agent.id()));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("trimtab-reaper".to_owned()).spawn(wait) {
            notice(&format!("nobody awaits the end of an agent of user {owner}: no thread can be started: {error}"));
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // Nothing that holds it panics half-way.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The job's owner, and what is written down for it.
///
/// Ranks that are to be held must be looked at before they begin: then Slurm says whose the job is. Where it does not, they
/// are waited for, and what comes of that says why.
fn asked_for(ticket: &Ticket, by: &Requester, host: &str) -> Result<(u32, Vec<Target>), NotStarted> {
    let of_ranks = |job: Job| Ok((owner(&job, by)?, job.ranks.iter().map(target).collect()));
    let run = ticket.whose.slurm().filter(|_| ticket.hold.is_some());
    let Some(run) = run else { return of_ranks(wait_for_ranks(&ticket.whose)?) };
    match find(&ticket.whose) {
        Ok(job) => return of_ranks(job),
        Err((reason, false)) => return Err(NotStarted::NoJob(reason)),
        Err((_, true)) => {}
    }
    match slurm::owner_here(&slurm::Program, &run, host) {
        Ok(owner) => Ok((may_hold(&run, owner, by)?, vec![target_ahead(&run, owner)])),
        Err(error) => {
            let no_owner = |reason| NotStarted::NoOwner { reason: Box::new(reason), error };
            of_ranks(wait_for_ranks(&ticket.whose).map_err(no_owner)?)
        }
    }
}

/// The owner of a job that has no rank here yet, if whoever asks may measure it.
fn may_hold(run: &SlurmRun, owner: u32, by: &Requester) -> Result<u32, NotStarted> {
    let denied = |_| NotStarted::OthersJob { job: named(run), owner, by: by.to_string() };
    by.may_measure(Pid(0), owner).map(|()| owner).map_err(denied)
}

fn named(run: &SlurmRun) -> String {
    let jobs: Vec<String> = run.jobs.iter().map(u32::to_string).collect();
    format!("job {} of Slurm", jobs.join("+"))
}

fn target(rank: &RankProcess) -> Target {
    let (pid, start_ticks, uid) = (rank.pid, rank.start_time_ticks, rank.uid);
    Target { pid, start_ticks, uid, program: rank.executable.display().to_string() }
}

/// Stands for ranks that are not there yet.
fn target_ahead(run: &SlurmRun, owner: u32) -> Target {
    Target { pid: Pid(0), start_ticks: 0, uid: owner, program: format!("{}, before its ranks", named(run)) }
}

/// The job's ranks on this host, for which it waits as long as they may still come.
fn wait_for_ranks(whose: &AgentsFor) -> Result<Job, NotStarted> {
    let until = Instant::now() + RANKS_MAX;
    loop {
        match find(whose) {
            Ok(job) => return Ok(job),
            Err((_, true)) if Instant::now() < until => std::thread::sleep(LOOK),
            Err((reason, _)) => return Err(NotStarted::NoJob(reason)),
        }
    }
}

/// The one user whose processes the ranks are, if whoever asks may measure all of them.
fn owner(job: &Job, requester: &Requester) -> Result<u32, NotStarted> {
    let first = job.ranks.first().ok_or(NotStarted::NoRank)?;
    for rank in &job.ranks {
        requester.may_measure(rank.pid, rank.uid)?;
        if rank.uid != first.uid {
            return Err(NotStarted::SeveralUsers(first.uid, rank.uid));
        }
    }
    Ok(first.uid)
}

/// Only root can start another user's agent: from root to a user the kernel takes all capabilities away, from one user to
/// another it leaves them.
fn may_become(owner: u32, own: u32) -> Result<(), NotStarted> {
    if own == 0 || own == owner {
        return Ok(());
    }
    Err(NotStarted::OtherUser { own, owner })
}

/// One line for each, before anything is started for it.
fn write_down(targets: &[Target], by: Requester, command: &str) -> Result<(), trimtab_audit::Error> {
    let cause = Cause { by, command: command.to_owned() };
    let mut log = Log::of_user()?;
    targets.iter().try_for_each(|target| log.write(&Entry::now(&cause, target, AuditedAction::Delegated)))
}

/// An agent that takes its ticket from its standard input. It gets nothing of this program's environment.
fn command(user: &User, host: &str) -> std::io::Result<Command> {
    let program = own_path().map_err(std::io::Error::other)?;
    let mut command = Command::new(program);
    command.args(["agent", "--ticket", "-"]).current_dir("/").process_group(0);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name).env("SLURMD_NODENAME", host);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    if user.uid != rustix::process::geteuid().as_raw() {
        // The standard library gives up all other groups before it changes the user.
        command.uid(user.uid).gid(user.gid);
    }
    Ok(command)
}

/// The name of a user by their number, as the host's name service knows it.
pub fn user_name(uid: u32) -> Option<String> {
    User::of(uid).ok().map(|user| user.name)
}

impl User {
    /// Asks the host's name service, which may be more than a file.
    fn of(uid: u32) -> Result<Self, NotStarted> {
        let output = Command::new("getent").args(["passwd", &uid.to_string()]).stdin(Stdio::null()).output();
        let output = output.map_err(NotStarted::NoGetent)?;
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        User::parse(uid, line.trim_end()).ok_or(NotStarted::UnknownUser(uid))
    }

    fn parse(uid: u32, line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, gid, _, home, ..] = fields.as_slice() else { return None };
        if number.parse() != Ok(uid) {
            return None;
        }
        Some(User { uid, gid: gid.parse().ok()?, name: (*name).to_owned(), home: (*home).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_as_the_name_service_writes_them() {
        let user = User::parse(1001, "ann:x:1001:100:Ann,,,:/home/ann:/bin/bash").expect("a user");
        assert_eq!((user.name.as_str(), user.gid, user.home.as_str()), ("ann", 100, "/home/ann"));
        for (name, line) in [
            ("nobody", ""),
            ("another's number", "ann:x:1002:100::/home/ann:/bin/sh"),
            ("no group", "ann:x:1001::x:/home/ann:/bin/sh"),
            ("cut short", "ann:x:1001:100:Ann"),
        ] {
            assert!(User::parse(1001, line).is_none(), "{name}");
        }
    }

    #[test]
    fn a_job_without_ranks_is_its_owners_and_administrators() {
        let run = SlurmRun { jobs: [4711].into(), step: None, restarts: 0, listed: None };
        for (name, uid, is_administrator, may) in [
            ("owner", 7, false, true),
            ("another", 8, false, false),
            ("root is a user", 0, false, false),
            ("administrator", 0, true, true),
        ] {
            let asked = may_hold(&run, 7, &Requester { uid, name: None, is_administrator });
            assert_eq!(asked.as_ref().ok(), may.then_some(&7), "{name}");
            assert!(asked.err().is_none_or(|why| matches!(why, NotStarted::OthersJob { owner: 7, .. })), "{name}");
        }
        assert_eq!(target_ahead(&run, 7).program, "job 4711 of Slurm, before its ranks");
    }

    #[test]
    fn only_root_becomes_somebody_else() {
        assert!(may_become(7, 0).is_ok() && may_become(7, 7).is_ok() && may_become(0, 0).is_ok());
        let error = may_become(8, 7).expect_err("capabilities would stay");
        assert!(matches!(error, NotStarted::OtherUser { own: 7, owner: 8 }), "{error}");
    }

    #[test]
    fn a_started_agent_gets_nothing_of_ours() {
        let user = User { uid: 4242, gid: 100, name: "ann".to_owned(), home: "/home/ann".to_owned() };
        let command = command(&user, "n1").expect("a command");
        let environment: Vec<&str> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(environment, ["HOME", "LOGNAME", "PATH", "SLURMD_NODENAME", "USER"]);
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        assert_eq!(words, ["agent", "--ticket", "-"], "no secret in what others can list");
    }
}
