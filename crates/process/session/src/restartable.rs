//! Bytes of a file whose addresses the kernel knows, for those who choose patches: restartable sequences (rseq).
//!
//! A patch takes code out of its place, and a thread that runs it elsewhere would be interrupted like any other: half of
//! a sequence would run on one processor and half on another. So these bytes are left alone, and so are the four before
//! the place where an interrupted thread goes on, which the kernel compares before it sends a thread there.
//!
//! Next: `trimtab_symbols::restartable_sequences` reads them, `subject` asks.

use std::ops::Range;
use trimtab_symbols::{RestartableSequence, restartable_sequences};
use trimtab_types::{FileAddr, LoadBias, ProcAddr};

/// Bytes that the kernel looks at before the place where a thread goes on.
const MARK_BYTES: u64 = 4;

/// The restartable sequences of a file's code, by addresses of the file.
#[derive(Debug, Default)]
pub(crate) struct Restartable {
    /// In order, apart from each other.
    bytes: Vec<Range<FileAddr>>,
    /// Where threads go on, in order.
    entered: Vec<FileAddr>,
}

impl Restartable {
    /// Of the file with these bytes.
    pub(crate) fn of(file: &[u8]) -> Self {
        // Its symbols were read, so it is a file of the right kind.
        Restartable::new(&restartable_sequences(file).unwrap_or_default())
    }

    fn new(sequences: &[RestartableSequence]) -> Self {
        let code = sequences.iter().map(|sequence| sequence.code.clone());
        let marks =
            sequences.iter().map(|sequence| FileAddr(sequence.abort.0.saturating_sub(MARK_BYTES))..sequence.abort);
        let mut all: Vec<Range<FileAddr>> = code.chain(marks).collect();
        all.sort_by_key(|range| range.start);
        let mut bytes: Vec<Range<FileAddr>> = Vec::with_capacity(all.len());
        for range in all {
            match bytes.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => bytes.push(range),
            }
        }
        let mut entered: Vec<FileAddr> = sequences.iter().map(|sequence| sequence.abort).collect();
        entered.sort_unstable();
        entered.dedup();
        Restartable { bytes, entered }
    }

    /// Bytes to leave alone in these places of a process that has the file there, and addresses where interrupted threads
    /// go on; each in order, once.
    pub(crate) fn in_process(
        &self,
        bias: LoadBias,
        places: impl Iterator<Item = Range<ProcAddr>>,
    ) -> (Vec<Range<ProcAddr>>, Vec<ProcAddr>) {
        let (mut bytes, mut entered) = (Vec::new(), Vec::new());
        for place in places {
            let place = bias.to_file(place.start)..bias.to_file(place.end);
            bytes.extend(self.bytes_in(&place).map(|range| bias.to_proc(range.start)..bias.to_proc(range.end)));
            entered.extend(self.entered_in(&place).map(|address| bias.to_proc(address)));
        }
        bytes.sort_by_key(|range| range.start);
        bytes.dedup();
        entered.sort_unstable();
        entered.dedup();
        (bytes, entered)
    }

    /// Bytes to leave alone that lie in `place` or partly so, or right behind it.
    fn bytes_in<'a>(&'a self, place: &Range<FileAddr>) -> impl Iterator<Item = Range<FileAddr>> + use<'a> {
        let end = place.end;
        let first = self.bytes.partition_point(|range| range.end <= place.start);
        self.bytes[first..].iter().take_while(move |range| range.start <= end).cloned()
    }

    /// Addresses in `place` where interrupted threads go on.
    fn entered_in<'a>(&'a self, place: &Range<FileAddr>) -> impl Iterator<Item = FileAddr> + use<'a> {
        let end = place.end;
        let first = self.entered.partition_point(|at| *at < place.start);
        self.entered[first..].iter().copied().take_while(move |at| *at < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_marks_are_found_by_place() {
        let sequence =
            |code: Range<u64>, abort| RestartableSequence { code: FileAddr(code.start)..FileAddr(code.end), abort };
        // The second begins where the first ends; both are left for one place.
        let both = [sequence(0x1010..0x1020, FileAddr(0x3004)), sequence(0x1020..0x1028, FileAddr(0x3004))];
        let known = Restartable::new(&both);
        for (name, place, bytes, entered) in [
            ("around", 0x1000..0x1100, vec![(0x1010, 0x1028)], vec![]),
            ("from the middle", 0x1018..0x1100, vec![(0x1010, 0x1028)], vec![]),
            ("right before", 0x1000..0x1010, vec![(0x1010, 0x1028)], vec![]),
            ("behind", 0x1028..0x2000, vec![], vec![]),
            ("place and mark", 0x2000..0x4000, vec![(0x3000, 0x3004)], vec![0x3004]),
            ("all", 0..u64::MAX, vec![(0x1010, 0x1028), (0x3000, 0x3004)], vec![0x3004]),
        ] {
            let place = FileAddr(place.start)..FileAddr(place.end);
            let found: Vec<(u64, u64)> = known.bytes_in(&place).map(|range| (range.start.0, range.end.0)).collect();
            assert_eq!(found, bytes, "{name}");
            assert_eq!(known.entered_in(&place).map(|at| at.0).collect::<Vec<_>>(), entered, "{name}");
        }
    }
}
