//! Ranks that are in `MPI_Init` are waited for: a program that keeps Open MPI's word for it, and says in it what it is told.
//!
//! Next: `jobs.rs` of the command line, for jobs that are measured from their start.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trimtab_measure::wait_for_start;
use trimtab_os::Memory;
use trimtab_session::{ImageCache, Modules};
use trimtab_types::Pid;

/// Each byte that comes is where it is from then on, and is sent back.
const PROGRAM: &str = r"#include <unistd.h>
volatile int ompi_mpi_state = 0;
int main(void) {
    char byte;
    while (read(0, &byte, 1) == 1) {
        ompi_mpi_state = byte - '0';
        write(1, &byte, 1);
    }
    return 0;
}
";
/// Far longer than it takes to see what somebody waits for.
const MEANWHILE: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

struct Rank {
    child: Child,
    told: ChildStdin,
    says: ChildStdout,
    modules: Modules,
}

impl Rank {
    fn start(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&source, PROGRAM).expect("is written");
        let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("cc runs").success());
        let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("starts");
        let mut told = child.stdin.take().expect("is piped");
        let mut says = child.stdout.take().expect("is piped");
        let pid = Pid(child.id() as i32);
        // By then its loader is done.
        tell(&mut told, &mut says, b'0');
        let modules = Modules::read(pid, &ImageCache::in_memory(), &|path| path.ends_with(name));
        Rank { child, told, says, modules: modules.expect("its modules") }
    }

    fn tell(&mut self, state: u8) {
        tell(&mut self.told, &mut self.says, state);
    }

    fn state(&self) -> u8 {
        let memory = Memory::open(self.modules.pid).expect("its memory");
        let address = self.modules.object("ompi_mpi_state").expect("has it");
        memory.read_vec(address.0, 1).expect("is read")[0]
    }

    /// Waits while it is told this a moment later; whether there was something to wait for.
    fn waited(&mut self, before_max: Duration, later: u8) -> bool {
        let modules = self.modules.clone();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || wait_for_start(&[modules], before_max, &|| false));
            std::thread::sleep(MEANWHILE);
            let is_over = waits.is_finished();
            self.tell(later);
            let waited = waits.join().expect("it returns");
            assert_eq!(waited, !is_over, "who waits goes on when it is over, nobody else waits");
            waited
        })
    }
}

fn tell(told: &mut ChildStdin, says: &mut ChildStdout, state: u8) {
    told.write_all(&[state]).expect("it listens");
    let mut answer = [0];
    says.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer, [state]);
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("has ended");
    }
}

#[test]
fn a_rank_in_mpi_init_is_waited_for() {
    let mut rank = Rank::start("starting");
    assert!(!rank.waited(Duration::ZERO, b'0'), "it has not called it, and nobody asked for more");
    assert!(rank.waited(LONG, b'2'), "it was started a moment ago and will call it");
    rank.tell(b'1');
    assert!(rank.waited(Duration::ZERO, b'2'), "it is in it");
    assert_eq!(rank.state(), 2);
    assert!(!rank.waited(LONG, b'5'), "it is behind it");
    assert!(!rank.waited(LONG, b'5'), "it has left MPI");
}

#[test]
fn a_rank_that_ends_in_mpi_init_is_not_waited_for() {
    let mut rank = Rank::start("ending");
    rank.tell(b'1');
    let modules = rank.modules.clone();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || wait_for_start(&[modules], Duration::ZERO, &|| false));
        std::thread::sleep(MEANWHILE);
        assert!(!waits.is_finished(), "it is in it");
        rank.child.kill().expect("is killed");
        assert!(waits.join().expect("it returns"));
    });
}

#[test]
fn waiting_can_be_given_up() {
    let mut rank = Rank::start("given_up");
    rank.tell(b'1');
    let (modules, is_given_up) = (rank.modules.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait_for_start(&[modules], LONG, &|| is_given_up.load(Ordering::Relaxed)));
        std::thread::sleep(MEANWHILE);
        assert!(!waits.is_finished(), "it is in it");
        is_given_up.store(true, Ordering::Relaxed);
        assert!(waits.join().expect("it returns"));
    });
    assert_eq!(rank.state(), b'1' - b'0');
}

#[test]
fn a_program_without_mpi_is_not_waited_for() {
    let own = Pid(std::process::id() as i32);
    let modules = Modules::read(own, &ImageCache::in_memory(), &|path| path.contains("libc.so")).expect("modules");
    assert!(!wait_for_start(&[modules], LONG, &|| false));
}
