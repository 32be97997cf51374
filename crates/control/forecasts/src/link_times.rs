//! Links between hosts as windows of any jobs saw them: fitted, loaded, and asked for collectives.
//!
//! Next: `trimtab-loggp`, which fits; `trimtab_types::report::MessageTimes` for what a window saw.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_loggp::{Collective, CollectiveTime, LinkFit, Recorded, Sample, Seen, Table, Time, collective_time, fit};
use trimtab_types::report::Report;

/// Jobs of which a window ended so many seconds before the newest one, or less, are taken to run together with it.
const TOGETHER_S: f64 = 60.0;

/// Questions that the windows can't answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// No window is of this library.
    #[error("no window is of an MPI library that is called {wanted:?}; there are {known}")]
    NoLibrary {
        /// The text that was looked for.
        wanted: String,
        /// All that are there.
        known: String,
    },
    /// No window at all.
    #[error(
        "no window has the time of a message or a collective: measure iterations of a program that sends and receives in \
         calls that return with their message, e.g. `trimtab attach PID`"
    )]
    Nothing,
    /// Nobody sent there.
    #[error("nothing is known of {host:?}: no window has a rank on it; known are {known}")]
    NoHost {
        /// The host.
        host: String,
        /// All that are known.
        known: String,
    },
    /// These hosts, or the ranks of one, did not send to each other.
    #[error("{from} and {to}: {why}; measure a program that sends messages of several sizes between them")]
    NoPair {
        /// One host.
        from: String,
        /// The other, or the same.
        to: String,
        /// Why there is no fit.
        why: String,
    },
    /// A question without an answer.
    #[error(transparent)]
    Wrong(#[from] trimtab_loggp::Error),
}

/// How two ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On one host.
    SharedMemory,
    /// From host to host.
    Network,
}

/// Two hosts, or one of which ranks send to each other, by one MPI library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostPair {
    /// Both, in the order of their names.
    pub hosts: [String; 2],
    /// The library.
    pub mpi: String,
    /// How they reach each other.
    pub way: Way,
    /// Messages that were matched.
    pub messages: u64,
    /// Their time without waiting, seconds; `None`: all were hidden.
    pub transfer_s: Option<f64>,
    /// Time in which one end waited for the other, seconds; `None`: as before.
    pub wait_s: Option<f64>,
    /// The parameters of LogGP.
    pub fit: Option<LinkFit>,
    /// Why there are none.
    pub no_fit: Option<String>,
}

/// The load of a host's links, of all jobs that ran when the newest window was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostLoad {
    /// The host.
    pub host: String,
    /// Ids of those jobs that had ranks there.
    pub jobs: Vec<String>,
    /// Bytes that left it for others in a second.
    pub sent_bytes_per_s: f64,
    /// Bytes that came.
    pub received_bytes_per_s: f64,
    /// Share of the time that the bytes sent take on the links, by their fitted time for a byte; `None`: no fit tells it.
    pub sent_share: Option<f64>,
    /// The same of bytes that came.
    pub received_share: Option<f64>,
}

/// All that windows say of links.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Windows that were looked at.
    pub windows: usize,
    /// The end of the newest one, seconds since 1970; `None`: not known.
    pub newest_unix_s: Option<f64>,
    /// Pairs of hosts.
    pub pairs: Vec<HostPair>,
    /// Loads, by host.
    pub loads: Vec<HostLoad>,
    newest_mpi: Option<String>,
    /// Collectives by library and hosts.
    tables: BTreeMap<(String, Vec<String>), Table>,
}

/// The question of `forecast collective`.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveAsked {
    /// Which one.
    pub collective: Collective,
    /// Ranks.
    pub ranks: u32,
    /// Bytes of a block.
    pub bytes: u64,
    /// Hosts; empty: those of the newest window.
    pub hosts: Vec<String>,
    /// A part of the library's name; `None`: that of the newest window.
    pub mpi: Option<String>,
}

/// How it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Windows saw such collectives.
    Recorded,
    /// Added up from messages.
    Messages,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveAnswer {
    /// The hosts that were asked about.
    pub hosts: Vec<String>,
    /// The library.
    pub mpi: String,
    /// How it was answered.
    pub method: Method,
    /// The time.
    pub time: Time,
    /// Of such collectives that windows saw; `None`: they saw none that tell it.
    pub recorded: Option<Seen>,
    /// Added up from messages; `None`: `no_messages` says why.
    pub messages: Option<CollectiveTime>,
    /// Why it can't be added up.
    pub no_messages: Option<String>,
}

type PairKey = (String, String, String);

#[derive(Default)]
struct Gathered {
    samples: Vec<Sample>,
    messages: u64,
    transfer_s: Option<f64>,
    wait_s: Option<f64>,
}

impl Links {
    /// Of these windows.
    pub fn of(reports: &[Report]) -> Self {
        let pairs: Vec<HostPair> = gathered(reports).into_iter().map(|(key, of)| host_pair(key, of)).collect();
        let newest = newest(reports);
        let mut recorded: BTreeMap<(String, Vec<String>), Vec<Recorded>> = BTreeMap::new();
        for report in reports.iter().filter(|report| !report.collectives.is_empty()) {
            recorded.entry((report.job.mpi.clone(), hosts_of(report))).or_default().extend(recorded_of(report));
        }
        Links {
            windows: reports.len(),
            newest_unix_s: newest.and_then(ended_s),
            loads: loads(reports, &pairs),
            pairs,
            newest_mpi: newest.map(|report| report.job.mpi.clone()),
            tables: recorded.into_iter().map(|(key, rows)| (key, Table::new(&rows))).collect(),
        }
    }

    /// How long a collective takes.
    ///
    /// # Errors
    /// [`LinkError`]: nobody knows, and why.
    pub fn collective(&self, asked: &CollectiveAsked) -> Result<CollectiveAnswer, LinkError> {
        let mpi = self.library(asked.mpi.as_deref())?;
        let hosts = self.hosts(&mpi, &asked.hosts)?;
        let table = self.tables.get(&(mpi.clone(), hosts.clone()));
        let recorded = table.and_then(|table| table.time(asked.collective, asked.ranks, asked.bytes as f64));
        let messages = self.of_messages(asked, &mpi, &hosts);
        if let Err(LinkError::Wrong(error)) = &messages {
            return Err(LinkError::Wrong(error.clone()));
        }
        // Messages of sizes that were seen say more than collectives of others.
        let is_better = |made: &CollectiveTime, seen: &Seen| seen.time.is_outside && !made.time.is_outside;
        let (method, time) = match (&recorded, &messages) {
            (Some(seen), Ok(made)) if is_better(made, seen) => (Method::Messages, made.time),
            (Some(seen), _) => (Method::Recorded, seen.time),
            (None, Ok(made)) => (Method::Messages, made.time),
            (None, Err(error)) => return Err(error.clone()),
        };
        let no_messages = messages.as_ref().err().map(ToString::to_string);
        Ok(CollectiveAnswer { hosts, mpi, method, time, recorded, messages: messages.ok(), no_messages })
    }

    fn library(&self, wanted: Option<&str>) -> Result<String, LinkError> {
        let known: BTreeSet<&String> =
            self.pairs.iter().map(|pair| &pair.mpi).chain(self.tables.keys().map(|key| &key.0)).collect();
        if known.is_empty() {
            return Err(LinkError::Nothing);
        }
        let is_wanted = |mpi: &&&String| match wanted {
            Some(text) => mpi.to_lowercase().contains(&text.to_lowercase()),
            None => Some(**mpi) == self.newest_mpi.as_ref(),
        };
        let found = known.iter().find(is_wanted).or(known.iter().next().filter(|_| wanted.is_none()));
        let all = || known.iter().map(|mpi| mpi.as_str()).collect::<Vec<&str>>().join(", ");
        let none = || LinkError::NoLibrary { wanted: wanted.unwrap_or_default().to_owned(), known: all() };
        found.map(|mpi| (*mpi).clone()).ok_or_else(none)
    }

    /// Hosts in the order of their names, each known.
    fn hosts(&self, mpi: &str, asked: &[String]) -> Result<Vec<String>, LinkError> {
        let of_pairs = self.pairs.iter().filter(|pair| pair.mpi == mpi).flat_map(|pair| pair.hosts.iter());
        let of_tables = self.tables.keys().filter(|key| key.0 == mpi).flat_map(|key| key.1.iter());
        let known: BTreeSet<String> = of_pairs.chain(of_tables).cloned().collect();
        let all: BTreeSet<String> = if asked.is_empty() { known.clone() } else { asked.iter().cloned().collect() };
        if let Some(host) = all.iter().find(|host| !known.contains(*host)) {
            let known = known.into_iter().collect::<Vec<String>>().join(", ");
            return Err(LinkError::NoHost { host: host.clone(), known });
        }
        Ok(all.into_iter().collect())
    }

    /// The slowest pair of hosts makes each message; ranks of one host send through its link at once.
    fn of_messages(&self, asked: &CollectiveAsked, mpi: &str, hosts: &[String]) -> Result<CollectiveTime, LinkError> {
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
        let mut fits = Vec::new();
        for (place, from) in hosts.iter().enumerate() {
            let others = hosts[place + 1..].iter();
            let itself = (asked.ranks > count).then_some(from);
            for to in others.chain(itself) {
                fits.push(self.fit_of(mpi, from, to)?);
            }
        }
        let at_once = if count > 1 { asked.ranks.div_ceil(count) } else { 1 };
        let slowest = |bytes: f64| -> Result<Time, trimtab_loggp::Error> {
            let times = fits.iter().map(|fit| fit.time(bytes)).collect::<Result<Vec<Time>, _>>()?;
            let most = times.into_iter().max_by(|a, b| a.value_s.total_cmp(&b.value_s));
            most.ok_or(trimtab_loggp::Error::NoNumber { what: "the number of links" })
        };
        Ok(collective_time(asked.collective, (asked.ranks, at_once), asked.bytes as f64, &slowest)?)
    }

    fn fit_of(&self, mpi: &str, from: &str, to: &str) -> Result<&LinkFit, LinkError> {
        let no = |why: &str| LinkError::NoPair { from: from.to_owned(), to: to.to_owned(), why: why.to_owned() };
        let pair = self.pairs.iter().find(|pair| pair.mpi == mpi && pair.hosts == [from, to]);
        let pair = pair.ok_or_else(|| no("no message between their ranks was timed"))?;
        pair.fit.as_ref().ok_or_else(|| no(pair.no_fit.as_deref().unwrap_or("there is no fit")))
    }
}

fn ended_s(report: &Report) -> Option<f64> {
    Some(report.window.started_unix_s? + report.window.duration_s)
}

fn newest(reports: &[Report]) -> Option<&Report> {
    reports.iter().max_by(|a, b| ended_s(a).unwrap_or(0.0).total_cmp(&ended_s(b).unwrap_or(0.0)))
}

fn hosts_of(report: &Report) -> Vec<String> {
    report.job.hosts.iter().cloned().collect::<BTreeSet<String>>().into_iter().collect()
}

fn host_of(report: &Report, rank: u32) -> Option<&str> {
    let at = report.ranks.binary_search_by_key(&rank, |total| total.rank).ok()?;
    Some(report.ranks[at].host.as_str())
}

fn gathered(reports: &[Report]) -> BTreeMap<PairKey, Gathered> {
    let mut all: BTreeMap<PairKey, Gathered> = BTreeMap::new();
    for report in reports {
        for row in &report.messages {
            let (Some(from), Some(to)) = (host_of(report, row.from), host_of(report, row.to)) else { continue };
            let is_forward = if from == to { row.from < row.to } else { from < to };
            let (one, other) = if from < to { (from, to) } else { (to, from) };
            let pair = all.entry((one.to_owned(), other.to_owned(), report.job.mpi.clone())).or_default();
            pair.messages += row.messages;
            pair.transfer_s = sum(pair.transfer_s, row.transfer_s);
            pair.wait_s = sum(pair.wait_s, row.wait_s);
            let times = row.transfer_s_low.zip(row.transfer_s_median).zip(row.transfer_s_high);
            pair.samples.extend(times.map(|((low_s, median_s), high_s)| Sample {
                bytes: row.bytes,
                is_forward,
                messages: row.ready,
                low_s,
                median_s,
                high_s,
                send_s: row.send_s_median,
                receive_s: row.receive_s_median,
                // Clocks of one host differ by less than a probe takes.
                error_s: if from == to { 0.0 } else { row.error_s },
            }));
        }
    }
    all
}

/// The sum of those that are known.
fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

fn host_pair((one, other, mpi): PairKey, of: Gathered) -> HostPair {
    let (found, no_fit) = match fit(&of.samples) {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.to_string())),
    };
    HostPair {
        way: if one == other { Way::SharedMemory } else { Way::Network },
        hosts: [one, other],
        mpi,
        messages: of.messages,
        transfer_s: of.transfer_s,
        wait_s: of.wait_s,
        fit: found,
        no_fit,
    }
}

fn recorded_of(report: &Report) -> impl Iterator<Item = Recorded> + '_ {
    report.collectives.iter().filter_map(|row| {
        let collective = Collective::ALL.into_iter().find(|one| one.function() == row.function)?;
        Some(Recorded {
            collective,
            ranks: row.ranks,
            bytes: collective.block_bytes(row.bytes, row.ranks),
            calls: row.calls,
            low_s: row.time_s_low,
            median_s: row.time_s_median,
            high_s: row.time_s_high,
        })
    })
}

/// Of each job that was measured together with the newest window, its own newest one.
fn loads(reports: &[Report], pairs: &[HostPair]) -> Vec<HostLoad> {
    let Some(newest_s) = newest(reports).and_then(ended_s) else { return Vec::new() };
    let mut jobs: BTreeMap<&str, &Report> = BTreeMap::new();
    let is_together = |report: &&Report| ended_s(report).is_some_and(|ended_s| newest_s - ended_s <= TOGETHER_S);
    for report in reports.iter().filter(is_together).filter(|report| has_links(report)) {
        let known = jobs.entry(&report.job.id).or_insert(report);
        if ended_s(report) > ended_s(known) {
            *known = report;
        }
    }
    let mut loads: BTreeMap<String, HostLoad> = BTreeMap::new();
    for (id, report) in jobs {
        for host in hosts_of(report) {
            load_of(&mut loads, &host).jobs.push(id.to_owned());
        }
        for link in report.links.iter().filter(|_| report.window.duration_s > 0.0) {
            let (Some(from), Some(to)) = (host_of(report, link.from), host_of(report, link.to)) else { continue };
            if from == to {
                continue;
            }
            let bytes_per_s = link.bytes as f64 / report.window.duration_s;
            let share = gap_s(pairs, &report.job.mpi, [from, to]).map(|gap_s| gap_s * bytes_per_s);
            let sender = load_of(&mut loads, from);
            sender.sent_bytes_per_s += bytes_per_s;
            sender.sent_share = sender.sent_share.zip(share).map(|(all, share)| all + share);
            let receiver = load_of(&mut loads, to);
            receiver.received_bytes_per_s += bytes_per_s;
            receiver.received_share = receiver.received_share.zip(share).map(|(all, share)| all + share);
        }
    }
    loads.into_values().collect()
}

/// Bytes from rank to rank are told of it.
fn has_links(report: &Report) -> bool {
    report.reduced.is_none() && report.ranks.iter().any(|rank| rank.unattributed_bytes.is_some())
}

fn load_of<'a>(loads: &'a mut BTreeMap<String, HostLoad>, host: &str) -> &'a mut HostLoad {
    loads.entry(host.to_owned()).or_insert_with(|| HostLoad {
        host: host.to_owned(),
        jobs: Vec::new(),
        sent_bytes_per_s: 0.0,
        received_bytes_per_s: 0.0,
        sent_share: Some(0.0),
        received_share: Some(0.0),
    })
}

/// The time of a byte of long messages between two hosts.
fn gap_s(pairs: &[HostPair], mpi: &str, hosts: [&str; 2]) -> Option<f64> {
    let is_it = |pair: &&HostPair| {
        let [one, other] = &pair.hosts;
        pair.mpi == mpi && (hosts == [one, other] || hosts == [other, one])
    };
    let fit = pairs.iter().find(is_it)?.fit.as_ref()?;
    Some(fit.segments.last()?.gap_s_per_byte?.value)
}
