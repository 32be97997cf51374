//! The process that runs one target: changes inputs, runs them, keeps those that reach something new, tells faults.
//!
//! Coverage is looked at once for a whole batch, because looking costs more than a small input; only if the batch reached
//! something new is each of it run again alone, so batches are short while much is new and long when little is. A panic is told and the worker goes on; anything worse ends it, and the
//! state file says with which input.
//!
//! Next: `campaign`, which starts it and watches.

use crate::corpus::{self, Corpus};
use crate::coverage::Coverage;
use crate::finding::{Fault, STACK_BYTES, Told, caught, limit_this_process, note_panics};
use crate::hex::to_hex;
use crate::hostile::Target;
use crate::mutate::Mutator;
use crate::random::Random;
use crate::state::{Numbers, StateFile};
use crate::target::target;
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Inputs between two looks at coverage and clock: halved when something was new, else doubled.
const BATCH_MIN: usize = 4;
const BATCH_MAX: usize = 256;
/// Inputs kept in the repository are at most this long, in bytes, and so many for each target.
const KEPT_BYTES_MAX: usize = 2048;
const KEPT_COUNT_MAX: usize = 40;

/// A worker's task.
#[derive(Clone, Debug)]
pub struct Work {
    /// Name of the target.
    pub target: String,
    /// Inputs to run at most.
    pub executions: u64,
    /// Time to run at most.
    pub time: Option<Duration>,
    /// Where choices begin.
    pub seed: u64,
    /// The state file.
    pub state: PathBuf,
    /// Folder of inputs that runs on this machine found.
    pub found: PathBuf,
    /// Folder of inputs in the repository.
    pub kept: PathBuf,
    /// True if to write inputs worth it into the repository's folder, instead of looking for more.
    pub keep: bool,
}

/// Does it, with the stack that threads have and no more memory than allowed.
///
/// # Errors
/// When it can't be begun.
pub fn work(work: &Work) -> Result<()> {
    let mut worker = Worker::new(work)?;
    limit_this_process(None)?;
    note_panics();
    let work = work.clone();
    let run = move || if work.keep { worker.write_kept(&work) } else { worker.run(&work) };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).context("no thread")?;
    thread.join().map_err(|_| anyhow!("the worker itself panicked: {:?}", caught(|| ()).err()))?
}

struct Worker {
    target: Box<dyn Target>,
    corpus: Corpus,
    coverage: Coverage,
    random: Random,
    state: StateFile,
    numbers: Numbers,
    told: BTreeSet<String>,
}

impl Worker {
    fn new(work: &Work) -> Result<Worker> {
        let target = target(&work.target)?;
        let mut corpus = Corpus::default();
        for seed in target.seeds()? {
            corpus.add(&seed);
        }
        let seed_count = corpus.inputs().len();
        corpus.add_folder(&work.kept, target.length_max())?;
        if !work.keep || seed_count == 0 {
            corpus.add_folder(&work.found, target.length_max())?;
        }
        Ok(Worker {
            target,
            corpus,
            coverage: Coverage::new(),
            // Neighbouring seeds make neighbouring first numbers otherwise.
            random: Random::new(work.seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            state: StateFile::create(&work.state)?,
            numbers: Numbers::default(),
            told: BTreeSet::new(),
        })
    }

    fn run(&mut self, work: &Work) -> Result<()> {
        let begun = Instant::now();
        self.run_corpus()?;
        let mut batch: Vec<Vec<u8>> = vec![Vec::new(); BATCH_MAX];
        let mut size = BATCH_MIN;
        while self.numbers.executions < work.executions && work.time.is_none_or(|time| begun.elapsed() < time) {
            let left = (work.executions - self.numbers.executions).min(size as u64) as usize;
            for input in &mut batch[..left] {
                input.clear();
                input.extend(self.corpus.choose(&mut self.random));
                let other = self.corpus.choose(&mut self.random);
                let length_max = self.target.length_max();
                self.target.mutate(&mut Mutator { random: &mut self.random, length_max }, input, other);
                input.truncate(length_max);
            }
            self.coverage.clear();
            for input in &batch[..left] {
                self.execute(input)?;
            }
            if self.coverage.look(false) {
                self.keep_what_is_new(&batch[..left], work)?;
                size = (size / 2).max(BATCH_MIN);
            } else {
                size = (size * 2).min(BATCH_MAX);
            }
        }
        self.state.write(&self.numbers, &[])
    }

    /// Every kept input as it is: what they reach is not new.
    fn run_corpus(&mut self) -> Result<()> {
        self.coverage.clear();
        for input in self.corpus.inputs().to_vec() {
            self.execute(&input)?;
        }
        self.coverage.look(true);
        self.numbers.corpus = self.corpus.inputs().len() as u64;
        self.numbers.reached = self.coverage.reached;
        Ok(())
    }

    fn keep_what_is_new(&mut self, batch: &[Vec<u8>], work: &Work) -> Result<()> {
        for input in batch {
            self.coverage.clear();
            let fault = caught(|| self.target.run(input)).err();
            if self.coverage.look(true) && fault.is_none() && self.corpus.add(input) {
                self.numbers.found += 1;
                corpus::write(&work.found, input)?;
            }
        }
        self.numbers.corpus = self.corpus.inputs().len() as u64;
        self.numbers.reached = self.coverage.reached;
        Ok(())
    }

    fn execute(&mut self, input: &[u8]) -> Result<()> {
        self.numbers.executions += 1;
        self.state.write(&self.numbers, input)?;
        let begun = Instant::now();
        match caught(|| self.target.run(input)) {
            Ok(accepted) => self.numbers.accepted += u64::from(accepted),
            Err(fault) => self.tell(fault, input)?,
        }
        self.numbers.slowest_us = self.numbers.slowest_us.max(begun.elapsed().as_micros() as u64);
        Ok(())
    }

    fn tell(&mut self, fault: Fault, input: &[u8]) -> Result<()> {
        if self.told.insert(fault.place.clone()) {
            println!("{}", serde_json::to_string(&Told { fault, input: to_hex(input) })?);
        }
        Ok(())
    }

    /// The shortest inputs that earlier runs found and that together reach all that seeds and kept ones don't.
    fn write_kept(&mut self, work: &Work) -> Result<()> {
        self.run_corpus()?;
        let mut found = Corpus::default();
        found.add_folder(&work.found, KEPT_BYTES_MAX)?;
        let mut inputs = found.inputs().to_vec();
        inputs.sort_by_key(Vec::len);
        let room = KEPT_COUNT_MAX.saturating_sub(std::fs::read_dir(&work.kept).map_or(0, Iterator::count));
        let mut written = 0;
        for input in inputs {
            self.coverage.clear();
            self.execute(&input)?;
            if written < room && self.coverage.look(true) {
                corpus::write(&work.kept, &input)?;
                written += 1;
            }
        }
        self.numbers.found = written as u64;
        self.state.write(&self.numbers, &[])
    }
}
