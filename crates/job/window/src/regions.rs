//! Parallel regions of OpenMP, and POP's factors of hybrid programs.
//!
//! All threads' time is divided as TALP divides it: useful, in MPI, idle while another thread of the rank is in MPI, waiting
//! in a region for the thread that works longest there (imbalance), in regions beyond that (scheduling), and idle while one
//! thread works alone (serialisation). The factors multiply to the whole, as POP wants them to: unlike TALP's, those of
//! OpenMP are of the time outside of MPI. docs/report.md has both formulas.
//!
//! Next: `efficiency` for the factors of ranks alone; `trimtab-stub`'s `teams`, which counts.

use crate::efficiency::NoFactors;
use crate::input::{RankSample, RegionSample, TeamSample, Untimed, WindowInput};
use std::collections::BTreeMap;
use trimtab_types::report::{
    CallFrame, Efficiencies, FunctionGroup, HybridEfficiencies, HybridFactor, Omp, ParallelRegion, RankTotal,
};

/// From this on a factor costs so little that nobody need work on it.
const GOOD: f64 = 0.95;
/// Share of a rank's time in regions that were not seen from which on the factors would be wrong.
const UNSEEN_SHARE_MAX: f64 = 0.01;
/// Threads of a process whose parts are told apart.
const THREADS_MAX: u64 = 256;
/// Name of the group.
const GROUP: FunctionGroup = FunctionGroup::Omp;

/// Why a window has no factors of a hybrid program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum NoHybrid {
    #[error(transparent)]
    NoFactors(NoFactors),
    #[error("regions of some ranks were not measured")]
    SomeRanks,
    #[error("rank {rank}: {why}")]
    OfRank { rank: u32, why: Unseen },
    #[error("no thread worked in it")]
    NoWork,
    #[error("no rank ran a region with more than one thread")]
    NoThreads,
}

/// Why it is not known what threads did on a rank, or in a region.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Unseen {
    #[error("{0} regions began while another thread had one run: whose threads are whose is not known")]
    Mixed(u64),
    #[error("where regions or waits ended was not seen, {0} times: an exception or a jump left them")]
    Lost(u64),
    #[error("more than {THREADS_MAX} threads took part in regions")]
    ManyThreads,
    #[error("regions are begun by another thread than the one that calls MPI")]
    OtherThread,
    #[error(
        "what threads did was not seen in regions that take {:.1}% of its time, because their functions are not measured, or \
         because they began before the window or ended after it",
        .0 * 100.0
    )]
    Regions(f64),
    #[error("threads were in a region since before the window began")]
    InsideBefore,
    #[error("what its threads did was not seen, because its function is not measured")]
    NotMeasured,
    #[error("{function}: {reason}")]
    Gap { function: String, reason: String },
}

/// The parallel regions of a window; `None`: they were not measured.
pub(crate) fn omp(
    input: &WindowInput,
    ranks: &[RankTotal],
    efficiencies: &Result<Efficiencies, NoFactors>,
) -> Option<Omp> {
    let teams: Vec<(&RankSample, &TeamSample)> =
        input.ranks.iter().filter_map(|rank| Some((rank, rank.team.as_ref()?))).collect();
    if teams.is_empty() {
        return None;
    }
    let seconds = |ticks: u64| if input.ticks_per_second > 0.0 { ticks as f64 / input.ticks_per_second } else { 0.0 };
    let regions = regions(input, &teams, &seconds);
    let threads: u64 = teams.iter().map(|(_, team)| team.threads()).sum();
    let times: Result<Vec<Times>, NoHybrid> = match efficiencies {
        Err(why) => Err(NoHybrid::NoFactors(why.clone())),
        Ok(_) if teams.len() < ranks.len() => Err(NoHybrid::SomeRanks),
        Ok(_) => teams.iter().map(|(rank, team)| Times::of(input, rank, team, &seconds)).collect(),
    };
    let serial_s = times.as_ref().ok().map(|times| times.iter().map(|times| times.serial).sum());
    let hybrid = times.and_then(|times| hybrid(&times, &regions));
    Some(Omp {
        threads: (threads > 0).then_some(threads),
        serial_s,
        unseen_s: teams.iter().map(|(_, team)| seconds(team.unseen_ticks)).sum(),
        nested: teams.iter().map(|(_, team)| team.nested).sum(),
        hybrid_missing: hybrid.as_ref().err().map(ToString::to_string),
        hybrid: hybrid.ok(),
        regions,
    })
}

impl TeamSample {
    /// All that is a time.
    pub(crate) fn spans(&mut self) -> Vec<&mut u64> {
        let of_regions = self.regions.iter_mut().flat_map(|region| {
            [
                &mut region.ticks,
                &mut region.thread_ticks,
                &mut region.longest_ticks,
                &mut region.busy,
                &mut region.comm,
                &mut region.comm_of_master,
                &mut region.barrier,
                &mut region.lock,
                &mut region.task,
                &mut region.own_busy_max,
            ]
        });
        of_regions.chain([&mut self.unseen_ticks]).collect()
    }

    /// Threads of the largest team; 0: none was seen.
    fn threads(&self) -> u64 {
        self.regions.iter().map(|region| region.threads_max).max().unwrap_or(0)
    }

    /// Why what threads did is not known; `None`: it is.
    fn why_not(&self) -> Option<Unseen> {
        match () {
            () if self.mixed > 0 => Some(Unseen::Mixed(self.mixed)),
            () if self.lost > 0 => Some(Unseen::Lost(self.lost)),
            () if self.threads_met > THREADS_MAX => Some(Unseen::ManyThreads),
            () => None,
        }
    }
}

/// Functions of regions of which not all calls are known on this rank, with the reasons.
fn gaps(input: &WindowInput, rank: &RankSample) -> BTreeMap<usize, Unseen> {
    let is_called = |number: usize| rank.functions.iter().any(|sample| sample.function == number);
    let unseen = rank.unseen.iter();
    let untimed = rank.untimed.iter().filter(|one| is_called(one.function));
    let of_group = unseen.chain(untimed).filter(|one| input.functions[one.function].group == GROUP);
    let gap = |one: &Untimed| {
        let function = input.functions[one.function].name.clone();
        (one.function, Unseen::Gap { function, reason: one.reason.clone() })
    };
    of_group.map(gap).collect()
}

/// Sums of one region over ranks.
#[derive(Default)]
struct Row<'a> {
    ranks: Vec<(&'a RankSample, &'a RegionSample)>,
    missing: Option<Unseen>,
}

fn regions(
    input: &WindowInput,
    teams: &[(&RankSample, &TeamSample)],
    seconds: &impl Fn(u64) -> f64,
) -> Vec<ParallelRegion> {
    let mut rows: BTreeMap<usize, Row<'_>> = BTreeMap::new();
    for (rank, team) in teams {
        let gaps = gaps(input, rank);
        let is_own_body = |function: usize| team.regions.iter().any(|region| region.function == function);
        // A wait that is not measured counts as work, wherever it lies.
        let of_waits = gaps.iter().find(|(function, _)| !is_own_body(**function)).map(|(_, why)| why.clone());
        for region in &team.regions {
            let unseen = (region.threads_max == 0).then_some(Unseen::NotMeasured);
            // Functions whose ends are not seen explain what else was not.
            let own = gaps.get(&region.function).cloned().or(of_waits.clone());
            let why = own.or_else(|| team.why_not()).or(unseen);
            let row = rows.entry(region.function).or_default();
            row.ranks.push((rank, region));
            row.missing = row.missing.take().or(why);
        }
    }
    let mut regions: Vec<ParallelRegion> =
        rows.iter().map(|(function, row)| row.region(&input.functions[*function].name, input, seconds)).collect();
    regions.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.function.cmp(&b.function)));
    regions
}

impl Row<'_> {
    fn region(&self, function: &str, input: &WindowInput, seconds: &impl Fn(u64) -> f64) -> ParallelRegion {
        let sum = |part: fn(&RegionSample) -> u64| self.ranks.iter().map(|(_, region)| part(region)).sum::<u64>();
        let known = |ticks: u64| self.missing.is_none().then(|| seconds(ticks));
        let (busy, thread_ticks) = (sum(|region| region.busy), sum(|region| region.thread_ticks));
        let waits = sum(|region| region.barrier + region.lock + region.task);
        let ratio = |above: u64, below: u64| (self.missing.is_none() && below > 0).then(|| above as f64 / below as f64);
        let ticks = sum(|region| region.ticks);
        let recorded: u64 = self.ranks.iter().map(|(rank, _)| rank.duration_ticks()).sum();
        let threads = self.ranks.iter().map(|(_, region)| region.threads_min).min().filter(|threads| *threads > 0);
        ParallelRegion {
            place: self.place(input),
            function: function.to_owned(),
            ranks: self.ranks.len() as u32,
            passes: sum(|region| region.passes),
            time_s: seconds(ticks),
            fraction: (recorded > 0).then(|| ticks as f64 / recorded as f64),
            threads_min: threads.filter(|_| self.missing.is_none()),
            threads_max: self
                .ranks
                .iter()
                .map(|(_, region)| region.threads_max)
                .max()
                .filter(|most| *most > 0 && self.missing.is_none()),
            thread_time_s: known(thread_ticks),
            work_s: known(busy.saturating_sub(sum(|region| region.comm))),
            communication_s: known(sum(|region| region.comm)),
            barrier_s: known(sum(|region| region.barrier)),
            lock_s: known(sum(|region| region.lock)),
            task_s: known(sum(|region| region.task)),
            ends_s: known(thread_ticks.saturating_sub(busy + waits)),
            imbalance: ratio(sum(|region| region.longest_ticks), busy).map(|ratio| (ratio - 1.0).max(0.0)),
            imbalance_of_sums: self.imbalance_of_sums(),
            efficiency: ratio(busy, thread_ticks),
            missing: self.missing.as_ref().map(ToString::to_string),
        }
    }

    fn place(&self, input: &WindowInput) -> Option<CallFrame> {
        let path = self.ranks.first()?.1.path;
        let named = input.named_paths.iter().find(|named| named.path == path)?;
        let own = named.frames.iter().find(|frame| frame.own);
        let found = own.or(named.frames.first())?;
        Some(CallFrame { function: without_suffix(&found.function).to_owned(), ..found.clone() })
    }

    fn imbalance_of_sums(&self) -> Option<f64> {
        let of = |region: &RegionSample| {
            let mean = region.busy as f64 / f64::from(region.own_threads);
            (region.busy > 0 && region.own_threads > 0).then(|| (region.own_busy_max as f64 / mean - 1.0).max(0.0))
        };
        let all = self.ranks.iter().filter_map(|(_, region)| of(region));
        all.max_by(f64::total_cmp).filter(|_| self.missing.is_none())
    }
}

/// The name of the function that a region was written in, of that which a compiler made of it: gcc's `solve::solve._omp_fn.0`, in C++
/// `Grid::solve() [clone ._omp_fn.0]`, in Fortran `grid::solve::__grid_MOD_solve._omp_fn.0` or
/// `solve::solve_._omp_fn.0`.
fn without_suffix(name: &str) -> &str {
    let end = name.find("._omp_fn.").unwrap_or(name.len());
    let name = name[..end].trim_end_matches("[clone ").trim_end();
    match name.rsplit_once("::") {
        Some((scope, symbol)) if symbol.contains("_MOD_") || is_symbol_of(symbol, scope) => scope,
        _ => name,
    }
}

/// True if a symbol is that of the function whose name is the end of the scope; gfortran adds an underscore.
fn is_symbol_of(symbol: &str, scope: &str) -> bool {
    let function = scope.rsplit("::").next().unwrap_or(scope);
    symbol == "MAIN__" || symbol == function || symbol.strip_suffix('_') == Some(function)
}

/// One rank's threads' time, seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    threads: f64,
    duration: f64,
    serial: f64,
    useful: f64,
    mpi: f64,
    idle_in_mpi: f64,
    imbalance: f64,
    scheduling: f64,
    serialisation: f64,
}

impl Times {
    fn of(
        input: &WindowInput,
        rank: &RankSample,
        team: &TeamSample,
        seconds: &impl Fn(u64) -> f64,
    ) -> Result<Self, NoHybrid> {
        if let Some(why) = why_unknown(input, rank, team) {
            return Err(NoHybrid::OfRank { rank: rank.rank, why });
        }
        let seen = team.regions.iter().filter(|region| region.threads_max > 0);
        let sum = |part: fn(&RegionSample) -> u64| seconds(seen.clone().map(part).sum());
        let (inside, thread_time) = (sum(|region| region.ticks), sum(|region| region.thread_ticks));
        let (busy, longest) = (sum(|region| region.busy), sum(|region| region.longest_ticks));
        let (comm, comm_of_master) = (sum(|region| region.comm), sum(|region| region.comm_of_master));
        let (threads, duration) = (team.threads().max(1) as f64, seconds(rank.duration_ticks()));
        let mpi_outside = (seconds(rank.comm_ticks) - comm_of_master).clamp(0.0, (duration - inside).max(0.0));
        let serial = (duration - inside - mpi_outside).max(0.0);
        Ok(Times {
            threads,
            duration,
            serial,
            useful: serial + busy - comm,
            mpi: mpi_outside + comm,
            idle_in_mpi: (threads - 1.0) * mpi_outside,
            imbalance: (longest - busy).max(0.0),
            scheduling: (thread_time - longest).max(0.0),
            serialisation: ((threads - 1.0) * serial + threads * inside - thread_time).max(0.0),
        })
    }

    /// Share of its threads' time outside of MPI.
    fn outside_mpi(&self) -> f64 {
        1.0 - (self.mpi + self.idle_in_mpi) / (self.threads * self.duration)
    }
}

fn why_unknown(input: &WindowInput, rank: &RankSample, team: &TeamSample) -> Option<Unseen> {
    let unseen = team.unseen_ticks as f64 / (rank.duration_ticks() as f64).max(1.0);
    Some(match team.why_not() {
        // Functions whose ends are not seen explain what else was not.
        Some(why) => of_gaps(input, rank, team).unwrap_or(why),
        None if !team.is_of_main => Unseen::OtherThread,
        None if unseen > UNSEEN_SHARE_MAX => Unseen::Regions(unseen),
        None if team.stray > 0 => Unseen::InsideBefore,
        None => return of_gaps(input, rank, team),
    })
}

/// Why functions of regions that are not wholly measured make the factors wrong; `None`: there are none, or what they leave
/// open is too little for that. Where the end of a region's function is not seen, the rest of its work is told as waiting for
/// the others.
fn of_gaps(input: &WindowInput, rank: &RankSample, team: &TeamSample) -> Option<Unseen> {
    let gaps = gaps(input, rank);
    let is_out = |function: usize| rank.unseen.iter().any(|one| one.function == function);
    let region = |function: usize| team.regions.iter().find(|region| region.function == function);
    let open = gaps.keys().map(|function| region(*function).filter(|_| !is_out(*function)).map(RegionSample::ends));
    let open: Option<u64> = open.sum();
    let all = team.threads().max(1) as f64 * rank.duration_ticks() as f64;
    match open {
        Some(open) if open as f64 <= all * UNSEEN_SHARE_MAX => None,
        _ => gaps.into_values().next(),
    }
}

impl RegionSample {
    /// Time of its threads in which they were neither in the region's function nor in a wait that lies in it.
    fn ends(&self) -> u64 {
        self.thread_ticks.saturating_sub(self.busy + self.barrier + self.lock + self.task)
    }
}

/// The factors of all ranks and threads.
fn hybrid(times: &[Times], regions: &[ParallelRegion]) -> Result<HybridEfficiencies, NoHybrid> {
    let sum = |part: fn(&Times) -> f64| times.iter().map(part).sum::<f64>();
    let all = sum(|times| times.threads * times.duration);
    let useful_s = sum(|times| times.useful);
    if all <= 0.0 || useful_s <= 0.0 || times.iter().any(|times| times.duration <= 0.0) {
        return Err(NoHybrid::NoWork);
    }
    if times.iter().all(|times| times.threads <= 1.0) {
        return Err(NoHybrid::NoThreads);
    }
    let (imbalance_s, scheduling_s) = (sum(|times| times.imbalance), sum(|times| times.scheduling));
    let serialisation_s = sum(|times| times.serialisation);
    let mpi = 1.0 - sum(|times| times.mpi + times.idle_in_mpi) / all;
    let mpi_communication = times.iter().map(Times::outside_mpi).fold(0.0, f64::max);
    let serial_part = useful_s + serialisation_s;
    let balanced_part = serial_part + imbalance_s;
    let outside_s = balanced_part + scheduling_s;
    let found = HybridEfficiencies {
        parallel: useful_s / all,
        mpi,
        mpi_load_balance: mpi / mpi_communication,
        mpi_communication,
        omp: useful_s / outside_s,
        omp_load_balance: serial_part / balanced_part,
        omp_scheduling: balanced_part / outside_s,
        omp_serialisation: useful_s / serial_part,
        useful_s,
        mpi_s: sum(|times| times.mpi),
        idle_in_mpi_s: sum(|times| times.idle_in_mpi),
        imbalance_s,
        scheduling_s,
        serialisation_s,
        work_on_first: None,
        region_first: None,
    };
    let first = costliest(&found);
    let region_first = first.and_then(|(_, of_region)| dearest(regions, of_region?));
    Ok(HybridEfficiencies { work_on_first: first.map(|(factor, _)| factor), region_first, ..found })
}

/// Thread time that a region loses.
type Loss = fn(&ParallelRegion) -> f64;

/// The smallest factor, and what regions lose by it.
fn costliest(found: &HybridEfficiencies) -> Option<(HybridFactor, Option<Loss>)> {
    let imbalance: Loss = |region| busy_s(region) * region.imbalance.unwrap_or(0.0);
    let scheduling: Loss =
        |region| region.thread_time_s.unwrap_or(0.0) - busy_s(region) * (1.0 + region.imbalance.unwrap_or(0.0));
    let factors = [
        (found.mpi_load_balance, HybridFactor::MpiLoadBalance, None),
        (found.mpi_communication, HybridFactor::MpiCommunication, None),
        (found.omp_load_balance, HybridFactor::OmpLoadBalance, Some(imbalance)),
        (found.omp_scheduling, HybridFactor::OmpScheduling, Some(scheduling)),
        (found.omp_serialisation, HybridFactor::OmpSerialisation, None),
    ];
    let smallest = factors.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
    smallest.filter(|(factor, ..)| *factor < GOOD).map(|(_, name, loss)| (name, loss))
}

fn busy_s(region: &ParallelRegion) -> f64 {
    region.work_s.unwrap_or(0.0) + region.communication_s.unwrap_or(0.0)
}

/// The region that loses most.
fn dearest(regions: &[ParallelRegion], loss: Loss) -> Option<String> {
    let dearest = regions.iter().max_by(|one, other| loss(one).total_cmp(&loss(other)))?;
    Some(dearest.place.as_ref().map_or_else(|| dearest.function.clone(), CallFrame::place))
}
