//! Functions that answer in the flags, as hand-written code does: carry set for "no", say.
//!
//! Compilers never hand over flags, and never compare without looking at the outcome. So an instruction that does nothing
//! but set flags, whose flags nobody looks at before a return, is there for the caller. Probes at such a function's exits
//! must keep the flags, which elsewhere nobody needs.
//!
//! Next: `liveness`, where this decides what a return reads.

use crate::instruction::{Next, for_each_instruction};
use crate::liveness::edges;
use crate::{Analysis, FunctionCode};
use iced_x86::{Mnemonic, RflagsBits};

/// What an instruction has to do with the arithmetic flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Neither reads nor changes them.
    None,
    /// Changes them and nothing else.
    Sets,
    /// Reads them, or changes them beside something else.
    Other,
}

/// Whether the function sets flags for its caller.
pub fn answers_in_flags(code: &FunctionCode<'_>, analysis: &Analysis) -> bool {
    let mut uses = Vec::with_capacity(analysis.steps.len());
    for_each_instruction(code, |instruction| {
        uses.push(match instruction.mnemonic() {
            mnemonic if only_sets_flags(mnemonic) => Use::Sets,
            _ if (instruction.rflags_read() | instruction.rflags_modified()) & ARITHMETIC != 0 => Use::Other,
            _ => Use::None,
        });
    });
    if !uses.contains(&Use::Sets) {
        return false;
    }
    let edges = edges(analysis);
    // Where flags come through to a return: there, or behind it.
    let is_return = |index: usize| matches!(analysis.steps[index].next(), Next::Return(_));
    let passes = |index: usize| uses[index] == Use::None && !analysis.steps[index].is_call();
    let mut comes_through: Vec<bool> = (0..uses.len()).map(is_return).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in edges.iter().rev() {
            if comes_through[*to] && passes(*from) && !comes_through[*from] {
                (comes_through[*from], changed) = (true, true);
            }
        }
    }
    edges.iter().any(|(from, to)| uses[*from] == Use::Sets && comes_through[*to])
}

const ARITHMETIC: u32 =
    RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

fn only_sets_flags(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Cmp | Test
            | Bt
            | Stc
            | Clc
            | Cmc
            | Sahf
            | Popf
            | Popfq
            | Comiss
            | Comisd
            | Ucomiss
            | Ucomisd
            | Vcomiss
            | Vcomisd
            | Vucomiss
            | Vucomisd
            | Ptest
            | Vptest
            | Vtestps
            | Vtestpd
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeRange, Liveness, analyse};

    fn look<T>(bytes: &[u8], then: impl Fn(&FunctionCode<'_>, &Analysis) -> T) -> T {
        let ranges = vec![CodeRange { addr: 0x1000, bytes, after: &[] }];
        let code = FunctionCode { entry: 0x1000, ranges, ..FunctionCode::default() };
        let analysis = analyse(&code, &(), &()).expect("whole instructions");
        then(&code, &analysis)
    }

    #[test]
    fn flags_for_the_caller_are_told_from_those_for_a_branch() {
        let rows: [(&str, &[u8], bool); 8] = [
            ("stc; ret", &[0xf9, 0xc3], true),
            ("cmp edi, esi; ret", &[0x39, 0xf7, 0xc3], true),
            ("cmp edi, esi; mov eax, 1; pop rbx; ret", &[0x39, 0xf7, 0xb8, 1, 0, 0, 0, 0x5b, 0xc3], true),
            ("test edi, edi; je 1f; clc; 1: ret", &[0x85, 0xff, 0x74, 1, 0xf8, 0xc3], true),
            ("cmp edi, esi; setl al; ret", &[0x39, 0xf7, 0x0f, 0x9c, 0xc0, 0xc3], false),
            ("cmp edi, esi; jl 1f; xor eax, eax; 1: ret", &[0x39, 0xf7, 0x7c, 2, 0x31, 0xc0, 0xc3], false),
            ("cmp edi, esi; call 1f; 1: ret", &[0x39, 0xf7, 0xe8, 0, 0, 0, 0, 0xc3], false),
            ("sub edi, esi; ret", &[0x29, 0xf7, 0xc3], false),
        ];
        for (name, bytes, expected) in rows {
            assert_eq!(look(bytes, answers_in_flags), expected, "{name}");
        }
    }

    /// A probe inside such a function keeps them too, once they are set.
    #[test]
    fn flags_for_the_caller_are_read_by_the_return() {
        let live = |bytes: &[u8], at: u64| look(bytes, |code, analysis| Liveness::of(code, analysis).flags_live(at));
        // cmp edi, esi; mov eax, 1; ret
        let answers = [0x39, 0xf7, 0xb8, 1, 0, 0, 0, 0xc3];
        assert!(live(&answers, 0x1002) && live(&answers, 0x1007) && !live(&answers, 0x1000));
        // sub edi, esi; mov eax, 1; ret
        assert!(!live(&[0x29, 0xf7, 0xb8, 1, 0, 0, 0, 0xc3], 0x1007));
    }
}
