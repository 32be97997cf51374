//! From each rank's own loop to one call that counts iterations on all of them.
//!
//! Where calls happen once per iteration, the one that most ranks share counts. Where iterations only repeat call by call,
//! one rank says where they begin, and the others begin theirs where that fits best, which their nodes find out.
//!
//! Next: `counting` has it counted and aligns the ranks' counters.

use super::drive::WindowLead;
use crate::error::Error;
use crate::reason::NotYet;
use crate::request::{Answer, Choice, Fitted, Looked, LoopSeen, OnceCall, Reference, Request, WordSeen};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_window::Symbol;

/// A rank may be this much faster than the slowest one's loop and still be in the same loop.
const PACE_TOLERANCE: f64 = 0.7;

/// Calls of the reference that go to every node, for each call of a rank that an answer may hold.
const REFERENCE_EVENTS: u32 = 64;

/// The choice that the ranks agree on.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    /// By rank, ascending.
    pub choices: Vec<(u32, Choice)>,
    /// Complete iterations that every rank was seen to make.
    pub iterations_seen: u64,
    /// Ticks of one iteration of the slowest rank, about.
    pub iteration_ticks: f64,
    /// A loop around this one is suspected, and more of the streams will tell.
    pub is_undecided: bool,
    /// Calls that the first rank makes once per iteration.
    pub once: Vec<Symbol>,
    /// The loop in a sentence.
    pub description: String,
}

/// A look at all ranks.
pub(super) struct Seen {
    /// Calls of the rank that called least.
    pub calls: u64,
    /// Ticks of what may become a loop on all ranks: it was seen to repeat, but not often enough yet.
    pub in_sight_ticks: Option<f64>,
    /// The loop that all ranks run, or why there is none.
    pub agreed: Result<Agreed, NotYet>,
}

/// A call site whatever the direction of its messages.
type Base = (u32, u64);

/// All ranks' loops, by rank, and the first one in a sentence.
type Loops = (Vec<LoopSeen>, String);

/// Looks at the ranks and has them agree.
pub(super) fn look(lead: &mut WindowLead) -> Result<Seen, Error> {
    let Looks { calls, in_sight_ticks, loops } = loops(lead, true, false)?;
    let agreed = match loops {
        Err(why) => Err(why),
        Ok(found) => match agree(lead, &found)? {
            // A rank may see the loop around the others' loop; then all take the inner one.
            Err(why) if found.0.iter().any(|found| found.word.is_some()) => match loops_inside(lead)? {
                Ok(inner) => agree(lead, &inner)?.map(|inner| Agreed { is_undecided: true, ..inner }).map_err(|_| why),
                Err(_) => Err(why),
            },
            result => result,
        },
    };
    Ok(Seen { calls, in_sight_ticks, agreed })
}

fn loops_inside(lead: &mut WindowLead) -> Result<Result<Loops, NotYet>, Error> {
    loops(lead, false, true).map(|looks| looks.loops)
}

/// The answers of all nodes about their ranks' loops.
struct Looks {
    calls: u64,
    in_sight_ticks: Option<f64>,
    loops: Result<Loops, NotYet>,
}

fn loops(lead: &mut WindowLead, fresh: bool, levels_only: bool) -> Result<Looks, Error> {
    let looked = lead.membership.ask(Request::Look { fresh, levels_only }, |answer| match answer {
        Answer::Looked(looked) => Some(looked),
        _ => None,
    })?;
    if looked.iter().any(|(_, looked)| !looked.is_alive) {
        return Err(Error::EndedEarly);
    }
    let calls = looked.iter().map(|(_, looked)| looked.calls).min().unwrap_or(0);
    let in_sight: Option<Vec<f64>> = looked.iter().map(|(_, looked)| looked.in_sight_ticks).collect();
    let in_sight_ticks = in_sight.and_then(|all| all.into_iter().max_by(f64::total_cmp));
    let mut all: Vec<LoopSeen> = Vec::new();
    let mut descriptions = BTreeMap::new();
    for (node, Looked { loops, description, .. }) in looked {
        let mut loops = match loops {
            Ok(loops) => loops,
            Err(why) => return Ok(Looks { calls, in_sight_ticks, loops: Err(why.into()) }),
        };
        let relation = lead.membership.relation(node);
        for found in &mut loops {
            found.iteration_ticks = relation.span_of(found.iteration_ticks);
            found.iteration_ticks_mean = relation.span_of(found.iteration_ticks_mean);
            found.once.iter_mut().for_each(|call| call.gap_ticks = relation.span_of(f64::from(call.gap_ticks)) as f32);
        }
        descriptions.insert(loops.first().map_or(u32::MAX, |first| first.rank), description);
        all.append(&mut loops);
    }
    all.sort_by_key(|found| found.rank);
    let description = descriptions.into_values().next().unwrap_or_default();
    Ok(Looks { calls, in_sight_ticks, loops: Ok((all, description)) })
}

fn agree(lead: &mut WindowLead, (loops, description): &Loops) -> Result<Result<Agreed, NotYet>, Error> {
    let Some(pace) = pace_of(loops) else { return Ok(Err(NotYet::OtherPaces)) };
    let choices = match own_choices(loops) {
        Ok(choices) => choices,
        Err(why) => return Ok(Err(why)),
    };
    let has_words = loops.iter().any(|found| found.word.is_some());
    let choices = if has_words { fit(lead, loops, choices)? } else { Ok(choices) };
    Ok(choices.map(|choices| Agreed {
        choices: choices.into_iter().collect(),
        iterations_seen: loops.iter().map(|found| found.iterations_seen).min().unwrap_or(0),
        iteration_ticks: pace,
        is_undecided: loops.iter().any(|found| found.is_undecided),
        once: loops.first().map(|first| first.once.iter().map(|call| call.symbol).collect()).unwrap_or_default(),
        description: description.clone(),
    }))
}

/// Ticks of an iteration of the slowest rank, if all ranks repeat about as fast. Ranks that wait in turns for a processor
/// make most of their iterations at once: then their medians differ by what one wait takes, and the mean is the same for
/// all. The median of fast loops is the same where one rank's few milliseconds of calls have a wait in them.
fn pace_of(loops: &[LoopSeen]) -> Option<f64> {
    let slowest = |ticks: fn(&LoopSeen) -> f64| {
        let all = || loops.iter().map(ticks);
        let slowest = all().fold(0.0, f64::max);
        (slowest, all().all(|ticks| ticks >= slowest * PACE_TOLERANCE))
    };
    let (median, is_one) = slowest(|found| found.iteration_ticks);
    let (mean, is_one_mean) = slowest(|found| found.iteration_ticks_mean);
    if is_one { Some(median) } else { is_one_mean.then_some(mean) }
}

/// The marker of each rank where its own calls say it; the reference is always among them.
fn own_choices(loops: &[LoopSeen]) -> Result<BTreeMap<u32, Choice>, NotYet> {
    let common = elect(loops);
    let first = reference_of(loops).ok_or(NotYet::NoRank)?;
    let mut choices = BTreeMap::new();
    for found in loops {
        match &found.word {
            None => choices.insert(found.rank, chosen(found, common)?),
            Some(word) if found.rank == first.rank => choices.insert(found.rank, by_word(word)?),
            Some(_) => None,
        };
    }
    Ok(choices)
}

/// The rank whose iterations the others fit theirs to: the first one with a call that happens once in each.
fn reference_of(loops: &[LoopSeen]) -> Option<&LoopSeen> {
    loops.iter().find(|found| found.word.is_none()).or(loops.first())
}

/// The choices of all ranks, once those whose iterations only repeat call by call fit the reference's.
fn fit(
    lead: &mut WindowLead,
    loops: &[LoopSeen],
    mut choices: BTreeMap<u32, Choice>,
) -> Result<Result<BTreeMap<u32, Choice>, NotYet>, Error> {
    let Some(first) = reference_of(loops) else { return Ok(Ok(choices)) };
    let symbol = choices.get(&first.rank).filter(|choice| choice.place.is_none()).map(|choice| choice.symbol);
    let Some(reference) = refer(lead, first.rank, symbol)? else { return Ok(Err(NotYet::LoopEnded)) };
    let clocks = lead.membership.relations();
    let fitted =
        lead.membership.ask(Request::Fit { reference: Box::new(reference), clocks }, |answer| match answer {
            Answer::Fitted(fitted) => Some(fitted),
            _ => None,
        })?;
    for (_, fitted) in fitted {
        match fitted {
            Ok(fitted) => choices.extend(fitted.into_iter().map(|Fitted { rank, choice }| (rank, choice))),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(choices))
}

/// A rank's latest iterations on the clock of this process.
fn refer(lead: &mut WindowLead, rank: u32, symbol: Option<Symbol>) -> Result<Option<Reference>, Error> {
    let events_max = lead.membership.events_max().saturating_mul(REFERENCE_EVENTS);
    let answers = lead.membership.ask(Request::Refer { rank, symbol, events_max }, |answer| match answer {
        Answer::Reference(reference) => Some(Some(reference)),
        Answer::Done => Some(None),
        _ => None,
    })?;
    let found = answers.into_iter().find_map(|(node, reference)| Some((node, reference?)));
    Ok(found.map(|(node, mut reference)| {
        let _error = reference.calls.onto_lead(&lead.membership.relation(node));
        *reference
    }))
}

/// The call site that most ranks pass once per iteration; a synchronising one if there is a choice.
fn elect(loops: &[LoopSeen]) -> Option<Base> {
    let mut votes: BTreeMap<Base, (usize, bool, usize)> = BTreeMap::new();
    for found in loops {
        let mut seen = BTreeSet::new();
        for call in &found.once {
            let vote = votes.entry(base_of(call)).or_default();
            vote.0 += usize::from(seen.insert(base_of(call)));
            vote.1 |= call.synchronises;
            vote.2 += usize::from(call.symbol == found.anchor);
        }
    }
    votes.into_iter().max_by_key(|(_, vote)| *vote).map(|(base, _)| base)
}

fn base_of(call: &OnceCall) -> Base {
    (call.symbol.function, call.base_site)
}

/// The call that counts where one happens once per iteration: the common one, else the rank's own.
fn chosen(found: &LoopSeen, common: Option<Base>) -> Result<Choice, NotYet> {
    let mut candidates: Vec<&OnceCall> = found.once.iter().filter(|call| Some(base_of(call)) == common).collect();
    if candidates.is_empty() {
        candidates = found.once.iter().filter(|call| call.symbol == found.anchor).collect();
    }
    // Of several directions the one after the longest computation: that is where an iteration begins.
    let best = candidates.into_iter().max_by(|a, b| a.gap_ticks.total_cmp(&b.gap_ticks));
    let best = best.ok_or(NotYet::NoCall)?;
    Ok(Choice {
        symbol: best.symbol,
        place: None,
        every: passes(best.every)?,
        is_common: common.is_none_or(|common| common == base_of(best)),
        synchronises: best.synchronises,
    })
}

/// A rank that begins its iterations where it likes.
fn by_word(word: &WordSeen) -> Result<Choice, NotYet> {
    let every = passes(word.every)?;
    Ok(Choice { symbol: word.symbol, place: Some(0), every, is_common: true, synchronises: word.synchronises })
}

fn passes(every: Option<u32>) -> Result<u64, NotYet> {
    every.map(u64::from).ok_or(NotYet::VaryingPasses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(site: u64, direction: u64, gap_ticks: f32, synchronises: bool) -> OnceCall {
        let symbol = Symbol { function: 1, site: site ^ direction };
        OnceCall { symbol, base_site: site, synchronises, gap_ticks, every: Some(1) }
    }

    fn found(rank: u32, once: Vec<OnceCall>) -> LoopSeen {
        LoopSeen {
            rank,
            iterations_seen: 10,
            iteration_ticks: 1000.0,
            iteration_ticks_mean: 1000.0,
            is_undecided: false,
            anchor: once.first().map_or(Symbol { function: 9, site: 9 }, |call| call.symbol),
            once,
            word: None,
        }
    }

    #[test]
    fn most_ranks_decide_and_others_count_their_own() {
        let both = |rank| found(rank, vec![call(10, 0, 1.0, false), call(20, 0, 5.0, true)]);
        let loops = vec![both(0), both(1), found(2, vec![call(30, 0, 2.0, false)])];
        let choices = own_choices(&loops).expect("agreed");
        let sites: Vec<(u64, bool)> = choices.values().map(|choice| (choice.symbol.site, choice.is_common)).collect();
        assert_eq!(sites, [(20, true), (20, true), (30, false)], "what synchronises is preferred among equals");
    }

    #[test]
    fn ranks_that_wait_for_processors_in_turns_have_one_pace() {
        let rows = [
            ("alike", [(1000.0, 1000.0), (900.0, 900.0)], Some(1000.0)),
            ("one waits in half of its iterations", [(10.0, 5000.0), (9000.0, 5100.0)], Some(5100.0)),
            ("one was seen to wait", [(10.0, 800.0), (11.0, 12.0)], Some(11.0)),
            ("one is inside of the other's loop", [(1000.0, 1010.0), (200.0, 210.0)], None),
        ];
        for (name, ranks, expected) in rows {
            let loops = ranks.map(|(iteration_ticks, iteration_ticks_mean)| LoopSeen {
                iteration_ticks,
                iteration_ticks_mean,
                ..found(0, vec![])
            });
            assert_eq!(pace_of(&loops), expected, "{name}");
        }
    }

    #[test]
    fn of_directions_the_one_after_the_longest_computation() {
        let loops = vec![found(0, vec![call(10, 4, 1.0, false), call(10, 8, 7.0, false)])];
        assert_eq!(own_choices(&loops).expect("agreed")[&0].symbol.site, 10 ^ 8);
    }

    #[test]
    fn what_can_not_be_counted_is_said() {
        let varying = OnceCall { every: None, ..call(10, 0, 1.0, false) };
        let rows = [
            ("no rank", vec![], NotYet::NoRank),
            ("no call", vec![found(0, vec![])], NotYet::NoCall),
            ("a call site passed now more, now less often", vec![found(0, vec![varying])], NotYet::VaryingPasses),
        ];
        for (name, loops, expected) in rows {
            assert_eq!(own_choices(&loops).expect_err(name), expected, "{name}");
        }
    }
}
