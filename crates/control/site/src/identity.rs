//! One part's identity: its key, its certificate and the authority it trusts, in one file that only its owner may read.
//!
//! Next: `authority`, which writes such files; `client` and the controller, which prove themselves with them.

use crate::error::SiteError;
use crate::revoked::Revoked;
use crate::role::Role;
use crate::{REVOKED_FILE, REVOKED_VARIABLE};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trimtab_link::Credentials;
use trimtab_link::credentials::SiteIdentity;
use trimtab_link::limits::CREDENTIAL_FILE_BYTES_MAX;
use trimtab_link::secret::private_file;

/// A moment after every certificate's end: the year 2500.
const LATER_S: u64 = 16_725_225_600;

/// A certificate with its key: it says who somebody is at a site, and proves it.
pub struct Identity {
    path: PathBuf,
    role: Role,
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    revoked: Option<Arc<Revoked>>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("path", &self.path).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads it; from standard input for `-`, which a service manager opens for a program that may not.
    ///
    /// # Errors
    /// When there is no such file, others may read it, or it holds something else.
    pub fn load(path: &Path) -> Result<Self, SiteError> {
        let text = match path == Path::new("-") {
            true => {
                let mut text = Vec::new();
                std::io::stdin().lock().take(CREDENTIAL_FILE_BYTES_MAX).read_to_end(&mut text)?;
                text
            }
            false if !path.exists() => return Err(SiteError::NoIdentity { path: path.to_owned() }),
            false => private_file(path)?,
        };
        let wrong = |what: String| SiteError::File { path: path.to_owned(), what };
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| wrong(format!("{error}: no private key")))?;
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("{error}: no certificate")))?;
        let Ok([certificate, authority]) = <[CertificateDer<'static>; 2]>::try_from(certificates) else {
            return Err(wrong("expected a key, a certificate and the authority's: `trimtab site issue`".to_owned()));
        };
        let role = Role::of(&certificate)?;
        Ok(Identity { path: path.to_owned(), role, authority, certificate, key, revoked: None })
    }

    /// Reads a person's, for a command: a controller on the list that this host has, if it has one, is not spoken to. The
    /// list is the file that `$TRIMTAB_REVOKED` names, or [`REVOKED_FILE`].
    ///
    /// # Errors
    /// As [`Identity::load`] and [`Identity::refusing`].
    pub fn of_command(path: &Path) -> Result<Self, SiteError> {
        let named = std::env::var_os(REVOKED_VARIABLE).filter(|name| !name.is_empty());
        let list = named.map_or_else(|| PathBuf::from(REVOKED_FILE), PathBuf::from);
        Identity::load(path)?.refusing(&list)
    }

    /// The same, refusing from now on whoever stands on the list in this file, now or later.
    ///
    /// # Errors
    /// A file that is no list of the authority's, or has this identity on it. One that isn't there yet is no error.
    pub fn refusing(self, list: &Path) -> Result<Self, SiteError> {
        let revoked = Revoked::open(list, &self.authority, &self.certificate)?;
        Ok(Identity { revoked: Some(revoked), ..self })
    }

    /// The list of those it refuses, if it has one.
    pub fn revoked(&self) -> Option<&Arc<Revoked>> {
        self.revoked.as_ref()
    }

    /// Its role.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The file it is from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same, if its role is one of the right kind.
    ///
    /// # Errors
    /// [`SiteError::WrongRole`] says which is needed.
    pub fn only(self, wanted: &'static str, is_right: impl FnOnce(&Role) -> bool) -> Result<Self, SiteError> {
        if is_right(&self.role) {
            return Ok(self);
        }
        Err(SiteError::WrongRole { path: self.path, role: self.role, wanted })
    }

    /// Until when it is valid, in seconds since 1970; an error if the authority did not make it.
    ///
    /// # Errors
    /// The certificate's fault, in TLS's words.
    pub fn valid_until_s(&self) -> Result<u64, SiteError> {
        let at = |seconds| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            self.verifier()?.verify_client_cert(&self.certificate, &[], time)
        };
        match at(LATER_S) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                // Everything else that may be wrong shows at a moment when it is valid.
                at(not_after.as_secs())?;
                Ok(not_after.as_secs())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(LATER_S),
        }
    }

    /// For how many seconds it was made: from the beginning of its time to its end.
    ///
    /// # Errors
    /// As [`Identity::valid_until_s`].
    pub fn lifetime_s(&self) -> Result<u64, SiteError> {
        Ok(self.valid_until_s()?.saturating_sub(self.valid_from_s()?))
    }

    /// From when on it is valid, in seconds since 1970.
    ///
    /// # Errors
    /// As [`Identity::valid_until_s`].
    pub fn valid_from_s(&self) -> Result<u64, SiteError> {
        let begin = UnixTime::since_unix_epoch(Duration::ZERO);
        match self.verifier()?.verify_client_cert(&self.certificate, &[], begin) {
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
                Ok(not_before.as_secs())
            }
            _ => Ok(0),
        }
    }

    /// For asking the controller: proves this role and accepts only the controller's.
    ///
    /// # Errors
    /// When the key isn't the certificate's.
    pub fn client(&self) -> Result<ClientConfig, SiteError> {
        let config =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13])?;
        let config = match &self.revoked {
            Some(revoked) => config.dangerous().with_custom_certificate_verifier(revoked.verifiers().called),
            None => config.with_root_certificates(self.roots()?),
        };
        let mut config = config.with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// For being asked: whoever calls must have a certificate of the same authority.
    ///
    /// # Errors
    /// When the key isn't the certificate's.
    pub fn server(&self) -> Result<ServerConfig, SiteError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(match &self.revoked {
                Some(revoked) => revoked.verifiers().callers,
                None => self.verifier()?,
            })
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        (config.send_tls13_tickets, config.session_storage) = (0, Arc::new(NoServerSessionStorage {}));
        Ok(config)
    }

    /// For the tree: only agents of nodes may call.
    ///
    /// # Errors
    /// When the key isn't the certificate's.
    pub fn credentials(&self) -> Result<Credentials, SiteError> {
        let site = SiteIdentity {
            authority: self.authority.clone(),
            chain: vec![self.certificate.clone()],
            key: self.key.clone_key(),
            may_call: |certificate| matches!(Role::of(certificate), Ok(Role::Node { .. })),
            verifiers: self.revoked.as_ref().map(Revoked::verifiers),
        };
        Ok(Credentials::of_site(site)?)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        Ok(Arc::new(roots))
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider()).build();
        verifier.map_err(|error| rustls::Error::General(error.to_string()))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
