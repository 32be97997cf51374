//! Limits that forbid our calls, and what makes them in another way: programs under seccomp filters, programs of musl,
//! static ones, programs of Go. Each is probed, or refused with the reason; neither is harmed.
//!
//! Filters are installed by a library that is loaded before the program (`FILTER`): lists as Docker and systemd
//! install them, and single calls that get every answer a filter can give. Before trimtab itself, one answers as a kernel
//! does that does not know a call yet.
//!
//! Next: `hazards` for a filter that comes while the probes are in; `trimtab-os`' `filter` for how one is run.

mod common_hazards;
mod common_trace;

use common_hazards::{Hazard, changed_code};
use common_trace::{Home, LIMIT, Outcome, alone, is_root, probes_mapped, specimen, until};
use std::path::PathBuf;
use std::process::Command;
use trimtab_specimens::{HazardVariant, Mpi, skip};

const SCRIPT: &str = "entry *@hazards { n++ } exit *@hazards { time = hist(elapsed) } for 80 ms;";

/// Installs a filter before the program begins: calls of FILTER_CALLS get FILTER_ANSWER (if the third argument has all
/// bits of FILTER_BITS), all others pass. FILTER_LIST: as a list of the allowed calls, as Docker and systemd have it.
/// FILTER_THREAD: one further thread alone is under it.
const FILTER: &str = r#"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static struct sock_filter code[4000];
static unsigned short length;
static void put(unsigned short what, unsigned char yes, unsigned char no, unsigned value) {
    code[length++] = (struct sock_filter){what, yes, no, value};
}
static unsigned number(const char *name) { return getenv(name) ? strtoul(getenv(name), NULL, 0) : 0; }
static int is_in_list(unsigned call) {
    char *at = getenv("FILTER_CALLS");
    while (*at) {
        if (strtoul(at, &at, 10) == call) return 1;
        at += *at == ',';
    }
    return 0;
}
static void *install(void *waits) {
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(9);
    while (waits) pause();
    return NULL;
}
__attribute__((constructor)) static void begin(void) {
    unsigned bits = number("FILTER_BITS");
    put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    for (unsigned call = 0; call < 470; call++) {
        if (!getenv("FILTER_LIST") != is_in_list(call)) continue;
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, bits ? 5 : 1, call);
        if (bits) {
            put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[2]));
            put(BPF_ALU | BPF_AND | BPF_K, 0, 0, bits);
            put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, bits);
        }
        put(BPF_RET | BPF_K, 0, 0, getenv("FILTER_LIST") ? SECCOMP_RET_ALLOW : number("FILTER_ANSWER"));
        if (bits) put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    }
    put(BPF_RET | BPF_K, 0, 0, getenv("FILTER_LIST") ? number("FILTER_ANSWER") : SECCOMP_RET_ALLOW);
    pthread_t thread;
    if (!getenv("FILTER_THREAD")) install(NULL);
    else if (pthread_create(&thread, NULL, install, code)) _exit(9);
    unsetenv("LD_PRELOAD");
}
"#;

/// The calls that Docker's default leaves out of its list: modules, mounts, clocks, keys, other processes, tracing of
/// the kernel.
const NOT_IN_DOCKERS: &str = "101,103,134,135,136,139,153,154,155,156,159,163,164,165,166,167,168,169,172,173,174,175,176,\
                              177,178,179,180,181,182,183,184,185,205,212,227,236,237,238,239,246,248,249,250,256,272,\
                              279,298,300,303,304,305,308,310,311,312,313,320,321,323";
/// The same of systemd's @system-service: it allows some more, and nothing of raw devices and sandboxes.
const NOT_IN_SYSTEM_SERVICE: &str = "101,103,134,139,153,154,155,156,159,161,163,164,165,166,167,168,169,172,173,174,175,\
                                     176,177,178,179,180,181,182,183,184,185,205,227,246,272,298,304,308,310,311,313,320,321";
const ERRNO_1: &str = "0x00050001";
const KILL: &str = "0x80000000";

/// One filter and what comes of it.
struct Row {
    name: &'static str,
    hazard: &'static str,
    calls: &'static str,
    answer: &'static str,
    others: &'static [(&'static str, &'static str)],
    /// Words of the refusal; none: it is probed.
    refused: &'static [&'static str],
}

const LIST: &[(&str, &str)] = &[("FILTER_LIST", "1")];

const ROWS: [Row; 12] = [
    row("as Docker's default", "recursion", NOT_IN_DOCKERS, ERRNO_1, LIST, &[]),
    row("as systemd's @system-service", "threads", NOT_IN_SYSTEM_SERVICE, KILL, LIST, &[]),
    row("as systemd's MemoryDenyWriteExecute", "recursion", "9,10", ERRNO_1, &[("FILTER_BITS", "6")], &[]),
    row("logged", "recursion", "319,9,11", "0x7ffc0000", &[], &[]),
    row("kills", "recursion", "319", KILL, &[], &["ends the process for memfd_create"]),
    row("kills the thread", "recursion", "11", "0", &[], &["ends the thread for munmap"]),
    row("no executable memory", "recursion", "9", ERRNO_1, &[("FILTER_BITS", "4")], &["answers with errno 1 mmap"]),
    row("asks another process", "recursion", "28", "0x7fc00000", &[], &["asks another process about madvise"]),
    row("asks a tracer", "recursion", "8", "0x7ff00000", &[], &["asks a tracer about lseek"]),
    row("traps", "recursion", "28", "0x00030000", &[], &["sends SIGSYS for madvise"]),
    row("one thread", "recursion", "319", KILL, &[("FILTER_THREAD", "1")], &["ends the process for memfd_create"]),
    row("no sleep goes on", "dozing", "219", KILL, &[], &["ends the process for restart_syscall"]),
];

const fn row(
    name: &'static str,
    hazard: &'static str,
    calls: &'static str,
    answer: &'static str,
    others: &'static [(&'static str, &'static str)],
    refused: &'static [&'static str],
) -> Row {
    Row { name, hazard, calls, answer, others, refused }
}

fn library(home: &Home) -> PathBuf {
    let (source, library) = (home.path("filter.c"), home.path("libfilter.so"));
    std::fs::write(&source, FILTER).expect("a file");
    let compiler = Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiler.expect("gcc runs").success());
    library
}

impl Row {
    fn start(&self, library: &std::path::Path) -> Hazard {
        let hazard = Hazard::start_with(HazardVariant::Optimised, self.hazard, &|command| {
            command.env("LD_PRELOAD", library).env("FILTER_CALLS", self.calls).env("FILTER_ANSWER", self.answer);
            command.envs(self.others.iter().copied());
        });
        until("its filter", || is_filtered(hazard.pid()));
        hazard
    }
}

fn is_filtered(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
    tasks.into_iter().any(|task| status(task).contains("Seccomp:\t2"))
}

#[track_caller]
fn was_probed(outcome: &Outcome, name: &str) {
    assert!(outcome.code() <= 1 && outcome.hits() > 0, "{name}: {outcome:?}");
    assert!(!outcome.stdout.contains("stay mapped"), "{name}: {outcome:?}");
}

/// Reading filters takes CAP_SYS_ADMIN.
#[test]
fn filters_are_asked_about_our_very_calls() {
    if !is_root() {
        return skip("filters_are_asked_about_our_very_calls", "not root");
    }
    let (_alone, home) = (alone(), Home::new());
    let library = library(&home);
    for row in &ROWS {
        let mut hazard = row.start(&library);
        let outcome = hazard.probe(&home, SCRIPT);
        if row.refused.is_empty() {
            was_probed(&outcome, row.name);
        } else {
            outcome.says(row.name, 2, &[row.refused, &["left alone"]].concat());
        }
        hazard.is_as_its_files(row.name);
        hazard.ends_well();
    }
}

/// Without that right, by the owner's word only.
#[test]
fn filters_that_cannot_be_read_are_named_or_taken_on_the_owners_word() {
    const NAME: &str = "filters_that_cannot_be_read_are_named_or_taken_on_the_owners_word";
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return skip(NAME, "not root, or no setpriv; apt-get install util-linux");
    }
    let (_alone, home) = (alone(), Home::new());
    let mut hazard = ROWS[0].start(&library(&home));
    let pid = hazard.pid().to_string();
    let bounded = |arguments: &[&str]| {
        let trimtab = home.command(arguments);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
        command.arg(trimtab.get_program()).args(trimtab.get_args());
        home.surround(&mut command);
        home.start_command(command).wait()
    };
    let outcome = bounded(&["probe", SCRIPT, &pid]);
    outcome.says("no right", 2, &["CAP_SYS_ADMIN", "memfd_create", "restart_syscall", "--seccomp-ok"]);
    hazard.is_as_its_files("no right");
    was_probed(&bounded(&["probe", "--seccomp-ok", SCRIPT, &pid]), "the owner's word");
    hazard.is_as_its_files("the owner's word");
    // Which calls a function makes is known to nobody, filters or not.
    let call = "once { call fflush(0) } for 80 ms;";
    let outcome = home.run(&["probe", "--allow-call", call, &pid]);
    assert!(format!("{outcome:?}").contains("--seccomp-ok"), "{outcome:?}");
    hazard.is_as_its_files("a call");
    assert_eq!((changed_code(hazard.pid()), probes_mapped(hazard.pid())), (None, 0));
    hazard.ends_well();
}

/// Computes until the file that it is given exists.
const WORK: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void ignored(int number) { (void)number; }
__attribute__((noinline)) double work(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / i; return s; }
int main(int argc, char **argv) {
#ifdef HANDLES
    signal(SIGUSR1, ignored);
#endif
    while (argc > 1 && access(argv[1], F_OK)) for (int i = 0; i < 100; i++) if (work(1000) < 7) return 1;
    puts("OK");
    return 0;
}
"#;

/// Goroutines that grow their stacks, collect garbage and are interrupted by signals, with calls of C or none.
const GO: &str = r#"
package main
//C
import ("fmt"; "os"; "runtime")
//go:noinline
func work(n int) float64 { s := 0.0; for i := 1; i < n; i++ { s += 1.0 / float64(i) }; return s }
//go:noinline
func deep(n int) int { var a [32]int; a[n%32] = n; if n == 0 { return 0 }; return deep(n-1) + a[n%32] - n + 1 }
func main() {
	done, over := make(chan bool), false
	for g := 0; g < 4; g++ {
		go func() {
			for n := 0; !over; n++ {
				CALL
				if work(1000) < 7 || deep(n % 2000) != n % 2000 { panic("wrong") }
				if n % 100 == 0 { runtime.GC() }
			}
			done <- true
		}()
	}
	for { if _, err := os.Stat(os.Args[1]); err == nil { break } ; runtime.Gosched() }
	over = true
	for g := 0; g < 4; g++ { <-done }
	fmt.Println("OK")
}
"#;

/// One program: its compiler, its functions that are probed, and words of the refusal, if it is refused.
type Stranger = (&'static str, &'static [&'static str], &'static str, Option<&'static str>);

const C_SCRIPT: &str = "entry work { n++ } exit work { time = hist(elapsed) } for 80 ms;";
const STRANGERS: [Stranger; 6] = [
    ("musl", &["musl-gcc", "-O2", "-DHANDLES"], C_SCRIPT, None),
    ("static musl", &["musl-gcc", "-O2", "-static", "-DHANDLES"], C_SCRIPT, None),
    ("static musl, no handler", &["musl-gcc", "-O2", "-static"], C_SCRIPT, Some("handles no signal")),
    ("static", &["gcc", "-O2", "-static"], C_SCRIPT, None),
    ("Go", &["go", "build"], "entry main.work { n++ } for 80 ms;", Some("Go program")),
    ("Go with C", &["go", "build"], "entry malloc { n++ } exit malloc { time = hist(elapsed) } for 80 ms;", None),
];

/// The program; none if its compiler is not here.
fn built(home: &Home, (name, compiler, ..): &Stranger) -> Option<PathBuf> {
    let is_go = compiler[0] == "go";
    let (source, program) = (home.path(if is_go { "work.go" } else { "work.c" }), home.path("stranger"));
    let with_c = GO.replace("//C", "// #include <stdlib.h>\nimport \"C\"").replace("CALL", "C.free(C.malloc(100))");
    let text = match (is_go, *name) {
        (false, _) => WORK.to_owned(),
        (true, "Go") => GO.replace("CALL", ""),
        (true, _) => with_c,
    };
    std::fs::write(&source, text).expect("a file");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-o").arg(&program).arg(&source);
    command.env("GO111MODULE", "off").env("GOPATH", home.path("go")).env("HOME", home.path(""));
    command.env("GOCACHE", std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
    let compiled = command.output().ok()?;
    assert!(compiled.status.success(), "{name}: {compiled:?}");
    Some(program)
}

#[test]
fn static_programs_and_those_of_musl_are_probed_and_of_go_what_is_not_gos() {
    let (_alone, home) = (alone(), Home::new());
    for stranger @ (name, compiler, script, refused) in &STRANGERS {
        let Some(program) = built(&home, stranger) else {
            skip(name, &format!("no {}; apt-get install musl-tools golang-go", compiler[0]));
            continue;
        };
        let end = home.path("end");
        let output = std::fs::File::create(home.path("out")).expect("a file");
        let mut child = Command::new(&program).arg(&end).stdout(output).spawn().expect("starts");
        let pid = child.id() as i32;
        until("its code", || runs(pid, &program));
        for _ in 0..3 {
            let outcome = home.run(&["probe", script, &pid.to_string()]);
            match refused {
                Some(words) => outcome.says(name, 2, &[*words]),
                None => was_probed(&outcome, name),
            }
            assert_eq!((changed_code(pid), probes_mapped(pid)), (None, 0), "{name}");
        }
        std::fs::File::create(&end).expect("a file");
        let status = child.wait().expect("it ends");
        let said = std::fs::read_to_string(home.path("out")).expect("its output");
        assert!(status.success() && said == "OK\n", "{name}: {status} {said}");
        std::fs::remove_file(&end).expect("a file");
    }
}

/// True if it runs its own program by now, and has used some processor time in it.
fn runs(pid: i32, program: &std::path::Path) -> bool {
    let is_it = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    let stat = std::fs::read(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let used_ns = String::from_utf8_lossy(&stat).split(' ').next().and_then(|ns| ns.parse().ok());
    is_it && used_ns.is_some_and(|ns: u64| ns > 20_000_000)
}

/// `ioctl`, and the answer of kernels that don't know what it asks for: nobody can ask how a process ended that its parent
/// has taken note of, as before Linux 6.15.
const FORGETFUL: [(&str, &str); 2] = [("FILTER_CALLS", "16"), ("FILTER_ANSWER", "0x00050019")];

/// A job that ends well while it is measured is no error, and one whose rank faults is, also where the kernel forgets.
#[test]
fn ends_are_told_apart_on_kernels_that_forget_them() {
    let (_alone, home) = (alone(), Home::new());
    let library = library(&home);
    for (name, arguments, faults) in
        [("ends well", "--iterations 5000", false), ("faults", "--iterations 1000000", true)]
    {
        let mut job = specimen("particle", Mpi::Mpich, arguments).start().expect("a launcher");
        let pids = job.rank_pids(LIMIT).expect("ranks");
        let mut command = home.command(&["attach", "--follow", &job.pid().to_string()]);
        command.env("LD_PRELOAD", &library).envs(FORGETFUL);
        let attach = home.start_command(command);
        until("probes", || pids.iter().all(|pid| probes_mapped(*pid) > 0));
        if faults {
            until("patches", || pids.iter().all(|pid| changed_code(*pid).is_some()));
            let fault = Command::new("kill").args(["-SEGV", &pids[1].to_string()]).status();
            assert!(fault.expect("kill runs").success());
        }
        let outcome = attach.wait();
        let is_told = outcome.stderr.contains("SIGSEGV") || outcome.stderr.contains("can't be known");
        assert_eq!((outcome.code() == 2, is_told), (faults, faults), "{name}: {outcome:?}");
        let finished = job.wait(LIMIT).expect("it ends");
        assert_eq!(finished.status.success(), !faults, "{name}");
    }
}
