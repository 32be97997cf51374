//! Any bytes as debugging sections, without a file around them: twelve lengths of two bytes, then the sections. Types,
//! lines, expressions and names are all asked for.
//!
//! Next: `elf`, which looks for the sections in whole files.

use crate::ask::ask_everything;
use crate::hostile::Target;
use crate::mutate::Mutator;
use crate::seeds::{Specimen, section};
use anyhow::Result;
use trimtab_symbols::dwarf::{Index, Program, Sections};
use trimtab_types::FileAddr;

const NAMES: [&str; 12] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_rnglists",
    ".debug_loclists",
    ".debug_addr",
    ".debug_str_offsets",
    ".debug_types",
    ".debug_ranges",
    ".debug_loc",
];
const LENGTHS_BYTES: usize = 2 * NAMES.len();
/// Ways to compile the specimen.
const VARIANTS: [&[&str]; 4] = [
    &["-gdwarf-5", "-O1"],
    &["-gdwarf-4", "-O2", "-fdebug-types-section"],
    &["-gdwarf-3", "-gstrict-dwarf", "-O0"],
    &["-gdwarf-5", "-O2", "-fdebug-types-section"],
];
/// Names in the specimen, and one that is not.
const ASKED: [&str; 8] = ["main", "sum", "node", "struct node", "calls", "color", "RED", "x::y<z>"];

/// The target.
pub struct Debug;

impl Target for Debug {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let mut seeds = Vec::new();
        for variant in VARIANTS {
            let flags: &'static [&'static str] = Vec::leak([&["-shared", "-fPIC", "-nostdlib"], variant].concat());
            let file = Specimen { compiler: "cc", source: "facts.c", flags }.build(&[])?;
            let parts = NAMES.map(|name| section(&file, name).0);
            let lengths = parts.iter().flat_map(|part| (part.len() as u16).to_le_bytes());
            seeds.push(lengths.chain(parts.concat()).collect());
        }
        Ok(seeds)
    }

    fn length_max(&self) -> usize {
        8 * 1024
    }

    /// Lengths stay as they are, mostly, so that sections stay sections; bytes are changed in place.
    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        let Some(lengths) = input.get(..LENGTHS_BYTES).map(<[u8]>::to_vec) else {
            return mutator.change(input, other, &[]);
        };
        let length = input.len();
        mutator.change(input, other, &[]);
        if mutator.random.below(8) > 0 && input.len() >= LENGTHS_BYTES {
            input[..LENGTHS_BYTES].copy_from_slice(&lengths);
            input.resize(length, 0);
        }
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((lengths, mut rest)) = input.split_at_checked(LENGTHS_BYTES) else { return false };
        let mut parts = [&[][..]; NAMES.len()];
        for (part, length) in parts.iter_mut().zip(lengths.chunks_exact(2)) {
            let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
            (*part, rest) = rest.split_at(length);
        }
        let part = |name: &str| NAMES.iter().position(|known| *known == name).map_or(&[][..], |at| parts[at]);
        let sections = Sections::of_parts(part);
        let addrs = [0_u64, 2, 0x1000, 0x1010, 0x1023, 0x40_1000, u64::MAX].map(FileAddr);
        let program = Program::open(&sections);
        ask_everything(&program, &addrs, &ASKED);
        // An index of other sections, or a damaged one, is either not used or no danger.
        if let Ok(index) = Index::from_cache(&program.index().to_cache()) {
            let _ = Program::open_with(&sections, index).functions_named("main");
        }
        !program.functions_named("sum").is_empty()
    }
}
