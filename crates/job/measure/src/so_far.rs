//! Communication of ranks while they record, as a value that merges in any order and grouping.
//!
//! It serves whoever looks on while a window goes on: the report is made of what ranks recorded between two iterations, this
//! of the time since each rank began.
//!
//! Next: `node::so_far`, which reads it, and `job::recording`, which tells it.

use serde::{Deserialize, Serialize};

/// A rank's share of communication so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankShare {
    /// World rank.
    pub rank: u32,
    /// Time in communication over the time since the rank began to record, 0 to 1.
    pub share: f64,
}

/// Communication so far of the ranks that record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommSoFar {
    /// Ranks that have begun to record.
    ranks: u32,
    /// The sum of their shares.
    share_sum: f64,
    /// The rank that communicates least, for which others wait.
    least: Option<RankShare>,
    /// The rank that communicates most.
    most: Option<RankShare>,
}

impl CommSoFar {
    /// Of one rank.
    pub fn of(rank: RankShare) -> CommSoFar {
        CommSoFar { ranks: 1, share_sum: rank.share, least: Some(rank), most: Some(rank) }
    }

    /// Of the ranks of both, which have none in common. Of ranks with equal shares the lower one stands for them.
    pub fn merged(self, other: CommSoFar) -> CommSoFar {
        let of_both = |a: Option<RankShare>, b: Option<RankShare>, sign: f64| {
            let before =
                |a: &RankShare, b: &RankShare| (sign * a.share).total_cmp(&(sign * b.share)).then(a.rank.cmp(&b.rank));
            [a, b].into_iter().flatten().min_by(before)
        };
        CommSoFar {
            ranks: self.ranks + other.ranks,
            share_sum: self.share_sum + other.share_sum,
            least: of_both(self.least, other.least, 1.0),
            most: of_both(self.most, other.most, -1.0),
        }
    }

    /// The mean share of communication over ranks; `None`: no rank has begun.
    pub fn mean(&self) -> Option<f64> {
        (self.ranks > 0).then(|| self.share_sum / f64::from(self.ranks))
    }

    /// The rank that communicates least: the slowest one, for which others wait, where they wait.
    pub fn least(&self) -> Option<RankShare> {
        self.least
    }

    /// The rank that communicates most.
    pub fn most(&self) -> Option<RankShare> {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_merge_in_any_order_and_grouping() {
        let rank = |rank, share| CommSoFar::of(RankShare { rank, share });
        let all = [rank(4, 0.5), rank(1, 0.25), rank(7, 0.75), rank(3, 0.25), rank(0, 0.75)];
        let forth = all.into_iter().fold(CommSoFar::default(), CommSoFar::merged);
        let back = all.into_iter().rev().fold(CommSoFar::default(), CommSoFar::merged);
        let grouped = (all[4].merged(all[2])).merged(all[0].merged(all[1].merged(all[3])));
        assert_eq!((forth, forth), (back, grouped));
        assert_eq!(forth.mean(), Some(0.5));
        assert_eq!(forth.least(), Some(RankShare { rank: 1, share: 0.25 }));
        assert_eq!(forth.most(), Some(RankShare { rank: 0, share: 0.75 }));
    }

    #[test]
    fn nobody_has_no_share() {
        let nobody = CommSoFar::default();
        assert_eq!((nobody.mean(), nobody.least(), nobody.most()), (None, None, None));
    }
}
