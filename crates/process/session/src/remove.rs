//! Taking probes out: close the gates, restore the bytes, and unmap once nobody is inside.
//!
//! Text is restored in the first stop, whoever stands in an island: islands end in original code, so a thread inside
//! just runs out of them. Only unmapping waits. A thread that blocks inside a measured function for hours is no
//! obstacle, because nothing of ours lies on its stack.
//!
//! Next: `leftover` calls this for what a killed trimtab left.

use crate::error::Error;
use crate::gone::is_gone;
use crate::mapped::open_descriptors;
use crate::pages::PageWrites;
use crate::serving::ANSWERED_AT;
use crate::target::{Removal, Target};
use crate::threads::{Stacks, Stand, anyone_in, inside, stands};
use crate::waiting::{TRIES_MAX, close, rest, unmap_calls, wait_until};
use crate::walks::is_anyone_reading;
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_os::Error as OsError;
use trimtab_os::{Call, MappingTable, Memory, Stopped, Thread, used_stack};
use trimtab_types::Pid;

/// Tries after which a slot's word is no longer enough: its owner may have jumped out of our routine.
const JUMPED_OUT_AFTER: usize = 20;
/// Most of a stack that is searched for a way back into our code.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// Place of `Slot::busy` within a slot.
const BUSY_OFFSET: u64 = std::mem::offset_of!(trimtab_stub::layout::Slot, busy) as u64;

/// Restores `pid`.
pub(crate) fn restore(pid: Pid, target: &Target) -> Result<Removal, Error> {
    let mut removal = Removal::default();
    if !target.is_mapped(pid) && !target.abandoned {
        // Ended, or another program now: nothing of ours is left in it.
        return Ok(removal);
    }
    close_gates(pid, target)?;
    // Whoever reads a page of the slots first waits for the kernel to make it: not while the process is held.
    let _ = busy_slots(&Memory::open(pid)?, target);
    let mut undoing = Undoing::of(target);
    for attempt in 0..TRIES_MAX {
        let maps = MappingTable::of(pid)?;
        let mut stopped = Stopped::stop_to_restore(pid)?;
        let stacks = Stacks::read(&stopped, &maps);
        if attempt == 0 {
            undoing.restore_text(&mut stopped, &stacks, &mut removal)?;
        }
        let patient = attempt < JUMPED_OUT_AFTER;
        let is_inside = is_anyone_inside(&stopped, &stacks, &maps, target, patient);
        // Whoever was just given an entry may hold it where nobody looks: one more look.
        let walks = undoing.finders_are_in || is_anyone_reading(&stopped, &stacks, &maps, target);
        if !is_inside || !patient {
            undoing.restore_finders(&mut stopped, &stacks, &mut removal)?;
        }
        let leave = walks || is_inside || !removal.foreign.is_empty();
        let pause_ns = match leave {
            true => stopped.resume(),
            false => match stopped.resume_through(&calls_to_unmap(pid, target), target.gadgets, &maps) {
                // No thread has room for its state: one may in a moment.
                Err(error) if error.is_retryable() && attempt + 1 < TRIES_MAX => {
                    std::thread::sleep(rest(attempt));
                    continue;
                }
                // The program has shut itself in since the probes went in, or stands on strange stacks all the time.
                Err(
                    error @ (OsError::Filtered { .. }
                    | OsError::ShadowStack { .. }
                    | OsError::NoStack { .. }
                    | OsError::NotNow { .. }),
                ) => {
                    return Ok(left_mapped(removal, target, error.to_string()));
                }
                held => held?,
            },
        };
        removal.pause_ns_max = removal.pause_ns_max.max(pause_ns);
        removal.pause_ns_total += pause_ns;
        if !leave {
            let is_open = || target.abandoned && !open_descriptors(pid).is_empty();
            return ended_is_gone(
                wait_until(pid, "unmap our memory", || !target.is_mapped(pid) && !is_open()),
                removal,
            );
        }
        std::thread::sleep(rest(attempt));
    }
    Ok(left_mapped(removal, target, "a thread did not leave them".into()))
}

/// Text that is being put back. The unwinder finds tables of our code until nobody is in it any more, so that a thread that
/// is cancelled there is unwound to its end.
struct Undoing<'a> {
    target: &'a Target,
    patches: PageWrites,
    finders: PageWrites,
    finders_are_in: bool,
}

impl<'a> Undoing<'a> {
    fn of(target: &'a Target) -> Self {
        let (patches, finders) = target.patches.parted(&target.finders);
        Undoing { target, patches, finders, finders_are_in: !target.finders.is_empty() }
    }

    fn restore_text(&self, stopped: &mut Stopped, stacks: &Stacks, removal: &mut Removal) -> Result<(), Error> {
        let (target, (functions, program)) = (self.target, &self.target.functions);
        let pointers = stopped.threads().iter().map(|thread| (thread.registers.fs_base, thread.registers.rsp));
        removal.stacks = pointers.collect();
        leave_springboards(stopped, stacks, target, &self.patches)?;
        removal.foreign = self.patches.restore(stopped)?;
        let_held_go(stopped, target);
        forget_gone(stopped, target, &mut removal.foreign);
        // Calls are recognised by their bytes, some of which were displaced.
        removal.inside = inside(stopped, stacks, functions, program);
        Ok(())
    }

    fn restore_finders(&mut self, stopped: &mut Stopped, stacks: &Stacks, removal: &mut Removal) -> Result<(), Error> {
        if !std::mem::replace(&mut self.finders_are_in, false) {
            return Ok(());
        }
        leave_springboards(stopped, stacks, self.target, &self.finders)?;
        removal.foreign.extend(self.finders.restore(stopped)?);
        forget_gone(stopped, self.target, &mut removal.foreign);
        Ok(())
    }
}

/// Leaves out of `foreign` what lies where the program has mapped something else.
fn forget_gone(stopped: &Stopped, target: &Target, foreign: &mut Vec<u64>) {
    if foreign.is_empty() {
        return;
    }
    let Ok(maps) = MappingTable::of(stopped.pid()) else { return };
    let length =
        |address: u64| target.patches.patches().iter().find(|patch| patch.address == address).map(|p| p.patched.len());
    foreign.retain(|address| {
        length(*address).is_none_or(|length| !is_gone(stopped.pid(), &maps, stopped.memory(), *address, length))
    });
}

/// Text is restored and gates are closed, so what stays mapped harms nobody.
fn left_mapped(removal: Removal, target: &Target, reason: String) -> Removal {
    let left_mapped_bytes = target.mappings.iter().map(|(_, length)| length).sum();
    Removal { left_mapped_bytes, left_because: Some(reason), ..removal }
}

/// A process that ended while it was about to unmap our memory took it along.
fn ended_is_gone(waited: Result<(), Error>, removal: Removal) -> Result<Removal, Error> {
    match waited {
        Ok(()) | Err(Error::Os(OsError::Gone { .. })) => Ok(removal),
        Err(error) => Err(error),
    }
}

fn close_gates(pid: Pid, target: &Target) -> Result<(), Error> {
    let memory = Memory::open(pid)?;
    for gate in &target.gates {
        memory.write(*gate, &0u32.to_le_bytes())?;
    }
    Ok(())
}

/// Threads that set a fault handler find the code where it was.
fn let_held_go(stopped: &Stopped, target: &Target) {
    // Where the memory is gone, nobody waits.
    let _ = stopped.memory().write(target.header + ANSWERED_AT, &u64::MAX.to_le_bytes());
}

/// A thread at a springboard of `writes` has taken a short jump and done nothing since: it goes back to where that jump
/// stands, so that the springboard's bytes may become what they were. Where they are that already, perhaps put back by a
/// trimtab that was ended then, a thread there runs the program's own code.
pub(crate) fn leave_springboards(
    stopped: &mut Stopped,
    stacks: &Stacks,
    target: &Target,
    writes: &PageWrites,
) -> Result<(), Error> {
    let springboards = springboards(writes);
    if springboards.is_empty() {
        return Ok(());
    }
    for stand in stands(stopped, stacks, target.gadgets.signal_return) {
        let Some(&back) = springboards.get(&stand.address()) else { continue };
        if !writes.is_written(stopped.memory(), stand.address()) {
            continue;
        }
        match stand {
            Stand::Thread { index, .. } => stopped.move_thread(index, back)?,
            Stand::SignalFrame { saved_at, .. } => stopped.memory().write(saved_at, &back.to_le_bytes())?,
        }
    }
    Ok(())
}

/// Every springboard, with where the short jump to it stands.
fn springboards(writes: &PageWrites) -> BTreeMap<u64, u64> {
    writes.patches().iter().filter_map(|patch| Some((patch.springboard()?, patch.address))).collect()
}

/// `patient`: who says it is in our routine is believed. Later its stack is asked, too: a signal handler may have left
/// the routine by `siglongjmp`, and the thread may have ended since.
fn is_anyone_inside(stopped: &Stopped, stacks: &Stacks, maps: &MappingTable, target: &Target, patient: bool) -> bool {
    let stands = stands(stopped, stacks, target.gadgets.signal_return);
    if anyone_in(&stands, &target.arenas) {
        return true;
    }
    let busy = busy_slots(stopped.memory(), target);
    let is_inside = |thread: &Thread| patient || returns_into(stopped, thread, maps, &target.arenas);
    let is_owner_inside = |key: &u64| stopped.threads().iter().any(|t| t.registers.fs_base == *key && is_inside(t));
    busy.iter().any(is_owner_inside) || (patient && !busy.is_empty())
}

/// True if a word on the thread's own stack points into our code; also if that can't be told.
fn returns_into(stopped: &Stopped, thread: &Thread, maps: &MappingTable, arenas: &[Range<u64>]) -> bool {
    let Some(used) = used_stack(stopped.pid(), thread, maps) else { return true };
    let first = used.start & !7;
    if used.end - first > STACK_BYTES_MAX {
        return true;
    }
    let Ok(bytes) = stopped.memory().read_vec(first, (used.end - first) as usize) else { return true };
    let words = bytes.chunks_exact(8).map(|raw| u64::from_le_bytes(raw.try_into().unwrap_or_default()));
    words.into_iter().any(|word| arenas.iter().any(|arena| arena.contains(&word)))
}

/// Owners of the slots that say so: a thread that called the MPI library from inside our routine has our return address
/// on its stack.
fn busy_slots(memory: &Memory, target: &Target) -> Vec<u64> {
    let geometry = &target.geometry;
    let slot = |index: u64| target.header + geometry.slots_offset + index * geometry.slot_stride;
    let words = |offset: u64| -> Vec<(u64, usize)> {
        (0..geometry.slot_count).map(|index| (slot(index) + offset, size_of::<u64>())).collect()
    };
    let number = |raw: &Vec<u8>| raw.as_slice().try_into().map_or(0, u64::from_le_bytes);
    let (keys, busy) = (memory.read_many(&words(0)), memory.read_many(&words(BUSY_OFFSET)));
    let slots = keys.iter().map(number).zip(busy.iter().map(number));
    slots.filter(|(key, busy)| *key != 0 && *busy != 0).map(|(key, _)| key).collect()
}

/// Shared memory last: as long as it is there, a later trimtab can finish this.
fn calls_to_unmap(pid: Pid, target: &Target) -> Vec<Call> {
    // Looked at now that the process is stopped: a number found earlier could be another file by now.
    let descriptors = if target.abandoned { open_descriptors(pid) } else { Vec::new() };
    let mut calls: Vec<Call> = descriptors.into_iter().map(close).collect();
    calls.extend(unmap_calls(&joined(&target.mappings)));
    calls
}

/// Neighbours in the list that touch in memory become one, so that a gate goes with its code.
pub(crate) fn joined(mappings: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (address, length) in mappings {
        match joined.last_mut() {
            Some(last) if last.0 + last.1 == *address => last.1 += length,
            _ => joined.push((*address, *length)),
        }
    }
    joined
}
