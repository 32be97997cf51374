//! Functions by the names that people write: `ns::S::f(int)`, `ns::S::f`, `ns::S::f*`, `module::procedure`.
//!
//! The meaning of a symbol is looked for only where no symbol is called so itself, and only among symbols that have
//! the name's last word in them: to read all names of a large program takes long.
//!
//! Next: `demangle` for what a symbol means.

use crate::demangle::{demangle, demangle_name};
use crate::glob;

/// True if a symbol means a function that a pattern (`*`, `?`), written as its author would, names.
pub fn is_spelled(pattern: &str, symbol: &str) -> bool {
    let spelling = Spelling::of(pattern);
    spelling.is(symbol) || spelling.matches(symbol)
}

/// A name or pattern as its author wrote it.
pub(crate) struct Spelling<'a> {
    /// A word that every symbol of that name has in it; empty if there is none.
    word: &'a str,
    /// Without blanks that mean nothing.
    pattern: String,
    has_parameters: bool,
}

impl<'a> Spelling<'a> {
    pub fn of(pattern: &'a str) -> Self {
        // An operator's name may have a bracket of its own.
        let has_parameters = pattern.replace("operator()", "").contains('(');
        Spelling { word: last_word(pattern), pattern: plain(pattern), has_parameters }
    }

    /// True if a symbol means a function of exactly this name; without parameters in the name, of any parameters.
    pub fn is(&self, symbol: &str) -> bool {
        self.meanings(symbol).any(|meaning| meaning == self.pattern)
    }

    /// The same for a pattern with `*` and `?`.
    pub fn matches(&self, symbol: &str) -> bool {
        self.meanings(symbol).any(|meaning| glob::matches(&self.pattern, &meaning))
    }

    fn meanings(&self, symbol: &str) -> impl Iterator<Item = String> + use<> {
        let may_mean = symbol.starts_with("_Z") || symbol.contains("_MOD_");
        let may_mean = may_mean && symbol.contains(self.word);
        let full = (may_mean && self.has_parameters).then(|| demangle(symbol)).flatten();
        // With a return type (templates have one) and without.
        let short = full.as_ref().and_then(|full| Some(format!("{}{}", demangle_name(symbol)?, parameters_of(full)?)));
        let name = (may_mean && !self.has_parameters).then(|| demangle_name(symbol)).flatten();
        [full, short, name].into_iter().flatten().map(|meaning| plain(&meaning))
    }
}

/// From the bracket that belongs to the last one of a meaning: the parameters, and what stands behind them.
fn parameters_of(full: &str) -> Option<&str> {
    let end = full.rfind(')')?;
    let mut open = 0;
    let begin = full[..=end].char_indices().rev().find(|(_, letter)| {
        open += i32::from(*letter == ')') - i32::from(*letter == '(');
        *letter == '(' && open == 0
    });
    begin.map(|(at, _)| &full[at..])
}

/// The last word in front of the parameters that has no wildcard beside it. Words of the standard library may be shortened
/// in symbols.
fn last_word(pattern: &str) -> &str {
    let end = pattern.find(['(', '<']).unwrap_or(pattern.len());
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut words = pattern[..end].split(|letter: char| !is_letter(letter));
    let is_plain = |word: &&str| !word.is_empty() && !word.starts_with("operator");
    let word = words.rfind(is_plain).unwrap_or("");
    if pattern.contains("std::") || pattern.contains("operator") { "" } else { word }
}

/// Without blanks, except between letters; `const int` is `int const`.
fn plain(name: &str) -> String {
    let mut parts = name.split("const ");
    let mut text = parts.next().unwrap_or("").to_string();
    for part in parts {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        // In front of a type it belongs behind it; elsewhere it stands where compilers write it.
        let is_first = text.is_empty() || text.ends_with(['(', '<']) || text.trim_end().ends_with(',');
        let type_end = part.find(|letter: char| !is_word(letter)).unwrap_or(part.len());
        text += &if is_first && type_end > 0 {
            format!("{} const{}", &part[..type_end], &part[type_end..])
        } else {
            format!("const {part}")
        };
    }
    let is_letter = |letter: Option<&char>| letter.is_some_and(|letter| letter.is_alphanumeric() || *letter == '_');
    let letters: Vec<char> = text.chars().collect();
    let between =
        |at: usize| is_letter(at.checked_sub(1).and_then(|at| letters.get(at))) && is_letter(letters.get(at + 1));
    let kept = (0..letters.len()).filter(|at| letters[*at] != ' ' || between(*at));
    kept.map(|at| letters[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        for (written, symbol, means) in [
            ("advanz", "_Z6advanzPKi", true),
            ("advanz(int const*)", "_Z6advanzPKi", true),
            ("advanz(const int *)", "_Z6advanzPKi", true),
            ("advanz(int)", "_Z6advanzPKi", false),
            ("advanz(int)", "_Z6advanzi", true),
            ("advanz()", "_Z6advanzv", true),
            ("advanz", "_ZN2ns6advanzEi", false),
            ("ns::advanz", "_ZN2ns6advanzEi", true),
            ("ns::S::advanz(int) const", "_ZNK2ns1S6advanzEi", true),
            ("max<int>", "_Z3maxIiET_S0_S0_", true),
            ("max<int>(int,int)", "_Z3maxIiET_S0_S0_", true),
            ("int max<int>(int, int)", "_Z3maxIiET_S0_S0_", true),
            ("ns::S::operator()(int)", "_ZN2ns1SclEi", true),
            ("ns::S::operator()", "_ZN2ns1SclEi", true),
            ("ns::S::~S", "_ZN2ns1SD1Ev", true),
            ("solver::step", "__solver_MOD_step", true),
            ("advanz", "advanz", false),
            ("", "_Z6advanzi", false),
            ("(", "_Z6advanzi", false),
        ] {
            assert_eq!(Spelling::of(written).is(symbol), means, "{written} {symbol}");
        }
        for (pattern, symbol, means) in [
            ("ns::S::adv*", "_ZN2ns1S6advanzEi", true),
            ("ns::*", "_ZN2ns1S6advanzEi", true),
            ("ns::S::adv*(int)", "_ZN2ns1S6advanzEi", true),
            ("*anz", "_Z6advanzi", true),
            ("other::*", "_ZN2ns1S6advanzEi", false),
        ] {
            assert_eq!(Spelling::of(pattern).matches(symbol), means, "{pattern} {symbol}");
        }
    }
}
