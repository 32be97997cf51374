//! One machine's part of a script: put in, looked at, taken out, as it is asked.
//!
//! Messages are taken out of the processes' memory as they come, and wait here until they are asked for. If nobody asks, they
//! find no room at last and are counted: the processes never wait.
//!
//! Next: `run`, which does the work.

use crate::error::Error;
use crate::message::Message;
use crate::request::{Answer, Command, Finished, Poll, Started};
use crate::run::Running;
use crate::source::ScriptOptions;
use crate::target::{LOOK_EVERY, Target};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use trimtab_measure::Asked;
use trimtab_session::ImageCache;
use trimtab_snippet::values::Named;

/// Between two looks at processes that load.
const LOADING_LOOK: Duration = Duration::from_millis(3);

/// Processes of one machine, and the script in them if there is one.
pub struct ScriptNode<'c> {
    number: u32,
    targets: Vec<Target>,
    cache: &'c ImageCache,
    /// How long processes may be at loading when probes are to go in.
    patience: Duration,
    /// Messages that may wait.
    messages_max: usize,
    running: Option<Running>,
    waiting: VecDeque<Message>,
    /// Messages that found no room.
    dropped: u64,
    /// The news since somebody asked, without the messages.
    news: Poll,
    /// The values, once it is out.
    values: Vec<Named>,
}

impl<'c> ScriptNode<'c> {
    /// Nothing is in these processes yet.
    pub fn new(number: u32, targets: Vec<Target>, cache: &'c ImageCache) -> Self {
        ScriptNode {
            number,
            targets,
            cache,
            patience: Duration::ZERO,
            messages_max: usize::MAX,
            running: None,
            waiting: VecDeque::new(),
            dropped: 0,
            news: Poll::default(),
            values: Vec::new(),
        }
    }

    /// The same for processes that may just have been started: it waits so long until they can be patched.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        ScriptNode { patience, ..self }
    }

    /// The same where no more than so many messages wait.
    #[must_use]
    pub fn with_messages_max(self, messages_max: usize) -> Self {
        ScriptNode { messages_max, ..self }
    }

    /// When to call [`ScriptNode::turn`] again; `None`: no script is in.
    pub fn next_look(&self) -> Option<Duration> {
        self.running.as_ref()?.next_look()
    }

    /// Looks at the processes.
    pub fn turn(&mut self) {
        let Some(running) = &mut self.running else { return };
        let poll = running.poll();
        self.news.stopped |= poll.stopped;
        self.news.has_new_handler |= poll.has_new_handler;
        self.news.alive = poll.alive;
        self.keep(poll.messages);
    }

    /// Waits until it is worth looking again, so long at most.
    pub fn wait(&self, limit: Option<Duration>) {
        match &self.running {
            Some(running) => running.wait(limit),
            None => std::thread::sleep(limit.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)),
        }
    }

    /// The values; none as long as the script is in.
    pub fn values(&self) -> &[Named] {
        &self.values
    }

    /// Takes it out, without results; true if one was in. Values of an earlier one stay.
    pub fn abandon(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Puts a script in; whatever was in before comes out.
    fn start(&mut self, options: &ScriptOptions) -> Result<Started, Error> {
        (self.running, self.dropped, self.news) = (None, 0, Poll::default());
        self.waiting.clear();
        self.values.clear();
        if self.targets.is_empty() {
            return Ok(Started::default());
        }
        let running = self.when_loaded(|| Running::start(&self.targets, options, self.cache))?;
        let (functions, refused) = running.refusals();
        let started = Started {
            processes: self.targets.len(),
            ranks: self.targets.iter().filter_map(|target| target.rank).collect(),
            functions,
            refused,
            awaited: running.awaited(),
            wanted: running.wanted(),
        };
        (self.news.alive, self.running) = (self.targets.len(), Some(running));
        Ok(started)
    }

    fn poll(&mut self, bytes_max: usize) -> Poll {
        self.turn();
        let messages = self.take(bytes_max);
        Poll { messages, has_more: !self.waiting.is_empty(), ..self.news.clone() }
    }

    fn finish(&mut self) -> Finished {
        let Some(running) = self.running.take() else { return Finished::default() };
        let (last, values, mut summary) = running.finish();
        self.keep(last);
        self.values = values;
        summary.loss.messages = summary.loss.messages.saturating_add(self.dropped);
        Finished { messages: std::mem::take(&mut self.waiting).into(), summary }
    }

    fn keep(&mut self, messages: Vec<Message>) {
        let room = self.messages_max.saturating_sub(self.waiting.len());
        self.dropped += messages.len().saturating_sub(room) as u64;
        self.waiting.extend(messages.into_iter().take(room));
    }

    /// The oldest messages of so many bytes, and always one: none is longer than an answer may be.
    fn take(&mut self, bytes_max: usize) -> Vec<Message> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            bytes += next.bytes_max();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            taken.extend(self.waiting.pop_front());
        }
        taken
    }

    /// Processes that have just begun may still be loading.
    fn when_loaded<T>(&self, attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let begun = Instant::now();
        loop {
            match attempt() {
                Err(error) if error.is_loading() && begun.elapsed() < self.patience => {
                    std::thread::sleep(LOADING_LOOK);
                }
                other => return other,
            }
        }
    }
}

impl Asked<Command> for ScriptNode<'_> {
    fn number(&self) -> u32 {
        self.number
    }

    fn answer_to(&mut self, command: &Command) -> Result<Answer, Error> {
        Ok(match command {
            Command::Start(start) => Answer::Started(self.start(&start.options)?),
            Command::Poll { bytes_max } => Answer::Polled(self.poll(*bytes_max as usize)),
            Command::Finish => Answer::Finished(Box::new(self.finish())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageValue;

    fn message(text: &str) -> Message {
        let values = vec![MessageValue::Text(text.to_owned())];
        Message { rank: 3, pid: 1, tag: "t".to_owned(), ticks: 1, values }
    }

    #[test]
    fn messages_wait_are_handed_out_in_order_and_counted_where_there_is_no_room() {
        const MESSAGES_MAX: usize = 1000;
        let cache = ImageCache::in_memory();
        let mut node = ScriptNode::new(0, Vec::new(), &cache).with_messages_max(MESSAGES_MAX);
        node.keep((0..5).map(|number| message(&"x".repeat(number * 100))).collect());
        let lengths = |sent: &[Message]| sent.iter().map(Message::bytes_max).collect::<Vec<_>>();
        assert_eq!(lengths(&node.take(220)), [52, 152]);
        assert_eq!(lengths(&node.take(1)), [252], "one at least");
        assert_eq!(node.take(usize::MAX).len(), 2);
        node.keep((0..MESSAGES_MAX + 7).map(|_| message("")).collect());
        assert_eq!((node.waiting.len(), node.dropped), (MESSAGES_MAX, 7));
    }
}
