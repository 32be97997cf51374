//! Checks names against the symbols that installed libraries really export: Fortran forms and the C library's functions.

use std::collections::BTreeSet;
use std::process::Command;
use trimtab_mpi::{Group, canonical, group_functions};

/// Names defined by a library that the compiler finds; `None`, said loudly, where that can't be learnt.
fn exported(library: &str) -> Option<BTreeSet<String>> {
    let found = Command::new("gcc").arg(format!("-print-file-name={library}")).output().ok();
    let path = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let path = path.filter(|path| path.starts_with('/'));
    let listing = path.and_then(|path| Command::new("nm").args(["-D", "--defined-only"]).arg(path).output().ok());
    let Some(listing) = listing.filter(|listing| listing.status.success()) else {
        eprintln!("SKIPPED: {library} or a tool to list it is not installed; its names are not checked");
        return None;
    };
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let name = |line: &str| Some(line.rsplit(' ').next()?.split('@').next()?.to_owned());
    Some(text.lines().filter_map(name).collect())
}

#[test]
fn fortran_symbols_reach_a_c_function() {
    for library in ["libmpichfort.so.12", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40"] {
        let Some(names) = exported(library) else { continue };
        let fortran: Vec<_> = names.iter().filter(|name| is_fortran_binding(name)).collect();
        assert!(fortran.len() > 300, "{library}: only {} bindings", fortran.len());
        let lost: Vec<_> = fortran.iter().filter(|name| canonical(name).is_none()).collect();
        assert!(lost.is_empty(), "{library}: no C name for {lost:?}");
        eprintln!("{library}: {} bindings reach a C function", fortran.len());
    }
}

/// A binding of a function: not a module procedure's mangled name, nor a predefined callback or variable.
fn is_fortran_binding(name: &str) -> bool {
    let lower = name.to_lowercase();
    let binding = ["mpi_", "pmpi_"].iter().any(|prefix| lower.starts_with(prefix)) && lower.ends_with('_');
    let callback = ["_fn_", "_fn__", "_null_", "_null__", "_f08_fn_"].iter().any(|ending| lower.ends_with(ending));
    let constant =
        ["_null_copy", "_null_del", "_dup_fn", "conversion_fn", "sizeof", "mpi_fortran_", "f_sync_reg", "delete_error"];
    binding && !callback && !constant.iter().any(|part| lower.contains(part))
}

#[test]
fn libc_functions_exist() {
    let Some(names) = exported("libc.so.6") else { return };
    let absent: BTreeSet<_> =
        group_functions(Group::All).map(|function| function.name).filter(|name| !names.contains(*name)).collect();
    assert!(absent.is_empty(), "not exported by this C library: {absent:?}");
}
