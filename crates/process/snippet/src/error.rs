//! The problems of a script: facts for programs, and the same as text for people, with the line and a caret.
//!
//! Every problem names its place, what was expected there and which known names are near, because a probe is typed by
//! hand while a job runs. All problems that can be found in one go are reported together.
//!
//! Next: `parse` and `resolve`, which find them.

use serde::Serialize;
use std::fmt::Write;

/// Problems reported for one script at most; the first ones are the causes, later ones mostly follow from them.
pub const PROBLEMS_MAX: usize = 20;
/// Names suggested for a mistyped one at most.
const NEAR_MAX: usize = 3;
/// Longer names are not compared with others.
const NAME_LENGTH_MAX: usize = 128;
/// Characters of a message at most; it may quote a name of any length.
const MESSAGE_LENGTH_MAX: usize = 240;
/// Characters of a source line that are shown at most.
const SHOWN_MAX: usize = 110;

/// A stretch of the script, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Byte behind the last.
    pub end: usize,
}

/// The kind of a problem; stable names for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A character or literal that no token starts with or that is malformed.
    BadToken,
    /// A token that cannot stand here.
    UnexpectedToken,
    /// Text, depth, number of probes, variables or bytes beyond the limit.
    TooLarge,
    /// A point that matches nothing in the program.
    NoSuchPoint,
    /// A name that is not known here.
    UnknownName,
    /// A name that means several things.
    AmbiguousName,
    /// A type that is not known.
    UnknownType,
    /// A value that is not available at this point.
    NotHere,
    /// Operands that do not fit the operator.
    TypeMismatch,
    /// One variable used in ways that exclude each other.
    ConflictingUse,
    /// A wrong number of arguments.
    WrongArguments,
    /// A loop without a bound, or a body that costs too much.
    Unbounded,
    /// Something that must be allowed first: `--allow-write`, `--allow-call`.
    NotPermitted,
    /// Something that cannot be done.
    Unsupported,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its kind.
    pub code: Code,
    /// Its place.
    pub span: Span,
    /// Line of the first byte, from 1; 0 until [`Refused::new`] has seen the text.
    pub line: u32,
    /// Column of the first byte in characters, from 1; 0 until [`Refused::new`] has seen the text.
    pub column: u32,
    /// The problem, in one sentence.
    pub message: String,
    /// The words that could stand there.
    pub expected: Vec<String>,
    /// Known names that are spelt nearly so.
    pub near: Vec<String>,
    /// The next step.
    pub help: Option<Box<str>>,
}

/// Why a script is refused: its problems in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", summary(problems))]
pub struct Refused {
    /// At least one, at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
}

impl Span {
    /// From `start` to before `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }

    /// From the start of this one to the end of `last`.
    pub fn to(self, last: Span) -> Self {
        Span { start: self.start, end: last.end.max(self.start) }
    }
}

impl Problem {
    /// A problem with nothing expected, near or advised yet.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_LENGTH_MAX) {
            message.replace_range(end.., "...");
        }
        Problem { code, span, line: 0, column: 0, message, expected: Vec::new(), near: Vec::new(), help: None }
    }

    /// Says what could stand there.
    #[must_use]
    pub fn expected<T: Into<String>>(mut self, expected: impl IntoIterator<Item = T>) -> Self {
        self.expected = expected.into_iter().map(Into::into).collect();
        self
    }

    /// Says which of `known` are spelt nearly as `name`.
    #[must_use]
    pub fn near<T: AsRef<str>>(mut self, name: &str, known: impl IntoIterator<Item = T>) -> Self {
        self.near = near(name, known);
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<Box<str>>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Refused {
    /// The problems in the order of the text, the first one at each place, with lines and columns.
    pub fn new(source: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.span.start);
        let mut kept: Vec<Problem> = Vec::new();
        for mut problem in problems {
            let known = kept.iter().any(|other| other.span == problem.span);
            if !known && kept.len() < PROBLEMS_MAX {
                (problem.line, problem.column) = place(source, problem.span.start);
                kept.push(problem);
            }
        }
        Refused { problems: kept }
    }

    /// All problems for people: message, source line, caret, what was expected, what is near, what to do.
    pub fn render(&self, source: &str) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            if !text.is_empty() {
                text.push('\n');
            }
            render_one(&mut text, problem, source).expect("a string takes everything");
        }
        text
    }
}

/// The names of `known` that are spelt most like `name`, nearest first; what stands before `::` does not count.
pub fn near<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> Vec<String> {
    let length = name.chars().count();
    let distance_max = (length.div_ceil(3)).clamp(1, 4).min(length.saturating_sub(1));
    let wanted = name.to_lowercase();
    let mut found: Vec<(usize, String)> = Vec::new();
    for candidate in known {
        let candidate = candidate.as_ref();
        let last_part = candidate.rsplit("::").next().unwrap_or(candidate);
        let differs = last_part.chars().count().abs_diff(length);
        if differs <= distance_max && length <= NAME_LENGTH_MAX {
            // Fortran's compilers add an underscore and write all in small letters.
            let is_fortran = last_part.strip_suffix('_') == Some(wanted.as_str());
            let distance = if is_fortran { 0 } else { strsim::osa_distance(&wanted, &last_part.to_lowercase()) };
            if distance <= distance_max && candidate != name {
                found.push((distance, candidate.to_string()));
            }
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
}

/// Line and column of a byte, both from 1, the column in characters.
fn place(source: &str, byte: usize) -> (u32, u32) {
    let before = before(source, byte);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
    (count(before.matches('\n').count()), count(before[line_start..].chars().count()))
}

fn before(source: &str, byte: usize) -> &str {
    let mut end = byte.min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    &source[..end]
}

fn summary(problems: &[Problem]) -> String {
    let Some(first) = problems.first() else { return "the script is refused".to_string() };
    let more = match problems.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!("{}:{}: {}{more}", first.line, first.column, first.message)
}

fn render_one(text: &mut String, problem: &Problem, source: &str) -> std::fmt::Result {
    let code = serde_name(problem.code);
    let margin = " ".repeat(problem.line.to_string().len());
    writeln!(text, "error[{code}]: {}", problem.message)?;
    writeln!(text, "{margin}--> {}:{}", problem.line, problem.column)?;
    let line = source.split('\n').nth(problem.line.saturating_sub(1) as usize).unwrap_or_default();
    let first = problem.column.saturating_sub(1) as usize;
    let spanned = source.get(problem.span.start..problem.span.end).unwrap_or_default();
    let width = spanned.split('\n').next().unwrap_or_default().chars().count().max(1);
    let skipped = first.saturating_sub(SHOWN_MAX / 2);
    let shown: String = line.chars().skip(skipped).take(SHOWN_MAX).map(plain).collect();
    let dots = if skipped > 0 { "..." } else { "" };
    let carets = "^".repeat(width.min(SHOWN_MAX - (first - skipped).min(SHOWN_MAX - 1)));
    writeln!(text, "{margin} |")?;
    writeln!(text, "{} | {dots}{}", problem.line, shown.trim_end())?;
    writeln!(text, "{margin} | {}{carets}", " ".repeat(dots.len() + first - skipped))?;
    if !problem.expected.is_empty() {
        writeln!(text, "{margin} = expected: {}", problem.expected.join(", "))?;
    }
    if !problem.near.is_empty() {
        writeln!(text, "{margin} = near: {}", problem.near.join(", "))?;
    }
    if let Some(help) = &problem.help {
        writeln!(text, "{margin} = help: {help}")?;
    }
    Ok(())
}

/// Control characters take one column like everything else.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// The name of a code as programs see it.
fn serde_name(code: Code) -> String {
    let mut name = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}
