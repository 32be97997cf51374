//! The share of a file's functions that can be instrumented at entry and at exit, and why the others can't.
//!
//! The process is stopped meanwhile by a signal, so that it does not end before all its functions have been looked at;
//! nothing is written into it.
//!
//! Next: `table` sums them up.

use crate::cycle::{all_of, count_only, timed};
use crate::outcome::{Shares, without_numbers};
use crate::tree;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_session::{Error, FunctionRequest, ImageCache, Module, Modules, Prepared};
use trimtab_types::Pid;

/// Functions at least this long count.
const BYTES_MIN: u64 = 16;
/// How a function without any exit is refused.
const NEVER_RETURNS: &str = "it never returns";

/// Functions looked at together.
const PART: usize = 1000;
/// Time for one file; what has not been looked at by then is not counted.
const TIME_MAX: Duration = Duration::from_secs(8);

/// Looks at the functions of `module`, a module of `modules`, as many as time permits, and calls `beat` now and then.
pub(crate) fn survey(modules: &Modules, module: &Module, beat: &dyn Fn()) -> Result<Shares, Error> {
    // Where the program handles faults by itself, less can be moved. The shares are those of other programs with this file.
    if modules.own_fault_handler().is_some() {
        let of_file = Modules::of_file(Path::new(&module.path), &ImageCache::in_memory())?;
        return of_file.modules.first().map_or(Ok(Shares::default()), |module| looked_at(&of_file, module, beat));
    }
    let _held = Held::of(modules.pid);
    looked_at(modules, module, beat)
}

fn looked_at(modules: &Modules, module: &Module, beat: &dyn Fn()) -> Result<Shares, Error> {
    let started = Instant::now();
    let requests: Vec<FunctionRequest> =
        all_of(module).filter(|(_, size)| *size >= BYTES_MIN).map(|(address, _)| request(address, timed(0))).collect();
    let mut shares = Shares::default();
    // Parts far from each other first, so that what time permits is a fair sample.
    let parts = requests.len().div_ceil(PART);
    for part in 0..parts {
        let some: Vec<FunctionRequest> = requests.iter().skip(part).step_by(parts).cloned().collect();
        shares.add(&survey_part(modules, &some)?);
        beat();
        if started.elapsed() > TIME_MAX {
            break;
        }
    }
    Ok(shares)
}

fn survey_part(modules: &Modules, requests: &[FunctionRequest]) -> Result<Shares, Error> {
    let mut shares = Shares { functions: requests.len() as u64, ..Shares::default() };
    let with_exits = refused(modules, requests)?;
    let again: Vec<FunctionRequest> = requests
        .iter()
        .filter(|request| with_exits.contains_key(&request.name))
        .map(|request| FunctionRequest { work: count_only(0).into(), ..request.clone() })
        .collect();
    let entries = refused(modules, &again)?;
    let mut endless = 0;
    for (name, reason) in &with_exits {
        match entries.get(name) {
            Some(reason) => *shares.entry_refusals.entry(without_numbers(reason)).or_default() += 1,
            None if reason == NEVER_RETURNS => endless += 1,
            None => *shares.exit_refusals.entry(without_numbers(reason)).or_default() += 1,
        }
    }
    shares.entry = shares.functions - entries.len() as u64;
    shares.returning = shares.functions - endless;
    shares.exit = shares.functions - with_exits.len() as u64;
    Ok(shares)
}

fn request(address: trimtab_types::ProcAddr, probe: trimtab_stub::layout::Probe) -> FunctionRequest {
    FunctionRequest { name: format!("{:x}", address.0), address, work: probe.into() }
}

fn refused(modules: &Modules, requests: &[FunctionRequest]) -> Result<BTreeMap<String, String>, Error> {
    let prepared = Prepared::new(modules, requests)?;
    Ok(prepared.refused.into_iter().map(|refused| (refused.name, refused.reason.to_string())).collect())
}

/// A process that stands still until this is dropped.
struct Held(Pid);

impl Held {
    fn of(pid: Pid) -> Held {
        tree::send(pid, Signal::STOP);
        Held(pid)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        tree::send(self.0, Signal::CONT);
    }
}
