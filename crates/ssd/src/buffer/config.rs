//! `[buffer]`: volatile RAM for writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[buffer]`: volatile RAM for writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// Capacity in bytes, counted in whole sectors; 0 = no buffer.
    pub bytes: u64,
}
