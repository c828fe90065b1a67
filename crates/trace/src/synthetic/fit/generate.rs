//! Requests drawn from a fitted trace's statistics.

use super::{Fitted, GRANULE, MAX_EXTENTS, Shape};
use crate::synthetic::{Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::math::pow;
use nandle_random::{Permutation, Stream, Table};
use std::collections::{HashMap, HashSet};

/// Largest request that a fitted file may ask for.
const MAX_BYTES: u64 = 1 << 32;

impl Fitted {
    /// A workload with these statistics, for a device; `target.requests` or as many as were fitted.
    ///
    /// # Errors
    /// If a number is not a share or a size, or the device cannot hold the largest request.
    pub fn workload(&self, target: &Target) -> Result<Workload, Error> {
        target.check()?;
        self.check(target)?;
        let requests = target.requests.unwrap_or(self.requests);
        let granules = (self.footprint_bytes / GRANULE).max(1);
        let most = target.logical_bytes / GRANULE;
        let mut notes = vec![format!(
            "drawn from the statistics of {}: order, phases and places are not its own",
            self.name
        )];
        if granules > most {
            notes.push(format!(
                "footprint scaled from {} to {} MiB to fit the device",
                self.footprint_bytes >> 20,
                target.logical_bytes >> 20
            ));
        }
        let source = Drawn::new(self, target, requests, granules.min(most))?;
        let phase = Phase::new(Replay::Open { time_scale: 1.0 }, source).counted(requests);
        Ok(Workload { name: format!("fit:{}", self.name), phases: vec![phase], notes })
    }

    fn check(&self, target: &Target) -> Result<(), Error> {
        let fail = |what: String| Err(Error::Input(format!("fitted trace {}: {what}", self.name)));
        let shapes = [("read", &self.read), ("write", &self.write), ("trim", &self.trim)];
        let mut shares = vec![("flush_share", self.flush_share)];
        for (name, shape) in shapes.iter().filter_map(|(name, s)| s.as_ref().map(|s| (name, s))) {
            shares.extend([(*name, shape.share), ("fua_share", shape.fua_share)]);
            shares.extend([
                ("sequential_share", shape.sequential_share),
                ("repeat_position", shape.repeat_position),
            ]);
            shares.extend(shape.sequential.iter().map(|s| ("sequential.share", s.share)));
            shares.extend(
                shape.kinds.iter().flat_map(|k| [("share", k.share), ("repeat", k.repeat), ("join", k.join)]),
            );
            let sizes = shape.sequential.iter().map(|s| s.bytes).chain(shape.kinds.iter().map(|k| k.bytes));
            for bytes in sizes {
                if bytes == 0 || bytes > MAX_BYTES.min(target.logical_bytes - GRANULE) {
                    return fail(format!("{name} of {bytes} bytes: expected 1 to what the device holds"));
                }
            }
            if shape.kinds.iter().any(|k| k.start.is_some_and(|s| u64::from(s) >= GRANULE)) {
                return fail(format!("{name}: expected every start below {GRANULE}"));
            }
            if shape.kinds.is_empty() && shape.sequential.is_empty() {
                return fail(format!("{name}: expected kinds or sequential sizes"));
            }
        }
        if let Some((what, value)) = shares.iter().find(|s| !(0.0..=1.0).contains(&s.1)) {
            return fail(format!("{what} = {value}: expected 0 to 1"));
        }
        if self.gaps.iter().any(|g| !(g.mean_ns >= 0.0 && g.mean_ns < 1e18 && (0.0..=1.0).contains(&g.share)))
        {
            return fail("expected gaps with a mean from 0 on and shares from 0 to 1".to_owned());
        }
        Ok(())
    }
}

/// Granules looked at for one that a new extent can join.
const JOIN_TRIES: u32 = 8;

/// Granules that a request lies in.
fn span(start: Option<u32>, bytes: u64) -> u64 {
    (u64::from(start.unwrap_or(0)) + bytes).div_ceil(GRANULE)
}

/// Granules of the footprint for requests that fit one: as many as those are first to touch.
fn front(fitted: &Fitted, granules: u64) -> u64 {
    let (mut short, mut long) = (0.0, 0.0);
    for shape in [&fitted.read, &fitted.write, &fitted.trim].into_iter().flatten() {
        for kind in &shape.kinds {
            let span = span(kind.start, kind.bytes);
            let new = shape.share
                * (1.0 - shape.sequential_share)
                * kind.share
                * (1.0 - kind.repeat)
                * (1.0 - kind.join);
            *(if span == 1 { &mut short } else { &mut long }) += new * span as f64;
        }
    }
    if long == 0.0 {
        return granules;
    }
    ((granules as f64 * short / (short + long)) as u64).clamp(1, granules)
}

/// A kind at work.
#[derive(Clone, Copy)]
struct Drawable {
    bytes: u64,
    start: Option<u32>,
    repeat: f64,
    join: f64,
    /// Which list holds its extents: shared by the operations.
    list: usize,
    /// Which list holds the granules that requests of its size were first to touch.
    company: usize,
}

/// One operation at work.
struct Stroke {
    op: Op,
    fua: f64,
    sequential: f64,
    /// A repeated extent is at the `uniform ^ skew` of its list.
    skew: f64,
    sizes: Option<Table<u64>>,
    kinds: Option<Table<usize>>,
    drawables: Vec<Drawable>,
    end: u64,
}

struct Drawn {
    stream: Stream,
    gaps: Option<Table<f64>>,
    now_ns: f64,
    ops: Table<Option<usize>>,
    strokes: Vec<Stroke>,
    /// Offsets of the extents of each kind, in the order of first use.
    lists: Vec<Vec<u64>>,
    /// Granules (as offsets) first touched by each size.
    company: Vec<Vec<u64>>,
    /// Extents in the lists.
    used: HashSet<(u64, u64)>,
    /// New granules of requests that fit one: in random order, from the front of the footprint.
    order: Permutation,
    entered: u64,
    /// New granules of longer requests: one after the other, in the rest of it.
    long: std::ops::Range<u64>,
    cursor: u64,
    logical_bytes: u64,
    left: u64,
}

impl Drawn {
    fn new(fitted: &Fitted, target: &Target, requests: u64, granules: u64) -> Result<Self, Error> {
        let mut stream = Stream::new(target.seed, "workload/fit");
        let mut lists: HashMap<(u64, Option<u32>), usize> = HashMap::new();
        let mut companies: HashMap<u64, usize> = HashMap::new();
        let mut strokes = Vec::new();
        let mut ops = vec![(None, fitted.flush_share)];
        let shapes = [(Op::Read, &fitted.read), (Op::Write, &fitted.write), (Op::Trim, &fitted.trim)];
        for (op, shape) in shapes.into_iter().filter_map(|(op, s)| s.as_ref().map(|s| (op, s))) {
            ops.push((Some(strokes.len()), shape.share));
            let drawables: Vec<Drawable> = shape
                .kinds
                .iter()
                .map(|kind| {
                    let (list, company) = (lists.len(), companies.len());
                    Drawable {
                        bytes: kind.bytes,
                        start: kind.start,
                        repeat: kind.repeat,
                        join: kind.join,
                        list: *lists.entry((kind.bytes, kind.start)).or_insert(list),
                        company: *companies.entry(kind.bytes).or_insert(company),
                    }
                })
                .collect();
            strokes.push(Stroke::new(op, shape, drawables));
        }
        let ops = Table::new(&ops).ok_or_else(|| {
            Error::Input(format!("fitted trace {}: no operation has any share", fitted.name))
        })?;
        let front = front(fitted, granules);
        let gaps: Vec<(f64, f64)> = fitted.gaps.iter().map(|g| (g.mean_ns, g.share)).collect();
        Ok(Self {
            order: Permutation::new(front, &mut stream),
            stream,
            gaps: Table::new(&gaps),
            now_ns: 0.0,
            ops,
            strokes,
            lists: vec![Vec::new(); lists.len()],
            company: vec![Vec::new(); companies.len()],
            used: HashSet::new(),
            entered: 0,
            long: if front < granules { front..granules } else { 0..granules },
            cursor: 0,
            logical_bytes: target.logical_bytes,
            left: requests,
        })
    }

    fn request(&mut self) -> Request {
        let time_ns = self.now_ns as u64;
        if let Some(gaps) = &self.gaps {
            self.now_ns += gaps.sample(&mut self.stream);
        }
        let Some(which) = self.ops.sample(&mut self.stream) else {
            return Request { time_ns, offset: 0, bytes: 0, object: 0, stream: 0, op: Op::Flush, fua: false };
        };
        let stroke = &self.strokes[which];
        let op = stroke.op;
        let fua = stroke.fua > 0.0 && self.stream.chance(stroke.fua);
        let (offset, bytes) = self.sequential(which).unwrap_or_else(|| self.placed(which));
        self.strokes[which].end = offset + bytes;
        Request { time_ns, offset, bytes, object: 0, stream: 0, op, fua }
    }

    /// A request that continues the one before of its operation, if it is one's turn.
    fn sequential(&mut self, which: usize) -> Option<(u64, u64)> {
        let stroke = &self.strokes[which];
        let sizes = stroke.sizes.as_ref()?;
        if stroke.kinds.is_some() && !self.stream.chance(stroke.sequential) {
            return None;
        }
        let bytes = sizes.sample(&mut self.stream);
        // At the end of the device a run starts anew.
        let offset = if stroke.end + bytes <= self.logical_bytes { stroke.end } else { 0 };
        Some((offset, bytes))
    }

    /// A granule that a request of this size touched first, but where this kind has no extent yet:
    /// what is meant to be new must not repeat one by chance.
    fn company_of(&mut self, kind: &Drawable) -> Option<u64> {
        let company = &self.company[kind.company];
        if company.is_empty() {
            return None;
        }
        for _ in 0..JOIN_TRIES {
            let granule = company[self.stream.below(company.len() as u64) as usize];
            if !self.is_used(granule, kind) {
                return Some(granule);
            }
        }
        None
    }

    /// Where a request begins that shares its first granule with no other, as long as there are such.
    fn new_granule(&mut self, kind: &Drawable) -> u64 {
        let span = span(kind.start, kind.bytes);
        let mut granule = 0;
        for _ in 0..JOIN_TRIES {
            if span == 1 {
                granule = self.order.at(self.entered % self.order.len());
                self.entered += 1;
            } else {
                if self.cursor + span > self.long.end - self.long.start {
                    self.cursor = 0;
                }
                granule = self.long.start + self.cursor;
                self.cursor += span;
            }
            if !self.is_used(granule * GRANULE, kind) {
                break;
            }
        }
        granule
    }

    fn is_used(&self, granule: u64, kind: &Drawable) -> bool {
        self.used.contains(&(granule + u64::from(kind.start.unwrap_or(0)), kind.bytes))
    }

    fn placed(&mut self, which: usize) -> (u64, u64) {
        let stroke = &self.strokes[which];
        // Checked: where no kind can be drawn, sequential() always answers.
        let Some(kinds) = &stroke.kinds else { return (0, 512) };
        let kind = stroke.drawables[kinds.sample(&mut self.stream)];
        let list = &self.lists[kind.list];
        if !list.is_empty() && self.stream.chance(kind.repeat) {
            let place = list.len() as f64 * pow(self.stream.unit(), stroke.skew);
            return (list[(place as usize).min(list.len() - 1)], kind.bytes);
        }
        let joined = if self.stream.chance(kind.join) { self.company_of(&kind) } else { None };
        let base = if let Some(granule) = joined {
            granule
        } else {
            let granule = self.new_granule(&kind) * GRANULE;
            self.company[kind.company].push(granule);
            granule
        };
        let start = match kind.start {
            Some(start) => u64::from(start),
            None => self.stream.below(GRANULE / 512) * 512,
        };
        // Requests that would stick out move back by whole granules, keeping their start.
        let offset = base + start;
        let over = (offset + kind.bytes).saturating_sub(self.logical_bytes).div_ceil(GRANULE) * GRANULE;
        let offset = offset.saturating_sub(over);
        self.lists[kind.list].push(offset);
        if self.used.len() < MAX_EXTENTS {
            self.used.insert((offset, kind.bytes));
        }
        (offset, kind.bytes)
    }
}

impl Stroke {
    fn new(op: Op, shape: &Shape, drawables: Vec<Drawable>) -> Self {
        let sizes: Vec<(u64, f64)> = shape.sequential.iter().map(|s| (s.bytes, s.share)).collect();
        let kinds: Vec<(usize, f64)> = shape.kinds.iter().enumerate().map(|(i, k)| (i, k.share)).collect();
        // The mean of uniform^skew is 1 / (1 + skew).
        let skew = (1.0 / shape.repeat_position.clamp(0.01, 0.99) - 1.0).clamp(0.01, 100.0);
        Self {
            op,
            fua: shape.fua_share,
            sequential: shape.sequential_share,
            skew,
            sizes: Table::new(&sizes),
            kinds: Table::new(&kinds),
            drawables,
            end: 0,
        }
    }
}

impl Source for Drawn {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| self.request()));
        Ok(())
    }
}
