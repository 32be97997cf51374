//! Rates of the machine's own disks. File systems of other machines are not in them.
//!
//! Next: `sensor`, which asks.

use crate::counters::{Disk, parse_disks};
use crate::figure::{Figure, NoFigure};
use crate::places::Places;
use std::collections::BTreeMap;

/// Rates between two moments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    pub read_bytes_per_s: Figure,
    pub written_bytes_per_s: Figure,
    /// Share of the time in which the busiest one had something to do.
    pub busy: Figure,
}

/// The counters of whole disks, or why there are none.
pub(crate) type Disks = Result<BTreeMap<String, Disk>, NoFigure>;

/// Those now.
pub(crate) fn look(places: &Places) -> Disks {
    let text = places.proc_text("diskstats").map_err(|error| NoFigure::unreadable("diskstats", &error))?;
    let is_whole = |name: &String| places.system.join("block").join(name).join("device").exists();
    let disks: BTreeMap<String, Disk> = parse_disks(&text).into_iter().filter(|(name, _)| is_whole(name)).collect();
    if disks.is_empty() { Err(NoFigure::NoDisk) } else { Ok(disks) }
}

pub(crate) fn rates(before: &Disks, after: &Disks, seconds: f64) -> Rates {
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => {
            let none = Figure::none(why);
            return Rates { read_bytes_per_s: none.clone(), written_bytes_per_s: none.clone(), busy: none };
        }
    };
    // A disk that came meanwhile is not counted, nor one whose counters went back.
    let passed: Vec<Disk> = after.iter().filter_map(|(name, now)| since(before.get(name)?, now)).collect();
    let how = format!("/proc/diskstats, {}", after.keys().cloned().collect::<Vec<_>>().join(" "));
    let per_second = |of: fn(&Disk) -> u64| Figure::of(passed.iter().map(of).sum::<u64>() as f64 / seconds, &*how);
    let busiest = passed.iter().map(|disk| disk.busy_ms).max().unwrap_or(0);
    Rates {
        read_bytes_per_s: per_second(|disk| disk.read_bytes),
        written_bytes_per_s: per_second(|disk| disk.written_bytes),
        busy: Figure::of((busiest as f64 / 1e3 / seconds).min(1.0), &*how),
    }
}

fn since(before: &Disk, now: &Disk) -> Option<Disk> {
    Some(Disk {
        read_bytes: now.read_bytes.checked_sub(before.read_bytes)?,
        written_bytes: now.written_bytes.checked_sub(before.written_bytes)?,
        busy_ms: now.busy_ms.checked_sub(before.busy_ms)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_disks() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places::below(folder.path());
        std::fs::create_dir_all(folder.path().join("sys/block/sda/device")).expect("a folder");
        std::fs::create_dir_all(&places.proc).expect("a folder");
        let write = |sectors: u64, busy: u64| {
            let line = |name: &str| format!("8 0 {name} 1 2 {sectors} 3 4 5 {} 6 0 {busy} 9\n", 2 * sectors);
            let text = ["sda", "sda1", "loop0"].map(line).concat();
            std::fs::write(places.proc.join("diskstats"), text).expect("a file");
        };
        write(1000, 500);
        let before = look(&places);
        write(3000, 1500);
        let found = rates(&before, &look(&places), 2.0);
        assert_eq!(found.read_bytes_per_s.value, Some(512_000.0));
        assert_eq!((found.written_bytes_per_s.value, found.busy.value), (Some(1_024_000.0), Some(0.5)));
        let none = rates(&before, &Err(NoFigure::NoDisk), 2.0);
        assert_eq!((none.busy.value, none.busy.why_not), (None, Some(NoFigure::NoDisk.to_string())));
    }
}
