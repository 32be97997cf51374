//! `/proc/PID/stat`: who is the parent, does it run, since when, and on which processor?

use crate::Pid;

/// Clock ticks in a second, as `/proc` counts them on x86-64 whatever the kernel's own.
pub const CLOCK_TICKS_PER_SECOND: u64 = 100;

/// The kernel's flag of a thread that ends, of `include/linux/sched.h`.
const PF_EXITING: u64 = 4;

/// Facts of one line of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process or thread.
    pub pid: Pid,
    /// Short name, at most 15 bytes as the kernel cuts it.
    pub command: String,
    /// Its state.
    pub state: State,
    /// Its parent.
    pub parent: Pid,
    /// It has begun to end: its memory may be gone, though its state does not say so yet.
    pub is_ending: bool,
    /// Processor time of all its threads so far, user and system, in clock ticks.
    pub cpu_ticks: u64,
    /// Threads in the process.
    pub threads: u32,
    /// Start in clock ticks after boot; with the pid it names a process for ever.
    pub start_time_ticks: u64,
    /// Where its stack began when it executed its program, 0 if we may not know: another one after each exec, as the
    /// kernel places stacks at random.
    pub stack_start: u64,
    /// Processor it ran on last.
    pub last_cpu: u32,
}

impl Stat {
    /// True if this is still the process that started then, so many ticks after the machine, and runs.
    pub fn runs_since(&self, start_time_ticks: u64) -> bool {
        self.start_time_ticks == start_time_ticks && !self.state.has_ended()
    }
}

/// The state of a process, as the kernel's letters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// R: runs or could run.
    Running,
    /// S or I: sleeps and can be woken by a signal.
    Sleeping,
    /// D: waits for a device.
    DiskSleep,
    /// T: stopped by a signal.
    Stopped,
    /// t: stopped by a tracer.
    TracingStop,
    /// Z: has ended, its parent has not asked yet.
    Zombie,
    /// X: is going away.
    Dead,
    /// A letter that is not known.
    Other(char),
}

impl State {
    /// True if it runs no more.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Zombie | State::Dead)
    }

    /// The state of this letter.
    pub fn from_letter(letter: char) -> State {
        match letter {
            'R' => State::Running,
            'S' | 'I' => State::Sleeping,
            'D' => State::DiskSleep,
            'T' => State::Stopped,
            't' => State::TracingStop,
            'Z' => State::Zombie,
            'X' | 'x' => State::Dead,
            other => State::Other(other),
        }
    }
}

/// Reads the line; `None` if it is not one. The name may hold anything, closing parentheses and newlines included.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let (open, close) = (bytes.iter().position(|b| *b == b'(')?, bytes.iter().rposition(|b| *b == b')')?);
    let pid = std::str::from_utf8(bytes.get(..open)?).ok()?.trim().parse().ok()?;
    let command = String::from_utf8_lossy(bytes.get(open + 1..close)?).into_owned();
    let words = words_after(bytes, close)?;
    let field = |number: usize| words.get(number - 3).copied();
    Some(Stat {
        pid: Pid(pid),
        command,
        state: State::from_letter(field(3)?.chars().next()?),
        parent: Pid(field(4)?.parse().ok()?),
        is_ending: field(9)?.parse::<u64>().ok()? & PF_EXITING != 0,
        cpu_ticks: field(14)?.parse::<u64>().ok()?.checked_add(field(15)?.parse().ok()?)?,
        threads: field(20)?.parse().ok()?,
        start_time_ticks: field(22)?.parse().ok()?,
        stack_start: field(28)?.parse().ok()?,
        last_cpu: field(39)?.parse().ok()?,
    })
}

/// The fields behind the name, by their numbers in proc(5): the first is field 3.
fn words_after(bytes: &[u8], close: usize) -> Option<Vec<&str>> {
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace().collect())
}

/// The processor time and faults of a process so far, as its line in `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads in user mode, clock ticks.
    pub user_ticks: u64,
    /// The same in the kernel.
    pub system_ticks: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for one.
    pub major_faults: u64,
}

/// Reads the same line; `None` if it is not one.
pub fn parse_usage(bytes: &[u8]) -> Option<Usage> {
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let words = words_after(bytes, close)?;
    let field = |number: usize| words.get(number - 3)?.parse().ok();
    Some(Usage { user_ticks: field(14)?, system_ticks: field(15)?, minor_faults: field(10)?, major_faults: field(12)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAIL: &str = "S 10 5 5 0 -1 4194304 101 0 0 0 1 2 0 0 20 0 3 0 245203 3133440 388 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 6 0 0 0";

    #[test]
    fn lines_are_read() {
        let stat = |name: &str| parse_stat(format!("42 ({name}) {TAIL}").as_bytes());
        for name in ["app", "a b", "x) R 1 (y", "((", "", "new\nline"] {
            let expected = Stat {
                pid: Pid(42),
                command: name.to_owned(),
                state: State::Sleeping,
                parent: Pid(10),
                is_ending: false,
                cpu_ticks: 3,
                threads: 3,
                start_time_ticks: 245_203,
                stack_start: 1,
                last_cpu: 6,
            };
            assert_eq!(stat(name), Some(expected), "{name:?}");
        }
        let ending = format!("42 (app) {}", TAIL.replace("4194304", "4194308"));
        assert!(parse_stat(ending.as_bytes()).expect("a line").is_ending);
    }

    #[test]
    fn usage_is_read() {
        let usage = parse_usage(format!("42 (a) b) {TAIL}").as_bytes());
        let expected = Usage { user_ticks: 1, system_ticks: 2, minor_faults: 101, major_faults: 0 };
        assert_eq!(usage, Some(expected));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "42", "42 (a", "42 (a) ", "42 (a) S 1", "x (a) S 1 2 3", ") 42 ("] {
            assert_eq!(parse_stat(text.as_bytes()), None, "{text:?}");
            assert_eq!(parse_usage(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&bytes);
            let _ = parse_usage(&bytes);
        }

        #[test]
        fn any_damage_to_a_line_is_survived(at in 0usize..150, byte in any::<u8>(), cut in 0usize..150) {
            let mut line = format!("42 (app) {TAIL}").into_bytes();
            if let Some(place) = line.get_mut(at) {
                *place = byte;
            }
            line.truncate(cut.max(1));
            let _ = parse_stat(&line);
        }
    }
}
