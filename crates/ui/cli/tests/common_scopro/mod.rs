//! Tables 6, 7a and 7b of ScoPro's thesis, and reports of windows as it measured them: for tests of the command line and of the API.
//!
//! Next: `corun.rs`, and the controller's `access/forecasts.rs`, which ask for them.
#![allow(dead_code, reason = "each test file uses its own part")]

use serde_json::{Value, json};

/// The job that is forecast, the one that ends first, nodes, T_a1, S_a, T_b, T_a by formulas 6 and 7, T_real: tables 7a and 7b.
pub const TABLE_7: &[(&str, &str, u32, [f64; 6])] = &[
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
/// An application, beside which, nodes, slowdown of whole runs and of windows, printed error in percent: table 6.
pub const TABLE_6: &[(&str, &str, u32, f64, f64, f64)] = &[
    ("IS", "EP", 4, 1.14, 1.13, 1.2),
    ("IS", "EP", 8, 1.10, 1.10, 0.0),
    ("IS", "EP", 16, 1.11, 1.10, 0.9),
    ("EP", "IS", 4, 1.14, 1.13, 0.6),
    ("EP", "IS", 8, 1.14, 1.17, 2.5),
    ("EP", "IS", 16, 1.14, 1.15, 0.9),
    ("IS", "FT", 8, 1.44, 1.42, 2.0),
    ("IS", "FT", 16, 1.33, 1.33, 0.4),
    ("FT", "IS", 8, 1.74, 1.71, 1.8),
    ("FT", "IS", 16, 1.71, 1.73, 1.5),
];
/// Iterations of NAS IS as the thesis ran it, and of any other here.
pub const ITERATIONS: u64 = 320;
/// The report of a window in which an iteration took so long, and after which so many come.
pub fn report(program: &str, nodes: u32, each_s: f64, done: u64, remaining: Option<u64>) -> Value {
    let hosts: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
    json!({
        "schema": "trimtab.report/1",
        "job": {
            "id": "", "program": format!("/nas/{program}"), "arguments": [], "ranks": nodes, "mpi": "MPICH-GM 1.2.5",
            "hosts": hosts, "builds": [], "started_unix_s": null,
        },
        "window": {
            "batch": 0, "trigger": "attach", "marker": "main", "marker_source": "named", "start": done, "iterations": 10,
            "valid": true, "ended_by": "iterations", "duration_s": 10.0 * each_s, "started_unix_s": null,
            "groups": ["comm"], "loop_description": null,
            "progress": {
                "done": done, "remaining": remaining, "total": remaining.map(|remaining| remaining + done),
                "total_at_most": null, "explanation": "the loop has no counter",
            },
        },
        "time_per_iteration_s": {
            "mean": each_s, "variance": 0.0, "half_width_95": 0.01 * each_s, "min": each_s, "max": each_s, "samples": 10,
        },
        "iterations_per_s": 1.0 / each_s, "communication_fraction": null, "communication_to_computation": null,
        "imbalance": null, "functions": [], "links": [], "ranks": [],
        "cost": {
            "pause_us_max": null, "pause_us_total": null, "probe_ns": null, "probes": null, "points": null, "fraction": null,
            "first_record_s": null,
        },
        "warnings": [],
    })
}
