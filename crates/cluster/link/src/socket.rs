//! Connections: awaited until both ends know who the other is, then files that are read and written when they are ready.
//!
//! Next: `greet` for what is said first, `events` for when a file is ready, `link` for what is written.

use crate::address::{Address, Kind, Listener};
use crate::error::LinkError;
use crate::events::watched;
use crate::limits::{BATCH_BYTES, SOCKET_BYTES};
use crate::memory::FILE_COUNT;
use crate::near::{call_near, call_unix};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, accept_with, sockopt};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage};
use rustix::net::{recvmsg, sendmsg};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpSocket;
use trimtab_os::{Peer, peer_of};
use trimtab_overlay::NodeId;

thread_local! {
    /// What was just read, for all connections of the thread.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; BATCH_BYTES]);
}

/// A connection whose ends don't know each other yet.
pub(crate) struct Socket {
    file: File,
    /// The user at the other end, where the kernel knows.
    pub(crate) user: Option<u32>,
    /// True if TLS is spoken on it.
    pub(crate) has_tls: bool,
    /// Who it is as far as the kernel knows, for messages.
    pub(crate) name: String,
    /// Files that came with what was read, if any are wanted.
    lent: Option<Vec<OwnedFd>>,
}

/// The runtime is told of a file only where there is something to wait for: what a caller says first is there already
/// when it is taken in, and all of what is said fits into the kernel's buffers.
enum File {
    Unwatched(OwnedFd),
    Watched(AsyncFd<OwnedFd>, Interest),
    /// While it changes from one to the other, and if it couldn't.
    Gone,
}

impl File {
    /// Awaits that it can be read, or written.
    async fn ready(&mut self, interest: Interest) -> io::Result<()> {
        let fd = match std::mem::replace(self, File::Gone) {
            File::Watched(file, known) if known == interest => {
                *self = File::Watched(file, known);
                None
            }
            File::Watched(file, _) => Some(file.into_inner()),
            File::Unwatched(fd) => Some(fd),
            File::Gone => return Err(io::ErrorKind::NotConnected.into()),
        };
        if let Some(fd) = fd {
            *self = File::Watched(watched(fd, interest)?, interest);
        }
        let File::Watched(file, _) = self else { return Ok(()) };
        file.ready(interest).await?.clear_ready();
        Ok(())
    }

    fn fd(&self) -> io::Result<&OwnedFd> {
        match self {
            File::Unwatched(fd) => Ok(fd),
            File::Watched(file, _) => Ok(file.get_ref()),
            File::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Socket {
    /// Calls an address.
    pub(crate) async fn connect(address: &Address) -> Result<Socket, LinkError> {
        match address {
            Address::Tcp(to) => {
                let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_send_buffer_size(SOCKET_BYTES)?;
                socket.set_recv_buffer_size(SOCKET_BYTES)?;
                Socket::of_tcp(socket.connect(*to).await?.into_std()?.into(), *to)
            }
            Address::Unix(path) => {
                Socket::of_unix(call_unix(&SocketAddrUnix::new(path).map_err(io::Error::from)?)?, false)
            }
        }
    }

    /// Calls a node that may be on this host, at the Unix socket beside its TCP address.
    pub(crate) fn connect_near(tree: u64, node: NodeId, address: SocketAddr) -> Result<Socket, LinkError> {
        Socket::of_unix(call_near(tree, node, address.port())?, true)
    }

    /// The next connection of a listener; `WouldBlock` if nobody calls.
    pub(crate) fn accept(listener: &Listener) -> Result<Socket, LinkError> {
        let accepted = match &listener.kind {
            Kind::Tcp(listener) => Socket::accept_tcp(listener),
            Kind::Unix(listener) => Socket::accept_unix(listener, false),
        };
        match (accepted, &listener.near) {
            (Err(LinkError::Io(error)), Some(near)) if is_not_now(&error) => Socket::accept_unix(near, true),
            (accepted, _) => accepted,
        }
    }

    fn accept_tcp(listener: &TcpListener) -> Result<Socket, LinkError> {
        let (stream, from) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Socket::of_tcp(stream.into(), from)
    }

    fn accept_unix(listener: &UnixListener, has_tls: bool) -> Result<Socket, LinkError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Socket::of_unix(accept_with(listener, flags).map_err(io::Error::from)?, has_tls)
    }

    fn of_tcp(fd: OwnedFd, peer: SocketAddr) -> Result<Socket, LinkError> {
        sockopt::set_tcp_nodelay(&fd, true).map_err(io::Error::from)?;
        Ok(Socket { file: File::Unwatched(fd), user: None, has_tls: true, name: format!("tcp:{peer}"), lent: None })
    }

    fn of_unix(fd: OwnedFd, has_tls: bool) -> Result<Socket, LinkError> {
        let Peer { user, process } = peer_of(fd.as_fd())?;
        let process = process.map_or("a process of another namespace".into(), |pid| format!("process {pid}"));
        let name = format!("{process} of user {user}");
        Ok(Socket { file: File::Unwatched(fd), user: Some(user), has_tls, name, lent: None })
    }

    /// Awaits what can't be there yet: to look for it first would be in vain.
    pub(crate) async fn await_answer(&mut self) -> io::Result<()> {
        self.file.ready(Interest::READABLE).await
    }

    /// Awaits bytes and hands them over, to be overwritten; none at the end.
    pub(crate) async fn read<R>(&mut self, mut take: impl FnMut(&mut [u8]) -> R) -> io::Result<R> {
        loop {
            let taken = with_buffer(|bytes| {
                let fd = self.file.fd()?;
                let count = match &mut self.lent {
                    Some(lent) => read_with_files(fd, bytes, lent)?,
                    None => read(fd, bytes)?,
                };
                Ok(take(&mut bytes[..count]))
            });
            match taken {
                Err(error) if is_not_now(&error) => self.file.ready(Interest::READABLE).await?,
                other => return other,
            }
        }
    }

    /// Writes everything.
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match write(self.file.fd()?, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_not_now(&error) => self.file.ready(Interest::WRITABLE).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes everything, and files with the first of it.
    pub(crate) async fn write_with(&mut self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            match write_with_files(self.file.fd()?, bytes, files) {
                Ok(count) => return self.write_all(&bytes[count..]).await,
                Err(error) if is_not_now(&error) => self.file.ready(Interest::WRITABLE).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// True if both ends are nodes of this host that may share memory.
    pub(crate) fn is_near(&self) -> bool {
        self.has_tls && self.user.is_some()
    }

    /// From now on files that come with what is read are kept, a few.
    pub(crate) fn wants_files(&mut self) {
        self.lent = Some(Vec::new());
    }

    /// The files that came; no more are wanted.
    pub(crate) fn lent_files(&mut self) -> Vec<OwnedFd> {
        self.lent.take().unwrap_or_default()
    }

    /// The file alone, of which the runtime knows nothing any more.
    pub(crate) fn settle(self) -> io::Result<OwnedFd> {
        match self.file {
            File::Unwatched(fd) => Ok(fd),
            File::Watched(file, _) => Ok(file.into_inner()),
            File::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// True if a file was only not ready.
pub(crate) fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Room for what is read at once. No connection has any of its own.
pub(crate) fn with_buffer<R>(read: impl FnOnce(&mut [u8]) -> R) -> R {
    READ.with_borrow_mut(|bytes| read(bytes))
}

/// Reads what is there now; `WouldBlock` when there is nothing.
pub(crate) fn read(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, bytes, RecvFlags::DONTWAIT)?.0)
}

/// Writes what the kernel takes now; `WouldBlock` when it takes nothing.
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

fn read_with_files(socket: &OwnedFd, bytes: &mut [u8], lent: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILE_COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let count = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            lent.extend(files);
        }
    }
    lent.truncate(FILE_COUNT);
    Ok(count)
}

fn write_with_files(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILE_COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// True if it is a Unix socket.
pub(crate) fn is_unix(socket: &OwnedFd) -> bool {
    rustix::net::getsockname(socket).is_ok_and(|own| own.address_family() == AddressFamily::UNIX)
}

/// Ends a connection in both directions, which the other end sees at once.
pub(crate) fn close(socket: &OwnedFd) {
    // An error means that it is closed already.
    let _closed = rustix::net::shutdown(socket, Shutdown::Both);
}
