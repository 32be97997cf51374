//! The functions of a file that may change one of its variables, kept with the file.
//!
//! Next: `private`, which finds them; `image_cache`, which keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_types::FileAddr;

/// The functions of a file that may change a variable of it.
#[derive(Debug)]
pub(crate) struct Changers {
    /// Addresses at which these are called, and those that call them.
    pub(crate) begins: BTreeSet<FileAddr>,
    /// Functions that may be called by way of their addresses, if these are kept anywhere.
    pub(crate) kept: BTreeSet<FileAddr>,
}

/// By a variable's address and that of the loop's function, what was found in the file; nothing if it can't be told.
type Found = BTreeMap<(FileAddr, FileAddr), Option<Arc<Changers>>>;

/// Found once for all processes that run a file: it takes some ten milliseconds for each variable of a large one.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<Found>);

impl Users {
    /// Those of a variable and a function, which are looked for once.
    pub(crate) fn changers(
        &self,
        of: (FileAddr, FileAddr),
        find: impl FnOnce() -> Option<Changers>,
    ) -> Option<Arc<Changers>> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(of).or_insert_with(|| find().map(Arc::new)).clone()
    }
}
