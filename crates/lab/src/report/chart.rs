//! Charts: plain data in the page, drawn by uPlot (MIT, `vendor/`), which the page carries along.
//!
//! Curves, layers and steps are [`Plot`]s: what is to be seen as JSON, which `chart.js` hands to uPlot. Bars
//! and shares over time are HTML with widths and colours. Colours are the style sheet's: light and dark are
//! its business.

use std::fmt::Write;

use serde::Serialize;

/// Colours that the style sheet has.
pub const COLOURS: usize = 8;

/// Text for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Data for the page's script; a closing tag in a name would end the element.
pub(crate) fn data(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c");
    format!("<script type=\"application/json\">{json}</script>")
}

/// How the numbers of an axis are read.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// As they are.
    Number,
    /// Seconds of simulated time.
    Seconds,
    /// Nanoseconds.
    Ns,
    /// Bytes a second, as MB/s.
    Megabytes,
    /// Per cent.
    Percent,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How its numbers are read.
    pub show: Show,
    /// Logarithmic.
    pub log: bool,
    /// Places and words of its ticks; none: found from the data.
    pub ticks: Vec<(f64, String)>,
    /// It ends here, whatever the data.
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str, show: Show) -> Self {
        Self { label: label.into(), show, log: false, ticks: Vec::new(), to: None }
    }
    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(label: &str, show: Show) -> Self {
        Self { log: true, ..Self::linear(label, show) }
    }
}

/// A curve: its name, and its points by ascending x.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Places.
    pub x: Vec<f64>,
    /// Figures.
    pub y: Vec<f64>,
    /// Least and most at each place, where several runs were averaged.
    pub spread: Option<(Vec<f64>, Vec<f64>)>,
}

impl Series {
    /// A curve through points.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (x, y) = points.into_iter().unzip();
        Self { name: name.into(), x, y, spread: None }
    }
}

/// Curves over common axes.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// For those who do not see it.
    pub what: String,
    /// The axes.
    pub x: Axis,
    /// See `x`.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// One on another; all have the same places.
    pub stacked: bool,
    /// Each figure holds until the next place.
    pub stepped: bool,
    /// A line at a place of the x axis, with its words.
    pub mark: Option<(f64, String)>,
}

impl Plot {
    /// Curves, side by side.
    #[must_use]
    pub fn lines(what: &str, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { what: what.into(), x, y, series, stacked: false, stepped: false, mark: None }
    }

    /// The element that the page's script fills.
    #[must_use]
    pub fn html(&self) -> String {
        format!(
            "<div class=\"plot\" role=\"img\" aria-label=\"{}\"><small>{}</small>{}</div>",
            escape(&self.what),
            escape(&self.y.label),
            data(self)
        )
    }
}

/// Names with their colours.
#[must_use]
pub fn legend(names: &[&str]) -> String {
    legend_of(names.iter().copied().enumerate())
}

/// Names with the colours of these numbers.
pub fn legend_of<'a>(names: impl Iterator<Item = (usize, &'a str)>) -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (n, name) in names {
        let _ = write!(out, "<span><i class=\"b{}\"></i>{}</span>", n % COLOURS, escape(name));
    }
    out.push_str("</div>");
    out
}

/// A bar: its label, its parts (one for a plain bar), the words at its end.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Lengths of its parts, in the legend's order.
    pub parts: Vec<f64>,
    /// Colour of a bar with one part.
    pub colour: usize,
    /// The figure, as people read it.
    pub shown: String,
}

/// Horizontal bars, parts one behind the other; `mark` draws a line at a value (1 for ratios).
#[must_use]
pub fn bars(what: &str, bars: &[Bar], mark: Option<f64>) -> String {
    let most = bars.iter().map(|b| b.parts.iter().sum::<f64>()).fold(mark.unwrap_or(0.0), f64::max);
    let scale = if most > 0.0 { 100.0 / most } else { 0.0 };
    let mut out = format!("<div class=\"bars\" role=\"img\" aria-label=\"{}\">", escape(what));
    for bar in bars {
        let _ = write!(
            out,
            "<p><span>{}</span><b>{}</b></p><div class=\"track\">",
            escape(&bar.label),
            escape(&bar.shown)
        );
        for (part, &value) in bar.parts.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let colour = if bar.parts.len() == 1 { bar.colour } else { part };
            let _ = write!(
                out,
                "<i class=\"b{}\" style=\"width:{:.2}%\" title=\"{}\"></i>",
                colour % COLOURS,
                value * scale,
                figure(value)
            );
        }
        if let Some(mark) = mark.filter(|_| most > 0.0) {
            let _ = write!(out, "<u style=\"left:{:.2}%\"></u>", mark * scale);
        }
        out.push_str("</div>");
    }
    out.push_str("</div>");
    out
}

/// Shares from 0 to 1 over time, a strip a row, with words beside some rows.
#[must_use]
pub fn strips(what: &str, rows: &[Vec<f64>], beside: &[(usize, String)], ends: [&str; 2]) -> String {
    let mut out = format!("<div class=\"strips\" role=\"img\" aria-label=\"{}\">", escape(what));
    for (row, cells) in rows.iter().enumerate() {
        let words = beside.iter().find(|(at, _)| *at == row).map_or("", |(_, words)| words.as_str());
        let _ = write!(out, "<span>{}</span><i style=\"background:linear-gradient(to right", escape(words));
        let level = |cell: usize| (cells[cell].clamp(0.0, 1.0) * 20.0).round() as u32 * 5;
        let mut cell = 0;
        while cell < cells.len() {
            // Cells that look alike are one.
            let from = cell;
            while cell < cells.len() && level(cell) == level(from) {
                cell += 1;
            }
            let at = |cell: usize| cell as f64 * 100.0 / cells.len() as f64;
            let _ = write!(
                out,
                ",color-mix(in srgb,var(--c0) {}%,var(--ground)) {:.1}% {:.1}%",
                level(from),
                at(from),
                at(cell)
            );
        }
        out.push_str(")\"></i>");
    }
    let _ = write!(
        out,
        "<span></span><small><span>{}</span><span>{}</span></small></div>",
        escape(ends[0]),
        escape(ends[1])
    );
    out
}

/// A number with at least three digits that count.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v.fract() == 0.0 && v < 1e15 => crate::units::count(v as u64),
        v if v < 10.0 => format!("{value:.3}"),
        v if v < 1000.0 => format!("{value:.1}"),
        _ => crate::units::count(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let bar = Bar { label: "<script>\"&".into(), parts: vec![1.0, 3.0], colour: 0, shown: "1".into() };
        let html = bars("x", &[bar], Some(1.0));
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;&quot;&amp;"), "{html}");
        assert!(html.contains("width:25.00%") && html.contains("left:25.00%"), "{html}");
        let axis = Axis::linear("", Show::Number);
        let html = Plot::lines("x", axis.clone(), axis, vec![Series::new("</script>", [(0.0, 1.0)])]).html();
        assert_eq!(html.matches("</script>").count(), 1, "{html}");
    }

    #[test]
    fn strips_are_as_long_as_their_cells() {
        let html = strips("x", &[vec![0.0, 0.0, 1.0, 1.0]], &[(0, "ch 0".into())], ["0 s", "4 s"]);
        assert!(html.contains("var(--c0) 0%,var(--ground)) 0.0% 50.0%"), "{html}");
        assert!(html.contains("var(--c0) 100%,var(--ground)) 50.0% 100.0%"), "{html}");
    }
}
