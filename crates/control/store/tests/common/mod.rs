//! A job and reports to store; used by every test file beside this folder.
#![allow(dead_code)] // each test file uses its own part

use trimtab_types::report::*;
use trimtab_types::report::{Ended, FunctionGroup, MarkerSource};

/// A job that runs `program`.
pub fn job(program: &str) -> Job {
    Job {
        id: String::new(),
        program: program.to_string(),
        arguments: vec!["--mesh".into(), "a \"b\" ü".into()],
        ranks: 2,
        mpi: "MPICH 4.0.2".into(),
        hosts: vec!["node1".into(), "node2".into()],
        builds: vec![format!("{program} 0123abcd")],
        started_unix_s: Some(1_795_234_000.25),
    }
}

/// A report of window `number`, with `iterations` samples in its one rank, so that its size can be chosen.
pub fn report(number: u32, iterations: usize) -> Report {
    let share =
        Estimate { mean: 0.386, variance: Some(1e-4), half_width_95: Some(0.01), min: 0.3, max: 0.4, samples: 10 };
    let time = Estimate { mean: 3.16e-3, variance: None, half_width_95: None, min: 3e-3, max: 3.3e-3, samples: 1 };
    Report {
        schema: SCHEMA.to_string(),
        job: job("/opt/particle"),
        window: window(number),
        time_per_iteration_s: Some(time),
        iterations_per_s: Some(316.5),
        communication_fraction: Some(share),
        communication_at_least: false,
        communication_missing: None,
        communication_to_computation: Some(0.63),
        imbalance: None,
        efficiencies: None,
        efficiencies_missing: None,
        omp: None,
        reduced: None,
        difference: None,
        functions: Vec::new(),
        paths: Vec::new(),
        links: vec![Link { from: 0, to: 1, messages: 10, bytes: 81920, collective_messages: 0, collective_bytes: 0 }],
        ranks: vec![rank(iterations)],
        messages: Vec::new(),
        collectives: Vec::new(),
        wait_states: Vec::new(),
        nodes: Vec::new(),
        cost: Cost {
            pause_us_max: Some(800.0),
            pause_us_total: Some(1500.0),
            probe_ns: Some(18.5),
            probes: Some(240),
            points: Some(62),
            fraction: Some(0.0004),
            communication_fraction_without: Some(share.mean),
            first_record_s: Some(0.18),
        },
        details: Vec::new(),
        warnings: vec!["a warning".into()],
    }
}

fn window(number: u32) -> Window {
    Window {
        number,
        trigger: "attach".into(),
        event: None,
        marker: Some("MPI_Sendrecv at particle+0x1234".into()),
        marker_source: MarkerSource::Detected,
        start: Some(120),
        iterations: Some(10),
        valid: true,
        context: None,
        ended_by: Ended::Iterations,
        duration_s: 0.0316,
        started_unix_s: Some(1_795_234_100.5 + f64::from(number)),
        groups: vec![FunctionGroup::Comm],
        loop_description: None,
        marker_path: Vec::new(),
        main_loop: None,
        loops_around: None,
        outer_progress: Vec::new(),
        progress: None,
        from_first_call: None,
        begins_late: None,
    }
}

fn rank(iterations: usize) -> RankTotal {
    RankTotal {
        rank: 0,
        pid: 4711,
        host: "node1".into(),
        duration_s: 0.0316,
        communication_s: Some(0.0122),
        computation_s: Some(0.0194),
        computation_error_s: None,
        communication_threads: Some(1),
        communication_threads_s: Some(0.0122),
        cpu_s: Some(0.0315),
        cpu_user_s: Some(0.03),
        cpu_system_s: Some(0.0015),
        iterations: Some(10),
        time_per_iteration_s: Some(3.16e-3),
        iteration_times_s: (0..iterations).map(|i| 3.16e-3 + i as f64 * 1e-9).collect(),
        minor_faults: Some(3),
        major_faults: None,
        voluntary_switches: Some(1),
        involuntary_switches: Some(0),
        group_s: Vec::new(),
        counters: Vec::new(),
        counter_cost: None,
        unattributed_bytes: Some(0),
        pause_insert_us: 800.0,
        pause_remove_us: Some(700.0),
        probe_hits: 120,
    }
}
