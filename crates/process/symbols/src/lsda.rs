//! Exception tables (LSDA): which calls of a function may throw, and where its handlers begin.
//!
//! The layout is the one GCC and LLVM share for C++, Rust, Ada, D and cleanup in C: a header with three encodings,
//! then the call-site table. Types and actions behind it are not needed to know where control can arrive.
//!
//! Next: `frames`, which finds the table of a function.

use crate::{Error, Image};
use std::ops::Range;
use trimtab_types::FileAddr;

/// Call sites read from one table at most; the largest functions have some thousands.
const CALL_SITES_MAX: usize = 1 << 20;

/// DWARF's `DW_EH_PE_omit`: the value is absent.
const OMITTED: u8 = 0xff;
/// `DW_EH_PE_pcrel`: relative to the place where the value is stored.
const RELATIVE_TO_PLACE: u8 = 0x10;

/// One row of a call-site table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSiteRow {
    /// The calls it is about.
    pub range: Range<FileAddr>,
    /// Where an exception thrown there continues; `None` when it passes through.
    pub landing_pad: Option<FileAddr>,
    /// Index into the action table plus one; 0 is cleanup only.
    pub action: u64,
}

/// The call sites of the table at `lsda` of a function (or fragment) whose unwind entry begins at `start`.
///
/// # Errors
/// [`Error::BadExceptionTable`] for a table that is cut short, uses unknown encodings, or whose handlers lie outside
/// of executable memory.
pub(crate) fn call_sites(
    bytes: &[u8],
    image: &Image,
    lsda: FileAddr,
    start: FileAddr,
) -> Result<Vec<CallSiteRow>, Error> {
    let bad = |what: &str| Error::BadExceptionTable { addr: lsda, what: what.to_string() };
    let offset = image.file_offset_of(lsda).and_then(|offset| usize::try_from(offset).ok());
    let table = offset.and_then(|offset| bytes.get(offset..)).ok_or_else(|| bad("it lies outside of the file"))?;
    let mut reader = Reader { bytes: table, read: 0, addr: lsda.0 };
    let sites = table_from(&mut reader, start).map_err(bad)?;
    match sites.iter().filter_map(|site| site.landing_pad).find(|&pad| !image.is_executable(pad)) {
        Some(pad) => Err(bad(&format!("the handler at {pad} is not in executable memory"))),
        None => Ok(sites),
    }
}

fn table_from(reader: &mut Reader, start: FileAddr) -> Result<Vec<CallSiteRow>, &'static str> {
    let pads_base = match reader.byte()? {
        OMITTED => start.0,
        encoding => reader.pointer(encoding)?,
    };
    if reader.byte()? != OMITTED {
        reader.unsigned()?;
    }
    let encoding = reader.byte()?;
    if encoding & 0xf0 != 0 {
        return Err("call sites in an encoding no compiler writes");
    }
    let length = usize::try_from(reader.unsigned()?).map_err(|_| "a call-site table larger than memory")?;
    let end = reader.read.checked_add(length).filter(|&end| end <= reader.bytes.len());
    let end = end.ok_or("a call-site table longer than the file")?;
    let mut sites = Vec::new();
    while reader.read < end {
        if sites.len() == CALL_SITES_MAX {
            return Err("more call sites than any compiler writes");
        }
        sites.push(call_site(reader, encoding, start.0, pads_base)?);
    }
    Ok(sites)
}

fn call_site(reader: &mut Reader, encoding: u8, start: u64, pads_base: u64) -> Result<CallSiteRow, &'static str> {
    let first = start.checked_add(reader.value(encoding)?).ok_or("a call site beyond the address space")?;
    let last = first.checked_add(reader.value(encoding)?).ok_or("a call site beyond the address space")?;
    let landing_pad = match reader.value(encoding)? {
        0 => None,
        pad => Some(FileAddr(pads_base.wrapping_add(pad))),
    };
    Ok(CallSiteRow { range: FileAddr(first)..FileAddr(last), landing_pad, action: reader.unsigned()? })
}

/// Reads forward and never beyond the end.
struct Reader<'a> {
    bytes: &'a [u8],
    read: usize,
    /// File address of `bytes[0]`.
    addr: u64,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let byte = self.bytes.get(self.read).copied().ok_or("it is cut short")?;
        self.read += 1;
        Ok(byte)
    }

    /// Unsigned LEB128.
    fn unsigned(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err("a number of more than 64 bits");
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits")
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let field = self.bytes.get(self.read..).and_then(|rest| rest.first_chunk::<N>()).ok_or("it is cut short")?;
        self.read += N;
        Ok(*field)
    }

    /// A value in the format of the encoding's low four bits; negative ones as two's complement.
    fn value(&mut self, encoding: u8) -> Result<u64, &'static str> {
        match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => Ok(u64::from_le_bytes(self.fixed()?)),
            0x01 => self.unsigned(),
            0x02 => Ok(u64::from(u16::from_le_bytes(self.fixed()?))),
            0x03 => Ok(u64::from(u32::from_le_bytes(self.fixed()?))),
            0x0a => Ok(i64::from(i16::from_le_bytes(self.fixed()?)) as u64),
            0x0b => Ok(i64::from(i32::from_le_bytes(self.fixed()?)) as u64),
            _ => Err("an encoding no compiler writes"),
        }
    }

    fn pointer(&mut self, encoding: u8) -> Result<u64, &'static str> {
        let place = self.addr.wrapping_add(self.read as u64);
        let value = self.value(encoding)?;
        match encoding & 0xf0 {
            0 => Ok(value),
            RELATIVE_TO_PLACE => Ok(place.wrapping_add(value)),
            _ => Err("a base in an encoding no compiler writes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileAddr, Reader, table_from};

    const START: u64 = 0x1000;
    const TABLE: u64 = 0x8000;

    /// (case, table, landing pads of its call sites or what is wrong)
    type Row = (&'static str, &'static [u8], Result<&'static [Option<u64>], &'static str>);

    const ROWS: &[Row] = &[
        ("no call sites", &[0xff, 0xff, 0x01, 0], Ok(&[])),
        ("leb128", &[0xff, 0xff, 0x01, 4, 0, 5, 0x10, 0], Ok(&[Some(START + 0x10)])),
        ("passes through", &[0xff, 0xff, 0x01, 4, 0, 5, 0, 0], Ok(&[None])),
        ("long leb128", &[0xff, 0xff, 0x01, 5, 0, 5, 0x80, 0x01, 0], Ok(&[Some(START + 0x80)])),
        ("two", &[0xff, 0xff, 0x01, 8, 0, 5, 1, 0, 5, 5, 2, 1], Ok(&[Some(START + 1), Some(START + 2)])),
        ("with types", &[0xff, 0x9b, 9, 0x01, 4, 0, 5, 3, 1], Ok(&[Some(START + 3)])),
        ("four bytes", &[0xff, 0xff, 0x03, 13, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0], Ok(&[Some(START + 7)])),
        ("two bytes", &[0xff, 0xff, 0x02, 7, 0, 0, 1, 0, 0, 2, 0], Ok(&[Some(START + 0x200)])),
        ("own base", &[0x04, 0, 0x20, 0, 0, 0, 0, 0, 0, 0xff, 0x01, 4, 0, 5, 1, 0], Ok(&[Some(0x2001)])),
        ("relative base", &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 4, 0, 5, 1, 0], Ok(&[Some(TABLE + 1)])),
        ("nothing", &[], Err("it is cut short")),
        ("cut in the header", &[0xff, 0xff], Err("it is cut short")),
        ("longer than the file", &[0xff, 0xff, 0x01, 5, 0, 5, 1, 0], Err("a call-site table longer than the file")),
        ("cut in a site", &[0xff, 0xff, 0x01, 3, 0, 5, 1], Err("it is cut short")),
        ("unknown format", &[0xff, 0xff, 0x07, 4, 0, 5, 1, 0], Err("an encoding no compiler writes")),
        ("relative sites", &[0xff, 0xff, 0x11, 0], Err("call sites in an encoding no compiler writes")),
        ("indirect base", &[0x9b, 0, 0, 0, 0, 0xff, 1, 0], Err("a base in an encoding no compiler writes")),
        (
            "a number that never ends",
            &[0xff, 0xff, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            Err("a number of more than 64 bits"),
        ),
        (
            "beyond the address space",
            &[0xff, 0xff, 0x01, 13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 0, 0],
            Err("a call site beyond the address space"),
        ),
    ];

    #[test]
    fn tables() {
        for (case, bytes, expected) in ROWS {
            let mut reader = Reader { bytes, read: 0, addr: TABLE };
            let found = table_from(&mut reader, FileAddr(START));
            let pads =
                found.map(|sites| sites.iter().map(|site| site.landing_pad.map(|pad| pad.0)).collect::<Vec<_>>());
            assert_eq!(pads.as_deref(), expected.as_deref(), "{case}");
        }
    }

    #[test]
    fn ranges_are_relative_to_the_function() {
        let mut reader = Reader { bytes: &[0xff, 0xff, 0x01, 4, 0x10, 5, 0, 2], read: 0, addr: TABLE };
        let sites = table_from(&mut reader, FileAddr(START)).expect("a sound table");
        assert_eq!(sites[0].range, FileAddr(START + 0x10)..FileAddr(START + 0x15));
        assert_eq!(sites[0].action, 2);
    }
}
