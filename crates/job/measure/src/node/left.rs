//! Has a loop that nobody passes any more been left, or does a pass of it take long? The stacks of the ranks tell.
//!
//! The probes stay in meanwhile: return addresses are the program's own, and where the loop's code lies is read from its
//! file, not from the patched memory.
//!
//! Next: `job::recording`, which asks; `nest` for the samples.

use super::Window;
use super::nest::NestSampler;
use crate::options::numbered;
use crate::request::LoopLeft;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use trimtab_session::{Modules, each_of};
use trimtab_types::report::LoopPlace;
use trimtab_types::{FileAddr, Pid};

/// Looks at each rank, and the time between two.
const LOOKS: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(7);

impl Window<'_> {
    /// Looks where the ranks are.
    pub(super) fn see_loop(&self, function: u32) -> LoopLeft {
        let place = self.team.selection.functions.get(function as usize).and_then(|info| info.loop_place.clone());
        place.and_then(|place| self.look_for(&place)).unwrap_or_default()
    }

    /// The ranks that are measured, each with its process.
    pub(super) fn targets(&self) -> Vec<(u32, Pid)> {
        self.team.members.iter().map(|member| (member.process.rank.0, member.process.pid)).collect()
    }

    /// `None`: the loop's code or the stacks can't be read.
    fn look_for(&self, place: &LoopPlace) -> Option<LoopLeft> {
        let blocks = self.blocks_of(place)?;
        let targets = self.targets();
        let mut sampler = NestSampler::new(&targets, self.cache).ok()?;
        for _ in 0..LOOKS {
            sampler.look().ok()?;
            std::thread::sleep(LOOK_EVERY);
        }
        let mut seen = BTreeSet::new();
        let mut is_inside = false;
        for stack in sampler.stacks() {
            seen.insert(stack.rank);
            is_inside |= stack.calls.iter().any(|call| {
                let is_file = sampler.module(call.function).file_name() == place.module;
                is_file && blocks.iter().any(|block| block.contains(&call.at))
            });
        }
        let cost = sampler.cost();
        Some(LoopLeft {
            is_left: !is_inside && seen.len() == targets.len(),
            pause_us_max: cost.pause_ns_max as f64 / 1e3,
            pause_us_total: cost.pauses_ns.iter().copied().max().unwrap_or(0) as f64 / 1e3,
        })
    }

    /// The code of a loop, from its file.
    fn blocks_of(&self, place: &LoopPlace) -> Option<Vec<Range<FileAddr>>> {
        let first = self.team.members.first()?;
        let loaded = first.modules.modules.iter().find(|module| module.file_name() == place.module)?;
        let modules = Modules::of_file(Path::new(&loaded.path), self.cache).ok()?;
        let module = modules.modules.first()?;
        if module.loaded.image.build_id != loaded.loaded.image.build_id {
            // Another file has its name by now.
            return None;
        }
        let header = FileAddr(u64::from_str_radix(place.address.trim_start_matches("0x"), 16).ok()?);
        let numbers = numbered(&place.number)?;
        let image = &module.loaded.image;
        let function = image.function_at(header).map(|function| function.addr);
        let function = function.or_else(|| image.frame_at(header).map(|frame| frame.addr))?;
        let in_file = |address| module.bias.to_file(address);
        let blocks = modules.look_inside(module.bias.to_proc(function), |inside| {
            let found =
                each_of(&numbers).map(|number| inside.flow.loop_numbered(number)).collect::<Option<Vec<_>>>()?;
            let range = |block: &usize| &inside.flow.blocks[*block].range;
            let all = found.into_iter().flat_map(|found| &found.blocks);
            Some(all.map(|block| in_file(range(block).start)..in_file(range(block).end)).collect())
        });
        blocks.ok().flatten()
    }
}
