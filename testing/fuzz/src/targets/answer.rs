//! Any bytes as a small function that is asked for its answer without being run: it ends, and writes to nothing.
//!
//! The function begins at the first byte. The same bytes are the memory that it may read.
//!
//! Next: `mapped` for the modules that such functions lie in.

use crate::hex::from_hex;
use crate::hostile::Target;
use crate::targets::mapped::bytes_at;
use anyhow::{Context, Result};
use trimtab_types::ProcAddr;
use trimtab_x86::evaluate_cell;

/// Where the function lies.
const START: ProcAddr = ProcAddr(0x5555_0000_0000);
/// Functions that libraries have, as compilers write them: a load, a comparison, a call, a lock and a loop.
const FUNCTIONS: [&str; 5] = [
    "8b05fa000000 8907 31c0 c3",
    "31c0 833df5000000 02 0f9dc0 0fb6c0 8907 31c0 c3",
    "53 4889fb e809000000 8903 31c0 5b c3 9090 8b05e8000000 c3",
    "55 4889e5 4883ec10 897dfc 8b45fc c9 c70701000000 31c0 c3",
    "b90a000000 31d2 01ca ffc9 75fa 8917 31c0 c3",
];
/// Bytes of memory behind each of them.
const MEMORY: usize = 512;

/// The target.
pub struct Answer;

impl Target for Answer {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let seed = |text: &str| {
            let mut bytes = from_hex(text).context("hexadecimal digits")?;
            bytes.resize(MEMORY, 2);
            Ok(bytes)
        };
        FUNCTIONS.into_iter().map(seed).collect()
    }

    fn length_max(&self) -> usize {
        MEMORY
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let read = |address, length| bytes_at(input, START, address, length);
        let answer = evaluate_cell(&read, START);
        assert_eq!(evaluate_cell(&read, START), answer, "it was asked, not run: the second answer is the first");
        answer.is_some()
    }
}
