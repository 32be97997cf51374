//! The bytes of a mapped file, found through the process and not through its name.
//!
//! A name says little: a program is rebuilt or deleted while it runs, a library is upgraded, a container has a root of its
//! own, a memory file has no name at all, and a file may itself be called `x (deleted)`. So the kernel is asked for the
//! very file of a mapping (`map_files`, for those who may), then for the program's own (`exe`), which works for everybody
//! who may trace it. A file that is found by its name is believed only if it is the one that is mapped: the same device and
//! inode, or where a file system shows other ones (overlayfs, btrfs), the same contents. Where none of it can be had, the
//! file is put together from what the process has mapped of it.
//!
//! Next: `image_cache`, which reads symbols from these bytes.

use crate::error::Error;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use trimtab_os::{FileMapping, Mapping, Memory};
use trimtab_symbols::{gnu_build_id_of, loaded_file};
use trimtab_types::Pid;
use trimtab_types::procfs::path_of_mapping;

/// The kernel's mark behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";
/// Bytes of a page.
const PAGE: u64 = 4096;
/// The largest file that is put together from memory, in bytes.
const FROM_MEMORY_BYTES_MAX: u64 = 1 << 30;

/// All bytes of a program or library.
#[derive(Debug)]
pub enum FileBytes {
    /// Of its file.
    Mapped(FileMapping),
    /// Of a process's memory; its file can't be had any more.
    FromMemory(Vec<u8>),
}

impl FileBytes {
    /// The bytes, from the file's first on.
    pub fn bytes(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(file) => file.bytes(),
            FileBytes::FromMemory(bytes) => bytes,
        }
    }
}

/// One way to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The kernel's link to the file of one mapping; needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`.
    MapFiles,
    /// The kernel's link to the program's file.
    Exe,
    /// The name, below the root of the process.
    Rooted,
    /// The name, as we see it: a process may have a root of its own in our file system.
    Named,
}

const WAYS: [Way; 4] = [Way::MapFiles, Way::Exe, Way::Rooted, Way::Named];

/// The file that `group`, mappings of one file, shows.
///
/// # Errors
/// [`Error::NoFile`] with the reason if it can't be opened in any way.
pub(crate) fn file_of(pid: Pid, group: &[&Mapping]) -> Result<(File, Metadata), Error> {
    file_by(&WAYS, pid, group)
}

fn file_by(ways: &[Way], pid: Pid, group: &[&Mapping]) -> Result<(File, Metadata), Error> {
    let first = group[0];
    let mut reason = None;
    for path in ways.iter().flat_map(|way| paths(*way, pid, group)) {
        let opened = File::open(&path).and_then(|file| file.metadata().map(|data| (file, data)));
        match opened {
            Ok((file, data)) if data.is_file() && is_mapped(&file, &data, pid, group) => return Ok((file, data)),
            Ok(_) => reason = Some("the file of that name is another one".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => reason = reason.or_else(|| Some(error.to_string())),
        }
    }
    let gone = "it was deleted or replaced after the process had mapped it";
    let reason = match reason {
        _ if first.deleted => gone.to_owned(),
        Some(reason) => reason,
        None => "no file has that name".to_owned(),
    };
    Err(Error::NoFile { path: first.path.clone(), reason })
}

/// Where a file may be found in one way.
fn paths(way: Way, pid: Pid, group: &[&Mapping]) -> Vec<PathBuf> {
    let links = || group.iter().map(|mapping| link_of(pid, mapping));
    match way {
        Way::MapFiles => links().collect(),
        Way::Exe => {
            let link = PathBuf::from(format!("/proc/{pid}/exe"));
            let name = std::fs::read_link(&link).map(|name| path_of_mapping(name.as_os_str().as_bytes()).0);
            let is_named = name.is_ok_and(|name| name == group[0].path);
            let is_it = is_named || std::fs::metadata(&link).is_ok_and(|data| data.ino() == group[0].inode);
            if is_it { vec![link] } else { Vec::new() }
        }
        Way::Rooted => names(pid, group).into_iter().map(|name| rooted(pid, &name)).collect(),
        Way::Named => names(pid, group).iter().map(|name| PathBuf::from(OsStr::from_bytes(name))).collect(),
    }
}

/// The kernel's link to the file of one mapping. Everybody may read it who may trace the process; few may follow it.
fn link_of(pid: Pid, mapping: &Mapping) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end))
}

/// The names that a file may have. A file whose name ends as if it were deleted may be called so.
fn names(pid: Pid, group: &[&Mapping]) -> Vec<Vec<u8>> {
    let link = group.iter().find_map(|mapping| std::fs::read_link(link_of(pid, mapping)).ok());
    // A name of other characters than UTF-8's is whole only in the link.
    let Some(name) = link.map(|link| link.into_os_string().into_vec()) else {
        let plain = group[0].path.clone().into_bytes();
        let marked = group[0].deleted.then(|| [plain.as_slice(), DELETED].concat());
        return marked.into_iter().chain([plain]).collect();
    };
    let plain = name.strip_suffix(DELETED).map(<[u8]>::to_vec);
    std::iter::once(name).chain(plain).collect()
}

/// A file through the root of a process, so that a program in a container is read from its own file system.
fn rooted(pid: Pid, name: &[u8]) -> PathBuf {
    let mut path = format!("/proc/{pid}/root").into_bytes();
    path.extend_from_slice(name);
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

/// True if a file is the one that is mapped.
fn is_mapped(file: &File, data: &Metadata, pid: Pid, group: &[&Mapping]) -> bool {
    let first = group[0];
    if data.ino() == first.inode && device_of(data) == first.device {
        return true;
    }
    // Some file systems show a file's number otherwise than the kernel does in the map.
    let memory = Memory::open(pid);
    FileMapping::of(file).ok().zip(memory.ok()).is_some_and(|(file, memory)| has_same_contents(&file, &memory, group))
}

fn device_of(data: &Metadata) -> (u32, u32) {
    let device = data.dev();
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    (major as u32, minor as u32)
}

/// The build id is made from all contents; without one, all code must be the same.
fn has_same_contents(file: &FileMapping, memory: &Memory, group: &[&Mapping]) -> bool {
    let read = |mapping: &Mapping| memory.read_vec(mapping.start, mapping.length() as usize).ok();
    let begin = group.iter().find(|mapping| mapping.offset == 0).and_then(|mapping| read(mapping));
    let mapped_id = begin.as_deref().and_then(gnu_build_id_of);
    match (gnu_build_id_of(file.bytes()), mapped_id) {
        (Some(one), Some(other)) => one == other,
        (None, None) => group.iter().filter(|mapping| mapping.executable).all(|mapping| {
            let offset = mapping.offset as usize;
            let behind = file.bytes().get(offset..).unwrap_or_default();
            // Behind the file's end a page holds zeros.
            let wanted = &behind[..behind.len().min(mapping.length() as usize)];
            !wanted.is_empty() && read(mapping).is_some_and(|now| now.starts_with(wanted))
        }),
        _ => false,
    }
}

/// A file as a process has it in memory.
#[derive(Debug)]
pub(crate) struct FromMemory {
    pub bytes: Vec<u8>,
    /// Parts of the file that are not as they were in it, or may not be: the process has pages of its own for them.
    pub changed: Vec<std::ops::Range<u64>>,
}

/// Why a file can't be had from memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotInMemory {
    #[error("its first page is not mapped")]
    NoBeginning,
    #[error("{0} bytes are too many to be read from memory")]
    TooLong(u64),
    #[error("what is mapped there is no program or library")]
    NoFile,
    #[error(transparent)]
    Os(#[from] trimtab_os::Error),
    #[error(transparent)]
    Symbols(#[from] trimtab_symbols::Error),
}

/// The file that `group` shows, from memory: what is mapped of it, with the headers that are not loaded left out.
///
/// # Errors
/// [`NotInMemory`].
pub(crate) fn from_memory(pid: Pid, group: &[&Mapping]) -> Result<FromMemory, NotInMemory> {
    let load = first_load(group).ok_or(NotInMemory::NoBeginning)?;
    let length = load.iter().map(|mapping| mapping.offset.saturating_add(mapping.length())).max().unwrap_or(0);
    if length > FROM_MEMORY_BYTES_MAX {
        return Err(NotInMemory::TooLong(length));
    }
    let memory = Memory::open(pid)?;
    let mut bytes = vec![0; length as usize];
    for mapping in load {
        let place = mapping.offset as usize..(mapping.offset + mapping.length()) as usize;
        if let Err(error) = memory.read(mapping.start, &mut bytes[place]) {
            // Behind the end of a file that was cut nothing can be read. Code must be.
            if mapping.executable || mapping.offset == 0 {
                return Err(error.into());
            }
        }
    }
    let start = load[0].start;
    let bytes = loaded_file(bytes, start).ok_or(NotInMemory::NoFile)?;
    let changed = load.iter().filter(|mapping| mapping.executable).flat_map(|mapping| own_pages(pid, mapping));
    Ok(FromMemory { bytes, changed: changed.collect() })
}

/// The mappings of the first of several loads of a file: from one that shows its beginning to the next such.
fn first_load<'a>(group: &'a [&'a Mapping]) -> Option<&'a [&'a Mapping]> {
    let begin = group.iter().position(|mapping| mapping.offset == 0)?;
    let next = group[begin + 1..].iter().position(|mapping| mapping.offset == 0);
    let end = next.map_or(group.len(), |next| begin + 1 + next);
    Some(&group[begin..end])
}

/// Pages of a file's code that the process has for itself: somebody has written to them. All, if that can't be told.
fn own_pages(pid: Pid, mapping: &Mapping) -> Vec<std::ops::Range<u64>> {
    let place = |page: u64| mapping.offset + page * PAGE..mapping.offset + (page + 1) * PAGE;
    match trimtab_os::private_pages(pid, mapping.start..mapping.end) {
        Ok(pages) => pages.into_iter().map(place).collect(),
        Err(_) => std::iter::once(mapping.offset..mapping.offset + mapping.length()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_cache::ImageCache;
    use crate::mapped::module_mappings;
    use crate::modules::Modules;
    use std::io::Write;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use trimtab_os::MappingTable;

    /// A program with a function of a name that the C library has, too. It says when it runs, and ends with its input. With
    /// arguments it becomes the program named by the first, from a memory file that has no name.
    const PROGRAM: &str = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/sendfile.h>
        #include <unistd.h>
        __attribute__((noinline)) int step(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
        int main(int count, char **words, char **environment) {
          if (count > 1) {
            int from = open(words[1], O_RDONLY), to = memfd_create("app", 0);
            sendfile(to, from, 0, 1 << 30);
            char *no_words[] = {"app", 0};
            return fexecve(to, no_words, environment);
          }
          puts("ready"); fflush(stdout);
          return step(getchar()) == 0;
        }
    "#;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("trimtab-origin-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            Folder(folder)
        }

        /// The program, linked with `flags`.
        fn build(&self, name: &OsStr, flags: &[&str]) -> PathBuf {
            let program = self.0.join(name);
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-x", "c", "-"]).args(flags).arg("-o").arg(&program).stdin(Stdio::piped());
            let mut compiler = compiler.spawn().expect("cc runs");
            compiler.stdin.take().expect("piped").write_all(PROGRAM.as_bytes()).expect("reads it");
            assert!(compiler.wait().expect("ends").success());
            program
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn is_root() -> bool {
        std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
    }

    struct Running(Child);

    impl Running {
        fn start(command: &mut Command) -> Self {
            use std::io::Read;
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
            let mut said = [0; 6];
            child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("it says that it runs");
            assert_eq!(&said, b"ready\n");
            Running(child)
        }

        fn pid(&self) -> Pid {
            Pid(self.0.id() as i32)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// The program's own function is what its name means, and its bytes are those of memory.
    fn check(name: &str, running: &Running) {
        let modules = Modules::read(running.pid(), &ImageCache::in_memory(), &|_| true).expect("modules");
        assert!(modules.has_program(), "{name}: {:?}", modules.unreadable);
        assert_eq!(modules.unreadable, [], "{name}");
        let found = modules.definitions("step");
        assert_eq!(found.len(), 1, "{name}");
        let (module, function) = found[0];
        assert!(std::ptr::eq(module, &modules.modules[0]), "{name}: it is {}'s", module.path);
        let offset = module.loaded.image.file_offset_of(function.addr).expect("in the file") as usize;
        let in_file = &module.loaded.file.bytes()[offset..offset + function.size as usize];
        let memory = Memory::open(running.pid()).expect("memory");
        let now = memory.read_vec(module.bias.to_proc(function.addr).0, in_file.len()).expect("read");
        assert_eq!(in_file, now, "{name}");
    }

    #[test]
    fn programs_are_found_through_their_process() {
        type Change = fn(&Folder, &Path);
        let remove: Change = |_, program| std::fs::remove_file(program).expect("was there");
        let replace: Change = |folder, program| {
            std::fs::remove_file(program).expect("was there");
            folder.build(program.file_name().expect("a name"), &["-O0", "-Wl,--build-id=none"]);
        };
        let keep: Change = |_, _| {};
        for (name, file, change) in [
            ("plain", OsStr::new("app"), keep),
            ("deleted", OsStr::new("app"), remove),
            ("rebuilt", OsStr::new("app"), replace),
            ("called_deleted", OsStr::new("x (deleted)"), keep),
            ("called_deleted_and_deleted", OsStr::new("x (deleted)"), remove),
            ("not_utf8", OsStr::from_bytes(b"caf\xe9"), keep),
            ("not_utf8_and_deleted", OsStr::from_bytes(b"caf\xe9"), remove),
            ("blank_and_newline", OsStr::new("a b\nc"), keep),
        ] {
            let folder = Folder::new(name);
            let program = folder.build(file, &[]);
            let running = Running::start(&mut Command::new(&program));
            change(&folder, &program);
            check(name, &running);
        }
        let folder = Folder::new("elsewhere");
        let program = folder.build(OsStr::new("app"), &[]);
        check("memory_file", &Running::start(Command::new(&program).arg(&program)));
        if is_root() {
            folder.build(OsStr::new("static"), &["-static"]);
            check("own_root", &Running::start(Command::new("chroot").arg(&folder.0).arg("/static")));
        } else {
            trimtab_specimens::skip("a program with a root of its own", "only root may give it one");
        }
    }

    /// Each way finds the file that is mapped, or none; never another one of its name.
    #[test]
    fn no_way_finds_another_file() {
        let folder = Folder::new("ways");
        let program = folder.build(OsStr::new("app"), &[]);
        let running = Running::start(&mut Command::new(&program));
        let maps = MappingTable::of(running.pid()).expect("maps");
        let groups = module_mappings(&maps);
        let group = groups.iter().find(|group| group[0].path == program.to_string_lossy()).expect("is mapped");
        let found = |way: Way| file_by(&[way], running.pid(), group).map(|(_, data)| data.ino()).ok();
        let inode = Some(group[0].inode);
        let privileged = if is_root() { inode } else { None };
        assert_eq!(WAYS.map(found), [privileged, inode, inode, inode], "as it was started");
        std::fs::rename(&program, folder.0.join("old")).expect("was there");
        folder.build(OsStr::new("app"), &["-O0"]);
        assert_eq!(WAYS.map(found), [privileged, inode, inode, inode], "the kernel knows its new name");
        std::fs::remove_file(folder.0.join("old")).expect("was there");
        assert_eq!(WAYS.map(found), [privileged, inode, None, None], "it has no name");
        let other = Mapping { inode: 1, ..group[0].clone() };
        assert!(file_by(&[Way::Named], running.pid(), &[&other]).is_err(), "what has its name now is another file");
    }

    /// Memory of a file is read as the file, and pages that somebody wrote to are told.
    #[test]
    fn a_file_that_is_gone_is_read_from_memory() {
        for (name, flags) in [
            ("with_id", &[][..]),
            ("without_id", &["-Wl,--build-id=none"]),
            ("fixed", &["-no-pie"]),
            ("old_hash", &["-Wl,--hash-style=sysv", "-rdynamic"]),
        ] {
            let folder = Folder::new(name);
            let program = folder.build(OsStr::new("app"), &[&["-rdynamic"][..], flags].concat());
            let running = Running::start(&mut Command::new(&program));
            let maps = MappingTable::of(running.pid()).expect("maps");
            for path in [program.to_string_lossy().into_owned(), "/libc.so.6".into()] {
                let groups = module_mappings(&maps);
                let group = groups.iter().find(|group| group[0].path.ends_with(&path)).expect("is mapped");
                let cache = ImageCache::in_memory();
                let whole = cache.load_mapped(running.pid(), group).expect("its file is there");
                let found = from_memory(running.pid(), group).expect("from memory");
                assert_eq!(found.changed, [], "{name}: {path}");
                let image = trimtab_symbols::Image::parse(&found.bytes).expect("it is a program");
                assert_eq!(image.problems, Vec::<String>::new(), "{name}: {path}");
                let exported = |image: &trimtab_symbols::Image| {
                    let functions = image.functions.iter().filter(|function| function.exported);
                    functions.map(|function| function.addr).collect::<Vec<_>>()
                };
                assert_eq!(exported(&image), exported(&whole.image), "{name}: {path}");
                for segment in image.segments.iter().filter(|segment| !segment.writable) {
                    let range = segment.file_offset as usize..(segment.file_offset + segment.file_size) as usize;
                    // The first page says nothing of sections any more.
                    let range = range.start.max(64)..range.end;
                    assert_eq!(found.bytes[range.clone()], whole.file.bytes()[range], "{name}: {path}");
                }
            }
            std::fs::remove_file(&program).expect("was there");
            let groups = module_mappings(&maps);
            let group = groups.iter().find(|group| group[0].path == program.to_string_lossy()).expect("is mapped");
            let code = group.iter().find(|mapping| mapping.executable).expect("code");
            let memory = Memory::open(running.pid()).expect("memory");
            let byte = memory.read_vec(code.start, 1).expect("read");
            memory.write(code.start, &byte).expect("written");
            let found = from_memory(running.pid(), group).expect("from memory");
            let page = code.offset..code.offset + PAGE;
            assert_eq!(found.changed, vec![page], "{name}");
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let own = Pid(std::process::id() as i32);
        let maps = MappingTable::of(own).expect("maps");
        let stack: Vec<&Mapping> = maps.0.iter().filter(|mapping| mapping.path == "[stack]").collect();
        assert!(from_memory(own, &stack).is_err());
        let beginning = Mapping { offset: u64::MAX - 100, ..stack[0].clone() };
        assert!(from_memory(own, &[stack[0], &beginning]).is_err(), "longer than any file");
    }
}
