//! FlashAlloc (PVLDB 16(11), 2023), section 6: Figs 4, 5 and 6, Table 2.
//!
//! Each workload is replayed, closed, on the same drive under four stream policies: by-time
//! (vanilla), flashalloc, multi-stream(8) and, beyond the paper, fdp(8). WAF and throughput are those
//! of the measured phase; the running WAF is taken at twenty points of it.

use nandle_ssd::streams::StreamsKind;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};
use nandle_trace::synthetic::{Phase, Replay, Target, named};
use nandle_trace::{Request, Source};

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

    fn phase(&mut self, mut phase: Phase, calls: bool, every: u64) -> Result<(), Error> {
        let depth = match phase.replay {
            Replay::Closed { iodepth } => iodepth,
            _ => 32,
        };
        let mut requests: Vec<Request> = vec![];
        let mut next = 0;
        let mut due = every;
        loop {
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
pub fn drive(mut config: DeviceConfig, scale: u32, policy: StreamsKind) -> DeviceConfig {
    let chips = (config.geometry.chips_per_channel * config.geometry.channels / scale).max(1);
    config.geometry.channels = config.geometry.channels.min(chips);
    config.geometry.chips_per_channel = chips / config.geometry.channels;
    config.scheme.streams = policy;
    config.streams.count = 8;
    config
}

/// Replays one workload on one drive.
///
/// # Errors
/// If the drive or the workload cannot be had, or the drive stops.
pub fn run(workload: &'static str, config: &DeviceConfig, seed: u64) -> Result<Outcome, Error> {
    let mut ssd = Ssd::new(config, 0, seed).map_err(|e| Error::input(e.to_string()))?;
    let target = Target {
        logical_bytes: ssd.layout().logical_bytes,
        page_bytes: config.geometry.page_bytes,
        sector_bytes: config.geometry.sector_bytes,
        seed,
        requests: None,
    };
    let calls = config.scheme.streams == StreamsKind::FlashAlloc;
    let phases = named(workload, &target)?.phases;
    let last = phases.len() - 1;
    for (n, phase) in phases.into_iter().enumerate() {
        let mut replayer = Replayer::new(&mut ssd);
        replayer.phase(phase, calls, (target.logical_bytes / 8).max(1))?;
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

/// The paper's numbers beside those of `outcomes`, claim by claim.
pub fn findings(outcomes: &[Outcome]) -> Vec<Finding> {
    use StreamsKind::{ByTime, FlashAlloc, MultiStream};
    let find =
        |workload: &str, policy| outcomes.iter().find(|o| o.workload == workload && o.policy == policy);
    let mut out = vec![];
    let triples: [(&'static str, &str, [f64; 3]); 4] = [
        ("flashalloc-fio-8", "fio-2m-8", [3.1, 1.0, 2.0]),
        ("flashalloc-fio-32", "fio-2m-32", [4.0, 1.0, 3.0]),
        ("flashalloc-rocksdb-ext4", "rocksdb-x4", [2.6, 1.1, 2.7]),
        ("flashalloc-f2fs", "f2fs", [3.5, 1.1, 1.8]),
    ];
    for (claim, workload, paper) in triples {
        let (Some(vanilla), Some(ours)) = (find(workload, ByTime), find(workload, FlashAlloc)) else {
            continue;
        };
        out.push(Finding::new(claim, "WAF, vanilla", paper[0], vanilla.waf(), vanilla.workload));
        out.push(Finding::new(claim, "WAF, FlashAlloc", paper[1], ours.waf(), vanilla.workload));
        let ratio = ours.throughput() / vanilla.throughput();
        out.push(Finding::new(claim, "throughput ratio", paper[2], ratio, vanilla.workload));
    }
    if let (Some(vanilla), Some(ours)) = (find("mysql", ByTime), find("mysql", FlashAlloc)) {
        let claim = "flashalloc-mysql";
        out.push(Finding::new(claim, "extra WAF, vanilla", 1.2, vanilla.waf() - 1.0, "mysql"));
        out.push(Finding::new(claim, "extra WAF, FlashAlloc", 0.8, ours.waf() - 1.0, "mysql"));
        let ratio = ours.throughput() / vanilla.throughput();
        out.push(Finding::new(claim, "throughput ratio", 1.2, ratio, "mysql"));
    }
    let both = "rocksdb+mysql";
    if let (Some(vanilla), Some(ours)) = (find(both, ByTime), find(both, FlashAlloc)) {
        let claim = "flashalloc-multitenant";
        out.push(Finding::new(claim, "WAF, vanilla", 2.5, vanilla.waf(), vanilla.workload));
        out.push(Finding::new(claim, "WAF, FlashAlloc", 1.6, ours.waf(), vanilla.workload));
        for (what, paper, n) in [("TPC-C ratio", 1.9, 1), ("db_bench ratio", 1.3, 0)] {
            out.push(Finding::new(claim, what, paper, ours.tenant(n) / vanilla.tenant(n), vanilla.workload));
        }
        if let Some(streams) = find(both, MultiStream) {
            let claim = "flashalloc-vs-multistream";
            for (what, paper, n) in [("TPC-C ratio", 1.7, 1), ("db_bench ratio", 1.4, 0)] {
                out.push(Finding::new(
                    claim,
                    what,
                    paper,
                    ours.tenant(n) / streams.tenant(n),
                    vanilla.workload,
                ));
            }
        }
    }
    if let (Some(vanilla), Some(ours)) = (find("rocksdb-x4", ByTime), find("rocksdb-x4", FlashAlloc)) {
        let claim = "flashalloc-latency";
        let ratio = |n: usize| ours.write_ns[n] / vanilla.write_ns[n];
        out.push(Finding::new(claim, "mean write (db_bench op)", 0.673, ratio(0), "rocksdb-x4"));
        out.push(Finding::new(claim, "99% write (db_bench op)", 0.876, ratio(1), "rocksdb-x4"));
        out.push(Finding::new(claim, "99.9% write (db_bench op)", 0.597, ratio(2), "rocksdb-x4"));
        out.push(Finding::new(claim, "mean read", 0.543, ours.read_ns / vanilla.read_ns, "rocksdb-x4"));
    }
    out
}

/// A number that a paper prints, beside ours.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which claim, as the list of claims names it.
    pub claim: &'static str,
    /// Which of its numbers.
    pub what: &'static str,
    /// The paper's.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Ours is within a fifth of the paper's.
    pub met: bool,
    /// The workload that it was measured with.
    pub workload: &'static str,
}

impl Finding {
    fn new(claim: &'static str, what: &'static str, paper: f64, ours: f64, workload: &'static str) -> Self {
        Self { claim, what, paper, ours, met: (ours / paper - 1.0).abs() <= 0.2, workload }
    }
}
