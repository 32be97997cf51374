//! Any bytes as the compressed symbol table of a stripped file; and any bytes in what it unpacks to.
//!
//! Checksums would refuse nearly every changed input, so half of the inputs are packed anew: stored, not compressed, with
//! right checksums around them. The first byte of an input says which half it belongs to.
//!
//! Next: `elf` for the file around it.

use crate::ask_image::ask_image;
use crate::hostile::Target;
use crate::seeds::SHAPES;
use anyhow::Result;
use trimtab_symbols::Image;

/// The target.
pub struct MiniDebug;

impl Target for MiniDebug {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let file = SHAPES.build(&["objcopy", "--only-keep-debug"])?;
        let small = &file[..file.len().min(12 * 1024)];
        Ok(vec![[&[0], small].concat(), [&[1], &stored(small)[..]].concat(), [&[1], &stored(b"no file")[..]].concat()])
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((kind, rest)) = input.split_first() else { return false };
        let packed = if kind % 2 == 0 { stored(rest) } else { rest.to_vec() };
        let file = file_with(&packed);
        let image = Image::parse(&file).expect("the file around it is sound");
        ask_image(&file, &image);
        image.problems.is_empty()
    }
}

/// A stripped file with one section, which holds `packed`.
fn file_with(packed: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.gnu_debugdata\0.names\0";
    const NAMES_NAME: u32 = 16;
    let (packed_at, names_at) = (64 + 56, 64 + 56 + packed.len() as u64);
    let table_at = (names_at + NAMES.len() as u64).next_multiple_of(8);
    // All of it is code, at address 0, so that the names inside have something to stand for.
    let length = table_at + 3 * 64;
    let segment = [1_u64 | 5 << 32, 0, 0, 0, length, length.max(0x4000), 0x1000];
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // A library for x86-64, version 1; entry, headers at 64 and `table_at`; their sizes and counts.
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0, 64, table_at] {
        file.extend(u64::to_le_bytes(word));
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 3, 0, 2, 0]);
    segment.iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(packed);
    file.extend(NAMES);
    file.resize(table_at as usize, 0);
    let sections =
        [(0, 0, 0, 0), (1, 1, packed_at, packed.len() as u64), (NAMES_NAME, 3, names_at, NAMES.len() as u64)];
    for (name, kind, offset, size) in sections {
        file.extend(u32::to_le_bytes(name));
        file.extend(u32::to_le_bytes(kind));
        for word in [0, 0, offset, size, 0, 1, 0] {
            file.extend(u64::to_le_bytes(word));
        }
    }
    file
}

/// An xz file that holds `bytes` as they are.
fn stored(bytes: &[u8]) -> Vec<u8> {
    const CHUNK_MAX: usize = 1 << 16;
    // No checksum over the contents; those over headers are always there.
    const FLAGS: [u8; 2] = [0, 0];
    let mut file = vec![0xfd, b'7', b'z', b'X', b'Z', 0];
    let with_checksum = |part: &[u8]| [part, &crc32(part).to_le_bytes()].concat();
    file.extend(with_checksum(&FLAGS));
    // Header of 12 bytes, one filter: LZMA2 with a dictionary of 4 KiB.
    let header = with_checksum(&[2, 0, 0x21, 1, 0, 0, 0, 0]);
    let mut block = header.clone();
    for (number, chunk) in bytes.chunks(CHUNK_MAX).enumerate() {
        block.push(if number == 0 { 1 } else { 2 });
        block.extend(((chunk.len() - 1) as u16).to_be_bytes());
        block.extend(chunk);
    }
    block.push(0);
    let unpadded = block.len();
    block.resize(unpadded.next_multiple_of(4), 0);
    file.extend(&block);
    let mut index = vec![0, 1];
    for number in [unpadded, bytes.len()] {
        let mut left = number;
        while left > 0x7f {
            index.push(left as u8 | 0x80);
            left >>= 7;
        }
        index.push(left as u8);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    let index = with_checksum(&index);
    file.extend(&index);
    let size = (index.len() / 4 - 1) as u32;
    let footer = [&size.to_le_bytes()[..], &FLAGS].concat();
    file.extend(crc32(&footer).to_le_bytes());
    file.extend(footer);
    file.extend(b"YZ");
    file
}

/// The checksum that xz uses.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_found_by_the_reader() {
        let file = SHAPES.build(&[]).expect("the compiler is there");
        let image = Image::parse(&file_with(&stored(&file))).expect("a sound file");
        assert_eq!(image.problems, Vec::<String>::new());
        assert!(image.function_named("label_in_typed").is_some() || image.function_named("typed").is_some());
    }
}
