//! A program whose file was replaced while it runs, as by a compiler: its own symbols are unknown, and it is left unharmed.
//!
//! Open MPI's objects lie in the program then (copy relocations), and what the library calls its own is a copy that nobody
//! has filled: asking the library about that one would end the program.
//!
//! Next: `bad_input.rs` for what is refused.

mod common;

use common::{Desk, LIMIT, RANKS, alone, cpu_ticks};
use std::fs;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Mpi, Variant, build, has_worked, threads_running};

#[test]
fn a_program_whose_file_was_replaced_is_left_unharmed() {
    let _alone = alone();
    for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
        let desk = Desk::new();
        let (program, copy) = (build("particle", Some(mpi), &Variant::default()).expect("it builds"), desk.path("app"));
        fs::copy(&program, &copy).expect("a copy");
        let mut job = Launch::mpi(mpi, RANKS, &copy).args(["--iterations", "100000000"]).start().expect("it starts");
        let pids = job.rank_pids(LIMIT).expect("the ranks start");
        wait_for("the ranks work", || pids.iter().all(|pid| has_worked(*pid)));
        fs::remove_file(&copy).expect("it is there");
        fs::copy(&program, &copy).expect("another file of that name");
        let said = desk.trimtab(&["attach", "--iterations", "5", &pids[0].to_string()]);
        assert!(said.code <= 2, "{said:?}");
        let ticks = || pids.iter().map(|pid| cpu_ticks(*pid)).collect::<Vec<_>>();
        let then = ticks();
        wait_for("they go on", || ticks().iter().zip(&then).all(|(now, then)| *now >= then.saturating_add(10)));
        for pid in &pids {
            threads_running(*pid).unwrap_or_else(|error| panic!("{}: {error} {said:?}", mpi.name()));
        }
    }
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
