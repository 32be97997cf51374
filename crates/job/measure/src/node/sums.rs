//! Sums of the ranks' calls, by their call path and by their payload.
//!
//! The routine sums by the path as it had gone up it when the call was made. A path that ended where it goes on by now is
//! told as it was, and that it goes on.
//!
//! Next: `call_paths` for what a path is, `places` for its names; `trimtab-window`'s `paths` adds ranks.

use super::Window;
use super::places::frames_of;
use super::readout::{OpenCall, Reader};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use trimtab_stub::layout::SIZES_MAX;
use trimtab_window::{NamedPath, PathSample, RankSample, SizeSample};

/// Paths that a node names, those with most time; their names are most of what it tells. Calls by further ones are told as the
/// rest of their functions.
const NAMED_PATHS_MAX: usize = 256;

/// Reading paths again when their calls were made long ago: any rule that leads on is newer.
const LONG_AGO_TICKS: u64 = 0;

impl Reader<'_> {
    /// Calls by path, which is the rank's own name of it still.
    pub(super) fn paths(&self, open: &[OpenCall]) -> Vec<PathSample> {
        let mut paths: BTreeMap<(u64, u64), PathSample> = BTreeMap::new();
        let functions = self.team.selection.functions.len() as u64;
        let view = self.member.inserted.view();
        let entries = view.slots().flat_map(|slot| slot.path_sums().collect::<Vec<_>>());
        for entry in entries.filter(|entry| entry.function.load(Relaxed) < functions) {
            let sample = sample_of(&mut paths, entry.function.load(Relaxed), entry.site.load(Relaxed));
            sample.calls += entry.calls.load(Relaxed);
            sample.ticks += entry.ticks.load(Relaxed);
            sample.bytes += entry.bytes.load(Relaxed);
        }
        for call in open.iter().filter(|call| call.path != 0) {
            sample_of(&mut paths, u64::from(call.function), call.path).ticks += call.ticks;
        }
        paths.into_values().filter(|sample| sample.calls + sample.ticks + sample.bytes > 0).collect()
    }

    pub(super) fn sizes(&self) -> Vec<SizeSample> {
        let mut sizes: BTreeMap<(usize, u32), SizeSample> = BTreeMap::new();
        for slot in self.member.inserted.view().slots() {
            for function in 0..self.team.selection.functions.len() {
                for (class, held) in (0..SIZES_MAX as u32).zip(slot.sizes(function as u64)) {
                    let (calls, bytes) = (held.calls.load(Relaxed), held.bytes.load(Relaxed));
                    if calls > 0 {
                        let is_last = u64::from(class) == SIZES_MAX - 1;
                        let new = SizeSample { function, class, is_last, ..SizeSample::default() };
                        let sum = sizes.entry((function, class)).or_insert(new);
                        sum.calls += calls;
                        sum.bytes += bytes;
                    }
                }
            }
        }
        sizes.into_values().collect()
    }
}

fn sample_of(paths: &mut BTreeMap<(u64, u64), PathSample>, function: u64, path: u64) -> &mut PathSample {
    let new = PathSample { function: function as usize, path, ..PathSample::default() };
    paths.entry((function, path)).or_insert(new)
}

/// A path that some rank of this node has: its site there, and what all calls by it took.
struct Met {
    member: usize,
    site: u64,
    is_cut: bool,
    ticks: u64,
}

impl Window<'_> {
    /// Gives the paths of all samples the names that they have on all ranks, and tells what these mean.
    pub(super) fn name_paths(&mut self, samples: &mut [RankSample]) -> Vec<NamedPath> {
        let mut met: BTreeMap<u64, Met> = BTreeMap::new();
        for (member, sample) in samples.iter_mut().enumerate() {
            for path in &mut sample.paths {
                let site = path.path;
                let place = self.paths[member].place(
                    &self.team.members[member],
                    (site, LONG_AGO_TICKS),
                    &mut self.rules,
                    self.cache,
                );
                path.path = place.id;
                let one = met.entry(place.id).or_insert(Met { member, site, is_cut: place.is_cut, ticks: 0 });
                one.ticks += path.ticks;
            }
            for region in sample.team.iter_mut().flat_map(|team| &mut team.regions) {
                let (members, site) = (&self.team.members, (region.path, LONG_AGO_TICKS));
                let place = self.paths[member].place(&members[member], site, &mut self.rules, self.cache);
                let site = std::mem::replace(&mut region.path, place.id);
                let one = met.entry(place.id).or_insert(Met { member, site, is_cut: place.is_cut, ticks: 0 });
                one.ticks += region.ticks;
            }
        }
        let mut met: Vec<(u64, Met)> = met.into_iter().collect();
        met.sort_by_key(|(path, one)| (std::cmp::Reverse(one.ticks), *path));
        met.truncate(NAMED_PATHS_MAX);
        self.frames_of_paths(&met)
    }

    /// Debugging information is read once for all paths of a rank.
    fn frames_of_paths(&mut self, met: &[(u64, Met)]) -> Vec<NamedPath> {
        let mut named = Vec::with_capacity(met.len());
        for (member, paths) in self.paths.iter_mut().enumerate() {
            let own: Vec<&(u64, Met)> = met.iter().filter(|(_, one)| one.member == member).collect();
            if own.is_empty() {
                continue;
            }
            let sites: Vec<u64> = own.iter().map(|(_, one)| one.site).collect();
            let frames = frames_of(paths, &sites, self.cache);
            let pairs = own.iter().zip(frames);
            named.extend(pairs.map(|((path, one), frames)| NamedPath { path: *path, frames, is_cut: one.is_cut }));
        }
        named
    }
}
