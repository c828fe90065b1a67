//! The way of a command to where it takes effect and of its answer back, where that takes time: the host link,
//! then a core of the controller.

use nandle_io::{Completion, Op, Status};
use nandle_nand::Time;

use super::Ssd;
use super::request::Request;

impl Ssd {
    /// Whether commands take effect as they are submitted.
    #[inline]
    pub(super) fn takes_at_once(&self) -> bool {
        self.link.is_none() && self.flash.media().controller().is_none() || self.on_capacitors
    }

    /// The command in `slot` takes effect.
    #[inline(always)]
    pub(super) fn take(&mut self, slot: u32) {
        let Request { op, status, .. } = self.requests[slot];
        if status != Status::Ok {
            self.release(slot);
        } else if op == Op::Read && !self.waits_for_destage(slot) {
            self.read(slot);
        } else {
            self.enqueue(slot);
        }
    }

    /// As [`Ssd::take`], for commands that did not take effect as they were submitted.
    #[inline(never)]
    fn take_later(&mut self, slot: u32) {
        self.take(slot);
    }

    /// The host sends the command in `slot` at `at`.
    #[inline(never)]
    pub(super) fn send(&mut self, at: Time, slot: u32) {
        let op = self.requests[slot].op;
        if op != Op::Read {
            self.in_order.push_back(slot);
        }
        let bytes = if op == Op::Write { self.data_bytes(slot) } else { 0 };
        match &mut self.link {
            Some(link) => link.send(at, slot, bytes),
            None => self.arrive(slot),
        }
    }

    /// Bytes of data that a request moves.
    fn data_bytes(&self, slot: u32) -> u64 {
        let Request { status, sectors, .. } = self.requests[slot];
        if status == Status::Ok { sectors * u64::from(self.config.geometry.sector_bytes) } else { 0 }
    }

    /// The command in `slot` has come over the link.
    fn arrive(&mut self, slot: u32) {
        let Request { op, lsn, sectors, status, .. } = self.requests[slot];
        let units = if status != Status::Ok || !op.moves_data() {
            0
        } else if sectors == 1 {
            1
        } else {
            let unit = |lsn: u64| u64::from(self.flash.media().split(lsn).0);
            unit(lsn + sectors - 1) - unit(lsn) + 1
        };
        let now = self.now();
        match self.flash.media_mut().controller_mut() {
            Some(controller) => controller.command(now, slot, units),
            None => self.handled(slot),
        }
    }

    /// Nothing is left to be done before the command in `slot` takes effect, but for commands submitted before
    /// it: reads depend on none, all others on each other.
    #[inline]
    fn handled(&mut self, slot: u32) {
        if self.requests[slot].op == Op::Read {
            return self.take_later(slot);
        }
        self.requests[slot].handled = true;
        while let Some(&first) = self.in_order.front()
            && self.requests[first].handled
        {
            self.in_order.pop_front();
            self.take_later(first);
        }
    }

    /// A request is complete but for the way back, which begins at `at`.
    #[inline]
    pub(super) fn answer(&mut self, at: Time, slot: u32) {
        if self.link.is_none() || self.on_capacitors {
            self.delayed.push_back((at, slot));
        } else {
            self.answer_over_link(at, slot);
        }
    }

    #[inline(never)]
    fn answer_over_link(&mut self, at: Time, slot: u32) {
        let bytes = if self.requests[slot].op == Op::Read { self.data_bytes(slot) } else { 0 };
        if let Some(link) = &mut self.link {
            link.answer(at, slot, bytes);
        }
    }

    /// When the next command or answer has come over the link; [`Time::MAX`] = none is on the way.
    #[inline]
    pub(super) fn next_on_link(&self) -> Time {
        self.link.as_ref().map_or(Time::MAX, |link| link.next())
    }

    /// Carries out what comes over the link next.
    #[inline(never)]
    pub(super) fn step_link(&mut self, done: &mut Vec<Completion>) {
        let Some((at, slot, answer)) = self.link.as_mut().and_then(|link| link.step()) else { return };
        if answer {
            return self.complete(at, slot, done);
        }
        self.flash.media_mut().advance(at);
        self.arrive(slot);
        self.look_after();
        self.flash.media_mut().settle();
    }

    /// The controller has handled the command in `slot`.
    #[inline(never)]
    pub(super) fn command_handled(&mut self, slot: u32) {
        self.handled(slot);
        self.look_after();
        self.flash.media_mut().settle();
    }

    /// Nanoseconds that cores were busy by purpose, as [`crate::controller::PURPOSE_NAMES`] names them, and each
    /// core; none without a controller.
    pub fn controller_busy_ns(&self) -> Option<([u64; crate::controller::PURPOSES], Vec<u64>)> {
        self.flash.media().controller().map(|controller| (controller.busy_ns(), controller.core_busy_ns()))
    }
    /// Bytes that the SLC cache's own blocks and those now in SLC mode hold.
    pub fn slc_cache_bytes(&self) -> u64 {
        self.flash.space().cache_bytes(self.config.unit_bytes())
    }
    /// Nanoseconds that data were on their way to the drive and to the host; none without a link.
    pub fn link_busy_ns(&self) -> Option<(u64, u64)> {
        self.link.as_ref().map(|link| link.busy_ns())
    }
}
