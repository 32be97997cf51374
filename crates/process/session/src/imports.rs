//! Which functions of others the files of a process ask for.
//!
//! A rank of Open MPI has some 70 files mapped, and nearly all ask for nothing that is wanted; to open each takes longer
//! than to look for all measured functions. Their imports depend on their bytes alone, and the kernel tells the
//! build ids of mapped files without opening them (since Linux 6.11): what came of the same files before is kept on disk,
//! for later runs and for other nodes with the same home.
//!
//! Next: `modules` for which files there are, `image_cache` for where it is kept.

use crate::decided::engine;
use crate::image_cache::{ImageCache, write_cached};
use crate::mapped::module_mappings;
use crate::origin::file_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trimtab_os::{FileMapping, Mapping, MappingTable, build_ids_at};
use trimtab_symbols::{fingerprint, seal_as, unseal_as};
use trimtab_types::Pid;

const MAGIC: &[u8; 8] = b"trimtabI";
/// Raise it when the form of what is kept changes.
const VERSION: u32 = 1;

/// The kept result: the files' build ids, in the order of their addresses, and the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// Another program may want other names.
    engine: u64,
    files: Vec<Vec<u8>>,
    names: BTreeSet<String>,
}

impl ImageCache {
    /// Those names that `is_asked` accepts and that are imported by the files that `pid` has mapped and whose path
    /// `wanted` accepts, each once. All callers of one program ask for the same names.
    ///
    /// A file that can't be read imports nothing as far as we know; `None` says that there was one.
    pub fn imported_names(
        &self,
        pid: Pid,
        maps: &MappingTable,
        wanted: &dyn Fn(&str) -> bool,
        is_asked: &dyn Fn(&str) -> bool,
    ) -> Option<BTreeSet<String>> {
        let mut groups = module_mappings(maps);
        groups.retain(|group| wanted(&group[0].path));
        let files = build_ids_at(pid, &groups.iter().map(|group| group[0].start).collect::<Vec<u64>>());
        let place = files.as_deref().and_then(|files| self.place_of(files));
        let kept = place.as_ref().zip(files.as_ref()).and_then(|(place, files)| read_kept(place, files));
        if let Some(names) = kept {
            return Some(names);
        }
        let names = names_of(pid, &groups, is_asked)?;
        if let (Some(place), Some(files), Some(engine)) = (place, files, engine()) {
            write_cached(&place, &to_bytes(&Kept { engine, files, names: names.clone() }));
        }
        Some(names)
    }

    fn place_of(&self, files: &[Vec<u8>]) -> Option<PathBuf> {
        let name = fingerprint(&files.concat()) ^ engine()?;
        self.place(&format!("imports-{name:016x}"))
    }
}

fn names_of(pid: Pid, groups: &[Vec<&Mapping>], is_asked: &dyn Fn(&str) -> bool) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for group in groups {
        let (file, _) = file_of(pid, group).ok()?;
        let file = FileMapping::of(&file).ok()?;
        names.extend(trimtab_symbols::imported_names(file.bytes(), is_asked).ok()?);
    }
    Some(names)
}

/// The names that were found in the very same files before.
fn read_kept(place: &Path, files: &[Vec<u8>]) -> Option<BTreeSet<String>> {
    let kept = from_bytes(&std::fs::read(place).ok()?)?;
    (Some(kept.engine) == engine() && kept.files == files).then_some(kept.names)
}

fn to_bytes(kept: &Kept) -> Vec<u8> {
    // Serialising plain data into memory has no way to fail; were it to, nothing is read back.
    seal_as(MAGIC, VERSION, &postcard::to_stdvec(kept).unwrap_or_default())
}

fn from_bytes(bytes: &[u8]) -> Option<Kept> {
    let (kept, rest) = postcard::take_from_bytes(unseal_as(MAGIC, VERSION, bytes).ok()?).ok()?;
    rest.is_empty().then_some(kept)
}

/// True if bytes behind a header that fits are read, and written as they were. Public for fuzzing only.
///
/// # Panics
/// If they are written otherwise.
pub fn are_kept_imports(payload: &[u8]) -> bool {
    let Some(kept) = from_bytes(&seal_as(MAGIC, VERSION, payload)) else { return from_bytes(payload).is_some() };
    assert_eq!(from_bytes(&to_bytes(&kept)), Some(kept), "the cache gives back what it got");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn own() -> Pid {
        Pid(std::process::id() as i32)
    }

    /// The imports of this very process from its C library, and how many names were looked at for it.
    fn asked(cache: &ImageCache, maps: &MappingTable) -> (BTreeSet<String>, usize) {
        let count = Cell::new(0);
        let is_asked = |name: &str| {
            count.set(count.get() + 1);
            name == "malloc" || name == "no_such_function"
        };
        let names = cache.imported_names(own(), maps, &|_| true, &is_asked);
        (names.expect("all files can be read"), count.get())
    }

    #[test]
    fn files_are_read_once_and_their_names_kept() {
        let folder = std::env::temp_dir().join(format!("trimtab-imports-{}", std::process::id()));
        let maps = MappingTable::of(own()).expect("maps");
        let (names, looked_at) = asked(&ImageCache::in_directory(&folder), &maps);
        assert_eq!(names, BTreeSet::from(["malloc".to_owned()]));
        assert!(looked_at > 100, "{looked_at} names");
        let known = build_ids_at(own(), &[maps.0[0].start]).is_some();
        if !known {
            trimtab_specimens::skip("imports kept", "this kernel tells no build ids; Linux 6.11 and later do");
        }
        let again = asked(&ImageCache::in_directory(&folder), &maps);
        assert_eq!(again, (names.clone(), if known { 0 } else { looked_at }));
        // Damaged, it is made anew.
        let entries = || std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let entries: Vec<PathBuf> = entries().collect();
        assert_eq!(entries.len(), usize::from(known));
        for entry in &entries {
            let mut bytes = std::fs::read(entry).expect("it was written");
            *bytes.last_mut().expect("a byte") ^= 1;
            std::fs::write(entry, bytes).expect("it can be written");
        }
        assert_eq!(asked(&ImageCache::in_directory(&folder), &maps), (names.clone(), looked_at));
        // Of fewer files nothing is known.
        let fewer =
            MappingTable(maps.0.iter().filter(|mapping| !mapping.path.contains("/ld-linux")).cloned().collect());
        assert!(asked(&ImageCache::in_directory(&folder), &fewer).1 > 0);
        assert_eq!(asked(&ImageCache::in_memory(), &maps), (names, looked_at));
        std::fs::remove_dir_all(&folder).expect("it was made");
    }

    #[test]
    fn what_is_kept_is_of_these_files_and_this_program() {
        let kept = Kept { engine: 7, files: vec![vec![1, 2], vec![3]], names: BTreeSet::from(["MPI_Send".to_owned()]) };
        assert_eq!(from_bytes(&to_bytes(&kept)), Some(kept.clone()));
        let folder = std::env::temp_dir().join(format!("trimtab-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let place = folder.join("kept");
        let read = |kept: &Kept, files: &[Vec<u8>]| {
            std::fs::write(&place, to_bytes(kept)).expect("it can be written");
            read_kept(&place, files)
        };
        let own = Kept { engine: engine().expect("our own file"), ..kept.clone() };
        assert_eq!(read(&own, &kept.files), Some(kept.names.clone()));
        assert_eq!(read(&own, &[vec![1], vec![2, 3]]), None, "other files whose ids are the same in a row");
        assert_eq!(read(&kept, &kept.files), None, "another program's");
        assert_eq!(read_kept(Path::new("/no/such"), &kept.files), None);
        std::fs::remove_dir_all(&folder).expect("it was made");
    }
}
