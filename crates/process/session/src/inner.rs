//! Points inside functions: patches at loops, calls, blocks and instructions.
//!
//! Next: `inside`, which finds them; `script`, whose bodies run there.

use crate::debug_files::{DebugFiles, DebugSections};
use crate::how_far::LoopWatch;
use crate::inside::Inside;
use crate::modules::Modules;
use crate::obstacle::Obstacle;
use crate::prepared::Prepared;
use crate::reach::is_in_reach;
use crate::request::{ENTRANCES, Inner, InnerRequest, LoopRequest, Lost, Probed, Refused, Work, each_of};
use crate::sources::Sources;
use crate::subject::Subject;
use trimtab_os::Memory;
use trimtab_plan::{FunctionBodies, PlannedFunction, PlannedSite, Unread};
use trimtab_types::ProcAddr;
use trimtab_x86::{Analysis, FunctionCode, Liveness, PatchSite, SiteKind};

/// Looks at a function's code and the sites that were chosen in it, with what nobody reads there.
type LookAtSites<'a> = dyn FnMut(&Inside<'_>, &[PatchSite], &[Unread]) + 'a;

impl Prepared {
    /// Decides about places inside functions, after the functions themselves; what they need of bytes that others have
    /// is refused.
    pub(crate) fn add_inner(&mut self, modules: &Modules, memory: Option<&Memory>, requests: &[InnerRequest]) {
        for request in requests {
            match self.inner_sites(modules, memory, (request.function, &request.place), &mut |_, _, _| {}) {
                Ok((arena, sites)) => {
                    self.take(&sites);
                    let bodies = FunctionBodies { point: request.bodies.clone(), ..FunctionBodies::default() };
                    let planned = PlannedFunction::new(request.name.clone(), 0, (arena, sites));
                    self.functions.push(PlannedFunction { bodies: Some(bodies), ..planned });
                }
                Err(reason) => {
                    let said = format!("{}: {reason}", request.name);
                    self.lost.extend(request.bodies.iter().map(|&body| Lost { body, reason: said.clone() }));
                    self.refused.push(Refused { name: request.name.clone(), reason });
                }
            }
        }
    }

    /// Decides about loops in the same way.
    pub(crate) fn add_loops(&mut self, modules: &Modules, memory: Option<&Memory>, requests: &[LoopRequest]) {
        let files = DebugFiles::of(modules);
        let sections = DebugSections::of(&files);
        let sources = Sources::of(&sections);
        for request in requests {
            let arenas = self.arena_modules.clone();
            let mut watch = None;
            let found = places(modules, request).and_then(|places| {
                self.all_sites(modules, memory, (request, &places), &mut |inside, sites, unread| {
                    let function = modules
                        .at(request.function)
                        .and_then(|module| module.loaded.image.function_at(module.bias.to_file(request.function)));
                    let flags_unread = unread.first().is_some_and(|unread| unread.flags);
                    watch = Some(LoopWatch::new(inside, &request.number, (sites, flags_unread), function, &sources));
                })
            });
            let found = found.and_then(|(arena, sites)| {
                let text = self.arena_modules.get(arena).map(|(_, text)| text);
                let is_near = text.is_some_and(|text| is_in_reach(&modules.maps, text));
                if is_near { Ok((arena, sites)) } else { Err(Obstacle::NoRoomNear) }
            });
            match found {
                Ok((arena, sites)) => {
                    let probe = self.probes.len() as u32;
                    let address = sites.first().map_or(request.function, |site| site.site.at);
                    self.probes.push(Probed { address: Some(address), range: 0..0, work: Work::Window(request.probe) });
                    self.watches.extend(watch.map(|watch| (probe, watch)));
                    let planned = PlannedFunction::new(request.name.clone(), probe, (arena, sites));
                    self.functions.push(PlannedFunction { is_loop: true, ..planned });
                }
                Err(reason) => {
                    self.arena_modules = arenas;
                    self.refused.push(Refused { name: request.name.clone(), reason });
                }
            }
        }
    }

    /// The patches at all of these places.
    fn all_sites(
        &mut self,
        modules: &Modules,
        memory: Option<&Memory>,
        (request, places): (&LoopRequest, &[Inner]),
        look: &mut LookAtSites<'_>,
    ) -> Result<(usize, Vec<PlannedSite>), Obstacle> {
        let mut all: Option<(usize, Vec<PlannedSite>)> = None;
        for place in places {
            let (arena, sites) = self.inner_sites(modules, memory, (request.function, place), look)?;
            // Two of them must not need the same bytes.
            self.take(&sites);
            all.get_or_insert_with(|| (arena, Vec::new())).1.extend(sites);
        }
        all.ok_or(Obstacle::NoLoop)
    }

    fn inner_sites(
        &mut self,
        modules: &Modules,
        memory: Option<&Memory>,
        (function, place): (ProcAddr, &Inner),
        look: &mut LookAtSites<'_>,
    ) -> Result<(usize, Vec<PlannedSite>), Obstacle> {
        let module = modules.at(function).ok_or(Obstacle::NoModule)?;
        let subject = Subject::new(module, memory, modules);
        let found = subject.analysed(function, |code, analysis| {
            let inside = Inside::new(code, analysis, &subject);
            let sites = inside.place_among(place, &|site| self.may_take(site))?;
            let unread: Vec<Unread> = sites.iter().map(|site| unread_at(code, analysis, site)).collect();
            look(&inside, &sites, &unread);
            Ok((sites, unread))
        });
        let (sites, unread) = found.map_err(|reason| modules.why_unknown(function).unwrap_or(reason))?;
        let planned = sites.into_iter().zip(unread).map(|(site, unread)| {
            let planned = subject.planned(site)?;
            Ok(PlannedSite { unread, ..planned })
        });
        let planned = planned.collect::<Result<_, Obstacle>>()?;
        Ok((self.arena_of(module), planned))
    }
}

/// Where a loop, or what is counted in its place, is passed.
fn places(modules: &Modules, request: &LoopRequest) -> Result<Vec<Inner>, Obstacle> {
    match request.number.split_last() {
        None => modules.look_inside(request.function, |inside| vec![Inner::Instruction(inside.first_instruction())]),
        Some((&ENTRANCES, number)) => modules.look_inside(request.function, |inside| {
            inside.entrances(number).into_iter().map(Inner::Instruction).collect()
        }),
        Some(_) => Ok(each_of(&request.number).map(|number| Inner::Loop(number.to_vec())).collect()),
    }
}

/// Registers and flags that nobody reads any more where a point's bodies run.
fn unread_at(code: &FunctionCode<'_>, analysis: &Analysis, site: &PatchSite) -> Unread {
    let SiteKind::At(address) = site.kind else { return Unread::default() };
    let liveness = Liveness::of(code, analysis);
    Unread { registers: liveness.dead_registers(address), flags: !liveness.flags_live(address) }
}
