//! A script's plan: its bodies, every write with the bytes before and after, and the code that would run.
//!
//! Next: `source`, which makes a process ready; `trimtab-plan` for the plan; `trimtab explain`, which prints it.

use crate::error::Error;
use crate::late::Waiting;
use crate::source::{SETUP, ScriptOptions, Source};
use crate::walk;
use trimtab_session::{Modules, Plan, Refused};
use trimtab_snippet::ir::When;
use trimtab_snippet::{Compiled, Origin};

/// The changes that a script would make to a process, or to one that runs a file.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Each body, by its number in the plan.
    pub bodies: Vec<ExplainedBody>,
    /// Writes, and the code they lead to.
    pub plan: Plan,
    /// Functions that can't be probed, with the reason.
    pub refused: Vec<Refused>,
    /// Places that are probed once their library is loaded.
    pub awaited: Vec<String>,
}

/// One body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedBody {
    /// When it runs.
    pub when: String,
    /// Why it is there, if not because the script says just this.
    pub purpose: Option<&'static str>,
    /// The text it was made from; none for what the script does not say.
    pub text: Option<String>,
    /// Operations of one run at most.
    pub operations_max: u64,
}

/// The plan of a script for a process or a file; changes nothing.
///
/// # Errors
/// As for running it.
pub fn explain(modules: &Modules, options: &ScriptOptions) -> Result<Explained, Error> {
    let source = Source::of(modules, options)?;
    if modules.is_of_file() && source.compiled.unit.bodies.iter().any(|body| walk::calls(&body.statements)) {
        return Err(Error::CallsOfFile);
    }
    let plan = match modules.is_of_file() {
        true => source.prepared.dry_run_of_file(modules, SETUP),
        false => source.prepared.dry_run(modules.pid, SETUP),
    };
    let plan = plan.map_err(Error::of(modules.pid))?;
    let bodies = (0..source.compiled.unit.bodies.len()).map(|number| body(&source.compiled, number, &options.text));
    let awaited = source.waiting.iter().flat_map(Waiting::names).collect();
    Ok(Explained { bodies: bodies.collect(), plan, refused: source.refused, awaited })
}

fn body(compiled: &Compiled, number: usize, script: &str) -> ExplainedBody {
    let body = &compiled.unit.bodies[number];
    let when = match body.when {
        When::Entry => "at entries".to_owned(),
        When::Exit => "at exits".to_owned(),
        When::At => "at instructions".to_owned(),
        When::Every { period_us } => format!("every {period_us} us"),
        When::Once => "once".to_owned(),
    };
    let purpose = match compiled.origins.get(number) {
        Some(Origin::Probe) => None,
        Some(Origin::Start) => Some("begins to record"),
        Some(Origin::Stop) => Some("ends recording"),
        Some(Origin::OpenCalls) => Some("remembers which calls are open"),
        Some(Origin::Left) => Some("for calls that were left without an exit"),
        None => Some("memory that goes away is not read any more"),
    };
    let text = compiled.spans.get(number).and_then(|span| script.get(span.start..span.end));
    let text = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    ExplainedBody { when, purpose, text, operations_max: body.cost_max }
}
