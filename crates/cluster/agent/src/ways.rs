//! Which way agents go to the nodes of a job.
//!
//! A batch system starts agents as it starts ranks, unless others are to (a site's standing agents). Where there is none, agents go the way
//! that the launcher went: by the same command to the same hosts. That command is read from processes, so it is used only
//! if they are the caller's own; others name one in `TRIMTAB_RSH`.
//!
//! Next: `start`, which goes it.

use crate::error::Error;
use crate::lead::Lead;
use crate::remote::Remote;
use crate::start::{Start, Starter};
use crate::ticket::AgentsFor;
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_engine::{BoxError, FarCrew, Filing, Gathered, Hold, MachineNow};
use trimtab_engine::{Launched, RSH_VARIABLE, Spread};
use trimtab_engine::{Present, UndoneAt};
use trimtab_track::{ProcFs, Processes};

impl<'a> Lead<'a> {
    /// Has agents come on all nodes of a job.
    ///
    /// # Errors
    /// None comes.
    pub fn to(
        spread: &Spread,
        starter: &dyn Start,
        asked: (&str, Option<Hold>),
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        Lead::begin(&spread.nodes(), AgentsFor::from(spread), starter, asked, is_interrupted)
    }
}

impl Gathered for Lead<'_> {
    fn count(&self) -> usize {
        self.agents().len()
    }

    fn absent(&self) -> Vec<String> {
        Lead::absent(self).into_iter().map(str::to_owned).collect()
    }

    fn left_out(&self) -> Vec<String> {
        Lead::left_out(self).to_vec()
    }

    fn said(&self) -> String {
        Lead::said(self)
    }

    fn crew(&mut self, wait: Duration) -> Result<Box<dyn FarCrew + '_>, BoxError> {
        Ok(Box::new(Remote::gather(self, wait)?))
    }

    fn present(&mut self, wait: Duration) -> Result<BTreeMap<usize, Present>, BoxError> {
        Ok(self.gather_agents(wait)?)
    }

    fn machines(&mut self) -> Result<Vec<MachineNow>, BoxError> {
        Ok(Lead::machines(self)?)
    }

    fn undo(&mut self, wait: Duration, seccomp_ok: bool) -> Result<Vec<UndoneAt>, BoxError> {
        Ok(Lead::undo(self, wait, seccomp_ok)?)
    }

    fn take_filing(&mut self) -> Option<Box<dyn Filing>> {
        Lead::take_filing(self)
    }
}

impl Starter {
    /// The command that starts a job's agents, or a command for each.
    ///
    /// # Errors
    /// Nothing that may be used is known.
    pub fn of(spread: &Spread) -> Result<Starter, Error> {
        let running = match spread {
            Spread::Slurm(running) => running,
            Spread::Launch(launched) => return of_launch(launched),
        };
        let job = running.parts.first().ok_or(Error::NoPart)?.job;
        Ok(Starter::Srun { job })
    }
}

impl From<&Spread> for AgentsFor {
    fn from(spread: &Spread) -> Self {
        match spread {
            Spread::Slurm(running) => AgentsFor::from(&running.run),
            Spread::Launch(launched) => AgentsFor::Launch { mark: launched.mark().to_owned(), uid: launched.uid() },
        }
    }
}

fn of_launch(launched: &Launched) -> Result<Starter, Error> {
    let launch = launched.launch();
    let rsh = std::env::var(RSH_VARIABLE).ok().filter(|words| !words.trim().is_empty());
    let processes = ProcFs::new();
    let own_uid = processes.status(processes.own_pid())?.uids[1];
    let ways = launch.far.iter().map(|far| match &rsh {
        Some(words) => Ok(words.split_whitespace().chain([&*far.host]).map(str::to_owned).collect()),
        None if launch.uid == own_uid && far.uid == own_uid => Ok(without_terminal(&far.words)),
        None => {
            let (launcher, host) = (launch.command.clone(), far.host.clone());
            Err(Error::AnothersWay { launcher, host, uid: far.uid, own_uid })
        }
    });
    let mut commands = ways.collect::<Result<Vec<Vec<String>>, Error>>()?;
    commands.extend((!launched.comes_back()).then(Vec::new));
    Ok(Starter::Each { commands })
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
    use trimtab_track::{Far, Launch};
    use trimtab_types::Pid;

    fn launched(uid: u32, host: &str) -> Spread {
        let words = ["/usr/bin/ssh", "-n", "-x", host].map(str::to_owned).to_vec();
        let far = vec![Far { host: host.to_owned(), words, uid }];
        let (launcher, command) = (Pid(7), "mpirun".to_owned());
        let launch = Launch { launcher, command, start_time_ticks: 11, uid, far, mark: Some("head:1".to_owned()) };
        Spread::Launch(Launched::from_launch(launch).expect("it has a mark"))
    }

    #[test]
    fn agents_go_the_launchers_way_if_it_is_ones_own() {
        let own_uid = ProcFs::new().status(ProcFs::new().own_pid()).expect("it runs").uids[1];
        let ssh = |host: &str| ["/usr/bin/ssh", "-o", "BatchMode=yes", "-x", host].map(str::to_owned).to_vec();
        // Only an address of this machine comes back.
        for (host, commands) in
            [("127.0.0.1", vec![ssh("127.0.0.1")]), ("192.0.2.1", vec![ssh("192.0.2.1"), Vec::new()])]
        {
            let spread = launched(own_uid, host);
            let Starter::Each { commands: found } = Starter::of(&spread).expect("it is our own") else {
                panic!("a command each")
            };
            assert_eq!(found, commands);
            assert_eq!(spread.nodes().len(), commands.len());
        }
        let refused = Starter::of(&launched(own_uid + 1, "192.0.2.1")).expect_err("another user's");
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
}
