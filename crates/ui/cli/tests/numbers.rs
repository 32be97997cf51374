//! The numbers of a window are those of a wrapper that shares no code and no method with trimtab, for the same
//! iterations of the same processes: where each rank began, bytes and messages per link, calls, bytes, time.
//!
//! The window is marked by the wrapper's own mark, whose argument is the program's iteration number: so the records say
//! which iterations were recorded. Next: `loops.rs` for windows without hints.

mod common;

use common::{Compared, RANKS, Specimen, TRUE_MARK, alone, compare, median};
use std::collections::BTreeMap;
use trimtab_specimens::{FunctionTruth, Mpi, RangeTruth};
use trimtab_types::report::Link;

#[test]
fn explore() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        for (program, arguments) in [("kinds", "--iterations 4000"), ("particle", "--iterations 1500"), ("particle", "--iterations 1500 --nonblocking"), ("particle", "--iterations 1500 --imbalance"),
          ("fft", "--iterations 500"), ("is", "--iterations 500"), ("cg", "--iterations 300"), ("wave", "--iterations 800"), ("heat", "--iterations 800"), ("heat08", "--iterations 800"), ("threads", "--iterations 300")] {
            let specimen = Specimen::of(mpi, program, arguments);
            let t = std::time::Instant::now();
            let (windows, _finished) = compare(&specimen, 5, 10);
            println!("{}: {:?}", specimen.name(), t.elapsed());
            for w in &windows {
                print!("{:?} ", w.first);
                let links = links_of(w);
                let mut want = true_links(w);
                for l in &links { if let Some(p) = want.iter().position(|x| x == l) { want.remove(p); } else { print!("EXTRA {l:?} "); } }
                print!("missing {want:?} ");
                let calls = true_functions(&w.truths);
                for (name, f) in &calls {
                    let got = w.report.functions.iter().find(|g| g.name == *name);
                    if got.map(|g| g.calls) != Some(f.calls) || got.and_then(|g| g.bytes).unwrap_or(0) != f.bytes { print!("{name} true {} {} got {:?}", f.calls, f.bytes, got.map(|g| (g.calls, g.bytes))); }
                }
                for (rank, truth) in w.report.ranks.iter().zip(&w.truths) {
                    let n: u64 = truth.functions.values().map(|f| f.calls).sum();
                    let c = truth.communication_s - rank.communication_s;
                    print!("| comm {:.1}us diff {:.3}% {:.0}ns/call dur {:.3} ppm", rank.communication_s*1e6, c / truth.communication_s*100., c*1e9/n as f64, (rank.duration_s/truth.duration_s -1.)*1e6);
                }
                println!("{:?}", w.report.warnings);
            }
        }
    }
}
fn links_of(w: &Compared) -> Vec<Link> { w.report.links.clone() }
fn true_links(w: &Compared) -> Vec<Link> {
    w.truths.iter().enumerate().flat_map(|(r, t)| t.links.values().map(move |l| Link { from: r as u32, to: l.to, messages: l.messages, bytes: l.bytes, collective_messages: l.collective_messages, collective_bytes: l.collective_bytes })).collect()
}
fn true_functions(truths: &[RangeTruth]) -> BTreeMap<String, FunctionTruth> {
    let mut sum: BTreeMap<String, FunctionTruth> = BTreeMap::new();
    for f in truths.iter().flat_map(|t| t.functions.values()) {
        let s = sum.entry(f.name.clone()).or_default();
        s.calls += f.calls; s.bytes += f.bytes; s.time_s += f.time_s;
    }
    sum
}
