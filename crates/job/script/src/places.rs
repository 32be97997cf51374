//! Points inside functions as users name them: calls, loops, blocks, offsets, addresses; to instructions of the process.
//!
//! Next: `facts`, which numbers them; `trimtab-session`'s `inner`, which patches there.

use crate::facts::ProcessFacts;
use crate::no_place::{NoEdges, NoPlace, NotBehind};
use crate::place::{FunctionPlace, InnerPlace, NOWHERE};
use trimtab_session::{Inner, InnerRequest, Inside, Module};
use trimtab_snippet::Facts;
use trimtab_snippet::facts::{PointSite, SiteId};
use trimtab_snippet::syntax::{CallPoint, FunctionPattern, LoopEdge, LoopPoint, PointKind};
use trimtab_symbols::{Slot, SlotTarget};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{CallSite, ControlFlow, Edge, Loop};

/// The function that a call calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Callee {
    /// Its name for people; any of the names of its code will do to find it.
    pub name: String,
    aliases: Vec<String>,
    /// Where it is; not known if no loaded module has it.
    pub place: Option<FunctionPlace>,
}

impl Callee {
    fn matches(&self, pattern: &str) -> bool {
        let mut names = std::iter::once(&self.name).chain(&self.aliases);
        names.any(|name| trimtab_symbols::glob_matches(pattern, name) || trimtab_symbols::is_spelled(pattern, name))
    }
}

impl ProcessFacts<'_> {
    /// The places a point means.
    pub(crate) fn places(&self, point: &PointKind) -> Result<Vec<PointSite>, NoPlace> {
        if let Some(site) = self.awaited_site(point) {
            return Ok(vec![site]);
        }
        let places = match point {
            PointKind::Call(call) => self.calls(call)?,
            PointKind::Loop(point) => self.loops(point)?,
            PointKind::Block { function, number } => self.blocks(function, *number)?,
            PointKind::Offset { function, offset } => self.offsets(function, *offset)?,
            PointKind::Address { library, address } => self.addresses(library.as_deref(), *address)?,
            PointKind::Line { file, line, library } => self.lines(file, *line, library.as_deref())?,
            PointKind::Entry(_) | PointKind::Exit(_) | PointKind::Every { .. } | PointKind::Once => {
                return Err(NoPlace::NotInside);
            }
        };
        Ok(places.into_iter().map(|place| self.site(place)).collect())
    }

    fn site(&self, place: InnerPlace) -> PointSite {
        let function = Some(self.number(place.function.clone()));
        let callee = place.callee.clone().map(|callee| self.number(callee));
        PointSite { id: self.site_number(place), function, callee }
    }

    /// The functions a pattern means, each with its inside.
    fn insides(&self, pattern: &FunctionPattern) -> Result<Vec<(FunctionPlace, ControlFlow)>, NoPlace> {
        let found = self.functions(pattern);
        if found.is_empty() {
            return Err(NoPlace::NoFunction { pattern: pattern.name.clone() });
        }
        let inside = |id| {
            let function = self.function(id);
            let flow = self.modules.control_flow(function.address);
            let flow = flow.map_err(|obstacle| NoPlace::Obstacle { at: function.name.clone(), obstacle })?;
            Ok((function, flow))
        };
        found.into_iter().map(inside).collect()
    }

    fn calls(&self, point: &CallPoint) -> Result<Vec<InnerPlace>, NoPlace> {
        let mut places = Vec::new();
        let mut called: Vec<String> = Vec::new();
        for (function, flow) in self.insides(&point.caller)? {
            let mut number = 0;
            for (call, callee) in self.calls_in(&function, &flow) {
                let Some(callee) = callee else { continue };
                if !callee.matches(&point.callee) {
                    called.push(callee.name);
                    continue;
                }
                number += 1;
                if point.number.is_some_and(|wanted| wanted != number) {
                    continue;
                }
                let at = if point.after { after_call(&flow, call.return_address)? } else { call.at };
                let place = Inner::Instruction(at);
                places.push(InnerPlace { function: function.clone(), place, callee: callee.place });
            }
        }
        if places.is_empty() {
            called.sort_unstable();
            called.dedup();
            let others = if called.is_empty() { "none by name".to_owned() } else { called.join(", ") };
            return Err(NoPlace::NoCall { callee: point.callee.clone(), others });
        }
        Ok(places)
    }

    /// The calls of a function, each with what is called if that can be told.
    pub(crate) fn calls_in(&self, function: &FunctionPlace, flow: &ControlFlow) -> Vec<(CallSite, Option<Callee>)> {
        let module = self.modules.at(function.address);
        let callee = |call: &CallSite| match call.target {
            Some(target) => self.callee(module?, target),
            None => self.callee_of_slot(module?, slot_of_call(module?, call)?),
        };
        flow.calls.iter().map(|call| (*call, callee(call))).collect()
    }

    /// The function at a call's target, through the linker's stub if it goes there.
    fn callee(&self, module: &Module, target: ProcAddr) -> Option<Callee> {
        let file = module.bias.to_file(target);
        let image = &module.loaded.image;
        if let Some((_, slot)) = image.stub_at(file) {
            return self.callee_of_slot(module, slot?);
        }
        self.callee_named(module, file)
    }

    /// The function whose address the loader has put in a slot.
    fn callee_of_slot(&self, module: &Module, slot: &Slot) -> Option<Callee> {
        let name = match &slot.target {
            SlotTarget::Resolved(resolver) => return self.callee_named(module, *resolver),
            SlotTarget::Import(name) => name.split('@').next().unwrap_or(name).to_owned(),
        };
        let found = self.modules.definition(&name);
        let place =
            found.map(|(module, function)| FunctionPlace { name: name.clone(), ..self.place_of(module, function) });
        Some(Callee { name, aliases: Vec::new(), place })
    }

    fn callee_named(&self, module: &Module, starts_at: FileAddr) -> Option<Callee> {
        let image = &module.loaded.image;
        let function = image.function_at(starts_at).filter(|function| function.addr == starts_at)?;
        Some(Callee {
            name: function.name(),
            aliases: function.names.clone(),
            place: Some(self.place_of(module, function)),
        })
    }

    fn loops(&self, point: &LoopPoint) -> Result<Vec<InnerPlace>, NoPlace> {
        let mut places = Vec::new();
        for (function, flow) in self.insides(&point.function)? {
            let Some(found) = flow.loop_numbered(&point.path) else {
                let (number, loops) = (dotted(&point.path), loops_of(&flow));
                return Err(NoPlace::NoLoop { function: function.name, number, loops });
            };
            let inner = match point.edge {
                LoopEdge::Pass => vec![Inner::Loop(point.path.clone())],
                edge => self.loop_edges(&function, found, edge)?,
            };
            let at = |place| InnerPlace { function: function.clone(), place, callee: None };
            places.extend(inner.into_iter().map(at));
        }
        Ok(places)
    }

    /// All ways into a loop or out of it. One of them less, and what is counted would be wrong.
    fn loop_edges(&self, function: &FunctionPlace, found: &Loop, edge: LoopEdge) -> Result<Vec<Inner>, NoPlace> {
        let looked = self.modules.look_inside(function.address, |inside| -> Result<_, NoEdges> {
            let ways = match edge {
                LoopEdge::Entry => entered_from(inside, found, function.address)?,
                _ => left_to(inside, found)?,
            };
            ways.iter().try_for_each(|way| inside.place(way).map(drop))?;
            Ok(ways)
        });
        let ways = looked.map_err(NoEdges::from).and_then(|ways| ways);
        ways.map_err(|reason| NoPlace::Edges { function: function.name.clone(), reason })
    }

    fn blocks(&self, pattern: &FunctionPattern, number: Option<u32>) -> Result<Vec<InnerPlace>, NoPlace> {
        let mut places = Vec::new();
        for (function, flow) in self.insides(pattern)? {
            let wanted = |index: usize| number.is_none_or(|number| number as usize == index + 1);
            let blocks = flow.blocks.iter().enumerate().filter(|(index, _)| wanted(*index));
            let before = places.len();
            places.extend(blocks.map(|(_, block)| InnerPlace {
                function: function.clone(),
                place: Inner::Instruction(block.range.start),
                callee: None,
            }));
            if places.len() == before {
                return Err(NoPlace::NoBlock { function: function.name, count: flow.blocks.len() });
            }
        }
        Ok(places)
    }

    fn offsets(&self, pattern: &FunctionPattern, offset: u64) -> Result<Vec<InnerPlace>, NoPlace> {
        let found = self.functions(pattern);
        if found.is_empty() {
            return Err(NoPlace::NoFunction { pattern: pattern.name.clone() });
        }
        let place = |id| self.instruction(self.function(id), offset);
        found.into_iter().map(place).collect()
    }

    fn addresses(&self, library: Option<&str>, address: u64) -> Result<Vec<InnerPlace>, NoPlace> {
        let address = match library {
            None => ProcAddr(address),
            Some(name) => {
                let module = self.modules.modules.iter().find(|module| module.file_name().ends_with(name));
                module.ok_or_else(|| NoPlace::NoLibrary { name: name.to_owned() })?.bias.to_proc(FileAddr(address))
            }
        };
        let module = self.modules.at(address).ok_or(NoPlace::NoCode { address: address.0 })?;
        let file = module.bias.to_file(address);
        let function = module.loaded.image.function_at(file);
        let function = function.ok_or(NoPlace::NoFunctionAround { address: address.0 })?;
        let address = module.bias.to_proc(function.addr);
        let place = FunctionPlace { address, ..self.place_of(module, function) };
        Ok(vec![self.instruction(place, file.0 - function.addr.0)?])
    }

    /// The places of a source line that can be patched.
    fn lines(&self, file: &str, line: u32, library: Option<&str>) -> Result<Vec<InnerPlace>, NoPlace> {
        let (mut places, mut problem) = (Vec::new(), None);
        for site in self.debug.line(file, line, library)? {
            let place = self.addresses(None, site.address.0);
            match place {
                Ok(found) => places.extend(found),
                Err(reason) => problem = problem.or(Some(reason)),
            }
        }
        match problem.filter(|_| places.is_empty()) {
            Some(first) => Err(NoPlace::Line { file: file.to_owned(), line, first: Box::new(first) }),
            None => Ok(places),
        }
    }

    /// The instruction before which the bodies of a place run.
    pub(crate) fn instruction_of(&self, site: SiteId) -> Option<ProcAddr> {
        let found = self.inner(site);
        match found.place {
            Inner::Instruction(NOWHERE) => None,
            Inner::Instruction(address) | Inner::Way { from: address, .. } => Some(address),
            Inner::Loop(number) => {
                let flow = self.modules.control_flow(found.function.address).ok()?;
                Some(flow.loop_numbered(&number)?.header_at)
            }
        }
    }

    /// An instruction of a function; why not, if there is none or it can't be patched.
    fn instruction(&self, function: FunctionPlace, offset: u64) -> Result<InnerPlace, NoPlace> {
        let address = ProcAddr(function.address.0 + offset);
        let checked = self.modules.check_instruction(function.address, address);
        let at = || format!("{}+{offset:#x}", function.name);
        checked.map_err(|obstacle| NoPlace::Obstacle { at: at(), obstacle })?;
        Ok(InnerPlace { function, place: Inner::Instruction(address), callee: None })
    }
}

/// The slot that a call goes through, if it names one: `call *slot(%rip)`, as compilers write it to do without stubs.
fn slot_of_call<'m>(module: &'m Module, call: &CallSite) -> Option<&'m Slot> {
    const CALL_RIP_RELATIVE: [u8; 2] = [0xff, 0x15];
    let image = &module.loaded.image;
    let at = image.file_offset_of(module.bias.to_file(call.at))? as usize;
    let length = call.return_address.0.checked_sub(call.at.0)? as usize;
    let code = module.loaded.file.bytes().get(at..at.checked_add(length)?)?;
    let displacement = code.strip_prefix(&CALL_RIP_RELATIVE)?.try_into().map(i32::from_le_bytes).ok()?;
    let slot = ProcAddr(call.return_address.0.wrapping_add_signed(displacement.into()));
    image.slot_at(module.bias.to_file(slot))
}

/// Where a call comes back to, if nothing else leads there.
pub(crate) fn after_call(flow: &ControlFlow, address: ProcAddr) -> Result<ProcAddr, NotBehind> {
    let block = flow.block_at(address).ok_or(NotBehind::NoReturn)?;
    let block = &flow.blocks[block];
    let jumped_to = block.range.start == address && block.predecessors.len() > 1;
    if jumped_to {
        return Err(NotBehind::OtherWays { address: address.0 });
    }
    Ok(address)
}

/// The ways by which control comes into a loop from outside. `starts_at` is the function's first instruction.
pub(crate) fn entered_from(inside: &Inside<'_>, found: &Loop, starts_at: ProcAddr) -> Result<Vec<Inner>, NoEdges> {
    let flow = &inside.flow;
    check_edges(flow, found)?;
    // Of a loop of which a compiler has made two that is not the header.
    let entry = &flow.blocks[found.entries.first().copied().unwrap_or(found.header)];
    if entry.range.start == starts_at {
        return Err(NoEdges::BeginsWithFunction);
    }
    let outside = |block: &&usize| !found.blocks.contains(block);
    let from: Vec<usize> = entry.predecessors.iter().filter(outside).copied().collect();
    if from.is_empty() {
        return Err(NoEdges::NoWayIn);
    }
    let way = |block: &usize| match flow.blocks[*block].successors.len() {
        1 => Inner::Instruction(flow.blocks[*block].last),
        _ => Inner::Way { from: flow.blocks[*block].last, to: entry.range.start },
    };
    Ok(from.iter().map(way).collect())
}

/// The ways by which control goes out of a loop: blocks to which it only comes from there, or else the branches that lead
/// out.
pub(crate) fn left_to(inside: &Inside<'_>, found: &Loop) -> Result<Vec<Inner>, NoEdges> {
    let flow = &inside.flow;
    check_edges(flow, found)?;
    if found.exits.is_empty() {
        return Err(NoEdges::NoWayOut);
    }
    let only_from_loop = |to: ProcAddr| {
        let block = &flow.blocks[flow.block_at(to)?];
        let is_alone = block.range.start == to && block.predecessors.iter().all(|from| found.blocks.contains(from));
        let place = Inner::Instruction(to);
        (is_alone && inside.place(&place).is_ok()).then_some(place)
    };
    let way = |edge: &Edge| only_from_loop(edge.to).unwrap_or(Inner::Way { from: edge.from, to: edge.to });
    let mut ways: Vec<Inner> = Vec::new();
    for way in found.exits.iter().map(way) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    Ok(ways)
}

/// Checks that all ways into a loop and out of it are known.
fn check_edges(flow: &ControlFlow, found: &Loop) -> Result<(), NoEdges> {
    if !flow.is_complete {
        return Err(NoEdges::Incomplete);
    }
    match found.is_irreducible() {
        true => Err(NoEdges::Irreducible),
        false => Ok(()),
    }
}

pub(crate) fn dotted(path: &[u32]) -> String {
    path.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn loops_of(flow: &ControlFlow) -> String {
    let numbers: Vec<String> = flow.loops.iter().map(|found| dotted(&found.number)).collect();
    if numbers.is_empty() { "it has none".into() } else { format!("it has {}", numbers.join(", ")) }
}

/// The patch that a numbered place asks for.
pub(crate) fn inner_request(facts: &ProcessFacts<'_>, site: SiteId, bodies: Vec<usize>) -> InnerRequest {
    let found = facts.inner(site);
    let name = match &found.place {
        Inner::Instruction(address) => format!("{}+{:#x}", found.function.name, address.0 - found.function.address.0),
        Inner::Way { from, to } => {
            let start = found.function.address.0;
            format!("{}+{:#x} to +{:#x}", found.function.name, from.0 - start, to.0.wrapping_sub(start))
        }
        Inner::Loop(number) => {
            let number: Vec<String> = number.iter().map(u32::to_string).collect();
            format!("loop {} of {}", number.join("."), found.function.name)
        }
    };
    InnerRequest { name, function: found.function.address, place: found.place, bodies }
}
