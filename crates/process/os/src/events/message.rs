//! One message of the kernel's proc connector: bytes in, events out.
//!
//! A message is a netlink header, a connector header and one `struct proc_event`, all in the machine's byte order. Text
//! and layout are the kernel's (`linux/netlink.h`, `linux/connector.h`, `linux/cn_proc.h`) and have not changed since 2005.
//!
//! Next: `connector`, which receives them.

use super::event::ProcessEvent;
use trimtab_types::Pid;

/// Bytes of the netlink header.
const NETLINK_HEADER: usize = 16;
/// Bytes of the connector's header behind it.
const CONNECTOR_HEADER: usize = 20;
/// Where a `struct proc_event` has what is different between events.
const EVENT_DATA: usize = 16;
/// Messages begin at multiples of this.
const NETLINK_ALIGN: usize = 4;

/// The connector's number for process events, and the value that goes with it.
const PROCESS_INDEX: u32 = 1;
const PROCESS_VALUE: u32 = 1;

/// `NLMSG_DONE`: the type that the connector gives to each of its messages.
const TYPE_DONE: u16 = 3;
/// `PROC_CN_MCAST_LISTEN`.
const LISTEN: u32 = 1;

const EVENT_NONE: u32 = 0;
const EVENT_FORK: u32 = 1;
const EVENT_EXEC: u32 = 2;
const EVENT_EXIT: u32 = 0x8000_0000;

/// The content of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The answer to our wish to listen: 0, or an error number.
    Answer(i32),
    /// Something happened to a process.
    Event(ProcessEvent),
    /// Something about threads, users or groups.
    Other,
}

/// The message that asks for events.
pub(super) fn listen(own_pid: u32) -> Vec<u8> {
    let length = (NETLINK_HEADER + CONNECTOR_HEADER + 4) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(TYPE_DONE.to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    for word in [0, own_pid, PROCESS_INDEX, PROCESS_VALUE, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(4u16.to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(LISTEN.to_ne_bytes());
    bytes
}

/// Everything one datagram says. A message that is too short or not of the connector is passed over.
pub(super) fn parse(mut datagram: &[u8]) -> Vec<Said> {
    let mut said = Vec::new();
    while let Some(length) = word(datagram, 0).map(|length| length as usize) {
        let Some(message) = datagram.get(..length).filter(|_| length >= NETLINK_HEADER) else { break };
        said.extend(one(message));
        let next = length.next_multiple_of(NETLINK_ALIGN);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    said
}

fn one(message: &[u8]) -> Option<Said> {
    let connector = message.get(NETLINK_HEADER..)?;
    if (word(connector, 0)?, word(connector, 4)?) != (PROCESS_INDEX, PROCESS_VALUE) {
        return None;
    }
    let event = connector.get(CONNECTOR_HEADER..)?;
    let time_ns = u64::from_ne_bytes(event.get(8..EVENT_DATA)?.try_into().ok()?);
    let data = event.get(EVENT_DATA..)?;
    let pid = |at| Some(Pid(word(data, at)? as i32));
    Some(match word(event, 0)? {
        EVENT_NONE => Said::Answer(word(data, 0)? as i32),
        // A thread's beginning and end name another process than thread.
        EVENT_FORK if pid(8)? == pid(12)? => Said::Event(ProcessEvent::Fork { parent: pid(4)?, child: pid(12)? }),
        EVENT_EXIT if pid(0)? == pid(4)? => Said::Event(ProcessEvent::Exit { pid: pid(4)? }),
        EVENT_EXEC => Said::Event(ProcessEvent::Exec { pid: pid(4)?, time_ns: Some(time_ns) }),
        _ => Said::Other,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel writes it.
    fn message(what: u32, data: &[u32]) -> Vec<u8> {
        let length = (NETLINK_HEADER + CONNECTOR_HEADER + EVENT_DATA + data.len() * 4) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([3, 0, 0, 0]);
        let words = [7, 0, PROCESS_INDEX, PROCESS_VALUE, 9, 0, 0, what, 1];
        bytes.extend(words.iter().flat_map(|word: &u32| word.to_ne_bytes()));
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend(data.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn messages_are_read() {
        let exec = ProcessEvent::Exec { pid: Pid(40), time_ns: Some(77) };
        #[rustfmt::skip]
        let cases: &[(&str, Vec<u8>, Vec<Said>)] = &[
            ("exec", message(EVENT_EXEC, &[40, 40]), vec![Said::Event(exec)]),
            ("exec_of_a_thread", message(EVENT_EXEC, &[41, 40]), vec![Said::Event(exec)]),
            ("fork", message(EVENT_FORK, &[9, 8, 40, 40]), vec![Said::Event(ProcessEvent::Fork { parent: Pid(8), child: Pid(40) })]),
            ("thread", message(EVENT_FORK, &[8, 8, 41, 8]), vec![Said::Other]),
            ("exit", message(EVENT_EXIT, &[40, 40, 0, 17, 1, 1]), vec![Said::Event(ProcessEvent::Exit { pid: Pid(40) })]),
            ("end_of_a_thread", message(EVENT_EXIT, &[41, 40, 0, 17, 1, 1]), vec![Said::Other]),
            ("answer", message(EVENT_NONE, &[0]), vec![Said::Answer(0)]),
            ("refusal", message(EVENT_NONE, &[1]), vec![Said::Answer(1)]),
            ("change_of_user", message(4, &[40, 40, 0, 0]), vec![Said::Other]),
            ("two", [message(EVENT_NONE, &[0]), message(EVENT_EXEC, &[40, 40])].concat(), vec![Said::Answer(0), Said::Event(exec)]),
            ("empty", vec![], vec![]),
            ("cut", message(EVENT_EXEC, &[40, 40])[..50].to_vec(), vec![]),
            ("length_zero", vec![0; 64], vec![]),
        ];
        for (case, bytes, expected) in cases {
            assert_eq!(&parse(bytes), expected, "{case}");
        }
    }

    #[test]
    fn every_prefix_of_a_message_is_survived() {
        let whole = message(EVENT_FORK, &[9, 8, 40, 40]);
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), [], "{length}");
        }
        let mut lying = whole.clone();
        for length in 0..whole.len() as u32 {
            lying[..4].copy_from_slice(&length.to_ne_bytes());
            let _ = parse(&lying);
        }
    }

    #[test]
    fn the_wish_to_listen_has_the_length_it_says() {
        let bytes = listen(5);
        assert_eq!(word(&bytes, 0), Some(bytes.len() as u32));
        assert_eq!((word(&bytes, 16), word(&bytes, 36)), (Some(PROCESS_INDEX), Some(LISTEN)));
    }
}
