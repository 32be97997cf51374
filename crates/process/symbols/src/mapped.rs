//! A module as it lies in a process's memory: where its symbols are, and which of others' it asks for.
//!
//! The loader reads the same tables, so they are there whatever has become of the file. A name is found by the module's own
//! hash table in a few short reads, which is a thousand times cheaper than reading the file.
//!
//! All numbers come from another process's memory: each is doubted, and each loop has a bound.
//!
//! Next: `dynamic`, which reads the same tables of a file.

use object::elf;
use trimtab_types::ProcAddr;

/// Entries read at most of the dynamic section, of program headers and of one chain of the hash table.
const ENTRIES_MAX: u64 = 4096;
/// Symbols that a module may ask others for, and bytes of all their names.
const IMPORTS_MAX: u64 = 1 << 17;
const STRINGS_BYTES_MAX: u64 = 1 << 25;
/// Bytes of one name.
const NAME_BYTES_MAX: u64 = 512;
const PROGRAM_HEADER_BYTES: u64 = 56;
const SYMBOL_BYTES: u64 = 24;
const PAGE_BYTES: u64 = 4096;

/// Reads so many bytes of the process at an address, all of them or nothing.
pub type ReadMemory<'a> = &'a dyn Fn(ProcAddr, usize) -> Option<Vec<u8>>;

/// The dynamic symbols of one module of a process.
pub struct MappedModule<'a> {
    read: ReadMemory<'a>,
    /// Bytes by which its addresses have been moved.
    bias: u64,
    symbols: u64,
    strings: u64,
    strings_bytes: u64,
    hash: Hash,
    soname: Option<u64>,
}

/// The table by which names are found.
#[derive(Clone, Copy)]
enum Hash {
    /// Undefined symbols come first and are not in the table.
    Gnu { buckets: u64, bucket_count: u32, chains: u64, first: u32 },
    /// In the old form only the number of symbols is used.
    Old { symbol_count: u32 },
}

impl<'a> MappedModule<'a> {
    /// The module whose first page is mapped at `start`; `None` if there is none with dynamic symbols.
    pub fn at(read: ReadMemory<'a>, start: ProcAddr) -> Option<Self> {
        let header = read(start, 64)?;
        (header.starts_with(b"\x7fELF\x02\x01")).then_some(())?;
        let table = ProcAddr(start.0.checked_add(word(&header, 32)?)?);
        let count = u64::from(u16::from_le_bytes([*header.get(56)?, *header.get(57)?])).min(ENTRIES_MAX);
        let headers = read(table, (count * PROGRAM_HEADER_BYTES) as usize)?;
        let headers: Vec<&[u8]> = headers.chunks_exact(PROGRAM_HEADER_BYTES as usize).collect();
        let of_kind = |kind: elf::ProgramType| headers.iter().find(|header| half(header, 0) == Some(kind.0));
        let first =
            headers.iter().find(|header| half(header, 0) == Some(elf::PT_LOAD.0) && word(header, 8) == Some(0))?;
        let bias = start.0.wrapping_sub(word(first, 16)?);
        let dynamic = of_kind(elf::PT_DYNAMIC)?;
        let (address, bytes) = (bias.wrapping_add(word(dynamic, 16)?), word(dynamic, 40)?.min(ENTRIES_MAX * 16));
        Self::of_dynamic(read, bias, &read(ProcAddr(address), bytes as usize)?)
    }

    fn of_dynamic(read: ReadMemory<'a>, bias: u64, dynamic: &[u8]) -> Option<Self> {
        let entries = dynamic.chunks_exact(16).map(|entry| Some((word(entry, 0)?, word(entry, 8)?)));
        let entries: Vec<(u64, u64)> = entries.map_while(|entry| entry.filter(|(tag, _)| *tag != 0)).collect();
        let value = |tag: elf::DynamicTag| entries.iter().find(|entry| entry.0 as i64 == tag.0).map(|entry| entry.1);
        // The loader writes addresses of the process there, or leaves the file's where it may not write.
        let address = |tag| value(tag).map(|at| if at < bias { at.wrapping_add(bias) } else { at });
        let hash = match (address(elf::DT_GNU_HASH), address(elf::DT_HASH)) {
            (Some(at), _) => Hash::gnu(read, at)?,
            (None, Some(at)) => Hash::Old { symbol_count: half(&read(ProcAddr(at), 8)?, 4)? },
            (None, None) => return None,
        };
        Some(MappedModule {
            read,
            bias,
            symbols: address(elf::DT_SYMTAB)?,
            strings: address(elf::DT_STRTAB)?,
            strings_bytes: value(elf::DT_STRSZ)?.min(STRINGS_BYTES_MAX),
            hash,
            soname: value(elf::DT_SONAME),
        })
    }

    /// Where a symbol of this name lies in the process, if the module has one.
    pub fn defined(&self, name: &str) -> Option<ProcAddr> {
        match self.hash {
            Hash::Gnu { .. } => self.by_hash(name),
            Hash::Old { symbol_count } => {
                let mut all = 0..u64::from(symbol_count).min(IMPORTS_MAX);
                all.find_map(|index| self.defined_at(index, name))
            }
        }
    }

    /// Names that it asks other modules for; empty where they can't be read.
    pub fn imports(&self) -> Vec<String> {
        self.read_imports().unwrap_or_default()
    }

    /// The name it has as a library.
    pub fn soname(&self) -> Option<String> {
        self.name(self.soname?)
    }

    fn by_hash(&self, name: &str) -> Option<ProcAddr> {
        let Hash::Gnu { buckets, bucket_count, chains, first } = self.hash else { return None };
        let wanted = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let bucket = buckets.checked_add(u64::from(wanted.checked_rem(bucket_count)?) * 4)?;
        let begin = u64::from(half(&(self.read)(ProcAddr(bucket), 4)?, 0)?);
        for index in begin..begin + ENTRIES_MAX {
            let place = chains.checked_add(index.checked_sub(u64::from(first))? * 4)?;
            let hash = half(&(self.read)(ProcAddr(place), 4)?, 0)?;
            if hash | 1 == wanted | 1
                && let Some(address) = self.defined_at(index, name)
            {
                return Some(address);
            }
            // The lowest bit ends a chain.
            if hash & 1 != 0 {
                break;
            }
        }
        None
    }

    fn defined_at(&self, index: u64, name: &str) -> Option<ProcAddr> {
        let at = ProcAddr(self.symbols.checked_add(index * SYMBOL_BYTES)?);
        let symbol = (self.read)(at, SYMBOL_BYTES as usize)?;
        let is_defined = symbol.get(6..8)? != [0, 0];
        let is_it = is_defined && self.name(u64::from(half(&symbol, 0)?)).as_deref() == Some(name);
        is_it.then(|| Some(ProcAddr(self.bias.wrapping_add(word(&symbol, 8)?)))).flatten()
    }

    fn name(&self, offset: u64) -> Option<String> {
        let at = self.strings.checked_add(offset)?;
        let to_page_end = PAGE_BYTES - at % PAGE_BYTES;
        let read = |length: u64| (self.read)(ProcAddr(at), length as usize);
        text(&read(NAME_BYTES_MAX).or_else(|| read(to_page_end.min(NAME_BYTES_MAX)))?)
    }

    fn read_imports(&self) -> Option<Vec<String>> {
        let symbols =
            (self.read)(ProcAddr(self.symbols), (self.import_count().min(IMPORTS_MAX) * SYMBOL_BYTES) as usize)?;
        let strings = (self.read)(ProcAddr(self.strings), self.strings_bytes as usize)?;
        let undefined = symbols.chunks_exact(SYMBOL_BYTES as usize).filter(|symbol| symbol[6..8] == [0, 0]);
        let name = |symbol: &[u8]| text(strings.get(half(symbol, 0)? as usize..)?);
        Some(undefined.filter_map(name).filter(|name| !name.is_empty()).collect())
    }
}

impl MappedModule<'_> {
    /// How many symbols come before and among those that others may be asked for.
    fn import_count(&self) -> u64 {
        match self.hash {
            Hash::Gnu { first, .. } if first > 1 => u64::from(first),
            // A table of a module that defines nothing says nothing of the others. Linkers put the names right behind.
            Hash::Gnu { .. } => self.strings.saturating_sub(self.symbols) / SYMBOL_BYTES,
            Hash::Old { symbol_count } => u64::from(symbol_count),
        }
    }
}

impl Hash {
    fn gnu(read: ReadMemory, at: u64) -> Option<Hash> {
        let header = read(ProcAddr(at), 16)?;
        let (bucket_count, first, bloom_words) = (half(&header, 0)?, half(&header, 4)?, half(&header, 8)?);
        let buckets = at.checked_add(16 + u64::from(bloom_words) * 8)?;
        let chains = buckets.checked_add(u64::from(bucket_count) * 4)?;
        Some(Hash::Gnu { buckets, bucket_count, chains, first })
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.get(..bytes.len().min(NAME_BYTES_MAX as usize))?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
