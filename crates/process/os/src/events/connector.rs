//! The kernel's proc connector: every fork, exec and exit of the machine as a datagram, some microseconds later.
//!
//! It is for administrators in the first pid and network namespace (Linux 6.6 and later tell ordinary users too).
//! Elsewhere the kernel refuses, or never answers; both are told within half a second.
//!
//! Next: `message` for what a datagram says, `scan` for what makes good what was lost.

use super::event::ProcessEvent;
use super::message::{self, Said};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// The group that gets process events.
const GROUP: u32 = 1;
/// Room for events that we have not fetched yet: at 200 bytes of kernel memory each, some 80,000.
const ROOM_BYTES: i32 = 16 << 20;
/// How long the kernel may take to say that it will tell us.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// More than any message is long.
const DATAGRAM_BYTES: usize = 4096;
/// Datagrams fetched in one go, so that a flood of them can't keep the caller from its other work.
const BATCH_MAX: usize = 4096;

/// A socket that gets process events.
#[derive(Debug)]
pub(super) struct Connector(File);

impl Connector {
    /// Asks the kernel for events. `Err`: why it will not tell.
    pub(super) fn open() -> Result<Connector, String> {
        let failed = |what: &str| format!("{what}: {}", io::Error::last_os_error());
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes plain values and returns a new descriptor.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR) };
        if descriptor == -1 {
            return Err(failed("the kernel has no process events here"));
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let connector = Connector(unsafe { File::from_raw_fd(descriptor) });
        if !connector.make_room(libc::SO_RCVBUFFORCE) {
            connector.make_room(libc::SO_RCVBUF);
        }
        if !connector.join() {
            return Err(failed("joining the kernel's process events"));
        }
        let wish = message::listen(std::process::id());
        (&connector.0).write_all(&wish).map_err(|error| format!("asking for process events: {error}"))?;
        connector.wait_for_answer()?;
        Ok(connector)
    }

    fn make_room(&self, option: libc::c_int) -> bool {
        let size = ROOM_BYTES;
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `size` outlives the call and is as long as said.
        unsafe { libc::setsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const size).cast(), length) == 0 }
    }

    fn join(&self) -> bool {
        let mut address = kernel_address();
        address.nl_groups = GROUP;
        let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: `address` outlives the call and is as long as said.
        unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) == 0 }
    }

    /// Outside the first namespaces the kernel takes the wish and never answers.
    fn wait_for_answer(&self) -> Result<(), String> {
        let deadline_ns = crate::sys::monotonic_ns() + ANSWER_LIMIT.as_nanos() as u64;
        loop {
            let now_ns = crate::sys::monotonic_ns();
            if now_ns >= deadline_ns {
                return Err("the kernel does not answer; this is not its first pid namespace".to_string());
            }
            self.wait(Duration::from_nanos(deadline_ns - now_ns));
            match self.receive() {
                Ok(Some(said)) => {
                    for answer in said {
                        match answer {
                            Said::Answer(0) => return Ok(()),
                            Said::Answer(error) => {
                                return Err(format!("refused: {}", io::Error::from_raw_os_error(error.abs())));
                            }
                            Said::Event(_) | Said::Other => {}
                        }
                    }
                }
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Waits until something has come, a signal came, or the time is over.
    pub(super) fn wait(&self, limit: Duration) {
        let mut watched = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        // SAFETY: the one element and the time outlive the call; why it returned shows when messages are fetched.
        unsafe { libc::ppoll(&raw mut watched, 1, &raw const limit, std::ptr::null()) };
    }

    /// The events that have come; the flag says if the kernel had to drop something.
    pub(super) fn fetch(&self) -> io::Result<(Vec<ProcessEvent>, bool)> {
        let (mut events, mut lost) = (Vec::new(), false);
        for _ in 0..BATCH_MAX {
            match self.receive() {
                Ok(Some(said)) => events.extend(said.into_iter().filter_map(|said| match said {
                    Said::Event(event) => Some(event),
                    Said::Answer(_) | Said::Other => None,
                })),
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => lost = true,
                Err(error) => return Err(error),
            }
        }
        Ok((events, lost))
    }

    /// One datagram of the kernel's; `None` if there is none.
    fn receive(&self) -> io::Result<Option<Vec<Said>>> {
        let mut bytes = [0u8; DATAGRAM_BYTES];
        let mut from = kernel_address();
        let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        let (to, address) = (bytes.as_mut_ptr().cast(), (&raw mut from).cast());
        // SAFETY: the kernel writes at most as many bytes as it is told to both places, which outlive the call.
        let got = unsafe { libc::recvfrom(self.0.as_raw_fd(), to, bytes.len(), 0, address, &raw mut length) };
        if got < 0 {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(None) } else { Err(error) };
        }
        // Any process may send to a netlink socket; the kernel's address is 0.
        let said = if from.nl_pid == 0 { message::parse(&bytes[..got as usize]) } else { Vec::new() };
        Ok(Some(said))
    }
}

fn kernel_address() -> libc::sockaddr_nl {
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address
}
