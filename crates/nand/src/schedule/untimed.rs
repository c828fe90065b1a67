//! An array without clocks: operations end in the order in which they may begin, all that are on order with one event.

use super::Nand;
use crate::op::NONE;

/// The one alarm that there is.
const ALARM: u32 = 0;

impl Nand {
    /// The operation may begin, and ends with the next event.
    #[inline]
    pub(super) fn enqueue_untimed(&mut self, op: u32) {
        if self.at_once.is_empty() {
            self.await_end();
        }
        self.at_once.push_back(op);
        let parity = std::mem::replace(&mut self.ops[op as usize].parity, NONE);
        if parity != NONE {
            self.release_wait(parity);
        }
    }

    /// Time goes on with every event, so that what happened first lies first.
    fn await_end(&mut self) {
        self.timers.set(ALARM, self.now + 1);
    }

    /// Everything that may begin ends, and what may begin then. A failure comes last: whoever sees to it finds the
    /// flash as it was then.
    pub(super) fn end_all(&mut self) {
        // It stays in front until it is over: what it lets go on is no news.
        while let Some(&op) = self.at_once.front() {
            self.begin(op);
            self.finish(op);
            self.at_once.pop_front();
            if self.done.last().is_some_and(|done| done.failed) {
                break;
            }
        }
        if !self.at_once.is_empty() {
            self.await_end();
        }
    }

    /// The operation that a power cut finds at work.
    pub(crate) fn under_way(&self) -> Option<u32> {
        self.at_once.front().copied()
    }
}
