//! A geometry with what follows from it worked out: addresses are taken apart several times in
//! every operation.

use std::ops::Deref;

use crate::{Block, Geometry, Ppn};

/// A [`Geometry`] whose address arithmetic is a shift and a mask.
#[derive(Clone, Debug)]
pub struct Shape {
    geometry: Geometry,
    page_bits: u32,
    page_mask: u32,
    block_bits: u32,
    block_mask: u32,
    sectors_per_page: u32,
    full_mask: u64,
    /// 2^32 / planes of a die, rounded up: exact for fewer than 2^28 planes.
    die_of_plane: u64,
    /// Every [`Ppn`] below the last is a page: it is its own index.
    dense: bool,
}

impl Shape {
    /// Works out what follows from a valid geometry.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let (page_bits, block_bits) = (geometry.page_bits(), geometry.block_bits());
        Self {
            page_bits,
            page_mask: (1 << page_bits) - 1,
            block_bits,
            block_mask: (1 << block_bits) - 1,
            sectors_per_page: geometry.sectors_per_page(),
            full_mask: geometry.full_mask(),
            die_of_plane: (1_u64 << 32).div_ceil(u64::from(geometry.planes_per_die)),
            dense: geometry.pages_per_block.is_power_of_two() && geometry.blocks_per_plane.is_power_of_two(),
            geometry,
        }
    }

    /// As [`Geometry::sectors_per_page`].
    #[inline]
    pub fn sectors_per_page(&self) -> u32 {
        self.sectors_per_page
    }
    /// As [`Geometry::full_mask`].
    #[inline]
    pub fn full_mask(&self) -> u64 {
        self.full_mask
    }
    /// As [`Geometry::page_bits`].
    #[inline]
    pub fn page_bits(&self) -> u32 {
        self.page_bits
    }
    /// As [`Geometry::block_bits`].
    #[inline]
    pub fn block_bits(&self) -> u32 {
        self.block_bits
    }
    /// As [`Geometry::block`].
    #[inline]
    pub fn block(&self, plane: u32, index: u32) -> Block {
        Block(plane << self.block_bits | index)
    }
    /// As [`Geometry::ppn`].
    #[inline]
    pub fn ppn(&self, block: Block, page: u32) -> Ppn {
        Ppn(block.0 << self.page_bits | page)
    }
    /// As [`Geometry::plane_of`].
    #[inline]
    pub fn plane_of(&self, block: Block) -> u32 {
        block.0 >> self.block_bits
    }
    /// As [`Geometry::block_of`].
    #[inline]
    pub fn block_of(&self, ppn: Ppn) -> Block {
        Block(ppn.0 >> self.page_bits)
    }
    /// As [`Geometry::page_of`].
    #[inline]
    pub fn page_of(&self, ppn: Ppn) -> u32 {
        ppn.0 & self.page_mask
    }
    /// As [`Geometry::die_of_plane`].
    #[inline]
    pub fn die_of_plane(&self, plane: u32) -> u32 {
        ((u64::from(plane) * self.die_of_plane) >> 32) as u32
    }
    /// The plane within its die, as a bit.
    #[inline]
    pub fn plane_bit(&self, plane: u32) -> u32 {
        1 << (plane % self.planes_per_die)
    }
    /// The number of `ppn` among all pages of the device.
    #[inline(always)]
    pub fn index(&self, ppn: Ppn) -> usize {
        if self.dense {
            return ppn.0 as usize;
        }
        let block = self.block_of(ppn);
        let number = self.plane_of(block) as usize * self.blocks_per_plane as usize
            + (block.0 & self.block_mask) as usize;
        number * self.pages_per_block as usize + self.page_of(ppn) as usize
    }
}

impl Deref for Shape {
    type Target = Geometry;
    #[inline]
    fn deref(&self) -> &Geometry {
        &self.geometry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_geometry() {
        for (planes_per_die, blocks_per_plane, pages_per_block, sectors) in
            [(1, 4, 1, 1), (2, 64, 32, 8), (3, 5, 7, 3), (5, 6, 384, 16), (7, 192, 256, 32)]
        {
            let geometry = Geometry {
                channels: 3,
                chips_per_channel: 2,
                dies_per_chip: 3,
                planes_per_die,
                blocks_per_plane,
                pages_per_block,
                page_bytes: sectors * 512,
                sector_bytes: 512,
                oob_bytes: 0,
            };
            let shape = Shape::new(geometry.clone());
            assert_eq!(shape.full_mask(), geometry.full_mask());
            let mut index = 0;
            for plane in 0..geometry.planes() {
                assert_eq!(shape.die_of_plane(plane), geometry.die_of_plane(plane));
                for block in geometry.blocks_of(plane) {
                    assert_eq!(shape.plane_of(block), plane);
                    for page in 0..pages_per_block {
                        let ppn = geometry.ppn(block, page);
                        assert_eq!(shape.ppn(block, page), ppn);
                        assert_eq!((shape.block_of(ppn), shape.page_of(ppn)), (block, page));
                        assert_eq!(shape.index(ppn), index);
                        index += 1;
                    }
                }
            }
        }
    }
}
