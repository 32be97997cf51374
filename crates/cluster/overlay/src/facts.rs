//! Facts that are the same wherever a program is: asked of one agent per build id, never of all.
//!
//! All ranks of a job run a few programs. Symbols and points of a program depend on its build id alone, so once
//! the agents have said which of them run which build, one rank of each class is asked, its master. If
//! the master is lost before it has answered, the next one is.
//!
//! Next: `trimtab-agent`'s `facts`, which asks.

use std::collections::BTreeMap;
use trimtab_reduce::RankSet;
use trimtab_types::{BuildId, Rank};

/// Longest answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The facts that are known of each build id, and which rank was asked for them.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    builds: BTreeMap<BuildId, Build>,
}

#[derive(Clone, Debug, Default)]
struct Build {
    ranks: RankSet,
    /// The rank that was asked and has neither answered nor been lost.
    master: Option<Rank>,
    answer: Option<Vec<u8>>,
}

/// Ask this rank for the facts of this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which build.
    pub build_id: BuildId,
    /// The rank to ask.
    pub master: Rank,
}

/// Why an answer wasn't taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// Somebody else is asked, or nobody.
    #[error("rank {rank} was not asked for build {build_id}: ignored")]
    NotTheMaster {
        /// The rank that answered.
        rank: Rank,
        /// For which build.
        build_id: BuildId,
    },
    /// The answer is too long.
    #[error("{byte_count} bytes of facts for build {build_id}, at most {ANSWER_BYTES_MAX}: ask for fewer functions")]
    TooLong {
        /// How long it is.
        byte_count: usize,
        /// For which build.
        build_id: BuildId,
    },
}

impl Facts {
    /// These ranks run this build; whom to ask, if nobody was.
    pub fn runs(&mut self, build_id: &BuildId, ranks: &RankSet) -> Option<Ask> {
        let build = self.builds.entry(build_id.clone()).or_default();
        build.ranks = build.ranks.union(ranks);
        build.next_master(build_id)
    }

    /// These ranks are gone; whom to ask instead of masters among them.
    pub fn lost(&mut self, ranks: &RankSet) -> Vec<Ask> {
        let replace = |(build_id, build): (&BuildId, &mut Build)| {
            build.ranks = build.ranks.minus(ranks);
            build.master = build.master.filter(|master| !ranks.contains(*master));
            build.next_master(build_id)
        };
        self.builds.iter_mut().filter_map(replace).collect()
    }

    /// A master's answer.
    pub fn answered(&mut self, build_id: &BuildId, rank: Rank, answer: Vec<u8>) -> Result<(), Unasked> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(Unasked::TooLong { byte_count: answer.len(), build_id: build_id.clone() });
        }
        match self.builds.get_mut(build_id) {
            Some(build) if build.master == Some(rank) && build.answer.is_none() => {
                build.answer = Some(answer);
                Ok(())
            }
            _ => Err(Unasked::NotTheMaster { rank, build_id: build_id.clone() }),
        }
    }

    /// The answer of a build's master.
    pub fn of(&self, build_id: &BuildId) -> Option<&[u8]> {
        self.builds.get(build_id)?.answer.as_deref()
    }
}

impl Build {
    fn next_master(&mut self, build_id: &BuildId) -> Option<Ask> {
        if self.master.is_some() || self.answer.is_some() {
            return None;
        }
        self.master = self.ranks.lowest();
        self.master.map(|master| Ask { build_id: build_id.clone(), master })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(first: u32, last: u32) -> RankSet {
        RankSet::range(Rank(first), Rank(last))
    }

    #[test]
    fn one_rank_per_build_is_asked() {
        let mut facts = Facts::default();
        let (a, b) = (BuildId("a".into()), BuildId("b".into()));
        let ask = |build_id: &BuildId, rank| Ask { build_id: build_id.clone(), master: Rank(rank) };
        assert_eq!(facts.runs(&a, &ranks(0, 99)), Some(ask(&a, 0)));
        assert_eq!(facts.runs(&a, &ranks(200, 299)), None);
        assert_eq!(facts.runs(&b, &ranks(100, 199)), Some(ask(&b, 100)));

        assert_eq!(facts.lost(&ranks(0, 4)), [ask(&a, 5)]);
        assert!(facts.answered(&a, Rank(0), vec![1]).is_err(), "the lost master's late answer");
        assert_eq!(facts.answered(&a, Rank(5), vec![2]), Ok(()));
        assert_eq!(facts.lost(&ranks(5, 5)), [], "what is known is not asked again");
        assert_eq!((facts.of(&a), facts.of(&b)), (Some(&[2][..]), None));

        assert_eq!(facts.lost(&ranks(100, 199)), [], "nobody is left to ask");
        assert_eq!(facts.runs(&b, &ranks(100, 100)), Some(ask(&b, 100)), "until one returns");
    }
}
