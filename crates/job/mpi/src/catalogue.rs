//! Every C function of MPI 3.1, 4.0 and 4.1, with what it is and what it moves.
//!
//! The table covers names, not libraries: a function that a library lacks is simply not found there. Removed functions
//! of MPI 1 (`MPI_Type_struct`...) are in it because old programs and libraries still have them.
//!
//! Next: `catalogue/table.rs`, the functions that communicate; `catalogue/local.rs`, the others.

mod local;
mod table;

use crate::accounting::Accounting;
use crate::groups::Group;
use std::sync::LazyLock;

/// The kind of work a function does; the classes of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Sends a message, or posts or prepares sending one.
    PointToPointSend,
    /// Receives a message, or posts or prepares receiving one.
    Receive,
    /// Sends and receives in one call.
    SendReceive,
    /// Looks for a message, waiting or not.
    Probe,
    /// Waits until operations are complete.
    Wait,
    /// Asks whether operations are complete.
    Test,
    /// Starts persistent or partitioned operations.
    Start,
    /// Cancels or frees requests.
    RequestManagement,
    /// All members of a communicator take part.
    Collective,
    /// Neighbours in a topology take part.
    NeighborCollective,
    /// Reads or writes another rank's window.
    OneSided,
    /// Opens, closes or completes access to windows, or creates and frees them.
    OneSidedSynchronization,
    /// Works on a file, alone or together.
    Io,
    /// Creates, duplicates, changes or frees communicators, together.
    CommunicatorManagement,
    /// Starts processes or connects to them.
    ProcessManagement,
    /// Begins or ends MPI.
    Environment,
    /// Needs no other process; not measured.
    Local,
}

/// Which handle a call ends, so that what was remembered under it must be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandleKind {
    /// `MPI_Datatype`
    Datatype,
    /// `MPI_Comm`
    Communicator,
    /// `MPI_Request`
    Request,
    /// `MPI_Win`
    Window,
}

/// One C function of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiFunction {
    /// The C name, such as `MPI_Send`.
    pub name: &'static str,
    /// The kind of work it does.
    pub class: Class,
    /// True if no member can leave it before every member has entered (for payloads above zero bytes): barrier,
    /// allreduce, allgather, alltoall, reduce-scatter, the creation of a communicator. Only blocking calls.
    pub synchronising: bool,
    /// Which arguments say what it moves.
    pub accounting: Accounting,
    /// The kind of handle that argument 0 points to and that ends with this call.
    pub invalidates: Option<HandleKind>,
}

impl MpiFunction {
    /// True if the function is measured in `group`.
    ///
    /// `Comm` is every function that is not local, I/O included (as "MPI time" is usually understood: what a file
    /// operation does inside the library is then not counted a second time); `Io` is the class [`Class::Io`].
    pub fn is_in(&self, group: Group) -> bool {
        match group {
            Group::Comm | Group::All => self.class != Class::Local,
            Group::Io => self.class == Class::Io,
            Group::Memory | Group::Sleep | Group::Omp => false,
        }
    }

    /// True if the call may return before what it asked for is done, so that its own time is not the operation's time.
    pub fn is_nonblocking(&self) -> bool {
        let posts = self.accounting.request != crate::ABSENT;
        posts && !matches!(self.class, Class::Wait | Class::Test | Class::Start | Class::RequestManagement)
    }
}

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
