//! Every question that a file's symbols and unwind tables can be asked, for inputs of which only survival is expected.
//!
//! Next: `ask`, the same for debugging information.

use trimtab_symbols::{Image, exports_one_of, fde_at, loaded_file, restartable_sequences, unwind_facts};
use trimtab_types::FileAddr;

/// Asks about every function and some addresses. Answers do not matter, except where they must agree with each other.
pub fn ask_image(bytes: &[u8], image: &Image) {
    for part in image.functions.iter().chain(&image.fragments) {
        if let Ok(facts) = unwind_facts(bytes, image, part) {
            let _ = facts.cfa_rsp_offset_at(part.addr);
        }
        let _ = fde_at(bytes, image, part.addr);
        let _ = image.function_at(part.end());
        let _ = part.names.iter().take(4).filter_map(|name| image.function_named(name)).count();
        let _ = image.file_offset_of(part.addr);
    }
    for addr in [0, 1, u64::MAX].map(FileAddr) {
        let _ = fde_at(bytes, image, addr);
        let _ = image.frame_at(addr);
        let _ = image.function_at(addr);
    }
    let _ = image.functions_matching("*t*");
    let _ = image.object_named("table");
    let _ = restartable_sequences(bytes);
    let _ = exports_one_of(bytes, &["malloc"]);
    for start in [0, 0x5555_5555_4000, u64::MAX - 0xfff] {
        let _ = loaded_file(bytes.to_vec(), start).map(|bytes| Image::parse(&bytes));
    }
}
