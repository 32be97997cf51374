//! Starting a node.
//!
//! Next: `handle` for what to do with it, `core` for what it does by itself.

use crate::address::{Contact, Listener};
use crate::core::{Core, Shared};
use crate::credentials::Credentials;
use crate::driver::Driver;
use crate::error::LinkError;
use crate::events::Events;
use crate::greet::Identity;
use crate::handle::{Handle, Owner};
use crate::memory::Post;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_overlay::{NodeId, Setup};
use trimtab_wire::Role;

/// 2025-01-01, from where lives are counted, in seconds of 1970.
const EPOCH_SECONDS: u64 = 1_735_689_600;
/// Tenths of a second in one.
const TENTHS: u64 = 10;

/// What a node needs to begin.
pub struct Config {
    /// Its place, as the machine wants it.
    pub setup: Setup,
    /// Which tree it is of: any number that its nodes share and others don't.
    pub tree: u64,
    /// Where children are awaited; none at a leaf.
    pub listener: Option<Listener>,
    /// How its ancestors are reached, in the order of `setup.ancestors`.
    pub contacts: Vec<Contact>,
    /// For TCP; a Unix socket asks the kernel for the user.
    pub credentials: Option<Arc<Credentials>>,
    /// How nodes of this host and user that have TCP addresses meet.
    pub vicinity: Vicinity,
}

/// How nodes of one host and user meet that could meet by TCP. TLS is spoken everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vicinity {
    /// As nodes of different hosts.
    Tcp,
    /// At Unix sockets.
    Sockets,
    /// At Unix sockets, and what follows the proof of who they are goes through memory that both map: fastest, for 64
    /// KiB of it and one or two more open files per connection.
    #[default]
    Memory,
}

/// Starts nodes.
pub struct Node;

impl Node {
    /// Starts a node on the current runtime, which must be one of a single thread, with time and I/O. It runs until
    /// [`Handle::stop`].
    ///
    /// # Errors
    /// When an address needs credentials that aren't there, or ancestors and addresses don't match.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(config: Config, owner: impl Owner + 'static) -> Result<Handle, LinkError> {
        Node::begin(config, owner, false)
    }

    /// As [`Node::start`]; a node that is alone has the runtime, and its thread, to itself.
    pub(crate) fn begin(config: Config, owner: impl Owner + 'static, is_alone: bool) -> Result<Handle, LinkError> {
        let Config { setup, tree, mut listener, contacts, credentials, vicinity } = config;
        let meets_near = vicinity != Vicinity::Tcp;
        check(&listener, &contacts, credentials.is_some())?;
        let ancestors: Vec<NodeId> = setup.ancestors.clone();
        if ancestors.len() != contacts.len() {
            return Err(LinkError::Contacts { ancestors: ancestors.len(), contacts: contacts.len() });
        }
        let role = match (ancestors.is_empty(), &listener) {
            (true, _) => Role::Root,
            (false, Some(_)) => Role::Inner,
            (false, None) => Role::Leaf,
        };
        let user = rustix::process::geteuid().as_raw();
        if let Some(listener) = listener.as_mut().filter(|_| meets_near) {
            listener.await_near(tree, setup.id);
        }
        let events = Arc::new(Events::new()?);
        // Without it they stay with their sockets.
        let post = (vicinity == Vicinity::Memory).then(|| Post::new(&events).ok().map(Arc::new)).flatten();
        let identity = Identity {
            tree,
            id: setup.id,
            incarnation: setup.incarnation,
            role,
            ancestors: ancestors.clone(),
            credentials,
            user,
            meets_near,
            post: post.clone(),
        };
        let identity = Arc::new(identity);
        let machine = trimtab_overlay::Node::new(setup);
        let contacts = ancestors.into_iter().zip(contacts).collect();
        let shared = Arc::new(Shared::new(Core::new(machine, Box::new(owner), contacts, events.clone(), post)));
        tokio::spawn(Driver::new(shared.clone(), identity, events, listener, is_alone)?);
        Ok(Handle { shared })
    }
}

/// There is no TCP without proof of who is at the other end.
fn check(listener: &Option<Listener>, contacts: &[Contact], has_credentials: bool) -> Result<(), LinkError> {
    let addresses = listener.iter().map(Listener::address).chain(contacts.iter().map(|contact| &contact.address));
    for address in addresses {
        if matches!(address, crate::Address::Tcp(_)) && !has_credentials {
            return Err(LinkError::NoCredentials { address: address.clone() });
        }
    }
    Ok(())
}

/// A number for a node's life that is higher than that of any earlier one, if they are a tenth of a second apart.
pub fn incarnation_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tenths = since.as_secs().saturating_sub(EPOCH_SECONDS) * TENTHS + u64::from(since.subsec_millis()) / 100;
    tenths as u32
}
