//! Names as their authors wrote them: C++ and Fortran module procedures.
//!
//! Next: [`crate::dwarf`], which knows more names where there is debugging information.

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};

/// Longer names are left as they are: what they mean can grow without bound.
const MANGLED_BYTES_MAX: usize = 8 * 1024;
/// The longest meaning, in bytes.
const DEMANGLED_BYTES_MAX: usize = 64 * 1024;
/// Nesting while a name is printed, which keeps the stack small.
const PRINTED_NESTING_MAX: u32 = 96;
/// Nesting: of 315,000 names of compilers, node, a Java machine and libraries 12 are deeper.
const NESTING_MAX: u32 = 64;
/// Nesting of names that may hold many `new` and `delete`, and what each of those takes off.
const NESTING_MIN: u32 = 24;
const NESTING_BEGIN: u32 = 80;
const NESTING_STEP: u32 = 4;

/// The name behind a symbol: `ns::f(int)` for `_ZN2ns1fEi`, `m::p` for gfortran's `__m_MOD_p`; `None` if the symbol is
/// not mangled, or not soundly. A version (`@V1`) is ignored.
pub fn demangle(symbol: &str) -> Option<String> {
    let symbol = symbol.split_once('@').map_or(symbol, |(base, _)| base);
    if symbol.len() > MANGLED_BYTES_MAX {
        return None;
    }
    if symbol.starts_with("_Z") { cpp(symbol, DemangleOptions::new()) } else { fortran(symbol) }
}

/// As [`demangle`], without C++ parameters and return types: `ns::f` for `_ZN2ns1fEi`.
pub fn demangle_name(symbol: &str) -> Option<String> {
    let symbol = symbol.split_once('@').map_or(symbol, |(base, _)| base);
    if symbol.len() > MANGLED_BYTES_MAX {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    if symbol.starts_with("_Z") { cpp(symbol, options) } else { fortran(symbol) }
}

fn cpp(symbol: &str, options: DemangleOptions) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(nesting_max(symbol));
    let parsed = Symbol::new_with_options(symbol, &parse).ok()?;
    let mut text = Bounded(String::new());
    parsed.structured_demangle(&mut text, &options.recursion_limit(PRINTED_NESTING_MAX)).ok()?;
    Some(text.0)
}

/// How deep a name may be nested. Of a name that is not sound the library reads parts again in another way, and in them
/// parts of theirs: time and memory grow by a power of the depth. Arguments of templates take some 19% more for each level,
/// `new` and `delete` in expressions twice as much for every second one, so the more there may be of them, the less deep.
/// Their letters may be parts of plain words too, which can't be told without reading the name.
fn nesting_max(symbol: &str) -> u32 {
    const READ_TWICE: [&[u8]; 4] = [b"nw", b"na", b"dl", b"da"];
    let count = symbol.as_bytes().windows(2).filter(|pair| READ_TWICE.contains(pair)).count() as u32;
    NESTING_BEGIN.saturating_sub(NESTING_STEP.saturating_mul(count)).clamp(NESTING_MIN, NESTING_MAX)
}

/// gfortran's `__MODULE_MOD_PROCEDURE`, both in lower case.
fn fortran(symbol: &str) -> Option<String> {
    let (module, procedure) = symbol.strip_prefix("__")?.split_once("_MOD_")?;
    (!module.is_empty() && !procedure.is_empty()).then(|| format!("{module}::{procedure}"))
}

/// Text up to [`DEMANGLED_BYTES_MAX`].
struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > DEMANGLED_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_meaning() {
        for (symbol, full, name) in [
            ("_ZN2ns1fEi", Some("ns::f(int)"), Some("ns::f")),
            ("_ZN2ns1fEi@V1", Some("ns::f(int)"), Some("ns::f")),
            ("_Z3maxIiET_S0_S0_", Some("int max<int>(int, int)"), Some("max<int>")),
            ("__solver_MOD_step", Some("solver::step"), Some("solver::step")),
            ("main", None, None),
            ("_Z!", None, None),
            ("__x_MOD_", None, None),
        ] {
            assert_eq!(demangle(symbol).as_deref(), full, "{symbol}");
            assert_eq!(demangle_name(symbol).as_deref(), name, "{symbol}");
        }
    }

    #[test]
    fn what_would_grow_without_bound_is_left_alone() {
        // Each argument is the pair of the one before: 2^40 words.
        let pairs = (0..40).map(|at| format!("St4pairIS{at}_S{at}_E").replace("S0_", "S_")).collect::<String>();
        let news = |operand: &str| format!("_Z1fIXna{}EE", format!("{operand}na").repeat(60));
        let big_int = format!("_ZdaIR2xCDU{}spstaIhEE", "aanananant".repeat(9));
        let many =
            [big_int, news(""), news("aaLi1E"), news("dl"), news("gs"), format!("_Z1fDT{}", "nadadlnw".repeat(20))];
        assert_eq!(many.iter().filter_map(|symbol| demangle(symbol)).count(), 0);
        let argument = "SaIistatSaIStSaaIicEL";
        assert_eq!(demangle(&format!("_ZaN{}SaIicEai", argument.repeat(20))), None);
        for symbol in [format!("_Z1f{pairs}"), "_Z".repeat(9000), format!("_Z{}", "P".repeat(8000))] {
            let meaning = demangle(&symbol);
            assert!(meaning.is_none_or(|meaning| meaning.len() <= DEMANGLED_BYTES_MAX));
        }
    }
}
