//! Every bound of a connection's bytes, and the order in which they must stand.
//!
//! Next: `chunk` and `hello`, where they hold.

/// The length of a hello, always.
pub const HELLO_BYTES: usize = 36;
/// The length of the header before each chunk.
pub const HEADER_BYTES: usize = 4;
/// Longest payload of a chunk: what a command may have to wait for behind a result.
pub const CHUNK_BYTES_MAX: usize = 16 << 10;
/// Longest message: a little more than the tree's longest frame, which its own decoder checks again.
pub const MESSAGE_BYTES_MAX: usize = 9 << 20;

// Somebody who hasn't said hello can make us keep less than a chunk; who has, a message per lane and a chunk.
const _: () = assert!(HEADER_BYTES < HELLO_BYTES);
const _: () = assert!(HELLO_BYTES < CHUNK_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX < 1 << 24, "three bytes of the header say the length");
