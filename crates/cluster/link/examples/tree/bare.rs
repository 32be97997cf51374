//! The floor: the same tree with nothing but sockets. Fixed messages of 64 bytes over plain TCP, no filters, no loss,
//! nobody late, no proof of who is there; one thread, a task per connection, writes batched.
//!
//! A node is told where its parent is, how many children it will have, and says where it listens. A message with a
//! count asks each leaf for so many contributions; one of them is a multicast and a sum.
//!
//! Next: `measure`, which compares.

use crate::Outcome;
use crate::forest::{HANG, Process, levels};
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use trimtab_sim::Tree;

const MESSAGE_BYTES: usize = 64;
const BATCH_BYTES: usize = 64 << 10;

fn message(value: u64) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn values(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .chunks_exact(MESSAGE_BYTES)
        .filter_map(|message| message.first_chunk().map(|value| u64::from_le_bytes(*value)))
}

/// Sums of which not all children have contributed.
#[derive(Default)]
struct Sums {
    /// The wave of the first one.
    first: u64,
    open: VecDeque<(usize, u64)>,
    /// How far each child is.
    at: Vec<u64>,
}

impl Sums {
    /// Takes contributions of a child and appends the sums that are complete.
    fn add(&mut self, child: usize, contributions: &[u8], out: &mut Vec<u8>) {
        for value in values(contributions) {
            let index = (self.at[child] - self.first) as usize;
            self.at[child] += 1;
            if self.open.len() <= index {
                self.open.push_back((0, 0));
            }
            self.open[index] = (self.open[index].0 + 1, self.open[index].1.wrapping_add(value));
        }
        while self.open.front().is_some_and(|(count, _)| *count == self.at.len()) {
            let (_, sum) = self.open.pop_front().unwrap_or_default();
            self.first += 1;
            out.extend_from_slice(&message(sum));
        }
    }
}

/// Reads whole messages.
async fn read(half: &mut OwnedReadHalf, buffer: &mut [u8], kept: &mut usize) -> std::io::Result<usize> {
    loop {
        let count = half.read(&mut buffer[*kept..]).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        *kept += count;
        if *kept >= MESSAGE_BYTES {
            return Ok(*kept / MESSAGE_BYTES * MESSAGE_BYTES);
        }
    }
}

fn consume(buffer: &mut [u8], kept: &mut usize, count: usize) {
    buffer.copy_within(count..*kept, 0);
    *kept -= count;
}

/// A node's children, connected.
async fn children(listener: TcpListener, count: usize) -> Outcome<(Vec<OwnedReadHalf>, Vec<OwnedWriteHalf>)> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        reads.push(read);
        writes.push(write);
    }
    Ok((reads, writes))
}

/// Reads a node's plan on standard input, `parent PORT children N`; the process ends when its input does.
fn told() -> Outcome<(SocketAddr, usize)> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["parent", parent, "children", count] = words[..] else { return Err("no plan".into()) };
    std::thread::spawn(|| {
        let _end = std::io::stdin().lock().read(&mut [0; 1]);
        std::process::exit(0);
    });
    Ok((parent.parse()?, count.parse()?))
}

/// A node of the bare tree.
pub fn run() -> Outcome {
    let (parent, count) = told()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome: Outcome = runtime.block_on(async {
        let up = TcpStream::connect(parent).await?;
        up.set_nodelay(true)?;
        let (up_read, up_write) = up.into_split();
        if count == 0 {
            println!("ready");
            return leaf(up_read, up_write).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening {}", listener.local_addr()?);
        let (reads, writes) = children(listener, count).await?;
        println!("ready");
        gather(reads, up_write);
        spread(up_read, writes).await
    });
    // Its parent's end is how it ends.
    let is_end = |error: &std::io::Error| error.kind() == std::io::ErrorKind::UnexpectedEof;
    if outcome.as_ref().is_err_and(|error| error.downcast_ref().is_some_and(is_end)) { Ok(()) } else { outcome }
}

/// For each number: so many contributions.
async fn leaf(mut up_read: OwnedReadHalf, mut up_write: OwnedWriteHalf) -> Outcome {
    let (mut buffer, mut kept) = (vec![0; BATCH_BYTES], 0);
    loop {
        let count = read(&mut up_read, &mut buffer, &mut kept).await?;
        let wanted: u64 = values(&buffer[..count]).sum();
        consume(&mut buffer, &mut kept, count);
        let mut left = wanted as usize;
        while left > 0 {
            let now = left.min(BATCH_BYTES / MESSAGE_BYTES);
            up_write.write_all(&message(1).repeat(now)).await?;
            left -= now;
        }
    }
}

/// Sends the messages from above to all children.
async fn spread(mut up_read: OwnedReadHalf, mut writes: Vec<OwnedWriteHalf>) -> Outcome {
    let (mut buffer, mut kept) = (vec![0; BATCH_BYTES], 0);
    loop {
        let count = read(&mut up_read, &mut buffer, &mut kept).await?;
        for write in &mut writes {
            write.write_all(&buffer[..count]).await?;
        }
        consume(&mut buffer, &mut kept, count);
    }
}

/// Sums the messages from children and sends the sums up.
fn gather(reads: Vec<OwnedReadHalf>, up: OwnedWriteHalf) {
    let sums = Arc::new(Mutex::new(Sums { at: vec![0; reads.len()], ..Sums::default() }));
    let up = Arc::new(tokio::sync::Mutex::new(up));
    for (child, mut half) in reads.into_iter().enumerate() {
        let (sums, up) = (sums.clone(), up.clone());
        tokio::spawn(async move {
            let (mut buffer, mut kept) = (vec![0; BATCH_BYTES], 0);
            while let Ok(count) = read(&mut half, &mut buffer, &mut kept).await {
                let mut out = Vec::new();
                sums.lock().unwrap_or_else(PoisonError::into_inner).add(child, &buffer[..count], &mut out);
                consume(&mut buffer, &mut kept, count);
                if !out.is_empty() && up.lock().await.write_all(&out).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Processes that were told where their parents listen.
struct Started {
    /// From the root downwards.
    processes: Vec<Process>,
    child_counts: Vec<usize>,
}

/// Starts all nodes but the root, which listens there.
fn start_all(tree: &Tree, root: SocketAddr) -> Outcome<Started> {
    let mut at = vec![root; tree.node_count()];
    let mut child_counts = vec![0_usize; tree.node_count()];
    tree.nodes().filter_map(|node| tree.parent(node)).for_each(|parent| child_counts[parent.0 as usize] += 1);
    let mut processes: Vec<Process> = Vec::new();
    for (first, count) in levels(tree) {
        let begun = processes.len();
        for node in first..first + count {
            let parent = tree.parent(trimtab_overlay::NodeId(node)).ok_or("the root is here")?;
            let plan = format!("parent {} children {}\n", at[parent.0 as usize], child_counts[node as usize]);
            processes.push(Process::start("bare", &plan, (node, 1))?);
        }
        for process in &mut processes[begun..] {
            let words = process.line()?;
            if let [_, address] = &words[..] {
                at[process.hosted.0 as usize] = address.parse()?;
            }
        }
    }
    Ok(Started { processes, child_counts })
}

impl Started {
    /// How many connections the root takes.
    fn root_child_count(&self) -> usize {
        self.child_counts[0]
    }

    /// Waits until inner nodes say `ready`, which they do when all their children are there.
    fn all_ready(&mut self) -> Outcome {
        let counts = &self.child_counts;
        self.processes.iter_mut().filter(|process| counts[process.hosted.0 as usize] > 0).try_for_each(|process| {
            process.line()?;
            Ok(())
        })
    }
}

/// The root of a bare tree, and its processes.
pub struct BareTree {
    runtime: tokio::runtime::Runtime,
    reads: Vec<OwnedReadHalf>,
    writes: Vec<OwnedWriteHalf>,
    buffers: Vec<(Vec<u8>, usize)>,
    sums: Sums,
    leaves: u64,
    _processes: Vec<Process>,
}

impl BareTree {
    /// Starts it: the same nodes as the tree's, a process each.
    pub fn grow(tree: &Tree) -> Outcome<BareTree> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let mut started = start_all(tree, listener.local_addr()?)?;
        let (reads, writes) = runtime.block_on(children(listener, started.root_child_count()))?;
        started.all_ready()?;
        let buffers = reads.iter().map(|_| (vec![0; BATCH_BYTES], 0)).collect();
        let sums = Sums { at: vec![0; reads.len()], ..Sums::default() };
        let leaves = tree.nodes().filter(|node| !tree.ranks(*node).is_empty()).count() as u64;
        Ok(BareTree { runtime, reads, writes, buffers, sums, leaves, _processes: started.processes })
    }

    /// Asks all leaves for so many contributions and waits for their sums; how long that took, in seconds.
    pub fn sums(&mut self, count: u64) -> Outcome<f64> {
        let BareTree { runtime, reads, writes, buffers, sums, leaves, .. } = self;
        let began = Instant::now();
        let all = async {
            for write in writes.iter_mut() {
                write.write_all(&message(count)).await?;
            }
            let mut out = Vec::new();
            let wanted_bytes = count as usize * MESSAGE_BYTES;
            while out.len() < wanted_bytes {
                for (child, half) in reads.iter_mut().enumerate() {
                    let (buffer, kept) = &mut buffers[child];
                    // The last sum may have come in the middle of a turn; then nothing more does.
                    if is_ahead(sums, child) || out.len() >= wanted_bytes {
                        continue;
                    }
                    let have = read(half, buffer, kept).await?;
                    sums.add(child, &buffer[..have], &mut out);
                    consume(buffer, kept, have);
                }
            }
            Ok::<Vec<u8>, std::io::Error>(out)
        };
        let out = runtime.block_on(async { tokio::time::timeout(HANG, all).await })??;
        let took = began.elapsed().as_secs_f64();
        if values(&out).any(|sum| sum != *leaves) {
            return Err("a bare sum is wrong".into());
        }
        Ok(took)
    }
}

/// True if a child has contributed to more waves than the slowest one.
fn is_ahead(sums: &Sums, child: usize) -> bool {
    sums.at.iter().any(|at| *at < sums.at[child])
}
