//! Points inside functions: what a function looks like inside, and patches at its loops, calls, blocks and instructions.
//!
//! Next: `trimtab-x86`'s `point`, which chooses the bytes; `script`, whose bodies run there.

use crate::modules::Modules;
use crate::prepare::{Prepared, Refused, Subject};
use trimtab_os::Memory;
use trimtab_plan::{FunctionBodies, PlannedFunction, PlannedSite};
use trimtab_types::ProcAddr;
use trimtab_x86::{Analysis, ControlFlow, FunctionCode, Site, Springboards, loop_site, offer_padding, point_site};

/// Where inside a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Before the instruction at this address.
    Instruction(ProcAddr),
    /// Every pass of the loop with this number.
    Loop(Vec<u32>),
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

impl Modules {
    /// Blocks, loops and calls of the function that begins at `function`.
    ///
    /// # Errors
    /// Why its code can't be understood, as a sentence.
    pub fn control_flow(&self, function: ProcAddr) -> Result<ControlFlow, String> {
        let memory = Memory::open(self.pid).map_err(|error| error.to_string())?;
        let module = self.at(function).ok_or("it lies in no readable module")?;
        let subject = Subject::new(module, &memory, self);
        subject.analysed(function, |_, analysis| Ok(ControlFlow::of(analysis)))
    }

    /// The instruction boundaries of the function that begins at `function`: whether `address` is one of them.
    ///
    /// # Errors
    /// Why there is none.
    pub fn check_instruction(&self, function: ProcAddr, address: ProcAddr) -> Result<(), String> {
        let memory = Memory::open(self.pid).map_err(|error| error.to_string())?;
        let module = self.at(function).ok_or("it lies in no readable module")?;
        let subject = Subject::new(module, &memory, self);
        subject.analysed(function, |code, analysis| instruction_site(code, analysis, address).map(drop))
    }
}

impl Prepared {
    /// Decides about places inside functions, after the functions themselves; what they need of bytes that others have
    /// is refused.
    pub(crate) fn add_inner(&mut self, modules: &Modules, memory: &Memory, requests: &[InnerRequest]) {
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
                    });
                }
                Err(reason) => self.refused.push(Refused { name: request.name.clone(), reason }),
            }
        }
    }

    fn inner_site(
        &mut self,
        modules: &Modules,
        memory: &Memory,
        request: &InnerRequest,
    ) -> Result<(usize, PlannedSite), String> {
        let module = modules.at(request.function).ok_or("it lies in no readable module")?;
        let subject = Subject::new(module, memory, modules);
        let site = subject.analysed(request.function, |code, analysis| match &request.place {
            Inner::Instruction(address) => instruction_site(code, analysis, *address),
            Inner::Loop(number) => loop_of(code, analysis, number),
        })?;
        let planned = subject.planned(site)?;
        if self.is_taken(std::slice::from_ref(&planned)) {
            return Err("its bytes are needed by another probe of the script; leave one of them out".into());
        }
        Ok((self.arena_of(module), planned))
    }
}

fn padding(code: &FunctionCode<'_>, analysis: &Analysis) -> Springboards {
    let mut springboards = Springboards::new();
    offer_padding(code, analysis, &mut springboards);
    springboards
}

fn instruction_site(code: &FunctionCode<'_>, analysis: &Analysis, address: ProcAddr) -> Result<Site, String> {
    let mut springboards = padding(code, analysis);
    point_site(code, analysis, address.0, &mut springboards).map_err(|refusal| refusal.to_string())
}

fn loop_of(code: &FunctionCode<'_>, analysis: &Analysis, number: &[u32]) -> Result<Site, String> {
    let flow = ControlFlow::of(analysis);
    let found = flow.loop_numbered(number).ok_or("the function has no such loop")?;
    let site = loop_site(code, analysis, &flow, found, &mut padding(code, analysis));
    site.map(|(site, _)| site).map_err(|refusal| refusal.to_string())
}
