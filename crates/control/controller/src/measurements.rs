//! The windows that the controller has measured: how each stands, for those who may know, and how many may be at once.
//!
//! Next: `measuring`, which begins and ends them.

use crate::not_led::NotLed;
use std::collections::BTreeMap;
use tokio::sync::watch;
use trimtab_site::Role;
use trimtab_site::measured::{KeptAt, Measurement, MeasurementState};

/// Windows at once: each has a lead, which is another process, and a report that comes whole.
pub(crate) const GOING_MAX: usize = 8;
/// The same of one asker, so that nobody keeps the others out.
pub(crate) const GOING_EACH_MAX: usize = 4;
/// Windows that are over, of which it is known how they ended.
const OVER_MAX: usize = 1000;

/// All of them.
#[derive(Default)]
pub(crate) struct Measurements {
    all: BTreeMap<u64, Kept>,
    next: u64,
}

struct Kept {
    by: Role,
    told: watch::Sender<Measurement>,
    /// Has it end early; `None`: it has not begun, or is over.
    interrupt: Option<Box<dyn Fn() + Send>>,
}

/// Why none may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many as may be.
    TooMany,
    /// The job is being measured.
    Going(u64),
}

impl Measurements {
    /// One begins, of a job of this owner's.
    pub(crate) fn begin(&mut self, by: &Role, job: &str, owner: u32, asked_unix_s: f64) -> Result<Measurement, Full> {
        let goes_on = |kept: &&Kept| kept.told.borrow().state == MeasurementState::Measuring;
        let going: Vec<&Kept> = self.all.values().filter(goes_on).collect();
        if let Some(same) = going.iter().find(|kept| kept.told.borrow().job == job) {
            return Err(Full::Going(same.told.borrow().id));
        }
        if going.len() >= GOING_MAX || going.iter().filter(|kept| kept.by == *by).count() >= GOING_EACH_MAX {
            return Err(Full::TooMany);
        }
        while self.all.len() >= OVER_MAX {
            let over = self.all.iter().find(|(_, kept)| !goes_on(kept)).map(|(id, _)| *id);
            let Some(over) = over else { break };
            self.all.remove(&over);
        }
        let begun = Measurement {
            id: self.next,
            job: job.to_owned(),
            owner,
            by: by.to_string(),
            asked_unix_s,
            state: MeasurementState::Measuring,
            kept: None,
            why_not: None,
        };
        self.next += 1;
        let (told, _) = watch::channel(begun.clone());
        self.all.insert(begun.id, Kept { by: by.clone(), told, interrupt: None });
        Ok(begun)
    }

    /// It has a lead, which can be interrupted.
    pub(crate) fn led(&mut self, id: u64, interrupt: Box<dyn Fn() + Send>) {
        let Some(kept) = self.all.get_mut(&id) else { return };
        kept.interrupt = Some(interrupt);
    }

    /// Has it end early, for those who may know how it stands; `None`: there is none for them; false: it is over.
    pub(crate) fn interrupt(&self, id: u64, role: &Role) -> Option<bool> {
        self.look(id, role)?;
        let interrupt = self.all.get(&id)?.interrupt.as_ref();
        interrupt.inspect(|interrupt| interrupt());
        Some(interrupt.is_some())
    }

    /// It is over.
    pub(crate) fn end(&mut self, id: u64, outcome: Result<KeptAt, NotLed>) {
        let Some(kept) = self.all.get_mut(&id) else { return };
        kept.interrupt = None;
        kept.told.send_modify(|told| match outcome {
            Ok(kept) => (told.state, told.kept) = (MeasurementState::Measured, Some(kept)),
            Err(why) => (told.state, told.why_not) = (MeasurementState::Failed, Some(why.to_string())),
        });
    }

    /// It was not begun after all.
    pub(crate) fn forget(&mut self, id: u64) {
        self.all.remove(&id);
    }

    /// How one stands, and changes, for whoever may know: whoever asked for it, the job's owner, administrators.
    pub(crate) fn look(&self, id: u64, role: &Role) -> Option<watch::Receiver<Measurement>> {
        let kept = self.all.get(&id)?;
        let may = match role {
            Role::Administrator { .. } => true,
            Role::User { uid } => kept.told.borrow().owner == *uid,
            role => kept.by == *role,
        };
        may.then(|| kept.told.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Role = Role::User { uid: 7 };
    const SCHEDULER: Role = Role::Scheduler { uid: 990 };

    #[test]
    fn a_job_is_measured_once_at_a_time_and_nobody_keeps_others_out() {
        let mut all = Measurements::default();
        let first = all.begin(&ANN, "1", 7, 0.0).expect("room");
        assert_eq!(all.begin(&SCHEDULER, "1", 7, 0.0), Err(Full::Going(first.id)));
        for job in 2..=GOING_EACH_MAX {
            all.begin(&ANN, &job.to_string(), 7, 0.0).expect("hers");
        }
        assert_eq!(all.begin(&ANN, "5", 7, 0.0), Err(Full::TooMany));
        for job in 0..GOING_MAX - GOING_EACH_MAX {
            all.begin(&SCHEDULER, &format!("other {job}"), 7, 0.0).expect("another's");
        }
        assert_eq!(all.begin(&Role::Administrator { uid: 0 }, "9", 7, 0.0), Err(Full::TooMany));
        all.end(first.id, Ok(KeptAt { job: "app-1".to_owned(), window: 0 }));
        assert!(all.begin(&ANN, "1", 7, 0.0).is_ok(), "the earlier one is over");
    }

    #[test]
    fn those_who_asked_the_owner_and_administrators_know_how_it_stands() {
        let mut all = Measurements::default();
        let id = all.begin(&SCHEDULER, "1", 7, 0.0).expect("room").id;
        let root = Role::Administrator { uid: 0 };
        assert!([&SCHEDULER, &ANN, &root].iter().all(|role| all.look(id, role).is_some()));
        let others = [Role::Scheduler { uid: 991 }, Role::User { uid: 8 }, Role::Node { host: "n1".to_owned() }];
        assert!(others.iter().all(|role| all.look(id, role).is_none()));
        all.end(id, Err(NotLed::Failed("no rank".to_owned())));
        let told = all.look(id, &ANN).expect("hers");
        assert_eq!(
            (told.borrow().state, told.borrow().why_not.as_deref()),
            (MeasurementState::Failed, Some("no rank"))
        );
        for job in 0..2 * OVER_MAX {
            let id = all.begin(&ANN, &job.to_string(), 7, 0.0).expect("room").id;
            all.end(id, Err(NotLed::Gone));
        }
        assert!(all.all.len() <= OVER_MAX && all.look(id, &ANN).is_none(), "old ones are forgotten");
    }
}
