//! The same of a job whole, whether it runs on this machine or on many nodes.
//!
//! Next: `window`, `script` and `undo` for jobs here, `far` for jobs on many nodes.

use crate::error::Error;
use crate::event::Event;
use crate::found::Found;
use crate::script::{Probed, Script, targets_of};
use crate::undo::Undone;
use crate::window::{Measured, Window};
use crate::{Engine, far};
use trimtab_types::Pid;

impl Engine<'_> {
    /// Measures one window of a job, and keeps it. Whatever happens, every rank that can be reached is restored before this
    /// returns.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn window(&self, found: &Found, window: &Window) -> Result<Measured, Error> {
        let fresh = match found {
            Found::Here(job) => self.window_here(job, window),
            Found::Spread(spread) => far::window(self, spread, window),
        };
        self.kept(fresh)
    }

    /// Runs a script in the chosen ranks of a job until it ends. Whatever happens, it is taken out of every process that can
    /// be reached before this returns.
    ///
    /// # Errors
    /// It went into no process.
    pub fn probe(&self, found: &Found, script: &Script) -> Result<Probed, Error> {
        let probed = match found {
            Found::Here(job) => targets_of(job, &script.ranks).and_then(|targets| self.probe_here(&targets, script)),
            Found::Spread(spread) => far::probe(self, spread, script),
        };
        self.listener.hear(&Event::Done);
        probed
    }

    /// Takes out what is left in all ranks of a job, and in the process that named it. `seccomp_ok`: the job's owner says
    /// that its filters of system calls let ours pass, where they can't be read.
    ///
    /// # Errors
    /// The nodes of the job can't be asked. A failure in one process is told with it, and keeps nobody from the
    /// others.
    pub fn undo(&self, found: &Found, named: Option<Pid>, seccomp_ok: bool) -> Result<Undone, Error> {
        match found {
            Found::Here(job) => Ok(Undone::Here(self.undo_here(job, named, seccomp_ok))),
            Found::Spread(spread) => {
                let undone = far::undo(self, spread, seccomp_ok);
                self.listener.hear(&Event::Done);
                undone
            }
        }
    }
}
