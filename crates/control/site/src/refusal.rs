//! Why the two ends of a connection do not take each other, as words for whoever asked: what TLS says, with what is known here of
//! the identity and its times.
//!
//! Next: `client`, which asks.

use crate::error::SiteError;
use crate::identity::Identity;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The next step of whoever has an identity that is of no use.
const ANOTHER: &str = "ask the site's administrators for another one (`trimtab site issue`)";

/// When an identity is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    from_s: u64,
    until_s: u64,
}

impl Times {
    /// Always, if they can't be told.
    pub(crate) fn of(identity: &Identity) -> Times {
        let all = Times { from_s: 0, until_s: u64::MAX };
        let told = identity.valid_from_s().and_then(|from_s| Ok(Times { from_s, until_s: identity.valid_until_s()? }));
        told.unwrap_or(all)
    }

    /// Why the controller does not take the identity, by its word or, if it broke off without one, by this host's clock;
    /// `None`: nothing is wrong with the identity that is known here.
    pub(crate) fn why_not_taken(&self, alert: Option<&str>) -> Option<String> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.why_not_taken_at(alert, now_s)
    }

    fn why_not_taken_at(&self, alert: Option<&str>, now_s: u64) -> Option<String> {
        let Some(alert) = alert else { return self.outside(now_s) };
        Some(match alert {
            revoked if revoked.contains("CertificateRevoked") => format!("it was revoked; {ANOTHER}"),
            // An identity whose time has not come yet is refused with the same word.
            expired if expired.contains("CertificateExpired") => self.outside(now_s).unwrap_or_else(|| {
                format!(
                    "it is not valid by the controller's clock, and is by this host's, for {} more: compare the clocks of both",
                    span(self.until_s.saturating_sub(now_s))
                )
            }),
            unknown if unknown.contains("UnknownCA") => format!("it is of another site's authority; {ANOTHER}"),
            other => other.to_owned(),
        })
    }

    /// Why it is not valid by this host's clock, if it isn't.
    fn outside(&self, now_s: u64) -> Option<String> {
        if now_s >= self.until_s {
            return Some(format!("it expired {} ago; {ANOTHER}", span(now_s - self.until_s)));
        }
        let early_s = self.from_s.checked_sub(now_s).filter(|early_s| *early_s > 0)?;
        Some(format!("it becomes valid in {}, by this host's clock: is that right? Else {ANOTHER}", span(early_s)))
    }
}

/// Why the other end is not believed to be the controller.
pub(crate) fn distrust(address: SocketAddr, error: &std::io::Error) -> SiteError {
    let (address, what) = (address.to_string(), error.to_string());
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match tls {
        None => return SiteError::Broken { address, what },
        Some(rustls::Error::InvalidMessage(_)) => return SiteError::NoTls { address },
        Some(rustls::Error::InvalidCertificate(problem)) => match format!("{problem:?}") {
            expired if expired.starts_with("Expired") => {
                "its certificate has expired; the site's administrators issue another one (`trimtab site issue`)"
            }
            other if other.starts_with("UnknownIssuer") || other.starts_with("BadSignature") => {
                "its certificate is of another authority; are the address and the identity those of the same site?"
            }
            name if name.starts_with("NotValidForName") => {
                "its certificate is not that of a controller; is the address right?"
            }
            _ => "its certificate is not good",
        },
        Some(_) => return SiteError::NotTrusted { address, why: what },
    };
    SiteError::NotTrusted { address, why: format!("{why} ({what})") }
}

/// The words of the other end's TLS, if they are why a request failed.
pub(crate) fn alert_of(error: &hyper::Error) -> Option<String> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<rustls::Error>().is_some() {
            return Some(error.to_string());
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && let Some(inner) = io.get_ref()
            && inner.downcast_ref::<rustls::Error>().is_some()
        {
            return Some(inner.to_string());
        }
        cause = error.source();
    }
    None
}

/// A time in its largest unit that is there twice, or in seconds.
fn span(seconds: u64) -> String {
    let units = [("days", 24 * 3600), ("hours", 3600), ("minutes", 60), ("seconds", 1)];
    let fitting = units.iter().find(|(_, unit_s)| seconds >= 2 * unit_s);
    let (name, unit_s) = fitting.unwrap_or(&("seconds", 1));
    format!("{} {name}", seconds / unit_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_an_identity_is_not_taken_is_looked_up() {
        const HOUR: u64 = 3600;
        let (begin, end) = (1000 * HOUR, 2000 * HOUR);
        let times = Times { from_s: begin, until_s: end };
        let expired = Some("received fatal alert: CertificateExpired");
        for (name, alert, now_s, expected) in [
            ("expired", expired, end + 50 * HOUR, Some("it expired 2 days ago; ask the site's administrators")),
            ("expired just now", expired, end, Some("it expired 0 seconds ago")),
            ("early", expired, begin - 3 * HOUR, Some("it becomes valid in 3 hours")),
            ("valid here", expired, end - 90, Some("for 90 seconds more: compare the clocks of both")),
            ("revoked", Some("received fatal alert: CertificateRevoked"), begin, Some("it was revoked; ask")),
            ("unknown", Some("received fatal alert: UnknownCA"), begin, Some("another site's authority")),
            ("anything", Some("received fatal alert: BadRecordMac"), begin, Some("BadRecordMac")),
            ("broken off, expired", None, end + HOUR, Some("it expired 60 minutes ago")),
            ("broken off", None, begin, None),
        ] {
            let why = times.why_not_taken_at(alert, now_s);
            assert_eq!(why.is_some(), expected.is_some(), "{name}: {why:?}");
            assert!(why.clone().is_none_or(|why| expected.is_some_and(|words| why.contains(words))), "{name}: {why:?}");
        }
    }

    #[test]
    fn another_program_at_the_address_is_told_from_another_site() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let of = |error: rustls::Error| distrust(address, &std::io::Error::other(error)).to_string();
        let plain = of(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType));
        assert!(plain.contains("speaks no TLS") && plain.contains("7557"), "{plain}");
        let other = of(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer));
        assert!(other.contains("of another authority"), "{other}");
        let reset = distrust(address, &std::io::Error::from(std::io::ErrorKind::ConnectionReset)).to_string();
        assert!(reset.contains("broke off"), "{reset}");
    }
}
