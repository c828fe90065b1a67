//! The baseline: one open block per plane and group, written in shadow order.

use nandle_nand::{Array, Block, Ppn};

use super::blocks::Blocks;
use super::group::GroupId;

const NONE: u32 = u32::MAX;

/// The open block of each plane and group.
#[derive(Clone, Debug)]
pub(super) struct InOrder {
    open: Vec<u32>,
    streams: u32,
}

impl InOrder {
    pub fn new(planes: u32, host_streams: u32) -> Self {
        let slots = planes * GroupId::count(host_streams);
        Self { open: vec![NONE; slots as usize], streams: host_streams }
    }

    #[inline]
    fn slot(&self, plane: u32, group: GroupId) -> usize {
        (plane * GroupId::count(self.streams)) as usize + group.place(self.streams)
    }

    #[inline(always)]
    pub fn take<const PLAIN: bool>(
        &mut self,
        plane: u32,
        group: GroupId,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let slot = self.slot(plane, group);
        let open = &mut self.open[slot];
        if *open == NONE {
            *open = match group {
                GroupId::Cache if !PLAIN => blocks.take_for_cache(plane)?.0,
                _ => blocks.take_free(plane, group == GroupId::Cold)?.0,
            };
        }
        let block = Block(*open);
        let programmed = array.programmed_of::<PLAIN>(block);
        if programmed + 1 == array.block_pages_of::<PLAIN>(block) {
            *open = NONE;
        }
        array.nth_strict_of::<PLAIN>(block, programmed)
    }

    pub fn peek(&self, plane: u32, group: GroupId, array: &Array) -> Option<Ppn> {
        match self.open[self.slot(plane, group)] {
            NONE => None,
            block => array.next_strict(Block(block)),
        }
    }

    #[inline]
    pub fn is_filling(&self, plane: u32, group: GroupId, array: &Array) -> bool {
        match self.open[self.slot(plane, group)] {
            NONE => false,
            block => !array.pages_programmed(Block(block)).is_multiple_of(array.slots()),
        }
    }

    #[inline(always)]
    pub fn left<const PLAIN: bool>(&self, plane: u32, group: GroupId, array: &Array) -> u32 {
        match self.open[self.slot(plane, group)] {
            NONE => 0,
            block => array.block_pages_of::<PLAIN>(Block(block)) - array.programmed_of::<PLAIN>(Block(block)),
        }
    }

    pub fn avoid(&mut self, block: Block) {
        self.open.iter_mut().filter(|open| **open == block.0).for_each(|open| *open = NONE);
    }

    pub fn resume(&mut self, plane: u32, group: GroupId, block: Block) -> bool {
        let slot = self.slot(plane, group);
        let vacant = slot < self.open.len() && self.open[slot] == NONE;
        if vacant {
            self.open[slot] = block.0;
        }
        vacant
    }
}
