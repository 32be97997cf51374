//! A job's secret, which a user's own agents share, and nobody else has.
//!
//! The command that starts agents makes one and passes it on through a pipe or a file that only its user may read. It
//! never stands on a command line or in an environment, which others can list, and it is never shown.
//!
//! Next: `credentials` for the certificates that are made of it.

use crate::error::LinkError;
use crate::limits::CREDENTIAL_FILE_BYTES_MAX;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bits of a file's mode that let others than its owner read or write it.
const OTHERS: u32 = 0o077;
/// The secret as text: two digits per byte.
const DIGIT_COUNT: usize = 64;

/// 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSecret([u8; 32]);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(not shown)")
    }
}

impl JobSecret {
    /// A new one from the kernel.
    ///
    /// # Errors
    /// When the kernel has no randomness.
    pub fn new() -> Result<Self, LinkError> {
        let mut bytes = [0; 32];
        let mut got = 0;
        while got < bytes.len() {
            got += rustix::rand::getrandom(&mut bytes[got..], rustix::rand::GetRandomFlags::empty())
                .map_err(std::io::Error::from)?;
        }
        Ok(JobSecret(bytes))
    }

    /// Reads one line of hexadecimal digits, such as from standard input.
    ///
    /// # Errors
    /// When it isn't one.
    pub fn read(from: &mut impl Read) -> Result<Self, LinkError> {
        let mut digits = [0; DIGIT_COUNT + 1];
        from.read_exact(&mut digits)?;
        JobSecret::parse(&digits)
    }

    /// Reads it from a file, which only its owner may read.
    ///
    /// # Errors
    /// When others may, or it holds something else.
    pub fn of_file(path: &Path) -> Result<Self, LinkError> {
        JobSecret::parse(&private_file(path)?)
    }

    /// Writes it as one line, to a reader that may have it.
    ///
    /// # Errors
    /// When they don't take it.
    pub fn write(&self, to: &mut impl Write) -> Result<(), LinkError> {
        let mut line = String::with_capacity(DIGIT_COUNT + 1);
        self.0.iter().try_for_each(|byte| write!(line, "{byte:02x}")).map_err(|_| LinkError::Secret)?;
        line.push('\n');
        Ok(to.write_all(line.as_bytes())?)
    }

    /// Writes it to a new file that only its owner may read.
    ///
    /// # Errors
    /// When there is such a file already, or it can't be written.
    pub fn to_file(&self, path: &Path) -> Result<(), LinkError> {
        self.write(&mut OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?)
    }

    /// The bytes, for the one thing that is made of them.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn parse(text: &[u8]) -> Result<Self, LinkError> {
        let digits = text.strip_suffix(b"\n").unwrap_or(text);
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8).ok_or(LinkError::Secret);
        let mut bytes = [0; 32];
        if digits.len() != DIGIT_COUNT {
            return Err(LinkError::Secret);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(JobSecret(bytes))
    }
}

/// The content of a file that only its owner, which is us, may read.
///
/// # Errors
/// When it can't be read, or others may.
pub fn private_file(path: &Path) -> Result<Vec<u8>, LinkError> {
    let wrong = |what: String| LinkError::File { path: path.to_owned(), what };
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let metadata = file.metadata()?;
    if metadata.mode() & OTHERS != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(wrong(format!("others than its owner may use it (mode {mode:o}): chmod 600 {}", path.display())));
    }
    let mut content = Vec::new();
    file.take(CREDENTIAL_FILE_BYTES_MAX).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_through_a_pipe_and_a_private_file_and_is_never_shown() {
        let secret = JobSecret::new().unwrap();
        assert_ne!(secret, JobSecret::new().unwrap());
        let mut line = Vec::new();
        secret.write(&mut line).unwrap();
        assert_eq!(JobSecret::read(&mut &line[..]).unwrap(), secret);
        assert!(!format!("{secret:?}").contains(std::str::from_utf8(&line[..8]).unwrap()));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        secret.to_file(&path).unwrap();
        assert_eq!(JobSecret::of_file(&path).unwrap(), secret);
        assert!(secret.to_file(&path).is_err(), "never over another file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let error = JobSecret::of_file(&path).unwrap_err().to_string();
        assert!(error.contains("mode 640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for text in [&b""[..], b"00", &[b'g'; 64], &[b'0'; 63], &[b'0'; 66]] {
            assert!(JobSecret::parse(text).is_err(), "{text:?}");
        }
        assert!(JobSecret::parse(&[b'0'; 64]).is_ok());
    }
}
