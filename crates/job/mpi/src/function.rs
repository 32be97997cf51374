//! One C function of MPI: its class, the arguments that say what it moves, and the groups it is measured in.
//!
//! Next: `catalogue` for all of them, `groups` for the functions of other libraries.

use crate::accounting::Accounting;

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

/// A group of functions that a user measures together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Communication: MPI.
    Comm,
    /// Files: the C library's calls and MPI's.
    Io,
    /// Allocation and mapping of memory.
    Memory,
    /// Sleeping and waiting for descriptors, threads or processes.
    Sleep,
    /// Parallel regions of OpenMP and the waits of their threads.
    Omp,
    /// All of them but `Omp`.
    All,
}
