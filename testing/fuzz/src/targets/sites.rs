//! Any bytes as a function: no panic, and every plan holds its invariants.
//!
//! Next: `patched`, which runs what is planned.

use crate::hostile::Target;
use crate::invariants::check;
use crate::random::Random;
use crate::seeds::{SHAPES, THROWS, section};
use anyhow::Result;
use trimtab_types::FileAddr;
use trimtab_x86::Stretches;

/// Longest piece of code taken as one function, in bytes.
const PIECE_BYTES: usize = 192;
const PIECES_MAX: usize = 24;

/// The target.
pub struct Sites;

impl Target for Sites {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let mut seeds = Vec::new();
        for specimen in [SHAPES, THROWS] {
            let file = specimen.build(&[])?;
            let pieces = section(&file, ".text").0.chunks(PIECE_BYTES).take(PIECES_MAX);
            seeds.extend(pieces.map(|piece| [&[16, 0, 200, 0], piece].concat()));
        }
        let arena = crate::arena::Arena::new();
        let mut random = Random::new(1);
        for _ in 0..PIECES_MAX {
            let function = crate::function::random(&mut random, &arena, arena.original());
            seeds.push([&[16, 0, 200, 0], &function.bytes[..]].concat());
        }
        Ok(seeds)
    }

    fn length_max(&self) -> usize {
        768
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let starts = [0x1000, 0x1010, 0x1040, 0x1100].map(FileAddr);
        let stretches = Stretches::new(input, starts[0], &starts);
        let all = stretches.branches();
        for (to, from) in &all {
            let inside = starts[0]..starts[0] + input.len() as u64;
            assert!(inside.contains(to) && inside.contains(from) && !starts.contains(to), "{to:x} {from:x}");
        }
        let far = stretches.far();
        let parts = starts.iter().zip(starts.iter().skip(1).chain([&FileAddr(u64::MAX)]));
        let asked = parts.flat_map(|(start, end)| stretches.branches_into(*start..*end, &far));
        assert!(asked.eq(all.iter().copied()), "part by part it is not the same");
        check(input) > 0
    }
}
