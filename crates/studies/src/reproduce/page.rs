//! What papers publish beside what was measured here, as a page.

use nandle_lab::report::chart::{self, Axis, Bar, Plot, Series, Show, escape, figure};
use nandle_lab::report::page::{Csv, Page};

use super::report::said as paper;
use super::{Cell, Curves, Report, Table, Verdict};

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

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "good",
        Verdict::Direction => "fair",
        Verdict::NotMet | Verdict::Worse => "bad",
        Verdict::NotComputed => "hint",
    }
}

fn cell(value: &Cell) -> String {
    match value {
        Cell::Number(number) => number.map_or_else(|| "-".into(), figure),
        Cell::Text(text) => escape(text),
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
    let own =
        |column: usize| table.rows.iter().position(|row| row.get(column) == Some(&Cell::Number(Some(1.0))));
    for (number, row) in table.rows.iter().enumerate() {
        csv.row(row.iter().map(|value| match value {
            Cell::Number(number) => number.map_or_else(String::new, |number| format!("{number:?}")),
            Cell::Text(text) => text.clone(),
        }));
        rows += "<tr>";
        for (column, value) in row.iter().enumerate() {
            rows += &match value {
                Cell::Number(Some(1.0)) if own(column) == Some(number) => {
                    "<td><b class=\"own\">1.00</b></td>".into()
                }
                Cell::Number(Some(ratio)) => format!("<td {}>{ratio:.2}</td>", shade(*ratio)),
                Cell::Text(text) if column == 0 => format!("<td>{}</td>", name(text)),
                _ => "<td>-</td>".into(),
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
pub fn render(report: &Report) -> String {
    let predictions = report.predictions().1;
    let count = |verdicts: &[Verdict]| {
        report.claims.iter().filter(|c| c.predicts() && verdicts.contains(&c.verdict)).count()
    };
    let verdict = format!(
        "{} of {predictions} predictions come out as the paper has them; {} more go its way, {} do not; {} were not computed. \
         {} further figures are inputs, bounds or fitted, and count for nothing.",
        count(&[Verdict::Met]),
        count(&[Verdict::Direction]),
        count(&[Verdict::NotMet, Verdict::Worse]),
        count(&[Verdict::NotComputed]),
        report.claims.len() - predictions
    );
    let (mark, before) = if report.partial { (" (partial)", "Interrupted, partial: ") } else { ("", "") };
    let mut page = Page::new(&format!("{}{mark}", report.title), &format!("{before}{verdict}"));
    page.notes(&report.notes);
    let mut rows = String::new();
    let mut csv = Csv::new(["claim", "place", "what", "workload", "paper", "here", "kind", "verdict", "why"]);
    for c in &report.claims {
        let (said, class) = (c.verdict.words(), class(c.verdict));
        let kind = format!("{}{}", c.kind.word(), if c.fitted { ", fitted" } else { "" });
        let why =
            if c.why.is_empty() { String::new() } else { format!("<br><small>{}</small>", escape(&c.why)) };
        rows += &format!(
            "<tr><td>{}<br><small>{}</small></td><td class=\"words\">{}<br><small>{}</small></td><td data-name=\"paper\">{}</td><td data-name=\"here\">{}</td><td class=\"words\">{}</td><td class=\"words\"><span class=\"{class}\">{said}</span>{why}</td></tr>",
            escape(&c.id),
            escape(&c.place),
            escape(&c.what),
            escape(&c.workload),
            paper(c, figure),
            c.ours.map_or_else(|| "-".into(), figure),
            escape(&kind)
        );
        csv.row([
            c.id.clone(),
            c.place.clone(),
            c.what.clone(),
            c.workload.clone(),
            paper(c, |n| n.to_string()),
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
    let bars: Vec<Bar> = report
        .claims
        .iter()
        .filter(|c| c.paper > 0.0)
        .filter_map(|c| Some((c, c.ours? / c.paper)))
        .map(|(c, ratio)| Bar {
            label: format!("{}: {}", c.id, c.what),
            parts: vec![ratio.clamp(0.0, 3.0)],
            colour: match c.verdict {
                Verdict::Met => 2,
                Verdict::Direction => 1,
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
    if !report.curves.is_empty() {
        page.heading("Over time");
    }
    report.curves.iter().for_each(|curves| chart(&mut page, curves));
    for table in &report.tables {
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
    use super::super::{Claim, Options, Paper, Rule};
    use super::*;

    #[test]
    fn a_claim_not_met_is_shown_as_not_met() {
        let mut report = Report::new(Paper::Waflash, &Options::default());
        report.title = "A <paper>".into();
        let claim =
            |id: &str, what: &str, ours| Claim::new(id, "Fig 1", what, "w", 2.0, ours, Rule::Value(0.2));
        report.claims = vec![
            claim("a", "WAF", 1.9),
            Claim { verdict: Verdict::Worse, why: "another <buffer>".into(), ..claim("b", "latency", 9.0) },
            claim("c", "erases", f64::NAN),
            claim("d", "share", 2.0).input(),
        ];
        let row = |name: &str, figure: f64| vec![Cell::from(name), figure.into()];
        let mut runs = Table::new("runs", &["scheme", "WAF"]);
        runs.rows = vec![row("lru", 1.5), row("x", f64::NAN)];
        let mut heat = Table { ratios: true, ..Table::new("heat", &["scheme", "w<1>"]) };
        heat.rows = vec![row("a+b", 0.25), row("a", 1.0), row("<c>", 1.5), row("d", f64::NAN)];
        report.tables = vec![runs, heat];
        report.curves = vec![Curves {
            title: "WAF of <w>".into(),
            x: "seconds".into(),
            y: "WAF".into(),
            series: vec![("a".into(), vec![(0.0, 1.0), (2.0, 3.0)]), ("b<".into(), vec![(1.0, 2.0)])],
        }];
        report.notes = vec!["quick".into()];
        let html = render(&report);
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
