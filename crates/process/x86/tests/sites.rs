//! Bytes of small functions and the patches chosen for them, each row a hazard by name.
//!
//! The code was assembled once from the text beside it. `want` lists the entry and then each exit: kind, `at`, jump
//! (`near`, or `short` with its springboard), and the displaced bytes; or the reason for leaving it alone.
//! Next: `invariants.rs` for what holds for any bytes.

use std::collections::BTreeMap;
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Analysis, CodeRange, ExitKind, FunctionCode, JumpForm, PatchSite, ReadMemory, Refusal, SiteKind, Springboards,
    analyse, function_sites, offer_padding,
};

struct Row {
    name: &'static str,
    assembly: &'static str,
    addr: u64,
    code: &'static str,
    after: &'static str,
    want: &'static str,
}

#[test]
fn sites() {
    let mut wrong = Vec::new();
    for row in ROWS {
        let got = describe(&plan(row, &[], &[]));
        if got != row.want {
            wrong.push(format!("{} ({}):\n  want {}\n  got  {got}", row.name, row.assembly, row.want));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn entries_from_outside() {
    let rows: &[(&str, &[u64], &[u64], &str)] = &[
        ("nobody else", &[], &[], "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100b"),
        ("landing_pad_in_entry", &[0x1003], &[], "entry 1000: no springboard; ret 1009: 1006 near 1006..100b"),
        ("other_entry_in_exit", &[], &[0x1009], "entry 1000 near 1000..1006; ret 1009: no springboard"),
        ("other_entry_where_exit_begins", &[], &[0x1006], "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100b"),
        ("other_entry_between_instructions", &[], &[0x1007], "entry 1000 near 1000..1006; ret 1009: no springboard"),
        ("other_entry_at_the_entry", &[], &[0x1000], "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100b"),
    ];
    let base = ROWS.iter().find(|row| row.name == "repz_ret").expect("the row is there");
    for (name, landing_pads, other_entries, want) in rows {
        assert_eq!(describe(&plan(base, landing_pads, other_entries)), *want, "{name}");
    }
}

#[test]
fn exit_entered_from_elsewhere_is_not_seen_at_its_branches() {
    let row = ROWS.iter().find(|row| row.name == "one_byte_ret_seen_at_its_branches").expect("the row is there");
    let got = describe(&plan(row, &[], &[0x1018]));
    assert_eq!(got, "entry 1000 near 1000..1007; ret 1018: no room");
}

type Planned = Result<(Analysis, trimtab_x86::FunctionSites), Refusal>;

fn plan(row: &Row, landing_pads: &[u64], other_entries: &[u64]) -> Planned {
    let typed = |addresses: &[u64]| addresses.iter().copied().map(ProcAddr).collect::<Vec<_>>();
    let (bytes, after) = (bytes(row.code), bytes(row.after));
    let code = FunctionCode {
        entry: ProcAddr(row.addr),
        ranges: vec![CodeRange { addr: ProcAddr(row.addr), bytes: &bytes, after: &after }],
        landing_pads: &typed(landing_pads),
        other_entries: &typed(other_entries),
        outside_branches: &[],
        restartable: &[],
        faults_stay: false,
    };
    let analysis = analyse(&code, &Tables::new(), &())?;
    let mut springboards = Springboards::new();
    offer_padding(&code, &analysis, &mut springboards);
    let sites = function_sites(&code, &analysis, &mut springboards);
    Ok((analysis, sites))
}

fn describe(planned: &Planned) -> String {
    let sites = match planned {
        Ok((_, sites)) => sites,
        Err(refusal) => return format!("all: {}", refusal.label()),
    };
    let mut parts = vec![match &sites.entry {
        Ok(site) => format!("entry {}", describe_site(site)),
        Err(refusal) => format!("entry {:x}: {}", 0x1000, refusal.label()),
    }];
    for (exit, site) in &sites.exits {
        let what = match site {
            Ok(site) => describe_site(site),
            Err(refusal) => refusal.label().to_owned(),
        };
        parts.push(format!("{} {:x}: {what}", exit_name(exit.kind), exit.at));
    }
    parts.join("; ")
}

fn exit_name(kind: ExitKind) -> String {
    match kind {
        ExitKind::Ret { pop: 0 } => "ret".to_owned(),
        ExitKind::Ret { pop } => format!("ret/{pop}"),
        ExitKind::TailJump { target } => format!("jump to {target:x}"),
        ExitKind::ConditionalTailJump { target } => format!("branch to {target:x}"),
        ExitKind::IndirectTailJump => "jump".to_owned(),
        ExitKind::RunsInto { target } => format!("runs into {target:x}"),
        ExitKind::FallsThrough => "end".to_owned(),
    }
}

fn describe_site(site: &PatchSite) -> String {
    let jump = match site.jump {
        JumpForm::Near5 => "near".to_owned(),
        JumpForm::Short2 { via } => format!("short via {via:x}"),
    };
    let carried = site
        .carrier
        .as_ref()
        .map_or(String::new(), |carrier| format!(" in {:x}..{:x}", carrier.displaced.start, carrier.displaced.end));
    let whole = if matches!(site.kind, SiteKind::Whole(_)) { "whole " } else { "" };
    format!("{whole}{:x} {jump}{carried} {:x}..{:x}", site.at, site.displaced.start, site.displaced.end)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16);
    (0..hex.len()).step_by(2).map(|at| digit(at).expect("rows hold whole hexadecimal bytes")).collect()
}

/// Read-only memory that the rows' jump tables lie in.
struct Tables(BTreeMap<u64, Vec<u8>>);

impl Tables {
    fn new() -> Tables {
        let relative = [0x1018_i32, 0x101e, 0x1024, 0x1031].map(|target| (target - 0x5000).to_le_bytes());
        let absolute = [0x100e_u64, 0x1014].map(u64::to_le_bytes);
        Tables(BTreeMap::from([(0x5000, relative.concat()), (0x5100, absolute.concat())]))
    }
}

impl ReadMemory for Tables {
    fn read(&self, ProcAddr(addr): ProcAddr, buf: &mut [u8]) -> bool {
        let Some((start, data)) = self.0.range(..=addr).next_back() else { return false };
        let offset = (addr - start) as usize;
        data.get(offset..offset + buf.len()).is_some_and(|found| {
            buf.copy_from_slice(found);
            true
        })
    }
}

const ROWS: &[Row] = &[
    Row {
        name: "springboard_in_code",
        assembly: "push %rbx; mov %rdi,%rbx; test %rdi,%rdi; je 1f; mov 8(%rbx),%rax; add 16(%rbx),%rax; \
                   mov 24(%rbx),%rcx; add %rcx,%rax; jmp 2f; 1: pop %rbx; ret; 2: mov %rax,0x100(%rbx); pop %rbx; ret",
        addr: 0x1000,
        code: "534889fb4885ff7411488b430848034310488b4b184801c8eb025bc3488983000100005bc3",
        after: "",
        want: "entry 1000 near 1000..1007; ret 101b: 101a short via 100c in 1007..1011 101a..101c; \
               ret 1024: 101c near 101c..1025",
    },
    Row {
        name: "two_moves",
        assembly: "mov %rdi,%rax; add %rsi,%rax; mov %rax,(%rdx); ret",
        addr: 0x1000,
        code: "4889f84801f0488902c3",
        after: "66662e0f1f8400000000000f1f4000",
        want: "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100a",
    },
    Row {
        name: "plain",
        assembly: "push %rbp; mov %rsp,%rbp; sub $16,%rsp; call .+0x100; leave; ret",
        addr: 0x1000,
        code: "554889e54883ec10e8fb000000c9c3",
        after: "660f1f840000000000",
        want: "entry 1000 near 1000..1008; ret 100e: 100d near 100d..100f",
    },
    Row {
        name: "endbr64",
        assembly: "endbr64; push %rbx; mov %rdi,%rbx; xor %eax,%eax; mov %eax,(%rbx); mov %rdi,(%rsi); pop %rbx; ret",
        addr: 0x1000,
        code: "f30f1efa534889fb31c0890348893e5bc3",
        after: "",
        want: "entry 1004 near 1004..100a; ret 1010: 100c near 100c..1011",
    },
    Row {
        name: "rip_relative",
        assembly: "mov 0x2000(%rip),%rax; add %rdi,%rax; mov (%rax),%rax; ret",
        addr: 0x1000,
        code: "488b05002000004801f8488b00c3",
        after: "",
        want: "entry 1000 near 1000..1007; ret 100d: 1007 near 1007..100e",
    },
    Row {
        name: "jump_into_patch",
        assembly: "push %rbx; 1: mov %rdi,%rbx; dec %rdi; jne 1b; mov %rbx,%rax; pop %rbx; ret",
        addr: 0x1000,
        code: "534889fb48ffcf75f84889d85bc3",
        after: "0f1f840000000000",
        want: "entry 1000: target inside; ret 100d: 1009 near 1009..100e",
    },
    Row {
        name: "loop_to_first_instruction",
        assembly: "1: dec %rdi; mov (%rdi),%eax; jne 1b; mov %rdi,%rax; add %rsi,%rax; ret",
        addr: 0x1000,
        code: "48ffcf8b0775f94889f84801f0c3",
        after: "",
        want: "entry 1000: loop to first instruction; ret 100d: 1007 near 1007..100e",
    },
    Row {
        name: "loop_to_behind_endbr64",
        assembly: "endbr64; 1: dec %rdi; mov (%rdi),%eax; jne 1b; mov %rdi,%rax; add %rsi,%rax; ret",
        addr: 0x1000,
        code: "f30f1efa48ffcf8b0775f94889f84801f0c3",
        after: "",
        want: "entry 1000: loop to first instruction; ret 1011: 100b near 100b..1012",
    },
    Row {
        name: "call_in_prologue",
        assembly: "sub $8,%rsp; call .+0x100; lea 1(%rax),%rax; add $8,%rsp; ret",
        addr: 0x1000,
        code: "4883ec08e8fb000000488d40014883c408c3",
        after: "0f1f8000000000",
        want: "entry 1000 short via 1012 1000..1004; ret 1011: 100d near 100d..1012",
    },
    Row {
        name: "jcc_in_prologue",
        assembly: "test %rdi,%rdi; je 1f; mov (%rdi),%rax; mov %rax,(%rsi); ret; 1: xor %eax,%eax; mov %eax,(%rsi); inc %eax; ret",
        addr: 0x1000,
        code: "4885ff7407488b07488906c331c08906ffc0c3",
        after: "",
        want: "entry 1000 near 1000..1005; ret 100b: 1005 near 1005..100c; ret 1012: 100e near 100e..1013",
    },
    Row {
        name: "jrcxz",
        assembly: "jrcxz 1f; mov %rdi,%rax; mov %rax,(%rsi); ret; 1: xor %eax,%eax; mov %eax,(%rsi); inc %eax; ret",
        addr: 0x1000,
        code: "e3074889f8488906c331c08906ffc0c3",
        after: "",
        want: "entry whole 1000 near 1000..1009; ret 1008: whole 1000 near 1000..1009; ret 100f: 100b near 100b..1010",
    },
    Row {
        name: "ret_imm16",
        assembly: "mov %rdi,%rax; add %rsi,%rax; mov %rax,(%rdx); ret $16",
        addr: 0x1000,
        code: "4889f84801f0488902c21000",
        after: "",
        want: "entry 1000 near 1000..1006; ret/16 1009: 1006 near 1006..100c",
    },
    Row {
        name: "repz_ret",
        assembly: "mov %rdi,%rax; add %rsi,%rax; mov %rax,(%rdx); repz ret",
        addr: 0x1000,
        code: "4889f84801f0488902f3c3",
        after: "",
        want: "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100b",
    },
    Row {
        name: "bnd_ret",
        assembly: "mov %rdi,%rax; add %rsi,%rax; mov %rax,(%rdx); bnd ret",
        addr: 0x1000,
        code: "4889f84801f0488902f2c3",
        after: "",
        want: "entry 1000 near 1000..1006; ret 1009: 1006 near 1006..100b",
    },
    Row {
        name: "tail_jump",
        assembly: "mov %rdi,%rax; add %rsi,%rax; mov %rax,(%rdx); jmp .+0x1000",
        addr: 0x1000,
        code: "4889f84801f0488902e9fb0f0000",
        after: "",
        want: "entry 1000 near 1000..1006; jump to 2009 1009: 1009 near 1009..100e",
    },
    Row {
        name: "conditional_tail_jump",
        assembly: "mov %rdi,%rax; add %rsi,%rax; test %rax,%rax; je .+0x1000; mov %rax,(%rdx); mov %rsi,%rax; ret",
        addr: 0x1000,
        code: "4889f84801f04885c00f84fa0f00004889024889f0c3",
        after: "",
        want: "entry 1000 near 1000..1006; branch to 2009 1009: 1009 near 1009..100f; ret 1015: 100f near 100f..1016",
    },
    Row {
        name: "indirect_tail_jump",
        assembly: "push %rbx; mov %rdi,%rbx; call .+0x100; mov (%rbx),%rax; mov %rbx,%rdi; pop %rbx; jmp *0x18(%rax)",
        addr: 0x1000,
        code: "534889fbe8fb000000488b034889df5bff6018",
        after: "",
        want: "entry 1000 near 1000..1009; jump 1010: 100c near 100c..1013",
    },
    Row {
        name: "one_byte_ret",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; mov %rsi,(%rdi); 1: ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "4889f84885f67403488937c3488b07e8fb000000ebf6",
        after: "",
        want: "entry 1000 near 1000..1006; ret 100b: no room",
    },
    Row {
        name: "one_byte_ret_seen_at_its_branches",
        assembly: "push %rbx; mov %rdi,%rbx; mov %rsi,%rdi; pop %rbx; mov %rdi,%rax; test %rsi,%rsi; je 1f; mov %rsi,8(%rdi); add $1,%rax; 1: ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "534889fb4889f75b4889f84885f67408488977084883c001c3488b07e8fb000000ebf6",
        after: "",
        want: "entry 1000 near 1000..1007; branch to 1018 100e: 100b near 100b..1010; runs into 1018 1018: 1010 near 1010..1018",
    },
    Row {
        name: "one_byte_ret_branched_to_from_entry",
        assembly: "test %rdi,%rdi; je 1f; mov %rsi,8(%rdi); add $1,%rax; 1: ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "4885ff7408488977084883c001c3488b07e8fb000000ebf6",
        after: "",
        want: "entry whole 1000 near 1000..1005; branch to 100d 1003: whole 1000 near 1000..1005; runs into 100d 100d: 1005 near 1005..100d",
    },
    Row {
        name: "one_byte_ret_after_call",
        assembly: "push %rbx; mov %rdi,%rbx; mov %rsi,%rdi; pop %rbx; test %rsi,%rsi; je 1f; call .+0x100; 1: ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "534889fb4889f75b4885f67405e8fb000000c3488b07e8fb000000ebf6",
        after: "",
        want: "entry 1000 near 1000..1007; ret 1012: no room",
    },
    Row {
        name: "conditional_tail_jump_in_entry",
        assembly: "test %rdi,%rdi; je .+0x1000; mov %rsi,%rax; add %rdi,%rax; ret",
        addr: 0x1000,
        code: "4885ff0f84fa0f00004889f04801f8c3",
        after: "",
        want: "entry whole 1000 near 1000..1009; branch to 2003 1003: whole 1000 near 1000..1009; ret 100f: 1009 near 1009..1010",
    },
    Row {
        name: "ret_with_padding",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; mov %rsi,(%rdi); 1: ret",
        addr: 0x1000,
        code: "4889f84885f67403488937c3",
        after: "0f1f4000",
        want: "entry 1000 near 1000..1006; ret 100b: 100b near 100b..100c",
    },
    Row {
        name: "ret_with_inner_padding",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; mov %rsi,(%rdi); 1: ret; .nops 4; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "4889f84885f67403488937c30f1f4000488b07e8fb000000ebf6",
        after: "",
        want: "entry 1000 near 1000..1006; ret 100b: 100b near 100b..100c",
    },
    Row {
        name: "padding_that_is_no_padding",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; mov %rsi,(%rdi); 1: ret",
        addr: 0x1000,
        code: "4889f84885f67403488937c3",
        after: "00000000000000000000000000000000",
        want: "entry 1000 near 1000..1006; ret 100b: no room",
    },
    Row {
        name: "self_tail_call",
        assembly: "1: push %rbx; mov %rdi,%rbx; call .+0x100; lea 1(%rbx),%rdi; pop %rbx; test %rax,%rax; jne 1b; add %rbx,%rax; mov %rax,(%rsi); ret",
        addr: 0x1000,
        code: "534889fbe8fb000000488d7b015b4885c075ed4801d8488906c3",
        after: "",
        want: "entry 1000: loop to first instruction; ret 1019: 1013 near 1013..101a",
    },
    Row {
        name: "short_jump_springboard",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; push %rbx; mov %rsi,(%rdi); 1: pop %rbx; ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "4889f84885f67404534889375bc3488b07e8fb000000ebf6",
        after: "0f1f8000000000",
        want: "entry 1000 near 1000..1006; ret 100d: 100c short via 1018 100c..100e",
    },
    Row {
        name: "short_jump_without_springboard",
        assembly: "mov %rdi,%rax; test %rsi,%rsi; je 1f; push %rbx; mov %rsi,(%rdi); 1: pop %rbx; ret; 2: mov (%rdi),%rax; call .+0x100; jmp 2b",
        addr: 0x1000,
        code: "4889f84885f67404534889375bc3488b07e8fb000000ebf6",
        after: "",
        want: "entry 1000 near 1000..1006; ret 100d: no springboard",
    },
    Row {
        name: "page_crossing_entry",
        assembly: "push %rbp; mov %rsp,%rbp; mov %rdi,%rax; add %rsi,%rax; pop %rbp; mov %rax,(%rdx); ret",
        addr: 0xffd,
        code: "554889e54889f84801f05d488902c3",
        after: "660f1f840000000000",
        want: "entry ffd short via 100c ffd..1001; ret 100b: 1007 near 1007..100c",
    },
    Row {
        name: "page_crossing_exit",
        assembly: "mov %rdi,%rax; mov %rsi,(%rdi); mov %rax,%rcx; add %rsi,%rax; mov %rax,(%rdx); pop %rbx; ret",
        addr: 0xfed,
        code: "4889f84889374889c14801f04889025bc3",
        after: "660f1f840000000000",
        want: "entry fed near fed..ff3; ret ffd: ff9 near ff9..ffe",
    },
    Row {
        name: "whole_function",
        assembly: "xor %eax,%eax; ret",
        addr: 0x1000,
        code: "31c0c3",
        after: "660f1f840000000000",
        want: "entry whole 1000 near 1000..1003; ret 1002: whole 1000 near 1000..1003",
    },
    Row {
        name: "whole_function_with_late_ret",
        assembly: "mov $5,%eax; ret",
        addr: 0x1000,
        code: "b805000000c3",
        after: "",
        want: "entry whole 1000 near 1000..1006; ret 1005: whole 1000 near 1000..1006",
    },
    Row {
        name: "whole_thunk",
        assembly: "sub $16,%rdi; jmp .+0x1000",
        addr: 0x1000,
        code: "4883ef10e9fb0f0000",
        after: "",
        want: "entry whole 1000 near 1000..1009; jump to 2004 1004: whole 1000 near 1000..1009",
    },
    Row {
        name: "only_a_ret",
        assembly: "ret",
        addr: 0x1000,
        code: "c3",
        after: "",
        want: "entry 1000: no room; ret 1000: no room",
    },
    Row {
        name: "breakpoint_in_patch",
        assembly: "int3; mov %rdi,%rax; mov %rax,(%rsi); ret",
        addr: 0x1000,
        code: "cc4889f8488906c3",
        after: "",
        want: "entry 1000: unmovable instruction; ret 1007: 1001 near 1001..1008",
    },
    Row {
        name: "system_call",
        assembly: "mov $39,%eax; syscall; ret",
        addr: 0x1000,
        code: "b8270000000f05c3",
        after: "0f1f8000000000",
        want: "entry 1000 near 1000..1005; ret 1007: 1007 near 1007..1008",
    },
    Row {
        name: "never_returns",
        assembly: "sub $8,%rsp; mov %rdi,(%rsi); 1: call .+0x100; jmp 1b",
        addr: 0x1000,
        code: "4883ec0848893ee8fb000000ebf9",
        after: "",
        want: "entry 1000 near 1000..1007",
    },
    Row {
        name: "falls_through",
        assembly: "mov %rdi,%rax; mov %rax,(%rsi)",
        addr: 0x1000,
        code: "4889f8488906",
        after: "",
        want: "entry 1000 near 1000..1006; end 1006: falls through",
    },
    Row {
        name: "lock_prefix_skipped",
        assembly: "mov %rdi,%rax; cmpl $0,(%rsi); je 1f; lock; 1: cmpxchg %rcx,(%rdi); mov %rax,(%rsi); ret",
        addr: 0x1000,
        code: "4889f8833e007401f0480fb10f488906c3",
        after: "",
        want: "entry 1000 near 1000..1006; ret 1010: no springboard",
    },
    Row {
        name: "jump_between_instructions",
        assembly: "mov %rdi,%rax; je .+3; mov $0x90909090,%eax; mov %rax,(%rsi); ret",
        addr: 0x1000,
        code: "4889f87401b890909090488906c3",
        after: "",
        want: "all: misaligned code",
    },
    Row {
        name: "jump_table_target_at_ret",
        assembly: "cmp $3,%edi; ja 1f; lea 0x5000-.-7(%rip),%rdx; mov %edi,%edi; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; notrack jmp *%rax; 1: mov $1,%eax; ret; mov $2,%eax; ret; mov $3,%eax; ret; nop; mov %rsi,%rax; mov %rdi,%rax; ret",
        addr: 0x1000,
        code: "83ff037713488d15f43f000089ff486304ba4801d03effe0b801000000c3b802000000c3b803000000c3904889f04889f8c3",
        after: "660f1f840000000000",
        want: "entry 1000 near 1000..1005; ret 101d: 1018 near 1018..101e; ret 1023: 101e near 101e..1024; ret 1029: 1024 near 1024..102a; ret 1031: 1031 near 1031..1032",
    },
    Row {
        name: "absolute_jump_table",
        assembly: "cmp $3,%edi; ja 1f; mov %edi,%edi; jmp *0x5100(,%rdi,8); 1: mov $1,%eax; ret; mov $2,%eax; ret",
        addr: 0x1000,
        code: "83ff03770989ffff24fd00510000b801000000c3b802000000c3",
        after: "",
        want: "entry 1000 near 1000..1005; ret 1013: 100e near 100e..1014; ret 1019: 1014 near 1014..101a",
    },
    Row {
        name: "unresolved_jump",
        assembly: "push %rbx; lea 1(%rdi,%rsi,2),%rax; jmp *%rax; pop %rbx; ret",
        addr: 0x1000,
        code: "53488d447701ffe05bc3",
        after: "660f1f840000000000",
        want: "entry 1000: unresolved jump; ret 1009: 1009 near 1009..100a",
    },
    Row {
        name: "jump_with_frame_still_there",
        assembly: "push %rbx; mov %rdi,%rbx; mov %rsi,%rax; jmp *8(%rdi); pop %rbx; ret",
        addr: 0x1000,
        code: "534889fb4889f0ff67085bc3",
        after: "660f1f840000000000",
        want: "entry 1000: unresolved jump; ret 100b: 100b near 100b..100c",
    },
    Row {
        name: "jump_that_may_be_to_a_taken_label",
        assembly: "lea 1f(%rip),%rax; mov %rax,(%rsi); jmp *8(%rdi); 1: mov %rdi,%rax; add %rsi,%rax; ret",
        addr: 0x1000,
        code: "488d0506000000488906ff67084889f84801f0c3",
        after: "660f1f840000000000",
        want: "entry 1000 near 1000..1007; ret 1013: 1013 near 1013..1014",
    },
    Row {
        name: "jump_through_a_pointer",
        assembly: "mov %rdi,%rax; mov %rax,(%rsi); jmp *8(%rdi)",
        addr: 0x1000,
        code: "4889f8488906ff6708",
        after: "660f1f840000000000",
        want: "entry 1000 near 1000..1006; jump 1006: 1006 near 1006..1009",
    },
    Row {
        name: "self_reference",
        assembly: "push %rbx; lea 1f(%rip),%rax; call *%rdi; mov %rax,%rdi; 1: pop %rbx; mov %rdi,%rax; ret",
        addr: 0x1000,
        code: "53488d0505000000ffd74889c75b4889f8c3",
        after: "660f1f840000000000",
        want: "entry 1000 near 1000..1008; ret 1011: 100d near 100d..1012",
    },
];
