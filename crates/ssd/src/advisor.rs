//! A policy from outside of the crate, for teaching and trials: the one call that leaves the drive.
//!
//! No drive has an advisor unless [`Ssd::consult`](crate::Ssd::consult) gave it one. It is asked at the
//! instant of a decision and sees the drive as the policies of the crate see it. What it says is
//! checked: an answer that no policy could give, or none, leaves the decision to the configured policy.
//! A drive is a function of its input as long as its advisor is one.

use std::fmt::Debug;

use nandle_nand::{Block, Time};

use crate::blocks::Candidates;
use crate::buffer::{Buffer, Victims};
use crate::flash::Flash;

/// Who is asked. A clone of a drive asks the same one.
pub trait Advisor: Debug + Send + Sync {
    /// Which closed block of `plane` is collected next, at `now`. At least one has a dead page; a
    /// block without one is no answer, as collecting it would gain nothing.
    fn victim(&self, flash: &Flash, plane: u32, from: &Candidates<'_>, now: Time) -> Option<Block>;

    /// Which slots of `buffer` leave next, together, at `now`; of those named twice one counts. The
    /// buffer is not empty.
    fn evict(&self, flash: &Flash, buffer: &Buffer, now: Time) -> Victims;
}

impl Flash {
    /// The advisor's victim, if there is an advisor and its answer can be carried out.
    pub(crate) fn advised_victim(&self, plane: u32, from: &Candidates<'_>) -> Option<Block> {
        let advisor = self.advisor.as_deref()?;
        from.buckets().next()?;
        advisor
            .victim(self, plane, from, self.nand.now())
            .filter(|block| from.closed().contains(block) && from.valid(*block) < from.pages_per_block())
    }

    /// The advisor's choice of what leaves the buffer; empty if there is none.
    pub(crate) fn advised_evictions(&self, buffer: &Buffer) -> Victims {
        let mut slots = match self.advisor.as_deref() {
            Some(advisor) if !buffer.is_empty() => advisor.evict(self, buffer, self.nand.now()),
            _ => return Victims::new(),
        };
        let mut known = Victims::new();
        slots.retain(|&mut slot| {
            let counts = buffer.holds(slot) && !known.contains(&slot);
            known.extend(counts.then_some(slot));
            counts
        });
        slots
    }
}
