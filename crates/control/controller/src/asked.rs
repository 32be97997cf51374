//! How a request is read, who asks, and how it is refused.
//!
//! The caller's role is what their certificate says; nothing in a request can change it.
//!
//! Next: `routes` for the requests.

use crate::listener::Peer;
use crate::state::Controller;
use crate::windows::Denied;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use trimtab_overlay::Busy;
use trimtab_site::Role;
use trimtab_site::api::Problem;
use trimtab_store::Store;

pub(crate) type Shared = State<Arc<Controller>>;
pub(crate) type Caller = ConnectInfo<Peer>;

/// An answer that says no.
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(Problem { error: self.1 })).into_response()
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let status = match denied {
            Denied::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            Denied::NotYours => StatusCode::NOT_FOUND,
            Denied::NoPerson => StatusCode::FORBIDDEN,
            Denied::NothingStarted | Denied::Filed | Denied::WhoseJob => StatusCode::CONFLICT,
        };
        Refusal(status, denied.to_string())
    }
}

impl From<Busy> for Refusal {
    fn from(busy: Busy) -> Self {
        Refusal(StatusCode::SERVICE_UNAVAILABLE, busy.to_string())
    }
}

/// Only people may.
pub(crate) fn person(peer: &Peer) -> Result<(), Refusal> {
    match &peer.role {
        Role::User { .. } | Role::Administrator { .. } => Ok(()),
        role => Err(Refusal(StatusCode::FORBIDDEN, format!("{role} may not; only users and administrators may"))),
    }
}

/// People and schedulers may; what of a job's depends on its owner.
pub(crate) fn asker(peer: &Peer) -> Result<(), Refusal> {
    match &peer.role {
        Role::Scheduler { .. } => Ok(()),
        _ => person(peer),
    }
}

/// Only agents may; the host whose agent it is.
pub(crate) fn agent(peer: &Peer) -> Result<&str, Refusal> {
    match &peer.role {
        Role::Node { host } => Ok(host),
        role => Err(Refusal(StatusCode::FORBIDDEN, format!("{role} may not; only the agents of nodes may"))),
    }
}

pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Asks the store: a short question at once where nobody else has it, any other on a thread that may wait.
pub(crate) async fn of_store<T: Send + 'static>(
    controller: Arc<Controller>,
    is_short: bool,
    ask: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    if is_short && let Ok(store) = controller.store.try_lock() {
        return ask(&store);
    }
    off_thread(move || ask(&controller.store())).await
}

/// Asks the tree or the store on a thread that may wait.
pub(crate) async fn off_thread<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|_| {
        Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the controller failed; its log says why".to_owned()))
    })
}
