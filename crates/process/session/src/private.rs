//! Variables that nothing changes while a loop runs, as far as the code of their module shows.
//!
//! Whatever mentions a variable's address is looked for in all code and data of its module: functions that write to it or
//! make its address, and from there all that call these, step by step. If none of them is called in the loop, and none may be
//! called by way of its address, only the loop's own code can change the variable meanwhile. A variable that other modules
//! can name is never taken to be private, nor is one whose address some function keeps: code that has it from there does not
//! mention it.
//!
//! Next: `how_far`, which asks.

use crate::pointed::Given;
use crate::returns::flow_of;
use crate::subject::Subject;
use crate::users::Changers;
use std::collections::BTreeSet;
use std::ops::Range;
use trimtab_symbols::ImageKind;
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{Analysis, ControlFlow, FunctionCode, Loop, keeps_address, writes_or_lends};

/// Callers of callers that are looked for.
const DEPTH_MAX: u32 = 12;
/// Functions among them.
const FUNCTIONS_MAX: usize = 200;
/// Code that is looked through at most, for a variable; and data, for each variable and process.
const CODE_BYTES_MAX: u64 = 24 << 20;
const DATA_BYTES_MAX: u64 = 4 << 20;
/// The program begins with these: they run once, before all loops, whoever has their addresses.
const FIRST: [&str; 4] = ["main", "_start", "MAIN__", "_GLOBAL__sub_I_"];
/// Bytes of a constant behind an address in an instruction.
const BEHIND: [i64; 4] = [0, 1, 2, 4];

/// The addresses in the process of the variable that has these bytes, if it is private to a loop of the function that begins
/// at `entry`.
pub(crate) fn private_variable(
    subject: &Subject<'_>,
    (entry, flow, found): (ProcAddr, &ControlFlow, &Loop),
    address: ProcAddr,
    bytes: u32,
) -> Option<Range<ProcAddr>> {
    let (bias, loaded) = (subject.module.bias, &subject.module.loaded);
    let at = bias.to_file(address);
    let objects = &loaded.image.objects;
    let object = objects.get(objects.partition_point(|object| object.addr <= at).checked_sub(1)?)?;
    let variable = object.addr..FileAddr(object.addr.0.checked_add(object.size)?);
    if object.exported || at + u64::from(bytes) > variable.end {
        return None;
    }
    let own = bias.to_file(entry);
    let search = Search { subject, own };
    let changers = loaded.users.changers((variable.start, own), || search.changers(&variable))?;
    if search.is_in_data(&|address| changers.kept.contains(&address) || variable.contains(&address))? {
        return None;
    }
    let is_called = flow.calls.iter().filter(|call| found.blocks.binary_search(&call.block).is_ok());
    let is_one = |target: ProcAddr| changers.begins.contains(&bias.to_file(target));
    let process = bias.to_proc(variable.start)..bias.to_proc(variable.end);
    (!is_called.filter_map(|call| call.target).any(is_one)).then_some(process)
}

/// All calls of a function, as the caller's beginning and the place of the call, in the process; nothing if it may be called
/// in other ways, or from elsewhere.
pub(crate) fn calls_of(subject: &Subject<'_>, function: ProcAddr) -> Option<Vec<(ProcAddr, ProcAddr)>> {
    let (bias, loaded) = (subject.module.bias, &subject.module.loaded);
    let own = bias.to_file(function);
    if loaded.image.function_at(own)?.exported {
        return None;
    }
    if loaded.code().map(|(text, _)| text.len() as u64).sum::<u64>() > CODE_BYTES_MAX {
        return None;
    }
    let search = Search { subject, own };
    let begins = BTreeSet::from([own]);
    let calls: BTreeSet<FileAddr> = loaded.calls_to(&begins).collect();
    let is_call = |at: FileAddr| (5..=6).any(|bytes| calls.contains(&FileAddr(at.0 + 4 - bytes)));
    let is_kept = search.mentions(&begins, &BEHIND[..1]).into_iter().any(|at| !is_call(at));
    if is_kept || search.is_in_data(&|address| address == own)? {
        return None;
    }
    calls.into_iter().map(|call| Some((bias.to_proc(search.function_of(call)?), bias.to_proc(call)))).collect()
}

struct Search<'s> {
    subject: &'s Subject<'s>,
    /// The loop's function.
    own: FileAddr,
}

impl Search<'_> {
    /// Functions other than the loop's that write to a variable or make its address, and whether the loop's does. Nothing if
    /// one of them may keep the address.
    fn writers(&self, variable: &Range<FileAddr>) -> Option<(Vec<FileAddr>, bool)> {
        let mentioned = self.mentions(variable, &BEHIND).into_iter().map(|at| self.function_of(at));
        let mut writers = Vec::new();
        let bias = self.subject.module.bias;
        let addresses = bias.to_proc(variable.start)..bias.to_proc(variable.end);
        for function in mentioned.collect::<Option<BTreeSet<FileAddr>>>()? {
            let seen = self.subject.analysed(bias.to_proc(function), |code, analysis| {
                let is_one = writes_or_lends(code, analysis, &addresses);
                Ok((is_one, is_one && self.keeps(code, analysis, &addresses)))
            });
            let (is_one, keeps) = seen.unwrap_or((true, true));
            if keeps {
                return None;
            }
            if is_one {
                writers.push(function);
            }
        }
        let is_own = writers.contains(&self.own);
        writers.retain(|writer| *writer != self.own);
        Some((writers, is_own))
    }

    fn keeps(&self, code: &FunctionCode<'_>, analysis: &Analysis, addresses: &Range<ProcAddr>) -> bool {
        let flow = flow_of(code, analysis, self.subject);
        let left = Given::all();
        keeps_address(code, analysis, &flow, addresses, &Given::new(self.subject, &left))
    }

    /// The functions that may change a variable while the loop runs; nothing if one may be called by way of its
    /// address.
    fn changers(&self, variable: &Range<FileAddr>) -> Option<Changers> {
        let loaded = &self.subject.module.loaded;
        if loaded.code().map(|(text, _)| text.len() as u64).sum::<u64>() > CODE_BYTES_MAX {
            return None;
        }
        let (writers, writes_itself) = self.writers(variable)?;
        let others = self.callers(&writers, Some(self.own))?;
        let kept: BTreeSet<FileAddr> = others.iter().copied().filter(|begin| !self.is_first(*begin)).collect();
        let branches: BTreeSet<FileAddr> = loaded.calls_to(&kept).collect();
        let is_branch = |at: FileAddr| (5..=6).any(|bytes| branches.contains(&FileAddr(at.0 + 4 - bytes)));
        if self.mentions(&kept, &BEHIND[..1]).into_iter().any(|at| !is_branch(at)) {
            return None;
        }
        let all: Vec<FileAddr> = others.into_iter().chain(writes_itself.then_some(self.own)).collect();
        let begins = self.with_stubs(&self.callers(&all, None)?);
        Some(Changers { begins, kept })
    }

    /// These functions, and all that come to them by calls and jumps; not those that come by way of `not_through`.
    fn callers(&self, from: &[FileAddr], not_through: Option<FileAddr>) -> Option<Vec<FileAddr>> {
        let mut known: BTreeSet<FileAddr> = from.iter().copied().collect();
        let mut newest: Vec<FileAddr> = from.iter().copied().filter(|one| Some(*one) != not_through).collect();
        for _ in 0..DEPTH_MAX {
            if newest.is_empty() {
                return Some(known.into_iter().collect());
            }
            let begins = self.with_stubs(&newest);
            let calls = self.subject.module.loaded.calls_to(&begins);
            let callers = calls.map(|from| self.function_of(from)).collect::<Option<BTreeSet<FileAddr>>>()?;
            newest = { callers }.into_iter().filter(|one| known.insert(*one) && Some(*one) != not_through).collect();
            if known.len() > FUNCTIONS_MAX {
                return None;
            }
        }
        None
    }

    /// The addresses at which these functions are called.
    fn with_stubs(&self, functions: &[FileAddr]) -> BTreeSet<FileAddr> {
        let image = &self.subject.module.loaded.image;
        let names = |begin: &FileAddr| image.function_at(*begin).into_iter().flat_map(|function| &function.names);
        let stubs = functions.iter().flat_map(names).flat_map(|name| image.stubs_of_import(name)).map(|stub| stub.addr);
        functions.iter().copied().chain(stubs).collect()
    }

    /// True for the loop's function, and for those that run once, before all loops.
    fn is_first(&self, begin: FileAddr) -> bool {
        let function = self.subject.module.loaded.image.function_at(begin);
        let mut names = function.into_iter().flat_map(|function| &function.names);
        begin == self.own || names.any(|name| FIRST.iter().any(|first| name.starts_with(first)))
    }

    /// Where code may mention an address that is meant: the places of four bytes. Zeros right before it are no mention, but fill
    /// the room between functions.
    fn mentions(&self, meant: &impl Addresses, behind: &[i64]) -> Vec<FileAddr> {
        let mut found = Vec::new();
        let (hull, is_fixed) = (meant.hull(), self.is_at_fixed_addresses());
        if hull.is_empty() {
            return found;
        }
        // Most addresses lie outside of all that are meant.
        let is_meant = |address: u64| hull.contains(&FileAddr(address)) && meant.has(FileAddr(address));
        for (text, begin) in self.subject.module.loaded.code() {
            for (offset, word) in text.windows(4).enumerate() {
                let value = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                let at = begin + offset as u64;
                let relative = (at.0 + 4).wrapping_add_signed(i64::from(value));
                let is_near = value != 0 && behind.iter().any(|more| is_meant(relative.wrapping_add_signed(*more)));
                if is_near || (is_fixed && is_meant(u64::from(value as u32))) {
                    found.push(at);
                }
            }
        }
        found
    }

    /// Where the function begins that code belongs to.
    fn function_of(&self, address: FileAddr) -> Option<FileAddr> {
        let image = &self.subject.module.loaded.image;
        if let Some(function) = image.function_at(address) {
            return Some(function.addr);
        }
        let fragment = image.fragment_at(address)?;
        let of = |name: &String| image.function_named(name.split(".cold").next().unwrap_or(name));
        fragment.names.iter().find_map(of).map(|function| function.addr)
    }

    fn is_at_fixed_addresses(&self) -> bool {
        matches!(self.subject.module.loaded.image.kind, ImageKind::Static | ImageKind::Dynamic)
    }

    /// True if a word of the module's data is an address that is meant, of the file.
    fn is_in_data(&self, is_meant: &dyn Fn(FileAddr) -> bool) -> Option<bool> {
        let (memory, bias) = (self.subject.memory()?, self.subject.module.bias);
        let segments = self.subject.module.loaded.image.segments.iter().filter(|segment| !segment.executable);
        for segment in segments {
            if segment.file_size > DATA_BYTES_MAX {
                return None;
            }
            let bytes = memory.read_vec(bias.to_proc(segment.addr).0, segment.file_size as usize).ok()?;
            let skip = (segment.addr.0.wrapping_neg() % 8) as usize;
            let words = bytes.get(skip..).unwrap_or_default().chunks_exact(8);
            let is_it = |word: &[u8]| {
                let value = <[u8; 8]>::try_from(word).map(u64::from_le_bytes).unwrap_or_default();
                is_meant(bias.to_file(ProcAddr(value)))
            };
            if { words }.any(is_it) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Some addresses of a file.
trait Addresses {
    /// All of them lie in there.
    fn hull(&self) -> Range<FileAddr>;

    fn has(&self, address: FileAddr) -> bool;
}

impl Addresses for Range<FileAddr> {
    fn hull(&self) -> Range<FileAddr> {
        self.clone()
    }

    fn has(&self, address: FileAddr) -> bool {
        self.contains(&address)
    }
}

impl Addresses for BTreeSet<FileAddr> {
    fn hull(&self) -> Range<FileAddr> {
        self.first()
            .zip(self.last())
            .map_or(Range::default(), |(first, last)| *first..FileAddr(last.0.saturating_add(1)))
    }

    fn has(&self, address: FileAddr) -> bool {
        self.contains(&address)
    }
}
