//! The code that finds entries of unwind tables, run on this processor: what it answers for each address, and that it is
//! not there for all others.
//!
//! Next: `src/frame_lookup.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[expect(dead_code, reason = "probes and calls are for other tests that use it")]
#[path = "execution/arena.rs"]
mod arena;

use arena::{Arena, INPUTS};
use trimtab_types::ProcAddr;
use trimtab_x86::{FrameLookup, ProbePlace};

/// Places of registers among the inputs.
const RAX: usize = 0;
const RSI: usize = 4;
const RDI: usize = 5;
/// The registers that a called function must give back: rbx, rbp, r12 to r15, and what it is given.
const KEPT: [usize; 8] = [1, 6, 11, 12, 13, 14, RSI, RDI];
const UNTOUCHED: u64 = 0x7777;

/// The entry for an address, and the three words beside it; `None` if the code fell through.
fn asked(arena: &mut Arena, table: &[u64], address: u64) -> Option<(u64, [u64; 3])> {
    let mut answer = Box::new([UNTOUCHED; 3]);
    let lookup = FrameLookup { table: ProcAddr(table.as_ptr() as u64) };
    let place = ProbePlace { at: arena.original(), room_before: 0 };
    let mut code = lookup.written(place).expect("it can always be written").bytes;
    // Behind it: mov eax, 1; ret
    code.extend([0xb8, 1, 0, 0, 0, 0xc3]);
    arena.write_original(&code);
    let mut inputs: Vec<u64> = (1..=INPUTS as u64).map(|at| at * 0x0101_0101_0101).collect();
    (inputs[RSI], inputs[RDI]) = (answer.as_mut_ptr() as u64, address);
    let outcome = arena.call(arena.original(), &inputs);
    for register in KEPT {
        assert_eq!(outcome.registers[register], inputs[register], "register {register} for {address:#x}");
    }
    let words = std::hint::black_box(&answer).as_slice().try_into().expect("three words");
    match outcome.registers[RAX] {
        1 => {
            assert_eq!(words, [UNTOUCHED; 3], "{address:#x}");
            None
        }
        entry => Some((entry, words)),
    }
}

#[test]
fn an_entry_is_found_for_each_address_of_a_table_and_for_no_other() {
    let mut arena = Arena::new();
    for count in 0..20u64 {
        let rows: Vec<(u64, u64)> =
            (0..count).map(|row| (0x7f00_0000_1000 + row * 0x100, 0x40 + row % 3 * 0x60)).collect();
        let mut table = vec![rows.first().map_or(0, |row| row.0), rows.last().map_or(0, |row| row.0 + row.1), count];
        table.extend(rows.iter().flat_map(|(from, length)| [*from, from + length, from ^ 0x5555]));
        let edges =
            rows.iter().flat_map(|(from, length)| [from - 1, *from, from + 1, from + length - 1, from + length]);
        for address in edges.chain([0, u64::MAX, 0x7f00_0000_1000]) {
            let row = rows.iter().find(|(from, length)| (*from..from + length).contains(&address));
            let wanted = row.map(|(from, _)| (from ^ 0x5555, [0, 0, *from]));
            assert_eq!(asked(&mut arena, &table, address), wanted, "{address:#x} of {count}");
        }
    }
}
