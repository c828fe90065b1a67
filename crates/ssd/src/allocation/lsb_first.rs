//! LSB-first: the fastest pages first, whatever is written (PAPA, section VI-A; there after Zhang et
//! al., PA-SSD).
//!
//! All LSB pages of free blocks are used first; when there are none, each write takes a CSB or a MSB
//! page with equal probability. Where the paper is silent:
//! - In a block MSB pages follow CSB pages, so both are to be had only once one block's CSB pages are
//!   written. Until then there is nothing to draw. With four types three are drawn from alike.
//! - Garbage collection's survivors take the LSB pages of the block that is open, then draw too: they
//!   open no fresh block while a page is left elsewhere.

use nandle_nand::{Array, Ppn};
use nandle_random::Stream;

use super::{Role, begun::Begun};
use crate::blocks::Blocks;

/// The half-written blocks and the coin.
#[derive(Clone, Debug)]
pub struct LsbFirst {
    pub(super) begun: Begun,
    draw: Stream,
}

impl LsbFirst {
    pub(super) fn new(begun: Begun, seed: u64) -> Self {
        Self { begun, draw: Stream::new(seed, "lsb-first") }
    }

    #[inline]
    pub(super) fn take(&mut self, plane: u32, role: Role, array: &Array, blocks: &mut Blocks) -> Option<Ppn> {
        let (begun, draw) = (&mut self.begun, &mut self.draw);
        let slow = 1..begun.bits();
        if role == Role::Wear {
            return begun.take_cold(plane, array, blocks);
        }
        if let Some(ppn) = begun.take(plane, role, 0, array, blocks) {
            return Some(ppn);
        }
        if role == Role::Gc {
            let drawn = begun.take_any(plane, role, slow, draw, array, blocks);
            return drawn.or_else(|| begun.open(plane, role, array, blocks));
        }
        let fresh = begun.open(plane, role, array, blocks);
        fresh.or_else(|| begun.take_any(plane, role, slow, draw, array, blocks))
    }
}
