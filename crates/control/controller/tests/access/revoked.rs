//! A revoked certificate is refused from then on, and its connections end; everybody else goes on.

use super::{DAY, Site, connected, status, until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use trimtab_overlay::NodeId;
use trimtab_site::api::RevokedList;
use trimtab_site::jobs::Jobs;
use trimtab_site::{Client, Identity, Role, SiteError};

type Held = BufReader<StreamOwned<ClientConnection, TcpStream>>;

impl Site {
    /// A connection that is kept for further questions.
    fn held(&self, role: &str) -> Held {
        let config = Arc::new(self.identity(role).client().expect("TLS"));
        let name = ServerName::try_from(Role::Controller.name()).expect("a name");
        let tls = ClientConnection::new(config, name).expect("TLS");
        let mut held = BufReader::new(StreamOwned::new(tls, connected(self.api)));
        assert!(asks(&mut held), "{role}");
        held
    }

    fn revoke(&self, whom: &str) {
        let list = self.folder.path().join("revoked.pem");
        let (revoked, _) = self.authority.revoke(whom, Some(&list)).expect("it is revoked");
        assert_eq!(revoked.len(), 1, "{whom}");
    }
}

/// True if one more question is answered on a connection.
fn asks(held: &mut Held) -> bool {
    let request = b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n";
    if held.get_mut().write_all(request).is_err() {
        return false;
    }
    let (mut byte_count, mut line) = (0, String::new());
    loop {
        line.clear();
        match held.read_line(&mut line) {
            Ok(1..) => {}
            _ => return false,
        }
        if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            byte_count = count.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    held.read_exact(&mut vec![0; byte_count]).is_ok()
}

#[test]
fn who_is_revoked_is_refused_and_others_go_on() {
    let site = Site::start();
    let (first, second) = (site.agent("n1"), site.agent("n2"));
    let (mut ann, mut bob) = (site.held("user:7"), site.held("user:8"));
    site.revoke("user:7");
    site.revoke("node:n1");

    // The connection that was there is ended by the other side; nothing else would end it.
    let mut rest = Vec::new();
    let _ended = ann.read_to_end(&mut rest);
    assert!(rest.is_empty() && !asks(&mut ann), "{}", String::from_utf8_lossy(&rest));
    assert!(asks(&mut bob), "his goes on");
    let error = site.client("user:7").get::<Jobs>("/v1/jobs").expect_err("she is refused");
    assert!(matches!(error, SiteError::NotTaken { .. } | SiteError::Broken { .. }), "{error:?}");
    assert_eq!(status(site.client("user:8").get::<Jobs>("/v1/jobs")), 200);

    until("the agent is out of the tree", || !site.is_connected("n1"));
    until("it is refused when it calls again", || {
        first.handle().troubles().iter().any(|trouble| trouble.what.contains("Revoked"))
    });
    assert_eq!(first.handle().parent(), None);
    assert!(site.is_connected("n2"));
    assert_eq!(second.handle().parent(), Some(NodeId::ROOT));
    assert_eq!(second.handle().troubles(), [], "nothing has happened to it");

    // The person is not revoked, only what was issued before.
    let path = site.path("another");
    site.authority.issue(&Role::User { uid: 7 }, DAY, &path).expect("an identity");
    let again = site.client_of(&Identity::load(&path).expect("it is read"));
    assert_eq!(status(again.get::<Jobs>("/v1/jobs")), 200);
}

/// Agents get the list from the controller, and believe it for its signature.
#[test]
fn agents_get_the_controller_s_list() {
    let (site, other) = (Site::start(), Site::start());
    let (node, ann) = (site.client("node:n1"), site.identity("user:7"));
    let list = |client: &Client| client.get::<RevokedList>("/v1/revoked").map(|revoked| revoked.list);
    assert_eq!(list(&node).expect("an agent may ask"), None, "there is none yet");
    assert_eq!(status(list(&site.client("user:8"))), 403);
    let agent = site.identity("node:n1").refusing(&site.folder.path().join("nothing.pem")).expect("no file");
    let revoked = agent.revoked().expect("what it refuses");
    let hers = CertificateDer::from_pem_file(ann.path()).expect("her certificate");
    assert!(!revoked.is_revoked(&hers));
    site.revoke("user:7");
    until("the controller has read it", || list(&node).expect("an agent may ask").is_some());
    let text = list(&node).expect("an agent may ask").expect("a list");
    other.identity("user:7");
    other.revoke("user:7");
    let theirs = std::fs::read_to_string(other.folder.path().join("revoked.pem")).expect("a list");
    revoked.take(&theirs).expect_err("another site's");
    assert!(!revoked.is_revoked(&hers));
    revoked.take(&text).expect("the authority's");
    assert!(revoked.is_revoked(&hers));
    let his = CertificateDer::from_pem_file(site.identity("user:8").path()).expect("his certificate");
    assert!(!revoked.is_revoked(&his));
}

#[test]
fn only_the_authority_s_list_counts() {
    let (site, other) = (Site::start(), Site::start());
    let (list, theirs) = (site.folder.path().join("revoked.pem"), other.folder.path().join("revoked.pem"));
    let refusing = |identity: Identity, list| identity.refusing(list).map(drop).map_err(|error| error.to_string());
    let ann = || site.identity("user:7");
    assert_eq!(refusing(ann(), &list), Ok(()), "there is none yet");
    other.identity("user:7");
    other.revoke("user:7");
    let said = refusing(ann(), &theirs).expect_err("another site's list");
    assert!(said.contains("no list of this site's authority"), "{said}");
    std::fs::write(&list, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").expect("a file");
    refusing(ann(), &list).expect_err("no list at all");
    site.revoke("user:7");
    let said = refusing(ann(), &list).expect_err("she is on it");
    assert!(said.contains("this identity itself is on the list"), "{said}");
    assert_eq!(refusing(site.identity("user:8"), &list), Ok(()));
    let (again, _) = site.authority.revoke("user:7", Some(&list)).expect("it is written again");
    assert!(again.is_empty(), "it was revoked before");
    for whom in ["user:9", "0123456789", "no/such/file"] {
        let error = site.authority.revoke(whom, Some(&list)).expect_err(whom);
        assert!(matches!(error, SiteError::NothingIssued { .. }), "{whom}: {error}");
    }
    // By its file or its number it is the same.
    let path = site.path("user:8");
    let (revoked, _) = site.authority.revoke(&path.display().to_string(), Some(&list)).expect("it is revoked");
    let number = revoked.first().map(|noted| noted.serial.to_string()).expect("one");
    assert!(site.authority.revoke(&number, Some(&list)).expect("it is known").0.is_empty());
    let foreign = other.path("user:7").display().to_string();
    site.authority.revoke(&foreign, Some(&list)).expect_err("another authority's");
}
