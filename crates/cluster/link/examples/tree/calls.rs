//! What the kernel alone takes: the same tree, of processes that wait, receive, send and do nothing else.
//!
//! Each message is one `send`, one event and one `recv`, over plain TCP, without a runtime, a buffer or a sum. A tree of
//! this shape over TCP can hardly be faster in the same minutes, whatever its nodes do; how much slower one is, is what it
//! does itself.
//!
//! Next: `bare` for the floor that does something, `measure`, which compares.

use crate::Outcome;
use crate::bare::{start_all, told};
use crate::forest::Process;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;
use trimtab_overlay::Tree;

/// As long as a command with its seal.
const MESSAGE: [u8; 64] = [1; 64];
const EVENTS_AT_ONCE: usize = 64;

/// A node's connections below it.
struct Children {
    events: OwnedFd,
    sockets: Vec<TcpStream>,
}

impl Children {
    /// All of them, connected.
    fn accept(listener: &TcpListener, count: usize) -> Outcome<Children> {
        let mut children = Children { events: epoll::create(CreateFlags::CLOEXEC)?, sockets: Vec::new() };
        for index in 0..count {
            let (socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            epoll::add(&children.events, &socket, EventData::new_u64(index as u64), EventFlags::IN)?;
            children.sockets.push(socket);
        }
        Ok(children)
    }

    /// A message to each, and one from each.
    fn ask(&mut self) -> std::io::Result<()> {
        for socket in &mut self.sockets {
            socket.write_all(&MESSAGE)?;
        }
        let mut left_bytes = self.sockets.len() * MESSAGE.len();
        while left_bytes > 0 {
            let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_AT_ONCE];
            let (found, _) = epoll::wait(&self.events, &mut room, None)?;
            for event in &*found {
                let data = event.data;
                left_bytes -= receive(&mut self.sockets[data.u64() as usize])?;
            }
        }
        Ok(())
    }
}

/// What has come: more than nothing.
fn receive(socket: &mut TcpStream) -> std::io::Result<usize> {
    match socket.read(&mut [0; MESSAGE.len()])? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

/// A node.
pub fn run() -> Outcome {
    let (parent, count) = told()?;
    let up = TcpStream::connect(parent)?;
    up.set_nodelay(true)?;
    let mut children = None;
    if count > 0 {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("listening {}", listener.local_addr()?);
        children = Some(Children::accept(&listener, count)?);
    }
    println!("ready");
    match answer(up, children) {
        // Its parent's end is how it ends.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(()),
        other => Ok(other?),
    }
}

/// One answer to each message, when all below have answered.
fn answer(mut up: TcpStream, mut children: Option<Children>) -> std::io::Result<()> {
    let events = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&events, &up, EventData::new_u64(0), EventFlags::IN)?;
    loop {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; 1];
        epoll::wait(&events, &mut room, None)?;
        let mut left_bytes = MESSAGE.len();
        while left_bytes > 0 {
            left_bytes -= receive(&mut up)?;
        }
        if let Some(children) = &mut children {
            children.ask()?;
        }
        up.write_all(&MESSAGE)?;
    }
}

/// The root of such a tree, and its processes.
pub struct CallTree {
    children: Children,
    _processes: Vec<Process>,
}

impl CallTree {
    /// Starts it: the same nodes as the tree's, a process each.
    pub fn grow(tree: &Tree) -> Outcome<CallTree> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut started = start_all("calls", tree, listener.local_addr()?)?;
        let children = Children::accept(&listener, started.root_child_count())?;
        started.all_ready()?;
        Ok(CallTree { children, _processes: started.processes })
    }

    /// So many messages to all leaves and back; how long each took, in seconds.
    pub fn trips(&mut self, count: usize) -> Outcome<Vec<f64>> {
        let mut trip = || {
            let began = Instant::now();
            self.children.ask()?;
            Ok(began.elapsed().as_secs_f64())
        };
        (0..count).map(|_| trip()).collect()
    }
}
