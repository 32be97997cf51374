//! The API's words, version 1: JSON over HTTPS, both ends proved by certificates.
//!
//! | request | who may | answer |
//! |---|---|---|
//! | `GET /v1/tree` | users, administrators | [`Tree`] |
//! | `POST /v1/agents` with [`Enrol`] | agents | [`Placed`] |
//! | `GET /v1/revoked` | agents | [`RevokedList`] |
//! | `POST /v1/windows` with [`Wanted`] | users, administrators | [`Begun`] |
//! | `GET /v1/windows/ID` | whoever began it | [`WindowState`] |
//! | `DELETE /v1/windows/ID` | whoever began it | nothing |
//! | `GET /v1/windows/ID/order` | agents of its nodes, once each | [`Order`] |
//! | `POST /v1/windows/ID/outcome` with [`Outcome`] | agents of its nodes | nothing |
//!
//! Jobs, their windows and calls are in [`crate::jobs`], windows that the controller itself has measured in
//! [`crate::measured`], weather in [`crate::weather`].
//!
//! Everything else is answered with [`Problem`] and a number of HTTP's: 400 it can't be understood, 403 the certificate's
//! role may not, 404 there is no such thing, 409 another version, 503 too much at once. Fields are only ever added in
//! version 1; whoever reads ignores those it doesn't know.
//!
//! Next: `client` for asking; the controller's routes answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version of what the API says, as `schema` in what people see.
pub const SCHEMA: u32 = 1;
/// Longest request or answer, in bytes: a window's ticket for 65,536 nodes.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Longest report of a window, in bytes.
pub const REPORT_BYTES_MAX: usize = 64 << 20;

/// A notice of the controller to agents, through the tree: there is something to do. It grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Say how you are, on this stream's first wave: [`Health`].
    Health,
    /// A window wants agents; ask the controller for its order.
    Window(u64),
    /// The list of revoked certificates has changed; ask the controller for it.
    Revoked,
    /// Say what a new process would get at this nice level, on this stream's first wave: [`crate::weather::AgentWeather`].
    Weather {
        /// The level.
        nice: i32,
    },
    /// A probe of the network is wanted; ask the controller for its order.
    Probe(u64),
}

/// The certificates that are good no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RevokedList {
    /// As the authority signed it, in PEM; none: there is no list.
    pub list: Option<String>,
}

/// Why something can't be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// In words.
    pub error: String,
}

/// An agent reports for duty. Its host is what its certificate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enrol {
    /// Its program's version.
    pub version: String,
    /// Where agents below it are awaited, on the address that it calls from; 0: nowhere.
    pub port: u16,
    /// A number that it chose when it was started: two agents of one host that can't be called differ in nothing else.
    #[serde(default)]
    pub start: u64,
}

/// Its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placed {
    /// The tree's number: another one after each start of the controller.
    pub tree: u64,
    /// Its number there.
    pub index: u32,
    /// The port at which the controller awaits agents, on the address that was asked.
    pub root_port: u16,
    /// From its parent towards the controller, which is not in the list.
    pub ancestors: Vec<Ancestor>,
}

/// An agent further up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ancestor {
    /// Its number in the tree.
    pub index: u32,
    /// Its host, which its certificate must name.
    pub host: String,
    /// Where it awaits others.
    #[schemars(with = "String")]
    pub address: SocketAddr,
}

/// How an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Its program's version.
    pub version: String,
    /// The number of the agent above it; none: the controller.
    pub parent: Option<u32>,
    /// How many agents call it now.
    pub children: u32,
    /// How often it lost who was above it, and found another way.
    pub failures_survived: u64,
    /// The longest time that took, in microseconds from when it noticed.
    pub alone_us_max: u64,
    /// Results that wait in it now, and the most that ever did.
    pub queue: u32,
    /// See `queue`.
    pub queue_max: u32,
    /// The most commands that it ever kept for those below.
    pub commands_max: u64,
    /// Results it had to drop, which were asked for again.
    pub dropped: u64,
    /// Seconds since it began.
    pub up_s: u64,
    /// Processor time it has used, in milliseconds.
    pub cpu_ms: u64,
    /// Its memory, in kB; none: not known.
    pub resident_kb: Option<u64>,
    /// Users' agents that run on its host for windows now.
    pub windows: u32,
    /// And how many it has started altogether.
    pub windows_started: u64,
    /// The latest thing that went wrong with a connection.
    pub trouble: Option<String>,
}

/// The connections of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tree {
    /// 1: fields are added, and nothing else changes.
    pub schema: u32,
    /// The controller.
    pub controller: Service,
    /// All agents it has heard of since it began.
    pub agents: Vec<Member>,
    /// The sum over all agents.
    pub failures_survived: u64,
}

/// The controller in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its host.
    pub host: String,
    /// Its program's version.
    pub version: String,
    /// Seconds since it began.
    pub up_s: u64,
    /// Agents that call it now.
    pub children: u32,
    /// Windows that are going on.
    pub windows: u32,
    /// The latest thing that went wrong with a connection.
    pub trouble: Option<String>,
}

/// One agent in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its number.
    pub index: u32,
    /// Its host.
    pub host: String,
    /// Where it awaits others.
    #[schemars(with = "String")]
    pub address: SocketAddr,
    /// True if it is in the tree now.
    pub connected: bool,
    /// From the controller through the tree to it and back, in microseconds; none if it did not answer.
    pub round_trip_us: Option<u64>,
    /// Its own account of its health; none if it did not answer.
    pub health: Option<Health>,
}

/// A window wants agents on nodes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// Their names.
    pub nodes: Vec<String>,
    /// The ticket that agents are started with, as text.
    pub ticket: String,
    /// The window's secret, in hexadecimal digits.
    pub secret: String,
}

/// It has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Begun {
    /// Which.
    pub id: u64,
    /// Nodes without a standing agent.
    pub missing: Vec<String>,
}

/// The state of an order for a window so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowState {
    /// Nodes whose agents have not said anything yet.
    pub waiting: Vec<String>,
    /// Nodes on which an agent was started.
    pub started: Vec<String>,
    /// Nodes on which none was, each with the reason.
    pub refused: Vec<(String, String)>,
}

/// An order to a standing agent: what to start, and for whom.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    /// The user who asks, as their certificate says.
    pub uid: u32,
    /// True if they may measure everybody's processes.
    pub is_administrator: bool,
    /// The role that had the controller begin the window in the user's name; none: the user began it.
    #[serde(default)]
    pub asked_by: Option<String>,
    /// As the window was begun with.
    pub ticket: String,
    /// As the window was begun with.
    pub secret: String,
}

/// The outcome of an order on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Why no agent was started; none: one was.
    pub refused: Option<String>,
    /// The owner of the job's processes, as the node's kernel says.
    #[serde(default)]
    pub owner: Option<u32>,
}
