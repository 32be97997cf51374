//! Addresses that a function gives to others as an argument.
//!
//! A program without symbols still shows which of its functions it hands to a runtime: the address is made right before the
//! call. From the call it is looked for backwards, on every way that leads there; copies from register to register are
//! followed, everything else ends a way.
//!
//! Next: `trimtab-session`'s `given`, which finds the calls.

use crate::bound::{Instructions, by_block};
use crate::lent::ARGUMENTS;
use crate::linear::CALL_CHANGES;
use crate::written::is_immediate;
use crate::{Analysis, ControlFlow, FunctionCode};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};
use std::collections::BTreeSet;
use trimtab_types::ProcAddr;

/// The values that one argument of a call may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenAddresses {
    /// Constant addresses, in order, each once.
    pub addresses: Vec<ProcAddr>,
    /// True if on some way to the call it is none of these.
    pub has_others: bool,
}

/// The addresses that the call or jump at `call` has as its argument of this number, counted from 0; `None`: there is no such
/// argument in a register, or nothing reaches an instruction there.
pub fn given_addresses(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    call: ProcAddr,
    argument: usize,
) -> Option<GivenAddresses> {
    let register = *ARGUMENTS.get(argument)?;
    let block = flow.block_at(call)?;
    let instructions = by_block(code, analysis, flow, &|_| true);
    let before = instructions.get(&block)?.iter().position(|one| one.ip() == call.0)?;
    let mut search = Search { flow, instructions, seen: BTreeSet::new(), found: BTreeSet::new(), has_others: false };
    search.run(block, before, register);
    Some(GivenAddresses { addresses: search.found.into_iter().collect(), has_others: search.has_others })
}

struct Search<'a> {
    flow: &'a ControlFlow,
    instructions: Instructions,
    /// Blocks whose ends were looked at, with the register.
    seen: BTreeSet<(usize, u8)>,
    found: BTreeSet<ProcAddr>,
    has_others: bool,
}

/// The source of a register's value.
enum Source {
    /// This number.
    Constant(u64),
    /// The other register.
    Copy(u8),
    /// Anything.
    Other,
}

impl Search<'_> {
    fn run(&mut self, block: usize, before: usize, register: u8) {
        let mut work = vec![(block, before, register)];
        while let Some((block, before, register)) = work.pop() {
            let Some(register) = self.back_to_start(block, before, register) else { continue };
            let predecessors = &self.flow.blocks[block].predecessors;
            // The caller's own argument, or what an exception leaves.
            self.has_others |= predecessors.is_empty() || block == self.flow.order().first().copied().unwrap_or(block);
            for &earlier in predecessors {
                if self.seen.insert((earlier, register)) {
                    work.push((earlier, self.instructions.get(&earlier).map_or(0, Vec::len), register));
                }
            }
        }
    }

    /// The register in which the value is at the block's start; `None`: it is made in the block.
    fn back_to_start(&mut self, block: usize, before: usize, register: u8) -> Option<u8> {
        let mut register = register;
        let mut info = InstructionInfoFactory::new();
        let block = self.instructions.get(&block).map_or(&[][..], Vec::as_slice);
        for one in block[..before].iter().rev() {
            match source(one, register, &mut info) {
                None => {}
                Some(Source::Copy(other)) => register = other,
                Some(Source::Constant(value)) => {
                    self.found.insert(ProcAddr(value));
                    return None;
                }
                Some(Source::Other) => {
                    self.has_others = true;
                    return None;
                }
            }
        }
        Some(register)
    }
}

/// Where an instruction takes a register's new value from; `None`: it leaves the register as it is.
fn source(one: &Instruction, register: u8, info: &mut InstructionInfoFactory) -> Option<Source> {
    if matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
        return CALL_CHANGES.contains(&register).then_some(Source::Other);
    }
    let is_written = info.info(one).used_registers().iter().any(|used| {
        let writes =
            !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None);
        writes && used.register().is_gpr() && used.register().full_register().number() == usize::from(register)
    });
    if !is_written {
        return None;
    }
    Some(match one.mnemonic() {
        Mnemonic::Lea if one.is_ip_rel_memory_operand() && one.op0_register().is_gpr64() => {
            Source::Constant(one.memory_displacement64())
        }
        Mnemonic::Mov if is_immediate(one.op1_kind()) => Source::Constant(one.immediate(1)),
        Mnemonic::Mov if one.op1_kind() == OpKind::Register && one.op1_register().is_gpr64() => {
            Source::Copy(one.op1_register().number() as u8)
        }
        _ => Source::Other,
    })
}
