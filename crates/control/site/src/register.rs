//! The certificates an authority issued and revoked: two lists of lines in its folder, and the signed list made of the
//! second.
//!
//! A certificate is known by its serial number. Lines are only ever added: `SERIAL ROLE SECONDS`, with the end of its
//! validity where it was issued, and the moment where it was revoked.
//!
//! Next: `authority`, which keeps it; `revoked` for who reads the signed list.

use crate::error::SiteError;
use crate::role::{NoRole, Role};
use rustls::pki_types::CertificateDer;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The certificates that were issued, and which of them were revoked.
const ISSUED_FILE: &str = "issued.txt";
const REVOKED_FILE: &str = "revoked.txt";

/// A certificate's number, as its authority gave it, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(String);

/// A certificate in one of the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its number.
    pub serial: Serial,
    /// The role of its holder.
    pub role: Role,
    /// Until when it is valid, or when it was revoked, seconds since 1970.
    pub at_unix_s: u64,
}

impl Serial {
    /// That of a certificate.
    ///
    /// # Errors
    /// [`NoRole`] if it is none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, SiteError> {
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| NoRole { names: Vec::new() })?;
        Ok(Serial::of_bytes(parsed.serial()))
    }

    /// As people type it, with colons or without; none if it is no number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.replace(':', "").to_ascii_lowercase();
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| Serial(digits.trim_start_matches('0').to_owned()))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Serial(digits.trim_start_matches('0').to_owned())
    }

    /// As bytes, highest first.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let even = if self.0.len().is_multiple_of(2) { self.0.clone() } else { format!("0{}", self.0) };
        let digits: Vec<u32> = even.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit) as u8).collect()
    }
}

impl std::fmt::Display for Serial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Notes what was issued.
pub(crate) fn note_issued(folder: &Path, noted: &Noted) -> Result<(), SiteError> {
    note(&folder.join(ISSUED_FILE), noted)
}

/// Notes what was revoked.
pub(crate) fn note_revoked(folder: &Path, noted: &Noted) -> Result<(), SiteError> {
    note(&folder.join(REVOKED_FILE), noted)
}

/// All that was issued since there is a list.
pub(crate) fn issued(folder: &Path) -> Result<Vec<Noted>, SiteError> {
    all(&folder.join(ISSUED_FILE))
}

/// All that was revoked.
pub(crate) fn revoked(folder: &Path) -> Result<Vec<Noted>, SiteError> {
    all(&folder.join(REVOKED_FILE))
}

/// A moment in the lists.
pub(crate) fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn note(path: &Path, noted: &Noted) -> Result<(), SiteError> {
    let Noted { serial, role, at_unix_s } = noted;
    let line = format!("{serial} {} {at_unix_s}\n", typed(role));
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| failed(path, &error.to_string()))
}

fn all(path: &Path) -> Result<Vec<Noted>, SiteError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| failed(path, &error.to_string()))?,
    };
    let line = |line: &str| {
        let mut words = line.split(' ');
        let noted = Noted {
            serial: Serial::parse(words.next()?)?,
            role: words.next()?.parse().ok()?,
            at_unix_s: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(noted)
    };
    let read = |text: &str| line(text).ok_or_else(|| failed(path, &format!("`{text}` is no line of this list")));
    text.lines().map(read).collect()
}

/// A role as it is read again.
fn typed(role: &Role) -> String {
    match role {
        Role::Controller => "controller".to_owned(),
        Role::Node { host } => format!("node:{host}"),
        Role::User { uid } => format!("user:{uid}"),
        Role::Administrator { uid } => format!("administrator:{uid}"),
        Role::Scheduler { uid } => format!("scheduler:{uid}"),
    }
}

fn failed(path: &Path, what: &str) -> SiteError {
    SiteError::File { path: PathBuf::from(path), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_typed() {
        for (text, expected) in [
            ("0a:1B:2c", Some(vec![0x0a, 0x1b, 0x2c])),
            ("a1b2c", Some(vec![0x0a, 0x1b, 0x2c])),
            ("00ff", Some(vec![0xff])),
            ("user:7", None),
            ("", None),
        ] {
            assert_eq!(Serial::parse(text).map(|serial| serial.bytes()), expected, "{text}");
        }
        assert_eq!(Serial::of_bytes(&[0, 0x0f, 0xff]), Serial::parse("FFF").expect("a number"));
    }

    #[test]
    fn lines_come_back_and_others_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(issued(folder.path()).expect("none yet"), []);
        let noted = |serial: &str, role: &str| Noted {
            serial: Serial::parse(serial).expect("a number"),
            role: role.parse().expect("a role"),
            at_unix_s: 7,
        };
        let all = [noted("1f", "user:7"), noted("2", "node:n1.site"), noted("3", "controller")];
        all.iter().for_each(|one| note_issued(folder.path(), one).expect("it is written"));
        assert_eq!(issued(folder.path()).expect("lines"), all);
        fs::write(folder.path().join(ISSUED_FILE), "1f user:7\n").expect("a file");
        assert!(issued(folder.path()).expect_err("cut short").to_string().contains("`1f user:7` is no line"));
    }
}
