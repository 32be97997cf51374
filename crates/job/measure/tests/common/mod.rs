//! Two nodes on one machine: a crew whose every command and answer travels as bytes, and a clock that is not ours.
//!
//! The second node's moments are those of a processor that counts a fifth faster, began elsewhere, and is mistaken about
//! its own rate. A node can be made to fall silent from some request on.
//!
//! Next: `crew.rs` for the tests.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::time::Duration;
use tempfile::TempDir;
use trimtab_measure::{Answer, Command, Crew, Length, Mark, Options, Reply, Request, WindowNode, has_static_mpi};
use trimtab_mpi::Group;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_session::ImageCache;
use trimtab_specimens::{
    GroundTruth, Launch, Mpi, Running, TextSnapshot, Variant, at_work, build, threads_running, truths_of,
};
use trimtab_track::{Job, ProcFs, find_job_in};
use trimtab_types::Pid;
use trimtab_types::context::Context;
use trimtab_window::{Reading, Relation};

/// Longer than anything here takes on a loaded machine; no test measures against it.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Ranks of a job; Open MPI yields where there are fewer processors.
pub const RANKS: u32 = 4;

/// The wrapper's mark, which every specimen calls as the first thing of an iteration with the iteration's number.
pub const TRUE_MARK: &str = "gt_mark";

/// A rank that has computed so long is surely past its loader, in clock ticks of 10 ms.
const STARTED_TICKS: u64 = 12;

/// Iterations with a message to the neighbour and a collective, in which a small machine has room for all ranks.
#[allow(dead_code, reason = "not every test starts it")]
pub const STEADY: (&str, &str) = ("steady", "--sleep-us 2000 --work 20000");

/// The other clock's ticks in one of ours, and what its machine is wrong about that.
const RATE: f64 = 1.2;
const RATE_MISTAKE: f64 = 1.0 + 3e-5;

/// A clock that shows other ticks.
pub struct OtherClock {
    /// "Node" are the true ticks, "lead" what the clock shows.
    shown: Relation,
}

impl OtherClock {
    pub fn new() -> Self {
        let now = ticks();
        let shown = Reading { lead_ticks: now / 3 + 987_654_321, node_ticks: now, error_ticks: 0 };
        OtherClock { shown: Relation::begun(shown, RATE, 1.0) }
    }

    /// The relation of the lead's clock to the true ticks, for one to the ticks shown.
    fn truly(&self, relation: &Relation) -> Relation {
        relation.through(1.0 / RATE, |shown| self.shown.to_node(shown))
    }

    fn distort_request(&self, node: u32, request: &mut Request) {
        if let Request::Fit { clocks, .. } | Request::SeeMarks { clocks } | Request::SeeCommon { clocks, .. } = request
        {
            for (_, relation) in clocks.iter_mut().filter(|(of, _)| *of == node) {
                *relation = self.truly(relation);
            }
        }
    }

    fn distort_answer(&self, answer: &mut Answer) {
        match answer {
            Answer::Time { ticks_per_second } => *ticks_per_second *= RATE * RATE_MISTAKE,
            Answer::Looked(looked) => {
                for found in looked.loops.iter_mut().flatten() {
                    found.iteration_ticks *= RATE;
                    found.once.iter_mut().for_each(|call| call.gap_ticks *= RATE as f32);
                }
            }
            Answer::Reference(reference) => {
                reference.calls.events.iter_mut().for_each(|event| event.onto_lead(&self.shown));
            }
            Answer::Passed(passed) => {
                for rank in &mut passed.ranks {
                    rank.period_ticks *= RATE;
                    rank.calls.events.iter_mut().for_each(|event| event.onto_lead(&self.shown));
                }
            }
            Answer::Checked(ranks) => {
                for rank in ranks {
                    rank.marks.onto_lead(&self.shown);
                    rank.marks.uncertainty_ticks = 0;
                    rank.calls.events.iter_mut().for_each(|event| event.onto_lead(&self.shown));
                }
            }
            Answer::Read(recording) => {
                recording.ranks.iter_mut().for_each(|sample| sample.onto_lead(&self.shown));
            }
            _ => {}
        }
    }
}

/// When a node falls silent.
pub type Silence = Box<dyn FnMut(&Request) -> bool>;

/// Nodes that are spoken to in bytes.
pub struct Wires<'c> {
    pub nodes: Vec<WindowNode<'c>>,
    /// The clock of the last node.
    pub other_clock: OtherClock,
    /// The last node answers nothing any more once this says so.
    pub silence: Option<Silence>,
    pub is_silent: bool,
    /// Answers with the bytes each took.
    pub answers: Vec<(Answer, usize)>,
}

impl<'c> Wires<'c> {
    /// Two nodes that share the job's ranks.
    pub fn new(job: &Job, cache: &'c ImageCache) -> Self {
        let (mut first, mut second) = (job.clone(), job.clone());
        second.ranks = first.ranks.split_off(job.ranks.len() / 2);
        let nodes = vec![WindowNode::new(3, first, cache), WindowNode::new(8, second, cache)];
        Wires { nodes, other_clock: OtherClock::new(), silence: None, is_silent: false, answers: Vec::new() }
    }
}

/// A message that went as bytes, and how many.
fn carried<T: Serialize + DeserializeOwned>(message: &T) -> (T, usize) {
    let bytes = postcard::to_stdvec(message).expect("a message has bytes");
    (postcard::from_bytes(&bytes).expect("the message that was written"), bytes.len())
}

impl Crew for Wires<'_> {
    fn nodes(&self) -> Vec<u32> {
        self.nodes.iter().map(WindowNode::id).collect()
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        let mut replies = Vec::new();
        let last = self.nodes.len() - 1;
        self.is_silent |= self.silence.as_mut().is_some_and(|silence| silence(&command.request));
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if index == last && self.is_silent {
                continue;
            }
            let sent_ticks = ticks();
            let mut command = command.clone();
            if index == last {
                self.other_clock.distort_request(node.id(), &mut command.request);
            }
            let down = carried(&command).0;
            let (mut envelope, byte_count) = carried(&node.answer(&down));
            if let Ok(answer) = &mut envelope.result {
                self.answers.push((answer.clone(), byte_count));
                // Recordings of ranks that stand out are on the lead's clock already.
                if index == last && !matches!(command.request, Request::ReadRanks { .. }) {
                    self.other_clock.distort_answer(answer);
                }
            }
            if index == last {
                envelope.ticks = self.other_clock.shown.to_lead(envelope.ticks).ticks;
            }
            replies.push(Reply::of(node.id(), envelope, sent_ticks, ticks()));
        }
        replies
    }
}

/// A specimen with the wrapper preloaded, and its text before anything was done.
pub struct Subject {
    folder: TempDir,
    pub running: Running,
    pub job: Job,
    before: Vec<(i32, TextSnapshot, usize)>,
}

impl Subject {
    /// Starts `program` on four ranks and waits until they are at work. `steady` runs until [`Subject::finish`].
    pub fn start(program: &str, arguments: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder of its own");
        let until = folder.path().join("end");
        let truth = folder.path().join("truth");
        let path = build(program, Some(Mpi::OpenMpi), &Variant::default()).expect("the specimen is built");
        let launch = Launch::mpi(Mpi::OpenMpi, RANKS, &path).args(arguments.split_whitespace());
        let launch = launch.args([OsStr::new("--until"), until.as_os_str()]);
        let mut running = launch.measured(&truth).expect("the wrapper is built").start().expect("the specimen starts");
        let pids = at_work(&mut running, STARTED_TICKS);
        let job = find_job_in(&ProcFs::new(), Pid(running.pid()), &has_static_mpi).expect("the job is found");
        assert_eq!(job.ranks.len(), RANKS as usize);
        let before = pids
            .iter()
            .map(|pid| (*pid, TextSnapshot::of(*pid).expect("its text"), threads_running(*pid).expect("its threads")));
        Subject { before: before.collect(), running, job, folder }
    }

    /// Every byte of code is as it was, and every thread runs.
    pub fn assert_restored(&self) {
        for (pid, text, threads) in &self.before {
            assert_eq!(text.difference_now().expect("its text"), None, "process {pid}");
            assert_eq!(threads_running(*pid).expect("its threads"), *threads, "process {pid}");
        }
    }

    /// It runs to its end, and to its right answer; what the wrapper saw.
    pub fn finish(self) -> Vec<GroundTruth> {
        std::fs::write(self.folder.path().join("end"), "").expect("a file");
        let finished = self.running.wait(LIMIT).expect("it ends");
        assert!(finished.right_answer().is_some(), "{finished:?}");
        truths_of(&self.folder.path().join("truth"), RANKS).expect("the wrapper's files")
    }
}

/// A window of `iterations` whose records tell the program's own iteration numbers.
pub fn options(mark: Mark, iterations: u64) -> Options {
    Options {
        first_call_s: None,
        length: Length::Iterations(iterations),
        start: None,
        max_seconds: 100.0,
        mark,
        groups: vec![Group::Comm],
        functions: vec![TRUE_MARK.into()],
        loops: Vec::new(),
        arguments: vec![(TRUE_MARK.into(), 0)],
        wrappers: Vec::new(),
        detail: 1,
        follow: false,
        until_confident: None,
        max_cost: None,
        max_hits: None,
        counters: Vec::new(),
        assumed: None,
        trigger: "attach".into(),
        event: None,
        patient: false,
        ranks: Context::All,
        seccomp_ok: false,
        known_loop: None,
        detail_ranks_max: u32::MAX,
        command_ns: monotonic_ns(),
    }
}
