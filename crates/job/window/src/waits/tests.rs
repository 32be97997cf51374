//! Waits of calls of known times.
//!
//! Next: `waits`, whose rules these are.

use super::*;

const BARRIER: u32 = 4;
const SEND: u32 = 1;
const RECV: u32 = 2;

fn call(function: u32, enter_ticks: u64, exit_ticks: u64, peer: i32) -> CallEvent {
    CallEvent {
        function,
        site: u64::from(function),
        enter_ticks,
        exit_ticks,
        peer,
        source: if function == RECV { peer } else { -1 },
        is_send: function == SEND,
        is_receive: function == RECV,
        completes: function == RECV,
        ends_posted: false,
        completed_ticks: 0,
        synchronising: function == BARRIER,
        comm: 0,
        bytes: None,
    }
}

/// One iteration, number 7, and the mark that ends it.
fn rank(rank: u32, clock: u32, mut events: Vec<CallEvent>) -> RankCalls {
    events.insert(0, call(9, 0, 1, -1));
    events.push(call(9, 10_000, 10_001, -1));
    let marks = vec![0, events.len() - 1];
    RankCalls { rank, clock, uncertainty_ticks: 5, events, marks, iterations: vec![7, 8] }
}

fn sum(found: &Waits, kind: WaitKind) -> Option<&WaitSum> {
    found.sums.iter().find(|sum| sum.kind == kind)
}

#[test]
fn ranks_wait_for_the_last_to_enter() {
    let enters = [100, 160, 130];
    let calls = |clocks: [u32; 3]| -> Vec<RankCalls> {
        (0..3).map(|at| rank(at as u32, clocks[at], vec![call(BARRIER, enters[at], 165, -1)])).collect()
    };
    assert_eq!(sum(&waits(&calls([0, 0, 0]), false, 0), WaitKind::Collective), None, "another may have come last");
    let found = waits(&calls([0, 0, 0]), true, 0);
    let wait = sum(&found, WaitKind::Collective).expect("waits");
    assert_eq!((found.iterations, wait.calls, wait.ticks, wait.error_ticks), (1, 2, 60 + 30, 0));
    assert_eq!(wait.by_late_rank, BTreeMap::from([(1, 90)]));
    // Each was inside of the mark, for one tick of which nobody knows, and of the barrier.
    let of = |one: &RankWaits| (one.duration_ticks, one.communication_ticks, one.wait_ticks, one.unknown_ticks);
    let expected = [(10_000, 66, 60, 1), (10_000, 6, 0, 1), (10_000, 36, 30, 1)];
    assert_eq!(found.ranks.iter().map(of).collect::<Vec<_>>(), expected);
    let apart = waits(&calls([0, 1, 1]), true, 0);
    let wait = sum(&apart, WaitKind::Collective).expect("waits");
    assert_eq!((wait.ticks, wait.error_ticks), (90, 10), "rank 2 reads the clock of rank 1");
}

/// Of one machine, too, clocks tell only so much; a call that came clearly behind the last one waited for nobody.
#[test]
fn waits_below_what_clocks_can_tell_are_not_told() {
    let rows: [(&str, [u64; 2], u64, Option<u64>); 4] = [
        ("below", [100, 130], 50, None),
        ("as far apart as that", [100, 150], 50, None),
        ("above", [100, 160], 50, Some(60)),
        ("within a call that is shorter", [100, 198], 150, None),
    ];
    for (name, enters, same_clock_ticks, expected) in rows {
        let calls = [0, 1].map(|at| rank(at, 0, vec![call(BARRIER, enters[at as usize], 200, -1)]));
        let found = waits(&calls, true, same_clock_ticks);
        let states = found.states(|_| String::new(), |ticks| ticks as f64);
        let state = states.first().expect("a state");
        assert_eq!(state.time_s, expected.map(|ticks| ticks as f64), "{name}: {state:?}");
        assert_eq!(state.late_ranks.is_empty(), expected.is_none(), "{name}: {state:?}");
        let path = found.paths.iter().find(|path| path.calls > 0 && path.ticks > 0).expect("a path");
        assert_eq!(told(path.ticks, path.error_ticks), expected, "{name}: {path:?}");
    }
    let [early, late] = [rank(0, 0, vec![call(SEND, 100, 110, 1)]), rank(1, 0, vec![call(RECV, 900, 915, 0)])];
    let found = waits(&[early, late], true, 50);
    let wait = sum(&found, WaitKind::LateSender).expect("matched");
    assert_eq!((wait.ticks, wait.error_ticks), (0, 0), "the message was there");
    let state = &found.states(|_| String::new(), |ticks| ticks as f64)[0];
    assert_eq!((state.time_s, state.error_s), (Some(0.0), 0.0));
}

#[test]
fn messages_wait_for_their_partner() {
    let rows = [
        ("late sender", (200, 210), (100, 215), Some(100), None),
        ("the message was there", (100, 110), (200, 215), Some(0), None),
        ("late receiver", (100, 260), (200, 265), Some(0), Some(100)),
        ("no longer than the call", (400, 410), (100, 150), Some(50), Some(0)),
    ];
    for (name, send, receive, late_sender, late_receiver) in rows {
        let ranks =
            [rank(0, 0, vec![call(SEND, send.0, send.1, 1)]), rank(1, 0, vec![call(RECV, receive.0, receive.1, 0)])];
        let found = waits(&ranks, true, 0);
        let ticks = |kind| sum(&found, kind).map(|sum| sum.ticks);
        assert_eq!(ticks(WaitKind::LateSender), late_sender, "{name}");
        let has_met = late_receiver.or(ticks(WaitKind::LateReceiver));
        assert_eq!(ticks(WaitKind::LateReceiver), has_met, "{name}");
        assert_eq!(ticks(WaitKind::LateReceiver).unwrap_or(0), late_receiver.unwrap_or(0), "{name}");
        let of_ranks = found.ranks.iter().map(|one| (one.wait_ticks, one.unknown_ticks)).collect::<Vec<_>>();
        let waited = [late_receiver, late_sender].map(|ticks| (ticks.unwrap_or(0), 1));
        assert_eq!(of_ranks, waited, "{name}: all but the mark is known");
    }
}

/// Rank 0 sends and receives, rank 1 receives and sends: its iterations begin at its sends, so what it sends in one is
/// received in that or, counted from another beginning, in the next or the one before. The wait is the same.
#[test]
fn waits_do_not_depend_on_where_iterations_are_cut() {
    let mark = |at: u64| call(9, at, at + 1, -1);
    let of = |rank: u32, first: u64, events: Vec<CallEvent>| {
        let marks: Vec<usize> = (0..events.len()).filter(|at| events[*at].function == 9).collect();
        let iterations = (first..first + marks.len() as u64).collect();
        RankCalls { rank, clock: 0, uncertainty_ticks: 0, events, marks, iterations }
    };
    let steps = (1..=6).map(|step| step * 1000);
    let short =
        steps.clone().flat_map(|at| [mark(at), call(SEND, at + 1, at + 9, 1), call(RECV, at + 10, at + 810, 1)]);
    let long =
        steps.flat_map(|at| [mark(at + 790), call(SEND, at + 800, at + 805, 0), call(RECV, at + 1790, at + 1795, 0)]);
    let (short, long): (Vec<CallEvent>, Vec<CallEvent>) = (short.collect(), long.collect());
    for first in [6, 7, 8] {
        let found = waits(&[of(0, 7, short.clone()), of(1, first, long.clone())], true, 0);
        let late = sum(&found, WaitKind::LateSender).expect("waits");
        let from_rank_1 = late.by_late_rank.get(&1).copied().unwrap_or(0);
        assert!(from_rank_1 >= 3 * 790 && from_rank_1 % 790 == 0, "counted from {first}: {late:?}");
        assert_eq!(late.ticks, from_rank_1, "rank 1 waits for nobody");
    }
}

/// Two neighbours exchange by one call, of which the later one is waited for, in either direction.
#[test]
fn a_call_that_sends_and_receives_waits_for_its_source() {
    let exchange = |enter, exit, peer| CallEvent {
        source: peer,
        is_receive: true,
        completes: true,
        ..call(SEND, enter, exit, peer)
    };
    let found = waits(&[rank(0, 0, vec![exchange(100, 350, 1)]), rank(1, 0, vec![exchange(300, 340, 0)])], true, 0);
    let late = sum(&found, WaitKind::LateSender).expect("waits");
    assert_eq!((late.calls, late.ticks), (2, 200));
    assert_eq!(late.by_late_rank, BTreeMap::from([(1, 200)]));
    assert_eq!(sum(&found, WaitKind::LateReceiver), None, "what it waited for may have been its message");
}

/// A send that waits for a receive to be posted, beside exchanges between the same ranks.
#[test]
fn a_send_waits_for_a_receive_that_returns_at_once() {
    const IRECV: u32 = 3;
    let posted = |enter| CallEvent { source: 0, is_receive: true, ..call(IRECV, enter, enter + 5, 0) };
    let (before, after) = (
        rank(0, 0, vec![call(SEND, 100, 420, 1)]),
        RankCalls { iterations: vec![8, 9], ..rank(0, 0, vec![call(SEND, 10_100, 10_110, 1)]) },
    );
    let receiver = rank(1, 0, vec![posted(400)]);
    let found = waits(&[before, receiver.clone()], true, 0);
    let late = sum(&found, WaitKind::LateReceiver).expect("waits");
    assert_eq!((late.calls, late.ticks), (1, 300));
    assert_eq!(sum(&found, WaitKind::LateSender), None, "it returned without its message");
    assert_eq!(waits(&[after, receiver], true, 0), Waits::default(), "of another iteration");
}

const WAIT: u32 = 5;

/// It returns once all that was posted and is completed at its entry is over.
fn wait(enter: u64, exit: u64) -> CallEvent {
    CallEvent { ends_posted: true, ..call(WAIT, enter, exit, -1) }
}

fn posted_receive(at: u64, peer: i32, wait_at: u64) -> CallEvent {
    let of = call(3, at, at + 5, peer);
    CallEvent { source: peer, is_receive: true, completed_ticks: wait_at, ..of }
}

fn posted_send(at: u64, peer: i32, wait_at: u64) -> CallEvent {
    CallEvent { completed_ticks: wait_at, bytes: Some(64), ..call(SEND, at, at + 5, peer) }
}

/// Three ranks exchange as halos are: all is posted, then waited for at once. The latest message counts.
#[test]
fn a_wait_for_several_waits_for_the_latest_message() {
    let of = |own: u32, at: u64, wait_at: u64, exit: u64| {
        let others = (0..3).filter(|other| *other != own as i32);
        let receives = others.clone().map(|other| posted_receive(at, other, wait_at));
        let sends = others.map(|other| posted_send(at + 20, other, wait_at));
        rank(own, 0, receives.chain(sends).chain([wait(wait_at, exit)]).collect())
    };
    let ranks = [of(0, 100, 150, 560), of(1, 500, 550, 560), of(2, 300, 350, 560)];
    let found = waits(&ranks, true, 0);
    let late = sum(&found, WaitKind::LateSender).expect("waits");
    assert_eq!((late.function, late.calls, late.ticks), (WAIT, 3, (520 - 150) + (520 - 350)));
    assert_eq!(late.by_late_rank, BTreeMap::from([(1, 370 + 170)]));
    assert_eq!(sum(&found, WaitKind::LateReceiver), None, "sends went on their way");
    let of_ranks = found.ranks.iter().map(|one| (one.wait_ticks, one.unknown_ticks)).collect::<Vec<_>>();
    assert_eq!(of_ranks, [(370, 1), (0, 1), (170, 1)], "all but the mark is known");
    let times = found.transfers.messages(|ticks| ticks as f64);
    assert!(times.iter().all(|row| row.hidden == row.messages && row.receive_s_median.is_none()), "{times:?}");
}

#[test]
fn a_wait_for_one_message_is_its_end() {
    let rows = [
        ("late sender", 200, (150, 260), Some(50), Some(60.0)),
        ("it came while nobody looked", 110, (150, 160), Some(0), None),
    ];
    for (name, sent, (enter, exit), waited, transfer) in rows {
        let sender = rank(0, 0, vec![posted_send(sent, 1, sent + 10), wait(sent + 10, sent + 20)]);
        let receiver = rank(1, 0, vec![posted_receive(100, 0, enter), wait(enter, exit)]);
        let found = waits(&[sender, receiver], true, 0);
        assert_eq!(sum(&found, WaitKind::LateSender).map(|sum| sum.ticks), waited, "{name}");
        let times = &found.transfers.messages(|ticks| ticks as f64)[0];
        assert_eq!((times.transfer_s, times.transfer_s_median), (transfer, transfer), "{name}");
    }
}

/// The receiver's own send, say, may have taken the message in while the other side was still inside of its send.
#[test]
fn a_wait_behind_the_send_says_no_time_of_the_message() {
    let sender = rank(0, 0, vec![CallEvent { bytes: Some(64), ..call(SEND, 110, 155, 1) }]);
    let receiver = rank(1, 0, vec![posted_receive(100, 0, 150), wait(150, 151)]);
    let times = &waits(&[sender, receiver], true, 0).transfers.messages(|ticks| ticks as f64)[0];
    assert_eq!((times.messages, times.hidden, times.transfer_s, times.receive_s_median), (1, 1, None, None));
}

/// A message to be received later, for which a wait for sends alone stays.
#[test]
fn a_wait_for_sends_waits_for_their_receives() {
    let sender = rank(0, 0, vec![posted_send(100, 1, 120), wait(120, 420)]);
    let receiver = rank(1, 0, vec![call(RECV, 400, 425, 0)]);
    let late = waits(&[sender, receiver.clone()], true, 0);
    let late = sum(&late, WaitKind::LateReceiver).expect("waits");
    assert_eq!((late.function, late.ticks), (WAIT, 280));
    let buffered = rank(0, 0, vec![posted_send(100, 1, 120), wait(120, 122)]);
    let found = waits(&[buffered, receiver], true, 0);
    assert_eq!(sum(&found, WaitKind::LateReceiver), None, "it was over before");
    assert_eq!(found.ranks[0].unknown_ticks, 1, "and waited for nobody");
}

#[test]
fn a_wait_of_which_something_is_not_known_is_not_guessed() {
    let collective = CallEvent { completed_ticks: 150, ..call(6, 110, 115, -1) };
    let any = CallEvent { source: crate::event::PEER_ANY, ..posted_receive(110, 0, 150) };
    let strange = CallEvent { ends_posted: false, ..wait(150, 260) };
    for (name, beside, end) in [
        ("a collective too", Some(collective), wait(150, 260)),
        ("a receive from anybody too", Some(any), wait(150, 260)),
        ("what nobody knows", None, strange),
    ] {
        let sender = rank(0, 0, vec![call(SEND, 200, 210, 1)]);
        let calls = [Some(posted_receive(100, 0, 150)), beside, Some(end)];
        let found = waits(&[sender, rank(1, 0, calls.into_iter().flatten().collect())], true, 0);
        assert_eq!(sum(&found, WaitKind::LateSender), None, "{name}");
        assert!(found.ranks[1].unknown_ticks >= 110, "{name}: {:?}", found.ranks[1]);
    }
}

#[test]
fn what_does_not_match_is_not_guessed() {
    let two = rank(0, 0, vec![call(SEND, 100, 110, 1), call(SEND, 200, 210, 1), call(BARRIER, 300, 310, -1)]);
    let one = rank(1, 0, vec![call(RECV, 100, 110, 0)]);
    let found = waits(&[two.clone(), one], true, 0);
    assert_eq!((found.iterations, found.sums.len()), (1, 0), "{found:?}");
    let other_iteration = RankCalls { iterations: vec![8, 9], ..rank(1, 0, vec![]) };
    assert_eq!(waits(&[two.clone(), other_iteration], true, 0), Waits::default());
    assert_eq!(waits(&[two], true, 0), Waits::default(), "one rank waits for nobody");
}
