//! Symbols that another node has read.
//!
//! They depend on a file's bytes alone, so of all nodes that run a program one needs to read it. Files go by their build
//! id and length here, as on disk; one without build id is read wherever it is. An image that comes is believed if it is
//! whole, of this version, and says itself that it is of the file it came for.
//!
//! Next: `image_cache`, which keeps it; `trimtab-agent` asks and sends.

use crate::error::Error;
use crate::image_cache::{ImageCache, LoadedImage, name_of, name_with};
use crate::mapped::{check_own_memory, module_mappings};
use std::sync::Arc;
use trimtab_os::MappingTable;
use trimtab_symbols::Image;
use trimtab_types::Pid;

/// A file that a process runs code from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// How caches everywhere call it.
    pub name: String,
    /// As the process mapped it.
    pub path: String,
    /// True if its symbols are here already.
    pub is_known: bool,
}

impl ImageCache {
    /// The files with a build id that a process runs code from and whose path `wanted` accepts. None is read for its
    /// symbols; one that can't be opened is left out, and whoever needs it will say so.
    ///
    /// # Errors
    /// When the process is gone or has no memory of its own.
    pub fn named_files(&self, pid: Pid, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<NamedFile>, Error> {
        check_own_memory(pid)?;
        let maps = MappingTable::of(pid)?;
        let mut files = Vec::new();
        for group in module_mappings(&maps).iter().filter(|group| wanted(&group[0].path)) {
            let path = group[0].path.clone();
            if let Ok(Some((name, is_known))) = self.look_up(pid, group) {
                files.push(NamedFile { name, path, is_known });
            }
        }
        Ok(files)
    }

    /// The symbols of a file as bytes for [`ImageCache::adopt`] on another node; `None`: another file is in its place now.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn symbols_of(&self, pid: Pid, file: &NamedFile) -> Result<Option<Vec<u8>>, Error> {
        let loaded = self.load(pid, &file.path)?;
        let is_it = name_of(loaded.file.bytes()).as_ref() == Some(&file.name);
        Ok(is_it.then(|| loaded.image.to_cache()))
    }

    /// The file that process `pid` has mapped under `path`.
    fn load(&self, pid: Pid, path: &str) -> Result<Arc<LoadedImage>, Error> {
        let maps = MappingTable::of(pid)?;
        let groups = module_mappings(&maps);
        let unmapped = || Error::NoFile { path: path.to_owned(), reason: "it is not mapped any more".into() };
        self.load_mapped(pid, groups.iter().find(|group| group[0].path == path).ok_or_else(unmapped)?)
    }

    /// Takes in the symbols of a file that another node has read; whether they are believed.
    pub fn adopt(&self, name: &str, bytes: &[u8]) -> bool {
        let image = Image::from_cache(bytes).ok();
        let of_it = image.filter(|image| name_with(&image.build_id, image.file_size_bytes) == name);
        of_it.map(|image| self.keep_for(name, image, bytes)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library, as this very process has it.
    fn libc(cache: &ImageCache) -> (Pid, NamedFile) {
        let own = Pid(std::process::id() as i32);
        let mut files = cache.named_files(own, &|path| path.contains("libc.so")).expect("own files");
        assert_eq!(files.len(), 1, "{files:?}");
        (own, files.remove(0))
    }

    #[test]
    fn symbols_from_elsewhere_spare_the_reading() {
        let (reads, takes) = (ImageCache::in_memory(), ImageCache::in_memory());
        let (own, file) = libc(&takes);
        assert!(!file.is_known);
        let bytes = reads.symbols_of(own, &file).expect("readable").expect("the same file");
        assert!(takes.adopt(&file.name, &bytes));
        assert!(libc(&takes).1.is_known);
        let taken = takes.load(own, &file.path).expect("readable");
        let read = reads.load(own, &file.path).expect("readable");
        assert_eq!((taken.from_cache, &taken.image), (true, &read.image));
        assert_eq!((reads.parse_count(), takes.parse_count()), (1, 0));
        assert!(libc(&takes).1.is_known, "also once it is loaded");
    }

    #[test]
    fn what_is_damaged_or_of_another_file_is_not_believed() {
        let cache = ImageCache::in_memory();
        let (own, file) = libc(&cache);
        let bytes = cache.symbols_of(own, &file).expect("readable").expect("the same file");
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        let other = format!("{}0", file.name);
        for (case, name, bytes) in
            [("another_file", &other, &bytes[..]), ("damaged", &file.name, &damaged), ("cut", &file.name, &bytes[1..])]
        {
            assert!(!ImageCache::in_memory().adopt(name, bytes), "{case}");
        }
        let replaced = NamedFile { name: other, ..file };
        assert_eq!(cache.symbols_of(own, &replaced).expect("readable"), None, "it was replaced meanwhile");
    }
}
