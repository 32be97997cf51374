//! Calls that go on behind a jump: a function that is left by a jump ends where the function it jumps to returns.
//!
//! Such functions are followed as long as they lie in the same library (or are measured themselves) and can be timed. At
//! the jump the open call is handed over, at the entry of the next function it arrives, and at its exits it ends; a call of
//! that function for its own sake does not arrive, so it ends nothing. A call that goes on where nobody follows is counted
//! as one whose end was not seen. A wrong guess about where a jump leads does no harm: the call does not arrive then.
//!
//! Next: `prepare`, which asks; `followed`, which links; `trimtab-stub`'s `target`, which does it.

use crate::modules::{Module, Modules};
use crate::obstacle::{NotFollowed, Obstacle};
use crate::purpose::{OfWindow, Purpose};
use crate::request::{FunctionRequest, TailExit, Work};
use crate::subject::{Decided, Placed, all_sites, answers_in_flags_at, bytes_used};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_os::Memory;
use trimtab_plan::PlannedSite;
use trimtab_stub::layout::{Probe, flag};
use trimtab_symbols::SlotTarget;
use trimtab_types::ProcAddr;
use trimtab_x86::{Exit, ExitKind, SiteKind};

/// Functions looked at only because calls go on in them; who asks for all functions of a program has them all anyway.
const FOLLOWED_MAX: usize = 2048;

/// All that is known of functions that are left by jumps.
#[derive(Default)]
pub(crate) struct Tails<'a> {
    functions: BTreeMap<ProcAddr, FunctionTails>,
    /// Functions that nobody asked for and that can be followed.
    others: BTreeMap<ProcAddr, (FunctionRequest, Placed<'a>)>,
    /// Functions that can't be followed, with the reason.
    refused: BTreeMap<ProcAddr, Obstacle>,
    /// The work at functions that are jumped to; `None`: no jump is followed.
    behind: Option<Work>,
}

/// One function's exits.
#[derive(Default)]
struct FunctionTails {
    jumps: Vec<Jump>,
    /// It also returns by itself, or may do so.
    returns: bool,
    /// Where its calls end is seen at least of some.
    ends: bool,
}

/// One jump out of a function.
#[derive(Clone)]
pub(crate) struct Jump {
    /// Position among the function's sites.
    pub(crate) site: usize,
    pub(crate) at: ProcAddr,
    /// Where it leads, if that is a function.
    target: Option<ProcAddr>,
    /// The same in words.
    pub(crate) to: String,
    /// Why it is not followed, if that is known from the jump alone.
    why: Option<NotFollowed>,
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
        let mut tails = Tails { behind: purpose.behind_jumps(), ..Tails::default() };
        let asked: Vec<_> =
            requests.iter().zip(decided).filter_map(|(r, sites)| Some((*r, sites.as_ref().ok()?))).collect();
        let timed = asked.iter().filter(|(request, _)| request.work.sees_ends() && purpose.asks_for_ends(request));
        let measured: BTreeSet<ProcAddr> = timed.clone().map(|(request, _)| request.address).collect();
        let look = Look { modules, memory, measured: &measured };
        for (request, placed) in timed {
            tails.functions.insert(request.address, look.node(request.address, placed));
        }
        let mut bytes = Bytes::default();
        asked.iter().for_each(|(_, placed)| bytes.take(&placed.sites));
        while let Some(work) = tails.behind
            && tails.others.len() < FOLLOWED_MAX
        {
            let wanted = tails.wanted(modules, work);
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
        let comes_back = |from: ProcAddr, to: ProcAddr| self.behind(to).contains(&from) || from == to;
        let mut rounds = Vec::new();
        for (address, node) in &self.functions {
            let of = node.jumps.iter().enumerate().filter_map(|(place, jump)| Some((place, jump.target?)));
            rounds.extend(of.filter(|(_, target)| comes_back(*address, *target)).map(|(place, _)| (*address, place)));
        }
        for (address, place) in rounds {
            if let Some(jump) = self.functions.get_mut(&address).and_then(|node| node.jumps.get_mut(place)) {
                jump.target = None;
                jump.why = Some(NotFollowed::ComesBack);
            }
        }
    }

    /// Functions that calls may go on in after one.
    fn behind(&self, address: ProcAddr) -> BTreeSet<ProcAddr> {
        let (mut work, mut seen) = (vec![address], BTreeSet::new());
        while let Some(node) = work.pop().and_then(|from| self.functions.get(&from)) {
            work.extend(node.jumps.iter().filter_map(|jump| jump.target).filter(|target| seen.insert(*target)));
        }
        seen
    }

    /// Functions that calls go on in and that nobody has looked at yet.
    fn wanted(&self, modules: &Modules, work: Work) -> Vec<FunctionRequest> {
        let targets = self.functions.values().flat_map(|node| &node.jumps).filter_map(|jump| jump.target);
        let is_new = |target: &ProcAddr| !self.functions.contains_key(target) && !self.refused.contains_key(target);
        let new: BTreeSet<ProcAddr> = targets.filter(is_new).collect();
        let request = |address| FunctionRequest { name: name_of(modules, address), address, work };
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
        let address = request.address;
        let judged = match sites {
            Err(reason) => Err(reason),
            Ok(placed) if !keeps_flags && answers_in_flags_at(&placed) => Err(Obstacle::FollowedAnswersInFlags),
            Ok(placed) if bytes.are_taken(&placed.sites) => Err(Obstacle::SharesCode),
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
            let ends = |node: &FunctionTails| node.returns || node.jumps.iter().any(|jump| self.end_of(jump).is_ok());
            let new = self.functions.iter().filter(|(_, node)| !node.ends && ends(node)).map(|(address, _)| *address);
            let new: Vec<ProcAddr> = new.collect();
            if new.is_empty() {
                return;
            }
            for address in new {
                self.functions.entry(address).or_default().ends = true;
            }
        }
    }

    /// The function behind a jump in which the call's end is seen, or why there is none.
    pub(crate) fn end_of(&self, jump: &Jump) -> Result<ProcAddr, NotFollowed> {
        let Some(target) = jump.target.filter(|_| self.behind.is_some()) else {
            return Err(jump.why.clone().unwrap_or(NotFollowed::NotAsked));
        };
        match self.functions.get(&target) {
            Some(node) if node.ends => Ok(target),
            Some(_) => Err(NotFollowed::Endless),
            None => Err(self.refused.get(&target).cloned().map_or(NotFollowed::ManyFunctions, NotFollowed::from)),
        }
    }

    /// The jumps out of a function.
    pub(crate) fn jumps(&self, address: ProcAddr) -> &[Jump] {
        self.functions.get(&address).map_or(&[], |node| &node.jumps)
    }

    /// A function that nobody asked for and in which calls go on; once.
    pub(crate) fn take_other(&mut self, address: ProcAddr) -> Option<(FunctionRequest, Placed<'a>)> {
        self.others.remove(&address)
    }

    /// Names of the functions that one jumps to, if it is only left by jumps behind which no end is seen.
    pub(crate) fn endless(&self, address: ProcAddr) -> Option<Vec<String>> {
        let node = self.functions.get(&address).filter(|node| !node.ends && !node.jumps.is_empty())?;
        let mut names: Vec<String> = node.jumps.iter().map(|jump| jump.to.clone()).collect();
        names.dedup();
        Some(names)
    }
}

/// Bytes that patches need.
#[derive(Default)]
struct Bytes(BTreeMap<ProcAddr, ProcAddr>);

impl Bytes {
    fn take(&mut self, sites: &[PlannedSite]) {
        self.0.extend(sites.iter().flat_map(bytes_used).map(|range| (range.start, range.end)));
    }

    fn are_taken(&self, sites: &[PlannedSite]) -> bool {
        let mut used = sites.iter().flat_map(bytes_used);
        used.any(|range| self.0.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start))
    }
}

/// The modules and decisions by which jumps are judged.
struct Look<'a> {
    modules: &'a Modules,
    memory: Option<&'a Memory>,
    /// Functions that are timed for their own sake.
    measured: &'a BTreeSet<ProcAddr>,
}

impl Look<'_> {
    fn node(&self, address: ProcAddr, placed: &Placed<'_>) -> FunctionTails {
        let mut node = FunctionTails::default();
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
                let is_inside = target != own && placed.parts.iter().any(|part| part.contains(&target));
                if is_inside {
                    return None;
                }
                let found = self.callee(placed.module, target);
                let to = found.as_ref().map_or_else(|(to, _)| to.clone(), |target| name_of(self.modules, *target));
                let why = found.as_ref().err().map(|(_, why)| why.clone());
                Some(Jump { site, at, target: found.ok(), to, why })
            }
            ExitKind::IndirectTailJump => {
                let to = "a function by a pointer".to_owned();
                Some(Jump { site, at, target: None, to, why: Some(NotFollowed::Indirect) })
            }
            ExitKind::Ret { .. } | ExitKind::RunsInto { .. } | ExitKind::FallsThrough => None,
        }
    }

    /// The function that a jump leads to, through a stub or not; or its name and why it is not followed.
    fn callee(&self, module: &Module, target: ProcAddr) -> Result<ProcAddr, (String, NotFollowed)> {
        let file = module.bias.to_file(target);
        let Some((stub, slot)) = module.loaded.image.stub_at(file) else {
            return self.followable(module, target);
        };
        let import =
            slot.and_then(|slot| if let SlotTarget::Import(name) = &slot.target { Some(name.as_str()) } else { None });
        let bound = self.memory.and_then(|memory| memory.read_vec(module.bias.to_proc(stub.slot).0, 8).ok());
        let bound = bound.and_then(|raw| raw.try_into().ok()).map(|raw| ProcAddr(u64::from_le_bytes(raw)));
        // Before its first use a slot leads back into the stubs. The library's own function is a guess then.
        let is_unbound = |address: ProcAddr| {
            module.text.contains(&address.0) && module.loaded.image.stub_at(module.bias.to_file(address)).is_some()
        };
        if let Some(address) = bound.filter(|address| address.0 != 0 && !is_unbound(*address)) {
            let found = self.followable(module, address);
            return found.map_err(|(to, why)| (import.map_or(to, str::to_owned), why));
        }
        let name = import.unwrap_or("a function that the loader chooses");
        let own = import.and_then(|name| module.loaded.image.function_named(name));
        match own.filter(|function| !function.is_ifunc) {
            Some(function) => self.followable(module, module.bias.to_proc(function.addr)),
            None => Err((name.into(), NotFollowed::Outside)),
        }
    }

    /// The function at an address, if it is one of `module` or measured itself.
    fn followable(&self, module: &Module, address: ProcAddr) -> Result<ProcAddr, (String, NotFollowed)> {
        if self.measured.contains(&address) {
            return Ok(address);
        }
        let name = || name_of(self.modules, address);
        if !module.text.contains(&address.0) {
            return Err((name(), NotFollowed::Outside));
        }
        let file = module.bias.to_file(address);
        match module.loaded.image.function_at(file) {
            Some(function) if function.addr == file && !function.is_ifunc => Ok(address),
            _ => Err((name(), Obstacle::NoFunction.into())),
        }
    }
}

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
        let work = Work::Window(Probe { flags: flag::TIMED, ..Probe::ABSENT });
        let request = FunctionRequest { name: name_of(self, function), address: function, work };
        let decided = all_sites(self, memory.as_ref(), &[&request]);
        let tails = Tails::of(self, memory.as_ref(), &[&request], &decided, &OfWindow);
        let exit = |jump: &Jump| TailExit {
            function: request.name.clone(),
            at: jump.at,
            to: jump.to.clone(),
            unseen: tails.end_of(jump).err(),
        };
        tails.functions.get(&function).map(|node| node.jumps.iter().map(exit).collect()).unwrap_or_default()
    }
}
