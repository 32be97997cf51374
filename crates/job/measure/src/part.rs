//! Nodes' answers to a large job's window that merge: the tree makes one of them.
//!
//! Next: `trimtab_window::reduce` for the values, `job::reduced` for who asks.

use crate::request::MarkerSite;
use serde::{Deserialize, Serialize};
use trimtab_window::reduce::{Beside, Marks, Seen, Sums, Unmergeable};

/// A value of some ranks, merged or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// When their iterations began.
    Marks(Marks),
    /// The common part of their recordings.
    Seen(Seen),
    /// Their sums, and from where the call that counts iterations comes on the lowest of them that has the job's.
    Sums(Box<Sums>, Option<Box<MarkerSite>>),
    /// Them beside the ends of all.
    Beside(Beside),
}

impl Part {
    /// With other ranks.
    ///
    /// # Errors
    /// They share a rank, or it is another kind of value; then nothing is changed.
    pub fn merge(&mut self, other: Part) -> Result<(), Unmergeable> {
        match (self, other) {
            (Part::Marks(one), Part::Marks(other)) => one.merge(other),
            (Part::Seen(one), Part::Seen(other)) => one.merge(other),
            (Part::Sums(one, site), Part::Sums(other, other_site)) => {
                one.merge(&other)?;
                let sites = site.take().into_iter().chain(other_site);
                *site = sites.min_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
                Ok(())
            }
            (Part::Beside(one), Part::Beside(other)) => one.merge(&other),
            _ => Err(Unmergeable("answers to different questions")),
        }
    }

    /// True if bytes of another node can be such a value.
    pub fn is_sound(&self) -> bool {
        match self {
            Part::Marks(marks) => marks.is_sound(),
            Part::Seen(seen) => seen.is_sound(),
            Part::Sums(sums, _) => sums.is_sound(),
            Part::Beside(beside) => beside.is_sound(),
        }
    }
}
