//! `[wear]`: wear and bad blocks. `[superblock]`: what blocks are made of.

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

/// `[superblock]`: with `scheme.striping = "superblock"`, blocks of the same number on several dies are opened,
/// written page by page across them, collected and erased together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SuperblockConfig {
    /// Dies that a superblock lies on, with all of their planes: a divisor of the drive's; 0 = all.
    pub dies: u32,
    /// One page of so many that are programmed together across the dies holds parity, from which a page that cannot be
    /// read is rebuilt: a divisor of a superblock's blocks, at least 2; 0 = none.
    pub parity: u32,
}

impl SuperblockConfig {
    /// It says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
