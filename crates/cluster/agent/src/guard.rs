//! A process beside an agent that outlives it: what a killed agent left in its ranks comes out when the lease is over.
//!
//! The agent holds a pipe to it, tells on it which processes it changes, and says there that it ends in order. If the pipe
//! ends without that word, the agent was killed. Another agent may take the ranks over meanwhile; from one that runs nothing is taken.
//!
//! Next: `undo`, which takes the probes out; `serve`, which starts this before the first probe goes in.

use crate::error::Error;
use crate::found::{asked_to_end, find};
use crate::log::Log;
use crate::talk::UndoneRank;
use crate::ticket::AgentsFor;
use crate::undo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trimtab_overlay::Timing;
use trimtab_types::{Pid, notice, one_line};

/// The hidden command of the program that runs [`guard`].
pub const COMMAND: &str = "guard";
/// An agent that ends in order says this.
const IN_ORDER: u8 = b'.';
/// Before each further process: its number and its start follow, as many bytes as `ONE_BYTES`.
const ANOTHER: u8 = b'+';
const ONE_BYTES: usize = 12;
/// Longest message to a guard, in bytes: a line for each process of a node.
const CHARGE_BYTES_MAX: u32 = 1 << 20;
/// Attempts to take probes out, and the time between two.
const TRIES_MAX: usize = 5;
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A guard's orders, told at its beginning.
#[derive(Debug, Serialize, Deserialize)]
struct Charge {
    /// The command whose agent it stands beside, for the log.
    command: String,
    /// Processes and their starts, in clock ticks after boot.
    ranks: Vec<(i32, u64)>,
}

/// A guard that stands beside this agent.
#[derive(Debug)]
pub(crate) struct Guard {
    pipe: Mutex<ChildStdin>,
    child: Mutex<Child>,
}

impl Guard {
    /// Starts one for a command, which has changed no process yet.
    pub(crate) fn start(command: &str) -> std::io::Result<Guard> {
        let charge = postcard::to_allocvec(&Charge { command: command.to_owned(), ranks: Vec::new() });
        let charge = charge.map_err(|_| std::io::Error::from(ErrorKind::InvalidData))?;
        // Its own file may be gone by now; and a signal to the agent's group is not for its guard.
        let mut program = Command::new("/proc/self/exe");
        program.arg0("trimtab").arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = program.spawn()?;
        let Some(mut pipe) = child.stdin.take() else { return Err(ErrorKind::BrokenPipe.into()) };
        pipe.write_all(&(charge.len() as u32).to_le_bytes())?;
        pipe.write_all(&charge)?;
        Ok(Guard { pipe: Mutex::new(pipe), child: Mutex::new(child) })
    }

    /// Before a process is changed.
    pub(crate) fn watch(&self, pid: Pid) {
        let Some(start) = trimtab_os::start_time_ticks(pid) else { return };
        // One that was killed needs to hear nothing.
        let _gone = self.say(&another(pid, start));
    }

    /// Nothing is left in any rank: it is not needed any more.
    pub(crate) fn dismiss(&self) {
        let _gone = self.say(&[IN_ORDER]);
        let _gone = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }

    /// At once, since several threads speak.
    fn say(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }
}

fn another(pid: Pid, start: u64) -> Vec<u8> {
    [&[ANOTHER][..], &pid.0.to_le_bytes(), &start.to_le_bytes()].concat()
}

/// Stands beside an agent that holds the other end of `agent`, until that ends; takes out what it left, and says so in
/// `log`.
///
/// # Errors
/// When what the agent says can't be read.
pub fn guard(agent: &mut impl Read, log: Log) -> Result<(), Error> {
    // A signal that asks the agent to end is in vain here: as long as it lives there is something to guard.
    let _ignored = asked_to_end()?;
    let mut charge = read_charge(agent)?;
    if ends_in_order(agent, &mut charge) {
        return Ok(());
    }
    std::thread::sleep(Duration::from_micros(Timing::default().lease_us));
    for attempt in 1..=TRIES_MAX {
        let problems = take_out(&charge, log);
        if problems.is_empty() {
            break;
        }
        if attempt == TRIES_MAX {
            problems.iter().for_each(|problem| notice(&format!("what a killed agent left stays in: {problem}")));
        }
        std::thread::sleep(TRY_EVERY);
    }
    Ok(())
}

fn read_charge(agent: &mut impl Read) -> Result<Charge, Error> {
    let malformed = || Error::Malformed { what: "what a guard is told" };
    let mut length = [0; 4];
    agent.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > CHARGE_BYTES_MAX {
        return Err(malformed());
    }
    let mut bytes = vec![0; length as usize];
    agent.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(|_| malformed())
}

/// Hears which processes are changed, and waits for the agent's last word, or for its end without one.
fn ends_in_order(agent: &mut impl Read, charge: &mut Charge) -> bool {
    let (mut word, mut one) = ([0], [0; ONE_BYTES]);
    loop {
        match agent.read(&mut word) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(1) if word == [ANOTHER] && agent.read_exact(&mut one).is_ok() => {
                let (pid, start) = one.split_at(4);
                let pid = i32::from_le_bytes(pid.try_into().unwrap_or_default());
                charge.ranks.push((pid, u64::from_le_bytes(start.try_into().unwrap_or_default())));
            }
            other => return matches!(other, Ok(1)) && word == [IN_ORDER],
        }
    }
}

/// Takes out what is in processes that still run; why some of it could not be.
fn take_out(charge: &Charge, log: Log) -> Vec<String> {
    let runs = |(pid, start): &&(i32, u64)| trimtab_os::runs_since(Pid(*pid), *start);
    let mut pids: BTreeSet<i32> = charge.ranks.iter().filter(runs).map(|(pid, _)| *pid).collect();
    let mut problems = Vec::new();
    // Those of one job together; a process that waits may be of another.
    while let Some(first) = pids.pop_first() {
        let undone = find(&AgentsFor::Processes(vec![first])).map_err(|(reason, _)| reason).and_then(|mut job| {
            job.ranks.retain(|process| process.pid.0 == first || pids.contains(&process.pid.0));
            pids.retain(|pid| job.ranks.iter().all(|process| process.pid.0 != *pid));
            undo::all(&job, &charge.command, log).map_err(|error| one_line(&*error))
        });
        let problem = |rank: &UndoneRank| Some(format!("rank {}: {}", rank.rank, rank.problem.as_ref()?));
        match undone {
            Ok(ranks) => problems.extend(ranks.iter().filter_map(problem)),
            Err(reason) => problems.push(reason),
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(charge: &Charge, last: &[u8]) -> Vec<u8> {
        let bytes = postcard::to_allocvec(charge).expect("is encoded");
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes, last].concat()
    }

    #[test]
    fn an_end_in_order_is_told_from_a_kill() {
        let charge = Charge { command: "attach".into(), ranks: vec![(7, 99)] };
        for (last, in_order) in [(&b"."[..], true), (b"", false), (b"x", false)] {
            let bytes = told(&charge, last);
            let mut agent = &bytes[..];
            let read = read_charge(&mut agent).expect("is read");
            assert_eq!((read.command.as_str(), &read.ranks[..]), ("attach", &[(7, 99)][..]));
            assert_eq!(ends_in_order(&mut agent, &mut Charge { ranks: Vec::new(), ..read }), in_order, "{last:?}");
        }
    }

    #[test]
    fn processes_that_are_changed_later_are_guarded_too() {
        let more = [another(Pid(8), 5), another(Pid(9), u64::MAX)].concat();
        let ranks = vec![(7, 99), (8, 5), (9, u64::MAX)];
        for (name, last, in_order) in [("dismissed", &b"."[..], true), ("killed", b"", false), ("half", b"+abc", false)]
        {
            let mut charge = Charge { command: "attach".into(), ranks: vec![(7, 99)] };
            let bytes = [&more, last].concat();
            assert_eq!(ends_in_order(&mut &bytes[..], &mut charge), in_order, "{name}");
            assert_eq!(charge.ranks, ranks, "{name}");
        }
    }

    #[test]
    fn what_is_no_charge_is_refused() {
        for bytes in [&b""[..], &[255; 4], &[2, 0, 0, 0, 255, 255], &[9, 0, 0, 0, 1]] {
            assert!(read_charge(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn processes_that_are_gone_need_nothing() {
        let own = std::process::id() as i32;
        let charge = Charge { command: "attach".into(), ranks: vec![(own, 1), (i32::MAX, 5)] };
        assert_eq!(
            take_out(&charge, &crate::log::tests::Nothing),
            [""; 0],
            "a later process of the same number is not touched"
        );
    }
}
