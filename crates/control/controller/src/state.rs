//! The state that all requests share, each part behind a lock of its own.
//!
//! Next: `asked` for how a request reaches it.

use crate::counts::Counts;
use crate::foreknown::Foresight;
use crate::measurements::Measurements;
use crate::places::Places;
use crate::probes::Probes;
use crate::root::Root;
use crate::waits::Waits;
use crate::windows::Windows;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;
use trimtab_link::Handle;
use trimtab_site::Revoked;
use trimtab_store::Store;

/// The state that all requests share.
pub struct Controller {
    /// Locked only for bookkeeping.
    pub(crate) state: Mutex<State>,
    /// Locked while agents are asked, up to a second: by threads that may wait.
    pub(crate) root: Mutex<Root>,
    /// Locked while the disk is waited for: by threads that may wait.
    pub(crate) store: Mutex<Store>,
    pub(crate) waits: Mutex<Waits>,
    pub(crate) probes: Mutex<Probes>,
    pub(crate) foresight: Foresight,
    /// Windows that the controller itself has measured.
    pub(crate) measurements: Mutex<Measurements>,
    /// Counts for whoever watches the site.
    pub(crate) counts: Counts,
    /// The log of what was asked of it.
    pub(crate) audit: PathBuf,
    /// Long reports are taken in one at a time.
    pub(crate) store_turn: Semaphore,
    /// The root of the tree again, without a lock.
    pub(crate) nodes: Handle,
    pub(crate) revoked: Option<Arc<Revoked>>,
    /// Where agents are awaited.
    pub(crate) tree_port: u16,
    pub(crate) began: Instant,
}

/// Agents and windows.
pub(crate) struct State {
    pub(crate) places: Places,
    pub(crate) windows: Windows,
}

impl Controller {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn root(&self) -> MutexGuard<'_, Root> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        // A panic leaves at most a transaction that did not happen.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn measurements(&self) -> MutexGuard<'_, Measurements> {
        self.measurements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
