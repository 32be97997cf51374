//! Nodes are apart and joined, and leave nothing behind.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_specimens::{skip, wait_for};
use trimtab_testbed::{Slurm, Testbed};

fn said(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn nodes_are_apart_and_joined() {
    if let Some(lack) = Testbed::lack() {
        return skip("nodes_are_apart_and_joined", &lack.0);
    }
    // Where a checkout may lie: in the folder for temporary files, below a name with a blank, where nobody else may look.
    let closed = tempfile::Builder::new().prefix("ä b").tempdir().expect("a folder");
    let files = closed.path().join("files");
    std::fs::create_dir(&files).expect("a folder");
    std::fs::write(files.join("here"), "seen").expect("a file");
    let mut testbed = Testbed::up(&files, 3).expect("nodes come up");
    let names: Vec<String> = (0..4).map(|node| testbed.name(node).to_owned()).collect();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(&said(&mut testbed.on(number, "hostname")), name);
        assert_eq!(said(testbed.on(number, "sh").args(["-c", "ls /proc | grep -c '^1$'"])), "1", "its own processes");
    }
    said(testbed.on(1, "touch").arg("/tmp/only-here"));
    assert!(!said(testbed.on(2, "ls").arg("/tmp")).contains("only-here"), "/tmp is a node's own");
    let own = std::env::current_exe().expect("a test program");
    said(testbed.on(1, "test").arg("-x").arg(&own));
    let mut as_nobody = testbed.on(2, "setpriv");
    as_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]).arg(files.join("here"));
    assert_eq!(said(&mut as_nobody), "seen", "every user of a node sees them");
    let resolves = |to: usize| {
        let mut getent = testbed.on(1, "getent");
        said(getent.args(["hosts", &names[to]])).starts_with(&testbed.address(to))
    };
    assert!((0..4).all(resolves));
    assert!(listens_and_answers(&testbed), "node 1 reaches node 2");
    testbed.cut(2, true).expect("the link goes down");
    assert!(!listens_and_answers(&testbed), "a node that is cut off");
    testbed.cut(2, false).expect("the link comes up");
    assert!(listens_and_answers(&testbed), "and joined again");
    testbed.fail(3).expect("it ends");
    // The kernel takes a namespace apart after its last process has ended.
    let soon = |_| {
        let is_gone = !testbed.on(3, "true").output().expect("nsenter starts").status.success();
        if !is_gone {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        is_gone
    };
    assert!((0..100).any(soon), "nobody enters a node that has failed");
    let kept = testbed.folder().to_path_buf();
    drop(testbed);
    let networks = said(Command::new("ip").args(["netns", "list"]));
    assert!(!names.iter().any(|name| networks.contains(name)), "{networks}");
    assert!(!kept.exists());
}

/// Set for the child of the test below that listens; it holds the address.
const LISTEN: &str = "TRIMTAB_TESTBED_LISTEN";

/// True if node 1 can connect to node 2.
fn listens_and_answers(testbed: &Testbed) -> bool {
    let own = std::env::current_exe().expect("a test program");
    let mut listener = testbed.on(2, "timeout");
    listener.arg("4").arg(own).args(["--exact", "listens_when_asked"]).env(LISTEN, "0.0.0.0:7777");
    let mut child = listener.stdout(Stdio::null()).spawn().expect("it starts");
    let script = format!("exec 3<>/dev/tcp/{}/7777", testbed.address(2));
    while matches!(child.try_wait(), Ok(None)) {
        testbed.on(1, "timeout").args(["0.5", "bash", "-c", &script]).output().expect("it starts");
    }
    child.wait().expect("it ended").success()
}

#[test]
fn listens_when_asked() {
    if let Ok(address) = std::env::var(LISTEN) {
        TcpListener::bind(address).expect("a port").accept().expect("somebody");
    }
}

#[test]
fn slurm_runs_on_all_nodes() {
    if let Some(lack) = Slurm::lack() {
        return skip("slurm_runs_on_all_nodes", &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), 4).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let mut hosts: Vec<String> =
        said(slurm.command("srun").args(["-N4", "hostname"])).lines().map(str::to_owned).collect();
    hosts.sort();
    assert_eq!(hosts, (1..=4).map(|node| testbed.name(node).to_owned()).collect::<Vec<_>>());
}

/// Set for the child of the test below that owns nodes; it holds the folder.
const OWN: &str = "TRIMTAB_TESTBED_OWN";

/// A test that is killed can't clean up: its nodes end all the same, with Slurm's daemons and the job that runs, and the
/// next one removes the names of their networks and their files.
#[test]
fn nodes_end_with_whoever_made_them() {
    if let Some(lack) = Slurm::lack() {
        return skip("nodes_end_with_whoever_made_them", &lack.0);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("owned");
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = std::env::current_exe().expect("a test program");
    let mut owner = Command::new(own);
    owner.args(["--exact", "owns_nodes_when_asked"]).env(OWN, &folder).stdout(Stdio::null());
    let mut owner = owner.spawn().expect("it starts");
    let prefix = format!("tt{}x0", owner.id());
    let told = folder.join(format!("{prefix}.processes"));
    wait_for("a job runs", || {
        assert!(matches!(owner.try_wait(), Ok(None)), "the owner has ended");
        told.exists()
    });
    let text = std::fs::read_to_string(&told).expect("its processes");
    let processes: Vec<&str> = text.split_whitespace().collect();
    let spaces = || processes.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).count();
    assert!(processes.len() > 5 && spaces() > 5, "daemons and a job: {text}");
    owner.kill().expect("it is killed");
    owner.wait().expect("it ended");
    wait_for("all its processes have ended", || spaces() == 0);
    let testbed = Testbed::up(&folder, 1).expect("nodes come up");
    let networks = said(Command::new("ip").args(["netns", "list"]));
    assert!(!networks.contains(&prefix), "{networks}");
    assert!(!testbed.folder().with_file_name(&prefix).exists(), "its files are removed");
    drop(testbed);
    std::fs::remove_file(told).expect("it is there");
}

#[test]
fn owns_nodes_when_asked() {
    let Ok(folder) = std::env::var(OWN) else { return };
    let folder = Path::new(&folder);
    let testbed = Testbed::up(folder, 2).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 2).expect("Slurm starts");
    let mut srun = slurm.command("srun").args(["-N2", "sleep", "1000"]).spawn().expect("it starts");
    let sleeps = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
            && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.ends_with(b"\x001000\0"))
    };
    wait_for("the job runs", || (1..=2).all(|node| testbed.processes(node).iter().any(sleeps)));
    let all: Vec<String> = (0..=2).flat_map(|node| testbed.processes(node)).map(|pid| pid.to_string()).collect();
    let (half, whole) = (folder.join("half"), folder.join(format!("{}.processes", testbed.prefix())));
    std::fs::write(&half, all.join(" ")).expect("it is written");
    std::fs::rename(half, whole).expect("it is told");
    // Until it is killed.
    let _ended = srun.wait();
}
