//! What a served drive is doing, once a second.
//!
//! The driver hands over a `Snapshot`, a copy of its counters and of the latencies since the last
//! one: some microseconds of its time. Everything else, rates, history, texts, is made of it on the
//! [`Monitor`]'s thread; whoever shows it ([`crate::http`]) takes the finished [`View`].

mod blocks;
mod history;
mod metrics;
pub mod shadow;
pub(crate) mod snapshot;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nandle_lab::config::Drive;
use nandle_lab::measure::summary::Summary;
use serde_json::Value;

use crate::lock::lock;
use crate::timing::Timing;
use crate::{Device, Error, Punctuality, Report};
use shadow::Shadow;
use view::Book;

/// How often the drive is asked.
const EVERY: Duration = Duration::from_secs(1);
/// The map of blocks is made while somebody has asked for the view within this time.
const INTEREST: Duration = Duration::from_secs(5);
/// A summary serves whoever asks within this time.
const SUMMARY_LASTS: Duration = Duration::from_millis(500);

/// Finished texts.
#[derive(Debug, Default)]
pub struct View {
    /// For the page, `nandle stat` and `nandle top`: JSON.
    pub live: String,
    /// For Prometheus: its text format, version 0.0.4.
    pub metrics: String,
}

impl View {
    fn of(book: &Book, blocks: Option<Value>) -> Self {
        Self { live: format!("{}\n", book.live(blocks)), metrics: metrics::text(book) }
    }
}

struct Shared {
    device: Device,
    timing: Timing,
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
            timing,
            shadows,
            view: Mutex::default(),
            summary: Mutex::default(),
            began: Instant::now(),
            asked_ms: AtomicU64::new(0),
            closing: Mutex::new(false),
            wake: Condvar::new(),
        });
        // Until the driver runs there is nothing to see, but a page that says so.
        *lock(&shared.view) = Arc::new(View::of(&book, None));
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
        let Some(mut snapshot) = shared.device.snapshot(wanted) else { return };
        if let Some(window) = &mut snapshot.window {
            window.lateness = shared.device.lateness_window();
        }
        book.punctuality = Some(shared.device.punctuality());
        book.note(snapshot);
        let asked = Duration::from_millis(shared.asked_ms.load(Ordering::Relaxed));
        let wanted = shared.began.elapsed().saturating_sub(asked) < INTEREST;
        let blocks = if wanted { blocks::map(&shared.device, &book.unit_geometry()) } else { None };
        *lock(&shared.view) = Arc::new(View::of(book, blocks));
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
        let known = self.0.device.whose().is_timed().then(|| self.0.device.punctuality());
        add_punctuality(&mut value, self.0.timing, known.as_ref());
        value["shadows"] = self.0.shadows.iter().map(Shadow::json).collect();
        let text = Arc::new(format!("{value:#}\n"));
        *kept = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

fn add_punctuality(summary: &mut Value, timing: Timing, punctuality: Option<&Punctuality>) {
    let keys = punctuality.map_or_else(|| Punctuality::unknown(timing), Punctuality::json);
    if let (Value::Object(summary), Value::Object(keys)) = (summary, keys) {
        summary.extend(keys);
    }
}

/// The keys of a summary, those of how the host kept up (which is known in real time), and those of its shadows.
#[must_use]
pub fn with_shadows(summary: &Summary, report: &Report, shadows: &[Shadow]) -> Value {
    let mut value = serde_json::to_value(summary).unwrap_or_default();
    add_punctuality(&mut value, report.timing, report.punctuality.as_ref());
    if !shadows.is_empty() {
        value["shadows"] = shadows.iter().map(Shadow::json).collect();
    }
    value
}
