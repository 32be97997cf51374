//! The end of a process ends the wait for it.

use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_os::{EndCause, ProcessEnd, wait_for_end};
use trimtab_types::Pid;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The end of a process is told, asked for by its parent already or not. A parent that has asked has all there is, unless
/// the kernel is new.
#[test]
fn what_ended_a_process_is_told() {
    for (name, script, wanted) in [
        ("exits", "read line; exit 3", EndCause::Exited(3)),
        ("faults", "read line; kill -SEGV $$", EndCause::Fault(libc::SIGSEGV)),
        ("aborts", "read line; kill -ABRT $$", EndCause::Fault(libc::SIGABRT)),
        ("is_ended", "read line; kill -KILL $$", EndCause::Signal(libc::SIGKILL)),
    ] {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().expect("sh runs");
        let end = ProcessEnd::of(Pid(child.id() as i32)).expect("it runs");
        assert_eq!(end.cause(), None, "{name}: it waits");
        drop(child.stdin.take());
        wait_for_end([&end].into_iter(), LIMIT);
        assert_eq!(end.cause(), Some(wanted), "{name}: nobody has asked");
        child.wait().expect("ours");
        let after = end.cause();
        assert!([Some(wanted), Some(EndCause::Unknown)].contains(&after), "{name}: {after:?}");
    }
}

#[test]
fn the_end_of_one_of_several_processes_is_noticed() {
    let mut children: Vec<_> = (0..2).map(|_| Command::new("sleep").arg("600").spawn().expect("sleep runs")).collect();
    let ends: Vec<ProcessEnd> =
        children.iter().map(|child| ProcessEnd::of(Pid(child.id() as i32)).expect("it runs")).collect();
    wait_for_end(ends.iter(), Duration::from_millis(1));
    assert!(children.iter_mut().all(|child| child.try_wait().expect("ours").is_none()), "only the time was over");
    children[1].kill().expect("ours to end");
    let begin = Instant::now();
    wait_for_end(ends.iter(), LIMIT);
    assert_eq!([0, 1].map(|index| ends[index].is_over()), [false, true]);
    assert!(begin.elapsed() < LIMIT, "the end was not noticed");
    children[0].kill().expect("ours to end");
    for child in &mut children {
        child.wait().expect("ours");
    }
    assert!(ProcessEnd::of(Pid(children[0].id() as i32)).is_err(), "it is gone");
}
