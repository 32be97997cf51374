//! Do the formulas give what was published? Tables of the source, as printed, with its errata by name.

use trimtab_window::formulas::*;

/// Rows of a table as fields, the comments and the column names left out.
fn rows(text: &'static str) -> Vec<Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| line.split(',').collect()).collect()
}

fn number(field: &str) -> f64 {
    field.parse().unwrap_or_else(|_| panic!("{field:?} is no number"))
}

fn assert_near(name: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{name}: {found} instead of {expected} +- {tolerance}");
}

#[test]
fn communication_share_of_whole_runs() {
    let rows = rows(include_str!("../data/table1.csv"));
    assert_eq!(rows.len(), 6);
    for row in rows {
        let name = format!("{}/{}", row[0], row[2]);
        let (mut computation, mut communication) = (number(row[4]), number(row[5]));
        if name == "FT/16" {
            (computation, communication) = (communication, computation);
        }
        let duration = computation + communication;
        let percent = 100.0 * communication_fraction(communication, duration).expect("a duration");
        assert_near(&name, percent, number(row[6]), 0.05);
        let r = communication_to_computation(communication, duration).expect("computation");
        assert_near(&name, r, communication / computation, 1e-12);
        assert_near(&name, 100.0 * r / (1.0 + r), percent, 1e-9);
        let error_percent = 100.0 * (number(row[7]) - number(row[6])).abs() / number(row[6]);
        assert_near(&name, error_percent, number(row[8]), 0.06);
        let printed = number(row[3]);
        let is_erratum = name == "FT/4";
        assert_eq!((printed - duration).abs() > 0.05, is_erratum, "{name}: {printed} against {duration}");
    }
}

#[test]
fn shares_of_short_windows_against_whole_runs() {
    let errata = ["particle_blocking/16 b", "FT/4 b"];
    for row in rows(include_str!("../data/table2.csv")) {
        for (window, percent, error) in [("a", row[6], row[7]), ("b", row[9], row[10])] {
            let name = format!("{}/{} {window}", row[0], row[2]);
            let full = number(row[4]);
            let reproduced = (100.0 * (number(percent) - full).abs() / full - number(error)).abs() <= 0.2;
            assert_eq!(reproduced, !errata.contains(&name.as_str()), "{name}");
            assert!(number(error) <= 6.1, "{name}: the published bound");
        }
    }
}

#[test]
fn faster_nodes_communicate_longer() {
    for row in rows(include_str!("../data/table3.csv")) {
        let (slow_node, fast_node) = (number(row[2]), number(row[3]));
        let duration = 10.0 * fast_node;
        let speeds = relative_speeds(&[duration - slow_node, duration - fast_node]).expect("computation");
        assert_eq!(speeds[0], 1.0, "{row:?}");
        assert!(speeds[1] > 1.0, "{row:?}");
    }
    // Four nodes of FT at 115.4 s for 20 iterations; the clocks have the ratio 1.20.
    let speeds = relative_speeds(&[5.77 - 1.47, 5.77 - 2.22]).expect("computation");
    assert_near("FT/4", speeds[1], 1.21, 0.005);
}

#[test]
fn doubled_work_is_seen() {
    let rows = rows(include_str!("../data/table5.csv"));
    let computation: Vec<f64> = rows.iter().map(|row| number(row[2]) - number(row[1])).collect();
    for (found, expected) in computation.iter().zip([2.711, 2.700, 5.258, 5.246]) {
        assert_near("p", *found, expected, 1e-9);
    }
    let work = relative_work(&computation).expect("computation");
    assert_near("work of node 3", work[2], 1.947, 0.001);
    let means = [(computation[0] + computation[1]) / 2.0, (computation[2] + computation[3]) / 2.0];
    let of_means = relative_work(&means).expect("computation");
    assert_near("work of the halves, truly 2", of_means[1], 1.941, 0.001);
    assert_near("imbalance", imbalance(&computation).expect("computation"), 5.258 / 3.97875 - 1.0, 1e-9);
}

#[test]
fn slowdowns() {
    for row in rows(include_str!("../data/table6.csv")) {
        let name = format!("{} with {} on {}", row[0], row[1], row[2]);
        let error_percent = 100.0 * (number(row[4]) - number(row[3])).abs() / number(row[3]);
        assert_near(&name, error_percent, number(row[5]), 0.9);
        assert_near(&name, slowdown(3.0 * number(row[3]), 3.0).expect("a time alone"), number(row[3]), 1e-12);
    }
}

#[test]
fn run_times_beside_another_job() {
    let printed_slowdown_is_off = ["EP/IS/16", "FT/IS/8"];
    for row in rows(include_str!("../data/table7.csv")) {
        let name = format!("{}/{}/{}", row[1], row[2], row[3]);
        let (alone, until, ta6, ta7) = (number(row[4]), number(row[6]), number(row[7]), number(row[9]));
        let unrounded = ta7 / alone;
        assert_near(&name, run_time_beside(alone, unrounded, until).expect("B ends first"), ta6, 0.07);
        let low = run_time_all_beside(alone, number(row[5]) - 0.005);
        let high = run_time_all_beside(alone, number(row[5]) + 0.005);
        let reproduced = low - 0.05 <= ta7 && ta7 <= high + 0.05;
        assert_eq!(reproduced, !printed_slowdown_is_off.contains(&name.as_str()), "{name}: {low}..{high}, {ta7}");
    }
    assert_eq!(run_time_beside(10.0, 1.5, 16.0), None, "A would end before B");
}

#[test]
fn formulas_without_a_table() {
    assert_near("two programs at 0.8 and 0.5", slowdown_growth(1.3, 0.7).expect("time"), 0.3, 1e-12);
    assert_eq!(slowdown_growth(0.7, 1.3), Some(0.0), "more idle than busy");
    assert_eq!((iterations(0), iterations(1), iterations(11)), (None, None, Some(10)));
    assert_eq!((time_per_iteration(5.0, 11), time_per_iteration(5.0, 1)), (Some(0.5), None));
    assert_near("link", link_time(10, 1010, 2.0, 3.0, 0.5), 10.0 * 5.0 + 1000.0 * 0.5, 1e-12);
    assert_eq!(communication_to_computation(2.0, 2.0), None, "no computation");
    assert_eq!(communication_fraction(0.0, 0.0), None, "no time");
    assert_eq!((imbalance(&[]), imbalance(&[0.0, 0.0]), imbalance(&[2.0, 2.0])), (None, None, Some(0.0)));
    assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (None, Some(2.0), Some(2.5)));
    assert_eq!((coefficient_of_variation(&[1.0]), coefficient_of_variation(&[2.0, 2.0])), (0.0, 0.0));
}
