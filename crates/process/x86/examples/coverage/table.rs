//! The counts that `coverage` prints: functions, the share of each kind of place, and refusals by reason.

use super::Planned;
use std::collections::BTreeMap;
use trimtab_types::ProcAddr;
use trimtab_x86::{Exit, ExitKind, JumpForm, PatchSite, SiteKind};

/// Counts over some functions.
#[derive(Default)]
pub struct Table {
    functions: usize,
    entry: usize,
    rets: usize,
    exits: usize,
    both: usize,
    forms: BTreeMap<&'static str, usize>,
    exits_total: usize,
    exits_sited: usize,
    refused_entry: BTreeMap<&'static str, usize>,
    refused_exit: BTreeMap<&'static str, usize>,
    unresolved: usize,
    carriers: usize,
}

impl Table {
    pub fn add(&mut self, function: &Planned) {
        self.functions += 1;
        self.unresolved += usize::from(function.unresolved > 0);
        let sites = match &function.sites {
            Ok(sites) => sites,
            Err(refusal) => return *self.refused_entry.entry(refusal.label()).or_default() += 1,
        };
        match &sites.entry {
            Ok(site) => {
                self.entry += 1;
                *self.forms.entry(form(site)).or_default() += 1;
            }
            Err(refusal) => *self.refused_entry.entry(refusal.label()).or_default() += 1,
        }
        for (_, site) in &sites.exits {
            match site {
                Ok(site) => *self.forms.entry(form(site)).or_default() += 1,
                Err(refusal) => *self.refused_exit.entry(refusal.label()).or_default() += 1,
            }
        }
        let mut carriers: Vec<ProcAddr> =
            sites.all().filter_map(|site| Some(site.carrier.as_ref()?.covered().start)).collect();
        carriers.sort_unstable();
        carriers.dedup();
        self.carriers += carriers.len();
        self.exits_total += sites.exits.len();
        self.exits_sited += sites.exits.iter().filter(|(_, site)| site.is_ok()).count();
        let is_ret = |exit: &Exit| matches!(exit.kind, ExitKind::Ret { .. });
        let all = sites.exits.iter().all(|(_, site)| site.is_ok());
        self.rets += usize::from(sites.exits.iter().all(|(exit, site)| site.is_ok() || !is_ret(exit)));
        self.exits += usize::from(all);
        self.both += usize::from(all && sites.entry.is_ok());
    }

    pub fn join(&mut self, other: &Table) {
        self.functions += other.functions;
        self.entry += other.entry;
        self.rets += other.rets;
        self.exits += other.exits;
        self.both += other.both;
        self.exits_total += other.exits_total;
        self.exits_sited += other.exits_sited;
        self.unresolved += other.unresolved;
        self.carriers += other.carriers;
        let pairs = [
            (&mut self.forms, &other.forms),
            (&mut self.refused_entry, &other.refused_entry),
            (&mut self.refused_exit, &other.refused_exit),
        ];
        for (mine, theirs) in pairs {
            theirs.iter().for_each(|(label, count)| *mine.entry(label).or_default() += count);
        }
    }

    pub fn print(&self, what: &str) {
        let share = |count: usize| 100.0 * count as f64 / self.functions.max(1) as f64;
        println!(
            "  {what}: {} functions; entry {:.2}%, all rets {:.2}%, all exits {:.2}%, entry and all exits {:.2}%; \
             {} of {} exits; {} with unresolved jumps; {} carriers",
            self.functions,
            share(self.entry),
            share(self.rets),
            share(self.exits),
            share(self.both),
            self.exits_sited,
            self.exits_total,
            self.unresolved,
            self.carriers
        );
        println!("    forms {:?}", self.forms);
        println!("    refused at entry {:?}", self.refused_entry);
        println!("    refused at exit {:?}", self.refused_exit);
    }
}

fn form(site: &PatchSite) -> &'static str {
    match (site.kind, site.jump, &site.carrier) {
        (SiteKind::Entry, JumpForm::Near5, _) => "entry near",
        (SiteKind::Entry, JumpForm::Short2 { .. }, None) => "entry short",
        (SiteKind::Entry, JumpForm::Short2 { .. }, Some(_)) => "entry carried",
        (SiteKind::Exit(_), JumpForm::Near5, _) => "exit near",
        (SiteKind::Exit(_), JumpForm::Short2 { .. }, None) => "exit short",
        (SiteKind::Exit(_), JumpForm::Short2 { .. }, Some(_)) => "exit carried",
        (SiteKind::At(_), ..) => "point",
        (SiteKind::Whole(_), JumpForm::Near5, _) => "whole near",
        (SiteKind::Whole(_), JumpForm::Short2 { .. }, None) => "whole short",
        (SiteKind::Whole(_), JumpForm::Short2 { .. }, Some(_)) => "whole carried",
    }
}
