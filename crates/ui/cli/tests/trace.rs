//! Nothing is left behind: a measured job is, byte for byte, what it was, also after trimtab was killed at any moment.
//!
//! Next: `common_trace` for what "as it was" means; `bad_input.rs` for jobs that can't be measured.

mod common_trace;

use common_trace::{Home, Job, LIMIT, alone, holds_probes, specimen, steady, until};
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::Mpi;

/// What a report says of a job in which a killed trimtab had left something.
const LEFT: &str = "probes that a killed trimtab had left were taken out first";

/// Attaches ten times, then compares with a run that nobody looked at.
#[test]
fn attached_jobs_are_as_before() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let undisturbed = specimen("steady", mpi, "--iterations 50").run(LIMIT).expect(name);
        let home = Home::new();
        let job = steady(mpi, "");
        for round in 0..10 {
            let round_name = format!("{name}, attach {round}");
            let pid = if round % 2 == 0 { job.launcher() } else { job.rank(round % 4 / 2) };
            home.run(&["attach", "--iterations", "3", &pid]).reports(&round_name, 0, &["communication"]);
            job.goes_on(&round_name);
        }
        let finished = job.ends_well(name);
        assert_eq!(finished.status, undisturbed.status, "{name}");
        assert_eq!(finished.stdout, undisturbed.stdout, "{name}");
        assert_eq!(finished.stderr, undisturbed.stderr, "{name}");
    }
}

/// A generator of numbers that are the same in every run of the tests.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// Kills trimtab `kills` times, at moments spread from its start to its end, and lets the next one clean up.
fn survives(name: &str, job: &Job, home: &Home, kills: u64, with: &[&str]) {
    let pid = job.launcher();
    let arguments: Vec<&str> = ["attach", "--iterations", "3"].iter().chain(with).copied().chain([&*pid]).collect();
    let started = Instant::now();
    home.run(&arguments).reports(name, 0, &[]);
    let duration_us = started.elapsed().as_micros() as u64;
    let mut random = Random(0x7472_696d_7461_6221);
    let mut left = 0;
    for kill in 0..kills {
        let attach = home.start(&arguments);
        let slice_us = duration_us / kills;
        sleep(Duration::from_micros(1000 + kill * slice_us + random.below(slice_us)));
        attach.signal(Signal::KILL);
        attach.wait();
        let was_left = job.ranks.iter().any(|rank| holds_probes(*rank));
        left += u64::from(was_left);
        let round = format!("{name}, kill {kill} of {kills}");
        match kill % 3 {
            // The next attach, killed or not, takes it out.
            0 => {}
            1 => {
                for rank in 0..job.ranks.len() {
                    let undo = home.run(&["undo", &job.rank(rank)]);
                    assert!(undo.code() <= 1 && undo.stderr.is_empty(), "{round}: {undo:?}");
                }
                job.goes_on(&round);
            }
            _ => {
                home.run(&arguments).reports(&round, 0, if was_left { &[LEFT] } else { &[] });
                job.goes_on(&round);
            }
        }
    }
    println!("{name}: {kills} kills, {left} left probes; an undisturbed attach took {duration_us} us");
    assert!(left > 0, "{name}: no kill came while probes were in");
    home.run(&arguments).reports(name, 0, &[]);
    job.goes_on(name);
}

#[test]
fn kills_with_mpich() {
    let _alone = alone();
    let (job, home) = (steady(Mpi::Mpich, ""), Home::new());
    survives("kills_with_mpich", &job, &home, 30, &[]);
    job.ends_well("kills_with_mpich");
}
