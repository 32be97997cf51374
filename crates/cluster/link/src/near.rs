//! Where two nodes of one host meet: a Unix socket beside a TCP address.
//!
//! Bytes on loopback take twice as long through TCP as through a Unix socket, and both ends of it are on this host: it
//! stands in the abstract namespace, which is the network namespace's, as ports are. Nothing else changes: both
//! ends prove who they are by TLS as on TCP. Besides, the kernel tells each end the user of the other one, so that a
//! socket that somebody else put under that name, or somebody else's call, is left at once.
//!
//! They lend each other memory there, and go on through that.
//!
//! Who finds nobody there goes to the TCP address; a node on another host always does.
//!
//! Next: `greet`, which asks here first; `memory` for what is lent; `address` for the listener.

use crate::limits::BACKLOG;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use trimtab_overlay::NodeId;

/// Awaits calls for a node that listens at a TCP port of this host.
///
/// # Errors
/// When the name is taken, or this process may have no such sockets.
pub(crate) fn listen_near(tree: u64, node: NodeId, port: u16) -> io::Result<UnixListener> {
    let socket = socket()?;
    bind(&socket, &name(tree, node, port)?)?;
    listen(&socket, BACKLOG as i32)?;
    Ok(socket.into())
}

/// Calls a node that may be on this host; this never waits.
///
/// # Errors
/// When it isn't here, or takes no call now.
pub(crate) fn call_near(tree: u64, node: NodeId, port: u16) -> io::Result<OwnedFd> {
    call_unix(&name(tree, node, port)?)
}

/// Calls at a Unix socket; this never waits.
///
/// # Errors
/// When nobody is there, or takes no call now.
pub(crate) fn call_unix(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    connect(&socket, address)?;
    Ok(socket)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// What both ends know. The port tells listeners of one host apart, the user keeps others' nodes from calling in vain.
fn name(tree: u64, node: NodeId, port: u16) -> io::Result<SocketAddrUnix> {
    let user = rustix::process::geteuid().as_raw();
    Ok(SocketAddrUnix::new_abstract_name(format!("trimtab/{user}/{tree:x}/{}/{port}", node.0).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_there_is_called() {
        // No tree of a test has this number.
        let tree = u64::MAX - u64::from(std::process::id());
        assert_eq!(call_near(tree, NodeId(3), 4711).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let listener = listen_near(tree, NodeId(3), 4711).unwrap();
        assert_eq!(listen_near(tree, NodeId(3), 4711).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        for (tree, node, port) in [(tree - 1, 3, 4711), (tree, 4, 4711), (tree, 3, 4712)] {
            assert!(call_near(tree, NodeId(node), port).is_err());
        }
        let _calling = call_near(tree, NodeId(3), 4711).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert!(call_near(tree, NodeId(3), 4711).is_err(), "the name goes with the listener");
    }
}
