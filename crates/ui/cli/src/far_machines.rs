//! The machines of a job of several nodes while nothing is measured: agents stay there and look when they are asked.
//!
//! They are asked once a second at most, for all that is waited for at once. A machine that gives no answer is taken to be
//! as it was, so that nothing seems to have ended there; agents that are all gone are started again.
//!
//! Next: `waiting`, which asks; `trimtab-agent` for what an agent looks at.

use crate::arguments::site::SiteOptions;
use crate::output;
use crate::progress::Terminal;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use trimtab_agent::talk::MachineNow;
use trimtab_agent::{Lead, Remote, Ways};
use trimtab_engine::{Event, Listener, RANKS_WAIT, Spread, Stage, window_id};
use trimtab_measure::{Options, Silent, measure_with};
use trimtab_neighbours::{Counters, SLURM_JOB};
use trimtab_trigger::{Error, JobSource, Machines};

/// Time between two questions.
const LOOK: Duration = Duration::from_secs(1);
/// How long after all agents were lost, or could not be started, others are started.
const AGAIN: Duration = Duration::from_secs(10);

/// The job's machines, for all who ask.
#[derive(Clone)]
pub struct FarMachines<'a>(Rc<RefCell<Agents<'a>>>);

struct Agents<'a> {
    spread: &'a Spread,
    site: &'a SiteOptions,
    terminal: &'a Terminal,
    command: &'a str,
    is_interrupted: &'a dyn Fn() -> bool,
    lead: Option<Lead<'a>>,
    /// As they were when they last answered, by their hosts.
    seen: BTreeMap<String, (Instant, MachineNow)>,
    looked: Option<Instant>,
    /// Since when there are no agents, once there were.
    lost: Option<Instant>,
}

impl<'a> FarMachines<'a> {
    /// Starts agents on all nodes of a job, and looks for the first time.
    ///
    /// # Errors
    /// They can't be started, or find no rank.
    pub fn begin(
        spread: &'a Spread,
        site: &'a SiteOptions,
        terminal: &'a Terminal,
        command: &'a str,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> anyhow::Result<FarMachines<'a>> {
        let (seen, looked, lost) = (BTreeMap::new(), None, None);
        let mut agents = Agents { spread, site, terminal, command, is_interrupted, lead: None, seen, looked, lost };
        agents.start()?;
        agents.look();
        Ok(FarMachines(Rc::new(RefCell::new(agents))))
    }

    /// Iterations per second just now, over as many as `options` say; `None`: they can't be told.
    ///
    /// # Errors
    /// No window can be measured.
    pub fn rate(&self, options: &Options) -> anyhow::Result<Option<f64>> {
        let mut agents = self.0.borrow_mut();
        agents.keep_up();
        let Some(lead) = &mut agents.lead else { return Ok(None) };
        let mut remote = Remote::muster(lead, RANKS_WAIT)?;
        let outcome = measure_with(&mut remote, window_id(), options, &Silent)?;
        Ok(outcome.report.iterations_per_s)
    }
}

impl Agents<'_> {
    fn start(&mut self) -> anyhow::Result<()> {
        let ways = Ways { site: self.site.way() };
        self.terminal.hear(&Event::Stage(Stage::gathering(&ways, self.spread)));
        let mut lead = Lead::to(self.spread, &ways, (self.command, None), self.is_interrupted)?;
        lead.muster(RANKS_WAIT)?;
        for absent in lead.absent() {
            eprintln!("trimtab: no agent came on {absent}: what happens there is not seen");
        }
        (self.lead, self.lost) = (Some(lead), None);
        Ok(())
    }

    /// Starts agents again if all were lost a while ago.
    fn keep_up(&mut self) {
        if self.lead.is_some() || self.lost.is_some_and(|lost| lost.elapsed() < AGAIN) {
            return;
        }
        if let Err(error) = self.start() {
            self.lost = Some(Instant::now());
            let seconds = AGAIN.as_secs();
            eprintln!(
                "trimtab: the job's machines can't be seen now, tried again in {seconds} s: {}",
                output::chain(&error)
            );
        }
    }

    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        self.keep_up();
        let Some(lead) = &mut self.lead else { return };
        match lead.machines() {
            Ok(machines) if !machines.is_empty() => {
                let at = Instant::now();
                self.seen.extend(machines.into_iter().map(|machine| (machine.host.clone(), (at, machine))));
            }
            // Their job may have ended, which is asked for elsewhere.
            _ => (self.lead, self.lost) = (None, Some(Instant::now())),
        }
    }
}

impl JobSource for FarMachines<'_> {
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, Error> {
        let mut agents = self.0.borrow_mut();
        agents.look();
        Ok(jobs_of(agents.seen.values().map(|(_, machine)| machine)))
    }

    fn period(&self) -> Duration {
        LOOK
    }
}

impl Machines for FarMachines<'_> {
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, Error> {
        let mut agents = self.0.borrow_mut();
        agents.look();
        let counted =
            |(host, (at, machine)): (&String, &(Instant, MachineNow))| (host.clone(), (*at, machine.counters));
        Ok(agents.seen.iter().map(counted).collect())
    }
}

/// Jobs of all machines. A process id means nothing without its host.
fn jobs_of<'m>(machines: impl Iterator<Item = &'m MachineNow>) -> BTreeMap<String, String> {
    let named = |machine: &MachineNow| {
        let host = machine.host.clone();
        let name =
            move |job: &str| if job.starts_with(SLURM_JOB) { job.to_owned() } else { format!("{job} on {host}") };
        machine.jobs.iter().map(|(job, program)| (name(job), program.clone())).collect::<Vec<_>>()
    };
    machines.flat_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_slurm_is_one_and_a_launcher_is_its_hosts() {
        let machine = |host: &str| {
            let jobs = [("Slurm job 7", "app"), ("MPI job of process 12", "sim")];
            let jobs = jobs.map(|(job, program)| (job.to_owned(), program.to_owned())).into();
            MachineNow { host: host.to_owned(), jobs, counters: Counters::default() }
        };
        let names: Vec<String> = jobs_of([machine("n1"), machine("n2")].iter()).into_keys().collect();
        assert_eq!(names, ["MPI job of process 12 on n1", "MPI job of process 12 on n2", "Slurm job 7"]);
    }
}
