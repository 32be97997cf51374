//! The process at the other end of a Unix socket, as it was when it connected.
//!
//! The kernel gives a process of a namespace that is not below ours the number 0, which is no process: who reads the
//! answer as a number that can't be 0 has an invalid value.
//!
//! Next: `trimtab-link` and `trimtab-trigger`, which let in whom they know.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use trimtab_types::Pid;

/// The other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user, by number.
    pub user: u32,
    /// The process; `None` where it has no number here.
    pub process: Option<Pid>,
}

/// The other end of a connected Unix socket; of a pair, who made it.
///
/// # Errors
/// The file is no socket, or the kernel knows no other end.
pub fn peer_of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let place = (&raw mut found).cast();
    // SAFETY: `found` and `length` outlive the call, which writes at most `length` bytes; any bytes are a `ucred`.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != size_of::<libc::ucred>() || found.uid == libc::uid_t::MAX {
        return Err(io::Error::other("the kernel does not know who is at the other end of the socket"));
    }
    Ok(Peer { user: found.uid, process: Some(Pid(found.pid)).filter(|pid| pid.0 > 0) })
}
