//! Answers about data and routines on hosts and links.
//!
//! Next: `grid_asked` for the questions, `grid_models` for routines.

use crate::error::Error;
use crate::grid_asked::{GridAsked, GridKind};
use crate::grid_models::GridModels;
use crate::models::models_of;
use schemars::JsonSchema;
use serde::Serialize;
use trimtab_grid::{Answer, Facts, Outlook, Plan, compare};
use trimtab_store::Store;

/// Version of the answer's shape: fields may be added to it, and nothing else changes.
const VERSION: u32 = 1;

/// Where facts of hosts and links came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactsFrom {
    /// Files.
    Files,
    /// They came with the question.
    Question,
    /// The site's agents, and pairs that they probed.
    Site,
    /// The store of whoever asks.
    Store,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GridAnswer {
    /// Version of this shape.
    pub version: u32,
    /// Which question it was.
    pub asked: GridKind,
    /// When, seconds since 1970.
    pub made_unix_s: f64,
    /// Where facts came from.
    pub facts_from: FactsFrom,
    /// The unit of values.
    pub unit: &'static str,
    /// The end of the chosen alternative; null: none has a time.
    pub value: Option<f64>,
    /// Its interval's begin; null: not known.
    pub lower: Option<f64>,
    /// Its interval's end.
    pub upper: Option<f64>,
    /// All alternatives.
    #[serde(flatten)]
    pub answer: Answer,
}

impl GridAnswer {
    /// The alternative that ends first, if any has a time.
    pub fn best(&self) -> Option<&Outlook> {
        self.answer.chosen.map(|at| &self.answer.alternatives[at])
    }
}

impl GridAsked {
    /// The plan that answers it, given what is known.
    ///
    /// # Errors
    /// Those of [`GridAsked::plan`], and [`Error::Unknown`]: the store has no such model.
    pub fn checked_plan(&self, store: &Store, facts: &Facts) -> Result<Plan, Error> {
        if let Some(model) = self.model() {
            models_of(store, model)?;
        }
        self.plan(&facts.names())
    }

    /// The answer by a plan of [`GridAsked::checked_plan`].
    ///
    /// # Errors
    /// [`Error::Grid`].
    pub fn answer(
        &self,
        plan: &Plan,
        (facts, facts_from): (&Facts, FactsFrom),
        models: &GridModels,
        made_unix_s: f64,
    ) -> Result<GridAnswer, Error> {
        let answer = compare(plan, facts, models)?;
        let end = answer.chosen.and_then(|at| answer.alternatives[at].end_s);
        Ok(GridAnswer {
            version: VERSION,
            asked: self.kind(),
            made_unix_s,
            facts_from,
            unit: "seconds",
            value: end.map(|end| end.value),
            lower: end.and_then(|end| end.lower),
            upper: end.and_then(|end| end.upper),
            answer,
        })
    }
}
