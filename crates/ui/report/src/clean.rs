//! Text of the target's making, made safe to print.
//!
//! Next: `words`, which prints it.

/// Text of the target's making without what could steer a terminal or turn a line around.
pub(crate) fn clean(text: &str) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}
