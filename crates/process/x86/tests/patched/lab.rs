//! One function in its arena: planned, patched as a session would, and run with and without.
//!
//! Next: `function`, which makes it.

use crate::arena::{self, Arena, Outcome};
use crate::function::{self, Function};
use crate::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab_types::ProcAddr;
use trimtab_x86::{
    CodeRange, FunctionCode, JumpForm, PatchSite, ProbeBytes, ProbeCode, ProbePlace, Purpose, Refusal, WindowCode,
    WriteProbe, analyse, build_carrier, build_island, build_probe_island, encode_near_jump, encode_short_jump,
    relocate,
};

/// A page ends here, so that some patches would cross it.
const PLACE: u64 = 0xf80;

/// One function in its arena, and what it is run with.
pub struct Lab<'a> {
    pub arena: &'a mut Arena,
    pub function: Function,
    pub inputs: Vec<u64>,
}

impl<'a> Lab<'a> {
    pub fn new(arena: &'a mut Arena, random: &mut Random) -> Lab<'a> {
        let entry = arena.original() + (PLACE + random.below(0x100));
        let function = function::random(random, arena, entry);
        let inputs = (0..arena::INPUTS).map(|_| random.interesting()).collect();
        arena.write_at(function.entry, &function.bytes);
        Lab { arena, function, inputs }
    }

    pub fn code(&self) -> FunctionCode<'_> {
        let range = CodeRange { addr: self.function.entry, bytes: &self.function.bytes, after: &[] };
        FunctionCode { entry: self.function.entry, ranges: vec![range], ..FunctionCode::default() }
    }

    pub fn analysis(&self) -> trimtab_x86::Analysis {
        analyse(&self.code(), &(), &()).expect("whole instructions are generated")
    }

    /// Runs without and with probes at `sites`; the original is put back afterwards.
    pub fn compare(&mut self, sites: &[PatchSite]) -> (Outcome, Outcome) {
        self.compare_for(Purpose::Calls, sites)
    }

    /// The same for a purpose.
    pub fn compare_for(&mut self, purpose: Purpose, sites: &[PatchSite]) -> (Outcome, Outcome) {
        let expected = self.arena.call(self.function.entry, &self.inputs);
        self.patch(purpose, sites);
        let got = self.arena.call(self.function.entry, &self.inputs);
        self.arena.write_at(self.function.entry, &self.function.bytes);
        (expected, got)
    }

    fn patch(&mut self, purpose: Purpose, sites: &[PatchSite]) {
        let probe = self.arena.probe_code();
        let code = ProbeCode { gate: probe.gate, enter: probe.enter, leave: probe.leave, ..ProbeCode::default() };
        let mut at = self.arena.island();
        for site in sites {
            if let Some(carrier) = &site.carrier {
                let island = build_carrier(carrier, self.original(&carrier.displaced), at).expect("in reach");
                self.put(carrier.displaced.start, &mut at, &island.bytes);
            }
            let window = WindowCode { purpose, enter: &code, leave: Some(&code), hold: None };
            let island = build_island(site, self.original(&site.displaced), at, &window).expect("in reach");
            let place = if let JumpForm::Short2 { via } = site.jump { via } else { site.at };
            self.put(place, &mut at, &island.bytes);
            if place != site.at {
                self.arena.write_at(site.at, &encode_short_jump(site.at, place).expect("in reach"));
            }
        }
    }

    /// Runs without and with a probe that changes nothing but `count`; the original is put back afterwards.
    pub fn compare_counted(&mut self, site: &PatchSite, count: &AtomicU64) -> (Outcome, Outcome, u64) {
        let expected = self.arena.call(self.function.entry, &self.inputs);
        let mut at = self.arena.island();
        if let Some(carrier) = &site.carrier {
            let island = build_carrier(carrier, self.original(&carrier.displaced), at).expect("in reach");
            self.put(carrier.displaced.start, &mut at, &island.bytes);
        }
        let probe = counting(count);
        let write = || -> Vec<Box<WriteProbe<'_, Refusal>>> {
            let probe = &probe;
            vec![Box::new(move |place: ProbePlace| {
                Ok(ProbeBytes { bytes: [vec![0x90; place.room_before], probe.clone()].concat(), entry: 0 })
            })]
        };
        let (mut enter, mut leave) = (write(), write());
        let original = self.original(&site.displaced);
        let island = build_probe_island(site, original, at, &mut enter, &mut leave).expect("in reach");
        drop((enter, leave));
        let (start, place) = (at, if let JumpForm::Short2 { via } = site.jump { via } else { site.at });
        self.arena.write_at(at, &island.bytes);
        let to = start + island.entry as u64;
        self.arena.write_at(place, &encode_near_jump(place, to).expect("in reach"));
        if place != site.at {
            self.arena.write_at(site.at, &encode_short_jump(site.at, place).expect("in reach"));
        }
        count.store(0, Ordering::Relaxed);
        let got = self.arena.call(self.function.entry, &self.inputs);
        self.arena.write_at(self.function.entry, &self.function.bytes);
        (expected, got, count.load(Ordering::Relaxed))
    }

    /// Runs `first` at a site, then what was there.
    pub fn patch_with(&mut self, site: &PatchSite, first: &[u8]) {
        let at = self.arena.island();
        let moved = relocate(self.original(&site.displaced), site.at, at + first.len() as u64).expect("in reach");
        let mut island = [first, &moved.bytes].concat();
        if let Some(resume) = site.resume {
            island.extend(encode_near_jump(at + island.len() as u64, resume).expect("in reach"));
        }
        self.put(site.at, &mut { at }, &island);
    }

    /// The generated bytes, whatever has been patched since.
    fn original(&self, range: &std::ops::Range<ProcAddr>) -> &[u8] {
        &self.function.bytes[(range.start - self.function.entry) as usize..(range.end - self.function.entry) as usize]
    }

    /// Puts an island at `at` and a jump to it at `place`.
    fn put(&mut self, place: ProcAddr, at: &mut ProcAddr, island: &[u8]) {
        self.arena.write_at(*at, island);
        self.arena.write_at(place, &encode_near_jump(place, *at).expect("in reach"));
        *at = *at + island.len() as u64;
    }
}

/// Code that adds one to `count` and changes nothing else, flags and the red zone included.
fn counting(count: &AtomicU64) -> Vec<u8> {
    let address = count.as_ptr() as u64;
    [
        // lea rsp, [rsp - 128]; pushfq; push rax; mov rax, ...
        &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8][..],
        &address.to_le_bytes(),
        // inc qword ptr [rax]; pop rax; popfq; lea rsp, [rsp + 128]
        &[0x48, 0xff, 0x00, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0],
    ]
    .concat()
}
