//! Places in libraries that the program has not loaded yet: looking for the library, and making its places ready.
//!
//! The bodies are compiled with all others, against a function of which nothing is known; so they are the same unit, put
//! in once more with an area of its own. They can't look at the program's memory: the calls that take memory away are
//! probed already, and empty the tables of the first area only.
//!
//! A library counts as there when two looks in a row see the same of it and every part of it is in its place; its loader
//! may still be writing its data then, but no more its code.
//!
//! Next: `run`, which puts them in; `source`, which sorts them out.

use crate::error::Error;
use crate::facts::matching;
use crate::guard::looks_at_memory;
use std::collections::BTreeSet;
use trimtab_os::{Mapping, MappingTable};
use trimtab_session::{FunctionBodies, ImageCache, Modules, Prepared, ScriptRequest, mappings_of};
use trimtab_snippet::Compiled;
use trimtab_snippet::ir::Unit;
use trimtab_snippet::syntax::FunctionPattern;
use trimtab_types::Pid;

/// Looks at which a library may be there and yet not ready, because its process is busy or ending.
const TRIES_MAX: u32 = 40;

/// Functions of a library to come, with what runs there.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub pattern: FunctionPattern,
    pub bodies: FunctionBodies,
}

/// A library to come.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The end of its file name.
    pub library: String,
    awaited: Vec<Awaited>,
    /// What was mapped of it at the last look.
    seen: Vec<Mapping>,
    tries: u32,
}

/// What a look has shown.
pub(crate) enum Look {
    /// It is not there yet, or not whole.
    NotYet,
    /// It is there and can't be probed, and why.
    Refused(String),
    /// It is there. Functions that can't be probed, with the reason, are beside it.
    Ready(Box<Prepared>),
    /// Its probes are in.
    Done,
}

impl Waiting {
    /// The libraries that a script waits for.
    ///
    /// # Errors
    /// [`Error::Awaited`] where it asks for what can't be done there.
    pub(crate) fn all(awaited: &[Awaited], compiled: &Compiled) -> Result<Vec<Waiting>, Error> {
        let library = |one: &Awaited| one.pattern.library.clone().unwrap_or_default();
        for one in awaited {
            let refused = |reason| Err(Error::Awaited { library: library(one), reason });
            let mut bodies = one.bodies.entry.iter().chain(&one.bodies.exit);
            if compiled.recording.is_some() {
                return refused("a condition with `start` would not reach what runs in it");
            }
            if bodies.any(|number| looks_at_memory(&compiled.unit.bodies[*number])) {
                return refused("what runs in it can't look at the program's memory, only at arguments and variables");
            }
        }
        let libraries: BTreeSet<String> = awaited.iter().map(library).collect();
        let of = |name: &String| awaited.iter().filter(|one| library(one) == *name).cloned().collect();
        let waiting =
            libraries.into_iter().map(|name| Waiting { awaited: of(&name), library: name, seen: Vec::new(), tries: 0 });
        Ok(waiting.collect())
    }

    /// What it waits for, as the script names it.
    pub(crate) fn names(&self) -> Vec<String> {
        self.awaited.iter().map(|one| format!("{}@{}", one.pattern.name, self.library)).collect()
    }

    /// Looks whether the library is there by now.
    pub(crate) fn look(&mut self, pid: Pid, maps: &MappingTable, unit: &Unit, cache: &ImageCache) -> Look {
        let found = mappings_of(maps, &self.library);
        let is_settled = !found.is_empty() && found == self.seen;
        self.seen = found;
        if !is_settled {
            return Look::NotYet;
        }
        match self.prepare(pid, unit, cache) {
            Err(error) => self.failed(&error.to_string()),
            Ok(look) => look,
        }
    }

    /// It may go better at a later look.
    pub(crate) fn failed(&mut self, reason: &str) -> Look {
        self.tries += 1;
        if self.tries < TRIES_MAX { Look::NotYet } else { Look::Refused(reason.to_owned()) }
    }

    fn prepare(&mut self, pid: Pid, unit: &Unit, cache: &ImageCache) -> Result<Look, trimtab_session::Error> {
        let is_it = |path: &str| self.seen.iter().any(|mapping| mapping.path == path);
        let modules = Modules::read(pid, cache, &is_it)?;
        if let Some((path, reason)) = modules.unreadable.first() {
            return Ok(Look::Refused(format!("{path}: {reason}")));
        }
        if modules.modules.is_empty() || !modules.modules.iter().all(|module| module.is_whole(&modules.maps)) {
            return Ok(self.failed("not all of it is mapped"));
        }
        if let Some(module) = modules.modules.iter().find(|module| module.relocates_text()) {
            return Ok(Look::Refused(format!("the loader changes the code of {} as it loads it", module.file_name())));
        }
        let requests = self.requests(&modules);
        if requests.is_empty() {
            return Ok(Look::Refused(format!("no function matches {}", self.names().join(" or "))));
        }
        let prepared = Prepared::for_script(&modules, &requests, &[], unit)?;
        if prepared.point_count() == 0 {
            let reasons = prepared.refused.iter().map(|one| format!("{}: {}", one.name, one.reason));
            return Ok(Look::Refused(reasons.collect::<Vec<_>>().join("; ")));
        }
        Ok(Look::Ready(Box::new(prepared)))
    }

    fn requests(&self, modules: &Modules) -> Vec<ScriptRequest> {
        let of = |awaited: &Awaited| {
            let bodies = awaited.bodies.clone();
            let request = |found: crate::facts::FunctionPlace| ScriptRequest {
                name: found.name,
                address: found.address,
                bodies: bodies.clone(),
            };
            matching(modules, &awaited.pattern).into_iter().map(request).collect::<Vec<_>>()
        };
        self.awaited.iter().flat_map(of).collect()
    }
}
