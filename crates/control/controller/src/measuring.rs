//! `POST /v1/jobs/JOB/windows`: the controller has a window of a job measured, in the name of the job's owner.
//!
//! `DELETE /v1/measurements/ID` ends it early. The job's owner may ask for it, an administrator, and a scheduler that the owner accepted. Slurm says whose the job is, and
//! every agent compares that with what its kernel says. Each request and its outcome stand in the controller's log; a window
//! whose line can't be written is not begun.
//!
//! Next: `leads` for how it goes; `measurements` for how it stands.

use crate::asked::{Caller, Refusal, Shared, asker, off_thread, read};
use crate::counts::WindowCount;
use crate::foreknown::{NoJob, RunningJob};
use crate::leads::lead;
use crate::measurements::{Full, GOING_EACH_MAX, GOING_MAX};
use crate::state::Controller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use trimtab_audit::{AskedAs, Log, Request, RequestedAction};
use trimtab_site::Role;
use trimtab_site::led::LeadOrder;
use trimtab_site::measured::{BadWindow, Measurement, MeasurementState, WindowAsked};
use trimtab_store::{Error as StoreError, site_key};
use trimtab_types::{notice, one_line};

/// How long an answer to who asks how it stands waits for the end: shorter than clients wait for one.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// Longest name of a job in a question, bytes.
const NAME_BYTES_MAX: usize = 256;
/// A kept job's key begins with this, behind its owner, if Slurm runs it; Slurm's id follows.
const SLURM: &str = "slurm ";

/// Why no window is begun.
#[derive(Clone, Debug, thiserror::Error)]
enum NoWindow {
    #[error(transparent)]
    Question(#[from] BadWindow),
    #[error(
        "no job {0} of yours runs here; `squeue --me` lists those of Slurm's, `trimtab list --controller HOST` those that the site keeps"
    )]
    NotYours(String),
    #[error(
        "the owner of job {job} has not accepted scheduler {scheduler}; they do with `trimtab site accept scheduler:{scheduler} \
         --controller HOST`"
    )]
    NotAccepted { job: String, scheduler: u32 },
    #[error(transparent)]
    Job(#[from] NoJob),
    #[error("window {0} of this job goes on; ask for it (`GET /v1/measurements/{0}`), and again when it is over")]
    Going(u64),
    #[error(
        "{GOING_MAX} windows of all or {GOING_EACH_MAX} of yours go on, as many as may: try again when some have ended"
    )]
    TooMany,
    #[error("the controller can't write its audit log, so nothing is begun; its own log says why")]
    NotLogged,
    #[error("the controller can't start a lead for the window; its log says why")]
    NoLead,
    #[error("the site's store can't be used now; the controller's log says why")]
    Store,
}

impl NoWindow {
    fn status(&self) -> StatusCode {
        match self {
            NoWindow::Question(_) | NoWindow::Job(NoJob::NotSlurm(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            NoWindow::NotYours(_) | NoWindow::Job(NoJob::Unknown(_)) => StatusCode::NOT_FOUND,
            NoWindow::NotAccepted { .. } => StatusCode::FORBIDDEN,
            NoWindow::Job(NoJob::NotNow(_)) | NoWindow::Going(_) => StatusCode::CONFLICT,
            NoWindow::Job(NoJob::Silent(_))
            | NoWindow::TooMany
            | NoWindow::NotLogged
            | NoWindow::NoLead
            | NoWindow::Store => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<NoWindow> for Refusal {
    fn from(why: NoWindow) -> Self {
        Refusal(why.status(), why.to_string())
    }
}

impl From<StoreError> for NoWindow {
    fn from(error: StoreError) -> Self {
        notice(&one_line(&error));
        NoWindow::Store
    }
}

/// `POST /v1/jobs/JOB/windows`.
pub(crate) async fn begin(
    State(controller): Shared,
    caller: Caller,
    Path(job): Path<String>,
    body: Bytes,
) -> Result<Json<Measurement>, Refusal> {
    asker(&caller)?;
    let asked: WindowAsked = if body.is_empty() { WindowAsked::default() } else { read(&body)? };
    let (is_blocking, role) = (asked.blocking, caller.role.clone());
    let asking = controller.clone();
    let begun = off_thread(move || {
        let request = Asking { controller: &asking, by: &role, job: &job };
        Ok(request.begin(asked)?)
    })
    .await?;
    if !is_blocking {
        return Ok(Json(begun));
    }
    let told = controller.measurements().look(begun.id, &caller.role);
    let Some(told) = told else { return Ok(Json(begun)) };
    Ok(Json(when_over(told).await))
}

/// `GET /v1/measurements/ID`.
pub(crate) async fn show(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<Measurement>, Refusal> {
    asker(&caller)?;
    let told = controller.measurements().look(id, &caller.role).ok_or_else(|| {
        Refusal(StatusCode::NOT_FOUND, "there is no such window for you, or it was over long ago".to_owned())
    })?;
    let now = told.borrow().clone();
    let over = tokio::time::timeout(HOLD_MAX, when_over(told)).await;
    Ok(Json(over.unwrap_or(now)))
}

/// `DELETE /v1/measurements/ID`.
pub(crate) async fn end(State(controller): Shared, caller: Caller, Path(id): Path<u64>) -> Result<(), Refusal> {
    asker(&caller)?;
    let nothing = || Refusal(StatusCode::NOT_FOUND, "there is no such window for you".to_owned());
    let over = || Refusal(StatusCode::CONFLICT, "this window is over".to_owned());
    let told = controller.measurements().look(id, &caller.role).ok_or_else(nothing)?;
    let now = told.borrow().clone();
    if now.state != MeasurementState::Measuring {
        return Err(over());
    }
    let (asked, by) = (controller.clone(), caller.role.clone());
    off_thread(move || {
        let what = RequestedAction::Interrupted;
        let role = match &by {
            Role::Administrator { .. } => AskedAs::Administrator,
            Role::User { .. } => AskedAs::Owner,
            _ => AskedAs::Scheduler,
        };
        let request = Request {
            job: Some(now.job.clone()),
            owner: Some(now.owner),
            window: Some(id),
            ..Request::now(by.to_string(), role, what)
        };
        note(&asked, &request).map_err(|()| NoWindow::NotLogged)?;
        match asked.measurements().interrupt(id, &by) {
            Some(true) => Ok(()),
            Some(false) => Err(over()),
            None => Err(nothing()),
        }
    })
    .await
}

async fn when_over(mut told: watch::Receiver<Measurement>) -> Measurement {
    let over = told.wait_for(|told| told.state != MeasurementState::Measuring).await.map(|told| told.clone());
    // Nobody tells any more: as it was.
    over.unwrap_or_else(|_| told.borrow().clone())
}

/// Somebody asks for a window of a job.
struct Asking<'a> {
    controller: &'a Arc<Controller>,
    by: &'a Role,
    job: &'a str,
}

/// A job, and as which role it may be measured.
struct Allowed {
    job: RunningJob,
    role: AskedAs,
}

impl Asking<'_> {
    fn begin(&self, asked: WindowAsked) -> Result<Measurement, NoWindow> {
        asked.check()?;
        let allowed = self.allowed()?;
        self.start(&allowed, asked).map_err(|why| self.refused(Some(&allowed), why))
    }

    /// Writes a refusal down.
    fn refused(&self, allowed: Option<&Allowed>, why: NoWindow) -> NoWindow {
        self.controller.counts.window(WindowCount::Refused);
        let role = allowed.map_or(AskedAs::Nobody, |allowed| allowed.role);
        let what = RequestedAction::Refused { reason: why.to_string() };
        let request = Request { owner: allowed.map(|allowed| allowed.job.owner), ..self.request(role, what) };
        // Nothing was begun: a log that can't be written is told to people.
        let _told = note(self.controller, &request);
        why
    }

    fn request(&self, role: AskedAs, what: RequestedAction) -> Request {
        let job = self.job.chars().take(NAME_BYTES_MAX).collect();
        Request { job: Some(job), ..Request::now(self.by.to_string(), role, what) }
    }

    /// The job, if whoever asks may have it measured. For a user a job that is not theirs is as none.
    fn allowed(&self) -> Result<Allowed, NoWindow> {
        let found = self.running();
        let job = match (found, self.by) {
            (Err(NoWindow::Job(NoJob::Unknown(_) | NoJob::NotNow(_))), Role::User { .. }) => {
                Err(NoWindow::NotYours(self.job.to_owned()))
            }
            (found, _) => found,
        };
        let job = job.map_err(|why| self.refused(None, why))?;
        let role = match self.by {
            Role::Administrator { .. } => AskedAs::Administrator,
            Role::User { uid } if *uid == job.owner => AskedAs::Owner,
            Role::Scheduler { uid } if self.controller.store().has_accepted(job.owner, *uid)? => AskedAs::Scheduler,
            by => {
                let why = match by {
                    Role::Scheduler { uid } => NoWindow::NotAccepted { job: self.job.to_owned(), scheduler: *uid },
                    _ => NoWindow::NotYours(self.job.to_owned()),
                };
                return Err(self.refused(Some(&Allowed { job, role: AskedAs::Nobody }), why));
            }
        };
        Ok(Allowed { job, role })
    }

    /// The job as Slurm knows it, by Slurm's id or by its name at the site.
    fn running(&self) -> Result<RunningJob, NoWindow> {
        if self.job.len() > NAME_BYTES_MAX {
            return Err(NoJob::NotSlurm(self.job.chars().take(NAME_BYTES_MAX).collect()).into());
        }
        let kept = match self.controller.store().job_called(self.job) {
            Ok(kept) => Some(kept),
            Err(StoreError::NoSuchJob { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let running_job = self.controller.foresight.machine.running_job;
        let Some(kept) = kept else { return Ok(running_job(self.job)?) };
        let owner = kept.owner.unwrap_or_default();
        let id = kept.key.strip_prefix(&site_key(owner, SLURM)).and_then(|rest| rest.split(' ').next());
        let job = running_job(id.ok_or_else(|| NoJob::NotSlurm(self.job.to_owned()))?)?;
        // Slurm has given the number to another one meanwhile.
        if job.owner == owner { Ok(job) } else { Err(NoJob::Unknown(format!("job {} has ended", self.job)).into()) }
    }

    /// Begins, once that is written down.
    fn start(&self, allowed: &Allowed, asked: WindowAsked) -> Result<Measurement, NoWindow> {
        let Allowed { job: RunningJob { id: job, owner }, role } = allowed;
        let begun = self.controller.measurements().begin(self.by, job, *owner, unix_s());
        let begun = begun.map_err(|full| match full {
            Full::TooMany => NoWindow::TooMany,
            Full::Going(id) => NoWindow::Going(id),
        })?;
        let about = |what| Request { owner: Some(*owner), window: Some(begun.id), ..self.request(*role, what) };
        let started = note(self.controller, &about(RequestedAction::Asked)).map_err(|()| NoWindow::NotLogged);
        let started = started.and_then(|()| {
            let order = LeadOrder { job: job.clone(), owner: *owner, by: self.by.to_string(), asked };
            // Its end is written with the same words as its beginning.
            self.lead(begun.id, order, about(RequestedAction::Asked))
        });
        if let Err(why) = started {
            self.controller.measurements().forget(begun.id);
            return Err(why);
        }
        notice(&format!("window {} of job {job} for {}, in the name of user {owner}", begun.id, self.by));
        Ok(begun)
    }

    fn lead(&self, id: u64, order: LeadOrder, request: Request) -> Result<(), NoWindow> {
        let no_lead = |error: std::io::Error| {
            notice(&format!("no lead can be started: {error}"));
            NoWindow::NoLead
        };
        let mut process = (self.controller.foresight.machine.lead)().map_err(no_lead)?;
        let interrupt = std::mem::replace(&mut process.interrupt, Box::new(|| ()));
        self.controller.measurements().led(id, interrupt);
        let controller = self.controller.clone();
        let work = move || {
            let outcome = lead(&controller, &order, process);
            let what = match &outcome {
                Ok(kept) => RequestedAction::Measured { kept: kept.to_string() },
                Err(reason) => RequestedAction::Failed { reason: reason.to_string() },
            };
            let Request { by, role, job, owner, window, .. } = request;
            // It is over by then: a log that is full now can only be told to people.
            let _told = note(&controller, &Request { job, owner, window, ..Request::now(by, role, what) });
            controller.measurements().end(id, outcome);
        };
        std::thread::Builder::new().name("trimtab-lead".to_owned()).spawn(work).map(|_| ()).map_err(no_lead)
    }
}

/// Writes down what was asked.
pub(crate) fn note(controller: &Controller, request: &Request) -> Result<(), ()> {
    let written = Log::open(&controller.audit).and_then(|mut log| log.note(request));
    written.map_err(|error| notice(&one_line(&error)))
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
