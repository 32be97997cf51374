//! Waiting for a call, and calling: `trimtab attach --when api` hears it here.
//!
//! A command that waits says so and then asks again and again whether somebody has called, each time for some seconds.
//! One call is kept for it until it asks; a second one before that is told to come again. Whoever doesn't ask any more is
//! forgotten. A call reaches those who wait for the job by the name that was called, if its caller may have the job
//! measured: whose it is was said by whoever waits, and a user can only say so of themselves.
//!
//! Next: `calls`, which asks this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use trimtab_site::Role;
use trimtab_site::jobs::{Awaiting, Call};
use trimtab_store::site_key;

/// Commands that wait, of all and of one user.
pub const WAIT_COUNT_MAX: usize = 512;
/// The same of one user.
pub const WAIT_COUNT_EACH_MAX: usize = 32;
/// A waiter that hasn't asked for so long is gone.
pub const LEASE: Duration = Duration::from_secs(30);
/// Names of one job, and their longest, bytes.
pub const NAME_COUNT_MAX: usize = 64;
/// See [`NAME_COUNT_MAX`].
pub const NAME_BYTES_MAX: usize = 256;

/// All of them.
#[derive(Default)]
pub struct Waits {
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

struct Wait {
    by: Role,
    owner: u32,
    names: BTreeSet<String>,
    /// How keys of the job's windows at the site begin.
    key: Option<String>,
    calls: Vec<String>,
    asked: Instant,
    call: Option<Call>,
    called: Arc<Notify>,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Too many.
    #[error(
        "{WAIT_COUNT_MAX} commands of all or {WAIT_COUNT_EACH_MAX} of yours wait for calls, as many as may: try again \
         when some have ended"
    )]
    TooMany,
    /// Not there, or not for whoever asks.
    #[error("nothing waits under this number for you")]
    NotYours,
    /// A user waits for another one's job.
    #[error("this job is another user's, and only an administrator may wait for that")]
    NotTheirJob,
    /// Names are bounded.
    #[error("a job has {NAME_COUNT_MAX} names at most, each of {NAME_BYTES_MAX} bytes")]
    Names,
}

/// How many heard a call, and how many have one that they haven't come to yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Those who will measure.
    pub heard: u32,
    /// Those who can't keep another.
    pub busy: u32,
}

impl Waits {
    /// Somebody waits from now on; their number.
    ///
    /// # Errors
    /// Too many, too long, or for another user's job.
    pub fn begin(&mut self, by: &Role, awaiting: Awaiting, now: Instant) -> Result<u64, Denied> {
        let (own, may_any) = match by {
            Role::User { uid } => (*uid, false),
            Role::Administrator { uid } => (*uid, true),
            Role::Controller | Role::Node { .. } | Role::Scheduler { .. } => return Err(Denied::NotYours),
        };
        let owner = awaiting.owner.unwrap_or(own);
        if owner != own && !may_any {
            return Err(Denied::NotTheirJob);
        }
        let texts = awaiting.names.iter().chain(&awaiting.calls).chain(&awaiting.key);
        let (count, longest) = texts.fold((0, 0), |(count, longest), text| (count + 1, text.len().max(longest)));
        if count > NAME_COUNT_MAX || longest > NAME_BYTES_MAX {
            return Err(Denied::Names);
        }
        self.waits.retain(|_, wait| now.saturating_duration_since(wait.asked) < LEASE);
        let own_count = self.waits.values().filter(|wait| wait.by == *by).count();
        if self.waits.len() >= WAIT_COUNT_MAX || own_count >= WAIT_COUNT_EACH_MAX {
            return Err(Denied::TooMany);
        }
        let id = self.next;
        self.next += 1;
        let wait = Wait {
            by: by.clone(),
            owner,
            names: awaiting.names.into_iter().collect(),
            key: awaiting.key.map(|key| site_key(owner, &key)),
            calls: awaiting.calls,
            asked: now,
            call: None,
            called: Arc::default(),
        };
        self.waits.insert(id, wait);
        Ok(id)
    }

    /// The call that came, which is theirs now; and what rings when one comes.
    ///
    /// # Errors
    /// [`Denied::NotYours`].
    pub fn listen(&mut self, id: u64, by: &Role, now: Instant) -> Result<(Option<Call>, Arc<Notify>), Denied> {
        let wait = self.waits.get_mut(&id).filter(|wait| wait.by == *by).ok_or(Denied::NotYours)?;
        wait.asked = now;
        Ok((wait.call.take(), wait.called.clone()))
    }

    /// They wait no more.
    ///
    /// # Errors
    /// [`Denied::NotYours`].
    pub fn end(&mut self, id: u64, by: &Role) -> Result<(), Denied> {
        self.waits.get(&id).filter(|wait| wait.by == *by).ok_or(Denied::NotYours)?;
        let wait = self.waits.remove(&id);
        wait.iter().for_each(|wait| wait.called.notify_one());
        Ok(())
    }

    /// Somebody calls for a window of `job`; `kept` are owner and key, if the site keeps a job of that name.
    pub fn call(&mut self, by: &Role, job: &str, kept: Option<&(u32, String)>, name: &str, now: Instant) -> Reached {
        let mut reached = Reached::default();
        for wait in self.waits.values_mut() {
            let is_there = now.saturating_duration_since(wait.asked) < LEASE;
            let is_wanted = wait.calls.is_empty() || wait.calls.iter().any(|wanted| wanted == name);
            if !is_there || !is_wanted || !may_see(by, Some(wait.owner)) || !wait.is_for(job, kept) {
                continue;
            }
            if wait.call.is_some() {
                reached.busy += 1;
                continue;
            }
            wait.call = Some(Call { name: name.to_owned(), by: by.to_string() });
            wait.called.notify_one();
            reached.heard += 1;
        }
        reached
    }
}

impl Wait {
    fn is_for(&self, job: &str, kept: Option<&(u32, String)>) -> bool {
        let is_kept = kept
            .zip(self.key.as_ref())
            .is_some_and(|((owner, key), begin)| *owner == self.owner && key.starts_with(begin.as_str()));
        is_kept || self.names.contains(job)
    }
}

/// True if somebody may see, and have measured, a job of this user's. The store knows what schedulers may see.
pub(crate) fn may_see(role: &Role, owner: Option<u32>) -> bool {
    match role {
        Role::Administrator { .. } => true,
        Role::User { uid } => owner == Some(*uid),
        Role::Controller | Role::Node { .. } | Role::Scheduler { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Role = Role::User { uid: 7 };
    const BOB: Role = Role::User { uid: 8 };
    const ROOT: Role = Role::Administrator { uid: 0 };

    fn awaiting(names: &[&str]) -> Awaiting {
        Awaiting { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Awaiting::default() }
    }

    fn heard(heard: u32) -> Reached {
        Reached { heard, busy: 0 }
    }

    #[test]
    fn a_call_reaches_those_who_wait_for_the_job_if_the_caller_may() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let ann = waits.begin(&ANN, awaiting(&["4711", "4711.0"]), now).expect("hers");
        let root = waits.begin(&ROOT, Awaiting { owner: Some(7), ..awaiting(&["4711"]) }, now).expect("anybody's");
        for (name, by, job, expected) in [
            ("another user", BOB, "4711", heard(0)),
            ("an agent", Role::Node { host: "n1".into() }, "4711", heard(0)),
            ("another job", ANN, "4712", heard(0)),
            ("its owner", ANN, "4711", heard(2)),
            ("before they have come to it", ROOT, "4711", Reached { heard: 0, busy: 2 }),
        ] {
            assert_eq!(waits.call(&by, job, None, "now", now), expected, "{name}");
        }
        let (call, _) = waits.listen(ann, &ANN, now).expect("hers");
        assert_eq!(call, Some(Call { name: "now".into(), by: "user 7".into() }));
        assert_eq!(waits.listen(ann, &ANN, now).expect("hers").0, None, "once");
        assert_eq!(waits.listen(root, &ANN, now).err(), Some(Denied::NotYours));
        assert_eq!(waits.call(&ROOT, "4711.0", None, "", now), heard(1), "an administrator may");
        assert_eq!(waits.call(&ANN, "4711", None, "", now + LEASE), heard(0), "nobody asks any more");
        assert_eq!((waits.end(ann, &BOB), waits.end(ann, &ANN)), (Err(Denied::NotYours), Ok(())));
        assert_eq!(waits.listen(ann, &ANN, now).err(), Some(Denied::NotYours));
    }

    #[test]
    fn only_named_calls_may_be_meant_and_the_site_s_name_of_a_job_is_known() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let named = Awaiting { calls: vec!["restart".into()], key: Some("slurm 4711 ".into()), ..awaiting(&["4711"]) };
        waits.begin(&ANN, named, now).expect("hers");
        assert_eq!(waits.call(&ANN, "4711", None, "other", now), heard(0));
        let kept = |owner, key| Some((owner, site_key(owner, key)));
        for (name, kept, expected) in [
            ("another user's job", kept(8, "slurm 4711 0 n1"), 0),
            ("a longer number", kept(7, "slurm 47110 0 n1"), 0),
            ("this job", kept(7, "slurm 4711 0 n1"), 1),
        ] {
            assert_eq!(waits.call(&ANN, "app-1", kept.as_ref(), "restart", now), heard(expected), "{name}");
        }
    }

    #[test]
    fn who_may_wait_is_bounded() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let others = Awaiting { owner: Some(8), ..awaiting(&["1"]) };
        assert_eq!(waits.begin(&ANN, others.clone(), now), Err(Denied::NotTheirJob));
        assert!(waits.begin(&ROOT, others, now).is_ok());
        assert_eq!(waits.begin(&Role::Controller, awaiting(&["1"]), now), Err(Denied::NotYours));
        assert_eq!(waits.begin(&ANN, awaiting(&[&"x".repeat(NAME_BYTES_MAX + 1)]), now), Err(Denied::Names));
        assert_eq!(waits.begin(&ANN, awaiting(&["x"; NAME_COUNT_MAX + 1]), now), Err(Denied::Names));
        for _ in 0..WAIT_COUNT_EACH_MAX {
            waits.begin(&ANN, awaiting(&["1"]), now).expect("hers");
        }
        assert_eq!(waits.begin(&ANN, awaiting(&["1"]), now), Err(Denied::TooMany));
        assert!(waits.begin(&BOB, awaiting(&["1"]), now).is_ok(), "others may");
        assert!(waits.begin(&ANN, awaiting(&["1"]), now + LEASE).is_ok(), "those who are gone are forgotten");
    }
}
