//! Colour, characters and wrapping: everything about the page that depends on the terminal.
//!
//! Next: `table.rs`, which draws with this pen.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How the page may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours; only for a real terminal without `NO_COLOR`.
    pub colour: bool,
    /// Columns of the terminal; less than 40 is taken as 40.
    pub width: usize,
    /// Block and line characters; otherwise ASCII.
    pub unicode: bool,
    /// Whole paths of calls, where the page usually names the program's place only.
    pub paths: bool,
    /// Tables are as wide as their names need, whatever `width` is: for files and other programs.
    pub whole_names: bool,
}

/// Narrower than this nothing can be laid out.
const WIDTH_MIN: usize = 40;

/// The meaning of a piece of text; the pen knows how that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Strong,
    Faint,
    Bad,
    Warn,
    Computation,
    Communication,
}

/// Draws for one terminal.
pub(crate) struct Pen {
    colour: bool,
    unicode: bool,
    /// Usable columns.
    pub width: usize,
    /// Tables may be wider than that rather than shorten names and leave out columns.
    pub whole_names: bool,
}

impl Pen {
    pub(crate) fn new(style: &Style) -> Pen {
        let width = style.width.max(WIDTH_MIN);
        Pen { colour: style.colour, unicode: style.unicode, width, whole_names: style.whole_names }
    }

    /// The text in its colour.
    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Plain => return text.to_string(),
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Bad => "1;31",
            Ink::Warn => "33",
            Ink::Computation => "34",
            Ink::Communication => "33",
        };
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// A section's title in a line across the page.
    pub(crate) fn rule(&self, title: &str) -> String {
        let line = if self.unicode { "─" } else { "-" };
        let rest = self.width.saturating_sub(title.width() + 4);
        let (before, after) = (line.repeat(2), line.repeat(rest));
        format!(
            "{} {} {}",
            self.paint(Ink::Faint, &before),
            self.paint(Ink::Strong, title),
            self.paint(Ink::Faint, &after)
        )
    }

    /// A bar of `width` columns: each part is a share of the whole width, drawn with its ink's character.
    pub(crate) fn bar(&self, parts: &[(Ink, f64)], width: usize) -> String {
        let mut bar = String::new();
        let (mut sum, mut drawn) = (0.0, 0);
        for (ink, share) in parts {
            // Rounding the ends, not the lengths, keeps the whole as long as the sum.
            sum += if share.is_finite() { share.max(0.0) } else { 0.0 };
            let end = ((sum.min(1.0) * width as f64).round() as usize).max(drawn);
            bar += &self.paint(*ink, &self.block(*ink).repeat(end - drawn));
            drawn = end;
        }
        bar + &" ".repeat(width - drawn)
    }

    /// The character that draws this ink in a bar.
    pub(crate) fn block(&self, ink: Ink) -> &'static str {
        match (ink, self.unicode) {
            (Ink::Communication, true) => "░",
            (Ink::Communication, false) => ".",
            (_, true) => "█",
            (_, false) => "#",
        }
    }

    /// Lines of the text that fit behind an indent, broken at spaces where possible; at least one.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        let width = self.width.saturating_sub(indent).max(8);
        let mut lines = vec![String::new()];
        for word in words_with_units(&self.readable(text)) {
            for piece in pieces(&word, width) {
                let last = lines.len() - 1;
                let line = &mut lines[last];
                if line.is_empty() {
                    line.push_str(piece);
                } else if line.width() + 1 + piece.width() <= width {
                    line.push(' ');
                    line.push_str(piece);
                } else {
                    lines.push(piece.to_string());
                }
            }
        }
        lines
    }

    /// The text cut to so many columns, the cut marked.
    pub(crate) fn fit(&self, text: &str, width: usize) -> String {
        if text.width() <= width {
            return text.to_string();
        }
        self.cut(text, width)
    }

    /// The text with the mark of a cut at its end, in so many columns.
    pub(crate) fn cut(&self, text: &str, width: usize) -> String {
        let head = text_of_width(text, width.saturating_sub(1));
        format!("{head}{}", self.cut_mark())
    }

    /// The character that stands for what is left out.
    pub(crate) fn cut_mark(&self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// Our own signs in ASCII where the terminal has no others.
    fn readable(&self, text: &str) -> String {
        if self.unicode { text.to_string() } else { text.replace('±', "+-") }
    }
}

/// The text's words; a unit stays with its number.
fn words_with_units(text: &str) -> Vec<String> {
    const UNITS: [&str; 12] = ["ns", "us", "ms", "s", "min", "h", "d", "B", "KiB", "MiB", "GiB", "TiB"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches([',', ';', ')', ':']));
        match words.last_mut() {
            Some(number) if unit && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_string()),
        }
    }
    words
}

/// A word too wide for a line, in pieces.
fn pieces(word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.width() > width {
        let head = text_of_width(rest, width);
        if head.is_empty() {
            break;
        }
        pieces.push(head);
        rest = &rest[head.len()..];
    }
    pieces.push(rest);
    pieces
}

/// The longest beginning of the text that is at most so many columns wide.
fn text_of_width(text: &str, width_max: usize) -> &str {
    let mut width = 0;
    for (place, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        if width > width_max {
            return &text[..place];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pen(width: usize, unicode: bool) -> Pen {
        Pen::new(&Style { colour: false, width, unicode, paths: false, whole_names: false })
    }

    #[test]
    fn bars_are_always_as_wide_as_asked() {
        let rows: [(&str, &[f64], &str); 7] = [
            ("halves", &[0.5, 0.5], "#####....."),
            ("short", &[0.25, 0.25], "###..     "),
            ("rounded together", &[0.333, 0.667], "###......."),
            ("nothing", &[0.0, 0.0], "          "),
            ("too much", &[0.9, 0.9], "#########."),
            ("not a number", &[f64::NAN, 0.5], ".....     "),
            ("negative", &[-0.5, 0.5], ".....     "),
        ];
        for (name, shares, expected) in rows {
            let parts: Vec<_> =
                [Ink::Computation, Ink::Communication].into_iter().zip(shares.iter().copied()).collect();
            assert_eq!(pen(80, false).bar(&parts, 10), expected, "{name}");
        }
    }

    #[test]
    fn wrapped_lines_fit() {
        let text = "a sentence with averyveryveryveryveryveryveryveryveryverylongword in it, and 漢字 too";
        for width in [40, 41, 60, 200] {
            let pen = pen(width, true);
            let lines = pen.wrap(text, 10);
            assert!(lines.iter().all(|line| line.width() <= width - 10 && !line.is_empty()), "{width}: {lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""), "{width}");
        }
        assert_eq!(pen(80, true).wrap("", 0), [""]);
        let units = pen(40, true).wrap("a line that ends just before the unit 12 ms, and goes on", 0);
        assert_eq!(units, ["a line that ends just before the unit", "12 ms, and goes on"]);
        assert_eq!(pen(80, false).wrap("1 ± 2", 0), ["1 +- 2"]);
    }

    #[test]
    fn cut_names_are_marked() {
        assert_eq!(pen(80, true).fit("MPI_Sendrecv", 8), "MPI_Sen…");
        assert_eq!(pen(80, false).fit("MPI_Sendrecv", 8), "MPI_Sen~");
        assert_eq!(pen(80, true).fit("MPI_Send", 8), "MPI_Send");
        assert_eq!(pen(80, true).fit("漢字漢字", 4), "漢…");
    }
}
