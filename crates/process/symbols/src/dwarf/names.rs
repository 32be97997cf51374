//! Names of entries, with the scopes they lie in, and look-ups by such names.
//!
//! Next: `index`, which finds candidates; `function`, `variable` and `types` for what is known about a match.

use super::error::LookupError;
use super::index::{Kind, without_arguments};
use super::program::{EntryId, Program};
use super::read_types::keyword;
use super::units::{Die, Unit, is_fortran};
use std::collections::BTreeSet;

/// References from an instance of a function or variable to its declaration that are followed.
const ORIGINS_MAX: usize = 8;
/// Scopes around one entry whose names are read; nesting deeper than this is no program's.
const SCOPES_MAX: usize = 64;
/// Candidates of one name that are looked at; a type of a header has one for each unit that includes it.
const CANDIDATES_MAX: usize = 1 << 16;
/// Joins the names of scopes.
const SEPARATOR: &str = "::";

/// The entries that together describe one function or variable: the instance, then what it refers to.
pub(crate) struct Chain<'u, 'a> {
    pub links: Vec<(Die<'a>, &'u Unit<'a>)>,
}

impl<'u, 'a> Chain<'u, 'a> {
    /// The first entry that has the attribute.
    pub fn with(&self, name: gimli::DwAt) -> Option<&(Die<'a>, &'u Unit<'a>)> {
        self.links.iter().find(|(die, _)| die.has(name))
    }

    /// The entry that was written first: the declaration.
    pub fn declaration(&self) -> u32 {
        self.links.last().map_or(0, |(die, _)| die.id)
    }
}

impl<'a> Program<'a> {
    /// An entry and the entries it completes.
    pub(crate) fn chain(&self, entry: u32) -> gimli::Result<Chain<'_, 'a>> {
        let mut links = Vec::new();
        let mut next = Some(entry);
        while let Some(entry) = next.filter(|_| links.len() < ORIGINS_MAX) {
            let (die, unit) = self.units.die(entry)?;
            next = self
                .units
                .follow(unit, &die, gimli::DW_AT_abstract_origin)
                .or_else(|| self.units.follow(unit, &die, gimli::DW_AT_specification));
            links.push((die, unit));
        }
        Ok(Chain { links })
    }

    /// A text attribute of an entry or of what it completes.
    pub(crate) fn chain_text(&self, chain: &Chain<'_, 'a>, name: gimli::DwAt) -> Option<String> {
        let (die, unit) = chain.with(name)?;
        Some(String::from_utf8_lossy(self.units.text(unit, die, name)?.slice()).into_owned())
    }

    /// The linker's name of it, where that is another name.
    pub(crate) fn linkage_name(&self, chain: &Chain<'_, 'a>) -> Option<String> {
        let modern = self.chain_text(chain, gimli::DW_AT_linkage_name);
        modern.or_else(|| self.chain_text(chain, gimli::DW_AT_MIPS_linkage_name))
    }

    /// The name of an entry with those of the scopes around it: `ns::Class::f`, `module::procedure`, `f::counter`.
    ///
    /// # Errors
    /// [`LookupError::Damaged`] if the entry can't be read.
    pub fn full_name(&self, entry: EntryId) -> Result<String, LookupError> {
        let chain = self.chain(entry.0)?;
        let own = self.chain_text(&chain, gimli::DW_AT_name).unwrap_or_else(|| "(anonymous)".to_string());
        let mut parts = vec![own];
        for scope in self.index().scopes_around(chain.declaration()).take(SCOPES_MAX) {
            parts.push(self.scope_name(scope)?);
        }
        parts.reverse();
        Ok(parts.join(SEPARATOR))
    }

    fn scope_name(&self, scope: u32) -> Result<String, LookupError> {
        let chain = self.chain(scope)?;
        let is_namespace = chain.links.first().is_some_and(|(die, _)| die.tag == gimli::DW_TAG_namespace);
        let nameless = if is_namespace { "(anonymous namespace)" } else { "(anonymous)" };
        Ok(self.chain_text(&chain, gimli::DW_AT_name).unwrap_or_else(|| nameless.to_string()))
    }

    /// The source file that was compiled to make an entry, and the one that declares it, which may be a header.
    ///
    /// # Errors
    /// [`LookupError::Damaged`] if the entry can't be read.
    pub fn source_files_of(&self, entry: EntryId) -> Result<(String, Option<String>), LookupError> {
        let chain = self.chain(entry.0)?;
        let unit = chain.links.first().and_then(|(_, unit)| unit.inner.name);
        let unit = unit.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok((unit, self.declared(&chain).map(|place| place.file)))
    }

    /// Functions of this name: instances with code of their own, and those that exist inlined only.
    ///
    /// `name` may be plain (`f`), with scopes in front (`Class::f`, `ns::Class::f`), with or without template
    /// arguments, or what the linker calls it (`_ZN2ns1fEi`). Fortran names match in any case.
    pub fn functions_named(&self, name: &str) -> Vec<EntryId> {
        let found = self.entries_named(name, Kind::Function);
        let origin = |entry: &EntryId| self.chain(entry.0).map_or(entry.0, |chain| chain.links.get(1).map_or(0, id_of));
        let with_code: BTreeSet<u32> = found.iter().map(origin).collect();
        found.into_iter().filter(|entry| !with_code.contains(&entry.0)).collect()
    }

    /// Names of types (without scopes) that begin with `start`, in order, each once, at most `count_max`; with a word
    /// in front (`struct p`) only those that it fits. Every name is read: for suggestions, not for look-ups.
    pub fn type_names(&self, start: &str, count_max: usize) -> Vec<String> {
        let (word, tags) = keyword(start).unwrap_or(("", &[]));
        let mut names = BTreeSet::new();
        for entry in self.index().of_kind(Kind::Type) {
            let Ok((die, unit)) = self.units.die(entry) else { continue };
            if names.len() >= count_max || !(tags.is_empty() || tags.contains(&die.tag)) {
                continue;
            }
            let name = self.units.text(unit, &die, gimli::DW_AT_name);
            let name = name.map(|name| format!("{word}{}", name.to_string_lossy()));
            names.extend(name.filter(|name| name.starts_with(start)));
        }
        names.into_iter().collect()
    }

    /// Global and static variables of this name (static ones of functions and classes too), written as for
    /// [`Program::functions_named`].
    pub fn variables_named(&self, name: &str) -> Vec<EntryId> {
        self.entries_named(name, Kind::Variable)
    }

    /// Entries of a kind whose name ends with `name`, by position.
    pub(crate) fn entries_named(&self, name: &str, kind: Kind) -> Vec<EntryId> {
        let exact = self.entries_spelt(name, kind, |_| true);
        let lower = name.to_ascii_lowercase();
        if !exact.is_empty() || lower == name {
            return exact;
        }
        self.entries_spelt(&lower, kind, is_fortran)
    }

    fn entries_spelt(&self, name: &str, kind: Kind, is_wanted: impl Fn(&Unit<'a>) -> bool) -> Vec<EntryId> {
        let last = last_part(name);
        let candidates = self.index().named(last.as_bytes(), kind).take(CANDIDATES_MAX);
        let mut found: Vec<EntryId> = candidates
            .filter(|&entry| self.units.unit_of(entry).is_ok_and(&is_wanted))
            .map(EntryId)
            .filter(|&entry| self.is_named(entry, name, last))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn is_named(&self, entry: EntryId, name: &str, last: &str) -> bool {
        let Ok(chain) = self.chain(entry.0) else { return false };
        if last == name && self.linkage_name(&chain).as_deref() == Some(name) {
            return true;
        }
        let Some(own) = self.chain_text(&chain, gimli::DW_AT_name) else { return false };
        let short = without_arguments(own.as_bytes()).map(String::from_utf8_lossy);
        if own != last && short.as_deref() != Some(last) {
            return false;
        }
        let Some(scopes) = name.strip_suffix(last).filter(|scopes| !scopes.is_empty()) else { return true };
        let scopes = scopes.strip_suffix(SEPARATOR).unwrap_or(scopes);
        self.full_name(entry).is_ok_and(|full| {
            let outer = full.strip_suffix(own.as_str()).and_then(|outer| outer.strip_suffix(SEPARATOR)).unwrap_or("");
            ends_with_scopes(outer, scopes)
        })
    }
}

fn id_of(link: &(Die<'_>, &Unit<'_>)) -> u32 {
    link.0.id
}

/// True if `full` ends with the scopes `wanted`, whole names each.
fn ends_with_scopes(full: &str, wanted: &str) -> bool {
    let before = full.strip_suffix(wanted);
    before.is_some_and(|before| before.is_empty() || before.ends_with(SEPARATOR))
}

/// The part behind the last `::` that is not within template arguments or parentheses.
pub(crate) fn last_part(name: &str) -> &str {
    let bytes = name.as_bytes();
    // `operator<`, `operator()` and so on are names with brackets of their own.
    if let Some(at) = name.rfind("operator").filter(|&at| at == 0 || name[..at].ends_with(SEPARATOR)) {
        return &name[at..];
    }
    let mut depth = 0_usize;
    for at in (1..bytes.len()).rev() {
        match bytes[at] {
            b'>' | b')' => depth += 1,
            b'<' | b'(' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes[at - 1] == b':' => return &name[at + 1..],
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_name() {
        for (name, expected) in [
            ("f", "f"),
            ("a::f", "f"),
            ("a::b::f<c::d>", "f<c::d>"),
            ("(anonymous namespace)::f", "f"),
            ("a<b::c>::f", "f"),
            ("a::operator<", "operator<"),
            ("operator()", "operator()"),
            ("a::", ""),
            ("", ""),
            ("::", ""),
        ] {
            assert_eq!(last_part(name), expected, "{name}");
        }
    }

    #[test]
    fn scopes_match_whole_names() {
        for (full, wanted, expected) in
            [("a::b", "b", true), ("a::b", "a::b", true), ("a::xb", "b", false), ("", "b", false), ("b", "a::b", false)]
        {
            assert_eq!(ends_with_scopes(full, wanted), expected, "{full} {wanted}");
        }
    }
}
