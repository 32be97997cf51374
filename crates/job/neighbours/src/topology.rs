//! How close two processors are: the same one, threads of one core, one cache, one memory.
//!
//! Next: `share`, which asks how close neighbours came to a rank.

use crate::cpus;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trimtab_types::report::Closeness;

/// The caches and cores that some processors share with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    /// Those of one core, of the last cache and of one memory, for each processor.
    near: BTreeMap<u32, [BTreeSet<u32>; 3]>,
}

impl Topology {
    /// Reads what concerns `wanted` below `sys`, `/sys/devices/system`.
    pub(crate) fn read(sys: &Path, wanted: &BTreeSet<u32>) -> Topology {
        let text = |path: &Path| cpus::parse(&std::fs::read_to_string(path).unwrap_or_default());
        let folder = sys.join("node");
        let memories: Vec<BTreeSet<u32>> =
            names(&folder, "node").map(|(_, path)| text(&path.join("cpulist"))).collect();
        let of = |cpu: &u32| {
            let folder = sys.join(format!("cpu/cpu{cpu}"));
            let caches = folder.join("cache");
            let last_cache = names(&caches, "index").max_by_key(|(index, _)| *index);
            let cache = last_cache.map_or_else(BTreeSet::new, |(_, path)| text(&path.join("shared_cpu_list")));
            let memory = memories.iter().find(|memory| memory.contains(cpu)).cloned().unwrap_or_default();
            (*cpu, [text(&folder.join("topology/thread_siblings_list")), cache, memory])
        };
        Topology { near: wanted.iter().map(of).collect() }
    }

    /// How close any of `ours`, which were read, is to any of `theirs`.
    pub(crate) fn closeness(&self, ours: &BTreeSet<u32>, theirs: &BTreeSet<u32>) -> Closeness {
        if !ours.is_disjoint(theirs) {
            return Closeness::Core;
        }
        let levels = [Closeness::Smt, Closeness::Cache, Closeness::Numa];
        let near = |level: usize| {
            ours.iter().filter_map(|cpu| self.near.get(cpu)).any(|near| !near[level].is_disjoint(theirs))
        };
        (0..levels.len()).find(|level| near(*level)).map_or(Closeness::Machine, |level| levels[level])
    }
}

/// Entries of a folder that are a word and a number.
fn names(folder: &Path, word: &str) -> impl Iterator<Item = (u32, std::path::PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let number = entry.file_name().to_str()?.strip_prefix(word)?.parse().ok()?;
        Some((number, entry.path()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two sockets, each with two cores of two threads: 0 and 4, 1 and 5 in the first, 2 and 6, 3 and 7 in the second.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        for cpu in 0..8 {
            let (first, socket) = (cpu % 4, if cpu % 4 < 2 { "0-1,4-5\n" } else { "2-3,6-7\n" });
            write(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &format!("{first},{}\n", first + 4));
            write(format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), &format!("{first},{}\n", first + 4));
            write(format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"), socket);
        }
        write("node/node0/cpulist".into(), "0-7\n");
        folder
    }

    #[test]
    fn closeness_follows_the_machine() {
        let folder = machine();
        let set = |cpus: &[u32]| cpus.iter().copied().collect::<BTreeSet<u32>>();
        let topology = Topology::read(folder.path(), &set(&[0, 1]));
        for (name, ours, theirs, expected) in [
            ("the same", &[0u32][..], &[0u32][..], Closeness::Core),
            ("one of several", &[0, 1], &[7, 1], Closeness::Core),
            ("threads of a core", &[0], &[4], Closeness::Smt),
            ("one cache", &[0], &[5], Closeness::Cache),
            ("one memory", &[0], &[2], Closeness::Numa),
            ("elsewhere", &[0], &[9], Closeness::Machine),
            ("nowhere seen", &[0], &[], Closeness::Machine),
        ] {
            assert_eq!(topology.closeness(&set(ours), &set(theirs)), expected, "{name}");
        }
    }
}
