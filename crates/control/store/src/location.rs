//! Where the store lies when the user does not say, and what kind of file system that is.
//!
//! Home directories of clusters are often network file systems, where SQLite's write-ahead log must not be used: its
//! index lives in memory that only processes of one host share. [`journal_mode`] picks the rollback journal there.
//!
//! Next: `store.rs`, which opens the file.

use crate::Error;
use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `f_type` of file systems whose files several hosts, or a user-space server, may hold at once (statfs(2)).
const SHARED_FILE_SYSTEMS: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x2003_0528, "OrangeFS"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
];

/// `$XDG_DATA_HOME/trimtab/trimtab.db`, or `~/.local/share/trimtab/trimtab.db` where that variable is unset or relative.
///
/// # Errors
/// [`Error::NoDataDirectory`] if neither that variable nor `HOME` is an absolute path.
pub fn default_path() -> Result<PathBuf, Error> {
    default_path_from(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// The store of a site's controller: `site.db` in `$STATE_DIRECTORY`, which a service manager sets, or in `trimtab` of
/// `$XDG_STATE_HOME` or `~/.local/state`.
///
/// # Errors
/// [`Error::NoStateDirectory`] if none of these variables, nor `HOME`, is an absolute path.
pub fn default_site_path() -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name);
    site_path_from(variable("STATE_DIRECTORY"), variable("XDG_STATE_HOME"), variable("HOME"))
}

/// Makes the default store's directory, open to its owner only: arguments of programs may be private.
pub(crate) fn create_directory(directory: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| Error::CreateDirectory { directory: directory.to_path_buf(), source })
}

/// Makes the file, empty and open to its owner only, if it is not there; failures are left for SQLite to report.
pub(crate) fn touch_private(path: &Path) {
    let _exists_or_fails_again = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// SQLite's journal mode for a file in this directory: "wal", or "delete" where several hosts may share it.
pub(crate) fn journal_mode(directory: &Path) -> &'static str {
    match rustix::fs::statfs(directory) {
        Ok(facts) => journal_mode_of(file_system_magic(facts.f_type)),
        Err(_) => "delete",
    }
}

fn journal_mode_of(magic: u64) -> &'static str {
    if SHARED_FILE_SYSTEMS.iter().any(|(known, _)| *known == magic) { "delete" } else { "wal" }
}

/// The kernel's field is signed or not, and sign-extended or not, by architecture; the magic is its low 32 bits.
fn file_system_magic(f_type: impl Into<i128>) -> u64 {
    (f_type.into() & 0xffff_ffff) as u64
}

fn default_path_from(data_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Error> {
    let data = absolute(data_home).or_else(|| absolute(home).map(|home| home.join(".local/share")));
    data.map(|data| data.join("trimtab/trimtab.db")).ok_or(Error::NoDataDirectory)
}

fn site_path_from(
    service: Option<OsString>,
    state_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, Error> {
    let of_user = || absolute(state_home).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    let folder = absolute(service).or_else(|| of_user().map(|state| state.join("trimtab")));
    folder.map(|folder| folder.join("site.db")).ok_or(Error::NoStateDirectory)
}

fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_path_follows_xdg() {
        let rows = [
            ("data home wins", Some("/data"), Some("/home/u"), Some("/data/trimtab/trimtab.db")),
            ("home otherwise", None, Some("/home/u"), Some("/home/u/.local/share/trimtab/trimtab.db")),
            ("empty is unset", Some(""), Some("/home/u"), Some("/home/u/.local/share/trimtab/trimtab.db")),
            ("relative is unset", Some("data"), Some("/home/u"), Some("/home/u/.local/share/trimtab/trimtab.db")),
            ("nothing", None, None, None),
            ("relative home", None, Some("u"), None),
        ];
        for (name, data_home, home, expected) in rows {
            let found = default_path_from(data_home.map(OsString::from), home.map(OsString::from));
            assert_eq!(found.ok(), expected.map(PathBuf::from), "{name}");
        }
    }

    #[test]
    fn a_site_s_path_is_the_service_s_or_the_user_s() {
        let rows = [
            ("service", Some("/var/lib/trimtab"), Some("/state"), Some("/home/u"), Some("/var/lib/trimtab/site.db")),
            ("state home", None, Some("/state"), Some("/home/u"), Some("/state/trimtab/site.db")),
            ("home", Some(""), None, Some("/home/u"), Some("/home/u/.local/state/trimtab/site.db")),
            ("nothing", None, Some("state"), None, None),
        ];
        for (name, service, state_home, home, expected) in rows {
            let [service, state_home, home] = [service, state_home, home].map(|value| value.map(OsString::from));
            assert_eq!(site_path_from(service, state_home, home).ok(), expected.map(PathBuf::from), "{name}");
        }
    }

    #[test]
    fn shared_file_systems_get_a_rollback_journal() {
        let rows: [(&str, i64, &str); 6] = [
            ("ext4", 0xef53, "wal"),
            ("tmpfs", 0x0102_1994, "wal"),
            ("btrfs, sign-extended", 0x9123_683e_u32.cast_signed() as i64, "wal"),
            ("NFS", 0x6969, "delete"),
            ("CIFS, sign-extended", 0xff53_4d42_u32.cast_signed() as i64, "delete"),
            ("Lustre", 0x0bd0_0bd0, "delete"),
        ];
        for (name, f_type, expected) in rows {
            assert_eq!(journal_mode_of(file_system_magic(f_type)), expected, "{name}");
        }
    }
}
