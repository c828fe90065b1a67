//! What a served drive is doing, once a second.
//!
//! The driver hands over a `Snapshot`, a copy of its counters and of the latencies since the last
//! one: some microseconds of its time. Everything else, rates, history, texts, is made of it on the
//! [`Monitor`]'s thread; whoever shows it ([`crate::http`]) takes the finished [`View`].

mod blocks;
mod history;
mod metrics;
pub mod shadow;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nandle_lab::config::Drive;
use nandle_lab::measure::summary::Summary;
use nandle_lab::measure::{KINDS, Meter};
use nandle_ssd::nand::{Counters, Time};
use nandle_ssd::{Op, Ssd, Stats};
use serde_json::Value;

use crate::driver::Timing;
use crate::gate::lock;
use crate::{Device, Error};
use shadow::Shadow;
use view::Book;

/// How often the drive is asked.
const EVERY: Duration = Duration::from_secs(1);
/// The map of blocks is made while somebody has asked for the view within this time.
const INTEREST: Duration = Duration::from_secs(5);
/// Significant digits of latencies: 1%.
const DIGITS: u8 = 2;
/// A summary serves whoever asks within this time.
const SUMMARY_LASTS: Duration = Duration::from_millis(500);

fn histogram() -> Histogram<u64> {
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

    #[inline]
    pub fn late(&mut self, ns: u64) {
        let _ = self.lateness.record(ns);
    }

    fn add(&mut self, other: &Self) {
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
    now_ns: Time,
    pub wall_ns: Time,
    /// None the first time.
    pub window: Option<Box<Window>>,
    requests: [u64; KINDS],
    bytes: [u64; KINDS],
    sum_ns: [u128; KINDS],
    max_ns: [u64; KINDS],
    refused: u64,
    written: u64,
    stats: Stats,
    counters: Counters,
    outstanding: u32,
    waiting: usize,
    free_blocks: u64,
    free_blocks_min: u32,
    bad_blocks: u64,
    instances: u32,
    read_only: bool,
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
            stats: ssd.stats().clone(),
            counters: ssd.counters().clone(),
            outstanding: ssd.outstanding(),
            waiting,
            free_blocks: free.clone().map(u64::from).sum(),
            free_blocks_min: free.min().unwrap_or(0),
            bad_blocks: geometry.blocks().saturating_sub(good),
            instances: ssd.flash().instances_live(),
            read_only: ssd.is_read_only(),
        }
    }
}

/// Finished texts.
#[derive(Debug, Default)]
pub struct View {
    /// For the page, `nandle stat` and `nandle top`: JSON.
    pub live: String,
    /// For Prometheus: its text format, version 0.0.4.
    pub metrics: String,
}

struct Shared {
    device: Device,
    shadows: Vec<Shadow>,
    view: Mutex<Arc<View>>,
    summary: Mutex<Option<(Instant, Arc<String>)>>,
    began: Instant,
    /// When the view was last asked for, in milliseconds since `began`.
    asked_ms: AtomicU64,
    closing: Mutex<bool>,
    wake: Condvar,
}

/// Watches a served drive, until dropped.
pub struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A handle for those who show what is seen.
#[derive(Clone)]
pub struct Watcher(Arc<Shared>);

impl Monitor {
    /// Begins to watch.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(
        drive: &Drive,
        device: Device,
        shadows: Vec<Shadow>,
        timing: Timing,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut book = Book::new(drive, timing, seed, shadows.clone());
        let shared = Arc::new(Shared {
            device,
            shadows,
            view: Mutex::default(),
            summary: Mutex::default(),
            began: Instant::now(),
            asked_ms: AtomicU64::new(0),
            closing: Mutex::new(false),
            wake: Condvar::new(),
        });
        // Until the driver runs there is nothing to see, but a page that says so.
        *lock(&shared.view) = Arc::new(book.view(None));
        let run = {
            let shared = shared.clone();
            move || watch(&shared, &mut book)
        };
        let thread = std::thread::Builder::new().name("monitor".into()).spawn(run);
        let thread = thread.map_err(|e| Error::io("a thread for the monitor", e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A handle for those who show what is seen.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher(self.shared.clone())
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        *lock(&self.shared.closing) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Shared, book: &mut Book) {
    let mut next = Instant::now();
    loop {
        let wanted = || !*lock(&shared.closing);
        let Some(snapshot) = shared.device.snapshot(wanted) else { return };
        book.note(snapshot);
        let asked = Duration::from_millis(shared.asked_ms.load(Ordering::Relaxed));
        let wanted = shared.began.elapsed().saturating_sub(asked) < INTEREST;
        let blocks = if wanted { blocks::map(&shared.device, book.geometry()) } else { None };
        *lock(&shared.view) = Arc::new(book.view(blocks));
        // A machine that was asleep has no seconds to make up for.
        next = (next + EVERY).max(Instant::now());
        let mut closing = lock(&shared.closing);
        while !*closing && let Some(left) = next.checked_duration_since(Instant::now()) {
            closing = shared.wake.wait_timeout(closing, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if *closing {
            return;
        }
    }
}

impl Watcher {
    /// What was seen last.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        let now = self.0.began.elapsed().as_millis();
        self.0.asked_ms.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
        lock(&self.0.view).clone()
    }

    /// `summary.json` as it would be now, with `shadows`, a list of the same of each shadow. None if the
    /// drive is gone.
    #[must_use]
    pub fn summary(&self) -> Option<Arc<String>> {
        // One at a time: whoever waits here finds the summary that was made meanwhile.
        let mut kept = lock(&self.0.summary);
        if let Some((made, text)) = &*kept
            && made.elapsed() < SUMMARY_LASTS
        {
            return Some(text.clone());
        }
        let mut value = serde_json::to_value(self.0.device.summary()?).ok()?;
        value["shadows"] = self.0.shadows.iter().map(Shadow::json).collect();
        let text = Arc::new(format!("{value:#}\n"));
        *kept = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

/// The keys of a summary, and those of its shadows.
#[must_use]
pub fn with_shadows(summary: &Summary, shadows: &[Shadow]) -> Value {
    let mut value = serde_json::to_value(summary).unwrap_or_default();
    if !shadows.is_empty() {
        value["shadows"] = shadows.iter().map(Shadow::json).collect();
    }
    value
}
