//! The API's words about weather: what a new process would get on a host, and the network from one host to another. Version 1, as
//! all of [`crate::api`].
//!
//! | request | who may | answer |
//! |---|---|---|
//! | `GET /v1/weather/HOST/NICE` | users, administrators | [`HostWeather`] |
//! | `POST /v1/weather/HOST/to/PEER` | the same | [`PairFound`], after some seconds at most |
//! | `GET /v1/probes/ID/order` | the agent of its host | [`ProbeOrder`] |
//! | `POST /v1/probes/ID/outcome` with [`ProbeOutcome`] | the same | nothing |
//!
//! Next: the controller's `weather`, which answers; `trimtab-standing`'s `weather` for what agents sense.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The weather of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostWeather {
    /// The host, as its agent's certificate says.
    pub host: String,
    /// The nice level of the new process.
    pub nice: i32,
    /// When it was looked at, seconds since 1970 by the host's clock.
    pub made_unix_s: f64,
    /// How long ago that was, seconds.
    pub age_s: f64,
    /// The time between the two looks, seconds.
    pub looked_s: f64,
    /// All figures.
    pub figures: Vec<HostFigure>,
    /// The share of a processor by each way.
    pub ways: Vec<HostWay>,
    /// The latest probe at this level; none: see `no_probe`.
    pub probe: Option<HostProbe>,
    /// Why there is none.
    pub no_probe: Option<String>,
    /// The cost of sensing since the agent began, share of one processor.
    pub cost_share: f64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFigure {
    /// Its name.
    pub key: String,
    /// The value; none: see `why_not`.
    pub value: Option<f64>,
    /// How it was found.
    pub how: String,
    /// Its age, seconds.
    pub age_s: f64,
    /// Why there is no value.
    pub why_not: Option<String>,
    /// The next value; none: see `no_soon`.
    pub soon: Option<HostSoon>,
    /// Why none is forecast.
    pub no_soon: Option<String>,
}

/// A forecast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSoon {
    /// The value.
    pub value: f64,
    /// `share_inside` of values lie between this; none: too few values.
    pub lower: Option<f64>,
    /// and this.
    pub upper: Option<f64>,
    /// The share of values in the interval.
    pub share_inside: f64,
    /// How, in words.
    pub method: String,
    /// Values that it rests on.
    pub values: u32,
    /// It is of the value so many seconds after the newest one.
    pub step_s: f64,
    /// The newest one's age, seconds.
    pub age_s: f64,
}

/// The share by one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostWay {
    /// The way.
    pub way: String,
    /// The share; none: see `why_not`.
    pub share: Option<f64>,
    /// Why it says nothing.
    pub why_not: Option<String>,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostProbe {
    /// The share that it got.
    pub share: f64,
    /// How often it waited.
    pub turns: u32,
    /// Processor time, seconds.
    pub cpu_s: f64,
    /// Time, seconds.
    pub lasted_s: f64,
}

/// An agent's answer to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentWeather {
    /// For whoever asks; none: it has not looked twice yet.
    pub weather: Option<HostWeather>,
    /// Where it answers probes, and their secret; none: it can't. People never get it.
    pub answers: Option<(u16, String)>,
}

/// A probe that an agent is to make.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeOrder {
    /// The answering side, `ADDRESS:PORT`.
    pub address: String,
    /// Its secret.
    pub secret: String,
    /// Bytes that may be spent.
    pub bytes_max: u64,
    /// How long probes of this pair took before, seconds, the oldest first.
    pub took_s: Vec<f64>,
}

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeOutcome {
    /// The result; none: see `why_not`.
    pub found: Option<PairFound>,
    /// Why nothing was.
    pub why_not: Option<String>,
}

/// The network from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairFound {
    /// One way, seconds.
    pub latency_s: f64,
    /// The least.
    pub latency_least_s: f64,
    /// The most.
    pub latency_most_s: f64,
    /// Bytes a second.
    pub bandwidth_bytes_per_s: f64,
    /// How long the part lasted that bandwidth is of, seconds.
    pub lasted_s: f64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Time that it took, seconds.
    pub took_s: f64,
    /// The limit of each wait, seconds.
    pub timeout_s: f64,
}
