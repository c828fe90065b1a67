//! SSD-iq's workloads (Haas et al.): what measured drives of several makers were written with.
//!
//! All but the last are closed loops of writes over the first `used` of the drive, after a `fill` of the same range.
//! - `sequential`: 512 KiB, one in flight. `permutation`: 4 KiB, every block once a pass, in random order.
//! - `uniform`: 4 KiB, with replacement. `zipf`: exact, ranks scattered over the range (`scatter=0`: rank = address).
//! - `zones`: shares of the writes to shares of the space, `WRITES/SPACE:...` as fio has it, scattered; a share of 0
//!   is written by the fill alone.
//! - `seq-zones`: 512 KiB, one in flight. A write picks one of `active` open zones and appends to it; a full zone is
//!   replaced by any that is not open. What is left below one zone keeps its fill. A zone is discarded when it is
//!   opened (`discard=0`: it is not). The published generator has that switched off, but in the runs its loop stood still
//!   for 3 ms when a zone of 2 GiB was opened, 4.5 at 4 GiB, 7.4 at 8, 11.5 at 16, and at most 1.4 in minutes in which
//!   none was (cmax of the Micron's iob-stats in paper/finalwa28 and finalwa30).
//! - `load`: a probe of 10,000 requests a second at fixed gaps, half of them reads, and arrivals at exponential gaps,
//!   99% writes, that bring the writes to some `rate` a second; after a fill and three overwrites at random.

use nandle_random::{Alias, Exponential, Permutation, Stream, Zipf};

use super::options::{Options, share};
use super::writers::{Appends, Place, Writes, write};
use super::{Entry, Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "ssdiq-sequential[:used=SHARE,writes=X]",
        line: "512 KiB writes in order over the used range, one in flight",
        make,
    },
    Entry {
        name: "ssdiq-permutation[:used=SHARE,fill=HOW,writes=X,depth=N]",
        line: "4 KiB writes, every block once a pass in random order, 512 in flight",
        make,
    },
    Entry {
        name: "ssdiq-uniform[:used=SHARE,fill=HOW,writes=X,depth=N]",
        line: "sequential fill, then 4 KiB writes, uniform with replacement, 512 in flight, 4 times the used range",
        make,
    },
    Entry {
        name: "ssdiq-zipf[:theta=T,scatter=0|1,used=SHARE,fill=HOW,writes=X,depth=N]",
        line: "the same under Zipf's law (theta 0.8), its ranks scattered over the range",
        make,
    },
    Entry {
        name: "ssdiq-zones[:zones=WRITES/SPACE:...,used=SHARE,fill=HOW,writes=X,depth=N]",
        line: "the same with shares of the writes to shares of the space (95/5:5/95), scattered",
        make,
    },
    Entry {
        name: "ssdiq-seq-zones[:active=N,zone=SIZE,discard=0|1,used=SHARE,writes=X]",
        line: "sequential fill, then 512 KiB appends to open zones; full ones are replaced at random, opened ones discarded",
        make,
    },
    Entry {
        name: "ssdiq-load[:rate=N,writes=X]",
        line: "fill, three random overwrites, then 4 KiB requests: a probe's 5,000 reads and 5,000 writes a second, and N - 5,000 others, 1% reads",
        make,
    },
];

const SMALL: u64 = 4096;
const LARGE: u64 = 512 << 10;
/// Arrivals of the probe, a second.
const PROBE: f64 = 10_000.0;
/// Share of writes among the other arrivals.
const WRITES: f64 = 0.99;

/// Bytes of a small block.
fn small(target: &Target) -> u64 {
    SMALL.max(u64::from(target.sector_bytes))
}

fn make(name: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let kind = name.strip_prefix("ssdiq-").unwrap_or(name);
    let appends = kind == "seq-zones" || kind == "sequential";
    let mut options = Options::new(name, argument)?;
    let used = options.share("used", 1.0)?;
    let small = small(target);
    let block =
        options.bytes("block", if appends { LARGE } else { small }, u64::from(target.sector_bytes))?;
    let depth = options.count("depth", if appends { 1 } else { 512 }, 65_536)?;
    let usual = if appends || kind == "permutation" { 1.0 } else { 4.0 };
    let writes = options.number("writes", if kind == "seq-zones" { 4.0 } else { usual }, 0.001, 100_000.0)?;
    let whole = target.logical_bytes;
    let range = (whole as f64 * used) as u64;
    let blocks = (range.min(whole) / block).max(1);
    if block > whole {
        return Err(options.refused(
            "block",
            &block.to_string(),
            &format!("at most the drive's {whole} bytes"),
        ));
    }
    let usual_fill =
        if kind == "sequential" || kind == "permutation" { Fill::None } else { Fill::Sequential };
    let fill = options.parsed("fill", usual_fill, "none, sequential or permuted", Fill::named)?;
    let mut stream = Stream::new(target.seed, &format!("workload/{name}"));
    if kind == "load" {
        let rate = options.number("rate", 50_000.0, PROBE / 2.0 + 1.0, 1e8)?;
        options.end()?;
        return Ok(load(rate, writes, target, range, stream));
    }
    let place = match kind {
        "sequential" => Place::InOrder { next: 0, blocks },
        "permutation" => Place::passes(blocks, &mut stream),
        "uniform" => Place::Uniform(blocks),
        "zipf" => {
            let theta = options.number("theta", 0.8, 0.0, 100.0)?;
            let scatter = options.number("scatter", 1.0, 0.0, 1.0)? > 0.0;
            Place::Zipf(Zipf::new(blocks, theta), scatter.then(|| Permutation::new(blocks, &mut stream)))
        }
        "zones" => {
            let expected = "shares of the writes and of the space, each adding up to 100, such as 95/5:5/95";
            let text = options.text("zones").unwrap_or("95/5:5/95");
            let (weights, spans) =
                zones(text, blocks).ok_or_else(|| options.refused("zones", text, expected))?;
            let alias = Alias::new(&weights).ok_or_else(|| options.refused("zones", text, expected))?;
            Place::Zones(alias, spans, Permutation::new(blocks, &mut stream))
        }
        _ => return seq_zones(options, target, (range, block), writes, (fill, depth), stream),
    };
    options.end()?;
    let count = target.requests.unwrap_or(((blocks as f64 * writes).round() as u64).max(1));
    let source = Writes { stream, place, base: 0, block_bytes: block, left: count, handle: 0 };
    let mut phases = fill.phases(range, target);
    phases.push(Phase::new(Replay::Closed { iodepth: depth }, source).counted(count));
    Ok(Workload { name: String::new(), phases, notes: vec![] })
}

/// Appends to open zones.
fn seq_zones(
    mut options: Options<'_>,
    target: &Target,
    (range, block): (u64, u64),
    writes: f64,
    (fill, depth): (Fill, u32),
    stream: Stream,
) -> Result<Workload, Error> {
    let active = options.count("active", 1, 4096)?;
    let usual = (range / 64 / block).max(1) * block;
    let zone = options.bytes("zone", usual, block)?;
    let discard = options.number("discard", 1.0, 0.0, 1.0)? > 0.0;
    let zones = range / zone;
    if zones <= u64::from(active) {
        let expected = format!("more than {active} zones in {range} bytes, so smaller ones");
        return Err(options.refused("zone", &zone.to_string(), &expected));
    }
    options.end()?;
    let notes = vec![format!("{zones} zones of {zone} bytes, {active} open")];
    let written = (range / block) as f64 * writes;
    // A discard a zone comes on top of its writes.
    let discards = if discard { (written / (zone / block) as f64).ceil() } else { 0.0 };
    let count = target.requests.unwrap_or(((written + discards).round() as u64).max(1));
    let mut appends = Appends::new(stream, zones, zone / block, block, active);
    (appends.discard, appends.left) = (discard, count);
    let mut phases = fill.phases(range, target);
    phases.push(Phase::new(Replay::Closed { iodepth: depth }, appends).counted(count));
    Ok(Workload { name: String::new(), phases, notes })
}

/// What is written before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    None,
    Sequential,
    /// The same, then every block once in random order.
    Permuted,
}

impl Fill {
    fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "sequential" => Some(Self::Sequential),
            "permuted" => Some(Self::Permuted),
            _ => None,
        }
    }

    fn phases(self, range: u64, target: &Target) -> Vec<Phase> {
        let small = small(target);
        let mut phases = vec![];
        if self != Self::None {
            let large = LARGE.max(small).min(range);
            let blocks = range.div_ceil(large);
            let source = super::simple::Sequential::new(range / small * small, large, blocks, 0);
            phases.push(Phase::new(Replay::Closed { iodepth: 1 }, source).counted(blocks));
        }
        if self == Self::Permuted {
            let mut stream = Stream::new(target.seed, "workload/ssdiq fill");
            let blocks = range / small;
            let place = Place::passes(blocks, &mut stream);
            let source = Writes { stream, place, base: 0, block_bytes: small, left: blocks, handle: 0 };
            phases.push(Phase::new(Replay::Closed { iodepth: 256 }, source).counted(blocks));
        }
        phases
    }
}

/// Writes, and first block and blocks, of each zone.
type Zones = (Vec<f64>, Vec<(u64, u64)>);

fn zones(text: &str, blocks: u64) -> Option<Zones> {
    let (mut weights, mut spans, mut from, mut all) = (vec![], vec![], 0.0, 0.0);
    for part in text.split(':') {
        let (writes, space) = part.split_once('/')?;
        let (writes, space) = (share(writes)?, share(space)?);
        if !(0.0..=100.0).contains(&writes) || !(0.0..=100.0).contains(&space) {
            return None;
        }
        let first = (blocks as f64 * from / 100.0).round() as u64;
        from += space;
        all += writes;
        let end = ((blocks as f64 * from / 100.0).round() as u64).min(blocks);
        if end > first {
            weights.push(writes);
            spans.push((first, end - first));
        } else if writes > 0.0 {
            return None;
        }
    }
    ((from - 100.0_f64).abs() < 1e-6 && (all - 100.0_f64).abs() < 1e-6).then_some((weights, spans))
}

/// The open-loop experiment.
fn load(rate: f64, writes: f64, target: &Target, range: u64, stream: Stream) -> Workload {
    let small = small(target);
    let blocks = range / small;
    let mut phases = Fill::Sequential.phases(range, target);
    let overwrites = 3 * blocks;
    let aged = Stream::new(target.seed, "workload/ssdiq ageing");
    let place = Place::Uniform(blocks);
    let source = Writes { stream: aged, place, base: 0, block_bytes: small, left: overwrites, handle: 0 };
    phases.push(Phase::new(Replay::Closed { iodepth: 512 }, source).counted(overwrites));
    let count = target.requests.unwrap_or((blocks as f64 * writes) as u64);
    let arrivals = Arrivals {
        stream,
        gap: Exponential { mean: 1e9 / (rate - PROBE / 2.0) },
        next_ns: 0.0,
        probe_ns: 0.0,
        blocks,
        block_bytes: small,
        left: count,
    };
    phases.push(Phase::new(Replay::Open { time_scale: 1.0 }, arrivals).counted(count));
    Workload { name: String::new(), phases, notes: vec![] }
}

/// Two streams of arrivals by time: exponential gaps, and a probe's fixed ones.
struct Arrivals {
    stream: Stream,
    gap: Exponential,
    next_ns: f64,
    probe_ns: f64,
    blocks: u64,
    block_bytes: u64,
    left: u64,
}

impl Source for Arrivals {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            let probes = self.probe_ns <= self.next_ns;
            let (at, writes) = if probes { (self.probe_ns, 0.5) } else { (self.next_ns, WRITES) };
            if probes {
                self.probe_ns += 1e9 / PROBE;
            } else {
                self.next_ns += self.gap.sample(&mut self.stream);
            }
            let offset = self.stream.below(self.blocks) * self.block_bytes;
            let op = if self.stream.chance(writes) { Op::Write } else { Op::Read };
            out.push(Request { time_ns: at as u64, op, ..write(offset, self.block_bytes, 0) });
        }
        Ok(())
    }
}
