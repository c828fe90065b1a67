//! WAFLASH (He et al.): sections II-B and V, Figs 1 and 7 to 11.
//!
//! Figs 7 to 9 are Filebench's personalities on the emulated drive (`waflash-vssim`), Fig 11 its random
//! write on `waflash-openssd`, Figs 1 and 10 block traces on SSDSim's drive with pages of 8 KiB. "Up to" is
//! the best over the request sizes that were tried. The baseline of Figs 7 to 9 is `fifo+page`, which
//! queues requests as VSSIM does and, being an IDE disk, takes one command at a time; that of Fig 10 `lru+page`, SSDSim's.

use nandle_ssd::schemes::waflash::compaction::ENTRY_BYTES;

use super::simulate::{Measured, Start, simulate_from};
use super::traces::{self, Real};
use super::{Bench, Cell, Claim, Report, Rule, Table, preset};
use crate::Error;
use crate::config::Drive;
use crate::workload::{Asked, Mode};

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "waflash-unaligned-8k",
    "waflash-fig1-tail",
    "waflash-randomwrite-throughput",
    "waflash-fileserver-throughput",
    "waflash-webserver-throughput",
    "waflash-webproxy-throughput",
    "waflash-partial-pages-in-buffer",
    "waflash-partial-pages-to-flash",
    "waflash-compaction-writes",
    "waflash-fileserver-latency",
    "waflash-vs-mca",
    "waflash-openssd",
    "waflash-metadata",
];

/// The six traces of section V-E.
pub(super) const TWINS: [&str; 6] = ["msnfs", "dtr", "ra", "cfs", "ex", "web"];
/// Traces of the same collections, and others with small writes.
pub(super) const REAL: [Real; 6] =
    [traces::MSNFS, traces::DTRS, traces::TPCC, traces::FINANCIAL, traces::CLOUDPHYSICS, traces::SYS1];

/// Section III-A has no limit to how often a partial page is passed over.
const PC_LRU: [&str; 1] = ["scheme.pc_lru.passes=0"];

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// What tables call the workload.
    pub workload: String,
    /// What tables call the device, where it is not the preset.
    pub setting: String,
    pub device: &'static str,
    pub scheme: &'static str,
    pub sets: Vec<String>,
    pub asked: Asked,
    pub verify: bool,
}

impl Trial {
    pub fn drive(&self) -> Result<Drive, Error> {
        let paper: &[&str] = if self.scheme.starts_with("pc-lru") { &PC_LRU } else { &[] };
        let sets: Vec<String> =
            paper.iter().map(|&set| set.to_owned()).chain(self.sets.iter().cloned()).collect();
        preset(self.device, Some(self.scheme), &sets)
    }
}

/// Runs all trials; results are in their order.
pub(super) fn run(bench: &Bench<'_>, trials: &[Trial]) -> Result<Vec<Measured>, Error> {
    let name = |t: &Trial| format!("{} {} {}", t.workload, t.scheme, t.setting).trim().to_owned();
    bench.each(trials, name, |t| {
        let start = if t.device == "pclru-ssdsim" { Start::ReadsMapped } else { Start::Flushed };
        simulate_from(start, &t.drive()?, &t.asked, t.verify, bench.stop)
    })
}

/// Columns of [`row`].
const COLUMNS: [&str; 27] = [
    "workload",
    "setting",
    "scheme",
    "IOPS",
    "MiB/s",
    "write ms",
    "write 99% ms",
    "read ms",
    "dies busy",
    "channels busy",
    "programs",
    "RMW reads",
    "other reads",
    "merges",
    "GC programs",
    "evicted",
    "evicted partial",
    "partial held",
    "buffer hits",
    "versions",
    "versions refused",
    "pressure merges",
    "compacted",
    "parts in them",
    "RMW ms",
    "WAF",
    "steady",
];

fn row(t: &Trial, m: &Measured) -> Vec<Cell> {
    let s = &m.summary;
    let mut row: Vec<Cell> = vec![t.workload.clone().into(), t.setting.clone().into(), t.scheme.into()];
    row.extend([m.iops(), m.bytes_per_s() / f64::from(1 << 20), m.write_ns() / 1e6].map(Cell::from));
    row.push((m.write_percentile("99.000000") / 1e6).into());
    row.extend([m.read_ns() / 1e6, m.dies_busy, m.channels_busy].map(Cell::from));
    let (p, r, b) = (&s.flash.programs, &s.flash.reads, &s.buffer);
    let counts = [p.total, r.rmw, r.total - r.rmw, p.merge, p.gc, b.evictions, b.evicted_partial_pages];
    row.extend(counts.map(Cell::from));
    row.extend([b.mean_partial_pages, b.hits as f64 / (b.hits + b.misses).max(1) as f64].map(Cell::from));
    let versions = ["versions_written", "refused", "merges_pressure", "compacted_pages", "compacted_extents"];
    row.extend(versions.map(|key| Cell::from(s.counter(&format!("multi_version.{key}")))));
    row.extend([s.rmw.lat_ns.mean / 1e6, s.waf.unwrap_or(f64::NAN)].map(Cell::from));
    row.push(m.steady().into());
    row
}

/// One trial a row.
pub(super) fn table(title: &str, trials: &[Trial], runs: &[Measured]) -> Table {
    let mut table = Table::new(title, &COLUMNS);
    table.rows = trials.iter().zip(runs).map(|(t, m)| row(t, m)).collect();
    table
}

/// The evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let real = traces::present(bench.traces.as_deref(), &REAL, &mut report.notes);
    let real: Vec<(String, String)> =
        real.iter().map(|(t, path)| (t.name.to_owned(), path.to_string_lossy().into_owned())).collect();
    let twins: Vec<(String, String)> = TWINS.iter().map(|t| (t.to_string(), t.to_string())).collect();
    let traces = format!("{} real traces", real.len());
    if bench.wants(&["waflash-unaligned-8k"]) {
        unaligned(bench, "six twins", &twins, report)?;
        if !real.is_empty() {
            unaligned(bench, &traces, &real, report)?;
        }
    }
    if bench.wants(&["waflash-vs-mca"]) {
        against_mca(bench, &twins, report)?;
        if !real.is_empty() {
            real::against_mca(bench, &traces, &real, report)?;
        }
    }
    if bench.wants(&["waflash-fig1-tail"]) {
        tails(bench, report)?;
    }
    if bench.wants(&CLAIMS[2..10]) {
        filebench(bench, report)?;
    }
    if bench.wants(&["waflash-openssd"]) {
        openssd(bench, report)?;
    }
    if bench.wants(&["waflash-randomwrite-throughput"]) {
        bounds(bench, report)?;
    }
    if bench.wants(&CLAIMS[2..6]) {
        unpublished::table(bench, report)?;
    }
    if bench.wants(&CLAIMS[3..10]) {
        service(bench, report)?;
    }
    if bench.wants(&[]) {
        bulk::table(bench, report)?;
    }
    // Section V-D: pages of 8 KiB made of two sectors, an entry each.
    let worst = f64::from(2 * ENTRY_BYTES) / 8192.0;
    let what = "space for compaction's entries, 8 KiB pages, worst case";
    let closed = "closed form";
    let claim = Claim::new("waflash-metadata", "V-D", what, closed, 0.0015, worst, Rule::Points(0.0001));
    // The size of an entry is the paper's.
    report.claims.push(claim.input());
    Ok(())
}

fn asked(bench: &Bench<'_>, workload: &str, full: u64, quick: u64) -> Asked {
    let requests = Some(if bench.options.quick { quick } else { full });
    Asked { workload: workload.into(), seed: bench.options.seed, requests, ..Asked::default() }
}

/// SSDSim's drive with pages and a buffer of these sizes, an eighth of it when quick.
pub(super) fn ssdsim(bench: &Bench<'_>, page: u32, buffer: u64) -> Vec<String> {
    let blocks = if bench.options.quick { 256 } else { 2048 };
    vec![
        format!("geometry.page_bytes={page}"),
        format!("geometry.blocks_per_plane={blocks}"),
        format!("buffer.bytes={buffer}"),
    ]
}

/// Section II-B: unaligned writes of the traces.
fn unaligned(
    bench: &Bench<'_>,
    label: &str,
    workloads: &[(String, String)],
    report: &mut Report,
) -> Result<(), Error> {
    let drive = preset("pclru-ssdsim", None, &[])?;
    let shares = bench.each(
        workloads,
        |(name, _)| format!("{name}: alignment"),
        |(_, path)| {
            let requests = traces::requests(&asked(bench, path, 300_000, 30_000), &drive)?;
            let writes = || requests.iter().filter(|r| r.op == nandle_io::Op::Write);
            let share = |page: u64| {
                let odd = writes().filter(|r| !(r.offset | r.bytes).is_multiple_of(page)).count();
                odd as f64 / writes().count().max(1) as f64
            };
            Ok([share(8192), share(16384)])
        },
    )?;
    let mean = |n: usize| shares.iter().map(|s| s[n]).sum::<f64>() / shares.len() as f64;
    let twins = label.contains("twins");
    let why = "other traces, and parts of traces";
    for (n, size, paper) in [(0, "8 KiB", 0.831), (1, "16 KiB", 0.972)] {
        let what = format!("unaligned writes, {size} pages");
        let claim =
            Claim::new("waflash-unaligned-8k", "II-B", what, label, paper, mean(n), Rule::Points(0.05));
        report.claims.push(claim.because(why).input());
        if let Some(at) = workloads.iter().position(|(name, _)| name.starts_with("msnfs")) {
            let paper = [0.335, 0.991][n];
            let what = format!("unaligned writes of MSNFS, {size} pages");
            let (name, ours) = (&workloads[at].0, shares[at][n]);
            let claim =
                Claim::new("waflash-unaligned-8k", "II-B", what, name, paper, ours, Rule::Points(0.05));
            report.claims.push(claim.because(why).input());
        }
    }
    if twins {
        report.notes.push("the twins are made to have the unaligned shares of section II-B".into());
    }
    let mut table = Table::new(format!("Unaligned writes, {label}"), &["workload", "8 KiB", "16 KiB"]);
    for ((name, _), [small, large]) in workloads.iter().zip(shares) {
        table.rows.push(vec![name.clone().into(), small.into(), large.into()]);
    }
    report.tables.push(table);
    Ok(())
}

/// Fig 1: what unaligned writes do to tails on a page-mapped drive, with a write buffer and without one, at the rate
/// of MSNFS's twin and at others.
fn tails(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let shares = ["0", "25", "50", "75", "100"];
    let rates: [(&str, f64); 5] =
        [("500/s", 2.0), ("1,000/s", 1.0), ("2,000/s", 0.5), ("3,000/s", 1.0 / 3.0), ("4,000/s", 0.25)];
    let mut trials = Vec::new();
    for (buffer, with) in [(0, "no buffer"), (8 << 20, "8 MiB buffer")] {
        for (rate, scale) in rates {
            trials.extend(shares.map(|share| Trial {
                workload: format!("waflash-fig1:{share}"),
                setting: format!("{rate}, {with}"),
                device: "pclru-ssdsim",
                scheme: "lru+page",
                sets: ssdsim(bench, 8192, buffer),
                asked: Asked {
                    time_scale: Some(scale),
                    ..asked(bench, &format!("waflash-fig1:{share}"), 120_000, 20_000)
                },
                verify: false,
            }));
        }
    }
    let runs = run(bench, &trials)?;
    let percentiles = [("90.000000", "90%", 8.0), ("95.000000", "95%", 24.0)];
    let mut by_rate = Table::new(
        "Fig 1: write latency with half of the writes unaligned to none",
        &["setting", "90%", "95%", "channels busy, none", "channels busy, half"],
    );
    let mut paper: Vec<Cell> = vec!["the paper, at a rate that is not published".into()];
    paper.extend(percentiles.map(|(.., figure)| Cell::from(figure)));
    paper.extend([f64::NAN; 2].map(Cell::from));
    by_rate.rows.push(paper);
    for (trials, runs) in trials.chunks(shares.len()).zip(runs.chunks(shares.len())) {
        let setting = &trials[0].setting;
        let ratio = |p: &str| runs[2].write_percentile(p) / runs[0].write_percentile(p);
        let mut row: Vec<Cell> = vec![setting.clone().into()];
        row.extend(percentiles.map(|(p, ..)| Cell::from(ratio(p))));
        row.extend([runs[0].channels_busy, runs[2].channels_busy].map(Cell::from));
        by_rate.rows.push(row);
        // How long tails are depends on the rate, which is not published: only that they are longer is counted.
        if trials[0].asked.time_scale == Some(1.0) {
            for (percentile, shown, _) in percentiles {
                let what =
                    format!("write latency at {shown}, no write unaligned to half (below 1: tails grow)");
                let (id, ours) = ("waflash-fig1-tail", 1.0 / ratio(percentile));
                report.claims.push(Claim::new(id, "Fig 1b", what, setting, 1.0, ours, Rule::Below));
            }
        }
    }
    report.tables.push(by_rate);
    let mut table = Table::new(
        "Fig 1: latencies in ms by share of unaligned writes",
        &[
            "workload",
            "setting",
            "write 50%",
            "write 90%",
            "write 95%",
            "write 99%",
            "read 50%",
            "read 90%",
            "read 95%",
            "read 99%",
            "dies busy",
            "channels busy",
            "RMW reads",
        ],
    );
    for (t, m) in trials.iter().zip(&runs) {
        let mut row: Vec<Cell> = vec![t.workload.clone().into(), t.setting.clone().into()];
        let percentiles = ["50.000000", "90.000000", "95.000000", "99.000000"];
        row.extend(percentiles.map(|p| Cell::from(m.write_percentile(p) / 1e6)));
        row.extend(percentiles.map(|p| Cell::from(m.read_percentile(p) / 1e6)));
        row.extend([m.dies_busy, m.channels_busy, m.summary.flash.reads.rmw as f64].map(Cell::from));
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}

/// The parts of the scheme, one after the other.
const PARTS: [&str; 5] =
    ["fifo+page", "lru+page", "pc-lru+page", "pc-lru+multi-version", "pc-lru+multi-version+compaction"];
/// The baseline and WAFLASH.
const TWO: [&str; 2] = [PARTS[0], PARTS[4]];
const PERSONALITIES: [(&str, &str, f64); 4] = [
    ("filebench-randomwrite", "waflash-randomwrite-throughput", 2.25),
    ("filebench-fileserver", "waflash-fileserver-throughput", 1.86),
    ("filebench-webserver", "waflash-webserver-throughput", 1.37),
    ("filebench-webproxy", "waflash-webproxy-throughput", 1.68),
];

/// An eighth of a drive, with as many dies, and a buffer in proportion.
fn small() -> Vec<String> {
    ["geometry.pages_per_block=32", "buffer.bytes=4MiB"].map(str::to_owned).to_vec()
}

/// The emulated drive.
fn vssim(bench: &Bench<'_>) -> Vec<String> {
    if bench.options.quick { small() } else { Vec::new() }
}

/// Figs 7, 8 and 9, and the counts of section V-B.
fn filebench(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
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
    let what = "partial pages in the buffer, pc-lru to fifo, mean";
    report.claims.push(
        Claim::new(counts[0], "V-B (2)", what, workload, 1.21, mean(&held), Rule::Ratio(0.1))
            .because(FULL_PAGES),
    );
    let partial = |m: &Measured| m.summary.buffer.evicted_partial_pages as f64;
    let sent = ratios(&|r| partial(&r[2]) / partial(&r[0]));
    for (what, paper, ours) in [
        ("best", 0.894, sent.iter().copied().fold(f64::NAN, f64::min)),
        ("worst", 0.955, sent.iter().copied().fold(f64::NAN, f64::max)),
    ] {
        let what = format!("partial pages to flash, pc-lru to fifo, {what}");
        let claim = Claim::new(counts[1], "V-B (3)", what, workload, paper, ours, Rule::Ratio(0.05));
        report.claims.push(claim.because(FULL_PAGES));
    }
    let programs = |m: &Measured| m.summary.flash.programs.total as f64;
    let packed = ratios(&|r| programs(&r[4]) / programs(&r[3]));
    for (what, paper, ours) in [
        ("best", 0.88, packed.iter().copied().fold(f64::NAN, f64::min)),
        ("worst", 0.93, packed.iter().copied().fold(f64::NAN, f64::max)),
    ] {
        let what = format!("flash writes with compaction to without, {what}");
        let claim = Claim::new(counts[2], "V-B (4)", what, workload, paper, ours, Rule::Ratio(0.05));
        report.claims.push(claim.because(NEIGHBOURS));
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
fn service(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
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

/// What random write is bound by: the same requests with more of them at a time, a larger buffer,
/// larger regions and a drive that collects.
fn bounds(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let schemes = ["fifo+page", "pc-lru+multi-version", "pc-lru+multi-version+compaction"];
    let larger = if quick { "buffer.bytes=32MiB" } else { "buffer.bytes=256MiB" };
    let spare =
        ["op_ratio=1.0", "scheme.multi_version.version_budget=1.0", "scheme.multi_version.table_share=1.0"];
    let both = [spare[0], spare[1], spare[2], larger];
    let cases: [(&str, u32, &[&str]); 10] = [
        ("3 threads, as the paper", 3, &[]),
        ("3 threads, half of the drive spare", 3, &spare),
        ("3 threads, eight times the buffer", 3, &[larger]),
        ("32 threads", 32, &[]),
        ("256 threads", 256, &[]),
        ("256 threads, half of the drive spare", 256, &spare),
        ("256 threads, eight times the buffer", 256, &[larger]),
        (
            "256 threads, eight times the buffer, regions of 1024 pages",
            256,
            &[larger, "scheme.compacted.region_pages=1024"],
        ),
        ("256 threads, eight times the buffer, half of the drive spare", 256, &both),
        ("256 threads, aged", 256, &["precondition.used=0.9", "precondition.valid=0.85"]),
    ];
    let mut trials = Vec::new();
    for (setting, depth, changes) in cases {
        trials.extend(schemes.map(|scheme| {
            Trial {
                workload: "filebench-randomwrite:4k".into(),
                setting: setting.into(),
                device: "waflash-vssim",
                scheme,
                // A drive that takes as many commands as there are threads, but for the paper's own.
                sets: (vssim(bench).into_iter().chain(changes.iter().map(|&c| c.to_owned())))
                    .chain((depth > 3).then(|| format!("queue.depth={depth}")))
                    .collect(),
                asked: Asked {
                    mode: Some(Mode::Closed),
                    iodepth: Some(depth),
                    ..asked(bench, "filebench-randomwrite:4k", 300_000, 15_000)
                },
                verify: false,
            }
        }));
    }
    let runs = run(bench, &trials)?;
    let mut gains = Table::new(
        "What random write is bound by: to fifo+page in the same setting",
        &[
            "setting",
            "multi-version",
            "with compaction",
            "flash programs",
            "dies busy, fifo",
            "channels busy, fifo",
        ],
    );
    for (n, (setting, ..)) in cases.iter().enumerate() {
        let r = &runs[n * schemes.len()..][..schemes.len()];
        let programs = |m: &Measured| m.summary.flash.programs.total as f64;
        let figures = [
            r[1].bytes_per_s() / r[0].bytes_per_s(),
            r[2].bytes_per_s() / r[0].bytes_per_s(),
            programs(&r[2]) / programs(&r[0]),
            r[0].dies_busy,
            r[0].channels_busy,
        ];
        gains.rows.push(std::iter::once((*setting).into()).chain(figures.map(Cell::from)).collect());
    }
    report.tables.push(gains);
    report.tables.push(table("What random write is bound by: runs", &trials, &runs));
    Ok(())
}

/// Fig 10: PC-LRU and MCA under page mapping.
fn against_mca(bench: &Bench<'_>, workloads: &[(String, String)], report: &mut Report) -> Result<(), Error> {
    let mut assumed = Table::new(
        "Fig 10: what is not published, six twins",
        &["buffer", "requests a second", "mca to lru", "pc-lru to lru"],
    );
    for (mib, scale) in [(8, 1.0), (2, 1.0), (32, 1.0), (8, 2.0), (8, 0.5)] {
        let mut trials = Vec::new();
        for (name, path) in workloads {
            trials.extend(BUFFERS.map(|scheme| Trial {
                workload: name.clone(),
                setting: String::new(),
                device: "pclru-ssdsim",
                scheme,
                sets: ssdsim(bench, 8192, mib << 20),
                asked: Asked { time_scale: Some(scale), ..asked(bench, path, 300_000, 30_000) },
                verify: false,
            }));
        }
        let runs = run(bench, &trials)?;
        if (mib, scale) == (8, 1.0) {
            latencies("six twins", &runs, WAITS, report);
            report.tables.push(table("Fig 10: buffers, six twins", &trials, &runs));
        }
        let mut row: Vec<Cell> = vec![format!("{mib} MiB").into(), (1000.0 / scale).into()];
        row.extend([1, 2].map(|n| Cell::from(to_lru(&runs, n))));
        assumed.rows.push(row);
    }
    report.tables.push(assumed);
    Ok(())
}

/// Fig 10's buffers.
const BUFFERS: [&str; 3] = ["lru+page", "mca+page", "pc-lru+page"];

/// Mean latency of one of [`BUFFERS`] to the first, mean of the workloads.
fn to_lru(runs: &[Measured], buffer: usize) -> f64 {
    let ratios = runs.chunks(BUFFERS.len()).map(|r| r[buffer].all_ns() / r[0].all_ns());
    ratios.sum::<f64>() / (runs.len() / BUFFERS.len()) as f64
}

/// Fig 10's two means.
fn latencies(label: &str, runs: &[Measured], why: &str, report: &mut Report) {
    for (n, what, paper) in [(2, "pc-lru", 0.744), (1, "mca", 0.973)] {
        let what = format!("mean latency, {what} to lru, mean of the traces");
        let ours = to_lru(runs, n);
        let claim = Claim::new("waflash-vs-mca", "Fig 10", what, label, paper, ours, Rule::Ratio(0.05));
        report.claims.push(claim.because(why));
    }
}

/// Fig 11: random write on the OpenSSD board.
fn openssd(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let schemes = ["lru+page+greedy", "pc-lru+multi-version+compaction+greedy"];
    let sizes: &[&str] = if quick { &["4k", "9k"] } else { &["1k", "3k", "4k", "5k", "7k", "9k"] };
    let mut trials = Vec::new();
    for size in sizes {
        trials.extend(schemes.map(|scheme| Trial {
            workload: "filebench-randomwrite".into(),
            setting: (*size).into(),
            device: "waflash-openssd",
            scheme,
            sets: if quick { small() } else { Vec::new() },
            asked: asked(bench, &format!("filebench-randomwrite:{size}"), 300_000, 15_000),
            verify: quick,
        }));
    }
    let runs = run(bench, &trials)?;
    let best = runs.chunks(2).map(|r| r[1].all_ns() / r[0].all_ns()).fold(f64::NAN, f64::min);
    let workload = "filebench-randomwrite";
    let what = "mean latency, up to";
    let claim = Claim::new("waflash-openssd", "Fig 11", what, workload, 0.57, best, Rule::Ratio(0.2));
    report.claims.push(claim.because(DEPTH));
    report.tables.push(table("Fig 11: random write on the OpenSSD board", &trials, &runs));
    Ok(())
}

const DEPTH: &str = "the table of page numbers has as many places as half a mapping entry has values left: once it is full, \
    few updates are compacted; with more spare pages, larger buffers and more requests at a time the gain grows \
    (table: what random write is bound by)";
const READS: &str = "no scheme saves a read from flash: reads are nearly all of the web server's and the proxy server's time with \
    either scheme, and most of what WAFLASH leaves of the file server's (table: where the time goes)";
const FULL_PAGES: &str = "a FIFO that does not gather pages holds and sends more partial pages than any buffer that does \
    (table of Figs 7 to 9: partial held, evicted partial)";
const NEIGHBOURS: &str = "two small partial pages of one region rarely wait in the buffer together: best where they do, worst \
    where nothing was compacted (table of Figs 7 to 9: compacted)";
const WAITS: &str = "buffer, arrival rate and number of requests are not published, and the gain depends on each (tables: what \
    is not published, here and of the PC-LRU poster)";

mod bulk {
    //! Large writes in order, where the paper's FIFO beats every other buffer, and what cleaning ahead makes of it.

    use std::path::Path;

    use nandle_trace::fio;

    use super::super::simulate::{Start, simulate_prepared};
    use super::{Bench, Cell, Report, Table, Trial};
    use crate::Error;
    use crate::workload::{Asked, generated};

    /// As a mail server's files are rewritten: 832 KiB in the mean, 2 ms apart. The page has the same job file.
    const JOB: &str =
        "[bulk]\nrw=write\nbssplit=256k/25:832k/50:1408k/25\niodepth=1\nthinktime=2ms\nsize=20g\n";
    const SCHEMES: [&str; 5] =
        ["fifo+page", "lru+page", "mca+page", "pc-lru+page", "pc-lru+multi-version+compaction"];

    /// All buffers, with and without cleaning ahead; of the published size however quick.
    pub(super) fn table(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
        let mut trials = Vec::new();
        for scheme in SCHEMES {
            trials.extend([false, true].map(|ahead| Trial {
                workload: "bulk.fio".into(),
                setting: format!("clean_ahead = {ahead}"),
                device: "waflash-vssim",
                scheme,
                sets: vec![format!("buffer.clean_ahead={ahead}")],
                asked: Asked { seed: bench.options.seed, requests: Some(8_000), ..Asked::default() },
                verify: false,
            }));
        }
        let name = |t: &Trial| format!("{} {} {}", t.workload, t.scheme, t.setting);
        let runs = bench.each(&trials, name, |t| {
            let drive = t.drive()?;
            let workload = fio::workload(JOB, Path::new(&t.workload), &t.asked.target(&drive))?;
            let prepared = generated(workload, &drive);
            simulate_prepared(Start::AsLeft, &drive, &t.asked, prepared, t.verify, bench.stop)
        })?;
        let mut table = Table::new(
            "Bulk writes: buffer.clean_ahead off and on",
            &["scheme", "write ms, off", "on", "write 99% ms, off", "on", "programs, off", "on"],
        );
        for (trials, runs) in trials.chunks(2).zip(runs.chunks(2)) {
            let mut row: Vec<Cell> = vec![trials[0].scheme.into()];
            row.extend(runs.iter().map(|m| Cell::from(m.write_ns() / 1e6)));
            row.extend(runs.iter().map(|m| Cell::from(m.write_percentile("99.000000") / 1e6)));
            row.extend(runs.iter().map(|m| Cell::from(m.summary.flash.programs.total)));
            table.rows.push(row);
        }
        report.tables.push(table);
        Ok(())
    }
}

mod real {
    //! Fig 10 with real traces, which are short: each on a device that is sized to what it touches, and once before it
    //! is measured, so that the device collects.

    use nandle_trace::Request;
    use nandle_trace::synthetic::Replay;

    use super::super::simulate::{Measured, Start, listed, pages_read, simulate_prepared};
    use super::super::{Bench, Cell, Report, Table, preset, traces};
    use super::{BUFFERS, Trial, asked, latencies, table, to_lru};
    use crate::Error;
    use crate::config::Drive;
    use crate::workload::Prepared;

    /// Share of the logical device that a trace touches. Assumed, as in PAPA's; the table has 50, 70 and 100%.
    const FILL: f64 = 0.7;
    /// What SSDSim ships with: the twins' 8 MiB would hold all that some of these traces write.
    const BUFFER: u64 = 128 << 10;
    const PAGE: u64 = 8192;
    /// Small blocks, as the devices are small.
    const PAGES_PER_BLOCK: u32 = 8;
    /// Blocks of a plane beside those of the logical device and its over-provisioning: the ones that are written and
    /// those that collection keeps.
    const BESIDE: u64 = 6;

    /// A trace with the pages that it touches side by side.
    struct Real {
        name: String,
        requests: Vec<Request>,
        pages: u64,
    }

    /// A share of the device that is touched, and a buffer.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Size(f64, u64);

    impl Real {
        fn load(bench: &Bench<'_>, name: &str, path: &str) -> Result<Self, Error> {
            let whole = preset("pclru-ssdsim", None, &[format!("geometry.page_bytes={PAGE}")])?;
            let requests = traces::requests(&asked(bench, path, 300_000, 30_000), &whole)?;
            let (requests, pages) = traces::side_by_side(requests, PAGE);
            Ok(Self { name: name.to_owned(), requests, pages })
        }

        fn sets(&self, Size(fill, buffer): Size) -> Result<Vec<String>, Error> {
            let shipped = preset("pclru-ssdsim", None, &[])?.config;
            let row = u64::from(shipped.geometry.planes() * PAGES_PER_BLOCK);
            let logical = self.pages as f64 / fill;
            let blocks = (logical * (1.0 + shipped.op_ratio) / row as f64).ceil() as u64 + BESIDE;
            Ok(vec![
                format!("geometry.page_bytes={PAGE}"),
                format!("geometry.pages_per_block={PAGES_PER_BLOCK}"),
                format!("geometry.blocks_per_plane={blocks}"),
                format!("op_ratio={}", (blocks * row) as f64 / logical - 1.0),
                format!("buffer.bytes={buffer}"),
            ])
        }

        /// What it reads written, itself as fast as it goes, and itself at its own times.
        fn twice(&self, drive: &Drive) -> Prepared {
            let before = pages_read(&self.requests, PAGE).into_iter().chain(self.requests.iter().copied());
            let phases = vec![
                listed(Replay::Closed { iodepth: 32 }, before.collect(), drive),
                listed(Replay::Open { time_scale: 1.0 }, self.requests.clone(), drive),
            ];
            Prepared { name: self.name.clone(), phases, notes: Vec::new() }
        }
    }

    fn run(bench: &Bench<'_>, reals: &[Real], size: Size) -> Result<(Vec<Trial>, Vec<Measured>), Error> {
        let mut trials = Vec::new();
        for real in reals {
            let sets = real.sets(size)?;
            trials.extend(BUFFERS.map(|scheme| Trial {
                workload: real.name.clone(),
                setting: format!("{:.0}% touched, {} KiB buffer", size.0 * 100.0, size.1 >> 10),
                device: "pclru-ssdsim",
                scheme,
                sets: sets.clone(),
                asked: asked(bench, &real.name, 1, 1),
                verify: false,
            }));
        }
        let jobs: Vec<(&Trial, &Real)> =
            trials.iter().enumerate().map(|(n, t)| (t, &reals[n / BUFFERS.len()])).collect();
        let name = |(t, _): &(&Trial, &Real)| format!("{} {} {}", t.workload, t.scheme, t.setting);
        let runs = bench.each(&jobs, name, |(t, real)| {
            let drive = t.drive()?;
            simulate_prepared(Start::Flushed, &drive, &t.asked, real.twice(&drive), t.verify, bench.stop)
        })?;
        Ok((trials, runs))
    }

    pub(super) fn against_mca(
        bench: &Bench<'_>,
        label: &str,
        workloads: &[(String, String)],
        report: &mut Report,
    ) -> Result<(), Error> {
        let reals = bench.each(
            workloads,
            |(name, _)| format!("{name}: pages"),
            |(name, path)| Real::load(bench, name, path),
        )?;
        let ours = Size(FILL, BUFFER);
        let mut assumed = Table::new(
            format!("Fig 10: what is not published, {label}"),
            &["setting", "mca to lru", "pc-lru to lru", "erases, lru", "GC programs, lru"],
        );
        for size in
            [ours, Size(0.5, BUFFER), Size(1.0, BUFFER), Size(FILL, 8 * BUFFER), Size(FILL, 64 * BUFFER)]
        {
            let (trials, runs) = run(bench, &reals, size)?;
            if size == ours {
                latencies(label, &runs, LARGE, report);
                report.tables.push(table(&format!("Fig 10: buffers, {label}"), &trials, &runs));
            }
            let lru = || runs.iter().step_by(BUFFERS.len()).map(|m| &m.summary.flash);
            let mut row: Vec<Cell> = vec![trials[0].setting.clone().into()];
            row.extend([1, 2].map(|n| Cell::from(to_lru(&runs, n))));
            row.push(lru().map(|f| f.erases).sum::<u64>().into());
            row.push(lru().map(|f| f.programs.gc).sum::<u64>().into());
            assumed.rows.push(row);
        }
        report.tables.push(assumed);
        Ok(())
    }

    const LARGE: &str = "DTR and CloudPhysics write whole pages, and TPC-C writes nothing again while it waits; Financial1 and MSNFS's \
    sample, of whose writes a fifth or more meet the buffer, gain (table of Fig 10: evicted partial, buffer hits)";
}

mod unpublished {
    //! What the paper leaves unpublished, two other values of each; nothing of it is counted.

    use super::{Bench, Cell, PERSONALITIES, Report, TWO, Table, Trial, asked, run, vssim};
    use crate::Error;

    /// Ours, and what is changed. The buffer is to ours, as quick drives have smaller ones.
    const SETTINGS: [(&str, &[&str], u64); 13] = [
        ("ours", &[], REQUESTS),
        ("a quarter of the buffer", &["buffer.bytes=@1"], REQUESTS),
        ("four times the buffer", &["buffer.bytes=@16"], REQUESTS),
        ("over-provisioning 7%", &["op_ratio=0.07"], REQUESTS),
        ("over-provisioning 28%", &["op_ratio=0.28"], REQUESTS),
        ("half of the pages used before", &["precondition.used=0.5", "precondition.valid=0.45"], REQUESTS),
        ("nine tenths used before", &["precondition.used=0.9", "precondition.valid=0.85"], REQUESTS),
        ("8 commands at a time", &["queue.depth=8"], REQUESTS),
        ("32 commands at a time", &["queue.depth=32"], REQUESTS),
        ("20 us of the host a request", &["controller.command_ns=20000"], REQUESTS),
        ("50 us of the host a request", &["controller.command_ns=50000"], REQUESTS),
        ("a third of the requests", &[], REQUESTS / 3),
        ("three times the requests", &[], REQUESTS * 3),
    ];
    const REQUESTS: u64 = 300_000;

    /// A quarter of the buffer of [`vssim`].
    fn quarter(bench: &Bench<'_>) -> u64 {
        if bench.options.quick { 1 << 20 } else { 8 << 20 }
    }

    pub(super) fn table(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
        let mut trials = Vec::new();
        for (setting, changes, requests) in SETTINGS {
            let changes = changes.iter().map(|set| match set.split_once('@') {
                Some((key, quarters)) => {
                    format!("{key}{}", quarters.parse::<u64>().unwrap_or(4) * quarter(bench))
                }
                None => (*set).to_owned(),
            });
            let sets: Vec<String> = vssim(bench).into_iter().chain(changes).collect();
            for (name, ..) in PERSONALITIES {
                trials.extend(TWO.map(|scheme| Trial {
                    workload: name.into(),
                    setting: setting.into(),
                    device: "waflash-vssim",
                    scheme,
                    sets: sets.clone(),
                    asked: asked(bench, &format!("{name}:4k"), requests, requests / 20),
                    verify: false,
                }));
            }
        }
        let runs = run(bench, &trials)?;
        let columns: Vec<&str> =
            std::iter::once("setting").chain(PERSONALITIES.iter().map(|(name, ..)| *name)).collect();
        let mut table =
            Table::new("What is not published: throughput, waflash to fifo, requests of 4 KiB", &columns);
        for ((setting, ..), runs) in SETTINGS.iter().zip(runs.chunks(TWO.len() * PERSONALITIES.len())) {
            let mut row: Vec<Cell> = vec![(*setting).into()];
            row.extend(runs.chunks(TWO.len()).map(|r| Cell::from(r[1].bytes_per_s() / r[0].bytes_per_s())));
            table.rows.push(row);
        }
        report.tables.push(table);
        Ok(())
    }
}
