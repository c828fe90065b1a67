//! The figures of a run as tiles, those of several as a table and as bars against the first.

use super::groups::label;
use super::page::{Csv, Page};
use super::svg::{self, Bar, escape};
use crate::measure::Summary;
use crate::measure::metrics::{METRICS, Metric, STEADY_BELOW, ratio, steady};
use crate::run::Loaded;
use crate::units::bytes;

/// Figures with a chart in comparisons; the table has them all.
const CHARTED: [&str; 6] = [
    "waf",
    "flash.erases",
    "host.all.iops",
    "host.write.lat_ns.mean",
    "host.write.lat_ns.percentile.99",
    "host.read.lat_ns.mean",
];

/// The most telling figures of a run.
pub(super) fn tiles(s: &Summary) -> String {
    let mut out = String::from("<div class=\"tiles\">");
    for metric in METRICS {
        if let Some(value) = (metric.of)(s) {
            out += &format!(
                "<div class=\"tile\"><b>{}</b><span>{}</span></div>",
                metric.unit.show(value),
                escape(metric.name)
            );
        }
    }
    out += &format!("<div class=\"tile\"><b>{}</b><span>steady</span></div>", steady(s));
    out += &format!(
        "<div class=\"tile\"><b>{:.1}%</b><span>over-provisioning of {}</span></div></div>",
        s.op_ratio * 100.0,
        bytes(s.device_bytes.logical)
    );
    out
}

/// Rows are figures, columns are runs: a figure, and what it is of the first run's.
pub(super) fn table(runs: &[Loaded], group: &[usize]) -> String {
    let mut out = String::from("<div class=\"scroll\"><table><tr><th></th>");
    for &n in group {
        out += &format!("<th>{}</th>", escape(&label(&runs[n], runs)));
    }
    out += "</tr>";
    for metric in METRICS {
        let values: Vec<Option<f64>> = group.iter().map(|&n| (metric.of)(&runs[n].summary)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        out += &format!("<tr><td>{}</td>", escape(metric.name));
        for (n, value) in values.iter().enumerate() {
            let shown = value.map_or_else(|| "-".into(), |v| metric.unit.show(v));
            let class = match (value, values[0]) {
                (Some(v), Some(base)) if n > 0 && (v / base - 1.0).abs() > 0.02 => {
                    if (*v < base) == metric.less_is_better { " class=\"good\"" } else { " class=\"bad\"" }
                }
                _ => "",
            };
            let beside = if n > 0 {
                format!(" <small{class}>{}</small>", ratio(*value, values[0]))
            } else {
                String::new()
            };
            out += &format!("<td>{shown}{beside}</td>");
        }
        out += "</tr>";
        if metric.key == STEADY_BELOW {
            out += "<tr><td>steady</td>";
            for &n in group {
                out += &format!("<td>{}</td>", steady(&runs[n].summary));
            }
            out += "</tr>";
        }
    }
    out + "</table></div>"
}

/// The charted figures of a group, each against the first run's.
pub(super) fn comparisons(page: &mut Page, runs: &[Loaded], group: &[usize]) {
    for metric in METRICS.iter().filter(|m| CHARTED.contains(&m.key)) {
        comparison(page, metric, runs, group);
    }
}

fn comparison(page: &mut Page, metric: &Metric, runs: &[Loaded], group: &[usize]) {
    let values: Vec<Option<f64>> = group.iter().map(|&n| (metric.of)(&runs[n].summary)).collect();
    let Some(base) = values[0].filter(|&b| b != 0.0) else { return };
    let mut csv = Csv::new(["scheme", metric.key, "of_the_first"]);
    let bars: Vec<Bar> = group
        .iter()
        .zip(&values)
        .enumerate()
        .filter_map(|(at, (&n, value))| Some((at, n, (*value)?)))
        .map(|(at, n, value)| {
            csv.row([label(&runs[n], runs), value.to_string(), (value / base).to_string()]);
            Bar {
                label: label(&runs[n], runs),
                parts: vec![value / base],
                colour: at,
                shown: format!("{:.2}x · {}", value / base, metric.unit.show(value)),
            }
        })
        .collect();
    let hint = if metric.less_is_better { "less is better" } else { "more is better" };
    page.card(metric.name, hint, &svg::bars(metric.name, &bars, Some(1.0)), &csv);
}
