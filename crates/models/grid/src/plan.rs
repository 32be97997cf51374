//! The question: data, and alternatives of steps.
//!
//! Next: `build`, which makes tasks of steps.

use crate::data::{Data, is_name};
use crate::error::Error;
use crate::quantity::Written;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the file that is understood.
pub const PLAN_VERSION: u32 = 1;
/// Alternatives of one plan: enough for all hosts of a large site.
const ALTERNATIVES_MAX: usize = 1000;
/// Steps of one alternative: each is run again for every figure's interval.
const STEPS_MAX: usize = 200;

/// A plan, as its file says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// How hosts send.
    #[serde(default)]
    pub transfers: Transfers,
    /// All data by name: with a place if they are there, without if a step gives them.
    #[serde(default)]
    pub data: BTreeMap<String, Data>,
    /// Ways to the same end.
    pub alternatives: Vec<Alternative>,
    /// An alternative whose figures are missing or stale is no error, but has the reason: for rankings.
    #[serde(skip)]
    pub is_lenient: bool,
}

/// How hosts send and receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transfers {
    /// All that can go at the same time does, and shares links.
    #[default]
    Together,
    /// Each host sends one after another, and receives one after another.
    InTurn,
}

/// One way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// Its name.
    pub name: String,
    /// Its steps: those of one host run in this order.
    pub steps: Vec<Step>,
}

/// A step: `run` on a host, or `send` to a host. Data that a step takes come by themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// The routine that is run.
    pub run: Option<String>,
    /// The host on which it is.
    pub on: Option<String>,
    /// Sizes by the names of the model's parameters: a number, or `A.rows`, `A.columns`, `A.entries`, `A.length`, `A.bytes`.
    pub args: BTreeMap<String, Argument>,
    /// Data that it needs there.
    pub takes: Vec<String>,
    /// Data that it makes there.
    pub gives: Vec<String>,
    /// Its time with a processor for itself, seconds, if no model is to be asked.
    pub seconds: Option<Written>,
    /// Memory that it needs, bytes, if no model is to be asked.
    pub memory_bytes: Option<Written>,
    /// Data that are sent,
    pub send: Option<String>,
    /// to this host.
    pub to: Option<String>,
}

/// A size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Argument {
    /// A number.
    Number(f64),
    /// A number, or a size of data: `A.rows`.
    Text(String),
}

impl Argument {
    /// Its number.
    pub(crate) fn number(&self, data: &BTreeMap<String, Data>) -> Result<f64, Error> {
        let (number, text) = match self {
            Argument::Number(number) => (Some(*number), number.to_string()),
            Argument::Text(text) => {
                let of_data = text.split_once('.').and_then(|(name, of)| data.get(name)?.size(of));
                (of_data.or_else(|| text.parse().ok()), text.clone())
            }
        };
        let wrong = || {
            Error::Plan(format!(
                "{text:?} is no size: give a number above zero, without a unit, or A.rows, A.columns, A.entries, A.length, A.bytes"
            ))
        };
        number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(wrong)
    }
}

impl Step {
    /// Sends data to a host.
    pub fn sends(data: &str, to: &str) -> Step {
        Step { send: Some(data.to_owned()), to: Some(to.to_owned()), ..Step::default() }
    }

    /// Its name in sentences.
    pub(crate) fn words(&self) -> String {
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
        match &self.send {
            Some(data) => format!("send {data} to {}", word(&self.to)),
            None => format!("run {} on {}", word(&self.run), word(&self.on)),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let runs = self.run.is_some() && self.on.is_some() && self.send.is_none() && self.to.is_none();
        let of_run = !self.args.is_empty() || !self.takes.is_empty() || !self.gives.is_empty();
        let has_needs = self.seconds.is_some() || self.memory_bytes.is_some();
        let sends = self.send.is_some() && self.to.is_some() && self.run.is_none() && self.on.is_none();
        if runs || (sends && !of_run && !has_needs) {
            return Ok(());
        }
        Err(Error::Plan(format!(
            "{}: a step has `run` and `on`, with `args`, `takes`, `gives`, `seconds`, `memory_bytes`; or `send` and `to`",
            self.words()
        )))
    }
}

impl Plan {
    /// One of data and alternatives.
    pub fn new(data: BTreeMap<String, Data>, alternatives: Vec<Alternative>) -> Plan {
        Plan { version: PLAN_VERSION, transfers: Transfers::default(), data, alternatives, is_lenient: false }
    }

    /// Hosts that run something or get something.
    pub fn hosts(&self) -> BTreeSet<String> {
        let steps = self.alternatives.iter().flat_map(|one| &one.steps);
        steps.flat_map(|step| step.on.iter().chain(&step.to)).cloned().collect()
    }

    /// Pairs of hosts between which data may go directly, sender and receiver: links that are worth a measurement.
    pub fn pairs(&self) -> BTreeSet<(String, String)> {
        let mut pairs = BTreeSet::new();
        for one in &self.alternatives {
            let giver = |name: &String| {
                let made = one.steps.iter().find(|step| step.gives.contains(name)).and_then(|step| step.on.clone());
                made.or_else(|| self.data.get(name)?.place.clone())
            };
            for step in &one.steps {
                let Some(to) = step.on.as_ref().or(step.to.as_ref()) else { continue };
                let from = step.takes.iter().chain(&step.send).filter_map(giver);
                pairs.extend(from.filter(|from| from != to).map(|from| (from, to.clone())));
            }
        }
        pairs
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Plan(text));
        if self.version != PLAN_VERSION {
            return wrong(format!("the plan has version {}, and {PLAN_VERSION} is understood", self.version));
        }
        if let Some(name) = self.data.keys().find(|name| !is_name(name)) {
            return wrong(format!("{name:?} is no name of data: letters, digits and _, a letter first"));
        }
        if self.alternatives.is_empty() || self.alternatives.len() > ALTERNATIVES_MAX {
            return wrong(format!(
                "{} alternatives: from 1 to {ALTERNATIVES_MAX} are compared",
                self.alternatives.len()
            ));
        }
        for (at, one) in self.alternatives.iter().enumerate() {
            if self.alternatives[..at].iter().any(|before| before.name == one.name) {
                return wrong(format!("two alternatives are called {:?}", one.name));
            }
            if one.steps.is_empty() || one.steps.len() > STEPS_MAX {
                return wrong(format!("{:?} has {} steps: from 1 to {STEPS_MAX} are run", one.name, one.steps.len()));
            }
            one.steps.iter().try_for_each(Step::check)?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Data {
    type Error = Error;

    fn try_from(text: String) -> Result<Data, Error> {
        Data::parse(&text)
    }
}
