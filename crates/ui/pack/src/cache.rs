//! Programs taken out of packages: one folder per digest, only its user's, checked at each start.
//!
//! A file is written under another name and then renamed, so that several starts at the same moment never run half of it.
//!
//! Next: `lib.rs` for the package.

use crate::{Error, Filling, Package, hex};
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Who owns it may run it and nobody may write it.
const PROGRAM_MODE: u32 = 0o500;

/// The program's file in the cache; see [`Package::program`].
pub(crate) fn program(package: &Package, cache: &Path) -> Result<PathBuf, Error> {
    let failed = |path: &Path, source| Error::File { path: path.to_path_buf(), what: "written", source };
    let folder = cache.join(&package.manifest.sha256);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|source| failed(&folder, source))?;
    let metadata = folder.symlink_metadata().map_err(|source| failed(&folder, source))?;
    if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        let why = std::io::Error::other("others may write there");
        return Err(failed(&folder, why));
    }
    // The manifest's name is a file name, whatever it was given.
    let name = Path::new(&package.manifest.name).file_name().unwrap_or("program".as_ref());
    let path = folder.join(name);
    if is_whole(&path, &package.manifest.sha256) {
        return Ok(path);
    }
    let unfinished = folder.join(format!(".{}", std::process::id()));
    let _earlier = std::fs::remove_file(&unfinished);
    let file = OpenOptions::new().write(true).create_new(true).mode(PROGRAM_MODE).open(&unfinished);
    let mut file = file.map_err(|source| failed(&unfinished, source))?;
    let done = package.extract(&mut file).and_then(|()| Ok(file.sync_all()?));
    drop(file);
    let done = done.and_then(|()| Ok(std::fs::rename(&unfinished, &path)?));
    done.map_err(|error| {
        let _unfinished = std::fs::remove_file(&unfinished);
        match error {
            Filling::Ours(error) => error,
            Filling::Io(source) => failed(&path, source),
        }
    })?;
    Ok(path)
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
