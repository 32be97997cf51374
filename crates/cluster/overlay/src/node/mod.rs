//! One node of the tree: what it remembers, and what can happen to it.
//!
//! Root, inner nodes and leaves are the same machine; a node has ranks or not, and ancestors or not. Each happening is
//! an [`Event`] with a time, and is answered by [`Action`]s. [`Node::wake_at_us`] says when time alone will matter.
//!
//! Next: `parent` for joining and the lease, `children` for adopting and losing, `commands` for what goes down,
//! `waves` for what goes up, `root` for what the controller gathers.

mod children;
mod commands;
mod parent;
mod queue;
mod root;
mod stretches;
mod waves;

use crate::frame::{Cursor, Frame};
use crate::{NodeId, StreamSpec, Timing};
use children::{Child, LostChild};
use commands::Log;
use parent::Up;
use queue::Queue;
use root::Root;
use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_reduce::{Bad, RankSet, Registry};
use waves::Stream;

/// A node is made from this.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its place.
    pub id: NodeId,
    /// Which life in this place; higher than all before.
    pub incarnation: u32,
    /// From its parent to the root; none for the root.
    pub ancestors: Vec<NodeId>,
    /// Its own ranks.
    pub ranks: RankSet,
    /// The times of the tree.
    pub timing: Timing,
    /// Users' own filters.
    pub registry: Arc<Registry>,
}

/// Everything that can happen to a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// It begins, or [`Node::wake_at_us`] has come.
    Time,
    /// A frame has arrived.
    Frame {
        /// From whom.
        from: NodeId,
        /// The frame.
        frame: Frame,
    },
    /// The transport says that the connection is gone; a node finds out by itself, only later.
    Closed(NodeId),
}

/// A request of a node to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a frame.
    Send {
        /// To whom.
        to: NodeId,
        /// The frame.
        frame: Frame,
    },
    /// Something for the program this node belongs to.
    Tell(Told),
}

/// News from a node for its owner: the agent at a leaf, the controller at the root.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It has a parent.
    Attached {
        /// Which.
        parent: NodeId,
    },
    /// It has lost its parent and looks for another.
    Orphaned,
    /// Nothing was heard of the root for a lease's time, or the agent was told to begin anew: take out everything that
    /// is in the target. All streams are over.
    Uninstrument,
    /// The tree has taken the agent in: what an earlier life left in the target is adopted or undone now. The open
    /// streams follow.
    Adopt,
    /// A stream is open; contributions may begin with this wave.
    Opened {
        /// Its number.
        stream: u32,
        /// Its description; in a box, as all that is rare and long, since each [`Action`] is as long as the longest.
        spec: Box<StreamSpec>,
        /// The first wave.
        wave: u64,
        /// How many payloads were sent on it before, whomever for: those are not told any more.
        sent: u64,
    },
    /// A stream is over.
    Closed {
        /// Its number.
        stream: u32,
    },
    /// Waves below this one may be contributed to.
    Window {
        /// Of which stream.
        stream: u32,
        /// The first that may not.
        below: u64,
    },
    /// The controller's command for this leaf.
    Command {
        /// Its number: ascending, never repeated.
        sequence: u64,
        /// On which stream.
        stream: u32,
        /// The payload.
        payload: Vec<u8>,
    },
    /// At the root: the result of a wave, or one part of it on a stream that doesn't wait.
    Result(Box<WaveResult>),
    /// At the root: ranks have come or gone for good.
    Ranks {
        /// New ones.
        gained: RankSet,
        /// Lost, and not come back in time.
        lost: RankSet,
    },
    /// Something was refused that should not have come.
    Trouble(Box<Trouble>),
}

/// The result of a wave.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveResult {
    /// Of which stream.
    pub stream: u32,
    /// Which wave.
    pub wave: u64,
    /// The ranks of which contributions are in it, each exactly once.
    pub covers: RankSet,
    /// Ranks of the target that are not.
    pub missing: RankSet,
    /// The merged value, encoded by the stream's filter.
    pub value: Vec<u8>,
}

/// A refusal, and what happened instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// A value that the stream's filter refuses.
    #[error("wave {wave} of stream {stream}: the value of ranks {covers} was left out")]
    Value {
        /// Which stream.
        stream: u32,
        /// Which wave.
        wave: u64,
        /// The ranks whose contributions these are.
        covers: RankSet,
        /// Why.
        #[source]
        bad: Bad,
    },
    /// A stream that this node can't serve.
    #[error("stream {stream} can not be opened here")]
    Stream {
        /// Which stream.
        stream: u32,
        /// Why.
        #[source]
        bad: Bad,
    },
}

/// Why a node didn't take what its owner gave it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Busy {
    /// Some node below lacks too many commands.
    #[error("{count} commands are on their way, as many as may be: try again after the next beat")]
    Commands {
        /// How many.
        count: u64,
    },
    /// The wave is not open here.
    #[error("wave {wave} of stream {stream} is not open (waves {from} up to {below} are): wait for the window to move")]
    Window {
        /// Which stream.
        stream: u32,
        /// Which wave.
        wave: u64,
        /// The first open wave.
        from: u64,
        /// The first that is not yet.
        below: u64,
    },
    /// There is no such stream.
    #[error("stream {stream} is not open here: wait until it is")]
    NoStream {
        /// Which.
        stream: u32,
    },
    /// It was contributed already.
    #[error("wave {wave} of stream {stream} was contributed to already: each rank contributes once")]
    Twice {
        /// Which stream.
        stream: u32,
        /// Which wave.
        wave: u64,
    },
    /// Only the root, or only a node with ranks of the stream, may do this.
    #[error("{id} can not do this: only {who} can")]
    NotHere {
        /// This node.
        id: NodeId,
        /// The kind of node that can.
        who: &'static str,
    },
    /// A payload or stream that can't be sent.
    #[error("it can not be sent")]
    Bad(#[source] Bad),
}

/// Counts of what a node has seen, for statistics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units that held ranks already merged; dropped.
    pub repeated: u64,
    /// Units that shared only some ranks with what was merged; dropped and asked for again.
    pub conflicting: u64,
    /// Units that came after their wave; dropped.
    pub late: u64,
    /// Units dropped because a queue was full; asked for again.
    pub dropped: u64,
    /// Frames of links that no longer exist; dropped.
    pub stale: u64,
    /// Most units ever in the queue.
    pub queue_max: usize,
    /// Most commands ever in the log.
    pub log_max: u64,
}

// An action is moved several times between the machine and its driver, without a call as long as it is short.
const _: () = assert!(size_of::<Action>() <= 96);

/// Beats without a turn after which a node was away itself.
const AWAY_FACTOR: u64 = 2;

/// One node of the tree.
pub struct Node {
    setup: Setup,
    now_us: u64,
    /// When the next beat is due; 0 before the first event.
    beat_at_us: u64,
    /// When it last had its turn, which comes with each beat at the latest.
    turned_us: u64,
    up: Up,
    children: BTreeMap<NodeId, Child>,
    lost_children: Vec<LostChild>,
    /// Own ranks and those of all children.
    members: RankSet,
    /// The members as the parent believes them to be.
    announced: RankSet,
    announce_at_us: Option<u64>,
    /// Commands of this life of the controller.
    epoch: u32,
    log: Log,
    /// The latest sign of the root's life, when it came, and when it was last passed on.
    pulse: u64,
    pulse_us: u64,
    pulse_sent_us: u64,
    /// True if the owner may have something in a target.
    leased: bool,
    /// In boxes, since a map has room for eleven.
    streams: BTreeMap<u32, Box<Stream>>,
    queue: Queue,
    /// True if the owner has been told more than it has taken.
    is_owner_behind: bool,
    /// No wave, here or gathered at the root, has waited long enough before this.
    waves_due_us: u64,
    root: Option<Root>,
    counts: Counts,
    out: Vec<Action>,
}

impl Node {
    /// A node that hasn't begun; its first event should be [`Event::Time`].
    pub fn new(setup: Setup) -> Self {
        let is_root = setup.ancestors.is_empty();
        Node {
            now_us: 0,
            beat_at_us: 0,
            turned_us: 0,
            up: Up::new(setup.ancestors.len()),
            children: BTreeMap::new(),
            lost_children: Vec::new(),
            members: setup.ranks.clone(),
            announced: RankSet::EMPTY,
            announce_at_us: None,
            epoch: if is_root { setup.incarnation } else { 0 },
            log: Log::default(),
            pulse: 0,
            pulse_us: 0,
            pulse_sent_us: 0,
            leased: is_root,
            streams: BTreeMap::new(),
            queue: Queue::default(),
            is_owner_behind: false,
            waves_due_us: u64::MAX,
            root: is_root.then(Root::default),
            counts: Counts::default(),
            out: Vec::new(),
            setup,
        }
    }

    /// Takes one event and says what to do about it.
    pub fn handle(&mut self, now_us: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.handle_into(now_us, event, &mut actions);
        actions
    }

    /// As [`Node::handle`], puts what is to be done behind `actions`: a driver of many nodes keeps one list for all.
    pub fn handle_into(&mut self, now_us: u64, event: Event, actions: &mut Vec<Action>) {
        self.lend(actions);
        self.now_us = self.now_us.max(now_us);
        let away_us = self.now_us - std::mem::replace(&mut self.turned_us, self.now_us);
        if away_us > AWAY_FACTOR * self.setup.timing.beat_us {
            self.was_away(away_us);
        }
        match event {
            Event::Time => {}
            Event::Closed(peer) => self.closed(peer),
            Event::Frame { from, frame } if self.setup.ancestors.contains(&from) => self.heard_above(from, frame),
            Event::Frame { from, frame } => self.heard_below(from, frame),
        }
        self.after(actions);
    }

    /// This node had no turn for a while: what the others have said meanwhile is still to be read, and is no silence. But a
    /// lease is over when its time is, whatever waits to be read: the root has stopped to count on this node by then.
    #[cold]
    fn was_away(&mut self, away_us: u64) {
        let heard = |at_us: &mut u64, now_us: u64| *at_us = now_us.min(at_us.saturating_add(away_us));
        let now_us = self.now_us;
        self.children.values_mut().for_each(|child| heard(&mut child.heard_us, now_us));
        self.up.joined.iter_mut().for_each(|joined| heard(&mut joined.heard_us, now_us));
        self.check_lease();
    }

    /// Says whether the owner is behind with what it was told. While it is, a leaf acknowledges no command and the root
    /// ends no wave: so the controller's log and the leaves' windows fill, and whoever makes more is [`Busy`].
    pub fn owner_is_behind(&mut self, now_us: u64, is_behind: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        self.owner_is_behind_into(now_us, is_behind, &mut actions);
        actions
    }

    /// As [`Node::owner_is_behind`], puts what is to be done behind `actions`.
    #[inline]
    pub fn owner_is_behind_into(&mut self, now_us: u64, is_behind: bool, actions: &mut Vec<Action>) {
        if self.is_owner_behind != is_behind {
            self.owner_changes(now_us, is_behind, actions);
        }
    }

    /// True if the owner was behind when that was last said.
    pub fn waits_for_owner(&self) -> bool {
        self.is_owner_behind
    }

    fn owner_changes(&mut self, now_us: u64, is_behind: bool, actions: &mut Vec<Action>) {
        self.lend(actions);
        self.now_us = self.now_us.max(now_us);
        self.is_owner_behind = is_behind;
        if !is_behind {
            self.trim_log();
            self.beat_up();
            self.retire_all();
        }
        self.after(actions);
    }

    /// When [`Event::Time`] must come, if nothing else does before.
    pub fn wake_at_us(&self) -> u64 {
        let silence_us_max = self.setup.timing.silence_us_max;
        // Not only with the next beat: an orphan has a second, and its next ancestors may be dead, too.
        let silent = |heard_us: u64| heard_us.saturating_add(silence_us_max).saturating_add(1);
        let lost = self.up.joined.as_ref().map_or(u64::MAX, |joined| silent(joined.heard_us));
        let announce = self.announce_at_us.unwrap_or(u64::MAX);
        self.beat_at_us.min(self.waves_due_us).min(self.up.wake_at_us()).min(lost).min(announce)
    }

    /// True if it has a way to the root, as far as it knows.
    pub fn is_attached(&self) -> bool {
        self.root.is_some() || self.up.joined.is_some()
    }

    /// Its parent now.
    pub fn parent(&self) -> Option<NodeId> {
        self.up.joined.as_ref().map(|joined| self.setup.ancestors[joined.candidate])
    }

    /// Its children now.
    pub fn children(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.children.keys().copied()
    }

    /// True if a node is its child now.
    pub fn is_child(&self, id: NodeId) -> bool {
        self.children.contains_key(&id)
    }

    /// The ranks at and below it.
    pub fn members(&self) -> &RankSet {
        &self.members
    }

    /// Counts of what it has seen.
    pub fn counts(&self) -> Counts {
        let dropped = self.counts.dropped + self.queue.dropped;
        Counts { queue_max: self.queue.count_max, dropped, ..self.counts }
    }

    /// The most units its queue may hold with the children it has.
    pub fn queue_bound(&self) -> usize {
        queue::queue_bound(self.children.len())
    }

    /// How many units wait in its queue.
    pub fn queue_count(&self) -> usize {
        self.queue.unit_count()
    }

    /// The last command it has received.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, sequence: self.log.head() }
    }

    /// Takes a driver's list, behind which everything is put that is to be done, until [`Node::after`].
    fn lend(&mut self, actions: &mut Vec<Action>) {
        if !self.out.is_empty() {
            // Of contributions that were put and not flushed.
            actions.append(&mut std::mem::take(&mut self.out));
        }
        std::mem::swap(&mut self.out, actions);
    }

    /// As [`Node::after`], for who has no list.
    fn done(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.after(&mut actions);
        actions
    }

    /// Does what is due, and hands over everything that is to be done.
    fn after(&mut self, actions: &mut Vec<Action>) {
        self.look_for_parent();
        if self.now_us >= self.beat_at_us {
            self.beat();
            // Nodes beat at different moments, so that a parent hears its children one by one.
            let stagger = u64::from(self.setup.id.0).wrapping_mul(2_654_435_761) % self.setup.timing.beat_us;
            let first = self.beat_at_us == 0;
            let beat_us = self.setup.timing.beat_us;
            // A node with a parent beats when the parent does, and by itself only if that fails to come.
            let patience_us = if self.up.joined.is_some() { beat_us / 4 } else { 0 };
            self.beat_at_us = self.now_us + if first { stagger.max(1) } else { beat_us + patience_us };
        }
        if self.announce_at_us.is_some_and(|at| self.now_us >= at) {
            self.announce();
        }
        self.fire_waves();
        if self.queue.unit_count() > 0 {
            self.send_queue();
        }
        std::mem::swap(&mut self.out, actions);
    }

    fn beat(&mut self) {
        self.lose_silent_children();
        self.check_lease();
        if self.root.is_some() {
            self.pulse += 1;
            self.pulse_us = self.now_us;
            self.pass_pulse();
            self.root_beat();
        } else {
            self.beat_up();
            if self.now_us.saturating_sub(self.pulse_sent_us) >= self.setup.timing.beat_us {
                self.pass_pulse();
            }
        }
    }

    fn closed(&mut self, peer: NodeId) {
        if self.children.contains_key(&peer) {
            self.lose_child(peer);
        } else {
            self.ancestor_closed(peer);
        }
    }

    fn send(&mut self, to: NodeId, frame: Frame) {
        self.out.push(Action::Send { to, frame });
    }

    fn tell(&mut self, told: Told) {
        self.out.push(Action::Tell(told));
    }

    /// Tells what concerns targets, which only a node with ranks has.
    fn tell_agent(&mut self, told: Told) {
        if !self.setup.ranks.is_empty() {
            self.tell(told);
        }
    }
}
