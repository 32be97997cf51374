//! Points: which places of the program a probe goes to.
//!
//! Next: `statements`, which follow them in braces.

use super::{ITEMS, PERIOD_US_MIN, Parsed, Parser};
use crate::error::{Code, Problem, Span};
use crate::syntax::{CallPoint, FunctionPattern, LoopEdge, LoopPoint, Point, PointKind};
use crate::token::Token;

/// Loops inside loops at most.
const LOOP_DEPTH_MAX: usize = 16;
const KINDS: &[&str] = &["entry", "exit", "call", "loop", "block", "at", "every", "once"];

impl Parser<'_> {
    /// Points with commas between; a kind holds for all that follow until the next one. With `entry_by_default` a bare
    /// name is a function's entry.
    pub(super) fn points(&mut self, entry_by_default: bool) -> Parsed<Vec<Point>> {
        let mut kind = entry_by_default.then(|| "entry".to_string());
        let mut points = Vec::new();
        loop {
            let start = self.span;
            if let Some(word) = self.kind_word() {
                self.advance();
                kind = Some(word);
            }
            let Some(kind) = &kind else { return Err(self.unexpected(ITEMS.iter().copied())) };
            let kind = self.point(kind)?;
            points.push(Point { kind, span: start.to(Span::new(0, self.previous_end)) });
            if !self.accept(",") {
                return Ok(points);
            }
        }
    }

    /// The kind of point at hand, unless what follows shows that it is a name.
    fn kind_word(&self) -> Option<String> {
        match &self.token {
            Token::Name(word) if KINDS.contains(&word.as_str()) => Some(word.clone()),
            _ => None,
        }
    }

    fn point(&mut self, kind: &str) -> Parsed<PointKind> {
        match kind {
            "entry" => Ok(PointKind::Entry(self.function("a function")?)),
            "exit" => Ok(PointKind::Exit(self.function("a function")?)),
            "call" => self.call_point(),
            "loop" => self.loop_point(),
            "block" => self.block_point(),
            "at" => self.at_point(),
            "once" => Ok(PointKind::Once),
            _ => {
                let span = self.span;
                let period_us = self.duration()?;
                if period_us < PERIOD_US_MIN {
                    let message = format!("the shortest period is {PERIOD_US_MIN}us");
                    return Err(Problem::new(Code::Unsupported, span, message));
                }
                Ok(PointKind::Every { period_us })
            }
        }
    }

    /// A word that is not empty.
    fn some_word(&mut self, expected: &str) -> Parsed<(String, Span)> {
        let before = (self.token.clone(), self.span);
        let (word, span) = self.word()?;
        if word.is_empty() {
            (self.token, self.span) = before;
            let problem = self.unexpected([expected]);
            self.advance();
            return Err(problem);
        }
        if self.is("(") {
            let help = format!("write names with brackets or blanks in quotes: \"{word}(...)\"");
            return Err(self.unexpected(["`,`", "`when`", "`{`"]).help(help));
        }
        Ok((word, span))
    }

    fn function(&mut self, expected: &str) -> Parsed<FunctionPattern> {
        let (word, _) = self.some_word(expected)?;
        Ok(FunctionPattern::of(&word))
    }

    fn call_point(&mut self) -> Parsed<PointKind> {
        let after = match &self.token {
            Token::Name(word) if word == "after" || word == "before" => {
                let after = word == "after";
                self.advance();
                after
            }
            _ => false,
        };
        let (word, span) = self.some_word("CALLER:CALLEE")?;
        let Some((caller, callee)) = split_single_colon(&word) else {
            let problem = Problem::new(Code::UnexpectedToken, span, format!("`{word}` names no call"));
            return Err(problem
                .expected(["CALLER:CALLEE", "CALLER:CALLEE#NUMBER"])
                .help("`*` stands for any function"));
        };
        let (callee, number) = match callee.rsplit_once('#') {
            Some((callee, number)) => (callee, Some(self.number(number, span)?)),
            None => (callee, None),
        };
        Ok(PointKind::Call(CallPoint {
            after,
            caller: FunctionPattern::of(caller),
            callee: callee.to_string(),
            number,
        }))
    }

    fn loop_point(&mut self) -> Parsed<PointKind> {
        let edges = [("pass", LoopEdge::Pass), ("entry", LoopEdge::Entry), ("exit", LoopEdge::Exit)];
        let edge = edges.iter().find(|(word, _)| self.is_name(word) && !self.colon_follows());
        let edge = edge.map_or(LoopEdge::Pass, |(_, edge)| {
            self.advance();
            *edge
        });
        let (word, span) = self.some_word("FUNCTION:NUMBER")?;
        let Some((function, numbers)) = split_single_colon(&word) else {
            let problem = Problem::new(Code::UnexpectedToken, span, format!("`{word}` names no loop"));
            return Err(problem.expected(["FUNCTION:NUMBER", "FUNCTION:NUMBER.NUMBER"]));
        };
        let mut path = Vec::new();
        for number in numbers.split('.') {
            path.push(self.number(number, span)?);
        }
        if path.len() > LOOP_DEPTH_MAX {
            let message = format!("loops are followed {LOOP_DEPTH_MAX} levels deep");
            return Err(Problem::new(Code::TooLarge, span, message));
        }
        Ok(PointKind::Loop(LoopPoint { edge, function: FunctionPattern::of(function), path }))
    }

    /// True if a colon follows the looked-at token at once: then it is a function's name.
    fn colon_follows(&self) -> bool {
        let mut lexer = self.lexer.clone();
        lexer.set_position(self.span.end);
        lexer.word().is_ok_and(|(word, span)| span.start == self.span.end && word.starts_with(':'))
    }

    fn block_point(&mut self) -> Parsed<PointKind> {
        let (word, span) = self.some_word("FUNCTION:NUMBER")?;
        let Some((function, number)) = split_single_colon(&word) else {
            let problem = Problem::new(Code::UnexpectedToken, span, format!("`{word}` names no basic block"));
            return Err(problem.expected(["FUNCTION:NUMBER", "FUNCTION:*"]));
        };
        let number = if number == "*" { None } else { Some(self.number(number, span)?) };
        Ok(PointKind::Block { function: FunctionPattern::of(function), number })
    }

    fn at_point(&mut self) -> Parsed<PointKind> {
        let (word, span) = self.some_word("FILE:LINE, ADDRESS, LIBRARY:ADDRESS or FUNCTION+OFFSET")?;
        if let Some(address) = hexadecimal(&word) {
            return Ok(PointKind::Address { library: None, address });
        }
        if let Some((function, offset)) = word.rsplit_once('+')
            && let Some(offset) = hexadecimal(offset).or_else(|| offset.parse().ok())
        {
            return Ok(PointKind::Offset { function: FunctionPattern::of(function), offset });
        }
        if let Some((file, place)) = word.rsplit_once(':').filter(|(file, _)| !file.is_empty()) {
            if let Some(address) = hexadecimal(place) {
                return Ok(PointKind::Address { library: Some(file.to_string()), address });
            }
            if place.starts_with(|c: char| c.is_ascii_digit()) {
                let (line, library) = match place.split_once('@') {
                    Some((line, library)) if !library.is_empty() => (line, Some(library.to_string())),
                    _ => (place, None),
                };
                return Ok(PointKind::Line { file: file.to_string(), line: self.number(line, span)?, library });
            }
        }
        let problem = Problem::new(Code::UnexpectedToken, span, format!("`{word}` names no place"));
        Err(problem.expected(["FILE:LINE", "0xADDRESS", "LIBRARY:0xADDRESS", "FUNCTION+OFFSET"]))
    }

    /// A number from 1 in a word.
    fn number(&self, word: &str, span: Span) -> Parsed<u32> {
        word.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            let message = format!("`{word}` is not a number from 1");
            Problem::new(Code::UnexpectedToken, span, message).expected(["a number from 1"])
        })
    }
}

fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, 16).ok() }
}

/// Splits at the last colon that is not one of C++'s pairs.
fn split_single_colon(word: &str) -> Option<(&str, &str)> {
    let bytes = word.as_bytes();
    let colon = |index: usize| bytes.get(index) == Some(&b':');
    let place = (0..bytes.len()).rev().find(|&i| colon(i) && !colon(i + 1) && !(i > 0 && colon(i - 1)))?;
    let (left, right) = (&word[..place], &word[place + 1..]);
    (!left.is_empty() && !right.is_empty()).then_some((left, right))
}
