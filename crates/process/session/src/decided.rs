//! The decisions about the functions of a file, kept for other processes and later runs.
//!
//! A decision holds for a file's code wherever it is mapped, so its addresses are the file's. It is believed again only
//! if every byte it was made from is the same in the process's memory, and only by the very program that made it: other
//! versions may decide otherwise. Kept bytes are no more than a shortcut; damaged or foreign ones are made anew.
//!
//! Next: `subject` decides, `image_cache` keeps.

use crate::obstacle::Obstacle;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use trimtab_os::FileMapping;
use trimtab_symbols::{fingerprint, gnu_build_id_of, seal_as, unseal_as};
use trimtab_types::{FileAddr, LoadBias};
use trimtab_x86::{
    Carrier, ExitKind, FunctionSites, JumpForm, NEAR_JUMP_LEN, PAGE_BYTES, PatchSite, Refusal, SHORT_JUMP_LEN, SiteKind,
};

const MAGIC: &[u8; 8] = b"trimtabP";
/// Raise it when the form of what is kept changes.
const VERSION: u32 = 2;

/// The decision about one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    /// Its first address.
    pub start: FileAddr,
    /// Its code and the padding behind it: all bytes that the decision was made from.
    pub parts: Vec<Range<FileAddr>>,
    /// Stands for these bytes.
    pub code: u64,
    /// Where it can be patched, or why it can't be.
    pub outcome: Result<OwnSites, String>,
}

/// Where a function can be patched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnSites {
    entry: PatchSite<FileAddr>,
    /// Each different from the others and from the entry.
    exits: Vec<PatchSite<FileAddr>>,
    /// Why not all exits can be patched, if that is so.
    refused: Option<String>,
    /// True if its caller may look at the flags it leaves behind.
    pub(crate) answers_in_flags: bool,
}

impl OwnSites {
    /// Of what the analysis chose, at addresses that are `bias` higher than the file's.
    pub(crate) fn of(sites: FunctionSites, bias: LoadBias, answers_in_flags: bool) -> Result<Self, String> {
        let reason = |refusal: Refusal| refusal.in_file(bias).to_string();
        let entry = sites.entry.map_err(reason)?.in_file(bias);
        let mut own = OwnSites { entry, exits: Vec::new(), refused: None, answers_in_flags };
        for (exit, site) in sites.exits {
            match site.map(|site| site.in_file(bias)) {
                Ok(site) if site != own.entry && !own.exits.contains(&site) => own.exits.push(site),
                Err(refusal) if exit.kind != ExitKind::FallsThrough && own.refused.is_none() => {
                    own.refused = Some(reason(refusal));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(own)
    }

    /// The places to patch, the entry first: alone, or `timed` with every exit.
    pub(crate) fn chosen(&self, timed: bool) -> Result<impl Iterator<Item = &PatchSite<FileAddr>>, Obstacle> {
        match &self.refused {
            Some(reason) if timed => return Err(Obstacle::Kept(reason.clone())),
            _ if timed && self.exits.is_empty() && self.entry.kind == SiteKind::Entry => {
                return Err(Obstacle::NeverReturns);
            }
            _ => {}
        }
        let exits = if timed { self.exits.as_slice() } else { &[] };
        Ok(std::iter::once(&self.entry).chain(exits))
    }

    fn all(&self) -> impl Iterator<Item = &PatchSite<FileAddr>> {
        std::iter::once(&self.entry).chain(&self.exits)
    }
}

/// Decisions about a file's functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decisions(Vec<Decision>);

impl Decisions {
    /// The decision about the function that begins at `start`.
    pub(crate) fn at(&self, start: FileAddr) -> Option<&Decision> {
        self.0.binary_search_by_key(&start, |decision| decision.start).ok().map(|index| &self.0[index])
    }

    /// These and `new` ones, which replace those about the same functions.
    pub(crate) fn with(&self, new: Vec<Decision>) -> Self {
        let mut all = new;
        all.extend(self.0.iter().cloned());
        // The sort is stable, so new ones stay before old ones.
        all.sort_by_key(|decision| decision.start);
        all.dedup_by_key(|decision| decision.start);
        Decisions(all)
    }

    /// As bytes that only `engine` believes.
    pub(crate) fn to_bytes(&self, engine: u64) -> Vec<u8> {
        // Serialising plain data into memory has no way to fail; were it to, nothing is read back.
        seal_as(MAGIC, VERSION, &postcard::to_stdvec(&(engine, &self.0)).unwrap_or_default())
    }

    /// From bytes that the same `engine` made; `None` for any others.
    pub(crate) fn from_bytes(engine: u64, bytes: &[u8]) -> Option<Self> {
        let payload = unseal_as(MAGIC, VERSION, bytes).ok()?;
        let (made_by, payload) = postcard::take_from_bytes::<u64>(payload).ok()?;
        if made_by != engine {
            return None;
        }
        let (all, rest) = postcard::take_from_bytes::<Vec<Decision>>(payload).ok()?;
        let in_order = all.is_sorted_by(|one, other| one.start < other.start);
        (rest.is_empty() && in_order && all.iter().all(is_sound)).then_some(Decisions(all))
    }
}

/// [`engine`] as decisions have it: for programs that handle faults by themselves they are made otherwise, so it is
/// another number for these.
pub(crate) fn maker(faults_stay: bool) -> Option<u64> {
    engine().map(|engine| if faults_stay { !engine } else { engine })
}

/// A number for this very program: with any other, decisions may be made otherwise.
pub(crate) fn engine() -> Option<u64> {
    static ENGINE: OnceLock<Option<u64>> = OnceLock::new();
    let of_program = || {
        let file = FileMapping::open(Path::new("/proc/self/exe")).ok()?;
        // The linker's digest of all of it stands for it, and saves reading it.
        let id = gnu_build_id_of(file.bytes()).map(|id| fingerprint(id.0.as_bytes()) ^ file.bytes().len() as u64);
        Some(id.unwrap_or_else(|| fingerprint(file.bytes())))
    };
    *ENGINE.get_or_init(of_program)
}

/// True if a decision keeps to the code it is about.
fn is_sound(decision: &Decision) -> bool {
    let holds = |range: &Range<FileAddr>| {
        range.start < range.end && decision.parts.iter().any(|part| part.start <= range.start && range.end <= part.end)
    };
    let is_patch = |range: &Range<FileAddr>, jump_len: u64| {
        let is_jump = range.end.0.checked_sub(range.start.0) == Some(jump_len);
        is_jump && holds(range) && range.start.0 / PAGE_BYTES == (range.end.0 - 1) / PAGE_BYTES
    };
    let is_sound_carrier = |carrier: &Carrier<FileAddr>| {
        let makes_room = carrier.displaced.end >= carrier.overwritten.end;
        is_patch(&carrier.overwritten, NEAR_JUMP_LEN)
            && holds(&carrier.displaced)
            && carrier.displaced.start == carrier.overwritten.start
            && makes_room
    };
    let is_sound_site = |site: &PatchSite<FileAddr>| {
        let fits = match site.jump {
            JumpForm::Near5 => is_patch(&site.overwritten, NEAR_JUMP_LEN) && site.carrier.is_none(),
            JumpForm::Short2 { via } => {
                let springboard = via.0.checked_add(NEAR_JUMP_LEN).map(|end| via..FileAddr(end));
                is_patch(&site.overwritten, SHORT_JUMP_LEN)
                    && springboard.is_some_and(|springboard| is_patch(&springboard, NEAR_JUMP_LEN))
            }
        };
        fits && holds(&site.displaced)
            && site.at == site.displaced.start
            && site.at == site.overwritten.start
            && !matches!(site.kind, SiteKind::At(_))
            && site.carrier.as_ref().is_none_or(is_sound_carrier)
    };
    decision.parts.first().is_some_and(|part| part.start == decision.start)
        && decision.parts.iter().all(|part| part.start < part.end)
        && decision.outcome.as_ref().map_or(true, |own| own.all().all(is_sound_site))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_x86::Exit;

    const ENGINE: u64 = 0x1234;

    fn site(at: u64, kind: SiteKind<FileAddr>) -> PatchSite<FileAddr> {
        let at = FileAddr(at);
        PatchSite {
            at,
            overwritten: at..at + 5,
            displaced: at..at + 6,
            resume: Some(at + 6),
            jump: JumpForm::Near5,
            kind,
            carrier: None,
        }
    }

    fn range(range: Range<u64>) -> Range<FileAddr> {
        FileAddr(range.start)..FileAddr(range.end)
    }

    fn ret(at: u64) -> Exit<FileAddr> {
        Exit { at: FileAddr(at), len: 1, kind: ExitKind::Ret { pop: 0 } }
    }

    fn decision(start: u64, outcome: Result<OwnSites, String>) -> Decision {
        let start = FileAddr(start);
        Decision { start, parts: std::iter::once(start..start + 0x80).collect(), code: 7, outcome }
    }

    fn good() -> Decisions {
        let carrier = Carrier {
            overwritten: range(0x2040..0x2045),
            displaced: range(0x2040..0x204a),
            resume: Some(FileAddr(0x204a)),
        };
        let exit = PatchSite {
            overwritten: range(0x2060..0x2062),
            jump: JumpForm::Short2 { via: FileAddr(0x2045) },
            carrier: Some(carrier),
            ..site(0x2060, SiteKind::Exit(ret(0x2065)))
        };
        let own = OwnSites {
            entry: site(0x2000, SiteKind::Entry),
            exits: vec![exit],
            refused: None,
            answers_in_flags: false,
        };
        Decisions(vec![decision(0x1000, Err("no reason".into())), decision(0x2000, Ok(own))])
    }

    #[test]
    fn decisions_are_kept_whole_or_not_at_all() {
        let bytes = good().to_bytes(ENGINE);
        assert_eq!(Decisions::from_bytes(ENGINE, &bytes), Some(good()));
        assert_eq!(Decisions::from_bytes(ENGINE + 1, &bytes), None, "of another program");
        assert_eq!(Decisions::from_bytes(ENGINE, &Decisions::default().to_bytes(ENGINE)), Some(Decisions::default()));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert_eq!(Decisions::from_bytes(ENGINE, &damaged), None, "byte {index}");
            assert_eq!(Decisions::from_bytes(ENGINE, &bytes[..index]), None, "{index} bytes");
        }
    }

    #[test]
    fn what_leaves_its_code_is_not_believed() {
        type Row = (&'static str, fn(&mut Decisions));
        fn own(all: &mut Decisions) -> &mut OwnSites {
            all.0[1].outcome.as_mut().expect("has sites")
        }
        let rows: &[Row] = &[
            ("out_of_order", |all| all.0.swap(0, 1)),
            ("twice_the_same", |all| all.0[0] = all.0[1].clone()),
            ("no_parts", |all| all.0[0].parts.clear()),
            ("a_part_that_ends_before_it_begins", |all| all.0[0].parts.push(range(Range { start: 9, end: 8 }))),
            ("begins_elsewhere", |all| all.0[0].start = FileAddr(0x1001)),
            ("entry_outside", |all| own(all).entry = site(0x3000, SiteKind::Entry)),
            ("displaced_outside", |all| own(all).entry.displaced.end = FileAddr(0x3000)),
            ("jump_elsewhere", |all| own(all).entry.at = FileAddr(0x2001)),
            ("jump_too_long", |all| own(all).entry.overwritten.end = FileAddr(0x2006)),
            ("a_point", |all| own(all).entry.kind = SiteKind::At(FileAddr(0x2000))),
            ("springboard_outside", |all| own(all).exits[0].jump = JumpForm::Short2 { via: FileAddr(0x2100) }),
            ("springboard_at_the_end_of_memory", |all| {
                own(all).exits[0].jump = JumpForm::Short2 { via: FileAddr(u64::MAX) }
            }),
            ("carrier_too_short", |all| {
                own(all).exits[0].carrier.as_mut().expect("has one").displaced.end = FileAddr(0x2044);
            }),
            ("carrier_of_a_near_jump", |all| own(all).entry.carrier = own(all).exits[0].carrier.clone()),
        ];
        for (name, change) in rows {
            let mut changed = good();
            change(&mut changed);
            assert_eq!(Decisions::from_bytes(ENGINE, &changed.to_bytes(ENGINE)), None, "{name}");
        }
        let mut crossing = good();
        crossing.0[1].parts.push(range(0x2ff0..0x3010));
        own(&mut crossing).entry = site(0x2ffd, SiteKind::Entry);
        assert_eq!(Decisions::from_bytes(ENGINE, &crossing.to_bytes(ENGINE)), None, "over a page boundary");
    }

    #[test]
    fn what_is_chosen() {
        let (entry, whole) = (site(0x2000, SiteKind::Entry), site(0x2000, SiteKind::Whole(ret(0x2005))));
        let exit = site(0x2060, SiteKind::Exit(ret(0x2065)));
        let of = |entry: &PatchSite<FileAddr>, exits: &[&PatchSite<FileAddr>], refused: Option<&str>| OwnSites {
            entry: entry.clone(),
            exits: exits.iter().map(|site| (*site).clone()).collect(),
            refused: refused.map(str::to_string),
            answers_in_flags: false,
        };
        for (name, own, timed, want) in [
            ("entry_alone", of(&entry, &[&exit], None), false, Ok(1)),
            ("with_exits", of(&entry, &[&exit], None), true, Ok(2)),
            ("whole", of(&whole, &[], None), true, Ok(1)),
            ("never_returns", of(&entry, &[], None), true, Err("it never returns")),
            ("never_returns_untimed", of(&entry, &[], None), false, Ok(1)),
            ("refused_exit", of(&entry, &[&exit], Some("why")), true, Err("why")),
            ("refused_exit_untimed", of(&entry, &[&exit], Some("why")), false, Ok(1)),
        ] {
            let found = own.chosen(timed).map(Iterator::count).map_err(|obstacle| obstacle.to_string());
            assert_eq!(found, want.map_err(str::to_string), "{name}");
        }
    }

    #[test]
    fn new_decisions_replace_old_ones() {
        let renewed = decision(0x1000, Err("another reason".into()));
        let all = good().with(vec![decision(0x3000, Err("far".into())), renewed.clone()]);
        assert_eq!(all.at(FileAddr(0x1000)), Some(&renewed));
        assert_eq!(all.at(FileAddr(0x2000)), good().at(FileAddr(0x2000)));
        assert_eq!((all.0.len(), all.at(FileAddr(0x3001))), (3, None));
    }
}
