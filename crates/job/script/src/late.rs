//! Places in libraries that the program has not loaded yet: looking for the library, and making its places ready.
//!
//! The bodies are compiled with all others, against a function of which nothing is known; so they are the same unit, put
//! in once more with an area of its own. The calls that take memory away are probed already, and empty the tables of the
//! first area only; so bodies here can look at no memory but what stays: the program's own file, the library's while its
//! functions run, and the main thread's stack.
//!
//! A library counts as there when two looks in a row see the same of it and every part of it is in its place; its loader
//! may still be writing its data then, but no more its code.
//!
//! Next: `run`, which puts them in; `source`, which sorts them out.

use crate::debug::{DebugFiles, DebugSections};
use crate::error::Error;
use crate::facts::{ProcessFacts, matching};
use crate::places::inner_request;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_os::{Mapping, MappingTable};
use trimtab_session::{
    FaultHandlers, FunctionBodies, ImageCache, InnerRequest, Lost, Modules, Obstacle, Prepared, Refused, ScriptRequest,
    mappings_of,
};
use trimtab_snippet::Compiled;
use trimtab_snippet::error::Span;
use trimtab_snippet::facts::SiteId;
use trimtab_snippet::ir::Unit;
use trimtab_snippet::syntax::{FunctionPattern, Point, PointKind};
use trimtab_types::Pid;

/// Looks at which a library may be there and yet not ready, because its process is busy or ending.
const TRIES_MAX: u32 = 40;

/// Functions of a library to come, or a point in them, with what runs there.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    library: String,
    place: AwaitedPoint,
    pub bodies: FunctionBodies,
    /// True if bodies at exits ask how long the call took or what it returned.
    pub asks_for_ends: bool,
}

#[derive(Clone, Debug)]
enum AwaitedPoint {
    Functions(FunctionPattern),
    Inside(PointKind),
}

impl Awaited {
    /// Entries and exits of functions.
    pub(crate) fn functions(pattern: FunctionPattern) -> Self {
        let library = pattern.library.clone().unwrap_or_default();
        Awaited {
            library,
            place: AwaitedPoint::Functions(pattern),
            bodies: FunctionBodies::default(),
            asks_for_ends: false,
        }
    }

    /// Another point, of this library.
    pub(crate) fn inside((library, point): (String, PointKind)) -> Self {
        Awaited { library, place: AwaitedPoint::Inside(point), bodies: FunctionBodies::default(), asks_for_ends: false }
    }

    /// One more body that runs at the point.
    pub(crate) fn add(&mut self, body: usize) {
        self.bodies.point.push(body);
    }

    /// As a script names it.
    fn name(&self) -> String {
        match &self.place {
            AwaitedPoint::Functions(pattern) => format!("{}@{}", pattern.name, self.library),
            AwaitedPoint::Inside(point) => Point { kind: point.clone(), span: Span::default() }.to_string(),
        }
    }
}

/// A library to come.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The end of its file name.
    pub library: String,
    awaited: Vec<Awaited>,
    /// Its mappings at the last look.
    seen: Vec<Mapping>,
    tries: u32,
}

/// The result of a look.
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
        for one in awaited {
            let refused = |reason| Err(Error::Awaited { library: one.library.clone(), reason });
            if compiled.recording.is_some() {
                return refused("a condition with `start` would not reach what runs in it");
            }
        }
        let libraries: BTreeSet<String> = awaited.iter().map(|one| one.library.clone()).collect();
        let of = |name: &String| awaited.iter().filter(|one| one.library == *name).cloned().collect();
        let waiting =
            libraries.into_iter().map(|name| Waiting { awaited: of(&name), library: name, seen: Vec::new(), tries: 0 });
        Ok(waiting.collect())
    }

    /// The libraries it waits for, as the script names them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.awaited.iter().map(Awaited::name).collect()
    }

    /// Its bodies, none of which runs, for this reason.
    pub(crate) fn lost(&self, reason: &str) -> Vec<Lost> {
        let of = |awaited: &Awaited| {
            let (bodies, reason) = (&awaited.bodies, format!("{}: {reason}", awaited.name()));
            let all = bodies.entry.iter().chain(&bodies.exit).chain(&bodies.point).copied();
            all.map(move |body| Lost { body, reason: reason.clone() }).collect::<Vec<_>>()
        };
        self.awaited.iter().flat_map(of).collect()
    }

    /// Looks whether the library is there by now. With `are_setters_held`, probes that are in already hold threads that set a
    /// fault handler.
    pub(crate) fn look(
        &mut self,
        (pid, maps): (Pid, &MappingTable),
        are_setters_held: bool,
        unit: &Unit,
        cache: &ImageCache,
    ) -> Look {
        let found = mappings_of(maps, &self.library);
        let is_settled = !found.is_empty() && found == self.seen;
        self.seen = found;
        if !is_settled {
            return Look::NotYet;
        }
        match self.prepare(pid, are_setters_held, unit, cache) {
            Err(error) => self.failed(&error.to_string()),
            Ok(look) => look,
        }
    }

    /// The mappings that bodies in the library may look at. `program` is where the program's own file is.
    pub(crate) fn lasting(&self, maps: &MappingTable, program: &[Range<u64>]) -> MappingTable {
        let of_program = |mapping: &Mapping| {
            let parts = program.iter().map(|part| part.start.max(mapping.start)..part.end.min(mapping.end));
            let clipped = |part: Range<u64>| Mapping { start: part.start, end: part.end, ..mapping.clone() };
            parts.filter(|part| part.start < part.end).map(clipped).collect::<Vec<_>>()
        };
        let lasting = |mapping: &Mapping| match mapping.path == "[stack]" || self.seen.contains(mapping) {
            true => vec![mapping.clone()],
            false => of_program(mapping),
        };
        MappingTable(maps.0.iter().flat_map(lasting).collect())
    }

    /// It may go better at a later look.
    pub(crate) fn failed(&mut self, reason: &str) -> Look {
        self.tries += 1;
        if self.tries < TRIES_MAX { Look::NotYet } else { Look::Refused(reason.to_owned()) }
    }

    fn prepare(
        &mut self,
        pid: Pid,
        are_setters_held: bool,
        unit: &Unit,
        cache: &ImageCache,
    ) -> Result<Look, trimtab_session::Error> {
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
        let (inner, unknown) = self.inner(&modules);
        if requests.is_empty() && inner.is_empty() {
            let reasons = unknown.into_iter().map(|one| format!("{}: {}", one.name, one.reason)).collect::<Vec<_>>();
            let nothing = || format!("no function matches {}", self.names().join(" or "));
            return Ok(Look::Refused(if reasons.is_empty() { nothing() } else { reasons.join("; ") }));
        }
        let modules = if are_setters_held { modules.with_handlers(FaultHandlers::of(pid)) } else { modules };
        let mut prepared = Prepared::for_late_script(&modules, &requests, &inner, unit)?;
        prepared.refused.extend(unknown);
        if prepared.point_count() == 0 {
            let reasons = prepared.refused.iter().map(|one| format!("{}: {}", one.name, one.reason));
            return Ok(Look::Refused(reasons.collect::<Vec<_>>().join("; ")));
        }
        Ok(Look::Ready(Box::new(prepared)))
    }

    fn requests(&self, modules: &Modules) -> Vec<ScriptRequest> {
        let of = |awaited: &Awaited| {
            let bodies = awaited.bodies.clone();
            let request = |found: crate::place::FunctionPlace| ScriptRequest {
                name: found.name,
                address: found.address,
                bodies: bodies.clone(),
                serve_exits: Vec::new(),
                asking: if awaited.asks_for_ends { bodies.exit.clone() } else { Vec::new() },
                needs_exits: true,
            };
            let AwaitedPoint::Functions(pattern) = &awaited.place else { return Vec::new() };
            matching(modules, pattern).into_iter().map(request).collect::<Vec<_>>()
        };
        self.awaited.iter().flat_map(of).collect()
    }

    /// The points inside functions, each place once, and those that are none.
    fn inner(&self, modules: &Modules) -> (Vec<InnerRequest>, Vec<Refused>) {
        let files = DebugFiles::of(modules);
        let sections = DebugSections::of(&files);
        let facts = ProcessFacts::new(modules, &sections);
        let (mut of_site, mut unknown) = (BTreeMap::<SiteId, Vec<usize>>::new(), Vec::new());
        for one in &self.awaited {
            let AwaitedPoint::Inside(point) = &one.place else { continue };
            match facts.places(point) {
                Ok(sites) => {
                    sites.iter().for_each(|site| of_site.entry(site.id).or_default().extend(&one.bodies.point))
                }
                Err(none) => {
                    unknown.push(Refused { name: one.name(), reason: Obstacle::NoPlace(none.to_string()) });
                }
            }
        }
        let inner = of_site.into_iter().map(|(site, mut bodies)| {
            // They run in the order of the script.
            bodies.sort_unstable();
            inner_request(&facts, site, bodies)
        });
        (inner.collect(), unknown)
    }
}

/// Where the program's own file lies in its process, data that begins as zeros included.
pub(crate) fn program_of(modules: &Modules) -> Vec<Range<u64>> {
    const PAGE: u64 = 4096;
    let Some(program) = modules.modules.first() else { return Vec::new() };
    let place = |segment: &trimtab_symbols::Segment| {
        let start = program.bias.to_proc(segment.addr).0;
        start & !(PAGE - 1)..start.saturating_add(segment.mem_size).next_multiple_of(PAGE)
    };
    program.loaded.image.segments.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::procfs::parse_maps;

    #[test]
    fn only_what_stays_may_be_looked_at() {
        let text = "400000-402000 r-xp 00000000 08:01 7 /bin/program\n\
                    402000-404000 rw-p 00002000 08:01 7 /bin/program\n\
                    404000-408000 rw-p 00000000 00:00 0 \n\
                    409000-40b000 rw-p 00000000 00:00 0 [heap]\n\
                    7f0000000000-7f0000002000 r-xp 00000000 08:01 8 /lib/liblate.so\n\
                    7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n\
                    7f0000004000-7f0000005000 r-xp 00000000 08:01 9 /lib/libother.so\n\
                    7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n";
        let maps = MappingTable(parse_maps(text.as_bytes()).expect("a map"));
        let seen = mappings_of(&maps, "liblate.so");
        let waiting = Waiting { library: "liblate.so".into(), awaited: Vec::new(), seen, tries: 0 };
        // The last segment goes on into memory without a file, and ends before that does.
        let program = [0x40_0000..0x40_2000, 0x40_2000..0x40_5000];
        let found: Vec<(u64, u64)> =
            waiting.lasting(&maps, &program).0.iter().map(|mapping| (mapping.start, mapping.end)).collect();
        let expected = [
            (0x40_0000, 0x40_2000),
            (0x40_2000, 0x40_4000),
            (0x40_4000, 0x40_5000),
            (0x7f00_0000_0000, 0x7f00_0000_2000),
            (0x7ffc_0000_0000, 0x7ffc_0002_1000),
        ];
        assert_eq!(found, expected);
    }
}
