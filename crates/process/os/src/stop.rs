//! Holding all threads of a process still, and letting them go.
//!
//! Threads are seized (which stops nothing), then interrupted, and the list is read again until no new thread shows up.
//! Dropping a [`Stopped`] lets
//! every thread go, whatever happened.
//!
//! Next: `inject` borrows a stopped thread to make system calls.

use crate::error::Error;
use crate::memory::Memory;
use crate::proc::{permission_hint, thread_ids, tracer_of};
use crate::sys::{self, Registers};
use std::time::Duration;
use trimtab_types::Pid;

/// How long one thread may take to stop before everything is let go again.
const STOP_LIMIT_MS: u64 = 2000;
/// Sleep between two looks at a thread that may take long.
const LOOK_US: u64 = 100;
/// Rounds of looking for new threads; each round only finds threads that a running one has just created.
const ROUNDS_MAX: usize = 100;
/// Signals one thread may receive between our request to stop and its stop.
const SIGNALS_MAX: usize = 1000;

/// One held thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Thread id.
    pub tid: i32,
    /// Registers when it stopped (or as set since).
    pub registers: Registers,
}

impl Thread {
    /// Where it executes.
    pub fn instruction_pointer(&self) -> u64 {
        self.registers.rip
    }

    /// Whether it was interrupted inside a system call that will be restarted.
    pub fn is_in_system_call(&self) -> bool {
        (self.registers.orig_rax as i64) >= 0
    }
}

/// A process whose threads are all held.
#[derive(Debug)]
pub struct Stopped {
    pid: Pid,
    threads: Vec<Thread>,
    memory: Memory,
    _place: Place,
    since_ns: u64,
    /// Nanoseconds it took until every thread stood still.
    pub stopping_ns: u64,
}

impl Stopped {
    /// Stops every thread of `pid`. On any error all threads are let go again.
    pub fn stop(pid: Pid) -> Result<Self, Error> {
        let memory = Memory::open(pid)?;
        let place = Place::beside(pid);
        let since_ns = sys::monotonic_ns();
        let mut stopped = Stopped { pid, threads: Vec::new(), memory, _place: place, since_ns, stopping_ns: 0 };
        for _ in 0..ROUNDS_MAX {
            if !stopped.stop_new_threads()? {
                stopped.stopping_ns = sys::monotonic_ns() - stopped.since_ns;
                return if stopped.threads.is_empty() { Err(Error::Gone { pid }) } else { stopped.checked() };
            }
        }
        Err(Error::WillNotStop { pid, tid: pid.0, limit_ms: STOP_LIMIT_MS, state: 'R' })
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its threads.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Writes text while all threads are held.
    pub fn write_text(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write_text(self.threads[0].tid, address, bytes)
    }

    /// Lets thread number `index` go on at `address` instead of where it stood.
    pub fn move_thread(&mut self, index: usize, address: u64) -> Result<(), Error> {
        let pid = self.pid;
        let thread = &mut self.threads[index];
        let mut registers = thread.registers;
        registers.rip = address;
        sys::set_registers(thread.tid, &registers).map_err(|source| Error::Call { call: "ptrace", pid, source })?;
        thread.registers = registers;
        Ok(())
    }

    /// Lets all threads go; the time they were held, nanoseconds.
    pub fn resume(mut self) -> u64 {
        self.let_go();
        sys::monotonic_ns() - self.since_ns
    }

    fn checked(self) -> Result<Self, Error> {
        for thread in &self.threads {
            // Code segment 0x33 is 64-bit user code; 0x23 is the compatibility segment.
            if thread.registers.cs != 0x33 {
                return Err(Error::Not64Bit { pid: self.pid });
            }
        }
        Ok(self)
    }

    /// Seizes and stops threads not held yet; whether there were any.
    fn stop_new_threads(&mut self) -> Result<bool, Error> {
        let known: Vec<i32> = self.threads.iter().map(|thread| thread.tid).collect();
        let new: Vec<i32> = thread_ids(self.pid)?.into_iter().filter(|tid| !known.contains(tid)).collect();
        let mut seized = Vec::new();
        for tid in &new {
            match self.seize(*tid) {
                Ok(true) => seized.push(*tid),
                Ok(false) => {}
                Err(error) => {
                    self.release_unstopped(&seized);
                    return Err(error);
                }
            }
        }
        for (index, tid) in seized.iter().enumerate() {
            match self.wait_for_stop(*tid) {
                Ok(Some(thread)) => self.threads.push(thread),
                Ok(None) => {}
                Err(error) => {
                    self.release_unstopped(&seized[index..]);
                    return Err(error);
                }
            }
        }
        Ok(!seized.is_empty())
    }

    /// Seizes and interrupts one thread; false if it has ended.
    fn seize(&self, tid: i32) -> Result<bool, Error> {
        match sys::seize(tid).and_then(|()| sys::interrupt(tid)) {
            Ok(()) => Ok(true),
            Err(source) if source.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(source) if source.raw_os_error() == Some(libc::EPERM) => Err(self.refusal(tid)),
            Err(source) => Err(Error::Call { call: "PTRACE_SEIZE", pid: self.pid, source }),
        }
    }

    fn refusal(&self, tid: i32) -> Error {
        match tracer_of(Pid(tid)) {
            Some((tracer, name)) => Error::OtherTracer { pid: self.pid, tracer, name },
            None => Error::NotAllowed { pid: self.pid, hint: permission_hint(self.pid) },
        }
    }

    /// Waits until `tid` stands still; `None` if it ended instead. Signals that arrive first are delivered at once: the
    /// thread then stops at the first instruction of its handler.
    fn wait_for_stop(&self, tid: i32) -> Result<Option<Thread>, Error> {
        for _ in 0..SIGNALS_MAX {
            let Some(status) = self.wait(tid)? else { return Ok(None) };
            if !libc::WIFSTOPPED(status) {
                return Ok(None);
            }
            let event = status >> 16;
            let signal = libc::WSTOPSIG(status);
            if event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP {
                let _ = sys::detach(tid, 0);
                return Err(Error::JobControlStopped { pid: self.pid });
            }
            if event == libc::PTRACE_EVENT_STOP {
                return Ok(sys::registers(tid).ok().map(|registers| Thread { tid, registers }));
            }
            if sys::resume(tid, signal).is_err() {
                return Ok(None);
            }
        }
        Err(Error::WillNotStop { pid: self.pid, tid, limit_ms: STOP_LIMIT_MS, state: 'R' })
    }

    /// Waits for the next report of `tid`; `None` if it has ended.
    ///
    /// Blocks, because then the kernel hands this processor to the thread at once. A thread in uninterruptible sleep may
    /// take for ever, so that one is looked at now and then until the time limit.
    pub(crate) fn wait(&self, tid: i32) -> Result<Option<i32>, Error> {
        let started = sys::monotonic_ns();
        // Of many threads most have stopped while we waited for the first.
        let mut may_block = false;
        loop {
            match if may_block { sys::block_wait(tid) } else { sys::poll_wait(tid) } {
                Ok(Some(status)) => return Ok(Some(status)),
                Ok(None) => {}
                Err(source) if source.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                Err(source) => return Err(Error::Call { call: "waitpid", pid: self.pid, source }),
            }
            if sys::monotonic_ns() - started > STOP_LIMIT_MS * 1_000_000 {
                let state = thread_state(self.pid, tid);
                return Err(Error::WillNotStop { pid: self.pid, tid, limit_ms: STOP_LIMIT_MS, state });
            }
            if may_block || thread_state(self.pid, tid) == 'D' {
                std::thread::sleep(Duration::from_micros(LOOK_US));
            }
            may_block = thread_state(self.pid, tid) != 'D';
        }
    }

    /// Waits for the report of a thread that has just been let run: it cannot be in uninterruptible sleep.
    pub(crate) fn wait_running(&self, tid: i32) -> Result<Option<i32>, Error> {
        loop {
            match sys::block_wait(tid) {
                Ok(Some(status)) => return Ok(Some(status)),
                Ok(None) => {}
                Err(source) if source.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                Err(source) => return Err(Error::Call { call: "waitpid", pid: self.pid, source }),
            }
        }
    }

    /// Detaches from threads that were seized but have not reported a stop: they must stop before the kernel lets go.
    fn release_unstopped(&self, tids: &[i32]) {
        for tid in tids {
            let _ = self.wait(*tid);
            let _ = sys::detach(*tid, 0);
        }
    }

    pub(crate) fn replace_registers(&mut self, index: usize, registers: Registers) {
        self.threads[index].registers = registers;
    }

    fn let_go(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that has ended meanwhile needs no letting go.
            let _ = sys::detach(thread.tid, 0);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// This thread runs on the processor of the target's main thread: target and monitor then take turns there, and the
/// target never queues behind another busy rank. Dropping it lifts the restriction.
#[derive(Debug)]
struct Place {
    before: Option<libc::cpu_set_t>,
}

impl Place {
    fn beside(pid: Pid) -> Self {
        let before = sys::affinity();
        let processor = last_processor(pid).and_then(sys::one_processor);
        let moved = before.is_some() && processor.is_some_and(|set| sys::set_affinity(&set));
        Place { before: before.filter(|_| moved) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            sys::set_affinity(before);
        }
    }
}

/// The processor the main thread ran on last: field 39 of its stat line.
fn last_processor(pid: Pid) -> Option<usize> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(36)?.parse().ok()
}

fn thread_state(pid: Pid, tid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('?')
}
