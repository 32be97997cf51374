//! The role that somebody has at a site, as the name in a certificate.
//!
//! The names are of a domain that is never looked up. A certificate has exactly one of them: two roles in one would let
//! whoever checks the first one trust the second.
//!
//! Next: `identity` for certificates that hold them, `authority` for making these.

use rustls::pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;

/// The names of all roles end with this.
const DOMAIN: &str = ".trimtab.internal";
const CONTROLLER: &str = "controller";

/// A certificate names no role, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate names {}; issue one with `trimtab site issue`", listed(names))]
pub struct NoRole {
    /// The names in it.
    pub names: Vec<String>,
}

/// Text that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no role: write controller, node:HOST, user:UID, administrator:UID or scheduler:UID")]
pub struct BadRole {
    /// The text that was given.
    pub text: String,
}

/// A role: it decides what its holder may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The site's service.
    Controller,
    /// The standing agent of a host.
    Node {
        /// The host's name, as the batch system knows it.
        host: String,
    },
    /// A user, who may measure their own processes.
    User {
        /// The user's number.
        uid: u32,
    },
    /// Somebody who may measure everybody's processes.
    Administrator {
        /// The user's number.
        uid: u32,
    },
    /// A scheduler, which may have the jobs measured of those who accepted it, and see these.
    Scheduler {
        /// The number of the user as which it runs.
        uid: u32,
    },
}

impl Role {
    /// The role that a certificate names. TLS has decided before if the certificate is to be believed.
    ///
    /// # Errors
    /// [`NoRole`] if it names none, or more than one.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Role, NoRole> {
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| NoRole { names: Vec::new() })?;
        let names: Vec<String> = parsed.valid_dns_names().map(str::to_owned).collect();
        match names.as_slice() {
            [name] => Role::of_name(name).ok_or(NoRole { names }),
            _ => Err(NoRole { names }),
        }
    }

    /// Its name in a certificate.
    pub fn name(&self) -> String {
        match self {
            Role::Controller => format!("{CONTROLLER}{DOMAIN}"),
            Role::Node { host } => format!("{host}.node{DOMAIN}"),
            Role::User { uid } => format!("{uid}.user{DOMAIN}"),
            Role::Administrator { uid } => format!("{uid}.administrator{DOMAIN}"),
            Role::Scheduler { uid } => format!("{uid}.scheduler{DOMAIN}"),
        }
    }

    /// True if others call it, so that it proves itself as a server too.
    pub fn is_called(&self) -> bool {
        matches!(self, Role::Controller | Role::Node { .. })
    }

    fn of_name(name: &str) -> Option<Role> {
        let inside = name.strip_suffix(DOMAIN)?;
        if inside == CONTROLLER {
            return Some(Role::Controller);
        }
        let (what, kind) = inside.rsplit_once('.')?;
        // One way to write a number, so that one user has one name.
        let uid = || what.parse().ok().filter(|uid: &u32| uid.to_string() == what);
        match kind {
            "node" if is_host(what) => Some(Role::Node { host: what.to_owned() }),
            "user" => Some(Role::User { uid: uid()? }),
            "administrator" => Some(Role::Administrator { uid: uid()? }),
            "scheduler" => Some(Role::Scheduler { uid: uid()? }),
            _ => None,
        }
    }
}

/// True if a host's name can stand in a certificate.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 200 && name.split('.').all(is_label)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Controller => write!(f, "the controller"),
            Role::Node { host } => write!(f, "the agent of {host}"),
            Role::User { uid } => write!(f, "user {uid}"),
            Role::Administrator { uid } => write!(f, "administrator {uid}"),
            Role::Scheduler { uid } => write!(f, "scheduler {uid}"),
        }
    }
}

/// As people write it: `controller`, `node:HOST`, `user:UID`, `administrator:UID`, `scheduler:UID`.
impl FromStr for Role {
    type Err = BadRole;

    fn from_str(text: &str) -> Result<Role, BadRole> {
        let name = match text.split_once(':') {
            None => format!("{text}{DOMAIN}"),
            Some((kind, what)) => format!("{what}.{kind}{DOMAIN}"),
        };
        Role::of_name(&name).ok_or_else(|| BadRole { text: text.to_owned() })
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no role".to_owned() } else { format!("not one role but {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for text in ["controller", "node:n1", "node:n1.site.org", "user:1001", "administrator:0", "scheduler:990"] {
            let role: Role = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(Role::of_name(&role.name()), Some(role), "{text}");
        }
    }

    #[test]
    fn what_is_no_role_is_refused() {
        for text in
            ["", "user", "user:", "user:root", "user:01", "user:-1", "user:+1", "user:4294967296", "node:", "node:a_b"]
        {
            assert!(text.parse::<Role>().is_err(), "{text}");
        }
        for name in ["node.trimtab.internal", "controller.trimtab.internal.org", "7.root.trimtab.internal", "a.node"] {
            assert_eq!(Role::of_name(name), None, "{name}");
        }
        // A host can't be called so that it becomes a user.
        let role: Role = "node:7.user".parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Role::of_name(&role.name()), Some(Role::Node { host: "7.user".to_owned() }));
    }
}
