//! What the driver hands over of what it has counted.

use hdrhistogram::Histogram;
use nandle_lab::measure::{KINDS, Meter};
use nandle_ssd::nand::{Counters, Time};
use nandle_ssd::{Op, Ssd, Stats};

use crate::report::Health;

/// Significant digits of latencies: 1%.
const DIGITS: u8 = 2;

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("2 digits are allowed")
}

/// Latencies, and how late answers were, since the last snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// By kind, in nanoseconds of the model.
    pub latency: [Histogram<u64>; KINDS],
    /// After the modelled time, in nanoseconds.
    pub lateness: Histogram<u64>,
}

impl Default for Window {
    fn default() -> Self {
        Self { latency: std::array::from_fn(|_| histogram()), lateness: histogram() }
    }
}

impl Window {
    #[inline]
    pub fn took(&mut self, op: Op, ns: u64) {
        let _ = self.latency[op as usize].record(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.add(theirs).expect("both resize themselves");
        }
        self.lateness.add(&other.lateness).expect("both resize themselves");
    }
}

/// What the driver hands over: counters since the start of the server, latencies since the last one.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The drive's time, and the wall clock's.
    pub(super) now_ns: Time,
    pub wall_ns: Time,
    /// None the first time.
    pub window: Option<Box<Window>>,
    pub(super) requests: [u64; KINDS],
    pub(super) bytes: [u64; KINDS],
    pub(super) sum_ns: [u128; KINDS],
    pub(super) max_ns: [u64; KINDS],
    pub(super) refused: u64,
    pub(super) written: u64,
    pub(super) stats: Stats,
    pub(super) counters: Counters,
    pub(super) outstanding: u32,
    pub(super) waiting: usize,
    pub(super) free_blocks: u64,
    pub(super) free_blocks_min: u32,
    pub(super) bad_blocks: u64,
    pub(super) instances: u32,
    pub(super) read_only: bool,
    /// Of a drive that is served from an image.
    pub image: Option<Health>,
    /// What the schemes count, by key.
    pub(super) schemes: Vec<(&'static str, u64)>,
}

impl Snapshot {
    pub fn of(ssd: &Ssd, meter: &Meter, waiting: usize) -> Self {
        let (blocks, geometry) = (ssd.flash().blocks(), ssd.flash().geometry());
        let free = (0..geometry.planes()).map(|plane| blocks.free(plane));
        let good: u64 = (0..geometry.planes()).map(|plane| u64::from(blocks.good(plane))).sum();
        Self {
            now_ns: ssd.now(),
            wall_ns: 0,
            window: None,
            requests: std::array::from_fn(|kind| meter.latency[kind].requests),
            bytes: std::array::from_fn(|kind| meter.latency[kind].bytes),
            sum_ns: std::array::from_fn(|kind| meter.latency[kind].sum_ns),
            max_ns: std::array::from_fn(|kind| meter.latency[kind].max_ns),
            refused: meter.refused,
            written: meter.written,
            stats: ssd.stats_programmed(),
            counters: ssd.counters().clone(),
            outstanding: ssd.outstanding(),
            waiting,
            free_blocks: free.clone().map(u64::from).sum(),
            free_blocks_min: free.min().unwrap_or(0),
            bad_blocks: geometry.blocks().saturating_sub(good),
            instances: ssd.objects_live(),
            read_only: ssd.is_read_only(),
            image: None,
            schemes: ssd.scheme_counters(),
        }
    }
}
