//! Messages in the ring: what is written, what is read, what is dropped.
//!
//! Next: `threads` for several writers.

use crate::script::*;
use crate::special::{busy_state, codes, run};
use crate::world::{DATA, RING_BYTES, World, thread_pointer};
use trimtab_snippet::emit::{HEADER_WORDS, Message, message_bytes, read_message};
use trimtab_snippet::ir::*;

#[test]
fn messages_go_into_the_ring_and_round_its_end() {
    for mut world in [World::new(), World::far()] {
        let data = world.base + DATA;
        world.write(data, b"hello, world\0");
        let text = |address: u64, bytes_max: u16| Sent::Text { address: int(address as i64), bytes_max };
        let values = vec![
            Sent::Int(int(-7)),
            text(data, 64),
            Sent::Address(register(Register::Rdi)),
            Sent::Float(Expression::Float(2.5)),
            text(data, 5),
            text(16, 8),
        ];
        let bytes = message_bytes(&values);
        assert_eq!(bytes, 8 * (u64::from(HEADER_WORDS) + 6) + 64 + 8 + 8);
        let bodies = vec![(When::Entry, vec![Statement::Send { text: 1, values }])];
        let (_, codes) = codes(&world, &[], bodies);
        let state = busy_state();
        for number in 0..60 {
            let position = number * bytes;
            run(&mut world, &codes[0], &state);
            let ring = world.ring();
            assert_eq!(read_message(&ring, position + bytes), None, "the next one is not there yet");
            let message = read_message(&ring, position).expect("the message is complete");
            assert!(message.ticks > 0);
            let text = |text: &[u8]| SentValue::Text(text.to_vec());
            let values = vec![
                SentValue::Int(-7),
                text(b"hello, world"),
                SentValue::Address(state.general[7]),
                SentValue::Float(2.5),
                text(b"hello"),
                text(b""),
            ];
            let ticks = message.ticks;
            assert_eq!(message, Message { bytes, text: 1, thread: thread_pointer(), ticks, values });
            assert_eq!(world.process_word(process_word::MESSAGES_HEAD), position + bytes);
            assert_eq!(world.thread_word(thread_word::UNREADABLE), number + 1, "the last text is not readable");
            world.set_process_word(process_word::MESSAGES_TAIL, position + bytes);
        }
    }
}

proptest::proptest! {
    /// The ring is the target's memory: it may hold anything.
    #[test]
    fn damaged_messages_are_survived(
        mut ring in proptest::collection::vec(proptest::prelude::any::<u8>(), 64),
        position in proptest::prelude::any::<u64>(),
    ) {
        proptest::prop_assert!(read_message(&[], position).is_none());
        let place = (position & 56) as usize;
        ring[place..place + 8].copy_from_slice(&(position & !7).wrapping_add(1).to_le_bytes());
        let message = read_message(&ring, position & !7).expect("it says that it is complete");
        for value in message.values {
            if let SentValue::Text(text) = value {
                proptest::prop_assert!(text.len() <= ring.len());
            }
        }
    }
}

#[test]
fn messages_without_room_are_dropped_and_counted() {
    let mut world = World::new();
    let bodies = vec![(When::Entry, vec![Statement::Send { text: 0, values: vec![Sent::Int(int(1))] }])];
    let (_, codes) = codes(&world, &[], bodies);
    let room = RING_BYTES / 48;
    for _ in 0..room + 3 {
        run(&mut world, &codes[0], &busy_state());
    }
    assert_eq!(world.process_word(process_word::MESSAGES_HEAD), room * 48);
    assert_eq!(world.thread_word(thread_word::MESSAGES_DROPPED), 3);
}
