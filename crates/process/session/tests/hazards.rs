//! No crash: the probes of windows come and go in every function of a program that throws, jumps, forks, loads and
//! unloads, and runs on strange stacks; also when the one who put them in is gone and another takes them out.
//!
//! Next: `testing/specimens/hazards` for what each hazard does; `crates/ui/cli/tests/hazards.rs` for scripts.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trimtab_os::{Stopped, ticks};
use trimtab_session::leftover::{self, Leftover};
use trimtab_session::{Error, FunctionRequest, ImageCache, Inserted, Modules, Prepared, Setup};
use trimtab_specimens::{HazardVariant, TextSnapshot, hazards};
use trimtab_stub::layout::{Probe, flag, state};
use trimtab_types::Pid;

const LIMIT: Duration = Duration::from_secs(60);
/// How long probes stay in.
const IN_BETWEEN: Duration = Duration::from_millis(40);

struct Hazard {
    child: Child,
    end: PathBuf,
    name: &'static str,
}

impl Hazard {
    fn start(variant: HazardVariant, name: &'static str) -> Hazard {
        let (program, plugin) = hazards(variant).expect("builds");
        // Tests that run side by side have hazards of the same name.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Relaxed);
        let file = format!("end-{name}-{}-{number}", std::process::id());
        let end = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
        let begun = end.with_extension("begun");
        for old in [&end, &begun] {
            let _may_be_absent = std::fs::remove_file(old);
        }
        let mut command = Command::new(program);
        let child = command.arg(name).arg(&end).arg(plugin).stdout(Stdio::null()).spawn().expect("starts");
        let deadline = Instant::now() + LIMIT;
        while !begun.exists() {
            assert!(Instant::now() < deadline, "{name} does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        Hazard { child, end, name }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id() as i32)
    }

    /// It exits with 0 only if every repetition was right.
    fn ends_well(mut self) {
        File::create(&self.end).expect("a file");
        assert!(self.child.wait().expect("ends").success(), "{}", self.name);
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        for file in [&self.end, &self.end.with_extension("begun")] {
            let _may_be_absent = std::fs::remove_file(file);
        }
    }
}

const TRIES_MAX: usize = 50;

fn prepare(pid: Pid, flags: u8) -> Result<Prepared, Error> {
    let is_own = |path: &str| path.contains("/hazards");
    // As a user's cache has it: files are read once, processes each time.
    static IMAGES: LazyLock<ImageCache> = LazyLock::new(ImageCache::in_memory);
    let modules = Modules::read(pid, &IMAGES, &|path| is_own(path) || path.contains("/libgcc_s"))?;
    let mut known = BTreeSet::new();
    let mut requests = Vec::new();
    for module in modules.modules.iter().filter(|module| is_own(&module.path)) {
        for function in &module.loaded.image.functions {
            let address = module.bias.to_proc(function.addr);
            if known.insert(address.0) {
                let probe = Probe { function: requests.len() as u32, group: 4, flags, ..Probe::ABSENT };
                requests.push(FunctionRequest { name: function.name(), address, work: probe.into() });
            }
        }
    }
    Prepared::new(&modules, &requests)
}

fn insert(pid: Pid, prepared: &Prepared) -> Result<Inserted, Error> {
    let functions = prepared.probes().map(|probe| u64::from(probe.function) + 1).max().unwrap_or(1);
    prepared.insert(pid, Setup { functions, ranks: 1, details: 0 }, &|view| {
        let header = view.header();
        header.marker_probe.store(u32::MAX, Relaxed);
        header.first_ticks.store(ticks(), Relaxed);
        header.state.store(state::RECORD, Relaxed);
    })
}

/// A program that unloads libraries may do so right between planning and writing, and is then left alone.
fn prepare_and_insert(pid: Pid, flags: u8, step: &str) -> (Prepared, Inserted) {
    for _ in 0..TRIES_MAX {
        let prepared = prepare(pid, flags).unwrap_or_else(|error| panic!("{step}: {error}"));
        match insert(pid, &prepared) {
            Ok(inserted) => return (prepared, inserted),
            Err(error) if error.is_passing() => {}
            Err(error) => panic!("{step}: {error}"),
        }
    }
    panic!("{step}: the code was unmapped {TRIES_MAX} times in a row");
}

fn calls(inserted: &Inserted, prepared: &Prepared) -> u64 {
    let view = inserted.view();
    let of =
        |probe: &Probe| view.slots().map(|slot| slot.stat(u64::from(probe.function)).calls.load(Relaxed)).sum::<u64>();
    prepared.probes().map(of).sum()
}

/// Counting probes, timed ones, and timed ones whose maker is gone.
fn rounds(variant: HazardVariant, name: &'static str) {
    let mut hazard = Hazard::start(variant, name);
    let pid = hazard.pid();
    let mut seen = 0;
    for (round, (flags, is_left)) in
        [(0, false), (flag::TIMED, false), (flag::TIMED | flag::RING, true)].iter().enumerate()
    {
        let step = format!("{name}, {variant:?}, round {round}");
        let (prepared, mut inserted) = prepare_and_insert(pid, *flags, &step);
        std::thread::sleep(IN_BETWEEN);
        let removal = if *is_left {
            // As if we had been killed: nobody removes, and the process id belongs to nobody.
            inserted.view().header().monitor_start.store(1, Relaxed);
            seen += calls(&inserted, &prepared);
            std::mem::forget(inserted);
            let found = leftover::find(pid).unwrap_or_else(|error| panic!("{step}: {error}"));
            assert!(!matches!(found, Leftover::None), "{step}");
            leftover::undo(pid, &found)
        } else {
            let removal = inserted.remove();
            seen += calls(&inserted, &prepared);
            removal
        };
        let removal = removal.unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!((removal.left_mapped_bytes, removal.left_because), (0, None), "{step}");
        assert_eq!(removal.foreign, [0u64; 0], "{step}");
        assert!(hazard.child.try_wait().expect("a child").is_none(), "{step}: it has ended");
    }
    assert!(seen > 0, "{name}: no call was seen");
    hazard.ends_well();
}

/// Hazards that stay in one program all the time, so that every round must succeed.
const HAZARDS: [&str; 29] = [
    "throw",
    "longjmp",
    "backtrace",
    "recursion",
    "siglongjmp",
    "altstack",
    "tail",
    "hands_on",
    "table",
    "assembly",
    "vectors",
    "holding",
    "coroutine",
    "threads",
    "cancel",
    "fork",
    "vfork",
    "spawn",
    "plugin",
    "blocked",
    "dozing",
    "sequence",
    "fault_throw",
    "fault_jump",
    "fault_step",
    "fault_bus",
    "samples",
    "cancel_anywhere",
    "sums",
];

#[test]
fn hazards_of_optimised_code() {
    HAZARDS.iter().for_each(|name| rounds(HazardVariant::Optimised, name));
}

#[test]
fn hazards_of_small_code() {
    HAZARDS.iter().for_each(|name| rounds(HazardVariant::Small, name));
}

#[test]
fn hazards_of_plain_code() {
    HAZARDS.iter().for_each(|name| rounds(HazardVariant::Plain, name));
}

/// Nothing of the program's text is written that is not put back.
#[test]
fn text_is_as_before_all_of_it() {
    for name in ["throw", "coroutine", "threads"] {
        let hazard = Hazard::start(HazardVariant::Small, name);
        let pid = hazard.pid();
        let before = TextSnapshot::of(pid.0).expect("text");
        let prepared = prepare(pid, flag::TIMED).expect("prepares");
        let mut inserted = insert(pid, &prepared).expect("inserts");
        assert_ne!(before.difference_now().expect("text"), None, "{name}: patched");
        inserted.remove().expect("removes");
        assert_eq!(before.difference_now().expect("text"), None, "{name}");
        hazard.ends_well();
    }
}

/// Says at its end, also that of a test that fails, that something is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Whoever looks at stacks traces the process for a moment, again and again: another trimtab, a profiler. Probes go in and come
/// out in between, also those that an error on another rank drops.
#[test]
fn text_is_as_before_beside_a_profiler() {
    let hazard = Hazard::start(HazardVariant::Small, "throw");
    let pid = hazard.pid();
    let before = TextSnapshot::of(pid.0).expect("text");
    let (is_over, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                if let Ok(held) = Stopped::stop_thread(pid, pid.0) {
                    std::thread::sleep(Duration::from_millis(2));
                    held.resume();
                    looks.fetch_add(1, Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let _until_then = Over(&is_over);
        for round in 0..20 {
            let prepared = prepare(pid, flag::TIMED).expect("prepares");
            let mut inserted = insert(pid, &prepared).expect("inserts");
            if round % 2 == 0 {
                inserted.remove().expect("removes");
            }
            drop(inserted);
            assert_eq!(before.difference_now().expect("text"), None, "round {round}");
        }
    });
    assert!(looks.load(Relaxed) > 20, "{looks:?}: it looked all the time");
    hazard.ends_well();
}

/// The program unloads a library and loads it again all the time: whatever is seen of that, nobody has patched it.
#[test]
fn a_library_that_is_loaded_again_was_patched_by_nobody() {
    let hazard = Hazard::start(HazardVariant::Optimised, "plugin");
    for round in 0..120 {
        let (_, mut inserted) = prepare_and_insert(hazard.pid(), 0, &format!("round {round}"));
        inserted.remove().expect("removes");
    }
    hazard.ends_well();
}
