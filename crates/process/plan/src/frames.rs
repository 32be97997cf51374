//! Unwind tables for the code of a plan, and the code that hands them to the program's unwinder.
//!
//! A thread may be interrupted in an island by a sampler that walks its stack, or be cancelled there. The function's own
//! table says how its caller is found at each displaced instruction; what our code has pushed and changed since is read
//! from our code itself. Where either is not known the address is left out, and a walk ends there as without a table.
//! Registers that a function must give back are part of it: clean-ups of a cancelled thread need them.
//!
//! The table is no part of the unwinder's own lists: those take a lock from the first entry on, until the program ends,
//! and a sampler that interrupts its own thread there waits forever. The function that all its walks ask is patched
//! instead, as any other, so that taking the patch out takes the table out.
//!
//! Next: `trimtab-x86`'s `stack_course` for our code, `frame_lookup` for the patch; `trimtab-symbols`' `frame_table`.

use crate::{ArenaPlace, Entries, Error, ISLAND_ALIGNMENT, Piece, PieceRole, Plan, PlannedFunction};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_symbols::{
    BaseAt, CallerRules, FrameBase, FrameEntry, FrameRow, FrameTableBytes, KEPT_REGISTERS, Kept, KeptAt, write_frames,
};
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Course, ExitKind, FrameLookup, HeldValue, ISLAND_OVERHEAD_MAX, LOOKUP_HEAD_WORDS, LOOKUP_ROW_WORDS, OurCode,
    STACK_POINTER, StackOrigin, StackPlace, StackState, follow,
};

/// Numbers of general registers in DWARF, by their numbers in machine code.
const DWARF_NUMBERS: [u16; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
/// Bytes of a table, at most, for each byte of code that it is about, and for each place.
const TABLE_TO_CODE_MAX: u64 = 2;
const WORD: i64 = 8;
/// Rounds in which a piece's own calls lead to more of its functions.
const ROUNDS_MAX: usize = 16;

/// The function's own row at an address.
pub type FrameRules<'a> = dyn Fn(ProcAddr) -> Option<CallerRules> + 'a;

/// The table that a plan has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Where it lies.
    pub table: Range<ProcAddr>,
    /// Patches by which it is found: the plan's last ones.
    pub patches: usize,
    /// Every instruction of the plan's code is described.
    pub is_whole: bool,
}

/// Bytes that the table of `code_bytes` of code needs at most.
pub fn frames_needed(code_bytes: u64) -> u64 {
    code_bytes * TABLE_TO_CODE_MAX
}

impl Plan {
    /// Adds the table of all code and the patches of the functions that look for entries; `None` if there is none.
    /// `rules` gives the program's own rows.
    ///
    /// # Errors
    /// As [`crate::build`]: then the plan is of no use any more.
    pub fn add_frames(
        &mut self,
        functions: &[PlannedFunction],
        places: &[ArenaPlace],
        rules: &FrameRules<'_>,
    ) -> Result<Option<Frames>, Error> {
        let lookups: Vec<&PlannedFunction> = functions.iter().filter(|function| function.finds_frames).collect();
        let Some(arena) = lookups.first().map(|lookup| lookup.arena) else { return Ok(None) };
        let place = places[arena];
        let islands = lookups
            .iter()
            .flat_map(|lookup| &lookup.sites)
            .map(|site| ISLAND_OVERHEAD_MAX + (site.displaced.len() + site.carrier.len()) * 8 + 2 * ISLAND_ALIGNMENT);
        let table_at = (self.arenas[arena].len() + islands.sum::<usize>()).next_multiple_of(ISLAND_ALIGNMENT);
        let table = place.code + table_at as u64;
        let patches_before = self.patches.len();
        for lookup in &lookups {
            for site in &lookup.sites {
                let island = |at: ProcAddr| FrameLookup { table }.island(&site.site, &site.displaced, at);
                self.add_site(lookup, site, places[lookup.arena], (&island, Vec::new()), &mut Entries::default())?;
            }
        }
        let (entries, is_whole) = self.frame_entries(rules);
        let Some(written) = write_frames(&entries).filter(|_| !entries.is_empty()) else {
            return Err(Error::Body { function: lookups[0].name.clone(), reason: "no table can be written".into() });
        };
        let bytes = with_index(&entries, &written, table);
        let code = &mut self.arenas[arena];
        code.resize(table_at, 0xcc);
        code.extend_from_slice(&bytes);
        self.check(places)?;
        let patches = self.patches.len() - patches_before;
        Ok(Some(Frames { table: table..table + bytes.len() as u64, patches, is_whole }))
    }

    /// Entries for all code, in the order of their addresses, and whether nothing was left out.
    pub fn frame_entries(&self, rules: &FrameRules<'_>) -> (Vec<FrameEntry>, bool) {
        let mut made = Made { entries: Vec::new(), is_whole: true, rules, exits: &self.exits };
        let mut called = BTreeSet::new();
        let (shared, own): (Vec<&Piece>, Vec<&Piece>) =
            self.pieces.iter().partition(|piece| piece.role == PieceRole::Routines);
        for piece in own {
            let course = self.course(piece, &[self.entry_of(piece)]);
            called.extend(course.called.iter().copied());
            made.add(&course);
        }
        for piece in shared {
            made.add(&self.course_of_routines(piece, &mut called));
        }
        made.entries.sort_by_key(|entry| entry.range.start);
        (made.entries, made.is_whole)
    }

    fn entry_of(&self, piece: &Piece) -> (ProcAddr, StackOrigin) {
        let at_patch = |patch: usize| StackOrigin::Instruction(self.patches[patch].address);
        match piece.role {
            PieceRole::Island { patch, entry, .. } => (entry, at_patch(patch)),
            PieceRole::Carrier { patch } => (piece.range.start, at_patch(patch)),
            PieceRole::Calibration | PieceRole::Routines => (piece.range.start, StackOrigin::Called),
        }
    }

    fn course(&self, piece: &Piece, entries: &[(ProcAddr, StackOrigin)]) -> Course {
        follow(&OurCode { at: piece.range.start, bytes: self.bytes_of(piece), entries, copies: &self.copies })
    }

    fn bytes_of(&self, piece: &Piece) -> &[u8] {
        // Routines begin their arenas, and all other pieces follow one behind the other.
        let base =
            self.pieces.iter().find(|other| other.arena == piece.arena).map_or(ProcAddr(0), |first| first.range.start);
        let (from, to) = ((piece.range.start - base) as usize, (piece.range.end - base) as usize);
        self.arenas[piece.arena].get(from..to).unwrap_or(&[])
    }

    /// Routines that are called, by islands or by each other.
    fn course_of_routines(&self, piece: &Piece, called: &mut BTreeSet<ProcAddr>) -> Course {
        let mut known = 0;
        for _ in 0..ROUNDS_MAX {
            let entries: Vec<(ProcAddr, StackOrigin)> =
                called.range(piece.range.clone()).map(|address| (*address, StackOrigin::Called)).collect();
            let course = self.course(piece, &entries);
            called.extend(course.called.iter().copied());
            if entries.len() == known {
                return course;
            }
            known = entries.len();
        }
        Course::default()
    }
}

/// Rows that are being made.
struct Made<'a> {
    entries: Vec<FrameEntry>,
    is_whole: bool,
    rules: &'a FrameRules<'a>,
    exits: &'a BTreeMap<ProcAddr, ExitKind>,
}

impl Made<'_> {
    /// The program's own row. Compilers don't say that a register has its caller's value again when it was popped: where
    /// it was saved is said to be below the stack pointer then, where our code writes. At a `ret` all have theirs, and a
    /// jump changes none, so that where it leads says it.
    fn rules_at(&self, address: ProcAddr) -> Option<CallerRules> {
        let mut rules = (self.rules)(address)?;
        let after = match self.exits.get(&address) {
            Some(ExitKind::Ret { .. }) => Some(called()),
            Some(ExitKind::TailJump { target } | ExitKind::ConditionalTailJump { target }) => (self.rules)(*target),
            _ => None,
        };
        let after = after.filter(|after| rules.cfa == called().cfa && after.cfa == rules.cfa);
        for (kept, after) in rules.kept.iter_mut().zip(after.into_iter().flat_map(|after| after.kept)) {
            if matches!(kept, Kept::At(offset) if *offset < -WORD) && after == Kept::Unchanged {
                *kept = after;
            }
        }
        Some(rules)
    }

    fn add(&mut self, course: &Course) {
        for (range, state) in course.states.values() {
            let rules = match state.origin {
                StackOrigin::Called => Some(called()),
                StackOrigin::Instruction(address) => self.rules_at(address),
            };
            match rules.and_then(|rules| row(state, &rules)) {
                Some(row) => self.put(range, row),
                None => self.is_whole = false,
            }
        }
    }

    fn put(&mut self, range: &Range<ProcAddr>, row: FrameRow) {
        match self.entries.last_mut() {
            Some(last) if last.range.end == range.start => {
                last.range.end = range.end;
                if last.rows.last().is_none_or(|(_, before)| *before != row) {
                    last.rows.push((range.start, row));
                }
            }
            // Two instructions share bytes.
            Some(last) if last.range.contains(&range.start) => self.is_whole = false,
            _ => self.entries.push(FrameEntry { range: range.clone(), rows: vec![(range.start, row)] }),
        }
    }
}

/// Right after a call, for functions of ours.
fn called() -> CallerRules {
    let stack = DWARF_NUMBERS[STACK_POINTER];
    let cfa = FrameBase { register: stack, offset: WORD, is_in_memory: false };
    CallerRules { cfa, return_address: Some(-WORD), kept: [Kept::Unchanged; KEPT_REGISTERS.len()] }
}

/// The row in front of an instruction of ours, from the program's own at its origin.
fn row(state: &StackState, rules: &CallerRules) -> Option<FrameRow> {
    // Functions that have aligned their stack keep the base in memory: those are left out.
    let FrameBase { register, offset, is_in_memory: false } = rules.cfa else { return None };
    let register = DWARF_NUMBERS.iter().position(|number| *number == register)?;
    let frame = (register == STACK_POINTER).then_some(StackPlace::Origin(offset));
    let base = match frame {
        Some(frame) => base_at(state, frame),
        None => base_of(state, register, offset),
    };
    let mut kept = [KeptAt::Unchanged; KEPT_REGISTERS.len()];
    for ((kept, rule), number) in kept.iter_mut().zip(rules.kept).zip(KEPT_REGISTERS) {
        *kept = kept_at(state, frame, rule, number)?;
    }
    Some(FrameRow { base: base?, return_address: rules.return_address.filter(is_aligned)?, kept })
}

fn is_aligned(offset: &i64) -> bool {
    offset % WORD == 0
}

/// The frame base is a place on the stack that is known by itself.
fn base_at(state: &StackState, frame: StackPlace) -> Option<BaseAt> {
    // Registers that calls give back come first among those that are not the stack pointer.
    let in_order = [STACK_POINTER, 5, 3, 12, 13, 14, 15].into_iter().chain([0, 1, 2, 6, 7, 8, 9, 10, 11]);
    let mut registers = in_order.filter_map(|register| Some((register, frame.since(state.place_in(register)?)?)));
    if let Some((register, plus)) = registers.next() {
        return Some(BaseAt::Register(DWARF_NUMBERS[register], plus));
    }
    let stack = state.stack()?;
    let mut words = state.words.iter().filter_map(|(place, held)| match held {
        HeldValue::Place(held) => Some((place.since(stack)?, frame.since(*held)?)),
        HeldValue::Register(_) => None,
    });
    let (at, plus) = words.next()?;
    Some(BaseAt::Word { register: DWARF_NUMBERS[STACK_POINTER], at, plus })
}

/// The frame base is counted from what a register held.
fn base_of(state: &StackState, register: usize, offset: i64) -> Option<BaseAt> {
    let wanted = HeldValue::Register(register);
    if let Some(now) = state.registers.iter().position(|held| *held == Some(wanted)) {
        return Some(BaseAt::Register(DWARF_NUMBERS[now], offset));
    }
    let at = saved_at(state, wanted)?;
    Some(BaseAt::Word { register: DWARF_NUMBERS[STACK_POINTER], at, plus: offset })
}

/// From the stack pointer to a word that holds something.
fn saved_at(state: &StackState, wanted: HeldValue) -> Option<i64> {
    let stack = state.stack()?;
    state.words.iter().filter(|(_, held)| **held == wanted).find_map(|(place, _)| place.since(stack))
}

fn kept_at(state: &StackState, frame: Option<StackPlace>, rule: Kept, number: u16) -> Option<KeptAt> {
    match rule {
        Kept::Lost | Kept::AtRegister(..) => None,
        Kept::At(offset) => {
            (is_aligned(&offset) && is_still_there(state, frame, offset)).then_some(KeptAt::Base(offset))
        }
        Kept::Unchanged => {
            let register = DWARF_NUMBERS.iter().position(|known| *known == number)?;
            let wanted = HeldValue::Register(register);
            if state.registers[register] == Some(wanted) {
                return Some(KeptAt::Unchanged);
            }
            let in_frame = |(place, held): (&StackPlace, &HeldValue)| (*held == wanted).then(|| place.since(frame?))?;
            if let Some(offset) = state.words.iter().find_map(in_frame) {
                return Some(KeptAt::Base(offset)).filter(|_| is_aligned(&offset));
            }
            Some(KeptAt::Register(DWARF_NUMBERS[STACK_POINTER], saved_at(state, wanted)?))
        }
    }
}

/// True if what the function has saved so far from its frame's base can't have been written over by us.
fn is_still_there(state: &StackState, frame: Option<StackPlace>, offset: i64) -> bool {
    let (Some(StackPlace::Origin(base)), Some(StackPlace::Origin(stack))) = (frame, state.stack()) else { return true };
    let saved = base.wrapping_add(offset);
    if saved < 0 { stack == 0 } else { saved >= stack }
}

/// The table as the patch reads it: first address, end, number of rows; rows; and the entries they lead to.
fn with_index(entries: &[FrameEntry], written: &FrameTableBytes, table: ProcAddr) -> Vec<u8> {
    let index_bytes = (LOOKUP_HEAD_WORDS + LOOKUP_ROW_WORDS * entries.len()) * WORD as usize;
    let first = entries.first().map_or(0, |entry| entry.range.start.0);
    let end = entries.last().map_or(0, |entry| entry.range.end.0);
    let mut words = vec![first, end, entries.len() as u64];
    for (entry, at) in entries.iter().zip(&written.entries) {
        words.extend([entry.range.start, entry.range.end, table + (index_bytes as u64 + at)].map(|address| address.0));
    }
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend_from_slice(&written.bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Patch, PatchRole};

    const CODE: ProcAddr = ProcAddr(0x7f00_0000_0000);
    const FUNCTION: ProcAddr = ProcAddr(0x40_0000);
    /// push rax; push r8; call far; pop r8; pop rax
    const PROBE: [u8; 12] = [0x50, 0x41, 0x50, 0xe8, 0, 0, 1, 0, 0x41, 0x58, 0x58, 0x90];

    /// A plan of one island or carrier with these bytes, to which the instruction at [`FUNCTION`] leads.
    fn plan(bytes: &[u8], copies: &[(u64, ProcAddr)], is_carrier: bool) -> Plan {
        let (original, patched) = (vec![0; 5], vec![0xe9, 0, 0, 0, 0]);
        let patch = Patch { address: FUNCTION, original, patched, function: "f".into(), role: PatchRole::Entry };
        let role = match is_carrier {
            true => PieceRole::Carrier { patch: 0 },
            false => PieceRole::Island { patch: 0, entry: CODE, bodies: Vec::new() },
        };
        Plan {
            arenas: vec![bytes.to_vec()],
            patches: vec![patch],
            pieces: vec![Piece { arena: 0, range: CODE..CODE + bytes.len() as u64, role }],
            copies: copies.iter().map(|(copy, original)| (CODE + *copy, *original)).collect(),
            ..Plan::default()
        }
    }

    fn rules(cfa: (u16, i64), rbp: Kept) -> CallerRules {
        let mut kept = [Kept::Unchanged; KEPT_REGISTERS.len()];
        kept[1] = rbp;
        let (register, offset) = cfa;
        let cfa = FrameBase { register, offset, is_in_memory: false };
        CallerRules { cfa, return_address: Some(-8), kept }
    }

    /// Frame bases by offset, where an instruction has one.
    fn bases(plan: &Plan, rules: &FrameRules<'_>) -> (Vec<(u64, BaseAt)>, bool) {
        let (entries, is_whole) = plan.frame_entries(rules);
        let rows = entries.into_iter().flat_map(|entry| entry.rows);
        (rows.map(|(from, row)| (from - CODE, row.base)).collect(), is_whole)
    }

    #[test]
    fn what_is_pushed_lies_between_the_stack_pointer_and_the_frame() {
        // The probe; then a copy of `push rbp; mov rbp, rsp`, and back.
        let code = [&PROBE[..], &[0x55, 0x48, 0x89, 0xe5, 0xe9, 0, 0, 0, 1]].concat();
        let plan = plan(&code, &[(12, FUNCTION), (13, FUNCTION + 1)], false);
        let own = |address: ProcAddr| match address - FUNCTION {
            0 => Some(rules((7, 8), Kept::Unchanged)),
            1 => Some(rules((7, 16), Kept::At(-16))),
            4 => Some(rules((6, 16), Kept::At(-16))),
            _ => None,
        };
        let (rows, is_whole) = bases(&plan, &own);
        let stack = |depth: i64| BaseAt::Register(7, 8 + depth);
        let wanted = [(0, 0), (1, 8), (3, 16), (10, 8), (11, 0), (13, 8)].map(|(at, depth)| (at, stack(depth)));
        assert_eq!(rows[..6], wanted);
        assert_eq!(rows[6..], [(16, BaseAt::Register(6, 16))], "from there on the frame pointer tells");
        assert!(is_whole);
    }

    /// Registers that a function gives back are where it has them, or where our code has put them.
    #[test]
    fn registers_are_found_where_they_were_saved() {
        // push rbx; mov ebx, 1; call far; pop rbx; ret
        let code = [0x53, 0xbb, 1, 0, 0, 0, 0xe8, 0, 0, 1, 0, 0x5b, 0xc3];
        let plan = plan(&code, &[], false);
        let rbx_at = |at: u64, own: &FrameRules<'_>| {
            let (entries, _) = plan.frame_entries(own);
            let rows = entries.iter().flat_map(|entry| &entry.rows).rev();
            rows.into_iter().find(|(from, _)| *from <= CODE + at).map(|(_, row)| row.kept[0])
        };
        let by_stack = |_| Some(rules((7, 24), Kept::At(-16)));
        let by_frame_pointer = |_| Some(rules((6, 16), Kept::At(-16)));
        for (at, wanted, otherwise) in [
            (0, KeptAt::Unchanged, KeptAt::Unchanged),
            (6, KeptAt::Base(-32), KeptAt::Register(7, 0)),
            (11, KeptAt::Base(-32), KeptAt::Register(7, 0)),
            (12, KeptAt::Unchanged, KeptAt::Unchanged),
        ] {
            assert_eq!(rbx_at(at, &by_stack), Some(wanted), "at {at}");
            assert_eq!(rbx_at(at, &by_frame_pointer), Some(otherwise), "at {at}, by frame pointer");
        }
    }

    /// An aligned stack: the frame is found by the register that remembers it, or by the word where that was put.
    #[test]
    fn frames_above_an_aligned_stack_are_found() {
        // mov r8, rsp; and rsp, -64; push r8; xor r8d, r8d; push rbp; xor ebp, ebp; ret
        let code = [0x49, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xc0, 0x41, 0x50, 0x45, 0x31, 0xc0, 0x55, 0x31, 0xed, 0xc3];
        let plan = plan(&code, &[], false);
        let (rows, _) = bases(&plan, &|_| Some(rules((7, 24), Kept::At(-16))));
        let word = |at| BaseAt::Word { register: 7, at, plus: 24 };
        let wanted = [(0, BaseAt::Register(7, 24)), (7, BaseAt::Register(8, 24)), (12, word(0)), (13, word(8))];
        assert_eq!(rows, wanted);
        // Counted from the frame pointer, which is saved and lost.
        let (rows, _) = bases(&plan, &|_| Some(rules((6, 16), Kept::At(-16))));
        let wanted = [(0, BaseAt::Register(6, 16)), (15, BaseAt::Word { register: 7, at: 0, plus: 16 })];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn carriers_have_the_rows_of_what_they_carry() {
        // Copies of push rax; pop rcx; and back.
        let plan = plan(&[0x50, 0x59, 0xe9, 0, 0, 0, 1], &[(0, FUNCTION), (1, FUNCTION + 1)], true);
        let own = |address| Some(rules((7, if address == FUNCTION + 1 { 32 } else { 24 }), Kept::Unchanged));
        let wanted = [(0, 24), (1, 32), (2, 24)].map(|(at, offset)| (at, BaseAt::Register(7, offset)));
        assert_eq!(bases(&plan, &own), (wanted.to_vec(), true));
    }

    /// A row that may be wrong is none: no table of the function's own, a calculation in it, and a register whose place
    /// our code may have written over.
    #[test]
    fn what_is_not_certain_is_left_out() {
        let plan = plan(&PROBE, &[], false);
        let lost = rules((7, 8), Kept::Lost);
        let below = rules((7, 8), Kept::At(-24));
        let odd = CallerRules { return_address: Some(-4), ..rules((7, 8), Kept::Unchanged) };
        let outermost = CallerRules { return_address: None, ..rules((7, 8), Kept::Unchanged) };
        for (name, own, described) in [
            ("no table", None, 0),
            ("a calculation", Some(lost), 0),
            ("in the red zone", Some(below), 2),
            ("an odd place", Some(odd), 0),
            ("nobody called", Some(outermost), 0),
        ] {
            let (rows, is_whole) = bases(&plan, &|_| own.clone());
            assert_eq!((rows.len(), is_whole), (described, false), "{name}: {rows:?}");
        }
    }

    /// Compilers say of a register that was popped that it is where it was saved, below the stack pointer by now.
    #[test]
    fn what_is_popped_before_an_exit_is_in_its_register() {
        // pop rbx; the probe; ret
        let code = [&[0x5b][..], &PROBE, &[0xc3]].concat();
        let own = |address| Some(rules((7, if address == FUNCTION { 16 } else { 8 }), Kept::At(-16)));
        for (name, exit, target, kept) in [
            ("returns", ExitKind::Ret { pop: 0 }, 0, Some(KeptAt::Unchanged)),
            ("jumps to a function", ExitKind::TailJump { target: ProcAddr(1) }, 1, Some(KeptAt::Unchanged)),
            ("jumps within", ExitKind::TailJump { target: ProcAddr(2) }, 2, None),
            ("jumps anywhere", ExitKind::IndirectTailJump, 0, None),
        ] {
            let mut plan = plan(&code, &[(0, FUNCTION), (13, FUNCTION + 1)], false);
            plan.exits.insert(FUNCTION + 1, exit);
            let all = |address| if address == ProcAddr(1) { Some(called()) } else { own(address) };
            let (entries, is_whole) = plan.frame_entries(&all);
            let row = entries.iter().flat_map(|entry| &entry.rows).find(|(from, _)| *from == CODE + 4);
            assert_eq!(row.map(|(_, row)| row.kept[1]), kept, "{name} ({target})");
            assert_eq!(is_whole, kept.is_some(), "{name}");
        }
    }

    #[test]
    fn the_index_leads_to_the_entries() {
        let entry = |from: ProcAddr| FrameEntry { range: from..from + 16, rows: vec![(from, FrameRow::CALLED)] };
        let entries = [entry(CODE), entry(CODE + 64)];
        let written = write_frames(&entries).expect("it can be written");
        let bytes = with_index(&entries, &written, ProcAddr(0x1000));
        let word = |index: usize| u64::from_le_bytes(bytes[8 * index..8 * index + 8].try_into().expect("a word"));
        assert_eq!([word(0), word(1), word(2)], [CODE.0, CODE.0 + 80, 2]);
        for (number, entry) in entries.iter().enumerate() {
            let row = 3 + 3 * number;
            assert_eq!([word(row), word(row + 1)], [entry.range.start.0, entry.range.end.0]);
            assert_eq!(word(row + 2), 0x1000 + 9 * 8 + written.entries[number]);
        }
    }
}
