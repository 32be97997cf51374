//! One look at a machine: its counters, and every process with its processor time and whose it is.
//!
//! The owner of a process costs more to find out than all the rest, so it is kept from look to look for as long as the
//! process runs the same program.
//!
//! Next: `share`, which compares two looks; `whose` for the question itself.

use crate::counters::Counters;
use crate::whose::{Own, Ownership};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;
use trimtab_track::{ProcFs, Processes, Remembered};
use trimtab_types::Pid;

/// Looks in which a new process may still become a rank: a launcher's child has its environment only after its exec.
const YOUNG_LOOKS: u8 = 5;

/// The name of a job of Slurm's begins with this; its number follows, so it is one name on all machines.
pub const SLURM_JOB: &str = "Slurm job ";

/// Where a machine's facts are read.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) proc: PathBuf,
    pub(crate) system: PathBuf,
    pub(crate) groups: PathBuf,
}

/// A process at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub start_ticks: u64,
    pub command: String,
    pub cpu_ticks: u64,
    pub last_cpu: u32,
    pub uid: u32,
    pub whose: Ownership,
    pub has_rank: bool,
}

/// A machine at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    pub(crate) at: Instant,
    pub(crate) counters: Counters,
    pub(crate) processes: BTreeMap<Pid, Seen>,
}

/// Other jobs on a machine, and what is known of its processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobsSeen {
    known: BTreeMap<Pid, Known>,
}

/// A process that was looked at.
#[derive(Clone, Debug)]
struct Known {
    start_ticks: u64,
    command: String,
    whose: Ownership,
    looks: u8,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            proc: PathBuf::from("/proc"),
            system: PathBuf::from("/sys/devices/system"),
            groups: PathBuf::from("/sys/fs/cgroup"),
        }
    }
}

impl Machine {
    /// Its counters now.
    pub fn counters(&self) -> Counters {
        let text = |name: &str| std::fs::read_to_string(self.proc.join(name)).ok();
        let (stat, pressure, load) = (text("stat"), text("pressure/cpu"), text("loadavg"));
        Counters::parse(stat.as_deref(), pressure.as_deref(), load.as_deref())
    }

    /// Everything now; `before` is an earlier look, from which whose processes are is taken.
    pub(crate) fn look(&self, processes: &dyn Processes, own: &Own, before: Option<&Look>) -> Look {
        let processes = &Remembered::new(processes);
        let pids = processes.pids().unwrap_or_default();
        // A process that ends meanwhile is not there.
        let seen = |pid: Pid| Some((pid, see(processes, own, pid, before.and_then(|look| look.processes.get(&pid)))?));
        let processes = pids.into_iter().filter_map(seen).collect();
        Look { at: Instant::now(), counters: self.counters(), processes }
    }
}

/// The other jobs on this machine, look by look: only processes that are new are looked at.
#[derive(Debug)]
pub struct OtherJobs {
    own: Own,
    seen: JobsSeen,
}

impl OtherJobs {
    /// All but our own.
    pub fn new(own: Own) -> OtherJobs {
        OtherJobs { own, seen: JobsSeen::default() }
    }

    /// Those that are there now, each with the short name of one of its programs.
    pub fn now(&mut self) -> BTreeMap<String, String> {
        self.seen = jobs(&ProcFs::new(), &self.own, std::mem::take(&mut self.seen));
        self.seen.jobs()
    }
}

impl JobsSeen {
    /// The jobs, each with the short name of one of its programs.
    fn jobs(&self) -> BTreeMap<String, String> {
        let job = |known: &Known| match &known.whose {
            Ownership::Slurm { step } => Some(format!("{SLURM_JOB}{}", step.split('.').next().unwrap_or(step))),
            Ownership::Mpi { launcher } => Some(format!("MPI job of process {launcher}")),
            Ownership::Own | Ownership::Kernel | Ownership::User { .. } => None,
        };
        self.known.values().filter_map(|known| Some((job(known)?, known.command.clone()))).collect()
    }
}

fn jobs(processes: &dyn Processes, own: &Own, mut before: JobsSeen) -> JobsSeen {
    let processes = &Remembered::new(processes);
    let pids: BTreeSet<Pid> = processes.pids().unwrap_or_default().into_iter().collect();
    before.known.retain(|pid, known| pids.contains(pid) && !has_gone(processes, *pid, known));
    for pid in pids {
        let known = before.known.get(&pid);
        let looks = known.map_or(0, |known| known.looks);
        if looks >= YOUNG_LOOKS || known.is_some_and(|known| is_job(&known.whose)) {
            continue;
        }
        if let Some(seen) = see(processes, own, pid, None) {
            let Seen { start_ticks, command, whose, .. } = seen;
            before.known.insert(pid, Known { start_ticks, command, whose, looks: looks + 1 });
        }
    }
    before
}

/// True if a job's process is there no more: its number may be another one's, or it has ended and nobody has asked.
fn has_gone(processes: &dyn Processes, pid: Pid, known: &Known) -> bool {
    is_job(&known.whose) && !processes.stat(pid).is_ok_and(|stat| stat.runs_since(known.start_ticks))
}

fn is_job(whose: &Ownership) -> bool {
    matches!(whose, Ownership::Slurm { .. } | Ownership::Mpi { .. })
}

fn see(processes: &dyn Processes, own: &Own, pid: Pid, before: Option<&Seen>) -> Option<Seen> {
    let stat = processes.stat(pid).ok().filter(|stat| !stat.state.has_ended())?;
    let same = before.filter(|seen| seen.start_ticks == stat.start_time_ticks && seen.command == stat.command);
    let (whose, uid, has_rank) = match same {
        Some(seen) => (seen.whose.clone(), seen.uid, seen.has_rank),
        None if is_kernel(processes, pid, stat.parent) => (Ownership::Kernel, 0, false),
        None => {
            let uid = processes.status(pid).ok()?.uids[1];
            let has_rank = trimtab_track::origin(processes, pid).is_ok_and(|origin| origin.has_rank);
            (own.whose(processes, pid, uid), uid, has_rank)
        }
    };
    let (start_ticks, command) = (stat.start_time_ticks, stat.command);
    Some(Seen { start_ticks, command, cpu_ticks: stat.cpu_ticks, last_cpu: stat.last_cpu, uid, whose, has_rank })
}

/// The kernel's threads are children of the second process there is, if that can be seen from here.
fn is_kernel(processes: &dyn Processes, pid: Pid, parent: Pid) -> bool {
    const KTHREADD: Pid = Pid(2);
    (pid == KTHREADD || parent == KTHREADD) && processes.stat(KTHREADD).is_ok_and(|stat| stat.command == "kthreadd")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_track::fake::Recorded;

    fn launch(machine: &mut Recorded, first: i32) {
        machine.add(Pid(first), Pid(1), "mpiexec.hydra");
        machine.add(Pid(first + 1), Pid(first), "hydra_pmi_proxy");
        machine.add(Pid(first + 2), Pid(first + 1), "hydra_pmi_proxy");
    }

    fn exec(machine: &mut Recorded, pid: i32) {
        machine.processes.get_mut(&Pid(pid)).expect("a process").stat.command = "app".to_owned();
        machine.processes.get_mut(&Pid(pid)).expect("a process").variables(&["PMI_RANK=0", "PMI_SIZE=1"]);
    }

    #[test]
    fn jobs_come_and_go() {
        let mut machine = Recorded { own: Pid(9), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        launch(&mut machine, 10);
        exec(&mut machine, 12);
        let own = Own::of(&machine, &[Pid(12)], Some(Pid(10)));
        let seen = jobs(&machine, &own, JobsSeen::default());
        assert!(seen.jobs().is_empty(), "{seen:?}");
        launch(&mut machine, 20);
        let seen = jobs(&machine, &own, seen);
        assert!(seen.jobs().is_empty(), "its rank has not begun: {seen:?}");
        exec(&mut machine, 22);
        let seen = jobs(&machine, &own, seen);
        let expected = BTreeMap::from([("MPI job of process 21".to_owned(), "app".to_owned())]);
        assert_eq!(seen.jobs(), expected);
        let seen = jobs(&machine, &own, seen);
        assert_eq!(seen.jobs(), expected, "as before");
        machine.processes.remove(&Pid(22));
        assert!(jobs(&machine, &own, seen).jobs().is_empty(), "it has ended");
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut machine = Recorded { own: Pid(9), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        launch(&mut machine, 20);
        exec(&mut machine, 22);
        let seen = jobs(&machine, &Own::default(), JobsSeen::default());
        assert_eq!(seen.jobs().len(), 1);
        machine.add(Pid(22), Pid(1), "sh").stat.start_time_ticks += 7;
        assert!(jobs(&machine, &Own::default(), seen).jobs().is_empty());
    }

    #[test]
    fn the_kernels_threads_are_the_kernels() {
        let mut machine = Recorded { own: Pid(9), ..Recorded::default() };
        machine.add(Pid(2), Pid(0), "kthreadd");
        machine.add(Pid(7), Pid(2), "kworker/0:1");
        machine.add(Pid(8), Pid(1), "sh");
        let look = Machine::default().look(&machine, &Own::default(), None);
        let whose = |pid| look.processes[&Pid(pid)].whose.clone();
        assert_eq!((whose(7), whose(8)), (Ownership::Kernel, Ownership::User { uid: 1000 }));
    }
}
