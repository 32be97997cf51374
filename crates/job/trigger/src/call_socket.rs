//! Where a call comes in: a Unix socket in a folder that only its user can enter.
//!
//! Folder and socket are the user's alone, and the kernel says who is at the other end: a call of anybody but the user and
//! root is not heard. A caller names a job; whoever waits for that job answers, all others say so. A socket that a killed
//! trimtab left is removed by the next call.
//!
//! Next: `wait`, which opens the call socket while it waits.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_os::peer_of;

/// A caller that says nothing for so long is not waited for.
const SPEAK: Duration = Duration::from_secs(2);
/// Longest call.
const CALL_BYTES_MAX: usize = 1024;
/// Longest name that is called out, characters.
const NAME_LENGTH_MAX: usize = 200;
/// The answer to a call.
const FIRED: &str = "fired\n";
const OTHER_JOB: &str = "another job\n";

/// Where sockets of this user are: in `XDG_RUNTIME_DIR`, or in a folder of the user's in the system's for temporary files.
///
/// # Errors
/// The folder can't be made, or others could write into it.
pub fn folder() -> Result<PathBuf, Error> {
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let path = match runtime {
        Some(runtime) => runtime.join("trimtab"),
        None => std::env::temp_dir().join(format!("trimtab-{uid}")),
    };
    make_private(&path, uid)?;
    Ok(path)
}

fn make_private(path: &Path, uid: u32) -> Result<(), Error> {
    let failed = |source| Error::Folder { path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    // A link could lead to somebody else's folder.
    let facts = fs::symlink_metadata(path).map_err(failed)?;
    let mode = facts.permissions().mode() & 0o7777;
    if !facts.is_dir() || facts.uid() != uid || mode & 0o077 != 0 {
        return Err(Error::Unsafe { path: path.to_owned(), uid: facts.uid(), mode });
    }
    Ok(())
}

/// Listens for calls. Dropping it removes the socket.
#[derive(Debug)]
pub struct CallSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The names of the job.
    pub names: Vec<String>,
}

impl CallSocket {
    /// Opens a socket in `folder`, for a job that is called one of `names`.
    ///
    /// # Errors
    /// The socket can't be made.
    pub fn open(folder: &Path, names: Vec<String>) -> Result<CallSocket, Error> {
        let path = folder.join(format!("wait-{}.sock", std::process::id()));
        let failed = |source| Error::Socket { path: path.clone(), source };
        // Of an earlier process with our number.
        let _not_there = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(CallSocket { listener, path, names })
    }

    /// A handle that wakes whoever waits here.
    pub fn waker(&self) -> Waker {
        Waker { path: self.path.clone() }
    }

    /// The name that was called out; waits at most that long, less if a signal comes.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait(&self, limit: Duration) -> Result<Option<String>, Error> {
        let timeout =
            Timespec { tv_sec: limit.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(Error::Wait { source: error.into() }),
        }
        // A caller that is gone again, or that may not call, is no reason to end.
        let Ok((stream, _)) = self.listener.accept() else { return Ok(None) };
        Ok(self.hear(stream).ok().flatten())
    }

    fn hear(&self, mut stream: UnixStream) -> io::Result<Option<String>> {
        let caller = peer_of(stream.as_fd())?.user;
        if caller != 0 && caller != rustix::process::geteuid().as_raw() {
            return Ok(None);
        }
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SPEAK))?;
        stream.set_write_timeout(Some(SPEAK))?;
        let Some(line) = read_line(&mut stream)? else { return Ok(None) };
        let mut words = line.splitn(3, '\t');
        let is_ours = words.next() == Some("trigger") && words.next().is_some_and(|job| self.is_called(job));
        stream.write_all(if is_ours { FIRED } else { OTHER_JOB }.as_bytes())?;
        let name: String = words.next().unwrap_or_default().chars().take(NAME_LENGTH_MAX).collect();
        Ok(is_ours.then_some(name))
    }

    fn is_called(&self, job: &str) -> bool {
        self.names.iter().any(|name| name == job)
    }
}

/// Wakes whoever waits at a [`CallSocket`], which then looks what else there is.
#[derive(Clone, Debug)]
pub struct Waker {
    path: PathBuf,
}

impl Waker {
    /// Wakes them, also if they only begin to wait now.
    pub fn ring(&self) {
        // Somebody who says nothing is let in and gone. If nobody is there any more, nobody has to be woken.
        let _gone = UnixStream::connect(&self.path);
    }
}

impl Drop for CallSocket {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// One line without its end; `None`: it is too long, or no text.
fn read_line(stream: &mut UnixStream) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut part = [0; 256];
    while !bytes.contains(&b'\n') && bytes.len() < CALL_BYTES_MAX {
        match stream.read(&mut part)? {
            0 => break,
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    let end = bytes.iter().position(|byte| *byte == b'\n');
    Ok(end.and_then(|end| String::from_utf8(bytes[..end].to_vec()).ok()))
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// Those that wait for the job and have heard it.
    pub fired: usize,
    /// Those that wait for other jobs.
    pub others: usize,
    /// Those that did not answer: they measure just now.
    pub silent: usize,
}

/// Calls everybody who waits for `job` in `folder`; `name` is kept with their windows.
///
/// # Errors
/// The folder can't be read.
pub fn call_job(folder: &Path, job: &str, name: &str) -> Result<CallOutcome, Error> {
    let failed = |source| Error::Folder { path: folder.to_owned(), source };
    let mut outcome = CallOutcome::default();
    for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
        let path = entry.path();
        let is_call_socket =
            entry.file_name().to_str().is_some_and(|name| name.starts_with("wait-") && name.ends_with(".sock"));
        if !is_call_socket {
            continue;
        }
        match call(&path, job, name) {
            Ok(answer) if answer == FIRED => outcome.fired += 1,
            Ok(_) => outcome.others += 1,
            // Nobody listens any more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _gone = fs::remove_file(&path);
            }
            Err(error) if is_timeout(&error) => outcome.silent += 1,
            Err(_) => {}
        }
    }
    Ok(outcome)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn call(path: &Path, job: &str, name: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    // Whoever measures just now does not answer, and hears later that we have gone.
    stream.set_read_timeout(Some(SPEAK))?;
    stream.set_write_timeout(Some(SPEAK))?;
    let one_line = |text: &str| text.replace(['\t', '\n'], " ");
    stream.write_all(format!("trigger\t{}\t{}\n", one_line(job), one_line(name)).as_bytes())?;
    let mut answer = String::new();
    stream.take(CALL_BYTES_MAX as u64).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        make_private(&folder.path().join("own"), rustix::process::geteuid().as_raw()).expect("a private folder");
        folder
    }

    #[test]
    fn calls_are_heard_by_those_who_wait_for_the_job() {
        let place = place();
        let folder = place.path().join("own");
        assert_eq!(call_job(&folder, "7", "x").expect("a folder"), CallOutcome::default());
        let call_socket = CallSocket::open(&folder, vec!["app-1".into(), "4711".into()]).expect("a call socket");
        for (job, name, expected, heard) in [
            ("4711", "before restart", CallOutcome { fired: 1, ..CallOutcome::default() }, Some("before restart")),
            ("app-1", "", CallOutcome { fired: 1, ..CallOutcome::default() }, Some("")),
            (
                "app-1",
                "two\tlines\nof text",
                CallOutcome { fired: 1, ..CallOutcome::default() },
                Some("two lines of text"),
            ),
            ("app-2", "x", CallOutcome { others: 1, ..CallOutcome::default() }, None),
        ] {
            let found = std::thread::scope(|scope| {
                let caller = scope.spawn(|| call_job(&folder, job, name).expect("a folder"));
                let found = call_socket.wait(Duration::from_secs(20)).expect("it waits");
                (caller.join().expect("no panic"), found)
            });
            assert_eq!((found.0, found.1.as_deref()), (expected, heard), "{job} {name:?}");
        }
        drop(call_socket);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "the socket is gone");
    }

    #[test]
    fn strange_callers_do_no_harm() {
        let place = place();
        let folder = place.path().join("own");
        let call_socket = CallSocket::open(&folder, vec!["1".into()]).expect("a call socket");
        for text in [&b""[..], b"\n", b"trigger\n", b"trigger\t1", b"\xff\xfe\n", &[b'x'; 5000]] {
            let mut stream = UnixStream::connect(&call_socket.path).expect("it listens");
            let _refused = stream.write_all(text);
            drop(stream);
            assert_eq!(call_socket.wait(Duration::from_secs(20)).expect("it waits"), None, "{text:?}");
        }
        assert_eq!(call_socket.wait(Duration::ZERO).expect("it waits"), None, "nobody calls");
    }

    #[test]
    fn what_a_killed_one_left_is_removed() {
        let place = place();
        let folder = place.path().join("own");
        drop(UnixListener::bind(folder.join("wait-1.sock")).expect("a socket"));
        fs::write(folder.join("notes"), "mine").expect("a file");
        assert_eq!(call_job(&folder, "1", "").expect("a folder"), CallOutcome::default());
        let left: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["notes"], "and nothing else");
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let place = place();
        let (uid, path) = (rustix::process::geteuid().as_raw(), place.path().join("open"));
        DirBuilder::new().mode(0o700).create(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("its owner may");
        assert!(matches!(make_private(&path, uid), Err(Error::Unsafe { mode: 0o777, .. })));
        let link = place.path().join("link");
        std::os::unix::fs::symlink(place.path().join("own"), &link).expect("a link");
        assert!(matches!(make_private(&link, uid), Err(Error::Unsafe { .. })), "a link");
        assert!(
            matches!(make_private(&place.path().join("own"), uid + 1), Err(Error::Unsafe { .. })),
            "another user's"
        );
        assert!(matches!(make_private(Path::new("/proc/none/x"), uid), Err(Error::Folder { .. })));
    }
}
