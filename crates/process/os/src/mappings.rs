//! The mappings of a process: all of them as text, or those at a few addresses by asking.
//!
//! The text of `/proc/PID/maps` costs more than a microsecond per mapping, as the kernel spells out every path; a rank of
//! Open MPI has some 400. Since Linux 6.11 the same file answers a question about one address, in binary. Of older kernels
//! all is read.
//!
//! Next: `proc`, whose table is made of these.

use crate::sys::{self, MappingQuery};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trimtab_types::Pid;
use trimtab_types::procfs::{self, Mapping, parse_maps};

/// Set once the kernel has said that it does not know the question.
static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// All mappings of `pid`, in address order.
pub(crate) fn mappings_of(pid: Pid) -> io::Result<Vec<Mapping>> {
    by_text(open(pid)?)
}

/// Of each of `addresses` the mapping that holds it, or else the next one behind it, in address order; perhaps others too.
pub(crate) fn mappings_around(pid: Pid, addresses: &[u64]) -> io::Result<Vec<Mapping>> {
    let file = open(pid)?;
    match by_questions(&file, addresses) {
        Some(mappings) => Ok(mappings),
        None => by_text(file),
    }
}

/// The build id of each file that is mapped at one of `addresses`, in their order; `None` if one has none, or the kernel
/// can't be asked.
pub fn build_ids_at(pid: Pid, addresses: &[u64]) -> Option<Vec<Vec<u8>>> {
    let file = open(pid).ok()?;
    let mut query = MappingQuery::new();
    let id = |address: &u64| {
        sys::query_build_id(&file, &mut query, *address).ok()?;
        let found = (query.start..query.end).contains(address).then(|| query.build_id().to_vec());
        found.filter(|id| !id.is_empty())
    };
    addresses.iter().map(id).collect()
}

fn open(pid: Pid) -> io::Result<File> {
    File::open(format!("/proc/{pid}/maps"))
}

fn by_text(file: File) -> io::Result<Vec<Mapping>> {
    let text = procfs::read_all(file)?;
    parse_maps(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// `None` if it must be read as text: the kernel is too old, a path is too long, or nothing is mapped any more.
fn by_questions(file: &File, addresses: &[u64]) -> Option<Vec<Mapping>> {
    let mut mappings: Vec<Mapping> = Vec::with_capacity(addresses.len());
    let mut query = MappingQuery::new();
    for address in addresses {
        if IS_UNKNOWN.load(Relaxed) {
            return None;
        }
        match sys::query_mapping(file, &mut query, *address) {
            Ok(()) => mappings.push(mapping_of(&query)),
            // There is none behind.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => {
                IS_UNKNOWN.fetch_or(error.raw_os_error() == Some(libc::ENOTTY), Relaxed);
                return None;
            }
        }
    }
    mappings.sort_by_key(|mapping| mapping.start);
    mappings.dedup_by_key(|mapping| mapping.start);
    Some(mappings)
}

fn mapping_of(query: &MappingQuery) -> Mapping {
    let (path, deleted) = procfs::path_of_mapping(query.name());
    Mapping {
        start: query.start,
        end: query.end,
        readable: query.is_readable(),
        writable: query.is_writable(),
        executable: query.is_executable(),
        shared: query.is_shared(),
        offset: query.offset,
        device: query.device.into(),
        inode: query.inode,
        path,
        deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ended = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    /// A program that maps nothing any more.
    fn sleeper() -> Sleeper {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let sleeper = Sleeper(child.expect("it starts"));
        let pid = sleeper.0.id();
        let sleeps = || std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("nanosleep"));
        let begun = Instant::now();
        while !sleeps() {
            assert!(begun.elapsed().as_secs() < 30, "it does not come to sleep");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        sleeper
    }

    /// The answers to the questions at `addresses`; `None` where the kernel can't be asked, which is said.
    fn asked(pid: u32, addresses: &[u64]) -> Option<Vec<Mapping>> {
        let asked = by_questions(&open(Pid(pid as i32)).expect("its map"), addresses);
        if asked.is_none() {
            assert!(IS_UNKNOWN.load(Relaxed), "a kernel that knows the question answers it");
            trimtab_specimens::skip("mappings by questions", "this kernel can't be asked; Linux 6.11 and later can");
        }
        asked
    }

    #[test]
    fn both_ways_say_the_same() {
        let sleeper = sleeper();
        let pid = Pid(sleeper.0.id() as i32);
        let mut text = mappings_of(pid).expect("a map");
        // A page of the kernel's that no process has mapped itself.
        text.retain(|mapping| mapping.path != "[vsyscall]");
        assert!(text.iter().any(|mapping| mapping.path == "[stack]") && text.iter().any(Mapping::is_file));
        for places in [
            text.iter().map(|mapping| mapping.start).collect::<Vec<u64>>(),
            text.iter().rev().map(|mapping| mapping.end - 1).collect(),
        ] {
            asked(sleeper.0.id(), &places).into_iter().for_each(|asked| assert_eq!(asked, text));
        }
    }

    #[test]
    fn between_two_mappings_it_is_the_next_one() {
        let sleeper = sleeper();
        let text = mappings_of(Pid(sleeper.0.id() as i32)).expect("a map");
        let apart = text.windows(2).find(|pair| pair[0].end < pair[1].start).expect("a gap");
        let around = asked(sleeper.0.id(), &[apart[0].end, apart[1].start - 1, u64::MAX - 1]);
        around.into_iter().for_each(|around| assert_eq!(around, [apart[1].clone()]));
        let all = mappings_around(Pid(sleeper.0.id() as i32), &[apart[0].end]).expect("mappings");
        assert!(all.contains(&apart[1]), "asked or read, it is there");
    }

    #[test]
    fn a_process_that_has_ended_has_none() {
        let mut ended = Command::new("true").spawn().expect("it starts");
        let pid = Pid(ended.id() as i32);
        let file = open(pid);
        ended.wait().expect("it ends");
        assert_eq!(file.ok().and_then(|file| by_questions(&file, &[0])), None);
        assert!(mappings_of(pid).is_err() && mappings_around(pid, &[0]).is_err());
    }

    #[test]
    fn a_file_without_a_name_is_told_from_one_of_that_name() {
        let pid = Pid(std::process::id() as i32);
        let shared = crate::SharedMapping::create(&memfd(), 4096, pid).expect("mapped");
        let here = shared.words().as_ptr() as u64;
        let own = mappings_around(pid, &[here]).expect("mappings");
        let found = own.iter().find(|mapping| mapping.start == here).expect("it is there");
        assert_eq!(found.path, "/memfd:mappings test");
        assert!(found.deleted && found.shared && found.writable && found.length() == 4096, "{found:?}");
    }

    #[test]
    fn build_ids_are_those_of_the_files() {
        let sleeper = sleeper();
        let text = mappings_of(Pid(sleeper.0.id() as i32)).expect("a map");
        let library = text.iter().find(|mapping| mapping.path.contains("libc")).expect("a C library");
        let own = mappings_of(Pid(std::process::id() as i32)).expect("a map");
        let same = own.iter().find(|mapping| mapping.path == library.path).expect("the same");
        let ids = |pid: u32, places: &[u64]| build_ids_at(Pid(pid as i32), places);
        if let Some(theirs) = ids(sleeper.0.id(), &[library.start, text[0].start]) {
            assert_eq!(ids(std::process::id(), &[same.start]), Some(vec![theirs[0].clone()]));
            assert!(theirs[0] != theirs[1] && theirs.iter().all(|id| id.len() == 20), "{theirs:?}");
        } else {
            trimtab_specimens::skip("build ids of mappings", "this kernel can't be asked; Linux 6.11 and later can");
        }
        let stack = text.iter().find(|mapping| mapping.path == "[stack]").expect("a stack");
        assert_eq!(ids(sleeper.0.id(), &[library.start, stack.start]), None, "what is no file has none");
        assert_eq!(ids(sleeper.0.id(), &[library.start, 1]), None, "nor has what is not mapped");
        assert_eq!(ids(sleeper.0.id(), &[]), Some(Vec::new()));
    }

    fn memfd() -> File {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is a string; the descriptor is new and owned by nobody else.
        unsafe { File::from_raw_fd(libc::memfd_create(c"mappings test".as_ptr(), 0)) }
    }
}
