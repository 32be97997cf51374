//! What lies between a connection's bytes and the protocol's: TLS, or nothing at a Unix socket by its path. No socket here.
//!
//! Next: `credentials` for who is trusted, `records` for TLS behind its handshake, `greet` and `link`, which use it.

use crate::error::LinkError;
use crate::records::{Keys, Records, is_of_handshake, record_bytes};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, Error};

/// One connection's cipher, or none.
pub(crate) enum Seal {
    /// The kernel knows who is there.
    Plain,
    /// Mutual TLS, while both ends prove who they are.
    Handshake(Box<Handshake>),
    /// Mutual TLS; they have.
    Tls(Box<Records>),
}

/// Either end of a handshake.
pub(crate) enum End {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// A handshake, and what waits for its end.
pub(crate) struct Handshake {
    /// None once it has ended.
    end: Option<End>,
    incoming: Vec<u8>,
    /// How much of it TLS has seen: record by record, so that what comes behind the handshake isn't among it.
    seen_bytes: usize,
    outgoing: Vec<u8>,
    /// Bytes of the protocol.
    plain: Vec<u8>,
}

/// What a step of a handshake came to.
enum Step {
    /// There is more to do with what is there.
    Again,
    /// The other end has to say something.
    Waits,
    /// Both have proved who they are.
    Done,
}

impl Seal {
    /// TLS, at the beginning of a connection.
    pub(crate) fn tls(end: End) -> Self {
        let (incoming, outgoing, plain) = (Vec::new(), Vec::new(), Vec::new());
        Seal::Handshake(Box::new(Handshake { end: Some(end), incoming, seen_bytes: 0, outgoing, plain }))
    }

    /// Takes bytes of the connection, which it may overwrite, and hands over those of the protocol.
    pub(crate) fn open(
        &mut self,
        bytes: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        match self {
            Seal::Plain => take(bytes),
            Seal::Tls(records) => records.open(bytes, take),
            Seal::Handshake(handshake) => {
                handshake.incoming.extend_from_slice(bytes);
                let Some((mut records, mut rest)) = handshake.advance()? else { return Ok(()) };
                let opened = records.open(&mut rest, take);
                *self = Seal::Tls(Box::new(records));
                opened
            }
        }
    }

    /// Turns bytes of the protocol into bytes of the connection; during a handshake they wait for its end.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        match self {
            Seal::Plain => out.extend_from_slice(plain),
            Seal::Tls(records) => records.seal(plain, out)?,
            Seal::Handshake(handshake) => {
                handshake.plain.extend_from_slice(plain);
                // It ends with what the other end says, never with what this one does.
                let _waits = handshake.advance()?;
                out.append(&mut handshake.outgoing);
            }
        }
        Ok(())
    }

    /// True if TLS itself has something to say.
    pub(crate) fn is_pending(&self) -> bool {
        match self {
            Seal::Plain => false,
            Seal::Handshake(handshake) => !handshake.outgoing.is_empty(),
            Seal::Tls(records) => records.is_pending(),
        }
    }

    /// What TLS itself has to say: handshakes, new keys, and why it refuses somebody.
    pub(crate) fn put_pending(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        match self {
            Seal::Plain => {}
            Seal::Handshake(handshake) => out.append(&mut handshake.outgoing),
            Seal::Tls(records) => records.put_pending(out)?,
        }
        Ok(())
    }

    /// The other end's own certificate, once it has proved that it is its own.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Seal::Plain | Seal::Handshake(_) => None,
            Seal::Tls(records) => records.certificate(),
        }
    }
}

impl Handshake {
    /// Goes on with what is there; at the end, what comes after it, and the bytes of it that are there already.
    fn advance(&mut self) -> Result<Option<(Records, Vec<u8>)>, LinkError> {
        loop {
            match self.step() {
                Ok(Step::Again) => {}
                Ok(Step::Done) => return self.finish().map(Some),
                Ok(Step::Waits) if self.shows_more() => {}
                Ok(Step::Waits) => return Ok(None),
                Err(why) => {
                    // The other end is told; what it said must not be looked at again.
                    while self.wants_write() && matches!(self.step(), Ok(Step::Again)) {}
                    self.end = None;
                    return Err(why.into());
                }
            }
        }
    }

    /// Lets TLS see the next record, if it is all there; or all of what is none, so that it says why.
    fn shows_more(&mut self) -> bool {
        let unseen = &self.incoming[self.seen_bytes..];
        let byte_count = match record_bytes(unseen) {
            Ok(Some(byte_count)) if is_of_handshake(unseen) => byte_count,
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => unseen.len(),
        };
        let is_there = byte_count <= unseen.len();
        if is_there {
            self.seen_bytes += byte_count;
        }
        is_there
    }

    fn wants_write(&self) -> bool {
        match &self.end {
            Some(End::Client(end)) => end.wants_write(),
            Some(End::Server(end)) => end.wants_write(),
            None => false,
        }
    }

    fn step(&mut self) -> Result<Step, Error> {
        let Handshake { end, incoming, seen_bytes, outgoing, .. } = self;
        let seen = &mut incoming[..*seen_bytes];
        let (byte_count, step) = match end.as_mut().ok_or(Error::HandshakeNotComplete)? {
            End::Client(end) => step(end.process_tls_records(seen), outgoing),
            End::Server(end) => step(end.process_tls_records(seen), outgoing),
        };
        incoming.drain(..byte_count);
        *seen_bytes -= byte_count;
        step
    }

    fn finish(&mut self) -> Result<(Records, Vec<u8>), LinkError> {
        let mut records = match self.end.take().ok_or(Error::HandshakeNotComplete)? {
            End::Client(end) => {
                let certificate = certificate_of(&end);
                let (secrets, keys) = end.dangerous_into_kernel_connection()?;
                Records::new(secrets, Keys::Client(keys), certificate)?
            }
            End::Server(end) => {
                let certificate = certificate_of(&end);
                let (secrets, keys) = end.dangerous_into_kernel_connection()?;
                Records::new(secrets, Keys::Server(keys), certificate)?
            }
        };
        let mut first = std::mem::take(&mut self.outgoing);
        records.seal(&std::mem::take(&mut self.plain), &mut first)?;
        records.say_first(first);
        Ok((records, std::mem::take(&mut self.incoming)))
    }
}

fn certificate_of(common: &CommonState) -> Option<CertificateDer<'static>> {
    common.peer_certificates().and_then(|chain| chain.first()).map(|own| own.clone().into_owned())
}

/// How many bytes are done with, and what comes next; what is to be sent goes behind `out`.
fn step<Data>(status: UnbufferedStatus<'_, '_, Data>, out: &mut Vec<u8>) -> (usize, Result<Step, Error>) {
    let UnbufferedStatus { discard, state } = status;
    let step = match state {
        Err(why) => Err(why),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = out.len();
            let mut encoded = data.encode(&mut []);
            if let Err(EncodeError::InsufficientSize(room)) = &encoded {
                out.resize(start + room.required_size, 0);
                encoded = data.encode(&mut out[start..]);
            }
            encoded.map(|_| Step::Again).map_err(|why| Error::General(why.to_string()))
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::Waits),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Done),
        // Closed, or data of the protocol among what belongs to the handshake.
        Ok(_) => Err(Error::HandshakeNotComplete),
    };
    (discard, step)
}
