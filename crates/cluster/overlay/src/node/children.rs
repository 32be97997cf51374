//! The way down: adopting, hearing, and losing children.
//!
//! A node adopts a descendant only while it has a way to the root itself, and only if it still holds every command the
//! descendant lacks; otherwise the next ancestor will do. The commands that a lost child's subtree had acknowledged
//! are kept as a lost child, so that its orphans find the commands they lack, until their leases are over.
//!
//! Next: `commands` for the log, `parent` for the other end.

use super::Node;
use crate::NodeId;
use crate::frame::{Accept, Body, Cursor, Frame, Join, Link, Ordered};
use crate::in_order::InOrder;
use crate::limits::CREDIT;
use trimtab_reduce::RankSet;

/// The link to a child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) link: Link,
    pub(super) heard_us: u64,
    in_order: InOrder<Ordered>,
    sent: u32,
    /// The ranks at and below it.
    ranks: RankSet,
    /// The last command sent, and the last that all below it have.
    pub(super) commanded: u64,
    pub(super) acknowledged: u64,
    /// The highest number of a unit received, how many of them are in the queue, and the credit it knows of.
    pub(super) units_received: u32,
    pub(super) units_queued: u32,
    pub(super) credit_told: u32,
}

/// A lost child, kept for what its orphans may come to ask for.
#[derive(Debug)]
pub(super) struct LostChild {
    pub(super) acknowledged: u64,
    until_us: u64,
}

impl Child {
    /// The next numbered command for it.
    pub(super) fn ordered(&mut self, ordered: Ordered) -> Frame {
        let frame = Frame { link: self.link, body: Body::Ordered(self.sent, ordered) };
        self.sent += 1;
        frame
    }

    /// The number of the last unit it may send.
    fn credit(&self) -> u32 {
        (self.units_received + CREDIT).saturating_sub(self.units_queued)
    }
}

impl Node {
    /// A frame of a descendant, or of nobody this node knows.
    pub(super) fn heard_below(&mut self, from: NodeId, frame: Frame) {
        let link = frame.link;
        let current = self.children.get(&from).map(|child| child.link);
        match frame.body {
            Body::Join(join) if current.is_none_or(|current| link > current) => self.join_asked(from, link, *join),
            Body::Leave if current == Some(link) => self.child_left(from),
            Body::Stranger if current == Some(link) => self.lose_child(from),
            Body::Ordered(order, ordered) if current == Some(link) => self.ordered_from_child(from, order, ordered),
            Body::Units(first, run) if current == Some(link) => self.units_came(from, first, &run),
            Body::Ordered(..) | Body::Units(..) if current.is_none_or(|current| link > current) => {
                self.counts.stale += 1;
                self.send(from, Frame { link, body: Body::Stranger });
            }
            _ => self.counts.stale += 1,
        }
    }

    fn join_asked(&mut self, from: NodeId, link: Link, join: Join) {
        let Some(accept) = self.terms(&join) else {
            return self.send(from, Frame { link, body: Body::Refuse });
        };
        let begins_at = accept.fresh.as_ref().map_or(join.cursor, |snapshot| snapshot.cursor).sequence;
        let child = Child {
            link,
            heard_us: self.now_us,
            in_order: InOrder::new(),
            sent: 0,
            ranks: join.ranks,
            commanded: begins_at,
            acknowledged: begins_at,
            units_received: 0,
            units_queued: 0,
            credit_told: CREDIT,
        };
        // A link it had before holds the log until the new one does.
        if self.children.insert(from, child).is_some() {
            self.queue.disown(from);
            self.trim_log();
        }
        self.send(from, Frame { link, body: Body::Accept(Box::new(accept)) });
        self.members_changed();
        self.send_commands(from);
    }

    /// On which terms a node may join; none if it should ask another.
    fn terms(&self, join: &Join) -> Option<Accept> {
        if !self.is_attached() || self.epoch == 0 || join.cursor.epoch > self.epoch || self.is_settling(join) {
            return None;
        }
        let same_epoch = join.cursor.epoch == self.epoch;
        let held = join.cursor.sequence >= self.log.floor() && join.cursor.sequence <= self.log.head();
        let fresh = match (same_epoch, held) {
            (true, true) => None,
            // An ancestor nearer to the root may hold what this one lacks; the root itself is the last resort.
            (true, false) if self.root.is_none() => return None,
            _ => Some(self.snapshot()),
        };
        Some(Accept { depth: self.depth() + 1, pulse: self.pulse, fresh })
    }

    /// A controller that has just begun takes only those whose nearest ancestor it is: the others' nearer ones will be
    /// there in a moment, and must not find all leaves at the root. A node that was below it already has lost a parent
    /// since, and isn't kept waiting.
    fn is_settling(&self, join: &Join) -> bool {
        let settled_at = self.setup.timing.silence_us_max + 2 * self.setup.timing.retry_us;
        let is_new = join.distance > 0 && join.cursor.epoch != self.epoch;
        self.root.is_some() && is_new && self.root_age_us() < settled_at
    }

    fn ordered_from_child(&mut self, from: NodeId, order: u32, ordered: Ordered) {
        let Some(child) = self.children.get_mut(&from) else { return };
        if child.in_order.is_next(order) {
            child.heard_us = self.now_us;
            self.hear_child(from, ordered);
            while let Some(next) = self.children.get_mut(&from).and_then(|child| child.in_order.overtook()) {
                self.hear_child(from, next);
            }
        } else if child.in_order.keep(order, ordered).is_err() {
            let link = child.link;
            self.send(from, Frame { link, body: Body::Stranger });
            self.lose_child(from);
        }
    }

    fn hear_child(&mut self, from: NodeId, ordered: Ordered) {
        match ordered {
            Ordered::Beat(cursor) => self.acknowledged(from, cursor),
            Ordered::Members { gained, lost } => {
                let Some(child) = self.children.get_mut(&from) else { return };
                child.ranks = child.ranks.minus(&lost).union(&gained);
                self.members_changed();
            }
            // The others only go down.
            _ => self.counts.stale += 1,
        }
    }

    fn acknowledged(&mut self, from: NodeId, cursor: Cursor) {
        let (epoch, head) = (self.epoch, self.log.head());
        let Some(child) = self.children.get_mut(&from) else { return };
        if cursor.epoch == epoch && cursor.sequence <= head.min(child.commanded) {
            let held_log = child.acknowledged == self.log.floor();
            child.acknowledged = child.acknowledged.max(cursor.sequence);
            if held_log {
                self.trim_log();
            }
            self.send_commands(from);
        }
    }

    /// A child that has another parent now.
    fn child_left(&mut self, from: NodeId) {
        self.children.remove(&from);
        self.queue.disown(from);
        self.trim_log();
        self.members_changed();
    }

    /// A child that may be dead, or cut off.
    pub(super) fn lose_child(&mut self, from: NodeId) {
        if let Some(child) = self.children.remove(&from) {
            let until_us = self.now_us + self.setup.timing.grace_us();
            self.lost_children.push(LostChild { acknowledged: child.acknowledged, until_us });
            self.queue.disown(from);
            self.members_changed();
        }
    }

    pub(super) fn lose_silent_children(&mut self) {
        let (now_us, silence) = (self.now_us, self.setup.timing.silence_us_max);
        let silent = |child: &Child| now_us.saturating_sub(child.heard_us) > silence;
        let lost: Vec<NodeId> = self.children.iter().filter(|(_, child)| silent(child)).map(|(id, _)| *id).collect();
        lost.into_iter().for_each(|id| self.lose_child(id));
        let before = self.lost_children.len();
        self.lost_children.retain(|lost_child| lost_child.until_us > now_us);
        if self.lost_children.len() < before {
            self.trim_log();
        }
    }

    /// No ancestor would have this node: its children may reach one that it can't.
    pub(super) fn dissolve(&mut self) {
        for id in self.children.keys().copied().collect::<Vec<_>>() {
            self.send_down(id, Ordered::Dissolve);
            self.lose_child(id);
        }
    }

    pub(super) fn update_members(&mut self) {
        // One sort of all intervals, since a union at a time would be quadratic in the children.
        self.members = RankSet::union_of(self.children.values().map(|child| &child.ranks).chain([&self.setup.ranks]));
    }

    /// Ranks have come or gone: the parent hears of it soon, with what else changes meanwhile.
    pub(super) fn members_changed(&mut self) {
        let before = self.members.clone();
        self.update_members();
        if self.members == before {
            return;
        }
        self.announce_at_us = self.announce_at_us.or(Some(self.now_us + self.setup.timing.gather_us));
        if self.root.is_some() {
            self.root_members_changed(&before);
        } else if !self.members.covers(&before) {
            self.check_waves();
        }
    }

    /// Tells the parent which ranks have come and gone.
    pub(super) fn announce(&mut self) {
        self.announce_at_us = None;
        let gained = self.members.minus(&self.announced);
        let lost = self.announced.minus(&self.members);
        if self.up.joined.is_some() && !(gained.is_empty() && lost.is_empty()) {
            self.announced = self.members.clone();
            self.send_up(Ordered::Members { gained, lost });
        }
    }

    /// Sends a numbered command to a child.
    pub(super) fn send_down(&mut self, to: NodeId, ordered: Ordered) {
        if let Some(child) = self.children.get_mut(&to) {
            let frame = child.ordered(ordered);
            self.send(to, frame);
        }
    }

    /// Passes the latest sign of the root's life to all children, with their credit.
    pub(super) fn pass_pulse(&mut self) {
        self.pulse_sent_us = self.now_us;
        let (epoch, count) = (self.epoch, self.pulse);
        for id in self.children.keys().copied().collect::<Vec<_>>() {
            let Some(child) = self.children.get_mut(&id) else { continue };
            // Credit once given is given, also when the queue has grown since.
            child.credit_told = child.credit_told.max(child.credit());
            let credit = child.credit_told;
            self.send_down(id, Ordered::Pulse { epoch, count, credit });
        }
    }

    /// Tells a child of new credit once half of what it had is used.
    pub(super) fn return_credit(&mut self, to: NodeId) {
        let Some(child) = self.children.get_mut(&to) else { return };
        let credit = child.credit();
        if credit >= child.credit_told + CREDIT / 2 {
            child.credit_told = credit;
            self.send_down(to, Ordered::Credit(credit));
        }
    }
}
