//! How nodes' answers to a large job's window become one on the way up the tree.
//!
//! A node's value is what it says of its ranks, or why it can't; the latter stays beside the others, by node. Values come from the
//! network: they are checked before they are merged.
//!
//! Next: `trimtab_measure::Part` for what merges, `remote`, which reads the merged value.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_measure::{Answer, Envelope, Failed, FailedKind, Part};
use trimtab_reduce::{Bad, Filter, FilterSpec};

/// The filter's name in the tree.
const FILTER: &str = "window";
/// Longest reason of a node that is carried, bytes.
const REASON_BYTES_MAX: usize = 4096;

/// The words of some nodes on a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Of their ranks; `None`: nobody said anything.
    pub part: Option<Part>,
    /// Nodes that can't, and why.
    pub failed: BTreeMap<u32, Failed>,
}

impl Carried {
    /// A node's answer.
    pub fn of(node: u32, envelope: Envelope) -> Carried {
        match envelope.result {
            Ok(Answer::Part(part)) => Carried { part: Some(part), ..Carried::default() },
            Ok(_) => Carried::failing(node, FailedKind::Other, "an answer to another question".to_owned()),
            Err(mut failed) => {
                let end =
                    (0..=failed.text.len().min(REASON_BYTES_MAX)).rev().find(|at| failed.text.is_char_boundary(*at));
                failed.text.truncate(end.unwrap_or(0));
                Carried { part: None, failed: [(node, failed)].into() }
            }
        }
    }

    /// A node that can't.
    pub fn failing(node: u32, kind: FailedKind, text: String) -> Carried {
        let failed = Failed { host: trimtab_measure::host_name(), text, kind };
        Carried { part: None, failed: [(node, failed)].into() }
    }
}

/// The filter. Its neutral element is nothing said.
#[derive(Clone, Copy, Debug)]
pub struct Parts;

impl Filter for Parts {
    type Value = Carried;

    fn name(&self) -> &'static str {
        FILTER
    }

    fn identity(&self) -> Carried {
        Carried::default()
    }

    fn merge(&self, into: &mut Carried, other: Carried) -> Result<(), Bad> {
        if other.failed.keys().any(|node| into.failed.contains_key(node)) {
            return Err(Bad::Form { filter: FILTER, what: "a node that answered twice" });
        }
        match (&mut into.part, other.part) {
            (Some(one), Some(other)) => {
                one.merge(other).map_err(|unmergeable| Bad::Form { filter: FILTER, what: unmergeable.0 })?;
            }
            (none @ None, other) => *none = other,
            (Some(_), None) => {}
        }
        into.failed.extend(other.failed);
        Ok(())
    }

    fn check(&self, value: &Carried) -> Result<(), Bad> {
        let is_sound = value.part.as_ref().is_none_or(Part::is_sound);
        let is_short = value.failed.values().all(|failed| failed.text.len() <= REASON_BYTES_MAX);
        if is_sound && is_short { Ok(()) } else { Err(Bad::Form { filter: FILTER, what: "figures of no window" }) }
    }
}

/// The filter that merges what nodes say of a window, for a stream.
pub(crate) fn filter() -> FilterSpec {
    FilterSpec::Own(FILTER.to_owned())
}

#[cfg(test)]
mod tests;
