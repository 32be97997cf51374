//! The asking side of a probe.
//!
//! Latency is half of the median round trip of a byte. Bandwidth is that of the second half of a transfer, as it arrives: TCP's
//! slow start and what a shaper lets through at once lie in the first half. Transfers grow until the second half lasts long
//! enough for clocks and turns of the scheduler, or until the bytes that may be spent are.
//!
//! Next: `answer`, the other side.

use super::{BUSY, GREETING, KIND_TRANSFER, KIND_TRIPS, Patience, READY, Secret, TRANSFER_BYTES_MAX, token};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Round trips of a byte: the first one is not counted.
const TRIPS: u64 = 21;
/// The first transfer.
const FIRST_BYTES: u64 = 64 << 10;
/// Each is so many times the one before.
const GROWS: u64 = 4;
/// The second half of a transfer is to last so long.
const HALF_S: f64 = 0.1;
/// Pause before a machine that was busy is asked again; longer each time.
const AGAIN: Duration = Duration::from_millis(20);

/// A question.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The answering side's secret.
    pub secret: Secret,
    /// The name of this machine's token.
    pub token: String,
    /// Bytes that may be spent.
    pub bytes_max: u64,
    /// How long a wait may take.
    pub patience: Patience,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// One way, seconds: half of the median round trip.
    pub latency_s: f64,
    /// The least and the most of half a round trip.
    pub latency_least_s: f64,
    /// See there.
    pub latency_most_s: f64,
    /// Bytes a second from here to there.
    pub bandwidth_bytes_per_s: f64,
    /// How long the part lasted that bandwidth is of, seconds.
    pub lasted_s: f64,
    /// Bytes that the probe took.
    pub bytes: u64,
    /// Time that it took, seconds.
    pub took_s: f64,
    /// The limit of each of its waits, seconds.
    pub timeout_s: f64,
}

/// Why nothing was found.
#[derive(Debug, Error)]
pub enum NetError {
    /// Nobody there.
    #[error(
        "{address} can't be reached within {timeout_s:.1} s; does `trimtab weather --answer` or a standing agent run there?"
    )]
    Unreachable {
        /// The other side.
        address: SocketAddr,
        /// The limit.
        timeout_s: f64,
        /// The cause.
        source: io::Error,
    },
    /// It closed the connection at once.
    #[error("{address} does not know our secret; give the one that it has printed")]
    Refused {
        /// The other side.
        address: SocketAddr,
    },
    /// Its token was held for all of our time.
    #[error("{address} answers others; it was asked for {waited_s:.1} s: try again")]
    Busy {
        /// The other side.
        address: SocketAddr,
        /// How long it was asked.
        waited_s: f64,
    },
    /// Our own token was held for all of our time.
    #[error("another probe goes on from or to this host; it was waited for {waited_s:.1} s: try again")]
    BusyHere {
        /// How long it was waited for.
        waited_s: f64,
    },
    /// It began and did not end.
    #[error("the probe to {address} broke off (each wait has {timeout_s:.1} s)")]
    Broken {
        /// The other side.
        address: SocketAddr,
        /// The limit.
        timeout_s: f64,
        /// The cause.
        source: io::Error,
    },
}

/// Asks somebody who answers.
///
/// # Errors
/// [`NetError`].
pub fn ask(address: SocketAddr, asked: &Asked) -> Result<Found, NetError> {
    let begun = Instant::now();
    let mut timeout_s = asked.patience.limit_s();
    let most = Duration::from_secs_f64(asked.patience.most_s());
    let mut pause = AGAIN;
    loop {
        let held = token::take(&asked.token).map_err(|source| NetError::Broken { address, timeout_s, source })?;
        let is_ours = held.is_some();
        let found = if is_ours { once(address, asked, timeout_s) } else { Ok(None) };
        match found {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // The link may be slower than it was: more patience, as long as there is some.
            Err(error) if is_late(&error) && timeout_s < asked.patience.most_s() => {
                timeout_s = (4.0 * timeout_s).min(asked.patience.most_s());
                continue;
            }
            Err(error) => return Err(error),
        }
        // Both give up what they hold, so that two who want each other's don't wait for ever.
        drop(held);
        if begun.elapsed() + pause > most {
            let waited_s = begun.elapsed().as_secs_f64();
            return Err(if is_ours { NetError::Busy { address, waited_s } } else { NetError::BusyHere { waited_s } });
        }
        std::thread::sleep(pause + jitter(pause));
        pause *= 2;
    }
}

/// Different for two who begin at once.
fn jitter(pause: Duration) -> Duration {
    let salt = Instant::now();
    let nanoseconds = format!("{salt:?}{}", std::process::id())
        .bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    pause.mul_f64(f64::from(nanoseconds % 1000) / 1000.0)
}

/// One connection; `None`: the other side is busy.
fn once(address: SocketAddr, asked: &Asked, timeout_s: f64) -> Result<Option<Found>, NetError> {
    let begun = Instant::now();
    let limit = Duration::from_secs_f64(timeout_s);
    let unreachable = |source| NetError::Unreachable { address, timeout_s, source };
    let stream = TcpStream::connect_timeout(&address, limit).map_err(unreachable)?;
    let broken = |source| NetError::Broken { address, timeout_s, source: in_words(source) };
    let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(limit)));
    set.and_then(|()| stream.set_write_timeout(Some(limit))).map_err(broken)?;
    let mut probe = Probe { stream, asked, bytes: 0 };
    match probe.begin(KIND_TRIPS, TRIPS) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) if is_sent_away(&error) => return Err(NetError::Refused { address }),
        Err(error) => return Err(broken(error)),
    }
    let trips = probe.trips().map_err(broken)?;
    let (bandwidth_bytes_per_s, lasted_s) = probe.transfers().map_err(broken)?;
    Ok(Some(Found {
        latency_s: trips[trips.len() / 2] / 2.0,
        latency_least_s: trips[0] / 2.0,
        latency_most_s: trips[trips.len() - 1] / 2.0,
        bandwidth_bytes_per_s,
        lasted_s,
        bytes: probe.bytes,
        took_s: begun.elapsed().as_secs_f64(),
        timeout_s,
    }))
}

fn is_late(error: &NetError) -> bool {
    match error {
        NetError::Unreachable { source, .. } | NetError::Broken { source, .. } => {
            source.kind() == io::ErrorKind::TimedOut
        }
        NetError::Refused { .. } | NetError::Busy { .. } | NetError::BusyHere { .. } => false,
    }
}

/// A socket's limit is over: the kernel says so in other words.
fn in_words(source: io::Error) -> io::Error {
    match source.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no byte went or came in time"),
        _ => source,
    }
}

fn is_sent_away(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

struct Probe<'a> {
    stream: TcpStream,
    asked: &'a Asked,
    bytes: u64,
}

impl Probe<'_> {
    /// Asks; false: it is busy.
    fn begin(&mut self, kind: u8, number: u64) -> io::Result<bool> {
        let mut question = GREETING.to_vec();
        question.extend(self.asked.secret.bytes());
        question.push(kind);
        question.extend(number.to_le_bytes());
        self.stream.write_all(&question)?;
        self.bytes += question.len() as u64;
        let mut answer = [0];
        self.stream.read_exact(&mut answer)?;
        match answer[0] {
            READY => Ok(true),
            BUSY => Ok(false),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Round trips of a byte in seconds, the shortest first.
    fn trips(&mut self) -> io::Result<Vec<f64>> {
        let mut took = Vec::new();
        for at in 0..TRIPS {
            let begun = Instant::now();
            self.stream.write_all(&[7])?;
            self.stream.read_exact(&mut [0])?;
            if at > 0 {
                took.push(begun.elapsed().as_secs_f64());
            }
        }
        self.bytes += TRIPS;
        took.sort_by(f64::total_cmp);
        Ok(took)
    }

    /// Bytes a second, and how long what it is of lasted.
    fn transfers(&mut self) -> io::Result<(f64, f64)> {
        let mut size = FIRST_BYTES;
        loop {
            let left = self.asked.bytes_max.saturating_sub(self.bytes + super::QUESTION_BYTES as u64);
            // The last one takes what is left.
            let is_last = size * (GROWS + 1) > left || size >= TRANSFER_BYTES_MAX;
            let (whole_s, half_s, half_bytes) = self.transfer(size.min(left).max(1))?;
            if half_s >= HALF_S || is_last {
                let (bytes, lasted_s) = match half_s > 0.0 && half_bytes > 0 {
                    true => (half_bytes as f64, half_s),
                    // So few bytes that they came in one piece: the whole from its beginning is all there is.
                    false => (size as f64, whole_s),
                };
                let bandwidth = bytes / lasted_s;
                return if bandwidth.is_finite() { Ok((bandwidth, lasted_s)) } else { Err(too_few()) };
            }
            // Step by step: what a shaper lets through at once says nothing of what comes behind it.
            let next = (size * GROWS).min(TRANSFER_BYTES_MAX);
            let left = self.asked.bytes_max.saturating_sub(self.bytes + super::QUESTION_BYTES as u64);
            size = if next > left { left.max(size) } else { next };
        }
    }

    fn transfer(&mut self, size: u64) -> io::Result<(f64, f64, u64)> {
        if !self.begin(KIND_TRANSFER, size)? {
            return Err(io::Error::other("the other side is busy all at once"));
        }
        let piece = vec![0x5a; 64 << 10];
        let begun = Instant::now();
        let mut left = size;
        while left > 0 {
            let count = left.min(piece.len() as u64) as usize;
            self.stream.write_all(&piece[..count])?;
            left -= count as u64;
        }
        self.bytes += size;
        let mut numbers = [0; 24];
        self.stream.read_exact(&mut numbers)?;
        let number =
            |at: usize| numbers[8 * at..8 * at + 8].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let half_bytes = number(2);
        if half_bytes > size {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((begun.elapsed().as_secs_f64(), number(1) as f64 / 1e9, half_bytes))
    }
}

fn too_few() -> io::Error {
    io::Error::other("too few bytes may be spent for this link")
}
