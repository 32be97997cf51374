//! Where each function would be patched, decided while the process runs on.
//!
//! Each function is judged by itself (`subject`); then jumps between functions are followed (`tails`), and functions are left
//! out that share bytes with others or lie where there is no room.
//!
//! Next: `insert` carries it out.

use crate::error::Error;
use crate::modules::Modules;
use crate::obstacle::Obstacle;
use crate::payload::Payload;
use crate::prepared::Prepared;
use crate::purpose::{OfWindow, Purpose};
use crate::request::{FunctionRequest, LoopRequest, Refused};
use crate::subject::{Decided, all_sites, answers_in_flags_at};
use crate::tails::Tails;
use std::collections::{BTreeMap, HashSet};
use trimtab_os::{Gadgets, find_gadgets};

impl Prepared {
    /// Decides about each of `requests`; several requests for one address become one probe.
    pub fn new(modules: &Modules, requests: &[FunctionRequest]) -> Result<Self, Error> {
        Prepared::with_loops(modules, requests, &[])
    }

    /// The same with loops whose passes are counted: each has a probe of its own, behind those of the functions.
    pub fn with_loops(modules: &Modules, requests: &[FunctionRequest], loops: &[LoopRequest]) -> Result<Self, Error> {
        let mut prepared = Prepared::decided(modules, requests, &OfWindow)?;
        let memory = modules.memory()?;
        prepared.add_loops(modules, memory.as_ref(), loops);
        if !prepared.hold_handlers(modules, memory.as_ref()) {
            return Prepared::with_loops(&modules.clone().with_handlers_unseen(), requests, loops);
        }
        prepared.describe_frames(modules, memory.as_ref());
        Ok(prepared)
    }

    /// The same as `purpose` wants it.
    pub(crate) fn decided(
        modules: &Modules,
        requests: &[FunctionRequest],
        purpose: &dyn Purpose,
    ) -> Result<Self, Error> {
        let memory = modules.memory()?;
        let gadgets = match &memory {
            Some(memory) => find_gadgets(modules.pid, memory, &modules.maps)?,
            // Nothing is ever inserted there.
            None => Gadgets { system_call: 0, signal_return: 0 },
        };
        let mut prepared = Prepared {
            functions: Vec::new(),
            probes: Vec::new(),
            refused: Vec::new(),
            endless: Vec::new(),
            tails: Vec::new(),
            shared: BTreeMap::new(),
            edges: Vec::new(),
            watches: BTreeMap::new(),
            lost: Vec::new(),
            arena_modules: Vec::new(),
            gadgets,
            taken: BTreeMap::new(),
            program: modules.modules.first().map_or(0..0, |module| module.text.clone()),
            payload: Payload::Window,
            handlers: modules.fault_handlers().clone(),
            setters: Vec::new(),
            framed: Vec::new(),
            frames_reach_all: false,
        };
        let mut known = HashSet::new();
        let requests: Vec<&FunctionRequest> = requests.iter().filter(|request| known.insert(request.address)).collect();
        let mut endless = Vec::new();
        let decided = all_sites(modules, memory.as_ref(), &requests);
        let mut tails = Tails::of(modules, memory.as_ref(), &requests, &decided, purpose);
        for (request, sites) in requests.iter().zip(decided) {
            match without_exits(request, &sites, purpose, &tails) {
                Some(reason) if purpose.counts(request, &reason) => {
                    endless.push((FunctionRequest { work: request.work.counted(), ..(*request).clone() }, reason))
                }
                Some(reason) => prepared.take_in(request, Err(reason), purpose),
                None => prepared.take_in(request, sites, purpose),
            }
        }
        let entries: Vec<&FunctionRequest> = endless.iter().map(|(request, _)| request).collect();
        for ((request, reason), sites) in endless.iter().zip(all_sites(modules, memory.as_ref(), &entries)) {
            if sites.is_ok() {
                prepared.endless.push(Refused { name: request.name.clone(), reason: reason.clone() });
            }
            prepared.take_in(request, sites, purpose);
        }
        prepared.follow(&mut tails);
        prepared.leave_out_unreachable(&modules.maps);
        prepared.link(&tails);
        Ok(prepared)
    }

    /// Accepts or refuses one function.
    fn take_in(&mut self, request: &FunctionRequest, sites: Decided<'_>, purpose: &dyn Purpose) {
        let refuse = |reason: Obstacle| Refused { name: request.name.clone(), reason };
        match sites {
            Ok(placed) if self.is_taken(&placed.sites) => {
                self.refused.push(refuse(Obstacle::SharesCode));
            }
            Ok(placed) if !purpose.keeps_flags() && request.work.sees_ends() && answers_in_flags_at(&placed) => {
                self.refused.push(refuse(Obstacle::AnswersInFlags));
            }
            Ok(placed) => self.accept(request, placed),
            Err(reason) => self.refused.push(refuse(reason)),
        }
    }
}

/// Why exits that are asked for can't be seen; `None`: they can, or nobody asks.
fn without_exits(
    request: &FunctionRequest,
    sites: &Decided<'_>,
    purpose: &dyn Purpose,
    tails: &Tails<'_>,
) -> Option<Obstacle> {
    match sites {
        _ if !request.work.sees_ends() => None,
        Ok(_) if !purpose.asks_for_ends(request) => None,
        Ok(_) => tails.endless(request.address).map(|names| {
            let to = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            Obstacle::LeftByJumps { to }
        }),
        Err(reason) => Some(reason.clone()),
    }
}
