//! The requests of one fio process, and of many side by side.

use super::job::{Distribution, Job, Select};
use super::map::Map;
use super::values::{Amount, Sizes};
use crate::synthetic::{ENDLESS, Target};
use crate::{Error, Op, Request, Source, Turn};
use nandle_random::math::{ln, pow};
use nandle_random::{Alias, FioZipf, Normal, Stream, Table, spread};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Trim];

/// Draws request sizes.
enum SizeDraw {
    Fixed(u64),
    Range(u64, u64),
    Split(Table<u64>),
}

impl SizeDraw {
    fn new(sizes: &Sizes) -> Result<Self, String> {
        Ok(match sizes {
            Sizes::Fixed(size) => Self::Fixed(*size),
            Sizes::Range(low, high) => Self::Range(*low, *high),
            Sizes::Split(parts) => Self::Split(Table::new(parts).ok_or("bssplit gives no size any weight")?),
        })
    }

    fn sample(&self, stream: &mut Stream) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            // As fio: rounded down to the smallest size if that is a power of two, else to sectors.
            Self::Range(low, high) => {
                let drawn = low + stream.below(high - low + 1);
                let unit = if low.is_power_of_two() { *low } else { 512 };
                (drawn / unit * unit).max(*low)
            }
            Self::Split(table) => table.sample(stream),
        }
    }
}

/// Draws block numbers.
enum Place {
    Sequential,
    /// Through the map that all directions share.
    Map,
    Uniform,
    Zipf(Box<FioZipf>),
    /// Exponent, and offset of the block that rank 0 lies in.
    Pareto(f64, u64),
    Normal(Normal),
    /// A zone by its accesses; first block and blocks of each.
    Zoned(Alias, Vec<(u64, u64)>),
}

impl Place {
    fn new(job: &Job, direction: usize, slots: u64, stream: &mut Stream) -> Result<Self, String> {
        if !job.pattern.random {
            return Ok(Self::Sequential);
        }
        Ok(match &job.distribution {
            Distribution::Uniform if job.norandommap => Self::Uniform,
            Distribution::Uniform => Self::Map,
            Distribution::Zipf(theta) => Self::Zipf(Box::new(FioZipf::new(slots, *theta, stream))),
            // fio's zipf_pareto: (n - 1) * u^(log h / log (1 - h)).
            Distribution::Pareto(h) => Self::Pareto(ln(*h) / ln(1.0 - h), stream.below(slots)),
            Distribution::Normal(percent) => {
                let deviation = slots as f64 * percent / 100.0;
                Self::Normal(Normal { mean: slots as f64 / 2.0, deviation })
            }
            Distribution::Zoned(zones) => {
                let (mut weights, mut spans, mut from) = (Vec::new(), Vec::new(), 0.0);
                for &(access, size) in &zones[direction] {
                    let first = ((slots as f64 * from / 100.0) as u64).min(slots - 1);
                    from += size;
                    let end = ((slots as f64 * from / 100.0).round() as u64).clamp(first + 1, slots);
                    weights.push(access);
                    spans.push((first, end - first));
                }
                Self::Zoned(Alias::new(&weights).ok_or("no zone has any access")?, spans)
            }
        })
    }
}

/// One direction (read, write or trim) of a process.
struct Direction {
    sizes: SizeDraw,
    place: Place,
    /// Smallest request, and how many fit the region.
    unit: u64,
    slots: u64,
    /// Where the next sequential request starts, within the region.
    cursor: u64,
    /// Time between requests and time of the next, if rated; nanoseconds.
    gap_ns: f64,
    next_ns: f64,
}

/// One fio process.
pub(super) struct Process {
    stream: Stream,
    directions: [Option<Direction>; 3],
    map: Map,
    /// Placement identifiers of writes, how one is chosen, and whose turn it is.
    plids: Vec<u16>,
    plid_select: Select,
    plid_turn: usize,
    /// First byte and length of what the process works on.
    base: u64,
    region: u64,
    read_percent: f64,
    pairs: bool,
    iodepth: u32,
    /// Bytes and requests still to be done.
    bytes_left: u64,
    ios_left: u64,
    /// What the smallest request needs.
    least: u64,
    /// The write that follows the trim just issued.
    pending: Option<(u64, u64)>,
    fsync: u64,
    writes_since: u64,
    end_fsync: bool,
    time_ns: u64,
    think_ns: u64,
    /// Absolute; only for rated processes.
    stop_ns: u64,
    count: Option<u64>,
}

impl Process {
    /// The `clone`-th process of the job, the file's `index`-th.
    pub(super) fn new(job: &Job, index: usize, clone: u64, target: &Target) -> Result<Self, String> {
        let fail = |what: String| Err(format!("[{}]: {what}", job.name));
        let whole = target.logical_bytes / 512 * 512;
        let place = |amount: Amount| match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(_) => amount.of(whole) / 4096 * 4096,
        };
        let base = place(job.offset).saturating_add(place(job.offset_increment).saturating_mul(clone));
        if base >= whole || base % 512 != 0 {
            return fail(format!(
                "offset {base}: expected a multiple of 512 below the device's {whole} bytes"
            ));
        }
        let region = match job.size {
            None => whole - base,
            Some(Amount::Percent(_)) => job.size.map_or(0, place).min(whole - base),
            Some(Amount::Bytes(bytes)) if bytes <= whole - base => bytes,
            Some(Amount::Bytes(bytes)) => {
                return fail(format!(
                    "size {bytes} from offset {base} ends beyond the device's {whole} bytes: expected less, or a percentage such as size=100%"
                ));
            }
        };
        let seed = job.randseed.unwrap_or(target.seed);
        let mut stream = Stream::new(seed, &format!("fio/{index}/{clone}"));
        let used = [job.pattern.read, job.pattern.write, job.pattern.trim];
        let mut directions = [None, None, None];
        let (mut least, mut fixed) = (u64::MAX, None);
        let start_ns = if job.is_rated() { job.startdelay_ns } else { 0 };
        for direction in (0..3).filter(|&d| used[d]) {
            let sizes = &job.sizes[direction];
            let unit = sizes.least();
            if sizes.most() > region {
                return fail(format!("requests of {} bytes do not fit a size of {region}", sizes.most()));
            }
            let rate = job.rate[direction];
            if job.is_rated() && rate.is_none() {
                return fail(format!(
                    "rate_iops says nothing of {:?}s: expected a rate for all or none",
                    OPS[direction]
                ));
            }
            fixed = match (sizes, fixed) {
                (Sizes::Fixed(size), None | Some(0)) if least == u64::MAX => Some(*size),
                (Sizes::Fixed(size), Some(known)) if *size == known => Some(known),
                _ => Some(0), // several sizes: the number of requests is not known beforehand
            };
            least = least.min(unit);
            let slots = region / unit;
            directions[direction] = Some(Direction {
                sizes: SizeDraw::new(sizes)?,
                place: Place::new(job, direction, slots, &mut stream)?,
                unit,
                slots,
                cursor: 0,
                gap_ns: rate.map_or(0.0, |r| 1e9 / r as f64),
                next_ns: start_ns as f64,
            });
        }
        let slots = region / least;
        let endless = job.time_based || target.requests.is_some_and(|wanted| wanted >= ENDLESS);
        // As in fio, an io_size of 0 is as none.
        let size = job.io_size.filter(|&size| size != Amount::Bytes(0));
        let budget = size.map_or(region, place).saturating_mul(job.loops);
        let ios = job.number_ios.unwrap_or(u64::MAX);
        let pairs = job.pattern.trim && job.pattern.write;
        let count = fixed
            .filter(|&size| size > 0 && job.fsync == 0 && !endless && job.runtime_ns.is_none())
            .map(|size| {
                let ios = (budget / size).min(ios);
                let flush = u64::from(job.end_fsync && job.pattern.write && !job.pattern.read && ios > 0);
                ios.saturating_mul(1 + u64::from(pairs)).saturating_add(flush)
            });
        let mixed_flush = job.end_fsync && job.pattern.read && job.pattern.write;
        Ok(Self {
            map: Map::new(if job.uses_map() { slots } else { 0 }, least),
            plids: if job.placed { job.plids.clone() } else { vec![] },
            plid_select: job.plid_select,
            plid_turn: 0,
            stream,
            directions,
            base,
            region,
            read_percent: job.read_percent,
            pairs,
            iodepth: job.iodepth,
            bytes_left: if endless { u64::MAX } else { budget },
            ios_left: if endless { u64::MAX } else { ios },
            least,
            pending: None,
            fsync: job.fsync,
            writes_since: 0,
            end_fsync: job.end_fsync,
            time_ns: start_ns,
            think_ns: job.thinktime_ns,
            stop_ns: job
                .runtime_ns
                .filter(|_| job.is_rated() && target.requests.is_none_or(|wanted| wanted < ENDLESS))
                .map_or(u64::MAX, |t| t.saturating_add(start_ns)),
            count: if mixed_flush { None } else { count },
        })
    }

    /// How many requests there will be, if that is known.
    pub(super) fn count(&self) -> Option<u64> {
        self.count
    }

    /// The placement identifier of the next write.
    fn plid(&mut self) -> u16 {
        let at = match self.plid_select {
            _ if self.plids.len() < 2 => 0,
            Select::Random => self.stream.below(self.plids.len() as u64) as usize,
            Select::RoundRobin => self.plid_turn % self.plids.len(),
        };
        self.plid_turn = at + 1;
        self.plids.get(at).copied().unwrap_or(0)
    }

    fn request(&self, op: Op, offset: u64, bytes: u64) -> Request {
        Request { time_ns: self.time_ns, offset, bytes, object: 0, stream: 0, op, fua: false }
    }

    fn next(&mut self) -> Option<Request> {
        if self.fsync > 0 && self.writes_since >= self.fsync {
            self.writes_since = 0;
            return Some(self.request(Op::Flush, 0, 0));
        }
        if let Some((offset, bytes)) = self.pending.take() {
            return self.issue(1, offset, bytes);
        }
        if self.ios_left == 0 || self.bytes_left < self.least {
            return self.finish();
        }
        let direction = match (&self.directions[0], &self.directions[1]) {
            (Some(_), Some(_)) => usize::from(!self.stream.chance(self.read_percent / 100.0)),
            (Some(_), None) => 0,
            (None, Some(_)) if !self.pairs => 1,
            _ => 2,
        };
        // fio trims what it writes next: the write's size rules.
        let sizing = if self.pairs { 1 } else { direction };
        let Some((at, bytes)) = self.draw(sizing) else { return self.finish() };
        self.ios_left -= u64::from(self.ios_left != u64::MAX);
        if self.bytes_left != u64::MAX {
            self.bytes_left -= bytes;
        }
        let offset = self.base + at;
        if self.pairs {
            self.pending = Some((offset, bytes));
        }
        self.issue(direction, offset, bytes)
    }

    /// The last flush, once.
    fn finish(&mut self) -> Option<Request> {
        self.ios_left = 0;
        let due = self.end_fsync && self.directions[1].is_some();
        self.end_fsync = false;
        if due { Some(self.request(Op::Flush, 0, 0)) } else { None }
    }

    /// Place (within the region) and size of a request; `None` if what is left is too little for it.
    fn draw(&mut self, direction: usize) -> Option<(u64, u64)> {
        let Some(d) = &mut self.directions[direction] else { return None };
        let stream = &mut self.stream;
        let bytes = d.sizes.sample(stream);
        let at = match &d.place {
            Place::Sequential => {
                if self.region - d.cursor < d.unit {
                    d.cursor = 0;
                }
                d.cursor
            }
            Place::Map => self.map.next(stream),
            Place::Uniform => stream.below(d.slots) * d.unit,
            Place::Zipf(law) => law.sample(stream) * d.unit,
            Place::Pareto(power, offset) => {
                let rank = (d.slots - 1) as f64 * pow(stream.unit(), *power);
                spread(rank as u64, *offset, d.slots) * d.unit
            }
            Place::Normal(law) => {
                // Beyond the ends is drawn again; a deviation far wider than the range gives up.
                let drawn = (0..64).map(|_| law.sample(stream)).find(|x| (0.0..d.slots as f64).contains(x));
                drawn.map_or_else(|| stream.below(d.slots), |x| (x as u64).min(d.slots - 1)) * d.unit
            }
            Place::Zoned(zones, spans) => {
                let (first, blocks) = spans[zones.sample(stream)];
                (first + stream.below(blocks)) * d.unit
            }
        };
        let bytes = bytes.min(self.region - at).min(self.bytes_left / 512 * 512);
        if bytes < 512 || (bytes < d.unit && self.bytes_left < d.unit) {
            return None;
        }
        if matches!(d.place, Place::Sequential) {
            d.cursor = at + bytes;
        }
        Some((at, bytes))
    }

    /// The request, at its direction's time.
    fn issue(&mut self, direction: usize, offset: u64, bytes: u64) -> Option<Request> {
        if let Some(d) = &mut self.directions[direction]
            && d.gap_ns > 0.0
        {
            self.time_ns = self.time_ns.max(d.next_ns as u64);
            d.next_ns += d.gap_ns;
        }
        if self.time_ns >= self.stop_ns {
            (self.ios_left, self.pending, self.end_fsync) = (0, None, false);
            return None;
        }
        self.writes_since += u64::from(direction == 1);
        let mut request = self.request(OPS[direction], offset, bytes);
        if direction == 1 {
            request.stream = self.plid();
        }
        self.time_ns = self.time_ns.saturating_add(self.think_ns);
        Some(request)
    }
}

/// Processes kept busy: each in turn gives as many requests as its depth.
pub(super) struct Depth {
    processes: Vec<Process>,
    turn: usize,
    given: u32,
}

impl Depth {
    pub(super) fn new(processes: Vec<Process>) -> Self {
        Self { processes, turn: 0, given: 0 }
    }
}

impl Source for Depth {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let end = out.len() + max;
        while out.len() < end && !self.processes.is_empty() {
            let process = &mut self.processes[self.turn];
            match process.next() {
                Some(request) => {
                    out.push(request);
                    self.given += 1;
                    if self.given < process.iodepth {
                        continue;
                    }
                    self.turn += 1;
                }
                None => {
                    self.processes.remove(self.turn);
                }
            }
            self.given = 0;
            if self.turn >= self.processes.len() {
                self.turn = 0;
            }
        }
        Ok(())
    }
}

/// A job beside others: it begins when its delay is over and ends when its time is.
pub(super) struct Beside {
    pub processes: Depth,
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Source for Beside {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        self.processes.fill(out, max)
    }

    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        if now_ns < self.begin_ns {
            return Ok(Turn::Until(self.begin_ns));
        }
        if now_ns >= self.end_ns {
            return Ok(Turn::End);
        }
        let before = out.len();
        self.processes.fill(out, 1)?;
        Ok(if out.len() > before { Turn::Requests } else { Turn::End })
    }
}

/// Rated processes, merged by time.
pub(super) struct Timed {
    processes: Vec<Process>,
    /// The next request of each process that has one; ties go to the earlier process.
    heads: Vec<Option<Request>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Timed {
    pub(super) fn new(mut processes: Vec<Process>) -> Self {
        let heads: Vec<_> = processes.iter_mut().map(Process::next).collect();
        let order =
            heads.iter().enumerate().filter_map(|(i, h)| h.map(|r| Reverse((r.time_ns, i)))).collect();
        Self { processes, heads, order }
    }
}

impl Source for Timed {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            let Some(Reverse((_, index))) = self.order.pop() else { break };
            let next = self.processes[index].next();
            out.extend(std::mem::replace(&mut self.heads[index], next));
            if let Some(next) = next {
                self.order.push(Reverse((next.time_ns, index)));
            }
        }
        Ok(())
    }
}
