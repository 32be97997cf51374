//! A real agent in a real tree, whose lead has asked before it came.

use super::*;
use crate::lead::{begin_tree, tree_number};
use crate::log::tests::Nothing;
use crate::ticket::{NodeAddress, own_version};
use std::net::IpAddr;
use trimtab_link::Address;
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::{StreamSpec, Sync};
use trimtab_reduce::FilterSpec;
use trimtab_reduce::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;

/// How long the lead would wait for an answer that does not come.
const LATE_US: u64 = 60_000_000;
const IN_TIME: Duration = Duration::from_secs(20);

/// The lead of one agent, which is not there.
fn lead(secret: &JobSecret) -> (Blocking, Ticket) {
    let (own, tree) = (IpAddr::from([127, 0, 0, 1]), tree_number());
    let link = begin_tree(tree, own, secret).expect("a tree");
    let Some(Address::Tcp(lead)) = link.address().cloned() else { panic!("the lead listens") };
    let places = vec![NodeAddress { name: "n0".to_owned(), address: [127, 0, 1, 1].into() }];
    let (version, command, whose) = (own_version(), "test".to_owned(), AgentsFor::Processes(Vec::new()));
    (link, Ticket { version, tree, lead, port: 0, fan_out: 6, places, whose, command, hold: None })
}

fn ask(link: &Blocking, stream: u32, wave: u64, ask: Ask) {
    let question = Question { wave, room: 4096, ask };
    let payload = postcard::to_allocvec(&question).expect("it has bytes");
    link.handle().multicast(stream, RankSet::one(Rank(0)), payload).expect("it is sent");
}

/// The results of so many waves, as the lead gets them while the agent does what it is told.
fn results(link: &Blocking, agent: &mut Agent<'_>, count: usize) -> Vec<WaveResult> {
    let (mut results, until) = (Vec::new(), Instant::now() + IN_TIME);
    while results.len() < count && Instant::now() < until {
        if let Some(news) = agent.inbox.next(Duration::from_millis(5)).expect("it is understood") {
            assert!(agent.hear(news).expect("it is done").is_continue());
        }
        if let Some(Told::Result(result)) = link.wait(Duration::from_millis(5)) {
            results.push(*result);
        }
    }
    results
}

/// The next results that the lead gets.
fn results_of(link: &Blocking, count: usize) -> Vec<WaveResult> {
    let until = Instant::now() + IN_TIME;
    let told = std::iter::from_fn(|| (Instant::now() < until).then(|| link.wait(Duration::from_millis(5))));
    let result = |told| if let Some(Told::Result(result)) = told { Some(*result) } else { None };
    told.filter_map(result).take(count).collect()
}

fn pieces(results: &[WaveResult]) -> Vec<(u64, Piece)> {
    let concat = Concat { byte_count_max: VALUE_BYTES_MAX as u32 };
    let piece = |result: &WaveResult| {
        let mut by_rank = concat.decode(&result.value).expect("a value");
        let bytes = by_rank.pop_first().map(|(_, bytes)| bytes).expect("the agent's");
        (result.wave, postcard::from_bytes(&bytes).expect("a piece"))
    };
    results.iter().map(piece).collect()
}

#[test]
fn who_comes_late_says_nothing_to_what_was_asked_before_and_answers_what_is_asked_then() {
    let secret = JobSecret::new().expect("a secret");
    let (link, ticket) = lead(&secret);
    let filter = FilterSpec::Concat(VALUE_BYTES_MAX as u32);
    let spec = StreamSpec { target: RankSet::one(Rank(0)), filter, sync: Sync::TimeOut { us: LATE_US } };
    let stream = link.handle().open(spec).expect("a stream");
    (0..3).for_each(|wave| ask(&link, stream, wave, Ask::Undo { seccomp_ok: false }));

    let cache = ImageCache::in_memory();
    let own = join(&ticket, &secret, 0).expect("it joins");
    let inbox = Inbox::of(&own);
    let mut agent = Agent::new((&ticket, &Nothing), 0, (&inbox, &|| false), &cache, begin_looking(&ticket.whose));
    let passed = pieces(&results(&link, &mut agent, 3));
    assert_eq!(passed, [(0, NOTHING), (1, NOTHING), (2, NOTHING)]);

    ask(&link, stream, 3, Ask::Undo { seccomp_ok: false });
    let answered = pieces(&results(&link, &mut agent, 1));
    let [(3, piece)] = answered.as_slice() else { panic!("{answered:?}") };
    let say: Say = postcard::from_bytes(&piece.bytes).expect("an answer");
    assert!(matches!(say, Say::No { .. }), "there is no process to undo anything in: {say:?}");
}

/// A job whose ranks have all ended.
fn ended() -> Ranks<'static> {
    let (key, other_worlds, parent) = ("1".to_owned(), Vec::new(), Vec::new());
    let job = Job { launcher: None, ranks: Vec::new(), size: None, key, other_worlds, spawned: false, parent };
    let present = Present { host: host_name(), key: job.key.clone(), size: None, ranks: Vec::new() };
    let node = WindowNode::new(0, job.clone(), Box::leak(Box::new(ImageCache::in_memory())));
    let others = OtherJobs::new(Own::of(&ProcFs::new(), &[], None));
    let audit = Box::new(Nothing);
    Ranks { node, job, present, audit, others, gathers: false, script_audit: None }
}

/// A batch system ends agents together with their job: what the lead asks then is answered, and has left this host before
/// its agent ends.
#[test]
fn who_is_asked_to_end_with_its_job_answers_until_the_lead_needs_nothing_more() {
    let secret = JobSecret::new().expect("a secret");
    let (link, ticket) = lead(&secret);
    let filter = FilterSpec::Concat(VALUE_BYTES_MAX as u32);
    let spec = StreamSpec { target: RankSet::one(Rank(0)), filter, sync: Sync::TimeOut { us: LATE_US } };
    let stream = link.handle().open(spec).expect("a stream");
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let cache = ImageCache::in_memory();
            let own = join(&ticket, &secret, 0).expect("it joins");
            let inbox = Inbox::of(&own);
            let mut agent =
                Agent::new((&ticket, &Nothing), 0, (&inbox, &|| true), &cache, begin_looking(&ticket.whose));
            agent.ranks = Some(ended());
            while agent.alone_since.is_some() {
                let news = agent.inbox.next(IN_TIME).expect("it is understood").expect("it joins");
                assert!(agent.hear(news).expect("it is done").is_continue());
            }
            agent.attend(&AtomicBool::new(true))
        });
        while link.handle().members().rank_count() == 0 {
            let _told = link.wait(LOOK);
        }
        for (wave, question) in
            [Ask::Undo { seccomp_ok: false }, Ask::Undo { seccomp_ok: false }, Ask::Leave].into_iter().enumerate()
        {
            ask(&link, stream, wave as u64, question);
            let answered = pieces(&results_of(&link, 1));
            assert!(
                matches!(answered.as_slice(), [(at, piece)] if *at == wave as u64 && piece.total > 0),
                "{answered:?}"
            );
        }
        agent.join().expect("no panic").expect("it has understood");
    });
}

/// An agent at work hears that nobody waits for it, and finds all it was asked in order afterwards.
#[test]
fn who_looks_whether_anybody_still_waits_loses_no_question() {
    let secret = JobSecret::new().expect("a secret");
    let (link, ticket) = lead(&secret);
    let own = join(&ticket, &secret, 0).expect("it joins");
    let filter = FilterSpec::Concat(VALUE_BYTES_MAX as u32);
    while link.handle().members().rank_count() == 0 {
        let _told = link.wait(LOOK);
    }
    let spec = StreamSpec { target: RankSet::one(Rank(0)), filter, sync: Sync::TimeOut { us: LATE_US } };
    let stream = link.handle().open(spec).expect("a stream");
    let of_window = |request| Ask::Window(Box::new(Command { window: trimtab_measure::WindowId(1), request }));
    let asked = [Ask::Who, of_window(Request::Time), of_window(Request::Abandon), Ask::Machine];
    let inbox = Inbox::of(&own);
    assert!(!inbox.gives_up());
    asked.iter().enumerate().for_each(|(wave, question)| ask(&link, stream, wave as u64, question.clone()));
    let until = Instant::now() + IN_TIME;
    while !inbox.gives_up() {
        assert!(Instant::now() < until, "the lead has abandoned the window");
        std::thread::sleep(Duration::from_millis(5));
    }
    let news = std::iter::from_fn(|| inbox.next(IN_TIME).expect("it is understood"));
    let question = |news| if let News::Asked(_, question) = news { Some(question.ask) } else { None };
    assert_eq!(news.filter_map(question).take(asked.len()).collect::<Vec<Ask>>(), asked);
}
