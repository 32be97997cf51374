//! Memory of the holds that this very process has put into others: it is no leftover.
//!
//! Next: `gather`, which puts them in; `leftover`, which asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use trimtab_os::Mapping;
use trimtab_types::Pid;

/// Memory of this process's own holds, which are no leftovers: by process and address, with the end.
static OWN: Mutex<BTreeMap<(Pid, u64), u64>> = Mutex::new(BTreeMap::new());

/// True if a mapping belongs to a hold that this process has put in and not taken out.
pub(crate) fn is_gathering(pid: Pid, mapping: &Mapping) -> bool {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = own.range(..=(pid, mapping.start)).next_back();
    before.is_some_and(|((owner, _), end)| *owner == pid && mapping.start < *end)
}

/// Memory of this process's own holds is noted, so that it is no leftover.
pub(crate) fn note(pid: Pid, memory: &[(u64, u64)]) {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.extend(memory.iter().map(|(address, length)| ((pid, *address), address + length)));
}

/// It is no more this process's own.
pub(crate) fn disown(pid: Pid, memory: impl Iterator<Item = (u64, u64)>) {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    for (address, _) in memory {
        own.remove(&(pid, address));
    }
}
