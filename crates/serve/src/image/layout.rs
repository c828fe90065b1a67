//! Where everything lies in an image.

use nandle_ssd::nand::{Block, Geometry, Ppn};

use super::record::{BLOCK_BYTES, COPY_BYTES, PAGE_HEAD};

/// Bytes of the header.
pub(super) const HEADER: u64 = 64 << 10;
/// Page slots begin at multiples of this, so that a hole frees what it covers.
const ALIGN: u64 = 4096;
/// Bytes for what is known of the present server.
const SESSION: u64 = 4096;

/// Places in the file, by what lies there.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    geometry: Geometry,
    pages_at: u64,
    slot_bytes: u64,
    /// Block records a second time.
    blocks_again: u64,
    /// Copies of the pages' heads.
    copies: u64,
    session: u64,
}

impl Layout {
    pub fn new(geometry: &Geometry) -> Self {
        let table = geometry.blocks() * BLOCK_BYTES as u64;
        let pages_at = (HEADER + table).next_multiple_of(ALIGN);
        let slot_bytes = (PAGE_HEAD as u64 + u64::from(geometry.page_bytes)).next_multiple_of(ALIGN);
        let blocks_again = pages_at + geometry.pages() * slot_bytes;
        let copies = (blocks_again + table).next_multiple_of(ALIGN);
        let session = (copies + geometry.pages() * COPY_BYTES as u64).next_multiple_of(ALIGN);
        Self { geometry: geometry.clone(), pages_at, slot_bytes, blocks_again, copies, session }
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// All blocks, by plane.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.geometry.planes()).flat_map(|plane| self.geometry.blocks_of(plane))
    }

    /// How long the file is.
    pub fn end(&self) -> u64 {
        self.session + SESSION
    }

    /// Where page slots begin, and how long one is.
    pub fn slots(&self) -> (u64, u64) {
        (self.pages_at, self.slot_bytes)
    }

    /// Blocks and pages are numbered without the gaps that addresses have.
    pub fn number(&self, block: Block) -> u64 {
        let g = &self.geometry;
        let index = block.0 & ((1 << g.block_bits()) - 1);
        u64::from(g.plane_of(block)) * u64::from(g.blocks_per_plane) + u64::from(index)
    }

    fn page(&self, ppn: Ppn) -> u64 {
        let g = &self.geometry;
        self.number(g.block_of(ppn)) * u64::from(g.pages_per_block) + u64::from(g.page_of(ppn))
    }

    /// The record of a page.
    pub fn slot(&self, ppn: Ppn) -> u64 {
        self.pages_at + self.page(ppn) * self.slot_bytes
    }

    /// The copy of a page's head.
    pub fn copy(&self, ppn: Ppn) -> u64 {
        self.copies + self.page(ppn) * COPY_BYTES as u64
    }

    /// The two records of a block.
    pub fn records(&self, block: Block) -> [u64; 2] {
        let at = self.number(block) * BLOCK_BYTES as u64;
        [HEADER + at, self.blocks_again + at]
    }

    /// Where the slots of a block's pages lie, and the copies of their heads: place and length.
    pub fn areas(&self, block: Block) -> [(u64, u64); 2] {
        let (first, pages) = (self.geometry.ppn(block, 0), u64::from(self.geometry.pages_per_block));
        [(self.slot(first), pages * self.slot_bytes), (self.copy(first), pages * COPY_BYTES as u64)]
    }

    /// What is known of the present server.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// A block, for people.
    pub fn name(&self, block: Block) -> String {
        let g = &self.geometry;
        let number = self.number(block) % u64::from(g.blocks_per_plane);
        format!("plane {}, block {number}", g.plane_of(block))
    }

    /// A page, for people.
    pub fn page_name(&self, ppn: Ppn) -> String {
        let block = self.name(self.geometry.block_of(ppn));
        format!("{block}, page {} (byte {} of the file)", self.geometry.page_of(ppn), self.slot(ppn))
    }
}
