//! What operations pass beside die and channel: the controller, the hand-over of a page, the decoder.

use super::{Nand, Phase, Ready};
use crate::op::Op;
use crate::{Cause, OpId, Time};

impl Nand {
    /// From now on, operations that may go to their dies wait for [`Nand::start`].
    pub fn wait_for_controller(&mut self) {
        self.stages.waits_for_controller = true;
        self.copies_whole = false;
    }
    /// Whether there is an operation for [`Nand::next_ready`].
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.stages.ready.is_empty()
    }
    /// An operation that may go to its die and was not asked for yet: which, on which die, and of what kind.
    pub fn next_ready(&mut self) -> Option<Ready> {
        let op = self.stages.ready.pop_front()?;
        let &Op { plane, cause, background, .. } = &self.ops[op as usize];
        let die = self.array.flash().die_of_plane(plane);
        Some(Ready { op: OpId(op), die, cause, background })
    }
    /// The controller has ordered an operation: it goes to its die. [`Nand::settle`] afterwards.
    pub fn start(&mut self, op: OpId) {
        self.enqueue(op.0);
    }
    /// From now on [`Nand::taken`] says when dies have taken the pages that they program.
    pub fn tell_handover(&mut self) {
        self.stages.tells_handover = true;
    }
    /// Programs whose pages were in their dies' registers with the last step.
    pub fn taken(&self) -> &[OpId] {
        &self.stages.taken
    }

    /// Whether an operation came to its end with the last step that nobody waits for: one column of an erase, or a
    /// read for the sake of parity. Its die may be idle.
    #[inline]
    pub fn ended_untold(&self) -> bool {
        self.stages.ended_untold
    }

    /// The transfer that begins hands a page over to its die at `at`, if it is one of a program.
    #[inline(never)]
    pub(super) fn note_handover(&mut self, die_number: u32, at: Time) {
        let die = &self.dies[die_number as usize];
        // Nobody waits for a page of parity.
        if die.phase == Phase::TransferIn && self.ops[die.member as usize].cause != Cause::Parity {
            let before = self.stages.next_handover();
            self.stages.hand_over(at, die.member);
            if before.is_none_or(|before| at < before) {
                self.timers.clear(self.handover_alarm());
                self.timers.set(self.handover_alarm(), at);
            }
        }
    }

    /// What `op` read passes the decoder, and is there.
    #[inline(always)]
    pub(super) fn decode<const PLAIN: bool>(&mut self, op: u32) {
        if self.timing.ecc_ns == 0 { self.finish::<PLAIN>(op) } else { self.wait_for_decoder(op) }
    }

    #[inline(never)]
    pub(super) fn wait_for_decoder(&mut self, op: u32) {
        let at = self.now + self.timing.ecc_ns;
        if self.stages.next_decoded().is_none() {
            self.timers.set(self.handover_alarm() + 1, at);
        }
        self.stages.decode(at, op);
    }

    /// The number of the alarm of handovers; the decoder's comes after it.
    pub(super) fn handover_alarm(&self) -> u32 {
        (self.dies.len() + self.channels.len()) as u32
    }

    #[cold]
    pub(super) fn stage_done(&mut self, alarm: u32) {
        if alarm == self.handover_alarm() {
            self.stages.take_over(self.now);
        } else {
            while let Some(op) = self.stages.decoded(self.now) {
                self.finish::<false>(op);
            }
        }
        let next = if alarm == self.handover_alarm() {
            self.stages.next_handover()
        } else {
            self.stages.next_decoded()
        };
        if let Some(at) = next {
            self.timers.set(alarm, at);
        }
    }
}
