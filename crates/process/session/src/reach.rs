//! Modules that no island can be put near: their functions are left out, with the reason, and the rest is measured.
//!
//! A jump reaches 2 GiB. A program that reserves all of that around a library (as some runtimes do for generated code)
//! leaves no room there, and a reservation is not ours to use.
//!
//! Next: `insert` chooses the places.

use crate::obstacle::Obstacle;
use crate::prepared::Prepared;
use crate::request::Refused;
use std::ops::Range;
use trimtab_os::MappingTable;
use trimtab_plan::{Routines, code_needed};
use trimtab_stub::blob;
use trimtab_stub::layout::{PAGE, round_up};

/// Farthest an island may lie from code that jumps to it: 2 GiB less room for the module and the arena itself.
const REACH: u64 = (1 << 31) - (256 << 20);
/// Free space kept around what we map, so that heaps can grow.
pub(crate) const MARGIN: u64 = 1 << 20;
/// More than any window or script needs.
const ROOM: u64 = 64 << 20;

impl Prepared {
    /// Refuses what lies where there is no room. Only before scripts add their places.
    pub(crate) fn leave_out_unreachable(&mut self, maps: &MappingTable) {
        let routines = own_routines();
        for arena in (0..self.arena_modules.len()).rev() {
            let length = round_up(code_needed(&routines, &self.functions, arena), PAGE) + PAGE;
            if place_near(maps, &self.arena_modules[arena].1, length).is_none() {
                self.leave_out(arena);
            }
        }
    }

    /// Refuses all functions of one arena, and numbers the others anew.
    fn leave_out(&mut self, arena: usize) {
        let (module, _) = self.arena_modules.remove(arena);
        let reason = Obstacle::AddressesTaken { module };
        let stays: Vec<bool> = self.functions.iter().map(|function| function.arena != arena).collect();
        let left_out = self.functions.iter().filter(|function| function.arena == arena);
        self.refused.extend(left_out.map(|function| Refused { name: function.name.clone(), reason: reason.clone() }));
        keep(&mut self.functions, &stays);
        keep(&mut self.probes, &stays);
        for (index, function) in self.functions.iter_mut().enumerate() {
            function.probe = index as u32;
            function.arena -= usize::from(function.arena > arena);
        }
    }
}

/// True if what is put in may lie near `text`, with room for more.
pub(crate) fn is_in_reach(maps: &MappingTable, text: &Range<u64>) -> bool {
    place_near(maps, text, ROOM).is_some()
}

fn keep<T>(all: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    all.retain(|_| stays.next().copied().unwrap_or(true));
}

/// The in-target routines, as the compiler of this program made them.
pub(crate) fn own_routines() -> Routines<'static> {
    let blob = blob();
    Routines { bytes: blob.bytes, enter: blob.enter, leave: blob.leave, pass: blob.pass }
}

/// Where an arena may lie from which all of `text` is reached.
pub(crate) fn place_near(maps: &MappingTable, text: &Range<u64>, length: u64) -> Option<u64> {
    maps.gap_near(text.clone(), length, REACH, MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::FaultHandlers;
    use crate::payload::Payload;
    use crate::request::{Probed, Work};
    use std::collections::BTreeMap;
    use trimtab_os::Gadgets;
    use trimtab_plan::PlannedFunction;
    use trimtab_stub::layout::Probe;
    use trimtab_types::ProcAddr;
    use trimtab_types::procfs::parse_maps;

    /// Two functions each of two libraries, of which the first has no room beside it.
    fn prepared() -> Prepared {
        let function =
            |probe: u32| PlannedFunction::new(format!("f{probe}"), probe, ((probe % 2) as usize, Vec::new()));
        let probed = |function: u32| {
            let at = u64::from(function);
            let work = Work::Window(Probe { function, ..Probe::ABSENT });
            Probed { address: Some(ProcAddr(at)), range: at..at + 1, work }
        };
        let near = 0x10_0000_0000..0x10_0000_1000;
        let far = 0x7f00_0000_0000..0x7f00_0000_1000;
        Prepared {
            functions: (0..4).map(function).collect(),
            probes: (0..4).map(probed).collect(),
            refused: Vec::new(),
            endless: Vec::new(),
            tails: Vec::new(),
            shared: BTreeMap::new(),
            edges: Vec::new(),
            watches: Default::default(),
            lost: Vec::new(),
            arena_modules: vec![("/lib/a".into(), near), ("/lib/b".into(), far)],
            gadgets: Gadgets { system_call: 0, signal_return: 0 },
            taken: BTreeMap::new(),
            program: 0..0,
            payload: Payload::Window,
            handlers: FaultHandlers::default(),
            setters: Vec::new(),
            framed: Vec::new(),
            frames_reach_all: false,
        }
    }

    #[test]
    fn only_a_module_without_room_is_left_out() {
        let maps = "0000010000-00100000000000 ---p 00000000 00:00 0 \n\
                    7f0000000000-7f0000001000 r-xp 00000000 fe:00 77 /lib/b\n";
        let maps = MappingTable(parse_maps(maps.as_bytes()).expect("a map"));
        let mut prepared = prepared();
        prepared.leave_out_unreachable(&maps);
        let names: Vec<&str> = prepared.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["f1", "f3"]);
        assert!(prepared.functions.iter().all(|function| function.arena == 0));
        assert_eq!(prepared.functions.iter().map(|function| function.probe).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(prepared.probes.iter().map(|probed| probed.range.clone()).collect::<Vec<_>>(), [1..2, 3..4]);
        assert_eq!(prepared.addresses().collect::<Vec<_>>(), [ProcAddr(1), ProcAddr(3)]);
        assert_eq!(prepared.probes().map(|probe| probe.function).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(prepared.refused.len(), 2);
        assert!(prepared.refused[0].reason.to_string().contains("within reach of /lib/a"), "{:?}", prepared.refused);
    }
}
