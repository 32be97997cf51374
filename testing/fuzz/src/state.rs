//! Where a worker stands, in a file that outlives it: how far it has come, and the input it is at.
//!
//! Whatever ends a worker, the campaign finds here which input did it.
//!
//! Next: `worker` writes it before every input, `campaign` reads it.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Numbers of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Inputs run, the present one included.
    pub executions: u64,
    /// Those that got past the first checks.
    pub accepted: u64,
    /// Inputs kept.
    pub corpus: u64,
    /// Of them, found in this run.
    pub found: u64,
    /// Places of the code reached.
    pub reached: u64,
    /// Longest time for one input, in microseconds.
    pub slowest_us: u64,
}

const WORDS: usize = 7;

/// A worker's file.
pub struct StateFile {
    file: File,
    buffer: Vec<u8>,
}

impl StateFile {
    /// Creates the file.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn create(path: &Path) -> Result<StateFile> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(StateFile { file, buffer: Vec::new() })
    }

    /// Says where the worker stands and what it does next.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&mut self, numbers: &Numbers, input: &[u8]) -> Result<()> {
        let Numbers { executions, accepted, corpus, found, reached, slowest_us } = *numbers;
        self.buffer.clear();
        for word in [executions, accepted, corpus, found, reached, slowest_us, input.len() as u64] {
            self.buffer.extend(word.to_le_bytes());
        }
        self.buffer.extend(input);
        self.file.write_all_at(&self.buffer, 0).context("cannot write the worker's state")
    }
}

/// A worker's last words; `None` if it said nothing yet.
pub fn read(path: &Path) -> Option<(Numbers, Vec<u8>)> {
    let bytes = std::fs::read(path).ok()?;
    let word = |index: usize| Some(u64::from_le_bytes(bytes.get(index * 8..index * 8 + 8)?.try_into().ok()?));
    let numbers = Numbers {
        executions: word(0)?,
        accepted: word(1)?,
        corpus: word(2)?,
        found: word(3)?,
        reached: word(4)?,
        slowest_us: word(5)?,
    };
    let length = usize::try_from(word(6)?).ok()?;
    Some((numbers, bytes.get(WORDS * 8..WORDS * 8 + length)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_last_is_read() {
        let path = std::env::temp_dir().join(format!("trimtab-fuzz-state-{}", std::process::id()));
        let mut file = StateFile::create(&path).expect("temp is writable");
        assert_eq!(read(&path), None);
        file.write(&Numbers::default(), b"a longer input").expect("written");
        let numbers = Numbers { executions: 2, accepted: 1, corpus: 7, found: 4, reached: 9, slowest_us: 5 };
        file.write(&numbers, b"short").expect("written");
        assert_eq!(read(&path), Some((numbers, b"short".to_vec())));
        std::fs::remove_file(&path).expect("ours to remove");
    }
}
