//! A node's state: the machine, the records of its connections, its owner. All of it is used under one lock.
//!
//! Every event ends in [`Core::act`], which does what the machine asks for. Frames to be sent are only queued, and calls
//! only noted; the connections' tasks write, and the driver calls, when the event is handled.
//!
//! Next: `driver` and `link` for the tasks that come here.

use crate::address::Contact;
use crate::error::{LinkError, Trouble};
use crate::limits::{DIALING_FRAMES_MAX, GREETING_COUNT_MAX, LINK_COUNT_MAX, TROUBLE_COUNT_MAX, UNUSED_TIME_MAX};
use crate::link::Link;
use crate::owner::{Hand, Owner};
use crate::queue::{feed, put_first};
use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use trimtab_overlay::frame::Body;
use trimtab_overlay::{Action, Event, Frame, Node, NodeId, Told};
use trimtab_types::one_line;
use trimtab_wire::Decoder;

thread_local! {
    /// Empty, with room, for all nodes of the thread.
    static LISTS: Cell<Option<Box<Lists>>> = const { Cell::new(None) };
}

/// Lists that are kept for the next time have room for so many.
const ROOM_COUNT_MAX: usize = 64;

/// Actions of the machine, and those that follow from doing them.
#[derive(Default)]
struct Lists {
    actions: Vec<Action>,
    next: Vec<Action>,
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

    /// The node's clock. It begins at 1 because the machine's 0 is before everything.
    pub(crate) fn now_us(&self) -> u64 {
        Instant::now().saturating_duration_since(self.began).as_micros() as u64 + 1
    }

    /// A moment of the node's clock.
    pub(crate) fn instant(&self, at_us: u64) -> Instant {
        self.began + Duration::from_micros(at_us)
    }
}

/// An ancestor that is being called.
struct Dialing {
    peer: NodeId,
    /// Frames that wait for it.
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
    /// Ancestors that are being called.
    dialing: Vec<Dialing>,
    to_dial: Vec<NodeId>,
    /// The owner is behind, and doesn't know yet who waits for it.
    owner_waits: bool,
    next_serial: u32,
    swept_us: u64,
    troubles: VecDeque<Trouble>,
    /// The time at which the driver wakes by itself, and how to wake it before.
    pub(crate) armed_us: u64,
    waker: Option<Waker>,
    /// Wakes the task that waits for the node's end.
    waits_for_end: Option<Waker>,
    pub(crate) is_stopped: bool,
    /// Callers that have not proved themselves, oldest first. They are bounded in number.
    greetings: BTreeMap<u64, AbortHandle>,
    next_greeting: u64,
}

impl Core {
    pub(crate) fn new(node: Node, owner: Box<dyn Owner>, contacts: Vec<(NodeId, Contact)>) -> Self {
        Core {
            node,
            owner,
            contacts,
            links: BTreeMap::new(),
            dialing: Vec::new(),
            to_dial: Vec::new(),
            owner_waits: false,
            next_serial: 0,
            swept_us: 0,
            troubles: VecDeque::new(),
            armed_us: 0,
            waker: None,
            waits_for_end: None,
            is_stopped: false,
            greetings: BTreeMap::new(),
            next_greeting: 0,
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
            return Ok(());
        }
        if !self.contacts.iter().any(|(ancestor, _)| *ancestor == to) {
            // It is a descendant that is gone. The machine hears of it from its connection's end.
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

    /// The list of what waits for an ancestor, which is called if it isn't yet.
    fn waiting_for(&mut self, to: NodeId) -> &mut Dialing {
        let index = self.dialing.iter().position(|dialing| dialing.peer == to).unwrap_or_else(|| {
            self.to_dial.push(to);
            self.dialing.push(Dialing { peer: to, frames: Vec::new(), said_count: 0 });
            self.dialing.len() - 1
        });
        &mut self.dialing[index]
    }

    /// The bytes of frames that wait for an ancestor and can go with the hello: nearly always that this node wants to
    /// join it. The connection that comes of the call has carried them.
    pub(crate) fn say_with_hello(&mut self, peer: NodeId) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(dialing) = self.dialing.iter_mut().find(|dialing| dialing.peer == peer) {
            dialing.said_count = put_first(&dialing.frames, &mut bytes);
        }
        bytes
    }

    /// Takes the frames that waited for an ancestor and did not go with the hello. The list has no room while nobody is
    /// called, as nearly always.
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

    /// Takes in a connection whose other end is known: its serial, and the decoder of what comes after `rest`.
    pub(crate) fn enter(
        &mut self,
        now_us: u64,
        peer: NodeId,
        certificate: Option<CertificateDer<'static>>,
        (unsaid, rest): (Vec<u8>, &[u8]),
    ) -> Result<(u32, Decoder), LinkError> {
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
        let serial = self.next_serial;
        self.links.insert(peer, Box::new(Link::new(serial, now_us, certificate, unsaid)));
        let mut decoder = Decoder::default();
        if let Err(why) = self.begin(now_us, (peer, serial), &mut decoder, rest) {
            self.lost(now_us, peer, &why);
            return Err(why);
        }
        self.wake_driver();
        Ok((serial, decoder))
    }

    /// Queues the frames that waited for a connection, and handles those that came with its hello.
    fn begin(
        &mut self,
        now_us: u64,
        (peer, serial): (NodeId, u32),
        decoder: &mut Decoder,
        rest: &[u8],
    ) -> Result<(), LinkError> {
        for frame in self.take_waiting(peer) {
            self.send(now_us, peer, frame)?;
        }
        let mut frames = Vec::new();
        let fed = feed(decoder, rest, &mut frames);
        self.frames_came(now_us, peer, serial, &mut frames)?;
        fed
    }

    /// The task of a connection runs; false if the node has closed the connection.
    pub(crate) fn link_runs(&mut self, peer: NodeId, serial: u32, task: &Waker) -> bool {
        let link = self.links.get_mut(&peer).filter(|link| link.serial == serial);
        link.map(|link| link.runs(task)).is_some()
    }

    /// Moves a batch of a connection's bytes to the end of `out`; false if none wait.
    pub(crate) fn take_batch(&mut self, peer: NodeId, serial: u32, out: &mut Vec<u8>) -> Result<bool, LinkError> {
        let link = self.links.get_mut(&peer).filter(|link| link.serial == serial);
        link.ok_or(LinkError::Replaced)?.take(out)
    }

    /// Handles the frames that have come by a connection.
    pub(crate) fn frames_came(
        &mut self,
        now_us: u64,
        peer: NodeId,
        serial: u32,
        frames: &mut Vec<Frame>,
    ) -> Result<(), LinkError> {
        let link = self.links.get_mut(&peer).filter(|link| link.serial == serial);
        link.ok_or(LinkError::Replaced)?.used_us = now_us;
        for frame in frames.drain(..) {
            self.handle(now_us, Event::Frame { from: peer, frame });
        }
        self.wake_driver();
        Ok(())
    }

    /// A connection is over. The machine hears of it if it is still the one in use.
    pub(crate) fn ended(&mut self, now_us: u64, peer: NodeId, serial: u32, why: &LinkError) {
        if self.links.get(&peer).is_some_and(|link| link.serial == serial) {
            self.lost(now_us, peer, why);
        }
    }

    /// Ends connections whose other end has a certificate that is not good any more; how many.
    pub(crate) fn close_revoked(
        &mut self,
        now_us: u64,
        is_revoked: &dyn Fn(&CertificateDer<'static>) -> bool,
    ) -> usize {
        let bad = |link: &Link| link.certificate.as_ref().is_some_and(is_revoked);
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
        if let Some(link) = self.links.remove(&peer) {
            link.wake();
        }
        self.trouble(peer.to_string(), why);
    }

    /// Remembers a failure, once for the same one in a row.
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

    /// The number of a caller that is about to be answered.
    pub(crate) fn next_greeting(&mut self) -> u64 {
        self.next_greeting += 1;
        self.next_greeting
    }

    /// A caller is being answered. One too many ends the oldest.
    pub(crate) fn greets(&mut self, number: u64, task: AbortHandle) {
        if self.greetings.len() >= GREETING_COUNT_MAX
            && let Some((_, oldest)) = self.greetings.pop_first()
        {
            oldest.abort();
        }
        self.greetings.insert(number, task);
    }

    /// A caller has been answered, or refused.
    pub(crate) fn has_greeted(&mut self, number: u64) {
        self.greetings.remove(&number);
    }

    /// Wakes the driver if there is something to do before it wakes by itself.
    pub(crate) fn wake_driver(&mut self) {
        let is_due = !self.to_dial.is_empty() || self.is_stopped || self.owner_waits;
        if (is_due || self.node.wake_at_us() < self.armed_us)
            // Many events at once wake it once.
            && std::mem::replace(&mut self.armed_us, 0) > 0
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }

    /// The driver's work whenever it wakes: the machine's time, the sweep, the owner. The ancestors to call next.
    pub(crate) fn turn(&mut self, now_us: u64, waker: &Waker) -> Vec<NodeId> {
        self.armed_us = 0;
        if now_us >= self.node.wake_at_us() {
            self.handle(now_us, Event::Time);
        }
        self.sweep(now_us);
        if self.owner.is_behind() || self.node.waits_for_owner() {
            self.wait_for_owner(now_us, waker);
        }
        self.owner_waits = false;
        self.armed_us = self.node.wake_at_us();
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
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

    /// Closes connections that are neither to a parent nor to a child, and that nobody asks to become one.
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
            let stays = is_ours || now_us.saturating_sub(link.used_us) < unused_us;
            if !stays {
                link.wake();
            }
            stays
        });
    }

    /// Closes all connections and ends the node's tasks.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.links.values().for_each(|link| link.wake());
        self.links.clear();
        self.greetings.values().for_each(AbortHandle::abort);
        self.greetings.clear();
        self.dialing.clear();
        // The owner's end of an inbox learns by this that nothing more comes.
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
