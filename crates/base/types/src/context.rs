//! Contexts: named sets of ranks, as DPCL has them for sets of processes.
//!
//! `all`, `3`, `0-3,7`, `host:n2`; `a & b` is what is in both, `a except b` what is only in the first, a comma joins.
//! `&` and `except` bind closer than the comma, from the left; round brackets group.
//!
//! Next: whoever takes `--ranks`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Brackets that may be open at once.
const DEPTH_MAX: usize = 32;
/// Longest text.
const TEXT_MAX: usize = 64 * 1024;

/// A set of ranks, as a rule: which ranks are in it can depend on their hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// Every rank.
    All,
    /// From the first to the last, both included.
    Range(u32, u32),
    /// All ranks on a host.
    Host(String),
    /// In one or the other.
    Union(Vec<Context>),
    /// In both.
    Both(Box<Context>, Box<Context>),
    /// In the first, not in the second.
    Except(Box<Context>, Box<Context>),
}

/// Why a text is no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}; a set of ranks is written like `0-3,7`, `host:n2`, `all except 0`")]
pub struct BadContext {
    /// Where, from 1.
    pub column: usize,
    /// The kind of text that should stand there.
    pub expected: &'static str,
}

impl Context {
    /// True if a rank on a host belongs to it.
    pub fn contains(&self, rank: u32, host: &str) -> bool {
        match self {
            Context::All => true,
            Context::Range(first, last) => (*first..=*last).contains(&rank),
            Context::Host(name) => name == host,
            Context::Union(parts) => parts.iter().any(|part| part.contains(rank, host)),
            Context::Both(one, other) => one.contains(rank, host) && other.contains(rank, host),
            Context::Except(one, other) => one.contains(rank, host) && !other.contains(rank, host),
        }
    }
}

impl Context {
    /// Its text where another operator stands beside it.
    fn as_operand(&self) -> String {
        match self {
            Context::All | Context::Range(..) | Context::Host(_) => self.to_string(),
            _ => format!("({self})"),
        }
    }
}

impl FromStr for Context {
    type Err = BadContext;

    fn from_str(text: &str) -> Result<Self, BadContext> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        if text.len() > TEXT_MAX {
            return Err(parser.wrong("a shorter text"));
        }
        let context = parser.union()?;
        parser.blanks();
        if parser.at < text.len() { Err(parser.wrong("`,`, `&`, `except` or the end")) } else { Ok(context) }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Context::All => write!(f, "all"),
            Context::Range(first, last) if first == last => write!(f, "{first}"),
            Context::Range(first, last) => write!(f, "{first}-{last}"),
            Context::Host(name) => write!(f, "host:{name}"),
            Context::Union(parts) => {
                let parts: Vec<String> = parts.iter().map(Context::as_operand).collect();
                write!(f, "{}", parts.join(","))
            }
            Context::Both(one, other) => write!(f, "{} & {}", one.as_operand(), other.as_operand()),
            Context::Except(one, other) => write!(f, "{} except {}", one.as_operand(), other.as_operand()),
        }
    }
}

/// As its text.
impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn wrong(&self, expected: &'static str) -> BadContext {
        BadContext { column: self.text[..self.at].chars().count() + 1, expected }
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn takes(&mut self, word: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn while_in(&mut self, accepts: impl Fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(|letter| !accepts(letter)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn union(&mut self) -> Result<Context, BadContext> {
        let mut parts = vec![self.term()?];
        while self.takes(",") {
            parts.push(self.term()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Context::Union(parts) })
    }

    fn term(&mut self) -> Result<Context, BadContext> {
        let mut context = self.single()?;
        loop {
            if self.takes("&") {
                context = Context::Both(Box::new(context), Box::new(self.single()?));
            } else if self.takes("except") {
                context = Context::Except(Box::new(context), Box::new(self.single()?));
            } else {
                return Ok(context);
            }
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(self.wrong("fewer operators"));
            }
        }
    }

    fn single(&mut self) -> Result<Context, BadContext> {
        if self.takes("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(self.wrong("fewer brackets"));
            }
            let context = self.union()?;
            return if self.takes(")") { Ok(context) } else { Err(self.wrong("`)`")) };
        }
        if self.takes("host:") {
            let name = self.while_in(|letter| letter.is_alphanumeric() || "-._".contains(letter)).to_owned();
            return if name.is_empty() { Err(self.wrong("a host's name")) } else { Ok(Context::Host(name)) };
        }
        if self.takes("all") {
            return Ok(Context::All);
        }
        let first = self.number()?;
        if !self.text[self.at..].starts_with('-') {
            return Ok(Context::Range(first, first));
        }
        self.at += 1;
        let last = self.number()?;
        if last < first { Err(self.wrong("the higher rank behind `-`")) } else { Ok(Context::Range(first, last)) }
    }

    fn number(&mut self) -> Result<u32, BadContext> {
        let start = self.at;
        match self.while_in(|letter| letter.is_ascii_digit()).parse() {
            Ok(number) => Ok(number),
            Err(_) => {
                self.at = start;
                Err(self.wrong("`all`, `host:NAME`, a rank or `(`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks(text: &str) -> Vec<u32> {
        let context: Context = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (0..10).filter(|rank| context.contains(*rank, if *rank < 5 { "n1" } else { "n2" })).collect()
    }

    #[test]
    fn sets_of_ranks() {
        for (text, expected) in [
            ("all", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]),
            ("3", &[3]),
            ("0-2, 7", &[0, 1, 2, 7]),
            ("host:n2", &[5, 6, 7, 8, 9]),
            ("host:n2 & 0-6", &[5, 6]),
            ("all except 0-8", &[9]),
            ("0-5 except 2 except 3, 9", &[0, 1, 4, 5, 9]),
            ("all except (0-3, host:n2)", &[4]),
        ] {
            assert_eq!(ranks(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_and_where() {
        for (text, column, expected) in [
            ("", 1, "`all`, `host:NAME`, a rank or `(`"),
            ("0-", 3, "`all`, `host:NAME`, a rank or `(`"),
            ("5-2", 4, "the higher rank behind `-`"),
            ("host:", 6, "a host's name"),
            ("(1,2", 5, "`)`"),
            ("1 2", 3, "`,`, `&`, `except` or the end"),
            ("99999999999", 1, "`all`, `host:NAME`, a rank or `(`"),
        ] {
            assert_eq!(text.parse::<Context>(), Err(BadContext { column, expected }), "{text}");
        }
        assert!("(".repeat(5000).parse::<Context>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(text in "[0-9,&() allexcpthos:-]{0,40}", rank in 0u32..20) {
            if let Ok(context) = text.parse::<Context>() {
                let again: Context = context.to_string().parse().expect("its own text");
                prop_assert_eq!(context.contains(rank, "n1"), again.contains(rank, "n1"));
            }
        }
    }
}
