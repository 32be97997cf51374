//! Inner nodes that are processes, killed with SIGKILL while waves flow: every result stays exact and whole.
//!
//! The example `tree` is controller and nodes; it checks each sum itself and counts those that lack a living rank. Here
//! it runs under a name of its own, so that what it might leave behind can be told from others' processes.
//!
//! Next: `examples/tree/survive.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Each inner node is killed once, and one of them twice.
const LOSSES: &str = "5";
/// Results between them; without optimisation a thousand take five seconds.
const WAVES: &str = "100";

/// The example, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("tests lie two folders below the profile's");
    let example = profile.join("examples/tree");
    assert!(example.is_file(), "build it first: cargo build -p trimtab-link --example tree");
    example
}

/// Processes that run a program.
fn running(program: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program)).collect()
}

#[test]
fn inner_nodes_that_are_killed_cost_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().canonicalize().unwrap().join("tree");
    std::fs::copy(example(), &program).unwrap();
    // Beside each other: most of the time orphans wait until they try their nearer ancestors again.
    std::thread::scope(|scope| {
        let program = &program;
        for edges in ["tcp", "unix"] {
            scope.spawn(move || loses_nothing(program, edges));
        }
    });
    // A controller that dies takes its nodes along; one that ends well has ended them.
    let until = Instant::now() + Duration::from_secs(60);
    while !running(&program).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running(&program), Vec::<PathBuf>::new());
}

fn loses_nothing(program: &Path, edges: &str) {
    let mut command = Command::new(program);
    command.args(["measure", "survive", "--rounds", LOSSES, "--waves", WAVES, "--edges", edges]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["losses"].to_string(), LOSSES);
    assert_eq!(found["orphaned_s"].as_array().map(Vec::len).map(|count| count.to_string()).as_deref(), Some(LOSSES));
    assert!(found["waves"].as_u64() >= Some(500), "{found}");
    assert_eq!(found["incomplete"], 0, "no leaf was lost, so each is in every result: {found}");
}
