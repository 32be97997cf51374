//! The tasks of a node beside its connections: one that keeps its time, one that takes calls, and one for each greeting.
//!
//! All of them take turns at [`Core`](crate::core::Core).
//!
//! Next: `core` for what happens, `greet` for the beginning of a connection.

use crate::connection::adopt;
use crate::core::Shared;
use crate::error::LinkError;
use crate::greet::Identity;
use crate::limits::{DIAL_TIME_MAX, GREETING_TIME_MAX};
use crate::listener::Listener;
use crate::socket::Socket;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use trimtab_overlay::NodeId;

/// The time until the next try after the kernel refused to give a connection, as when there are no more file numbers.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The driver may wake this much before there is something to do. A beat that came postpones the next time by more, so
/// that an idle node doesn't set its timer anew for each.
const EARLY_US_MAX: u64 = 20_000;

/// A task that ends with this.
pub(crate) struct Ends(pub(crate) AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps a node's time until it is stopped: the machine's, calls to ancestors, and the owner's that is behind.
pub(crate) async fn drive(shared: Arc<Shared>, identity: Arc<Identity>, _listens: Option<Ends>) {
    let mut timer = pin!(sleep(Duration::ZERO));
    let mut timer_us = 0;
    poll_fn(|context| {
        loop {
            let now_us = shared.now_us();
            let mut core = shared.lock();
            if core.is_stopped {
                return Poll::Ready(());
            }
            for peer in core.turn(now_us, context.waker()) {
                tokio::spawn(dial(shared.clone(), identity.clone(), peer));
            }
            if must_set(&mut timer_us, now_us, core.armed_us) {
                timer.as_mut().reset(shared.instant(timer_us).into());
            }
            core.armed_us = timer_us;
            drop(core);
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            timer_us = 0;
        }
    })
    .await;
}

/// True if the timer has to be set anew, to `wanted_us`. It is left alone where it is only a little too early: to set
/// it costs as much as to read a packet.
fn must_set(timer_us: &mut u64, now_us: u64, wanted_us: u64) -> bool {
    let is_near = *timer_us > now_us && wanted_us >= *timer_us && wanted_us - *timer_us < EARLY_US_MAX;
    if !is_near {
        *timer_us = wanted_us;
    }
    !is_near
}

/// Takes the calls of a node's children, for as long as it runs.
pub(crate) async fn take_calls(shared: Arc<Shared>, identity: Arc<Identity>, listener: Listener) {
    loop {
        match Socket::accept(&listener).await {
            Ok((socket, name)) => {
                let mut core = shared.lock();
                let number = core.next_greeting();
                let answer = answer(shared.clone(), identity.clone(), number, socket, name);
                core.greets(number, tokio::spawn(answer).abort_handle());
            }
            Err(why) => {
                shared.lock().trouble("a caller".to_owned(), &why);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Calls an ancestor.
async fn dial(shared: Arc<Shared>, identity: Arc<Identity>, peer: NodeId) {
    let (contact, first) = {
        let mut core = shared.lock();
        (core.contact(peer), core.say_with_hello(peer))
    };
    let greeted = match &contact {
        Some(contact) => in_time(DIAL_TIME_MAX, Box::pin(identity.call(peer, contact, &first))).await,
        None => Err(LinkError::Closed),
    };
    let mut core = shared.lock();
    if let Err(why) = greeted.and_then(|greeted| adopt(&mut core, &shared, greeted)) {
        core.dial_failed(shared.now_us(), peer, &why);
    }
}

/// Answers a caller.
async fn answer(shared: Arc<Shared>, identity: Arc<Identity>, number: u64, socket: Socket, name: String) {
    let greeted = in_time(GREETING_TIME_MAX, Box::pin(identity.answer(socket))).await;
    let mut core = shared.lock();
    core.has_greeted(number);
    if let Err(why) = greeted.and_then(|greeted| adopt(&mut core, &shared, greeted)) {
        core.trouble(name, &why);
    }
}

/// Ends a greeting that takes too long. Its future is in a box because one that is passed on is held twice, for each of
/// thousands of callers.
async fn in_time<T>(time_max: Duration, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    match timeout(time_max, work).await {
        Ok(result) => result,
        Err(_) => Err(LinkError::Slow { seconds: time_max.as_secs() }),
    }
}
