//! How long a process is held while very many probes go in and out: `insert_many FILE [PROBES [CYCLES]]`, as one line of
//! JSON.
//!
//! The file, a program or a library, is mapped by a process started for it. The probes (10,000 if nothing is said) are
//! timed and spread evenly over all functions that can be patched, so that nearly every page of code is written. The
//! code must be byte for byte as before after each removal. Next: `src/pages.rs`.
#![forbid(unsafe_code)]

#[path = "common/requests.rs"]
mod requests;
#[path = "common/waiting.rs"]
mod waiting;

use requests::{begin_recording, requests, text_of};
use serde_json::json;
use std::collections::BTreeSet;
use std::error::Error;
use trimtab_session::{FunctionRequest, ImageCache, Modules, Prepared, Setup};
use trimtab_stub::layout::flag;
use waiting::Waiting;

const PROBES: usize = 10_000;
const CYCLES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let file = words.first().ok_or("usage: insert_many FILE [PROBES [CYCLES]]")?;
    let number = |index: usize, usual: usize| words.get(index).map_or(Ok(usual), |word| word.parse());
    let (probes, cycles) = (number(1, PROBES)?, number(2, CYCLES)?);
    let path = std::fs::canonicalize(file)?;
    let waiting = Waiting::start(file)?;
    let modules =
        Modules::read(waiting.pid(), &ImageCache::in_memory(), &|mapped| path == std::path::Path::new(mapped))?;
    let prepared = Prepared::new(&modules, &spread(&modules, probes)?)?;
    let before = text_of(waiting.pid(), &modules)?;
    let setup = Setup { functions: prepared.probes().len() as u64, ranks: 1, details: 0 };
    let (mut inserts_ms, mut removes_ms, mut places, mut is_restored) = (Vec::new(), Vec::new(), 0, true);
    for _ in 0..cycles {
        let mut inserted = prepared.insert(waiting.pid(), setup, &begin_recording)?;
        places = inserted.point_count;
        inserts_ms.push(inserted.pause_ns as f64 / 1e6);
        removes_ms.push(inserted.remove()?.pause_ns_max as f64 / 1e6);
        is_restored &= text_of(waiting.pid(), &modules)? == before;
    }
    let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    println!(
        "{}",
        json!({
            "file": path,
            "probes": prepared.probes().len(),
            "writes": places,
            "restored": is_restored,
            "insert_ms_max": most(&inserts_ms),
            "remove_ms_max": most(&removes_ms),
            "insert_ms": inserts_ms,
            "remove_ms": removes_ms,
        })
    );
    Ok(())
}

/// So many of the functions that can be patched, evenly spread.
fn spread(modules: &Modules, count: usize) -> Result<Vec<FunctionRequest>, Box<dyn Error>> {
    let all = requests(modules, flag::TIMED);
    let accepted: BTreeSet<u64> = Prepared::new(modules, &all)?.addresses().map(|address| address.0).collect();
    let able: Vec<FunctionRequest> = all.into_iter().filter(|request| accepted.contains(&request.address.0)).collect();
    if able.len() < count {
        return Err(format!("only {} functions can be patched, {count} were asked for", able.len()).into());
    }
    let chosen = (0..count).map(|index| able[index * able.len() / count].clone());
    Ok(chosen.zip(0..).map(|(request, number)| requests::numbered(request, number)).collect())
}
