//! Which plane a page goes to (PLAlloc).

use nandle_nand::Geometry;

use crate::error::ConfigError;

pub mod block_by_block;
pub mod in_turn;
pub mod least_busy;
pub mod order;

/// How planes are chosen.
#[derive(Clone, Debug)]
pub enum Striping {
    /// A fixed function of the logical page number.
    Static(order::Order),
    /// Decided anew for every page.
    Dynamic(Dynamic),
}

/// How, if not by the logical page number.
#[derive(Clone, Debug)]
pub enum Dynamic {
    /// By what the dies are doing.
    LeastBusy(least_busy::LeastBusy),
    /// One after the other.
    InTurn(in_turn::InTurn),
    /// By how much data lies in each plane.
    LeastFull(least_busy::LeastBusy),
    /// By where the stream's open block is.
    BlockByBlock(block_by_block::BlockByBlock),
}

impl Striping {
    /// What stands in for one that is being used.
    pub(crate) fn idle() -> Self {
        Self::Dynamic(Dynamic::LeastBusy(Default::default()))
    }

    /// Where several units share a page their numbers say nothing of it: with `gathers`, a fixed order becomes
    /// one by what the planes hold.
    pub(crate) fn by_pages(self, gathers: bool) -> Self {
        match self {
            Self::Static(_) if gathers => Self::Dynamic(Dynamic::LeastFull(Default::default())),
            other => other,
        }
    }

    /// Whether the logical page number alone says where a page goes.
    pub(crate) fn is_static(&self) -> bool {
        matches!(self, Self::Static(_))
    }

    /// The name of striping over the blocks of a superblock: which plane a page goes to is settled below, and a
    /// stream goes on from one superblock to the next.
    pub const SUPERBLOCK: &str = "superblock";

    /// From its name: an order such as `CWDP`, `dynamic`, `round-robin`, `block-by-block` or `superblock`.
    ///
    /// # Errors
    /// If the name is none of these.
    pub fn new(name: &str, geometry: &Geometry) -> Result<Self, ConfigError> {
        Ok(match name {
            "dynamic" => Self::idle(),
            "round-robin" => {
                let order = order::Order::by_channel(geometry);
                Self::Dynamic(Dynamic::InTurn(in_turn::InTurn::new(order)))
            }
            "block-by-block" | Self::SUPERBLOCK => Self::Dynamic(Dynamic::BlockByBlock(Default::default())),
            order => Self::Static(order::Order::new(order, geometry)?),
        })
    }
}
