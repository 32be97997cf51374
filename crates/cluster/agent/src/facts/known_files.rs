//! An agent's files and their symbols: what it has, reads for others, and takes from them.
//!
//! Next: `trimtab_session::ImageCache`, which keeps and checks them.

use super::SYMBOLS_BYTES_MAX;
use crate::talk::{FileState, Symbols, SymbolsPiece};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_session::{ImageCache, NamedFile};
use trimtab_types::Pid;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    /// The files that were last asked about, by name, and a process that has each.
    files: BTreeMap<String, (Pid, NamedFile)>,
    /// Symbols of which not all pieces have come: their name, length and beginning.
    taking: Option<(String, u64, Vec<u8>)>,
}

impl KnownFiles {
    /// The files that some processes run code from, as far as they are wanted of each, and which are known.
    pub(crate) fn files<W: Fn(&str) -> bool>(
        &mut self,
        cache: &ImageCache,
        processes: impl Iterator<Item = (Pid, W)>,
    ) -> Vec<FileState> {
        self.files.clear();
        let mut paths = BTreeSet::new();
        for (pid, wanted) in processes {
            // A process that has ended needs nothing.
            let found = cache.named_files(pid, &|path| !paths.contains(path) && wanted(path)).unwrap_or_default();
            for file in found {
                paths.insert(file.path.clone());
                self.files.entry(file.name.clone()).or_insert((pid, file));
            }
        }
        let state =
            |(name, (_, file)): (&String, &(Pid, NamedFile))| FileState { name: name.clone(), is_known: file.is_known };
        self.files.iter().map(state).collect()
    }

    /// Symbols of files of its own, read if need be; those that can't be read, or are too long to be sent, are left out.
    pub(crate) fn symbols(&self, cache: &ImageCache, names: &[String]) -> Vec<Symbols> {
        let symbols = |name: &String| {
            let (pid, file) = self.files.get(name)?;
            let bytes = cache.symbols_of(*pid, file).ok()??;
            (bytes.len() <= SYMBOLS_BYTES_MAX).then(|| Symbols { name: name.clone(), bytes })
        };
        names.iter().filter_map(symbols).collect()
    }

    /// Takes a piece of what another agent has read; whether it is wanted, and believed if it was the last one.
    pub(crate) fn take(&mut self, cache: &ImageCache, piece: SymbolsPiece) -> bool {
        let is_wanted = self.files.get(&piece.name).is_some_and(|(_, file)| !file.is_known);
        if !is_wanted || piece.total > SYMBOLS_BYTES_MAX as u64 {
            return false;
        }
        let begun = self.taking.take().filter(|(name, total, _)| (name, *total) == (&piece.name, piece.total));
        let (name, total, mut bytes) = begun.unwrap_or((piece.name, piece.total, Vec::new()));
        if bytes.len() as u64 != piece.from || piece.from + piece.bytes.len() as u64 > total {
            return false;
        }
        bytes.extend_from_slice(&piece.bytes);
        if (bytes.len() as u64) < total {
            self.taking = Some((name, total, bytes));
            return true;
        }
        let is_believed = cache.adopt(&name, &bytes);
        if let Some((_, file)) = self.files.get_mut(&name).filter(|_| is_believed) {
            file.is_known = true;
        }
        is_believed
    }
}
