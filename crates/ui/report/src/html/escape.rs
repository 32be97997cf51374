//! Text that is harmless in a page, and the box that most of it stands in.
//!
//! Next: `tables` and `plots` for what is in the boxes.

use crate::clean::clean;

/// Text as HTML, harmless in an element and in a quoted attribute.
pub(super) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in clean(raw).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            other => safe.push(other),
        }
    }
    safe
}

/// A titled box.
pub(super) fn card(title: &str, subtitle: &str, body: &str) -> String {
    format!("<section class=\"card\">\n<h2>{}<small>{}</small></h2>\n{body}</section>\n", text(title), text(subtitle))
}
