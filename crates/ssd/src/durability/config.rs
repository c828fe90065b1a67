//! `[recovery]`: what a power cut costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[recovery]`: what a power cut costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoveryConfig {
    /// Pages programmed from one page of the rolling checkpoint to the next (0 = no checkpoints;
    /// recovery then reads the out-of-band area of every page). Its share of all programs is one in
    /// this many; recovery scans about this many pages for each page that a whole checkpoint takes.
    pub checkpoint_interval: u32,
    /// Power-loss protection: capacitors keep the drive running until everything that was acknowledged
    /// is on flash, so that acknowledged writes are durable: a FLUSH is answered at once, FUA asks for no more.
    pub plp: bool,
}

impl RecoveryConfig {
    /// No checkpoints, no protection.
    pub fn none() -> Self {
        Self { checkpoint_interval: 0, plp: false }
    }
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self { checkpoint_interval: 128, plp: false }
    }
}
