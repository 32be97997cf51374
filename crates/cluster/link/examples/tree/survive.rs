//! Inner nodes killed, again and again, while waves flow: how long their children have no parent, and whether any
//! result is wrong.
//!
//! Next: `forest`, which kills and replaces.

use crate::Outcome;
use crate::forest::{Forest, Growth};
use crate::measure::Options;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;
use trimtab_overlay::NodeId;

/// Four inner nodes of four leaves.
const SHAPE: (u32, u32) = (4, 16);
const INNER_COUNT: usize = 4;

/// Kills one inner node after the other; before and after each loss `options.waves` results must be right.
pub fn measure(options: Options) -> Outcome<Value> {
    let mut forest =
        Forest::grow(Growth { shape: SHAPE, edges: options.edges, flow: true, patient: false, processes: 0 })?;
    let stream = forest.sums()?;
    let (mut orphaned_s, mut incomplete, mut waves) = (Vec::new(), 0, Waves::default());
    let mut check = |waves: &mut Waves, forest: &Forest| -> Outcome {
        for _ in 0..options.waves {
            let result = forest.right(stream)?;
            waves.came(result.wave)?;
            incomplete += usize::from(result.covers != forest.all());
        }
        Ok(())
    };
    for round in 0..options.rounds {
        check(&mut waves, &forest)?;
        let index = round % INNER_COUNT;
        let lost = NodeId(forest.processes[index].hosted.0);
        let orphans: Vec<NodeId> = forest.tree.nodes().filter(|node| forest.tree.parent(*node) == Some(lost)).collect();
        let killed = Instant::now();
        forest.processes[index].kill()?;
        let root = forest.root.handle().clone();
        forest.until("the orphans have a parent", || {
            let children = root.children();
            orphans.iter().all(|orphan| children.contains(orphan))
        })?;
        orphaned_s.push(killed.elapsed().as_secs_f64());
        check(&mut waves, &forest)?;
        forest.replace(index)?;
        forest.until("everybody is at home again", || root.children().len() == INNER_COUNT)?;
        forest.full()?;
    }
    // None of those before the last may be missing in the end.
    while waves.has_gaps() {
        let result = forest.right(stream)?;
        waves.came(result.wave)?;
        incomplete += usize::from(result.covers != forest.all());
    }
    Ok(json!({ "losses": options.rounds, "orphaned_s": orphaned_s, "waves": waves.count, "incomplete": incomplete }))
}

/// Which waves have come in. One that lost something on the way comes after later ones, and each comes once.
#[derive(Default)]
struct Waves {
    /// All below this one have.
    below: u64,
    later: BTreeSet<u64>,
    count: u64,
}

impl Waves {
    fn came(&mut self, wave: u64) -> Outcome {
        if wave < self.below || !self.later.insert(wave) {
            return Err(format!("wave {wave} came twice").into());
        }
        self.count += 1;
        while self.later.remove(&self.below) {
            self.below += 1;
        }
        Ok(())
    }

    fn has_gaps(&self) -> bool {
        !self.later.is_empty()
    }
}
