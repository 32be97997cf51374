//! All requests of the API: path, method, who may, what is asked and answered, and what answers it. Routes and docs/openapi.json
//! are both made of this one table, so that neither can lack what the other has.
//!
//! Next: `route` for one of them; `openapi`, which writes all down.

use crate::asked::{Caller, Refusal, asker};
use crate::metrics::count_forecasts;
use crate::openapi::document;
use crate::route::{Route, deleting, getting, posting};
use crate::routes::{begin, end, enrol, order, outcome, revoked, tree, window};
use crate::state::Controller;
use crate::{calls, foresight, grid, kept, measuring, metrics, pairs, weather, words_of_users};
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;
use trimtab_forecasts::{
    CollectiveMade, CollectiveQuestion, CommAsked, CorunAnswer, CorunAsked, GridAnswer, JobAnswer, JobAsked,
    ModelNamed, PairTable, PlaceAsked, PlanAsked, ProfileNamed, QueueAnswer, QueueAsked, SizeAnswer, SizeAsked,
    TotalAsked,
};
use trimtab_site::api::{BODY_BYTES_MAX, Begun, Enrol, Order, Outcome, Placed, RevokedList, Tree, Wanted, WindowState};
use trimtab_site::jobs::{
    ArgumentsKept, Awaited, Awaiting, Filed, Filing, Heard, JobWindows, Jobs, Trigger, Triggered,
};
use trimtab_site::measured::{Acceptances, Measurement, WindowAsked};
use trimtab_site::weather::{HostWeather, PairFound, ProbeOrder, ProbeOutcome};

/// Those who may, as the document says it.
const PEOPLE: &str = "users, administrators";
const AGENTS: &str = "agents of nodes";
const OWNER: &str = "the job's owner, administrators";
const ACCEPTED: &str = "the job's owner, administrators, schedulers that the owner accepted";
const ASKERS: &str = "users, administrators, schedulers";
const BEGINNER: &str = "whoever began it";

/// The API as it is served.
pub(crate) fn routes(controller: Arc<Controller>) -> Router {
    let all = table().into_iter();
    all.fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(nothing)
        .layer(from_fn_with_state(controller.clone(), count_forecasts))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(controller)
}

async fn nothing() -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "there is no such thing; docs/api.md lists what can be asked".to_owned())
}

/// The API as an OpenAPI 3.1 document: docs/openapi.json.
pub fn openapi() -> Value {
    document(&table())
}

/// `GET /v1/openapi.json`.
async fn show(caller: Caller) -> Result<Json<Value>, Refusal> {
    asker(&caller)?;
    Ok(Json(openapi()))
}

/// All of them.
pub(crate) fn table() -> Vec<Route> {
    [site(), windows(), jobs(), measurements(), arguments(), weather(), forecasts(), grid_forecasts()]
        .into_iter()
        .flatten()
        .collect()
}

fn site() -> Vec<Route> {
    vec![
        getting("/v1/openapi.json", ASKERS, "This description.", show),
        getting("/metrics", ASKERS, "What the site does, in the text format of Prometheus.", metrics::show)
            .answers_text(),
        getting("/v1/tree", PEOPLE, "The tree of agents, asked at that moment.", tree).answers::<Tree>(),
        posting("/v1/agents", AGENTS, "An agent reports for duty.", enrol).asks::<Enrol>().answers::<Placed>(),
        getting("/v1/revoked", AGENTS, "The signed list of revoked certificates.", revoked).answers::<RevokedList>(),
    ]
}

fn windows() -> Vec<Route> {
    vec![
        posting("/v1/windows", PEOPLE, "A window wants agents on nodes.", begin).asks::<Wanted>().answers::<Begun>(),
        getting("/v1/windows/{id}", BEGINNER, "How its nodes' agents stand.", window).answers::<WindowState>(),
        deleting("/v1/windows/{id}", BEGINNER, "It is over.", end),
        getting("/v1/windows/{id}/order", "agents of its nodes, once each", "Whom to start what for.", order)
            .answers::<Order>(),
        posting("/v1/windows/{id}/outcome", "agents of its nodes", "What came of an order.", outcome).asks::<Outcome>(),
        posting("/v1/windows/{id}/report", "whoever began it, once", "Keep its report.", kept::file)
            .asks::<Filing>()
            .answers::<Filed>(),
    ]
}

fn jobs() -> Vec<Route> {
    vec![
        getting("/v1/jobs", "users: their own; administrators: all", "Jobs whose windows are kept.", kept::jobs)
            .answers::<Jobs>(),
        getting("/v1/jobs/{job}", ACCEPTED, "A job and its windows.", kept::job).answers::<JobWindows>(),
        getting("/v1/jobs/{job}/windows/{window}", ACCEPTED, "A window's report.", kept::report).answers_report(),
        posting("/v1/jobs/{job}/trigger", OWNER, "Has whoever waits for the job measure a window now.", calls::trigger)
            .asks::<Trigger>()
            .answers::<Triggered>(),
        posting("/v1/waits", "users for their own jobs, administrators", "Wait for calls.", calls::begin)
            .asks::<Awaiting>()
            .answers::<Awaited>()
            .example(json!({ "names": ["4711"] })),
        getting("/v1/waits/{id}", "whoever waits", "The call that came; held for up to 5 s.", calls::listen)
            .answers::<Heard>(),
        deleting("/v1/waits/{id}", "whoever waits", "Wait no more.", calls::end),
    ]
}

fn arguments() -> Vec<Route> {
    let how = "users, administrators: of themselves";
    vec![
        getting("/v1/arguments", how, "If one's arguments are kept as they are.", words_of_users::arguments)
            .answers::<ArgumentsKept>(),
        posting(
            "/v1/arguments",
            how,
            "Keep them so, or as hashes, those kept already too.",
            words_of_users::keep_arguments,
        )
        .asks::<ArgumentsKept>(),
    ]
}

fn measurements() -> Vec<Route> {
    let begin =
        "Has a window of the job measured now, in its owner's name; the answer comes at once, or when it is over.";
    vec![
        posting("/v1/jobs/{job}/windows", ACCEPTED, begin, measuring::begin)
            .asks::<WindowAsked>()
            .answers::<Measurement>()
            .example(json!({ "iterations": 20, "ranks": "0-3" })),
        getting(
            "/v1/measurements/{id}",
            "whoever asked for it, the job's owner, administrators",
            "How such a window stands; held for up to 5 s while it goes on.",
            measuring::show,
        )
        .answers::<Measurement>(),
        deleting(
            "/v1/measurements/{id}",
            "whoever asked for it, the job's owner, administrators",
            "End such a window early, with what was recorded.",
            measuring::end,
        ),
        getting(
            "/v1/schedulers",
            "users: whom they accepted; schedulers: who accepted them; administrators: all",
            "Accepted schedulers.",
            words_of_users::list,
        )
        .answers::<Acceptances>(),
        posting("/v1/schedulers/{uid}", PEOPLE, "Accept a scheduler, for oneself.", words_of_users::accept),
        deleting("/v1/schedulers/{uid}", PEOPLE, "Accept it no more.", words_of_users::withdraw),
    ]
}

fn weather() -> Vec<Route> {
    vec![
        getting(
            "/v1/weather/{host}/{nice}",
            PEOPLE,
            "What a new process would get there, now and soon.",
            weather::host,
        )
        .answers::<HostWeather>(),
        posting("/v1/weather/{host}/to/{peer}", PEOPLE, "The network, probed now; held for up to 9 s.", weather::pair)
            .answers::<PairFound>(),
        getting("/v1/probes/{id}/order", "the agent of its host, once", "Whom to probe.", weather::order)
            .answers::<ProbeOrder>(),
        posting("/v1/probes/{id}/outcome", "the agent of its host", "What came of a probe.", weather::outcome)
            .asks::<ProbeOutcome>(),
    ]
}

fn forecasts() -> Vec<Route> {
    let corun = "How much slower each of several jobs is beside the others and who ends when, or who would be the better partner.";
    vec![
        posting(
            "/v1/forecasts/job",
            ACCEPTED,
            "When a running job ends, from its kept windows and earlier runs.",
            foresight::job,
        )
        .asks::<JobAsked>()
        .answers::<JobAnswer>()
        .example(json!({ "job": "ring-1", "newest_s": 86400 })),
        posting(
            "/v1/forecasts/corun",
            "users for their own jobs and reports, administrators, schedulers for jobs of who accepted them",
            corun,
            foresight::together,
        )
        .asks::<CorunAsked>()
        .answers::<CorunAnswer>()
        .example(json!({
            "jobs": [{ "window": "ring-1/0" }, { "window": "ring-1/1", "name": "the other" }],
            "alone": [{ "job": "A", "window": "ring-1/1" }],
        })),
        posting("/v1/forecasts/comp", ASKERS, "How long a routine takes at given sizes on a host.", foresight::comp)
            .asks::<SizeAsked>()
            .answers::<SizeAnswer>()
            .example(json!({ "model": "sort", "host": "n1", "args": { "n": 3000 } })),
        posting("/v1/forecasts/size", ASKERS, "How much memory a routine needs at given sizes.", foresight::size)
            .asks::<SizeAsked>()
            .answers::<SizeAnswer>()
            .example(json!({ "model": "sort", "host": "n1", "args": { "n": 3000 } })),
        posting("/v1/forecasts/queue", ASKERS, "When Slurm would start a job that is submitted now.", foresight::queue)
            .asks::<QueueAsked>()
            .answers::<QueueAnswer>()
            .example(json!({ "nodes": 4, "time_s": 7200, "jobs": queue_log() })),
        posting("/v1/models", "administrators", "Keep a model of a routine for all.", foresight::model)
            .asks::<ModelNamed>(),
        posting("/v1/profiles", "administrators", "Keep a program's answer to pressure for all.", foresight::profile)
            .asks::<ProfileNamed>(),
    ]
}

fn grid_forecasts() -> Vec<Route> {
    let facts = json!({
        "version": 1,
        "hosts": { "n1": { "cpu_share": 1, "memory_free_bytes": 8e9 }, "n2": { "cpu_share": 0.5, "memory_free_bytes": 8e9 } },
        "links": [{ "from": "n1", "to": "n2", "bandwidth_bytes_per_s": 1e8, "latency_s": 1e-4, "both_ways": true }],
    });
    let run =
        |host: &str| json!({ "name": host, "steps": [{ "run": "sort", "on": host, "seconds": 2, "takes": ["A"] }] });
    vec![
        posting("/v1/forecasts/comm", ASKERS, "How long data take to a host.", grid::comm)
            .asks::<CommAsked>()
            .answers::<GridAnswer>()
            .example(json!({ "data": { "A": "dense:double:4096x4096@n1" }, "to": "n2", "facts": facts })),
        posting("/v1/forecasts/total", ASKERS, "How long a routine takes on a host, with its data.", grid::total)
            .asks::<TotalAsked>()
            .answers::<GridAnswer>()
            .example(json!({
                "model": "sort", "host": "n1", "args": { "n": "A.length" }, "data": { "A": "vector:double:3000@n2" }, "facts": facts,
            })),
        posting("/v1/forecasts/place", ASKERS, "On which host a routine ends first.", grid::place)
            .asks::<PlaceAsked>()
            .answers::<GridAnswer>()
            .example(json!({
                "model": "sort", "args": { "n": 3000 }, "data": { "A": "vector:double:3000@n2" }, "on": ["n1"], "facts": facts,
            })),
        posting("/v1/forecasts/plan", ASKERS, "Which of several plans ends first.", grid::plan)
            .asks::<PlanAsked>()
            .answers::<GridAnswer>()
            .example(json!({
                "plan": {
                    "version": 1, "data": { "A": "vector:double:1000000@n1" }, "alternatives": [run("n1"), run("n2")],
                },
                "facts": facts,
            })),
        posting(
            "/v1/forecasts/collective",
            ASKERS,
            "How long a collective takes on hosts, by windows of all jobs.",
            grid::collective,
        )
        .asks::<CollectiveQuestion>()
        .answers::<CollectiveMade>(),
        getting(
            "/v1/pairs",
            "users: of their own jobs; schedulers: of jobs of who accepted them; administrators: of all",
            "Who slows whom by how much, and which pairs get on best, by kept windows.",
            pairs::pairs,
        )
        .answers::<PairTable>(),
    ]
}

/// A short past: jobs that waited ten seconds each.
fn queue_log() -> String {
    let job = |at: u32| {
        let submitted = 1_795_000_000 + 600 * at;
        format!("{at}|{submitted}|{}|{}|4|7200|batch|COMPLETED\n", submitted + 10, submitted + 310)
    };
    let lines: String = (0..3).map(job).collect();
    format!("JobID|Submit|Start|End|NNodes|TimelimitRaw|Partition|State\n{lines}")
}
