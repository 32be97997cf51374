//! How far loops go, beside how far they went: compiled loops run with code at their headers that reads counter and bound
//! in every pass, and each time the passes that are said to come are those that came.
//!
//! C, C++ and Fortran, unoptimised and optimised. A loop for which nothing is claimed is no fault, as long as most are claimed;
//! one claim too many or too few is. Next: `src/bound.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "bounds/source.rs"]
mod source;

use iced_x86::code_asm::*;
use object::{Object, ObjectSymbol, ObjectSymbolTable};
use source::Sources;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Analysis, Care, CodeRange, CodeSource, ControlFlow, ExitTests, FunctionCode, HowFar, JumpForm, Look, NoBound,
    PassPlace, PassesLeft, PatchSite, ProbeBytes, ProbePlace, ReadablePlace, Refusal, Returned, SiteKind, Surroundings,
    WriteProbe, analyse, build_probe_island, encode_near_jump, exit_tests, how_far, keeps_address, leaves_alone,
    loop_bound, loop_sites, passes_left, passes_own, writes_or_lends, writes_through,
};

/// The loops are run with these.
const LENGTHS: [i32; 6] = [0, 1, 2, 7, 12, 40];
/// Bytes that are pushed below the registers, and the red zone: from where they lie to the program's stack.
const SAVED_BYTES: u64 = 16 * 8 + 8 + 128;

/// The loops whose tests are looked at are run with this,
const LOOKED_LENGTH: i32 = 40;
/// from so many passes on.
const LOOKS_MIN: usize = 5;

/// Functions that have the loop of the one whose name follows.
const POINTED: &str = "pointed_";

/// A loop as it runs, and what was said in each of its passes.
struct Watched {
    places: [Option<ReadablePlace>; 3],
    /// Iterations that were made, if that is counted.
    made: *const i64,
    read: Vec<([u64; 3], i64)>,
    /// The tests by which the loop is left, and looks at them.
    tests: Option<ExitTests>,
    looks: Vec<Look>,
}

// SAFETY: the counter is the library's, which stays.
unsafe impl Send for Watched {}

/// One test watches at a time.
static TURN: Mutex<()> = Mutex::new(());
static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

/// The facts of a function of a library.
struct Known<'a> {
    library: &'a Library,
    entry: ProcAddr,
    calls: Vec<ProcAddr>,
    is_fortran: bool,
}

impl Surroundings for Known<'_> {
    fn writes(&self, target: ProcAddr, register: u8, bytes: Range<i64>) -> Option<bool> {
        let at = target.0.wrapping_sub(self.library.bias);
        let mut further = |target, register, bytes| self.writes(target, register, bytes);
        self.library.analysed(at, |code, analysis| {
            writes_through(code, analysis, &ControlFlow::of(analysis), (register, &bytes), &mut further)
        })?
    }

    fn variable(&self, address: ProcAddr, bytes: u32) -> Option<Range<ProcAddr>> {
        let is_it = |one: &&Range<ProcAddr>| one.start <= address && address + u64::from(bytes) <= one.end;
        let variable = self.library.variables.iter().find(is_it)?.clone();
        let keeps = |at: u64| {
            self.library.analysed(at, |code, analysis| {
                writes_or_lends(code, analysis, &variable)
                    && keeps_address(code, analysis, &ControlFlow::of(analysis), &variable, self)
            })
        };
        if self.library.functions.iter().any(|(_, at, _)| keeps(*at) == Some(true)) {
            return None;
        }
        let (mut reached, mut work) = (BTreeSet::new(), self.calls.clone());
        while let Some(target) = work.pop() {
            if !reached.insert(target) {
                continue;
            }
            let (writes, calls) = self
                .library
                .analysed(target.0.wrapping_sub(self.library.bias), |code, analysis| {
                    let calls = ControlFlow::of(analysis).calls.iter().filter_map(|call| call.target).collect();
                    (writes_or_lends(code, analysis, &variable), calls)
                })
                .unwrap_or((false, Vec::new()));
            if writes {
                return None;
            }
            work.extend(calls);
        }
        Some(variable)
    }

    fn leaves_alone(&self, target: ProcAddr, register: u8, (bytes, care): (Range<i64>, Care)) -> Option<Returned> {
        let seen = self.library.analysed(target.0.wrapping_sub(self.library.bias), |code, analysis| {
            leaves_alone(code, analysis, &ControlFlow::of(analysis), (register, &bytes, care), self)
        });
        seen.unwrap_or_else(|| care.of_unknown(&bytes))
    }

    fn is_own_of_callers(&self, register: u8, bytes: Range<i64>) -> bool {
        let calls = self.library.functions.iter().filter_map(|(_, at, _)| {
            self.library.analysed(*at, |code, analysis| {
                let flow = ControlFlow::of(analysis);
                let mut calls = flow.calls.iter().filter(|call| call.target == Some(self.entry));
                let is_own = |call: ProcAddr| passes_own(code, analysis, &flow, (call, register, &bytes), self);
                calls.clone().next().map(|_| calls.all(|call| is_own(call.at)))
            })?
        });
        let calls: Vec<bool> = calls.collect();
        !calls.is_empty() && calls.into_iter().all(|is_own| is_own)
    }

    fn keeps_counters(&self) -> bool {
        self.is_fortran
    }

    fn source(&self, at: ProcAddr) -> Option<CodeSource> {
        self.library.sources.at(at.0.wrapping_sub(self.library.bias))
    }

    fn imported(&self, target: ProcAddr) -> Option<String> {
        self.library.imported(target)
    }

    fn returns_twice(&self, target: ProcAddr) -> bool {
        self.library.imported(target).is_some_and(|name| name == "_setjmp")
    }
}

/// The slot that a jump at the target goes through.
fn slot_of(ProcAddr(target): ProcAddr) -> Option<u64> {
    let bytes = memory(target, 16);
    let jump = bytes.windows(2).position(|two| two == [0xff, 0x25])?;
    let distance = i32::from_le_bytes(bytes.get(jump + 2..jump + 6)?.try_into().ok()?);
    Some((target + jump as u64 + 6).wrapping_add_signed(distance.into()))
}

/// Runs at a header, with the registers in the order of their numbers.
extern "C" fn record(registers: *const u64) {
    let mut watched = WATCHED.lock().expect("no test panics here");
    let Some(watched) = watched.as_mut() else { return };
    let held = |place: Option<ReadablePlace>| place.map_or(0, |place| read(registers, place));
    let read = watched.places.map(held);
    // SAFETY: it is the library's counter, which nobody writes to meanwhile.
    let made = if watched.made.is_null() { 0 } else { unsafe { watched.made.read_volatile() } };
    watched.read.push((read, made));
    if let Some(tests) = &watched.tests {
        let register = |number: u8| Some(read_register(registers, number));
        watched.looks.push(tests.look(watched.read.len() as u64, &register, &word_if_there));
    }
}

fn read_register(registers: *const u64, number: u8) -> u64 {
    self::read(registers, ReadablePlace::Register(number))
}

fn read(registers: *const u64, place: ReadablePlace) -> u64 {
    // SAFETY: the code below saves 16 registers there.
    let register = |number: u8| unsafe { *registers.add(usize::from(number)) };
    let stack = registers as u64 + SAVED_BYTES;
    let register = |number: u8| if number == 4 { stack } else { register(number) };
    let (address, bytes) = match place {
        ReadablePlace::Register(number) => return register(number),
        ReadablePlace::Frame { register: number, offset, bytes } => {
            (register(number).wrapping_add_signed(offset), bytes)
        }
        ReadablePlace::Behind { register: number, slot, offset, bytes } => {
            let slot = register(number).wrapping_add_signed(slot);
            // SAFETY: the slot holds the address of an object of the function's caller.
            (unsafe { (slot as *const u64).read_unaligned() }.wrapping_add_signed(offset), bytes)
        }
        ReadablePlace::Fixed { address, bytes } => (address.0, bytes),
    };
    match bytes {
        // SAFETY: the loop itself reads these bytes in each pass.
        4 => unsafe { u64::from((address as *const u32).read_unaligned()) },
        // SAFETY: as above.
        _ => unsafe { (address as *const u64).read_unaligned() },
    }
}

/// Code that hands the registers to `record` and changes nothing.
fn recording() -> Vec<u8> {
    let mut a = CodeAssembler::new(64).expect("64 bits are supported");
    let all = [r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rsp, rbx, rdx, rcx, rax];
    let mut put = || -> Result<(), iced_x86::IcedError> {
        a.lea(rsp, qword_ptr(rsp - 128))?;
        a.pushfq()?;
        all.into_iter().try_for_each(|register| a.push(register))?;
        a.mov(rdi, rsp)?;
        a.mov(rbp, rsp)?;
        a.and(rsp, -16)?;
        a.sub(rsp, 512)?;
        a.fxsave64(ptr(rsp))?;
        a.mov(rax, record as *const () as u64)?;
        a.call(rax)?;
        a.fxrstor64(ptr(rsp))?;
        a.mov(rsp, rbp)?;
        for register in all.into_iter().rev() {
            // Its own value is what it has when all others are back.
            if register == rsp { a.lea(rsp, qword_ptr(rsp + 8))? } else { a.pop(register)? }
        }
        a.popfq()?;
        a.lea(rsp, qword_ptr(rsp + 128))
    };
    put().expect("the operands fit");
    a.assemble(0).expect("nothing in it depends on its place")
}

/// A library of loops in this process.
struct Library {
    bias: u64,
    functions: Vec<(String, u64, u64)>,
    /// By slots of addresses, functions of other libraries.
    imports: BTreeMap<u64, String>,
    /// Empty without debugging information.
    sources: Sources,
    /// Addresses of its variables.
    variables: Vec<Range<ProcAddr>>,
    island: ProcAddr,
    /// Where it counts its iterations.
    made: *const i64,
}

impl Library {
    fn load(path: &Path) -> Library {
        let file = std::fs::read(path).expect("it was compiled");
        let elf = object::File::parse(&*file).expect("an ELF file");
        let name = CString::new(path.to_str().expect("a plain name")).expect("no zero in it");
        // SAFETY: the library has no initialisers of its own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} is loaded", path.display());
        let symbols = elf.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.size() > 0);
        let is_code = |symbol: &object::Symbol<'_, '_>| symbol.kind() == object::SymbolKind::Text;
        let functions: Vec<(String, u64, u64)> = symbols
            .filter(is_code)
            .map(|symbol| (symbol.name().expect("a name").to_owned(), symbol.address(), symbol.size()))
            .collect();
        let first = CString::new(functions[0].0.as_str()).expect("no zero in it");
        // SAFETY: the handle is open.
        let bias = unsafe { libc::dlsym(handle, first.as_ptr()) } as u64 - functions[0].1;
        // SAFETY: the handle is open.
        let made = unsafe { libc::dlsym(handle, c"steps_made".as_ptr()) } as *const i64;
        let is_data = |symbol: &object::Symbol<'_, '_>| symbol.kind() == object::SymbolKind::Data && symbol.size() > 0;
        let all = elf
            .symbols()
            .filter(is_data)
            .map(|symbol| ProcAddr(bias + symbol.address())..ProcAddr(bias + symbol.address() + symbol.size()));
        let variables = all.collect();
        let imports = imports_of(&elf).into_iter().map(|(slot, name)| (bias + slot, name)).collect();
        let sources = Sources::of(&elf);
        Library { bias, functions, imports, sources, variables, island: ProcAddr(island_near(bias)), made }
    }

    /// The name of the function of another library that is called there.
    fn imported(&self, target: ProcAddr) -> Option<String> {
        let name = self.imports.get(&slot_of(target)?)?;
        let is_own = self.functions.iter().any(|(own, ..)| own == name);
        (!is_own).then(|| name.clone())
    }

    /// True of functions that never return.
    fn never_returns(&self, target: ProcAddr) -> bool {
        let ends = |name: String| name.contains("__throw_") || ["__assert_fail", "exit"].contains(&name.as_str());
        self.imported(target).is_some_and(ends)
    }

    fn analysed<T>(&self, at: u64, then: impl FnOnce(&FunctionCode<'_>, &Analysis) -> T) -> Option<T> {
        let (_, at, size) = self.functions.iter().find(|function| function.1 == at)?;
        let (entry, code) = (ProcAddr(self.bias + at), memory(self.bias + at, *size));
        let range = CodeRange { addr: entry, bytes: &code, after: &[] };
        let code = FunctionCode { entry, ranges: vec![range], ..FunctionCode::default() };
        Some(then(&code, &analyse(&code, &(), &()).ok()?))
    }

    /// Runs a function with a probe at its loop; what was read in each pass.
    fn run(
        &self,
        site: &PatchSite,
        (entry, bytes): (ProcAddr, &[u8]),
        places: [Option<ReadablePlace>; 3],
        (start, length): (ProcAddr, i32),
    ) -> Vec<([u64; 3], i64)> {
        let jump = self.write_island(site, bytes, entry);
        let watched = Watched { places, made: self.made, read: Vec::new(), tests: None, looks: Vec::new() };
        *WATCHED.lock().expect("no panic") = Some(watched);
        write(site.at, &jump);
        // SAFETY: it is a function of the library that takes a number.
        unsafe { std::mem::transmute::<u64, extern "C" fn(i32)>(start.0)(length) };
        write(entry, bytes);
        WATCHED.lock().expect("no panic").take().map(|watched| watched.read).unwrap_or_default()
    }

    /// Compares how far each outermost loop of a function is said to be with the iterations it makes.
    fn check_how_far(&self, (name, at, size): (&str, u64, u64), is_fortran: bool) -> Said {
        // Some have their loop in a function that is given a place.
        let start = ProcAddr(self.bias + at);
        let pointed = self.functions.iter().find(|other| other.0.strip_prefix(POINTED) == Some(name));
        let (at, size) = pointed.map_or((at, size), |(_, at, size)| (*at, *size));
        let (entry, bytes) = (ProcAddr(self.bias + at), memory(self.bias + at, size));
        let range = CodeRange { addr: entry, bytes: &bytes, after: &[] };
        let code = FunctionCode { entry, ranges: vec![range], ..FunctionCode::default() };
        let Ok(analysis) = analyse(&code, &(), &()) else { return Said::Unseen };
        let flow = ControlFlow::ending_at(&analysis, &|target| self.never_returns(target)).rejoined(&code, &analysis);
        let outermost = flow.loops.iter().filter(|found| found.depth() == 1);
        let said = outermost.map(|found| {
            let Ok((sites, _)) = loop_sites(&code, &analysis, &flow, found, &|_| true) else { return Said::Unseen };
            let [site @ PatchSite { kind: SiteKind::At(address), jump: JumpForm::Near5, .. }] = &sites[..] else {
                return Said::Unseen;
            };
            let calls = flow.calls.iter().filter(|call| found.blocks.binary_search(&call.block).is_ok());
            let calls = calls.filter_map(|call| call.target).collect();
            let how = match how_far(
                &code,
                &analysis,
                (&flow, found),
                *address,
                &Known { library: self, entry, calls, is_fortran },
            ) {
                Ok(how) => how,
                Err(why) => return Said::Nothing(why.to_string()),
            };
            let mut said = Said::Unseen;
            for length in LENGTHS {
                let before = self.made();
                let read = self.run(site, (entry, &bytes), how.places(), (start, length));
                let (made, is_of_steps) = (self.made() - before, |at: &i64| at - before);
                let ends = read.first().zip(read.last()).map_or(0, |(first, last)| last.1 - first.1);
                // Else it is another loop of the function.
                if made > 0 && ends * 2 >= made && read.len() > 1 {
                    let read: Vec<([u64; 3], i64)> = read.iter().map(|(read, at)| (*read, is_of_steps(at))).collect();
                    let next = check_passes(&format!("{name}({length})"), &how, &read, made);
                    let next = if how.is_sure() { next } else { likely(next) };
                    said = if matches!(said, Said::Wrong(_) | Said::Likely(false)) { said } else { next };
                }
            }
            said
        });
        said.min().unwrap_or(Said::Unseen)
    }

    /// Looks at the tests of each outermost loop of a function in all of its passes: of how many passes the ones to come were told, of
    /// how many the most of them, and those that were told wrongly.
    fn check_looks(&self, (name, at, size): (&str, u64, u64)) -> ([u64; 2], Vec<String>) {
        let (entry, bytes) = (ProcAddr(self.bias + at), memory(self.bias + at, size));
        let range = CodeRange { addr: entry, bytes: &bytes, after: &[] };
        let code = FunctionCode { entry, ranges: vec![range], ..FunctionCode::default() };
        let Ok(analysis) = analyse(&code, &(), &()) else { return ([0; 2], Vec::new()) };
        let flow = ControlFlow::ending_at(&analysis, &|target| self.never_returns(target)).rejoined(&code, &analysis);
        let (mut told, mut wrong) = ([0; 2], Vec::new());
        for found in flow.loops.iter().filter(|found| found.depth() == 1) {
            let Ok((sites, _)) = loop_sites(&code, &analysis, &flow, found, &|_| true) else { continue };
            let [site @ PatchSite { kind: SiteKind::At(address), jump: JumpForm::Near5, .. }] = &sites[..] else {
                continue;
            };
            let known = Known { library: self, entry, calls: Vec::new(), is_fortran: false };
            let tests = exit_tests(&code, &analysis, (&flow, found), *address, &known);
            let Some(tests) = tests else { continue };
            let has_others = tests.has_others();
            let jump = self.write_island(site, &bytes, entry);
            let places = [None; 3];
            let watched = Watched { places, made: self.made, read: Vec::new(), tests: Some(tests), looks: Vec::new() };
            *WATCHED.lock().expect("no panic") = Some(watched);
            write(site.at, &jump);
            // SAFETY: it is a function of the library that takes a number.
            unsafe { std::mem::transmute::<u64, extern "C" fn(i32)>(entry.0)(LOOKED_LENGTH) };
            write(entry, &bytes);
            let looks = WATCHED.lock().expect("no panic").take().map(|watched| watched.looks).unwrap_or_default();
            for end in LOOKS_MIN..looks.len() {
                let (left, came) = (passes_left(&looks[..end], has_others), (looks.len() - end) as u64);
                if let Some(left) = &left {
                    told[usize::from(left.is_at_most)] += 1;
                }
                let holds = |left: &PassesLeft| came <= left.most && (left.is_at_most || left.least <= came);
                if let Some(left) = left.filter(|left| !holds(left)) {
                    wrong.push(format!("{name} after {end}: {left:?}, {came} came"));
                }
            }
        }
        (told, wrong)
    }

    fn made(&self) -> i64 {
        // SAFETY: it is the library's counter, which nobody writes to meanwhile.
        unsafe { self.made.read_volatile() }
    }

    /// Runs a function's outermost loop for all lengths; the number of passes, if all of them were foretold.
    fn check(&self, name: &str, at: u64, size: u64) -> Result<u64, String> {
        let (entry, bytes) = (ProcAddr(self.bias + at), memory(self.bias + at, size));
        let range = CodeRange { addr: entry, bytes: &bytes, after: &[] };
        let code = FunctionCode { entry, ranges: vec![range], ..FunctionCode::default() };
        let analysis = analyse(&code, &(), &()).map_err(|refusal| refusal.to_string())?;
        let flow = ControlFlow::of(&analysis);
        let found = flow.loops.iter().find(|found| found.depth() == 1).ok_or("no loop was left of it")?;
        let bound = loop_bound(&code, &analysis, &flow, found).map_err(|why: NoBound| why.to_string())?;
        let (sites, place) =
            loop_sites(&code, &analysis, &flow, found, &|_| true).map_err(|refusal| refusal.to_string())?;
        if place != PassPlace::Header || sites[0].jump != JumpForm::Near5 {
            return Err(format!("it is seen elsewhere: {place:?}"));
        }
        let mut passes = 0;
        for length in LENGTHS {
            let places = [bound.counter.place, bound.bound.place, None];
            let read = self.run(&sites[0], (entry, &bytes), places, (entry, length));
            let said: Vec<Option<u64>> = read.iter().map(|(read, _)| bound.passes_after(read[0], read[1])).collect();
            let came: Vec<Option<u64>> = (0..said.len() as u64).rev().map(Some).collect();
            let is_so = if bound.has_other_exits {
                said.iter().zip(&came).all(|(said, came)| said >= came)
            } else {
                said == came
            };
            assert!(is_so, "{name}({length}) of {bound:?}: said {said:?}, came {came:?}");
            passes += came.len() as u64;
        }
        Ok(passes)
    }

    fn write_island(&self, site: &PatchSite, bytes: &[u8], entry: ProcAddr) -> Vec<u8> {
        let original = &bytes[(site.displaced.start - entry) as usize..(site.displaced.end - entry) as usize];
        let code = recording();
        let probe = |place: ProbePlace| {
            Ok(ProbeBytes { bytes: [vec![0x90; place.room_before], code.clone()].concat(), entry: 0 })
        };
        let mut enter: Vec<Box<WriteProbe<'_, Refusal>>> = vec![Box::new(probe)];
        let island = build_probe_island(site, original, self.island, &mut enter, &mut []).expect("it is near");
        write(self.island, &island.bytes);
        encode_near_jump(site.at, self.island + island.entry as u64).expect("it is near").to_vec()
    }
}

/// The kind of claim made in the last pass of a loop, the best first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    /// A claim is not true.
    Wrong(String),
    /// How many were made, how many come, and whether it may end before.
    Something { done: Option<u64>, remaining: Option<u64>, may_end_before: bool },
    /// If nobody else changes counter and bound; whether that would have been true.
    Likely(bool),
    /// Not on those ways.
    Nothing(String),
    /// It can't be run with a probe here.
    Unseen,
}

/// The verdict where other code may change counter or bound.
fn likely(said: Said) -> Said {
    match said {
        Said::Wrong(_) => Said::Likely(false),
        Said::Something { remaining: Some(_), may_end_before: false, .. } => Said::Likely(true),
        Said::Something { .. } => Said::Nothing("it may end before".to_owned()),
        other => other,
    }
}

/// Compares what is said in each pass with how many iterations were made before it, and in all.
fn check_passes(name: &str, how: &HowFar, read: &[([u64; 3], i64)], all: i64) -> Said {
    let mut said = Said::Nothing("its passes don't agree".to_owned());
    let whole =
        |(read, made): &([u64; 3], i64)| Some((how.with_bound(*read, &|at, bytes| Some(word(at, bytes)))?, *made));
    let read: Vec<([u64; 3], i64)> = read.iter().filter_map(whole).collect();
    for (first, (latest, made)) in read.iter().zip(&read[1..]).filter(|(one, other)| how.agree(one.0, other.0, 1)) {
        let (done, remaining, may_end_before) = (how.done(*latest), how.remaining(*latest), how.may_end_before());
        let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        // The probe may stand before the call that is counted, or behind it.
        let is_done = number(done).is_none_or(|done| (made - 1..=*made).contains(&done));
        let total = number(done).zip(number(remaining)).map(|(done, remaining)| done + remaining);
        let is_total = total.is_none_or(|total| if may_end_before { total >= all } else { total == all });
        let left = all - made;
        let is_left = number(remaining).is_none_or(|remaining| match may_end_before {
            true => remaining >= left,
            false => (left..=left + 1).contains(&remaining),
        });
        if !(is_done && is_total && is_left) {
            let said = format!("{name} after {made} of {all}: {done:?} done, {remaining:?} come");
            return Said::Wrong(format!("{said}, of {how:?} at {first:?}, {latest:?}"));
        }
        said = Said::Something { done, remaining, may_end_before };
    }
    said
}

/// By slots of addresses in the file, the functions that the loader puts there.
fn imports_of(elf: &object::File<'_>) -> BTreeMap<u64, String> {
    let names = elf.dynamic_symbol_table().expect("a library has one");
    let relocations = elf.dynamic_relocations().into_iter().flatten();
    let named = relocations.filter_map(|(slot, relocation)| {
        let object::RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
        Some((slot, names.symbol_by_index(symbol).ok()?.name().ok()?.to_owned()))
    });
    named.collect()
}

/// Memory that a loop of ours goes by.
fn word(at: u64, bytes: u32) -> u64 {
    memory(at, bytes.into()).iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Memory of this process that may not be there.
fn word_if_there(at: u64, bytes: u32) -> Option<u64> {
    let mut word = [0_u8; 8];
    let size = bytes as usize;
    let into = libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: size };
    let from = libc::iovec { iov_base: at as *mut c_void, iov_len: size };
    // SAFETY: the word is as long, and the kernel checks the other address.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &into, 1, &from, 1, 0) };
    (read == size as isize).then(|| u64::from_le_bytes(word))
}

fn memory(at: u64, size: u64) -> Vec<u8> {
    // SAFETY: the symbol table says so.
    unsafe { std::slice::from_raw_parts(at as *const u8, size as usize) }.to_vec()
}

/// Writes code, which nobody runs meanwhile.
fn write(ProcAddr(at): ProcAddr, bytes: &[u8]) {
    let page = at & !0xfff;
    let length = (at + bytes.len() as u64 - page) as usize;
    // SAFETY: these pages hold the library's code, or the island.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        assert_eq!(libc::mprotect(page as *mut c_void, length, protection), 0, "code may be written");
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
    }
}

/// A page near a library.
fn island_near(bias: u64) -> u64 {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let page = unsafe { libc::mmap((bias - (1 << 24)) as *mut c_void, 4096, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED, "executable memory is allowed");
    page as u64
}

/// A library of one source; none if the compiler is not there.
fn compiled(compiler: &str, [source, called]: [&str; 2], options: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bounds");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("bounds-{compiler}{}-{source}.so", options.replace(' ', "")));
    let mut command = Command::new(compiler);
    // Modules of Fortran are written to where it runs.
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    if compiler == "gfortran" {
        command.arg("-ffree-line-length-none");
    }
    command.args(options.split(' ')).args(["-w", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o"]).arg(&output);
    command.args([source, called].map(|source| folder.join(source)));
    let Ok(made) = command.output() else {
        println!("SKIPPED: {compiler} is not installed");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(output)
}

/// The names by which clang is called.
const CLANG: [&str; 2] = ["clang", "clang-14"];
const CLANG_PP: [&str; 2] = ["clang++", "clang++-14"];

/// The first of several compilers that is there, else the first.
fn present<'a>(names: &[&'a str]) -> &'a str {
    let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    names.iter().find(runs).unwrap_or(&names[0])
}

#[test]
fn passes_to_come_are_those_that_come() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut claimed, mut possible) = (0, 0);
    for (compiler, source) in [("gcc", "loops.c"), (present(&CLANG), "loops.c"), ("gfortran", "loops.f90")] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let Some(library) = compiled(compiler, [source, "mark.c"], level).map(|path| Library::load(&path)) else {
                continue;
            };
            for (name, at, size) in library.functions.iter().filter(|(name, ..)| name != "mark") {
                let seen = library.check(name, *at, *size);
                let has_counter = !matches!(name.as_str(), "without_a_counter" | "moved_by_the_body");
                println!("{compiler} {level} {name}: {seen:?}");
                possible += u64::from(has_counter);
                claimed += u64::from(has_counter && seen.is_ok_and(|passes| passes > 0));
            }
        }
    }
    assert!(claimed * 10 >= possible * 8 && possible > 50, "{claimed} of {possible} loops that count are claimed");
}

#[test]
fn how_far_a_loop_is_said_to_be_is_how_far_it_is() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const ALL: &[&str] = &["-O0", "-O1", "-O2", "-O3"];
    const TWO: &[&str] = &["-O0", "-O2"];
    let (clang, clang_pp) = (present(&CLANG), present(&CLANG_PP));
    let builds = [
        ("gcc", "c", ALL),
        (clang, "c", TWO),
        ("g++", "cpp", TWO),
        (clang_pp, "cpp", &TWO[1..]),
        ("gfortran", "f90", ALL),
    ];
    let (mut claimed, mut whole, mut possible, mut wrong) = (0, 0, 0, Vec::new());
    for (compiler, kind, levels) in builds {
        for level in levels {
            let sources = [&format!("far.{kind}"), "far_mark.c"];
            let Some(library) = compiled(compiler, sources, level).map(|path| Library::load(&path)) else { continue };
            let (of_all, told, known) = told_of(&library, &format!("{compiler} {level}"), kind == "f90", &mut wrong);
            println!("{compiler} {level}: {told} of {of_all}, {known} from beginning to end");
            (claimed, whole, possible) = (claimed + told, whole + known, possible + of_all);
        }
    }
    assert!(wrong.is_empty(), "{} wrong claims: {wrong:#?}", wrong.len());
    assert!(claimed * 10 >= possible * 8 && possible > 100, "{claimed} of {possible} plain loops are claimed");
    assert!(whole * 4 >= possible * 3, "of {whole} of {possible} it is known how many are done and how many come");
}

#[test]
fn looks_at_tests_tell_the_passes_that_come() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut functions, mut known, mut bounded, mut told, mut wrong) = (0, 0, 0, 0, Vec::new());
    for (compiler, kind) in [("gcc", "c"), ("g++", "cpp"), ("gfortran", "f90")] {
        for level in ["-O0", "-O2", "-O3"] {
            let sources = [&format!("far.{kind}"), "far_mark.c"];
            let Some(library) = compiled(compiler, sources, level).map(|path| Library::load(&path)) else { continue };
            let is_one = |name: &str| name.starts_with("plain_") || name.starts_with("exits_");
            for (name, at, size) in library.functions.iter().filter(|(name, ..)| is_one(name)) {
                println!("{compiler} {level} {name}");
                let ([passes, at_most], amiss) = library.check_looks((name, *at, *size));
                println!("{compiler} {level} {name}: {passes} told, {at_most} at most {amiss:?}");
                functions += 1;
                known += u64::from(passes > 0);
                bounded += u64::from(at_most > 0);
                told += passes + at_most;
                wrong.extend(amiss.into_iter().map(|said| format!("{compiler} {level} {said}")));
            }
        }
    }
    println!("{told} passes of {known} of {functions} functions told, and {bounded} at most, {} wrongly", wrong.len());
    assert!(bounded > 20, "of {bounded} functions the most is told");
    assert!(known * 2 > functions && functions > 100, "{known} of {functions} functions are told");
    assert!(wrong.is_empty(), "{} of {told}: {wrong:#?}", wrong.len());
}

#[test]
fn loops_that_end_by_what_a_function_says_tell_the_passes_that_come() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (functions, known) = looks_told("asked", &["c", "cpp", "f90"]);
    // Others have no room for a long jump at their headers.
    assert!(known * 2 > functions && functions > 100, "{known} of {functions} functions are told");
}

#[test]
fn loops_that_end_by_a_flag_tell_the_passes_that_come() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (functions, known) = looks_told("flags", &["c", "f90"]);
    assert!(known * 2 > functions && functions > 60, "{known} of {functions} functions are told");
}

/// Builds of these sources that are to be told, and of how many looks told something; none may be told wrongly.
fn looks_told(source: &str, kinds: &[&str]) -> (u64, u64) {
    let (mut functions, mut known, mut told, mut wrong) = (0, 0, 0, Vec::new());
    let compilers = [("gcc", "c"), (present(&CLANG), "c"), ("g++", "cpp"), ("gfortran", "f90")];
    for (compiler, kind) in compilers.into_iter().filter(|(_, kind)| kinds.contains(kind)) {
        for level in ["-O0", "-O1", "-O2", "-O3", "-O2 -fstack-protector-all", "-O2 -mavx"] {
            let sources = [&format!("{source}.{kind}"), "far_mark.c"];
            // The other languages say so at each function.
            let level = &[level, if kind == "f90" { " -fno-inline" } else { "" }].concat();
            let Some(library) = compiled(compiler, sources, level).map(|path| Library::load(&path)) else { continue };
            let is_one = |name: &str| name.starts_with("asked_") || name.starts_with("other_");
            for (name, at, size) in library.functions.iter().filter(|(name, ..)| is_one(name)) {
                let ([passes, at_most], amiss) = library.check_looks((name, *at, *size));
                println!("{compiler} {level} {name}: {passes} told, {at_most} at most {amiss:?}");
                functions += u64::from(name.starts_with("asked_"));
                known += u64::from(name.starts_with("asked_") && passes + at_most > 0);
                told += passes + at_most;
                wrong.extend(amiss.into_iter().map(|said| format!("{compiler} {level} {said}")));
            }
        }
    }
    println!("{told} passes of {known} of {functions} functions told, {} wrongly", wrong.len());
    assert!(wrong.is_empty(), "{} of {told}: {wrong:#?}", wrong.len());
    (functions, known)
}

#[test]
fn passes_that_compilers_move_out_of_a_loop_are_not_forgotten() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut wrong, mut known, mut possible) = (Vec::new(), [0, 0], [0, 0]);
    for compiler in ["gcc", present(&CLANG)] {
        for level in ["-O0", "-O1", "-O2", "-O3", "-O2 -fpeel-loops"] {
            for (at, options) in [level.to_owned(), format!("{level} -g -DTWINS")].into_iter().enumerate() {
                let built = compiled(compiler, ["copied.c", "far_mark.c"], &options);
                let Some(library) = built.map(|path| Library::load(&path)) else { continue };
                let (of_all, _, whole) = told_of(&library, &format!("{compiler} {options}"), false, &mut wrong);
                println!("{compiler} {options}: {whole} of {of_all} from beginning to end");
                known[at] += whole;
                possible[at] += of_all;
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong claims: {wrong:#?}", wrong.len());
    let [_, with_blocks] = known;
    assert!(with_blocks * 10 >= possible[1] * 9 && possible[1] > 20, "{known:?} of {possible:?}");
}

/// Plain loops of a library, of how many something is told, and of how many all of it.
fn told_of(library: &Library, build: &str, is_fortran: bool, wrong: &mut Vec<String>) -> (u64, u64, u64) {
    let (mut all, mut told, mut known) = (0, 0, 0);
    for (name, at, size) in &library.functions {
        let kind = name.split('_').next().unwrap_or_default();
        if !["plain", "exits", "other"].contains(&kind) {
            continue;
        }
        let said = library.check_how_far((name, *at, *size), is_fortran);
        println!("{build} {name}: {said:?}");
        let is_open = matches!(said, Said::Something { remaining: Some(_), may_end_before: false, .. });
        if matches!(said, Said::Wrong(_)) || (kind == "exits" && is_open) {
            wrong.push(format!("{build} {name}: {said:?}"));
        }
        let is_told =
            matches!(said, Said::Something { remaining: Some(_), .. } | Said::Something { done: Some(_), .. });
        all += u64::from(kind == "plain" && said != Said::Unseen);
        told += u64::from(kind == "plain" && is_told);
        let is_known = matches!(said, Said::Something { remaining: Some(_), done: Some(_), may_end_before: false });
        known += u64::from(kind == "plain" && is_known);
    }
    (all, told, known)
}
