//! Processes at one moment: what is asked of one again and again is read once.
//!
//! A process's job shows in its ancestors, and all processes share a few; a look at a whole machine would read those
//! once for each. Errors are not kept: a process that could not be read is asked again.
//!
//! Next: `origin`, which climbs from a process to its launcher.

use crate::procfs::{ElfKind, Processes};
use crate::{Error, Stat, Status};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trimtab_mpi::Start;
use trimtab_types::Pid;
use trimtab_types::procfs::Mapping;

/// Processes whose state, program and environment are read at most once. It grows with what is asked: make one for one
/// look, and drop it.
pub struct Remembered<'a> {
    processes: &'a dyn Processes,
    stats: RefCell<BTreeMap<Pid, Stat>>,
    executables: RefCell<BTreeMap<Pid, PathBuf>>,
    /// Of one process only: an environment may be large, and questions about one come together.
    environment: RefCell<Option<(Pid, Vec<u8>)>>,
}

impl<'a> Remembered<'a> {
    /// Nothing is read yet.
    pub fn new(processes: &'a dyn Processes) -> Remembered<'a> {
        Remembered {
            processes,
            stats: RefCell::default(),
            executables: RefCell::default(),
            environment: RefCell::default(),
        }
    }
}

/// The value kept under `pid`, read first if it is not there.
fn once<T: Clone>(
    kept: &RefCell<BTreeMap<Pid, T>>,
    pid: Pid,
    read: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if let Some(known) = kept.borrow().get(&pid) {
        return Ok(known.clone());
    }
    let new = read()?;
    kept.borrow_mut().insert(pid, new.clone());
    Ok(new)
}

impl Processes for Remembered<'_> {
    fn pids(&self) -> Result<Vec<Pid>, Error> {
        self.processes.pids()
    }

    fn host(&self) -> String {
        self.processes.host()
    }

    fn own_pid(&self) -> Pid {
        self.processes.own_pid()
    }

    fn stat(&self, pid: Pid) -> Result<Stat, Error> {
        once(&self.stats, pid, || self.processes.stat(pid))
    }

    fn status(&self, pid: Pid) -> Result<Status, Error> {
        self.processes.status(pid)
    }

    fn environment(&self, pid: Pid) -> Result<Vec<u8>, Error> {
        if let Some((of, text)) = self.environment.borrow().as_ref()
            && *of == pid
        {
            return Ok(text.clone());
        }
        let text = self.processes.environment(pid)?;
        *self.environment.borrow_mut() = Some((pid, text.clone()));
        Ok(text)
    }

    fn environment_now(&self, pid: Pid) -> Option<Vec<u8>> {
        self.processes.environment_now(pid)
    }

    fn maps(&self, pid: Pid) -> Result<Vec<Mapping>, Error> {
        self.processes.maps(pid)
    }

    fn executable(&self, pid: Pid) -> Result<PathBuf, Error> {
        once(&self.executables, pid, || self.processes.executable(pid))
    }

    fn elf_kind(&self, pid: Pid) -> Result<ElfKind, Error> {
        self.processes.elf_kind(pid)
    }

    fn arguments(&self, pid: Pid) -> Result<Vec<String>, Error> {
        self.processes.arguments(pid)
    }

    fn directory(&self, pid: Pid) -> Result<PathBuf, Error> {
        self.processes.directory(pid)
    }

    fn namespaces(&self, pid: Pid) -> Result<BTreeMap<String, String>, Error> {
        self.processes.namespaces(pid)
    }

    fn control_group(&self, pid: Pid) -> Result<String, Error> {
        self.processes.control_group(pid)
    }

    fn memory(&self, pid: Pid, address: u64, length: usize) -> Result<Vec<u8>, Error> {
        self.processes.memory(pid, address, length)
    }

    fn data_symbol(&self, pid: Pid, name: &str) -> Option<u64> {
        self.processes.data_symbol(pid, name)
    }

    fn start(&self, pid: Pid, maps: &[Mapping]) -> Option<Start> {
        self.processes.start(pid, maps)
    }

    fn asks_for_mpi(&self, pid: Pid, maps: &[Mapping], preloaded: &[String]) -> bool {
        self.processes.asks_for_mpi(pid, maps, preloaded)
    }

    fn ptrace_scope(&self) -> Option<u8> {
        self.processes.ptrace_scope()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;
    use crate::origin;

    #[test]
    fn a_moment_stays_what_it_was() {
        let mut machine = Recorded { own: Pid(1), ..Recorded::default() };
        machine.add(Pid(10), Pid(1), "mpiexec.hydra");
        machine.add(Pid(11), Pid(10), "app").variables(&["PMI_RANK=0", "PMI_SIZE=2"]);
        let looked = Remembered::new(&machine);
        assert_eq!(looked.stat(Pid(11)).expect("a process").command, "app");
        assert_eq!(looked.environment(Pid(11)).expect("its own"), machine.environment(Pid(11)).expect("its own"));
        assert_ne!(looked.environment(Pid(10)).expect("its own"), machine.environment(Pid(11)).expect("its own"));
        let of_machine = origin(&machine, Pid(11)).expect("an origin");
        assert_eq!(origin(&looked, Pid(11)).expect("an origin"), of_machine);
        assert!(looked.stat(Pid(12)).is_err(), "nobody");
        let kept = looked.stats.borrow().len();
        assert!(kept >= 2 && !looked.stats.borrow().contains_key(&Pid(12)), "{kept}");
    }
}
