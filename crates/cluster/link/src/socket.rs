//! The connections of nodes: TCP with mutual TLS, or a Unix socket whose other end's user the kernel names.
//!
//! Next: `greet` for the first messages, `link` for the task that reads and writes a connection.

use crate::address::Address;
use crate::error::LinkError;
use crate::limits::{BATCH_BYTES, GREETING_BYTES_MAX};
use crate::listener::{Kind, Listener, tcp_socket};
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;
use trimtab_os::{Peer, peer_of};

thread_local! {
    /// The bytes of one read, for all connections of the thread: a connection at rest has no buffer.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; BATCH_BYTES]);
}

/// A connection before TLS.
pub(crate) enum Socket {
    Tcp(Bounded<TcpStream>),
    /// With the user of the process at the other end.
    Unix(Bounded<UnixStream>, u32),
}

/// A connection over which messages go.
pub(crate) enum Stream {
    Tls(Box<TlsStream<Bounded<TcpStream>>>),
    Unix(Bounded<UnixStream>),
}

/// A socket that fails once more bytes came than the other end may send before it has said who it is.
pub(crate) struct Bounded<S> {
    socket: S,
    /// `None`: the other end is known.
    left_bytes: Option<usize>,
}

impl Socket {
    /// Calls an address.
    pub(crate) async fn connect(address: &Address) -> Result<Socket, LinkError> {
        match address {
            Address::Tcp(to) => Socket::of_tcp(tcp_socket(*to)?.connect(*to).await?),
            Address::Unix(path) => Ok(Socket::of_unix(UnixStream::connect(path).await?)?.0),
        }
    }

    /// The next connection of a listener, with a name of its other end for messages.
    pub(crate) async fn accept(listener: &Listener) -> Result<(Socket, String), LinkError> {
        match &listener.kind {
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Socket::of_tcp(stream)?, format!("tcp:{from}")))
            }
            Kind::Unix(listener) => Socket::of_unix(listener.accept().await?.0),
        }
    }

    fn of_tcp(stream: TcpStream) -> Result<Socket, LinkError> {
        stream.set_nodelay(true)?;
        Ok(Socket::Tcp(Bounded::new(stream)))
    }

    fn of_unix(stream: UnixStream) -> Result<(Socket, String), LinkError> {
        let Peer { user, process } = peer_of(stream.as_fd())?;
        let process = process.map_or("a process of another namespace".into(), |pid| format!("process {pid}"));
        Ok((Socket::Unix(Bounded::new(stream), user), format!("{process} of user {user}")))
    }
}

impl Stream {
    /// Reads once and hands over the bytes; none at the connection's end.
    pub(crate) fn poll_take<R>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<Result<R, LinkError>> {
        READ.with_borrow_mut(|room| {
            let mut bytes = ReadBuf::new(room);
            let read = match self {
                Stream::Tls(stream) => Pin::new(stream).poll_read(context, &mut bytes),
                Stream::Unix(stream) => Pin::new(stream).poll_read(context, &mut bytes),
            };
            ready!(read).map_err(LinkError::of_stream)?;
            Poll::Ready(Ok(take(bytes.filled())))
        })
    }

    /// Writes some bytes.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, LinkError>> {
        let written = match self {
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        written.map_err(LinkError::of_stream)
    }

    /// Hands all that was written to the kernel.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        let flushed = match self {
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        };
        flushed.map_err(LinkError::of_stream)
    }

    /// Tells the other end that nothing more comes.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        let shut = match self {
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        };
        shut.map_err(LinkError::of_stream)
    }

    /// Writes all bytes and hands them to the kernel.
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), LinkError> {
        while !bytes.is_empty() {
            let count = std::future::poll_fn(|context| self.poll_write(context, bytes)).await?;
            bytes = &bytes[count..];
        }
        std::future::poll_fn(|context| self.poll_flush(context)).await
    }

    /// The other end has said who it is, and may send as much as it likes.
    pub(crate) fn lift_bound(&mut self) {
        match self {
            Stream::Tls(stream) => stream.get_mut().0.left_bytes = None,
            Stream::Unix(stream) => stream.left_bytes = None,
        }
    }

    /// The other end's own certificate; `None` at a Unix socket.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Stream::Tls(stream) => stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()),
            Stream::Unix(_) => None,
        }
    }
}

impl<S> Bounded<S> {
    fn new(socket: S) -> Self {
        Bounded { socket, left_bytes: Some(GREETING_BYTES_MAX) }
    }

    fn count(&mut self, byte_count: usize) -> io::Result<()> {
        let Some(left_bytes) = &mut self.left_bytes else { return Ok(()) };
        *left_bytes = left_bytes
            .checked_sub(byte_count)
            .ok_or_else(|| io::Error::other(LinkError::TooMuch { byte_count: GREETING_BYTES_MAX }))?;
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = bytes.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, bytes))?;
        Poll::Ready(self.count(bytes.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn an_end_that_is_not_known_may_send_only_so_much() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for (left_bytes, is_refused) in [(Some(GREETING_BYTES_MAX), true), (None, false)] {
                let (mut far, near) = tokio::io::duplex(2 * GREETING_BYTES_MAX);
                let mut near = Bounded { socket: near, left_bytes };
                let mut bytes = vec![0; GREETING_BYTES_MAX];
                far.write_all(&bytes).await.unwrap();
                near.read_exact(&mut bytes).await.unwrap();
                far.write_all(&[1]).await.unwrap();
                let more = near.read_u8().await.map_err(LinkError::of_stream);
                assert_eq!(matches!(more, Err(LinkError::TooMuch { .. })), is_refused, "{more:?}");
            }
        });
    }
}
