//! Calls for a window through the API, and those who wait for them.
//!
//! Next: `waits` for who hears whom.

use crate::asked::{Caller, Refusal, Shared, off_thread, person, read};
use crate::waits::{Denied, Reached};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::time::{Duration, Instant};
use trimtab_site::jobs::{Awaited, Awaiting, Heard, Trigger, Triggered};
use trimtab_store::Error;
use trimtab_types::notice;

/// How long an answer waits for a call: shorter than clients wait for one, and than anything between may cut.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// Longest name of a call, characters.
const NAME_LENGTH_MAX: usize = 200;

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let status = match denied {
            Denied::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            Denied::NotYours => StatusCode::NOT_FOUND,
            Denied::NotTheirJob => StatusCode::FORBIDDEN,
            Denied::Names => StatusCode::BAD_REQUEST,
        };
        Refusal(status, denied.to_string())
    }
}

/// `POST /v1/waits`.
pub(crate) async fn begin(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<Awaited>, Refusal> {
    person(&caller)?;
    let awaiting: Awaiting = read(&body)?;
    let id = controller.waits().begin(&caller.role, awaiting, Instant::now())?;
    Ok(Json(Awaited { id }))
}

/// `GET /v1/waits/ID`.
pub(crate) async fn listen(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<Heard>, Refusal> {
    person(&caller)?;
    let (call, called) = controller.waits().listen(id, &caller.role, Instant::now())?;
    if call.is_some() {
        return Ok(Json(Heard { call }));
    }
    let _rang = tokio::time::timeout(HOLD_MAX, called.notified()).await;
    let (call, _) = controller.waits().listen(id, &caller.role, Instant::now())?;
    Ok(Json(Heard { call }))
}

/// `DELETE /v1/waits/ID`.
pub(crate) async fn end(State(controller): Shared, caller: Caller, Path(id): Path<u64>) -> Result<(), Refusal> {
    person(&caller)?;
    Ok(controller.waits().end(id, &caller.role)?)
}

/// `POST /v1/jobs/ID/trigger`.
pub(crate) async fn trigger(
    State(controller): Shared,
    caller: Caller,
    Path(job): Path<String>,
    body: Bytes,
) -> Result<Json<Triggered>, Refusal> {
    person(&caller)?;
    let Trigger { name } = if body.is_empty() { Trigger::default() } else { read(&body)? };
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(NAME_LENGTH_MAX).collect();
    let kept = off_thread({
        let (controller, job) = (controller.clone(), job.clone());
        move || match controller.store().job_called(&job) {
            Ok(kept) => Ok(kept.owner.map(|owner| (owner, kept.key))),
            // It may have no window yet.
            Err(Error::NoSuchJob { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    });
    let kept = kept.await?;
    match controller.waits().call(&caller.role, &job, kept.as_ref(), &name, Instant::now()) {
        Reached { heard: 0, busy: 0 } => Err(Refusal(
            StatusCode::NOT_FOUND,
            format!(
                "nobody waits for a call for job {job} of yours; `trimtab attach --when api --controller HOST` does"
            ),
        )),
        Reached { heard: 0, .. } => Err(Refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "whoever waits for this job has a call already and has not come to it; try again".to_owned(),
        )),
        Reached { heard, .. } => {
            notice(&format!("{} calls for a window of job {job}", caller.role));
            Ok(Json(Triggered { reached: heard }))
        }
    }
}
