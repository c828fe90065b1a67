//! `[gc]`: garbage collection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::catalog! {
    /// Which closed block is collected.
    pub enum VictimKind {
        /// The block with the fewest valid pages.
        Greedy = "greedy",
        /// The block with the best ratio of freed space and age to copying (LFS, Kawaguchi).
        CostBenefit = "cost-benefit",
        /// The block with the fewest valid pages of `gc.d` drawn at random.
        DChoices = "d-choices",
        /// The block that was closed first.
        Fifo = "fifo",
    }
}

crate::catalog! {
    /// Which blocks take what survives of a victim.
    pub enum SurvivorsKind {
        /// Blocks of their own.
        Apart = "apart",
        /// The open block of its plane that host writes go to (GreedyFTL of the Cosmos+ OpenSSD).
        WithHost = "with-host",
    }
}

/// `[gc]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GcConfig {
    /// Which block is collected.
    pub victim: VictimKind,
    /// Candidates drawn by `victim = "d-choices"` (1 to 1024).
    pub d: u32,
    /// Share of a plane's blocks at which collection begins in the background; at least one block
    /// more than `hard` is kept whatever the share.
    pub soft: f64,
    /// Share of a plane's blocks that host writes never take; at least one block whatever the share.
    pub hard: f64,
    /// `scheme.pacing = "lazy"`: most valid pages, as a share, of a block that is collected in the background (0 to
    /// 1).
    pub lazy: f64,
    /// Copies of one plane under way at a time (1 to 1024); of superblocks, for each of their planes.
    pub copies_in_flight: u32,
    /// Copies of the whole drive under way at a time, a victim's before the next one's (0 to 1048576); 0: as many as
    /// the planes allow.
    pub copies_in_flight_total: u32,
    /// Which blocks take survivors. "with-host" is for cells of one page type, or `cell.program_order = "relaxed"`, and for
    /// streams that are not persistently isolated; policies that choose page types always do so.
    pub survivors: SurvivorsKind,
    /// Page-type policies: collect in the background when fewer pages of the types that small or
    /// partial writes need are left than the soft watermark's blocks have; false = only when such a
    /// write waits for one (emergency collection alone).
    pub types_ahead: bool,
}

impl Default for GcConfig {
    fn default() -> Self {
        Self {
            victim: VictimKind::Greedy,
            d: 8,
            soft: 0.0,
            hard: 0.0,
            lazy: 0.05,
            copies_in_flight: 4,
            copies_in_flight_total: 0,
            survivors: SurvivorsKind::Apart,
            types_ahead: true,
        }
    }
}
