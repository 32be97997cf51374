//! A lead and played agents in a real tree: what many ranks have to say arrives whole.

use super::*;
use crate::contribute::contribute;
use crate::exchange::Keeper;
use crate::serve::{join, value_of};

const AGENTS: usize = 32;
const RANKS: usize = 2048;

/// What agent `index` says of its ranks: 400 bytes of each.
fn rows(index: usize) -> Vec<Undone> {
    let row = |number: usize| {
        let rank = (index * RANKS + number) as u32;
        let problem = Some(format!("{rank:0>390}"));
        Undone { rank, pid: 1, was_there: true, patches: 1, pause_us_max: 0.5, problem }
    };
    (0..RANKS).map(row).collect()
}

/// An agent without processes: it answers what it is asked until it is sent home.
fn play(ticket: &Ticket, secret: &JobSecret, index: usize) {
    let link = join(ticket, secret, index).expect("it joins");
    let mut keeper = Keeper::default();
    let until = Instant::now() + 3 * ANSWER_MAX;
    while Instant::now() < until {
        let Some(Told::Command { stream, payload, .. }) = link.wait(LOOK) else { continue };
        let question: Question = postcard::from_bytes(&payload).expect("a question");
        let encoded = |say: &Say| postcard::to_allocvec(say).expect("it has bytes");
        let piece = match question.ask {
            Ask::More { from, .. } => keeper.piece(from, question.room),
            Ask::Leave => keeper.begin(encoded(&Say::Bye), question.room),
            _ => keeper.begin(encoded(&Say::Undone(rows(index))), question.room),
        };
        assert!(piece.bytes.len() <= question.room as usize);
        contribute(&link, stream, question.wave, &value_of(&piece, index).expect("a value"));
        if question.ask == Ask::Leave {
            std::thread::sleep(Duration::from_millis(300));
            return;
        }
    }
}

#[test]
fn rows_of_65536_ranks_arrive_whole() {
    let secret = JobSecret::new().expect("a secret");
    let (own, tree) = (IpAddr::from([127, 0, 0, 1]), tree_number());
    let link = begin_tree(tree, own, &secret).expect("a tree");
    let Some(Address::Tcp(lead)) = link.address().cloned() else { panic!("the lead listens") };
    // An address each, so that inner ones can listen on one port.
    let place = |index: usize| Place { name: format!("n{index}"), address: [127, 0, 1, index as u8 + 1].into() };
    let port = (PORT_FIRST + tree % PORT_COUNT) as u16;
    let (places, whose) = ((0..AGENTS).map(place).collect(), Whose::Processes(Vec::new()));
    let ticket =
        Ticket { version: own_version(), tree, lead, port, fan_out: 6, places, whose, command: "test".to_owned() };
    std::thread::scope(|scope| {
        for index in 0..AGENTS {
            let (ticket, secret) = (&ticket, &secret);
            scope.spawn(move || play(ticket, secret, index));
        }
        let until = Instant::now() + ANSWER_MAX;
        while link.handle().members().rank_count() < AGENTS as u64 {
            assert!(Instant::now() < until, "all agents come");
            let _told = link.wait(LOOK);
        }
        let main = Channel { stream: 0, wave: 0 };
        let never = || false;
        let mut lead = Lead { link, started: Started::default(), ticket: ticket.clone(), main, is_interrupted: &never };
        lead.main.stream = lead.open(FilterSpec::Concat(VALUE_BYTES_MAX as u32)).expect("a stream");
        let answers = lead.ask(Ask::Undo).expect("answers");
        assert_eq!(answers.said.len(), AGENTS);
        for (index, say) in answers.said {
            assert!(say == Say::Undone(rows(index)), "agent {index}");
        }
        assert!(lead.main.wave >= 7, "26 MB are more than one wave: {}", lead.main.wave);
        drop(lead);
    });
}
