//! Superblocks: an addressed block that is one block on each of several planes, written page by page across
//! them, and erased as a whole.
//!
//! The pages of a superblock that have the same number in their blocks are a *row*, the block of one plane is a
//! *column*. With parity, one page of every n in a row (a *stripe*) holds the parity of the others: it moves on by one
//! column with each row, has no address, and is programmed by itself as soon as the last of the others is ordered.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Geometry, Shape};

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

    /// Planes of a die whose pages have stripes of their own, so that parity is programmed by one operation as data are.
    fn together(&self) -> u32 {
        let across_dies = self.parity > 0 && self.dies.is_multiple_of(self.parity);
        if self.planes_first && across_dies { self.flash.planes_per_die } else { 1 }
    }

    /// The shape as it is addressed: superblocks as blocks, sets of dies as planes, without the pages of parity.
    pub fn addressed(&self) -> Geometry {
        let parity = self.width().checked_div(self.parity).unwrap_or(0);
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
    /// Columns that follow each other, are programmed by one operation, and have a stripe each.
    together: u32,
    pub parity: u32,
    pub planes: Box<[u32]>,
    /// Good blocks of each plane that no superblock has.
    pub spares: Vec<u32>,
    /// Stripes whose parity was never programmed, or is of something else than what the stripe holds; by their
    /// last page.
    pub without: BTreeSet<u32>,
    /// Pages that can be read no more, but rebuilt.
    pub rebuilt: BTreeSet<u32>,
}

impl Weave {
    pub fn none(geometry: &Shape) -> Self {
        Self {
            flash: geometry.clone(),
            width: 1,
            data: 1,
            together: 1,
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
            together: of.together(),
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
        let (set, at, plane) = self.in_stripe(n, self.parity - 1);
        (row, self.column(set, at + u32::from(at >= row % self.parity), plane))
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
        let ((set, at, plane), of_parity) = (self.in_stripe(column, self.parity), row % self.parity);
        let data = || (set * (self.parity - 1) + at - u32::from(at > of_parity)) * self.together + plane;
        (at != of_parity).then(|| self.page(row, data()))
    }

    /// The column that holds the parity of the stripe of which `page` is the last page; none if it is not the last.
    pub fn parity_behind(&self, page: u32) -> Option<u32> {
        if self.parity == 0 {
            return None;
        }
        let (row, n) = (page / self.data, page % self.data);
        let (set, at, plane) = self.in_stripe(n, self.parity - 1);
        (at == self.parity - 2).then(|| self.column(set, row % self.parity, plane))
    }

    /// The pages of the stripe of `page`, in order.
    pub fn stripe(&self, page: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (_, at, _) = self.in_stripe(page % self.data, self.parity - 1);
        let (first, each, step) = (page - at * self.together, self.parity - 1, self.together);
        (0..each).map(move |n| first + n * step)
    }
    /// The last page of the stripe of `page`.
    pub fn last_of_stripe(&self, page: u32) -> u32 {
        self.stripe(page).next_back().unwrap_or(page)
    }

    /// The `n`th of a row in sets of `each` dies, of each of which pages of several planes belong together: the set, the
    /// die of it, and the plane.
    fn in_stripe(&self, n: u32, each: u32) -> (u32, u32, u32) {
        let (dies, plane) = (n / self.together, n % self.together);
        (dies / each, dies % each, plane)
    }
    fn column(&self, set: u32, die: u32, plane: u32) -> u32 {
        (set * self.parity + die) * self.together + plane
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
        for (parity, planes_first) in
            [(0, false), (2, false), (4, false), (8, false), (2, true), (4, true), (8, true)]
        {
            let of = Superblocks { planes_first, ..superblocks(parity) };
            let weave = Weave::new(&of);
            let mut taken = std::collections::BTreeSet::new();
            for page in 0..of.addressed().pages_per_block {
                let (row, column) = weave.place(page);
                assert!(taken.insert((row, column)), "page {page} lies where another does");
                assert_eq!(weave.page_in(row, column), Some(page));
                if let Some(column) = weave.parity_behind(page) {
                    assert_eq!(weave.page_in(row, column), None);
                    assert!(taken.insert((row, column)), "parity of page {page} lies where another does");
                    // One page of each of as many dies, if there are as many.
                    let dies = weave.stripe(page).map(|page| weave.place(page).1).chain([column]);
                    let dies = dies.map(|column| of.flash.die_of_plane(weave.planes[column as usize]));
                    let dies: std::collections::BTreeSet<u32> = dies.collect();
                    assert_eq!(dies.len() as u32, parity.min(4));
                    assert_eq!(weave.last_of_stripe(page), page);
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
