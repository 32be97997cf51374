//! Faults on purpose, so that it can be seen that faults are found, told apart, made smaller and kept.
//!
//! Next: `tests/short.rs`, which looks for them.

use crate::hostile::Target;
use crate::mutate::Mutator;
use anyhow::Result;

/// The target: what it does depends on the first byte of four like it. Only panics come about by chance; the rest ends a
/// worker.
pub struct Planted;

impl Target for Planted {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![vec![0; 64]])
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, _: &[u8]) {
        input.resize(64, 0);
        let at = mutator.random.below(60) as usize;
        let kind = if mutator.random.below(50) == 0 { mutator.random.below(3) as u8 } else { 0 };
        input[at..at + 4].fill(kind);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let kind = input.windows(4).find(|run| run[0] != 0 && run.iter().all(|byte| *byte == run[0]));
        match kind.map(|run| run[0]) {
            Some(1) => panic!("one"),
            Some(2) => assert_eq!(input.len(), 0, "two"),
            Some(3) => std::process::abort(),
            Some(4) => drop(vec![1_u8; 1 << 40]),
            Some(5) => std::process::exit(i32::from(deep(u64::MAX) as u8)),
            Some(6) => forever(),
            _ => {}
        }
        true
    }
}

/// Uses all of the stack.
#[allow(unconditional_recursion, reason = "that is the fault")]
fn deep(left: u64) -> u64 {
    let room = [left; 64];
    std::hint::black_box(deep(left - 1)) + std::hint::black_box(&room)[(left % 64) as usize]
}

fn forever() {
    let mut number = 1_u64;
    while number != 0 {
        number = std::hint::black_box(number.wrapping_mul(3));
    }
}
