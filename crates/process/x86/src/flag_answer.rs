//! Functions that answer in the processor's flags: by hand only, as no ABI hands flags back. A probe at such an exit would
//! spoil the answer.
//!
//! Next: `site`, which refuses the exits of these.

use crate::{Analysis, ExitKind, FunctionCode};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

/// Instructions that are looked at before a return.
const LOOKED_AT_MAX: usize = 8;

/// The first return before which the flags are set and nobody looks at them.
pub(crate) fn answers_in_flags(code: &FunctionCode<'_>, analysis: &Analysis) -> Option<u64> {
    let returns = analysis.exits.iter().filter(|exit| matches!(exit.kind, ExitKind::Ret { .. }));
    returns.map(|exit| exit.at).find(|&at| flags_are_left(code, analysis, at))
}

fn flags_are_left(code: &FunctionCode<'_>, analysis: &Analysis, at: u64) -> bool {
    let Some(mut index) = analysis.index_of(at) else { return false };
    for _ in 0..LOOKED_AT_MAX {
        let Some(before) = index.checked_sub(1).map(|before| analysis.steps[before]) else { return false };
        let is_before = before.end() == analysis.steps[index].at && before.continues() && !before.is_call();
        let Some(instruction) = decoded(code, before.at).filter(|_| is_before) else { return false };
        if instruction.rflags_modified() != 0 {
            return only_sets_flags(instruction.mnemonic());
        }
        if instruction.rflags_read() != 0 {
            return false;
        }
        index -= 1;
    }
    false
}

fn decoded(code: &FunctionCode<'_>, at: u64) -> Option<Instruction> {
    let range = code.ranges.iter().find(|range| at >= range.addr && at - range.addr < range.bytes.len() as u64)?;
    let bytes = &range.bytes[(at - range.addr) as usize..];
    let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// What is good for nothing but its flags.
fn only_sets_flags(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Bt
            | Mnemonic::Clc
            | Mnemonic::Stc
            | Mnemonic::Cmc
            | Mnemonic::Sahf
            | Mnemonic::Comiss
            | Mnemonic::Comisd
            | Mnemonic::Ucomiss
            | Mnemonic::Ucomisd
            | Mnemonic::Vcomiss
            | Mnemonic::Vcomisd
            | Mnemonic::Vucomiss
            | Mnemonic::Vucomisd
            | Mnemonic::Ptest
            | Mnemonic::Vptest
    )
}
