//! The probes of the network that go on: whose agent makes each, its order, and what came of it.
//!
//! Next: `weather`, which begins them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use trimtab_site::weather::{ProbeOrder, ProbeOutcome};

/// Probes that go on at once.
pub(crate) const PROBE_COUNT_MAX: usize = 64;
/// How long an answer waits for a probe: shorter than clients wait.
pub(crate) const PROBE_MAX: Duration = Duration::from_secs(9);

/// The probes that go on.
#[derive(Default)]
pub(crate) struct Probes {
    all: BTreeMap<u64, Probe>,
    next: u64,
}

struct Probe {
    host: String,
    order: Option<ProbeOrder>,
    outcome: Option<ProbeOutcome>,
    ended: Arc<Notify>,
    began: Instant,
}

impl Probes {
    /// One begins; its number. `None`: too many go on.
    pub(crate) fn begin(&mut self, host: &str, order: ProbeOrder, now: Instant) -> Option<(u64, Arc<Notify>)> {
        // Nobody waits any longer for what took that long.
        self.all.retain(|_, probe| now.saturating_duration_since(probe.began) < 2 * PROBE_MAX);
        if self.all.len() >= PROBE_COUNT_MAX {
            return None;
        }
        let (id, ended) = (self.next, Arc::new(Notify::new()));
        self.next += 1;
        let probe =
            Probe { host: host.to_owned(), order: Some(order), outcome: None, ended: ended.clone(), began: now };
        self.all.insert(id, probe);
        Some((id, ended))
    }

    /// The order, once, for the agent of its host.
    pub(crate) fn order(&mut self, id: u64, host: &str) -> Option<ProbeOrder> {
        self.all.get_mut(&id).filter(|probe| probe.host == host)?.order.take()
    }

    pub(crate) fn outcome(&mut self, id: u64, host: &str, outcome: ProbeOutcome) -> Option<()> {
        let probe = self.all.get_mut(&id).filter(|probe| probe.host == host)?;
        probe.outcome = Some(outcome);
        probe.ended.notify_one();
        Some(())
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<ProbeOutcome> {
        self.all.remove(&id)?.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> ProbeOrder {
        ProbeOrder { address: String::new(), secret: String::new(), bytes_max: 1, took_s: Vec::new() }
    }

    #[test]
    fn an_order_is_for_one_agent_once() {
        let (mut probes, now) = (Probes::default(), Instant::now());
        let (id, _) = probes.begin("n1", order(), now).expect("room");
        assert!(probes.order(id, "n2").is_none(), "another host's agent");
        assert!(probes.order(id, "n1").is_some() && probes.order(id, "n1").is_none(), "once");
        let none = || ProbeOutcome { found: None, why_not: None };
        assert!(probes.outcome(id, "n2", none()).is_none() && probes.outcome(id + 1, "n1", none()).is_none());
        assert!(probes.outcome(id, "n1", none()).is_some());
        assert!(probes.take(id).is_some() && probes.take(id).is_none());
    }

    #[test]
    fn probes_are_bounded_and_lost_ones_are_forgotten() {
        let (mut probes, now) = (Probes::default(), Instant::now());
        for _ in 0..PROBE_COUNT_MAX {
            assert!(probes.begin("n1", order(), now).is_some());
        }
        assert!(probes.begin("n1", order(), now).is_none());
        assert!(probes.begin("n1", order(), now + 2 * PROBE_MAX).is_some());
    }
}
