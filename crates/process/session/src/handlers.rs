//! The fault handlers of a process: the program's own must find every instruction that may fault where it was.
//!
//! A handler that throws needs the unwind tables, one that steps over a known load compares addresses, and moved code has
//! neither. MPI libraries and gfortran's catch faults too, but only to say where a program died, and end it; they don't
//! count. Which signals are caught is read from outside; only where one of a fault is, a thread is held for a moment and asked whose its handler is.
//! If that can't be asked, the handler counts as the program's own.
//!
//! A program may set a handler at any time. So while code that may fault lies elsewhere, threads that are about to are held
//! until it is back (`hold`), and [`Watch`] asks again for what was set in other ways. Where they can't be held (the C
//! library is not loaded yet, or has no symbols), such code stays where it is, as beside a handler of the program's own.
//!
//! Next: `subject`, which then has such code stay; `trimtab-x86`'s `faults`, which tells what may fault.

use crate::claim::Claim;
use crate::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_os::{Caught, Gadgets, MappingTable, Memory, SignalHandler, Stopped, find_gadgets, signal_name};
use trimtab_types::Pid;

/// Files of MPI libraries and of what they bring along, and gfortran's library, by their names before `.so`.
const LIBRARIES: [&str; 23] = [
    "libgfortran",
    "libmpi",
    "libmpich",
    "libmpichcxx",
    "libmpichfort",
    "libmpich-gfortran",
    "libmpicxx",
    "libmpifort",
    "libmpi_cxx",
    "libmpi_mpifh",
    "libmpi_usempif08",
    "libmpi_usempi_ignore_tkr",
    "libopen-pal",
    "libopen-rte",
    "libprrte",
    "libucs",
    "libucp",
    "libuct",
    "libucm",
    "libucs_signal",
    "libpmix",
    "libpmi",
    "libpmi2",
];
/// The files that such a library loads begin with these: components, vendors' builds.
const BEGINNINGS: [&str; 6] = ["mca_", "libmca_", "libmpi_cray", "libmpi_intel", "libmpi_gnu", "libuct_"];
/// A program that calls it may have its threads cancelled at any instruction.
pub(crate) const CANCEL_ANYWHERE: &str = "pthread_setcanceltype";
/// In the place of a handler where one could be set unseen.
const UNSEEN: &str = "one that it could set unseen, because no thread can be held where it calls sigaction";
/// Between two looks at which signals are caught, and between two questions whose the handlers are: often at first.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY_MAX: Duration = Duration::from_secs(4);

/// The facts that were learnt of a process's fault handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultHandlers {
    /// Signals of faults that are caught.
    pub(crate) caught: Vec<i32>,
    /// The program's own handler in words, if it has one.
    pub(crate) own: Option<String>,
    /// How long the process was held to be asked, nanoseconds.
    pub(crate) pause_ns: u64,
}

impl FaultHandlers {
    /// Of a process, now. Nothing of it is changed. It is stopped for that if it catches any fault, so the calling thread
    /// must not hold it.
    pub fn of(pid: Pid) -> Self {
        let Ok(caught) = Caught::by(pid).map(Caught::faults) else { return FaultHandlers::default() };
        if caught.is_empty() {
            return FaultHandlers::default();
        }
        match asked(pid, &caught) {
            Ok((handlers, maps, pause_ns)) => {
                let own = handlers.iter().find(|handler| !is_of_library(&maps, handler.address));
                FaultHandlers { own: own.map(|own| described(&maps, own)), caught, pause_ns }
            }
            // Whoever has ended has none.
            Err(Error::Os(trimtab_os::Error::Gone { .. })) => FaultHandlers::default(),
            Err(error) => FaultHandlers::not_asked(caught, &error),
        }
    }

    /// Holds a process and asks it in the same stop, so that it does nothing in between; on a busy machine that may be long.
    ///
    /// # Errors
    /// As [`Stopped::stop`].
    pub fn with_stop(pid: Pid) -> Result<(Stopped, Self), Error> {
        let mut attempt = 0;
        loop {
            // A thread that can't make calls now may be able to in a moment.
            std::thread::sleep(FIRST_REST * attempt);
            let mut stopped = Stopped::stop(pid)?;
            let Ok(caught) = Caught::by(pid).map(Caught::faults) else {
                return Ok((stopped, FaultHandlers::default()));
            };
            if caught.is_empty() {
                return Ok((stopped, FaultHandlers::default()));
            }
            match asked_in(&mut stopped, &caught) {
                Ok(handlers) => return Ok((stopped, handlers)),
                Err(error) if attempt + 1 == TRIES_MAX => {
                    return Ok((stopped, FaultHandlers::not_asked(caught, &error)));
                }
                Err(_) => drop(stopped),
            }
            attempt += 1;
        }
    }

    fn not_asked(caught: Vec<i32>, error: &Error) -> Self {
        let names: Vec<String> = caught.iter().map(|signal| signal_name(*signal)).collect();
        let own = format!("one of {}; whose it is could not be asked: {error}", names.join(", "));
        FaultHandlers { own: Some(own), caught, pause_ns: 0 }
    }
}

/// Has a thread of a process that is held ask for the handlers.
fn asked_in(stopped: &mut Stopped, signals: &[i32]) -> Result<FaultHandlers, Error> {
    let pid = stopped.pid();
    trimtab_os::check_all_calls(pid, &SignalHandler::calls(signals))?;
    let maps = MappingTable::of(pid)?;
    let gadgets: Gadgets = find_gadgets(pid, stopped.memory(), &maps)?;
    let handlers = stopped.handlers(signals, gadgets, &maps)?;
    let own = handlers.iter().find(|handler| !is_of_library(&maps, handler.address));
    Ok(FaultHandlers { own: own.map(|own| described(&maps, own)), caught: signals.to_vec(), pause_ns: 0 })
}

impl FaultHandlers {
    /// The same where the program could set a handler of its own unseen: it counts as having one.
    pub(crate) fn unseen(self) -> Self {
        FaultHandlers { own: self.own.or_else(|| Some(UNSEEN.into())), ..self }
    }
}

/// Has a thread of the process ask for the handlers.
fn asked(pid: Pid, signals: &[i32]) -> Result<(Vec<SignalHandler>, MappingTable, u64), Error> {
    let _claim = Claim::of(pid)?;
    trimtab_os::check_all_calls(pid, &SignalHandler::calls(signals))?;
    let maps = MappingTable::of(pid)?;
    let gadgets: Gadgets = find_gadgets(pid, &Memory::open(pid)?, &maps)?;
    let mut last = None;
    for attempt in 0..TRIES_MAX {
        // A thread that can't make calls now may be able to in a moment.
        std::thread::sleep(FIRST_REST * attempt);
        let mut stopped = Stopped::stop(pid)?;
        let handlers = stopped.handlers(signals, gadgets, &maps);
        let pause_ns = stopped.resume();
        match handlers {
            // Code that was mapped meanwhile may be a handler's.
            Ok(handlers) => return Ok((handlers, MappingTable::of(pid)?, pause_ns)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(Error::CallsPending { pid }, Error::Os))
}

/// Questions to a process none of whose threads can answer now, and the time between them, which grows.
const TRIES_MAX: u32 = 5;
const FIRST_REST: Duration = Duration::from_micros(500);

pub(crate) fn is_of_library(maps: &MappingTable, address: u64) -> bool {
    maps.at(address).is_some_and(|mapping| mapping.inode != 0 && is_library(file_name(&mapping.path)))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True if a file of this name is an MPI, UCX or PMIx library, a part of one, or gfortran's.
pub(crate) fn is_library(name: &str) -> bool {
    let Some((stem, _)) = name.split_once(".so") else { return false };
    LIBRARIES.contains(&stem) || BEGINNINGS.iter().any(|beginning| stem.starts_with(beginning))
}

pub(crate) fn described(maps: &MappingTable, handler: &SignalHandler) -> String {
    let place = maps.at(handler.address).filter(|mapping| mapping.inode != 0);
    let place = place.map_or("code made at run time", |mapping| file_name(&mapping.path));
    format!("{} in {place}", signal_name(handler.signal))
}

/// Asks again and again whether the program has set a fault handler of its own.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<Watching>);

#[derive(Debug)]
struct Watching {
    caught: Vec<i32>,
    own: Option<String>,
    looked: Instant,
    asked: Instant,
    every: Duration,
    pause_ns: u64,
}

impl Watch {
    /// From what was known when it was decided where code may move.
    pub(crate) fn new(known: &FaultHandlers) -> Watch {
        let now = Instant::now();
        let caught = known.caught.clone();
        Watch(Mutex::new(Watching { caught, own: None, looked: now, asked: now, every: ASK_EVERY, pause_ns: 0 }))
    }

    /// Looks whether the process has set one, where that is due. `to_be_set` is the handler that a held thread is about to
    /// set.
    pub(crate) fn look(&self, pid: Pid, to_be_set: &dyn Fn() -> Option<String>) -> Option<String> {
        let mut watching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watching.own.is_none() {
            watching.own = to_be_set();
        }
        if watching.own.is_some() || watching.looked.elapsed() < LOOK_EVERY {
            return watching.own.clone();
        }
        watching.looked = Instant::now();
        let caught = Caught::by(pid).ok()?.faults();
        // The same signals may have other handlers by now.
        let is_due = !caught.is_empty() && watching.asked.elapsed() >= watching.every;
        if caught == watching.caught && !is_due {
            return None;
        }
        let found = FaultHandlers::of(pid);
        let every = if found.caught == watching.caught { (2 * watching.every).min(ASK_EVERY_MAX) } else { ASK_EVERY };
        let pause_ns = watching.pause_ns + found.pause_ns;
        let (looked, asked) = (watching.looked, Instant::now());
        *watching = Watching { caught: found.caught, own: found.own, looked, asked, every, pause_ns };
        watching.own.clone()
    }

    /// How long the process was held to be asked, nanoseconds.
    pub(crate) fn pause_ns(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pause_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::procfs::parse_maps;

    #[test]
    fn whose_a_handler_is() {
        let text = "400000-402000 r-xp 00000000 08:01 7 /opt/libmpi/app\n\
                    500000-502000 r-xp 00000000 00:00 0 \n\
                    600000-602000 r-xp 00000000 08:01 8 /usr/lib/libopen-pal.so.40.30.2\n\
                    700000-702000 r-xp 00000000 08:01 9 /usr/lib/x86_64-linux-gnu/libucs.so.0.0.0\n\
                    800000-802000 r-xp 00000000 08:01 10 /usr/lib/pmix2/lib/pmix/mca_gds_ds21.so\n\
                    900000-902000 r-xp 00000000 08:01 11 /home/u/libmpi_profiler.so\n\
                    a00000-a02000 r-xp 00000000 08:01 12 /usr/lib/libmpich.so.12\n\
                    b00000-b02000 r-xp 00000000 08:01 13 /usr/lib/libgfortran.so.5\n";
        let maps = MappingTable(parse_maps(text.as_bytes()).expect("a map"));
        for (name, address, is_library, words) in [
            ("program", 0x40_1000, false, "SIGSEGV in app"),
            ("generated", 0x50_1000, false, "SIGSEGV in code made at run time"),
            ("open_mpi", 0x60_1000, true, "SIGSEGV in libopen-pal.so.40.30.2"),
            ("ucx", 0x70_1000, true, "SIGSEGV in libucs.so.0.0.0"),
            ("component_of_pmix", 0x80_1000, true, "SIGSEGV in mca_gds_ds21.so"),
            ("somebodys_library", 0x90_1000, false, "SIGSEGV in libmpi_profiler.so"),
            ("mpich", 0xa0_1000, true, "SIGSEGV in libmpich.so.12"),
            ("fortran", 0xb0_1000, true, "SIGSEGV in libgfortran.so.5"),
            ("nowhere", 0x1000, false, "SIGSEGV in code made at run time"),
        ] {
            let handler = SignalHandler { signal: 11, address };
            assert_eq!(is_of_library(&maps, address), is_library, "{name}");
            assert_eq!(described(&maps, &handler), words, "{name}");
        }
    }
}
