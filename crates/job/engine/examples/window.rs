//! Measures one window of the job of a process on this machine: `window PID`.
//!
//! Next: `trimtab_engine::Engine`, which does it.

use trimtab_engine::{Audit, BoxError, Change, Changed, End, Engine, Event, Listener, Target, Window, usual_options};
use trimtab_session::ImageCache;
use trimtab_types::Pid;

/// Shows what goes on, and which changes of processes begin and end, on standard error.
struct Shown;

impl Listener for Shown {
    fn hear(&self, event: &Event) {
        eprintln!("{event:?}");
    }
}

impl Audit for Shown {
    fn begin(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn Change>, BoxError> {
        eprintln!("{command}: {changed} are changed");
        Ok(Box::new(Shown))
    }
}

impl Change for Shown {
    fn end(&mut self, end: &End) {
        eprintln!("{end:?}");
    }
}

fn main() -> Result<(), BoxError> {
    let pid: i32 = std::env::args().nth(1).ok_or("which process?")?.parse()?;
    let cache = ImageCache::of_user();
    let engine = Engine { listener: &Shown, audit: &Shown, cache: &cache, store: None, nodes: None };
    let found = engine.find(Target::Process(Pid(pid)), None)?;
    let measured = engine.window(&found, &Window::new(usual_options("example")))?;
    println!("{}", measured.headline);
    measured.ends.told().iter().for_each(|text| eprintln!("{text}"));
    Ok(())
}
