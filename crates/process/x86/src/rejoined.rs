//! Loops of which compilers have made two: a short way round, which keeps a variable in a register, and a long one for what
//! happens seldom, behind which the register is loaded anew.
//!
//! In the code the long way is a loop around the short one: it comes back a few instructions before the short one's header, which
//! load values and do nothing else. A pass of either is a pass of the loop that was written. Loops that were written as two set a
//! counter to its first value there, or leave the outer one by a test of its own.
//!
//! Next: `loops`, which counts the passes of both at the inner header.

use crate::blocks::{ControlFlow, Edge};
use crate::bound::by_block;
use crate::lent::is_write;
use crate::loops::Loop;
use crate::{Analysis, FunctionCode};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::ProcAddr;

/// Blocks between both headers.
const LEAD_MAX: usize = 4;
/// A loop may be made three of, and so on.
const ROUNDS_MAX: usize = 4;

impl ControlFlow {
    /// The same with loops joined again of which a compiler has made two.
    pub fn rejoined(mut self, code: &FunctionCode<'_>, analysis: &Analysis) -> ControlFlow {
        let mut all = BTreeMap::new();
        for _ in 0..ROUNDS_MAX {
            let pairs: BTreeMap<usize, usize> = pairs(&self, code, analysis).collect();
            if pairs.is_empty() {
                break;
            }
            all.extend(pairs);
            self.find_loops_again(analysis, &all);
        }
        self
    }
}

/// Blocks where outer loops are entered, each with the header of the inner one that is the same loop.
fn pairs<'f>(
    flow: &'f ControlFlow,
    code: &'f FunctionCode<'_>,
    analysis: &'f Analysis,
) -> impl Iterator<Item = (usize, usize)> + 'f {
    flow.loops.iter().enumerate().filter_map(move |(index, outer)| {
        let mut inside = flow.loops.iter().filter(move |inner| inner.parent == Some(index));
        let (lead, inner) = inside.find_map(|inner| Some((lead(flow, outer, inner)?, inner)))?;
        let are_counted = outer.is_counted_at_header && inner.is_counted_at_header;
        let is_left_inside = || is_left_inside(flow, analysis, outer, inner);
        let are_joined = are_counted && is_left_inside() && goes_on(flow, code, analysis, &lead, inner);
        are_joined.then_some((lead[0], inner.header))
    })
}

/// The blocks from where the outer loop is entered, by its header, to the inner one; `None`: there are several ways, or none.
fn lead(flow: &ControlFlow, outer: &Loop, inner: &Loop) -> Option<Vec<usize>> {
    let [entry] = outer.entries[..] else { return None };
    let mut lead = vec![entry];
    while let [next] = flow.blocks[*lead.last()?].successors[..] {
        if next == inner.header {
            return Some(lead).filter(|lead| lead.contains(&outer.header));
        }
        if lead.contains(&next) || lead.len() == LEAD_MAX {
            return None;
        }
        lead.push(next);
    }
    None
}

/// True if the outer loop is left from the inner one only, but for errors that end the program.
fn is_left_inside(flow: &ControlFlow, analysis: &Analysis, outer: &Loop, inner: &Loop) -> bool {
    let is_inside = |block: usize| inner.blocks.binary_search(&block).is_ok();
    let (inside, others): (Vec<&Edge>, Vec<&Edge>) =
        outer.exits.iter().partition(|exit| flow.block_at(exit.from).is_some_and(is_inside));
    !inside.is_empty() && others.iter().all(|exit| never_returns(flow, analysis, exit.to))
}

/// True if no way leads from here to where the function is left.
fn never_returns(flow: &ControlFlow, analysis: &Analysis, from: ProcAddr) -> bool {
    let Some(first) = flow.block_at(from) else { return false };
    let (mut reached, mut work) = (BTreeSet::new(), vec![first]);
    while let Some(block) = work.pop() {
        if reached.insert(block) {
            work.extend(&flow.blocks[block].successors);
        }
    }
    let is_exit = |block: &usize| analysis.exits.iter().any(|exit| exit.at == flow.blocks[*block].last);
    !reached.iter().any(is_exit)
}

/// True if the inner loop goes on behind these blocks as it would without them: each register that it changes is loaded from where
/// it keeps its value, and the others get a value that it does not change.
fn goes_on(flow: &ControlFlow, code: &FunctionCode<'_>, analysis: &Analysis, lead: &[usize], inner: &Loop) -> bool {
    let is_wanted = |block: usize| lead.contains(&block) || inner.blocks.binary_search(&block).is_ok();
    let instructions = by_block(code, analysis, flow, &is_wanted);
    let of = |blocks: &[usize]| -> Vec<&Instruction> {
        blocks.iter().filter_map(|block| instructions.get(block)).flatten().collect()
    };
    let mut info = InstructionInfoFactory::new();
    let (mut changed, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for one in of(&inner.blocks) {
        changed.extend(written(one, &mut info));
        kept.extend(stored(one));
    }
    of(lead).into_iter().all(|one| {
        let goes_straight = matches!(one.flow_control(), FlowControl::Next | FlowControl::UnconditionalBranch);
        let stays = |register: &Register| !changed.contains(register);
        let is_kept = loaded(one).is_some_and(|(register, cell)| {
            kept.contains(&(register, cell)) && (cell.0 == Register::None || stays(&cell.0) || cell.0 == Register::RSP)
        });
        goes_straight && !writes_memory(one, &mut info) && (is_kept || written(one, &mut info).iter().all(stays))
    })
}

/// A cell of memory: a register that it is counted from, or none, and how far it lies behind that.
type Cell = (Register, u64);

fn cell(one: &Instruction) -> Option<Cell> {
    if one.is_ip_rel_memory_operand() {
        return Some((Register::None, one.ip_rel_memory_address()));
    }
    (one.memory_index() == Register::None).then(|| (one.memory_base(), one.memory_displacement64()))
}

/// The register that a plain move loads, and from where.
fn loaded(one: &Instruction) -> Option<(Register, Cell)> {
    let is_load = one.op_count() == 2 && one.op0_kind() == OpKind::Register && one.op1_kind() == OpKind::Memory;
    (is_load && is_move(one)).then(|| Some((one.op0_register().full_register(), cell(one)?)))?
}

/// The register that a plain move stores, and where.
fn stored(one: &Instruction) -> Option<(Register, Cell)> {
    let is_store = one.op_count() == 2 && one.op0_kind() == OpKind::Memory && one.op1_kind() == OpKind::Register;
    (is_store && is_move(one)).then(|| Some((one.op1_register().full_register(), cell(one)?)))?
}

fn is_move(one: &Instruction) -> bool {
    use Mnemonic::{Mov, Movapd, Movaps, Movd, Movq, Movsd, Movss, Movsx, Movsxd, Movupd, Movups, Movzx};
    use Mnemonic::{Vmovapd, Vmovaps, Vmovd, Vmovq, Vmovsd, Vmovss, Vmovupd, Vmovups};
    let scalar = [Mov, Movsx, Movsxd, Movzx, Movd, Movq, Vmovd, Vmovq];
    let vector = [Movss, Movsd, Movaps, Movups, Movapd, Movupd];
    let vector_3 = [Vmovss, Vmovsd, Vmovaps, Vmovups, Vmovapd, Vmovupd];
    [&scalar[..], &vector, &vector_3].iter().any(|all| all.contains(&one.mnemonic()))
}

fn written(one: &Instruction, info: &mut InstructionInfoFactory) -> Vec<Register> {
    let used = info.info(one).used_registers().iter();
    used.filter(|used| is_write(used.access())).map(|used| used.register().full_register()).collect()
}

fn writes_memory(one: &Instruction, info: &mut InstructionInfoFactory) -> bool {
    info.info(one).used_memory().iter().any(|used| is_write(used.access()))
}
