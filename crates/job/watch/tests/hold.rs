//! A process that is held goes on: when it was prepared, when the time is over, and when its holder is killed.

use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::Duration;
use trimtab_os::stat_of;
use trimtab_specimens::{threads_running, wait_for};
use trimtab_types::Pid;
use trimtab_types::procfs::State;
use trimtab_watch::{Held, Holding};

/// Longer than anything here takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Tells the test that is started again as another process whom to hold.
const HELD_PID: &str = "TRIMTAB_TEST_HELD_PID";

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        let sleeper = Sleeper(Command::new("sleep").arg("600").spawn().expect("sleep runs"));
        sleeper.wait_until(State::Sleeping);
        sleeper
    }

    fn pid(&self) -> Pid {
        Pid(i32::try_from(self.0.id()).expect("a process id"))
    }

    fn wait_until(&self, state: State) {
        wait_for(&format!("{state:?}"), || stat_of(self.pid(), self.pid().0).is_some_and(|stat| stat.state == state));
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn outcome(holding: &Holding) -> Held {
    let outcome = holding.outcome();
    wait_for("an outcome", || outcome.get().is_some());
    outcome.get().expect("waited for").as_ref().expect("it was held").clone()
}

#[test]
fn a_held_process_goes_on_when_it_was_prepared() {
    let sleeper = Sleeper::start();
    let mut holding = Holding::begin(sleeper.pid(), LIMIT).expect("holds");
    sleeper.wait_until(State::TracingStop);
    let (done, work) = channel::<()>();
    holding.release_after(move || while work.recv().is_ok() {}).expect("a thread");
    assert!(holding.outcome().get().is_none(), "it is held as long as the work takes");
    drop(done);
    assert!(!outcome(&holding).timed_out);
    sleeper.wait_until(State::Sleeping);
    threads_running(sleeper.pid().0).expect("no thread is stopped");
}

#[test]
fn a_held_process_goes_on_when_the_time_is_over_whatever_the_work() {
    let sleeper = Sleeper::start();
    let mut holding = Holding::begin(sleeper.pid(), Duration::from_millis(50)).expect("holds");
    let (_never, work) = channel::<()>();
    holding.release_after(move || while work.recv().is_ok() {}).expect("a thread");
    assert!(outcome(&holding).timed_out);
    sleeper.wait_until(State::Sleeping);
    threads_running(sleeper.pid().0).expect("no thread is stopped");
}

#[test]
fn a_process_that_nobody_wants_any_more_goes_on() {
    let sleeper = Sleeper::start();
    let holding = Holding::begin(sleeper.pid(), LIMIT).expect("holds");
    sleeper.wait_until(State::TracingStop);
    drop(holding);
    sleeper.wait_until(State::Sleeping);
}

#[test]
fn a_process_that_has_ended_can_not_be_held() {
    let mut sleeper = Sleeper::start();
    let pid = sleeper.pid();
    sleeper.0.kill().expect("ours to end");
    sleeper.0.wait().expect("ours");
    let holding = Holding::begin(pid, LIMIT).expect("a thread");
    wait_for("an outcome", || holding.outcome().get().is_some());
    assert!(holding.outcome().get().is_some_and(Result::is_err));
}

#[test]
fn a_held_process_goes_on_when_its_holder_is_killed() {
    if let Ok(pid) = std::env::var(HELD_PID) {
        let _held = Holding::begin(Pid(pid.parse().expect("a pid")), LIMIT).expect("holds");
        std::thread::sleep(LIMIT);
        return;
    }
    let sleeper = Sleeper::start();
    let own = std::env::current_exe().expect("this test");
    let mut holder = Command::new(own)
        .args(["--exact", "a_held_process_goes_on_when_its_holder_is_killed"])
        .env(HELD_PID, sleeper.pid().to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts again");
    sleeper.wait_until(State::TracingStop);
    holder.kill().expect("ours to end");
    holder.wait().expect("ours");
    sleeper.wait_until(State::Sleeping);
    threads_running(sleeper.pid().0).expect("no thread is stopped");
}
