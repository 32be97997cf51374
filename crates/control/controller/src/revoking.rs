//! Steps after certificates were revoked: connections end, and all agents hear that there is another list.
//!
//! An agent fetches the list when it reports; so only those that are in the tree when it changes have to be told, and each
//! is told until it has answered. Ending the connection of a revoked agent moves those below it, who are in nobody's
//! reach for a moment.
//!
//! Next: `live` for callers' connections; `trimtab_site::revoked` for the list.

use crate::live::Live;
use crate::state::Controller;
use std::sync::Arc;
use std::time::Duration;
use trimtab_reduce::RankSet;
use trimtab_site::{Notice, Revoked, Watch};
use trimtab_types::{Rank, notice};

/// Time between two looks whether somebody was revoked.
const LOOK: Duration = Duration::from_millis(500);
/// Time until an agent that did not answer is told again.
const AGAIN: Duration = Duration::from_secs(3);

/// Ends connections of those whose certificates are revoked while they are connected, for ever.
pub(crate) async fn end(mut watch: Watch, controller: Arc<Controller>, live: Arc<Live>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(revoked) = watch.look() else { continue };
        let agents = controller.nodes.close_revoked(|certificate| revoked.is_revoked(certificate));
        let callers = live.cut(|certificate| revoked.is_revoked(certificate));
        if agents + callers > 0 {
            notice(&format!("connections that were ended, since they were revoked: agents {agents}, others {callers}"));
        }
    }
}

/// Tells agents of each change of the list, for ever.
pub(crate) async fn tell(controller: Arc<Controller>, revoked: Arc<Revoked>) {
    // Whoever reports to this controller gets the list as it is by then.
    let mut known = revoked.change();
    let mut told: Option<RankSet> = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let change = revoked.change();
        if change != known {
            (known, told) = (change, Some(RankSet::EMPTY));
        }
        let Some(told) = &mut told else { continue };
        let missing = controller.nodes.members().minus(told);
        if missing.is_empty() {
            continue;
        }
        let asking = controller.clone();
        let notified = tokio::task::spawn_blocking(move || {
            let answers = asking.root().notify(&Notice::Revoked, missing.clone()).unwrap_or_default();
            let answered: Vec<RankSet> = answers.into_keys().map(|index| RankSet::one(Rank(index))).collect();
            (RankSet::union_of(&answered), missing)
        });
        let Ok((answered, missing)) = notified.await else { continue };
        *told = told.union(&answered);
        if !answered.covers(&missing) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}
