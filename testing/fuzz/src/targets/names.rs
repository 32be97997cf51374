//! Any text as a mangled name, as a pattern, and as what Linux says of a process.
//!
//! The first byte of an input says which. Next: `trimtab-types`' `procfs`.

use crate::hostile::Target;
use anyhow::Result;
use trimtab_symbols::{demangle, demangle_name, glob_matches};
use trimtab_types::procfs::{parse_maps, parse_stat};

/// A demangled name is at most so long, in bytes.
const MEANING_BYTES_MAX: usize = 64 * 1024;

/// The target.
pub struct Names;

impl Target for Names {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let seeds: [(u8, &[u8]); 9] = [
            (0, b"_ZNSt6vectorIiSaIiEE9push_backERKi"),
            (0, b"_ZNKSt8functionIFvRKN2xx4yyyyIiLi3EEEPKcEEclES4_S6_"),
            (0, b"_ZN4core3ptr13drop_in_place17h0123456789abcdefE"),
            (0, b"_RNvNtCs1234_7mycrate3foo3bar"),
            (1, b"MPI_*\0MPI_Send"),
            (1, b"*a*b?c[d-f]*\0aXbYcdzzz"),
            (2, b"7f0000000000-7f0000001000 r-xp 00001000 fe:00 77 /bin/an app (deleted)\n7f0000001000-7f0000002000 rw-p 00000000 00:00 0 [heap]\n"),
            (2, b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"),
            (3, b"1 (a) R 1 (b) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 5 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"),
        ];
        Ok(seeds.iter().map(|(kind, text)| [&[*kind], *text].concat()).collect())
    }

    fn length_max(&self) -> usize {
        1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((kind, rest)) = input.split_first() else { return false };
        match kind % 4 {
            0 => {
                let text = String::from_utf8_lossy(rest);
                let meanings = [demangle(&text), demangle_name(&text)];
                assert!(meanings.iter().flatten().all(|meaning| meaning.len() <= MEANING_BYTES_MAX), "not endless");
                meanings[0].is_some()
            }
            1 => {
                let text = String::from_utf8_lossy(rest);
                let (pattern, name) = text.split_once('\0').unwrap_or((&text, "MPI_Send"));
                assert!(glob_matches("*", name), "a star matches everything");
                glob_matches(pattern, name)
            }
            2 => parse_maps(rest).is_ok_and(|maps| {
                // Lengths are asked of every mapping.
                maps.iter()
                    .for_each(|mapping| assert!(mapping.length() <= u64::MAX / 2 || mapping.start < mapping.end));
                !maps.is_empty()
            }),
            _ => parse_stat(rest).is_some(),
        }
    }
}
