//! Why a function, or a place in one, can't be probed, in words for the person who asked for it.
//!
//! Next: `subject`, `inside` and `tails`, which find these; [`Refusal`] for what the code itself says.

use trimtab_types::ProcAddr;
use trimtab_x86::Refusal;

/// The reason why something is left alone. It is a part of a sentence: the function's name stands before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The code itself.
    #[error(transparent)]
    Code(#[from] Refusal),
    /// The code itself, as a decision about its file says that was kept.
    #[error("{0}")]
    Kept(String),
    /// Nothing that was read is mapped there.
    #[error("it lies in no readable module")]
    NoModule,
    /// Go's stacks begin with a few hundred bytes and move, its scheduler interrupts threads by signal and looks up where they
    /// stand, and its faults become panics by the address they happened at.
    #[error(
        "its file is a Go program, whose code may not be moved and whose stacks have no room for probes; C libraries that it \
         calls can be probed"
    )]
    Go,
    /// No symbol or unwind entry begins at its address.
    #[error("no function begins there")]
    NoFunction,
    /// An indirect function's address is that of its resolver.
    #[error("it is an indirect function: the loader chooses its code at run time; `trimtab points` finds it")]
    Resolver,
    /// The same in a file that no process has loaded.
    #[error("it is an indirect function: the loader chooses its code at run time; ask about a process")]
    ResolverInFile,
    /// Nobody has called the indirect function yet.
    #[error(
        "it is an indirect function, and no slot of the process holds the code that the loader chose for it; probe its callers"
    )]
    NoSlot,
    /// Slots of an indirect function disagree.
    #[error(
        "it is an indirect function for which the process uses several pieces of code ({first:#x}, {second:#x}, ...); probe \
         one of them by its address"
    )]
    SeveralCodes {
        /// One of them.
        first: ProcAddr,
        /// Another one.
        second: ProcAddr,
    },
    /// The symbol has no size, and there is no unwind entry.
    #[error("its size is unknown")]
    NoSize,
    /// The unwind tables can't be read.
    #[error("{0}")]
    Unwind(String),
    /// More fragments than one function may have.
    #[error("it is split into too many parts")]
    ManyParts,
    /// No segment of the file has its address.
    #[error("it lies in no segment")]
    NoSegment,
    /// The segment goes beyond the end of the file.
    #[error("its file is too short")]
    ShortFile,
    /// The file was deleted, and its pages in memory are not the file's any more.
    #[error(
        "its file can't be had any more, and its code in memory has been written to, so nobody knows what it was; restart the \
         program to measure it"
    )]
    CodeLost,
    /// The process's memory can't be read.
    #[error("{0}")]
    Memory(String),
    /// Somebody else has patched it.
    #[error("its code in memory differs from its file: {cause}")]
    Changed {
        /// Names who has changed it, as far as that can be seen, and the next step.
        cause: String,
    },
    /// It has no exit at all.
    #[error("it never returns")]
    NeverReturns,
    /// Another probe has its bytes.
    #[error("it shares code with another function that is probed")]
    SharesCode,
    /// A function that was asked for answers in the flags.
    #[error(
        "it answers in the processor's flags, which a timed exit does not keep; a script can count it, or measure its callers"
    )]
    AnswersInFlags,
    /// A function that is only followed does.
    #[error("it answers in the processor's flags, which a timed exit does not keep")]
    FollowedAnswersInFlags,
    /// A place without a patch.
    #[error("there is nothing to patch")]
    NoPatch,
    /// Its calls go on in other functions.
    #[error("it is left only by jumps to other functions{to}, where its calls go on, so when they end is not seen")]
    LeftByJumps {
        /// Names of some of them.
        to: String,
    },
    /// Some of its calls go on in another function.
    #[error("calls that it leaves by a jump to {to} are not followed there: {why}")]
    Followed {
        /// That function, in words.
        to: String,
        /// Why their end is not seen.
        why: Box<NotFollowed>,
    },
    /// A point of a script means no place of it.
    #[error("{0}")]
    NoPlace(String),
    /// The function has no loop of the number that was given.
    #[error("the function has no such loop")]
    NoLoop,
    /// All room of an arena is taken.
    #[error("no room for probes is left near its code")]
    NoRoomNear,
    /// The program has mapped everything near it.
    #[error("the program has taken all addresses within reach of {module}, so no probe can lie near it")]
    AddressesTaken {
        /// The file of the code.
        module: String,
    },
}

/// Why a call is not followed where a function is left by a jump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// A function there can't be probed.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// Only functions of the same file are followed.
    #[error("it lies in another library")]
    Outside,
    /// The jump is indirect.
    #[error("it is known only when the jump is made")]
    Indirect,
    /// A round of jumps.
    #[error("calls come back from there by jumps")]
    ComesBack,
    /// The function there has no end that is seen.
    #[error("that function, too, is left only by jumps that are not followed")]
    Endless,
    /// More functions than are looked at for jumps alone.
    #[error("too many functions are followed")]
    ManyFunctions,
    /// The function there is left out.
    #[error("it can't be timed there")]
    NotTimed,
    /// Nobody asked for calls to be followed.
    #[error("")]
    NotAsked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_go_on_behind_a_name() {
        let taken = Obstacle::from(Refusal::Taken { at: ProcAddr(0x40) });
        assert_eq!(taken.to_string(), Refusal::Taken { at: ProcAddr(0x40) }.to_string());
        assert_eq!(NotFollowed::from(Obstacle::NoFunction).to_string(), "no function begins there");
        let several = Obstacle::SeveralCodes { first: ProcAddr(0x10), second: ProcAddr(0x20) };
        assert!(several.to_string().contains("pieces of code (0x10, 0x20, ...); probe one of them"), "{several}");
        let jumps = Obstacle::LeftByJumps { to: " (g)".to_owned() };
        assert!(jumps.to_string().starts_with("it is left only by jumps to other functions (g), where"), "{jumps}");
    }
}
