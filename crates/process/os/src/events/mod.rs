//! Events of processes: forks, execs and exits, from the kernel where it tells, else by looking again and again.
//!
//! Both ways have one interface, and [`ProcessEvents::source`] says which it is. Events that the kernel had to drop
//! are made good by a scan of `/proc`, as far as the processes still live, and that is said
//! ([`ProcessEvent::Lost`]).
//!
//! Next: `connector` and `scan` for the two ways, [`ExecFiles`](crate::ExecFiles) for programs that end at once.

mod connector;
mod event;
mod message;
mod scan;

use crate::sys::monotonic_ns;
pub use event::ProcessEvent;

use connector::Connector;
use scan::Scan;
use std::fmt;
use std::io;
use std::time::Duration;

/// Time between two looks where the kernel does not tell.
const LOOK_MS: u64 = 20;

/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// The kernel's proc connector.
    Connector,
    /// Scans of `/proc`.
    Scans {
        /// Why not the connector.
        reason: String,
    },
}

impl fmt::Display for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventSource::Connector => write!(f, "process events of the kernel (proc connector)"),
            EventSource::Scans { reason } => write!(
                f,
                "a look at /proc every {LOOK_MS} ms, which misses programs that end sooner ({reason}; run trimtab as root \
                 outside of containers for process events of the kernel)"
            ),
        }
    }
}

/// A stream of events from now on.
#[derive(Debug)]
pub struct ProcessEvents {
    source: EventSource,
    connector: Option<Connector>,
    scan: Scan,
    looked_ns: u64,
}

impl ProcessEvents {
    /// From the kernel if it tells us, else by scans.
    pub fn open() -> ProcessEvents {
        match Connector::open() {
            Ok(connector) => ProcessEvents::with(EventSource::Connector, Some(connector)),
            Err(reason) => ProcessEvents::by_scans(reason),
        }
    }

    /// By scans, whatever the kernel could tell.
    pub fn by_scans(reason: String) -> ProcessEvents {
        ProcessEvents::with(EventSource::Scans { reason }, None)
    }

    fn with(source: EventSource, connector: Option<Connector>) -> ProcessEvents {
        ProcessEvents { source, connector, scan: Scan::now(), looked_ns: monotonic_ns() }
    }

    /// Where they come from.
    pub fn source(&self) -> &EventSource {
        &self.source
    }

    /// The events since the last call; waits for something at most that long.
    ///
    /// # Errors
    /// The kernel ended the stream, for a reason that never happens in a working system.
    pub fn next(&mut self, limit: Duration) -> io::Result<Vec<ProcessEvent>> {
        let Some(connector) = &self.connector else { return Ok(self.look(limit)) };
        let (mut events, mut lost) = connector.fetch()?;
        if events.is_empty() && !lost {
            connector.wait(limit);
            (events, lost) = connector.fetch()?;
        }
        if lost {
            events.push(ProcessEvent::Lost);
            events.extend(self.scan.changes());
        }
        Ok(events)
    }

    fn look(&mut self, limit: Duration) -> Vec<ProcessEvent> {
        let due_ns = self.looked_ns + LOOK_MS * 1_000_000;
        let wait = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
        std::thread::sleep(wait.min(limit));
        if wait > limit {
            return Vec::new();
        }
        self.looked_ns = monotonic_ns();
        self.scan.changes()
    }
}
