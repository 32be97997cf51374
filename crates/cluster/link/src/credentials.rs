//! The identity of a node and the authority it trusts, for TLS in both directions.
//!
//! A user's own agents share a [`JobSecret`], and it is the private key of an authority that exists for this job only:
//! each agent makes itself a certificate that names its place. So one short secret starts any number of agents, nobody
//! without it can speak, and jobs can't reach each other. Every process that has it can be any node of the job; they are
//! one user's processes anyway. A site that runs agents for everybody gives each host a certificate of its own authority.
//! That authority has certificates for people too, so the site also decides which of them may call a node.
//!
//! Next: `secret` for its way to the agents, `greet`, which checks connections by this.

use crate::address::{Address, Contact};
use crate::error::LinkError;
use crate::secret::JobSecret;
use crate::socket::{Bounded, Stream};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use trimtab_overlay::NodeId;

/// The bytes before the 32 of an Ed25519 key in PKCS#8 (RFC 8410).
const ED25519_PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// Hosts' clocks differ by less.
const CLOCK_SLACK: Duration = Duration::from_secs(24 * 3600);
/// Longer than any job; the authority ends with the job's secret.
const VALID_FOR: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

/// A node's own certificate and key, and the authority whose certificates it accepts.
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    names: Names,
}

/// The kind of names in certificates.
#[derive(Clone, Copy, Debug)]
enum Names {
    Nodes,
    Hosts { may_call: MayCall },
}

/// True if a certificate, which is one of the site's authority, is that of a node.
pub type MayCall = fn(&CertificateDer<'_>) -> bool;

/// The identity of a host of a site.
pub struct SiteIdentity {
    /// The authority's certificate.
    pub authority: CertificateDer<'static>,
    /// The host's own, and those between it and the authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// Decides if the owner of a certificate may call this node.
    pub may_call: MayCall,
    /// Decides about certificates, where not all that the authority has signed are good.
    pub verifiers: Option<Verifiers>,
}

/// Decides about certificates in place of the authority's signature alone: a list of revoked ones may change while
/// connections come and go.
#[derive(Clone, Debug)]
pub struct Verifiers {
    /// About those of callers.
    pub callers: Arc<dyn ClientCertVerifier>,
    /// About those of nodes that are called.
    pub called: Arc<dyn ServerCertVerifier>,
}

impl Verifiers {
    /// All that an authority has signed are good.
    fn of_authority(root: CertificateDer<'static>, provider: &Arc<CryptoProvider>) -> Result<Self, LinkError> {
        let mut roots = RootCertStore::empty();
        roots.add(root)?;
        let roots = Arc::new(roots);
        let general = |error: VerifierBuilderError| rustls::Error::General(error.to_string());
        let callers = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let called = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
        Ok(Verifiers { callers: callers.build().map_err(general)?, called: called.build().map_err(general)? })
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of one node of a job.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn of_job(secret: &JobSecret, node: NodeId) -> Result<Self, LinkError> {
        let now = SystemTime::now();
        Credentials::valid(secret, node, now - CLOCK_SLACK, now + VALID_FOR)
    }

    /// As [`Credentials::of_job`], valid for a given time; tests make expired ones.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn valid(secret: &JobSecret, node: NodeId, from: SystemTime, until: SystemTime) -> Result<Self, LinkError> {
        let pkcs8 = [&ED25519_PKCS8[..], secret.bytes()].concat();
        let authority_key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8))?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "trimtab job");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = authority.self_signed(&authority_key)?;

        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut own = CertificateParams::new([node_name(node)])?;
        own.distinguished_name.push(DnType::CommonName, node.to_string());
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (own.not_before, own.not_after) = (from.into(), until.into());
        let certificate = own.signed_by(&key, &Issuer::new(authority, authority_key))?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = provider();
        let verifiers = Verifiers::of_authority(root.der().clone(), &provider)?;
        Credentials::new(provider, verifiers, vec![certificate.der().clone()], key, Names::Nodes)
    }

    /// Those of a host of a site.
    ///
    /// # Errors
    /// When the key isn't the certificate's.
    pub fn of_site(site: SiteIdentity) -> Result<Self, LinkError> {
        let SiteIdentity { authority, chain, key, may_call, verifiers } = site;
        let provider = provider();
        let verifiers = verifiers.map_or_else(|| Verifiers::of_authority(authority, &provider), Ok)?;
        Credentials::new(provider, verifiers, chain, key, Names::Hosts { may_call })
    }

    fn new(
        provider: Arc<CryptoProvider>,
        Verifiers { callers, called }: Verifiers,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        names: Names,
    ) -> Result<Self, LinkError> {
        let only = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(only)?
            .with_client_cert_verifier(callers)
            .with_single_cert(chain.clone(), key.clone_key())?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(only)?
            .dangerous()
            .with_custom_certificate_verifier(called)
            .with_client_auth_cert(chain, key)?;
        // Connections last; tickets for another would be sent and kept for nothing.
        (server.send_tls13_tickets, server.session_storage) = (0, Arc::new(NoServerSessionStorage {}));
        client.resumption = Resumption::disabled();
        Ok(Credentials { client: Arc::new(client), server: Arc::new(server), names })
    }

    /// TLS of a call to a node, until both ends have proved who they are.
    pub(crate) async fn call(
        &self,
        socket: Bounded<TcpStream>,
        node: NodeId,
        contact: &Contact,
    ) -> Result<Stream, LinkError> {
        let name = match (self.names, &contact.host, &contact.address) {
            (Names::Nodes, ..) => server_name(node_name(node))?,
            (Names::Hosts { .. }, Some(host), _) => server_name(host.clone())?,
            (Names::Hosts { .. }, None, Address::Tcp(address)) => ServerName::from(address.ip()),
            (Names::Hosts { .. }, None, Address::Unix(_)) => {
                return Err(LinkError::Name { expected: contact.address.to_string() });
            }
        };
        let stream = TlsConnector::from(self.client.clone()).connect(name, socket).await;
        Ok(Stream::Tls(Box::new(stream.map_err(LinkError::of_stream)?.into())))
    }

    /// TLS of a call that was accepted, until both ends have proved who they are.
    pub(crate) async fn answer(&self, socket: Bounded<TcpStream>) -> Result<Stream, LinkError> {
        let stream = TlsAcceptor::from(self.server.clone()).accept(socket).await;
        Ok(Stream::Tls(Box::new(stream.map_err(LinkError::of_stream)?.into())))
    }

    /// Checks that a caller's certificate is that of the node it says it is. Hosts of a site are trusted in what they say,
    /// its people are not.
    pub(crate) fn check_caller(
        &self,
        certificate: Option<&CertificateDer<'static>>,
        node: NodeId,
    ) -> Result<(), LinkError> {
        let wrong = || LinkError::Name { expected: node.to_string() };
        let certificate = certificate.ok_or_else(wrong)?;
        if let Names::Hosts { may_call } = self.names {
            return if may_call(certificate) { Ok(()) } else { Err(wrong()) };
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        rustls::client::verify_server_name(&parsed, &server_name(node_name(node))?).map_err(|_| wrong())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A node's name in a certificate, in a domain that is never looked up.
fn node_name(node: NodeId) -> String {
    format!("n{}.trimtab.internal", node.0)
}

fn server_name(name: String) -> Result<ServerName<'static>, LinkError> {
    ServerName::try_from(name.clone()).map_err(|_| LinkError::Name { expected: name })
}
