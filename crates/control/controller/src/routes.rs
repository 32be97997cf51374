//! Requests about the tree, agents and windows.
//!
//! The caller's role is what their certificate says; nothing in a request can change it.
//!
//! Next: `table` for all requests, `kept` for jobs and reports, `calls` for who waits for a call; `trimtab_site::api` for the words.

use crate::asked::{Caller, Refusal, Shared, agent, off_thread, person, read};
use crate::counts::WindowCount;
use crate::places::AgentPlace;
use crate::state::Controller;
use crate::windows::{Denied, Windows};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;
use trimtab_reduce::RankSet;
use trimtab_site::Notice;
use trimtab_site::api::{
    Begun, Enrol, Health, Member, Order, Outcome, Placed, RevokedList, SCHEMA, Service, Tree, Wanted, WindowState,
};
use trimtab_types::{Rank, notice};

pub(crate) async fn enrol(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<Placed>, Refusal> {
    let host = agent(&caller)?;
    let Enrol { version, port, start } = read(&body)?;
    if version != own_version() {
        let what = format!("this controller is version {}, the agent {version}: run the same on both", own_version());
        return Err(Refusal(StatusCode::CONFLICT, what));
    }
    let place = AgentPlace { host: host.to_owned(), address: SocketAddr::new(caller.address.ip(), port), start };
    let asked = controller.clone();
    let members = off_thread(move || Ok(asked.root().members())).await?;
    let beside = controller.state().places.connected_beside(&place, &members);
    if let Some(why) = beside {
        // Each would push the other one out of the tree, again and again.
        notice(&why);
        return Err(Refusal(StatusCode::CONFLICT, why));
    }
    let address = place.address;
    let mut state = controller.state();
    let index = state.places.take(place).ok_or_else(|| {
        Refusal(StatusCode::SERVICE_UNAVAILABLE, "there are as many agents as one controller may have".to_owned())
    })?;
    let (tree, ancestors) = (state.places.tree(), state.places.above(index));
    drop(state);
    notice(&format!("the agent of {host} is number {index}, at {address}"));
    Ok(Json(Placed { tree, index, root_port: controller.tree_port, ancestors }))
}

pub(crate) async fn revoked(State(controller): Shared, caller: Caller) -> Result<Json<RevokedList>, Refusal> {
    agent(&caller)?;
    Ok(Json(RevokedList { list: controller.revoked.as_ref().and_then(|revoked| revoked.text()) }))
}

pub(crate) async fn tree(State(controller): Shared, caller: Caller) -> Result<Json<Tree>, Refusal> {
    person(&caller)?;
    let asked = controller.clone();
    let answers = off_thread(move || {
        let mut root = asked.root();
        let members = root.members();
        let answers = root.notify(&Notice::Health, members.clone());
        Ok((members, answers?, root.child_count(), root.trouble()))
    });
    let (members, answers, children, trouble) = answers.await?;
    let state = controller.state();
    let agents = state.places.all().iter().enumerate();
    let agents = agents.map(|(index, place)| {
        let answer = answers.get(&(index as u32));
        let health = answer.and_then(|answer| postcard::from_bytes::<Health>(&answer.bytes).ok());
        Member {
            index: index as u32,
            host: place.host.clone(),
            address: place.address,
            connected: members.contains(Rank(index as u32)),
            round_trip_us: answer.filter(|_| health.is_some()).map(|answer| answer.round_trip_us),
            health,
        }
    });
    let agents: Vec<Member> = agents.collect();
    let survived = agents.iter().filter_map(|agent| agent.health.as_ref());
    let failures_survived = survived.map(|health| health.failures_survived).sum();
    let controller = Service {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: own_version().to_owned(),
        up_s: controller.began.elapsed().as_secs(),
        children: children as u32,
        windows: state.windows.count() as u32,
        trouble,
    };
    Ok(Json(Tree { schema: SCHEMA, controller, agents, failures_survived }))
}

pub(crate) async fn begin(State(controller): Shared, caller: Caller, body: Bytes) -> Result<Json<Begun>, Refusal> {
    person(&caller)?;
    let wanted: Wanted = read(&body)?;
    off_thread(move || {
        let begun = begin_window(&controller, wanted, |windows, wanted, hosts| {
            windows.begin(&caller.role, wanted, hosts, Instant::now())
        })?;
        notice(&format!("window {} of {} from {}", begun.id, caller.role, caller.address));
        Ok(Json(begun))
    })
    .await
}

/// Takes a window in by `begin`, and notifies the agents of its nodes.
pub(crate) fn begin_window(
    controller: &Controller,
    wanted: Wanted,
    begin: impl FnOnce(&mut Windows, Wanted, BTreeMap<String, String>) -> Result<u64, Denied>,
) -> Result<Begun, Refusal> {
    let members = controller.root().members();
    let (id, missing, ranks) = {
        let mut state = controller.state();
        let found = |name: &String| {
            let index = state.places.find(name).filter(|index| members.contains(Rank(*index)))?;
            Some((index, state.places.all().get(index as usize)?.host.clone()))
        };
        let found: Vec<(String, Option<(u32, String)>)> =
            wanted.nodes.iter().map(|name| (name.clone(), found(name))).collect();
        let missing = found.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| name.clone()).collect();
        let ranks: Vec<RankSet> =
            found.iter().filter_map(|(_, found)| Some(RankSet::one(Rank(found.as_ref()?.0)))).collect();
        let hosts = found.into_iter().filter_map(|(name, found)| Some((name, found?.1)));
        let hosts: BTreeMap<String, String> = hosts.collect();
        let begun = begin(&mut state.windows, wanted, hosts);
        controller.counts.window(if begun.is_ok() { WindowCount::Begun } else { WindowCount::Refused });
        (begun?, missing, RankSet::union_of(&ranks))
    };
    controller.root().notify(&Notice::Window(id), ranks)?;
    Ok(Begun { id, missing })
}

pub(crate) async fn window(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<WindowState>, Refusal> {
    person(&caller)?;
    Ok(Json(controller.state().windows.state(id, &caller.role, Instant::now())?))
}

pub(crate) async fn end(State(controller): Shared, caller: Caller, Path(id): Path<u64>) -> Result<(), Refusal> {
    person(&caller)?;
    Ok(controller.state().windows.end(id, &caller.role)?)
}

pub(crate) async fn order(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<Order>, Refusal> {
    let host = agent(&caller)?;
    Ok(Json(controller.state().windows.order(id, host, Instant::now())?))
}

pub(crate) async fn outcome(
    State(controller): Shared,
    caller: Caller,
    Path(id): Path<u64>,
    body: Bytes,
) -> Result<(), Refusal> {
    let host = agent(&caller)?;
    let Outcome { refused, owner } = read(&body)?;
    if let Some(why) = &refused {
        notice(&format!("window {id} is refused on {host}: {why}"));
    }
    let what = if refused.is_some() { WindowCount::RefusedByNode } else { WindowCount::Started };
    controller.state().windows.outcome(id, host, refused.map_or(Ok(owner), Err))?;
    controller.counts.window(what);
    Ok(())
}

/// The version that controller and agents must have in common.
pub fn own_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
