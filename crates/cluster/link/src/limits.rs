//! Every bound of the driver, with its reason.
//!
//! Next: `trimtab-wire`'s limits for bytes of one connection, `trimtab-overlay`'s for what a node keeps.

use std::time::Duration;

/// How long the other end may take to prove who it is: a handshake behind many others on a busy machine.
pub const GREETING_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a call to an ancestor may take altogether.
pub const DIAL_TIME_MAX: Duration = Duration::from_secs(8);
/// Connections at once of which nobody knows yet whose they are; one more ends the oldest.
pub const GREETING_COUNT_MAX: usize = 1024;
/// Calls that a node takes before it does something else.
pub const CALLS_AT_ONCE: usize = 64;
/// Bytes that are read of a connection before it has proved itself: certificates and a hello.
pub const GREETING_BYTES_MAX: usize = 48 << 10;
/// Connections of one node: a flat tree of a few thousand leaves.
pub const LINK_COUNT_MAX: usize = 16 << 10;
/// Commands that wait for one connection; the machine itself sends no more than its log and some beats.
pub const COMMANDS_WAITING_MAX: usize = 1024;
/// Results that wait for one connection; credit allows fewer.
pub const RESULTS_WAITING_MAX: usize = 1024;
/// Frames for an ancestor that is being called.
pub const DIALING_FRAMES_MAX: usize = 64;
/// Connections of a node through memory; those of one host beyond them stay with their sockets.
pub const SHARED_COUNT_MAX: usize = 256;
/// What is said with the hello, in bytes, before the other end has answered it.
pub const FIRST_BYTES_MAX: usize = 16 << 10;
/// What is encoded before it is written, and what is read at once, in bytes.
pub const BATCH_BYTES: usize = 64 << 10;
/// A connection that is neither to a parent nor to a child is closed after so long without a frame.
pub const UNUSED_TIME_MAX: Duration = Duration::from_secs(10);
/// What an owner hasn't taken yet; see `inbox` for what happens then.
pub const INBOX_COUNT_MAX: usize = 16_384;
/// From here on the tree waits for the owner; what is on its way then still fits for some streams at full speed.
pub const INBOX_BEHIND_COUNT: usize = 1024;
/// Troubles that are remembered.
pub const TROUBLE_COUNT_MAX: usize = 64;
/// Longest file of certificates, keys or a secret.
pub const CREDENTIAL_FILE_BYTES_MAX: u64 = 1 << 20;
/// The kernel's buffer of a TCP connection, in bytes, each way: what commands may have to wait behind.
pub const SOCKET_BYTES: u32 = 256 << 10;
/// Connections the kernel may hold until they are accepted: all children of a wide node at once.
pub const BACKLOG: u32 = 4096;
/// A wait that is stayed awake for, at most: about what a few processors take to be woken one after the other.
pub const AWAKE_TIME_MAX: Duration = Duration::from_micros(100);
/// Before that time others are not offered the processor in such a wait.
pub const ALONE_TIME_MAX: Duration = Duration::from_micros(3);
/// So many waits in a row must have been as short before one is stayed awake for.
pub const AWAKE_WAITS_MIN: u32 = 4;
/// Where the processor turned out to be wanted by others it takes twice as many each time, up to this.
pub const AWAKE_WAITS_MAX: u32 = 4096;
/// Who offered its processor to others and was away for so long shares it with a program that computes.
pub const CROWDED_TIME_MIN: Duration = Duration::from_micros(100);
/// A node that stays awake asks its connections one by one if it has no more than these.
pub const LOOK_LINKS_MAX: usize = 4;
/// So often, before other tasks of the thread have their turn.
pub const LOOKS_AT_ONCE: usize = 4;
