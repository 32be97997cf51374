//! Text to tokens, on demand. Points such as `libm.so.6:0x40` or `src/a.c:214` do not consist of C's tokens, so the
//! parser asks for a *word* where a point may stand and for a token elsewhere.
//!
//! Next: `parse`, its only user.

use crate::error::{Code, Problem, Span};

/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 4096;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// An identifier or keyword.
    Name(String),
    /// `$name` or `$0`, without the dollar sign.
    Dollar(String),
    /// An integer's bits, and whether it is unsigned with 64 bits.
    Int(i64, bool),
    /// A float.
    Float(f64),
    /// A string literal's text.
    Text(String),
    /// An operator or bracket.
    Mark(&'static str),
    /// The end of the script.
    End,
}

/// Operators and brackets, longer ones first.
const MARKS: &[&str] = &[
    "<<=", ">>=", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++",
    "--", "->", "::", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "<", ">", "=", "(", ")", "{", "}", "[", "]",
    ",", ";", ".", "?", ":",
];
/// Units that may follow a number without a blank.
pub const TIME_UNITS: &[(&str, u64)] = &[("us", 1), ("ms", 1000), ("s", 1_000_000), ("min", 60_000_000)];

/// A position in a script.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl Token {
    /// How messages call it.
    pub fn describe(&self) -> String {
        match self {
            Token::Name(name) => format!("`{name}`"),
            Token::Dollar(name) => format!("`${name}`"),
            Token::Int(value, true) => format!("`{}`", *value as u64),
            Token::Int(value, false) => format!("`{value}`"),
            Token::Float(value) => format!("`{value}`"),
            Token::Text(_) => "a text".to_string(),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end of the script".to_string(),
        }
    }
}

impl<'a> Lexer<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Lexer { text, position: 0 }
    }

    /// Goes back (or on) to a byte.
    pub fn set_position(&mut self, position: usize) {
        self.position = position;
    }

    /// The next token; after a problem the lexer stands behind it.
    pub fn token(&mut self) -> Result<(Token, Span), Problem> {
        self.skip_blank()?;
        let start = self.position;
        let Some(first) = self.rest().chars().next() else { return Ok((Token::End, Span::new(start, start))) };
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => Token::Name(self.take(is_name).to_string()),
            '$' => {
                self.position += 1;
                match self.take(is_name) {
                    "" => return Err(self.bad(start, "a name or a number must follow `$`")),
                    name => Token::Dollar(name.to_string()),
                }
            }
            '0'..='9' => self.number(start)?,
            '"' => Token::Text(self.text_literal(start)?),
            '\'' => self.character(start)?,
            _ => self.mark(start, first)?,
        };
        let length = self.position - start;
        if matches!(token, Token::Name(_) | Token::Dollar(_)) && length > NAME_BYTES_MAX {
            return Err(self.bad(start, format!("a name has at most {NAME_BYTES_MAX} bytes")));
        }
        Ok((token, Span::new(start, self.position)))
    }

    /// The next word of a point: a text in quotes, or what stands up to a blank, a comma, a brace, a bracket or a
    /// semicolon; a part in quotes may follow a colon. Empty if none starts here.
    pub fn word(&mut self) -> Result<(String, Span), Problem> {
        self.skip_blank()?;
        let start = self.position;
        let mut word = String::new();
        loop {
            let plain = self.take(is_word);
            word.push_str(plain);
            // Parameters at once behind a name belong to it, as in `ns::f(int, char const*)`.
            if !word.is_empty() && self.rest().starts_with('(') {
                let Some(length) = bracketed(self.rest()) else { break };
                word.push_str(&self.rest()[..length]);
                self.position += length;
                self.take_qualifiers(&mut word);
                continue;
            }
            let quoted_part = word.is_empty() || word.ends_with(':');
            if !(quoted_part && self.rest().starts_with('"')) {
                break;
            }
            let quoted_start = self.position;
            word.push_str(&self.text_literal(quoted_start)?);
        }
        if word.len() > NAME_BYTES_MAX {
            return Err(self.bad(start, format!("a name has at most {NAME_BYTES_MAX} bytes")));
        }
        Ok((word, Span::new(start, self.position)))
    }

    /// Compilers write these behind the parameters: ` const`, ` [clone .isra.0]`.
    fn take_qualifiers(&mut self, word: &mut String) {
        loop {
            let rest = self.rest();
            let clone =
                rest.strip_prefix(" [clone ").and_then(|behind| behind.find(']')).map(|end| " [clone ".len() + end + 1);
            let is_const = rest.strip_prefix(" const").is_some_and(|behind| !behind.starts_with(is_word));
            let Some(length) = clone.or(is_const.then_some(" const".len())) else { return };
            word.push_str(&rest[..length]);
            self.position += length;
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn take(&mut self, accept: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn bad(&self, start: usize, message: impl Into<String>) -> Problem {
        Problem::new(Code::BadToken, Span::new(start, self.position), message)
    }

    /// Skips blanks, `// ...`, `# ...` and `/* ... */`.
    fn skip_blank(&mut self) -> Result<(), Problem> {
        loop {
            self.take(char::is_whitespace);
            let rest = self.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.take(|c| c != '\n');
            } else if rest.starts_with("/*") {
                let start = self.position;
                match rest.find("*/") {
                    Some(end) => self.position += end + 2,
                    None => {
                        self.position = self.text.len();
                        let span = Span::new(start, start + 2);
                        return Err(Problem::new(Code::BadToken, span, "the comment does not end").expected(["`*/`"]));
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    fn mark(&mut self, start: usize, first: char) -> Result<Token, Problem> {
        let rest = self.rest();
        if let Some(mark) =
            MARKS.iter().find(|mark| mark.as_bytes()[0] == rest.as_bytes()[0] && rest.starts_with(**mark))
        {
            self.position += mark.len();
            return Ok(Token::Mark(mark));
        }
        self.position += first.len_utf8();
        Err(self.bad(start, format!("`{}` means nothing here", first.escape_default())))
    }

    fn number(&mut self, start: usize) -> Result<Token, Problem> {
        let rest = self.rest();
        let digits = |c: char| c.is_ascii_digit();
        for (prefix, base) in [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2)] {
            if rest.starts_with(prefix) {
                self.position += 2;
                let word = self.take(is_name);
                return self.integer(start, word, base);
            }
        }
        let whole = self.take(digits);
        let fraction = self.rest().starts_with('.') && self.rest()[1..].starts_with(digits);
        if fraction {
            self.position += 1;
            self.take(digits);
        }
        let exponent = self.exponent();
        if fraction || exponent {
            if !self.unit_follows() {
                self.suffix(start, &["f", "F"])?;
            }
            let text = &self.text[start..self.position];
            let value = text.trim_end_matches(['f', 'F']).parse().ok().filter(|value: &f64| value.is_finite());
            return value.map(Token::Float).ok_or_else(|| self.bad(start, "the number is too large"));
        }
        let base = if whole.len() > 1 && whole.starts_with('0') { 8 } else { 10 };
        let value = self.integer(start, whole, base)?;
        if !self.unit_follows() {
            self.suffix(start, &["u", "U", "l", "L", "ul", "UL", "ll", "LL", "ull", "ULL"])?;
        }
        Ok(value)
    }

    /// True if a unit of time stands here.
    fn unit_follows(&self) -> bool {
        let is = |unit: &str| self.rest().strip_prefix(unit).is_some_and(|after| !after.starts_with(is_name));
        TIME_UNITS.iter().any(|(unit, _)| is(unit))
    }

    fn exponent(&mut self) -> bool {
        let rest = self.rest();
        let Some(after) = rest.strip_prefix(['e', 'E']) else { return false };
        let sign = usize::from(after.starts_with(['+', '-']));
        let length = after[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len() - sign);
        if length > 0 {
            self.position += 1 + sign + length;
        }
        length > 0
    }

    fn suffix(&mut self, start: usize, allowed: &[&str]) -> Result<(), Problem> {
        let suffix = self.take(is_name);
        if suffix.is_empty() || allowed.contains(&suffix) {
            return Ok(());
        }
        let units = TIME_UNITS.iter().map(|(unit, _)| format!("`{unit}`"));
        Err(self.bad(start, format!("a number cannot end in `{suffix}`")).expected(units))
    }

    fn integer(&mut self, start: usize, word: &str, base: u32) -> Result<Token, Problem> {
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
            return Err(self.bad(start, format!("not a number of base {base}")));
        }
        match u64::from_str_radix(digits, base) {
            Ok(value) => Ok(Token::Int(value as i64, value > i64::MAX as u64)),
            Err(_) => Err(self.bad(start, "the number does not fit 64 bits")),
        }
    }

    fn text_literal(&mut self, start: usize) -> Result<String, Problem> {
        self.position += 1;
        let mut text = String::new();
        loop {
            match self.rest().chars().next() {
                None | Some('\n') => {
                    return Err(self.bad(start, "the text does not end on its line").expected(["`\"`"]));
                }
                Some('"') => break,
                Some('\\') => text.push(self.escape()?),
                Some(c) => {
                    self.position += c.len_utf8();
                    text.push(c);
                }
            }
        }
        self.position += 1;
        Ok(text)
    }

    fn character(&mut self, start: usize) -> Result<Token, Problem> {
        self.position += 1;
        let value = match self.rest().chars().next() {
            Some('\\') => self.escape()?,
            Some(c) if c != '\'' && c != '\n' => {
                self.position += c.len_utf8();
                c
            }
            _ => return Err(self.bad(start, "a character must stand between the quotes")),
        };
        if !self.rest().starts_with('\'') {
            return Err(self.bad(start, "the character does not end").expected(["`'`"]));
        }
        self.position += 1;
        Ok(Token::Int(i64::from(u32::from(value)), false))
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let start = self.position;
        let escaped = self.rest().chars().nth(1);
        self.position += 1 + escaped.map_or(0, char::len_utf8);
        match escaped {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('0') => Ok('\0'),
            Some(c @ ('\\' | '"' | '\'')) => Ok(c),
            _ => Err(self
                .bad(start, "unknown escape")
                .expected(["`\\n`", "`\\t`", "`\\r`", "`\\0`", "`\\\\`", "`\\\"`"])),
        }
    }
}

/// True if `c` may stand in a name.
pub fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes up to the bracket that closes the first one; none if a line or a body comes first.
fn bracketed(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' if open == 1 => return Some(at + 1),
            ')' => open -= 1,
            '{' | '}' | ';' | '"' | '\n' => return None,
            _ => {}
        }
    }
    None
}

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | '{' | '}' | '(' | ')' | ';' | '"' | '\'')
}
