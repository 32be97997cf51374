//! A job on several machines: who runs it there, how agents get there, what it is called.
//!
//! A batch system starts agents as it starts ranks. Where there is none, agents go the way that the launcher went: by the
//! same command to the same hosts. That command is read from processes, so it is used only if they are the caller's own;
//! others name one in `TRIMTAB_RSH`.
//!
//! Next: `cluster`, which measures such a job; `found`, which finds it.

use crate::arguments::site::SiteOptions;
use anyhow::{Context, bail};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};
use trimtab_agent::Whose;
use trimtab_agent::start::Starter;
use trimtab_measure::host_name;
use trimtab_track::slurm::RunningJob;
use trimtab_track::{Launch, ProcFs, Processes, far_launch};
use trimtab_types::Pid;

/// A stored job's key begins with this if Slurm runs it; its id follows.
pub const SLURM_KEY: &str = "slurm ";
/// The same of a launcher's; host, process and start of the launcher follow.
const LAUNCH_KEY: &str = "launch ";
/// A command that reaches the host whose name comes behind it, in place of the launcher's own.
const RSH_VARIABLE: &str = "TRIMTAB_RSH";

/// A launcher starts the commands that go to other machines one after the other, within milliseconds.
const SETTLING: Duration = Duration::from_millis(250);

/// A job on several machines.
#[derive(Clone, Debug)]
pub enum Spread {
    /// Slurm runs it.
    Slurm(RunningJob),
    /// A launcher on this machine does.
    Launch(Launched),
}

/// The processes that a launcher on this machine started, here and elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    launch: Launch,
    mark: String,
    /// The launcher went by that way to this machine, too.
    comes_back: bool,
}

impl Launched {
    /// The launch of `pid`, if it went to other machines.
    ///
    /// # Errors
    /// The process can't be looked at.
    pub fn of(pid: Pid) -> anyhow::Result<Option<Launched>> {
        let Some(launch) = far_launch(&ProcFs::new(), pid)? else { return Ok(None) };
        let comes_back = launch.far.iter().any(|far| is_here(&far.host));
        Ok(launch.mark.clone().map(|mark| Launched { launch, mark, comes_back }))
    }

    /// The launcher's process.
    pub fn launcher(&self) -> Pid {
        self.launch.launcher
    }

    /// Its owner.
    pub fn uid(&self) -> u32 {
        self.launch.uid
    }

    /// True if the launcher runs.
    pub fn runs(&self) -> bool {
        trimtab_os::runs_since(self.launch.launcher, self.launch.start_time_ticks)
    }

    fn starter(&self) -> anyhow::Result<Starter> {
        let rsh = std::env::var(RSH_VARIABLE).ok().filter(|words| !words.trim().is_empty());
        let processes = ProcFs::new();
        let own_uid = processes.status(processes.own_pid())?.uids[1];
        let ways = self.launch.far.iter().map(|far| match &rsh {
            Some(words) => Ok(words.split_whitespace().chain([&*far.host]).map(str::to_owned).collect()),
            None if self.launch.uid == own_uid && far.uid == own_uid => Ok(without_terminal(&far.words)),
            None => bail!(
                "{} reaches {} as user {}, and you are user {own_uid}: run trimtab as that user, or say in \
                 {RSH_VARIABLE} which command reaches a host, such as `ssh`",
                self.launch.command,
                far.host,
                far.uid
            ),
        });
        let mut commands = ways.collect::<anyhow::Result<Vec<Vec<String>>>>()?;
        commands.extend((!self.comes_back).then(Vec::new));
        Ok(Starter::Each { commands })
    }
}

impl Spread {
    /// Its nodes: as Slurm calls them; or as the launcher was told, and the launcher's own.
    pub fn nodes(&self) -> Vec<String> {
        match self {
            Spread::Slurm(running) => running.nodes.clone(),
            Spread::Launch(launched) => {
                let far = launched.launch.far.iter().map(|far| far.host.clone());
                // Perhaps with some of its ranks, of which there may be none yet.
                far.chain((!launched.comes_back).then(host_name)).collect()
            }
        }
    }

    /// Which processes are its, for agents.
    pub fn whose(&self) -> Whose {
        match self {
            Spread::Slurm(running) => Whose::from(&running.run),
            Spread::Launch(launched) => Whose::Launch { mark: launched.mark.clone(), uid: launched.uid() },
        }
    }

    /// The starter of agents: the site's standing ones, if it has a controller that may be asked and Slurm runs the
    /// job.
    ///
    /// # Errors
    /// Nothing that may be used is known.
    pub fn starter(&self, site: Option<&SiteOptions>) -> anyhow::Result<Starter> {
        let running = match self {
            Spread::Slurm(running) => running,
            Spread::Launch(launched) => return launched.starter(),
        };
        if let Some(site) = site
            && let Some(controller) = site.controller()
        {
            return Ok(Starter::Site { controller, identity: site.identity() });
        }
        let job = running.parts.first().context("Slurm named no part of the job")?.job;
        Ok(Starter::Srun { job })
    }

    /// True if all its nodes are known: of a launcher's job that has just begun, those that were there a while ago as
    /// well, as `since` says.
    pub fn is_settled(&self, since: &mut Option<(Instant, Vec<String>)>) -> bool {
        if matches!(self, Spread::Slurm(_)) {
            return true;
        }
        let nodes = self.nodes();
        match since {
            Some((since, known)) if *known == nodes => since.elapsed() >= SETTLING,
            _ => {
                *since = Some((Instant::now(), nodes));
                false
            }
        }
    }

    /// Its name in a sentence.
    pub fn name(&self) -> String {
        match self {
            Spread::Slurm(running) => format!("job {}", running.id),
            Spread::Launch(Launched { launch, .. }) => {
                format!("the job of {} (process {})", launch.command, launch.launcher)
            }
        }
    }

    /// The command that shows why no agent came, or no rank is where one should be.
    pub fn next_step(&self) -> String {
        match self {
            Spread::Slurm(running) => {
                format!(
                    "see `scontrol listpids` on the nodes, and whether `srun --jobid={} --overlap` works",
                    running.id
                )
            }
            Spread::Launch(Launched { launch, .. }) => {
                let way = launch.far.first().map(|far| far.words.join(" ")).unwrap_or_default();
                format!("see whether `{way} true` works, or say in {RSH_VARIABLE} what does")
            }
        }
    }

    /// The beginning of its key in a store.
    pub fn key(&self) -> String {
        match self {
            Spread::Slurm(running) => format!("{SLURM_KEY}{} ", running.id),
            Spread::Launch(Launched { launch, .. }) => {
                format!("{LAUNCH_KEY}{} {} {} ", host_name(), launch.launcher, launch.start_time_ticks)
            }
        }
    }

    /// How often Slurm had begun it before.
    pub fn restarts(&self) -> u32 {
        match self {
            Spread::Slurm(running) => running.run.restarts,
            Spread::Launch(_) => 0,
        }
    }
}

/// True if a name is one of this machine's: only its own addresses can be listened at.
fn is_here(host: &str) -> bool {
    let own = |address: SocketAddr| UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok();
    (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.any(own))
}

/// The launcher of a stored job: where it was, its process, when it began. `None`: of another kind of job.
pub fn launcher_of(key: &str) -> Option<(&str, Pid, u64)> {
    let mut words = key.strip_prefix(LAUNCH_KEY)?.split(' ');
    Some((words.next()?, Pid(words.next()?.parse().ok()?), words.next()?.parse().ok()?))
}

/// The command without what keeps it from reading its standard input, where the agent's secret comes, and not asking
/// anybody for a password.
fn without_terminal(words: &[String]) -> Vec<String> {
    let program = words.first().and_then(|program| program.rsplit('/').next());
    let (dropped, added): (&[&str], &[&str]) = match program {
        Some("ssh") => (&["-n", "-f", "-t", "-tt"], &["-o", "BatchMode=yes"]),
        Some("rsh") => (&["-n"], &[]),
        Some("qrsh") => (&["-nostdin"], &[]),
        _ => (&[], &[]),
    };
    let rest = words.iter().skip(1).filter(|word| !dropped.contains(&word.as_str())).cloned();
    words.iter().take(1).cloned().chain(added.iter().map(|word| (*word).to_owned())).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_track::Far;

    fn launched(uid: u32, comes_back: bool) -> Launched {
        let words = ["/usr/bin/ssh", "-n", "-x", "u@n1"].map(str::to_owned).to_vec();
        let far = vec![Far { host: "n1".to_owned(), words, uid }];
        let (launcher, command) = (Pid(7), "mpirun".to_owned());
        let launch = Launch { launcher, command, start_time_ticks: 11, uid, far, mark: Some("head:1".to_owned()) };
        Launched { launch, mark: "head:1".to_owned(), comes_back }
    }

    #[test]
    fn agents_go_the_launchers_way_if_it_is_ones_own() {
        let own_uid = ProcFs::new().status(ProcFs::new().own_pid()).expect("it runs").uids[1];
        let ssh = ["/usr/bin/ssh", "-o", "BatchMode=yes", "-x", "u@n1"].map(str::to_owned).to_vec();
        for (comes_back, commands) in [(true, vec![ssh.clone()]), (false, vec![ssh, vec![]])] {
            let spread = Spread::Launch(launched(own_uid, comes_back));
            let Starter::Each { commands: found } = spread.starter(None).expect("it is our own") else {
                panic!("a command each")
            };
            assert_eq!(found, commands);
            assert_eq!(spread.nodes().len(), commands.len());
        }
        let refused = Spread::Launch(launched(own_uid + 1, false)).starter(None).expect_err("another user's");
        assert!(refused.to_string().contains("TRIMTAB_RSH"), "{refused}");
    }

    #[test]
    fn nothing_keeps_the_secret_from_an_agent() {
        for (words, expected) in [
            ("/usr/bin/ssh -n -F f n1", "/usr/bin/ssh -o BatchMode=yes -F f n1"),
            ("rsh -n n1", "rsh n1"),
            ("qrsh -inherit -nostdin -V n1", "qrsh -inherit -V n1"),
            ("/opt/way -n n1", "/opt/way -n n1"),
        ] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(without_terminal(&words).join(" "), expected);
        }
    }

    #[test]
    fn own_names_are_known() {
        assert!(is_here("localhost") && is_here("127.0.0.1"));
        assert!(!is_here("192.0.2.1") && !is_here("no such host"));
    }

    #[test]
    fn a_stored_launch_is_found_again() {
        let key = Spread::Launch(launched(0, true)).key();
        assert_eq!(launcher_of(&format!("{key}pmix=1")), Some((&*host_name(), Pid(7), 11)));
        assert_eq!(launcher_of("slurm 4711 0 x"), None);
        assert_eq!(launcher_of("launch n1 x"), None);
    }
}
