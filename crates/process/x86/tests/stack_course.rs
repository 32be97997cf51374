//! The known state of the stack at each instruction of islands and bodies, against rows written by hand.
//!
//! Next: `src/stack_course.rs`.

use std::collections::BTreeMap;
use trimtab_types::ProcAddr;
use trimtab_x86::{HeldValue, OurCode, STACK_POINTER, StackOrigin, StackPlace, StackState, follow};

const AT: ProcAddr = ProcAddr(0x1000);
const ORIGINAL: ProcAddr = ProcAddr(0x40_0000);
const RBX: usize = 3;
const RBP: usize = 5;

fn states(bytes: &[u8], copies: &[(ProcAddr, u64)]) -> BTreeMap<u64, StackState> {
    let copies = copies.iter().map(|(copy, original)| (*copy, ProcAddr(*original))).collect();
    let entries = [(AT, StackOrigin::Instruction(ORIGINAL))];
    let course = follow(&OurCode { at: AT, bytes, entries: &entries, copies: &copies });
    course.states.into_iter().map(|(at, (_, state))| (at - AT, state)).collect()
}

fn depths(bytes: &[u8], copies: &[(ProcAddr, u64)]) -> Vec<(u64, Option<StackPlace>)> {
    states(bytes, copies).into_iter().map(|(at, state)| (at, state.stack())).collect()
}

fn down(bytes: i64) -> Option<StackPlace> {
    Some(StackPlace::Origin(-bytes))
}

#[test]
fn registers_saved_around_a_call() {
    // cmp dword [rip], 0; je out; push rax; push r8; call far; pop r8; pop rax; out: ret
    let code = [0x83, 0x3d, 0, 0, 0, 0, 0, 0x74, 11, 0x50, 0x41, 0x50, 0xe8, 0, 0, 1, 0, 0x41, 0x58, 0x58, 0xc3];
    let wanted =
        [(0, 0), (7, 0), (9, 0), (10, 8), (12, 16), (17, 16), (19, 8), (20, 0)].map(|(at, depth)| (at, down(depth)));
    assert_eq!(depths(&code, &[]), wanted);
}

#[test]
fn a_point_with_red_zone_flags_and_alignment() {
    // lea rsp, [rsp - 128]; pushfq; push rbp; mov rbp, rsp; and rsp, -16; push rbp; mov rsp, rbp; pop rbp; popfq;
    // lea rsp, [rsp + 128]; ret
    let code = [
        0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0, 0x55, 0x48, 0x89, 0xec,
        0x5d, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xc3,
    ];
    let aligned = |at| Some(StackPlace::Aligned(AT + 10, at));
    let wanted = [
        (0, down(0)),
        (5, down(128)),
        (6, down(136)),
        (7, down(144)),
        (10, down(144)),
        (14, aligned(0)),
        (15, aligned(-8)),
        (18, down(144)),
        (19, down(136)),
        (20, down(128)),
        (28, down(0)),
    ];
    assert_eq!(depths(&code, &[]), wanted);
    let states = states(&code, &[]);
    assert_eq!(states[&15].place_in(RBP), down(144), "the frame is found by what calls give back");
    assert_eq!(states[&15].words[&StackPlace::Origin(-144)], HeldValue::Register(RBP));
    assert_eq!(states[&28].registers[RBP], Some(HeldValue::Register(RBP)));
}

/// A routine may change what its caller has saved: it is looked for where it was saved.
#[test]
fn what_is_saved_is_found_there_behind_a_call() {
    // push rbx; call far; mov rbx, [rsp]; pop rbx; ret
    let code = [0x53, 0xe8, 0, 0, 1, 0, 0x48, 0x8b, 0x1c, 0x24, 0x5b, 0xc3];
    let states = states(&code, &[]);
    assert_eq!(states[&1].registers[RBX], Some(HeldValue::Register(RBX)));
    assert_eq!(states[&6].registers[RBX], None);
    assert_eq!(states[&6].words[&StackPlace::Origin(-8)], HeldValue::Register(RBX));
    for at in [10, 11] {
        assert_eq!(states[&at].registers[RBX], Some(HeldValue::Register(RBX)), "at {at}");
    }
}

/// Copies of the program's instructions are at their originals' rows, and so is what follows them; a displaced call puts a
/// word on the stack first.
#[test]
fn copies_begin_anew_at_their_originals() {
    // push rbp; mov rbp, rsp; nop; call over a breakpoint; mov dword [rsp], 5; jmp far
    let code = [0x55, 0x48, 0x89, 0xe5, 0x90, 0xe8, 1, 0, 0, 0, 0xcc, 0xc7, 0x04, 0x24, 5, 0, 0, 0, 0xe9, 0, 0, 1, 0];
    let copies = [(AT, 0x40_0000), (AT + 1, 0x40_0001), (AT + 5, 0x40_0010)];
    let found = states(&code, &copies);
    let origins: Vec<(u64, StackOrigin, Option<StackPlace>)> =
        found.into_iter().map(|(at, state)| (at, state.origin, state.stack())).collect();
    let wanted = [
        (0, 0x40_0000, 0),
        (1, 0x40_0001, 0),
        (4, 0x40_0004, 0),
        (5, 0x40_0010, 0),
        (11, 0x40_0010, 8),
        (18, 0x40_0010, 8),
    ];
    let wanted = wanted.map(|(at, origin, depth)| (at, StackOrigin::Instruction(ProcAddr(origin)), down(depth)));
    assert_eq!(origins, wanted);
}

/// Ways that meet with different stacks, and instructions that may do anything to it, leave nothing known.
#[test]
fn what_two_ways_say_differently_is_not_known() {
    // je on; push rax; on: nop; ret
    let meeting = [0x74, 1, 0x50, 0x90, 0xc3];
    assert_eq!(depths(&meeting, &[]), [(0, down(0)), (2, down(0)), (3, None), (4, None)]);
    for (name, code) in [
        ("loaded", &[0x48, 0x8b, 0x20, 0x90][..]),
        ("exchanged", &[0x48, 0x94, 0x90]),
        ("entered", &[0xc8, 8, 0, 0, 0x90]),
        ("left", &[0xc9, 0x90]),
        ("pushed a half", &[0x66, 0x50, 0x90]),
    ] {
        let states = states(code, &[]);
        let (_, last) = states.last_key_value().expect("it is followed");
        assert_eq!(last.registers[STACK_POINTER], None, "{name}");
    }
}

/// Code of ours that jumps to one of several pieces right behind.
#[test]
fn pieces_behind_a_calculated_jump_are_known() {
    // push rbx; jmp rax; inc ecx; pop rbx; ret; int3; pop rbx; ret
    let code = [0x53, 0xff, 0xe0, 0xff, 0xc1, 0x5b, 0xc3, 0xcc, 0x5b, 0xc3];
    let wanted = [(0, 0), (1, 8), (3, 8), (5, 8), (6, 0), (8, 8), (9, 0)].map(|(at, depth)| (at, down(depth)));
    assert_eq!(depths(&code, &[]), wanted);
    // The program's own may lead anywhere.
    assert_eq!(depths(&code, &[(AT + 1, 7)]), [(0, down(0)), (1, down(0))]);
}

/// Whatever bytes there are, following ends.
#[test]
fn any_bytes_are_followed_to_an_end() {
    let mut seed = 7_u64;
    for length in 0..400 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        let states = states(&bytes, &[(AT + 3, 9)]);
        assert!(states.keys().all(|at| *at < length.max(1)));
    }
}
