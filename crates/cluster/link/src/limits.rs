//! Every bound of the driver, with its reason.
//!
//! Next: `trimtab-wire`'s limits for bytes of one connection, `trimtab-overlay`'s for a node's own memory.

use std::time::Duration;

/// How long the other end may take to prove who it is: a handshake behind many others on a busy machine.
pub const GREETING_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a call to an ancestor may take altogether.
pub const DIAL_TIME_MAX: Duration = Duration::from_secs(8);
/// Callers at once that have not proved themselves; one more ends the oldest.
pub const GREETING_COUNT_MAX: usize = 1024;
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
/// Bytes that go with the hello, before the other end has answered it.
pub const FIRST_BYTES_MAX: usize = 16 << 10;
/// Bytes that are encoded before they are written, and that are read at once.
pub const BATCH_BYTES: usize = 64 << 10;
/// A connection that is neither to a parent nor to a child is closed after so long without a frame.
pub const UNUSED_TIME_MAX: Duration = Duration::from_secs(10);
/// Messages that an owner hasn't taken yet; `inbox` says what happens then.
pub const INBOX_COUNT_MAX: usize = 16_384;
/// From here on the tree waits for the owner; what is on its way then still fits for some streams at full speed.
pub const INBOX_BEHIND_COUNT: usize = 1024;
/// Troubles that are remembered.
pub const TROUBLE_COUNT_MAX: usize = 64;
/// Longest file of certificates, keys or a secret.
pub const CREDENTIAL_FILE_BYTES_MAX: u64 = 1 << 20;
/// The kernel's buffer of a TCP connection, in bytes, each way: so many may be in front of a command.
pub const SOCKET_BYTES: u32 = 256 << 10;
/// Connections the kernel may hold until they are accepted: all children of a wide node at once.
pub const BACKLOG: u32 = 4096;
