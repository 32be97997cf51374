//! Unwind tables for code that has none: rows in, the bytes of `.eh_frame` out, as every unwinder reads them.
//!
//! A table that was written is read again before it is handed out: one that doesn't say what it should is none.
//!
//! Next: `frames`, which reads tables; `trimtab-plan`'s `frames`, which makes the rows.

use crate::frames::KEPT_REGISTERS;
use gimli::write::{
    Address, CallFrameInstruction, CommonInformationEntry, EhFrame, EndianVec, Expression, FrameDescriptionEntry,
    FrameTable,
};
use gimli::{
    BaseAddresses, CieOrFde, DW_OP_plus, Encoding, EndianSlice, Format, LittleEndian, Register, UnwindSection,
};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// The register that stands for the return address, and the stack pointer.
const RETURN_ADDRESS: Register = Register(16);
const STACK_POINTER: Register = Register(7);
/// Offsets in rows are multiples of it, and this many bytes from the frame base lies a return address.
const WORD: i64 = 8;

/// How the frame base (CFA) is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseAt {
    /// A register's value, by its DWARF number, plus bytes.
    Register(u16, i64),
    /// The word that lies so many bytes from a register's value, plus bytes.
    Word {
        /// The register.
        register: u16,
        /// From its value to the word.
        at: i64,
        /// Added to the word.
        plus: i64,
    },
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptAt {
    /// In the register.
    Unchanged,
    /// In memory, so many bytes from the frame base.
    Base(i64),
    /// In memory, so many bytes from a register's value.
    Register(u16, i64),
}

/// How a caller is found, from some address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// The frame base.
    pub base: BaseAt,
    /// From it to the return address.
    pub return_address: i64,
    /// For each of [`KEPT_REGISTERS`].
    pub kept: [KeptAt; KEPT_REGISTERS.len()],
}

/// A stretch of code without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// Its addresses.
    pub range: Range<ProcAddr>,
    /// Rows with the addresses from which they hold, ascending, the first at the first address.
    pub rows: Vec<(ProcAddr, FrameRow)>,
}

/// The bytes of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTableBytes {
    /// Entries with absolute addresses, and a zero word as the end.
    pub bytes: Vec<u8>,
    /// Where the entry of each stretch begins in these bytes, in the order given.
    pub entries: Vec<u64>,
}

impl FrameRow {
    /// Right after a call.
    pub const CALLED: FrameRow = FrameRow {
        base: BaseAt::Register(STACK_POINTER.0, WORD),
        return_address: -WORD,
        kept: [KeptAt::Unchanged; KEPT_REGISTERS.len()],
    };
}

/// Writes a table; `None` if a row can't be written, as none of a compiler's is.
pub fn write_frames(entries: &[FrameEntry]) -> Option<FrameTableBytes> {
    let encoding = Encoding { format: Format::Dwarf32, version: 1, address_size: 8 };
    let mut common = CommonInformationEntry::new(encoding, 1, -WORD as i8, RETURN_ADDRESS);
    instructions(None, &FrameRow::CALLED).into_iter().for_each(|one| common.add_instruction(one));
    let mut table = FrameTable::default();
    let common = table.add_cie(common);
    for entry in entries {
        table.add_fde(common, description(entry)?);
    }
    let mut section = EhFrame::from(EndianVec::new(LittleEndian));
    table.write_eh_frame(&mut section).ok()?;
    let mut bytes = section.slice().to_vec();
    bytes.extend([0; 4]);
    let entries = places(&bytes, entries)?;
    Some(FrameTableBytes { bytes, entries })
}

fn description(entry: &FrameEntry) -> Option<FrameDescriptionEntry> {
    let length = u32::try_from(entry.range.end.0.checked_sub(entry.range.start.0)?).ok()?;
    let mut description = FrameDescriptionEntry::new(Address::Constant(entry.range.start.0), length);
    let mut before = FrameRow::CALLED;
    for (from, row) in &entry.rows {
        let offset = u32::try_from(from.0.checked_sub(entry.range.start.0)?).ok().filter(|offset| *offset < length)?;
        for instruction in instructions(Some(&before), row) {
            description.add_instruction(offset, instruction);
        }
        before = *row;
    }
    Some(description)
}

/// The changes from one row to the next; all of the row if there is none before it.
fn instructions(before: Option<&FrameRow>, row: &FrameRow) -> Vec<CallFrameInstruction> {
    let mut all = Vec::new();
    if before.is_none_or(|before| before.base != row.base) {
        all.push(base(row.base));
    }
    if before.is_none_or(|before| before.return_address != row.return_address) {
        all.push(CallFrameInstruction::Offset(RETURN_ADDRESS, row.return_address as i32));
    }
    for (index, number) in KEPT_REGISTERS.iter().enumerate() {
        let known = before.map_or(KeptAt::Unchanged, |before| before.kept[index]);
        if known != row.kept[index] {
            all.push(kept(Register(*number), row.kept[index]));
        }
    }
    all
}

fn base(base: BaseAt) -> CallFrameInstruction {
    match base {
        BaseAt::Register(register, offset) => CallFrameInstruction::Cfa(Register(register), offset as i32),
        BaseAt::Word { register, at, plus } => {
            let mut expression = Expression::new();
            expression.op_breg(Register(register), at);
            expression.op_deref();
            expression.op_consts(plus);
            expression.op(DW_OP_plus);
            CallFrameInstruction::CfaExpression(expression)
        }
    }
}

fn kept(register: Register, kept: KeptAt) -> CallFrameInstruction {
    match kept {
        KeptAt::Unchanged => CallFrameInstruction::SameValue(register),
        KeptAt::Base(offset) => CallFrameInstruction::Offset(register, offset as i32),
        KeptAt::Register(from, at) => {
            let mut expression = Expression::new();
            expression.op_breg(Register(from), at);
            CallFrameInstruction::Expression(register, expression)
        }
    }
}

/// Where the entries begin, if they are those that were to be written.
fn places(bytes: &[u8], wanted: &[FrameEntry]) -> Option<Vec<u64>> {
    let section = gimli::EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default();
    let mut entries = section.entries(&bases);
    let mut found = Vec::with_capacity(wanted.len());
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry: gimli::FrameDescriptionEntry<EndianSlice<'_, LittleEndian>> =
            partial.parse(gimli::EhFrame::cie_from_offset).ok()?;
        let wanted = wanted.get(found.len())?;
        if (entry.initial_address(), entry.end_address()) != (wanted.range.start.0, wanted.range.end.0) {
            return None;
        }
        found.push(entry.offset() as u64);
    }
    (found.len() == wanted.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{CfaRule, RegisterRule, UnwindContext};

    type Section<'a> = gimli::EhFrame<EndianSlice<'a, LittleEndian>>;

    /// As another reader finds the row for an address.
    fn read(bytes: &[u8], address: u64) -> Option<FrameRow> {
        let (section, bases) = (Section::new(bytes, LittleEndian), BaseAddresses::default());
        let entry = section.fde_for_address(&bases, address, Section::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &bases, &mut context, address).ok()?;
        // breg, its number of bytes, deref, consts, plus: as they are written here.
        let operations = |expression: &gimli::UnwindExpression<usize>| {
            let encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };
            let mut operations = expression.get(&section).expect("it is there").operations(encoding);
            let mut found = Vec::new();
            while let Some(operation) = operations.next().expect("an operation") {
                found.push(operation);
            }
            found
        };
        use gimli::Operation::{Deref, Plus, RegisterOffset, SignedConstant};
        let base = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => BaseAt::Register(register.0, *offset),
            CfaRule::Expression(expression) => match operations(expression)[..] {
                [RegisterOffset { register, offset, .. }, Deref { .. }, SignedConstant { value }, Plus] => {
                    BaseAt::Word { register: register.0, at: offset, plus: value }
                }
                ref other => panic!("{other:?}"),
            },
        };
        let Some(RegisterRule::Offset(return_address)) = row.register(RETURN_ADDRESS) else { return None };
        let kept = KEPT_REGISTERS.map(|number| match row.register(Register(number)) {
            None | Some(RegisterRule::SameValue) => KeptAt::Unchanged,
            Some(RegisterRule::Offset(offset)) => KeptAt::Base(offset),
            Some(RegisterRule::Expression(expression)) => match operations(&expression)[..] {
                [RegisterOffset { register, offset, .. }] => KeptAt::Register(register.0, offset),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        Some(FrameRow { base, return_address, kept })
    }

    fn rows() -> Vec<FrameRow> {
        let mut rows = vec![FrameRow::CALLED];
        for base in [
            BaseAt::Register(7, 200),
            BaseAt::Register(6, 16),
            BaseAt::Register(10, 0),
            BaseAt::Word { register: 7, at: -8, plus: 16 },
            BaseAt::Word { register: 7, at: 4096, plus: -24 },
        ] {
            let mut kept = [KeptAt::Unchanged; KEPT_REGISTERS.len()];
            rows.push(FrameRow { base, return_address: -8, kept });
            kept[1] = KeptAt::Base(-16);
            rows.push(FrameRow { base, return_address: -24, kept });
            (kept[0], kept[5]) = (KeptAt::Register(7, 40), KeptAt::Base(-2048));
            rows.push(FrameRow { base, return_address: -8, kept });
        }
        rows
    }

    /// Each address of each entry is read back with the row that was asked for, whatever row stood before it; the addresses
    /// around have none.
    #[test]
    fn rows_are_read_back_as_they_were_written() {
        let rows = rows();
        for step in 1..rows.len() {
            let entry = |number: u64| {
                let start = ProcAddr(0x7f00_0000_0000 + number * 0x10_0000);
                let rows = (0..rows.len()).map(|at| (start + 70 * at as u64, rows[at * step % rows.len()])).collect();
                FrameEntry { range: start..start + 70 * 16, rows }
            };
            let entries: Vec<FrameEntry> = (0..3).map(entry).collect();
            let table = write_frames(&entries).expect("compilers write such rows");
            assert_eq!(table.entries.len(), entries.len());
            for entry in &entries {
                for address in entry.range.start.0..entry.range.end.0 {
                    let row = entry.rows.iter().rev().find(|(from, _)| from.0 <= address).map(|(_, row)| *row);
                    assert_eq!(read(&table.bytes, address), row, "{address:#x}, every {step}.");
                }
                assert_eq!(read(&table.bytes, entry.range.start.0 - 1), None);
                assert_eq!(read(&table.bytes, entry.range.end.0), None);
            }
            assert_eq!(table.bytes[table.bytes.len() - 4..], [0; 4], "it has an end");
        }
    }

    #[test]
    fn what_no_table_can_say_is_refused() {
        let odd = FrameRow { return_address: -4, ..FrameRow::CALLED };
        let far = 0x1000..0x1000 + (1 << 33);
        for (name, range, from, row) in [
            ("an odd return address", 0x1000..0x1010, 0x1000, odd),
            ("a row before its entry", 0x1000..0x1010, 0xfff, FrameRow::CALLED),
            ("a row behind its entry", 0x1000..0x1010, 0x1010, FrameRow::CALLED),
            ("too long an entry", far, 0x1000, FrameRow::CALLED),
        ] {
            let range = ProcAddr(range.start)..ProcAddr(range.end);
            let refused = write_frames(&[FrameEntry { range, rows: vec![(ProcAddr(from), row)] }]);
            assert_eq!(refused, None, "{name}");
        }
    }
}
