//! What became of the claims of a paper, as data and as text.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Claim, Kind, Options, Paper, Verdict};

/// A paper's claims and the runs behind them, as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of the program.
    pub version: String,
    /// The paper.
    pub paper: Paper,
    /// Its title, or nearly.
    pub title: String,
    /// Smaller devices and fewer requests than the paper's.
    pub quick: bool,
    /// It was interrupted: claims are missing.
    #[serde(default)]
    pub partial: bool,
    /// Seed of devices and generated workloads.
    pub seed: u64,
    /// Each figure that the paper publishes, and ours.
    pub claims: Vec<Claim>,
    /// The runs behind them.
    pub tables: Vec<Table>,
    /// What changes while they run.
    #[serde(default)]
    pub curves: Vec<Curves>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// A chart of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// What it shows.
    pub title: String,
    /// What its axes are, with units.
    pub x: String,
    /// See `x`.
    pub y: String,
    /// Name and points of each run.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Figures of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of its columns, with units.
    pub columns: Vec<String>,
    /// One row a run.
    pub rows: Vec<Vec<Cell>>,
    /// Its numbers are costs relative to one run of their column, which has 1.
    #[serde(default)]
    pub ratios: bool,
}

/// One field of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A figure; none if there is nothing to measure.
    Number(Option<f64>),
    /// A name.
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number.is_finite().then_some(number))
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(Some(number as f64))
    }
}

impl Table {
    pub(super) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&c| c.to_owned()).collect(),
            rows: Vec::new(),
            ratios: false,
        }
    }

    fn lines(&self) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect()
    }
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(None) => "-".into(),
            Self::Number(Some(n)) => figure(*n),
        }
    }
}

/// What the paper has: a figure, or both ends of a range.
pub(super) fn said(claim: &Claim, figure: fn(f64) -> String) -> String {
    match claim.range() {
        Some([least, most]) => format!("{} to {}", figure(least), figure(most)),
        None => figure(claim.paper),
    }
}

/// A number with three digits behind the point at most, and three that count where it is large.
fn figure(n: f64) -> String {
    match n.abs() {
        _ if n.fract() == 0.0 && n.abs() < 1e15 => format!("{n:.0}"),
        m if m < 0.01 => format!("{n:.5}"),
        m if m < 10.0 => format!("{n:.3}"),
        m if m < 100.0 => format!("{n:.2}"),
        m if m < 1000.0 => format!("{n:.1}"),
        _ => format!("{n:.0}"),
    }
}

const HEADS: [&str; 8] = ["claim", "place", "what", "workload", "paper", "here", "kind", ""];

impl Report {
    pub(super) fn new(paper: Paper, options: &Options) -> Self {
        Self {
            schema_version: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            paper,
            title: paper.title().into(),
            quick: options.quick,
            partial: false,
            seed: options.seed,
            claims: Vec::new(),
            tables: Vec::new(),
            curves: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Predictions that are met, and all of them.
    #[must_use]
    pub fn predictions(&self) -> (usize, usize) {
        let met = self.claims.iter().filter(|c| c.predicts() && c.verdict == Verdict::Met).count();
        (met, self.claims.iter().filter(|c| c.predicts()).count())
    }

    /// How many figures were met, each kind by itself.
    #[must_use]
    pub fn tally(&self) -> String {
        let (met, predictions) = self.predictions();
        let mut parts = vec![format!("{met} of {predictions} predictions met")];
        for verdict in &Verdict::ALL[1..] {
            let count = self.claims.iter().filter(|c| c.predicts() && c.verdict == *verdict).count();
            if count > 0 {
                parts.push(format!("{count} {}", verdict.words()));
            }
        }
        let mut text = parts.join(", ");
        let others = [
            ("directions hold", Some(Kind::Direction)),
            ("inputs come out", Some(Kind::Input)),
            ("fitted figures come out", None),
        ];
        for (words, kind) in others {
            let wanted = |c: &&Claim| kind.map_or(c.fitted, |kind| c.kind == kind && !c.fitted);
            let all = self.claims.iter().filter(wanted).count();
            let met = self.claims.iter().filter(wanted).filter(|c| c.verdict == Verdict::Met).count();
            if all > 0 {
                text += &format!("; {met} of {all} {words}");
            }
        }
        text
    }

    fn claim_lines(&self) -> Vec<Vec<String>> {
        let line = |c: &Claim| {
            vec![
                c.id.clone(),
                c.place.clone(),
                c.what.clone(),
                c.workload.clone(),
                said(c, figure),
                c.ours.map_or_else(|| "-".into(), figure),
                format!("{}{}", c.kind.word(), if c.fitted { ", fitted" } else { "" }),
                c.verdict.words().to_owned(),
            ]
        };
        self.claims.iter().map(line).collect()
    }

    /// Reasons, each once, with the figures that they explain.
    fn reasons(&self) -> Vec<(&str, Vec<String>)> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for c in self.claims.iter().filter(|c| !c.why.is_empty()) {
            let figure = format!("{} ({})", c.id, c.what);
            match reasons.iter_mut().find(|(why, _)| *why == c.why) {
                Some((_, figures)) => figures.push(figure),
                None => reasons.push((&c.why, vec![figure])),
            }
        }
        reasons
    }

    /// What stands behind the title.
    fn marks(&self) -> &'static str {
        match (self.quick, self.partial) {
            (false, false) => "",
            (true, false) => " (quick)",
            (false, true) => " (partial)",
            (true, true) => " (quick, partial)",
        }
    }

    /// The claims as a terminal shows them; with `tables`, the runs too.
    #[must_use]
    pub fn text(&self, tables: bool) -> String {
        let mut out = format!("{}{}\n\n", self.title, self.marks());
        aligned(&mut out, &HEADS.map(str::to_owned), &self.claim_lines());
        for (why, figures) in self.reasons() {
            let _ = write!(out, "\n{}:\n  {why}\n", figures.join(", "));
        }
        for table in self.tables.iter().filter(|_| tables) {
            let _ = writeln!(out, "\n{}", table.title);
            aligned(&mut out, &table.columns, &table.lines());
        }
        for note in &self.notes {
            let _ = write!(out, "\nnote: {note}\n");
        }
        let _ = writeln!(out, "\n{}", self.tally());
        out
    }

    /// Claims, reasons and runs as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}{}\n\n{}.\n\n", self.title, self.marks(), self.tally());
        piped(&mut out, &HEADS.map(str::to_owned), &self.claim_lines());
        let reasons = self.reasons();
        if !reasons.is_empty() {
            out += "\n## Why\n\n";
        }
        for (why, figures) in reasons {
            let _ = writeln!(out, "- **{}**: {why}", figures.join(", "));
        }
        for table in &self.tables {
            let _ = write!(out, "\n## {}\n\n", table.title);
            piped(&mut out, &table.columns, &table.lines());
        }
        if !self.notes.is_empty() {
            out += "\n## Notes\n\n";
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out
    }
}

/// Whether a column holds figures only, which stand to the right.
fn figures(lines: &[Vec<String>], column: usize) -> bool {
    lines.iter().all(|l| l.get(column).is_some_and(|f| f == "-" || f.parse::<f64>().is_ok()))
}

fn aligned(out: &mut String, heads: &[String], lines: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|l| l.get(column));
        cells.chain([&heads[column]]).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let columns: Vec<(usize, bool)> = (0..heads.len()).map(|c| (width(c), figures(lines, c))).collect();
    for line in std::iter::once(heads).chain(lines.iter().map(Vec::as_slice)) {
        let mut text = String::new();
        for (cell, (width, right)) in line.iter().zip(&columns) {
            let _ = if *right { write!(text, "{cell:>width$}  ") } else { write!(text, "{cell:<width$}  ") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

fn piped(out: &mut String, heads: &[String], lines: &[Vec<String>]) {
    let _ = writeln!(out, "| {} |", heads.join(" | "));
    let rule: Vec<&str> = (0..heads.len()).map(|c| if figures(lines, c) { "---:" } else { "---" }).collect();
    let _ = writeln!(out, "| {} |", rule.join(" | "));
    for line in lines {
        let _ = writeln!(out, "| {} |", line.join(" | "));
    }
}
