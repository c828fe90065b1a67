//! Which closed block of a plane is collected next.

use nandle_nand::Block;
use nandle_random::Stream;

use super::config::GcConfig;
use crate::space::Candidates;

pub mod cost_benefit;
pub mod d_choices;
pub mod fifo;
pub mod greedy;

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

/// Chooses a victim among `from`, or none if no block would free anything.
pub(crate) fn pick(gc: &GcConfig, from: &Candidates<'_>, now: u64, draw: &mut Stream) -> Option<Block> {
    match gc.victim {
        VictimKind::Greedy => greedy::pick(from),
        VictimKind::CostBenefit => cost_benefit::pick(from, now),
        VictimKind::DChoices => d_choices::pick(from, gc.d, draw),
        VictimKind::Fifo => fifo::pick(from),
    }
}
