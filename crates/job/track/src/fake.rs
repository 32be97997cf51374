//! The twin of `/proc` in memory: tests, and recordings of other machines, ask it the same questions.
//!
//! ```
//! use trimtab_track::fake::Recorded;
//! use trimtab_types::Pid;
//!
//! let mut machine = Recorded { own: Pid(1), ..Recorded::default() };
//! machine.add(Pid(1), Pid(0), "init");
//! machine.add(Pid(10), Pid(1), "mpiexec.hydra");
//! machine.add(Pid(11), Pid(10), "app").mpi("/usr/lib/libmpich.so.12", &["PMI_RANK=0", "PMI_SIZE=1"]);
//! let job = trimtab_track::find_job_in(&machine, Pid(10), &|_| false).unwrap();
//! assert_eq!(job.ranks.len(), 1);
//! ```

use crate::error::{Denial, Error};
use crate::procfs::{ElfKind, Processes};
use crate::status::{Seccomp, Status};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trimtab_mpi::Start;
use trimtab_types::Pid;
use trimtab_types::procfs::{Mapping, Stat, State};

/// A machine's processes as they once were.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The processes.
    pub processes: BTreeMap<Pid, RecordedProcess>,
    /// Name of the machine.
    pub host: String,
    /// Which of them asks.
    pub own: Pid,
    /// Yama's restriction.
    pub ptrace_scope: Option<u8>,
}

/// One process of a recording.
#[derive(Clone, Debug)]
pub struct RecordedProcess {
    /// `/proc/PID/stat`
    pub stat: Stat,
    /// `/proc/PID/status`
    pub status: Status,
    /// `/proc/PID/environ`
    pub environment: Vec<u8>,
    /// The same as the process has changed it since; `None`: that can't be told.
    pub environment_now: Option<Vec<u8>>,
    /// `/proc/PID/maps`
    pub maps: Vec<Mapping>,
    /// `/proc/PID/exe`
    pub executable: PathBuf,
    /// The header of that file.
    pub elf_kind: ElfKind,
    /// `/proc/PID/cmdline`
    pub arguments: Vec<String>,
    /// `/proc/PID/cwd`
    pub directory: PathBuf,
    /// `/proc/PID/ns`
    pub namespaces: BTreeMap<String, String>,
    /// `/proc/PID/cgroup`
    pub control_group: String,
    /// Data objects of its program, by name.
    pub symbols: BTreeMap<String, u64>,
    /// Parts of its memory, by address.
    pub memory: BTreeMap<u64, Vec<u8>>,
    /// How far it is with `MPI_Init`, if that can be told.
    pub start: Option<Start>,
    /// True if it asks for a function that begins MPI.
    pub asks_for_mpi: bool,
    /// True if its map and environment may not be read.
    pub hidden: bool,
}

impl Recorded {
    /// Adds a sleeping process of user 1000 that has nothing to do with MPI, and returns it for further changes.
    pub fn add(&mut self, pid: Pid, parent: Pid, command: &str) -> &mut RecordedProcess {
        let process = RecordedProcess::new(pid, parent, command);
        self.processes.entry(pid).insert_entry(process).into_mut()
    }

    fn get(&self, pid: Pid) -> Result<&RecordedProcess, Error> {
        self.processes.get(&pid).ok_or(Error::NoSuchProcess { pid })
    }

    fn shown(&self, pid: Pid) -> Result<&RecordedProcess, Error> {
        let process = self.get(pid)?;
        let denial = Denial::Hidden { path: PathBuf::from(format!("/proc/{pid}/maps")), is_root: false };
        let refused = Error::NotPermitted { pid, command: process.stat.command.clone(), denial };
        if process.hidden { Err(refused) } else { Ok(process) }
    }
}

impl RecordedProcess {
    fn new(pid: Pid, parent: Pid, command: &str) -> RecordedProcess {
        let executable = PathBuf::from(format!("/usr/bin/{command}"));
        RecordedProcess {
            stat: Stat {
                pid,
                command: command.to_owned(),
                state: State::Sleeping,
                parent,
                is_ending: false,
                cpu_ticks: 0,
                threads: 1,
                start_time_ticks: 100 + u64::from(pid.0.unsigned_abs()),
                stack_start: 0,
                last_cpu: 0,
            },
            status: Status {
                process: pid,
                tracer: None,
                uids: [1000; 4],
                gids: [1000; 4],
                capabilities: 0,
                seccomp: Seccomp::Off,
                shadow_stack: false,
                cpus_allowed: "0-1".to_owned(),
                namespace_pids: vec![pid.0],
            },
            environment: Vec::new(),
            environment_now: None,
            maps: vec![file_mapping(0x40_0000, &executable.to_string_lossy())],
            arguments: vec![command.to_owned()],
            elf_kind: ElfKind::X86_64,
            directory: PathBuf::from("/tmp"),
            namespaces: BTreeMap::new(),
            control_group: String::new(),
            symbols: BTreeMap::new(),
            memory: BTreeMap::new(),
            start: None,
            asks_for_mpi: false,
            hidden: false,
            executable,
        }
    }

    /// Makes it a program with this library mapped and these variables set.
    pub fn mpi(&mut self, library: &str, environment: &[&str]) -> &mut RecordedProcess {
        self.maps.push(file_mapping(0x7000_0000_0000, library));
        self.variables(environment)
    }

    /// Sets how far it is with `MPI_Init`, and whether it asks for that.
    pub fn at(&mut self, start: Start, asks_for_mpi: bool) -> &mut RecordedProcess {
        (self.start, self.asks_for_mpi) = (Some(start), asks_for_mpi);
        self
    }

    /// Sets its environment.
    pub fn variables(&mut self, environment: &[&str]) -> &mut RecordedProcess {
        self.environment = environment.iter().flat_map(|variable| variable.bytes().chain([0])).collect();
        self
    }
}

fn file_mapping(start: u64, path: &str) -> Mapping {
    Mapping {
        start,
        end: start + 0x1000,
        readable: true,
        executable: true,
        device: (8, 1),
        inode: 1,
        path: path.to_owned(),
        ..Mapping::default()
    }
}

impl Processes for Recorded {
    fn pids(&self) -> Result<Vec<Pid>, Error> {
        Ok(self.processes.keys().copied().collect())
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn own_pid(&self) -> Pid {
        self.own
    }

    fn stat(&self, pid: Pid) -> Result<Stat, Error> {
        Ok(self.get(pid)?.stat.clone())
    }

    fn status(&self, pid: Pid) -> Result<Status, Error> {
        Ok(self.get(pid)?.status.clone())
    }

    fn environment(&self, pid: Pid) -> Result<Vec<u8>, Error> {
        Ok(self.shown(pid)?.environment.clone())
    }

    fn environment_now(&self, pid: Pid) -> Option<Vec<u8>> {
        self.shown(pid).ok()?.environment_now.clone()
    }

    fn maps(&self, pid: Pid) -> Result<Vec<Mapping>, Error> {
        Ok(self.shown(pid)?.maps.clone())
    }

    fn executable(&self, pid: Pid) -> Result<PathBuf, Error> {
        Ok(self.shown(pid)?.executable.clone())
    }

    fn elf_kind(&self, pid: Pid) -> Result<ElfKind, Error> {
        Ok(self.shown(pid)?.elf_kind)
    }

    fn arguments(&self, pid: Pid) -> Result<Vec<String>, Error> {
        Ok(self.get(pid)?.arguments.clone())
    }

    fn directory(&self, pid: Pid) -> Result<PathBuf, Error> {
        Ok(self.shown(pid)?.directory.clone())
    }

    fn namespaces(&self, pid: Pid) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.shown(pid)?.namespaces.clone())
    }

    fn control_group(&self, pid: Pid) -> Result<String, Error> {
        Ok(self.get(pid)?.control_group.clone())
    }

    fn memory(&self, pid: Pid, address: u64, length: usize) -> Result<Vec<u8>, Error> {
        let process = self.shown(pid)?;
        let part = process.memory.range(..=address).next_back();
        let bytes = part.and_then(|(start, bytes)| bytes.get((address - start) as usize..)?.get(..length));
        let missing = || Error::Malformed { path: format!("/proc/{pid}/mem").into(), text: format!("{address:#x}") };
        bytes.map(<[u8]>::to_vec).ok_or_else(missing)
    }

    fn data_symbol(&self, pid: Pid, name: &str) -> Option<u64> {
        self.shown(pid).ok()?.symbols.get(name).copied()
    }

    fn start(&self, pid: Pid, _maps: &[Mapping]) -> Option<Start> {
        self.shown(pid).ok()?.start
    }

    fn asks_for_mpi(&self, pid: Pid, _maps: &[Mapping], _preloaded: &[String]) -> bool {
        self.shown(pid).is_ok_and(|process| process.asks_for_mpi)
    }

    fn ptrace_scope(&self) -> Option<u8> {
        self.ptrace_scope
    }
}
