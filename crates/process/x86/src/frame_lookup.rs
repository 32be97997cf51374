//! The code that finds unwind entries of our own code, at the entry of the unwinder's function that looks for entries.
//!
//! That function, `_Unwind_Find_FDE`, is asked for an address in rdi and gives the entry in rax; where rsi points it
//! leaves three words, of which the last is the address at which the entry begins. For addresses in our code it is
//! answered from a sorted table, and for all others everything is as ever. The code takes no lock, makes no call and
//! writes nothing but the answer, so it may run in any signal handler at any instant. It changes registers only that any
//! called function may change, and the flags.
//!
//! Next: `trimtab-plan`'s `frames`, which makes the table.

use crate::inline::{BELOW, NOT_BELOW};
use crate::probe_island::{ProbeBytes, ProbePlace};
use crate::writer::{ProbeCode, Writer};
use crate::{Island, PatchSite, Refusal, WriteProbe, build_probe_island};
use trimtab_types::ProcAddr;

/// Words before the first row: the first address of all, the end of all, the number of rows.
pub const LOOKUP_HEAD_WORDS: usize = 3;
/// Words of a row: the first address, the end, the entry.
pub const LOOKUP_ROW_WORDS: usize = 3;

/// The facts that the code must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLookup {
    /// Address of the table: [`LOOKUP_HEAD_WORDS`] words, then rows in the order of their addresses.
    pub table: ProcAddr,
}

impl FrameLookup {
    /// Writes the code for a place: it falls through for addresses that are not ours.
    ///
    /// # Errors
    /// None today; what writes code may refuse.
    pub fn written(&self, place: ProbePlace) -> Result<ProbeBytes, Refusal> {
        let code = ProbeCode::default();
        let mut writer = Writer::new(place, &code);
        writer.look_up(self.table);
        Ok(ProbeBytes { bytes: writer.bytes, entry: 0 })
    }

    /// The island at the function's entry.
    ///
    /// # Errors
    /// As [`build_probe_island`].
    pub fn island(&self, site: &PatchSite, original: &[u8], at: ProcAddr) -> Result<Island, Refusal> {
        let mut lookup: [Box<WriteProbe<'_, Refusal>>; 1] = [Box::new(|place| self.written(place))];
        build_probe_island(site, original, at, &mut lookup, &mut [])
    }
}

impl Writer<'_> {
    fn look_up(&mut self, table: ProcAddr) {
        // mov rax, table; cmp rdi, [rax]; jb out; cmp rdi, [rax + 8]; jae out
        self.put(&[0x48, 0xb8]);
        self.put(&table.0.to_le_bytes());
        self.put(&[0x48, 0x3b, 0x38]);
        let mut out = vec![self.jump_if(BELOW)];
        self.put(&[0x48, 0x3b, 0x78, 0x08]);
        out.push(self.jump_if(NOT_BELOW));
        // xor ecx, ecx; mov rdx, [rax + 16]: the rows from rcx on and before rdx are left.
        self.put(&[0x31, 0xc9, 0x48, 0x8b, 0x50, 0x10]);
        let again = self.bytes.len();
        // cmp rcx, rdx; jae out
        self.put(&[0x48, 0x39, 0xd1]);
        out.push(self.jump_if(NOT_BELOW));
        // lea r8, [rcx + rdx]; shr r8, 1; lea r9, [r8 + r8 * 2]; lea r9, [rax + r9 * 8 + 24]: the row in their middle.
        self.put(&[0x4c, 0x8d, 0x04, 0x11, 0x49, 0xd1, 0xe8, 0x4f, 0x8d, 0x0c, 0x40, 0x4e, 0x8d, 0x4c, 0xc8, 0x18]);
        // cmp rdi, [r9]; jb earlier; cmp rdi, [r9 + 8]; jb found
        self.put(&[0x49, 0x3b, 0x39]);
        let earlier = self.jump_if(BELOW);
        self.put(&[0x49, 0x3b, 0x79, 0x08]);
        let found = self.jump_if(BELOW);
        // lea rcx, [r8 + 1]
        self.put(&[0x49, 0x8d, 0x48, 0x01]);
        self.jump_back(again);
        self.lands(earlier);
        // mov rdx, r8
        self.put(&[0x4c, 0x89, 0xc2]);
        self.jump_back(again);
        self.lands(found);
        // xor eax, eax; mov [rsi], rax; mov [rsi + 8], rax; mov rcx, [r9]; mov [rsi + 16], rcx; mov rax, [r9 + 16]; ret
        self.put(&[0x31, 0xc0, 0x48, 0x89, 0x06, 0x48, 0x89, 0x46, 0x08]);
        self.put(&[0x49, 0x8b, 0x09, 0x48, 0x89, 0x4e, 0x10, 0x49, 0x8b, 0x41, 0x10, 0xc3]);
        out.into_iter().for_each(|jump| self.lands(jump));
    }

    fn jump_back(&mut self, to: usize) {
        let distance = to as i64 - (self.bytes.len() as i64 + 5);
        self.put(&[0xe9]);
        self.put(&(distance as i32).to_le_bytes());
    }
}
