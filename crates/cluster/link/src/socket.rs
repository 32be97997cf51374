//! Connections as the driver sees them: a half to read and a half to write, whatever is behind.
//!
//! Reading belongs to the connection's own task. Writing belongs to the node's driver, which tries whenever something
//! has gathered and is woken when a full connection takes more.
//!
//! Next: `greet` for what is said first, `link` for what is written.

use crate::address::{Address, Kind, Listener};
use crate::error::LinkError;
use crate::limits::{BATCH_BYTES, SOCKET_BYTES};
use rustix::net::RecvFlags;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream, tcp, unix};

thread_local! {
    /// What was just read, for all connections of the thread.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; BATCH_BYTES]);
}

/// The half of a connection that is written to.
pub trait WriteHalf: Send + Sync {
    /// Writes what the kernel takes now.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing; anything else ends the connection.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether trying makes sense now; if not, the task is woken when it does.
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads what is there now, past the runtime, which finds later that there is nothing.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing; anything else is for the half that is read from to find.
    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Ends the connection in both directions, which the reader sees as its end.
    fn close(&self);
}

/// The half that is read from.
pub type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;

/// A connection.
pub struct Socket {
    /// To read from.
    pub read: ReadHalf,
    /// To write to.
    pub write: Box<dyn WriteHalf>,
    /// The user at the other end, where the kernel knows.
    pub user: Option<u32>,
    /// Who it is as far as the kernel knows, for messages.
    pub name: String,
}

impl Socket {
    /// Calls an address.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn connect(address: &Address) -> Result<Socket, LinkError> {
        match address {
            Address::Tcp(to) => {
                let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_send_buffer_size(SOCKET_BYTES)?;
                socket.set_recv_buffer_size(SOCKET_BYTES)?;
                Socket::of_tcp(socket.connect(*to).await?, *to)
            }
            Address::Unix(path) => Socket::of_unix(UnixStream::connect(path).await?),
        }
    }

    /// The next connection of a listener.
    pub(crate) async fn accept(listener: &Listener) -> Result<Socket, LinkError> {
        match &listener.kind {
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Socket::of_tcp(stream, from)
            }
            Kind::Unix(listener) => Socket::of_unix(listener.accept().await?.0),
        }
    }

    fn of_tcp(stream: TcpStream, peer: SocketAddr) -> Result<Socket, LinkError> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let name = format!("tcp:{peer}");
        Ok(Socket { read: Box::new(read), write: Box::new(write), user: None, name })
    }

    fn of_unix(stream: UnixStream) -> Result<Socket, LinkError> {
        let peer = stream.peer_cred()?;
        let (read, write) = stream.into_split();
        let name = format!("process {} of user {}", peer.pid().unwrap_or(0), peer.uid());
        Ok(Socket { read: Box::new(read), write: Box::new(write), user: Some(peer.uid()), name })
    }
}

impl WriteHalf for tcp::OwnedWriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        tcp::OwnedWriteHalf::try_write(self, bytes)
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.as_ref().poll_write_ready(context)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.as_ref(), bytes, RecvFlags::DONTWAIT)?.0)
    }

    fn close(&self) {
        // An error means that it is closed already.
        let _closed = rustix::net::shutdown(self.as_ref(), rustix::net::Shutdown::Both);
    }
}

impl WriteHalf for unix::OwnedWriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        unix::OwnedWriteHalf::try_write(self, bytes)
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.as_ref().poll_write_ready(context)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.as_ref(), bytes, RecvFlags::DONTWAIT)?.0)
    }

    fn close(&self) {
        // An error means that it is closed already.
        let _closed = rustix::net::shutdown(self.as_ref(), rustix::net::Shutdown::Both);
    }
}

/// Reads what is there and hands it over, to be overwritten, at least a byte; nothing at the end. No connection has a buffer of its own.
pub(crate) fn poll_read<R>(
    read: &mut ReadHalf,
    context: &mut Context<'_>,
    take: impl FnOnce(&mut [u8]) -> R,
) -> Poll<io::Result<R>> {
    READ.with_borrow_mut(|bytes| {
        let mut buffer = ReadBuf::new(bytes);
        ready!(Pin::new(read).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(take(buffer.filled_mut())))
    })
}

/// Writes everything.
pub(crate) async fn write_all(write: &dyn WriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::future::poll_fn(|context| write.poll_write_ready(context)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
