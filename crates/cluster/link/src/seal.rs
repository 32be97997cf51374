//! What lies between a connection's bytes and the protocol's: nothing on a Unix socket, TLS on TCP. No socket here.
//!
//! Next: `credentials` for who is trusted, `greet` and `link`, which use it.

use crate::error::LinkError;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::io::{BufRead, ErrorKind, Write};

/// One connection's cipher, or none.
pub(crate) enum Seal {
    /// The kernel knows who is there.
    Plain,
    /// Mutual TLS.
    Tls(Box<Connection>),
}

impl Seal {
    /// TLS, with its own bounds lifted: what waits is bounded before it comes here.
    pub(crate) fn tls(connection: impl Into<Connection>) -> Self {
        let mut connection = connection.into();
        connection.set_buffer_limit(None);
        Seal::Tls(Box::new(connection))
    }

    /// Takes bytes of the connection and hands over those of the protocol.
    pub(crate) fn open(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let Seal::Tls(connection) = self else { return take(bytes) };
        while !bytes.is_empty() {
            if connection.read_tls(&mut bytes)? == 0 {
                return Err(LinkError::Closed);
            }
            connection.process_new_packets()?;
            let mut reader = connection.reader();
            loop {
                match reader.fill_buf() {
                    Ok([]) => return Err(LinkError::Closed),
                    Ok(plain) => {
                        let count = plain.len();
                        take(plain)?;
                        reader.consume(count);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Turns bytes of the protocol into bytes of the connection; during a handshake they wait for its end.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        match self {
            Seal::Plain => out.extend_from_slice(plain),
            Seal::Tls(connection) => {
                connection.writer().write_all(plain)?;
                self.put_pending(out)?;
            }
        }
        Ok(())
    }

    /// Whether TLS itself has something to say.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Seal::Tls(connection) if connection.wants_write())
    }

    /// What TLS itself has to say: handshakes, new keys, and why it refuses somebody.
    pub(crate) fn put_pending(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        if let Seal::Tls(connection) = self {
            while connection.wants_write() {
                connection.write_tls(out)?;
            }
        }
        Ok(())
    }

    /// The other end's own certificate, once it has shown one.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Seal::Plain => None,
            Seal::Tls(connection) => connection.peer_certificates().and_then(|chain| chain.first()),
        }
    }
}
