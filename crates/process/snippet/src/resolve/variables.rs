//! The script's variables: which there are, what each is for, and where its bytes lie.
//!
//! The role of a variable follows from all its uses together, so they are collected before any body is made.
//!
//! Next: `assign`, which makes statements of the uses; `crate::values`, which reads the bytes.

use super::parts::{AREA_BYTES_MAX, Lowered};
use crate::error::{Code, Problem, Span};
use crate::ir::{Area, HISTOGRAM_WORDS, Kind, OPEN_CALLS_MAX, STACKS_WORDS, Variable, process_word, thread_word};
use crate::syntax::{Expr, ExprKind, Name, Scope, Script, Stmt, StmtKind};
use std::collections::BTreeMap;

/// Variables of a script at most.
pub const VARIABLES_MAX: usize = 256;

/// Functions that stand alone right of `=` and say how values are gathered, with their number of arguments.
pub(super) const AGGREGATIONS: &[(&str, Aggregation, usize)] = &[
    ("hist", Aggregation::Histogram, 1),
    ("min", Aggregation::Min, 1),
    ("max", Aggregation::Max, 1),
    ("mean", Aggregation::Mean, 1),
    ("last", Aggregation::Last, 1),
    ("count", Aggregation::Count, 0),
    ("sum", Aggregation::Sum, 1),
    ("stack", Aggregation::Stack, 0),
];

/// Names that mean something everywhere.
pub(super) const RESERVED: &[&str] = &["elapsed", "now", "rank", "ranks", "thread", "cpu"];

/// How values are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregation {
    Histogram,
    Min,
    Max,
    Mean,
    Last,
    Count,
    Sum,
    Stack,
}

/// The role of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Added up.
    Sum,
    /// Set.
    Last,
    /// Gathered; not readable in bodies.
    Gather(Aggregation),
    /// Open calls of a function.
    OpenCalls,
}

/// One variable.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub name: String,
    pub role: Role,
    pub area: Area,
    /// True if it holds floats, as far as is known.
    pub float: bool,
    /// Declared, so that its type is not to be found out.
    pub declared: bool,
    span: Span,
}

/// All variables; the user's first, then implied ones.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub list: Vec<Own>,
    /// True if this round found another float.
    pub grew: bool,
    names: BTreeMap<String, usize>,
    user_count: usize,
}

/// How the script uses a variable.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    scope: Option<Scope>,
    declared_float: bool,
    set: bool,
    add: bool,
    gather: Option<Aggregation>,
    span: Span,
}

impl Variables {
    /// Looks through a script.
    pub fn collect(script: &Script, problems: &mut Vec<Problem>) -> Variables {
        let mut collector = Collector { uses: BTreeMap::new(), order: Vec::new(), locals: Vec::new(), problems };
        collector.declarations(script);
        for probe in &script.probes {
            collector.statements(&probe.body);
        }
        let mut variables = Variables::default();
        for name in collector.order.iter().take(VARIABLES_MAX) {
            let own = collector.uses[name].own(name);
            variables.names.insert(name.clone(), variables.list.len());
            variables.list.push(own);
        }
        if let Some(name) = collector.order.get(VARIABLES_MAX) {
            let message = format!("a script has at most {VARIABLES_MAX} variables");
            collector.problems.push(Problem::new(Code::TooLarge, collector.uses[name].span, message));
        }
        variables.user_count = variables.list.len();
        variables
    }

    /// Forgets implied variables; what is known of types stays.
    pub fn begin_round(&mut self) {
        let count = self.user_count;
        self.list.truncate(count);
        self.names.retain(|_, index| *index < count);
        self.grew = false;
    }

    /// The user's variable of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The implied variable of that name, if this round has made it.
    pub fn implied(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied().filter(|index| *index >= self.user_count)
    }

    /// The user's names.
    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.list[..self.user_count].iter().map(|own| own.name.as_str())
    }

    /// Adds a variable that nobody wrote, or finds it.
    pub fn imply(&mut self, name: &str, role: Role, area: Area) -> usize {
        if let Some(known) = self.implied(name) {
            return known;
        }
        let own = Own { name: name.to_string(), role, area, float: false, declared: true, span: Span::default() };
        self.names.insert(name.to_string(), self.list.len());
        self.list.push(own);
        self.list.len() - 1
    }

    /// Notes that a float was assigned.
    pub fn holds_float(&mut self, index: usize) {
        let own = &mut self.list[index];
        if !own.float && !own.declared {
            own.float = true;
            self.grew = true;
        }
    }

    /// Places for all variables; bytes of a thread's area and of the process area.
    pub fn lay_out(&self) -> Lowered<(Vec<Variable>, u32, u32)> {
        let (mut thread, mut process) = (thread_word::FIRST_FREE, process_word::FIRST_FREE);
        let mut laid_out = Vec::new();
        for own in &self.list {
            let kind = own.kind();
            let offset = match own.area {
                Area::Thread => &mut thread,
                Area::Process => &mut process,
            };
            laid_out.push(Variable { name: own.name.clone(), area: own.area, offset: *offset, kind });
            *offset += 8 * words(kind);
            if *offset > AREA_BYTES_MAX {
                let message = format!("the variables need more than {AREA_BYTES_MAX} bytes per thread");
                let help = "fewer histograms, or elapsed times of fewer functions";
                return Err(Problem::new(Code::TooLarge, own.span, message).help(help));
            }
        }
        Ok((laid_out, thread, process))
    }
}

/// Words that a variable of this kind has.
pub fn words(kind: Kind) -> u32 {
    match kind {
        Kind::Sum | Kind::SumFloat | Kind::Last | Kind::LastFloat => 1,
        Kind::Min | Kind::MinFloat | Kind::Max | Kind::MaxFloat | Kind::Mean => 2,
        Kind::Histogram => HISTOGRAM_WORDS,
        Kind::Stacks => STACKS_WORDS,
        Kind::OpenCalls => 1 + 2 * OPEN_CALLS_MAX,
    }
}

impl Own {
    fn kind(&self) -> Kind {
        let either = |int, float| if self.float { float } else { int };
        match self.role {
            Role::Sum | Role::Gather(Aggregation::Count | Aggregation::Sum) => either(Kind::Sum, Kind::SumFloat),
            Role::Last | Role::Gather(Aggregation::Last) => either(Kind::Last, Kind::LastFloat),
            Role::Gather(Aggregation::Min) => either(Kind::Min, Kind::MinFloat),
            Role::Gather(Aggregation::Max) => either(Kind::Max, Kind::MaxFloat),
            Role::Gather(Aggregation::Mean) => Kind::Mean,
            Role::Gather(Aggregation::Histogram) => Kind::Histogram,
            Role::Gather(Aggregation::Stack) => Kind::Stacks,
            Role::OpenCalls => Kind::OpenCalls,
        }
    }
}

impl Uses {
    fn own(&self, name: &str) -> Own {
        let area = if self.scope == Some(Scope::Process) { Area::Process } else { Area::Thread };
        let role = match (self.gather, self.scope) {
            (Some(aggregation), _) => Role::Gather(aggregation),
            (None, Some(Scope::Sum)) => Role::Sum,
            (None, Some(Scope::Thread)) => Role::Last,
            (None, Some(Scope::Process)) if self.add => Role::Sum,
            (None, None) if self.add && !self.set => Role::Sum,
            (None, _) => Role::Last,
        };
        let float = self.declared_float;
        Own { name: name.to_string(), role, area, float, declared: self.scope.is_some(), span: self.span }
    }

    /// Notes one more use; the word for what it excludes, if it does.
    fn note(&mut self, operator_adds: Option<bool>, gather: Option<Aggregation>) -> Option<&'static str> {
        let gather = match gather {
            Some(Aggregation::Count | Aggregation::Sum) => return self.note(Some(true), None),
            Some(Aggregation::Last) => return self.note(Some(false), None),
            other => other,
        };
        let words = self.set || self.add;
        match (gather, operator_adds) {
            (Some(_), _) if words => return Some("it is a plain variable elsewhere"),
            (Some(wanted), _) if self.gather.is_some_and(|known| known != wanted) => {
                return Some("it gathers its values in another way elsewhere");
            }
            (Some(_), _) if self.scope.is_some_and(|scope| scope != Scope::Thread && scope != Scope::Sum) => {
                return Some("values are gathered per thread: leave out its declaration as `process`");
            }
            (Some(wanted), _) => self.gather = Some(wanted),
            (None, _) if self.gather.is_some() => return Some("it gathers values elsewhere"),
            (None, Some(true)) => self.add = true,
            (None, _) => self.set = true,
        }
        None
    }
}

struct Collector<'a> {
    uses: BTreeMap<String, Uses>,
    order: Vec<String>,
    /// Names that `let` introduced, by block.
    locals: Vec<Vec<String>>,
    problems: &'a mut Vec<Problem>,
}

impl Collector<'_> {
    fn declarations(&mut self, script: &Script) {
        for declaration in &script.declarations {
            for (name, span) in &declaration.names {
                if self.uses.contains_key(name) {
                    let message = format!("`{name}` is declared twice");
                    self.problems.push(Problem::new(Code::ConflictingUse, *span, message));
                }
                self.refuse_reserved(name, *span);
                let uses = self.entry(name, *span);
                uses.scope = Some(declaration.scope);
                uses.declared_float = declaration.float;
            }
        }
    }

    fn entry(&mut self, name: &str, span: Span) -> &mut Uses {
        if !self.uses.contains_key(name) {
            self.order.push(name.to_string());
        }
        self.uses.entry(name.to_string()).or_insert(Uses { span, ..Uses::default() })
    }

    fn refuse_reserved(&mut self, name: &str, span: Span) {
        if RESERVED.contains(&name) {
            let message = format!("`{name}` has a meaning of its own, it cannot be a variable");
            self.problems.push(Problem::new(Code::ConflictingUse, span, message));
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        self.locals.push(Vec::new());
        statements.iter().for_each(|statement| self.statement(statement));
        self.locals.pop();
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Assign { target, operator, value } => {
                self.assignment(target, operator.is_some(), statement, value)
            }
            StmtKind::Let { name, value } => {
                self.refuse_reserved(name, value.span);
                if let Some(block) = self.locals.last_mut() {
                    block.push(name.clone());
                }
            }
            StmtKind::If { then, otherwise, .. } => {
                self.statements(then);
                self.statements(otherwise);
            }
            StmtKind::While { body, .. } | StmtKind::Repeat { body, .. } | StmtKind::Block(body) => {
                self.statements(body)
            }
            StmtKind::For { start, step, body, .. } => {
                self.locals.push(Vec::new());
                start.iter().chain(step).for_each(|part| self.statement(part));
                self.statements(body);
                self.locals.pop();
            }
            StmtKind::Return | StmtKind::Break | StmtKind::Stop => {}
            StmtKind::Send { .. } | StmtKind::Call { .. } => {}
        }
    }

    fn assignment(&mut self, target: &Expr, with_operator: bool, statement: &Stmt, value: &Expr) {
        let ExprKind::Name(Name::Plain(name)) = &target.kind else { return };
        if self.locals.iter().flatten().any(|local| local == name) {
            return;
        }
        self.refuse_reserved(name, target.span);
        let gather = if with_operator { None } else { aggregation(value).map(|(_, aggregation, _)| aggregation) };
        let adds = with_operator && adds(statement);
        let conflict = self.entry(name, target.span).note(Some(adds), gather);
        if let Some(reason) = conflict {
            let message = format!("`{name}` cannot be used so: {reason}");
            let problem = Problem::new(Code::ConflictingUse, target.span, message);
            self.problems.push(problem.help("use two variables"));
        }
    }
}

/// True if the statement adds or subtracts.
fn adds(statement: &Stmt) -> bool {
    use crate::syntax::BinaryOp::{Add, Subtract};
    matches!(&statement.kind, StmtKind::Assign { operator: Some(Add | Subtract), .. })
}

/// The aggregation that a right side is; `min` and `max` of two are not.
pub(super) fn aggregation(value: &Expr) -> Option<(&'static str, Aggregation, usize)> {
    let ExprKind::Function(name, arguments) = &value.kind else { return None };
    let found = AGGREGATIONS.iter().find(|(known, _, _)| known == name)?;
    let of_two = matches!(found.1, Aggregation::Min | Aggregation::Max) && arguments.len() == 2;
    (!of_two).then_some(*found)
}
