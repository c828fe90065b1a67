//! A synthetic twin of any trace: its statistics ([`fit`]), small enough to publish, and requests
//! drawn from them ([`Fitted::workload`]).
//!
//! Kept: the mix of operations; the joint distribution of size and start within [`GRANULE`] (so the
//! partial, unaligned and across-page shares at every page size up to that); how often an extent
//! comes again, and whether old or recent ones do; how often a new extent lies beside or on earlier data;
//! how long sequential runs are, and how many of them go over fresh space; the distribution of gaps. Lost: where on the device things
//! lie (so that partial updates, which need a neighbour in the page, are off by up to some 15 points
//! where those neighbours have a system), correlations between gaps (bursts of bursts), and phases of the workload.

mod entering;
mod generate;
mod stroke;
mod touched;

use crate::{Error, Op, Request, Source};
use nandle_random::math::log2;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use touched::{Found, PAGE, Touched};

pub use touched::GRANULE;

/// Kinds kept for an operation; rarer ones are merged by size.
const MAX_KINDS: usize = 1024;
/// Extents remembered while fitting; later new ones count as never repeated.
const MAX_EXTENTS: usize = 1 << 22;
/// Sizes of sequential requests kept.
const MAX_SIZES: usize = 256;
/// Kinds of runs from which on their sizes are not told apart.
const MAX_RUNS: usize = 256;
/// Sizes kept of the runs of one length.
const MAX_RUN_SIZES: usize = 64;

/// A trace's statistics. Serialises to TOML (`nandle trace fit`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// What was fitted.
    pub name: String,
    /// Requests in the trace.
    pub requests: u64,
    /// Distinct granules of 16 KiB touched, in bytes.
    pub footprint_bytes: u64,
    /// Distinct pages of 4 KiB touched, in bytes; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched_bytes: Option<u64>,
    /// Distinct pages of 4 KiB written, in bytes; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Share of flushes of all requests.
    #[serde(default)]
    pub flush_share: f64,
    /// Gaps between requests: a histogram, 16 bins an octave.
    pub gaps: Vec<Gap>,
    /// The reads.
    #[serde(default)]
    pub read: Option<Shape>,
    /// The writes.
    #[serde(default)]
    pub write: Option<Shape>,
    /// The trims.
    #[serde(default)]
    pub trim: Option<Shape>,
}

/// One bin of the gap distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// Mean of the bin, nanoseconds.
    pub mean_ns: f64,
    /// Share of the gaps in it.
    pub share: f64,
}

/// How one operation's requests look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Of all requests.
    pub share: f64,
    /// Of these: with force unit access.
    #[serde(default)]
    pub fua_share: f64,
    /// Of these: starting where the one before (of the same operation) ended.
    pub sequential_share: f64,
    /// Mean place of a repeated extent among all of its kind in the order of their first use: 0 the
    /// oldest, 1 the newest, 0.5 no preference.
    pub repeat_position: f64,
    /// How many sequential requests follow one that is not; absent in older files.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// Sizes of the sequential requests.
    #[serde(default)]
    pub sequential: Vec<Size>,
    /// The others.
    #[serde(default)]
    pub kinds: Vec<Kind>,
}

/// Runs of about one length. Requests without a sequential one behind them have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Mean of the sequential requests in one.
    pub requests: f64,
    /// Share of the pages of 4 KiB that these touched and nothing before.
    pub fresh: f64,
    /// The largest power of two up to 16 KiB that divides where they begin.
    pub align: u64,
    /// Share of the requests that are not sequential: behind so many comes such a run.
    pub share: f64,
    /// Their sizes.
    pub sizes: Vec<Size>,
}

/// A size and its share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// Share of the sequential requests.
    pub share: f64,
}

/// Requests of one size and one start within a granule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Bytes.
    pub bytes: u64,
    /// Start within the granule, bytes; absent where rare kinds were merged: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// Share of the requests that are not sequential.
    pub share: f64,
    /// Of these: the very extent was read, written or trimmed before.
    pub repeat: f64,
    /// Of the others: the granule was touched before.
    pub join: f64,
    /// Share of the others' pages of 4 KiB that nothing touched before; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<f64>,
    /// Share of all their pages that no request of this operation touched before; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
}

/// Counts for one kind.
#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    repeats: u64,
    joins: u64,
    /// Pages of all of them, and of those that were no repeats.
    pages: u64,
    new_pages: u64,
    fresh: u64,
    first: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.repeats += other.repeats;
        self.joins += other.joins;
        self.pages += other.pages;
        self.new_pages += other.new_pages;
        self.fresh += other.fresh;
        self.first += other.first;
    }
}

/// Counts for one operation.
#[derive(Default)]
struct Tally {
    requests: u64,
    fua: u64,
    sequential: u64,
    /// Where the last request ended.
    end: Option<u64>,
    sizes: HashMap<u64, u64>,
    /// The sequential requests of the run that goes on.
    run: Runs,
    /// By bin of the length and quarter of the fresh share.
    runs: BTreeMap<RunKind, Runs>,
    kinds: HashMap<(u64, u32), Count>,
    positions: f64,
    placed: u64,
}

/// Runs that are counted together: bin of the length, quarter of the fresh share, alignment of the
/// start, and the size where all requests of a longer run have the same, or all but one of 64.
type RunKind = (u32, u64, u64, u64);

/// Sequential requests of one run or of several.
#[derive(Default)]
struct Runs {
    align: u64,
    runs: u64,
    requests: u64,
    pages: u64,
    fresh: u64,
    sizes: HashMap<u64, u64>,
}

impl Tally {
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.requests == 0 {
            return;
        }
        // Four bins an octave; short ones have a bin for each length.
        let bin = (log2(run.requests as f64) * 4.0) as u32;
        let quarter = (4 * run.fresh + run.pages / 2) / run.pages;
        // A size drawn anew for each request would move all behind it off their borders.
        let (size, most) = run
            .sizes
            .iter()
            .map(|(&bytes, &count)| (bytes, count))
            .max_by_key(|s| (s.1, s.0))
            .unwrap_or_default();
        let same = run.requests >= 4 && 64 * most >= 63 * run.requests && self.runs.len() < MAX_RUNS;
        let size = if same { size } else { 0 };
        let sum = self.runs.entry((bin, quarter, run.align, size)).or_default();
        sum.runs += 1;
        sum.align = run.align;
        sum.requests += run.requests;
        sum.pages += run.pages;
        sum.fresh += run.fresh;
        for (bytes, count) in run.sizes {
            *sum.sizes.entry(if same { size } else { bytes }).or_default() += count;
        }
    }
}

/// The statistics of all requests of a source.
///
/// # Errors
/// What reading the source fails with, or that it is empty.
pub fn fit(source: &mut dyn Source, name: &str) -> Result<Fitted, Error> {
    let mut fitter = Fitter::default();
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        source.fill(&mut chunk, 4096)?;
        if chunk.is_empty() {
            break;
        }
        chunk.iter().for_each(|request| fitter.add(request));
    }
    if fitter.requests == 0 {
        return Err(Error::Input(format!("{name} holds no request: nothing to fit")));
    }
    Ok(fitter.finish(name))
}

#[derive(Default)]
struct Fitter {
    requests: u64,
    flushes: u64,
    last_ns: Option<u64>,
    /// Bin to count and sum.
    gaps: HashMap<u32, (u64, f64)>,
    /// Read, write, trim.
    tallies: [Tally; 3],
    /// Extent to its place among those of its kind, and how many a kind has.
    extents: HashMap<(u64, u64), u64>,
    per_kind: HashMap<(u64, u32), u64>,
    touched: Touched,
}

/// Bin of a gap: 16 an octave.
fn bin(gap_ns: u64) -> u32 {
    if gap_ns == 0 { 0 } else { 1 + (log2(gap_ns as f64) * 16.0) as u32 }
}

/// The largest power of two up to a granule that divides an offset.
fn align(offset: u64) -> u64 {
    1 << offset.trailing_zeros().min(GRANULE.trailing_zeros())
}

impl Fitter {
    fn add(&mut self, request: &Request) {
        self.requests += 1;
        if let Some(last) = self.last_ns {
            let gap = request.time_ns.saturating_sub(last);
            let entry = self.gaps.entry(bin(gap)).or_default();
            *entry = (entry.0 + 1, entry.1 + gap as f64);
        }
        self.last_ns = Some(request.time_ns);
        let which = match request.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim => 2,
            Op::Flush => {
                self.flushes += 1;
                return;
            }
            // Commands about objects mean nothing without the objects.
            Op::FlashAlloc | Op::FlashFree => return,
        };
        let (offset, bytes) = (request.offset, request.bytes.max(1));
        let kind = (bytes, (offset % GRANULE) as u32);
        let known_kind = self.per_kind.entry(kind).or_default();
        let full = self.extents.len() >= MAX_EXTENTS;
        let repeat = match self.extents.entry((offset, bytes)) {
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(place) => {
                if !full {
                    place.insert(*known_kind);
                    *known_kind += 1;
                }
                None
            }
        };
        let count_of_kind = *known_kind;
        let Found { pages, fresh, first, joins } = self.touched.mark(offset, bytes, which);
        let tally = &mut self.tallies[which];
        tally.requests += 1;
        tally.fua += u64::from(request.fua);
        let sequential = tally.end == Some(offset);
        tally.end = offset.checked_add(bytes);
        if sequential {
            tally.sequential += 1;
            *tally.sizes.entry(bytes).or_default() += 1;
            if tally.run.requests == 0 {
                tally.run.align = align(offset);
            }
            tally.run.requests += 1;
            tally.run.pages += pages;
            tally.run.fresh += fresh;
            *tally.run.sizes.entry(bytes).or_default() += 1;
            return;
        }
        tally.end_run();
        let count = tally.kinds.entry(kind).or_default();
        count.all += 1;
        count.pages += pages;
        count.first += first;
        match repeat {
            Some(place) => {
                count.repeats += 1;
                tally.positions += (place as f64 + 0.5) / count_of_kind as f64;
                tally.placed += 1;
            }
            None => {
                count.joins += u64::from(joins);
                count.new_pages += pages;
                count.fresh += fresh;
            }
        }
    }

    fn finish(self, name: &str) -> Fitted {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let gap_count: u64 = self.gaps.values().map(|g| g.0).sum();
        let mut bins: Vec<_> = self.gaps.into_iter().collect();
        bins.sort_unstable_by_key(|b| b.0);
        let gaps = bins
            .into_iter()
            .map(|(_, (count, sum))| Gap { mean_ns: sum / count as f64, share: share(count, gap_count) })
            .collect();
        let requests = self.requests;
        let [read, write, trim] = self.tallies.map(|mut tally| {
            tally.end_run();
            let heads = tally.requests - tally.sequential;
            let run = |sum: &Runs| Run {
                requests: sum.requests as f64 / sum.runs as f64,
                fresh: share(sum.fresh, sum.pages),
                align: sum.align,
                share: share(sum.runs, heads),
                sizes: sizes(&sum.sizes, MAX_RUN_SIZES),
            };
            (tally.requests > 0).then(|| Shape {
                share: share(tally.requests, requests),
                fua_share: share(tally.fua, tally.requests),
                sequential_share: share(tally.sequential, tally.requests),
                repeat_position: if tally.placed == 0 { 0.5 } else { tally.positions / tally.placed as f64 },
                runs: tally.runs.values().map(run).collect(),
                sequential: sizes(&tally.sizes, MAX_SIZES),
                kinds: kinds(tally.kinds),
            })
        });
        Fitted {
            name: name.to_owned(),
            requests,
            footprint_bytes: self.touched.granules() * GRANULE,
            touched_bytes: Some(self.touched.pages() * PAGE),
            written_bytes: Some(self.touched.written() * PAGE),
            flush_share: share(self.flushes, requests),
            gaps,
            read,
            write,
            trim,
        }
    }
}

/// Sizes with shares, the commonest first; the rarest become one of their mean.
fn sizes(counts: &HashMap<u64, u64>, most: usize) -> Vec<Size> {
    let total: u64 = counts.values().sum();
    let mut sorted: Vec<(u64, u64)> = counts.iter().map(|(&bytes, &count)| (bytes, count)).collect();
    sorted.sort_unstable_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes));
    let rest = sorted.split_off(sorted.len().min(most));
    let rare: u64 = rest.iter().map(|r| r.1).sum();
    if rare > 0 {
        let mean = rest.iter().map(|&(bytes, count)| bytes as f64 * count as f64).sum::<f64>() / rare as f64;
        sorted.push((((mean / 512.0).round() as u64).max(1) * 512, rare));
    }
    sorted.into_iter().map(|(bytes, count)| Size { bytes, share: count as f64 / total as f64 }).collect()
}

/// Kinds with shares, the commonest first; the rarest are merged within each octave of size.
fn kinds(counts: HashMap<(u64, u32), Count>) -> Vec<Kind> {
    let total: u64 = counts.values().map(|c| c.all).sum();
    let mut sorted: Vec<((u64, u32), Count)> = counts.into_iter().collect();
    sorted.sort_unstable_by_key(|&(kind, count)| (std::cmp::Reverse(count.all), kind));
    let rest = sorted.split_off(sorted.len().min(MAX_KINDS));
    let kind = |bytes: u64, start: Option<u32>, count: Count| Kind {
        bytes,
        start,
        share: count.all as f64 / total as f64,
        repeat: count.repeats as f64 / count.all as f64,
        join: count.joins as f64 / (count.all - count.repeats).max(1) as f64,
        fresh: Some(count.fresh as f64 / count.new_pages.max(1) as f64),
        first: Some(count.first as f64 / count.pages.max(1) as f64),
    };
    let mut kinds: Vec<Kind> =
        sorted.into_iter().map(|((bytes, start), c)| kind(bytes, Some(start), c)).collect();
    let mut octaves: [(Count, f64); 64] = [(Count::default(), 0.0); 64];
    for ((bytes, _), count) in rest {
        let (sum, volume) = &mut octaves[bytes.ilog2() as usize];
        sum.add(count);
        *volume += bytes as f64 * count.all as f64;
    }
    for (count, volume) in octaves {
        if count.all > 0 {
            let sectors = (volume / count.all as f64 / 512.0).round() as u64;
            kinds.push(kind(sectors.max(1) * 512, None, count));
        }
    }
    kinds
}

#[cfg(test)]
mod tests;
