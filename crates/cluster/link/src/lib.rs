//! The tree's driver: sockets, TLS, clocks and queues around the state machine of `trimtab-overlay`.
//!
//! A [`RunningNode`] is one place in the tree: it listens for children, calls its ancestors in order, gives frames and time to
//! the machine and does what it says. Its tasks run on tokio and share it under one lock: one per connection, which reads
//! and writes, one that keeps the time, one that takes calls, and one per greeting.
//!
//! - **No end is heard before it has proved who it is:** TCP is always mutual TLS by rustls, with a site's authority or
//!   with one that the job's secret makes ([`Credentials`]); at a Unix socket the kernel names the other end's user.
//!   Unproven connections are bounded in number, bytes and time.
//! - **Results never delay commands:** they share a connection, but commands go first, and between the chunks of a
//!   long result. A second connection would double the sockets of a large tree for a chunk's time.
//! - **Every queue is bounded** ([`limits`]), and a full one makes its producer wait, up to `Busy` at root and leaves.
//! - **Owners choose:** an [`Owner`] is called where an event happens, an [`Inbox`] keeps events for an `async` program
//!   or for a plain thread ([`blocking`]).
//!
//! Next: [`node`] to start one, [`handle`] for its owner's requests, `core`, `driver` and `link` for its inside.
#![forbid(unsafe_code)]

pub mod address;
pub mod blocking;
mod connection;
mod core;
pub mod credentials;
mod driver;
pub mod error;
mod greet;
pub mod handle;
pub mod inbox;
pub mod limits;
mod link;
mod listener;
pub mod node;
pub mod owner;
mod queue;
pub mod secret;
mod socket;

pub use address::{Address, BadAddress, Contact};
pub use credentials::Credentials;
pub use error::{LinkError, Trouble};
pub use handle::Handle;
pub use inbox::{Inbox, inbox};
pub use listener::Listener;
pub use node::{Config, RunningNode, incarnation_now};
pub use owner::{Hand, Owner};
pub use secret::JobSecret;
