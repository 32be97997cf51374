//! Any rows as an unwind table, read back by another reader, and any bytes as code of ours whose stack is followed.
//!
//! The first byte says how many stretches of code there are; then come their lengths and rows. The rest is the code. A
//! table is refused or says the same for each address as the rows it was made from.
//!
//! Next: `trimtab-symbols`' `frame_table` and `trimtab-x86`'s `stack_course`.

use crate::hostile::Target;
use anyhow::Result;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, Encoding, EndianSlice, Expression, Format, LittleEndian, Operation, Register,
    RegisterRule, UnwindContext, UnwindSection,
};
use std::collections::BTreeMap;
use trimtab_symbols::{BaseAt, FrameEntry, FrameRow, KEPT_REGISTERS, KeptAt, write_frames};
use trimtab_types::ProcAddr;
use trimtab_x86::{OurCode, StackOrigin, follow};

const CODE_AT: ProcAddr = ProcAddr(0x7f00_0000_0000);
const RETURN_ADDRESS: Register = Register(16);

/// The target.
pub struct Tables;

impl Target for Tables {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let rows = [2u8, 40, 2, 0, 0, 7, 16, 0, 0, 1, 9, 3, 8, 6, 24, 1, 2, 3, 4, 5, 0, 30, 1, 0, 0, 1, 8, 2, 1];
        let island = [0x50, 0x41, 0x50, 0xe8, 0, 0, 1, 0, 0x41, 0x58, 0x58, 0xc3];
        Ok(vec![rows.to_vec(), [&[0][..], &island].concat(), [&rows[..], &island].concat()])
    }

    fn length_max(&self) -> usize {
        2048
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let mut input = Input(input);
        let entries = input.entries();
        let written = write_frames(&entries);
        if let Some(table) = &written {
            assert_eq!(table.entries.len(), entries.len());
            let (section, bases) = (Section::new(&table.bytes, LittleEndian), BaseAddresses::default());
            for (entry, at) in entries.iter().zip(&table.entries) {
                let read = section.fde_from_offset(&bases, (*at as usize).into(), Section::cie_from_offset);
                check(&section, &bases, &read.expect("an entry is where it is said to be"), entry);
            }
        }
        followed(input.0);
        written.is_some()
    }
}

type Section<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;
type Read<'a> = gimli::FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>;

fn check(section: &Section<'_>, bases: &BaseAddresses, read: &Read<'_>, entry: &FrameEntry) {
    assert_eq!(ProcAddr(read.initial_address())..ProcAddr(read.end_address()), entry.range);
    for address in read.initial_address()..read.end_address() {
        let wanted = entry.rows.iter().rev().find(|(from, _)| from.0 <= address).map(|(_, row)| *row);
        let mut context = UnwindContext::new();
        let row = read.unwind_info_for_address(section, bases, &mut context, address).expect("it has a row");
        assert_eq!(Some(row_of(section, row)), wanted, "{address:#x}");
    }
}

fn row_of(section: &Section<'_>, row: &gimli::UnwindTableRow<usize>) -> FrameRow {
    let expression = |expression: &gimli::UnwindExpression<usize>| expression.get(section).expect("it is in the table");
    let base = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => BaseAt::Register(register.0, *offset),
        CfaRule::Expression(word) => word_of(expression(word)),
    };
    let Some(RegisterRule::Offset(return_address)) = row.register(RETURN_ADDRESS) else { panic!("no return address") };
    let kept = KEPT_REGISTERS.map(|number| match row.register(Register(number)) {
        None | Some(RegisterRule::SameValue) => KeptAt::Unchanged,
        Some(RegisterRule::Offset(offset)) => KeptAt::Base(offset),
        Some(RegisterRule::Expression(place)) => match operations(expression(&place))[..] {
            [Operation::RegisterOffset { register, offset, .. }] => KeptAt::Register(register.0, offset),
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    FrameRow { base, return_address, kept }
}

fn word_of(expression: Expression<EndianSlice<'_, LittleEndian>>) -> BaseAt {
    use Operation::{Deref, Plus, RegisterOffset, SignedConstant};
    match operations(expression)[..] {
        [RegisterOffset { register, offset, .. }, Deref { .. }, SignedConstant { value }, Plus] => {
            BaseAt::Word { register: register.0, at: offset, plus: value }
        }
        ref other => panic!("{other:?}"),
    }
}

fn operations<'a>(
    expression: Expression<EndianSlice<'a, LittleEndian>>,
) -> Vec<Operation<EndianSlice<'a, LittleEndian>>> {
    let encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };
    let mut operations = expression.operations(encoding);
    let mut found = Vec::new();
    while let Some(operation) = operations.next().expect("an operation") {
        found.push(operation);
    }
    found
}

/// Following code ends, and says nothing of what is not there.
fn followed(code: &[u8]) {
    let (entries, copies) = ([(CODE_AT, StackOrigin::Called)], BTreeMap::from([(CODE_AT + 5, ProcAddr(0x40_0000))]));
    let course = follow(&OurCode { at: CODE_AT, bytes: code, entries: &entries, copies: &copies });
    for (range, _) in course.states.values() {
        assert!(range.start >= CODE_AT && range.end <= CODE_AT + code.len() as u64 && !range.is_empty());
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> i64 {
        let (high, low) = (self.byte() as i8, self.byte());
        i64::from(high) << 8 | i64::from(low)
    }

    fn register(&mut self) -> u16 {
        u16::from(self.byte() % 16)
    }

    fn entries(&mut self) -> Vec<FrameEntry> {
        let count = self.byte() % 4;
        let mut start = CODE_AT;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (length, rows) = (u64::from(self.byte()), self.byte() % 5);
            let mut from = start;
            let mut entry = FrameEntry { range: start..start + length, rows: Vec::new() };
            for _ in 0..=rows {
                entry.rows.push((from, self.row()));
                from = from + (u64::from(self.byte()) + 1);
            }
            start = start + length;
            entries.push(entry);
        }
        entries
    }

    fn row(&mut self) -> FrameRow {
        let base = match self.byte() % 2 {
            0 => BaseAt::Register(self.register(), self.number()),
            _ => BaseAt::Word { register: self.register(), at: self.number(), plus: self.number() },
        };
        let kept = KEPT_REGISTERS.map(|_| match self.byte() % 3 {
            0 => KeptAt::Unchanged,
            1 => KeptAt::Base(self.number()),
            _ => KeptAt::Register(self.register(), self.number()),
        });
        FrameRow { base, return_address: self.number(), kept }
    }
}
