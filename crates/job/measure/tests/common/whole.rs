//! The report that a reduced window would have had, of the same recordings of all its ranks.
//!
//! Next: `trimtab_window::assemble`, which makes it.

use trimtab_types::report::{NodeShare, Report};
use trimtab_window::{FunctionInfo, RankSample, UnixTime, Waits, WindowFacts, WindowInput, assemble};

/// The window's recordings, cut as they were for the report, and the machines.
pub fn whole(reduced: &Report, functions: &[FunctionInfo], ranks: &[RankSample], nodes: &[NodeShare]) -> Report {
    let window = &reduced.window;
    let shown = reduced.ranks.first().expect("a rank stands out");
    let sample = ranks.iter().find(|sample| sample.rank == shown.rank).expect("its recording");
    let ticks_per_second = (sample.last_ticks - sample.first_ticks) as f64 / shown.duration_s;
    assemble(&WindowInput {
        job: reduced.job.clone(),
        facts: WindowFacts {
            marker: window.marker.clone(),
            marker_source: window.marker_source,
            start: window.start,
            ended_by: window.ended_by,
            groups: window.groups.clone(),
            main_loop: window.main_loop.clone(),
            ..WindowFacts::default()
        },
        ticks_per_second,
        functions: functions.to_vec(),
        ranks: ranks.to_vec(),
        warnings: Vec::new(),
        command_to_first_record_s: None,
        unix_time: UnixTime::default(),
        waits: Waits::default(),
        nodes: nodes.to_vec(),
        named_paths: Vec::new(),
    })
}

/// Both have the same figures, to rounding.
pub fn assert_same(reduced: &Report, whole: &Report) {
    let is_near = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-9),
        (a, b) => a.is_none() && b.is_none(),
    };
    let share = |report: &Report| report.communication_fraction.map(|share| share.mean);
    let share_interval = |report: &Report| report.communication_fraction.and_then(|share| share.half_width_95);
    let time = |report: &Report| report.time_per_iteration_s.map(|time| time.mean);
    let time_interval = |report: &Report| report.time_per_iteration_s.and_then(|time| time.half_width_95);
    let balance = |report: &Report| report.efficiencies.as_ref().map(|factors| factors.load_balance);
    for (name, of) in [
        ("share", share as fn(&Report) -> Option<f64>),
        ("interval of the share", share_interval),
        ("time", time),
        ("interval of the time", time_interval),
        // The longest over the mean, less 1.
        ("imbalance", |report| report.imbalance.map(|more| 1.0 + more)),
        ("load balance", balance),
        ("cost", |report| report.cost.fraction),
    ] {
        assert!(is_near(of(reduced), of(whole)), "{name}: {:?} and {:?}", of(reduced), of(whole));
    }
    let calls = |report: &Report| {
        let of =
            |function: &trimtab_types::report::FunctionTotal| (function.name.clone(), function.calls, function.bytes);
        report.functions.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(calls(reduced), calls(whole));
    assert_eq!(reduced.window.valid, whole.window.valid, "{:?} and {:?}", reduced.warnings, whole.warnings);
    assert_eq!(trimtab_window::headline(reduced), trimtab_window::headline(whole));
}
