//! The factors of parallel efficiency: how much of the ranks' time is computation, and which of its causes takes the rest.
//!
//! Next: `trimtab-window`'s `efficiency` computes them; docs/report.md has their definitions.

use super::words::Factor;
use serde::{Deserialize, Serialize};

/// POP's factors of a window, each a share of 0 to 1; 1 is ideal. A rank's useful time is its time outside communication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Efficiencies {
    /// Mean useful time of the ranks / the longest window of a rank: load balance x communication.
    pub parallel: f64,
    /// Mean useful time / largest useful time.
    pub load_balance: f64,
    /// The part of it inside of nodes: mean useful time on the node with the largest mean / largest useful time;
    /// `None`: one node.
    pub load_balance_within_nodes: Option<f64>,
    /// The part of it between nodes: mean useful time / largest mean of a node; `None`: one node.
    pub load_balance_between_nodes: Option<f64>,
    /// Largest useful time / the longest window of a rank: serialisation x transfer.
    pub communication: f64,
    /// The part that ranks keep although they wait for each other although the work is balanced in sum: communication / transfer.
    pub serialisation: Option<f64>,
    /// The part that is left if messages take no time: largest sum of useful and waiting time / the longest window of a rank.
    pub transfer: Option<f64>,
    /// Why serialisation and transfer are `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_missing: Option<String>,
    /// The factor that costs most; `None`: each is 0.95 or more.
    pub work_on_first: Option<Factor>,
}
