//! One workload on one device, and what it adds up to.

use std::collections::HashSet;

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;
use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::across::{Across, AcrossStats};
use nandle_ssd::schemes::mrsm::{Mrsm, MrsmStats};
use nandle_ssd::{Command, Completion, Op, Ssd};
use nandle_trace::Request;

use super::super::traces;

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
    /// Share of the look-ups and of collection's updates that find no cached page of it.
    pub misses: f64,
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
    pub(super) fn writes_of(&self, cause: Cause) -> f64 {
        self.flash_writes[cause as usize] as f64
    }
    pub(super) fn reads_of(&self, cause: Cause) -> f64 {
        self.flash_reads[cause as usize] as f64
    }
}

pub(super) fn sum(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64
}

/// Replays a twin or a trace file at its times on a fresh device.
///
/// # Errors
/// If there is no such workload, or the device is stuck.
pub fn run(asked: &Asked, drive: &Drive) -> Result<Run, Error> {
    replayed(&[], &traces::requests(asked, drive)?, drive, asked.seed)
}

/// Replays `requests` after `before`, of which nothing is counted.
pub(super) fn replayed(
    before: &[Request],
    requests: &[Request],
    drive: &Drive,
    seed: u64,
) -> Result<Run, Error> {
    let mut ssd = Ssd::new(&drive.config, 0, seed).map_err(|e| Error::Input(e.to_string()))?;
    replay(&mut ssd, before)?;
    ssd.reset_counters();
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
    let (hits, misses) = (ssd.stats().cache_hits as f64, ssd.stats().cache_misses as f64);
    out.misses = misses / (hits + misses).max(1.0);
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
    let (mut out, spp, start) = (Run::default(), u64::from(page / sector), ssd.now());
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
        let arrival = start + r.time_ns;
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
