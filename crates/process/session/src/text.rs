//! A module's code, known to be the same in memory as in its file.
//!
//! Decisions are made from the file's bytes, which are mapped already; that memory holds the same, and no other tool's
//! patches, is found out block by block, once each, when something in a block is asked for.
//!
//! Next: `subject`, which decides.

use crate::changed::CodeReader;
use crate::modules::Module;
use crate::obstacle::Obstacle;
use std::ops::Range;
use std::sync::OnceLock;
use trimtab_os::Memory;
use trimtab_types::{FileAddr, ProcAddr};

/// Bytes compared at once: as much as the kernel maps anyway when one page of a file is touched.
const BLOCK_BYTES: u64 = 64 << 10;

/// The code of one module in one process.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    module: &'a Module,
    /// None for a file that is not loaded: then its bytes are all there is.
    memory: Option<&'a Memory>,
    /// Asked who has changed the code, where it is not as in the file.
    witness: CodeReader<'a>,
    segments: Vec<Blocks>,
}

/// The known blocks of one segment.
#[derive(Debug)]
struct Blocks {
    addr: u64,
    /// Place and length in the file.
    file: Range<u64>,
    /// For each block whether memory holds the file's bytes.
    same: Vec<OnceLock<bool>>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(module: &'a Module, memory: Option<&'a Memory>, witness: CodeReader<'a>) -> Self {
        let executable = module.loaded.image.segments.iter().filter(|segment| segment.executable);
        let segments = executable.map(|segment| {
            let blocks = segment.file_size.div_ceil(BLOCK_BYTES);
            Blocks {
                addr: segment.addr.0,
                file: segment.file_offset..segment.file_offset.saturating_add(segment.file_size),
                same: (0..blocks).map(|_| OnceLock::new()).collect(),
            }
        });
        Text { module, memory, witness, segments: segments.collect() }
    }

    /// The bytes at `addresses`, which memory and file have in common.
    pub(crate) fn bytes(&self, addresses: Range<ProcAddr>) -> Result<&'a [u8], Obstacle> {
        let start = self.module.bias.to_file(addresses.start);
        let length = addresses.end - addresses.start;
        let offset = self.module.loaded.image.file_offset_of(start).ok_or(Obstacle::NoSegment)?;
        let bytes = self.in_file(offset..offset.saturating_add(length)).ok_or(Obstacle::ShortFile)?;
        if self.module.loaded.unknown.iter().any(|part| part.start < offset + length && offset < part.end) {
            return Err(Obstacle::CodeLost);
        }
        if let Some(memory) = self.memory
            && !self.is_known_same(start, length)
        {
            let now =
                memory.read_vec(addresses.start.0, bytes.len()).map_err(|error| Obstacle::Memory(error.to_string()))?;
            if now != bytes {
                let cause = self.witness.why(addresses.start.0, bytes);
                return Err(Obstacle::Changed { cause });
            }
        }
        Ok(bytes)
    }

    fn in_file(&self, range: Range<u64>) -> Option<&'a [u8]> {
        self.module.loaded.file.bytes().get(range.start as usize..range.end as usize)
    }

    /// True if every block around these bytes is the same; if not, the bytes themselves may still be.
    fn is_known_same(&self, start: FileAddr, length: u64) -> bool {
        let segment = self.segments.iter().find_map(|blocks| {
            let inside = start.0.checked_sub(blocks.addr)?;
            (inside.checked_add(length)? <= blocks.file.end - blocks.file.start).then_some((blocks, inside))
        });
        let Some((blocks, inside)) = segment else { return false };
        let last = inside + length.saturating_sub(1);
        (inside / BLOCK_BYTES..=last / BLOCK_BYTES).all(|block| self.is_same_block(blocks, block))
    }

    fn is_same_block(&self, blocks: &Blocks, block: u64) -> bool {
        let Some(known) = blocks.same.get(block as usize) else { return false };
        *known.get_or_init(|| {
            let inside = block * BLOCK_BYTES;
            let start = blocks.file.start + inside;
            let Some(bytes) = self.in_file(start..blocks.file.end.min(start + BLOCK_BYTES)) else { return false };
            let place = self.module.bias.to_proc(FileAddr(blocks.addr + inside));
            self.memory.is_some_and(|memory| memory.read_vec(place.0, bytes.len()).is_ok_and(|now| now == bytes))
        })
    }
}
