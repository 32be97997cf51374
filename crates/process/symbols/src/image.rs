//! The facts of one file: its segments, functions and data, and how to look them up.
//!
//! All addresses are [`FileAddr`]: as written in the file. A process adds its load bias. Everything here is plain data
//! that a test may build by hand (start from [`Image::default`]); the lists of functions, fragments, objects and
//! frames must be sorted by address, which [`Image::parse`] and [`Image::from_cache`] guarantee.
//!
//! Next: `parse` for how it is read from a file, [`crate::frames`] for the unwind table.

use crate::parts::{ADDRESS_NAME, DataObject, Frame, Function, Segment, Slot, SlotTarget, Stub, Unwind};
use crate::spelling::Spelling;
use crate::{Machine, glob};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;
use trimtab_types::{BuildId, FileAddr};

/// One executable or shared library, as far as its file tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// GNU build id in hex, or `text-` and a hash of the executable segments where there is none.
    pub build_id: BuildId,
    /// Processor architecture.
    pub machine: Machine,
    /// Always true: 32-bit files are refused.
    pub is_64: bool,
    /// How the file is linked.
    pub kind: ImageKind,
    /// Where the kernel or loader starts it; 0 in most libraries.
    pub entry: FileAddr,
    /// Length of the file in bytes.
    pub file_size_bytes: u64,
    /// The mapped segments, in the file's order.
    pub segments: Vec<Segment>,
    /// Functions by ascending address, one per address.
    pub functions: Vec<Function>,
    /// Parts of functions that lie elsewhere (`f.cold`), by ascending address. Nobody calls them.
    pub fragments: Vec<Function>,
    /// Named data by ascending address, one per address; thread-local data is left out.
    pub objects: Vec<DataObject>,
    /// Slots that the loader fills with addresses of code, by ascending address.
    pub slots: Vec<Slot>,
    /// Stubs that jump through slots, by ascending address.
    pub stubs: Vec<Stub>,
    /// Libraries it asks the loader for (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// The name it has as a library (`DT_SONAME`).
    pub soname: Option<String>,
    /// Name of the separate debug file (`.gnu_debuglink`).
    pub debug_link: Option<String>,
    /// The file holds only symbols and debug information; its code is in another file.
    pub is_debug_only: bool,
    /// Tables that could not be read, each with the reason, for the user to see.
    pub problems: Vec<String>,
    /// The unwind table.
    pub(crate) unwind: Unwind,
    /// Made at the first look-up by name; a changed list of functions needs a new one.
    #[serde(skip)]
    pub(crate) names: NameIndex,
}

/// How a file is linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageKind {
    /// An executable at fixed addresses without a loader.
    Static,
    /// An executable that relocates itself, without a loader.
    StaticPie,
    /// An executable at fixed addresses with libraries.
    Dynamic,
    /// An executable at any address with libraries.
    DynamicPie,
    /// A library (or the loader itself, or the kernel's vDSO).
    #[default]
    SharedLibrary,
}

impl Image {
    /// The function that has this name; a version after `@` counts only where several versions exist.
    ///
    /// Of several functions of one name (static ones of different files) the exported one is returned, else the lowest.
    /// `fn_0x1139` is the function that begins at that address of the file, named or not.
    pub fn function_named(&self, name: &str) -> Option<&Function> {
        self.functions_named(name).into_iter().next()
    }

    /// The functions that a plain name means: the best one that has it as a symbol, or else all whose author called them so
    /// (`ns::f(int)`, or `ns::f` with any parameters).
    pub fn functions_meant(&self, name: &str) -> Vec<&Function> {
        let named = self.function_named(name);
        let spelling = Spelling::of(name);
        let spelled = |is: &dyn Fn(&str) -> bool| -> Vec<&Function> {
            self.functions.iter().filter(|function| function.names.iter().any(|alias| is(alias))).collect()
        };
        if let Some(function) = named {
            return vec![function];
        }
        let found = spelled(&|alias| spelling.is(alias));
        // The compiler may have kept none but copies with other parameters.
        let is_copy =
            |alias: &str| original_of(alias).is_some_and(|original| original == name || spelling.is(original));
        if found.is_empty() { spelled(&is_copy) } else { found }
    }

    /// Every function that has this name, the best first: same version, default version, exported, lowest address.
    pub fn functions_named(&self, name: &str) -> Vec<&Function> {
        let found = self.functions_of_symbol(name);
        let begins_at = |addr| self.functions.binary_search_by_key(&addr, |function| function.addr).ok();
        let numbered = address_name(name).filter(|_| found.is_empty()).and_then(begins_at);
        found.into_iter().chain(numbered.map(|at| &self.functions[at])).collect()
    }

    fn functions_of_symbol(&self, name: &str) -> Vec<&Function> {
        let base = base_name(name);
        let hash = hash_of(base);
        let index = self.names.of(&self.functions);
        let start = index.partition_point(|&(other, ..)| other < hash);
        let mut found: Vec<(&Function, &str)> = index[start..]
            .iter()
            .take_while(|&&(other, ..)| other == hash)
            .filter_map(|&(_, function, alias)| {
                Some((self.functions.get(function as usize)?, self.alias(function, alias)))
            })
            .filter(|(_, alias)| base_name(alias) == base)
            .collect();
        found.sort_by_key(|(function, alias)| (*alias != name, alias.contains('@'), !function.exported, function.addr));
        found.dedup_by_key(|(function, _)| function.addr);
        found.into_iter().map(|(function, _)| function).collect()
    }

    /// The functions of which one alias matches a pattern (`*` any text, `?` any byte), by address. Those without a
    /// symbol are matched by what [`Function::name`] calls them, others by what their authors called them, too.
    pub fn functions_matching(&self, pattern: &str) -> Vec<&Function> {
        // A name with parameters is one, also if some of them are pointers.
        let exact = if pattern.contains('(') { self.functions_meant(pattern) } else { Vec::new() };
        if !exact.is_empty() {
            return exact;
        }
        let spelling = Spelling::of(pattern);
        let matches = |alias: &String| {
            glob::matches(pattern, base_name(alias)) || glob::matches(pattern, alias) || spelling.matches(alias)
        };
        let is_wanted = |function: &&Function| match function.names.as_slice() {
            [] => glob::matches(pattern, &function.name()),
            names => names.iter().any(matches),
        };
        self.functions.iter().filter(is_wanted).collect()
    }

    /// The function whose code contains `addr`; the innermost where symbols nest.
    pub fn function_at(&self, addr: FileAddr) -> Option<&Function> {
        containing(&self.functions, addr)
    }

    /// The fragment whose code contains `addr`.
    pub fn fragment_at(&self, addr: FileAddr) -> Option<&Function> {
        containing(&self.fragments, addr)
    }

    /// Where the data of this name lies, and its size in bytes: exported first, then the lowest address.
    pub fn object_named(&self, name: &str) -> Option<(FileAddr, u64)> {
        let base = base_name(name);
        let matching = |object: &&DataObject| object.names.iter().any(|alias| base_name(alias) == base);
        let best = self.objects.iter().filter(matching).min_by_key(|object| {
            let is_default = object.names.iter().any(|alias| alias == name || alias == base);
            (!is_default, !object.exported, object.addr)
        })?;
        Some((best.addr, best.size))
    }

    /// The slot at `addr`.
    pub fn slot_at(&self, addr: FileAddr) -> Option<&Slot> {
        self.slots.binary_search_by_key(&addr, |slot| slot.addr).ok().map(|at| &self.slots[at])
    }

    /// The slots filled with the address of the function (or data) of this name.
    pub fn slots_of_import<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Slot> {
        self.slots.iter().filter(move |slot| matches!(&slot.target, SlotTarget::Import(import) if import == name))
    }

    /// The slots filled with what the resolver at `resolver` returned: in a running process they tell which function
    /// an IFUNC has become.
    pub fn slots_of_resolver(&self, resolver: FileAddr) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(move |slot| slot.target == SlotTarget::Resolved(resolver))
    }

    /// The stub that contains `addr`, and the slot it jumps through where the loader's tables name it.
    pub fn stub_at(&self, addr: FileAddr) -> Option<(&Stub, Option<&Slot>)> {
        let after = self.stubs.partition_point(|stub| stub.addr <= addr);
        let stub = self.stubs[..after].last().filter(|stub| addr.0 - stub.addr.0 < stub.size)?;
        Some((stub, self.slot_at(stub.slot)))
    }

    /// The stubs through which the function of this name is called.
    pub fn stubs_of_import<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Stub> {
        let is_named = move |stub: &&Stub| match self.slot_at(stub.slot).map(|slot| &slot.target) {
            Some(SlotTarget::Import(import)) => import == name,
            _ => false,
        };
        self.stubs.iter().filter(is_named)
    }

    /// Where the byte at `addr` lies in the file; `None` for memory that doesn't come from it.
    pub fn file_offset_of(&self, addr: FileAddr) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let inside = addr.0.checked_sub(segment.addr.0)?;
            if inside < segment.file_size { segment.file_offset.checked_add(inside) } else { None }
        })
    }

    /// True if `addr` lies in memory that may be executed.
    pub fn is_executable(&self, addr: FileAddr) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.contains(addr))
    }

    /// The unwind table's entries by ascending address; their ranges don't overlap.
    pub fn frames(&self) -> &[Frame] {
        &self.unwind.frames
    }

    /// The unwind entry that covers `addr`, without its rules; see [`crate::fde_at`] for those.
    pub fn frame_at(&self, addr: FileAddr) -> Option<&Frame> {
        let after = self.unwind.frames.partition_point(|frame| frame.addr <= addr);
        self.unwind.frames[..after].last().filter(|frame| addr.0 - frame.addr.0 < frame.size)
    }

    fn alias(&self, function: u32, alias: u32) -> &str {
        let function = self.functions.get(function as usize);
        function.and_then(|function| function.names.get(alias as usize)).map_or("", String::as_str)
    }
}

/// Hashes of base names with positions (function, alias), sorted; made at the first look-up. To sort the names themselves
/// takes as long as all that is done with them afterwards. Equal to every other: it follows from the functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex(OnceLock<Vec<(u64, u32, u32)>>);

impl NameIndex {
    fn of(&self, functions: &[Function]) -> &[(u64, u32, u32)] {
        self.0.get_or_init(|| {
            let mut index = Vec::with_capacity(functions.iter().map(|function| function.names.len()).sum());
            for (function, at) in functions.iter().zip(0_u32..) {
                let names = function.names.iter().zip(0_u32..);
                index.extend(names.map(|(name, alias)| (hash_of(base_name(name)), at, alias)));
            }
            index.sort_unstable();
            index
        })
    }
}

/// The same in every process; nobody knows how to make many names of one hash.
fn hash_of(base: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(base.as_bytes());
    hasher.finish()
}

impl PartialEq for NameIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The address in a name made of one.
fn address_name(name: &str) -> Option<FileAddr> {
    let digits = name.strip_prefix(ADDRESS_NAME)?.strip_prefix("0x")?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain).map(FileAddr)
}

/// The symbol of which the compiler made this one, with all of its code (`f` of `f.isra.0`).
fn original_of(alias: &str) -> Option<&str> {
    let marks = [".isra.", ".constprop."];
    let at = marks.iter().filter_map(|mark| alias.find(mark)).min()?;
    (!crate::symtab::is_fragment_name(alias) && !alias.contains(".part.")).then_some(&alias[..at])
}

/// A symbol's name without its version.
fn base_name(name: &str) -> &str {
    match name.split_once('@') {
        Some((base, _)) if !base.is_empty() => base,
        _ => name,
    }
}

/// How many earlier functions to look at for one that encloses an address: symbols nest two or three deep in
/// hand-written assembly, and never by more than a handful of entry points.
const NESTED_MAX: usize = 64;

fn containing(functions: &[Function], addr: FileAddr) -> Option<&Function> {
    let after = functions.partition_point(|function| function.addr <= addr);
    functions[..after].iter().rev().take(NESTED_MAX).find(|function| addr < function.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(addr: u64, size: u64, names: &[&str], exported: bool) -> Function {
        let names = names.iter().map(|name| name.to_string()).collect();
        Function { addr: FileAddr(addr), size, names, exported, ..Function::default() }
    }

    fn image(functions: Vec<Function>) -> Image {
        Image { functions, ..Image::default() }
    }

    #[test]
    fn the_innermost_function_contains_an_address() {
        let nested = [("outer", 0x100, 0x100), ("inner", 0x110, 0x10), ("next", 0x120, 0x10), ("far", 0x300, 0x10)];
        let image = image(nested.iter().map(|(name, addr, size)| function(*addr, *size, &[name], false)).collect());
        for (addr, expected) in [
            (0xff, None),
            (0x100, Some("outer")),
            (0x110, Some("inner")),
            (0x11f, Some("inner")),
            (0x120, Some("next")),
            (0x130, Some("outer")),
            (0x200, None),
            (0x30f, Some("far")),
            (0x310, None),
            (u64::MAX, None),
        ] {
            let found = image.function_at(FileAddr(addr)).map(Function::name);
            assert_eq!(found.as_deref(), expected, "{addr:#x}");
        }
    }

    #[test]
    fn names_lead_to_the_best_function() {
        let image = image(vec![
            function(0x100, 1, &["helper"], false),
            function(0x200, 1, &["PMPI_Send", "MPI_Send"], true),
            function(0x300, 1, &["helper", "MPI_Send_c"], true),
            function(0x400, 1, &["old@V1"], true),
            function(0x500, 1, &["old@V2"], true),
            function(0x600, 1, &[], false),
        ]);
        for (name, expected) in [
            ("MPI_Send", vec![0x200]),
            ("PMPI_Send", vec![0x200]),
            ("helper", vec![0x300, 0x100]),
            ("old", vec![0x400, 0x500]),
            ("old@V2", vec![0x500, 0x400]),
            ("MPI_Sen", vec![]),
            ("", vec![]),
            ("fn_0x600", vec![0x600]),
            ("fn_0x200", vec![0x200]),
            ("fn_0x601", vec![]),
            ("fn_600", vec![]),
            ("fn_0x+600", vec![]),
        ] {
            let found: Vec<u64> = image.functions_named(name).iter().map(|function| function.addr.0).collect();
            assert_eq!(found, expected, "{name}");
            assert_eq!(image.function_named(name).map(|f| f.addr.0), expected.first().copied(), "{name}");
        }
        assert_eq!(image.functions[5].name(), "fn_0x600");
        for (pattern, expected) in [("fn_0x6*", vec![0x600]), ("fn_0x2*", vec![]), ("helper", vec![0x100, 0x300])] {
            let found: Vec<u64> = image.functions_matching(pattern).iter().map(|function| function.addr.0).collect();
            assert_eq!(found, expected, "{pattern}");
        }
        assert_eq!(image.functions_matching("*").len(), 6);
    }
}
