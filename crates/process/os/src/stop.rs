//! Holding all threads of a process still, and letting them go.
//!
//! All threads are seized first, which stops nothing; then they are interrupted, those that sleep before those that
//! compute, and new ones are looked for until there are none. Dropping a [`Stopped`] lets every thread go, whatever
//! happened. A process that job control has stopped is held as any other, and stays stopped when it is let go.
//!
//! Next: `place` for where the monitor runs meanwhile; `inject` borrows a stopped thread to make system calls.

use crate::error::Error;
use crate::filters::may_sleep_on;
use crate::guard::is_filtered;
use crate::memory::Memory;
use crate::naps::Naps;
use crate::precedence::Precedence;
use crate::proc::{refusal, stat_of, thread_count, thread_ids, tracer_of};
use crate::restart::{registers_to_restore, restart_state};
use crate::sys::{self, Registers};
use crate::thread::Thread;
use std::time::{Duration, Instant};
use trimtab_types::Pid;
use trimtab_types::procfs::State;

/// How long one thread may take to stop before everything is let go again.
const STOP_LIMIT_MS: u64 = 2000;
/// Another trimtab that looks at a stack, or a profiler, traces a process for milliseconds, again and again: so long one is tried
/// to come in between before it is refused,
const TRACED_MAX: Duration = Duration::from_secs(1);
/// and so long where what is in the process has to come out.
const TRACED_RESTORE_MAX: Duration = Duration::from_secs(30);
/// Time between two tries; it doubles up to the maximum.
const TRACED_REST: Duration = Duration::from_micros(200);
const TRACED_REST_MAX: Duration = Duration::from_millis(5);
/// A refusal whose tracer is gone by then is asked for again, so often.
const REFUSALS_MAX: usize = 10;
/// How long the end of threads that were traced is waited for; a process may write a large core file first.
const BURY_LIMIT_MS: u64 = 5000;
/// Sleep between two looks at threads that end.
const LOOK_US: u64 = 100;
/// Rounds of looking for new threads; each round only finds threads that a running one has just created.
const ROUNDS_MAX: usize = 100;

/// The answer of a thread that was asked to stop.
enum Answer {
    Held(Box<Thread>),
    Ended,
    GoesOn,
}

/// Tries again while somebody else traces a thread.
fn unless_traced(at_most: Duration, stop: impl Fn() -> Result<Stopped, Error>) -> Result<Stopped, Error> {
    let begun = Instant::now();
    let mut pause = TRACED_REST;
    loop {
        match stop() {
            Err(Error::OtherTracer { .. }) if begun.elapsed() < at_most => {}
            stopped => return stopped,
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(TRACED_REST_MAX);
    }
}

/// How a thread is to be stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Computes,
    Sleeps,
    /// It stops only when what it waits for has come.
    CanNotStop,
}

fn activity(pid: Pid, tid: i32) -> Activity {
    match stat_of(pid, tid).map(|stat| stat.state) {
        Some(State::Running) => Activity::Computes,
        Some(State::DiskSleep) => Activity::CanNotStop,
        _ => Activity::Sleeps,
    }
}

fn computes(pid: Pid, tid: i32) -> bool {
    activity(pid, tid) == Activity::Computes
}

/// A process of which threads are held.
#[derive(Debug)]
pub struct Stopped {
    pid: Pid,
    threads: Vec<Thread>,
    memory: Memory,
    _place: Precedence,
    /// A moment at which no thread that computes was held yet, as late as known.
    since_ns: Option<u64>,
    /// When the first thread was asked to stop.
    interrupted_ns: Option<u64>,
    /// True if job control had stopped it.
    job_stopped: bool,
    /// True if a thread ended while it was traced.
    any_ended: bool,
    /// Threads that are under filters of system calls.
    filtered: Vec<i32>,
}

impl Stopped {
    /// Stops every thread of `pid`. On any error all threads are let go again. Where somebody else traces one, that may pass:
    /// it is tried again for a second.
    ///
    /// # Errors
    /// [`Error::OtherTracer`] if it does not pass; a process that has ended, may not be traced, or does not stop.
    pub fn stop(pid: Pid) -> Result<Self, Error> {
        unless_traced(TRACED_MAX, || Stopped::try_stop(pid))
    }

    /// The same, to take something out of the process: it is tried for much longer, since what stays in would outlive us.
    ///
    /// # Errors
    /// As [`Stopped::stop`].
    pub fn stop_to_restore(pid: Pid) -> Result<Self, Error> {
        unless_traced(TRACED_RESTORE_MAX, || Stopped::try_stop(pid))
    }

    fn try_stop(pid: Pid) -> Result<Self, Error> {
        let mut known = thread_ids(pid)?;
        let mut tids = known.clone();
        let mut stopped = Stopped::prepare(pid)?;
        for _ in 0..ROUNDS_MAX {
            stopped.stop_threads(&tids)?;
            // The number is quickly had; the list is needed only if it is another than expected.
            if thread_count(pid)? != stopped.threads.len() {
                tids = thread_ids(pid)?.into_iter().filter(|tid| !known.contains(tid)).collect();
                if !tids.is_empty() {
                    known.extend(&tids);
                    continue;
                }
            }
            return if stopped.threads.is_empty() { Err(Error::Gone { pid }) } else { stopped.checked() };
        }
        Err(Error::WillNotStop { pid, tid: pid.0, limit_ms: STOP_LIMIT_MS, state: 'R' })
    }

    /// Stops one thread of `pid`, one that computes if there is one, and lets the others run.
    ///
    /// # Errors
    /// As [`Stopped::stop`].
    pub fn stop_one(pid: Pid) -> Result<Self, Error> {
        unless_traced(TRACED_MAX, || Stopped::try_stop_one(pid))
    }

    fn try_stop_one(pid: Pid) -> Result<Self, Error> {
        let mut tids = thread_ids(pid)?;
        let computing = tids.iter().position(|tid| computes(pid, *tid));
        tids.rotate_left(computing.unwrap_or(0));
        let mut stopped = Stopped::prepare(pid)?;
        for tid in tids {
            stopped.stop_threads(&[tid])?;
            if !stopped.threads.is_empty() {
                return stopped.checked();
            }
        }
        Err(Error::Gone { pid })
    }

    /// Stops the thread `tid` of `pid`, and lets the others run.
    ///
    /// # Errors
    /// As [`Stopped::stop`]; [`Error::Gone`] if the thread has ended.
    pub fn stop_thread(pid: Pid, tid: i32) -> Result<Self, Error> {
        let mut stopped = Stopped::prepare(pid)?;
        stopped.stop_threads(&[tid])?;
        if stopped.threads.is_empty() { Err(Error::Gone { pid }) } else { stopped.checked() }
    }

    fn prepare(pid: Pid) -> Result<Self, Error> {
        let memory = Memory::open(pid)?;
        Ok(Stopped {
            pid,
            threads: Vec::new(),
            memory,
            _place: Precedence::beside(pid),
            since_ns: None,
            interrupted_ns: None,
            job_stopped: false,
            any_ended: false,
            filtered: Vec::new(),
        })
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its threads that are held.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// True if job control had stopped it: then nothing runs when it is let go, until somebody continues it.
    pub fn is_job_stopped(&self) -> bool {
        self.job_stopped
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
    ///
    /// It counts from when the first thread that computed was held: threads that sleep in the kernel are stopped before,
    /// and lose nothing by sleeping on. If none computed it counts from when the first was asked to stop.
    pub fn resume(mut self) -> u64 {
        self.let_go()
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

    /// Seizes and stops `tids`; those that have ended are passed over.
    fn stop_threads(&mut self, tids: &[i32]) -> Result<(), Error> {
        self.filtered.extend(tids.iter().filter(|tid| is_filtered(self.pid, **tid)));
        let (computing, sleeping) = self.by_activity(tids)?;
        let sleeping = self.seize_all(&sleeping)?;
        let computing = self.seize_all(&computing).inspect_err(|_| self.release(&sleeping))?;
        self.threads.reserve(sleeping.len() + computing.len());
        let stopped = self.hold_sleeping(&sleeping).and_then(|()| self.hold_computing(&computing));
        if stopped.is_err() {
            let held: Vec<i32> = self.threads.iter().map(|thread| thread.tid).collect();
            let others = [sleeping, computing].concat().into_iter().filter(|tid| !held.contains(tid));
            // Letting go of those that have not stopped may take long: the others need not wait for that.
            self.let_go();
            self.release(&others.collect::<Vec<i32>>());
        }
        stopped
    }

    /// Those that compute and those that sleep. A thread that can't be stopped right now is waited for before any is
    /// seized: whom we trace stops when it can, and we might not be there any more to let it go.
    fn by_activity(&self, tids: &[i32]) -> Result<(Vec<i32>, Vec<i32>), Error> {
        let naps = Naps::begin();
        let mut pending = tids.to_vec();
        let (mut computing, mut sleeping) = (Vec::new(), Vec::with_capacity(tids.len()));
        loop {
            pending.retain(|tid| {
                match activity(self.pid, *tid) {
                    Activity::Computes => computing.push(*tid),
                    Activity::Sleeps => sleeping.push(*tid),
                    Activity::CanNotStop => return true,
                }
                false
            });
            let Some(tid) = pending.first() else { return Ok((computing, sleeping)) };
            if naps.waited_ns() > STOP_LIMIT_MS * 1_000_000 {
                return Err(self.will_not_stop(*tid));
            }
            naps.rest_always();
        }
    }

    fn seize_all(&self, tids: &[i32]) -> Result<Vec<i32>, Error> {
        let mut seized = Vec::with_capacity(tids.len());
        for tid in tids {
            match self.seize(*tid) {
                Ok(true) => seized.push(*tid),
                Ok(false) => {}
                Err(error) => {
                    self.release(&seized);
                    return Err(error);
                }
            }
        }
        Ok(seized)
    }

    /// Stops threads that sleep in the kernel: each is woken only to stop.
    fn hold_sleeping(&mut self, tids: &[i32]) -> Result<(), Error> {
        let held_before = self.threads.len();
        let asked_ns = self.interrupt(tids);
        for tid in tids {
            while let Some(status) = self.wait(*tid)? {
                match self.judge(*tid, status)? {
                    Answer::GoesOn => continue,
                    Answer::Ended => {}
                    Answer::Held(thread) => {
                        if !thread.is_in_system_call() {
                            self.since_ns.get_or_insert(asked_ns);
                        }
                        self.threads.push(*thread);
                    }
                }
                break;
            }
        }
        self.any_ended |= self.threads.len() < held_before + tids.len();
        Ok(())
    }

    /// Stops threads that compute. One that waits for a processor is not held yet, so they are looked at again and again,
    /// to know from when on they were.
    fn hold_computing(&mut self, tids: &[i32]) -> Result<(), Error> {
        let asked_ns = self.interrupt(tids);
        let (mut pending, mut looked_ns) = (tids.to_vec(), asked_ns);
        let mut naps = Naps::begun(asked_ns);
        while !pending.is_empty() {
            let look_ns = sys::monotonic_ns();
            let asks = naps.is_time_to_ask();
            let mut waiting = Vec::with_capacity(pending.len());
            for tid in pending {
                match self.look(tid)? {
                    Answer::Held(thread) => {
                        self.since_ns.get_or_insert(looked_ns);
                        self.threads.push(*thread);
                    }
                    Answer::Ended => self.any_ended = true,
                    Answer::GoesOn if asks && self.has_ended(tid) => self.any_ended = true,
                    Answer::GoesOn => waiting.push(tid),
                }
            }
            (pending, looked_ns) = (waiting, look_ns);
            if let Some(tid) = pending.first().filter(|_| look_ns - asked_ns > STOP_LIMIT_MS * 1_000_000) {
                return Err(self.will_not_stop(*tid));
            }
            if !pending.is_empty() {
                naps.rest();
            }
        }
        Ok(())
    }

    /// Asks threads to stop; when.
    fn interrupt(&mut self, tids: &[i32]) -> u64 {
        let now_ns = sys::monotonic_ns();
        if !tids.is_empty() {
            self.interrupted_ns.get_or_insert(now_ns);
        }
        for tid in tids {
            // It fails only for a thread that has ended, which the wait tells.
            let _ = sys::interrupt(*tid);
        }
        now_ns
    }

    fn look(&mut self, tid: i32) -> Result<Answer, Error> {
        match sys::poll_wait(tid) {
            Ok(Some(status)) => self.judge(tid, status),
            Ok(None) => Ok(Answer::GoesOn),
            Err(source) if source.raw_os_error() == Some(libc::ECHILD) => Ok(Answer::Ended),
            Err(source) => Err(Error::Call { call: "waitpid", pid: self.pid, source }),
        }
    }

    /// The meaning of a report of `tid`. A signal that arrived first is delivered at once: the thread then stops at
    /// the first instruction of its handler. So is a fault of its own that is still to be reported to it: whoever
    /// moved the thread now would have its handler find the fault at a place where there was none.
    fn judge(&mut self, tid: i32, status: i32) -> Result<Answer, Error> {
        if !libc::WIFSTOPPED(status) {
            return Ok(Answer::Ended);
        }
        let (event, signal) = (status >> 16, libc::WSTOPSIG(status));
        let goes_on = |signal| if sys::resume(tid, signal).is_ok() { Answer::GoesOn } else { Answer::Ended };
        if event == libc::PTRACE_EVENT_STOP {
            let is_job_stop = signal != libc::SIGTRAP;
            if !is_job_stop && sys::has_own_fault_pending(tid).unwrap_or(false) {
                // Asked to stop again now, it would do so before it takes the signal: that is reported next.
                return Ok(goes_on(0));
            }
            self.job_stopped |= is_job_stop;
            let held = |registers| Answer::Held(Box::new(Thread { tid, registers }));
            return Ok(sys::registers(tid).map_or(Answer::Ended, held));
        }
        // The stop it was asked for may have been spent before its fault was delivered.
        let _ = sys::interrupt(tid);
        Ok(goes_on(signal))
    }

    fn will_not_stop(&self, tid: i32) -> Error {
        let state = if self.is_uninterruptible(tid) { 'D' } else { 'R' };
        Error::WillNotStop { pid: self.pid, tid, limit_ms: STOP_LIMIT_MS, state }
    }

    /// Seizes one thread, which does not stop it; false if it has ended.
    fn seize(&self, tid: i32) -> Result<bool, Error> {
        for _ in 0..REFUSALS_MAX {
            match sys::seize(tid) {
                Ok(()) => return Ok(true),
                Err(source) if source.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
                // The kernel says so of a thread that is about to vanish, too.
                Err(source) if source.raw_os_error() == Some(libc::EPERM) && self.has_ended(tid) => return Ok(false),
                Err(source) if source.raw_os_error() == Some(libc::EPERM) => {
                    if let Some((tracer, name)) = tracer_of(Pid(tid)) {
                        return Err(Error::OtherTracer { pid: self.pid, tracer, name });
                    }
                }
                Err(source) => return Err(Error::Call { call: "PTRACE_SEIZE", pid: self.pid, source }),
            }
        }
        // Nobody traces it: the system lets us not.
        Err(refusal(self.pid))
    }

    fn has_ended(&self, tid: i32) -> bool {
        stat_of(self.pid, tid).is_none_or(|stat| stat.state.has_ended())
    }

    /// Waits for the next report of `tid`; `None` if it has ended.
    ///
    /// Blocks, because then the kernel hands this processor to the thread at once. A thread in uninterruptible sleep may
    /// take for ever, so that one is looked at now and then until the time limit; and so is a process's first thread,
    /// whose end the kernel does not tell before we have taken note of that of all others.
    fn wait(&self, tid: i32) -> Result<Option<i32>, Error> {
        let mut naps = Naps::begin();
        // Of many threads most have stopped while we waited for the first.
        let mut answer = sys::poll_wait(tid);
        let mut may_block = None;
        loop {
            if let Some(answer) = self.answered(answer)? {
                return Ok(answer);
            }
            if naps.waited_ns() > STOP_LIMIT_MS * 1_000_000 {
                return Err(self.will_not_stop(tid));
            }
            if may_block.is_none() || naps.is_time_to_ask() {
                let is_first = self.is_first_of_many(tid);
                if is_first && self.has_ended(tid) {
                    return Ok(None);
                }
                may_block = Some(!is_first && !self.is_uninterruptible(tid));
            }
            answer = self.wait_briefly(tid, may_block == Some(true), &naps);
        }
    }

    /// Blocks where that is sure to end, naps where it is not.
    fn wait_briefly(&self, tid: i32, may_block: bool, naps: &Naps) -> std::io::Result<Option<i32>> {
        if may_block {
            return sys::block_wait(tid);
        }
        naps.rest_always();
        sys::poll_wait(tid)
    }

    /// The news of a wait; the inner `None`: the thread has ended.
    fn answered(&self, answer: std::io::Result<Option<i32>>) -> Result<Option<Option<i32>>, Error> {
        match answer {
            Ok(Some(status)) => Ok(Some(Some(status))),
            Ok(None) => Ok(None),
            Err(source) if source.raw_os_error() == Some(libc::ECHILD) => Ok(Some(None)),
            Err(source) => Err(Error::Call { call: "waitpid", pid: self.pid, source }),
        }
    }

    fn is_first_of_many(&self, tid: i32) -> bool {
        tid == self.pid.0 && thread_count(self.pid).is_ok_and(|count| count > 1)
    }

    fn is_uninterruptible(&self, tid: i32) -> bool {
        stat_of(self.pid, tid).is_some_and(|stat| stat.state == State::DiskSleep)
    }

    /// Waits for the report of a thread that has just been let run: it cannot be in uninterruptible sleep.
    pub(crate) fn wait_running(&self, tid: i32) -> Result<Option<i32>, Error> {
        let is_first = self.is_first_of_many(tid);
        let mut naps = Naps::begin();
        loop {
            if let Some(answer) = self.answered(self.wait_briefly(tid, !is_first, &naps))? {
                return Ok(answer);
            }
            if is_first && naps.is_time_to_ask() && self.has_ended(tid) {
                return Ok(None);
            }
        }
    }

    /// Lets go of threads that were seized but are not held: the kernel lets go only of one that has stopped. However
    /// long that takes, it is waited for, because a thread that stops while nobody looks would never go on.
    fn release(&self, tids: &[i32]) {
        for tid in tids {
            let _ = sys::interrupt(*tid);
        }
        let mut any_ended = false;
        for tid in tids {
            let status = loop {
                match self.wait(*tid) {
                    Err(Error::WillNotStop { .. }) => {}
                    answer => break answer,
                }
            };
            // One that has stopped for a signal must still get it.
            let signal = match status {
                Ok(Some(status)) if libc::WIFSTOPPED(status) && status >> 16 == 0 => libc::WSTOPSIG(status),
                _ => 0,
            };
            any_ended |= sys::detach(*tid, signal).is_err();
        }
        if any_ended {
            self.bury();
        }
    }

    /// Takes note of the end of threads that ended while we traced them: before, the process's parent is not told of
    /// the process's end. All others have been let go.
    fn bury(&self) {
        let deadline_ns = sys::monotonic_ns() + BURY_LIMIT_MS * 1_000_000;
        let is_ours = |tid: &i32| tracer_of(Pid(*tid)).is_some_and(|(tracer, _)| tracer.0 == sys::own_thread());
        loop {
            let mut ours: Vec<i32> = thread_ids(self.pid).unwrap_or_default();
            ours.retain(is_ours);
            if ours.is_empty() || sys::monotonic_ns() > deadline_ns {
                break;
            }
            // The first thread's end is told last.
            ours.sort_by_key(|tid| *tid == self.pid.0);
            for tid in ours {
                if matches!(sys::poll_wait(tid), Ok(Some(status)) if libc::WIFSTOPPED(status)) {
                    let _ = sys::detach(tid, 0);
                }
            }
            std::thread::sleep(Duration::from_micros(LOOK_US));
        }
    }

    /// Lets all threads go but one; the time they were held, nanoseconds.
    pub(crate) fn let_go_but(&mut self, tid: i32) -> u64 {
        let (kept, others) = std::mem::take(&mut self.threads).into_iter().partition(|thread| thread.tid == tid);
        self.threads = others;
        let held_ns = self.let_go();
        self.threads = kept;
        held_ns
    }

    /// All that were held have been let go in another way.
    pub(crate) fn forget_all(&mut self) {
        self.threads.clear();
    }

    pub(crate) fn replace_registers(&mut self, index: usize, registers: Registers) {
        self.threads[index].registers = registers;
    }

    /// Lets all threads go, those that compute last: they run at once, and perhaps on this processor.
    pub(crate) fn let_go(&mut self) -> u64 {
        self.threads.sort_by_key(|thread| !thread.is_in_system_call());
        let mut until_ns = sys::monotonic_ns();
        let mut any_ended = std::mem::take(&mut self.any_ended);
        for (index, thread) in self.threads.iter().enumerate() {
            if index + 1 == self.threads.len() {
                // Read before the last one: it may run in our place from then on.
                until_ns = sys::monotonic_ns();
            }
            if self.filtered.contains(&thread.tid) {
                self.begin_sleep_anew(thread);
            }
            any_ended |= sys::detach(thread.tid, 0).is_err();
        }
        self.threads.clear();
        if any_ended {
            self.bury();
        }
        let since_ns = self.since_ns.or(self.interrupted_ns).unwrap_or(until_ns);
        until_ns.saturating_sub(since_ns)
    }
}

impl Stopped {
    /// Has a thread that sleeps until a time begin its sleep anew, if its filters would not let the kernel resume it.
    fn begin_sleep_anew(&self, thread: &Thread) {
        // Its registers may have been set since it stopped.
        let Ok(now) = sys::registers(thread.tid) else { return };
        let thread = Thread { tid: thread.tid, registers: now };
        if !thread.is_in_timed_call() || may_sleep_on(self.pid, &thread) {
            return;
        }
        let mut anew = registers_to_restore(&thread, &self.memory);
        (anew.rax, anew.rip) = restart_state(&anew);
        anew.orig_rax = u64::MAX;
        // It fails only if the thread has ended.
        let _ = sys::set_registers(thread.tid, &anew);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.let_go();
    }
}
