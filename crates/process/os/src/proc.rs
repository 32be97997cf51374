//! /proc: mappings, threads and the reasons for a refusal.
//!
//! Next: `trimtab-track` reads more of /proc to find a job; here stands only what touching a process needs.

use crate::error::Error;
use std::fs;
use std::fs::File;
use std::io;
use trimtab_types::Pid;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file; 0: anonymous.
    pub inode: u64,
    /// Path, `[stack]`, `[vdso]`, ..., or empty. Without the kernel's " (deleted)".
    pub path: String,
    /// The file has been deleted or replaced.
    pub deleted: bool,
}

/// All mappings of a process, in address order.
#[derive(Clone, Debug, Default)]
pub struct MappingTable(pub Vec<Mapping>);

impl MappingTable {
    /// Reads the table of `pid`.
    pub fn of(pid: Pid) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/maps");
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Gone { pid },
            io::ErrorKind::PermissionDenied => Error::NotAllowed { pid, hint: permission_hint(pid) },
            _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone { pid },
            _ => Error::Proc { path, source },
        })?;
        Ok(MappingTable(parse_maps(&text)))
    }

    /// The mapping that holds `address`.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.end <= address);
        self.0.get(after).filter(|mapping| mapping.start <= address)
    }

    /// The start of `length` free bytes (whole pages) within `reach` of every address in `near`, nearest first.
    /// Gaps keep a distance of `margin` from their neighbours, so that heaps and stacks can grow.
    pub fn gap_near(&self, near: std::ops::Range<u64>, length: u64, reach: u64, margin: u64) -> Option<u64> {
        let lowest = near.end.saturating_sub(reach).max(1 << 20);
        let highest = near.start.saturating_add(reach).min(0x7fff_ffff_0000);
        let mut best: Option<(u64, u64)> = None;
        let mut previous_end = 0u64;
        let starts = self.0.iter().map(|mapping| (mapping.start, mapping.end));
        for (start, end) in starts.chain([(0x7fff_ffff_f000, u64::MAX)]) {
            let from = (previous_end.saturating_add(margin)).max(lowest);
            let to = start.saturating_sub(margin).min(highest);
            previous_end = end;
            if to < from || to - from < length {
                continue;
            }
            // The end of the gap that lies nearest to the code.
            let place = if to <= near.start { (to - length) & !0xfff } else { (from + 0xfff) & !0xfff };
            if place < from || place + length > to {
                continue;
            }
            let distance = place.abs_diff(near.start);
            if best.is_none_or(|(nearest, _)| distance < nearest) {
                best = Some((distance, place));
            }
        }
        best.map(|(_, place)| place)
    }
}

/// Parses the text of `/proc/PID/maps`; lines that don't fit are passed over.
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?.as_bytes();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let _device = words.next()?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or("").trim_start();
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        offset,
        inode,
        path: path.to_string(),
        deleted,
    })
}

/// Ids of all threads of `pid`.
pub fn thread_ids(pid: Pid) -> Result<Vec<i32>, Error> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path).map_err(|_| Error::Gone { pid })?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The process that traces `pid`, and its name; `None`: nobody.
pub fn tracer_of(pid: Pid) -> Option<(Pid, String)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    let tracer: i32 = line.trim().parse().ok()?;
    if tracer == 0 {
        return None;
    }
    let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
    Some((Pid(tracer), name.trim().to_string()))
}

/// Opens the file behind descriptor `descriptor` of `pid` for reading and writing.
pub fn open_file_of(pid: Pid, descriptor: u64) -> Result<File, Error> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let opened = fs::OpenOptions::new().read(true).write(true).open(&path);
    opened.map_err(|source| Error::Proc { path, source })
}

/// Why tracing `pid` is forbidden, as far as /proc tells, and what to do.
pub(crate) fn permission_hint(pid: Pid) -> String {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| std::os::unix::fs::MetadataExt::uid(&data)).ok();
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    if let Some(owner) = owner.filter(|owner| *owner != own && own != 0) {
        return format!("it belongs to user id {owner}, you are {own}; run trimtab as that user or as root");
    }
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) if scope.trim() != "0" => format!(
            "kernel.yama.ptrace_scope is {}; start the program with `trimtab run`, run as root, or `sysctl \
             kernel.yama.ptrace_scope=0`",
            scope.trim()
        ),
        _ => "it may be set-uid, not dumpable, or in another user namespace; run trimtab as root".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d000000000-55d000001000 r--p 00000000 fe:00 77 /opt/my program
55d000001000-55d000005000 r-xp 00001000 fe:00 77 /opt/my program
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000200000-7f0000300000 r-xp 00000000 fe:00 78 /lib/libold.so (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
nonsense
";

    #[test]
    fn lines_are_parsed() {
        let maps = parse_maps(MAPS);
        assert_eq!(maps.len(), 5);
        assert_eq!(maps[1].path, "/opt/my program");
        assert!(maps[1].executable && !maps[1].writable && !maps[1].deleted);
        assert_eq!(maps[1].offset, 0x1000);
        assert_eq!((maps[2].inode, maps[2].path.as_str()), (0, ""));
        assert!(maps[3].deleted);
    }

    #[test]
    fn the_mapping_at_an_address() {
        let table = MappingTable(parse_maps(MAPS));
        assert_eq!(table.at(0x55d0_0000_1000).map(|mapping| mapping.offset), Some(0x1000));
        assert_eq!(table.at(0x55d0_0000_5000), None);
        assert_eq!(table.at(0), None);
    }

    #[test]
    fn a_gap_is_free_near_and_keeps_its_distance() {
        let table = MappingTable(parse_maps(MAPS));
        let reach = (1u64 << 31) - (1 << 20);
        let place = table.gap_near(0x7f00_0020_0000..0x7f00_0030_0000, 0x8000, reach, 0x10000).expect("a gap");
        assert!(place.abs_diff(0x7f00_0020_0000) < reach);
        for mapping in &table.0 {
            assert!(place + 0x8000 + 0x10000 <= mapping.start || place >= mapping.end + 0x10000, "{place:#x}");
        }
    }

    #[test]
    fn no_gap_is_invented() {
        let full = MappingTable(parse_maps("000010000000-7fffffff0000 rw-p 00000000 00:00 0 \n"));
        assert_eq!(full.gap_near(0x7000_0000_0000..0x7000_0000_1000, 0x1000, 1 << 30, 0), None);
    }
}
