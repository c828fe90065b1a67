//! PAPA's evaluation (section VI): nine workloads, four page-type policies, each trace run twice,
//! write cache off and on.
//!
//! The device is Table II's; a scale divides its blocks and the requests alike, so that it is filled
//! as often. Everything is counted over both passes. How the paper replays its traces is not said, so
//! both ways are measured: under load, requests arrive at the trace's times and wait for each other;
//! one at a time, each request waits for the one before and then for the gap between their times,
//! so that response times are hardly more than service times, and IOPS are requests over time.

use std::collections::HashMap;
use std::fmt::Write as _;

use nandle_ssd::allocation::{AllocationKind, AllocationStats};
use nandle_ssd::config::{BufferConfig, CellConfig, GcConfig, RecoveryConfig};
use nandle_ssd::nand::{Cause, CellKind, Geometry, ProgramOrder, Scheduler, Suspend, Timing};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Target, named};
use nandle_trace::{Error, Request, Source};

use super::{Claim, Tolerance};

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
    /// Blocks are divided by this too: on the paper's device seven of the nine traces never fill it.
    pub fewer_blocks: u32,
    /// Over-provisioning; the paper does not say.
    pub op_ratio: f64,
    /// Bits per cell: the paper's device is TLC.
    pub cell: CellKind,
    /// Collect ahead of need, or only in emergencies: the paper describes the latter (section V-D) and
    /// mentions the former (VI-B2).
    pub ahead: bool,
    /// Seed of workloads and devices.
    pub seed: u64,
}

impl Plan {
    /// A 32nd of the paper's size: minutes instead of hours.
    pub fn quick() -> Self {
        Self { scale: 32, fewer_blocks: 1, op_ratio: 0.15, cell: CellKind::Tlc, ahead: true, seed: 1 }
    }

    /// The device of Table II, scaled. Bus and over-provisioning are not published.
    pub fn device(&self, policy: AllocationKind, cached: bool) -> DeviceConfig {
        let bits = self.cell.bits() as usize;
        DeviceConfig {
            name: "papa-tlc".into(),
            description: "PAPA's simulated TLC drive (Table II)".into(),
            op_ratio: self.op_ratio,
            geometry: Geometry {
                channels: 2,
                chips_per_channel: 1,
                dies_per_chip: 2,
                planes_per_die: 2,
                blocks_per_plane: 2048 / self.scale / self.fewer_blocks,
                pages_per_block: 384,
                page_bytes: PAGE as u32,
                sector_bytes: SECTOR as u32,
                oob_bytes: 1024,
            },
            cell: CellConfig {
                kind: self.cell,
                program_order: ProgramOrder::Relaxed,
                ..CellConfig::default()
            },
            timing: Timing {
                read_ns: [50_000, 100_000, 150_000, 200_000][..bits].to_vec(),
                program_ns: [500_000, 2_000_000, 5_500_000, 8_000_000][..bits].to_vec(),
                erase_ns: 3_000_000,
                transfer_ns_per_page: None,
                bus_mb_s: Some(333.0),
                command_ns: 0,
                dram_ns: 0,
                partial_transfer: false,
                scheduler: Scheduler::Fifo,
                suspend: Suspend::None,
                suspend_ns: 0,
                copyback: false,
                multi_plane: false,
                multi_plane_same_offset: true,
            },
            buffer: BufferConfig { bytes: if cached { CACHE_BYTES / u64::from(self.scale) } else { 0 } },
            map_cache: Default::default(),
            recovery: RecoveryConfig { checkpoint_interval: 0, ..Default::default() },
            faults: Default::default(),
            gc: GcConfig { types_ahead: self.ahead, ..Default::default() },
            wear: Default::default(),
            streams: Default::default(),
            queue: Default::default(),
            scheme: nandle_ssd::config::SchemeConfig { allocation: policy, ..Default::default() },
            precondition: Default::default(),
        }
    }

    /// One pass of a workload.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn trace(&self, workload: &str) -> Result<Vec<Request>, Error> {
        let mut target = Target {
            logical_bytes: self
                .device(AllocationKind::Papa, false)
                .validate()
                .map_err(invalid)?
                .logical_bytes,
            page_bytes: PAGE as u32,
            sector_bytes: SECTOR as u32,
            seed: self.seed,
            requests: None,
        };
        let whole = named(workload, &target)?.phases.last().and_then(|phase| phase.requests);
        target.requests = whole.map(|n| (n / u64::from(self.scale)).max(1));
        let mut source = named(workload, &target)?.into_source();
        let mut requests = Vec::new();
        loop {
            let before = requests.len();
            source.fill(&mut requests, 1 << 16)?;
            if requests.len() == before {
                return Ok(requests);
            }
        }
    }
}

fn invalid(error: nandle_ssd::ConfigError) -> Error {
    Error::Input(error.to_string())
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
            for request in trace.iter().filter(|r| r.op == nandle_trace::Op::Write) {
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
    pub policy: AllocationKind,
    /// With a write cache.
    pub cached: bool,
    /// Flash writes, and reads of RMW, by page type.
    pub writes: [u64; 4],
    /// Reads of RMW by page type.
    pub rmw_reads: [u64; 4],
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
    /// What the policy resorted to.
    pub allocation: AllocationStats,
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
        for (id, request) in trace.iter().enumerate() {
            let op = match request.op {
                nandle_trace::Op::Read => Op::Read,
                nandle_trace::Op::Write => Op::Write,
                _ => continue,
            };
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
        let write = trace[request].op == nandle_trace::Op::Write;
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
    policy: AllocationKind,
    cached: bool,
) -> Result<Outcome, Error> {
    let config = plan.device(policy, cached);
    let (ssd, loaded) = replay(&config, trace, plan.seed, false)?;
    let (quiet, alone) = replay(&config, trace, plan.seed, true)?;
    let (counters, stats) = (ssd.flash().counters(), ssd.stats());
    let by_type = |kind: usize| counters.programs.iter().map(|by_type| by_type[kind]).sum();
    Ok(Outcome {
        workload: workload.into(),
        policy,
        cached,
        writes: std::array::from_fn(by_type),
        rmw_reads: counters.reads[Cause::Rmw as usize],
        gc_writes: counters.programs[Cause::Gc as usize].iter().sum(),
        erases: counters.erases,
        loaded,
        alone,
        stalled_ns: stats.foreground_ns,
        elapsed_ns: ssd.now(),
        iops: (2 * trace.len()) as f64 / quiet.now() as f64 * 1e9,
        partial_evictions: stats.evicted_partial_pages as f64 / stats.evictions.max(1) as f64,
        allocation: stats.allocation.clone(),
    })
}

/// The paper's claims, held against what came out.
pub fn claims(pages: &[Pages], outcomes: &[Outcome]) -> Vec<Claim> {
    use AllocationKind::{LsbFirst, Papa, SizeBased};
    let mut claims = Vec::new();
    let mut claim = |id, place, what: &str, paper, ours, tolerance| {
        claims.push(Claim { id, place, what: what.into(), paper, ours, tolerance });
    };
    let (points, fifth) = (Tolerance::Points(0.05), Tolerance::Relative(0.2));
    let mean_pages =
        |part: &dyn Fn(&Pages) -> f64| pages.iter().map(part).sum::<f64>() / pages.len().max(1) as f64;
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    for (n, size, paper) in [(0, "8 KiB", [0.43, 0.39]), (1, "16 KiB", [0.75, 0.61])] {
        let partial = mean_pages(&|p| share(p.partial[n], p.writes[n]));
        let updates = mean_pages(&|p| share(p.updates[n], p.writes[n]));
        claim("papa-partial-share", "Fig 5", &format!("partial writes, {size}"), paper[0], partial, points);
        claim("papa-partial-share", "Fig 5", &format!("partial updates, {size}"), paper[1], updates, points);
    }
    let hits = mean_pages(&|p| share(p.hits, p.updates[1]));
    claim("papa-updates-hit-partial", "Fig 7", "partial updates that hit partial pages", 0.96, hits, points);

    let of = |policy, cached| outcomes.iter().filter(move |o| o.policy == policy && o.cached == cached);
    let mean = |policy, cached, f: &dyn Fn(&Outcome) -> f64| {
        of(policy, cached).map(f).sum::<f64>() / of(policy, cached).count().max(1) as f64
    };
    // Each workload is held against its own baseline; the mean is over the workloads.
    let versus = |policy, cached, f: &dyn Fn(&Outcome) -> f64| {
        let ratios = of(policy, cached).filter_map(|o| {
            let base = of(AllocationKind::Strict, cached).find(|b| b.workload == o.workload)?;
            (f(base) > 0.0).then(|| f(o) / f(base))
        });
        let ratios: Vec<f64> = ratios.collect();
        ratios.iter().sum::<f64>() / ratios.len().max(1) as f64
    };
    let types = ["LSB", "CSB", "MSB"];
    for (cached, id, place, paper) in [
        (false, "papa-write-types", "Fig 11", [0.62, 0.372, 0.008]),
        (true, "papa-cached", "Fig 18", [0.54, 0.42, 0.04]),
    ] {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of flash writes, papa", types[kind]);
            claim(id, place, &what, value, mean(Papa, cached, &|o| o.write_shares()[kind]), points);
        }
    }
    for (policy, paper) in
        [(Papa, [0.84, 0.15, 0.01]), (SizeBased, [0.79, 0.13, 0.08]), (LsbFirst, [0.50, 0.34, 0.16])]
    {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of RMW reads, {}", types[kind], policy.name());
            claim(
                "papa-rmw-read-types",
                "Fig 12",
                &what,
                value,
                mean(policy, false, &|o| o.rmw_shares()[kind]),
                points,
            );
        }
    }
    let metric = |f: fn(&Outcome) -> f64| f;
    let ratios = [
        ("papa-erases", "Fig 13", "erases", metric(|o| o.erases as f64), [1.6, 4.5, 1.0]),
        ("papa-iops", "Fig 14", "IOPS", metric(|o| o.iops), [1.14, 1.075, 1.055]),
        ("papa-write-response", "Fig 15", "write response", metric(|o| o.alone.write_ns), [0.45, 0.57, 0.64]),
        ("papa-rmw-latency", "Fig 16", "RMW latency", metric(|o| o.alone.rmw_ns), [0.66, 0.71, f64::NAN]),
        ("papa-read-response", "Fig 17", "read response", metric(|o| o.alone.read_ns), [0.77, 0.79, 0.89]),
        ("papa-write-response", "Fig 15", "under load", metric(|o| o.loaded.write_ns), [0.45, 0.57, 0.64]),
        ("papa-rmw-latency", "Fig 16", "under load", metric(|o| o.loaded.rmw_ns), [0.66, 0.71, f64::NAN]),
        ("papa-read-response", "Fig 17", "under load", metric(|o| o.loaded.read_ns), [0.77, 0.79, 0.89]),
    ];
    for (id, place, what, f, paper) in ratios {
        for (policy, value) in [Papa, SizeBased, LsbFirst].into_iter().zip(paper) {
            if !value.is_nan() {
                let what = format!("{what}, {} / strict", policy.name());
                claim(id, place, &what, value, versus(policy, false, &f), fifth);
            }
        }
    }
    let partial = mean(Papa, true, &|o| o.partial_evictions);
    claim("papa-cached", "Fig 19", "partial pages of all that leave the cache", 0.57, partial, points);
    let what = "write response, papa / strict, cache on";
    claim("papa-cached", "Fig 20", what, 0.50, versus(Papa, true, &|o| o.alone.write_ns), fifth);
    let what = "under load, papa / strict, cache on";
    claim("papa-cached", "Fig 20", what, 0.50, versus(Papa, true, &|o| o.loaded.write_ns), fifth);
    claims
}

/// Everything measured, one line a run.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut out = String::from(
        "                          | flash writes         | RMW reads                | erases  GC writes | one at a time, ms        IOPS | under load, ms              stalled | collections         unfinished | backup\n\
         workload policy     cache |         LSB  CSB  MSB |           LSB  CSB  MSB |                   |  write    read     RMW        |  write    read     RMW              | emergency   ahead  victims    |     CSB     MSB\n",
    );
    for o in outcomes {
        let (w, r, (a, l)) = (o.write_shares(), o.rmw_shares(), (o.alone, o.loaded));
        let types = |sum: u64, s: [f64; 4]| format!("{sum:8} {:.2} {:.2} {:.2}", s[0], s[1], s[2] + s[3]);
        let ms =
            |t: Times| format!("{:7.3} {:7.3} {:7.3}", t.write_ns / 1e6, t.read_ns / 1e6, t.rmw_ns / 1e6);
        let _ = writeln!(
            out,
            "{:8} {:10} {:5} | {} | {} | {:6} {:10} | {} {:6.0} | {} {:9.2}% | {:9} {:7} {:10} | {:7} {:7}",
            o.workload,
            o.policy.name(),
            if o.cached { "on" } else { "off" },
            types(o.writes.iter().sum(), w),
            types(o.rmw_reads.iter().sum(), r),
            o.erases,
            o.gc_writes,
            ms(a),
            o.iops,
            ms(l),
            o.stalled_ns as f64 / o.elapsed_ns.max(1) as f64 * 100.0,
            o.allocation.emergency_gcs,
            o.allocation.proactive_gcs,
            o.allocation.unfinished_victims,
            o.allocation.backup_csb,
            o.allocation.backup_msb,
        );
    }
    out
}
