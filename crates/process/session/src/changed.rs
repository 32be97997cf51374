//! Tells who has changed code that is not as in its file, as far as it can be seen: this trimtab's likes, a debugger, a library of
//! the program itself, or nobody, because the file is being loaded right now.
//!
//! The cause decides what a user can do about it, so it is looked up where the difference is found: a descriptor of ours
//! lists its patches, and a hook is a jump, which leads to whoever made it.
//!
//! Next: `gone` for code that comes and goes; `text`, which finds the difference.

use crate::gone::is_changed_by_others;
use crate::leftover::{Leftover, look_in, patches_of};
use crate::mapped::is_ours as is_memory_of_ours;
use crate::pages::PatchBytes;
use std::ops::Range;
use std::sync::OnceLock;
use trimtab_os::{MappingTable, Memory, tracer_of};
use trimtab_types::Pid;

/// Bytes from the first difference that are read to see where it leads.
const HOOK_BYTES: usize = 16;
const INT3: u8 = 0xcc;

/// A process whose code is looked at.
#[derive(Debug)]
pub(crate) struct CodeReader<'a> {
    pid: Pid,
    maps: &'a MappingTable,
    ours: OnceLock<Option<Ours>>,
}

/// Patches that a trimtab has in the process.
#[derive(Debug)]
struct Ours {
    monitor: Pid,
    monitor_runs: bool,
    patches: Vec<PatchBytes>,
}

impl<'a> CodeReader<'a> {
    pub(crate) fn new(pid: Pid, maps: &'a MappingTable) -> Self {
        CodeReader { pid, maps, ours: OnceLock::new() }
    }

    /// The cause in words, with the next step, for code at `address` that should be `wanted`.
    pub(crate) fn why(&self, address: u64, wanted: &[u8]) -> String {
        if let Some(ours) = self.ours_at(address..address.saturating_add(wanted.len() as u64)) {
            return ours;
        }
        if !is_changed_by_others(self.pid, self.maps, address, wanted.len()) {
            return "its library is being loaded or unloaded right now; try again".to_owned();
        }
        self.by_others(address, wanted)
    }

    fn ours_at(&self, range: Range<u64>) -> Option<String> {
        let ours = self.ours.get_or_init(|| self.find_ours()).as_ref()?;
        let is_there = |patch: &PatchBytes| {
            patch.address < range.end && range.start < patch.address.saturating_add(patch.patched.len() as u64)
        };
        ours.patches.iter().any(is_there).then(|| match ours.monitor_runs {
            true => format!(
                "trimtab process {} has probes in it and runs; wait for it to end, or interrupt it (`kill -INT {0}`)",
                ours.monitor
            ),
            false => format!(
                "a trimtab that was killed (process {}) has left probes in it; take them out with `trimtab undo {}`",
                ours.monitor, self.pid
            ),
        })
    }

    fn find_ours(&self) -> Option<Ours> {
        // The map may be older than the probes.
        let maps = MappingTable::of(self.pid).ok()?;
        match look_in(self.pid, &maps).ok()? {
            Leftover::Complete { monitor, monitor_runs, targets, .. } => {
                Some(Ours { monitor, monitor_runs, patches: patches_of(&targets) })
            }
            Leftover::None | Leftover::Unfinished(_) => None,
        }
    }

    fn by_others(&self, address: u64, wanted: &[u8]) -> String {
        let found = Memory::open(self.pid).ok().and_then(|memory| memory.read_vec(address, wanted.len()).ok());
        let first = found.as_ref().and_then(|found| found.iter().zip(wanted).position(|(now, file)| now != file));
        let hook = address + first.unwrap_or(0) as u64;
        let bytes = Memory::open(self.pid).ok().and_then(|memory| memory.read_vec(hook, HOOK_BYTES).ok());
        let bytes = bytes.unwrap_or_default();
        if bytes.first() == Some(&INT3) {
            return format!("there is a breakpoint in it{}; take it out, then try again", self.debugger());
        }
        let leads_to = destination(hook, &bytes, &|slot| {
            let bytes = Memory::open(self.pid).ok()?.read_vec(slot, 8).ok()?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        });
        let maps = MappingTable::of(self.pid).unwrap_or_default();
        match leads_to.and_then(|target| maps.at(target)) {
            Some(mapping) if is_memory_of_ours(mapping) => {
                "another trimtab is putting its probes in or taking them out; try again when it is done".to_owned()
            }
            Some(mapping) if mapping.inode != 0 => self.by_library(&mapping.path),
            Some(_) => "it jumps into memory of no file, so a tool that makes code at run time has hooked it; start the program \
                        without that tool to have it measured"
                .to_owned(),
            None => "who changed it can't be seen; start the program without what changes its code to have it measured"
                .to_owned(),
        }
    }

    fn by_library(&self, path: &str) -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        let how = match name.starts_with("libucm") || name.starts_with("libucs") {
            true => {
                "start the program with UCX_MEM_MMAP_HOOK_MODE=reloc, which hooks without patching, to have it measured"
            }
            false => "it belongs to the program, so this function can't be measured; its callers can",
        };
        format!("{name}, a library of the program, has hooked it; {how}")
    }

    fn debugger(&self) -> String {
        let tracer = tracer_of(self.pid);
        tracer.map_or_else(String::new, |(pid, name)| format!(" (process {pid}, {name}, traces the program)"))
    }
}

/// The address that a hook's first instructions jump to; `read` is a word of the process's memory.
fn destination(at: u64, bytes: &[u8], read: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let word = |from: usize| Some(u64::from_le_bytes(bytes.get(from..from + 8)?.try_into().ok()?));
    let near = |from: usize| {
        let distance = i32::from_le_bytes(bytes.get(from..from + 4)?.try_into().ok()?);
        Some(at.wrapping_add(from as u64 + 4).wrapping_add_signed(distance.into()))
    };
    match bytes {
        // jmp or call
        [0xe9 | 0xe8, ..] => near(1),
        // jmp *slot(%rip)
        [0xff, 0x25, ..] => near(2).and_then(read),
        // mov $target, %r11; jmp *%r11
        [0x49, 0xbb, _, _, _, _, _, _, _, _, 0x41, 0xff, 0xe3, ..] => word(2),
        // mov $target, %rax; jmp *%rax
        [0x48, 0xb8, _, _, _, _, _, _, _, _, 0xff, 0xe0, ..] => word(2),
        // The first byte may be the same as in the file: `mov` begins with a prefix that many instructions share.
        [0xbb, _, _, _, _, _, _, _, _, 0x41, 0xff, 0xe3, ..] | [0xb8, _, _, _, _, _, _, _, _, 0xff, 0xe0, ..] => {
            word(1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_lead_to_whoever_made_them() {
        let target = 0x7f12_3456_789a_u64.to_le_bytes();
        let with = |head: &[u8], tail: &[u8]| [head, &target, tail].concat();
        for (name, bytes, want) in [
            ("near", vec![0xe9, 0x10, 0, 0, 0], Some(0x1015)),
            ("near_back", vec![0xe9, 0xf0, 0xff, 0xff, 0xff], Some(0xff5)),
            ("slot", vec![0xff, 0x25, 0x10, 0, 0, 0], Some(0x1016 + 1)),
            ("by_r11", with(&[0x49, 0xbb], &[0x41, 0xff, 0xe3]), Some(0x7f12_3456_789a)),
            ("by_r11_and_more", with(&[0x49, 0xbb], &[0x41, 0xff, 0xe3, 0x90]), Some(0x7f12_3456_789a)),
            ("by_rax", with(&[0x48, 0xb8], &[0xff, 0xe0]), Some(0x7f12_3456_789a)),
            ("behind_its_prefix", with(&[0xbb], &[0x41, 0xff, 0xe3]), Some(0x7f12_3456_789a)),
            ("cut", vec![0xe9, 0x10], None),
            ("cut_slot", vec![0xff, 0x25], None),
            ("something_else", vec![0x90; 16], None),
            ("nothing", vec![], None),
        ] {
            assert_eq!(destination(0x1000, &bytes, &|slot| Some(slot + 1)), want, "{name}");
        }
        let far = destination(u64::MAX, &[0xe9, 0xff, 0xff, 0xff, 0x7f], &|_| None);
        assert_eq!(far, Some(0x8000_0003), "addresses wrap around");
    }
}
