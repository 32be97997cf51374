//! The task of a node, which keeps its time, reads, writes, takes calls and makes them; and the tasks that greet.
//!
//! All of them run on one thread and take turns at [`Core`]. The driver handles everything that has come before it
//! writes, so it writes once for all of it. Where a node has its thread to itself and nobody is being greeted, nothing
//! but the driver has anything to do there: then it is *parked*, and waits in the node's own list of files instead of
//! the runtime, whose way there and back is as long as all that a leaf does with a packet.
//!
//! Next: `core` for what happens, `events` for the list, `greet` for the beginning of a connection.

use crate::address::Listener;
use crate::awake::{self, Wait};
use crate::core::{Now, Shared};
use crate::error::LinkError;
use crate::events::{self, Alarm, Bell, Due, EVENTS_AT_ONCE, Events, What};
use crate::greet::Identity;
use crate::limits::{CALLS_AT_ONCE, DIAL_TIME_MAX, GREETING_COUNT_MAX, GREETING_TIME_MAX, LOOKS_AT_ONCE};
use crate::memory::Post;
use crate::socket::{Socket, is_not_now};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::Sleep;
use trimtab_overlay::NodeId;

/// After the kernel refused to give a connection, as when there are no more file numbers.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The task of a node.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    identity: Arc<Identity>,
    listener: Option<Listener>,
    post: Option<Arc<Post>>,
    events: AsyncFd<Arc<Events>>,
    /// True if the node has its thread to itself.
    is_alone: bool,
    /// Wake a driver that is parked; made with its first turn, if it may be.
    bell: Option<(Arc<Bell>, Waker)>,
    alarm: Option<Alarm>,
    /// Those who call and have not proved themselves are bounded in number: the oldest goes for a new one.
    greetings: VecDeque<AbortHandle>,
    /// Connections of which more was there than is read at once.
    unread: Vec<(NodeId, u32)>,
    sleep: Pin<Box<Sleep>>,
    sleeps_until: Due,
    wait: Wait,
}

/// What a turn left to do.
enum Turn {
    /// The node has ended.
    Over,
    /// Nothing until then, or until something comes.
    Until {
        /// When.
        at_us: u64,
        /// True if nothing but the driver has anything to do for the node.
        is_quiet: bool,
    },
}

/// A task that calls somebody or answers; while there are any, the driver is not parked.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.lock().greeting_count += 1;
        Counted(shared.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut core = self.0.lock();
        core.greeting_count -= 1;
        if core.greeting_count == 0 {
            core.ring();
        }
    }
}

impl Driver {
    /// On the current runtime, which is the node's own if it is alone.
    ///
    /// # Errors
    /// When the kernel has no room for what it waits for.
    pub(crate) fn new(
        shared: Arc<Shared>,
        identity: Arc<Identity>,
        events: Arc<Events>,
        listener: Option<Listener>,
        is_alone: bool,
    ) -> Result<Self, LinkError> {
        if let Some(listener) = &listener {
            events.add_listener(listener)?;
            listener.near.iter().try_for_each(|near| events.add_listener(near))?;
        }
        Ok(Driver {
            shared,
            post: identity.post.clone(),
            identity,
            listener,
            events: events::watched(events, Interest::READABLE)?,
            is_alone,
            bell: None,
            alarm: None,
            greetings: VecDeque::new(),
            unread: Vec::new(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sleeps_until: Due::default(),
            wait: Wait::default(),
        })
    }

    /// Does what is due, and says how long there is nothing else.
    fn turn(&mut self, now: Now, task: &Waker) -> Turn {
        let waker = self.bell.as_ref().map_or(task, |(_, waker)| waker);
        let mut core = self.shared.lock();
        if core.is_stopped {
            return Turn::Over;
        }
        let to_dial = core.turn(now.us, waker);
        let (at_us, is_called) = (core.armed_us, std::mem::take(&mut core.is_called));
        let is_quiet = core.greeting_count == 0 && to_dial.is_empty() && !is_called;
        drop(core);
        if !is_quiet {
            self.meet(to_dial, is_called, task);
        }
        Turn::Until { at_us, is_quiet }
    }

    #[cold]
    fn meet(&mut self, to_dial: Vec<NodeId>, is_called: bool, task: &Waker) {
        for peer in to_dial {
            tokio::spawn(dial(Counted::new(&self.shared), self.identity.clone(), peer));
        }
        if is_called {
            self.take_calls(task);
        }
    }

    /// Handles what has come, and waits for it or not; how many events there were, and when.
    fn take_events(&mut self, waits: bool) -> Result<(usize, Option<Now>), LinkError> {
        let before = std::mem::take(&mut self.unread);
        let (shared, bell, unread) = (&self.shared, &self.bell, &mut self.unread);
        let waits = waits && before.is_empty();
        if waits {
            let mut core = shared.lock();
            let now = shared.now();
            if core.comes_before_wait(now) {
                core.driver_runs();
                return Ok((0, Some(now)));
            }
        }
        let mut held = None;
        let hold = || {
            let mut core = shared.lock();
            core.driver_runs();
            (core, shared.now())
        };
        let mut take = |what| {
            let (core, now) = held.get_or_insert_with(hold);
            match what {
                What::Link(peer, serial) => {
                    let more = core.read(*now, peer, serial);
                    if more && !unread.contains(&(peer, serial)) {
                        unread.push((peer, serial));
                    }
                }
                What::Call => core.is_called = true,
                What::Bell => bell.iter().for_each(|(bell, _)| bell.quiet()),
                // The turn that follows looks at the time, and below it is looked what is in memory.
                What::Alarm | What::Near => {}
            }
        };
        let count = self.events.get_ref().take(waits, &mut take)?;
        // That there is more is said once.
        before.into_iter().for_each(|(peer, serial)| take(What::Link(peer, serial)));
        if self.post.as_ref().is_some_and(|post| post.is_in_use()) {
            // Also what nobody rang for, since the node was awake.
            let (core, now) = held.get_or_insert_with(hold);
            core.comes_after_wait(*now);
        }
        Ok((count, held.map(|(_, now)| now)))
    }

    /// Looks so often whether something has come that it stays awake for; when there was, or something was due.
    fn stays_awake(&mut self, looks_max: usize) -> Option<Now> {
        for _ in 0..looks_max {
            let now = self.shared.now();
            let mut core = self.shared.lock();
            if now.us >= core.armed_us || !core.is_calm() || core.look(now) {
                self.wait.end();
                return Some(now);
            }
            drop(core);
            if !self.wait.goes_on(now.at) {
                break;
            }
        }
        None
    }

    /// Parked: one turn and one wait after the other, until other tasks have something to do, or it is over.
    fn runs_parked(&mut self, bell: &Bell, task: &Waker) -> Result<Poll<()>, LinkError> {
        bell.park(true);
        let mut now = self.shared.now();
        while let Turn::Until { at_us, is_quiet } = self.turn(now, task) {
            if !is_quiet {
                bell.park(false);
                return Ok(Poll::Pending);
            }
            if self.wait.begin(now.at)
                && let Some(looked) = self.stays_awake(usize::MAX)
            {
                now = looked;
                continue;
            }
            if let Some(alarm) = &mut self.alarm {
                alarm.set(now.us, at_us)?;
            }
            let (_, came) = self.take_events(true)?;
            now = came.unwrap_or_else(|| self.shared.now());
        }
        Ok(Poll::Ready(()))
    }

    /// Sets the time at which the runtime wakes the driver, at the latest; whether it is there.
    fn is_due(&mut self, now: Now, until_us: u64, context: &mut Context<'_>) -> bool {
        if self.sleeps_until.must_set(now.us, until_us) {
            self.sleep.as_mut().reset(self.shared.instant(until_us).into());
        }
        // The sleep in progress is what wakes it.
        self.shared.lock().armed_us = self.sleeps_until.at_us;
        let is_due = self.sleep.as_mut().poll(context).is_ready();
        if is_due {
            self.sleeps_until = Due::default();
        }
        is_due
    }

    /// Handles what the runtime says has come. Whether there may be more at once.
    fn takes_ready(&mut self, context: &mut Context<'_>) -> Result<bool, LinkError> {
        if !self.unread.is_empty() {
            // Others of the runtime have had their turn.
            self.take_events(false)?;
        }
        let Poll::Ready(ready) = self.events.poll_read_ready(context) else { return Ok(false) };
        ready?.clear_ready();
        while self.take_events(false)?.0 == EVENTS_AT_ONCE {}
        Ok(true)
    }

    fn polled(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, LinkError> {
        if self.is_alone {
            if let Poll::Ready(()) = self.polled_alone(context)? {
                return Ok(Poll::Ready(()));
            }
        } else if self.wait.is_awake() {
            // What the runtime says has come it says once, also to a driver that looks by itself.
            let has_come = self.stays_awake(LOOKS_AT_ONCE).is_some() || self.takes_ready(context)?;
            if !has_come && self.wait.is_awake() {
                awake::look_again(context);
                return Ok(Poll::Pending);
            }
            self.wait.end();
        }
        loop {
            while self.takes_ready(context)? {}
            let now = self.shared.now();
            let Turn::Until { at_us, .. } = self.turn(now, context.waker()) else { return Ok(Poll::Ready(())) };
            if self.is_due(now, at_us, context) {
                continue;
            }
            if !self.unread.is_empty() {
                context.waker().wake_by_ref();
            } else if !self.is_alone && self.wait.begin(now.at) {
                awake::look_again(context);
            } else if self.shared.lock().comes_before_wait(now) {
                continue;
            }
            return Ok(Poll::Pending);
        }
    }

    fn polled_alone(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, LinkError> {
        let bell = match &self.bell {
            Some((bell, _)) => bell.clone(),
            None => {
                let bell = Bell::new(self.events.get_ref(), context.waker().clone())?;
                self.bell = Some((bell.clone(), bell.clone().into()));
                self.alarm = Some(Alarm::new(self.events.get_ref())?);
                bell
            }
        };
        self.runs_parked(&bell, context.waker())
    }

    /// Answers those who call.
    fn take_calls(&mut self, task: &Waker) {
        // What is kept of a greeting is as large as the greeting was.
        self.greetings.retain(|greeting| !greeting.is_finished());
        let Some(listener) = &self.listener else { return };
        for _ in 0..CALLS_AT_ONCE {
            match Socket::accept(listener) {
                Ok(socket) => {
                    if self.greetings.len() >= GREETING_COUNT_MAX
                        && let Some(oldest) = self.greetings.pop_front()
                    {
                        oldest.abort();
                    }
                    let answer = answer(Counted::new(&self.shared), self.identity.clone(), socket);
                    self.greetings.push_back(tokio::spawn(answer).abort_handle());
                }
                Err(LinkError::Io(error)) if is_not_now(&error) => return,
                Err(why) => {
                    self.shared.lock().trouble("whoever calls".to_owned(), &why);
                    tokio::spawn(listen_again(Counted::new(&self.shared)));
                    return;
                }
            }
        }
        self.shared.lock().is_called = true;
        task.wake_by_ref();
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.polled(context) {
            Ok(polled) => polled,
            Err(why) => {
                // The kernel doesn't say any more what has come.
                let mut core = self.shared.lock();
                core.trouble("the kernel".to_owned(), &why);
                core.stop();
                Poll::Ready(())
            }
        }
    }
}

/// Calls an ancestor.
async fn dial(counted: Counted, identity: Arc<Identity>, peer: NodeId) {
    let shared = &counted.0;
    let (contact, first) = {
        let mut core = shared.lock();
        (core.contact(peer), core.say_with_hello(peer))
    };
    let greeted = match &contact {
        Some(contact) => in_time(DIAL_TIME_MAX, Box::pin(identity.call(peer, contact, &first))).await,
        None => Err(LinkError::Closed),
    };
    let mut core = shared.lock();
    if let Err(why) = greeted.and_then(|greeted| core.adopt(shared.now_us(), greeted)) {
        core.dial_failed(shared.now_us(), peer, &why);
    }
}

/// Answers somebody who called.
async fn answer(counted: Counted, identity: Arc<Identity>, socket: Socket) {
    let shared = &counted.0;
    let name = socket.name.clone();
    let greeted = in_time(GREETING_TIME_MAX, Box::pin(identity.answer(socket))).await;
    let mut core = shared.lock();
    if let Err(why) = greeted.and_then(|greeted| core.adopt(shared.now_us(), greeted)) {
        core.trouble(name, &why);
    }
}

/// Lets the driver try again.
async fn listen_again(counted: Counted) {
    tokio::time::sleep(ACCEPT_PAUSE).await;
    let mut core = counted.0.lock();
    core.is_called = true;
    core.ring();
}

/// Ends what takes too long. Give it a box: a future that is passed on is held twice, for each of thousands of callers.
async fn in_time<T>(time_max: Duration, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    match tokio::time::timeout(time_max, work).await {
        Ok(result) => result,
        Err(_) => Err(LinkError::Slow { seconds: time_max.as_secs() }),
    }
}
