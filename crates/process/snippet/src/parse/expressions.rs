//! Expressions, by precedence climbing. A tree's height is bounded, also where the text does not nest (`1+1+1+...`).
//!
//! Next: `crate::resolve::expressions`, which types them.

use super::{HEIGHT_MAX, NAME_BYTES_MAX, Parsed, Parser, too_deep};
use crate::error::{Code, Problem, Span};
use crate::syntax::{BINARY_OPERATORS, BinaryOp, Expr, ExprKind, Name, TypeName, UNARY_OPERATORS};
use crate::token::Token;

/// Words that C's own types are made of.
pub const TYPE_WORDS: &[&str] = &[
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool", "const",
    "struct", "union", "enum",
];
/// Stars of a type at most.
const POINTERS_MAX: usize = 8;

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            let condition = parser.binary(1)?;
            if !parser.accept("?") {
                return Ok(condition);
            }
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let span = condition.span.to(otherwise.span);
            let parts = (Box::new(condition), Box::new(then), Box::new(otherwise));
            parser.node(ExprKind::Conditional(parts.0, parts.1, parts.2), span)
        })
    }

    fn binary(&mut self, strength_min: u8) -> Parsed<Expr> {
        let mut left = self.operand()?;
        while let Some((operator, strength)) = self.binary_operator().filter(|(_, strength)| *strength >= strength_min)
        {
            self.advance();
            let right = self.deeper(|parser| parser.binary(strength + 1))?;
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(operator, Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    fn binary_operator(&self) -> Option<(BinaryOp, u8)> {
        let Token::Mark(mark) = self.token else { return None };
        let found = BINARY_OPERATORS.iter().find(|(known, _, _)| *known == mark);
        found.map(|(_, operator, strength)| (*operator, *strength))
    }

    /// An operand with the operators before and behind it.
    pub(super) fn operand(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            let start = parser.span;
            for (mark, operator) in UNARY_OPERATORS {
                if parser.accept(mark) {
                    let operand = parser.operand()?;
                    let span = start.to(operand.span);
                    return parser.node(ExprKind::Unary(*operator, Box::new(operand)), span);
                }
            }
            if let Some(cast_to) = parser.cast()? {
                let operand = parser.operand()?;
                let span = start.to(operand.span);
                return parser.node(ExprKind::Cast(cast_to, Box::new(operand)), span);
            }
            parser.postfix()
        })
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut value = self.primary()?;
        loop {
            let start = value.span;
            let kind = if self.accept("[") {
                let index = self.expression()?;
                self.expect("]")?;
                ExprKind::Index(Box::new(value), Box::new(index))
            } else if self.is(".") || self.is("->") {
                let arrow = self.is("->");
                self.advance();
                let (member, _) = self.name("a member's name")?;
                ExprKind::Member { value: Box::new(value), member, arrow }
            } else if self.is("::") {
                self.qualified(value)?
            } else {
                return Ok(value);
            };
            value = self.node(kind, start.to(Span::new(0, self.previous_end)))?;
        }
    }

    /// A file (`file.c`, `"dir/file.c"`) or a name space stands before `::`.
    fn qualified(&mut self, value: Expr) -> Parsed<ExprKind> {
        let problem = self.unexpected(["an operator"]).help("before `::` stands a file, as in solver.c::residual");
        self.advance();
        let (name, name_span) = self.name("a variable's name")?;
        if name_span.end - value.span.start > NAME_BYTES_MAX {
            let message = format!("a name has at most {NAME_BYTES_MAX} bytes");
            return Err(Problem::new(Code::TooLarge, value.span, message));
        }
        match &value.kind {
            ExprKind::Text(file) => Ok(ExprKind::Name(Name::Static { file: file.clone(), name })),
            ExprKind::Name(Name::Plain(space)) => Ok(ExprKind::Name(Name::Global(format!("{space}::{name}")))),
            ExprKind::Name(Name::Global(space)) => Ok(ExprKind::Name(Name::Global(format!("{space}::{name}")))),
            ExprKind::Member { .. } => match dotted(&value) {
                Some(file) => Ok(ExprKind::Name(Name::Static { file, name })),
                None => Err(problem),
            },
            _ => Err(problem),
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span;
        let kind = match self.token.clone() {
            Token::Int(value, unsigned) => ExprKind::Int(value, unsigned),
            Token::Float(value) => ExprKind::Float(value),
            Token::Text(text) => ExprKind::Text(text),
            Token::Dollar(name) => ExprKind::Dollar(name),
            Token::Mark("(") => {
                self.advance();
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Mark("::") => {
                self.advance();
                let (name, span) = self.name("a variable's name")?;
                return self.node(ExprKind::Name(Name::Global(name)), start.to(span));
            }
            Token::Name(name) => return self.named(name),
            _ => return Err(self.unexpected(["a value"])),
        };
        self.advance();
        self.node(kind, start)
    }

    fn named(&mut self, name: String) -> Parsed<Expr> {
        let start = self.span;
        self.advance();
        let kind = match name.as_str() {
            "sizeof" => self.size()?,
            _ if self.accept("(") => ExprKind::Function(name, self.list()?),
            word if TYPE_WORDS.contains(&word) => {
                let problem = Problem::new(Code::UnexpectedToken, start, format!("`{word}` is a type"));
                return Err(problem
                    .expected(["a value"])
                    .help("a cast is written `(int)x`, a new variable `let x = 0`"));
            }
            _ => ExprKind::Name(Name::Plain(name)),
        };
        self.node(kind, start.to(Span::new(0, self.previous_end)))
    }

    fn size(&mut self) -> Parsed<ExprKind> {
        self.expect("(")?;
        let kind = match self.type_name()? {
            Some(name) => ExprKind::SizeofType(name),
            None => ExprKind::SizeofValue(Box::new(self.expression()?)),
        };
        self.expect(")")?;
        Ok(kind)
    }

    /// The expressions up to the closing parenthesis.
    pub(super) fn list(&mut self) -> Parsed<Vec<Expr>> {
        let mut values = Vec::new();
        if self.accept(")") {
            return Ok(values);
        }
        loop {
            values.push(self.expression()?);
            if self.accept(")") {
                return Ok(values);
            }
            if !self.accept(",") {
                return Err(self.unexpected(["`,`", "`)`"]));
            }
        }
    }

    /// `(type)` in front of an operand. A name alone in parentheses is a type if a value follows that could not
    /// stand there otherwise.
    fn cast(&mut self) -> Parsed<Option<TypeName>> {
        if !self.is("(") {
            return Ok(None);
        }
        let before = (self.lexer.clone(), self.token.clone(), self.span, self.previous_end);
        self.advance();
        let plain = matches!(&self.token, Token::Name(word) if !TYPE_WORDS.contains(&word.as_str()));
        if let Some(name) = self.type_name()?
            && self.accept(")")
        {
            let value = match &self.token {
                Token::Name(word) => word != "limit",
                Token::Dollar(_) | Token::Int(..) | Token::Float(_) | Token::Text(_) => true,
                Token::Mark(mark) => *mark == "(",
                Token::End => false,
            };
            if !plain || name.pointers > 0 || value {
                return Ok(Some(name));
            }
        }
        (self.lexer, self.token, self.span, self.previous_end) = before;
        Ok(None)
    }

    /// A type: C's own, or a name with stars, or a name before a parenthesis closes; nothing is read otherwise.
    fn type_name(&mut self) -> Parsed<Option<TypeName>> {
        let Token::Name(first) = &self.token else { return Ok(None) };
        let before = (self.lexer.clone(), self.token.clone(), self.span, self.previous_end);
        let known = TYPE_WORDS.contains(&first.as_str());
        let mut words = Vec::new();
        while let Token::Name(word) = self.token.clone() {
            let tag = matches!(words.last().map(String::as_str), Some("struct" | "union" | "enum"));
            if !words.is_empty() && !tag && !TYPE_WORDS.contains(&word.as_str()) {
                break;
            }
            if word != "const" {
                words.push(word);
            }
            self.advance();
        }
        let mut pointers = 0;
        while self.accept("*") {
            pointers += 1;
        }
        if pointers > POINTERS_MAX {
            let message = format!("a type has at most {POINTERS_MAX} stars");
            return Err(Problem::new(Code::TooLarge, before.2, message));
        }
        if !known && !self.is(")") {
            (self.lexer, self.token, self.span, self.previous_end) = before;
            return Ok(None);
        }
        Ok(Some(TypeName { name: words.join(" "), pointers }))
    }

    fn node(&self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        let height = 1 + height_below(&kind);
        if height > HEIGHT_MAX { Err(too_deep(span, HEIGHT_MAX)) } else { Ok(Expr { kind, span, height }) }
    }
}

fn height_below(kind: &ExprKind) -> usize {
    match kind {
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::SizeofValue(a) => a.height,
        ExprKind::Member { value, .. } => value.height,
        ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => a.height.max(b.height),
        ExprKind::Conditional(a, b, c) => a.height.max(b.height).max(c.height),
        ExprKind::Function(_, arguments) => arguments.iter().map(|argument| argument.height).max().unwrap_or(0),
        ExprKind::Int(..) | ExprKind::Float(_) | ExprKind::Text(_) | ExprKind::Name(_) => 0,
        ExprKind::Dollar(_) | ExprKind::SizeofType(_) => 0,
    }
}

/// `a.b.c` as a file's name.
fn dotted(value: &Expr) -> Option<String> {
    match &value.kind {
        ExprKind::Name(Name::Plain(name)) => Some(name.clone()),
        ExprKind::Member { value, member, arrow: false } => Some(format!("{}.{member}", dotted(value)?)),
        _ => None,
    }
}
