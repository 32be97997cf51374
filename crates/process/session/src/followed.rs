//! Which functions are patched because calls go on in them, and what each jump's probe is told of where its call goes on.
//!
//! Next: `tails`, which finds out where that is.

use crate::obstacle::NotFollowed;
use crate::prepared::Prepared;
use crate::request::{Edge, Probed, TailExit, Work};
use crate::tails::Tails;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_plan::Leaving;
use trimtab_stub::layout::{Probe, flag, role};
use trimtab_types::ProcAddr;
use trimtab_x86::SiteKind;

impl Prepared {
    /// Takes in the functions in which calls of those that were accepted go on.
    pub(crate) fn follow(&mut self, tails: &mut Tails<'_>) {
        let timed = self.probes.iter().filter(|probed| probed.work.sees_ends());
        let mut work: Vec<ProcAddr> = timed.filter_map(|probed| probed.address).collect();
        while let Some(address) = work.pop() {
            let next: Vec<ProcAddr> = tails.jumps(address).iter().filter_map(|jump| tails.end_of(jump).ok()).collect();
            for target in next {
                if let Some((request, placed)) = tails.take_other(target)
                    && !self.is_taken(&placed.sites)
                {
                    self.accept(&request, placed);
                    work.push(target);
                }
            }
        }
    }

    /// Says to each jump's probe where its call goes on. The numbers of functions do not change any more.
    pub(crate) fn link(&mut self, tails: &Tails<'_>) {
        let numbers: BTreeMap<ProcAddr, u32> = self.addresses().zip(0..).collect();
        let sees_ends = |number: u32| self.probes[number as usize].work.sees_ends();
        let mut edges: Vec<Edge> = Vec::new();
        for (index, probed) in self.probes.iter().enumerate().filter(|(_, probed)| probed.work.sees_ends()) {
            for jump in probed.address.map_or(&[][..], |address| tails.jumps(address)) {
                let end = tails.end_of(jump);
                let number =
                    end.as_ref().ok().and_then(|target| numbers.get(target).copied()).filter(|n| sees_ends(*n));
                let unseen = number.is_none().then(|| end.err().unwrap_or(NotFollowed::NotTimed));
                let function = self.functions[index].name.clone();
                self.tails.push(TailExit { function, at: jump.at, to: jump.to.clone(), unseen });
                edges.push((index, jump.site, number));
            }
        }
        self.edges.clone_from(&edges);
        for (index, _, number) in &edges {
            if let Some(number) = *number {
                self.change(*index as u32, |probe| probe.framed = 1);
                self.change(number, |probe| probe.framed = 1);
            }
        }
        self.name_owners(&edges);
        let mut made = BTreeMap::new();
        for (index, site, number) in edges {
            let leaving = self.leaving(index, site, number, &mut made);
            self.functions[index].sites[site].leaving = leaving;
        }
    }

    /// Changes a probe of the routine, if that is what runs.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Probe)) {
        if let Work::Window(probe) = &mut self.probes[number as usize].work {
            change(probe);
        }
    }

    /// The code that runs at a jump.
    fn leaving(
        &mut self,
        index: usize,
        site: usize,
        next: Option<u32>,
        made: &mut BTreeMap<(usize, Option<u32>), u32>,
    ) -> Leaving {
        // Bodies at a jump are chosen by the script.
        let Work::Window(of) = self.probes[index].work else { return Leaving::Ends };
        let next_plus_one = next.map_or(0, |number| number + 1);
        let is_all =
            matches!(self.functions[index].sites[site].site.kind, SiteKind::Whole(exit) if exit.is_unconditional());
        if is_all && next.is_some() && of.role == role::FUNCTION {
            self.change(index as u32, |probe| probe.next_plus_one = next_plus_one);
            return Leaving::Nothing;
        }
        let number = *made.entry((index, next)).or_insert_with(|| {
            let role = if next.is_some() { role::HANDS_OVER } else { role::LEAVES };
            let Probe { function, group, flags, framed, .. } = of;
            let probe = Probe { function, group, flags, framed, role, next_plus_one, ..Probe::ABSENT };
            self.probes.push(Probed { address: None, range: 0..0, work: Work::Window(probe) });
            let number = self.probes.len() as u32 - 1;
            if let Some(functions) = self.shared.get(&(index as u32)).cloned() {
                self.shared.insert(number, functions);
            }
            number
        });
        Leaving::With(number)
    }

    /// Says for each function that is only followed whose calls go on in it: of one function, or nobody knows of which.
    fn name_owners(&mut self, edges: &[Edge]) {
        let is_followed = |index: usize| probe_of(&self.probes[index]).is_some_and(|probe| probe.role == role::PASSES);
        let mut owners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut next: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (index, _, number) in edges {
            next.entry(*index).or_default().extend(number);
        }
        let measured =
            self.probes.iter().enumerate().filter_map(|(index, probed)| Some((index, probe_of(probed)?.function)));
        for (index, function) in measured.filter(|(index, _)| !is_followed(*index)) {
            let (mut work, mut seen) = (vec![index], BTreeSet::new());
            while let Some(from) = work.pop() {
                let next = next.get(&from).into_iter().flatten().copied();
                for number in next.filter(|number| seen.insert(*number)) {
                    work.push(number as usize);
                    owners.entry(number).or_default().insert(function);
                }
            }
        }
        owners.retain(|number, _| is_followed(*number as usize));
        for (number, functions) in owners {
            self.change(number, |probe| probe.flags &= !flag::TIMED);
            self.shared.insert(number, functions.into_iter().collect());
        }
    }
}

fn probe_of(probed: &Probed) -> Option<&Probe> {
    probed.work.probe()
}
