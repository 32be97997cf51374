//! Laws that hold for any links, transfers and plans.
//!
//! Next: `fast` for the examples of the paper.

use crate::fast::{Nobody, link};
use crate::path::{Edge, best};
use crate::run::{Load, Ran, Task, run};
use crate::share::rates;
use crate::{Alternative, Data, Facts, Plan, Step, compare};
use proptest::prelude::*;
use std::collections::BTreeMap;

const HOSTS: usize = 6;

fn edges() -> impl Strategy<Value = Vec<Edge>> {
    let edge = (0..HOSTS, 0..HOSTS, 0.0..1.0_f64, 1_u32..20).prop_map(|(from, to, latency_s, rate)| Edge {
        from,
        to,
        latency_s,
        bytes_per_s: f64::from(rate),
    });
    prop::collection::vec(edge, 0..14)
}

/// The best time over all ways without a circle.
fn by_trying_all(edges: &[Edge], from: usize, to: usize, bytes: f64) -> Option<f64> {
    fn go(edges: &[Edge], seen: &mut Vec<usize>, to: usize, (latency_s, rate): (f64, f64), bytes: f64) -> Option<f64> {
        let at = seen[seen.len() - 1];
        if at == to {
            return Some(latency_s + bytes / rate);
        }
        let mut least: Option<f64> = None;
        for edge in edges.iter().filter(|edge| edge.from == at) {
            if seen.contains(&edge.to) {
                continue;
            }
            seen.push(edge.to);
            let found = go(edges, seen, to, (latency_s + edge.latency_s, rate.min(edge.bytes_per_s)), bytes);
            seen.pop();
            least = least.into_iter().chain(found).reduce(f64::min);
        }
        least
    }
    go(edges, &mut vec![from], to, (0.0, f64::INFINITY), bytes)
}

fn flows() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<f64>)> {
    let through = prop::collection::btree_set(0..5_usize, 1..4).prop_map(|set| set.into_iter().collect());
    (prop::collection::vec(through, 1..7), prop::collection::vec(0.5..50.0_f64, 5))
}

fn transfer(at: usize, through: Vec<usize>, bytes: f64, latency_s: f64) -> Task {
    Task { load: Load::Transfer { ends: (at % 3, at % 2), through, latency_s, bytes }, after: Vec::new() }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

proptest! {
    #[test]
    fn the_best_way_is_that_of_trying_all(edges in edges(), from in 0..HOSTS, to in 0..HOSTS, bytes in 0.0..50.0_f64) {
        prop_assume!(from != to);
        let (found, all) = (best(&edges, HOSTS, from, to, bytes), by_trying_all(&edges, from, to, bytes));
        prop_assert_eq!(found.is_some(), all.is_some());
        if let (Some(found), Some(all)) = (found, all) {
            prop_assert!(near(found.seconds, all), "{found:?} {all}");
            // Bandwidth is the minimum, latency the sum, of links that hang together.
            let way: Vec<Edge> = found.edges.iter().map(|at| edges[*at]).collect();
            prop_assert!(way[0].from == from && way[way.len() - 1].to == to);
            prop_assert!(way.windows(2).all(|pair| pair[0].to == pair[1].from));
            let rate = way.iter().map(|edge| edge.bytes_per_s).fold(f64::INFINITY, f64::min);
            prop_assert!(near(found.seconds, way.iter().map(|edge| edge.latency_s).sum::<f64>() + bytes / rate));
        }
    }

    #[test]
    fn nothing_lets_more_through_than_it_can_and_nobody_could_have_more((flows, capacities) in flows()) {
        let through: Vec<&[usize]> = flows.iter().map(Vec::as_slice).collect();
        let rates = rates(&through, &capacities);
        let load = |thing: usize| -> f64 {
            flows.iter().zip(&rates).filter(|(flow, _)| flow.contains(&thing)).map(|(_, rate)| rate).sum()
        };
        for (thing, capacity) in capacities.iter().enumerate() {
            prop_assert!(load(thing) <= capacity * (1.0 + 1e-9));
        }
        for (flow, rate) in flows.iter().zip(&rates) {
            // Somewhere on its way all is full, and nobody there has more.
            let is_held = flow.iter().any(|thing| {
                let most = flows.iter().zip(&rates).filter(|(other, _)| other.contains(thing));
                near(load(*thing), capacities[*thing]) && most.map(|(_, rate)| *rate).fold(0.0, f64::max) <= rate * (1.0 + 1e-9)
            });
            prop_assert!(*rate > 0.0 && is_held, "{flows:?} {capacities:?} {rates:?}");
        }
    }

    #[test]
    fn sharing_conserves_bytes(
        (flows, capacities) in flows(),
        sizes in prop::collection::vec((0.1..100.0_f64, 0.0..2.0_f64), 7),
        in_turn in any::<bool>(),
    ) {
        let made = flows.iter().zip(&sizes).enumerate();
        let tasks: Vec<Task> = made.map(|(at, (flow, size))| transfer(at, flow.clone(), size.0, size.1)).collect();
        let ran = run(&tasks, &capacities, in_turn);
        for (one, size) in ran.iter().zip(&sizes) {
            prop_assert!(near(one.bytes, size.0) && one.ends_s >= one.begins_s + size.1, "{one:?} {size:?}");
        }
        let end = ran.iter().map(|one| one.ends_s).fold(0.0, f64::max);
        for (thing, capacity) in capacities.iter().enumerate() {
            let bytes: f64 = flows.iter().zip(&sizes).filter(|(flow, _)| flow.contains(&thing)).map(|(_, size)| size.0).sum();
            prop_assert!(bytes <= capacity * end * (1.0 + 1e-9), "no more than it could let through in that time");
        }
        // One after another is never faster.
        let slowest = |flow: &[usize]| flow.iter().map(|thing| capacities[*thing]).fold(f64::INFINITY, f64::min);
        let one_by_one: f64 = flows.iter().zip(&sizes).map(|(flow, size)| size.1 + size.0 / slowest(flow)).sum();
        prop_assert!(end <= one_by_one * (1.0 + 1e-9));
    }

    #[test]
    fn tasks_begin_after_those_they_need(seconds in prop::collection::vec((0.0..5.0_f64, 0..6_usize), 1..8)) {
        let after = |at: usize, before: usize| if at > 0 { vec![before % at] } else { Vec::new() };
        let made = seconds.iter().enumerate();
        let tasks: Vec<Task> = made
            .map(|(at, (seconds, before))| Task { load: Load::Compute { seconds: *seconds }, after: after(at, *before) })
            .collect();
        let ran: Vec<Ran> = run(&tasks, &[], false);
        for (task, one) in tasks.iter().zip(&ran) {
            let begins = task.after.iter().map(|before| ran[*before].ends_s).fold(0.0, f64::max);
            prop_assert!(near(one.begins_s, begins) && one.cause == task.after.first().copied());
        }
    }

    #[test]
    fn units_do_not_matter(bytes in 1_u64..1_000_000, rate in 1.0..1e9_f64, factor in 1_u64..1000) {
        let seconds = |bytes: u64, rate: f64| {
            let mut facts = Facts { age_max_s: 600.0, ..Facts::default() };
            facts.add_link(link("a", "b", rate, 0.0));
            let data = BTreeMap::from([("A".to_owned(), Data::parse(&format!("bytes:{bytes}@a")).expect("data"))]);
            let steps = vec![Step::sends("A", "b")];
            let plan = Plan::new(data, vec![Alternative { name: "x".to_owned(), steps }]);
            compare(&plan, &facts, &Nobody).expect("an answer").alternatives[0].end_s.expect("an end").value
        };
        let usual = seconds(bytes, rate);
        prop_assert!(near(usual, bytes as f64 / rate), "bytes over bytes per second are seconds");
        prop_assert!(near(usual, seconds(bytes * factor, rate * factor as f64)), "in thousands of both it is the same");
        for (unit, size) in [("kB", 1e3), ("MiB", 1_048_576.0), ("GB", 1e9)] {
            let read = crate::in_bytes(&format!("{factor}{unit}")).expect("an amount");
            prop_assert_eq!(read, factor as f64 * size);
        }
    }
}
