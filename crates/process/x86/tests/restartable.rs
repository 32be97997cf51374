//! Restartable sequences stay where they are, with the instruction that announces one and the mark that the kernel looks at.
//!
//! Next: `sites` for everything else that decides where patches may be.

use std::ops::Range;
use trimtab_types::ProcAddr;
use trimtab_x86::{CodeRange, FunctionCode, Springboards, analyse, function_sites, offer_padding, point_site};

const CODE: &[u8] = &[
    0x41, 0xb8, 0x32, 0x00, 0x00, 0x00, // 1000: mov r8d, 50
    0x48, 0x8d, 0x05, 0x00, 0x10, 0x00, 0x00, // 1006: lea rax, [rip + 0x1000]
    0x48, 0x89, 0x46, 0x08, // 100d: mov [rsi + 8], rax
    0x8b, 0x46, 0x04, // 1011: mov eax, [rsi + 4]
    0x48, 0xff, 0x04, 0xc7, // 1014: inc qword [rdi + rax * 8]
    0xc3, // 1018: ret
    0x0f, 0x1f, 0x05, 0x53, 0x30, 0x05, 0x53, // 1019: a no-op, whose operand is the mark
    0xeb, 0xe4, // 1020: jmp 1006
];

/// The places that can be patched: entry, exit, and points.
fn verdicts(restartable: &[Range<ProcAddr>]) -> Vec<String> {
    let code = FunctionCode {
        entry: ProcAddr(0x1000),
        ranges: vec![CodeRange { addr: ProcAddr(0x1000), bytes: CODE, after: &[] }],
        outside_branches: &[ProcAddr(0x1020)],
        restartable,
        ..FunctionCode::default()
    };
    let analysis = analyse(&code, &(), &()).expect("whole instructions");
    let mut springboards = Springboards::new();
    offer_padding(&code, &analysis, &mut springboards);
    let sites = function_sites(&code, &analysis, &mut springboards);
    let exits = sites.exits.into_iter().map(|(_, site)| site);
    let points = [0x1006, 0x100d, 0x1011, 0x1014].map(ProcAddr);
    let points = points.map(|at| point_site(&code, &analysis, at, &mut Springboards::new()));
    let all = std::iter::once(sites.entry).chain(exits).chain(points);
    all.map(|site| site.map_or_else(|refusal| refusal.label().to_owned(), |site| format!("{:x}", site.at))).collect()
}

#[test]
fn nothing_of_a_sequence_is_displaced() {
    let refused = "restartable sequence";
    let code = ProcAddr(0x1011)..ProcAddr(0x1018);
    let mark = ProcAddr(0x101c)..ProcAddr(0x1020);
    assert_eq!(verdicts(&[]), ["1000", "1014", "1006", "100d", "1011", "1014"], "an ordinary function");
    // Bytes that look like padding behind the exit are used, unless they hold a mark.
    assert_eq!(verdicts(std::slice::from_ref(&code)), ["1000", "1018", "1006", refused, refused, refused]);
    assert_eq!(verdicts(&[code, mark]), ["1000", refused, "1006", refused, refused, refused]);
}
