//! Where the program handles faults by itself, what may fault or calls stays in place: another shape is taken, or the
//! place is refused with that reason.
//!
//! Next: `faults` says what may fault, instruction by instruction; `invariants` checks it on any bytes.

use trimtab_types::ProcAddr;
use trimtab_x86::{CodeRange, FunctionCode, JumpForm, Springboards, analyse, offer_padding, own_sites, point_site};

const ENTRY: ProcAddr = ProcAddr(0x1000);
/// Padding as compilers put it behind functions.
const PADDING: &[u8] = &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];

struct Row {
    name: &'static str,
    code: &'static [u8],
    /// Entry, then exits, in a program without fault handlers.
    free: &'static [&'static str],
    /// The same in one with handlers.
    handled: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        name: "loads_up_to_the_return",
        // mov eax, [rdi]; mov edx, [rdi+4]; lea eax, [rax+rax*2]; add eax, edx; ret
        code: &[0x8b, 0x07, 0x8b, 0x57, 0x04, 0x8d, 0x04, 0x40, 0x01, 0xd0, 0xc3],
        free: &["near 1000..1005", "near 1005..100b"],
        handled: &["may fault", "near 1005..100b"],
    },
    Row {
        name: "load_right_before_the_return",
        // push rbx; push rbp; mov ebx, edi; xor eax, eax; mov eax, [rsi]; pop rbp; pop rbx; ret
        code: &[0x53, 0x55, 0x89, 0xfb, 0x31, 0xc0, 0x90, 0x8b, 0x06, 0x5d, 0x5b, 0xc3],
        free: &["near 1000..1006", "near 1007..100c"],
        handled: &["near 1000..1006", "near 1009..100c"],
    },
    Row {
        name: "load_that_a_near_jump_would_take",
        // push rbx; push rbp; mov eax, [rdi]; ...: a short jump takes the two pushes and leaves the load
        code: &[0x53, 0x55, 0x8b, 0x07, 0x8b, 0x57, 0x04, 0x5d, 0x5b, 0x01, 0xd0, 0xc3],
        free: &["near 1000..1007", "near 1007..100c"],
        handled: &["short 1000..1002", "near 1007..100c"],
    },
    Row {
        name: "call_as_the_last_instruction",
        // push rbx; call 2000: no springboard comes before it, so the call would be displaced
        code: &[0x53, 0xe8, 0xfa, 0x0f, 0, 0, 0x5b, 0xc3],
        free: &["near 1000..1006", "near 1006..1008"],
        handled: &["may fault", "near 1006..1008"],
    },
    Row {
        name: "division",
        // mov eax, edi; cdq; idiv esi; ret
        code: &[0x89, 0xf8, 0x99, 0xf7, 0xfe, 0xc3],
        free: &["near 1000..1005", "near 1005..1006"],
        handled: &["short 1000..1002", "near 1005..1006"],
    },
];

fn described(code: &[u8], faults_stay: bool) -> Vec<String> {
    let ranges = vec![CodeRange { addr: ENTRY, bytes: code, after: PADDING }];
    let code = FunctionCode { entry: ENTRY, ranges, faults_stay, ..FunctionCode::default() };
    let analysis = analyse(&code, &(), &()).expect("whole instructions");
    let sites = own_sites(&code, &analysis);
    let all = std::iter::once(sites.entry).chain(sites.exits.into_iter().map(|(_, site)| site));
    all.map(|site| match site {
        Ok(site) => {
            let form = if site.jump == JumpForm::Near5 { "near" } else { "short" };
            format!("{form} {:x}..{:x}", site.displaced.start, site.displaced.end)
        }
        Err(refusal) => refusal.label().to_owned(),
    })
    .collect()
}

#[test]
fn what_may_fault_is_not_moved_where_the_program_handles_faults() {
    for row in ROWS {
        assert_eq!(described(row.code, false), row.free, "{}, nobody handles faults", row.name);
        assert_eq!(described(row.code, true), row.handled, "{}, faults are handled", row.name);
    }
}

#[test]
fn a_point_at_what_may_fault_is_refused_and_says_why() {
    let ranges = vec![CodeRange { addr: ENTRY, bytes: ROWS[0].code, after: PADDING }];
    let code = FunctionCode { entry: ENTRY, ranges, faults_stay: true, ..FunctionCode::default() };
    let analysis = analyse(&code, &(), &()).expect("whole instructions");
    let mut springboards = Springboards::new();
    offer_padding(&code, &analysis, &mut springboards);
    let refusal = point_site(&code, &analysis, ENTRY + 2, &mut springboards).expect_err("it is a load").to_string();
    for part in ["0x1002", "fault handler of its own", "probe the callers instead"] {
        assert!(refusal.contains(part), "{refusal}");
    }
    assert!(point_site(&code, &analysis, ENTRY + 5, &mut springboards).is_ok(), "behind the loads");
}
