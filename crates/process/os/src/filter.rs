//! Classic BPF as seccomp runs it: a filter's instructions, and its answer to one system call.
//!
//! A filter is a program that reads the call's number, arguments and place and returns an action. The kernel accepts only
//! a small part of BPF for this, in which jumps lead forward, so a filter ends after as many steps as it has instructions.
//! An instruction that the kernel would not have accepted, or a way that leads outside of the filter, has no answer, and
//! whoever asks must take that for a refusal.
//!
//! Pure: bytes and numbers in, a number out; the fuzzer calls it with any bytes.
//!
//! Next: `filters`, which reads the filters of a thread and asks them.

/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Bytes of the kernel's `struct seccomp_data`.
const DATA_BYTES: u32 = 64;
/// Words of a filter's scratch memory.
const SCRATCH_WORDS: usize = 16;
/// Most instructions that the kernel accepts.
const INSTRUCTIONS_MAX: usize = 4096;
/// Bytes of the kernel's `struct sock_filter`.
const INSTRUCTION_BYTES: usize = 8;
/// The part of an answer that says what is done.
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
/// Classes of instructions, and fields of their codes.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;
const CLASS: u16 = 7;
const BY_X: u16 = 8;
const OPERATION: u16 = 0xf0;

/// A system call as a filter sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilteredCall {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The address behind the instruction that makes it.
    pub instruction_pointer: u64,
}

impl FilteredCall {
    /// The word at `offset` of the kernel's structure; `None` where the kernel lets no filter read.
    fn word(&self, offset: u32) -> Option<u32> {
        if offset >= DATA_BYTES || !offset.is_multiple_of(4) {
            return None;
        }
        let half = |word: u64| if offset.is_multiple_of(8) { word as u32 } else { (word >> 32) as u32 };
        match offset {
            0 => Some(self.number as u32),
            4 => Some(ARCHITECTURE),
            8 | 12 => Some(half(self.instruction_pointer)),
            _ => self.arguments.get((offset as usize - 16) / 8).map(|argument| half(*argument)),
        }
    }
}

/// The answer of a filter to one call: an action, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterAnswer(pub u32);

impl FilterAnswer {
    /// True if the call is made as if there were no filter: it is allowed, or allowed and written to the kernel's log.
    pub fn passes(self) -> bool {
        matches!(self.0 & ACTION, ALLOW | LOG)
    }

    /// The rest of "its filter ...", for people.
    pub fn describe(self) -> String {
        let data = self.0 & !ACTION;
        match self.0 & ACTION {
            ALLOW | LOG => "allows".into(),
            0x8000_0000 => "ends the process for".into(),
            0 => "ends the thread for".into(),
            0x0003_0000 => "sends SIGSYS for".into(),
            0x0005_0000 => format!("answers with errno {data}"),
            0x7fc0_0000 => "asks another process about".into(),
            0x7ff0_0000 => "asks a tracer about".into(),
            _ => "ends the process for".into(),
        }
    }
}

/// One filter: instructions as the kernel keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFilter(Vec<Instruction>);

/// The kernel's `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    constant: u32,
}

/// The result of one instruction.
enum Step {
    Next,
    Skip(u32),
    Answer(u32),
}

/// The two registers and the scratch memory.
#[derive(Default)]
struct Machine {
    accumulator: u32,
    index: u32,
    scratch: [u32; SCRATCH_WORDS],
}

impl CallFilter {
    /// From an array of the kernel's `struct sock_filter`; `None` if its length can't be one of a filter's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let count = bytes.len() / INSTRUCTION_BYTES;
        if !bytes.len().is_multiple_of(INSTRUCTION_BYTES) || count == 0 || count > INSTRUCTIONS_MAX {
            return None;
        }
        let instruction = |raw: &[u8]| Instruction {
            code: u16::from_le_bytes([raw[0], raw[1]]),
            jump_true: raw[2],
            jump_false: raw[3],
            constant: u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]),
        };
        Some(CallFilter(bytes.chunks_exact(INSTRUCTION_BYTES).map(instruction).collect()))
    }

    /// The filter's answer to `call`; `None` if it is no filter that a kernel would have accepted.
    pub fn answer(&self, call: &FilteredCall) -> Option<FilterAnswer> {
        let (mut machine, mut at) = (Machine::default(), 0usize);
        loop {
            let instruction = self.0.get(at)?;
            // Always forward: the loop ends.
            at += 1 + match machine.step(*instruction, call)? {
                Step::Next => 0,
                Step::Skip(count) => usize::try_from(count).ok()?,
                Step::Answer(answer) => return Some(FilterAnswer(answer)),
            };
        }
    }
}

impl Machine {
    fn step(&mut self, one: Instruction, call: &FilteredCall) -> Option<Step> {
        let known = |code: u16, possible: &[u16]| possible.contains(&code).then_some(());
        match one.code & CLASS {
            LD => self.accumulator = self.load(one, call)?,
            LDX => {
                // The kernel keeps loads of the call for the accumulator.
                known(one.code, &[0x01, 0x61, 0x81])?;
                self.index = self.load(one, call)?;
            }
            ST | STX => {
                known(one.code, &[ST, STX])?;
                let stored = if one.code == ST { self.accumulator } else { self.index };
                *self.scratch.get_mut(one.constant as usize)? = stored;
            }
            ALU => match self.computed(one)? {
                Some(value) => self.accumulator = value,
                // A division by zero ends the filter with 0.
                None => return Some(Step::Answer(0)),
            },
            JMP => return self.jump(one),
            RET => {
                known(one.code, &[0x06, 0x16])?;
                return Some(Step::Answer(if one.code == 0x16 { self.accumulator } else { one.constant }));
            }
            MISC => {
                known(one.code, &[0x07, 0x87])?;
                if one.code == 0x07 {
                    self.index = self.accumulator;
                } else {
                    self.accumulator = self.index;
                }
            }
            _ => return None,
        }
        Some(Step::Next)
    }

    /// A word of the call, the length of its description, a constant, or a word of the scratch memory.
    fn load(&self, one: Instruction, call: &FilteredCall) -> Option<u32> {
        match one.code & !CLASS {
            0x20 => call.word(one.constant),
            0x80 => Some(DATA_BYTES),
            0x00 => Some(one.constant),
            0x60 => self.scratch.get(one.constant as usize).copied(),
            _ => None,
        }
    }

    fn operand(&self, one: Instruction) -> u32 {
        if one.code & BY_X == 0 { one.constant } else { self.index }
    }

    /// The inner `None`: a division by zero.
    fn computed(&self, one: Instruction) -> Option<Option<u32>> {
        let (left, right) = (self.accumulator, self.operand(one));
        let value = match one.code & OPERATION {
            0x00 => left.wrapping_add(right),
            0x10 => left.wrapping_sub(right),
            0x20 => left.wrapping_mul(right),
            0x30 => return Some(left.checked_div(right)),
            0x40 => left | right,
            0x50 => left & right,
            0x60 => left.wrapping_shl(right),
            0x70 => left.wrapping_shr(right),
            0x80 => left.wrapping_neg(),
            0xa0 => left ^ right,
            _ => return None,
        };
        (one.code < 0x100).then_some(Some(value))
    }

    fn jump(&self, one: Instruction) -> Option<Step> {
        let (left, right) = (self.accumulator, self.operand(one));
        let holds = match one.code & OPERATION {
            0x00 => return (one.code == JMP).then_some(Step::Skip(one.constant)),
            0x10 => left == right,
            0x20 => left > right,
            0x30 => left >= right,
            0x40 => left & right != 0,
            _ => return None,
        };
        let skipped = if holds { one.jump_true } else { one.jump_false };
        (one.code < 0x100).then_some(Step::Skip(skipped.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, jumps and constant of an instruction.
    type Code = (u16, u8, u8, u32);

    fn filter(instructions: &[Code]) -> CallFilter {
        let bytes = instructions.iter().flat_map(|(code, jump_true, jump_false, constant)| {
            let mut raw = code.to_le_bytes().to_vec();
            raw.extend([*jump_true, *jump_false]);
            raw.extend(constant.to_le_bytes());
            raw
        });
        CallFilter::parse(&bytes.collect::<Vec<u8>>()).expect("a filter")
    }

    #[test]
    fn a_filter_answers_as_the_kernel_would() {
        const RETURN: u16 = 0x06;
        const RETURN_A: u16 = 0x16;
        const LOAD: u16 = 0x20;
        let call = FilteredCall {
            number: 9,
            arguments: [1, 2, 0x5_0000_0007, 4, 5, u64::MAX],
            instruction_pointer: 0x1234_5678_9abc_def0,
        };
        let rows: [(&str, &[Code], Option<u32>); 24] = [
            ("constant", &[(RETURN, 0, 0, ALLOW)], Some(ALLOW)),
            ("number", &[(LOAD, 0, 0, 0), (RETURN_A, 0, 0, 0)], Some(9)),
            ("architecture", &[(LOAD, 0, 0, 4), (RETURN_A, 0, 0, 0)], Some(ARCHITECTURE)),
            ("place, high half", &[(LOAD, 0, 0, 12), (RETURN_A, 0, 0, 0)], Some(0x1234_5678)),
            ("third argument, low half", &[(LOAD, 0, 0, 32), (RETURN_A, 0, 0, 0)], Some(7)),
            ("third argument, high half", &[(LOAD, 0, 0, 36), (RETURN_A, 0, 0, 0)], Some(5)),
            ("last argument", &[(LOAD, 0, 0, 60), (RETURN_A, 0, 0, 0)], Some(u32::MAX)),
            ("behind the last", &[(LOAD, 0, 0, 64), (RETURN_A, 0, 0, 0)], None),
            ("between words", &[(LOAD, 0, 0, 2), (RETURN_A, 0, 0, 0)], None),
            ("equal", &[(LOAD, 0, 0, 0), (0x15, 1, 0, 9), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)], Some(2)),
            ("greater is not", &[(LOAD, 0, 0, 0), (0x25, 1, 0, 9), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)], Some(1)),
            ("at least", &[(LOAD, 0, 0, 0), (0x35, 1, 0, 9), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)], Some(2)),
            ("bits", &[(LOAD, 0, 0, 0), (0x45, 1, 0, 8), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)], Some(2)),
            ("far jump", &[(0x05, 0, 0, 1), (RETURN, 0, 0, 1), (RETURN, 0, 0, 2)], Some(2)),
            ("jump outside", &[(0x05, 0, 0, u32::MAX), (RETURN, 0, 0, 1)], None),
            ("no return", &[(LOAD, 0, 0, 0)], None),
            (
                "scratch",
                &[(LOAD, 0, 0, 0), (ST, 0, 0, 3), (0x61, 0, 0, 3), (0x87, 0, 0, 0), (RETURN_A, 0, 0, 0)],
                Some(9),
            ),
            ("scratch outside", &[(ST, 0, 0, 16), (RETURN, 0, 0, 1)], None),
            ("division by zero", &[(LOAD, 0, 0, 0), (0x01, 0, 0, 0), (0x3c, 0, 0, 0), (RETURN, 0, 0, 1)], Some(0)),
            ("and", &[(LOAD, 0, 0, 0), (0x54, 0, 0, 8), (RETURN_A, 0, 0, 0)], Some(8)),
            ("long shift", &[(LOAD, 0, 0, 0), (0x01, 0, 0, 33), (0x6c, 0, 0, 0), (RETURN_A, 0, 0, 0)], Some(18)),
            ("length", &[(0x80, 0, 0, 0), (RETURN_A, 0, 0, 0)], Some(64)),
            ("negated", &[(LOAD, 0, 0, 0), (0x84, 0, 0, 0), (RETURN_A, 0, 0, 0)], Some(9u32.wrapping_neg())),
            ("a byte load", &[(0x30, 0, 0, 0), (RETURN_A, 0, 0, 0)], None),
        ];
        for (name, instructions, wanted) in rows {
            assert_eq!(filter(instructions).answer(&call).map(|answer| answer.0), wanted, "{name}");
        }
    }

    #[test]
    fn only_allowed_and_logged_calls_pass() {
        let rows = [
            ("allow", ALLOW, true),
            ("log", LOG, true),
            ("trace", 0x7ff0_0000, false),
            ("notify", 0x7fc0_0000, false),
            ("errno", 0x0005_0001, false),
            ("trap", 0x0003_0000, false),
            ("kill", 0, false),
            ("kill process", 0x8000_0000, false),
            ("unknown", 0x1234_0000, false),
        ];
        for (name, answer, passes) in rows {
            assert_eq!(FilterAnswer(answer).passes(), passes, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_no_filter() {
        assert_eq!(CallFilter::parse(&[]), None);
        assert_eq!(CallFilter::parse(&[0; 7]), None);
        assert_eq!(CallFilter::parse(&vec![0; 8 * (INSTRUCTIONS_MAX + 1)]), None);
    }
}
