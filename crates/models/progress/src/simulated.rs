//! Simulated runs, attached to at a tenth, half and nine tenths: how far forecasts are off, and how many intervals hold.
//!
//! Windows are taken as the command line takes them: a tenth of the job's age, and another one a while later where the
//! first one's interval is wide.

use crate::{End, Error, Known, Look, Method, Remaining, forecast};

const STEPS: u64 = 2000;
const STEP_S: f64 = 0.02;

/// A program: when each iteration ends, after its setup.
struct Program {
    name: &'static str,
    setup_s: f64,
    /// The time of an iteration as a multiple of the usual one.
    factor: fn(u64) -> f64,
    /// The median error at most, and the share of intervals that hold at least.
    bars: (f64, f64),
}

const PROGRAMS: [Program; 6] = [
    Program { name: "steady", setup_s: 0.7, factor: |_| 1.0, bars: (0.01, 0.9) },
    Program { name: "slow first step", setup_s: 0.7, factor: |i| if i == 0 { 250.0 } else { 1.0 }, bars: (0.02, 0.9) },
    Program { name: "dumps", setup_s: 0.7, factor: |i| if i % 50 == 49 { 11.0 } else { 1.0 }, bars: (0.04, 0.9) },
    Program { name: "refinement", setup_s: 2.0, factor: |i| if i % 180 > 160 { 3.0 } else { 1.0 }, bars: (0.08, 0.75) },
    Program { name: "two phases", setup_s: 0.7, factor: |i| if i < 600 { 1.0 } else { 1.6 }, bars: (0.1, 0.6) },
    Program { name: "drift", setup_s: 0.7, factor: |i| 1.0 + 0.5 * i as f64 / STEPS as f64, bars: (0.1, 0.75) },
];

/// Numbers that look random, the same in each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }
}

/// The times at which iterations end.
fn ends(program: &Program, seed: u64) -> Vec<f64> {
    let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut at = program.setup_s;
    let step = |i| {
        at += STEP_S * (program.factor)(i) * (0.95 + 0.1 * noise.next());
        at
    };
    (0..STEPS).map(step).collect()
}

/// A window that begins at the first iteration after `from_s`, and lasts so long.
fn look(ends: &[f64], from_s: f64, length_s: f64) -> Option<Look> {
    let first = ends.iter().position(|end| *end >= from_s)?;
    let last = ends.iter().position(|end| *end >= ends[first] + length_s).unwrap_or(ends.len() - 1);
    let times_s: Vec<f64> = ends[first..=last].windows(2).map(|pair| pair[1] - pair[0]).collect();
    let count = times_s.len() as f64;
    let mean = times_s.iter().sum::<f64>() / count;
    let variance = times_s.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (last > first).then(|| Look {
        at_s: ends[last],
        done: Some(last as u64 + 1),
        place: Some(last as i64 + 1),
        iterations: (last - first) as u64,
        duration_s: ends[last] - ends[first],
        times_s,
        half_width_s: Some(1.96 * (variance / count).sqrt()),
    })
}

/// Looks at the job at a part of its run, as often as is worth it; the end's error is by the time still to come then.
fn forecast_at(ends: &[f64], part: f64, looks: &mut Vec<Look>) -> (f64, End) {
    let whole = ends[ends.len() - 1];
    let mut from_s = part * whole;
    for attempt in 0..2 {
        looks.extend(look(ends, from_s, (0.1 * from_s).clamp(0.5, 10.0).min(0.05 * whole)));
        let last = looks.last().unwrap();
        let remaining = Remaining::Exactly(STEPS - last.done.unwrap());
        let known = Known { elapsed_s: last.at_s, looks: looks.clone(), remaining, ..Known::default() };
        let end = forecast(&known).unwrap();
        if !end.is_worth_a_look || attempt == 1 {
            return (last.at_s, end);
        }
        from_s = last.at_s + (0.1 * last.at_s).clamp(1.0, 30.0);
    }
    unreachable!("the second look returns");
}

/// Error of the end, by the whole run, and by the time to come; and whether the interval held.
fn judged(ends: &[f64], now_s: f64, end: &End) -> (f64, bool) {
    let truth = ends[ends.len() - 1] - now_s;
    let said = end.remaining_s.unwrap();
    ((said - truth).abs() / (now_s + truth), (end.lower_s..=end.upper_s).contains(&truth))
}

#[test]
fn ends_are_near_and_intervals_hold() {
    for program in &PROGRAMS {
        let (mut errors, mut held) = ([Vec::new(), Vec::new(), Vec::new()], [0; 3]);
        for seed in 1..=20 {
            let ends = ends(program, seed);
            let mut looks = Vec::new();
            for (place, part) in [0.1, 0.5, 0.9].into_iter().enumerate() {
                let part = part + 0.003 * (seed % 10) as f64;
                let (now_s, end) = forecast_at(&ends, part, &mut looks);
                let (error, holds) = judged(&ends, now_s, &end);
                errors[place].push(error);
                held[place] += u32::from(holds);
            }
        }
        let medians = errors.clone().map(crate::classes::median);
        let median = crate::classes::median(errors.concat());
        let share = f64::from(held.iter().sum::<u32>()) / 60.0;
        println!("{:>16}: {median:.4} {medians:.4?} held {share:.2} {held:?}", program.name);
        assert!(median <= program.bars.0 && share >= program.bars.1, "{}: {median} {share}", program.name);
    }
}

/// A forecast moves by less than the interval of the one before.
#[test]
fn successive_forecasts_agree() {
    for program in PROGRAMS.iter().filter(|program| program.name != "two phases") {
        let (mut agree, mut all) = (0, 0);
        for seed in 1..=20 {
            let ends = ends(program, seed);
            let mut looks = Vec::new();
            let mut before: Option<(f64, f64)> = None;
            for part in [0.1, 0.2, 0.35, 0.5, 0.7, 0.9] {
                let (now_s, end) = forecast_at(&ends, part, &mut looks);
                let at = now_s + end.remaining_s.unwrap();
                all += u32::from(before.is_some());
                agree += u32::from(before.is_some_and(|(lower, upper)| (lower..=upper).contains(&at)));
                before = Some((now_s + end.lower_s, now_s + end.upper_s));
            }
        }
        println!("{}: {agree} of {all}", program.name);
        assert!(f64::from(agree) >= 0.9 * f64::from(all), "{}: {agree} of {all}", program.name);
    }
}

fn known(program: &Program) -> Known {
    let ends = ends(program, 1);
    let look = look(&ends, 10.0, 1.0).unwrap();
    let remaining = Remaining::Exactly(STEPS - look.done.unwrap());
    Known { elapsed_s: look.at_s, looks: vec![look], remaining, ..Known::default() }
}

#[test]
fn without_a_basis_nothing_is_claimed() {
    let known = Known { remaining: Remaining::Unknown, ..known(&PROGRAMS[0]) };
    let error = forecast(&known).unwrap_err();
    assert!(matches!(&error, Error::NoBasis(said) if said.contains("how many iterations")), "{error}");
    assert!(matches!(forecast(&Known::default()), Err(Error::NoBasis(_))));
    let outlived = Known { elapsed_s: 100.0, earlier_s: vec![10.0, 10.2, 9.9], ..Known::default() };
    assert!(matches!(forecast(&outlived), Err(Error::NoBasis(said)) if said.contains("outlived its 3")));
}

#[test]
fn a_range_of_iterations_widens_the_interval() {
    let exactly = forecast(&known(&PROGRAMS[0])).unwrap();
    let Remaining::Exactly(expected) = known(&PROGRAMS[0]).remaining else { panic!("a count") };
    let remaining = Remaining::Between { expected, least: expected * 8 / 10, most: expected * 12 / 10 };
    let found = forecast(&Known { remaining, ..known(&PROGRAMS[0]) }).unwrap();
    assert_eq!((found.remaining_s, found.method), (exactly.remaining_s, Method::Iterations));
    assert!(found.lower_s < 0.85 * exactly.lower_s && found.upper_s > 1.15 * exactly.upper_s, "{found:?}");
    assert!(found.late_s > 1.15 * exactly.late_s, "{found:?}");
    assert!(found.because.iter().any(|said| said.contains("iterations fit what was seen")), "{found:?}");
}

#[test]
fn a_loop_that_may_be_left_has_a_latest_end_only() {
    let remaining = Remaining::AtMost(1500);
    let end = forecast(&Known { remaining, ..known(&PROGRAMS[0]) }).unwrap();
    assert_eq!((end.remaining_s, end.lower_s, end.method), (None, 0.0, Method::AtMost));
    assert!(
        (end.upper_s - 30.0).abs() < 3.0 && end.unless_left_s.is_some_and(|end| (end - 30.0).abs() < 2.0),
        "{end:?}"
    );
    let unaided = end;
    // Earlier runs say more, and can't say more than that.
    let earlier_s = vec![25.0, 25.5, 24.5, 25.2];
    let end = forecast(&Known { remaining, earlier_s, ..known(&PROGRAMS[0]) }).unwrap();
    assert_eq!(end.method, Method::History);
    assert!((end.remaining_s.unwrap() - 14.0).abs() < 0.7, "{end:?}");
    let later = forecast(&Known { remaining, earlier_s: vec![900.0; 4], ..known(&PROGRAMS[0]) }).unwrap();
    assert!(later.late_s < 40.0, "{later:?}");
    // Runs that it has outlasted did less work.
    let earlier_s = vec![0.8 * known(&PROGRAMS[0]).elapsed_s];
    let outlasted = forecast(&Known { remaining, earlier_s, ..known(&PROGRAMS[0]) }).unwrap();
    assert_eq!((outlasted.method, outlasted.late_s), (Method::AtMost, unaided.late_s));
}

#[test]
fn iterations_and_history_are_joined_or_stand_apart() {
    let steady = known(&PROGRAMS[0]);
    let whole = ends(&PROGRAMS[0], 1)[STEPS as usize - 1];
    let with = |earlier_s: Vec<f64>| forecast(&Known { earlier_s, ..steady.clone() }).unwrap();
    let (alone, both) = (with(Vec::new()), with(vec![whole, whole * 1.01, whole * 0.99]));
    assert_eq!((alone.method, both.method), (Method::Iterations, Method::Both));
    assert!(both.upper_s - both.lower_s <= alone.upper_s - alone.lower_s);
    let apart = with(vec![2.0 * whole; 4]);
    assert_eq!(apart.method, Method::Apart);
    let left = 2.0 * whole - steady.elapsed_s;
    assert!(apart.lower_s < whole - steady.elapsed_s && apart.upper_s > 0.95 * left, "{apart:?}");
}

#[test]
fn damaged_input_is_refused() {
    let good = known(&PROGRAMS[0]);
    let with = |change: &dyn Fn(&mut Known)| {
        let mut known = good.clone();
        change(&mut known);
        forecast(&known).unwrap_err()
    };
    assert!(matches!(with(&|known| known.elapsed_s = f64::NAN), Error::NoTime(_)));
    assert!(matches!(with(&|known| known.elapsed_s = -1.0), Error::NoTime(_)));
    assert!(matches!(with(&|known| known.earlier_s = vec![-5.0]), Error::NoTime(_)));
    assert!(matches!(with(&|known| known.looks[0].duration_s = 0.0), Error::NoTime(_)));
    assert!(matches!(with(&|known| known.looks[0].times_s[3] = f64::INFINITY), Error::NoTime(_)));
    assert!(matches!(with(&|known| known.looks[0].at_s = 0.01), Error::Clock));
    let mut second = good.looks[0].clone();
    second.at_s -= 1.0;
    assert!(matches!(with(&|known| known.looks.push(second.clone())), Error::Clock));
}
