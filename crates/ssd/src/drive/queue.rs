//! The queue of writes, trims, flushes and calls, carried out one behind the other.

use nandle_io::{Op, Range, Status};
use nandle_nand::Time;

use super::Ssd;
use super::request::Request;
use super::waiting::{Planes, Waiting};
use crate::config::QueueOrder;
use crate::map::run_mask;
use crate::schemes::Refusal;

/// Why the front of the queue cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    Flash,
    Buffer,
    /// All cores wait for reads.
    Controller,
}

impl Ssd {
    /// A request that takes effect in turn does so, or queues up behind others.
    #[inline(always)]
    pub(super) fn enqueue<const PLAIN: bool>(&mut self, slot: u32, op: Op) {
        if self.buffer.is_some() {
            self.claim_room(slot);
        }
        let is_call = op == Op::FlashAlloc;
        if self.queue.is_empty() && !is_call {
            // Mostly nobody waits: what is carried out at once need not queue up.
            if PLAIN && op == Op::Write && self.write_run(slot) {
                return self.note_blocked(None);
            }
            let blocked = self.carry_out(slot);
            if blocked.is_some() {
                self.queue.push_back(slot);
            }
            return self.note_blocked(blocked);
        }
        let first = is_call && self.queue_call(slot);
        if !is_call {
            self.queue.push_back(slot);
        }
        if first || self.short > 0 {
            self.pump();
        } else if self.flash.space().host_waits() && self.config.queue.order == QueueOrder::Plane {
            self.let_others_pass();
        }
    }

    /// A FlashAlloc command queues up; whether it is first.
    #[inline(never)]
    fn queue_call(&mut self, slot: u32) -> bool {
        let place = self.place_of_call();
        self.queue.insert(place, slot);
        self.wait_for = Waiting::default();
        place == 0
    }

    /// Where a FlashAlloc command queues up: NVMe gives commands no order, and it need not wait until writes
    /// before it find room; but trims may be of its own range.
    fn place_of_call(&self) -> usize {
        let stays = |&slot: &u32| !matches!(self.requests[slot].op, Op::Write | Op::Flush);
        self.queue.iter().rposition(stays).map_or(0, |last| last + 1)
    }

    /// There is more room: the queue goes on.
    pub(super) fn go_on(&mut self) {
        self.wait_for = Waiting::default();
        self.pump();
    }

    /// Carries the queue on as far as it goes.
    fn pump(&mut self) {
        let mut blocked = None;
        while let Some(&slot) = self.queue.front() {
            blocked = self.carry_out(slot);
            if blocked.is_some() {
                break;
            }
            self.queue.pop_front();
        }
        self.note_blocked(blocked);
    }

    /// Carries out a request that nobody is in front of, as far as it goes.
    fn carry_out(&mut self, slot: u32) -> Option<Blocked> {
        if self.flash.media().is_held() {
            return Some(Blocked::Controller);
        }
        self.notice(slot);
        let Request { op, fua, .. } = self.requests[slot];
        let blocked = match (op, self.buffer.is_some()) {
            (Op::Write, _) if self.flash.is_read_only() => {
                self.requests[slot].status = Status::ReadOnly;
                self.flash.stats_mut().rejected += 1;
                None
            }
            (Op::Write, true) if !fua => self.write_buffered(slot),
            (Op::Write, _) => self.write_through(slot),
            _ => self.carry_out_other(op, slot),
        };
        if blocked.is_none() {
            self.wait_for.requests = 0;
            self.short -= std::mem::take(&mut self.requests[slot].short);
            if !matches!(op, Op::Flush | Op::Read) {
                self.release(slot);
            }
        }
        blocked
    }

    /// The front of the queue cannot go on, for this reason, or nobody waits.
    #[inline]
    fn note_blocked(&mut self, blocked: Option<Blocked>) {
        self.flash.space_mut().set_host_waits(blocked == Some(Blocked::Flash));
        if blocked.is_some() || self.stalled.is_some() || self.waiting.is_some() {
            self.note_wait(blocked);
        }
        let others = self.queue.len() > 1 && self.config.queue.order == QueueOrder::Plane;
        if blocked == Some(Blocked::Flash) && others {
            self.let_others_pass();
        }
    }

    /// A write is about to be carried out: whose stream it is, and what objects make of it, is decided once.
    #[inline(always)]
    fn notice(&mut self, slot: u32) {
        let request = &mut self.requests[slot];
        if request.op == Op::Write && !std::mem::replace(&mut request.noticed, true) {
            let (lsn, sectors) = (request.lsn, request.sectors);
            request.stream = self.schemes.stream(&self.flash, lsn, sectors, request.stream);
            let stream = request.stream;
            if self.knows_objects() {
                self.notice_write(lsn, sectors, stream);
            }
        }
    }

    /// The front of the queue waits for room in a plane: writes straight to flash that go to others do not
    /// wait with it. What waits is tried first whenever room comes, and nobody takes a page of its planes; who
    /// writes the same sectors writes to the same plane, and stays behind too.
    #[inline(never)]
    fn let_others_pass(&mut self) {
        /// Requests that are looked at.
        const WINDOW: usize = 256;
        if self.wait_for.requests == 0 {
            self.wait_for = Waiting { no_victim: self.wait_for.no_victim, ..Waiting::default() };
        }
        while !self.wait_for.closed
            && let Some(&slot) = self.queue.get(self.wait_for.requests)
        {
            let Request { op, fua, lsn, sectors, cursor, .. } = self.requests[slot];
            // A write behind a call may be the object's.
            let planes = match op {
                Op::Flush => Some(Planes::new()),
                _ if op.concerns_objects() => None,
                _ => self.planes_of(lsn + cursor, lsn + sectors),
            };
            let Some(planes) = planes else {
                self.wait_for.closed = true;
                return;
            };
            let waiting = &self.wait_for;
            let may = op == Op::Write && (self.buffer.is_none() || fua) && !self.flash.is_read_only();
            let passes =
                waiting.requests > 0 && may && planes.iter().all(|plane| !waiting.planes.contains(plane));
            if passes {
                self.notice(slot);
            }
            if passes && self.write_through(slot).is_none() {
                self.queue.remove(self.wait_for.requests);
                self.release(slot);
                continue;
            }
            let waiting = &mut self.wait_for;
            for plane in planes {
                if !waiting.planes.contains(&plane) {
                    waiting.planes.push(plane);
                }
            }
            waiting.requests += 1;
            let all = waiting.planes.len() == self.flash.geometry().planes() as usize;
            waiting.closed = all || waiting.requests == WINDOW;
        }
    }

    /// The planes that writes of the sectors from `lsn` up to `end` may take pages of; none if that can be any.
    fn planes_of(&self, lsn: u64, end: u64) -> Option<Planes> {
        let page = |lsn: u64| self.flash.media().split(lsn).0;
        let (space, distance) = (self.flash.space(), self.schemes.reach().distance);
        if space.is_off_home() {
            return None;
        }
        let last = (page(end - 1) + distance).min(self.flash.logical_pages() - 1);
        let mut planes = Planes::new();
        for lpn in page(lsn).saturating_sub(distance)..=last {
            let plane = space.home_plane(lpn)?;
            if !planes.contains(&plane) {
                planes.push(plane);
            }
            if planes.len() == self.flash.geometry().planes() as usize {
                break;
            }
        }
        Some(planes)
    }

    /// Carries out what is not a write: out of the way of writes, which are far more.
    #[inline(never)]
    fn carry_out_other(&mut self, op: Op, slot: u32) -> Option<Blocked> {
        match op {
            Op::Trim => self.trim(slot),
            Op::FlashAlloc => self.name_object(slot),
            Op::FlashFree => self.complete_objects(slot),
            Op::Flush => self.flush(slot),
            Op::Read => self.read_behind_destage(slot),
            Op::Write => unreachable!("writes have their own ways"),
        }
    }

    /// Notes since when the front of the queue waits, and for what, or that it goes on.
    #[inline(never)]
    fn note_wait(&mut self, blocked: Option<Blocked>) {
        if self.flash.space().host_waits() {
            self.flash.space_mut().look_everywhere();
        }
        let now = self.now();
        let note = |since: &mut Option<Time>, is: bool, sum: &mut u64| match (*since, is) {
            (None, true) => *since = Some(now),
            (Some(start), false) => {
                *sum += now - start;
                *since = None;
            }
            _ => {}
        };
        note(&mut self.stalled, blocked == Some(Blocked::Flash), &mut self.flash.stats_mut().foreground_ns);
        note(&mut self.waiting, blocked == Some(Blocked::Buffer), &mut self.flash.stats_mut().buffer_wait_ns);
    }

    fn trim(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot];
        if !self.durability.has_room(&self.flash) || self.collect.fills_a_plane(&self.flash) {
            return Some(Blocked::Flash);
        }
        if let Some(buffer) = &mut self.buffer {
            let spp = u64::from(self.flash.sectors_per_page());
            if !buffer.is_empty() {
                let mut cursor = 0;
                while cursor < sectors {
                    let from = lsn + cursor;
                    let len = (spp - from % spp).min(sectors - cursor);
                    buffer.trim((from / spp) as u32, run_mask((from % spp) as u32, len as u32));
                    cursor += len;
                }
            }
        }
        self.durability.trim(&mut self.flash, &mut self.schemes, lsn, sectors);
        None
    }

    /// The ranges of a call become an object.
    fn name_object(&mut self, slot: u32) -> Option<Blocked> {
        if !self.durability.has_room(&self.flash) {
            return Some(Blocked::Flash);
        }
        let Request { lsn, sectors, stream, ref data, .. } = self.requests[slot];
        let ranges = Range::list(lsn, sectors, data).unwrap_or_default();
        let ranges: Vec<(u64, u64)> = ranges.into_iter().map(|range| (range.first, range.sectors)).collect();
        let status = match self.try_object(&ranges, stream) {
            Ok(()) => Status::Ok,
            Err(Refusal::Wait) => return Some(Blocked::Flash),
            Err(Refusal::Overlap) => Status::Overlap,
            Err(Refusal::NoSpace) => Status::NoCleanBlocks,
        };
        self.requests[slot].status = status;
        let stats = self.flash.stats_mut();
        stats.object_calls += 1;
        stats.rejected += u64::from(status != Status::Ok);
        None
    }

    fn try_object(&mut self, ranges: &[(u64, u64)], stream: u16) -> Result<(), Refusal> {
        if !self.schemes.make_way(&mut self.flash) {
            let more = self.flash.space().may_gain_room();
            return Err(if more { Refusal::Wait } else { Refusal::NoSpace });
        }
        if let Some(objects) = self.schemes.objects() {
            objects.prepare(&mut self.flash, ranges)?;
        }
        self.durability.keep_log_short(&mut self.flash, &mut self.schemes);
        match self.schemes.objects() {
            Some(objects) => objects.name(&mut self.flash, ranges, stream),
            None => Err(Refusal::NoSpace),
        }
    }

    /// The objects that have some of the sectors are complete.
    fn complete_objects(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot];
        if let Some(objects) = self.schemes.objects() {
            objects.complete(&mut self.flash, lsn, sectors);
        }
        None
    }

    /// A host write is about to be carried out: it may make an object that nobody named.
    #[inline(never)]
    fn notice_write(&mut self, lsn: u64, sectors: u64, stream: u16) {
        if self.flash.space().is_off_home() && !self.flash.records().is_empty() {
            // Objects end without a command that would write the log.
            self.durability.keep_log_short(&mut self.flash, &mut self.schemes);
        }
        if let Some(objects) = self.schemes.objects() {
            objects.notice_write(&mut self.flash, lsn, sectors, stream);
        }
    }

    /// Objects that have just taken their last page come to their end.
    #[inline(always)]
    pub(super) fn settle_objects(&mut self) {
        if let Some(objects) = self.schemes.objects() {
            objects.settle(&mut self.flash);
        }
    }

    fn flush(&mut self, slot: u32) -> Option<Blocked> {
        // Nor would capacitors find room for what a drive without any holds.
        let stays = self.flash.is_read_only() && self.buffer.as_ref().is_some_and(|b| !b.is_empty());
        if self.ram_is_durable() && !stays {
            if self.lost_behind.take().is_some() {
                self.requests[slot].status = Status::MediaError;
            }
            self.release(slot);
            return None;
        }
        while self.buffer.as_ref().is_some_and(|b| !b.is_empty()) {
            if self.flash.media().is_held() {
                return Some(Blocked::Controller);
            }
            if !self.evict() {
                return Some(Blocked::Flash);
            }
        }
        if !self.flash.records().is_empty() {
            self.durability.write_log(&mut self.flash, &mut self.schemes, None);
            if !self.flash.records().is_empty() {
                return Some(Blocked::Flash);
            }
        }
        self.flash.seal_durable();
        // Everything before the flush is in the barriers up to this one; later writes open the next.
        let barrier = self.flash.media_mut().close_barrier();
        self.flushes.push_back((barrier, slot));
        self.complete_flushes();
        None
    }

    pub(super) fn complete_flushes(&mut self) {
        while let Some(&(barrier, slot)) = self.flushes.front() {
            if !self.flash.media_mut().barrier_is_passed(barrier) {
                return;
            }
            self.flushes.pop_front();
            // Barriers are numbered in turn, and the numbers wrap around.
            if self.lost_behind.is_some_and(|lost| barrier.wrapping_sub(lost) as i32 >= 0) {
                self.lost_behind = None;
                self.requests[slot].status = Status::MediaError;
            }
            self.release(slot);
        }
    }
}
