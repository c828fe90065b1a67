//! Physical pages beyond one per logical page.
//!
//! Page mapping holds at most one page per logical page, and over-provisioning is checked against
//! that. A scheme that keeps more marks every such page as *surplus* when it is written; the mark
//! goes when the page dies. What a plane has beyond its reserves and the pages that are not surplus is
//! unused; a bound on surplus pages within that keeps garbage collection going on a full device. The
//! queue remembers in which order the marks were set.

use std::collections::VecDeque;

use nandle_nand::Ppn;

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
