//! The talk of agents and their lead: questions, answers in pieces, and what is in them, a window's commands
//! and answers and a script's variables.
//!
//! The first byte says which. Nothing panics, what was read can be written and read again, variables that are no filter's
//! own do not merge, and of pieces no more is kept than came.
//!
//! Next: `wire` for the connection below; `trimtab_agent::talk`.

use crate::hostile::Target;
use crate::mutate::Mutator;
use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use trimtab_agent::exchange::Gather;
use trimtab_agent::talk::{Ask, Piece, Present, PresentRank, Question, Say, UndoneRank};
use trimtab_agent::values::{Buckets, Counted, Digits, Single, Values, Variable};
use trimtab_measure::{Envelope, Failed, FailedKind, Reply, WindowId};
use trimtab_reduce::exact::ExactSum;
use trimtab_reduce::{Filter, RankSet};
use trimtab_script::{Answer, Command, Message, MessageValue, Poll, ScriptOptions, Start, Started};
use trimtab_types::Rank;
use trimtab_types::context::Context;

/// The target.
pub struct Talk;

/// The first byte of an input says what the rest is; a question.
const QUESTION: u8 = 0;
const SAY: u8 = 1;
const VARIABLES: u8 = 2;
const PIECES: u8 = 3;
const KINDS: u8 = 4;

impl Target for Talk {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let mut seeds = Vec::new();
        for ask in asks() {
            seeds.push(tagged(QUESTION, &Question { wave: 7, room: 99, ask })?);
        }
        for say in says() {
            seeds.push(tagged(SAY, &say)?);
        }
        seeds.push(tagged(VARIABLES, &(variables(), variables()))?);
        let piece = |total, bytes: &[u8]| Piece { total, bytes: bytes.to_vec() };
        let waves = vec![(4u32, vec![piece(6, b"abcd"), piece(2, b"ab")]), (9, vec![piece(6, b"ef")])];
        seeds.push(tagged(PIECES, &waves)?);
        Ok(seeds)
    }

    fn length_max(&self) -> usize {
        8 * 1024
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80, 0x80, 0x01]]);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((kind, bytes)) = input.split_first() else { return false };
        match kind % KINDS {
            QUESTION => again::<Question>(bytes).is_some_and(|question| asked(&question.ask)),
            SAY => again::<Say>(bytes).is_some_and(said),
            VARIABLES => again::<(Vec<Variable>, Vec<Variable>)>(bytes).is_some_and(|(one, other)| merged(one, other)),
            _ => again::<Vec<(u32, Vec<Piece>)>>(bytes).is_some_and(gathered),
        }
    }
}

fn tagged(kind: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    Ok([&[kind][..], &postcard::to_stdvec(value)?].concat())
}

/// Reads a message; what is written of it reads as the same.
fn again<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let read: T = postcard::from_bytes(bytes).ok()?;
    let written = postcard::to_stdvec(&read).expect("what was read can be written");
    let back: T = postcard::from_bytes(&written).expect("what was written can be read");
    // Floats that are no numbers equal nothing, so bytes are compared.
    assert_eq!(postcard::to_stdvec(&back).expect("as before"), written, "a message changes on its way");
    Some(read)
}

/// An agent hears it: whether it could do it.
fn asked(ask: &Ask) -> bool {
    match ask {
        Ask::More { of, .. } => of.rank_count() == of.union(of).rank_count(),
        _ => true,
    }
}

/// The lead hears it.
fn said(say: Say) -> bool {
    match say {
        Say::Window(envelope) => Reply::of(0, *envelope, 1, 2).result.is_ok(),
        Say::Values(variables) => merged(variables, Vec::new()),
        _ => true,
    }
}

/// Variables as the tree takes them: encoded, checked, and merged with others.
fn merged(one: Vec<Variable>, other: Vec<Variable>) -> bool {
    let _costs: Vec<(u64, u64)> = one.iter().map(Variable::costs).collect();
    let sound = |variables: &Vec<Variable>| {
        let bytes = Values.encode(variables).ok()?;
        Values.decode(&bytes).ok()
    };
    let (Some(mut sum), Some(other)) = (sound(&one), sound(&other)) else { return false };
    let before = sum.clone();
    match Values.merge(&mut sum, other) {
        Ok(()) => assert!(sound(&sum).is_some(), "what was merged is a value too"),
        Err(_) => assert_eq!(sum, before, "what does not merge changes nothing"),
    }
    true
}

/// Waves of pieces, the agents by their place: what comes out is no more than came in.
fn gathered(waves: Vec<(u32, Vec<Piece>)>) -> bool {
    let came: usize = waves.iter().flat_map(|(_, pieces)| pieces).map(|piece| piece.bytes.len()).sum();
    let mut waves = waves.into_iter().map(|(room, pieces)| {
        let pieces: BTreeMap<usize, Piece> = pieces.into_iter().enumerate().collect();
        (pieces, room)
    });
    let Some((first, room)) = waves.next() else { return false };
    let Ok(mut gather) = Gather::new(first, room) else { return false };
    for (pieces, room) in waves {
        if gather.remaining().is_none() {
            break;
        }
        gather.add(pieces, room);
    }
    assert!(gather.into_answers().values().map(Vec::len).sum::<usize>() <= came, "bytes that never came");
    true
}

fn asks() -> Vec<Ask> {
    let options = ScriptOptions { text: "entry f { n++ }".to_owned(), ..ScriptOptions::default() };
    let start = Start { options, ranks: Context::All, size: Some(4) };
    let command = trimtab_measure::Command { window: WindowId(3), request: trimtab_measure::Request::Time };
    vec![
        Ask::Who,
        Ask::Window(Box::new(command)),
        Ask::Script(Box::new(Command::Start(Box::new(start)))),
        Ask::Script(Box::new(Command::Poll { bytes_max: 4096 })),
        Ask::More { from: 5, of: RankSet::range(Rank(1), Rank(6)).union(&RankSet::one(Rank(9))) },
        Ask::Leave,
    ]
}

fn says() -> Vec<Say> {
    let rank = PresentRank { rank: 1, pid: 77, start_ticks: 12_345 };
    let values = vec![MessageValue::Int(-1), MessageValue::Float(0.5), MessageValue::Text("x".to_owned())];
    let message = Message { rank: 3, pid: 4, tag: "t".to_owned(), ticks: 5, values };
    let poll = Poll { messages: vec![message], has_more: true, alive: 2, ..Poll::default() };
    let of_script = |answer| Say::Script { envelope: Box::new(answer), fixed_bytes: 3, growing_bytes: 4 };
    let unable = trimtab_script::Failed { host: "h".to_owned(), text: "t".to_owned(), lacking: None };
    let started = Started { ranks: vec![0, 1], functions: 1, ..Started::default() };
    let undone = UndoneRank { rank: 0, pid: 9, was_there: true, patches: 4, pause_us_max: 31.0, problem: None };
    let failed = Failed { host: "h".to_owned(), text: "t".to_owned(), kind: FailedKind::Ended };
    vec![
        Say::Here(Present { host: "n1".to_owned(), key: "k".to_owned(), size: Some(4), ranks: vec![rank] }),
        Say::Window(Box::new(Envelope { ticks: 2, result: Err(failed) })),
        of_script(Ok(Answer::Started(started))),
        of_script(Ok(Answer::Polled(poll))),
        of_script(Err(unable)),
        Say::Values(variables()),
        Say::Undone(vec![undone]),
        Say::No { host: "n2".to_owned(), reason: "no".to_owned(), is_early: true },
    ]
}

/// One variable of each kind.
fn variables() -> Vec<Variable> {
    let single = Single { rank: 0, thread: Some(7), value: Digits::Float(1) };
    let buckets = Buckets { counts: vec![0, 2], count: 2, sum: 3, min: 1, max: 2 };
    let all = [
        Counted::Sum(3),
        Counted::SumReal(ExactSum::of(0.1)),
        Counted::Each(vec![single]),
        Counted::Min(Some(Digits::Int(-4)), 2),
        Counted::Max(None, 0),
        Counted::Mean(ExactSum::of(1e300), 2),
        Counted::Histogram(buckets),
        Counted::Stacks(BTreeMap::from([(1, 2)]), 0),
    ];
    let none = Variable { name: "none".into(), counted: None, missing: vec!["exit f: no".into()], at_least: true };
    let named = |(index, counted)| Variable { name: format!("v{index}"), counted: Some(counted), ..none.clone() };
    all.into_iter().enumerate().map(named).chain([none.clone()]).collect()
}
