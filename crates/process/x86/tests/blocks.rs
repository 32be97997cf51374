//! Blocks, dominators and loops of small functions, each row a shape of control flow by name.
//!
//! The code is assembled here, labels by letter; `want` lists each loop with the label of its header, how often it goes
//! back, how often it leaves, and whether it is irreducible. Next: `src/blocks.rs`, `src/loops.rs`.

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use std::collections::BTreeMap;
use trimtab_types::ProcAddr;
use trimtab_x86::{
    Analysis, CodeRange, ControlFlow, FunctionCode, PassPlace, PatchSite, Refusal, SiteKind, analyse, given_addresses,
    loop_sites,
};

const ADDR: ProcAddr = ProcAddr(0x1000);

/// Jumps by condition and label, `.` for something else to do, `call`, `ret`; a capital letter sets a label.
fn assemble(text: &str) -> (Vec<u8>, BTreeMap<String, ProcAddr>) {
    let mut a = CodeAssembler::new(64).expect("64 bits are supported");
    let mut labels: BTreeMap<String, CodeLabel> = BTreeMap::new();
    let mut places = Vec::new();
    for word in text.split_whitespace() {
        put(&mut a, word, &mut labels, &mut places).expect("rows hold known words");
    }
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(ADDR.0, options).expect("all labels are set");
    let offsets = &result.inner.new_instruction_offsets;
    let places = places.into_iter().map(|(label, index)| (label, ADDR + u64::from(offsets[index])));
    (result.inner.code_buffer, places.collect())
}

fn put(
    a: &mut CodeAssembler,
    word: &str,
    labels: &mut BTreeMap<String, CodeLabel>,
    places: &mut Vec<(String, usize)>,
) -> Result<(), IcedError> {
    let (operation, label) = word.split_once(':').unwrap_or((word, ""));
    let mut to = || *labels.entry(label.to_owned()).or_insert_with(|| a.create_label());
    match operation {
        "." => a.mov(rax, rdi),
        "small" => a.inc(eax),
        "tiny" => a.cdq(),
        "call" => a.call(0x5000u64),
        "give" => {
            let to = to();
            a.lea(rdi, ptr(to))
        }
        "make" => {
            let to = to();
            a.lea(rax, ptr(to))
        }
        "number" => a.mov(edi, ADDR.0 as u32),
        "copy" => a.mov(rdi, rax),
        "load" => a.mov(rdi, ptr(rsp)),
        "first" => a.xor(edx, edx),
        "next" => a.inc(rdx),
        "keep" => a.mov(ptr(rsp + 8), rdx),
        "take" => a.mov(rdx, ptr(rsp + 8)),
        "ret" => a.ret(),
        "jmp" => {
            let to = to();
            a.jmp(to)
        }
        "je" => {
            let to = to();
            a.je(to)
        }
        _ => {
            let label = labels.entry(operation.to_owned()).or_insert_with(|| a.create_label());
            places.push((operation.to_owned(), a.instructions().len()));
            a.set_label(label)
        }
    }
}

struct Lab {
    bytes: Vec<u8>,
    places: BTreeMap<String, ProcAddr>,
}

impl Lab {
    fn new(text: &str) -> Lab {
        let (bytes, places) = assemble(text);
        Lab { bytes, places }
    }

    fn code(&self) -> FunctionCode<'_> {
        let range = CodeRange { addr: ADDR, bytes: &self.bytes, after: &[] };
        FunctionCode { entry: ADDR, ranges: vec![range], ..FunctionCode::default() }
    }

    fn analysis(&self) -> Analysis {
        analyse(&self.code(), &(), &()).expect("whole instructions are assembled")
    }

    fn label_at(&self, addr: ProcAddr) -> &str {
        self.places.iter().find(|(_, place)| **place == addr).map_or("?", |(label, _)| label)
    }

    fn loops(&self) -> String {
        self.described(&ControlFlow::of(&self.analysis()))
    }

    fn described(&self, flow: &ControlFlow) -> String {
        let described = flow.loops.iter().map(|found| {
            let kind = match (found.is_irreducible(), found.is_counted_at_header) {
                (true, true) => " irreducible",
                (true, false) => " irreducible, uncounted",
                (false, _) => "",
            };
            let (label, back, out) = (self.label_at(found.header_at), found.latches.len(), found.exits.len());
            format!("{found} {label} {back} back {out} out{kind}")
        });
        described.collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn loops_by_shape() {
    let rows = [
        ("none", ". je:A . A ret", ""),
        ("simple", ". A . je:A ret", "1 A 1 back 1 out"),
        ("tested_first", ". A . je:B . jmp:A B ret", "1 A 1 back 1 out"),
        ("of_one_block_at_the_entry", "A . je:A ret", "1 A 1 back 1 out"),
        ("two_in_a_row", ". A . je:A . B . je:B ret", "1 A 1 back 1 out; 2 B 1 back 1 out"),
        ("nested", ". A . B . je:B . je:A ret", "1 A 1 back 1 out; 1.1 B 1 back 1 out"),
        (
            "two_inside_one",
            ". A . B . je:B . C . je:C . je:A ret",
            "1 A 1 back 1 out; 1.1 B 1 back 1 out; 1.2 C 1 back 1 out",
        ),
        ("two_latches", ". A . je:A . je:A ret", "1 A 2 back 1 out"),
        ("left_in_the_middle", ". A . je:B . . je:A B ret", "1 A 1 back 2 out"),
        ("never_left", ". A . jmp:A", "1 A 1 back 0 out"),
        ("jumped_into", ". je:B A . B . je:A ret", "1 A 1 back 1 out irreducible"),
        (
            "jumped_into_around_a_loop",
            ". je:B A . C . je:C B . je:A ret",
            "1 A 1 back 1 out irreducible; 1.1 C 1 back 1 out",
        ),
        // Compilers that know how the first pass begins jump into the loop inside.
        (
            "jumped_into_the_loop_inside",
            ". je:B A . B . C . je:B . je:A ret",
            "1 A 1 back 1 out irreducible; 1.1 B 1 back 1 out",
        ),
        (
            "without_a_block_that_all_pass",
            ". je:B A . je:C B . je:A C . je:A jmp:B ret",
            "1 A 2 back 0 out irreducible, uncounted",
        ),
        ("header_behind_its_body", ". jmp:B A . B . je:A ret", "1 B 1 back 1 out"),
        ("left_by_a_tail_call_in_the_middle", ". A . je:OUT . je:A ret OUT ret", "1 A 1 back 2 out"),
    ];
    for (name, text, want) in rows {
        assert_eq!(Lab::new(text).loops(), want, "{name}: {text}");
    }
}

/// A loop that comes back in two ways, of which the longer one loads a value anew, is one; loops that were written as two are not.
#[test]
fn loops_of_which_compilers_make_two_are_joined() {
    let apart = "1 H 1 back 1 out; 1.1 P 1 back 2 out";
    let rows = [
        ("made two", ". H take P je:Z next keep je:S jmp:P S call jmp:H Z ret", "1 P 2 back 1 out"),
        ("nothing to load", ". H . P je:Z next je:S jmp:P S call jmp:H Z ret", "1 P 2 back 1 out"),
        (
            "three ways back",
            ". G take H take P je:Z next keep je:S jmp:P S je:T call jmp:H T call jmp:G Z ret",
            "1 P 2 back 1 out",
        ),
        ("an error", ". H take P je:Z next keep je:S jmp:P S je:E call jmp:H Z ret E call", "1 P 2 back 2 out"),
        ("a first value", ". H first P je:Z next keep je:S jmp:P S call jmp:H Z ret", apart),
        ("a value from elsewhere", ". H take P je:Z next je:S jmp:P S call jmp:H Z ret", apart),
        ("a value that is kept there", ". H keep P je:Z next je:S jmp:P S call jmp:H Z ret", apart),
        ("a call on the way", ". H call P je:Z next je:S jmp:P S call jmp:H Z ret", apart),
        (
            "a test of its own",
            ". H take P next keep je:S jmp:P S call je:Z jmp:H Z ret",
            "1 H 1 back 1 out; 1.1 P 1 back 1 out",
        ),
    ];
    for (name, text, want) in rows {
        let lab = Lab::new(text);
        let analysis = lab.analysis();
        assert_eq!(lab.described(&ControlFlow::of(&analysis).rejoined(&lab.code(), &analysis)), want, "{name}: {text}");
    }
}

/// The block that all passes of a large loop go through is found, however many there are that only some go through.
#[test]
fn the_pass_block_of_a_large_loop_is_found() {
    let branches: String = (0..100).map(|number| format!("je:D{number} . D{number} . ")).collect();
    let text = format!(". je:B A . {branches} jmp:M B . M . je:A je:B ret");
    assert_eq!(Lab::new(&text).loops(), "1 M 2 back 1 out irreducible");
}

/// Nothing comes in behind a call of `abort`: neither padding nor the next block is reached from there.
#[test]
fn calls_that_never_come_back_lead_nowhere() {
    let (abort, rows) = (
        ProcAddr(0x5000),
        [
            (". je:A call B . je:C A . je:B C ret", "1 B 1 back 2 out irreducible", "1 A 1 back 2 out"),
            (". je:A call . B . je:C A . je:B C ret", "1 B 1 back 2 out irreducible", "1 A 1 back 2 out"),
            (". A . je:B call . jmp:A B ret", "1 A 1 back 1 out", ""),
            (". A . je:B jmp:A B call", "1 A 1 back 1 out", "1 A 1 back 1 out"),
        ],
    );
    for (text, returning, ending) in rows {
        let lab = Lab::new(text);
        let flow = ControlFlow::ending_at(&lab.analysis(), &|target| target == abort);
        assert_eq!((lab.loops().as_str(), lab.described(&flow).as_str()), (returning, ending), "{text}");
    }
    // A block that ends in a call returns from there no more, whatever is called.
    for (text, returning, ending) in
        [(". je:A call A ret", true, true), (". je:A call A call", false, false), (". call . ret", true, false)]
    {
        let analysis = Lab::new(text).analysis();
        assert_eq!(analysis.may_return(&|target| target == abort), ending, "{text}");
        assert_eq!(analysis.may_return(&|_| false), returning, "{text}");
    }
}

/// The addresses that the call at label C is given in rdi; `?` where it may be given something else.
#[test]
fn addresses_that_a_call_is_given() {
    let rows = [
        ("made right before it", "give:X . C call X ret", "X"),
        ("a program that lies where it was linked for", "number C call ret", "start"),
        ("copied", "make:X copy small C call X ret", "X"),
        ("a jump that leaves the function", ". je:A give:X C jmp:OUT A ret X ret OUT ret", "X"),
        ("of two ways", "je:A give:X jmp:C A give:Y C call X ret Y ret", "X Y"),
        ("in a loop, made before it", "give:X A . je:B ret B . C jmp:A X ret", "X"),
        ("the caller's", ". C call ret", "?"),
        ("the caller's on one way", "je:A give:X A . C call X ret", "X ?"),
        ("loaded", "give:X load C call X ret", "?"),
        ("changed", "make:X small copy C call X ret", "?"),
        ("of the call before", "give:X call C call X ret", "?"),
        ("made anew", "give:X call give:Y C call X ret Y ret", "Y"),
    ];
    for (name, text, want) in rows {
        let lab = Lab::new(text);
        let (analysis, start) = (lab.analysis(), ("start".to_owned(), ADDR));
        let flow = ControlFlow::of(&analysis);
        let given = given_addresses(&lab.code(), &analysis, &flow, lab.places["C"], 0).expect(name);
        let label = |at: &ProcAddr| if *at == start.1 { start.0.clone() } else { lab.label_at(*at).to_owned() };
        let others = given.has_others.then(|| "?".to_owned());
        let found: Vec<String> = given.addresses.iter().map(label).chain(others).collect();
        assert_eq!(found.join(" "), want, "{name}: {text}");
        assert_eq!(
            given_addresses(&lab.code(), &analysis, &flow, lab.places["C"] + 1, 0),
            None,
            "{name}: no instruction"
        );
    }
}

/// Ranks may be in two loops instead of one only where no way leads from one to the other but by a pass of what is around.
#[test]
fn loops_on_two_sides_of_a_branch_are_alternatives() {
    let rows: [(&str, &str, [&[u32]; 2], bool); 6] = [
        ("two_sides", "je:B A . je:A ret B . je:B ret", [&[1], &[2]], true),
        ("two_sides_in_a_loop", "O . je:B A . je:A jmp:E B . je:B E . je:O ret", [&[1, 1], &[1, 2]], true),
        ("two_in_a_row", ". A . je:A . B . je:B ret", [&[1], &[2]], false),
        ("two_in_a_row_in_a_loop", "O . A . je:A . B . je:B . je:O ret", [&[1, 1], &[1, 2]], false),
        ("one_inside", "A . B . je:B . je:A ret", [&[1], &[1, 1]], false),
        ("no_such_loop", "A . je:A ret", [&[1], &[2]], false),
    ];
    for (name, text, [one, other], want) in rows {
        let flow = ControlFlow::of(&Lab::new(text).analysis());
        assert_eq!(flow.are_alternatives(one, other), want, "{name}");
        assert_eq!(flow.are_alternatives(other, one), want, "{name}");
    }
}

#[test]
fn dominators_and_calls() {
    let lab = Lab::new(". je:A B call jmp:C A . C . D ret");
    let analysis = lab.analysis();
    let flow = ControlFlow::of(&analysis);
    assert!(flow.is_complete);
    let block = |label: &str| flow.block_at(lab.places[label]).expect("labels begin blocks");
    let entry = flow.block_at(ADDR).expect("the entry begins a block");
    for (above, below, want) in [("A", "C", false), ("B", "C", false), ("C", "C", true), ("C", "B", false)] {
        assert_eq!(flow.dominates(block(above), block(below)), want, "{above} {below}");
    }
    assert!(["A", "B", "C"].iter().all(|label| flow.blocks[block(label)].dominator == Some(entry)));
    assert_eq!(block("C"), block("D"), "nothing jumps to D, so no block begins there");
    let [call] = flow.calls[..] else { panic!("one call: {:?}", flow.calls) };
    assert_eq!(
        (call.at, call.return_address, call.target),
        (lab.places["B"], lab.places["B"] + 5, Some(ProcAddr(0x5000)))
    );
    assert_eq!(call.block, block("B"));
}

#[test]
fn where_a_loop_is_seen() {
    type Want = Result<(&'static str, PassPlace), &'static str>;
    let rows: &[(&str, &str, Want)] = &[
        ("room_at_the_header", ". A . small small je:A ret", Ok(("A", PassPlace::Header))),
        ("call_at_the_header", ". A call small je:A ret", Ok(("A", PassPlace::Header))),
        // The header is one byte before a place that is jumped to.
        ("room_at_the_latch", ". A tiny B . je:B L small . . jmp:A", Ok(("L", PassPlace::Latch))),
        ("jumped_into", ". je:B A . . B . . je:A ret", Ok(("A", PassPlace::Header))),
        ("no_block_for_all", ". je:B A . je:C B . je:A C . je:A jmp:B ret", Err("irreducible loop")),
    ];
    for (name, text, want) in rows {
        let lab = Lab::new(text);
        let got = lab.loop_seen(&|_| true);
        let got = got.map(|(sites, place)| (point(&sites), place));
        let got = got.as_ref().map(|(at, place)| (lab.label_at(*at), *place)).map_err(Refusal::label);
        assert_eq!(got, *want, "{name}");
    }
}

/// Where the header's bytes are another's, what is left is tried: in the block, and on all ways back.
#[test]
fn a_loop_is_seen_where_patches_may_be_taken() {
    let lab = Lab::new(". A . M . . je:B N . . jmp:A B . . je:A ret");
    let at = |label: &str| lab.places[label];
    let not_at = |label: &'static str| move |site: &PatchSite| site.at != at(label);
    let (sites, place) = lab.loop_seen(&not_at("A")).expect("there is room behind the first instruction");
    assert_eq!((point(&sites), place), (at("M"), PassPlace::Inside));
    let from_n_on = |site: &PatchSite| site.at >= at("N");
    let (sites, place) = lab.loop_seen(&from_n_on).expect("both ways back have room");
    assert_eq!((sites.len(), place), (2, PassPlace::WaysBack));
    assert!(matches!(sites[1].kind, SiteKind::Exit(_)), "only the side that is taken: {sites:?}");
    let refusal = lab.loop_seen(&|_| false).expect_err("everything is taken");
    assert_eq!(refusal.label(), "taken");
}

impl Lab {
    fn loop_seen(&self, may_take: &dyn Fn(&PatchSite) -> bool) -> Result<(Vec<PatchSite>, PassPlace), Refusal> {
        let analysis = self.analysis();
        let flow = ControlFlow::of(&analysis);
        let found = flow.loop_numbered(&[1]).expect("there is a loop");
        loop_sites(&self.code(), &analysis, &flow, found, may_take)
    }
}

fn point(sites: &[PatchSite]) -> ProcAddr {
    match sites {
        [PatchSite { kind: SiteKind::At(address), .. }] => *address,
        other => panic!("no point: {other:?}"),
    }
}
