//! Where calls come from: what the routine in the ranks is to do at each return address, and what it found.
//!
//! A path leads from an MPI function through bindings, wrappers and system libraries to the first function of the
//! program's own. For each return address on the way, the unwind tables are asked once on this machine how the caller is
//! found; the answer is a rule in the memory shared with the rank, and from then on the routine takes that step by
//! itself. A path's number is the same on all ranks: a hash of files and offsets.
//!
//! A path that was met before its addresses had rules is too short. If one only is known by now that begins so, it was
//! that one; else it is told apart from none, and what came before it is better forgotten.
//!
//! A path that ends in CPython goes on by a line of the program in Python, where that can be read.
//!
//! Next: `owners` for whose a function is, `observe` for the calls themselves, `places` for what people read.

use super::owners::{Owner, Owners, is_interpreter};
use super::python::{Interpreter, PythonPlace};
use super::team::Member;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Relaxed, Release};
use trimtab_os::{MappingTable, Memory, monotonic_ns, ticks};
use trimtab_session::{ImageCache, Modules};
use trimtab_stub::layout::{PATH_ADDRESSES_MAX, PATH_BIT, checksum, python, step};
use trimtab_stub::view::View;
use trimtab_symbols::{CallerRules, FrameKind, KEPT_REGISTERS, Kept, caller_rules};
use trimtab_types::{FileAddr, ProcAddr};

/// Registers in DWARF's numbering.
const STACK_POINTER: u16 = 7;
const FRAME_POINTER: u16 = 6;
/// Where the return address lies from the frame base, in all code that compilers make.
const RETURN_ADDRESS: i64 = -8;
/// A process's map is read again for an unknown address at most this often.
const MAP_AGE_NS: u64 = 50_000_000;
/// Lines of Python are read for new paths at most this often.
const PYTHON_AGE_NS: u64 = 20_000_000;
/// Bytes of code before a return address that tell whether it is still the same.
const CODE_BYTES: u64 = 8;

/// The step to take at a return address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the program's own.
    Own,
    /// It is the interpreter's that runs the program, whose lines are known.
    Python,
    /// Its caller is found by this rule, packed as [`step::pack`] does.
    Up(u64),
    /// It is not the program's own, and who called it is not known: why, and of which function.
    Lost {
        /// For a reader.
        function: String,
        /// Part of a sentence.
        why: &'static str,
    },
}

impl Verdict {
    fn step(&self) -> u64 {
        match self {
            Verdict::Up(step) => *step,
            Verdict::Python => step::PYTHON,
            Verdict::Own | Verdict::Lost { .. } => step::END,
        }
    }
}

/// Facts about code on this machine, for all ranks that run it.
#[derive(Debug)]
pub(super) struct Rules {
    owners: Owners,
    verdicts: HashMap<(String, FileAddr), Verdict>,
}

impl Rules {
    pub(super) fn new(wrappers: &[String]) -> Self {
        Rules { owners: Owners::new(wrappers), verdicts: HashMap::new() }
    }

    /// The step to take at the return address `address` of a process.
    fn verdict(&mut self, modules: &mut Modules, address: u64, cache: &ImageCache) -> Verdict {
        let program = modules.modules.first().filter(|_| modules.has_program()).map(|module| module.path.clone());
        // Generated code is the program's own.
        let Some(module) = modules.reach(ProcAddr(address), cache) else { return Verdict::Own };
        // A call may be a function's last instruction: what it returns to is another one then.
        let call = FileAddr(module.bias.to_file(ProcAddr(address)).0.wrapping_sub(1));
        let key = (module.path.clone(), call);
        if let Some(known) = self.verdicts.get(&key) {
            return known.clone();
        }
        let is_program = program.is_some_and(|path| path == module.path);
        let image = &module.loaded.image;
        let verdict = match self.owners.of(module, is_program, call) {
            Owner::Program => Verdict::Own,
            _ if image.frame_at(call).is_some_and(|frame| frame.kind == FrameKind::Signal) => Verdict::Lost {
                function: super::places::function_name(module, call),
                why: "it was called as a signal handler",
            },
            Owner::Wrapper => up(module, call).map_or(Verdict::Own, Verdict::Up),
            Owner::Foreign => up(module, call).map_or_else(|why| lost(module, call, why), Verdict::Up),
        };
        self.verdicts.insert(key, verdict.clone());
        verdict
    }
}

/// The rule by which the caller of a function is found, or why there is none.
fn up(module: &trimtab_session::Module, call: FileAddr) -> Result<u64, &'static str> {
    let rules = caller_rules(module.loaded.file.bytes(), &module.loaded.image, call).ok().flatten();
    packed(&rules.ok_or("no unwind table says where its caller is")?)
}

fn lost(module: &trimtab_session::Module, call: FileAddr, why: &'static str) -> Verdict {
    Verdict::Lost { function: super::places::function_name(module, call), why }
}

/// A rule as the routine takes it.
fn packed(rules: &CallerRules) -> Result<u64, &'static str> {
    let base = rules.cfa;
    if base.is_in_memory {
        return Err("it aligns its stack, so that its unwind table needs a look into memory");
    }
    let kind = match base.register {
        STACK_POINTER => step::BY_STACK,
        FRAME_POINTER => step::BY_FRAME,
        _ => return Err("its unwind table counts from a register that is not kept"),
    };
    if rules.return_address != Some(RETURN_ADDRESS) {
        return Err("its unwind table says that nobody called it, or keeps the return address in an unusual place");
    }
    let offset = i32::try_from(base.offset).map_err(|_| "its frame is too large")?;
    let at = KEPT_REGISTERS.iter().position(|register| *register == FRAME_POINTER);
    let saved = match at.map_or(Kept::Lost, |at| rules.kept[at]) {
        Kept::Unchanged => step::UNCHANGED,
        Kept::At(place) if place < RETURN_ADDRESS && place % 8 == 0 => {
            u8::try_from(-place / 8).ok().filter(|words| *words != step::LOST).unwrap_or(step::LOST)
        }
        Kept::At(_) | Kept::AtRegister(..) | Kept::Lost => step::LOST,
    };
    Ok(step::pack(kind, offset, saved))
}

/// A verdict that a rank has been told.
#[derive(Clone, Debug)]
struct Told {
    verdict: Verdict,
    /// From when on the routine follows it.
    since_ticks: u64,
}

/// A call's site on all ranks, and whether it may be a part of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathSite {
    /// A hash of files and offsets.
    pub id: u64,
    /// The path ends where it goes on by now.
    pub is_cut: bool,
}

/// One process's call paths.
#[derive(Debug)]
pub(super) struct CallPaths {
    modules: Modules,
    maps_read_ns: u64,
    told: HashMap<u64, Told>,
    /// Each site, once it is known for good.
    known: HashMap<u64, KnownPath>,
    /// The interpreter that runs the program, or why its lines are not known; `None`: none was met.
    interpreter: Option<Result<Interpreter, String>>,
    /// When lines of Python were last read for paths that nobody has asked for yet.
    python_read_ns: u64,
    begun_ticks: u64,
    is_full: bool,
}

/// The path that a site stands for.
#[derive(Clone, Debug, Default)]
struct KnownPath {
    /// As the routine wrote it down.
    words: Vec<u64>,
    /// How many of the words are return addresses; the others are Python's.
    addresses: usize,
    /// The line of Python that they stand for.
    python: Option<PythonPlace>,
    /// Its hash, the same on all ranks.
    id: u64,
}

impl CallPaths {
    pub(super) fn of(member: &Member) -> Self {
        CallPaths {
            modules: member.modules.clone(),
            maps_read_ns: monotonic_ns(),
            told: HashMap::new(),
            known: HashMap::new(),
            interpreter: None,
            python_read_ns: 0,
            begun_ticks: ticks(),
            is_full: false,
        }
    }

    /// When it was first looked for paths.
    pub(super) fn begun_ticks(&self) -> u64 {
        self.begun_ticks
    }

    /// Gives rules to the return addresses that the process met without one. True if paths will be longer now.
    pub(super) fn learn(&mut self, member: &Member, rules: &mut Rules, cache: &ImageCache) -> bool {
        let mut leads_on = false;
        for address in member.inserted.view().unknown_addresses() {
            leads_on |= self.tell(member, address, rules, cache);
        }
        self.read_python(member, rules, cache);
        leads_on
    }

    /// Reads the lines of Python of paths that calls were recorded of, while the process is there to be asked.
    fn read_python(&mut self, member: &Member, rules: &mut Rules, cache: &ImageCache) {
        let is_due = monotonic_ns().saturating_sub(self.python_read_ns) > PYTHON_AGE_NS;
        if !is_due || !matches!(self.interpreter, Some(Ok(_))) {
            return;
        }
        self.python_read_ns = monotonic_ns();
        let view = member.inserted.view();
        for slot in view.slots() {
            for site in slot.path_sums().map(|sum| sum.site.load(Relaxed)).filter(|site| site & PATH_BIT != 0) {
                let words = if self.known.contains_key(&site) { None } else { view.path(site) };
                if let Some(words) = words {
                    let known = self.known_path(member, words, rules, cache);
                    self.known.insert(site, known);
                }
            }
        }
    }

    /// The same for an address that a call was seen to come from.
    fn tell(&mut self, member: &Member, address: u64, rules: &mut Rules, cache: &ImageCache) -> bool {
        if self.told.contains_key(&address) {
            return false;
        }
        self.renew_maps(member, address);
        let verdict = match rules.verdict(&mut self.modules, address, cache) {
            Verdict::Own if self.is_of_known_interpreter(member, address) => Verdict::Python,
            verdict => verdict,
        };
        let step = verdict.step();
        let code = if step == step::END { Some(0) } else { self.code_before(member, address) };
        let view = member.inserted.view();
        let is_told = code.is_some_and(|code| view.set_return_rule(address, step, code));
        // Code that can't be read any more, as of a program that has ended, takes no room.
        self.is_full |= code.is_some() && !is_told;
        self.told.insert(address, Told { verdict, since_ticks: ticks() });
        step != step::END
    }

    /// True if an address is an interpreter's whose lines are known.
    fn is_of_known_interpreter(&mut self, member: &Member, address: u64) -> bool {
        let path = self.modules.maps.at(address).map_or("", |mapping| mapping.path.as_str());
        if !is_interpreter(path.rsplit('/').next().unwrap_or_default()) {
            return false;
        }
        if self.interpreter.is_none() {
            let view = member.inserted.view();
            let pointers: Vec<u64> = view.slots().map(|slot| slot.slot.key.load(Relaxed)).collect();
            let found = Interpreter::of(&self.modules, member.process.pid, &pointers);
            if let Ok(interpreter) = &found {
                view.header().python_word.store(interpreter.word, Relaxed);
                view.header().python_key.store(interpreter.key, Release);
            }
            self.interpreter = Some(found);
        }
        self.interpreter.as_ref().is_some_and(Result::is_ok)
    }

    /// Why lines of Python are not known; `None`: nothing is against it.
    pub(super) fn why_no_python(&self) -> Option<&str> {
        self.interpreter.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// A library may have come since.
    fn renew_maps(&mut self, member: &Member, address: u64) {
        let is_old = monotonic_ns().saturating_sub(self.maps_read_ns) > MAP_AGE_NS;
        if is_old && self.modules.maps.at(address).is_none() {
            self.maps_read_ns = monotonic_ns();
            if let Ok(maps) = MappingTable::of(member.process.pid) {
                self.modules.maps = maps;
            }
        }
    }

    fn code_before(&self, member: &Member, address: u64) -> Option<u64> {
        let first = address.checked_sub(CODE_BYTES)?;
        let mapping = self.modules.maps.at(first)?;
        let is_readable = mapping.readable && mapping.end >= address;
        is_readable.then(|| Memory::open(member.process.pid).ok()?.read_word(first).ok()).flatten()
    }

    /// The name, on all ranks, of the site of a call at `enter_ticks`.
    pub(super) fn place(
        &mut self,
        member: &Member,
        (site, enter_ticks): (u64, u64),
        rules: &mut Rules,
        cache: &ImageCache,
    ) -> PathSite {
        let path = match self.known.get(&site) {
            Some(known) => known,
            None => {
                let Some(words) = member.inserted.view().path(site) else {
                    return PathSite { id: site, is_cut: true };
                };
                let known = self.known_path(member, words, rules, cache);
                self.known.entry(site).or_insert(known)
            }
        };
        let has_python = path.addresses < path.words.len();
        let last = path.addresses.checked_sub(1).and_then(|last| path.words.get(last));
        let goes_on = !has_python
            && last.and_then(|last| self.told.get(last)).is_some_and(|told| {
                matches!(told.verdict, Verdict::Up(_) | Verdict::Python) && enter_ticks < told.since_ticks
            });
        PathSite { id: path.id, is_cut: goes_on && (path.words.len() as u64) < PATH_ADDRESSES_MAX }
    }

    /// Gives the last address of a path a rule, and reads the line of Python that it ends with.
    fn known_path(&mut self, member: &Member, words: Vec<u64>, rules: &mut Rules, cache: &ImageCache) -> KnownPath {
        let end = words.len().checked_sub(python::WORDS as usize).filter(|end| *end > 0);
        let is_python =
            |end: &usize| self.told.get(&words[end - 1]).is_some_and(|told| told.verdict == Verdict::Python);
        let addresses = end.filter(is_python).unwrap_or(words.len());
        if let Some(last) = words[..addresses].last() {
            self.tell(member, *last, rules, cache);
        }
        let interpreter = self.interpreter.as_ref().and_then(|found| found.as_ref().ok());
        let place = match words[addresses..] {
            [code, instruction] => interpreter.and_then(|found| found.place(member.process.pid, code, instruction)),
            _ => None,
        };
        let id = self.id(&words[..addresses], place.as_ref());
        KnownPath { words, addresses, python: place, id }
    }

    fn id(&self, addresses: &[u64], python: Option<&PythonPlace>) -> u64 {
        let maps = &self.modules.maps;
        let hash = |name: &str, offset: u64| checksum(name.as_bytes()) ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let of_address = |address: u64| match maps.at(address) {
            Some(mapping) => {
                let name = mapping.path.rsplit('/').next().unwrap_or_default();
                hash(name, address - mapping.start + mapping.offset)
            }
            None => address,
        };
        let of_python = python.map(|place| hash(&format!("{} {}", place.file, place.function), place.offset));
        let parts = addresses.iter().map(|address| of_address(*address)).chain(of_python);
        parts.fold(0, |id: u64, part| id.rotate_left(17).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ part)
    }

    /// The site of the only path that is known to begin as that of a site that was cut.
    pub(super) fn only_longer(&self, view: View<'_>, site: u64, whole: &BTreeSet<u64>) -> Option<u64> {
        let begins = self.known.get(&site).map(|known| known.words.clone()).or_else(|| view.path(site))?;
        let is_longer = |longer: &&u64| {
            let words = self.known.get(longer).map(|known| known.words.as_slice()).unwrap_or_default();
            words.len() > begins.len() && words.starts_with(&begins)
        };
        let mut longer = whole.iter().filter(is_longer);
        let first = longer.next().copied();
        first.filter(|_| longer.next().is_none())
    }

    /// The return addresses of a site, innermost first, each with whether it is the program's own.
    pub(super) fn addresses(&self, site: u64) -> Vec<(u64, bool)> {
        let Some(known) = self.known.get(&site) else { return vec![(site, self.is_own(site))] };
        let has_line = known.python.is_some();
        let is_own = |address: &u64| !has_line && self.is_own(*address);
        known.words[..known.addresses].iter().map(|address| (*address, is_own(address))).collect()
    }

    fn is_own(&self, address: u64) -> bool {
        self.told.get(&address).is_none_or(|told| matches!(told.verdict, Verdict::Own | Verdict::Python))
    }

    /// The line of Python that a site ends with; `None`: it does not, or that is not known.
    pub(super) fn python_place(&self, site: u64) -> Option<&PythonPlace> {
        self.known.get(&site)?.python.as_ref()
    }

    /// A number of that line, the same for all calls from it.
    pub(super) fn python_line(&self, site: u64) -> Option<u64> {
        let place = self.python_place(site)?;
        Some(checksum(format!("{}:{:?}", place.file, place.line).as_bytes()))
    }

    /// A short name for the program's place that a site stands for: `solve+0x1f3`.
    pub(super) fn describe(&self, site: u64, cache: &ImageCache) -> String {
        if let Some(place) = self.python_place(site) {
            return format!("{}+{:#x}", place.function, place.offset);
        }
        let addresses = self.addresses(site);
        let own = addresses.iter().find(|(_, is_own)| *is_own).or(addresses.last());
        self.modules.describe(own.map_or(site, |(address, _)| *address), cache)
    }

    /// The modules as far as they were needed.
    pub(super) fn modules(&mut self) -> &mut Modules {
        &mut self.modules
    }

    /// Functions through which calls come that can't be followed to who made them, each with the reason.
    pub(super) fn lost(&self) -> BTreeSet<(String, &'static str)> {
        let lost = |told: &Told| match &told.verdict {
            Verdict::Lost { function, why } => Some((function.clone(), *why)),
            Verdict::Own | Verdict::Python | Verdict::Up(_) => None,
        };
        self.told.values().filter_map(lost).collect()
    }

    /// True if there were more return addresses or paths than there is room for.
    pub(super) fn is_full(&self, view: View<'_>) -> bool {
        self.is_full || view.header().paths_lost.load(std::sync::atomic::Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_packed_or_refused() {
        let rules = |cfa: (u16, i64), return_address: Option<i64>, frame: Kept| {
            let mut kept = [Kept::Unchanged; KEPT_REGISTERS.len()];
            kept[1] = frame;
            let cfa = trimtab_symbols::FrameBase { register: cfa.0, offset: cfa.1, is_in_memory: false };
            CallerRules { cfa, return_address, kept }
        };
        let pack = step::pack;
        for (name, rules, expected) in [
            ("by the stack", rules((7, 32), Some(-8), Kept::Unchanged), Some(pack(step::BY_STACK, 32, 0))),
            ("by the frame", rules((6, 16), Some(-8), Kept::At(-16)), Some(pack(step::BY_FRAME, 16, 2))),
            ("far saved", rules((7, 4096), Some(-8), Kept::At(-2040)), Some(pack(step::BY_STACK, 4096, step::LOST))),
            ("lost", rules((7, 64), Some(-8), Kept::Lost), Some(pack(step::BY_STACK, 64, step::LOST))),
            ("by another register", rules((10, 0), Some(-8), Kept::Unchanged), None),
            ("the outermost", rules((7, 8), None, Kept::Unchanged), None),
            ("elsewhere", rules((7, 8), Some(-16), Kept::Unchanged), None),
        ] {
            assert_eq!(packed(&rules).ok(), expected, "{name}");
        }
    }
}
