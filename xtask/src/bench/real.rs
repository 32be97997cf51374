//! Programs of others that do real work: windows beside what the programs say of themselves, and their results beside
//! those of runs that nobody disturbed.
//!
//! LAMMPS prints which part of its run was communication, and NetPIPE the time of a message. HPCC goes through a dozen
//! kernels one after another, some without any loop; it is measured again and again until it ends.
//!
//! Next: `truth` for the same question, exactly, on programs of our own.

use super::attach::{Bench, RANK_COUNT};
use super::row::{Row, Verdict};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_specimens::{Finished, Launch, Mpi};
use trimtab_types::report::Report;

/// Windows of LAMMPS and NetPIPE, each on a run of its own.
const ROUNDS: usize = 3;
/// Longest time for a run; it hangs if it takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// The size that all kernels of HPCC follow: its run takes about a minute.
const HPCC_SIZE: &str = "3000        Ns";
/// Between two windows of HPCC, and so many windows at most.
const BETWEEN: Duration = Duration::from_millis(200);
const HPCC_WINDOWS_MAX: usize = 60;
/// Steps of LAMMPS: some 30 s, so that start and end of the program are a small part.
const LAMMPS_STEPS: u32 = 2200;
/// Passes of its loop around the steps, some 20 steps each.
const LAMMPS_ITERATIONS: &str = "20";
/// Bytes of a message of NetPIPE, of which each takes some 20 us, and how often it is sent back and forth.
const NETPIPE_BYTES: &str = "131072";
const NETPIPE_REPEATS: &str = "100000";
const NETPIPE_ITERATIONS: &str = "4000";

/// The rows about one program.
type Part = fn(&Bench) -> Result<Vec<Row>>;

/// The rows about programs of others.
pub fn rows(bench: &Bench) -> Vec<Row> {
    let parts: [(&str, Part); 3] =
        [("LAMMPS, Open MPI", lammps), ("NetPIPE, MPICH", netpipe), ("HPCC, Open MPI", hpcc)];
    let mut rows = Vec::new();
    let is_wanted = |name: &str| bench.programs.is_empty() || bench.programs.iter().any(|one| name.starts_with(one));
    for (name, part) in parts.into_iter().filter(|(name, _)| is_wanted(name)) {
        eprintln!("  a program of others: {name}");
        rows.extend(part(bench).unwrap_or_else(|error| {
            let failed = Row::skipped(format!("{name}: a run failed"), format!("{error:#}"));
            vec![Row { verdict: Verdict::Missed, ..failed }]
        }));
    }
    rows
}

/// A folder of this program, in which a launcher starts it.
fn folder(bench: &Bench, name: &str) -> Result<PathBuf> {
    let folder = bench.folder.join(name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Runs it to its end, and fails if it fails.
fn finished(ended: Finished, name: &str) -> Result<Finished> {
    ensure!(ended.status.success(), "{name} ended with {}: {}", ended.status, ended.stderr.trim());
    Ok(ended)
}

fn lammps(bench: &Bench) -> Result<Vec<Row>> {
    let folder = folder(bench, "lammps")?;
    let input = folder.join("in.melt");
    let text = include_str!("../../../testing/torture/programs/in.melt");
    let text = text.replace("0 12 0 12 0 12", "0 20 0 20 0 20").replace("run 400", &format!("run {LAMMPS_STEPS}"));
    std::fs::write(&input, text).context("cannot write the input of LAMMPS")?;
    let launch = Launch::polling(Mpi::OpenMpi, RANK_COUNT, Path::new("/usr/bin/lmp")).args(["-log", "none", "-in"]);
    let launch = launch.args([&input]).folder(&folder);
    let undisturbed = thermodynamics(&finished(launch.run(RUN_LIMIT)?, "LAMMPS")?.stdout);
    ensure!(!undisturbed.is_empty(), "LAMMPS printed no step");
    let (mut windows, mut same) = (Vec::new(), 0);
    for round in 0..bench.rounds(ROUNDS, 1) {
        let job = bench.start(&launch).context("before a window")?;
        std::thread::sleep(Duration::from_secs(round as u64));
        let report =
            bench.attach(&job, &["--iterations", LAMMPS_ITERATIONS], &bench.folder.join("cache-lammps"))?.report;
        job.check_untouched().context("after a window")?;
        let ended = finished(job.running.wait(RUN_LIMIT)?, "LAMMPS")?;
        same += usize::from(thermodynamics(&ended.stdout) == undisturbed);
        windows.push((report, own_share(&ended.stdout).context("LAMMPS printed no share of communication")?));
    }
    Ok(vec![outcome_row("LAMMPS, Open MPI", same, windows.len()), share_row(&windows)])
}

/// Windows of LAMMPS beside what each of its runs said of itself.
fn share_row(windows: &[(Report, f64)]) -> Row {
    let one = |(report, said): &(Report, f64)| {
        let share = report.communication_fraction?;
        let half_width = share.half_width_95.unwrap_or(0.0);
        Some(format!("{:.1} ± {:.1}% ({:.1})", share.mean * 100.0, half_width * 100.0, said * 100.0))
    };
    let words: Vec<String> = windows.iter().filter_map(one).collect();
    let figure = |(report, said): &(Report, f64)| {
        json!({ "said": said, "share": report.communication_fraction, "iteration_s": report.time_per_iteration_s,
                "loop": report.window.loop_description, "waits": report.wait_states })
    };
    Row {
        what: "share of communication of a window (LAMMPS itself of the whole run, packing included), Open MPI".into(),
        measured: words.join(", "),
        bar: String::new(),
        verdict: if words.is_empty() { Verdict::Missed } else { Verdict::NoBar },
        figures: Value::Array(windows.iter().map(figure).collect()),
    }
}

/// The lines of steps, which are the same in every run of two ranks.
fn thermodynamics(output: &str) -> Vec<String> {
    let lines = output.lines().skip_while(|line| !line.trim_start().starts_with("Step")).skip(1);
    lines.take_while(|line| !line.starts_with("Loop time")).map(str::to_owned).collect()
}

/// "Comm    | 2.5703     | 2.6328     | 2.6953     |   3.9 |  9.14", the last of which is percent of its time.
fn own_share(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("Comm "))?;
    Some(line.rsplit('|').next()?.trim().parse::<f64>().ok()? / 100.0)
}

fn netpipe(bench: &Bench) -> Result<Vec<Row>> {
    let folder = folder(bench, "netpipe")?;
    let launch = Launch::polling(Mpi::Mpich, RANK_COUNT, Path::new("/usr/bin/NPmpich2")).folder(&folder);
    let launch = launch.args(["-l", NETPIPE_BYTES, "-u", NETPIPE_BYTES, "-n", NETPIPE_REPEATS, "-o", "np.out"]);
    let (mut pairs, mut same) = (Vec::new(), 0);
    for round in 0..bench.rounds(ROUNDS, 1) {
        let job = bench.start(&launch).context("before a window")?;
        std::thread::sleep(Duration::from_millis(300 * round as u64));
        let attached =
            bench.attach(&job, &["--iterations", NETPIPE_ITERATIONS], &bench.folder.join("cache-netpipe"))?;
        job.check_untouched().context("after a window")?;
        let ended = finished(job.running.wait(RUN_LIMIT)?, "NetPIPE")?;
        // The first size lasts longer than the window.
        let said = message_times_us(&(ended.stderr.clone() + &ended.stdout));
        same += usize::from(said.len() == 3);
        let own_us = said.first().copied().context("NetPIPE printed no time")?;
        let time = attached.report.time_per_iteration_s.context("NetPIPE's loop was not found")?;
        pairs.push((time.mean / 2.0 * 1e6, own_us));
    }
    let ratios: Vec<f64> = pairs.iter().map(|(measured, own)| measured / own).collect();
    let row =
        Row::no_bar("half an iteration over NetPIPE's own time of a message of 131,072 bytes, MPICH", "x", &ratios);
    let figures = json!({ "half_iteration_us_and_own_us": pairs, "ratios": ratios });
    Ok(vec![outcome_row("NetPIPE, MPICH", same, pairs.len()), Row { figures, ..row }])
}

/// "  1:  131072 bytes   1913 times -->   39197.57 Mbps in      25.51 usec".
fn message_times_us(output: &str) -> Vec<f64> {
    let time = |line: &str| line.trim_end().strip_suffix("usec")?.rsplit(" in ").next()?.trim().parse().ok();
    output.lines().filter_map(time).collect()
}

fn hpcc(bench: &Bench) -> Result<Vec<Row>> {
    let folder = folder(bench, "hpcc")?;
    let text = include_str!("../../../testing/torture/programs/hpccinf.txt").replace("500         Ns", HPCC_SIZE);
    std::fs::write(folder.join("hpccinf.txt"), text).context("cannot write the input of HPCC")?;
    let launch = Launch::polling(Mpi::OpenMpi, RANK_COUNT, Path::new("/usr/bin/hpcc")).folder(&folder);
    let results = folder.join("hpccoutf.txt");
    let verdicts = |ended: Finished| -> Result<Vec<String>> {
        finished(ended, "HPCC")?;
        let text = std::fs::read_to_string(&results).context("HPCC wrote no results")?;
        std::fs::remove_file(&results).context("cannot remove the results")?;
        let mut found: Vec<String> = text.lines().filter(|line| is_verdict(line)).map(str::to_owned).collect();
        // PTRANS repeats itself until its times agree.
        found.dedup();
        Ok(found)
    };
    let undisturbed = verdicts(launch.run(RUN_LIMIT)?)?;
    let mut job = bench.start(&launch).context("before a window")?;
    let mut reports = Vec::new();
    let options = ["--max-seconds", "6"];
    while job.running.poll()?.is_none() && reports.len() < HPCC_WINDOWS_MAX {
        match bench.attach(&job, &options, &bench.folder.join("cache-hpcc")) {
            Ok(attached) => reports.push(attached.report),
            // It ended while it was looked at.
            Err(error) if job.running.poll()?.is_none() => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(BETWEEN);
    }
    if job.running.poll()?.is_none() {
        job.check_untouched().context("after a window")?;
    }
    let same = verdicts(job.running.wait(RUN_LIMIT)?)? == undisturbed;
    ensure!(undisturbed.iter().any(|line| line == "Success=1"), "HPCC did not succeed: {undisturbed:?}");
    Ok(vec![outcome_row("HPCC, Open MPI", usize::from(same), 1), kernels_row(&reports)])
}

/// True for a line that does not depend on how fast it was.
fn is_verdict(line: &str) -> bool {
    let is_result = ["Success=", "HPL_N=", "MPIRandomAccess_N=", "MPIRandomAccess_Errors=", "MPIFFT_N="];
    is_result.iter().any(|start| line.starts_with(start)) || line.contains("FAILED") || line.contains("_Failure=")
}

fn kernels_row(reports: &[Report]) -> Row {
    let by_time = reports.iter().filter(|report| report.window.marker.is_none()).count();
    let invalid = reports.iter().filter(|report| !report.window.valid).count();
    let costly = reports.iter().filter(|report| report.cost.fraction.is_some_and(|cost| cost > 0.02)).count();
    let one = |report: &Report| {
        json!({ "marker": report.window.marker, "valid": report.window.valid, "ended_by": report.window.ended_by,
                "share": report.communication_fraction, "iteration_s": report.time_per_iteration_s, "cost": report.cost,
                "longest": report.functions.first().map(|function| &function.name), "warnings": report.warnings })
    };
    Row {
        what: "windows one after another through a run: HPCC, Open MPI".into(),
        measured: format!(
            "{} windows: {} by iterations, {by_time} by time; {invalid} invalid; {costly} with a warning that measuring \
             cost more than 2%",
            reports.len(),
            reports.len() - by_time
        ),
        bar: String::new(),
        verdict: if reports.is_empty() { Verdict::Missed } else { Verdict::NoBar },
        figures: Value::Array(reports.iter().map(one).collect()),
    }
}

fn outcome_row(name: &str, same: usize, runs: usize) -> Row {
    Row {
        what: format!("exit status and results of a measured run: {name}"),
        measured: format!("{same} of {runs} as undisturbed"),
        bar: "all; text bytes identical after every window".into(),
        verdict: Verdict::of(runs > 0 && same == runs),
        figures: json!({ "same": same, "runs": runs }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_of_themselves_is_read() {
        let lammps = "Step Temp\n  0 3.0\n 50 1.5\nLoop time of 2 on 2 procs\n\
                      Neigh   | 3.5815 | 3.6716 | 3.7616 |   4.7 | 13.40\nComm    | 1.8 | 3.0 | 4.3 |  71.5 | 11.24\n";
        assert_eq!(thermodynamics(lammps), ["  0 3.0", " 50 1.5"]);
        assert!(own_share(lammps).is_some_and(|share| (share - 0.1124).abs() < 1e-9));
        let netpipe = "  0:  131069 bytes  1553 times -->  38268.28 Mbps in   26.13 usec\nnothing\n";
        assert_eq!(message_times_us(netpipe), [26.13]);
        assert!(is_verdict("MPIRandomAccess_Errors=0") && !is_verdict("MPIRandomAccess_GUPs=0.01"));
    }
}
