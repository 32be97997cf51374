//! Where nodes are found: a TCP address or a path of a Unix socket.
//!
//! Addresses are numbers, so that no name service is asked while a tree is being built.
//!
//! Next: `listener` and `socket` for both ends of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A path on this host.
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: write tcp:127.0.0.1:4711 or unix:/run/user/1000/trimtab")]
pub struct BadAddress {
    /// The text.
    pub text: String,
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
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let wrong = || BadAddress { text: text.to_owned() };
        match text.split_once(':').ok_or_else(wrong)? {
            ("tcp", address) => address.parse().map(Address::Tcp).map_err(|_| wrong()),
            ("unix", path) if path.starts_with('/') => Ok(Address::Unix(PathBuf::from(path))),
            _ => Err(wrong()),
        }
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
