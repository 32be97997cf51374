//! What was decided about the functions of a file, kept for other processes and later runs.
//!
//! A decision holds for a file's code wherever it is mapped, so its addresses are the file's. It is believed again only
//! if every byte it was made from is the same in the process's memory, and only by the very program that made it: other
//! versions may decide otherwise. Kept bytes are no more than a shortcut; damaged or foreign ones are made anew.
//!
//! Next: `prepare` decides, `image_cache` keeps.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use trimtab_os::FileMapping;
use trimtab_symbols::{fingerprint, seal_as, unseal_as};
use trimtab_x86::{
    Carrier, ExitKind, FunctionSites, JumpForm, NEAR_JUMP_LEN, PAGE_BYTES, Refusal, SHORT_JUMP_LEN, Site, SiteKind,
};

const MAGIC: &[u8; 8] = b"trimtabP";
/// Raise it when the form of what is kept changes.
const VERSION: u32 = 1;

/// What was decided about one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    /// Its first address.
    pub start: u64,
    /// Its code and the padding behind it: all bytes that the decision was made from.
    pub parts: Vec<Range<u64>>,
    /// Stands for these bytes.
    pub code: u64,
    /// Where it can be patched, or why it can't be.
    pub outcome: Result<OwnSites, String>,
}

/// Where a function can be patched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnSites {
    entry: Site,
    /// Each different from the others and from the entry.
    exits: Vec<Site>,
    /// Why not all exits can be patched, if that is so.
    refused: Option<String>,
}

impl OwnSites {
    /// Of what the analysis chose, at addresses that are `bias` higher than the file's.
    pub(crate) fn of(sites: FunctionSites, bias: u64) -> Result<Self, String> {
        let to_file = bias.wrapping_neg();
        let reason = |refusal: Refusal| refusal.shifted(to_file).to_string();
        let mut own =
            OwnSites { entry: sites.entry.map_err(reason)?.shifted(to_file), exits: Vec::new(), refused: None };
        for (exit, site) in sites.exits {
            match site.map(|site| site.shifted(to_file)) {
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
    pub(crate) fn chosen(&self, timed: bool) -> Result<impl Iterator<Item = &Site>, String> {
        match &self.refused {
            Some(reason) if timed => return Err(reason.clone()),
            _ if timed && self.exits.is_empty() && self.entry.kind == SiteKind::Entry => {
                return Err("it never returns".into());
            }
            _ => {}
        }
        let exits = if timed { self.exits.as_slice() } else { &[] };
        Ok(std::iter::once(&self.entry).chain(exits))
    }

    fn all(&self) -> impl Iterator<Item = &Site> {
        std::iter::once(&self.entry).chain(&self.exits)
    }
}

/// Decisions about a file's functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decisions(Vec<Decision>);

impl Decisions {
    /// What was decided about the function that begins at `start`.
    pub(crate) fn at(&self, start: u64) -> Option<&Decision> {
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

/// A number for this very program: with any other, decisions may be made otherwise.
pub(crate) fn engine() -> Option<u64> {
    static ENGINE: OnceLock<Option<u64>> = OnceLock::new();
    let of_program = || Some(fingerprint(FileMapping::open(Path::new("/proc/self/exe")).ok()?.bytes()));
    *ENGINE.get_or_init(of_program)
}

/// Whether a decision keeps to the code it is about.
fn is_sound(decision: &Decision) -> bool {
    let holds = |range: &Range<u64>| {
        range.start < range.end && decision.parts.iter().any(|part| part.start <= range.start && range.end <= part.end)
    };
    let is_patch = |range: &Range<u64>, jump_len: u64| {
        let is_jump = range.end.checked_sub(range.start) == Some(jump_len);
        is_jump && holds(range) && range.start / PAGE_BYTES == (range.end - 1) / PAGE_BYTES
    };
    let is_sound_carrier = |carrier: &Carrier| {
        let makes_room = carrier.displaced.end >= carrier.overwritten.end;
        is_patch(&carrier.overwritten, NEAR_JUMP_LEN)
            && holds(&carrier.displaced)
            && carrier.displaced.start == carrier.overwritten.start
            && makes_room
    };
    let is_sound_site = |site: &Site| {
        let fits = match site.jump {
            JumpForm::Near5 => is_patch(&site.overwritten, NEAR_JUMP_LEN) && site.carrier.is_none(),
            JumpForm::Short2 { via } => {
                let springboard = via.checked_add(NEAR_JUMP_LEN).map(|end| via..end);
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
