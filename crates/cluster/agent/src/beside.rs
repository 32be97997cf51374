//! What happens on the job's machines while nothing is measured: other jobs, and how busy the machines are.
//!
//! An agent looks at its own machine when it is asked. Nothing of the job is touched.
//!
//! Next: `trimtab_neighbours`, which looks; `lead`, which asks.

use crate::talk::MachineNow;
use trimtab_measure::host_name;
use trimtab_neighbours::{JobsSeen, Machine, Own};
use trimtab_track::{Job, ProcFs};

/// An agent's machine, and what it knew of its processes when it was asked last.
pub struct Beside {
    own: Own,
    seen: JobsSeen,
}

impl Beside {
    /// The machine beside this job.
    pub fn of(job: &Job) -> Beside {
        let ranks: Vec<_> = job.ranks.iter().map(|rank| rank.pid).collect();
        Beside { own: Own::of(&ProcFs::new(), &ranks, job.launcher), seen: JobsSeen::default() }
    }

    /// How it is now.
    pub fn now(&mut self) -> MachineNow {
        let machine = Machine::default();
        self.seen = machine.jobs(&self.own, std::mem::take(&mut self.seen));
        MachineNow { host: host_name(), jobs: self.seen.jobs(), counters: machine.counters() }
    }
}
