//! The board against the authors' raw logs: what the host gets at a given write amplification.
//!
//! `logs.py` makes `logs.csv` from `host/RocksDB/rocksdb-msssd/MULTI` of github.com/JonghyeokPark/Flashalloc-Cosmos (two
//! tenants): counters of the firmware laid beside the bytes of `iostat`, in pieces of 20 lines, those of like WAF
//! together, from when the flash has been written once: ours is overwritten too. The logs say nothing of what was
//! written, and need not: on a drive that is busy with copies the time of a host page follows from the copies that come
//! with it.

use std::sync::atomic::AtomicBool;

use nandle_random::Stream;
use nandle_ssd::{DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Phase, User};
use nandle_trace::{Request, Source};

use super::super::{Bench, Cell, Table};
use super::board::{BY_TIME, FLASHALLOC, Firmware, MULTI_STREAM, drive};
use super::written::{Interval, intervals};
use crate::Error;
use crate::address::Address;
use crate::replay::{Progress, Replayer, Watch};

/// Shares of the logical drive that hold data: from little to much to copy.
pub const FILLS: [f64; 9] = [0.25, 0.5, 0.65, 0.75, 0.82, 0.88, 0.93, 0.97, 0.985];
/// Blocks of a die: fewer than the board's, for the time of a page does not depend on their number.
const BLOCKS: u32 = 80;

/// Bytes of an object: an SSTable of RocksDB.
const OBJECT: u64 = 64 << 20;

/// What the logs say: policy, WAF, MiB/s.
fn logged() -> impl Iterator<Item = (&'static str, f64, f64)> {
    include_str!("logs.csv").lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let policy = fields.next()?;
        Some((policy, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

/// Writes pages of a range, each equally likely.
struct Uniform {
    first: u64,
    pages: u64,
    page: u64,
    stream: u16,
    left: u64,
    draw: Stream,
}

impl Source for Uniform {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            let offset = self.first + self.draw.below(self.pages) * self.page;
            out.push(write(offset, self.page, self.stream));
        }
        Ok(())
    }
}

/// Overwrites objects of a range, each equally likely, and calls before it does.
struct Objects {
    first: u64,
    objects: u64,
    object: u64,
    left: u64,
    part: u64,
    at: u64,
    draw: Stream,
}

impl Source for Objects {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        const MOST: u64 = 1 << 20;
        let parts = self.object / MOST;
        for _ in 0..max {
            if self.left == 0 {
                break;
            }
            if self.part == 0 {
                self.at = self.first + self.draw.below(self.objects) * self.object;
                let number = 1 + ((self.at - self.first) / self.object) as u32;
                out.push(Request {
                    op: Op::FlashAlloc,
                    bytes: self.object,
                    object: number,
                    ..write(self.at, 0, 0)
                });
            } else {
                out.push(write(self.at + (self.part - 1) * MOST, MOST, 0));
                self.left -= 1;
            }
            self.part = (self.part + 1) % (parts + 1);
        }
        Ok(())
    }
}

fn write(offset: u64, bytes: u64, stream: u16) -> Request {
    Request { time_ns: 0, offset, bytes, object: 0, stream, op: Op::Write, fua: false }
}

/// Writes the first `bytes` once.
struct InOrder {
    bytes: u64,
    next: u64,
}

impl Source for InOrder {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        for _ in 0..max {
            let bytes = (self.bytes - self.next).min(1 << 20);
            if bytes == 0 {
                break;
            }
            out.push(write(self.next, bytes, 0));
            self.next += bytes;
        }
        Ok(())
    }
}

/// WAF, and microseconds of a host page, of the second half of a drive overwritten once.
fn point(policy: &'static str, fill: f64, seed: u64, stop: &AtomicBool) -> Result<(f64, f64), Error> {
    let written = overwritten(policy, fill, seed, stop)?;
    let half = &written[written.len() / 2..];
    let sum = |f: fn(&Interval) -> u64| half.iter().map(f).sum::<u64>() as f64;
    let host = sum(|i| i.host);
    let pages = host / f64::from(drive(1, policy, Firmware::Logged)?.geometry.page_bytes);
    // As the firmware counts it: the metadata log is ours.
    Ok((1.0 + sum(|i| i.copied) / host, sum(|i| i.ns) / 1e3 / pages))
}

/// What is written while a drive of which the share `fill` holds data is overwritten once.
fn overwritten(
    policy: &'static str,
    fill: f64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Vec<Interval>, Error> {
    let mut config: DeviceConfig = drive(1, policy, Firmware::Logged)?;
    config.geometry.blocks_per_plane = BLOCKS;
    // So little that the fullest drive copies as much as the logs'; streams have open blocks of their own.
    config.op_ratio = if policy == MULTI_STREAM { 0.255 } else { 0.13 };
    let ssd = Ssd::new(&config, 0, seed).map_err(|e| Error::input(e.to_string()))?;
    let (page, logical) = (u64::from(config.geometry.page_bytes), ssd.layout().logical_bytes);
    let block = page * u64::from(config.geometry.pages_per_block);
    let bytes = (logical as f64 * fill) as u64 / (8 * block) * (8 * block);
    let address = Address::straight(&config, ssd.layout().logical_sectors);
    let uniform = |first: u64, bytes: u64, stream: u16, written: u64| Uniform {
        first,
        pages: bytes / page,
        page,
        stream,
        left: written / page,
        draw: Stream::new(seed, &format!("flashalloc calibration {stream}")),
    };
    let users = match policy {
        // Half of what the logs' host writes goes to objects.
        FLASHALLOC => {
            let half = bytes / 2;
            let objects = Objects {
                first: half,
                objects: (bytes - half) / OBJECT,
                object: OBJECT,
                left: (logical / 2) >> 20,
                part: 0,
                at: 0,
                draw: Stream::new(seed, "flashalloc calibration objects"),
            };
            vec![
                User::closed("pages", 64, uniform(0, half, 0, logical / 2)),
                User::closed("objects", 16, objects),
            ]
        }
        MULTI_STREAM => (0..8)
            .map(|n| User::closed("pages", 8, uniform(bytes / 8 * n, bytes / 8, n as u16, logical / 8)))
            .collect(),
        _ => vec![User::closed("pages", 64, uniform(0, bytes, 0, logical))],
    };
    let phases = [vec![User::closed("lays out", 8, InOrder { bytes, next: 0 })], users];
    let phases = phases.map(|users| (Phase::of(users), address.clone()));
    let mut silent = |_: &Progress| {};
    let mut replayer = Replayer::new(ssd, Watch { stop, progress: &mut silent });
    if !replayer.run(phases.into())? {
        return Err(Error::Interrupted);
    }
    Ok(intervals(&replayer.meter, page, 1))
}

/// Microseconds of a host page at `waf` on the line through the points, which are in order; none beyond them, but
/// that what hardly copies counts as a WAF of 1.
fn between(points: &[(f64, f64)], waf: f64) -> Option<f64> {
    let least = points.first()?.0;
    let waf = if least < 1.02 { waf.max(least) } else { waf };
    points.windows(2).find_map(|pair| {
        let [(x, y), (to_x, to_y)] = [pair[0], pair[1]];
        (x <= waf && waf <= to_x).then(|| if to_x > x { y + (waf - x) / (to_x - x) * (to_y - y) } else { y })
    })
}

/// A logged point beside ours.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Stream policy.
    pub policy: &'static str,
    /// Write amplification.
    pub waf: f64,
    /// What the board's host got.
    pub logged_mib_s: f64,
    /// What ours gets, if it comes to that WAF.
    pub ours_mib_s: Option<f64>,
}

/// Logged points of one policy beside ours, on the line through our runs at these shares of the drive, which are in order.
///
/// # Errors
/// As [`drive`].
pub fn points_of(
    policy: &'static str,
    fills: &[f64],
    seed: u64,
    stop: &AtomicBool,
) -> Result<Vec<Point>, Error> {
    let runs: Result<Vec<_>, Error> = fills.iter().map(|&fill| point(policy, fill, seed, stop)).collect();
    Ok(beside(policy, &runs?))
}

fn beside(policy: &'static str, runs: &[(f64, f64)]) -> Vec<Point> {
    let own = logged().filter(|(name, ..)| *name == policy);
    own.map(|(_, waf, logged_mib_s)| Point {
        policy,
        waf,
        logged_mib_s,
        ours_mib_s: between(runs, waf).map(|us| 1e6 / us / 64.0),
    })
    .collect()
}

/// All logged points.
pub(in super::super) fn points(bench: &Bench<'_>) -> Result<Vec<Point>, Error> {
    let policies = [BY_TIME, FLASHALLOC, MULTI_STREAM];
    let jobs: Vec<_> = policies.iter().flat_map(|&policy| FILLS.map(|fill| (policy, fill))).collect();
    let runs = bench.each(
        &jobs,
        |(policy, fill)| format!("calibration, {policy}, {:.0}% full", fill * 100.0),
        |&(policy, fill)| point(policy, fill, bench.options.seed, bench.stop),
    )?;
    let of = policies.iter().zip(runs.chunks(FILLS.len()));
    Ok(of.flat_map(|(policy, runs)| beside(policy, runs)).collect())
}

/// The same as a table.
pub(super) fn table(points: &[Point]) -> Table {
    let columns = ["policy", "WAF", "MiB/s in the logs", "MiB/s", "ratio"];
    let mut table = Table::new("Calibration: two tenants' WAF and what the host got", &columns);
    for p in points {
        let ratio = p.ours_mib_s.map(|ours| ours / p.logged_mib_s);
        table.rows.push(vec![
            p.policy.into(),
            p.waf.into(),
            p.logged_mib_s.into(),
            Cell::Number(p.ours_mib_s),
            Cell::Number(ratio),
        ]);
    }
    table
}

/// What a copy took in the logs while so much was trimmed (`logs.py` makes `trims.csv` from them): whether trims are what
/// makes copies follow one another.
pub(super) fn trimmed() -> Table {
    let columns = ["policy", "trimmed meanwhile", "seconds", "WAF", "us a copy"];
    let mut table = Table::new("Copies in the authors' logs, by what is trimmed meanwhile", &columns);
    for line in include_str!("trims.csv").lines().skip(1) {
        let cell = |(n, field): (usize, &str)| match n {
            0 | 1 => Cell::from(field),
            _ => Cell::Number(field.parse().ok()),
        };
        table.rows.push(line.split(',').enumerate().map(cell).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_logs_is_read_and_lines_go_through_the_points() {
        assert_eq!(logged().count(), include_str!("logs.csv").lines().count() - 1);
        let points = [(1.0, 10.0), (2.0, 20.0), (3.0, 60.0)];
        let at = [0.5, 1.0, 1.5, 2.5, 4.0].map(|waf| between(&points, waf));
        assert_eq!(at, [Some(10.0), Some(10.0), Some(15.0), Some(40.0), None]);
        assert_eq!(between(&points[1..], 1.0), None);
    }

    #[test]
    fn intervals_follow_each_other_also_where_no_request_ended() {
        // The host stands still while dies copy one after the other.
        let written = overwritten(FLASHALLOC, 0.985, 1, &AtomicBool::new(false)).unwrap();
        assert!(written.windows(2).all(|pair| pair[1].from_ns == pair[0].from_ns + pair[0].ns));
        assert!(written.iter().any(|interval| interval.host == 0));
    }
}
