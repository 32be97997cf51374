//! Forecasts over HTTP, from the windows, runs and models that the site keeps.
//!
//! The answers are those of the command line, by the same functions. Whoever asks names jobs that they may see; of others' runs
//! only how long they took is used, without names. Nothing is stored for a question that has no answer.
//!
//! Next: `trimtab-forecasts` for questions and answers; docs/api.md for the words.

use crate::asked::{Caller, Refusal, Shared, asker, of_store, off_thread, read};
use crate::foreknown::NoPast;
use crate::kept::{nothing_of_yours, seen_by};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::SystemTime;
use trimtab_forecasts::LinkError;
use trimtab_forecasts::grid::Error as GridError;
use trimtab_forecasts::{
    Asked, CorunAnswer, CorunAsked, CorunQuestion, CorunSide, Error, Given, JobAnswer, JobAsked, JobMade, ModelNamed,
    Past, ProfileNamed, QueueAnswer, QueueAsked, QueueMade, SizeAnswer, SizeAsked, SizeMade, Unknown, Whose,
    alone_stored, corun, known_host, models_of, note_meetings, profile_kept,
};
use trimtab_history::{Wrong, read_log};
use trimtab_site::Role;
use trimtab_store::{History, Store};
use trimtab_types::report::Report;
use trimtab_types::{notice, one_line};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Store(error) => return error.into(),
            Error::Unknown(_) => StatusCode::NOT_FOUND,
            Error::Stale(_) => StatusCode::CONFLICT,
            Error::Grid(GridError::UnknownHost { .. }) => StatusCode::NOT_FOUND,
            Error::Grid(GridError::Stale { .. }) => StatusCode::CONFLICT,
            Error::Links(LinkError::Wrong(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Links(_) => StatusCode::NOT_FOUND,
            Error::Grid(_)
            | Error::Question(_)
            | Error::Windows(_)
            | Error::Together(_)
            | Error::Sizes(_)
            | Error::Log(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Model { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal(status, one_line(&error))
    }
}

/// `POST /v1/forecasts/job`.
pub(crate) async fn job(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<JobAnswer>, Refusal> {
    asker(&caller)?;
    let asked: JobAsked = read(&body)?;
    asked.check()?;
    let role = caller.role.clone();
    off_thread(move || {
        let mut store = controller.store();
        let job = seen_by(&store, &role, &asked.job)?;
        let made = JobMade::stored(&store, &job.id, asked.newest_s, unix_s(), Whose::All)?;
        if let Some(forecast) = made.forecast()
            && controller.foresight.is_new(&made.run.key, made.report.window.number)
        {
            store.note_forecast(&made.run.key, &forecast)?;
        }
        Ok(Json(made.answer()))
    })
    .await
}

/// `POST /v1/forecasts/corun`.
pub(crate) async fn together(
    State(controller): Shared,
    caller: Caller,
    body: Bytes,
) -> Result<Json<CorunAnswer>, Refusal> {
    asker(&caller)?;
    let asked: CorunAsked = read(&body)?;
    asked.check()?;
    let role = caller.role.clone();
    off_thread(move || {
        let sides = sides(&controller.store(), &role, &asked)?;
        let candidates = asked.with.len();
        let question = CorunQuestion { sides, candidates, at_unix_s: None, on: asked.on, made_unix_s: unix_s() };
        Ok(Json(corun(question)?.answer()))
    })
    .await
}

/// `POST /v1/forecasts/comp`.
pub(crate) async fn comp(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<SizeAnswer>, Refusal> {
    size_of(Asked::Time, controller, caller, body).await
}

/// `POST /v1/forecasts/size`.
pub(crate) async fn size(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<SizeAnswer>, Refusal> {
    size_of(Asked::Memory, controller, caller, body).await
}

async fn size_of(
    what: Asked,
    controller: Arc<crate::Controller>,
    caller: Caller,
    body: Bytes,
) -> Result<Json<SizeAnswer>, Refusal> {
    asker(&caller)?;
    let SizeAsked { model, host, args } = read(&body)?;
    of_store(controller, true, move |store| {
        let (models, host) = (models_of(store, &model)?, known_host(store, &host, &[])?);
        let args: Vec<(String, f64)> = args.into_iter().collect();
        Ok(Json(SizeMade::of(what, &args, models, host)?.answer()))
    })
    .await
}

/// Forecasts of everybody rest on what is kept so.
fn for_everybody(caller: &Caller) -> Result<(), Refusal> {
    match &caller.role {
        Role::Administrator { .. } => Ok(()),
        role => {
            let why = format!("{role} may not; these are for everybody here, so administrators keep them");
            Err(Refusal(StatusCode::FORBIDDEN, why))
        }
    }
}

/// `POST /v1/profiles`.
pub(crate) async fn profile(State(controller): Shared, caller: Caller, body: Bytes) -> Result<(), Refusal> {
    for_everybody(&caller)?;
    let row = read::<ProfileNamed>(&body)?.row()?;
    notice(&format!("{} keeps the profile of {} on {}", caller.role, row.program, row.host));
    off_thread(move || Ok(controller.store().note_pressure(&row)?)).await
}

/// `POST /v1/models`.
pub(crate) async fn model(State(controller): Shared, caller: Caller, body: Bytes) -> Result<(), Refusal> {
    for_everybody(&caller)?;
    let asked: ModelNamed = read(&body)?;
    let named = asked.checked()?;
    notice(&format!("{} keeps model {} of {}", caller.role, named.kept.name, named.content.host));
    off_thread(move || {
        let unreadable = |error: serde_json::Error| Refusal(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
        let host = named.host().map_err(unreadable)?;
        let mut store = controller.store();
        store.note_host(&host)?;
        Ok(store.note_model(&named.kept)?)
    })
    .await
}

/// `POST /v1/forecasts/queue`.
pub(crate) async fn queue(
    State(controller): Shared,
    caller: Caller,
    body: Bytes,
) -> Result<Json<QueueAnswer>, Refusal> {
    asker(&caller)?;
    let asked: QueueAsked = read(&body)?;
    let own = match &caller.role {
        role @ (Role::User { .. } | Role::Scheduler { .. }) if asked.jobs.is_none() && asked.user.is_some() => {
            let why = format!("{role} may not name a user; only administrators may, or who gives \"jobs\"");
            return Err(Refusal(StatusCode::FORBIDDEN, why));
        }
        Role::User { uid } | Role::Administrator { uid } if asked.jobs.is_none() => {
            controller.foresight.user_name(*uid)
        }
        _ => None,
    };
    let question = asked.question(own)?;
    let QueueAsked { jobs, leave_out_wrong, .. } = asked;
    let Some(jobs) = jobs else {
        return off_thread(move || {
            let past = controller.foresight.past().map_err(silent)?;
            Ok(Json(QueueMade::of(&past, &question)?.answer()))
        })
        .await;
    };
    let asked = controller.clone();
    let ending = |_| Refusal(StatusCode::SERVICE_UNAVAILABLE, "the controller is ending".to_owned());
    let _turn = asked.foresight.log_turn.acquire().await.map_err(ending)?;
    off_thread(move || {
        let wrong = if leave_out_wrong { Wrong::LeftOut } else { Wrong::Refused };
        let log = read_log(&jobs, wrong).map_err(Error::from)?;
        let past =
            Past { now_s: log.last_s(), log, source: "\"jobs\"".to_owned(), is_live: false, default_partition: None };
        Ok(Json(QueueMade::of(&past, &question)?.answer()))
    })
    .await
}

fn silent(why: NoPast) -> Refusal {
    notice(&format!("Slurm's accounting: {}", one_line(&why)));
    let why =
        "Slurm's accounting says nothing to the controller, whose log says why; a log of jobs will do, as \"jobs\"";
    Refusal(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
}

pub(crate) fn unix_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn sides(store: &Store, role: &Role, asked: &CorunAsked) -> Result<Vec<CorunSide>, Refusal> {
    let is_together = asked.is_together();
    let alone = asked.alone_by_place()?;
    let alone = alone.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let side = |(at, (given, alone)): (usize, (&Given, Option<&Given>))| {
        let now = window_of(store, role, given)?;
        let alone = match alone {
            Some(alone) => Ok(window_of(store, role, alone)?),
            // A report's own job has a name of another store.
            None if is_together && given.window.is_some() => alone_stored(store, &now)?,
            None => Err(Unknown::NoneGiven),
        };
        let begins_s = at.checked_sub(1).and_then(|at| asked.offset_s.get(at).copied()).unwrap_or(0.0);
        let name = given.name.clone().or_else(|| given.window.clone());
        let name = name.unwrap_or_else(|| now.job.program.rsplit('/').next().unwrap_or_default().to_owned());
        let profile = match is_together {
            true => None,
            false => profile_kept(store, &now, &asked.on)?.map(|kept| kept.profile),
        };
        Ok(CorunSide { name, now, is_together, is_new: !is_together, alone, profile, met: Vec::new(), begins_s })
    };
    let all = asked.jobs.iter().chain(&asked.with).zip(alone).enumerate().map(side);
    let mut sides = all.collect::<Result<Vec<CorunSide>, Refusal>>()?;
    note_meetings(store, &mut sides, &asked.on)?;
    Ok(sides)
}

/// A report that came, or a window of a job that whoever asks may see.
fn window_of(store: &Store, role: &Role, given: &Given) -> Result<Report, Refusal> {
    if let Some(report) = &given.report {
        return Ok((**report).clone());
    }
    let text = given.window.as_deref().unwrap_or_default();
    let (job, number) = match text.rsplit_once('/') {
        Some((job, number)) => (job, Some(number)),
        None => (text, None),
    };
    let job = seen_by(store, role, job)?;
    let Some(number) = number else {
        return store.newest_window(Some(&job.id))?.ok_or_else(nothing_of_yours);
    };
    let number = number.parse().map_err(|_| Error::Question(format!("{text:?} is no window: give JOB or JOB/N")))?;
    Ok(store.window(&job.id, number)?)
}
