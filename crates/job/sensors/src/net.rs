//! TCP to another machine: how long a byte takes there and back, and how many bytes a second go there.
//!
//! Somebody answers on the other machine ([`Answerer`]), whoever asks knows its secret ([`Secret`]). All bytes are bounded, and
//! counted. A machine has one token, which the asking and the answering side both hold meanwhile: so no two probes meet on a
//! machine ([`token`]). Each wait has a limit that follows how long waits took before ([`Patience`]).
//!
//! Next: `ask` for the asking side, `answer` for the other one, `token`.

mod answer;
mod ask;
mod patience;
mod secret;
pub mod token;

pub use answer::{Answerer, Ended};
pub use ask::{Asked, Found, NetError, ask};
pub use patience::Patience;
pub use secret::Secret;

/// Both sides say this first.
const GREETING: &[u8; 8] = b"tt-net1\n";
/// A question: greeting, secret, kind, number.
const QUESTION_BYTES: usize = 8 + secret::BYTES + 1 + 8;
/// Bytes that one transfer may have, whoever asks.
const TRANSFER_BYTES_MAX: u64 = 64 << 20;
/// Round trips that one question may have.
const TRIPS_MAX: u64 = 256;

/// The kinds of questions.
const KIND_TRIPS: u8 = 1;
const KIND_TRANSFER: u8 = 2;
/// The first byte of an answer.
const READY: u8 = 1;
const BUSY: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// An answering side on loopback, gone with its guard.
    struct Side {
        address: SocketAddr,
        is_over: Arc<AtomicBool>,
        thread: Option<std::thread::JoinHandle<Ended>>,
    }

    fn side(secret: &Secret, token: &str) -> Side {
        let answerer =
            Answerer::bind("127.0.0.1:0".parse().expect("an address"), secret.clone(), token).expect("a port");
        let (address, is_over) = (answerer.address(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || answerer.serve(|| over.load(Ordering::Relaxed)));
        Side { address, is_over, thread: Some(thread) }
    }

    impl Side {
        fn end(mut self) -> Ended {
            self.is_over.store(true, Ordering::Relaxed);
            self.thread.take().expect("once").join().expect("no panic")
        }
    }

    fn question(secret: &Secret, token: &str) -> Asked {
        Asked { secret: secret.clone(), token: token.to_owned(), bytes_max: 1 << 20, patience: Patience::default() }
    }

    #[test]
    fn a_pair_measures_latency_and_bandwidth_within_its_bytes() {
        let secret = Secret::new().expect("random bytes");
        let side = side(&secret, "test-a");
        let found = ask(side.address, &question(&secret, "test-b")).expect("an answer");
        assert!(found.latency_s > 0.0 && found.latency_s.is_finite(), "{found:?}");
        assert!(found.bandwidth_bytes_per_s > 0.0 && found.bandwidth_bytes_per_s.is_finite(), "{found:?}");
        assert!(found.bytes > 0 && found.bytes <= 1 << 20, "{found:?}");
        assert!(found.timeout_s > 0.0, "{found:?}");
        let ended = side.end();
        assert_eq!((ended.answered, ended.refused), (1, 0), "{ended:?}");
    }

    #[test]
    fn a_stranger_gets_nothing() {
        let secret = Secret::new().expect("random bytes");
        let side = side(&secret, "test-c");
        let other = Secret::new().expect("random bytes");
        let error = ask(side.address, &question(&other, "test-d")).expect_err("another secret");
        assert!(matches!(error, NetError::Refused { .. }), "{error}");
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64][..]] {
            let mut stream = TcpStream::connect(side.address).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a limit");
            let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty(), "{answer:?}");
        }
        let ended = side.end();
        assert_eq!((ended.answered, ended.refused), (0, 3), "{ended:?}");
    }

    #[test]
    fn a_machine_whose_token_is_held_is_busy() {
        let secret = Secret::new().expect("random bytes");
        let side = side(&secret, "test-e");
        let held = token::take("test-e").expect("free").expect("free");
        let patience = Patience::default().of_at_most(0.3);
        let asked = Asked { patience, ..question(&secret, "test-f") };
        let error = ask(side.address, &asked).expect_err("its token is held");
        assert!(matches!(error, NetError::Busy { .. }), "{error}");
        drop(held);
        ask(side.address, &question(&secret, "test-f")).expect("it is free again");
        let own = token::take("test-f").expect("free").expect("free");
        let error = ask(side.address, &asked).expect_err("our own token is held");
        assert!(matches!(error, NetError::BusyHere { .. }), "{error}");
        drop(own);
        side.end();
    }

    #[test]
    fn nobody_there_is_an_error_soon() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port");
        let secret = Secret::new().expect("random bytes");
        let error = ask(closed, &question(&secret, "test-g")).expect_err("nobody listens");
        assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    }
}
