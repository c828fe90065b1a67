//! Partially written blocks by the type of their next page, where page types are chosen.
//!
//! A block is written type by type: all its LSB pages, then all its CSB pages, and so on (the relaxed
//! program order). So it always has pages of one type next, and lies in exactly
//! one of its plane's queues: LSB the erased ones first), CSB, MSB. A block that is full lies in none.
//!
//! **Room.** Let T = pages not yet written in the partially written blocks of the shared group, plus those
//! of the free blocks. Garbage collection may put a page on any type, so T is what it can still
//! write. Host and system pages leave `reserve` blocks' worth of T alone, and a victim has no more
//! live pages than a block, so its survivors always fit. Collecting a block makes T grow by the
//! pages in it that were written and are dead, or by one if it belongs to another group and was not
//! full. The over-provisioning that every policy insists on leaves more such pages than the reserve,
//! so collection never stops, whatever mixture of types the host asks for.
//!
//! **Groups.** Host stream 0, the system's pages and garbage collection's survivors share one group of
//! queues, so that survivors can fill up slow pages that no host write wants. Static wear
//! levelling and every further host stream have a group each.

use std::collections::VecDeque;
use std::ops::Range;

use nandle_nand::{Array, Block, Ppn};
use nandle_random::Stream;

use super::blocks::{Blocks, State};
use super::group::GroupId;
use crate::media::Media;

const NOWHERE: u8 = u8::MAX;

/// The queues of one group in one plane.
#[derive(Clone, Debug)]
struct Queues {
    /// The blocks whose next page is of each type.
    waiting: [VecDeque<Block>; 4],
    /// Pages of each type not yet written in all of these blocks.
    left: [u32; 4],
}

/// Which queue a block is in.
#[derive(Clone, Copy, Debug)]
struct Place {
    group: u16,
    kind: u8,
}

/// The partially written blocks of all planes.
#[derive(Clone, Debug)]
pub(super) struct PartialBlocks {
    bits: usize,
    groups: u32,
    /// Pages of each type in a block.
    types: [u32; 4],
    pages_per_block: u32,
    /// Blocks' worth of pages that only collection may use.
    reserve: u32,
    queues: Vec<Queues>,
    places: Vec<Place>,
}

/// Which queues `group` writes to.
fn queues_of(group: GroupId) -> u32 {
    match group {
        GroupId::Survivors | GroupId::System | GroupId::Host(0) => 0,
        GroupId::Cold => 1,
        GroupId::Host(stream) => 1 + u32::from(stream),
        GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_) | GroupId::Cache => {
            unreachable!("a dedicated group has blocks of its own")
        }
    }
}

impl PartialBlocks {
    pub fn new(array: &Array, host_streams: u32, reserve: u32) -> Self {
        let (g, cell) = (array.geometry(), array.cell());
        let groups = 1 + host_streams;
        let queues = Queues { waiting: Default::default(), left: [0; 4] };
        Self {
            bits: cell.bits() as usize,
            groups,
            types: cell.pages_of_type().map(u32::from),
            pages_per_block: g.pages_per_block,
            reserve,
            queues: vec![queues; (g.planes() * groups) as usize],
            places: vec![Place { group: 0, kind: NOWHERE }; g.block_slots()],
        }
    }

    /// Page types.
    pub fn bits(&self) -> usize {
        self.bits
    }

    #[inline]
    fn slot(&self, plane: u32, group: GroupId) -> usize {
        (plane * self.groups + queues_of(group)) as usize
    }

    /// Pages left of the types `kinds` in the partially written blocks that `group` writes to.
    #[inline]
    fn left(&self, plane: u32, group: GroupId, kinds: Range<usize>) -> u32 {
        self.queues[self.slot(plane, group)].left[kinds].iter().sum()
    }

    /// Pages that collection can still write in `plane`.
    #[inline]
    pub fn collectable(&self, plane: u32, blocks: &Blocks) -> u32 {
        self.left(plane, GroupId::Survivors, 0..self.bits) + blocks.free(plane) * self.pages_per_block
    }

    /// The same in whole blocks: what the watermarks are compared with.
    #[inline]
    pub fn spare(&self, plane: u32, blocks: &Blocks) -> u32 {
        self.collectable(plane, blocks) / self.pages_per_block
    }

    /// Whether fewer pages of the types `kinds` are left to the shared group than `blocks_worth` blocks
    /// have.
    #[inline]
    pub fn short_of(&self, plane: u32, kinds: Range<usize>, blocks_worth: u32, blocks: &Blocks) -> bool {
        let fresh: u32 = self.types[kinds.clone()].iter().sum();
        self.left(plane, GroupId::Survivors, kinds) + blocks.free(plane) * fresh < blocks_worth * fresh
    }

    /// Fresh blocks that `group` may open.
    #[inline]
    fn openable(&self, plane: u32, group: GroupId, blocks: &Blocks) -> u32 {
        let free = blocks.free(plane);
        if group.is_collected_into() || queues_of(group) == 0 {
            // Within the shared group a fresh block takes nothing away from collection.
            return free;
        }
        free.min(self.spare(plane, blocks).saturating_sub(self.reserve))
    }

    /// Pages of the types `kinds` that `group` can write in `plane` now.
    #[inline]
    pub fn room(&self, plane: u32, group: GroupId, kinds: Range<usize>, blocks: &Blocks) -> u32 {
        let fresh: u32 = self.types[kinds.clone()].iter().sum();
        let pages = self.left(plane, group, kinds) + self.openable(plane, group, blocks) * fresh;
        if group.is_collected_into() || queues_of(group) != 0 {
            return pages;
        }
        pages.min(self.collectable(plane, blocks).saturating_sub(self.reserve * self.pages_per_block))
    }

    fn push(&mut self, slot: usize, block: Block, kind: usize) {
        let place = &mut self.places[block.0 as usize];
        debug_assert_eq!(place.kind, NOWHERE, "a block in two queues");
        *place = Place { group: (slot as u32 % self.groups) as u16, kind: kind as u8 };
        self.queues[slot].waiting[kind].push_back(block);
    }

    fn remove(&mut self, slot: usize, block: Block) {
        let kind = std::mem::replace(&mut self.places[block.0 as usize].kind, NOWHERE);
        let queue = &mut self.queues[slot].waiting[usize::from(kind)];
        let at = queue.iter().position(|&waiting| waiting == block).expect("a block is in its queue");
        queue.remove(at);
    }

    /// The next page of type `kind`, if a partially written block has such a page next.
    #[inline]
    pub fn take(
        &mut self,
        plane: u32,
        group: GroupId,
        kind: usize,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let slot = self.slot(plane, group);
        let block = *self.queues[slot].waiting[kind].front()?;
        Some(self.take_of(slot, block, kind, array, blocks))
    }

    /// The next page of `block`, which is of type `kind`.
    #[inline]
    fn take_of(&mut self, slot: usize, block: Block, kind: usize, array: &Array, blocks: &mut Blocks) -> Ppn {
        let mut done = array.programmed(block);
        let page = array.cell().next_of_type(&done, kind).expect("a queued block has its type next");
        done[kind] += 1;
        self.queues[slot].left[kind] -= 1;
        if u32::from(done[kind]) == self.types[kind] {
            self.remove(slot, block);
            match self.next_kind(&done) {
                Some(next) => self.push(slot, block, next),
                None => blocks.unlist_partial(block),
            }
        }
        array.geometry().ppn(block, page)
    }

    /// The next page of one of the types `kinds`, each that can be had being equally likely.
    #[inline]
    pub fn take_any(
        &mut self,
        plane: u32,
        group: GroupId,
        kinds: Range<usize>,
        draw: &mut Stream,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let waiting = &self.queues[self.slot(plane, group)].waiting;
        let ready = kinds.clone().filter(|&kind| !waiting[kind].is_empty()).count();
        let chosen = match ready {
            0 => return None,
            1 => 0,
            n => draw.below(n as u64) as usize,
        };
        let kind = kinds.filter(|&kind| !waiting[kind].is_empty()).nth(chosen)?;
        self.take(plane, group, kind, array, blocks)
    }

    /// The next page of a partially written block, each whose next page is of one of the types `kinds` being
    /// equally likely.
    #[inline]
    pub fn take_of_any_block(
        &mut self,
        plane: u32,
        group: GroupId,
        kinds: Range<usize>,
        draw: &mut Stream,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let slot = self.slot(plane, group);
        let waiting = &self.queues[slot].waiting;
        let count: usize = waiting[kinds.clone()].iter().map(VecDeque::len).sum();
        if count == 0 {
            return None;
        }
        let mut chosen = draw.below(count as u64) as usize;
        for kind in kinds {
            if let Some(&block) = waiting[kind].get(chosen) {
                return Some(self.take_of(slot, block, kind, array, blocks));
            }
            chosen -= waiting[kind].len();
        }
        None
    }

    /// The first page of a fresh block, if `group` may open one.
    #[inline]
    pub fn open(&mut self, plane: u32, group: GroupId, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        if self.openable(plane, group, blocks) == 0 {
            return None;
        }
        let block = blocks.take_free(plane, group == GroupId::Cold)?;
        let slot = self.slot(plane, group);
        self.push(slot, block, 0);
        for (left, pages) in self.queues[slot].left.iter_mut().zip(self.types) {
            *left += pages;
        }
        blocks.list_partial(block, 0);
        self.take(plane, group, 0, array, blocks)
    }

    /// Cold data: blocks are filled one by one, whatever the type.
    #[inline]
    pub fn take_cold(&mut self, plane: u32, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        for kind in (0..self.bits).rev() {
            if let Some(ppn) = self.take(plane, GroupId::Cold, kind, array, blocks) {
                return Some(ppn);
            }
        }
        self.open(plane, GroupId::Cold, array, blocks)
    }

    /// The type of a block's next page when `done` pages of each are written.
    fn next_kind(&self, done: &[u16; 4]) -> Option<usize> {
        (0..self.bits).find(|&kind| u32::from(done[kind]) < self.types[kind])
    }

    fn unwritten(&self, done: &[u16; 4]) -> [u32; 4] {
        std::array::from_fn(|kind| self.types[kind] - u32::from(done[kind]))
    }

    /// At power-on: a partially written block goes back to the queue of its next page's type.
    pub fn resume(
        &mut self,
        plane: u32,
        group: GroupId,
        block: Block,
        array: &Array,
        blocks: &mut Blocks,
    ) -> bool {
        let done = array.programmed(block);
        let Some(kind) = self.next_kind(&done) else { return false };
        let group = if queues_of(group) < self.groups { group } else { GroupId::Survivors };
        let slot = self.slot(plane, group);
        self.push(slot, block, kind);
        let unwritten = self.unwritten(&done);
        for (left, pages) in self.queues[slot].left.iter_mut().zip(unwritten) {
            *left += pages;
        }
        blocks.list_partial(block, array.pages_programmed(block) - blocks.valid(block));
        true
    }

    /// The partially written block of `plane` with the most dead pages whose survivors find room, and how
    /// many dead pages that is. Blocks with programs under way are passed over, and so are, if
    /// there is a choice, those that still take LSB pages. With `convert`, a block without dead pages
    /// will do: moving its data to slow pages frees its fast ones.
    pub fn victim(&self, plane: u32, convert: bool, media: &Media, blocks: &Blocks) -> Option<(u32, Block)> {
        let room = self.collectable(plane, blocks);
        let mut second = None;
        for (dead, block) in blocks.partial_by_dead(plane) {
            if media.programs_pending(block) {
                continue;
            }
            let Place { group, kind } = self.places[block.0 as usize];
            let lost =
                if group == 0 { self.pages_per_block - media.array().pages_programmed(block) } else { 0 };
            let gains = dead > 0 || group != 0 || (convert && kind > 0);
            if !gains || blocks.valid(block) + lost > room {
                continue;
            }
            if kind > 0 {
                return Some((dead, block));
            }
            second = second.or(Some((dead, block)));
        }
        second
    }

    /// Takes a partially written block out of its queue: no further page of it is written.
    pub fn give_up(&mut self, plane: u32, block: Block, array: &Array, blocks: &mut Blocks) {
        let slot = (plane * self.groups + u32::from(self.places[block.0 as usize].group)) as usize;
        self.remove(slot, block);
        let unwritten = self.unwritten(&array.programmed(block));
        for (left, pages) in self.queues[slot].left.iter_mut().zip(unwritten) {
            *left -= pages;
        }
        blocks.unlist_partial(block);
    }

    pub fn is_queued(&self, block: Block) -> bool {
        self.places[block.0 as usize].kind != NOWHERE
    }

    /// Checks queues and counts against the array; for tests.
    pub fn check(&self, array: &Array, blocks: &Blocks, apart: &[Block]) {
        let mut queued = 0;
        for (slot, queues) in self.queues.iter().enumerate() {
            let mut left = [0; 4];
            for kind in 0..self.bits {
                for &block in &queues.waiting[kind] {
                    let place = self.places[block.0 as usize];
                    assert_eq!(usize::from(place.kind), kind);
                    assert_eq!(u32::from(place.group), slot as u32 % self.groups);
                    assert_eq!(array.geometry().plane_of(block), slot as u32 / self.groups);
                    let done = array.programmed(block);
                    assert_eq!(self.next_kind(&done), Some(kind), "block {block:?} in the wrong queue");
                    left.iter_mut().zip(self.unwritten(&done)).for_each(|(sum, n)| *sum += n);
                    queued += 1;
                }
            }
            assert_eq!(left, queues.left, "pages left in plane and group {slot}");
        }
        let placed = self.places.iter().filter(|place| place.kind != NOWHERE).count();
        assert_eq!(placed, queued, "a block in a queue that does not know it");
        for (block, state) in blocks.each().filter(|(block, _)| !apart.contains(block)) {
            let waits = self.places[block.0 as usize].kind != NOWHERE;
            assert_eq!(
                waits,
                state == State::Open
                    && blocks.group(block).is_none()
                    && array.pages_programmed(block) < self.pages_per_block,
                "block {block:?} is {state:?}"
            );
        }
    }
}
