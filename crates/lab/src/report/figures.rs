//! The figures of a run as tiles, those of several as tables.

use super::chart::escape;
use super::groups::{Family, Names};
use crate::measure::Summary;
use crate::measure::metrics::{METRICS, Metric, STEADY_BELOW, lengths, ratio, steady};
use crate::run::Loaded;
use crate::units::bytes;

/// Figures that runs are compared by at first sight; the folded table has them all.
const FIRST: [&str; 7] = [
    "waf",
    "waf_steady",
    "flash.erases",
    "host.write.lat_ns.mean",
    "host.write.lat_ns.percentile.99",
    "host.read.lat_ns.mean",
    "host.all.iops",
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

/// What a figure is of the first run's, coloured where it matters; `alike`: the runs served as many requests.
fn beside(metric: &Metric, value: Option<f64>, base: Option<f64>, alike: bool) -> String {
    if !alike && metric.adds_up() {
        return String::new();
    }
    let class = match (value, base) {
        (Some(v), Some(base)) if (v / base - 1.0).abs() > 0.02 => {
            if (v < base) == metric.less_is_better {
                " class=\"good\""
            } else {
                " class=\"bad\""
            }
        }
        _ => "",
    };
    format!(" <small{class}>{}</small>", ratio(value, base))
}

/// Whether all served as many requests.
pub(super) fn alike<'a>(runs: impl Iterator<Item = &'a Summary>) -> bool {
    let (least, most) = lengths(runs);
    least >= most
}

/// Said where they did not.
pub(super) const UNEQUAL: &str =
    "<p class=\"hint\">The runs are of unequal length: counts are not compared.</p>";

/// Least, mean and most of a figure over the seeds of a member.
fn spread(metric: &Metric, runs: &[Loaded], member: &[usize]) -> Option<(f64, f64, f64)> {
    let values: Vec<f64> = member.iter().filter_map(|&n| (metric.of)(&runs[n].summary)).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, mean, values.iter().copied().fold(least, f64::max)))
}

/// A row a scheme, seeds averaged: each figure, its spread over seeds, and what it is of the first row's.
pub(super) fn averaged(runs: &[Loaded], family: &Family) -> String {
    let shown: Vec<&Metric> = METRICS.iter().filter(|m| FIRST.contains(&m.key)).collect();
    let shown: Vec<&Metric> =
        shown.into_iter().filter(|m| runs.iter().any(|run| (m.of)(&run.summary).is_some())).collect();
    // Beside the WAF that it is about, where no narrow window cuts it off.
    let at = shown.iter().position(|m| m.key == STEADY_BELOW).map_or(0, |at| at + 1);
    let mut heads: Vec<String> = shown.iter().map(|m| format!("<th>{}</th>", escape(m.name))).collect();
    heads.insert(at, "<th>steady</th>".into());
    let members = family.members.iter().flat_map(|(_, member)| member);
    let alike = alike(members.map(|&n| &runs[n].summary));
    let hint = if alike { "" } else { UNEQUAL };
    let heads = heads.concat();
    let mut out = format!("{hint}<div class=\"scroll\" tabindex=\"0\"><table><tr><th></th>{heads}</tr>");
    for (name, member) in &family.members {
        out += &format!("<tr><td class=\"name\">{}</td>", escape(name).replace('+', "+<wbr>"));
        let mut cells = Vec::new();
        for metric in &shown {
            let own = spread(metric, runs, member);
            let base = family.members.first().and_then(|(_, first)| spread(metric, runs, first));
            let Some((least, mean, most)) = own else {
                cells.push("<td>-</td>".to_owned());
                continue;
            };
            let beside = beside(metric, Some(mean), base.map(|b| b.1), alike);
            let range = match most > least {
                true => {
                    format!("<br><small>{} to {}</small>", metric.unit.show(least), metric.unit.show(most))
                }
                false => String::new(),
            };
            cells.push(format!("<td>{}{beside}{range}</td>", metric.unit.show(mean)));
        }
        let held = member.iter().filter(|&&n| runs[n].summary.steady_state).count();
        let wrote = member.iter().filter(|&&n| runs[n].summary.waf.is_some()).count();
        let word = match (held, wrote) {
            (_, 0) => "-".to_owned(),
            (held, wrote) if held == wrote => "yes".into(),
            (0, _) => "no".into(),
            (held, wrote) => format!("{held} of {wrote}"),
        };
        cells.insert(at, format!("<td>{word}</td>"));
        out += &(cells.concat() + "</tr>");
    }
    out + "</table></div>"
}

/// Rows are figures, columns are runs: a figure, and what it is of the first run's.
pub(super) fn table(runs: &[Loaded], names: &Names, group: &[usize]) -> String {
    let alike = alike(group.iter().map(|&n| &runs[n].summary));
    let hint = if alike { "" } else { UNEQUAL };
    let mut out = format!("{hint}<div class=\"scroll\" tabindex=\"0\"><table><tr><th></th>");
    for &n in group {
        out += &format!("<th>{}</th>", escape(&names.label(n)));
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
            let beside = if n > 0 { beside(metric, *value, values[0], alike) } else { String::new() };
            out += &format!("<td>{shown}{beside}</td>");
        }
        out += "</tr>";
        if metric.key == STEADY_BELOW {
            let held: String =
                group.iter().map(|&n| format!("<td>{}</td>", steady(&runs[n].summary))).collect();
            out += &format!("<tr><td>steady</td>{held}</tr>");
        }
    }
    out + "</table></div>"
}
