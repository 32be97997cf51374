//! Any bytes as what is kept on disk: the symbols of a file, the index of its debugging information, branches between
//! functions; with a right checksum, since damage is not what a checksum finds when somebody wrote it.
//!
//! The first byte of an input says which of them it is. Next: `elf`, whose answers are kept.

use crate::ask_image::ask_image;
use crate::hostile::Target;
use crate::seeds::{LINKAGE, SHAPES, Specimen};
use anyhow::Result;
use trimtab_symbols::dwarf::{Index, Program, Sections, seal_index};
use trimtab_symbols::{Image, seal};
use trimtab_types::FileAddr;

/// Bytes of the header that `seal` puts before.
const HEADER_BYTES: usize = 28;

/// The target.
pub struct Cache;

impl Target for Cache {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let mut seeds = Vec::new();
        for specimen in [SHAPES, LINKAGE] {
            let kept = Image::parse(&specimen.build(&[])?)?.to_cache();
            seeds.push([&[0], &kept[HEADER_BYTES..]].concat());
        }
        let flags = &["-shared", "-fPIC", "-nostdlib", "-g", "-O1"];
        let file = Specimen { compiler: "cc", source: "facts.c", flags }.build(&[])?;
        let sections = Sections::of(&file)?;
        let kept = Program::open(&sections).index().to_cache();
        seeds.push([&[1], &kept[HEADER_BYTES..]].concat());
        let branches = [(0x1000, 0x2000), (0x1010, 0x40)].map(|(to, from)| (FileAddr(to), FileAddr(from)));
        let branches = trimtab_session::branches_to_bytes(&branches);
        seeds.push([&[2], &branches[16..]].concat());
        // An engine, one file's id, one name.
        seeds.push([&[3, 7, 1, 2, 0xab, 0xcd, 1, 8], &b"MPI_Send"[..]].concat());
        Ok(seeds)
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((kind, payload)) = input.split_first() else { return false };
        match kind % 4 {
            0 => {
                // As an accident leaves it, without a checksum that fits.
                let _ = Image::from_cache(payload);
                let Ok(image) = Image::from_cache(&seal(payload)) else { return false };
                ask_image(payload, &image);
                true
            }
            1 => {
                let Ok(index) = Index::from_cache(&seal_index(payload)) else { return false };
                let sections = Sections::of_parts(|_| &[]);
                let program = Program::open_with(&sections, index.clone());
                let _ = (program.functions_named("main"), program.variables_named("calls"));
                assert_eq!(Index::from_cache(&index.to_cache()), Ok(index), "the cache gives back what it got");
                true
            }
            3 => trimtab_session::are_kept_imports(payload),
            _ => {
                let whole = payload.len() / 16 * 16;
                let pair = |pair: &[u8]| (FileAddr(word(&pair[..8])), FileAddr(word(&pair[8..])));
                let pairs: Vec<(FileAddr, FileAddr)> = payload[..whole].chunks_exact(16).map(pair).collect();
                let kept = trimtab_session::branches_to_bytes(&pairs);
                let read = trimtab_session::branches_from(&kept);
                assert!(read.is_none_or(|read| read == pairs && read.is_sorted()), "in order, as look-ups need them");
                trimtab_session::branches_from(payload).is_some()
            }
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_le_bytes).unwrap_or_default()
}
