//! The map: for each logical page where its sectors lie, and the mapping table that a drive keeps of it.
//!
//! Nothing here orders flash operations: what changes in the map, and what that means for the pages
//! concerned, is decided above. Knows the flash's addresses and out-of-band areas.

use nandle_nand::{Array, Ppn};
use smallvec::SmallVec;

pub mod annex;
mod cache;
mod config;
mod fragments;
mod sectors;
mod size;
mod table;
pub mod tree;
mod words;

pub use cache::Cache;
pub use config::{MapCacheConfig, MappingConfig};
pub(crate) use fragments::Before;
pub use fragments::{Fragment, FragmentList, Fragments};
pub use sectors::{crosses_border, only_run, run_mask, runs};
pub use size::TableSize;
pub use table::TableShape;

use annex::Annex;
use table::Table;
use tree::{Change, Tree};

/// Bytes of an address in a mapping entry.
pub const ENTRY_BYTES: u32 = 4;

/// Where everything is, and what of the table is in RAM.
#[derive(Clone, Debug)]
pub struct Map {
    fragments: Fragments,
    table: Table,
    /// The translation pages in RAM; none if the whole table is.
    cache: Option<Box<Cache>>,
    /// A change of an entry concerns more than the fragments: translation pages, or a tree.
    follows: bool,
    size: TableSize,
    entries_per_page: u32,
}

impl Map {
    /// `cache_bytes`: capacity of the cache of translation pages, 0 = the whole table is in RAM.
    pub(crate) fn new(shape: TableShape, size: TableSize, sectors_per_page: u32, cache_bytes: u64) -> Self {
        let (entries_per_page, map_pages) = shape.pages(size);
        let capacity = (cache_bytes / u64::from(size.page_bytes)) as u32;
        Self {
            fragments: Fragments::new(size.logical_pages, sectors_per_page),
            table: Table::new(shape, size),
            cache: (cache_bytes > 0).then(|| Box::new(Cache::new(map_pages, capacity))),
            follows: cache_bytes > 0 || matches!(shape, TableShape::Tree { .. }),
            size,
            entries_per_page,
        }
    }

    /// Where the sectors of each logical page lie.
    #[inline]
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }
    #[inline]
    pub(crate) fn fragments_mut(&mut self) -> &mut Fragments {
        &mut self.fragments
    }
    /// The live extents of `ppn` as (logical page, its fragments there).
    pub(crate) fn live_in(&self, ppn: Ppn, array: &Array) -> SmallVec<[(u32, Fragment); 2]> {
        self.fragments.live_in(ppn, array)
    }
    /// The sectors of `lpn` that `ppn` stores at home, by its out-of-band area.
    pub(crate) fn home_mask(&self, array: &Array, ppn: Ppn, lpn: u32) -> u64 {
        fragments::home_mask(array, ppn, lpn, self.fragments.sectors_per_page())
    }

    // ---- the table ------------------------------------------------------------------------------

    /// The translation page with the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: u32) -> u32 {
        lpn / self.entries_per_page
    }
    /// The contents of translation page `page`.
    pub(crate) fn entries(&self, page: u32, array: &Array) -> Vec<u8> {
        self.table.entries(page, self.entries_per_page, &self.fragments, array)
    }
    /// Bytes of the whole table at present.
    pub fn bytes(&self) -> u64 {
        self.table.bytes(self.size)
    }
    /// The second table, if the shape has one.
    #[inline]
    pub fn annex(&self) -> Option<&Annex> {
        match &self.table {
            Table::Annex(annex) => Some(annex),
            _ => None,
        }
    }
    #[inline]
    pub(crate) fn annex_mut(&mut self) -> Option<&mut Annex> {
        match &mut self.table {
            Table::Annex(annex) => Some(annex),
            _ => None,
        }
    }
    /// The tree, if the shape is one.
    #[inline]
    pub fn tree(&self) -> Option<&Tree> {
        match &self.table {
            Table::Tree(tree) => Some(tree),
            _ => None,
        }
    }
    #[inline]
    pub(crate) fn tree_mut(&mut self) -> Option<&mut Tree> {
        match &mut self.table {
            Table::Tree(tree) => Some(tree),
            _ => None,
        }
    }
    /// Whether the map is one table, all of it in RAM.
    pub(crate) fn is_plain(&self) -> bool {
        self.cache.is_none() && !self.follows
    }
    /// Whether a change of an entry concerns more than the fragments.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }
    /// The fragments of `lpn` have changed: what that changes in the tree, if the table is one.
    pub(crate) fn follow_pieces(&mut self, lpn: u32, array: &Array) -> Option<Change> {
        let Table::Tree(tree) = &mut self.table else { return None };
        Some(tree.follow(lpn, &self.fragments.get(lpn, array)))
    }
    /// The entry of `lpn` as its translation page has it, beside what an annex says.
    pub(crate) fn entry(&self, lpn: u32, array: &Array) -> u32 {
        annex::own_entry(&self.fragments, array, lpn)
    }

    // ---- what of it is in RAM ---------------------------------------------------------------------

    /// The cache of translation pages; none if the whole table is in RAM.
    #[inline]
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }
    #[inline]
    pub(crate) fn cache_mut(&mut self) -> Option<&mut Cache> {
        self.cache.as_deref_mut()
    }
    /// Where translation page `page` lies in flash.
    pub(crate) fn location(&self, page: u32) -> Option<Ppn> {
        self.cache().and_then(|cache| cache.location(page))
    }
    /// Translation pages that may lie in flash.
    pub fn map_pages(&self) -> u32 {
        self.cache().map_or(0, Cache::map_pages)
    }
    /// Translation pages that lie in flash.
    pub fn translation_pages(&self) -> impl Iterator<Item = (u32, Ppn)> + '_ {
        (0..self.map_pages()).filter_map(|page| self.location(page).map(|ppn| (page, ppn)))
    }
}
