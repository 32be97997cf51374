//! Tables 7a, 7b and 6 of the thesis: formulas 6 and 7 beside what is printed there.
//!
//! Slowdowns are those that the printed columns imply, formula 7 over the time alone: two rows do not follow from the printed
//! ones, which were rounded. Next: `outlook`.

use crate::{Between, Job, Remaining, Unknown, forecast};

/// The job that is forecast, the one that ends first, nodes, T_a1, S_a, T_b, T_a by formulas 6 and 7, T_real.
pub(crate) const TABLE_7: &[(&str, &str, u32, [f64; 6])] = &[
    ("IS", "EP", 4, [226.22, 1.12, 148.00, 242.5, 254.16, 245.77]),
    ("IS", "EP", 8, [123.46, 1.13, 75.85, 132.24, 139.6, 133.00]),
    ("IS", "EP", 16, [74.26, 1.08, 38.00, 76.95, 79.92, 78.01]),
    ("EP", "IS", 4, [130.85, 1.11, 67.8, 137.56, 145.24, 136.71]),
    ("EP", "IS", 8, [65.43, 1.15, 36.22, 70.09, 75.25, 72.8]),
    ("EP", "IS", 16, [32.91, 1.23, 21.66, 37.06, 40.71, 38.45]),
    ("IS", "FT", 16, [74.13, 1.31, 56.00, 87.50, 97.38, 88.46]),
    ("IS", "FT", 8, [123.36, 1.40, 104.83, 153.18, 172.40, 151.41]),
    ("FT", "IS", 16, [32.36, 1.75, 26.23, 43.62, 56.60, 43.59]),
    ("FT", "IS", 8, [61.42, 1.71, 47.48, 81.03, 104.6, 81.36]),
];

fn job(name: &str, together_s: f64, alone: Result<f64, Unknown>) -> Job {
    Job {
        name: name.to_owned(),
        begins_s: 0.0,
        since_s: 0.0,
        remaining: Remaining::Exactly(100),
        alone_s: alone.map(|alone_s| Between::exactly(alone_s / 100.0)),
        together_s: Some(Between::exactly(together_s / 100.0)),
        left_alone_by: None,
        ranks: Err(Unknown::NoRank),
        profile: None,
        met: Vec::new(),
    }
}

#[test]
fn formulas_6_and_7_are_as_printed() {
    for (a, b, nodes, [ta1, sa, tb, ta6, ta7, real]) in TABLE_7 {
        let row = format!("{a} with {b} on {nodes} nodes");
        let implied = ta7 / ta1;
        assert!((implied - sa).abs() < 0.008, "{row}: {implied}");
        // Nobody knows how fast B was alone, and nobody has to.
        let jobs = [job(a, ta1 * implied, Ok(*ta1)), job(b, *tb, Err(Unknown::NoneGiven))];
        let found = forecast(&jobs).unwrap();
        let [of_a, of_b] = &found.jobs[..] else { panic!("two jobs") };
        let end = of_a.end_s.clone().unwrap().value;
        assert!((end - ta6).abs() <= 0.07, "{row}: {end}");
        assert!((of_a.stay_end_s.clone().unwrap() - ta7).abs() < 1e-9, "{row}");
        assert!((of_b.end_s.clone().unwrap().value - tb).abs() < 1e-9, "{row}");
        assert_eq!((of_a.place, of_b.place), (Some(2), Some(1)), "{row}");
        // The printed share of what was not forecast is within what the thesis claims of formula 6.
        assert!((end - real).abs() / real < 0.04, "{row}: {end}");
    }
}

#[test]
fn rows_of_printed_slowdowns_differ_by_their_rounding() {
    for (a, b, nodes, [ta1, sa, tb, ta6, ..]) in TABLE_7 {
        let ends = [-0.0075, 0.0075].map(|off| {
            let jobs = [job(a, ta1 * (sa + off), Ok(*ta1)), job(b, *tb, Ok(*tb))];
            forecast(&jobs).unwrap().jobs[0].end_s.clone().unwrap().value
        });
        assert!(ends[0] - 0.07 <= *ta6 && *ta6 <= ends[1] + 0.07, "{a} with {b} on {nodes} nodes: {ends:?}");
    }
}
