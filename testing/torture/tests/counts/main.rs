//! Our counts are the numbers of calls: exactly, for every function, against three counts that are not ours.
//!
//! A program counts its own calls, by code in its functions or by what the compiler puts there, while our probes of all
//! kinds are in; and uftrace counts them in a run of its own. All must agree on every function.
//!
//! Next: `source` for the program.

mod source;

use source::{FUNCTIONS, source};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use trimtab_session::{FunctionRequest, ImageCache, Modules, Prepared, Setup};
use trimtab_torture::{Random, begin_recording, counts, probe_of, text_differences};
use trimtab_types::Pid;

/// Windows in which the same process is measured, each with probes of other kinds.
const WINDOWS: u64 = 4;
/// Functions that must have a probe, of 100.
const PROBED_MIN: u64 = 90;

type Counts = BTreeMap<String, u64>;

/// Says loudly that a test can't run here; `reason` ends with what to do about it.
fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    print!("{line}");
    if let Some(log) = std::env::var_os("TRIMTAB_SKIP_LOG") {
        let file = OpenOptions::new().append(true).create(true).open(log);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skip log");
    }
}

fn build(name: &str, options: &[&str]) -> PathBuf {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = program.with_extension("c");
    std::fs::write(&file, source()).expect("writes the program");
    let mut compiler = Command::new("cc");
    compiler.args(options).args(["-g", "-pthread", "-o"]).arg(&program).arg(&file);
    assert!(compiler.status().expect("cc runs").success());
    program
}

/// The program, waiting to be told what to do.
struct Specimen {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Specimen {
    fn start(command: &mut Command) -> Specimen {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut specimen = Specimen { child, input, output: BufReader::new(output) };
        assert_eq!(specimen.line(), "ready");
        specimen
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("reads");
        line.trim().to_string()
    }

    /// One window: what it counted, and its result.
    fn window(&mut self) -> (Counts, String) {
        self.input.write_all(b"g").and_then(|()| self.input.flush()).expect("listens");
        let mut counts = Counts::new();
        loop {
            let line = self.line();
            let (name, value) = line.split_once(' ').expect("a name and a value");
            if name == "end" {
                return (counts, value.to_string());
            }
            counts.insert(name.to_string(), value.parse().expect("a number"));
        }
    }

    fn end(mut self) {
        self.input.write_all(b"q").expect("listens");
        drop(self.input);
        assert!(self.child.wait().expect("ends").success());
    }
}

/// Our counts in one window of `specimen`; functions that can't be probed are left out.
fn counted_by_us(specimen: &mut Specimen, program: &Path, seed: u64) -> (Counts, Counts, String) {
    let pid = specimen.pid();
    let wanted = program.to_str().expect("text");
    let modules = Modules::read(pid, &ImageCache::in_memory(), &|path| path == wanted).expect("can be read");
    let mut random = Random::new(seed);
    let request = |index: u64| {
        let name = format!("f{index}");
        let (_, address) = modules.modules[0].function(&name).expect("has a symbol");
        FunctionRequest { name, address, work: probe_of(&mut random, index as u32).into() }
    };
    let requests: Vec<FunctionRequest> = (0..FUNCTIONS).map(request).collect();
    let prepared = Prepared::new(&modules, &requests).expect("is prepared");
    let setup = Setup { functions: FUNCTIONS, ranks: 1, details: 0 };
    let mut inserted = prepared.insert(pid, setup, &begin_recording).expect("is inserted");
    let (own, result) = specimen.window();
    inserted.remove().expect("is removed");
    let ours = counts(&inserted, FUNCTIONS);
    let probed = |name: &&String| prepared.refused.iter().all(|refused| refused.name != **name);
    let named: Vec<String> = requests.into_iter().map(|request| request.name).collect();
    let ours = named.iter().zip(ours).filter(|(name, _)| probed(name)).map(|(name, count)| (name.clone(), count));
    assert_eq!(text_differences(pid), Some(Vec::new()), "its code is its file's");
    let reasons: Vec<_> = prepared.refused.iter().map(|refused| &refused.reason).collect();
    let enough = reasons.len() as u64 * 100 <= FUNCTIONS * (100 - PROBED_MIN);
    assert!(enough, "{} functions can't be probed: {reasons:#?}", reasons.len());
    (ours.collect(), own, result)
}

/// Windows of one process, probed and not: each count is the program's own, and its results stay the same.
fn agree(name: &str, options: &[&str]) -> Counts {
    let program = build(name, options);
    let mut specimen = Specimen::start(&mut Command::new(&program));
    let (expected, result) = specimen.window();
    assert!(expected.values().all(|count| *count > 0) && expected.values().sum::<u64>() > 20_000);
    for seed in 1..=WINDOWS {
        let (ours, mut own, probed_result) = counted_by_us(&mut specimen, &program, seed);
        assert_eq!((&own, &probed_result), (&expected, &result), "it does what it did without probes");
        own.retain(|name, _| ours.contains_key(name));
        assert_eq!(ours, own, "window {seed}");
    }
    assert_eq!(specimen.window(), (expected.clone(), result), "and afterwards");
    specimen.end();
    expected
}

fn may_not_trace(test: &str) -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_denied = matches!(scope.trim(), "2" | "3");
    if is_denied {
        let next = "`sysctl kernel.yama.ptrace_scope=1`";
        skip(test, &format!("tracing is not permitted here (ptrace_scope {}). Next: {next}", scope.trim()));
    }
    is_denied
}

#[test]
fn a_program_that_counts_itself_agrees() {
    if may_not_trace("a_program_that_counts_itself_agrees") {
        return;
    }
    for level in ["-O1", "-O2", "-O3"] {
        agree(&format!("counts{level}"), &[level]);
    }
}

#[test]
fn the_compilers_own_counts_agree() {
    if may_not_trace("the_compilers_own_counts_agree") {
        return;
    }
    let by_compiler = ["-finstrument-functions", "-DBY_COMPILER"];
    for level in ["-O0", "-O2"] {
        agree(&format!("counts-by-compiler{level}"), &[by_compiler[0], by_compiler[1], level]);
    }
}

#[test]
fn uftrace_agrees() {
    const NAME: &str = "uftrace_agrees";
    if may_not_trace(NAME) {
        return;
    }
    if Command::new("uftrace").arg("--version").output().is_err() {
        return skip(NAME, "uftrace is not there. Next: apt-get install uftrace");
    }
    let ours = agree("counts-for-uftrace", &["-O2"]);
    // It does not find a program's symbols below a folder with a blank in its name.
    let folder = tempfile::tempdir().expect("a folder");
    let (program, data) = (folder.path().join("counts-uftrace"), folder.path().join("data"));
    std::fs::copy(build("counts-uftrace", &["-O2", "-pg"]), &program).expect("a copy");
    let mut record = Command::new("uftrace");
    record.args(["record", "--no-libcall", "-d"]).arg(&data).arg(&program);
    let mut recorded = Specimen::start(&mut record);
    recorded.window();
    recorded.end();
    let mut report = Command::new("uftrace");
    report.args(["report", "--no-pager", "-f", "call", "-d"]).arg(&data);
    let report = String::from_utf8(report.output().expect("uftrace runs").stdout).expect("is text");
    let line = |line: &str| {
        let (count, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_string(), count.parse().ok()?))
    };
    let mut theirs: Counts = report.lines().filter_map(line).collect();
    theirs.retain(|name, _| ours.contains_key(name));
    assert_eq!(theirs, ours);
}
