//! The board against the authors' raw logs: what the host gets at a given write amplification, and what a request takes
//! while nothing is copied.
//!
//! `logs.py` makes `logs.csv` from `host/RocksDB/rocksdb-msssd/MULTI` of github.com/JonghyeokPark/Flashalloc-Cosmos (two
//! tenants): counters of the firmware laid beside the bytes of `iostat`, in pieces of 20 lines, those of like WAF
//! together, from when the flash has been written once: ours is overwritten too. The logs say nothing of what was
//! written, and need not: on a drive that is busy with copies the time of a host page follows from the copies that come
//! with it, and from the size of the requests.
//!
//! `requests.csv` is of seconds in which the board is busy and copies nothing; those of large requests are of four
//! RocksDB instances (`host/RocksDB/rocksdb-flashalloc/LATENCY/VER1`).

use std::sync::atomic::AtomicBool;

use nandle_lab::Error;
use nandle_lab::address::Address;
use nandle_lab::replay::{Progress, Replayer, Watch};
use nandle_random::Stream;
use nandle_ssd::{DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Phase, User};
use nandle_trace::{Request, Source};

use super::super::{Bench, Cell, Table};
use super::board::{BY_TIME, FLASHALLOC, Firmware, MULTI_STREAM, drive};
use super::outcome::Outcome;
use super::written::{Interval, intervals};

/// Shares of the logical drive that hold data: from little to much to copy.
const FILLS: [f64; 9] = [0.25, 0.5, 0.65, 0.75, 0.82, 0.88, 0.93, 0.97, 0.985];
/// Blocks of a die: fewer than the board's, for the time of a page does not depend on their number; but streams have open
/// blocks of their own.
fn blocks(policy: &str) -> u32 {
    if policy == MULTI_STREAM { 128 } else { 80 }
}

/// Bytes of an object: an SSTable of RocksDB.
const OBJECT: u64 = 64 << 20;
const OBJECTS: &str = "flashalloc calibration objects";

/// Bytes of a large request.
const MOST: u64 = 1 << 20;

/// What a table of the logs says: policy, WAF, MiB/s; or policy, pages a request, microseconds of one.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, f64, f64)> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let policy = fields.next()?;
        Some((policy, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

fn logged() -> impl Iterator<Item = (&'static str, f64, f64)> {
    rows(include_str!("logs.csv"))
}

fn requests() -> impl Iterator<Item = (&'static str, f64, f64)> {
    rows(include_str!("requests.csv"))
}

/// Pages of a request on each of these: as many as the logs' have at the WAF that comes of it. Half of what FlashAlloc's
/// host writes goes to objects, in requests of 1 MiB, and leaves so many for each of the others.
fn pages_a_request(policy: &str) -> [u64; FILLS.len()] {
    match policy {
        FLASHALLOC => [3, 3, 4, 4, 5, 7, 7, 8, 8],
        MULTI_STREAM => [9, 9, 11, 14, 16, 21, 22, 24, 24],
        _ => [6, 10, 15, 20, 24, 28, 28, 28, 28],
    }
}

/// Writes pieces of a range, each equally likely.
struct Uniform {
    first: u64,
    pieces: u64,
    piece: u64,
    stream: u16,
    left: u64,
    draw: Stream,
}

impl Source for Uniform {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            let offset = self.first + self.draw.below(self.pieces) * self.piece;
            out.push(write(offset, self.piece, self.stream));
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

impl Objects {
    /// Objects of `bytes` from `first` on, until so many bytes are written.
    fn new(first: u64, bytes: u64, written: u64, draw: Stream) -> Self {
        Self { first, objects: bytes / OBJECT, object: OBJECT, left: written / MOST, part: 0, at: 0, draw }
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

/// WAF, and microseconds of a host page, of the second half of a drive overwritten once: that of the `n`th share.
fn point(policy: &'static str, n: usize, seed: u64, stop: &AtomicBool) -> Result<(f64, f64), Error> {
    let written = overwritten(policy, n, seed, stop)?;
    let half = &written[written.len() / 2..];
    let sum = |f: fn(&Interval) -> u64| half.iter().map(f).sum::<u64>() as f64;
    let host = sum(|i| i.host);
    let pages = host / f64::from(drive(1, policy, Firmware::Logged)?.geometry.page_bytes);
    // As the firmware counts it: the metadata log is ours.
    Ok((1.0 + sum(|i| i.copied) / host, sum(|i| i.ns) / 1e3 / pages))
}

/// What is written while a drive of which the `n`th share holds data is overwritten once.
fn overwritten(policy: &'static str, n: usize, seed: u64, stop: &AtomicBool) -> Result<Vec<Interval>, Error> {
    let mut config: DeviceConfig = drive(1, policy, Firmware::Logged)?;
    config.geometry.blocks_per_plane = blocks(policy);
    // So little that the fullest drive copies as much as the logs'.
    config.op_ratio = match policy {
        MULTI_STREAM => 0.137,
        FLASHALLOC => 0.105,
        _ => 0.13,
    };
    let ssd = Ssd::new(&config, 0, seed).map_err(|e| Error::Input(e.to_string()))?;
    let (page, logical) = (u64::from(config.geometry.page_bytes), ssd.layout().logical_bytes);
    let block = page * u64::from(config.geometry.pages_per_block);
    let bytes = (logical as f64 * FILLS[n]) as u64 / (8 * block) * (8 * block);
    let pages = pages_a_request(policy)[n];
    let piece = page * pages;
    let uniform = |first: u64, bytes: u64, stream: u16, written: u64| Uniform {
        first,
        pieces: bytes / piece,
        piece,
        stream,
        left: written / piece,
        draw: Stream::new(seed, &format!("flashalloc calibration {stream}")),
    };
    let users = match policy {
        // Half of what the logs' host writes goes to objects.
        FLASHALLOC => {
            let half = bytes / 2;
            let objects = Objects::new(half, bytes - half, logical / 2, Stream::new(seed, OBJECTS));
            vec![
                User::closed("pages", 64, uniform(0, half, 0, logical / 2)),
                // One of these to 64 pages of the others.
                User::closed("objects", pages as u32, objects),
            ]
        }
        // RocksDB's levels have three lifetime hints (`CalculateSSTWriteHint` in its `db/column_family.cc`), MySQL none;
        // iostat has some 30 requests at a time.
        MULTI_STREAM => (0..4)
            .map(|n| User::closed("pages", 7, uniform(bytes / 4 * n, bytes / 4, n as u16, logical / 4)))
            .collect(),
        _ => vec![User::closed("pages", 64, uniform(0, bytes, 0, logical))],
    };
    let phases = [vec![User::closed("lays out", 8, InOrder { bytes, next: 0 })], users];
    replayed(ssd, &config, phases.into(), stop)
}

/// What is written in the last phase.
fn replayed(
    ssd: Ssd,
    config: &DeviceConfig,
    phases: Vec<Vec<User>>,
    stop: &AtomicBool,
) -> Result<Vec<Interval>, Error> {
    let last = phases.len() - 1;
    let address = Address::straight(config, ssd.layout().logical_sectors);
    let phases = phases.into_iter().map(|users| (Phase::of(users), address.clone()));
    let mut silent = |_: &Progress| {};
    let mut replayer = Replayer::new(ssd, Watch { stop, progress: &mut silent });
    if !replayer.run(phases.collect())? {
        return Err(Error::Interrupted);
    }
    Ok(intervals(&replayer.meter, config.geometry.page_bytes.into(), last))
}

/// Microseconds of a request of so many pages on a drive that has nothing to collect yet: of four instances' threads to
/// objects of their own, where requests are large and objects known, else of 64 at a time to anywhere.
fn request_us(policy: &'static str, pages: u64, seed: u64, stop: &AtomicBool) -> Result<f64, Error> {
    const THREADS: u64 = 4 * 6;
    let config = drive(1, policy, Firmware::Logged)?;
    let ssd = Ssd::new(&config, 0, seed).map_err(|e| Error::Input(e.to_string()))?;
    let (page, logical) = (u64::from(config.geometry.page_bytes), ssd.layout().logical_bytes);
    let (piece, written) = (page * pages, logical / 2);
    let draw = |n: u64| Stream::new(seed, &format!("{OBJECTS} {n}"));
    let users = if policy == FLASHALLOC && piece * 2 > MOST {
        let own = logical / THREADS / OBJECT * OBJECT;
        (0..THREADS)
            .map(|n| User::closed("objects", 3, Objects::new(n * own, own, written / THREADS, draw(n))))
            .collect()
    } else {
        let left = written / piece;
        let pieces = Uniform { first: 0, pieces: logical / piece, piece, stream: 0, left, draw: draw(0) };
        vec![User::closed("pieces", 64, pieces)]
    };
    let intervals = replayed(ssd, &config, vec![users], stop)?;
    let sum = |f: fn(&Interval) -> u64| intervals.iter().map(f).sum::<u64>() as f64;
    Ok(sum(|i| i.ns) / 1e3 / sum(|i| i.host) * piece as f64)
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

/// Logged points of one policy beside ours, on the line through our runs.
///
/// # Errors
/// As [`drive`].
pub fn points_of(policy: &'static str, seed: u64, stop: &AtomicBool) -> Result<Vec<Point>, Error> {
    let runs: Result<Vec<_>, Error> = (0..FILLS.len()).map(|n| point(policy, n, seed, stop)).collect();
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
    let jobs: Vec<_> =
        policies.iter().flat_map(|&policy| (0..FILLS.len()).map(move |n| (policy, n))).collect();
    let runs = bench.each(
        &jobs,
        |&(policy, n)| format!("calibration, {policy}, {:.0}% full", FILLS[n] * 100.0),
        |&(policy, n)| point(policy, n, bench.options.seed, bench.stop),
    )?;
    let of = policies.iter().zip(runs.chunks(FILLS.len()));
    Ok(of.flat_map(|(policy, runs)| beside(policy, runs)).collect())
}

/// What a request of the logs takes, beside ours: policy, pages, microseconds, ours.
pub type Size = (&'static str, f64, f64, f64);

/// All logged sizes.
///
/// # Errors
/// As [`drive`].
pub fn sizes(seed: u64, stop: &AtomicBool) -> Result<Vec<Size>, Error> {
    let size = |(policy, pages, us)| -> Result<Size, Error> {
        // Between two whole sizes, and 1 MiB at most.
        let whole = [f64::floor(pages), f64::ceil(pages)];
        let [low, high] = whole.map(|pages| request_us(policy, pages as u64, seed, stop));
        let (low, high) = (low?, high?);
        Ok((policy, pages, us, low + (high - low) * (pages - whole[0])))
    };
    requests().map(size).collect()
}

/// The same as a table.
pub(super) fn sizes_table(sizes: &[Size]) -> Table {
    let columns = ["policy", "pages a request", "us in the logs", "us", "ratio"];
    let mut table = Table::new("Calibration: what a request takes while nothing is copied", &columns);
    for &(policy, pages, logged, ours) in sizes {
        table.rows.push(vec![
            policy.into(),
            pages.into(),
            logged.into(),
            ours.into(),
            (ours / logged).into(),
        ]);
    }
    table
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

/// Four instances on FlashAlloc's board until nine tenths of what they ever write are written: the authors' log beside
/// ours.
pub(super) fn four_instances(ours: &Outcome) -> Table {
    let columns = ["run", "seconds", "MiB/s", "written, to the flash's size", "WAF as the firmware counts"];
    let mut table = Table::new("Four RocksDB instances until the volume is full: the log and ours", &columns);
    let mut row = vec!["log".into()];
    let logged = include_str!("four.csv").lines().nth(1).unwrap_or_default().split(',');
    row.extend(logged.map(|field| Cell::Number(field.parse().ok())));
    table.rows.push(row);
    let most = (ours.bytes() as f64 * 0.9) as u64;
    let (mut ns, mut written) = (0, 0);
    for part in &ours.written {
        if written >= most {
            break;
        }
        (ns, written) = (ns + part.ns, written + part.host);
    }
    let seconds = ns as f64 / 1e9;
    let writes = ours.bytes() as f64 / ours.flash as f64;
    let figures = [seconds, written as f64 / f64::from(1 << 20) / seconds, writes, ours.waf_of_firmware()];
    table.rows.push([Cell::from("ours")].into_iter().chain(figures.map(Cell::from)).collect());
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
        assert_eq!(requests().count(), include_str!("requests.csv").lines().count() - 1);
        let points = [(1.0, 10.0), (2.0, 20.0), (3.0, 60.0)];
        let at = [0.5, 1.0, 1.5, 2.5, 4.0].map(|waf| between(&points, waf));
        assert_eq!(at, [Some(10.0), Some(10.0), Some(15.0), Some(40.0), None]);
        assert_eq!(between(&points[1..], 1.0), None);
    }

    #[test]
    fn intervals_follow_each_other_also_where_no_request_ended() {
        // The host stands still while dies copy one after the other.
        let written = overwritten(FLASHALLOC, FILLS.len() - 1, 1, &AtomicBool::new(false)).unwrap();
        assert!(written.windows(2).all(|pair| pair[1].from_ns == pair[0].from_ns + pair[0].ns));
        assert!(written.iter().any(|interval| interval.host == 0));
    }
}
