//! WARP's workloads for drives with placement (FDP): one stream that covers the drive pass after pass, and three
//! streams side by side, each as fast as its loop goes or, with `shares`, none ahead of its share of the bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nandle_random::{Alias, FioZipf, Stream};

use super::options::Options;
use super::writers::{Place, Writes, write};
use super::{Entry, Phase, Replay, Target, User, Workload};
use crate::{Error, Request, Source, Turn};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "warp-passes[:writes=X,block=SIZE,depth=N]",
        line: "128 KiB writes, every block once a pass in a fresh random order, 128 in flight, 8 passes",
        make: passes,
    },
    Entry {
        name: "warp-streams[:handles=none|shared|separate,law=zipf:T|zoned|uniform,shares=S/J/R,writes=X]",
        line: "three closed loops after a fill: sequential 128 KiB and skewed 4 KiB on 90%, random 4 KiB on 10%",
        make: streams,
    },
];

const LARGE: u64 = 128 << 10;
const SMALL: u64 = 4096;

fn passes(name: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let mut options = Options::new(name, argument)?;
    let block = options.bytes("block", LARGE, u64::from(target.sector_bytes))?;
    let depth = options.count("depth", 128, 65_536)?;
    let writes = options.number("writes", 8.0, 0.001, 100_000.0)?;
    options.end()?;
    let mut stream = Stream::new(target.seed, "workload/warp-passes");
    let blocks = (target.logical_bytes / block).max(1);
    let place = Place::passes(blocks, &mut stream);
    let count = target.requests.unwrap_or(((blocks as f64 * writes) as u64).max(1));
    let source = Writes { stream, place, base: 0, block_bytes: block, left: count, handle: 0 };
    let phases = vec![Phase::new(Replay::Closed { iodepth: depth }, source).counted(count)];
    Ok(Workload { name: String::new(), phases, notes: vec![] })
}

/// Where the skewed stream writes.
#[derive(Clone, Copy, PartialEq)]
enum Law {
    Uniform,
    Zipf(f64),
    /// 80% of the writes to the first fifth, 10% to the second, 10% to the rest.
    Zoned,
}

impl Law {
    fn named(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "uniform" => Some(Self::Uniform),
            None if text == "zoned" => Some(Self::Zoned),
            Some(("zipf", theta)) => {
                let theta: f64 = theta.parse().ok()?;
                (theta > 0.0 && theta < 100.0 && theta != 1.0).then_some(Self::Zipf(theta))
            }
            _ => None,
        }
    }
}

/// Draws a block by its law.
enum Skew {
    Place(Place),
    Zipf(Box<FioZipf>),
    Zoned(Alias, [(u64, u64); 3]),
}

impl Skew {
    fn new(law: Law, blocks: u64, stream: &mut Stream) -> Result<Self, Error> {
        Ok(match law {
            Law::Uniform => Self::Place(Place::Uniform(blocks)),
            Law::Zipf(theta) => Self::Zipf(Box::new(FioZipf::new(blocks, theta, stream))),
            Law::Zoned => {
                let (a, b) = (blocks / 5, blocks / 5 * 2);
                let alias = Alias::new(&[80.0, 10.0, 10.0]);
                let alias = alias.ok_or_else(|| Error::Input("no zone has any writes".into()))?;
                Self::Zoned(alias, [(0, a), (a, b - a), (b, blocks - b)])
            }
        })
    }

    fn next(&mut self, stream: &mut Stream) -> u64 {
        match self {
            Self::Place(place) => place.next(stream),
            Self::Zipf(law) => law.sample(stream),
            Self::Zoned(zones, spans) => {
                let (first, blocks) = spans[zones.sample(stream)];
                first + stream.below(blocks)
            }
        }
    }
}

/// What all three may still write: bytes, and requests; and what they have written.
struct Budget {
    bytes: AtomicU64,
    requests: AtomicU64,
    written: AtomicU64,
}

/// How far a stream may be ahead of its share, in bytes.
const AHEAD: f64 = 1_048_576.0;

impl Budget {
    /// Whether the largest of the three writes finds no room.
    fn is_spent(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < LARGE || self.requests.load(Ordering::Relaxed) == 0
    }

    /// Whether there is room for a write; it is taken.
    fn take(&self, bytes: u64) -> bool {
        let left = |counter: &AtomicU64, n: u64| {
            counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(n)).is_ok()
        };
        let taken = left(&self.bytes, bytes) && left(&self.requests, 1);
        self.written.fetch_add(if taken { bytes } else { 0 }, Ordering::Relaxed);
        taken
    }
}

/// One of the three.
struct Streamed {
    stream: Stream,
    skew: Skew,
    base: u64,
    block_bytes: u64,
    handle: u16,
    budget: Arc<Budget>,
    /// Share of all bytes that it may have, if its speed alone does not decide.
    share: Option<f64>,
    written: u64,
}

impl Source for Streamed {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            if !self.budget.take(self.block_bytes) {
                break;
            }
            self.written += self.block_bytes;
            let at = self.base + self.skew.next(&mut self.stream) * self.block_bytes;
            out.push(write(at, self.block_bytes, self.handle));
        }
        Ok(())
    }

    fn step(&mut self, _: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        let all = self.budget.written.load(Ordering::Relaxed) as f64;
        if self.share.is_some_and(|share| self.written as f64 > share * all + AHEAD) {
            // Where there is no room for another large write nobody goes on.
            return Ok(if self.budget.is_spent() { Turn::End } else { Turn::Wait });
        }
        let before = out.len();
        self.fill(out, 1)?;
        Ok(if out.len() > before { Turn::Requests } else { Turn::End })
    }
}

/// `60/20/20`, as shares of 1.
fn shares(text: &str) -> Option<[f64; 3]> {
    let parts: Option<Vec<f64>> = text.split('/').map(|part| part.parse().ok()).collect();
    let parts: [f64; 3] = parts?.try_into().ok()?;
    let whole = (parts.iter().sum::<f64>() - 100.0).abs() < 1e-6 && parts.iter().all(|p| *p > 0.0);
    whole.then(|| parts.map(|p| p / 100.0))
}

fn streams(name: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let mut options = Options::new(name, argument)?;
    let handles = options.parsed("handles", [0, 1, 2], "none, shared or separate", |text| match text {
        "none" => Some([0, 0, 0]),
        "shared" => Some([0, 1, 0]),
        "separate" => Some([0, 1, 2]),
        _ => None,
    })?;
    let expected = "uniform, zoned or zipf:THETA with a THETA above 0 other than 1";
    let law = options.parsed("law", Law::Zipf(1.2), expected, Law::named)?;
    let writes = options.number("writes", 8.0, 0.001, 100_000.0)?;
    let expected = "shares of the bytes of S, J and R that add up to 100, such as 60/20/20";
    let shares = options.parsed("shares", None, expected, |text| shares(text).map(Some))?;
    let share = |of: usize| shares.map(|shares: [f64; 3]| shares[of]);
    options.end()?;
    let small = SMALL.max(u64::from(target.sector_bytes));
    let large = LARGE.max(small).min(target.logical_bytes / 16);
    let border = target.logical_bytes * 9 / 10 / large * large;
    let (first, last) = (border / small, (target.logical_bytes - border) / small);
    let draw = |of: &str| Stream::new(target.seed, &format!("workload/warp-streams/{of}"));
    let in_order = Place::InOrder { next: 0, blocks: border / large };
    let fill = |of, place, base, block_bytes, left, handle| Writes {
        stream: draw(of),
        place,
        base,
        block_bytes,
        left,
        handle,
    };
    let s = fill("fill S", in_order, 0, large, border / large, handles[0]);
    let r = fill("fill R", Place::Uniform(last), border, small, last, handles[1]);
    let preparation = Phase::of(vec![User::closed("S", 128, s), User::closed("R", 128, r)]);
    let budget = Arc::new(Budget {
        bytes: AtomicU64::new((target.logical_bytes as f64 * writes) as u64),
        requests: AtomicU64::new(target.requests.unwrap_or(u64::MAX)),
        written: AtomicU64::new(0),
    });
    let streamed = |of: &str, skew, base, block_bytes, handle| Streamed {
        share: share(["S", "J", "R"].iter().position(|name| *name == of).unwrap_or(0)),
        written: 0,
        stream: draw(of),
        skew,
        base,
        block_bytes,
        handle,
        budget: Arc::clone(&budget),
    };
    let order = Skew::Place(Place::InOrder { next: 0, blocks: border / large });
    let skew = Skew::new(law, first, &mut draw("offset"))?;
    let users = vec![
        User::closed("S", 1, streamed("S", order, 0, large, handles[0])),
        User::closed("J", 32, streamed("J", skew, 0, small, handles[2])),
        User::closed("R", 32, streamed("R", Skew::Place(Place::Uniform(last)), border, small, handles[1])),
    ];
    let measured = Phase { requests: target.requests, ..Phase::of(users) };
    Ok(Workload { name: String::new(), phases: vec![preparation, measured], notes: vec![] })
}
