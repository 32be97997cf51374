//! Bodies in islands around relocated instructions, as the program will meet them.
//!
//! Next: `trimtab_x86::build_probe_island`.

use crate::script::*;
use crate::world::{CODE, State, World};
use trimtab_snippet::emit::compile;
use trimtab_snippet::ir::*;
use trimtab_types::ProcAddr;
use trimtab_x86::{Exit, ExitKind, JumpForm, PatchSite, ProbeBytes, ProbePlace, Refusal, SiteKind, WriteProbe};
use trimtab_x86::{build_probe_island, encode_near_jump};

const COUNTS: [(Area, Kind); 4] =
    [(Area::Thread, Kind::Sum), (Area::Thread, Kind::Sum), (Area::Thread, Kind::Last), (Area::Thread, Kind::Sum)];

/// Where the function is, from the code's place.
const FUNCTION: u64 = 0x4000;

/// Counts entries, remembers the return value of exits, and compares a text so that there are constants.
fn script() -> Unit {
    let mut unit = unit(&COUNTS);
    let text = Expression::TextEquals { address: Box::new(register(Register::Rdi)), text: 0 };
    unit.bodies = vec![
        body(When::Entry, vec![add(0, int(1))]),
        body(When::Entry, vec![when(text, vec![add(3, int(1))]), add(3, int(100))]),
        body(When::Exit, vec![add(1, int(1)), set(2, register(Register::Rax))]),
    ];
    unit
}

type Probe<'a> = Box<WriteProbe<'a, Refusal>>;

fn probe<'a>(world: &'a World, unit: &'a Unit, number: usize) -> Probe<'a> {
    Box::new(move |ProbePlace { at, room_before }| {
        let body = &unit.bodies[number];
        let mut environment = world.environment(body.when);
        environment.at = at;
        environment.room_before = room_before;
        let code = compile(unit, body, &environment).expect("the body compiles");
        Ok(ProbeBytes { bytes: code.bytes, entry: code.entry })
    })
}

fn exit(at: u64, len: u8, kind: ExitKind) -> Exit {
    Exit { at: ProcAddr(at), len, kind }
}

fn site(at: u64, displaced: u64, resume: Option<u64>, kind: SiteKind) -> PatchSite {
    let at = ProcAddr(at);
    PatchSite {
        at,
        overwritten: at..at + 5,
        displaced: at..at + displaced,
        resume: resume.map(ProcAddr),
        jump: JumpForm::Near5,
        kind,
        carrier: None,
    }
}

/// Builds the island of a site and patches the site.
fn patch(world: &mut World, unit: &Unit, site: &PatchSite, at: u64, probes: [&[usize]; 2]) {
    let original = world.read(site.displaced.start.0, site.displaced.end - site.displaced.start);
    let island = {
        let [mut enter, mut leave] =
            probes.map(|list| list.iter().map(|&number| probe(world, unit, number)).collect::<Vec<Probe<'_>>>());
        build_probe_island(site, &original, ProcAddr(at), &mut enter, &mut leave).expect("the island fits")
    };
    world.write(at, &island.bytes);
    let jump = encode_near_jump(site.at, ProcAddr(at + island.entry as u64)).expect("the world is small");
    world.write(site.at.0, &jump);
    for (old, new) in island.moves {
        assert!(site.displaced.contains(&old) && (at..at + island.bytes.len() as u64).contains(&new.0));
    }
}

/// Calls the function at an address from a piece of code, with `rdi` given; what it returns.
fn call(world: &mut World, function: u64, rdi: u64) -> u64 {
    let at = world.base + CODE;
    let mut bytes = vec![0xe8];
    bytes.extend((function.wrapping_sub(at + 5) as i32).to_le_bytes());
    let mut state = State::zero();
    state.general[Register::Rdi as usize] = rdi;
    state.general[Register::Rbx as usize] = 0x6262;
    let after = world.run_bytes(at, &bytes, at, &state);
    assert_eq!(after.general[Register::Rbx as usize], 0x6262);
    assert_eq!(after.general[4], world.stack_pointer());
    after.general[0]
}

fn words(world: &World, unit: &Unit) -> [u64; 4] {
    std::array::from_fn(|variable| world.thread_word(unit.variables[variable].offset))
}

/// lea rax, [rdi + 1]; nop; imul rax, rax, 3; ret.
const STRAIGHT: [u8; 10] = [0x48, 0x8d, 0x47, 0x01, 0x90, 0x48, 0x6b, 0xc0, 0x03, 0xc3];

#[test]
fn entry_and_exit_in_islands_of_their_own() {
    for (enter, expected) in [(&[0][..], [1, 1, 33, 0]), (&[1, 0], [1, 1, 33, 100]), (&[0, 1, 1], [1, 1, 33, 200])] {
        let mut world = World::new();
        let unit = script();
        let at = world.base + CODE + FUNCTION;
        world.write(at, &STRAIGHT);
        world.write(at + 10, &[0xcc; 6]);
        patch(&mut world, &unit, &site(at, 5, Some(at + 5), SiteKind::Entry), at + 0x1000, [enter, &[]]);
        let leaving = SiteKind::Exit(exit(at + 9, 1, ExitKind::Ret { pop: 0 }));
        patch(&mut world, &unit, &site(at + 5, 5, None, leaving), at + 0x3000, [&[], &[2]]);
        assert_eq!(call(&mut world, at, 10), 33);
        assert_eq!(words(&world, &unit), expected);
    }
}

#[test]
fn whole_functions_in_one_island() {
    for (probes, expected) in [
        ([&[0][..], &[2][..]], [1, 1, 33, 0]),
        ([&[1, 0], &[2, 2]], [1, 2, 33, 100]),
        ([&[], &[2]], [0, 1, 33, 0]),
        ([&[0], &[]], [1, 0, 0, 0]),
    ] {
        let mut world = World::new();
        let unit = script();
        let at = world.base + CODE + FUNCTION;
        world.write(at, &STRAIGHT);
        let kind = SiteKind::Whole(exit(at + 9, 1, ExitKind::Ret { pop: 0 }));
        patch(&mut world, &unit, &site(at, 10, None, kind), at + 0x1000, probes);
        assert_eq!(call(&mut world, at, 10), 33);
        assert_eq!(words(&world, &unit), expected);
    }
}

/// A loop back to the first displaced instruction passes the probe each time.
#[test]
fn branches_to_displaced_instructions_go_to_the_patch() {
    let mut world = World::new();
    let unit = script();
    let at = world.base + CODE + FUNCTION;
    // again: inc rax; dec rdi; jne again; ret.
    world.write(at, &[0x48, 0xff, 0xc0, 0x48, 0xff, 0xcf, 0x75, 0xf8, 0xc3]);
    patch(&mut world, &unit, &site(at, 8, Some(at + 8), SiteKind::Entry), at + 0x1000, [&[0], &[]]);
    assert_eq!(call(&mut world, at, 5), 5);
    assert_eq!(words(&world, &unit), [5, 0, 0, 0]);
}

#[test]
fn conditional_tail_jumps_count_only_when_taken() {
    let mut world = World::new();
    let unit = script();
    let at = world.base + CODE + FUNCTION;
    // mov rax, rdi; test rdi, rdi; je other; ret, and other: mov eax, 7; ret.
    world.write(at, &[0x48, 0x89, 0xf8, 0x48, 0x85, 0xff, 0x0f, 0x84, 0x01, 0, 0, 0, 0xc3]);
    world.write(at + 13, &[0xb8, 7, 0, 0, 0, 0xc3]);
    let kind = SiteKind::Exit(exit(at + 6, 6, ExitKind::ConditionalTailJump { target: ProcAddr(at + 13) }));
    patch(&mut world, &unit, &site(at + 3, 9, Some(at + 12), kind), at + 0x1000, [&[], &[2]]);
    assert_eq!(call(&mut world, at, 5), 5);
    assert_eq!(words(&world, &unit), [0; 4]);
    assert_eq!(call(&mut world, at, 0), 7);
    assert_eq!(words(&world, &unit), [0, 1, 0, 0]);
}
