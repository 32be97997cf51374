//! The process at the other end of a Unix socket, also where it has no number in the reader's namespace.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use trimtab_os::peer_of;
use trimtab_specimens::skip;
use trimtab_types::Pid;

/// Set where this program is started once more, in a namespace of its own.
const INSIDE: &str = "TRIMTAB_TEST_PEER_INSIDE";

fn own_user() -> u32 {
    std::fs::metadata("/proc/self").expect("/proc").uid()
}

#[test]
fn a_process_that_has_a_number_here_is_named() {
    let (one, other) = UnixStream::pair().expect("a pair");
    for end in [&one, &other] {
        let peer = peer_of(end.as_fd()).expect("known");
        assert_eq!((peer.user, peer.process), (own_user(), Some(Pid(std::process::id() as i32))));
    }
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert!(peer_of(file.as_fd()).is_err(), "no socket");
}

/// The pair was made out here, where the process that reads has no way to name us.
#[test]
fn a_process_of_another_namespace_is_none() {
    if std::env::var_os(INSIDE).is_some() {
        let peer = peer_of(std::io::stdin().as_fd()).expect("known");
        assert_eq!(peer.process, None);
        println!("inside: user {}", peer.user);
        return;
    }
    let (inner, _outer) = UnixStream::pair().expect("a pair");
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(program);
    command.args(["--exact", "a_process_of_another_namespace_is_none", "--nocapture"]);
    let output = command.env(INSIDE, "1").stdin(Stdio::from(OwnedFd::from(inner))).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return skip("a peer of another namespace", &format!("unshare: {error}")),
    };
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("unshare failed") {
        return skip("a peer of another namespace", errors.trim());
    }
    assert!(said.contains(&format!("inside: user {}", own_user())), "{said}{errors}");
}
