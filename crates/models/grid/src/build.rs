//! Tasks from the steps of an alternative: data are brought from where they lie or were made, and what is impossible is said.
//!
//! Next: `run`, which runs the tasks; `outlook`, which shows them.

use crate::data::Data;
use crate::error::Error;
use crate::facts::{Facts, Figure, Link};
use crate::ledger::{Ledger, Note};
use crate::path::{Edge, best};
use crate::plan::{Plan, Step};
use crate::quantity::Quantity;
use crate::routines::{Impossible, Needs, NoNeeds, Routines};
use crate::run::{Load, Task};
use std::collections::{BTreeMap, BTreeSet};

/// A task by the places of its figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Built {
    /// The routine or the data.
    pub what: String,
    /// The hosts of its way; one for a routine.
    pub way: Vec<String>,
    /// Bytes of a transfer.
    pub bytes: Option<f64>,
    /// Tasks before it.
    pub after: Vec<usize>,
    /// Its load.
    pub load: LoadOf,
}

/// A load by the places of its figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LoadOf {
    /// The time alone, and the share of a processor.
    Compute { alone: usize, share: Option<usize> },
    /// The things that it goes through, and latencies.
    Transfer { ends: (usize, usize), through: Vec<usize>, latencies: Vec<usize>, bytes: f64 },
}

/// The most that something lets through: the largest of some figures, and a number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity {
    least: f64,
    of: Vec<usize>,
}

/// An alternative, built.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Whole {
    /// Tasks.
    pub tasks: Vec<Built>,
    /// The most of each thing that they go through.
    pub capacities: Vec<Capacity>,
    /// The figures that matter.
    pub used: BTreeSet<usize>,
    /// The oldest age of any figure that was looked at, seconds.
    pub oldest_s: Option<f64>,
    /// Sentences.
    pub because: Vec<String>,
}

impl Whole {
    /// The tasks for these values of all figures.
    pub fn tasks(&self, values: &[f64]) -> Vec<Task> {
        let load = |load: &LoadOf| match load {
            LoadOf::Compute { alone, share } => {
                Load::Compute { seconds: values[*alone] / share.map_or(1.0, |share| values[share]) }
            }
            LoadOf::Transfer { ends, through, latencies, bytes } => Load::Transfer {
                ends: *ends,
                through: through.clone(),
                latency_s: latencies.iter().map(|at| values[*at]).sum(),
                bytes: *bytes,
            },
        };
        self.tasks.iter().map(|task| Task { load: load(&task.load), after: task.after.clone() }).collect()
    }

    /// The most that each thing lets through, for these values of all figures.
    pub fn capacities(&self, values: &[f64]) -> Vec<f64> {
        let most = |one: &Capacity| one.of.iter().map(|at| values[*at]).fold(one.least, f64::max);
        self.capacities.iter().map(most).collect()
    }
}

/// Why there are no tasks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It can't be done there.
    Impossible(Impossible),
    /// Nobody says how long it takes.
    NoTime { why: String, usual_s: Option<f64> },
    /// A wrong question.
    Wrong(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Wrong(error)
    }
}

/// Something that transfers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Link(usize),
    /// All that a host sends,
    Out(usize),
    /// and all that it receives.
    In(usize),
}

/// Builds tasks.
pub(crate) struct Builder<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    routines: &'a dyn Routines,
    ledger: &'a mut Ledger,
    hosts: Vec<&'a str>,
    whole: Whole,
    things: Vec<Thing>,
    /// Links that are used, with the places of their bandwidths.
    used_links: BTreeMap<usize, usize>,
    /// By data, where they are and the task that brought them; first where they lay or were made.
    places: BTreeMap<&'a str, Vec<(String, Option<usize>)>>,
    /// Bytes that come to a host or are made there.
    kept_bytes: BTreeMap<&'a str, f64>,
    /// The latest routine of a host.
    latest: BTreeMap<&'a str, usize>,
}

impl<'a> Builder<'a> {
    /// For one alternative.
    pub fn new(plan: &'a Plan, facts: &'a Facts, routines: &'a dyn Routines, ledger: &'a mut Ledger) -> Self {
        let there =
            plan.data.iter().filter_map(|(name, data)| Some((name.as_str(), vec![(data.place.clone()?, None)])));
        Builder {
            plan,
            facts,
            routines,
            ledger,
            hosts: facts.hosts.keys().map(String::as_str).collect(),
            whole: Whole::default(),
            things: Vec::new(),
            used_links: BTreeMap::new(),
            places: there.collect(),
            kept_bytes: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// The tasks of all steps.
    pub fn build(mut self, steps: &'a [Step]) -> Result<Whole, Stop> {
        for step in steps {
            match (&step.run, &step.on, &step.send, &step.to) {
                (Some(routine), Some(host), ..) => self.runs(step, routine, host)?,
                (_, _, Some(data), Some(to)) => {
                    let to = self.known(to)?;
                    self.bring(&step.words(), data, to).map(drop)?;
                }
                _ => {}
            }
        }
        self.whole.capacities = self.things.iter().map(|thing| self.capacity(*thing)).collect();
        Ok(self.whole)
    }

    fn runs(&mut self, step: &'a Step, routine: &'a str, host: &str) -> Result<(), Stop> {
        let host = self.known(host)?;
        let words = step.words();
        if self.facts.hosts[host].software.as_ref().is_some_and(|known| !known.contains(routine)) {
            return Err(Stop::Impossible(Impossible::Software { host: host.to_owned(), routine: routine.to_owned() }));
        }
        let needs = self.needs(step, routine, host)?;
        let mut after = Vec::new();
        for data in &step.takes {
            after.extend(self.bring(&words, data, host)?);
        }
        after.extend(self.latest.get(host));
        for name in &step.gives {
            let (name, data) = self.data(&words, name)?;
            if self.places.contains_key(name) {
                return Err(Error::GivenTwice { step: words, name: name.to_owned() }.into());
            }
            *self.kept_bytes.entry(host).or_default() += data.bytes();
            self.places.insert(name, vec![(host.to_owned(), Some(self.whole.tasks.len()))]);
        }
        self.check_memory(host, needs.memory_bytes)?;
        let load = self.load(step, routine, host, &needs)?;
        self.whole.because.extend(needs.because);
        self.latest.insert(host, self.whole.tasks.len());
        let (what, way) = (routine.to_owned(), vec![host.to_owned()]);
        self.whole.tasks.push(Built { what, way, bytes: None, after, load });
        Ok(())
    }

    fn needs(&self, step: &Step, routine: &str, host: &str) -> Result<Needs, Stop> {
        let quantity = |what: &str, written: &Option<crate::Written>| {
            let quantity = written.map(Quantity::from);
            match quantity.filter(|quantity| !quantity.is_at_least(0.0)) {
                Some(wrong) => Err(Error::NoNumber {
                    what: format!("{}: its {what}", step.words()),
                    value: wrong.value,
                    expected: "it is 0 or more, and between its ends",
                }),
                None => Ok(quantity),
            }
        };
        let (seconds, memory) = (quantity("time", &step.seconds)?, quantity("memory", &step.memory_bytes)?);
        let sizes = step.args.iter().map(|(name, size)| Ok((name.clone(), size.number(&self.plan.data)?)));
        let sizes = sizes.collect::<Result<BTreeMap<String, f64>, Error>>()?;
        if let Some(alone_s) = seconds {
            return Ok(Needs { alone_s, memory_bytes: memory, because: Vec::new() });
        }
        let needs = self.routines.needs(routine, host, &sizes).map_err(|no| match no {
            NoNeeds::NoTime { why, usual_s } => Stop::NoTime { why, usual_s },
            NoNeeds::Wrong(fault) => Error::Routine(fault).into(),
        })?;
        Ok(Needs { memory_bytes: memory.or(needs.memory_bytes), ..needs })
    }

    fn load(&mut self, step: &Step, routine: &str, host: &str, needs: &Needs) -> Result<LoadOf, Stop> {
        let words = format!("the time of {routine} on {host}");
        let more = format!("{:?} {:?}", step.args, needs.alone_s);
        let alone = self.ledger.note(Note { words, quantity: needs.alone_s, age_s: None, caution: None }, &more);
        let share = match &self.facts.hosts[host].cpu_share {
            Some(share) => Some(self.noted(format!("the share of a processor on {host}"), share)?),
            None if step.seconds.is_some() => {
                let said = format!("the share of a processor on {host} is not known: times there are as given");
                self.say(said);
                None
            }
            None => return Err(Error::NoFigure { what: format!("the share of a processor on {host}") }.into()),
        };
        self.whole.used.extend([alone].into_iter().chain(share));
        Ok(LoadOf::Compute { alone, share })
    }

    /// Notes a figure that is fresh.
    fn noted(&mut self, words: String, figure: &Figure) -> Result<usize, Error> {
        if let (Some(age_s), false) = (figure.age_s, figure.is_fresh(self.facts.age_max_s)) {
            return Err(Error::Stale { what: words, age_s, age_max_s: self.facts.age_max_s });
        }
        self.aged(figure.age_s);
        let Figure { quantity, age_s, caution, .. } = figure.clone();
        Ok(self.ledger.note(Note { words, quantity, age_s, caution }, ""))
    }

    fn aged(&mut self, age_s: Option<f64>) {
        self.whole.oldest_s = self.whole.oldest_s.into_iter().chain(age_s.map(|age_s| age_s.max(0.0))).reduce(f64::max);
    }

    fn say(&mut self, sentence: String) {
        if !self.whole.because.contains(&sentence) {
            self.whole.because.push(sentence);
        }
    }

    fn known(&self, host: &str) -> Result<&'a str, Error> {
        let known = match self.hosts.is_empty() {
            true => "nothing is known of any host: say what is known (--weather FILE, --controller HOST, \"facts\")"
                .to_owned(),
            false => format!("known are {}", self.hosts.join(", ")),
        };
        let found = self.hosts.iter().find(|name| **name == host);
        found.copied().ok_or_else(|| Error::UnknownHost { host: host.to_owned(), known })
    }

    fn data(&self, step: &str, name: &str) -> Result<(&'a str, &'a Data), Error> {
        let plan: &'a Plan = self.plan;
        let known = || plan.data.keys().cloned().collect::<Vec<_>>().join(", ");
        let unknown = || Error::UnknownData { step: step.to_owned(), name: name.to_owned(), known: known() };
        plan.data.get_key_value(name).map(|(name, data)| (name.as_str(), data)).ok_or_else(unknown)
    }

    /// Brings data to a host from where they lie or were made; the task that brings them.
    fn bring(&mut self, step: &str, name: &str, to: &'a str) -> Result<Option<usize>, Stop> {
        let (name, data) = self.data(step, name)?;
        let bytes = data.bytes();
        let places = self.places.get(name).cloned().unwrap_or_default();
        if let Some((_, task)) = places.iter().find(|(host, _)| host == to) {
            return Ok(*task);
        }
        let Some((from, task)) = places.first() else {
            return Err(Error::NoPlace { step: step.to_owned(), name: name.to_owned() }.into());
        };
        let from = self.known(from)?;
        let Some(links) = self.way(from, to, bytes, true) else { return Err(self.no_way(from, to, bytes)) };
        *self.kept_bytes.entry(to).or_default() += bytes;
        self.check_memory(to, None)?;
        self.transfer(name, bytes, &links, *task)?;
        let brought = Some(self.whole.tasks.len() - 1);
        self.places.entry(name).or_default().push((to.to_owned(), brought));
        Ok(brought)
    }

    /// The link itself if it was measured, since that is the way data take; else the links of the best way over others.
    fn way(&self, from: &str, to: &str, bytes: f64, only_fresh: bool) -> Option<Vec<usize>> {
        let is_meant = |link: &Link| !only_fresh || link.is_fresh(self.facts.age_max_s);
        let all = || self.facts.links.iter().enumerate().filter(|(_, link)| is_meant(link));
        if let Some((direct, _)) = all().find(|(_, link)| link.from == from && link.to == to) {
            return Some(vec![direct]);
        }
        let (places, edges): (Vec<usize>, Vec<Edge>) = all().map(|(at, link)| (at, self.edge(link))).unzip();
        let path = best(&edges, self.hosts.len(), self.number(from), self.number(to), bytes)?;
        Some(path.edges.into_iter().map(|at| places[at]).collect())
    }

    fn edge(&self, link: &Link) -> Edge {
        Edge {
            from: self.number(&link.from),
            to: self.number(&link.to),
            latency_s: link.latency_s.quantity.value,
            bytes_per_s: link.bandwidth_bytes_per_s.quantity.value,
        }
    }

    /// The place of a host among all; hosts of links are known.
    fn number(&self, host: &str) -> usize {
        self.hosts.binary_search(&host).unwrap_or_default()
    }

    fn no_way(&self, from: &str, to: &str, bytes: f64) -> Stop {
        let stale = self.way(from, to, bytes, false).and_then(|links| {
            let links = links.into_iter().map(|at| &self.facts.links[at]);
            links.into_iter().find(|link| !link.is_fresh(self.facts.age_max_s))
        });
        match stale.and_then(|link| Some((link, link.age_s()?))) {
            Some((link, age_s)) => Error::Stale { what: link.words(), age_s, age_max_s: self.facts.age_max_s }.into(),
            None => Stop::Impossible(Impossible::NoPath { from: from.to_owned(), to: to.to_owned() }),
        }
    }

    fn transfer(&mut self, name: &str, bytes: f64, links: &[usize], after: Option<usize>) -> Result<(), Stop> {
        let facts: &'a Facts = self.facts;
        let (mut through, mut latencies) = (Vec::new(), Vec::new());
        let mut way = vec![facts.links[links[0]].from.clone()];
        for at in links {
            let link = &facts.links[*at];
            let bandwidth = self.noted(format!("the bandwidth of {}", link.words()), &link.bandwidth_bytes_per_s)?;
            let latency = self.noted(format!("the latency of {}", link.words()), &link.latency_s)?;
            self.used_links.insert(*at, bandwidth);
            self.whole.used.extend([bandwidth, latency]);
            latencies.push(latency);
            for thing in [Thing::Link(*at), Thing::Out(self.number(&link.from)), Thing::In(self.number(&link.to))] {
                through.push(self.thing(thing));
            }
            way.push(link.to.clone());
        }
        if links.len() > 1 {
            let (from, to) = (&way[0], &way[way.len() - 1]);
            let by = way[1..way.len() - 1].join(", ");
            self.say(format!(
                "{from} to {to} goes by {by}: bandwidth is the least of that way, latency the sum, the best by time for this size"
            ));
        }
        let ends = (self.number(&way[0]), self.number(&way[way.len() - 1]));
        let load = LoadOf::Transfer { ends, through, latencies, bytes };
        let after = after.into_iter().collect();
        self.whole.tasks.push(Built { what: name.to_owned(), way, bytes: Some(bytes), after, load });
        Ok(())
    }

    fn thing(&mut self, thing: Thing) -> usize {
        let found = self.things.iter().position(|known| *known == thing);
        found.unwrap_or_else(|| {
            self.things.push(thing);
            self.things.len() - 1
        })
    }

    /// A host sends as much as was said, or as on its fastest link.
    fn capacity(&self, thing: Thing) -> Capacity {
        let host = |at: usize| &self.facts.hosts[self.hosts[at]];
        let given = match thing {
            Thing::Link(at) => return Capacity { least: 0.0, of: vec![self.used_links[&at]] },
            Thing::Out(at) => host(at).send_bytes_per_s,
            Thing::In(at) => host(at).receive_bytes_per_s,
        };
        if let Some(given) = given {
            return Capacity { least: given, of: Vec::new() };
        }
        let is_of = |link: &Link| match thing {
            Thing::Link(_) => false,
            Thing::Out(at) => link.from == self.hosts[at],
            Thing::In(at) => link.to == self.hosts[at],
        };
        let mut capacity = Capacity { least: 0.0, of: Vec::new() };
        for (at, link) in self.facts.links.iter().enumerate().filter(|(_, link)| is_of(link)) {
            match self.used_links.get(&at) {
                Some(place) => capacity.of.push(*place),
                None if !link.is_fresh(self.facts.age_max_s) => {}
                None => capacity.least = capacity.least.max(link.bandwidth_bytes_per_s.quantity.value),
            }
        }
        capacity
    }

    /// Free memory holds the routine, and all data that come or are made there.
    fn check_memory(&mut self, host: &str, routine: Option<Quantity>) -> Result<(), Stop> {
        let kept = self.kept_bytes.get(host).copied().unwrap_or_default();
        let needed_bytes = routine.map_or(0.0, |memory| memory.value).max(kept);
        let most_bytes = routine.map_or(0.0, |memory| memory.upper.unwrap_or(memory.value)).max(kept);
        let facts: &'a Facts = self.facts;
        let Some(free) = &facts.hosts[host].memory_free_bytes else {
            if needed_bytes > 0.0 {
                self.say(format!("the free memory of {host} is not known: whether all fits there was not checked"));
            }
            return Ok(());
        };
        // Only a figure that is used needs to be fresh, and its interval does not move times.
        if let (Some(age_s), false) = (free.age_s, free.is_fresh(facts.age_max_s)) {
            let what = format!("the free memory of {host}");
            return Err(Error::Stale { what, age_s, age_max_s: facts.age_max_s }.into());
        }
        self.aged(free.age_s);
        let free_bytes = free.quantity.value;
        if needed_bytes > free_bytes {
            return Err(Stop::Impossible(Impossible::Memory { host: host.to_owned(), needed_bytes, free_bytes }));
        }
        if most_bytes > free.quantity.lower.unwrap_or(free_bytes) {
            self.say(format!("memory of {host} may not be enough: the intervals of need and of free memory overlap"));
        }
        Ok(())
    }
}
