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
    /// Free blocks of a plane that host writes never take.
    reserve: u32,
}

impl Strict {
    pub(super) fn new(planes: u32, host_streams: u32, reserve: u32) -> Self {
        let roles = Role::count(host_streams);
        Self { open: vec![NONE; (planes * roles) as usize], roles, reserve }
    }

    #[inline]
    fn slot(&self, plane: u32, role: Role) -> usize {
        (plane * self.roles + u32::from(role.number())) as usize
    }

    #[inline(always)]
    pub(super) fn take(&mut self, plane: u32, role: Role, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        let slot = self.slot(plane, role);
        let open = &mut self.open[slot];
        if *open == NONE {
            *open = blocks.take_free(plane, role == Role::Wear)?.0;
        }
        let block = Block(*open);
        let programmed = array.pages_programmed(block);
        if programmed + 1 == array.geometry().pages_per_block {
            *open = NONE;
        }
        array.nth_strict(block, programmed)
    }

    pub(super) fn peek(&self, plane: u32, role: Role, array: &Array) -> Option<Ppn> {
        match self.open[self.slot(plane, role)] {
            NONE => None,
            block => array.next_strict(Block(block)),
        }
    }

    #[inline]
    pub(super) fn left(&self, plane: u32, role: Role, array: &Array) -> u32 {
        match self.open[self.slot(plane, role)] {
            NONE => 0,
            block => array.geometry().pages_per_block - array.pages_programmed(Block(block)),
        }
    }

    #[inline]
    pub(super) fn room(&self, plane: u32, role: Role, array: &Array, blocks: &Blocks) -> u32 {
        let reserve = if role.may_use_reserve() { 0 } else { self.reserve };
        let fresh = blocks.free(plane).saturating_sub(reserve);
        self.left(plane, role, array) + fresh * array.geometry().pages_per_block
    }

    pub(super) fn avoid(&mut self, block: Block) {
        self.open.iter_mut().filter(|open| **open == block.0).for_each(|open| *open = NONE);
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
