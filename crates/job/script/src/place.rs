//! Functions of a process, and places inside them, as the compiler of scripts numbers them.
//!
//! Next: `facts` and `places`, which find them.

use trimtab_session::Inner;
use trimtab_types::ProcAddr;

/// A function of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionPlace {
    pub name: String,
    pub module: String,
    pub address: ProcAddr,
}

/// Where a function is said to be whose library is not loaded yet.
pub(crate) const NOWHERE: ProcAddr = ProcAddr(0);

/// One place inside a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InnerPlace {
    pub function: FunctionPlace,
    pub place: Inner,
    /// The function that is called there, if that is known.
    pub callee: Option<FunctionPlace>,
}
