//! Calls that go on behind jumps, in a program that ends functions so in every way: each call lasts until the last function
//! returns, and where nobody follows that is said.
//!
//! Next: `testing/specimens/hazards/tails.cpp`, the program; `crates/process/stub/tests/tails.rs` for every order of events.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trimtab_os::ticks;
use trimtab_session::{FunctionRequest, ImageCache, Modules, Prepared, Setup};
use trimtab_specimens::{HazardVariant, TextSnapshot, hazards};
use trimtab_stub::layout::{Probe, USER_GROUP, flag, state};
use trimtab_types::Pid;

const LIMIT: Duration = Duration::from_secs(60);
/// As the program has it: how long a call lasts, and one that must not be taken for it.
const SHORT_US: f64 = 300.0;
const LONG_US: f64 = 6000.0;
/// On a busy machine any sleep may be long, but not every time.
const ROUNDS: usize = 8;

struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    fn start(variant: HazardVariant) -> Running {
        let (program, plugin) = hazards(variant).expect("builds");
        let folder = TempDir::new().expect("a folder");
        let end = folder.path().join("end");
        let mut command = Command::new(program);
        let child = command.arg("hands_on").arg(&end).arg(plugin).stdout(Stdio::null()).spawn().expect("starts");
        let deadline = Instant::now() + LIMIT;
        while !folder.path().join("end.begun").exists() {
            assert!(Instant::now() < deadline, "does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        Running { child, folder }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    fn ends_well(mut self) {
        File::create(self.folder.path().join("end")).expect("a file");
        assert!(self.child.wait().expect("ends").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Probes in the functions of these names.
fn prepare(pid: Pid, names: &[&'static str]) -> Prepared {
    let is_ours = |path: &str| path.contains("/hazards") || path.contains("libplugin");
    let modules = Modules::read(pid, &ImageCache::in_memory(), &is_ours).expect("can be read");
    let request = |(number, name): (usize, &&str)| {
        let is_it = |own: &String| own == name || own.contains(&format!("{}{name}l", name.len()));
        let all =
            modules.modules.iter().flat_map(|module| module.loaded.image.functions.iter().map(move |f| (module, f)));
        let found = all.filter(|(_, function)| function.names.iter().any(is_it));
        let address = found.map(|(module, function)| module.bias.to_proc(function.addr)).next().expect(name);
        let probe = Probe { function: number as u32, group: USER_GROUP, flags: flag::TIMED, ..Probe::ABSENT };
        FunctionRequest { name: (*name).to_owned(), address, work: probe.into() }
    };
    let requests: Vec<FunctionRequest> = names.iter().enumerate().map(request).collect();
    Prepared::new(&modules, &requests).expect("prepares")
}

/// Calls, microseconds of one and calls without an end, by function.
type Seen = BTreeMap<&'static str, (u64, f64, u64)>;

fn measure(pid: Pid, prepared: &Prepared, names: &[&'static str]) -> Seen {
    let setup = Setup { functions: names.len() as u64, ranks: 1, details: 0 };
    let begun = (Instant::now(), ticks());
    let mut inserted = prepared
        .insert(pid, setup, &|view| {
            view.header().marker_probe.store(u32::MAX, Relaxed);
            view.header().first_ticks.store(ticks(), Relaxed);
            view.header().state.store(state::RECORD, Relaxed);
        })
        .expect("inserts");
    std::thread::sleep(Duration::from_millis(250));
    let removal = inserted.remove().expect("removes");
    assert_eq!((removal.left_mapped_bytes, removal.foreign.len()), (0, 0), "{removal:?}");
    let ticks_per_us = (ticks() - begun.1) as f64 / begun.0.elapsed().as_secs_f64() / 1e6;
    let seen = |(number, name): (usize, &&'static str)| {
        let sum = |word: &dyn Fn(&trimtab_stub::layout::FunctionStat) -> u64| {
            inserted.view().slots().map(|slot| word(slot.stat(number as u64))).sum::<u64>()
        };
        let (calls, unseen) = (sum(&|stat| stat.calls.load(Relaxed)), sum(&|stat| stat.unseen.load(Relaxed)));
        (*name, (calls, sum(&|stat| stat.ticks.load(Relaxed)) as f64 / calls as f64 / ticks_per_us, unseen))
    };
    names.iter().enumerate().map(seen).collect()
}

/// Functions whose calls end where others return.
const FOLLOWED: [&str; 6] = ["hand_first", "hand_one", "hand_two", "hand_mixed", "hand_ping", "library_on"];

fn check_followed(variant: HazardVariant, names: &[&'static str]) {
    let running = Running::start(variant);
    let before = TextSnapshot::of(running.pid().0).expect("text");
    let prepared = prepare(running.pid(), names);
    assert_eq!((prepared.refused.as_slice(), prepared.endless.as_slice()), (&[][..], &[][..]));
    let mut means: BTreeMap<&str, f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (name, (calls, mean_us, unseen)) in measure(running.pid(), &prepared, names) {
            let is_thrown = name == "hand_throw";
            assert!(
                calls > 3 && (unseen + 1 >= calls) == is_thrown && (unseen > 0) == is_thrown,
                "{name}: {calls}, {unseen}"
            );
            let lowest = means.entry(name).or_insert(f64::MAX);
            *lowest = lowest.min(mean_us);
        }
        assert_eq!(before.difference_now().expect("text"), None);
        let is_clear = |(name, mean): (&&str, &f64)| *name == "hand_throw" || *mean < LONG_US / 2.0;
        if means.iter().all(is_clear) {
            break;
        }
    }
    for (name, mean_us) in means.iter().filter(|(name, _)| **name != "hand_throw" && **name != "hand_shared") {
        // One call of a round may have been under way when the probes came.
        assert!((SHORT_US * 0.7..LONG_US / 2.0).contains(mean_us), "{name}, {variant:?}: {mean_us} us");
    }
    running.ends_well();
}

#[test]
fn a_call_ends_where_the_function_behind_its_jump_returns() {
    check_followed(HazardVariant::Optimised, &[&FOLLOWED[..], &["hand_throw"]].concat());
    // Where code is small, a function that is nothing but a short jump has no room.
    check_followed(HazardVariant::Small, &FOLLOWED);
}

/// The functions that others end in are measured, too, and called for their own sake.
#[test]
fn shared_functions_that_are_measured_end_calls_of_others_as_well() {
    check_followed(HazardVariant::Optimised, &[&FOLLOWED[..], &["hand_throw", "hand_shared"]].concat());
}

#[test]
fn jumps_that_are_not_followed_are_said_with_the_reason() {
    let running = Running::start(HazardVariant::Optimised);
    let prepared = prepare(running.pid(), &["hand_pointer", "hand_away", "hand_first", "library_on"]);
    let endless: Vec<(&str, String)> =
        prepared.endless.iter().map(|one| (one.name.as_str(), one.reason.to_string())).collect();
    assert_eq!(endless.len(), 2, "{endless:?}");
    assert!(endless[0].0 == "hand_pointer" && endless[0].1.contains("(a function by a pointer)"), "{endless:?}");
    assert!(endless[1].0 == "hand_away" && endless[1].1.contains("(usleep)"), "{endless:?}");
    let seen: Vec<(&str, bool)> =
        prepared.tails.iter().map(|tail| (tail.function.as_str(), tail.unseen.is_none())).collect();
    assert!(seen.contains(&("hand_first", true)) && seen.contains(&("library_on", true)), "{seen:?}");
    running.ends_well();
}
