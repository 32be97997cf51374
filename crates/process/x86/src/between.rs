//! Branches from one function into the middle of another: hand-written assembly, and parts that a compiler moved away.
//!
//! Decoding a whole program for the few there are takes seconds, so bytes that could be such a branch are found first,
//! whatever they belong to, and only the instructions around these are decoded. Branches of four-byte distance are
//! looked for everywhere, those of one byte only around the places where one function ends and the next begins. If a few
//! functions of a large library are asked for, only code that could lead into those is decoded.
//!
//! Next: `code`, whose `outside_branches` these are.

use crate::instruction::near_target;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use memchr::memchr3_iter;
use std::ops::Range;
use trimtab_types::FileAddr;

/// A branch in a file, or what looks like one: the address it leads to, and the address of its first byte.
pub type Branch = (FileAddr, FileAddr);

/// Code of a file in which stretches begin at known addresses: every function and every fragment. Each ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub struct Stretches<'a> {
    text: &'a [u8],
    addr: FileAddr,
    starts: &'a [FileAddr],
}

/// Longest way of a branch with a one-byte distance, from its first byte.
const NEAR_MAX: u64 = 130;

impl<'a> Stretches<'a> {
    /// `text` lies at `addr`. `starts` are in order; those outside of it are left out.
    pub fn new(text: &'a [u8], addr: FileAddr, starts: &'a [FileAddr]) -> Stretches<'a> {
        let end = FileAddr(addr.0.saturating_add(text.len() as u64));
        let inside = starts.partition_point(|&start| start < addr)..starts.partition_point(|&start| start < end);
        Stretches { text, addr, starts: &starts[inside] }
    }

    /// Direct branches and calls that lead from one stretch into the middle of another, in order.
    pub fn branches(&self) -> Vec<Branch> {
        let mut found = self.far();
        found.extend(self.near(self.starts));
        self.real(found)
    }

    /// Bytes that look like a branch of four-byte distance from one stretch into the middle of another, in order.
    pub fn far(&self) -> Vec<Branch> {
        let table = Table::new(self);
        self.of_four_bytes(|to, from| table.leads_between(from, to))
    }

    /// Bytes that look like a call or jump of four-byte distance to the beginning of a stretch or to one of `others`, which
    /// are in order; in order.
    pub fn calls(&self, others: &[FileAddr]) -> Vec<Branch> {
        let is_one = |to: FileAddr| self.starts.binary_search(&to).is_ok() || others.binary_search(&to).is_ok();
        self.of_four_bytes(|to, _| is_one(to))
    }

    fn of_four_bytes(&self, is_meant: impl Fn(FileAddr, FileAddr) -> bool) -> Vec<Branch> {
        let mut found = Vec::new();
        let head = &self.text[..self.text.len().saturating_sub(5)];
        for offset in memchr3_iter(0xe8, 0xe9, 0x0f, head) {
            let operand = match self.text[offset..offset + 2] {
                [0xe8 | 0xe9, _] => 1,
                [0x0f, 0x80..=0x8f] => 2,
                _ => continue,
            };
            let Some(raw) = self.text[offset + operand..].first_chunk::<4>() else { continue };
            let from = self.addr + offset as u64;
            let next = from + operand as u64 + 4;
            let to = FileAddr(next.0.wrapping_add_signed(i64::from(i32::from_le_bytes(*raw))));
            if self.is_inside(to) && is_meant(to, from) {
                found.push((to, from));
            }
        }
        found.sort_unstable();
        found
    }

    /// Branches into the middle of the stretches in `range` from outside of these, in order; `far` is what [`Self::far`]
    /// found.
    pub fn branches_into(&self, range: Range<FileAddr>, far: &[Branch]) -> Vec<Branch> {
        let first = far.partition_point(|(to, _)| *to < range.start);
        let mut found: Vec<Branch> = far[first..].iter().take_while(|(to, _)| *to < range.end).copied().collect();
        let around = FileAddr(range.start.0.saturating_sub(NEAR_MAX))..FileAddr(range.end.0.saturating_add(NEAR_MAX));
        let (from, to) = (self.begun_before(around.start), self.begun_before(around.end));
        found.extend(self.near(&self.starts[from..to]).filter(|(to, _)| range.contains(to)));
        self.real(found)
    }

    fn is_inside(&self, addr: FileAddr) -> bool {
        addr.0.wrapping_sub(self.addr.0) < self.text.len() as u64
    }

    fn begun_before(&self, addr: FileAddr) -> usize {
        self.starts.partition_point(|&start| start < addr)
    }

    /// How many stretches begin at or before `addr`: a number for the stretch it lies in.
    fn number(&self, addr: FileAddr) -> usize {
        self.starts.partition_point(|&start| start <= addr)
    }

    fn leads_between(&self, from: FileAddr, to: FileAddr) -> bool {
        self.is_inside(to) && self.starts.binary_search(&to).is_err() && self.number(from) != self.number(to)
    }

    /// Whatever looks like a branch with a one-byte distance that crosses one of `borders`.
    fn near(&self, borders: &'a [FileAddr]) -> impl Iterator<Item = Branch> + use<'_, 'a> {
        let mut done = self.addr.0;
        borders.iter().flat_map(move |&start| {
            let window = start.0.saturating_sub(NEAR_MAX).max(done)..start.0.saturating_add(NEAR_MAX);
            done = window.end;
            self.near_in(window)
        })
    }

    fn near_in(&self, window: Range<u64>) -> impl Iterator<Item = Branch> + use<'_, 'a> {
        window.filter_map(|from| {
            let at = from.checked_sub(self.addr.0)? as usize;
            let [0x70..=0x7f | 0xe0..=0xe3 | 0xeb, distance] = *self.text.get(at..at + 2)? else { return None };
            let (from, to) = (FileAddr(from), FileAddr((from + 2).wrapping_add_signed(i64::from(distance as i8))));
            self.leads_between(from, to).then_some((to, from))
        })
    }

    /// Those of `candidates` that really are branches, in order. Each stretch is decoded once.
    fn real(&self, mut candidates: Vec<Branch>) -> Vec<Branch> {
        candidates.sort_unstable_by_key(|&(to, from)| (from, to));
        candidates.dedup();
        let mut branches = Vec::new();
        for group in candidates.chunk_by(|one, other| self.number(one.1) == self.number(other.1)) {
            let number = self.number(group[0].1);
            let start = number.checked_sub(1).map_or(self.addr, |index| self.starts[index]);
            self.real_in_stretch(start, group, &mut branches);
        }
        branches.sort_unstable();
        branches
    }

    /// The same for one stretch. Where the code can't be read, what may be a branch counts as one.
    fn real_in_stretch(&self, start: FileAddr, group: &[Branch], branches: &mut Vec<Branch>) {
        let code = &self.text[(start - self.addr) as usize..];
        let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut rest = group;
        while let Some(((to, from), others)) = rest.split_first() {
            while instruction.next_ip() <= from.0 || instruction.is_invalid() {
                if !decoder.can_decode() {
                    return branches.extend(rest);
                }
                decoder.decode_out(&mut instruction);
                if instruction.is_invalid() {
                    return branches.extend(rest);
                }
            }
            if near_target(&instruction).map(|target| target.0) == Some(to.0) {
                branches.push((*to, *from));
            }
            rest = others;
        }
    }
}

/// Bytes per entry of the table that finds stretches.
const BLOCK: u64 = 64;

/// Where stretches begin, for many questions.
struct Table<'a> {
    addr: FileAddr,
    starts: &'a [FileAddr],
    /// How many stretches begin before each block.
    begun: Vec<u32>,
    /// One bit per byte of text: whether a stretch begins there.
    is_start: Vec<u64>,
}

impl<'a> Table<'a> {
    fn new(of: &Stretches<'a>) -> Table<'a> {
        let Stretches { text, addr, starts } = *of;
        let mut begun = Vec::with_capacity(text.len() / BLOCK as usize + 1);
        let mut next = 0;
        for block in (addr.0..addr.0.saturating_add(text.len() as u64)).step_by(BLOCK as usize) {
            while starts.get(next).is_some_and(|&start| start.0 < block) {
                next += 1;
            }
            begun.push(next as u32);
        }
        let mut is_start = vec![0; text.len() / 64 + 1];
        for start in starts {
            let offset = (*start - addr) as usize;
            is_start[offset / 64] |= 1 << (offset % 64);
        }
        Table { addr, starts, begun, is_start }
    }

    fn begins_at(&self, addr: FileAddr) -> bool {
        let offset = (addr - self.addr) as usize;
        self.is_start[offset / 64] >> (offset % 64) & 1 != 0
    }

    fn number(&self, addr: FileAddr) -> usize {
        let mut number = self.begun[((addr - self.addr) / BLOCK) as usize] as usize;
        while self.starts.get(number).is_some_and(|&start| start <= addr) {
            number += 1;
        }
        number
    }

    /// Both addresses lie in the text.
    fn leads_between(&self, from: FileAddr, to: FileAddr) -> bool {
        !self.begins_at(to) && self.number(from) != self.number(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR: u64 = 0x1000;

    /// Three stretches of no-ops, at 0x1000, 0x1100 and 0x1180, with `bytes` at `at`.
    fn found(at: u64, bytes: &[u8]) -> Vec<(u64, u64)> {
        let mut text = vec![0x90; 0x200];
        let offset = (at - ADDR) as usize;
        text[offset..offset + bytes.len()].copy_from_slice(bytes);
        let starts = [0x800, 0x1000, 0x1100, 0x1180, 0x2000].map(FileAddr);
        let stretches = Stretches::new(&text, FileAddr(ADDR), &starts);
        let all = stretches.branches();
        let far = stretches.far();
        let parts = [(0x1000, 0x1100), (0x1100, 0x1180), (0x1180, 0x1200)];
        let asked: Vec<Branch> = parts
            .into_iter()
            .flat_map(|(start, end)| stretches.branches_into(FileAddr(start)..FileAddr(end), &far))
            .collect();
        assert_eq!(all, asked, "all at once, and part by part");
        all.into_iter().map(|(to, from)| (to.0, from.0)).collect()
    }

    #[test]
    fn branches_into_the_middle_of_others() {
        type Row = (&'static str, u64, &'static [u8], &'static [(u64, u64)]);
        let rows: &[Row] = &[
            ("jump_into_the_next", 0x1010, &[0xe9, 0xfb, 0, 0, 0], &[(0x1110, 0x1010)]),
            ("call_of_the_next", 0x1010, &[0xe8, 0xeb, 0, 0, 0], &[]),
            ("call_into_its_middle", 0x1010, &[0xe8, 0xec, 0, 0, 0], &[(0x1101, 0x1010)]),
            ("conditional_back", 0x1110, &[0x0f, 0x84, 0, 0xff, 0xff, 0xff], &[(0x1016, 0x1110)]),
            ("conditional_with_prefix", 0x110f, &[0x3e, 0x0f, 0x84, 0, 0xff, 0xff, 0xff], &[(0x1016, 0x1110)]),
            ("within_itself", 0x1010, &[0xe9, 0x20, 0, 0, 0], &[]),
            ("part_of_another_instruction", 0x100e, &[0x48, 0xb8, 0xe9, 0xfb, 0, 0, 0, 0, 0, 0], &[]),
            ("behind_what_can_not_be_read", 0x100e, &[0x06, 0x48, 0xe9, 0xfb, 0, 0, 0], &[(0x1110, 0x1010)]),
            ("short_forward", 0x10f0, &[0x74, 0x1e], &[(0x1110, 0x10f0)]),
            ("short_back", 0x1190, &[0xeb, 0xe0], &[(0x1172, 0x1190)]),
            ("farthest_short", 0x1081, &[0x74, 0x7f], &[(0x1102, 0x1081)]),
            ("short_to_the_start", 0x10f0, &[0x74, 0x0e], &[]),
            ("short_within_itself", 0x10f0, &[0x74, 0x02], &[]),
            ("out_of_the_text", 0x1010, &[0xe9, 0xfb, 0x10, 0, 0], &[]),
        ];
        for (name, at, bytes, want) in rows {
            assert_eq!(found(*at, bytes), *want, "{name}");
        }
    }

    #[test]
    fn nothing_to_look_at() {
        assert_eq!(Stretches::new(&[], FileAddr(ADDR), &[FileAddr(ADDR)]).branches(), []);
        assert_eq!(Stretches::new(&[0xeb], FileAddr(ADDR), &[]).branches(), []);
    }
}
