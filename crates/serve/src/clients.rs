//! Whom the drive serves, and what became of each one's requests in time.
//!
//! A request arrives when its first byte can have been there, is due as much later as the model took, and is over
//! when the last byte of its answer has left. What the machine adds is the lateness: waiting in the socket, for a
//! thread and for the drive's thread before, and the way of the answer behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hdrhistogram::Histogram;
use nandle_lab::measure::{Charged, Charges, KINDS, Latency, Served};
use nandle_ssd::nand::{Array, Change, Time};
use nandle_ssd::{Op, Ssd};
use serde_json::{Value, json};

use crate::Clock;
use crate::lock::lock;
use crate::overload::{Judge, Overload};

/// Significant digits of the histograms: 1%.
const DIGITS: u8 = 2;
/// Clients that are gone and still have rows of their own; of more, the oldest share one.
const MOST_GONE: usize = 32;

/// When a request came and its answer should leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// When its first byte can have been there, at the earliest.
    pub arrived: Time,
    /// As much later as the model took.
    pub at: Time,
    /// What it reads or writes.
    pub bytes: u64,
}

impl Due {
    /// Of a request that is over when both are.
    pub fn and(self, other: Self) -> Self {
        Self {
            arrived: self.arrived.min(other.arrived),
            at: self.at.max(other.at),
            bytes: self.bytes + other.bytes,
        }
    }
}

/// When the first byte of a request came, as far as that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// It was not there before.
    pub earliest: Time,
    /// It was there by then.
    pub by: Time,
}

/// Times of requests, in nanoseconds of the drive's time.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { histogram: Histogram::new(DIGITS).expect("2 digits are allowed"), sum: 0, max: 0 }
    }
}

impl Times {
    fn record(&mut self, ns: u64) {
        let _ = self.histogram.record(ns);
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both resize themselves");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.sum as f64 / self.histogram.len() as f64 }
    }

    /// What `share` (0 to 1) of them did not exceed, to 1%; 0 of none.
    #[must_use]
    pub fn percentile_ns(&self, share: f64) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(share).min(self.max) }
    }

    /// The longest; 0 of none.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    fn json(&self) -> Value {
        json!({
            "mean": self.mean_ns(),
            "p50": self.percentile_ns(0.5),
            "p99": self.percentile_ns(0.99),
            "max": self.max,
        })
    }
}

/// What became of requests in time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that arrived and were answered.
    pub answers: u64,
    /// What they read and wrote.
    pub bytes: u64,
    /// Of these answers, those that left late because their client did not take them.
    pub withheld: u64,
    first_arrival: Time,
    last_arrival: Time,
    last_departure: Time,
    /// From arrival to what the model says.
    pub modelled: Times,
    /// From arrival to departure.
    pub achieved: Times,
    /// What the second is more than the first.
    pub lateness: Times,
}

impl Tally {
    fn record(&mut self, due: &Due, left: Time, withheld: bool) {
        if self.answers == 0 {
            self.first_arrival = due.arrived;
        }
        self.answers += 1;
        self.bytes += due.bytes;
        self.withheld += u64::from(withheld);
        self.first_arrival = self.first_arrival.min(due.arrived);
        self.last_arrival = self.last_arrival.max(due.arrived);
        self.last_departure = self.last_departure.max(left);
        self.modelled.record(due.at.saturating_sub(due.arrived));
        self.achieved.record(left.saturating_sub(due.arrived));
        self.lateness.record(left.saturating_sub(due.at));
    }

    fn add(&mut self, other: &Self) {
        if other.answers == 0 {
            return;
        }
        let none = self.answers == 0;
        self.first_arrival =
            if none { other.first_arrival } else { self.first_arrival.min(other.first_arrival) };
        self.last_arrival = self.last_arrival.max(other.last_arrival);
        self.last_departure = self.last_departure.max(other.last_departure);
        self.answers += other.answers;
        self.bytes += other.bytes;
        self.withheld += other.withheld;
        self.modelled.add(&other.modelled);
        self.achieved.add(&other.achieved);
        self.lateness.add(&other.lateness);
    }

    /// Requests that arrived in a second, from the first to the last; none if all arrived at once.
    #[must_use]
    pub fn asked_iops(&self) -> Option<f64> {
        let ns = self.last_arrival - self.first_arrival;
        (ns > 0).then(|| rate(self.answers.saturating_sub(1) as f64, ns))
    }

    /// Requests that were answered in a second, from the first arrival to the last departure.
    #[must_use]
    pub fn achieved_iops(&self) -> f64 {
        rate(self.answers as f64, self.last_departure - self.first_arrival)
    }

    /// What as many requests under way would get in a second if each took as long as modelled (Little's law).
    #[must_use]
    pub fn modelled_iops(&self) -> f64 {
        let modelled = self.modelled.mean_ns();
        if modelled == 0.0 { 0.0 } else { self.achieved_iops() * self.achieved.mean_ns() / modelled }
    }

    /// The keys `asked`, `modelled`, `achieved` and `lateness_ns`.
    pub(crate) fn json(&self) -> Value {
        let bandwidth = rate(self.bytes as f64, self.last_departure - self.first_arrival);
        json!({
            "asked": { "requests": self.answers, "bytes": self.bytes, "iops": self.asked_iops() },
            "modelled": { "iops": self.modelled_iops(), "lat_ns": self.modelled.json() },
            "achieved": {
                "requests": self.answers,
                "bytes": self.bytes,
                "iops": self.achieved_iops(),
                "bw_bytes": bandwidth,
                "lat_ns": self.achieved.json(),
                "withheld": self.withheld,
            },
            "lateness_ns": self.lateness.json(),
        })
    }
}

fn rate(n: f64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { n * 1e9 / ns as f64 }
}

/// A client and what became of its requests.
#[derive(Clone, Debug)]
pub struct Row {
    /// How it came: `nbd`, `nvme-tcp`, ...
    pub transport: &'static str,
    /// What it uses: an export, a namespace.
    pub what: String,
    /// Which of the connections it was, counted from 1; none for several that are gone.
    pub connection: Option<u64>,
    /// What became of its requests in time; empty but in real time.
    pub tally: Tally,
    /// What the flash programmed for it.
    pub flash: Charged,
    kinds: Box<[Latency; KINDS]>,
}

impl Row {
    /// How it is called.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { transport, what, connection, .. } = self;
        match connection {
            Some(number) if what.is_empty() => format!("{transport} #{number}"),
            Some(number) => format!("{transport} {what} #{number}"),
            None => "earlier clients".into(),
        }
    }

    fn requests(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.requests).sum()
    }

    fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.kinds.iter_mut().zip(other.kinds.iter()).for_each(|(mine, theirs)| mine.add(theirs));
    }

    pub(crate) fn json(&self) -> Value {
        let mut out =
            json!({ "name": self.name(), "transport": self.transport, "connection": self.connection });
        let key = if self.transport == "nvme-tcp" { "namespace" } else { "export" };
        out[key] = json!(self.what);
        if let (Value::Object(out), Value::Object(more)) = (&mut out, self.tally.json()) {
            out.extend(more);
        }
        out["programmed_bytes"] = json!(self.flash.programmed);
        out["copied_bytes"] = json!(self.flash.copied);
        out
    }
}

/// One client. When the last who knows it lets it go, it is gone.
pub(crate) struct Client {
    clock: Clock,
    roll: Arc<Roll>,
    number: u64,
    row: Mutex<Row>,
    /// When its socket was last found empty as answers left, and when it last said something.
    silent: AtomicU64,
    spoke: AtomicU64,
}

impl Client {
    /// Whether it matters when its requests come and its answers leave.
    pub fn is_timed(&self) -> bool {
        self.roll.timed
    }

    /// The drive's time.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The drive takes what it writes.
    pub fn wrote(&self, lsn: u64, sectors: u64) {
        lock(&self.roll.charges).wrote(u32::try_from(self.number).ok(), lsn, sectors);
    }

    /// The drive has carried a command of its out.
    pub fn cost(&self, op: Op, bytes: u64, ns: u64) {
        lock(&self.row).kinds[op as usize].record(bytes, ns);
    }

    /// Answers left just now; those were `withheld` which the client did not take at once.
    pub fn answered(&self, dues: &[Due], withheld: bool) {
        if !dues.is_empty() {
            self.answered_at(self.clock.now(), dues, withheld);
        }
    }

    /// Answers left then.
    pub fn answered_at(&self, left: Time, dues: &[Due], withheld: bool) {
        let mut row = lock(&self.row);
        dues.iter().for_each(|due| row.tally.record(due, left, withheld));
        drop(row);
        let mut total = lock(&self.roll.total);
        for due in dues {
            total.tally.record(due, left, withheld);
            let _ = total.window.record(left.saturating_sub(due.at));
            total.judge.answer(due.at, due.at.saturating_sub(due.arrived), left);
        }
    }

    /// Its socket was empty then: what it says from now on came later.
    pub fn was_silent(&self, at: Time) {
        self.silent.fetch_max(at, Ordering::Relaxed);
    }

    /// It said something then.
    pub fn spoke(&self, at: Time) {
        self.spoke.store(at, Ordering::Relaxed);
    }

    /// When it last spoke, if that was not before `since`.
    pub fn said_more(&self, since: Time) -> Option<Time> {
        Some(self.spoke.load(Ordering::Relaxed)).filter(|&spoke| spoke >= since)
    }

    /// When its socket was last found empty.
    pub fn silent(&self) -> Time {
        self.silent.load(Ordering::Relaxed)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let row = self.row.get_mut().unwrap_or_else(PoisonError::into_inner);
        if row.requests() == 0 {
            return;
        }
        let mut gone = lock(&self.roll.gone);
        if gone.len() == MOST_GONE {
            let oldest = gone.remove(1);
            let first = &mut gone[0];
            (first.connection, first.transport, first.what) = (None, "several", String::new());
            first.add(&oldest);
        }
        gone.push(row.clone());
    }
}

struct Total {
    tally: Tally,
    /// Lateness since it was last asked for.
    window: Histogram<u64>,
    judge: Judge,
}

/// All clients that there are and were.
pub(crate) struct Roll {
    clock: Clock,
    timed: bool,
    total: Mutex<Total>,
    here: Mutex<Vec<Weak<Client>>>,
    gone: Mutex<Vec<Row>>,
    next: AtomicU64,
    charges: Mutex<Charges>,
}

/// How a drive kept up with its clients.
#[derive(Clone, Debug)]
pub struct Punctuality {
    /// How much longer the drive's time took than the wall clock's.
    pub dilation: f64,
    /// All clients.
    pub total: Tally,
    /// Each that asked for something, in the order in which they came; of many that are gone the earliest as one.
    pub clients: Vec<Row>,
    /// When the machine was too slow for the drive.
    pub overload: Vec<Overload>,
}

impl Punctuality {
    /// What became of requests by transport, in alphabetical order.
    #[must_use]
    pub fn by_transport(&self) -> BTreeMap<&'static str, Tally> {
        let mut all: BTreeMap<&'static str, Tally> = BTreeMap::new();
        for row in self.clients.iter().filter(|row| row.tally.answers > 0) {
            all.entry(row.transport).or_default().add(&row.tally);
        }
        all
    }
}

impl Roll {
    /// Of a drive with this clock, whose answers are `timed` or given as soon as the model is done.
    pub fn new(clock: Clock, timed: bool) -> Arc<Self> {
        let total = Total {
            tally: Tally::default(),
            window: Times::default().histogram,
            judge: Judge::new(clock.dilation()),
        };
        Arc::new(Self {
            clock,
            timed,
            total: Mutex::new(total),
            here: Mutex::default(),
            gone: Mutex::default(),
            next: 1.into(),
            charges: Mutex::default(),
        })
    }

    /// A client that has come by this transport.
    pub fn enter(self: &Arc<Self>, transport: &'static str, what: &str) -> Arc<Client> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let row = Row {
            transport,
            what: what.to_owned(),
            connection: Some(number),
            tally: Tally::default(),
            flash: Charged::default(),
            kinds: Box::new(std::array::from_fn(|_| Latency::default())),
        };
        let client = Arc::new(Client {
            clock: self.clock,
            roll: self.clone(),
            number,
            row: Mutex::new(row),
            silent: AtomicU64::new(0),
            spoke: AtomicU64::new(0),
        });
        let mut here = lock(&self.here);
        here.retain(|one| one.strong_count() > 0);
        here.push(Arc::downgrade(&client));
        client
    }

    fn rows(&self) -> Vec<Row> {
        // One that goes meanwhile is in the one list or the other, or for a moment in none: never in both.
        let here: Vec<Arc<Client>> = lock(&self.here).iter().filter_map(Weak::upgrade).collect();
        let mut rows = lock(&self.gone).clone();
        rows.extend(here.iter().map(|client| lock(&client.row).clone()).filter(|row| row.requests() > 0));
        rows.sort_by_key(|row| row.connection);
        // What is charged to nobody of the others is to those whom one row is for, which is the first.
        let charges = lock(&self.charges);
        let mut left = charges.all();
        for row in rows.iter_mut().rev() {
            row.flash = match row.connection {
                Some(number) => charges.of(number as u32),
                None => left,
            };
            left.programmed -= row.flash.programmed;
            left.copied -= row.flash.copied;
        }
        rows
    }

    /// From now on what `ssd` programs is charged to them.
    pub fn begin_charging(&self, ssd: &Ssd) {
        *lock(&self.charges) = Charges::new(ssd);
    }

    /// The flash has changed like this.
    pub fn charge(&self, array: &Array, changes: &[Change]) {
        lock(&self.charges).follow(array, changes);
    }

    /// What was served to whom, for `users[]`.
    pub fn users(&self) -> Vec<Served> {
        let served = |row: Row| Served { name: row.name(), latency: *row.kinds, flash: row.flash };
        self.rows().into_iter().map(served).collect()
    }

    /// How well all were served.
    pub fn punctuality(&self) -> Punctuality {
        let clients = self.rows();
        let total = lock(&self.total);
        Punctuality {
            dilation: self.clock.dilation(),
            total: total.tally.clone(),
            overload: total.judge.verdict(),
            clients,
        }
    }

    /// Lateness since the last call.
    pub fn window(&self) -> Histogram<u64> {
        let fresh = Times::default().histogram;
        std::mem::replace(&mut lock(&self.total).window, fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(arrived: Time, at: Time) -> Due {
        Due { arrived, at, bytes: 4096 }
    }

    #[test]
    fn rates_and_latencies_are_those_of_the_requests() {
        let mut tally = Tally::default();
        // One every 100 us, each modelled with 50 us and 30 us late.
        for n in 0..1000 {
            tally.record(&due(n * 100_000, n * 100_000 + 50_000), n * 100_000 + 80_000, false);
        }
        assert!((tally.asked_iops().expect("they came one by one") - 10_000.0).abs() < 1e-6);
        let mut one = Tally::default();
        one.record(&due(7, 9), 9, false);
        assert!(one.asked_iops().is_none() && one.json()["asked"]["iops"].is_null());
        assert!((tally.achieved_iops() - 1000.0 / (999.0 * 1e-4 + 8e-5)).abs() < 1e-6);
        assert_eq!((tally.modelled.mean_ns(), tally.achieved.mean_ns()), (50_000.0, 80_000.0));
        // Little: the same number under way at 50 us instead of 80.
        assert!((tally.modelled_iops() / tally.achieved_iops() - 1.6).abs() < 1e-9);
        let (p50, max) = (tally.lateness.percentile_ns(0.5), tally.lateness.max_ns());
        assert_eq!((p50, max), (30_000, 30_000));
        let mut both = Tally::default();
        both.add(&tally);
        both.add(&Tally::default());
        assert_eq!(
            (both.answers, both.first_arrival, both.achieved_iops()),
            (1000, 0, tally.achieved_iops())
        );
    }

    #[test]
    fn clients_that_are_gone_keep_their_rows_and_the_oldest_share_one() {
        let roll = Roll::new(Clock::started(1.0), true);
        for n in 0..100 {
            let client = roll.enter("nbd", "nandle");
            client.cost(Op::Read, 4096, 1000 + n);
            client.answered(&[due(0, 10)], false);
        }
        drop(roll.enter("nbd", "never asked"));
        let here = roll.enter("nvme-tcp", "namespace 1");
        here.cost(Op::Write, 512, 7);
        let names: Vec<String> = roll.users().iter().map(|user| user.name.clone()).collect();
        assert_eq!(names.len(), MOST_GONE + 1);
        assert_eq!(names[0], "earlier clients");
        assert_eq!(names[1], format!("nbd nandle #{}", 100 - MOST_GONE + 2));
        assert_eq!(names[MOST_GONE], "nvme-tcp namespace 1 #102");
        let all = roll.punctuality();
        assert_eq!(all.total.answers, 100);
        assert_eq!(all.clients.iter().map(|row| row.tally.answers).sum::<u64>(), 100);
        let by_transport: Vec<_> =
            all.by_transport().into_iter().map(|(name, tally)| (name, tally.answers)).collect();
        assert_eq!(by_transport, [("nbd", MOST_GONE as u64 - 1), ("several", 101 - MOST_GONE as u64)]);
        assert_eq!(roll.window().len(), 100);
        assert_eq!(roll.window().len(), 0);
    }
}
