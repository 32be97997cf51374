//! Programs that slow each other, over HTTP: the table of programs beside each other, of jobs that the asker may see.
//!
//! Next: `trimtab_forecasts::pair_table` for the table.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread};
use crate::waits::may_see;
use axum::Json;
use axum::extract::State;
use trimtab_forecasts::{PairTable, newest_windows_of, pair_table};
use trimtab_site::Role;
use trimtab_store::JobSummary;

/// `GET /v1/pairs`.
pub(crate) async fn pairs(State(controller): Shared, caller: Caller) -> Result<Json<PairTable>, Refusal> {
    asker(&caller)?;
    let role = caller.role.clone();
    off_thread(move || {
        let accepted = match &role {
            Role::Scheduler { uid } => controller.store().accepted(None, Some(*uid))?,
            _ => Vec::new(),
        };
        let is_seen = |job: &JobSummary| {
            may_see(&role, job.owner) || accepted.iter().any(|accepted| Some(accepted.owner) == job.owner)
        };
        Ok(Json(pair_table(&newest_windows_of(|| controller.store(), is_seen)?)))
    })
    .await
}
