//! Symbols of files, read once: shared between processes of this run and kept on disk for later ones.
//!
//! The disk cache lies in `$XDG_CACHE_HOME/trimtab/symbols` (or `~/.cache`), one file per program or library, named by
//! its build id and length (a stripped copy has the same id), so that copies share an entry; a file without build id goes
//! by device, inode, size, time of change and path. It is only a shortcut: an unreadable or
//! outdated entry is made anew, and a cache that can't be written is no error.
//!
//! Next: `modules` asks for every file a process has mapped; `elsewhere` for symbols that another node has read.

use crate::decided::{Decision, Decisions, maker};
use crate::error::Error;
use crate::origin::{FileBytes, NotInMemory, file_of, from_memory};
use crate::restartable::Restartable;
use crate::users::Users;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use trimtab_os::{FileMapping, Mapping};
use trimtab_symbols::Image;
use trimtab_types::procfs::path_of_mapping;
use trimtab_types::{BuildId, FileAddr, Pid};
use trimtab_x86::{Branch, Stretches};

/// A file's symbols and bytes.
#[derive(Debug)]
pub struct LoadedImage {
    /// Symbols.
    pub image: Image,
    /// The file itself.
    pub file: FileBytes,
    /// Parts of the file, by offset, that are not known: its bytes come from memory, where somebody has written to them.
    pub(crate) unknown: Vec<Range<u64>>,
    /// True if the symbols came from the disk cache.
    pub from_cache: bool,
    branches: Branches,
    /// The functions that may change its variables, as far as that was asked.
    pub(crate) users: Users,
    restartable: OnceLock<Restartable>,
    /// The decisions about its functions: for programs without fault handlers of their own, and for those with.
    decisions: [Mutex<Decided>; 2],
    /// Where its symbols are kept on disk; what else is kept lies beside.
    place: Option<PathBuf>,
}

/// Decisions of this run, and those kept on disk once they were looked for.
#[derive(Debug, Default)]
struct Decided {
    known: Arc<Decisions>,
    looked_on_disk: bool,
}

/// New decisions that are worth keeping on disk, and as many functions that it is worth looking there.
const DECISIONS_MIN: usize = 256;

/// The known branches between its functions.
#[derive(Debug, Default)]
struct Branches {
    /// Where stretches of code begin.
    starts: OnceLock<Vec<FileAddr>>,
    /// Bytes that look like one of four-byte distance. Kept on disk.
    far: OnceLock<Vec<Branch>>,
    /// All of them, once many functions were asked about.
    all: OnceLock<Vec<Branch>>,
    /// Bytes that look like calls and jumps to functions and stubs.
    calls: OnceLock<Vec<Branch>>,
    /// Pieces of code asked about so far.
    asked: AtomicUsize,
}

/// Pieces of code after which all that look like branches are decoded at once: from there on it takes less time than
/// those around each piece.
const ASKED_FEW: usize = 1024;

/// First word of kept branches: their name and the version of how they are found.
const BRANCHES_MAGIC: u64 = u64::from_le_bytes(*b"branch\x00\x02");

impl LoadedImage {
    fn new(image: Image, file: FileBytes, from_cache: bool, place: Option<PathBuf>) -> Self {
        let (branches, users, restartable) = (Branches::default(), Users::default(), OnceLock::new());
        let (unknown, decisions) = (Vec::new(), Default::default());
        LoadedImage { image, file, unknown, from_cache, branches, users, restartable, decisions, place }
    }

    /// The decisions about its functions so far, where faults are handled by the program or not; on disk it is looked
    /// for only if that much is asked.
    pub(crate) fn decisions(&self, functions: usize, faults_stay: bool) -> Arc<Decisions> {
        let mut decided = locked(&self.decisions[usize::from(faults_stay)]);
        if functions >= DECISIONS_MIN && !decided.looked_on_disk {
            let (maker, place) = (maker(faults_stay), self.beside(kept_name(faults_stay)));
            let kept = || Decisions::from_bytes(maker?, &std::fs::read(place?).ok()?);
            *decided = Decided { known: kept().map_or_else(|| decided.known.clone(), Arc::new), looked_on_disk: true };
        }
        decided.known.clone()
    }

    /// Remembers what was decided now, and keeps it on disk if that was much.
    pub(crate) fn keep(&self, new: Vec<Decision>, faults_stay: bool) {
        let mut decided = locked(&self.decisions[usize::from(faults_stay)]);
        // Another process's decisions, made at the same time, are the same.
        if new.iter().all(|decision| decided.known.at(decision.start) == Some(decision)) {
            return;
        }
        let is_much = decided.looked_on_disk && new.len() >= DECISIONS_MIN;
        decided.known = Arc::new(decided.known.with(new));
        let (place, maker) = (self.beside(kept_name(faults_stay)), maker(faults_stay));
        if let (true, Some(place), Some(maker)) = (is_much, place, maker) {
            write_cached(&place, &decided.known.to_bytes(maker));
        }
    }

    fn beside(&self, what: &str) -> Option<PathBuf> {
        let mut name = self.place.as_ref()?.clone().into_os_string();
        name.push(".");
        name.push(what);
        Some(PathBuf::from(name))
    }

    /// Addresses in `range` that direct branches of code outside of all `own` ranges lead to. The whole file is searched
    /// the first time, which takes some milliseconds.
    pub(crate) fn branches_into(&self, range: Range<FileAddr>, own: &[Range<FileAddr>]) -> Vec<FileAddr> {
        let from_outside = |from: &FileAddr| !own.iter().any(|range| range.contains(from));
        let of_few;
        let into = if self.branches.asked.fetch_add(1, Ordering::Relaxed) < ASKED_FEW {
            of_few = self.find_branches_into(range);
            &of_few[..]
        } else {
            let all = self.branches.all.get_or_init(|| self.in_all_code(|code| code.branches()));
            let place = |address: FileAddr| all.partition_point(|(to, _)| *to < address);
            &all[place(range.start)..place(range.end)]
        };
        into.iter().filter(|(_, from)| from_outside(from)).map(|(to, _)| *to).collect()
    }

    /// Addresses of bytes that look like calls of and jumps to what begins at one of `begins`.
    pub(crate) fn calls_to<'b>(&'b self, begins: &'b BTreeSet<FileAddr>) -> impl Iterator<Item = FileAddr> + 'b {
        let all = self.branches.calls.get_or_init(|| {
            let stubs: Vec<FileAddr> = self.image.stubs.iter().map(|stub| stub.addr).collect();
            self.in_all_code(|code| code.calls(&stubs))
        });
        let place = |address: FileAddr| all.partition_point(|(to, _)| *to < address);
        begins.iter().flat_map(move |begin| &all[place(*begin)..place(*begin + 1)]).map(|(_, from)| *from)
    }

    /// The restartable sequences of its code. Nearly every file has none, which its section headers say at once.
    pub(crate) fn restartable(&self) -> &Restartable {
        self.restartable.get_or_init(|| Restartable::of(self.file.bytes()))
    }

    /// Reads what the file says will be at `address` for ever; false where the program may write.
    pub(crate) fn read_constant(&self, address: FileAddr, buffer: &mut [u8]) -> bool {
        let holds = |segment: &&trimtab_symbols::Segment| segment.contains(address);
        let is_constant = self.image.segments.iter().find(holds).is_some_and(|segment| !segment.writable);
        let offset = self.image.file_offset_of(address).filter(|_| is_constant);
        let bytes = offset.and_then(|offset| self.file.bytes().get(offset as usize..)?.get(..buffer.len()));
        bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
    }

    fn find_branches_into(&self, range: Range<FileAddr>) -> Vec<Branch> {
        let far = self.branches.far.get_or_init(|| self.kept_or_found_far());
        let segments = self.code().filter(|(_, addr)| *addr <= range.start);
        let Some((text, addr)) = segments.max_by_key(|(_, addr)| *addr) else { return Vec::new() };
        Stretches::new(text, addr, self.starts()).branches_into(range, far)
    }

    fn kept_or_found_far(&self) -> Vec<Branch> {
        let place = self.beside("branches");
        let kept = place.as_ref().and_then(|place| branches_from(&std::fs::read(place).ok()?));
        kept.unwrap_or_else(|| {
            let found = self.in_all_code(|code| code.far());
            if let Some(place) = place {
                write_cached(&place, &branches_to_bytes(&found));
            }
            found
        })
    }

    fn in_all_code(&self, find: impl Fn(&Stretches<'_>) -> Vec<Branch>) -> Vec<Branch> {
        let mut found: Vec<Branch> =
            self.code().flat_map(|(text, addr)| find(&Stretches::new(text, addr, self.starts()))).collect();
        found.sort_unstable();
        found
    }

    /// The bytes of each executable segment, and its address.
    pub(crate) fn code(&self) -> impl Iterator<Item = (&[u8], FileAddr)> {
        self.image.segments.iter().filter(|segment| segment.executable).filter_map(|segment| {
            let offset = segment.file_offset as usize;
            let text = self.file.bytes().get(offset..offset.checked_add(segment.file_size as usize)?)?;
            Some((text, segment.addr))
        })
    }

    fn starts(&self) -> &[FileAddr] {
        self.branches.starts.get_or_init(|| {
            let known = self.image.functions.iter().chain(&self.image.fragments);
            let mut starts: Vec<FileAddr> = known.map(|function| function.addr).collect();
            starts.sort_unstable();
            starts.dedup();
            starts
        })
    }
}

/// The end of the file that decisions are kept in: where a program handles faults by itself, others hold.
fn kept_name(faults_stay: bool) -> &'static str {
    if faults_stay { "faults.decisions" } else { "decisions" }
}

/// All images read so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ImageCache {
    directory: Option<PathBuf>,
    loaded: Arc<Mutex<HashMap<String, Arc<LoadedImage>>>>,
    /// Symbols of files that nobody has loaded yet, by name: from another node, or looked for on disk already.
    waiting: Arc<Mutex<HashMap<String, Image>>>,
    parses: Arc<AtomicU64>,
}

impl ImageCache {
    /// A cache in the user's cache directory.
    pub fn of_user() -> Self {
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        ImageCache { directory: base.map(|base| base.join("trimtab/symbols")), ..ImageCache::default() }
    }

    /// A cache in this directory.
    pub fn in_directory(directory: &Path) -> Self {
        ImageCache { directory: Some(directory.to_path_buf()), ..ImageCache::default() }
    }

    /// A cache in memory only.
    pub fn in_memory() -> Self {
        ImageCache::default()
    }

    /// The image of the file that `group`, mappings of process `pid`, shows; from its memory if the file can't be had.
    ///
    /// # Errors
    /// [`Error`] if it can't be read in any way, or is no program or library.
    pub(crate) fn load_mapped(&self, pid: Pid, group: &[&Mapping]) -> Result<Arc<LoadedImage>, Error> {
        let path = &group[0].path;
        match file_of(pid, group) {
            Ok((file, data)) => self.load_open(&file, &data, path),
            Err(Error::NoFile { path, reason }) => load_from_memory(pid, group)
                .map_err(|memory| Error::NoFile { reason: format!("{reason}; and from memory: {memory}"), path }),
            Err(other) => Err(other),
        }
    }

    /// How many files were read for their symbols: all that were neither on disk nor came from another node.
    pub fn parse_count(&self) -> u64 {
        self.parses.load(Ordering::Relaxed)
    }

    /// The image of a file that no process needs to have.
    ///
    /// # Errors
    /// [`Error`] if it can't be read or is no program or library.
    pub fn load_file(&self, path: &Path) -> Result<Arc<LoadedImage>, Error> {
        let shown = path.display().to_string();
        let failed = |source| Error::File { path: shown.clone(), source };
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        self.load_open(&file, &data, &shown)
    }

    /// The image of the program that a process runs; it may have mapped nothing of it yet.
    ///
    /// # Errors
    /// [`Error`] if it can't be read or is no program.
    pub fn load_program(&self, pid: Pid) -> Result<Arc<LoadedImage>, Error> {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let failed = |source| Error::File { path: link.display().to_string(), source };
        let name = std::fs::read_link(&link).map_err(failed)?;
        let file = File::open(&link).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        self.load_open(&file, &data, &path_of_mapping(name.as_os_str().as_bytes()).0)
    }

    fn load_open(&self, file: &File, data: &Metadata, path: &str) -> Result<Arc<LoadedImage>, Error> {
        let key = key_of(data, path);
        let mut loaded = locked(&self.loaded);
        if let Some(image) = loaded.get(&key) {
            return Ok(image.clone());
        }
        let file = map(file, path)?;
        let name = name_of(file.bytes()).unwrap_or_else(|| key.clone());
        let (image, from_cache) = self.image(&name, &file, path)?;
        let image = Arc::new(LoadedImage::new(image, FileBytes::Mapped(file), from_cache, self.place(&name)));
        loaded.insert(key, image.clone());
        Ok(image)
    }

    fn image(&self, name: &str, file: &FileMapping, path: &str) -> Result<(Image, bool), Error> {
        if let Some(image) = self.take_known(name) {
            return Ok((image, true));
        }
        self.parses.fetch_add(1, Ordering::Relaxed);
        let image = Image::parse(file.bytes()).map_err(|source| Error::Symbols { path: path.to_string(), source })?;
        if let Some(place) = self.place(name) {
            write_cached(&place, &image.to_cache());
        }
        Ok((image, false))
    }

    pub(crate) fn place(&self, name: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(name))
    }

    fn take_known(&self, name: &str) -> Option<Image> {
        let waiting = locked(&self.waiting).remove(name);
        waiting.or_else(|| read_cached(&self.place(name)?))
    }

    /// The name of a file that a process has mapped, and whether its symbols are here already; `None`: it has no build id.
    pub(crate) fn look_up(&self, pid: Pid, group: &[&Mapping]) -> Result<Option<(String, bool)>, Error> {
        let (file, data) = file_of(pid, group)?;
        let key = key_of(&data, &group[0].path);
        let Some(name) = name_of(map(&file, &group[0].path)?.bytes()) else { return Ok(None) };
        if locked(&self.loaded).contains_key(&key) {
            return Ok(Some((name, true)));
        }
        let known = self.take_known(&name);
        let is_known = known.is_some();
        if let Some(image) = known {
            locked(&self.waiting).insert(name.clone(), image);
        }
        Ok(Some((name, is_known)))
    }

    /// Keeps symbols, which `bytes` are on disk, for whoever loads the file of this name.
    pub(crate) fn keep_for(&self, name: &str, image: Image, bytes: &[u8]) {
        if let Some(place) = self.place(name) {
            write_cached(&place, bytes);
        }
        locked(&self.waiting).insert(name.to_owned(), image);
    }
}

/// Tells files of this machine apart.
fn key_of(data: &Metadata, path: &str) -> String {
    let time = data.mtime_nsec() ^ (data.mtime() << 30);
    format!("{:x}-{:x}-{:x}-{time:x}-{:x}", data.dev(), data.ino(), data.size(), fold(path))
}

fn map(file: &File, path: &str) -> Result<FileMapping, Error> {
    FileMapping::of(file).map_err(|source| Error::File { path: path.to_string(), source })
}

/// Symbols of what a process has in memory of a file. Nothing of it is kept: another process may have another part.
fn load_from_memory(pid: Pid, group: &[&Mapping]) -> Result<Arc<LoadedImage>, NotInMemory> {
    let found = from_memory(pid, group)?;
    let image = Image::parse(&found.bytes)?;
    let loaded = LoadedImage::new(image, FileBytes::FromMemory(found.bytes), false, None);
    Ok(Arc::new(LoadedImage { unknown: found.changed, ..loaded }))
}

/// How caches everywhere call a file with a build id; a stripped copy has the same, so its length belongs to it.
pub(crate) fn name_of(bytes: &[u8]) -> Option<String> {
    let id = trimtab_symbols::gnu_build_id_of(bytes)?;
    Some(name_with(&id, bytes.len() as u64))
}

pub(crate) fn name_with(id: &BuildId, byte_count: u64) -> String {
    format!("{id}-{byte_count:x}")
}

/// Locks it; whoever panicked while holding it left it whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_cached(place: &Path) -> Option<Image> {
    let bytes = std::fs::read(place).ok()?;
    Image::from_cache(&bytes).ok()
}

/// Writes beside and renames, so that a reader never sees half an entry.
pub(crate) fn write_cached(place: &Path, bytes: &[u8]) {
    let Some(directory) = place.parent() else { return };
    let mut beside = place.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&beside, bytes))
        .and_then(|()| std::fs::rename(&beside, place));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}

/// A magic word, a checksum, then the pairs. Public for fuzzing only, as its counterpart.
pub fn branches_to_bytes(branches: &[Branch]) -> Vec<u8> {
    let words = branches.iter().flat_map(|(to, from)| [to.0, from.0]);
    let pairs: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let mut bytes = BRANCHES_MAGIC.to_le_bytes().to_vec();
    bytes.extend(trimtab_stub::layout::checksum(&pairs).to_le_bytes());
    bytes.extend(pairs);
    bytes
}

/// The pairs again; `None` if the bytes are not whole, or not in the order that look-ups rely on.
pub fn branches_from(bytes: &[u8]) -> Option<Vec<Branch>> {
    let word = |chunk: &[u8]| chunk.try_into().map(u64::from_le_bytes).ok();
    let (magic, checksum, pairs) = (word(bytes.get(..8)?)?, word(bytes.get(8..16)?)?, bytes.get(16..)?);
    let is_whole = magic == BRANCHES_MAGIC && checksum == trimtab_stub::layout::checksum(pairs);
    if !is_whole || pairs.len() % 16 != 0 {
        return None;
    }
    let pairs = pairs.chunks_exact(16).map(|pair| Some((FileAddr(word(&pair[..8])?), FileAddr(word(&pair[8..])?))));
    pairs.collect::<Option<Vec<_>>>().filter(|pairs| pairs.is_sorted())
}

fn fold(text: &str) -> u64 {
    trimtab_stub::layout::checksum(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_kept_whole_or_not_at_all() {
        let pair = |to, from| (FileAddr(to), FileAddr(from));
        let branches = vec![pair(0x1000, 0x2000), pair(0x1008, 0x40)];
        let bytes = branches_to_bytes(&branches);
        assert_eq!(branches_from(&bytes), Some(branches));
        assert_eq!(branches_from(&branches_to_bytes(&[])), Some(Vec::new()));
        assert_eq!(
            branches_from(&branches_to_bytes(&[pair(8, 1), pair(4, 1)])),
            None,
            "look-ups would miss the second"
        );
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert_eq!(branches_from(&damaged), None, "byte {index}");
            assert_eq!(branches_from(&bytes[..index]), None, "{index} bytes");
        }
    }
}
