//! The best way from one host to another over links that were measured: bandwidth is the minimum, latency the sum.
//!
//! FAST takes the shortest path and does not say by which measure. Here it is the time for that many bytes, and exact: a path of
//! the best time has some least bandwidth, and among links of at least that bandwidth it has the least latency. So Dijkstra's
//! algorithm by latency is run for each bandwidth that a link has, the fastest first, until none can be better.
//!
//! Next: `build`, which asks for the ways of data.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A link between numbered hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// Seconds, 0 or more.
    pub latency_s: f64,
    /// Above zero.
    pub bytes_per_s: f64,
}

/// A way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    /// The places of its links among all edges, in order.
    pub edges: Vec<usize>,
    /// The time for the bytes that were asked for, seconds.
    pub seconds: f64,
}

/// The way on which so many bytes take least time; `None`: there is no way.
pub(crate) fn best(edges: &[Edge], hosts: usize, from: usize, to: usize, bytes: f64) -> Option<Path> {
    if from == to {
        return Some(Path { edges: Vec::new(), seconds: 0.0 });
    }
    let mut rates: Vec<f64> = edges.iter().map(|edge| edge.bytes_per_s).collect();
    rates.sort_by(|one, other| other.total_cmp(one));
    rates.dedup();
    let mut out = vec![Vec::new(); hosts];
    for (at, edge) in edges.iter().enumerate() {
        out[edge.from].push(at);
    }
    // No way has less latency than this one, over all links.
    let (least_s, _) = least_latency(edges, &out, (from, to), 0.0)?;
    let mut found: Option<Path> = None;
    for rate in rates {
        if found.as_ref().is_some_and(|found| least_s + bytes / rate >= found.seconds) {
            break;
        }
        let Some((latency_s, way)) = least_latency(edges, &out, (from, to), rate) else { continue };
        let slowest = way.iter().map(|at| edges[*at].bytes_per_s).fold(f64::INFINITY, f64::min);
        let seconds = latency_s + bytes / slowest;
        if found.as_ref().is_none_or(|found| seconds < found.seconds) {
            found = Some(Path { edges: way, seconds });
        }
    }
    found
}

/// Dijkstra's algorithm by latency over links of at least this bandwidth.
fn least_latency(
    edges: &[Edge],
    out: &[Vec<usize>],
    (from, to): (usize, usize),
    rate: f64,
) -> Option<(f64, Vec<usize>)> {
    let mut reached = vec![(f64::INFINITY, None); out.len()];
    reached[from].0 = 0.0;
    // Times that are not negative are in the order of their bits.
    let mut next = BinaryHeap::from([Reverse((0.0_f64.to_bits(), from))]);
    while let Some(Reverse((bits, host))) = next.pop() {
        let at_s = f64::from_bits(bits);
        if host == to {
            break;
        }
        if at_s > reached[host].0 {
            continue;
        }
        for at in out[host].iter().filter(|at| edges[**at].bytes_per_s >= rate) {
            let (edge, then_s) = (edges[*at], at_s + edges[*at].latency_s);
            if then_s < reached[edge.to].0 {
                reached[edge.to] = (then_s, Some(*at));
                next.push(Reverse((then_s.to_bits(), edge.to)));
            }
        }
    }
    let latency_s = reached[to].0;
    let mut way: Vec<usize> = std::iter::successors(reached[to].1, |at| reached[edges[*at].from].1).collect();
    way.reverse();
    latency_s.is_finite().then_some((latency_s, way))
}
