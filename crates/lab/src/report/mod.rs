//! Reports: runs that were done, as one HTML file that opens anywhere.
//!
//! Everything comes from the files of run directories ([`Loaded`]), so that a report can be made again
//! at any time. Charts are inline SVG drawn by [`svg`]: there is no script in the page and nothing is
//! fetched.

pub mod ledger;
mod page;
pub mod svg;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow_array::{Array, Float64Array, ListArray, RecordBatch, UInt32Array, UInt64Array};

use crate::Error;
use crate::measure::Summary;
use crate::measure::metrics::{METRICS, Metric, ratio};
use crate::run::Loaded;
use crate::units::{bytes, count, time};
pub use page::STYLE;
use page::{Csv, Page};
use svg::{Axis, Bar, escape, figure};

/// Runs shown chart by chart; further ones are in the tables alone.
const DETAILED: usize = 12;
/// Figures with a chart in comparisons; the table has them all.
const CHARTED: [&str; 6] = [
    "waf",
    "flash.erases",
    "host.all.iops",
    "host.write.lat_ns.mean",
    "host.write.lat_ns.percentile.99",
    "host.read.lat_ns.mean",
];
/// Cells of charts over time.
const CELLS: usize = 64;

const CAUSES: [(&str, &str); 6] = [
    ("waf_host", "host"),
    ("waf_padding", "padding"),
    ("waf_gc", "garbage collection"),
    ("waf_merge", "merges"),
    ("waf_map", "mapping table"),
    ("waf_meta", "metadata"),
];

/// Writes `report.html` in the directory of a run.
///
/// # Errors
/// If the directory is no run's, or the report cannot be written.
pub fn write_run(dir: &Path) -> Result<PathBuf, Error> {
    let run = Loaded::read(dir)?;
    write(&dir.join("report.html"), &of_run(&run))
}

/// Writes the report of several runs to a file.
///
/// # Errors
/// If a directory is no run's, or the report cannot be written.
pub fn write_runs(title: &str, dirs: &[PathBuf], to: &Path) -> Result<PathBuf, Error> {
    let runs: Result<Vec<Loaded>, Error> = dirs.iter().map(|dir| Loaded::read(dir)).collect();
    write(to, &of_runs(title, &runs?))
}

fn write(path: &Path, html: &str) -> Result<PathBuf, Error> {
    std::fs::write(path, html).map_err(|e| Error::write(path, e))?;
    Ok(path.to_owned())
}

/// The report of one run.
#[must_use]
pub fn of_run(run: &Loaded) -> String {
    let s = &run.summary;
    let mut page = Page::new(&format!("{} on {}, {}", s.workload, s.device, s.scheme), &verdict(s));
    page.wide(&tiles(s));
    page.notes(&s.notes);
    charts(&mut page, &[Shown { label: s.scheme.clone(), run }]);
    details(&mut page, run);
    page.heading("Configuration");
    page.folded("config.resolved.toml", &run.config);
    page.folded("summary.json", &serde_json::to_string_pretty(s).unwrap_or_default());
    page.folded("manifest.json", &serde_json::to_string_pretty(&run.manifest).unwrap_or_default());
    page.finish()
}

/// The report of several runs, normalised to the first of each workload, device and seed.
#[must_use]
pub fn of_runs(title: &str, runs: &[Loaded]) -> String {
    let groups = grouped(runs.iter().map(|run| &run.summary));
    let mut page = Page::new(title, &verdict_of(runs, &groups));
    for group in &groups {
        let first = &runs[group[0]].summary;
        page.heading(&format!("{} on {}, seed {}", first.workload, first.device, first.seed));
        page.wide(&table(runs, group));
        if group.len() < 2 {
            continue;
        }
        for metric in METRICS.iter().filter(|m| CHARTED.contains(&m.key)) {
            comparison(&mut page, metric, runs, group);
        }
    }
    let notes: BTreeSet<&String> = runs.iter().flat_map(|run| &run.summary.notes).collect();
    page.notes(&notes.into_iter().cloned().collect::<Vec<_>>());
    if runs.len() > DETAILED {
        page.notes(&[format!(
            "Charts of the first {DETAILED} of {} runs; each run directory has its own report.",
            runs.len()
        )]);
    }
    for group in &groups {
        let shown: Vec<Shown<'_>> = group
            .iter()
            .filter(|&&n| n < DETAILED)
            .map(|&n| Shown { label: label(&runs[n], runs), run: &runs[n] })
            .collect();
        if let Some(first) = shown.first() {
            page.heading(&format!(
                "{} on {}: latencies and flash operations",
                first.summary.workload, first.summary.device
            ));
            charts(&mut page, &shown);
        }
    }
    for (n, run) in runs.iter().enumerate().take(DETAILED) {
        page.heading(&format!("{}, {}: {}", run.summary.workload, run.summary.device, label(&runs[n], runs)));
        details(&mut page, run);
    }
    page.heading("Configurations");
    for run in runs.iter().take(DETAILED) {
        page.folded(&format!("{}: {}", run.summary.workload, label(run, runs)), &run.config);
    }
    page.finish()
}

/// Runs of one workload, device and seed, each in order; the first is what the others are compared with.
#[must_use]
pub fn grouped<'a>(runs: impl Iterator<Item = &'a Summary>) -> Vec<Vec<usize>> {
    let mut keys: Vec<(&str, &str, u64)> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (n, s) in runs.enumerate() {
        let key = (s.workload.as_str(), s.device.as_str(), s.seed);
        match keys.iter().position(|k| *k == key) {
            Some(at) => groups[at].push(n),
            None => {
                keys.push(key);
                groups.push(vec![n]);
            }
        }
    }
    groups
}

/// What tells a run from the others of its group: its scheme, then the settings in which runs of that
/// scheme differ.
fn label(run: &Loaded, all: &[Loaded]) -> String {
    let key = |run: &Loaded| {
        let s = &run.summary;
        (s.scheme.clone(), s.workload.clone(), s.device.clone(), s.seed)
    };
    let own = key(run);
    let same: Vec<BTreeMap<String, String>> =
        all.iter().filter(|other| key(other) == own).map(|other| settings(&other.config)).collect();
    let mine = settings(&run.config);
    let differs = |name: &str| same.iter().any(|other| other.get(name) != mine.get(name));
    let apart: Vec<String> = mine
        .iter()
        .filter(|(name, _)| differs(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    std::iter::once(own.0).chain(apart).collect::<Vec<_>>().join(", ")
}

/// The settings of a device file, each by its full name.
fn settings(config: &str) -> BTreeMap<String, String> {
    fn into(before: &str, table: &toml::Table, out: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let name = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
            match value {
                toml::Value::Table(inner) => into(&name, inner, out),
                toml::Value::String(text) => _ = out.insert(name, text.clone()),
                other => _ = out.insert(name, other.to_string()),
            }
        }
    }
    let mut out = BTreeMap::new();
    if let Ok(table) = config.parse() {
        into("", &table, &mut out);
    }
    out
}

/// A run in one line.
#[must_use]
pub fn verdict(s: &Summary) -> String {
    let state = if s.complete { "" } else { "Interrupted, partial: " };
    let Some(waf) = s.waf else {
        return format!(
            "{state}Nothing was written; {} reads took {} on average.",
            count(s.host.read.requests),
            time(s.host.read.lat_ns.mean)
        );
    };
    let p = &s.waf_parts;
    let extra = [
        (p.padding, "padding: old sectors rewritten and room left unfilled"),
        (p.gc, "garbage collection"),
        (p.merge, "merges"),
        (p.map, "mapping table"),
        (p.meta, "metadata"),
    ];
    let most = extra.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|m| m.0 > 0.005);
    let why = most.map_or_else(String::new, |(part, what)| format!(", of which {part:.2} is {what}"));
    let steady = if s.steady_state { "in steady state" } else { "not in steady state" };
    format!(
        "{state}Each host byte cost {waf:.2} bytes of flash writes{why}; a write took {} on average, {} at 99%; {steady}.",
        time(s.host.write.lat_ns.mean),
        time(s.host.write.lat_ns.percentile.get("99.000000").copied().unwrap_or(0) as f64)
    )
}

fn verdict_of(runs: &[Loaded], groups: &[Vec<usize>]) -> String {
    let said: Vec<String> = groups
        .iter()
        .filter_map(|group| {
            let names: Vec<String> = group.iter().map(|&n| label(&runs[n], runs)).collect();
            let members: Vec<(&str, &Summary)> =
                names.iter().zip(group).map(|(name, &n)| (name.as_str(), &runs[n].summary)).collect();
            best(&members)
        })
        .collect();
    match said.as_slice() {
        [] => format!("{} runs.", runs.len()),
        some => some.join(" "),
    }
}

/// The run with the least WAF of a group (name, figures) in one line, compared with the first; none if
/// there is nothing to compare.
#[must_use]
pub fn best(group: &[(&str, &Summary)]) -> Option<String> {
    let (&(base, first), others) = group.split_first()?;
    let waf = |s: &Summary| s.waf.filter(|w| w.is_finite());
    let least = |s: &Summary| waf(s).unwrap_or(f64::MAX);
    let written = others.iter().filter(|(_, s)| waf(s).is_some());
    let &(name, best) = written.min_by(|a, b| least(a.1).total_cmp(&least(b.1)))?;
    let mean = |s: &Summary| Some(s.host.write.lat_ns.mean).filter(|&m| m > 0.0);
    let so = if waf(best)? < waf(first)? { "writes least flash" } else { "comes nearest" };
    Some(format!(
        "{}: {name} {so}, {} the WAF of {base} ({:.2} against {:.2}) at {} its mean write latency.",
        first.workload,
        ratio(waf(best), waf(first)),
        waf(best)?,
        waf(first)?,
        ratio(mean(best), mean(first))
    ))
}

fn tiles(s: &Summary) -> String {
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
    out += &format!(
        "<div class=\"tile\"><b>{:.1}%</b><span>over-provisioning of {}</span></div></div>",
        s.op_ratio * 100.0,
        bytes(s.device_bytes.logical)
    );
    out
}

/// Rows are figures, columns are runs: a figure, and what it is of the first run's.
fn table(runs: &[Loaded], group: &[usize]) -> String {
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
    }
    out + "</table></div>"
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

// ---- charts with a line or bar a run ---------------------------------------------------------------

/// A run and what charts call it.
struct Shown<'a> {
    label: String,
    run: &'a Loaded,
}

impl std::ops::Deref for Shown<'_> {
    type Target = Loaded;
    fn deref(&self) -> &Loaded {
        self.run
    }
}

fn charts(page: &mut Page, runs: &[Shown<'_>]) {
    let names: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
    let legend = if runs.len() > 1 { svg::legend(&names) } else { String::new() };
    if runs.len() == 1 {
        page.heading("Latencies and flash operations");
    }
    for kind in ["read", "write"] {
        latency(page, kind, runs, &legend);
    }
    victims(page, runs);
    waf_parts(page, runs);
    operations(page, runs);
    page_types(page, runs);
    cache(page, runs);
}

/// Percentiles on a scale that gives each further nine the same room.
fn latency(page: &mut Page, kind: &str, runs: &[Shown<'_>], legend: &str) {
    let place = |share: f64| -(1.0 - share).max(1e-12).log10();
    let mut csv = Csv::new(["scheme", "share", "latency_ns"]);
    let mut series = Vec::new();
    let mut most = 0.0_f64;
    for run in runs {
        let Some((_, histogram)) = run.latency.iter().find(|(name, _)| name == kind) else {
            series.push(Vec::new());
            continue;
        };
        let total = histogram.len().max(1) as f64;
        let (mut points, mut seen) = (Vec::new(), 0_u64);
        for bucket in histogram.iter_recorded() {
            // A bucket's requests lie below its end; the last has no share of 1 to stand at.
            let share = (seen as f64 + 0.5 * bucket.count_since_last_iteration() as f64) / total;
            seen += bucket.count_since_last_iteration();
            points.push((place(share), bucket.value_iterated_to() as f64));
            csv.row([
                run.label.clone(),
                format!("{:.8}", seen as f64 / total),
                bucket.value_iterated_to().to_string(),
            ]);
        }
        // The curve ends at the slowest request.
        let end = place(1.0 - 0.5 / total);
        points.push((end, histogram.max() as f64));
        most = most.max(end);
        series.push(thinned(&points));
    }
    if series.iter().all(Vec::is_empty) {
        return;
    }
    let shares = [
        (0.0, "0"),
        (0.9, "90"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
        (0.999_999, "99.9999"),
    ];
    let ticks =
        shares.into_iter().map(|(s, w)| (place(s), w.to_owned())).filter(|t| t.0 <= most + 1e-9).collect();
    let x = Axis { ticks, to: Some(most), ..Axis::linear("percentile of requests", figure) };
    let y = Axis::logarithmic("latency", time);
    let title = format!("Latency of {kind}s");
    let chart = svg::lines(&title, &series, &x, &y);
    page.card(
        &title,
        "The tail is stretched: each further nine has the same room.",
        &format!("{legend}{chart}"),
        &csv,
    );
}

/// Points of a curve, without those that nobody would see.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (n, &point) in points.iter().enumerate() {
        let far = out.last().is_none_or(|last| (point.0 - last.0).abs() > 0.01 || point.1 > last.1 * 1.03);
        if far || n + 1 == points.len() {
            out.push(point);
        }
    }
    out
}

/// The legend of those parts that occur, each in its colour.
fn occurring(names: &[&str], occurs: impl Fn(usize) -> bool) -> String {
    svg::legend_of(names.iter().enumerate().filter(|(n, _)| occurs(*n)).map(|(n, name)| (n, *name)))
}

fn parts_of(s: &Summary) -> [f64; 6] {
    let p = &s.waf_parts;
    [p.host, p.padding, p.gc, p.merge, p.map, p.meta]
}

fn waf_parts(page: &mut Page, runs: &[Shown<'_>]) {
    if runs.iter().all(|run| run.summary.waf.is_none()) {
        return;
    }
    let mut csv = Csv::new(["scheme", "host", "padding", "gc", "merge", "map", "meta"]);
    let bars: Vec<Bar> = runs
        .iter()
        .map(|run| {
            let parts = parts_of(&run.summary);
            csv.row(std::iter::once(run.label.clone()).chain(parts.iter().map(f64::to_string)));
            Bar {
                label: run.label.clone(),
                parts: parts.to_vec(),
                colour: 0,
                shown: run.summary.waf.map_or_else(|| "-".into(), |w| format!("WAF {w:.3}")),
            }
        })
        .collect();
    let legend = occurring(&CAUSES.map(|c| c.1), |n| bars.iter().any(|b| b.parts[n] > 0.0));
    let chart = svg::bars("what write amplification is made of", &bars, None);
    page.card(
        "What WAF is made of",
        "Bytes programmed for each byte that the host wrote.",
        &(legend + &chart),
        &csv,
    );
}

fn operations(page: &mut Page, runs: &[Shown<'_>]) {
    let causes = ["host", "RMW", "garbage collection", "merges", "mapping table", "metadata"];
    let mut csv = Csv::new(["scheme", "operation", "host", "rmw", "gc", "merge", "map", "meta"]);
    let mut bars = Vec::new();
    for run in runs {
        let s = &run.summary;
        let (r, p) = (&s.flash.reads, &s.flash.programs);
        let before = if runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        for (what, parts, total) in [
            ("pages read", [r.host, r.rmw, r.gc, r.merge, r.map, r.meta], r.total),
            ("pages programmed", [p.host, 0, p.gc, p.merge, p.map, p.meta], p.total),
        ] {
            csv.row([run.label.clone(), what.into()].into_iter().chain(parts.iter().map(u64::to_string)));
            bars.push(Bar {
                label: format!("{before}{what}"),
                parts: parts.iter().map(|&n| n as f64).collect(),
                colour: 0,
                shown: count(total),
            });
        }
    }
    let chart = svg::bars("flash operations by cause", &bars, None);
    page.card(
        "Flash operations by cause",
        "Pages of the measured part.",
        &(occurring(&causes, |n| bars.iter().any(|b| b.parts[n] > 0.0)) + &chart),
        &csv,
    );
}

fn page_types(page: &mut Page, runs: &[Shown<'_>]) {
    let all = |run: &Shown<'_>| {
        let t = &run.summary.flash.by_page_type;
        [("LSB", t.lsb.clone()), ("CSB", t.csb.clone()), ("MSB", t.msb.clone()), ("TSB", t.tsb.clone())]
    };
    let several = runs.iter().any(|run| all(run)[1..].iter().any(|(_, t)| t.programs > 0));
    if !several {
        return;
    }
    let mut csv = Csv::new(["scheme", "type", "reads", "programs", "rmw_reads"]);
    let mut bars = Vec::new();
    for run in runs {
        for (name, t) in all(run) {
            csv.row([
                run.label.clone(),
                name.into(),
                t.reads.to_string(),
                t.programs.to_string(),
                t.rmw_reads.to_string(),
            ]);
        }
        let before = if runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        for (what, of) in [
            ("programs", (|t| t.programs) as fn(&crate::measure::summary::PageTypeOps) -> u64),
            ("RMW reads", |t| t.rmw_reads),
        ] {
            let parts: Vec<u64> = all(run).iter().map(|(_, t)| of(t)).collect();
            let total: u64 = parts.iter().sum();
            if total > 0 {
                let share = parts[0] as f64 / total as f64 * 100.0;
                bars.push(Bar {
                    label: format!("{before}{what}"),
                    parts: parts.iter().map(|&n| n as f64 / total as f64).collect(),
                    colour: 0,
                    shown: format!("{share:.0}% LSB of {}", count(total)),
                });
            }
        }
    }
    let chart = svg::bars("page types", &bars, None);
    page.card(
        "Page types",
        "Shares of programs and of read-modify-write reads.",
        &(occurring(&["LSB", "CSB", "MSB", "TSB"], |n| bars.iter().any(|b| b.parts[n] > 0.0)) + &chart),
        &csv,
    );
}

fn victims(page: &mut Page, runs: &[Shown<'_>]) {
    if runs.iter().all(|run| run.summary.gc.victim_valid_histogram.iter().sum::<u64>() == 0) {
        return;
    }
    let mut csv = Csv::new(["scheme", "blocks", "valid_twentieths", "victims"]);
    let (mut groups, mut legend) = (Vec::new(), Vec::new());
    for run in runs {
        let s = &run.summary;
        for (what, histogram) in
            [("", &s.gc.victim_valid_histogram), ("objects", &s.gc.victim_valid_histogram_objects)]
        {
            let total: u64 = histogram.iter().sum();
            if total == 0 {
                continue;
            }
            for (n, victims) in histogram.iter().enumerate() {
                csv.row([
                    run.label.clone(),
                    if what.is_empty() { "all" } else { what }.into(),
                    n.to_string(),
                    victims.to_string(),
                ]);
            }
            groups.push(histogram.iter().map(|&n| n as f64 / total as f64 * 100.0).collect::<Vec<f64>>());
            let what = if what.is_empty() { String::new() } else { ", blocks of objects".into() };
            legend.push(if runs.len() > 1 || !what.is_empty() {
                format!("{}{what}", run.label)
            } else {
                String::new()
            });
        }
    }
    let under =
        [(0, "0%"), (5, "25%"), (10, "50%"), (15, "75%"), (20, "100%")].map(|(n, w)| (n, w.to_owned()));
    let y = Axis::linear("share of victims", |v| format!("{v:.0}%"));
    let chart = svg::columns("valid pages per victim", &groups, &under, "valid pages when chosen", &y);
    let legend = if legend.len() > 1 {
        svg::legend(&legend.iter().map(String::as_str).collect::<Vec<_>>())
    } else {
        String::new()
    };
    page.card(
        "Valid pages per victim",
        "What collection has to copy before it may erase.",
        &(legend + &chart),
        &csv,
    );
}

fn cache(page: &mut Page, runs: &[Shown<'_>]) {
    if runs.iter().all(|run| run.summary.mapping.cache_misses == 0) {
        return;
    }
    let mut csv = Csv::new(["scheme", "table_bytes", "hits", "misses", "map_reads", "map_programs"]);
    let bars: Vec<Bar> = runs
        .iter()
        .map(|run| {
            let (s, m) = (&run.summary, &run.summary.mapping);
            csv.row([
                run.label.clone(),
                m.bytes.to_string(),
                m.cache_hits.to_string(),
                m.cache_misses.to_string(),
                s.flash.reads.map.to_string(),
                s.flash.programs.map.to_string(),
            ]);
            let all = (m.cache_hits + m.cache_misses).max(1) as f64;
            let (hits, misses) = (m.cache_hits as f64 / all, m.cache_misses as f64 / all);
            Bar {
                label: run.label.clone(),
                parts: vec![hits, misses],
                colour: 0,
                shown: format!("{:.1}% hits, table {}", hits * 100.0, bytes(m.bytes)),
            }
        })
        .collect();
    let chart = svg::bars("mapping cache", &bars, None);
    page.card(
        "Mapping cache",
        "Look-ups that found their translation page in RAM.",
        &(svg::legend(&["hits", "misses"]) + &chart),
        &csv,
    );
}

// ---- charts of one run over time --------------------------------------------------------------------

/// Rows of a time series added up to cells that a chart can show.
struct Cells {
    /// Borders in seconds, one more than cells.
    edges: Vec<f64>,
    /// Cell of each row.
    of_row: Vec<usize>,
    /// Where the measured part begins, in seconds, if something lies before it.
    measured: Option<f64>,
}

impl Cells {
    fn of(series: &RecordBatch) -> Option<Self> {
        let (start, interval) = (whole(series, "start_ns")?, whole(series, "interval_ns")?);
        let phase = series.column_by_name("phase")?.as_any().downcast_ref::<UInt32Array>()?;
        let rows = series.num_rows();
        if rows == 0 {
            return None;
        }
        let (first, width) = (start.value(0), interval.value(rows - 1).max(1));
        let end = start.value(rows - 1) + width;
        let cells = ((end - first).div_ceil(width) as usize).clamp(1, CELLS);
        // Whole intervals to a cell: no row lies in two of them.
        let step = ((end - first).div_ceil(width)).div_ceil(cells as u64).max(1) * width;
        let cells = (end - first).div_ceil(step) as usize;
        let edges = (0..=cells).map(|n| (first + n as u64 * step) as f64 / 1e9).collect();
        let of_row = (0..rows).map(|row| ((start.value(row) - first) / step) as usize).collect();
        let last = phase.value(rows - 1);
        let measured = (0..rows).find(|&row| phase.value(row) == last).filter(|&row| row > 0);
        let measured = measured.map(|row| start.value(row) as f64 / 1e9);
        Some(Self { edges, of_row, measured })
    }

    fn count(&self) -> usize {
        self.edges.len() - 1
    }

    /// A column added up.
    fn sum(&self, series: &RecordBatch, name: &str) -> Vec<f64> {
        let mut out = vec![0.0; self.count()];
        if let Some(column) = whole(series, name) {
            self.of_row.iter().enumerate().for_each(|(row, &cell)| out[cell] += column.value(row) as f64);
        }
        out
    }
}

fn whole<'a>(series: &'a RecordBatch, name: &str) -> Option<&'a UInt64Array> {
    series.column_by_name(name)?.as_any().downcast_ref()
}

fn real<'a>(series: &'a RecordBatch, name: &str) -> Option<&'a Float64Array> {
    series.column_by_name(name)?.as_any().downcast_ref()
}

fn seconds(v: f64) -> String {
    if v == 0.0 { "0 s".into() } else { time(v * 1e9) }
}

fn details(page: &mut Page, run: &Loaded) {
    let series = &run.series;
    let Some(cells) = Cells::of(series) else { return };
    if run.summary.waf.is_some() {
        waf_over_time(page, run, &cells);
    }
    throughput(page, series, &cells);
    free_blocks(page, series, &cells);
    utilisation(page, run, &cells);
    streams(page, &run.summary);
}

fn waf_over_time(page: &mut Page, run: &Loaded, cells: &Cells) {
    let series = &run.series;
    let written = cells.sum(series, "write_bytes");
    let mut layers = Vec::new();
    for (name, _) in CAUSES {
        let mut bytes = vec![0.0; cells.count()];
        if let Some(column) = real(series, name) {
            let host = whole(series, "write_bytes");
            for (row, &cell) in cells.of_row.iter().enumerate() {
                if !column.is_null(row) {
                    bytes[cell] += column.value(row) * host.map_or(0.0, |h| h.value(row) as f64);
                }
            }
        }
        layers.push(
            bytes.iter().zip(&written).map(|(b, w)| if *w > 0.0 { b / w } else { 0.0 }).collect::<Vec<f64>>(),
        );
    }
    let totals: Vec<f64> = (0..cells.count()).map(|n| layers.iter().map(|l| l[n]).sum()).collect();
    let mut csv =
        Csv::new(["from_s", "to_s", "host", "padding", "gc", "merge", "map", "meta", "write_bytes"]);
    for n in 0..cells.count() {
        let fields = [cells.edges[n], cells.edges[n + 1]]
            .into_iter()
            .chain(layers.iter().map(|l| l[n]))
            .chain([written[n]]);
        csv.row(fields.map(|v| v.to_string()));
    }
    // A cell with next to no writes says nothing and would flatten all others.
    let mut sorted = totals.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted[(sorted.len() - 1) * 9 / 10].max(run.summary.waf.unwrap_or(1.0));
    let most = sorted.last().copied().unwrap_or(1.0);
    let cut = most > 3.0 * usual;
    let y = Axis { to: cut.then_some(2.0 * usual), ..Axis::linear("WAF", svg::short) };
    let x = Axis::linear("simulated time", seconds);
    let chart = svg::layers(
        "write amplification over time",
        &cells.edges,
        &layers,
        &x,
        &y,
        cells.measured.map(|at| (at, "measured from here")),
    );
    let hint = if cut {
        format!("Cut off at the top: the highest cell is {most:.1}.")
    } else {
        "The parts add up, interval by interval.".into()
    };
    page.card(
        "WAF over time",
        &hint,
        &(occurring(&CAUSES.map(|c| c.1), |n| layers[n].iter().any(|&v| v > 0.0)) + &chart),
        &csv,
    );
}

fn throughput(page: &mut Page, series: &RecordBatch, cells: &Cells) {
    let kinds = ["read", "write"].map(|kind| cells.sum(series, &format!("{kind}_bytes")));
    let width = |n: usize| (cells.edges[n + 1] - cells.edges[n]).max(1e-9);
    let layers: Vec<Vec<f64>> =
        kinds.iter().map(|k| k.iter().enumerate().map(|(n, v)| v / width(n)).collect()).collect();
    let mut csv = Csv::new(["from_s", "to_s", "read_bytes_per_s", "write_bytes_per_s"]);
    for (borders, (reads, writes)) in cells.edges.windows(2).zip(layers[0].iter().zip(&layers[1])) {
        csv.row([borders[0], borders[1], *reads, *writes].map(|v| v.to_string()));
    }
    let y = Axis::linear("host bandwidth, MB/s", |v| svg::short(v / 1e6));
    let x = Axis::linear("simulated time", seconds);
    let chart = svg::layers(
        "host bandwidth over time",
        &cells.edges,
        &layers,
        &x,
        &y,
        cells.measured.map(|at| (at, "measured from here")),
    );
    page.card(
        "Host bandwidth over time",
        "Reads and writes, one on the other.",
        &(svg::legend(&["reads", "writes"]) + &chart),
        &csv,
    );
}

fn free_blocks(page: &mut Page, series: &RecordBatch, cells: &Cells) {
    let (Some(free), Some(start)) = (whole(series, "free_blocks"), whole(series, "start_ns")) else { return };
    let points: Vec<(f64, f64)> =
        (0..series.num_rows()).map(|row| (start.value(row) as f64 / 1e9, free.value(row) as f64)).collect();
    let mut csv = Csv::new(["start_s", "free_blocks"]);
    points.iter().for_each(|p| csv.row([p.0.to_string(), p.1.to_string()]));
    let x =
        Axis { from_zero: false, to: cells.edges.last().copied(), ..Axis::linear("simulated time", seconds) };
    let y = Axis::linear("free blocks", figure);
    page.card(
        "Free blocks",
        "Where the line is flat and low, collection keeps up with the host.",
        &svg::lines("free blocks over time", &[points], &x, &y),
        &csv,
    );
}

fn utilisation(page: &mut Page, run: &Loaded, cells: &Cells) {
    let Some(lists) =
        run.series.column_by_name("chip_busy_ns").and_then(|c| c.as_any().downcast_ref::<ListArray>())
    else {
        return;
    };
    let geometry: Option<nandle_ssd::DeviceConfig> = toml::from_str(&run.config).ok();
    let Some(geometry) = geometry.map(|config| config.geometry) else { return };
    let chips = geometry.chips() as usize;
    let mut busy = vec![vec![0.0; cells.count()]; chips];
    for (row, &cell) in cells.of_row.iter().enumerate() {
        let values = lists.value(row);
        let Some(values) = values.as_any().downcast_ref::<UInt64Array>() else { return };
        for (chip, ns) in busy.iter_mut().zip(values.iter()) {
            chip[cell] += ns.unwrap_or(0) as f64;
        }
    }
    let dies = f64::from(geometry.dies_per_chip);
    let share =
        |ns: f64, cell: usize| ns / ((cells.edges[cell + 1] - cells.edges[cell]) * 1e9 * dies).max(1.0);
    let shares: Vec<Vec<f64>> = busy
        .iter()
        .map(|chip| chip.iter().enumerate().map(|(cell, &ns)| share(ns, cell)).collect())
        .collect();
    let mut csv = Csv::new(["chip", "channel", "from_s", "to_s", "busy"]);
    let per_channel = geometry.chips_per_channel as usize;
    for (chip, row) in shares.iter().enumerate() {
        for (cell, share) in row.iter().enumerate() {
            csv.row([
                chip.to_string(),
                (chip / per_channel).to_string(),
                cells.edges[cell].to_string(),
                cells.edges[cell + 1].to_string(),
                format!("{share:.4}"),
            ]);
        }
    }
    // So many chips that a row would be a hair: channels instead.
    let (rows, each) = if chips > 64 {
        let channels = shares.chunks(per_channel).map(|chips| {
            (0..cells.count())
                .map(|cell| chips.iter().map(|c| c[cell]).sum::<f64>() / chips.len() as f64)
                .collect()
        });
        (channels.collect::<Vec<Vec<f64>>>(), 1)
    } else {
        (shares, per_channel)
    };
    let beside: Vec<(usize, String)> =
        (0..rows.len()).step_by(each).map(|row| (row, format!("ch {}", row / each))).collect();
    let beside: Vec<(usize, String)> = if rows.len() / each > 8 {
        beside.into_iter().filter(|(row, _)| (row / each) % 4 == 0).collect()
    } else {
        beside
    };
    let x = Axis::linear("simulated time", seconds);
    let what = if chips > 64 { "A row is a channel." } else { "A row is a chip." };
    page.card(
        "How busy the chips were",
        what,
        &svg::heat("utilisation of chips over time", &cells.edges, &rows, &beside, &x),
        &csv,
    );
}

fn streams(page: &mut Page, s: &Summary) {
    let streams = &s.streams.per_stream;
    if !streams.iter().any(|stream| !matches!(stream.kind.as_str(), "normal" | "internal")) {
        return;
    }
    let mut csv = Csv::new(["stream", "kind", "host_bytes", "media_bytes", "waf"]);
    let mut bars = Vec::new();
    for stream in streams {
        csv.row([
            stream.stream.to_string(),
            stream.kind.clone(),
            stream.host_bytes.to_string(),
            stream.media_bytes.to_string(),
            stream.waf.map_or_else(String::new, |w| w.to_string()),
        ]);
        if stream.media_bytes == 0 {
            continue;
        }
        let label = if matches!(stream.kind.as_str(), "stream" | "handle") {
            format!("{} {}", stream.kind, stream.stream)
        } else {
            stream.kind.clone()
        };
        let waf = stream.waf.map_or_else(String::new, |w| format!("WAF {w:.3}, "));
        bars.push(Bar {
            label,
            parts: vec![stream.waf.unwrap_or(0.0)],
            colour: 0,
            shown: format!("{waf}{}", bytes(stream.media_bytes)),
        });
    }
    page.card(
        "WAF by stream",
        "Bytes programmed for a stream, copies included, by host bytes in it.",
        &svg::bars("WAF by stream", &bars, Some(1.0)),
        &csv,
    );
}
