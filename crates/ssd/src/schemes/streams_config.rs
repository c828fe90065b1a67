//! `[streams]`: settings of the schemes that make groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// What becomes of the data of different handles when garbage is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Isolation {
    /// Survivors of all handles share blocks.
    #[default]
    #[serde(rename = "initially", alias = "initial")]
    Initially,
    /// Survivors stay with their handle.
    #[serde(rename = "persistently", alias = "persistent")]
    Persistently,
}

/// `[streams]`: settings of the stream policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamsConfig {
    /// Streams of `multi-stream`, reclaim-unit handles of `fdp` (1 to 128).
    pub count: u32,
    /// `fdp`: bytes of a reclaim unit, counted in whole blocks; 0 = one block of every plane, or a superblock.
    pub reclaim_unit_bytes: u64,
    /// `fdp`: what garbage collection does with the data of different handles.
    pub isolation: Isolation,
    /// Objects: most ranges of one (1 to 65536).
    pub max_ranges: u32,
    /// Objects: dedicated blocks are taken when they are first written, not with the call
    /// (the paper's footnote 1).
    pub on_demand: bool,
    /// Objects smaller than a block with the same stream id share one (footnote 2).
    pub share_tiny: bool,
    /// Objects: sequential writes from a multiple of this many bytes on are an object up to the next
    /// multiple, without a call; 0 = never.
    pub auto_align: u64,
    /// Objects: a run of writes that is sequential for this many bytes goes on in objects of one
    /// block each, without a call; 0 = never.
    pub auto_run: u64,
    /// Objects: collection for normal writes takes a block of an object that has ended where it holds less
    /// than the best normal one. The paper's rule is never (section 4.3, GC-By-Block-Type).
    pub collect_ended: bool,
    /// Objects: most that were made without a call and are live at a time (1 to 65536).
    pub auto_live: u32,
}

impl Default for StreamsConfig {
    fn default() -> Self {
        Self {
            count: 8,
            reclaim_unit_bytes: 0,
            isolation: Isolation::Initially,
            max_ranges: 256,
            on_demand: false,
            share_tiny: false,
            auto_align: 0,
            auto_run: 0,
            collect_ended: false,
            auto_live: 64,
        }
    }
}

impl StreamsConfig {
    pub(crate) fn validate(&self, sector_bytes: u32) -> Result<(), ConfigError> {
        ConfigError::count("streams.count", self.count, 128)?;
        ConfigError::count("streams.max_ranges", self.max_ranges, 65536)?;
        ConfigError::count("streams.auto_live", self.auto_live, 65536)?;
        for (field, value) in [("streams.auto_align", self.auto_align), ("streams.auto_run", self.auto_run)] {
            if !value.is_multiple_of(u64::from(sector_bytes)) {
                let expected = format!("a multiple of the sector, {sector_bytes}");
                return Err(ConfigError::new(field, value, expected));
            }
        }
        Ok(())
    }
}
