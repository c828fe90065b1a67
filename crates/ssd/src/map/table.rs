//! What the mapping table is made of: which translation page holds an entry, and what that page says.
//!
//! The table is cut into translation pages numbered from 0; all of them compete in the same cache.
//! Their contents are always what the map in RAM says, so that a page in flash that differs from it was
//! left behind by a bug. A scheme asks for the shape that its entries need.

use nandle_nand::Array;

use super::annex::Annex;
use super::fragments::Fragments;
use super::size::TableSize;
use super::tree::Tree;

/// The shape of a mapping table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableShape {
    /// One entry for each logical page.
    #[default]
    Flat,
    /// With an index in each entry and a second table that it leads to: see [`super::annex`].
    Annex,
    /// A search tree over pieces of data: see [`super::tree`].
    Tree {
        /// Most pieces of a logical page (at least 1).
        pieces: u32,
    },
}

impl TableShape {
    /// Entries of a translation page, and translation pages in all.
    pub fn pages(self, size: TableSize) -> (u32, u32) {
        match self {
            Self::Flat => {
                let per_page = size.page_bytes / size.entry_bytes;
                (per_page, size.logical_pages.div_ceil(per_page))
            }
            Self::Annex => Annex::pages(size),
            Self::Tree { pieces } => Tree::pages(size, pieces),
        }
    }
}

/// The mapping table, fragments aside.
#[derive(Clone, Debug)]
pub(super) enum Table {
    Flat,
    Annex(Box<Annex>),
    Tree(Box<Tree>),
}

impl Table {
    pub fn new(shape: TableShape, size: TableSize) -> Self {
        match shape {
            TableShape::Flat => Self::Flat,
            TableShape::Annex => Self::Annex(Box::new(Annex::new(size))),
            TableShape::Tree { pieces } => Self::Tree(Box::new(Tree::new(size, pieces))),
        }
    }

    /// The contents of translation page `page`.
    pub fn entries(&self, page: u32, per_page: u32, fragments: &Fragments, array: &Array) -> Vec<u8> {
        match self {
            Self::Flat => fragments.entries(page, per_page),
            Self::Annex(annex) => annex.entries(page, fragments, array),
            Self::Tree(tree) => tree.entries(page, fragments),
        }
    }

    /// Bytes of the whole table.
    pub fn bytes(&self, size: TableSize) -> u64 {
        match self {
            Self::Flat => u64::from(size.logical_pages) * u64::from(size.entry_bytes),
            Self::Annex(annex) => annex.bytes(size),
            Self::Tree(tree) => tree.bytes(size),
        }
    }
}
