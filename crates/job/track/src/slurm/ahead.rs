//! Questions to Slurm that are asked before their answers are needed, all at once.
//!
//! Each question is a process and a way to the controller and back: a few milliseconds, or a tenth of a second on a busy
//! login node. A question that will surely be asked can be on its way while the first answer is awaited.
//!
//! Next: `ask` for who answers.

use super::ask::Scontrol;
use super::error::SlurmError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread::JoinHandle;

type Answer = Result<String, SlurmError>;

/// Answers as `scontrol` does; some questions were asked already.
#[derive(Debug)]
pub struct Ahead<S> {
    scontrol: S,
    asked: RefCell<BTreeMap<String, JoinHandle<Answer>>>,
}

impl<S: Scontrol + Clone + Send + 'static> Ahead<S> {
    /// Asks these questions now, words with spaces between.
    pub fn begin(scontrol: S, questions: &[String]) -> Self {
        // Without a thread a question is asked once its answer is wanted.
        let ask = |question: &String| {
            let (scontrol, words) = (scontrol.clone(), question.clone());
            let asked = std::thread::Builder::new().spawn(move || scontrol.ask(&words.split(' ').collect::<Vec<_>>()));
            Some((question.clone(), asked.ok()?))
        };
        let asked = RefCell::new(questions.iter().filter_map(ask).collect());
        Ahead { scontrol, asked }
    }
}

impl<S: Scontrol> Scontrol for Ahead<S> {
    /// The answer to a question that was asked before is given once; what is asked again is asked anew.
    fn ask(&self, words: &[&str]) -> Answer {
        let asked = self.asked.borrow_mut().remove(&words.join(" "));
        asked.and_then(|asked| asked.join().ok()).unwrap_or_else(|| self.scontrol.ask(words))
    }
}

impl<S> Drop for Ahead<S> {
    fn drop(&mut self) {
        // No process is left behind, and each ends in time.
        for (_, asked) in std::mem::take(self.asked.get_mut()) {
            let _unneeded = asked.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Barrier};

    /// Answers a question with itself, once as many are asked at the same time as the barrier wants.
    #[derive(Clone)]
    struct Echo {
        together: Arc<Barrier>,
        count: Arc<AtomicUsize>,
    }

    impl Scontrol for Echo {
        fn ask(&self, words: &[&str]) -> Answer {
            self.count.fetch_add(1, SeqCst);
            self.together.wait();
            Ok(words.join(" "))
        }
    }

    #[test]
    fn questions_are_asked_at_once_and_each_answer_is_given_once() {
        let echo = Echo { together: Arc::new(Barrier::new(2)), count: Arc::default() };
        // Each waits for the other: one after the other they would never be answered.
        let ahead = Ahead::begin(echo.clone(), &["show job 7".to_owned(), "show step 7".to_owned()]);
        assert_eq!(ahead.ask(&["show", "step", "7"]).expect("an answer"), "show step 7");
        assert_eq!(ahead.ask(&["show", "job", "7"]).expect("an answer"), "show job 7");
        assert_eq!(echo.count.load(SeqCst), 2);
        let again = std::thread::spawn({
            let echo = echo.clone();
            move || echo.ask(&["ping"]).expect("an answer")
        });
        assert_eq!(ahead.ask(&["show", "job", "7"]).expect("an answer"), "show job 7");
        assert_eq!((again.join().expect("it ends").as_str(), echo.count.load(SeqCst)), ("ping", 4));
    }

    #[test]
    fn what_was_asked_in_vain_has_ended() {
        let echo = Echo { together: Arc::new(Barrier::new(1)), count: Arc::default() };
        drop(Ahead::begin(echo.clone(), &["show job 7".to_owned()]));
        assert_eq!(Arc::strong_count(&echo.count), 1);
    }
}
