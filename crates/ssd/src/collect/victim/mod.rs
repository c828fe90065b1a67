//! Which closed block of a plane is collected next.

use nandle_nand::Block;
use nandle_random::Stream;

pub use super::config::VictimKind;

use super::config::GcConfig;
use crate::catalog::Settings;
use crate::space::Candidates;

pub mod cost_benefit;
pub mod d_choices;
pub mod fifo;
pub mod greedy;

impl VictimKind {
    /// What the rule takes in brackets.
    pub fn settings(self) -> Settings {
        match self {
            Self::DChoices => d_choices::settings(),
            Self::Greedy | Self::CostBenefit | Self::Fifo => Settings::default(),
        }
    }
}

/// Chooses a victim among `from`, or none if no block would free anything.
pub(crate) fn pick(gc: &GcConfig, from: &Candidates<'_>, now: u64, draw: &mut Stream) -> Option<Block> {
    match gc.victim {
        VictimKind::Greedy => greedy::pick(from),
        VictimKind::CostBenefit => cost_benefit::pick(from, now),
        VictimKind::DChoices => d_choices::pick(from, gc.d, draw),
        VictimKind::Fifo => fifo::pick(from),
    }
}
