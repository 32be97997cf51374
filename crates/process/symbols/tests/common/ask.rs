//! Every question that debugging information can be asked, for inputs of which only survival is expected.

use trimtab_symbols::dwarf::{Index, Program, Types, ValueLocation};
use trimtab_types::FileAddr;

/// Asks about addresses, names and lines. Answers do not matter, except where they must agree with each other.
pub fn ask_everything(facts: &Program<'_>, addrs: &[FileAddr], names: &[&str]) {
    let mut types = Types::default();
    for &addr in addrs {
        let function = facts.function_at(addr);
        let _ = facts.line_at(addr);
        let _ = facts.inlined_at(addr);
        for variable in facts.variables_at(addr, &mut types).unwrap_or_default() {
            let _ = variable.fixed_address();
            assert!(variable.place_at(addr) != Some(&ValueLocation::Gone));
        }
        let Some(id) = function else { continue };
        if let Ok(function) = facts.function(id, &mut types) {
            assert!(function.ranges.iter().any(|range| range.contains(&addr)), "{addr}: {function:?}");
        }
        let _ = facts.inlined_copies(id);
    }
    for name in names {
        for id in facts.functions_named(name).into_iter().chain(facts.variables_named(name)) {
            let _ = facts.full_name(id);
            let _ = facts.function(id, &mut types);
            let _ = facts.variable(id, &mut types);
            let _ = facts.type_named(name, Some(id), &mut types);
        }
        if let Ok(id) = facts.type_named(name, None, &mut types) {
            let _ = facts.completed(id, &mut types);
            let _ = types.member(id, "next");
            let _ = types.member(id, "");
        }
        let _ = facts.enumerator_named(name, None, &mut types);
    }
    for (file, line) in
        addrs.iter().filter_map(|addr| facts.line_at(*addr)).map(|place| (place.file, place.line)).take(64)
    {
        let _ = facts.code_of_line(&file, line);
    }
    for id in types.ids() {
        let _ = (types.name(id), types.size_of(id));
    }
    let cache = facts.index().to_cache();
    assert_eq!(Index::from_cache(&cache).as_ref(), Ok(facts.index()));
}
