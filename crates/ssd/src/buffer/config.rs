//! `[buffer]`: volatile RAM for writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[buffer]`: volatile RAM for writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// Capacity in bytes, counted in whole sectors, at least a mapping unit; 0 = no buffer.
    pub bytes: u64,
    /// When the room of what leaves is free again.
    #[serde(skip_serializing_if = "Release::is_default")]
    pub release: Release,
    /// While dies idle and the buffer is more than half full, what would leave next leaves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clean_ahead: bool,
    /// With `scheme.buffer = "fifo"`: a write goes into the pages that are buffered. Else it is queued by itself, as in
    /// VSSIM: it only joins the request at the tail if it goes on where that ends, and drops those it covers.
    #[serde(skip_serializing_if = "is_true")]
    pub fifo_merge: bool,
    /// What leaves a full buffer with `scheme.buffer = "fifo"`.
    #[serde(skip_serializing_if = "FifoEvict::is_default")]
    pub fifo_evict: FifoEvict,
    /// What a read of buffered sectors does with `scheme.buffer = "fifo"`.
    #[serde(skip_serializing_if = "FifoReads::is_default")]
    pub fifo_reads: FifoReads,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            bytes: 0,
            release: Release::default(),
            clean_ahead: false,
            fifo_merge: true,
            fifo_evict: FifoEvict::default(),
            fifo_reads: FifoReads::default(),
        }
    }
}

/// `buffer.fifo_evict`: what leaves a full buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FifoEvict {
    /// As many requests as room is needed for.
    #[default]
    #[serde(alias = "request")]
    Room,
    /// One request after the other, until the buffer is empty (VSSIM).
    All,
}

impl FifoEvict {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `buffer.fifo_reads`: what a read of buffered sectors does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FifoReads {
    /// It is answered from the buffer.
    #[default]
    Buffer,
    /// It waits until all requests up to the newest that it reads have left. If that one has all of it, it is answered
    /// from there, else from flash (VSSIM).
    Destage,
}

impl FifoReads {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
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
