//! The list of a site's revoked certificates: signed by the authority, read at the start and whenever its file changes.
//!
//! It is a certificate revocation list as X.509 has it, so any tool shows it. As it is signed, whoever brings it to the
//! hosts need not be trusted: a list that the authority did not sign is refused, and the one before stays in force. Agents
//! get the controller's list, too, and then both count: whoever sends a list can add to what is refused, never take away.
//! A revoked certificate is refused when it connects; connections that were there before are for their owners to end,
//! which ask [`Watch`] when.
//!
//! Next: `register` for how the authority writes it, `identity` for who uses it.

use crate::error::SiteError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use trimtab_link::credentials::Verifiers;
use trimtab_types::{notice, one_line};

/// Longest list, bytes: some hundred thousand certificates.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// After the list has changed connections are looked at again and again for so long: whoever was just proving who they
/// are had longer than any handshake may take.
const SETTLED: Duration = Duration::from_secs(15);
/// Time between two looks at the file.
const LOOK: Duration = Duration::from_secs(1);

/// The list as it is now.
pub struct Revoked {
    path: PathBuf,
    roots: Arc<RootCertStore>,
    /// One of the authority's certificates, by which a list is known to be the authority's.
    own: CertificateDer<'static>,
    /// Knows of no list; what does not depend on one is asked of it.
    plain: Arc<dyn ClientCertVerifier>,
    lists: RwLock<Lists>,
}

/// The lists that are in force.
struct Lists {
    /// Which file was read; none: there is none yet.
    stamp: Option<Stamp>,
    /// The file's list; without a file, an empty one.
    file: List,
    /// The list that the controller sent.
    sent: Option<List>,
    /// Another number after each change.
    change: u64,
}

/// One list, and what decides by it.
#[derive(Clone)]
struct List {
    text: Arc<str>,
    callers: Arc<dyn ClientCertVerifier>,
    called: Arc<WebPkiServerVerifier>,
}

/// Tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    node: u64,
    byte_count: u64,
    changed: (i64, i64),
}

impl std::fmt::Debug for Revoked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revoked").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Revoked {
    /// Reads the list of the authority that signed `own`. A file that isn't there is an empty list, and may come.
    ///
    /// # Errors
    /// A file that is no list of this authority's, or on which `own` itself stands.
    pub(crate) fn open(
        path: &Path,
        authority: &CertificateDer<'static>,
        own: &CertificateDer<'static>,
    ) -> Result<Arc<Self>, SiteError> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let roots = Arc::new(roots);
        let file = List::new(&roots, None)?;
        let plain = file.callers.clone();
        let lists = RwLock::new(Lists { stamp: None, file, sent: None, change: 0 });
        let revoked = Revoked { path: path.to_owned(), roots, own: own.clone(), plain, lists };
        revoked.look()?;
        if revoked.is_revoked(own) {
            return Err(revoked.wrong("this identity itself is on the list; have another one issued"));
        }
        Ok(Arc::new(revoked))
    }

    /// Reads the file if it is another one than before; whether it was.
    ///
    /// # Errors
    /// A file that can't be read or is no list of this authority's; the list before stays in force.
    pub fn look(&self) -> Result<bool, SiteError> {
        let known = self.lists().stamp;
        let facts = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && known.is_none() => return Ok(false),
            facts => facts.map_err(|error| {
                let next = match known {
                    Some(_) => "what it said before stays in force",
                    None => "let whoever runs this read it: mode 644, and 755 for its folder",
                };
                self.wrong(&format!("{error}; {next}"))
            })?,
        };
        let stamp = Stamp::of(&facts);
        if known == Some(stamp) {
            return Ok(false);
        }
        let mut text = String::new();
        let file = File::open(&self.path).map_err(|error| self.wrong(&error.to_string()))?;
        file.take(LIST_BYTES_MAX).read_to_string(&mut text).map_err(|error| self.wrong(&error.to_string()))?;
        let list = self.checked(&text)?;
        let mut lists = self.lists_to_change();
        (lists.stamp, lists.file, lists.change) = (Some(stamp), list, lists.change + 1);
        Ok(true)
    }

    /// Takes the list that the controller has, which counts beside the file's.
    ///
    /// # Errors
    /// When it is no list of this authority's.
    pub fn take(&self, text: &str) -> Result<(), SiteError> {
        if self.lists().sent.as_ref().is_some_and(|sent| &*sent.text == text) {
            return Ok(());
        }
        let list = self.checked(text)?;
        let mut lists = self.lists_to_change();
        (lists.sent, lists.change) = (Some(list), lists.change + 1);
        Ok(())
    }

    /// The file's list as it was read; none: there is no file.
    pub fn text(&self) -> Option<String> {
        let lists = self.lists();
        lists.stamp.map(|_| lists.file.text.to_string())
    }

    /// Another number after each change of what is revoked.
    pub fn change(&self) -> u64 {
        self.lists().change
    }

    /// True if a certificate of the authority's is on a list.
    pub fn is_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        let on = |list: &List| {
            let verified = list.callers.verify_client_cert(certificate, &[], UnixTime::now());
            matches!(verified, Err(rustls::Error::InvalidCertificate(CertificateError::Revoked)))
        };
        self.in_force().iter().any(on)
    }

    /// Verifiers that decide about certificates by the list as it is at that moment.
    pub(crate) fn verifiers(self: &Arc<Self>) -> Verifiers {
        Verifiers { callers: Arc::new(Listed(self.clone())), called: Arc::new(Listed(self.clone())) }
    }

    /// A list, if the authority signed it.
    fn checked(&self, text: &str) -> Result<List, SiteError> {
        let list = List::new(&self.roots, Some(text))
            .map_err(|error| self.wrong(&format!("no list of `trimtab site revoke`, it is not used: {error}")))?;
        // Whoever made the list has made our certificate: the list's signature is looked at with it.
        match list.callers.verify_client_cert(&self.own, &[], UnixTime::now()) {
            Ok(_) | Err(rustls::Error::InvalidCertificate(CertificateError::Revoked)) => Ok(list),
            Err(error) => Err(self.wrong(&format!("no list of this site's authority ({error}); it is not used"))),
        }
    }

    fn in_force(&self) -> Vec<List> {
        let lists = self.lists();
        std::iter::once(&lists.file).chain(&lists.sent).cloned().collect()
    }

    fn lists(&self) -> RwLockReadGuard<'_, Lists> {
        // The lists are replaced as a whole.
        self.lists.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists_to_change(&self) -> RwLockWriteGuard<'_, Lists> {
        self.lists.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self, what: &str) -> SiteError {
        SiteError::File { path: self.path.clone(), what: what.to_owned() }
    }
}

impl List {
    /// The list in a text; an empty one without a text. Its signature is not looked at yet.
    fn new(roots: &Arc<RootCertStore>, text: Option<&str>) -> Result<Self, rustls::Error> {
        let general = |error: &dyn std::fmt::Display| rustls::Error::General(error.to_string());
        let parsed = text.map(|text| CertificateRevocationListDer::from_pem_slice(text.as_bytes()));
        let parsed = parsed.transpose().map_err(|error| general(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let callers = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let callers = callers.with_crls(parsed.clone()).only_check_end_entity_revocation().build();
        let called = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider);
        let called = called.with_crls(parsed).only_check_end_entity_revocation().build();
        let text = Arc::from(text.unwrap_or_default());
        let callers = callers.map_err(|error| general(&error))?;
        Ok(List { text, callers, called: called.map_err(|error| general(&error))? })
    }
}

impl Stamp {
    fn of(facts: &Metadata) -> Self {
        Stamp { node: facts.ino(), byte_count: facts.len(), changed: (facts.mtime(), facts.mtime_nsec()) }
    }
}

/// Asks the list as it is.
#[derive(Debug)]
struct Listed(Arc<Revoked>);

impl ClientCertVerifier for Listed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.plain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let each = |list: &List| list.callers.verify_client_cert(end_entity, intermediates, now);
        self.0.in_force().iter().try_for_each(|list| each(list).map(drop))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.plain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.plain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.plain.supported_verify_schemes()
    }
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let each =
            |list: &List| list.called.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        self.0.in_force().iter().try_for_each(|list| each(list).map(drop))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.plain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.plain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.plain.supported_verify_schemes()
    }
}

/// Looks at the list's file now and then, for whoever has connections to end.
#[derive(Debug)]
pub struct Watch {
    revoked: Arc<Revoked>,
    looked: Instant,
    change: u64,
    changed: Option<Instant>,
    said: String,
}

impl Watch {
    /// Of a list that was just read.
    pub fn new(revoked: Arc<Revoked>) -> Self {
        let change = revoked.change();
        Watch { revoked, looked: Instant::now(), change, changed: None, said: String::new() }
    }

    /// The revoked certificates.
    pub fn revoked(&self) -> &Arc<Revoked> {
        &self.revoked
    }

    /// The list, if connections are to be looked at now. A file that is no list is said once on standard error.
    pub fn look(&mut self) -> Option<&Revoked> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        match self.revoked.look() {
            Ok(_) => self.said.clear(),
            Err(error) => {
                let now = one_line(&error);
                if now != self.said {
                    notice(&now);
                    self.said = now;
                }
            }
        }
        let change = self.revoked.change();
        if std::mem::replace(&mut self.change, change) != change {
            notice("the list of revoked certificates has changed");
            self.changed = Some(Instant::now());
        }
        let is_due = self.changed.is_some_and(|changed| changed.elapsed() < SETTLED);
        is_due.then_some(&*self.revoked)
    }
}
