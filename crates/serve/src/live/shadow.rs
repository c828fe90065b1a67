//! Other schemes under the same requests, in simulation beside the drive that is served.
//!
//! Each shadow is a drive of the same configuration with another scheme, on a thread of its own. It
//! gets every command that the served drive gets, at the time at which it arrived, through a bounded
//! queue; its own time is virtual. So it is an open replay of what is going on: hosts that wait for
//! answers wait for those of the served drive, and where a shadow is slower than that, its requests
//! queue up. If the computing itself falls behind and the queue is full, commands are missed: they are
//! counted and told, and the drive that is served never waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nandle_io::{Command, Completion, Op, Status};
use nandle_lab::config::{Drive, SchemeNames};
use nandle_lab::measure::summary::{Summary, Trace};
use nandle_lab::measure::{Context, Meter, summarise};
use nandle_ssd::Ssd;
use nandle_ssd::nand::Time;
use serde_json::{Value, json};

use crate::Error;
use crate::lock::lock;

/// Commands on their way to a shadow.
const QUEUE: usize = 1 << 18;
/// How often a shadow without work looks for some. It is never woken, which would cost the drive that
/// is served a system call for each command.
const NAP: Duration = Duration::from_millis(4);
/// How often it says how far it is.
const EVERY: Duration = Duration::from_millis(500);
/// Commands between two looks at the clock.
const STRIDE: u64 = 4096;

/// Since when a command's latency counts, and its bytes; none of a command that is a part of the next.
pub(crate) type Counts = Option<(Time, u64)>;

/// What the served drive was asked.
enum Order {
    Command {
        arrival: Time,
        op: Op,
        lsn: u64,
        sectors: u64,
        fua: bool,
        stream: u16,
        ranges: Box<[u8]>,
        counts: Counts,
    },
    NextUnit(u16),
}

/// What is known of a shadow from outside.
#[derive(Default)]
struct Queue {
    sent: AtomicU64,
    missed: AtomicU64,
    done: AtomicU64,
    /// The arrival of the last command that was sent, and of the last that was carried out.
    sent_ns: AtomicU64,
    done_ns: AtomicU64,
    /// Its thread ended before its time.
    failed: AtomicBool,
}

/// The end of the queue that the driver has.
pub(crate) struct Feed {
    sender: SyncSender<Order>,
    counts: Arc<Queue>,
}

impl Feed {
    /// Hands a command over, which arrived at `arrival`. Never waits.
    pub fn command(&self, arrival: Time, command: &Command<'_>, counts: Counts) {
        let &Command { op, lsn, sectors, fua, stream, .. } = command;
        let ranges = if op == Op::FlashAlloc { command.data.into() } else { Box::default() };
        self.counts.sent_ns.store(arrival, Ordering::Relaxed);
        self.send(Order::Command { arrival, op, lsn, sectors, fua, stream, ranges, counts });
    }

    /// FDP: a handle goes on to its next reclaim unit.
    pub fn next_unit(&self, handle: u16) {
        self.send(Order::NextUnit(handle));
    }

    fn send(&self, order: Order) {
        let sent = self.sender.try_send(order).is_ok();
        let count = if sent { &self.counts.sent } else { &self.counts.missed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A shadow, seen from outside. A clone is another view of the same one.
#[derive(Clone)]
pub struct Shadow {
    scheme: String,
    counts: Arc<Queue>,
    latest: Arc<Mutex<Arc<Summary>>>,
}

impl Shadow {
    /// Its scheme, as whoever asked for it calls it.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What it has done so far.
    #[must_use]
    pub fn summary(&self) -> Arc<Summary> {
        lock(&self.latest).clone()
    }

    /// Commands that it never got because its queue was full, or because it had failed.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.counts.missed.load(Ordering::Relaxed)
    }

    /// Commands that wait for it.
    #[must_use]
    pub fn queued(&self) -> u64 {
        let done = self.counts.done.load(Ordering::Relaxed);
        self.counts.sent.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// How far its computing is behind the drive that is served, in nanoseconds of arrivals.
    #[must_use]
    pub fn behind_ns(&self) -> u64 {
        if self.queued() == 0 {
            return 0;
        }
        let done = self.counts.done_ns.load(Ordering::Relaxed);
        self.counts.sent_ns.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// It ended before its time: its figures stand still.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.counts.failed.load(Ordering::Relaxed)
    }

    /// What is to be said of it beside its summary; none if all is well.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        if self.has_failed() {
            return Some("it failed and stands still: its figures do not compare".into());
        }
        let missed = self.missed();
        (missed > 0).then(|| {
            let missed = nandle_lab::units::count(missed);
            format!("it fell behind and missed {missed} commands: its figures do not compare")
        })
    }

    /// Its state, for `/summary.json` and the page: the summary's keys and those of the queue.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = serde_json::to_value(&*self.summary()).unwrap_or_default();
        value["scheme"] = json!(self.scheme);
        value["shadow"] = json!({
            "missed": self.missed(),
            "queued": self.queued(),
            "behind_ns": self.behind_ns(),
            "failed": self.has_failed(),
        });
        value
    }
}

/// A shadow's thread.
pub(crate) struct Running {
    pub shadow: Shadow,
    thread: JoinHandle<()>,
}

impl Running {
    /// Waits until it has done what was sent; its feed must be gone.
    pub fn finish(self) -> Shadow {
        let _ = self.thread.join();
        self.shadow
    }
}

/// Sets the mark when the thread ends by a panic or an error.
struct Watchdog {
    counts: Arc<Queue>,
    armed: bool,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.counts.failed.fetch_or(self.armed, Ordering::Relaxed);
    }
}

/// Starts a shadow called `name` of a drive that has `logical_bytes`.
pub(crate) fn start(
    name: &str,
    drive: &Drive,
    seed: u64,
    logical_bytes: u64,
) -> Result<(Feed, Running), Error> {
    let scheme = name.to_owned();
    if drive.layout.logical_bytes != logical_bytes {
        return Err(Error::input(format!(
            "--shadow {scheme}: {} bytes of logical size; expected those of the served drive, {logical_bytes}",
            drive.layout.logical_bytes
        )));
    }
    let stands = |e: nandle_ssd::ConfigError| Error::input(format!("--shadow {scheme}: {e}"));
    let mut ssd = Ssd::new(&drive.config, 0, seed).map_err(stands)?;
    drive.complete(&mut ssd);
    let mut meter = Meter::default();
    meter.begin_phase(1, &mut ssd);
    let (sender, receiver) = sync_channel(QUEUE);
    let counts = Arc::new(Queue::default());
    let mut worker = Worker {
        objects: ssd.knows_objects(),
        scheme: drive.names(),
        seed,
        ssd,
        meter,
        receiver,
        counts: counts.clone(),
        latest: Arc::default(),
        under_way: HashMap::new(),
        done: Vec::new(),
        trace: Trace::default(),
        cpu: nandle_lab::resources::thread_cpu(),
    };
    worker.publish(false);
    let shadow = Shadow { scheme, counts: counts.clone(), latest: worker.latest.clone() };
    let run = move || {
        worker.cpu = nandle_lab::resources::thread_cpu();
        let mut watchdog = Watchdog { counts, armed: true };
        watchdog.armed = worker.run().is_err();
    };
    let thread = std::thread::Builder::new()
        .name("shadow".into())
        .spawn(run)
        .map_err(|e| Error::io("a thread for a shadow", e))?;
    Ok((Feed { sender, counts: shadow.counts.clone() }, Running { shadow, thread }))
}

struct Worker {
    scheme: SchemeNames,
    seed: u64,
    ssd: Ssd,
    meter: Meter,
    receiver: Receiver<Order>,
    counts: Arc<Queue>,
    latest: Arc<Mutex<Arc<Summary>>>,
    /// Commands under way.
    under_way: HashMap<u64, (Op, Counts)>,
    done: Vec<Completion>,
    trace: Trace,
    /// The drive knows FlashAlloc.
    objects: bool,
    /// CPU time of the thread when it began.
    cpu: Duration,
}

impl Worker {
    /// Until nobody can send any more and everything is done.
    ///
    /// # Errors
    /// If the drive makes no progress.
    fn run(&mut self) -> Result<(), Error> {
        let mut due = Instant::now() + EVERY;
        let (mut orders, mut news) = (0_u64, false);
        loop {
            match self.receiver.try_recv() {
                Ok(order) => {
                    self.carry_out(order)?;
                    self.counts.done.fetch_add(1, Ordering::Relaxed);
                    orders += 1;
                    news = true;
                    if !orders.is_multiple_of(STRIDE) {
                        continue;
                    }
                }
                Err(TryRecvError::Empty) => std::thread::sleep(NAP),
                Err(TryRecvError::Disconnected) => break,
            }
            if news && Instant::now() >= due {
                self.publish(false);
                (due, news) = (Instant::now() + EVERY, false);
            }
        }
        while self.ssd.outstanding() > 0 {
            self.step()?;
        }
        self.meter.finish(&self.ssd);
        self.publish(true);
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> Result<(), Error> {
        let (arrival, op, lsn, sectors, fua, stream, ranges, counts) = match order {
            Order::NextUnit(handle) => {
                self.ssd.next_unit(handle);
                return Ok(());
            }
            Order::Command { arrival, op, lsn, sectors, fua, stream, ranges, counts } => {
                (arrival, op, lsn, sectors, fua, stream, ranges, counts)
            }
        };
        self.counts.done_ns.store(arrival, Ordering::Relaxed);
        self.trace.submitted += 1;
        if op == Op::FlashAlloc && !self.objects {
            self.trace.hints_ignored += 1;
            self.trace.completed += 1;
            return Ok(());
        }
        if arrival > self.ssd.now() {
            self.ssd.advance(arrival, &mut self.done);
            self.note_completions();
        }
        while !self.ssd.accepts() {
            self.step()?;
        }
        let id = self.trace.submitted;
        self.under_way.insert(id, (op, counts));
        let at = arrival.max(self.ssd.now());
        self.ssd.submit(at, &Command { id, op, lsn, sectors, fua, stream, data: &ranges });
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        let Some(next) = self.ssd.next_event() else {
            return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
        };
        self.ssd.advance(next, &mut self.done);
        self.note_completions();
        Ok(())
    }

    fn note_completions(&mut self) {
        for completion in self.done.drain(..) {
            let Some((op, counts)) = self.under_way.remove(&completion.id) else { continue };
            self.trace.completed += 1;
            let Some((since, bytes)) = counts else { continue };
            let at = completion.at;
            let ns = self.ssd.took(since, at);
            let good = completion.status == Status::Ok;
            match op {
                Op::FlashAlloc | Op::FlashFree => self.meter.called(op, good, ns, at, &self.ssd),
                _ if good => self.meter.completed(op, bytes, ns, at, &self.ssd),
                _ => self.meter.refused(at),
            }
        }
    }

    fn publish(&mut self, complete: bool) {
        let mut notes = Vec::new();
        let missed = self.counts.missed.load(Ordering::Relaxed);
        if missed > 0 {
            notes.push(format!("{missed} commands were missed: the figures do not compare"));
        }
        let context = Context {
            workload: "served".into(),
            scheme: self.scheme.clone(),
            seed: self.seed,
            complete: complete && missed == 0,
            notes,
            cpu_s: nandle_lab::resources::thread_cpu().saturating_sub(self.cpu).as_secs_f64(),
            trace: self.trace.clone(),
            ..Context::default()
        };
        *lock(&self.latest) = Arc::new(summarise(&self.ssd, &self.meter, context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_that_falls_behind_misses_commands_and_says_so() {
        let (sender, receiver) = sync_channel(2);
        let counts = Arc::new(Queue::default());
        let feed = Feed { sender, counts: counts.clone() };
        let shadow = Shadow { scheme: "page".into(), counts, latest: Arc::default() };
        assert_eq!((shadow.complaint(), shadow.behind_ns()), (None, 0));
        let command = Command { id: 0, op: Op::Read, lsn: 0, sectors: 1, fua: false, stream: 0, data: &[] };
        (0..5).for_each(|n| feed.command(n * 100, &command, None));
        assert_eq!((shadow.queued(), shadow.missed(), shadow.behind_ns()), (2, 3, 400));
        assert!(shadow.complaint().is_some_and(|c| c.contains("missed 3 commands")));
        assert_eq!(shadow.json()["shadow"]["missed"], 3);
        // Its thread is gone: nothing is lost in silence.
        drop(receiver);
        feed.command(500, &command, None);
        assert_eq!(shadow.missed(), 4);
    }

    #[test]
    fn a_thread_that_ends_before_its_time_is_noticed() {
        let counts = Arc::new(Queue::default());
        let shadow = Shadow { scheme: "page".into(), counts: counts.clone(), latest: Arc::default() };
        let thread = std::thread::spawn(move || {
            let _watchdog = Watchdog { counts, armed: true };
            std::panic::resume_unwind(Box::new("as a bug would"));
        });
        assert!(thread.join().is_err());
        assert!(shadow.has_failed() && shadow.complaint().is_some_and(|c| c.contains("failed")));
    }
}
