//! Tokens to a syntax tree, by recursive descent. Size and depth of the input are bounded, so that neither memory nor
//! the stack can run out; after a problem it goes on at the next statement or probe, to find the others too.
//!
//! Next: `points` for places, `statements` for bodies, `expressions` for values; `crate::resolve` for meaning.

mod expressions;
mod points;
mod statements;

use crate::error::{Code, PROBLEMS_MAX, Problem, Refused, Span};
use crate::syntax::{Condition, Declaration, Probe, Scope, Script};
pub use crate::token::NAME_BYTES_MAX;

use crate::token::{Lexer, TIME_UNITS, Token};

/// Bytes of a script at most.
pub const SCRIPT_BYTES_MAX: usize = 64 * 1024;
/// Levels of brackets and braces at most; keeps the parser's recursion far from the stack's end.
pub const NESTING_MAX: usize = 32;
/// Height of an expression's tree at most, so operators in a row; keeps recursion over trees far from the stack's end.
pub const HEIGHT_MAX: usize = 64;

/// Calls of the parser's functions per level of nesting.
const CALLS_PER_LEVEL: usize = 4;
/// Probes of a script at most.
pub const PROBES_MAX: usize = 256;
/// Longest period and duration: a year.
const TIME_US_MAX: u64 = 365 * 24 * 3600 * 1_000_000;
/// Shortest period of `every`.
const PERIOD_US_MIN: u64 = 100;

const ITEMS: &[&str] = &[
    "`entry`",
    "`exit`",
    "`call`",
    "`loop`",
    "`block`",
    "`at`",
    "`every`",
    "`once`",
    "`sum`",
    "`thread`",
    "`process`",
    "`start`",
    "`stop`",
    "`record`",
    "`for`",
];

/// How many of the items are kinds of points.
const POINT_KINDS: usize = 8;

/// Reads a script.
///
/// # Errors
/// Every problem found, in the order of the text.
pub fn parse(text: &str) -> Result<Script, Refused> {
    if text.len() > SCRIPT_BYTES_MAX {
        let span = Span::new(SCRIPT_BYTES_MAX, SCRIPT_BYTES_MAX);
        let message = format!("the script has {} bytes, at most {SCRIPT_BYTES_MAX} are read", text.len());
        return Err(Refused::new(text, vec![Problem::new(Code::TooLarge, span, message)]));
    }
    let mut parser = Parser::new(text);
    let script = parser.script();
    if parser.problems.is_empty() { Ok(script) } else { Err(Refused::new(text, parser.problems)) }
}

type Parsed<T> = Result<T, Problem>;

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is looked at.
    token: Token,
    /// Its place.
    span: Span,
    /// The end of the token before it.
    previous_end: usize,
    depth: usize,
    problems: Vec<Problem>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut parser = Parser {
            lexer: Lexer::new(text),
            token: Token::End,
            span: Span::default(),
            previous_end: 0,
            depth: 0,
            problems: Vec::new(),
        };
        parser.advance();
        parser
    }

    /// Goes to the next token; malformed ones are noted and skipped.
    fn advance(&mut self) {
        self.previous_end = self.span.end;
        loop {
            match self.lexer.token() {
                Ok((token, span)) => {
                    (self.token, self.span) = (token, span);
                    return;
                }
                Err(problem) => self.note(problem),
            }
        }
    }

    /// The word of a point that starts where the looked-at token starts.
    fn word(&mut self) -> Parsed<(String, Span)> {
        self.lexer.set_position(self.span.start);
        let word = self.lexer.word();
        if let Ok((_, span)) = &word {
            self.span = *span;
        }
        self.advance();
        word
    }

    fn note(&mut self, problem: Problem) {
        if self.problems.len() < 4 * PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Notes a problem unless a malformed token among those noted since then explains it.
    fn note_cause(&mut self, problem: Problem, since: usize) {
        if !self.noted_bad_token(since) {
            self.note(problem);
        }
    }

    fn noted_bad_token(&self, since: usize) -> bool {
        self.problems.iter().skip(since).any(|problem| problem.code == Code::BadToken)
    }

    fn is(&self, mark: &str) -> bool {
        matches!(&self.token, Token::Mark(found) if *found == mark)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(&self.token, Token::Name(found) if found == name)
    }

    fn accept(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.advance();
        }
        found
    }

    fn accept_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected([format!("`{mark}`")])) }
    }

    fn name(&mut self, what: &str) -> Parsed<(String, Span)> {
        match &self.token {
            Token::Name(name) => {
                let found = (name.clone(), self.span);
                self.advance();
                Ok(found)
            }
            _ => Err(self.unexpected([what])),
        }
    }

    fn unexpected<T: Into<String>>(&self, expected: impl IntoIterator<Item = T>) -> Problem {
        let message = format!("{} cannot stand here", self.token.describe());
        let known: Vec<String> = expected.into_iter().map(Into::into).collect();
        let problem = Problem::new(Code::UnexpectedToken, self.span, message);
        let problem = match &self.token {
            Token::Name(name) => {
                let words = known.iter().map(|known| known.trim_matches('`'));
                problem.near(name, words.filter(|word| word.chars().all(crate::token::is_name)))
            }
            _ => problem,
        };
        problem.expected(known)
    }

    /// Runs `parse` one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= CALLS_PER_LEVEL * NESTING_MAX {
            return Err(too_deep(self.span, NESTING_MAX));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn script(&mut self) -> Script {
        let mut script = Script::default();
        while self.token != Token::End {
            if self.accept(";") {
                continue;
            }
            let (start, noted) = (self.span.start, self.problems.len());
            if let Err(problem) = self.item(&mut script) {
                self.note_cause(problem, noted);
                self.skip_item(start);
            }
        }
        if script.probes.is_empty() && self.problems.is_empty() {
            let problem = Problem::new(Code::UnexpectedToken, self.span, "the script has no probe");
            self.note(problem.expected(ITEMS[..POINT_KINDS].iter().copied()).help("for example: entry solve { n++ }"));
        }
        script
    }

    fn item(&mut self, script: &mut Script) -> Parsed<()> {
        let Token::Name(word) = self.token.clone() else { return Err(self.unexpected(ITEMS.iter().copied())) };
        match word.as_str() {
            "sum" | "thread" | "process" => script.declarations.push(self.declaration()?),
            "start" | "stop" | "record" | "for" => script.conditions.push(self.condition(&word)?),
            _ => {
                let probe = self.probe()?;
                if script.probes.len() >= PROBES_MAX {
                    let message = format!("a script has at most {PROBES_MAX} probes");
                    return Err(Problem::new(Code::TooLarge, probe.span, message));
                }
                script.probes.push(probe);
            }
        }
        Ok(())
    }

    /// Skips what is left of an item: through its closing brace or semicolon.
    fn skip_item(&mut self, start: usize) {
        if self.span.start == start {
            self.advance();
        }
        let mut open = 0_usize;
        loop {
            match &self.token {
                Token::End => return,
                Token::Mark("{") => open += 1,
                Token::Mark("}") if open <= 1 => break,
                Token::Mark("}") => open -= 1,
                Token::Mark(";") if open == 0 => break,
                _ => {}
            }
            self.advance();
        }
        self.advance();
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        let (word, _) = self.name("a scope")?;
        let scope = match word.as_str() {
            "sum" => Scope::Sum,
            "thread" => Scope::Thread,
            _ => Scope::Process,
        };
        let float = self.accept_name("double");
        if !float && !self.accept_name("int") {
            let expected = self.unexpected(["`int`", "`double`"]);
            return Err(expected.help("variables of a script have 64 bits: `int` or `double`"));
        }
        let mut names = vec![self.name("a name")?];
        while self.accept(",") {
            names.push(self.name("a name")?);
        }
        self.expect(";")?;
        Ok(Declaration { scope, float, names })
    }

    fn condition(&mut self, word: &str) -> Parsed<Condition> {
        let start = self.span;
        self.advance();
        let condition = match word {
            "record" if self.accept_name("while") => Condition::While(self.in_parentheses()?),
            "record" => return Err(self.unexpected(["`while`"])),
            "for" => Condition::For { duration_us: self.duration()? },
            _ if self.accept_name("when") => {
                Condition::When { start: word == "start", condition: self.in_parentheses()? }
            }
            _ if self.accept_name("after") => {
                let hits = self.whole_number("a number of hits")?;
                if !self.accept_name("hits") && !self.accept_name("hit") {
                    return Err(self.unexpected(["`hits`"]));
                }
                if !self.accept_name("of") {
                    return Err(self.unexpected(["`of`"]));
                }
                let points = self.points(true)?;
                let span = start.to(Span::new(0, self.previous_end));
                Condition::After { start: word == "start", hits, points, span }
            }
            _ => return Err(self.unexpected(["`when`", "`after`"])),
        };
        self.expect(";")?;
        Ok(condition)
    }

    fn in_parentheses(&mut self) -> Parsed<crate::syntax::Expr> {
        self.expect("(")?;
        let expression = self.expression()?;
        self.expect(")")?;
        Ok(expression)
    }

    fn whole_number(&mut self, what: &str) -> Parsed<u64> {
        match self.token {
            Token::Int(value, _) => {
                self.advance();
                Ok(value as u64)
            }
            _ => Err(self.unexpected([what])),
        }
    }

    /// `100ms`, `2 s`, `0.5 s`, in microseconds.
    fn duration(&mut self) -> Parsed<u64> {
        let span = self.span;
        let number = match self.token {
            Token::Int(value, _) => value as u64 as f64,
            Token::Float(value) => value,
            _ => return Err(self.unexpected(["a time such as `100ms`"])),
        };
        self.advance();
        let unit = TIME_UNITS.iter().find(|(unit, _)| self.is_name(unit));
        let Some((_, unit_us)) = unit else {
            return Err(self.unexpected(TIME_UNITS.iter().map(|(unit, _)| format!("`{unit}`"))));
        };
        let span = span.to(self.span);
        self.advance();
        let duration_us = number * *unit_us as f64;
        if !(1.0..=TIME_US_MAX as f64).contains(&duration_us) {
            let message = "the time must be from one microsecond to one year";
            return Err(Problem::new(Code::Unsupported, span, message));
        }
        Ok(duration_us as u64)
    }

    fn probe(&mut self) -> Parsed<Probe> {
        let start = self.span;
        let points = self.points(false)?;
        let when = if self.accept_name("when") { Some(self.in_parentheses()?) } else { None };
        if !self.is("{") {
            return Err(self.unexpected(["`,`", "`when`", "`{`"]));
        }
        let body = self.block()?;
        Ok(Probe { points, when, body, span: start.to(Span::new(0, self.previous_end)) })
    }
}

fn too_deep(span: Span, levels: usize) -> Problem {
    let message = format!("this is nested more than {levels} levels deep");
    Problem::new(Code::TooLarge, span, message).help("give parts of it names with `let`")
}
