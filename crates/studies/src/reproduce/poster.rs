//! PC-LRU (poster): write response times on SSDSim over buffers, page sizes, arrival times and age.
//!
//! The traces are the twins of MSNFS, CFS and DTR, and real ones where they are there. The poster's code
//! puts passed-over pages at position 60 or at the head, without a look at the chips; both are run,
//! and WAFLASH's way (`stay`, only when chips are busy). The better of the poster's two is ours.

use nandle_lab::Error;
use nandle_lab::workload::Asked;

use super::simulate::Measured;
use super::traces;
use super::waflash::{REAL, Trial, run, ssdsim, table};
use super::{Bench, Cell, Claim, Report, Rule, Table};

/// Names of the poster's claims.
pub const CLAIMS: &[&str] = &["pclru-poster-write-time", "pclru-poster-aged", "pclru-poster-vs-mca"];

/// The poster's traces.
const TWINS: [&str; 3] = ["msnfs", "cfs", "dtr"];

/// Buffers that are compared: name, scheme, settings.
const BUFFERS: [(&str, &str, &[&str]); 5] = [
    ("lru", "lru+page", &[]),
    ("mca", "mca+page", &[]),
    (
        "pc-lru at(60)",
        "pc-lru+page",
        &["scheme.pc_lru.insert='at(60)'", "scheme.pc_lru.when='always'", "scheme.pc_lru.passes=1"],
    ),
    (
        "pc-lru head",
        "pc-lru+page",
        &["scheme.pc_lru.insert='head'", "scheme.pc_lru.when='always'", "scheme.pc_lru.passes=1"],
    ),
    ("pc-lru stay", "pc-lru+page", &[]),
];

/// A point of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    page: u32,
    buffer: u64,
    /// Share of the pages that are dead before the first request.
    aged: f64,
    time_scale: f64,
}

const BASE: Point = Point { page: 4096, buffer: 8 << 20, aged: 0.0, time_scale: 1.0 };

impl Point {
    fn name(&self) -> String {
        let buffer = if self.buffer < 1 << 20 {
            format!("{} KiB", self.buffer >> 10)
        } else {
            format!("{} MiB", self.buffer >> 20)
        };
        format!(
            "{} KiB pages, {buffer}, aged {:.0}%, times x{}",
            self.page >> 10,
            self.aged * 100.0,
            self.time_scale
        )
    }
}

/// The evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let buffers: &[u64] =
        if quick { &[128 << 10, 8 << 20] } else { &[128 << 10, 8 << 20, 16 << 20, 32 << 20] };
    let pages: &[u32] = if quick { &[2048, 8192] } else { &[2048, 4096, 8192] };
    let mut points: Vec<Point> = Vec::new();
    for &page in pages {
        points.extend(buffers.iter().map(|&buffer| Point { page, buffer, ..BASE }));
    }
    points.push(BASE);
    let scales: &[f64] = if quick { &[4.0] } else { &[2.0, 4.0, 5.0] };
    points.extend(scales.iter().map(|&time_scale| Point { time_scale, ..BASE }));
    for page in [4096, 8192] {
        points.extend([0.4, 0.7].map(|aged| Point { page, aged, ..BASE }));
    }
    points = points.iter().enumerate().filter(|(n, p)| !points[..*n].contains(p)).map(|(_, p)| *p).collect();

    let real = traces::present(bench.traces.as_deref(), &REAL, &mut report.notes);
    let real: Vec<(String, String)> =
        real.iter().map(|(t, path)| (t.name.to_owned(), path.to_string_lossy().into_owned())).collect();
    let twins: Vec<(String, String)> = TWINS.iter().map(|t| (t.to_string(), t.to_string())).collect();
    evaluate(bench, "three twins", &twins, &points, report)?;
    unpublished(bench, &twins, report)?;
    if !real.is_empty() {
        // The real traces at the points that the claims name.
        points.retain(|p| *p == BASE || p.aged > 0.0 || (p.page == 8192 && p.buffer == BASE.buffer));
        let label = format!("{} real traces", real.len());
        evaluate(bench, &label, &real, &points, report)?;
    }
    report.notes.push(
        "the poster does not give its figures as numbers: 10%, 20% and the ranges of 9 to 19.5% and 1.2 to 2.7% are from its text".into(),
    );
    Ok(())
}

/// A point with all workloads, each with its buffers.
fn trials(bench: &Bench<'_>, point: &Point, workloads: &[(String, String)], requests: u64) -> Vec<Trial> {
    let each = workloads.iter().flat_map(|workload| BUFFERS.map(|buffer| (workload, buffer)));
    each.map(|((name, path), (buffer, scheme, sets))| {
        let mut all = ssdsim(bench, point.page, point.buffer);
        all.push(format!("precondition.used={}", point.aged));
        all.extend(sets.iter().map(|&s| s.to_owned()));
        Trial {
            workload: name.clone(),
            setting: format!("{}, {buffer}", point.name()),
            device: "pclru-ssdsim",
            scheme,
            sets: all,
            asked: Asked {
                workload: path.clone(),
                seed: bench.options.seed,
                requests: Some(requests),
                time_scale: Some(point.time_scale),
                ..Asked::default()
            },
            verify: false,
        }
    })
    .collect()
}

/// Mean over the workloads of one of [`BUFFERS`] to the first.
fn ratio(runs: &[Measured], buffer: usize, f: &dyn Fn(&Measured) -> f64) -> f64 {
    let ratios = runs.chunks(BUFFERS.len()).map(|r| f(&r[buffer]) / f(&r[0])).filter(|v| v.is_finite());
    let ratios: Vec<f64> = ratios.collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

/// What the poster leaves unpublished, three values of each: how many requests of a trace it replays, and at which rate
/// those come. Nothing of it is counted.
fn unpublished(bench: &Bench<'_>, twins: &[(String, String)], report: &mut Report) -> Result<(), Error> {
    let ours: u64 = if bench.options.quick { 15_000 } else { 200_000 };
    let point = Point { page: 8192, ..BASE };
    let settings = [(ours / 4, 1.0), (ours, 1.0), (4 * ours, 1.0), (ours, 2.0), (ours, 0.5)];
    let all: Vec<Trial> = settings
        .iter()
        .flat_map(|&(requests, time_scale)| trials(bench, &Point { time_scale, ..point }, twins, requests))
        .collect();
    let runs = run(bench, &all)?;
    let mut table = Table::new(
        "What is not published: write response to lru, mean of three twins, 8 KiB pages, 8 MiB",
        &["requests", "a second", "mca", "pc-lru at(60)", "pc-lru head", "pc-lru stay", "channels busy"],
    );
    for ((requests, time_scale), runs) in settings.iter().zip(runs.chunks(twins.len() * BUFFERS.len())) {
        let mut row: Vec<Cell> = vec![(*requests).into(), (1000.0 / time_scale).into()];
        row.extend((1..BUFFERS.len()).map(|n| Cell::from(ratio(runs, n, &Measured::write_ns))));
        let lru = runs.iter().step_by(BUFFERS.len()).map(|m| m.channels_busy);
        row.push((lru.sum::<f64>() / twins.len() as f64).into());
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}

fn evaluate(
    bench: &Bench<'_>,
    label: &str,
    workloads: &[(String, String)],
    points: &[Point],
    report: &mut Report,
) -> Result<(), Error> {
    let requests = if bench.options.quick { 15_000 } else { 200_000 };
    let trials: Vec<Trial> =
        points.iter().flat_map(|point| trials(bench, point, workloads, requests)).collect();
    let runs = run(bench, &trials)?;
    // All workloads of a point, each with its buffers.
    let of = |p: &Point| {
        let per = workloads.len() * BUFFERS.len();
        points.iter().position(|q| q == p).map(|n| &runs[n * per..][..per])
    };
    let write = |m: &Measured| m.write_ns();
    let poster = |runs: &[Measured], f: &dyn Fn(&Measured) -> f64| ratio(runs, 2, f).min(ratio(runs, 3, f));
    let mean_over = |wanted: &dyn Fn(&Point) -> bool, f: &dyn Fn(&[Measured]) -> f64| {
        let values: Vec<f64> = points.iter().filter(|p| wanted(p)).filter_map(of).map(f).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let mut add = |id, what: &str, paper, ours, rule| {
        let place = if id == CLAIMS[2] { "Existing work" } else { "Evaluation" };
        let why = match id {
            _ if what.contains("stretched") => IDLE,
            "pclru-poster-aged" => DEAD,
            _ => UNSAID,
        };
        report.claims.push(Claim::new(id, place, what, label, paper, ours, rule).because(why));
    };
    let ratio_within = Rule::Ratio(0.05);
    let fresh = |p: &Point| p.aged == 0.0;
    let what = "write response, pc-lru to lru, mean of buffers and page sizes";
    add(
        CLAIMS[0],
        what,
        0.90,
        mean_over(&|p| fresh(p) && p.time_scale == 1.0, &|r| poster(r, &write)),
        ratio_within,
    );
    let slower = mean_over(&|p| p.time_scale > 1.0, &|r| poster(r, &write));
    if slower.is_finite() {
        add(CLAIMS[0], "the same, arrival times stretched", 0.90, slower, ratio_within);
        let at = |wanted: &dyn Fn(&Point) -> bool| {
            mean_over(&|p| fresh(p) && p.time_scale == 1.0 && wanted(p), &|r| poster(r, &write))
        };
        let by_page = at(&|p| p.page == 8192) / at(&|p| p.page == 2048);
        add(CLAIMS[0], "the same, 8 KiB pages against 2 KiB (below 1: stronger)", 1.0, by_page, Rule::Below);
        let by_buffer = at(&|p| p.buffer > 1 << 20) / at(&|p| p.buffer < 1 << 20);
        add(
            CLAIMS[0],
            "the same, buffers of MiB against 128 KiB (below 1: stronger)",
            1.0,
            by_buffer,
            Rule::Below,
        );
    }
    for aged in [0.4, 0.7] {
        let what = format!("write response, pc-lru to lru, aged {:.0}%", aged * 100.0);
        add(CLAIMS[1], &what, 0.80, mean_over(&|p| p.aged == aged, &|r| poster(r, &write)), ratio_within);
    }
    let all = |m: &Measured| m.all_ns();
    let everywhere = |_: &Point| true;
    // "9-19.5%" and "1.2-2.7%".
    let ours = mean_over(&everywhere, &|r| poster(r, &all));
    add(CLAIMS[2], "mean latency, pc-lru to lru", 0.91, ours, Rule::Within([0.805, 0.91]));
    let mca = mean_over(&everywhere, &|r| ratio(r, 1, &all));
    add(CLAIMS[2], "mean latency, mca to lru", 0.988, mca, Rule::Within([0.973, 0.988]));

    let mut grid = Table::new(
        format!("Write response to lru, mean of {label}"),
        &[
            "point",
            "mca",
            "pc-lru at(60)",
            "pc-lru head",
            "pc-lru stay",
            "write ms, lru",
            "dies busy",
            "channels busy",
            "erases, lru",
            "GC programs, lru",
        ],
    );
    for point in points {
        let Some(runs) = of(point) else { continue };
        let mut row: Vec<Cell> = vec![point.name().into()];
        row.extend((1..BUFFERS.len()).map(|n| Cell::from(ratio(runs, n, &write))));
        let lru = |f: &dyn Fn(&Measured) -> f64| {
            runs.iter().step_by(BUFFERS.len()).map(f).sum::<f64>() / workloads.len() as f64
        };
        row.extend([lru(&write) / 1e6, lru(&|m| m.dies_busy), lru(&|m| m.channels_busy)].map(Cell::from));
        let flash = || runs.iter().step_by(BUFFERS.len()).map(|m| &m.summary.flash);
        row.push(flash().map(|f| f.erases).sum::<u64>().into());
        row.push(flash().map(|f| f.programs.gc).sum::<u64>().into());
        grid.rows.push(row);
    }
    report.tables.push(grid);
    report.tables.push(table(&format!("Runs, {label}"), &trials, &runs));
    Ok(())
}

const UNSAID: &str = "small pages and buffers of 128 KiB, where there is little to tell apart, are in the mean (table: write \
    response), and how many requests the poster replays, on which the gain depends, is not published (table)";
const IDLE: &str = "with requests further apart the channels idle (table: write response, channels busy), and no policy saves a \
    wait that does not occur";
const DEAD: &str = "SSDSim's ageing leaves dead pages alone, which are erased and never copied (table: write response, GC \
    programs), so an aged drive gains what a fresh one does";
