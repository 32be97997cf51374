//! The end of a process ends the wait for it.

use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_os::{ProcessEnd, wait_for_end};
use trimtab_types::Pid;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

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
