//! Whether the device has come to rest: write amplification and mean latency over host bytes written.
//!
//! There is one definition. Collection began to copy pages (or, where it never has to, everything was programmed
//! once) at least one drive write ago, and over three windows of host writes, one after the other up to the end, neither write amplification nor the mean latency of reads and writes spreads by more
//! than a band around its mean. A run of a given length has windows of a ninth of it: its last third. A run
//! until it is steady ([`Until`]) has windows of a ninth too, but of half a drive write at the least; of a workload
//! that repeats they are whole repetitions. There a drive write is one of the range that the workload has
//! written, elsewhere of the whole drive.
//!
//! Samples are taken every so many host bytes; like the time series they thin out by halves, so
//! that a run of any length keeps a few hundred.

use nandle_ssd::{Op, Ssd};

use super::Latency;
use super::pages::programs;

const MOST: usize = 512;
const FIRST_STEP: u64 = 1 << 20;
/// The band of runs that are not told one.
pub const BAND: f64 = 0.05;
/// The band of runs until they are steady, if they are not told one.
pub const UNTIL_BAND: f64 = 0.02;
/// Drive writes after which such a run gives up, if it is not told otherwise.
pub const AT_MOST: f64 = 30.0;
/// Windows that are compared.
const WINDOWS: u32 = 3;
/// Windows that a run is as long as, at the least.
const PARTS: u64 = 9;
/// Shortest window of a run until it is steady, in drive writes.
const SHORTEST: f64 = 0.5;
/// Reads after which a workload that has written nothing is taken for one that never will.
const PATIENCE: u64 = 1 << 20;

/// What was dead before the run is collected first, and costs nothing.
const NOTHING_COPIED: &str =
    "collection has had nothing to copy yet, only blocks without valid pages to erase";

/// Run until the device has come to rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// Most that write amplification and mean latency may spread over the windows, as a share of their mean.
    pub band: f64,
    /// Drive writes after which it gives up.
    pub at_most: f64,
}

impl Default for Until {
    fn default() -> Self {
        Self { band: UNTIL_BAND, at_most: AT_MOST }
    }
}

/// What was counted by the time that the host had written so much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    /// Host bytes written since the beginning of the run.
    written: u64,
    /// Pages programmed, victims collected, and pages copied out of them, since then.
    programs: u64,
    collected: u64,
    moved: u64,
    /// Reads and writes of the present phase, and their latencies added up.
    requests: u64,
    latency_ns: f64,
}

/// Samples of a whole run.
#[derive(Clone, Debug)]
pub struct Steady {
    points: Vec<Point>,
    /// Before the present phase.
    base: Point,
    step: u64,
    /// Host bytes of the present phase at which the next sample is due.
    next: u64,
}

/// What the last windows are measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Host bytes of the measured part.
    pub written: u64,
    /// Bytes of the whole drive, as the host sees it.
    pub logical_bytes: u64,
    /// Bytes that count as a drive write.
    pub drive_write: u64,
    /// Bytes of a page, and pages of the whole flash.
    pub page_bytes: u32,
    pub pages: u64,
    /// Most that the windows may spread.
    pub band: f64,
    /// Bytes of a window, at the least.
    pub shortest: u64,
    /// Windows are multiples of so many bytes.
    pub repeats: Option<u64>,
}

/// How steady the device was at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steadiness {
    /// Write amplification over the windows; none if the host wrote nothing.
    pub waf: Option<f64>,
    /// Whether it had come to rest.
    pub steady: bool,
    /// If not, why.
    pub why: String,
    /// Most that the windows might spread.
    pub band: f64,
    /// Logical capacities written since the beginning of the run.
    pub drive_writes: f64,
    /// And by the time that the windows began; none if the host wrote nothing.
    pub from_drive_writes: Option<f64>,
}

impl Default for Steady {
    fn default() -> Self {
        Self { points: vec![Point::default()], base: Point::default(), step: FIRST_STEP, next: FIRST_STEP }
    }
}

impl Steady {
    /// Whether a sample is due after `written` host bytes of this phase.
    #[inline]
    #[must_use]
    pub fn wants(&self, written: u64) -> bool {
        written >= self.next
    }

    /// Takes a sample after `written` host bytes of this phase.
    #[cold]
    pub fn sample(&mut self, written: u64, latency: &[Latency], ssd: &Ssd) {
        let served = [Op::Read, Op::Write].map(|op| &latency[op as usize]);
        let point = Point {
            written: self.base.written + written,
            programs: self.base.programs + programs(ssd),
            collected: self.base.collected + ssd.stats().gc_invocations,
            moved: self.base.moved + ssd.stats().gc_moved_pages,
            requests: served.iter().map(|l| l.requests).sum(),
            latency_ns: served.iter().map(|l| l.sum_ns as f64).sum(),
        };
        match self.points.last_mut() {
            Some(last) if last.written == point.written => *last = point,
            _ => self.points.push(point),
        }
        if self.points.len() >= MOST {
            self.step *= 2;
            let mut n = 0;
            self.points.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
        self.next = written + self.step;
    }

    /// A phase begins after one with `written` host bytes; the counters are about to be reset.
    pub fn begin_phase(&mut self, written: u64, ssd: &Ssd) {
        self.base = Point {
            written: self.base.written + written,
            programs: self.base.programs + programs(ssd),
            collected: self.base.collected + ssd.stats().gc_invocations,
            moved: self.base.moved + ssd.stats().gc_moved_pages,
            ..Point::default()
        };
        self.points.push(self.base);
        self.next = self.step;
    }

    /// What had been counted by the time that `bytes` host bytes were written: pages programmed, requests, latency.
    fn by(&self, bytes: f64) -> [f64; 3] {
        let after =
            self.points.partition_point(|p| (p.written as f64) < bytes).clamp(1, self.points.len() - 1);
        let (a, b) = (self.points[after - 1], self.points[after]);
        let gap = b.written as f64 - a.written as f64;
        let share = if gap > 0.0 { ((bytes - a.written as f64) / gap).clamp(0.0, 1.0) } else { 1.0 };
        let between = |from: f64, to: f64| from + share * (to - from);
        [
            between(a.programs as f64, b.programs as f64),
            between(a.requests as f64, b.requests as f64),
            between(a.latency_ns, b.latency_ns),
        ]
    }

    /// Write amplification and mean latency in nanoseconds between two numbers of host bytes.
    fn window(&self, from: f64, to: f64, page_bytes: u32) -> [f64; 2] {
        let (before, after) = (self.by(from), self.by(to));
        let [programs, requests, latency_ns] = [0, 1, 2].map(|n| after[n] - before[n]);
        [programs * f64::from(page_bytes) / (to - from), latency_ns / requests.max(1.0)]
    }

    /// The verdict, after a last [`Steady::sample`]; `written` as there.
    #[must_use]
    pub fn verdict(&self, by: &Measure) -> Steadiness {
        let total = self.points.last().map_or(0, |p| p.written);
        let logical = by.logical_bytes as f64;
        let mut out =
            Steadiness { band: by.band, drive_writes: total as f64 / logical, ..Steadiness::default() };
        if by.written == 0 || self.points.len() < 2 {
            out.why = "the host wrote nothing".into();
            return out;
        }
        let to = total as f64;
        let all = to - self.base.written as f64;
        let wanted = (all / PARTS as f64).max(by.shortest as f64);
        let window = by.repeats.map_or(wanted, |pass| (wanted / pass as f64).ceil() * pass as f64);
        let short = window * f64::from(WINDOWS) > all;
        // What there is of a run that is too short is shown all the same.
        let window = if short { all / PARTS as f64 } else { window };
        let from = |n: u32| to - window * f64::from(n);
        out.waf = Some(self.window(from(WINDOWS), to, by.page_bytes)[0]);
        out.from_drive_writes = Some(from(WINDOWS) / logical);
        let begun = |p: &&Point| p.collected > 0 && (p.moved > 0 || p.programs >= by.pages);
        let Some(collecting) = self.points.iter().find(begun) else {
            let nothing = self.points.iter().all(|p| p.collected == 0);
            out.why = if nothing { "no garbage was collected" } else { NOTHING_COPIED }.into();
            return out;
        };
        let since = (to - collecting.written as f64) / by.drive_write as f64;
        let windows: Vec<[f64; 2]> =
            (1..=WINDOWS).rev().map(|n| self.window(from(n), from(n - 1), by.page_bytes)).collect();
        let parted = |n: usize| {
            let values = || windows.iter().map(|w| w[n]);
            let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
            let mean = values().sum::<f64>() / f64::from(WINDOWS);
            (most - least > by.band * mean).then_some((least, most))
        };
        if since < 1.0 {
            out.why = format!("only {since:.2} drive writes since collection began");
        } else if short {
            out.why = "fewer than three windows were written".into();
        } else if let Some((least, most)) = parted(0) {
            out.why = format!("WAF was between {least:.2} and {most:.2} in the last three windows");
        } else if let Some((least, most)) = parted(1) {
            let [least, most] = [least, most].map(crate::units::time);
            out.why = format!("mean latency was between {least} and {most} in the last three windows");
        } else {
            out.steady = true;
        }
        out
    }
}

/// A run until it is steady, under way.
#[derive(Debug)]
pub struct Settling {
    until: Until,
    /// A bit for each sector: the measured part has written it. How many it has.
    seen: Vec<u64>,
    touched: u64,
    /// The same when it was last looked at.
    touched_before: u64,
    sector_bytes: u64,
    /// Host bytes of the measured part at the end of the first time through, where the workload repeats.
    pass: Option<u64>,
    /// Host bytes of the measured part at which to look again.
    look: u64,
    verdict: Option<Steadiness>,
}

impl Settling {
    /// Of a drive.
    #[must_use]
    pub fn new(until: Until, ssd: &Ssd) -> Self {
        Self {
            until,
            seen: vec![0; ssd.layout().logical_sectors.div_ceil(64) as usize],
            touched: 0,
            touched_before: 0,
            sector_bytes: u64::from(ssd.config().geometry.sector_bytes),
            pass: None,
            look: 0,
            verdict: None,
        }
    }

    /// The host writes these sectors.
    pub fn wrote(&mut self, lsn: u64, sectors: u64) {
        let (mut at, end) = (lsn, lsn + sectors);
        while at < end {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let bits = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - bits)) << bit;
            if let Some(word) = self.seen.get_mut(word) {
                self.touched += u64::from((mask & !*word).count_ones());
                *word |= mask;
            }
            at += bits;
        }
    }

    /// Bytes of the range that has been written.
    fn drive_write(&self) -> u64 {
        (self.touched * self.sector_bytes).max(1)
    }

    /// Whether it is over after `written` host bytes of the measured part: the device has come to rest, or never
    /// will. `ended`: the workload has just come to an end of its own.
    pub fn over(
        &mut self,
        steady: &mut Steady,
        written: u64,
        latency: &[Latency],
        ssd: &Ssd,
        ended: bool,
    ) -> bool {
        if ended {
            self.pass.get_or_insert(written);
        } else if self.pass.is_some() || written < self.look {
            // What repeats is looked at after whole repetitions.
            return false;
        }
        let drive_write = self.drive_write();
        self.look = written + drive_write / 4;
        let before = std::mem::replace(&mut self.touched_before, self.touched);
        let grows = self.touched - before > self.touched / 20;
        steady.sample(written, latency, ssd);
        let verdict = steady.verdict(&Measure {
            written,
            logical_bytes: ssd.layout().logical_bytes,
            drive_write,
            page_bytes: ssd.config().geometry.page_bytes,
            pages: ssd.config().geometry.pages(),
            band: self.until.band,
            shortest: (SHORTEST * drive_write as f64) as u64,
            repeats: self.pass.filter(|&pass| pass > 0),
        });
        let idle = written == 0 && (ended || latency[Op::Read as usize].requests >= PATIENCE);
        // A range of which much is still being written for the first time is no measure of a drive write yet.
        let of = if grows { ssd.layout().logical_bytes } else { drive_write };
        let enough = written as f64 >= self.until.at_most * of as f64;
        let over = verdict.steady || idle || enough;
        self.verdict = Some(verdict);
        over
    }

    /// The workload came to its end, and cannot be repeated.
    pub fn ended(&mut self) {
        if let Some(verdict) = &mut self.verdict {
            verdict.why = format!("the workload came to its end; {}", verdict.why);
        }
    }

    /// The verdict when it was over.
    #[must_use]
    pub fn verdict(&self) -> Option<&Steadiness> {
        self.verdict.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(points: &[Point]) -> Steady {
        Steady { points: points.to_vec(), ..Steady::default() }
    }

    fn point(written: u64, programs: u64, collected: u64, latency_ns: f64) -> Point {
        Point { written, programs, collected, moved: collected, requests: written / 4096, latency_ns }
    }

    fn by(written: u64) -> Measure {
        Measure {
            written,
            logical_bytes: 1 << 20,
            drive_write: 1 << 20,
            page_bytes: 4096,
            pages: 300,
            band: BAND,
            shortest: 0,
            repeats: None,
        }
    }

    /// 4 KiB pages, a drive of 1 MiB; WAF 1 for 1 MiB, then 2 for 5 MiB, requests of `ns` and later of `late`.
    fn run(ns: f64, late: f64) -> (Steady, u64) {
        let mut points = vec![point(0, 0, 0, 0.0), point(1 << 20, 256, 0, 256.0 * ns)];
        let mut latency = 256.0 * ns;
        for n in 1..=50_u64 {
            latency += 25.5 * if n > 40 { late } else { ns };
            points.push(point((1 << 20) + n * 104_448, 256 + n * 51, n, latency));
        }
        (with(&points), points[51].written)
    }

    #[test]
    fn the_last_third_decides() {
        let (steady, written) = run(100.0, 100.0);
        let verdict = steady.verdict(&by(written));
        assert!((verdict.waf.expect("written") - 2.0).abs() < 1e-6, "{verdict:?}");
        assert!(verdict.steady && verdict.drive_writes > 5.0, "{verdict:?}");
        let from = verdict.from_drive_writes.expect("written");
        assert!((from / verdict.drive_writes - 2.0 / 3.0).abs() < 1e-9, "{verdict:?}");
        let points = &steady.points;
        let none = with(&points[..2]).verdict(&by(1 << 20));
        assert!(!none.steady && none.why.contains("no garbage"), "{none:?}");
        let early = with(&points[..8]).verdict(&by(points[7].written));
        assert!(!early.steady && early.why.contains("drive writes since"), "{early:?}");
        assert_eq!(with(&points[..1]).verdict(&by(0)).waf, None);
    }

    #[test]
    fn a_collection_that_costs_nothing_has_not_begun() {
        let (mut steady, written) = run(100.0, 100.0);
        steady.points.iter_mut().for_each(|p| p.moved = 0);
        let more = Measure { pages: 1 << 20, ..by(written) };
        let verdict = steady.verdict(&more);
        assert!(!verdict.steady && verdict.why == NOTHING_COPIED, "{verdict:?}");
        // All pages were programmed and there was still nothing to copy: the workload is like that.
        assert!(steady.verdict(&by(written)).steady);
    }

    #[test]
    fn latency_has_to_hold_too() {
        let (steady, written) = run(100.0, 112.0);
        let verdict = steady.verdict(&by(written));
        assert!(!verdict.steady && verdict.why.contains("mean latency"), "{verdict:?}");
        assert!(steady.verdict(&Measure { band: 0.2, ..by(written) }).steady);
    }

    #[test]
    fn windows_are_as_long_as_they_are_asked_to_be() {
        let (steady, written) = run(100.0, 100.0);
        let half = Measure { shortest: 1 << 19, ..by(written) };
        assert_eq!(steady.verdict(&half).from_drive_writes, steady.verdict(&by(written)).from_drive_writes);
        // Whole repetitions of 1 MiB: the last three of nearly six.
        let repeats = steady.verdict(&Measure { repeats: Some(1 << 20), ..by(written) });
        let long = repeats.drive_writes - repeats.from_drive_writes.expect("written");
        assert!((long - 3.0).abs() < 1e-9 && repeats.steady, "{repeats:?}");
        let short = steady.verdict(&Measure { shortest: 3 << 20, ..by(written) });
        assert!(!short.steady && short.why.contains("three windows"), "{short:?}");
    }
}
