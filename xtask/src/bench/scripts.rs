//! `bench probe`: what scripts cost where they run, through the command line that users type.
//!
//! The floors are written by hand around the same function: a count in front of it, and two readings of the clock with
//! what is kept of them. Contenders and floors take turns, round by round; each has a process of its own, in which the
//! bare call is measured right before, because two processes differ by more than a probe costs.
//!
//! Next: `contender` for one visit, `peers` for other tools, `idle` for what trimtab itself uses.

use super::attach::Bench;
use super::contender::{Contender, Cost, Stops};
use super::record::Record;
use super::row::{Row, Verdict};
use super::runner::{Measured, Series, Spread};
use super::tiny::{COUNTED, FAST, TIMED, Tiny};
use super::{Part, idle, large, peers};
use anyhow::{Context, Result};
use serde_json::json;

/// Entry and exit timed, over what is written by hand.
const FLOOR_RATIO_BAR: f64 = 1.2;
/// A count alone, over the bare call.
const COUNT_NS_BAR: f64 = 1.5;
/// A condition that is false, over the bare call.
const FALSE_NS_BAR: f64 = 1.5;
/// Two figures of a call that nobody touches differ by this share at least.
const EQUAL_WITHIN: f64 = 0.01;

/// Conditions that are false, and their scripts. The function's arguments are 8 and the address of a 7.
const FALSE: [(&str, &str); 5] = [
    ("false condition on an argument", "entry pure when ($0 > 100000) { n++ }"),
    ("false condition on a variable of the process", "process int depth; entry pure when (depth > 5) { n++ }"),
    ("false condition on a variable of the thread", "thread int depth; entry pure when (depth > 5) { n++ }"),
    ("false condition on a global of the program", "entry pure when (::tiny_calls == 5) { n++ }"),
    ("false condition behind a pointer", "entry pure when (*(long *)$1 == 5) { n++ }"),
];

/// Floors of one round: bare, counted and timed by hand, nanoseconds per call.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Floor {
    bare_ns: f64,
    counted_ns: f64,
    timed_ns: f64,
}

/// All rounds: the floors, and the costs of the contenders in their order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rounds {
    floors: Vec<Floor>,
    costs: Vec<Vec<Cost>>,
    stops: Vec<Stops>,
}

/// Measures everything, or one part, and prints it as it comes.
pub fn run(bench: &Bench, only: Option<Part>, record: &mut Record) -> Result<()> {
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    if wanted(Part::Cost) {
        let contenders = contenders();
        let rounds = rounds(bench, &contenders)?;
        record.show(measured(&contenders, &rounds));
        record.judge(judge(&contenders, &rounds));
    }
    if wanted(Part::Peers) {
        record.judge(peers::rows(bench)?);
    }
    if wanted(Part::Idle) {
        record.judge(idle::rows(bench)?);
    }
    if wanted(Part::Large) {
        record.judge(large::rows(bench)?);
    }
    Ok(())
}

fn contenders() -> Vec<Contender> {
    let scripts = [("counted", COUNTED), ("timed", TIMED)].into_iter().chain(FALSE);
    scripts.map(|(does, script)| Contender::trimtab(does, script, FAST)).collect()
}

fn rounds(bench: &Bench, contenders: &[Contender]) -> Result<Rounds> {
    let mut rounds = Rounds { costs: vec![Vec::new(); contenders.len()], ..Rounds::default() };
    for _ in 0..bench.rounds(12, 2) {
        rounds.floors.push(floor()?);
        for (contender, costs) in contenders.iter().zip(&mut rounds.costs) {
            costs.push(contender.cost(bench).with_context(|| contender.does)?);
        }
        rounds.stops.push(contenders[1].stops(bench).context("stops")?);
    }
    Ok(rounds)
}

fn floor() -> Result<Floor> {
    let phase = |kind| Tiny::start(kind, FAST, &[])?.phase();
    Ok(Floor { bare_ns: phase("pure")?, counted_ns: phase("counted_pure")?, timed_ns: phase("timed_pure")? })
}

fn measured(contenders: &[Contender], rounds: &Rounds) -> Measured {
    let of_floor = |name: &str, of: fn(&Floor) -> f64| Series {
        name: name.to_string(),
        samples: rounds.floors.iter().map(of).collect(),
    };
    let mut series = vec![
        of_floor("bare", |floor| floor.bare_ns),
        of_floor("counted by hand", |floor| floor.counted_ns),
        of_floor("timed by hand", |floor| floor.timed_ns),
    ];
    for (contender, costs) in contenders.iter().zip(&rounds.costs) {
        let samples = |of: fn(&Cost) -> f64| costs.iter().map(of).collect();
        let name = |what: &str| format!("{}: {what}", contender.does);
        series.push(Series { name: name("before"), samples: samples(|cost| cost.before_ns) });
        series.push(Series { name: name("probed"), samples: samples(|cost| cost.with_ns) });
        series.push(Series { name: name("after"), samples: samples(|cost| cost.after_ns) });
    }
    Measured { title: "one call of a tiny function, scripts by `trimtab probe`".into(), unit: "ns", series }
}

fn judge(contenders: &[Contender], rounds: &Rounds) -> Vec<Row> {
    let over = |index: usize| rounds.costs[index].iter().map(Cost::over_ns).collect::<Vec<f64>>();
    let floors = rounds.floors.iter().map(|floor| floor.timed_ns - floor.bare_ns);
    let against_floor: Vec<f64> = over(1).into_iter().zip(floors).map(|(probe, floor)| probe / floor).collect();
    let mut rows = vec![
        Row::median_at_most(
            "entry and exit timed by a script: cost over the bare call, divided by that of the same written by hand",
            "x",
            &against_floor,
            FLOOR_RATIO_BAR,
        ),
        Row::median_at_most("count only, over the bare call", "ns", &over(0), COUNT_NS_BAR),
    ];
    for (index, contender) in contenders.iter().enumerate().skip(2) {
        let what = format!("{}, over the bare call", contender.does);
        rows.push(Row::median_at_most(what, "ns", &over(index), FALSE_NS_BAR));
    }
    rows.push(after_removal(rounds));
    rows.extend(stops(&rounds.stops));
    rows
}

/// Equal to before within what two processes that nobody touches differ by.
fn after_removal(rounds: &Rounds) -> Row {
    let what = "after removal, over before; text bytes compared";
    let costs = || rounds.costs.iter().flatten();
    let after: Vec<f64> = costs().map(|cost| cost.after_ns / cost.before_ns).collect();
    let bare = || costs().map(|cost| cost.before_ns);
    let (Some(spread), Some(usual)) = (Spread::of(after.clone()), Spread::of(bare().collect())) else {
        return Row::skipped(what, "no sample was taken");
    };
    let noise = Spread::of(bare().map(|ns| ns / usual.median).collect()).unwrap_or(usual);
    let off = |ratio: f64| (ratio - 1.0).abs();
    let equal = off(spread.median) <= off(noise.lower_quartile).max(off(noise.upper_quartile)).max(EQUAL_WITHIN);
    Row {
        what: what.into(),
        measured: format!("x: {spread}; untouched processes: {noise}; text bytes identical in all of {}", after.len()),
        bar: "within what untouched processes differ by, bytes identical".into(),
        verdict: Verdict::of(equal),
        figures: json!({ "samples": after, "untouched": noise.to_json(), "text_identical": true }),
    }
}

/// How long the process stood still, as its own threads saw it.
fn stops(stops: &[Stops]) -> Vec<Row> {
    let row = |what: &str, of: fn(&Stops) -> f64| {
        let samples: Vec<f64> = stops.iter().map(of).collect();
        Row::no_bar(format!("longest time no thread of the process ran, {what}"), "us", &samples)
    };
    vec![
        row("untouched", |stop| stop.untouched_us),
        row("while the timing script came", |stop| stop.insert_us),
        row("while it left", |stop| stop.remove_us),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(before_ns: f64, with_ns: f64, after_ns: f64) -> Cost {
        Cost { before_ns, with_ns, after_ns, attach_ms: 1.0, remove_ms: 1.0 }
    }

    #[test]
    fn costs_are_taken_over_the_call_right_before() {
        let floors = vec![Floor { bare_ns: 1.0, counted_ns: 1.5, timed_ns: 21.0 }];
        let contenders = contenders();
        let verdicts = |timed: f64, counted: f64, condition: f64, after: f64| {
            let others = (2..contenders.len()).map(|_| vec![cost(2.0, 2.0 + condition, after)]);
            let costs = [vec![cost(2.0, 2.0 + counted, after)], vec![cost(2.0, 2.0 + timed, after)]];
            let costs = costs.into_iter().chain(others).collect();
            let rows = judge(&contenders, &Rounds { floors: floors.clone(), costs, stops: Vec::new() });
            [0, 1, 2, contenders.len()].map(|index| rows[index].verdict)
        };
        let [met, missed] = [Verdict::Met, Verdict::Missed];
        assert_eq!(verdicts(23.0, 1.4, 1.4, 2.0), [met; 4]);
        assert_eq!(verdicts(25.0, 1.6, 1.6, 2.1), [missed; 4]);
    }
}
