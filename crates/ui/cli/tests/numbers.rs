//! The numbers of a window are those of a wrapper that shares no code and no method with trimtab, for the same
//! iterations of the same processes: where each rank began, bytes and messages per link, calls, bytes, time.
//!
//! The window is marked by the wrapper's own mark, whose argument is the program's iteration number: so the records say
//! which iterations were recorded. Next: `loops.rs` for windows without hints.

mod common;

use common::{Compared, RANKS, Specimen, TRUE_MARK, alone, compare, median, warm};
use std::collections::BTreeMap;
use trimtab_specimens::{FunctionTruth, LinkTruth, Mpi, RangeTruth};
use trimtab_types::report::Link;

/// Largest difference of communication time from the wrapper's.
const TIME_SHARE_MAX: f64 = 0.01;

/// The wrapper stands outside of the probes, so its time has the probes' in it, plus its own two readings of the clock:
/// with cold caches one to three microseconds for each call, as machines differ. The bench measures it closely.
const PROBE_S_MAX: f64 = 4e-6;

/// On a slow machine with cold caches the probes themselves take longer than [`PROBE_S_MAX`]: fft under MPICH had 3.2 us
/// a call between wrapper and window, 2.6% of its time. A call that is not counted, or counted twice, would be more than
/// this share.
const SLOW_SHARE_MAX: f64 = 0.05;

/// Of calls that last a microsecond the wrapper sees the probes too; a call that ends at a jump has next to nothing.
const SEEN_SHARE_MIN: f64 = 0.2;
/// The clocks of both may differ by this share.
const CLOCK_SHARE_MAX: f64 = 0.001;

#[test]
fn every_kind_of_call_is_counted_as_the_wrapper_does_with_mpich() {
    every_kind_of_call_is_counted(Mpi::Mpich);
}

#[test]
fn every_kind_of_call_is_counted_as_the_wrapper_does_with_open_mpi() {
    every_kind_of_call_is_counted(Mpi::OpenMpi);
}

fn every_kind_of_call_is_counted(mpi: Mpi) {
    let _alone = alone();
    warm(mpi);
    let specimen = Specimen::of(mpi, "kinds", "--iterations 2500");
    let windows = in_some_try(|| {
        let windows = compare(&specimen, 3, 10);
        left_by_jumps_are_right(&windows).map(|()| windows)
    });
    check_starts_through_pointers(&windows, mpi);
    for mut window in windows {
        check_start(&window, &specimen.name());
        leave_out_what_is_not_measured(&mut window);
        // Five requests made before the loop, started once per iteration on each of two ranks.
        check_bytes_missing(&window);
        check_counts(&window, &specimen.name());
        println!("{}: {} links equal", specimen.name(), window.report.links.len());
    }
}

/// docs/report.md, "What has no bytes": starts of requests made before trimtab came.
fn leave_out_what_is_not_measured(window: &mut Compared) {
    let iterations = window.report.window.iterations.expect("iterations");
    for (rank, truth) in window.truths.iter_mut().enumerate() {
        let to = 1 - rank as u32;
        // `lasting`: 12 and 13 ints.
        take_off(truth.links.get_mut(&to).expect("a link"), iterations, 2, 100);
        for (name, _) in OF_UNKNOWN_REQUESTS {
            truth.functions.get_mut(name).expect("is called").bytes = 0;
        }
    }
}

/// Functions that start them, and how often in ten iterations of two ranks: five requests, two of them receives.
const OF_UNKNOWN_REQUESTS: [(&str, u64); 2] = [("MPI_Start", 40), ("MPI_Startall", 60)];

/// Bytes of requests made before trimtab came are not known: no number stands for them, and it is said why.
fn check_bytes_missing(window: &Compared) {
    for (name, messages) in OF_UNKNOWN_REQUESTS {
        let row = window.report.functions.iter().find(|function| function.name == name).expect("is called");
        assert_eq!((row.bytes, row.bytes_mean, row.bytes_max), (None, None, None), "{row:?}");
        let why = row.bytes_missing.as_deref().unwrap_or_default();
        assert!(why.starts_with(&format!("{messages} of its messages are of requests")), "{row:?}");
        let warning = format!("the bytes of {name} are not known: {why}");
        assert!(window.report.warnings.contains(&warning), "{:?}", window.report.warnings);
    }
    let known = |name: &str| !OF_UNKNOWN_REQUESTS.iter().any(|(unknown, _)| *unknown == name);
    let lacking =
        window.report.functions.iter().filter(|function| function.bytes_missing.is_some() && known(&function.name));
    assert_eq!(lacking.count(), 0, "of all others every byte is known");
}

fn take_off(link: &mut LinkTruth, iterations: u64, messages: u64, bytes: u64) {
    link.messages -= iterations * messages;
    link.bytes -= iterations * bytes;
}

/// A specimen, its arguments (it should live for a few seconds), and the libraries it is run with.
type Row = (&'static str, &'static str, &'static [Mpi]);

const ROWS: &[Row] = &[
    ("particle", "--iterations 1300", &[Mpi::OpenMpi]),
    ("particle", "--iterations 1300 --nonblocking", &[Mpi::Mpich]),
    ("particle", "--iterations 700 --imbalance", &[Mpi::OpenMpi]),
    ("fft", "--iterations 600", &[Mpi::Mpich]),
    ("is", "--iterations 800", &[Mpi::OpenMpi]),
    ("cg", "--iterations 700", &[Mpi::Mpich]),
    ("wave", "--iterations 1300", &[Mpi::OpenMpi]),
    ("heat", "--iterations 1000", &Mpi::ALL),
    ("heat08", "--iterations 1000", &[Mpi::OpenMpi]),
    ("threads", "--iterations 300", &[Mpi::Mpich]),
];

/// Iterations of each window.
const ITERATIONS: u64 = 10;
/// Tries of three windows each.
const TRIES_MAX: usize = 7;

#[test]
fn programs_are_measured_as_by_the_wrapper_with_mpich() {
    programs_are_measured(Mpi::Mpich);
}

#[test]
fn programs_are_measured_as_by_the_wrapper_with_open_mpi() {
    programs_are_measured(Mpi::OpenMpi);
}

fn programs_are_measured(mpi: Mpi) {
    let _alone = alone();
    warm(mpi);
    for (program, arguments, _) in ROWS.iter().copied().filter(|row| row.2.contains(&mpi)) {
        let specimen = Specimen::of(mpi, program, arguments);
        in_some_try(|| times_are_right(&specimen, program));
    }
}

/// A host that takes the processors away now and then disturbs single windows; a wrong number is wrong in all tries.
fn in_some_try<T>(attempt: impl Fn() -> Result<T, String>) -> T {
    let mut problems = Vec::new();
    let found = (0..TRIES_MAX).find_map(|_| attempt().map_err(|problem| problems.push(problem)).ok());
    found.unwrap_or_else(|| panic!("in each of {TRIES_MAX} tries: {problems:?}"))
}

/// Three windows: counts must be right in each; what is wrong with times, if anything is.
fn times_are_right(specimen: &Specimen, program: &str) -> Result<(), String> {
    let name = specimen.name();
    let windows = compare(specimen, 3, ITERATIONS);
    let mut excess_s = Vec::new();
    for window in &windows {
        check_start(window, &name);
        if program == "threads" {
            excess_s.push(check_marking_thread(window, &name));
        } else {
            check_counts(window, &name);
        }
    }
    match program {
        "threads" if median(excess_s) > 0.0 => Err(format!("{name}: barriers")),
        "threads" => Ok(()),
        _ => check_times(&windows, &name),
    }
}

/// All ranks began at the same iteration and recorded the iterations asked for, no other.
fn check_start(window: &Compared, name: &str) {
    let report = &window.report;
    let first = window.first[0];
    let count = report.window.iterations.expect("iterations");
    assert_eq!(
        window.first,
        vec![first; RANKS as usize],
        "{name}: the ranks began at different iterations; {:?}; {:?}",
        report.window,
        report.warnings
    );
    assert!(report.window.valid, "{name}: {:?}", report.warnings);
    let mark = report.functions.iter().find(|function| function.name == TRUE_MARK).expect("the mark");
    assert_eq!(mark.calls_counted(), u64::from(RANKS) * count, "{name}: marks");
    let sum = u64::from(RANKS) * (0..count).map(|iteration| first + iteration).sum::<u64>();
    assert_eq!(mark.argument_sum, Some(sum as i64), "{name}: sum of the iterations' numbers from {first}");
    assert!(report.ranks.iter().all(|rank| rank.iterations == Some(count)), "{name}: {:?}", report.ranks);
}

/// Links, calls and bytes equal the wrapper's.
fn check_counts(window: &Compared, name: &str) {
    assert_eq!(window.report.links, true_links(&window.truths), "{name}: links (left: trimtab)");
    for truth in true_functions(&window.truths).values() {
        let found = window.report.functions.iter().find(|function| function.name == truth.name);
        let found = found.unwrap_or_else(|| panic!("{name}: {} was not measured", truth.name));
        let counted = (found.calls_counted(), found.nested_calls, found.bytes.unwrap_or(0));
        assert_eq!(counted, (truth.calls, Some(0), truth.bytes), "{name}: {} (calls, nested, bytes)", truth.name);
    }
    let names: Vec<&str> = window.report.functions.iter().map(|function| function.name.as_str()).collect();
    for function in window.report.functions.iter().filter(|function| function.bytes.is_some_and(|bytes| bytes > 0)) {
        let is_true = window.truths.iter().any(|truth| truth.functions.contains_key(&function.name));
        assert!(is_true, "{name}: the wrapper saw no {} among {names:?}", function.name);
    }
    assert!(window.report.ranks.iter().all(|rank| rank.unattributed_bytes == Some(0)), "{name}: unattributed bytes");
}

/// MPICH's functions that wait for some of many requests, or start them, only jump to others: their calls last until those
/// return. Open MPI's return by themselves. In one window either clock may have lost the processor between two readings.
fn left_by_jumps_are_right(windows: &[Compared]) -> Result<(), String> {
    for name in ["MPI_Waitany", "MPI_Waitsome", "MPI_Testany", "MPI_Testsome", "MPI_Startall"] {
        let (mut most, mut least, mut share) = (vec![], vec![], vec![]);
        for window in windows {
            let row = window.report.functions.iter().find(|function| function.name == name).expect("is called");
            let truth = &true_functions(&window.truths)[name];
            assert_eq!((row.calls_counted(), &row.time_missing), (truth.calls, &None), "{name}");
            let (measured_s, true_s) = (row.time_s.expect("timed"), truth.time_s);
            let allowed_s = true_s * TIME_SHARE_MAX + truth.calls as f64 * PROBE_S_MAX;
            println!("{name}: {measured_s:.6} s, the wrapper has {true_s:.6} s, of {} calls", truth.calls);
            most.push(measured_s - true_s * (1.0 + TIME_SHARE_MAX));
            least.push(true_s - measured_s - allowed_s);
            share.push(measured_s / true_s);
        }
        if median(most) > 0.0 || median(least) > 0.0 || median(share.clone()) <= SEEN_SHARE_MIN {
            return Err(format!("{name}: shares {share:?}"));
        }
    }
    Ok(())
}

/// Open MPI's MPI_Start goes on through a pointer, where nobody follows.
fn check_starts_through_pointers(windows: &[Compared], mpi: Mpi) {
    for report in windows.iter().map(|window| &window.report) {
        let start = report.functions.iter().find(|function| function.name == "MPI_Start").expect("is called");
        let why = start.time_missing.as_deref().unwrap_or_default();
        assert_eq!(
            why.ends_with("(a function by a pointer), and nobody saw where they end"),
            mpi == Mpi::OpenMpi,
            "{why}"
        );
        assert_eq!((start.time_s.is_none(), report.communication_at_least), (mpi == Mpi::OpenMpi, mpi == Mpi::OpenMpi));
    }
}

fn true_links(truths: &[RangeTruth]) -> Vec<Link> {
    let of_rank = |(from, truth): (usize, &RangeTruth)| {
        let links: Vec<Link> = truth.links.values().map(|link| true_link(from as u32, link)).collect();
        links
    };
    truths.iter().enumerate().flat_map(of_rank).collect()
}

fn true_link(from: u32, link: &LinkTruth) -> Link {
    Link {
        from,
        to: link.to,
        messages: link.messages,
        bytes: link.bytes,
        collective_messages: link.collective_messages,
        collective_bytes: link.collective_bytes,
    }
}

/// Summed over ranks, as the report has it.
fn true_functions(truths: &[RangeTruth]) -> BTreeMap<String, FunctionTruth> {
    let mut sums: BTreeMap<String, FunctionTruth> = BTreeMap::new();
    for part in truths.iter().flat_map(|truth| truth.functions.values()) {
        let sum = sums.entry(part.name.clone()).or_default();
        sum.name.clone_from(&part.name);
        sum.calls += part.calls;
        sum.bytes += part.bytes;
        sum.time_s += part.time_s;
    }
    sums
}

/// Where several threads call MPI, only what the marking thread does belongs to an iteration exactly. By how many seconds
/// its time is further off than allowed; in one window it may have lost the processor between two readings.
fn check_marking_thread(window: &Compared, name: &str) -> f64 {
    let found = window.report.functions.iter().find(|function| function.name == "MPI_Barrier").expect("barriers");
    let truth = &true_functions(&window.truths)["MPI_Barrier"];
    assert_eq!(found.calls_counted(), truth.calls, "{name}: barriers");
    let (measured_s, true_s) = (found.time_s.expect("timed"), truth.time_s);
    let allowed_s = true_s * TIME_SHARE_MAX + truth.calls as f64 * PROBE_S_MAX;
    println!("{name}: barriers {measured_s:.6} s, the wrapper has {true_s:.6} s");
    (measured_s - true_s).abs() - allowed_s
}

/// Communication time is the wrapper's, in the middle window: in one of them either may have lost the processor between
/// the two readings of the clock.
fn check_times(windows: &[Compared], name: &str) -> Result<(), String> {
    for rank in 0..RANKS as usize {
        let (mut excess, mut share, mut durations, mut each) = (vec![], vec![], vec![], vec![]);
        for window in windows {
            let (measured, truth) = (&window.report.ranks[rank], &window.truths[rank]);
            let calls: u64 = truth.functions.values().map(|function| function.calls).sum();
            let difference = truth.communication_s - measured.communication_s.expect("measured");
            let allowed = truth.communication_s * TIME_SHARE_MAX + calls as f64 * PROBE_S_MAX;
            let allowed = allowed.max(truth.communication_s * SLOW_SHARE_MAX);
            excess.push((difference.abs() - allowed) / truth.communication_s);
            each.push(difference / calls as f64 * 1e9);
            share.push(difference / truth.communication_s);
            durations.push(measured.duration_s / truth.duration_s - 1.0);
        }
        let (excess, share, duration) = (median(excess), median(share), median(durations));
        let (percent, each) = (-share * 100.0, median(each));
        println!("{name}: rank {rank}: {percent:+.3}% communication, {each:.0} ns less per call");
        for (is_right, problem) in [
            (excess <= 0.0, format!("communication is {share} below the wrapper's")),
            (share >= -CLOCK_SHARE_MAX, "more time inside calls than the wrapper outside".to_owned()),
            (duration.abs() < TIME_SHARE_MAX, format!("duration is off by {duration}")),
        ] {
            if !is_right {
                return Err(format!("{name}: rank {rank}: {problem}"));
            }
        }
    }
    Ok(())
}
