//! A thread in a restartable sequence is not borrowed: it would go on in the middle as if nobody had interrupted it.
//!
//! Next: `inject` for threads that are borrowed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_os::{Call, Error, MappingTable, Memory, Stopped, find_gadgets};
use trimtab_specimens::skip;
use trimtab_types::Pid;

/// It never leaves its sequence but where the kernel sends it, and begins it again there.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <sys/rseq.h>

int main(void) {
  puts(__rseq_size ? "ready" : "none");
  fflush(stdout);
  char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
  __asm__ volatile(
      "1: lea sequence(%%rip), %%rax\n mov %%rax, 8(%0)\n"
      "2: pause\n jmp 2b\n"
      "3: .byte 0x0f, 0x1f, 0x05\n .long 0x53053053\n"
      "4: jmp 1b\n"
      ".pushsection .data\n .balign 32\n sequence: .long 0, 0\n .quad 2b, 3b - 2b, 4b\n .popsection\n"
      : : "r"(area) : "rax", "memory");
}
"#;

const PATIENCE: Duration = Duration::from_secs(60);

/// The program under way. Dropping it ends it.
struct Spinning(Child);

impl Drop for Spinning {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// `None`: the kernel or the C library takes no part in such sequences.
fn start() -> Option<Spinning> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("sequence.c"), folder.join("sequence"));
    std::fs::write(&source, PROGRAM).expect("writes");
    let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status().expect("cc runs");
    assert!(built.success());
    let mut child = Spinning(Command::new(program).stdout(Stdio::piped()).spawn().expect("starts"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    (line == "ready\n").then_some(child)
}

#[test]
fn a_thread_in_a_sequence_is_not_borrowed() {
    let Some(program) = start() else {
        let reason =
            "no restartable sequences here; needs Linux 4.18 and glibc 2.35, without GLIBC_TUNABLES against them";
        return skip("a_thread_in_a_sequence_is_not_borrowed", reason);
    };
    let pid = Pid(program.0.id() as i32);
    let maps = MappingTable::of(pid).expect("maps");
    let gadgets = find_gadgets(pid, &Memory::open(pid).expect("memory"), &maps).expect("gadgets");
    let since = Instant::now();
    // Between two sequences it may be borrowed, and goes on as before.
    loop {
        let stopped = Stopped::stop_one(pid).expect("stops");
        let is_inside = stopped.is_in_restartable_sequence(0).expect("the kernel tells");
        let made = stopped.resume_through(&[Call::new("getpid", 39, [0; 0])], gadgets, &maps);
        assert_eq!(matches!(made, Err(Error::NotNow { .. })), is_inside, "{made:?}");
        if is_inside {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "it is never seen in its sequence");
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    assert!(status.contains("State:\tR"), "it runs on: {status}");
}
