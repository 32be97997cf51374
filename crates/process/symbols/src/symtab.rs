//! Symbol tables to claims: "at this address begins a function (or data) of this name". Claims are settled later.
//!
//! Next: `settle`, which makes functions of all claims about one address.

use crate::Source;
use crate::dynamic::Dynamic;
use crate::elf::{ENDIAN, Elf};
use object::LittleEndian;
use object::elf::{self, Sym64};
use object::pod;
use object::read::elf::{SectionHeader, Sym};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The longest symbol name kept, in bytes. C++ templates reach some thousands; a longer one is left out.
const NAME_BYTES_MAX: usize = 32 * 1024;
/// All names together may take this many times the file's length: several names may share one string's tail.
const NAMES_TO_FILE_MAX: usize = 8;
/// The part of a version's name that is kept, in bytes.
const VERSION_NAME_BYTES_MAX: usize = 256;

/// The statement of a symbol or unwind entry about an address.
#[derive(Clone, Debug)]
pub(crate) struct Claim<'a> {
    pub addr: u64,
    pub size: u64,
    /// Empty for unwind entries.
    pub name: Cow<'a, str>,
    pub kind: ClaimKind,
    /// 0 global, 1 weak, 2 local.
    pub rank: u8,
    pub source: Source,
    pub exported: bool,
}

/// The kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimKind {
    /// A function symbol.
    Function,
    /// A function symbol for a resolver.
    Ifunc,
    /// A function symbol named as the cold part of a function.
    Fragment,
    /// A symbol without type: a function of hand-written assembly, or a mere label.
    Label,
    /// Named data.
    Object,
    /// An unwind entry that starts like a called function.
    FrameEntry,
    /// An unwind entry that starts in the middle of a frame.
    FramePart,
}

/// Claims of both symbol tables. Names that can't be read are counted into `problems`.
pub(crate) fn claims<'a>(elf: &Elf<'a>, dynamic: &Dynamic<'a>, problems: &mut Vec<String>) -> Vec<Claim<'a>> {
    let mut tables = Vec::new();
    tables.extend(static_table(elf, problems));
    tables.extend(dynamic_table(elf, dynamic));
    let mut budget = elf.bytes.len().saturating_mul(NAMES_TO_FILE_MAX);
    let mut claims = Vec::new();
    for table in tables {
        let refused = table.claims_into(&mut claims, &mut budget);
        if refused > 0 {
            problems.push(format!("{:?} symbols: {refused} names damaged or too long, left out", table.source));
        }
    }
    claims
}

/// The dynamic symbols' names by their index in the table, without versions; every byte is taken from a budget.
pub(crate) fn dynamic_names<'a>(
    elf: &Elf<'a>,
    dynamic: &Dynamic<'a>,
) -> impl Fn(u64, &mut usize) -> Option<&'a str> + use<'a> {
    let table = dynamic_symbols(elf, dynamic).map(|symbols| Table {
        symbols,
        strings: dynamic.strings,
        versions: Versions::default(),
        source: Source::Dynsym,
    });
    move |index, budget| {
        let table = table.as_ref()?;
        let symbol = table.symbols.get(usize::try_from(index).ok()?)?;
        table.name(symbol, budget).filter(|name| !name.is_empty())
    }
}

/// True if a function symbol names a part that was moved away from its function (GCC's and LLVM's suffixes).
pub(crate) fn is_fragment_name(name: &str) -> bool {
    let base = name.split('@').next().unwrap_or(name);
    base.match_indices(".cold").any(|(at, _)| {
        let after = &base[at + ".cold".len()..];
        after.is_empty() || after.strip_prefix('.').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    }) || base.contains(".__part.")
}

struct Table<'a> {
    symbols: &'a [Sym64<LittleEndian>],
    strings: &'a [u8],
    versions: Versions<'a>,
    source: Source,
}

/// Versions of dynamic symbols: only those that are not the default one matter.
#[derive(Default)]
struct Versions<'a> {
    of_symbol: &'a [u8],
    names: BTreeMap<u16, String>,
}

impl<'a> Table<'a> {
    /// Adds this table's claims; returns how many names could not be read.
    fn claims_into(&self, claims: &mut Vec<Claim<'a>>, budget: &mut usize) -> usize {
        let mut refused = 0;
        for (index, symbol) in self.symbols.iter().enumerate() {
            let Some(kind) = kind_of(symbol) else { continue };
            match self.name(symbol, budget) {
                Some("") => {}
                Some(name) => claims.extend(self.claim(index, symbol, kind, name)),
                None => refused += 1,
            }
        }
        refused
    }

    fn claim(&self, index: usize, symbol: &Sym64<LittleEndian>, kind: ClaimKind, name: &'a str) -> Option<Claim<'a>> {
        let is_local = symbol.st_bind() == elf::STB_LOCAL;
        let visibility = symbol.st_visibility();
        let is_visible = visibility == elf::STV_DEFAULT || visibility == elf::STV_PROTECTED;
        // Compilers' and annotators' labels, and mapping symbols: never a place that is called.
        let is_noise = name.starts_with(".L") || (kind == ClaimKind::Label && name.starts_with(['.', '$']));
        if is_noise {
            return None;
        }
        let kind = if kind == ClaimKind::Function && is_fragment_name(name) { ClaimKind::Fragment } else { kind };
        let rank = if is_local { 2 } else { u8::from(symbol.st_bind() == elf::STB_WEAK) };
        Some(Claim {
            addr: symbol.st_value(ENDIAN),
            size: symbol.st_size(ENDIAN),
            name: self.versioned(index, name),
            kind,
            rank,
            source: self.source,
            exported: self.source == Source::Dynsym && !is_local && is_visible,
        })
    }

    /// The symbol's name; every byte looked at is taken from `budget`.
    fn name(&self, symbol: &Sym64<LittleEndian>, budget: &mut usize) -> Option<&'a str> {
        let tail = self.strings.get(symbol.st_name(ENDIAN) as usize..)?;
        let tail = &tail[..tail.len().min(NAME_BYTES_MAX).min(*budget)];
        let end = memchr::memchr(0, tail);
        *budget -= end.unwrap_or(tail.len());
        std::str::from_utf8(&tail[..end?]).ok()
    }

    /// `name`, `name@VERSION` for versions that new links don't get. (The static table says `@@` for those they do.)
    fn versioned(&self, index: usize, name: &'a str) -> Cow<'a, str> {
        match (self.versions.hidden_version(index), name.split_once("@@")) {
            (Some(version), _) => Cow::Owned(format!("{name}@{version}")),
            (None, Some((base, _))) if !base.is_empty() => Cow::Borrowed(base),
            (None, _) => Cow::Borrowed(name),
        }
    }
}

impl Versions<'_> {
    fn hidden_version(&self, index: usize) -> Option<&str> {
        let bytes = self.of_symbol.get(index.checked_mul(2)?..)?.first_chunk()?;
        let version = u16::from_le_bytes(*bytes);
        let is_hidden = version & elf::VERSYM_HIDDEN.0 != 0;
        is_hidden.then(|| self.names.get(&(version & !elf::VERSYM_HIDDEN.0)).map_or("", String::as_str))
    }
}

/// The kind of a defined symbol; `None` for those of no interest.
fn kind_of(symbol: &Sym64<LittleEndian>) -> Option<ClaimKind> {
    let section = symbol.st_shndx(ENDIAN);
    let is_elsewhere = section == elf::SHN_UNDEF || section == elf::SHN_ABS || section == elf::SHN_COMMON;
    if is_elsewhere {
        return None;
    }
    match symbol.st_type() {
        elf::STT_FUNC => Some(ClaimKind::Function),
        elf::STT_GNU_IFUNC => Some(ClaimKind::Ifunc),
        elf::STT_NOTYPE => Some(ClaimKind::Label),
        elf::STT_OBJECT => Some(ClaimKind::Object),
        _ => None,
    }
}

fn static_table<'a>(elf: &Elf<'a>, problems: &mut Vec<String>) -> Option<Table<'a>> {
    let sections = elf.sections.as_ref()?;
    let section = sections.iter().find(|section| section.sh_type(ENDIAN) == elf::SHT_SYMTAB)?;
    let symbols = section.data_as_array(ENDIAN, elf.bytes);
    let strings = sections.section(section.link(ENDIAN)).and_then(|strings| strings.data(ENDIAN, elf.bytes));
    match (symbols, strings) {
        (Ok(symbols), Ok(strings)) => {
            Some(Table { symbols, strings, versions: Versions::default(), source: Source::Symtab })
        }
        (Err(error), _) | (_, Err(error)) => {
            problems.push(format!("symbol table: {error}"));
            None
        }
    }
}

fn dynamic_table<'a>(elf: &Elf<'a>, dynamic: &Dynamic<'a>) -> Option<Table<'a>> {
    let symbols = dynamic_symbols(elf, dynamic)?;
    let counted = &symbols[..dynamic.symbol_count(elf).min(symbols.len())];
    Some(Table { symbols: counted, strings: dynamic.strings, versions: versions(elf, dynamic), source: Source::Dynsym })
}

/// The dynamic symbols, and whatever lies behind them up to their segment's end: only the hash tables, which count
/// exported symbols alone, say where they end.
fn dynamic_symbols<'a>(elf: &Elf<'a>, dynamic: &Dynamic<'a>) -> Option<&'a [Sym64<LittleEndian>]> {
    let area = elf.bytes_from(dynamic.symbols_addr).filter(|_| dynamic.symbols_addr != 0)?;
    let fitting = area.bytes.len() / size_of::<Sym64<LittleEndian>>();
    pod::slice_from_bytes(area.bytes, fitting).ok().map(|(symbols, _)| symbols)
}

fn versions<'a>(elf: &Elf<'a>, dynamic: &Dynamic<'a>) -> Versions<'a> {
    let of_symbol = elf.bytes_from(dynamic.version_of_symbol_addr).filter(|_| dynamic.version_of_symbol_addr != 0);
    let Some(of_symbol) = of_symbol else { return Versions::default() };
    Versions { of_symbol: of_symbol.bytes, names: version_names(elf, dynamic).unwrap_or_default() }
}

/// Names by index of the versions this file defines (`Verdef` and its first `Verdaux`, see the gABI's extensions).
fn version_names(elf: &Elf, dynamic: &Dynamic) -> Option<BTreeMap<u16, String>> {
    let bytes = elf.bytes_from(dynamic.version_definitions_addr)?.bytes;
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut names = BTreeMap::new();
    let mut at = 0_usize;
    // Version indices have 15 bits, so more definitions can't be told apart.
    for _ in 0..dynamic.version_definition_count.min(0x7fff) {
        let index = u16::from_le_bytes(*bytes.get(at.checked_add(4)?..)?.first_chunk()?);
        let name_at = word(at.checked_add(word(at.checked_add(12)?)? as usize)?)? as usize;
        let name = dynamic.strings.get(name_at..)?;
        let name = name[..name.len().min(VERSION_NAME_BYTES_MAX)].split(|&byte| byte == 0).next()?;
        names.insert(index, String::from_utf8_lossy(name).into_owned());
        match word(at.checked_add(16)?)? {
            0 => break,
            next => at = at.checked_add(next as usize)?,
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::endian::{U16, U32, U64};

    fn table<'a>(symbols: &'a [Sym64<LittleEndian>], strings: &'a [u8]) -> Table<'a> {
        Table { symbols, strings, versions: Versions::default(), source: Source::Symtab }
    }

    fn symbol(name: u32) -> Sym64<LittleEndian> {
        Sym64 {
            st_name: U32::new(ENDIAN, name),
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC),
            st_other: elf::SymbolOther(0),
            st_shndx: U16::new(ENDIAN, elf::SymbolSection(1)),
            st_value: U64::new(ENDIAN, 0x1000),
            st_size: U64::new(ENDIAN, 1),
        }
    }

    #[test]
    fn names_of_fragments() {
        for (name, expected) in [
            ("f", false),
            ("f.cold", true),
            ("f.cold.12", true),
            ("f.part.0.cold", true),
            ("f.part.0", false),
            ("f.isra.0", false),
            ("f.constprop.0.cold", true),
            ("f.colder", false),
            ("cold", false),
            ("f.cold@V1", true),
            ("f.__part.3", true),
        ] {
            assert_eq!(is_fragment_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_long_string_shared_by_many_symbols_stays_cheap() {
        let strings = [vec![b'x'; NAME_BYTES_MAX - 1], vec![0]].concat();
        let symbols: Vec<_> = (0..10_000).map(|at| symbol(at % 8)).collect();
        let mut claims = Vec::new();
        let mut budget = 8 * strings.len();
        let refused = table(&symbols, &strings).claims_into(&mut claims, &mut budget);
        let bytes: usize = claims.iter().map(|claim| claim.name.len()).sum();
        assert!(bytes <= 8 * strings.len(), "{bytes} bytes of names");
        assert_eq!(claims.len() + refused, symbols.len());
    }

    #[test]
    fn exported_are_visible_dynamic_symbols() {
        let (global, local) = (elf::STB_GLOBAL, elf::STB_LOCAL);
        for (case, source, bind, visibility, expected) in [
            ("global", Source::Dynsym, global, elf::STV_DEFAULT, true),
            ("weak", Source::Dynsym, elf::STB_WEAK, elf::STV_DEFAULT, true),
            ("protected", Source::Dynsym, global, elf::STV_PROTECTED, true),
            ("hidden", Source::Dynsym, global, elf::STV_HIDDEN, false),
            ("local", Source::Dynsym, local, elf::STV_DEFAULT, false),
            ("static table", Source::Symtab, global, elf::STV_DEFAULT, false),
        ] {
            let mut symbol = symbol(1);
            symbol.st_info = elf::SymbolInfo::new(bind, elf::STT_FUNC);
            symbol.st_other = elf::SymbolOther(visibility.0);
            let (symbols, mut claims) = ([symbol], Vec::new());
            Table { source, ..table(&symbols, b"\0f\0") }.claims_into(&mut claims, &mut 100);
            assert_eq!(claims[0].exported, expected, "{case}");
        }
    }

    #[test]
    fn unreadable_names_are_counted() {
        let strings = [b"\0good\0bad\xff\0open".to_vec(), vec![b'y'; 10]].concat();
        let symbols = [symbol(1), symbol(6), symbol(11), symbol(4000), symbol(0)];
        let mut claims = Vec::new();
        let refused = table(&symbols, &strings).claims_into(&mut claims, &mut 1000);
        assert_eq!(claims.iter().map(|claim| claim.name.as_ref()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(refused, 3, "not UTF-8, without end, beyond the table; the empty one is none");
    }
}
