//! Which files are opened to be executed, and by which process: what a program was that has ended before anybody looked.
//!
//! The kernel (fanotify, `FAN_OPEN_EXEC`) queues each such opening, with the file, before the program runs. Nobody waits
//! for us, and nothing is held: these are notes, not questions. A program brings notes of its interpreters too (the
//! dynamic loader, a script's shell), and a note may be of an exec that failed; so they are used together with
//! [`ProcessEvents`](crate::ProcessEvents).
//!
//! Needs administrator's rights (`CAP_SYS_ADMIN`) and Linux 5.0.
//!
//! Next: `trimtab-watch`, which joins the two.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use trimtab_types::Pid;

/// Bytes read at once: some 170 notes.
const BUFFER_BYTES: usize = 4096;
/// Bytes of `struct fanotify_event_metadata`.
const NOTE_BYTES: usize = 24;
/// Notes fetched in one go: each comes with an open file, and a process may have 1024 of them.
const NOTES_MAX: usize = 256;
/// Kinds of file systems that hold no programs.
const WITHOUT_PROGRAMS: &[&str] = &[
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "devtmpfs",
    "mqueue",
    "debugfs",
    "tracefs",
    "securityfs",
    "pstore",
    "bpf",
    "configfs",
    "fusectl",
    "hugetlbfs",
    "nsfs",
    "autofs",
    "binfmt_misc",
    "efivarfs",
    "rpc_pipefs",
];

/// Notes of files that are opened to be executed, from now on.
#[derive(Debug)]
pub struct ExecFiles(File);

/// One such opening.
#[derive(Debug)]
pub struct ExecFile {
    /// The process that opened it.
    pub pid: Pid,
    /// The file, open for reading.
    pub file: File,
}

impl ExecFiles {
    /// On all file systems that are mounted now. `Err`: why the kernel will not tell.
    ///
    /// # Errors
    /// The kernel's errors; ordinary users are refused.
    pub fn open() -> io::Result<ExecFiles> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_QUEUE;
        let open_as = (libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NOATIME) as u32;
        // SAFETY: takes plain values and returns a new descriptor.
        let descriptor = unsafe { libc::fanotify_init(flags, open_as) };
        if descriptor == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let notes = ExecFiles(unsafe { File::from_raw_fd(descriptor) });
        let mounted = fs::read_to_string("/proc/self/mountinfo")?;
        let marked: Vec<io::Result<()>> = places(&mounted).iter().map(|place| notes.mark(place)).collect();
        match marked.iter().any(Result::is_ok) {
            true => Ok(notes),
            false => Err(marked.into_iter().find_map(Result::err).unwrap_or_else(|| ErrorKind::NotFound.into())),
        }
    }

    fn mark(&self, place: &str) -> io::Result<()> {
        let place = CString::new(place)?;
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        // SAFETY: the path outlives the call.
        let result = unsafe {
            libc::fanotify_mark(self.0.as_raw_fd(), flags, libc::FAN_OPEN_EXEC, libc::AT_FDCWD, place.as_ptr())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Notes that have come, oldest first.
    pub fn fetch(&self) -> Vec<ExecFile> {
        let mut notes = Vec::new();
        let mut bytes = [0u8; BUFFER_BYTES];
        while notes.len() < NOTES_MAX {
            match (&self.0).read(&mut bytes) {
                Ok(length) if length > 0 => notes.extend(parse(&bytes[..length]).into_iter().map(own)),
                // Nothing is there, or the limit of open files is reached: what was read so far is used first.
                _ => break,
            }
        }
        notes
    }
}

/// The descriptor that came with a note is ours from then on.
fn own((pid, descriptor): (Pid, i32)) -> ExecFile {
    // SAFETY: the kernel opened the descriptor for this note, and `parse` yields each note once.
    ExecFile { pid, file: unsafe { File::from_raw_fd(descriptor) } }
}

/// Process and descriptor of each note that has a file.
fn parse(mut bytes: &[u8]) -> Vec<(Pid, i32)> {
    let mut notes = Vec::new();
    let word = |bytes: &[u8], at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    while let (Some(length), Some(descriptor), Some(pid)) = (word(bytes, 0), word(bytes, 16), word(bytes, 20)) {
        if descriptor >= 0 {
            notes.push((Pid(pid), descriptor));
        }
        let length = usize::try_from(length).unwrap_or(0).max(NOTE_BYTES);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    notes
}

/// One place where each mounted file system with programs can be reached, from the text of `/proc/self/mountinfo`.
fn places(mounted: &str) -> Vec<String> {
    let mut devices = BTreeSet::new();
    let mut places = Vec::new();
    for line in mounted.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let kind = words.iter().position(|word| *word == "-").and_then(|at| words.get(at + 1));
        let (Some(device), Some(place), Some(kind)) = (words.get(2), words.get(4), kind) else { continue };
        if !WITHOUT_PROGRAMS.contains(kind) && devices.insert(device.to_string()) {
            places.push(unescaped(place));
        }
    }
    places
}

/// Spaces and such are written as a backslash and three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (escape, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(escape, character);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(length: u32, descriptor: i32, pid: i32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(0x1000u64.to_ne_bytes());
        bytes.extend(descriptor.to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes
    }

    #[test]
    fn notes_are_read() {
        let cases = [
            ("one", note(24, 5, 40), vec![(Pid(40), 5)]),
            ("two", [note(24, 5, 40), note(24, 6, 41)].concat(), vec![(Pid(40), 5), (Pid(41), 6)]),
            ("queue_was_full", note(24, -1, 0), vec![]),
            (
                "longer_in_a_later_kernel",
                [note(32, 5, 40), vec![0; 8], note(24, 6, 41)].concat(),
                vec![(Pid(40), 5), (Pid(41), 6)],
            ),
            ("empty", vec![], vec![]),
            ("cut", note(24, 5, 40)[..23].to_vec(), vec![]),
            ("length_zero", note(0, 5, 40), vec![(Pid(40), 5)]),
        ];
        for (case, bytes, expected) in cases {
            assert_eq!(parse(&bytes), expected, "{case}");
        }
    }

    #[test]
    fn each_file_system_has_one_place() {
        let text = "21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 0:5 / /proc rw - proc proc rw\n\
                    23 21 254:0 /a /bound rw shared:1 - ext4 /dev/vda rw\n24 21 0:9 / /my\\040disk rw - tmpfs none rw\nodd\n";
        assert_eq!(places(text), ["/", "/my disk"]);
    }
}
