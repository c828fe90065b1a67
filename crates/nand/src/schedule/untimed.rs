//! An array without clocks: operations end in the order in which they may begin, all that are on order with one event.

use super::Nand;
use crate::op::NONE;
use crate::{Cause, Oob, Ppn};

/// The one alarm that there is.
const ALARM: u32 = 0;

impl Nand {
    /// The operation may begin, and ends with the next event.
    #[inline]
    pub(super) fn enqueue_untimed(&mut self, op: u32) {
        self.await_event();
        self.at_once.push_back(op);
        let parity = std::mem::replace(&mut self.ops[op as usize].parity, NONE);
        if parity != NONE {
            self.release_wait(parity);
        }
    }

    /// There is an event to come.
    #[inline]
    fn await_event(&mut self) {
        if self.at_once.is_empty() && self.copied == 0 {
            self.await_end();
        }
    }

    /// Time goes on with every event, so that what happened first lies first.
    fn await_end(&mut self) {
        self.timers.set(ALARM, self.now + 1);
    }

    /// Everything that may begin ends, and what may begin then. A failure comes last: whoever sees to it finds the
    /// flash as it was then.
    pub(super) fn end_all(&mut self) {
        self.in_flight -= std::mem::take(&mut self.copied);
        // It stays in front until it is over: what it lets go on is no news.
        while let Some(&op) = self.at_once.front() {
            self.begin(op);
            self.finish::<false>(op);
            self.at_once.pop_front();
            if self.done.last().is_some_and(|done| done.failed) {
                break;
            }
        }
        if !self.at_once.is_empty() {
            self.await_end();
        }
    }

    /// Whether a copy that waits for nothing is over when it is ordered: without clocks, where no operation can fail.
    #[inline]
    pub fn copies_at_once(&self) -> bool {
        self.copies_at_once
    }

    /// Reads page `from` and programs what it holds in page `to`, as one piece. Neither page may have to wait: no
    /// program of `from`, nor of the block of `to`, is on order. It counts as under way until the next event. `PLAIN`: the
    /// flash is known to be plain ([`Array::is_plain`](crate::Array::is_plain)).
    ///
    /// # Panics
    /// If flash cannot do it: the block is not usable, or the page not next in the program order.
    #[inline(always)]
    pub fn copy_at_once<const PLAIN: bool>(&mut self, from: Ppn, to: Ppn, oob: &Oob<'_>, cause: Cause) {
        debug_assert!(self.copies_at_once() && self.program_of(from).is_none());
        debug_assert!(!self.programs_pending(self.geometry().block_of(to)));
        self.count_read(self.array.page_type_of::<PLAIN>(from), self.geometry().sectors_per_page(), cause);
        let (kind, _) = self.array.program::<PLAIN>(to, oob);
        self.counters.programs[cause as usize][kind] += self.gang;
        self.array.note_program(to, cause);
        self.await_event();
        self.copied += 1;
        self.in_flight += 1;
    }

    /// The operation that a power cut finds at work.
    pub(crate) fn under_way(&self) -> Option<u32> {
        self.at_once.front().copied()
    }
}
