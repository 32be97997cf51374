//! What a node waits for besides the time: its connections, whoever calls, and other threads that want something of it.
//!
//! Each node has its own list of files with the kernel. A node that has its thread to itself waits there; where many
//! share a runtime, the runtime says when there is something in a list.
//!
//! Next: `driver`, which waits.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use trimtab_overlay::NodeId;

/// So many are taken at once.
pub(crate) const EVENTS_AT_ONCE: usize = 64;
/// No connection has these: a node's number stands in the upper half, and no node has the highest.
const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;
const ALARM: u64 = u64::MAX - 2;
const NEAR: u64 = u64::MAX - 3;
/// What is said of a connection.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
/// An alarm may go off this much before there is something to do. A beat that came is more: without it an idle node
/// would wake once more for each.
const EARLY_US_MAX: u64 = 20_000;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A connection, told from others of the same peer by its serial number: something came, or it takes more.
    Link(NodeId, u32),
    /// Somebody calls.
    Call,
    /// Another thread wants something.
    Bell,
    /// A node of this host has put something into memory that both map, or taken it out.
    Near,
    /// A time has come.
    Alarm,
}

/// A node's list of files.
#[derive(Debug)]
pub(crate) struct Events {
    epoll: OwnedFd,
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Events {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Events { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Adds a connection. It is said once that something came: then all of it must be read.
    pub(crate) fn add_link(&self, socket: impl AsFd, peer: NodeId, serial: u32) -> io::Result<()> {
        self.add(socket, link_data(peer, serial), READABLE)
    }

    /// Asks to be told once when a connection takes more, if it `is_awaited`. Only one that took no more has that said: a Unix
    /// socket's other end would wake the node with everything that it reads.
    pub(crate) fn await_room(&self, socket: impl AsFd, peer: NodeId, serial: u32, is_awaited: bool) -> io::Result<()> {
        let flags = if is_awaited { READABLE | EventFlags::OUT } else { READABLE };
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(link_data(peer, serial)), flags)?)
    }

    /// Adds a listener, of which all calls must be taken when there are some.
    pub(crate) fn add_listener(&self, listener: impl AsFd) -> io::Result<()> {
        self.add(listener, LISTENER, EventFlags::IN | EventFlags::ET)
    }

    /// Adds what other nodes of this host ring, each time of which is said once.
    pub(crate) fn add_near(&self, bell: impl AsFd) -> io::Result<()> {
        self.add(bell, NEAR, EventFlags::IN | EventFlags::ET)
    }

    fn add(&self, file: impl AsFd, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, file, EventData::new_u64(data), flags)?)
    }

    /// Hands over what there is, and waits for the first event or not; how many there were.
    pub(crate) fn take(&self, waits: bool, mut take: impl FnMut(What)) -> io::Result<usize> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_AT_ONCE];
        let found = match epoll::wait(&self.epoll, &mut room, if waits { None } else { Some(&NOW) }) {
            Ok((found, _)) => found,
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        for event in &*found {
            let data = event.data;
            take(match data.u64() {
                LISTENER => What::Call,
                BELL => What::Bell,
                ALARM => What::Alarm,
                NEAR => What::Near,
                link => What::Link(NodeId((link >> 32) as u32), link as u32),
            });
        }
        Ok(found.len())
    }
}

/// Another node's gong in a node's list. It is its owner's, so it must be taken off the list.
#[derive(Debug)]
pub(crate) struct Heard {
    events: Arc<Events>,
    gong: OwnedFd,
}

impl Heard {
    pub(crate) fn new(events: &Arc<Events>, gong: OwnedFd) -> io::Result<Self> {
        events.add_near(&gong)?;
        Ok(Heard { events: events.clone(), gong })
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // It is in the list.
        let _taken = epoll::delete(&self.events.epoll, &self.gong);
    }
}

fn link_data(peer: NodeId, serial: u32) -> u64 {
    u64::from(peer.0) << 32 | u64::from(serial)
}

/// A file that the runtime says is ready.
#[expect(
    deprecated,
    reason = "what replaces it is not safe to call; what is watched here keeps its one file open as long as it lives"
)]
pub(crate) fn watched<F: AsRawFd>(file: F, interest: Interest) -> io::Result<AsyncFd<F>> {
    AsyncFd::with_interest(file, interest)
}

/// A time for which a driver is to be woken. It is left alone where it is only a little too early: to set it costs as
/// much as to read a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// When the alarm is set to go off; 0 when it isn't.
    pub(crate) at_us: u64,
}

impl Due {
    /// True if the alarm has to be set anew to wake whoever has something to do then.
    pub(crate) fn must_set(&mut self, now_us: u64, until_us: u64) -> bool {
        let is_near = self.at_us > now_us && until_us >= self.at_us && until_us - self.at_us < EARLY_US_MAX;
        if !is_near {
            self.at_us = until_us;
        }
        !is_near
    }
}

/// Wakes a driver that waits in its list of files when it is time.
#[derive(Debug)]
pub(crate) struct Alarm {
    file: OwnedFd,
    due: Due,
}

impl Alarm {
    pub(crate) fn new(events: &Events) -> io::Result<Self> {
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // At an edge, so that nobody has to read it.
        events.add(&file, ALARM, EventFlags::IN | EventFlags::ET)?;
        Ok(Alarm { file, due: Due::default() })
    }

    /// Sees to it that there is an event at that time, or a little before.
    pub(crate) fn set(&mut self, now_us: u64, until_us: u64) -> io::Result<()> {
        if self.due.must_set(now_us, until_us) {
            // None at all would turn it off.
            let time = Duration::from_micros(until_us.saturating_sub(now_us)).max(Duration::from_nanos(1));
            let once = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(
                &self.file,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: never, it_value: once },
            )?;
        }
        Ok(())
    }
}

/// Wakes a driver, wherever it waits: in its list of files or in the runtime.
#[derive(Debug)]
pub(crate) struct Bell {
    file: OwnedFd,
    is_parked: AtomicBool,
    task: Waker,
}

impl Bell {
    /// For a driver whose task this is.
    pub(crate) fn new(events: &Events, task: Waker) -> io::Result<Arc<Self>> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        events.add(&file, BELL, EventFlags::IN)?;
        Ok(Arc::new(Bell { file, is_parked: AtomicBool::new(false), task }))
    }

    /// Says if the driver is about to wait in its list. To be said before it looks for the last time whether there is
    /// something to do: who comes later then finds it said.
    pub(crate) fn park(&self, is_parked: bool) {
        self.is_parked.store(is_parked, Ordering::SeqCst);
    }

    /// It has rung.
    pub(crate) fn quiet(&self) {
        // It may have been heard before.
        let _heard = rustix::io::read(&self.file, &mut [0; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_parked.load(Ordering::SeqCst) {
            // It can only be full, and then it rings.
            let _rings = rustix::io::write(&self.file, &1_u64.to_ne_bytes());
        } else {
            self.task.wake_by_ref();
        }
    }
}
