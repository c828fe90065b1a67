//! Counters over time: every second of the last minutes, and the whole life in fewer steps.

use std::collections::VecDeque;

use nandle_lab::measure::KINDS;
use nandle_ssd::nand::{Cause, Time};
use serde_json::{Value, json};

/// Seconds that are kept one by one.
const RECENT: usize = 180;
/// Steps of the whole life; twice as many are kept before they are halved.
const WHOLE: usize = 120;
/// Percentiles that are kept of reads and of writes.
pub(super) const SHARES: [f64; 2] = [0.5, 0.99];

/// A moment: counters since the start, percentiles since the moment before.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub wall_ns: Time,
    /// The time that rates are by: the drive's.
    pub drive_ns: Time,
    pub requests: [u64; KINDS],
    pub bytes: [u64; KINDS],
    /// Bytes written by the host, and programmed for it without padding.
    pub written: u64,
    pub host_bytes: u64,
    /// Bytes programmed by cause.
    pub programmed: [u64; Cause::COUNT],
    pub free_blocks: u64,
    pub free_blocks_min: u32,
    /// Of reads and writes, in nanoseconds; none if there were none.
    pub latency: [[Option<u64>; SHARES.len()]; 2],
    pub lateness: Option<u64>,
    /// Bytes programmed by each shadow, of how many written.
    pub shadows: Vec<(u64, u64)>,
}

impl Point {
    /// How much of something there was in a second since `earlier`; 0 while the drive's time stood still.
    pub fn rate(&self, earlier: &Self, of: &dyn Fn(&Self) -> u64) -> f64 {
        let ns = self.drive_ns.saturating_sub(earlier.drive_ns);
        if ns == 0 { 0.0 } else { (of(self) - of(earlier)) as f64 * 1e9 / ns as f64 }
    }

    /// The earlier of two that become one: the later one keeps the worse percentiles.
    fn absorb(&mut self, earlier: &Self) {
        for (mine, theirs) in self.latency.iter_mut().flatten().zip(earlier.latency.iter().flatten()) {
            *mine = (*mine).max(*theirs);
        }
        self.lateness = self.lateness.max(earlier.lateness);
        self.free_blocks_min = self.free_blocks_min.min(earlier.free_blocks_min);
    }
}

/// Points, oldest first; the first one is where the others begin.
#[derive(Debug)]
pub(super) struct History {
    recent: VecDeque<Point>,
    whole: Vec<Point>,
    /// Points that make a step of the whole, and what has come of the present one.
    step: u32,
    in_step: u32,
}

impl Default for History {
    fn default() -> Self {
        Self { recent: VecDeque::new(), whole: Vec::new(), step: 1, in_step: 0 }
    }
}

impl History {
    pub fn push(&mut self, point: Point) {
        if self.in_step > 0
            && let Some(last) = self.whole.last_mut()
        {
            let earlier = std::mem::replace(last, point.clone());
            last.absorb(&earlier);
        } else {
            self.whole.push(point.clone());
        }
        self.in_step = (self.in_step + 1) % self.step;
        // The first one stays: then pairs become one.
        if self.whole.len() > 2 * WHOLE && self.in_step == 0 {
            let mut joined = vec![self.whole[0].clone()];
            for pair in self.whole[1..].chunks(2) {
                let mut later = pair[pair.len() - 1].clone();
                later.absorb(&pair[0]);
                joined.push(later);
            }
            self.whole = joined;
            self.step *= 2;
        }
        self.recent.push_back(point);
        if self.recent.len() > RECENT + 1 {
            self.recent.pop_front();
        }
    }

    /// The last point, and the one `seconds` before it, or the oldest that is kept.
    pub fn last(&self, seconds: usize) -> Option<(&Point, &Point)> {
        let last = self.recent.len().checked_sub(1)?;
        Some((&self.recent[last.saturating_sub(seconds)], &self.recent[last]))
    }

    /// Both series, as columns.
    pub fn json(&self) -> Value {
        let recent: Vec<&Point> = self.recent.iter().collect();
        let whole: Vec<&Point> = self.whole.iter().collect();
        json!({ "recent": columns(&recent), "whole": columns(&whole) })
    }
}

/// Four significant digits: enough to draw.
fn short(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 { json!(rounded as i64) } else { json!(rounded) }
}

fn columns(points: &[&Point]) -> Value {
    let pairs = || points.windows(2).map(|pair| (pair[0], pair[1]));
    let column = |f: &dyn Fn(&Point, &Point) -> Value| pairs().map(|(a, b)| f(a, b)).collect::<Value>();
    let rate = |f: &dyn Fn(&Point) -> u64| column(&|a, b| short(b.rate(a, f)));
    // Bytes of an interval, over what the host wrote in it.
    let part = |f: &dyn Fn(&Point, &Point) -> u64| {
        column(&|a, b| {
            let written = b.written - a.written;
            if written == 0 { Value::Null } else { short(f(a, b) as f64 / written as f64) }
        })
    };
    let cause = |cause: Cause| part(&|a, b| b.programmed[cause as usize] - a.programmed[cause as usize]);
    let host_pages = |a: &Point, b: &Point| {
        let of = |p: &Point| p.programmed[Cause::Host as usize] + p.programmed[Cause::Rmw as usize];
        of(b) - of(a)
    };
    // A page that host data and copies share counts for what it was opened for.
    let host = |a: &Point, b: &Point| b.host_bytes.saturating_sub(a.host_bytes).min(host_pages(a, b));
    let latency = |kind: usize, share: usize| column(&|_, b| json!(b.latency[kind][share]));
    let shadows = points.last().map_or(0, |p| p.shadows.len());
    let shadow = |n: usize| {
        column(&|a, b| {
            let of = |p: &Point| p.shadows.get(n).copied().unwrap_or_default();
            let written = of(b).1.saturating_sub(of(a).1);
            let programmed = of(b).0.saturating_sub(of(a).0);
            if written == 0 { Value::Null } else { short(programmed as f64 / written as f64) }
        })
    };
    json!({
        "wall_ns": column(&|_, b| json!(b.wall_ns)),
        "read_iops": rate(&|p| p.requests[0]),
        "write_iops": rate(&|p| p.requests[1]),
        "read_bw_bytes": rate(&|p| p.bytes[0]),
        "write_bw_bytes": rate(&|p| p.bytes[1]),
        "waf_parts": {
            "host": part(&host),
            "padding": part(&|a, b| host_pages(a, b) - host(a, b)),
            "gc": cause(Cause::Gc),
            "merge": cause(Cause::Merge),
            "map": cause(Cause::Map),
            "meta": cause(Cause::Meta),
            "parity": cause(Cause::Parity),
        },
        "read_lat_ns": { "50": latency(0, 0), "99": latency(0, 1) },
        "write_lat_ns": { "50": latency(1, 0), "99": latency(1, 1) },
        "lateness_ns": column(&|_, b| json!(b.lateness)),
        "free_blocks": column(&|_, b| json!(b.free_blocks)),
        "free_blocks_min": column(&|_, b| json!(b.free_blocks_min)),
        "shadow_waf": (0..shadows).map(shadow).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Second `n`: n writes of 1000 bytes so far in each of which 3000 bytes were programmed.
    fn point(n: u64) -> Point {
        let ns = n * 1_000_000_000;
        let (wall_ns, drive_ns, written) = (ns, ns, n * 1000);
        let mut point = Point { wall_ns, drive_ns, written, host_bytes: written, ..Point::default() };
        (point.requests[1], point.bytes[1]) = (n, n * 1000);
        point.programmed[Cause::Host as usize] = n * 1000;
        point.programmed[Cause::Gc as usize] = n * 2000;
        point.latency[1] = [Some(10), Some(if n == 777 { 5000 } else { 20 })];
        point
    }

    #[test]
    fn the_whole_life_stays_short_and_true() {
        let mut history = History::default();
        (0..5000).for_each(|n| history.push(point(n)));
        let json = history.json();
        let of = |series: &str, key: &str| json[series][key].as_array().expect("a column").clone();
        assert_eq!(of("recent", "wall_ns").len(), RECENT);
        let times = of("whole", "wall_ns");
        assert!((WHOLE / 2..=2 * WHOLE).contains(&times.len()), "{}", times.len());
        assert_eq!(times.last(), Some(&json!(4_999_000_000_000_u64)));
        assert!(of("whole", "write_iops").iter().all(|v| v == 1), "one write a second, whatever the step");
        let gc = json["whole"]["waf_parts"]["gc"].as_array().expect("a column");
        assert!(gc.iter().all(|v| v == 2), "{gc:?}");
        // The worst second is not lost when steps are joined.
        let p99 = json["whole"]["write_lat_ns"]["99"].as_array().expect("a column");
        assert_eq!(p99.iter().filter(|v| **v == 5000).count(), 1);
        assert!(of("whole", "read_iops").iter().all(|v| v == 0));
    }

    #[test]
    fn a_page_that_fills_later_is_no_padding_of_that_time() {
        let mut history = History::default();
        let mut pages = 0;
        // A page of 16 KiB opens, fills, and the next one opens.
        for host_bytes in [0, 4096, 16384, 20480] {
            pages += u64::from(host_bytes % 16384 == 4096);
            let mut point = Point { written: host_bytes, host_bytes, ..Point::default() };
            point.programmed[Cause::Host as usize] = pages * 16384;
            history.push(point);
        }
        let parts = &history.json()["recent"]["waf_parts"];
        assert_eq!((&parts["host"], &parts["padding"]), (&json!([1, 0, 1]), &json!([3, 0, 3])));
    }

    #[test]
    fn nothing_written_has_no_amplification() {
        let mut history = History::default();
        history.push(Point::default());
        history.push(Point { wall_ns: 5, ..Point::default() });
        assert_eq!(history.json()["recent"]["waf_parts"]["gc"], json!([null]));
        assert_eq!(short(123_456.0), json!(123_500));
        assert_eq!(short(0.012_345_6), json!(0.01235));
    }
}
