//! The word of each user about what is theirs: which schedulers may have their jobs measured and see what is kept of them, and
//! how their programs' arguments are kept. Without a word no scheduler may, and arguments are kept as hashes.
//!
//! Next: `measuring` and `kept`, which ask the store for that.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread, read};
use crate::measuring::note;
use crate::state::Controller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::time::SystemTime;
use trimtab_audit::{AskedAs, Request, RequestedAction};
use trimtab_site::Role;
use trimtab_site::api::SCHEMA;
use trimtab_site::jobs::ArgumentsKept;
use trimtab_site::measured::{Acceptance, Acceptances};
use trimtab_store::AcceptedScheduler;
use trimtab_types::notice;

/// `GET /v1/schedulers`.
pub(crate) async fn list(State(controller): Shared, caller: Caller) -> Result<Json<Acceptances>, Refusal> {
    asker(&caller)?;
    let (owner, scheduler) = match &caller.role {
        Role::User { uid } => (Some(*uid), None),
        Role::Scheduler { uid } => (None, Some(*uid)),
        _ => (None, None),
    };
    off_thread(move || {
        let accepted = controller.store().accepted(owner, scheduler)?;
        let line = |AcceptedScheduler { owner, scheduler, since_unix_s }| Acceptance { owner, scheduler, since_unix_s };
        Ok(Json(Acceptances { schema: SCHEMA, accepted: accepted.into_iter().map(line).collect() }))
    })
    .await
}

/// `POST /v1/schedulers/UID`.
pub(crate) async fn accept(State(controller): Shared, caller: Caller, Path(uid): Path<u32>) -> Result<(), Refusal> {
    let owner = oneself(&caller.role)?;
    off_thread(move || {
        write_down(&controller, &caller.role, owner, RequestedAction::Accepted { scheduler: uid })?;
        let since_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(controller.store().accept(AcceptedScheduler { owner, scheduler: uid, since_unix_s })?)
    })
    .await
}

/// `DELETE /v1/schedulers/UID`.
pub(crate) async fn withdraw(State(controller): Shared, caller: Caller, Path(uid): Path<u32>) -> Result<(), Refusal> {
    let owner = oneself(&caller.role)?;
    off_thread(move || {
        // A log that can't be written keeps nobody from taking a right back; it is told to people.
        let _told = write_down(&controller, &caller.role, owner, RequestedAction::Withdrawn { scheduler: uid });
        let was_accepted = controller.store().withdraw(owner, uid)?;
        let missing =
            || format!("user {owner} has not accepted scheduler {uid}; `trimtab site accepted` lists whom they have");
        if was_accepted { Ok(()) } else { Err(Refusal(StatusCode::NOT_FOUND, missing())) }
    })
    .await
}

/// `GET /v1/arguments`.
pub(crate) async fn arguments(State(controller): Shared, caller: Caller) -> Result<Json<ArgumentsKept>, Refusal> {
    let owner = oneself(&caller.role)?;
    off_thread(move || Ok(Json(ArgumentsKept { kept: controller.store().keeps_arguments(owner)? }))).await
}

/// `POST /v1/arguments`.
pub(crate) async fn keep_arguments(State(controller): Shared, caller: Caller, body: Bytes) -> Result<(), Refusal> {
    let owner = oneself(&caller.role)?;
    let ArgumentsKept { kept } = read(&body)?;
    off_thread(move || {
        let written = write_down(&controller, &caller.role, owner, RequestedAction::Arguments { kept });
        // Nobody is kept from hiding them; it is told to people.
        if kept {
            written?;
        }
        Ok(controller.store().keep_arguments(owner, kept)?)
    })
    .await
}

/// The user who speaks for themselves.
fn oneself(role: &Role) -> Result<u32, Refusal> {
    match role {
        Role::User { uid } | Role::Administrator { uid } => Ok(*uid),
        role => {
            let why = format!("{role} may not; users speak for themselves");
            Err(Refusal(StatusCode::FORBIDDEN, why))
        }
    }
}

fn write_down(controller: &Controller, by: &Role, owner: u32, what: RequestedAction) -> Result<(), Refusal> {
    notice(&format!("{by}: {what:?}"));
    let request = Request { owner: Some(owner), ..Request::now(by.to_string(), AskedAs::Owner, what) };
    note(controller, &request).map_err(|()| {
        let why = "the controller can't write its audit log, so nothing is changed; its own log says why";
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
    })
}
