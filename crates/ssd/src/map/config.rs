//! `[map_cache]`: how much of the mapping table stays in RAM.

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
