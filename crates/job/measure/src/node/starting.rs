//! Ranks that are in `MPI_Init` are left alone until they have come out of it.
//!
//! While a job starts, its ranks send each other first messages. Open MPI's TCP transport ends a rank that such a message
//! reaches before it has said who takes it, and for that the rank only has to be later than the others: being held or kept
//! from its processor for some milliseconds is enough. No iteration is missed by waiting.
//!
//! Next: `team`, which waits before anything goes in.

use std::time::Duration;
use trimtab_mpi::Start;
use trimtab_os::{Memory, age_of};
use trimtab_session::Modules;
use trimtab_types::Pid;

/// A rank that is in `MPI_Init` for longer waits for something that may never come.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until none of the processes is in `MPI_Init`, nor about to call it because it was started less than `before_max`
/// ago; or until it is given up. True if it had to: then all that was known of them is out of date.
///
/// Libraries that do not tell are not waited for, and none for more than half a minute from its process's start.
pub fn wait_for_start<'m>(
    processes: impl IntoIterator<Item = &'m Modules>,
    before_max: Duration,
    is_given_up: &dyn Fn() -> bool,
) -> bool {
    let mut starting: Vec<Starting> = processes.into_iter().filter_map(Starting::of).collect();
    let mut has_waited = false;
    loop {
        starting.retain(|one| one.is_on(before_max));
        if starting.is_empty() || is_given_up() {
            return has_waited;
        }
        has_waited = true;
        std::thread::sleep(LOOK);
    }
}

/// A process whose library tells how far it is.
struct Starting {
    pid: Pid,
    memory: Memory,
    words: [Option<u64>; 3],
}

impl Starting {
    fn of(modules: &Modules) -> Option<Self> {
        let words = Start::WORDS.map(|name| modules.object(name).map(|address| address.0));
        let memory = Memory::open(modules.pid).ok()?;
        words.iter().any(Option::is_some).then_some(Starting { pid: modules.pid, memory, words })
    }

    fn is_on(&self, before_max: Duration) -> bool {
        let lowest = |address: u64| self.memory.read_vec(address, 1).ok()?.first().copied();
        let start = Start::of(self.words.map(|word| word.and_then(lowest)));
        let age_max = match start {
            Some(Start::Within) => WITHIN_MAX,
            Some(Start::Before) => before_max,
            Some(Start::Behind) | None => return false,
        };
        age_of(self.pid).is_some_and(|age| age < age_max)
    }
}
