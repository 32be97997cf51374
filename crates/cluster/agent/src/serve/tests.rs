//! A real agent in a real tree, whose lead has asked before it came.

use super::*;
use crate::lead::{begin_tree, tree_number};
use crate::ticket::{Place, own_version};
use std::net::IpAddr;
use trimtab_link::Address;
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::stream::Down;
use trimtab_overlay::{StreamSpec, Sync};
use trimtab_reduce::FilterSpec;
use trimtab_reduce::filter::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;

/// How long the lead would wait for an answer that does not come.
const LATE_US: u64 = 60_000_000;
const IN_TIME: Duration = Duration::from_secs(20);

/// The lead of one agent, which is not there.
fn lead(secret: &JobSecret) -> (Blocking, Ticket) {
    let (own, tree) = (IpAddr::from([127, 0, 0, 1]), tree_number());
    let link = begin_tree(tree, own, secret).expect("a tree");
    let Some(Address::Tcp(lead)) = link.address().cloned() else { panic!("the lead listens") };
    let places = vec![Place { name: "n0".to_owned(), address: [127, 0, 1, 1].into() }];
    let (version, command, whose) = (own_version(), "test".to_owned(), Whose::Processes(Vec::new()));
    (link, Ticket { version, tree, lead, port: 0, fan_out: 6, places, whose, command })
}

fn ask(link: &Blocking, stream: u32, wave: u64) {
    let question = Question { wave, room: 4096, ask: Ask::Undo };
    let payload = postcard::to_allocvec(&question).expect("it has bytes");
    link.handle().multicast(stream, RankSet::one(Rank(0)), payload).expect("it is sent");
}

/// The results of so many waves, as the lead gets them while the agent does what it is told.
fn results(link: &Blocking, own: &Blocking, agent: &mut Agent<'_>, count: usize) -> Vec<WaveResult> {
    let (mut results, until) = (Vec::new(), Instant::now() + IN_TIME);
    while results.len() < count && Instant::now() < until {
        if let Some(told) = own.wait(Duration::from_millis(5)) {
            assert!(agent.told(told).expect("it is understood").is_continue());
        }
        if let Some(Told::Result(result)) = link.wait(Duration::from_millis(5)) {
            results.push(*result);
        }
    }
    results
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
    let spec =
        StreamSpec { target: RankSet::one(Rank(0)), filter, sync: Sync::TimeOut { us: LATE_US }, down: Down::Same };
    let stream = link.handle().open(spec).expect("a stream");
    (0..3).for_each(|wave| ask(&link, stream, wave));

    let cache = ImageCache::in_memory();
    let own = join(&ticket, &secret, 0).expect("it joins");
    let mut agent = Agent::new(&ticket, 0, (&own, &|| false), &cache, begin_looking(&ticket.whose));
    let passed = pieces(&results(&link, &own, &mut agent, 3));
    assert_eq!(passed, [(0, NOTHING), (1, NOTHING), (2, NOTHING)]);

    ask(&link, stream, 3);
    let answered = pieces(&results(&link, &own, &mut agent, 1));
    let [(3, piece)] = answered.as_slice() else { panic!("{answered:?}") };
    let say: Say = postcard::from_bytes(&piece.bytes).expect("an answer");
    assert!(matches!(say, Say::No { .. }), "there is no process to undo anything in: {say:?}");
}
