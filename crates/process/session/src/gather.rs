//! Threads are held where they leave a function that every process of a job calls once, until all have come and probes
//! are in: then all go on together, and nothing behind that function is missed.
//!
//! The hold is an insertion of its own, without the routine of windows. A thread waits in it by itself, with a deadline of
//! its own, so nobody traces it and a trimtab that is killed only lets it go. Before a window's probes go in the text is
//! put back while threads wait in our memory, so the two never lie on the same bytes. While the memory stays, this very
//! process does not take it for a leftover.
//!
//! The program is to be held where its own call returns: whoever returns to a binding or a tool, which calls the same
//! function for it, goes on to the outer one's return and is held there.
//!
//! Next: `trimtab-x86`'s `gather`, the code; `trimtab-measure`'s `first_call`, which decides when all go on.

use crate::claim::Claim;
use crate::error::{Error, NotHeld};
use crate::handlers::is_library;
use crate::insert::{Inserted, Setup, Still};
use crate::leftover::Leftover;
use crate::modules::{Module, Modules};
use crate::own_holds;
use crate::pages::PageWrites;
use crate::payload::Payload;
use crate::prepared::Prepared;
use crate::purpose::OfWindow;
use crate::remove::{leave_springboards, restore};
use crate::request::{FunctionRequest, Refused, Work};
use crate::subject::Subject;
use crate::target::{Removal, Target};
use crate::threads::Stacks;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use trimtab_os::{MappingTable, Memory, Stopped};
use trimtab_plan::{PlannedFunction, PlannedSite};
use trimtab_stub::layout::{Header, HoldWords, MAGIC};
use trimtab_stub::view::View;
use trimtab_symbols::Function;
use trimtab_types::{Pid, ProcAddr};
use trimtab_x86::{
    ExitKind, GATHER_GAVE_UP, GATHER_GO, GATHER_HELD, GATHER_MAY_SLEEP, GATHER_RANGES_MAX, GATHER_TICKS,
};
use trimtab_x86::{Gather, PatchSite, own_sites};

/// Places of the words among those of handlers, which nobody sets here.
const GAVE_UP: usize = 0;
const MAY_SLEEP: usize = 1;
const TICKS: usize = 2;
const HELD: usize = 3;
const HANDLERS_AT: usize = offset_of!(HoldWords, handlers);
const ASKED_AT: usize = offset_of!(HoldWords, asked);
const GO_AT: usize = offset_of!(HoldWords, answered);
/// Where they lie in the header.
const HOLD_AT: u64 = offset_of!(Header, hold) as u64;
/// Stand in the place of a marker's site, which a hold has none of: a hold of whoever put it in, and one that another trimtab
/// may take over.
const HELD_BY_OWNER: u64 = u64::from_le_bytes(*b"hold own");
const HANDED_OVER: u64 = u64::from_le_bytes(*b"handover");

const _: () = assert!(offset_of!(HoldWords, asked) == 0, "threads that have come count themselves in the first word");
const _: () = assert!(offset_of!(HoldWords, answered) == GATHER_GO as usize, "taking all out lets threads go");
const _: () = assert!(HANDLERS_AT + 8 * GAVE_UP == GATHER_GAVE_UP as usize);
const _: () = assert!(HANDLERS_AT + 8 * MAY_SLEEP == GATHER_MAY_SLEEP as usize);
const _: () = assert!(HANDLERS_AT + 8 * TICKS == GATHER_TICKS as usize);
const _: () = assert!(HANDLERS_AT + 8 * HELD == GATHER_HELD as usize);

/// A process whose threads are held where they leave some functions. Dropping it lets them go and takes everything out.
#[derive(Debug)]
pub struct Gathering {
    body: Body,
    memory: Vec<(u64, u64)>,
}

/// Outcome of an attempt to take over what another trimtab has put into a process.
#[derive(Debug)]
pub enum TakeOver {
    /// The hold is this process's from now on.
    Taken(Gathering),
    /// It is a hold of a trimtab that runs and may be about to hand it over.
    InUse,
    /// It is no hold, or there are several things.
    NoHold,
}

/// Whoever put it in.
#[derive(Debug)]
enum Body {
    Own(Box<Inserted>),
    Taken(Box<Taken>),
}

impl Gathering {
    /// Plans it, for functions of these names in any module: those that are the same function to the program, such as one
    /// of MPI, its name for profilers, and its name in Fortran.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if no return of such a function can be patched, and says why; as [`Modules::memory`].
    pub fn plan(modules: &Modules, names: &[&str]) -> Result<Prepared, Error> {
        let requests = requests(modules, names);
        let mut prepared = Prepared::decided(modules, &requests, &OfWindow)?;
        let unheld = prepared.add_returns(modules, &requests)?;
        let passes = passes(modules, names, &unheld);
        let not_held = |why: NotHeld| Error::NotHeld { pid: modules.pid, why };
        if passes.len() > GATHER_RANGES_MAX {
            return Err(not_held(NotHeld::ManyCallers { ranges: passes.len() }));
        }
        for function in &mut prepared.functions {
            function.sites.retain(|planned| Gather::fits(planned.site.kind));
        }
        prepared.functions.retain(|function| !function.sites.is_empty());
        prepared.keep_arenas();
        if prepared.functions.is_empty() {
            let refused = prepared.refused.iter().chain(&prepared.endless).next();
            let why = refused
                .map(|Refused { name, reason }| NotHeld::Refused { function: name.clone(), reason: reason.clone() });
            return Err(not_held(why.unwrap_or_else(|| NotHeld::NoFunction { names: names.join(", ") })));
        }
        prepared.payload =
            Payload::Hold(passes.into_iter().map(|range| ProcAddr(range.start)..ProcAddr(range.end)).collect());
        Ok(prepared)
    }

    /// Puts it into a process that stands still for us, until the patches are in: it could leave the functions meanwhile.
    /// Threads wait at most for `limit`, in a machine that counts so many ticks in a second. A process that can't have memory
    /// mapped while it stands still runs on meanwhile; `has_left` is asked whether it is too late then.
    ///
    /// # Errors
    /// As [`Prepared::insert`]; [`Error::NotHeld`] if it is too late.
    pub fn insert(
        prepared: &Prepared,
        stopped: Stopped,
        (limit, ticks_per_second): (Duration, f64),
        has_left: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let pid = stopped.pid();
        let may_sleep = is_unfiltered(pid);
        let initialise = |view: View<'_>| {
            view.header().marker_site.store(HELD_BY_OWNER, Relaxed);
            let words = &view.header().hold;
            words.handlers[TICKS].store((limit.as_secs_f64() * ticks_per_second) as u64, Relaxed);
            words.handlers[MAY_SLEEP].store(u64::from(may_sleep), Relaxed);
        };
        let setup = Setup { functions: 0, ranks: 1, details: 0 };
        // Whoever looks before it is noted finds an unfinished leftover of a trimtab that runs, and leaves it alone.
        let may_patch = || match has_left() {
            true => Err(Error::NotHeld { pid, why: NotHeld::TooLate }),
            false => Ok(()),
        };
        let still = Still { pid, stopped: Some(stopped), may_patch: &may_patch };
        let inserted = prepared.insert_into(still, setup, &initialise)?;
        let memory = inserted.target.mappings.clone();
        own_holds::note(pid, &memory);
        Ok(Gathering { body: Body::Own(Box::new(inserted)), memory })
    }

    /// Leaves it to whoever takes it over, this program or another one, or to its own deadline.
    pub fn hand_over(mut self) {
        match &mut self.body {
            Body::Own(inserted) => {
                inserted.view().header().marker_site.store(HANDED_OVER, Release);
                inserted.leave();
            }
            // The process has ended, or lets nobody write any more: its own deadline holds.
            Body::Taken(taken) => drop(taken.set(offset_of!(Header, marker_site), HANDED_OVER)),
        }
        self.disown();
    }

    /// Takes over a hold that another trimtab has put in and handed over, or could not hand over because it was killed. The
    /// caller has the process's claim.
    ///
    /// # Errors
    /// The process's memory can't be written.
    pub fn take_over(pid: Pid, found: &Leftover) -> Result<TakeOver, Error> {
        let Some((target, owner_runs)) = found.only_target() else { return Ok(TakeOver::NoHold) };
        let taken = Taken { pid, target: target.clone(), pause_ns: 0 };
        match taken.word(offset_of!(Header, marker_site)) {
            HANDED_OVER => {}
            HELD_BY_OWNER if owner_runs => return Ok(TakeOver::InUse),
            HELD_BY_OWNER => {}
            _ => return Ok(TakeOver::NoHold),
        }
        let own = Pid(std::process::id() as i32);
        taken.set(offset_of!(Header, monitor_start), trimtab_os::start_time_ticks(own).unwrap_or(0))?;
        taken.set(offset_of!(Header, monitor_pid), own.0 as u64)?;
        taken.set(offset_of!(Header, marker_site), HELD_BY_OWNER)?;
        let memory = taken.target.mappings.clone();
        own_holds::note(pid, &memory);
        Ok(TakeOver::Taken(Gathering { body: Body::Taken(Box::new(taken)), memory }))
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        match &self.body {
            Body::Own(inserted) => inserted.pid(),
            Body::Taken(taken) => taken.pid,
        }
    }

    /// True if the same program still runs there.
    pub fn is_alive(&self) -> bool {
        match &self.body {
            Body::Own(inserted) => inserted.is_alive(),
            Body::Taken(taken) => taken.word(offset_of!(Header, magic)) == MAGIC,
        }
    }

    /// True if a thread has come and waits. A process that has come under filters of system calls since sleeps no more.
    pub fn is_held(&self) -> bool {
        if !is_unfiltered(self.pid()) {
            self.set(HANDLERS_AT + 8 * MAY_SLEEP, 0);
        }
        self.word(ASKED_AT) > 0 && !self.has_given_up()
    }

    /// True if a thread waited as long as it might and went on by itself.
    pub fn has_given_up(&self) -> bool {
        self.word(HANDLERS_AT + 8 * GAVE_UP) > 0
    }

    /// How long the process was stopped for it so far, nanoseconds.
    pub fn pause_ns(&self) -> u64 {
        match &self.body {
            Body::Own(inserted) => inserted.pause_ns,
            Body::Taken(taken) => taken.pause_ns,
        }
    }

    /// Puts the text back, so that others may patch it; threads wait on.
    ///
    /// # Errors
    /// The process can't be stopped, or somebody else has changed the same bytes.
    pub fn restore_text(&mut self) -> Result<(), Error> {
        let pid = self.pid();
        let _claim = Claim::of(pid)?;
        let maps = MappingTable::of(pid)?;
        let mut stopped = Stopped::stop_to_restore(pid)?;
        let stacks = Stacks::read(&stopped, &maps);
        let (target, pause_ns) = match &mut self.body {
            Body::Own(inserted) => (&inserted.target, &mut inserted.pause_ns),
            Body::Taken(taken) => (&taken.target, &mut taken.pause_ns),
        };
        let restored = leave_springboards(&mut stopped, &stacks, target, &target.patches)
            .and_then(|()| target.patches.restore(&stopped));
        *pause_ns += stopped.resume();
        if let Some(address) = restored?.first() {
            return Err(Error::NotHeld { pid, why: NotHeld::PatchedByOthers { address: *address } });
        }
        self.forget_patches()
    }

    /// From now on the bytes may be somebody else's patches: neither this nor a later trimtab is to look at them.
    fn forget_patches(&mut self) -> Result<(), Error> {
        match &mut self.body {
            Body::Own(inserted) => {
                inserted.target.patches = PageWrites::default();
                inserted.target.geometry.patch_count = 0;
                let view = inserted.view();
                view.steps_to_forget_patches().into_iter().for_each(|step| view.take(step));
            }
            Body::Taken(taken) => taken.forget_patches()?,
        }
        Ok(())
    }

    /// Lets all go; true if they waited until now.
    pub fn go(&self) -> bool {
        let is_held = self.word(ASKED_AT) > 0;
        self.set(GO_AT, u64::MAX);
        is_held && !self.has_given_up()
    }

    /// For how many ticks of the processor's clock a thread was held, until now if it waits yet; 0: none came.
    pub fn held_ticks(&self) -> u64 {
        let now = trimtab_os::ticks();
        let held = self.word(HANDLERS_AT + 8 * HELD);
        // A thread that waits has taken away the time at which it came.
        let is_negative = held > u64::MAX / 2;
        if is_negative { held.wrapping_add(now) } else { held }
    }

    /// Lets all go and takes everything out; for how many ticks a thread was held.
    pub fn ended(mut self) -> u64 {
        self.go();
        // Once it is out of another's process its words are gone.
        let before = self.held_ticks();
        self.end();
        if matches!(self.body, Body::Own(_)) { self.held_ticks() } else { before }
    }

    fn end(&mut self) {
        self.go();
        // A rest that can't be taken out now is a leftover again, for whoever looks next.
        let _cannot = match &mut self.body {
            Body::Own(inserted) => inserted.remove(),
            Body::Taken(taken) => taken.remove(),
        };
        self.disown();
    }

    /// Its memory is no more this process's own.
    fn disown(&mut self) {
        let pid = self.pid();
        own_holds::disown(pid, self.memory.drain(..));
    }

    /// A word by its place in the header.
    fn word(&self, at: usize) -> u64 {
        match &self.body {
            Body::Own(inserted) => inserted.view().word(HOLD_AT + at as u64).load(Acquire),
            Body::Taken(taken) => taken.word(HOLD_AT as usize + at),
        }
    }

    fn set(&self, at: usize, value: u64) {
        match &self.body {
            Body::Own(inserted) => inserted.view().word(HOLD_AT + at as u64).store(value, Release),
            // The process has ended, or lets nobody write any more: its own deadline holds.
            Body::Taken(taken) => drop(taken.set(HOLD_AT as usize + at, value)),
        }
    }
}

/// One that another trimtab has put in.
#[derive(Debug)]
struct Taken {
    pid: Pid,
    target: Target,
    pause_ns: u64,
}

impl Taken {
    /// A word of the header; 0 of a process that has ended.
    fn word(&self, offset: usize) -> u64 {
        let memory = Memory::open(self.pid);
        memory.and_then(|memory| memory.read_word(self.target.header + offset as u64)).unwrap_or(0)
    }

    fn set(&self, offset: usize, value: u64) -> Result<(), Error> {
        let memory = Memory::open(self.pid)?;
        Ok(memory.write(self.target.header + offset as u64, &value.to_le_bytes())?)
    }

    fn forget_patches(&mut self) -> Result<(), Error> {
        let length = self.target.geometry.patches_offset.max(size_of::<Header>() as u64) as usize;
        let bytes = Memory::open(self.pid)?.read_vec(self.target.header, length)?;
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
        for step in View::new(&words).steps_to_forget_patches() {
            self.set(step.offset as usize, step.value)?;
        }
        self.target.patches = PageWrites::default();
        self.target.geometry.patch_count = 0;
        Ok(())
    }

    fn remove(&self) -> Result<Removal, Error> {
        let _claim = Claim::of(self.pid);
        // Another program runs there by now, or none.
        if self.word(offset_of!(Header, magic)) != MAGIC {
            return Ok(Removal::default());
        }
        restore(self.pid, &self.target)
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if !self.memory.is_empty() {
            self.end();
        }
    }
}

impl Prepared {
    /// Adds the returns of functions that were refused, perhaps only for their entries; those for which that can't be done.
    fn add_returns(&mut self, modules: &Modules, requests: &[FunctionRequest]) -> Result<Vec<ProcAddr>, Error> {
        let memory = modules.memory()?;
        let mut unheld = Vec::new();
        for request in requests {
            let is_planned = self.probe_at(request.address).is_some();
            let Some(module) = modules.at(request.address).filter(|_| !is_planned) else { continue };
            match returns(&Subject::new(module, memory.as_ref(), modules), request.address) {
                Some(sites) if !self.is_taken(&sites) => {
                    let arena = self.arena_of(module);
                    self.take(&sites);
                    self.functions.push(PlannedFunction::new(request.name.clone(), 0, (arena, sites)));
                }
                _ => unheld.push(request.address),
            }
        }
        Ok(unheld)
    }

    /// Leaves out arenas that no function is in any more.
    fn keep_arenas(&mut self) {
        let used = |functions: &[PlannedFunction], arena: usize| functions.iter().any(|one| one.arena == arena);
        for arena in
            (0..self.arena_modules.len()).rev().filter(|arena| !used(&self.functions, *arena)).collect::<Vec<_>>()
        {
            self.arena_modules.remove(arena);
            self.functions.iter_mut().filter(|one| one.arena > arena).for_each(|one| one.arena -= 1);
        }
    }
}

/// All places at which a function returns; `None` if one of them can't be patched.
fn returns(subject: &Subject<'_>, address: ProcAddr) -> Option<Vec<PlannedSite>> {
    let exits = subject.analysed(address, |code, analysis| Ok(own_sites(code, analysis).exits)).ok()?;
    let returns = exits.into_iter().filter(|(exit, _)| matches!(exit.kind, ExitKind::Ret { .. }));
    let mut sites: Vec<PatchSite> = returns.map(|(_, site)| site.ok()).collect::<Option<_>>()?;
    sites.sort_by_key(|site| site.at);
    sites.dedup();
    sites.retain(|site| Gather::fits(site.kind));
    let planned: Vec<PlannedSite> = sites.into_iter().map(|site| subject.planned(site).ok()).collect::<Option<_>>()?;
    Some(planned).filter(|planned| !planned.is_empty())
}

fn requests(modules: &Modules, names: &[&str]) -> Vec<FunctionRequest> {
    let work = Work::Code { sees_ends: true };
    let in_module = |module: &Module| -> Vec<(String, ProcAddr)> {
        let found = names.iter().filter_map(|name| Some(((*name).to_owned(), module.function(name)?.1)));
        found.collect()
    };
    let all = modules.modules.iter().flat_map(in_module);
    all.map(|(name, address)| FunctionRequest { name, address, work }).collect()
}

/// Code that calls such a function for the program: whole modules that define one, and of the program itself only the
/// functions. Where a binding's own function can't be held, whoever returns to it is: nothing of it is a call of the
/// program's, as what tools call in the same place would seem to be.
fn passes(modules: &Modules, names: &[&str], unheld: &[ProcAddr]) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for (index, module) in modules.modules.iter().enumerate() {
        let functions: Vec<_> = names.iter().filter_map(|name| module.function(name)).collect();
        let range = |(function, address): &(&Function, ProcAddr)| address.0..address.0 + function.size;
        if index == 0 && modules.has_program() {
            ranges.extend(functions.iter().map(range));
        } else if !functions.is_empty() {
            let is_open =
                |(_, address): &&(&Function, ProcAddr)| unheld.contains(address) && is_library(module.file_name());
            let mut open: Vec<Range<u64>> = functions.iter().filter(is_open).map(range).collect();
            open.sort_by_key(|range| range.start);
            open.dedup();
            let starts = [module.text.start].into_iter().chain(open.iter().map(|range| range.end));
            let ends = open.iter().map(|range| range.start).chain([module.text.end]);
            ranges.extend(starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty()));
        }
    }
    ranges.sort_by_key(|range| range.start);
    ranges.dedup();
    ranges
}

/// True if no filter of system calls is on the process; false also if that can't be told.
fn is_unfiltered(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "0"))
}
