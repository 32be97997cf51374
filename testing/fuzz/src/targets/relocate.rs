//! Relocated code beside the original: both are run on this processor; registers, flags, memory and the way out are
//! compared.
//!
//! An input is sixteen values for registers and flags and then a number for each instruction. Next: `patched`, whole
//! functions.

use crate::arena::{Arena, INPUTS};
use crate::hostile::Target;
use crate::mutate::Mutator;
use crate::random::Random;
use crate::sequence::{INSTRUCTIONS_MAX, picks, run_moved, sequence};
use anyhow::Result;

const INPUT_BYTES: usize = INPUTS * 8;

/// The target, with the memory in which code runs.
pub struct Relocate {
    arena: Arena,
}

impl Relocate {
    /// Makes the memory.
    pub fn new() -> Relocate {
        Relocate { arena: Arena::new() }
    }
}

impl Target for Relocate {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let mut random = Random::new(1);
        Ok((0..64).map(|_| fresh(&mut random)).collect())
    }

    fn length_max(&self) -> usize {
        INPUT_BYTES + 8 * INSTRUCTIONS_MAX as usize
    }

    /// A number is an instruction, so changed bits are as good as new ones; every other input is a new one.
    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        if mutator.random.below(2) == 0 {
            *input = fresh(mutator.random);
        } else {
            mutator.change(input, other, &[]);
        }
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let words: Vec<u64> =
            input.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default()).collect();
        let Some((inputs, picks)) = words.split_at_checked(INPUTS).filter(|(_, picks)| !picks.is_empty()) else {
            return false;
        };
        let code = sequence(picks, &self.arena);
        self.arena.write_original(&code);
        let expected = self.arena.run(self.arena.original(), inputs);
        let got = run_moved(&mut self.arena, &code, inputs);
        assert_eq!(got, expected, "{code:02x?} with {inputs:x?}");
        true
    }
}

fn fresh(random: &mut Random) -> Vec<u8> {
    let mut words: Vec<u64> = (0..INPUTS).map(|_| random.interesting()).collect();
    words.extend(picks(random));
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}
