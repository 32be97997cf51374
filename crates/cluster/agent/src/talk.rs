//! Questions of the lead to its agents, beside what a window asks of its nodes.
//!
//! One stream carries both ways: a question is a command to all, its answers are one wave, each agent's bytes by its
//! place. Question and wave have one number, so that an answer that comes late belongs to no other question. An answer is
//! a [`Say`] in as many [`Piece`]s as it takes. The counts of a script are merged on the way, on a stream of its own.
//!
//! Lead and agents are of one version, which the ticket sees to, so nothing here is ever understood in two ways.
//!
//! Next: `remote` and `facts` ask, `serve` answers; `exchange` for pieces.

use crate::values::Variable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use trimtab_engine::{MachineNow, Present, PresentRank, UndoneRank};
use trimtab_measure::{Command, Envelope, Options};
use trimtab_reduce::RankSet;
use trimtab_script as script;

/// A question to all agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The wave that its answers are.
    pub wave: u64,
    /// Bytes of the answer that may come in this wave.
    pub room: u32,
    /// The question.
    pub ask: Ask,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Which ranks have you? [`Say::Here`]
    Who,
    /// A command of a window: [`Say::Window`].
    Window(Box<Command>),
    /// A command about a script of probes: [`Say::Script`].
    Script(Box<script::Command>),
    /// The script's variables: on a stream that merges them, a value of that stream; else [`Say::Values`].
    Values,
    /// Take out what an earlier trimtab left in the ranks: [`Say::Undone`].
    Undo {
        /// The job's owner says that its filters of system calls let ours pass, where they can't be read.
        seccomp_ok: bool,
    },
    /// Which files will you need the symbols of? [`Say::Files`]
    Files {
        /// Those of the window that will begin; none for a script, which may need all.
        options: Option<Box<Options>>,
    },
    /// The symbols of these files, by agent; the others have nothing to say. [`Say::Symbols`]
    Symbols(BTreeMap<u32, Vec<String>>),
    /// Part of a file's symbols, from whoever has read it: [`Say::Took`].
    Take(SymbolsPiece),
    /// The others beside the job, and how busy the machine is. [`Say::Machine`]
    Machine,
    /// The answer to the question before goes on there.
    More {
        /// The first byte that is wanted.
        from: u64,
        /// Of whom; all others send an empty piece.
        of: RankSet,
    },
    /// Take everything out and end: [`Say::Bye`].
    Leave,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Bytes of the whole answer.
    pub total: u64,
    /// Those of this piece.
    pub bytes: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Say {
    /// Its ranks.
    Here(Present),
    /// An answer of the window's.
    Window(Box<Envelope>),
    /// An answer about a script.
    Script {
        /// The answer.
        envelope: Box<script::Envelope>,
        /// Bytes of its variables, once it is out, that stay as long when they merge with others', at most.
        fixed_bytes: u64,
        /// Bytes of those that grow.
        growing_bytes: u64,
    },
    /// A script's variables, as the merging stream has them.
    Values(Vec<Variable>),
    /// The leftovers that were taken out, rank by rank.
    Undone(Vec<UndoneRank>),
    /// Files of its ranks that have a build id.
    Files(Vec<FileState>),
    /// Symbols of its files.
    Symbols(Vec<Symbols>),
    /// The piece came; true if it was of use.
    Took(bool),
    /// Its machine.
    Machine(MachineNow),
    /// It ends.
    Bye,
    /// It can't.
    No {
        /// Where.
        host: String,
        /// Why not.
        reason: String,
        /// The same question may have an answer a moment later.
        is_early: bool,
    },
}

/// A file whose symbols an agent needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// How all caches call it: build id and length.
    pub name: String,
    /// True if the agent has its symbols.
    pub is_known: bool,
}

/// A file's symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbols {
    /// Of which file.
    pub name: String,
    /// As they are in a cache.
    pub bytes: Vec<u8>,
}

/// Part of a file's symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolsPiece {
    /// Of which file.
    pub name: String,
    /// Bytes of all of them.
    pub total: u64,
    /// The first byte of this part.
    pub from: u64,
    /// This part.
    pub bytes: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also those that begin as a message and go on as something else.
        #[test]
        fn hostile_bytes_give_a_message_or_an_error(
            kind in 0_u8..16,
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let tagged: Vec<u8> = [kind].into_iter().chain(bytes.iter().copied()).collect();
            for bytes in [&bytes, &tagged] {
                let _question = postcard::from_bytes::<Question>(bytes);
                let _ask = postcard::from_bytes::<Ask>(bytes);
                let _say = postcard::from_bytes::<Say>(bytes);
                let _piece = postcard::from_bytes::<Piece>(bytes);
            }
        }
    }

    #[test]
    fn messages_come_back_as_they_went() {
        let options = script::ScriptOptions { text: "entry f { n++ }".to_owned(), ..script::ScriptOptions::default() };
        let ranks = "0-3,host:n2".parse().expect("ranks");
        let ask =
            Ask::Script(Box::new(script::Command::Start(Box::new(script::Start { options, ranks, size: Some(8) }))));
        let question = Question { wave: 7, room: 99, ask };
        let bytes = postcard::to_allocvec(&question).expect("it has bytes");
        assert_eq!(postcard::from_bytes::<Question>(&bytes), Ok(question));
        let values = vec![script::MessageValue::Int(-1), script::MessageValue::Text("x".to_owned())];
        let message = script::Message { rank: 3, pid: 4, tag: "t".to_owned(), ticks: 5, values };
        let poll = script::Poll { messages: vec![message], has_more: true, alive: 2, ..script::Poll::default() };
        let envelope = Box::new(Ok(script::Answer::Polled(poll)));
        let say = Say::Script { envelope, fixed_bytes: 6, growing_bytes: 7 };
        let bytes = postcard::to_allocvec(&say).expect("it has bytes");
        assert_eq!(postcard::from_bytes::<Say>(&bytes), Ok(say));
    }
}
