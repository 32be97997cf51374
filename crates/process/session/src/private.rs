//! Variables that nothing changes while a loop runs, as far as the code of their module shows.
//!
//! Whatever mentions a variable's address is looked for in all code and data of its module: functions that write to it or
//! make its address, and from there all that call these, step by step. If none of them is called in the loop, and none may be
//! called by way of its address, only the loop's own code can change the variable meanwhile. A variable that other modules
//! can name is never taken to be private.
//!
//! Next: `how_far`, which asks.

use crate::inside::Inside;
use crate::prepare::Subject;
use std::collections::BTreeSet;
use std::ops::Range;
use trimtab_symbols::ImageKind;
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{Loop, writes_or_lends};

/// Callers of callers that are looked for.
const DEPTH_MAX: u32 = 12;
/// Functions among them.
const FUNCTIONS_MAX: usize = 200;
/// Code and data that are looked through at most.
const BYTES_MAX: u64 = 64 << 20;
/// What the program begins with: it runs once, before all loops, whoever has its address.
const FIRST: [&str; 4] = ["main", "_start", "MAIN__", "_GLOBAL__sub_I_"];
/// Bytes of a constant behind an address in an instruction.
const BEHIND: [i64; 4] = [0, 1, 2, 4];

/// The addresses in the process of the variable that has these bytes, if it is private to the loop.
pub(crate) fn private_variable(
    subject: &Subject<'_>,
    (inside, found): (&Inside<'_>, &Loop),
    address: u64,
    bytes: u32,
) -> Option<Range<u64>> {
    let bias = subject.module.bias;
    let at = bias.to_file(ProcAddr(address));
    let objects = &subject.module.loaded.image.objects;
    let object = objects.get(objects.partition_point(|object| object.addr <= at).checked_sub(1)?)?;
    let variable = object.addr.0..object.addr.0.checked_add(object.size)?;
    if object.exported || at.0 + u64::from(bytes) > variable.end {
        return None;
    }
    let own = bias.to_file(ProcAddr(inside.entry())).0;
    let search = Search { subject, own };
    let (writers, writes_itself) = search.writers(&variable)?;
    let others = search.callers(&writers, Some(own))?;
    if search.is_pointed_to(&others, &variable)? {
        return None;
    }
    let all: Vec<u64> = others.into_iter().chain(writes_itself.then_some(own)).collect();
    let all = search.callers(&all, None)?;
    let begins = search.with_stubs(&all);
    let is_called = inside.flow.calls.iter().filter(|call| found.blocks.binary_search(&call.block).is_ok());
    let is_one = |target: u64| begins.contains(&bias.to_file(ProcAddr(target)).0);
    let process = bias.to_proc(FileAddr(variable.start)).0..bias.to_proc(FileAddr(variable.end)).0;
    (!is_called.filter_map(|call| call.target).any(is_one)).then_some(process)
}

/// How an address is mentioned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mention {
    /// By a call or a jump.
    Branch,
    /// In another way.
    Other,
}

struct Search<'s> {
    subject: &'s Subject<'s>,
    /// The loop's function.
    own: u64,
}

impl Search<'_> {
    /// Functions other than the loop's that write to a variable or make its address, and whether the loop's does.
    fn writers(&self, variable: &Range<u64>) -> Option<(Vec<u64>, bool)> {
        let mentioned = self.mentions(&|address| variable.contains(&address), &BEHIND)?;
        let mut writers = Vec::new();
        let bias = self.subject.module.bias;
        let addresses = bias.to_proc(FileAddr(variable.start)).0..bias.to_proc(FileAddr(variable.end)).0;
        for function in mentioned.into_iter().map(|(function, _)| function).collect::<BTreeSet<u64>>() {
            let seen = self.subject.analysed(bias.to_proc(FileAddr(function)), |code, analysis| {
                Ok(writes_or_lends(code, analysis, &addresses))
            });
            if seen.unwrap_or(true) {
                writers.push(function);
            }
        }
        let is_own = writers.contains(&self.own);
        writers.retain(|writer| *writer != self.own);
        Some((writers, is_own))
    }

    /// These functions, and all that come to them by calls and jumps; not those that come by way of `not_through`.
    fn callers(&self, from: &[u64], not_through: Option<u64>) -> Option<Vec<u64>> {
        let mut known: BTreeSet<u64> = from.iter().copied().collect();
        let mut newest: Vec<u64> = from.iter().copied().filter(|one| Some(*one) != not_through).collect();
        for _ in 0..DEPTH_MAX {
            if newest.is_empty() {
                return Some(known.into_iter().collect());
            }
            let begins = self.with_stubs(&newest);
            let mentions = self.mentions(&|address| begins.contains(&address), &BEHIND[..1])?;
            let callers = mentions.into_iter().filter(|(_, how)| *how == Mention::Branch).map(|(function, _)| function);
            newest = callers.filter(|caller| known.insert(*caller) && Some(*caller) != not_through).collect();
            if known.len() > FUNCTIONS_MAX {
                return None;
            }
        }
        None
    }

    /// The addresses at which these functions are called.
    fn with_stubs(&self, functions: &[u64]) -> BTreeSet<u64> {
        let image = &self.subject.module.loaded.image;
        let names = |begin: &u64| image.function_at(FileAddr(*begin)).into_iter().flat_map(|function| &function.names);
        let stubs =
            functions.iter().flat_map(names).flat_map(|name| image.stubs_of_import(name)).map(|stub| stub.addr.0);
        functions.iter().copied().chain(stubs).collect()
    }

    /// True if the address of the variable or of one of these functions may be kept anywhere.
    fn is_pointed_to(&self, functions: &[u64], variable: &Range<u64>) -> Option<bool> {
        let image = &self.subject.module.loaded.image;
        let is_first = |begin: &u64| {
            let names = image.function_at(FileAddr(*begin)).into_iter().flat_map(|function| &function.names);
            *begin == self.own || { names }.any(|name| FIRST.iter().any(|first| name.starts_with(first)))
        };
        let kept: BTreeSet<u64> = functions.iter().copied().filter(|begin| !is_first(begin)).collect();
        if self.is_in_data(&|address| kept.contains(&address) || variable.contains(&address))? {
            return Some(true);
        }
        let mentions = self.mentions(&|address| kept.contains(&address), &BEHIND[..1])?;
        Some(mentions.into_iter().any(|(_, how)| how == Mention::Other))
    }

    /// Functions whose code mentions an address that is meant, and how. `None`: some code is of no known function.
    fn mentions(&self, is_meant: &dyn Fn(u64) -> bool, behind: &[i64]) -> Option<Vec<(u64, Mention)>> {
        let loaded = &self.subject.module.loaded;
        if loaded.code().map(|(text, _)| text.len() as u64).sum::<u64>() > BYTES_MAX {
            return None;
        }
        let mut found = Vec::new();
        for (text, begin) in loaded.code() {
            for (offset, word) in text.windows(4).enumerate() {
                let value = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                let next = begin + offset as u64 + 4;
                let is_relative = |more: &i64| is_meant(next.wrapping_add_signed(i64::from(value) + more));
                let is_near = behind.iter().any(is_relative);
                let is_meant = is_near || (self.is_at_fixed_addresses() && is_meant(u64::from(value as u32)));
                if !is_meant {
                    continue;
                }
                let how = if is_near && is_branch(&text[..offset]) { Mention::Branch } else { Mention::Other };
                found.push((self.function_of(next - 4)?, how));
            }
        }
        Some(found)
    }

    /// Where the function begins that code belongs to.
    fn function_of(&self, address: u64) -> Option<u64> {
        let image = &self.subject.module.loaded.image;
        let address = FileAddr(address);
        if let Some(function) = image.function_at(address) {
            return Some(function.addr.0);
        }
        let fragment = image.fragment_at(address)?;
        let of = |name: &String| image.function_named(name.split(".cold").next().unwrap_or(name));
        fragment.names.iter().find_map(of).map(|function| function.addr.0)
    }

    fn is_at_fixed_addresses(&self) -> bool {
        matches!(self.subject.module.loaded.image.kind, ImageKind::Static | ImageKind::Dynamic)
    }

    /// True if a word of the module's data is an address that is meant, of the file.
    fn is_in_data(&self, is_meant: &dyn Fn(u64) -> bool) -> Option<bool> {
        let (memory, bias) = (self.subject.memory()?, self.subject.module.bias);
        let segments = self.subject.module.loaded.image.segments.iter().filter(|segment| !segment.executable);
        for segment in segments {
            if segment.file_size > BYTES_MAX {
                return None;
            }
            let bytes = memory.read_vec(bias.to_proc(segment.addr).0, segment.file_size as usize).ok()?;
            let skip = (segment.addr.0.wrapping_neg() % 8) as usize;
            let words = bytes.get(skip..).unwrap_or_default().chunks_exact(8);
            let is_it = |word: &[u8]| {
                let value = <[u8; 8]>::try_from(word).map(u64::from_le_bytes).unwrap_or_default();
                is_meant(bias.to_file(ProcAddr(value)).0)
            };
            if { words }.any(is_it) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// True if what comes right before a distance makes a branch of it.
fn is_branch(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] => true,
        [.., 0x0f, condition] => (0x80..=0x8f).contains(condition),
        _ => false,
    }
}
