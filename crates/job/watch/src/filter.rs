//! Which programs are wanted: by name, and by checksum, because names collide.
//!
//! A checksum is computed once for each state of a file: device, inode, time of change and size together.
//!
//! Next: `sight`, which asks this of every program that starts.

use crate::error::Error;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trimtab_symbols::glob_matches;

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 16;
/// Checksums kept; the oldest is forgotten.
const KNOWN_MAX: usize = 1000;

/// A state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState {
    device: u64,
    inode: u64,
    modified_ns: i128,
    size: u64,
}

impl FileState {
    /// From what the system says of it.
    pub fn of(data: &Metadata) -> FileState {
        FileState {
            device: data.dev(),
            inode: data.ino(),
            modified_ns: i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec()),
            size: data.size(),
        }
    }
}

/// Names that are wanted: file names, or whole paths if the pattern has a slash.
#[derive(Clone, Debug)]
pub struct Names {
    pattern: String,
}

impl Names {
    /// True if a program may be wanted, by its name alone.
    pub fn has(&self, program: &Path) -> bool {
        let text = match self.pattern.contains('/') {
            true => Some(program.as_os_str()),
            false => program.file_name(),
        };
        text.is_some_and(|text| glob_matches(&self.pattern, &text.to_string_lossy()))
    }
}

/// The programs that are wanted.
#[derive(Debug)]
pub struct Filter {
    names: Names,
    sha256: Option<String>,
    known: BTreeMap<FileState, String>,
}

impl Filter {
    /// Programs whose file name, or whole path if `pattern` has a slash, matches; and whose SHA-256 is that, if given.
    ///
    /// # Errors
    /// Nothing can match.
    pub fn new(pattern: &str, sha256: Option<&str>) -> Result<Filter, Error> {
        if pattern.is_empty() || pattern.contains('\0') || pattern.ends_with('/') {
            return Err(Error::NoName { pattern: pattern.to_owned() });
        }
        let digits = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(text) = sha256.filter(|text| !digits(text)) {
            return Err(Error::NoChecksum { text: text.to_owned() });
        }
        let sha256 = sha256.map(str::to_ascii_lowercase);
        Ok(Filter { names: Names { pattern: pattern.to_owned() }, sha256, known: BTreeMap::new() })
    }

    /// The names alone.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// True if a program of which no file could be had is wanted: its checksum can't be known.
    pub fn accepts_unread(&self) -> bool {
        self.sha256.is_none()
    }

    /// True if the file has the checksum that is wanted; any has, if none is.
    ///
    /// # Errors
    /// It can't be read.
    pub fn accepts(&mut self, program: &Path, file: &mut File) -> Result<bool, Error> {
        let Some(wanted) = self.sha256.clone() else { return Ok(true) };
        let failed = |source| Error::Read { path: PathBuf::from(program), source };
        let state = FileState::of(&file.metadata().map_err(failed)?);
        if let Some(known) = self.known.get(&state) {
            return Ok(*known == wanted);
        }
        let sum = checksum(file).map_err(failed)?;
        if self.known.len() >= KNOWN_MAX {
            self.known.pop_first();
        }
        let is_wanted = sum == wanted;
        self.known.insert(state, sum);
        Ok(is_wanted)
    }
}

/// SHA-256 of what is left of a stream, as 64 digits.
pub fn checksum(mut stream: impl Read) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut block = vec![0u8; BLOCK_BYTES];
    loop {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(length) => hasher.update(&block[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// Of "abc", as the standard has it.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn names_are_matched_by_file_name_or_whole_path() {
        for (pattern, program, expected) in [
            ("app", "/opt/x/app", true),
            ("app", "/opt/app/other", false),
            ("ap?", "/opt/app", true),
            ("*", "/opt/app", true),
            ("/opt/*/app", "/opt/x/y/app", true),
            ("/opt/*/app", "/srv/x/app", false),
            ("*/app", "/opt/app", true),
            ("app", "/opt/app2", false),
        ] {
            let filter = Filter::new(pattern, None).expect("a pattern");
            assert_eq!(filter.names().has(Path::new(program)), expected, "{pattern} {program}");
        }
    }

    #[test]
    fn what_can_never_match_is_refused() {
        assert!(Filter::new("", None).is_err());
        assert!(Filter::new("/opt/", None).is_err());
        for sum in ["", "abc", &"g".repeat(64), &format!("{ABC}0")] {
            assert!(Filter::new("app", Some(sum)).is_err(), "{sum}");
        }
        assert!(Filter::new("app", Some(&ABC.to_uppercase())).is_ok());
    }

    #[test]
    fn a_checksum_is_of_the_file_as_it_is_now() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut filter = Filter::new("app", Some(ABC)).expect("a filter");
        let path = Path::new("app");
        let mut look = |file: &mut File| {
            file.rewind().expect("rewinds");
            filter.accepts(path, file).expect("reads")
        };
        file.write_all(b"abc").expect("writes");
        assert!(look(&mut file));
        assert!(look(&mut file), "remembered");
        file.write_all(b"d").expect("writes");
        assert!(!look(&mut file), "changed");
        assert_eq!(checksum(&b"abc"[..]).expect("reads"), ABC);
    }
}
