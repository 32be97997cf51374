//! What a node is while it runs: the machine, its connections, its owner. Everything here happens under one lock.
//!
//! Whatever happens ends in [`Core::act`], which does what the machine asks for. What is to be written, and whom to
//! call, is only noted; the driver does it when all that has happened at once is handled, so that one write carries
//! many frames.
//!
//! Next: `driver` for the tasks that come here, `link` for one connection.

use crate::address::Contact;
use crate::awake;
use crate::error::{LinkError, Trouble};
use crate::events::Events;
use crate::greet::Greeted;
use crate::handle::{Hand, Owner};
use crate::limits::{DIALING_FRAMES_MAX, LINK_COUNT_MAX, LOOK_LINKS_MAX};
use crate::limits::{TROUBLE_COUNT_MAX, UNUSED_TIME_MAX};
use crate::line::Line;
use crate::link::{Link, put_first};
use crate::memory::{Memory, Post};
use crate::socket;
use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use trimtab_overlay::frame::Body;
use trimtab_overlay::{Action, Event, Frame, Node, NodeId, Told};
use trimtab_types::one_line;

thread_local! {
    /// Frames between their bytes and the machine, for all connections of the thread.
    static FRAMES: Cell<Vec<Frame>> = const { Cell::new(Vec::new()) };
    /// Connections of which something has come through memory.
    static READY: Cell<Vec<(NodeId, u32)>> = const { Cell::new(Vec::new()) };
    /// Empty, with room, for all nodes of the thread.
    static LISTS: Cell<Option<Box<Lists>>> = const { Cell::new(None) };
}

/// Lists that are kept for the next time have room for so many.
const ROOM_COUNT_MAX: usize = 64;

/// What the machine said, and what follows from doing it.
#[derive(Default)]
struct Lists {
    actions: Vec<Action>,
    next: Vec<Action>,
}

/// A time, and what the node's clock shows then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    pub(crate) us: u64,
}

/// A node that several tasks share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    began: Instant,
}

impl Shared {
    pub(crate) fn new(core: Core) -> Self {
        Shared { core: Mutex::new(core), began: Instant::now() }
    }

    /// The node, for this task alone.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic of an owner's code leaves the machine as it was between two events.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is, also by the node's clock; that begins at 1 because the machine's 0 is before everything.
    pub(crate) fn now(&self) -> Now {
        let at = Instant::now();
        Now { at, us: at.saturating_duration_since(self.began).as_micros() as u64 + 1 }
    }

    /// The node's clock.
    pub(crate) fn now_us(&self) -> u64 {
        self.now().us
    }

    /// A moment of the node's clock.
    pub(crate) fn instant(&self, at_us: u64) -> Instant {
        self.began + Duration::from_micros(at_us)
    }
}

/// An ancestor that is being called.
struct Dialing {
    peer: NodeId,
    /// What waits for it.
    frames: Vec<Frame>,
    /// How many of these go with the hello.
    said_count: usize,
}

/// See the module.
pub(crate) struct Core {
    pub(crate) node: Node,
    owner: Box<dyn Owner>,
    contacts: Vec<(NodeId, Contact)>,
    links: BTreeMap<NodeId, Box<Link>>,
    events: Arc<Events>,
    /// What nodes of this host share with this one.
    post: Option<Arc<Post>>,
    /// Whom something was done for in memory; they may have to be woken.
    to_ring: Vec<NodeId>,
    /// Ancestors that are being called.
    dialing: Vec<Dialing>,
    to_dial: Vec<NodeId>,
    to_write: Vec<NodeId>,
    /// Connections that took no more; the driver is woken when they do.
    blocked: Vec<NodeId>,
    /// The owner is behind, and doesn't know yet who waits for it.
    owner_waits: bool,
    next_serial: u32,
    swept_us: u64,
    /// Reads that found something because the node stayed awake.
    pub(crate) found_awake_count: u64,
    troubles: VecDeque<Trouble>,
    /// When the driver wakes by itself, and how to wake it before.
    pub(crate) armed_us: u64,
    waker: Option<Waker>,
    /// True if the driver waits, so that it has to be woken.
    driver_waits: bool,
    /// Who waits for the node's end.
    waits_for_end: Option<Waker>,
    pub(crate) is_stopped: bool,
    /// Tasks that call somebody or answer who called.
    pub(crate) greeting_count: usize,
    /// True if somebody may be calling.
    pub(crate) is_called: bool,
}

impl Core {
    pub(crate) fn new(
        node: Node,
        owner: Box<dyn Owner>,
        contacts: Vec<(NodeId, Contact)>,
        events: Arc<Events>,
        post: Option<Arc<Post>>,
    ) -> Self {
        Core {
            node,
            owner,
            contacts,
            links: BTreeMap::new(),
            events,
            post,
            to_ring: Vec::new(),
            dialing: Vec::new(),
            to_dial: Vec::new(),
            to_write: Vec::new(),
            blocked: Vec::new(),
            owner_waits: false,
            next_serial: 0,
            swept_us: 0,
            found_awake_count: 0,
            troubles: VecDeque::new(),
            armed_us: 0,
            waker: None,
            driver_waits: false,
            waits_for_end: None,
            is_stopped: false,
            greeting_count: 0,
            is_called: false,
        }
    }

    /// Gives the machine an event and does what it says.
    pub(crate) fn handle(&mut self, now_us: u64, event: Event) {
        let mut lists = LISTS.take().unwrap_or_default();
        self.node.handle_into(now_us, event, &mut lists.actions);
        self.act_on(now_us, lists);
    }

    /// Does what the machine said, and what the owner asks for because of it.
    pub(crate) fn act(&mut self, now_us: u64, actions: Vec<Action>) {
        if !actions.is_empty() {
            self.act_on(now_us, Box::new(Lists { actions, next: Vec::new() }));
        }
    }

    fn act_on(&mut self, now_us: u64, mut lists: Box<Lists>) {
        let Lists { actions, next } = &mut *lists;
        let mut has_told = false;
        loop {
            for action in actions.drain(..) {
                match action {
                    Action::Send { to, frame } => {
                        if let Err(why) = self.send(now_us, to, frame) {
                            self.close(to, &why);
                            self.node.handle_into(now_us, Event::Closed(to), next);
                        }
                    }
                    Action::Tell(told) => {
                        let mut hand = Hand::new(&mut self.node, now_us, next);
                        self.owner.told(told, &mut hand);
                        if hand.has_put {
                            self.node.flush_into(now_us, next);
                        }
                        has_told = true;
                    }
                }
            }
            std::mem::swap(actions, next);
            if actions.is_empty() && std::mem::take(&mut has_told) {
                // Once for all that it was told at once.
                self.owner_waits = self.owner.is_behind();
                self.node.owner_is_behind_into(now_us, self.owner_waits, actions);
            }
            if actions.is_empty() {
                break;
            }
        }
        if actions.capacity().max(next.capacity()) <= ROOM_COUNT_MAX {
            LISTS.set(Some(lists));
        }
    }

    fn send(&mut self, now_us: u64, to: NodeId, frame: Frame) -> Result<(), LinkError> {
        if let Some(link) = self.links.get_mut(&to) {
            link.used_us = now_us;
            link.push(frame)?;
            if !link.is_listed {
                link.is_listed = true;
                self.to_write.push(to);
            }
            return Ok(());
        }
        if !self.contacts.iter().any(|(ancestor, _)| *ancestor == to) {
            // A descendant that is gone; the machine hears of it from its connection's end.
            return Ok(());
        }
        let waiting = self.waiting_for(to);
        if matches!(frame.body, Body::Join(_)) {
            // An earlier attempt that is still waiting has been given up.
            (waiting.said_count, waiting.frames) = (0, Vec::new());
        }
        if waiting.frames.len() < DIALING_FRAMES_MAX {
            waiting.frames.push(frame);
        }
        Ok(())
    }

    /// What waits for an ancestor, who is called if it isn't yet.
    fn waiting_for(&mut self, to: NodeId) -> &mut Dialing {
        let index = self.dialing.iter().position(|dialing| dialing.peer == to).unwrap_or_else(|| {
            self.to_dial.push(to);
            self.dialing.push(Dialing { peer: to, frames: Vec::new(), said_count: 0 });
            self.dialing.len() - 1
        });
        &mut self.dialing[index]
    }

    /// What waits for an ancestor and is to go with the hello: nearly always that this node wants to join it. Whatever
    /// connection comes of the call has carried it.
    pub(crate) fn say_with_hello(&mut self, peer: NodeId) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(dialing) = self.dialing.iter_mut().find(|dialing| dialing.peer == peer) {
            dialing.said_count = put_first(&dialing.frames, &mut bytes);
        }
        bytes
    }

    /// What waited for an ancestor that is no longer called, and wasn't said yet. Nothing is kept when nobody is called:
    /// nearly always.
    fn take_waiting(&mut self, peer: NodeId) -> Vec<Frame> {
        let index = self.dialing.iter().position(|dialing| dialing.peer == peer);
        let mut waited = Vec::new();
        if let Some(Dialing { mut frames, said_count, .. }) = index.map(|index| self.dialing.swap_remove(index)) {
            waited = frames.split_off(said_count);
        }
        if self.dialing.is_empty() {
            self.dialing = Vec::new();
        }
        waited
    }

    /// Takes in a connection whose other end is known.
    pub(crate) fn adopt(&mut self, now_us: u64, greeted: Greeted) -> Result<(), LinkError> {
        let Greeted { peer, socket, seal, rest, memory, unsaid } = greeted;
        if self.is_stopped {
            return Err(LinkError::Closed);
        }
        if self.links.len() >= LINK_COUNT_MAX && !self.links.contains_key(&peer) {
            return Err(LinkError::TooMany { count: self.links.len() });
        }
        if self.links.contains_key(&peer) {
            self.lost(now_us, peer, &LinkError::Replaced);
        }
        self.next_serial = self.next_serial.wrapping_add(1);
        let (serial, socket, is_memory) = (self.next_serial, socket.settle()?, memory.is_some());
        self.events.add_link(&socket, peer, serial)?;
        let line = Line::new(socket, memory, &self.events)?;
        let mut link = Link::new(serial, now_us, line, seal);
        if !unsaid.is_empty() {
            link.say_first(unsaid);
            link.is_listed = true;
            self.to_write.push(peer);
        }
        self.links.insert(peer, Box::new(link));
        if let Err(why) = self.begin(now_us, peer, serial, &rest) {
            self.lost(now_us, peer, &why);
            return Err(why);
        }
        if is_memory {
            // A driver that waits already hasn't said so to this peer.
            self.ring();
        }
        self.wake_driver();
        Ok(())
    }

    /// Sends what has waited for a connection, and hears what came with its beginning.
    fn begin(&mut self, now_us: u64, peer: NodeId, serial: u32, rest: &[u8]) -> Result<(), LinkError> {
        for frame in self.take_waiting(peer) {
            self.send(now_us, peer, frame)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.decoded(now_us, peer, serial, |link, frames| link.open_plain(rest, frames))
    }

    /// Reads what has come on a connection; whether there may be more.
    pub(crate) fn read(&mut self, now: Now, peer: NodeId, serial: u32) -> bool {
        self.read_by(now, peer, serial, Line::read)
    }

    /// Reads what has come through memory, everywhere; whether something had.
    pub(crate) fn read_memory(&mut self, now: Now) -> bool {
        if !self.post.as_ref().is_some_and(|post| post.is_in_use()) {
            return false;
        }
        let mut ready = READY.take();
        let links = self.links.iter().filter(|(_, link)| link.line().has_come());
        ready.extend(links.map(|(peer, link)| (*peer, link.serial)));
        let has_come = !ready.is_empty();
        for (peer, serial) in ready.drain(..) {
            self.read_by(now, peer, serial, Line::look);
        }
        READY.set(ready);
        has_come
    }

    /// The driver is about to wait, which nodes of this host are told; whether something came before they were. It is
    /// read then.
    pub(crate) fn comes_before_wait(&mut self, now: Now) -> bool {
        let Some(post) = self.post.clone().filter(|post| post.is_in_use()) else { return false };
        post.says_it_waits(true);
        let has_come = self.read_memory(now);
        if has_come {
            post.says_it_waits(false);
        }
        has_come
    }

    /// The driver waits no more: nodes of this host need not wake it, and what came from them is read.
    pub(crate) fn comes_after_wait(&mut self, now: Now) -> bool {
        let Some(post) = self.post.as_ref().filter(|post| post.is_in_use()) else { return false };
        post.says_it_waits(false);
        self.read_memory(now)
    }

    fn read_by(
        &mut self,
        now: Now,
        peer: NodeId,
        serial: u32,
        read: fn(&mut Line, &mut [u8]) -> io::Result<usize>,
    ) -> bool {
        let now_us = now.us;
        socket::with_buffer(|bytes| {
            let Some(link) = self.links.get_mut(&peer).filter(|link| link.serial == serial) else { return false };
            let count = match read(link.line_mut(), bytes) {
                Ok(0) => return self.ended(now_us, peer, serial, &LinkError::Closed),
                Ok(count) => count,
                Err(error) if socket::is_not_now(&error) => return false,
                Err(error) => return self.ended(now_us, peer, serial, &error.into()),
            };
            awake::came(now.at);
            let memory = link.line_mut().memory();
            // Behind it is what the socket has to say, which is that it is over.
            let is_memory = memory.is_some();
            if memory.is_some_and(Memory::takes_debt) {
                self.to_ring.push(peer);
            }
            match self.decoded(now_us, peer, serial, |link, frames| link.open(&mut bytes[..count], frames)) {
                Ok(()) => is_memory || count == bytes.len(),
                Err(why) => self.ended(now_us, peer, serial, &why),
            }
        })
    }

    /// Asks each connection for what is there, if there are few; whether something was.
    pub(crate) fn look(&mut self, now: Now) -> bool {
        let now_us = now.us;
        if self.read_memory(now) {
            self.found_awake_count += 1;
            return true;
        }
        if self.links.len() > LOOK_LINKS_MAX {
            return false;
        }
        let found = socket::with_buffer(|bytes| {
            let found = self.links.iter_mut().find_map(|(peer, link)| match link.line_mut().look(bytes) {
                // Its end is for the driver to find.
                Ok(0) | Err(_) => None,
                Ok(count) => Some((*peer, link.serial, count)),
            });
            let (peer, serial, count) = found?;
            awake::came(now.at);
            self.found_awake_count += 1;
            Some((
                peer,
                serial,
                self.decoded(now_us, peer, serial, |link, frames| link.open(&mut bytes[..count], frames)),
            ))
        });
        if let Some((peer, serial, Err(why))) = &found {
            self.ended(now_us, *peer, *serial, why);
        }
        found.is_some()
    }

    fn decoded(
        &mut self,
        now_us: u64,
        peer: NodeId,
        serial: u32,
        open: impl FnOnce(&mut Link, &mut Vec<Frame>) -> Result<bool, LinkError>,
    ) -> Result<(), LinkError> {
        let Some(link) = self.links.get_mut(&peer).filter(|link| link.serial == serial) else {
            return Err(LinkError::Replaced);
        };
        let mut frames = FRAMES.take();
        link.used_us = now_us;
        let opened = open(link, &mut frames);
        if matches!(opened, Ok(true)) && !link.is_listed {
            link.is_listed = true;
            self.to_write.push(peer);
        }
        // Those before the first that is none of ours count, as if it had come later.
        for frame in frames.drain(..) {
            self.handle(now_us, Event::Frame { from: peer, frame });
        }
        FRAMES.set(frames);
        opened.map(drop)
    }

    /// A connection is over; the machine hears of it if it is still the one in use. There is no more to be read of it.
    fn ended(&mut self, now_us: u64, peer: NodeId, serial: u32, why: &LinkError) -> bool {
        if self.links.get(&peer).is_some_and(|link| link.serial == serial) {
            self.lost(now_us, peer, why);
        }
        false
    }

    /// Ends connections whose other end has a certificate that is not good any more; how many.
    pub(crate) fn close_revoked(
        &mut self,
        now_us: u64,
        is_revoked: &dyn Fn(&CertificateDer<'static>) -> bool,
    ) -> usize {
        let bad = |link: &Link| link.certificate().is_some_and(is_revoked);
        let peers: Vec<NodeId> = self.links.iter().filter(|(_, link)| bad(link)).map(|(peer, _)| *peer).collect();
        for peer in &peers {
            self.lost(now_us, *peer, &LinkError::Revoked);
        }
        peers.len()
    }

    /// Nobody was reached at an ancestor's address.
    pub(crate) fn dial_failed(&mut self, now_us: u64, peer: NodeId, why: &LinkError) {
        self.take_waiting(peer);
        self.lost(now_us, peer, why);
    }

    fn lost(&mut self, now_us: u64, peer: NodeId, why: &LinkError) {
        self.close(peer, why);
        self.handle(now_us, Event::Closed(peer));
        self.wake_driver();
    }

    fn close(&mut self, peer: NodeId, why: &LinkError) {
        self.links.remove(&peer);
        self.trouble(peer.to_string(), why);
    }

    /// Remembers what went wrong, once for the same thing in a row.
    pub(crate) fn trouble(&mut self, with: String, why: &LinkError) {
        let what = one_line(why);
        match self.troubles.back_mut().filter(|last| last.with == with && last.what == what) {
            Some(last) => last.count += 1,
            None => self.troubles.push_back(Trouble { with, what, count: 1 }),
        }
        while self.troubles.len() > TROUBLE_COUNT_MAX {
            self.troubles.pop_front();
        }
    }

    pub(crate) fn troubles(&self) -> impl Iterator<Item = &Trouble> {
        self.troubles.iter()
    }

    pub(crate) fn contact(&self, peer: NodeId) -> Option<Contact> {
        self.contacts.iter().find(|(ancestor, _)| *ancestor == peer).map(|(_, contact)| contact.clone())
    }

    pub(crate) fn link_count(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn memory_count(&self) -> usize {
        self.post.as_ref().map_or(0, |post| post.count())
    }

    pub(crate) fn near_count(&self) -> usize {
        self.links.values().filter(|link| link.line().is_near()).count()
    }

    /// Wakes the driver if there is something to do before it wakes by itself.
    pub(crate) fn wake_driver(&mut self) {
        let is_due = !self.to_write.is_empty()
            || !self.to_dial.is_empty()
            || self.is_stopped
            || self.owner_waits
            || self.is_called;
        if is_due || self.node.wake_at_us() < self.armed_us {
            self.ring();
        }
    }

    /// Wakes the driver.
    pub(crate) fn ring(&mut self) {
        // Many arrivals at once wake it once.
        if std::mem::take(&mut self.driver_waits)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }

    /// The driver runs: nobody needs to wake it.
    pub(crate) fn driver_runs(&mut self) {
        self.driver_waits = false;
    }

    /// True if there is nothing to do for the driver, which is not awaited by the owner or the kernel either.
    pub(crate) fn is_calm(&self) -> bool {
        self.driver_waits && self.blocked.is_empty() && !self.owner_waits && !self.is_stopped
    }

    /// What the driver does whenever it wakes: the time, then writing; whom to call next.
    pub(crate) fn turn(&mut self, now_us: u64, waker: &Waker) -> Vec<NodeId> {
        self.driver_runs();
        if now_us >= self.node.wake_at_us() {
            self.handle(now_us, Event::Time);
        }
        self.sweep(now_us);
        if self.owner.is_behind() || self.node.waits_for_owner() {
            self.wait_for_owner(now_us, waker);
        }
        self.owner_waits = false;
        self.write_all(now_us);
        self.armed_us = self.node.wake_at_us();
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        self.driver_waits = true;
        std::mem::take(&mut self.to_dial)
    }

    /// The owner is behind, or isn't any more, and the machine is told.
    #[cold]
    fn wait_for_owner(&mut self, now_us: u64, waker: &Waker) {
        let actions = self.node.owner_is_behind(now_us, self.owner.is_behind());
        self.act(now_us, actions);
        if self.owner.is_behind() {
            self.owner.wake_when_taken(waker);
        }
    }

    /// Writes what has gathered, and what that leads to.
    fn write_all(&mut self, now_us: u64) {
        self.to_write.append(&mut self.blocked);
        let mut at = 0;
        while let Some(&peer) = self.to_write.get(at) {
            at += 1;
            let Some(link) = self.links.get_mut(&peer) else { continue };
            match link.flush(peer, &self.events) {
                Ok(false) => self.blocked.push(peer),
                Ok(true) => link.is_listed = false,
                Err(why) => {
                    self.lost(now_us, peer, &why);
                    continue;
                }
            }
            if link.line_mut().memory().is_some_and(Memory::takes_debt) {
                self.to_ring.push(peer);
            }
        }
        self.to_write.clear();
        self.to_write.shrink_to(ROOM_COUNT_MAX);
        if !self.to_ring.is_empty() {
            self.ring_near();
        }
    }

    /// Wakes those for whom something was done in memory and who wait: all with one gong, or each with its bell.
    fn ring_near(&mut self) {
        let (to_ring, links) = (&mut self.to_ring, &mut self.links);
        let mut by_gong = 0;
        to_ring.retain(|peer| {
            let memory = links.get_mut(peer).and_then(|link| link.line_mut().memory());
            let Some(memory) = memory.filter(|memory| memory.must_ring()) else { return false };
            by_gong += usize::from(memory.hears_gong());
            true
        });
        let gong = self.post.as_ref().filter(|post| post.is_gong_better(by_gong));
        if let Some(post) = gong {
            post.ring_gong();
        }
        for peer in to_ring.drain(..) {
            let memory = links.get_mut(&peer).and_then(|link| link.line_mut().memory());
            if let Some(memory) = memory.filter(|memory| gong.is_none() || !memory.hears_gong()) {
                memory.ring();
            }
        }
        to_ring.shrink_to(ROOM_COUNT_MAX);
    }

    /// Closes what is neither above nor below this node and isn't asked to be.
    fn sweep(&mut self, now_us: u64) {
        let unused_us = UNUSED_TIME_MAX.as_micros() as u64;
        if now_us.saturating_sub(self.swept_us) < unused_us / 2 {
            return;
        }
        self.swept_us = now_us;
        let parent = self.node.parent();
        let node = &self.node;
        self.links.retain(|peer, link| {
            let is_ours = parent == Some(*peer) || node.is_child(*peer);
            is_ours || now_us.saturating_sub(link.used_us) < unused_us
        });
    }

    /// Lets everything go.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.links.clear();
        self.dialing.clear();
        // Whoever waits for news hears that there will be none.
        self.owner = Box::new(|_: Told, _: &mut Hand<'_>| {});
        self.wake_driver();
        if let Some(waker) = self.waits_for_end.take() {
            waker.wake();
        }
    }

    pub(crate) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_stopped {
            return Poll::Ready(());
        }
        self.waits_for_end = Some(context.waker().clone());
        Poll::Pending
    }
}
