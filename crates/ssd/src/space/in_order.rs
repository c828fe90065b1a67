//! The baseline: one open block per plane and group, written in shadow order.

use nandle_nand::{Array, Block, Ppn};

use super::blocks::Blocks;
use super::group::GroupId;

const NONE: u32 = u32::MAX;

/// The open block of each plane and group.
#[derive(Clone, Debug)]
pub(super) struct InOrder {
    open: Vec<u32>,
    groups: u32,
}

impl InOrder {
    pub fn new(planes: u32, host_streams: u32) -> Self {
        let groups = GroupId::count(host_streams);
        Self { open: vec![NONE; (planes * groups) as usize], groups }
    }

    #[inline]
    fn slot(&self, plane: u32, group: GroupId) -> usize {
        (plane * self.groups + u32::from(group.number())) as usize
    }

    #[inline(always)]
    pub fn take(&mut self, plane: u32, group: GroupId, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        let slot = self.slot(plane, group);
        let open = &mut self.open[slot];
        if *open == NONE {
            *open = blocks.take_free(plane, group == GroupId::Cold)?.0;
        }
        let block = Block(*open);
        let programmed = array.pages_programmed(block);
        if programmed + 1 == array.geometry().pages_per_block {
            *open = NONE;
        }
        array.nth_strict(block, programmed)
    }

    pub fn peek(&self, plane: u32, group: GroupId, array: &Array) -> Option<Ppn> {
        match self.open[self.slot(plane, group)] {
            NONE => None,
            block => array.next_strict(Block(block)),
        }
    }

    #[inline]
    pub fn left(&self, plane: u32, group: GroupId, array: &Array) -> u32 {
        match self.open[self.slot(plane, group)] {
            NONE => 0,
            block => array.geometry().pages_per_block - array.pages_programmed(Block(block)),
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
