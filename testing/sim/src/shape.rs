//! The trees of simulations and tests, numbered from the root downwards.
//!
//! In one kind all leaves are equally deep and nodes between have no rank, so that a depth can be chosen. The other kind is
//! that of agents, as windows and sites arrange them: each has a rank, and children or not.
//!
//! Next: `sim`, which runs one; `trimtab_overlay::shape` for agents' places.

use trimtab_overlay::{NodeId, shape};
use trimtab_reduce::RankSet;
use trimtab_types::Rank;

/// Most nodes of a tree.
pub const NODE_COUNT_MAX: u32 = 1 << 21;

/// There is no tree like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no tree of {rank_count} ranks has a fan-out of {fan_out}: 1 to {NODE_COUNT_MAX} ranks, and a fan-out of 2 or more beyond one"
)]
pub struct BadShape {
    fan_out: u32,
    rank_count: u32,
}

/// A tree of nodes, numbered so that each parent comes before its children; node 0 is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    places: Vec<TreePosition>,
}

/// One node's place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TreePosition {
    parent: Option<NodeId>,
    rank: Option<Rank>,
}

const ROOT: TreePosition = TreePosition { parent: None, rank: None };

impl Tree {
    /// As few levels as `fan_out` allows, all leaves equally deep, and ranks at the leaves only. Children are spread evenly:
    /// 65 leaves at fan-out 64 are 33 and 32, not 64 and 1.
    ///
    /// # Errors
    /// [`BadShape`], as for one child each.
    pub fn balanced(fan_out: u32, leaf_count: u32) -> Result<Self, BadShape> {
        is_possible(fan_out, leaf_count)?;
        let mut depth = 1;
        while u64::from(fan_out).saturating_pow(depth) < u64::from(leaf_count) {
            depth += 1;
        }
        Ok(Tree::levels(fan_out, depth, leaf_count))
    }

    /// A root and agents, each with its rank, where windows and sites have them.
    ///
    /// # Errors
    /// [`BadShape`], as for no agent.
    pub fn of_agents(fan_out: u32, count: u32) -> Result<Self, BadShape> {
        is_possible(fan_out, count)?;
        let place = |index: u32| {
            let above = shape::parent_of(index as usize, fan_out as usize);
            let parent = above.map_or(NodeId::ROOT, |above| NodeId(above as u32 + 1));
            TreePosition { parent: Some(parent), rank: Some(Rank(index)) }
        };
        Ok(Tree { places: std::iter::once(ROOT).chain((0..count).map(place)).collect() })
    }

    /// All leaves at `depth`, spread evenly over parents of at most `fan_out` children; `fan_out` to the power of `depth`
    /// must be enough for them.
    pub fn levels(fan_out: u32, depth: u32, leaf_count: u32) -> Self {
        let mut places = vec![ROOT];
        let mut level = vec![(NodeId::ROOT, 0, leaf_count)];
        for height in (0..depth).rev() {
            let leaves_each = u64::from(fan_out).saturating_pow(height);
            let mut next = Vec::new();
            for (parent, first, count) in level {
                let parts = u64::from(count).div_ceil(leaves_each) as u32;
                for part in 0..parts {
                    let bound = |part: u32| first + (u64::from(count) * u64::from(part) / u64::from(parts)) as u32;
                    let (from, to) = (bound(part), bound(part + 1));
                    let rank = (height == 0).then_some(Rank(from));
                    next.push((NodeId(places.len() as u32), from, to - from));
                    places.push(TreePosition { parent: Some(parent), rank });
                }
            }
            level = next;
        }
        Tree { places }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.places.len()
    }

    /// Every node, each parent before its children.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.places.len() as u32).map(NodeId)
    }

    /// The ranks of a node itself: one for a leaf, none inside.
    pub fn ranks(&self, node: NodeId) -> RankSet {
        self.places[node.0 as usize].rank.map_or(RankSet::EMPTY, RankSet::one)
    }

    /// The parent of a node; none for the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.places[node.0 as usize].parent
    }

    /// From the parent to the root.
    pub fn ancestors(&self, node: NodeId) -> Vec<NodeId> {
        std::iter::successors(self.parent(node), |ancestor| self.parent(*ancestor)).collect()
    }

    /// For each node, true if it has children.
    pub fn is_inner(&self) -> Vec<bool> {
        let mut inner = vec![false; self.places.len()];
        self.places.iter().filter_map(|place| place.parent).for_each(|parent| inner[parent.0 as usize] = true);
        inner
    }

    /// Hops from the root to the deepest node.
    pub fn depth(&self) -> usize {
        let mut depths = vec![0; self.places.len()];
        for (node, place) in self.places.iter().enumerate() {
            depths[node] = place.parent.map_or(0, |parent| depths[parent.0 as usize] + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The most children of any node.
    pub fn fan_out(&self) -> usize {
        let mut counts = vec![0; self.places.len()];
        self.places.iter().filter_map(|place| place.parent).for_each(|parent| counts[parent.0 as usize] += 1);
        counts.into_iter().max().unwrap_or(0)
    }
}

fn is_possible(fan_out: u32, rank_count: u32) -> Result<(), BadShape> {
    let is_possible = (1..=NODE_COUNT_MAX).contains(&rank_count) && fan_out >= 2.min(rank_count);
    if is_possible { Ok(()) } else { Err(BadShape { fan_out, rank_count }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranks 0..n once each, one interval below every node, parents before children.
    fn check(tree: &Tree, leaf_count: u32) {
        let mut below: Vec<RankSet> = tree.nodes().map(|node| tree.ranks(node)).collect();
        for node in tree.nodes().collect::<Vec<_>>().into_iter().rev() {
            let Some(parent) = tree.parent(node) else { continue };
            assert!(parent < node);
            assert!(below[parent.0 as usize].is_disjoint(&below[node.0 as usize]));
            assert_eq!(below[node.0 as usize].interval_count(), 1, "{node} of {leaf_count}");
            below[parent.0 as usize] = below[parent.0 as usize].union(&below[node.0 as usize]);
        }
        assert_eq!(below[0], RankSet::range(Rank(0), Rank(leaf_count - 1)));
    }

    #[test]
    fn depths_and_fan_outs() {
        for (name, tree, nodes, depth, fan_out) in [
            ("flat", Tree::balanced(64, 64), 65, 1, 64),
            ("one leaf", Tree::balanced(1, 1), 2, 1, 1),
            ("one past 64", Tree::balanced(64, 65), 68, 2, 33),
            ("two levels full", Tree::balanced(8, 64), 73, 2, 8),
            ("agents, flat", Tree::of_agents(32, 32), 33, 1, 32),
            ("agents, one past", Tree::of_agents(32, 33), 34, 2, 32),
            ("agents, 65,536", Tree::of_agents(32, 65_536), 65_537, 4, 32),
            ("a leaf behind an inner node", Ok(Tree::levels(1, 2, 1)), 3, 2, 1),
        ] {
            let tree = tree.unwrap();
            assert_eq!((tree.node_count(), tree.depth(), tree.fan_out()), (nodes, depth, fan_out), "{name}");
        }
    }

    #[test]
    fn neighbours_share_a_parent() {
        for leaf_count in [1, 2, 47, 48, 49, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 65_536] {
            check(&Tree::balanced(64, leaf_count).unwrap(), leaf_count);
        }
    }

    #[test]
    fn what_is_no_tree() {
        for (fan_out, rank_count) in [(8, 0), (1, 2), (0, 2), (0, 1), (8, NODE_COUNT_MAX + 1)] {
            assert!(Tree::balanced(fan_out, rank_count).is_err(), "{fan_out} {rank_count}");
            assert!(Tree::of_agents(fan_out, rank_count).is_err(), "{fan_out} {rank_count}");
        }
    }

    proptest! {
        #[test]
        fn even_at_every_size(fan_out in 2_u32..70, leaf_count in 1_u32..3000) {
            let tree = Tree::balanced(fan_out, leaf_count).unwrap();
            check(&tree, leaf_count);
            prop_assert!(tree.fan_out() <= fan_out as usize);
            let mut children = vec![0_u32; tree.node_count()];
            tree.nodes().filter_map(|node| tree.parent(node)).for_each(|parent| children[parent.0 as usize] += 1);
            let lowest: Vec<u32> = tree
                .nodes()
                .filter(|node| !tree.ranks(*node).is_empty())
                .filter_map(|node| tree.parent(node))
                .map(|parent| children[parent.0 as usize])
                .collect();
            let (least, most) = (lowest.iter().min().unwrap(), lowest.iter().max().unwrap());
            prop_assert!(most - least <= most.div_ceil(2), "{least} to {most} leaves at a parent");
        }
    }
}
