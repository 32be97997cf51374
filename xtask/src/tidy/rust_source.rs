//! Views of a Rust file for line-based rules: code without comments and literals, comments alone, code without tests.
//!
//! A rule that greps the raw text finds its own table of forbidden words; one that greps `code` does not. All views
//! keep every line where it was. This is a lexer of a hundred lines, not a parser: macros are read as code.
//!
//! Next: `code` and `rooms`, which search these views.

use std::ops::Range;

/// One Rust file, seen three ways; the line numbers of all views agree.
#[derive(Debug)]
pub struct RustSource {
    /// The text with comments and the insides of string and char literals blanked.
    pub code: String,
    /// The text with everything but comments blanked.
    pub comments: String,
    /// `code` with tests blanked: items under `#[test]` or `#[cfg(test)]`.
    pub production: String,
    /// Modules that are tests and lie in a file of their own: the names in `#[cfg(test)] mod NAME;`.
    pub test_modules: Vec<String>,
    /// True if the whole file is test code by an inner `#![cfg(test)]`.
    pub only_tests: bool,
}

/// A function's place in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub line_count: usize,
}

impl RustSource {
    /// The views of `text`.
    pub fn new(text: &str) -> RustSource {
        let (code, comments) = split_views(text);
        let tests = test_items(&code);
        let test_modules = tests.iter().filter_map(|item| module_in_own_file(&code[item.clone()])).collect();
        let only_tests = code.contains("#![cfg(test)]");
        let production = if only_tests { String::new() } else { blank(&code, &tests) };
        RustSource { code, comments, production, test_modules, only_tests }
    }

    /// Every function that has a body, nested ones included.
    pub fn functions(&self) -> Vec<Function> {
        word_places(&self.code, "fn").filter_map(|place| function_at(&self.code, place)).collect()
    }
}

/// The offsets at which `word` stands alone, not as a part of a longer name.
pub fn word_places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let bounded = move |place: usize| {
        let (before, after) = (&text[..place], &text[place + word.len()..]);
        let starts_alone = !word.starts_with(in_name) || !before.ends_with(in_name);
        let ends_alone = !word.ends_with(in_name) || !after.starts_with(in_name);
        starts_alone && ends_alone
    };
    text.match_indices(word).map(|(place, _)| place).filter(move |place| bounded(*place))
}

/// The line, from 1, that holds the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The offset just behind the bracket that closes the one at `open`; the text's end if none does.
pub fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in text[open..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' if depth <= 1 => return open + offset + 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

fn split_views(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::new(), String::new());
    let mut at = 0;
    while at < text.len() {
        let (kind, len) = next_piece(text, at);
        let piece = &text[at..at + len];
        match kind {
            Kind::Code => code.push_str(piece),
            Kind::Comment => code.push_str(&blanked(piece)),
            Kind::Literal => code.push_str(&literal_shell(piece)),
        }
        comments.push_str(&if kind == Kind::Comment { piece.to_string() } else { blanked(piece) });
        at += len;
    }
    (code, comments)
}

/// The kind and the length in bytes of the piece that starts at `at`.
fn next_piece(text: &str, at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    let first_len = rest.chars().next().map_or(1, char::len_utf8);
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment_len(rest));
    }
    if rest.starts_with('"') {
        return (Kind::Literal, string_len(rest));
    }
    if rest.starts_with('\'') {
        return char_len(rest).map_or((Kind::Code, 1), |len| (Kind::Literal, len));
    }
    let in_name = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if !in_name && let Some(len) = raw_string_len(rest) {
        return (Kind::Literal, len);
    }
    (Kind::Code, first_len)
}

fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return offset + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// The length of the char literal, or `None` where the quote starts a lifetime.
fn char_len(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    let (after, second) = chars.next()?;
    if first == '\\' {
        let past_escaped = after + second.len_utf8();
        return rest[past_escaped..].find('\'').map(|end| past_escaped + end + 1);
    }
    (second == '\'').then_some(after + 1)
}

fn raw_string_len(rest: &str) -> Option<usize> {
    let prefix_len = if rest.starts_with('r') { 1 } else { ["br", "cr"].iter().find(|p| rest.starts_with(**p))?.len() };
    let hashes = rest[prefix_len..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[prefix_len + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let body_len = body.find(&end).map_or(body.len(), |place| place + end.len());
    Some(prefix_len + hashes + 1 + body_len)
}

/// As many spaces as bytes, line ends kept, so that offsets agree between views.
fn blanked(piece: &str) -> String {
    piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// A string literal keeps its quotes, so that an empty one can be told from a full one.
fn literal_shell(piece: &str) -> String {
    let Some(inside) = piece.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return blanked(piece) };
    format!("\"{}\"", blanked(inside))
}

fn blank(text: &str, ranges: &[Range<usize>]) -> String {
    let mut left = String::new();
    let mut at = 0;
    for range in ranges.iter().filter(|range| range.start <= range.end) {
        if range.start < at {
            continue;
        }
        left.push_str(&text[at..range.start]);
        left.push_str(&blanked(&text[range.clone()]));
        at = range.end;
    }
    left + &text[at..]
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    let attributes = code.match_indices("#[").map(|(start, _)| start..closing(code, start + 1));
    attributes
        .filter(|range| is_test_attribute(&code[range.clone()]))
        .map(|range| range.start..item_end(code, range.end))
        .collect()
}

fn is_test_attribute(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches("#[").trim_end_matches(']').trim();
    let is_test = inside == "test" || inside.ends_with("::test");
    let under_test = inside.starts_with("cfg(") && word_places(inside, "test").next().is_some();
    is_test || (under_test && !inside.contains("not(test"))
}

/// The end of the item that starts at `from`: behind its block, or behind its semicolon.
fn item_end(code: &str, from: usize) -> usize {
    body_or_semicolon(code, from).map_or(code.len(), |place| match code.as_bytes()[place] {
        b'{' => closing(code, place),
        _ => place + 1,
    })
}

/// The offset of the first `{` or `;` outside of parentheses and square brackets.
fn body_or_semicolon(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(offset) = code[at..].find(['{', ';', '(', '[', '}']) {
        at += offset;
        match code.as_bytes()[at] {
            b'{' | b';' => return Some(at),
            b'}' => return None,
            _ => at = closing(code, at),
        }
    }
    None
}

fn module_in_own_file(item: &str) -> Option<String> {
    let name = item.trim_end().strip_suffix(';')?.rsplit_once("mod ")?.1.trim();
    Some(name.to_string())
}

fn function_at(code: &str, place: usize) -> Option<Function> {
    let name: String =
        code[place + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let body = body_or_semicolon(code, place)?;
    if name.is_empty() || code.as_bytes()[body] == b';' {
        return None;
    }
    let (first, last) = (line_of(code, place), line_of(code, closing(code, body) - 1));
    Some(Function { name, line: first, line_count: last - first + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_comments_and_literals() {
        for (name, text, code) in [
            ("line comment", "a // b\nc", "a     \nc"),
            ("nested block comment", "a /* b /* c */ d */ e", "a                   e"),
            ("string", r#"f("a // b")"#, r#"f("      ")"#),
            ("escaped quote", r#"f("a\"b") c"#, r#"f("    ") c"#),
            ("escaped backslash", r#"f("\\") c"#, r#"f("  ") c"#),
            ("raw string", r###"f(r#"a"b"#) c"###, "f(        ) c"),
            ("byte string", r#"f(b"ab") c"#, r#"f(b"  ") c"#),
            ("char quote", "f('\"') c", "f(   ) c"),
            ("escaped char", r"f('\'') c", "f(    ) c"),
            ("lifetime", "f::<'a>(x: &'a u8)", "f::<'a>(x: &'a u8)"),
            ("raw name", "r#fn + br", "r#fn + br"),
            ("name that ends in r", "var\"x\"", "var\" \""),
            ("wide characters", "\"é\" ; 'é' ; é", "\"  \" ;      ; é"),
            ("unended string", "a \"b", "a   "),
        ] {
            assert_eq!(RustSource::new(text).code, code, "{name}");
        }
    }

    #[test]
    fn comments_stay_in_place() {
        assert_eq!(RustSource::new("a // b\nc /* d */").comments, "  // b\n  /* d */");
    }

    #[test]
    fn tests_are_not_production() {
        for (name, text, has_x) in [
            ("plain", "fn f() { x }", true),
            ("test function", "#[test]\nfn f() { x }", false),
            ("path to test", "#[tokio::test]\nasync fn f() { x }", false),
            ("test module", "#[cfg(test)]\nmod tests { fn f() { x } }", false),
            ("combined", "#[cfg(all(test, unix))]\nmod tests { x }", false),
            ("not test", "#[cfg(not(test))]\nmod real { x }", true),
            ("after the tests", "#[cfg(test)]\nmod t { y }\nfn f() { x }", true),
            ("other attribute between", "#[test]\n#[should_panic(expected = \"a\")]\nfn f() { x }", false),
            ("array in the signature", "#[test]\nfn f(a: [u8; 2]) { x }", false),
            ("whole file", "#![cfg(test)]\nfn f() { x }", false),
            ("feature named test-tools", "#[cfg(feature = \"test\")]\nfn f() { x }", true),
        ] {
            let production = RustSource::new(text).production;
            assert_eq!(word_places(&production, "x").next().is_some(), has_x, "{name}: {production}");
        }
        assert_eq!(RustSource::new("#[cfg(test)]\nmod checks;\nmod real;").test_modules, ["checks"]);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        for (name, text, expected) in [
            ("one line", "fn f() { 1 }", vec![("f", 1, 1)]),
            ("three lines", "\npub fn f() {\n  1\n}\n", vec![("f", 2, 3)]),
            ("long signature", "fn f(\n  a: [u8; 2],\n) -> u8\nwhere\n{\n}", vec![("f", 1, 6)]),
            ("declaration only", "trait T { fn f(&self); fn g(&self) {} }", vec![("g", 1, 1)]),
            ("type", "let f: fn(u8) -> u8 = g;", vec![]),
            ("nested", "fn f() {\n fn g() {\n }\n}", vec![("f", 1, 4), ("g", 2, 2)]),
            ("brace in a literal", "fn f() {\n  '}'; \"}\"\n}", vec![("f", 1, 3)]),
        ] {
            let functions = RustSource::new(text).functions();
            let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.line_count)).collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
