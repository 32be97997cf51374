//! Orders for agents: who wants them where, and the outcome. Every window is its owner's: nobody else sees or ends it.
//!
//! An order is given to each node's agent once; so who records it and asks again gets nothing. A window that is not
//! fetched in time is forgotten. Its owner may file one report of it, of the job whose processes the nodes' agents
//! found.
//!
//! Next: `kept` for reports; `routes`, which asks this.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_site::Role;
use trimtab_site::api::{Order, Wanted, WindowState};

/// Windows that are being started or go on.
pub const WINDOW_COUNT_MAX: usize = 256;
/// The same of one owner, so that nobody keeps the others out.
pub const WINDOW_COUNT_EACH_MAX: usize = 16;
/// A window whose owner neither ends it nor asks for it is forgotten after so long; agents look after themselves by then.
pub const WINDOW_TIME_MAX: Duration = Duration::from_secs(3600);
/// An order that was not fetched for so long is void.
pub const ORDER_TIME_MAX: Duration = Duration::from_secs(60);

/// All of them.
#[derive(Default)]
pub struct Windows {
    windows: BTreeMap<u64, Window>,
    next: u64,
}

struct Window {
    by: Role,
    order: Order,
    since: Instant,
    /// When its owner last asked for it.
    asked: Instant,
    /// By the names that were asked for: the agent's host, and what came of it.
    nodes: BTreeMap<String, (String, State)>,
    /// The owners of the job's processes, as agents that started something say.
    owners: BTreeSet<u32>,
    is_filed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Fetched,
    Started,
    Refused(String),
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Too many.
    #[error(
        "{WINDOW_COUNT_MAX} windows of all or {WINDOW_COUNT_EACH_MAX} of yours are being started or go on, as many as may: \
         try again when some have ended"
    )]
    TooMany,
    /// Not there, or not for whoever asks: they can't tell one from the other.
    #[error("there is no such window for you")]
    NotYours,
    /// Nothing can have been measured.
    #[error("no agent was started for this window, so there is no report of it")]
    NothingStarted,
    /// One report for each.
    #[error("a report of this window was filed already")]
    Filed,
    /// The agents don't agree, or say that the job is somebody else's.
    #[error("whose job this window is of can't be told: its nodes' agents name other users than the one who asks")]
    WhoseJob,
    /// Only people may.
    #[error("only users and administrators may begin a window")]
    NoPerson,
}

impl Windows {
    /// Takes a window in, whose nodes have these agents; its number.
    ///
    /// # Errors
    /// When there are too many, or the role is no person's.
    pub fn begin(
        &mut self,
        by: &Role,
        wanted: Wanted,
        hosts: BTreeMap<String, String>,
        now: Instant,
    ) -> Result<u64, Denied> {
        let (uid, is_administrator) = match by {
            Role::User { uid } => (*uid, false),
            Role::Administrator { uid } => (*uid, true),
            Role::Controller | Role::Node { .. } | Role::Scheduler { .. } => return Err(Denied::NoPerson),
        };
        self.make_room(now);
        let own = self.windows.values().filter(|window| window.by == *by).count();
        if own >= WINDOW_COUNT_EACH_MAX {
            return Err(Denied::TooMany);
        }
        let Wanted { ticket, secret, .. } = wanted;
        self.add(by, Order { uid, is_administrator, asked_by: None, ticket, secret }, hosts, now)
    }

    /// Takes a window in that the controller itself leads in the name of a job's owner, because somebody asked it to.
    ///
    /// # Errors
    /// When there are too many.
    pub fn begin_for(
        &mut self,
        (owner, asked_by): (u32, &str),
        wanted: Wanted,
        hosts: BTreeMap<String, String>,
        now: Instant,
    ) -> Result<u64, Denied> {
        self.make_room(now);
        let Wanted { ticket, secret, .. } = wanted;
        let asked_by = Some(asked_by.to_owned());
        self.add(&Role::Controller, Order { uid: owner, is_administrator: false, asked_by, ticket, secret }, hosts, now)
    }

    fn make_room(&mut self, now: Instant) {
        self.windows.retain(|_, window| now.saturating_duration_since(window.asked) < WINDOW_TIME_MAX);
    }

    fn add(&mut self, by: &Role, order: Order, hosts: BTreeMap<String, String>, now: Instant) -> Result<u64, Denied> {
        if self.windows.len() >= WINDOW_COUNT_MAX {
            return Err(Denied::TooMany);
        }
        let id = self.next;
        self.next += 1;
        let nodes = hosts.into_iter().map(|(name, host)| (name, (host, State::Waiting))).collect();
        let (by, owners) = (by.clone(), BTreeSet::new());
        let window = Window { by, order, since: now, asked: now, nodes, owners, is_filed: false };
        self.windows.insert(id, window);
        Ok(id)
    }

    /// The order for the agent of a host, once.
    ///
    /// # Errors
    /// [`Denied::NotYours`] if it is for others, was fetched, or is too old.
    pub fn order(&mut self, id: u64, host: &str, now: Instant) -> Result<Order, Denied> {
        let window = self.windows.get_mut(&id).ok_or(Denied::NotYours)?;
        if now.saturating_duration_since(window.since) > ORDER_TIME_MAX {
            return Err(Denied::NotYours);
        }
        let is_waiting = |(of, state): &&mut (String, State)| of == host && *state == State::Waiting;
        let (_, state) = window.nodes.values_mut().find(is_waiting).ok_or(Denied::NotYours)?;
        *state = State::Fetched;
        Ok(window.order.clone())
    }

    /// Takes the outcome on a host: the owner of the processes there, or why nothing was started.
    ///
    /// # Errors
    /// [`Denied::NotYours`] if it did not fetch the order.
    pub fn outcome(&mut self, id: u64, host: &str, outcome: Result<Option<u32>, String>) -> Result<(), Denied> {
        let window = self.windows.get_mut(&id).ok_or(Denied::NotYours)?;
        let is_theirs = |(of, state): &&mut (String, State)| of == host && *state == State::Fetched;
        let (_, state) = window.nodes.values_mut().find(is_theirs).ok_or(Denied::NotYours)?;
        match outcome {
            Ok(owner) => {
                *state = State::Started;
                window.owners.extend(owner);
            }
            Err(why) => *state = State::Refused(why),
        }
        Ok(())
    }

    /// Begins to file the report of a window, which its owner may do once: whose job it is of.
    ///
    /// # Errors
    /// [`Denied::NotYours`], or why there can be no report.
    pub fn file(&mut self, id: u64, by: &Role) -> Result<u32, Denied> {
        let window = self.windows.get_mut(&id).filter(|window| window.by == *by).ok_or(Denied::NotYours)?;
        if !window.nodes.values().any(|(_, state)| *state == State::Started) {
            return Err(Denied::NothingStarted);
        }
        if window.is_filed {
            return Err(Denied::Filed);
        }
        let owner = match (by, window.owners.len(), window.owners.first()) {
            (_, 0, _) => window.order.uid,
            // Agents refuse to measure anybody else's for a user.
            (Role::User { uid }, 1, Some(owner)) if owner == uid => *uid,
            (Role::Administrator { .. }, 1, Some(owner)) => *owner,
            (Role::Controller, 1, Some(owner)) if *owner == window.order.uid => *owner,
            _ => return Err(Denied::WhoseJob),
        };
        window.is_filed = true;
        Ok(owner)
    }

    /// The report could not be kept; it may be tried again.
    pub fn not_filed(&mut self, id: u64) {
        if let Some(window) = self.windows.get_mut(&id) {
            window.is_filed = false;
        }
    }

    /// How a window stands, for its owner, who thereby keeps it.
    ///
    /// # Errors
    /// [`Denied::NotYours`].
    pub fn state(&mut self, id: u64, by: &Role, now: Instant) -> Result<WindowState, Denied> {
        let window = self.windows.get_mut(&id).filter(|window| window.by == *by).ok_or(Denied::NotYours)?;
        window.asked = now;
        let mut all = WindowState::default();
        for (name, (_, state)) in &window.nodes {
            match state {
                State::Waiting | State::Fetched => all.waiting.push(name.clone()),
                State::Started => all.started.push(name.clone()),
                State::Refused(why) => all.refused.push((name.clone(), why.clone())),
            }
        }
        Ok(all)
    }

    /// Forgets a window of its owner's.
    ///
    /// # Errors
    /// [`Denied::NotYours`].
    pub fn end(&mut self, id: u64, by: &Role) -> Result<(), Denied> {
        let is_theirs = self.windows.get(&id).is_some_and(|window| window.by == *by);
        if is_theirs {
            self.windows.remove(&id);
        }
        is_theirs.then_some(()).ok_or(Denied::NotYours)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.windows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Role = Role::User { uid: 7 };
    const BOB: Role = Role::User { uid: 8 };

    fn begun(windows: &mut Windows, now: Instant) -> u64 {
        begun_by(&ANN, windows, now).expect("it begins")
    }

    fn begun_by(by: &Role, windows: &mut Windows, now: Instant) -> Result<u64, Denied> {
        let wanted = Wanted { nodes: vec!["n1".into(), "n2".into()], ticket: "ticket".into(), secret: "secret".into() };
        let hosts = [("n1", "n1.site"), ("n2", "n2.site")].map(|(name, host)| (name.to_owned(), host.to_owned()));
        windows.begin(by, wanted, hosts.into_iter().collect(), now)
    }

    #[test]
    fn an_order_goes_once_to_each_of_its_agents_and_to_nobody_else() {
        let (mut windows, now) = (Windows::default(), Instant::now());
        let id = begun(&mut windows, now);
        let order = windows.order(id, "n1.site", now).expect("for n1");
        assert_eq!((order.uid, order.is_administrator, order.secret.as_str()), (7, false, "secret"));
        for (name, id, host) in [("twice", id, "n1.site"), ("another", id, "n3.site"), ("no window", id + 1, "n2.site")]
        {
            assert!(windows.order(id, host, now).is_err(), "{name}");
        }
        assert!(windows.order(id, "n2.site", now + ORDER_TIME_MAX + Duration::from_secs(1)).is_err(), "too late");
        assert!(windows.outcome(id, "n2.site", Ok(None)).is_err(), "it has not fetched it");
    }

    #[test]
    fn a_window_that_the_controller_leads_is_in_its_owner_s_name() {
        let (mut windows, now) = (Windows::default(), Instant::now());
        let wanted = Wanted { nodes: vec!["n1".into()], ticket: "ticket".into(), secret: "secret".into() };
        let hosts = BTreeMap::from([("n1".to_owned(), "n1.site".to_owned())]);
        let id = windows.begin_for((7, "scheduler 990"), wanted, hosts, now).expect("it begins");
        let order = windows.order(id, "n1.site", now).expect("for n1");
        assert_eq!((order.uid, order.is_administrator, order.asked_by.as_deref()), (7, false, Some("scheduler 990")));
        windows.outcome(id, "n1.site", Ok(Some(8))).expect("it was fetched");
        assert_eq!(windows.state(id, &ANN, now), Err(Denied::NotYours), "the controller's");
        assert_eq!(windows.file(id, &Role::Controller), Err(Denied::WhoseJob), "an agent says that it is another's");
    }

    #[test]
    fn a_report_is_of_the_job_whose_processes_were_found_and_is_filed_once() {
        const ROOT: Role = Role::Administrator { uid: 0 };
        for (name, by, owners, expected) in [
            ("a user's own", ANN, [Some(7), Some(7)], Ok(7)),
            ("another's, says an agent", ANN, [Some(7), Some(8)], Err(Denied::WhoseJob)),
            ("an older agent", ANN, [None, None], Ok(7)),
            ("an administrator", ROOT, [Some(8), Some(8)], Ok(8)),
            ("two users' processes", ROOT, [Some(7), Some(8)], Err(Denied::WhoseJob)),
        ] {
            let (mut windows, now) = (Windows::default(), Instant::now());
            let id = begun_by(&by, &mut windows, now).expect("it begins");
            assert_eq!(windows.file(id, &by), Err(Denied::NothingStarted), "{name}");
            for (host, owner) in ["n1.site", "n2.site"].into_iter().zip(owners) {
                windows.order(id, host, now).expect("its order");
                windows.outcome(id, host, Ok(owner)).expect("it was fetched");
            }
            assert_eq!(windows.file(id, &BOB), Err(Denied::NotYours), "{name}");
            assert_eq!(windows.file(id, &by), expected, "{name}");
            if expected.is_ok() {
                assert_eq!(windows.file(id, &by), Err(Denied::Filed), "{name}");
                windows.not_filed(id);
                assert_eq!(windows.file(id, &by), expected, "{name}: it could not be kept");
            }
        }
    }

    #[test]
    fn a_window_is_its_owner_s() {
        let (mut windows, now) = (Windows::default(), Instant::now());
        let id = begun(&mut windows, now);
        windows.order(id, "n1.site", now).expect("for n1");
        windows.outcome(id, "n1.site", Err("no rank".into())).expect("it was fetched");
        let state = windows.state(id, &ANN, now).expect("hers");
        assert_eq!((state.refused, state.waiting), (vec![("n1".into(), "no rank".into())], vec!["n2".to_owned()]));
        for other in [BOB, Role::Administrator { uid: 7 }, Role::Node { host: "n1.site".into() }] {
            assert_eq!(windows.state(id, &other, now), Err(Denied::NotYours), "{other}");
            assert_eq!(windows.end(id, &other), Err(Denied::NotYours), "{other}");
        }
        windows.end(id, &ANN).expect("hers");
        assert_eq!(windows.count(), 0);
    }

    #[test]
    fn there_are_not_too_many_and_old_ones_go() {
        let (mut windows, now) = (Windows::default(), Instant::now());
        for _ in 0..WINDOW_COUNT_EACH_MAX {
            begun(&mut windows, now);
        }
        assert_eq!(begun_by(&ANN, &mut windows, now), Err(Denied::TooMany), "of one owner");
        for other in WINDOW_COUNT_EACH_MAX..WINDOW_COUNT_MAX {
            begun_by(&Role::User { uid: 100 + other as u32 }, &mut windows, now).expect("another's");
        }
        assert_eq!(begun_by(&BOB, &mut windows, now), Err(Denied::TooMany), "of all");
        let half = now + WINDOW_TIME_MAX / 2;
        windows.state(0, &ANN, half).expect("asked for");
        assert!(begun_by(&BOB, &mut windows, now + WINDOW_TIME_MAX).is_ok(), "old ones are forgotten");
        assert_eq!(windows.count(), 2, "but one that was asked for is there");
        assert!(windows.state(0, &ANN, now + WINDOW_TIME_MAX).is_ok());
        let wanted = || Wanted { nodes: vec![], ticket: String::new(), secret: String::new() };
        let node = Role::Node { host: "n1".into() };
        assert_eq!(windows.begin(&node, wanted(), BTreeMap::new(), now), Err(Denied::NoPerson));
    }
}
