//! Nothing is left behind: a measured job is, byte for byte, what it was, also after trimtab was killed at any moment.
//!
//! Next: `common_trace` for what "as it was" means; `bad_input.rs` for jobs that can't be measured.

mod common_trace;

use common_trace::{Home, Job, LIMIT, Started, alone, probes_mapped, specimen, steady};
use rustix::process::Signal;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::Mpi;

/// A report's words about a job in which a killed trimtab had left something.
const LEFT: &str = "probes that a killed trimtab had left were taken out first";

/// Attaches six times, then compares with a run that nobody looked at.
#[test]
fn attached_jobs_are_as_before() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let undisturbed = specimen("steady", mpi, "--iterations 50").run(LIMIT).expect(name);
        let home = Home::new();
        let job = steady(mpi, "");
        for round in 0..6 {
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

/// The plan has what stands at every place and what would; nothing is mapped, written or kept.
#[test]
fn a_dry_run_prints_the_plan_and_changes_nothing() {
    let _alone = alone();
    let home = Home::new();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let job = steady(mpi, "");
        let outcome = home.run(&["attach", "--dry-run", &job.launcher()]);
        assert_eq!(outcome.code(), 0, "{name}: {outcome:?}");
        for (number, rank) in job.ranks.iter().enumerate() {
            let said = format!("rank {number} (process {rank})");
            assert!(outcome.stdout.contains(&said), "{name}: no {said:?} in {}", outcome.stdout);
        }
        assert_eq!(mappings(&job), 0, "{name}");
        home.run(&["list"]).says(name, 2, &["there is no store"]);
        job.goes_on(name);
        job.ends_well(name);
    }
}

/// Ranks that are not asked for get no probes, and the report says whose figures these are.
#[test]
fn some_ranks_are_measured_alone() {
    let _alone = alone();
    let home = Home::new();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let job = steady(mpi, "");
        let arguments = ["attach", &job.launcher(), "--ranks", "all except 0", "--iterations", "5", "--json", "-"];
        let outcome = home.run(&arguments);
        assert_eq!(outcome.code(), 0, "{name}: {outcome:?}");
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("a report");
        assert_eq!(report["window"]["context"], "all except 0", "{name}");
        let ranks: Vec<u64> =
            report["ranks"].as_array().expect("ranks").iter().filter_map(|rank| rank["rank"].as_u64()).collect();
        assert_eq!(ranks, (1..job.ranks.len() as u64).collect::<Vec<_>>(), "{name}");
        let planned = home.run(&["attach", "--dry-run", &job.launcher(), "--ranks", "1"]);
        planned.reports(name, 0, &["rank 1 (process"]);
        assert!(!planned.stdout.contains("rank 0 (process"), "{name}: {}", planned.stdout);
        for arguments in [
            &["attach", &job.launcher(), "--ranks", "9"][..],
            &["attach", "--dry-run", &job.launcher(), "--ranks", "9"],
        ] {
            home.run(arguments).says(name, 2, &["no rank of the job is in `9`"]);
        }
        let outcome = home.run(&["attach", &job.launcher(), "--ranks", "first"]);
        assert_eq!(outcome.code(), 2, "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("a set of ranks is written like `0-3,7`"), "{name}: {outcome:?}");
        job.goes_on(name);
        job.ends_well(name);
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

/// The moment at which a trimtab is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Anywhere from its start to its end.
    Random,
    /// While it maps and patches the first rank.
    Inserting,
    /// A little after that: other ranks, observing, recording.
    Inside,
    /// While it takes out the probes of a rank.
    Removing,
}

const MOMENTS: [Moment; 4] = [Moment::Random, Moment::Inserting, Moment::Inside, Moment::Removing];
/// A thread that was sent to map or unmap has done it by then.
const SETTLING: Duration = Duration::from_millis(50);

/// How many mappings of trimtab's the ranks have.
fn mappings(job: &Job) -> usize {
    job.ranks.iter().map(|rank| probes_mapped(*rank)).sum()
}

impl Moment {
    /// Waits for it, or for the end of `attach`.
    fn wait(self, job: &Job, attach: &mut Started, from_start_us: u64, extra_us: u64) {
        let mut most = 0;
        match self {
            Moment::Random => sleep(Duration::from_micros(1000 + from_start_us)),
            Moment::Inserting => while mappings(job) == 0 && !attach.has_ended() {},
            Moment::Inside => {
                while mappings(job) == 0 && !attach.has_ended() {}
                sleep(Duration::from_micros(extra_us));
            }
            Moment::Removing => {
                while mappings(job) >= most && !attach.has_ended() {
                    most = most.max(mappings(job));
                }
            }
        }
    }
}

/// Kills trimtab `kills` times and lets the next one clean up.
fn survives(name: &str, job: &Job, home: &Home, kills: u64, with: &[&str]) {
    let pid = job.launcher();
    let arguments: Vec<&str> = ["attach", "--iterations", "3"].iter().chain(with).copied().chain([&*pid]).collect();
    let started = Instant::now();
    home.run(&arguments).reports(name, 0, &[]);
    let duration_us = started.elapsed().as_micros() as u64;
    let mut random = Random(0x7472_696d_7461_6221);
    let mut left = [0; MOMENTS.len()];
    for kill in 0..kills {
        let moment = MOMENTS[kill as usize % MOMENTS.len()];
        let mut attach = home.start(&arguments);
        let from_start_us = duration_us * kill / kills + random.below(duration_us / kills);
        moment.wait(job, &mut attach, from_start_us, random.below(duration_us / 2));
        attach.signal(Signal::KILL);
        attach.wait();
        // In a third of the rounds the next attach, killed or not, has to cope.
        let next = random.below(3);
        if next == 2 {
            // A thread arrives where it was sent without trimtab, a moment later.
            sleep(SETTLING);
        }
        let was_left = mappings(job) > 0;
        left[kill as usize % MOMENTS.len()] += u64::from(was_left);
        let round = format!("{name}, kill {kill} ({moment:?})");
        match next {
            0 => {}
            1 => undo_all(job, home, &round),
            _ => {
                home.run(&arguments).reports(&round, 0, if was_left { &[LEFT] } else { &[] });
                job.goes_on(&round);
            }
        }
    }
    println!("{name}: of {kills} kills {left:?} left something at {MOMENTS:?}; an attach took {duration_us} us");
    assert!(left.iter().sum::<u64>() > 0, "{name}: no kill came while probes were in");
    home.run(&arguments).reports(name, 0, &[]);
}

fn undo_all(job: &Job, home: &Home, name: &str) {
    for rank in 0..job.ranks.len() {
        let undo = home.run(&["undo", &job.rank(rank)]);
        // Probes may have come or gone since anybody looked.
        match undo.code() {
            0 => undo.reports(name, 0, &["places restored", ", 0 bytes left"]),
            _ => undo.reports(name, 1, &["holds nothing"]),
        }
    }
    job.goes_on(name);
}

#[test]
fn killed_while_it_measures_mpich() {
    let _alone = alone();
    let (job, home) = (steady(Mpi::Mpich, ""), Home::new());
    survives("mpich", &job, &home, 12, &[]);
    job.ends_well("mpich");
}

#[test]
fn killed_while_it_measures_open_mpi() {
    let _alone = alone();
    let (job, home) = (steady(Mpi::OpenMpi, ""), Home::new());
    survives("open mpi", &job, &home, 12, &["--group", "comm,sleep"]);
    job.ends_well("open mpi");
}

#[test]
fn killed_while_it_measures_64_threads() {
    let _alone = alone();
    let (job, home) = (steady(Mpi::OpenMpi, "--threads 64"), Home::new());
    survives("64 threads", &job, &home, 8, &[]);
    job.ends_well("64 threads");
}

/// Exceptions and jumps fly through patched functions all the time.
#[test]
fn killed_while_it_measures_threads_that_throw() {
    let _alone = alone();
    let launch = specimen("threads", Mpi::OpenMpi, "--iterations 2600 --size 20000");
    let home = Home::new();
    let mut kills = 0;
    let mut job = Job::start(&launch);
    while kills < 8 && job.running.poll().expect("a launcher").is_none() {
        let mut attach = home.start(&["attach", "--iterations", "3", &job.launcher()]);
        MOMENTS[kills % MOMENTS.len()].wait(&job, &mut attach, 1000 * kills as u64, 5000);
        attach.signal(Signal::KILL);
        attach.wait();
        kills += 1;
    }
    assert!(kills > 0);
    for rank in 0..job.ranks.len() {
        let undo = home.run(&["undo", &job.rank(rank)]);
        // Its ranks end before their launcher does.
        let mut has_ended = || undo.stderr.contains("has ended") || job.running.poll().expect("a launcher").is_some();
        assert!(undo.code() <= 1 || has_ended(), "{undo:?}");
    }
    println!("threads: {kills} kills");
    job.untouched("threads");
    job.ends_right("threads");
}

/// A rank that sits in one `MPI_Recv` is measured by time, and what it returns through is its own code.
#[test]
fn a_blocked_rank_is_let_go() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let name = mpi.name();
        let home = Home::new();
        let job = Job::start(&specimen("sleeper", mpi, "--mode block --iterations 9000 --size 1000000"));
        let outcome = home.run(&["attach", "--max-seconds", "1.5", &job.launcher()]);
        outcome.reports(name, 0, &["by time", "Rank 1 only communicates"]);
        job.ends_well(name);
    }
}

/// `trimtab run`: standard output and exit status are the program's own.
#[test]
fn a_program_that_is_run_is_as_alone() {
    let _alone = alone();
    for (mpi, code) in [(Mpi::Mpich, 3), (Mpi::OpenMpi, 0)] {
        let name = format!("{}, exit status {code}", mpi.name());
        let home = Home::new();
        let launch = specimen("steady", mpi, &format!("--iterations 1500 --exit {code}"));
        let words = launch.words().expect("a launcher");
        let mut alone = Command::new(&words[0]);
        alone.args(&words[1..]);
        home.surround(&mut alone);
        let alone = home.start_command(alone).wait();
        let run: Vec<&str> = ["run", "--iterations", "5", "--"].into_iter().chain(words.iter().map(|w| &**w)).collect();
        let measured = home.run(&run);
        assert_eq!(alone.status.code(), Some(code), "{name}: {alone:?}");
        assert_eq!((measured.status, &measured.stdout), (alone.status, &alone.stdout), "{name}: {measured:?}");
        assert!(measured.stderr.contains("communication"), "{name}: the report is on standard error: {measured:?}");
        let stored = home.run(&["list"]);
        stored.reports(&name, 0, &["steady"]);
    }
}
