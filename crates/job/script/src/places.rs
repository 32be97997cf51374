//! Points inside functions as users name them: calls, loops, blocks, offsets, addresses; to instructions of the process.
//!
//! Next: `facts`, which numbers them; `trimtab-session`'s `inner`, which patches there.

use crate::facts::{FunctionPlace, ProcessFacts};
use trimtab_session::{Inner, Module};
use trimtab_snippet::Facts;
use trimtab_snippet::facts::{Site, SiteId};
use trimtab_snippet::syntax::{CallPoint, FunctionPattern, LoopEdge, LoopPoint, PointKind};
use trimtab_symbols::SlotTarget;
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::ControlFlow;

/// One place inside a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InnerPlace {
    pub function: FunctionPlace,
    pub place: Inner,
    /// What is called there, if that is known.
    pub callee: Option<FunctionPlace>,
}

impl ProcessFacts<'_> {
    /// The places a point means.
    pub(crate) fn places(&self, point: &PointKind) -> Result<Vec<Site>, String> {
        let places = match point {
            PointKind::Call(call) => self.calls(call)?,
            PointKind::Loop(point) => self.loops(point)?,
            PointKind::Block { function, number } => self.blocks(function, *number)?,
            PointKind::Offset { function, offset } => self.offsets(function, *offset)?,
            PointKind::Address { library, address } => self.addresses(library.as_deref(), *address)?,
            PointKind::Line { file, line } => self.lines(file, *line)?,
            PointKind::Entry(_) | PointKind::Exit(_) | PointKind::Every { .. } | PointKind::Once => {
                return Err("it is no place inside a function".into());
            }
        };
        Ok(places.into_iter().map(|place| self.site(place)).collect())
    }

    fn site(&self, place: InnerPlace) -> Site {
        let function = Some(self.number(place.function.clone()));
        let callee = place.callee.clone().map(|callee| self.number(callee));
        Site { id: self.site_number(place), function, callee }
    }

    /// The functions a pattern means, each with its inside.
    fn insides(&self, pattern: &FunctionPattern) -> Result<Vec<(FunctionPlace, ControlFlow)>, String> {
        let found = self.functions(pattern);
        if found.is_empty() {
            return Err(format!("no function matches `{}`", pattern.name));
        }
        let inside = |id| {
            let function = self.function(id);
            let flow = self.modules.control_flow(function.address);
            let flow = flow.map_err(|reason| format!("{}: {reason}", function.name))?;
            Ok((function, flow))
        };
        found.into_iter().map(inside).collect()
    }

    fn calls(&self, point: &CallPoint) -> Result<Vec<InnerPlace>, String> {
        let mut places = Vec::new();
        let mut called: Vec<String> = Vec::new();
        for (function, flow) in self.insides(&point.caller)? {
            let module = self.modules.at(function.address).ok_or("it lies in no readable module")?;
            let mut number = 0;
            for call in &flow.calls {
                let Some(callee) = call.target.and_then(|target| self.callee(module, target)) else { continue };
                if !trimtab_symbols::glob_matches(&point.callee, &callee.name) {
                    called.push(callee.name);
                    continue;
                }
                number += 1;
                if point.number.is_some_and(|wanted| wanted != number) {
                    continue;
                }
                let at = if point.after { after_call(&flow, call.return_address)? } else { call.at };
                let place = Inner::Instruction(ProcAddr(at));
                places.push(InnerPlace { function: function.clone(), place, callee: Some(callee) });
            }
        }
        if places.is_empty() {
            called.sort_unstable();
            called.dedup();
            let others = if called.is_empty() { "none by name".to_owned() } else { called.join(", ") };
            return Err(format!("no such call of `{}`; calls there: {others}", point.callee));
        }
        Ok(places)
    }

    /// The function at a call's target, through the linker's stub if it goes there.
    fn callee(&self, module: &Module, target: u64) -> Option<FunctionPlace> {
        let file = module.bias.to_file(ProcAddr(target));
        let image = &module.loaded.image;
        let place = |module: &Module, function: &trimtab_symbols::Function| FunctionPlace {
            name: function.name(),
            module: module.file_name().to_owned(),
            address: module.bias.to_proc(function.addr),
        };
        if let Some((_, Some(slot))) = image.stub_at(file) {
            let SlotTarget::Import(name) = &slot.target else { return None };
            let plain = name.split('@').next().unwrap_or(name);
            let found = self.modules.modules.iter().find_map(|module| {
                let (function, _) = module.function(plain)?;
                Some(FunctionPlace { name: plain.to_owned(), ..place(module, function) })
            });
            return found;
        }
        let at_start = |function: &&trimtab_symbols::Function| function.addr == FileAddr(file.0);
        image.function_at(file).filter(at_start).map(|function| place(module, function))
    }

    fn loops(&self, point: &LoopPoint) -> Result<Vec<InnerPlace>, String> {
        let mut places = Vec::new();
        for (function, flow) in self.insides(&point.function)? {
            let Some(found) = flow.loop_numbered(&point.path) else {
                return Err(format!("{} has no loop {}; {}", function.name, dotted(&point.path), loops_of(&flow)));
            };
            let inner: Vec<Inner> = match point.edge {
                LoopEdge::Pass => vec![Inner::Loop(point.path.clone())],
                LoopEdge::Entry => entered_from(&flow, found)?,
                LoopEdge::Exit => left_to(&flow, found)?,
            };
            let at = |place| InnerPlace { function: function.clone(), place, callee: None };
            places.extend(inner.into_iter().map(at));
        }
        Ok(places)
    }

    fn blocks(&self, pattern: &FunctionPattern, number: Option<u32>) -> Result<Vec<InnerPlace>, String> {
        let mut places = Vec::new();
        for (function, flow) in self.insides(pattern)? {
            let wanted = |index: usize| number.is_none_or(|number| number as usize == index + 1);
            let blocks = flow.blocks.iter().enumerate().filter(|(index, _)| wanted(*index));
            let before = places.len();
            places.extend(blocks.map(|(_, block)| InnerPlace {
                function: function.clone(),
                place: Inner::Instruction(ProcAddr(block.range.start)),
                callee: None,
            }));
            if places.len() == before {
                return Err(format!("{} has blocks 1 to {}", function.name, flow.blocks.len()));
            }
        }
        Ok(places)
    }

    fn offsets(&self, pattern: &FunctionPattern, offset: u64) -> Result<Vec<InnerPlace>, String> {
        let found = self.functions(pattern);
        if found.is_empty() {
            return Err(format!("no function matches `{}`", pattern.name));
        }
        let place = |id| self.instruction(self.function(id), offset);
        found.into_iter().map(place).collect()
    }

    fn addresses(&self, library: Option<&str>, address: u64) -> Result<Vec<InnerPlace>, String> {
        let address = match library {
            None => ProcAddr(address),
            Some(name) => {
                let module = self.modules.modules.iter().find(|module| module.file_name().ends_with(name));
                module.ok_or(format!("no library `{name}` is loaded"))?.bias.to_proc(FileAddr(address))
            }
        };
        let module = self.modules.at(address).ok_or(format!("no code is known at {:#x}", address.0))?;
        let file = module.bias.to_file(address);
        let function = module.loaded.image.function_at(file);
        let function = function.ok_or(format!("no function is known around {:#x}", address.0))?;
        let place = FunctionPlace {
            name: function.name(),
            module: module.file_name().to_owned(),
            address: module.bias.to_proc(function.addr),
        };
        Ok(vec![self.instruction(place, file.0 - function.addr.0)?])
    }

    /// The places of a source line that can be patched.
    fn lines(&self, file: &str, line: u32) -> Result<Vec<InnerPlace>, String> {
        let (mut places, mut problem) = (Vec::new(), None);
        for site in self.debug.line(file, line)? {
            let place = self.addresses(None, site.address.0);
            match place {
                Ok(found) => places.extend(found),
                Err(reason) => problem = problem.or(Some(reason)),
            }
        }
        match problem.filter(|_| places.is_empty()) {
            Some(problem) => Err(format!("{file}:{line} can't be probed: {problem}")),
            None => Ok(places),
        }
    }

    /// The instruction before which the bodies of a place run.
    pub(crate) fn instruction_of(&self, site: SiteId) -> Option<ProcAddr> {
        let found = self.inner(site);
        match found.place {
            Inner::Instruction(address) => Some(address),
            Inner::Loop(number) => {
                let flow = self.modules.control_flow(found.function.address).ok()?;
                Some(ProcAddr(flow.loop_numbered(&number)?.header_at))
            }
        }
    }

    /// An instruction of a function; why not, if there is none or it can't be patched.
    fn instruction(&self, function: FunctionPlace, offset: u64) -> Result<InnerPlace, String> {
        let address = ProcAddr(function.address.0 + offset);
        let checked = self.modules.check_instruction(function.address, address);
        checked.map_err(|reason| format!("{}+{offset:#x}: {reason}", function.name))?;
        Ok(InnerPlace { function, place: Inner::Instruction(address), callee: None })
    }
}

/// Where a call comes back to, if nothing else leads there.
fn after_call(flow: &ControlFlow, address: u64) -> Result<u64, String> {
    let block = flow.block_at(address).ok_or("the call does not come back")?;
    let block = &flow.blocks[block];
    let jumped_to = block.range.start == address && block.predecessors.len() > 1;
    if jumped_to {
        return Err(format!("other ways lead to {address:#x} behind the call too; use `exit` of the called function"));
    }
    Ok(address)
}

/// The blocks from which control only enters the loop.
fn entered_from(flow: &ControlFlow, found: &trimtab_x86::Loop) -> Result<Vec<Inner>, String> {
    let outside = |block: &&usize| !found.blocks.contains(block);
    let from: Vec<usize> = flow.blocks[found.header].predecessors.iter().filter(outside).copied().collect();
    let leads_only_in = |block: &usize| flow.blocks[*block].successors.len() == 1;
    if from.is_empty() || !from.iter().all(leads_only_in) {
        return Err("its entry can't be told from other ways; use `loop pass` or the block before it".into());
    }
    Ok(from.iter().map(|block| Inner::Instruction(ProcAddr(flow.blocks[*block].last))).collect())
}

/// The blocks to which control only comes from the loop.
fn left_to(flow: &ControlFlow, found: &trimtab_x86::Loop) -> Result<Vec<Inner>, String> {
    let mut to: Vec<usize> = found.exits.iter().filter_map(|edge| flow.block_at(edge.to)).collect();
    to.sort_unstable();
    to.dedup();
    let only_from_loop =
        |block: &usize| flow.blocks[*block].predecessors.iter().all(|before| found.blocks.contains(before));
    if to.is_empty() || !to.iter().all(only_from_loop) {
        return Err("its exits can't be told from other ways; use a block behind it".into());
    }
    Ok(to.iter().map(|block| Inner::Instruction(ProcAddr(flow.blocks[*block].range.start))).collect())
}

fn dotted(path: &[u32]) -> String {
    path.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn loops_of(flow: &ControlFlow) -> String {
    let numbers: Vec<String> = flow.loops.iter().map(|found| dotted(&found.number)).collect();
    if numbers.is_empty() { "it has none".into() } else { format!("it has {}", numbers.join(", ")) }
}
