//! Seeds from the system's compiler: the specimens of `trimtab-symbols`, built small.
//!
//! No binary is kept in the repository, so files to begin with are made when a target starts.
//!
//! Next: `targets`, which take them apart.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A small library with every shape of symbol and unwind entry.
pub const SHAPES: Specimen = Specimen { compiler: "cc", source: "shapes.s", flags: TINY };
/// A C library that calls others.
pub const LINKAGE: Specimen = Specimen {
    compiler: "cc",
    source: "facts.c",
    flags: &["-nostdlib", "-shared", "-fPIC", "-O1", "-s", "-Wl,-z,noseparate-code"],
};
/// A C++ program with exceptions.
pub const THROWS: Specimen =
    Specimen { compiler: "c++", source: "throws.cc", flags: &["-O1", "-no-pie", "-Wl,-z,noseparate-code"] };

const TINY: &[&str] =
    &["-nostdlib", "-shared", "-Wl,--eh-frame-hdr", "-Wl,-z,noseparate-code", "-Wl,-Bsymbolic", "-Wl,--build-id"];

/// A source file and how to build it.
#[derive(Clone, Copy, Debug)]
pub struct Specimen {
    /// Which compiler.
    pub compiler: &'static str,
    /// File of `trimtab-symbols`' specimens.
    pub source: &'static str,
    /// Its flags.
    pub flags: &'static [&'static str],
}

impl Specimen {
    /// Builds it and returns the file's bytes; `tool` and its arguments are run on the file before.
    ///
    /// # Errors
    /// When the compiler is missing or fails.
    pub fn build(&self, tool: &[&str]) -> Result<Vec<u8>> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/process/symbols/tests/specimens");
        let output = Scratch::new();
        let mut compiler = Command::new(self.compiler);
        compiler.current_dir(sources).arg("-o").arg(&output.0).arg(self.source).args(self.flags);
        run(&mut compiler)?;
        if let Some((program, arguments)) = tool.split_first() {
            run(Command::new(program).args(arguments).arg(&output.0))?;
        }
        std::fs::read(&output.0).with_context(|| format!("cannot read what {} built", self.compiler))
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}: install Debian's `g++` and `binutils`"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// A file that goes with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("trimtab-fuzz-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The bytes of a section, and where it lies in memory; empty if it is not there.
pub fn section<'a>(file: &'a [u8], name: &str) -> (&'a [u8], u64) {
    headers(file).and_then(|headers| headers.into_iter().find(|header| header.name == name)).map_or((&[], 0), |found| {
        let end = found.offset.saturating_add(found.size);
        (file.get(found.offset..end).unwrap_or_default(), found.addr)
    })
}

struct Header {
    name: String,
    addr: u64,
    offset: usize,
    size: usize,
}

/// Section headers of a file that our own compiler made.
fn headers(file: &[u8]) -> Option<Vec<Header>> {
    let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?) as usize);
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    let (table, count, names) = (word(40)?, half(60)?, half(62)?);
    let names_at = word(table + 64 * names + 24)?;
    let header = |index: usize| {
        let at = table + 64 * index;
        let name_at = names_at + (word(at)? & 0xffff_ffff);
        let name = file.get(name_at..)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Header { name, addr: word(at + 16)? as u64, offset: word(at + 24)?, size: word(at + 32)? })
    };
    (0..count).map(header).collect()
}
