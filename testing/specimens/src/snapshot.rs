//! A copy of all code that a process has mapped from files, to prove later that not one byte of it has changed.
//!
//! Reads /proc/PID/maps and /proc/PID/mem; the process runs on. Only executable file-backed mappings count: memory a
//! tool mapped for itself is not text of any module.
//!
//! Next: [`TextSnapshot::of`] before, [`TextSnapshot::difference`] after.

use crate::{Error, Result};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Looks at a process whose libraries come and go.
const LOOKS_MAX: usize = 20;

/// The text of every module of one process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSnapshot {
    pid: i32,
    parts: Vec<Part>,
}

/// The first place at which two snapshots differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextDifference {
    /// A byte has changed.
    #[error("{module} differs at file offset {offset:#x} (address {address:#x}): was {before:#04x}, is {after:#04x}")]
    Byte {
        /// The file that is mapped there.
        module: String,
        /// Offset in that file.
        offset: u64,
        /// Address in the process.
        address: u64,
        /// The byte in the earlier snapshot.
        before: u8,
        /// The byte in the later one.
        after: u8,
    },
    /// A mapping is in only one of them, or has another size or another permission.
    #[error("{module} at address {address:#x} is mapped in only one of the snapshots, or differently")]
    Mapping {
        /// The file that is mapped there.
        module: String,
        /// Address in the process.
        address: u64,
    },
}

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    module: String,
    address: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl TextSnapshot {
    /// Reads all executable file-backed mappings of `pid`.
    ///
    /// # Errors
    /// [`Error::Io`] if the process is gone or may not be read.
    pub fn of(pid: i32) -> Result<TextSnapshot> {
        // A program that begins may unload a library between the look at its map and the one at its memory.
        let mut found = TextSnapshot::once(pid);
        for _ in 1..LOOKS_MAX {
            if found.is_ok() {
                break;
            }
            found = TextSnapshot::once(pid);
        }
        found
    }

    fn once(pid: i32) -> Result<TextSnapshot> {
        let maps_path = format!("/proc/{pid}/maps");
        let maps = fs::read_to_string(&maps_path).map_err(Error::io("read", &maps_path))?;
        let memory_path = format!("/proc/{pid}/mem");
        let memory = File::open(&memory_path).map_err(Error::io("open", &memory_path))?;
        let mut parts: Vec<Part> = maps.lines().filter_map(executable_part).collect();
        for part in &mut parts {
            memory.read_exact_at(&mut part.bytes, part.address).map_err(Error::io("read", &memory_path))?;
        }
        Ok(TextSnapshot { pid, parts: merged(parts) })
    }

    /// The process this is of.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// How many bytes of text it holds.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// The first difference between this snapshot and a `later` one, if there is any. Mappings may have been split
    /// or merged in between; only modules that were loaded or moved count, and bytes. A module of which nothing is left was
    /// unloaded by the program itself, and components that Open MPI loads to choose among them come while a program begins.
    pub fn difference(&self, later: &TextSnapshot) -> Option<TextDifference> {
        let (before, after) = (&self.parts, &later.parts);
        let is_in = |part: &Part, others: &[Part]| others.iter().any(|other| other.module == part.module);
        let both = before.iter().find_map(|part| match after.iter().find(|other| part.same_place(other)) {
            Some(other) => part.first_changed(other),
            None => is_in(part, after).then(|| part.lone()),
        });
        let is_new = |part: &&Part| {
            !before.iter().any(|other| part.same_place(other)) && (!part.is_component() || is_in(part, before))
        };
        both.or_else(|| after.iter().find(is_new).map(Part::lone))
    }

    /// The first byte that is not as in its file: for a process that was never seen before somebody changed it. The C
    /// library is left out: both MPI libraries' transports hook its functions for mapping memory.
    ///
    /// # Errors
    /// [`Error::Io`] if a file can't be read.
    pub fn difference_from_files(&self) -> Result<Option<TextDifference>> {
        let is_hooked = |part: &&Part| part.module.rsplit('/').next().is_some_and(|name| name.starts_with("libc.so"));
        let here: Vec<Part> = self.parts.iter().filter(|part| !is_hooked(part)).cloned().collect();
        let mut parts = here.clone();
        for part in &mut parts {
            let path = format!("/proc/{}/root{}", self.pid, part.module);
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            // Behind the end of the file the kernel maps zeroes.
            part.bytes.fill(0);
            let mut filled = 0;
            while let Some(rest) = part.bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, part.offset + filled as u64).map_err(Error::io("read", &path))? {
                    0 => break,
                    length => filled += length,
                }
            }
        }
        let here = TextSnapshot { pid: self.pid, parts: here };
        Ok(TextSnapshot { pid: self.pid, parts }.difference(&here))
    }

    /// Takes another snapshot of the same process and compares.
    ///
    /// # Errors
    /// As [`TextSnapshot::of`].
    pub fn difference_now(&self) -> Result<Option<TextDifference>> {
        Ok(self.difference(&TextSnapshot::of(self.pid)?))
    }
}

impl Part {
    fn same_place(&self, other: &Part) -> bool {
        (self.address, self.offset, self.bytes.len(), &self.module)
            == (other.address, other.offset, other.bytes.len(), &other.module)
    }

    /// A part of Open MPI that is loaded by its name.
    fn is_component(&self) -> bool {
        let name = self.module.rsplit('/').next().unwrap_or_default();
        self.module.contains("/openmpi/") && name.starts_with("mca_")
    }

    fn first_changed(&self, later: &Part) -> Option<TextDifference> {
        let place = first_difference(&self.bytes, &later.bytes)?;
        Some(TextDifference::Byte {
            module: self.module.clone(),
            offset: self.offset + place as u64,
            address: self.address + place as u64,
            before: self.bytes[place],
            after: later.bytes[place],
        })
    }

    fn lone(&self) -> TextDifference {
        TextDifference::Mapping { module: self.module.clone(), address: self.address }
    }

    fn continues(&self, before: &Part) -> bool {
        let length = before.bytes.len() as u64;
        self.module == before.module && self.address == before.address + length && self.offset == before.offset + length
    }
}

/// Neighbours in file and memory become one, because changing permissions splits mappings.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut whole: Vec<Part> = Vec::new();
    for part in parts {
        match whole.last_mut() {
            Some(before) if part.continues(before) => before.bytes.extend_from_slice(&part.bytes),
            _ => whole.push(part),
        }
    }
    whole
}

/// The first place at which two texts differ. Those that are alike are passed over at the speed of memory, also where
/// loops over single bytes are not optimised.
pub fn first_difference(before: &[u8], after: &[u8]) -> Option<usize> {
    const STRIDE: usize = 4096;
    let differs = |(before, after): (&[u8], &[u8])| before != after;
    let page = before.chunks(STRIDE).zip(after.chunks(STRIDE)).position(differs)?;
    let begin = page * STRIDE;
    let place = before[begin..].iter().zip(&after[begin..]).position(|(before, after)| before != after)?;
    Some(begin + place)
}

/// A line of /proc/PID/maps, "begin-end rwxp offset device inode path", as a part with room for its bytes.
fn executable_part(line: &str) -> Option<Part> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let module = fields.nth(2)?.trim_start();
    if permissions.as_bytes().get(2) != Some(&b'x') || !module.starts_with('/') || module.starts_with("/memfd:") {
        return None;
    }
    let (address, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let length = usize::try_from(end.checked_sub(address)?).ok()?;
    Some(Part { module: module.to_owned(), address, offset, bytes: vec![0; length] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(address: u64, bytes: &[u8]) -> Part {
        Part { module: "/lib/a.so".into(), address, offset: address - 0x1000, bytes: bytes.to_vec() }
    }

    fn snapshot(parts: &[Part]) -> TextSnapshot {
        TextSnapshot { pid: 1, parts: merged(parts.to_vec()) }
    }

    #[test]
    fn differences_are_named() {
        let before = snapshot(&[part(0x2000, &[1, 2, 3, 4])]);
        let byte = TextDifference::Byte {
            module: "/lib/a.so".into(),
            offset: 0x1002,
            address: 0x2002,
            before: 3,
            after: 0xcc,
        };
        let lone = |address| TextDifference::Mapping { module: "/lib/a.so".into(), address };
        let rows = [
            ("same", vec![part(0x2000, &[1, 2, 3, 4])], None),
            ("split_by_permissions", vec![part(0x2000, &[1, 2]), part(0x2002, &[3, 4])], None),
            ("byte", vec![part(0x2000, &[1, 2, 0xcc, 4])], Some(byte)),
            ("unloaded", vec![], None),
            ("moved", vec![part(0x9000, &[1, 2, 3, 4])], Some(lone(0x2000))),
            ("loaded", vec![part(0x2000, &[1, 2, 3, 4]), part(0x9000, &[0])], Some(lone(0x9000))),
        ];
        for (name, after, difference) in rows {
            assert_eq!(before.difference(&snapshot(&after)), difference, "{name}");
        }
    }

    /// Libraries may go, and components of Open MPI come while a program begins; nothing else may.
    #[test]
    fn only_what_the_program_does_by_itself_is_left_out() {
        let named = |module: &str, address: u64, byte: u8| Part { module: module.into(), ..part(address, &[byte; 4]) };
        let component = |address, byte| named("/usr/lib/openmpi/lib/openmpi3/mca_osc_rdma.so", address, byte);
        let (program, library) = (named("/opt/app", 0x2000, 1), named("/usr/lib/libm.so.6", 0x9000, 2));
        let all = snapshot(&[program.clone(), component(0x4000, 3), library.clone()]);
        let differs = |parts: &[Part]| (all.difference(&snapshot(parts)), snapshot(parts).difference(&all));
        assert_eq!(differs(&[program.clone(), library.clone()]), (None, None), "the component is gone, or new");
        let (gone, new) = differs(&[program.clone(), component(0x4000, 3)]);
        assert!(gone.is_none() && new.is_some(), "the library is gone, or new");
        let changed = differs(&[program.clone(), component(0x4000, 4), library.clone()]).0;
        assert!(matches!(changed, Some(TextDifference::Byte { before: 3, after: 4, .. })), "{changed:?}");
        let moved = differs(&[program, component(0x6000, 3), library]).0;
        assert!(matches!(moved, Some(TextDifference::Mapping { .. })), "{moved:?}");
    }

    #[test]
    fn only_executable_files_count() {
        let rows = [
            ("text", "00400000-00402000 r-xp 00001000 08:01 55   /usr/bin/x y", Some(("/usr/bin/x y", 0x2000))),
            ("data", "00400000-00402000 rw-p 00001000 08:01 55   /usr/bin/x", None),
            ("anonymous", "00400000-00402000 r-xp 00000000 00:00 0", None),
            ("vdso", "00400000-00402000 r-xp 00000000 00:00 0     [vdso]", None),
            ("memfd", "00400000-00402000 r-xp 00000000 00:01 7    /memfd:x (deleted)", None),
            ("nonsense", "hello", None),
        ];
        for (name, line, want) in rows {
            let part = executable_part(line);
            assert_eq!(part.as_ref().map(|part| (part.module.as_str(), part.bytes.len())), want, "{name}");
        }
    }

    #[test]
    fn this_process_does_not_change_by_itself() {
        let own = i32::try_from(std::process::id()).expect("a process id");
        let snapshot = TextSnapshot::of(own).expect("own text");
        assert!(snapshot.bytes() > 100_000);
        assert_eq!(snapshot.difference_now().expect("own text again"), None);
    }
}
