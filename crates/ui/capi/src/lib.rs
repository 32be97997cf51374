//! `libtrimtab`: start a measured job, measure it again, and ask what comes, for programs in C.
//!
//! `include/trimtab.h` describes it. Windows are measured by the program `trimtab`, which this starts; forecasts are asked of a
//! site's controller, or of that program where there is none.
//!
//! Next: `edge` for the C functions, `job` for windows, `forecast` for questions; `example/measured.c` for a whole program.

mod edge;
mod error;
mod forecast;
mod job;

pub use edge::{
    Request, trimtab_end, trimtab_error, trimtab_find, trimtab_forecast, trimtab_free, trimtab_measure, trimtab_pid,
    trimtab_start, trimtab_wait,
};
pub use job::Job;
