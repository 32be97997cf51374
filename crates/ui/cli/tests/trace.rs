//! Nothing is left behind: a measured job is, byte for byte, what it was, also after trimtab was killed at any moment.
//!
//! Next: `common_trace` for what "as it was" means; `bad_input.rs` for jobs that can't be measured.

mod common_trace;

use common_trace::{Home, Job, LIMIT, alone, specimen};
use trimtab_specimens::Mpi;

const PARTICLE: &str = "--iterations 2500 --size 128 --particles 20000";

/// Attaches ten times, then compares with a run that nobody looked at.
#[test]
fn attached_jobs_are_as_before() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let launch = specimen("particle", mpi, PARTICLE);
        let undisturbed = launch.run(LIMIT).expect(name);
        let home = Home::new();
        let job = Job::start(&launch);
        for round in 0..10 {
            let round_name = format!("{name}, attach {round}");
            let pid = if round % 2 == 0 { job.launcher() } else { job.rank(round % 4 / 2) };
            let started = std::time::Instant::now();
            home.run(&["attach", "--iterations", "3", &pid]).reports(&round_name, 0, &["communication"]);
            println!("{:?}", started.elapsed());
            assert_eq!(job.untouched(&round_name), 2, "{round_name}: the job ended too early");
        }
        let finished = job.ends_well(name);
        assert_eq!(finished.status, undisturbed.status, "{name}");
        assert_eq!(finished.stdout, undisturbed.stdout, "{name}");
        assert_eq!(finished.stderr, undisturbed.stderr, "{name}");
    }
}
