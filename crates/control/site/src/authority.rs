//! A site's authority: a folder with a key, from which identities are issued.
//!
//! The folder belongs to the site's administrators, on a host of theirs; no part of trimtab reads it but `trimtab site`.
//! The authority's certificate can sign identities and lists of revoked ones, and nothing else: no further authority.
//!
//! Next: `role` for what identities are of, `identity` for how they are used, `register` for what is noted of them.

use crate::error::SiteError;
use crate::register::{self, Noted, Serial};
use crate::role::Role;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trimtab_link::secret::private_file;

/// The keys that are made. OpenSSL 3.0, and so the curl and Python of many sites, can't read Ed25519 keys as our library
/// writes them (PKCS#8, version 2). Keys of that kind that were issued before are as good as ever.
const KEYS: &rcgen::SignatureAlgorithm = &rcgen::PKCS_ECDSA_P256_SHA256;
/// The authority's key, and its certificate, in its folder.
const KEY_FILE: &str = "authority-key.pem";
const CERTIFICATE_FILE: &str = "authority.pem";
/// The signed list of what was revoked, unless it is to be elsewhere.
const LIST_FILE: &str = "revoked.pem";
/// Hosts' clocks differ by less.
const CLOCK_SLACK: Duration = Duration::from_secs(24 * 3600);
/// The authority outlives what it issues.
const VALID_FOR: Duration = Duration::from_secs(20 * 365 * 24 * 3600);

/// An authority can issue identities.
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
        let key = KeyPair::generate_for(KEYS)?;
        let certificate = certificate_of_authority().self_signed(&key)?.pem();
        write_private(&key_path, &key.serialize_pem())?;
        write_private(&folder.join(CERTIFICATE_FILE), &certificate)?;
        Ok(Authority { folder: folder.to_owned(), key, certificate })
    }

    /// The one in a folder.
    ///
    /// # Errors
    /// A file that can't be read, or a key that others may read.
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

    /// Issues an identity, valid from now on for so long, into a file; its serial number. One that is in that file is
    /// replaced, and stays valid until it ends or is revoked.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn issue(&self, role: &Role, valid_for: Duration, path: &Path) -> Result<Serial, SiteError> {
        let now = SystemTime::now();
        self.issue_between(role, now - CLOCK_SLACK, now + valid_for, path)
    }

    /// The file of a role's identity in a folder.
    pub fn file_of(role: &Role, folder: &Path) -> PathBuf {
        folder.join(match role {
            Role::Controller => "controller.pem".to_owned(),
            Role::Node { host } => format!("node-{host}.pem"),
            Role::User { uid } => format!("user-{uid}.pem"),
            Role::Administrator { uid } => format!("administrator-{uid}.pem"),
            Role::Scheduler { uid } => format!("scheduler-{uid}.pem"),
        })
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
    ) -> Result<Serial, SiteError> {
        let key = KeyPair::generate_for(KEYS)?;
        let mut own = CertificateParams::new([role.name()])?;
        own.distinguished_name.push(DnType::CommonName, role.to_string());
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.is_called() {
            own.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        (own.not_before, own.not_after) = (from.into(), until.into());
        let certificate = own.signed_by(&key, &Issuer::new(certificate_of_authority(), &self.key))?;
        let serial = Serial::of(certificate.der())?;
        let noted = Noted { serial: serial.clone(), role: role.clone(), at_unix_s: register::unix_s(until) };
        // Noted first: what nobody knows of could not be revoked by its name.
        register::note_issued(&self.folder, &noted)?;
        let text = format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.certificate);
        replace_with_mode(path, &text, 0o600)?;
        Ok(serial)
    }

    /// Revokes the identities that are valid now of a role, with a serial number, or in a file, and writes the signed list
    /// of all that were ever revoked. Returns what was revoked now, which is nothing if all of it was before, and where the
    /// list is.
    ///
    /// # Errors
    /// [`SiteError::NothingIssued`], or what can't be read or written.
    pub fn revoke(&self, whom: &str, list: Option<&Path>) -> Result<(Vec<Noted>, PathBuf), SiteError> {
        let now = SystemTime::now();
        let before = register::revoked(&self.folder)?;
        let mut new = self.meant(whom, now)?;
        new.retain(|noted| before.iter().all(|known| known.serial != noted.serial));
        new.iter_mut().for_each(|noted| noted.at_unix_s = register::unix_s(now));
        new.iter().try_for_each(|noted| register::note_revoked(&self.folder, noted))?;
        let path = list.map_or_else(|| self.folder.join(LIST_FILE), Path::to_owned);
        let all: Vec<Noted> = before.into_iter().chain(new.iter().cloned()).collect();
        replace(&path, &self.list_of(&all, now)?)?;
        Ok((new, path))
    }

    /// The identities that somebody means.
    fn meant(&self, whom: &str, now: SystemTime) -> Result<Vec<Noted>, SiteError> {
        let nothing = || SiteError::NothingIssued { whom: whom.to_owned() };
        let mut issued = register::issued(&self.folder)?;
        if let Ok(role) = whom.parse::<Role>() {
            issued.retain(|noted| noted.role == role && noted.at_unix_s > register::unix_s(now));
        } else if let Some(serial) = Serial::parse(whom) {
            issued.retain(|noted| noted.serial == serial);
        } else if Path::new(whom).is_file() {
            issued = vec![self.in_file(Path::new(whom))?];
        } else {
            return Err(nothing());
        }
        if issued.is_empty() { Err(nothing()) } else { Ok(issued) }
    }

    /// The identity in a file, which may be older than the list of what was issued.
    fn in_file(&self, path: &Path) -> Result<Noted, SiteError> {
        let wrong = |what: String| SiteError::File { path: path.to_owned(), what };
        let certificate = CertificateDer::from_pem_file(path).map_err(|error| wrong(error.to_string()))?;
        let authority = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let mut roots = RootCertStore::empty();
        roots.add(authority.map_err(|error| wrong(error.to_string()))?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| wrong(error.to_string()))?;
        verifier
            .verify_client_cert(&certificate, &[], UnixTime::now())
            .map_err(|error| wrong(format!("no identity of this authority's that is valid: {error}")))?;
        Ok(Noted { serial: Serial::of(&certificate)?, role: Role::of(&certificate)?, at_unix_s: 0 })
    }

    fn list_of(&self, revoked: &[Noted], now: SystemTime) -> Result<String, SiteError> {
        let entry = |noted: &Noted| RevokedCertParams {
            serial_number: SerialNumber::from(noted.serial.bytes()),
            revocation_time: (UNIX_EPOCH + Duration::from_secs(noted.at_unix_s)).into(),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            // It is in force until there is another: nobody is let in because a file is old.
            next_update: (now + VALID_FOR).into(),
            crl_number: SerialNumber::from(revoked.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&Issuer::new(certificate_of_authority(), &self.key))?.pem()?)
    }
}

/// The same each time, so that what is issued names its issuer.
fn certificate_of_authority() -> CertificateParams {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "trimtab site authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
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

/// Puts a new text in a file's place at once, for everybody to read: whoever reads it gets one or the other.
fn replace(path: &Path, text: &str) -> Result<(), SiteError> {
    replace_with_mode(path, text, 0o644)
}

fn replace_with_mode(path: &Path, text: &str, mode: u32) -> Result<(), SiteError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let _earlier = std::fs::remove_file(&beside);
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.and_then(|()| std::fs::rename(&beside, path)).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> SiteError {
    SiteError::File { path: path.to_owned(), what: error.to_string() }
}
