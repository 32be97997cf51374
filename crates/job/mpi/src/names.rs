//! The name of a function in reports: several symbols share an address or reach one implementation; one name is shown.
//!
//! Fortran compilers and libraries make `mpi_send_` (usual), `mpi_send__`, `mpi_send`, `MPI_SEND`; bindings for Fortran
//! 2008 add `mpi_send_f08_`, `mpi_send_f08ts_` and, for large counts, `mpi_send_f08ts_large_`; Open MPI has
//! `MPI_Send_f`, `MPI_Send_f08` and `ompi_send_f` besides. Each may begin with a `P` for the profiling interface.
//!
//! Next: [`find`] for an exact C name.

use crate::catalogue::{catalogue, find};
use crate::function::MpiFunction;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The C function of MPI that a symbol stands for in C or Fortran, profiling interface included.
pub fn canonical(symbol: &str) -> Option<&'static MpiFunction> {
    find(symbol).or_else(|| find(symbol.strip_prefix('P')?)).or_else(|| from_fortran(symbol))
}

/// The one name to show for symbols that share an address.
///
/// The C name of the MPI function if any of them has one (an exact C name wins over a Fortran form); otherwise the
/// name with the fewest leading underscores, then the shortest, then the first in the alphabet. Empty for no symbols.
pub fn display_name(symbols: &[&str]) -> String {
    let exact = symbols.iter().filter_map(|symbol| find(symbol)).map(|function| function.name).min();
    let reached = || symbols.iter().filter_map(|symbol| canonical(symbol)).map(|function| function.name).min();
    let plain = || symbols.iter().copied().min_by_key(|symbol| (underscores(symbol), symbol.len(), *symbol));
    exact.or_else(reached).or_else(plain).unwrap_or_default().to_owned()
}

/// All symbols that stand for a C function of MPI, one without large counts: in C and to profilers, in Fortran as compilers
/// spell it, and inside of bindings. Each has that function as its [`canonical`] one.
pub fn spellings(name: &str) -> Vec<String> {
    const ENDINGS: [&str; 3] = ["", "_", "__"];
    /// Of the bindings for Fortran, without and with the case of C.
    const BINDINGS: [&str; 4] = ["_f08", "_f08ts", "_cptr", "_f"];
    let rest = name.split_once('_').map_or(name, |(_, rest)| rest).to_ascii_lowercase();
    let mut all = Vec::new();
    for of_profilers in [false, true] {
        let (upper, lower) = if of_profilers { ("P", "p") } else { ("", "") };
        all.push(format!("{upper}{name}"));
        all.push(format!("{lower}{name}").to_ascii_uppercase());
        all.extend(ENDINGS.iter().map(|ending| format!("{lower}mpi_{rest}{ending}")));
        for binding in BINDINGS {
            all.push(format!("{upper}{name}{binding}"));
            all.extend(ENDINGS[..2].iter().map(|ending| format!("{lower}mpi_{rest}{binding}{ending}")));
        }
        all.push(format!("{lower}ompi_{rest}_f"));
    }
    all
}

fn from_fortran(symbol: &str) -> Option<&'static MpiFunction> {
    let lower = symbol.to_ascii_lowercase();
    let stem = lower.trim_end_matches('_');
    let (stem, suffix) = split_binding(stem);
    let stem = stem.strip_prefix('p').unwrap_or(stem);
    let stem = stem.strip_prefix("ompi_").map_or_else(|| stem.to_owned(), |rest| format!("mpi_{rest}"));
    BY_LOWER_CASE.get(format!("{stem}{suffix}").as_str()).copied()
}

/// The stem of a Fortran symbol, and the ending that its C name has instead.
fn split_binding(stem: &str) -> (&str, &'static str) {
    let bindings =
        [("_f08ts_large", "_c"), ("_f08_large", "_c"), ("_f08ts", ""), ("_f08", ""), ("_cptr", ""), ("_f", "")];
    bindings.into_iter().find_map(|(ending, c)| Some((stem.strip_suffix(ending)?, c))).unwrap_or((stem, ""))
}

fn underscores(symbol: &str) -> usize {
    symbol.len() - symbol.trim_start_matches('_').len()
}

static BY_LOWER_CASE: LazyLock<BTreeMap<String, &'static MpiFunction>> =
    LazyLock::new(|| catalogue().iter().map(|function| (function.name.to_ascii_lowercase(), function)).collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_one_canonical_name() {
        #[rustfmt::skip]
        let cases = [
            ("c", "MPI_Send", Some("MPI_Send")), ("profiling", "PMPI_Send", Some("MPI_Send")),
            ("large", "PMPI_Send_c", Some("MPI_Send_c")), ("gfortran", "mpi_send_", Some("MPI_Send")),
            ("g77", "mpi_send__", Some("MPI_Send")), ("xlf", "mpi_send", Some("MPI_Send")),
            ("cray", "MPI_SEND", Some("MPI_Send")), ("fortran_profiling", "pmpi_send_", Some("MPI_Send")),
            ("f08", "mpi_send_f08_", Some("MPI_Send")), ("f08ts", "mpi_send_f08ts_", Some("MPI_Send")),
            ("f08ts_large", "mpi_send_f08ts_large_", Some("MPI_Send_c")), ("ompi_c_side", "ompi_send_f", Some("MPI_Send")),
            ("ompi_bind", "PMPI_Send_f08", Some("MPI_Send")), ("multi_word", "mpi_ineighbor_alltoallw_", Some("MPI_Ineighbor_alltoallw")),
            ("handle", "MPI_Comm_f2c", Some("MPI_Comm_f2c")), ("finalize", "mpi_finalize_", Some("MPI_Finalize")),
            ("other", "sendto", None), ("internal", "MPIR_Send", None), ("empty", "", None), ("underscores", "___", None), ("p", "P", None),
        ];
        for (case, symbol, expected) in cases {
            assert_eq!(canonical(symbol).map(|function| function.name), expected, "{case}");
        }
    }

    /// As the libraries of MPICH and Open MPI have them.
    #[test]
    fn every_spelling_is_of_its_function() {
        for name in ["MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Comm_split_type"] {
            let all = spellings(name);
            assert!(all.iter().all(|symbol| canonical(symbol).is_some_and(|found| found.name == name)), "{all:?}");
        }
        let all = spellings("MPI_Init");
        #[rustfmt::skip]
        let known = [
            "MPI_Init", "PMPI_Init", "MPI_INIT", "PMPI_INIT", "mpi_init", "mpi_init_", "mpi_init__", "pmpi_init_", "mpi_init_f08_",
            "mpi_init_f08ts_", "pmpi_init_f08_", "MPI_Init_f", "PMPI_Init_f08", "ompi_init_f", "pompi_init_f",
        ];
        assert_eq!(known.iter().find(|symbol| !all.iter().any(|one| one == **symbol)), None);
    }

    #[test]
    fn a_group_of_aliases_has_one_name() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &str); 7] = [
            ("mpi", &["PMPI_Send", "MPI_Send", "mpi_send_"], "MPI_Send"),
            ("profiling_only", &["PMPI_Send"], "MPI_Send"),
            ("fortran", &["pmpi_send_", "mpi_send__"], "MPI_Send"),
            ("libc", &["__libc_read", "__read", "read"], "read"),
            ("cxx", &["_Znwm"], "_Znwm"),
            ("folded", &["PMPI_Comm_test_inter", "MPI_Comm_rank"], "MPI_Comm_rank"),
            ("none", &[], ""),
        ];
        for (case, symbols, expected) in cases {
            assert_eq!(display_name(symbols), expected, "{case}");
        }
    }

    #[test]
    fn no_two_functions_differ_only_in_case() {
        assert_eq!(BY_LOWER_CASE.len(), catalogue().len());
    }

    #[test]
    fn every_function_is_found_by_its_fortran_name() {
        for function in catalogue() {
            let fortran = format!("{}_", function.name.to_ascii_lowercase());
            assert_eq!(canonical(&fortran).map(|found| found.name), Some(function.name), "{fortran}");
        }
    }
}
