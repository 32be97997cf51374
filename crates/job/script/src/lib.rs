//! How does one probe script go? Compile it for every process, put the bodies in, read what they leave, take them out.
//!
//! The language is `trimtab-snippet`'s, the patching `trimtab-session`'s. This crate answers the language's questions
//! about a process, keeps the script's picture of readable memory true, and carries the script through for all processes
//! at once. Whatever happens on the way, every process is left as it was.
//!
//! As in `trimtab-measure` it has two halves: [`ScriptNode`] is one machine's part, [`Probing`] the job's, which asks nodes by plain
//! values ([`Command`], [`Answer`]) through a crew.
//!
//! Next: [`Probing`] in `probing`; [`Running`] in `run`; `points` for what could be probed; `facts` for what a script can know, `guard` for memory that goes away.
#![forbid(unsafe_code)]

mod debug;
mod error;
mod explain;
mod facts;
mod guard;
mod late;
mod member;
mod message;
mod nest;
mod nest_counter;
mod no_place;
mod node;
mod outside;
mod part;
mod place;
mod places;
mod points;
mod probing;
mod request;
mod run;
mod source;
mod target;
mod unmeasured;
mod walk;

pub use error::{Error, Failed, Lacking};
pub use explain::{Explained, ExplainedBody, explain};
pub use message::{Message, MessageValue};
pub use nest::{CountedLoops, LoopCount, LoopPasses, LoopPoint, NotCounted, line_at};
pub use nest_counter::NoProgress;
pub use no_place::{NoEdges, NoPlace, NotBehind, Unusable};
pub use node::ScriptNode;
pub use points::{FunctionPoints, How, ListedPoint, PointKind, list_points, why_no_function};
pub use probing::{Left, Merged, Nodes, Probing};
pub use request::{Answer, Command, Envelope, Finished, Poll, Refusal, Start, Started, Summary};
pub use run::Running;
pub use source::ScriptOptions;
pub use target::{Late, Loss, Target};
pub use trimtab_snippet::Permissions;
pub use trimtab_snippet::arithmetic::Number;
pub use trimtab_snippet::values::{Histogram, MISSING_MAX, Named, Own, Stacks, Value, all_missing};
