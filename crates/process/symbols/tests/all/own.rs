//! This test's own program and the libraries it runs on: real files, and addresses the loader really chose.

use crate::common::parse;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use trimtab_symbols::{FrameKind, Image, ImageKind, MappedModule, fde_at, imported_names, unwind_facts};
use trimtab_types::{FileAddr, LoadBias, ProcAddr};

/// A function that the test finds in its own program.
#[inline(never)]
fn landmark(number: u64) -> u64 {
    std::hint::black_box(number) ^ 0x5eed
}

#[test]
fn a_function_pointer_leads_to_its_name() {
    let (path, bias) = mapped("").expect("own program");
    let (bytes, image) = parse(&path);
    assert_eq!(image.kind, ImageKind::DynamicPie);
    let addr = bias.to_file(ProcAddr(landmark as *const () as u64));
    let function = image.function_at(addr).expect("landmark");
    assert_eq!(function.addr, addr);
    assert!(function.names.iter().any(|name| name.contains("landmark")), "{function:?}");
    assert_eq!(image.functions_matching("*landmark*"), [function]);
    assert_eq!(image.function_named(&function.names[0]), Some(function));
    let facts = unwind_facts(&bytes, &image, function).expect("facts");
    assert_eq!(facts.cfa_rsp_offset_at(addr), Some(8));
    assert_eq!(landmark(0), 0x5eed);
}

#[test]
fn every_table_of_the_files_in_use_is_sound() {
    for (name, at_least) in [("", 500), ("libc.so.6", 2000), ("ld-linux-x86-64.so.2", 100), ("libgcc_s.so.1", 100)] {
        let (path, _) = mapped(name).unwrap_or_else(|| panic!("{name} is not mapped"));
        let (bytes, image) = parse(&path);
        assert!(image.functions.len() >= at_least, "{name}: {} functions", image.functions.len());
        check_invariants(&image);
        for part in image.functions.iter().chain(&image.fragments) {
            let facts = unwind_facts(&bytes, &image, part).unwrap_or_else(|error| panic!("{part:?}: {error}"));
            assert_eq!(facts.ranges.is_empty(), facts.cfa_rows.is_empty(), "{part:?}");
            assert!(facts.landing_pads.iter().all(|pad| image.is_executable(*pad)), "{part:?}");
        }
        for frame in image.frames() {
            let fde = fde_at(&bytes, &image, frame.addr).expect("entry").expect("an entry");
            assert!(fde.initial_location_is_addr, "{frame:?}");
            assert_eq!(fde.cfa_rsp_offset_at == Some(8) && !fde.is_signal_frame, frame.kind == FrameKind::Entry);
        }
        let again = Image::from_cache(&image.to_cache()).expect("cache");
        assert_eq!(again, image, "{name}");
    }
}

#[test]
fn libc_has_what_everyone_calls() {
    let (path, _) = mapped("libc.so.6").expect("libc");
    let (_, image) = parse(&path);
    assert_eq!(image.kind, ImageKind::SharedLibrary);
    assert_eq!(image.soname.as_deref(), Some("libc.so.6"));
    for (name, is_ifunc) in [("write", false), ("malloc", false), ("memcpy", true), ("strlen", true)] {
        let function = image.function_named(name).unwrap_or_else(|| panic!("{name}"));
        assert!(function.exported && function.size > 0, "{name}: {function:?}");
        assert_eq!(function.is_ifunc, is_ifunc, "{name}");
    }
    let write = image.function_named("write").expect("write");
    assert!(write.names.iter().any(|name| name == "__write"), "{write:?}");
}

#[test]
fn memory_tells_the_same_symbols_as_the_file() {
    let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
    let read = |address: ProcAddr, length: usize| {
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, address.0).ok().map(|()| bytes)
    };
    for (name, at_least) in [("", 0), ("libc.so.6", 1000), ("ld-linux-x86-64.so.2", 10), ("libgcc_s.so.1", 50)] {
        let (path, bias) = mapped(name).unwrap_or_else(|| panic!("{name} is not mapped"));
        let (bytes, image) = parse(&path);
        let module = MappedModule::at(&read, ProcAddr(bias.0)).unwrap_or_else(|| panic!("{name} has symbols"));
        assert_eq!(module.soname(), image.soname, "{name}");
        assert_eq!(module.imports(), imported_names(&bytes, &|_| true).expect("imports"), "{name}");
        let exported = image.functions.iter().filter(|function| function.exported);
        let names = exported.flat_map(|function| function.names.iter().map(move |name| (name, function.addr)));
        // Names with versions, and hidden ones, are the file's own affair.
        let found = names.filter(|(name, addr)| module.defined(name) == Some(bias.to_proc(*addr))).count();
        assert!(found >= at_least, "{name}: {found}");
        assert_eq!(module.defined("no_such_function"), None, "{name}");
    }
    assert!(MappedModule::at(&read, ProcAddr(landmark as *const () as u64)).is_none(), "code is no module");
}

fn check_invariants(image: &Image) {
    for list in [&image.functions, &image.fragments] {
        assert!(list.is_sorted_by(|a, b| a.addr < b.addr));
        for part in list {
            assert!(part.size > 0 && image.is_executable(part.addr), "{part:?}");
            assert!(image.is_executable(FileAddr(part.end().0 - 1)), "{part:?}");
        }
    }
    let shared = |part: &&trimtab_symbols::Function| image.functions.iter().any(|function| function.addr == part.addr);
    assert_eq!(image.fragments.iter().find(shared), None);
}

/// The file of this process whose name ends so (its own program for ""), and where its address 0 lies.
fn mapped(name: &str) -> Option<(PathBuf, LoadBias)> {
    let own = std::env::current_exe().expect("own path");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| match name {
        "" => line.ends_with(own.to_str().expect("text")),
        name => line.ends_with(&format!("/{name}")),
    })?;
    let start = line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok())?;
    Some((PathBuf::from(&line[line.find('/')?..]), LoadBias(start)))
}
