//! Programs taken out of packages: one folder per digest, only its user's, checked at each start.
//!
//! A file is written under another name and then gets its own, so that several starts at the same moment, also on nodes that
//! share the folder, never run half of it.
//!
//! Next: `lib.rs` for the package.

use crate::{Error, Filling, Package, hex};
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Its owner may run it and nobody may write it.
const PROGRAM_MODE: u32 = 0o500;

impl Package {
    /// A file that holds the program, checked now, in `cache` (a folder, made if it isn't there).
    ///
    /// # Errors
    /// [`Error::Tampered`] if the program is not the one that was packed; a cache that can't be used.
    pub fn program(&self, cache: &Path) -> Result<PathBuf, Error> {
        let failed = |path: &Path, source| Error::File { path: path.to_path_buf(), what: "written", source };
        let folder = cache.join(&self.manifest.sha256);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|source| failed(&folder, source))?;
        let metadata = folder.symlink_metadata().map_err(|source| failed(&folder, source))?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            let why = std::io::Error::other("others may write there");
            return Err(failed(&folder, why));
        }
        // The manifest's name is a file name, whatever it was given.
        let name = Path::new(&self.manifest.name).file_name().unwrap_or("program".as_ref());
        let path = folder.join(name);
        if is_whole(&path, &self.manifest.sha256) {
            // The program runs as it was packed, but a package that was changed does not run, whatever an earlier one left
            // here.
            return self.extract(&mut std::io::sink()).map(|()| path).map_err(|error| match error {
                Filling::Ours(error) => error,
                Filling::Io(source) => failed(&self.path, source),
            });
        }
        let unfinished = folder.join(own_name());
        let file = OpenOptions::new().write(true).create_new(true).mode(PROGRAM_MODE).open(&unfinished);
        let mut file = file.map_err(|source| failed(&unfinished, source))?;
        let done = self.extract(&mut file).and_then(|()| Ok(file.sync_all()?));
        drop(file);
        let done = done.and_then(|()| Ok(put(&unfinished, &path, &self.manifest.sha256)?));
        done.map_err(|error| {
            let _unfinished = std::fs::remove_file(&unfinished);
            match error {
                Filling::Ours(error) => error,
                Filling::Io(source) => failed(&path, source),
            }
        })?;
        Ok(path)
    }
}

/// A name that nobody else writes under: nodes share folders, and process ids are the same on all of them.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!(".{}-{}-{}", host.trim(), std::process::id(), since.as_nanos())
}

/// Gives a finished file its name. Another start may have been quicker and run its own by now, which then stays the one of
/// that name: a program whose file is replaced can't be measured.
fn put(unfinished: &Path, path: &Path, sha256: &str) -> std::io::Result<()> {
    if std::fs::hard_link(unfinished, path).is_ok() || is_whole(path, sha256) {
        return std::fs::remove_file(unfinished);
    }
    std::fs::rename(unfinished, path)
}

fn is_whole(path: &Path, sha256: &str) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; crate::CHUNK_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hex(&hasher.finalize()) == sha256,
            Ok(count) => hasher.update(&buffer[..count]),
            Err(_) => return false,
        }
    }
}
