//! The floating-point and vector state of a thread as the kernel takes it back from a signal frame.
//!
//! The kernel judges a frame by its size: larger than the thread's own state, or without its closing word where that state
//! would end, and it restores the oldest registers only and clears all others, silently. The state that ptrace shows is as
//! large as the processor's state can be at all; a thread that has never asked for the matrix tiles has a smaller one. So
//! the state is declared without them unless they are in use, and is closed at both ends.
//!
//! Next: `inject`, which puts it on the thread's stack.

use crate::sys::state_component;

/// Offset of the software-defined bytes in an fxsave area, and their magic words.
const SOFTWARE_BYTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Offset of the set of components in use; size of the area that every processor has.
const IN_USE: usize = 512;
const LEGACY_BYTES: usize = 576;
/// Components that a thread has only after it asked for them: the matrix tiles' data.
const ON_REQUEST: u64 = 1 << 18;

/// Vector, mask and x87 state: neither protection keys nor the matrix tiles' data.
const CALLED_MAY_CHANGE: u64 = 0xe7;

/// The state that a thread must keep across a call of a function: components of the extended state as a mask, and the
/// bytes of an area for them. Nothing if the processor or the system can't save them in one instruction.
pub fn vector_state() -> Option<(u64, u32)> {
    /// The bit that says that the system has switched extended states on.
    const SYSTEM_SAVES: u32 = 1 << 27;
    if core::arch::x86_64::__cpuid(1).ecx & SYSTEM_SAVES == 0 {
        return None;
    }
    let leaf = core::arch::x86_64::__cpuid_count(0xd, 0);
    let all = u64::from(leaf.edx) << 32 | u64::from(leaf.eax);
    Some((all & CALLED_MAY_CHANGE, leaf.ecx))
}

/// The state with its software-defined bytes and closing words.
pub(crate) fn signal_state(state: Vec<u8>) -> Vec<u8> {
    declared(state, &state_component)
}

/// `component` tells offset and size of a component by its number.
fn declared(mut state: Vec<u8>, component: &dyn Fn(u32) -> (usize, usize)) -> Vec<u8> {
    let length = state.len();
    if length > LEGACY_BYTES {
        // The kernel's own mask stands in these bytes of the register set.
        let mut features = word(&state, SOFTWARE_BYTES);
        let mut size = length;
        if word(&state, IN_USE) & ON_REQUEST == 0 {
            features &= !ON_REQUEST;
            size = size_of_components(features, component).min(length);
        }
        let mut put = |at: usize, bytes: &[u8]| state[at..at + bytes.len()].copy_from_slice(bytes);
        put(SOFTWARE_BYTES, &MAGIC_1.to_le_bytes());
        put(SOFTWARE_BYTES + 4, &(size as u32 + 4).to_le_bytes());
        put(SOFTWARE_BYTES + 8, &features.to_le_bytes());
        put(SOFTWARE_BYTES + 16, &(size as u32).to_le_bytes());
        put(SOFTWARE_BYTES + 20, &[0; 28]);
        if size + 4 <= length {
            put(size, &MAGIC_2.to_le_bytes());
        }
    }
    state.extend_from_slice(&MAGIC_2.to_le_bytes());
    state
}

fn word(state: &[u8], at: usize) -> u64 {
    state.get(at..at + 8).and_then(|raw| raw.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Where the last of `features` ends; the first two belong to the legacy area.
fn size_of_components(features: u64, component: &dyn Fn(u32) -> (usize, usize)) -> usize {
    let others = (2..63).filter(|number| features & (1 << number) != 0);
    let ends = others.map(component).map(|(offset, size)| offset + size);
    ends.max().unwrap_or(0).max(LEGACY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Components of a processor with AVX-512, protection keys and tiles.
    fn component(number: u32) -> (usize, usize) {
        match number {
            2 => (576, 256),
            5 => (1088, 64),
            6 => (1152, 512),
            7 => (1664, 1024),
            9 => (2688, 8),
            17 => (2752, 64),
            18 => (2816, 8192),
            _ => (0, 0),
        }
    }

    fn state(features: u64, in_use: u64, length: usize) -> Vec<u8> {
        let mut state = vec![0x11; length];
        state[SOFTWARE_BYTES..SOFTWARE_BYTES + 8].copy_from_slice(&features.to_le_bytes());
        state[IN_USE..IN_USE + 8].copy_from_slice(&in_use.to_le_bytes());
        state
    }

    #[test]
    fn a_state_is_declared_as_large_as_the_threads_own() {
        const TILES: u64 = 0x6_02e7;
        let rows = [
            ("avx", 0x7, 0x7, 832, 832, 0x7),
            ("avx-512", 0x2e7, 0xe7, 2696, 2696, 0x2e7),
            ("tiles never asked for", TILES, 0xe7, 11008, 2816, 0x2_02e7),
            ("tiles in use", TILES, 0x6_00e7, 11008, 11008, TILES),
        ];
        for (name, features, in_use, length, size, declared_features) in rows {
            let state = declared(state(features, in_use, length), &component);
            let half = |at: usize| u32::from_le_bytes(state[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(half(SOFTWARE_BYTES), MAGIC_1, "{name}");
            assert_eq!(half(SOFTWARE_BYTES + 4), size + 4, "{name}");
            assert_eq!(word(&state, SOFTWARE_BYTES + 8), declared_features, "{name}");
            assert_eq!(half(SOFTWARE_BYTES + 16), size, "{name}");
            assert_eq!(half(size as usize), MAGIC_2, "{name}");
            assert_eq!((half(length), state.len()), (MAGIC_2, length + 4), "{name}: a thread may have the larger one");
        }
    }

    #[test]
    fn an_old_processors_state_is_left_as_it_is() {
        assert_eq!(declared(vec![7; 512], &component)[..512], [7; 512]);
    }

    #[test]
    fn what_a_called_function_may_change_has_room() {
        let (mask, bytes) = vector_state().expect("every x86-64 processor of the last ten years");
        assert_eq!(mask & 0b11, 0b11, "x87 and vectors");
        assert!(bytes as usize >= LEGACY_BYTES);
    }

    #[test]
    fn this_processor_has_its_vectors_where_all_have_them() {
        assert_eq!(state_component(2), (576, 256));
    }
}
