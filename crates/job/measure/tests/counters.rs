//! Counters belong to iterations exactly, tell more work from a slower processor, and say what they are not.
//!
//! Processors of test machines may count nothing, so pages that a rank touches stand in for its instructions: they are its
//! work, take no less of them where it is slower, and no call of MPI that waits touches any.
//!
//! Next: `common` for the nodes, whose every answer travels as bytes.

mod common;

use common::{Subject, Wires, options};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_measure::{Mark, Options, Outcome, Silent, WindowId, measure_with};
use trimtab_session::ImageCache;
use trimtab_types::report::{Assumption, Counter, RankTotal, Report};

/// Iterations of each window, and pages that a rank with the single work touches in each.
const ITERATIONS: u64 = 10;
/// Windows that are measured until one was read on both sides.
const WINDOWS_MAX: usize = 3;
const PAGES: u64 = 500;
/// Faults beside these, of the library and of the wrapper that writes down what is true.
const OTHER_FAULTS_MAX: f64 = 20.0;

/// Windows of which one must tell that ranks differ.
const TRIES: u32 = 12;

/// Held for a whole test: jobs run one at a time, the machine may have two processors.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn window(arguments: &str, counters: &[&str], assumed: Option<Assumption>) -> Report {
    window_with(arguments, counters, assumed, &|_| ())
}

/// The same of ranks to which something is done first.
fn window_with(arguments: &str, counters: &[&str], assumed: Option<Assumption>, prepare: &dyn Fn(&Subject)) -> Report {
    let subject = Subject::start("steady", arguments);
    prepare(&subject);
    let cache = ImageCache::in_memory();
    let crew = Wires::new(&subject.job, &cache);
    let stand_ins = [("instructions", "page-faults")];
    let nodes = crew.nodes.into_iter().map(|node| node.with_stand_ins(&stand_ins)).collect();
    let mut crew = Wires { nodes, ..crew };
    let counters = counters.iter().map(|name| (*name).to_owned()).collect();
    let options = Options {
        functions: vec![],
        arguments: vec![],
        detail: 0,
        counters,
        assumed,
        ..options(Mark::Auto, ITERATIONS)
    };
    let Outcome { report, .. } = measure_with(&mut crew, WindowId(1), &options, &Silent).expect("a window");
    subject.assert_restored();
    subject.finish();
    assert!(
        report.window.valid && report.window.iterations == Some(ITERATIONS),
        "{:?} {:?}",
        report.window,
        report.warnings
    );
    report
}

fn counter<'a>(rank: &'a RankTotal, name: &str) -> &'a Counter {
    rank.counter(name).unwrap_or_else(|| panic!("rank {} has {name}: {:?}", rank.rank, rank.counters))
}

fn is_near(found: Option<f64>, expected: u64) -> bool {
    found.is_some_and(|found| found >= expected as f64 && found <= expected as f64 + OTHER_FAULTS_MAX)
}

#[test]
fn page_faults_of_each_rank_belong_to_its_iterations() {
    let _alone = alone();
    let asked = ["page-faults", "minor-faults", "task-clock", "context-switches", "cpu-migrations", "cycles"];
    let options = "--sleep-us 2000 --work 200000 --pages 500 --imbalance";
    // A busy machine may keep a border of a window from being read, which is said, and there is no value then.
    let is_read = |report: &Report| report.ranks.iter().all(|rank| counter(rank, "page-faults").missing.is_none());
    let mut reports = (0..WINDOWS_MAX).map(|_| window(options, &asked, None));
    let report = reports.find(is_read).expect("one of three windows is read on both sides");
    for rank in &report.ranks {
        let expected = if rank.rank >= 2 { 2 * PAGES } else { PAGES };
        for name in ["page-faults", "minor-faults"] {
            let found = counter(rank, name);
            assert!(is_near(found.per_iteration, expected), "rank {}: {name} {found:?}", rank.rank);
            assert!(is_near(found.outside_communication, expected), "rank {}: {name} {found:?}", rank.rank);
            assert_eq!((found.scaled, found.user_only), (Some(1.0), false), "{found:?}");
            assert!(found.at_least <= found.value && found.value <= found.at_most, "{found:?}");
        }
        let faults = counter(rank, "page-faults").value.expect("a value") as f64;
        let by_itself = (rank.minor_faults.expect("its own word") + rank.major_faults.expect("its own word")) as f64;
        assert!((faults - by_itself).abs() <= OTHER_FAULTS_MAX, "{faults} {by_itself}");
        let clock_s = counter(rank, "task-clock").value.expect("a value") as f64 / 1e9;
        let cpu_s = rank.cpu_s.expect("its own word");
        // Both are read beside each other, and a busy machine lets time pass between.
        assert!((clock_s - cpu_s).abs() < 0.1 * cpu_s + 0.005, "rank {}: {clock_s} of {cpu_s} s", rank.rank);
        // A rank that sleeps in each iteration is switched in each.
        let switches = counter(rank, "context-switches").value.expect("a value");
        let own = rank.voluntary_switches.expect("its own word") + rank.involuntary_switches.expect("its own word");
        assert!(switches >= ITERATIONS && switches.abs_diff(own) <= 2 + own / 10, "{switches} {own}");
        let cost = rank.counter_cost.expect("a cost");
        assert!(cost.readings > ITERATIONS && cost.reading_ns > Some(0.0), "{cost:?}");
        let cycles = counter(rank, "cycles");
        assert!(cycles.value.is_some() != cycles.missing.is_some(), "a number or a reason: {cycles:?}");
    }
}

/// ScoPro's table 5: two of four ranks have twice the work.
#[test]
fn twice_the_work_is_told_by_what_ranks_execute() {
    let _alone = alone();
    let arguments = "--sleep-us 0 --work 4000000 --pages 500 --imbalance";
    for assumed in [None, Some(Assumption::Symmetric), Some(Assumption::Homogeneous)] {
        // Four ranks on two processors: now and then they vary by more than they differ.
        let mut tries = (0..TRIES).map(|_| window(arguments, &["instructions"], assumed));
        let known = |rank: &RankTotal| counter(rank, "instructions").outside_communication;
        let is_told =
            |report: &Report| report.difference.is_some() && report.ranks.iter().all(|one| known(one).is_some());
        let report = tries.find(is_told).expect("the ranks differ");
        let found = report.difference.as_ref().expect("the ranks differ");
        assert_eq!(found.cause.word(), "work", "{found:?}");
        assert!(found.longest >= 2 && found.shortest < 2, "{found:?}");
        let of = |rank: u32| known(&report.ranks[rank as usize]).expect("known");
        let ratio = of(found.longest) / of(found.shortest);
        assert!((ratio - 2.0).abs() < 0.06, "{ratio}: {found:?}");
        assert_eq!(found.because.contains("not the same work"), assumed == Some(Assumption::Symmetric), "{found:?}");
        // Times of ranks that take each other's processors are not those of their work, whatever is assumed.
        let mut ranks = report.ranks.iter();
        let had_processors =
            ranks.all(|rank| rank.cpu_s.zip(rank.computation_s).is_some_and(|(cpu, own)| cpu >= 0.9 * own));
        let is_told = assumed == Some(Assumption::Homogeneous) && had_processors;
        assert_eq!(found.relative.is_empty(), !is_told, "{found:?}");
    }
}

/// A rank that sleeps as its work wants no processor: nobody keeps it from one, and that is what is said.
#[test]
fn a_rank_that_sleeps_is_not_kept_from_its_processor() {
    let _alone = alone();
    let arguments = "--sleep-us 0 --work 200000 --sleep-more-us 30000";
    // On a busy machine a rank that wakes may wait for a processor as long as it slept.
    let mut tries = (0..TRIES).map(|_| window(arguments, &[], None));
    let slept = tries.find_map(|report| {
        let found = report.difference.filter(|found| found.longest >= 2 && found.shortest < 2)?;
        assert!(report.nodes[0].places.iter().all(|place| place.waited_s.is_some()), "{:?}", report.nodes);
        (found.cause.word() == "undetermined" && found.because.contains("it slept")).then_some(found)
    });
    assert!(slept.is_some(), "in one of {TRIES} windows the ranks differ by their sleep");
}

/// ScoPro's table 3: the same work, and for one rank a small part of the processor that others have.
#[test]
fn less_of_a_processor_is_no_more_work() {
    let _alone = alone();
    let Some(quota) = Quota::new() else {
        eprintln!("SKIPPED: no control group for processors can be made here");
        return;
    };
    let arguments = "--sleep-us 0 --work 4000000 --pages 500";
    let share = |subject: &Subject| quota.set(subject.job.ranks[3].pid.0);
    let mut tries = (0..TRIES).map(|_| window_with(arguments, &["instructions"], Some(Assumption::Symmetric), &share));
    let found = tries.find_map(|report| {
        // On a busy machine a counter may not be read on both sides of any call; then nothing is known of its rank.
        let all = report.ranks.iter().map(|rank| counter(rank, "instructions").outside_communication);
        let all: Vec<f64> = all.collect::<Option<_>>()?;
        assert!(all.iter().all(|count| (count / all[0] - 1.0).abs() < 0.06), "the same work: {all:?}");
        report.difference.filter(|found| found.longest == 3)
    });
    let found = found.expect("the rank takes longest");
    assert_eq!(found.cause.word(), "processor", "{found:?}");
    let speed = |rank: u32| found.relative.iter().find(|one| one.rank == rank).expect("its speed").relative;
    assert!(speed(3) < 0.8 * speed(found.shortest), "{found:?}");
}

/// A control group whose processes have a tenth of a processor; it is gone with this.
struct Quota {
    group: std::path::PathBuf,
    /// Where its processes go then.
    root: std::path::PathBuf,
}

impl Quota {
    fn new() -> Option<Quota> {
        let name = format!("trimtab-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(std::path::PathBuf::from);
        roots.into_iter().find_map(|root| {
            let quota = Quota { group: root.join(&name), root };
            std::fs::create_dir(&quota.group).ok()?;
            let write = |file: &str, text: &str| std::fs::write(quota.group.join(file), text).is_ok();
            let is_first = write("cpu.cfs_period_us", "20000") && write("cpu.cfs_quota_us", "2000");
            (is_first || write("cpu.max", "2000 20000")).then_some(quota)
        })
    }

    fn set(&self, pid: i32) {
        std::fs::write(self.group.join("cgroup.procs"), pid.to_string()).expect("the group takes a process");
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let members = std::fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = std::fs::write(self.root.join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}
