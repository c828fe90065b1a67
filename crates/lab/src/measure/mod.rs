//! What a run adds up to: latencies, time series, write amplification and its parts.
//!
//! Everything is counted where a request completes, in whole numbers; shares and means are made
//! when the run is over. The measured part is the workload's last phase; what prepares the device
//! before it is in the time series only.

mod charges;
mod io_log;
mod latency;
mod lifetime;
pub mod metrics;
mod pages;
mod rows;
mod steady;
mod summarise;
pub mod summary;
mod tally;

pub use charges::{Charged, Charges};
pub use io_log::{Io, IoLog};
pub use latency::Latency;
pub use rows::{KINDS, Row, Rows};
pub use steady::{AT_MOST, Settling, Steadiness, Steady, UNTIL_BAND, Until};
use steady::{BAND, Measure};
pub use summarise::{Context, per_stream, scheme_counters, summarise, waf_parts};
pub use summary::Summary;

use nandle_ssd::nand::Time;
use nandle_ssd::{Op, Ssd};
use pages::programs;

/// Where completions are counted.
#[derive(Debug)]
pub struct Meter {
    /// Latencies of the measured part, by kind.
    pub latency: [Latency; KINDS],
    /// The time series, preparation included.
    pub rows: Rows,
    /// Write amplification over host bytes, preparation included.
    pub steady: Steady,
    /// Requests refused in the measured part.
    pub refused: u64,
    /// When the measured part began.
    pub begun_ns: Time,
    /// When its last request completed.
    pub ended_ns: Time,
    /// Host bytes written in the measured part.
    pub written: u64,
    /// FlashAlloc's commands in the measured part.
    pub calls: Calls,
    /// Writes of the measured part by the host's stream (the class of their object).
    pub classes: Vec<Class>,
    /// What each user of the measured part was served, if several share the drive.
    pub users: Vec<Served>,
}

/// How long the host's writes waited, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// For free blocks.
    pub flash_ns: u64,
    /// For room in the write buffer.
    pub buffer_ns: u64,
}

impl Waits {
    /// Since the counters were reset.
    #[must_use]
    pub fn of(ssd: &Ssd) -> Self {
        Self { flash_ns: ssd.stats().foreground_ns, buffer_ns: ssd.stats().buffer_wait_ns }
    }
}

/// What the users of one name were served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Their name.
    pub name: String,
    /// Latencies by kind.
    pub latency: [Latency; KINDS],
    /// What the flash programmed for them.
    pub flash: Charged,
}

/// FlashAlloc's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// FlashAlloc calls carried out.
    pub honoured: u64,
    /// FlashAlloc calls refused: an overlap, too many ranges, no clean blocks.
    pub refused: u64,
    /// Their time from arrival to completion, in nanoseconds, added up: what waiting for clean blocks costs.
    pub ns: u64,
    /// FlashFree calls.
    pub freed: u64,
}

/// Writes of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Writes that completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their latencies in nanoseconds, added up.
    pub latency_ns: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            latency: std::array::from_fn(|_| Latency::default()),
            rows: Rows::default(),
            steady: Steady::default(),
            refused: 0,
            begun_ns: 0,
            ended_ns: 0,
            written: 0,
            calls: Calls::default(),
            classes: Vec::new(),
            users: Vec::new(),
        }
    }
}

impl Meter {
    /// A phase begins: the measured part counts from here if it is the last.
    pub fn begin_phase(&mut self, phase: u32, ssd: &mut Ssd) {
        self.rows.begin_phase(phase, ssd);
        self.steady.begin_phase(self.written, ssd);
        ssd.reset_counters();
        self.latency.iter_mut().for_each(|l| *l = Latency::default());
        (self.begun_ns, self.ended_ns, self.refused, self.written) = (ssd.now(), ssd.now(), 0, 0);
        self.calls = Calls::default();
        self.classes.clear();
        self.users.clear();
    }

    /// The phase has several users, counted under these names.
    pub fn begin_users(&mut self, names: Vec<String>) {
        let latency = || std::array::from_fn(|_| Latency::default());
        let served = |name| Served { name, latency: latency(), flash: Charged::default() };
        self.users = names.into_iter().map(served).collect();
    }

    /// A request of the users in row `row` has completed: beside [`Meter::completed`].
    #[inline]
    pub fn served(&mut self, row: usize, kind: Op, bytes: u64, latency_ns: u64) {
        self.users[row].latency[kind as usize].record(bytes, latency_ns);
        self.rows.served(row, kind, bytes);
    }

    /// A request of `kind` has completed at `at`, `latency_ns` after its arrival.
    #[inline]
    pub fn completed(&mut self, kind: Op, bytes: u64, latency_ns: u64, at: Time, ssd: &Ssd) {
        if at >= self.rows.boundary() {
            self.rows.roll(at, ssd);
        }
        self.ended_ns = at;
        self.latency[kind as usize].record(bytes, latency_ns);
        self.rows.record(kind, bytes, latency_ns);
        if kind == Op::Write {
            self.written += bytes;
            if self.steady.wants(self.written) {
                self.steady.sample(self.written, &self.latency, ssd);
            }
        }
    }

    /// A write of class `stream` has completed: beside [`Meter::completed`].
    #[inline]
    pub fn wrote(&mut self, stream: u16, bytes: u64, latency_ns: u64) {
        let slot = usize::from(stream);
        if slot >= self.classes.len() {
            self.classes.resize(slot + 1, Class::default());
        }
        let class = &mut self.classes[slot];
        class.requests += 1;
        class.bytes += bytes;
        class.latency_ns += latency_ns;
    }

    /// One of FlashAlloc's commands has completed.
    #[cold]
    pub fn called(&mut self, kind: Op, honoured: bool, latency_ns: u64, at: Time, ssd: &Ssd) {
        if at >= self.rows.boundary() {
            self.rows.roll(at, ssd);
        }
        self.ended_ns = at;
        if kind == Op::FlashFree {
            self.calls.freed += 1;
            return;
        }
        *(if honoured { &mut self.calls.honoured } else { &mut self.calls.refused }) += 1;
        self.calls.ns += latency_ns;
    }

    /// A request was refused.
    pub fn refused(&mut self, at: Time) {
        self.ended_ns = at;
        self.refused += 1;
    }

    /// The run is over.
    pub fn finish(&mut self, ssd: &Ssd) {
        self.rows.finish(ssd);
        self.steady.sample(self.written, &self.latency, ssd);
    }

    /// How steady the device was, after [`Meter::finish`].
    #[must_use]
    pub fn steadiness(&self, ssd: &Ssd) -> Steadiness {
        let logical_bytes = ssd.layout().logical_bytes;
        self.steady.verdict(&Measure {
            written: self.written,
            logical_bytes,
            drive_write: logical_bytes,
            page_bytes: ssd.config().geometry.page_bytes,
            pages: ssd.config().geometry.pages(),
            band: BAND,
            shortest: 0,
            repeats: None,
        })
    }

    /// Write amplification of the present phase so far, if the host has written.
    pub fn waf(&self, ssd: &Ssd) -> Option<f64> {
        let page = u64::from(ssd.config().geometry.page_bytes);
        (self.written > 0).then(|| (programs(ssd) * page) as f64 / self.written as f64)
    }
}
