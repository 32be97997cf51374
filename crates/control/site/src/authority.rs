//! A site's authority: a folder with a key, from which identities are issued.
//!
//! The folder belongs to the site's administrators, on a host of theirs; no part of trimtab reads it but `trimtab site`.
//! The authority's certificate can sign identities and nothing else: no further authority.
//!
//! Next: `role` for what identities are of, `identity` for how they are used.

use crate::error::SiteError;
use crate::role::Role;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use trimtab_link::secret::private_file;

/// The authority's key, and its certificate, in its folder.
const KEY_FILE: &str = "authority-key.pem";
const CERTIFICATE_FILE: &str = "authority.pem";
/// Hosts' clocks differ by less.
const CLOCK_SLACK: Duration = Duration::from_secs(24 * 3600);
/// The authority outlives what it issues.
const VALID_FOR: Duration = Duration::from_secs(20 * 365 * 24 * 3600);

/// Who can issue identities.
pub struct Authority {
    folder: PathBuf,
    key: KeyPair,
    certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes one in a folder, which only its owner can look into.
    ///
    /// # Errors
    /// [`SiteError::Exists`] if there is one already, or what can't be written.
    pub fn create(folder: &Path) -> Result<Self, SiteError> {
        let key_path = folder.join(KEY_FILE);
        if key_path.exists() {
            return Err(SiteError::Exists { path: folder.to_owned() });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(folder, &error))?;
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let certificate = certificate_of_authority().self_signed(&key)?.pem();
        write_private(&key_path, &key.serialize_pem())?;
        write_private(&folder.join(CERTIFICATE_FILE), &certificate)?;
        Ok(Authority { folder: folder.to_owned(), key, certificate })
    }

    /// The one in a folder.
    ///
    /// # Errors
    /// What can't be read, or that others may read the key.
    pub fn open(folder: &Path) -> Result<Self, SiteError> {
        let text = |name: &str| {
            let path = folder.join(name);
            let text = private_file(&path)?;
            String::from_utf8(text).map_err(|_| SiteError::File { path, what: "expected a PEM file".to_owned() })
        };
        let key = KeyPair::from_pem(&text(KEY_FILE)?)?;
        Ok(Authority { folder: folder.to_owned(), key, certificate: text(CERTIFICATE_FILE)? })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Issues an identity, valid from now on for so long, into a new file.
    ///
    /// # Errors
    /// When there is such a file already, or it can't be written.
    pub fn issue(&self, role: &Role, valid_for: Duration, path: &Path) -> Result<(), SiteError> {
        let now = SystemTime::now();
        self.issue_between(role, now - CLOCK_SLACK, now + valid_for, path)
    }

    /// As [`Authority::issue`], valid for a given time; tests make expired ones.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_between(
        &self,
        role: &Role,
        from: SystemTime,
        until: SystemTime,
        path: &Path,
    ) -> Result<(), SiteError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut own = CertificateParams::new([role.name()])?;
        own.distinguished_name.push(DnType::CommonName, role.to_string());
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.is_called() {
            own.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        (own.not_before, own.not_after) = (from.into(), until.into());
        let certificate = own.signed_by(&key, &Issuer::new(certificate_of_authority(), &self.key))?;
        write_private(path, &format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.certificate))
    }
}

/// The same each time, so that what is issued names its issuer.
fn certificate_of_authority() -> CertificateParams {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "trimtab site authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let now = SystemTime::now();
    (authority.not_before, authority.not_after) = ((now - CLOCK_SLACK).into(), (now + VALID_FOR).into());
    authority
}

/// Writes a new file that only its owner may read.
fn write_private(path: &Path, text: &str) -> Result<(), SiteError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> SiteError {
    SiteError::File { path: path.to_owned(), what: error.to_string() }
}
