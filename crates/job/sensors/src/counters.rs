//! Counters of a whole machine as the kernel writes them: processors, pressure, disks.
//!
//! Next: `share` and `disks`, which take differences.

use std::collections::BTreeMap;

/// Processors listed in a file, at most: a damaged one must not fill memory.
const PROCESSORS_MAX: usize = 1 << 16;

/// Clock ticks of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Processes of users, niced ones included.
    pub user: u64,
    /// The kernel in the name of processes.
    pub system: u64,
    /// Nobody wanted it.
    pub idle: u64,
    /// Interrupts, which no process can have.
    pub interrupts: u64,
    /// Given to others by the host.
    pub stolen: u64,
}

/// All processors at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// By number.
    pub each: BTreeMap<u32, Ticks>,
    /// Processes that run or want to at this moment.
    pub running: u32,
}

/// Time that somebody lacked something, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Microseconds in which some process waited.
    pub some_us: u64,
}

/// One disk's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds in which it had something to do.
    pub busy_ms: u64,
}

impl Ticks {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.user + self.system + self.idle + self.interrupts + self.stolen
    }

    /// From an earlier moment on; `None`: a counter went back, as where a processor was switched off and on.
    pub(crate) fn since(&self, earlier: &Ticks) -> Option<Ticks> {
        Some(Ticks {
            user: self.user.checked_sub(earlier.user)?,
            system: self.system.checked_sub(earlier.system)?,
            // The kernel lets idle time go back by a tick.
            idle: self.idle.saturating_sub(earlier.idle),
            interrupts: self.interrupts.checked_sub(earlier.interrupts)?,
            stolen: self.stolen.checked_sub(earlier.stolen)?,
        })
    }
}

/// Reads `/proc/stat`; `None`: it names no processor.
pub fn parse_processors(text: &str) -> Option<Processors> {
    let mut found = Processors::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("procs_running ") {
            found.running = rest.trim().parse().ok()?;
        }
        let Some((number, words)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        if let Ok(number) = number.parse::<u32>()
            && found.each.len() < PROCESSORS_MAX
        {
            found.each.insert(number, ticks(words)?);
        }
    }
    (!found.each.is_empty()).then_some(found)
}

fn ticks(words: &str) -> Option<Ticks> {
    const KINDS: usize = 8;
    let kinds: Vec<u64> = words.split_whitespace().take(KINDS).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, irq, softirq, stolen] = kinds.try_into().ok()?;
    // Numbers near the end of what fits are damaged ones.
    let sum = |one: u64, other: u64| one.checked_add(other).filter(|sum| *sum < 1 << 60);
    Some(Ticks {
        user: sum(user, nice)?,
        system: sum(system, 0)?,
        idle: sum(idle, waiting)?,
        interrupts: sum(irq, softirq)?,
        stolen: sum(stolen, 0)?,
    })
}

/// Reads a file of pressure, of the machine or of a control group.
pub fn parse_pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Pressure { some_us: total.parse().ok()? })
}

/// Reads `/proc/diskstats`; lines that can't be understood are left out.
pub fn parse_disks(text: &str) -> BTreeMap<String, Disk> {
    /// Bytes in what the kernel counts, whatever the disk's own.
    const SECTOR_BYTES: u64 = 512;
    let disk = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let counted = Disk {
            read_bytes: number(5)?.checked_mul(SECTOR_BYTES)?,
            written_bytes: number(9)?.checked_mul(SECTOR_BYTES)?,
            busy_ms: number(12)?,
        };
        Some(((*words.get(2)?).to_owned(), counted))
    };
    text.lines().filter_map(disk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "cpu  5536265 3519399 1427979 1986970 18982 0 23350 3457 0 0\n\
        cpu0 2759768 1740494 701494 1037230 5849 0 9681 1766 0 0\n\
        cpu1 2776497 1778905 726484 949739 13133 0 13669 1691 0 0\n\
        intr 7 0 1\nprocs_running 9\nprocs_blocked 0\n";

    #[test]
    fn processors_are_read() {
        let found = parse_processors(STAT).expect("two processors");
        assert_eq!((found.each.len(), found.running), (2, 9));
        let first = Ticks { user: 4_500_262, system: 701_494, idle: 1_043_079, interrupts: 9681, stolen: 1766 };
        assert_eq!(found.each[&0], first);
        let later = Ticks { user: 4_500_300, idle: 1_043_078, ..first };
        assert_eq!(later.since(&first).map(|passed| (passed.user, passed.idle)), Some((38, 0)));
        assert_eq!(first.since(&later), None, "time went back");
        for text in ["", "cpu 1 2 3 4 5 6 7 8\n", "cpu0 1 2 3\n", "cpu0 1 2 3 4 5 6 7 x\n"] {
            assert_eq!(parse_processors(text), None, "{text}");
        }
    }

    #[test]
    fn pressure_and_disks_are_read() {
        let text = "some avg10=92.90 avg60=82.42 avg300=43.75 total=38225977771\nfull avg10=0.00 total=0\n";
        assert_eq!(parse_pressure(text), Some(Pressure { some_us: 38_225_977_771 }));
        assert_eq!(parse_pressure("full avg10=0.00 total=0\n"), None);
        let text =
            " 254 0 vda 6408444 233211 257856770 9500865 1313930 1287390 1054450256 7452448 0 898400 17303673 1\nx\n";
        let disk = Disk { read_bytes: 257_856_770 * 512, written_bytes: 1_054_450_256 * 512, busy_ms: 898_400 };
        assert_eq!(parse_disks(text), BTreeMap::from([("vda".to_owned(), disk)]));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(cpu[0-9]{0,3} |some |[a-z]+ ?)([0-9]{1,22} ?){0,14}(total=[0-9]{0,30})?\n?.*") {
            let _ = (parse_pressure(&text), parse_disks(&text));
            if let Some(found) = parse_processors(&text) {
                prop_assert!(found.each.values().all(|ticks| ticks.all() < u64::MAX));
            }
        }
    }
}
