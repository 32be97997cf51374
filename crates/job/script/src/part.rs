//! One insertion of a script in one process: its memory, its messages, its values, its removal. A process has one from the
//! start, and one more for each library that came later.
//!
//! Next: `run`, which has them all; `trimtab-session`'s `ScriptView`, the memory.

use crate::message::{Message, Reader};
use crate::target::{Loss, Target};
use trimtab_session::{Inserted, ScriptView};
use trimtab_snippet::ir::{Unit, process_word, thread_word};
use trimtab_types::of_process;

/// One insertion.
#[derive(Debug)]
pub(crate) struct Part {
    pub inserted: Inserted,
    pub pause_remove_ns: u64,
    reader: Reader,
    is_removed: bool,
}

/// A process area, and those of threads.
pub(crate) type AreaWords = (Vec<u64>, Vec<Vec<u64>>);

impl Part {
    pub(crate) fn new(inserted: Inserted, unit: &Unit) -> Part {
        Part { inserted, pause_remove_ns: 0, reader: Reader::new(unit), is_removed: false }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inserted.script().is_some_and(|script| script.is_stopped())
    }

    /// The messages that have come since the last look.
    pub(crate) fn messages(&mut self, target: &Target, unit: &Unit) -> Vec<Message> {
        let Some(script) = self.inserted.script() else { return Vec::new() };
        if script.messages_head() == self.reader.position() {
            return Vec::new();
        }
        let (ring, head) = script.messages(unit);
        let messages = self.reader.read(&ring, head, target.rank_number(), target.pid.0);
        script.messages_read(self.reader.position());
        messages
    }

    /// The process area, and those of all threads that were here.
    pub(crate) fn areas(&self, unit: &Unit) -> AreaWords {
        let areas = |script: ScriptView<'_>| (script.process_area(unit), script.thread_areas(unit));
        self.inserted.script().map(areas).unwrap_or_default()
    }

    pub(crate) fn add_loss(&self, (process, threads): &AreaWords, loss: &mut Loss) {
        let sum = |word: u32| threads.iter().filter_map(|area| area.get(word as usize / 8)).sum::<u64>();
        loss.unreadable_loads += sum(thread_word::UNREADABLE);
        loss.messages += sum(thread_word::MESSAGES_DROPPED) + self.reader.unfinished;
        loss.elapsed_unknown += sum(thread_word::ELAPSED_UNKNOWN);
        loss.skipped += sum(thread_word::SKIPPED);
        loss.threads += process.get(process_word::THREADS_DROPPED as usize / 8).copied().unwrap_or(0);
    }

    /// Takes it out; what was not as it should be.
    pub(crate) fn remove(&mut self, target: &Target) -> Option<String> {
        if std::mem::replace(&mut self.is_removed, true) {
            return None;
        }
        if let Some(script) = self.inserted.script() {
            script.set_recording(false);
        }
        let removal = match self.inserted.remove() {
            Ok(removal) => removal,
            Err(error) => return Some(of_process(target.pid, &error.to_string())),
        };
        self.pause_remove_ns = removal.pause_ns_max;
        let pid = target.pid;
        let changed = match removal.foreign.len() {
            0 => None,
            1 => Some(format!(
                "process {pid}: code at 1 place was changed meanwhile, not by trimtab, and was left as it is"
            )),
            count => Some(format!(
                "process {pid}: code at {count} places was changed meanwhile, not by trimtab, and was left as it is"
            )),
        };
        let mapped = (removal.left_mapped_bytes > 0 && changed.is_none()).then(|| {
            format!(
                "process {pid}: every byte of code is restored, but {} bytes stay mapped: {}; `trimtab undo {pid}` unmaps \
                 them later",
                removal.left_mapped_bytes,
                removal.left_because.unwrap_or_default()
            )
        });
        changed.or(mapped)
    }
}
