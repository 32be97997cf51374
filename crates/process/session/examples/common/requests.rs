//! The examples' requests to a process: all functions of its modules, and the bytes of its code.
//!
//! Next: `probe_all`, `plan_all` and `insert_many`, which use this.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_os::{Memory, ticks};
use trimtab_session::{FunctionRequest, Modules};
use trimtab_stub::layout::{Probe, state};
use trimtab_stub::view::View;
use trimtab_types::Pid;

/// The number of the group of functions a user names.
const USER_GROUP: u8 = 4;

/// A request for each function of `modules`.
pub fn requests(modules: &Modules, flags: u8) -> Vec<FunctionRequest> {
    let mut known = BTreeSet::new();
    let mut requests = Vec::new();
    for module in &modules.modules {
        for function in &module.loaded.image.functions {
            let address = module.bias.to_proc(function.addr);
            if !known.insert(address.0) {
                continue;
            }
            let probe = Probe { function: requests.len() as u32, group: USER_GROUP, flags, ..Probe::ABSENT };
            requests.push(FunctionRequest { name: function.name(), address, work: probe.into() });
        }
    }
    requests
}

/// The request with another number for its results.
#[allow(dead_code, reason = "not every example chooses among all functions")]
pub fn numbered(request: FunctionRequest, number: u32) -> FunctionRequest {
    let probe = request.work.probe().copied().unwrap_or_default();
    FunctionRequest { work: Probe { function: number, ..probe }.into(), ..request }
}

/// The code of all modules, as it is now.
#[allow(dead_code, reason = "not every example patches")]
pub fn text_of(pid: Pid, modules: &Modules) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let memory = Memory::open(pid)?;
    let texts = modules.modules.iter().flat_map(|module| {
        let mapped = modules.maps.0.iter().filter(|mapping| mapping.executable && mapping.path == module.path);
        mapped.map(|mapping| memory.read_vec(mapping.start, (mapping.end - mapping.start) as usize))
    });
    Ok(texts.collect::<Result<_, _>>()?)
}

/// Records from the first call on; nothing marks iterations.
#[allow(dead_code, reason = "not every example patches")]
pub fn begin_recording(view: View<'_>) {
    let header = view.header();
    header.marker_probe.store(u32::MAX, Relaxed);
    header.first_ticks.store(ticks(), Relaxed);
    header.state.store(state::RECORD, Relaxed);
}
