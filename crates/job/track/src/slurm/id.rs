//! Job ids as Slurm's users write them: `4711`, `4711_3`, `4711+1`, `4711.0`, `4711.batch`.
//!
//! Next: `facts` for what Slurm says about a job.

use std::fmt;
use std::str::FromStr;

/// A job, a part of one, or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlurmId {
    /// The number.
    pub job: u32,
    /// The part of the job.
    pub part: Part,
    /// Which step; `None`: whichever there is.
    pub step: Option<Step>,
}

/// A part of a job that Slurm runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All of it.
    Whole,
    /// `_3`: a task of an array.
    ArrayTask(u32),
    /// `+1`: a component of a heterogeneous job.
    Component(u32),
}

/// A step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The step that the n-th `srun` started.
    Number(u32),
    /// The batch script, and what it starts without `srun`.
    Batch,
    /// Processes that came into the job from outside, such as by ssh.
    Extern,
    /// An interactive shell.
    Interactive,
}

/// Why a text is no job id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no Slurm job id; write JOB, JOB_TASK, JOB+COMPONENT, and .STEP or .batch behind it, e.g. 4711.0")]
pub struct NotAnId {
    text: String,
}

impl FromStr for SlurmId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<SlurmId, NotAnId> {
        let (job, step) = text.split_once('.').map_or((text, None), |(job, step)| (job, Some(step)));
        let parsed = || {
            let step = step.map(|step| Step::parse(step).ok_or(())).transpose().ok()?;
            let (job, part) = match job.split_once(['_', '+']) {
                None => (job, Part::Whole),
                Some((before, index)) if job.contains('_') => (before, Part::ArrayTask(number(index)?)),
                Some((before, index)) => (before, Part::Component(number(index)?)),
            };
            Some(SlurmId { job: number(job).filter(|job| *job > 0)?, part, step })
        };
        parsed().ok_or_else(|| NotAnId { text: text.to_owned() })
    }
}

impl SlurmId {
    /// The job without its step.
    pub fn without_step(self) -> SlurmId {
        SlurmId { step: None, ..self }
    }
}

impl Step {
    /// As Slurm writes it.
    pub fn parse(text: &str) -> Option<Step> {
        match text {
            "batch" => Some(Step::Batch),
            "extern" => Some(Step::Extern),
            "interactive" => Some(Step::Interactive),
            text => number(text).map(Step::Number),
        }
    }
}

impl fmt::Display for SlurmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.job)?;
        match self.part {
            Part::Whole => {}
            Part::ArrayTask(index) => write!(f, "_{index}")?,
            Part::Component(index) => write!(f, "+{index}")?,
        }
        self.step.map_or(Ok(()), |step| write!(f, ".{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Number(number) => write!(f, "{number}"),
            Step::Batch => f.write_str("batch"),
            Step::Extern => f.write_str("extern"),
            Step::Interactive => f.write_str("interactive"),
        }
    }
}

/// Digits only: no sign, no space.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_read_and_written_back() {
        let cases = [
            ("4711", Part::Whole, None),
            ("4711_3", Part::ArrayTask(3), None),
            ("4711+1", Part::Component(1), None),
            ("4711.0", Part::Whole, Some(Step::Number(0))),
            ("4711_3.batch", Part::ArrayTask(3), Some(Step::Batch)),
            ("4711+1.12", Part::Component(1), Some(Step::Number(12))),
            ("1.extern", Part::Whole, Some(Step::Extern)),
            ("1.interactive", Part::Whole, Some(Step::Interactive)),
        ];
        for (text, part, step) in cases {
            let id: SlurmId = text.parse().expect(text);
            assert_eq!((id.part, id.step, id.to_string().as_str()), (part, step, text));
        }
    }

    #[test]
    fn other_text_is_refused_with_what_to_write() {
        for text in
            ["", "0", "x", "-1", "+1", "_1", "1_", "1+", "1.", "1.x", "1_2+3", " 1", "1 ", "99999999999", "1.0.0"]
        {
            let refused = text.parse::<SlurmId>().expect_err(text);
            assert!(refused.to_string().contains("e.g. 4711.0"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,20}") {
            if let Ok(id) = text.parse::<SlurmId>() {
                prop_assert!(!id.to_string().is_empty());
            }
        }
    }
}
