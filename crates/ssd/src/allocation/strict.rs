//! The baseline: one open block per plane and role, written in shadow order.

use nandle_nand::{Array, Block, Ppn};

use super::Role;
use crate::blocks::Blocks;

const NONE: u32 = u32::MAX;

/// The open block of each plane and role.
#[derive(Clone, Debug)]
pub struct Strict {
    open: Vec<u32>,
    roles: u32,
}

impl Strict {
    pub(super) fn new(planes: u32, host_streams: u32) -> Self {
        let roles = Role::count(host_streams);
        Self { open: vec![NONE; (planes * roles) as usize], roles }
    }

    #[inline]
    fn slot(&self, plane: u32, role: Role) -> usize {
        (plane * self.roles + u32::from(role.number())) as usize
    }

    #[inline]
    pub(super) fn take(&mut self, plane: u32, role: Role, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        let slot = self.slot(plane, role);
        if self.open[slot] == NONE {
            self.open[slot] = blocks.take_free(plane, role == Role::Wear)?.0;
        }
        let block = Block(self.open[slot]);
        if array.pages_programmed(block) + 1 == array.geometry().pages_per_block {
            self.open[slot] = NONE;
        }
        array.next_strict(block)
    }

    #[inline]
    pub(super) fn left(&self, plane: u32, role: Role, array: &Array) -> u32 {
        match self.open[self.slot(plane, role)] {
            NONE => 0,
            block => array.geometry().pages_per_block - array.pages_programmed(Block(block)),
        }
    }

    pub(super) fn resume(&mut self, plane: u32, role: Role, block: Block) -> bool {
        let slot = self.slot(plane, role);
        let vacant = slot < self.open.len() && self.open[slot] == NONE;
        if vacant {
            self.open[slot] = block.0;
        }
        vacant
    }
}
