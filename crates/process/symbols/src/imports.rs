//! A file's needs from others: the names it imports and the libraries it needs.
//!
//! Far cheaper than reading all symbols, so it can be asked of every file a process has mapped.
//!
//! Next: `dynamic` for what else the dynamic section says.

use crate::Error;
use crate::dynamic::Dynamic;
use crate::elf::Elf;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};

/// Names longer than this are no function anyone asks for.
const NAME_BYTES_MAX: usize = 4096;

/// Names that the dynamic symbol table of `bytes` leaves undefined and `is_asked` accepts, without versions, in table order.
///
/// # Errors
/// [`Error`] if the bytes are no 64-bit little-endian ELF file.
pub fn imported_names(bytes: &[u8], is_asked: &dyn Fn(&str) -> bool) -> Result<Vec<String>, Error> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|error| Error::Malformed { what: error.to_string() })?;
    let undefined = file.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    let names = undefined.filter_map(|symbol| symbol.name().ok());
    let names = names.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX && is_asked(name));
    Ok(names.map(str::to_string).collect())
}

/// True if the dynamic symbol table of `bytes` defines a function of one of these names.
///
/// # Errors
/// [`Error`] if the bytes are no 64-bit little-endian ELF file.
pub fn exports_one_of(bytes: &[u8], names: &[&str]) -> Result<bool, Error> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|error| Error::Malformed { what: error.to_string() })?;
    let mut defined = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined() && symbol.is_global());
    Ok(defined.any(|symbol| symbol.name().is_ok_and(|name| names.contains(&name))))
}

/// Names of the tables by which Go's runtime finds its functions; no program of Go's is without one.
const GO_TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// True if the file holds code that Go's compiler made; C code may be linked to it.
///
/// # Errors
/// [`Error`] if the bytes are no 64-bit little-endian ELF file.
pub fn is_of_go(bytes: &[u8]) -> Result<bool, Error> {
    let file = Elf::parse(bytes)?;
    Ok(GO_TABLES.iter().any(|name| file.section_bytes(name).is_some()))
}

/// True if the loader writes addresses into the file's code, so that it is not what the file holds, and not at once
/// what it will be.
///
/// # Errors
/// [`Error`] if the bytes are no 64-bit little-endian ELF file.
pub fn relocates_text(bytes: &[u8]) -> Result<bool, Error> {
    Ok(Dynamic::parse(&Elf::parse(bytes)?).relocates_text)
}
