//! Proves that the in-target routines can be copied anywhere: no branch, call or operand leads outside their own bytes
//! (calls through addresses in the shared memory apart) and no vector or floating-point register is touched.
//! Without this, a compiler that inserts a `memcpy` would crash targets.
//!
//! The routines are those of this test, or of the binary that `TRIMTAB_STUB_IN` names: what is released is optimised as a
//! whole, so `cargo xtask release` looks at just that.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{Object, ObjectSection};

const BASE: u64 = 0x10_0000;

fn bytes() -> Vec<u8> {
    let Some(binary) = std::env::var_os("TRIMTAB_STUB_IN") else { return trimtab_stub::blob().bytes.to_vec() };
    let file = std::fs::read(&binary).expect("the binary can be read");
    let elf = object::File::parse(&*file).expect("it is an ELF file");
    let section = elf.section_by_name("trimtab_stub").expect("it has the section");
    section.data().expect("the section has bytes").to_vec()
}

fn instructions() -> Vec<Instruction> {
    Decoder::with_ip(64, &bytes(), BASE, DecoderOptions::NONE).into_iter().collect()
}

#[test]
fn every_instruction_is_valid() {
    let instructions = instructions();
    assert!(instructions.len() > 300, "the section holds the routines: {} instructions", instructions.len());
    for instruction in &instructions {
        assert_ne!(instruction.code(), Code::INVALID, "at {:#x}", instruction.ip());
    }
}

#[test]
fn branches_and_calls_stay_inside() {
    let instructions = instructions();
    let inside = BASE..BASE + bytes().len() as u64;
    let mut calls = 0;
    for instruction in instructions.iter().filter(|instruction| instruction.code() != Code::Syscall) {
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call => {
                let target = instruction.near_branch_target();
                assert!(inside.contains(&target), "{instruction} at {:#x} leaves the section", instruction.ip());
                calls += 1;
            }
            FlowControl::IndirectBranch => panic!("a jump table at {:#x}: {instruction}", instruction.ip()),
            _ => {}
        }
    }
    assert!(calls > 20, "branches were looked at: {calls}");
}

/// Islands inside of functions leave the direction flag as the program has it where nobody reads the others.
#[test]
fn no_string_instruction_depends_on_the_direction() {
    for instruction in instructions() {
        assert!(!instruction.is_string_instruction(), "{instruction} at {:#x}", instruction.ip());
    }
}

#[test]
fn nothing_outside_is_addressed() {
    let instructions = instructions();
    let inside = BASE..BASE + bytes().len() as u64;
    for instruction in &instructions {
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            assert!(inside.contains(&address), "{instruction} at {:#x} addresses {address:#x}", instruction.ip());
        }
    }
}

#[test]
fn no_vector_or_floating_point_register() {
    let instructions = instructions();
    for instruction in &instructions {
        let registers = (0..instruction.op_count())
            .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
            .map(|operand| instruction.op_register(operand));
        for register in registers {
            let general = register.is_gpr() || register.is_segment_register() || register == Register::None;
            assert!(general, "{instruction} at {:#x}", instruction.ip());
        }
    }
}

#[test]
fn entry_points_lie_inside() {
    let blob = trimtab_stub::blob();
    assert!((blob.enter as usize) < blob.bytes.len());
    assert!((blob.leave as usize) < blob.bytes.len());
    assert_ne!(blob.enter, blob.leave);
}
