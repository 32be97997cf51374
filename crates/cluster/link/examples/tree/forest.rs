//! A tree of processes under one controller, which is its root.
//!
//! Processes are started from the root downwards, since each must know where its ancestors listen. They end when their
//! standard input does, and are killed if they don't.
//!
//! Next: `plan` for their input, `measure` for the figures.

use crate::Outcome;
use crate::host;
use crate::plan::{Edges, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use trimtab_link::blocking::Hosted;
use trimtab_link::inbox::Filler;
use trimtab_link::{Address, Hand, Inbox, JobSecret, Owner, inbox};
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::{NodeId, StreamSpec, Told};
use trimtab_reduce::{Filter, RankSet};
use trimtab_sim::{PATIENT, Total, Tree, contribution};
use trimtab_types::Rank;

/// Anything that takes longer hangs.
pub const HANG: Duration = Duration::from_secs(300);

/// A process of nodes.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Its nodes: the first, and how many.
    pub hosted: (u32, u32),
}

impl Process {
    /// Starts this program again, with a plan for its standard input.
    pub fn start(subcommand: &str, plan: &str, hosted: (u32, u32)) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg(subcommand).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        input.write_all(plan.as_bytes())?;
        Ok(Process { child, input: Some(input), output, hosted })
    }

    /// Its next line as words; none at its end.
    pub fn line(&mut self) -> Outcome<Vec<String>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.split_whitespace().map(str::to_owned).collect())
    }

    /// Reads where its nodes listen, until it is ready.
    pub fn ready(&mut self, at: &mut BTreeMap<NodeId, Address>) -> Outcome {
        loop {
            let words = self.line()?;
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["ready"] => return Ok(()),
                ["listening", node, address] => at.insert(NodeId(node.parse()?), address.parse()?),
                _ => return Err(format!("a host said {words:?}").into()),
            };
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&mut self) -> Outcome {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// True if it runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let until = Instant::now() + Duration::from_secs(5);
        while self.runs() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It has ended, or is ended now; either way it must not stay.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The shape and kind of a tree to start.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Fan-out and leaves of a balanced tree.
    pub shape: (u32, u32),
    /// The transport between its nodes.
    pub edges: Edges,
    /// See [`Plan::flow`].
    pub flow: bool,
    /// See [`Plan::patient`].
    pub patient: bool,
    /// Processes for each level below the root at most; 0 for one per node.
    pub processes: u32,
}

/// A tree whose root is here and whose other nodes are processes.
pub struct Forest {
    /// The root.
    pub root: Hosted,
    news: Inbox,
    ping: Arc<Mutex<Ping>>,
    /// All the others, from the root downwards.
    pub processes: Vec<Process>,
    /// The tree.
    pub tree: Tree,
    plan: Plan,
    _folder: tempfile::TempDir,
    /// From the first process to the last rank in the tree.
    pub start_seconds: f64,
}

impl Forest {
    /// Starts everything and waits until all ranks are there.
    pub fn grow(growth: Growth) -> Outcome<Forest> {
        let folder = tempfile::tempdir()?;
        let mut plan = Plan {
            secret: if growth.edges == Edges::Plain { None } else { Some(JobSecret::new()?) },
            edges: growth.edges,
            number: u64::from(std::process::id()),
            shape: growth.shape,
            flow: growth.flow,
            patient: growth.patient,
            folder: folder.path().to_str().ok_or("the folder's name is no text")?.to_owned(),
            hosted: (0, 1),
            at: BTreeMap::new(),
        };
        let tree = plan.tree()?;
        let began = Instant::now();
        let config = host::config(&plan, &tree, NodeId::ROOT, None, Arc::new(contribution::registry()))?;
        let (filler, news) = inbox();
        let ping = Arc::new(Mutex::new(Ping::default()));
        let owner = Pinger { filler, ping: ping.clone() };
        let root = Hosted::start(config, Some(plan.listen(NodeId::ROOT)), owner)?;
        plan.at.insert(NodeId::ROOT, root.address().cloned().ok_or("the root listens")?);
        let mut forest =
            Forest { root, news, ping, processes: Vec::new(), tree, plan, _folder: folder, start_seconds: 0.0 };
        for (first, count) in levels(&forest.tree) {
            forest.grow_level(first, count, growth.processes)?;
        }
        forest.full()?;
        forest.start_seconds = began.elapsed().as_secs_f64();
        Ok(forest)
    }

    fn grow_level(&mut self, first: u32, count: u32, process_count_max: u32) -> Outcome {
        let parts = if process_count_max == 0 { count } else { process_count_max.min(count) };
        let bound = |part: u32| first + (u64::from(count) * u64::from(part) / u64::from(parts)) as u32;
        let begun = self.processes.len();
        for part in 0..parts {
            let process = self.start((bound(part), bound(part + 1) - bound(part)))?;
            self.processes.push(process);
        }
        for process in &mut self.processes[begun..] {
            process.ready(&mut self.plan.at)?;
        }
        Ok(())
    }

    /// Starts a process of some nodes, which know where their ancestors are.
    pub fn start(&self, hosted: (u32, u32)) -> Outcome<Process> {
        let nodes = (hosted.0..hosted.0 + hosted.1).map(NodeId);
        // Itself too: a node that is there again listens where it did.
        let ancestors = |node| self.tree.ancestors(node).into_iter().chain([node]);
        let above: BTreeSet<NodeId> = nodes.flat_map(ancestors).collect();
        let at = self.plan.at.iter().filter(|(node, _)| above.contains(node)).map(|(node, at)| (*node, at.clone()));
        let plan = Plan { hosted, at: at.collect(), ..self.plan.clone() };
        Process::start("host", &plan.write()?, hosted)
    }

    /// Starts the nodes of a lost process again, where it listened.
    pub fn replace(&mut self, index: usize) -> Outcome {
        let mut process = self.start(self.processes[index].hosted)?;
        process.ready(&mut self.plan.at)?;
        self.processes[index] = process;
        Ok(())
    }

    /// Waits until all ranks are in the tree.
    pub fn full(&self) -> Outcome {
        self.until("all ranks in the tree", || {
            self.root.handle().members().rank_count() == u64::from(self.plan.shape.1)
        })
    }

    /// Waits for a condition.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
        let began = Instant::now();
        while !holds() {
            if began.elapsed() > HANG {
                let troubles = self.root.handle().troubles();
                return Err(format!("{what}: not within {HANG:?}; troubles of the root: {troubles:?}").into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Opens a stream that sums over all leaves.
    pub fn sums(&self) -> Outcome<u32> {
        let spec = StreamSpec { target: self.all(), filter: Total::spec(), sync: PATIENT };
        Ok(self.root.handle().open(spec)?)
    }

    /// All ranks.
    pub fn all(&self) -> RankSet {
        RankSet::range(Rank(0), Rank(self.plan.shape.1 - 1))
    }

    /// The next result of a stream, which must be that of all ranks, and right.
    pub fn right(&self, stream: u32) -> Outcome<WaveResult> {
        let result = self.result(stream)?;
        let sum = Total.decode(&result.value)?;
        if sum != host::sum_of(&result.covers, result.wave) {
            return Err(format!("wave {}: {sum} is not the sum of {}", result.wave, result.covers).into());
        }
        Ok(result)
    }

    fn result(&self, stream: u32) -> Outcome<WaveResult> {
        loop {
            if self.news.dropped_count() > 0 {
                return Err("the inbox overflowed: the tree did not wait for the controller".into());
            }
            match self.news.wait(HANG) {
                Some(Told::Result(result)) if result.stream == stream => return Ok(*result),
                Some(Told::Trouble(trouble)) => return Err(trouble.into()),
                Some(_) => {}
                None => return Err(format!("no result within {HANG:?}").into()),
            }
        }
    }

    /// Sends a command to all leaves and waits for the sum of their answers, so many times; how long each took, in
    /// microseconds.
    pub fn round_trips(&self, stream: u32, count: usize) -> Outcome<Vec<f64>> {
        // One more: the first begins on another thread.
        let took_us = Vec::with_capacity(count + 1);
        let (done, all_done) = std::sync::mpsc::sync_channel(1);
        let (sent, done) = (Some(Instant::now()), Some(done));
        *lock(&self.ping) = Ping { stream, left: count + 1, sent, took_us, is_wrong: false, done };
        self.root.handle().multicast(stream, self.all(), ONE.to_vec())?;
        all_done.recv_timeout(HANG)?;
        let mut ping = lock(&self.ping);
        if ping.is_wrong {
            return Err("a sum is wrong".into());
        }
        Ok(ping.took_us.split_off(1))
    }
}

/// A command that asks for a contribution; with its head about as long as the floor's messages.
const ONE: [u8; 32] = [0; 32];

/// Round trips in progress: each result asks for the next.
#[derive(Default)]
struct Ping {
    stream: u32,
    left: usize,
    sent: Option<Instant>,
    took_us: Vec<f64>,
    is_wrong: bool,
    done: Option<SyncSender<()>>,
}

/// The root's program: the next round trip begins when one ends, on the node's own thread, as in the floor.
struct Pinger {
    filler: Filler,
    ping: Arc<Mutex<Ping>>,
}

impl Owner for Pinger {
    fn told(&mut self, told: Told, hand: &mut Hand<'_>) {
        let mut ping = lock(&self.ping);
        match told {
            Told::Result(result) if ping.left > 0 && result.stream == ping.stream => ping.came(&result, hand),
            told => self.filler.told(told, hand),
        }
    }

    fn is_behind(&self) -> bool {
        self.filler.is_behind()
    }

    fn wake_when_taken(&self, tree: &Waker) {
        self.filler.wake_when_taken(tree);
    }
}

impl Ping {
    fn came(&mut self, result: &WaveResult, hand: &mut Hand<'_>) {
        self.took_us.extend(self.sent.map(|sent| sent.elapsed().as_secs_f64() * 1e6));
        let sum = Total.decode(&result.value);
        self.is_wrong |= sum != Ok(host::sum_of(&result.covers, result.wave)) || !result.missing.is_empty();
        self.left -= 1;
        self.sent = Some(Instant::now());
        if self.left == 0 || hand.multicast(self.stream, result.covers.clone(), ONE.to_vec()).is_err() {
            self.is_wrong |= self.left > 0;
            self.left = 0;
            // The thread that waited may have given up.
            let _sent = self.done.take().map(|done| done.send(()));
        }
    }
}

fn lock(ping: &Mutex<Ping>) -> MutexGuard<'_, Ping> {
    ping.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first node and the number of nodes of each level below the root.
pub fn levels(tree: &Tree) -> Vec<(u32, u32)> {
    let mut levels: Vec<(u32, u32)> = Vec::new();
    let mut depths = vec![0_usize; tree.node_count()];
    for node in tree.nodes().skip(1) {
        let depth = tree.parent(node).map_or(0, |parent| depths[parent.0 as usize] + 1);
        depths[node.0 as usize] = depth;
        match levels.get_mut(depth - 1) {
            Some((_, count)) => *count += 1,
            None => levels.push((node.0, 1)),
        }
    }
    levels
}
