//! A job of a real Slurm on 16 nodes with 32 ranks: how soon its first iteration is recorded, and where its ranks begin.
//!
//! The nodes are namespaces of this machine, so all ranks and agents share its processors: a cluster is faster.
//!
//! Next: `trimtab-testbed` for the nodes, `truth` for what a window says.

use super::attach::Bench;
use super::row::{Row, Verdict};
use super::truth::said_start;
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_specimens::{Mark, Mpi, Variant, build, has_worked, running};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::Report;

const NODES: usize = 16;
const RANKS_PER_NODE: u32 = 2;
/// Command to first recorded iteration.
const FIRST_RECORD_S_BAR: f64 = 2.0;
/// The same over that of an earlier build, which `--before` names; and turns in each round.
const OVER_BEFORE_BAR: f64 = 1.1;
const TURNS: usize = 3;
const ROUNDS: usize = 5;
/// Has each rank's calls of the function that counts its iterations written down, with their numbers.
const TELLS_START: [&str; 4] = ["--detail", "2", "--function", "measuremark*"];
/// Tries to start the job.
const STARTS_MAX: usize = 4;
const LIMIT: Duration = Duration::from_secs(120);

/// One row per figure.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let what = format!("attach to a Slurm job of {NODES} nodes and {} ranks", NODES as u32 * RANKS_PER_NODE);
    if let Some(lack) = Slurm::lack() {
        return Ok(vec![Row::skipped(what, lack.0)]);
    }
    let testbed = Testbed::up(&bench.folder, NODES)?;
    let slurm = Slurm::start(&testbed, RANKS_PER_NODE)?;
    let mut job = Job::started(&slurm, &bench.folder.join("srun.err"))?;
    let binary = bench.binary("trimtab").canonicalize()?;
    let before = bench.before.as_ref().map(|path| path.canonicalize()).transpose().context("no earlier trimtab")?;
    let (mut plain, mut reports, mut over_before) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds(ROUNDS, 1) {
        plain.push(job.window((&binary, &slurm), &testbed, &[])?);
        reports.push(job.window((&binary, &slurm), &testbed, &TELLS_START)?);
        if let Some(before) = &before {
            over_before.extend(job.over_before((&binary, before), &slurm, &testbed)?);
        }
    }
    let first_s: Vec<f64> = plain.iter().filter_map(|report| report.cost.first_record_s).collect();
    let first = format!("{what}: command to first recorded iteration");
    let mut rows = vec![Row::at_most(first, "s", &first_s, FIRST_RECORD_S_BAR), start_row(&what, &reports)];
    if before.is_some() {
        let what = format!("{what}: command to first recorded iteration, beside the earlier build, in turns");
        rows.push(Row::median_at_most(what, "times", &over_before, OVER_BEFORE_BAR));
    }
    Ok(rows)
}

fn start_row(what: &str, reports: &[Report]) -> Row {
    let ranks = NODES as u32 * RANKS_PER_NODE;
    let starts = |report: &Report| (0..ranks).map(|rank| said_start(report, rank)).collect::<Vec<_>>();
    let starts: Vec<Vec<Option<u32>>> = reports.iter().map(starts).collect();
    let is_one = |starts: &&Vec<Option<u32>>| starts[0].is_some() && starts.iter().all(|start| *start == starts[0]);
    let alike = starts.iter().filter(is_one).count();
    let invalid = reports.iter().filter(|report| !report.window.valid).count();
    Row {
        what: format!("{what}: spread of window start over ranks"),
        measured: format!("in {alike} of {} windows all ranks began at one iteration; {invalid} invalid", starts.len()),
        bar: "0 iterations".into(),
        verdict: Verdict::of(alike == starts.len() && invalid == 0),
        figures: json!({ "starts": starts }),
    }
}

/// A job that runs; what waits for it here ends with this.
struct Job {
    id: String,
    srun: Child,
}

impl Job {
    /// Open MPI's TCP transport now and then ends ranks that connect late, as they do where 32 begin on two processors.
    fn started(slurm: &Slurm<'_>, errors: &Path) -> Result<Self> {
        let mut tries = 1;
        loop {
            match Job::start(slurm, errors) {
                Err(error) if tries < STARTS_MAX => {
                    eprintln!("bench: the job is started again: {error:#}");
                    tries += 1;
                }
                started => return started,
            }
        }
    }

    /// srun's messages about its failures go to `errors`.
    fn start(slurm: &Slurm<'_>, errors: &Path) -> Result<Self> {
        let program = build("particle", Some(Mpi::OpenMpi), &Variant { mark: Mark::Local, ..Variant::default() })?;
        let program = program.canonicalize()?;
        let mut srun = slurm.command("srun");
        srun.arg(format!("-N{NODES}")).arg(format!("--ntasks-per-node={RANKS_PER_NODE}")).arg("--mpi=pmix");
        srun.arg(&program).args(["--mark", "--size", "256", "--particles", "20000", "--iterations", "100000000"]);
        for (variable, value) in [
            ("OMPI_MCA_pml", "ob1"),
            // Between ranks of one node, too: its shared memory fails now and then where 32 ranks begin on two processors.
            ("OMPI_MCA_btl", "tcp,self"),
            ("OMPI_MCA_btl_tcp_if_include", "10.77.0.0/24"),
            ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ] {
            srun.env(variable, value);
        }
        let file = File::create(errors).context("cannot create the file for what srun says")?;
        let srun = srun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        let mut job = Job { id: String::new(), srun: srun.context("cannot start srun")? };
        let until = Instant::now() + LIMIT;
        while running(&program).into_iter().filter(|pid| has_worked(*pid)).count() < NODES * RANKS_PER_NODE as usize {
            if !matches!(job.srun.try_wait(), Ok(None)) {
                bail!("srun has ended: {}", std::fs::read_to_string(errors).unwrap_or_default().trim());
            }
            ensure!(Instant::now() < until, "the job does not come to work");
            std::thread::sleep(Duration::from_millis(100));
        }
        let said = slurm.command("squeue").args(["--noheader", "--format=%i"]).output()?;
        job.id = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        Ok(job)
    }

    /// How much longer the first iteration takes than with an earlier build: each between two windows of the other.
    fn over_before(
        &mut self,
        (binary, before): (&Path, &Path),
        slurm: &Slurm<'_>,
        testbed: &Testbed,
    ) -> Result<Vec<f64>> {
        let mut first_s = |binary: &Path| -> Result<f64> {
            let report = self.window((binary, slurm), testbed, &[])?;
            report.cost.first_record_s.context("a window has no first record")
        };
        // The first window of a build fills its cache.
        first_s(before)?;
        let mut ratios = Vec::new();
        for _ in 0..TURNS {
            let (one, now, other) = (first_s(before)?, first_s(binary)?, first_s(before)?);
            ratios.push(2.0 * now / (one + other));
        }
        Ok(ratios)
    }

    /// One window, from the head, as a user would have it, or with more options.
    fn window(&mut self, (binary, slurm): (&Path, &Slurm<'_>), testbed: &Testbed, options: &[&str]) -> Result<Report> {
        let mut trimtab: Command = slurm.command(&binary.to_string_lossy());
        trimtab.args(["attach", "--slurm", &self.id, "--iterations", "10", "--json", "-", "--max-seconds", "30"]);
        trimtab.args(options);
        // Each build has a store of its own: an earlier one does not read that of a later one.
        let home = testbed.folder().join(binary.to_string_lossy().replace('/', "-"));
        for (variable, folder) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")]
        {
            trimtab.env(variable, home.join(folder));
        }
        let output = trimtab.output().context("cannot start trimtab")?;
        if output.stdout.is_empty() {
            bail!("no report: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ended = self.srun.kill();
        let _reaped = self.srun.wait();
    }
}
