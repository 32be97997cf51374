//! Thin wrappers of the system calls used here, one operation per unsafe block.
//!
//! Next: `stop` and `inject` build on these; nothing else calls libc.

use std::io;
use std::sync::OnceLock;

/// A thread's general registers.
pub type Registers = libc::user_regs_struct;

/// `PTRACE_GETSIGMASK`, not in libc's list.
const GET_SIGNAL_MASK: libc::c_uint = 0x420a;
/// `PTRACE_SETSIGMASK`.
const SET_SIGNAL_MASK: libc::c_uint = 0x420b;
/// `PTRACE_GET_RSEQ_CONFIGURATION`, and the size of what it fills, of which the address comes first.
const GET_SEQUENCES: libc::c_uint = 0x420f;
const SEQUENCES_BYTES: usize = 24;
/// `PTRACE_PEEKSIGINFO`, and how many waiting signals are looked at: a fault is among the first, as few others wait in a
/// thread's own list.
const PEEK_SIGNALS: libc::c_uint = 0x4209;
const SIGNALS_LOOKED_AT: usize = 32;
/// Signals that the kernel delivers before any other, because they belong to the instruction the thread stands at.
const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE, libc::SIGSYS];

/// The kernel's `struct ptrace_peeksiginfo_args`.
#[repr(C)]
struct PeekSignals {
    offset: u64,
    flags: u32,
    count: i32,
}

/// `PTRACE_SECCOMP_GET_FILTER`, and the bytes of an instruction of what it gives.
const GET_CALL_FILTER: libc::c_uint = 0x420c;
const FILTER_INSTRUCTION_BYTES: usize = 8;

/// The register set of the floating-point and vector state.
const NT_X86_XSTATE: usize = 0x202;
/// Largest extended state any x86-64 processor has today (AMX tiles included), with room to spare.
const EXTENDED_STATE_MAX: usize = 16 * 1024;

/// The processor's time stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter; no memory is touched.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn request(what: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers pass either plain values or pointers that outlive the call, as `what` asks for.
    check(unsafe { libc::ptrace(what, tid, address, data) }).map(drop)
}

/// The calling thread's id, which is what the kernel names as a tracer.
pub(crate) fn own_thread() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

pub(crate) fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize)
}

pub(crate) fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

pub(crate) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

pub(crate) fn resume_to_system_call(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize)
}

/// Where a stopped thread and the kernel agree about restartable sequences; 0: nowhere.
pub(crate) fn restartable_sequences(tid: i32) -> io::Result<u64> {
    let mut found = [0u64; SEQUENCES_BYTES / 8];
    request(GET_SEQUENCES, tid, SEQUENCES_BYTES, found.as_mut_ptr() as usize)?;
    Ok(found[0])
}

/// The instructions of seccomp filter `number` of stopped thread `tid`, the oldest first; `None` if it has no such filter.
///
/// # Errors
/// `EACCES` without CAP_SYS_ADMIN or under a filter of our own, `EMEDIUMTYPE` where the kernel has not kept it.
pub(crate) fn call_filter(tid: i32, number: usize) -> io::Result<Option<Vec<u8>>> {
    let ask = |place: *mut u8| {
        // SAFETY: the kernel writes as many instructions as it told before that there are, or none to no place.
        check(unsafe { libc::ptrace(GET_CALL_FILTER, tid, number, place) })
    };
    let count = match ask(std::ptr::null_mut()) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        count => count? as usize,
    };
    // A filter never changes, and a stopped thread loses none.
    let mut bytes = vec![0; count * FILTER_INSTRUCTION_BYTES];
    ask(bytes.as_mut_ptr())?;
    Ok(Some(bytes))
}

pub(crate) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

pub(crate) fn registers(tid: i32) -> io::Result<Registers> {
    let mut registers = std::mem::MaybeUninit::<Registers>::uninit();
    request(libc::PTRACE_GETREGS, tid, 0, registers.as_mut_ptr() as usize)?;
    // SAFETY: the kernel filled the whole structure.
    Ok(unsafe { registers.assume_init() })
}

/// Registers that are all zero.
#[cfg(test)]
pub(crate) fn no_registers() -> Registers {
    // SAFETY: the structure is plain numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

pub(crate) fn set_registers(tid: i32, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, (&raw const *registers) as usize)
}

pub(crate) fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    request(GET_SIGNAL_MASK, tid, 8, (&raw mut mask) as usize)?;
    Ok(mask)
}

pub(crate) fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(SET_SIGNAL_MASK, tid, 8, (&raw const mask) as usize)
}

/// True if a signal waits for stopped thread `tid` that its own instruction caused: an access, an arithmetic error, a
/// trap.
pub(crate) fn has_own_fault_pending(tid: i32) -> io::Result<bool> {
    let mut found = [const { std::mem::MaybeUninit::<libc::siginfo_t>::zeroed() }; SIGNALS_LOOKED_AT];
    let arguments = PeekSignals { offset: 0, flags: 0, count: SIGNALS_LOOKED_AT as i32 };
    let (from, to) = ((&raw const arguments) as usize, found.as_mut_ptr() as usize);
    // SAFETY: the kernel reads `arguments` and writes at most `count` elements of `found`; both outlive the call.
    let count = check(unsafe { libc::ptrace(PEEK_SIGNALS, tid, from, to) })?;
    Ok(found.iter().take(count as usize).any(|info| {
        // SAFETY: zeroes are valid, and the kernel filled this one.
        let info = unsafe { info.assume_init_ref() };
        FAULTS.contains(&info.si_signo) && info.si_code > 0
    }))
}

/// The floating-point and vector state in the layout of `xsave`.
pub(crate) fn extended_state(tid: i32) -> io::Result<Vec<u8>> {
    let mut state = vec![0u8; EXTENDED_STATE_MAX];
    let mut vector = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, (&raw mut vector) as usize)?;
    state.truncate(vector.iov_len);
    Ok(state)
}

/// Offset and size of a component of the extended state, as this processor has it. Each is asked once: in a virtual
/// machine every question is a way out of it, and a process is held meanwhile.
pub(crate) fn state_component(number: u32) -> (usize, usize) {
    static KNOWN: [OnceLock<(usize, usize)>; 64] = [const { OnceLock::new() }; 64];
    let ask = || {
        let found = core::arch::x86_64::__cpuid_count(0xd, number);
        (found.ebx as usize, found.eax as usize)
    };
    KNOWN.get(number as usize).map_or_else(ask, |known| *known.get_or_init(ask))
}

pub(crate) fn poke(tid: i32, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKETEXT, tid, address as usize, word as usize)
}

/// `waitpid(tid, __WALL | WNOHANG)`: the status if there is one.
pub(crate) fn poll_wait(tid: i32) -> io::Result<Option<i32>> {
    wait_with(tid, libc::WNOHANG)
}

/// `waitpid(tid, __WALL)`: blocks until there is a status; `None` if a signal came first.
pub(crate) fn block_wait(tid: i32) -> io::Result<Option<i32>> {
    wait_with(tid, 0)
}

fn wait_with(tid: i32, options: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let result = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | options) };
    match check(result.into()) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(status)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads `ranges` (address and length) of `pid`'s memory one behind the other into `buffer`; how many bytes it got.
pub(crate) fn read_remote(pid: i32, ranges: &[(u64, usize)], buffer: &mut [u8]) -> io::Result<usize> {
    let remote: Vec<libc::iovec> = ranges
        .iter()
        .map(|(address, length)| libc::iovec { iov_base: *address as *mut libc::c_void, iov_len: *length })
        .collect();
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the kernel writes only into `buffer`; remote addresses are checked by it.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as u64, 0) };
    check(got as libc::c_long).map(|got| got as usize)
}

/// The processors this thread may run on.
pub(crate) fn affinity() -> Option<libc::cpu_set_t> {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: `set` has the size given and outlives the call; 0 means the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: zeroed above and filled by the kernel.
    (result == 0).then(|| unsafe { set.assume_init() })
}

/// Lets this thread run on the processors of `set` only; false if the kernel refuses.
pub(crate) fn set_affinity(set: &libc::cpu_set_t) -> bool {
    // SAFETY: `set` outlives the call; 0 means the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0 }
}

/// `set` without one processor; `None` if none would be left.
pub(crate) fn without_processor(set: &libc::cpu_set_t, number: usize) -> Option<libc::cpu_set_t> {
    if number >= libc::CPU_SETSIZE as usize {
        return None;
    }
    let mut others = *set;
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_CLR(number, &mut others) };
    // SAFETY: reads the set.
    (unsafe { libc::CPU_COUNT(&others) } > 0).then_some(others)
}

/// True if this thread is scheduled as ordinary threads are.
pub(crate) fn is_ordinary() -> bool {
    // SAFETY: 0 means the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
}

/// Gives this thread precedence over all ordinary ones, or makes it an ordinary one again; false if the kernel refuses.
pub(crate) fn set_urgent(urgent: bool) -> bool {
    let (policy, priority) = if urgent { (libc::SCHED_FIFO, 1) } else { (libc::SCHED_OTHER, 0) };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` outlives the call; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// The head of the kernel's `struct sched_attr`, its first version.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for turns of `turn_ns` on a processor for this thread, if it is an ordinary one; false if the kernel has no such
/// thing (before Linux 6.12 it takes the number and forgets it).
pub(crate) fn set_turn(turn_ns: u64) -> bool {
    let mut attributes = Scheduling::default();
    let size = size_of::<Scheduling>() as libc::c_uint;
    // SAFETY: the kernel fills at most `size` bytes of what it is given; 0 means the calling thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } == 0;
    if !known || attributes.policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    (attributes.size, attributes.runtime_ns) = (size, turn_ns);
    // SAFETY: the kernel reads `size` bytes of them.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const MAPPING_QUERY: libc::c_ulong = 0xc068_6611;
/// The mapping at an address, or else the next one.
const OR_NEXT: u64 = 0x10;
/// Longest path that the kernel tells, and its end.
const PATH_BYTES_MAX: usize = 4096;
/// Longest build id that it tells.
const BUILD_ID_BYTES_MAX: usize = 20;

/// The kernel's `struct procmap_query`, and room for a path.
#[repr(C)]
pub(crate) struct MappingQuery {
    size: u64,
    asked: u64,
    address: u64,
    pub start: u64,
    pub end: u64,
    flags: u64,
    page_bytes: u64,
    pub offset: u64,
    pub inode: u64,
    /// Major and minor number.
    pub device: [u32; 2],
    name_bytes: u32,
    build_id_bytes: u32,
    name_address: u64,
    build_id_address: u64,
    path: [u8; PATH_BYTES_MAX],
    build_id: [u8; BUILD_ID_BYTES_MAX],
}

impl MappingQuery {
    pub(crate) fn new() -> Box<Self> {
        Box::new(MappingQuery {
            size: 0,
            asked: 0,
            address: 0,
            start: 0,
            end: 0,
            flags: 0,
            page_bytes: 0,
            offset: 0,
            inode: 0,
            device: [0; 2],
            name_bytes: 0,
            build_id_bytes: 0,
            name_address: 0,
            build_id_address: 0,
            path: [0; PATH_BYTES_MAX],
            build_id: [0; BUILD_ID_BYTES_MAX],
        })
    }

    /// The path or another name; empty if it has none.
    pub(crate) fn name(&self) -> &[u8] {
        let told = self.path.get(..self.name_bytes as usize).unwrap_or_default();
        told.strip_suffix(&[0]).unwrap_or(told)
    }

    /// Empty if it has none.
    pub(crate) fn build_id(&self) -> &[u8] {
        self.build_id.get(..self.build_id_bytes as usize).unwrap_or_default()
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.flags & 1 != 0
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags & 2 != 0
    }

    pub(crate) fn is_executable(&self) -> bool {
        self.flags & 4 != 0
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.flags & 8 != 0
    }
}

/// Asks an open `/proc/PID/maps` for the mapping at `address`, or the next one, and its name.
///
/// # Errors
/// `ENOENT`: there is none; `ENOTTY`: the kernel (before Linux 6.11) can't be asked; `ESRCH`: the process has no memory
/// any more; `ENAMETOOLONG`: its path has no room.
pub(crate) fn query_mapping(maps: &std::fs::File, query: &mut MappingQuery, address: u64) -> io::Result<()> {
    (query.name_bytes, query.build_id_bytes) = (PATH_BYTES_MAX as u32, 0);
    ask_for_mapping(maps, query, address)
}

/// The same, and for its file's build id instead of the name.
///
/// # Errors
/// As [`query_mapping`].
pub(crate) fn query_build_id(maps: &std::fs::File, query: &mut MappingQuery, address: u64) -> io::Result<()> {
    (query.name_bytes, query.build_id_bytes) = (0, BUILD_ID_BYTES_MAX as u32);
    ask_for_mapping(maps, query, address)
}

fn ask_for_mapping(maps: &std::fs::File, query: &mut MappingQuery, address: u64) -> io::Result<()> {
    let place = |bytes: &mut [u8], wanted: u32| if wanted == 0 { 0 } else { bytes.as_mut_ptr() as u64 };
    query.size = std::mem::offset_of!(MappingQuery, path) as u64;
    (query.asked, query.address) = (OR_NEXT, address);
    query.name_address = place(&mut query.path, query.name_bytes);
    query.build_id_address = place(&mut query.build_id, query.build_id_bytes);
    let (file, query) = (std::os::fd::AsRawFd::as_raw_fd(maps), std::ptr::from_mut(query));
    // SAFETY: the kernel fills the first `size` bytes, and as many bytes of the path or the build id as it was told that
    // there are, all of which outlive the call.
    check(unsafe { libc::ioctl(file, MAPPING_QUERY, query) }.into()).map(drop)
}

/// Lets this process map as much memory as it may allow itself.
pub(crate) fn raise_address_space_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls, which read and write nothing else.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_AS, &raw const limit);
        }
    }
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Seconds since 1970.
pub fn unix_s() -> f64 {
    read_clock(libc::CLOCK_REALTIME) as f64 / 1e9
}

/// Seconds since the machine was started, those it slept included: what start times of processes count from.
pub(crate) fn boot_s() -> f64 {
    read_clock(libc::CLOCK_BOOTTIME) as f64 / 1e9
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
