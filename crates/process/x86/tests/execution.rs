//! Relocated code behaves as the original: both are run on this processor, and registers, flags, memory and the way
//! out are compared.
//!
//! Random sequences of integer instructions with rip-relative operands, pushes, pops and every kind of branch, in
//! and out of the sequence, are assembled at one place, relocated to another, and each run from the same registers
//! and memory. `TRIMTAB_CASES` and `TRIMTAB_SEED` set how many and which. Next: `execution/sequence.rs`, `src/relocate.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[expect(dead_code, reason = "probes and calls are for the other test that uses it")]
#[path = "execution/arena.rs"]
mod arena;
#[path = "execution/random.rs"]
mod random;
#[path = "execution/sequence.rs"]
mod sequence;

use arena::{Arena, EXITS};
use random::{Random, cases, seed};
use sequence::{picks, run_moved, sequence};

const SEQUENCES: u64 = 20_000;

#[test]
fn relocated_code_behaves_as_the_original() {
    let mut arena = Arena::new();
    let mut random = Random::new(seed());
    let mut ways_out = [0; EXITS];
    for case in 0..cases(SEQUENCES) {
        let sequence = sequence(&picks(&mut random), &arena);
        let inputs: Vec<u64> = (0..arena::INPUTS).map(|_| random.interesting()).collect();
        arena.write_original(&sequence);
        let expected = arena.run(arena.original(), &inputs);
        let got = run_moved(&mut arena, &sequence, &inputs);
        assert_eq!(got, expected, "case {case} of seed {:#x}: {sequence:02x?} with {inputs:x?}", seed());
        ways_out[expected.exit] += 1;
    }
    assert!(ways_out.iter().all(|&count| count > cases(SEQUENCES) / 100), "every way out is taken: {ways_out:?}");
}
