//! The PT/F part of the mapping entries: how an entry points to the next version.

use nandle_nand::{Geometry, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::map::ENTRY_BYTES;

crate::catalog! {
    /// How an entry points to the next version.
    pub enum PointerKind {
        /// By a place in a table.
        Indirect = "indirect",
        /// By the distance between the two pages.
        Direct = "direct",
    }
}

/// `[scheme.multi_version]`
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiVersionConfig {
    /// Physical pages that a logical page may consist of (2 to 8).
    pub max_versions: u32,
    /// How a mapping entry points to the next version.
    pub pointer: PointerKind,
    /// Share of the pages that hold no logical page of their own and are no reserve (spare, or not
    /// written by the host) that versions may take (0 to 1).
    pub version_budget: f64,
    /// Size of the table of page numbers with `pointer = "indirect"`, in shares of the mapping table (0 to 1).
    pub table_share: f64,
    /// Nanoseconds without any work after which versions are merged; 0 = never.
    pub idle_merge_after_ns: u64,
    /// Most logical pages of a compacted page that garbage collection takes apart.
    pub gc_merge: u32,
}

impl Default for MultiVersionConfig {
    fn default() -> Self {
        Self {
            max_versions: 2,
            pointer: PointerKind::Indirect,
            version_budget: 0.5,
            table_share: 0.01,
            idle_merge_after_ns: 10_000_000,
            gc_merge: 2,
        }
    }
}

/// The PT/F part of the mapping entries, and the table.
#[derive(Clone, Debug)]
pub(super) struct Pointers {
    pub direct: bool,
    /// An entry has room for two page numbers of the plane.
    pub both: bool,
    /// Bits beside the physical page number.
    pub bits: u32,
    pub slot_bytes: u32,
    /// Places of the table.
    pub slots: u32,
}

impl Pointers {
    /// `in_place`: all pages of a logical page that are not compacted lie in one plane.
    pub fn new(settings: &MultiVersionConfig, g: &Geometry, logical_pages: u32, in_place: bool) -> Self {
        let number_bits = 64 - (g.pages() - 1).leading_zeros().min(63);
        let slot_bytes = number_bits.div_ceil(8);
        let bytes = settings.table_share * f64::from(logical_pages) * f64::from(ENTRY_BYTES);
        let slots = (bytes / f64::from(slot_bytes)) as u32;
        // Half an entry is a page of the plane, a place in the table, or nothing.
        let codes = (1_u32 << (4 * ENTRY_BYTES)).saturating_sub(g.blocks_per_plane * g.pages_per_block + 1);
        // A table with a place for each logical page needs no such economy.
        let both = in_place && settings.max_versions == 2 && codes > 0 && slots < logical_pages;
        Self {
            direct: settings.pointer == PointerKind::Direct,
            both,
            bits: (8 * ENTRY_BYTES).saturating_sub(number_bits),
            slot_bytes,
            slots: if both { slots.min(codes) } else { slots },
        }
    }

    /// Whether an entry can say how far `to` is from `from`.
    pub fn reaches(&self, g: &Geometry, from: Ppn, to: Ppn) -> bool {
        let number = |ppn: Ppn| {
            let block = g.block_of(ppn);
            let in_plane = u64::from(block.0 & ((1 << g.block_bits()) - 1));
            let block = u64::from(g.plane_of(block)) * u64::from(g.blocks_per_plane) + in_plane;
            (block * u64::from(g.pages_per_block) + u64::from(g.page_of(ppn))) as i64
        };
        let half = if self.bits == 0 { 0 } else { 1_i64 << (self.bits - 1) };
        (-half..half).contains(&(number(to) - number(from)))
    }
}

#[cfg(test)]
mod tests {
    use nandle_nand::Block;

    use super::*;

    #[test]
    fn a_direct_pointer_reaches_as_far_as_its_bits() {
        // 2^26 pages leave 6 of an entry's 32 bits.
        let geometry = Geometry {
            channels: 4,
            chips_per_channel: 1,
            dies_per_chip: 4,
            planes_per_die: 4,
            blocks_per_plane: 4096,
            pages_per_block: 256,
            page_bytes: 16384,
            sector_bytes: 4096,
            oob_bytes: 128,
        };
        let settings = MultiVersionConfig { pointer: PointerKind::Direct, ..Default::default() };
        let pointers = Pointers::new(&settings, &geometry, 1 << 25, true);
        assert_eq!(pointers.bits, 6);
        let page = |page| geometry.ppn(Block(1), page);
        for (from, to, reaches) in
            [(0, 31, true), (0, 32, false), (32, 0, true), (33, 0, false), (7, 7, true)]
        {
            assert_eq!(pointers.reaches(&geometry, page(from), page(to)), reaches, "{from} to {to}");
        }
    }
}
