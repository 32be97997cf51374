//! Calls that go on behind a jump: a function that is left by a jump ends where the function it jumps to returns.
//!
//! Such functions are followed as long as they lie in the same library (or are measured themselves) and can be timed. At
//! the jump the open call is handed over, at the entry of the next function it arrives, and at its exits it ends; a call of
//! that function for its own sake does not arrive, so it ends nothing. A call that goes on where nobody follows is counted
//! as one whose end was not seen. A wrong guess about where a jump leads does no harm: the call does not arrive then.
//!
//! Next: `prepare`, which asks; `trimtab-stub`'s `target`, which does it.

use crate::modules::{Module, Modules};
use crate::prepare::{
    Decided, FunctionRequest, OfWindow, Placed, Prepared, Purpose, all_sites, answers_in_flags_at, is_timed,
};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_os::Memory;
use trimtab_plan::{Leaving, PlannedSite};
use trimtab_stub::layout::{NOBODY, Probe, flag, role};
use trimtab_symbols::SlotTarget;
use trimtab_types::ProcAddr;
use trimtab_x86::{Exit, ExitKind, SiteKind};

/// Functions looked at only because calls go on in them; who asks for all functions of a program has them all anyway.
const FOLLOWED_MAX: usize = 2048;

/// How one exit of a function is seen that is a jump to another function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailExit {
    /// The function that is left.
    pub function: String,
    /// Address of the jump.
    pub at: ProcAddr,
    /// The function it leads to, in words.
    pub to: String,
    /// Why the call is not followed there; `None`: it ends where that function returns.
    pub unseen: Option<String>,
}

/// A jump out of a function: the function's place among all, the site's among its own, and the number of the function in
/// which the call is followed.
pub(crate) type Edge = (usize, usize, Option<u32>);

/// All that is known of functions that are left by jumps.
#[derive(Default)]
pub(crate) struct Tails<'a> {
    functions: BTreeMap<u64, Node>,
    /// Functions that nobody asked for and that can be followed.
    others: BTreeMap<u64, (FunctionRequest, Placed<'a>)>,
    /// Functions that can't be followed, with the reason.
    refused: BTreeMap<u64, String>,
    /// True if any call is followed.
    follows: bool,
}

/// One function's exits.
#[derive(Default)]
struct Node {
    jumps: Vec<Jump>,
    /// It also returns by itself, or may do so.
    returns: bool,
    /// Where its calls end is seen at least of some.
    ends: bool,
}

/// One jump out of a function.
#[derive(Clone)]
struct Jump {
    /// Position among the function's sites.
    site: usize,
    at: u64,
    /// Where it leads, if that is a function.
    target: Option<u64>,
    /// The same in words.
    to: String,
    /// Why it is not followed, if that is known from the jump alone.
    why: Option<String>,
}

impl<'a> Tails<'a> {
    /// Follows the jumps of all `requests` whose ends are asked for.
    pub(crate) fn of(
        modules: &'a Modules,
        memory: Option<&Memory>,
        requests: &[&FunctionRequest],
        decided: &[Decided<'a>],
        purpose: &dyn Purpose,
    ) -> Self {
        let mut tails = Tails { follows: purpose.follows_jumps(), ..Tails::default() };
        let asked: Vec<_> =
            requests.iter().zip(decided).filter_map(|(r, sites)| Some((*r, sites.as_ref().ok()?))).collect();
        let timed = asked.iter().filter(|(request, _)| is_timed(request) && purpose.asks_for_ends(request));
        let measured: BTreeSet<u64> = timed.clone().map(|(request, _)| request.address.0).collect();
        let look = Look { modules, memory, measured: &measured };
        for (request, placed) in timed {
            tails.functions.insert(request.address.0, look.node(request.address, placed));
        }
        let mut bytes = Bytes::default();
        asked.iter().for_each(|(_, placed)| bytes.take(&placed.sites));
        while tails.follows && tails.others.len() < FOLLOWED_MAX {
            let wanted = tails.wanted(modules);
            if wanted.is_empty() {
                break;
            }
            let sites = all_sites(modules, memory, &wanted.iter().collect::<Vec<_>>());
            for (request, sites) in wanted.into_iter().zip(sites) {
                tails.judge(&look, request, sites, &mut bytes, purpose.keeps_flags());
            }
        }
        if !purpose.follows_rounds() {
            tails.leave_out_rounds();
        }
        tails.find_ends();
        tails
    }

    /// Follows no jump that leads back.
    fn leave_out_rounds(&mut self) {
        let comes_back = |from: u64, to: u64| self.behind(to).contains(&from) || from == to;
        let mut rounds = Vec::new();
        for (address, node) in &self.functions {
            let of = node.jumps.iter().enumerate().filter_map(|(place, jump)| Some((place, jump.target?)));
            rounds.extend(of.filter(|(_, target)| comes_back(*address, *target)).map(|(place, _)| (*address, place)));
        }
        for (address, place) in rounds {
            if let Some(jump) = self.functions.get_mut(&address).and_then(|node| node.jumps.get_mut(place)) {
                jump.target = None;
                jump.why = Some("calls come back from there by jumps".into());
            }
        }
    }

    /// Functions that calls may go on in after one.
    fn behind(&self, address: u64) -> BTreeSet<u64> {
        let (mut work, mut seen) = (vec![address], BTreeSet::new());
        while let Some(node) = work.pop().and_then(|from| self.functions.get(&from)) {
            work.extend(node.jumps.iter().filter_map(|jump| jump.target).filter(|target| seen.insert(*target)));
        }
        seen
    }

    /// Functions that calls go on in and that nobody has looked at yet.
    fn wanted(&self, modules: &Modules) -> Vec<FunctionRequest> {
        let targets = self.functions.values().flat_map(|node| &node.jumps).filter_map(|jump| jump.target);
        let is_new = |target: &u64| !self.functions.contains_key(target) && !self.refused.contains_key(target);
        let new: BTreeSet<u64> = targets.filter(is_new).collect();
        let probe = Probe { flags: flag::TIMED, role: role::PASSES, function: NOBODY, framed: 1, ..Probe::ABSENT };
        let request = |target: u64| {
            let address = ProcAddr(target);
            FunctionRequest { name: name_of(modules, address), address, probe }
        };
        new.into_iter().map(request).collect()
    }

    fn judge(
        &mut self,
        look: &Look<'_>,
        request: FunctionRequest,
        sites: Decided<'a>,
        bytes: &mut Bytes,
        keeps_flags: bool,
    ) {
        let address = request.address.0;
        let judged = match sites {
            Err(reason) => Err(reason),
            Ok(placed) if !keeps_flags && answers_in_flags_at(&placed) => {
                Err("it answers in the processor's flags, which a timed exit does not keep".into())
            }
            Ok(placed) if bytes.are_taken(&placed.sites) => {
                Err("it shares code with another function that is probed".into())
            }
            Ok(placed) => Ok(placed),
        };
        match judged {
            Ok(placed) => {
                bytes.take(&placed.sites);
                self.functions.insert(address, look.node(request.address, &placed));
                self.others.insert(address, (request, placed));
            }
            Err(reason) => drop(self.refused.insert(address, reason)),
        }
    }

    /// Finds out which functions are left where that is seen.
    fn find_ends(&mut self) {
        loop {
            let ends = |node: &Node| node.returns || node.jumps.iter().any(|jump| self.end_of(jump).is_ok());
            let new = self.functions.iter().filter(|(_, node)| !node.ends && ends(node)).map(|(address, _)| *address);
            let new: Vec<u64> = new.collect();
            if new.is_empty() {
                return;
            }
            for address in new {
                self.functions.entry(address).or_default().ends = true;
            }
        }
    }

    /// The function behind a jump in which the call's end is seen, or why there is none.
    fn end_of(&self, jump: &Jump) -> Result<u64, String> {
        let Some(target) = jump.target.filter(|_| self.follows) else {
            return Err(jump.why.clone().unwrap_or_default());
        };
        match self.functions.get(&target) {
            Some(node) if node.ends => Ok(target),
            Some(_) => Err("that function, too, is left only by jumps that are not followed".into()),
            None => Err(self.refused.get(&target).cloned().unwrap_or_else(|| "too many functions are followed".into())),
        }
    }

    /// Names of the functions that one jumps to, if it is only left by jumps behind which no end is seen.
    pub(crate) fn endless(&self, address: ProcAddr) -> Option<Vec<String>> {
        let node = self.functions.get(&address.0).filter(|node| !node.ends && !node.jumps.is_empty())?;
        let mut names: Vec<String> = node.jumps.iter().map(|jump| jump.to.clone()).collect();
        names.dedup();
        Some(names)
    }
}

/// Bytes that patches need.
#[derive(Default)]
struct Bytes(BTreeMap<u64, u64>);

impl Bytes {
    fn take(&mut self, sites: &[PlannedSite]) {
        self.0.extend(sites.iter().flat_map(crate::prepare::bytes_used).map(|range| (range.start, range.end)));
    }

    fn are_taken(&self, sites: &[PlannedSite]) -> bool {
        let mut used = sites.iter().flat_map(crate::prepare::bytes_used);
        used.any(|range| self.0.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start))
    }
}

/// The modules and decisions by which jumps are judged.
struct Look<'a> {
    modules: &'a Modules,
    memory: Option<&'a Memory>,
    /// Functions that are timed for their own sake.
    measured: &'a BTreeSet<u64>,
}

impl Look<'_> {
    fn node(&self, address: ProcAddr, placed: &Placed<'_>) -> Node {
        let mut node = Node::default();
        for (index, planned) in placed.sites.iter().enumerate() {
            let (SiteKind::Exit(exit) | SiteKind::Whole(exit)) = planned.site.kind else { continue };
            match self.jump(index, &exit, placed, address) {
                Some(jump) => node.jumps.push(jump),
                None => node.returns = true,
            }
        }
        node.ends = node.returns;
        node
    }

    /// The jump out of its function that an exit is; `None`: it returns, or leads to where the function returns.
    fn jump(&self, site: usize, exit: &Exit, placed: &Placed<'_>, own: ProcAddr) -> Option<Jump> {
        let at = exit.at;
        match exit.kind {
            ExitKind::TailJump { target } | ExitKind::ConditionalTailJump { target } => {
                let is_inside = target != own.0 && placed.parts.iter().any(|part| part.contains(&target));
                if is_inside {
                    return None;
                }
                let found = self.callee(placed.module, target);
                let to = found.as_ref().map_or_else(|(to, _)| to.clone(), |target| name_of(self.modules, *target));
                let why = found.as_ref().err().map(|(_, why)| why.clone());
                Some(Jump { site, at, target: found.ok().map(|target| target.0), to, why })
            }
            ExitKind::IndirectTailJump => {
                let (to, why) = ("a function by a pointer", "it is known only when the jump is made");
                Some(Jump { site, at, target: None, to: to.into(), why: Some(why.into()) })
            }
            ExitKind::Ret { .. } | ExitKind::RunsInto { .. } | ExitKind::FallsThrough => None,
        }
    }

    /// The function that a jump leads to, through a stub or not; or its name and why it is not followed.
    fn callee(&self, module: &Module, target: u64) -> Result<ProcAddr, (String, String)> {
        let file = module.bias.to_file(ProcAddr(target));
        let Some((stub, slot)) = module.loaded.image.stub_at(file) else {
            return self.followable(module, ProcAddr(target));
        };
        let import =
            slot.and_then(|slot| if let SlotTarget::Import(name) = &slot.target { Some(name.as_str()) } else { None });
        let bound = self.memory.and_then(|memory| memory.read_vec(module.bias.to_proc(stub.slot).0, 8).ok());
        let bound = bound.and_then(|raw| raw.try_into().ok()).map(u64::from_le_bytes);
        // Before its first use a slot leads back into the stubs. The library's own function is a guess then.
        let is_unbound = |address: u64| {
            module.text.contains(&address)
                && module.loaded.image.stub_at(module.bias.to_file(ProcAddr(address))).is_some()
        };
        if let Some(address) = bound.filter(|address| *address != 0 && !is_unbound(*address)) {
            let found = self.followable(module, ProcAddr(address));
            return found.map_err(|(to, why)| (import.map_or(to, str::to_owned), why));
        }
        let name = import.unwrap_or("a function that the loader chooses");
        let own = import.and_then(|name| module.loaded.image.function_named(name));
        match own.filter(|function| !function.is_ifunc) {
            Some(function) => self.followable(module, module.bias.to_proc(function.addr)),
            None => Err((name.into(), OUTSIDE.into())),
        }
    }

    /// The function at an address, if it is one of `module` or measured itself.
    fn followable(&self, module: &Module, address: ProcAddr) -> Result<ProcAddr, (String, String)> {
        if self.measured.contains(&address.0) {
            return Ok(address);
        }
        let name = || name_of(self.modules, address);
        if !module.text.contains(&address.0) {
            return Err((name(), OUTSIDE.into()));
        }
        let file = module.bias.to_file(address);
        match module.loaded.image.function_at(file) {
            Some(function) if function.addr == file && !function.is_ifunc => Ok(address),
            _ => Err((name(), "no function begins there".into())),
        }
    }
}

const OUTSIDE: &str = "it lies in another library";

/// The name of the function that begins at an address, or the address.
fn name_of(modules: &Modules, address: ProcAddr) -> String {
    let found = modules.at(address).and_then(|module| {
        let file = module.bias.to_file(address);
        module.loaded.image.function_at(file).filter(|function| function.addr == file)
    });
    match found {
        Some(function) if !function.names.is_empty() => function.name(),
        _ => format!("{:#x}", address.0),
    }
}

impl Modules {
    /// How each exit of the function that begins at `function` is seen that is a jump to another one; none if its exits
    /// can't be patched.
    pub fn tail_exits(&self, function: ProcAddr) -> Vec<TailExit> {
        let Ok(memory) = self.memory() else { return Vec::new() };
        let probe = Probe { flags: flag::TIMED, ..Probe::ABSENT };
        let request = FunctionRequest { name: name_of(self, function), address: function, probe };
        let decided = all_sites(self, memory.as_ref(), &[&request]);
        let tails = Tails::of(self, memory.as_ref(), &[&request], &decided, &OfWindow);
        let exit = |jump: &Jump| TailExit {
            function: request.name.clone(),
            at: ProcAddr(jump.at),
            to: jump.to.clone(),
            unseen: tails.end_of(jump).err(),
        };
        tails.functions.get(&function.0).map(|node| node.jumps.iter().map(exit).collect()).unwrap_or_default()
    }
}

impl Prepared {
    /// Takes in the functions in which calls of those that were accepted go on.
    pub(crate) fn follow(&mut self, tails: &mut Tails<'_>) {
        let timed = self.addresses.iter().zip(&self.probes).filter(|(_, probe)| probe.flags & flag::TIMED != 0);
        let mut work: Vec<u64> = timed.map(|(address, _)| address.0).collect();
        while let Some(address) = work.pop() {
            let Some(node) = tails.functions.get(&address) else { continue };
            let next: Vec<u64> = node.jumps.iter().filter_map(|jump| tails.end_of(jump).ok()).collect();
            for target in next {
                if let Some((request, placed)) = tails.others.remove(&target)
                    && !self.is_taken(&placed.sites)
                {
                    self.accept(&request, placed);
                    work.push(target);
                }
            }
        }
    }

    /// Says to each jump's probe where its call goes on. The numbers of functions do not change any more.
    pub(crate) fn link(&mut self, tails: &Tails<'_>) {
        let numbers: BTreeMap<u64, u32> = self.addresses.iter().map(|address| address.0).zip(0..).collect();
        let sees_ends = |number: u32| self.probes[number as usize].flags & flag::TIMED != 0;
        let mut edges: Vec<Edge> = Vec::new();
        for (index, address) in self.addresses.iter().enumerate().filter(|(index, _)| sees_ends(*index as u32)) {
            let Some(node) = tails.functions.get(&address.0) else { continue };
            for jump in &node.jumps {
                let end = tails.end_of(jump);
                let number =
                    end.as_ref().ok().and_then(|target| numbers.get(target).copied()).filter(|n| sees_ends(*n));
                let unseen = number.is_none().then(|| end.err().unwrap_or_else(|| "it can't be timed there".into()));
                let function = self.functions[index].name.clone();
                self.tails.push(TailExit { function, at: ProcAddr(jump.at), to: jump.to.clone(), unseen });
                edges.push((index, jump.site, number));
            }
        }
        for (index, _, number) in &edges {
            if let Some(number) = number {
                self.probes[*index].framed = 1;
                self.probes[*number as usize].framed = 1;
            }
        }
        self.name_owners(&edges);
        self.edges.clone_from(&edges);
        let mut made = BTreeMap::new();
        for (index, site, number) in edges {
            let leaving = self.leaving(index, site, number, &mut made);
            self.functions[index].sites[site].leaving = leaving;
        }
    }

    /// The code that runs at a jump.
    fn leaving(
        &mut self,
        index: usize,
        site: usize,
        next: Option<u32>,
        made: &mut BTreeMap<(usize, Option<u32>), u32>,
    ) -> Leaving {
        let next_plus_one = next.map_or(0, |number| number + 1);
        let is_all =
            matches!(self.functions[index].sites[site].site.kind, SiteKind::Whole(exit) if exit.is_unconditional());
        if is_all && next.is_some() && self.probes[index].role == role::FUNCTION {
            self.probes[index].next_plus_one = next_plus_one;
            return Leaving::Nothing;
        }
        let of = self.probes[index];
        let number = *made.entry((index, next)).or_insert_with(|| {
            let role = if next.is_some() { role::HANDS_OVER } else { role::LEAVES };
            let Probe { function, group, flags, framed, .. } = of;
            self.probes.push(Probe { function, group, flags, framed, role, next_plus_one, ..Probe::ABSENT });
            let number = self.probes.len() as u32 - 1;
            if let Some(functions) = self.shared.get(&(index as u32)).cloned() {
                self.shared.insert(number, functions);
            }
            number
        });
        Leaving::With(number)
    }

    /// Says for each function that is only followed whose calls go on in it: of one function, or nobody knows of which.
    fn name_owners(&mut self, edges: &[Edge]) {
        let is_followed = |index: usize| self.probes[index].role == role::PASSES;
        let mut owners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut next: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (index, _, number) in edges {
            next.entry(*index).or_default().extend(number);
        }
        let measured = (0..self.addresses.len()).filter(|index| !is_followed(*index));
        for function in measured {
            let (mut work, mut seen) = (vec![function], BTreeSet::new());
            while let Some(from) = work.pop() {
                let next = next.get(&from).into_iter().flatten().copied();
                for number in next.filter(|number| seen.insert(*number)) {
                    work.push(number as usize);
                    owners.entry(number).or_default().insert(self.probes[function].function);
                }
            }
        }
        for (number, functions) in owners {
            if is_followed_at(&self.probes, number) {
                self.probes[number as usize].flags &= !flag::TIMED;
                self.shared.insert(number, functions.into_iter().collect());
            }
        }
    }
}

fn is_followed_at(probes: &[Probe], number: u32) -> bool {
    probes[number as usize].role == role::PASSES
}
