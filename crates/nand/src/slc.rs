//! Blocks in SLC mode: one bit in each cell, so only the first page of each word line is programmed, and faster.
//!
//! The label that the first page of a block is programmed with decides, so that flash itself says afterwards how a
//! block was written.

use serde::{Deserialize, Serialize};

use crate::{Array, Block, Ppn};

/// Which blocks are written in SLC mode, and how long that takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlcMode {
    /// A block whose first page is programmed with one of these as its stream is in SLC mode.
    pub labels: [u16; 2],
    /// Array program time; none = that of an LSB page.
    pub program_ns: Option<u64>,
    /// Array read time; none = that of an LSB page.
    pub read_ns: Option<u64>,
}

impl Array {
    /// Whether `block` is written in SLC mode. An erased block is in none.
    #[inline]
    pub fn is_slc(&self, block: Block) -> bool {
        self.slc_labels.is_some() && self.blocks[self.at(block)].slc
    }

    /// Pages that can be programmed in `block`: in SLC mode one for each word line.
    #[inline]
    pub fn block_pages(&self, block: Block) -> u32 {
        self.block_pages_of::<false>(block)
    }
    /// As [`Array::block_pages`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn block_pages_of<const PLAIN: bool>(&self, block: Block) -> u32 {
        if !PLAIN && self.is_slc(block) { self.slc_pages() } else { self.geometry.pages_per_block }
    }

    /// Pages of a block in SLC mode.
    pub fn slc_pages(&self) -> u32 {
        u32::from(self.cell.pages_of_type()[0]) << self.slot_bits
    }

    /// Whether no page of `block` is left to program.
    #[inline]
    pub fn is_full(&self, block: Block) -> bool {
        self.is_full_of::<false>(block)
    }
    /// As [`Array::is_full`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn is_full_of<const PLAIN: bool>(&self, block: Block) -> bool {
        self.programmed_of::<PLAIN>(block) == self.block_pages_of::<PLAIN>(block)
    }

    /// As [`Array::pages_programmed`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn programmed_of<const PLAIN: bool>(&self, block: Block) -> u32 {
        self.blocks[self.at_of::<PLAIN>(block)].programmed
    }

    /// A block without pages is about to be laid down whose pages were programmed with `stream`.
    pub fn restore_mode(&mut self, block: Block, stream: u16) {
        let (at, next) = (self.at(block), self.next_seq);
        self.blocks[at].begin(next, self.slc_labels, stream);
    }

    /// Whether `page` of a block (of those that are programmed one by one) may follow what [`Array::programmed`] says.
    pub fn may_follow(&self, ppn: Ppn) -> bool {
        let block = self.geometry.block_of(ppn);
        let page = self.geometry.page_of(ppn) >> self.slot_bits;
        self.cell.allows(self.is_slc(block), &self.programmed(block), page)
    }
}
