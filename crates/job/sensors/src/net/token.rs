//! A machine's token: whoever probes or answers there holds it, and nobody else meanwhile.
//!
//! It is a name in the kernel's own space of Unix sockets, which belongs to one network namespace as its links do. When its
//! holder ends, however it does, the kernel gives the name back: a lost token needs nobody who makes a new one. A holder that
//! stands still keeps it, and whoever wants it is told so.
//!
//! Next: `ask` and `answer`, which take it.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The name of the machine's token.
pub const OF_MACHINE: &str = "trimtab-weather";

/// A token that is held; it is free again when this is dropped.
#[derive(Debug)]
pub struct Held(#[allow(dead_code, reason = "its life is what counts")] UnixListener);

/// Takes a token; `None`: somebody else holds it.
///
/// # Errors
/// The kernel gives no socket.
pub fn take(name: &str) -> io::Result<Option<Held>> {
    let address = SocketAddr::from_abstract_name(name)?;
    match UnixListener::bind_addr(&address) {
        Ok(socket) => Ok(Some(Held(socket))),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn one_holds_it_at_a_time() {
        let held = take("test-token-1").expect("a socket");
        assert!(held.is_some() && take("test-token-1").expect("a socket").is_none());
        assert!(take("test-token-2").expect("a socket").is_some(), "another machine's");
        drop(held);
        assert!(take("test-token-1").expect("a socket").is_some());
    }

    #[test]
    fn a_holder_that_was_killed_loses_it() {
        let script = "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind('\\0test-token-3')\ns.listen()\ntime.sleep(600)";
        let Ok(mut child) = Command::new("python3").args(["-c", script]).spawn() else {
            println!(
                "SKIPPED: net::token::tests::a_holder_that_was_killed_loses_it: no python3: apt-get install python3"
            );
            return;
        };
        while take("test-token-3").expect("a socket").is_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(take("test-token-3").expect("a socket").is_some());
    }
}
