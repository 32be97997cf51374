//! TLS 1.3 once both ends have proved who they are: records, sealed and opened where they lie (RFC 8446, section 5).
//!
//! Nearly everything that a node sends is one short record. rustls makes the keys, in the handshake and whenever they
//! are renewed; between its buffers and back a record costs more than its cipher does, in code and memory that are cold
//! in each of many processes. Here a record is sealed into the batch that is written and opened in the bytes that were
//! read.
//!
//! Next: `seal`, which has this behind a handshake.

use crate::error::LinkError;
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::ServerConnectionData;
use rustls::{AlertDescription, ConnectionTrafficSecrets, Error, ExtractedSecrets, InvalidMessage};

/// Type, version and length in front of a record.
pub(crate) const HEADER_BYTES: usize = 5;
/// The type that all protected records have outside.
const APPLICATION_DATA: u8 = 23;
/// Types inside.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// The version that stands in each record.
const VERSION: [u8; 2] = [3, 3];
/// Most that a record holds.
const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Type and tag, and what else a cipher may add.
const SEALED_BYTES_MAX: usize = PLAIN_BYTES_MAX + 256;
/// The alert with which an end says that it has nothing more to say.
const CLOSE_NOTIFY: u8 = 0;
/// A message that says that the sender's keys are renewed from here on; its last byte asks the same of the other end.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];
/// Records under one key, half of what AES-GCM may seal (RFC 8446, section 5.5: 2^24.5).
const RECORDS_PER_KEY_MAX: u64 = 1 << 23;

/// Who makes new keys.
pub(crate) enum Keys {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

/// One direction: its key, and how many records there were under it.
struct Direction {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    sequence: u64,
}

/// A connection behind its handshake.
pub(crate) struct Records {
    read: Direction,
    write: Direction,
    keys: Keys,
    certificate: Option<CertificateDer<'static>>,
    /// The beginning of a record whose end has not come.
    partial: Vec<u8>,
    /// What is sealed already and goes first: the handshake's last words.
    first: Vec<u8>,
    /// The other end wants new keys of this one too.
    owes_keys: bool,
}

impl Keys {
    fn renew_read(&mut self) -> Result<Direction, Error> {
        let (sequence, secrets) = match self {
            Keys::Client(keys) => keys.update_rx_secret()?,
            Keys::Server(keys) => keys.update_rx_secret()?,
        };
        Direction::new(sequence, secrets)
    }

    fn renew_write(&mut self) -> Result<Direction, Error> {
        let (sequence, secrets) = match self {
            Keys::Client(keys) => keys.update_tx_secret()?,
            Keys::Server(keys) => keys.update_tx_secret()?,
        };
        Direction::new(sequence, secrets)
    }
}

impl Direction {
    fn new(sequence: u64, secrets: ConnectionTrafficSecrets) -> Result<Self, Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher that is not known here".to_owned())),
        };
        let wrong = || Error::General("a key of another length than its cipher's".to_owned());
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| wrong())?;
        let iv = iv.as_ref().try_into().map_err(|_| wrong())?;
        Ok(Direction { key: LessSafeKey::new(key), iv, sequence })
    }

    /// The number that is used once: the record's, mixed with the direction's own (RFC 8446, section 5.3).
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[aead::NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Appends a record of one type.
    fn put(&mut self, kind: u8, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        let body_bytes = plain.len() + 1 + aead::MAX_TAG_LEN;
        let [high, low] = (body_bytes as u16).to_be_bytes();
        let header = [APPLICATION_DATA, VERSION[0], VERSION[1], high, low];
        let start = out.len() + HEADER_BYTES;
        out.reserve(HEADER_BYTES + body_bytes);
        out.extend_from_slice(&header);
        out.extend_from_slice(plain);
        out.push(kind);
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[start..]);
        let tag = tag.map_err(|_| Error::EncryptError)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// What a record held, of which type.
    fn open<'a>(&mut self, header: [u8; HEADER_BYTES], body: &'a mut [u8]) -> Result<(u8, &'a [u8]), LinkError> {
        let nonce = self.nonce();
        let plain = self.key.open_in_place(nonce, Aad::from(header), body).map_err(|_| Error::DecryptError)?;
        // Behind the type there may be zeros, so that nobody sees how long the rest is.
        let Some(last) = plain.iter().rposition(|byte| *byte != 0) else {
            return Err(Error::PeerMisbehaved(rustls::PeerMisbehaved::IllegalTlsInnerPlaintext).into());
        };
        let kind = plain[last];
        let plain: &'a [u8] = plain;
        if last > PLAIN_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord.into());
        }
        Ok((kind, &plain[..last]))
    }
}

/// How long the record is that begins here, with its header; none if that is not all there.
pub(crate) fn record_bytes(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let body_bytes = usize::from(u16::from_be_bytes([high, low]));
    if body_bytes > SEALED_BYTES_MAX {
        return Err(Error::PeerSentOversizedRecord);
    }
    Ok(Some(HEADER_BYTES + body_bytes))
}

/// True if what begins here may be a record of a handshake: any type and any version of TLS.
pub(crate) fn is_of_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=APPLICATION_DATA, 3, ..])
}

impl Records {
    /// Behind a handshake that has just ended.
    pub(crate) fn new(
        secrets: ExtractedSecrets,
        keys: Keys,
        certificate: Option<CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let ExtractedSecrets { tx, rx } = secrets;
        let (read, write) = (Direction::new(rx.0, rx.1)?, Direction::new(tx.0, tx.1)?);
        let (partial, first) = (Vec::new(), Vec::new());
        Ok(Records { read, write, keys, certificate, partial, first, owes_keys: false })
    }

    /// Bytes of the connection that go before all others.
    pub(crate) fn say_first(&mut self, bytes: Vec<u8>) {
        self.first = bytes;
    }

    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()
    }

    /// Takes bytes of the connection, which are opened where they lie, and hands over those of the protocol.
    pub(crate) fn open(
        &mut self,
        bytes: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        if self.partial.is_empty() {
            let opened = self.open_whole(bytes, &mut take)?;
            self.partial.extend_from_slice(&bytes[opened..]);
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let opened = self.open_whole(&mut all, &mut take)?;
        if opened < all.len() {
            all.drain(..opened);
            self.partial = all;
        }
        Ok(())
    }

    /// Opens the records that are all there; how many bytes they were.
    fn open_whole(
        &mut self,
        bytes: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), LinkError>,
    ) -> Result<usize, LinkError> {
        let mut at = 0;
        while let Some(byte_count) = record_bytes(&bytes[at..])?
            && let Some(record) = bytes.get_mut(at..at + byte_count)
        {
            at += byte_count;
            let Some((header, body)) = record.split_first_chunk_mut() else { break };
            if header[0] != APPLICATION_DATA || header[1..3] != VERSION {
                return Err(Error::InvalidMessage(InvalidMessage::InvalidContentType).into());
            }
            match self.read.open(*header, body)? {
                (APPLICATION_DATA, []) => {}
                (APPLICATION_DATA, plain) => take(plain)?,
                (kind, message) => self.heard(kind, message)?,
            }
        }
        Ok(at)
    }

    /// What TLS says for itself.
    #[cold]
    fn heard(&mut self, kind: u8, message: &[u8]) -> Result<(), LinkError> {
        match (kind, message) {
            (HANDSHAKE, [begin @ .., asks @ (0 | 1)]) if begin == KEY_UPDATE => {
                self.read = self.keys.renew_read()?;
                self.owes_keys |= *asks == 1;
                Ok(())
            }
            (ALERT, [_, CLOSE_NOTIFY]) => Err(LinkError::Closed),
            (ALERT, [_, alert]) => Err(Error::AlertReceived(AlertDescription::from(*alert)).into()),
            _ => Err(Error::InvalidMessage(InvalidMessage::UnexpectedMessage("none behind a handshake")).into()),
        }
    }

    /// Turns bytes of the protocol into bytes of the connection.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.put_pending(out)?;
        for part in plain.chunks(PLAIN_BYTES_MAX) {
            if self.write.sequence >= RECORDS_PER_KEY_MAX {
                self.put_new_keys(out)?;
            }
            self.write.put(APPLICATION_DATA, part, out)?;
        }
        Ok(())
    }

    /// True if TLS itself has something to say.
    pub(crate) fn is_pending(&self) -> bool {
        self.owes_keys || !self.first.is_empty()
    }

    /// What TLS itself has to say.
    pub(crate) fn put_pending(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        if !self.first.is_empty() {
            out.append(&mut std::mem::take(&mut self.first));
        }
        if self.owes_keys {
            self.put_new_keys(out)?;
        }
        Ok(())
    }

    /// The last record under the old key says that it is.
    #[cold]
    pub(crate) fn put_new_keys(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let [kind, length @ ..] = KEY_UPDATE;
        let asks_nothing = 0;
        let message = [kind, length[0], length[1], length[2], asks_nothing];
        self.write.put(HANDSHAKE, &message, out)?;
        self.write = self.keys.renew_write()?;
        self.owes_keys = false;
        Ok(())
    }

    /// Other keys for what is said, which the other end isn't told.
    pub(crate) fn renew_write(&mut self) -> Result<(), Error> {
        self.write = self.keys.renew_write()?;
        self.first.clear();
        self.owes_keys = false;
        Ok(())
    }

    /// Other keys for what is heard, as if nothing had come yet.
    pub(crate) fn renew_read(&mut self) -> Result<(), Error> {
        self.read = self.keys.renew_read()?;
        self.partial.clear();
        Ok(())
    }

    /// How many bytes are kept of a record whose end has not come.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::{contact, greeted, nodes as two_nodes, records as records_of};
    use crate::seal::Seal;
    use crate::{Credentials, ends};
    use rustls::{ClientConnection, Connection, ServerConnection};
    use std::io::{Read, Write};
    use trimtab_overlay::NodeId;

    fn nodes() -> [Credentials; 2] {
        two_nodes().unwrap()
    }

    /// Gives one end what the other one sent, in pieces.
    fn hear(end: &mut Seal, bytes: &[u8], piece_bytes: usize) -> Result<Vec<u8>, LinkError> {
        let mut heard = Vec::new();
        ends::hear(end, &mut bytes.to_vec(), piece_bytes, &mut heard).map(|()| heard)
    }

    fn sealed(end: &mut Seal, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        end.seal(plain, &mut out).unwrap();
        out
    }

    fn pending(end: &mut Seal) -> Vec<u8> {
        let mut out = Vec::new();
        end.put_pending(&mut out).unwrap();
        out
    }

    fn connection(piece_bytes: usize) -> [Seal; 2] {
        let [root, leaf] = nodes();
        let ends = greeted(&root, &leaf, piece_bytes).unwrap();
        assert!(ends.iter().all(|end| end.certificate().is_some()));
        ends
    }

    fn records(end: &mut Seal) -> &mut Records {
        records_of(end).unwrap()
    }

    /// What one end of rustls's own has heard, after it was given what was sent.
    fn hear_theirs(end: &mut Connection, mut bytes: &[u8]) -> Vec<u8> {
        let mut heard = vec![0; 1 << 20];
        let mut count = 0;
        while !bytes.is_empty() {
            end.read_tls(&mut bytes).unwrap();
            end.process_new_packets().unwrap();
            count += end.reader().read(&mut heard[count..]).unwrap_or(0);
        }
        heard.truncate(count);
        heard
    }

    fn say_theirs(end: &mut Connection, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        end.writer().write_all(plain).unwrap();
        while end.wants_write() {
            end.write_tls(&mut out).unwrap();
        }
        out
    }

    #[test]
    fn what_is_sealed_is_opened_however_it_is_cut() {
        for piece_bytes in [1, 2, 5, 22, 1000, usize::MAX] {
            let [mut one, mut other] = connection(piece_bytes);
            for length in [1, 40, PLAIN_BYTES_MAX - 1, PLAIN_BYTES_MAX, PLAIN_BYTES_MAX + 1, 100_000] {
                let plain: Vec<u8> = (0..length).map(|index| index as u8).collect();
                let bytes = [sealed(&mut one, &plain), sealed(&mut one, b"!")].concat();
                assert_eq!(hear(&mut other, &bytes, piece_bytes).unwrap(), [&plain[..], b"!"].concat());
                assert!(records(&mut other).partial.is_empty());
            }
            assert!(sealed(&mut one, b"").is_empty());
        }
    }

    #[test]
    fn rustls_s_own_records_are_the_same() {
        let [root, leaf] = nodes();
        let (mut ours, server) = (Seal::tls(leaf.dial(NodeId(0), &contact()).unwrap()), root.configs().1);
        let mut theirs: Connection = ServerConnection::new(server).unwrap().into();
        hear_theirs(&mut theirs, &sealed(&mut ours, b"hello"));
        hear(&mut ours, &say_theirs(&mut theirs, b""), usize::MAX).unwrap();
        assert_eq!(hear_theirs(&mut theirs, &pending(&mut ours)), b"hello");
        goes_on(&mut ours, &mut theirs);

        let mut ours = Seal::tls(root.answer().unwrap());
        let name = "n0.trimtab.internal".try_into().unwrap();
        let mut theirs: Connection = ClientConnection::new(leaf.configs().0, name).unwrap().into();
        hear(&mut ours, &say_theirs(&mut theirs, b""), usize::MAX).unwrap();
        hear_theirs(&mut theirs, &pending(&mut ours));
        assert_eq!(hear(&mut ours, &say_theirs(&mut theirs, b"hello"), 7).unwrap(), b"hello");
        goes_on(&mut ours, &mut theirs);
    }

    /// Both directions, before and after either end has renewed its keys; then the other end says that it is over.
    fn goes_on(ours: &mut Seal, theirs: &mut Connection) {
        for round in 0..4 {
            let plain = vec![round; 40_000];
            assert_eq!(hear_theirs(theirs, &sealed(ours, &plain)), plain);
            assert_eq!(hear(ours, &say_theirs(theirs, &plain), 999).unwrap(), plain);
            match round {
                0 => theirs.refresh_traffic_keys().unwrap(),
                1 => {
                    let mut out = Vec::new();
                    records(ours).put_new_keys(&mut out).unwrap();
                    assert_eq!(hear_theirs(theirs, &out), b"");
                }
                _ => {}
            }
        }
        theirs.send_close_notify();
        assert!(matches!(hear(ours, &say_theirs(theirs, b""), 999), Err(LinkError::Closed)));
    }

    #[test]
    fn keys_that_the_other_end_asks_for_are_renewed_once() {
        let [mut one, mut other] = connection(usize::MAX);
        let mut out = Vec::new();
        let asking = records(&mut one);
        asking.write.put(HANDSHAKE, &[24, 0, 0, 1, 1], &mut out).unwrap();
        asking.write = asking.keys.renew_write().unwrap();
        assert_eq!(hear(&mut other, &out, 3).unwrap(), b"");
        assert!(other.is_pending());
        let answer = [pending(&mut other), sealed(&mut other, b"new")].concat();
        assert!(!other.is_pending());
        assert_eq!(hear(&mut one, &answer, 3).unwrap(), b"new");
        assert!(!one.is_pending(), "an answer asks for nothing");
        assert_eq!(hear(&mut other, &sealed(&mut one, b"newer"), 3).unwrap(), b"newer");
    }

    #[test]
    fn a_key_seals_so_many_records_and_no_more() {
        let [mut one, mut other] = connection(usize::MAX);
        for direction in [&mut records(&mut one).write, &mut records(&mut other).read] {
            direction.sequence = RECORDS_PER_KEY_MAX - 1;
        }
        for byte in 0..3_u8 {
            assert_eq!(hear(&mut other, &sealed(&mut one, &[byte]), usize::MAX).unwrap(), [byte]);
        }
        assert_eq!([records(&mut one).write.sequence, records(&mut other).read.sequence], [2, 2]);
    }

    #[test]
    fn whatever_is_changed_on_the_way_is_refused() {
        let good = {
            let [mut one, _] = connection(usize::MAX);
            sealed(&mut one, b"a command")
        };
        for at in 0..good.len() {
            let [mut one, mut other] = connection(usize::MAX);
            let mut bytes = sealed(&mut one, b"a command");
            bytes[at] ^= 1;
            // A length that is too long waits for the rest of what is then no record.
            let heard = hear(&mut other, &bytes, usize::MAX);
            assert!(matches!(heard, Err(LinkError::Tls(_))) || heard.is_ok_and(|heard| heard.is_empty()), "{at}");
            let more = sealed(&mut one, &[0; 700]);
            assert!(at != HEADER_BYTES - 1 || hear(&mut other, &more, 9).is_err());
        }
    }

    #[test]
    fn repeated_left_out_and_foreign_records_are_refused() {
        type Spoil = fn(&mut Seal) -> Vec<u8>;
        let rows: [(&str, Spoil); 7] = [
            ("twice", |one| sealed(one, b"a").repeat(2)),
            ("left out", |one| {
                let _lost = sealed(one, b"a");
                sealed(one, b"b")
            }),
            ("plain", |_| [&[APPLICATION_DATA, 3, 3, 0, 20][..], &[0; 20]].concat()),
            ("too long", |_| vec![APPLICATION_DATA, 3, 3, 0xff, 0xff]),
            ("too short", |_| vec![APPLICATION_DATA, 3, 3, 0, 0]),
            ("no type", |one| put(one, 0, &[0; 9])),
            ("of a handshake", |one| put(one, HANDSHAKE, &[1; 5])),
        ];
        for (name, spoil) in rows {
            let [mut one, mut other] = connection(usize::MAX);
            assert!(matches!(hear(&mut other, &spoil(&mut one), 4), Err(LinkError::Tls(_))), "{name}");
        }
        let [mut one, mut other] = connection(usize::MAX);
        assert!(matches!(hear(&mut other, &put(&mut one, ALERT, &[1, CLOSE_NOTIFY]), 4), Err(LinkError::Closed)));
    }

    fn put(end: &mut Seal, kind: u8, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        records(end).write.put(kind, message, &mut out).unwrap();
        out
    }
}
