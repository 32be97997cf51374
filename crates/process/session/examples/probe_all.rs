//! Probes every function of a process's modules at once and takes all of it out again, some times over:
//! `probe_all PID PATH_PART CYCLES [timed]`.
//!
//! For each cycle one line says how many functions were probed, at how many places, how long the process was held, how
//! many calls were seen and whether the code is byte for byte as before. First come the refusals by reason. It is how the
//! engine meets real programs; the program's own output tells whether it noticed. Next: `src/prepare.rs`.
#![forbid(unsafe_code)]

#[path = "common/requests.rs"]
mod requests;

use requests::{begin_recording, requests, text_of};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use trimtab_session::{ImageCache, Modules, Prepared, Setup};
use trimtab_stub::layout::{Probe, flag};
use trimtab_types::Pid;

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

fn print_refusals(prepared: &Prepared) {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for refused in &prepared.refused {
        // Addresses would make every reason a reason of its own.
        let reason = refused.reason.to_string();
        let words = reason.split_whitespace().filter(|word| !word.contains("0x"));
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
    let functions = prepared.probes().map(|probe| u64::from(probe.function) + 1).max().unwrap_or(1);
    let mut inserted = prepared.insert(pid, Setup { functions, ranks: 1, details: 0 }, &begin_recording)?;
    std::thread::sleep(IN_BETWEEN);
    let removal = inserted.remove()?;
    let view = inserted.view();
    let called =
        |probe: &Probe| view.slots().map(|slot| slot.stat(probe.function as u64).calls.load(Relaxed)).sum::<u64>();
    let calls: Vec<u64> = prepared.probes().map(called).collect();
    let same = if text_of(pid, modules)? == before { "restored" } else { "DIFFERENT" };
    Ok(format!(
        "{} functions, {} places; held {:.1} ms and {:.1} ms; {} calls of {} functions; {same}; {} bytes left, {} foreign",
        prepared.probes().len(),
        inserted.point_count,
        inserted.pause_ns as f64 / 1e6,
        removal.pause_ns_max as f64 / 1e6,
        calls.iter().sum::<u64>(),
        calls.iter().filter(|&&count| count > 0).count(),
        removal.left_mapped_bytes,
        removal.foreign.len()
    ))
}
