//! What counts iterations: a function of the program, or a call of the main loop that is found while it runs.
//!
//! A loop is accepted once it has been seen again after the observation doubled and many times, or for a while, so that
//! a short inner loop does not win over the outer one at first sight. All ranks must agree; their counters are then
//! aligned to one numbering. A marker that is not passed again was no main loop: the search goes on, as long as there is
//! hope.
//!
//! Next: `agreement` for what the ranks have in common, `counting` for their counters.

use crate::agreement::{Agreed, Choice, agreed};
use crate::counting::{Waiting, Wanted, aligned};
use crate::early::Early;
use crate::error::Error;
use crate::observe::{self, Sites, Stream};
use crate::options::{Options, Progress, Stage};
use crate::requests::readable;
use crate::team::Team;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use trimtab_mpi::HandleFacts;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_session::ImageCache;
use trimtab_window::{DetectOptions, Patience, Symbol};

/// First look at the rings.
const FIRST_LOOK_MS: u64 = 4;
/// Longest time between two looks.
pub(crate) const LOOK_MS_MAX: u64 = 100;
/// A loop seen this long needs no second look.
const CERTAIN_SECONDS: f64 = 1.0;
/// Iterations in which an inner loop would most likely have been left once.
const ITERATIONS_MANY: usize = 32;
/// A loop around the one seen is waited for this long, from when that one was seen.
const UNDECIDED_SECONDS_MAX: f64 = 3.0;
/// Observation without any loop ends here, or after a third of `--max-seconds`.
const OBSERVE_SECONDS_MAX: f64 = 20.0;
/// A marker that was found is waited for this long, and this many of its iterations more.
const MARKER_SECONDS_MAX: f64 = 2.0;
const MARKER_ITERATIONS_MAX: f64 = 20.0;
/// A `measuremark` that nobody calls is waited for this long before a loop is looked for.
const SILENT_SECONDS_MAX: f64 = 3.0;
/// The part of `--max-seconds` that may pass until a marker that is being called is aligned.
const CALLED_PART_MAX: f64 = 2.0 / 3.0;
/// The marker is a function of the program, wherever it is called from.
pub(crate) const ANY_SITE: u64 = u64::MAX;

/// What counts iterations in a window.
#[derive(Clone, Debug)]
pub(crate) enum Marker {
    /// Nothing: the window is by time.
    Time {
        /// Why no loop was found.
        why: String,
    },
    /// A call.
    Call(MarkerCall),
}

/// A call that counts iterations on all ranks.
#[derive(Clone, Debug)]
pub(crate) struct MarkerCall {
    /// For a reader.
    pub name: String,
    /// "detected", "named", "measuremark".
    pub source: &'static str,
    /// For each rank: the job's iteration number minus the rank's counter.
    pub offsets: Vec<i64>,
    /// Whether those offsets are proven.
    pub certain: bool,
    /// What the offsets rest on, for a reader.
    pub explanation: String,
    /// Ticks of one iteration, about.
    pub iteration_ticks: f64,
    /// The call synchronises all ranks.
    pub synchronises: bool,
    /// The marking call on each rank, and passes of its call site in one iteration.
    pub wanted: Vec<Wanted>,
    /// The loop in a sentence.
    pub description: Option<String>,
}

/// Looks at all ranks' rings.
pub(crate) struct Observer<'a> {
    pub team: &'a Team,
    cache: &'a ImageCache,
    facts: Option<HandleFacts>,
    sites: Vec<Sites>,
    started_ns: u64,
    started_ticks: u64,
    /// What is recorded by time meanwhile.
    pub early: Early,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(team: &'a Team, cache: &'a ImageCache) -> Self {
        let facts = team.library.as_ref().and_then(trimtab_mpi::Library::handles);
        let sites = team.members.iter().map(Sites::of).collect();
        let (started_ns, started_ticks) = (monotonic_ns(), ticks());
        Observer { team, cache, facts, sites, started_ns, started_ticks, early: Early::default() }
    }

    pub(crate) fn streams(&mut self) -> Vec<Stream> {
        let snapshots: Vec<_> = self.team.members.iter().map(observe::snapshot).collect();
        let (selection, facts) = (&self.team.selection, self.facts.as_ref());
        let members = self.team.members.iter().zip(&snapshots).zip(&mut self.sites);
        members.map(|((member, snapshot), sites)| observe::stream(member, snapshot, selection, facts, sites)).collect()
    }

    pub(crate) fn seconds(&self) -> f64 {
        (monotonic_ns() - self.started_ns) as f64 / 1e9
    }

    /// So many ticks in seconds, about.
    fn seconds_of(&self, some_ticks: f64) -> f64 {
        some_ticks * self.seconds() / (ticks() - self.started_ticks).max(1) as f64
    }

    /// Calls of the rank that called least since the probes went in.
    fn calls(&self) -> u64 {
        self.team.members.iter().map(observe::calls).min().unwrap_or(0)
    }

    /// Errors end the observation; while there is none, what happens is recorded by time in case no loop is found.
    pub(crate) fn check(&mut self, progress: &dyn Progress) -> Result<(), Error> {
        self.early.begin_when_due(self.team, self.seconds());
        if progress.is_interrupted() {
            return Err(Error::Interrupted);
        }
        if self.team.members.iter().any(|member| !member.inserted.is_alive()) {
            return Err(Error::EndedEarly);
        }
        Ok(())
    }
}

/// Finds what counts iterations.
pub(crate) fn find(observer: &mut Observer<'_>, options: &Options, progress: &dyn Progress) -> Result<Marker, Error> {
    let limit_s = OBSERVE_SECONDS_MAX.min(options.max_seconds / 3.0).max(0.2);
    match observer.team.selection.marker {
        Some((index, source)) => {
            let silent_s = if source == "named" { limit_s } else { limit_s.min(SILENT_SECONDS_MAX) };
            let waiting = Waiting { silent_s, limit_s: limit_s.max(options.max_seconds * CALLED_PART_MAX) };
            match named(observer, index, source, waiting, progress)? {
                Some(marker) => Ok(marker),
                // A program that has a marker but has not come to it yet: its calls may still show a loop.
                None => detected(observer, limit_s + silent_s, progress),
            }
        }
        None => detected(observer, limit_s, progress),
    }
}

/// A function of the program counts iterations; `None`: nobody asked for it, and it stays silent.
fn named(
    observer: &mut Observer<'_>,
    index: usize,
    source: &'static str,
    waiting: Waiting,
    progress: &dyn Progress,
) -> Result<Option<Marker>, Error> {
    let name = observer.team.selection.functions[index].name.clone();
    let function = index as u32;
    let symbol = Symbol { function, site: ANY_SITE };
    let any_site = Wanted { symbol, word: Vec::new(), every: 1, since_ticks: 0, is_common: true };
    let wanted = vec![any_site; observer.team.members.len()];
    let begun_s = observer.seconds();
    match aligned(observer, &wanted, waiting, progress)? {
        Ok(found) => Ok(Some(Marker::Call(found.call(name, source, None)))),
        Err(silent) if source == "named" => Err(Error::MarkerSilent {
            marker: name,
            rank: observer.team.members[silent].process.rank,
            seconds: observer.seconds() - begun_s,
        }),
        Err(_) => Ok(None),
    }
}

/// Looks for the main loop.
fn detected(observer: &mut Observer<'_>, limit_s: f64, progress: &dyn Progress) -> Result<Marker, Error> {
    let polling_functions = observer.team.selection.polling.clone();
    let detect_options = DetectOptions { polling_functions, ..DetectOptions::default() };
    let mut patience = Patience::default();
    let mut first_seen: Option<(Symbol, f64)> = None;
    let mut wait_ms = FIRST_LOOK_MS;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        observer.check(progress)?;
        let streams = observer.streams();
        let seconds = observer.seconds();
        let mut why = match agreed(&streams, &detect_options) {
            Ok(loops) => {
                let anchor = loops.choices[0].symbol;
                let same = first_seen.filter(|(symbol, _)| *symbol == anchor);
                if same.is_none() {
                    patience.none();
                }
                patience.found();
                let since = same.map_or(seconds, |(_, at)| at);
                first_seen = Some((anchor, since));
                let is_long = seconds >= since + CERTAIN_SECONDS || seconds > limit_s;
                let is_known = is_long || (seconds >= 2.0 * since && loops.iterations_seen >= ITERATIONS_MANY);
                let may_wait = loops.is_undecided && seconds < (since + UNDECIDED_SECONDS_MAX).min(limit_s);
                match is_known && !may_wait {
                    true => match count(observer, &loops, &streams, limit_s, progress)? {
                        Ok(marker) => return Ok(Marker::Call(marker)),
                        Err(why) => {
                            first_seen = None;
                            patience.none();
                            why
                        }
                    },
                    false => "seeing it again".to_string(),
                }
            }
            Err(why) => {
                first_seen = None;
                patience.none();
                why
            }
        };
        let ended = patience.ended(observer.seconds(), observer.calls());
        if ended.is_some() || observer.seconds() > limit_s {
            why = ended.unwrap_or(why);
            return Ok(Marker::Time { why });
        }
        progress.stage(&Stage::Observing { seconds, why });
    }
}

/// Sets the marker on every rank, then aligns the ranks' counters. The inner error says why it does not count.
fn count(
    observer: &mut Observer<'_>,
    loops: &Agreed,
    streams: &[Stream],
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Result<MarkerCall, String>, Error> {
    let choices = &loops.choices;
    for ((member, choice), stream) in observer.team.members.iter().zip(choices).zip(streams) {
        let header = member.inserted.view().header();
        // An earlier marker counts no more while its parts are exchanged; passes go on from where they are.
        header.marker_probe.store(u32::MAX, SeqCst);
        header.marker_every.store(choice.every, Relaxed);
        header.marker_site.store(stream.return_addresses[choice.last], Relaxed);
        header.marker_probe.store(stream.probes[choice.last] as u32, SeqCst);
    }
    let since_ticks = ticks();
    let name = marker_name(observer, choices, streams);
    let wanted = choices.iter().map(|choice| Wanted {
        symbol: choice.symbol,
        word: choice.word.clone(),
        every: choice.every,
        since_ticks,
        is_common: choice.is_common,
    });
    let wanted: Vec<Wanted> = wanted.collect();
    let patience_s = MARKER_SECONDS_MAX + MARKER_ITERATIONS_MAX * observer.seconds_of(loops.iteration_ticks);
    let limit_s = limit_s.min(patience_s);
    Ok(match aligned(observer, &wanted, Waiting { silent_s: limit_s, limit_s }, progress)? {
        Ok(mut found) => {
            found.synchronises = choices.iter().all(|choice| choice.synchronises);
            Ok(found.call(name, "detected", choices.first().map(|choice| choice.description.clone())))
        }
        Err(silent) => {
            let rank = observer.team.members[silent].process.rank;
            Err(format!("rank {rank} did not pass {name} again"))
        }
    })
}

/// `MPI_Allreduce at solve+0x1f3`.
fn marker_name(observer: &Observer<'_>, choices: &[Choice], streams: &[Stream]) -> String {
    let (team, cache) = (observer.team, observer.cache);
    let mut ranks = choices.iter().zip(streams).zip(&team.members);
    let common = ranks.find(|((choice, _), _)| choice.is_common);
    common.map_or_else(String::new, |((choice, stream), member)| {
        let function = &team.selection.functions[choice.symbol.function as usize].name;
        let times = if choice.every > 1 { format!(", every {} calls", choice.every) } else { String::new() };
        let place = member.modules.describe(stream.return_addresses[choice.last], cache);
        let (caller, offset) = place.rsplit_once('+').unwrap_or((&place, "0x0"));
        format!("{function} at {}+{offset}{times}", readable(caller))
    })
}
