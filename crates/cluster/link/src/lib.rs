//! The tree's driver: what turns the state machine of `trimtab-overlay` into a program that talks.
//!
//! A [`Node`] owns one place in the tree: it listens for children, calls its ancestors in order, feeds frames and time
//! to the machine and does what it says. Everything of a node happens under one lock, on one thread: a task that keeps
//! the time, reads and writes, once for all that has gathered since it last did, and one for each greeting.
//!
//! - **Nobody is heard who hasn't proved who they are:** TCP is always mutual TLS, with a site's authority or with one
//!   that the job's secret makes ([`Credentials`]); a Unix socket asks the kernel for the other end's user.
//!   What isn't proven yet is bounded in number, bytes and time. Nodes that find themselves on one host (`near`) have
//!   both, and go on through memory that they share.
//! - **Results never delay commands:** they share a connection, but commands go first, and between the chunks of a
//!   long result. A second connection would double the sockets of a large tree for a chunk's time.
//! - **Every queue is bounded** ([`limits`]), and a full one is felt by whoever fills it, as `Busy` at root and leaves.
//! - **Owners choose:** an [`Owner`] is called where things happen, an [`Inbox`] keeps them for an `async` program or
//!   for a plain thread ([`blocking`]).
//!
//! Next: [`node`] to start one, [`handle`] for what its owner may ask, `core` and `driver` for what happens inside.
#![forbid(unsafe_code)]

pub mod address;
mod awake;
pub mod blocking;
mod core;
pub mod credentials;
mod driver;
pub mod ends;
pub mod error;
mod events;
mod greet;
pub mod handle;
pub mod inbox;
pub mod limits;
mod line;
mod link;
mod memory;
mod near;
pub mod node;
mod records;
mod ring;
mod seal;
pub mod secret;
mod socket;

pub use address::{Address, Contact, Listener};
pub use credentials::Credentials;
pub use error::{LinkError, Trouble};
pub use handle::{Hand, Handle, Owner};
pub use inbox::{Inbox, inbox};
pub use node::{Config, Node, Vicinity, incarnation_now};
pub use secret::JobSecret;
