//! Questions about data and routines on hosts and links, each as the plan that answers it.
//!
//! Next: `trimtab-grid`, which compares plans; `grid_stored` for what a store knows of hosts and links.

use crate::error::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_grid::{Alternative, Argument, Data, GivenFacts, Plan, Step, Transfers};

/// Figures that are older, seconds, are refused where nobody says otherwise.
const AGE_MAX_S: f64 = 600.0;
/// Data of a short question, at most.
const SHORT_DATA_MAX: usize = 8;

/// Which of the four questions it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GridKind {
    /// Data to a host.
    Comm,
    /// A routine on a host, with its data.
    Total,
    /// A routine on each host, ranked.
    Place,
    /// Alternatives.
    Plan,
}

/// How long data take to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommAsked {
    /// The data by name, each with its host: `"A": "dense:double:4096x4096@n1"`. All are sent at the same time.
    pub data: BTreeMap<String, Data>,
    /// The host that gets them.
    pub to: String,
    /// True if each host sends and receives one after another.
    #[serde(default)]
    pub in_turn: bool,
    /// Hosts and links as they are thought; what the site knows if they are left out.
    #[serde(default)]
    pub facts: Option<GivenFacts>,
    /// Figures older than so many seconds are refused; 600 if it is left out.
    #[serde(default = "age_s")]
    pub age_s: f64,
}

/// How long a routine takes on a host, with its data brought there and its results sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TotalAsked {
    /// The model's name.
    pub model: String,
    /// The host.
    pub host: String,
    /// The size of each parameter: a number, or from data, as `"A.rows"`.
    #[serde(default)]
    pub args: BTreeMap<String, Argument>,
    /// Data that it needs, each with its host.
    #[serde(default)]
    pub data: BTreeMap<String, Data>,
    /// Data that it makes, each with the host that gets them.
    #[serde(default)]
    pub result: BTreeMap<String, Data>,
    /// True if each host sends and receives one after another.
    #[serde(default)]
    pub in_turn: bool,
    /// Hosts and links as they are thought; what the site knows if they are left out.
    #[serde(default)]
    pub facts: Option<GivenFacts>,
    /// Figures older than so many seconds are refused; 600 if it is left out.
    #[serde(default = "age_s")]
    pub age_s: f64,
}

/// Where a routine ends first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceAsked {
    /// The model's name.
    pub model: String,
    /// These hosts; all that are known if none is given.
    #[serde(default)]
    pub on: Vec<String>,
    /// The size of each parameter: a number, or from data, as `"A.rows"`.
    #[serde(default)]
    pub args: BTreeMap<String, Argument>,
    /// Data that it needs, each with its host.
    #[serde(default)]
    pub data: BTreeMap<String, Data>,
    /// Data that it makes, each with the host that gets them.
    #[serde(default)]
    pub result: BTreeMap<String, Data>,
    /// True if each host sends and receives one after another.
    #[serde(default)]
    pub in_turn: bool,
    /// Hosts and links as they are thought; what the site knows if they are left out.
    #[serde(default)]
    pub facts: Option<GivenFacts>,
    /// Figures older than so many seconds are refused; 600 if it is left out.
    #[serde(default = "age_s")]
    pub age_s: f64,
}

/// Which alternative of a plan ends first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanAsked {
    /// The plan, as its file says it.
    pub plan: Plan,
    /// Hosts and links as they are thought; what the site knows if they are left out.
    #[serde(default)]
    pub facts: Option<GivenFacts>,
    /// Figures older than so many seconds are refused; 600 if it is left out.
    #[serde(default = "age_s")]
    pub age_s: f64,
}

const NO_HOST: &str = "no host is known: run `trimtab weather` first, or say what is known (--weather FILE, --controller HOST, \"facts\")";

fn age_s() -> f64 {
    AGE_MAX_S
}

/// One of the four.
#[derive(Clone, Debug, PartialEq)]
pub enum GridAsked {
    /// Data to a host.
    Comm(CommAsked),
    /// A routine on a host.
    Total(TotalAsked),
    /// A routine on each host.
    Place(PlaceAsked),
    /// Alternatives.
    Plan(PlanAsked),
}

impl From<CommAsked> for GridAsked {
    fn from(asked: CommAsked) -> Self {
        GridAsked::Comm(asked)
    }
}

impl From<TotalAsked> for GridAsked {
    fn from(asked: TotalAsked) -> Self {
        GridAsked::Total(asked)
    }
}

impl From<PlaceAsked> for GridAsked {
    fn from(asked: PlaceAsked) -> Self {
        GridAsked::Place(asked)
    }
}

impl From<PlanAsked> for GridAsked {
    fn from(asked: PlanAsked) -> Self {
        GridAsked::Plan(asked)
    }
}

impl GridAsked {
    /// Which one.
    pub fn kind(&self) -> GridKind {
        match self {
            GridAsked::Comm(_) => GridKind::Comm,
            GridAsked::Total(_) => GridKind::Total,
            GridAsked::Place(_) => GridKind::Place,
            GridAsked::Plan(_) => GridKind::Plan,
        }
    }

    /// The model whose name is asked for; `None`: a plan may name several, and data need none.
    pub fn model(&self) -> Option<&str> {
        match self {
            GridAsked::Total(asked) => Some(&asked.model),
            GridAsked::Place(asked) => Some(&asked.model),
            GridAsked::Comm(_) | GridAsked::Plan(_) => None,
        }
    }

    /// True for few data to or from one host: such a question is answered soon.
    pub fn is_short(&self) -> bool {
        match self {
            GridAsked::Comm(asked) => asked.data.len() <= SHORT_DATA_MAX,
            GridAsked::Total(asked) => asked.data.len() + asked.result.len() <= SHORT_DATA_MAX,
            GridAsked::Place(_) | GridAsked::Plan(_) => false,
        }
    }

    /// The facts that came with it.
    pub fn take_facts(&mut self) -> Option<GivenFacts> {
        match self {
            GridAsked::Comm(asked) => asked.facts.take(),
            GridAsked::Total(asked) => asked.facts.take(),
            GridAsked::Place(asked) => asked.facts.take(),
            GridAsked::Plan(asked) => asked.facts.take(),
        }
    }

    /// The age of figures that is accepted, seconds.
    ///
    /// # Errors
    /// [`Error::Question`]: none can be so old.
    pub fn age_max_s(&self) -> Result<f64, Error> {
        let age_s = match self {
            GridAsked::Comm(asked) => asked.age_s,
            GridAsked::Total(asked) => asked.age_s,
            GridAsked::Place(asked) => asked.age_s,
            GridAsked::Plan(asked) => asked.age_s,
        };
        match age_s.is_finite() && age_s > 0.0 {
            true => Ok(age_s),
            false => Err(Error::Question(format!("age_s is above 0, and not {age_s}"))),
        }
    }

    /// The plan that answers it; `known` are the hosts of which something is known.
    ///
    /// # Errors
    /// [`Error::Question`]: data without a place, one name twice, or no host at all.
    pub fn plan(&self, known: &[String]) -> Result<Plan, Error> {
        match self {
            GridAsked::Comm(asked) => asked.plan(),
            GridAsked::Total(asked) => Work {
                model: &asked.model,
                args: &asked.args,
                data: &asked.data,
                results: &asked.result,
                in_turn: asked.in_turn,
            }
            .plan(std::slice::from_ref(&asked.host)),
            GridAsked::Place(asked) => {
                let hosts = if asked.on.is_empty() { known } else { &asked.on };
                if hosts.is_empty() {
                    return Err(Error::Unknown(NO_HOST.to_owned()));
                }
                let work = Work {
                    model: &asked.model,
                    args: &asked.args,
                    data: &asked.data,
                    results: &asked.result,
                    in_turn: asked.in_turn,
                };
                Ok(Plan { is_lenient: true, ..work.plan(hosts)? })
            }
            GridAsked::Plan(asked) => Ok(asked.plan.clone()),
        }
    }
}

fn transfers(in_turn: bool) -> Transfers {
    if in_turn { Transfers::InTurn } else { Transfers::Together }
}

fn has_places(data: &BTreeMap<String, Data>) -> Result<(), Error> {
    match data.iter().find(|(_, data)| data.place.is_none()) {
        Some((name, _)) => Err(Error::Question(format!("{name} has no place: write @HOST behind it"))),
        None => Ok(()),
    }
}

impl CommAsked {
    fn plan(&self) -> Result<Plan, Error> {
        if self.data.is_empty() {
            return Err(Error::Question("no data are given that could be sent".to_owned()));
        }
        has_places(&self.data)?;
        let steps = self.data.keys().map(|name| Step::sends(name, &self.to)).collect();
        let alternatives = vec![Alternative { name: self.to.clone(), steps }];
        Ok(Plan { transfers: transfers(self.in_turn), ..Plan::new(self.data.clone(), alternatives) })
    }
}

/// A routine with its data.
struct Work<'a> {
    model: &'a str,
    args: &'a BTreeMap<String, Argument>,
    data: &'a BTreeMap<String, Data>,
    results: &'a BTreeMap<String, Data>,
    in_turn: bool,
}

impl Work<'_> {
    /// One alternative for each host: the routine there, with its data before and its results afterwards.
    fn plan(&self, hosts: &[String]) -> Result<Plan, Error> {
        has_places(self.data)?;
        has_places(self.results)?;
        let mut data = self.data.clone();
        for (name, result) in self.results {
            let made = Data { place: None, ..result.clone() };
            if data.insert(name.clone(), made).is_some() {
                let why = format!("{name} is both data and a result: each needs a name of its own");
                return Err(Error::Question(why));
            }
        }
        let run = |host: &String| Step {
            run: Some(self.model.to_owned()),
            on: Some(host.clone()),
            args: self.args.clone(),
            takes: self.data.keys().cloned().collect(),
            gives: self.results.keys().cloned().collect(),
            ..Step::default()
        };
        let sent =
            || self.results.iter().filter_map(|(name, result)| Some(Step::sends(name, result.place.as_deref()?)));
        let alternative = |host: &String| {
            let steps = std::iter::once(run(host)).chain(sent()).collect();
            Alternative { name: host.clone(), steps }
        };
        let alternatives = hosts.iter().map(alternative).collect();
        Ok(Plan { transfers: transfers(self.in_turn), ..Plan::new(data, alternatives) })
    }
}
