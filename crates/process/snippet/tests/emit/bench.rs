//! The cost of a hit: a two-instruction function in a hot loop, with an island at its entry and one before its `ret`,
//! beside the same written by hand. Prints nanoseconds per call over the undisturbed function, smallest over many short
//! rounds in which all variants take turns.
//!
//! Run with `cargo bench -p trimtab-snippet --bench emit`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod script;
mod shown;
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod world;

use iced_x86::code_asm::*;
use script::*;
use shown::shown;
use std::time::Instant;
use trimtab_snippet::emit::{Environment, FreeRegisters, compile, compile_together};
use trimtab_snippet::ir::*;
use world::World;

const CALLS: u64 = 2000;
const ROUNDS: usize = 3000;
/// Where the function, the loop and the islands are, from the world's base. One variant takes a page of each.
const FUNCTIONS: u64 = 0x3_0000;
const ISLANDS: u64 = 0x6_0000;
const VARIANT: u64 = 0x1000;

type Loop = extern "C" fn(u64);
/// Writes an island's body at an address: bytes, and where in them it begins.
type Island<'a> = Box<dyn Fn(u64) -> (Vec<u8>, usize) + 'a>;

struct Variant {
    name: &'static str,
    run: Loop,
    ns_min: f64,
}

fn main() {
    let near = World::new();
    let far = World::far();
    let unit = script();
    let mut variants = Vec::new();
    let mut add_variant = |world: &World, name, entry: Option<Island<'_>>, exit: Option<Island<'_>>| {
        let number = variants.len() as u64;
        variants.push(Variant { name, run: place(world, number, entry, exit), ns_min: f64::MAX });
    };
    add_variant(&near, "baseline", None, None);
    add_variant(&near, "by hand: jump to an island and back", Some(Box::new(|_| (Vec::new(), 0))), None);
    add_variant(&near, "by hand: time stamps, entry + exit", Some(by_hand(false)), Some(by_hand(true)));
    for (world, names) in [(&near, NAMES), (&far, FAR_NAMES)] {
        let body = |number: usize, free: &'static [Register]| Some(emitted(world, &unit, number, free));
        add_variant(world, names[0], body(0, &[]), None);
        add_variant(world, names[1], body(0, &[Register::Rax, Register::R11]), None);
        add_variant(world, names[2], body(1, &[]), None);
        add_variant(world, names[3], body(2, &[]), None);
        let alone = emitted_reentrant(world, &unit, 3);
        add_variant(world, names[4], Some(alone), Some(together(world, &unit, [4, 8], true)));
        add_variant(world, names[5], body(3, &[]), Some(together(world, &unit, [5, 8], false)));
        add_variant(world, names[6], body(6, &[]), None);
        add_variant(world, names[7], body(7, &[]), None);
    }
    measure(&mut variants);
    check(&near, &unit);
    check(&far, &unit);
    let baseline = variants[0].ns_min;
    let floor = variants[2].ns_min - baseline;
    for variant in &variants {
        let cost = variant.ns_min - baseline;
        println!("{:<58} {cost:7.2} ns   {:5.2} of the time stamps' floor", variant.name, cost / floor);
    }
}

/// Every call of every variant was counted, or what follows says nothing.
fn check(world: &World, unit: &Unit) {
    let calls = CALLS * ROUNDS as u64;
    let word = |variable: usize, word: u32| world.thread_word(unit.variables[variable].offset + 8 * word);
    assert_eq!(word(0, 0), 3 * calls, "three variants count");
    assert_eq!(word(1, 0), 0, "all calls are closed");
    assert!(word(2, 0) > calls, "time has been summed");
    assert_eq!(word(3, HISTOGRAM_BUCKETS), calls);
    assert_eq!(world.thread_word(thread_word::UNREADABLE), 0);
    assert_eq!(world.thread_word(thread_word::ELAPSED_UNKNOWN), 0);
}

const NAMES: [&str; 8] = [
    "near: n++",
    "near: n++, two free registers",
    "near: if ($0 > 100000) n++, false",
    "near: if ($0 * 3 > 100000) n++, false",
    "near: sum += elapsed, entry + exit",
    "near: hist(elapsed), entry + exit",
    "near: n++ inside a function (flags and red zone)",
    "near: if (*$1 == 1) n++, checked load, false",
];
const FAR_NAMES: [&str; 8] = [
    "far: n++",
    "far: n++, two free registers",
    "far: if ($0 > 100000) n++, false",
    "far: if ($0 * 3 > 100000) n++, false",
    "far: sum += elapsed, entry + exit",
    "far: hist(elapsed), entry + exit",
    "far: n++ inside a function (flags and red zone)",
    "far: if (*$1 == 1) n++, checked load, false",
];

fn script() -> Unit {
    let mut unit = unit(&[
        (Area::Thread, Kind::Sum),
        (Area::Thread, Kind::OpenCalls),
        (Area::Thread, Kind::Sum),
        (Area::Thread, Kind::Histogram),
    ]);
    let count = || add(0, int(1));
    let elapsed = || Expression::Elapsed { variable: 1 };
    let time = || Expression::Temporary { temporary: 0, float: false };
    // As the front end writes it.
    let if_known = |use_it| {
        let known = binary(Binary::LessEqual, int(0), time());
        vec![Statement::Let { temporary: 0, value: elapsed() }, when(known, vec![use_it])]
    };
    let over = |value| binary(Binary::Less, int(100_000), value);
    let tripled = binary(Binary::Multiply, register(Register::Rdi), int(3));
    let loaded = Expression::Load { address: Box::new(register(Register::Rsi)), width: Width::W64, signed: true };
    let close = || Statement::CloseCall { variable: 1 };
    unit.bodies = vec![
        body(When::Entry, vec![count()]),
        body(When::Entry, vec![when(over(register(Register::Rdi)), vec![count()])]),
        body(When::Entry, vec![when(over(tripled), vec![count()])]),
        body(When::Entry, vec![Statement::OpenCall { variable: 1 }]),
        body(When::Exit, if_known(add(2, time()))),
        body(When::Exit, if_known(fold(3, time()))),
        body(When::At, vec![count()]),
        body(When::Entry, vec![when(binary(Binary::Equal, int(1), loaded), vec![count()])]),
        body(When::Exit, vec![close()]),
    ];
    unit
}

fn emitted<'a>(world: &'a World, unit: &'a Unit, number: usize, free: &'static [Register]) -> Island<'a> {
    Box::new(move |at| {
        let body = &unit.bodies[number];
        let environment = Environment {
            at: trimtab_types::ProcAddr(at),
            free: FreeRegisters::of(free),
            ..world.environment(body.when)
        };
        let code = compile(unit, body, &environment).expect("the body compiles");
        if std::env::var_os("LISTING").is_some() {
            println!("{body:?}\n{}", shown(&code));
        }
        (code.bytes, code.entry)
    })
}

/// As [`emitted`] in a script in which nothing has to be alone on its thread.
fn emitted_reentrant<'a>(world: &'a World, unit: &'a Unit, number: usize) -> Island<'a> {
    Box::new(move |at| {
        let body = &unit.bodies[number];
        let environment =
            Environment { at: trimtab_types::ProcAddr(at), reentrant: true, ..world.environment(body.when) };
        let code = compile(unit, body, &environment).expect("the body compiles");
        (code.bytes, code.entry)
    })
}

fn together<'a>(world: &'a World, unit: &'a Unit, numbers: [usize; 2], reentrant: bool) -> Island<'a> {
    Box::new(move |at| {
        let bodies = numbers.map(|number| &unit.bodies[number]);
        let environment = Environment { at: trimtab_types::ProcAddr(at), reentrant, ..world.environment(When::Exit) };
        let code = compile_together(unit, &bodies, &environment).expect("the bodies compile");
        if std::env::var_os("LISTING").is_some() {
            println!("{bodies:?}\n{}", shown(&code));
        }
        (code.bytes, code.entry)
    })
}

/// Two time stamps and their difference, with nothing found, checked or guarded.
fn by_hand<'a>(exit: bool) -> Island<'a> {
    Box::new(move |_| {
        let mut a = CodeAssembler::new(64).expect("64 bits are supported");
        assemble_by_hand(&mut a, exit).expect("fixed code");
        (a.assemble(0).expect("no branches"), 0)
    })
}

/// Keeps the first time stamp below everything the function uses of the stack.
fn assemble_by_hand(a: &mut CodeAssembler, exit: bool) -> Result<(), iced_x86::IcedError> {
    a.push(rax)?;
    a.push(rdx)?;
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)?;
    if exit {
        a.sub(rax, qword_ptr(rsp - 48))?;
        a.add(qword_ptr(rsp - 56), rax)?;
    } else {
        a.mov(qword_ptr(rsp - 48), rax)?;
    }
    a.pop(rdx)?;
    a.pop(rax)
}

/// Puts a function, its islands and a loop that calls it in place.
fn place(world: &World, number: u64, entry: Option<Island<'_>>, exit: Option<Island<'_>>) -> Loop {
    let function = world.base + FUNCTIONS + number * VARIANT;
    let entry_at = world.base + ISLANDS + 2 * number * VARIANT;
    let exit_at = entry_at + VARIANT;
    // lea eax, [rdi + 1]; nop; ret; nop: five bytes each.
    let moved = [0x8d, 0x47, 0x01, 0x66, 0x90];
    let leaving = [0xc3, 0x90, 0x90, 0x90, 0x90];
    let mut bytes = [moved, leaving].concat();
    if let Some(island) = entry {
        let (mut code, start) = island(entry_at);
        code.extend(moved);
        let back = jump(entry_at + code.len() as u64, function + 5);
        code.extend(back);
        put(world, entry_at, &code);
        bytes[..5].copy_from_slice(&jump(function, entry_at + start as u64));
    }
    if let Some(island) = exit {
        let (mut code, start) = island(exit_at);
        code.extend(leaving);
        put(world, exit_at, &code);
        bytes[5..].copy_from_slice(&jump(function + 5, exit_at + start as u64));
    }
    put(world, function, &bytes);
    let start = function + 0x100;
    let mut a = CodeAssembler::new(64).expect("64 bits are supported");
    assemble_loop(&mut a, function, world.base + world::DATA).expect("fixed code");
    put(world, start, &a.assemble(start).expect("everything is near"));
    // SAFETY: the loop was just written there; it keeps to the C calling convention, as do the islands it runs.
    unsafe { std::mem::transmute::<*const (), Loop>(start as *const ()) }
}

fn assemble_loop(a: &mut CodeAssembler, function: u64, data: u64) -> Result<(), iced_x86::IcedError> {
    let mut again = a.create_label();
    a.push(rbx)?;
    a.mov(rbx, rdi)?;
    a.set_label(&mut again)?;
    a.mov(edi, 5)?;
    a.mov(rsi, data)?;
    a.call(function)?;
    a.dec(rbx)?;
    a.jne(again)?;
    a.pop(rbx)?;
    a.ret()
}

fn jump(from: u64, to: u64) -> [u8; 5] {
    let [one, two, three, four] = (to.wrapping_sub(from + 5) as i32).to_le_bytes();
    [0xe9, one, two, three, four]
}

fn put(world: &World, address: u64, bytes: &[u8]) {
    assert!(address >= world.base && bytes.len() as u64 <= VARIANT);
    // SAFETY: the world's mapping is writable, and nothing runs there yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

fn measure(variants: &mut [Variant]) {
    for _ in 0..ROUNDS {
        for variant in variants.iter_mut() {
            let begin = Instant::now();
            (variant.run)(CALLS);
            let ns = begin.elapsed().as_nanos() as f64 / CALLS as f64;
            variant.ns_min = variant.ns_min.min(ns);
        }
    }
}
