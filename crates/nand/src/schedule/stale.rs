//! Contents that nobody asks for any more: they are kept until what supersedes them is on flash, and no longer. So a
//! drive takes memory for what it stores, not for all of its flash, and what is read often stays in the processor's cache.

use super::Nand;
use crate::{OpId, Ppn};

/// What is forgotten when an operation is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Stale {
    /// By operation: pages, and sectors of each.
    of: Vec<Vec<(Ppn, u64)>>,
}

impl Nand {
    /// Whether contents are forgotten as soon as they may be lost, not only when their block is erased.
    #[inline]
    pub fn forgets(&self) -> bool {
        self.stale.is_some()
    }

    /// From now on contents are kept until their block is erased ([`Array::keep_stale`](crate::Array::keep_stale)).
    pub fn keep_stale(&mut self) {
        self.array.keep_stale();
        self.stale = None;
    }

    /// As [`Nand::supersede`], of some sectors of `old`: nobody asks for them once `by` is done.
    pub fn forget_after(&mut self, old: Ppn, sectors: u64, by: OpId) {
        let Some(stale) = &mut self.stale else { return };
        let at = by.0 as usize;
        if at >= stale.of.len() {
            stale.of.resize_with(at + 1, Vec::new);
        }
        stale.of[at].push((old, sectors));
    }

    /// The operation is done.
    #[cold]
    pub(super) fn forget(&mut self, op: u32) {
        let Some(of) = self.stale.as_mut().and_then(|stale| stale.of.get_mut(op as usize)) else { return };
        for (ppn, sectors) in of.drain(..) {
            self.array.forget(ppn, sectors);
        }
    }

    /// The operation will never be done.
    pub(super) fn remember(&mut self, op: OpId) {
        if let Some(of) = self.stale.as_mut().and_then(|stale| stale.of.get_mut(op.0 as usize)) {
            of.clear();
        }
    }
}
