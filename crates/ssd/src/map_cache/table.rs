//! What the mapping table is made of: which translation page holds an entry, and what that page says.
//!
//! The table of a scheme is cut into translation pages numbered from 0; all of them compete in the
//! same cache. Their contents are always what the map in RAM says, so that a page in flash that
//! differs from it was left behind by a bug.

use nandle_nand::Array;

use crate::config::{DeviceConfig, Layout};
use crate::fragments::Fragments;
use crate::mapping::MappingKind;
use crate::mapping::across::Areas;
use crate::mapping::mrsm::Regions;

/// The mapping table of a scheme.
#[derive(Clone, Debug)]
pub enum Table {
    /// One entry per logical page.
    Page,
    /// One entry per logical page with an area index, and the areas' own table behind it.
    Across(Box<Areas>),
    /// A tree per region, by page or by sub-page.
    Regions(Box<Regions>),
}

/// How large a scheme's table is: entries of a translation page, and translation pages.
pub(crate) fn shape(config: &DeviceConfig, logical_pages: u32) -> (u32, u32) {
    let (page, entry) = (config.geometry.page_bytes, config.map_cache.entry_bytes);
    match config.scheme.mapping {
        MappingKind::Mrsm => Regions::shape(config, logical_pages),
        kind if kind.has_areas() => Areas::shape(page, entry, logical_pages),
        _ => {
            let per_page = page / entry;
            (per_page, logical_pages.div_ceil(per_page))
        }
    }
}

impl Table {
    pub(crate) fn new(config: &DeviceConfig, layout: &Layout) -> Self {
        match config.scheme.mapping {
            MappingKind::Mrsm => Self::Regions(Box::new(Regions::new(config, layout))),
            kind if kind.has_areas() => Self::Across(Box::new(Areas::new(config, layout))),
            _ => Self::Page,
        }
    }

    /// The translation page with the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: u32, layout: &Layout) -> u32 {
        match self {
            Self::Page | Self::Across(_) => lpn / layout.entries_per_map_page,
            Self::Regions(regions) => regions.page_of(lpn),
        }
    }

    /// The contents of translation page `page`.
    pub(crate) fn entries(
        &self,
        page: u32,
        fragments: &Fragments,
        array: &Array,
        layout: &Layout,
    ) -> Vec<u8> {
        match self {
            Self::Page => fragments.entries(page, layout.entries_per_map_page),
            Self::Across(areas) => areas.entries(page, fragments, array, layout),
            Self::Regions(regions) => regions.entries(page, fragments),
        }
    }

    /// Bytes of the whole table, with entries of `entry` bytes for a plain page.
    pub(crate) fn bytes(&self, entry: u32, layout: &Layout) -> u64 {
        let pages = u64::from(layout.logical_pages);
        match self {
            Self::Page => pages * u64::from(entry),
            Self::Across(areas) => areas.bytes(entry, pages),
            Self::Regions(regions) => regions.bytes(entry, pages),
        }
    }
}
