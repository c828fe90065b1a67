//! `[buffer]`: volatile RAM for writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[buffer]`: volatile RAM for writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// Capacity in bytes, counted in whole sectors; 0 = no buffer.
    pub bytes: u64,
    /// When the room of what leaves is free again.
    #[serde(skip_serializing_if = "Release::is_default")]
    pub release: Release,
    /// While dies idle and the buffer is more than half full, what would leave next leaves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clean_ahead: bool,
}

/// `buffer.release`: when the room of what leaves the buffer is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// When it is programmed.
    #[default]
    Program,
    /// When its die has taken it: the data are in the die's register.
    Handover,
}

impl Release {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
