//! What the flash holds: the physical truth, without time.

use std::collections::BTreeMap;

use prefetch_index::prefetch_index;

use crate::contents::Contents;
use crate::note::Note;
use crate::oob::{OobStore, page_name};
use crate::op::NONE;
use crate::weave::{Superblocks, Weave};
use crate::{Block, Cause, Cell, Geometry, Oob, PageType, PageUse, Ppn, Shape};

/// Whether a block can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockCondition {
    /// Reads, programs and erases work.
    Good,
    /// An erase was cut off: the block must be erased before anything else.
    Undefined,
    /// Worn out or bad from the factory.
    Bad,
}

/// Something is different on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A page was programmed, for this.
    Program(Ppn, Cause),
    /// A page was torn, or sectors of it can no longer be read.
    Page(Ppn),
    /// A block was erased.
    Erased(Block),
    /// A block's condition changed; its pages are where they were.
    Block(Block),
}

#[derive(Clone, Debug)]
pub(crate) struct BlockState {
    /// Pages of each type programmed or on order. This, and what is on order, each column of a superblock has for
    /// itself; the rest is that of its first.
    pub done: [u16; 4],
    /// Their sum, over all columns.
    pub programmed: u32,
    pub erases: u32,
    pub first_seq: u64,
    /// Programs on order or running, oldest and newest.
    pub chain_head: u32,
    pub chain_tail: u32,
    /// Reads of the block and programs that supersede something in it, not yet done.
    pub holds: u32,
    /// An erase that waits for them, and how many of its columns are still to be erased.
    pub erase: u32,
    pub erasing: u16,
    pub condition: BlockCondition,
    /// A program failed in it: the next erase will too.
    pub doomed: bool,
    /// Of a superblock: it failed in this column.
    pub failed: bool,
    /// Its newest page is open: not all that one program fills is known yet.
    pub open: bool,
    /// It is written in SLC mode: see [`SlcMode`].
    pub slc: bool,
}

impl BlockState {
    /// The first page of its life, with `stream`, says how it is written.
    pub fn begin(&mut self, seq: u64, slc_labels: Option<[u16; 2]>, stream: u16) {
        self.first_seq = seq;
        self.slc = slc_labels.is_some_and(|labels| labels.contains(&stream));
    }

    /// Flash programs only blocks in which nothing is wrong.
    #[inline(always)]
    pub fn check_usable(&self, ppn: Ppn) {
        assert!(
            self.condition == BlockCondition::Good && self.erase == NONE,
            "{} programmed in a block that is bad, undefined or to be erased",
            page_name(ppn)
        );
    }
}

/// Pages, blocks and their contents.
#[derive(Clone, Debug)]
pub struct Array {
    pub(crate) geometry: Shape,
    pub(crate) cell: Cell,
    pub(crate) oob: OobStore,
    /// Sequence number of each page, counted from its block's first.
    pub(crate) seq: Vec<u32>,
    pub(crate) blocks: Vec<BlockState>,
    contents: Contents,
    /// Contents of system pages (translation pages, log pages).
    notes: BTreeMap<u32, Note>,
    /// Pages written a second time after a failed program: the sequence number of the first attempt,
    /// kept beside their own.
    pub(crate) versions: BTreeMap<u32, u64>,
    /// Sectors (by their place in the page) that the flash cannot return any more.
    lost: BTreeMap<u32, u64>,
    pub(crate) next_seq: u64,
    /// What has changed on flash, if someone wants to know.
    pub(crate) changes: Option<Vec<Change>>,
    /// See [`Array::keep_stale`].
    keeps_stale: bool,
    /// The logarithm of the pages of an address that one program fills: see [`NandConfig::slots`](crate::NandConfig).
    pub(crate) slot_bits: u32,
    pub(crate) weave: Weave,
    /// Which blocks are written in SLC mode, if any may be.
    pub(crate) slc_labels: Option<[u16; 2]>,
}

/// The flash without power: only what was programmed.
#[derive(Clone, Debug)]
pub struct Silicon(pub Array);

impl Array {
    /// An erased array. `unit` bytes are kept for each sector: 0 for none, 8 for a stamp,
    /// `sector_bytes` for the data itself.
    pub fn new(geometry: Geometry, cell: Cell, unit: usize) -> Self {
        Self::with_slots(geometry, cell, unit, 1, None)
    }

    /// As [`Array::new`], where one program fills `slots` pages: `cell` has that many times fewer; and blocks may be
    /// superblocks.
    pub fn with_slots(
        geometry: Geometry,
        cell: Cell,
        unit: usize,
        slots: u32,
        superblocks: Option<&Superblocks>,
    ) -> Self {
        debug_assert!(slots.is_power_of_two() && geometry.pages_per_block.is_multiple_of(slots));
        let geometry = Shape::new(geometry);
        let pages = geometry.pages() as usize;
        let slot_bits = slots.trailing_zeros();
        let weave = superblocks.map_or_else(|| Weave::none(&geometry), Weave::new);
        let slots = geometry.block_slots() * weave.width as usize;
        Self {
            slot_bits,
            weave,
            slc_labels: None,
            oob: OobStore::new(pages),
            seq: vec![0; pages],
            blocks: vec![
                BlockState {
                    done: [0; 4],
                    programmed: 0,
                    erases: 0,
                    first_seq: 0,
                    chain_head: NONE,
                    chain_tail: NONE,
                    holds: 0,
                    erase: NONE,
                    erasing: 0,
                    condition: BlockCondition::Good,
                    doomed: false,
                    failed: false,
                    open: false,
                    slc: false,
                };
                slots
            ],
            contents: Contents::new(pages * geometry.sectors_per_page() as usize, unit),
            geometry,
            cell,
            notes: BTreeMap::new(),
            versions: BTreeMap::new(),
            lost: BTreeMap::new(),
            next_seq: 1,
            changes: None,
            keeps_stale: false,
        }
    }

    /// The shape.
    #[inline]
    pub fn geometry(&self) -> &Shape {
        &self.geometry
    }
    /// The cells.
    #[inline]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }
    /// Bytes kept per sector.
    pub fn unit(&self) -> usize {
        self.contents.unit()
    }
    #[inline]
    pub(crate) fn note_change(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    #[inline]
    pub(crate) fn index(&self, ppn: Ppn) -> usize {
        self.geometry.index(ppn)
    }

    /// What a page says of itself.
    #[inline]
    pub fn oob(&self, ppn: Ppn) -> Oob<'_> {
        self.oob.get(self.index(ppn))
    }
    /// What a page is used for.
    #[inline]
    pub fn page_use(&self, ppn: Ppn) -> PageUse {
        self.oob.kind(self.index(ppn))
    }
    /// Who looks after a page, as its out-of-band area says.
    #[inline]
    pub fn owner(&self, ppn: Ppn) -> u8 {
        self.oob.owner(self.index(ppn))
    }
    /// Which stream wrote a page, as its out-of-band area says.
    #[inline]
    pub fn stream(&self, ppn: Ppn) -> u16 {
        self.oob.stream(self.index(ppn))
    }
    /// The page's sequence number: larger = programmed on a later order.
    pub fn seq(&self, ppn: Ppn) -> u64 {
        self.blocks[self.at(self.geometry.block_of(ppn))].first_seq + u64::from(self.seq[self.index(ppn)])
    }
    /// The place of the page's contents among everything that was written: its sequence number, or
    /// that of the first attempt if the program had to be repeated elsewhere.
    pub fn version(&self, ppn: Ppn) -> u64 {
        match self.versions.get(&ppn.0) {
            Some(&version) => version,
            None => self.seq(ppn),
        }
    }
    /// The sequence number of the first page programmed in `block` since its erase.
    pub fn seq_of_block(&self, block: Block) -> u64 {
        self.blocks[self.at(block)].first_seq
    }
    /// Takes the next sequence number, for a record that is not a page of its own.
    pub fn take_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }
    /// Pages of each type programmed (or on order) in `block`, or in the first column of a superblock.
    #[inline]
    pub fn programmed(&self, block: Block) -> [u16; 4] {
        self.blocks[self.at(block)].done
    }
    /// Pages programmed (or on order) in `block`.
    #[inline]
    pub fn pages_programmed(&self, block: Block) -> u32 {
        self.blocks[self.at(block)].programmed
    }
    /// How often `block` was erased.
    #[inline]
    pub fn erases(&self, block: Block) -> u32 {
        self.blocks[self.at(block)].erases
    }
    /// Whether `block` can be used.
    #[inline]
    pub fn condition(&self, block: Block) -> BlockCondition {
        self.blocks[self.at(block)].condition
    }
    /// Marks `block` as bad (from the factory, or after a failed erase).
    pub fn set_bad(&mut self, block: Block) {
        let at = self.at(block);
        self.blocks[at].condition = BlockCondition::Bad;
        self.note_change(Change::Block(block));
    }
    /// Whether a program failed in `block`, so that its next erase will make it bad.
    #[inline]
    pub fn is_doomed(&self, block: Block) -> bool {
        self.is_doomed_of::<false>(block)
    }
    /// As [`Array::is_doomed`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn is_doomed_of<const PLAIN: bool>(&self, block: Block) -> bool {
        self.blocks[self.at_of::<PLAIN>(block)].doomed
    }
    /// The program of `ppn` failed: the page holds nothing, and its block is not to be relied on.
    pub(crate) fn spoil(&mut self, ppn: Ppn) {
        for ppn in self.together(ppn) {
            let index = self.index(ppn);
            self.oob.tear(index);
            self.notes.remove(&ppn.0);
            self.versions.remove(&ppn.0);
            self.lost.remove(&ppn.0);
            self.note_change(Change::Page(ppn));
        }
        let block = self.geometry.block_of(ppn);
        self.doom_column(block, self.place(ppn).1);
        self.note_change(Change::Block(block));
    }
    /// The sectors of `ppn`, by their place in the page, that cannot be read any more.
    #[inline]
    pub fn lost(&self, ppn: Ppn) -> u64 {
        if self.lost.is_empty() { 0 } else { self.lost.get(&ppn.0).copied().unwrap_or(0) }
    }
    /// Whether any page has sectors that cannot be read.
    #[inline]
    pub fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }
    /// The sectors of `ppn` in `mask`, by their place in the page, cannot be read from now on.
    pub fn lose(&mut self, ppn: Ppn, mask: u64) {
        if mask != 0 {
            *self.lost.entry(ppn.0).or_insert(0) |= mask;
        }
    }
    /// Everything that page `from` holds is to be what page `to` holds, under the same version.
    pub(crate) fn repeat(&mut self, from: Ppn, to: Ppn) {
        if self.page_use(from).is_data() {
            self.copy(from, 0, to, 0, self.geometry.sectors_per_page());
        }
        if let Some(note) = self.note(from).cloned() {
            self.set_note(to, note);
        }
        let version = self.version(from);
        self.versions.insert(to.0, version);
    }
    /// The type of `ppn`.
    #[inline]
    pub fn page_type(&self, ppn: Ppn) -> PageType {
        self.page_type_of::<false>(ppn)
    }
    #[inline(always)]
    pub(crate) fn page_type_of<const PLAIN: bool>(&self, ppn: Ppn) -> PageType {
        self.cell.page_type(if PLAIN { self.geometry.page_of(ppn) } else { self.place(ppn).0 })
    }
    /// The shadow order's next page of `block`, if any is left.
    #[inline]
    pub fn next_strict(&self, block: Block) -> Option<Ppn> {
        self.nth_strict(block, self.pages_programmed(block))
    }
    /// The `n`th page (from 0) of `block` in the shadow order, if it has so many.
    #[inline(always)]
    pub fn nth_strict(&self, block: Block, n: u32) -> Option<Ppn> {
        self.nth_strict_of::<false>(block, n)
    }
    /// As [`Array::nth_strict`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn nth_strict_of<const PLAIN: bool>(&self, block: Block, n: u32) -> Option<Ppn> {
        if n >= self.block_pages_of::<PLAIN>(block) {
            return None;
        }
        if PLAIN {
            return Some(self.geometry.ppn(block, self.cell.strict_page(n)));
        }
        let turn = n >> self.slot_bits;
        let page = if self.is_slc(block) {
            turn * self.cell.bits()
        } else {
            let (turn, at) = self.weave.split_turn(turn);
            self.weave.page(self.cell.strict_page(turn), at)
        };
        Some(self.geometry.ppn(block, page << self.slot_bits | n & (self.slots() - 1)))
    }

    /// Writes a page's out-of-band area and takes its place in the program order. Its type, and where the state of
    /// its column is kept.
    ///
    /// # Panics
    /// If the block is not usable or the page is not next in the program order: flash cannot do that.
    #[inline(always)]
    pub(crate) fn program<const PLAIN: bool>(&mut self, ppn: Ppn, oob: &Oob<'_>) -> (PageType, usize) {
        let at = self.at_of::<PLAIN>(self.geometry.block_of(ppn));
        let page = self.geometry.page_of(ppn);
        let (row, column) = if PLAIN { (page, 0) } else { self.place(ppn) };
        let (index, column) = (self.index(ppn), at + column as usize);
        let kind = self.cell.page_type(row);
        let mut state = &mut self.blocks[at];
        state.check_usable(ppn);
        if state.programmed == 0 {
            state.begin(self.next_seq, self.slc_labels, oob.stream);
        }
        state.programmed += 1;
        let (slc, delta) = (!PLAIN && state.slc, self.next_seq - state.first_seq);
        self.seq[index] = u32::try_from(delta).expect("a block stays open for fewer than 2^32 programs");
        self.next_seq += 1;
        if !PLAIN && self.weave.width > 1 {
            state = &mut self.blocks[column];
        }
        assert!(
            page < self.geometry.pages_per_block && self.cell.allows(slc, &state.done, row),
            "{} programmed out of order or twice: {:?} programmed so far",
            page_name(ppn),
            state.done
        );
        state.done[kind] += 1;
        self.oob.set(index, oob);
        (kind, column)
    }

    /// Erases a block at once; its wear is counted.
    pub fn erase(&mut self, block: Block) {
        self.wipe(block);
        let at = self.at(block);
        let state = &mut self.blocks[at];
        state.condition = BlockCondition::Good;
        state.erases += 1;
        self.note_change(Change::Erased(block));
    }

    pub(crate) fn wipe(&mut self, block: Block) {
        let first = self.index(self.geometry.ppn(block, 0));
        let pages = first..first + self.geometry.pages_per_block as usize;
        if self.unit() != 0 {
            let per_page = self.geometry.sectors_per_page() as usize;
            for sector in pages.start * per_page..pages.end * per_page {
                self.contents.clear(sector);
            }
        }
        for index in pages {
            self.oob.clear(index);
        }
        let at = self.at(block);
        for state in &mut self.blocks[at..at + self.weave.width as usize] {
            (state.done, state.programmed, state.slc) = ([0; 4], 0, false);
        }
        let first = self.geometry.ppn(block, 0).0;
        let pages = first..first + self.geometry.pages_per_block;
        clear(&mut self.notes, pages.clone());
        clear(&mut self.versions, pages.clone());
        clear(&mut self.lost, pages.clone());
        self.weave.wipe(pages);
    }

    /// Makes a page as if it had never been ordered; its order number is returned to the block.
    pub(crate) fn unprogram(&mut self, ppn: Ppn) {
        let block = self.at(self.geometry.block_of(ppn));
        for ppn in self.together(ppn) {
            let index = self.index(ppn);
            let entered = self.oob.kind(index) != PageUse::Erased;
            self.blocks[block].programmed -= u32::from(entered);
            self.oob.clear(index);
            self.notes.remove(&ppn.0);
            self.versions.remove(&ppn.0);
            self.lost.remove(&ppn.0);
        }
        let kind = self.page_type(ppn);
        let column = self.at_column(ppn);
        self.blocks[column].done[kind] -= 1;
        self.blocks[block].open = false;
    }

    /// The bytes kept for each of `n` sectors from sector `at` of `ppn`, zeros for those that nothing was
    /// programmed in; none if contents are not modelled.
    pub fn sectors(&self, ppn: Ppn, at: u32, n: u32) -> impl Iterator<Item = &[u8]> {
        let first = self.sector(ppn, at);
        let n = if self.unit() == 0 { 0 } else { n as usize };
        self.contents.run(first..first + n)
    }

    /// Writes the bytes kept for sectors from sector `at` of `ppn` to `out`, which has the size of some sectors.
    pub fn read(&self, ppn: Ppn, at: u32, out: &mut [u8]) {
        if self.unit() != 0 {
            let first = self.sector(ppn, at);
            for (n, bytes) in out.chunks_exact_mut(self.unit()).enumerate() {
                debug_assert!(
                    self.contents.has(first + n),
                    "{} read, but nothing was programmed there",
                    page_name(ppn)
                );
                bytes.copy_from_slice(self.contents.get(first + n));
            }
        }
    }

    /// Whether memory for further contents is taken in huge pages: where much is filled at once, a thousandth as many
    /// faults. While a drive serves, one such page at a time would hold up its requests.
    pub fn take_huge_pages(&mut self, yes: bool) {
        self.contents.huge_pages = yes;
    }

    /// Most pages are about to be programmed.
    pub fn expect_full(&mut self) {
        self.oob.expect_full();
    }

    /// Keeps `bytes` as the contents of the sectors from sector `at` of `ppn`.
    pub fn fill(&mut self, ppn: Ppn, at: u32, bytes: &[u8]) {
        if self.unit() != 0 {
            let first = self.sector(ppn, at);
            for (n, bytes) in bytes.chunks_exact(self.unit()).enumerate() {
                self.contents.set(first + n, bytes);
            }
        }
    }

    /// Contents are to be kept until their block is erased: a copy elsewhere follows the flash, and may be asked for them
    /// when what supersedes them is on flash here and not yet there.
    pub fn keep_stale(&mut self) {
        self.keeps_stale = true;
    }

    /// Whether they are.
    pub fn keeps_stale(&self) -> bool {
        self.keeps_stale
    }

    /// Sectors whose contents are kept; what several pages have is one.
    pub fn kept_sectors(&self) -> usize {
        self.contents.kept()
    }

    /// Forgets the contents of some sectors of a page.
    pub(crate) fn forget(&mut self, ppn: Ppn, mut sectors: u64) {
        let first = self.sector(ppn, 0);
        while sectors != 0 {
            self.contents.clear(first + sectors.trailing_zeros() as usize);
            sectors &= sectors - 1;
        }
    }

    /// Keeps `bytes` for the sectors from sector `at` beside the flash, from where they are programmed without being
    /// copied ([`Array::fill_from_aside`]).
    #[inline]
    pub fn set_aside(&mut self, at: usize, bytes: &[u8]) {
        if self.unit() != 0 {
            for (n, bytes) in bytes.chunks_exact(self.unit()).enumerate() {
                self.contents.set_aside(at + n, bytes);
            }
        }
    }

    /// Writes the bytes kept for sectors from sector `at` beside the flash to `out`, which has the size of some sectors.
    pub fn read_aside(&self, at: usize, out: &mut [u8]) {
        if self.unit() != 0 {
            for (n, bytes) in out.chunks_exact_mut(self.unit()).enumerate() {
                bytes.copy_from_slice(self.contents.aside(at + n));
            }
        }
    }

    /// `n` sectors beside the flash have each other's contents.
    pub fn swap_aside(&mut self, a: usize, b: usize, n: u32) {
        if self.unit() != 0 {
            (0..n as usize).for_each(|n| self.contents.swap_aside(a + n, b + n));
        }
    }

    /// Moves the contents of `n` sectors from sector `from` beside the flash to those from sector `at` of `ppn`.
    pub fn fill_from_aside(&mut self, ppn: Ppn, at: u32, from: usize, n: u32) {
        if self.unit() != 0 {
            let first = self.sector(ppn, at);
            (0..n as usize).for_each(|n| self.contents.take_aside(from + n, first + n));
        }
    }

    /// Nothing is kept beside the flash any more.
    pub fn forget_aside(&mut self) {
        self.contents.forget_aside();
    }

    /// Copies the contents of `n` sectors from one page to another; what cannot be read stays unreadable.
    #[inline]
    pub fn copy(&mut self, from: Ppn, from_at: u32, to: Ppn, to_at: u32, n: u32) {
        if self.unit() != 0 || self.any_lost() {
            self.copy_contents(from, from_at, to, to_at, n);
        }
    }

    #[inline(never)]
    fn copy_contents(&mut self, from: Ppn, from_at: u32, to: Ppn, to_at: u32, n: u32) {
        if self.unit() != 0 {
            let (from, to) = (self.sector(from, from_at), self.sector(to, to_at));
            for n in 0..n as usize {
                self.contents.share(from + n, to + n);
            }
        }
        if self.any_lost() {
            let gone = self.lost(from) >> from_at & (u64::MAX >> (64 - n));
            self.lose(to, gone << to_at);
        }
    }

    /// The number of a sector among all of the device.
    #[inline]
    fn sector(&self, ppn: Ppn, at: u32) -> usize {
        self.index(ppn) * self.geometry.sectors_per_page() as usize + at as usize
    }

    /// What a system page holds.
    pub fn note(&self, ppn: Ppn) -> Option<&Note> {
        self.notes.get(&ppn.0)
    }
    /// Keeps what a system page holds.
    pub fn set_note(&mut self, ppn: Ppn, note: Note) {
        debug_assert!(note.len() <= self.geometry.page_bytes as usize);
        self.notes.insert(ppn.0, note);
    }
    /// Nobody asks any more for what it holds.
    pub fn forget_note(&mut self, ppn: Ppn) {
        self.notes.remove(&ppn.0);
    }
    /// Whether any page holds more than one run of sectors.
    #[inline]
    pub fn has_lists(&self) -> bool {
        self.oob.has_lists()
    }

    /// Brings where the contents of a page are into the processor's cache.
    #[inline]
    pub fn prefetch_places(&self, ppn: Ppn) {
        if self.unit() != 0 {
            self.contents.prefetch_place(self.sector(ppn, 0));
        }
    }
    /// Then the first of them.
    #[inline]
    pub fn prefetch_bytes(&self, ppn: Ppn) {
        if self.unit() != 0 {
            self.contents.prefetch_bytes(self.sector(ppn, 0));
        }
    }

    /// Brings the out-of-band area of a page into the processor's cache.
    #[inline]
    pub fn prefetch_oob(&self, ppn: Ppn) {
        self.oob.prefetch(self.index(ppn));
    }
    /// The logical page of a page that holds one at home.
    #[inline]
    pub fn lpn_at_home(&self, ppn: Ppn) -> Option<u32> {
        self.oob.lpn_at_home(self.index(ppn))
    }
    /// Brings what is known of a page and its block into the processor's cache.
    #[inline]
    pub fn prefetch(&self, ppn: Ppn) {
        self.oob.prefetch(self.index(ppn));
        prefetch_index(&self.blocks, self.at(self.geometry.block_of(ppn)));
    }
}

fn clear<T>(of: &mut BTreeMap<u32, T>, pages: std::ops::Range<u32>) {
    if !of.is_empty() {
        while let Some((&ppn, _)) = of.range(pages.clone()).next() {
            of.remove(&ppn);
        }
    }
}
