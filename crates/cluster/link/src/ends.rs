//! Two ends of a connection without a socket between them: for the fuzzer and for tests, which hold its bytes in their
//! hands and can do to them what somebody on the network can.
//!
//! Next: `records`, whose bytes these are, `seal` for the handshake before them.

use crate::error::LinkError;
use crate::records::Records;
use crate::seal::Seal;
use crate::{Address, Contact, Credentials, JobSecret};
use trimtab_overlay::NodeId;

/// What the end that called says first, and what it hears then.
const HELLO: &[u8] = b"hello";
const ANSWER: &[u8] = b"answer";

/// One end that speaks and one that hears, each with its own keys.
pub struct Ends {
    speaks: Seal,
    hears: Seal,
    answering: Credentials,
}

impl Ends {
    /// Of two nodes of a job, who have proved to each other who they are.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> Result<Ends, LinkError> {
        let [answering, calling] = nodes()?;
        let [speaks, hears] = greeted(&answering, &calling, usize::MAX)?;
        Ok(Ends { speaks, hears, answering })
    }

    /// Puts the bytes of the connection behind `out` that say `plain`.
    ///
    /// # Errors
    /// When a cipher fails.
    pub fn say(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.speaks.seal(plain, out)
    }

    /// Says that the speaking end's keys are others from here on.
    ///
    /// # Errors
    /// When a cipher fails.
    pub fn say_new_keys(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        records(&mut self.speaks)?.put_new_keys(out)
    }

    /// Gives the hearing end bytes of the connection in pieces, which it overwrites; what they said goes behind `heard`.
    ///
    /// # Errors
    /// What the connection would end with.
    pub fn hear(&mut self, bytes: &mut [u8], piece_bytes: usize, heard: &mut Vec<u8>) -> Result<(), LinkError> {
        hear(&mut self.hears, bytes, piece_bytes, heard)
    }

    /// How many bytes of the connection the hearing end keeps, of a record that is not all there.
    pub fn kept_bytes(&mut self) -> usize {
        records(&mut self.hears).map_or(0, |records| records.partial_bytes())
    }

    /// Goes on as on a new connection, also when the last one has ended.
    ///
    /// # Errors
    /// As [`Ends::new`].
    pub fn begin_anew(&mut self) -> Result<(), LinkError> {
        records(&mut self.speaks)?.renew_write()?;
        records(&mut self.hears)?.renew_read()?;
        let (mut bytes, mut heard) = (Vec::new(), Vec::new());
        self.say(HELLO, &mut bytes)?;
        // Keys that one end alone had renewed are others now.
        if self.hear(&mut bytes, usize::MAX, &mut heard).is_err() {
            *self = Ends::new()?;
        }
        Ok(())
    }

    /// Gives bytes to an end that somebody has called who may be anybody; what they said, and how long the answer is,
    /// in bytes.
    ///
    /// # Errors
    /// What the connection would end with.
    pub fn call(&self, bytes: &mut [u8], piece_bytes: usize) -> Result<(Vec<u8>, usize), LinkError> {
        let (mut called, mut heard, mut answer) = (Seal::tls(self.answering.answer()?), Vec::new(), Vec::new());
        hear(&mut called, bytes, piece_bytes, &mut heard)?;
        called.put_pending(&mut answer)?;
        Ok((heard, answer.len()))
    }

    /// How a node of the same job begins to call.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn first_call() -> Result<Vec<u8>, LinkError> {
        let [_, calling] = nodes()?;
        let mut bytes = Vec::new();
        Seal::tls(calling.dial(NodeId::ROOT, &contact())?).seal(HELLO, &mut bytes)?;
        Ok(bytes)
    }
}

/// Two nodes of a job.
pub(crate) fn nodes() -> Result<[Credentials; 2], LinkError> {
    let secret = JobSecret::new()?;
    Ok([Credentials::of_job(&secret, NodeId::ROOT)?, Credentials::of_job(&secret, NodeId(1))?])
}

/// Somewhere that is only named.
pub(crate) fn contact() -> Contact {
    Address::Tcp(([127, 0, 0, 1], 1).into()).into()
}

/// The end that called and the one that answered, when both have said something that the other one has heard.
pub(crate) fn greeted(
    answering: &Credentials,
    calling: &Credentials,
    piece_bytes: usize,
) -> Result<[Seal; 2], LinkError> {
    let mut called = Seal::tls(answering.answer()?);
    let mut caller = Seal::tls(calling.dial(NodeId::ROOT, &contact())?);
    let (mut heard, mut to_called) = (Vec::new(), Vec::new());
    caller.seal(HELLO, &mut to_called)?;
    while heard != HELLO {
        if to_called.is_empty() {
            return Err(LinkError::Closed);
        }
        hear(&mut called, &mut to_called, piece_bytes, &mut heard)?;
        let mut to_caller = Vec::new();
        called.put_pending(&mut to_caller)?;
        hear(&mut caller, &mut to_caller, piece_bytes, &mut Vec::new())?;
        to_called.clear();
        caller.put_pending(&mut to_called)?;
    }
    let (mut heard, mut answer) = (Vec::new(), Vec::new());
    called.seal(ANSWER, &mut answer)?;
    hear(&mut caller, &mut answer, piece_bytes, &mut heard)?;
    if heard == ANSWER { Ok([caller, called]) } else { Err(LinkError::Closed) }
}

/// Gives one end what the other one sent, in pieces.
pub(crate) fn hear(end: &mut Seal, bytes: &mut [u8], piece_bytes: usize, heard: &mut Vec<u8>) -> Result<(), LinkError> {
    bytes.chunks_mut(piece_bytes.max(1)).try_for_each(|piece| {
        end.open(piece, |plain| {
            heard.extend_from_slice(plain);
            Ok(())
        })
    })
}

pub(crate) fn records(end: &mut Seal) -> Result<&mut Records, LinkError> {
    match end {
        Seal::Tls(records) => Ok(records),
        Seal::Plain | Seal::Handshake(_) => Err(LinkError::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ends: &mut Ends, plain: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ends.say(plain, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn they_go_on_after_whatever_ended_the_connection() {
        let mut ends = Ends::new().unwrap();
        for lost in 0..3 {
            let mut bytes = said(&mut ends, b"one");
            if lost > 0 {
                // Nobody hears that these are others.
                ends.say_new_keys(&mut Vec::new()).unwrap();
                bytes = said(&mut ends, b"one");
            }
            bytes[7] ^= 1;
            let mut heard = Vec::new();
            assert!(ends.hear(&mut bytes, 3, &mut heard).is_err());
            ends.begin_anew().unwrap();
            let mut bytes = said(&mut ends, b"two");
            ends.say_new_keys(&mut bytes).unwrap();
            ends.say(b", three", &mut bytes).unwrap();
            ends.hear(&mut bytes, 3, &mut heard).unwrap();
            assert_eq!((&heard[..], ends.kept_bytes()), (&b"two, three"[..], 0));
        }
    }

    #[test]
    fn a_call_is_answered_and_nothing_of_it_is_heard() {
        let ends = Ends::new().unwrap();
        let (heard, answer_bytes) = ends.call(&mut Ends::first_call().unwrap(), 100).unwrap();
        assert!(heard.is_empty() && answer_bytes > 500, "{answer_bytes}");
        assert!(ends.call(&mut [23, 3, 3, 0, 1, 1], 1).is_err());
    }
}
