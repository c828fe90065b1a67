//! Which blocks are free, open, closed or bad, and how many live pages each holds.
//!
//! Closed blocks lie in a bucket per count of live pages, so that a victim is found without a
//! scan; everything here is O(1) but the free pool, which is a small ordered set per plane.

use std::collections::BTreeSet;

use nandle_nand::{Block, Geometry, Ppn, Shape};
use prefetch_index::prefetch_index;

use super::surplus::Surplus;

const NONE: u32 = u32::MAX;

/// Where a block is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Erased, in the pool.
    Free,
    /// Being written.
    Open,
    /// Full (or given up): may be collected.
    Closed,
    /// Chosen by garbage collection; its live pages are being moved.
    Victim,
    /// Erase ordered.
    Erasing,
    /// Out of use.
    Bad,
}

#[derive(Clone, Debug)]
struct Info {
    last_invalidated: u64,
    valid: u32,
    /// Neighbours in the bucket.
    prev: u32,
    next: u32,
    /// Neighbours in the order of closing.
    older: u32,
    younger: u32,
    /// Place in the plane's dense list of closed blocks.
    place: u32,
    /// The group that the block is dedicated to; [`NONE`] = a normal block.
    group: u32,
    /// That group is closed, and the block is collected like a normal one.
    mingles: bool,
    state: State,
    /// It is in SLC mode, and holds what the host wrote.
    cached: bool,
    /// It is not erased before the records that wait are on flash: what it held was trimmed, say.
    awaits_record: bool,
    /// Partially written, and in a bucket of `partial`.
    listed: bool,
    /// Dead pages, while it is listed.
    dead: u32,
}

#[derive(Clone, Debug)]
struct Plane {
    /// (erases or order of freeing, block).
    free: BTreeSet<(u64, Block)>,
    heads: Vec<u32>,
    tails: Vec<u32>,
    /// Bit n: bucket n is not empty.
    filled: Vec<u64>,
    /// First partially written block per count of dead pages; empty until a policy lists one.
    partial: Vec<u32>,
    closed: Vec<Block>,
    oldest: u32,
    youngest: u32,
    good: u32,
    /// Blocks in SLC mode.
    cached: u32,
}

/// The state of all blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    geometry: Shape,
    info: Vec<Info>,
    /// Normal blocks of each plane, then the dedicated blocks of each plane, those of the SLC cache among them.
    planes: Vec<Plane>,
    /// Dedicated blocks that are closed and without live data, to be erased.
    emptied: Vec<Block>,
    /// Bit per page: holds live data.
    live: Vec<u64>,
    words_per_block: usize,
    /// Which live pages are more than one per logical page, for schemes that write such pages.
    surplus: Option<Box<Surplus>>,
    /// Free pool ordered by wear (true) or by order of freeing.
    by_wear: bool,
    freed: u64,
    /// Pages that collecting a block has to gain at least.
    least_gain: u32,
    /// Blocks of a plane from this one on are the SLC cache's.
    cache_from: u32,
}

impl Blocks {
    pub(crate) fn new(geometry: &Geometry, by_wear: bool) -> Self {
        let ppb = geometry.pages_per_block;
        let words_per_block = ppb.div_ceil(64) as usize;
        let info = Info {
            last_invalidated: 0,
            valid: 0,
            prev: NONE,
            next: NONE,
            older: NONE,
            younger: NONE,
            place: NONE,
            group: NONE,
            mingles: false,
            cached: false,
            state: State::Bad,
            awaits_record: false,
            listed: false,
            dead: 0,
        };
        let plane = Plane {
            free: BTreeSet::new(),
            heads: vec![NONE; ppb as usize + 1],
            tails: vec![NONE; ppb as usize + 1],
            filled: vec![0; (ppb as usize + 1).div_ceil(64)],
            partial: Vec::new(),
            closed: Vec::new(),
            oldest: NONE,
            youngest: NONE,
            good: 0,
            cached: 0,
        };
        Self {
            info: vec![info; geometry.block_slots()],
            planes: vec![plane; 2 * geometry.planes() as usize],
            emptied: Vec::new(),
            live: vec![0; geometry.block_slots() * words_per_block],
            words_per_block,
            surplus: None,
            by_wear,
            freed: 0,
            least_gain: 1,
            cache_from: NONE,
            geometry: Shape::new(geometry.clone()),
        }
    }

    /// Collecting a block has to gain so many pages.
    pub(crate) fn set_least_gain(&mut self, pages: u32) {
        self.least_gain = pages;
    }
    /// The last `blocks` blocks of each plane are the SLC cache's.
    pub(crate) fn set_cache(&mut self, blocks: u32) {
        self.cache_from = self.geometry.blocks_per_plane - blocks;
    }
    /// Blocks of each plane that are the SLC cache's.
    pub(crate) fn own_of_cache(&self) -> u32 {
        self.geometry.blocks_per_plane.saturating_sub(self.cache_from)
    }
    /// Whether `block` is never a normal one, but the SLC cache's.
    #[inline]
    pub fn is_of_cache(&self, block: Block) -> bool {
        block.0 - self.geometry.block(self.geometry.plane_of(block), 0).0 >= self.cache_from
    }
    /// The books of a plane that `block` is in while it is free, or good.
    #[inline]
    fn pool(&self, block: Block) -> usize {
        let plane = self.geometry.plane_of(block) as usize;
        plane + usize::from(self.is_of_cache(block)) * self.geometry.planes() as usize
    }
    /// Free blocks of `plane` that are the SLC cache's.
    #[inline]
    pub fn free_of_cache(&self, plane: u32) -> u32 {
        self.planes[(self.geometry.planes() + plane) as usize].free.len() as u32
    }
    /// Normal blocks of `plane` in SLC mode.
    #[inline]
    pub fn cached(&self, plane: u32) -> u32 {
        self.planes[plane as usize].cached
    }
    /// Takes a free block of `plane` for the SLC cache: one of its own if there is one.
    pub(crate) fn take_for_cache(&mut self, plane: u32) -> Option<Block> {
        let own = &mut self.planes[(self.geometry.planes() + plane) as usize].free;
        let block = match own.pop_first() {
            Some((_, block)) => {
                self.info[block.0 as usize].state = State::Open;
                block
            }
            None => self.take_free(plane, false)?,
        };
        self.enter_cache(block);
        Some(block)
    }
    /// An open block is written in SLC mode; one of the cache's own is kept apart from normal ones.
    pub(crate) fn enter_cache(&mut self, block: Block) {
        debug_assert_eq!(self.state(block), State::Open);
        let pool = self.pool(block);
        self.planes[pool].cached += 1;
        self.info[block.0 as usize].cached = true;
        if self.is_of_cache(block) {
            self.dedicate(block, 0);
        }
    }
    #[inline]
    fn leave_cache(&mut self, block: Block, pool: usize) {
        if std::mem::take(&mut self.info[block.0 as usize].cached) {
            self.planes[pool].cached -= 1;
        }
    }
    /// The block of `plane` in SLC mode that was closed first: of the cache's own, if there are any.
    pub(crate) fn oldest_cached(&self, plane: u32) -> Option<Block> {
        let own = self.dedicated(plane).by_age().find(|&block| self.info[block.0 as usize].cached);
        own.or_else(|| {
            let any = self.cached(plane) > 0;
            let mut normal = self.candidates(plane).by_age().take_while(|_| any);
            normal.find(|&block| self.info[block.0 as usize].cached)
        })
    }
    /// Whether `block` is in SLC mode.
    #[inline]
    pub fn is_cached(&self, block: Block) -> bool {
        self.info[block.0 as usize].cached
    }

    /// Where `block` is in its life.
    pub fn state(&self, block: Block) -> State {
        self.info[block.0 as usize].state
    }
    /// Pages of `block` that hold live data.
    pub fn valid(&self, block: Block) -> u32 {
        self.info[block.0 as usize].valid
    }
    /// Free blocks of `plane`.
    #[inline]
    pub fn free(&self, plane: u32) -> u32 {
        self.planes[plane as usize].free.len() as u32
    }
    /// Blocks of `plane` that are not bad.
    pub fn good(&self, plane: u32) -> u32 {
        self.planes[plane as usize].good
    }
    /// Closed blocks of `plane`, in no particular order.
    pub fn closed(&self, plane: u32) -> &[Block] {
        &self.planes[plane as usize].closed
    }

    /// A block joins the device (at power-on) or returns after an erase.
    pub(crate) fn put_free(&mut self, block: Block, erases: u32) {
        let plane = self.pool(block);
        self.leave_cache(block, plane);
        let info = &mut self.info[block.0 as usize];
        debug_assert!(matches!(info.state, State::Bad | State::Erasing), "freed twice");
        debug_assert_eq!(info.valid, 0);
        if info.state == State::Bad {
            self.planes[plane].good += 1;
        }
        info.state = State::Free;
        info.awaits_record = false;
        (info.group, info.mingles) = (NONE, false);
        let key = if self.by_wear { u64::from(erases) } else { self.freed };
        self.freed += 1;
        self.planes[plane].free.insert((key, block));
    }

    /// A block with programmed pages joins the device at power-on, as the one it was.
    pub(crate) fn put_used(&mut self, block: Block, state: State, now: u64) {
        debug_assert_eq!(self.info[block.0 as usize].state, State::Bad);
        let pool = self.pool(block);
        self.planes[pool].good += 1;
        self.info[block.0 as usize].state = State::Open;
        if state == State::Closed {
            self.close(block, now);
        }
    }

    /// Takes the least (or, with `most_worn`, the most) worn free block of `plane`.
    pub(crate) fn take_free(&mut self, plane: u32, most_worn: bool) -> Option<Block> {
        let pool = &mut self.planes[plane as usize].free;
        let (_, block) = if most_worn { pool.pop_last() } else { pool.pop_first() }?;
        self.info[block.0 as usize].state = State::Open;
        Some(block)
    }

    /// Dedicates an open block to a group: from now on it is not a normal block.
    pub(crate) fn dedicate(&mut self, block: Block, group: u16) {
        debug_assert_eq!(self.state(block), State::Open);
        self.info[block.0 as usize].group = u32::from(group);
    }
    /// The group that `block` is dedicated to, if it is not a normal block.
    #[inline]
    pub fn group(&self, block: Block) -> Option<u16> {
        let group = self.info[block.0 as usize].group;
        (group != NONE).then_some(group as u16)
    }
    /// The group of an open block is closed, and nobody promised that its pages die together: the block
    /// stays dedicated, but collection takes it for a normal one.
    pub(crate) fn mingle(&mut self, block: Block) {
        debug_assert_ne!(self.state(block), State::Closed);
        self.info[block.0 as usize].mingles = true;
    }
    /// Whether collection keeps `block` apart from normal ones.
    #[inline]
    pub(crate) fn is_apart(&self, block: Block) -> bool {
        let info = &self.info[block.0 as usize];
        info.group != NONE && !info.mingles
    }
    /// Returns a dedicated block that was never written.
    pub(crate) fn give_back(&mut self, block: Block, erases: u32) {
        debug_assert_eq!(self.state(block), State::Open);
        self.info[block.0 as usize].state = State::Erasing;
        self.put_free(block, erases);
    }
    /// Dedicated blocks that are closed and without live data, in the order in which they became so.
    pub(crate) fn emptied(&self) -> &[Block] {
        &self.emptied
    }
    pub(crate) fn forget_emptied(&mut self, block: Block) {
        self.emptied.retain(|&b| b != block);
    }

    /// The books that a closed block is kept in: its plane's, apart for dedicated blocks.
    #[inline]
    fn book(&self, block: Block) -> usize {
        let plane = self.geometry.plane_of(block) as usize;
        plane + usize::from(self.is_apart(block)) * self.geometry.planes() as usize
    }

    /// No page of `block` is left to write.
    pub(crate) fn close(&mut self, block: Block, now: u64) {
        let plane = self.book(block);
        let slot = block.0 as usize;
        debug_assert_eq!(self.info[slot].state, State::Open);
        let youngest = self.planes[plane].youngest;
        let place = self.planes[plane].closed.len() as u32;
        let info = &mut self.info[slot];
        (info.state, info.place, info.last_invalidated) = (State::Closed, place, now);
        (info.older, info.younger) = (youngest, NONE);
        if youngest == NONE {
            self.planes[plane].oldest = block.0;
        } else {
            self.info[youngest as usize].younger = block.0;
        }
        self.planes[plane].youngest = block.0;
        self.planes[plane].closed.push(block);
        self.link(block, plane);
        self.note_emptied(block);
    }

    #[inline]
    fn note_emptied(&mut self, block: Block) {
        let info = &self.info[block.0 as usize];
        if info.group != NONE && info.valid == 0 {
            self.emptied.push(block);
        }
    }

    /// Garbage collection takes a closed block out of the candidates.
    pub(crate) fn take_victim(&mut self, block: Block) {
        let plane = self.book(block);
        debug_assert_eq!(self.state(block), State::Closed);
        self.unlink(block, plane);
        let Info { place, older, younger, .. } = self.info[block.0 as usize];
        let closed = &mut self.planes[plane].closed;
        closed.swap_remove(place as usize);
        if let Some(&moved) = closed.get(place as usize) {
            self.info[moved.0 as usize].place = place;
        }
        match older {
            NONE => self.planes[plane].oldest = younger,
            older => self.info[older as usize].younger = younger,
        }
        match younger {
            NONE => self.planes[plane].youngest = older,
            younger => self.info[younger as usize].older = older,
        }
        self.info[block.0 as usize].state = State::Victim;
    }

    /// A victim that is not emptied after all is closed again.
    pub(crate) fn leave_victim(&mut self, block: Block, now: u64) {
        debug_assert_eq!(self.state(block), State::Victim);
        self.info[block.0 as usize].state = State::Open;
        self.close(block, now);
    }

    pub(crate) fn set_erasing(&mut self, block: Block) {
        debug_assert_eq!(self.valid(block), 0, "erase of a block with live data");
        self.info[block.0 as usize].state = State::Erasing;
    }

    /// An erase failed: the block leaves the device.
    pub(crate) fn retire(&mut self, block: Block) {
        let pool = self.pool(block);
        self.leave_cache(block, pool);
        let info = &mut self.info[block.0 as usize];
        (info.state, info.group) = (State::Bad, NONE);
        self.planes[pool].good -= 1;
    }

    /// Puts `block` behind the others of its bucket.
    #[inline(always)]
    fn link(&mut self, block: Block, book: usize) {
        let plane = &mut self.planes[book];
        let infos = self.info.as_mut_slice();
        let info = &mut infos[block.0 as usize];
        let valid = info.valid as usize;
        let tail = std::mem::replace(&mut plane.tails[valid], block.0);
        (info.prev, info.next) = (tail, NONE);
        if tail == NONE {
            plane.heads[valid] = block.0;
            plane.filled[valid / 64] |= 1 << (valid % 64);
        } else {
            infos[tail as usize].next = block.0;
        }
    }

    #[inline(always)]
    fn unlink(&mut self, block: Block, book: usize) {
        let plane = &mut self.planes[book];
        let infos = self.info.as_mut_slice();
        let Info { valid, prev, next, .. } = infos[block.0 as usize];
        let valid = valid as usize;
        match prev {
            NONE => plane.heads[valid] = next,
            prev => infos[prev as usize].next = next,
        }
        match next {
            NONE => plane.tails[valid] = prev,
            next => infos[next as usize].prev = prev,
        }
        if prev == NONE && next == NONE {
            plane.filled[valid / 64] &= !(1 << (valid % 64));
        }
    }

    #[inline]
    fn bit(&self, ppn: Ppn) -> (usize, u64) {
        let page = self.geometry.page_of(ppn);
        let word = self.geometry.block_of(ppn).0 as usize * self.words_per_block + page as usize / 64;
        (word, 1 << (page % 64))
    }

    /// Brings what is known of a page and its block into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, ppn: Ppn) {
        prefetch_index(&self.live, self.bit(ppn).0);
        prefetch_index(&self.info, self.geometry.block_of(ppn).0 as usize);
    }
    /// Whether `ppn` holds live data.
    #[inline]
    pub fn is_live(&self, ppn: Ppn) -> bool {
        let (word, bit) = self.bit(ppn);
        self.live[word] & bit != 0
    }

    /// A page was written.
    #[inline(always)]
    pub(crate) fn set_live<const PLAIN: bool>(&mut self, ppn: Ppn) {
        let (word, bit) = self.bit(ppn);
        debug_assert!(self.live[word] & bit == 0, "page live twice");
        self.live[word] |= bit;
        let block = self.geometry.block_of(ppn);
        self.info[block.0 as usize].valid += 1;
        if !PLAIN && let Some(surplus) = &mut self.surplus {
            surplus.born(self.geometry.plane_of(block));
        }
        debug_assert!(matches!(self.state(block), State::Open));
    }

    /// The last live sector of a page is gone; `PLAIN`: of a drive whose space is plain.
    #[inline]
    pub(crate) fn set_dead<const PLAIN: bool>(&mut self, ppn: Ppn, now: u64) {
        let (word, bit) = self.bit(ppn);
        debug_assert!(self.live[word] & bit != 0, "page dead twice");
        self.live[word] &= !bit;
        let block = self.geometry.block_of(ppn);
        if !PLAIN && let Some(surplus) = &mut self.surplus {
            surplus.died(self.geometry.plane_of(block), (word, bit));
        }
        let info = &mut self.info[block.0 as usize];
        info.last_invalidated = now;
        if info.state == State::Closed {
            let book = if PLAIN { self.geometry.plane_of(block) as usize } else { self.book(block) };
            self.unlink(block, book);
            self.info[block.0 as usize].valid -= 1;
            self.link(block, book);
            if !PLAIN {
                self.note_emptied(block);
            }
            return;
        }
        info.valid -= 1;
        if !PLAIN && info.listed {
            let dead = info.dead + 1;
            self.unlist_partial(block);
            self.list_partial(block, dead);
        }
    }

    /// An open block with `dead` dead pages may be chosen by collection before it is full.
    pub(crate) fn list_partial(&mut self, block: Block, dead: u32) {
        let buckets = self.geometry.pages_per_block as usize + 1;
        let plane = &mut self.planes[self.geometry.plane_of(block) as usize];
        plane.partial.resize(buckets, NONE);
        let head = std::mem::replace(&mut plane.partial[dead as usize], block.0);
        if head != NONE {
            self.info[head as usize].prev = block.0;
        }
        let info = &mut self.info[block.0 as usize];
        debug_assert!(info.state == State::Open && !info.listed);
        (info.listed, info.dead, info.prev, info.next) = (true, dead, NONE, head);
    }

    /// ... and now it may not.
    pub(crate) fn unlist_partial(&mut self, block: Block) {
        let plane = &mut self.planes[self.geometry.plane_of(block) as usize];
        let Info { dead, prev, next, .. } = self.info[block.0 as usize];
        debug_assert!(self.info[block.0 as usize].listed);
        match prev {
            NONE => plane.partial[dead as usize] = next,
            prev => self.info[prev as usize].next = next,
        }
        if next != NONE {
            self.info[next as usize].prev = prev;
        }
        self.info[block.0 as usize].listed = false;
    }

    /// The partially written blocks of `plane` that may be collected, most dead pages first.
    pub(crate) fn partial_by_dead(&self, plane: u32) -> impl Iterator<Item = (u32, Block)> + '_ {
        let heads = &self.planes[plane as usize].partial;
        heads.iter().enumerate().rev().flat_map(|(dead, &head)| {
            std::iter::successors((head != NONE).then_some(head), |&b| {
                let next = self.info[b as usize].next;
                (next != NONE).then_some(next)
            })
            .map(move |block| (dead as u32, Block(block)))
        })
    }

    /// From now on surplus pages are marked and counted.
    pub(crate) fn track_surplus(&mut self) {
        self.surplus = Some(Box::new(Surplus::new(self.live.len(), self.geometry.planes())));
    }
    pub(crate) fn tracks_surplus(&self) -> bool {
        self.surplus.is_some()
    }
    /// Live pages of `plane` beyond one per logical page, as far as they were marked.
    #[inline]
    pub fn surplus(&self, plane: u32) -> u32 {
        self.surplus.as_ref().map_or(0, |surplus| surplus.count(plane))
    }
    /// The same of all planes.
    #[inline]
    pub fn surplus_total(&self) -> u32 {
        self.surplus.as_ref().map_or(0, |surplus| surplus.total())
    }
    /// Most surplus pages that there have been at a time since the counters were reset.
    pub fn surplus_peak(&self) -> u32 {
        self.surplus.as_ref().map_or(0, |surplus| surplus.peak())
    }
    pub(crate) fn set_peak(&mut self, peak: u32) {
        if let Some(surplus) = &mut self.surplus {
            surplus.set_peak(peak);
        }
    }
    /// Whether `ppn` is such a page.
    pub fn is_surplus(&self, ppn: Ppn) -> bool {
        self.surplus.as_ref().is_some_and(|surplus| surplus.is_marked(self.bit(ppn)))
    }
    /// Live pages of `plane`; known where surplus pages are tracked.
    #[inline]
    pub(crate) fn live(&self, plane: u32) -> u32 {
        self.surplus.as_ref().map_or(0, |surplus| surplus.live(plane))
    }
    /// Surplus pages that hold data of several logical pages.
    #[inline]
    pub(crate) fn shared_total(&self) -> u32 {
        self.surplus.as_ref().map_or(0, |surplus| surplus.shared_total())
    }
    /// Marks a live page as surplus; `shared`: it holds data of several logical pages.
    pub(crate) fn mark_surplus(&mut self, ppn: Ppn, shared: bool) {
        debug_assert!(self.is_live(ppn));
        let (at, plane) = (self.bit(ppn), self.geometry.plane_of(self.geometry.block_of(ppn)));
        if let Some(surplus) = &mut self.surplus {
            surplus.mark(plane, ppn, at, shared);
        }
    }
    pub(crate) fn clear_surplus(&mut self, ppn: Ppn) {
        let (at, plane) = (self.bit(ppn), self.geometry.plane_of(self.geometry.block_of(ppn)));
        if let Some(surplus) = &mut self.surplus {
            surplus.unmark(plane, at);
        }
    }
    /// The page of `plane` that has been surplus for longest.
    pub(crate) fn oldest_surplus(&mut self, plane: u32) -> Option<Ppn> {
        self.surplus.as_mut()?.oldest(plane)
    }

    /// The first live page of `block` at or after `page`.
    #[inline]
    pub(crate) fn next_live(&self, block: Block, page: u32) -> Option<u32> {
        let base = block.0 as usize * self.words_per_block;
        let mut word = page as usize / 64;
        let mut bits = *self.live[base..base + self.words_per_block].get(word)? & (u64::MAX << (page % 64));
        loop {
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
            word += 1;
            if word == self.words_per_block {
                return None;
            }
            bits = self.live[base + word];
        }
    }

    /// `block` is not erased before the records that wait now are on flash.
    pub(crate) fn await_record(&mut self, block: Block) {
        self.info[block.0 as usize].awaits_record = true;
    }
    pub(crate) fn awaits_record(&self, block: Block) -> bool {
        self.info[block.0 as usize].awaits_record
    }

    /// The closed normal blocks of `plane`, as victim policies see them.
    pub fn candidates(&self, plane: u32) -> Candidates<'_> {
        Candidates { blocks: self, plane: &self.planes[plane as usize] }
    }
    /// The closed blocks of `plane` that are dedicated to groups.
    pub fn dedicated(&self, plane: u32) -> Candidates<'_> {
        Candidates { blocks: self, plane: &self.planes[(self.geometry.planes() + plane) as usize] }
    }

    /// All good blocks with their states.
    pub fn each(&self) -> impl Iterator<Item = (Block, State)> + '_ {
        (0..self.geometry.planes()).flat_map(|p| self.geometry.blocks_of(p)).map(|b| (b, self.state(b)))
    }

    /// Checks that every count agrees with what it counts; for tests.
    ///
    /// # Panics
    /// If one does not.
    pub fn check(&self) {
        for number in 0..self.geometry.planes() as usize {
            let (plane, apart) =
                (&self.planes[number], &self.planes[number + self.geometry.planes() as usize]);
            let mut counts = [0_u32; 6];
            let mut live = 0;
            for block in self.geometry.blocks_of(number as u32) {
                let bits: u32 = (0..self.words_per_block)
                    .map(|w| self.live[block.0 as usize * self.words_per_block + w].count_ones())
                    .sum();
                assert_eq!(bits, self.valid(block), "live bits of block {block:?}");
                live += bits;
                counts[self.state(block) as usize] += 1;
            }
            assert!(!self.tracks_surplus() || live == self.live(number as u32), "live pages of a plane");
            assert_eq!(counts[State::Free as usize], (plane.free.len() + apart.free.len()) as u32);
            assert_eq!(counts[State::Closed as usize], (plane.closed.len() + apart.closed.len()) as u32);
            assert_eq!(counts[State::Bad as usize], self.geometry.blocks_per_plane - plane.good - apart.good);
            let cached = |of_cache| {
                let blocks = self.geometry.blocks_of(number as u32);
                let cached = blocks.filter(|&b| self.is_cached(b) && self.is_of_cache(b) == of_cache);
                cached.count() as u32
            };
            assert_eq!((cached(false), cached(true)), (plane.cached, apart.cached), "blocks in SLC mode");
            self.check_book(&self.candidates(number as u32), false);
            self.check_book(&self.dedicated(number as u32), true);
        }
    }

    fn check_book(&self, from: &Candidates<'_>, dedicated: bool) {
        let plane = from.plane;
        assert_eq!(from.by_age().count(), plane.closed.len());
        assert!(plane.closed.iter().all(|&block| self.is_apart(block) == dedicated));
        let mut in_buckets = 0;
        for valid in 0..=self.geometry.pages_per_block {
            let mut block = plane.heads[valid as usize];
            assert_eq!(plane.filled[valid as usize / 64] >> (valid % 64) & 1 == 1, block != NONE);
            while block != NONE {
                assert_eq!(self.info[block as usize].valid, valid);
                in_buckets += 1;
                block = self.info[block as usize].next;
            }
        }
        assert_eq!(in_buckets, plane.closed.len());
        if dedicated {
            let empty = plane.closed.iter().filter(|&&block| self.valid(block) == 0);
            assert!(empty.clone().all(|block| self.emptied.contains(block)), "an empty block is forgotten");
        }
    }
}

/// Closed blocks of one plane: the normal ones, or the dedicated ones.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    blocks: &'a Blocks,
    plane: &'a Plane,
}

impl<'a> Candidates<'a> {
    /// Pages of a block.
    pub fn pages_per_block(&self) -> u32 {
        self.blocks.geometry.pages_per_block
    }
    /// Live pages of `block`.
    pub fn valid(&self, block: Block) -> u32 {
        self.blocks.valid(block)
    }
    /// Whether collecting `block` would gain anything.
    pub fn gains(&self, block: Block) -> bool {
        self.valid(block) + self.blocks.least_gain <= self.pages_per_block()
    }
    /// When `block` last lost a page, or was closed if it never did.
    pub fn last_invalidated(&self, block: Block) -> u64 {
        self.blocks.info[block.0 as usize].last_invalidated
    }
    /// All of them, in no particular order.
    pub fn closed(&self) -> &'a [Block] {
        &self.plane.closed
    }
    /// All of them, in the order in which they were closed.
    pub fn by_age(&self) -> impl Iterator<Item = Block> + 'a {
        let info = &self.blocks.info;
        std::iter::successors((self.plane.oldest != NONE).then_some(self.plane.oldest), move |&b| {
            let younger = info[b as usize].younger;
            (younger != NONE).then_some(younger)
        })
        .map(Block)
    }
    /// For each count of live pages that leaves something to gain, ascending: the block that has had it for
    /// longest.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, Block)> + 'a {
        let plane = self.plane;
        let below = self.pages_per_block() + 1 - self.blocks.least_gain;
        plane.filled.iter().enumerate().flat_map(move |(word, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(word as u32 * 64 + bit)
            })
            .filter(move |&valid| valid < below)
            .map(move |valid| (valid, Block(plane.heads[valid as usize])))
        })
    }
}
