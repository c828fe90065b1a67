//! `[wear]`: wear and bad blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[wear]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WearConfig {
    /// Take the least worn free block first (dynamic wear levelling); false = oldest first.
    pub dynamic: bool,
    /// Move the data of a block that is this many erases behind its plane's most worn block; 0 = never.
    pub static_gap: u32,
    /// Share of blocks that are bad from the factory (0 to 0.5), drawn by the seed.
    pub factory_bad: f64,
}

impl Default for WearConfig {
    fn default() -> Self {
        Self { dynamic: true, static_gap: 0, factory_bad: 0.0 }
    }
}
