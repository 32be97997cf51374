//! The answering side of probes: one at a time, for whoever knows the secret, with bounded bytes and time.
//!
//! It times what arrives by itself: the sending side only knows what its kernel has taken.
//!
//! Next: `ask`, the other side.

use super::{
    BUSY, GREETING, KIND_TRANSFER, KIND_TRIPS, QUESTION_BYTES, READY, Secret, TRANSFER_BYTES_MAX, TRIPS_MAX, token,
};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long nobody looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);
/// Whoever says nothing for so long is sent away: others wait.
const SILENT_MAX: Duration = Duration::from_secs(2);
/// No probe takes longer, whatever it moves.
const PROBE_MAX: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 64 << 10;

/// Somebody who answers.
#[derive(Debug)]
pub struct Answerer {
    listener: TcpListener,
    address: SocketAddr,
    secret: Secret,
    token: String,
}

/// All that came until it was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Probes that were answered.
    pub answered: u64,
    /// Those who were sent away: another secret, nonsense, silence.
    pub refused: u64,
    /// Bytes that came.
    pub bytes: u64,
}

impl Answerer {
    /// Listens.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn bind(address: SocketAddr, secret: Secret, token: &str) -> io::Result<Answerer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Answerer { listener, address, secret, token: token.to_owned() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is over.
    pub fn serve(&self, is_over: impl Fn() -> bool) -> Ended {
        let mut ended = Ended::default();
        while !is_over() {
            match self.listener.accept() {
                Ok((stream, _)) => match self.answer(stream) {
                    Ok(bytes) => {
                        ended.answered += 1;
                        ended.bytes += bytes;
                    }
                    Err(_) => ended.refused += 1,
                },
                Err(_) => std::thread::sleep(LOOK),
            }
        }
        ended
    }

    /// All questions of one connection; bytes that came.
    fn answer(&self, mut stream: TcpStream) -> io::Result<u64> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENT_MAX))?;
        stream.set_write_timeout(Some(SILENT_MAX))?;
        let until = Instant::now() + PROBE_MAX;
        let (mut held, mut bytes) = (None, 0);
        let mut question = [0; QUESTION_BYTES];
        loop {
            match stream.read(&mut question[..1])? {
                0 if held.is_some() => return Ok(bytes),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => stream.read_exact(&mut question[1..])?,
            }
            let (kind, number) = self.understood(&question).ok_or(io::ErrorKind::PermissionDenied)?;
            if held.is_none() {
                held = token::take(&self.token)?;
            }
            stream.write_all(&[if held.is_some() { READY } else { BUSY }])?;
            if held.is_none() || Instant::now() > until {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            bytes += match kind {
                KIND_TRIPS => echo(&mut stream, number.min(TRIPS_MAX), until)?,
                _ => receive(&mut stream, number.min(TRANSFER_BYTES_MAX), until)?,
            };
        }
    }

    fn understood(&self, question: &[u8; QUESTION_BYTES]) -> Option<(u8, u64)> {
        let (greeting, rest) = question.split_at(GREETING.len());
        let (secret, rest) = rest.split_at(super::secret::BYTES);
        let number = u64::from_le_bytes(rest[1..].try_into().ok()?);
        let is_known = matches!(rest[0], KIND_TRIPS | KIND_TRANSFER);
        (greeting == GREETING && self.secret.is(secret) && is_known && number > 0).then_some((rest[0], number))
    }
}

fn echo(stream: &mut TcpStream, trips: u64, until: Instant) -> io::Result<u64> {
    let mut byte = [0];
    for _ in 0..trips {
        stream.read_exact(&mut byte)?;
        stream.write_all(&byte)?;
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(trips)
}

/// Takes bytes, and says how long the whole and its second half took to arrive, nanoseconds, and the second half's bytes.
fn receive(stream: &mut TcpStream, total: u64, until: Instant) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut came, mut half) = (0, None);
    let mut first = None;
    while came < total {
        let wanted = (total - came).min(BUFFER_BYTES as u64) as usize;
        let count = stream.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = Instant::now();
        first.get_or_insert(now);
        came += count as u64;
        if half.is_none() && came >= total / 2 {
            half = Some((now, came));
        }
        if now > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    let now = Instant::now();
    let (half_at, half_bytes) = half.unwrap_or((now, came));
    let since = |at: Instant| now.duration_since(at).as_nanos() as u64;
    for number in [since(first.unwrap_or(now)), since(half_at), came - half_bytes] {
        stream.write_all(&number.to_le_bytes())?;
    }
    Ok(came)
}
