//! A mapping table as a search tree for each region of the logical space, with one node for each logical
//! page, or, where the region is split, several.
//!
//! The nodes of a region are those of a perfectly balanced tree over its keys; a look-up walks from the
//! root and costs one DRAM access a node, and one for the region's root pointer. A node is a plain entry
//! and two links of 16 bits. Nodes lie in translation pages in the order of their keys; a look-up needs
//! the page of the node that it ends at.

use super::fragments::Fragments;
use super::size::TableSize;

/// Links of a tree node.
const LINK_BYTES: u32 = 4;

/// The regions and what their entries take.
#[derive(Clone, Debug)]
pub struct Regions {
    split: Vec<bool>,
    /// Logical pages of a region.
    region_pages: u32,
    /// Nodes of a logical page where its region is split.
    nodes: u32,
    nodes_per_page: u32,
    /// Translation pages of a region that is split.
    pages_per_region: u32,
}

impl Regions {
    /// Nodes of a translation page, and translation pages in all.
    pub(super) fn pages(size: TableSize, region_pages: u32, nodes: u32) -> (u32, u32) {
        let nodes = nodes.max(1);
        let per_page = size.page_bytes / (size.entry_bytes + LINK_BYTES);
        let per_page = (per_page / nodes * nodes).max(nodes);
        let regions = size.logical_pages.div_ceil(region_pages.max(1));
        (per_page, regions * (region_pages * nodes).div_ceil(per_page))
    }

    pub(super) fn new(size: TableSize, region_pages: u32, nodes: u32) -> Self {
        let (nodes_per_page, _) = Self::pages(size, region_pages, nodes);
        Self {
            split: vec![false; size.logical_pages.div_ceil(region_pages) as usize],
            region_pages,
            nodes,
            nodes_per_page,
            pages_per_region: (region_pages * nodes).div_ceil(nodes_per_page),
        }
    }

    /// Regions.
    pub fn len(&self) -> usize {
        self.split.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.split.is_empty()
    }
    /// The region of `lpn`.
    #[inline]
    pub fn of(&self, lpn: u32) -> usize {
        (lpn / self.region_pages) as usize
    }
    /// Whether a region is split.
    #[inline]
    pub fn is_split(&self, region: usize) -> bool {
        self.split[region]
    }
    /// Regions that are split.
    pub fn count_split(&self) -> usize {
        self.split.iter().filter(|split| **split).count()
    }
    /// Splits a region, or joins it again.
    pub(crate) fn set_split(&mut self, region: usize, split: bool) {
        self.split[region] = split;
    }
    /// The translation pages of a region, and how many of them it uses as it is now.
    pub(crate) fn pages_of(&self, region: usize) -> (std::ops::Range<u32>, u32) {
        let nodes = self.region_pages * if self.split[region] { self.nodes } else { 1 };
        let first = region as u32 * self.pages_per_region;
        (first..first + self.pages_per_region, nodes.div_ceil(self.nodes_per_page))
    }

    #[inline]
    pub(super) fn page_of(&self, lpn: u32) -> u32 {
        let region = lpn / self.region_pages;
        let nodes = if self.split[region as usize] { self.nodes } else { 1 };
        region * self.pages_per_region + lpn % self.region_pages * nodes / self.nodes_per_page
    }

    pub(super) fn bytes(&self, size: TableSize) -> u64 {
        let pages = u64::from(size.logical_pages);
        let split = (self.count_split() as u64 * u64::from(self.region_pages)).min(pages);
        (pages + split * u64::from(self.nodes - 1)) * u64::from(size.entry_bytes + LINK_BYTES)
    }

    pub(super) fn entries(&self, page: u32, fragments: &Fragments) -> Vec<u8> {
        let region = page / self.pages_per_region;
        let nodes = if self.split[region as usize] { self.nodes } else { 1 };
        let per_page = self.nodes_per_page / nodes;
        let first = page % self.pages_per_region * per_page;
        let last = (first + per_page).min(self.region_pages).max(first);
        let base = region * self.region_pages;
        fragments.words(base + first, (base + last).min(fragments.len()))
    }

    /// Nodes on the way to the entry `key` (from 0) of a balanced search tree of `size` entries.
    fn depth(key: u32, size: u32) -> u32 {
        let levels = u32::BITS - size.leading_zeros();
        levels - (key + 1).trailing_zeros()
    }

    /// DRAM accesses of the look-up of `lpn`, of those of its nodes that `wanted` names.
    pub(crate) fn accesses(&self, lpn: u32, wanted: impl Fn(u32) -> bool) -> u32 {
        let key = lpn % self.region_pages;
        if !self.split[self.of(lpn)] {
            return 1 + Self::depth(key, self.region_pages);
        }
        let size = self.region_pages * self.nodes;
        (0..self.nodes)
            .filter(|&node| wanted(node))
            .map(|node| 1 + Self::depth(key * self.nodes + node, size))
            .sum()
    }
}
