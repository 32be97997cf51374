//! Simple experts say times of a job, each from one kind of jobs alike.
//!
//! Next: `record` for how they did, `run_times` for what is made of them.

use crate::accuracy::{Weighed, nearest_to_all};
use crate::job::Ask;
use crate::past::{KINS, Past, Times};

/// Jobs that the expert of few looks at.
const FEW: usize = 6;

/// How an expert makes one time of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// The time nearest to all.
    Nearest,
    /// The time nearest to the latest few.
    NearestOfFew,
    /// The time nearest to all in parts of their requests.
    NearestInParts,
    /// The latest.
    Last,
    /// The mean of the latest two.
    LastTwo,
    /// The median.
    Median,
    /// The request itself.
    Request,
}

/// One expert. Those who know few jobs have another record than those who know many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Expert {
    /// The place of the kind in `KINS`.
    pub(crate) kin: u8,
    pub(crate) way: Way,
    amount: u8,
}

/// A time that one of them says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) expert: Expert,
    pub(crate) s: f64,
}

/// All that they say, and the times that they say it from, by expert.
pub(crate) struct Heard {
    pub(crate) said: Vec<Said>,
    pub(crate) times: Vec<(Expert, Vec<Weighed>)>,
}

/// The expert who says the request.
pub(crate) const OF_REQUEST: Expert = Expert { kin: KINS.len() as u8, way: Way::Request, amount: 0 };

/// Asks all who know something.
pub(crate) fn ask_all(past: &Past, ask: &Ask) -> Heard {
    let mut heard = Heard { said: Vec::with_capacity(6 * KINS.len()), times: Vec::with_capacity(KINS.len()) };
    for at in 0..KINS.len() {
        if let Some(times) = past.times(at, ask) {
            heard.add(at, times);
        }
    }
    heard.said.extend(ask.requested_s.map(|s| Said { expert: OF_REQUEST, s: s as f64 }));
    heard
}

impl Heard {
    fn add(&mut self, at: usize, times: Times) {
        let Times { mut plain, mut scaled } = times;
        let amount = amount_of(plain.len());
        let mut say = |way, s: Option<f64>| {
            let expert = Expert { kin: at as u8, way, amount };
            self.said.extend(s.map(|s| Said { expert, s }));
        };
        if let [last, before, ..] = plain[..] {
            say(Way::Last, Some(last.s));
            say(Way::LastTwo, Some((last.s + before.s) / 2.0));
            let mut few = plain[..plain.len().min(FEW)].to_vec();
            say(Way::NearestOfFew, nearest_to_all(&mut few));
        }
        say(Way::NearestInParts, nearest_to_all(&mut scaled));
        say(Way::Nearest, nearest_to_all(&mut plain));
        // They are sorted now.
        say(Way::Median, plain.get(plain.len() / 2).filter(|_| plain.len() > 1).map(|time| time.s));
        self.times.push((Expert { kin: at as u8, way: Way::Nearest, amount }, plain));
    }
}

fn amount_of(jobs: usize) -> u8 {
    match jobs {
        ..=1 => 0,
        2..=3 => 1,
        4..=9 => 2,
        _ => 3,
    }
}
