//! The owner of a function that an MPI call comes from: the program itself, or MPI's libraries, their bindings for
//! other languages, tools that stand before them, wrappers that the user named, and the system's libraries.
//!
//! Next: `call_paths`, which goes on to the caller of what is not the program's own.

use std::collections::HashMap;
use trimtab_mpi::{canonical, is_mpi_module};
use trimtab_session::Module;
use trimtab_symbols::{demangle_name, imported_names};
use trimtab_types::FileAddr;

/// Libraries of the system and of compilers, by the beginning of their names.
pub(super) const SYSTEM: [&str; 24] = [
    "libc.",
    "libc-",
    "ld-",
    "ld.",
    "libpthread",
    "libm.",
    "libm-",
    "libdl.",
    "libdl-",
    "librt.",
    "librt-",
    "libgcc_s",
    "libstdc++",
    "libc++",
    "libgomp",
    "libomp.",
    "libiomp5",
    "libgfortran",
    "libquadmath",
    "libflang",
    "libifcore",
    "libifport",
    "libpgf90",
    "libnvf",
];

/// Bindings for C++ that export nothing of MPI's own names.
const BINDINGS: [&str; 3] = ["libboost_mpi", "libmpi_cxx", "libmpichcxx"];

/// Beginnings of mangled names in the scopes of bindings for C++: `MPI::` and `boost::mpi::`, of const functions too.
const SCOPES: [&str; 4] = ["_ZN3MPI", "_ZNK3MPI", "_ZN5boost3mpi", "_ZNK5boost3mpi"];

/// The owner of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Program,
    /// The program's, as a wrapper of one of MPI's functions: calls come from its caller, if that is found.
    Wrapper,
    Foreign,
}

/// Bytes of a function that does little more than call one of MPI's.
const WRAPPER_BYTES_MAX: u64 = 512;

/// The owners of functions, as far as they were asked for.
#[derive(Debug)]
pub(super) struct Owners {
    wrappers: Vec<String>,
    modules: HashMap<String, Owner>,
}

impl Owners {
    /// `wrappers` are modules that the user named, by file names or ends of paths, and functions.
    pub(super) fn new(wrappers: &[String]) -> Self {
        Owners { wrappers: wrappers.to_vec(), modules: HashMap::new() }
    }

    /// The owner of the code at `call`.
    pub(super) fn of(&mut self, module: &Module, is_program: bool, call: FileAddr) -> Owner {
        let wrappers = &self.wrappers;
        let owner = match self.modules.get(&module.path) {
            Some(owner) => *owner,
            None => {
                let is_foreign = is_named(wrappers, &module.path) || (!is_program && is_foreign(module));
                let owner = if is_foreign { Owner::Foreign } else { Owner::Program };
                self.modules.insert(module.path.clone(), owner);
                owner
            }
        };
        let image = &module.loaded.image;
        let function = image.function_at(call).or_else(|| image.fragment_at(call));
        let Some(function) = function.filter(|_| owner == Owner::Program) else { return owner };
        let any = |is: &dyn Fn(&String) -> bool| function.names.iter().any(is);
        let is_short = (1..=WRAPPER_BYTES_MAX).contains(&function.size);
        // A library of MPI's may be linked into the program, as may wrappers of its functions.
        if any(&|name| is_binding(name) || is_named_function(wrappers, name)) {
            Owner::Foreign
        } else if is_short && any(&|name| wraps_by_name(name)) {
            Owner::Wrapper
        } else {
            Owner::Program
        }
    }
}

/// True if a symbol is that of a function which the user named, as its author wrote it or as the symbol is.
fn is_named_function(wrappers: &[String], symbol: &str) -> bool {
    let is_it = |named: &String| named == symbol || demangle_name(symbol).as_ref() == Some(named);
    wrappers.iter().any(is_it)
}

/// True if a function is called as one of MPI's with something before it: `hypre_MPI_Waitall`.
fn wraps_by_name(symbol: &str) -> bool {
    let name = symbol.split(['@', '.']).next().unwrap_or(symbol);
    let places = ["_MPI_", "_mpi_"].iter().filter_map(|part| name.find(part));
    places.into_iter().any(|at| at > 0 && canonical(&name[at + 1..]).is_some())
}

/// True if a path is one that the user named: by the file's name, or the end of its path.
fn is_named(wrappers: &[String], path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_it = |named: &String| {
        let is_version = |rest: &str| rest.starts_with(".so") || (named.contains(".so") && rest.starts_with('.'));
        let is_file = file == named || file.strip_prefix(named.as_str()).is_some_and(is_version);
        is_file || path == named || path.strip_suffix(named.as_str()).is_some_and(|before| before.ends_with('/'))
    };
    wrappers.iter().any(is_it)
}

/// True if no function of a library is the program's own.
pub(super) fn is_foreign(module: &Module) -> bool {
    let name = module.file_name();
    let begins = |known: &str| name.starts_with(known);
    if is_mpi_module(&module.path) || SYSTEM.iter().any(|known| begins(known)) {
        return true;
    }
    let exported = || module.loaded.image.functions.iter().filter(|function| function.exported);
    let exports_mpi = || exported().any(|function| function.names.iter().any(|name| is_of_mpi(name)));
    BINDINGS.iter().any(|known| begins(known)) || exports_mpi() || is_of_python(module)
}

/// True if it is a module of Python's that calls MPI, such as mpi4py's.
fn is_of_python(module: &Module) -> bool {
    let exported = module.loaded.image.functions.iter().filter(|function| function.exported);
    let mut names = exported.flat_map(|function| &function.names);
    let asks_mpi = || imported_names(module.loaded.file.bytes(), &is_of_mpi);
    names.any(|name| name.starts_with("PyInit_")) && asks_mpi().is_ok_and(|asked| !asked.is_empty())
}

/// True if a function of this name is MPI's own, in any language's spelling. Most names are told by their first letter: a
/// library may have many.
fn is_of_mpi(name: &str) -> bool {
    name.starts_with(['M', 'm', 'P', 'p', 'o']) && canonical(name).is_some()
}

/// True if a function of this name is MPI's own, or of a binding: also if it is linked into the program.
pub(super) fn is_binding(symbol: &str) -> bool {
    let name = symbol.split(['@', '.']).next().unwrap_or(symbol);
    is_of_mpi(name) || SCOPES.iter().any(|scope| name.starts_with(scope))
}

/// The same of a name as its author wrote it.
pub(super) fn is_binding_in_source(name: &str) -> bool {
    is_binding(name) || ["MPI::", "boost::mpi::"].iter().any(|scope| name.starts_with(scope))
}

/// True if a file is Python's interpreter.
pub(super) fn is_interpreter(file: &str) -> bool {
    file.starts_with("python") || file.starts_with("libpython")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_known_by_their_names() {
        for name in [
            "MPI_Send",
            "PMPI_Allreduce",
            "mpi_irecv_",
            "pmpi_irecv__",
            "ompi_irecv_f",
            "mpi_irecv_f08_",
            "MPI_Send.cold",
            "_ZNK3MPI4Comm9AllreduceEPKvPviRKNS_8DatatypeERKNS_2OpE",
            "_ZN5boost3mpi11environmentC1Ev",
            "mpi_send_@@V1",
        ] {
            assert!(is_binding(name), "{name}");
        }
        for name in ["main", "my_send", "mpi_exchange_", "solve_", "MPIDemo", "_ZN4MPIX4sendEv", ""] {
            assert!(!is_binding(name), "{name}");
        }
    }

    #[test]
    fn wrappers_have_the_name_of_what_they_call_or_are_named() {
        for name in ["hypre_MPI_Waitall", "my_mpi_send_", "lib_MPI_Allreduce.constprop.0"] {
            assert!(wraps_by_name(name) && !is_binding(name), "{name}");
        }
        for name in ["_mpi_send_", "MPI_Send", "test_mpi_exchange_", "bench_MPI_Bcast_all", "MPI", ""] {
            assert!(!wraps_by_name(name), "{name}");
        }
        let wrappers = ["exchange".to_string(), "Comm::sum".to_string()];
        for (symbol, expected) in [("exchange", true), ("_ZN4Comm3sumEd", true), ("exchange_", false), ("sum", false)] {
            assert_eq!(is_named_function(&wrappers, symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn wrappers_are_named_by_file_or_path() {
        for (named, path, expected) in [
            ("libcomm.so", "/opt/app/lib/libcomm.so", true),
            ("libcomm", "/opt/app/lib/libcomm.so.2.1", true),
            ("libcomm.so", "/opt/app/lib/libcomm.so.2.1", true),
            ("lib/libcomm.so", "/opt/app/lib/libcomm.so", true),
            ("/opt/app/lib/libcomm.so", "/opt/app/lib/libcomm.so", true),
            ("comm.so", "/opt/app/lib/libcomm.so", false),
            ("libcomm", "/opt/app/lib/libcommon.so", false),
        ] {
            assert_eq!(is_named(&[named.to_string()], path), expected, "{named} of {path}");
        }
        assert!(!is_named(&[], "/lib/libcomm.so"));
    }
}
