//! Where nodes are found: a TCP address or a path of a Unix socket; and listening there.
//!
//! Addresses are numbers, so that no name service is asked while a tree is being built.
//!
//! Next: `socket` for connections.

use crate::error::LinkError;
use crate::limits::{BACKLOG, SOCKET_BYTES};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A path on this host.
    Unix(PathBuf),
}

/// How an ancestor is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Where.
    pub address: Address,
    /// The host's name in a site's certificate; without one the certificate must hold the address. A job's
    /// certificates name nodes instead.
    pub host: Option<String>,
}

impl From<Address> for Contact {
    fn from(address: Address) -> Self {
        Contact { address, host: None }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp:{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let wrong = || LinkError::Address { text: text.to_owned() };
        match text.split_once(':').ok_or_else(wrong)? {
            ("tcp", address) => address.parse().map(Address::Tcp).map_err(|_| wrong()),
            ("unix", path) if path.starts_with('/') => Ok(Address::Unix(PathBuf::from(path))),
            _ => Err(wrong()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in ["tcp:127.0.0.1:4711", "tcp:[::1]:1", "unix:/run/x"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "tcp", "tcp:host:1", "tcp:1.2.3.4", "unix:relative", "http:1.2.3.4:5"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("write tcp:"), "{text}: {error}");
        }
    }
}
