//! A few seconds of torture on three programs.
//!
//! Next: docs/testing.md for the long one, `counts` for whether what is counted is right.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use trimtab_torture::{Options, campaign, render};

/// Says loudly that a test can't run here; `reason` ends with what to do about it.
fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        let file = OpenOptions::new().append(true).create(true).open(log);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skip log");
    }
}

/// True if one process may trace another of the same user that is not its child.
fn may_trace() -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 20 & echo $!; wait"]).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("sh runs");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(shell.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("reads");
    let pid: i32 = line.trim().parse().expect("a process id");
    let may = trimtab_os::Stopped::stop(trimtab_types::Pid(pid)).map(trimtab_os::Stopped::resume).is_ok();
    let ended = Command::new("kill").arg(pid.to_string()).status().expect("kill runs");
    assert!(ended.success());
    shell.wait().expect("sh ends");
    may
}

#[test]
fn programs_survive_a_short_torture() {
    if !may_trace() {
        let next = "run as root, or `sysctl kernel.yama.ptrace_scope=0`";
        return skip("programs_survive_a_short_torture", &format!("tracing is not permitted here. Next: {next}"));
    }
    let options = Options {
        budget: Duration::from_secs(18),
        programs: ["bash", "sqlite", "perl"].map(str::to_string).to_vec(),
        seed: 20_250_131,
        executable: PathBuf::from(env!("CARGO_BIN_EXE_trimtab-torture")),
        survey: false,
    };
    let outcome = campaign(&options).expect("can be run");
    println!("{}", render(&outcome));
    for (name, reason) in &outcome.skipped {
        skip(&format!("programs_survive_a_short_torture[{name}]"), reason);
    }
    assert_eq!(outcome.failure_count(), 0, "{:#?}", outcome.programs);
    for program in &outcome.programs {
        assert!(program.runs > 0 && program.cycles > 0 && program.text_checks > 0, "{program:#?}");
    }
    assert!(outcome.programs.is_empty() || outcome.programs.iter().any(|program| program.hits > 0));
}
