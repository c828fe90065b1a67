//! What a superblock's columns have of their own, and what parity does for a page.

use crate::op::NONE;
use crate::{Array, Block, BlockCondition, Oob, PageUse, Ppn, Shape};

impl Array {
    /// The flash itself: its channels, dies and planes.
    #[inline]
    pub fn flash(&self) -> &Shape {
        &self.weave.flash
    }
    /// Blocks of the flash that an addressed block is made of.
    #[inline]
    pub fn width(&self) -> u32 {
        self.weave.width
    }
    /// Whether a block is one of the flash, a page is programmed by itself, and no block is in SLC mode. What every page
    /// goes through is laid out twice, as functions of `PLAIN`: once for flash of which this holds, once for any. What
    /// would be asked again for each page, a tenth of all instructions, is asked once.
    pub fn is_plain(&self) -> bool {
        self.weave.width == 1 && self.weave.parity == 0 && self.slot_bits == 0 && self.slc_labels.is_none()
    }
    /// Where the state of the first column of `block` is kept, which says what holds for all of it.
    #[inline(always)]
    pub(crate) fn at(&self, block: Block) -> usize {
        self.at_of::<false>(block)
    }
    #[inline(always)]
    pub(crate) fn at_of<const PLAIN: bool>(&self, block: Block) -> usize {
        block.0 as usize * if PLAIN { 1 } else { self.weave.width as usize }
    }
    /// Where the state of the column of `ppn` is kept.
    #[inline(always)]
    pub(crate) fn at_column(&self, ppn: Ppn) -> usize {
        self.at_column_of::<false>(ppn)
    }
    #[inline(always)]
    pub(crate) fn at_column_of<const PLAIN: bool>(&self, ppn: Ppn) -> usize {
        let block = self.at_of::<PLAIN>(self.geometry.block_of(ppn));
        if PLAIN || self.weave.width == 1 { block } else { block + self.place(ppn).1 as usize }
    }
    /// The number that a page has in its block of the flash, and the block's number in the superblock.
    #[inline(always)]
    pub(crate) fn place(&self, ppn: Ppn) -> (u32, u32) {
        self.weave.place(self.geometry.page_of(ppn) >> self.slot_bits)
    }
    /// The plane of the flash that a page lies in.
    #[inline(always)]
    pub fn plane_of(&self, ppn: Ppn) -> u32 {
        self.plane_of_page::<false>(ppn)
    }
    #[inline(always)]
    pub(crate) fn plane_of_page<const PLAIN: bool>(&self, ppn: Ppn) -> u32 {
        let block = self.geometry.block_of(ppn);
        if PLAIN || self.weave.width == 1 {
            self.geometry.plane_of(block)
        } else {
            self.plane_of_column(block, self.place(ppn).1)
        }
    }
    pub(crate) fn plane_of_column(&self, block: Block, column: u32) -> u32 {
        let set = self.geometry.plane_of(block);
        if self.weave.width == 1 {
            set
        } else {
            self.weave.planes[(set * self.weave.width + column) as usize]
        }
    }
    /// The die that a page lies in.
    #[inline]
    pub fn die_of(&self, ppn: Ppn) -> u32 {
        self.weave.flash.die_of_plane(self.plane_of(ppn))
    }
    /// The dies that the blocks of an addressed plane lie in.
    pub fn dies_of(&self, plane: u32) -> impl Iterator<Item = u32> + '_ {
        let columns = 0..self.weave.width;
        columns.map(move |column| {
            self.weave.flash.die_of_plane(self.plane_of_column(self.geometry.block(plane, 0), column))
        })
    }
    /// Whether programs of any of its columns are on order or running.
    #[inline]
    pub(crate) fn is_programmed_now<const PLAIN: bool>(&self, block: Block) -> bool {
        if PLAIN {
            return self.blocks[block.0 as usize].chain_head != NONE;
        }
        let at = self.at(block);
        self.blocks[at..at + self.weave.width as usize].iter().any(|state| state.chain_head != NONE)
    }

    // ---- parity ----------------------------------------------------------------------------------

    /// `ppn` was ordered: if that completes a stripe, its parity takes its place in the program order. The column
    /// that it is programmed in.
    #[inline(always)]
    pub(crate) fn complete_stripe(&mut self, ppn: Ppn) -> Option<u32> {
        if self.weave.parity == 0 { None } else { self.complete_stripe_wide(ppn) }
    }

    fn complete_stripe_wide(&mut self, ppn: Ppn) -> Option<u32> {
        let column = self.parity_column(ppn)?;
        let (row, _) = self.place(ppn);
        let (kind, at) = (self.cell.page_type(row), self.at(self.geometry.block_of(ppn)) + column as usize);
        debug_assert!(self.cell.may_program(&self.blocks[at].done, row), "parity out of order");
        self.blocks[at].done[kind] += 1;
        Some(column)
    }

    /// The parity of the stripe that ends with `ppn` is of no use.
    pub(crate) fn lose_parity(&mut self, ppn: Ppn) {
        self.weave.without.insert(self.first_slot(ppn).0);
    }

    /// The pages of the stripe of `ppn` beside itself; the last page of the stripe, which stands for the parity, comes
    /// once more if another is asked for. None if there is no parity to rebuild `ppn` with.
    pub(crate) fn rest_of_stripe(&self, ppn: Ppn) -> Option<(Vec<Ppn>, Ppn)> {
        if self.weave.parity == 0 {
            return None;
        }
        let block = self.geometry.block_of(ppn);
        let page = self.geometry.page_of(ppn) >> self.slot_bits;
        let ppn_of = |page: u32| self.geometry.ppn(block, page << self.slot_bits);
        let stripe = || self.weave.stripe(page).map(ppn_of);
        let last = ppn_of(self.weave.last_of_stripe(page));
        let whole = stripe().all(|ppn| !matches!(self.page_use(ppn), PageUse::Erased));
        let sound = whole && !self.weave.without.contains(&last.0);
        sound.then(|| (stripe().filter(|&other| other != ppn_of(page)).collect(), last))
    }

    /// Whether a page of a stripe can be read as it is.
    pub(crate) fn is_readable(&self, ppn: Ppn) -> bool {
        self.page_use(ppn) != PageUse::Torn
            && self.together(ppn).all(|ppn| self.lost(ppn) == 0)
            && !self.weave.rebuilt.contains(&self.first_slot(ppn).0)
    }
    /// Whether a page can be read only by rebuilding it.
    #[inline]
    pub(crate) fn needs_rebuilding(&self, ppn: Ppn) -> bool {
        !self.weave.rebuilt.is_empty() && self.weave.rebuilt.contains(&self.first_slot(ppn).0)
    }
    pub(crate) fn set_rebuilt(&mut self, ppn: Ppn, rebuilt: bool) {
        let first = self.first_slot(ppn).0;
        if rebuilt {
            self.weave.rebuilt.insert(first);
        } else {
            self.weave.rebuilt.remove(&first);
        }
    }

    /// The column of the parity of the stripe that ends with `last`.
    pub(crate) fn parity_column(&self, last: Ppn) -> Option<u32> {
        self.weave.parity_behind(self.geometry.page_of(last) >> self.slot_bits)
    }
    /// The pages of the stripe that ends with `last`.
    pub(crate) fn stripe_of(&self, last: Ppn) -> impl Iterator<Item = Ppn> + use<> {
        let (block, bits) = (self.geometry.block_of(last), self.slot_bits);
        let first = self.geometry.ppn(block, 0).0;
        self.weave.stripe(self.geometry.page_of(last) >> bits).map(move |page| Ppn(first | page << bits))
    }
    /// The column of `block` that lies in a plane of the flash.
    pub(crate) fn column_in(&self, block: Block, plane: u32) -> u32 {
        (0..self.weave.width).find(|&column| self.plane_of_column(block, column) == plane).unwrap_or(0)
    }

    // ---- blocks that fail ------------------------------------------------------------------------

    /// A program or erase failed in a column: the block there leaves its superblock with the next erase.
    pub(crate) fn doom_column(&mut self, block: Block, column: u32) {
        let at = self.at(block);
        self.blocks[at].doomed = true;
        if self.weave.width > 1 {
            self.blocks[at + column as usize].failed = true;
        }
    }

    /// An erase of `block` is over, in which (or before which) blocks of the flash failed, or all of them are worn
    /// out: whether it is bad now. Of a superblock others of their planes take the place of those that failed, if no
    /// superblock has them; else its good blocks stand by for that.
    pub(crate) fn replace_failed(&mut self, block: Block, worn: bool) -> bool {
        let (at, width) = (self.at(block), self.weave.width);
        let planes: Vec<u32> = (0..width).map(|column| self.plane_of_column(block, column)).collect();
        if width > 1 && !worn {
            let failed = |column: u32| self.blocks[at + column as usize].failed;
            let enough = (0..width).all(|n| !failed(n) || self.weave.spares[planes[n as usize] as usize] > 0);
            for column in 0..width {
                let spares = &mut self.weave.spares[planes[column as usize] as usize];
                match (self.blocks[at + column as usize].failed, enough) {
                    (true, true) => *spares -= 1,
                    (false, false) => *spares += 1,
                    _ => {}
                }
                self.blocks[at + column as usize].failed &= !enough;
            }
            if enough {
                self.blocks[at].doomed = false;
                self.note_change(crate::Change::Block(block));
                return false;
            }
        }
        self.set_bad(block);
        true
    }

    /// A block in which a program failed was erased at once: whether it is bad now.
    pub fn replace_doomed(&mut self, block: Block) -> bool {
        self.is_doomed(block) && self.replace_failed(block, false)
    }

    // ---- power-on --------------------------------------------------------------------------------

    /// Columns work at their own pace: when the power goes, pages may be missing below others of their superblock.
    /// They are padded, so that it goes on behind its last page.
    pub(crate) fn close_gaps(&mut self) {
        if self.weave.width == 1 {
            return;
        }
        let blocks: Vec<Block> =
            (0..self.geometry.planes()).flat_map(|plane| self.geometry.blocks_of(plane)).collect();
        for block in blocks {
            if self.condition(block) == BlockCondition::Good {
                self.close_gaps_of(block);
            }
        }
    }

    fn close_gaps_of(&mut self, block: Block) {
        let slots = self.slots();
        let at = self.at(block);
        let programs = self.geometry.pages_per_block / slots;
        let nth = |array: &Self, n: u32| array.nth_strict(block, n * slots);
        let written =
            |array: &Self, n: u32| nth(array, n).is_some_and(|ppn| array.page_use(ppn) != PageUse::Erased);
        let end = (0..programs).rev().find(|&n| written(self, n)).map_or(0, |last| last + 1);
        let stream = (0..end)
            .filter_map(|n| nth(self, n))
            .find(|&ppn| !matches!(self.page_use(ppn), PageUse::Erased | PageUse::Torn))
            .map_or(0, |ppn| self.stream(ppn));
        for column in 0..self.weave.width as usize {
            self.blocks[at + column].done = [0; 4];
        }
        self.blocks[at].programmed = end * slots;
        // Pages that are missing before all others are as old as the first of them.
        let mut delta = 0;
        for n in 0..end {
            let Some(first) = nth(self, n) else { continue };
            if self.page_use(first) == PageUse::Erased {
                for ppn in self.together(first) {
                    let index = self.index(ppn);
                    self.seq[index] = delta;
                    self.oob.set(index, &Oob::padding(stream));
                    self.note_change(crate::Change::Page(ppn));
                }
                if self.weave.parity > 0 {
                    let last = self.weave.last_of_stripe(self.geometry.page_of(first) >> self.slot_bits);
                    self.lose_parity(self.geometry.ppn(block, last << self.slot_bits));
                }
            }
            delta = self.seq[self.index(first)];
            let (row, column) = self.place(first);
            let kind = self.cell.page_type(row);
            self.blocks[at + column as usize].done[kind] += 1;
            self.complete_stripe(first);
        }
    }
}
