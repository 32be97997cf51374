//! The lead of a window that the controller has measured: another program, without an identity or a right, which asks through
//! two pipes for agents of one job and hands the report over.
//!
//! Agents start in the name of the job's owner, as if the owner had asked: each compares that user with the kernel's.
//!
//! Next: `trimtab_site::led` for the words, `trimtab_standing::LedWay` for the other end; `measuring`, which calls this.

use crate::asked::Refusal;
use crate::foreknown::LeadProcess;
use crate::kept::keep_filing;
use crate::not_led::NotLed;
use crate::routes::begin_window;
use crate::state::Controller;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use trimtab_site::Role;
use trimtab_site::api::{REPORT_BYTES_MAX, Wanted};
use trimtab_site::jobs::Filing;
use trimtab_site::led::{LeadAsks, LeadHears, LeadOrder};
use trimtab_site::measured::KeptAt;

/// A lead may take so much longer than its window: agents come, read symbols, and restore.
const BESIDE_WINDOW_MAX: Duration = Duration::from_secs(180);

/// Leads a window to its end: where its report is kept, or why there is none.
pub(crate) fn lead(controller: &Controller, order: &LeadOrder, process: LeadProcess) -> Result<KeptAt, NotLed> {
    let LeadProcess { says, hears, end, .. } = process;
    let limit = Duration::from_secs_f64(order.asked.seconds_max) + BESIDE_WINDOW_MAX;
    let (over, ended) = channel::<()>();
    // Whoever reads is told by the end of the lead's words that it was ended.
    let watch = move || {
        let is_late = matches!(ended.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
        end();
        is_late
    };
    let watched = std::thread::Builder::new().name("trimtab-lead-end".to_owned()).spawn(watch);
    let watched = watched.map_err(NotLed::Thread)?;
    let mut talk = Talk { controller, order, says: BufReader::new(says), hears, window: None };
    let outcome = talk.until_over();
    if let Some(window) = talk.window {
        // Whoever comes for an order now comes too late.
        let _gone = controller.state().windows.end(window, &Role::Controller);
    }
    // Its ends of the pipes too, for a lead that waits for an answer.
    drop(talk);
    drop(over);
    let is_late = watched.join().unwrap_or(false);
    outcome.map_err(|why| match is_late {
        true => NotLed::Late { limit_s: limit.as_secs(), why: Box::new(why) },
        false => why,
    })
}

struct Talk<'a> {
    controller: &'a Controller,
    order: &'a LeadOrder,
    says: BufReader<Box<dyn Read + Send>>,
    hears: Box<dyn Write + Send>,
    /// Its number among those that want agents.
    window: Option<u64>,
}

impl Talk<'_> {
    fn until_over(&mut self) -> Result<KeptAt, NotLed> {
        self.say(self.order)?;
        loop {
            let answer = match self.next()? {
                LeadAsks::Begin(wanted) => self.begin(wanted),
                LeadAsks::State => self.state(),
                LeadAsks::File(filing) => {
                    let kept = self.file(*filing);
                    let answer = match &kept {
                        Ok(filed) => LeadHears::Filed(filed.clone()),
                        Err(why) => LeadHears::No(why.to_string()),
                    };
                    // It may have gone; its report is kept all the same.
                    let _told = self.say(&answer);
                    return kept.map(KeptAt::from);
                }
                LeadAsks::Failed(why) => return Err(NotLed::Failed(why)),
            };
            self.say(&answer.unwrap_or_else(|Refusal(_, why)| LeadHears::No(why)))?;
        }
    }

    fn begin(&mut self, wanted: Wanted) -> Result<LeadHears, Refusal> {
        if self.window.is_some() {
            return Ok(LeadHears::No("a window begins once".to_owned()));
        }
        let LeadOrder { owner, by, .. } = self.order;
        let begun = begin_window(self.controller, wanted, |windows, wanted, hosts| {
            windows.begin_for((*owner, by.as_str()), wanted, hosts, Instant::now())
        })?;
        self.window = Some(begun.id);
        Ok(LeadHears::Begun(begun))
    }

    fn state(&self) -> Result<LeadHears, Refusal> {
        let Some(window) = self.window else { return Ok(LeadHears::No("no window has begun".to_owned())) };
        let state = self.controller.state().windows.state(window, &Role::Controller, Instant::now())?;
        Ok(LeadHears::State(state))
    }

    fn file(&mut self, filing: Filing) -> Result<trimtab_site::jobs::Filed, NotLed> {
        let window = self.window.ok_or(NotLed::NotBegun)?;
        let owner = self.controller.state().windows.file(window, &Role::Controller);
        let owner = owner.map_err(|why| NotLed::Refused(why.to_string()))?;
        keep_filing(self.controller, owner, filing).map_err(|Refusal(_, why)| NotLed::Refused(why))
    }

    fn next(&mut self) -> Result<LeadAsks, NotLed> {
        let mut line = String::new();
        let read = (&mut self.says).take(REPORT_BYTES_MAX as u64 + 1).read_line(&mut line);
        if read.map_err(NotLed::Unheard)? == 0 {
            return Err(NotLed::Gone);
        }
        match line.ends_with('\n') {
            true => serde_json::from_str(&line).map_err(NotLed::Malformed),
            false if line.len() > REPORT_BYTES_MAX => Err(NotLed::TooLong),
            false => Err(NotLed::Gone),
        }
    }

    fn say(&mut self, what: &impl serde::Serialize) -> Result<(), NotLed> {
        let mut line = serde_json::to_vec(what).map_err(NotLed::Unwritten)?;
        line.push(b'\n');
        let said = self.hears.write_all(&line).and_then(|()| self.hears.flush());
        said.map_err(NotLed::Deaf)
    }
}
