//! Making our memory in a process, without holding it while anything is prepared.
//!
//! Four times one thread is stopped for some microseconds and sent through a chain of system calls; the other threads
//! run on, unless that one has no room for its state and a better one must be found. The first chain makes the shared
//! memory's file. It is filled from outside, descriptor included, and only then does the second chain map its beginning,
//! which lists everything else. Once that is seen to be there, the third one maps the rest, and if all of it is where it
//! should be, the last one has the gates emptied in forked children and closes the file. So whenever trimtab is killed,
//! a gate, which nobody else could tell from a page of the program's, is there only together with the list that names it.
//!
//! A process that must not run on before it is patched stands still meanwhile, and one thread makes the same calls so.
//!
//! Next: `insert` writes the patches; `leftover` reads what a killed trimtab left here.

use crate::error::Error;
use crate::layout::Layout;
use crate::limits::mapping_limit;
use crate::mapped::{is_ours, open_descriptors};
use crate::threads::is_making_calls;
use crate::waiting::{DONE_LIMIT, LOOK_EVERY, TRIES_MAX, close, rest, unmap_calls, wait_until};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Release;
use std::time::{Duration, Instant};
use trimtab_os::{Call, Gadgets, Mapping, MappingTable, SharedMapping, Stopped, open_file_of};
use trimtab_plan::{ArenaPlace, Plan};
use trimtab_stub::layout::{Geometry, MEMFD_NAME, PAGE};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr};

/// Time without a sign of what its calls made, after which it is looked at whether they are over.
const LOOK_CLOSER_EVERY: Duration = Duration::from_millis(100);
/// Attempts with a program that closes the descriptor.
const LOST_MAX: usize = 5;
/// Numbers of the system calls, and their flags.
const MEMFD_CREATE: i64 = 319;
const MMAP: i64 = 9;

const MADVISE: i64 = 28;

const LSEEK: i64 = 8;
/// `MFD_CLOEXEC`: a program the target executes must not inherit it.
const CLOSE_ON_EXEC: u64 = 1;
const SHARED: u64 = 0x01;
const PRIVATE_ANONYMOUS: u64 = 0x22;
const FIXED_NOREPLACE: u64 = 0x10_0000;
/// `MAP_NORESERVE`: the kernel joins such a page with no ordinary memory beside it.
const NO_RESERVE: u64 = 0x4000;
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
/// `MADV_WIPEONFORK`: a forked child finds the gate closed.
const WIPE_ON_FORK: u64 = 18;

/// A number that a descriptor has in a program with nothing open but its streams.
const FIRST_FREE_DESCRIPTOR: u64 = 3;
/// Where the descriptor stands once the list of everything is mapped.
const LISTED: u64 = 1;
/// And once everything is.
const ALL: u64 = 2;

/// One process to map memory into.
pub(crate) struct Mapper<'a> {
    pub pid: Pid,
    pub gadgets: Gadgets,
    pub maps: &'a MappingTable,
    pub layout: &'a Layout,
    /// The process where it is not to run on meanwhile: it makes the calls standing still, as long as it can.
    pub still: Option<Stopped>,
    /// How long threads were held so far, nanoseconds.
    pub pause_ns: u64,
}

impl Mapper<'_> {
    /// Makes the shared memory, has it filled by `fill`, and maps it and the arenas at their places.
    pub(crate) fn map(&mut self, fill: &dyn Fn(View<'_>)) -> Result<SharedMapping, Error> {
        for _ in 1..LOST_MAX {
            match self.map_once(fill) {
                Err(Lost::Descriptor) => {}
                Err(Lost::Other(error)) => return Err(error),
                Ok(shared) => return Ok(shared),
            }
        }
        self.map_once(fill).map_err(|lost| match lost {
            Lost::Other(error) => error,
            Lost::Descriptor => Error::DescriptorLost { pid: self.pid, attempts: LOST_MAX },
        })
    }

    fn map_once(&mut self, fill: &dyn Fn(View<'_>)) -> Result<SharedMapping, Lost> {
        let pid = self.pid;
        let known = open_descriptors(pid);
        self.run(&[create_file()], &|| true)?;
        let descriptor = self.wait_for_descriptor(&known)?;
        let filled = open_file_of(pid, descriptor).map_err(Error::from).and_then(|file| {
            let shared = SharedMapping::create(&file, self.layout.geometry.file_length, pid)?;
            fill(View::new(shared.words()));
            Ok((file, shared))
        });
        let (file, shared) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                // By now the number may be of a file of the program's own.
                let is_there = || open_descriptors(pid).contains(&descriptor);
                self.run(&[close(descriptor)], &is_there)?;
                // Why there is no memory says more than that the program has not come to close it.
                let _closed = wait_until(pid, "close shared memory", || !is_there());
                return Err(error.into());
            }
        };
        let mapped = self.map_everywhere(descriptor, &file);
        if mapped.is_err() {
            // Some of it may be there, or come; whoever looks next, we perhaps, may take it away.
            forsake(&shared);
        }
        mapped.map(|()| shared)
    }

    fn map_everywhere(&mut self, descriptor: u64, file: &File) -> Result<(), Lost> {
        let pid = self.pid;
        let is_there = || is_same(pid, descriptor, file);
        for (step, calls) in [(LISTED, self.list_calls(descriptor)), (ALL, self.calls(descriptor))] {
            if let Err(lost) = self.run(&calls, &is_there) {
                let made = self.made(step, file)?;
                // Where that fails, too, it is found as the forsaken memory of a trimtab that was killed.
                let _left = self.take_back(&made, descriptor, file);
                return Err(lost);
            }
            let is_mapped = || position(pid, descriptor) == Some(step) || !is_there();
            wait_until(pid, "map shared memory", is_mapped)?;
            self.check(step, descriptor, file)?;
        }
        self.run_and_close(self.last_calls(), descriptor, &is_there)?;
        Ok(wait_until(pid, "close shared memory", || !is_there())?)
    }

    /// The descriptor that the target has made, by the first look that sees it. Some programs close numbers twice, and so
    /// one that they don't know: then the calls are over and nothing is there.
    fn wait_for_descriptor(&mut self, known: &[u64]) -> Result<u64, Lost> {
        let deadline = Instant::now() + DONE_LIMIT;
        loop {
            let look_closer = Instant::now() + LOOK_CLOSER_EVERY;
            while Instant::now() < look_closer {
                if let Some(made) = made_since(self.pid, known) {
                    return Ok(made);
                }
                std::thread::sleep(LOOK_EVERY);
            }
            if Instant::now() > deadline {
                return Err(
                    Error::Idle { pid: self.pid, what: "make shared memory", limit_s: DONE_LIMIT.as_secs() }.into()
                );
            }
            self.let_go();
            let stopped = Stopped::stop(self.pid)?;
            let is_over = !is_making_calls(&stopped, &self.gadgets);
            let made = made_since(self.pid, known);
            self.pause_ns += stopped.resume();
            if is_over {
                return made.ok_or(Lost::Descriptor);
            }
        }
    }

    /// Makes `calls` and closes the descriptor, unless the program has done that by itself.
    fn run_and_close(
        &mut self,
        mut calls: Vec<Call>,
        descriptor: u64,
        is_there: &dyn Fn() -> bool,
    ) -> Result<(), Lost> {
        calls.push(close(descriptor));
        match self.run(&calls, is_there) {
            Err(Lost::Descriptor) => {
                calls.pop();
                self.run(&calls, &|| true)
            }
            other => other,
        }
    }

    /// Sends one thread through `calls`, unless `is_there` says that the descriptor they are about is not our file any
    /// more. It is asked while that thread is held.
    ///
    /// A thread without room on its stack is not the only one, and may have room in a moment: then all are held, and one
    /// that has room is taken.
    fn run(&mut self, calls: &[Call], is_there: &dyn Fn() -> bool) -> Result<(), Lost> {
        if calls.is_empty() || self.run_still(calls, is_there)? {
            return Ok(());
        }
        for attempt in 0.. {
            let stopped = if attempt == 0 { Stopped::stop_one(self.pid) } else { Stopped::stop(self.pid) }?;
            if !is_there() {
                return Err(Lost::Descriptor);
            }
            if is_first(calls) && is_making_calls(&stopped, &self.gadgets) {
                self.pause_ns += stopped.resume();
                std::thread::sleep(rest(attempt));
                if attempt + 1 >= TRIES_MAX {
                    return Err(Error::CallsPending { pid: self.pid }.into());
                }
                continue;
            }
            // If memory that a killed trimtab asked for came without it, not all of it was found in the process.
            if is_first(calls) && attempt > 0 && self.has_more_of_ours()? {
                return Err(Error::CallsPending { pid: self.pid }.into());
            }
            match stopped.resume_through(calls, self.gadgets, self.maps) {
                Err(trimtab_os::Error::NoStack { .. } | trimtab_os::Error::NotNow { .. })
                    if attempt + 1 < TRIES_MAX =>
                {
                    std::thread::sleep(rest(attempt));
                }
                held => {
                    self.pause_ns += held?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has the process make `calls` without running on; false if it runs, or can't do so and is let go.
    fn run_still(&mut self, calls: &[Call], is_there: &dyn Fn() -> bool) -> Result<bool, Lost> {
        let Some(stopped) = &mut self.still else { return Ok(false) };
        if !is_there() {
            return Err(Lost::Descriptor);
        }
        if !(is_first(calls) && is_making_calls(stopped, &self.gadgets)) {
            match stopped.make_calls(calls, self.gadgets, self.maps) {
                Err(trimtab_os::Error::NoStack { .. } | trimtab_os::Error::NotNow { .. }) => {}
                made => return Ok(made.map(|()| true)?),
            }
        }
        self.let_go();
        Ok(false)
    }

    /// Lets a process go that stands still.
    fn let_go(&mut self) {
        self.pause_ns += self.still.take().map_or(0, Stopped::resume);
    }

    /// True if something of a trimtab's has come since the process was looked at.
    fn has_more_of_ours(&self) -> Result<bool, Error> {
        let ours = |maps: &MappingTable| maps.0.iter().filter(|mapping| is_ours(mapping)).count();
        Ok(ours(&MappingTable::of(self.pid)?) > ours(self.maps) || !open_descriptors(self.pid).is_empty())
    }

    /// Maps what lists all the rest.
    fn list_calls(&self, descriptor: u64) -> Vec<Call> {
        let header = map_file(self.layout.header.0, self.layout.geometry.data_length, READ_WRITE, descriptor, 0);
        vec![header, seek(descriptor, LISTED)]
    }

    /// Maps the rest.
    fn calls(&self, descriptor: u64) -> Vec<Call> {
        let mut calls = Vec::new();
        let mut offset = self.layout.geometry.data_length;
        for place in &self.layout.places {
            // The gate first: with nothing of ours beside it yet, the kernel has no reason to put another thread's new
            // memory exactly there.
            calls.push(map(place.gate.0, PAGE, READ_WRITE, PRIVATE_ANONYMOUS | NO_RESERVE, u64::MAX, 0));
            calls.push(map_file(place.code.0, place.capacity, READ_EXECUTE, descriptor, offset));
            offset += place.capacity;
        }
        calls.push(seek(descriptor, ALL));
        calls
    }

    /// Only once the gates are known to be ours: advice on a page of the program's own would stay there.
    fn last_calls(&self) -> Vec<Call> {
        let gates = self.layout.places.iter().map(|place| place.gate.0);
        gates.map(|gate| Call::new("madvise", MADVISE, [gate, PAGE, WIPE_ON_FORK])).collect()
    }

    /// Every call from the first to the last, those that take all of it back included.
    fn all_calls(&self, descriptor: u64) -> Vec<Call> {
        let mappings: Vec<(u64, u64)> = self.wanted(ALL).iter().map(|wanted| (wanted.start, wanted.length)).collect();
        let made = [vec![create_file()], self.list_calls(descriptor), self.calls(descriptor), self.last_calls()];
        let taken_back = [vec![close(descriptor)], unmap_calls(&mappings)];
        made.into_iter().chain(taken_back).flatten().collect()
    }

    /// Nothing is written before every mapping is seen to be where it should be; otherwise those made are taken back.
    fn check(&mut self, step: u64, descriptor: u64, file: &File) -> Result<(), Lost> {
        let wanted = self.wanted(step);
        let made = self.made(step, file)?;
        if made.len() == wanted.len() {
            return Ok(());
        }
        let now = MappingTable::of(self.pid)?;
        self.take_back(&made, descriptor, file)?;
        let missing = || wanted.iter().filter(|wanted| !made.contains(&(wanted.start, wanted.length)));
        if !missing().any(|wanted| wanted.is_taken(&now)) {
            let bytes = missing().map(|wanted| wanted.length).sum();
            let limit = mapping_limit(self.pid, bytes);
            return Err(Error::NoMemory { pid: self.pid, bytes, limit }.into());
        }
        Err(Error::NoRoom { pid: self.pid, module: "memory".into() }.into())
    }

    /// The mappings that should be behind `step`, as far as they are there: address and length of each.
    fn made(&self, step: u64, file: &File) -> Result<Vec<(u64, u64)>, Error> {
        let wanted = self.wanted(step);
        let now = MappingTable::around(self.pid, &wanted.iter().map(|wanted| wanted.start).collect::<Vec<u64>>())?;
        let inode = file.metadata().map(|data| data.ino()).unwrap_or_default();
        let made = wanted
            .into_iter()
            .filter(|wanted| self.maps.at(wanted.start).is_none())
            .filter(|wanted| now.at(wanted.start).is_some_and(|found| wanted.is(found, inode)));
        Ok(made.map(|wanted| (wanted.start, wanted.length)).collect())
    }

    /// The list of what is mapped goes last.
    fn take_back(&mut self, made: &[(u64, u64)], descriptor: u64, file: &File) -> Result<(), Lost> {
        let pid = self.pid;
        self.run_and_close(unmap_calls(made), descriptor, &|| is_same(pid, descriptor, file))
    }

    fn wanted(&self, step: u64) -> Vec<Wanted> {
        let wanted = |start: u64, length: u64, is_ours: bool| Wanted { start, length, is_ours };
        let mut all = vec![wanted(self.layout.header.0, self.layout.geometry.data_length, true)];
        let rest = if step == LISTED { &[] } else { &self.layout.places[..] };
        for place in rest {
            all.push(wanted(place.gate.0, PAGE, false));
            all.push(wanted(place.code.0, place.capacity, true));
        }
        all
    }
}

/// Why memory could not be mapped.
enum Lost {
    /// The program has closed the descriptor of its file, of which it knows nothing: it may go better the next time.
    Descriptor,
    Other(Error),
}

impl<E: Into<Error>> From<E> for Lost {
    fn from(error: E) -> Lost {
        Lost::Other(error.into())
    }
}

/// A mapping as it should be: of our shared memory, or a gate.
struct Wanted {
    start: u64,
    length: u64,
    is_ours: bool,
}

impl Wanted {
    /// True if something lies where it should be.
    fn is_taken(&self, maps: &MappingTable) -> bool {
        maps.0.iter().any(|found| found.start < self.start + self.length && self.start < found.end)
    }

    fn is(&self, found: &Mapping, inode: u64) -> bool {
        let expected_inode = if self.is_ours { inode } else { 0 };
        found.start == self.start && found.length() == self.length && found.inode == expected_inode
    }
}

/// Checks that every thread of `pid` may make the calls that a session has it make, with our very flags. Addresses are
/// not known yet and stand for those to come: whoever makes a call is checked once more, with its own.
///
/// # Errors
/// [`Error::Os`], with the call that is not allowed; nothing was changed.
pub fn check_calls(pid: Pid) -> Result<(), Error> {
    const SOMEWHERE: ProcAddr = ProcAddr(1 << 32);
    let geometry = Geometry { data_length: PAGE, file_length: 2 * PAGE, ..Geometry::default() };
    let place = ArenaPlace { gate: SOMEWHERE + PAGE, code: SOMEWHERE + 2 * PAGE, capacity: PAGE };
    let layout =
        Layout { header: SOMEWHERE, places: vec![place], geometry, plan: Plan::default(), frames_are_whole: false };
    let gadgets = Gadgets { system_call: 0, signal_return: 0 };
    let mapper = Mapper { pid, gadgets, maps: &MappingTable::default(), layout: &layout, still: None, pause_ns: 0 };
    Ok(trimtab_os::check_all_calls(pid, &mapper.all_calls(FIRST_FREE_DESCRIPTOR))?)
}

/// Makes the shared memory's file.
fn create_file() -> Call {
    Call { text: Some(MEMFD_NAME), ..Call::new("memfd_create", MEMFD_CREATE, [0, CLOSE_ON_EXEC]) }
}

/// Nothing of ours is in the process before it has made the file.
fn is_first(calls: &[Call]) -> bool {
    calls.iter().any(|call| call.number == MEMFD_CREATE)
}

fn map(address: u64, length: u64, protection: u64, flags: u64, file: u64, offset: u64) -> Call {
    Call::new("mmap", MMAP, [address, length, protection, flags | FIXED_NOREPLACE, file, offset])
}

/// Maps a part of the shared memory's file.
fn map_file(address: u64, length: u64, protection: u64, descriptor: u64, offset: u64) -> Call {
    map(address, length, protection, SHARED, descriptor, offset)
}

/// Moves a descriptor's position, by which it is seen from outside that the calls before are done.
fn seek(descriptor: u64, position: u64) -> Call {
    Call::new("lseek", LSEEK, [descriptor, position, 0])
}

/// A descriptor of a trimtab's memory that was not `known`.
fn made_since(pid: Pid, known: &[u64]) -> Option<u64> {
    open_descriptors(pid).into_iter().find(|descriptor| !known.contains(descriptor))
}

/// Where a descriptor of `pid` stands in its file; `None` if it is not open.
fn position(pid: Pid, descriptor: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

/// True if `descriptor` of `pid` is open on `file`.
fn is_same(pid: Pid, descriptor: u64, file: &File) -> bool {
    let there = std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}"));
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    match (there, file.metadata()) {
        (Ok(there), Ok(ours)) => identity(there) == identity(ours),
        _ => false,
    }
}

/// Says in memory of ours that nobody works with it any more, though its maker may run on.
pub(crate) fn forsake(shared: &SharedMapping) {
    View::new(shared.words()).header().monitor_pid.store(0, Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::describe;
    use crate::leftover::{self, Leftover};
    use crate::remove::joined;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use trimtab_os::{Memory, find_gadgets};
    use trimtab_stub::layout::{MAGIC, Needs};

    const DATA_BYTES: u64 = 0x10000;

    /// Ends with the test, also one that fails.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().expect("kills");
            self.0.wait().expect("ends");
        }
    }

    /// A program that computes, or one that sleeps: a thread of each makes its calls in its own way.
    fn start(program: &str, arguments: &[&str]) -> (Running, Pid) {
        let child = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = Running(child.expect("starts"));
        let pid = Pid(child.0.id() as i32);
        let own = std::fs::read_link("/proc/self/exe").ok();
        let runs = || std::fs::read_link(format!("/proc/{pid}/exe")).ok().filter(|exe| Some(exe) != own.as_ref());
        // Before it writes or sleeps it still maps libraries and tables.
        let has_begun = || {
            let text = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            text("syscall").starts_with("230 ")
                || text("io").lines().any(|line| line.starts_with("wchar: ") && line != "wchar: 0")
        };
        wait_until(pid, "start", || runs().is_some() && has_begun() && gadgets(pid).is_some()).expect("starts");
        (child, pid)
    }

    fn gadgets(pid: Pid) -> Option<Gadgets> {
        find_gadgets(pid, &Memory::open(pid).ok()?, &MappingTable::of(pid).ok()?).ok()
    }

    fn mapper<'a>(pid: Pid, maps: &'a MappingTable, layout: &'a Layout) -> Mapper<'a> {
        Mapper { pid, gadgets: gadgets(pid).expect("has"), maps, layout, still: None, pause_ns: 0 }
    }

    fn layout(header: u64, gate: u64) -> Layout {
        let (header, gate) = (ProcAddr(header), ProcAddr(gate));
        let place = ArenaPlace { gate, code: gate + PAGE, capacity: PAGE };
        let geometry = Geometry { data_length: DATA_BYTES, file_length: DATA_BYTES + PAGE, ..Geometry::default() };
        Layout { header, places: vec![place], geometry, plan: Plan::default(), frames_are_whole: false }
    }

    fn gaps(maps: &MappingTable) -> (u64, u64) {
        let text = maps.0.iter().find(|mapping| mapping.executable).expect("has code");
        let near = text.start..text.end;
        let gate = maps.gap_near(near, 4 * PAGE, 1 << 30, 1 << 20).expect("a gap");
        (far_gap(maps, DATA_BYTES), gate)
    }

    /// Far from the program and its heap.
    fn far_gap(maps: &MappingTable, length: u64) -> u64 {
        maps.gap_near(1 << 44..(1 << 44) + PAGE, length, 1 << 46, 1 << 20).expect("a gap")
    }

    fn is_untouched(pid: Pid, before: &MappingTable) -> bool {
        let now = MappingTable::of(pid).expect("maps");
        now.0.len() == before.0.len() && open_descriptors(pid).is_empty()
    }

    #[test]
    fn memory_is_mapped_and_taken_back() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let (header, gate) = gaps(&maps);
            let layout = layout(header, gate);
            let mut mapper = mapper(pid, &maps, &layout);
            let shared = mapper.map(&|view| view.write_bytes(0, &[7; 8])).expect("maps");
            assert!(mapper.pause_ns > 0);
            let memory = Memory::open(pid).expect("memory");
            assert_eq!(memory.read_vec(header, 8).expect("reads"), [7; 8], "{program} sees what was filled in");
            assert_eq!(memory.read_vec(gate, 8).expect("reads"), [0; 8], "the gate is closed");
            assert_eq!(open_descriptors(pid), [0u64; 0], "{program}");
            drop(shared);
            assert!(mapper.run(&unmap_calls(&[(header, DATA_BYTES), (gate, 2 * PAGE)]), &|| true).is_ok());
            wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
            drop(child);
        }
    }

    /// It has not run on meanwhile, and goes on where it stood.
    #[test]
    fn memory_is_mapped_into_a_process_that_stands_still() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let stopped = Stopped::stop(pid).expect("stops");
            let maps = MappingTable::of(pid).expect("maps");
            let (header, gate) = gaps(&maps);
            let layout = layout(header, gate);
            let before = written_bytes(pid);
            let mut mapper = Mapper { still: Some(stopped), ..mapper(pid, &maps, &layout) };
            let shared = mapper.map(&|view| view.write_bytes(0, &[7; 8])).expect("maps");
            std::thread::sleep(Duration::from_millis(5));
            assert!(mapper.still.is_some() && written_bytes(pid) == before, "{program} stands still");
            let memory = Memory::open(pid).expect("memory");
            assert_eq!(memory.read_vec(header, 8).expect("reads"), [7; 8], "{program} sees what was filled in");
            assert_eq!(open_descriptors(pid), [0u64; 0], "{program}");
            mapper.let_go();
            wait_until(pid, "run on", || program == "sleep" || written_bytes(pid) > before).expect(program);
            drop(shared);
            assert!(mapper.run(&unmap_calls(&[(header, DATA_BYTES), (gate, 2 * PAGE)]), &|| true).is_ok());
            wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
            drop(child);
        }
    }

    fn written_bytes(pid: Pid) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
        text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).expect("a number")
    }

    /// As if its maker had been killed before the descriptor was finished: nothing stays, no gate either.
    #[test]
    fn unfinished_memory_is_undone() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let (header, gate) = gaps(&maps);
            let layout = layout(header, gate);
            let mut mapper = mapper(pid, &maps, &layout);
            drop(mapper.map(&|_| {}).expect("maps"));
            let found = leftover::find(pid).expect("looks");
            assert!(matches!(found, Leftover::Unfinished(_)), "{program}");
            leftover::undo(pid, &found).expect("undoes");
            wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
            drop(child);
        }
    }

    /// Two arenas, and room for the list of them.
    fn two_arenas(maps: &MappingTable) -> Layout {
        let (_, gate) = gaps(maps);
        let place = |gate: u64| ArenaPlace { gate: ProcAddr(gate), code: ProcAddr(gate) + PAGE, capacity: PAGE };
        let places = vec![place(gate), place(gate + 3 * PAGE)];
        let needs = Needs {
            patches: 0,
            probes: 1,
            functions: 1,
            ranks: 1,
            details: 0,
            code: places.iter().map(|place| place.capacity).sum(),
            threads: 1,
            areas: None,
            regions: false,
        };
        let geometry = Geometry::for_needs(&needs);
        Layout {
            header: ProcAddr(far_gap(maps, geometry.data_length)),
            places,
            geometry,
            plan: Plan::default(),
            frames_are_whole: false,
        }
    }

    /// As far as a trimtab gets that is killed behind call number `count` of those that map.
    fn map_in_part(mapper: &mut Mapper<'_>, count: usize) -> u64 {
        let (pid, known) = (mapper.pid, open_descriptors(mapper.pid));
        assert!(mapper.run(&[create_file()], &|| true).is_ok());
        let Ok(descriptor) = mapper.wait_for_descriptor(&known) else { panic!("it has a descriptor") };
        let file = open_file_of(pid, descriptor).expect("opens");
        let shared = SharedMapping::create(&file, mapper.layout.geometry.file_length, pid).expect("maps");
        let view = View::new(shared.words());
        describe(view, mapper.layout, &[]);
        view.header().magic.store(MAGIC, Release);
        forsake(&shared);
        let mut first = mapper.list_calls(descriptor);
        let mut rest = mapper.calls(descriptor);
        rest.truncate(count.saturating_sub(first.len()));
        first.truncate(count);
        for calls in [first, rest] {
            assert!(mapper.run(&calls, &|| true).is_ok());
        }
        // Whoever sends a thread on before it has made its calls has the later ones made first.
        leftover::wait_for_calls(pid).expect("it makes them");
        descriptor
    }

    fn undo_all(pid: Pid, before: &MappingTable, name: &str) {
        let found = leftover::find_also_coming(pid).expect("looks");
        leftover::undo(pid, &found).unwrap_or_else(|error| panic!("{name}: {error}"));
        let now = MappingTable::of(pid).expect("maps");
        let was_there = |one: &&Mapping| before.0.iter().any(|old| (old.start, old.end) == (one.start, one.end));
        let left: Vec<&Mapping> = now.0.iter().filter(|one| !was_there(one)).collect();
        assert_eq!((left, open_descriptors(pid)), (vec![], vec![]), "{name}; found {found:?}");
        assert_eq!(now.0.len(), before.0.len(), "{name}");
    }

    /// A thread that sleeps makes its calls one by one, and a kill may come behind any of them.
    #[test]
    fn killed_behind_any_call_nothing_stays() {
        for (program, argument) in [("sleep", "100"), ("yes", "a")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let layout = two_arenas(&maps);
            let mut mapper = mapper(pid, &maps, &layout);
            let all = mapper.list_calls(0).len() + mapper.calls(0).len();
            assert_eq!(all, 2 + 2 * 2 + 1, "header, position, gates with their code, position");
            for count in 0..=all {
                map_in_part(&mut mapper, count);
                undo_all(pid, &maps, &format!("{program}, {count} calls that map"));
            }
            let mappings: Vec<(u64, u64)> =
                mapper.wanted(ALL).iter().map(|wanted| (wanted.start, wanted.length)).collect();
            // As they are taken back when one of them failed, and as they are unmapped at the end.
            for (way, calls) in [("one by one", unmap_calls(&mappings)), ("joined", unmap_calls(&joined(&mappings)))] {
                for count in 0..=calls.len() {
                    let descriptor = map_in_part(&mut mapper, all);
                    if way == "joined" {
                        let last = [mapper.last_calls(), vec![close(descriptor)]].concat();
                        assert!(mapper.run(&last, &|| true).is_ok());
                        leftover::wait_for_calls(pid).expect("it makes them");
                    }
                    assert!(mapper.run(&calls[..count], &|| true).is_ok());
                    undo_all(pid, &maps, &format!("{program}, {count} calls that unmap {way}"));
                }
            }
            drop(child);
        }
    }

    #[test]
    fn a_place_that_was_taken_meanwhile_is_left_alone() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let taken = maps.0.iter().find(|mapping| mapping.executable).expect("has code").start;
            let text = |memory: &Memory| memory.read_vec(taken, PAGE as usize).expect("reads");
            let memory = Memory::open(pid).expect("memory");
            let before = text(&memory);
            // Its code would lie on the program's own.
            let layout = layout(gaps(&maps).0, taken - PAGE);
            let mut mapper = mapper(pid, &maps, &layout);
            let error = mapper.map(&|_| {}).expect_err("is taken");
            assert!(matches!(error, Error::NoRoom { .. }), "{error}");
            wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
            assert_eq!(text(&memory), before, "{program}");
            drop(child);
        }
    }

    #[test]
    fn a_limit_of_memory_is_named_and_nothing_stays() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let (header, gate) = gaps(&maps);
            let layout = layout(header, gate);
            let mut mapper = mapper(pid, &maps, &layout);
            let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("reads");
            let pages: u64 = sizes.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
            let now = pages * PAGE;
            // Room for nothing, and for all but the code.
            for (room, missing) in [(0, DATA_BYTES), (DATA_BYTES + PAGE, PAGE)] {
                let limit = format!("--as={}:", now + room);
                let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status();
                assert!(set.expect("runs").success());
                let error = mapper.map(&|_| {}).expect_err("is too much");
                assert!(matches!(error, Error::NoMemory { bytes, .. } if bytes == missing), "{program} {room} {error}");
                wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
            }
            drop(child);
        }
    }

    /// Nothing of ours is anywhere while the list of it is nowhere: whoever kills us at any moment leaves no page that
    /// nobody knows of.
    #[test]
    fn without_its_list_nothing_is_mapped() {
        for (program, argument) in [("yes", "a"), ("sleep", "100")] {
            let (child, pid) = start(program, &[argument]);
            let maps = MappingTable::of(pid).expect("maps");
            let taken = maps.0.iter().find(|mapping| mapping.executable).expect("has code").start;
            let layout = layout(taken, gaps(&maps).1);
            let mut mapper = mapper(pid, &maps, &layout);
            let (is_over, lone) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let now = MappingTable::of(pid).expect("maps");
                        lone.fetch_or(now.at(layout.places[0].gate.0).is_some(), Relaxed);
                    }
                });
                for _ in 0..50 {
                    let error = mapper.map(&|_| {}).expect_err("is taken");
                    assert!(matches!(error, Error::NoRoom { .. }), "{error}");
                    wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect(program);
                }
                is_over.store(true, Relaxed);
            });
            assert!(!lone.into_inner(), "{program}: a gate without its list");
            drop(child);
        }
    }

    /// It closes numbers that it doesn't know, as bash does behind a pipeline, and ends if one that it opened is closed.
    const CLOSES_TWICE: &str =
        "echo begun; while sleep 0.001; exec 3>&-; exec 3</dev/null; sleep 0.001; : <&3; do exec 3>&-; done";

    #[test]
    fn a_program_that_closes_our_descriptor_keeps_its_own() {
        let (child, pid) = start("sh", &["-c", CLOSES_TWICE]);
        let maps = MappingTable::of(pid).expect("maps");
        let (header, gate) = gaps(&maps);
        let possible = layout(header, gate);
        let mut impossible = layout(header, gate);
        impossible.geometry.file_length = u64::MAX;
        let mut made = 0;
        for round in 0..400 {
            // Each other time the file can't be made so long, and the descriptor is closed at once.
            let layout = if round % 2 == 0 { &possible } else { &impossible };
            let gadgets = gadgets(pid).expect("it runs, and does not end because a file that it opened was closed");
            let mut mapper = Mapper { pid, gadgets, maps: &maps, layout, still: None, pause_ns: 0 };
            if let Ok(shared) = mapper.map(&|_| {}) {
                made += 1;
                drop(shared);
                assert!(mapper.run(&unmap_calls(&[(header, DATA_BYTES), (gate, 2 * PAGE)]), &|| true).is_ok());
            }
            wait_until(pid, "unmap", || is_untouched(pid, &maps)).expect("is as before");
        }
        assert!(made > 0, "it closes some of them, not all");
        drop(child);
    }
}
