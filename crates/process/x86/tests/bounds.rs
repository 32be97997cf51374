//! How far loops go, beside how far they went: compiled loops run with code at their headers that reads counter and bound
//! in every pass, and each time the passes that are said to come are those that came.
//!
//! C and Fortran, unoptimised and optimised. A loop for which nothing is claimed is no fault, as long as most are claimed;
//! one claim too many or too few is. Next: `src/bound.rs`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use iced_x86::code_asm::*;
use object::{Object, ObjectSymbol};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use trimtab_x86::{
    CodeRange, ControlFlow, FunctionCode, JumpForm, LoopBound, LoopPlace, NoBound, Place, ProbeBytes, ProbePlace,
    Refusal, Site, WriteProbe, analyse, build_probe_island, encode_near_jump, loop_bound, loop_sites,
};

/// What the loops are run with.
const LENGTHS: [i32; 6] = [0, 1, 2, 7, 12, 40];
/// Bytes that are pushed below the registers, and the red zone: from where they lie to the program's stack.
const SAVED_BYTES: u64 = 16 * 8 + 8 + 128;

/// A loop as it runs, and what was said in each of its passes.
struct Watched {
    bound: LoopBound,
    said: Vec<Option<u64>>,
}

static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

/// Runs at a header, with the registers in the order of their numbers.
extern "C" fn record(registers: *const u64) {
    let mut watched = WATCHED.lock().expect("no test panics here");
    let Some(watched) = watched.as_mut() else { return };
    let held = |place: Option<Place>| place.map_or(0, |place| read(registers, place));
    let (counter, bound) = (held(watched.bound.counter.place), held(watched.bound.bound.place));
    watched.said.push(watched.bound.passes_after(counter, bound));
}

fn read(registers: *const u64, place: Place) -> u64 {
    // SAFETY: the code below saves 16 registers there.
    let register = |number: u8| unsafe { *registers.add(usize::from(number)) };
    let stack = registers as u64 + SAVED_BYTES;
    let register = |number: u8| if number == 4 { stack } else { register(number) };
    let (address, bytes) = match place {
        Place::Register(number) => return register(number),
        Place::Frame { register: number, offset, bytes } => (register(number).wrapping_add_signed(offset), bytes),
        Place::Fixed { address, bytes } => (address, bytes),
    };
    match bytes {
        // SAFETY: the loop itself reads these bytes in each pass.
        4 => unsafe { u64::from((address as *const u32).read_unaligned()) },
        // SAFETY: as above.
        _ => unsafe { (address as *const u64).read_unaligned() },
    }
}

/// Code that hands the registers to `record` and changes nothing.
fn recording() -> Vec<u8> {
    let mut a = CodeAssembler::new(64).expect("64 bits are supported");
    let all = [r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rsp, rbx, rdx, rcx, rax];
    let mut put = || -> Result<(), iced_x86::IcedError> {
        a.lea(rsp, qword_ptr(rsp - 128))?;
        a.pushfq()?;
        all.into_iter().try_for_each(|register| a.push(register))?;
        a.mov(rdi, rsp)?;
        a.mov(rbp, rsp)?;
        a.and(rsp, -16)?;
        a.mov(rax, record as *const () as u64)?;
        a.call(rax)?;
        a.mov(rsp, rbp)?;
        for register in all.into_iter().rev() {
            // Its own value is what it has when all others are back.
            if register == rsp { a.lea(rsp, qword_ptr(rsp + 8))? } else { a.pop(register)? }
        }
        a.popfq()?;
        a.lea(rsp, qword_ptr(rsp + 128))
    };
    put().expect("the operands fit");
    a.assemble(0).expect("nothing in it depends on its place")
}

/// A library of loops in this process.
struct Library {
    bias: u64,
    functions: Vec<(String, u64, u64)>,
    island: u64,
}

impl Library {
    fn load(path: &Path) -> Library {
        let file = std::fs::read(path).expect("it was compiled");
        let elf = object::File::parse(&*file).expect("an ELF file");
        let name = CString::new(path.to_str().expect("a plain name")).expect("no zero in it");
        // SAFETY: the library has no initialisers of its own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} is loaded", path.display());
        let symbols = elf.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.size() > 0);
        let is_code = |symbol: &object::Symbol<'_, '_>| symbol.kind() == object::SymbolKind::Text;
        let functions: Vec<(String, u64, u64)> = symbols
            .filter(is_code)
            .map(|symbol| (symbol.name().expect("a name").to_owned(), symbol.address(), symbol.size()))
            .collect();
        let first = CString::new(functions[0].0.as_str()).expect("no zero in it");
        // SAFETY: the handle is open.
        let bias = unsafe { libc::dlsym(handle, first.as_ptr()) } as u64 - functions[0].1;
        Library { bias, functions, island: island_near(bias) }
    }

    /// Runs a function's outermost loop for all lengths; the number of passes, if all of them were foretold.
    fn check(&self, name: &str, at: u64, size: u64) -> Result<u64, String> {
        let (entry, bytes) = (self.bias + at, memory(self.bias + at, size));
        let range = CodeRange { addr: entry, bytes: &bytes, after: &[] };
        let code = FunctionCode { entry, ranges: vec![range], ..FunctionCode::default() };
        let analysis = analyse(&code, &(), &()).map_err(|refusal| refusal.to_string())?;
        let flow = ControlFlow::of(&analysis);
        let found = flow.loops.iter().find(|found| found.depth() == 1).ok_or("no loop was left of it")?;
        let bound = loop_bound(&code, &analysis, &flow, found).map_err(|why: NoBound| why.to_string())?;
        let (sites, place) =
            loop_sites(&code, &analysis, &flow, found, &|_| true).map_err(|refusal| refusal.to_string())?;
        if place != LoopPlace::Header || sites[0].jump != JumpForm::Near5 {
            return Err(format!("it is seen elsewhere: {place:?}"));
        }
        let jump = self.write_island(&sites[0], &bytes, entry);
        let mut passes = 0;
        for length in LENGTHS {
            *WATCHED.lock().expect("no panic") = Some(Watched { bound, said: Vec::new() });
            write(sites[0].at, &jump);
            // SAFETY: it is a function of the library that takes a number.
            unsafe { std::mem::transmute::<u64, extern "C" fn(i32)>(entry)(length) };
            write(entry, &bytes);
            let said = WATCHED.lock().expect("no panic").take().map(|watched| watched.said).unwrap_or_default();
            let came: Vec<Option<u64>> = (0..said.len() as u64).rev().map(Some).collect();
            let is_so = if bound.has_other_exits {
                said.iter().zip(&came).all(|(said, came)| said >= came)
            } else {
                said == came
            };
            assert!(is_so, "{name}({length}) of {bound:?}: said {said:?}, came {came:?}");
            passes += came.len() as u64;
        }
        Ok(passes)
    }

    fn write_island(&self, site: &Site, bytes: &[u8], entry: u64) -> Vec<u8> {
        let original = &bytes[(site.displaced.start - entry) as usize..(site.displaced.end - entry) as usize];
        let code = recording();
        let probe = |place: ProbePlace| {
            Ok(ProbeBytes { bytes: [vec![0x90; place.room_before], code.clone()].concat(), entry: 0 })
        };
        let mut enter: Vec<Box<WriteProbe<'_, Refusal>>> = vec![Box::new(probe)];
        let island = build_probe_island(site, original, self.island, &mut enter, &mut []).expect("it is near");
        write(self.island, &island.bytes);
        encode_near_jump(site.at, self.island + island.entry as u64).expect("it is near").to_vec()
    }
}

fn memory(at: u64, size: u64) -> Vec<u8> {
    // SAFETY: the symbol table says so.
    unsafe { std::slice::from_raw_parts(at as *const u8, size as usize) }.to_vec()
}

/// Writes code, which nobody runs meanwhile.
fn write(at: u64, bytes: &[u8]) {
    let page = at & !0xfff;
    let length = (at + bytes.len() as u64 - page) as usize;
    // SAFETY: these pages hold the library's code, or the island.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        assert_eq!(libc::mprotect(page as *mut c_void, length, protection), 0, "code may be written");
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
    }
}

/// A page near a library.
fn island_near(bias: u64) -> u64 {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let page = unsafe { libc::mmap((bias - (1 << 24)) as *mut c_void, 4096, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED, "executable memory is allowed");
    page as u64
}

/// A library of one source; none if the compiler is not there.
fn compiled(compiler: &str, source: &str, level: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bounds");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bounds-{compiler}{level}-{source}.so"));
    let mut command = Command::new(compiler);
    command.args([level, "-shared", "-fPIC", "-o"]).arg(&output).args([folder.join(source), folder.join("mark.c")]);
    let Ok(made) = command.output() else {
        println!("SKIPPED: {compiler} is not installed");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(output)
}

#[test]
fn passes_to_come_are_those_that_come() {
    let (mut claimed, mut possible) = (0, 0);
    for (compiler, source) in [("gcc", "loops.c"), ("clang", "loops.c"), ("gfortran", "loops.f90")] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let Some(library) = compiled(compiler, source, level).map(|path| Library::load(&path)) else { continue };
            for (name, at, size) in library.functions.iter().filter(|(name, ..)| name != "mark") {
                let seen = library.check(name, *at, *size);
                let has_counter = !matches!(name.as_str(), "without_a_counter" | "moved_by_the_body");
                println!("{compiler} {level} {name}: {seen:?}");
                possible += u64::from(has_counter);
                claimed += u64::from(has_counter && seen.is_ok_and(|passes| passes > 0));
            }
        }
    }
    assert!(claimed * 10 >= possible * 8 && possible > 50, "{claimed} of {possible} loops that count are claimed");
}
