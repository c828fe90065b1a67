//! The write buffer: volatile RAM for writes, sectors allocated singly, entries keyed by logical page.
//!
//! It knows in which order pages came and which are full or small. Who leaves first is the oldest, unless a
//! scheme decides otherwise.

use smallvec::SmallVec;

mod config;
mod incoming;
mod index;
mod queued;
mod small;

pub use config::{BufferConfig, FifoEvict, FifoReads, Release};

use crate::linked::{Links, List};
use crate::map::crosses_border;
pub(crate) use incoming::Incoming;
use incoming::Tail;
use index::Index;
use small::SmallPages;

/// What a drive's policies ask of its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Whole requests leave, the oldest first, and an overwrite does not make a page younger (FIFO); else
    /// pages leave, the least recently written first (LRU).
    pub by_request: bool,
    /// A write goes into the entry of its page; else a page has an entry for each request that wrote to it.
    pub merge: bool,
    /// A full buffer is emptied.
    pub evict_all: bool,
    /// What a read finds leaves before it is answered.
    pub destage_reads: bool,
    /// Full pages hang on a list of their own, in the same order.
    pub full_list: bool,
    /// Partial pages of at most this many sectors can be found by their neighbours.
    pub small: Option<u32>,
}

impl BufferPlan {
    /// LRU and nothing else.
    pub const LRU: Self = Self {
        by_request: false,
        merge: true,
        evict_all: false,
        destage_reads: false,
        full_list: false,
        small: None,
    };
}

/// Dirty sectors of one logical page.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Logical page.
    pub lpn: u32,
    /// Its buffered sectors.
    pub mask: u64,
    /// Number of the request that brought it in.
    pub request: u64,
    /// Its stream.
    pub stream: u16,
    /// The host request that wrote to it last falls in one logical page.
    pub alone: bool,
    /// How often it has been passed over since it was written.
    pub passed: u32,
    /// The entry of the same page that an older request left.
    below: Option<u32>,
    order: Links,
    /// Among the full pages.
    full_order: Links,
}

/// The slots chosen to leave.
pub type Victims = SmallVec<[u32; 4]>;

/// Buffered pages in the order of their policy.
#[derive(Clone, Debug)]
pub struct Buffer {
    plan: BufferPlan,
    index: Index,
    entries: Vec<Entry>,
    free: Vec<u32>,
    all: List,
    /// The full pages, if a list of them is kept.
    full_pages: List,
    small: Option<Box<SmallPages>>,
    len: u32,
    partial: u32,
    /// Sectors held by entries.
    held: u64,
    /// Sectors on their way to flash.
    leaving: u64,
    /// The newest request, where requests are queued by themselves.
    tail: Option<Tail>,
    /// All that is buffered leaves before anything comes in.
    draining: bool,
    capacity: u64,
    full: u64,
}

impl Buffer {
    pub(crate) fn new(plan: BufferPlan, capacity_sectors: u64, logical_pages: u32, full: u64) -> Self {
        Self {
            plan,
            small: plan.small.map(|most| Box::new(SmallPages::new(logical_pages, most))),
            index: Index::new(logical_pages),
            entries: Vec::new(),
            free: Vec::new(),
            all: List::EMPTY,
            full_pages: List::EMPTY,
            len: 0,
            partial: 0,
            held: 0,
            leaving: 0,
            tail: None,
            draining: false,
            capacity: capacity_sectors,
            full,
        }
    }

    /// The host is about to ask for `lpn`.
    #[inline]
    pub(crate) fn prefetch_run(&self, lpn: u32) {
        self.index.prefetch_run(lpn);
    }
    /// The same, some requests later.
    #[inline]
    pub(crate) fn prefetch_slot(&self, lpn: u32) {
        self.index.prefetch_slot(lpn);
    }
    /// Entries.
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Whether nothing is buffered (writes on their way to flash aside).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Sectors buffered (writes on their way to flash aside).
    pub fn sectors(&self) -> u64 {
        self.held
    }
    /// Entries that do not fill their page.
    pub fn partial_pages(&self) -> u32 {
        self.partial
    }
    /// An entry.
    pub fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }
    /// Whether a page has one entry, whoever wrote to it.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.plan.merge
    }
    /// Whether what a read finds leaves before it is answered.
    #[inline]
    pub(crate) fn destages_reads(&self) -> bool {
        self.plan.destage_reads
    }
    /// The oldest entry by the policy's order.
    pub fn oldest(&self) -> Option<u32> {
        self.all.oldest()
    }
    /// The entry after `slot`, towards the newest.
    pub fn newer(&self, slot: u32) -> Option<u32> {
        self.entries[slot as usize].order.newer()
    }

    /// All entries, oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = &Entry> {
        std::iter::successors(self.oldest(), |&slot| self.newer(slot)).map(|slot| self.entry(slot))
    }
    /// Whether there is an entry in `slot`.
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.entries.get(slot as usize).is_some_and(|entry| self.slots(entry.lpn).any(|other| other == slot))
    }
    /// Whether an entry fills its page.
    #[inline]
    pub fn is_full(&self, slot: u32) -> bool {
        self.entries[slot as usize].mask == self.full
    }
    /// The full page nearest the oldest end.
    #[inline]
    pub fn oldest_full(&self) -> Option<u32> {
        self.full_pages.oldest()
    }

    /// The newest slot of `lpn`; none if it lies behind the last page.
    #[inline]
    pub fn slot(&self, lpn: u32) -> Option<u32> {
        self.index.slot(lpn)
    }
    /// The buffered sectors of `lpn`.
    #[inline]
    pub fn mask(&self, lpn: u32) -> u64 {
        let Some(slot) = self.slot(lpn) else { return 0 };
        let entry = &self.entries[slot as usize];
        if entry.below.is_none() { entry.mask } else { self.mask_of_all(lpn) }
    }
    /// Sectors of room that a write of `mask` to `lpn` takes.
    #[inline]
    pub(crate) fn takes(&self, lpn: u32, mask: u64) -> u64 {
        let there = if self.plan.merge { self.mask(lpn) } else { 0 };
        u64::from((mask & !there).count_ones())
    }
    /// How many of `sectors` new sectors there is no room for.
    #[inline]
    pub(crate) fn short_of(&self, sectors: u64) -> u64 {
        (self.held + self.leaving + sectors).saturating_sub(self.capacity)
    }
    /// Whether more than half of the room is taken by what has not left.
    #[inline]
    pub(crate) fn is_half_full(&self) -> bool {
        2 * self.held > self.capacity
    }
    /// Sectors on their way to flash.
    #[inline]
    pub(crate) fn leaving(&self) -> u64 {
        self.leaving
    }

    /// Puts a write in, merging it with what is there: whose contents go to [`Buffer::page`] of that slot.
    pub(crate) fn insert(&mut self, lpn: u32, mask: u64, write: Incoming) -> u32 {
        let (stream, alone) = (write.stream, write.is_within(mask));
        let (request, into) =
            if self.plan.merge { (write.number, self.slot(lpn)) } else { self.queue(lpn, mask, write) };
        let slot = match into {
            Some(slot) => {
                let entry = &mut self.entries[slot as usize];
                let was_partial = entry.mask != self.full;
                self.held += u64::from((mask & !entry.mask).count_ones());
                entry.mask |= mask;
                if was_partial && entry.mask == self.full {
                    self.partial -= 1;
                }
                (entry.stream, entry.alone) = (stream, alone);
                entry.passed = 0;
                if !self.plan.by_request {
                    self.unlink(slot);
                    self.link_newest(slot);
                }
                if !was_partial {
                    self.unlink_full(slot);
                }
                slot
            }
            None => {
                let entry = Entry {
                    lpn,
                    mask,
                    request,
                    stream,
                    alone,
                    passed: 0,
                    below: if self.plan.merge { None } else { self.slot(lpn) },
                    order: Links::NONE,
                    full_order: Links::NONE,
                };
                let slot = self.free.pop().unwrap_or(self.entries.len() as u32);
                if slot as usize == self.entries.len() {
                    self.entries.push(entry);
                } else {
                    self.entries[slot as usize] = entry;
                }
                match entry.below {
                    None => self.index.insert(lpn, slot),
                    Some(_) => self.index.replace(lpn, slot),
                }
                self.held += u64::from(mask.count_ones());
                self.len += 1;
                self.partial += u32::from(mask != self.full);
                self.link_newest(slot);
                slot
            }
        };
        if self.is_full(slot) {
            self.link_newest_full(slot);
        }
        self.update_small(lpn);
        slot
    }

    /// Where the contents of a slot are beside the flash: sector 0 of its page, and the others behind it.
    pub(crate) fn page(&self, slot: u32) -> usize {
        slot as usize * self.full.count_ones() as usize
    }

    /// Takes an entry out; its sectors are on their way to flash until [`Buffer::release`].
    pub(crate) fn take(&mut self, slot: u32) -> Entry {
        let entry = self.remove(slot);
        self.leaving += u64::from(entry.mask.count_ones());
        entry
    }

    fn remove(&mut self, slot: u32) -> Entry {
        self.unlink(slot);
        if self.is_full(slot) {
            self.unlink_full(slot);
        }
        let entry = self.entries[slot as usize];
        if self.plan.merge {
            self.index.remove(entry.lpn);
        } else {
            self.unchain(slot);
        }
        self.update_small(entry.lpn);
        self.held -= u64::from(entry.mask.count_ones());
        self.len -= 1;
        self.partial -= u32::from(entry.mask != self.full);
        self.free.push(slot);
        entry
    }

    /// `sectors` that were leaving are on flash.
    pub(crate) fn release(&mut self, sectors: u32) {
        self.leaving -= u64::from(sectors);
    }

    /// Sectors `mask` of `lpn` are no longer wanted.
    pub(crate) fn trim(&mut self, lpn: u32, mask: u64) {
        let mut next = self.slot(lpn);
        while let Some(slot) = next {
            next = self.entries[slot as usize].below;
            self.trim_entry(slot, mask);
        }
    }

    fn trim_entry(&mut self, slot: u32, mask: u64) {
        let entry = &mut self.entries[slot as usize];
        let lpn = entry.lpn;
        if entry.mask & !mask == 0 {
            self.remove(slot);
        } else if entry.mask & mask != 0 {
            self.held -= u64::from((entry.mask & mask).count_ones());
            let was_full = entry.mask == self.full;
            self.partial += u32::from(was_full);
            entry.mask &= !mask;
            if was_full {
                self.unlink_full(slot);
            }
            self.update_small(lpn);
        }
    }

    /// Who leaves next if nobody decides otherwise: the oldest request, or the least recently written page.
    pub(crate) fn next_victims(&self) -> Victims {
        if self.plan.by_request {
            return self.oldest_request();
        }
        let mut victims = Victims::new();
        if let Some(oldest) = self.oldest() {
            victims.push(oldest);
        }
        victims
    }
    /// All entries that came in with the oldest request: VSSIM's buffer. An overwrite merges into its entry and
    /// does not make it younger.
    fn oldest_request(&self) -> Victims {
        let Some(oldest) = self.oldest() else { return Victims::new() };
        let request = self.entry(oldest).request;
        std::iter::successors(Some(oldest), |&slot| self.newer(slot))
            .take_while(|&slot| self.entry(slot).request == request)
            .collect()
    }

    /// Buffered small partial pages of the region of `lpn`, which has `region` pages, nearest first.
    pub fn small_around(&self, lpn: u32, region: u32) -> impl Iterator<Item = u32> + '_ {
        self.small.iter().flat_map(move |small| small.around(lpn, region))
    }

    #[inline]
    fn update_small(&mut self, lpn: u32) {
        if self.small.is_none() {
            return;
        }
        // Only the one entry of its page is a partner.
        let alone = self.slot(lpn).filter(|&slot| self.leaves_first(slot));
        let mask = alone.map_or(0, |slot| self.entries[slot as usize].mask);
        if let Some(small) = &mut self.small {
            small.update(lpn, mask);
        }
    }

    /// An entry has been passed over.
    pub(crate) fn pass(&mut self, slot: u32) {
        self.entries[slot as usize].passed += 1;
    }

    /// Moves an entry to position `n` (1 = the newest end).
    pub(crate) fn move_to(&mut self, slot: u32, n: u32) {
        self.unlink(slot);
        let mut older = self.all.newest();
        for _ in 1..n {
            let Some(above) = older else { break };
            older = self.entries[above as usize].order.older();
        }
        self.all.insert(&mut self.entries, slot, older, |entry| &mut entry.order);
    }

    /// The oldest entry swaps places with the one above it.
    pub(crate) fn swap_oldest(&mut self) {
        let Some(oldest) = self.oldest() else { return };
        let above = self.newer(oldest);
        self.unlink(oldest);
        self.all.insert(&mut self.entries, oldest, above, |entry| &mut entry.order);
    }

    fn link_newest(&mut self, slot: u32) {
        self.all.push(&mut self.entries, slot, |entry| &mut entry.order);
    }
    fn unlink(&mut self, slot: u32) {
        self.all.remove(&mut self.entries, slot, |entry| &mut entry.order);
    }
    fn link_newest_full(&mut self, slot: u32) {
        if self.plan.full_list {
            self.full_pages.push(&mut self.entries, slot, |entry| &mut entry.full_order);
        }
    }
    fn unlink_full(&mut self, slot: u32) {
        if self.plan.full_list {
            self.full_pages.remove(&mut self.entries, slot, |entry| &mut entry.full_order);
        }
    }

    /// If the only victim and the entry of a neighbouring page are one run over the page border, no
    /// larger than a page, both leave together.
    pub(crate) fn join_border(&self, victims: &mut Victims) {
        let &[slot] = victims.as_slice() else { return };
        let Entry { lpn, mask, .. } = self.entries[slot as usize];
        let next =
            self.slot(lpn + 1).filter(|&s| crosses_border(mask, self.entries[s as usize].mask, self.full));
        let before = || {
            self.slot(lpn.wrapping_sub(1))
                .filter(|&s| crosses_border(self.entries[s as usize].mask, mask, self.full))
        };
        victims.extend(next.or_else(before));
    }
}

#[cfg(test)]
impl Buffer {
    /// A buffer of `pages` logical pages without contents and without end.
    pub(crate) fn for_tests(plan: BufferPlan, pages: u32, full: u64) -> Self {
        Self::new(plan, u64::MAX / 2, pages, full)
    }
}
