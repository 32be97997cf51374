//! A job on several machines: who runs it there, and what it is called.
//!
//! Next: `found`, which finds it.

use crate::error::Error;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};
use trimtab_measure::host_name;
use trimtab_track::slurm::{self, Ahead, NotAnId, Program, RunningJob, SlurmError, SlurmId, questions};
use trimtab_track::{Launch, ProcFs, far_launch};
use trimtab_types::Pid;

/// A stored job's key begins with this if Slurm runs it; its id follows.
const SLURM_KEY: &str = "slurm ";
/// The same of a launcher's; host, process and start of the launcher follow.
const LAUNCH_KEY: &str = "launch ";
/// A command that reaches the host whose name comes behind it, in place of the launcher's own.
pub const RSH_VARIABLE: &str = "TRIMTAB_RSH";

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
    pub fn of(pid: Pid) -> Result<Option<Launched>, Error> {
        Ok(far_launch(&ProcFs::new(), pid)?.and_then(Launched::from_launch))
    }

    /// A launch that was found; `None`: nothing tells its processes from others on the machines.
    pub fn from_launch(launch: Launch) -> Option<Launched> {
        let comes_back = launch.far.iter().any(|far| is_here(&far.host));
        launch.mark.clone().map(|mark| Launched { launch, mark, comes_back })
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

    /// How its launcher went to other machines.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The mark that its helpers have among their words.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// True if the launcher went by that way to this machine, too.
    pub fn comes_back(&self) -> bool {
        self.comes_back
    }
}

impl Spread {
    /// A job that Slurm runs for this user; `None`: for anybody.
    ///
    /// # Errors
    /// See [`SlurmError`]: there is no such job, it does not run, it is another user's, or Slurm does not answer.
    pub fn of_slurm(id: SlurmId, uid: Option<u32>) -> Result<Spread, SlurmError> {
        let scontrol = Ahead::begin(Program, &questions(id));
        // User 0 may measure everybody's.
        Ok(Spread::Slurm(slurm::find(&scontrol, id, uid.unwrap_or(0))?))
    }

    /// Its owner, by Slurm's word or the launcher's process; `None`: nobody says.
    pub fn owner(&self) -> Option<u32> {
        match self {
            Spread::Slurm(running) => running.parts.first().map(|part| part.uid),
            Spread::Launch(launched) => Some(launched.uid()),
        }
    }

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

/// The id of a stored job that Slurm runs; `None`: of another one.
pub(crate) fn slurm_id(key: &str) -> Option<Result<SlurmId, NotAnId>> {
    Some(key.strip_prefix(SLURM_KEY)?.split(' ').next()?.parse())
}

/// True if a name is one of this machine's: only its own addresses can be listened at.
fn is_here(host: &str) -> bool {
    let own = |address: SocketAddr| UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok();
    (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.any(own))
}

/// The launcher of a stored job: where it was, its process, when it began. `None`: of another kind of job.
pub(crate) fn launcher_of(key: &str) -> Option<(&str, Pid, u64)> {
    let mut words = key.strip_prefix(LAUNCH_KEY)?.split(' ');
    Some((words.next()?, Pid(words.next()?.parse().ok()?), words.next()?.parse().ok()?))
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
