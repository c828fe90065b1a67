//! Compaction (section III-C, Fig. 6): small partial pages of one region that leave the
//! buffer together share one physical page.
//!
//! A partial page is small if it covers at most half of its page. The page's header lists (LPN,
//! offset, length in sectors) of 6 bytes for each run of sectors, and takes room like everything else:
//! with `header = "oob"` it lies in the out-of-band area, which limits the runs; with `"in-page"` a
//! 16-bit marker and the list take the first sector or sectors. The paper allows either; the default
//! is the out-of-band area for 4 KiB sectors and the page for 512-byte sectors.
//!
//! Decided here: the runs of a partial page are packed tightly, so one with gaps takes several
//! entries; a compacted page goes to the least busy of its logical pages' planes; a partial page whose
//! logical page has as many versions as it may have is not compacted, but merged with the newest one,
//! as the paper does when compacted sectors are overwritten.

use nandle_nand::{Extent, Extents, Geometry, OpId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::error::ConfigError;
use crate::flash::{Flash, Page, Part, Write};
use crate::map::{Fragment, run_mask, runs};
use crate::space::PageClass;

/// Bytes of a header entry: LPN, offset, length.
pub const ENTRY_BYTES: u32 = 6;
/// Bytes that tell a compacted page from any other when the header lies in the page.
pub const MARKER_BYTES: u32 = 2;

crate::catalog! {
    /// Where a compacted page keeps its header.
    pub enum HeaderKind {
        /// In the out-of-band area for 4 KiB sectors, in the page for 512-byte sectors.
        Auto = "auto",
        /// In the out-of-band area.
        Oob = "oob",
        /// In the first sectors of the page.
        InPage = "in-page",
    }
}

/// `[scheme.compacted]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompactedConfig {
    /// Logical pages of a region; only pages of one region are compacted (2 to 65536).
    pub region_pages: u32,
    /// Where the header lies.
    pub header: HeaderKind,
}

impl Default for CompactedConfig {
    fn default() -> Self {
        Self { region_pages: 64, header: HeaderKind::Auto }
    }
}

/// What fits a compacted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Logical pages of a region.
    pub region_pages: u32,
    /// First sector of the page that holds data.
    pub first: u32,
    /// Sectors for data.
    pub sectors: u32,
    /// Runs that the header has room for.
    pub extents: u32,
    /// A partial page of at most this many sectors is small.
    pub half: u32,
}

impl Packing {
    /// From a configuration.
    ///
    /// # Errors
    /// If the header has no room for two partial pages.
    pub fn new(config: &CompactedConfig, g: &Geometry) -> Result<Self, ConfigError> {
        let &CompactedConfig { region_pages, header } = config;
        let spp = g.sectors_per_page();
        if !(2..=65536).contains(&region_pages) {
            return Err(ConfigError::new("scheme.compacted.region_pages", region_pages, "2 to 65536"));
        }
        let in_page = match header {
            HeaderKind::Auto => g.sector_bytes == 512,
            HeaderKind::Oob => false,
            HeaderKind::InPage => true,
        };
        let (first, extents) = if in_page {
            (1, (g.sector_bytes - MARKER_BYTES) / ENTRY_BYTES)
        } else {
            (0, g.oob_bytes / ENTRY_BYTES)
        };
        if extents < 2 {
            return Err(ConfigError::new(
                "geometry.oob_bytes",
                g.oob_bytes,
                format!("at least {}, the headers of two partial pages", 2 * ENTRY_BYTES),
            ));
        }
        Ok(Self { region_pages, first, sectors: spp.saturating_sub(first), extents, half: spp / 2 })
    }

    /// Whether a partial page of these sectors is small.
    #[inline]
    pub fn is_small(&self, mask: u64) -> bool {
        mask.count_ones() <= self.half
    }

    /// A page that holds `mask`.
    #[inline]
    pub(super) fn start(&self, mask: u64) -> Filling {
        let mut filling = Filling { sectors: self.sectors, extents: self.extents };
        if filling.fits(mask) {
            filling.add(mask);
        } else {
            filling.sectors = 0;
        }
        filling
    }

    /// Share of the raw space that headers take if every page is a compacted page of two partial
    /// pages, the fewest there can be: the paper's worst case (section V-D).
    pub fn overhead(&self, g: &Geometry) -> f64 {
        let page = f64::from(g.page_bytes);
        if self.first > 0 {
            f64::from(self.first * g.sector_bytes) / page
        } else {
            f64::from(2 * ENTRY_BYTES) / page
        }
    }
}

/// The room left in a compacted page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    sectors: u32,
    extents: u32,
}

impl Filling {
    #[inline]
    pub fn fits(&self, mask: u64) -> bool {
        mask.count_ones() <= self.sectors && (self.extents >= 64 || runs(mask).count() as u32 <= self.extents)
    }
    #[inline]
    pub fn add(&mut self, mask: u64) {
        self.sectors -= mask.count_ones();
        self.extents -= runs(mask).count() as u32;
    }
    #[inline]
    pub fn is_filled(&self) -> bool {
        self.sectors == 0 || self.extents == 0
    }
}

/// Small partial pages that are about to share a physical page.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub parts: SmallVec<[Part<'a>; 8]>,
    filling: Option<Filling>,
}

impl<'a> Batch<'a> {
    /// Takes a part in, if it is of the same region and stream and there is room.
    pub fn admits(&mut self, flash: &Flash, packing: &Packing, stream: u16, part: &Part<'a>) -> bool {
        let region = |lpn: u32| lpn / packing.region_pages;
        match (&mut self.filling, self.parts.first()) {
            (Some(filling), Some(first)) => {
                let joins = region(first.lpn) == region(part.lpn)
                    && flash.host_group(first.lpn, stream) == flash.host_group(part.lpn, stream)
                    && filling.fits(part.mask);
                if joins {
                    filling.add(part.mask);
                }
                joins
            }
            _ => {
                self.filling = Some(packing.start(part.mask));
                true
            }
        }
    }
}

/// Programs the parts of a batch as one page in `plane`, in which there is room; how many runs it holds.
pub(super) fn place(
    flash: &mut Flash,
    packing: &Packing,
    write: &Write<'_>,
    parts: &[Part<'_>],
    plane: u32,
) -> u64 {
    let spp = u64::from(flash.sectors_per_page());
    let mut extents: SmallVec<[Extent; 16]> = SmallVec::new();
    let mut at = packing.first;
    for part in parts {
        for (start, len) in runs(part.mask) {
            let lsn = u64::from(part.lpn) * spp + u64::from(start);
            extents.push(Extent { lsn, sectors: len as u8, at: at as u8 });
            at += len;
        }
    }
    let after: SmallVec<[OpId; 4]> = parts.iter().filter_map(|part| part.load).collect();
    let release = parts.iter().map(|part| part.release).sum();
    let group = flash.host_group(parts[0].lpn, write.stream);
    let class = PageClass { full: false, alone: parts[0].alone };
    let page = Page::data(plane, group, class, Extents::List(&extents)).for_request(write.request, release);
    let (ppn, op) = flash.append(&page, &after);
    let mut next = extents.iter();
    for part in parts {
        flash.count_host_sectors(part.mask);
        for ((start, len), extent) in runs(part.mask).zip(&mut next) {
            let (mask, shift) = (run_mask(start, len), i32::from(extent.at) - start as i32);
            flash.fill(ppn, mask, shift, part.contents);
            flash.attach(part.lpn, Fragment { mask, ppn, shift: shift as i8 }, op);
        }
    }
    flash.mark_surplus(ppn);
    extents.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fill_up_with_their_header() {
        let packing = Packing { region_pages: 64, first: 1, sectors: 7, extents: 3, half: 4 };
        assert!(packing.is_small(0b1111) && !packing.is_small(0b1_1111));
        let mut page = packing.start(0b101);
        assert!(page.fits(0b11110) && !page.fits(0b111_0111) && !page.fits(0b101));
        page.add(0b1111);
        assert!(page.is_filled());
    }
}
