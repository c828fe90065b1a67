//! Time: what happens next, and what follows from it.

use nandle_io::{Completion, Op, Status};
use nandle_nand::{Cause, Done, Kind, Time};

use super::Ssd;
use crate::collect::Work;
use crate::media::{Left, Stepped};

impl Ssd {
    /// When the next thing happens, if anything is under way.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let delayed = self.delayed.front().map_or(Time::MAX, |&(at, _)| at);
        let idle = self.idle_at.unwrap_or(Time::MAX);
        let next = self.flash.media().next_time().min(self.next_on_link()).min(delayed).min(idle);
        (next != Time::MAX).then_some(next)
    }

    /// Nothing is under way: the mapping scheme gets its turn after a while.
    #[inline]
    fn watch_idleness(&mut self) {
        if self.outstanding == 0 && self.flash.media().in_flight() == 0 && self.idle_at.is_none() {
            self.await_idleness();
        }
    }

    /// Asked with every event: the answer is mostly no, and the rest lies out of the way.
    #[inline(never)]
    fn await_idleness(&mut self) {
        let fold = self.flash.space().could_fold().then_some(self.config.slc.idle_ns);
        let after = [self.schemes.idle_after(), fold].into_iter().flatten().min();
        self.idle_at = after.map(|after| self.now() + after);
    }

    fn use_idleness(&mut self, at: Time) {
        self.idle_at = None;
        self.flash.media_mut().advance(at);
        let folds = self.flash.space().could_fold();
        if folds {
            self.flash.space_mut().set_idle(true);
        }
        if self.schemes.idle(&mut self.flash) | folds {
            self.run_collection();
            self.flash.media_mut().settle();
            if self.flash.media().in_flight() == 0 {
                self.watch_idleness();
            }
        }
    }

    /// Carries out everything up to and including time `to`; completions are added to `done`.
    pub fn advance(&mut self, to: Time, done: &mut Vec<Completion>) {
        // What never comes is at `Time::MAX`.
        let last = to.min(Time::MAX - 1);
        if self.flash.is_plain() {
            self.advance_on::<true>(last, done);
        } else {
            self.advance_on::<false>(last, done);
        }
        if to > self.flash.media().now() && to != Time::MAX {
            self.flash.media_mut().advance(to);
        }
    }

    // By itself: within one function the two would keep each other's addresses at hand, 5% of a run.
    #[inline(never)]
    fn advance_on<const PLAIN: bool>(&mut self, to: Time, done: &mut Vec<Completion>) {
        loop {
            let flash = self.flash.media().next_time();
            let until = flash.min(to);
            if let Some(&(at, slot)) = self.delayed.front()
                && at <= until
                && (self.link.is_none() || at <= self.next_on_link())
            {
                self.delayed.pop_front();
                self.complete(at, slot, done);
                continue;
            }
            if self.link.is_some() && self.next_on_link() <= until {
                self.step_link();
                continue;
            }
            if let Some(at) = self.idle_at
                && at <= until
            {
                self.use_idleness(at);
                continue;
            }
            if flash > to {
                break;
            }
            match self.flash.media_mut().step::<PLAIN>() {
                Stepped::Flash => {}
                Stepped::Order => {
                    self.flash.media_mut().settle_on::<PLAIN>();
                    continue;
                }
                Stepped::Command(slot) => {
                    self.command_handled(slot);
                    self.watch_idleness();
                    continue;
                }
            }
            let more = self.ends_more && self.end_more();
            if self.flash.media().done().is_empty() && !more && !self.flash.media().ended_untold() {
                // A phase of an operation ended, no more.
                self.flash.media_mut().settle_on::<PLAIN>();
                continue;
            }
            let mut ended = 0;
            while let Some(&done) = self.flash.media().done().get(ended) {
                self.operation_done::<PLAIN>(&done);
                ended += 1;
            }
            if !self.failed.is_empty() {
                self.programs_failed();
            }
            if self.flash.space_mut().take_progress() && !self.queue.is_empty() {
                self.go_on();
            }
            self.look_after::<PLAIN>();
            self.flash.media_mut().settle_on::<PLAIN>();
            self.watch_idleness();
        }
    }

    /// Sees to the programs that failed, after all else that ended: what it orders takes the numbers of operations that are over.
    #[cold]
    #[inline(never)]
    fn programs_failed(&mut self) {
        for done in std::mem::take(&mut self.failed) {
            let Self { flash, schemes, durability, collect, .. } = self;
            if !collect.program_failed(&done, &mut Work { flash, schemes, keeper: durability }) {
                self.program_lost(&done);
            }
        }
    }

    /// A program failed, and no page was left to repeat it: who waits for what it held is told, and so is the flush that
    /// covers it.
    fn program_lost(&mut self, done: &Done) {
        let left = self.flash.media_mut().leave(done);
        self.lost_behind = left.barrier.or(self.lost_behind);
        self.note_ended(done, &left);
        self.program_done::<false>(done, &left);
        let mut waits = left.request;
        while let Some(slot) = waits.take().or_else(|| self.flash.media_mut().next_joined(done.op)) {
            self.requests[slot].status = Status::MediaError;
            self.release(slot);
        }
    }

    /// Buffered sectors whose dies have taken them are given back, and copies that were over are under way no more;
    /// whether there were some.
    #[inline(never)]
    fn end_more(&mut self) -> bool {
        let sectors = self.flash.media_mut().taken();
        if sectors > 0
            && let Some(buffer) = &mut self.buffer
        {
            buffer.release(sectors);
            self.flash.space_mut().note_progress();
        }
        self.flash.end_copies() | (sectors > 0)
    }

    #[inline(always)]
    pub(super) fn complete(&mut self, at: Time, slot: u32, done: &mut Vec<Completion>) {
        let request = &mut self.requests[slot];
        let data = if request.op == Op::Read { std::mem::take(&mut request.data) } else { Vec::new() };
        self.digest = nandle_random::mix(self.digest ^ request.id.rotate_left(32) ^ at);
        let unreadable = std::mem::take(&mut request.unreadable);
        done.push(Completion { id: request.id, at, status: request.status, data, unreadable });
        self.requests.leave(slot);
        self.outstanding -= 1;
        self.watch_idleness();
    }

    #[inline(always)]
    fn operation_done<const PLAIN: bool>(&mut self, done: &Done) {
        if !PLAIN && done.cause == Cause::Parity {
            // Nobody waits for it but the end of its block.
            if self.operations.is_some() {
                self.note_operation(done, None);
            }
            return self.collect.program_done::<PLAIN>(done.ppn, &mut self.flash);
        }
        if done.is_failed_program() {
            return self.failed.push(*done);
        }
        let left = self.flash.media_mut().leave(done);
        self.note_ended(done, &left);
        match done.kind {
            Kind::Read => {
                if done.cause == Cause::Rmw && self.flash.media_mut().let_go(done.op) {
                    // A core goes on.
                    self.flash.space_mut().note_progress();
                }
            }
            Kind::Program => self.program_done::<PLAIN>(done, &left),
            Kind::Erase => self.collect.erase_done(done, &mut self.flash),
        }
        if let Some(slot) = left.request {
            self.release(slot);
        }
        while !PLAIN && let Some(slot) = self.flash.media_mut().next_joined(done.op) {
            self.release(slot);
        }
    }

    /// For the operation log.
    #[inline(always)]
    fn note_ended(&mut self, done: &Done, left: &Left) {
        if self.operations.is_some() {
            let request = left.request.map(|slot| self.requests[slot].id);
            self.note_operation(done, request);
        }
    }

    #[inline(always)]
    fn program_done<const PLAIN: bool>(&mut self, done: &Done, left: &Left) {
        if let Some(start) = left.rmw_start {
            self.flash.stats_mut().rmw_ns += self.now() - start;
        }
        if left.release > 0
            && let Some(buffer) = &mut self.buffer
        {
            buffer.release(left.release);
            self.flash.space_mut().note_progress();
        }
        if let Some(barrier) = left.barrier {
            self.flash.media_mut().leave_barrier(barrier);
            if !self.flushes.is_empty() {
                self.complete_flushes();
            }
        }
        self.collect.program_done::<PLAIN>(done.ppn, &mut self.flash);
        if done.cause == Cause::Gc {
            self.collect.copy_done(done.op, done.ppn, &mut self.flash);
        }
    }
}
