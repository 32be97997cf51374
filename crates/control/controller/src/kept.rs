//! The site's memory: jobs, and the windows that went through it.
//!
//! A report is taken from whoever was given its window, once, and kept for the job's owner, who need not be the one who
//! measured. A user sees their own jobs, an administrator all; who may not see a job can't tell it from none.
//!
//! Next: `windows` for whose a window is, `trimtab-store` for how it is kept.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread, person, read};
use crate::counts::WindowCount;
use crate::state::Controller;
use crate::waits::may_see;
use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use trimtab_site::Role;
use trimtab_site::api::{REPORT_BYTES_MAX, SCHEMA};
use trimtab_site::jobs::{EventLine, Filed, Filing, JobLine, JobWindows, Jobs, WindowLine};
use trimtab_store::{Error, JobSummary, Room, Store, WindowSummary};
use trimtab_types::report::{Report, SCHEMA as REPORT_SCHEMA};
use trimtab_types::{notice, one_line};

/// The room for one user's windows: years of a few each day, and no user's share of a disk.
const ROOM: Room = Room { window_count_max: 4096, byte_count_max: 512 << 20 };
/// Jobs in a list.
const JOB_COUNT_MAX: u32 = 1000;
/// How long one report may take to come; others wait for it.
const REPORT_TIME_MAX: Duration = Duration::from_secs(20);
/// Longest key of a job, bytes: Slurm's id and the key of a first process.
const KEY_BYTES_MAX: usize = 1024;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NoSuchJob { .. } => return nothing_of_yours(),
            Error::NoSuchWindow { .. } => StatusCode::NOT_FOUND,
            Error::UnstorableReport { .. } => StatusCode::BAD_REQUEST,
            Error::Busy { .. } | Error::DiskFull { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_client_error() {
            return Refusal(status, error.to_string());
        }
        // Where the site keeps what is for its administrators.
        notice(&one_line(&error));
        Refusal(status, "the site's store can't be used now; the controller's log says why".to_owned())
    }
}

/// There is no such job, or it is somebody else's.
pub(crate) fn nothing_of_yours() -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "there is no such job for you; `trimtab list --controller HOST` shows yours".into())
}

/// `POST /v1/windows/ID/report`.
pub(crate) async fn file(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
    request: Request,
) -> Result<Json<Filed>, Refusal> {
    person(&caller)?;
    let owner = controller.state().windows.file(id, &caller.role)?;
    let mut coming = Coming { controller: controller.clone(), id, has_come: false };
    let body = take(&controller, request.into_body()).await?;
    // From here on whoever filed it may be gone.
    coming.has_come = true;
    let keeper = controller.clone();
    let filed = off_thread(move || keep(&keeper, owner, &body)).await;
    match &filed {
        Ok(Filed { job, window }) => notice(&format!("window {id} of {} is kept as {job}/{window}", caller.role)),
        Err(Refusal(_, why)) => {
            notice(&format!("the report of window {id} is not kept: {why}"));
            controller.state().windows.not_filed(id);
        }
    }
    filed.map(Json)
}

/// A report that is on its way. If it does not arrive, it may come again.
struct Coming {
    controller: Arc<Controller>,
    id: u64,
    has_come: bool,
}

impl Drop for Coming {
    fn drop(&mut self) {
        if !self.has_come {
            self.controller.state().windows.not_filed(self.id);
        }
    }
}

/// Takes a report in. A controller has memory for one that is as long as may be, not for many.
async fn take(controller: &Controller, body: Body) -> Result<Bytes, Refusal> {
    let refused = |status, what: &str| Refusal(status, what.to_owned());
    let closed = |_| refused(StatusCode::SERVICE_UNAVAILABLE, "the controller is ending");
    let _turn = controller.store_turn.acquire().await.map_err(closed)?;
    let body = tokio::time::timeout(REPORT_TIME_MAX, to_bytes(body, REPORT_BYTES_MAX)).await;
    let body = body.map_err(|_| refused(StatusCode::REQUEST_TIMEOUT, "the report took too long to come"))?;
    let long = format!("the report is longer than {} MiB, or broke off", REPORT_BYTES_MAX >> 20);
    body.map_err(|_| Refusal(StatusCode::PAYLOAD_TOO_LARGE, long))
}

fn keep(controller: &Controller, owner: u32, body: &Bytes) -> Result<Filed, Refusal> {
    keep_filing(controller, owner, read(body)?)
}

/// Keeps a report for its job's owner.
pub(crate) fn keep_filing(controller: &Controller, owner: u32, filing: Filing) -> Result<Filed, Refusal> {
    let Filing { key, report } = filing;
    let bad = |what: &str| Refusal(StatusCode::BAD_REQUEST, what.to_owned());
    if key.len() > KEY_BYTES_MAX {
        return Err(bad("the job's key is too long"));
    }
    if report.schema != REPORT_SCHEMA {
        return Err(bad("this report has another shape than this controller's: run the same version on both"));
    }
    let (job, window) = controller.store().file(owner, &key, &report, ROOM)?;
    controller.counts.window(WindowCount::Kept);
    Ok(Filed { job: job.to_string(), window })
}

/// `GET /v1/jobs`.
pub(crate) async fn jobs(State(controller): Shared, caller: Caller) -> Result<Json<Jobs>, Refusal> {
    person(&caller)?;
    let owner = match &caller.role {
        Role::User { uid } => Some(*uid),
        _ => None,
    };
    let mut jobs = off_thread(move || Ok(controller.store().list_jobs_of(owner, JOB_COUNT_MAX + 1)?)).await?;
    let has_more = jobs.len() > JOB_COUNT_MAX as usize;
    jobs.truncate(JOB_COUNT_MAX as usize);
    Ok(Json(Jobs { schema: SCHEMA, jobs: jobs.into_iter().map(line).collect(), has_more }))
}

/// `GET /v1/jobs/ID`.
pub(crate) async fn job(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<JobWindows>, Refusal> {
    seen(controller, caller, id, |store, job| {
        let windows = store.windows(&job.id)?.into_iter().map(window_line).collect();
        Ok(JobWindows { schema: SCHEMA, job: line(job), windows })
    })
    .await
}

/// `GET /v1/jobs/ID/windows/N`.
pub(crate) async fn report(
    State(controller): Shared,
    caller: Caller,
    Path((id, window)): Path<(String, u32)>,
) -> Result<Json<Report>, Refusal> {
    seen(controller, caller, id, move |store, job| Ok(store.window(&job.id, window)?)).await
}

/// A job that whoever asks may see.
pub(crate) fn seen_by(store: &Store, role: &Role, id: &str) -> Result<JobSummary, Refusal> {
    let job = store.job_called(id)?;
    if sight_of(store, role)?(&job) { Ok(job) } else { Err(nothing_of_yours()) }
}

/// The jobs that whoever asks may see: their own, of a scheduler those of users who accepted it, of an administrator all.
pub(crate) fn sight_of(store: &Store, role: &Role) -> Result<impl Fn(&JobSummary) -> bool + use<>, Refusal> {
    let accepted = match role {
        Role::Scheduler { uid } => store.accepted(None, Some(*uid))?,
        _ => Vec::new(),
    };
    let role = role.clone();
    Ok(move |job: &JobSummary| {
        may_see(&role, job.owner) || accepted.iter().any(|accepted| Some(accepted.owner) == job.owner)
    })
}

/// Looks at a job that whoever asks may see.
async fn seen<T: Send + 'static>(
    controller: Arc<Controller>,
    caller: Caller,
    id: String,
    look: impl FnOnce(&Store, JobSummary) -> Result<T, Refusal> + Send + 'static,
) -> Result<Json<T>, Refusal> {
    asker(&caller)?;
    let role = caller.role.clone();
    off_thread(move || {
        let store = controller.store();
        let job = seen_by(&store, &role, &id)?;
        look(&store, job)
    })
    .await
    .map(Json)
}

fn line(summary: JobSummary) -> JobLine {
    let JobSummary { id, owner, job, windows, newest, .. } = summary;
    JobLine {
        id: id.to_string(),
        // Every job of a site's store has one.
        owner: owner.unwrap_or_default(),
        program: job.program,
        arguments: job.arguments,
        ranks: job.ranks,
        mpi: job.mpi,
        hosts: job.hosts,
        started_unix_s: job.started_unix_s,
        windows,
        newest: newest.map(window_line),
    }
}

fn window_line(window: WindowSummary) -> WindowLine {
    WindowLine {
        window: window.number,
        trigger: window.trigger,
        started_unix_s: window.started_unix_s,
        valid: window.valid,
        ended_by: window.ended_by,
        iterations: window.iterations,
        communication_fraction: window.communication_fraction,
        time_per_iteration_s: window.time_per_iteration_s,
        event: window.event.map(|event| EventLine { kind: event.kind, value: event.value, at_unix_s: event.at_unix_s }),
    }
}
