//! A short run of every target, and faults on purpose: each kind is found, told apart, made smaller and kept.
//!
//! Next: docs/testing.md for the long ones.

use std::path::{Path, PathBuf};
use trimtab_fuzz::{NAMES, Options, PLANTED, campaign, render};

/// Inputs of each target; most are not optimised here.
const EXECUTIONS: u64 = 3_000;

fn options(name: &str, targets: &[&str]) -> Options {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Findings of an earlier run would be run again.
    let _ = std::fs::remove_dir_all(&folder);
    Options {
        targets: targets.iter().map(ToString::to_string).collect(),
        executions: EXECUTIONS,
        time: None,
        seed: 20_250_131,
        jobs: 2,
        folder,
        corpus: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"),
        executable: PathBuf::from(env!("CARGO_BIN_EXE_trimtab-fuzz")),
        hang_s: 10,
        keep: false,
    }
}

#[test]
fn nothing_is_found_in_a_short_run() {
    let outcome = campaign(&options("short", &NAMES)).expect("can be run");
    println!("{}", render(&outcome));
    assert_eq!(outcome.finding_count(), 0, "{}", render(&outcome));
    for target in &outcome.targets {
        assert!(target.executions >= EXECUTIONS, "{target:#?}");
        assert!(target.accepted > 0, "all inputs are refused at the door: {target:#?}");
    }
}

#[test]
fn panics_are_found_told_apart_and_made_smaller() {
    let options = Options { executions: 20_000, ..options("planted", &[PLANTED]) };
    let outcome = campaign(&options).expect("can be run");
    let findings = &outcome.targets[0].findings;
    assert_eq!(findings.len(), 2, "{}", render(&outcome));
    for (message, input) in [("one", "01010101\n"), ("two", "02020202\n")] {
        let finding = findings.iter().find(|finding| finding.fault.message.contains(message)).expect(message);
        assert!(finding.fault.place.contains("src/targets/planted.rs"), "{finding:?}");
        assert_eq!(finding.input, input, "nothing else is needed");
        let kept = std::fs::read_to_string(&finding.file).expect("written");
        assert!(kept.starts_with("# planted, seed ") && kept.ends_with(input), "{kept}");
    }
    assert_eq!(outcome.targets[0].executions, 20_000, "a panic does not end a run");
}

/// Each row: a kept input, and what it does to the process that runs it.
#[test]
fn whatever_ends_a_worker_is_found() {
    for (kind, place) in [(3, "signal 6"), (4, "out of memory"), (5, "stack overflow"), (6, "hang")] {
        let options = options(&format!("planted-{kind}"), &[PLANTED]);
        let corpus = options.folder.join("given");
        std::fs::create_dir_all(corpus.join(PLANTED)).expect("folder");
        let input = format!("{kind:02x}").repeat(4);
        std::fs::write(corpus.join(PLANTED).join("a.hex"), &input).expect("written");
        let outcome = campaign(&Options { corpus, hang_s: 1, executions: 100, ..options }).expect("can be run");
        let places: Vec<&str> =
            outcome.targets[0].findings.iter().map(|finding| finding.fault.place.as_str()).collect();
        assert_eq!(places, [place], "{}", render(&outcome));
        assert_eq!(outcome.targets[0].findings[0].input.trim(), input);
    }
}
