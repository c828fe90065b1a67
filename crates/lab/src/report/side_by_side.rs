//! Charts with a line or bar a run.

use super::chart::{self, Axis, Bar, Plot, Series, Show};
use super::figures;
use super::page::{Csv, Page};
use crate::measure::Summary;
use crate::run::Loaded;
use crate::units::{bytes, count};

/// What write amplification is made of: columns of the time series, and names.
pub(super) const CAUSES: [(&str, &str); 7] = [
    ("waf_host", "host"),
    ("waf_padding", "padding"),
    ("waf_gc", "garbage collection"),
    ("waf_merge", "merges"),
    ("waf_map", "mapping table"),
    ("waf_meta", "metadata"),
    ("waf_parity", "parity"),
];

/// A run and what charts call it.
pub(super) struct Shown<'a> {
    pub label: String,
    pub run: &'a Loaded,
}

impl std::ops::Deref for Shown<'_> {
    type Target = Loaded;
    fn deref(&self) -> &Loaded {
        self.run
    }
}

/// What runs did, a line or bar each.
pub(super) fn charts(page: &mut Page, runs: &[Shown<'_>]) {
    if runs.len() == 1 {
        page.heading("Latencies and flash operations");
    }
    for kind in ["read", "write"] {
        latency(page, kind, runs);
    }
    victims(page, runs);
    waf_parts(page, runs);
    operations(page, runs);
    page_types(page, runs);
    cache(page, runs);
}

/// Percentiles on a scale that gives each further nine the same room.
fn latency(page: &mut Page, kind: &str, runs: &[Shown<'_>]) {
    let place = |share: f64| -(1.0 - share).max(1e-12).log10();
    let mut csv = Csv::new(["scheme", "share", "latency_ns"]);
    let mut series = Vec::new();
    let mut most = 0.0_f64;
    for run in runs {
        let Some((_, histogram)) = run.latency.iter().find(|(name, _)| name == kind) else { continue };
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
        series.push(Series::new(&run.label, thinned(&points)));
    }
    if series.is_empty() {
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
    let x = Axis { ticks, to: Some(most), ..Axis::linear("percentile of requests", Show::Number) };
    let title = format!("Latency of {kind}s");
    let plot = Plot::lines(&title, x, Axis::logarithmic("latency", Show::Ns), series);
    page.card(&title, "The tail is stretched: each further nine has the same room.", &plot.html(), &csv);
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
pub(super) fn occurring(names: &[&str], occurs: impl Fn(usize) -> bool) -> String {
    chart::legend_of(names.iter().enumerate().filter(|(n, _)| occurs(*n)).map(|(n, name)| (n, *name)))
}

fn parts_of(s: &Summary) -> [f64; 7] {
    let p = &s.waf_parts;
    [p.host, p.padding, p.gc, p.merge, p.map, p.meta, p.parity]
}

fn waf_parts(page: &mut Page, runs: &[Shown<'_>]) {
    if runs.iter().all(|run| run.summary.waf.is_none()) {
        return;
    }
    let mut csv = Csv::new(["scheme", "host", "padding", "gc", "merge", "map", "meta", "parity"]);
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
    let chart = chart::bars("what write amplification is made of", &bars, None);
    page.card(
        "What WAF is made of",
        "Bytes programmed for each byte that the host wrote.",
        &(legend + &chart),
        &csv,
    );
}

fn operations(page: &mut Page, runs: &[Shown<'_>]) {
    let causes = ["host", "RMW", "garbage collection", "merges", "mapping table", "metadata", "parity"];
    let mut csv = Csv::new(["scheme", "operation", "host", "rmw", "gc", "merge", "map", "meta", "parity"]);
    let mut bars = Vec::new();
    let alike = figures::alike(runs.iter().map(|run| &run.summary));
    for run in runs {
        let s = &run.summary;
        // Of runs of unequal length, bars of what each did for as many requests.
        let share = if alike { 1.0 } else { 1000.0 / s.host.all.requests.max(1) as f64 };
        let (r, p) = (&s.flash.reads, &s.flash.programs);
        let before = if runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        for (what, parts, total) in [
            ("pages read", [r.host, r.rmw, r.gc, r.merge, r.map, r.meta, r.parity], r.total),
            ("pages programmed", [p.host, 0, p.gc, p.merge, p.map, p.meta, p.parity], p.total),
        ] {
            csv.row([run.label.clone(), what.into()].into_iter().chain(parts.iter().map(u64::to_string)));
            bars.push(Bar {
                label: format!("{before}{what}"),
                parts: parts.iter().map(|&n| n as f64 * share).collect(),
                colour: 0,
                shown: count((total as f64 * share).round() as u64),
            });
        }
    }
    let chart = chart::bars("flash operations by cause", &bars, None);
    page.card(
        "Flash operations by cause",
        if alike {
            "Pages of the measured part."
        } else {
            "Pages of the measured part for each thousand requests."
        },
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
    let chart = chart::bars("page types", &bars, None);
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
    let mut series = Vec::new();
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
            let name = match (runs.len(), what) {
                (1, "") => "all".to_owned(),
                (_, "") => run.label.clone(),
                (_, what) => format!("{}, blocks of {what}", run.label),
            };
            let share = |&n: &u64| n as f64 / total as f64 * 100.0;
            series
                .push(Series::new(&name, (0..).map(|n| f64::from(n) * 5.0).zip(histogram.iter().map(share))));
        }
    }
    let ticks = [0, 25, 50, 75, 100].map(|n| (f64::from(n), format!("{n}%"))).to_vec();
    let x = Axis { ticks, ..Axis::linear("valid pages when chosen", Show::Percent) };
    let y = Axis::linear("share of victims", Show::Percent);
    let plot = Plot::lines("valid pages per victim", x, y, series);
    page.card(
        "Valid pages per victim",
        "What collection has to copy before it may erase.",
        &plot.html(),
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
    let chart = chart::bars("mapping cache", &bars, None);
    page.card(
        "Mapping cache",
        "Look-ups that found their translation page in RAM.",
        &(chart::legend(&["hits", "misses"]) + &chart),
        &csv,
    );
}
