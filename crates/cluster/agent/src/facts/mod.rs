//! Symbols of the job's programs, read by one agent for all.
//!
//! Before probes go in, each agent says which files it will need the symbols of, by build id and length, and which of
//! them it has. Of the agents that lack a file's, one is asked to read it, or one that has them; what it says goes to all
//! through the tree, in pieces, and those that lack it check that it is of their own file. All of it only spares work: an
//! agent that got nothing, for whatever reason, reads the file itself when its probes go in.
//!
//! Next: `known_files` for an agent's part, `trimtab_overlay::facts` for who is asked, `trimtab_session::NamedFile` for names.

mod known_files;

pub(crate) use known_files::KnownFiles;

use crate::error::Error;
use crate::talk::{Ask, FileState, Say, Symbols, SymbolsPiece};
use std::collections::BTreeMap;
use trimtab_measure::Options;
use trimtab_overlay::facts::{self, Facts};
use trimtab_reduce::RankSet;
use trimtab_types::{BuildId, Rank};

/// Bytes of symbols in one command.
pub(crate) const PIECE_BYTES: usize = 512 << 10;
/// Longest symbols of one file that are sent: reading takes no longer from here on.
pub(crate) const SYMBOLS_BYTES_MAX: usize = 32 << 20;
/// Whoever is asked to read a file may be lost; so often another one is asked.
const ROUNDS_MAX: usize = 3;

/// Asks all agents; what those say that answer, by position.
pub(crate) trait AskAll {
    fn ask_all(&mut self, ask: Ask) -> Result<BTreeMap<usize, Say>, Error>;
}

/// Has the agents read each file once that they will need for a window with these options, or for a script; how many
/// files' symbols went to others.
pub(crate) fn share(agents: &mut impl AskAll, options: Option<&Options>, piece_bytes: usize) -> Result<usize, Error> {
    let said = agents.ask_all(Ask::Files { options: options.cloned().map(Box::new) })?;
    let states = said.iter().filter_map(|(index, say)| match say {
        Say::Files(states) => Some((Rank(*index as u32), &states[..])),
        _ => None,
    });
    let mut facts = Facts::default();
    let mut asks = begin(&mut facts, states);
    let wanted: Vec<BuildId> = asks.iter().map(|ask| ask.build_id.clone()).collect();
    for _ in 0..ROUNDS_MAX {
        if asks.is_empty() {
            break;
        }
        asks = read(agents, &mut facts, &asks)?;
    }
    let known = wanted.iter().filter_map(|name| Some((name, facts.of(name)?)));
    let mut count = 0;
    for (name, bytes) in known {
        spread(agents, name, bytes, piece_bytes)?;
        count += 1;
    }
    Ok(count)
}

/// The agents to ask first for the symbols of files that somebody lacks and others have too.
fn begin<'a>(facts: &mut Facts, states: impl Iterator<Item = (Rank, &'a [FileState])>) -> Vec<facts::Ask> {
    let mut files: BTreeMap<&str, [Vec<Rank>; 2]> = BTreeMap::new();
    for (agent, states) in states {
        for state in states {
            files.entry(&state.name).or_default()[usize::from(state.is_known)].push(agent);
        }
    }
    let shared = files.into_iter().filter(|(_, [lack, know])| !lack.is_empty() && lack.len() + know.len() > 1);
    let ask = |(name, [lack, know]): (&str, [Vec<Rank>; 2])| {
        let (build_id, set) = (BuildId(name.to_owned()), |agents: Vec<Rank>| agents.into_iter().collect::<RankSet>());
        let first = facts.runs(&build_id, &set(know));
        first.or(facts.runs(&build_id, &set(lack)))
    };
    shared.filter_map(ask).collect()
}

/// Asks agents to read files; whom to ask instead of those that did not answer.
fn read(agents: &mut impl AskAll, facts: &mut Facts, asks: &[facts::Ask]) -> Result<Vec<facts::Ask>, Error> {
    let mut of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for ask in asks {
        of.entry(ask.master.0).or_default().push(ask.build_id.0.clone());
    }
    let mut said = agents.ask_all(Ask::Symbols(of.clone()))?;
    let mut lost = Vec::new();
    for agent in of.into_keys() {
        let Some(Say::Symbols(files)) = said.remove(&(agent as usize)) else {
            lost.push(Rank(agent));
            continue;
        };
        for Symbols { name, bytes } in files {
            // An answer that was not asked for is of no use.
            let _ignored = facts.answered(&BuildId(name), Rank(agent), bytes);
        }
    }
    Ok(facts.lost(&lost.into_iter().collect()))
}

/// Sends a file's symbols to all agents.
fn spread(agents: &mut impl AskAll, name: &BuildId, bytes: &[u8], piece_bytes: usize) -> Result<(), Error> {
    let total = bytes.len() as u64;
    for (from, piece) in (0_u64..).step_by(piece_bytes).zip(bytes.chunks(piece_bytes)) {
        agents.ask_all(Ask::Take(SymbolsPiece { name: name.0.clone(), total, from, bytes: piece.to_vec() }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
