//! One workload on one device, twice: under load, and one request at a time.

use nandle_lab::Error;
use nandle_ssd::nand::Cause;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};
use nandle_trace::Request;

use super::pages::sectors;
use super::plan::{Plan, invalid};

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
