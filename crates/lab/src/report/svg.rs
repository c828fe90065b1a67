//! Charts as inline SVG: no script, no font, no file beside the page.
//!
//! All charts are [`W`] units wide and scale with their card, so that their text stays readable on a
//! phone. Colours are classes of the page's style sheet (`f0`.. fill, `s0`.. stroke): light and dark
//! are its business. Legends are HTML, which wraps; labels of bars stand above them, where there is
//! room for any name.

use std::fmt::Write;

/// Width of every chart in its own units.
pub const W: f64 = 420.0;
/// Colours that the style sheet has.
pub const COLOURS: usize = 8;

/// Text for HTML and SVG.
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

fn open(height: f64, what: &str) -> String {
    format!("<svg viewBox=\"0 0 {W} {height:.0}\" role=\"img\" aria-label=\"{}\">", escape(what))
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
        escape(words)
    );
}

fn rect(out: &mut String, (x, y, w, h): (f64, f64, f64, f64), class: &str, tip: &str) {
    let _ = write!(
        out,
        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" class=\"{class}\"><title>{}</title></rect>",
        escape(tip)
    );
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let _ =
        write!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>");
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
    const ROW: f64 = 34.0;
    let most = bars.iter().map(|b| b.parts.iter().sum::<f64>()).fold(mark.unwrap_or(0.0), f64::max);
    let scale = if most > 0.0 { W / most } else { 0.0 };
    let height = ROW * bars.len() as f64 + 4.0;
    let mut out = open(height, what);
    for (n, bar) in bars.iter().enumerate() {
        let y = ROW * n as f64;
        text(
            &mut out,
            0.0,
            y + 13.0,
            "start",
            "t",
            &shortened(&bar.label, 60 - bar.shown.chars().count().min(36)),
        );
        text(&mut out, W, y + 13.0, "end", "v", &bar.shown);
        rect(&mut out, (0.0, y + 19.0, W, 10.0), "ground", "");
        let mut x = 0.0;
        for (part, &value) in bar.parts.iter().enumerate() {
            let w = value.max(0.0) * scale;
            let colour = if bar.parts.len() == 1 { bar.colour } else { part };
            if w > 0.0 {
                let tip = format!("{}: {}", bar.label, figure(value));
                rect(&mut out, (x, y + 19.0, w, 10.0), &format!("f{}", colour % COLOURS), &tip);
            }
            x += w;
        }
    }
    if let Some(mark) = mark.filter(|_| most > 0.0) {
        let x = (mark * scale).clamp(1.0, W - 1.0);
        for n in 0..bars.len() {
            line(&mut out, (x, ROW * n as f64 + 17.5), (x, ROW * n as f64 + 31.0), "mark");
        }
    }
    out.push_str("</svg>");
    out
}

/// A label that fits.
fn shortened(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    label.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// How an axis is divided.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// Places and words of its ticks; none: found from the data.
    pub ticks: Vec<(f64, String)>,
    /// A tick's words.
    pub show: fn(f64) -> String,
    /// It begins at 0 (linear ones).
    pub from_zero: bool,
    /// It ends here, whatever the data.
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis from 0 on.
    #[must_use]
    pub fn linear(label: &str, show: fn(f64) -> String) -> Self {
        Self { label: label.into(), log: false, ticks: Vec::new(), show, from_zero: true, to: None }
    }
    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(label: &str, show: fn(f64) -> String) -> Self {
        Self { log: true, ..Self::linear(label, show) }
    }

    fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(|v| v.is_finite() && (!self.log || *v > 0.0)) {
            (low, high) = (low.min(v), high.max(v));
        }
        for &(at, _) in &self.ticks {
            (low, high) = (low.min(at), high.max(at));
        }
        if !low.is_finite() {
            return if self.log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if self.log {
            let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
            return (low, if high > low { high } else { low * 10.0 });
        }
        let low = if self.from_zero { low.min(0.0) } else { low };
        let high = self.to.unwrap_or(high);
        (low, if high > low { high } else { low + 1.0 })
    }

    fn share(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        let share = if self.log {
            (value.max(low).log10() - low.log10()) / (high.log10() - low.log10())
        } else {
            (value - low) / (high - low)
        };
        share.clamp(0.0, 1.0)
    }

    fn divided(&self, (low, high): (f64, f64), most: usize) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            return self.ticks.clone();
        }
        if self.log {
            let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
            let step = ((last - first) as usize).div_ceil(most).max(1);
            return (first..=last)
                .step_by(step)
                .map(|e| 10_f64.powi(e))
                .map(|v| (v, (self.show)(v)))
                .collect();
        }
        let rough = (high - low) / most as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * decade).find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        let first = (low / step).ceil() as i64;
        (0..=most as i64 * 2)
            .map(|n| (first + n) as f64 * step)
            .take_while(|v| *v <= high + step * 1e-9)
            .map(|v| (v, (self.show)(v)))
            .collect()
    }
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 24.0;
const PLOT: f64 = 190.0;
const HEIGHT: f64 = TOP + PLOT + 40.0;

/// Axes, their ticks and labels; returns the ranges.
fn frame(out: &mut String, x: &Axis, y: &Axis, xr: (f64, f64), yr: (f64, f64)) {
    for (at, words) in y.divided(yr, 5) {
        let py = TOP + PLOT * (1.0 - y.share(at, yr));
        line(out, (LEFT, py), (W - RIGHT, py), "grid");
        text(out, LEFT - 5.0, py + 4.0, "end", "n", &words);
    }
    under(out, x, xr, TOP + PLOT);
    line(out, (LEFT, TOP + PLOT), (W - RIGHT, TOP + PLOT), "axis");
    text(out, 0.0, 12.0, "start", "a", &y.label);
    text(out, W - 2.0, HEIGHT - 5.0, "end", "a", &x.label);
}

/// The ticks of the x axis below `bottom`; words that would run into those before them are left out.
fn under(out: &mut String, x: &Axis, xr: (f64, f64), bottom: f64) {
    let mut free = 0.0;
    for (at, words) in x.divided(xr, 5) {
        let px = LEFT + (W - LEFT - RIGHT) * x.share(at, xr);
        line(out, (px, bottom), (px, bottom + 4.0), "axis");
        let half = words.chars().count() as f64 * 3.6;
        let centre = px.min(W - half);
        if centre - half >= free {
            text(out, centre, bottom + 17.0, "middle", "n", &words);
            free = centre + half + 4.0;
        }
    }
}

/// Lines over a common axis, in the legend's order.
#[must_use]
pub fn lines(what: &str, series: &[Vec<(f64, f64)>], x: &Axis, y: &Axis) -> String {
    let xr = x.range(series.iter().flatten().map(|p| p.0));
    let yr = y.range(series.iter().flatten().map(|p| p.1));
    let mut out = open(HEIGHT, what);
    frame(&mut out, x, y, xr, yr);
    for (n, points) in series.iter().enumerate() {
        let mut path = String::new();
        for &(px, py) in points {
            let _ = write!(
                path,
                "{:.1},{:.1} ",
                LEFT + (W - LEFT - RIGHT) * x.share(px, xr),
                TOP + PLOT * (1.0 - y.share(py, yr))
            );
        }
        let _ = write!(out, "<polyline points=\"{}\" class=\"l s{}\"/>", path.trim_end(), n % COLOURS);
    }
    out.push_str("</svg>");
    out
}

/// Layers one on another over cells of the x axis: `edges` has one more than each layer. `mark` draws a
/// dashed line at a place of the x axis.
#[must_use]
pub fn layers(
    what: &str,
    edges: &[f64],
    layers: &[Vec<f64>],
    x: &Axis,
    y: &Axis,
    mark: Option<(f64, &str)>,
) -> String {
    let cells = edges.len().saturating_sub(1);
    let totals = (0..cells).map(|i| layers.iter().map(|l| l[i]).sum::<f64>());
    let xr = Axis { from_zero: false, ..x.clone() }.range(edges.iter().copied());
    let yr = y.range(totals);
    let mut out = open(HEIGHT, what);
    frame(&mut out, x, y, xr, yr);
    let px = |v: f64| LEFT + (W - LEFT - RIGHT) * x.share(v, xr);
    let py = |v: f64| TOP + PLOT * (1.0 - y.share(v, yr));
    let mut below = vec![0.0; cells];
    for (n, layer) in layers.iter().enumerate() {
        if layer.iter().all(|&v| v == 0.0) {
            continue;
        }
        let mut path = String::new();
        for i in 0..cells {
            let top = below[i] + layer[i];
            let _ =
                write!(path, "{:.1},{:.1} {:.1},{:.1} ", px(edges[i]), py(top), px(edges[i + 1]), py(top));
        }
        for i in (0..cells).rev() {
            let _ = write!(
                path,
                "{:.1},{:.1} {:.1},{:.1} ",
                px(edges[i + 1]),
                py(below[i]),
                px(edges[i]),
                py(below[i])
            );
        }
        let _ = write!(out, "<polygon points=\"{}\" class=\"f{}\"/>", path.trim_end(), n % COLOURS);
        below.iter_mut().zip(layer).for_each(|(b, v)| *b += v);
    }
    if let Some((at, words)) = mark {
        let at = px(at);
        line(&mut out, (at, TOP), (at, TOP + PLOT), "mark");
        let anchor = if at > W * 0.7 { "end" } else { "start" };
        text(&mut out, if anchor == "end" { at - 4.0 } else { at + 4.0 }, TOP - 4.0, anchor, "n", words);
    }
    out.push_str("</svg>");
    out
}

/// Columns side by side per cell: `groups[series][cell]`, with words under some cells.
#[must_use]
pub fn columns(what: &str, groups: &[Vec<f64>], under: &[(usize, String)], x: &str, y: &Axis) -> String {
    let cells = groups.first().map_or(0, Vec::len).max(1);
    let yr = y.range(groups.iter().flatten().copied());
    let axis = Axis {
        ticks: under.iter().map(|(cell, words)| (*cell as f64 + 0.5, words.clone())).collect(),
        ..Axis::linear(x, |_| String::new())
    };
    let xr = (0.0, cells as f64);
    let mut out = open(HEIGHT, what);
    frame(&mut out, &axis, y, xr, yr);
    let wide = (W - LEFT - RIGHT) / cells as f64;
    let each = wide * 0.84 / groups.len().max(1) as f64;
    for (n, group) in groups.iter().enumerate() {
        for (cell, &value) in group.iter().enumerate() {
            let h = PLOT * y.share(value, yr);
            if value > 0.0 {
                let left = LEFT + wide * (cell as f64 + 0.08) + each * n as f64;
                // What is there is seen, however little it is.
                let h = h.max(1.0);
                rect(&mut out, (left, TOP + PLOT - h, each, h), &format!("f{}", n % COLOURS), &figure(value));
            }
        }
    }
    out.push_str("</svg>");
    out
}

/// A heat map: `rows[row][cell]` from 0 to 1, words beside some rows.
#[must_use]
pub fn heat(what: &str, edges: &[f64], rows: &[Vec<f64>], beside: &[(usize, String)], x: &Axis) -> String {
    let tall = (150.0 / rows.len().max(1) as f64).clamp(3.0, 22.0);
    let bottom = TOP + tall * rows.len() as f64;
    let height = bottom + 40.0;
    let xr = Axis { from_zero: false, ..x.clone() }.range(edges.iter().copied());
    let px = |v: f64| LEFT + (W - LEFT - RIGHT) * x.share(v, xr);
    let mut out = open(height, what);
    rect(&mut out, (LEFT, TOP, W - LEFT - RIGHT, bottom - TOP), "ground", "");
    for (row, cells) in rows.iter().enumerate() {
        let mut cell = 0;
        while cell < cells.len() {
            // Cells that look alike are one.
            let level = (cells[cell].clamp(0.0, 1.0) * 20.0).round() as u32;
            let mut end = cell + 1;
            while end < cells.len() && (cells[end].clamp(0.0, 1.0) * 20.0).round() as u32 == level {
                end += 1;
            }
            if level > 0 {
                let (left, right) = (px(edges[cell]), px(edges[end]));
                let _ = write!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" class=\"f0\" opacity=\"{:.2}\"><title>{}%</title></rect>",
                    TOP + tall * row as f64,
                    right - left,
                    f64::from(level) / 20.0,
                    level * 5
                );
            }
            cell = end;
        }
    }
    for (row, words) in beside {
        text(
            &mut out,
            LEFT - 5.0,
            TOP + tall * (*row as f64) + tall.min(14.0) * 0.5 + 4.0,
            "end",
            "n",
            words,
        );
    }
    under(&mut out, x, xr, bottom);
    text(&mut out, W - 2.0, height - 5.0, "end", "a", &x.label);
    // What the shades mean.
    text(&mut out, 0.0, 12.0, "start", "a", "busy:  0%");
    for step in 0..=10 {
        let x = 58.0 + 12.0 * f64::from(step);
        let _ = write!(
            out,
            "<rect x=\"{x:.0}\" y=\"3\" width=\"12\" height=\"10\" class=\"f0\" opacity=\"{:.2}\"/>",
            f64::from(step) / 10.0
        );
    }
    text(&mut out, 196.0, 12.0, "start", "a", "100%");
    out.push_str("</svg>");
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

/// A number on an axis, without zeros that say nothing.
#[must_use]
pub fn short(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return figure(value.round());
    }
    let digits = format!("{value:.3}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::linear("", |v| format!("{v}"));
        let ticks: Vec<f64> = axis.divided((0.0, 13.0), 5).into_iter().map(|t| t.0).collect();
        assert_eq!(ticks, [0.0, 5.0, 10.0]);
        let log = Axis::logarithmic("", |v| format!("{v}"));
        assert_eq!(log.range([30.0, 4_000.0].into_iter()), (10.0, 10_000.0));
        assert_eq!(log.divided((10.0, 10_000.0), 5).len(), 4);
        assert_eq!(axis.range(std::iter::empty()), (0.0, 1.0));
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let bar = Bar { label: "<script>\"&".into(), parts: vec![1.0], colour: 0, shown: "1".into() };
        let svg = bars("x", &[bar], Some(1.0));
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&quot;&amp;"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
