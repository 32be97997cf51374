//! Statements.
//!
//! Next: `expressions`.

use super::{Parsed, Parser};
use crate::error::{Code, Problem, Span};
use crate::syntax::{BinaryOp, Expr, ExprKind, Stmt, StmtKind};
use crate::token::Token;

const ASSIGNMENTS: &[(&str, Option<BinaryOp>)] = &[
    ("=", None),
    ("+=", Some(BinaryOp::Add)),
    ("-=", Some(BinaryOp::Subtract)),
    ("*=", Some(BinaryOp::Multiply)),
    ("/=", Some(BinaryOp::Divide)),
    ("%=", Some(BinaryOp::Remainder)),
    ("&=", Some(BinaryOp::BitAnd)),
    ("|=", Some(BinaryOp::BitOr)),
    ("^=", Some(BinaryOp::BitXor)),
    ("<<=", Some(BinaryOp::ShiftLeft)),
    (">>=", Some(BinaryOp::ShiftRight)),
];
const INCREMENTS: &[(&str, BinaryOp)] = &[("++", BinaryOp::Add), ("--", BinaryOp::Subtract)];

impl Parser<'_> {
    /// `{ statements }`; goes on after a statement that is wrong.
    pub(super) fn block(&mut self) -> Parsed<Vec<Stmt>> {
        let (open, noted_before) = (self.span, self.problems.len());
        self.expect("{")?;
        let mut statements = Vec::new();
        while !self.is("}") {
            if self.token == Token::End && self.noted_bad_token(noted_before) {
                return Ok(statements);
            }
            if self.token == Token::End {
                let message = "this brace is never closed";
                return Err(Problem::new(Code::UnexpectedToken, open, message).expected(["`}`"]));
            }
            if self.accept(";") {
                continue;
            }
            let noted = self.problems.len();
            match self.terminated_statement() {
                Ok(statement) => statements.push(statement),
                Err(problem) if problem.code == Code::TooLarge => return Err(problem),
                Err(_) if self.token == Token::End => {}
                Err(problem) => {
                    self.note_cause(problem, noted);
                    self.skip_statement();
                }
            }
        }
        self.advance();
        Ok(statements)
    }

    /// Skips to the semicolon or brace that ends the statement at hand.
    fn skip_statement(&mut self) {
        let mut open = 0_usize;
        loop {
            match &self.token {
                Token::End => return,
                Token::Mark("{") => open += 1,
                Token::Mark("}") if open == 0 => return,
                Token::Mark("}") => open -= 1,
                Token::Mark(";") if open == 0 => return,
                _ => {}
            }
            self.advance();
        }
    }

    /// A statement and the semicolon that must follow it, unless a brace does or it ends in one.
    fn terminated_statement(&mut self) -> Parsed<Stmt> {
        let statement = self.statement()?;
        let braces = match &statement.kind {
            StmtKind::If { .. } | StmtKind::While { .. } | StmtKind::For { .. } | StmtKind::Repeat { .. } => true,
            kind => matches!(kind, StmtKind::Block(_)),
        };
        if !braces && !self.is("}") && !self.accept(";") {
            return Err(self.unexpected(["`;`", "`}`", "an operator"]));
        }
        Ok(statement)
    }

    fn statement(&mut self) -> Parsed<Stmt> {
        self.deeper(|parser| {
            let start = parser.span;
            let kind = parser.statement_kind()?;
            Ok(Stmt { kind, span: start.to(Span::new(0, parser.previous_end)) })
        })
    }

    fn statement_kind(&mut self) -> Parsed<StmtKind> {
        if self.is("{") {
            return Ok(StmtKind::Block(self.block()?));
        }
        let Token::Name(word) = self.token.clone() else { return self.simple() };
        match word.as_str() {
            "if" => self.if_statement(),
            "while" => self.while_statement(),
            "for" => self.for_statement(),
            "repeat" => self.repeat_statement(),
            _ => self.simple(),
        }
    }

    /// A statement without a body.
    fn simple(&mut self) -> Parsed<StmtKind> {
        if let Token::Name(word) = &self.token {
            match word.as_str() {
                "let" => return self.let_statement(),
                "call" => return self.call_statement(),
                "send" => return self.send_statement(),
                "return" => return self.word_alone(StmtKind::Return),
                "break" => return self.word_alone(StmtKind::Break),
                "stop" => {
                    self.advance();
                    self.expect("(")?;
                    self.expect(")")?;
                    return Ok(StmtKind::Stop);
                }
                _ => {}
            }
        }
        self.assignment()
    }

    fn word_alone(&mut self, kind: StmtKind) -> Parsed<StmtKind> {
        self.advance();
        Ok(kind)
    }

    fn assignment(&mut self) -> Parsed<StmtKind> {
        for (mark, operator) in INCREMENTS {
            if self.accept(mark) {
                let target = self.operand()?;
                return Ok(step(target, *operator));
            }
        }
        let target = self.expression()?;
        for (mark, operator) in INCREMENTS {
            if self.accept(mark) {
                return Ok(step(target, *operator));
            }
        }
        for (mark, operator) in ASSIGNMENTS {
            if self.accept(mark) {
                let value = self.expression()?;
                return Ok(StmtKind::Assign { target, operator: *operator, value });
            }
        }
        let problem = match &target.kind {
            ExprKind::Function(name, _) => {
                let message = format!("the value of `{name}(...)` is not used");
                Problem::new(Code::UnexpectedToken, target.span, message).help(format!(
                    "write `x = {name}(...)` to keep it, or `call {name}(...)` for a function of the program"
                ))
            }
            _ => self.unexpected(["`=`", "`+=`", "`++`", "another assignment"]),
        };
        Err(problem)
    }

    fn let_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        let (name, _) = self.name("a name")?;
        self.expect("=")?;
        Ok(StmtKind::Let { name, value: self.expression()? })
    }

    fn call_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        let function = match self.token.clone() {
            Token::Text(name) => {
                self.advance();
                name
            }
            _ => self.name("a function")?.0,
        };
        self.expect("(")?;
        Ok(StmtKind::Call { function, arguments: self.list()? })
    }

    fn send_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        self.expect("(")?;
        let Token::Text(tag) = self.token.clone() else {
            return Err(self
                .unexpected(["a text"])
                .help("the first argument is the message's tag, as in send(\"progress\", n)"));
        };
        self.advance();
        let values = if self.accept(")") {
            Vec::new()
        } else {
            self.expect(",")?;
            self.list()?
        };
        Ok(StmtKind::Send { tag, values })
    }

    /// One statement as the body of an `if` or a loop, always as a list.
    fn body(&mut self) -> Parsed<Vec<Stmt>> {
        if self.is("{") { self.deeper(Self::block) } else { Ok(vec![self.terminated_statement()?]) }
    }

    fn if_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        let condition = self.in_parentheses()?;
        let then = self.body()?;
        let otherwise = if self.accept_name("else") { self.body()? } else { Vec::new() };
        Ok(StmtKind::If { condition, then, otherwise })
    }

    fn limit(&mut self) -> Parsed<Option<Expr>> {
        if self.accept_name("limit") { Ok(Some(self.expression()?)) } else { Ok(None) }
    }

    fn while_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        let condition = self.in_parentheses()?;
        let limit = self.limit()?;
        Ok(StmtKind::While { condition, limit, body: self.body()? })
    }

    fn for_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        self.expect("(")?;
        let start = if self.is(";") { None } else { Some(Box::new(self.part()?)) };
        self.expect(";")?;
        let condition = self.expression()?;
        self.expect(";")?;
        let step = if self.is(")") { None } else { Some(Box::new(self.part()?)) };
        self.expect(")")?;
        let limit = self.limit()?;
        Ok(StmtKind::For { start, condition, step, limit, body: self.body()? })
    }

    /// The first or last part in a `for`'s parentheses.
    fn part(&mut self) -> Parsed<Stmt> {
        let start = self.span;
        let kind = if self.is_name("let") { self.let_statement()? } else { self.assignment()? };
        Ok(Stmt { kind, span: start.to(Span::new(0, self.previous_end)) })
    }

    fn repeat_statement(&mut self) -> Parsed<StmtKind> {
        self.advance();
        let count = self.expression()?;
        Ok(StmtKind::Repeat { count, body: self.body()? })
    }
}

fn step(target: Expr, operator: BinaryOp) -> StmtKind {
    let value = Expr { kind: ExprKind::Int(1, false), span: target.span, height: 1 };
    StmtKind::Assign { target, operator: Some(operator), value }
}
