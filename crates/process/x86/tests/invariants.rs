//! Invariants of the sites of any bytes: real instructions in random order, and plain noise.
//!
//! No panic; sites lie in the function or its padding, overlap nothing, cross no page, hold no target; whatever is
//! displaced can be relocated. The same check is a target of `testing/fuzz`. Next: `execution.rs`.

#[path = "invariants/check.rs"]
mod check;

use check::check;

/// Fixed, so that a failure is repeated by running the test again.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FUNCTIONS: usize = 20_000;

/// Branches of two bytes; their distance is set so that they land on some instruction.
const SHORT_BRANCHES: [u8; 5] = [0x74, 0x75, 0xe2, 0xe3, 0xeb];

/// Pieces of code that hazards are made of.
const PIECES: &[&[u8]] = &[
    &[0xf3, 0x0f, 0x1e, 0xfa],                   // endbr64
    &[0x55],                                     // push rbp
    &[0x5b],                                     // pop rbx
    &[0xc3],                                     // ret
    &[0xf3, 0xc3],                               // repz ret
    &[0xc2, 0x10, 0x00],                         // ret 16
    &[0x48, 0x89, 0xe5],                         // mov rbp, rsp
    &[0x48, 0x83, 0xec, 0x18],                   // sub rsp, 24
    &[0x48, 0x83, 0xc4, 0x18],                   // add rsp, 24
    &[0xe8, 0x00, 0x01, 0x00, 0x00],             // call
    &[0xeb, 0x05],                               // jmp +5
    &[0xeb, 0xf0],                               // jmp -16
    &[0x74, 0x03],                               // je +3
    &[0x75, 0xe4],                               // jne -28
    &[0x0f, 0x84, 0x00, 0x10, 0x00, 0x00],       // je far
    &[0xe9, 0x00, 0x10, 0x00, 0x00],             // jmp far
    &[0xe3, 0x04],                               // jrcxz +4
    &[0xe2, 0xf8],                               // loop -8
    &[0xff, 0xe0],                               // jmp rax
    &[0xff, 0x60, 0x18],                         // jmp [rax+24]
    &[0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00], // mov rax, [rip+16]
    &[0x48, 0x8d, 0x05, 0xf4, 0xff, 0xff, 0xff], // lea rax, [rip-12]
    &[0x0f, 0x1f, 0x00],                         // nop
    &[0x90],                                     // nop
    &[0xcc],                                     // int3
    &[0x0f, 0x0b],                               // ud2
    &[0x31, 0xc0],                               // xor eax, eax
    &[0x0f, 0x05],                               // syscall
    &[0xf0, 0x48, 0x0f, 0xb1, 0x0f],             // lock cmpxchg
    &[0xb8, 0x01, 0x00, 0x00, 0x00],             // mov eax, 1
    &[0x8b, 0x47, 0x04],                         // mov eax, [rdi+4]
    &[0x8b, 0x45, 0xf4],                         // mov eax, [rbp-12]
    &[0x8b, 0x44, 0x8c, 0x08],                   // mov eax, [rsp+rcx*4+8]
    &[0x89, 0x44, 0x24, 0x08],                   // mov [rsp+8], eax
    &[0x48, 0xf7, 0xf9],                         // idiv rcx
    &[0xf2, 0x0f, 0x58, 0xc1],                   // addsd xmm0, xmm1
    &[0xf3, 0x48, 0xa5],                         // rep movsq
];

#[test]
fn random_functions_hold_the_invariants() {
    let mut random = Random(SEED);
    let mut sites_total = 0;
    for _ in 0..FUNCTIONS {
        let bytes = random.function();
        let header = [random.next() as u8, random.next() as u8, random.next() as u8, random.next() as u8 & 8];
        sites_total += check(&[&header[..], &bytes].concat());
    }
    assert!(sites_total > FUNCTIONS / 4, "only {sites_total} sites in {FUNCTIONS} functions: the check checks nothing");
}

#[test]
fn noise_holds_the_invariants() {
    let mut random = Random(!SEED);
    for _ in 0..FUNCTIONS {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        check(&bytes);
    }
}

/// xorshift64*: enough to mix cases, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// Random instructions whose short branches land on one of them.
    fn function(&mut self) -> Vec<u8> {
        let pieces: Vec<&[u8]> = (0..3 + self.below(40)).map(|_| PIECES[self.below(PIECES.len())]).collect();
        let starts: Vec<usize> =
            pieces.iter().scan(0, |end, piece| Some(std::mem::replace(end, *end + piece.len()))).collect();
        let mut bytes = pieces.concat();
        for (piece, start) in pieces.iter().zip(&starts) {
            if piece.len() == 2 && SHORT_BRANCHES.contains(&piece[0]) {
                let distance = starts[self.below(starts.len())] as i64 - (*start as i64 + 2);
                bytes[start + 1] = i8::try_from(distance).unwrap_or_default() as u8;
            }
        }
        bytes
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}
