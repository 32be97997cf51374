//! The nest of loops that run, agreed on by all nodes before anything is put in, where one of them is wanted by its number.
//!
//! All of them are counted from the moment the probes are in, so that the report can say what lies around and inside of
//! the wanted one.
//!
//! Next: `marker`, which asks for it first; `node::nest` for the stacks.

use super::drive::Lead;
use super::marker::LOOK_MS_MAX;
use crate::error::Error;
use crate::options::{LoopName, Mark, Options, Stage};
use crate::request::{Answer, LoopPasses, Request, Sampled, SampledLoop};
use std::time::Duration;
use trimtab_types::report::LoopPlace;
use trimtab_window::{FunctionInfo, PASSES_MIN};

/// First look at the counters.
const FIRST_LOOK_MS: u64 = 2;

/// Inner loops that a description names.
const DESCRIBED_MAX: usize = 3;

/// The loops that run, outermost first, and which of them can be counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    pub loops: Vec<SampledLoop>,
    /// A remark for the reader on how they were found.
    pub why_not: Option<String>,
}

/// The loop whose passes are the iterations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Its position among the measured functions.
    pub function: u32,
    /// The nest in a sentence.
    pub description: String,
}

impl Candidates {
    /// Asks the nodes, if a loop of the nest is wanted.
    pub(super) fn sampled(lead: &mut Lead) -> Result<Self, Error> {
        if !matches!(lead.options.mark, Mark::Nest(_)) {
            return Ok(Candidates::default());
        }
        let answers = lead.muster.ask(Request::Sample(Box::new(lead.options.clone())), |answer| match answer {
            Answer::Sampled(sampled) => Some(sampled),
            _ => None,
        })?;
        Candidates::common(answers.into_iter().map(|(_, sampled)| sampled)).checked(&lead.options.mark)
    }

    /// Loops that all nodes have seen which looked at any stack, in the order of the first.
    fn common(nodes: impl Iterator<Item = Sampled>) -> Self {
        let mut candidates: Option<Candidates> = None;
        for node in nodes {
            let has_no_rank = node.stacks == 0 && node.why_not.is_none();
            match &mut candidates {
                _ if has_no_rank => {}
                None => candidates = Some(Candidates { loops: node.loops, why_not: node.why_not }),
                Some(known) => known.join(node),
            }
        }
        candidates.unwrap_or_default()
    }

    fn join(&mut self, node: Sampled) {
        self.loops.retain_mut(|one| {
            let is_same = |other: &&SampledLoop| (&one.function, &one.number) == (&other.function, &other.number);
            let Some(other) = node.loops.iter().find(is_same) else { return false };
            one.is_seen_in_mpi |= other.is_seen_in_mpi;
            one.why_not = one.why_not.take().or_else(|| other.why_not.clone());
            true
        });
        self.why_not = self.why_not.take().or(node.why_not);
    }

    /// Whoever wants one of them by its number must get that.
    fn checked(self, mark: &Mark) -> Result<Self, Error> {
        let Mark::Nest(number) = mark else { return Ok(self) };
        let count = self.loops.len();
        let found = (*number as usize).checked_sub(1).and_then(|index| self.loops.get(index));
        match found.map(|one| &one.why_not) {
            Some(None) => Ok(self),
            Some(Some(reason)) => Err(Error::Options(format!(
                "loop {number} of the nest can't be counted: {reason}; see `trimtab loops PID`"
            ))),
            None => Err(Error::Options(format!(
                "{count} loops were seen to run, so there is no loop {number}; `trimtab loops PID` shows them{}",
                self.why_not.map_or_else(String::new, |why| format!("; {why}"))
            ))),
        }
    }

    /// Those that can be counted, with their numbers in the nest from 0; none of those inside of one that can't be.
    fn counted(&self) -> impl Iterator<Item = (usize, &SampledLoop)> {
        self.loops.iter().enumerate().take_while(|(_, one)| one.why_not.is_none())
    }

    /// The options with these loops to count.
    pub(super) fn asked(&self, options: &Options) -> Options {
        let name = |(_, one): (usize, &SampledLoop)| LoopName {
            function: one.function.clone(),
            number: Some(one.number.clone()),
        };
        let loops = options.loops.iter().cloned().chain(self.counted().map(name)).collect();
        Options { loops, ..options.clone() }
    }
}

/// The wanted loop of the nest, as soon as a few of its passes were counted; `None`: none is wanted.
pub(super) fn chosen(lead: &mut Lead, limit_s: f64) -> Result<Option<Chosen>, Error> {
    let functions = functions_of(&lead.facts.functions, lead.candidates.counted().count());
    let Some((index, function)) = wanted(lead).and_then(|index| Some((index, *functions.get(index)?))) else {
        return Ok(None);
    };
    let mut wait_ms = FIRST_LOOK_MS;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        lead.check_interrupted()?;
        let passes = least_passed(lead, &functions)?;
        let seconds = lead.seconds();
        if passes[index] >= PASSES_MIN || seconds >= limit_s {
            let description = description(&lead.facts.functions, &functions, &passes, index);
            return Ok(Some(Chosen { function, description }));
        }
        let why = "counting passes of the loops that run".to_owned();
        lead.progress.stage(&Stage::Observing { seconds, why });
    }
}

/// The position of the wanted loop among those that are counted.
fn wanted(lead: &Lead) -> Option<usize> {
    let Mark::Nest(number) = lead.options.mark else { return None };
    lead.candidates.counted().position(|(index, _)| index + 1 == number as usize)
}

/// `outermost of 2 loops that run; in each pass 7.0 of loop 1 of solve at md.c:31`.
fn description(functions: &[FunctionInfo], counted: &[u32], passes: &[u64], taken: usize) -> String {
    let name = |index: usize| {
        let info = &functions[counted[index] as usize];
        let source = info.loop_place.as_ref().and_then(LoopPlace::source);
        source.map_or_else(|| info.name.clone(), |source| format!("{} at {source}", info.name))
    };
    let around: Vec<String> =
        (0..taken).map(|index| format!("{} ({} passes so far)", name(index), passes[index])).collect();
    let each = |index: usize| passes[index] as f64 / passes[taken].max(1) as f64;
    let inside = (taken + 1..counted.len()).take(DESCRIBED_MAX);
    let inside: Vec<String> = inside.map(|index| format!("{:.1} of {}", each(index), name(index))).collect();
    let mut text = match around.is_empty() {
        true => "the outermost of the program's loops that run".to_owned(),
        false => format!("a loop of the program, inside of {}", around.join(", ")),
    };
    if !inside.is_empty() {
        text += &format!("; to each pass about {}", inside.join(", "));
    }
    text
}

/// The last `count` measured loops; none if there are fewer, because some were one.
fn functions_of(functions: &[FunctionInfo], count: usize) -> Vec<u32> {
    let loops = functions.iter().enumerate().filter(|(_, info)| info.loop_place.is_some());
    let loops: Vec<u32> = loops.map(|(index, _)| index as u32).collect();
    loops.len().checked_sub(count).map_or(Vec::new(), |before| loops[before..].to_vec())
}

/// Passes of each loop on the rank that has passed it least.
fn least_passed(lead: &mut Lead, functions: &[u32]) -> Result<Vec<u64>, Error> {
    let asked = Request::LoopPasses { functions: functions.to_vec() };
    let answers = lead.muster.ask(asked, |answer| match answer {
        Answer::LoopPassed(passes) => Some(passes),
        _ => None,
    })?;
    if answers.iter().any(|(_, node)| !node.is_alive) {
        return Err(Error::EndedEarly);
    }
    let of = |index: usize| {
        let least = answers.iter().filter_map(|(_, LoopPasses { passes_min, .. })| passes_min.get(index).copied());
        least.min().unwrap_or_default()
    };
    Ok((0..functions.len()).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(stacks: u64, loops: &[&str]) -> Sampled {
        let one = |name: &&str| SampledLoop {
            function: (*name).to_owned(),
            number: vec![1],
            share: 1.0,
            is_seen_in_mpi: true,
            why_not: None,
        };
        Sampled { stacks, loops: loops.iter().map(one).collect(), ..Sampled::default() }
    }

    #[test]
    fn loops_of_all_nodes_with_ranks_are_candidates() {
        let names = |nodes: Vec<Sampled>| -> Vec<String> {
            Candidates::common(nodes.into_iter()).loops.into_iter().map(|one| one.function).collect()
        };
        assert_eq!(names(vec![node(5, &["a", "b", "c"]), node(5, &["c", "a"])]), ["a", "c"]);
        assert_eq!(names(vec![node(0, &[]), node(5, &["a"])]), ["a"]);
        let failed = Sampled { why_not: Some("it has ended".to_owned()), ..Sampled::default() };
        assert_eq!(names(vec![node(5, &["a"]), failed]), Vec::<String>::new());
        assert_eq!(names(vec![]), Vec::<String>::new());
    }

    #[test]
    fn a_loop_that_was_asked_for_is_there_or_that_is_said() {
        let nest = Candidates::common([node(5, &["a", "b"])].into_iter());
        assert!(nest.clone().checked(&Mark::Nest(2)).is_ok() && nest.clone().checked(&Mark::Auto).is_ok());
        let said = nest.checked(&Mark::Nest(3)).expect_err("there are two").to_string();
        assert!(said.contains("2 loops were seen") && said.contains("trimtab loops"), "{said}");
    }

    #[test]
    fn the_nest_is_described_around_the_loop_that_is_taken() {
        let place =
            |line| Some(LoopPlace { file: Some("a/md.c".to_owned()), line: Some(line), ..LoopPlace::default() });
        let info =
            |name: &str, loop_place| FunctionInfo { name: name.to_owned(), loop_place, ..FunctionInfo::default() };
        let functions = [info("MPI_Send", None), info("loop 1 of main", place(9)), info("loop 1 of solve", place(3))];
        assert_eq!(functions_of(&functions, 2), [1, 2]);
        assert_eq!(functions_of(&functions, 3), []);
        let said = description(&functions, &[1, 2], &[10, 65], 0);
        assert_eq!(
            said,
            "the outermost of the program's loops that run; to each pass about 6.5 of loop 1 of solve at md.c:3"
        );
        let said = description(&functions, &[1, 2], &[1, 65], 1);
        assert_eq!(said, "a loop of the program, inside of loop 1 of main at md.c:9 (1 passes so far)");
    }
}
