//! Functions whose addresses a module gives to others' functions, as a compiler's code does with the bodies of parallel regions.
//!
//! They need no names: the calls are found by what they lead to, and the addresses in the code before them.
//!
//! Next: `trimtab-x86`'s `given`, which looks backwards from a call.

use crate::error::Error;
use crate::modules::{Module, Modules};
use crate::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_symbols::{Image, SlotTarget};
use trimtab_types::FileAddr;
use trimtab_x86::{ControlFlow, given_addresses};

/// `call` and `jmp` through eight bytes at a distance from the next instruction.
const THROUGH_SLOT: [[u8; 2]; 2] = [[0xff, 0x15], [0xff, 0x25]];
/// Bytes of such an instruction.
const THROUGH_SLOT_BYTES: usize = 6;

/// The functions that a module gives away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenFunctions {
    /// Where they begin in the module's file, in order, each once.
    pub functions: Vec<FileAddr>,
    /// Calls of which it can't be told which function they give, or not on every way to them.
    pub unknown: usize,
}

impl Modules {
    /// The functions that code of `module` gives to functions that it imports or has itself: `receivers` are their names, each
    /// with the number of the argument, counted from 0.
    ///
    /// # Errors
    /// Why the module's code can't be read, as a sentence.
    pub fn functions_given(&self, module: &Module, receivers: &[(&str, usize)]) -> Result<GivenFunctions, Error> {
        let memory = self.memory()?;
        let subject = Subject::new(module, memory.as_ref(), self);
        let mut by_function: BTreeMap<FileAddr, Vec<(FileAddr, usize)>> = BTreeMap::new();
        let (mut given, mut found) = (GivenFunctions::default(), BTreeSet::new());
        for (call, argument) in calls(module, receivers) {
            match module.loaded.image.function_at(call) {
                Some(function) => by_function.entry(function.addr).or_default().push((call, argument)),
                None => given.unknown += 1,
            }
        }
        for (function, calls) in by_function {
            let (some, unknown) = of_function(&subject, function, &calls);
            found.extend(some);
            given.unknown += unknown;
        }
        given.functions = found.into_iter().collect();
        Ok(given)
    }
}

/// The functions that the calls in one function give, and the calls of which they are not all known.
fn of_function(subject: &Subject<'_>, function: FileAddr, calls: &[(FileAddr, usize)]) -> (BTreeSet<FileAddr>, usize) {
    let (bias, image) = (subject.module.bias, &subject.module.loaded.image);
    let seen = subject.analysed(bias.to_proc(function), |code, analysis| {
        let flow = ControlFlow::of(analysis);
        let (mut found, mut unknown) = (BTreeSet::new(), 0);
        for (call, argument) in calls {
            let call = bias.to_proc(*call);
            // Bytes of another instruction may look like a call.
            let Some(given) = given_addresses(code, analysis, &flow, call, *argument) else { continue };
            let begins = given.addresses.iter().map(|address| bias.to_file(*address));
            let (some, others): (Vec<_>, Vec<_>) = begins.partition(|begin| is_function(image, *begin));
            unknown += usize::from(given.has_others || !others.is_empty());
            found.extend(some);
        }
        Ok((found, unknown))
    });
    seen.unwrap_or((BTreeSet::new(), calls.len()))
}

fn is_function(image: &Image, begin: FileAddr) -> bool {
    image.function_at(begin).is_some_and(|function| function.addr == begin && !function.is_ifunc)
}

/// Addresses in the file of what looks like a call of or jump to a receiver, each with the argument's number.
fn calls(module: &Module, receivers: &[(&str, usize)]) -> Vec<(FileAddr, usize)> {
    let image = &module.loaded.image;
    let argument = |name: &str| {
        let name = name.split('@').next().unwrap_or(name);
        receivers.iter().find(|(receiver, _)| *receiver == name).map(|(_, argument)| *argument)
    };
    let slots = image.slots.iter().filter_map(|slot| match &slot.target {
        SlotTarget::Import(name) => Some((slot.addr, argument(name)?)),
        SlotTarget::Resolved(_) => None,
    });
    let slots: BTreeMap<FileAddr, usize> = slots.collect();
    let stubs = image.stubs.iter().filter_map(|stub| Some((stub.addr, *slots.get(&stub.slot)?)));
    let own = receivers.iter().filter_map(|(name, argument)| Some((image.function_named(name)?.addr, *argument)));
    let mut calls = through_slots(module, &slots);
    for (begin, argument) in stubs.chain(own) {
        calls.extend(module.loaded.calls_to(&BTreeSet::from([begin])).map(|call| (call, argument)));
    }
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// The same of those through a slot, as a compiler makes them that is told to use no stubs.
fn through_slots(module: &Module, slots: &BTreeMap<FileAddr, usize>) -> Vec<(FileAddr, usize)> {
    let is_stub = |at: FileAddr| module.loaded.image.stub_at(at).is_some();
    let of_text = |(text, start): (&[u8], FileAddr)| {
        let found = text.windows(THROUGH_SLOT_BYTES).enumerate().filter_map(|(offset, bytes)| {
            let distance = bytes[2..].first_chunk::<4>().filter(|_| THROUGH_SLOT.contains(&[bytes[0], bytes[1]]))?;
            let at = start + offset as u64;
            let behind = at + THROUGH_SLOT_BYTES as u64;
            let slot = FileAddr(behind.0.wrapping_add_signed(i64::from(i32::from_le_bytes(*distance))));
            Some((at, *slots.get(&slot).filter(|_| !is_stub(at))?))
        });
        found.collect::<Vec<_>>()
    };
    if slots.is_empty() { Vec::new() } else { module.loaded.code().flat_map(of_text).collect() }
}
