//! Figures over a setting that a sweep goes through: a line a scheme, seeds averaged, with their spread.

use std::collections::BTreeMap;

use super::chart::{Axis, Plot, Series, Show};
use super::groups::Names;
use super::page::{Csv, Page};
use crate::measure::metrics::{METRICS, Metric, Unit};
use crate::run::Loaded;

/// Figures with a chart.
const CHARTED: [&str; 4] = ["waf_steady", "host.write.lat_ns.mean", "host.read.lat_ns.mean", "host.all.iops"];

/// A run by what it was asked to be.
struct Asked<'a> {
    run: &'a Loaded,
    settings: &'a BTreeMap<String, String>,
    /// Its place among all.
    number: usize,
}

/// The values of the swept setting, and what the runs of each value gave.
type Line = BTreeMap<u64, Vec<f64>>;

/// A chart of each figure over each swept setting, for runs of one workload on one device.
pub(super) fn charts(page: &mut Page, runs: &[Loaded], names: &Names) {
    let mut families: BTreeMap<(&str, &str), Vec<Asked<'_>>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        let key = (names.workloads[number].as_str(), run.summary.device.as_str());
        families.entry(key).or_default().push(Asked { run, settings: &names.settings[number], number });
    }
    for ((workload, device), family) in &families {
        let swept = swept(family);
        for name in &swept {
            page.heading(&format!("{workload} on {device}, by {name}"));
            for metric in METRICS.iter().filter(|m| CHARTED.contains(&m.key)) {
                chart(page, family, names, name, metric);
            }
        }
    }
}

/// Settings in which runs of one scheme differ, all of whose values are numbers.
fn swept(family: &[Asked<'_>]) -> Vec<String> {
    let Some(first) = family.first() else { return Vec::new() };
    let differs = |name: &String| {
        family.iter().any(|a| {
            let same = |b: &&Asked<'_>| b.run.summary.scheme == a.run.summary.scheme;
            family.iter().filter(same).any(|b| a.settings.get(name) != b.settings.get(name))
        })
    };
    let numbers = |name: &String| family.iter().all(|a| value(a, name).is_some());
    first.settings.keys().filter(|name| numbers(name) && differs(name)).cloned().collect()
}

fn value(asked: &Asked<'_>, name: &str) -> Option<f64> {
    asked.settings.get(name)?.parse().ok().filter(|v: &f64| v.is_finite() && *v >= 0.0)
}

fn chart(page: &mut Page, family: &[Asked<'_>], names: &Names, name: &str, metric: &Metric) {
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    let mut moving = 0;
    for asked in family {
        let (Some(x), Some(y)) = (value(asked, name), (metric.of)(&asked.run.summary)) else { continue };
        moving += usize::from(asked.run.summary.waf.is_some() && !asked.run.summary.steady_state);
        let line = lines.entry(names.label_but(asked.number, name)).or_default();
        // Bits of numbers from 0 on sort as the numbers do.
        line.entry(x.to_bits()).or_default().push(y);
    }
    if lines.values().all(|line| line.len() < 2) {
        return;
    }
    let mut csv = Csv::new(["scheme", name, metric.key, "least", "most", "runs"]);
    let mut series = Vec::new();
    for (label, line) in &lines {
        let mut curve = Series { spread: Some(Default::default()), ..Series::new(label, []) };
        for (x, values) in line {
            let x = f64::from_bits(*x);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            let most = values.iter().copied().fold(f64::MIN, f64::max);
            let figures = [x, mean, least, most].map(|v| v.to_string());
            csv.row([label.clone()].into_iter().chain(figures).chain([values.len().to_string()]));
            curve.x.push(x);
            curve.y.push(mean);
            if let Some((low, high)) = &mut curve.spread {
                low.push(least);
                high.push(most);
            }
        }
        series.push(curve);
    }
    let show = if metric.unit == Unit::Ns { Show::Ns } else { Show::Number };
    let title = format!("{} by {name}", metric.name);
    let plot = Plot::lines(&title, Axis::linear(name, Show::Number), Axis::linear(metric.name, show), series);
    let hint = match moving {
        0 => "Means over seeds; the shade goes from the least to the most.".to_owned(),
        n => format!(
            "Means over seeds; the shade goes from the least to the most. {n} of {} runs were not steady.",
            family.len()
        ),
    };
    page.card(&title, &hint, &plot.html(), &csv);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Summary;

    fn run(scheme: &str, op_ratio: f64, seed: u64, waf: f64) -> Loaded {
        let summary = Summary {
            scheme: scheme.into(),
            workload: "w".into(),
            device: "d".into(),
            seed,
            waf: Some(waf),
            waf_steady: Some(waf),
            steady_state: seed == 1,
            ..Summary::default()
        };
        Loaded {
            path: Default::default(),
            summary,
            manifest: serde_json::Value::Null,
            config: format!("op_ratio = {op_ratio}\n[scheme]\nmapping = {scheme:?}\n"),
            series: nandle_table::Table::default(),
            latency: Vec::new(),
        }
    }

    #[test]
    fn a_fraction_of_a_drive_is_shown_with_the_settings_that_were_asked_for() {
        let fraction = |asked: &str, resolved: f64| Loaded {
            manifest: serde_json::json!({ "settings": { "op_ratio": asked } }),
            ..run("a", resolved, 1, 2.0)
        };
        let runs = [fraction("0.2", 0.2375), fraction("0.3", 0.3406)];
        let names = Names::of(&runs);
        assert_eq!([names.label(0), names.label(1)], ["a, op_ratio=0.2", "a, op_ratio=0.3"]);
    }

    #[test]
    fn seeds_are_averaged_and_their_spread_is_shown() {
        let runs = [
            run("a", 0.1, 1, 4.0),
            run("a", 0.1, 2, 5.0),
            run("a", 0.2, 1, 2.0),
            run("b", 0.1, 1, 3.0),
            run("b", 0.2, 1, 1.5),
        ];
        let mut page = Page::new("t", "v");
        charts(&mut page, &runs, &Names::of(&runs));
        let html = page.finish();
        for part in [
            "w on d, by op_ratio",
            "a,0.1,4.5,4,5,2%0A",
            "b,0.2,1.5,1.5,1.5,1%0A",
            "1 of 5 runs were not steady",
        ] {
            assert!(html.contains(part), "no {part:?} in\n{html}");
        }
        // The scheme is no number, and alone nothing is swept.
        assert!(!html.contains("by scheme.mapping"));
        let mut page = Page::new("t", "v");
        charts(&mut page, &runs[..2], &Names::of(&runs[..2]));
        assert!(!page.finish().contains("by op_ratio"));
    }
}
