//! A script while it is resolved: its variables, texts and tables of open calls, and the problems found so far.
//!
//! Next: `body`, which makes one body with it.

use super::parts::{BodyPlace, Origin};
use super::variables::Variables;
use crate::error::{Problem, Span};
use crate::facts::{Facts, FunctionId};
use crate::ir;
use crate::syntax::Script;
use std::collections::BTreeMap;

/// The permissions of a script to do to the program more than look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Permissions {
    /// Assign to the program's variables and registers: `--allow-write`.
    pub write: bool,
    /// Call the program's functions: `--allow-call`.
    pub call: bool,
}

/// A body with where it goes.
pub(super) struct Made {
    pub(super) origin: Origin,
    pub(super) probe: usize,
    pub(super) when: ir::When,
    pub(super) statements: Vec<ir::Statement>,
    pub(super) places: Vec<BodyPlace>,
    pub(super) span: Span,
}

/// Which table of open calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OpenKey {
    Function(FunctionId),
    Probe(usize),
}

/// The functions whose calls a table of open calls holds.
pub(super) struct OpenCalls {
    pub(super) variable: usize,
    pub(super) probe: usize,
    pub(super) functions: Vec<FunctionId>,
    /// The statements that run for each call that was left without an exit, by probe.
    pub(super) left: Vec<(usize, Vec<ir::Statement>)>,
}

pub(super) struct Resolver<'a> {
    pub(super) script: &'a Script,
    pub(super) facts: &'a dyn Facts,
    pub(super) permissions: Permissions,
    pub(super) variables: Variables,
    pub(super) texts: Vec<String>,
    pub(super) open_calls: BTreeMap<OpenKey, OpenCalls>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(script: &'a Script, facts: &'a dyn Facts, permissions: Permissions) -> Self {
        let mut problems = Vec::new();
        let variables = Variables::collect(script, &mut problems);
        Resolver { script, facts, permissions, variables, texts: Vec::new(), open_calls: BTreeMap::new(), problems }
    }

    /// The number of a text, which is kept once.
    pub(super) fn text(&mut self, text: &str) -> usize {
        let known = self.texts.iter().position(|known| known == text);
        known.unwrap_or_else(|| {
            self.texts.push(text.to_string());
            self.texts.len() - 1
        })
    }
}
