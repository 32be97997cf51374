//! The inputs that are kept: seeds made now, those in the repository, those that earlier runs found.
//!
//! In the repository they are text, one file each, and only those that reach what the seeds do not.
//!
//! Next: `worker`, which adds to them.

use crate::hex::{from_hex, to_hex};
use crate::random::Random;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Inputs in memory at most: the oldest stay, because later ones are their changed copies.
const INPUTS_MAX: usize = 20_000;
/// The newest inputs, which are chosen as often as all others together: who reached new code last is nearest to more.
const NEWEST: usize = 64;

/// All kept inputs of a target.
#[derive(Default)]
pub struct Corpus {
    inputs: Vec<Vec<u8>>,
    known: BTreeSet<String>,
}

impl Corpus {
    /// Adds an input; `false` if it is there already or there is no room.
    pub fn add(&mut self, input: &[u8]) -> bool {
        let is_new = self.inputs.len() < INPUTS_MAX && self.known.insert(name_of(input));
        if is_new {
            self.inputs.push(input.to_vec());
        }
        is_new
    }

    /// Adds what the files of a folder hold; one that is not there is empty.
    ///
    /// # Errors
    /// When a file is not what it should be.
    pub fn add_folder(&mut self, folder: &Path, length_max: usize) -> Result<()> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "hex"));
        // Folders list files in any order; runs with one seed make the same choices.
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let Some(input) = from_hex(&text) else { bail!("{} is not hexadecimal: remove it", path.display()) };
            if input.len() <= length_max {
                self.add(&input);
            }
        }
        Ok(())
    }

    /// One of them, the newest rather than others.
    pub fn choose(&self, random: &mut Random) -> &[u8] {
        let newest = self.inputs.len().saturating_sub(NEWEST);
        let first = if random.below(2) == 0 { newest } else { 0 };
        let count = (self.inputs.len() - first).max(1) as u64;
        self.inputs.get(first + random.below(count) as usize).map_or(&[], Vec::as_slice)
    }

    /// All of them, in the order they came.
    pub fn inputs(&self) -> &[Vec<u8>] {
        &self.inputs
    }
}

/// Writes an input into a folder.
///
/// # Errors
/// When that fails.
pub fn write(folder: &Path, input: &[u8]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join(name_of(input));
    std::fs::write(&path, to_hex(input)).with_context(|| format!("cannot write {}", path.display()))
}

/// An input's file.
pub fn name_of(input: &[u8]) -> String {
    format!("{:016x}.hex", trimtab_stub::layout::checksum(input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_kept_once_and_read_again() {
        let folder = std::env::temp_dir().join(format!("trimtab-fuzz-corpus-{}", std::process::id()));
        let mut corpus = Corpus::default();
        corpus.add_folder(&folder, 10).expect("nothing there yet");
        for input in [&b"one"[..], b"two", b"one", b"longer than ten bytes"] {
            corpus.add(input);
            write(&folder, input).expect("temp is writable");
        }
        assert_eq!(corpus.inputs().len(), 3);
        let mut again = Corpus::default();
        again.add_folder(&folder, 10).expect("hexadecimal");
        assert_eq!(again.inputs().len(), 2);
        assert_eq!(again.choose(&mut Random::new(1)).len(), 3);
        std::fs::write(folder.join("a.hex"), "no hex").expect("temp is writable");
        assert!(again.add_folder(&folder, 10).is_err());
        std::fs::remove_dir_all(&folder).expect("ours to remove");
    }
}
