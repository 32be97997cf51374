//! Whole functions with probes at entry and exits, and at any instruction, beside the same without: both are run on this
//! processor and compared, and each probe is seen as often as it should.
//!
//! An input is one number, from which the function, its arguments and the place are drawn. Next: `trimtab-x86`'s
//! `tests/patched.rs`, the same as a test.

use crate::arena::{Arena, FLAGS_INDEX};
use crate::hostile::Target;
use crate::lab::Lab;
use crate::mutate::Mutator;
use crate::random::Random;
use anyhow::Result;
use trimtab_x86::{ControlFlow, PatchSite, Purpose, Springboards, loop_sites, own_sites, point_site};

/// The target, with the memory in which code runs.
pub struct Patched {
    arena: Arena,
}

impl Patched {
    /// Makes the memory.
    pub fn new() -> Patched {
        Patched { arena: Arena::new() }
    }
}

impl Target for Patched {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![vec![1; 8]])
    }

    fn length_max(&self) -> usize {
        8
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, _: &[u8]) {
        *input = mutator.random.next().to_le_bytes().to_vec();
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some(seed) = input.first_chunk::<8>() else { return false };
        let seed = u64::from_le_bytes(*seed);
        let mut random = Random::new(seed);
        let mut lab = Lab::new(&mut self.arena, &mut random);
        match seed >> 32 & 3 {
            0 | 1 => entry_and_exits(&mut lab),
            2 => any_instruction(&mut lab, &mut random),
            _ => any_loop(&mut lab, &mut random),
        }
    }
}

fn entry_and_exits(lab: &mut Lab<'_>) -> bool {
    let sites = own_sites(&lab.code(), &lab.analysis());
    let all: Vec<PatchSite> = sites.all().cloned().collect();
    let is_whole = sites.entry.is_ok() && sites.exits.iter().all(|(_, site)| site.is_ok());
    let (mut expected, mut got) = lab.compare(&all);
    // Nobody reads the flags a function leaves behind.
    expected.registers[FLAGS_INDEX] = 0;
    got.registers[FLAGS_INDEX] = 0;
    assert_eq!(got, expected, "{:02x?} with {all:#x?}", lab.function.bytes);
    let (entered, left) = lab.arena.probes_seen();
    assert_eq!(entered, u64::from(sites.entry.is_ok()), "{:02x?} with {all:#x?}", lab.function.bytes);
    assert!(!is_whole || left == 1, "{left} exits seen: {:02x?} with {all:#x?}", lab.function.bytes);
    !all.is_empty()
}

fn any_instruction(lab: &mut Lab<'_>, random: &mut Random) -> bool {
    let analysis = lab.analysis();
    let flow = ControlFlow::of(&analysis);
    let block = &flow.blocks[random.below(flow.blocks.len() as u64) as usize];
    let place = block.range.start + random.below(block.range.end - block.range.start);
    let Ok(site) = point_site(&lab.code(), &analysis, place, &mut Springboards::new()) else { return false };
    let (expected, got) = lab.compare(std::slice::from_ref(&site));
    assert_eq!(got, expected, "{:02x?} with {site:#x?}", lab.function.bytes);
    let (entered, left) = lab.arena.probes_seen();
    assert_eq!(left, 0, "{:02x?} with {site:#x?}", lab.function.bytes);
    assert!(place != lab.function.entry || entered > 0, "{:02x?} with {site:#x?}", lab.function.bytes);
    true
}

/// Passes of a loop, where the header's bytes may be taken or not.
fn any_loop(lab: &mut Lab<'_>, random: &mut Random) -> bool {
    let analysis = lab.analysis();
    let flow = ControlFlow::of(&analysis);
    let Some(found) = flow.loops.get(random.below(flow.loops.len().max(1) as u64) as usize) else { return false };
    let at_header = random.below(2) == 0;
    let may_take = |site: &PatchSite| at_header || !site.covered().contains(&found.header_at);
    let Ok((sites, _)) = loop_sites(&lab.code(), &analysis, &flow, found, &may_take) else { return false };
    let (expected, got) = lab.compare_for(Purpose::Passes { flags_unread: false }, &sites);
    assert_eq!(got, expected, "{:02x?} with {sites:#x?}", lab.function.bytes);
    assert_eq!(lab.arena.probes_seen().1, 0, "{:02x?} with {sites:#x?}", lab.function.bytes);
    true
}
