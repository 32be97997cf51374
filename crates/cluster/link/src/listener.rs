//! Listening at an address for the calls of a node's children.
//!
//! Next: `socket` for connections.

use crate::address::Address;
use crate::error::LinkError;
use crate::limits::{BACKLOG, SOCKET_BYTES};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// A socket that takes the calls of a node's children. A Unix socket's file is removed with it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) kind: Kind,
    address: Address,
    _unlink: Option<Unlink>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Removes a socket's file when its listener is dropped.
#[derive(Debug)]
struct Unlink(PathBuf);

impl Drop for Unlink {
    fn drop(&mut self) {
        // The file may be gone with its folder already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens at an address on the current runtime; port 0 takes a free one. The node that gets the listener checks
    /// who calls.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(address: &Address) -> Result<Self, LinkError> {
        match address {
            Address::Tcp(address) => {
                let socket = tcp_socket(*address)?;
                socket.set_reuseaddr(true)?;
                socket.bind(*address)?;
                let listener = socket.listen(BACKLOG)?;
                let address = Address::Tcp(listener.local_addr()?);
                Ok(Listener { kind: Kind::Tcp(listener), address, _unlink: None })
            }
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let _unlink = Some(Unlink(path.clone()));
                Ok(Listener { kind: Kind::Unix(listener), address: address.clone(), _unlink })
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// A TCP socket with the buffers of all our connections. Those that a listener accepts inherit its own.
pub(crate) fn tcp_socket(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_send_buffer_size(SOCKET_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BYTES)?;
    Ok(socket)
}

/// Binds a path. A socket file that a killed node left behind refuses connections, and is replaced.
fn bind_unix(path: &Path) -> std::io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let refused = std::os::unix::net::UnixStream::connect(path).err().map(|error| error.kind());
            if refused != Some(std::io::ErrorKind::ConnectionRefused) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
}
