//! Policies from outside of the crate: the one call that leaves the drive.
//!
//! No drive has an advisor unless [`Ssd::consult`](crate::Ssd::consult) gave it one. There are five
//! questions, one for each kind of policy; an advisor answers those that it has something to say on, at
//! the instant of the decision, and sees the drive as the policies of the crate see it. What it says is
//! checked: an answer that no policy could give, or none, leaves the decision to the configured policy.
//! Of several advisors the first one with an answer decides. A drive is a function of its input as long
//! as its advisors are: they keep no state of their own, and look at the drive's.
//!
//! | question | asked | where the drive has the choice |
//! | --- | --- | --- |
//! | [`Advisor::evict`] | whenever the buffer needs room | `buffer.bytes` above 0 |
//! | [`Advisor::victim`] | for each block that is collected | always |
//! | [`Advisor::page_types`] | once, when the advisor is given to the drive | `scheme.allocation` = `lsb-first`, `size-based` or `papa` |
//! | [`Advisor::stream`] | for each write, before anything of it is placed | `scheme.streams` = `multi-stream` or `fdp` |
//! | [`Advisor::rewrites`] | for each partial update | `scheme.mapping` = `multi-version` or `across+multi-version` |

use std::fmt::Debug;
use std::sync::Arc;

use nandle_nand::{Block, Time};
use smallvec::SmallVec;

use crate::allocation::PageClass;
use crate::blocks::Candidates;
use crate::buffer::{Buffer, Victims};
use crate::flash::Flash;

/// Page types, the best first; collected from any iterator.
pub type PageTypes = SmallVec<[usize; 4]>;

/// Who is asked. A clone of a drive asks the same one.
pub trait Advisor: Debug + Send + Sync {
    /// Which closed block of `plane` is collected next, at `now`. At least one has a dead page; a
    /// block without one is no answer, as collecting it would gain nothing.
    fn victim(&self, _flash: &Flash, _plane: u32, _from: &Candidates<'_>, _now: Time) -> Option<Block> {
        None
    }

    /// Which slots of `buffer` leave next, together, at `now`; of those named twice one counts. The
    /// buffer is not empty.
    fn evict(&self, _flash: &Flash, _buffer: &Buffer, _now: Time) -> Victims {
        Victims::new()
    }

    /// Which page types writes of a class get, the best first; 0 is the fastest (LSB) and `bits` - 1 the
    /// slowest. Types that are left out come last, so a write never waits for a type. A fresh block is
    /// opened where type 0 has its turn. An advisor without an answer for any class has no say.
    fn page_types(&self, _class: PageClass, _bits: usize) -> PageTypes {
        PageTypes::new()
    }

    /// The stream of a write of `sectors` sectors from `lsn`, for which the host gave the id `hint`: it
    /// takes the place of the host's id.
    fn stream(&self, _flash: &Flash, _lsn: u64, _sectors: u64, _hint: u16) -> Option<u16> {
        None
    }

    /// How a partial update of logical page `lpn` is placed: which of its `stored` sectors, none of which
    /// are among those written (`mask`), are read and programmed together with them. All of them is
    /// read-modify-write, none of them a version that holds only what was written; sectors that are not
    /// named stay where they are. An answer that would leave the logical page in more pages than
    /// `scheme.multi_version.max_versions` is none, and where the extra pages of the drive have no room
    /// (`version_budget`) everything is rewritten whatever the answer.
    fn rewrites(&self, _flash: &Flash, _lpn: u32, _mask: u64, _stored: u64) -> Option<u64> {
        None
    }
}

/// The advisors of a drive, in the order in which they are asked; none as a rule.
pub(crate) type Advisors = SmallVec<[Arc<dyn Advisor>; 1]>;

impl Flash {
    /// From now on `advisor` is asked, too.
    pub(crate) fn consult(&mut self, advisor: Arc<dyn Advisor>) {
        self.allocation.prefer(|class, bits| advisor.page_types(class, bits));
        self.advisors.push(advisor);
    }

    /// The first victim that an advisor names and that can be collected.
    pub(crate) fn advised_victim(&self, plane: u32, from: &Candidates<'_>) -> Option<Block> {
        if self.advisors.is_empty() {
            return None;
        }
        from.buckets().next()?;
        let sound =
            |block: &Block| from.closed().contains(block) && from.valid(*block) < from.pages_per_block();
        let now = self.nand.now();
        self.advisors.iter().find_map(|advisor| advisor.victim(self, plane, from, now).filter(sound))
    }

    /// What the advisors choose to leave the buffer; empty if there are none.
    pub(crate) fn advised_evictions(&self, buffer: &Buffer) -> Victims {
        if buffer.is_empty() {
            return Victims::new();
        }
        let now = self.nand.now();
        let sound = |mut slots: Victims| {
            let mut known = Victims::new();
            slots.retain(|&mut slot| {
                let counts = buffer.holds(slot) && !known.contains(&slot);
                known.extend(counts.then_some(slot));
                counts
            });
            slots
        };
        let mut answers = self.advisors.iter().map(|advisor| sound(advisor.evict(self, buffer, now)));
        answers.find(|slots| !slots.is_empty()).unwrap_or_default()
    }

    /// The stream that an advisor names for a write, where writes have one.
    #[inline]
    pub(crate) fn advised_stream(&self, lsn: u64, sectors: u64, hint: u16) -> Option<u16> {
        if self.advisors.is_empty() || !self.streams.has_several() {
            return None;
        }
        self.advisors.iter().find_map(|advisor| advisor.stream(self, lsn, sectors, hint))
    }

    /// What an advisor would have rewritten with a partial update.
    #[inline]
    pub(crate) fn advised_rewrite(&self, lpn: u32, mask: u64, stored: u64) -> Option<u64> {
        let answer = self.advisors.iter().find_map(|advisor| advisor.rewrites(self, lpn, mask, stored));
        answer.map(|sectors| sectors & stored)
    }
}
