//! An agent's part of a script: it runs in the agent's ranks as it would on one machine.
//!
//! Messages are taken out of the ranks' memory as they come, and wait here until the lead asks. If it does not ask, they
//! find no room at last and are counted: the ranks never wait.
//!
//! Next: `trimtab_script::Running`, which does the work.

use super::{Answer, Command, Finished, Lacking, MESSAGES_MAX, Polled, Sent, Start, Started, Variable};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use trimtab_measure::host_name;
use trimtab_script::{Error, Message, Options, Permissions, Running, Target};
use trimtab_session::ImageCache;
use trimtab_track::Job;
use trimtab_types::context::Context;
use trimtab_types::one_line;

/// How long a rank may take from its first instruction to a state in which it can be patched.
const LOADING_MAX: Duration = Duration::from_secs(20);
/// Between two looks at ranks that load.
const LOADING_LOOK: Duration = Duration::from_millis(3);
/// Longest text of a script that is shown with its problems.
const REFUSED_BYTES_MAX: usize = 64 << 10;

/// The script of an agent's ranks, if one is in.
#[derive(Default)]
pub(crate) struct Scripts {
    running: Option<Running>,
    waiting: VecDeque<Sent>,
    dropped: u64,
    is_stopped: bool,
    has_new_handler: bool,
    alive: usize,
    /// The counts, once it is out.
    counted: Vec<Variable>,
}

/// Ranks of `job` that a command is for.
pub(crate) fn chosen(job: &Job, start: &Start) -> Result<Job, String> {
    let ranks: Context = start.ranks.parse().map_err(|error| format!("--ranks {}: {error}", start.ranks))?;
    Ok(job.within(&ranks, &host_name()))
}

impl Scripts {
    /// Puts a script into all ranks of `job`; whatever was in before comes out.
    pub(crate) fn start(&mut self, job: &Job, start: &Start, cache: &ImageCache) -> Result<Answer, String> {
        *self = Scripts::default();
        let target = |process: &trimtab_track::RankProcess| Target {
            pid: process.pid,
            rank: Some(process.rank.0),
            ranks: Some(start.size),
        };
        let targets: Vec<Target> = job.ranks.iter().map(target).collect();
        if targets.is_empty() {
            return Ok(Answer::Started(Started::default()));
        }
        let permissions = Permissions { write: start.may_write, call: start.may_call };
        let options = Options { text: start.text.clone(), permissions, seccomp_ok: start.seccomp_ok };
        let running = when_loaded(|| Running::start(&targets, &options, cache));
        let ranks = job.ranks.iter().map(|process| process.rank.0).collect();
        let running = match running {
            Ok(running) => running,
            Err(error) if error.is_of_places() => {
                let lacking = Lacking { ranks, reason: error.reason(), shown: shown(error, &start.text) };
                return Ok(Answer::Started(Started { lacking: Some(lacking), ..Started::default() }));
            }
            Err(error) => return Err(shown(error, &start.text)),
        };
        let (functions, refused) = running.refusals();
        let started = Started {
            ranks,
            functions: functions as u64,
            refused: refused.into_iter().map(|one| (one.function, one.reason)).collect(),
            awaited: running.awaited(),
            wanted_us: running.wanted().map(|wanted| wanted.as_micros() as u64),
            lacking: None,
        };
        (self.alive, self.running) = (targets.len(), Some(running));
        Ok(Answer::Started(started))
    }

    /// Does what a command other than the first says.
    pub(crate) fn handle(&mut self, command: &Command) -> Answer {
        match command {
            Command::Finish => self.finish(),
            Command::Poll { bytes_max } => {
                self.turn();
                let messages = self.take(*bytes_max as usize);
                let (has_more, is_stopped) = (!self.waiting.is_empty(), self.is_stopped);
                let has_new_handler = self.has_new_handler;
                Answer::Polled(Polled { messages, has_more, is_stopped, has_new_handler, alive: self.alive as u64 })
            }
            // It needs the job.
            Command::Start(_) => Answer::Started(Started::default()),
        }
    }

    /// When to call [`Scripts::turn`] again; `None`: no script is in.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.running.as_ref()?.next_look()
    }

    /// Looks at the ranks.
    pub(crate) fn turn(&mut self) {
        let Some(running) = &mut self.running else { return };
        let poll = running.poll();
        self.is_stopped |= poll.stopped;
        self.has_new_handler |= poll.has_new_handler;
        self.alive = poll.alive;
        self.keep(poll.messages);
    }

    /// The counts; nothing as long as the script is in.
    pub(crate) fn counted(&self) -> Vec<Variable> {
        self.counted.clone()
    }

    /// Takes it out, without results; true if one was in. What an earlier one counted stays.
    pub(crate) fn abandon(&mut self) -> bool {
        self.running.take().is_some()
    }

    fn finish(&mut self) -> Answer {
        let Some(running) = self.running.take() else { return Answer::Finished(Box::default()) };
        let (last, values, summary) = running.finish();
        self.keep(last);
        self.counted = values.into_iter().map(Variable::from).collect();
        let messages = std::mem::take(&mut self.waiting).into();
        let costs = self.counted.iter().map(Variable::costs);
        let (fixed_bytes, growing_bytes) = costs.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        Answer::Finished(Box::new(Finished { messages, dropped: self.dropped, fixed_bytes, growing_bytes, summary }))
    }

    fn keep(&mut self, messages: Vec<Message>) {
        for message in messages {
            if self.waiting.len() < MESSAGES_MAX {
                self.waiting.push_back(message.into());
            } else {
                self.dropped += 1;
            }
        }
    }

    /// The oldest messages of so many bytes, and always one: none is longer than an answer may be.
    fn take(&mut self, bytes_max: usize) -> Vec<Sent> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            bytes += next.cost();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            taken.extend(self.waiting.pop_front());
        }
        taken
    }
}

/// Ranks of a job that has just begun may still be loading.
fn when_loaded<T>(attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let until = Instant::now() + LOADING_MAX;
    loop {
        match attempt() {
            Err(Error::Process { source, .. }) if source.is_loading() && Instant::now() < until => {
                std::thread::sleep(LOADING_LOOK);
            }
            other => return other,
        }
    }
}

/// A problem of the script with its lines; anything else in one line.
fn shown(error: Error, text: &str) -> String {
    match error {
        Error::Script(refused) if text.len() <= REFUSED_BYTES_MAX => {
            format!("the script was refused\n{}", refused.render(text))
        }
        other => one_line(&other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        let values = vec![trimtab_script::MessageValue::Text(text.to_owned())];
        Message { rank: 3, pid: 1, tag: "t".to_owned(), ticks: 1, values }
    }

    #[test]
    fn messages_wait_are_handed_out_in_order_and_counted_where_there_is_no_room() {
        let mut scripts = Scripts::default();
        scripts.keep((0..5).map(|number| message(&"x".repeat(number * 100))).collect());
        let lengths = |sent: &[Sent]| sent.iter().map(Sent::cost).collect::<Vec<_>>();
        assert_eq!(lengths(&scripts.take(220)), [52, 152]);
        assert_eq!(lengths(&scripts.take(1)), [252], "one at least");
        assert_eq!(scripts.take(usize::MAX).len(), 2);
        scripts.keep((0..MESSAGES_MAX + 7).map(|_| message("")).collect());
        assert_eq!((scripts.waiting.len(), scripts.dropped), (MESSAGES_MAX, 7));
    }

    #[test]
    fn what_a_message_costs_is_no_less_than_it_takes() {
        let values = vec![
            super::super::SentValue::Int(i64::MIN),
            super::super::SentValue::Float(1.5),
            super::super::SentValue::Text("some text".to_owned()),
        ];
        let sent = Sent { rank: i64::MIN, pid: i32::MIN, tag: "a tag".to_owned(), ticks: u64::MAX, values };
        let bytes = postcard::to_allocvec(&sent).expect("it has bytes");
        assert!(bytes.len() <= sent.cost(), "{} {}", bytes.len(), sent.cost());
    }
}
