//! The way of a command to where it takes effect and of its answer back, where that takes time: the host link,
//! then a core of the controller.

use nandle_io::{Op, Status};
use nandle_nand::Time;

use super::Ssd;
use super::request::Request;

// What every command passes is inlined into the drive's loop: calls would cost a drive with link and controller 2% more
// instructions.
impl Ssd {
    /// Whether commands take effect as they are submitted.
    #[inline]
    pub(super) fn takes_at_once(&self) -> bool {
        self.link.is_none() && self.flash.media().controller().is_none() || self.on_capacitors
    }

    /// The command in `slot` takes effect.
    #[inline(always)]
    pub(super) fn take<const PLAIN: bool>(&mut self, slot: u32, op: Op, status: Status) {
        if status != Status::Ok {
            self.release(slot);
        } else if op == Op::Read && !self.waits_for_destage(slot) {
            self.read(slot);
        } else {
            self.enqueue::<PLAIN>(slot, op);
        }
    }

    /// The host sends the command in `slot` at `at`.
    #[inline(always)]
    pub(super) fn send(&mut self, at: Time, slot: u32) {
        let request = &mut self.requests[slot];
        let op = request.op;
        if op != Op::Read {
            request.turn = self.turns.give();
        }
        let bytes = if op == Op::Write { self.data_bytes(slot) } else { 0 };
        match &mut self.link {
            Some(link) => link.send(at, slot, bytes),
            None => self.arrive_at_once(slot),
        }
    }

    #[inline(never)]
    fn arrive_at_once(&mut self, slot: u32) {
        self.arrive(slot);
    }

    /// Bytes of data that a request moves.
    fn data_bytes(&self, slot: u32) -> u64 {
        let Request { status, sectors, .. } = self.requests[slot];
        if status == Status::Ok { sectors * u64::from(self.config.geometry.sector_bytes) } else { 0 }
    }

    /// The command in `slot` has come over the link.
    #[inline(always)]
    fn arrive(&mut self, slot: u32) {
        let now = self.now();
        let Request { op, sectors, status, .. } = self.requests[slot];
        let units = match sectors {
            _ if status != Status::Ok || !op.moves_data() => 0,
            1 => 1,
            _ => self.units(slot),
        };
        match self.flash.media_mut().controller_mut() {
            Some(controller) => controller.command(now, slot, units),
            None => self.handled_at_once(slot),
        }
    }

    #[inline(never)]
    fn handled_at_once(&mut self, slot: u32) {
        self.command_handled(slot);
    }

    /// Mapping units that a request touches.
    #[inline(never)]
    fn units(&self, slot: u32) -> u64 {
        let Request { lsn, sectors, .. } = self.requests[slot];
        let unit = |lsn: u64| u64::from(self.flash.media().split(lsn).0);
        unit(lsn + sectors - 1) - unit(lsn) + 1
    }

    /// Nothing is left to be done before the command in `slot` takes effect, but for commands submitted before
    /// it: reads depend on none, all others on each other.
    #[inline(always)]
    fn handled(&mut self, slot: u32) {
        let &Request { op, turn, .. } = &self.requests[slot];
        if op != Op::Read && !self.turns.take(turn, slot) {
            return;
        }
        let mut next = Some(slot);
        while let Some(slot) = next {
            let Request { op, status, .. } = self.requests[slot];
            self.take::<false>(slot, op, status);
            next = if op == Op::Read { None } else { self.turns.pass_on() };
        }
    }

    /// A request is complete but for the way back, which begins at `at`.
    #[inline]
    pub(super) fn answer(&mut self, at: Time, slot: u32) {
        if self.link.is_none() {
            self.delayed.push_back((at, slot));
        } else {
            self.answer_over_link(at, slot);
        }
    }

    /// Answers leave in the order in which the host has them; of those at the same time, without data before with.
    #[inline(never)]
    fn answer_over_link(&mut self, at: Time, slot: u32) {
        let bytes = self.bytes_to_host(slot);
        let at = match &mut self.link {
            Some(link) if !self.on_capacitors => link.answer(at, bytes),
            _ => at,
        };
        if self.delayed.back().is_none_or(|&(last, _)| last < at) {
            self.delayed.push_back((at, slot));
        } else {
            self.answer_between(at, slot, bytes > 0);
        }
    }

    #[inline(never)]
    fn answer_between(&mut self, at: Time, slot: u32, has_data: bool) {
        let earlier = |&(other, of): &(Time, u32)| {
            other < at || other == at && (has_data || self.bytes_to_host(of) == 0)
        };
        self.delayed.insert(self.delayed.partition_point(earlier), (at, slot));
    }

    /// Bytes of data that come with the answer to a request.
    #[inline]
    fn bytes_to_host(&self, slot: u32) -> u64 {
        if self.requests[slot].op == Op::Read { self.data_bytes(slot) } else { 0 }
    }

    /// When the next command has come over the link; [`Time::MAX`] = none is on the way.
    #[inline]
    pub(super) fn next_on_link(&self) -> Time {
        self.link.as_ref().map_or(Time::MAX, |link| link.next())
    }

    /// The command that comes over the link next is there.
    #[inline(always)]
    pub(super) fn step_link(&mut self) {
        let Some((at, slot)) = self.link.as_mut().and_then(|link| link.step()) else { return };
        self.flash.media_mut().advance(at);
        self.arrive(slot);
    }

    /// The controller has handled the command in `slot`, or there is none.
    #[inline(always)]
    pub(super) fn command_handled(&mut self, slot: u32) {
        self.handled(slot);
        self.look_after::<false>();
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
        self.link.as_ref().map(|link| link.busy_ns(self.now()))
    }
}
