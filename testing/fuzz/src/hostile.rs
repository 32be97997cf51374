//! A target: code that takes any bytes and must answer.
//!
//! Next: `target` for the list of all, `targets` for each.

use crate::mutate::Mutator;
use anyhow::Result;

/// Code that takes any bytes.
pub trait Target: Send {
    /// Inputs to begin with, made now by the system's compiler or written here.
    ///
    /// # Errors
    /// When they can't be made.
    fn seeds(&self) -> Result<Vec<Vec<u8>>>;

    /// Longest input, in bytes: what is made longer by changes is cut.
    fn length_max(&self) -> usize {
        16 * 1024
    }

    /// Changes an input. `other` is another kept one.
    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[]);
    }

    /// Runs one input; panics where something promised does not hold. Returns if the input got past the first checks: a
    /// target that refuses nearly everything tests little.
    fn run(&mut self, input: &[u8]) -> bool;
}
