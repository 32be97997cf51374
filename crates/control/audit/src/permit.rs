//! Permission to measure or change a process: its owner has it, or an administrator.
//!
//! Asked where the process runs, of what the kernel says about the process at that moment. The user who asks is told
//! by that which proved it: the kernel for a user's own command, a certificate for a request from elsewhere.
//!
//! Next: `lib.rs` for what is written down.

use std::fmt;
use trimtab_types::Pid;

/// The user who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The user's number.
    pub uid: u32,
    /// The user's name, where it is known.
    pub name: Option<String>,
    /// May measure everybody's processes.
    pub is_administrator: bool,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {pid} belongs to user {owner}, and {by} asks: only its owner or an administrator may measure it")]
pub struct Denied {
    /// Which process.
    pub pid: Pid,
    /// Its user.
    pub owner: u32,
    /// The user who asked.
    pub by: String,
}

impl Requester {
    /// Whoever runs this program.
    pub fn myself() -> Self {
        let uid = rustix::process::geteuid();
        Requester { uid: uid.as_raw(), name: std::env::var("USER").ok(), is_administrator: uid.is_root() }
    }

    /// Checks that a process of user `owner` may be measured.
    ///
    /// # Errors
    /// [`Denied`] says who owns it and who asked.
    pub fn may_measure(&self, pid: Pid, owner: u32) -> Result<(), Denied> {
        if self.is_administrator || self.uid == owner {
            return Ok(());
        }
        Err(Denied { pid, owner, by: self.to_string() })
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "user {} ({name})", self.uid),
            None => write!(f, "user {}", self.uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_administrators_may() {
        let requester = |uid, is_administrator| Requester { uid, name: None, is_administrator };
        for (name, requester, owner, may) in [
            ("owner", requester(7, false), 7, true),
            ("another", requester(8, false), 7, false),
            ("an administrator", requester(8, true), 7, true),
            ("nobody's root", requester(8, false), 0, false),
            ("root without the right", requester(0, false), 7, false),
        ] {
            assert_eq!(requester.may_measure(Pid(1), owner).is_ok(), may, "{name}");
        }
        let denied = requester(8, false).may_measure(Pid(41), 7).expect_err("not the owner").to_string();
        assert!(denied.contains("process 41 belongs to user 7, and user 8 asks"), "{denied}");
    }
}
