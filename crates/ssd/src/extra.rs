//! Physical pages beyond one per logical page: newer versions and compacted pages.
//!
//! Page mapping holds at most one page per logical page, and over-provisioning is checked against
//! that. A scheme that keeps more marks every such page as *extra* when it is written; the mark
//! goes when the page dies. What a plane has beyond its reserves and the pages that are not extra is
//! unused; a bound on extra pages within that keeps garbage collection going on a full device. The
//! queue remembers in which order the marks were set.

use std::collections::VecDeque;

use nandle_nand::{Extent, Extents, Ppn};

use crate::flash::Flash;
use crate::streams::flashalloc::FlashAlloc;
use crate::striping::Striping;

/// The marks of all pages, and the marked pages of each plane, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    /// Bit per page, laid out as the live bits of [`crate::blocks::Blocks`].
    marks: Vec<u64>,
    count: Vec<u32>,
    total: u32,
    /// Of the marked pages, those that hold data of several logical pages, and how many.
    shared: Vec<u64>,
    shared_total: u32,
    /// All live pages of each plane.
    live: Vec<u32>,
    /// Of each plane, in the order of marking; may hold pages whose mark is gone.
    queues: Vec<VecDeque<(Ppn, u32, u64)>>,
}

impl Extra {
    pub fn new(words: usize, planes: u32) -> Self {
        Self {
            marks: vec![0; words],
            count: vec![0; planes as usize],
            total: 0,
            shared: vec![0; words],
            shared_total: 0,
            live: vec![0; planes as usize],
            queues: vec![VecDeque::new(); planes as usize],
        }
    }
    pub fn count(&self, plane: u32) -> u32 {
        self.count[plane as usize]
    }
    pub fn total(&self) -> u32 {
        self.total
    }
    pub fn shared_total(&self) -> u32 {
        self.shared_total
    }
    pub fn live(&self, plane: u32) -> u32 {
        self.live[plane as usize]
    }
    #[inline]
    pub fn born(&mut self, plane: u32) {
        self.live[plane as usize] += 1;
    }
    #[inline]
    pub fn died(&mut self, plane: u32, at: (usize, u64)) {
        self.live[plane as usize] -= 1;
        self.unmark(plane, at);
    }
    pub fn is_marked(&self, (word, bit): (usize, u64)) -> bool {
        self.marks[word] & bit != 0
    }
    /// `shared`: the page holds data of several logical pages.
    pub fn mark(&mut self, plane: u32, ppn: Ppn, (word, bit): (usize, u64), shared: bool) {
        debug_assert!(self.marks[word] & bit == 0, "marked twice");
        self.marks[word] |= bit;
        if shared {
            self.shared[word] |= bit;
            self.shared_total += 1;
        }
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
            self.shared_total -= u32::from(self.shared[word] & bit != 0);
            self.shared[word] &= !bit;
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
        let page = |e: &Extent| e.lsn / u64::from(self.spp);
        let shared = match self.nand.array().oob(ppn).extents {
            Extents::Home { .. } => false,
            Extents::List(list) => list.iter().any(|e| page(e) != page(&list[0])),
        };
        self.blocks.mark_extra(ppn, shared);
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

    /// Pages of `plane` that collection can fill and that hold no logical page of their own: those that
    /// are spare, and those that the host has not written (WAFLASH, section III-B: "not in use or spare").
    pub(crate) fn unused_pages(&self, plane: u32) -> u32 {
        let (good, layout) = (self.blocks.good(plane), &self.layout);
        let reserves = layout.least_blocks - layout.data_blocks - layout.version_blocks;
        let room = good.saturating_sub(reserves) * self.geometry().pages_per_block;
        room.saturating_sub(self.own_pages(plane))
    }

    /// Whether blocks may be objects' before they are written.
    pub(crate) fn objects_may_come(&self) -> bool {
        self.streams.flashalloc().is_some_and(FlashAlloc::may_claim)
    }

    /// Logical pages of `plane` that the host has not written.
    pub(crate) fn unwritten_pages(&self, plane: u32) -> u32 {
        let data = self.layout.data_blocks * self.geometry().pages_per_block;
        data.saturating_sub(self.own_pages(plane))
    }

    /// Live pages of `plane` that are neither extra nor areas (an area about to be written counts already).
    /// Where objects may come all logical pages count.
    fn own_pages(&self, plane: u32) -> u32 {
        if self.objects_may_come() {
            return self.layout.data_blocks * self.geometry().pages_per_block;
        }
        self.blocks.live(plane).saturating_sub(self.blocks.extra(plane) + self.areas_in(plane))
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
