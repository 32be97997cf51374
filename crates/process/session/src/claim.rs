//! The right to change a process now: one trimtab has it at a time.
//!
//! Two that look at a process at the same moment would both find nothing of the other, plan against the same bytes, and
//! write over each other; or take for a killed one's memory what the other has just mapped. So whoever looks for what was
//! left, inserts or removes holds a lock on the process's memory file meanwhile. Only who may trace the process can open
//! that file and so hold the lock, and the kernel lets go of it when its holder is killed.
//!
//! Next: `leftover` and `insert`, which hold it.

use crate::error::Error;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use trimtab_os::Memory;
use trimtab_types::Pid;

/// Longer than another trimtab plans and writes; on an idle machine that takes some milliseconds.
const WAIT: Duration = Duration::from_secs(20);
/// Time between two tries.
const REST: Duration = Duration::from_millis(2);

/// The processes that this trimtab may change now: whoever asks again gets the same lock.
static HELD: Mutex<BTreeMap<Pid, Weak<File>>> = Mutex::new(BTreeMap::new());

/// As long as it lives no other trimtab changes the process.
#[derive(Clone, Debug)]
pub struct Claim(#[allow(dead_code, reason = "its end is what matters")] Arc<File>);

impl Claim {
    /// Waits until no other trimtab changes the process.
    ///
    /// # Errors
    /// [`Error::Claimed`] if one does for long; a process that is gone or may not be traced.
    pub fn of(pid: Pid) -> Result<Claim, Error> {
        let begun = Instant::now();
        loop {
            match Claim::try_of(pid)? {
                Some(claim) => return Ok(claim),
                None if begun.elapsed() >= WAIT => return Err(Error::Claimed { pid, seconds: WAIT.as_secs() }),
                None => std::thread::sleep(REST),
            }
        }
    }

    fn try_of(pid: Pid) -> Result<Option<Claim>, Error> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, file| file.strong_count() > 0);
        if let Some(file) = held.get(&pid).and_then(Weak::upgrade) {
            return Ok(Some(Claim(file)));
        }
        // Says why if it can't be opened: the process is gone, or not ours.
        let _may_be_opened = Memory::open(pid)?;
        let path = format!("/proc/{pid}/mem");
        let failed = |source| Error::Claim { pid, source };
        let file = File::open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let file = Arc::new(file);
        held.insert(pid, Arc::downgrade(&file));
        Ok(Some(Claim(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").spawn().expect("it starts");
        let pid = Pid(i32::try_from(child.id()).expect("a pid"));
        (child, pid)
    }

    #[test]
    fn one_trimtab_at_a_time() {
        let (mut child, pid) = sleeper();
        let first = Claim::of(pid).expect("nobody has it");
        let again = Claim::of(pid).expect("it is ours");
        // Another open file is as good as another process.
        let other = File::open(format!("/proc/{pid}/mem")).expect("it may be traced");
        drop(first);
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)), "the second still lives");
        drop(again);
        other.try_lock().expect("nobody has it");
        assert!(Claim::try_of(pid).expect("it runs").is_none());
        drop(other);
        assert!(Claim::try_of(pid).expect("it runs").is_some());
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(matches!(Claim::of(pid), Err(Error::Os(trimtab_os::Error::Gone { .. }))), "it is gone");
    }
}
