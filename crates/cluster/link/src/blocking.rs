//! A node for programs of plain threads: it runs on a thread of its own, and its owner waits when it likes.
//!
//! Next: `inbox` for the owner's messages.

use crate::address::Address;
use crate::error::LinkError;
use crate::handle::Handle;
use crate::inbox::{Inbox, inbox};
use crate::listener::Listener;
use crate::node::{Config, RunningNode};
use crate::owner::Owner;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use trimtab_overlay::Told;

/// A node on a thread of its own, which ends with this.
pub struct Hosted {
    handle: Handle,
    address: Option<Address>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    /// Starts a node; `listen` is where it awaits children, in place of the configuration's listener, and `owner` is
    /// called on the node's thread.
    ///
    /// # Errors
    /// When it can't begin, as for [`RunningNode::start`], or can't listen.
    pub fn start(mut config: Config, listen: Option<Address>, owner: impl Owner + 'static) -> Result<Self, LinkError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("trimtab-link".to_owned()).spawn(move || {
            runtime.block_on(async {
                let begun = async {
                    if let Some(listen) = listen {
                        config.listener = Some(Listener::bind(&listen).await?);
                    }
                    let address = config.listener.as_ref().map(|listener| listener.address().clone());
                    Ok((RunningNode::start(config, owner)?, address))
                };
                let begun: Result<(Handle, Option<Address>), LinkError> = begun.await;
                let handle = begun.as_ref().ok().map(|(handle, _)| handle.clone());
                // The thread that started this may be gone. Then nobody holds the node, and it ends.
                let is_awaited = answer.send(begun).is_ok();
                if let Some(handle) = handle.filter(|_| is_awaited) {
                    handle.ended().await;
                }
            });
        })?;
        let (handle, address) = answered.recv().map_err(|_| LinkError::Closed)??;
        Ok(Hosted { handle, address, thread: Some(thread) })
    }

    /// Where it awaits children.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// The node, to ask something of it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed by its own thread.
            let _ended = thread.join();
        }
    }
}

/// A node on a thread of its own, with an inbox.
pub struct Blocking {
    hosted: Hosted,
    inbox: Inbox,
}

impl Blocking {
    /// As [`Hosted::start`], with an owner that keeps what it is told.
    ///
    /// # Errors
    /// As [`Hosted::start`].
    pub fn start(config: Config, listen: Option<Address>) -> Result<Self, LinkError> {
        let (filler, inbox) = inbox();
        Ok(Blocking { hosted: Hosted::start(config, listen, filler)?, inbox })
    }

    /// Where it awaits children.
    pub fn address(&self) -> Option<&Address> {
        self.hosted.address()
    }

    /// The node, to ask something of it.
    pub fn handle(&self) -> &Handle {
        self.hosted.handle()
    }

    /// The next thing that has happened; none if nothing did in time.
    pub fn wait(&self, time_max: Duration) -> Option<Told> {
        self.inbox.wait(time_max)
    }

    /// How many things were dropped because nobody took them.
    pub fn dropped_count(&self) -> u64 {
        self.inbox.dropped_count()
    }
}
