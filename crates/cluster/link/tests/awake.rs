//! Two nodes that answer each other at once stay awake between packets, and read each packet once, in order.
//!
//! Next: `common` for values that can be checked, the driver's module `awake` for when it is done.

mod common;

use common::*;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use trimtab_link::blocking::Hosted;
use trimtab_link::{Address, Config, Contact, Credentials, Hand, JobSecret, Vicinity};
use trimtab_overlay::node::{Busy, WaveResult};
use trimtab_overlay::{NodeId, StreamSpec, Timing, Told, Tree};
use trimtab_reduce::numbers::Sum;
use trimtab_reduce::{Filter, RankSet};
use trimtab_types::Rank;

/// So many leaves at most.
const LEAVES_MAX: u32 = 5;
/// Waves after which one looks whether any was found by a node that was awake.
const WAVES_AT_ONCE: u64 = 6000;

fn config(secret: &JobSecret, node: NodeId, contacts: Vec<Contact>, vicinity: Vicinity) -> Config {
    let setup = setup(&Tree::flat(LEAVES_MAX).unwrap(), node, timing());
    let credentials = Some(Arc::new(Credentials::of_job(secret, node).unwrap()));
    Config { setup, tree: TREE, listener: None, contacts, credentials, vicinity }
}

/// Beats so far apart that who isn't woken for what has come hangs.
fn timing() -> Timing {
    Timing { beat_us: 150_000_000, silence_us_max: 600_000_000, ..patient() }
}

/// The root's program: each result asks for the next wave. A leaf that had no processor for hundreds of them lets the root
/// wait; then whoever looks at the results asks.
fn asking(results: Arc<Mutex<Vec<WaveResult>>>, put_off: Arc<AtomicBool>) -> impl FnMut(Told, &mut Hand<'_>) + Send {
    move |told, hand| {
        let Told::Result(result) = told else { return };
        let mut results = results.lock().unwrap();
        results.push(*result);
        let last = &results[results.len() - 1];
        if !(results.len() as u64).is_multiple_of(WAVES_AT_ONCE) {
            let asked = hand.multicast(last.stream, last.covers.clone(), vec![0; 32]);
            put_off.store(is_put_off(asked), Relaxed);
        }
    }
}

fn is_put_off(asked: Result<(), Busy>) -> bool {
    match asked {
        Ok(()) => false,
        Err(Busy::Commands { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn packets_that_are_found_awake_are_read_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (unix, tcp) = (Address::Unix(folder.path().join("root")), Address::Tcp("127.0.0.1:0".parse().unwrap()));
    let of_tcp = [Vicinity::Tcp, Vicinity::Sockets, Vicinity::Memory].map(|vicinity| (tcp.clone(), vicinity));
    for (listen, vicinity) in [(unix, Vicinity::Tcp)].into_iter().chain(of_tcp) {
        let (secret, results) = (JobSecret::new().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let put_off = Arc::new(AtomicBool::new(false));
        let root = config(&secret, NodeId::ROOT, vec![], vicinity);
        let root = Hosted::start(root, Some(listen), asking(results.clone(), put_off.clone())).unwrap();
        let contact = root.address().unwrap().clone().into();
        let below = config(&secret, NodeId(1), vec![contact], vicinity);
        let below = Hosted::start(below, None, leaf(Rank(0), Leaves::OnCommand)).unwrap();
        let began = Instant::now();
        let is_in_time = || assert!(began.elapsed() < HANG, "not within {HANG:?}");
        while root.handle().members().rank_count() == 0 {
            is_in_time();
        }
        let stream = root.handle().open(sums(1)).unwrap();
        let mut wanted = 0;
        // Where the machine is busy nobody stays awake; then it takes more of them.
        while root.handle().found_awake_count() == 0 || below.handle().found_awake_count() == 0 {
            wanted += WAVES_AT_ONCE;
            root.handle().multicast(stream, RankSet::range(Rank(0), Rank(0)), vec![0; 32]).unwrap();
            while (results.lock().unwrap().len() as u64) < wanted {
                is_in_time();
                std::thread::sleep(std::time::Duration::from_millis(1));
                if put_off.swap(false, Relaxed) {
                    let ranks = RankSet::range(Rank(0), Rank(0));
                    put_off.store(is_put_off(root.handle().multicast(stream, ranks, vec![0; 32])), Relaxed);
                }
            }
        }
        let results = results.lock().unwrap();
        assert_eq!(results.iter().map(|result| result.wave).collect::<BTreeSet<_>>().len() as u64, wanted);
        for (wave, result) in (0..).zip(results.iter()) {
            assert_eq!(result.wave, wave);
            assert_eq!(Sum.decode(&result.value), Ok(sum_of(&result.covers, wave)));
        }
    }
}

/// One gong for all that sleep, a bell for each of a few, and nothing for who is awake: on threads that have the time,
/// and on more of them than there are processors.
#[test]
fn nobody_sleeps_through_what_is_in_memory() {
    let (secret, results) = (JobSecret::new().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let put_off = Arc::new(AtomicBool::new(false));
    let root = config(&secret, NodeId::ROOT, vec![], Vicinity::Memory);
    let listen = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let root = Hosted::start(root, Some(listen), asking(results.clone(), put_off.clone())).unwrap();
    let contact: Contact = root.address().unwrap().clone().into();
    let _leaves: Vec<Hosted> = (0..LEAVES_MAX)
        .map(|rank| {
            let config = config(&secret, NodeId(rank + 1), vec![contact.clone()], Vicinity::Memory);
            Hosted::start(config, None, leaf(Rank(rank), Leaves::OnCommand)).unwrap()
        })
        .collect();
    let began = Instant::now();
    let wait = |holds: &mut dyn FnMut() -> bool| {
        while !holds() {
            assert!(began.elapsed() < HANG, "not within {HANG:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let root = root.handle();
    wait(&mut || root.members().rank_count() == u64::from(LEAVES_MAX));
    assert_eq!(root.memory_count(), LEAVES_MAX as usize);
    for count in 1..=LEAVES_MAX {
        let ranks = RankSet::range(Rank(0), Rank(count - 1));
        let spec = StreamSpec { target: ranks.clone(), ..sums(count) };
        let stream = root.open(spec).unwrap();
        results.lock().unwrap().clear();
        root.multicast(stream, ranks.clone(), vec![0; 32]).unwrap();
        wait(&mut || {
            if put_off.swap(false, Relaxed) {
                put_off.store(is_put_off(root.multicast(stream, ranks.clone(), vec![0; 32])), Relaxed);
            }
            results.lock().unwrap().len() as u64 >= WAVES_AT_ONCE
        });
        for (wave, result) in (0..).zip(results.lock().unwrap().iter()) {
            assert_eq!((result.wave, &result.covers), (wave, &ranks));
            assert_eq!(Sum.decode(&result.value), Ok(sum_of(&ranks, wave)));
        }
    }
}
