//! Puts a probe on one function of any process and takes it out again, as told line by line on standard input, so that
//! a benchmark can compare bare, probed and restored calls within one process.
//!
//! `probe_cost PID FUNCTION` answers each line with one line:
//!
//! - `timed`: entry and exit timed, with count, sum, first and last, and the first argument summed as bytes;
//! - `counted`: entry counted;
//! - `remove`: the probe is taken out; the answer says what it counted.
//!
//! Its end, by whatever reason, takes the probe out. Next: `xtask/src/bench/probe.rs`, which asks.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::atomic::Ordering::Relaxed;
use trimtab_os::ticks;
use trimtab_session::{FunctionRequest, ImageCache, Inserted, Modules, Prepared, Setup};
use trimtab_stub::layout::{Probe, flag, kind, state};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr};

const SETUP: Setup = Setup { functions: 1, ranks: 1, details: 0 };
/// The number of the group of functions a user names.
const USER_GROUP: u8 = 4;

type Answer = Result<String, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pid, function] = words.as_slice() else { return Err("usage: probe_cost PID FUNCTION".into()) };
    let pid = Pid(pid.parse()?);
    let modules = Modules::read(pid, &ImageCache::in_memory(), &|path| !path.contains("/libc"))?;
    let found = modules.modules.iter().find_map(|module| module.function(function));
    let (_, address) = found.ok_or_else(|| format!("process {pid} has no function {function}"))?;
    let mut subject = Subject { pid, modules, function: function.clone(), address, inserted: None };
    for line in std::io::stdin().lock().lines() {
        let answer = subject.obey(line?.trim())?;
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

struct Subject {
    pid: Pid,
    modules: Modules,
    function: String,
    address: ProcAddr,
    inserted: Option<Inserted>,
}

impl Subject {
    fn obey(&mut self, line: &str) -> Answer {
        let base = Probe { group: USER_GROUP, ..Probe::ABSENT };
        match line {
            "timed" => self.insert(Probe { flags: flag::TIMED, kind: kind::PLAIN_BYTES, count: 0, ..base }),
            "counted" => self.insert(base),
            "remove" => self.remove(),
            other => Err(format!("expected timed, counted or remove, got {other:?}").into()),
        }
    }

    fn insert(&mut self, probe: Probe) -> Answer {
        if self.inserted.is_some() {
            return Err("a probe is in already; remove it first".into());
        }
        let request = FunctionRequest { name: self.function.clone(), address: self.address, probe };
        let prepared = Prepared::new(&self.modules, &[request])?;
        if let Some(refused) = prepared.refused.first() {
            return Err(format!("{} can't be patched: {}", refused.name, refused.reason).into());
        }
        let inserted = prepared.insert(self.pid, SETUP, &begin_recording)?;
        let answer = format!("inserted points {} pause_us {:.1}", inserted.point_count, inserted.pause_ns as f64 / 1e3);
        self.inserted = Some(inserted);
        Ok(answer)
    }

    fn remove(&mut self) -> Answer {
        let mut inserted = self.inserted.take().ok_or("no probe is in")?;
        let removal = inserted.remove()?;
        let (mut calls, mut bytes) = (0, 0);
        for slot in inserted.view().slots() {
            calls += slot.stat(0).calls.load(Relaxed);
            bytes += slot.stat(0).bytes.load(Relaxed);
        }
        let pause_us = removal.pause_ns_max as f64 / 1e3;
        let left = removal.left_mapped_bytes;
        Ok(format!("removed calls {calls} bytes {bytes} pause_us {pause_us:.1} left {left}"))
    }
}

/// Records from the first call on; nothing marks iterations.
fn begin_recording(view: View<'_>) {
    let header = view.header();
    header.marker_probe.store(u32::MAX, Relaxed);
    header.first_ticks.store(ticks(), Relaxed);
    header.state.store(state::RECORD, Relaxed);
}
