//! What papers publish beside what was measured here, as a page.

use serde::{Deserialize, Serialize};

use super::chart::{self, Axis, Bar, Plot, Series, Show, escape, figure};
use super::page::{Csv, Page};

/// Claims of a paper and what became of them. Fields that a writer adds are ignored, so that any list
/// of claims with these can be shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The paper.
    pub title: String,
    /// The runs were interrupted: claims are missing.
    pub partial: bool,
    /// Its claims.
    pub claims: Vec<Entry>,
    /// Tables of the runs behind them.
    pub tables: Vec<Table>,
    /// What changes while they run.
    pub curves: Vec<Curves>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its name in the list of claims.
    pub id: String,
    /// Figure or section of the paper.
    pub place: String,
    /// What is measured.
    pub what: String,
    /// The workload that it was measured with here.
    pub workload: String,
    /// The paper's figure.
    pub paper: f64,
    /// Ours; none if it was not computed.
    pub ours: Option<f64>,
    /// `input`, `direction` or `prediction`.
    pub kind: String,
    /// A setting was chosen so that it comes out.
    pub fitted: bool,
    /// `met`, `direction`, `not-met`, `worse` or `not-computed`.
    pub verdict: String,
    /// Why ours differs, or why there is none.
    pub why: String,
}

/// Figures of several runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of its columns.
    pub columns: Vec<String>,
    /// One row a run: text, a number, or nothing.
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Its numbers are costs relative to one run of their column, which has 1: shown as a heat map.
    pub ratios: bool,
}

/// A chart of several runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curves {
    /// What it shows.
    pub title: String,
    /// What its axes are.
    pub x: String,
    /// See `x`.
    pub y: String,
    /// Name and points of each run.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// A line a run.
fn chart(page: &mut Page, curves: &Curves) {
    let mut csv = Csv::new(["run", curves.x.as_str(), curves.y.as_str()]);
    for (name, points) in &curves.series {
        points.iter().for_each(|(x, y)| csv.row([name.clone(), x.to_string(), y.to_string()]));
    }
    let series = curves.series.iter().map(|(name, points)| Series::new(name, points.iter().copied()));
    let (x, y) = (Axis::linear(&curves.x, Show::Number), Axis::linear(&curves.y, Show::Number));
    page.card(&curves.title, "", &Plot::lines(&curves.title, x, y, series.collect()).html(), &csv);
}

fn words(verdict: &str) -> (&'static str, &'static str) {
    match verdict {
        "met" => ("met", "good"),
        "direction" => ("direction only", "fair"),
        "not-met" => ("not met", "bad"),
        "worse" => ("worse", "bad"),
        _ => ("not computed", "hint"),
    }
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".into(),
        serde_json::Value::String(text) => escape(text),
        other => other.as_f64().map_or_else(|| escape(&other.to_string()), figure),
    }
}

/// A ratio's place on a scale from -100 (half or less) through 0 (the same) to 100 (twice or more).
fn warmth(ratio: f64) -> i32 {
    if ratio > 0.0 { (ratio.log2().clamp(-1.0, 1.0) * 100.0).round() as i32 } else { 0 }
}

/// A cell's class and depth of colour.
fn shade(ratio: f64) -> String {
    let warmth = warmth(ratio);
    let class = if warmth < 0 { "less" } else { "more" };
    // What the figure is read against stays legible at full depth.
    format!("class=\"{class}\" style=\"--depth: {}%\"", warmth.abs() * 6 / 10)
}

/// Costs relative to one run of their column, as a map: rows are schemes, columns workloads.
fn heat(page: &mut Page, table: &Table) {
    let mut csv = Csv::new(table.columns.iter().map(String::as_str));
    // Sums of schemes may break behind a plus, where there is no room for them.
    let name = |text: &str| escape(text).replace('+', "+<wbr>");
    let head = |text: &String| format!("<th>{}</th>", escape(text).replace(':', ":<wbr>"));
    let heads: String = table.columns.iter().map(head).collect();
    let mut rows = String::new();
    // The run that its column is relative to: the first with 1.
    let own = |column: usize| {
        let mut values = table.rows.iter().map(|row| row.get(column).and_then(serde_json::Value::as_f64));
        values.position(|value| value == Some(1.0))
    };
    for (number, row) in table.rows.iter().enumerate() {
        csv.row(row.iter().map(|value| match value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        }));
        rows += "<tr>";
        for (column, value) in row.iter().enumerate() {
            rows += &match value.as_f64() {
                Some(1.0) if own(column) == Some(number) => "<td><b class=\"own\">1.00</b></td>".into(),
                Some(ratio) => format!("<td {}>{ratio:.2}</td>", shade(ratio)),
                None if column == 0 => format!("<td>{}</td>", name(value.as_str().unwrap_or_default())),
                None => "<td>-</td>".into(),
            };
        }
        rows += "</tr>";
    }
    let scale: String = [0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0]
        .iter()
        .map(|&ratio| format!("<td {}>{ratio}</td>", shade(ratio)))
        .collect();
    let html = format!(
        "<table class=\"heat scale\"><tr><th>less</th>{scale}<th>more</th></tr></table>\
         <div class=\"scroll\"><table class=\"heat\"><tr>{heads}</tr>{rows}</table></div>"
    );
    let hint = "A column is a paper's own workload and metric, the framed 1.00 its own scheme. Green costs less, \
                red more; the colours are full at half and at twice the cost.";
    page.broad(&table.title, hint, &html, &csv);
}

/// The page.
#[must_use]
pub fn render(ledger: &Ledger) -> String {
    let predicts = |c: &&Entry| c.kind == "prediction" && !c.fitted;
    let predictions = ledger.claims.iter().filter(predicts).count();
    let count = |verdicts: &[&str]| {
        ledger.claims.iter().filter(predicts).filter(|c| verdicts.contains(&c.verdict.as_str())).count()
    };
    let verdict = format!(
        "{} of {predictions} predictions come out as the paper has them; {} more go its way, {} do not; {} were not computed. \
         {} further figures are inputs, bounds or fitted, and count for nothing.",
        count(&["met"]),
        count(&["direction"]),
        count(&["not-met", "worse"]),
        count(&["not-computed"]),
        ledger.claims.len() - predictions
    );
    let (mark, before) = if ledger.partial { (" (partial)", "Interrupted, partial: ") } else { ("", "") };
    let mut page = Page::new(&format!("{}{mark}", ledger.title), &format!("{before}{verdict}"));
    page.notes(&ledger.notes);
    let mut rows = String::new();
    let mut csv = Csv::new(["claim", "place", "what", "workload", "paper", "here", "kind", "verdict", "why"]);
    for c in &ledger.claims {
        let (said, class) = words(&c.verdict);
        let kind = format!("{}{}", c.kind, if c.fitted { ", fitted" } else { "" });
        let why =
            if c.why.is_empty() { String::new() } else { format!("<br><small>{}</small>", escape(&c.why)) };
        rows += &format!(
            "<tr><td>{}<br><small>{}</small></td><td class=\"words\">{}<br><small>{}</small></td><td data-name=\"paper\">{}</td><td data-name=\"here\">{}</td><td class=\"words\">{}</td><td class=\"words\"><span class=\"{class}\">{said}</span>{why}</td></tr>",
            escape(&c.id),
            escape(&c.place),
            escape(&c.what),
            escape(&c.workload),
            figure(c.paper),
            c.ours.map_or_else(|| "-".into(), figure),
            escape(&kind)
        );
        csv.row([
            c.id.clone(),
            c.place.clone(),
            c.what.clone(),
            c.workload.clone(),
            c.paper.to_string(),
            c.ours.map_or_else(String::new, |v| v.to_string()),
            kind,
            said.into(),
            c.why.clone(),
        ]);
    }
    page.heading("Claims");
    page.wide(&format!(
        "<div class=\"scroll\"><table class=\"stack\"><tr><th>claim</th><th class=\"words\">what</th><th>paper</th><th>here</th><th class=\"words\">kind</th><th class=\"words\">verdict</th></tr>{rows}</table></div>"
    ));
    page.heading("Side by side");
    let bars: Vec<Bar> = ledger
        .claims
        .iter()
        .filter(|c| c.paper > 0.0)
        .filter_map(|c| Some((c, c.ours? / c.paper)))
        .map(|(c, ratio)| Bar {
            label: format!("{}: {}", c.id, c.what),
            parts: vec![ratio.clamp(0.0, 3.0)],
            colour: match c.verdict.as_str() {
                "met" => 2,
                "direction" => 1,
                _ => 3,
            },
            shown: format!("{ratio:.2}x"),
        })
        .collect();
    page.card(
        "Ours as a multiple of the paper's",
        "The dashed line is the paper. Green: met; orange: direction only; red: not met. Bars end at 3x.",
        &chart::bars("ours as a multiple of the paper's", &bars, Some(1.0)),
        &csv,
    );
    if !ledger.curves.is_empty() {
        page.heading("Over time");
    }
    ledger.curves.iter().for_each(|curves| chart(&mut page, curves));
    for table in &ledger.tables {
        if table.ratios {
            heat(&mut page, table);
            continue;
        }
        page.heading(&table.title);
        let heads: String = table.columns.iter().map(|c| format!("<th>{}</th>", escape(c))).collect();
        let rows: String = table
            .rows
            .iter()
            .map(|row| {
                let cells: String = row.iter().map(|v| format!("<td>{}</td>", cell(v))).collect();
                format!("<tr>{cells}</tr>")
            })
            .collect();
        page.wide(&format!("<div class=\"scroll\"><table><tr>{heads}</tr>{rows}</table></div>"));
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_not_met_is_shown_as_not_met() {
        let ledger: Ledger = serde_json::from_value(serde_json::json!({
            "title": "A <paper>", "schema_version": 1,
            "claims": [
                { "id": "a", "place": "Fig 1", "what": "WAF", "workload": "w", "paper": 2.0, "ours": 1.9, "rule": "value", "margin": 0.2, "kind": "prediction", "fitted": false, "verdict": "met", "why": "" },
                { "id": "b", "place": "Fig 2", "what": "latency", "workload": "w", "paper": 2.0, "ours": 9.0, "kind": "prediction", "verdict": "worse", "why": "another <buffer>" },
                { "id": "c", "place": "Fig 3", "what": "erases", "workload": "-", "paper": 1.0, "ours": null, "kind": "prediction", "verdict": "not-computed", "why": "no trace" },
                { "id": "d", "place": "Fig 4", "what": "share", "workload": "w", "paper": 1.0, "ours": 1.0, "kind": "input", "verdict": "met", "why": "" },
            ],
            "tables": [
                { "title": "runs", "columns": ["scheme", "WAF"], "rows": [["lru", 1.5], ["x", null]] },
                { "title": "heat", "columns": ["scheme", "w<1>"], "ratios": true,
                  "rows": [["a+b", 0.25], ["a", 1.0], ["<c>", 1.5], ["d", null]] },
            ],
            "curves": [
                { "title": "WAF of <w>", "x": "seconds", "y": "WAF", "series": [["a", [[0.0, 1.0], [2.0, 3.0]]], ["b<", [[1.0, 2.0]]]] },
            ],
            "notes": ["quick"],
        }))
        .expect("plain data");
        let html = render(&ledger);
        for part in [
            "1 of 3 predictions",
            "1 do not; 1 were not computed",
            "1 further figures are inputs",
            ">worse<",
            "another &lt;buffer&gt;",
            "4.50x",
            "A &lt;paper&gt;",
            "quick",
            "WAF of &lt;w&gt;",
            "b\\u003c",
            "run,seconds,WAF%0Aa,0,1%0Aa,2,3%0A",
            "<td>a+<wbr>b</td><td class=\"less\" style=\"--depth: 60%\">0.25</td>",
            "<b class=\"own\">1.00</b>",
            "<td>&lt;c&gt;</td><td class=\"more\" style=\"--depth: 34%\">1.50</td>",
            "<td>d</td><td>-</td>",
            "scheme,w%3C1%3E%0Aa%2Bb,0.25%0Aa,1.0%0A%3Cc%3E,1.5%0Ad,%0A",
        ] {
            assert!(html.contains(part), "no {part:?} in\n{html}");
        }
        assert!(!html.contains("<buffer>") && !html.contains("\"b<\""));
    }
}
