//! The way down: the controller's commands, kept until every node below has them.
//!
//! Commands have one numbering per life of the controller. A node handles each once and in order, gives it to each
//! child once and in order, and remembers it until all of them, and the orphans of lost ones, have it. So an adopted
//! child goes on exactly where it stopped. A log that is full stops the one above it, up to the controller.
//!
//! Next: `children` for who acknowledges, `root` for who makes commands.

use super::children::Child;
use super::{Action, Node, Told};
use crate::frame::{Command, Cursor, OpenStream, Ordered, Shared, Snapshot};
use crate::limits::{ACK_STEP, LOG_COUNT_MAX};
use crate::{NodeId, StreamSpec};
use std::collections::VecDeque;

/// The commands that somebody below may lack.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Everything up to this one is held by all below.
    floor: u64,
    /// `floor + 1` and so on.
    commands: VecDeque<Shared<Command>>,
}

impl Log {
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn head(&self) -> u64 {
        self.floor + self.commands.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.commands.len() as u64 >= LOG_COUNT_MAX
    }

    pub(super) fn push(&mut self, command: Shared<Command>) {
        self.commands.push_back(command);
    }

    /// Counts a command that nobody below lacks, if there is none that somebody does; whether it is so.
    fn pass(&mut self) -> bool {
        if !self.commands.is_empty() {
            return false;
        }
        self.floor += 1;
        true
    }

    fn after(&self, sequence: u64) -> Option<(u64, &Shared<Command>)> {
        let index = sequence.checked_sub(self.floor)?;
        self.commands.get(usize::try_from(index).ok()?).map(|command| (sequence + 1, command))
    }

    fn trim(&mut self, floor: u64) {
        while self.floor < floor && self.commands.pop_front().is_some() {
            self.floor += 1;
        }
    }

    fn begin_at(&mut self, sequence: u64) {
        *self = Log { floor: sequence, commands: VecDeque::new() };
    }
}

impl Node {
    /// All nodes below this one have the commands up to here, so a new parent must hold those behind it: if this node
    /// is lost next, its children will ask there for what they lack.
    pub(super) fn cursor_below(&self) -> Cursor {
        Cursor { epoch: self.epoch, sequence: self.log.floor() }
    }

    /// A command of the parent: handled if it is the next one.
    pub(super) fn command_came(&mut self, sequence: u64, command: Shared<Command>) {
        if sequence <= self.log.head() {
            return;
        }
        if sequence != self.log.head() + 1 || self.log.is_full() {
            // The parent does not follow the rules of this list; a new link makes both agree.
            return self.orphaned();
        }
        self.append(command);
        let held = self.log.floor();
        if self.up.joined.as_ref().is_some_and(|joined| held >= joined.acknowledged + ACK_STEP) {
            self.beat_up();
        }
    }

    /// Puts a command into the log, gives it to the children and does what it says.
    pub(super) fn append(&mut self, command: Shared<Command>) {
        let is_leaf = self.children.is_empty() && self.lost_children.is_empty() && !self.holds_log();
        if is_leaf && self.log.pass() {
            self.counts.log_max = self.counts.log_max.max(1);
        } else {
            self.append_for_others(command.clone());
        }
        self.obey(self.log.head(), command);
    }

    #[inline(never)]
    fn append_for_others(&mut self, command: Shared<Command>) {
        self.log.push(command);
        self.counts.log_max = self.counts.log_max.max(self.log.head() - self.log.floor());
        let Node { children, log, out, .. } = self;
        children.iter_mut().for_each(|(id, child)| send_commands(*id, child, log, out));
        self.trim_log();
    }

    /// Sends a child what it hasn't got, as much as it may have on the way.
    pub(super) fn send_commands(&mut self, to: NodeId) {
        let Node { children, log, out, .. } = self;
        if let Some(child) = children.get_mut(&to) {
            send_commands(to, child, log, out);
        }
    }

    /// True if the owner is to have taken what it was told before commands count as received.
    fn holds_log(&self) -> bool {
        self.is_owner_behind && !self.setup.ranks.is_empty()
    }
    /// Forgets what all below have.
    pub(super) fn trim_log(&mut self) {
        if self.holds_log() {
            return;
        }
        let children = self.children.values().map(|child| child.acknowledged);
        let floor = children.chain(self.lost_children.iter().map(|lost_child| lost_child.acknowledged)).min();
        self.log.trim(floor.unwrap_or(self.log.head()));
    }

    fn obey(&mut self, sequence: u64, command: Shared<Command>) {
        match &*command {
            Command::Open { stream, spec } => self.open_new(*stream, spec),
            Command::Close { stream } => self.close_stream(*stream),
            Command::Data { .. } => self.deliver(sequence, command),
            Command::Again { stream, waves, attempt, ranks } => self.asked_again(*stream, waves, *attempt, ranks),
            Command::Retire { stream, below } => self.retire(*stream, *below),
        }
    }

    #[cold]
    fn open_new(&mut self, stream: u32, spec: &StreamSpec) {
        self.open_stream(&OpenStream { stream, spec: spec.clone(), below: 0, sent: 0 });
    }

    #[cold]
    fn close_stream(&mut self, stream: u32) {
        self.streams.remove(&stream);
        self.tell(Told::Closed { stream });
    }

    fn deliver(&mut self, sequence: u64, command: Shared<Command>) {
        let Command::Data { stream, to, .. } = &*command else { return };
        let Some(open) = self.streams.get_mut(stream) else { return };
        open.sent += 1;
        if open.own.is_disjoint(to) {
            return;
        }
        let stream = *stream;
        let payload = command.into_payload();
        self.tell(Told::Command { sequence, stream, payload });
    }

    /// Where commands are, for a child that begins here.
    pub(super) fn snapshot(&self) -> Snapshot {
        let streams = self.streams.iter().map(|(number, open)| OpenStream {
            stream: *number,
            spec: open.spec.clone(),
            below: open.below,
            sent: open.sent,
        });
        Snapshot { cursor: self.cursor(), streams: streams.collect() }
    }

    /// Begins at a snapshot: nothing before it counts, here and below.
    pub(super) fn begin_at(&mut self, snapshot: Snapshot) {
        if self.leased {
            self.tell_agent(Told::Uninstrument);
        }
        self.forget_streams();
        if self.epoch != snapshot.cursor.epoch {
            self.pulse = 0;
        }
        self.epoch = snapshot.cursor.epoch;
        self.log.begin_at(snapshot.cursor.sequence);
        self.lost_children.clear();
        (self.leased, self.pulse_us) = (true, self.now_us);
        self.tell_agent(Told::Adopt);
        snapshot.streams.iter().for_each(|open| self.open_stream(open));
        let sequence = snapshot.cursor.sequence;
        for id in self.children.keys().copied().collect::<Vec<_>>() {
            if let Some(child) = self.children.get_mut(&id) {
                (child.commanded, child.acknowledged) = (sequence, sequence);
            }
            self.send_down(id, Ordered::Fresh(Box::new(snapshot.clone())));
        }
    }

    /// Everything of an old lease or an old controller is over.
    pub(super) fn forget_streams(&mut self) {
        self.streams.clear();
        self.queue.clear();
        self.children.values_mut().for_each(|child| child.units_queued = 0);
    }
}

/// Sends a child what it hasn't got, as much as it may have on the way.
fn send_commands(to: NodeId, child: &mut Child, log: &Log, out: &mut Vec<Action>) {
    while child.commanded - child.acknowledged < LOG_COUNT_MAX {
        let Some((sequence, command)) = log.after(child.commanded) else { return };
        let command = command.clone();
        child.commanded = sequence;
        out.push(Action::Send { to, frame: child.ordered(Ordered::Command(sequence, command)) });
    }
}
