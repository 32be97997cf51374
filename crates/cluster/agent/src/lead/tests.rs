//! A lead and played agents in a real tree: what many ranks have to say arrives whole, and what one has read reaches all.

use super::*;
use crate::contribute::contribute;
use crate::exchange::{Keeper, NOTHING};
use crate::facts::KnownFiles;
use crate::serve::{join, value_of};
use crate::talk::{PresentRank, UndoneRank};
use std::sync::atomic::{AtomicBool, Ordering};
use trimtab_session::{ImageCache, Modules};
use trimtab_types::Pid;

const AGENTS: usize = 32;
const RANKS: usize = 2048;

/// An agent's answer to a question; [`UNHEARD`]: it never heard the question; [`GONE`]: it is gone.
type Answers = Box<dyn FnMut(Ask) -> Say>;

/// No agent says this to a question of these tests.
const UNHEARD: Say = Say::Bye;
/// Nor this, behind which it is gone without a word.
const GONE: Say = Say::Undone(Vec::new());

/// The rows of agent `index`: 400 bytes of each of its ranks.
fn rows(index: usize) -> Vec<UndoneRank> {
    let row = |number: usize| {
        let rank = (index * RANKS + number) as u32;
        let problem = Some(format!("{rank:0>390}"));
        UndoneRank { rank, pid: 1, was_there: true, patches: 1, pause_us_max: 0.5, problem }
    };
    (0..RANKS).map(row).collect()
}

/// An agent without processes: it answers what it is asked until it is sent home.
fn play(ticket: &Ticket, secret: &JobSecret, index: usize, mut answer: Answers) {
    let link = join(ticket, secret, index).expect("it joins");
    let mut keeper = Keeper::default();
    let until = Instant::now() + 3 * ANSWER_MAX;
    while Instant::now() < until {
        let Some(Told::Command { stream, payload, .. }) = link.wait(LOOK) else { continue };
        let question: Question = postcard::from_bytes(&payload).expect("a question");
        let encoded = |say: &Say| postcard::to_allocvec(say).expect("it has bytes");
        let mut is_heard = true;
        let leaves = question.ask == Ask::Leave;
        let piece = match question.ask {
            Ask::More { from, of } if of.contains(Rank(index as u32)) => keeper.piece(from, question.room),
            Ask::More { .. } => NOTHING,
            Ask::Leave => keeper.begin(encoded(&Say::Bye), question.room),
            ask => {
                let say = answer(ask);
                if say == GONE {
                    return;
                }
                is_heard = say != UNHEARD;
                keeper.begin(encoded(&say), question.room)
            }
        };
        if !is_heard {
            continue;
        }
        assert!(piece.bytes.len() <= question.room as usize);
        contribute(&link, stream, question.wave, &value_of(&piece, index).expect("a value"));
        if leaves {
            std::thread::sleep(Duration::from_millis(300));
            return;
        }
    }
}

/// A lead of agents in a real tree, which answer as `agent` says.
fn with_agents(count: usize, agent: &(dyn Fn(usize) -> Answers + std::marker::Sync), lead: impl FnOnce(&mut Lead<'_>)) {
    with_agents_until(count, agent, &|| false, lead);
}

/// The same for a lead that somebody may interrupt.
fn with_agents_until(
    count: usize,
    agent: &(dyn Fn(usize) -> Answers + std::marker::Sync),
    is_interrupted: &dyn Fn() -> bool,
    lead: impl FnOnce(&mut Lead<'_>),
) {
    let secret = JobSecret::new().expect("a secret");
    let (own, tree) = (IpAddr::from([127, 0, 0, 1]), tree_number());
    let link = begin_tree(tree, own, &secret).expect("a tree");
    let Some(Address::Tcp(address)) = link.address().cloned() else { panic!("the lead listens") };
    // An address each, so that inner ones can listen on one port.
    let place = |index: usize| NodeAddress { name: format!("n{index}"), address: [127, 0, 1, index as u8 + 1].into() };
    let port = (PORT_FIRST + tree % PORT_COUNT) as u16;
    let (places, whose) = ((0..count).map(place).collect(), AgentsFor::Processes(Vec::new()));
    let (version, command) = (own_version(), "test".to_owned());
    let ticket = Ticket { version, tree, lead: address, port, fan_out: 6, places, whose, command, hold: None };
    std::thread::scope(|scope| {
        for index in 0..count {
            let (ticket, secret) = (&ticket, &secret);
            scope.spawn(move || play(ticket, secret, index, agent(index)));
        }
        let until = Instant::now() + ANSWER_MAX;
        while link.handle().members().rank_count() < count as u64 {
            assert!(Instant::now() < until, "all agents come");
            let _told = link.wait(LOOK);
        }
        let main = Channel { stream: 0, wave: 0 };
        let mut asks = Lead {
            link,
            started: Started::default(),
            ticket: ticket.clone(),
            main,
            watching: None,
            is_interrupted,
            left_out: Vec::new(),
        };
        asks.main.stream = asks.open(FilterSpec::Concat(VALUE_BYTES_MAX as u32), LATE_US).expect("a stream");
        lead(&mut asks);
    });
}

#[test]
fn rows_of_65536_ranks_arrive_whole() {
    with_agents(AGENTS, &|index| Box::new(move |_| Say::Undone(rows(index))), |lead| {
        let answers = lead.ask(Ask::Undo { seccomp_ok: false }).expect("answers");
        assert_eq!(answers.said.len(), AGENTS);
        for (index, say) in answers.said {
            assert!(say == Say::Undone(rows(index)), "agent {index}");
        }
        assert!(lead.main.wave >= 7, "26 MB are more than one wave: {}", lead.main.wave);
    });
}

/// A batch system ends all agents at once, with their job: nothing will come then.
#[test]
fn agents_that_are_all_gone_are_not_waited_for() {
    with_agents(4, &|_| Box::new(|_| GONE), |lead| {
        let begun = Instant::now();
        let answers = lead.ask(Ask::Undo { seccomp_ok: false }).expect("it is over");
        assert!(answers.said.is_empty(), "{:?}", answers.said);
        assert!(begun.elapsed() < ANSWER_MAX, "as long as for agents that work");
    });
}

/// Planning for a large program, or waiting for ranks that start, takes long. A request that takes something out is
/// waited for.
#[test]
fn agents_that_prepare_are_not_waited_for_once_it_is_interrupted() {
    let (plans_for, is_interrupted) = (Duration::from_secs(2), AtomicBool::new(false));
    let agent = |_| -> Answers {
        Box::new(move |ask| {
            if ask == Ask::Machine {
                std::thread::sleep(plans_for);
            }
            Say::Took(true)
        })
    };
    with_agents_until(2, &agent, &|| is_interrupted.load(Ordering::Relaxed), |lead| {
        is_interrupted.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        assert!(matches!(lead.ask(Ask::Machine), Err(Error::Interrupted)));
        let answers = lead.ask(Ask::Undo { seccomp_ok: false }).expect("answers");
        assert_eq!(answers.said.len(), 2, "of the later question");
        assert!(begun.elapsed() >= plans_for, "they are asked in order");
    });
}

/// Each has a cache of its own, and this very process as its rank.
#[test]
fn symbols_that_one_has_read_reach_all() {
    const COUNT: usize = 9;
    let own = Pid(std::process::id() as i32);
    let is_wanted = |path: &str| path.contains("libc.so") || path.contains("libgcc_s");
    let caches: Vec<ImageCache> = (0..COUNT).map(|_| ImageCache::in_memory()).collect();
    let agent = |index: usize| -> Answers {
        let (cache, mut known_files) = (caches[index].clone(), KnownFiles::default());
        Box::new(move |ask| match ask {
            Ask::Files { .. } => Say::Files(known_files.files(&cache, [(own, is_wanted)].into_iter())),
            Ask::Symbols(of) => {
                let names = of.get(&(index as u32)).map(Vec::as_slice).unwrap_or_default();
                Say::Symbols(known_files.symbols(&cache, names))
            }
            Ask::Take(piece) => Say::Took(known_files.take(&cache, piece)),
            other => panic!("{other:?}"),
        })
    };
    with_agents(COUNT, &agent, |lead| {
        assert!(lead.share_symbols(None).expect("all are asked") >= 2);
    });
    for cache in &caches {
        Modules::read(own, cache, &is_wanted).expect("own modules");
    }
    let parses: Vec<u64> = caches.iter().map(ImageCache::parse_count).collect();
    assert!(parses[0] >= 2 && parses[1..].iter().all(|count| *count == 0), "{parses:?}");
}

/// Agents of which some do not hear the first question, and all have found their ranks when so many have been asked.
fn gathered_agents(lost: fn(usize) -> bool, looks: usize) {
    const COUNT: usize = 4;
    let agent = |index: usize| -> Answers {
        let mut questions = 0;
        Box::new(move |_| {
            questions += 1;
            let rank = PresentRank { rank: index as u32, pid: 1, start_ticks: 1 };
            let (host, reason) = (format!("n{index}"), "it still looks".to_owned());
            match questions {
                1 if lost(index) => UNHEARD,
                few if few <= looks => Say::No { host, reason, is_early: true },
                _ => Say::Here(Present { host, key: "1".into(), size: Some(COUNT as u32), ranks: vec![rank] }),
            }
        })
    };
    with_agents(COUNT, &agent, |lead| {
        let main = lead.main;
        let present = lead.gather_agents(Duration::from_secs(20)).expect("ranks");
        assert_eq!(present.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(lead.left_out().is_empty(), "{:?}", lead.left_out());
        assert_eq!(lead.main, main, "later questions go the usual way");
    });
}

/// One loses the first question, as where it moves to another parent after a long silence.
#[test]
fn who_did_not_hear_the_first_question_is_asked_again() {
    gathered_agents(|index| index == 2, 0);
}

#[test]
fn all_are_asked_again_if_nobody_heard_the_first_question() {
    gathered_agents(|_| true, 0);
}

#[test]
fn agents_that_still_look_for_their_ranks_are_asked_again() {
    gathered_agents(|_| false, 3);
}
