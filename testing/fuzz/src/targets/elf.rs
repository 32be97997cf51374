//! Any bytes as a program file: parse it, ask everything, keep it and read it back, and look for debugging sections.
//!
//! Next: `minidebug` and `debug` for what lies inside of files.

use crate::ask_image::ask_image;
use crate::hostile::Target;
use crate::seeds::{LINKAGE, SHAPES};
use anyhow::Result;
use trimtab_symbols::dwarf::Sections;
use trimtab_symbols::{Image, gnu_build_id_of};

/// The target.
pub struct Elf;

impl Target for Elf {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let shapes = SHAPES.build(&[])?;
        // As `sstrip` leaves a file: without section headers.
        let mut headless = shapes.clone();
        headless[40..48].fill(0);
        headless[58..64].fill(0);
        Ok(vec![shapes, headless, LINKAGE.build(&[])?, SHAPES.build(&["strip"])?])
    }

    fn length_max(&self) -> usize {
        24 * 1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let _ = gnu_build_id_of(input);
        if let Ok(sections) = Sections::of(input) {
            let _ = sections.is_empty();
        }
        let Ok(image) = Image::parse(input) else { return false };
        for part in image.functions.iter().chain(&image.fragments) {
            assert!(part.size > 0 && image.is_executable(part.addr), "a function lies in code");
        }
        ask_image(input, &image);
        assert_eq!(Image::from_cache(&image.to_cache()).as_ref(), Ok(&image), "the cache gives back what it got");
        true
    }
}
