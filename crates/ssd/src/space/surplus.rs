//! Physical pages beyond one per logical page.
//!
//! Page mapping holds at most one page per logical page, and over-provisioning is checked against
//! that. A scheme that keeps more marks every such page as *surplus* when it is written; the mark
//! goes when the page dies. What a plane has beyond its reserves and the pages that are not surplus is
//! unused; a bound on surplus pages within that keeps garbage collection going on a full device. The
//! queue remembers in which order the marks were set.

use std::collections::VecDeque;

use nandle_nand::Ppn;

use super::Space;

/// The marks of all pages, and the marked pages of each plane, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Surplus {
    /// Bit per page, laid out as the live bits of [`super::blocks::Blocks`].
    marks: Vec<u64>,
    count: Vec<u32>,
    total: u32,
    /// Most that there have been at a time.
    peak: u32,
    /// Of the marked pages, those that hold data of several logical pages, and how many.
    shared: Vec<u64>,
    shared_total: u32,
    /// All live pages of each plane.
    live: Vec<u32>,
    /// Of each plane, in the order of marking; may hold pages whose mark is gone.
    queues: Vec<VecDeque<(Ppn, u32, u64)>>,
}

impl Surplus {
    pub fn new(words: usize, planes: u32) -> Self {
        Self {
            marks: vec![0; words],
            count: vec![0; planes as usize],
            total: 0,
            peak: 0,
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
    pub fn peak(&self) -> u32 {
        self.peak
    }
    pub fn set_peak(&mut self, peak: u32) {
        self.peak = peak;
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
        self.peak = self.peak.max(self.total);
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
    /// Drops entries whose mark is gone, and all but the youngest of a page that was marked twice.
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

impl Space {
    /// Whether surplus pages have to be looked after when a logical page loses others.
    #[inline]
    pub(crate) fn surplus_settles(&self) -> bool {
        self.surplus_settles && self.blocks.surplus_total() > 0
    }

    /// Pages of `plane` that are more than one per logical page and not marked as surplus.
    #[inline]
    pub fn apart(&self, plane: u32) -> u32 {
        self.apart[plane as usize]
    }
    #[inline]
    pub(crate) fn add_apart(&mut self, plane: u32) {
        self.apart[plane as usize] += 1;
    }
    #[inline]
    pub(crate) fn drop_apart(&mut self, plane: u32) {
        self.apart[plane as usize] -= 1;
    }
    /// Pages of `plane` beyond what all logical pages and the reserve need.
    #[inline]
    pub fn beyond_need(&self, plane: u32) -> u32 {
        self.blocks.good(plane).saturating_sub(self.limits.least) * self.pages_per_block
    }
    /// Pages of `plane` that collection can fill and that hold no logical page of their own: those that
    /// are spare, and those that the host has not written.
    pub fn unused_pages(&self, plane: u32) -> u32 {
        let reserves = self.limits.least - self.limits.data - self.limits.surplus;
        let room = self.blocks.good(plane).saturating_sub(reserves) * self.pages_per_block;
        room.saturating_sub(self.own_pages(plane))
    }
    /// Logical pages of `plane` that the host has not written.
    pub fn unwritten_pages(&self, plane: u32) -> u32 {
        let data = self.limits.data * self.pages_per_block;
        data.saturating_sub(self.own_pages(plane))
    }
    /// Live pages of `plane` that are not more than one per logical page (one about to be counted as such
    /// is left out already). Where blocks may be claimed all logical pages count.
    pub(super) fn own_pages(&self, plane: u32) -> u32 {
        if self.may_be_claimed() {
            return self.limits.data * self.pages_per_block;
        }
        self.blocks.live(plane).saturating_sub(self.blocks.surplus(plane) + self.apart(plane))
    }
}
