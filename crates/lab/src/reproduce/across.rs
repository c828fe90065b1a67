//! Across-FTL (ICPP 2023), section 4: page mapping, MRSM and Across-FTL on twins of its six traces.
//!
//! The device is the preset `across-tlc`, aged as the paper's; `quick` shrinks its capacity (and the
//! mapping cache with it) to a sixteenth and the traces to an eighth. Requests arrive at the twins'
//! times. A value is met if it is on the paper's side of 1 and within 10% of the paper's, or better.

use std::fmt::Write as _;

use nandle_ssd::mapping::MappingKind;
use nandle_ssd::mapping::across::AcrossStats;
use nandle_ssd::mapping::mrsm::{MrsmConfig, MrsmStats};
use nandle_ssd::nand::Cause;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Target, named};
use nandle_trace::{Request, Source};

/// One figure of the paper beside what comes out here.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The claim's name.
    pub id: &'static str,
    /// What is compared, and on which workload.
    pub what: String,
    /// The paper's value.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Whether ours says what the paper says, by the rule above.
    pub met: bool,
}

/// The six traces.
pub const TWINS: [&str; 6] = ["lun1", "lun2", "lun3", "lun4", "lun5", "lun6"];
/// The three schemes.
pub const SCHEMES: [MappingKind; 3] = [MappingKind::Page, MappingKind::Mrsm, MappingKind::Across];

/// What one run adds up to.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Requests, and those that span two pages though no larger than one.
    pub requests: [u64; 2],
    /// By class (other, across): latencies, sectors and programs of writes.
    pub write_ns: [u64; 2],
    /// Writes.
    pub writes: [u64; 2],
    /// Sectors written.
    pub write_sectors: [u64; 2],
    /// Pages that the writes touch.
    pub write_pages: [u64; 2],
    /// By class: latencies of reads.
    pub read_ns: [u64; 2],
    /// Reads.
    pub reads: [u64; 2],
    /// Sectors read.
    pub read_sectors: [u64; 2],
    /// Flash programs by cause.
    pub flash_writes: [u64; Cause::COUNT],
    /// Flash reads by cause.
    pub flash_reads: [u64; Cause::COUNT],
    /// Blocks erased.
    pub erases: u64,
    /// DRAM accesses of mapping look-ups.
    pub dram: u64,
    /// Bytes of the mapping table.
    pub mapping_bytes: u64,
    /// Across-page areas.
    pub areas: AcrossStats,
    /// Regions and sub-pages.
    pub mrsm: MrsmStats,
}

impl Run {
    /// Mean write latency in milliseconds.
    #[must_use]
    pub fn write_ms(&self) -> f64 {
        sum(&self.write_ns) / sum(&self.writes) / 1e6
    }
    /// Mean read latency in milliseconds.
    #[must_use]
    pub fn read_ms(&self) -> f64 {
        sum(&self.read_ns) / sum(&self.reads) / 1e6
    }
    /// Latencies of all requests added up, in seconds.
    #[must_use]
    pub fn io_s(&self) -> f64 {
        (sum(&self.read_ns) + sum(&self.write_ns)) / 1e9
    }
    fn writes_of(&self, cause: Cause) -> f64 {
        self.flash_writes[cause as usize] as f64
    }
    fn reads_of(&self, cause: Cause) -> f64 {
        self.flash_reads[cause as usize] as f64
    }
}

fn sum(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64
}

/// The paper's device with pages of `page` bytes under a scheme.
///
/// # Panics
/// If the preset is damaged.
#[must_use]
pub fn device(mapping: MappingKind, page: u32, quick: bool) -> DeviceConfig {
    let text = include_str!("../../../../drives/across-tlc.toml");
    let mut config: DeviceConfig = toml::from_str(text).expect("a preset is valid");
    let scale = if quick { 16 } else { 1 };
    let g = &mut config.geometry;
    g.blocks_per_plane =
        (u64::from(g.blocks_per_plane) * u64::from(g.page_bytes) / u64::from(page)) as u32 / scale;
    g.page_bytes = page;
    // The threshold, and the blocks being written, stay free.
    let most = 0.9 - 4.0 / f64::from(g.blocks_per_plane);
    config.precondition.used = config.precondition.used.min(most);
    config.map_cache.bytes /= u64::from(scale);
    config.scheme.mapping = mapping;
    config.scheme.mrsm = MrsmConfig {
        sub_pages: (page / 4096).max(2),
        region_pages: (64 << 20) / page,
        ..MrsmConfig::default()
    };
    config.scheme.mrsm.region_pages =
        config.scheme.mrsm.region_pages.min(32768 / config.scheme.mrsm.sub_pages);
    config
}

/// Replays a twin's first `most` requests on a fresh device.
///
/// # Panics
/// If the device or the twin cannot be had: both are ours.
#[must_use]
pub fn run(twin: &str, config: &DeviceConfig, most: Option<u64>) -> Run {
    let mut ssd = Ssd::new(config, 0, 1).expect("a valid device");
    let mut out = replay(&mut ssd, twin, most);
    let counters = ssd.flash().counters();
    for cause in 0..Cause::COUNT {
        out.flash_writes[cause] = counters.programs[cause].iter().sum();
        out.flash_reads[cause] = counters.reads[cause].iter().sum();
    }
    out.erases = counters.erases;
    out.dram = ssd.stats().dram_accesses;
    out.mapping_bytes = ssd.flash().mapping_bytes();
    out.areas = ssd.stats().across.clone();
    out.mrsm = ssd.stats().mrsm.clone();
    out
}

/// Replays a twin at its times.
fn replay(ssd: &mut Ssd, twin: &str, most: Option<u64>) -> Run {
    let config = ssd.config();
    let (page, sector) = (config.geometry.page_bytes, config.geometry.sector_bytes);
    let logical_bytes = ssd.layout().logical_bytes;
    let target = Target { logical_bytes, page_bytes: page, sector_bytes: sector, seed: 1, requests: most };
    let mut source = named(twin, &target).expect("a twin that exists").into_source();
    let (mut out, spp) = (Run::default(), u64::from(page / sector));
    let mut arrivals: Vec<(u64, Op, u64, usize)> = Vec::new();
    let mut batch: Vec<Request> = Vec::new();
    let mut done: Vec<Completion> = Vec::new();
    loop {
        batch.clear();
        source.fill(&mut batch, 4096).expect("a generated trace");
        if batch.is_empty() {
            break;
        }
        for r in &batch {
            let op = match r.op {
                nandle_trace::Op::Read => Op::Read,
                nandle_trace::Op::Write => Op::Write,
                _ => continue,
            };
            let (lsn, sectors) = (r.offset / u64::from(sector), r.bytes / u64::from(sector));
            let pages = (lsn + sectors - 1) / spp - lsn / spp + 1;
            let class = usize::from(sectors <= spp && pages == 2);
            let arrival = r.time_ns;
            ssd.advance(arrival, &mut done);
            while !ssd.accepts() {
                let next = ssd.next_event().expect("requests are under way");
                ssd.advance(next, &mut done);
            }
            account(&mut out, &mut done, &arrivals);
            let id = arrivals.len() as u64;
            let command = Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] };
            ssd.submit(ssd.now().max(arrival), &command);
            arrivals.push((arrival, op, sectors, class));
            out.requests[class] += 1;
            if op == Op::Write {
                out.write_pages[class] += pages;
            }
        }
    }
    while ssd.outstanding() > 0 {
        let next = ssd.next_event().expect("requests are under way");
        ssd.advance(next, &mut done);
    }
    account(&mut out, &mut done, &arrivals);
    out
}

fn account(out: &mut Run, done: &mut Vec<Completion>, arrivals: &[(u64, Op, u64, usize)]) {
    for c in done.drain(..) {
        let (arrival, op, sectors, class) = arrivals[c.id as usize];
        let (ns, count, size) = match op {
            Op::Read => (&mut out.read_ns, &mut out.reads, &mut out.read_sectors),
            _ => (&mut out.write_ns, &mut out.writes, &mut out.write_sectors),
        };
        ns[class] += c.at - arrival;
        count[class] += 1;
        size[class] += sectors;
    }
}

/// Runs of the six twins, each under page, MRSM and Across-FTL.
pub type Runs = Vec<[Run; 3]>;

/// All runs at one page size, with 1/`cache` of the preset's mapping cache; `progress` is told of each.
pub fn runs(page: u32, quick: bool, cache: u64, mut progress: impl FnMut(&str, MappingKind, &Run)) -> Runs {
    let most = quick.then_some(90_000);
    TWINS
        .iter()
        .map(|twin| {
            SCHEMES.map(|mapping| {
                let mut config = device(mapping, page, quick);
                config.map_cache.bytes = (config.map_cache.bytes / cache).max(2 * u64::from(page));
                let run = run(twin, &config, most);
                progress(twin, mapping, &run);
                run
            })
        })
        .collect()
}

/// Mean over the twins of `f(across) / f(other)`; `other`: 0 = page, 1 = MRSM.
fn ratio(runs: &[[Run; 3]], other: usize, f: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(|r| f(&r[2]) / f(&r[other])).sum::<f64>() / runs.len() as f64
}

fn mean(runs: &[[Run; 3]], f: impl Fn(&[Run; 3]) -> f64) -> f64 {
    runs.iter().map(f).sum::<f64>() / runs.len() as f64
}

/// A reduction, or an expense: on the paper's side of 1, and within 10% or better.
fn ratio_met(paper: f64, ours: f64) -> bool {
    if paper < 1.0 {
        ours < 1.0 && ours <= paper * 1.1
    } else {
        ours > 1.0 / 1.1 && (0.9..1.1).contains(&(ours / paper))
    }
}

/// The claims of section 4 at 8 KiB pages.
#[must_use]
pub fn findings(runs: &[[Run; 3]]) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut add = |id, what: &str, paper: f64, ours: f64, met: bool| {
        out.push(Finding { id, what: what.into(), paper, ours, met });
    };
    let shares = [0.247, 0.164, 0.234, 0.187, 0.235, 0.275];
    for ((twin, paper), run) in TWINS.iter().zip(shares).zip(runs) {
        let ours = run[0].requests[1] as f64 / sum(&run[0].requests);
        add(
            "across-share",
            &format!("across-page requests of {twin}"),
            paper,
            ours,
            (ours - paper).abs() < 0.01,
        );
    }
    let per = |a: [u64; 2], b: [u64; 2]| (a[1] as f64 / b[1] as f64) / (a[0] as f64 / b[0] as f64);
    let cost = [
        (
            "read latency a sector, across to other requests (page)",
            1.61,
            mean(runs, |r| per(r[0].read_ns, r[0].read_sectors)),
        ),
        (
            "write latency a sector, across to other requests (page)",
            1.49,
            mean(runs, |r| per(r[0].write_ns, r[0].write_sectors)),
        ),
        (
            "pages written a sector, across to other requests (page)",
            2.69,
            mean(runs, |r| per(r[0].write_pages, r[0].write_sectors)),
        ),
    ];
    for (what, paper, ours) in cost {
        add("across-cost", what, paper, ours, ours > 1.0 && ours >= paper * 0.9);
    }
    let share = |f: &dyn Fn(&AcrossStats) -> (u64, u64)| {
        mean(runs, |r| {
            let (part, all) = f(&r[2].areas);
            part as f64 / all.max(1) as f64
        })
    };
    let rolled = share(&|a| (a.rollbacks, a.direct_writes));
    add("across-rollbacks", "areas rolled back, of areas made", 0.039, rolled, rolled <= 0.049);
    let unprofitable =
        share(&|a| (a.unprofitable_merges, a.direct_writes + a.profitable_merges + a.unprofitable_merges));
    add(
        "across-rollbacks",
        "unprofitable merges, of across writes",
        0.089,
        unprofitable,
        unprofitable <= 0.1,
    );
    let merged = mean(runs, |r| r[2].areas.merged_reads as f64 / sum(&r[2].flash_reads));
    add("across-rollbacks", "merged reads, of flash reads", 0.0012, merged, merged <= 0.005);
    let all_writes = |r: &Run| sum(&r.flash_writes);
    let all_reads = |r: &Run| sum(&r.flash_reads);
    let ratios: [(&'static str, &str, f64, f64); 14] = [
        ("across-write-latency", "write latency, to page", 0.911, ratio(runs, 0, Run::write_ms)),
        ("across-write-latency", "write latency, to mrsm", 0.963, ratio(runs, 1, Run::write_ms)),
        ("across-io-latency", "latency of all requests, to page", 0.916, ratio(runs, 0, Run::io_s)),
        ("across-io-latency", "latency of all requests, to mrsm", 0.954, ratio(runs, 1, Run::io_s)),
        ("across-io-latency", "read latency, to page", 0.95, ratio(runs, 0, Run::read_ms)),
        ("across-io-latency", "read latency, to mrsm", 0.95, ratio(runs, 1, Run::read_ms)),
        ("across-flash-ops", "flash writes, to page", 0.841, ratio(runs, 0, all_writes)),
        ("across-flash-ops", "flash writes, to mrsm", 0.691, ratio(runs, 1, all_writes)),
        ("across-flash-ops", "flash reads, to page", 0.903, ratio(runs, 0, all_reads)),
        ("across-flash-ops", "flash reads, to mrsm", 0.839, ratio(runs, 1, all_reads)),
        ("across-flash-ops", "update reads, to page", 0.378, ratio(runs, 0, |r| r.reads_of(Cause::Rmw))),
        ("across-erases", "erases, to page", 0.867, ratio(runs, 0, |r| r.erases as f64)),
        ("across-erases", "erases, to mrsm", 0.754, ratio(runs, 1, |r| r.erases as f64)),
        ("across-overhead", "mapping memory, to page", 1.4, ratio(runs, 0, |r| r.mapping_bytes as f64)),
    ];
    for (id, what, paper, ours) in ratios {
        add(id, what, paper, ours, ratio_met(paper, ours));
    }
    let of_page = |f: &dyn Fn(&Run) -> f64| mean(runs, |r| f(&r[1]) / f(&r[0]));
    let memory = of_page(&|r| r.mapping_bytes as f64);
    add("across-overhead", "mapping memory of mrsm, to page", 2.4, memory, ratio_met(2.4, memory));
    let dram = ratio(runs, 0, |r| r.dram as f64);
    add("across-overhead", "DRAM accesses, to page", 1.011, dram, ratio_met(1.011, dram));
    let dram = of_page(&|r| r.dram as f64);
    add("across-overhead", "DRAM accesses of mrsm, to page", 32.6, dram, ratio_met(32.6, dram));
    let map = |scheme: usize, read: bool| {
        mean(runs, |r| {
            let r = &r[scheme];
            if read { r.reads_of(Cause::Map) / all_reads(r) } else { r.writes_of(Cause::Map) / all_writes(r) }
        })
    };
    for (what, paper, ours, least) in [
        ("map writes of all flash writes, mrsm", 0.369, map(1, false), true),
        ("map writes of all flash writes, across", 0.026, map(2, false), false),
        ("map reads of all flash reads, mrsm", 0.344, map(1, true), true),
        ("map reads of all flash reads, across", 0.0074, map(2, true), false),
    ] {
        let met = if least { ours >= paper * 0.9 } else { ours <= paper * 1.1 };
        add("across-flash-ops", what, paper, ours, met);
    }
    out
}

/// Fig 14: ahead of both on latency and erases at this page size.
#[must_use]
pub fn page_size_findings(page: u32, runs: &[[Run; 3]]) -> Vec<Finding> {
    let kib = page / 1024;
    let mut out = Vec::new();
    for (other, name) in [(0, "page"), (1, "mrsm")] {
        for (what, ours) in [
            ("latency of all requests", ratio(runs, other, Run::io_s)),
            ("erases", ratio(runs, other, |r| r.erases as f64)),
        ] {
            let what = format!("{what}, to {name}, {kib} KiB pages");
            out.push(Finding { id: "across-page-sizes", what, paper: 1.0, ours, met: ours < 1.0 });
        }
    }
    out
}

/// The findings as a table.
#[must_use]
pub fn table(findings: &[Finding]) -> String {
    let mut out = String::from("| claim | what | paper | here | met |\n| --- | --- | ---: | ---: | --- |\n");
    for f in findings {
        let met = if f.met { "yes" } else { "no" };
        let _ = writeln!(out, "| {} | {} | {:.4} | {:.4} | {met} |", f.id, f.what, f.paper, f.ours);
    }
    out
}

/// One run in a line.
#[must_use]
pub fn line(twin: &str, mapping: MappingKind, r: &Run) -> String {
    let by = |all: &[u64; Cause::COUNT]| {
        format!("host {} rmw {} gc {} merge {} map {}", all[0], all[1], all[2], all[3], all[4])
    };
    let counts = match mapping {
        MappingKind::Across => format!("{:?}", r.areas),
        MappingKind::Mrsm => format!("{:?}", r.mrsm),
        _ => String::new(),
    };
    format!(
        "{twin} {}: write {:.3} ms, read {:.3} ms, programs {}, reads {}, erases {}, dram {}, table {} MiB {counts}",
        mapping.name(),
        r.write_ms(),
        r.read_ms(),
        by(&r.flash_writes),
        by(&r.flash_reads),
        r.erases,
        r.dram,
        r.mapping_bytes >> 20,
    )
}
