//! Any bytes as a seccomp filter that is asked about any call.
//!
//! The first bytes are the call's number and one argument, the rest is the filter. It always ends, and its answer is the
//! same each time.
//!
//! Next: `trimtab-os`' `filter`.

use crate::hostile::Target;
use anyhow::Result;
use trimtab_os::{CallFilter, FilteredCall};

/// Bytes of the call: its number, an argument, a place.
const CALL_BYTES: usize = 24;

/// The target.
pub struct Filter;

impl Target for Filter {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        // Loads, comparisons and answers: one call is refused; a mask; the scratch memory and a division.
        let filters: [&[(u16, u8, u8, u32)]; 3] = [
            &[(0x20, 0, 0, 0), (0x15, 0, 1, 9), (0x06, 0, 0, 0x5_0001), (0x06, 0, 0, 0x7fff_0000)],
            &[(0x20, 0, 0, 32), (0x54, 0, 0, 6), (0x45, 1, 0, 4), (0x06, 0, 0, 0), (0x16, 0, 0, 0)],
            &[(0x80, 0, 0, 0), (0x02, 0, 0, 3), (0x61, 0, 0, 3), (0x3c, 0, 0, 0), (0x05, 0, 0, 0), (0x16, 0, 0, 0)],
        ];
        let seed = |filter: &&[(u16, u8, u8, u32)]| {
            let mut bytes = [9u64, 5, 0x40_1000].map(u64::to_le_bytes).concat();
            for (code, yes, no, constant) in filter.iter() {
                bytes.extend(code.to_le_bytes());
                bytes.extend([*yes, *no]);
                bytes.extend(constant.to_le_bytes());
            }
            bytes
        };
        Ok(filters.iter().map(seed).collect())
    }

    fn length_max(&self) -> usize {
        CALL_BYTES + 8 * 64
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((call, rest)) = input.split_at_checked(CALL_BYTES) else { return false };
        let word = |at: usize| u64::from_le_bytes(call[at..at + 8].try_into().unwrap_or_default());
        let call = FilteredCall { number: word(0) as i64, arguments: [word(8); 6], instruction_pointer: word(16) };
        // Cut to whole instructions, most inputs are filters.
        let Some(filter) = CallFilter::parse(&rest[..rest.len() / 8 * 8]) else { return false };
        let answer = filter.answer(&call);
        assert_eq!(answer, filter.answer(&call), "a filter remembers nothing");
        if let Some(answer) = answer {
            assert_eq!(answer.passes(), matches!(answer.0 >> 16, 0x7fff | 0x7ffc), "{}", answer.describe());
        }
        answer.is_some()
    }
}
