//! Models of routines as the store keeps them.
//!
//! Next: `model`, which makes them, `forecast_sizes`, which asks them.

use crate::engine::Kept;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use trimtab_engine::routine::Model;
use trimtab_engine::{Basis, HostKind, Ran, Speed};
use trimtab_store::{History, RoutineModel};

/// Version of what is kept and of the JSON's shape: fields may be added to it, and nothing else changes.
pub const VERSION: u32 = 1;

/// A model as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Content {
    /// [`VERSION`].
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
pub struct Named {
    /// Name, command, time.
    pub kept: RoutineModel,
    /// All the rest.
    pub content: Content,
}

/// All models of this name, the newest first.
pub fn models_of(kept: &Kept, name: &str) -> anyhow::Result<Vec<Named>> {
    let all = all(kept)?;
    let known: Vec<String> = all.iter().map(|named| named.kept.name.clone()).collect();
    let found: Vec<Named> = all.into_iter().filter(|named| named.kept.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    match known.is_empty() {
        true => bail!("there is no model yet: `trimtab model fit {name} --run CMD --over n=...` makes one"),
        false => bail!("there is no model {name:?}; there are {}", known.join(", ")),
    }
}

/// All models.
pub fn all(kept: &Kept) -> anyhow::Result<Vec<Named>> {
    let named = |kept: RoutineModel| {
        let content = serde_json::from_str(&kept.content)
            .with_context(|| format!("the store's model {:?} can't be read: fit it again", kept.name))?;
        Ok(Named { kept, content })
    };
    kept.store().models()?.into_iter().map(named).collect()
}
