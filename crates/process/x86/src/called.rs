//! A loop that is left by what a called function says, as `while (!timer.done())`: when that will be.
//!
//! The function lies elsewhere, maybe in another module, and maybe only the object that it belongs to tells which one it is. So its
//! code is followed at each look with the values of that moment, from the call to the loop's branch. A comparison that would end the
//! loop if it turned out the other way is a test as the loop's own are.
//!
//! Next: `followed`, the interpreter; `exit_tests` for tests in the loop itself.

use crate::followed::{Followed, Number, Outcome, Resume, Snapshot, compared_at};
use crate::linear::{Linear, ReadablePlace};
use crate::side::{LoadWord, Sides, number_at};
use std::sync::{Mutex, PoisonError};

/// Comparisons on the way that are tried.
const DECISIONS_MAX: usize = 40;
/// Where a function can't be followed to its end, so many of the first.
const FIRST_DECISIONS: usize = 8;

/// A call whose result decides about the loop's end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Called {
    /// The address of the call.
    pub(crate) call: u64,
    /// That of the branch, and whether the loop is left if it jumps.
    pub(crate) branch: u64,
    pub(crate) leaves_by_jump: bool,
    /// The loop's code from an address on, with all from the call to the end of the branch.
    pub(crate) code: Vec<u8>,
    pub(crate) code_at: u64,
    /// The registers that are known before the call.
    pub(crate) registers: Vec<(u8, Linear)>,
    /// No call is followed, but code that sets a flag, by which the branch goes later.
    pub(crate) resume: Option<Resume>,
}

impl Called {
    pub(crate) fn places(&self) -> impl Iterator<Item = ReadablePlace> {
        self.registers.iter().filter_map(|(_, value)| value.place)
    }

    /// The sides of each comparison that alone would end the loop; one that is `None` stands for what can't be told.
    pub(crate) fn look(
        &self,
        register: &dyn Fn(u8) -> Option<u64>,
        load: LoadWord<'_>,
        known: &mut Option<Way>,
    ) -> Vec<Option<Sides>> {
        let snapshot = Snapshot::new(load, (self.code_at, &self.code));
        let mut registers = [None; 16];
        for (number, value) in &self.registers {
            registers[usize::from(*number)] = number_at(*value, register, load).map(Number::read);
        }
        let follow = |turned| Followed::new(&snapshot, registers, turned).go(self.call, self.branch, self.resume);
        let leaves = |outcome: &Outcome| Some(outcome.is_jump? == self.leaves_by_jump);
        let now = follow(None);
        if leaves(&now) == Some(true) {
            return vec![None];
        }
        // A function that does the work of a step may ask first whether there is one.
        let is_whole = now.is_jump.is_some() && now.decided.len() <= DECISIONS_MAX;
        let decided = if is_whole { &now.decided[..] } else { &now.decided[..now.decided.len().min(FIRST_DECISIONS)] };
        let compared: Vec<u64> = decided.iter().map(|sides| compared_at(sides.as_ref())).collect();
        let is_known = known.as_ref().is_some_and(|way| way.compared == compared);
        let way = match known {
            Some(way) if is_known => way,
            _ => {
                let turned = compared.iter().copied().enumerate();
                let ends = turned.map(|decision| leaves(&follow(Some(decision)))).collect();
                known.insert(Way { ends, compared })
            }
        };
        let told = decided.iter().zip(&way.ends).filter(|(_, ends)| **ends != Some(false));
        let mut all: Vec<Option<Sides>> = told.map(|(sides, ends)| sides.filter(|_| ends.is_some())).collect();
        if !is_whole || all.is_empty() {
            all.push(None);
        }
        all
    }
}

/// The comparisons from the call to the branch, as they were come to, and whether each of them would end the loop.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    compared: Vec<u64>,
    /// `None`: it is not known.
    ends: Vec<Option<bool>>,
}

/// Ways of calls as they were at the last look, which most often are those of the next.
#[derive(Debug, Default)]
pub(crate) struct Ways(Mutex<Vec<Option<Way>>>);

impl Ways {
    /// The sides at one look at all calls.
    pub(crate) fn look(
        &self,
        all: &[Called],
        register: &dyn Fn(u8) -> Option<u64>,
        load: LoadWord<'_>,
    ) -> Vec<Option<Sides>> {
        let mut ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.resize(all.len(), None);
        all.iter().zip(ways.iter_mut()).flat_map(|(called, way)| called.look(register, load, way)).collect()
    }
}

/// Tests are the same where they were never looked at.
impl PartialEq for Ways {
    fn eq(&self, _: &Ways) -> bool {
        true
    }
}

impl Clone for Ways {
    fn clone(&self) -> Ways {
        Ways::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::GoesOn;
    use iced_x86::code_asm::*;
    use proptest::prelude::*;

    const LOOP: u64 = 0x40_1000;
    const FUNCTION: u64 = 0x50_2000;
    const OBJECT: u64 = 0x7000_0000;

    /// `call FUNCTION; test al, al; jne out`: the loop is left if the function says so.
    fn loop_of(function: &[u8]) -> (Called, Vec<(u64, Vec<u8>)>) {
        let mut a = CodeAssembler::new(64).expect("64 bits are supported");
        let mut out = a.create_label();
        let mut put = || -> Result<(), iced_x86::IcedError> {
            a.call(FUNCTION)?;
            a.test(al, al)?;
            a.jne(out)?;
            a.set_label(&mut out)?;
            a.ret()
        };
        put().expect("the operands fit");
        let code = a.assemble(LOOP).expect("it is near");
        let place = ReadablePlace::Register(3);
        let called = Called {
            call: LOOP,
            branch: LOOP + 7,
            leaves_by_jump: true,
            code: code[..9].to_vec(),
            code_at: LOOP,
            registers: vec![(7, Linear::of(place))],
            resume: None,
        };
        (called, vec![(FUNCTION, function.to_vec())])
    }

    fn assembled(put: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> Vec<u8> {
        let mut a = CodeAssembler::new(64).expect("64 bits are supported");
        put(&mut a).expect("the operands fit");
        a.assemble(FUNCTION).expect("it is near")
    }

    fn look(function: &[u8], object: &[u8]) -> Vec<Option<Sides>> {
        let (called, mut memory) = loop_of(function);
        memory.push((OBJECT, object.to_vec()));
        let load = |address: u64, bytes: u32| {
            let (from, all) = memory.iter().find(|(from, all)| (*from..from + all.len() as u64).contains(&address))?;
            let at = (address - from) as usize;
            // Code ends where its last instruction does.
            let word: Vec<u8> = all[at..].iter().copied().chain([0x90; 8]).take(bytes as usize).collect();
            Some(word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
        };
        called.look(&|_| Some(OBJECT), &load, &mut None)
    }

    #[test]
    fn the_comparison_that_ends_the_loop_is_told() {
        let code = assembled(|a| {
            a.mov(eax, dword_ptr(rdi + 4))?;
            a.cmp(dword_ptr(rdi), eax)?;
            a.setge(al)?;
            a.ret()
        });
        let sides = Sides { left: 3.0, right: 9.0, goes_on: GoesOn::Below, is_whole: true, compared_at: FUNCTION + 3 };
        assert_eq!(look(&code, &[3, 0, 0, 0, 9, 0, 0, 0]), [Some(sides)]);
        assert_eq!(look(&code, &[9, 0, 0, 0, 9, 0, 0, 0]), [None], "it is being left");
        assert_eq!(look(&code, &[]), [None], "nothing can be read");
    }

    #[test]
    fn comparisons_that_end_nothing_are_no_tests() {
        // The flag decides only which constant is returned where the number is large enough.
        let code = assembled(|a| {
            let mut on = a.create_label();
            a.xor(eax, eax)?;
            a.cmp(dword_ptr(rdi), 10)?;
            a.jb(on)?;
            a.cmp(byte_ptr(rdi + 4), 0)?;
            a.setne(al)?;
            a.set_label(&mut on)?;
            a.ret()
        });
        let told =
            |object: &[u8]| look(&code, object).into_iter().flatten().map(|sides| sides.left).collect::<Vec<_>>();
        assert_eq!(told(&[3, 0, 0, 0, 0]), [0.0; 0], "both are needed");
        assert_eq!(told(&[3, 0, 0, 0, 1]), [3.0], "the flag is set already");
        assert_eq!(told(&[12, 0, 0, 0, 0]), [0.0], "the flag is waited for");
    }

    #[test]
    fn a_flag_is_told_by_the_code_that_sets_it() {
        let mut a = CodeAssembler::new(64).expect("64 bits are supported");
        let (mut on, mut out) = (a.create_label(), a.create_label());
        let mut put = || -> Result<(), iced_x86::IcedError> {
            a.xor(ebx, ebx)?;
            a.cmp(dword_ptr(rdi), 9)?;
            a.jl(on)?;
            a.mov(ebx, 1)?;
            a.set_label(&mut on)?;
            // Nobody follows what comes in between.
            a.ud2()?;
            a.test(ebx, ebx)?;
            a.jne(out)?;
            a.set_label(&mut out)?;
            a.ret()
        };
        put().expect("the operands fit");
        let code = a.assemble(LOOP).expect("it is near");
        let resume = Some(Resume { at: LOOP + 12, from: LOOP + 14 });
        let registers = vec![(7, Linear::of(ReadablePlace::Register(3)))];
        let called =
            Called { call: LOOP, branch: LOOP + 16, leaves_by_jump: true, code, code_at: LOOP, registers, resume };
        let at = |steps: u64| {
            let load = |address: u64, _| (address == OBJECT).then_some(steps);
            called.look(&|_| Some(OBJECT), &load, &mut None)
        };
        let sides = Sides { left: 3.0, right: 9.0, goes_on: GoesOn::Below, is_whole: true, compared_at: LOOP + 2 };
        assert_eq!(at(3), [Some(sides)]);
        assert_eq!(at(9), [None], "it is being left");
    }

    proptest! {
        /// Code and memory of a process that is about to change both.
        #[test]
        fn no_bytes_lead_it_astray(code in prop::collection::vec(any::<u8>(), 1..96), words in any::<u64>()) {
            let (mut called, _) = loop_of(&[]);
            called.resume = (words % 2 == 0).then_some(Resume { at: LOOP + words % 11, from: LOOP + words % 7 });
            let load = |address: u64, bytes: u32| match address.checked_sub(FUNCTION) {
                Some(at) if at < 64 => {
                    Some(code.iter().cycle().skip(at as usize).take(bytes as usize).fold(0, |word, byte| word << 8 | u64::from(*byte)))
                }
                _ => (!address.is_multiple_of(7)).then(|| words.rotate_left(address as u32 % 64)),
            };
            let seen = called.look(&|_| Some(FUNCTION), &load, &mut None);
            prop_assert!(!seen.is_empty() && seen.len() <= DECISIONS_MAX + 1);
        }
    }
}
