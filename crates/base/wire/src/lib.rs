//! How messages of our programs become the bytes of a connection, and how they are found again in bytes from anybody.
//!
//! A connection begins with a [`Hello`] of fixed length in each direction, which says the protocol's version before
//! anything else, so that two versions can tell each other. After it come *chunks*: four bytes of header and a bounded
//! payload. A message of one chunk, as nearly all are, is handed over where it lies. Longer ones are cut, and since
//! each chunk names its [`Lane`], commands pass between the chunks of a long result: at most one chunk is in front.
//!
//! Nothing is allocated because a header claims a length; only bytes that have arrived are kept, and no more than a
//! message may have. Here are bytes and values only: whoever owns the socket feeds a [`Decoder`].
//!
//! Next: [`hello`], [`chunk`] for both directions, [`limits`] for every bound and their order.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod hello;
pub mod limits;

pub use chunk::{BadBytes, Decoder, Lane, Message, put_message};
pub use hello::{BadHello, Hello, HelloReader, Role, VERSION};
