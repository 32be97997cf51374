//! Questions about data and routines on hosts and links over HTTP.
//!
//! Facts come with the question, or are the site's: hosts are asked at that moment through their agents; of a pair the newest
//! probe counts while it is young enough, else the pair is probed, one after the other.
//!
//! Next: `trimtab-forecasts` for questions and answers, `weather` for agents and probes; docs/api.md for the words.

use crate::asked::{Caller, Refusal, Shared, asker, of_store, off_thread, read};
use crate::foresight::unix_s;
use crate::said_as_facts::{host_of_agent, link_of_pair};
use crate::state::Controller;
use crate::weather::{probe, sensed};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_forecasts::grid::{Facts, Host, Plan};
use trimtab_forecasts::{
    CollectiveMade, CollectiveQuestion, CommAsked, Error, FactsFrom, GridAnswer, GridAsked, GridModels, LinkError,
    Links, PlaceAsked, PlanAsked, TotalAsked, newest_windows, stored_link,
};
use trimtab_store::Store;
use trimtab_types::notice;

/// Pairs that one question may have probed: each takes some seconds.
const PROBES_MAX: usize = 16;
/// No further probe begins once a question has waited so long for probes: clients give up after some ten seconds.
const PROBING_MAX: Duration = Duration::from_secs(4);
/// With so many links at most a short question is answered within a millisecond.
const SHORT_LINKS_MAX: usize = 32;

/// `POST /v1/forecasts/comm`.
pub(crate) async fn comm(state: Shared, caller: Caller, body: Bytes) -> Result<Json<GridAnswer>, Refusal> {
    answer::<CommAsked>(state, caller, body).await
}

/// `POST /v1/forecasts/total`.
pub(crate) async fn total(state: Shared, caller: Caller, body: Bytes) -> Result<Json<GridAnswer>, Refusal> {
    answer::<TotalAsked>(state, caller, body).await
}

/// `POST /v1/forecasts/place`.
pub(crate) async fn place(state: Shared, caller: Caller, body: Bytes) -> Result<Json<GridAnswer>, Refusal> {
    answer::<PlaceAsked>(state, caller, body).await
}

/// `POST /v1/forecasts/plan`.
pub(crate) async fn plan(state: Shared, caller: Caller, body: Bytes) -> Result<Json<GridAnswer>, Refusal> {
    answer::<PlanAsked>(state, caller, body).await
}

async fn answer<T: DeserializeOwned + Into<GridAsked>>(
    State(controller): Shared,
    caller: Caller,
    body: Bytes,
) -> Result<Json<GridAnswer>, Refusal> {
    asker(&caller)?;
    let mut asked: GridAsked = read::<T>(&body)?.into();
    let age_max_s = asked.age_max_s()?;
    let mut facts = Facts { age_max_s, ..Facts::default() };
    let facts_from = match asked.take_facts() {
        Some(given) => {
            facts.add_given(given, unix_s()).map_err(Error::from)?;
            FactsFrom::Question
        }
        None => {
            let state = controller.state();
            facts.hosts.extend(state.places.all().iter().map(|place| (place.host.clone(), Host::default())));
            FactsFrom::Site
        }
    };
    if facts_from == FactsFrom::Question {
        let is_short = facts.links.len() <= SHORT_LINKS_MAX;
        return of_store(controller, is_short && asked.is_short(), move |store| {
            let plan = asked.checked_plan(store, &facts)?;
            told(store, &asked, &plan, (&facts, facts_from))
        })
        .await;
    }
    let (asked, mut facts, plan) = of_store(controller.clone(), true, move |store| {
        let plan = asked.checked_plan(store, &facts)?;
        Ok((asked, facts, plan))
    })
    .await?;
    facts = of_site(&controller, facts, &plan).await?;
    of_store(controller, false, move |store| told(store, &asked, &plan, (&facts, facts_from))).await
}

fn told(
    store: &Store,
    asked: &GridAsked,
    plan: &Plan,
    facts: (&Facts, FactsFrom),
) -> Result<Json<GridAnswer>, Refusal> {
    let models = match asked {
        GridAsked::Comm(_) => GridModels::none(),
        _ => GridModels::of(store, None)?,
    };
    Ok(Json(asked.answer(plan, facts, &models, unix_s())?))
}

/// Adds all that a plan needs. Where it is lenient, a host or a pair that does not answer is left out.
async fn of_site(controller: &Arc<Controller>, mut facts: Facts, plan: &Plan) -> Result<Facts, Refusal> {
    let is_lenient = plan.is_lenient;
    let left_out = |refusal: Refusal| match is_lenient {
        true => {
            notice(&format!("left out of a ranking of hosts: {}", refusal.1));
            Ok(())
        }
        false => Err(refusal),
    };
    let hosts: Vec<String> = plan.hosts().into_iter().filter(|host| facts.knows(host)).collect();
    for host in hosts {
        let (asked, name) = (controller.clone(), host.clone());
        match off_thread(move || sensed(&asked, &name, 0)).await {
            Ok(said) => facts.add_host(&host, host_of_agent(&said)),
            Err(refusal) => left_out(refusal)?,
        }
    }
    let known = plan.pairs().into_iter().filter(|(from, to)| facts.knows(from) && facts.knows(to));
    let mut missing = Vec::new();
    for (from, to) in known.collect::<Vec<(String, String)>>() {
        let (names, age_max_s) = ((from.clone(), to.clone()), facts.age_max_s);
        let found = of_store(controller.clone(), true, move |store| {
            Ok(stored_link(store, (&names.0, &names.1), unix_s(), age_max_s)?)
        });
        match found.await? {
            Some(link) => facts.add_link(link),
            None => missing.push((from, to)),
        }
    }
    if missing.len() > PROBES_MAX {
        let why = format!(
            "{} pairs of hosts would have to be probed, and one question may have {PROBES_MAX} probed: name fewer hosts, or probe \
             pairs before with POST /v1/weather/HOST/to/PEER",
            missing.len()
        );
        return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    let found = in_turn(&missing, PROBING_MAX, |(from, to)| async move {
        match probe(controller, from.clone(), to.clone()).await {
            Ok(found) => Ok(Some(link_of_pair(from, to, &found))),
            Err(refusal) => left_out(refusal).map(|()| None),
        }
    });
    found.await?.into_iter().flatten().for_each(|link| facts.add_link(link));
    Ok(facts)
}

/// Does something for each of these, one after the other; once that has taken `at_most`, those that are left are refused for now.
async fn in_turn<'a, T, L, F>(
    all: &'a [T],
    at_most: Duration,
    mut done: impl FnMut(&'a T) -> F,
) -> Result<Vec<L>, Refusal>
where
    F: Future<Output = Result<L, Refusal>>,
{
    let begun = Instant::now();
    let mut found = Vec::new();
    for one in all {
        if !found.is_empty() && begun.elapsed() >= at_most {
            let why = format!(
                "{} of {} pairs of hosts that no young probe tells of have been probed now: ask again, and the rest is",
                found.len(),
                all.len()
            );
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        found.push(done(one).await?);
    }
    Ok(found)
}

/// `POST /v1/forecasts/collective`.
pub(crate) async fn collective(
    State(controller): Shared,
    caller: Caller,
    body: Bytes,
) -> Result<Json<CollectiveMade>, Refusal> {
    asker(&caller)?;
    let asked = read::<CollectiveQuestion>(&body)?.asked()?;
    off_thread(move || {
        let windows = newest_windows(|| controller.store())?;
        let made = CollectiveMade::of(&asked, &Links::of(&windows)).map_err(|error| match error {
            // Windows are of all users: which hosts they are on is in no answer.
            LinkError::NoHost { host, .. } => Error::Unknown(format!(
                "nothing is known of {host:?}: no window of such an MPI library has a rank on it"
            )),
            error => error.into(),
        })?;
        Ok(Json(made))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_waited_too_long_is_to_be_asked_again() {
        let twice = |number: &u32| std::future::ready(Ok(2 * number));
        let all = in_turn(&[1, 2, 3], Duration::from_secs(600), twice).await;
        assert_eq!(all.ok(), Some(vec![2, 4, 6]));
        let Err(Refusal(status, why)) = in_turn(&[1, 2, 3], Duration::ZERO, twice).await else { panic!("it went on") };
        assert!(status == StatusCode::SERVICE_UNAVAILABLE && why.starts_with("1 of 3 pairs"), "{why}");
        // One probe is always made: questions come to their end.
        assert_eq!(in_turn(&[1], Duration::ZERO, twice).await.ok(), Some(vec![2]));
    }
}
