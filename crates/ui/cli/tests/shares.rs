//! Shares of communication that can't be read without knowing whose they are: of ranks that share too few
//! processors, several threads of a rank in MPI at once, windows in which communication was not measured.
//!
//! Next: `numbers.rs` for shares that stand for themselves.

mod common;

use common::{Home, RANKS, Said, alone};
use std::path::PathBuf;
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, at_work, threads_running};
use trimtab_types::report::{CrowdLimit, Report};

/// All ranks compute, and then wait for each other.
const IN_STEP: &str = r#"
#include <mpi.h>
int main(int count, char **words) {
    MPI_Init(&count, &words);
    for (;;) {
        for (volatile int i = 0; i < 500000; i++) {}
        double one = 1, sum;
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}
"#;

/// Two threads of each rank talk to those of the other one, each on a communicator of its own; rank 0 comes late.
const THREADED: &str = r#"
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>
static int rank;
static MPI_Comm own[2];
static pthread_barrier_t both;
static void *talk(void *number) {
    int thread = number != NULL;
    double out[100] = {0}, in[100];
    for (;;) {
        for (int i = 0; i < 5; i++) {
            usleep(rank == 0 ? 2000 : 500);
            MPI_Sendrecv(out, 100, MPI_DOUBLE, 1 - rank, thread, in, 100, MPI_DOUBLE, 1 - rank, thread, own[thread],
                         MPI_STATUS_IGNORE);
        }
        pthread_barrier_wait(&both);
        if (!thread) MPI_Barrier(MPI_COMM_WORLD);
        pthread_barrier_wait(&both);
    }
}
int main(int count, char **words) {
    int provided;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[1]);
    pthread_barrier_init(&both, NULL, 2);
    pthread_t other;
    pthread_create(&other, NULL, talk, &both);
    talk(NULL);
}
"#;

#[test]
fn an_oversubscribed_job_is_said_to_be_in_the_headline() {
    let _alone = alone();
    let home = Home::new();
    let processors = u32::try_from(std::thread::available_parallelism().expect("processors").get()).expect("a few");
    // A processor for each: nothing is said. Two ranks more than processors: they are all of one crowd.
    for ranks in [1, processors + 2] {
        let program = compile(&home, Mpi::OpenMpi, IN_STEP, "in_step");
        let job = Job::start(&Launch::mpi(Mpi::OpenMpi, ranks, &program));
        let said = home.trimtab(&["attach", "--iterations", "20", "--max-seconds", "60", &job.pids[0].to_string()]);
        job.is_unharmed();
        assert!(said.code <= 1, "{said:?}");
        let report = stored(&home);
        let crowds = report.nodes[0].oversubscribed.as_ref().expect("known on this machine");
        let page = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        if ranks == 1 {
            assert!(crowds.is_empty() && !page.contains("oversubscribed"), "{crowds:?} {page}");
            continue;
        }
        let [crowd] = &crowds[..] else { panic!("{crowds:?}") };
        assert_eq!(crowd.ranks, (0..ranks).collect::<Vec<_>>());
        assert!((crowd.processors, crowd.limited_by) == (f64::from(processors), CrowdLimit::Affinity), "{crowd:?}");
        // Open MPI's ranks poll: each wants a processor all the time, and together they have no more than there are.
        let wanted = crowd.processors_wanted.expect("this kernel keeps it");
        assert!((f64::from(ranks) * 0.8..f64::from(ranks) * 1.2).contains(&wanted), "{crowd:?}");
        assert!(crowd.processors_had.is_some_and(|had| had <= f64::from(processors) * 1.1), "{crowd:?}");
        let share = format!("The job is oversubscribed: ranks 0-{} share {processors} processor", ranks - 1);
        assert!(page.contains(&share), "{page}");
        assert!(
            page.contains("the share of communication is not what it would be with a processor for each"),
            "{page}"
        );
        assert!(!page.contains("other work took the cores"), "{page}");
    }
}

#[test]
fn the_share_of_several_threads_says_whose_it_is() {
    let _alone = alone();
    let home = Home::new();
    let program = compile(&home, Mpi::OpenMpi, THREADED, "threaded");
    let job = Job::start(&Launch::mpi(Mpi::OpenMpi, RANKS, &program));
    let said = home.trimtab(&["attach", "--iterations", "15", "--max-seconds", "60", &job.pids[0].to_string()]);
    job.is_unharmed();
    assert!(said.code <= 1, "{said:?}");
    let report = stored(&home);
    for rank in &report.ranks {
        let (longest_s, all_s) = (rank.communication_s.expect("measured"), rank.communication_threads_s.expect("too"));
        assert_eq!(rank.communication_threads, Some(2), "{rank:?}");
        assert!(longest_s <= rank.duration_s && (longest_s * 1.2..=longest_s * 2.0).contains(&all_s), "{rank:?}");
    }
    let page = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "% of the time is communication of each rank's busiest thread (",
        "Up to 2 threads of a rank communicate: at least one of them does so in ",
        " of the time, of each rank's busiest thread",
        "Functions, summed over ranks and up to 2 threads of each",
        "time and share are summed over threads: each thread that is inside counts",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn communication_that_was_not_measured_is_null() {
    let _alone = alone();
    let home = Home::new();
    let program = compile(&home, Mpi::OpenMpi, IN_STEP, "in_step");
    let job = Job::start(&Launch::mpi(Mpi::OpenMpi, RANKS, &program));
    let (code, report) =
        home.attach(job.pids[0], "--group io --max-seconds 1").unwrap_or_else(|said: Said| panic!("{said:?}"));
    job.is_unharmed();
    assert!(code <= 1 && report.ranks.len() == RANKS as usize, "{code} {:?}", report.warnings);
    assert!(report.ranks.iter().all(|rank| rank.communication_s.is_none() && rank.computation_s.is_none()));
    assert!(report.ranks.iter().all(|rank| rank.communication_threads.is_none() && rank.duration_s > 0.0));
    let derived = (report.communication_fraction, report.communication_to_computation, report.imbalance);
    assert_eq!((derived, &report.difference), ((None, None, None), &None));
    let reason = report.communication_missing.as_deref().unwrap_or_default();
    assert!(reason.starts_with("the group comm was not among what was measured (io"), "{reason}");
}

/// A program at work, with its text as it was.
struct Job {
    running: Running,
    pids: Vec<i32>,
    before: Vec<TextSnapshot>,
}

impl Job {
    fn start(launch: &Launch) -> Job {
        let mut running = launch.start().expect("it starts");
        let pids = at_work(&mut running, 10);
        let before = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
        Job { running, pids, before }
    }

    /// Nothing of ours is in it, and all its threads run.
    fn is_unharmed(&self) {
        for text in &self.before {
            assert_eq!(text.difference_now().expect("its text"), None);
        }
        for pid in &self.pids {
            threads_running(*pid).unwrap_or_else(|error| panic!("{error}: {}", self.running.stderr()));
        }
    }
}

/// The report of the only job that was stored last.
fn stored(home: &Home) -> Report {
    let said = home.trimtab(&["report", "--json"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn compile(home: &Home, mpi: Mpi, source: &str, name: &str) -> PathBuf {
    let (file, made) = (home.path(&format!("{name}.c")), home.path(name));
    std::fs::write(&file, source).expect("a source");
    let compiler = format!("mpicc.{}", mpi.name());
    let status = Command::new(compiler).args(["-O2", "-g", "-pthread", "-o"]).arg(&made).arg(&file).status();
    assert!(status.expect("a compiler").success(), "{name}");
    made
}
