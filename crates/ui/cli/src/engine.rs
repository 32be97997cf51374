//! The parts that the engine works with here: the log of this host, the user's cache and store, agents.
//!
//! Next: `trimtab-engine`; `window` and `watch`, which ask it.

use crate::arguments::site::SiteOptions;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_engine::{BoxError, Engine, ImageCache, KnownJob, KnownProcess, Listener};
use trimtab_standing::{HostLog, Ways};
use trimtab_store::{JobSummary, Process, Store};
use trimtab_types::report::{LoopPlace, MarkerSource, Report};

/// All parts but the listener and the store.
pub struct Parts {
    /// Symbols of programs.
    pub cache: ImageCache,
    /// The way to other nodes.
    pub ways: Ways,
}

impl Parts {
    /// Those of this user; through a site, if there is one.
    pub fn of(site: Option<&SiteOptions>) -> Self {
        Parts { cache: ImageCache::of_user(), ways: Ways { site: site.and_then(SiteOptions::way) } }
    }

    /// The engine.
    pub fn engine<'a>(&'a self, listener: &'a dyn Listener, store: Option<&'a Kept>) -> Engine<'a> {
        let store = store.map(|kept| kept as &dyn trimtab_engine::Store);
        Engine { listener, audit: &HostLog, cache: &self.cache, store, nodes: Some(&self.ways) }
    }
}

/// The user's store, as windows are kept there.
pub struct Kept {
    store: Mutex<Store>,
    /// Jobs whose windows this command has kept.
    keys: Mutex<Vec<String>>,
}

impl Kept {
    /// Opens it, or makes it.
    pub fn open(path: Option<&Path>) -> Result<Self, trimtab_store::Error> {
        Ok(Kept { store: Mutex::new(Store::open(path)?), keys: Mutex::default() })
    }

    /// The store itself, for as long as nobody else asks it.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of the jobs whose windows this command has kept.
    pub fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl trimtab_engine::Store for Kept {
    fn short_name(&self, key: &str, is_beginning: bool) -> Result<Option<String>, BoxError> {
        let jobs = self.store().list_jobs()?;
        let is_meant = |job: &&JobSummary| if is_beginning { job.key.starts_with(key) } else { job.key == key };
        Ok(jobs.iter().find(is_meant).map(|job| job.id.to_string()))
    }

    fn known_loop(&self, key: &str) -> Result<Option<LoopPlace>, BoxError> {
        let store = self.store();
        let Some(id) = store.job_of_key(key)? else { return Ok(None) };
        let found =
            store.newest_window(Some(&id))?.filter(|report| report.window.marker_source == MarkerSource::Detected);
        Ok(found.and_then(|report| report.window.main_loop))
    }

    fn keep(&self, job: &KnownJob, report: &mut Report) -> Result<(), BoxError> {
        let mut store = self.store();
        let id = store.upsert_job(&report.job, &job.key)?;
        report.job.id = id.to_string();
        report.window.number = store.insert_window(&id, report)?;
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(job.key.clone());
        let process = |known: &KnownProcess| {
            let KnownProcess { rank, pid, host, start_ticks } = known.clone();
            Process { rank, pid, host, start_ticks }
        };
        store.set_processes(&id, &job.processes.iter().map(process).collect::<Vec<_>>())?;
        Ok(())
    }
}
