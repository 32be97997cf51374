//! A function seen from inside, without changing anything: its blocks, loops and calls, and how each place in it would
//! be patched. In a process its code is read there and compared with the file; of a file alone there is only the file.
//!
//! Next: `inner`, which patches such places; `trimtab-x86`'s `point`, which chooses the bytes.

use crate::around::Around;
use crate::modules::Modules;
use crate::obstacle::Obstacle;
use crate::request::Inner;
use crate::returns::flow_of;
use crate::sources::Sources;
use crate::subject::Subject;
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Analysis, CodeSource, ControlFlow, ENTRY_MARKER, ExitTests, FunctionCode, FunctionSites, HowFar, Loop, PassPlace,
    PatchSite, Refusal, Springboards, Unsure, entry_has_marker, exit_tests, how_far, loop_sites, offer_padding,
    own_sites, point_site, way_site,
};

/// One function's code, understood.
#[derive(Debug)]
pub struct Inside<'a> {
    code: &'a FunctionCode<'a>,
    analysis: &'a Analysis,
    subject: &'a Subject<'a>,
    /// Its blocks, loops and calls.
    pub flow: ControlFlow,
}

impl<'a> Inside<'a> {
    pub(crate) fn new(code: &'a FunctionCode<'a>, analysis: &'a Analysis, subject: &'a Subject<'a>) -> Self {
        Inside { code, analysis, subject, flow: flow_of(code, analysis, subject) }
    }

    /// Where its entry and each of its exits would be patched, or why not.
    pub fn sites(&self) -> FunctionSites {
        own_sites(self.code, self.analysis)
    }

    /// The patch that sees every pass of the instruction at `address`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn instruction(&self, address: ProcAddr) -> Result<PatchSite, Refusal> {
        point_site(self.code, self.analysis, address, &mut self.padding())
    }

    /// Patches of which every pass of a loop goes through one, once.
    ///
    /// # Errors
    /// Why there are none.
    pub fn loop_pass(&self, found: &Loop) -> Result<(Vec<PatchSite>, PassPlace), Refusal> {
        self.loop_pass_among(found, &|_| true)
    }

    /// The same, of patches that `may_take`.
    pub(crate) fn loop_pass_among(
        &self,
        found: &Loop,
        may_take: &dyn Fn(&PatchSite) -> bool,
    ) -> Result<(Vec<PatchSite>, PassPlace), Refusal> {
        loop_sites(self.code, self.analysis, &self.flow, found, may_take)
    }

    /// How it is told how far a loop is at a patch right before the instruction at `site`; see [`how_far`].
    pub(crate) fn how_far(
        &self,
        found: &Loop,
        site: ProcAddr,
        (keeps_counters, sources): (bool, &Sources<'_>),
    ) -> Result<HowFar, Unsure> {
        let source = |at| sources.at(at);
        let surroundings = self.around(found, keeps_counters, &source);
        how_far(self.code, self.analysis, (&self.flow, found), site, &surroundings)
    }

    /// The tests by which a loop is left, to be looked at from a patch right before the instruction at `site`; see [`exit_tests`].
    pub(crate) fn exit_tests(&self, found: &Loop, site: ProcAddr, sources: &Sources<'_>) -> Option<ExitTests> {
        let source = |at| sources.at(at);
        let surroundings = self.around(found, false, &source);
        exit_tests(self.code, self.analysis, (&self.flow, found), site, &surroundings)
    }

    fn around<'b>(
        &'b self,
        found: &'b Loop,
        keeps_counters: bool,
        source: &'b dyn Fn(ProcAddr) -> Option<CodeSource>,
    ) -> Around<'b> {
        let (subject, entry, flow) = (self.subject, self.code.entry, &self.flow);
        Around { subject, entry, flow, found, keeps_counters, source }
    }

    /// The patch that sees every time control goes from the branch at `from` straight to `to`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn way(&self, from: ProcAddr, to: ProcAddr) -> Result<PatchSite, Refusal> {
        way_site(self.code, self.analysis, from, to, &mut self.padding())
    }

    /// The patches at a place, however it is given: of a loop there may be several.
    ///
    /// # Errors
    /// Why there are none.
    pub fn place(&self, place: &Inner) -> Result<Vec<PatchSite>, Obstacle> {
        self.place_among(place, &|_| true)
    }

    /// The same, of patches that `may_take`.
    pub(crate) fn place_among(
        &self,
        place: &Inner,
        may_take: &dyn Fn(&PatchSite) -> bool,
    ) -> Result<Vec<PatchSite>, Obstacle> {
        let one = |site: Result<PatchSite, Refusal>| match site {
            Ok(site) if may_take(&site) => Ok(vec![site]),
            Ok(site) => Err(Refusal::Taken { at: site.at }),
            Err(refusal) => Err(refusal),
        };
        let sites = match place {
            Inner::Instruction(address) => one(self.instruction(*address)),
            Inner::Way { from, to } => one(self.way(*from, *to)),
            Inner::Loop(number) => {
                let found = self.flow.loop_numbered(number).ok_or(Obstacle::NoLoop)?;
                self.loop_pass_among(found, may_take).map(|(sites, _)| sites)
            }
        };
        Ok(sites?)
    }

    /// Where the loop with this number is entered from outside of it; none if there is no such loop.
    pub fn entrances(&self, number: &[u32]) -> Vec<ProcAddr> {
        let found = self.flow.loop_numbered(number);
        let entries = found.into_iter().flat_map(|found| &found.entries);
        entries.map(|&block| self.flow.blocks[block].range.start).collect()
    }

    /// The first instruction behind a landing pad for indirect calls.
    pub fn first_instruction(&self) -> ProcAddr {
        let marker = if entry_has_marker(self.code) { ENTRY_MARKER.len() as u64 } else { 0 };
        self.code.entry + marker
    }

    fn padding(&self) -> Springboards {
        let mut springboards = Springboards::new();
        offer_padding(self.code, self.analysis, &mut springboards);
        springboards
    }
}

impl Modules {
    /// Hands over the inside of the function that begins at `function`.
    ///
    /// # Errors
    /// Why its code can't be understood.
    pub fn look_inside<T>(&self, function: ProcAddr, then: impl FnOnce(&Inside<'_>) -> T) -> Result<T, Obstacle> {
        let memory = self.memory().map_err(|error| Obstacle::Memory(error.to_string()))?;
        let module = self.at(function).ok_or(Obstacle::NoModule)?;
        let subject = Subject::new(module, memory.as_ref(), self);
        let seen = subject.analysed(function, |code, analysis| Ok(then(&Inside::new(code, analysis, &subject))));
        seen.map_err(|reason| self.why_unknown(function).unwrap_or(reason))
    }

    /// Blocks, loops and calls of the function that begins at `function`.
    ///
    /// # Errors
    /// Why its code can't be understood.
    pub fn control_flow(&self, function: ProcAddr) -> Result<ControlFlow, Obstacle> {
        self.look_inside(function, |inside| inside.flow.clone())
    }

    /// The instruction boundaries of the function that begins at `function`: whether `address` is one of them.
    ///
    /// # Errors
    /// Why there is none.
    pub fn check_instruction(&self, function: ProcAddr, address: ProcAddr) -> Result<(), Obstacle> {
        self.look_inside(function, |inside| inside.instruction(address))??;
        Ok(())
    }
}
