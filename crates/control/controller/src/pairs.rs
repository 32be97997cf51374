//! Programs that slow each other, over HTTP: the table of programs beside each other, of jobs that the asker may see.
//!
//! Next: `trimtab_forecasts::pair_table` for the table.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread};
use crate::kept::sight_of;
use axum::Json;
use axum::extract::State;
use trimtab_forecasts::{PairTable, newest_windows_of, pair_table};

/// `GET /v1/pairs`.
pub(crate) async fn pairs(State(controller): Shared, caller: Caller) -> Result<Json<PairTable>, Refusal> {
    asker(&caller)?;
    let role = caller.role.clone();
    off_thread(move || {
        let is_seen = sight_of(&controller.store(), &role)?;
        Ok(Json(pair_table(&newest_windows_of(|| controller.store(), is_seen)?)))
    })
    .await
}
