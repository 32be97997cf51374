//! The waiter with jobs and surroundings that are played.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use trimtab_neighbours::Counters;
use trimtab_trigger::{CallSocket, Error, JobSource, MachineHere, Machines, Surroundings, Waited, Waiter, When};
use trimtab_types::report::EventKind;

/// Jobs that are there at each look, the last for ever.
struct Jobs(VecDeque<&'static [&'static str]>);

impl JobSource for Jobs {
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, Error> {
        let now = if self.0.len() > 1 { self.0.pop_front() } else { self.0.front().copied() };
        Ok(now.unwrap_or_default().iter().map(|job| ((*job).to_owned(), "app".to_owned())).collect())
    }

    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }
}

struct Around {
    interrupted: bool,
    signalled: std::cell::Cell<bool>,
    alive: bool,
    called: Option<String>,
}

impl Surroundings for Around {
    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn is_signalled(&self) -> bool {
        self.signalled.replace(false)
    }

    fn called(&mut self) -> Option<String> {
        self.called.take()
    }

    fn is_alive(&mut self) -> bool {
        self.alive
    }

    fn rate(&mut self) -> Option<f64> {
        Some(2.5)
    }

    fn now_unix_s(&self) -> f64 {
        1000.0
    }
}

fn quiet() -> Around {
    Around { interrupted: false, signalled: std::cell::Cell::new(false), alive: true, called: None }
}

fn waiter(folder: &tempfile::TempDir, whens: &[&str], looks: &[&'static [&'static str]]) -> Waiter<'static> {
    let whens: Vec<When> = whens.iter().map(|when| when.parse().expect("an event")).collect();
    let call_socket = CallSocket::open(folder.path(), vec!["1".into()]).expect("a call socket");
    let jobs = Box::new(Jobs(looks.iter().copied().collect()));
    Waiter::new(whens, jobs, Box::<MachineHere>::default(), call_socket).expect("it can be waited for")
}

/// Kind and value of the next event.
fn next(waiter: &mut Waiter<'_>, around: &mut Around) -> (EventKind, String) {
    match waiter.next(around).expect("it waits") {
        Waited::Event(event) => {
            assert_eq!(event.at_unix_s, 1000.0);
            (event.kind, event.value)
        }
        other => panic!("{other:?}"),
    }
}

fn pair(kind: EventKind, value: &str) -> (EventKind, String) {
    (kind, value.to_owned())
}

#[test]
fn jobs_that_come_and_go_are_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let looks: [&[&str]; 4] = [&["old"], &["old"], &["new", "old"], &["new"]];
    let mut waiter = waiter(&folder, &["job-start", "job-end"], &looks);
    assert_eq!(next(&mut waiter, &mut quiet()), pair(EventKind::JobStart, "new (app)"));
    assert_eq!(next(&mut waiter, &mut quiet()), pair(EventKind::JobEnd, "old (app)"));
    drop(waiter);
    let mut waiter = self::waiter(&folder, &["job-start", "job-end"], &[&["old"], &["new"]]);
    assert_eq!(next(&mut waiter, &mut quiet()), pair(EventKind::JobStart, "new (app)"), "both at one look");
    assert_eq!(next(&mut waiter, &mut quiet()), pair(EventKind::JobEnd, "old (app)"), "both at one look");
    let mut over = Around { alive: false, ..quiet() };
    // The first question is if the job runs, which is asked once a second.
    assert_eq!(waiter.next(&mut over).expect("it waits"), Waited::Ended);
}

#[test]
fn times_come_once_or_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut once = waiter(&folder, &["after=0.05s", "at=@900", "every=0.2s"], &[&[]]);
    let kinds: Vec<EventKind> = (0..5).map(|_| next(&mut once, &mut quiet()).0).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == EventKind::At).count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == EventKind::After).count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == EventKind::Every).count(), 3, "{kinds:?}");
}

#[test]
fn a_threshold_fires_when_it_is_crossed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiter = waiter(&folder, &["rate<3"], &[&[]]);
    assert_eq!(next(&mut waiter, &mut quiet()), pair(EventKind::Rate, "2.5000 iterations per second"));
    let mut ends = Around { alive: false, ..quiet() };
    assert_eq!(waiter.next(&mut ends).expect("it waits"), Waited::Ended, "not again while nothing has changed");
}

#[test]
fn signals_and_interrupts_are_heard() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiter = waiter(&folder, &["call"], &[&[]]);
    let mut around = Around { signalled: std::cell::Cell::new(true), ..quiet() };
    assert_eq!(next(&mut waiter, &mut around), pair(EventKind::Signal, ""));
    assert_eq!(waiter.next(&mut Around { interrupted: true, ..quiet() }).expect("it waits"), Waited::Interrupted);
    let name = std::thread::scope(|scope| {
        let outcome = scope.spawn(|| trimtab_trigger::call_job(folder.path(), "1", "now").expect("a folder"));
        let told = next(&mut waiter, &mut quiet());
        assert_eq!(outcome.join().expect("no panic").fired, 1);
        told
    });
    assert_eq!(name, pair(EventKind::Call, "now"));
}

#[test]
fn a_call_through_the_api_is_an_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiter = waiter(&folder, &["after=1h", "api:restart"], &[&[]]);
    let mut around = Around { called: Some("restart, called by user 7".into()), ..quiet() };
    let Waited::Event(event) = waiter.next(&mut around).expect("it waits") else { panic!("an event") };
    assert_eq!(
        (event.kind, &*event.condition, &*event.value),
        (EventKind::Api, "api:restart", "restart, called by user 7")
    );
}

/// The waker is rung by another thread while it sleeps at the call socket, and then there is a call.
#[test]
fn the_waker_wakes_whoever_waits() {
    struct Rung(std::sync::mpsc::Receiver<String>);
    impl Surroundings for Rung {
        fn is_interrupted(&self) -> bool {
            false
        }
        fn is_signalled(&self) -> bool {
            false
        }
        fn called(&mut self) -> Option<String> {
            self.0.try_recv().ok()
        }
        fn is_alive(&mut self) -> bool {
            true
        }
        fn rate(&mut self) -> Option<f64> {
            None
        }
        fn now_unix_s(&self) -> f64 {
            1000.0
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiter = waiter(&folder, &["api"], &[&[]]);
    let waker = waiter.call_socket.waker();
    let (sender, calls) = std::sync::mpsc::channel();
    let ringing = std::thread::spawn(move || {
        sender.send("now".to_owned()).expect("somebody waits");
        waker.ring();
    });
    let waited = waiter.next(&mut Rung(calls)).expect("it waits");
    assert!(matches!(&waited, Waited::Event(event) if event.value == "now"), "{waited:?}");
    ringing.join().expect("no panic");
    drop(waiter);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "the socket is gone");
}

#[test]
fn what_can_not_be_seen_together_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let whens = ["call", "iterations>=5"].map(|when| when.parse().expect("an event")).to_vec();
    let call_socket = CallSocket::open(folder.path(), Vec::new()).expect("a call socket");
    let jobs = Box::new(Jobs(VecDeque::new()));
    let refused = Waiter::new(whens, jobs, Box::<MachineHere>::default(), call_socket).err().expect("refused");
    assert!(refused.to_string().contains("wait for it alone"), "{refused}");
}

/// Two machines as they are at each look, the last for ever: load, time worked, stolen and in all, time waited.
struct Two(VecDeque<[(f64, [u64; 3], u64); 2]>);

impl Machines for Two {
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, Error> {
        let now = if self.0.len() > 1 { self.0.pop_front() } else { self.0.front().copied() };
        let counters = |(load, [worked, stolen, idle], waited_us): (f64, [u64; 3], u64)| {
            let stat = format!("cpu  {worked} 0 0 {idle} 0 0 0 {stolen} 0 0\n");
            let pressure = format!("some avg10=0.00 total={waited_us}\n");
            Counters::parse(Some(&stat), Some(&pressure), Some(&format!("{load} 0 0 1/2 3")))
        };
        let named = |(index, state)| (format!("n{index}"), (Instant::now(), counters(state)));
        Ok((1..).zip(now.expect("a look")).map(named).collect())
    }
}

#[test]
fn one_machine_that_meets_a_condition_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let (calm, busy) = ((0.5, [10, 0, 90], 0), (7.5, [10, 0, 90], 0));
    let (later, robbed) = ((0.5, [20, 0, 180], 0), (0.5, [20, 60, 120], 0));
    for (when, looks, expected) in [
        ("load>5", vec![[calm, calm], [calm, busy]], "7.50 on n2"),
        ("load>5", vec![[busy, calm]], "7.50 on n1"),
        ("cpu-steal>20%", vec![[calm, calm], [later, robbed]], "60.0% on n2"),
    ] {
        let call_socket = CallSocket::open(folder.path(), vec!["1".into()]).expect("a call socket");
        let (whens, jobs) = (vec![when.parse().expect("an event")], Box::new(Jobs(VecDeque::from([&[][..]]))));
        let mut waiter =
            Waiter::new(whens, jobs, Box::new(Two(looks.into())), call_socket).expect("it can be waited for");
        assert_eq!(next(&mut waiter, &mut quiet()).1, expected, "{when}");
    }
}

/// Looked at by others, who may have counted a while before they are asked: a second apart, whenever that is.
struct ASecondApart(Instant, u64);

impl Machines for ASecondApart {
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, Error> {
        let (at, waited_us) = (self.0 + Duration::from_secs(self.1), 800_000 * self.1);
        self.1 += 1;
        let pressure = format!("some avg10=0.00 total={waited_us}\n");
        Ok(BTreeMap::from([("n1".to_owned(), (at, Counters::parse(None, Some(&pressure), None)))]))
    }
}

#[test]
fn shares_are_of_the_time_between_the_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let call_socket = CallSocket::open(folder.path(), vec!["1".into()]).expect("a call socket");
    let whens = vec!["pressure>70%".parse().expect("an event")];
    let (jobs, machines) = (Box::new(Jobs(VecDeque::new())), Box::new(ASecondApart(Instant::now(), 0)));
    let mut waiter = Waiter::new(whens, jobs, machines, call_socket).expect("it can be waited for");
    assert_eq!(next(&mut waiter, &mut quiet()).1, "80.0% on n1");
}
