//! The other jobs and users on a machine, beside a job's ranks: on which processors, how busy, and what the
//! machine and its control groups kept from the ranks.
//!
//! A machine is looked at twice, before a window's recording and after it ([`Beside`]); what lies between is the
//! difference of counters that the kernel keeps anyway. Between the two only the ranks' own processors are noted now and
//! then. Nothing is touched, traced or changed, and what can't be read, such as another user's environment, is left out.
//!
//! [`OtherJobs`] answers the shorter question which jobs there are, for whoever waits for one to start or end.
//!
//! Next: `beside` for how it goes, `whose` for whose a process is, `share` for what the difference of two looks says.
#![forbid(unsafe_code)]

mod beside;
mod counters;
mod cpus;
mod crowd;
mod limits;
mod look;
mod share;
mod topology;
mod whose;

pub use beside::Beside;
pub use counters::{Counters, Worked};
pub use look::{Look, Machine, OtherJobs, SLURM_JOB};
pub use whose::{Own, Ownership};
