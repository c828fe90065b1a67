//! Across-FTL (ICPP 2023), section 4: page mapping, MRSM and Across-FTL on twins of its six traces.
//!
//! The device is the preset `across-tlc`, aged as the paper's; `quick` shrinks its capacity (and the
//! mapping cache with it) to a sixteenth and the traces to an eighth. Real traces, which are short, get a device
//! that they fill. Requests arrive at the traces' times. A ratio is met if it is on the paper's side of 1 and within 10% of the paper's.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;

use nandle_ssd::nand::{Cause, Geometry};
use nandle_ssd::schemes::across::{Across, AcrossStats};
use nandle_ssd::schemes::mrsm::{Mrsm, MrsmConfig, MrsmStats};
use nandle_ssd::{Command, Completion, Op, Ssd};
use nandle_trace::Request;

use super::traces::{self, Real};
use super::{Bench, Cell, Claim, Report, Rule, Table, preset};
use crate::Error;
use crate::config::Drive;
use crate::workload::Asked;

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "across-share",
    "across-cost",
    "across-rollbacks",
    "across-write-latency",
    "across-io-latency",
    "across-flash-ops",
    "across-erases",
    "across-overhead",
    "across-page-sizes",
];
/// The six traces.
pub const TWINS: [&str; 6] = ["lun1", "lun2", "lun3", "lun4", "lun5", "lun6"];
/// The three schemes.
pub const SCHEMES: [&str; 3] = ["page", "mrsm", "across"];

/// Share of its device that a real trace touches. Assumed, as in PAPA's evaluation.
const FILL: f64 = 0.7;
/// Small blocks, as the devices are small.
const PAGES_PER_BLOCK: u32 = 8;
/// Blocks of a plane beside those of the logical device and its over-provisioning: those that are written and those that
/// collection keeps.
const BESIDE: f64 = 6.0;

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
    /// By class, of reads and of writes: each request's latency over its own sectors, added up.
    pub ns_a_sector: [[f64; 2]; 2],
    /// Of reads and of writes: latencies and sectors of those of the other class that are no larger than a page.
    pub small: [[u64; 2]; 2],
    /// Flash programs by cause.
    pub flash_writes: [u64; Cause::COUNT],
    /// Flash reads by cause.
    pub flash_reads: [u64; Cause::COUNT],
    /// Blocks erased.
    pub erases: u64,
    /// DRAM accesses of the mapping table: look-ups and updates (section 4.2.4: "by reducing the number of write/read
    /// operations").
    pub dram: u64,
    /// Bytes of the mapping table.
    pub mapping_bytes: u64,
    /// Share of it that the mapping cache holds.
    pub cached: f64,
    /// Share of the device's pages that requests touch.
    pub touched: f64,
    /// Across-page areas.
    pub areas: AcrossStats,
    /// Nodes of MRSM's tree beyond one per logical page.
    pub further_nodes: u64,
    /// Regions and pieces.
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

/// The paper's device with pages of `page` bytes under a scheme, and 1/`cache` of its mapping cache.
///
/// # Errors
/// If the preset is damaged.
pub fn device(mapping: &str, page: u32, quick: bool, cache: u64) -> Result<Drive, Error> {
    let mut config = preset("across-tlc", None, &[])?.config;
    let scale = if quick { 16 } else { 1 };
    let g = &mut config.geometry;
    g.blocks_per_plane =
        (u64::from(g.blocks_per_plane) * u64::from(g.page_bytes) / u64::from(page)) as u32 / scale;
    g.page_bytes = page;
    // The threshold, and the blocks being written, stay free.
    let most = 0.9 - 4.0 / f64::from(g.blocks_per_plane);
    config.precondition.used = config.precondition.used.min(most);
    config.map_cache.bytes = (config.map_cache.bytes / u64::from(scale) / cache).max(2 * u64::from(page));
    config.scheme.mapping = mapping.into();
    config.scheme.mrsm = MrsmConfig { region_pages: (64 << 20) / page, ..MrsmConfig::default() };
    let layout = config.validate().map_err(|e| Error::input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}

/// The paper's device in small, of which a trace that touches so many pages fills [`FILL`]: aged alike, with as large a part
/// of the table in its cache.
fn small_device(mapping: &str, page: u32, touched: u64) -> Result<Drive, Error> {
    let mut config = device(mapping, page, true, 1)?.config;
    let logical =
        |g: &Geometry, op: f64| (g.planes() * g.blocks_per_plane * g.pages_per_block) as f64 / (1.0 + op);
    let whole = logical(&config.geometry, config.op_ratio);
    config.geometry.pages_per_block = PAGES_PER_BLOCK;
    let row = f64::from(config.geometry.planes() * PAGES_PER_BLOCK);
    let pages = touched as f64 / FILL;
    let blocks = (pages * (1.0 + config.op_ratio) / row).ceil() + BESIDE;
    config.geometry.blocks_per_plane = blocks as u32;
    config.op_ratio = blocks * row / pages - 1.0;
    config.precondition.used = config.precondition.used.min(0.9 - BESIDE / blocks);
    let cache = config.map_cache.bytes as f64 * pages / whole;
    config.map_cache.bytes = (cache as u64).max(2 * u64::from(page));
    let layout = config.validate().map_err(|e| Error::input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}

/// Replays a twin or a trace file at its times on a fresh device.
///
/// # Errors
/// If there is no such workload, or the device is stuck.
pub fn run(asked: &Asked, drive: &Drive) -> Result<Run, Error> {
    replayed(&traces::requests(asked, drive)?, drive, asked.seed)
}

fn replayed(requests: &[Request], drive: &Drive, seed: u64) -> Result<Run, Error> {
    let mut ssd = Ssd::new(&drive.config, 0, seed).map_err(|e| Error::input(e.to_string()))?;
    let mut out = replay(&mut ssd, requests)?;
    let counters = ssd.flash().counters();
    for cause in 0..Cause::COUNT {
        out.flash_writes[cause] = counters.programs[cause].iter().sum();
        out.flash_reads[cause] = counters.reads[cause].iter().sum();
    }
    out.erases = counters.erases;
    out.dram = ssd.stats().dram_accesses + ssd.stats().dram_updates;
    let pages = u64::from(ssd.flash().logical_pages());
    out.further_nodes = ssd.flash().map().tree().map_or(0, |tree| tree.nodes() - pages);
    out.mapping_bytes = ssd.flash().mapping_bytes();
    out.cached = (drive.config.map_cache.bytes as f64 / out.mapping_bytes as f64).min(1.0);
    out.touched = touched(requests, drive.config.geometry.page_bytes) as f64 / pages as f64;
    out.areas = ssd.scheme::<Across>().map(|a| a.stats().clone()).unwrap_or_default();
    out.mrsm = ssd.scheme::<Mrsm>().map(|m| m.stats().clone()).unwrap_or_default();
    Ok(out)
}

/// Pages that requests touch.
fn touched(requests: &[Request], page: u32) -> usize {
    let page = u64::from(page);
    let data = requests.iter().filter(|r| r.op.moves_data() && r.bytes > 0);
    data.flat_map(|r| r.offset / page..=(r.offset + r.bytes - 1) / page).collect::<HashSet<u64>>().len()
}

/// A request under way: when it arrived, what it is, its sectors and class.
type Arrival = (u64, Op, u64, usize);

fn replay(ssd: &mut Ssd, requests: &[Request]) -> Result<Run, Error> {
    let config = ssd.config();
    let (page, sector) = (config.geometry.page_bytes, config.geometry.sector_bytes);
    let (mut out, spp) = (Run::default(), u64::from(page / sector));
    let mut arrivals: Vec<Arrival> = Vec::with_capacity(requests.len());
    let mut done: Vec<Completion> = Vec::new();
    for r in requests.iter().filter(|r| r.op.moves_data()) {
        let op = r.op;
        let (lsn, sectors) = (r.offset / u64::from(sector), r.bytes / u64::from(sector));
        if sectors == 0 {
            continue;
        }
        let pages = (lsn + sectors - 1) / spp - lsn / spp + 1;
        let class = usize::from(sectors <= spp && pages == 2);
        let arrival = r.time_ns;
        ssd.advance(arrival.max(ssd.now()), &mut done);
        while !ssd.accepts() {
            step(ssd, &mut done)?;
        }
        account(&mut out, &mut done, &arrivals, spp);
        let id = arrivals.len() as u64;
        let command = Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] };
        ssd.submit(ssd.now().max(arrival), &command);
        arrivals.push((arrival, op, sectors, class));
        out.requests[class] += 1;
        if op == Op::Write {
            out.write_pages[class] += pages;
        }
    }
    while ssd.outstanding() > 0 {
        step(ssd, &mut done)?;
    }
    account(&mut out, &mut done, &arrivals, spp);
    Ok(out)
}

fn step(ssd: &mut Ssd, done: &mut Vec<Completion>) -> Result<(), Error> {
    let stuck = Error::Stuck { at_ns: ssd.now(), outstanding: ssd.outstanding() };
    let next = ssd.next_event().ok_or(stuck)?;
    ssd.advance(next, done);
    Ok(())
}

fn account(out: &mut Run, done: &mut Vec<Completion>, arrivals: &[Arrival], page_sectors: u64) {
    for c in done.drain(..) {
        let (arrival, op, sectors, class) = arrivals[c.id as usize];
        let (ns, count, size) = match op {
            Op::Read => (&mut out.read_ns, &mut out.reads, &mut out.read_sectors),
            _ => (&mut out.write_ns, &mut out.writes, &mut out.write_sectors),
        };
        let (latency, way) = (c.at - arrival, usize::from(op == Op::Write));
        ns[class] += latency;
        count[class] += 1;
        size[class] += sectors;
        out.ns_a_sector[way][class] += latency as f64 / sectors as f64;
        if class == 0 && sectors <= page_sectors {
            out.small[way] = [out.small[way][0] + latency, out.small[way][1] + sectors];
        }
    }
}

/// What is replayed, on which device.
enum Load {
    /// A twin on the paper's.
    Twin(Asked),
    /// A trace whose pages lie side by side, on a device of its size.
    Trace { requests: Vec<Request>, pages: u64, seed: u64 },
}

/// Its name, and what it is.
type Workload = (String, Load);

/// Runs of each workload under page, MRSM and Across-FTL.
type Runs = Vec<[Run; 3]>;

/// How a set of runs differs from the paper's.
#[derive(Clone, Copy)]
struct Set {
    page: u32,
    quick: bool,
    /// The mapping cache is divided by this.
    cache: u64,
    shrink: bool,
}

/// Runs each workload under the given schemes, one after the other.
fn measure(
    bench: &Bench<'_>,
    set: Set,
    workloads: &[Workload],
    schemes: &[&'static str],
) -> Result<VecDeque<Run>, Error> {
    let jobs: Vec<(&String, &Load, &str)> =
        workloads.iter().flat_map(|(name, load)| schemes.iter().map(move |&m| (name, load, m))).collect();
    let name = |(name, _, mapping): &(&String, &Load, &str)| {
        format!("{name} {}, {} KiB pages", mapping, set.page / 1024)
    };
    let runs = bench.each(&jobs, name, |&(_, load, mapping)| {
        let mut drive = match load {
            Load::Twin(_) => device(mapping, set.page, set.quick, set.cache),
            Load::Trace { pages, .. } => small_device(mapping, set.page, *pages),
        }?;
        drive.config.scheme.across.shrink = set.shrink;
        match load {
            Load::Twin(asked) => run(asked, &drive),
            Load::Trace { requests, seed, .. } => replayed(requests, &drive, *seed),
        }
    })?;
    Ok(runs.into())
}

fn compare(bench: &Bench<'_>, set: Set, workloads: &[Workload]) -> Result<Runs, Error> {
    let mut runs = measure(bench, set, workloads, &SCHEMES)?;
    Ok(workloads.iter().map(|_| SCHEMES.map(|_| runs.pop_front().unwrap_or_default())).collect())
}

/// Traces with across-page requests in them.
const REAL: [Real; 8] = [
    traces::LUN_A,
    traces::LUN_B,
    traces::CLOUDPHYSICS,
    traces::MAYUN,
    traces::MAYUN4,
    traces::SYS1,
    traces::TPCC,
    traces::FINANCIAL,
];
/// Aligned ones: nothing for the scheme to do, and nothing to lose.
const ALIGNED: [Real; 2] = [traces::IOZONE, traces::WEBSEARCH];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let quick = options.quick;
    let most = quick.then_some(90_000);
    let asked = |workload: &str, requests| Asked {
        workload: workload.into(),
        seed: options.seed,
        requests,
        ..Asked::default()
    };
    let twins: Vec<Workload> = TWINS.iter().map(|t| (t.to_string(), Load::Twin(asked(t, most)))).collect();
    let paper = Set { page: 8192, quick, cache: 1, shrink: false };
    let sizes = "across-page-sizes";
    let others: Vec<&str> = CLAIMS.iter().copied().filter(|c| *c != sizes).collect();

    let runs = compare(bench, paper, &twins)?;
    if bench.wants(&others) {
        claims(&runs, "six twins", &mut report.claims);
    }
    report.tables.push(table("Twins, 8 KiB pages", &twins, &runs));
    if bench.wants(&["across-cost"]) {
        report.tables.push(averages(&twins, &runs));
    }
    if bench.wants(&[sizes]) {
        size_claims(paper.page, &runs, &mut report.claims);
        for page in [4096, 16384] {
            let runs = compare(bench, Set { page, ..paper }, &twins)?;
            size_claims(page, &runs, &mut report.claims);
            report.tables.push(table(&format!("Twins, {} KiB pages", page / 1024), &twins, &runs));
        }
    }
    if bench.wants(&["across-flash-ops", "across-erases", "across-io-latency"]) {
        // The twins touch a small part of the device: the same cache, as large for them as the paper's
        // is for MRSM's whole table.
        let mut scarce = Table::new(
            "Twins, a smaller mapping cache",
            &[
                "cache",
                "pages touched",
                "table cached mrsm",
                "map writes mrsm",
                "map writes across",
                "map reads mrsm",
                "map reads across",
                "flash writes to mrsm",
                "erases to mrsm",
                "latency to mrsm",
                "latency to page",
            ],
        );
        let caches: &[u64] = if quick { &[1, 16] } else { &[1, 8, 16, 32] };
        for &cache in caches {
            let runs =
                if cache == 1 { runs.clone() } else { compare(bench, Set { cache, ..paper }, &twins)? };
            let mut row: Vec<Cell> = vec![format!("1/{cache}").into()];
            row.extend([mean(&runs, |r| r[1].touched), mean(&runs, |r| r[1].cached)].map(Cell::from));
            row.extend(map_shares(&runs).map(Cell::from));
            row.extend(
                [
                    ratio(&runs, 1, |r| sum(&r.flash_writes)),
                    ratio(&runs, 1, |r| r.erases as f64),
                    ratio(&runs, 1, Run::io_s),
                    ratio(&runs, 0, Run::io_s),
                ]
                .map(Cell::from),
            );
            scarce.rows.push(row);
        }
        report.tables.push(scarce);
    }
    if options.claim.is_none() {
        let shrunk = measure(bench, Set { shrink: true, ..paper }, &twins, &["across"])?;
        report.tables.push(shrink_table("Twins: rollback against shrink (ours)", &twins, &runs, &shrunk));
    }
    real(bench, report, asked)
}

/// Real traces, each on a device that it fills.
fn real(
    bench: &Bench<'_>,
    report: &mut Report,
    asked: impl Fn(&str, Option<u64>) -> Asked,
) -> Result<(), Error> {
    let options = bench.options;
    let most = options.quick.then_some(20_000);
    let mut notes = Vec::new();
    let whole = device("page", 8192, false, 1)?;
    let mut load = |wanted: &[Real]| -> Result<Vec<Workload>, Error> {
        let found = traces::present(bench.traces.as_deref(), wanted, &mut notes);
        let one = |(real, path): &(Real, PathBuf)| {
            let requests = traces::requests(&asked(&path.to_string_lossy(), most), &whole)?;
            let (requests, pages) = traces::side_by_side(requests, 8192);
            Ok((real.name.to_owned(), Load::Trace { requests, pages, seed: options.seed }))
        };
        found.iter().map(one).collect()
    };
    let (unaligned, aligned) = (load(&REAL)?, load(&ALIGNED)?);
    notes.dedup();
    report.notes.extend(notes);
    let small = Set { page: 8192, quick: true, cache: 1, shrink: false };
    if !unaligned.is_empty() {
        let runs = compare(bench, small, &unaligned)?;
        claims(&runs, &format!("{} real traces", runs.len()), &mut report.claims);
        report.tables.push(table(
            "Real traces, 8 KiB pages, devices of which they fill 70%",
            &unaligned,
            &runs,
        ));
        let shrunk = measure(bench, Set { shrink: true, ..small }, &unaligned, &["across"])?;
        let title = "Real traces: rollback against shrink (ours)";
        report.tables.push(shrink_table(title, &unaligned, &runs, &shrunk));
    }
    if !aligned.is_empty() {
        let runs = compare(bench, small, &aligned)?;
        report.tables.push(table("Aligned real traces: nothing to gain, nothing to lose", &aligned, &runs));
    }
    Ok(())
}

/// Mean over the workloads of `f(across) / f(other)`; `other`: 0 = page, 1 = MRSM.
fn ratio(runs: &[[Run; 3]], other: usize, f: impl Fn(&Run) -> f64) -> f64 {
    mean(runs, |r| f(&r[2]) / f(&r[other]))
}

/// Mean over the workloads in which there is anything to divide by.
fn mean(runs: &[[Run; 3]], f: impl Fn(&[Run; 3]) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(f).filter(|v| v.is_finite()).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Shares of map writes, then of map reads, of MRSM and of Across-FTL.
fn map_shares(runs: &[[Run; 3]]) -> [f64; 4] {
    let share = |scheme: usize, read: bool| {
        mean(runs, |r| {
            let r = &r[scheme];
            let (map, all) = if read {
                (r.reads_of(Cause::Map), sum(&r.flash_reads))
            } else {
                (r.writes_of(Cause::Map), sum(&r.flash_writes))
            };
            map / all.max(1.0)
        })
    };
    [share(1, false), share(2, false), share(1, true), share(2, true)]
}

const CACHED: &str = "the workloads touch so small a part of the device that the mapping cache holds their \
    entries under every scheme; with a cache as scarce for them as the paper's was, MRSM's map traffic appears \
    (table: a smaller mapping cache)";
const SIZES: &str = "it follows from the sizes of requests, of which the paper gives the mean";
const UPDATES: &str = "partial updates within one page are read under every scheme; how many the paper's \
    traces have is not published";
const NODES: &str = "a node of MRSM's tree takes twice an entry, and each piece is one; the traces decide how many \
    pages are cut (column: further nodes)";
const LOOKUPS: &str = "every access is counted: a request beside an area has to look at its entry too; an access of \
    MRSM's tree is a search of as many nodes as it has levels, and the original's tree is not described";
const PACKED: &str = "MRSM packs runs over a page border too, writes over parts of pages without reading them where \
    Across-FTL reads (column: reads rmw), and pays little for its table while the cache holds it";

const PAGES_A_SECTOR: &str = "pages written a sector";

/// The claims of section 4 at 8 KiB pages.
fn claims(runs: &[[Run; 3]], workload: &str, claims: &mut Vec<Claim>) {
    let twins = runs.len() == TWINS.len();
    // What the twins are drawn from, and what follows from requests alone, says nothing about a drive.
    let given = |id, what: &str| match id {
        "across-share" => true,
        "across-cost" => what.starts_with(PAGES_A_SECTOR),
        "across-rollbacks" => twins,
        _ => false,
    };
    let mut add = |id, place, what: &str, paper: f64, ours: f64, rule, why| {
        let claim = Claim::new(id, place, what, workload, paper, ours, rule).because(why);
        claims.push(if given(id, what) { claim.input() } else { claim });
    };
    if twins {
        let shares = [0.247, 0.164, 0.234, 0.187, 0.235, 0.275];
        for ((twin, paper), run) in TWINS.iter().zip(shares).zip(runs) {
            let ours = run[0].requests[1] as f64 / sum(&run[0].requests);
            let what = format!("across-page requests of {twin}");
            add("across-share", "Table 2", &what, paper, ours, Rule::Points(0.01), SIZES);
        }
    } else {
        let ours = mean(runs, |r| r[0].requests[1] as f64 / sum(&r[0].requests));
        let what = "across-page requests, mean";
        add(
            "across-share",
            "Table 2",
            what,
            0.224,
            ours,
            Rule::Points(0.05),
            "other traces than the paper's",
        );
    }
    let per = |a: [u64; 2], b: [u64; 2]| (a[1] as f64 / b[1] as f64) / (a[0] as f64 / b[0] as f64);
    let cost = [
        ("read latency a sector", 1.61, mean(runs, |r| per(r[0].read_ns, r[0].read_sectors))),
        ("write latency a sector", 1.49, mean(runs, |r| per(r[0].write_ns, r[0].write_sectors))),
        (PAGES_A_SECTOR, 2.69, mean(runs, |r| per(r[0].write_pages, r[0].write_sectors))),
    ];
    for (what, paper, ours) in cost {
        let what = format!("{what}, across to other requests (page)");
        add("across-cost", "Fig 4", &what, paper, ours, Rule::Ratio(0.1), SIZES);
    }
    let share = |f: &dyn Fn(&AcrossStats) -> (u64, u64)| {
        mean(runs, |r| {
            let (part, all) = f(&r[2].areas);
            part as f64 / all.max(1) as f64
        })
    };
    let rolled = share(&|a| (a.rollbacks, a.direct_writes));
    let unprofitable =
        share(&|a| (a.unprofitable_merges, a.direct_writes + a.profitable_merges + a.unprofitable_merges));
    let merged = mean(runs, |r| r[2].areas.merged_reads as f64 / sum(&r[2].flash_reads));
    const REPEATS: &str = "how often extents overlap without repeating differs from trace to trace";
    for (what, paper, ours, rule) in [
        ("areas rolled back, of areas made", 0.039, rolled, Rule::Value(0.25)),
        ("unprofitable merges, of across writes", 0.089, unprofitable, Rule::Value(0.25)),
        ("merged reads, of flash reads", 0.0012, merged, Rule::Value(0.25)),
    ] {
        add("across-rollbacks", "Fig 8", what, paper, ours, rule, REPEATS);
    }
    let all_writes = |r: &Run| sum(&r.flash_writes);
    let all_reads = |r: &Run| sum(&r.flash_reads);
    let erases = |r: &Run| r.erases as f64;
    let updates = |r: &Run| r.reads_of(Cause::Rmw);
    let gain = Rule::Ratio(0.1);
    for (id, place, what, paper, ours, why) in [
        (
            "across-write-latency",
            "Fig 9b",
            "write latency, to page",
            0.911,
            ratio(runs, 0, Run::write_ms),
            SIZES,
        ),
        (
            "across-write-latency",
            "Fig 9b",
            "write latency, to mrsm",
            0.963,
            ratio(runs, 1, Run::write_ms),
            PACKED,
        ),
        (
            "across-io-latency",
            "Fig 9",
            "latency of all requests, to page",
            0.884,
            ratio(runs, 0, Run::io_s),
            SIZES,
        ),
        (
            "across-io-latency",
            "Fig 9",
            "latency of all requests, to mrsm",
            0.954,
            ratio(runs, 1, Run::io_s),
            PACKED,
        ),
        ("across-io-latency", "Fig 9a", "read latency, to page", 0.95, ratio(runs, 0, Run::read_ms), SIZES),
        ("across-io-latency", "Fig 9a", "read latency, to mrsm", 0.95, ratio(runs, 1, Run::read_ms), PACKED),
        ("across-flash-ops", "Fig 10", "flash writes, to page", 0.841, ratio(runs, 0, all_writes), SIZES),
        ("across-flash-ops", "Fig 10", "flash writes, to mrsm", 0.691, ratio(runs, 1, all_writes), CACHED),
        ("across-flash-ops", "Fig 10", "flash reads, to page", 0.903, ratio(runs, 0, all_reads), SIZES),
        ("across-flash-ops", "Fig 10", "flash reads, to mrsm", 0.839, ratio(runs, 1, all_reads), CACHED),
        ("across-flash-ops", "Fig 10", "update reads, to page", 0.378, ratio(runs, 0, updates), UPDATES),
        ("across-erases", "Fig 11", "erases, to page", 0.867, ratio(runs, 0, erases), SIZES),
        ("across-erases", "Fig 11", "erases, to mrsm", 0.754, ratio(runs, 1, erases), CACHED),
    ] {
        add(id, place, what, paper, ours, gain, why);
    }
    let of_page = |f: &dyn Fn(&Run) -> f64| mean(runs, |r| f(&r[1]) / f(&r[0]));
    let memory = |r: &Run| r.mapping_bytes as f64;
    let dram = |r: &Run| r.dram as f64;
    for (what, paper, ours, why) in [
        ("mapping memory, to page", 1.4, ratio(runs, 0, memory), NODES),
        ("mapping memory of mrsm, to page", 2.4, of_page(&memory), NODES),
        ("DRAM accesses, to page", 1.011, ratio(runs, 0, dram), LOOKUPS),
        ("DRAM accesses of mrsm, to page", 32.6, of_page(&dram), LOOKUPS),
    ] {
        add("across-overhead", "Fig 12", what, paper, ours, Rule::Ratio(0.1), why);
    }
    let [mrsm_writes, across_writes, mrsm_reads, across_reads] = map_shares(runs);
    for (what, paper, ours, rule) in [
        ("map writes of all flash writes, mrsm", 0.369, mrsm_writes, Rule::Value(0.1)),
        ("map writes of all flash writes, across", 0.026, across_writes, Rule::Value(0.1)),
        ("map reads of all flash reads, mrsm", 0.344, mrsm_reads, Rule::Value(0.1)),
        ("map reads of all flash reads, across", 0.0074, across_reads, Rule::Value(0.1)),
    ] {
        add("across-flash-ops", "Fig 10", what, paper, ours, rule, CACHED);
    }
}

/// Fig 14: ahead of both on latency and erases at this page size.
fn size_claims(page: u32, runs: &[[Run; 3]], claims: &mut Vec<Claim>) {
    let kib = page / 1024;
    for (other, name) in [(0, "page"), (1, "mrsm")] {
        for (what, ours) in [
            ("latency of all requests", ratio(runs, other, Run::io_s)),
            ("erases", ratio(runs, other, |r| r.erases as f64)),
        ] {
            let what = format!("{what}, to {name}, {kib} KiB pages");
            let claim = Claim::new("across-page-sizes", "Fig 14", what, "six twins", 1.0, ours, Rule::Below);
            claims.push(claim.because(PACKED));
        }
    }
}

/// One run a row.
fn table(title: &str, workloads: &[Workload], runs: &[[Run; 3]]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "scheme",
            "across-page",
            "write ms",
            "read ms",
            "writes host",
            "writes gc",
            "writes merge",
            "writes map",
            "reads host",
            "reads rmw",
            "reads gc",
            "reads merge",
            "reads map",
            "erases",
            "DRAM accesses",
            "table bytes",
            "areas",
            "rollbacks",
            "unprofitable",
            "merged reads",
            "pieces written",
            "pages merged",
            "refused",
            "further nodes",
        ],
    );
    for ((name, _), runs) in workloads.iter().zip(runs) {
        for (mapping, r) in SCHEMES.iter().zip(runs) {
            let (w, d, a, m) = (&r.flash_writes, &r.flash_reads, &r.areas, &r.mrsm);
            let mut row: Vec<Cell> = vec![name.clone().into(), (*mapping).into()];
            row.push((r.requests[1] as f64 / sum(&r.requests)).into());
            row.extend([r.write_ms(), r.read_ms()].map(Cell::from));
            row.extend([Cause::Host, Cause::Gc, Cause::Merge, Cause::Map].map(|c| Cell::from(w[c as usize])));
            let read = [Cause::Host, Cause::Rmw, Cause::Gc, Cause::Merge, Cause::Map];
            row.extend(read.map(|c| Cell::from(d[c as usize])));
            row.extend([r.erases, r.dram, r.mapping_bytes].map(Cell::from));
            row.extend([a.direct_writes, a.rollbacks, a.unprofitable_merges, a.merged_reads].map(Cell::from));
            row.extend([m.pieces_written, m.merged, m.refused, r.further_nodes].map(Cell::from));
            table.rows.push(row);
        }
    }
    table
}

/// Fig 4's latency a sector: the same runs, averaged in other ways.
fn averages(workloads: &[Workload], runs: &[[Run; 3]]) -> Table {
    let mut table = Table::new(
        "Latency a sector of across-page requests to that of others (page): three averages",
        &[
            "workload",
            "",
            "all latencies over all sectors",
            "mean of each request's",
            "others of at most a page",
        ],
    );
    for ((name, _), [r, ..]) in workloads.iter().zip(runs) {
        let reads = ("reads", r.read_ns, r.read_sectors, r.reads);
        let writes = ("writes", r.write_ns, r.write_sectors, r.writes);
        for (way, (what, ns, sectors, requests)) in [reads, writes].into_iter().enumerate() {
            let over = |a: u64, b: u64| a as f64 / b as f64;
            let across = over(ns[1], sectors[1]);
            let own = |class: usize| r.ns_a_sector[way][class] / requests[class] as f64;
            let ratios = [
                across / over(ns[0], sectors[0]),
                own(1) / own(0),
                across / over(r.small[way][0], r.small[way][1]),
            ];
            table
                .rows
                .push([name.clone().into(), what.into()].into_iter().chain(ratios.map(Cell::from)).collect());
        }
    }
    table
}

/// Areas that give up sectors instead of being rolled back.
fn shrink_table(title: &str, workloads: &[Workload], runs: &[[Run; 3]], shrunk: &VecDeque<Run>) -> Table {
    let mut table = Table::new(
        title,
        &["workload", "rollbacks", "rollbacks left", "flash writes", "flash reads", "latency", "erases"],
    );
    for (((name, _), runs), shrunk) in workloads.iter().zip(runs).zip(shrunk) {
        let plain = &runs[2];
        let ratio = |f: &dyn Fn(&Run) -> f64| Cell::from(f(shrunk) / f(plain));
        table.rows.push(vec![
            name.clone().into(),
            plain.areas.rollbacks.into(),
            shrunk.areas.rollbacks.into(),
            ratio(&|r| sum(&r.flash_writes)),
            ratio(&|r| sum(&r.flash_reads)),
            ratio(&Run::io_s),
            ratio(&|r| r.erases as f64),
        ]);
    }
    table
}
