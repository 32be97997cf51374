//! Why something can't be patched, in words for the person who asked for it.
//!
//! Next: `site`, which gives most of these.

use trimtab_types::ProcAddr;

/// The reason a function or a place in it is left alone, with addresses of a process or, as `A`, of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal<A = ProcAddr> {
    /// The body for the place can't be compiled.
    #[error("{what}")]
    Body {
        /// Why, in a sentence.
        what: String,
    },
    /// The ranges given are no function: none, overlapping, or without the entry.
    #[error("the ranges given do not describe the function at {entry:#x}; check its symbol or unwind entry")]
    BadRanges {
        /// The entry asked for.
        entry: A,
    },
    /// Reachable bytes that are no instruction.
    #[error("the bytes at {at:#x} are no instruction though the code leads there; probe its callers instead")]
    Undecodable {
        /// Where decoding failed.
        at: A,
    },
    /// Code that is also entered in the middle of an instruction, or data among the code.
    #[error("{target:#x} is reached in the middle of another instruction; probe the callers instead")]
    MisalignedCode {
        /// The address reached.
        target: A,
    },
    /// Something may jump into the bytes that would be overwritten.
    #[error("{target:#x} may be jumped to and lies inside the patch at {at:#x}; probe the callers instead")]
    TargetInside {
        /// First byte of the patch considered.
        at: A,
        /// The address that may be jumped to.
        target: A,
    },
    /// A jump that could not be followed may land on any instruction.
    #[error("the indirect jump at {jump:#x} could not be followed and may land inside the patch at {at:#x}")]
    UnresolvedJump {
        /// First byte of the patch considered.
        at: A,
        /// The indirect jump.
        jump: A,
    },
    /// The function's own loop goes back to its first instruction, so the probe would count passes, not calls.
    #[error("the branch at {from:#x} goes back to the first instruction {at:#x}, so calls can't be told from passes")]
    LoopToFirstInstruction {
        /// The first instruction.
        at: A,
        /// The branch.
        from: A,
    },
    /// Not even a two-byte jump fits.
    #[error("only {bytes} free byte(s) at {at:#x}, a jump needs 2; probe the callers instead")]
    NoRoom {
        /// First byte of the patch considered.
        at: A,
        /// Bytes that could be overwritten.
        bytes: u64,
    },
    /// A two-byte jump fits, but there is no padding in its reach for the second jump.
    #[error("{bytes} free bytes at {at:#x} and no padding within 127 bytes for a springboard; probe the callers")]
    NoSpringboard {
        /// First byte of the patch considered.
        at: A,
        /// Bytes that could be overwritten.
        bytes: u64,
    },
    /// A call would have to run in the island and leave its return address on the stack.
    #[error("the patch at {patch:#x} would displace the call at {at:#x}, whose return address must stay in place")]
    CallDisplaced {
        /// First byte of the patch considered.
        patch: A,
        /// The call.
        at: A,
    },
    /// An instruction whose meaning depends on where it stands, or that traps.
    #[error("the {what} at {at:#x} can't run anywhere else; probe the callers instead")]
    Unmovable {
        /// The instruction.
        at: A,
        /// Its mnemonic.
        what: &'static str,
    },
    /// The kernel interrupts a thread otherwise while it is there, and tells that by the address.
    #[error(
        "the instruction at {at:#x} belongs to a restartable sequence (rseq), which the kernel knows by its address; probe \
         a place outside the sequence, or the callers"
    )]
    Restartable {
        /// The instruction.
        at: A,
    },
    /// The program handles faults by itself, and its handler must find the instruction in place.
    #[error(
        "the instruction at {at:#x} may fault or calls, and the program has a fault handler of its own, or could set one \
         unseen, which must find it in place; probe the callers instead"
    )]
    MayFault {
        /// The instruction.
        at: A,
    },
    /// The patch would lie on two pages.
    #[error("a jump at {at:#x} would cross a page boundary and could be left half written; probe the callers")]
    CrossesPage {
        /// First byte of the patch considered.
        at: A,
    },
    /// Control runs on into whatever follows.
    #[error("control falls out of the function at {at:#x} into what follows; check its symbol or unwind entry")]
    FallsThrough {
        /// The address behind the last instruction.
        at: A,
    },
    /// The exit lies among the entry's displaced instructions and can't be told from them.
    #[error("the exit at {at:#x} lies inside the entry patch; probe the entry or the exit, not both")]
    ExitInsideEntry {
        /// The exit.
        at: A,
    },
    /// Bytes that nothing leads to, in a function that mixes data with code.
    #[error("{at:#x} may be data: nothing leads there and the function reads its own bytes")]
    MaybeData {
        /// The address.
        at: A,
    },
    /// An address where no instruction of the function begins.
    #[error("no instruction that the function can reach begins at {at:#x}; list its blocks for places to probe")]
    NoInstruction {
        /// The address asked for.
        at: A,
    },
    /// Two places between which control does not go by a branch.
    #[error("no branch at {from:#x} leads to {to:#x} and elsewhere too; probe a block on the way")]
    NoWay {
        /// Where control would come from.
        from: A,
        /// Where it would go.
        to: A,
    },
    /// The place's bytes are needed by another patch.
    #[error("its bytes at {at:#x} are needed by another probe; leave one of them out")]
    Taken {
        /// First byte of the patch considered.
        at: A,
    },
    /// A loop with several entries has no place that every iteration passes once.
    #[error(
        "the loop at {header:#x} is entered at several places, and no block is passed once in each of its passes; probe an address or a call inside it"
    )]
    Irreducible {
        /// Its first entry.
        header: A,
    },
    /// A target too far for a 32-bit displacement.
    #[error("{target:#x} is out of reach from {from:#x}; place the island nearer")]
    OutOfReach {
        /// The instruction.
        from: A,
        /// The address that it must reach.
        target: A,
    },
}

impl<A> Refusal<A> {
    /// The kind of reason in a few words, for tables that count them.
    pub fn label(&self) -> &'static str {
        match self {
            Refusal::Body { .. } => "body",
            Refusal::BadRanges { .. } => "bad ranges",
            Refusal::Undecodable { .. } => "undecodable",
            Refusal::MisalignedCode { .. } => "misaligned code",
            Refusal::TargetInside { .. } => "target inside",
            Refusal::UnresolvedJump { .. } => "unresolved jump",
            Refusal::LoopToFirstInstruction { .. } => "loop to first instruction",
            Refusal::NoRoom { .. } => "no room",
            Refusal::NoSpringboard { .. } => "no springboard",
            Refusal::CallDisplaced { .. } => "call displaced",
            Refusal::Unmovable { .. } => "unmovable instruction",
            Refusal::Restartable { .. } => "restartable sequence",
            Refusal::MayFault { .. } => "may fault",
            Refusal::CrossesPage { .. } => "crosses page",
            Refusal::FallsThrough { .. } => "falls through",
            Refusal::ExitInsideEntry { .. } => "exit inside entry",
            Refusal::MaybeData { .. } => "maybe data",
            Refusal::NoInstruction { .. } => "no instruction",
            Refusal::NoWay { .. } => "no branch",
            Refusal::Taken { .. } => "taken",
            Refusal::Irreducible { .. } => "irreducible loop",
            Refusal::OutOfReach { .. } => "out of reach",
        }
    }
}
