//! The streams that newcomers ask for first, and the three that peers were measured with.

use super::{Entry, Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::Stream;

/// Requests outstanding in the closed-loop workloads.
const IODEPTH: u32 = 32;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "common",
        line: "1,000,000 requests of 4 KiB, 30% reads, uniform over 60% of the device, one every 20 us",
        make: common,
    },
    Entry {
        name: "gc20",
        line: "sequential fill, then 4 device-fulls of random one-page overwrites, one every 200 us (for 20% spare)",
        make: gc,
    },
    Entry {
        name: "gc10",
        line: "the same requests as gc20, by the name used with 10% of raw spare",
        make: gc,
    },
    Entry {
        name: "random-write",
        line: "1,000,000 random 4 KiB writes over the whole device, 32 outstanding",
        make: closed,
    },
    Entry {
        name: "sequential-write",
        line: "128 KiB writes from the first byte to the last, 32 outstanding, repeated on demand",
        make: closed,
    },
    Entry {
        name: "sequential-read",
        line: "sequential fill, then 128 KiB reads from the first byte to the last, 32 outstanding",
        make: closed,
    },
    Entry {
        name: "random-read",
        line: "sequential fill, then 1,000,000 random 4 KiB reads, 32 outstanding",
        make: closed,
    },
    Entry {
        name: "mixed",
        line: "sequential fill, then 1,000,000 random 4 KiB requests, 70% reads, 32 outstanding",
        make: closed,
    },
];

fn common(_: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let requests = target.requests.unwrap_or(1_000_000);
    let unit = 4096.max(u64::from(target.sector_bytes));
    let random = Random {
        stream: Stream::new(target.seed, "workload/common"),
        slots: (target.logical_bytes / 10 * 6 / unit).max(1),
        unit,
        read_share: share(0.3),
        gap_ns: 20_000,
        next_ns: 0,
        left: requests,
    };
    Ok(Workload {
        name: String::new(),
        phases: vec![Phase::new(Replay::Open { time_scale: 1.0 }, random).counted(requests)],
        notes: vec![],
    })
}

fn gc(_: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let unit = u64::from(target.page_bytes);
    let pages = target.logical_bytes / unit;
    let overwrites = target.requests.unwrap_or(4 * pages);
    let open = Replay::Open { time_scale: 1.0 };
    let random = Random {
        // One name for both: gc20 and gc10 differ by the device, not by the requests.
        stream: Stream::new(target.seed, "workload/gc"),
        slots: pages,
        unit,
        read_share: 0,
        gap_ns: 200_000,
        next_ns: 0,
        left: overwrites,
    };
    Ok(Workload {
        name: String::new(),
        phases: vec![
            Phase::new(open, Sequential::new(target.logical_bytes, unit, pages, 200_000)).counted(pages),
            Phase::new(open, random).counted(overwrites),
        ],
        notes: vec![],
    })
}

fn closed(name: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let replay = Replay::Closed { iodepth: IODEPTH };
    let large = (128 << 10).max(u64::from(target.page_bytes)).min(target.logical_bytes);
    let once = target.logical_bytes.div_ceil(large);
    let sequential =
        |count| Phase::new(replay, Sequential::new(target.logical_bytes, large, count, 0)).counted(count);
    if name == "sequential-write" || name == "sequential-read" {
        let count = target.requests.unwrap_or(once);
        let phases = if name == "sequential-write" {
            vec![sequential(count)]
        } else {
            let reads = Sequential::new(target.logical_bytes, large, count, 0).reading();
            vec![sequential(once), Phase::new(replay, reads).counted(count)]
        };
        return Ok(Workload { name: String::new(), phases, notes: vec![] });
    }
    let reads = match name {
        "random-write" => 0.0,
        "random-read" => 1.0,
        _ => 0.7,
    };
    let unit = 4096.max(u64::from(target.sector_bytes));
    let requests = target.requests.unwrap_or(1_000_000);
    let random = Random {
        stream: Stream::new(target.seed, "workload/simple"),
        slots: target.logical_bytes / unit,
        unit,
        read_share: share(reads),
        gap_ns: 0,
        next_ns: 0,
        left: requests,
    };
    let mut phases = vec![Phase::new(replay, random).counted(requests)];
    if reads > 0.0 {
        phases.insert(0, sequential(once));
    }
    Ok(Workload { name: String::new(), phases, notes: vec![] })
}

/// A probability as a threshold on 32 random bits.
fn share(p: f64) -> u64 {
    (p * 4_294_967_296.0).round() as u64
}

/// Aligned requests of one size at uniformly random places, at a constant rate.
struct Random {
    stream: Stream,
    slots: u64,
    unit: u64,
    /// Of 2^32.
    read_share: u64,
    gap_ns: u64,
    next_ns: u64,
    left: u64,
}

impl Source for Random {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| {
            let read = self.stream.word() >> 32 < self.read_share;
            let time_ns = self.next_ns;
            self.next_ns = time_ns.saturating_add(self.gap_ns);
            Request {
                time_ns,
                offset: self.stream.below(self.slots) * self.unit,
                bytes: self.unit,
                object: 0,
                stream: 0,
                op: if read { Op::Read } else { Op::Write },
                fua: false,
            }
        }));
        Ok(())
    }
}

/// Requests from the first byte to the last, then again from the first.
pub(super) struct Sequential {
    op: Op,
    end: u64,
    unit: u64,
    at: u64,
    gap_ns: u64,
    next_ns: u64,
    left: u64,
}

impl Sequential {
    /// `count` writes of `unit` bytes over `0..end`, one every `gap_ns`.
    pub(super) fn new(end: u64, unit: u64, count: u64, gap_ns: u64) -> Self {
        Self { op: Op::Write, end, unit, at: 0, gap_ns, next_ns: 0, left: count }
    }

    /// The same as reads.
    fn reading(self) -> Self {
        Self { op: Op::Read, ..self }
    }
}

impl Source for Sequential {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| {
            let request = Request {
                time_ns: self.next_ns,
                offset: self.at,
                bytes: self.unit.min(self.end - self.at),
                object: 0,
                stream: 0,
                op: self.op,
                fua: false,
            };
            self.next_ns = self.next_ns.saturating_add(self.gap_ns);
            self.at += request.bytes;
            if self.at >= self.end {
                self.at = 0;
            }
            request
        }));
        Ok(())
    }
}
