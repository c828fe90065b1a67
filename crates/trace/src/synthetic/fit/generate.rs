//! Requests drawn from a fitted trace's statistics.

use super::entering::{Entering, MOST_ROW, span};
use super::stroke::{Ahead, Drawable, MOST_AHEAD, Stroke};
use super::touched::{PAGE, Touched};
use super::{Fitted, GRANULE, MAX_EXTENTS, Shape};
use crate::synthetic::{Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::math::pow;
use nandle_random::{Permutation, Stream, Table};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Largest request that a fitted file may ask for.
const MAX_BYTES: u64 = 1 << 32;
/// Longest run that a fitted file may ask for.
const MAX_RUN: f64 = 1e12;

/// Requests up to which a twin is drawn to see how near it comes: seconds.
const MOST_CHECKED: u64 = 4 << 20;
/// Pages below which a tenth is chance.
const FEW: u64 = 256;

impl Fitted {
    /// Where the twin's footprint, or its re-use of written addresses, is off by more than a tenth, as a
    /// sentence; a twin is drawn once. None where both are right, and where that is not known: for files of
    /// older versions and for more than four million requests.
    pub fn misses(&self, seed: u64) -> Option<String> {
        let (touched, written) = (self.touched_bytes?, self.written_bytes?);
        if self.requests > MOST_CHECKED {
            return None;
        }
        let largest =
            [&self.read, &self.write, &self.trim].into_iter().flatten().flat_map(Shape::largest).max();
        let roomy = self.footprint_bytes.saturating_add(largest.unwrap_or(0).min(MAX_BYTES) + GRANULE);
        let target = Target {
            logical_bytes: roomy.saturating_mul(2).max(1 << 24),
            page_bytes: GRANULE as u32,
            sector_bytes: 512,
            seed,
            requests: None,
        };
        let drawn =
            self.workload(&target).and_then(|workload| super::fit(&mut workload.into_source(), &self.name));
        let twin = match drawn {
            Ok(twin) => twin,
            Err(e) => return Some(format!("no twin can be drawn: {e}")),
        };
        let off = |have: u64, want: u64| {
            let ratio = have as f64 / want.max(1) as f64;
            (want >= FEW * PAGE && !(0.9..=1.1).contains(&ratio)).then_some(ratio)
        };
        let mut parts = Vec::new();
        if off(twin.touched_bytes?, touched).is_some() {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let twins = mib(twin.touched_bytes?);
            parts.push(format!("touches {twins:.1} MiB where the trace touches {:.1} MiB", mib(touched)));
        }
        if let Some(ratio) = off(twin.written_bytes?, written) {
            parts.push(format!("writes each page {:.2} times as often as the trace", 1.0 / ratio));
        }
        (!parts.is_empty()).then(|| format!("the twin {}", parts.join(", and ")))
    }

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
        let source = Drawn::new(self, target, requests, granules, most)?;
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
            shares.extend(shape.kinds.iter().filter_map(|k| Some(("fresh", k.fresh?))));
            shares.extend(shape.kinds.iter().filter_map(|k| Some(("first", k.first?))));
            shares.extend(shape.runs.iter().map(|r| ("runs.share", r.share)));
            shares.extend(shape.runs.iter().map(|r| ("runs.fresh", r.fresh)));
            shares.extend(shape.runs.iter().flat_map(|r| &r.sizes).map(|s| ("runs.sizes.share", s.share)));
            if let Some(run) = shape.runs.iter().find(|r| !(1.0..=MAX_RUN).contains(&r.requests)) {
                return fail(format!("{name}: a run of {} requests: expected 1 to {MAX_RUN}", run.requests));
            }
            let sizes = shape.sequential.iter().chain(shape.runs.iter().flat_map(|r| &r.sizes));
            let sizes = sizes.map(|s| s.bytes).chain(shape.kinds.iter().map(|k| k.bytes));
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

/// Places looked at for one that suits a request.
const TRIES: u32 = 8;
/// And most, where none was right.
const MOST_TRIES: u32 = 32;
/// Score of a place that is right: no other owes less by a page.
const RIGHT: f64 = 0.5;
/// Of an extent that is to come again: fewer, for the choice shifts which come again.
const REPEAT_TRIES: u32 = 16;
/// Touched granules passed by in search of an untouched one.
const STEPS: u64 = 256;
const MOST_OWED_RUN: f64 = 1e6;
/// Score of a place that would make a request sequential that is not meant to be.
const UNMEANT: f64 = 1e6;

struct Drawn {
    stream: Stream,
    gaps: Option<Table<f64>>,
    now_ns: f64,
    ops: Table<Option<usize>>,
    strokes: Vec<Stroke>,
    list_of: HashMap<(u64, Option<u32>), usize>,
    /// Offsets of the extents of each kind, in the order of first use.
    lists: Vec<Vec<u64>>,
    /// Granules (as offsets) first touched by each size.
    company: Vec<Vec<u64>>,
    /// Extents in the lists.
    used: HashSet<(u64, u64)>,
    touched: Touched,
    /// Granules that requests are placed in, and pages that they are to touch.
    granules: u64,
    most_granules: u64,
    pages: u64,
    /// New granules of requests that fit one: in random order, from the front of the footprint.
    order: Permutation,
    entered: u64,
    /// New granules of longer requests and of runs: one after the other, in the rest of it.
    long: Range<u64>,
    cursor: u64,
    /// Granules passed by since the last one that was untouched.
    barren: u64,
    /// Granules kept free behind each new place.
    spare: f64,
    /// The last granules touched in new places, and up to where what follows is free.
    edges: Vec<Range<u64>>,
    /// Where runs found fresh space.
    rooms: Vec<Range<u64>>,
    logical_bytes: u64,
    left: u64,
}

impl Drawn {
    fn new(fitted: &Fitted, target: &Target, requests: u64, granules: u64, most: u64) -> Result<Self, Error> {
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
                        fresh: kind.fresh,
                        first: kind.first,
                        owed_repeats: 0.0,
                        owed_joins: 0.0,
                        // Where a kind is rare, its share of a page is rounded now up, now down.
                        owed_fresh: stream.unit() - 0.5,
                        owed_first: stream.unit() - 0.5,
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
        let entering = Entering::of(fitted);
        let scale = (most as f64 / granules as f64).min(1.0);
        let pages =
            fitted.touched_bytes.map_or(u64::MAX, |bytes| (bytes as f64 / PAGE as f64 * scale) as u64);
        let footprint = granules.min(most);
        // A quarter more than will be touched: the last runs would find no space in a row.
        let granules = if entering.front(granules) < granules {
            granules.saturating_add(granules / 4).saturating_add(2 * entering.longest as u64)
        } else {
            granules
        };
        let granules = granules.min(most);
        let most_granules = (footprint + footprint / 20).min(granules);
        let front = entering.front(granules);
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
            list_of: lists,
            used: HashSet::new(),
            touched: Touched::default(),
            granules,
            most_granules,
            pages,
            entered: 0,
            barren: 0,
            spare: entering.spare(),
            edges: Vec::new(),
            rooms: Vec::new(),
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
        let stroke = &mut self.strokes[which];
        stroke.end = offset + bytes;
        self.touched.mark(offset, bytes, stroke.which);
        Request { time_ns, offset, bytes, object: 0, stream: 0, op, fua }
    }

    /// A request that continues the one before of its operation, if it is one's turn.
    fn sequential(&mut self, which: usize) -> Option<(u64, u64)> {
        let full = self.full();
        let stroke = &mut self.strokes[which];
        let course = stroke.courses.get(stroke.course).filter(|_| stroke.left > 0);
        let sizes = course.map_or(&stroke.sizes, |course| &course.sizes).as_ref()?;
        let fresh = course.map(|course| course.fresh);
        if stroke.kinds.is_some() {
            if stroke.left > 0 {
                stroke.left -= 1;
            } else if !stroke.courses.is_empty() || !self.stream.chance(stroke.sequential) {
                return None;
            }
        }
        let bytes = stroke.planned.pop().unwrap_or_else(|| sizes.sample(&mut self.stream));
        // At the end of the device a run starts anew.
        let offset = if stroke.end + bytes <= self.logical_bytes { stroke.end } else { 0 };
        // Where the footprint is reached it starts anew where one went before.
        let found = self.touched.look(offset, bytes, stroke.which);
        let mut offset = offset;
        if fresh.is_some() && found.fresh > 0 && full && !self.rooms.is_empty() {
            let room = &self.rooms[self.stream.below(self.rooms.len() as u64) as usize];
            offset = (room.start * GRANULE + offset % GRANULE).min(self.logical_bytes - bytes);
        }
        if let Some(share) = fresh {
            let found = self.touched.look(offset, bytes, stroke.which);
            let owed = stroke.owed_run + share * found.pages as f64 - found.fresh as f64;
            stroke.owed_run = owed.clamp(-MOST_OWED_RUN, MOST_OWED_RUN);
        }
        let kind = (bytes, Some((offset % GRANULE) as u32));
        if let Some(&list) = self.list_of.get(&kind) {
            self.remember(list, offset, bytes);
        }
        Some((offset, bytes))
    }

    /// An extent that may come again.
    fn remember(&mut self, list: usize, offset: u64, bytes: u64) {
        if self.used.len() < MAX_EXTENTS && self.used.insert((offset, bytes)) {
            self.lists[list].push(offset);
        }
    }

    /// How badly a place suits a request: by how many pages it leaves its kind behind or ahead, and
    /// the run behind it.
    fn score(&self, which: usize, kind: &Drawable, new: bool, offset: u64, ahead: Ahead) -> f64 {
        let stroke = &self.strokes[which];
        let found = self.touched.look(offset, kind.bytes, stroke.which);
        let mut score = if offset == stroke.end { UNMEANT } else { 0.0 };
        let off = |owed: f64, share: f64, got: u64| (owed + share * found.pages as f64 - got as f64).abs();
        if new && self.full() {
            score += found.fresh as f64;
        } else if let Some(share) = kind.fresh.filter(|_| new) {
            score += off(kind.owed_fresh, share, found.fresh);
        }
        if let Some(share) = kind.first {
            score += off(kind.owed_first, share, found.first);
        }
        if ahead.requests > 0 {
            let end = offset + kind.bytes;
            let looked = u64::from(TRIES);
            let untouched = (1..=looked)
                .filter(|i| !self.touched.holds((end + ahead.bytes / looked * i - 1) / GRANULE))
                .count();
            let pages = (ahead.bytes * untouched as u64 / looked) as f64 / PAGE as f64;
            score += (pages - ahead.untouched).abs();
        }
        score
    }

    /// A place that was touched before, for a request that begins at `start` in its granule; but none
    /// where this kind has an extent yet: what is meant to be new must not repeat one by chance.
    fn joined(&mut self, which: usize, kind: &Drawable, start: u64, ahead: Ahead) -> Option<u64> {
        let mut best: Option<(f64, u64)> = None;
        for attempt in 0..MOST_TRIES {
            if attempt >= TRIES && best.is_some_and(|(least, _)| least <= RIGHT) {
                break;
            }
            let company = &self.company[kind.company];
            let base = if attempt % 4 == 1 && !self.edges.is_empty() {
                // At the edge of what was touched, so that as much of the request and its run lies beyond as should.
                let edge = &self.edges[self.stream.below(self.edges.len() as u64) as usize];
                let old =
                    (ahead.bytes / PAGE).saturating_sub(ahead.untouched.max(0.0) as u64) * PAGE / GRANULE;
                edge.start.saturating_sub(if ahead.requests > 0 { old } else { 0 }) * GRANULE
            } else if ahead.requests > 0 && !self.rooms.is_empty() && attempt % 2 == 0 {
                // Where a run went before, another may.
                let room = &self.rooms[self.stream.below(self.rooms.len() as u64) as usize];
                let spare =
                    (room.end - room.start).saturating_sub(span(kind.start, kind.bytes + ahead.bytes));
                (room.start + self.stream.below(spare + 1)) * GRANULE
            } else if attempt % 2 == 0 && !company.is_empty() {
                company[self.stream.below(company.len() as u64) as usize]
            } else {
                let mut granule = self.stream.below(self.granules);
                if !self.touched.holds(granule) && !self.rooms.is_empty() {
                    let room = &self.rooms[self.stream.below(self.rooms.len() as u64) as usize];
                    granule = room.start + self.stream.below(room.end - room.start);
                }
                granule * GRANULE
            };
            let offset = self.inside(base + start, kind.bytes);
            if !self.touched.holds(offset / GRANULE) || self.used.contains(&(offset, kind.bytes)) {
                continue;
            }
            let score = self.score(which, kind, true, offset, ahead);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, offset));
            }
        }
        best.map(|(_, offset)| offset)
    }

    /// An extent of this kind that was there before.
    fn repeated(&mut self, which: usize, kind: &Drawable, ahead: Ahead) -> u64 {
        let mut best: Option<(f64, u64)> = None;
        for _ in 0..REPEAT_TRIES {
            let list = &self.lists[kind.list];
            let place = list.len() as f64 * pow(self.stream.unit(), self.strokes[which].skew);
            let offset = list[(place as usize).min(list.len() - 1)];
            let score = self.score(which, kind, false, offset, ahead);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, offset));
            }
            if score <= RIGHT {
                break;
            }
        }
        best.map_or(0, |(_, offset)| offset)
    }

    /// Untouched granules in a row: `span` of them, or the most that were found nearby.
    fn hole(&mut self, span: u64) -> Range<u64> {
        let span = span.min(MOST_ROW);
        let mut best = 0..0;
        let mut steps = 0;
        while best.end - best.start < span && steps < STEPS.saturating_add(4 * span) {
            let len = self.long.end - self.long.start;
            if self.cursor >= len || self.cursor + span.min(len) > len && steps == 0 {
                self.cursor = 0;
            }
            let from = self.long.start + self.cursor;
            let limit = self.long.end.min(from.saturating_add(span));
            let row = (from..limit).take_while(|&granule| !self.touched.holds(granule)).count() as u64;
            self.cursor += row.max(1);
            steps += row.max(1);
            self.barren = if row > 0 { 0 } else { self.barren + 1 };
            if row > best.end - best.start {
                best = from..from + row;
            }
            if self.barren >= len {
                self.long = 0..self.granules;
                self.barren = 0;
            }
        }
        if best.is_empty() {
            let at = self.long.start + self.cursor.min(self.long.end - self.long.start - 1);
            best = at..at + 1;
        } else {
            self.cursor = best.end - self.long.start;
        }
        best
    }

    /// Where a request begins that shares its first granule with no other, as long as there are such,
    /// with fresh space for the run behind it.
    fn new_place(&mut self, which: usize, kind: &Drawable, start: u64, ahead: Ahead) -> u64 {
        let room = if ahead.fresh { ahead.bytes } else { 0 };
        let span = (start + kind.bytes + room).div_ceil(GRANULE);
        let spare = (self.spare + self.stream.unit()) as u64;
        let (end, full) = (self.strokes[which].end, self.full());
        if span + spare == 1 {
            for _ in 0..TRIES {
                let granule = self.order.at(self.entered % self.order.len());
                self.entered += 1;
                let offset = granule * GRANULE + start;
                let free = if full {
                    !self.used.contains(&(offset, kind.bytes))
                } else {
                    !self.touched.holds(granule)
                };
                if free && offset != end {
                    return offset;
                }
            }
        }
        let mut hole = self.hole(span + spare);
        if hole.start * GRANULE + start == end {
            self.cursor += 1;
            hole = self.hole(span + spare);
        }
        if room > 0 {
            self.rooms.push(hole.start..hole.end.min(hole.start + span));
        }
        if hole.end > hole.start + span && self.edges.len() < MAX_EXTENTS {
            self.edges.push(hole.start + span - 1..hole.end);
        }
        self.inside(hole.start * GRANULE + start, kind.bytes)
    }

    /// Requests that would stick out of the device move back by whole granules, keeping their start.
    fn inside(&self, offset: u64, bytes: u64) -> u64 {
        let over = (offset + bytes).saturating_sub(self.logical_bytes).div_ceil(GRANULE) * GRANULE;
        offset.saturating_sub(over)
    }

    fn full(&self) -> bool {
        self.touched.pages() >= self.pages || self.touched.granules() >= self.most_granules
    }

    fn placed(&mut self, which: usize) -> (u64, u64) {
        let full = self.full();
        let stroke = &mut self.strokes[which];
        // Checked: where no kind can be drawn, sequential() always answers.
        let Some(kinds) = &stroke.kinds else { return (0, 512) };
        let drawn = kinds.sample(&mut self.stream);
        let mut kind = stroke.drawables[drawn];
        let start = match kind.start {
            Some(start) => u64::from(start),
            None => self.stream.below(GRANULE / 512) * 512,
        };
        let mut ahead = stroke.ahead(start + kind.bytes, &mut self.stream);
        ahead.fresh &= !full;
        ahead.bytes = ahead.bytes.min(self.logical_bytes);
        if full {
            ahead.untouched = 0.0;
        }
        kind.owed_repeats += kind.repeat;
        kind.owed_joins += kind.join;
        let can_repeat = !self.lists[kind.list].is_empty() && !ahead.fresh;
        let mut repeats = can_repeat && self.stream.chance(kind.owed_repeats.clamp(0.0, 1.0));
        let mut joined = None;
        if !repeats && !ahead.fresh {
            let joins = ahead.requests > 0 || full || self.stream.chance(kind.owed_joins.clamp(0.0, 1.0));
            if joins {
                joined = self.joined(which, &kind, start, ahead);
                let pages = (start % PAGE + kind.bytes).div_ceil(PAGE);
                let found = joined.map_or(pages, |offset| {
                    self.touched.look(offset, kind.bytes, self.strokes[which].which).fresh
                });
                let wanted =
                    kind.owed_fresh + kind.fresh.unwrap_or(found as f64 / pages as f64) * pages as f64;
                // A kind that would be far ahead repeats instead, one that is a whole request behind makes up for it
                // where there is room.
                repeats = can_repeat
                    && kind.owed_repeats > -MOST_AHEAD / 2.0
                    && (found as f64 - wanted > (pages as f64 / 2.0).max(1.0) || full && joined.is_none());
                if !full && wanted - found as f64 > pages as f64 {
                    joined = None;
                }
            }
        }
        let offset = if repeats {
            kind.owed_repeats -= 1.0;
            kind.owed_joins -= kind.join;
            self.repeated(which, &kind, ahead)
        } else {
            if joined.is_some() {
                kind.owed_joins -= 1.0;
            }
            let offset = match joined {
                Some(offset) => offset,
                None => {
                    let offset = self.new_place(which, &kind, start, ahead);
                    let company = &mut self.company[kind.company];
                    if company.len() < MAX_EXTENTS {
                        company.push(offset - offset % GRANULE);
                    }
                    offset
                }
            };
            self.remember(kind.list, offset, kind.bytes);
            offset
        };
        let stroke = &mut self.strokes[which];
        kind.settle(self.touched.look(offset, kind.bytes, stroke.which), repeats);
        stroke.drawables[drawn] = kind;
        (offset, kind.bytes)
    }
}

impl Shape {
    /// Sizes, among them the largest.
    fn largest(&self) -> impl Iterator<Item = u64> {
        self.sequential.iter().map(|s| s.bytes).chain(self.kinds.iter().map(|k| k.bytes))
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
