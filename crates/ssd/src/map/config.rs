//! `[map_cache]`: how much of the mapping table stays in RAM. `[mapping]`: what its entries point at.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[map_cache]`: how much of the mapping table stays in RAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapCacheConfig {
    /// Capacity in bytes, counted in whole translation pages; 0 = the whole table is in RAM.
    pub bytes: u64,
    /// Bytes of a plain page's mapping entry (4 to 16): 4 hold an address, 8 also the state of its
    /// sectors (SSDSim's). Schemes with larger entries add to it.
    pub entry_bytes: u32,
}

impl Default for MapCacheConfig {
    fn default() -> Self {
        Self { bytes: 0, entry_bytes: 4 }
    }
}

/// `[mapping]`: what an entry of the mapping table points at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MappingConfig {
    /// Bytes of a mapping unit; 0 = a page of the flash. Smaller units are gathered until they fill a page, so
    /// that a write of one costs its share of a page and no more; larger ones lie on the same page of several
    /// planes of a die, and smaller writes read, modify and write the rest.
    pub unit_bytes: u32,
}

impl MappingConfig {
    /// A page is the unit.
    pub fn is_page(&self) -> bool {
        self.unit_bytes == 0
    }
}
