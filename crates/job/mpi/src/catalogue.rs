//! Every C function of MPI 3.1, 4.0 and 4.1, with what it is and what it moves.
//!
//! The table covers names, not libraries: a function that a library lacks is simply not found there. Removed functions
//! of MPI 1 (`MPI_Type_struct`...) are in it because old programs and libraries still have them.
//!
//! Next: `catalogue/table.rs`, the functions that communicate; `catalogue/local.rs`, the others.

mod local;
mod table;

use crate::function::MpiFunction;
use std::sync::LazyLock;

/// All functions, sorted by name.
pub fn catalogue() -> &'static [MpiFunction] {
    &CATALOGUE
}

/// The function with exactly this C name (`MPI_Send`, not `PMPI_Send`: see [`canonical`](crate::canonical)).
pub fn find(name: &str) -> Option<&'static MpiFunction> {
    let at = CATALOGUE.binary_search_by(|function| function.name.cmp(name)).ok()?;
    CATALOGUE.get(at)
}

static CATALOGUE: LazyLock<Vec<MpiFunction>> = LazyLock::new(|| {
    let local = local::NAMES.iter().map(|name| local::function(name));
    let mut functions: Vec<_> = table::rows().flat_map(table::Row::functions).chain(local).collect();
    functions.sort_by_key(|function| function.name);
    functions
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::{ABSENT, AccountingKind, Counted};
    use crate::function::{Class, Group, HandleKind};

    #[test]
    fn every_name_is_there_once() {
        let twice: Vec<_> =
            catalogue().windows(2).filter(|pair| pair[0].name >= pair[1].name).map(|pair| pair[1].name).collect();
        assert_eq!(twice, Vec::<&str>::new());
    }

    #[test]
    fn known_functions_are_what_the_standard_says() {
        #[rustfmt::skip]
        let cases: &[(&str, Class, bool, AccountingKind)] = &[
            ("MPI_Send", Class::PointToPointSend, false, AccountingKind::Send),
            ("MPI_Isend_c", Class::PointToPointSend, false, AccountingKind::Send),
            ("MPI_Sendrecv", Class::SendReceive, false, AccountingKind::SendReceive),
            ("MPI_Recv", Class::Receive, false, AccountingKind::Receive),
            ("MPI_Barrier", Class::Collective, true, AccountingKind::None),
            ("MPI_Ibarrier", Class::Collective, false, AccountingKind::None),
            ("MPI_Allreduce", Class::Collective, true, AccountingKind::Allreduce),
            ("MPI_Iallreduce", Class::Collective, false, AccountingKind::Allreduce),
            ("MPI_Scan", Class::Collective, false, AccountingKind::Allreduce),
            ("MPI_Bcast", Class::Collective, false, AccountingKind::Bcast),
            ("MPI_Alltoallw_init_c", Class::Collective, false, AccountingKind::Alltoallw),
            ("MPI_Neighbor_alltoallw", Class::NeighborCollective, false, AccountingKind::NeighborAlltoallw),
            ("MPI_Comm_split", Class::CommunicatorManagement, true, AccountingKind::None),
            ("MPI_Put", Class::OneSided, false, AccountingKind::Put),
            ("MPI_File_write_at_all", Class::Io, false, AccountingKind::IoWrite),
            ("MPI_Waitall", Class::Wait, false, AccountingKind::None),
            ("MPI_Startall", Class::Start, false, AccountingKind::Startall),
            ("MPI_Comm_rank", Class::Local, false, AccountingKind::None),
            ("MPI_Wtime", Class::Local, false, AccountingKind::None),
            ("MPI_Type_free", Class::Local, false, AccountingKind::None),
        ];
        for (name, class, synchronising, kind) in cases {
            let function = find(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(
                (function.class, function.synchronising, function.accounting.kind),
                (*class, *synchronising, *kind),
                "{name}"
            );
        }
    }

    #[test]
    fn handles_end_where_the_standard_says() {
        let ending: Vec<_> =
            catalogue().iter().filter_map(|function| Some((function.name, function.invalidates?))).collect();
        let expected = [
            ("MPI_Comm_disconnect", HandleKind::Communicator),
            ("MPI_Comm_free", HandleKind::Communicator),
            ("MPI_Request_free", HandleKind::Request),
            ("MPI_Type_free", HandleKind::Datatype),
            ("MPI_Win_free", HandleKind::Window),
        ];
        assert_eq!(ending, expected);
    }

    #[test]
    fn whatever_counts_at_start_returns_a_request() {
        for function in catalogue().iter().filter(|function| function.accounting.counted == Counted::AtStart) {
            assert_ne!(function.accounting.request, ABSENT, "{}", function.name);
            assert!(function.is_nonblocking(), "{}", function.name);
        }
    }

    #[test]
    fn local_functions_are_in_no_group_and_others_in_comm() {
        for function in catalogue() {
            assert_eq!(function.is_in(Group::Comm), function.class != Class::Local, "{}", function.name);
            assert_eq!(
                function.is_in(Group::Io),
                function.name.starts_with("MPI_File_") && function.class != Class::Local,
                "{}",
                function.name
            );
        }
    }
}
