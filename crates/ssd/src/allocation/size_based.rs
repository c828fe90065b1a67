//! Size-based: small requests get the fastest pages (PAPA, section VI-A; there after Zhang et al.,
//! PA-SSD).
//!
//! A write whose host request falls in one logical page takes an LSB page, one of a larger request a
//! CSB or MSB page. When a small write finds no LSB page, garbage is collected to get one: unlike
//! [`super::papa`] there is no second choice, which is what wears the flash out. Where the paper is
//! silent:
//! - CSB and MSB pages are equally likely, as under [`super::lsb_first`]: the published RMW reads
//!   (Fig. 12: 13% CSB, 8% MSB) rule out that CSB pages are preferred.
//! - A large write that finds neither takes an LSB page, as no CSB page can be written before the LSB
//!   pages of its block are.
//! - What leaves a write buffer together counts as one request.
//! - Garbage collection's survivors and the system's pages count as parts of large requests.
//! - Blocks are collected for their LSB pages before their CSB and MSB pages are written: the block of
//!   most dead pages, full or not.

use std::ops::Range;

use nandle_nand::{Array, Ppn};
use nandle_random::Stream;

use super::{PageClass, Role, begun::Begun};
use crate::blocks::Blocks;

/// What small requests get.
pub(super) const SMALL: Range<usize> = 0..1;

/// The half-written blocks and the coin.
#[derive(Clone, Debug)]
pub struct SizeBased {
    pub(super) begun: Begun,
    draw: Stream,
}

impl SizeBased {
    pub(super) fn new(begun: Begun, seed: u64) -> Self {
        Self { begun, draw: Stream::new(seed, "size-based") }
    }

    /// The page types that a write may get.
    #[inline]
    pub(super) fn kinds(&self, role: Role, class: PageClass) -> Range<usize> {
        let small = class.alone && matches!(role, Role::Host(_));
        if small { SMALL } else { 0..self.begun.bits() }
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let small = self.kinds(role, class) == SMALL;
        let (begun, draw) = (&mut self.begun, &mut self.draw);
        let slow = 1..begun.bits();
        if role == Role::Wear {
            return begun.take_cold(plane, array, blocks);
        }
        if !small && let Some(ppn) = begun.take_any(plane, role, slow, draw, array, blocks) {
            return Some(ppn);
        }
        let fast = begun.take(plane, role, 0, array, blocks);
        fast.or_else(|| begun.open(plane, role, array, blocks))
    }
}
