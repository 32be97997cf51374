//! Symbols of files, read once: shared between processes of this run and kept on disk for later ones.
//!
//! The disk cache lies in `$XDG_CACHE_HOME/trimtab/symbols` (or `~/.cache`), one file per program or library, named by
//! its build id and length (a stripped copy has the same id), so that copies share an entry; a file without build id goes
//! by device, inode, size, time of change and path. It is only a shortcut: an unreadable or
//! outdated entry is made anew, and a cache that can't be written is no error.
//!
//! Next: `modules` asks for every file a process has mapped.

use crate::error::Error;
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use trimtab_os::FileMapping;
use trimtab_symbols::Image;
use trimtab_types::{FileAddr, Pid};
use trimtab_x86::branches_between;

/// A file's symbols and bytes.
#[derive(Debug)]
pub struct LoadedImage {
    /// Symbols.
    pub image: Image,
    /// The file itself.
    pub file: FileMapping,
    /// Whether the symbols came from the disk cache.
    pub from_cache: bool,
    branches_between: OnceLock<Vec<(u64, u64)>>,
}

impl LoadedImage {
    fn new(image: Image, file: FileMapping, from_cache: bool) -> Self {
        LoadedImage { image, file, from_cache, branches_between: OnceLock::new() }
    }

    /// Addresses in `range` that direct branches of code outside of all `own` ranges lead to. The whole file is searched
    /// the first time, which takes some milliseconds.
    pub(crate) fn branches_into(&self, range: Range<FileAddr>, own: &[Range<FileAddr>]) -> Vec<FileAddr> {
        let all = self.branches_between.get_or_init(|| self.find_branches());
        let first = all.partition_point(|(to, _)| *to < range.start.0);
        let into = all[first..].iter().take_while(|(to, _)| *to < range.end.0);
        let from_outside = |from: u64| !own.iter().any(|range| range.contains(&FileAddr(from)));
        into.filter(|(_, from)| from_outside(*from)).map(|(to, _)| FileAddr(*to)).collect()
    }

    fn find_branches(&self) -> Vec<(u64, u64)> {
        let known = self.image.functions.iter().chain(&self.image.fragments);
        let mut starts: Vec<u64> = known.map(|function| function.addr.0).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut found = Vec::new();
        for segment in self.image.segments.iter().filter(|segment| segment.executable) {
            let offset = segment.file_offset as usize;
            let Some(text) = self.file.bytes().get(offset..offset + segment.file_size as usize) else { continue };
            found.extend(branches_between(text, segment.addr.0, &starts));
        }
        found.sort_unstable();
        found
    }
}

/// All images read so far.
#[derive(Debug, Default)]
pub struct ImageCache {
    directory: Option<PathBuf>,
    loaded: Mutex<HashMap<String, Arc<LoadedImage>>>,
}

impl ImageCache {
    /// A cache in the user's cache directory.
    pub fn of_user() -> Self {
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        ImageCache { directory: base.map(|base| base.join("trimtab/symbols")), loaded: Mutex::default() }
    }

    /// A cache in memory only.
    pub fn in_memory() -> Self {
        ImageCache::default()
    }

    /// The image of the file that process `pid` sees at `path`.
    pub fn load(&self, pid: Pid, path: &str) -> Result<Arc<LoadedImage>, Error> {
        // Through the process's root, so that a program in a container is read from its own file system.
        let rooted = PathBuf::from(format!("/proc/{pid}/root{path}"));
        let unreadable = |source| Error::File { path: path.to_string(), source };
        let data = std::fs::metadata(&rooted).map_err(unreadable)?;
        let key = format!(
            "{:x}-{:x}-{:x}-{:x}-{:x}",
            data.dev(),
            data.ino(),
            data.size(),
            data.mtime_nsec() ^ (data.mtime() << 30),
            fold(path)
        );
        let mut loaded = match self.loaded.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(image) = loaded.get(&key) {
            return Ok(image.clone());
        }
        let file = FileMapping::open(&rooted).map_err(unreadable)?;
        let name = match trimtab_symbols::gnu_build_id_of(file.bytes()) {
            Some(id) => format!("{id}-{:x}", file.bytes().len()),
            None => key.clone(),
        };
        let (image, from_cache) = self.image(&name, &file, path)?;
        let image = Arc::new(LoadedImage::new(image, file, from_cache));
        loaded.insert(key, image.clone());
        Ok(image)
    }

    fn image(&self, key: &str, file: &FileMapping, path: &str) -> Result<(Image, bool), Error> {
        let place = self.directory.as_ref().map(|directory| directory.join(key));
        if let Some(image) = place.as_deref().and_then(read_cached) {
            return Ok((image, true));
        }
        let image = Image::parse(file.bytes()).map_err(|source| Error::Symbols { path: path.to_string(), source })?;
        if let Some(place) = place {
            write_cached(&place, &image);
        }
        Ok((image, false))
    }
}

fn read_cached(place: &Path) -> Option<Image> {
    let bytes = std::fs::read(place).ok()?;
    Image::from_cache(&bytes).ok()
}

/// Writes beside and renames, so that a reader never sees half an entry.
fn write_cached(place: &Path, image: &Image) {
    let Some(directory) = place.parent() else { return };
    let beside = place.with_extension(format!("{}.new", std::process::id()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&beside, image.to_cache()))
        .and_then(|()| std::fs::rename(&beside, place));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}

fn fold(text: &str) -> u64 {
    trimtab_stub::layout::checksum(text.as_bytes())
}
