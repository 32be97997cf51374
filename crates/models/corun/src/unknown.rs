//! Reasons for which something of a job is not known.
//!
//! Next: `job`, whose facts may be missing; `outlook`, which says why it does not tell something.

/// Why something of a job is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Ranks recorded different iterations.
    #[error("its window is not valid: ranks recorded different iterations")]
    NotValid,
    /// No iterations were counted.
    #[error("its window counts no iterations")]
    NoIterations,
    /// Nobody gave a window alone.
    #[error("no window of it alone was given (--alone, \"alone\")")]
    NoneGiven,
    /// A window alone was looked for.
    #[error("no window of it alone is stored, of this run or an earlier one: give one (--alone, \"alone\")")]
    NoneStored,
    /// Runs of different size.
    #[error("alone it was measured on {alone} ranks, and now on {now}")]
    OtherRanks {
        /// Ranks alone.
        alone: u32,
        /// Ranks now.
        now: u32,
    },
    /// Iterations are of another kind.
    #[error("its windows count different loops or calls")]
    OtherLoop,
    /// No loop was found that has a bound.
    #[error("no loop tells how many it has")]
    NoLoop,
    /// The loop's bound is not known.
    #[error("its loop does not tell: {explanation}")]
    LoopSilent {
        /// The window's words.
        explanation: String,
    },
    /// The job may go on when its loop ends.
    #[error("its loop lies in another one, which may enter it again")]
    InnerLoop,
    /// The report is reduced.
    #[error("its report has only ranks that stand out: measure it with --all-ranks")]
    RanksLeftOut,
    /// The report is empty.
    #[error("its report has no rank")]
    NoRank,
    /// The processors of a rank are missing.
    #[error("its window does not say where rank {rank} may run")]
    NoPlace {
        /// The rank.
        rank: u32,
    },
    /// The processor time of a rank is missing.
    #[error("the processor time of rank {rank} is not known")]
    NoTime {
        /// The rank.
        rank: u32,
    },
    /// The iterations to come are not known.
    #[error("how many iterations of {job} come is not known: {why}")]
    Iterations {
        /// The job.
        job: String,
        /// Why.
        why: Box<Unknown>,
    },
    /// The time of an iteration is not known.
    #[error("how long an iteration of {job} takes is not known")]
    Pace {
        /// The job.
        job: String,
    },
    /// It was not beside the other one all the time.
    #[error("{other} ended, by its pace, before the window of this one was over")]
    LeftAlone {
        /// The other one.
        other: String,
    },
    /// By its pace it has ended.
    #[error("{job} has done its iterations, by its pace")]
    Over {
        /// The job.
        job: String,
    },
    /// Its pace without the others is not known.
    #[error("how fast {job} goes on once it is not with all others is not known: {why}")]
    Apart {
        /// The job.
        job: String,
        /// Why.
        why: Box<Unknown>,
    },
}
