//! Plans a function made of arbitrary bytes and asserts what every plan must satisfy.
//!
//! Next: `tests/invariants.rs` and the fuzzing of `testing/fuzz`, which call it.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use std::collections::BTreeSet;
use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Analysis, CodeRange, FunctionCode, JumpForm, NEAR_JUMP_LEN, PAGE_BYTES, PatchSite, ReadMemory, Refusal,
    Springboards, analyse, function_sites, offer_padding, relocate,
};

const ADDR: ProcAddr = ProcAddr(0x40_0f80);
const ISLAND: ProcAddr = ProcAddr(0x1040_0000);

/// The first four bytes choose entry, split, padding, landing pad, bytes that must stay and whether faults are handled;
/// the rest is code and then the memory that jump tables are read from. Returns how many sites were found.
pub fn check(input: &[u8]) -> usize {
    let Some((header, bytes)) = input.split_first_chunk::<4>() else { return 0 };
    let after_len = usize::from(header[0] & 31).min(bytes.len());
    let (text, after) = bytes.split_at(bytes.len() - after_len);
    let cold_len = usize::from(header[1] & 15).min(text.len() / 2);
    let (main, cold) = text.split_at(text.len() - cold_len);
    let mut ranges = vec![CodeRange { addr: ADDR, bytes: main, after }];
    if !cold.is_empty() {
        ranges.push(CodeRange { addr: ADDR + 0x4000, bytes: cold, after: &[] });
    }
    let landing_pads = [ADDR + u64::from(header[2])];
    let stay = ADDR + u64::from(header[1] >> 4 & 3) * 8;
    let restartable = stay..stay + 6;
    let code = FunctionCode {
        entry: ADDR + u64::from(header[3] & 7),
        ranges,
        landing_pads: if header[2] < 128 { &landing_pads } else { &[] },
        other_entries: &[],
        outside_branches: &[],
        restartable: if header[1] >> 6 == 3 { std::slice::from_ref(&restartable) } else { &[] },
        faults_stay: header[3] >> 3 & 1 != 0,
    };
    let Ok(analysis) = analyse(&code, &Bytes(bytes), &()) else { return 0 };
    let mut springboards = Springboards::new();
    offer_padding(&code, &analysis, &mut springboards);
    let sites = function_sites(&code, &analysis, &mut springboards);
    assert_eq!(sites, function_sites(&code, &analysis, &mut springboards), "planning again agrees");
    let mut all: Vec<PatchSite> = sites.exits.iter().filter_map(|(_, site)| site.clone().ok()).collect();
    all.extend(sites.entry.ok());
    all.sort_by_key(|site| site.at);
    all.dedup();
    for site in &all {
        check_site(&code, &analysis, site);
        check_stays(&code, site);
    }
    check_overlaps(&all);
    all.len()
}

/// All the file there is, at a fixed place.
struct Bytes<'a>(&'a [u8]);

impl ReadMemory for Bytes<'_> {
    fn read(&self, addr: ProcAddr, buf: &mut [u8]) -> bool {
        let offset = addr.0.wrapping_sub(ADDR.0) as usize;
        let Some(found) = offset.checked_add(buf.len()).and_then(|end| self.0.get(offset..end)) else { return false };
        buf.copy_from_slice(found);
        true
    }
}

fn check_site(code: &FunctionCode<'_>, analysis: &Analysis, site: &PatchSite) {
    assert_eq!(site.at, site.overwritten.start);
    assert_eq!(site.at, site.displaced.start);
    let inside = code.ranges.iter().find(|range| range.contains(site.at)).expect("a site lies in the code");
    assert!(site.displaced.end <= inside.end(), "displaced instructions are the function's: {site:x?}");
    assert!(site.overwritten.end <= inside.end() + inside.after.len() as u64, "a jump stays in reach: {site:x?}");
    assert_eq!(page(site.overwritten.start), last_page(site.overwritten.end), "a jump lies in one page: {site:x?}");
    let end = site.displaced.end.max(site.overwritten.end);
    let target = analysis.first_target(site.at + 1..end);
    if let Some(carrier) = &site.carrier {
        let Range { start, end } = carrier.displaced;
        assert!(analysis.first_target(start + 1..end).is_none(), "nothing jumps into a carrier: {site:x?}");
        assert_eq!(page(start), last_page(start + NEAR_JUMP_LEN), "a carrier's jump lies in one page: {site:x?}");
        let bytes = &inside.bytes[(start - inside.addr) as usize..(end - inside.addr) as usize];
        assert!(!matches!(
            relocate(bytes, start, ISLAND),
            Err(Refusal::Unmovable { .. } | Refusal::Undecodable { .. })
        ));
    }
    assert!(target.is_none_or(|at| at >= inside.end()), "nothing jumps into a patch: {site:x?} {target:x?}");
    let start = (site.at - inside.addr) as usize;
    let displaced = &inside.bytes[start..start + (site.displaced.end - site.at) as usize];
    match relocate(displaced, site.at, ISLAND) {
        Ok(moved) => assert_eq!(moved.offsets.first(), Some(&(site.at, ISLAND))),
        Err(refusal) => assert!(matches!(refusal, Refusal::OutOfReach { .. }), "can't be moved: {refusal} {site:x?}"),
    }
}

/// Neither displaced nor written over is what the kernel knows by its address.
fn check_stays(code: &FunctionCode<'_>, site: &PatchSite) {
    let board = match site.jump {
        JumpForm::Short2 { via } => Some(via..via + NEAR_JUMP_LEN),
        JumpForm::Near5 => None,
    };
    let carrier = site.carrier.as_ref().map(|carrier| carrier.displaced.clone());
    for used in [Some(site.covered()), board, carrier].into_iter().flatten() {
        let is_apart = |stay: &Range<ProcAddr>| stay.end <= used.start || used.end <= stay.start;
        assert!(code.restartable.iter().all(is_apart), "{used:x?} must stay: {site:x?}");
    }
    if code.faults_stay {
        let moved = [Some(site.displaced.clone()), site.carrier.as_ref().map(|carrier| carrier.displaced.clone())];
        moved.into_iter().flatten().for_each(|range| check_no_faults(code, &range));
    }
}

/// Where a program handles faults, none of its instructions that are moved can be at fault. This says it in other words
/// than the code under test: what may be moved has no operand in memory but those of its own frame and data.
fn check_no_faults(code: &FunctionCode<'_>, moved: &Range<ProcAddr>) {
    let Some(inside) = code.ranges.iter().find(|range| range.contains(moved.start)) else { return };
    let bytes = &inside.bytes[(moved.start - inside.addr) as usize..(moved.end - inside.addr) as usize];
    for instruction in Decoder::with_ip(64, bytes, moved.start.0, DecoderOptions::NONE) {
        let operands = || (0..instruction.op_count()).map(|operand| instruction.op_kind(operand));
        let is_far = operands().any(|kind| kind == OpKind::Memory)
            && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
            && !matches!(instruction.memory_base(), Register::RSP | Register::RBP | Register::RIP)
            && instruction.memory_segment() != Register::FS;
        let is_string = operands().any(|kind| matches!(kind, OpKind::MemorySegRSI | OpKind::MemoryESRDI));
        let is_call = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        let is_division = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv | Mnemonic::Divsd);
        assert!(!(is_far || is_string || is_call || is_division), "{instruction} may fault and is moved: {moved:x?}");
    }
}

fn check_overlaps(sites: &[PatchSite]) {
    let mut taken: Vec<Range<ProcAddr>> = Vec::new();
    let mut carriers = BTreeSet::new();
    let mut boards = Vec::new();
    for site in sites {
        taken.push(site.at..site.displaced.end.max(site.overwritten.end));
        if let Some(carrier) = &site.carrier {
            carriers.insert((carrier.displaced.start, carrier.displaced.end));
        }
        if let JumpForm::Short2 { via } = site.jump {
            assert!((-128..=127).contains(&(via.0.wrapping_sub((site.at + 2).0) as i64)), "in reach: {site:x?}");
            assert_eq!(page(via), last_page(via + NEAR_JUMP_LEN), "in one page: {site:x?}");
            match &site.carrier {
                Some(carrier) => boards.push((via, carrier.overwritten.end..carrier.displaced.end)),
                None => taken.push(via..via + NEAR_JUMP_LEN),
            }
        }
    }
    check_springboards_in_code(&mut boards);
    taken.extend(carriers.into_iter().map(|(start, end)| start..end));
    taken.sort_by_key(|range| range.start);
    for pair in taken.windows(2) {
        assert!(pair[0].end <= pair[1].start, "patches overlap: {pair:x?} of {sites:x?}");
    }
}

/// Springboards lie in what their carriers free, and none in another.
fn check_springboards_in_code(boards: &mut [(ProcAddr, Range<ProcAddr>)]) {
    boards.sort_by_key(|(via, _)| *via);
    for (via, free) in boards.iter() {
        assert!(free.start <= *via && *via + NEAR_JUMP_LEN <= free.end, "{via:x} lies in {free:x?}");
    }
    for pair in boards.windows(2) {
        assert!(pair[0].0 + NEAR_JUMP_LEN <= pair[1].0, "springboards overlap: {pair:x?}");
    }
}

fn page(addr: ProcAddr) -> u64 {
    addr.0 / PAGE_BYTES
}

/// That of the last byte before an end.
fn last_page(end: ProcAddr) -> u64 {
    (end.0 - 1) / PAGE_BYTES
}
