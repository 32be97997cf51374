//! A real process is stopped, made to run system calls and let go, hundreds of times, also by a monitor that is killed
//! with SIGKILL in the middle: it must compute the same result and sleep its whole sleep.
//!
//! The target and the monitor are this very test binary, started again with an environment variable set.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trimtab_os::{Call, Caught, Gadgets, Injection, MappingTable, Memory, Stopped, find_gadgets};
use trimtab_types::Pid;
use trimtab_types::procfs::{Stat, State};

const ROLE: &str = "TRIMTAB_TEST_ROLE";
/// The monitor's target, or the sleeper's system call.
const ABOUT: &str = "TRIMTAB_TEST_ABOUT";

fn start(role: &str, about: &str) -> Child {
    let exe = std::env::current_exe().expect("own path");
    let mut command = Command::new(exe);
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command.env(ABOUT, about).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("starts itself")
}

/// A target with all of its threads: the harness, the loop, the sleeper, and who waits for its end.
fn target() -> (Child, Pid) {
    let target = start("target", "");
    let pid = Pid(target.id() as i32);
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    eventually(|| (threads() >= 4).then_some(()));
    (target, pid)
}

/// Not a test of its own: what the child processes run.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("target") => play_target(),
        Ok("monitor") => play_monitor(),
        Ok("sleeper") => play_sleeper(),
        _ => {}
    }
}

/// Computes and sleeps until its stdin ends, and then until the sleep that has begun is over.
fn play_target() {
    let told = Arc::new(AtomicBool::new(false));
    let (ends, tells) = (told.clone(), told.clone());
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).expect("reads");
        tells.store(true, Relaxed);
    });
    let sleeper = std::thread::spawn(move || {
        let time = Duration::from_millis(700);
        loop {
            let started = Instant::now();
            // One nanosleep: an interrupted one that is not restarted would return early.
            std::thread::sleep(time);
            if started.elapsed() < time || ends.load(Relaxed) {
                return started.elapsed() >= time;
            }
        }
    });
    let mut rounds = 0u64;
    let mut right = true;
    while !told.load(Relaxed) || rounds < 20 {
        right &= one_round() == EXPECTED;
        rounds += 1;
    }
    println!("target right={right} slept={} enough={}", sleeper.join().expect("joins"), rounds > 10);
}

/// Its child has one thread, which waits once, by the call it is asked for, and tells how that ended.
fn play_sleeper() {
    let time = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    let call = std::env::var(ABOUT).expect("a call");
    let started = Instant::now();
    // SAFETY: the child only waits and ends; `time` is valid, and nobody asks for what remains of it.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(wait_by(&call, &raw const time));
        }
        child
    };
    let mut status = -1;
    // SAFETY: `status` is a place for one.
    let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
    let slept = started.elapsed() >= Duration::from_secs(1);
    println!("target right={} slept={slept} enough={}", status == 0, reaped == child);
}

/// 0 if the call ended as it does when its time is over. The number of all but the first is not in the code before the call.
///
/// # Safety
/// `time` must be valid.
unsafe fn wait_by(call: &str, time: *const libc::timespec) -> i32 {
    let mut polled = libc::pollfd { fd: -1, events: 1, revents: 0 };
    let mut futex = 7_u32;
    let nothing = 0;
    let time = time as u64;
    let (number, arguments, expected) = match call {
        "libc" => {
            // SAFETY: the caller's time is valid.
            let slept = unsafe { libc::nanosleep(time as *const libc::timespec, std::ptr::null_mut()) };
            return slept.abs();
        }
        "nanosleep" => (35, [time, nothing, nothing, nothing], 0),
        "clock_nanosleep" => (230, [1, nothing, time, nothing], 0),
        "poll" => (7, [&raw mut polled as u64, 1, 1000, nothing], 0),
        "futex" => (202, [&raw mut futex as u64, 128, 7, time], -libc::ETIMEDOUT),
        other => panic!("no call {other}"),
    };
    let result: i64;
    // SAFETY: the call reads and writes what its arguments point to, which lives until it ends.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") std::hint::black_box(number as i64) => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") 0,
            out("rcx") _,
            out("r11") _,
        );
    }
    (result as i32 - expected).abs()
}

const EXPECTED: u64 = 0xe351_f07b_a358_2bf8;

/// Integer and floating-point state that any lost register would spoil.
fn one_round() -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15u64;
    let mut value = 1.0f64;
    let mut vector = [1.0f32; 8];
    for step in 0..20_000u64 {
        sum = sum.rotate_left(7) ^ step.wrapping_mul(0x2545_f491_4f6c_dd1d);
        value = (value * 1.000_000_1 + step as f64).sqrt();
        for (lane, item) in vector.iter_mut().enumerate() {
            *item = *item * 0.5 + lane as f32;
        }
    }
    sum ^ value.to_bits() ^ vector.iter().fold(0, |all, item| all ^ u64::from(item.to_bits()).rotate_left(13))
}

fn play_monitor() {
    let pid = Pid(std::env::var(ABOUT).expect("target").parse().expect("a pid"));
    while inject_once(pid).is_ok() {}
}

fn gadgets(pid: Pid) -> (Gadgets, MappingTable) {
    let maps = MappingTable::of(pid).expect("maps");
    let memory = Memory::open(pid).expect("memory");
    (find_gadgets(pid, &memory, &maps).expect("gadgets"), maps)
}

fn inject_once(pid: Pid) -> Result<(), trimtab_os::Error> {
    let memory = Memory::open(pid)?;
    let maps = MappingTable::of(pid)?;
    let gadgets = find_gadgets(pid, &memory, &maps)?;
    let mut stopped = Stopped::stop(pid)?;
    let mut injection = Injection::begin(&mut stopped, gadgets, &maps)?;
    for _ in 0..3 {
        let id = injection.call("getpid", 39, [0; 6])?;
        assert_eq!(id, pid.0 as u64);
    }
    injection.finish()?;
    stopped.resume();
    // And on its own, while we may be killed.
    let place = free_place(&maps);
    Stopped::stop_one(pid)?.resume_through(&map_and_unmap(place), gadgets, &maps)?;
    Ok(())
}

/// Maps a page where it is free, asks for something impossible, and unmaps the page.
fn map_and_unmap(place: u64) -> Vec<Call> {
    vec![
        Call::new("mmap", 9, [place, 0x1000, 3, 0x10_0022, u64::MAX, 0]),
        Call::new("munmap", 11, [1, 1]),
        Call::new("munmap", 11, [place, 0x1000]),
    ]
}

/// Lets it end and takes what it says.
fn outcome(mut child: Child) -> String {
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("reads");
    assert!(child.wait().expect("ends").success());
    text.lines().find_map(|line| line.find("target right").map(|at| line[at..].to_string())).unwrap_or(text)
}

const GOOD: &str = "target right=true slept=true enough=true";

/// A program of Rust's catches what an overflow of a stack causes, with a function of its own.
#[test]
fn a_process_is_asked_for_its_handlers() {
    let target = start("target", "");
    let pid = Pid(target.id() as i32);
    until_caught(pid, libc::SIGSEGV);
    let caught = Caught::by(pid).expect("it runs");
    assert_eq!(caught.faults(), [libc::SIGSEGV, libc::SIGBUS]);
    let (gadgets, maps) = gadgets(pid);
    for _ in 0..20 {
        let mut stopped = Stopped::stop(pid).expect("stops");
        let signals = [libc::SIGSEGV, libc::SIGILL, libc::SIGBUS];
        let handlers = stopped.handlers(&signals, gadgets, &maps).expect("asks");
        stopped.resume();
        assert_eq!(handlers.iter().map(|one| one.signal).collect::<Vec<_>>(), [libc::SIGSEGV, libc::SIGBUS]);
        let own = std::env::current_exe().expect("a path");
        for handler in handlers {
            let mapping = maps.at(handler.address).expect("is mapped");
            assert!(mapping.executable && std::path::Path::new(&mapping.path) == own, "{mapping:?}");
        }
    }
    assert_eq!(outcome(target), GOOD);
}

fn until_caught(pid: Pid, signal: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !Caught::by(pid).is_ok_and(|caught| caught.has(signal)) {
        assert!(Instant::now() < deadline, "it does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_undisturbed_target_is_right() {
    assert_eq!(one_round(), EXPECTED, "{:#x}", one_round());
    let (target, _) = target();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(outcome(target), GOOD);
}

#[test]
fn system_calls_leave_no_trace() {
    let (target, pid) = target();
    let (gadgets, maps) = gadgets(pid);
    for round in 0..200 {
        let mut stopped = Stopped::stop(pid).expect("stops");
        assert!(stopped.threads().len() >= 4, "the harness, the loop, the sleeper and who waits for its end");
        let before: Vec<u64> = stopped.threads().iter().map(|thread| thread.registers.rip).collect();
        let mut injection = Injection::begin(&mut stopped, gadgets, &maps).expect("begins");
        let place = injection.call("mmap", 9, [0, 8192, 3, 0x22, u64::MAX, 0]).expect("maps");
        injection.stopped().memory().write(place, b"round").expect("writes");
        injection.call("munmap", 11, [place, 8192, 0, 0, 0, 0]).expect("unmaps");
        let refused = injection.call("munmap", 11, [1, 1, 0, 0, 0, 0]).expect_err("EINVAL");
        assert!(refused.to_string().contains("munmap failed"), "{refused}");
        injection.finish().expect("finishes");
        let after: Vec<u64> = stopped.threads().iter().map(|thread| thread.registers.rip).collect();
        assert_eq!(before, after, "round {round}");
        stopped.resume();
    }
    assert_eq!(outcome(target), GOOD);
}

#[test]
fn a_thread_makes_a_chain_of_calls_by_itself() {
    let (target, pid) = target();
    let (gadgets, maps) = gadgets(pid);
    let until = Instant::now() + Duration::from_millis(900);
    let mut round = 0;
    while Instant::now() < until {
        let place = free_place(&maps);
        let mut calls = map_and_unmap(place);
        // Not unmapped yet, so that it is seen; the name is of a file that is seen too.
        calls.truncate(2);
        calls.push(Call { text: Some("chained"), ..Call::new("memfd_create", 319, [0, 0]) });
        // All threads are held in one half of the rounds, one in the other.
        let stopped = if round % 2 == 0 { Stopped::stop(pid) } else { Stopped::stop_one(pid) }.expect("stops");
        stopped.resume_through(&calls, gadgets, &maps).expect("begins");
        let descriptor = eventually(|| descriptor_of(pid, "/memfd:chained"));
        assert!(MappingTable::of(pid).expect("maps").at(place).is_some_and(|page| page.writable), "round {round}");
        let undo = [Call::new("close", 3, [descriptor]), Call::new("munmap", 11, [place, 0x1000])];
        Stopped::stop_one(pid).expect("stops").resume_through(&undo, gadgets, &maps).expect("begins");
        eventually(|| MappingTable::of(pid).expect("maps").at(place).is_none().then_some(()));
        assert_eq!(descriptor_of(pid, "/memfd:chained"), None, "round {round}");
        round += 1;
    }
    assert!(round > 0, "{round} rounds");
    assert_eq!(outcome(target), GOOD);
}

fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < deadline, "in time"),
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn descriptor_of(pid: Pid, name: &str) -> Option<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let mut named = entries
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path.to_string_lossy().starts_with(name)));
    named.next()?.file_name().to_str()?.parse().ok()
}

/// A process of one thread that sleeps: only the kernel can resume a sleep with the time that remains of it, and does so
/// by a system call of its own.
#[test]
fn a_sleep_is_resumed_with_its_remaining_time() {
    const RESTART_SYSCALL: &str = "219";
    let mut child = Command::new("sleep").arg("100").spawn().expect("starts");
    let pid = Pid(child.id() as i32);
    let number = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("is there");
        text.split(' ').next().map(str::to_owned).filter(|word| word.parse::<i32>().is_ok_and(|number| number > 0))
    };
    let sleeps = |stat: &Stat| stat.command == "sleep" && stat.state == State::Sleeping;
    eventually(|| trimtab_os::stat_of(pid, pid.0).filter(sleeps).and_then(|_| number()).filter(|call| call == "230"));
    let (gadgets, maps) = gadgets(pid);
    let place = free_place(&maps);
    let stopped = Stopped::stop_one(pid).expect("stops");
    stopped.resume_through(&map_and_unmap(place)[..1], gadgets, &maps).expect("makes them");
    assert!(MappingTable::of(pid).expect("maps").at(place).is_some(), "made before it was let go");
    let call = eventually(|| trimtab_os::stat_of(pid, pid.0).filter(sleeps).and_then(|_| number()));
    child.kill().expect("kills");
    child.wait().expect("ends");
    assert_eq!(call, RESTART_SYSCALL);
}

/// The only thread waits, and is lent out when only the kernel knows how its waiting goes on; whoever borrowed it ends
/// without giving it back. The first call is known by the code before it, or by its arguments.
#[test]
fn waiting_that_was_resumed_before_ends_as_asked() {
    for call in ["libc", "nanosleep", "clock_nanosleep", "poll", "futex"] {
        lend_out_a_sleeper(call);
    }
}

fn lend_out_a_sleeper(name: &str) {
    let target = start("sleeper", name);
    let pid = eventually(|| child_of(target.id()));
    let call = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse::<u32>().ok())
    };
    eventually(|| matches!(call(), Some(7 | 35 | 202 | 230)).then_some(()));
    let (gadgets, maps) = gadgets(pid);
    Stopped::stop(pid).expect("stops").resume();
    eventually(|| (call() == Some(219)).then_some(()));
    let borrowed = std::thread::spawn(move || {
        let mut stopped = Stopped::stop(pid).expect("stops");
        let mut injection = Injection::begin(&mut stopped, gadgets, &maps).expect("begins");
        injection.call("getpid", 39, [0; 6]).expect("is made");
        // The kernel lets go of what a thread traced when that ends.
        std::mem::forget(injection);
        std::mem::forget(stopped);
    });
    borrowed.join().expect("joins");
    assert_eq!(outcome(target), GOOD, "{name}");
}

fn child_of(parent: u32) -> Option<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let number = |text: String| text.split_whitespace().next().and_then(|word| word.parse().ok());
    children.into_iter().find_map(number).map(Pid)
}

fn free_place(maps: &MappingTable) -> u64 {
    maps.gap_near(0x10_0000_0000..0x10_0000_1000, 0x2000, 1 << 40, 1 << 20).expect("a gap")
}

#[test]
fn a_killed_monitor_leaves_the_target_right() {
    let (target, _) = target();
    let mut seed = 0x1234_5678u64;
    for _ in 0..40 {
        let mut monitor = start("monitor", &target.id().to_string());
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(5_000 + (seed >> 33) % 20_000));
        monitor.kill().expect("kills");
        monitor.wait().expect("reaps");
    }
    assert_eq!(outcome(target), GOOD);
}

#[test]
fn a_process_that_is_gone_is_said_to_be() {
    let mut child = Command::new("true").spawn().expect("starts");
    let pid = Pid(child.id() as i32);
    child.wait().expect("ends");
    assert!(matches!(Stopped::stop(pid), Err(trimtab_os::Error::Gone { .. })));
}

#[test]
fn another_tracer_is_named() {
    let (target, pid) = target();
    let held = Stopped::stop(pid).expect("stops");
    let error = std::thread::spawn(move || Stopped::stop(pid).expect_err("is held")).join().expect("joins");
    assert!(matches!(error, trimtab_os::Error::OtherTracer { .. }), "{error}");
    held.resume();
    assert_eq!(outcome(target), GOOD);
}
