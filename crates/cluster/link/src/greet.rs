//! The beginning of a connection, until each end knows who the other is. No other message is read before.
//!
//! The caller proves its identity and says hello; the other end checks it, and answers with its own hello, also if it
//! refuses, so that the caller can say why. Bytes and time are bounded until then.
//!
//! The caller's first messages, with which it joins, go with its hello, and the answers to them with the answer to it:
//! one round trip after TLS's makes a child of a node.
//!
//! Next: `driver`, which does this for every connection.

use crate::address::Contact;
use crate::credentials::Credentials;
use crate::error::LinkError;
use crate::socket::{Bounded, Socket, Stream};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use tokio::net::UnixStream;
use trimtab_overlay::NodeId;
use trimtab_wire::{Hello, HelloReader, Role, VERSION};

/// The addressee of a hello that refuses its caller.
const NOBODY: u32 = u32::MAX;

/// A node's own description, and how it checks others.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) tree: u64,
    pub(crate) id: NodeId,
    pub(crate) incarnation: u32,
    pub(crate) role: Role,
    pub(crate) ancestors: Vec<NodeId>,
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// The user whose processes may connect by a Unix socket.
    pub(crate) user: u32,
}

/// A connection whose ends know each other.
pub(crate) struct Greeted {
    pub(crate) peer: NodeId,
    pub(crate) stream: Stream,
    /// The bytes that came behind the hello.
    pub(crate) rest: Vec<u8>,
    /// The bytes that go before all others: the answer to a call.
    pub(crate) unsaid: Vec<u8>,
}

impl Identity {
    fn hello(&self, to: u32) -> [u8; trimtab_wire::limits::HELLO_BYTES] {
        let Identity { tree, id, incarnation, role, .. } = *self;
        Hello { version: VERSION, tree, from: id.0, to, incarnation, role }.encode()
    }

    /// A Unix socket's other end must be a process of this node's user.
    fn of_user(&self, socket: Bounded<UnixStream>, user: u32) -> Result<Stream, LinkError> {
        if user == self.user {
            Ok(Stream::Unix(socket))
        } else {
            Err(LinkError::User { theirs: user, ours: self.user })
        }
    }

    /// Calls an ancestor. The first messages go with the hello, so that the answers can come with the answer to it.
    pub(crate) async fn call(&self, node: NodeId, contact: &Contact, first: &[u8]) -> Result<Greeted, LinkError> {
        let missing = || LinkError::NoCredentials { address: contact.address.clone() };
        let mut stream = match Socket::connect(&contact.address).await? {
            // TLS is in a box of its own, so that thousands of callers at Unix sockets don't hold room for it.
            Socket::Tcp(socket) => {
                Box::pin(self.credentials.as_deref().ok_or_else(missing)?.call(socket, node, contact)).await?
            }
            Socket::Unix(socket, user) => self.of_user(socket, user)?,
        };
        let written = stream.write_all(&[&self.hello(node.0), first].concat()).await;
        let (hello, rest) = match (hear(&mut stream).await, written) {
            (Err(LinkError::Closed | LinkError::Io(_)) | Ok(_), Err(why)) => return Err(why),
            // The other end may have said why it closed the connection.
            (heard, _) => heard?,
        };
        if hello.to == NOBODY {
            return Err(LinkError::Refused { peer: node });
        }
        if (hello.tree, hello.from, hello.to) != (self.tree, node.0, self.id.0) {
            return Err(LinkError::Stranger { theirs: NodeId(hello.from), tree: hello.tree, wanted: node });
        }
        stream.lift_bound();
        Ok(Greeted { peer: node, stream, rest, unsaid: Vec::new() })
    }

    /// Answers a caller. The hello is left for the first write of the connection, with the answers to the caller's first
    /// messages.
    pub(crate) async fn answer(&self, socket: Socket) -> Result<Greeted, LinkError> {
        let mut stream = match socket {
            // A node can't be made to listen on TCP without credentials.
            Socket::Tcp(socket) => {
                Box::pin(self.credentials.as_deref().ok_or(LinkError::Closed)?.answer(socket)).await?
            }
            Socket::Unix(socket, user) => self.of_user(socket, user)?,
        };
        let heard = hear(&mut stream).await;
        match heard.and_then(|(hello, rest)| self.check(&hello, &stream).map(|()| (hello, rest))) {
            Ok((hello, rest)) => {
                stream.lift_bound();
                Ok(Greeted { peer: NodeId(hello.from), stream, rest, unsaid: self.hello(hello.from).to_vec() })
            }
            Err(why @ (LinkError::Tls(_) | LinkError::Io(_) | LinkError::Closed)) => Err(why),
            Err(why) => {
                // The caller may be gone, and then needs no answer.
                let _written = stream.write_all(&self.hello(NOBODY)).await;
                Err(why)
            }
        }
    }

    /// Checks that a caller may be a descendant of this node. Ancestors give orders, so they never call.
    fn check(&self, hello: &Hello, stream: &Stream) -> Result<(), LinkError> {
        let theirs = NodeId(hello.from);
        let is_above = theirs == self.id || self.ancestors.contains(&theirs) || hello.role == Role::Root;
        if hello.tree != self.tree || hello.to != self.id.0 || is_above {
            return Err(LinkError::Stranger { theirs, tree: hello.tree, wanted: NodeId(hello.to) });
        }
        match (stream, &self.credentials) {
            (Stream::Tls(_), Some(credentials)) => credentials.check_caller(stream.certificate(), theirs),
            _ => Ok(()),
        }
    }
}

/// Reads the other end's hello, and the bytes behind it that came at once.
async fn hear(stream: &mut Stream) -> Result<(Hello, Vec<u8>), LinkError> {
    let mut reader = HelloReader::default();
    poll_fn(|context| {
        loop {
            let heard = ready!(stream.poll_take(context, |mut bytes| {
                if bytes.is_empty() {
                    return Err(LinkError::Closed);
                }
                Ok(reader.feed(&mut bytes)?.map(|hello| (hello, bytes.to_vec())))
            }))?;
            if let Some(heard) = heard.transpose() {
                return Poll::Ready(heard);
            }
        }
    })
    .await
}
