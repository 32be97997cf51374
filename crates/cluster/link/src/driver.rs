//! The tasks of a node: one that keeps time, writes and calls; one that listens; one per connection that reads.
//!
//! All of them run on one thread and take turns at [`Core`]. The driver is woken by whatever leaves something to be
//! written and runs behind the tasks that are ready before it, so it writes once for all of them.
//!
//! Next: `core` for what happens, `greet` for the beginning of a connection.

use crate::address::Listener;
use crate::awake::{self, Wait};
use crate::core::Shared;
use crate::error::LinkError;
use crate::greet::{Greeted, Identity};
use crate::limits::{DIAL_TIME_MAX, GREETING_COUNT_MAX, GREETING_TIME_MAX, LOOKS_AT_ONCE};
use crate::socket::{self, ReadHalf, Socket};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};
use trimtab_overlay::NodeId;

/// After the kernel refused to give a connection, as when there are no more file numbers.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A sleep may end this much before there is something to do. A beat that came is more: without it an idle node would
/// wake once more for each.
const EARLY_US_MAX: u64 = 20_000;

/// The task that keeps a node's time, writes, and calls ancestors.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    identity: Arc<Identity>,
    sleep: Pin<Box<Sleep>>,
    /// When the sleep ends. It is left alone where it ends only a little too early: to set it costs as well.
    sleeps_until_us: u64,
    wait: Wait,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, identity: Arc<Identity>) -> Self {
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        Driver { shared, identity, sleep, sleeps_until_us: 0, wait: Wait::default() }
    }

    /// Looks whether something has come that it stays awake for; if not, it is polled again or, after some time, woken.
    fn waits_on(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..LOOKS_AT_ONCE {
            let now = std::time::Instant::now();
            let now_us = self.shared.us_at(now);
            let mut core = self.shared.lock();
            if now_us >= self.sleeps_until_us || !core.is_calm() || core.look(now, now_us) {
                self.wait.end();
                return false;
            }
            drop(core);
            if !self.wait.goes_on(now) {
                return true;
            }
        }
        awake::look_again(context);
        true
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        loop {
            if driver.wait.is_awake() && driver.waits_on(context) {
                return Poll::Pending;
            }
            let now = std::time::Instant::now();
            let now_us = driver.shared.us_at(now);
            let mut core = driver.shared.lock();
            if core.is_stopped {
                return Poll::Ready(());
            }
            let to_dial = core.turn(now_us, context);
            let wake_at_us = core.armed_us;
            let sleeps_on = driver.sleeps_until_us > now_us
                && wake_at_us >= driver.sleeps_until_us
                && wake_at_us - driver.sleeps_until_us < EARLY_US_MAX;
            // The sleep in progress is what wakes the driver at the latest.
            core.armed_us = if sleeps_on { driver.sleeps_until_us } else { wake_at_us };
            drop(core);
            for peer in to_dial {
                tokio::spawn(dial(driver.shared.clone(), driver.identity.clone(), peer));
            }
            if !sleeps_on {
                driver.sleeps_until_us = wake_at_us;
                driver.sleep.as_mut().reset(Instant::from_std(driver.shared.instant(wake_at_us)));
            }
            if driver.sleep.as_mut().poll(context).is_pending() {
                driver.wait.begin(now, context);
                return Poll::Pending;
            }
            driver.sleeps_until_us = 0;
        }
    }
}

/// Calls an ancestor; another task, which is small, reads what it says until the connection ends.
async fn dial(shared: Arc<Shared>, identity: Arc<Identity>, peer: NodeId) {
    let contact = shared.lock().contact(peer);
    let greeted = match &contact {
        Some(contact) => in_time(DIAL_TIME_MAX, Box::pin(identity.call(peer, contact))).await,
        None => Err(LinkError::Closed),
    };
    let adopted = greeted.and_then(|greeted| shared.lock().adopt(shared.now_us(), greeted));
    match adopted {
        Ok((serial, read)) => drop(tokio::spawn(reading(shared, peer, serial, read))),
        Err(why) => shared.lock().dial_failed(shared.now_us(), peer, &why),
    }
}

/// Awaits connections. Those that haven't proved themselves are bounded in number: the oldest goes for a new one.
pub(crate) async fn listening(shared: Arc<Shared>, identity: Arc<Identity>, listener: Listener) {
    let mut greetings: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::time::timeout(GREETING_TIME_MAX, Socket::accept(&listener)).await;
        // What is kept of a greeting is as large as the greeting was.
        greetings.retain(|greeting| !greeting.is_finished());
        let Ok(accepted) = accepted else { continue };
        match accepted {
            Ok(socket) => {
                if greetings.len() >= GREETING_COUNT_MAX
                    && let Some(oldest) = greetings.pop_front()
                {
                    oldest.abort();
                }
                let greeting = tokio::spawn(greeting(shared.clone(), identity.clone(), socket));
                greetings.push_back(greeting.abort_handle());
            }
            Err(why) => {
                shared.lock().trouble("whoever calls".to_owned(), &why);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn greeting(shared: Arc<Shared>, identity: Arc<Identity>, socket: Socket) {
    let name = socket.name.clone();
    let greeted = in_time(GREETING_TIME_MAX, Box::pin(identity.answer(socket))).await;
    let taken_in = greeted.and_then(|greeted: Greeted| {
        let peer = greeted.peer;
        let (serial, read) = shared.lock().adopt(shared.now_us(), greeted)?;
        // A task of its own, since this one may be ended for a newer caller.
        tokio::spawn(reading(shared.clone(), peer, serial, read));
        Ok(())
    });
    if let Err(why) = taken_in {
        shared.lock().trouble(name, &why);
    }
}

/// Reads one connection until it ends.
async fn reading(shared: Arc<Shared>, peer: NodeId, serial: u64, mut read: ReadHalf) {
    let why = loop {
        match std::future::poll_fn(|context| poll_read(&shared, peer, serial, &mut read, context)).await {
            Ok(()) => {}
            Err(why) => break why,
        }
    };
    shared.lock().ended(shared.now_us(), peer, serial, &why);
}

fn poll_read(
    shared: &Shared,
    peer: NodeId,
    serial: u64,
    read: &mut ReadHalf,
    context: &mut Context<'_>,
) -> Poll<Result<(), LinkError>> {
    let taken = ready!(socket::poll_read(read, context, |bytes| {
        if bytes.is_empty() {
            return Err(LinkError::Closed);
        }
        let now = std::time::Instant::now();
        awake::came(now);
        shared.lock().arrived(shared.us_at(now), peer, serial, bytes)
    }));
    Poll::Ready(taken?)
}

/// Ends what takes too long. Give it a box: a future that is passed on is held twice, for each of thousands of callers.
async fn in_time<T>(time_max: Duration, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    match tokio::time::timeout(time_max, work).await {
        Ok(result) => result,
        Err(_) => Err(LinkError::Slow { seconds: time_max.as_secs() }),
    }
}
