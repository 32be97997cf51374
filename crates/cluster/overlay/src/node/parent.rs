//! The way up: joining the nearest living ancestor, leaving it for a nearer one, and the lease.
//!
//! An orphan asks its ancestors in turn, from the one behind its lost parent to the root. When none would have it, it
//! lets its own children go, who may reach somebody it can't, and begins again. A node that lives with a far ancestor
//! asks a nearer one from time to time, and moves only after it was accepted, so that nothing is ever without a parent
//! because it moved home.
//!
//! Next: `children`, the other end.

use super::{Node, Told};
use crate::NodeId;
use crate::frame::{Accept, Body, Cursor, Frame, Join, Link, Ordered};
use crate::in_order::InOrder;
use crate::limits::{CREDIT, OVERTAKE_COUNT_MAX};
use std::collections::VecDeque;
use trimtab_reduce::RankSet;

/// Failed rounds double the pause before the next up to this factor, so that orphans of a dead root don't flood it.
const RETRY_FACTOR_MAX: u64 = 8;
/// A moved node tries a nearer ancestor once in so many retry pauses.
const HOME_FACTOR: u64 = 10;

/// A node's knowledge of its way up; ancestors are named by their place in its list.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) joined: Option<Joined>,
    trying: Option<Trying>,
    /// The ancestors to try next in this round.
    round: VecDeque<usize>,
    /// Rounds in which nobody would have it.
    failed_rounds: u32,
    retry_at_us: Option<u64>,
    home_at_us: u64,
    home_next: usize,
    next_link: u32,
    depth: u32,
}

/// The link to the parent.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) candidate: usize,
    pub(super) link: Link,
    pub(super) heard_us: u64,
    pub(super) in_order: InOrder<Ordered>,
    pub(super) sent: u32,
    pub(super) units_sent: u32,
    pub(super) credit: u32,
    pub(super) acknowledged: u64,
}

#[derive(Debug)]
struct Trying {
    candidate: usize,
    link: Link,
    until_us: u64,
    /// The ranks below, as the ancestor was told.
    ranks: RankSet,
    /// Commands that overtook the answer.
    early: Vec<(u32, Ordered)>,
}

impl Up {
    pub(super) fn new(ancestor_count: usize) -> Self {
        Up {
            joined: None,
            trying: None,
            round: (0..ancestor_count).collect(),
            failed_rounds: 0,
            retry_at_us: None,
            home_at_us: 0,
            home_next: 0,
            next_link: 0,
            depth: 0,
        }
    }

    pub(super) fn wake_at_us(&self) -> u64 {
        let tried = self.trying.as_ref().map_or(u64::MAX, |trying| trying.until_us);
        tried.min(self.retry_at_us.unwrap_or(u64::MAX))
    }
}

impl Node {
    /// Hops from the root.
    pub(super) fn depth(&self) -> u32 {
        self.up.depth
    }

    /// Goes on with whatever the search for a parent, or for a nearer one, needs now.
    pub(super) fn look_for_parent(&mut self) {
        if self.root.is_some() {
            return;
        }
        let silence = self.setup.timing.silence_us_max;
        if self.up.joined.as_ref().is_some_and(|joined| self.now_us.saturating_sub(joined.heard_us) > silence) {
            self.orphaned();
        }
        if self.up.trying.as_ref().is_some_and(|trying| self.now_us >= trying.until_us) {
            self.waited_enough();
        }
        if self.up.trying.as_ref().is_some_and(|trying| trying.until_us < u64::MAX) {
            return;
        }
        if self.up.joined.is_some() {
            self.look_homewards();
        } else if self.up.retry_at_us.is_none_or(|at| self.now_us >= at) {
            match self.up.round.pop_front() {
                Some(candidate) => self.try_candidate(candidate),
                None if self.up.retry_at_us.is_some() => self.next_round(),
                None => self.round_failed(),
            }
        }
    }

    /// Another ancestor is asked instead of one that does not answer. The last one of a round may still answer in the pause
    /// that follows, when nobody else is asked: it may have many to answer, or few turns on its processor.
    fn waited_enough(&mut self) {
        let is_last = self.up.joined.is_none() && self.up.round.is_empty();
        self.up.trying = self.up.trying.take().filter(|_| is_last).map(|last| Trying { until_us: u64::MAX, ..last });
    }

    fn next_round(&mut self) {
        self.up.retry_at_us = None;
        self.up.round = (1..self.setup.ancestors.len()).collect();
        self.try_candidate(0);
    }

    fn round_failed(&mut self) {
        if self.up.failed_rounds == 0 {
            self.dissolve();
        }
        let factor = 1_u64.checked_shl(self.up.failed_rounds).unwrap_or(RETRY_FACTOR_MAX).min(RETRY_FACTOR_MAX);
        self.up.failed_rounds = self.up.failed_rounds.saturating_add(1);
        self.up.retry_at_us = Some(self.now_us + factor * self.setup.timing.retry_us);
    }

    fn look_homewards(&mut self) {
        let Some(at) = self.up.joined.as_ref().map(|joined| joined.candidate).filter(|at| *at > 0) else { return };
        if self.now_us < self.up.home_at_us {
            return;
        }
        self.up.home_at_us = self.now_us + HOME_FACTOR * self.setup.timing.retry_us;
        let candidate = self.up.home_next % at;
        self.up.home_next = candidate + 1;
        self.try_candidate(candidate);
    }

    fn try_candidate(&mut self, candidate: usize) {
        let link = Link { incarnation: self.setup.incarnation, number: self.up.next_link };
        self.up.next_link += 1;
        let until_us = self.now_us + self.setup.timing.answer_us_max;
        self.up.trying = Some(Trying { candidate, link, until_us, ranks: self.members.clone(), early: Vec::new() });
        let cursor = if self.leased { self.cursor_below() } else { Cursor::default() };
        let join = Join { cursor, ranks: self.members.clone(), distance: candidate as u32 };
        let to = self.setup.ancestors[candidate];
        self.send(to, Frame { link, body: Body::Join(Box::new(join)) });
    }

    /// A frame of an ancestor.
    pub(super) fn heard_above(&mut self, from: NodeId, frame: Frame) {
        let link = frame.link;
        let is_tried = self.up.trying.as_ref().is_some_and(|trying| trying.link == link);
        let is_parent = self.up.joined.as_ref().is_some_and(|joined| joined.link == link);
        match frame.body {
            Body::Accept(accept) if is_tried => self.accepted(*accept),
            Body::Refuse | Body::Stranger if is_tried => self.refused(),
            Body::Stranger if is_parent => self.orphaned(),
            Body::Ordered(order, ordered) if is_parent => self.ordered_from_parent(from, order, ordered),
            Body::Ordered(order, ordered) if is_tried => self.overtook(order, ordered),
            Body::Accept(_) | Body::Ordered(..) if !is_parent => {
                // An answer that came too late, or a link left behind: the other end must not count on it.
                self.counts.stale += 1;
                self.send(from, Frame { link, body: Body::Leave });
            }
            _ => self.counts.stale += 1,
        }
    }

    fn overtook(&mut self, order: u32, ordered: Ordered) {
        if let Some(trying) = self.up.trying.as_mut().filter(|trying| trying.early.len() < OVERTAKE_COUNT_MAX) {
            trying.early.push((order, ordered));
        }
    }

    fn refused(&mut self) {
        self.up.trying = None;
        self.look_for_parent();
    }

    fn accepted(&mut self, accept: Accept) {
        let Some(trying) = self.up.trying.take() else { return };
        if let Some(old) = self.up.joined.take() {
            let to = self.setup.ancestors[old.candidate];
            self.send(to, Frame { link: old.link, body: Body::Leave });
        }
        let parent = self.setup.ancestors[trying.candidate];
        self.up.joined = Some(Joined {
            candidate: trying.candidate,
            link: trying.link,
            heard_us: self.now_us,
            in_order: InOrder::new(),
            sent: 0,
            units_sent: 0,
            credit: CREDIT,
            acknowledged: 0,
        });
        self.up.depth = accept.depth;
        (self.up.failed_rounds, self.up.retry_at_us) = (0, None);
        self.up.round.clear();
        self.up.home_at_us = self.now_us + HOME_FACTOR * self.setup.timing.retry_us;
        // The join carried the members of its moment; what has changed since follows.
        self.announced = trying.ranks;
        self.announce();
        self.tell(Told::Attached { parent });
        if let Some(snapshot) = accept.fresh {
            self.begin_at(snapshot);
        }
        self.pulse_came(accept.pulse);
        for (order, ordered) in trying.early {
            self.ordered_from_parent(parent, order, ordered);
        }
    }

    /// The parent is lost: asks those behind it first, then those nearer, and the lost one last.
    pub(super) fn orphaned(&mut self) {
        let Some(lost) = self.up.joined.take() else { return };
        let ancestors = self.setup.ancestors.len();
        self.up.round = (lost.candidate + 1..ancestors).chain(0..=lost.candidate).collect();
        if let Some(trying) = &self.up.trying {
            // It was about to move home; that answer serves as well.
            self.up.round.retain(|candidate| *candidate != trying.candidate);
        }
        (self.up.failed_rounds, self.up.retry_at_us) = (0, None);
        self.tell(Told::Orphaned);
        self.look_for_parent();
    }

    pub(super) fn ancestor_closed(&mut self, peer: NodeId) {
        let is_peer = |candidate: usize| self.setup.ancestors.get(candidate) == Some(&peer);
        if self.up.joined.as_ref().is_some_and(|joined| is_peer(joined.candidate)) {
            self.orphaned();
        } else if self.up.trying.as_ref().is_some_and(|trying| is_peer(trying.candidate)) {
            self.refused();
        }
    }

    fn ordered_from_parent(&mut self, from: NodeId, order: u32, ordered: Ordered) {
        let Some(joined) = &mut self.up.joined else { return };
        if joined.in_order.is_next(order) {
            joined.heard_us = self.now_us;
            self.obey_parent(ordered);
            while let Some(next) = self.up.joined.as_mut().and_then(|joined| joined.in_order.overtook()) {
                self.obey_parent(next);
            }
        } else if joined.in_order.keep(order, ordered).is_err() {
            let link = joined.link;
            self.send(from, Frame { link, body: Body::Leave });
            self.orphaned();
        }
    }

    fn obey_parent(&mut self, ordered: Ordered) {
        match ordered {
            Ordered::Pulse { epoch, count, credit } => {
                self.credit_came(credit);
                if epoch == self.epoch {
                    self.pulse_came(count);
                }
                // Answered at once: a node that is awake anyway needn't wake again to say that it lives.
                self.beat_at_us = self.now_us;
            }
            Ordered::Credit(credit) => self.credit_came(credit),
            Ordered::Command(sequence, command) => self.command_came(sequence, command),
            Ordered::Fresh(snapshot) => self.begin_at(*snapshot),
            Ordered::Dissolve => self.orphaned(),
            // These only go up.
            Ordered::Beat(_) | Ordered::Members { .. } => self.counts.stale += 1,
        }
    }

    fn credit_came(&mut self, credit: u32) {
        if let Some(joined) = &mut self.up.joined {
            joined.credit = joined.credit.max(credit);
        }
    }

    fn pulse_came(&mut self, count: u64) {
        if count > self.pulse {
            (self.pulse, self.pulse_us) = (count, self.now_us);
            self.pass_pulse();
        }
    }

    /// Sends a numbered command to the parent.
    pub(super) fn send_up(&mut self, ordered: Ordered) {
        let Some(joined) = &mut self.up.joined else { return };
        let frame = Frame { link: joined.link, body: Body::Ordered(joined.sent, ordered) };
        joined.sent += 1;
        let to = self.setup.ancestors[joined.candidate];
        self.send(to, frame);
    }

    pub(super) fn beat_up(&mut self) {
        let held = self.cursor_below();
        if let Some(joined) = &mut self.up.joined {
            joined.acknowledged = held.sequence;
            self.send_up(Ordered::Beat(held));
        }
    }

    /// Without a sign of the root for a lease's time nobody may rely on this node's targets, nor it on old streams.
    pub(super) fn check_lease(&mut self) {
        let silent_us = self.now_us.saturating_sub(self.pulse_us);
        if self.root.is_some() || !self.leased || silent_us <= self.setup.timing.lease_us {
            return;
        }
        self.leased = false;
        self.forget_streams();
        self.tell_agent(Told::Uninstrument);
        // It needs no command any more: whoever lacked those and refused it may take it now.
        self.up.retry_at_us = self.up.retry_at_us.map(|_| self.now_us);
        if let Some(joined) = &self.up.joined {
            let (to, link) = (self.setup.ancestors[joined.candidate], joined.link);
            self.send(to, Frame { link, body: Body::Leave });
            self.orphaned();
        }
    }
}
