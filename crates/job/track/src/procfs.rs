//! The one place that reads `/proc`: whole small files, turned into facts by pure parsers.

use crate::error::{Denial, Error};
use crate::status::{Status, parse_status};
use crate::{environment, start};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_mpi::Start;
use trimtab_symbols::Image;
use trimtab_types::Pid;
use trimtab_types::procfs::{self, Mapping, Stat, parse_maps, parse_stat};

/// Where facts about processes come from.
///
/// Every method that takes a pid fails with [`Error::NoSuchProcess`] when the process is gone, with
/// [`Error::NotPermitted`] when it may not be looked at, and with [`Error::Read`] or [`Error::Malformed`] otherwise.
pub trait Processes {
    /// All processes, in rising order.
    ///
    /// # Errors
    /// The list can't be read.
    fn pids(&self) -> Result<Vec<Pid>, Error>;

    /// Name of this machine.
    fn host(&self) -> String;

    /// Our own process.
    fn own_pid(&self) -> Pid;

    /// Parent, state, start.
    ///
    /// # Errors
    /// See [`Processes`].
    fn stat(&self, pid: Pid) -> Result<Stat, Error>;

    /// Users, tracer, restrictions.
    ///
    /// # Errors
    /// See [`Processes`].
    fn status(&self, pid: Pid) -> Result<Status, Error>;

    /// The initial environment: `NAME=value`, each ended by a zero byte.
    ///
    /// # Errors
    /// See [`Processes`].
    fn environment(&self, pid: Pid) -> Result<Vec<u8>, Error>;

    /// The environment as it is now, in the same form; `None` if that can't be told.
    fn environment_now(&self, pid: Pid) -> Option<Vec<u8>>;

    /// Its mappings.
    ///
    /// # Errors
    /// See [`Processes`].
    fn maps(&self, pid: Pid) -> Result<Vec<Mapping>, Error>;

    /// The program that runs.
    ///
    /// # Errors
    /// See [`Processes`].
    fn executable(&self, pid: Pid) -> Result<PathBuf, Error>;

    /// The kind of machine that the program is for.
    ///
    /// # Errors
    /// See [`Processes`].
    fn elf_kind(&self, pid: Pid) -> Result<ElfKind, Error>;

    /// The program's arguments, its own name first.
    ///
    /// # Errors
    /// See [`Processes`].
    fn arguments(&self, pid: Pid) -> Result<Vec<String>, Error>;

    /// The working directory.
    ///
    /// # Errors
    /// See [`Processes`].
    fn directory(&self, pid: Pid) -> Result<PathBuf, Error>;

    /// Name and identity of each namespace the process is in (`pid` and `pid:[4026531836]`).
    ///
    /// # Errors
    /// See [`Processes`].
    fn namespaces(&self, pid: Pid) -> Result<BTreeMap<String, String>, Error>;

    /// The control groups the process is in, as the kernel writes them.
    ///
    /// # Errors
    /// See [`Processes`].
    fn control_group(&self, pid: Pid) -> Result<String, Error>;

    /// Some of its memory, all of it or nothing.
    ///
    /// # Errors
    /// See [`Processes`].
    fn memory(&self, pid: Pid, address: u64, length: usize) -> Result<Vec<u8>, Error>;

    /// Where a data object of its program lies in its memory; `None` if there is none of that name.
    fn data_symbol(&self, pid: Pid, name: &str) -> Option<u64>;

    /// How far a process with these mappings is with `MPI_Init`; `None` if that can't be told.
    fn start(&self, pid: Pid, maps: &[Mapping]) -> Option<Start>;

    /// True if its program, or a library that was not `preloaded`, asks for a function that begins MPI.
    fn asks_for_mpi(&self, pid: Pid, maps: &[Mapping], preloaded: &[String]) -> bool;

    /// Yama's restriction of tracing; `None` where the kernel has no Yama.
    fn ptrace_scope(&self) -> Option<u8>;
}

/// The kind of machine that a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElfKind {
    /// 64-bit x86.
    X86_64,
    /// Any 32-bit program, the x32 form of x86-64 included.
    Bits32,
    /// 64 bits, but another processor.
    OtherMachine,
    /// Not an ELF file.
    NotElf,
}

impl ElfKind {
    /// From the first 20 bytes of the file.
    pub fn from_header(header: &[u8]) -> ElfKind {
        const X86_64: [u8; 2] = [62, 0];
        match (header.starts_with(b"\x7fELF"), header.get(4), header.get(18..20)) {
            (true, Some(1), _) => ElfKind::Bits32,
            (true, Some(2), Some(machine)) if machine == X86_64 => ElfKind::X86_64,
            (true, Some(2), Some(_)) => ElfKind::OtherMachine,
            _ => ElfKind::NotElf,
        }
    }
}

/// A process that a daemon has just given to its user is hidden until it executes the user's program: looks at it again, and the
/// time between them.
const EXECUTES_TRIES: u32 = 3;
const EXECUTES_REST: Duration = Duration::from_millis(2);

/// The processes of this machine, as `/proc` shows them.
#[derive(Clone, Debug)]
pub struct ProcFs {
    root: PathBuf,
}

impl ProcFs {
    /// Reads `/proc`.
    pub fn new() -> ProcFs {
        ProcFs { root: PathBuf::from("/proc") }
    }

    fn path(&self, pid: Pid, file: &str) -> PathBuf {
        self.root.join(pid.0.to_string()).join(file)
    }

    fn read(&self, pid: Pid, file: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(pid, file);
        File::open(&path).and_then(procfs::read_all).map_err(|source| self.classify(pid, path, source))
    }

    fn link(&self, pid: Pid, file: &str) -> Result<PathBuf, Error> {
        let path = self.path(pid, file);
        std::fs::read_link(&path).map_err(|source| self.classify(pid, path, source))
    }

    /// The meaning of a failed read for the process.
    fn classify(&self, pid: Pid, path: PathBuf, source: std::io::Error) -> Error {
        const ESRCH: i32 = 3;
        let gone = source.kind() == ErrorKind::NotFound || source.raw_os_error() == Some(ESRCH);
        if gone {
            return Error::NoSuchProcess { pid };
        }
        if source.kind() != ErrorKind::PermissionDenied {
            return Error::Read { path, source };
        }
        let command = self.stat(pid).map(|stat| stat.command).unwrap_or_default();
        Error::NotPermitted { pid, command, denial: self.denial(pid, path) }
    }

    fn denial(&self, pid: Pid, path: PathBuf) -> Denial {
        let (Ok(theirs), Ok(own)) = (self.status(pid), self.status(self.own_pid())) else {
            return Denial::Hidden { path, is_root: false };
        };
        denial_of(&theirs, &own, path)
    }
}

/// Why `own` may not read a file of `theirs`.
fn denial_of(theirs: &Status, own: &Status, path: PathBuf) -> Denial {
    let (own_uid, lacking) = (own.uids[1], theirs.capabilities & !own.capabilities);
    match theirs.uids.iter().all(|uid| *uid == own_uid) {
        false => Denial::OtherUser { uid: theirs.uids[1], own_uid },
        true if lacking != 0 => Denial::MoreRights { lacking, is_root: own_uid == 0 },
        true => Denial::Hidden { path, is_root: own_uid == 0 },
    }
}

impl Default for ProcFs {
    fn default() -> ProcFs {
        ProcFs::new()
    }
}

impl Processes for ProcFs {
    fn pids(&self) -> Result<Vec<Pid>, Error> {
        let failed = |source| Error::Read { path: self.root.clone(), source };
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            pids.extend(name.to_str().and_then(|name| name.parse().ok()).map(Pid));
        }
        pids.sort_unstable();
        Ok(pids)
    }

    fn host(&self) -> String {
        let path = self.root.join("sys/kernel/hostname");
        std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    fn own_pid(&self) -> Pid {
        Pid(i32::try_from(std::process::id()).unwrap_or(i32::MAX))
    }

    fn stat(&self, pid: Pid) -> Result<Stat, Error> {
        // World-readable, so a refusal can't lead back here through `classify`.
        let bytes = self.read(pid, "stat")?;
        parse_stat(&bytes).ok_or_else(|| malformed(self.path(pid, "stat"), &bytes))
    }

    fn status(&self, pid: Pid) -> Result<Status, Error> {
        let bytes = self.read(pid, "status")?;
        parse_status(&bytes).ok_or_else(|| malformed(self.path(pid, "status"), &bytes))
    }

    fn environment(&self, pid: Pid) -> Result<Vec<u8>, Error> {
        for _ in 0..EXECUTES_TRIES {
            match self.read(pid, "environ") {
                Err(Error::NotPermitted { denial: Denial::Hidden { .. }, .. }) => std::thread::sleep(EXECUTES_REST),
                found => return found,
            }
        }
        self.read(pid, "environ")
    }

    fn environment_now(&self, pid: Pid) -> Option<Vec<u8>> {
        let memory = File::open(self.path(pid, "mem")).ok()?;
        environment::environment_now(&|address, length| read_at(&memory, address.0, length), &self.maps(pid).ok()?)
    }

    fn maps(&self, pid: Pid) -> Result<Vec<Mapping>, Error> {
        let bytes = self.read(pid, "maps")?;
        parse_maps(&bytes).map_err(|error| Error::Malformed { path: self.path(pid, "maps"), text: error.line })
    }

    fn executable(&self, pid: Pid) -> Result<PathBuf, Error> {
        self.link(pid, "exe")
    }

    fn elf_kind(&self, pid: Pid) -> Result<ElfKind, Error> {
        let path = self.path(pid, "exe");
        let mut header = Vec::with_capacity(20);
        let opened = File::open(&path).and_then(|file| file.take(20).read_to_end(&mut header));
        opened.map_err(|source| self.classify(pid, path, source))?;
        Ok(ElfKind::from_header(&header))
    }

    fn arguments(&self, pid: Pid) -> Result<Vec<String>, Error> {
        let bytes = self.read(pid, "cmdline")?;
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        Ok(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    fn directory(&self, pid: Pid) -> Result<PathBuf, Error> {
        self.link(pid, "cwd")
    }

    fn namespaces(&self, pid: Pid) -> Result<BTreeMap<String, String>, Error> {
        let mut namespaces = BTreeMap::new();
        for name in NAMESPACES {
            match self.link(pid, &format!("ns/{name}")) {
                Ok(identity) => namespaces.insert((*name).to_owned(), identity.to_string_lossy().into_owned()),
                Err(error) if error.is_gone() && self.path(pid, "stat").exists() => None,
                Err(error) => return Err(error),
            };
        }
        Ok(namespaces)
    }

    fn control_group(&self, pid: Pid) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.read(pid, "cgroup")?).into_owned())
    }

    fn memory(&self, pid: Pid, address: u64, length: usize) -> Result<Vec<u8>, Error> {
        let path = self.path(pid, "mem");
        let mut bytes = vec![0; length];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, address));
        read.map(|()| bytes).map_err(|source| self.classify(pid, path, source))
    }

    fn data_symbol(&self, pid: Pid, name: &str) -> Option<u64> {
        let bytes = self.read(pid, "exe").ok()?;
        let (address, _) = Image::parse(&bytes).ok()?.object_named(name)?;
        let program = self.executable(pid).ok()?;
        let maps = self.maps(pid).ok()?;
        let first = maps.iter().find(|mapping| mapping.offset == 0 && Path::new(&mapping.path) == program)?;
        // A program that can be anywhere counts its addresses from its own beginning; another one's are what they are.
        const ANYWHERE: [u8; 2] = [3, 0];
        let base = if bytes.get(16..18) == Some(&ANYWHERE) { first.start } else { 0 };
        base.checked_add(address.0)
    }

    fn start(&self, pid: Pid, maps: &[Mapping]) -> Option<Start> {
        let memory = File::open(self.path(pid, "mem")).ok()?;
        start::start(&|address, length| read_at(&memory, address.0, length), maps)
    }

    fn asks_for_mpi(&self, pid: Pid, maps: &[Mapping], preloaded: &[String]) -> bool {
        let Ok(memory) = File::open(self.path(pid, "mem")) else { return false };
        start::asks_for_mpi(&|address, length| read_at(&memory, address.0, length), maps, preloaded)
    }

    fn ptrace_scope(&self) -> Option<u8> {
        let path = self.root.join(Path::new("sys/kernel/yama/ptrace_scope"));
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// All of these bytes of a process's memory, or nothing.
fn read_at(memory: &File, address: u64, length: usize) -> Option<Vec<u8>> {
    /// More than any table of symbols.
    const BYTES_MAX: usize = 1 << 26;
    let mut bytes = vec![0; Some(length).filter(|length| *length <= BYTES_MAX)?];
    memory.read_exact_at(&mut bytes, address).ok().map(|()| bytes)
}

/// Namespaces that change what a process sees or what its numbers mean.
const NAMESPACES: &[&str] = &["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

fn malformed(path: PathBuf, bytes: &[u8]) -> Error {
    /// Enough to see what is wrong, little enough for one line.
    const SHOWN_BYTES_MAX: usize = 200;
    let shown = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
    Error::Malformed { path, text: String::from_utf8_lossy(shown).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_process_may_not_be_read_is_looked_up() {
        let status = |uid: u32, capabilities: u64| {
            let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
            let text = format!("Tgid:\t7\nUid:\t{ids}\nGid:\t{ids}\nCapEff:\t{capabilities:016x}\n");
            parse_status(text.as_bytes()).expect("a status")
        };
        for (name, theirs, own, expected) in [
            ("another user's", status(5, 0), status(6, 0), "belongs to user 5"),
            (
                "more rights",
                status(5, 1 << 24),
                status(5, 0),
                "`capsh --decode=1000000` names them); run trimtab as root",
            ),
            (
                "more than root's",
                status(0, 3),
                status(0, 1),
                "--decode=2` names them); run trimtab outside of the container",
            ),
            ("hidden", status(5, 0), status(5, 0), "hidden from its own user"),
            ("hidden from root", status(0, 1), status(0, 1), "not even by root"),
        ] {
            let why = denial_of(&theirs, &own, PathBuf::from("/proc/7/maps")).to_string();
            assert!(why.contains(expected), "{name}: {why}");
        }
    }

    #[test]
    fn programs_are_told_apart() {
        let header = |class: u8, machine: u8| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.resize(20, 0);
            bytes[4] = class;
            bytes[18] = machine;
            bytes
        };
        let cases = [
            ("x86_64", header(2, 62), ElfKind::X86_64),
            ("i386", header(1, 3), ElfKind::Bits32),
            ("x32", header(1, 62), ElfKind::Bits32),
            ("aarch64", header(2, 183), ElfKind::OtherMachine),
            ("script", b"#!/bin/sh\n".to_vec(), ElfKind::NotElf),
            ("short", b"\x7fELF".to_vec(), ElfKind::NotElf),
        ];
        for (case, bytes, kind) in cases {
            assert_eq!(ElfKind::from_header(&bytes), kind, "{case}");
        }
    }

    #[test]
    fn our_own_process_is_read() {
        let (processes, own) = (ProcFs::new(), ProcFs::new().own_pid());
        assert!(processes.pids().expect("pids").contains(&own));
        assert_eq!(processes.stat(own).expect("stat").pid, own);
        assert_eq!(processes.status(own).expect("status").process, own);
        assert_eq!(processes.executable(own).ok(), std::env::current_exe().ok());
        assert_eq!(processes.elf_kind(own).expect("kind"), ElfKind::X86_64);
        assert_eq!(processes.arguments(own).expect("arguments"), std::env::args().collect::<Vec<_>>());
        assert_eq!(processes.directory(own).ok(), std::env::current_dir().ok());
        assert!(processes.namespaces(own).expect("namespaces").contains_key("pid"));
    }

    #[test]
    fn a_missing_process_is_said_to_be_missing() {
        let none = Pid(i32::MAX);
        assert!(matches!(ProcFs::new().stat(none), Err(Error::NoSuchProcess { pid }) if pid == none));
        assert!(matches!(ProcFs::new().maps(none), Err(Error::NoSuchProcess { .. })));
        assert!(matches!(ProcFs::new().namespaces(none), Err(Error::NoSuchProcess { .. })));
    }
}
