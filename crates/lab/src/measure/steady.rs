//! Whether the device had come to rest: write amplification over host bytes written.
//!
//! Samples are taken every so many host bytes; like the time series they thin out by halves, so
//! that a run of any length keeps a few hundred.

use nandle_ssd::Ssd;

use super::pages::programs;

const MOST: usize = 512;
const FIRST_STEP: u64 = 1 << 20;
/// Both halves of the last third may differ by this share.
const TOLERANCE: f64 = 0.05;

/// (host bytes written, pages programmed, victims collected) since the beginning of the run.
type Point = (u64, u64, u64);

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

/// How steady the device was at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Steadiness {
    /// Write amplification over the last third of the measured host bytes.
    pub waf_steady: Option<f64>,
    /// Whether it had come to rest.
    pub steady: bool,
    /// If not, why.
    pub why: String,
    /// Logical capacities written since the beginning of the run.
    pub drive_writes: f64,
}

impl Default for Steady {
    fn default() -> Self {
        Self { points: vec![(0, 0, 0)], base: (0, 0, 0), step: FIRST_STEP, next: FIRST_STEP }
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
    pub fn sample(&mut self, written: u64, ssd: &Ssd) {
        let point =
            (self.base.0 + written, self.base.1 + programs(ssd), self.base.2 + ssd.stats().gc_invocations);
        match self.points.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
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
        let collected = ssd.stats().gc_invocations;
        self.base = (self.base.0 + written, self.base.1 + programs(ssd), self.base.2 + collected);
        self.points.push(self.base);
        self.next = self.step;
    }

    /// Pages programmed by the time that `bytes` host bytes were written.
    fn programmed_at(&self, bytes: f64) -> f64 {
        let after = self.points.partition_point(|p| (p.0 as f64) < bytes).clamp(1, self.points.len() - 1);
        let (a, b) = (self.points[after - 1], self.points[after]);
        let share = if b.0 > a.0 { (bytes - a.0 as f64) / (b.0 - a.0) as f64 } else { 1.0 };
        a.1 as f64 + share.clamp(0.0, 1.0) * (b.1 - a.1) as f64
    }

    fn waf(&self, from: f64, to: f64, page_bytes: u32) -> f64 {
        (self.programmed_at(to) - self.programmed_at(from)) * f64::from(page_bytes) / (to - from)
    }

    /// The verdict, after a last [`Steady::sample`]; `written` as there.
    #[must_use]
    pub fn verdict(&self, written: u64, logical_bytes: u64, page_bytes: u32) -> Steadiness {
        let total = self.points.last().map_or(0, |p| p.0);
        let logical = logical_bytes as f64;
        let drive_writes = total as f64 / logical;
        let mut out = Steadiness { waf_steady: None, steady: false, why: String::new(), drive_writes };
        if written == 0 || self.points.len() < 2 {
            out.why = "the host wrote nothing".into();
            return out;
        }
        let (from, to) = (self.base.0 as f64, total as f64);
        let third = to - (to - from) / 3.0;
        out.waf_steady = Some(self.waf(third, to, page_bytes));
        let Some(collecting) = self.points.iter().find(|p| p.2 > 0) else {
            out.why = "no garbage was collected".into();
            return out;
        };
        let since = (to - collecting.0 as f64) / logical;
        let middle = (third + to) / 2.0;
        let (early, late) = (self.waf(third, middle, page_bytes), self.waf(middle, to, page_bytes));
        let drift = (late - early).abs() / early.max(1e-9);
        if since < 1.0 {
            out.why = format!("only {since:.2} drive writes since collection began");
        } else if drift > TOLERANCE {
            out.why = format!("WAF went from {early:.2} to {late:.2} within the last third");
        } else {
            out.steady = true;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(points: &[Point]) -> Steady {
        Steady { points: points.to_vec(), ..Steady::default() }
    }

    #[test]
    fn the_last_third_decides() {
        // 4 KiB pages, a drive of 1 MiB; WAF 1 for 1 MiB, then 2 for 5 MiB.
        let mut points = vec![(0, 0, 0), (1 << 20, 256, 0)];
        points.extend((1..=50_u64).map(|n| ((1 << 20) + n * 104_448, 256 + n * 51, n)));
        let verdict = with(&points).verdict(points[51].0, 1 << 20, 4096);
        assert!((verdict.waf_steady.expect("written") - 2.0).abs() < 1e-6, "{verdict:?}");
        assert!(verdict.steady && verdict.drive_writes > 5.0, "{verdict:?}");
        let none = with(&points[..2]).verdict(1 << 20, 1 << 20, 4096);
        assert!(!none.steady && none.why.contains("no garbage"), "{none:?}");
        let early = with(&points[..8]).verdict(points[7].0, 1 << 20, 4096);
        assert!(!early.steady && early.why.contains("drive writes since"), "{early:?}");
        assert_eq!(with(&points[..1]).verdict(0, 1, 4096).waf_steady, None);
    }
}
