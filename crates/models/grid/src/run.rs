//! Tasks against time: computations on hosts and transfers that share links.
//!
//! From one event to the next all rates are constant. A transfer first waits for its latency, and then its bytes flow at the
//! rate that `share` says. No clock is read: all times are seconds from the start.
//!
//! Next: `share` for rates, `outlook`, which runs the same tasks at both ends of each figure's interval.

use crate::share::rates;

/// Its load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    /// Some time.
    Compute {
        /// Seconds.
        seconds: f64,
    },
    /// Bytes from host to host.
    Transfer {
        /// The numbers of sender and receiver, for transfers that are in turn.
        ends: (usize, usize),
        /// The things it goes through, by their place among capacities.
        through: Vec<usize>,
        /// Seconds before the first byte.
        latency_s: f64,
        /// Bytes.
        bytes: f64,
    },
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    /// Its load.
    pub load: Load,
    /// Tasks before it that must have ended.
    pub after: Vec<usize>,
}

/// The course of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ran {
    /// Seconds from the start.
    pub begins_s: f64,
    /// Seconds from the start.
    pub ends_s: f64,
    /// The task for whose end it waited last; `None`: it began at the start.
    pub cause: Option<usize>,
    /// Bytes that flowed.
    pub bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waits,
    /// Until then it computes, or its first byte travels.
    Until(f64),
    /// So many bytes are left.
    Flows(f64),
    Ended,
}

/// Runs tasks, each of which comes after those that it needs.
pub(crate) fn run(tasks: &[Task], capacities: &[f64], in_turn: bool) -> Vec<Ran> {
    let mut course = Course {
        tasks,
        in_turn,
        now_s: 0.0,
        states: vec![State::Waits; tasks.len()],
        ran: vec![Ran::default(); tasks.len()],
    };
    course.begin();
    while course.step(capacities) {
        course.begin();
    }
    course.ran
}

struct Course<'a> {
    tasks: &'a [Task],
    in_turn: bool,
    now_s: f64,
    states: Vec<State>,
    ran: Vec<Ran>,
}

impl Course<'_> {
    /// Lets all begin that can.
    fn begin(&mut self) {
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            let is_ready = task.after.iter().all(|before| self.states[*before] == State::Ended);
            if self.states[at] != State::Waits || !is_ready || self.is_held(at) {
                continue;
            }
            self.ran[at] = Ran { begins_s: self.now_s, cause: self.cause(at), ..self.ran[at] };
            self.states[at] = State::Until(
                self.now_s
                    + match &task.load {
                        Load::Compute { seconds } => *seconds,
                        Load::Transfer { latency_s, .. } => *latency_s,
                    },
            );
        }
    }

    /// True if another transfer has its sender's or receiver's turn.
    fn is_held(&self, at: usize) -> bool {
        let holds = |other: usize| matches!(self.states[other], State::Until(_) | State::Flows(_));
        self.in_turn && self.rivals(at).any(holds)
    }

    /// Other transfers of the same sender or to the same receiver.
    fn rivals(&self, at: usize) -> impl Iterator<Item = usize> {
        let own = ends_of(&self.tasks[at]);
        let is_rival = move |other: &usize| {
            let other_ends = ends_of(&self.tasks[*other]);
            own.zip(other_ends).is_some_and(|(own, other)| own.0 == other.0 || own.1 == other.1)
        };
        (0..self.tasks.len()).filter(move |other| *other != at).filter(is_rival)
    }

    /// The task that ended last of those for which this one waited.
    fn cause(&self, at: usize) -> Option<usize> {
        let turns = self.rivals(at).filter(|other| self.in_turn && self.states[*other] == State::Ended);
        let all = self.tasks[at].after.iter().copied().chain(turns);
        all.max_by(|one, other| self.ran[*one].ends_s.total_cmp(&self.ran[*other].ends_s))
    }

    /// Goes on to the next event; false: nothing is left.
    fn step(&mut self, capacities: &[f64]) -> bool {
        let flowing: Vec<usize> =
            (0..self.tasks.len()).filter(|at| matches!(self.states[*at], State::Flows(_))).collect();
        let through: Vec<&[usize]> = flowing.iter().map(|at| through_of(&self.tasks[*at])).collect();
        let mut rate = vec![0.0; self.tasks.len()];
        for (at, found) in flowing.iter().zip(rates(&through, capacities)) {
            rate[*at] = found;
        }
        let end_s = |at: usize| match self.states[at] {
            State::Until(end_s) => Some(end_s),
            State::Flows(left) => Some(self.now_s + left / rate[at]),
            State::Waits | State::Ended => None,
        };
        let ends: Vec<Option<f64>> = (0..self.tasks.len()).map(end_s).collect();
        let Some(next_s) = ends.iter().flatten().copied().reduce(f64::min) else { return false };
        let passed_s = next_s - self.now_s;
        self.now_s = next_s;
        for (at, end_s) in ends.into_iter().enumerate() {
            let is_over = end_s.is_some_and(|end_s| end_s <= next_s);
            self.states[at] = match self.states[at] {
                State::Until(_) if is_over => self.after_waiting(at),
                State::Flows(left) => {
                    let flowed = if is_over { left } else { (rate[at] * passed_s).min(left) };
                    self.ran[at].bytes += flowed;
                    if is_over { self.end(at) } else { State::Flows(left - flowed) }
                }
                other => other,
            };
        }
        true
    }

    fn after_waiting(&mut self, at: usize) -> State {
        match &self.tasks[at].load {
            Load::Transfer { bytes, .. } if *bytes > 0.0 => State::Flows(*bytes),
            _ => self.end(at),
        }
    }

    fn end(&mut self, at: usize) -> State {
        self.ran[at].ends_s = self.now_s;
        State::Ended
    }
}

fn ends_of(task: &Task) -> Option<(usize, usize)> {
    match &task.load {
        Load::Transfer { ends, .. } => Some(*ends),
        Load::Compute { .. } => None,
    }
}

fn through_of(task: &Task) -> &[usize] {
    match &task.load {
        Load::Transfer { through, .. } => through,
        Load::Compute { .. } => &[],
    }
}
