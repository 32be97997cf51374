//! A target that can't be measured is refused in one clear line, or reported as far as it went; the job is unharmed
//! either way.
//!
//! Next: `common_trace` for what unharmed means; `trace.rs` for jobs that can be measured.

mod common_trace;

use common_trace::{Home, Job, Started, alone, is_root, probes_mapped, signal_to, specimen, steady, until};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use trimtab_specimens::{Launch, Mpi, Variant, build, skip};
use trimtab_types::report::Report;

/// A process of ours that must not outlive the test.
struct Helper(Child);

impl Helper {
    fn start(command: &mut Command) -> Helper {
        Helper(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn status_field(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim_start_matches(':').trim().to_owned()
}

#[test]
fn pids_that_are_no_mpi_program() {
    let sleeper = Helper::start(Command::new("sleep").arg("60"));
    let home = Home::new();
    let sleeping = sleeper.pid().to_string();
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("nobody", &["attach", "2000000000"], &["no process has pid 2000000000", "`ps -e"]),
        ("negative", &["attach", "--", "-5"], &["no process has pid -5"]),
        ("no_mpi", &["attach", &sleeping], &["is not an MPI program", "give the pid of mpirun"]),
        ("undo_nobody", &["undo", "2000000000"], &["2000000000"]),
        ("functions_nobody", &["functions", "2000000000"], &["2000000000"]),
        ("job_unknown", &["measure", "nothing-1"], &["there is no store", "trimtab attach PID"]),
        ("run_nothing", &["run", "--", "/nonexistent/program"], &["can't start /nonexistent/program"]),
    ];
    for (name, arguments, fragments) in rows {
        home.run(arguments).says(name, 2, fragments);
    }
    home.run(&["undo", &sleeping]).reports("undo_nothing", 1, &["holds nothing of trimtab's"]);
}

/// A program that sleeps for ever: header, one segment, `pause` in a loop, all 32-bit.
fn program_of_32_bits(path: &Path) {
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([2, 0, 3, 0, 1, 0, 0, 0]); // executable, i386, version 1
    bytes.extend([0x0804_8054u32, 52, 0, 0].iter().flat_map(|word| word.to_le_bytes())); // entry, segments, -, flags
    bytes.extend([52u16, 32, 1, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let length = (52 + 32 + code.len()) as u32;
    let segment = [1, 0, 0x0804_8000, 0x0804_8000, length, length, 5, 0x1000];
    bytes.extend(segment.iter().flat_map(|word: &u32| word.to_le_bytes()));
    bytes.extend(code);
    fs::write(path, bytes).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[test]
fn a_32_bit_program() {
    let home = Home::new();
    // A program counts as MPI by the names of the files it has mapped.
    let path = home.path("libmpi.so.40");
    program_of_32_bits(&path);
    let started = Command::new(&path).env("PMI_RANK", "0").env("PMI_SIZE", "1").spawn();
    let Ok(child) = started else {
        return skip("a_32_bit_program", "this kernel runs no 32-bit programs; boot one with CONFIG_IA32_EMULATION");
    };
    let mut old = Helper(child);
    sleep(Duration::from_millis(20));
    assert!(old.0.try_wait().expect("a child").is_none(), "the program crashed");
    home.run(&["attach", &old.pid().to_string()]).says("a_32_bit_program", 2, &["32-bit", "only 64-bit x86 programs"]);
    assert!(old.0.try_wait().expect("a child").is_none(), "it runs on");
}

/// A program that `run` starts may be no MPI program, or over before anybody could look; it is said once.
#[test]
fn programs_that_are_over_before_they_are_measured() {
    let home = Home::new();
    let ended = |status: &str| format!("the program ended ({status}) before it could be measured: ");
    for (name, script, code, status, why) in [
        ("short", "exit 0", 2, "exit status: 0", ""),
        ("short, failed", "exit 3", 3, "exit status: 3", ""),
        ("no MPI", "sleep 1", 2, "exit status: 0", "no MPI was seen in it; give an MPI program"),
    ] {
        home.run(&["run", "--", "sh", "-c", script]).says(name, code, &[&ended(status), why]);
    }
}

/// As somebody who may not enter the folder: which one it is and whose is looked up.
#[test]
fn a_store_in_a_folder_that_may_not_be_entered() {
    const TEST: &str = "a_store_in_a_folder_that_may_not_be_entered";
    if !rustix::process::geteuid().is_root() {
        return skip(TEST, "only root may act as another user; run it as root");
    }
    let home = Home::new();
    // The checkout may lie where nobody else may enter.
    let (program, folder) = (home.path("trimtab"), home.path("locked"));
    fs::copy(env!("CARGO_BIN_EXE_trimtab"), &program).expect("a copy");
    fs::create_dir(&folder).expect("a folder");
    for (path, mode) in [(&home.path(""), 0o755), (&folder, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    }
    for words in [&["list"][..], &["report"], &["measure", "app-1"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(words);
        home.surround(&mut command);
        command.env("XDG_DATA_HOME", &folder).env("XDG_CACHE_HOME", home.path("cache")).current_dir("/");
        let fragments = ["cannot open the store", "locked may not be entered (mode 700, user 0)", "use --store PATH"];
        home.start_command(command).wait().says(TEST, 2, &fragments);
    }
}

/// Everything that is refused before any rank is touched, on one job.
#[test]
fn requests_that_cannot_be_met() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid = job.launcher();
    let file = home.path("file");
    fs::write(&file, "not a database, but long enough to be looked at ".repeat(40)).expect("a file");
    let text = file.to_string_lossy().into_owned();
    let folder = home.path("").to_string_lossy().into_owned();
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("no_function", &["--function", "no_such_function"], &["no function matches", "`trimtab functions"]),
        ("indirect_function", &["--function", "time"], &["time can't be measured", "indirect function"]),
        ("no_return", &["--function", "abort"], &["abort can't be measured", "never returns"]),
        ("no_marker", &["--mark", "no_such_marker"], &["no_such_marker"]),
        (
            "json_nowhere",
            &["--json", "/nonexistent/a.json"],
            &["can't write /nonexistent/a.json", "nothing was measured"],
        ),
        (
            "html_nowhere",
            &["--html", "/nonexistent/a.html"],
            &["can't write /nonexistent/a.html", "nothing was measured"],
        ),
        ("store_is_text", &["--store", &text], &["is not a trimtab store", "use --store PATH"]),
        ("store_is_folder", &["--store", &folder], &["cannot open the store", "it is a folder", "--store PATH"]),
        ("store_nowhere", &["--store", "/nonexistent/s.db"], &["does not exist", "mkdir -p /nonexistent"]),
    ];
    for (name, options, fragments) in rows {
        let arguments: Vec<&str> = ["attach"].iter().chain(*options).copied().chain([&*pid]).collect();
        home.run(&arguments).says(name, 2, fragments);
        job.goes_on(name);
    }
    assert_eq!(fs::read_to_string(&file).expect("a file").len(), 48 * 40, "a foreign file is left as it is");
    job.ends_well("requests");
}

#[test]
fn a_job_that_is_traced_or_stopped() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::OpenMpi, ""));
    let (pid, rank) = (job.launcher(), job.ranks[1]);
    if Command::new("strace").arg("-V").output().is_ok() {
        let tracer =
            Helper::start(Command::new("strace").args(["-f", "-qq", "-e", "trace=none", "-p", &rank.to_string()]));
        until("tracing", || status_field(rank, "TracerPid") == tracer.pid().to_string());
        let fragments = ["is traced by", &tracer.pid().to_string(), "strace", "end that tracer"];
        home.run(&["attach", &pid]).says("traced", 2, &fragments);
        signal_to(tracer.pid(), Signal::INT);
        until("end of tracing", || status_field(rank, "TracerPid") == "0");
        job.goes_on("traced");
    } else {
        skip("a_job_that_is_traced_or_stopped[traced]", "no strace; apt-get install strace");
    }
    signal_to(rank, Signal::STOP);
    until("stop", || status_field(rank, "State").starts_with('T'));
    let fragments = [&*format!("process {rank} is stopped"), &format!("kill -CONT {rank}")];
    home.run(&["attach", &pid]).says("stopped", 2, &fragments);
    assert!(status_field(rank, "State").starts_with('T'), "who stopped it decides when it goes on");
    signal_to(rank, Signal::CONT);
    until("going on", || !status_field(rank, "State").starts_with('T'));
    job.goes_on("stopped");
    home.run(&["attach", &pid]).reports("after", 0, &["communication"]);
    job.ends_well("traced or stopped");
}

#[test]
fn a_job_of_another_user() {
    const NAME: &str = "a_job_of_another_user";
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return skip(NAME, "needs root and setpriv; run as root, apt-get install util-linux");
    }
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let binary = home.path("trimtab");
    fs::copy(env!("CARGO_BIN_EXE_trimtab"), &binary).expect("a copy");
    fs::set_permissions(home.path(""), fs::Permissions::from_mode(0o777)).expect("its mode");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    command.args(["--store".as_ref(), home.path("s.db").as_os_str()]).args(["attach", &job.rank(0)]);
    home.surround(&mut command);
    let fragments = ["belongs to user 0 and you are user 65534", "run trimtab as user 0 or as root"];
    home.start_command(command).wait().says(NAME, 2, &fragments);
    job.ends_well(NAME);
}

/// Sets a filter that allows everything, then becomes its arguments.
const FILTER: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 9;
    execv(argv[1], argv + 1);
    return argc;
}
"#;

#[test]
fn a_job_under_a_filter() {
    let _alone = alone();
    let home = Home::new();
    let (source, filter) = (home.path("filter.c"), home.path("filter"));
    fs::write(&source, FILTER).expect("a file");
    let compiled = Command::new("gcc").arg("-o").arg(&filter).arg(&source).status().expect("gcc runs");
    assert!(compiled.success());
    let program = build("steady", Some(Mpi::Mpich), &Variant::default()).expect("builds");
    let end = home.path("end");
    let launch = Launch::alone(&filter).args([program.as_os_str(), "--until".as_ref(), end.as_os_str()]);
    let job = Job::start(&launch);
    // A user who may read the filter finds that it allows everything; anybody else is told whose word would do.
    let attached = home.run(&["attach", &job.rank(0), "--iterations", "3"]);
    match is_root() {
        true => attached.reports("filter", 0, &["communication"]),
        false => attached.says("filter", 2, &["seccomp", "left alone", "--seccomp-ok"]),
    }
    home.run(&["attach", "--seccomp-ok", &job.rank(0), "--iterations", "3"]).reports("word", 0, &["communication"]);
    job.goes_on("filter");
    File::create(end).expect("a file");
    job.ends_right("filter");
}

/// Starts a window that only something else can end, and waits until the probes are in and recording has begun.
fn long_window(home: &Home, job: &Job) -> Started {
    let mut attach = begin_window(home, job);
    assert!(!attach.has_ended(), "{:?}", attach.wait());
    attach
}

/// The same; where the job is about to change, the window may be over before anybody looks.
fn begin_window(home: &Home, job: &Job) -> Started {
    let mut attach = home.start(&["attach", "--iterations", "100000000", "--max-seconds", "60", &job.launcher()]);
    until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || attach.has_ended());
    attach
}

/// A rank that leaves while it is measured.
struct Leaving {
    name: &'static str,
    mpi: Mpi,
    mode: &'static str,
    /// Of the loop; in the iteration `at` it leaves.
    iterations: u32,
    at: u32,
    /// Its job ends with the right result.
    is_right: bool,
}

/// Ranks that end or become another program while they are measured.
#[test]
fn ranks_that_leave() {
    let _alone = alone();
    let row = |name, mpi, mode, iterations, at| Leaving { name, mpi, mode, iterations, at, is_right: true };
    let rows = [
        row("exits", Mpi::OpenMpi, "exit --exit-at", 1600, 1000),
        row("exits", Mpi::Mpich, "exit --exit-at", 1600, 1000),
        Leaving { is_right: false, ..row("vanishes", Mpi::Mpich, "vanish --exit-at", 1600, 1000) },
        row("executes", Mpi::OpenMpi, "exec --exec-at", 1600, 1000),
        row("ends", Mpi::Mpich, "exit --exit-at", 1200, 1200),
    ];
    for row in rows {
        // It leaves later each time until that happens while probes are in.
        let is_met = [1, 3, 9].into_iter().any(|times| leaves_while_measured(&row, times));
        assert!(is_met, "{}: it never left while probes were in", row.name);
    }
}

/// True if probes were seen in it before it left. All that was said must be right in any case.
fn leaves_while_measured(row: &Leaving, times: u32) -> bool {
    let name = format!("{}, {}", row.name, row.mpi.name());
    let (iterations, at) = (row.iterations * times, row.at * times);
    let options = format!("--mode {} {at} --iterations {iterations} --size 500000", row.mode);
    let home = Home::new();
    let Some(job) = Job::start_if_it_stays(&specimen("sleeper", row.mpi, &options)) else { return false };
    let mut attach = begin_window(&home, &job);
    let is_met = !attach.has_ended();
    let outcome = attach.wait();
    println!("{name}: {} {} {:?}", outcome.code(), outcome.stderr, outcome.stdout.lines().next());
    match outcome.code() {
        1 => outcome.reports(&name, 1, &["INVALID", "ended"]),
        _ => outcome.says(&name, 2, &["ended before"]),
    }
    if row.name == "executes" {
        assert_eq!(job.ranks.iter().map(|rank| probes_mapped(*rank)).sum::<usize>(), 0, "{name}");
    } else {
        job.untouched(&name);
    }
    if row.is_right {
        job.ends_right(&name);
    }
    is_met
}

#[test]
fn a_rank_that_is_killed() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        // Killed a little later each time until it happens while it records.
        let reported = [700, 2000, 5000].into_iter().any(|wait_ms| {
            let (home, job) = (Home::new(), steady(mpi, ""));
            let attach = long_window(&home, &job);
            sleep(Duration::from_millis(wait_ms));
            signal_to(job.ranks[1], Signal::KILL);
            let outcome = attach.wait();
            match outcome.code() {
                2 => outcome.says(mpi.name(), 2, &["the program ended before", "trimtab run"]),
                _ => outcome.reports(mpi.name(), 1, &["INVALID", "ended before the window did"]),
            }
            outcome.code() == 1
        });
        assert!(reported, "{}: no kill came while it recorded", mpi.name());
    }
}

/// Too short for any loop to be found in it: what it did until then is a partial window by time, and nothing else is said.
#[test]
fn a_program_that_ends_before_its_loop_is_found() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = format!("ends early, {}", mpi.name());
        let (home, job) = (Home::new(), Job::start(&specimen("steady", mpi, "--iterations 3 --sleep-us 1500000")));
        let outcome = home.run(&["attach", "--json", "-", &job.launcher()]);
        assert_eq!(outcome.code(), 1, "{name}: {outcome:?}");
        let report: Report =
            serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let window = &report.window;
        assert!(!window.valid, "{name}: {window:?}");
        assert_eq!((window.marker_source.word(), window.ended_by.word()), ("time", "program-ended"), "{name}");
        assert_eq!((&window.marker, window.start, window.iterations), (&None, None, None), "{name}");
        let said = window.loop_description.clone().unwrap_or_default();
        assert!(said.starts_with("no loop: the program ended"), "{name}: {said}");
        assert!(report.time_per_iteration_s.is_none(), "{name}: {report:?}");
        assert!(report.warnings.iter().any(|warning| warning.contains("ended")), "{name}: {:?}", report.warnings);
        // It was recorded for part of the three iterations, until the last call of each rank.
        assert!(window.duration_s > 0.0, "{name}: {window:?}");
        assert!(report.functions.iter().any(|function| function.calls_counted() > 0), "{name}: {:?}", report.functions);
        job.ends_right(&name);
    }
}

#[test]
fn interrupts() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid = job.launcher();
    // While the loop is looked for: a marker that is never called is waited for.
    for signal in [Signal::INT, Signal::TERM] {
        let mut attach = home.start(&["attach", "--mark", "MPI_Comm_split", "--max-seconds", "60", &pid]);
        until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || attach.has_ended());
        attach.signal(signal);
        attach.wait().says("while observing", 2, &["interrupted before anything was recorded", "runs on unchanged"]);
        job.goes_on("while observing");
    }
    // While it records, however long it takes to get there.
    let mut reported = false;
    for wait_ms in [500, 1000, 2000, 4000, 8000] {
        let attach = long_window(&home, &job);
        sleep(Duration::from_millis(wait_ms));
        attach.signal(Signal::INT);
        let outcome = attach.wait();
        job.goes_on("while recording");
        if outcome.code() != 2 {
            let said =
                ["until interrupted", "yes: all ranks recorded the same iterations", "interrupted: the window is the"];
            outcome.reports("section 4e, while recording", 0, &said);
            assert!(!outcome.stdout.contains("ended before"), "no rank ended: {}", outcome.stdout);
            reported = true;
            break;
        }
    }
    assert!(reported, "no interrupt came while it recorded");
    // As `timeout` does: to the process, and then to its group.
    let mut attach = home.start(&["attach", "--mark", "MPI_Comm_split", "--max-seconds", "60", &pid]);
    until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || attach.has_ended());
    attach.signal(Signal::TERM);
    attach.signal(Signal::TERM);
    attach.wait().says("one signal that came twice", 2, &["interrupted before anything was recorded"]);
    job.goes_on("one signal that came twice");
    job.ends_well("interrupts");
}

/// The last act of a trimtab that gets no memory: nothing of it stays in the program.
#[test]
fn no_memory_left() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid = job.launcher();
    let mut attach = home.start(&["attach", "--mark", "MPI_Comm_split", "--max-seconds", "60", &pid]);
    until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || attach.has_ended());
    // Nothing more may be mapped from here on; its own last act may raise the limit again.
    let limited = Command::new("prlimit").args(["--pid", &attach.pid().to_string(), "--as=4096:"]).status();
    assert!(limited.expect("prlimit runs").success());
    attach.signal(Signal::INT);
    let outcome = attach.wait();
    job.goes_on("no memory left");
    let has = |words: &str| outcome.stderr.contains(words);
    assert!(outcome.code() == 2 && has("lost its results; it has taken out all") && has("ulimit -v"), "{outcome:?}");
    job.ends_well("no memory left");
}

/// With how little memory it is begun: nothing of it stays in the program, and memory is named, not what is missed for lack of it.
#[test]
fn too_little_memory_from_the_beginning() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    for megabytes in [110_u64, 150, 190, 230, 270] {
        let name = format!("{megabytes} MB");
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={}", megabytes << 20)).arg(env!("CARGO_BIN_EXE_trimtab"));
        command.args(["attach", "--mark", "MPI_Sendrecv", "--iterations", "5", &job.launcher()]);
        home.surround(&mut command);
        let outcome = home.start_command(command).wait();
        job.goes_on(&name);
        // Where that is enough for the program that is tested, there is a report.
        assert!(outcome.code() == 0 || outcome.stderr.contains("`ulimit -v`"), "{name}: {outcome:?}");
        assert!(!outcome.stderr.contains("memory allocation of"), "{name}: {outcome:?}");
    }
    job.ends_well("too little memory");
}

/// Whoever wants to see all of it until he says so has what he asked for, also where no loop was found.
#[test]
fn a_window_by_time_until_it_is_interrupted() {
    let _alone = alone();
    let launch = specimen("ep", Mpi::OpenMpi, "--iterations 1000000 --every 1000000");
    let (home, job) = (Home::new(), Job::start(&launch));
    let mut reported = false;
    for wait_ms in [700, 2000, 4000, 8000] {
        let mut attach = home.start(&["attach", "--follow", "--max-seconds", "1.5", &job.launcher()]);
        until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || attach.has_ended());
        sleep(Duration::from_millis(wait_ms));
        attach.signal(Signal::INT);
        let outcome = attach.wait();
        job.goes_on("followed");
        if outcome.code() != 2 {
            outcome.reports("followed", 0, &["no loop: ", "until interrupted", "interrupted: the window is what was"]);
            assert!(!outcome.stdout.contains("INVALID"), "{}", outcome.stdout);
            reported = true;
            break;
        }
    }
    assert!(reported, "no interrupt came while it recorded");
}

/// The launcher's PID means its ranks for every command, and a killed trimtab's rests go from all of them.
#[test]
fn one_pid_means_the_whole_job() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid = job.launcher();
    let ranks = format!("process {}, ranks 0, 1 (", job.rank(0));
    home.run(&["functions", &pid, "MPI_Allreduce"]).reports("functions", 0, &[&ranks, "1 can be measured"]);
    home.run(&["functions", "--process", &pid, "MPI_Allreduce"]).reports("itself", 1, &["0 functions match"]);
    let points = home.run(&["points", "main", &pid, "--summary"]);
    assert!(points.code() == 0 && points.stdout.contains("1 function for main"), "{points:?}");
    assert!(points.stderr.contains(&ranks) && points.stderr.contains("--process"), "{}", points.stderr);
    let explained = home.run(&["explain", "entry MPI_Allreduce { n++ }", &pid]);
    assert!(explained.code() == 0 && explained.stdout.contains("entry of MPI_Allreduce"), "{explained:?}");
    home.run(&["probe", "entry MPI_Allreduce { n++ }", &pid, "--for", "0.1"]).reports("probe", 0, &["n  "]);
    let refused = home.run(&["probe", "--process", "entry MPI_Allreduce { n++ }", &pid, "--for", "0.1"]);
    assert!(refused.code() == 2 && refused.stderr.contains("no function matches `MPI_Allreduce`"), "{refused:?}");

    let attach = long_window(&home, &job);
    attach.signal(Signal::KILL);
    attach.wait();
    let ranks = [0, 1].map(|rank| format!("rank {rank} (process {}): ", job.rank(rank)));
    home.run(&["undo", &pid]).reports("undo", 0, &[&ranks[0], &ranks[1], "places restored, 0 bytes left"]);
    job.goes_on("undone");
    let nothing = format!("the job of process {pid} holds nothing of trimtab's: its 2 ranks were looked at");
    home.run(&["undo", &pid]).reports("nothing left", 1, &[&nothing]);

    let attach = long_window(&home, &job);
    attach.signal(Signal::KILL);
    attach.wait();
    home.run(&["undo", "--process", &job.rank(1)]).reports("one", 0, &[&format!("process {}: ", job.rank(1))]);
    let rest = home.run(&["undo", &job.rank(1)]);
    rest.reports("the other one", 0, &[&ranks[0]]);
    assert!(!rest.stdout.contains("rank 1 "), "{}", rest.stdout);
    job.ends_well("one PID");
}

/// Iterations of which hardly three fit into the time that is waited while nothing repeats.
#[test]
fn a_slow_loop_is_waited_for() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, "--sleep-us 600000"));
    let options = ["attach", "--max-seconds", "4.5", "--iterations", "2", "--start", "0", "--json", "-"];
    let outcome = home.run(&[&options[..], &[&job.launcher()]].concat());
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let report: Report = serde_json::from_str(&outcome.stdout).expect("a report");
    assert_eq!((report.window.marker_source.word(), report.window.iterations), ("detected", Some(2)), "{report:?}");
    job.ends_well("slow");
}

#[test]
fn two_at_once() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid = job.launcher();
    let mut first = home.start(&["attach", "--iterations", "1500", &pid]);
    until("patching", || job.ranks.iter().all(|rank| probes_mapped(*rank) > 0) || first.has_ended());
    let in_use = ["is being measured by trimtab process", &first.pid().to_string(), "wait for it to end"];
    home.run(&["attach", &pid]).says("second", 2, &in_use);
    home.run(&["undo", &job.rank(0)]).says("undo", 2, &in_use);
    assert!(!first.has_ended(), "the first one was over too early for this test");
    first.wait().reports("first", 0, &["1,500 iterations"]);
    job.ends_well("two at once");
}

#[test]
fn a_reader_that_goes_away() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let errors = home.path("errors");
    let mut command = home.command(&["attach", &job.launcher()]);
    let status = command.stdout(writer).stderr(File::create(&errors).expect("a file")).status().expect("runs");
    assert_eq!((status.code(), &*fs::read_to_string(&errors).expect("errors")), (Some(0), ""), "closed pipe");
    home.run(&["list"]).reports("the window was kept", 0, &["steady"]);
    job.ends_well("closed pipe");
}

/// A file system of a few pages, unmounted with the test.
struct Tiny(PathBuf);

impl Drop for Tiny {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk() {
    const NAME: &str = "a_full_disk";
    let home = Home::new();
    let folder = home.path("tiny");
    fs::create_dir(&folder).expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=600k", "tmpfs"]).arg(&folder).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return skip(NAME, "can't mount a tmpfs; run as root");
    }
    let tiny = Tiny(folder);
    let _alone = alone();
    let job = steady(Mpi::Mpich, "");
    let store = tiny.0.join("s.db").to_string_lossy().into_owned();
    let arguments = ["attach", "--store", &store, &job.launcher()];
    home.run(&arguments).reports("there is room", 0, &["communication"]);
    let mut filler = File::create(tiny.0.join("filler")).expect("a file");
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let outcome = home.run(&arguments);
    // Its file may still have room for the job and none for the window, which is measured and shown then.
    let code = if outcome.stdout.is_empty() { 2 } else { 1 };
    outcome.says("full", code, &["no space to write to the store", "free space"]);
    job.goes_on("full");
    // Full when the window is over: its own file has no room, and keeps what it had before.
    let (json, earlier) = (tiny.0.join("report.json"), "earlier");
    drop(filler);
    fs::remove_file(tiny.0.join("filler")).expect("removed");
    fs::write(&json, earlier).expect("there is room");
    let mut filler = File::create(tiny.0.join("filler")).expect("a file");
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let outcome = home.run(&["attach", "--json", &json.to_string_lossy(), &job.launcher()]);
    assert!(outcome.code() == 1 && outcome.stdout.contains("communication"), "full after measuring: {outcome:?}");
    assert!(outcome.stderr.contains("can't write") && outcome.stderr.contains("o space left"), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(&json).expect("it is there"), earlier, "no torn file");
    let left: Vec<_> = fs::read_dir(&tiny.0).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("report.json.")), "{left:?}");
    drop(filler);
    fs::remove_file(tiny.0.join("filler")).expect("removed");
    home.run(&arguments).reports("room again", 0, &["communication"]);
    home.run(&["list", "--store", &store]).reports("earlier windows are intact", 0, &["steady"]);
    job.ends_well(NAME);
}

/// Too few files that trimtab may open look like processes that have ended, so they are counted before anything is begun.
#[test]
fn too_few_descriptors_are_said_before_anything_is_begun() {
    let home = Home::new();
    let pid = std::process::id().to_string();
    for words in [&["attach", &pid][..], &["probe", "entry main { n++ }", &pid], &["undo", &pid], &["functions", &pid]]
    {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n 12; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_trimtab")]).args(words);
        home.surround(&mut command);
        let outcome = home.start_command(command).wait();
        assert_eq!(outcome.code(), 2, "{words:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("may open only 12 files at a time here and needs 56 or more"),
            "{words:?}: {outcome:?}"
        );
        assert!(outcome.stderr.contains("ulimit -n 56") && !outcome.stderr.contains("end that tracer"), "{outcome:?}");
    }
}
