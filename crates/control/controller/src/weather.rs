//! The weather of hosts, as their agents sense it, and probes of the network between two of them.
//!
//! An agent is notified of a probe through the tree, which grants nothing: it asks for the order here, with its certificate. The
//! answering agent's secret goes to the asking agent only. The site's store keeps the results.
//!
//! Next: `trimtab_site::weather` for the words; the agents' side is in `trimtab-standing`.

use crate::asked::{Caller, Refusal, Shared, agent, off_thread, person, read};
use crate::probes::{PROBE_COUNT_MAX, PROBE_MAX};
use crate::state::Controller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;
use trimtab_reduce::RankSet;
use trimtab_site::Notice;
use trimtab_site::weather::{AgentWeather, HostWeather, PairFound, ProbeOrder, ProbeOutcome};
use trimtab_store::{History, SeriesName, SeriesValue};
use trimtab_types::{Rank, notice, one_line};

/// Bytes that a probe may spend.
const PROBE_BYTES_MAX: u64 = 8 << 20;
/// Earlier probes of a pair that say how long one takes.
const TOOK_COUNT_MAX: u32 = 32;
const TOOK: &str = "probe_took_s";

/// `GET /v1/weather/HOST/NICE`.
pub(crate) async fn host(
    State(controller): Shared,
    caller: Caller,
    Path((host, nice)): Path<(String, i32)>,
) -> Result<Json<HostWeather>, Refusal> {
    person(&caller)?;
    if !(-20..=19).contains(&nice) {
        return Err(Refusal(StatusCode::BAD_REQUEST, format!("there is no nice level {nice}: from -20 to 19")));
    }
    off_thread(move || Ok(Json(sensed(&controller, &host, nice)?))).await
}

/// A host's weather, asked now and kept; on a thread that may wait.
pub(crate) fn sensed(controller: &Controller, host: &str, nice: i32) -> Result<HostWeather, Refusal> {
    let (host, _, said) = ask(controller, host, nice)?;
    let weather = said.weather.ok_or_else(|| young(&host))?;
    keep(controller, &weather);
    Ok(weather)
}

/// `POST /v1/weather/HOST/to/PEER`.
pub(crate) async fn pair(
    State(controller): Shared,
    caller: Caller,
    Path((host, peer)): Path<(String, String)>,
) -> Result<Json<PairFound>, Refusal> {
    person(&caller)?;
    probe(&controller, host, peer).await.map(Json)
}

/// Has a pair probed, waits for it, and keeps the result.
pub(crate) async fn probe(controller: &Arc<Controller>, host: String, peer: String) -> Result<PairFound, Refusal> {
    let (asked, controller) = (controller.clone(), controller.clone());
    let (host, peer, id, ended) = off_thread(move || begin(&asked, &host, &peer)).await?;
    let _in_time = tokio::time::timeout(PROBE_MAX, ended.notified()).await;
    let outcome = controller.probes().take(id);
    let Some(outcome) = outcome else {
        let seconds = PROBE_MAX.as_secs();
        let why = format!("the agent of {host} has not said anything of its probe to {peer} for {seconds} s");
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let Some(found) = outcome.found else {
        let why = outcome.why_not.unwrap_or_else(|| "without a reason".to_owned());
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, format!("from {host} to {peer}: {why}")));
    };
    off_thread(move || {
        keep_pair(&controller, &host, &peer, &found);
        Ok(found)
    })
    .await
}

/// `GET /v1/probes/ID/order`.
pub(crate) async fn order(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<ProbeOrder>, Refusal> {
    let host = agent(&caller)?;
    controller.probes().order(id, host).map(Json).ok_or_else(no_probe)
}

/// `POST /v1/probes/ID/outcome`.
pub(crate) async fn outcome(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
    body: Bytes,
) -> Result<(), Refusal> {
    let host = agent(&caller)?;
    let outcome: ProbeOutcome = read(&body)?;
    controller.probes().outcome(id, host, outcome).ok_or_else(no_probe)
}

fn no_probe() -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "no probe of yours goes on under this number".to_owned())
}

fn young(host: &str) -> Refusal {
    let why = format!("the agent of {host} has not looked twice yet: try again in 10 s");
    Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// The agent of a host: the host's name and address, and what it says.
fn ask(controller: &Controller, name: &str, nice: i32) -> Result<(String, SocketAddr, AgentWeather), Refusal> {
    let known = {
        let state = controller.state();
        let index = state.places.find(name);
        index.and_then(|index| Some((index, state.places.all().get(index as usize)?.clone())))
    };
    let Some((index, place)) = known else {
        let why = format!("unknown host: {name}; `trimtab tree` lists the hosts whose agents have called");
        return Err(Refusal(StatusCode::NOT_FOUND, why));
    };
    let answers = controller.root().notify(&Notice::Weather { nice }, RankSet::one(Rank(index)))?;
    let said = answers.get(&index).and_then(|answer| postcard::from_bytes(&answer.bytes).ok());
    let said = said.ok_or_else(|| {
        let why = format!("the agent of {} did not answer; `trimtab tree` shows how it is", place.host);
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    Ok((place.host, place.address, said))
}

fn begin(controller: &Controller, host: &str, peer: &str) -> Result<(String, String, u64, Arc<Notify>), Refusal> {
    let (host, ..) = ask(controller, host, 0)?;
    let (peer, address, said) = ask(controller, peer, 0)?;
    if host == peer {
        return Err(Refusal(StatusCode::BAD_REQUEST, format!("{host} to itself is no network")));
    }
    let Some((port, secret)) = said.answers else {
        let why = format!("the agent of {peer} can't answer probes; its log says why");
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let series = SeriesName { host: host.clone(), peer: Some(peer.clone()), figure: TOOK.to_owned() };
    let took = controller.store().values(&series, TOOK_COUNT_MAX)?;
    let order = ProbeOrder {
        address: SocketAddr::new(address.ip(), port).to_string(),
        secret,
        bytes_max: PROBE_BYTES_MAX,
        took_s: took.iter().map(|one| one.value).collect(),
    };
    let begun = controller.probes().begin(&host, order, Instant::now());
    let (id, ended) = begun.ok_or_else(|| {
        let why = format!("{PROBE_COUNT_MAX} probes go on, as many as may: try again");
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    let index = controller.state().places.find(&host);
    let target = index.map_or(RankSet::EMPTY, |index| RankSet::one(Rank(index)));
    controller.root().notify(&Notice::Probe(id), target)?;
    Ok((host, peer, id, ended))
}

/// A value that can't be kept does not keep the answer from who asks.
fn keep(controller: &Controller, weather: &HostWeather) {
    let value = |figure: &trimtab_site::weather::HostFigure| {
        let name = match figure.key.as_str() {
            "cpu_share" => format!("cpu_share nice {}", weather.nice),
            key => key.to_owned(),
        };
        let series = SeriesName { host: weather.host.clone(), peer: None, figure: name };
        Some((series, SeriesValue { at_unix_s: weather.made_unix_s, value: figure.value? }))
    };
    let values: Vec<_> = weather.figures.iter().filter_map(value).collect();
    if let Err(error) = controller.store().note_values(&values) {
        notice(&format!("weather of {} is not kept: {}", weather.host, one_line(&error)));
    }
}

fn keep_pair(controller: &Controller, host: &str, peer: &str, found: &PairFound) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let figures =
        [("latency_s", found.latency_s), ("bandwidth_bytes_per_s", found.bandwidth_bytes_per_s), (TOOK, found.took_s)];
    let value = |(figure, value): (&str, f64)| {
        let series = SeriesName { host: host.to_owned(), peer: Some(peer.to_owned()), figure: figure.to_owned() };
        (series, SeriesValue { at_unix_s: now.as_secs_f64(), value })
    };
    if let Err(error) = controller.store().note_values(&figures.map(value)) {
        notice(&format!("the network from {host} to {peer} is not kept: {}", one_line(&error)));
    }
}
