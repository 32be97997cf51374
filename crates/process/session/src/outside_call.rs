//! A function of the C library, called once in a process, on one of its threads, at a moment at which that is safe.
//!
//! A function like `fflush` wants locks, and finds data half changed if a thread is interrupted in the middle of it. So
//! all threads are held and every call on every stack is looked at, again and again for a while, until
//!
//! - one thread computes on its own stack, and neither it nor anything that called it belongs to the C library or to what
//!   that may call: it holds no lock of theirs and has none of their data half changed;
//! - no other thread is in there either, unless it sleeps in a call that holds nothing while it does.
//!
//! "What it may call" are all files that define a function which the C library, or one of those files, imports, so that a
//! replaced `malloc` counts. A program that does so itself, is static, or writes to streams by code put in place is refused,
//! and so is one in which somebody else has changed their code.
//!
//! Probes of trimtab's may be in that code: what they displaced runs in our memory as it would in place, and a thread
//! that is there, or in a body or in what a body calls, is in code that no table describes, so the moment is not taken.
//! The call passes them like any other.
//!
//! Next: `unwind` for the stacks; `trimtab-os`' `call_functions` for how the thread makes the call.

use crate::claim::Claim;
use crate::errno::errno_at;
use crate::error::Error;
use crate::image_cache::ImageCache;
use crate::leftover;
use crate::modules::{Module, Modules};
use crate::not_callable::{NotCallable, PATIENCE};
use crate::pages::{PatchBytes, without};
use crate::unwind::{Standing, frames};
use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};
use trimtab_os::{Called, FunctionCall, Gadgets, MappingTable, Memory, Stopped, find_gadgets, used_stack};
use trimtab_symbols::SlotTarget;
use trimtab_types::{Pid, ProcAddr};

/// Between two looks: longer and longer, and never in step with the program.
const LOOK_EVERY_US: [u64; 5] = [1_700, 3_100, 5_300, 11_300, 23_900];
/// Functions of the C library around those of a thread: the one that started it and the one that called that.
const OUTERMOST_MAX: usize = 2;
/// Defined by the C library only.
const LIBRARY_MARK: &str = "__libc_start_main";
/// Code that writes to or reads from a stream in place calls these when the buffer is full or empty.
const INLINE_STREAMS: [&str; 2] = ["__overflow", "__uflow"];
/// Functions that hold nothing of the C library's while they sleep.
const SLEEPS: [&str; 44] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "connect",
    "epoll_pwait",
    "epoll_wait",
    "flock",
    "futex_wait",
    "mq_receive",
    "msgrcv",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "pselect",
    "pthread_barrier_wait",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_mutex_lock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pwrite",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "select",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sigsuspend",
    "sigwait",
    "sleep",
    "usleep",
    "waitpid",
    "wait4",
    "write",
];

/// The outcome of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideCall {
    /// All functions have returned. Otherwise the thread is still in one, and goes on by itself when that returns.
    pub has_returned: bool,
    /// How long the process was held in all, nanoseconds.
    pub pause_ns: u64,
    /// Moments that were looked at.
    pub looks: u32,
}

/// Has a thread of `pid` call functions of the C library, each with up to six numbers, one after the other.
///
/// # Errors
/// [`Error::NoCall`] with the reason if it is not certain to be safe, or was not at any moment for two seconds: then none
/// was called and nothing was changed.
pub fn call_once(pid: Pid, calls: &[(ProcAddr, Vec<i64>)], cache: &ImageCache) -> Result<OutsideCall, Error> {
    trimtab_os::check_function_calls(pid)?;
    let _claim = Claim::of(pid)?;
    let modules = Modules::read(pid, cache, &|_| true)?;
    let refused = |reason: NotCallable| Error::NoCall { pid, reason };
    let reached = Reached::new(&modules, calls).map_err(refused)?;
    let patches = leftover::patches_in(pid)?;
    reached.check_code(&modules, &Memory::open(pid)?, &patches).map_err(refused)?;
    let errno_at = errno_at(&modules).ok_or_else(|| refused(NotCallable::NoErrno))?;
    let gadgets = find_gadgets(pid, &Memory::open(pid)?, &modules.maps)?;
    let calls: Vec<FunctionCall> = calls.iter().map(|(address, arguments)| call_of(*address, arguments)).collect();
    let site = CallSetup { modules: &modules, reached: &reached, calls: &calls, errno_at, gadgets };
    let (since, mut pause_ns) = (Instant::now(), 0);
    let mut look = 0u32;
    loop {
        match site.try_now(pid)? {
            Tried::Made(called) => {
                pause_ns += called.pause_ns;
                return Ok(OutsideCall { has_returned: called.has_returned, pause_ns, looks: look + 1 });
            }
            Tried::NotNow { why, held_ns } => {
                pause_ns += held_ns;
                if since.elapsed() > PATIENCE {
                    return Err(refused(NotCallable::NoMoment { why: Box::new(why) }));
                }
            }
        }
        let every_us = LOOK_EVERY_US[(look as usize / 8).min(LOOK_EVERY_US.len() - 1)];
        std::thread::sleep(Duration::from_micros(every_us));
        look += 1;
    }
}

fn call_of(address: ProcAddr, arguments: &[i64]) -> FunctionCall {
    let mut all = [0; 6];
    for (place, argument) in all.iter_mut().zip(arguments) {
        *place = *argument as u64;
    }
    FunctionCall { address: address.0, arguments: all }
}

/// Modules that the functions to be called may enter, by number.
struct Reached(Vec<bool>);

impl Reached {
    /// # Errors
    /// Why the functions can't be called at any moment.
    fn new(modules: &Modules, calls: &[(ProcAddr, Vec<i64>)]) -> Result<Self, NotCallable> {
        let all = &modules.modules;
        let library = all.iter().position(|module| defines(module, LIBRARY_MARK));
        let library = library.ok_or(NotCallable::NoLibrary)?;
        for (address, _) in calls {
            if modules.index_of(*address) != Some(library) {
                let name = modules.describe(address.0, &ImageCache::in_memory());
                return Err(NotCallable::NotOfLibrary { name });
            }
        }
        if let Some(module) = all.first().filter(|module| writes_in_place(module)) {
            return Err(in_place(module));
        }
        let mut reached = vec![false; all.len()];
        let mut pending = vec![library];
        while let Some(number) = pending.pop() {
            if std::mem::replace(&mut reached[number], true) {
                continue;
            }
            let wanted = imports(&all[number]);
            pending.extend((0..all.len()).filter(|other| !reached[*other] && defines_any(&all[*other], &wanted)));
        }
        if reached[0] {
            let wanted: HashSet<&str> =
                all.iter().zip(&reached).filter(|(_, is)| **is).flat_map(|(m, _)| imports(m)).collect();
            let own = exported(&all[0]).find(|name| wanted.contains(name)).unwrap_or("a function");
            return Err(NotCallable::OwnFunction { name: own.to_owned() });
        }
        Ok(Reached(reached))
    }

    /// Code that somebody else has patched may lead anywhere: MPI libraries do so to hear of memory that goes. Of
    /// `patches` it is known where they lead.
    fn check_code(&self, modules: &Modules, memory: &Memory, patches: &[PatchBytes]) -> Result<(), NotCallable> {
        for module in modules.modules.iter().zip(&self.0).filter(|(_, is)| **is).map(|(module, _)| module) {
            let segments = module.loaded.image.segments.iter().filter(|segment| segment.executable);
            for segment in segments {
                let (from, length) = (segment.file_offset as usize, segment.file_size as usize);
                let wanted = module.loaded.file.bytes().get(from..from.saturating_add(length));
                let address = module.bias.to_proc(segment.addr).0;
                let mut found = memory.read_vec(address, length).ok();
                found.iter_mut().for_each(|code| without(patches, address, code));
                if wanted.is_none() || found.as_deref() != wanted {
                    return Err(NotCallable::CodeChanged { file: module.file_name().to_owned() });
                }
            }
        }
        Ok(())
    }

    fn has(&self, frame: &Standing) -> bool {
        self.0[frame.module]
    }
}

fn imports(module: &Module) -> HashSet<&str> {
    let names = module.loaded.image.slots.iter().filter_map(|slot| match &slot.target {
        SlotTarget::Import(name) => Some(name.as_str()),
        SlotTarget::Resolved(_) => None,
    });
    names.collect()
}

fn writes_in_place(module: &Module) -> bool {
    let imported = imports(module);
    INLINE_STREAMS.iter().any(|name| imported.contains(name))
}

fn in_place(module: &Module) -> NotCallable {
    NotCallable::WritesInPlace { file: module.file_name().to_owned() }
}

fn exported(module: &Module) -> impl Iterator<Item = &str> {
    let functions = module.loaded.image.functions.iter().filter(|function| function.exported);
    functions.flat_map(|function| &function.names).map(|name| name.split('@').next().unwrap_or(name))
}

fn defines_any(module: &Module, wanted: &HashSet<&str>) -> bool {
    exported(module).any(|name| wanted.contains(name))
}

fn defines(module: &Module, name: &str) -> bool {
    module.loaded.image.function_named(name).is_some_and(|function| function.exported)
}

/// The outcome of one look.
enum Tried {
    Made(Called),
    NotNow { why: NotCallable, held_ns: u64 },
}

/// Everything that is known before a process is held.
struct CallSetup<'a> {
    modules: &'a Modules,
    reached: &'a Reached,
    calls: &'a [FunctionCall],
    errno_at: i32,
    gadgets: Gadgets,
}

impl CallSetup<'_> {
    /// Looks once, and has the calls made if they are safe.
    fn try_now(&self, pid: Pid) -> Result<Tried, Error> {
        let stopped = Stopped::stop(pid)?;
        let maps = MappingTable::of(pid)?;
        let index = match self.lender(&stopped, &maps) {
            Ok(index) => index,
            Err(why) => return Ok(Tried::NotNow { why, held_ns: stopped.resume() }),
        };
        let errno_at = stopped.threads()[index].registers.fs_base.wrapping_add_signed(self.errno_at.into());
        match stopped.call_functions(index, self.calls, errno_at, self.gadgets, &maps) {
            Ok(called) => Ok(Tried::Made(called)),
            // The process was let go as it was.
            Err(error) if error.is_retryable() => Ok(Tried::NotNow { why: NotCallable::Refused(error), held_ns: 0 }),
            Err(error) => Err(error.into()),
        }
    }

    /// The thread that can make the calls, if all others are where they may be.
    fn lender(&self, stopped: &Stopped, maps: &MappingTable) -> Result<usize, NotCallable> {
        let (mut lender, mut reason) = (None, NotCallable::NoThread);
        for (index, thread) in stopped.threads().iter().enumerate() {
            let named = |why| NotCallable::OfThread { tid: thread.tid, why: Box::new(why) };
            used_stack(stopped.pid(), thread, maps).ok_or_else(|| named(NotCallable::NoStack))?;
            let mut frames = frames(self.modules, maps, stopped.memory(), thread).map_err(|why| named(why.into()))?;
            self.leave_out_outermost(&mut frames);
            if !thread.is_in_system_call() && !frames.iter().any(|frame| self.reached.has(frame)) {
                match self.may_lend(stopped, index, &frames) {
                    Ok(()) => lender = lender.or(Some(index)),
                    Err(why) => reason = named(why),
                }
                continue;
            }
            if !(thread.is_in_system_call() && self.only_sleeps(&frames)) {
                let inside = frames.iter().rev().find(|frame| self.reached.has(frame));
                let function = inside.map_or("a system call".into(), |at| self.name(at));
                return Err(named(NotCallable::Inside { function }));
            }
        }
        lender.ok_or(reason)
    }

    /// Every thread is begun by the C library; there it holds nothing. Functions that the library calls at the end of a
    /// thread or of the program lie below more of its functions.
    fn leave_out_outermost(&self, frames: &mut Vec<Standing>) {
        let is_start = |frame: &Standing| {
            let image = &self.modules.modules[frame.module].loaded.image;
            frame.module == 0 && image.function_at(frame.address).is_some_and(|function| function.addr == image.entry)
        };
        let mut count = usize::from(frames.last().is_some_and(is_start));
        let outer = frames.iter().rev().skip(count).take_while(|frame| self.reached.has(frame)).count();
        count += outer;
        if outer <= OUTERMOST_MAX && count < frames.len() {
            frames.truncate(frames.len() - count);
        }
    }

    fn may_lend(&self, stopped: &Stopped, index: usize, frames: &[Standing]) -> Result<(), NotCallable> {
        let numbers: BTreeSet<usize> = frames.iter().map(|frame| frame.module).collect();
        for number in numbers {
            let module = &self.modules.modules[number];
            if writes_in_place(module) {
                return Err(in_place(module));
            }
        }
        match stopped.is_in_restartable_sequence(index) {
            Ok(false) => Ok(()),
            Ok(true) => Err(NotCallable::Restartable),
            Err(error) => Err(NotCallable::RestartableUnknown(error)),
        }
    }

    /// True if a thread is in just one call of the C library, of a function that holds nothing while it sleeps.
    fn only_sleeps(&self, frames: &[Standing]) -> bool {
        let inside = frames.iter().take_while(|frame| self.reached.has(frame)).count();
        if frames[inside..].iter().any(|frame| self.reached.has(frame)) {
            return false;
        }
        inside == 0 || SLEEPS.iter().any(|name| self.is_named(&frames[inside - 1], name))
    }

    fn is_named(&self, frame: &Standing, wanted: &str) -> bool {
        let function = self.modules.modules[frame.module].loaded.image.function_at(frame.address);
        function.is_some_and(|function| function.names.iter().any(|name| name.split('@').next() == Some(wanted)))
    }

    fn name(&self, frame: &Standing) -> String {
        let module = &self.modules.modules[frame.module];
        let function = module.loaded.image.function_at(frame.address);
        function.map_or_else(|| module.file_name().to_string(), |function| function.name())
    }
}
