//! Puts a probe on one function of any process and takes it out again, as told line by line on standard input, so that
//! a benchmark can compare bare, probed and restored calls within one process.
//!
//! `probe_cost PID FUNCTION` answers each line with one line:
//!
//! - `timed`: entry and exit timed, with count, sum, first and last, and the first argument summed as bytes;
//! - `counted`: entry counted;
//! - `recorded`: as a window records a function of MPI: timed, in the ring, by where calls come from. Where they come
//!   from is known before the answer; a function `binding` of the process is between the program and the function;
//! - `remove`: the probe is taken out; the answer says what it counted.
//!
//! Its end, by whatever reason, takes the probe out. Next: `xtask/src/bench/probe.rs`, which asks.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;
use trimtab_os::{Memory, ticks};
use trimtab_session::{FunctionRequest, ImageCache, Inserted, Modules, Prepared, Setup};
use trimtab_stub::layout::{Probe, flag, kind, state, step};
use trimtab_stub::view::View;
use trimtab_types::{Pid, ProcAddr};

const SETUP: Setup = Setup { functions: 1, ranks: 1, details: 0 };
/// The number of the group of functions a user names.
const USER_GROUP: u8 = 4;
/// From the stack pointer after a return to `binding` up to the end of its frame.
const BINDING_FRAME_BYTES: i32 = 16;
/// Looks for places that calls come from; the last ones must have found none.
const LOOKS: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_millis(2);

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
            "recorded" => {
                let flags = flag::TIMED | flag::RING;
                let answer = self.insert(Probe { flags, kind: kind::PLAIN_BYTES, count: 0, ..Probe::ABSENT })?;
                self.learn_paths()?;
                Ok(answer)
            }
            "remove" => self.remove(),
            other => Err(format!("expected timed, counted or remove, got {other:?}").into()),
        }
    }

    fn insert(&mut self, probe: Probe) -> Answer {
        if self.inserted.is_some() {
            return Err("a probe is in already; remove it first".into());
        }
        let request = FunctionRequest { name: self.function.clone(), address: self.address, work: probe.into() };
        let prepared = Prepared::new(&self.modules, &[request])?;
        if let Some(refused) = prepared.refused.first() {
            return Err(format!("{} can't be patched: {}", refused.name, refused.reason).into());
        }
        let inserted = prepared.insert(self.pid, SETUP, &begin_recording)?;
        let answer = format!("inserted points {} pause_us {:.1}", inserted.point_count, inserted.pause_ns as f64 / 1e3);
        self.inserted = Some(inserted);
        Ok(answer)
    }

    /// Tells the probe how each return address that it meets is gone on from: from `binding` to its caller, else no further.
    fn learn_paths(&self) -> Result<(), Box<dyn Error>> {
        let view = self.inserted.as_ref().ok_or("no probe is in")?.view();
        let found = self.modules.modules.iter().find_map(|module| module.function("binding"));
        let binding = found.map_or(0..0, |(function, address)| address.0..address.0 + function.size);
        let memory = Memory::open(self.pid)?;
        let mut is_quiet = false;
        for _ in 0..LOOKS {
            let met: Vec<u64> = view.unknown_addresses().collect();
            for address in &met {
                let is_binding = binding.contains(address);
                let step = if is_binding {
                    step::pack(step::BY_STACK, BINDING_FRAME_BYTES, step::UNCHANGED)
                } else {
                    step::END
                };
                if !view.set_return_rule(*address, step, memory.read_word(address - 8)?) {
                    return Err("no room for another return address".into());
                }
            }
            is_quiet = met.is_empty();
            sleep(LOOK_EVERY);
        }
        if is_quiet { Ok(()) } else { Err("calls still come from places that were not known before".into()) }
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
