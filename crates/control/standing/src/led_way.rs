//! The way of a lead that the controller has started itself: it asks for agents, and hands over the report, through its own
//! standard input and output. It has no identity and needs none.
//!
//! Next: `trimtab_site::led` for the words; the controller's `leads` for the other end.

use crate::error::Error;
use crate::site_window::{Asks, SiteWindow, wanted};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_agent::start::{Start, Started};
use trimtab_agent::{Error as AgentError, Lead, Ticket};
use trimtab_engine::{BoxError, Callable, Calls, Gathered, Hold, Nodes, Spread, Waker};
use trimtab_link::JobSecret;
use trimtab_site::api::{BODY_BYTES_MAX, Begun, WindowState};
use trimtab_site::jobs::{Filed, Filing};
use trimtab_site::led::{LeadAsks, LeadHears, LeadOrder};

/// The controller, at the other ends of two pipes.
#[derive(Clone)]
pub struct LedWay {
    ends: Arc<Mutex<Ends>>,
}

struct Ends {
    hears: BufReader<Box<dyn Read + Send>>,
    asks: Box<dyn Write + Send>,
}

impl fmt::Debug for LedWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedWay")
    }
}

impl LedWay {
    /// Reads what is to be led.
    ///
    /// # Errors
    /// The controller is gone, or says something else.
    pub fn begin(hears: Box<dyn Read + Send>, asks: Box<dyn Write + Send>) -> Result<(LedWay, LeadOrder), Error> {
        let mut ends = Ends { hears: BufReader::new(hears), asks };
        let order = serde_json::from_str(&ends.line()?).map_err(|_| Error::Malformed { what: "the order" })?;
        Ok((LedWay { ends: Arc::new(Mutex::new(ends)) }, order))
    }

    /// Says that nothing was measured.
    ///
    /// # Errors
    /// The controller is gone.
    pub fn failed(&self, why: String) -> Result<(), Error> {
        self.ends().say(&LeadAsks::Failed(why))
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, ask: &LeadAsks) -> Result<LeadHears, Error> {
        let mut ends = self.ends();
        ends.say(ask)?;
        let line = ends.line()?;
        match serde_json::from_str(&line).map_err(|_| Error::Malformed { what: "the controller's answer" })? {
            LeadHears::No(why) => Err(Error::ControllerSays(why)),
            hears => Ok(hears),
        }
    }

    fn window(&self, ticket: &Ticket, secret: &JobSecret) -> Result<SiteWindow, Error> {
        let wanted = wanted(ticket, secret)?;
        let nodes = wanted.nodes.clone();
        match self.ask(&LeadAsks::Begin(wanted))? {
            LeadHears::Begun(begun) => Ok(self.begun(&nodes, begun)),
            _ => Err(Error::Malformed { what: "the controller's answer" }),
        }
    }

    fn begun(&self, nodes: &[String], begun: Begun) -> SiteWindow {
        SiteWindow::begun(Box::new(self.clone()), nodes, begun)
    }
}

impl Ends {
    fn say(&mut self, ask: &LeadAsks) -> Result<(), Error> {
        let mut line = serde_json::to_vec(ask).map_err(|error| Error::Io(error.into()))?;
        line.push(b'\n');
        self.asks.write_all(&line)?;
        Ok(self.asks.flush()?)
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        (&mut self.hears).take(BODY_BYTES_MAX as u64).read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line) } else { Err(Error::Malformed { what: "an end of the controller's words" }) }
    }
}

impl Asks for LedWay {
    fn state(&self) -> Result<WindowState, Error> {
        match self.ask(&LeadAsks::State)? {
            LeadHears::State(state) => Ok(state),
            _ => Err(Error::Malformed { what: "the controller's answer" }),
        }
    }

    fn file(&self, filing: &Filing) -> Result<Filed, Error> {
        match self.ask(&LeadAsks::File(Box::new(filing.clone())))? {
            LeadHears::Filed(filed) => Ok(filed),
            _ => Err(Error::Malformed { what: "the controller's answer" }),
        }
    }

    /// The controller sees the end of this process.
    fn end(&self) {}

    fn other_way(&self) -> Option<&'static str> {
        None
    }
}

impl Start for LedWay {
    fn start(&self, _: &Path, ticket: &Ticket, secret: &JobSecret) -> Result<Started, AgentError> {
        let begun = self.window(ticket, secret);
        begun.map(|window| Started::by_others(Box::new(window))).map_err(|error| AgentError::Others(error.into()))
    }
}

impl Nodes for LedWay {
    fn stand_by(&self) -> bool {
        true
    }

    fn gather<'a>(
        &'a self,
        spread: &Spread,
        command: &str,
        hold: Option<Hold>,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Box<dyn Gathered + 'a>, BoxError> {
        Ok(Box::new(Lead::to(spread, self, (command, hold), is_interrupted)?))
    }

    fn hear_calls(&self, _: Callable, _: Waker) -> Result<Box<dyn Calls>, BoxError> {
        Err(trimtab_engine::Error::NoSite.into())
    }
}
