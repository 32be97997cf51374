//! The beginning of a connection, until both ends know who the other is. Nobody is heard before.
//!
//! Whoever calls proves itself and says hello; whoever is called checks it, and answers with its own hello, also if it
//! refuses, so that the other end can say why. Bytes and time are bounded: what is not proven costs little.
//!
//! What a caller has to say first, that it wants to join, goes with its hello, and what that leads to goes with the
//! answer: one way there and back makes a child of a node.
//!
//! Next: `driver`, which does this for every connection.

use crate::address::{Address, Contact};
use crate::credentials::Credentials;
use crate::error::LinkError;
use crate::limits::GREETING_BYTES_MAX;
use crate::memory::{Memory, Offer, Post};
use crate::seal::{End, Seal};
use crate::socket::Socket;
use std::sync::Arc;
use trimtab_overlay::NodeId;
use trimtab_wire::{Hello, HelloReader, Role, VERSION};

/// Whom an answer is for that refuses.
const NOBODY: u32 = u32::MAX;

/// What a node says of itself, and how it proves others.
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
    /// True if ancestors are sought on this host first.
    pub(crate) meets_near: bool,
    /// For nodes of this host with which memory is shared.
    pub(crate) post: Option<Arc<Post>>,
}

/// A connection of which both ends know whose it is.
pub(crate) struct Greeted {
    pub(crate) peer: NodeId,
    pub(crate) socket: Socket,
    pub(crate) seal: Seal,
    /// What came right behind the hello.
    pub(crate) rest: Vec<u8>,
    /// By what all that follows goes, if not by the socket.
    pub(crate) memory: Option<Memory>,
    /// What is to go before all that follows: the answer to a call.
    pub(crate) unsaid: Vec<u8>,
}

impl Identity {
    fn hello(&self, to: u32) -> [u8; trimtab_wire::limits::HELLO_BYTES] {
        let Identity { tree, id, incarnation, role, .. } = *self;
        Hello { version: VERSION, tree, from: id.0, to, incarnation, role }.encode()
    }

    fn credentials(&self, contact: &Contact) -> Result<&Credentials, LinkError> {
        let missing = || LinkError::NoCredentials { address: contact.address.clone() };
        self.credentials.as_deref().ok_or_else(missing)
    }

    fn check_user(&self, user: u32) -> Result<(), LinkError> {
        if user == self.user { Ok(()) } else { Err(LinkError::User { theirs: user, ours: self.user }) }
    }

    /// Calls an ancestor: on this host if it is here, else where it listens. What is to be said first goes with the
    /// hello, behind the other end's proof, so that its answer can go with the answer to the hello.
    pub(crate) async fn call(&self, node: NodeId, contact: &Contact, first: &[u8]) -> Result<Greeted, LinkError> {
        let mut near = self.near(node, contact);
        loop {
            let is_near = near.is_some();
            let socket = match near.take() {
                Some(socket) => socket,
                None => Socket::connect(&contact.address).await?,
            };
            match self.call_on(socket, node, contact, first).await {
                Err(_) if is_near => {}
                called => return called,
            }
        }
    }

    /// A connection to an ancestor on this host.
    fn near(&self, node: NodeId, contact: &Contact) -> Option<Socket> {
        match contact.address {
            Address::Tcp(address) if self.meets_near => Socket::connect_near(self.tree, node, address).ok(),
            _ => None,
        }
    }

    /// How both ends prove who they are. Where the kernel knows the other end's user, it must be this one.
    fn begin(&self, socket: &Socket, tls: impl FnOnce() -> Result<End, LinkError>) -> Result<Seal, LinkError> {
        if let Some(user) = socket.user {
            self.check_user(user)?;
        }
        if socket.has_tls { Ok(Seal::tls(tls()?)) } else { Ok(Seal::Plain) }
    }

    /// What is shared with nodes of this host, if the other end is one and there is room for another.
    fn shared_post(&self, socket: &mut Socket) -> Option<&Arc<Post>> {
        let post = self.post.as_ref().filter(|post| socket.is_near() && post.has_room())?;
        socket.wants_files();
        Some(post)
    }

    async fn call_on(
        &self,
        mut socket: Socket,
        node: NodeId,
        contact: &Contact,
        first: &[u8],
    ) -> Result<Greeted, LinkError> {
        let mut seal = self.begin(&socket, || self.credentials(contact)?.dial(node, contact))?;
        let mut out = Vec::new();
        seal.seal(&[&self.hello(node.0), first].concat(), &mut out)?;
        let offer = self.shared_post(&mut socket).and_then(|post| Offer::new(post).ok());
        let written = match &offer {
            Some(offer) => socket.write_with(&out, &offer.files()).await,
            None => socket.write_all(&out).await,
        };
        socket.await_answer().await?;
        let (hello, rest) = match (hear(&mut socket, &mut seal).await, written) {
            (Err(LinkError::Closed | LinkError::Io(_)) | Ok(_), Err(why)) => return Err(why.into()),
            // Who closed before it heard anything may have said why.
            (heard, _) => heard?,
        };
        if hello.to == NOBODY {
            return Err(LinkError::Refused { peer: node });
        }
        if (hello.tree, hello.from, hello.to) != (self.tree, node.0, self.id.0) {
            return Err(LinkError::Stranger { theirs: NodeId(hello.from), tree: hello.tree, wanted: node });
        }
        let lent = socket.lent_files();
        let memory = offer.map(|offer| offer.taken(lent)).transpose()?.flatten();
        Ok(Greeted { peer: node, socket, seal, rest, memory, unsaid: Vec::new() })
    }

    /// Answers somebody who called.
    pub(crate) async fn answer(&self, mut socket: Socket) -> Result<Greeted, LinkError> {
        // A node can't be made to listen on TCP without credentials.
        let answer = || self.credentials.as_deref().ok_or(LinkError::Closed)?.answer();
        let mut seal = self.begin(&socket, answer)?;
        let post = self.shared_post(&mut socket);
        let heard = hear(&mut socket, &mut seal).await;
        let lent = socket.lent_files();
        let checked = heard.and_then(|(hello, rest)| self.check(&hello, &seal).map(|()| (hello, rest)));
        let to = checked.as_ref().map_or(NOBODY, |(hello, _)| hello.from);
        let refuses_stranger = matches!(checked, Err(LinkError::Tls(_) | LinkError::Io(_) | LinkError::Closed));
        // What is not good to share stays unused.
        let memory = post.filter(|_| checked.is_ok()).and_then(|post| Memory::answer(post, lent).ok());
        let mut unsaid = Vec::new();
        if !refuses_stranger {
            seal.seal(&self.hello(to), &mut unsaid)?;
        }
        match post.filter(|_| memory.is_some()) {
            Some(post) => socket.write_with(&std::mem::take(&mut unsaid), &post.files()).await?,
            None if checked.is_err() => socket.write_all(&unsaid).await?,
            // It goes with what this node has to say to what came with the call.
            None => {}
        }
        let (hello, rest) = checked?;
        Ok(Greeted { peer: NodeId(hello.from), socket, seal, rest, memory, unsaid })
    }

    /// Checks that a caller may be a descendant of this node. An ancestor's place gives orders, so nobody calls from there.
    fn check(&self, hello: &Hello, seal: &Seal) -> Result<(), LinkError> {
        let theirs = NodeId(hello.from);
        let is_above = theirs == self.id || self.ancestors.contains(&theirs) || hello.role == Role::Root;
        if hello.tree != self.tree || hello.to != self.id.0 || is_above {
            return Err(LinkError::Stranger { theirs, tree: hello.tree, wanted: NodeId(hello.to) });
        }
        match (seal, &self.credentials) {
            (Seal::Tls(_), Some(credentials)) => credentials.check_caller(seal.certificate(), theirs),
            _ => Ok(()),
        }
    }
}

/// Reads until the other end has proved itself and said hello.
async fn hear(socket: &mut Socket, seal: &mut Seal) -> Result<(Hello, Vec<u8>), LinkError> {
    let (mut reader, mut hello, mut rest) = (HelloReader::default(), None, Vec::new());
    let mut byte_count = 0;
    loop {
        let mut take = |bytes: &mut [u8]| {
            byte_count += bytes.len();
            if bytes.is_empty() {
                return Err(LinkError::Closed);
            }
            seal.open(bytes, |mut plain| {
                if hello.is_none() {
                    hello = reader.feed(&mut plain)?;
                }
                rest.extend_from_slice(plain);
                Ok(())
            })
        };
        let opened = socket.read(&mut take).await?;
        // What TLS has to say is said also if it is why it refuses.
        let mut out = Vec::new();
        seal.put_pending(&mut out)?;
        socket.write_all(&out).await?;
        opened?;
        if let Some(hello) = hello {
            return Ok((hello, rest));
        }
        if byte_count > GREETING_BYTES_MAX {
            return Err(LinkError::TooMuch { byte_count });
        }
    }
}
