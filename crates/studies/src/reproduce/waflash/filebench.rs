//! Figs 7, 8 and 9, and the counts of section V-B: Filebench on the emulated drive.

use nandle_lab::Error;
use nandle_lab::workload::{Asked, Mode};

use super::super::simulate::Measured;
use super::super::{Bench, Cell, Claim, Report, Rule, Table};
use super::trial::{Trial, asked, run, table};

/// The parts of the scheme, one after the other.
const PARTS: [&str; 5] =
    ["fifo+page", "lru+page", "pc-lru+page", "pc-lru+multi-version", "pc-lru+multi-version+compaction"];

/// The baseline and WAFLASH.
pub(super) const TWO: [&str; 2] = [PARTS[0], PARTS[4]];

pub(super) const PERSONALITIES: [(&str, &str, f64); 4] = [
    ("filebench-randomwrite", "waflash-randomwrite-throughput", 2.25),
    ("filebench-fileserver", "waflash-fileserver-throughput", 1.86),
    ("filebench-webserver", "waflash-webserver-throughput", 1.37),
    ("filebench-webproxy", "waflash-webproxy-throughput", 1.68),
];

/// An eighth of a drive, with as many dies, and a buffer in proportion.
pub(super) fn small() -> Vec<String> {
    ["geometry.pages_per_block=32", "buffer.bytes=4MiB"].map(str::to_owned).to_vec()
}

/// The emulated drive.
pub(super) fn vssim(bench: &Bench<'_>) -> Vec<String> {
    if bench.options.quick { small() } else { Vec::new() }
}

/// Figs 7, 8 and 9, and the counts of section V-B.
pub(super) fn figures(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let sizes: &[&str] = if bench.options.quick {
        &["1k", "4k", "9k"]
    } else {
        &["1k", "2k", "3k", "4k", "5k", "6k", "7k", "8k", "9k"]
    };
    let counts =
        ["waflash-partial-pages-in-buffer", "waflash-partial-pages-to-flash", "waflash-compaction-writes"];
    let mut trials = Vec::new();
    for (name, claim, _) in PERSONALITIES {
        let latency = name == "filebench-fileserver" && bench.wants(&["waflash-fileserver-latency"]);
        if !(latency || bench.wants(&counts) || bench.wants(&[claim])) {
            continue;
        }
        for size in sizes {
            trials.extend(PARTS.map(|scheme| Trial {
                workload: name.into(),
                setting: (*size).into(),
                device: "waflash-vssim",
                scheme,
                sets: vssim(bench),
                asked: asked(bench, &format!("{name}:{size}"), 300_000, 15_000),
                verify: bench.options.quick,
            }));
        }
    }
    let runs = run(bench, &trials)?;
    // Runs of one workload and size, in the order of the parts.
    let cells: Vec<(&str, &[Measured])> = trials
        .iter()
        .map(|t| t.workload.as_str())
        .step_by(PARTS.len())
        .zip(runs.chunks(PARTS.len()))
        .collect();
    let of = |name: &str| cells.iter().filter(|(w, _)| *w == name).map(|(_, runs)| *runs).collect::<Vec<_>>();
    for (name, id, paper) in PERSONALITIES {
        let gain = of(name).iter().map(|r| r[4].bytes_per_s() / r[0].bytes_per_s()).fold(f64::NAN, f64::max);
        let claim = Claim::new(id, "Fig 7", "throughput, up to", name, paper, gain, Rule::Ratio(0.2));
        report.claims.push(claim.because(if name.ends_with("randomwrite") { DEPTH } else { READS }));
    }
    // Where hardly any partial page leaves the buffer, ratios of their counts say nothing.
    let counted = |r: &[Measured]| {
        let buffer = &r[0].summary.buffer;
        buffer.evicted_partial_pages * 100 >= buffer.evictions && buffer.evictions > 0
    };
    let all: Vec<&[Measured]> = cells.iter().map(|(_, runs)| *runs).filter(|r| counted(r)).collect();
    let ratios = |f: &dyn Fn(&[Measured]) -> f64| -> Vec<f64> {
        all.iter().map(|r| f(r)).filter(|v| v.is_finite()).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let workload = "personalities with partial pages";
    let held = ratios(&|r| r[2].summary.buffer.mean_partial_pages / r[0].summary.buffer.mean_partial_pages);
    // The paper counts the percentage of partial pages; how many pages a buffer holds is not recorded.
    let what = "number of partial pages in the buffer (paper: their percentage), pc-lru to fifo, mean";
    report.claims.push(
        Claim::new(counts[0], "V-B (2)", what, workload, 1.21, mean(&held), Rule::Ratio(0.1)).because(HELD),
    );
    let partial = |m: &Measured| m.summary.buffer.evicted_partial_pages as f64;
    let sent = ratios(&|r| partial(&r[2]) / partial(&r[0]));
    let programs = |m: &Measured| m.summary.flash.programs.total as f64;
    let packed = ratios(&|r| programs(&r[4]) / programs(&r[3]));
    for (id, place, what, values, papers, why) in [
        (counts[1], "V-B (3)", "partial pages to flash, pc-lru to fifo", sent, [0.894, 0.955], FULL_PAGES),
        (counts[2], "V-B (4)", "flash writes with compaction to without", packed, [0.88, 0.93], NEIGHBOURS),
    ] {
        let extremes = [f64::min, f64::max].map(|pick| values.iter().copied().fold(f64::NAN, pick));
        for ((which, paper), ours) in ["best", "worst"].into_iter().zip(papers).zip(extremes) {
            let what = format!("{what}, {which}");
            let claim = Claim::new(id, place, what, workload, paper, ours, Rule::Ratio(0.05));
            report.claims.push(claim.because(why));
        }
    }
    let server = of("filebench-fileserver");
    for (what, paper, f) in [
        ("read", 0.40, (|m: &Measured| m.read_ns()) as fn(&Measured) -> f64),
        ("write", 0.38, |m: &Measured| m.write_ns()),
    ] {
        let ours = server.iter().map(|r| f(&r[4]) / f(&r[0])).fold(f64::NAN, f64::min);
        let what = format!("mean {what} latency of fileserver, up to");
        let workload = "filebench-fileserver";
        let claim =
            Claim::new("waflash-fileserver-latency", "Fig 9", what, workload, paper, ours, Rule::Ratio(0.2));
        report.claims.push(claim.because(READS));
    }
    report.tables.push(table("Figs 7 to 9: Filebench on the emulated drive", &trials, &runs));
    Ok(())
}

/// Where the time goes that Figs 7 and 9 measure: the drive takes one command at a time, and with one thread no
/// other waits meanwhile.
pub(super) fn service(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let mut trials = Vec::new();
    for (name, ..) in &PERSONALITIES[1..] {
        trials.extend(TWO.map(|scheme| Trial {
            workload: (*name).into(),
            setting: "4k".into(),
            device: "waflash-vssim",
            scheme,
            sets: vssim(bench),
            asked: Asked {
                mode: Some(Mode::Closed),
                iodepth: Some(1),
                ..asked(bench, &format!("{name}:4k"), 300_000, 15_000)
            },
            verify: false,
        }));
    }
    let runs = run(bench, &trials)?;
    let mut table = Table::new(
        "Where the time goes: one thread, requests of 4 KiB",
        &["workload", "scheme", "read ms", "write ms", "reads' share of the time", "pages evicted a write"],
    );
    for (t, m) in trials.iter().zip(&runs) {
        let host = &m.summary.host;
        let [reads, writes] = [&host.read, &host.write].map(|r| r.requests as f64 * r.lat_ns.mean);
        let evicted = m.summary.buffer.evictions as f64 / host.write.requests as f64;
        let figures = [m.read_ns() / 1e6, m.write_ns() / 1e6, reads / (reads + writes), evicted];
        let mut row: Vec<Cell> = vec![t.workload.clone().into(), t.scheme.into()];
        row.extend(figures.map(Cell::from));
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}

pub(super) const DEPTH: &str = "the table of page numbers has as many places as half a mapping entry has values left: once it is full, \
    few updates are compacted; with more spare pages, larger buffers and more requests at a time the gain grows \
    (table: what random write is bound by)";

const READS: &str = "no scheme saves a read from flash: reads are nearly all of the web server's and the proxy server's time with \
    either scheme, and most of what WAFLASH leaves of the file server's (table: where the time goes)";

const HELD: &str = "on average over evictions PC-LRU holds twice as many as a FIFO that empties itself where nothing can be \
    gathered (random write), and a tenth of them or fewer where a buffer can gather pages and that FIFO does not (table of Figs 7 \
    to 9: partial held)";

const FULL_PAGES: &str = "a FIFO that does not gather pages sends more partial pages than any buffer that does \
    (table of Figs 7 to 9: evicted partial)";

const NEIGHBOURS: &str = "two small partial pages of one region rarely wait in the buffer together: best where they do, worst \
    where nothing was compacted (table of Figs 7 to 9: compacted)";
