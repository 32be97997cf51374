//! Restartable sequences are found however the file was linked; nm is the truth.

use crate::common::{nm, path, read, run, without_sections};
use std::process::Command;
use trimtab_symbols::{RestartableSequence, restartable_sequences};
use trimtab_types::FileAddr;

/// One described where descriptors are, one elsewhere with a pointer to it, and room between.
const SOURCE: &str = r#"
        .macro sequence name
        .long 0, 0
        .quad \name\()_from, \name\()_to - \name\()_from, \name\()_abort
        .endm
        .text
        .irp name, here, elsewhere
\name\()_from: nop
        nop
\name\()_to: ret
        .byte 0x0f, 0x1f, 0x05
        .long 0x53053053
\name\()_abort: ret
        .endr
        .section __rseq_cs, "aw"
        .balign 32
        .skip 32
here:   sequence here
        .section __rseq_cs_ptr_array, "aw"
        .quad here, elsewhere
        .section .data.rel.ro, "aw"
        .balign 32
elsewhere: sequence elsewhere
        .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn all_are_found_however_they_are_linked() {
    let source = path("restartable.S");
    std::fs::write(&source, SOURCE).expect("writes");
    for (case, flags) in [
        ("fixed", &["-static", "-no-pie", "-Wl,-e,0"][..]),
        ("relocated", &["-shared"]),
        ("packed", &["-shared", "-Wl,-z,pack-relative-relocs"]),
        ("position-independent", &["-pie", "-Wl,-e,0"]),
    ] {
        let file = path(&format!("restartable-{case}"));
        run(Command::new("cc").arg("-nostdlib").args(flags).arg("-o").arg(&file).arg(&source));
        let symbols = nm(&file, "t");
        let at = |name: &str| symbols[name].0;
        let sequence = |name: &str| RestartableSequence {
            code: at(&format!("{name}_from"))..at(&format!("{name}_to")),
            abort: at(&format!("{name}_abort")),
        };
        let bytes = read(&file);
        let found = restartable_sequences(&bytes).expect("a file");
        assert_eq!(found, [sequence("here"), sequence("elsewhere")], "{case}");
        assert!(found.iter().all(|one| one.code.end.0 - one.code.start.0 == 2 && one.code.start > FileAddr(0)));
        assert_eq!(restartable_sequences(&without_sections(&bytes)), Ok(Vec::new()), "{case}");
    }
}
