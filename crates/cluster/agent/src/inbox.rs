//! The news of the tree that an agent has not acted upon yet, each read once.
//!
//! An agent that is at work looks here whether somebody still waits for it.
//!
//! Next: `serve`, which acts on it.

use crate::error::Error;
use crate::talk::{Ask, Question};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;
use trimtab_link::blocking::Blocking;
use trimtab_measure::Request;
use trimtab_overlay::Told;

/// So much is read ahead; the rest waits in the link, which has a bound of its own.
const AHEAD_MAX: usize = 64;

/// The news of an agent's tree, in order.
pub(crate) struct Inbox<'a> {
    pub link: &'a Blocking,
    ahead: RefCell<VecDeque<Result<News, Error>>>,
}

/// One of them.
pub(crate) enum News {
    /// The lead asks something on a stream.
    Asked(u32, Question),
    /// Anything else.
    Told(Told),
}

impl<'a> Inbox<'a> {
    pub(crate) fn of(link: &'a Blocking) -> Self {
        Inbox { link, ahead: RefCell::default() }
    }

    /// The next one, for which it waits so long at most.
    ///
    /// # Errors
    /// A question that can't be understood.
    pub(crate) fn next(&self, wait: Duration) -> Result<Option<News>, Error> {
        let ahead = self.ahead.borrow_mut().pop_front();
        ahead.or_else(|| self.link.wait(wait).map(News::of)).transpose()
    }

    /// True if nobody waits any more for what the agent is doing.
    pub(crate) fn gives_up(&self) -> bool {
        let mut ahead = self.ahead.borrow_mut();
        while ahead.len() < AHEAD_MAX
            && let Some(told) = self.link.wait(Duration::ZERO)
        {
            ahead.push_back(News::of(told));
        }
        ahead.iter().flatten().any(News::gives_up)
    }
}

impl News {
    fn of(told: Told) -> Result<Self, Error> {
        let Told::Command { stream, payload, .. } = told else { return Ok(News::Told(told)) };
        let question = postcard::from_bytes(&payload).map_err(|_| Error::Malformed { what: "a question" })?;
        Ok(News::Asked(stream, question))
    }

    fn gives_up(&self) -> bool {
        match self {
            News::Asked(_, Question { ask: Ask::Window(command), .. }) => matches!(command.request, Request::Abandon),
            News::Asked(_, question) => question.ask == Ask::Leave,
            News::Told(told) => matches!(told, Told::Uninstrument),
        }
    }
}
