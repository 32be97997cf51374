//! One file that carries a program and trimtab: what is in it, and how it is taken out again.
//!
//! A package is trimtab's own executable with the program behind it, then a manifest, then a trailer of fixed length that
//! says where both begin and what they must be (SHA-256). The kernel runs it as trimtab, which finds the trailer in its own
//! file. The program is put into a cache by its digest, once per user and host, and is run from there; each time it is
//! checked byte by byte before, wherever it comes from.
//!
//! Next: [`Package`]; the command line's `pack` for what is done with it.
#![forbid(unsafe_code)]

mod cache;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The last bytes of a package.
const MAGIC: &[u8; 16] = b"trimtab-pack-001";
/// Magic, two lengths, a digest.
const TRAILER_BYTES: u64 = 16 + 8 + 8 + 32;
/// Longest manifest.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;
/// Copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The description in a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The program's file name.
    pub name: String,
    /// SHA-256 of the program, in hexadecimal digits.
    pub sha256: String,
    /// Options of `trimtab attach` for its window.
    pub options: Vec<String>,
    /// The version that packed it.
    pub version: String,
}

/// Why something is no package, or can't be packed or taken out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read or written.
    #[error("{}: can't be {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// "read", "written".
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was changed after it was packed.
    #[error("{} was changed after it was packed: {what}; pack the program again, or run the program itself", path.display())]
    Tampered {
        /// The package.
        path: PathBuf,
        /// The part that does not fit.
        what: &'static str,
    },
    /// No program to pack.
    #[error("{} is no program: {why}", path.display())]
    NoProgram {
        /// The file.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// There is something already.
    #[error("{} exists; choose another name, or remove it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

/// A package, found in a file.
#[derive(Debug)]
pub struct Package {
    path: PathBuf,
    file: File,
    program_at: u64,
    program_bytes: u64,
    /// Its description.
    pub manifest: Manifest,
}

impl Package {
    /// Packs `program` behind `carrier` into the new file `out`; `options` are for its window.
    ///
    /// # Errors
    /// [`Error::NoProgram`] for what the kernel would not run, [`Error::Exists`], and files that can't be read or written;
    /// then `out` is not there.
    pub fn write(carrier: &Path, program: &Path, out: &Path, options: &[String]) -> Result<Manifest, Error> {
        let mut source = open(program)?;
        check_program(program, &mut source)?;
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut creation = OpenOptions::new();
        let mut made =
            creation.write(true).create_new(true).mode(0o755).open(out).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => Error::Exists { path: out.to_path_buf() },
                _ => Error::File { path: out.to_path_buf(), what: "written", source },
            })?;
        let written = fill(carrier, program, &mut source, &mut made, name, options);
        written.map_err(|error| {
            let _unfinished = std::fs::remove_file(out);
            match error {
                Filling::Ours(error) => error,
                Filling::Io(source) => Error::File { path: out.to_path_buf(), what: "written", source },
            }
        })
    }

    /// The package that a file is; `None`: it is none.
    ///
    /// # Errors
    /// [`Error::Tampered`] if it was one.
    pub fn find(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::File { path: path.to_path_buf(), what: "read", source };
        let tampered = |what| Error::Tampered { path: path.to_path_buf(), what };
        let file = open(path)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut trailer = [0; TRAILER_BYTES as usize];
        let Some(trailer_at) = length.checked_sub(TRAILER_BYTES) else { return Ok(None) };
        file.read_exact_at(&mut trailer, trailer_at).map_err(failed)?;
        if trailer[48..] != *MAGIC {
            return Ok(None);
        }
        let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().unwrap_or_default());
        let (program_bytes, manifest_bytes) = (number(0), number(8));
        let outside = || tampered("its lengths do not fit the file");
        if manifest_bytes > MANIFEST_BYTES_MAX {
            return Err(outside());
        }
        let manifest_at = trailer_at.checked_sub(manifest_bytes).ok_or_else(outside)?;
        let program_at = manifest_at.checked_sub(program_bytes).ok_or_else(outside)?;
        let mut manifest = vec![0; manifest_bytes as usize];
        file.read_exact_at(&mut manifest, manifest_at).map_err(failed)?;
        if Sha256::digest(&manifest)[..] != trailer[16..48] {
            return Err(tampered("its manifest is another one"));
        }
        let manifest = serde_json::from_slice(&manifest).map_err(|_| tampered("its manifest can't be read"))?;
        Ok(Some(Package { path: path.to_path_buf(), file, program_at, program_bytes, manifest }))
    }

    /// The program in a file that exists in memory only, checked, for where there is no folder to put it into. It stays
    /// open in what is executed.
    ///
    /// # Errors
    /// [`Error::Tampered`] as for [`Package::program`]; no memory.
    pub fn in_memory(&self) -> Result<File, Error> {
        let failed = |source| Error::File { path: self.path.clone(), what: "put into memory", source };
        let flags = rustix::fs::MemfdFlags::empty();
        let memory = rustix::fs::memfd_create(&*self.manifest.name, flags).map_err(|errno| failed(errno.into()))?;
        let mut memory = File::from(memory);
        match self.extract(&mut memory) {
            Ok(()) => Ok(memory),
            Err(Filling::Ours(error)) => Err(error),
            Err(Filling::Io(source)) => Err(failed(source)),
        }
    }

    /// Writes the program and checks what was written.
    pub(crate) fn extract(&self, to: &mut impl Write) -> Result<(), Filling> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut at, end) = (self.program_at, self.program_at + self.program_bytes);
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            self.file.read_exact_at(&mut buffer[..wanted], at)?;
            hasher.update(&buffer[..wanted]);
            to.write_all(&buffer[..wanted])?;
            at += wanted as u64;
        }
        if hex(&hasher.finalize()) == self.manifest.sha256 { Ok(()) } else { Err(self.tampered().into()) }
    }

    pub(crate) fn tampered(&self) -> Error {
        Error::Tampered { path: self.path.clone(), what: "its program is another one" }
    }
}

/// The reason why the filling of a file ends.
#[derive(Debug)]
pub(crate) enum Filling {
    Ours(Error),
    Io(io::Error),
}

impl From<Error> for Filling {
    fn from(error: Error) -> Self {
        Filling::Ours(error)
    }
}

impl From<io::Error> for Filling {
    fn from(error: io::Error) -> Self {
        Filling::Io(error)
    }
}

fn fill(
    carrier: &Path,
    program: &Path,
    source: &mut File,
    out: &mut File,
    name: String,
    options: &[String],
) -> Result<Manifest, Filling> {
    if Package::find(carrier)?.is_some() {
        return Err(Error::NoProgram { path: carrier.to_path_buf(), why: "it is a package itself; use trimtab" }.into());
    }
    io::copy(&mut open(carrier)?, out)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut program_bytes = 0_u64;
    source.seek(SeekFrom::Start(0))?;
    loop {
        let count = source.read(&mut buffer).map_err(|source| Error::File {
            path: program.to_path_buf(),
            what: "read",
            source,
        })?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        out.write_all(&buffer[..count])?;
        program_bytes += count as u64;
    }
    let manifest = Manifest {
        name,
        sha256: hex(&hasher.finalize()),
        options: options.to_vec(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let text = serde_json::to_vec(&manifest).map_err(io::Error::from)?;
    out.write_all(&text)?;
    out.write_all(&program_bytes.to_le_bytes())?;
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(&Sha256::digest(&text))?;
    out.write_all(MAGIC)?;
    out.sync_all()?;
    Ok(manifest)
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|source| Error::File { path: path.to_path_buf(), what: "read", source })
}

fn check_program(path: &Path, file: &mut File) -> Result<(), Error> {
    let refused = |why| Err(Error::NoProgram { path: path.to_path_buf(), why });
    let failed = |source| Error::File { path: path.to_path_buf(), what: "read", source };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return refused("it is not executable");
    }
    let mut start = [0; 4];
    match file.read_exact(&mut start) {
        Ok(()) if start == *b"\x7fELF" => Ok(()),
        _ => refused("it has no ELF header; pack the program that a script starts"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(folder: &Path) -> PathBuf {
        let out = folder.join("app.trim");
        Package::write(Path::new("/bin/sh"), Path::new("/bin/true"), &out, &["--iterations".into(), "5".into()])
            .expect("it is packed");
        out
    }

    #[test]
    fn what_goes_in_comes_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = packed(folder.path());
        let package = Package::find(&out).expect("it is read").expect("it is a package");
        assert_eq!((package.manifest.name.as_str(), package.manifest.options.len()), ("true", 2));
        let cache = folder.path().join("cache");
        let first = package.program(&cache).expect("it comes out");
        assert_eq!(std::fs::read(&first).expect("it is there"), std::fs::read("/bin/true").expect("it is there"));
        assert_eq!(first.file_name().expect("a name"), "true", "it has its own name");
        assert_eq!(package.program(&cache).expect("again"), first);
        // Whatever was done to the cache, what runs is what was packed.
        std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o700)).expect("ours");
        std::fs::write(&first, b"\x7fELF something else").expect("ours");
        let again = package.program(&cache).expect("it comes out again");
        assert_eq!(std::fs::read(again).expect("it is there"), std::fs::read("/bin/true").expect("it is there"));
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = packed(folder.path());
        let bytes = std::fs::read(&out).expect("it is there");
        let package = Package::find(&out).expect("read").expect("a package");
        let (start, end) = (package.program_at as usize, bytes.len() - MAGIC.len());
        let step = (end - start) / 97;
        for (round, at) in (start..end).step_by(step).chain(end - 60..end).enumerate() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (round % 8);
            let path = folder.path().join(format!("changed{round}"));
            std::fs::write(&path, changed).expect("it is written");
            let found = Package::find(&path).and_then(|found| match found {
                Some(package) => package.program(&folder.path().join("other")).map(|_| ()),
                None => Ok(()),
            });
            assert!(matches!(found, Err(Error::Tampered { .. })), "byte {at}: {found:?}");
        }
        std::fs::write(folder.path().join("cut"), &bytes[..bytes.len() - 1]).expect("it is written");
        assert!(Package::find(&folder.path().join("cut")).expect("it is read").is_none(), "no package any more");
    }

    #[test]
    fn what_can_not_be_packed_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").expect("it is written");
        let out = folder.path().join("out");
        let refused = |program: &Path| {
            let error = Package::write(Path::new("/bin/sh"), program, &out, &[]).expect_err("refused").to_string();
            assert!(!out.exists(), "nothing is left");
            error
        };
        assert!(refused(&script).contains("not executable"));
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
        assert!(refused(&script).contains("the program that a script starts"));
        assert!(refused(&folder.path().join("nowhere")).contains("can't be read"));
        let packed = packed(folder.path());
        let error = Package::write(&packed, Path::new("/bin/true"), &out, &[]).expect_err("refused").to_string();
        assert!(error.contains("a package itself") && !out.exists(), "{error}");
        let error = Package::write(Path::new("/bin/sh"), Path::new("/bin/true"), &packed, &[]).expect_err("refused");
        assert!(matches!(error, Error::Exists { .. }) && packed.exists());
    }
}
