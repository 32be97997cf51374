//! Waiting for a condition, with a bound that a loaded machine does not come to.
//!
//! Next: [`crate::Launch`], whose jobs are waited for.

use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything takes that a test waits for; nothing is measured against it.
const LIMIT: Duration = Duration::from_secs(90);
/// Shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until it is so.
///
/// # Panics
/// If it is not so for very long.
#[track_caller]
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    loop {
        let looks = Instant::now();
        if is_so() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "waited in vain: {what}");
        // A look that reads the text of many processes takes a processor from what is waited for.
        std::thread::sleep(looks.elapsed().max(LOOK_EVERY));
    }
}

/// True if a file has some text. One that is only there may be a command's trial whether it may write it.
pub fn has_text(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.len() > 0)
}
