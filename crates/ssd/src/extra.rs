//! Physical pages beyond one per logical page: newer versions and compacted pages.
//!
//! Page mapping holds at most one page per logical page, and over-provisioning is checked against
//! that. A scheme that keeps more marks every such page as *extra* when it is written; the mark
//! goes when the page dies. Live pages of a plane are thus at most its logical pages and its extra
//! pages, so a bound on the latter keeps garbage collection going on a full device. The queue
//! remembers in which order the marks were set.

use std::collections::VecDeque;

use nandle_nand::{Extents, Ppn};

use crate::flash::Flash;
use crate::striping::Striping;

/// The marks of all pages, and the marked pages of each plane, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    /// Bit per page, laid out as the live bits of [`crate::blocks::Blocks`].
    marks: Vec<u64>,
    count: Vec<u32>,
    total: u32,
    /// May hold pages whose mark is gone.
    queues: Vec<VecDeque<(Ppn, u32, u64)>>,
}

impl Extra {
    pub fn new(words: usize, planes: u32) -> Self {
        Self {
            marks: vec![0; words],
            count: vec![0; planes as usize],
            total: 0,
            queues: vec![VecDeque::new(); planes as usize],
        }
    }
    pub fn count(&self, plane: u32) -> u32 {
        self.count[plane as usize]
    }
    pub fn total(&self) -> u32 {
        self.total
    }
    pub fn is_marked(&self, (word, bit): (usize, u64)) -> bool {
        self.marks[word] & bit != 0
    }
    pub fn mark(&mut self, plane: u32, ppn: Ppn, (word, bit): (usize, u64)) {
        debug_assert!(self.marks[word] & bit == 0, "marked twice");
        self.marks[word] |= bit;
        self.count[plane as usize] += 1;
        self.total += 1;
        let queue = &mut self.queues[plane as usize];
        queue.push_back((ppn, word as u32, bit));
        if queue.len() > 2 * self.count[plane as usize] as usize + 64 {
            self.tidy(plane);
        }
    }
    #[inline]
    pub fn unmark(&mut self, plane: u32, (word, bit): (usize, u64)) {
        if self.marks[word] & bit != 0 {
            self.marks[word] &= !bit;
            self.count[plane as usize] -= 1;
            self.total -= 1;
        }
    }
    /// The page of `plane` that was marked first.
    pub fn oldest(&mut self, plane: u32) -> Option<Ppn> {
        let queue = &mut self.queues[plane as usize];
        while let Some(&(ppn, word, bit)) = queue.front() {
            if self.marks[word as usize] & bit != 0 {
                return Some(ppn);
            }
            queue.pop_front();
        }
        None
    }
    /// Drops entries whose mark is gone, and all but the youngest of a page that was marked anew.
    fn tidy(&mut self, plane: u32) {
        let queue = std::mem::take(&mut self.queues[plane as usize]);
        let mut kept = VecDeque::with_capacity(queue.len());
        for &(ppn, word, bit) in queue.iter().rev() {
            if self.marks[word as usize] & bit != 0 {
                self.marks[word as usize] &= !bit;
                kept.push_front((ppn, word, bit));
            }
        }
        for &(_, word, bit) in &kept {
            self.marks[word as usize] |= bit;
        }
        self.queues[plane as usize] = kept;
    }
}

impl Flash {
    /// The plane that pages of `lpn` alone must lie in; none if any plane does.
    #[inline]
    pub(crate) fn home(&self, lpn: u32) -> Option<u32> {
        match &self.striping {
            Striping::Static(order) => Some(order.plane(lpn)),
            Striping::Dynamic(_) => None,
        }
    }

    /// `ppn` is more than page mapping would keep.
    pub(crate) fn mark_extra(&mut self, ppn: Ppn) {
        self.blocks.mark_extra(ppn);
        let total = u64::from(self.blocks.extra_total());
        self.stats.multi_version.max_extra_pages = self.stats.multi_version.max_extra_pages.max(total);
    }

    /// If one page of its own is all that `lpn` has, that page is not extra (any more).
    #[inline]
    pub(crate) fn settle_extra(&mut self, lpn: u32) {
        if self.blocks.extra_total() > 0
            && let Some(ppn) = self.only_page(lpn)
            && matches!(self.nand.array().oob(ppn).extents, Extents::Home { .. })
        {
            self.blocks.clear_extra(ppn);
        }
    }

    /// The one page that `lpn` has, areas aside.
    #[inline]
    fn only_page(&self, lpn: u32) -> Option<Ppn> {
        if self.areas().is_none() {
            return self.fragments.single(lpn);
        }
        match self.own(lpn).as_slice() {
            [f] if f.shift == 0 => Some(f.ppn),
            _ => None,
        }
    }

    /// Pages of `plane` that no logical page and no reserve lays claim to.
    pub(crate) fn spare_pages(&self, plane: u32) -> u32 {
        let (good, layout) = (self.blocks.good(plane), &self.layout);
        (good + layout.version_blocks).saturating_sub(layout.least_blocks) * self.geometry().pages_per_block
    }

    /// At power-on: of each logical page the oldest page of its own stays unmarked, all its others
    /// are extra, in the order in which they were written.
    pub(crate) fn restore_extra(&mut self) {
        if !self.blocks.tracks_extra() {
            return;
        }
        let array = self.nand.array();
        let mut extra = std::collections::BTreeSet::new();
        let mut own = std::collections::BTreeSet::new();
        for lpn in 0..self.fragments.len() {
            let list = self.own(lpn);
            let alone = |ppn: Ppn| {
                let mut alone = true;
                array
                    .oob(ppn)
                    .extents
                    .each(self.spp, |e| alone &= e.lsn / u64::from(self.spp) == u64::from(lpn));
                alone
            };
            own.extend(list.iter().rev().map(|f| f.ppn).find(|&ppn| alone(ppn)));
            extra.extend(list.iter().map(|f| (array.seq(f.ppn), f.ppn)));
        }
        for (_, ppn) in extra {
            if !own.contains(&ppn) {
                self.mark_extra(ppn);
            }
        }
    }
}
