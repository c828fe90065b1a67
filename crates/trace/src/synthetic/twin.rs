//! The engine behind the twins: requests with prescribed sizes, alignment, updates and bursts.
//!
//! Space is cut into *cells* of a few pages. Every request belongs to a [`Class`], drawn by weight;
//! the class fixes where in a cell the request starts and how long it is, and whether a write goes
//! to a new cell or to one written before. Shares of partial, unaligned and across-page requests
//! are therefore exact by construction, at every page size up to the cell, however skewed the
//! popularity: a popular cell has the alignment of its class. Rewrites repeat their extent (or the
//! other one of the same page), as the papers observe.

use super::{Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::math::{exp, pow};
use nandle_random::{Alias, Exponential, LogNormal, Stream, Table, mix};

/// Where in its cell a request may start, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Places {
    /// Always here.
    At(u32),
    /// At either; a cell's first write takes the first, its second write the second, so that every
    /// later write finds live data beside it in the page.
    Either([u32; 2]),
    /// At `from + i * step` with an `i < count` that never changes for the cell.
    Hashed { from: u32, step: u32, count: u32 },
}

impl Places {
    fn last(self) -> u32 {
        match self {
            Self::At(at) => at,
            Self::Either(two) => two[0].max(two[1]),
            Self::Hashed { from, step, count } => from + step * (count - 1),
        }
    }
}

/// A kind of request.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Weight among the writes.
    pub write: f64,
    /// Weight among the reads.
    pub read: f64,
    /// Share of its writes that go to a cell written before.
    pub repeat: f64,
    /// Start within the cell.
    pub places: Places,
    /// Sizes of writes with their weights, bytes.
    pub write_bytes: Vec<(u32, f64)>,
    /// Sizes of reads with their weights, bytes.
    pub read_bytes: Vec<(u32, f64)>,
    /// If set, the class has no cells of its own: its requests lie in those of another, at either of its [`Places`].
    pub guest_of: Option<Guest>,
    /// Its extents, of whole cells each, begin where the one before ends, so that where they do not begin on a
    /// page border two of them share a page.
    pub abutting: bool,
}

/// Whose cells a class without any goes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    /// Index of the class whose cells they are.
    pub host: usize,
    /// Only to those that are written, to lie over an extent; else to any, to lie beside one sooner or later.
    pub written: bool,
}

impl Class {
    /// Cells that a request of `bytes` takes for itself.
    fn span(&self, bytes: u32, cell_bytes: u64) -> u64 {
        span(self.places, self.abutting, bytes, cell_bytes)
    }
}

fn span(places: Places, abutting: bool, bytes: u32, cell_bytes: u64) -> u64 {
    let ahead = if abutting { 0 } else { places.last() };
    u64::from(ahead + bytes).div_ceil(cell_bytes)
}

/// A trace to be imitated.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub requests: u64,
    pub write_share: f64,
    pub cell_bytes: u32,
    pub classes: Vec<Class>,
    /// Share of the partial rewrites, but of abutting classes, that go to a cell of the last class instead
    /// (PAPA, Fig 7: partial updates of full pages).
    pub demote: f64,
    /// Reads go anywhere that was written, not where most writes go.
    pub reads_anywhere: bool,
    /// What will ever be written is known from the start, and popular from the start: a write goes anywhere in it, to a new
    /// cell or to one written before as chance has it, and [`Class::repeat`] comes out at the end. Without, new
    /// cells come in turn, and the first ones are the popular ones.
    pub known: bool,
    /// The cells lie all over the device, with gaps; without, side by side at its beginning.
    pub spread: bool,
    /// Mean time between requests, nanoseconds.
    pub mean_gap_ns: f64,
}

/// The mean of weighted values.
pub(super) fn mean(pairs: &[(u32, f64)]) -> f64 {
    let total: f64 = pairs.iter().map(|p| p.1).sum();
    pairs.iter().map(|p| f64::from(p.0) * p.1).sum::<f64>() / total
}

/// Weights for ascending `values` whose mean is `target`: the maximum-entropy ones, proportional to
/// `exp(tilt * value)`, the tilt found by bisection. A target outside the values gets the nearest.
pub(super) fn tilted(values: &[u32], target: f64) -> Vec<(u32, f64)> {
    let (low, high) = (f64::from(values[0]), f64::from(values[values.len() - 1]));
    if target <= low || values.len() == 1 {
        return vec![(values[0], 1.0)];
    }
    if target >= high {
        return vec![(values[values.len() - 1], 1.0)];
    }
    let weigh = |tilt: f64| -> Vec<(u32, f64)> {
        let pivot = if tilt > 0.0 { high } else { low }; // largest exponent is 0: nothing overflows
        values.iter().map(|&v| (v, exp(tilt * (f64::from(v) - pivot)))).collect()
    };
    let bound = 60.0 / low.min(high - low).max(1.0);
    let tilt = bisect(-bound, bound, |tilt| mean(&weigh(tilt)) - target);
    weigh(tilt)
}

/// Where the rising function `f` crosses zero between `low` and `high` (or the nearer end).
pub(super) fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Cells side by side where requests are longer than a cell: 1 MiB of the usual ones.
const RUN: u64 = 32;

/// Bursts: most gaps are short and exponential, one in [`BURST`] is long and log-normal.
pub(super) struct Arrivals {
    near: Exponential,
    far: LogNormal,
    now_ns: f64,
}

/// Requests a burst, on average.
const BURST: f64 = 16.0;
/// Gaps within a burst, as a share of the mean gap.
const NEAR: f64 = 0.1;

impl Arrivals {
    pub(super) fn new(mean_gap_ns: f64) -> Self {
        let far = (1.0 - NEAR * (1.0 - 1.0 / BURST)) * BURST;
        Self {
            near: Exponential { mean: mean_gap_ns * NEAR },
            far: LogNormal::with_mean(mean_gap_ns * far, 1.0),
            now_ns: 0.0,
        }
    }

    /// The time of the next request; the first is at 0.
    pub(super) fn next(&mut self, stream: &mut Stream) -> u64 {
        let now = self.now_ns;
        self.now_ns +=
            if stream.chance(1.0 / BURST) { self.far.sample(stream) } else { self.near.sample(stream) };
        now as u64
    }
}

/// A class at work: its cells are `base..base + cells`, entered in a strided order.
struct Region {
    places: Places,
    write_bytes: Table<u32>,
    read_bytes: Table<u32>,
    repeat: f64,
    guest_of: Option<Guest>,
    abutting: bool,
    base: u64,
    cells: u64,
    stride: u64,
    /// Cells that stay side by side when the others are spread.
    run: u64,
    /// Cells of the device for each cell of the plan.
    share: u64,
    /// Cells written so far, in the order of entry.
    written: u64,
    /// Where what will be written is known from the start.
    known: Option<Known>,
    /// One bit a cell: has its second extent been written?
    paired: Vec<u64>,
}

/// Extents of up to `most` cells, of which some are written.
struct Known {
    most: u64,
    /// One bit for each first cell.
    bits: Vec<u64>,
    /// Those that are written.
    written: Vec<u32>,
}

impl Known {
    /// Any extent of a region of so many cells, by popularity.
    fn any(&self, cells: u64, stream: &mut Stream) -> u64 {
        popular(cells / self.most, stream) * self.most
    }
    /// Marks an extent as written; whether it is the first time.
    fn enter(&mut self, index: u64) -> bool {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        let first = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        if first {
            self.written.push(index as u32);
        }
        first
    }
    /// One that is written: by popularity, if chance finds one so, else any. The first cell while none is.
    fn written(&self, cells: u64, stream: &mut Stream) -> u64 {
        const TRIES: u32 = 64;
        let is = |&index: &u64| self.bits[(index / 64) as usize] >> (index % 64) & 1 == 1;
        let any = |stream: &mut Stream| {
            let at = stream.below(self.written.len().max(1) as u64) as usize;
            self.written.get(at).map_or(0, |&index| u64::from(index))
        };
        (0..TRIES).map(|_| self.any(cells, stream)).find(is).unwrap_or_else(|| any(stream))
    }
}

/// One of so many, the first ones being the popular ones: uniform to the fourth power, which is Zipf's law with exponent
/// 3/4 in the continuum.
fn popular(of: u64, stream: &mut Stream) -> u64 {
    let u = stream.unit();
    let square = u * u;
    ((of as f64 * square * square) as u64).min(of.saturating_sub(1))
}

/// How many there must be of which `writes` by popularity hit one written before in a share `repeat` of the cases.
fn known(writes: f64, repeat: f64) -> f64 {
    const STEPS: u32 = 2000;
    // Of extents at x of 1 in popularity, those that `each` writes an extent leave unwritten.
    let unwritten = |each: f64, x: f64| exp(-each / 4.0 * pow(x, -0.75));
    let touched = |each: f64| {
        let at = |n| 1.0 - unwritten(each, (f64::from(n) + 0.5) / f64::from(STEPS));
        (0..STEPS).map(at).sum::<f64>() / f64::from(STEPS)
    };
    writes / bisect(1e-3, 1e3, |each| 1.0 - repeat - touched(each) / each)
}

impl Region {
    fn cell(&self, index: u64) -> u64 {
        let cell = self.base + (u128::from(index) * u128::from(self.stride) % u128::from(self.cells)) as u64;
        if self.share == 1 {
            return cell;
        }
        // Anywhere in the run's share, or the cells would lie on some planes only. What a request
        // needs beyond the end of its run lies in the gap behind it.
        let (run, within) = (cell / self.run, cell % self.run);
        let gap = self.run * (self.share - 1);
        run * self.run * self.share + mix(run) % gap + within
    }

    /// A cell written before.
    fn popular(&self, stream: &mut Stream) -> u64 {
        match &self.known {
            Some(known) => known.written(self.cells, stream),
            None => popular(self.written, stream),
        }
    }

    /// The start within cell `index` of a request; `entering` says that it is the cell's first.
    fn place(&mut self, index: u64, write: bool, entering: bool, stream: &mut Stream) -> u32 {
        match self.places {
            Places::At(at) => at,
            Places::Hashed { from, step, count } => {
                from + step * (mix(index ^ self.base << 32) % u64::from(count)) as u32
            }
            Places::Either(two) => {
                let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
                if entering {
                    return two[0];
                }
                let paired = self.paired[word] & bit != 0;
                if paired {
                    return two[(stream.word() >> 63) as usize];
                }
                if write {
                    self.paired[word] |= bit;
                    two[1]
                } else {
                    two[0]
                }
            }
        }
    }
}

/// Which cells of the last class are wholly written, and which were made partial again.
#[derive(Default)]
struct Full {
    /// One bit a cell of the region.
    bits: Vec<u64>,
    /// Candidates, possibly stale: the bits decide.
    whole: Vec<u32>,
    broken: Vec<u32>,
}

impl Full {
    fn is(&self, index: u64) -> bool {
        self.bits[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    fn fill(&mut self, index: u64) {
        if !self.is(index) {
            self.bits[(index / 64) as usize] |= 1 << (index % 64);
            self.whole.push(index as u32);
        }
    }

    /// Any whole cell, which is whole no more.
    fn take_whole(&mut self, stream: &mut Stream) -> Option<u64> {
        if self.whole.is_empty() {
            return None;
        }
        let at = stream.below(self.whole.len() as u64) as usize;
        let index = u64::from(self.whole.swap_remove(at));
        self.bits[(index / 64) as usize] &= !(1 << (index % 64));
        self.broken.push(index as u32);
        Some(index)
    }

    /// A cell to be written wholly again.
    fn take_broken(&mut self) -> Option<u64> {
        while let Some(index) = self.broken.pop() {
            if !self.is(u64::from(index)) {
                return Some(u64::from(index));
            }
        }
        None
    }
}

/// The requests of a plan.
pub(super) struct Twin {
    stream: Stream,
    arrivals: Arrivals,
    write_share: f64,
    cell_bytes: u64,
    write_class: Alias,
    read_class: Alias,
    regions: Vec<Region>,
    demote: f64,
    reads_anywhere: bool,
    full: Full,
    left: u64,
}

impl Plan {
    /// Requests of the plan for a device, and a note if its footprint had to be scaled down.
    pub(super) fn generate(&self, name: &str, target: &Target) -> Result<(Twin, Option<String>), Error> {
        let requests = target.requests_of(self.requests);
        let cell_bytes = u64::from(self.cell_bytes);
        let writes = requests as f64 * self.write_share;
        let weights: f64 = self.classes.iter().map(|c| c.write).sum();
        let span = |class: &Class, bytes: u32| class.span(bytes, cell_bytes);
        let mut wanted = Vec::new();
        let mut least = Vec::new();
        for class in &self.classes {
            if class.guest_of.is_some() {
                wanted.push(0);
                least.push(0);
                continue;
            }
            let sizes = || class.write_bytes.iter().chain(&class.read_bytes);
            let most = sizes().map(|&(bytes, _)| span(class, bytes)).max().unwrap_or(1);
            let stride = class.write_bytes.iter().map(|&(b, w)| w * span(class, b) as f64).sum::<f64>()
                / class.write_bytes.iter().map(|p| p.1).sum::<f64>();
            let writes = writes * class.write / weights;
            if self.known {
                let extents = known(writes, class.repeat).ceil() as u64;
                wanted.push((extents.max(8)) * most);
                least.push(4 * most);
                continue;
            }
            let fresh = writes * (1.0 - class.repeat) * stride;
            // Six deviations of slack: chance alone must not exhaust the region.
            wanted.push((fresh + 6.0 * (fresh * stride).sqrt()) as u64 + 8 * most);
            least.push(4 * most);
        }
        let available = target.logical_bytes / cell_bytes;
        let (need, floor): (u64, u64) = (wanted.iter().sum(), least.iter().sum());
        if floor > available {
            return Err(Error::Input(format!(
                "{name} needs {} bytes at the very least, the device has {}",
                floor * cell_bytes,
                target.logical_bytes
            )));
        }
        let mut note = None;
        if need > available {
            let scale = (available - floor) as f64 / need as f64;
            for (cells, least) in wanted.iter_mut().zip(&least) {
                *cells = least + (*cells as f64 * scale) as u64;
            }
            note = Some(format!(
                "footprint scaled from {:.1} to {:.1} GiB to fit the device: once it is written, there are more updates than published",
                (need * cell_bytes) as f64 / (1_u64 << 30) as f64,
                target.logical_bytes as f64 / (1_u64 << 30) as f64
            ));
        }
        let alias = |weight: fn(&Class) -> f64| {
            let weights: Vec<f64> = self.classes.iter().map(weight).collect();
            Alias::new(&weights)
                .ok_or_else(|| Error::Input(format!("{name}: no request class has any weight")))
        };
        let table = |pairs: &[(u32, f64)]| {
            Table::new(pairs).ok_or_else(|| Error::Input(format!("{name}: no request size has any weight")))
        };
        let share = if self.spread { available / (need.max(1) + RUN * wanted.len() as u64) } else { 1 };
        let mut base = 0;
        let mut regions = Vec::new();
        for (class, cells) in self.classes.iter().zip(wanted) {
            let sizes = || class.write_bytes.iter().chain(&class.read_bytes);
            let single = !class.abutting && sizes().all(|&(bytes, _)| span(class, bytes) == 1);
            let paired = matches!(class.places, Places::Either(_));
            let most = sizes().map(|&(bytes, _)| span(class, bytes)).max().unwrap_or(1);
            regions.push(Region {
                places: class.places,
                write_bytes: table(&class.write_bytes)?,
                read_bytes: table(&class.read_bytes)?,
                repeat: class.repeat,
                guest_of: class.guest_of,
                abutting: class.abutting,
                base,
                cells,
                run: if single { 1 } else { RUN },
                share: share.max(1),
                stride: if single && cells > 0 { scattering(cells) } else { 1 },
                written: 0,
                known: self.known.then(|| Known {
                    most,
                    bits: vec![0; cells.div_ceil(64) as usize],
                    written: Vec::new(),
                }),
                paired: if paired { vec![0; cells.div_ceil(64) as usize] } else { vec![] },
            });
            base += if self.spread { cells.next_multiple_of(RUN) } else { cells };
        }
        let mut full = Full::default();
        if self.demote > 0.0 {
            let cells = regions[regions.len() - 1].cells;
            full.bits = vec![0; cells.div_ceil(64) as usize];
        }
        let twin = Twin {
            stream: Stream::new(target.seed, &format!("workload/{name}")),
            arrivals: Arrivals::new(self.mean_gap_ns),
            write_share: self.write_share,
            cell_bytes,
            write_class: alias(|c| c.write)?,
            read_class: alias(|c| c.read)?,
            regions,
            demote: self.demote,
            reads_anywhere: self.reads_anywhere,
            full,
            left: requests,
        };
        Ok((twin, note))
    }

    /// The plan as a workload of one open phase.
    pub(super) fn workload(
        &self,
        name: &str,
        target: &Target,
        mut notes: Vec<String>,
    ) -> Result<Workload, Error> {
        let (twin, scaled) = self.generate(name, target)?;
        let requests = twin.left;
        notes.push(format!(
            "arrivals are assumed: bursts of {BURST} requests on average, {:.0} requests a second overall",
            1e9 / self.mean_gap_ns
        ));
        notes.extend(scaled);
        let phase = Phase::new(Replay::Open { time_scale: 1.0 }, twin).counted(requests);
        Ok(Workload { name: name.to_owned(), phases: vec![phase], notes })
    }
}

/// A step coprime to `cells` near its golden section: neighbours in time are no neighbours in space.
fn scattering(cells: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = ((cells as f64 * 0.618_033_988_75) as u64).max(1);
    (golden..).find(|&s| gcd(s, cells) == 1).unwrap_or(1)
}

impl Twin {
    fn request(&mut self) -> Request {
        let time_ns = self.arrivals.next(&mut self.stream);
        let write = self.stream.chance(self.write_share);
        let (cell, place, bytes) = if write { self.write() } else { self.read() };
        Request {
            time_ns,
            offset: cell * self.cell_bytes + u64::from(place),
            bytes: u64::from(bytes),
            object: 0,
            stream: 0,
            op: if write { Op::Write } else { Op::Read },
            fua: false,
        }
    }

    fn read(&mut self) -> (u64, u32, u32) {
        let class = self.read_class.sample(&mut self.stream);
        if let Some(guest) = self.regions[class].guest_of {
            return self.visit(class, guest);
        }
        let region = &mut self.regions[class];
        let bytes = region.read_bytes.sample(&mut self.stream);
        let index = if self.reads_anywhere {
            self.stream.below(region.written.max(1))
        } else {
            region.popular(&mut self.stream)
        };
        let index = fit(region, index, bytes, self.cell_bytes);
        let place = region.place(index, false, false, &mut self.stream);
        (region.cell(index), place, bytes)
    }

    fn write(&mut self) -> (u64, u32, u32) {
        let last = self.regions.len() - 1;
        let class = self.write_class.sample(&mut self.stream);
        if let Some(guest) = self.regions[class].guest_of {
            return self.visit(class, guest);
        }
        let region = &mut self.regions[class];
        let bytes = region.write_bytes.sample(&mut self.stream);
        if let Some(known) = &mut region.known {
            let index = known.any(region.cells, &mut self.stream);
            let entering = known.enter(index);
            region.written += u64::from(entering);
            let place = region.place(index, true, entering, &mut self.stream);
            return (region.cell(index), place, bytes);
        }
        let span = span(region.places, region.abutting, bytes, self.cell_bytes);
        // The last of abutting extents ends in the cell behind it.
        let room = region.written + span + u64::from(region.abutting) <= region.cells;
        let fresh = region.written == 0 || (room && !self.stream.chance(region.repeat));
        if fresh {
            let index = region.written;
            region.written += span;
            let place = region.place(index, true, true, &mut self.stream);
            let cell = region.cell(index);
            self.filled(class, index, span);
            return (cell, place, bytes);
        }
        if self.demote > 0.0
            && class != last
            && !self.regions[class].abutting
            && self.stream.chance(self.demote)
            && let Some(index) = self.full.take_whole(&mut self.stream)
        {
            let place = self.regions[class].places.last();
            return (self.regions[last].cell(index), place, bytes);
        }
        let broken = if class == last { self.full.take_broken() } else { None };
        let region = &mut self.regions[class];
        let index = broken.unwrap_or_else(|| region.popular(&mut self.stream));
        let index = fit(region, index, bytes, self.cell_bytes);
        let place = region.place(index, true, false, &mut self.stream);
        let cell = region.cell(index);
        self.filled(class, index, span);
        (cell, place, bytes)
    }

    /// A request of a class without cells, in one of another's.
    fn visit(&mut self, class: usize, Guest { host, written }: Guest) -> (u64, u32, u32) {
        let region = &self.regions[host];
        let index = match &region.known {
            Some(known) if !written => known.any(region.cells, &mut self.stream),
            _ => region.popular(&mut self.stream),
        };
        let cell = region.cell(index);
        let guest = &self.regions[class];
        let place = match guest.places {
            Places::Either(two) => two[(self.stream.word() >> 63) as usize],
            other => other.last(),
        };
        (cell, place, guest.write_bytes.sample(&mut self.stream))
    }

    /// Notes that cells of the last class are whole, where that matters.
    fn filled(&mut self, class: usize, index: u64, span: u64) {
        if self.demote > 0.0 && class == self.regions.len() - 1 {
            (index..index + span).for_each(|i| self.full.fill(i));
        }
    }
}

/// `index`, moved back so that the request ends within the region.
fn fit(region: &Region, index: u64, bytes: u32, cell_bytes: u64) -> u64 {
    let span = span(region.places, region.abutting, bytes, cell_bytes) + u64::from(region.abutting);
    index.min(region.cells - span)
}

impl Source for Twin {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            let request = self.request();
            out.push(request);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilting_hits_the_mean() {
        for target in [600.0, 1912.0, 2304.0, 4000.0] {
            let values: Vec<u32> = (1..=8).map(|k| 512 * k).collect();
            let got = mean(&tilted(&values, target));
            assert!((got / target - 1.0).abs() < 1e-6, "{got}, want {target}");
        }
        let wide = [16384, 32768, 65536, 131_072, 262_144];
        for target in [16500.0, 30000.0, 250_000.0] {
            let got = mean(&tilted(&wide, target));
            assert!((got / target - 1.0).abs() < 1e-6, "{got}, want {target}");
        }
    }

    #[test]
    fn the_mean_gap_is_kept_and_gaps_are_bursty() {
        let mut stream = Stream::new(1, "arrivals");
        let mut arrivals = Arrivals::new(1000.0);
        let times: Vec<u64> = (0..400_000).map(|_| arrivals.next(&mut stream)).collect();
        let rate = *times.last().unwrap() as f64 / times.len() as f64;
        assert!((rate / 1000.0 - 1.0).abs() < 0.03, "{rate}");
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let variance = gaps.iter().map(|g| (g - rate).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!(variance.sqrt() / rate > 3.0, "coefficient of variation {}", variance.sqrt() / rate);
    }
}
