//! PAPA: partial page-aware page allocation (Fareed, Kang, Lee, Kim: "PAPA: Partial Page-aware Page
//! Allocation in TLC Flash SSD for Performance Enhancement", section V).
//!
//! A partial update reads what a partial write stored before, so partial pages go where reading and
//! writing are fast and full pages where they are not:
//!
//! | page | takes |
//! | --- | --- |
//! | partial | LSB of the active block, else of the next free block; else, as a backup, CSB (Fig. 10, left); else it waits for an emergency collection |
//! | full | CSB, else MSB (Fig. 10, right); if no block of the plane has either, LSB |
//!
//! The last line is the paper's exception "before any data are written". It is applied whenever no
//! block has a CSB or MSB page next, which is when it must be: at the start, and again when all
//! blocks but freshly erased ones are full. Blocks move from the free queue to the CSB/MSB queue to
//! the MSB queue to the full queue (Fig. 9): [`super::begun`].
//!
//! What counts is the write, not the page: a partial update is partial although its page is full
//! after reading, modifying and writing. The out-of-band area remembers it for the survivors of
//! garbage collection. Where the paper is silent:
//! - A survivor keeps its class, but never opens a free block while a page is left in a half-written
//!   one: full survivors take CSB, MSB, LSB; partial ones LSB, CSB and, to avoid a standstill, MSB
//!   (`slow_survivors`). Only host writes are held to "partial pages never on MSB".
//! - The system's pages (translation pages, the log) are full pages.
//! - Emergency collection takes the block with the most dead pages. The paper looks in the full
//!   queue only, yet that is empty when partial writes leave MSB pages unwritten, and hardly used
//!   blocks may be all it holds. Blocks of the CSB/MSB and MSB queues are candidates too, the full one
//!   wins a tie, and `unfinished_victims` counts them.
//! - Cells of b bits: partial pages have the types below b/2 (rounded down) to themselves and type
//!   b/2 as a backup, but never the slowest. MLC: LSB, no backup. QLC: LSB then CSB, backup MSB; full
//!   pages MSB then TSB.

use std::ops::Range;

use nandle_nand::{Array, Ppn};

use super::{AllocationStats, PageClass, Role, begun::Begun};
use crate::blocks::Blocks;

/// The half-written blocks, and where the fast types end.
#[derive(Clone, Debug)]
pub struct Papa {
    pub(super) begun: Begun,
    /// The fastest type for full pages.
    split: usize,
    /// The type that partial pages never get.
    slowest: usize,
}

impl Papa {
    pub(super) fn new(begun: Begun) -> Self {
        let bits = begun.bits();
        Self { begun, split: bits / 2, slowest: bits - 1 }
    }

    /// The page types that a write may get.
    #[inline]
    pub(super) fn kinds(&self, role: Role, class: PageClass) -> Range<usize> {
        let partial = !class.full && matches!(role, Role::Host(_));
        if partial { self.partial() } else { 0..self.begun.bits() }
    }

    /// The page types that a partial write may get.
    #[inline]
    pub(super) fn partial(&self) -> Range<usize> {
        0..self.slowest
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
        stats: &mut AllocationStats,
    ) -> Option<Ppn> {
        if role == Role::Wear {
            return self.begun.take_cold(plane, array, blocks);
        }
        let ppn = if class.full {
            self.take_full(plane, role, array, blocks, stats)
        } else {
            self.take_partial(plane, role, array, blocks, stats)
        };
        debug_assert!(
            class.full || role == Role::Gc || ppn.is_none_or(|p| array.page_type(p) < self.slowest),
            "a partial page on the slowest type"
        );
        ppn
    }

    fn take_full(
        &mut self,
        plane: u32,
        role: Role,
        array: &Array,
        blocks: &mut Blocks,
        stats: &mut AllocationStats,
    ) -> Option<Ppn> {
        for kind in self.split..=self.slowest {
            if let Some(ppn) = self.begun.take(plane, role, kind, array, blocks) {
                stats.backup_msb += u64::from(kind > self.split && role != Role::Gc);
                return Some(ppn);
            }
        }
        stats.full_on_fast += u64::from(role != Role::Gc);
        for kind in (0..self.split).rev() {
            if let Some(ppn) = self.begun.take(plane, role, kind, array, blocks) {
                return Some(ppn);
            }
        }
        self.begun.open(plane, role, array, blocks)
    }

    fn take_partial(
        &mut self,
        plane: u32,
        role: Role,
        array: &Array,
        blocks: &mut Blocks,
        stats: &mut AllocationStats,
    ) -> Option<Ppn> {
        let begun = &mut self.begun;
        if let Some(ppn) = begun.take(plane, role, 0, array, blocks) {
            return Some(ppn);
        }
        if role != Role::Gc
            && let Some(ppn) = begun.open(plane, role, array, blocks)
        {
            return Some(ppn);
        }
        for kind in 1..self.slowest {
            if let Some(ppn) = begun.take(plane, role, kind, array, blocks) {
                stats.backup_csb += u64::from(kind >= self.split && role != Role::Gc);
                return Some(ppn);
            }
        }
        if role != Role::Gc {
            return None;
        }
        let slow = begun.take(plane, role, self.slowest, array, blocks);
        stats.slow_survivors += u64::from(slow.is_some());
        slow.or_else(|| begun.open(plane, role, array, blocks))
    }
}
