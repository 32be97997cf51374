//! Points inside functions: patches at loops, calls, blocks and instructions.
//!
//! Next: `inside`, which finds them; `script`, whose bodies run there.

use crate::inside::Inside;
use crate::modules::Modules;
use crate::prepare::{Prepared, Refused, Subject};
use crate::script::Lost;
use trimtab_os::Memory;
use trimtab_plan::{FunctionBodies, Holds, PlannedFunction, PlannedSite, Unread};
use trimtab_types::ProcAddr;
use trimtab_x86::{Analysis, FunctionCode, Liveness, Site, SiteKind};

/// Where inside a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Before the instruction at this address.
    Instruction(ProcAddr),
    /// Every pass of the loop with this number.
    Loop(Vec<u32>),
    /// Where control goes from a branch straight to another place.
    Way {
        /// The branch.
        from: ProcAddr,
        /// Where it leads, or what follows it.
        to: ProcAddr,
    },
}

/// A place inside a function and what runs there.
#[derive(Clone, Debug)]
pub struct InnerRequest {
    /// Name for people.
    pub name: String,
    /// Where the function begins.
    pub function: ProcAddr,
    /// Where in it.
    pub place: Inner,
    /// Bodies of the script, by number.
    pub bodies: Vec<usize>,
}

impl Prepared {
    /// Decides about places inside functions, after the functions themselves; what they need of bytes that others have
    /// is refused.
    pub(crate) fn add_inner(&mut self, modules: &Modules, memory: Option<&Memory>, requests: &[InnerRequest]) {
        for request in requests {
            match self.inner_site(modules, memory, request) {
                Ok((arena, site)) => {
                    let sites = vec![site];
                    self.take(&sites);
                    let bodies = FunctionBodies { point: request.bodies.clone(), ..FunctionBodies::default() };
                    let name = request.name.clone();
                    self.functions.push(PlannedFunction {
                        name,
                        probe: 0,
                        arena,
                        sites,
                        inline: None,
                        bodies: Some(bodies),
                        holds: Holds::No,
                    });
                }
                Err(reason) => {
                    let said = format!("{}: {reason}", request.name);
                    self.lost.extend(request.bodies.iter().map(|&body| Lost { body, reason: said.clone() }));
                    self.refused.push(Refused { name: request.name.clone(), reason });
                }
            }
        }
    }

    fn inner_site(
        &mut self,
        modules: &Modules,
        memory: Option<&Memory>,
        request: &InnerRequest,
    ) -> Result<(usize, PlannedSite), String> {
        let module = modules.at(request.function).ok_or("it lies in no readable module")?;
        let subject = Subject::new(module, memory, modules);
        let (site, unread) = subject.analysed(request.function, |code, analysis| {
            let inside = Inside::new(code, analysis);
            let site = inside.place(&request.place)?;
            let unread = unread_at(code, analysis, &site);
            Ok((site, unread))
        })?;
        let planned = PlannedSite { unread, ..subject.planned(site)? };
        if self.is_taken(std::slice::from_ref(&planned)) {
            return Err("its bytes are needed by another probe of the script; leave one of them out".into());
        }
        Ok((self.arena_of(module), planned))
    }
}

/// What nobody reads any more where a point's bodies run.
fn unread_at(code: &FunctionCode<'_>, analysis: &Analysis, site: &Site) -> Unread {
    let SiteKind::At(address) = site.kind else { return Unread::default() };
    let liveness = Liveness::of(code, analysis);
    Unread { registers: liveness.dead_registers(address), flags: !liveness.flags_live(address) }
}
