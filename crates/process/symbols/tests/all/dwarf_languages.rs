//! Debugging information of C++ and Fortran: scopes, templates, references, modules, arrays of assumed shape.

use crate::common::{debug_variants, named, parse, read, run, said};
use std::process::Command;
use trimtab_symbols::dwarf::{Program, Sections, TypeKind, Types};
use trimtab_symbols::{demangle, demangle_name};
use trimtab_types::FileAddr;

#[test]
fn names_with_scopes_find_cpp_functions() {
    for (case, program, debug) in debug_variants("cpp-names", "c++", "facts.cc") {
        let (_, image) = parse(&program);
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, full, symbol, parameters) in [
            ("add", "space::Derived::add", "_ZNK5space7Derived3addEiR", &["this", "more", "text"][..]),
            ("Derived::add", "space::Derived::add", "_ZNK5space7Derived3addEiR", &["this", "more", "text"]),
            ("space::Derived::add", "space::Derived::add", "_ZNK5space7Derived3addEiR", &["this", "more", "text"]),
            ("larger<int>", "space::larger<int>", "_ZN5space6largerIiEE", &["a", "b"]),
            ("space::larger<double>", "space::larger<double>", "_ZN5space6largerIdEE", &["a", "b"]),
            ("secret", "space::(anonymous namespace)::secret", "_ZN5space12_GLOBAL__N_16secret", &["derived", "moved"]),
            ("takes_copy", "space::takes_copy", "_ZN5space10takes_copyE", &["copy", "pointer", "last"]),
        ] {
            let found = facts.functions_named(name);
            assert_eq!(found.len(), 1, "{case}: {name}");
            let function = facts.function(found[0], &mut types).expect(name);
            assert_eq!(function.full_name, full, "{case}: {name}");
            let names: Vec<&str> = function.parameters.iter().map(|one| one.variable.name.as_str()).collect();
            assert_eq!(names, parameters, "{case}: {name}");
            let truth = image.function_at(function.entry.expect("entry")).expect("a function");
            let symbol_name = &truth.names[0];
            assert_eq!(truth.addr, function.entry.expect("entry"), "{case}: {name}");
            let begins = symbol.trim_end_matches(['R', 'E']);
            assert!(symbol_name.starts_with(begins), "{case}: {symbol_name} for {name}");
            if let Some(linkage) = &function.linkage_name {
                assert!(symbol_name.starts_with(linkage), "{case}: {name}: {symbol_name}");
                assert_eq!(facts.functions_named(linkage), found, "{case}: {name}");
                assert!(function.demangled.expect("demangled").contains(full.rsplit("::").next().expect("a name")));
                assert_eq!(demangle_name(linkage).as_deref(), Some(full), "{case}");
            }
        }
        assert_eq!(facts.functions_named("larger").len(), 2, "{case}: without template arguments");
        assert_eq!(facts.functions_named("overloaded").len(), 2, "{case}");
        for nothing in ["Base::add", "pace::larger<int>", "larger<long>", "space", ""] {
            assert_eq!(facts.functions_named(nothing), [], "{case}: {nothing}");
        }
    }
}

#[test]
fn cpp_types_and_variables() {
    for (case, program, debug) in debug_variants("cpp-types", "c++", "facts.cc") {
        let output = run(&mut Command::new(&program));
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, size) in said(&output, "size") {
            let id = facts.type_named(name, None, &mut types).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(types.size_of(id), size.parse().ok(), "{case}: {name}");
            let inherited = types.member(id, "base_number").expect("inherited");
            assert!(inherited[0].is_base && inherited.len() == 2, "{case}");
            let level = types.member(id, "level").expect("level")[0].type_id;
            assert_eq!(types.size_of(level), Some(1), "{case}");
            assert!(types.member(id, "instances").is_none(), "{case}: static members are variables");
        }
        let addresses = said(&output, "address");
        assert_eq!(addresses.len(), 2);
        for (name, addr) in addresses {
            let found = facts.variables_named(name.replace("hidden", "(anonymous namespace)::hidden").as_str());
            // Found without the anonymous namespace as well, in which people do not think.
            let plain = facts.variables_named(name.rsplit("::").next().expect("a name"));
            assert_eq!(found, plain, "{case}: {name}");
            let variable = facts.variable(found[0], &mut types).expect(name);
            assert_eq!(variable.fixed_address(), u64::from_str_radix(addr, 16).map(FileAddr).ok(), "{case}: {name}");
        }
        let thread = facts.variable(facts.variables_named("per_thread")[0], &mut types).expect("per_thread");
        assert_eq!(thread.fixed_address(), None, "{case}");
        let secret = facts.function(facts.functions_named("secret")[0], &mut types).expect("secret");
        let names: Vec<String> =
            secret.parameters.iter().map(|one| types.name(one.variable.type_id).replace("const ", "")).collect();
        // DWARF 3 has no word for the second one.
        assert_eq!(names, ["class Derived &", if case == "dwarf3" { "int &" } else { "int &&" }], "{case}");
        let high = facts.enumerator_named("Level::high", None, &mut types).expect("high");
        assert_eq!(high.0, 200, "{case}");
    }
}

#[test]
fn fortran_modules_arguments_and_arrays() {
    for (case, program, debug) in debug_variants("fortran", "gfortran", "facts.f90") {
        let (_, image) = parse(&program);
        let bytes = read(&debug);
        let sections = Sections::of(&bytes).expect("sections");
        let facts = Program::open(&sections);
        let mut types = Types::default();
        for (name, symbol) in [("advance", "__solver_MOD_advance"), ("solver::fixed", "__solver_MOD_fixed")] {
            let found = facts.functions_named(name);
            assert_eq!(found.len(), 1, "{case}: {name}");
            assert_eq!(facts.functions_named(&name.to_uppercase()), found, "{case}: any case");
            let function = facts.function(found[0], &mut types).expect(name);
            assert_eq!(function.entry, Some(named(&image, symbol).addr), "{case}: {name}");
            assert_eq!(function.linkage_name.as_deref(), Some(symbol), "{case}");
            assert_eq!(demangle(symbol), Some(function.full_name.clone()), "{case}");
        }
        let advance = facts.function(facts.functions_named("advance")[0], &mut types).expect("advance");
        let names: Vec<&str> = advance.parameters.iter().map(|one| one.variable.name.as_str()).collect();
        assert_eq!(names, ["cells", "scale", "label", "count", "p", "_label"], "{case}");
        let cells = types.stripped(advance.parameters[0].variable.type_id);
        let kind = &types.get(cells).expect("cells").kind;
        let TypeKind::Array { dimensions, is_column_major: true, .. } = kind else { panic!("{case}: {kind:?}") };
        assert_eq!(dimensions.len(), 1, "{case}");
        let particle = facts.type_named("particle", None, &mut types).expect("particle");
        assert_eq!(types.size_of(particle), Some(32), "{case}");
        let position = types.member(particle, "position").expect("position")[0];
        assert_eq!(types.size_of(position.type_id), Some(24), "{case}");
        for (name, symbol) in [("solver::steps", "__solver_MOD_steps"), ("field", "__solver_MOD_field")] {
            let variable = facts.variable(facts.variables_named(name)[0], &mut types).expect(name);
            assert_eq!(variable.fixed_address(), image.object_named(symbol).map(|found| found.0), "{case}: {name}");
        }
        let field = facts.variable(facts.variables_named("field")[0], &mut types).expect("field");
        let kind = &types.get(types.stripped(field.type_id)).expect("field").kind;
        let TypeKind::Array { dimensions, dynamic: Some(dynamic), .. } = kind else { panic!("{case}: {kind:?}") };
        assert_eq!(dimensions.len(), 2, "{case}");
        assert!(dynamic.data.is_some() && dynamic.allocated.is_some(), "{case}: {dynamic:?}");
        let shared = facts.variable(facts.variables_named("shared_number")[0], &mut types).expect("shared");
        assert_eq!(shared.fixed_address(), image.object_named("shared_").map(|found| found.0), "{case}");
    }
}
