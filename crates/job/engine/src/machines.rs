//! The machines of a job of several nodes while nothing is measured: agents stay there and look when they are asked.
//!
//! They are asked once a second at most, for all that is waited for at once. A machine that gives no answer is taken to be
//! as it was, so that nothing seems to have ended there; agents that are all gone are started again.
//!
//! Next: `wait`, which asks; `nodes` for the way there.

use crate::Engine;
use crate::error::Error;
use crate::event::{Event, Stage};
use crate::far::window_id;
use crate::nodes::{Gathered, MachineNow, Nodes};
use crate::spread::Spread;
use crate::window::RANKS_WAIT;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use trimtab_measure::{Options, Silent, measure_with};
use trimtab_neighbours::{Counters, SLURM_JOB};
use trimtab_trigger::{JobSource, Machines};
use trimtab_types::one_line;

/// Time between two questions.
const LOOK: Duration = Duration::from_secs(1);
/// How long after all agents were lost, or could not be started, others are started.
const AGAIN: Duration = Duration::from_secs(10);

/// The job's machines, for all who ask.
#[derive(Clone)]
pub(crate) struct FarMachines<'a>(Rc<RefCell<Agents<'a>>>);

struct Agents<'a> {
    engine: Engine<'a>,
    nodes: &'a dyn Nodes,
    spread: &'a Spread,
    command: &'a str,
    is_interrupted: &'a dyn Fn() -> bool,
    gathered: Option<Box<dyn Gathered + 'a>>,
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
    pub(crate) fn begin(
        engine: Engine<'a>,
        spread: &'a Spread,
        command: &'a str,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<FarMachines<'a>, Error> {
        let nodes = engine.nodes.ok_or_else(|| Error::NoWay { job: spread.name() })?;
        let (gathered, seen, looked, lost) = (None, BTreeMap::new(), None, None);
        let mut agents = Agents { engine, nodes, spread, command, is_interrupted, gathered, seen, looked, lost };
        agents.start()?;
        agents.look();
        Ok(FarMachines(Rc::new(RefCell::new(agents))))
    }

    /// Iterations per second just now, over as many as `options` say; `None`: they can't be told.
    ///
    /// # Errors
    /// No window can be measured.
    pub(crate) fn rate(&self, options: &Options) -> Result<Option<f64>, Error> {
        let mut agents = self.0.borrow_mut();
        agents.keep_up();
        let Some(gathered) = &mut agents.gathered else { return Ok(None) };
        let mut crew = gathered.crew(RANKS_WAIT).map_err(Error::Nodes)?;
        let outcome = measure_with(&mut *crew, window_id(), options, &Silent)?;
        Ok(outcome.report.iterations_per_s)
    }
}

impl Agents<'_> {
    fn start(&mut self) -> Result<(), Error> {
        self.engine.listener.hear(&Event::Stage(Stage::gathering(self.nodes, self.spread)));
        let gathered = self.nodes.gather(self.spread, self.command, None, self.is_interrupted);
        let mut gathered = gathered.map_err(Error::Nodes)?;
        gathered.present(RANKS_WAIT).map_err(Error::Nodes)?;
        for absent in gathered.absent() {
            self.engine.warn(format!("no agent came on {absent}: what happens there is not seen"));
        }
        (self.gathered, self.lost) = (Some(gathered), None);
        Ok(())
    }

    /// Starts agents again if all were lost a while ago.
    fn keep_up(&mut self) {
        if self.gathered.is_some() || self.lost.is_some_and(|lost| lost.elapsed() < AGAIN) {
            return;
        }
        if let Err(error) = self.start() {
            self.lost = Some(Instant::now());
            let (seconds, why) = (AGAIN.as_secs(), one_line(&error));
            self.engine.warn(format!("the job's machines can't be seen now, tried again in {seconds} s: {why}"));
        }
    }

    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        self.keep_up();
        let Some(gathered) = &mut self.gathered else { return };
        match gathered.machines() {
            Ok(machines) if !machines.is_empty() => {
                let at = Instant::now();
                self.seen.extend(machines.into_iter().map(|machine| (machine.host.clone(), (at, machine))));
            }
            // Their job may have ended, which is asked for elsewhere.
            _ => (self.gathered, self.lost) = (None, Some(Instant::now())),
        }
    }
}

impl JobSource for FarMachines<'_> {
    fn jobs(&mut self) -> Result<BTreeMap<String, String>, trimtab_trigger::Error> {
        let mut agents = self.0.borrow_mut();
        agents.look();
        Ok(jobs_of(agents.seen.values().map(|(_, machine)| machine)))
    }

    fn period(&self) -> Duration {
        LOOK
    }
}

impl Machines for FarMachines<'_> {
    fn counters(&mut self) -> Result<BTreeMap<String, (Instant, Counters)>, trimtab_trigger::Error> {
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
