//! Superblocks: an addressed block that is one block on each of several planes, written page by page across
//! them, and erased as a whole.
//!
//! The pages of a superblock that have the same number in their blocks are a *row*, the block of one plane is a
//! *column*. With parity, one page of every n in a row (a *stripe*) holds the parity of the others: it moves on by one
//! column with each row, has no address, and is programmed by itself as soon as the last of the others is ordered.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::op::NONE;
use crate::{Array, Block, BlockCondition, Geometry, Oob, PageUse, Ppn, Shape};

/// How superblocks are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Superblocks {
    /// The flash itself: what it has of channels, dies and planes, and the size of its blocks.
    pub flash: Geometry,
    /// Dies that a superblock lies on: a divisor of all.
    pub dies: u32,
    /// One page of so many holds parity; 0: none does.
    pub parity: u32,
    /// Planes of a die follow each other, so that one operation can program them together; else each page goes to
    /// the next die.
    pub planes_first: bool,
}

impl Superblocks {
    /// Planes that a superblock lies on.
    pub fn width(&self) -> u32 {
        self.dies * self.flash.planes_per_die
    }

    /// The shape as it is addressed: superblocks as blocks, sets of dies as planes, without the pages of parity.
    pub fn addressed(&self) -> Geometry {
        let parity = if self.parity == 0 { 0 } else { self.width() / self.parity };
        Geometry {
            channels: self.flash.dies() / self.dies,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            pages_per_block: self.flash.pages_per_block * (self.width() - parity),
            ..self.flash.clone()
        }
    }

    /// The plane of each column of each set of dies. Dies are taken from one channel after the other.
    fn planes(&self) -> Box<[u32]> {
        let f = &self.flash;
        let mut dies: Vec<u32> = (0..f.dies()).collect();
        dies.sort_by_key(|&die| {
            let chip = f.chip_of_die(die);
            (die % f.dies_per_chip, chip % f.chips_per_channel, f.channel_of_die(die))
        });
        let plane = |die: u32, plane: u32| die * f.planes_per_die + plane;
        let of_set = |set: &[u32]| -> Vec<u32> {
            let pairs: Vec<(u32, u32)> = if self.planes_first {
                set.iter().flat_map(|&die| (0..f.planes_per_die).map(move |p| (die, p))).collect()
            } else {
                (0..f.planes_per_die).flat_map(|p| set.iter().map(move |&die| (die, p))).collect()
            };
            pairs.into_iter().map(|(die, p)| plane(die, p)).collect()
        };
        dies.chunks(self.dies as usize).flat_map(of_set).collect()
    }
}

/// How addressed blocks and pages lie in the flash.
#[derive(Clone, Debug)]
pub(crate) struct Weave {
    /// The flash itself.
    pub flash: Shape,
    /// Columns of a superblock; 1: a block is a block.
    pub width: u32,
    /// Pages of a row that have an address.
    data: u32,
    pub parity: u32,
    planes: Box<[u32]>,
    /// Good blocks of each plane that no superblock has.
    spares: Vec<u32>,
    /// Stripes whose parity was never programmed, or is of something else than what the stripe holds; by their
    /// last page.
    without: BTreeSet<u32>,
    /// Pages that can be read no more, but rebuilt.
    rebuilt: BTreeSet<u32>,
}

impl Weave {
    pub fn none(geometry: &Shape) -> Self {
        Self {
            flash: geometry.clone(),
            width: 1,
            data: 1,
            parity: 0,
            planes: Box::default(),
            spares: Vec::new(),
            without: BTreeSet::new(),
            rebuilt: BTreeSet::new(),
        }
    }

    pub fn new(of: &Superblocks) -> Self {
        let data = of.width() - of.width().checked_div(of.parity).unwrap_or(0);
        Self {
            flash: Shape::new(of.flash.clone()),
            width: of.width(),
            data,
            parity: of.parity,
            planes: of.planes(),
            spares: vec![0; of.flash.planes() as usize],
            without: BTreeSet::new(),
            rebuilt: BTreeSet::new(),
        }
    }

    /// Row and column of a page; `page` is its number in the superblock, counting what one program fills as one.
    #[inline(always)]
    pub fn place(&self, page: u32) -> (u32, u32) {
        if self.width == 1 { (page, 0) } else { self.place_wide(page) }
    }

    fn place_wide(&self, page: u32) -> (u32, u32) {
        let (row, n) = (page / self.data, page % self.data);
        if self.parity == 0 {
            return (row, n);
        }
        let (stripe, at) = (n / (self.parity - 1), n % (self.parity - 1));
        (row, stripe * self.parity + at + u32::from(at >= row % self.parity))
    }

    /// The page that is `n`th in the row that is `turn`th to be written.
    #[inline(always)]
    pub fn split_turn(&self, n: u32) -> (u32, u32) {
        if self.width == 1 { (n, 0) } else { (n / self.data, n % self.data) }
    }
    #[inline(always)]
    pub fn page(&self, row: u32, n: u32) -> u32 {
        if self.width == 1 { row } else { row * self.data + n }
    }

    /// The page in a row and column; none if that is parity.
    pub fn page_in(&self, row: u32, column: u32) -> Option<u32> {
        if self.parity == 0 {
            return Some(self.page(row, column));
        }
        let (stripe, at, of_parity) = (column / self.parity, column % self.parity, row % self.parity);
        (at != of_parity).then(|| self.page(row, stripe * (self.parity - 1) + at - u32::from(at > of_parity)))
    }

    /// The column that holds the parity of the stripe of which `page` is the last page; none if it is not the last.
    pub fn parity_behind(&self, page: u32) -> Option<u32> {
        if self.parity == 0 {
            return None;
        }
        let (row, n) = (page / self.data, page % self.data);
        let each = self.parity - 1;
        (n % each == each - 1).then(|| n / each * self.parity + row % self.parity)
    }

    /// The first and the last page of the stripe of `page`.
    fn stripe(&self, page: u32) -> (u32, u32) {
        let each = self.parity - 1;
        let first = page - page % self.data % each;
        (first, first + each - 1)
    }

    /// What is known of the pages of a block that is erased is forgotten.
    pub fn wipe(&mut self, pages: std::ops::Range<u32>) {
        for set in [&mut self.without, &mut self.rebuilt] {
            while let Some(&ppn) = set.range(pages.clone()).next() {
                set.remove(&ppn);
            }
        }
    }
}

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
    /// Where the state of the first column of `block` is kept, which says what holds for all of it.
    #[inline(always)]
    pub(crate) fn at(&self, block: Block) -> usize {
        if self.weave.width == 1 { block.0 as usize } else { block.0 as usize * self.weave.width as usize }
    }
    /// Where the state of the column of `ppn` is kept.
    #[inline(always)]
    pub(crate) fn at_column(&self, ppn: Ppn) -> usize {
        let block = self.at(self.geometry.block_of(ppn));
        if self.weave.width == 1 { block } else { block + self.place(ppn).1 as usize }
    }
    /// The number that a page has in its block of the flash, and the block's number in the superblock.
    #[inline(always)]
    pub(crate) fn place(&self, ppn: Ppn) -> (u32, u32) {
        self.weave.place(self.geometry.page_of(ppn) >> self.slot_bits)
    }
    /// The plane of the flash that a page lies in.
    #[inline(always)]
    pub fn plane_of(&self, ppn: Ppn) -> u32 {
        let block = self.geometry.block_of(ppn);
        if self.weave.width == 1 {
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
    pub(crate) fn is_programmed_now(&self, block: Block) -> bool {
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
        let (first, last) = self.weave.stripe(page);
        let ppn_of = |page: u32| self.geometry.ppn(block, page << self.slot_bits);
        let whole = (first..=last).all(|page| !matches!(self.page_use(ppn_of(page)), PageUse::Erased));
        let sound = whole && !self.weave.without.contains(&ppn_of(last).0);
        let others = (first..=last).filter(|&other| other != page).map(ppn_of);
        sound.then(|| (others.collect(), ppn_of(last)))
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
        let (first, _) = self.weave.stripe(self.geometry.page_of(last) >> self.slot_bits);
        let first = self.geometry.ppn(self.geometry.block_of(last), first << self.slot_bits);
        (first.0..=last.0).step_by(1 << self.slot_bits).map(Ppn)
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
                    let last = self.weave.stripe(self.geometry.page_of(first) >> self.slot_bits).1;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn superblocks(parity: u32) -> Superblocks {
        let flash = Geometry {
            channels: 2,
            chips_per_channel: 1,
            dies_per_chip: 2,
            planes_per_die: 2,
            blocks_per_plane: 6,
            pages_per_block: 5,
            page_bytes: 4096,
            sector_bytes: 4096,
            oob_bytes: 0,
        };
        Superblocks { flash, dies: 4, parity, planes_first: false }
    }

    #[test]
    fn rows_fill_every_column_once_and_parity_goes_round() {
        for parity in [0, 2, 4, 8] {
            let of = superblocks(parity);
            let weave = Weave::new(&of);
            let mut taken = std::collections::BTreeSet::new();
            for page in 0..of.addressed().pages_per_block {
                let (row, column) = weave.place(page);
                assert!(taken.insert((row, column)), "page {page} lies where another does");
                assert_eq!(weave.page_in(row, column), Some(page));
                if let Some(column) = weave.parity_behind(page) {
                    assert_eq!(weave.page_in(row, column), None);
                    assert!(taken.insert((row, column)), "parity of page {page} lies where another does");
                }
            }
            let all: Vec<(u32, u32)> = (0..5).flat_map(|row| (0..8).map(move |n| (row, n))).collect();
            assert_eq!(taken.into_iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn columns_go_round_channels_first() {
        // Channel 0 has planes 0 to 3, channel 1 planes 4 to 7; two planes to a die.
        assert_eq!(*superblocks(0).planes(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(*Superblocks { planes_first: true, ..superblocks(0) }.planes(), [0, 1, 4, 5, 2, 3, 6, 7]);
        let halves = Superblocks { dies: 2, ..superblocks(0) };
        assert_eq!((*halves.planes()).len(), 8);
        assert_eq!((halves.addressed().planes(), halves.addressed().pages_per_block), (2, 20));
    }
}
