//! A thread may be in the middle of this when it is stopped and sent through calls: a fault of its own that its handler
//! has not seen yet, computing in the processor's widest registers, its end.
//!
//! The target is this very test binary, started again with an environment variable set. Next: `inject` for the rest.

use std::arch::asm;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trimtab_os::{Call, Error, Gadgets, MappingTable, Memory, Stopped, find_gadgets};
use trimtab_types::Pid;

const ROLE: &str = "TRIMTAB_TEST_ROLE";
/// How long a target computes.
const WORK: Duration = Duration::from_millis(1200);

fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]).env(ROLE, role).stdout(Stdio::piped());
    command
}

/// Not a test of its own: what the child processes run.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("faulting") => println!("\nanswer {}", faulting()),
        Ok("wide") => println!("\nanswer {}", wide()),
        Ok("many") => many(),
        _ => {}
    }
}

/// Faults seen where they happened, and elsewhere.
static FAULTS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Where the instruction that faults begins.
static FAULT_AT: AtomicU64 = AtomicU64::new(0);
/// Bytes of `mov rcx, [rcx]`.
const FAULTING_BYTES: i64 = 3;

/// Passes over the instruction that faulted, as a virtual machine does for its null checks.
extern "C" fn on_fault(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands over a context of this thread, which is ours to change.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    let elsewhere = *at as u64 != FAULT_AT.load(Relaxed);
    FAULTS[usize::from(elsewhere)].fetch_add(1, Relaxed);
    if elsewhere {
        std::process::exit(99);
    }
    *at += FAULTING_BYTES;
}

fn faulting() -> String {
    // SAFETY: zeroes are a valid empty action; the handler only touches what it is given.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(result, 0);
    let started = Instant::now();
    let mut count = 0u64;
    while started.elapsed() < WORK {
        // SAFETY: the handler passes over the instruction that faults, and nothing else is done.
        unsafe {
            asm!("lea {at}, [rip + 2f]", "mov [{place}], {at}", "xor ecx, ecx", "2:", "mov rcx, [rcx]",
                 at = out(reg) _, place = in(reg) FAULT_AT.as_ptr(), out("rcx") _);
        }
        count += 1;
    }
    format!("all={} elsewhere={}", FAULTS[0].load(Relaxed) == count, FAULTS[1].load(Relaxed))
}

/// Rounds in which wide registers lost something.
fn wide() -> String {
    let has_512 = is_x86_feature_detected!("avx512f");
    let started = Instant::now();
    let mut spoilt = 0;
    while started.elapsed() < WORK {
        // SAFETY: the processor has them.
        spoilt += u64::from(if has_512 { unsafe { hold_512() } } else { unsafe { hold_256() } });
    }
    format!("spoilt={spoilt}")
}

/// Bytes 1, 2, 3...
fn pattern() -> [u8; 64] {
    std::array::from_fn(|index| index as u8 + 1)
}

/// True if ymm registers changed while nothing of ours changed them.
///
/// # Safety
/// The processor has AVX.
unsafe fn hold_256() -> bool {
    let (pattern, mut low, mut high) = (pattern(), [0u8; 32], [0u8; 32]);
    // SAFETY: 32 bytes are read and written at each place; all registers used are named.
    unsafe {
        asm!("vmovdqu ymm0, [{from}]", "vmovdqu ymm15, [{from}]", "2:", "dec {left}", "jnz 2b",
             "vmovdqu [{low}], ymm0", "vmovdqu [{high}], ymm15", "vzeroupper",
             from = in(reg) pattern.as_ptr(), low = in(reg) low.as_mut_ptr(), high = in(reg) high.as_mut_ptr(),
             left = inout(reg) 200_000u64 => _, out("ymm0") _, out("ymm15") _);
    }
    low != pattern[..32] || high != pattern[..32]
}

/// True if zmm or mask registers changed while nothing of ours changed them.
///
/// # Safety
/// The processor has AVX-512.
unsafe fn hold_512() -> bool {
    let (pattern, mut low, mut high, mut mask) = (pattern(), [0u8; 64], [0u8; 64], 0x5a5au64);
    // SAFETY: 64 bytes are read and written at each place; all registers used are named.
    unsafe {
        asm!("vmovdqu64 zmm0, [{from}]", "vmovdqu64 zmm31, [{from}]", "kmovw k5, {mask:e}", "2:", "dec {left}", "jnz 2b",
             "vmovdqu64 [{low}], zmm0", "vmovdqu64 [{high}], zmm31", "kmovw {mask:e}, k5", "vzeroupper",
             from = in(reg) pattern.as_ptr(), low = in(reg) low.as_mut_ptr(), high = in(reg) high.as_mut_ptr(),
             mask = inout(reg) mask, left = inout(reg) 200_000u64 => _, out("zmm0") _, out("zmm31") _, out("k5") _);
    }
    low != pattern || high != pattern || mask != 0x5a5a
}

/// Threads that sleep and compute until somebody ends them.
fn many() {
    for index in 0..8 {
        std::thread::spawn(move || {
            loop {
                if index % 2 == 0 { std::thread::sleep(Duration::from_millis(1)) } else { std::hint::spin_loop() }
            }
        });
    }
    std::thread::sleep(Duration::from_secs(100));
}

/// Sends threads of `child` through a call that does nothing, until it ends; how often.
fn disturb(child: &mut Child) -> u64 {
    let pid = Pid(child.id() as i32);
    let gadgets = gadgets(pid);
    let mut count = 0;
    // Whoever traces a child may be told of its end in place of whoever waits for it; its answer is there either way.
    while matches!(child.try_wait(), Ok(None)) {
        count += u64::from(disturb_once(pid, gadgets, count % 2 == 0).is_ok());
        std::thread::sleep(Duration::from_micros(100));
    }
    count
}

/// The sequences that make calls, as soon as the C library is there.
fn gadgets(pid: Pid) -> Gadgets {
    let look = || find_gadgets(pid, &Memory::open(pid).ok()?, &MappingTable::of(pid).ok()?).ok();
    eventually(|| look().is_some());
    look().expect("is still there")
}

fn disturb_once(pid: Pid, gadgets: Gadgets, all: bool) -> Result<(), Error> {
    let maps = MappingTable::of(pid)?;
    let stopped = if all { Stopped::stop(pid)? } else { Stopped::stop_one(pid)? };
    stopped.resume_through(&[Call::new("munmap", 11, [1, 1])], gadgets, &maps).map(drop)
}

fn answer(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("reads");
    text.lines().find_map(|line| line.strip_prefix("answer ").map(str::to_string)).unwrap_or(text)
}

#[test]
fn a_fault_is_found_where_it_happened() {
    let mut child = command("faulting").spawn().expect("starts");
    let count = disturb(&mut child);
    assert!(count > 20, "disturbed {count} times");
    assert_eq!(answer(&mut child), "all=true elsewhere=0");
}

#[test]
fn wide_registers_keep_what_they_hold() {
    if !is_x86_feature_detected!("avx") {
        return skip("wide_registers_keep_what_they_hold", "the processor has no AVX. Next: run it on one that has");
    }
    let mut child = command("wide").spawn().expect("starts");
    let count = disturb(&mut child);
    assert!(count > 20, "disturbed {count} times");
    assert_eq!(answer(&mut child), "spoilt=0");
}

/// A shell that starts the target with many threads, and the target.
fn below_a_shell() -> (Child, Pid) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" --exact role --nocapture > /dev/null & echo $!; wait $!"]);
    shell.arg(std::env::current_exe().expect("own path")).env(ROLE, "many").stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("sh runs");
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    let pid = Pid(line.trim().parse().expect("a process id"));
    eventually(|| trimtab_os::thread_ids(pid).is_ok_and(|threads| threads.len() > 8));
    (shell, pid)
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill(pid: Pid) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill runs").success());
}

#[test]
fn the_parent_of_a_process_killed_while_held_is_told() {
    let (mut shell, pid) = below_a_shell();
    let held = Stopped::stop(pid).expect("stops");
    kill(pid);
    drop(held);
    // We trace nothing any more, and must not have to end before the shell learns of it.
    eventually(|| shell.try_wait().expect("waits").is_some());
}

#[test]
fn a_process_killed_while_being_stopped_is_gone() {
    for round in 0..12 {
        let (mut shell, pid) = below_a_shell();
        let gadgets = gadgets(pid);
        let stopping = std::thread::spawn(move || while disturb_once(pid, gadgets, true).is_ok() {});
        std::thread::sleep(Duration::from_millis(20 + 3 * round));
        kill(pid);
        eventually(|| stopping.is_finished());
        stopping.join().expect("does not panic");
        eventually(|| shell.try_wait().expect("waits").is_some());
    }
}

/// Says loudly that a test can't run here; `reason` ends with what to do about it.
fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        let file = OpenOptions::new().append(true).create(true).open(log);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skip log");
    }
}
