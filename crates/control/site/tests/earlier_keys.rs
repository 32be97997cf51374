//! Keys that earlier versions of trimtab wrote (Ed25519 in PKCS#8, version 2), beside those that are written now: both prove who
//! somebody is.
//!
//! Next: `authority` in the sources, which writes keys; `identity`, which reads them.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConnection, ServerConnection};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use trimtab_site::{Authority, Identity, Role};
use trimtab_specimens::skip;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The authority's folder and two identities, all as an earlier version wrote them.
struct Earlier {
    folder: tempfile::TempDir,
}

impl Earlier {
    fn new() -> Earlier {
        let earlier = Earlier { folder: tempfile::tempdir().expect("a folder") };
        DirBuilder::new().mode(0o700).create(earlier.authority()).expect("the authority's folder");
        let authority_key = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "trimtab site authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = params.clone().self_signed(&authority_key).expect("a certificate").pem();
        write_private(&earlier.authority().join("authority-key.pem"), &authority_key.serialize_pem());
        write_private(&earlier.authority().join("authority.pem"), &authority);
        let issuer = Issuer::new(params, &authority_key);
        for role in [Role::Controller, user()] {
            let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
            let mut own = CertificateParams::new([role.name()]).expect("a name");
            own.distinguished_name.push(DnType::CommonName, role.to_string());
            own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
            let certificate = own.signed_by(&key, &issuer).expect("a certificate").pem();
            write_private(&earlier.path(&role), &format!("{}{certificate}{authority}", key.serialize_pem()));
        }
        earlier
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("authority")
    }

    fn path(&self, role: &Role) -> PathBuf {
        self.folder.path().join(role.to_string())
    }

    /// An identity that is issued now by the authority of then.
    fn issued_now(&self, role: &Role) -> PathBuf {
        let path = self.folder.path().join(format!("new {role}"));
        let authority = Authority::open(&self.authority()).expect("an earlier version's authority is read");
        authority.issue(role, DAY, &path).expect("an identity");
        path
    }
}

fn user() -> Role {
    Role::User { uid: 7 }
}

fn write_private(path: &Path, text: &str) {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).expect("a new file");
    file.write_all(text.as_bytes()).expect("it is written");
}

/// PKCS#8's number behind the header of the outermost sequence: 1 stands for version 2, which OpenSSL 3.0 doesn't read.
fn version_of_key(path: &Path) -> u8 {
    let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_file(path).expect("a key") else { panic!("no PKCS#8") };
    let key = key.secret_pkcs8_der();
    // The sequence's length takes one byte up to 127, and a byte more for each byte of a longer one.
    let header = if key[1] < 0x80 { 2 } else { 2 + usize::from(key[1] & 0x7f) };
    assert_eq!(key[header..header + 2], [2, 1], "an integer of one byte");
    key[header + 2]
}

/// An error unless both ends believe each other.
fn greet(caller: &Identity, called: &Identity) -> Result<(), rustls::Error> {
    let name = ServerName::try_from(Role::Controller.name()).expect("a name");
    let mut client = ClientConnection::new(Arc::new(caller.client().expect("its key fits")), name)?;
    let mut server = ServerConnection::new(Arc::new(called.server().expect("its key fits")))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("into memory");
        server.read_tls(&mut &bytes[..]).expect("from memory");
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).expect("into memory");
        client.read_tls(&mut &bytes[..]).expect("from memory");
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn keys_of_an_earlier_version_are_as_good_as_new_ones() {
    let earlier = Earlier::new();
    let (controller, ann) = (Role::Controller, user());
    let [old_controller, old_ann] = [&controller, &ann].map(|role| (earlier.path(role), 1));
    let [new_controller, new_ann] = [&controller, &ann].map(|role| (earlier.issued_now(role), 0));
    for (name, called, caller) in [
        ("both of an earlier version", &old_controller, &old_ann),
        ("the controller's renewed", &new_controller, &old_ann),
        ("the user's renewed", &old_controller, &new_ann),
        ("both renewed", &new_controller, &new_ann),
    ] {
        for (path, version) in [called, caller] {
            assert_eq!(version_of_key(path), *version, "{name}: {}", path.display());
        }
        let load = |path: &Path| Identity::load(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (called, caller) = (load(&called.0), load(&caller.0));
        assert_eq!((called.role(), caller.role()), (&controller, &ann), "{name}");
        greet(&caller, &called).unwrap_or_else(|error| panic!("{name}: {error}"));
        caller.valid_until_s().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let stranger = Identity::load(&Earlier::new().path(&ann)).expect("it is read");
    let ours = Identity::load(&earlier.path(&controller)).expect("it is read");
    greet(&stranger, &ours).expect_err("another authority's");
}

/// The authority of an earlier version revokes what it issued then.
#[test]
fn an_identity_of_an_earlier_version_is_revoked_by_its_file() {
    let earlier = Earlier::new();
    let authority = Authority::open(&earlier.authority()).expect("it is read");
    let file = earlier.path(&user());
    let (revoked, list) = authority.revoke(&file.display().to_string(), None).expect("it is revoked");
    assert_eq!(revoked.iter().map(|noted| &noted.role).collect::<Vec<_>>(), [&user()]);
    let refused = Identity::load(&file).expect("it is read").refusing(&list).expect_err("it is on the list");
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

/// OpenSSL is that of curl and Python at many sites.
#[test]
fn new_keys_are_read_by_openssl() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::create(&folder.path().join("authority")).expect("an authority");
    let path = folder.path().join("identity.pem");
    authority.issue(&user(), DAY, &path).expect("an identity");
    assert_eq!(version_of_key(&path), 0);
    let read = Command::new("openssl").args(["pkey", "-noout", "-in"]).arg(&path).output();
    let Ok(read) = read else {
        return skip("new_keys_are_read_by_openssl", "there is no openssl; apt-get install openssl");
    };
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}
