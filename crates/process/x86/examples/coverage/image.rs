//! A file's functions, fragments, landing pads and tables, read with ordinary crates for `coverage` alone.
//!
//! The project's own reader is the crate `symbols`; this one keeps the example free of it.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Pointer, Register, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, SectionFlags, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{ReadMemory, Stretches, direct_branches};

type Error = Box<dyn std::error::Error>;
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A function's name and main range.
#[derive(Clone)]
pub struct Bounds {
    pub name: String,
    pub range: Range<u64>,
    pub is_named: bool,
}

/// The facts of a stretch of code.
#[derive(Clone, Default)]
struct Stretch {
    end: u64,
    name: Option<String>,
    is_fragment: bool,
}

/// One file.
pub struct Image<'a> {
    sections: Vec<(Range<u64>, &'a [u8], bool)>,
    text: Vec<Range<u64>>,
    stretches: BTreeMap<u64, Stretch>,
    landing_pads: BTreeSet<u64>,
    /// Values that the loader stores, by place.
    relocated: BTreeMap<u64, u64>,
    stored: BTreeSet<u64>,
    /// Branches into the middle of something, as (to, from).
    into_middle: BTreeSet<(u64, u64)>,
}

impl<'a> Image<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Image<'a>, Error> {
        let file = object::File::parse(bytes)?;
        let mut image = Image {
            sections: Vec::new(),
            text: Vec::new(),
            stretches: BTreeMap::new(),
            landing_pads: BTreeSet::new(),
            relocated: BTreeMap::new(),
            stored: BTreeSet::new(),
            into_middle: BTreeSet::new(),
        };
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let range = section.address()..section.address() + section.size();
            if !sh_flags.contains(object::elf::SHF_ALLOC) || section.data().is_err() {
                continue;
            }
            let is_constant = !sh_flags.contains(object::elf::SHF_WRITE) || section.name() == Ok(".data.rel.ro");
            image.sections.push((range.clone(), section.data()?, is_constant));
            let is_stub = section.name().is_ok_and(|name| name.starts_with(".plt"));
            if sh_flags.contains(object::elf::SHF_EXECINSTR) && !is_stub {
                image.text.push(range);
            }
        }
        image.read_relocations(&file);
        image.read_unwind(&file)?;
        image.read_symbols(&file);
        image.cut_overlaps();
        let starts: Vec<FileAddr> = image.stretches.keys().copied().map(FileAddr).collect();
        for range in &image.text {
            let stretches = Stretches::new(image.text(range.clone()), FileAddr(range.start), &starts);
            image.into_middle.extend(stretches.branches().into_iter().map(|(to, from)| (to.0, from.0)));
        }
        Ok(image)
    }

    /// Everything that may be called.
    pub fn functions(&self) -> impl Iterator<Item = Bounds> + '_ {
        self.stretches.iter().filter(|(_, stretch)| !stretch.is_fragment).map(|(&start, stretch)| Bounds {
            name: stretch.name.clone().unwrap_or_default(),
            range: start..stretch.end,
            is_named: stretch.name.is_some(),
        })
    }

    pub fn range_at(&self, addr: u64) -> Option<Range<u64>> {
        let (&start, stretch) = self.stretches.range(..=addr).next_back()?;
        (addr < stretch.end).then_some(start..stretch.end)
    }

    pub fn is_fragment(&self, range: &Range<u64>) -> bool {
        self.stretches.get(&range.start).is_some_and(|stretch| stretch.is_fragment)
    }

    pub fn is_named(&self, addr: u64) -> bool {
        self.stretches.get(&addr).is_some_and(|stretch| stretch.name.is_some())
    }

    /// Where the next known thing begins.
    pub fn next_start(&self, addr: u64) -> u64 {
        let section_end = self.text.iter().find(|range| range.contains(&(addr.max(1) - 1))).map_or(addr, |r| r.end);
        self.stretches.range(addr..).next().map_or(section_end, |(&start, _)| start.min(section_end))
    }

    pub fn text(&self, range: Range<u64>) -> &'a [u8] {
        self.sections
            .iter()
            .find(|(section, _, _)| section.start <= range.start && range.end <= section.end)
            .and_then(|(s, data, _)| data.get((range.start - s.start) as usize..(range.end - s.start) as usize))
            .unwrap_or_default()
    }

    pub fn landing_pads(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        ranges.iter().flat_map(|range| self.landing_pads.range(range.clone())).copied().collect()
    }

    /// Addresses within these ranges that are stored in data.
    pub fn stored_labels(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        ranges
            .iter()
            .flat_map(|range| self.stored.range(range.start + 1..range.end.max(range.start + 1)))
            .copied()
            .collect()
    }

    /// Where code outside of these ranges branches into them.
    pub fn outside_branches(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        let entering = ranges.iter().flat_map(|range| self.into_middle.range((range.start, 0)..(range.end, 0)));
        let from_outside = |from: &u64| !ranges.iter().any(|range| range.contains(from));
        entering.filter(|(_, from)| from_outside(from)).map(|(to, _)| *to).collect()
    }

    /// Every direct branch and call in known code, as (from, to).
    pub fn direct_branches(&self) -> impl Iterator<Item = (ProcAddr, ProcAddr)> + '_ {
        let of_stretch = |(&start, stretch): (&u64, &Stretch)| (start, self.text(start..stretch.end));
        self.stretches.iter().map(of_stretch).flat_map(|(start, text)| direct_branches(text, ProcAddr(start)))
    }

    fn read_relocations(&mut self, file: &object::File<'a>) {
        for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            if r_type == object::elf::R_X86_64_RELATIVE {
                self.relocated.insert(place, relocation.addend() as u64);
                self.stored.insert(relocation.addend() as u64);
            }
        }
    }

    fn read_symbols(&mut self, file: &object::File<'a>) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let is_function = symbol.kind() == SymbolKind::Text && symbol.size() > 0;
            let in_text = self.text.iter().any(|range| range.contains(&symbol.address()));
            let Ok(name) = symbol.name() else { continue };
            if !is_function || !in_text {
                continue;
            }
            let stretch = self.stretches.entry(symbol.address()).or_default();
            stretch.end = stretch.end.max(symbol.address() + symbol.size());
            stretch.is_fragment = name.ends_with(".cold");
            if stretch.name.as_ref().is_none_or(|known| known.starts_with('P') && name.starts_with("MPI_")) {
                stretch.name = Some(name.to_owned());
            }
        }
    }

    /// Where one stretch runs into the next, the first ends there.
    fn cut_overlaps(&mut self) {
        let starts: Vec<u64> = self.stretches.keys().copied().collect();
        for pair in starts.windows(2) {
            if let Some(stretch) = self.stretches.get_mut(&pair[0]) {
                stretch.end = stretch.end.min(pair[1]);
            }
        }
        self.stretches.retain(|start, stretch| *start < stretch.end);
    }

    fn read_unwind(&mut self, file: &object::File<'a>) -> Result<(), Error> {
        let Some(section) = file.section_by_name(".eh_frame") else { return Ok(()) };
        let address_of = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address())
            .set_text(address_of(".text"))
            .set_got(address_of(".got"));
        let frames = EhFrame::new(section.data()?, LittleEndian);
        let mut entries = frames.entries(&bases);
        let mut context = UnwindContext::new();
        while let Some(entry) = entries.next()? {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset)?;
            let (start, end) = (fde.initial_address(), fde.end_address());
            if start == 0 || start >= end || !self.text.iter().any(|range| range.contains(&start)) {
                continue;
            }
            let mut rows = fde.rows(&frames, &bases, &mut context)?;
            let starts_fresh = rows
                .next_row()?
                .is_none_or(|row| matches!(row.cfa(), CfaRule::RegisterAndOffset { register: Register(7), offset: 8 }));
            self.stretches.insert(start, Stretch { end, name: None, is_fragment: !starts_fresh });
            if let Some(Pointer::Direct(lsda)) = fde.lsda() {
                self.read_landing_pads(lsda, start);
            }
        }
        Ok(())
    }

    fn read_landing_pads(&mut self, lsda: u64, function: u64) {
        let Some((section, data, _)) = self.sections.iter().find(|(range, _, _)| range.contains(&lsda)) else { return };
        let reader = Slice::new(&data[(lsda - section.start) as usize..], LittleEndian);
        let pads = call_site_pads(reader).unwrap_or_default();
        self.landing_pads.extend(pads.into_iter().map(|offset| function + offset));
    }
}

/// Offsets of the landing pads in a language-specific data area that takes its defaults.
fn call_site_pads(mut reader: Slice<'_>) -> gimli::Result<Vec<u64>> {
    use gimli::Reader;
    const OMITTED: u8 = 0xff;
    const ULEB: u8 = 0x01;
    if reader.read_u8()? != OMITTED {
        return Ok(Vec::new());
    }
    if reader.read_u8()? != OMITTED {
        reader.read_uleb128()?;
    }
    let is_uleb = reader.read_u8()? == ULEB;
    let table_len = reader.read_uleb128()? as usize;
    let mut table = reader.split(table_len)?;
    let mut pads = Vec::new();
    while !table.is_empty() {
        let mut field = || if is_uleb { table.read_uleb128() } else { table.read_u32().map(u64::from) };
        let (_start, _len, pad) = (field()?, field()?, field()?);
        table.read_uleb128()?;
        if pad != 0 {
            pads.push(pad);
        }
    }
    Ok(pads)
}

impl ReadMemory for Image<'_> {
    fn read(&self, ProcAddr(addr): ProcAddr, buf: &mut [u8]) -> bool {
        let len = buf.len() as u64;
        let Some((range, data, _)) = self.sections.iter().find(|(range, _, is_constant)| {
            *is_constant && range.start <= addr && addr.checked_add(len).is_some_and(|end| end <= range.end)
        }) else {
            return false;
        };
        let start = (addr - range.start) as usize;
        let Some(bytes) = data.get(start..start + buf.len()) else { return false };
        buf.copy_from_slice(bytes);
        for (place, value) in self.relocated.range(addr..addr + len) {
            let offset = (place - addr) as usize;
            let end = (offset + 8).min(buf.len());
            buf[offset..end].copy_from_slice(&value.to_le_bytes()[..end - offset]);
        }
        true
    }
}
