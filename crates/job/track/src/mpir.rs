//! The table that a launcher keeps for debuggers: host, program and process of each rank (MPIR process acquisition).
//!
//! `MPIR_proctable` points to `MPIR_proctable_size` entries of two addresses of text and a pid, in the order of the ranks.
//! Slurm's `srun` always fills it; Open MPI's `mpirun` only for a debugger that launched it; Hydra's symbols are there
//! unless they were stripped. So it is a second source, asked where the environment says too little, and compared with it.
//!
//! The launcher's memory is another program's: every address and length in it is doubted.
//!
//! Next: `job.rs`, which compares.

use crate::procfs::Processes;
use trimtab_types::Pid;

/// More ranks than any machine has.
const ENTRIES_MAX: u64 = 1 << 22;
/// Bytes of an entry: two addresses, a pid, and what fills it up.
const ENTRY_BYTES: u64 = 24;
/// Longest text that is read; longer ones are cut.
const TEXT_BYTES_MAX: u64 = 256;

/// One rank, as the launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it runs.
    pub(crate) host: String,
    /// Its process on that host.
    pub(crate) pid: Pid,
}

/// The table of a launcher, by rank. `None`: it keeps none. Empty: it is not filled yet, or can't be understood.
pub(crate) fn table(processes: &dyn Processes, launcher: Pid) -> Option<Vec<Entry>> {
    let at = |name: &str| processes.data_symbol(launcher, name);
    let (table, size) = (at("MPIR_proctable")?, at("MPIR_proctable_size")?);
    Some(entries(processes, launcher, table, size).unwrap_or_default())
}

fn entries(processes: &dyn Processes, launcher: Pid, table: u64, size: u64) -> Option<Vec<Entry>> {
    let first = word(&processes.memory(launcher, table, 8).ok()?, 0)?;
    let count = number(&processes.memory(launcher, size, 4).ok()?, 0)?;
    let count = u64::try_from(count).ok().filter(|count| (1..=ENTRIES_MAX).contains(count))?;
    let bytes = processes.memory(launcher, first, (count * ENTRY_BYTES) as usize).ok()?;
    let entry = |entry: &[u8]| {
        let host = text(processes, launcher, word(entry, 0)?)?;
        Some(Entry { host, pid: Pid(number(entry, 16)?) })
    };
    bytes.chunks_exact(ENTRY_BYTES as usize).map(entry).collect()
}

/// The text at an address; the page behind it may be missing.
fn text(processes: &dyn Processes, pid: Pid, address: u64) -> Option<String> {
    let to_page_end = 4096 - address % 4096;
    let read = |length: u64| processes.memory(pid, address, length as usize).ok();
    let bytes = read(TEXT_BYTES_MAX).or_else(|| read(to_page_end.min(TEXT_BYTES_MAX)))?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;

    const TABLE: u64 = 0x1000;
    const SIZE: u64 = 0x1008;

    /// `srun(5)` with a table of two ranks on two hosts.
    fn machine() -> Recorded {
        let mut machine = Recorded::default();
        let srun = machine.add(Pid(5), Pid(1), "srun");
        srun.symbols.extend([("MPIR_proctable".to_owned(), TABLE), ("MPIR_proctable_size".to_owned(), SIZE)]);
        let entry = |host: u64, pid: i32| {
            let words = [host.to_ne_bytes(), 0x3f00u64.to_ne_bytes(), u64::from(pid.unsigned_abs()).to_ne_bytes()];
            words.concat()
        };
        srun.memory.insert(TABLE, [0x2000u64.to_ne_bytes().to_vec(), 2i32.to_ne_bytes().to_vec()].concat());
        srun.memory.insert(0x2000, [entry(0x3000, 11), entry(0x4ffd, 12)].concat());
        srun.memory.insert(0x3000, b"n1\0n2\0".iter().copied().chain([7; 300]).collect());
        // The end of a page, and nothing behind it.
        srun.memory.insert(0x4ffd, b"n2\0".to_vec());
        machine
    }

    #[test]
    fn entries_are_read() {
        let entry = |host: &str, pid| Entry { host: host.to_owned(), pid: Pid(pid) };
        assert_eq!(table(&machine(), Pid(5)), Some(vec![entry("n1", 11), entry("n2", 12)]));
    }

    #[test]
    fn a_table_that_makes_no_sense_is_empty() {
        type Change = fn(&mut crate::fake::RecordedProcess);
        let cases: [(&str, Change); 4] = [
            ("empty", |srun| srun.memory.get_mut(&TABLE).expect("there")[8..12].fill(0)),
            ("negative", |srun| srun.memory.get_mut(&TABLE).expect("there")[8..12].fill(0xff)),
            ("points_nowhere", |srun| srun.memory.get_mut(&TABLE).expect("there")[..8].fill(0x11)),
            ("text_nowhere", |srun| drop(srun.memory.remove(&0x3000))),
        ];
        for (case, change) in cases {
            let mut machine = machine();
            change(machine.processes.get_mut(&Pid(5)).expect("srun"));
            assert_eq!(table(&machine, Pid(5)), Some(vec![]), "{case}");
        }
        let mut machine = machine();
        machine.processes.get_mut(&Pid(5)).expect("srun").symbols.clear();
        assert_eq!(table(&machine, Pid(5)), None);
    }
}
