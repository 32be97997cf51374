//! Decisions that were kept on disk are the same as new ones, and are not believed where code or bytes changed.
//!
//! The C library of a sleeping process stands for any file with many functions. Nothing is patched by trimtab here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_os::{MappingTable, Memory, Stopped};
use trimtab_session::{Error, FunctionRequest, ImageCache, Modules, Prepared, Setup};
use trimtab_stub::layout::{Probe, flag};
use trimtab_types::Pid;

const LIBRARY: &str = "/libc.so.6";

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().expect("starts"));
        let deadline = Instant::now() + Duration::from_secs(20);
        let has_library = || {
            // Relocated and made constant: asleep in the call it was started for.
            let asleep = trimtab_os::stat_of(sleeper.pid(), sleeper.pid().0)
                .is_some_and(|stat| stat.state == trimtab_types::procfs::State::Sleeping);
            let maps = MappingTable::of(sleeper.pid());
            asleep && maps.is_ok_and(|maps| maps.0.iter().any(|mapping| mapping.path.ends_with(LIBRARY)))
        };
        while !has_library() {
            assert!(Instant::now() < deadline, "sleep does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        sleeper
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id() as i32)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("kills");
        self.0.wait().expect("ends");
    }
}

fn modules(pid: Pid, cache: &ImageCache) -> Modules {
    Modules::read(pid, cache, &|path| path.ends_with(LIBRARY)).expect("modules")
}

fn decide(pid: Pid, cache: &ImageCache, flags: u8) -> Prepared {
    let modules = modules(pid, cache);
    let module = &modules.modules[0];
    let request = |function: &trimtab_symbols::Function| FunctionRequest {
        name: function.name(),
        address: module.bias.to_proc(function.addr),
        work: Probe { flags, ..Probe::ABSENT }.into(),
    };
    let requests: Vec<FunctionRequest> = module.loaded.image.functions.iter().map(request).collect();
    assert!(requests.len() > 1000, "{} functions", requests.len());
    Prepared::new(&modules, &requests).expect("prepares")
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn kept(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut kept = entries.filter(|path| path.extension().is_some_and(|extension| extension == "decisions"));
    kept.next().expect("decisions were kept")
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("is there"))
}

#[test]
fn kept_decisions_are_the_same_as_new_ones() {
    let (one, other, folder) = (Sleeper::start(), Sleeper::start(), folder("decisions"));
    for flags in [flag::TIMED, 0] {
        let new = decide(one.pid(), &ImageCache::in_memory(), flags);
        let _ = std::fs::remove_dir_all(&folder);
        let first = decide(one.pid(), &ImageCache::in_directory(&folder), flags);
        assert_eq!(new.digest(), first.digest(), "with a place to keep them");
        let written = inode(&kept(&folder));
        let again = decide(one.pid(), &ImageCache::in_directory(&folder), flags);
        assert_eq!(new.digest(), again.digest(), "kept ones");
        assert_eq!(inode(&kept(&folder)), written, "nothing was decided anew");
        // The other process has it elsewhere.
        let (there, elsewhere) = (
            decide(other.pid(), &ImageCache::in_directory(&folder), flags),
            decide(other.pid(), &ImageCache::in_memory(), flags),
        );
        assert_eq!(there.digest(), elsewhere.digest(), "in another process");
    }
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}

/// Decisions for a program that leaves its faults alone are not used for one that handles them, nor the other way
/// round, in memory and from disk.
#[test]
fn programs_that_handle_faults_have_decisions_of_their_own() {
    let (plain, folder) = (Sleeper::start(), folder("faults"));
    // A program of Rust's catches what an overflow of a stack causes: this one does.
    let own = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "sleeps"])
        .env(SLEEPS, "1")
        .stdout(Stdio::null())
        .spawn();
    let handling = Sleeper(own.expect("starts"));
    wait_until_caught(handling.pid());
    let free = decide(plain.pid(), &ImageCache::in_memory(), flag::TIMED);
    let kept_in = |pid: Pid| decide(pid, &ImageCache::in_directory(&folder), flag::TIMED);
    let stays = decide(handling.pid(), &ImageCache::in_memory(), flag::TIMED);
    assert!(free.own_fault_handler().is_none());
    assert!(
        stays.own_fault_handler().is_some_and(|handler| handler.contains("SIGSEGV in decisions")),
        "{:?}",
        stays.own_fault_handler()
    );
    assert_ne!(free.digest(), stays.digest());
    let may_fault = |prepared: &Prepared| {
        prepared.refused.iter().filter(|one| one.reason.to_string().contains("may fault")).count()
    };
    assert_eq!(may_fault(&free), 0);
    assert!(
        may_fault(&stays) > 0 && may_fault(&stays) < stays.probes().len() / 4,
        "{} of {}",
        may_fault(&stays),
        stays.probes().len()
    );
    for _ in 0..2 {
        assert_eq!(kept_in(handling.pid()).digest(), stays.digest(), "after the others");
        assert_eq!(kept_in(plain.pid()).digest(), free.digest(), "after the others");
    }
    let shared = ImageCache::in_memory();
    for (pid, wanted) in [(plain.pid(), &free), (handling.pid(), &stays), (plain.pid(), &free)] {
        assert_eq!(decide(pid, &shared, flag::TIMED).digest(), wanted.digest(), "in one run");
    }
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}

/// A program may set a fault handler later. Where threads can be held as they do, which the filter of files changes nothing
/// about, its code may move; where they can't, because its C library is not loaded yet, what may fault stays in place.
#[test]
fn what_may_fault_moves_only_where_setters_of_handlers_are_held() {
    let is_loader = |path: &str| path.contains("/ld-linux-x86-64");
    let decide = |pid: Pid| {
        let modules = Modules::read(pid, &ImageCache::in_memory(), &is_loader).expect("modules");
        let loader = &modules.modules[0];
        let functions = loader.loaded.image.functions.iter();
        let requests = functions.map(|function| FunctionRequest {
            name: function.name(),
            address: loader.bias.to_proc(function.addr),
            work: Probe::ABSENT.into(),
        });
        let prepared = Prepared::new(&modules, &requests.collect::<Vec<_>>()).expect("prepares");
        let plan = prepared.dry_run(pid, Setup { functions: 4096, ranks: 1, details: 0 }).expect("a plan");
        let is_held = plan.patches.iter().any(|patch| patch.function.starts_with("sigaction"));
        let stays = prepared.refused.iter().any(|one| one.reason.to_string().contains("could set one unseen"));
        (is_held, stays)
    };
    let loaded = Sleeper::start();
    assert_eq!(decide(loaded.pid()), (true, false), "its C library is loaded, and was not asked for");

    let folder = folder("loading");
    std::fs::create_dir_all(&folder).expect("a folder");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // The loader waits for whoever writes into the pipe, before it loads what the program needs.
    let mut sleep = Command::new("sleep");
    let loading = Sleeper(sleep.arg("1000").env("LD_PRELOAD", &pipe).stderr(Stdio::null()).spawn().expect("starts"));
    let deadline = Instant::now() + Duration::from_secs(20);
    let waits = || {
        let maps = MappingTable::of(loading.pid()).expect("maps");
        let is_asleep = trimtab_os::stat_of(loading.pid(), loading.pid().0)
            .is_some_and(|stat| stat.state == trimtab_types::procfs::State::Sleeping);
        is_asleep && maps.0.iter().any(|mapping| is_loader(&mapping.path))
    };
    while !waits() {
        assert!(Instant::now() < deadline, "the loader does not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    let maps = MappingTable::of(loading.pid()).expect("maps");
    assert!(!maps.0.iter().any(|mapping| mapping.path.ends_with(LIBRARY)), "not loaded yet");
    assert_eq!(decide(loading.pid()), (false, true), "its C library is not loaded");
    drop(loading);
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}

const SLEEPS: &str = "TRIMTAB_TEST_SLEEPS";

/// Not a test of its own: a program that handles faults and sleeps.
#[test]
fn sleeps() {
    if std::env::var_os(SLEEPS).is_some() {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

fn wait_until_caught(pid: Pid) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !trimtab_os::Caught::by(pid).is_ok_and(|caught| !caught.faults().is_empty()) {
        assert!(Instant::now() < deadline, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn damaged_bytes_are_made_anew() {
    let (sleeper, folder) = (Sleeper::start(), folder("damaged"));
    let new = decide(sleeper.pid(), &ImageCache::in_directory(&folder), flag::TIMED);
    let (path, whole) = (kept(&folder), std::fs::read(kept(&folder)).expect("reads"));
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 0x10;
    for (name, bytes) in [("empty", &[][..]), ("cut", &whole[..whole.len() / 2]), ("changed", &changed)] {
        std::fs::write(&path, bytes).expect("writes");
        let again = decide(sleeper.pid(), &ImageCache::in_directory(&folder), flag::TIMED);
        assert_eq!(again.digest(), new.digest(), "{name}");
        assert_eq!(std::fs::read(&path).expect("reads"), whole, "{name}: mended");
    }
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}

#[test]
fn changed_code_is_refused_whatever_is_kept() {
    let (sleeper, folder) = (Sleeper::start(), folder("changed"));
    let cache = ImageCache::in_directory(&folder);
    let before = decide(sleeper.pid(), &cache, 0);
    let modules = modules(sleeper.pid(), &cache);
    let (_, address) = modules.modules[0].function("qsort").expect("is there");
    assert!(before.probe_at(address).is_some());
    let memory = Memory::open(sleeper.pid()).expect("memory");
    let original = memory.read_vec(address.0 + 1, 1).expect("reads");
    // Nobody sorts while asleep.
    let write = |bytes: &[u8]| {
        let stopped = Stopped::stop(sleeper.pid()).expect("stops");
        stopped.write_text(address.0 + 1, bytes).expect("writes");
        stopped.resume();
    };
    write(&[original[0] ^ 0xff]);
    let changed = decide(sleeper.pid(), &ImageCache::in_directory(&folder), 0);
    assert_eq!(changed.probe_at(address), None);
    let refused = changed.refused.iter().find(|refused| refused.name == "qsort");
    assert!(
        refused.is_some_and(|refused| refused.reason.to_string().contains("who changed it can't be seen")),
        "{refused:?}"
    );
    assert_eq!(changed.probes().len() + 1, before.probes().len(), "only that one");
    // Changed behind the plan: nothing is written, and the function is named.
    let setup = Setup { functions: before.probes().len() as u64, ranks: 1, details: 0 };
    let error = before.insert(sleeper.pid(), setup, &|_| {}).expect_err("it is not patched twice");
    assert!(matches!(&error, Error::ForeignPatch { function, .. } if function == "qsort"), "{error:?}");
    assert!(!error.is_passing());
    write(&original);
    assert_eq!(decide(sleeper.pid(), &cache, 0).digest(), before.digest(), "as before");
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}

/// Whoever changed the code is looked up: a hook leads to the library that made it, which nobody can be told to end.
#[test]
fn who_has_changed_the_code_is_named() {
    let (sleeper, cache) = (Sleeper::start(), ImageCache::in_memory());
    let modules = modules(sleeper.pid(), &cache);
    let (_, address) = modules.modules[0].function("qsort").expect("is there");
    let memory = Memory::open(sleeper.pid()).expect("memory");
    let original = memory.read_vec(address.0, 13).expect("reads");
    let write = |bytes: &[u8]| {
        let stopped = Stopped::stop(sleeper.pid()).expect("stops");
        stopped.write_text(address.0, bytes).expect("writes");
        stopped.resume();
    };
    let hook = |target: u64| [&[0x49, 0xbb][..], &target.to_le_bytes(), &[0x41, 0xff, 0xe3]].concat();
    let maps = trimtab_os::MappingTable::of(sleeper.pid()).expect("a map");
    let start_of = |name: &str| maps.0.iter().find(|mapping| mapping.path.contains(name)).expect("is mapped").start;
    for (bytes, expected) in [
        (vec![0xcc], "there is a breakpoint in it; take it out"),
        (hook(start_of("libc.so")), "libc.so.6, a library of the program, has hooked it; it belongs to the program"),
        (hook(start_of("[stack]")), "it jumps into memory of no file"),
    ] {
        write(&bytes);
        let decided = decide(sleeper.pid(), &cache, 0);
        write(&original);
        let refused = decided.refused.iter().find(|refused| refused.name == "qsort");
        assert!(
            refused.is_some_and(|refused| refused.reason.to_string().contains(expected)),
            "{expected}: {refused:?}"
        );
    }
}
