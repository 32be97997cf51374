//! When is a window measured? Waits for an event: another job that comes or goes, a load, a pace, a time, a call.
//!
//! [`When`] is an event as a user writes it. [`Waiter`] waits for the first of several; in the measured program there is
//! nothing meanwhile, and trimtab looks at a few files about twice a second. [`CallSocket`] is where a call comes in, a Unix
//! socket that only its user can reach, and [`call_job`] makes one; what is heard elsewhere rings its [`Waker`].
//!
//! Next: `when` for what can be waited for, `wait` for how.
#![forbid(unsafe_code)]

mod call_socket;
mod date;
mod error;
mod jobs;
mod wait;
mod when;

pub use call_socket::{CallOutcome, CallSocket, Waker, call_job, folder};
pub use error::Error;
pub use jobs::{JobSource, JobsHere, JobsOfSlurm, MachineHere, Machines};
pub use wait::{Surroundings, Waited, Waiter};
pub use when::{Condition, NotAnEvent, When};
