//! /proc: mappings, threads and the reasons for a refusal.
//!
//! Next: `trimtab-track` reads more of /proc to find a job; here stands only what touching a process needs.

use crate::error::Error;
use crate::mappings::{mappings_around, mappings_of};
use std::fs;
use std::fs::File;
use std::io;
use std::time::Duration;
use trimtab_types::Pid;
use trimtab_types::procfs::{self, CLOCK_TICKS_PER_SECOND, Mapping, Stat, parse_stat};

/// The kernel's name of the main thread's stack.
pub(crate) const STACK: &str = "[stack]";
/// Kept free below it: how far it grows is the program's limit, seldom a hundredth of this.
const STACK_ROOM: u64 = 1 << 30;
/// How far below the main thread's stack we write; the kernel keeps as much from its neighbours.
const STACK_GROWTH: u64 = 1 << 20;

/// All mappings of a process, in address order.
#[derive(Clone, Debug, Default)]
pub struct MappingTable(pub Vec<Mapping>);

impl MappingTable {
    /// Reads the table of `pid`.
    pub fn of(pid: Pid) -> Result<Self, Error> {
        mappings_of(pid).map(MappingTable).map_err(|source| unreadable(pid, source))
    }

    /// The part of the table of `pid` that says what is at each of `addresses`: the mapping that holds it, or else the
    /// next one behind it; perhaps more. Where the kernel can be asked, it takes a hundredth of the time.
    ///
    /// # Errors
    /// As [`MappingTable::of`].
    pub fn around(pid: Pid, addresses: &[u64]) -> Result<Self, Error> {
        mappings_around(pid, addresses).map(MappingTable).map_err(|source| unreadable(pid, source))
    }

    /// The mapping that holds `address`.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.end <= address);
        self.0.get(after).filter(|mapping| mapping.start <= address)
    }

    /// The lowest address to which the stack that `mapping` is may be written: the kernel makes the main thread's larger
    /// where somebody writes just below it.
    pub(crate) fn lowest_of_stack(&self, mapping: &Mapping) -> u64 {
        let index = self.0.partition_point(|other| other.end <= mapping.start);
        let below = self.0[..index].last().map_or(0, |other| other.end);
        let has_room = mapping.path == STACK && mapping.start.saturating_sub(below) > 2 * STACK_GROWTH;
        if has_room { mapping.start - STACK_GROWTH } else { mapping.start }
    }

    /// The start of `length` free bytes (whole pages) within `reach` of every address in `near`, nearest first.
    /// Gaps keep a distance of `margin` from their neighbours, so that heaps can grow, and a larger one from the main
    /// stack, which grows by itself and ends the program where it cannot.
    pub fn gap_near(&self, near: std::ops::Range<u64>, length: u64, reach: u64, margin: u64) -> Option<u64> {
        let lowest = near.end.saturating_sub(reach).max(1 << 20);
        let highest = near.start.saturating_add(reach).min(0x7fff_ffff_0000);
        let mut best: Option<(u64, u64)> = None;
        let mut previous_end = 0u64;
        let lowest_of = |mapping: &Mapping| match mapping.path.as_str() {
            STACK => mapping.start.saturating_sub(STACK_ROOM),
            _ => mapping.start,
        };
        let starts = self.0.iter().map(|mapping| (lowest_of(mapping), mapping.end));
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

fn unreadable(pid: Pid, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::Gone { pid },
        io::ErrorKind::PermissionDenied => refusal(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone { pid },
        _ => Error::Proc { path: format!("/proc/{pid}/maps"), source },
    }
}

fn read_file(path: &str) -> io::Result<Vec<u8>> {
    procfs::read_all(File::open(path)?)
}

/// Ids of all threads of `pid`.
pub fn thread_ids(pid: Pid) -> Result<Vec<i32>, Error> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path).map_err(|_| Error::Gone { pid })?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Processes that threads of `pid` have started and that still are; none where the kernel keeps no such list.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let list = |tid: i32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    let lists: Vec<String> = thread_ids(pid).unwrap_or_default().into_iter().map(list).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|child| child.parse().ok().map(Pid)).collect()
}

/// How many threads `pid` has.
pub(crate) fn thread_count(pid: Pid) -> Result<usize, Error> {
    // The kernel counts a folder's links: itself, its name, and one per thread. No list need be made.
    let data = fs::metadata(format!("/proc/{pid}/task")).map_err(|_| Error::Gone { pid })?;
    Ok(std::os::unix::fs::MetadataExt::nlink(&data).saturating_sub(2) as usize)
}

/// The state of thread `tid` of `pid`; `None` if it has ended.
pub fn stat_of(pid: Pid, tid: i32) -> Option<Stat> {
    parse_stat(&read_file(&format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// Start time of a process, clock ticks since boot; `None` if there is none of that number. One that has ended and that its
/// parent has not asked for yet still has one: [`runs`] and [`runs_since`] tell whether it lives.
pub fn start_time_ticks(pid: Pid) -> Option<u64> {
    stat_of(pid, pid.0).map(|stat| stat.start_time_ticks)
}

/// True if there is a process of that number which has not ended.
pub fn runs(pid: Pid) -> bool {
    stat_of(pid, pid.0).is_some_and(|stat| !stat.state.has_ended())
}

/// True if the process that started then, in clock ticks since boot, has not ended.
pub fn runs_since(pid: Pid, start_time_ticks: u64) -> bool {
    stat_of(pid, pid.0).is_some_and(|stat| stat.runs_since(start_time_ticks))
}

/// How long ago a process was started; `None` if there is none of that number.
pub fn age_of(pid: Pid) -> Option<Duration> {
    let started_s = start_time_ticks(pid)? as f64 / CLOCK_TICKS_PER_SECOND as f64;
    Some(Duration::from_secs_f64((crate::sys::boot_s() - started_s).max(0.0)))
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

/// The error where the kernel does not let us trace `pid`. It refuses a process that has begun to end too, which has no memory
/// any more that could be asked for: that one is gone.
pub(crate) fn refusal(pid: Pid) -> Error {
    let threads = thread_ids(pid).unwrap_or_default();
    let ends = |tid: &i32| stat_of(pid, *tid).is_none_or(|stat| stat.is_ending || stat.state.has_ended());
    if threads.iter().all(ends) {
        return Error::Gone { pid };
    }
    Error::NotAllowed { pid, hint: permission_hint(pid) }
}

/// Why tracing `pid` is forbidden, as far as /proc tells, and what to do.
fn permission_hint(pid: Pid) -> String {
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
    use trimtab_types::procfs::parse_maps;

    const MAPS: &str = "\
55d000000000-55d000001000 r--p 00000000 fe:00 77 /opt/my program
55d000001000-55d000005000 r-xp 00001000 fe:00 77 /opt/my program
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000200000-7f0000300000 r-xp 00000000 fe:00 78 /lib/libold.so (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
";

    fn table(text: &str) -> MappingTable {
        MappingTable(parse_maps(text.as_bytes()).expect("a map"))
    }

    #[test]
    fn a_process_that_nobody_has_asked_for_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep runs");
        let pid = Pid(child.id() as i32);
        let start = start_time_ticks(pid).expect("it runs");
        assert!(runs(pid) && runs_since(pid, start) && !runs_since(pid, start + 1));
        child.kill().expect("it is ours");
        while runs(pid) {
            std::thread::yield_now();
        }
        assert_eq!(start_time_ticks(pid), Some(start), "its number is still taken");
        assert!(!runs_since(pid, start));
        child.wait().expect("it ended");
        assert!(!runs(pid) && start_time_ticks(pid).is_none());
    }

    #[test]
    fn a_process_that_has_ended_is_not_called_forbidden() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep runs");
        let pid = Pid(child.id() as i32);
        assert!(matches!(refusal(pid), Error::NotAllowed { .. }), "it runs");
        child.kill().expect("it is ours");
        while runs(pid) {
            std::thread::yield_now();
        }
        assert!(matches!(refusal(pid), Error::Gone { .. }), "it has ended");
        child.wait().expect("it ended");
        assert!(matches!(refusal(pid), Error::Gone { .. }), "its number is free");
    }

    #[test]
    fn threads_are_counted_as_they_are_listed() {
        let own = Pid(std::process::id() as i32);
        // Other tests come and go in this process, so the two are asked until nobody came between.
        let agree = || thread_count(own).expect("counts") == thread_ids(own).expect("lists").len();
        assert!((0..1000).any(|_| agree()));
        assert!(thread_count(Pid(i32::MAX)).is_err());
    }

    #[test]
    fn the_mapping_at_an_address() {
        let table = table(MAPS);
        assert_eq!(table.at(0x55d0_0000_1000).map(|mapping| mapping.offset), Some(0x1000));
        assert_eq!(table.at(0x55d0_0000_5000), None);
        assert_eq!(table.at(0), None);
    }

    #[test]
    fn a_gap_is_free_near_and_keeps_its_distance() {
        let table = table(MAPS);
        let reach = (1u64 << 31) - (1 << 20);
        let place = table.gap_near(0x7f00_0020_0000..0x7f00_0030_0000, 0x8000, reach, 0x10000).expect("a gap");
        assert!(place.abs_diff(0x7f00_0020_0000) < reach);
        for mapping in &table.0 {
            assert!(place + 0x8000 + 0x10000 <= mapping.start || place >= mapping.end + 0x10000, "{place:#x}");
        }
    }

    #[test]
    fn only_the_main_stack_grows_and_only_where_there_is_room() {
        let stack = 0x7ff0_1000_0000;
        let rows = [
            ("main", "7ff010000000-7ff010001000 rw-p 0 00:00 0 [stack]\n", stack - STACK_GROWTH),
            ("thread", "7ff010000000-7ff010001000 rw-p 0 00:00 0 \n", stack),
            (
                "neighbour",
                "7ff00fff0000-7ff00fff1000 rw-p 0 00:00 0 \n7ff010000000-7ff010001000 rw-p 0 00:00 0 [stack]\n",
                stack,
            ),
        ];
        for (name, text, lowest) in rows {
            let table = table(text);
            let mapping = table.at(stack).expect("is there");
            assert_eq!(table.lowest_of_stack(mapping), lowest, "{name}");
        }
    }

    #[test]
    fn the_main_stack_may_grow() {
        let table = table(
            "7ff000000000-7ff000001000 r-xp 00000000 fe:00 77 /lib/a\n\
             7ff010000000-7ff010001000 rw-p 00000000 00:00 0 [stack]\n",
        );
        let place = table.gap_near(0x7ff0_0000_0000..0x7ff0_0000_1000, 0x1000, 1 << 30, 0x1000).expect("a gap");
        assert!(place < 0x7ff0_0000_0000, "{place:#x}");
    }

    #[test]
    fn no_gap_is_invented() {
        let full = table("000010000000-7fffffff0000 rw-p 00000000 00:00 0 \n");
        assert_eq!(full.gap_near(0x7000_0000_0000..0x7000_0000_1000, 0x1000, 1 << 30, 0), None);
    }
}
