//! PAPA's evaluation (section VI): nine workloads, four page-type policies, each trace run twice,
//! write cache off and on.
//!
//! The device is Table II's; a scale divides its blocks and the requests alike, so that it is filled as often. Collection is
//! section V-D's, emergencies alone. Everything is counted over both passes. Fig 13 has erases of the baseline in all nine
//! traces, though two alone fill Table II's 96 GiB: how full the paper's device was, and from where on it collects, is
//! not said, so devices with less room ([`Size`]) and a threshold are a table of their own. Real traces, which are
//! short, get a device that they fill. How the paper replays its traces is not said, so both ways are measured: under
//! load, requests arrive at the trace's times and wait for each other;
//! one at a time, each request waits for the one before and then for the gap between their times,
//! so that response times are hardly more than service times, and IOPS are requests over time.

use std::collections::HashMap;
use std::path::Path;

use nandle_ssd::nand::{Cause, CellKind};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};
use nandle_trace::Request;

use super::traces::{self, Real};
use super::{Bench, Cell, Claim, Report, Rule, Table, preset};
use crate::Error;
use crate::config::Drive;
use crate::workload::Asked;

/// Table I's traces.
pub const WORKLOADS: [&str; 9] = ["prxy", "proj", "fin", "mds", "hm", "prn", "tpce", "tpcc", "exch"];
/// Write cache of the full-size device, where there is one; the paper does not say how large.
const CACHE_BYTES: u64 = 32 << 20;
const SECTOR: u64 = 4096;
const PAGE: u64 = 16_384;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Blocks and requests are divided by this; 1 = the paper's size.
    pub scale: u32,
    /// How many blocks a plane has.
    pub size: Size,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Over-provisioning; the paper does not say.
    pub op_ratio: f64,
    /// Bits per cell: the paper's device is TLC.
    pub cell: CellKind,
    /// Collect ahead of need, or only in emergencies: the paper describes the latter (section V-D) and
    /// mentions the former (VI-B2).
    pub ahead: bool,
    /// Share of the device's pages, of whatever type, at which collection begins in the background; VI-B2 has a
    /// threshold, and not where it lies. 0: in emergencies alone.
    pub threshold: f64,
    /// Share of the twins' half pages that come two by two, over a page border; none: the twins' own.
    pub misaligned: Option<f64>,
    /// Requests of the twins a second; the paper does not say.
    pub rate: f64,
    /// Seed of workloads and devices.
    pub seed: u64,
}

/// How large a device is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Table II's blocks.
    Published,
    /// The trace's pages are this share of the logical device.
    Pages(f64),
    /// What both runs of the trace write is this share of the device's pages.
    Writes(f64),
}

/// QLC's fourth page type, which the paper does not have: read and program times continue Table II's.
const TSB_NS: [u64; 2] = [200_000, 8_000_000];
/// Of real traces' devices. Assumed: the middle of 50, 70 and 100%, which the table of what is not published has.
const FILL: f64 = 0.7;
/// Assumed: LSB pages are a third of all, so these shares leave them two thirds of the writes or fewer.
const WRITES: [f64; 3] = [0.5, 0.6, 0.8];
/// Assumed, on a device of which 60% is written: so that the baseline reaches them in every trace, as Fig 13 has it.
const THRESHOLDS: [f64; 3] = [0.4, 0.45, 0.5];
/// The twins' requests a second.
const RATE: f64 = 300.0;
/// Blocks of a plane beside those that hold the logical device and its over-provisioning: the ones that are written and
/// those that collection keeps, as many on a small device as on a large one.
const BESIDE: u64 = 6;

impl Plan {
    /// The paper's size.
    pub fn full(seed: u64) -> Self {
        Self {
            scale: 1,
            size: Size::Published,
            pages_per_block: 384,
            op_ratio: 0.1,
            cell: CellKind::Tlc,
            ahead: false,
            threshold: 0.0,
            misaligned: None,
            rate: RATE,
            seed,
        }
    }

    /// A 64th of the paper's size.
    pub fn quick(seed: u64) -> Self {
        Self { scale: 64, op_ratio: 0.3, ..Self::full(seed) }
    }

    /// A device as large as a trace asks for, in small blocks.
    fn sized(size: Size, pages_per_block: u32, seed: u64) -> Self {
        Self { size, pages_per_block, op_ratio: 0.1, ..Self::quick(seed) }
    }

    /// For the real traces, which are short.
    pub fn short(seed: u64) -> Self {
        Self::sized(Size::Pages(FILL), 12, seed)
    }

    /// The device for a trace.
    ///
    /// # Errors
    /// If it is scaled to nothing.
    pub fn device(&self, policy: &str, cached: bool, trace: &[Request]) -> Result<Drive, Error> {
        let mut config = preset("papa-tlc", None, &[])?.config;
        config.op_ratio = self.op_ratio;
        config.geometry.pages_per_block = self.pages_per_block;
        let row = u64::from(config.geometry.planes() * self.pages_per_block);
        match self.size {
            Size::Published => config.geometry.blocks_per_plane /= self.scale,
            Size::Pages(share) => {
                let logical = pages_of(trace).max(1) as f64 / share;
                let blocks = (logical * (1.0 + self.op_ratio) / row as f64).ceil() as u64 + BESIDE;
                config.op_ratio = (blocks * row) as f64 / logical - 1.0;
                config.geometry.blocks_per_plane = blocks as u32;
            }
            Size::Writes(share) => {
                let writes = 2 * trace.iter().filter(|r| r.op == Op::Write).map(page_count).sum::<u64>();
                config.geometry.blocks_per_plane = (writes as f64 / share / row as f64).ceil() as u32;
            }
        }
        config.cell.kind = self.cell;
        config.timing.read_ns.push(TSB_NS[0]);
        config.timing.program_ns.push(TSB_NS[1]);
        config.timing.read_ns.truncate(self.cell.bits() as usize);
        config.timing.program_ns.truncate(self.cell.bits() as usize);
        config.buffer.bytes = if cached { CACHE_BYTES / u64::from(self.scale) } else { 0 };
        config.gc.types_ahead = self.ahead;
        config.gc.soft = self.threshold;
        config.scheme.allocation = policy.into();
        let layout = config.validate().map_err(invalid)?;
        Ok(Drive::new(config, layout))
    }

    /// What traces are drawn for: Table II's device, or that of the plan.
    fn drawn_for(&self) -> Result<Drive, Error> {
        match self.size {
            Size::Published => self.device(PAPA, false, &[]),
            _ => Self::full(self.seed).device(PAPA, false, &[]),
        }
    }

    /// One pass of a twin.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn trace(&self, workload: &str) -> Result<Vec<Request>, Error> {
        let drive = self.drawn_for()?;
        let name = match self.misaligned {
            Some(share) => format!("{workload}:misaligned={share}"),
            None => workload.to_owned(),
        };
        let mut asked = Asked { workload: name, seed: self.seed, ..Asked::default() };
        let whole = asked.prepare(&drive)?.phases.last().and_then(|(phase, _)| phase.requests);
        asked.requests = whole.map(|n| (n / u64::from(self.scale)).max(1));
        let mut trace = traces::requests(&asked, &drive)?;
        for request in &mut trace {
            request.time_ns = (request.time_ns as f64 * RATE / self.rate) as u64;
        }
        Ok(if self.size == Size::Published { trace } else { side_by_side(trace) })
    }

    /// One pass of a real trace, fitted to the device.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn real(&self, path: &Path) -> Result<Vec<Request>, Error> {
        let drive = self.drawn_for()?;
        let asked = Asked { workload: path.to_string_lossy().into(), seed: self.seed, ..Asked::default() };
        let trace = traces::requests(&asked, &drive)?;
        Ok(if self.size == Size::Published { trace } else { side_by_side(trace) })
    }
}

/// Pages that a request touches.
fn pages_touched(r: &Request) -> std::ops::Range<u64> {
    r.offset / PAGE..(r.offset + r.bytes).div_ceil(PAGE)
}

fn page_count(r: &Request) -> u64 {
    pages_touched(r).count() as u64
}

/// Pages up to the last that a trace touches.
fn pages_of(trace: &[Request]) -> u64 {
    trace.iter().map(|r| pages_touched(r).end).max().unwrap_or(0)
}

/// The trace with the pages that it writes side by side, in their order. Reads of others, of which a new device has
/// nothing to read, are left out or cut.
fn side_by_side(trace: Vec<Request>) -> Vec<Request> {
    let writes = trace.iter().filter(|r| r.op == Op::Write && r.bytes > 0);
    let mut written: Vec<u64> = writes.flat_map(pages_touched).collect();
    written.sort_unstable();
    written.dedup();
    let place = |page: u64| written.binary_search(&page).ok();
    let moved = |mut r: Request| {
        let first = pages_touched(&r).find(|&page| place(page).is_some())?;
        let last = pages_touched(&r)
            .skip_while(|&page| page < first)
            .take_while(|&page| place(page).is_some())
            .last()?;
        let (from, to) = (r.offset.max(first * PAGE), (r.offset + r.bytes).min((last + 1) * PAGE));
        r.offset = place(first)? as u64 * PAGE + from % PAGE;
        r.bytes = to - from;
        Some(r)
    };
    trace.into_iter().filter(|r| r.op.moves_data() && r.bytes > 0).filter_map(moved).collect()
}

fn invalid(error: nandle_ssd::ConfigError) -> Error {
    Error::input(error.to_string())
}

/// How a trace's writes fall on pages (Figs 5 and 7), of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    /// Page writes at 8 and at 16 KiB, partial ones among them, and partial updates.
    writes: [u64; 2],
    partial: [u64; 2],
    updates: [u64; 2],
    /// Partial updates at 16 KiB of a page that a partial write stored.
    hits: u64,
}

impl Pages {
    /// Counts a trace.
    pub fn of(trace: &[Request]) -> Self {
        let mut pages = Self::default();
        for (n, page) in [8192, PAGE].into_iter().enumerate() {
            let full = (1_u64 << (page / SECTOR)) - 1;
            // Sectors stored, and whether the last write was partial.
            let mut stored: HashMap<u64, (u64, bool)> = HashMap::new();
            for request in trace.iter().filter(|r| r.op == Op::Write) {
                let (lsn, sectors) = sectors(request);
                let spp = page / SECTOR;
                for lpn in lsn / spp..=(lsn + sectors - 1) / spp {
                    let from = lsn.max(lpn * spp) - lpn * spp;
                    let to = (lsn + sectors).min((lpn + 1) * spp) - lpn * spp;
                    let mask = (1 << to) - (1 << from);
                    let entry = stored.entry(lpn).or_default();
                    let update = mask != full && entry.0 & !mask != 0;
                    pages.writes[n] += 1;
                    pages.partial[n] += u64::from(mask != full);
                    pages.updates[n] += u64::from(update);
                    pages.hits += u64::from(n == 1 && update && entry.1);
                    *entry = (entry.0 | mask, mask != full);
                }
            }
        }
        pages
    }
}

/// First sector and sectors of a request.
fn sectors(request: &Request) -> (u64, u64) {
    let first = request.offset / SECTOR;
    (first, (request.offset + request.bytes).div_ceil(SECTOR) - first)
}

/// Mean times of a replay, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Response of reads.
    pub read_ns: f64,
    /// Response of writes.
    pub write_ns: f64,
    /// From the start of an RMW read to the end of its program.
    pub rmw_ns: f64,
}

/// What one workload did to one device.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Workload.
    pub workload: String,
    /// Policy.
    pub policy: &'static str,
    /// With a write cache.
    pub cached: bool,
    /// Flash writes, and reads of RMW, by page type.
    pub writes: [u64; 4],
    /// Reads of RMW by page type.
    pub rmw_reads: [u64; 4],
    /// Mean time that such a read takes by itself, transfer included.
    pub rmw_read_ns: f64,
    /// Flash writes on behalf of collection.
    pub gc_writes: u64,
    /// Erases.
    pub erases: u64,
    /// Times under load.
    pub loaded: Times,
    /// Times one request at a time.
    pub alone: Times,
    /// Nanoseconds in which writes stood still for a page or a block, under load.
    pub stalled_ns: u64,
    /// Simulated nanoseconds of the replay under load.
    pub elapsed_ns: u64,
    /// Requests a second, one at a time.
    pub iops: f64,
    /// Of the pages evicted from the cache, those that were partial.
    pub partial_evictions: f64,
    /// What the policy resorted to: emergency and proactive collections, backup pages of CSB and MSB.
    pub resorts: [u64; 4],
}

impl Outcome {
    /// Shares of LSB, CSB, MSB (TSB) in flash writes.
    pub fn write_shares(&self) -> [f64; 4] {
        shares(self.writes)
    }
    /// Shares of LSB, CSB, MSB (TSB) in RMW reads.
    pub fn rmw_shares(&self) -> [f64; 4] {
        shares(self.rmw_reads)
    }
}

fn shares(counts: [u64; 4]) -> [f64; 4] {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.map(|n| n as f64 / total)
}

/// Replays `trace` twice on a new device, at its arrival times or one request at a time.
fn replay(config: &DeviceConfig, trace: &[Request], seed: u64, alone: bool) -> Result<(Ssd, Times), Error> {
    let mut ssd = Ssd::new(config, 0, seed).map_err(invalid)?;
    let mut arrivals: Vec<u64> = vec![0; trace.len()];
    let mut sums = [0.0; 2];
    let mut done: Vec<Completion> = Vec::new();
    // The device takes `queue.depth` requests at a time; further ones wait in the host.
    let most = if alone { 1 } else { config.queue.depth };
    for _ in 0..2 {
        let (mut base, mut before) = (ssd.now(), 0);
        for (id, request) in trace.iter().enumerate().filter(|(_, request)| request.op.moves_data()) {
            let op = request.op;
            finish(&mut ssd, if alone { 0 } else { u32::MAX }, trace, &arrivals, &mut sums, &mut done);
            if alone {
                base = ssd.now() - before;
            }
            before = request.time_ns;
            let due = base + request.time_ns;
            ssd.advance(due.max(ssd.now()), &mut done);
            finish(&mut ssd, most - 1, trace, &arrivals, &mut sums, &mut done);
            arrivals[id] = due;
            let (lsn, sectors) = sectors(request);
            let at = due.max(ssd.now());
            ssd.submit(at, &Command { id: id as u64, op, lsn, sectors, fua: false, stream: 0, data: &[] });
        }
        finish(&mut ssd, 0, trace, &arrivals, &mut sums, &mut done);
    }
    let stats = ssd.stats();
    let per = |sum: f64, count: u64| sum / count.max(1) as f64;
    let times = Times {
        read_ns: per(sums[0], stats.requests[Op::Read as usize]),
        write_ns: per(sums[1], stats.requests[Op::Write as usize]),
        rmw_ns: per(stats.rmw_ns as f64, stats.rmw_count),
    };
    Ok((ssd, times))
}

/// Runs until at most `left` requests are outstanding, and adds up what completed.
fn finish(
    ssd: &mut Ssd,
    left: u32,
    trace: &[Request],
    arrivals: &[u64],
    sums: &mut [f64; 2],
    done: &mut Vec<Completion>,
) {
    while ssd.outstanding() > left {
        let next = ssd.next_event().expect("requests are under way");
        ssd.advance(next, done);
    }
    for completion in done.drain(..) {
        let request = completion.id as usize;
        let write = trace[request].op == Op::Write;
        sums[usize::from(write)] += (completion.at - arrivals[request]) as f64;
    }
}

/// Runs one workload under one policy.
///
/// # Errors
/// If the device is not valid.
pub fn measure(
    plan: &Plan,
    workload: &str,
    trace: &[Request],
    policy: &'static str,
    cached: bool,
) -> Result<Outcome, Error> {
    let config = &plan.device(policy, cached, trace)?.config;
    let (ssd, loaded) = replay(config, trace, plan.seed, false)?;
    let (quiet, alone) = replay(config, trace, plan.seed, true)?;
    let (counters, stats) = (ssd.flash().counters(), ssd.stats());
    let by_type = |kind: usize| counters.programs.iter().map(|by_type| by_type[kind]).sum();
    let rmw_reads = counters.reads[Cause::Rmw as usize];
    let timing = &config.timing;
    let transfer =
        timing.transfer(&config.geometry, config.geometry.page_bytes / config.geometry.sector_bytes);
    let array = timing.read_ns.iter().zip(shares(rmw_reads)).map(|(&ns, share)| ns as f64 * share);
    Ok(Outcome {
        workload: workload.into(),
        policy,
        cached,
        writes: std::array::from_fn(by_type),
        rmw_reads,
        rmw_read_ns: array.sum::<f64>() + transfer as f64,
        gc_writes: counters.programs[Cause::Gc as usize].iter().sum(),
        erases: counters.erases,
        loaded,
        alone,
        stalled_ns: stats.foreground_ns,
        elapsed_ns: ssd.now(),
        iops: (2 * trace.len()) as f64 / quiet.now() as f64 * 1e9,
        partial_evictions: stats.evicted_partial_pages as f64 / stats.evictions.max(1) as f64,
        resorts: [
            stats.collection.emergency_gcs,
            stats.collection.proactive_gcs,
            ssd.scheme_counter("allocation.backup_csb").unwrap_or_default(),
            ssd.scheme_counter("allocation.backup_msb").unwrap_or_default(),
        ],
    })
}

/// The policies: the baseline, the related ones, and the paper's.
pub const POLICIES: [&str; 4] = [STRICT, LSB_FIRST, SIZE_BASED, PAPA];
const STRICT: &str = "strict";
const LSB_FIRST: &str = "lsb-first";
const SIZE_BASED: &str = "size-based";
const PAPA: &str = "papa";

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "papa-partial-share",
    "papa-updates-hit-partial",
    "papa-write-types",
    "papa-rmw-read-types",
    "papa-erases",
    "papa-iops",
    "papa-write-response",
    "papa-rmw-latency",
    "papa-read-response",
    "papa-cached",
];
/// The claims that only need the traces.
const OF_TRACES: &[&str] = &["papa-partial-share", "papa-updates-hit-partial"];
/// Real traces of the collections that Table I draws from.
const REAL: [Real; 6] =
    [traces::FINANCIAL, traces::TPCC, traces::HM0, traces::HM1, traces::WDEV1, traces::WDEV3];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let plan = if options.quick { Plan::quick(options.seed) } else { Plan::full(options.seed) };
    let load = |name: &&str| plan.trace(name).map(|t| (name.to_string(), t));
    let twins = bench.each(&WORKLOADS, |name| format!("{name}: generated"), load)?;
    let pages: Vec<Pages> = twins.iter().map(|(_, trace)| Pages::of(trace)).collect();
    claims_of_traces(&pages, "nine twins", &mut report.claims);

    let outcomes = measure_all(bench, &plan, &twins, &[false, true])?;
    if !outcomes.is_empty() {
        claims_of_runs(&outcomes, "nine twins", &mut report.claims);
        report.tables.push(loaded("nine twins", &outcomes));
        report.tables.push(table("Twins on Table II's device", &outcomes));
    }

    let small = Plan::short(options.seed);
    let mut real = Vec::new();
    for (trace, path) in traces::present(bench.traces.as_deref(), &REAL, &mut report.notes) {
        real.push((trace.name.to_string(), small.real(&path)?));
    }
    if !real.is_empty() {
        let pages: Vec<Pages> = real.iter().map(|(_, trace)| Pages::of(trace)).collect();
        let workload = format!("{} real traces", real.len());
        claims_of_traces(&pages, &workload, &mut report.claims);
        let outcomes = measure_all(bench, &small, &real, &[false, true])?;
        if !outcomes.is_empty() {
            claims_of_runs(&outcomes, &workload, &mut report.claims);
            report.tables.push(loaded(&workload, &outcomes));
            report.tables.push(table("Real traces, twice each, 70% of the device", &outcomes));
        }
    }

    if options.claim.is_none() {
        report.tables.push(unpublished(bench)?);
        // Beyond the paper: four bits a cell.
        let qlc = Plan { cell: CellKind::Qlc, ..Plan::quick(options.seed) };
        let mut traces = Vec::new();
        for name in WORKLOADS {
            traces.push((name.to_string(), qlc.trace(name)?));
        }
        let mut outcomes = measure_all(bench, &qlc, &traces, &[false])?;
        outcomes.extend(measure_all(bench, &Plan { cell: CellKind::Qlc, ..small }, &real, &[false])?);
        report.tables.push(qlc_table(&outcomes));
        report.tables.push(table("QLC, a 64th of the device, and real traces (beyond the paper)", &outcomes));
    }
    report.notes.push(
        "one at a time: each request waits for the one before and for the gap between them; \
         under load: requests arrive at times that the paper does not give, so no claim is made of it. The RMW of Fig 16 is \
         its read: with Table II's times, Fig 12's shares give the figure's ratios for the read, and 0.31 for the whole. Means are over the workloads of the ratio to \
         strict on the same workload, where the baseline's figure is not 0"
            .into(),
    );
    Ok(())
}

/// Every policy on every trace; nothing if only claims of the traces are asked for.
fn measure_all(
    bench: &Bench<'_>,
    plan: &Plan,
    traces: &[(String, Vec<Request>)],
    cached: &[bool],
) -> Result<Vec<Outcome>, Error> {
    let runs: Vec<&str> = CLAIMS.iter().copied().filter(|c| !OF_TRACES.contains(c)).collect();
    if !bench.wants(&runs) {
        return Ok(Vec::new());
    }
    let mut jobs = Vec::new();
    for (name, trace) in traces {
        for &cached in cached.iter().filter(|&&cached| cached == bench.wants(&["papa-cached"]) || !cached) {
            jobs.extend(POLICIES.iter().map(|&policy| (name, trace, policy, cached)));
        }
    }
    bench.each(
        &jobs,
        |(name, _, policy, cached)| format!("{name} {policy}{}", if *cached { ", cached" } else { "" }),
        |&(name, trace, policy, cached)| measure(plan, name, trace, policy, cached),
    )
}

/// How the traces' writes fall on pages.
fn claims_of_traces(pages: &[Pages], workload: &str, claims: &mut Vec<Claim>) {
    let points = Rule::Points(0.05);
    let mean = |part: &dyn Fn(&Pages) -> f64| mean(pages.iter().map(part));
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let mut claim = |id, place, what: String, paper, ours| {
        let claim = Claim::new(id, place, what, workload, paper, ours, points).because(
            "Table I's collections are taken whole by the paper; the excerpts that can be had differ in sizes",
        );
        // The twins are drawn from these shares, and no drive has a part in them.
        claims.push(claim.input());
    };
    for (n, size, paper) in [(0, "8 KiB", [0.43, 0.39]), (1, "16 KiB", [0.75, 0.61])] {
        let partial = mean(&|p| share(p.partial[n], p.writes[n]));
        let updates = mean(&|p| share(p.updates[n], p.writes[n]));
        claim("papa-partial-share", "Fig 5", format!("partial writes, {size}"), paper[0], partial);
        claim("papa-partial-share", "Fig 5", format!("partial updates, {size}"), paper[1], updates);
    }
    let hits = mean(&|p| share(p.hits, p.updates[1]));
    let what = "partial updates that hit partial pages".to_owned();
    claim("papa-updates-hit-partial", "Fig 7", what, 0.96, hits);
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}

/// Mean over the workloads of a policy's figure to the baseline's.
fn versus(outcomes: &[Outcome], policy: &str, cached: bool, f: impl Fn(&Outcome) -> f64) -> f64 {
    let find = |policy, workload: &str| {
        outcomes.iter().find(|o| o.policy == policy && o.cached == cached && o.workload == workload)
    };
    mean(outcomes.iter().filter(|o| o.policy == policy && o.cached == cached).filter_map(|o| {
        let base = f(find(STRICT, &o.workload)?);
        (base > 0.0).then(|| f(o) / base)
    }))
}

/// The paper's claims about runs, held against what came out.
fn claims_of_runs(outcomes: &[Outcome], workload: &str, claims: &mut Vec<Claim>) {
    let (points, fifth) = (Rule::Points(0.05), Rule::Ratio(0.2));
    let mut claim = |id, place, what: String, paper, ours, rule, why| {
        claims.push(Claim::new(id, place, what, workload, paper, ours, rule).because(why));
    };
    let mean_of = |policy, cached, f: &dyn Fn(&Outcome) -> f64| {
        mean(outcomes.iter().filter(|o| o.policy == policy && o.cached == cached).map(f))
    };
    let versus = |policy, cached, f: fn(&Outcome) -> f64| versus(outcomes, policy, cached, f);
    let types = ["LSB", "CSB", "MSB"];
    for (cached, id, place, paper) in [
        (false, "papa-write-types", "Fig 11", [0.62, 0.372, 0.008]),
        (true, "papa-cached", "Fig 18", [0.54, 0.42, 0.04]),
    ] {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of flash writes, papa", types[kind]);
            claim(id, place, what, value, mean_of(PAPA, cached, &|o| o.write_shares()[kind]), points, TYPES);
        }
    }
    for (policy, paper) in
        [(PAPA, [0.84, 0.15, 0.01]), (SIZE_BASED, [0.79, 0.13, 0.08]), (LSB_FIRST, [0.50, 0.34, 0.16])]
    {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of RMW reads, {}", types[kind], policy);
            let ours = mean_of(policy, false, &|o| o.rmw_shares()[kind]);
            let why = if policy == SIZE_BASED { BORDERS } else { TYPES };
            claim("papa-rmw-read-types", "Fig 12", what, value, ours, points, why);
        }
    }
    let metric = |f: fn(&Outcome) -> f64| f;
    let ratios = [
        ("papa-erases", "Fig 13", "erases", metric(|o| o.erases as f64), [1.6, 4.5, 1.0], [TYPES; 3]),
        ("papa-iops", "Fig 14", "IOPS", metric(|o| o.iops), [1.14, 1.075, 1.055], [GAPS; 3]),
        (
            "papa-write-response",
            "Fig 15",
            "write response",
            metric(|o| o.alone.write_ns),
            [0.45, 0.57, 0.64],
            [TYPES, STALLS, TYPES],
        ),
        (
            "papa-rmw-latency",
            "Fig 16",
            "latency of the RMW read",
            metric(|o| o.rmw_read_ns),
            [0.66, 0.71, NONE],
            [TYPES; 3],
        ),
        (
            "papa-read-response",
            "Fig 17",
            "read response",
            metric(|o| o.alone.read_ns),
            [0.77, 0.79, 0.89],
            [READS; 3],
        ),
    ];
    for (id, place, what, f, paper, why) in ratios {
        for ((policy, value), why) in [PAPA, SIZE_BASED, LSB_FIRST].into_iter().zip(paper).zip(why) {
            if !value.is_nan() {
                let what = format!("{what}, {} / strict", policy);
                claim(id, place, what, value, versus(policy, false, f), fifth, why);
            }
        }
    }
    let partial = mean_of(PAPA, true, &|o| o.partial_evictions);
    let what = "partial pages of all that leave the cache".to_owned();
    claim("papa-cached", "Fig 19", what, 0.57, partial, points, REUSE);
    let what = "write response, papa / strict, cache on".to_owned();
    claim("papa-cached", "Fig 20", what, 0.50, versus(PAPA, true, |o| o.alone.write_ns), fifth, CACHED);
}

const NONE: f64 = f64::NAN;
const TYPES: &str = "which types pages are written to, and how many blocks are erased, depends on how much of the device is \
    written, and seven of the nine traces write a third of Table II's or less: where both runs write 60% of it and collection \
    begins before, papa's types and erases come out, and lsb-first's come nearer (table: what is not published)";
const BORDERS: &str = "size-based takes what lies over a page border for large, and how many requests do is not said (table: what \
    is not published)";
const GAPS: &str = "one at a time, time between requests counts too, and how much of it there was is not said (table: what is not \
    published, 100 and 900 requests a second)";
const STALLS: &str = "an emergency makes a write wait until a victim's survivors have moved; ahead of need it waits less \
    (table: what is not published, column stalled)";
const CACHED: &str =
    "with the cache on papa writes more MSB pages than the paper's (Fig 18), and each takes 5.5 ms";
const READS: &str = "a read takes what its page's type takes, and LSB pages hardly run out where the device is not \
    filled; where it is, reads wait for collection's copies (table: what is not published)";
const REUSE: &str = "the twins repeat small writes less often within a cache's lifetime; reuse distances are \
    not published";

/// Everything measured, one line a run.
fn table(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "policy",
            "cache",
            "writes",
            "LSB",
            "CSB",
            "MSB",
            "TSB",
            "RMW LSB",
            "RMW CSB",
            "RMW MSB",
            "RMW TSB",
            "erases",
            "GC writes",
            "write ms",
            "read ms",
            "RMW ms",
            "IOPS",
            "write ms, load",
            "read ms, load",
            "RMW ms, load",
            "stalled",
            "emergencies",
            "ahead",
            "backup CSB",
            "backup MSB",
        ],
    );
    for o in outcomes {
        let (w, r) = (o.write_shares(), o.rmw_shares());
        let cache = if o.cached { "on" } else { "off" };
        let mut row: Vec<Cell> = vec![
            o.workload.clone().into(),
            o.policy.into(),
            cache.into(),
            o.writes.iter().sum::<u64>().into(),
        ];
        row.extend(w.into_iter().chain(r).map(Cell::from));
        row.extend([o.erases, o.gc_writes].map(Cell::from));
        for t in [o.alone, o.loaded] {
            row.extend([t.write_ns, t.read_ns, t.rmw_ns].map(|ns| Cell::from(ns / 1e6)));
            if row.len() < 18 {
                row.push(o.iops.into());
            }
        }
        row.push((o.stalled_ns as f64 / o.elapsed_ns.max(1) as f64).into());
        row.extend(o.resorts.map(Cell::from));
        table.rows.push(row);
    }
    table
}

/// What the paper does not say, three values each with the counted one: how many requests lie over page borders, how fast
/// they arrive, how full its device was, by data and by what is written, and from where on it collects; and collection
/// ahead of need. No row of a claim.
fn unpublished(bench: &Bench<'_>) -> Result<Table, Error> {
    let options = bench.options;
    let plan = Plan::quick(options.seed);
    let mut settings: Vec<(String, Plan)> = vec![("Table II's blocks, as counted".into(), plan.clone())];
    for misaligned in [0.0, 0.5] {
        let plan = Plan { misaligned: Some(misaligned), ..plan.clone() };
        settings.push((format!("{:.0}% of half pages over a border", misaligned * 100.0), plan));
    }
    settings.push(("collection ahead of need".into(), Plan { ahead: true, ..plan.clone() }));
    for rate in [100.0, 900.0] {
        settings.push((format!("{rate:.0} requests a second"), Plan { rate, ..plan.clone() }));
    }
    for share in [0.5, FILL, 1.0] {
        let plan = Plan::sized(Size::Pages(share), 48, options.seed);
        settings.push((format!("{:.0}% of the device written", share * 100.0), plan));
    }
    for share in WRITES {
        let plan = Plan::sized(Size::Writes(share), 48, options.seed);
        settings.push((format!("writes are {:.0}% of the pages", share * 100.0), plan));
    }
    for threshold in THRESHOLDS {
        let sized = Plan::sized(Size::Writes(WRITES[1]), 48, options.seed);
        let name = format!(
            "writes are {:.0}% of the pages, collection from {:.0}% on",
            WRITES[1] * 100.0,
            (1.0 - threshold) * 100.0
        );
        settings.push((name, Plan { threshold, op_ratio: 2.0, ..sized }));
    }
    let workloads: &[&str] = if options.quick { &["fin", "tpcc", "prxy"] } else { &WORKLOADS };
    let title = format!(
        "What is not published (a 64th of the paper's requests; mean of {}; to strict)",
        workloads.join(", ")
    );
    let mut table = Table::new(
        title,
        &[
            "setting",
            "policy",
            "LSB",
            "CSB",
            "MSB",
            "RMW LSB",
            "RMW CSB",
            "RMW MSB",
            "erases",
            "IOPS",
            "write response",
            "read response",
            "RMW read",
            "write response, load",
            "stalled",
        ],
    );
    for (name, plan) in settings {
        let load = |name: &&str| plan.trace(name).map(|t| (name.to_string(), t));
        let traces = bench.each(workloads, |w| format!("{w}: generated for {name}"), load)?;
        let outcomes = measure_all(bench, &plan, &traces, &[false])?;
        for policy in POLICIES {
            let of = || outcomes.iter().filter(move |o| o.policy == policy);
            let ratio = |f: fn(&Outcome) -> f64| Cell::from(versus(&outcomes, policy, false, f));
            let mut row: Vec<Cell> = vec![name.clone().into(), policy.into()];
            row.extend([0, 1, 2].map(|kind| Cell::from(mean(of().map(|o| o.write_shares()[kind])))));
            row.extend([0, 1, 2].map(|kind| Cell::from(mean(of().map(|o| o.rmw_shares()[kind])))));
            row.extend([
                ratio(|o| o.erases as f64),
                ratio(|o| o.iops),
                ratio(|o| o.alone.write_ns),
                ratio(|o| o.alone.read_ns),
                ratio(|o| o.rmw_read_ns),
                ratio(|o| o.loaded.write_ns),
            ]);
            row.push(mean(of().map(|o| o.stalled_ns as f64 / o.elapsed_ns.max(1) as f64)).into());
            table.rows.push(row);
        }
    }
    Ok(table)
}

/// At an arrival rate that the paper does not give: ratios to strict, none of them a claim's.
fn loaded(workload: &str, outcomes: &[Outcome]) -> Table {
    let title = format!("How much the arrival times matter: under load to strict, {workload}");
    let mut table = Table::new(
        title,
        &["policy", "cache", "write response", "read response", "whole RMW", "whole RMW, one at a time"],
    );
    for cached in [false, true] {
        let ran = |policy: &str| outcomes.iter().any(|o| o.policy == policy && o.cached == cached);
        for policy in POLICIES.into_iter().filter(|&policy| policy != STRICT && ran(policy)) {
            let metric = |f: fn(&Outcome) -> f64| Cell::from(versus(outcomes, policy, cached, f));
            table.rows.push(vec![
                policy.into(),
                if cached { "on" } else { "off" }.into(),
                metric(|o| o.loaded.write_ns),
                metric(|o| o.loaded.read_ns),
                metric(|o| o.loaded.rmw_ns),
                metric(|o| o.alone.rmw_ns),
            ]);
        }
    }
    table
}

/// Means over the workloads, to strict, with four bits a cell.
fn qlc_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "QLC: mean ratios to strict (beyond the paper)",
        &[
            "policy",
            "write response",
            "read response",
            "RMW latency",
            "IOPS",
            "write response, load",
            "erases",
        ],
    );
    for policy in POLICIES.into_iter().filter(|&policy| policy != STRICT) {
        let metric = |f: fn(&Outcome) -> f64| Cell::from(versus(outcomes, policy, false, f));
        table.rows.push(vec![
            policy.into(),
            metric(|o| o.alone.write_ns),
            metric(|o| o.alone.read_ns),
            metric(|o| o.alone.rmw_ns),
            metric(|o| o.iops),
            metric(|o| o.loaded.write_ns),
            metric(|o| o.erases as f64),
        ]);
    }
    table
}
