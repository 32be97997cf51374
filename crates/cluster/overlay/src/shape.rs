//! Where an agent stands in its tree: with a fan-out of F, the first F agents call the root, the next F the first one, and
//! so on. Agents that come one after the other share a parent, and a parent is there before its children.
//!
//! Next: `node` for what a node does with its ancestors; `trimtab-agent`'s ticket and the controller's places, which
//! arrange theirs like this.

/// The agent that agent `index` calls; `None`: the root.
pub fn parent_of(index: usize, fan_out: usize) -> Option<usize> {
    index.checked_sub(fan_out).map(|below| below / fan_out)
}

/// The agents above agent `index`, its parent first; the root comes behind them.
pub fn above(index: usize, fan_out: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(parent_of(index, fan_out), move |at| parent_of(*at, fan_out))
}

/// True if other agents, of `count` in all, call agent `index`.
pub fn has_children(index: usize, fan_out: usize, count: usize) -> bool {
    (index + 1) * fan_out < count
}
