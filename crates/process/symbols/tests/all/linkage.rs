//! Slots, stubs, thread-local data and protection; objdump, readelf and the running program are the truth.

use crate::common::{build, named, parse, read, run, without_sections};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use trimtab_symbols::{Image, ImageKind, SlotTarget};
use trimtab_types::FileAddr;

/// (case, flags): every way of linking that changes where calls leave the file.
const LINKED: &[(&str, &[&str])] = &[
    ("lazy", &["-O1", "-no-pie", "-Wl,-z,lazy"]),
    ("now", &["-O1", "-pie", "-fPIE", "-Wl,-z,now"]),
    ("marked", &["-O1", "-pie", "-fPIE", "-fcf-protection=full", "-Wl,-z,ibtplt"]),
    ("no-plt", &["-O1", "-pie", "-fPIE", "-fno-plt"]),
    ("static", &["-O1", "-static", "-no-pie"]),
    ("static-pie", &["-O1", "-static-pie"]),
];

/// A library whose code holds an address of its own is changed by its loader; another is not.
#[test]
fn text_that_the_loader_changes_is_known() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("text-relocations");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (code, expected) in [("movabs $here, %rax; here: ret", true), ("lea here(%rip), %rax; here: ret", false)] {
        let (source, library) = (folder.join("code.S"), folder.join("libcode.so"));
        std::fs::write(&source, format!(".globl code\ncode: {code}\n.section .note.GNU-stack\n")).expect("writes");
        let flags = ["-shared", "-nostdlib", "-Wl,-z,notext", "-o"];
        run(Command::new("cc").args(flags).args([&library, &source]));
        let found = trimtab_symbols::relocates_text(&std::fs::read(&library).expect("the library"));
        assert_eq!(found.expect("is one"), expected, "{code}");
    }
}

#[test]
fn each_stub_is_where_objdump_says() {
    for (case, flags) in LINKED {
        let path = build(&format!("linkage-stubs-{case}"), "cc", "linkage.c", flags);
        let (bytes, image) = parse(&path);
        let truth = objdump_stubs(&path);
        for (name, addr) in &truth {
            let found = image.stubs_of_import(name).any(|stub| stub.addr == *addr);
            assert!(found, "{case}: {name} at {addr}: {:x?} {:x?}", image.stubs, image.slots);
            let (stub, slot) = image.stub_at(FileAddr(addr.0 + 5)).expect("a stub");
            assert_eq!(stub.addr, *addr, "{case}: {name}");
            assert_eq!(slot.map(|slot| &slot.target), Some(&SlotTarget::Import(name.clone())), "{case}");
        }
        assert_eq!(truth.contains_key("strlen"), !case.starts_with("static") && *case != "no-plt", "{case}");
        let bare = Image::parse(&without_sections(&bytes)).expect("parse");
        for name in truth.keys() {
            let with = image.stubs_of_import(name).map(|stub| stub.addr).collect::<Vec<_>>();
            let without = bare.stubs_of_import(name).map(|stub| stub.addr).collect::<Vec<_>>();
            assert_eq!(with, without, "{case}: {name}, without section headers");
        }
    }
}

/// A static program's stubs are packed, and its section headers don't say how closely.
#[test]
fn a_static_program_has_a_stub_for_each_choice_it_makes() {
    let path = build("linkage-packed", "cc", "linkage.c", &["-O1", "-static", "-no-pie"]);
    let (_, image) = parse(&path);
    assert!(image.slots.len() > 2, "{:x?}", image.slots);
    for slot in &image.slots {
        let through: Vec<FileAddr> =
            image.stubs.iter().filter(|stub| stub.slot == slot.addr).map(|stub| stub.addr).collect();
        let [stub] = through[..] else { panic!("{slot:x?}: {through:x?}") };
        assert_eq!(image.stub_at(stub).map(|(found, _)| found.slot), Some(slot.addr), "{slot:x?}");
    }
}

#[test]
fn each_slot_is_where_readelf_says() {
    for (case, flags) in LINKED {
        let path = build(&format!("linkage-slots-{case}"), "cc", "linkage.c", flags);
        let (_, image) = parse(&path);
        let truth = readelf_slots(&path);
        let found: BTreeMap<FileAddr, SlotTarget> =
            image.slots.iter().map(|slot| (slot.addr, slot.target.clone())).collect();
        assert_eq!(found, truth, "{case}");
        let chosen = named(&image, "chosen");
        assert!(chosen.is_ifunc, "{case}");
        assert!(image.slots_of_resolver(chosen.addr).count() >= 1, "{case}: {:x?}", image.slots);
        if !case.starts_with("static") {
            let slot = image.slots_of_import("strlen").next().unwrap_or_else(|| panic!("{case}: no strlen"));
            assert_eq!(image.slot_at(slot.addr), Some(slot), "{case}");
        }
    }
}

#[test]
fn a_static_pie_is_known_without_its_mark() {
    let path = build("linkage-unmarked", "cc", "linkage.c", &["-static-pie"]);
    let mut bytes = read(&path);
    assert_eq!(Image::parse(&bytes).expect("parse").kind, ImageKind::StaticPie);
    let flags = 0x6fff_fffb_u64.to_le_bytes();
    let at = bytes.chunks_exact(8).position(|word| word == flags).expect("DT_FLAGS_1") * 8;
    bytes[at + 8..at + 16].fill(0);
    assert_eq!(Image::parse(&bytes).expect("parse").kind, ImageKind::StaticPie);
}

/// `<name@plt>` labels of a disassembly; of a call's two halves the one that is called.
fn objdump_stubs(path: &Path) -> BTreeMap<String, FileAddr> {
    let sections = ["-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got"];
    let output = Command::new("objdump").args(["-d"]).args(sections).arg(path).output().expect("objdump");
    let text = String::from_utf8(output.stdout).expect("text");
    let label = |line: &str| {
        let (addr, name) = line.strip_suffix("@plt>:")?.split_once(" <")?;
        let addr = u64::from_str_radix(addr, 16).ok()?;
        (!name.starts_with('*')).then(|| (name.split('@').next().unwrap_or(name).to_string(), FileAddr(addr)))
    };
    text.lines().filter_map(label).collect()
}

fn readelf_slots(path: &Path) -> BTreeMap<FileAddr, SlotTarget> {
    let text = run(Command::new("readelf").args(["-rW"]).arg(path));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let addr = FileAddr(u64::from_str_radix(fields.first()?, 16).ok()?);
        match *fields.get(2)? {
            "R_X86_64_JUMP_SLOT" | "R_X86_64_JUMP_SLO" | "R_X86_64_GLOB_DAT" => {
                Some((addr, SlotTarget::Import(fields.get(4)?.split('@').next()?.to_string())))
            }
            "R_X86_64_IRELATIV" | "R_X86_64_IRELATIVE" => {
                Some((addr, SlotTarget::Resolved(FileAddr(u64::from_str_radix(fields.get(3)?, 16).ok()?))))
            }
            _ => None,
        }
    };
    text.lines().filter_map(row).collect()
}
