//! The time series: what happened in each interval of simulated time.
//!
//! Intervals start at a millisecond and double whenever there are too many, neighbours being added
//! together: a run of any length ends with at most [`MOST`] rows, without knowing its length
//! beforehand. Intervals in which nothing completes have no row.

use nandle_ssd::nand::{Cause, Time};
use nandle_ssd::{Op, Ssd};

use super::pages::{programs_for, reads_for};
use super::tally::Tally;

/// Kinds of requests that are told apart: read, write, trim, flush.
pub const KINDS: usize = 4;

/// Rows kept.
pub const MOST: usize = 256;
const FIRST_INTERVAL_NS: u64 = 1_000_000;
/// Significant digits of the latencies of an interval.
const DIGITS: u8 = 2;

/// One interval.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Which phase of the workload.
    pub phase: u32,
    /// Which interval, counted from time 0.
    index: u64,
    /// Requests completed, by kind.
    pub requests: [u64; KINDS],
    /// Their bytes.
    pub bytes: [u64; KINDS],
    /// Latencies in nanoseconds, to 1%, of reads and writes.
    pub latency: [Tally<u32, DIGITS>; 2],
    /// Sum of the latencies by kind, in nanoseconds.
    pub latency_sum_ns: [u64; KINDS],
    /// Longest latency by kind, in nanoseconds.
    pub latency_max_ns: [u64; KINDS],
    /// What the flash did.
    pub flash: Activity,
    /// Nanoseconds that the dies of each chip were busy, added up.
    pub chip_busy_ns: Vec<u64>,
    /// Bytes that each user read and wrote, if several share the drive; it ends with the last who did.
    pub user_bytes: Vec<[u64; 2]>,
    /// Blocks written at its end by who wrote them, where the host has several streams: see `Flash::blocks_of_groups`.
    pub group_blocks: Vec<u64>,
    /// Free blocks of the device at its end.
    pub free_blocks: u64,
    /// Free blocks of the plane that has fewest, at its end.
    pub free_blocks_min: u32,
}

/// What the flash did, in pages (or blocks, for erases).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Programs by cause.
    pub programs: [u64; Cause::COUNT],
    /// Reads by cause.
    pub reads: [u64; Cause::COUNT],
    /// Erases.
    pub erases: u64,
    /// Sectors of host data programmed for the host.
    pub host_sectors: u64,
    /// Nanoseconds in which host writes stood still for want of free blocks.
    pub foreground_ns: u64,
    /// Nanoseconds in which host writes waited for room in the buffer.
    pub buffer_wait_ns: u64,
    /// Look-ups that found their translation page in RAM.
    pub cache_hits: u64,
    /// And those that did not.
    pub cache_misses: u64,
}

impl Activity {
    /// Since the counters were reset.
    fn of(ssd: &Ssd) -> Self {
        let stats = ssd.stats_programmed();
        Self {
            programs: Cause::NAMED.map(|(_, cause)| programs_for(ssd, cause)),
            reads: Cause::NAMED.map(|(_, cause)| reads_for(ssd, cause)),
            erases: ssd.counters().erases,
            host_sectors: stats.host_sectors_programmed,
            foreground_ns: stats.foreground_ns,
            buffer_wait_ns: stats.buffer_wait_ns,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses,
        }
    }

    fn each(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        let pair = |a: &mut u64, b: u64| *a = f(*a, b);
        for cause in 0..Cause::COUNT {
            pair(&mut self.programs[cause], other.programs[cause]);
            pair(&mut self.reads[cause], other.reads[cause]);
        }
        pair(&mut self.erases, other.erases);
        pair(&mut self.host_sectors, other.host_sectors);
        pair(&mut self.foreground_ns, other.foreground_ns);
        pair(&mut self.buffer_wait_ns, other.buffer_wait_ns);
        pair(&mut self.cache_hits, other.cache_hits);
        pair(&mut self.cache_misses, other.cache_misses);
    }

    fn since(mut self, earlier: &Self) -> Self {
        self.each(earlier, u64::saturating_sub);
        self
    }
}

impl Row {
    /// Mean latency of `kind` in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self, kind: Op) -> Option<f64> {
        let n = self.requests[kind as usize];
        (n > 0).then(|| self.latency_sum_ns[kind as usize] as f64 / n as f64)
    }

    /// The latency that `share` of the reads or writes do not exceed, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, kind: Op, share: f64) -> Option<u64> {
        let tally = self.latency.get(kind as usize).filter(|tally| !tally.is_empty())?;
        Some(tally.value_at(share).min(self.latency_max_ns[kind as usize]))
    }

    fn user(&mut self, user: usize) -> &mut [u64; 2] {
        if user >= self.user_bytes.len() {
            self.user_bytes.resize(user + 1, [0; 2]);
        }
        &mut self.user_bytes[user]
    }

    /// The later of two neighbours joins the earlier.
    fn join(&mut self, later: Self) {
        for kind in 0..KINDS {
            self.requests[kind] += later.requests[kind];
            self.bytes[kind] += later.bytes[kind];
            self.latency_sum_ns[kind] += later.latency_sum_ns[kind];
            self.latency_max_ns[kind] = self.latency_max_ns[kind].max(later.latency_max_ns[kind]);
        }
        self.latency.iter_mut().zip(&later.latency).for_each(|(mine, theirs)| mine.add(theirs));
        self.flash.each(&later.flash, |a, b| a + b);
        self.chip_busy_ns.iter_mut().zip(later.chip_busy_ns).for_each(|(a, b)| *a += b);
        for (user, bytes) in later.user_bytes.into_iter().enumerate() {
            let mine = self.user(user);
            (mine[0], mine[1]) = (mine[0] + bytes[0], mine[1] + bytes[1]);
        }
        (self.free_blocks, self.free_blocks_min) = (later.free_blocks, later.free_blocks_min);
        self.group_blocks = later.group_blocks;
    }
}

/// Nanoseconds that the dies of each chip were busy since power-on, added up.
fn chip_busy(ssd: &Ssd) -> Vec<u64> {
    let geometry = &ssd.config().geometry;
    let mut chips = vec![0; geometry.chips() as usize];
    for (die, busy) in (0..).zip(ssd.flash().busy_ns().0) {
        chips[geometry.chip_of_die(die) as usize] += busy;
    }
    chips
}

/// The rows so far.
#[derive(Debug)]
pub struct Rows {
    done: Vec<Row>,
    current: Row,
    interval: u64,
    boundary: Time,
    last: Activity,
    /// Busy time of each chip at the end of the row before.
    last_busy: Vec<u64>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            done: Vec::new(),
            current: Row::default(),
            interval: FIRST_INTERVAL_NS,
            boundary: FIRST_INTERVAL_NS,
            last: Activity::default(),
            last_busy: Vec::new(),
        }
    }
}

impl Rows {
    /// When the present interval ends.
    #[inline]
    #[must_use]
    pub fn boundary(&self) -> Time {
        self.boundary
    }

    /// Length of an interval in nanoseconds.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.interval
    }

    /// Beginning of a row's interval.
    #[must_use]
    pub fn start_ns(&self, row: &Row) -> Time {
        row.index * self.interval
    }

    /// The rows, once [`Rows::finish`] was called.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.done
    }

    /// Counts one request in the present interval.
    #[inline]
    pub fn record(&mut self, kind: Op, bytes: u64, latency_ns: u64) {
        let row = &mut self.current;
        let kind = kind as usize;
        row.requests[kind] += 1;
        row.bytes[kind] += bytes;
        row.latency_sum_ns[kind] += latency_ns;
        row.latency_max_ns[kind] = row.latency_max_ns[kind].max(latency_ns);
        if let Some(tally) = row.latency.get_mut(kind) {
            tally.record(latency_ns);
        }
    }

    /// Counts bytes that a user read or wrote in the present interval: beside [`Rows::record`].
    #[inline]
    pub fn served(&mut self, user: usize, kind: Op, bytes: u64) {
        if let Some(sum) = self.current.user(user).get_mut(kind as usize) {
            *sum += bytes;
        }
    }

    /// Ends the present interval; the next one holds time `at`.
    #[cold]
    pub fn roll(&mut self, at: Time, ssd: &Ssd) {
        self.close(ssd);
        while self.done.len() >= MOST {
            self.halve();
        }
        self.open(at);
    }

    fn open(&mut self, at: Time) {
        self.current.index = at / self.interval;
        self.boundary = (self.current.index + 1).saturating_mul(self.interval);
    }

    fn close(&mut self, ssd: &Ssd) {
        let now = Activity::of(ssd);
        let phase = self.current.phase;
        let mut row = std::mem::replace(&mut self.current, Row { phase, ..Row::default() });
        row.flash = now.since(&self.last);
        self.last = now;
        let busy = chip_busy(ssd);
        row.chip_busy_ns = busy.clone();
        // A suspended operation gives back the time that it does not take yet.
        row.chip_busy_ns
            .iter_mut()
            .zip(&self.last_busy)
            .for_each(|(now, last)| *now = now.saturating_sub(*last));
        self.last_busy = busy;
        let blocks = ssd.flash().blocks();
        let free = (0..ssd.flash().geometry().planes()).map(|plane| blocks.free(plane));
        row.free_blocks = free.clone().map(u64::from).sum();
        row.free_blocks_min = free.min().unwrap_or(0);
        if ssd.flash().space().streams() > 1 {
            row.group_blocks = ssd.flash().blocks_of_groups();
        }
        let idle = row.requests == [0; KINDS] && row.flash == Activity::default();
        match self.done.last_mut() {
            _ if idle => {}
            Some(before) if before.index == row.index && before.phase == row.phase => before.join(row),
            _ => self.done.push(row),
        }
    }

    /// Doubles the interval.
    fn halve(&mut self) {
        self.interval *= 2;
        let mut joined: Vec<Row> = Vec::with_capacity(MOST);
        for mut row in self.done.drain(..) {
            row.index /= 2;
            match joined.last_mut() {
                Some(before) if before.index == row.index && before.phase == row.phase => before.join(row),
                _ => joined.push(row),
            }
        }
        self.done = joined;
    }

    /// A phase begins; the counters are about to be reset.
    pub fn begin_phase(&mut self, phase: u32, ssd: &Ssd) {
        self.close(ssd);
        self.last = Activity::default();
        self.current.phase = phase;
        self.open(ssd.now());
    }

    /// The run is over.
    pub fn finish(&mut self, ssd: &Ssd) {
        self.close(ssd);
    }
}
