//! The parent of each node: flat, balanced, k-nomial, from a file, or chosen from the number of leaves.
//!
//! Leaves next to each other share a parent, so that the ranks below any node are one interval and neighbours on the
//! network stay together. Children are spread evenly: 65 leaves at fan-out 64 are 33 and 32, not 64 and 1.
//!
//! Next: `shape_file` for the text form, `node` for what a node does with its ancestors.

pub use crate::bad_shape::{BadShape, NODE_COUNT_MAX};

use crate::NodeId;
use trimtab_reduce::RankSet;
use trimtab_types::Rank;

/// Largest fan-out that [`Tree::automatic`] chooses: 65,536 leaves then need three hops, and no node has more
/// connections than it can serve between two heartbeats.
pub const FAN_OUT_MAX: u32 = 48;

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
    name: Option<String>,
}

impl Tree {
    /// Every leaf is a child of the root.
    pub fn flat(leaf_count: u32) -> Result<Self, BadShape> {
        Tree::balanced(leaf_count.max(1), leaf_count)
    }

    /// As few levels as `fan_out` allows, all leaves equally deep.
    pub fn balanced(fan_out: u32, leaf_count: u32) -> Result<Self, BadShape> {
        in_range("the fan-out", fan_out, 1, NODE_COUNT_MAX as u64)?;
        in_range("the number of leaves", leaf_count, 1, NODE_COUNT_MAX as u64 / 2)?;
        if fan_out == 1 && leaf_count > 1 {
            return Err(BadShape::Range { what: "the fan-out", value: 1, low: 2, high: NODE_COUNT_MAX as u64 });
        }
        let mut depth = 1;
        while u64::from(fan_out).saturating_pow(depth) < u64::from(leaf_count) {
            depth += 1;
        }
        Ok(Tree::levels(fan_out, depth, leaf_count))
    }

    /// The fewest levels whose fan-out is at most [`FAN_OUT_MAX`], and the smallest fan-out for those levels.
    pub fn automatic(leaf_count: u32) -> Result<Self, BadShape> {
        in_range("the number of leaves", leaf_count, 1, NODE_COUNT_MAX as u64 / 2)?;
        let enough = |fan_out: u32, depth: u32| u64::from(fan_out).saturating_pow(depth) >= u64::from(leaf_count);
        let depth = (1..).find(|depth| enough(FAN_OUT_MAX, *depth)).unwrap_or(1);
        let fan_out = (1..=FAN_OUT_MAX).find(|fan_out| enough(*fan_out, depth)).unwrap_or(FAN_OUT_MAX);
        Ok(Tree::levels(fan_out, depth, leaf_count))
    }

    /// Each round, every node in the tree adopts `k - 1` more, until there are `node_count`; every node has a rank.
    pub fn k_nomial(k: u32, node_count: u32) -> Result<Self, BadShape> {
        in_range("k", k, 2, NODE_COUNT_MAX as u64)?;
        in_range("the number of nodes", node_count, 1, NODE_COUNT_MAX as u64)?;
        // Node i was adopted by the node whose base-k digits lack i's highest one.
        let mut places = vec![TreePosition { parent: None, rank: Some(Rank(0)), name: None }];
        let mut power = 1_u64;
        for node in 1..node_count {
            while power * u64::from(k) <= u64::from(node) {
                power *= u64::from(k);
            }
            let parent = NodeId((u64::from(node) % power) as u32);
            places.push(TreePosition { parent: Some(parent), rank: Some(Rank(node)), name: None });
        }
        Ok(Tree { places })
    }

    /// A tree written as text: `root:0 => a:0 b:0 ; a:0 => c:0 ;`, one root, and ranks for the leaves in the order in
    /// which they are named.
    pub fn from_text(text: &str) -> Result<Self, BadShape> {
        let parents = crate::shape_file::parse(text)?;
        let mut inner = vec![false; parents.len()];
        parents.iter().filter_map(|(_, parent)| *parent).for_each(|parent| inner[parent] = true);
        let mut ranks = (0..).map(Rank);
        let places = parents.into_iter().zip(inner).map(|((name, parent), inner)| TreePosition {
            parent: parent.map(|parent| NodeId(parent as u32)),
            rank: if inner { None } else { ranks.next() },
            name: Some(name),
        });
        Ok(Tree { places: places.collect() })
    }

    /// All leaves at `depth`, spread evenly.
    fn levels(fan_out: u32, depth: u32, leaf_count: u32) -> Self {
        let mut places = vec![TreePosition { parent: None, rank: None, name: None }];
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
                    places.push(TreePosition { parent: Some(parent), rank, name: None });
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

    /// The node's name in the file.
    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.places[node.0 as usize].name.as_deref()
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

fn in_range(what: &'static str, value: u32, low: u64, high: u64) -> Result<(), BadShape> {
    let value = u64::from(value);
    if (low..=high).contains(&value) { Ok(()) } else { Err(BadShape::Range { what, value, low, high }) }
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
            ("flat", Tree::flat(64), 65, 1, 64),
            ("flat, one past", Tree::flat(65), 66, 1, 65),
            ("one leaf", Tree::automatic(1), 2, 1, 1),
            ("full at 64", Tree::balanced(64, 64), 65, 1, 64),
            ("one past 64", Tree::balanced(64, 65), 68, 2, 33),
            ("two levels full", Tree::balanced(8, 64), 73, 2, 8),
            ("automatic, flat", Tree::automatic(48), 49, 1, 48),
            ("automatic, one past", Tree::automatic(49), 57, 2, 7),
            ("automatic, 64", Tree::automatic(64), 73, 2, 8),
            ("automatic, 65", Tree::automatic(65), 74, 2, 9),
            ("automatic, 65,536", Tree::automatic(65_536), 67_175, 3, 41),
            ("binomial", Tree::k_nomial(2, 16), 16, 4, 4),
            ("binomial, one past", Tree::k_nomial(2, 17), 17, 4, 5),
            ("4-nomial", Tree::k_nomial(4, 64), 64, 3, 9),
        ] {
            let tree = tree.unwrap();
            assert_eq!((tree.node_count(), tree.depth(), tree.fan_out()), (nodes, depth, fan_out), "{name}");
        }
    }

    #[test]
    fn neighbours_share_a_parent() {
        for leaf_count in [1, 2, 47, 48, 49, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 65_536] {
            check(&Tree::automatic(leaf_count).unwrap(), leaf_count);
            check(&Tree::balanced(64, leaf_count).unwrap(), leaf_count);
        }
    }

    #[test]
    fn what_is_no_tree() {
        assert!(Tree::flat(0).is_err());
        assert!(Tree::balanced(1, 2).is_err());
        assert!(Tree::balanced(0, 2).is_err());
        assert!(Tree::k_nomial(1, 2).is_err());
        assert!(Tree::automatic(u32::MAX).is_err());
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
