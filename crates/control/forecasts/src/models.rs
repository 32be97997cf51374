//! Models of routines as a store keeps them, and as they are shown.
//!
//! Next: `sizes`, which asks them.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trimtab_routine::{Basis, Fitted, HostKind, Model, Piece, Ran, Speed, Stray};
use trimtab_store::{History, KnownHost, RoutineModel, Store};

/// Version of what is kept and of the JSON's shape: fields may be added to it, and nothing else changes.
pub const MODEL_VERSION: u32 = 1;

/// A model as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Content {
    /// [`MODEL_VERSION`].
    pub version: u32,
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// Runs before each run.
    pub setup: Option<Vec<String>>,
    /// The host that it was measured on.
    pub host: String,
    /// Its kind.
    pub host_kind: HostKind,
    /// How fast it is.
    pub speed: Speed,
    /// Wall or processor time.
    pub time_is: Basis,
    /// True if several threads or processes computed at the same time.
    pub has_threads: bool,
    /// The model of time.
    pub time: Model,
    /// The model of memory.
    pub memory: Option<Model>,
    /// Why there is none.
    pub no_memory: Option<String>,
    /// Runs that others disturbed.
    pub disturbed: usize,
    /// Sizes without a run.
    pub left_out: Vec<Vec<f64>>,
    /// The order of runs came from it.
    pub seed: u64,
    /// All runs.
    pub runs: Vec<Ran>,
}

/// A model with its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name, command, time.
    pub kept: RoutineModel,
    /// All the rest.
    pub content: Content,
}

impl Named {
    /// As JSON: the content with name, command and time.
    ///
    /// # Errors
    /// A number that JSON can't hold.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        let mut object = serde_json::to_value(&self.content)?;
        object["name"] = self.kept.name.as_str().into();
        object["command"] = self.kept.command.clone().into();
        object["made_unix_s"] = self.kept.made_unix_s.into();
        Ok(object)
    }

    /// The host that it was made on.
    ///
    /// # Errors
    /// A number that JSON can't hold.
    pub fn host(&self) -> Result<KnownHost, serde_json::Error> {
        Ok(KnownHost {
            name: self.content.host.clone(),
            kind: self.kept.host_kind.clone(),
            speed: serde_json::to_string(&self.content.speed)?,
            seen_unix_s: self.kept.made_unix_s,
        })
    }
}

/// A model with the name that it is to be kept under.
///
/// # Errors
/// [`Error::Question`]: no name, another version, or numbers that can't be.
pub fn named_model(name: &str, command: Vec<String>, made_unix_s: f64, content: Content) -> Result<Named, Error> {
    let wrong = |why: &str| Err(Error::Question(format!("model {name:?}: {why}")));
    if name.is_empty() || name.chars().any(char::is_control) {
        return wrong("a name has letters");
    }
    if content.version != MODEL_VERSION {
        return wrong("it is of another version of trimtab");
    }
    let is_number = |number: f64| number.is_finite() && number > 0.0;
    if !is_number(content.speed.compute_per_s) || !is_number(content.speed.memory_bytes_per_s) {
        return wrong("the speed of its host is negative, zero or no number");
    }
    for model in [Some(&content.time), content.memory.as_ref()].into_iter().flatten() {
        if !fits(model, &content.parameters) {
            return wrong("its terms are not of its parameters, or a coefficient is negative or no number");
        }
    }
    let unreadable = |source| Error::Model { name: name.to_owned(), source };
    let kept = RoutineModel {
        name: name.to_owned(),
        host_kind: serde_json::to_string(&content.host_kind).map_err(unreadable)?,
        command,
        made_unix_s,
        content: serde_json::to_string(&content).map_err(unreadable)?,
    };
    Ok(Named { kept, content })
}

/// True if all parts of a model are of these parameters, and its numbers can be: a model that comes from elsewhere may be damaged.
fn fits(model: &Model, parameters: &[String]) -> bool {
    let count = parameters.len();
    let is_number = |number: f64| number.is_finite() && number >= 0.0;
    let of_all = |all: &[f64]| all.len() == count && all.iter().copied().all(is_number);
    let is_term = |fitted: &Fitted| {
        is_number(fitted.coefficient)
            && fitted.term.factors.iter().all(|factor| factor.parameter < count && factor.power.is_finite())
    };
    let holds = |piece: &Piece| {
        let sums = std::iter::once(&piece.terms).chain(&piece.rivals);
        [&piece.above, &piece.least, &piece.most].into_iter().all(|all| of_all(all))
            && piece.up_to.len() == count
            && sums.flatten().all(is_term)
            && piece
                .met
                .iter()
                .all(|met| met.size > 0.0 && met.value > 0.0 && is_number(met.size) && is_number(met.value))
            && is_number(piece.half_width)
            && is_number(piece.growth)
    };
    count > 0
        && model.parameters == parameters
        && of_all(&model.least)
        && of_all(&model.most)
        && [model.noise, model.fixed, model.typical].into_iter().all(is_number)
        && model.pieces.iter().all(holds)
}

/// All models of this name, the newest first.
///
/// # Errors
/// [`Error::Unknown`], and those of reading.
pub fn models_of(store: &Store, name: &str) -> Result<Vec<Named>, Error> {
    let all = all_models(store)?;
    let known: Vec<String> = all.iter().map(|named| named.kept.name.clone()).collect();
    let found: Vec<Named> = all.into_iter().filter(|named| named.kept.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    Err(Error::Unknown(match known.is_empty() {
        true => format!("there is no model yet: `trimtab model fit {name} --run CMD --over n=...` makes one"),
        false => format!("there is no model {name:?}; there are {}", known.join(", ")),
    }))
}

/// All models.
///
/// # Errors
/// [`Error::Model`], and those of reading.
pub fn all_models(store: &Store) -> Result<Vec<Named>, Error> {
    let named = |kept: RoutineModel| {
        let content = serde_json::from_str(&kept.content);
        let content = content.map_err(|source| Error::Model { name: kept.name.clone(), source })?;
        Ok(Named { kept, content })
    };
    store.models()?.into_iter().map(named).collect()
}

/// Which time is meant.
pub fn time_words(content: &Content) -> &'static str {
    match (content.time_is, content.has_threads) {
        (Basis::Wall, _) => "time",
        (Basis::Cpu, false) => "processor time, because others disturbed the runs",
        (Basis::Cpu, true) => {
            "processor time of all threads together, because others disturbed the runs; it takes less by the clock"
        }
    }
}

/// Why sizes do not say a value.
pub fn stray_words(stray: Stray) -> String {
    match stray {
        Stray::Repetitions { spread } => {
            format!("the sizes do not say it: runs of the same sizes spread by {:.0}%", 100.0 * spread)
        }
        Stray::Sizes { error } if error < 1e6 => {
            format!("the sizes do not say it: the best terms miss other sizes by {:.0}%", 100.0 * error)
        }
        Stray::Sizes { .. } => "the sizes do not say it: no terms fit".to_owned(),
    }
}
