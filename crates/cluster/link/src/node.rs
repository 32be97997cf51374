//! Starting a node.
//!
//! Next: `handle` for its use, `core` for its state.

use crate::address::Contact;
use crate::core::{Core, Shared};
use crate::credentials::Credentials;
use crate::driver::{Ends, drive, take_calls};
use crate::error::LinkError;
use crate::greet::Identity;
use crate::handle::Handle;
use crate::listener::Listener;
use crate::owner::Owner;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_overlay::{NodeId, Setup};
use trimtab_wire::Role;

/// 2025-01-01, from where lives are counted, in seconds of 1970.
const EPOCH_SECONDS: u64 = 1_735_689_600;
/// Tenths of a second in one.
const TENTHS: u64 = 10;

/// The configuration of a node.
pub struct Config {
    /// Its place, as the machine wants it.
    pub setup: Setup,
    /// Which tree it is of: any number that its nodes share and others don't.
    pub tree: u64,
    /// Takes the calls of children; none at a leaf.
    pub listener: Option<Listener>,
    /// How its ancestors are reached, in the order of `setup.ancestors`.
    pub contacts: Vec<Contact>,
    /// For TCP; a Unix socket asks the kernel for the user.
    pub credentials: Option<Arc<Credentials>>,
}

/// Starts nodes.
pub struct RunningNode;

impl RunningNode {
    /// Starts a node on the current runtime, which must have time and I/O. It runs until [`Handle::stop`].
    ///
    /// # Errors
    /// When an address needs credentials that aren't there, or ancestors and addresses don't match.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(config: Config, owner: impl Owner + 'static) -> Result<Handle, LinkError> {
        let Config { setup, tree, listener, contacts, credentials } = config;
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
        let identity = Arc::new(Identity {
            tree,
            id: setup.id,
            incarnation: setup.incarnation,
            role,
            ancestors: ancestors.clone(),
            credentials,
            user: rustix::process::geteuid().as_raw(),
        });
        let machine = trimtab_overlay::Node::new(setup);
        let contacts = ancestors.into_iter().zip(contacts).collect();
        let shared = Arc::new(Shared::new(Core::new(machine, Box::new(owner), contacts)));
        let listens = listener
            .map(|listener| Ends(tokio::spawn(take_calls(shared.clone(), identity.clone(), listener)).abort_handle()));
        tokio::spawn(drive(shared.clone(), identity, listens));
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
