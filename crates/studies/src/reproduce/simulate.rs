//! One run through the ordinary replayer, with what the summary does not say: how busy the parts were.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use nandle_lab::Error;
use nandle_lab::address::Address;
use nandle_lab::config::Drive;
use nandle_lab::measure::metrics::steady;
use nandle_lab::measure::summary::Integrity;
use nandle_lab::measure::{Context, Rows, Summary, summarise};
use nandle_lab::oracle::{Oracle, UNIT};
use nandle_lab::replay::{Replayer, Watch};
use nandle_lab::workload::{Asked, Prepared};
use nandle_ssd::nand::Time;
use nandle_ssd::{Op, Ssd};
use nandle_trace::synthetic::{Phase, Replay};
use nandle_trace::{Request, Source};

use super::traces::requests;

/// A run of the measured phase.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub summary: Summary,
    /// Share of the time in which a die, and a channel, was taken: mean over them.
    pub dies_busy: f64,
    pub channels_busy: f64,
    /// The measured phase as it went.
    pub course: Vec<Instant>,
}

/// What the measured phase had come to at some instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    /// Nanoseconds since it began.
    pub at_ns: u64,
    /// Bytes that the host had written, and the flash.
    pub written: u64,
    pub programmed: u64,
}

impl Measured {
    /// Host bytes moved a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.summary.host.all.bw_bytes
    }
    /// Whether its WAF is that of a drive at rest.
    pub fn steady(&self) -> &'static str {
        steady(&self.summary)
    }
    pub fn iops(&self) -> f64 {
        self.summary.host.all.iops
    }
    pub fn read_ns(&self) -> f64 {
        self.summary.host.read.lat_ns.mean
    }
    pub fn write_ns(&self) -> f64 {
        self.summary.host.write.lat_ns.mean
    }
    pub fn all_ns(&self) -> f64 {
        self.summary.host.all.lat_ns.mean
    }
    pub fn write_percentile(&self, percentile: &str) -> f64 {
        self.summary.host.write.lat_ns.percentile.get(percentile).map_or(f64::NAN, |&ns| ns as f64)
    }
    pub fn read_percentile(&self, percentile: &str) -> f64 {
        self.summary.host.read.lat_ns.percentile.get(percentile).map_or(f64::NAN, |&ns| ns as f64)
    }
}

/// What there is when the measured phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// What the phases before left.
    AsLeft,
    /// The same, with an empty write buffer.
    Flushed,
    /// A workload of one phase finds what it reads written (SSDSim's `pre_process_page`); the write buffer is empty.
    ReadsMapped,
}

/// [`simulate_from`] what the phases before left.
pub(super) fn simulate(
    drive: &Drive,
    asked: &Asked,
    verify: bool,
    stop: &AtomicBool,
) -> Result<Measured, Error> {
    simulate_from(Start::AsLeft, drive, asked, verify, stop)
}

/// Prepares the device with all phases but the last, and measures that. `verify` judges every
/// completion; `stop` from outside ends it at once.
pub(super) fn simulate_from(
    start: Start,
    drive: &Drive,
    asked: &Asked,
    verify: bool,
    stop: &AtomicBool,
) -> Result<Measured, Error> {
    simulate_prepared(start, drive, asked, asked.prepare(drive)?, verify, stop)
}

/// The same with phases that were made before.
pub(super) fn simulate_prepared(
    start: Start,
    drive: &Drive,
    asked: &Asked,
    mut prepared: Prepared,
    verify: bool,
    stop: &AtomicBool,
) -> Result<Measured, Error> {
    let last = prepared.phases.pop();
    let mut first = Vec::new();
    if start == Start::ReadsMapped && prepared.phases.is_empty() {
        first = pages_read(&requests(asked, drive)?, u64::from(drive.config.geometry.page_bytes));
    }
    if start != Start::AsLeft {
        first.push(Request { op: Op::Flush, ..WRITE });
    }
    let ssd = Ssd::new(&drive.config, if verify { UNIT } else { 0 }, asked.seed)
        .map_err(|e| Error::Input(e.to_string()))?;
    if !first.is_empty() {
        prepared.phases.push(listed(Replay::Closed { iodepth: 32 }, first, drive));
    }
    let mut silent = |_: &nandle_lab::replay::Progress| {};
    let mut replayer = Replayer::new(ssd, Watch { stop, progress: &mut silent });
    if verify {
        replayer.verify();
    }
    if let Some(until) = asked.until {
        replayer.settle(until, Box::new(|| asked.again(drive, None)));
    }
    if !prepared.phases.is_empty() {
        go_on(replayer.run(prepared.phases)?)?;
    }
    let (dies, channels) = replayer.ssd.flash().busy_ns();
    let before = (sum(&dies), sum(&channels));
    let started = replayer.ssd.now();
    go_on(replayer.run(last.into_iter().collect())?)?;
    let elapsed = (replayer.ssd.now() - started).max(1) as f64;
    let (dies, channels) = replayer.ssd.flash().busy_ns();
    let busy = |now: &[u64], before: u64| (sum(now) - before) as f64 / now.len().max(1) as f64 / elapsed;
    let (dies_busy, channels_busy) = (busy(&dies, before.0), busy(&channels, before.1));
    let context = Context {
        workload: prepared.name,
        scheme: drive.names(),
        seed: asked.seed,
        complete: true,
        notes: prepared.notes,
        trace: replayer.trace.clone(),
        steady: replayer.steadiness(),
        ..Context::default()
    };
    let mut summary = summarise(&replayer.ssd, &replayer.meter, context);
    replayer.read_back()?;
    summary.integrity = replayer.oracle.as_ref().map_or_else(Integrity::default, Oracle::integrity);
    if let Some(failure) = summary.integrity.failure() {
        return Err(Error::Wrong(failure));
    }
    let page_bytes = u64::from(drive.config.geometry.page_bytes);
    let course = course(&replayer.meter.rows, started, page_bytes);
    Ok(Measured { summary, dies_busy, channels_busy, course })
}

/// A write of nothing in particular.
const WRITE: Request =
    Request { time_ns: 0, offset: 0, bytes: 0, object: 0, stream: 0, op: Op::Write, fua: false };

/// A phase of these requests, whose addresses are the drive's.
pub(super) fn listed(replay: Replay, requests: Vec<Request>, drive: &Drive) -> (Phase, Address) {
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    (Phase::new(replay, Listed(requests.into_iter())), address)
}

/// Writes of the pages that are read, in the order of their first reads.
pub(super) fn pages_read(requests: &[Request], page_bytes: u64) -> Vec<Request> {
    let reads = requests.iter().filter(|r| r.op == Op::Read && r.bytes > 0);
    let pages = reads.flat_map(|r| r.offset / page_bytes..=(r.offset + r.bytes - 1) / page_bytes);
    let mut seen = HashSet::new();
    let new = pages.filter(|&page| seen.insert(page));
    new.map(|page| Request { offset: page * page_bytes, bytes: page_bytes, ..WRITE }).collect()
}

/// Requests of a list.
struct Listed(std::vec::IntoIter<Request>);

impl Source for Listed {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        out.extend(self.0.by_ref().take(max));
        Ok(())
    }
}

/// The rows of the phase that began at `started`, added up.
fn course(rows: &Rows, started: Time, page_bytes: u64) -> Vec<Instant> {
    let of_phase = rows.rows().iter().filter(|row| rows.start_ns(row) + rows.interval_ns() > started);
    let sums = of_phase.scan((0, 0), |(written, programmed), row| {
        *written += row.bytes[Op::Write as usize];
        *programmed += row.flash.programs.iter().sum::<u64>() * page_bytes;
        let at_ns = (rows.start_ns(row) + rows.interval_ns()).saturating_sub(started);
        Some(Instant { at_ns, written: *written, programmed: *programmed })
    });
    sums.collect()
}

/// An interrupted run is none.
fn go_on(complete: bool) -> Result<(), Error> {
    if complete { Ok(()) } else { Err(Error::Interrupted) }
}

fn sum(values: &[u64]) -> u64 {
    values.iter().sum()
}
