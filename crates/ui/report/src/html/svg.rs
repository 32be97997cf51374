//! Drawing: a growing SVG picture, axes with round numbers.
//!
//! Next: `plots.rs`, which draws with it.

use super::escape::text;
use std::fmt::Write;

/// A picture that grows; coordinates are pixels of a page 1000 wide.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text sits relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// A rectangle of a class, with a tooltip if `tip` is not empty.
    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], tip: &str) {
        self.styled_rect(class, "", [x, y, width, height], tip);
    }

    /// The same, with a style of its own.
    pub(super) fn styled_rect(&mut self, class: &str, style: &str, [x, y, width, height]: [f64; 4], tip: &str) {
        let style = if style.is_empty() { String::new() } else { format!(" style=\"{style}\"") };
        let tip = if tip.is_empty() { String::new() } else { format!(" data-tip=\"{}\"", text(tip)) };
        let (x, y, width, height) = (short(x), short(y), short(width.max(0.0)), short(height.max(0.0)));
        let _infallible = writeln!(
            self.body,
            "<rect class=\"{class}\"{style} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{tip}/>"
        );
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let (x1, y1, x2, y2) = (short(x1), short(y1), short(x2), short(y2));
        let _infallible =
            writeln!(self.body, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    /// A line through points.
    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let _infallible = writeln!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", joined(points));
    }

    /// A closed area.
    pub(super) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let _infallible = writeln!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", joined(points));
    }

    /// A text; its middle line is at `y`.
    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), content: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, content) = (short(x), short(y), text(content));
        let _infallible = writeln!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" dy=\"0.35em\" x=\"{x}\" y=\"{y}\">{content}</text>"
        );
    }

    /// The picture as an element; `label` says what it shows to those who cannot see it.
    pub(super) fn finish(self, id: &str, label: &str, data: &str) -> String {
        let (width, height) = (short(self.width), short(self.height));
        format!(
            "<div class=\"plot\"><svg id=\"{id}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\"{data}>\n{}</svg></div>\n",
            text(label),
            self.body
        )
    }
}

/// Round numbers from at or below `low` to at or above `high`, about `wanted` of them.
pub(super) fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![low];
    }
    let rough = span / wanted.max(1) as f64;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * magnitude);
    let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    (0..=(last - first) as usize).map(|number| (first + number as f64) * step).collect()
}

/// A coordinate with at most two decimals.
fn short(value: f64) -> String {
    let text = format!("{:.2}", if value.is_finite() { value } else { 0.0 });
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        let rows = [
            ("from zero", 0.0, 53.4, vec![0.0, 20.0, 40.0, 60.0]),
            ("far from zero", 5.2, 5.46, vec![5.2, 5.3, 5.4, 5.5]),
            ("exact ends", 0.0, 3.0, vec![0.0, 1.0, 2.0, 3.0]),
            ("nothing", 2.0, 2.0, vec![2.0]),
            ("small", 0.0, 3.1e-9, vec![0.0, 2e-9, 4e-9]),
        ];
        for (name, low, high, expected) in rows {
            let found = ticks(low, high, 3);
            let same =
                found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9 * high);
            assert!(same, "{name}: {found:?}");
        }
    }
}
