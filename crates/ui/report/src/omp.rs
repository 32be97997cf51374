//! Parallel regions of OpenMP, and the factors of ranks and threads together, as both pages tell them.
//!
//! Next: `terminal.rs` and `html/tables.rs`, which lay it out.

use crate::clean::clean;
use crate::units::{NOT_MEASURED, count, counted, percent, time};
use trimtab_types::report::{CallFrame, FunctionGroup, HybridEfficiencies, Omp, ParallelRegion, Report};

/// Name of the group of functions that are measured for them.
pub(crate) const GROUP: FunctionGroup = FunctionGroup::Omp;

/// Rows in a terminal, longest time first; all are in the JSON.
pub(crate) const REGIONS_SHOWN_MAX: usize = 12;

/// Columns that are left out where all regions have nothing to tell in them.
const RARE: [&str; 3] = ["MPI", "locks", "tasks"];

/// Titles of the columns, with how readily a narrow page leaves each out. From "work" on, shares of the threads' time.
const COLUMNS: [(&str, u8); 12] = [
    ("region", 0),
    ("passes", 1),
    ("time", 0),
    ("share", 0),
    ("threads", 2),
    ("work", 0),
    ("MPI", 5),
    ("barriers", 3),
    ("locks", 4),
    ("tasks", 6),
    ("ends", 3),
    ("imbalance", 0),
];

/// Positions of the columns that are shown.
fn shown_columns(omp: &Omp) -> Vec<usize> {
    let rows: Vec<_> = omp.regions.iter().map(cells).collect();
    let tells = |column: &usize| {
        !RARE.contains(&COLUMNS[*column].0) || rows.iter().any(|row| row[*column].1.is_some_and(|number| number > 0.0))
    };
    (0..COLUMNS.len()).filter(tells).collect()
}

/// Titles of the columns that are shown, with how readily a narrow page leaves each out.
pub(crate) fn columns(omp: &Omp) -> Vec<(&'static str, u8)> {
    shown_columns(omp).into_iter().map(|column| COLUMNS[column]).collect()
}

/// One row for each region: what is shown under each of these titles, with the number it stands for.
pub(crate) fn rows(omp: &Omp) -> Vec<Vec<(String, Option<f64>)>> {
    let columns = shown_columns(omp);
    let row = |region: &ParallelRegion| {
        let cells = cells(region);
        columns.iter().map(|column| cells[*column].clone()).collect()
    };
    omp.regions.iter().map(row).collect()
}

/// One row: what is shown under each title, with the number it stands for.
fn cells(region: &ParallelRegion) -> [(String, Option<f64>); COLUMNS.len()] {
    let maybe = |value: Option<f64>, shown: fn(f64) -> String| {
        (value.map_or("-".to_string(), shown), Some(value.unwrap_or(-1.0)))
    };
    let whole = region.thread_time_s.filter(|whole| *whole > 0.0);
    let share = |part: Option<f64>| maybe(part.zip(whole).map(|(part, whole)| part / whole), percent);
    let threads = match (region.threads_min, region.threads_max) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (_, Some(most)) => most.to_string(),
        _ => "-".to_owned(),
    };
    [
        (place(region), None),
        (count(region.passes), Some(region.passes as f64)),
        (time(region.time_s), Some(region.time_s)),
        maybe(region.fraction, percent),
        (threads, Some(region.threads_max.map_or(-1.0, |threads| threads as f64))),
        share(region.work_s),
        share(region.communication_s),
        share(region.barrier_s),
        share(region.lock_s),
        share(region.task_s),
        share(region.ends_s),
        maybe(region.imbalance, percent),
    ]
}

/// `solver.c:214 in solve`: where a page is narrow, the end is left out. Without a line the compiler's name for it.
fn place(region: &ParallelRegion) -> String {
    match &region.place {
        Some(CallFrame { line: Some(line), function, .. }) => clean(&format!("{line} in {function}")),
        Some(place) => clean(&format!("{} ({})", region.function, place.place())),
        None => clean(&region.function),
    }
}

/// Lines below the table.
pub(crate) fn notes(omp: &Omp) -> Vec<String> {
    let mut lines = vec![
        "work and what follows are shares of the threads' time: in MPI, in barriers and waits for locks and tasks, and at the \
         ends of regions, until all have begun and the last has ended"
            .to_owned(),
    ];
    if omp.regions.is_empty() {
        lines = vec!["no region ran".to_owned()];
    }
    if let Some(more) = omp.regions.get(REGIONS_SHOWN_MAX..).filter(|more| !more.is_empty()) {
        let time_s: f64 = more.iter().map(|region| region.time_s).sum();
        lines.push(format!("and {}: {}", counted(more.len() as u64, "more region"), time(time_s)));
    }
    let mut missing: Vec<&str> = omp.regions.iter().filter_map(|region| region.missing.as_deref()).collect();
    missing.sort_unstable();
    missing.dedup();
    lines.extend(missing.into_iter().map(|why| format!("-: {}", clean(why))));
    if omp.unseen_s > 0.0 {
        lines.push(format!("{} in regions of which it was not seen what threads did", time(omp.unseen_s)));
    }
    if omp.nested > 0 {
        lines.push(format!("{} inside of others are part of these", counted(omp.nested, "region")));
    }
    lines
}

/// The factors of ranks and threads together; `None`: regions were not measured.
pub(crate) fn hybrid(report: &Report) -> Option<String> {
    let omp = report.omp.as_ref()?;
    Some(match &omp.hybrid {
        Some(found) => factors(found),
        None => format!("{NOT_MEASURED}: {}", clean(omp.hybrid_missing.as_deref().unwrap_or("no region ran"))),
    })
}

fn factors(found: &HybridEfficiencies) -> String {
    let part = |name: &str, of: f64| format!("{name} {}", percent(of));
    let mpi = [part("load balance", found.mpi_load_balance), part("communication", found.mpi_communication)];
    let omp = [
        part("load balance", found.omp_load_balance),
        part("scheduling", found.omp_scheduling),
        part("serialisation", found.omp_serialisation),
    ];
    let first = found.work_on_first.map(|factor| format!("; improve {factor} first"));
    let region = found.region_first.as_ref().map(|region| format!(", most in {}", clean(region)));
    format!(
        "{} = MPI {} ({}) x OpenMP {} ({}){}{}",
        percent(found.parallel),
        percent(found.mpi),
        mpi.join(" x "),
        percent(found.omp),
        omp.join(" x "),
        first.unwrap_or_default(),
        region.unwrap_or_default()
    )
}
