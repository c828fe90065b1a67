//! One run: a workload on a drive, and what came out.

use std::sync::atomic::AtomicBool;

use nandle_lab::Error;
use nandle_lab::address::Address;
use nandle_lab::measure::{Calls, Latency, Served, Waits};
use nandle_lab::replay::{Progress, Replayer, Watch};
use nandle_ssd::nand::Cause;
use nandle_ssd::{DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Target, named};

use super::board::{BY_TIME, FLASHALLOC, POLICIES};
use super::host::Host;
use super::written::{DB_BENCH, Interval, TPC_C, belongs, intervals, rate, waf};

/// What one workload did under one policy.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Workload.
    pub workload: &'static str,
    /// Policy.
    pub policy: &'static str,
    /// Bytes of the logical drive.
    pub logical: u64,
    /// Bytes of the flash.
    pub flash: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Nanoseconds that the phase took.
    pub ns: u64,
    /// The device had come to rest at the end.
    pub steady: bool,
    /// What was written, in intervals of it.
    pub written: Vec<Interval>,
    /// What each user was served; none where there is only one.
    pub users: Vec<Served>,
    /// Writes and reads of all.
    pub writes: Latency,
    /// Reads of all.
    pub reads: Latency,
    /// FlashAlloc calls.
    pub calls: Calls,
    /// What the host's writes waited for.
    pub waits: Waits,
    /// Pages that collection moved.
    pub moved: u64,
    /// Blocks of objects that had to become normal.
    pub demoted: u64,
    /// Pages of the phase by cause: host, RMW, GC, merge, map, meta.
    pub programs: [u64; Cause::COUNT],
}

/// A figure of the moment, its name with its unit, and whose it is: all users', or a tenant's.
type Moment = (&'static str, fn(&[Interval]) -> f64, Option<(&'static str, &'static str)>);

const MOMENTS: [Moment; 4] = [
    ("WAF", waf, None),
    ("MB/s", |of| rate(of, |i| i.host), None),
    ("OPS MB/s", |of| rate(of, |i| i.done[0]), Some(DB_BENCH)),
    ("TPS MB/s", |of| rate(of, |i| i.done[1]), Some(TPC_C)),
];

impl Outcome {
    /// Bytes that the host wrote.
    pub fn bytes(&self) -> u64 {
        self.written.iter().map(|part| part.host).sum()
    }
    /// Write amplification of the phase.
    pub fn waf(&self) -> f64 {
        waf(&self.written)
    }
    /// Write amplification as the authors' firmware counts it: slices of the host before the buffer, and copies.
    pub(super) fn waf_of_firmware(&self) -> f64 {
        let slices = self.bytes() as f64 / self.page_bytes as f64;
        1.0 + self.programs[Cause::Gc as usize] as f64 / slices
    }
    /// Write amplification of the last `share` of what the host wrote: of a half, when what was there before
    /// has had its turn; of a tenth, at the end.
    pub fn waf_of_last(&self, share: f64) -> f64 {
        waf(self.last(share))
    }
    fn last(&self, share: f64) -> &[Interval] {
        let (mut sum, before) = (0, (self.bytes() as f64 * (1.0 - share)) as u64);
        let first = self.written.iter().take_while(|part| {
            sum += part.host;
            sum <= before
        });
        &self.written[first.count()..]
    }
    /// Bytes a second of what db_bench got done in the last `share` of what the host wrote.
    pub(super) fn operations_of_last(&self, share: f64) -> f64 {
        rate(self.last(share), |i| i.done[0]) * 1e6
    }
    /// Figures of the moment that it has.
    pub(super) fn moments(&self) -> impl Iterator<Item = (&'static str, fn(&[Interval]) -> f64)> {
        let has = |tenant| self.users.iter().any(|u| belongs(&u.name, tenant));
        MOMENTS.into_iter().filter(move |m| m.2.is_none_or(has)).map(|(what, figure, _)| (what, figure))
    }
    /// A figure of each of `n` parts of the time, if anything was written in it, and the seconds at which they end. The
    /// last interval may be cut short, and is left out.
    pub(super) fn over_time(&self, n: usize, figure: fn(&[Interval]) -> f64) -> Vec<(f64, Option<f64>)> {
        let whole = &self.written[..self.written.len().saturating_sub(1)];
        let parts = whole.chunks(whole.len().div_ceil(n).max(1));
        let end = |part: &[Interval]| part.last().map_or(0, |i| i.from_ns + i.ns) as f64 / 1e9;
        parts.map(|part| (end(part), Some(figure(part)).filter(|y| y.is_finite()))).collect()
    }
    /// Bytes a second that the host wrote.
    pub fn throughput(&self) -> f64 {
        self.rate(self.bytes())
    }
    pub(super) fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.ns as f64
    }
    pub(super) fn of(&self, begin: &str, end: &str, op: Op) -> Latency {
        let mut sum = Latency::default();
        let own = |u: &&Served| belongs(&u.name, (begin, end));
        self.users.iter().filter(own).for_each(|u| sum.add(&u.latency[op as usize]));
        sum
    }
    /// Bytes a second of what a tenant gets done.
    pub(super) fn done(&self, (begin, end): (&str, &str)) -> f64 {
        self.rate(self.of(begin, end, Op::Write).bytes)
    }
    /// Bytes a second of what db_bench gets done, where it runs, or of all.
    pub(super) fn operations(&self) -> f64 {
        if self.users.iter().any(|u| u.name.starts_with(DB_BENCH.0)) {
            self.done(DB_BENCH)
        } else {
            self.throughput()
        }
    }
}

/// How long the paper's fio runs, in nanoseconds (section 6, Fig 5).
const HOUR: u64 = 3_600_000_000_000;

/// Replays one workload on one drive. `stop` from outside ends it at once.
///
/// # Errors
/// If the drive or the workload cannot be had, or the drive stops.
pub fn run(
    workload: &'static str,
    config: &DeviceConfig,
    seed: u64,
    host: Host,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let ssd = Ssd::new(config, 0, seed).map_err(|e| Error::Input(e.to_string()))?;
    let hour = host.hour && workload.starts_with("fio");
    let target = Target {
        logical_bytes: ssd.layout().logical_bytes,
        page_bytes: config.geometry.page_bytes,
        sector_bytes: config.geometry.sector_bytes,
        seed,
        requests: hour.then_some(1 << 40),
    };
    let address = Address::straight(config, ssd.layout().logical_sectors);
    let mut phases = named(workload, &target)?.phases;
    let last = phases.len() - 1;
    phases[last].stop_after_ns = hour.then_some(HOUR);
    let calls = config.scheme.has(FLASHALLOC);
    for phase in &mut phases {
        phase.users =
            std::mem::take(&mut phase.users).into_iter().map(|user| host.told(user, calls)).collect();
    }
    let mut silent = |_: &Progress| {};
    let mut replayer = Replayer::new(ssd, Watch { stop, progress: &mut silent });
    if !replayer.run(phases.into_iter().map(|phase| (phase, address.clone())).collect())? {
        return Err(Error::Interrupted);
    }
    let (ssd, meter) = (replayer.ssd, replayer.meter);
    let written = intervals(&meter, u64::from(config.geometry.page_bytes), last);
    let mut programs = [0; Cause::COUNT];
    for (cause, types) in ssd.counters().programs.iter().enumerate() {
        programs[cause] = types.iter().sum();
    }
    let steady = meter.steadiness(&ssd).steady;
    let [reads, writes, ..] = meter.latency;
    Ok(Outcome {
        workload,
        policy: POLICIES.into_iter().find(|&known| config.scheme.has(known)).unwrap_or(BY_TIME),
        logical: ssd.layout().logical_bytes,
        flash: config.geometry.raw_bytes(),
        page_bytes: u64::from(config.geometry.page_bytes),
        ns: meter.ended_ns - meter.begun_ns,
        steady,
        written,
        users: meter.users,
        writes,
        reads,
        calls: meter.calls,
        waits: Waits::of(&ssd),
        moved: ssd.stats().gc_moved_pages,
        demoted: ssd.stats().dedicated_demoted,
        programs,
    })
}
