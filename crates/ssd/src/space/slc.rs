//! `[slc]`: host data go first to blocks that are written in SLC mode, where there is room in them.
//!
//! Some blocks of each plane are the cache's own; a share of the free ones may serve as well, as long as that does
//! not bring collection about. A block of the cache is folded: what of it is still valid moves to normal blocks.

use nandle_nand::{Geometry, SlcMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GroupId;
use crate::error::ConfigError;

/// `slc.fold`: when blocks of the cache are folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// When the host has asked for nothing for a while.
    Idle,
    /// When the cache is full.
    Pressure,
    /// Both.
    #[default]
    Both,
}

/// `[slc]`: the SLC cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlcConfig {
    /// Bytes that blocks of the cache's own hold, at one bit a cell; rounded up to blocks of every plane.
    pub bytes: u64,
    /// Share of each plane's free blocks that may be written as SLC as well (0 to 1).
    pub dynamic_share: f64,
    /// When valid data move to normal blocks.
    pub fold: Fold,
    /// How long the drive has nothing to do before it folds for idleness.
    pub idle_ns: u64,
    /// Array program time (tPROG) of a page; that of an LSB page if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_ns: Option<u64>,
    /// Array read time (tR) of a page; that of an LSB page if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<u64>,
}

impl Default for SlcConfig {
    fn default() -> Self {
        let (program_ns, read_ns) = (None, None);
        Self { bytes: 0, dynamic_share: 0.0, fold: Fold::Both, idle_ns: 1_000_000, program_ns, read_ns }
    }
}

impl SlcConfig {
    /// It says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is no cache.
    pub fn is_off(&self) -> bool {
        self.bytes == 0 && self.dynamic_share == 0.0
    }

    /// What the flash has to know.
    pub(crate) fn mode(&self) -> Option<SlcMode> {
        let &Self { program_ns, read_ns, .. } = self;
        (!self.is_off()).then_some(SlcMode { labels: GroupId::CACHE_LABELS, program_ns, read_ns })
    }

    /// Blocks of a plane that are the cache's own, where `bits` are stored in a normal cell.
    pub(crate) fn blocks(&self, g: &Geometry, bits: u32, slots: u32) -> u64 {
        self.bytes.div_ceil(Self::row_bytes(g, bits, slots))
    }

    /// Bytes of the cache if it has one block of each plane.
    pub(crate) fn row_bytes(g: &Geometry, bits: u32, slots: u32) -> u64 {
        let pages = (g.pages_per_block / slots).div_ceil(bits) * slots;
        u64::from(pages) * u64::from(g.page_bytes) * u64::from(g.planes())
    }

    /// Checks every field by itself.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        const LONGEST_NS: u64 = 3_600_000_000_000;
        ConfigError::share("slc.dynamic_share", self.dynamic_share, 1.0)?;
        if self.idle_ns > LONGEST_NS {
            return Err(ConfigError::new("slc.idle_ns", self.idle_ns, "0 to 3600000000000 ns"));
        }
        for (field, value) in [("slc.program_ns", self.program_ns), ("slc.read_ns", self.read_ns)] {
            if let Some(ns) = value.filter(|&ns| ns == 0 || ns > LONGEST_NS) {
                return Err(ConfigError::new(field, ns, "1 to 3600000000000 ns"));
            }
        }
        Ok(())
    }
}

/// The SLC cache of a drive, as space sees it.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    dynamic_share: f64,
    fold: Fold,
    /// Pages of a block in SLC mode.
    pub pages: u32,
    /// The host has asked for nothing for a while.
    pub idle: bool,
}

impl Cache {
    pub fn new(config: &SlcConfig, pages: u32) -> Self {
        Self { dynamic_share: config.dynamic_share, fold: config.fold, pages, idle: false }
    }

    /// Whether another normal block may be written as SLC, where `cached` are and `free` are left.
    pub fn may_grow(&self, cached: u32, free: u32) -> bool {
        f64::from(cached + 1) <= self.dynamic_share * f64::from(cached + free)
    }

    /// Whether a block is to be folded now.
    pub fn folds(&self, full: bool) -> bool {
        match self.fold {
            Fold::Idle => self.idle,
            Fold::Pressure => full,
            Fold::Both => self.idle || full,
        }
    }

    /// Whether idleness is of any use.
    pub fn uses_idleness(&self) -> bool {
        self.fold != Fold::Pressure
    }
}
