//! FlashAlloc (PVLDB 16(11), 2023), section 6: Figs 4, 5 and 6, Table 2.
//!
//! Each workload is replayed, closed, on the same drive under four stream policies: by-time
//! (vanilla), flashalloc, multi-stream(8) and, beyond the paper, fdp(8). WAF and throughput are those
//! of the measured phase; the running WAF is taken at twenty points of it.

use nandle_ssd::nand::Cause;
use nandle_ssd::streams::{Isolation, StreamsConfig, StreamsKind};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};
use nandle_trace::synthetic::{Phase, Replay, Target, named};
use nandle_trace::{Request, Source};

use super::{Bench, Cell, Claim, Report, Rule, Table, preset};
use crate::Error;

/// The policies that are compared.
pub const POLICIES: [StreamsKind; 4] =
    [StreamsKind::ByTime, StreamsKind::FlashAlloc, StreamsKind::MultiStream, StreamsKind::Fdp];

/// A point of a run.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Since the phase began.
    pub at_ns: u64,
    /// Bytes that the host wrote since then.
    pub host_bytes: u64,
    /// Write amplification since then.
    pub waf: f64,
}

/// What one workload did under one policy.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Workload.
    pub workload: &'static str,
    /// Policy.
    pub policy: StreamsKind,
    /// Twenty points at most, the last at the end.
    pub points: Vec<Point>,
    /// Bytes that each tenant wrote: stream ids 0 to 4 (RocksDB), 5 and above (MySQL).
    pub tenant_bytes: [u64; 2],
    /// Write latencies in nanoseconds: mean, 99th and 99.9th percentile.
    pub write_ns: [f64; 3],
    /// Mean read latency in nanoseconds.
    pub read_ns: f64,
    /// FlashAlloc calls: carried out, refused.
    pub calls: [u64; 2],
    /// Pages that collection moved.
    pub moved: u64,
    /// Blocks of objects that had to become normal.
    pub demoted: u64,
    /// Pages of the phase by cause: host, RMW, GC, merge, map, meta.
    pub programs: [u64; 6],
}

impl Outcome {
    /// Write amplification of the phase.
    pub fn waf(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |p| p.waf)
    }
    /// Write amplification of the second half of the phase, when what was there before has had its turn.
    pub fn waf_late(&self) -> f64 {
        let (Some(half), Some(end)) = (self.points.get(self.points.len() / 2), self.points.last()) else {
            return f64::NAN;
        };
        let media = |p: &Point| p.waf * p.host_bytes as f64;
        (media(end) - media(half)) / (end.host_bytes - half.host_bytes) as f64
    }
    /// Bytes a second that the host wrote.
    pub fn throughput(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |p| p.host_bytes as f64 / p.at_ns as f64 * 1e9)
    }
    /// Bytes a second that a tenant wrote.
    pub fn tenant(&self, n: usize) -> f64 {
        self.points.last().map_or(f64::NAN, |p| self.tenant_bytes[n] as f64 / p.at_ns as f64 * 1e9)
    }
}

/// A phase under way.
struct Replayer<'a> {
    ssd: &'a mut Ssd,
    begun: u64,
    programs: [u64; 6],
    host_bytes: u64,
    tenant_bytes: [u64; 2],
    submitted: Vec<(u64, Op)>,
    free: Vec<u32>,
    writes: Vec<u64>,
    reads: (u64, u64),
    calls: [u64; 2],
    points: Vec<Point>,
    done: Vec<Completion>,
}

fn programs(ssd: &Ssd) -> [u64; 6] {
    let mut out = [0; 6];
    for (cause, types) in ssd.flash().counters().programs.iter().enumerate() {
        out[cause] = types.iter().sum();
    }
    out
}

impl<'a> Replayer<'a> {
    fn new(ssd: &'a mut Ssd) -> Self {
        Self {
            begun: ssd.now(),
            programs: programs(ssd),
            ssd,
            host_bytes: 0,
            tenant_bytes: [0; 2],
            submitted: vec![],
            free: vec![],
            writes: vec![],
            reads: (0, 0),
            calls: [0; 2],
            points: vec![],
            done: vec![],
        }
    }

    fn step(&mut self) -> Result<(), Error> {
        let next = self
            .ssd
            .next_event()
            .ok_or(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() })?;
        self.ssd.advance(next, &mut self.done);
        for completion in self.done.drain(..) {
            let (since, op) = self.submitted[completion.id as usize];
            self.free.push(completion.id as u32);
            match op {
                Op::Write => self.writes.push(completion.at - since),
                Op::Read => self.reads = (self.reads.0 + 1, self.reads.1 + completion.at - since),
                Op::FlashAlloc => self.calls[usize::from(completion.status != Status::Ok)] += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Submits a request; `ranges` = what FlashAlloc calls of the same object name.
    fn submit(&mut self, op: Op, request: &Request, data: &[u8]) {
        let sector = u64::from(self.ssd.config().geometry.sector_bytes);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.submitted.push((0, op));
            self.submitted.len() as u32 - 1
        });
        let now = self.ssd.now();
        self.submitted[slot as usize] = (now, op);
        let first = request.offset / sector;
        let end = (request.offset + request.bytes).div_ceil(sector);
        if op == Op::Write {
            self.host_bytes += request.bytes;
            self.tenant_bytes[usize::from(request.stream > 4)] += request.bytes;
        }
        let command = Command {
            id: u64::from(slot),
            op,
            lsn: first,
            sectors: if op == Op::Flush { 0 } else { end - first },
            fua: request.fua,
            stream: request.stream,
            data,
        };
        self.ssd.submit(now, &command);
    }

    fn point(&mut self) {
        let page = u64::from(self.ssd.config().geometry.page_bytes);
        let pages: u64 = programs(self.ssd).iter().sum::<u64>() - self.programs.iter().sum::<u64>();
        let waf = (pages * page) as f64 / self.host_bytes.max(1) as f64;
        self.points.push(Point { at_ns: self.ssd.now() - self.begun, host_bytes: self.host_bytes, waf });
    }

    /// Replays `phase` to its end, or for `most_ns`; a point is noted every so many bytes.
    fn phase(&mut self, mut phase: Phase, calls: bool, every: u64, most_ns: u64) -> Result<(), Error> {
        let depth = match phase.replay {
            Replay::Closed { iodepth } => iodepth,
            _ => 32,
        };
        let mut requests: Vec<Request> = vec![];
        let mut next = 0;
        let mut due = every;
        while self.ssd.now() - self.begun < most_ns {
            if next == requests.len() {
                // An object's calls are one: they may not be cut apart.
                requests.clear();
                next = 0;
                phase.source.fill(&mut requests, 4096)?;
                while requests.last().is_some_and(|r| matches!(r.op, nandle_trace::Op::FlashAlloc)) {
                    let before = requests.len();
                    phase.source.fill(&mut requests, 1)?;
                    if requests.len() == before {
                        break;
                    }
                }
                if requests.is_empty() {
                    break;
                }
            }
            let request = requests[next];
            next += 1;
            let op = match request.op {
                nandle_trace::Op::Read => Op::Read,
                nandle_trace::Op::Write => Op::Write,
                nandle_trace::Op::Trim => Op::Trim,
                nandle_trace::Op::Flush => Op::Flush,
                nandle_trace::Op::FlashAlloc | nandle_trace::Op::FlashFree if !calls => continue,
                nandle_trace::Op::FlashAlloc => Op::FlashAlloc,
                nandle_trace::Op::FlashFree => Op::FlashFree,
            };
            let mut data = vec![];
            if op == Op::FlashAlloc {
                let sector = u64::from(self.ssd.config().geometry.sector_bytes);
                let mut range = |r: &Request| {
                    data.extend(0_u32.to_le_bytes());
                    data.extend((r.bytes.div_ceil(sector) as u32).to_le_bytes());
                    data.extend((r.offset / sector).to_le_bytes());
                };
                range(&request);
                while next < requests.len()
                    && requests[next].op == request.op
                    && requests[next].object == request.object
                {
                    range(&requests[next]);
                    next += 1;
                }
            }
            while self.ssd.outstanding() >= depth || !self.ssd.accepts() {
                self.step()?;
            }
            self.submit(op, &request, &data);
            if self.host_bytes >= due {
                self.point();
                due += every;
            }
        }
        while self.ssd.outstanding() > 0 {
            self.step()?;
        }
        self.point();
        Ok(())
    }
}

/// The paper's drive under a policy, with one chip in `scale` (1, 2, 4, 8 or 16): what collection keeps
/// of each plane stays the same share of it.
///
/// # Errors
/// If the preset is damaged.
pub fn drive(scale: u32, policy: StreamsKind) -> Result<DeviceConfig, Error> {
    let mut config = preset("flashalloc-cosmos", None, &[])?.config;
    let chips = (config.geometry.chips_per_channel * config.geometry.channels / scale).max(1);
    config.geometry.channels = config.geometry.channels.min(chips);
    config.geometry.chips_per_channel = chips / config.geometry.channels;
    config.scheme.streams = policy;
    config.streams.count = 8;
    Ok(config)
}

/// How long the paper's fio runs, in nanoseconds (section 6, Fig 5).
const HOUR: u64 = 3_600_000_000_000;

/// Replays one workload on one drive; with `calls`, FlashAlloc commands reach it. fio overwrites its files
/// four times or, `hour`, for an hour.
///
/// # Errors
/// If the drive or the workload cannot be had, or the drive stops.
pub fn run(
    workload: &'static str,
    config: &DeviceConfig,
    seed: u64,
    calls: bool,
    hour: bool,
) -> Result<Outcome, Error> {
    let mut ssd = Ssd::new(config, 0, seed).map_err(|e| Error::input(e.to_string()))?;
    let target = Target {
        logical_bytes: ssd.layout().logical_bytes,
        page_bytes: config.geometry.page_bytes,
        sector_bytes: config.geometry.sector_bytes,
        seed,
        requests: (hour && workload.starts_with("fio")).then_some(1 << 40),
    };
    let phases = named(workload, &target)?.phases;
    let last = phases.len() - 1;
    for (n, phase) in phases.into_iter().enumerate() {
        let mut replayer = Replayer::new(&mut ssd);
        let most_ns = if n == last && target.requests.is_some() { HOUR } else { u64::MAX };
        replayer.phase(phase, calls, (target.logical_bytes / 8).max(1), most_ns)?;
        if n < last {
            continue;
        }
        let Replayer { mut writes, reads, calls, points, tenant_bytes, programs: before, .. } = replayer;
        writes.sort_unstable();
        let at = |share: f64| writes.get((writes.len() as f64 * share) as usize).map_or(0.0, |&ns| ns as f64);
        let mean = writes.iter().sum::<u64>() as f64 / writes.len().max(1) as f64;
        let mut by_cause = programs(&ssd);
        by_cause.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        return Ok(Outcome {
            workload,
            policy: config.scheme.streams,
            points,
            tenant_bytes,
            write_ns: [mean, at(0.99), at(0.999)],
            read_ns: reads.1 as f64 / reads.0.max(1) as f64,
            calls,
            moved: ssd.stats().gc_moved_pages,
            demoted: ssd.stats().dedicated_demoted,
            programs: by_cause,
        });
    }
    Err(Error::input("a workload without phases"))
}

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "flashalloc-fio-8",
    "flashalloc-fio-32",
    "flashalloc-rocksdb-ext4",
    "flashalloc-f2fs",
    "flashalloc-mysql",
    "flashalloc-multitenant",
    "flashalloc-latency",
    "flashalloc-vs-multistream",
];

/// The claims and the workloads that stand in for them; the last two have none.
const WORKLOADS: [(&str, &[&str]); 8] = [
    ("fio-2m-8", &["flashalloc-fio-8"]),
    ("fio-2m-32", &["flashalloc-fio-32"]),
    ("rocksdb-x4", &["flashalloc-rocksdb-ext4", "flashalloc-latency"]),
    ("f2fs", &["flashalloc-f2fs"]),
    ("mysql", &["flashalloc-mysql"]),
    ("rocksdb+mysql", &["flashalloc-multitenant", "flashalloc-vs-multistream"]),
    ("rocksdb", &[]),
    ("kv-cache", &[]),
];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let scale = if options.quick { 16 } else { 1 };
    let everything = options.claim.is_none();
    let workloads: Vec<&'static str> = WORKLOADS
        .iter()
        .filter(
            |(_, claims)| if claims.is_empty() { everything && !options.quick } else { bench.wants(claims) },
        )
        .map(|(workload, _)| *workload)
        .collect();
    // With the preset's write buffer and, at full size, without one.
    let buffers: &[bool] = if options.quick { &[true] } else { &[true, false] };
    for &buffered in buffers {
        let jobs: Vec<(&'static str, StreamsKind)> =
            workloads.iter().flat_map(|&w| POLICIES.iter().map(move |&policy| (w, policy))).collect();
        let note = if buffered { "" } else { ", no buffer" };
        let outcomes = bench.each(
            &jobs,
            |(workload, policy)| format!("{workload} {}{note}", policy.name()),
            |&(workload, policy)| {
                let mut config = drive(scale, policy)?;
                config.buffer.bytes *= u64::from(buffered);
                run(workload, &config, options.seed, policy == StreamsKind::FlashAlloc, !options.quick)
            },
        )?;
        claims(&outcomes, note, &mut report.claims);
        report.tables.push(table(&format!("Workloads under each stream policy{note}"), &outcomes));
    }
    if everything {
        variants(bench, scale, report)?;
    }
    report.notes.push(
        "WAF and throughput are of the measured phase; late = its second half. Both tenants of rocksdb+mysql \
         take turns in one stream of requests, so their ratios are one number"
            .into(),
    );
    Ok(())
}

/// A change to the stream settings.
type Change = fn(&mut StreamsConfig);

/// Settings beyond the paper, beside its rule. The last column: whether the host makes calls.
const VARIANTS: [(&str, StreamsKind, Change, bool); 8] = [
    ("by-time", StreamsKind::ByTime, |_| {}, false),
    ("flashalloc, the paper's rule", StreamsKind::FlashAlloc, |_| {}, true),
    ("flashalloc, blocks on demand", StreamsKind::FlashAlloc, |s| s.on_demand = true, true),
    ("flashalloc, tiny objects share", StreamsKind::FlashAlloc, |s| s.share_tiny = true, true),
    ("no calls, auto_align 2 MiB", StreamsKind::FlashAlloc, |s| s.auto_align = 2 << 20, false),
    ("no calls, auto_run 1 MiB", StreamsKind::FlashAlloc, |s| s.auto_run = 1 << 20, false),
    ("fdp, initially isolated", StreamsKind::Fdp, |_| {}, false),
    ("fdp, persistently isolated", StreamsKind::Fdp, |s| s.isolation = Isolation::Persistently, false),
];

fn variants(bench: &Bench<'_>, scale: u32, report: &mut Report) -> Result<(), Error> {
    let mut jobs = Vec::new();
    for workload in ["rocksdb-x4", "f2fs", "mysql"] {
        jobs.extend(VARIANTS.iter().map(|variant| (workload, variant)));
    }
    let outcomes = bench.each(
        &jobs,
        |(workload, (name, ..))| format!("{workload} {name}"),
        |&(workload, &(_, policy, change, calls))| {
            let mut config = drive(scale, policy)?;
            change(&mut config.streams);
            match run(workload, &config, bench.options.seed, calls, false) {
                // A defect of the setting is a result to show, and no reason to lose the others.
                Err(Error::Stuck { at_ns, .. }) => Ok(Err(at_ns)),
                done => done.map(Ok),
            }
        },
    )?;
    let mut shown = Vec::new();
    let mut names = Vec::new();
    for ((workload, (name, ..)), outcome) in jobs.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                shown.push(outcome);
                names.push(*name);
            }
            Err(at_ns) => report.notes.push(format!(
                "{name} on {workload}: the drive came to a stand after {}: a defect of this setting",
                crate::units::time(at_ns as f64)
            )),
        }
    }
    let mut table = table("Settings beyond the paper", &shown);
    for (row, name) in table.rows.iter_mut().zip(names) {
        row[1] = name.into();
    }
    report.tables.push(table);
    Ok(())
}

const BEGINNING: &str = "the average has the beginning in it, when there was nothing to collect: the second half \
    is in the table";
const LAYOUT: &str = "the files are laid out without calls, as fio does it; their blocks are merged before the first \
    overwrites find clean ones: in the second half it is near 1 (table)";
const DIES: &str = "an object's pages go to one block, that is one die, while vanilla spreads a request over all of \
    them";
const FILLING: &str = "collection has little to do until the drive is nearly full; in what state the authors' \
    drive began, and how long it stayed full, is not said";
const COPIES: &str = "FlashAlloc copies less here than in the paper: only what is beside the doublewrite buffer is \
    collected";
const ONE_BATCH: &str = "not copying but parallelism: the doublewrite buffer is one block on one die, and our InnoDB \
    has one batch at a time between flushes where the paper had 32 clients";
const LESS: &str = "vanilla copies less here than in the paper, so there is less to gain; where there are several \
    dies, an object's block is on one of them";
const STREAMS: &str = "one RocksDB beside MySQL needs no more than eight streams in our model";
const OPERATIONS: &str = "db_bench's operations end in RAM, ours are block requests; in a closed replay writes \
    follow faster and reads queue behind them";

/// The paper's numbers beside those of `outcomes`.
fn claims(outcomes: &[Outcome], note: &str, claims: &mut Vec<Claim>) {
    use StreamsKind::{ByTime, FlashAlloc, MultiStream};
    let find =
        |workload: &str, policy| outcomes.iter().find(|o| o.workload == workload && o.policy == policy);
    let mut add = |id, place, what: &str, workload: &str, paper, ours, rule, why| {
        claims.push(Claim::new(id, place, what, format!("{workload}{note}"), paper, ours, rule).because(why));
    };
    let (value, gain) = (Rule::Value(0.2), Rule::Gain(0.2));
    for (id, place, workload, paper, why) in [
        ("flashalloc-fio-8", "Fig 5a", "fio-2m-8", [3.1, 1.0, 2.0], [BEGINNING, LAYOUT, DIES]),
        ("flashalloc-fio-32", "Fig 5b", "fio-2m-32", [4.0, 1.0, 3.0], [BEGINNING, LAYOUT, DIES]),
        ("flashalloc-rocksdb-ext4", "Fig 4a", "rocksdb-x4", [2.6, 1.1, 2.7], [FILLING; 3]),
        ("flashalloc-f2fs", "Fig 4b", "f2fs", [3.5, 1.1, 1.8], [BEGINNING, LAYOUT, LESS]),
    ] {
        let (Some(vanilla), Some(ours)) = (find(workload, ByTime), find(workload, FlashAlloc)) else {
            continue;
        };
        let ratio = ours.throughput() / vanilla.throughput();
        add(id, place, "WAF, vanilla", workload, paper[0], vanilla.waf(), value, why[0]);
        add(id, place, "WAF, FlashAlloc", workload, paper[1], ours.waf(), value, why[1]);
        add(id, place, "throughput ratio", workload, paper[2], ratio, gain, why[2]);
    }
    let alone = "mysql";
    if let (Some(vanilla), Some(ours)) = (find(alone, ByTime), find(alone, FlashAlloc)) {
        let id = "flashalloc-mysql";
        let ratio = ours.throughput() / vanilla.throughput();
        add(id, "Fig 4c", "extra WAF, vanilla", alone, 1.2, vanilla.waf() - 1.0, value, BEGINNING);
        add(id, "Fig 4c", "extra WAF, FlashAlloc", alone, 0.8, ours.waf() - 1.0, value, COPIES);
        add(id, "Fig 4c", "throughput ratio", alone, 1.2, ratio, gain, ONE_BATCH);
    }
    let both = "rocksdb+mysql";
    if let (Some(vanilla), Some(ours)) = (find(both, ByTime), find(both, FlashAlloc)) {
        let id = "flashalloc-multitenant";
        add(id, "Fig 4d", "WAF, vanilla", both, 2.5, vanilla.waf(), value, BEGINNING);
        add(id, "Fig 4d", "WAF, FlashAlloc", both, 1.6, ours.waf(), value, COPIES);
        for (what, paper, n) in [("TPC-C ratio", 1.9, 1), ("db_bench ratio", 1.3, 0)] {
            add(id, "Fig 4d", what, both, paper, ours.tenant(n) / vanilla.tenant(n), gain, LESS);
        }
        if let Some(streams) = find(both, MultiStream) {
            let id = "flashalloc-vs-multistream";
            for (what, paper, n) in [("TPC-C ratio", 1.7, 1), ("db_bench ratio", 1.4, 0)] {
                add(id, "Fig 6b", what, both, paper, ours.tenant(n) / streams.tenant(n), gain, STREAMS);
            }
        }
    }
    let four = "rocksdb-x4";
    if let (Some(vanilla), Some(ours)) = (find(four, ByTime), find(four, FlashAlloc)) {
        let id = "flashalloc-latency";
        let ratio = |n: usize| ours.write_ns[n] / vanilla.write_ns[n];
        for (what, paper, ours) in [
            ("mean write (db_bench op)", 0.673, ratio(0)),
            ("99% write (db_bench op)", 0.876, ratio(1)),
            ("99.9% write (db_bench op)", 0.597, ratio(2)),
            ("mean read", 0.543, ours.read_ns / vanilla.read_ns),
        ] {
            add(id, "Table 2", what, four, paper, ours, gain, OPERATIONS);
        }
    }
}

/// One run a row.
fn table(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "policy",
            "WAF",
            "WAF late",
            "MB/s",
            "RocksDB MB/s",
            "MySQL MB/s",
            "write us",
            "write 99% us",
            "write 99.9% us",
            "read us",
            "calls",
            "refused",
            "moved",
            "demoted",
            "programs host",
            "programs gc",
            "programs merge",
        ],
    );
    for o in outcomes {
        let mut row: Vec<Cell> = vec![o.workload.into(), o.policy.name().into()];
        row.extend(
            [o.waf(), o.waf_late(), o.throughput() / 1e6, o.tenant(0) / 1e6, o.tenant(1) / 1e6]
                .map(Cell::from),
        );
        row.extend(o.write_ns.map(|ns| Cell::from(ns / 1e3)));
        row.push((o.read_ns / 1e3).into());
        row.extend([o.calls[0], o.calls[1], o.moved, o.demoted].map(Cell::from));
        let by = |cause: Cause| Cell::from(o.programs[cause as usize]);
        row.extend([by(Cause::Host), by(Cause::Gc), by(Cause::Merge)]);
        table.rows.push(row);
    }
    table
}
