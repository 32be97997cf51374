//! Which pages of a mapped file a process has for itself: somebody, a debugger perhaps, has written to them.
//!
//! Next: `trimtab-session`'s `origin`, which must not take such pages for the file's.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use trimtab_types::Pid;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of the kernel's word about one page.
const WORD: u64 = 8;
/// In such a word: the page is in memory, in the swap space, and one of a file.
const IN_MEMORY: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// Those pages of a private file mapping that are no longer the file's, as numbers counted from the beginning of
/// `addresses`.
///
/// # Errors
/// When the kernel does not say.
pub fn private_pages(pid: Pid, addresses: Range<u64>) -> io::Result<Vec<u64>> {
    let file = File::open(format!("/proc/{pid}/pagemap"))?;
    let count = addresses.end.saturating_sub(addresses.start) / PAGE;
    let mut words = vec![0; (count * WORD) as usize];
    file.read_exact_at(&mut words, addresses.start / PAGE * WORD)?;
    let words = words.chunks_exact(WORD as usize).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let is_private = |word: u64| word & (IN_MEMORY | SWAPPED) != 0 && word & OF_FILE == 0;
    Ok((0..).zip(words).filter(|(_, word)| is_private(*word)).map(|(page, _)| page).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MappingTable, Memory};

    #[test]
    fn a_page_that_was_written_to_is_private() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = Pid(child.id() as i32);
        let is_code =
            |mapping: &&trimtab_types::procfs::Mapping| mapping.executable && mapping.path.ends_with("/sleep");
        let code = loop {
            if let Some(code) = MappingTable::of(pid).expect("maps").0.iter().find(is_code) {
                break code.clone();
            }
        };
        assert_eq!(private_pages(pid, code.start..code.end).expect("told"), Vec::<u64>::new());
        let memory = Memory::open(pid).expect("memory");
        let last = (code.end - code.start) / PAGE - 1;
        let place = code.start + last * PAGE;
        let byte = memory.read_vec(place, 1).expect("read");
        // Also if what is written is what was there.
        memory.write(place, &byte).expect("written");
        let found = private_pages(pid, code.start..code.end);
        child.kill().expect("it ends");
        child.wait().expect("it has ended");
        assert_eq!(found.expect("told"), [last]);
        assert!(private_pages(pid, code.start..code.end).is_err(), "it has ended");
    }
}
