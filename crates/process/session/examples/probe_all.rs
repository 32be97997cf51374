//! Probes every function of a process's modules at once and takes all of it out again, some times over:
//! `probe_all PID PATH_PART CYCLES [timed]`.
//!
//! For each cycle one line says how many functions were probed, at how many places, how long the process was held, how
//! many calls were seen and whether the code is byte for byte as before. First come the refusals by reason. It is how the
//! engine meets real programs; the program's own output tells whether it noticed. Next: `src/prepare.rs`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use trimtab_os::{Memory, ticks};
use trimtab_session::{FunctionRequest, ImageCache, Modules, Prepared, Setup};
use trimtab_stub::layout::{Probe, flag, state};
use trimtab_stub::view::View;
use trimtab_types::Pid;

/// The number of the group of functions a user names.
const USER_GROUP: u8 = 4;
/// How long probes stay in, and out.
const IN_BETWEEN: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pid, part, cycles, rest @ ..] = words.as_slice() else {
        return Err("usage: probe_all PID PATH_PART CYCLES [timed]".into());
    };
    let pid = Pid(pid.parse()?);
    let flags = if rest.iter().any(|word| word == "timed") { flag::TIMED } else { 0 };
    let modules = Modules::read(pid, &ImageCache::in_memory(), &|path| path.contains(part.as_str()))?;
    let requests = requests(&modules, flags);
    let started = Instant::now();
    let prepared = Prepared::new(&modules, &requests)?;
    let seconds = started.elapsed().as_secs_f64();
    let count = requests.len() - prepared.refused.len();
    println!("{count} of {} functions can be probed, decided in {seconds:.2} s", requests.len());
    print_refusals(&prepared);
    for _ in 0..cycles.parse::<u32>()? {
        println!("{}", cycle(pid, &modules, &prepared)?);
        std::thread::sleep(IN_BETWEEN);
    }
    Ok(())
}

fn requests(modules: &Modules, flags: u8) -> Vec<FunctionRequest> {
    let mut known = BTreeSet::new();
    let mut requests = Vec::new();
    for module in &modules.modules {
        for function in &module.loaded.image.functions {
            let address = module.bias.to_proc(function.addr);
            if !known.insert(address.0) {
                continue;
            }
            let probe = Probe { function: requests.len() as u32, group: USER_GROUP, flags, ..Probe::ABSENT };
            requests.push(FunctionRequest { name: function.name(), address, probe });
        }
    }
    requests
}

fn print_refusals(prepared: &Prepared) {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for refused in &prepared.refused {
        // Addresses would make every reason a reason of its own.
        let words = refused.reason.split_whitespace().filter(|word| !word.contains("0x"));
        *reasons.entry(words.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    for (reason, count) in reasons {
        println!("  {count:6} {reason}");
    }
    if std::env::var_os("TRIMTAB_REFUSED").is_some() {
        prepared.refused.iter().for_each(|refused| println!("{}: {}", refused.name, refused.reason));
    }
}

fn cycle(pid: Pid, modules: &Modules, prepared: &Prepared) -> Result<String, Box<dyn Error>> {
    let before = text_of(pid, modules)?;
    let functions = prepared.probes.iter().map(|probe| u64::from(probe.function) + 1).max().unwrap_or(1);
    let mut inserted = prepared.insert(pid, Setup { functions, ranks: 1, details: 0 }, &begin_recording)?;
    std::thread::sleep(IN_BETWEEN);
    let removal = inserted.remove()?;
    let view = inserted.view();
    let called =
        |probe: &Probe| view.slots().map(|slot| slot.stat(probe.function as u64).calls.load(Relaxed)).sum::<u64>();
    let calls: Vec<u64> = prepared.probes.iter().map(called).collect();
    let same = if text_of(pid, modules)? == before { "restored" } else { "DIFFERENT" };
    Ok(format!(
        "{} functions, {} places; held {:.1} ms and {:.1} ms; {} calls of {} functions; {same}; {} bytes left, {} foreign",
        prepared.probes.len(),
        inserted.point_count,
        inserted.pause_ns as f64 / 1e6,
        removal.pause_ns_max as f64 / 1e6,
        calls.iter().sum::<u64>(),
        calls.iter().filter(|&&count| count > 0).count(),
        removal.left_mapped_bytes,
        removal.foreign.len()
    ))
}

fn text_of(pid: Pid, modules: &Modules) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let memory = Memory::open(pid)?;
    let texts = modules.modules.iter().flat_map(|module| {
        let mapped = modules.maps.0.iter().filter(|mapping| mapping.executable && mapping.path == module.path);
        mapped.map(|mapping| memory.read_vec(mapping.start, (mapping.end - mapping.start) as usize))
    });
    Ok(texts.collect::<Result<_, _>>()?)
}

/// Records from the first call on; nothing marks iterations.
fn begin_recording(view: View<'_>) {
    let header = view.header();
    header.marker_probe.store(u32::MAX, Relaxed);
    header.first_ticks.store(ticks(), Relaxed);
    header.state.store(state::RECORD, Relaxed);
}
